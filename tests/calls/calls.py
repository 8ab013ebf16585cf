# SPDX-License-Identifier: Apache-2.0
"""Scenarios with one failing system call, and what must hold after each.

The program neither crashes nor hangs. A command that reports success has reached its aim; one that has not reports why. A restore
without a fault then brings back every original.
"""

import argparse
import contextlib
import random
import re
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import private_node as lab
from incidentlab import full_inotify
from private_node import APP, BIN, CONTAINERD_TOML, DAEMON_JSON, LAB, ORIGINAL_JSON, ORIGINAL_TOML, RUN, STATE, Node, Notify, stop, values, wanted

FAIL_CALLS = lab.TOOLS / "fail_calls"
LONGEST = 60  # seconds of a command
CRASHES = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSYS, signal.SIGPIPE}
SANITIZER = re.compile(r"(AddressSanitizer|runtime error)[^\n]*")
ONCE = {"EINTR", "EAGAIN", "EPERM", "ENOTCONN", "short", "kill", "power"}
FOR_GOOD = {"EIO", "EMFILE", "ENOSPC", "EROFS", "ENOMEM"}  # errors that may stay
LIBRARY = re.compile(r"/[^ ]+\.so[.0-9]*$|/etc/ld\.so")


@dataclass
class Fault:
    """The call, and its error. None: no fault."""

    at: int
    error: str
    always: bool = False

    def __str__(self) -> str:
        return f"{self.at}:{self.error}{':always' if self.always else ''}"

    def options(self) -> list[str]:
        places = (STATE, DAEMON_JSON.parent, CONTAINERD_TOML.parent)
        disks = [option for place in places for option in ("--disk", str(place))] if self.error == "power" else []
        error = "kill" if self.error == "power" else self.error
        return ["--at", str(self.at), "--error", error, *disks, *(["--always"] if self.always else [])]


@dataclass
class Done:
    """What a run did."""

    code: int
    output: str
    calls: list[str]  # of the report, without its last line
    ended: str  # its last line
    stopped: bool = True  # an agent ended after SIGTERM
    ready: bool = True  # an agent said so


class Broken(AssertionError):
    """A rule that does not hold."""


class Scenario:
    name = ""
    arguments: tuple[str, ...] = ()
    is_apart = True  # nothing outside of its namespaces notices it
    files = {DAEMON_JSON: ORIGINAL_JSON}

    def __init__(self, node: Node) -> None:
        self.node = node

    def prepare(self) -> None:
        """The node before the command."""

    def act(self, process: "subprocess.Popen[str]", notify: Notify) -> bool:
        """What happens during an agent's life. False if it did not become ready."""
        return True

    def aim(self) -> str:
        """What the command has not reached, or nothing."""
        raise NotImplementedError

    def is_told(self, done: Done) -> bool:
        """A command that has not reached its aim says so."""
        return done.code != 0 and bool(done.output.strip())

    def finish(self) -> None:
        """What people do after the fault is gone."""

    # ---- a run ----

    def run(self, fault: Fault | None) -> Done:
        report, output = LAB / "report", LAB / "output"
        notify = Notify()
        command = [str(FAIL_CALLS), "--report", str(report), *(fault.options() if fault else []), str(BIN), *self.arguments]
        with output.open("w") as file:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, text=True, env=lab.environment(notify.path))
        stopped = ready = True
        try:
            if self.arguments[0] == "agent":
                ready = self.act(process, notify)
                stopped = stop(process)
            process.wait(LONGEST)
        except subprocess.TimeoutExpired:
            stopped = False
            process.kill()
            process.wait()
        notify.close()
        lines = report.read_text(errors="replace").splitlines() or [""]
        return Done(process.returncode, output.read_text(errors="replace"), lines[:-1], lines[-1], stopped, ready)

    def check(self, fault: Fault, done: Done) -> None:
        crash = SANITIZER.search(done.output)
        if crash:
            raise Broken(f"crashes: {crash.group(0)}")
        if done.ended.startswith("signal") and int(done.ended.split()[1]) in CRASHES:
            raise Broken(f"crashes: {done.ended}")
        if not done.stopped:
            raise Broken("hangs")
        killed = fault.error in ("kill", "power")
        missed = self.aim()
        if missed and not killed and not self.is_told(done):
            raise Broken(f"says nothing: exit status {done.code}, and {missed}; it printed {done.output[-300:]!r}")

    def recover(self, fault: Fault) -> None:
        if fault.error == "power":
            self.node.boot()
            subprocess.run(["rm", "-rf", str(RUN)], check=True)
        self.finish()
        answer = self.node.command("restore")
        if answer.returncode != 0:
            raise Broken(f"restore fails afterwards: {answer.stdout}{answer.stderr}")
        if values() != wanted(0):
            raise Broken(f"originals are lost: {values()}")
        for path, text in self.files.items():
            if path.read_text() != text:
                raise Broken(f"the original is lost: {path.read_text()!r}")
        left = [str(p) for d in (RUN, STATE, *(path.parent for path in self.files)) for p in d.rglob("*") if re.search(r"\.tmp|\.new|#", p.name)]
        if left and not fault.always and fault.error not in ("kill", "power"):
            raise Broken(f"temporary files are left: {left}")


def not_in_force(step: int) -> str:
    now, want = values(), wanted(step)
    return ", ".join(f"{name} is {now[name]}, not {want[name]}" for name in want if now[name] != want[name])


class Apply(Scenario):
    name = "apply"
    arguments = ("apply", "--config", "/mnt/headroom.yaml")

    def prepare(self) -> None:
        self.node.write_config(1)

    def aim(self) -> str:
        return not_in_force(1)


class Restore(Scenario):
    name = "restore"
    arguments = ("restore",)

    def prepare(self) -> None:
        self.node.write_config(1)
        assert self.node.command("apply", "--config", str(self.node.config)).returncode == 0

    def aim(self) -> str:
        return not_in_force(0)


class File(Scenario):
    """A file transaction: daemon.json, which dockerd reads again."""

    name = "file"
    arguments = ("apply", "--config", "/mnt/headroom.yaml")

    def prepare(self) -> None:
        self.node.start_dockerd()
        self.node.write_config(1, "docker")

    def aim(self) -> str:
        missed = not_in_force(1)
        return missed or ("" if self.node.key() == 10 else f"the file has {self.node.key()}, not 10")


class FileRestore(File):
    name = "file-restore"
    arguments = ("restore",)

    def prepare(self) -> None:
        super().prepare()
        answer = self.node.command("apply", "--config", str(self.node.config))
        assert self.node.key() == 10, answer

    def aim(self) -> str:
        missed = not_in_force(0)
        return missed or ("" if DAEMON_JSON.read_text() == ORIGINAL_JSON else "the file is not the original")


class Restart(Scenario):
    """A file transaction with a restart: containerd, by a fake systemd."""

    name = "restart"
    arguments = ("apply", "--config", "/mnt/headroom.yaml")
    files = {CONTAINERD_TOML: ORIGINAL_TOML}

    def prepare(self) -> None:
        CONTAINERD_TOML.write_text(ORIGINAL_TOML)
        self.node.launch_containerd()
        self.until_it_answers()
        self.node.start_systemd()
        self.node.write_config(1, "restart")

    def until_it_answers(self) -> None:
        deadline = time.monotonic() + 20
        while self.node.ctr("version").returncode != 0:
            if time.monotonic() > deadline:
                raise Broken("containerd does not answer")
            time.sleep(0.05)

    def aim(self) -> str:
        assert self.node.systemd
        is_written = "max_concurrent_downloads = 10" in CONTAINERD_TOML.read_text()
        return not_in_force(1) or ("" if is_written and self.node.systemd.restarted else f"written: {is_written}, restarted: {self.node.systemd.restarted}")

    def is_told(self, done: Done) -> bool:
        """A value that is written and waits for the restart, with its reason, is no failure."""
        return super().is_told(done) or bool(re.search(r"does-not-load|restart-(pending|refused)|no-systemd", done.output))

    def finish(self) -> None:
        self.until_it_answers()


class AgentScenario(Scenario):
    arguments = ("agent", "--config", "/mnt/headroom.yaml")

    def is_told(self, done: Done) -> bool:
        return bool(re.search(r"(Degraded|cannot|failed|not recorded|not set|not loaded|out of memory|Too many|No space|Input/output|Read-only|not permitted)", done.output, re.I))

    @staticmethod
    def until(check: Callable[[], bool], process: "subprocess.Popen[str]", seconds: float = 4) -> None:
        deadline = time.monotonic() + seconds
        while not check() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)


    def next_agent(self, check: Callable[[], bool], what: str) -> None:
        """An agent without a fault does what the first one could not."""
        notify = Notify()
        command = [str(BIN), *self.arguments]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True, env=lab.environment(notify.path))
        try:
            if not notify.ready(process):
                raise Broken("the next agent does not become ready")
            self.until(check, process, 15)
            if not check():
                raise Broken(f"the next agent {what}")
        finally:
            ended = stop(process)
            notify.close()
        if not ended:
            raise Broken("the next agent hangs")


class Reload(AgentScenario):
    name = "reload"

    def prepare(self) -> None:
        self.node.write_config(1)

    def act(self, process: "subprocess.Popen[str]", notify: Notify) -> bool:
        if not notify.ready(process):
            return False
        self.node.write_config(2)
        process.send_signal(signal.SIGHUP)
        self.until(lambda: not not_in_force(2), process)
        return True

    def aim(self) -> str:
        return not_in_force(2)

    def finish(self) -> None:
        self.node.write_config(2)
        self.next_agent(lambda: not not_in_force(2), "does not set the values")


class Incident(AgentScenario):
    name = "incident"
    is_apart = False  # agents of other tests see who has all inotify instances

    def prepare(self) -> None:
        self.node.write_config(1, on="limits")

    def act(self, process: "subprocess.Popen[str]", notify: Notify) -> bool:
        if not notify.ready(process):
            return False
        with full_inotify():
            self.until(lambda: bool(self.incidents()), process, 6)
        return True

    @staticmethod
    def incidents() -> list[Path]:
        return [path for path in (STATE / "incidents").glob("2*.jsonl") if "inotify" in path.read_text(errors="replace")]

    def aim(self) -> str:
        return "" if self.incidents() else "no incident is recorded"

    def finish(self) -> None:
        answer = self.node.command("incidents", "--json")
        if answer.returncode != 0:
            raise Broken(f"incidents fails afterwards: {answer.stderr}")


class Load(AgentScenario):
    """An archive of an image, into Debian's containerd."""

    name = "load"

    def prepare(self) -> None:
        self.node.start_containerd()
        self.node.remove_image()
        self.node.write_config(1, more="images: {archives: [/var/lib/images/app.tar]}\n", kind="containerd")

    def act(self, process: "subprocess.Popen[str]", notify: Notify) -> bool:
        if not notify.ready(process):
            return False
        self.until(self.node.has_image, process, 6)
        return True

    def aim(self) -> str:
        return not_in_force(1) or ("" if self.node.has_image() else f"{APP} is not there")

    def finish(self) -> None:
        self.next_agent(self.node.has_image, f"does not load {APP}")


@dataclass
class Tally:
    calls: int = 0
    faults: int = 0
    runs: int = 0
    failures: list[str] = field(default_factory=list)


NUMBER = re.compile(r"[0-9]+|/tmp/[^ ]*")


def faults_of(done: Done, every: bool, only: list[str]) -> list[Fault]:
    """The calls after the program's libraries are loaded, with each error. Of calls like each other the first and the last count."""
    config = next((i for i, line in enumerate(done.calls) if "/mnt/headroom.yaml" in line or " /run/headroom" in line), 0)
    first = max((i for i, line in enumerate(done.calls[:config]) if LIBRARY.search(line)), default=0)
    alike: dict[str, list[str]] = {}
    for line in done.calls[first + 1 :]:
        number, call = line.split(" ", 1)
        alike.setdefault(line if every else NUMBER.sub("N", call), []).append(line)
    faults = []
    for lines in alike.values():
        for line in {lines[0], lines[-1]}:
            number, name, *rest = line.split(" ")
            for error in rest if not only or name in only else []:
                if error in (*ONCE, *FOR_GOOD):
                    faults.append(Fault(int(number), error))
                if error in FOR_GOOD:
                    faults.append(Fault(int(number), error, True))
    return sorted(faults, key=lambda fault: fault.at)


SCENARIOS: list[type[Scenario]] = [Apply, Restore, File, FileRestore, Restart, Reload, Incident, Load]


def play(scenario: Scenario, fault: Fault) -> str:
    """The failure of one run, or nothing."""
    scenario.node.reset()
    scenario.prepare()
    done = scenario.run(fault)
    call = done.calls[fault.at - 1] if len(done.calls) >= fault.at else "(not reached)"
    call = " ".join(word for word in call.split(" ")[1:] if word not in (*ONCE, *FOR_GOOD))
    try:
        scenario.check(fault, done)
        scenario.recover(fault)
    except Broken as why:
        return f"{scenario.name}:{fault}: {call}: {why}"
    except Exception as why:  # of the tester itself
        return f"{scenario.name}:{fault}: {call}: {type(why).__name__}: {why}"
    return ""


def explore(node: Node, apart: bool, names: list[str], seconds: float, seed: int, every: bool, error: str, only: list[str]) -> dict[str, Tally]:
    tallies: dict[str, Tally] = {}
    todo: list[tuple[Scenario, Fault]] = []
    for kind in SCENARIOS:
        if (names and kind.name not in names) or (apart and not kind.is_apart):
            continue
        scenario = kind(node)
        node.reset()
        scenario.prepare()
        done = scenario.run(None)
        missed = scenario.aim()
        assert not missed and done.code == 0, f"{kind.name} without a fault: {missed} {done.output}"
        faults = [fault for fault in faults_of(done, every, only) if error in ("", fault.error)]
        tallies[kind.name] = Tally(len({fault.at for fault in faults}), len(faults))
        todo += [(scenario, fault) for fault in faults]
    if seconds:
        random.Random(seed).shuffle(todo)
    began = time.monotonic()
    for scenario, fault in todo:
        if seconds and time.monotonic() - began > seconds:
            break
        tally = tallies[scenario.name]
        failure = play(scenario, fault)
        tally.runs += 1
        if failure:
            tally.failures.append(failure)
            print(f"{failure}\n    tests/calls/run --replay {scenario.name}:{fault}", flush=True)
    return tallies


def replay(node: Node, text: str) -> int:
    name, at, error, *always = text.split(":")
    scenario = next(kind for kind in SCENARIOS if kind.name == name)(node)
    failure = play(scenario, Fault(int(at), error, bool(always)))
    print((LAB / "output").read_text(errors="replace"), failure or "every rule holds", sep="\n")
    return 1 if failure else 0


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="tests/calls/run")
    parser.add_argument("scenarios", nargs="*")
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--every", action="store_true", help="also calls between the first and the last one of those that are alike")
    parser.add_argument("--error", default="", help="only this one, such as ENOSPC, kill or power")
    parser.add_argument("--call", action="append", default=[], help="only this one, such as openat2; may be given again")
    parser.add_argument("--replay")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--apart", action="store_true", help="only scenarios that may run beside other tests")
    options = parser.parse_args(arguments)
    if options.list:
        print(*(f"{kind.name}" for kind in SCENARIOS), sep="\n")
        return 0
    node = Node()
    if options.replay:
        return replay(node, options.replay)
    tallies = explore(node, options.apart, options.scenarios, options.seconds, options.seed, options.every, options.error, options.call)
    print("| scenario | calls | faults | runs | failures |\n|---|---:|---:|---:|---:|")
    for name, tally in tallies.items():
        print(f"| {name} | {tally.calls} | {tally.faults} | {tally.runs} | {len(tally.failures)} |")
    return 1 if any(tally.failures for tally in tallies.values()) else 0
