# SPDX-License-Identifier: Apache-2.0
"""What the tester knows about the node: values and their writers, configurations, installations, and the promises about them."""

import dataclasses
import json
import os
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

from containerd import Containerd
from docker import Docker
from images import APP, PATTERN, Images
from kubelet import Kubelet, Mirror, OwnFile
from program import Program
from world import BOOT_ID, ETC, LAB, RELEASES, RUN, SCRIPTS, STATE, THP, Done, Task, Violation, World, clear, is_stopped, set_immutable

FIGHT_ROUNDS, FIGHT_SECONDS = 5, 600  # until a value is left to others
UNKNOWN = 3 * 30 + 5.0  # seconds until a value that cannot be read is unknown
SETTLED = 3.0  # seconds until status must show a change
NEW = ".headroom-new"  # what is to replace a file
TUNERS = ("sysctl", "thp", "runtime", "images", "kubelet")
OWNERS = ("unit", *RELEASES)  # the package's unit, and two releases of the chart


@dataclass
class Value:
    """A sysctl or switch, and who wrote it."""

    name: str
    path: Path
    tuner: str
    default: str
    only_raised: bool = False
    text: str = ""  # as last seen
    chosen: str = ""  # by a hand, or by the kernel at its boot
    by_hand: bool = True  # the last write
    changed: float = 0  # when
    firsts: set[str] = field(default_factory=set)  # before the program's first write; empty: it has not written
    loose: bool = False  # a restore was cut short: the record may be gone
    fights: list[float] = field(default_factory=list)  # when the agent wrote over a hand
    writes: list[float] = field(default_factory=list)  # when a hand wrote it
    recorded: str = ""  # when a process was killed, perhaps between record and write
    ours: set[str] = field(default_factory=set)  # a hand that writes one of these gives the value back to the program
    floor: str = ""  # chosen before the program's last write
    immutable: bool = False

    def read(self) -> str:
        return " ".join(self.path.read_text().split())

    def put(self, text: str) -> None:
        self.make_immutable(False)
        self.path.write_text(text + "\n")

    def make_immutable(self, on: bool) -> None:
        set_immutable(self.path, on)
        self.immutable = on

    def still_chosen(self, text: str) -> str:
        """After a hand wrote what may be ours: a killed program may not have written it, and then it is a choice."""
        if not self.only_raised:
            return self.floor
        return " ".join(min(pair, key=int) for pair in zip(self.floor.split(), text.split()))

    def is_of_others(self) -> bool:
        """Whether a hand wrote it last, and neither gave it back to the program nor took its original."""
        return self.by_hand and self.text not in (*self.ours, *self.firsts, self.recorded)

    def boot(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.put(self.default)
        self.text = self.chosen = self.floor = self.default
        self.by_hand, self.firsts, self.loose, self.changed, self.recorded = True, set(), False, 0, ""
        self.fights, self.writes, self.ours = [], [], set()


def values() -> dict[str, Value]:
    sysctl = [
        ("vm.max_map_count", "65530", True),
        ("net.ipv4.tcp_rmem", "4096 131072 6291456", True),
        ("vm.swappiness", "60", False),
    ]
    thp = [("thp.enabled", "enabled", "madvise"), ("thp.khugepaged.defrag", "khugepaged/defrag", "1")]
    made = [Value(n, Path("/proc/sys") / n.replace(".", "/"), "sysctl", d, only_raised=r) for n, d, r in sysctl]
    made += [Value(n, THP / p, "thp", d) for n, p, d in thp]
    return {value.name: value for value in made}


# Fields of a configuration and their choices. With None the text has no such field.
FIELDS: dict[str, list[Any]] = {
    "mode": ["enforce", "observe"],
    "sysctl.mode": [None, "observe", "off"],
    "thp.mode": [None, "observe", "off"],
    "on_drift": ["enforce", "yield", "report"],
    "runtime.mode": [None, "observe", "off"],
    "runtime.restart": ["now", "when-idle", "never"],
    "runtime.kind": ["containerd", "auto"],
    "downloads": ["10", "12", "2", None],
    "archives": [None, "/mnt/hung/a.tar", PATTERN, PATTERN],
    "pull": [None, "registry.example/app:1"],
    "pin": [None, APP],
    "images.mode": [None, "observe", "off"],
    "wave": [None, "{nodes: 1000, seeds: 1, gate: off}", "{nodes: 1000, seeds: 1, gate: peers}"],
    "mirrors": [None, Mirror.URL],
    "manage": [None, "true"],
    "vm.max_map_count": ["262144", "150000", "500000", None],
    "net.ipv4.tcp_rmem": ["4096 262144 16777216", "8192 131072 6291456", None],
    "vm.swappiness": ["1", "10", None],
    "thp.enabled": ["never", "always", None],
    "thp.khugepaged.defrag": ["0", "1", None],
}
# Hands write the default, less, more, a value of the program, or one in between.
WRITES = {
    "vm.max_map_count": ["65530", "30000", "262144", "200000", "300000", "900000"],
    "net.ipv4.tcp_rmem": ["4096 131072 6291456", "4096 300000 300000", "4096 262144 16777216", "9000 9000 99000000"],
    "vm.swappiness": ["60", "1", "100", "10"],
    "thp.enabled": ["madvise", "never", "always"],
    "thp.khugepaged.defrag": ["1", "0"],
}


@dataclass
class Config:
    """What an installation is configured to do."""

    owner: str
    fields: dict[str, Any]
    extra: str = ""

    @property
    def path(self) -> Path:
        return ETC / ("headroom.yaml" if self.owner == "unit" else f"{self.owner}.yaml")

    def mode(self, tuner: str) -> str:
        if tuner == "kubelet" and not self.fields["manage"]:
            return "off"
        return self.fields.get(f"{tuner}.mode") or self.fields["mode"]

    def text(self) -> str:
        f = self.fields
        sysctl = [f"  {name}: {f[name]!r}" for name in ("vm.max_map_count", "net.ipv4.tcp_rmem") if f[name]]
        if f["vm.swappiness"]:
            sysctl.append(f"  vm.swappiness: {{value: {f['vm.swappiness']}, exact: true}}")
        if f["sysctl.mode"]:
            sysctl.append(f"  mode: {f['sysctl.mode']}")
        thp = {"defrag": "keep", "shmem": "keep", "sizes": "keep", "enabled": f["thp.enabled"] or "keep"}
        thp["khugepaged_defrag"] = {"0": "false", "1": "true", None: "keep"}[f["thp.khugepaged.defrag"]]
        if f["thp.mode"]:
            thp["mode"] = f["thp.mode"]
        lines = [f"mode: {f['mode']}", f"on_drift: {f['on_drift']}", "profile: minimal", 'http: {listen: ""}']
        lines += ["sysctl:", *sysctl] if sysctl else []
        runtime = {"kind": f["runtime.kind"], "pull_progress_timeout": "keep", "restart": f["runtime.restart"]}
        runtime["max_concurrent_downloads"] = f["downloads"] or "keep"
        if f["runtime.mode"]:
            runtime["mode"] = f["runtime.mode"]
        if f["mirrors"]:
            runtime["mirrors"] = f"[{{registry: registry.example, url: {f['mirrors']!r}}}]"
        lines += ["runtime: {" + ", ".join(f"{k}: {v}" for k, v in runtime.items()) + "}"]
        mode = f", mode: {f['images.mode']}" if f["images.mode"] else ""
        lists = f"archives: [{f['archives'] or ''}], pull: [{f['pull'] or ''}], pin: [{f['pin'] or ''}]{mode}" + (f", wave: {f['wave']}" if f["wave"] else "")
        lines += [f"images: {{{lists}}}" if f["archives"] or f["pull"] or f["pin"] else "images: {mode: off}"]
        lines += [f"kubelet: {{manage: {f['manage']}}}" if f["manage"] else "kubelet: {mode: off}"]
        lines += ["thp: {" + ", ".join(f"{k}: {v}" for k, v in thp.items()) + "}", self.extra]
        return "\n".join(lines) + "\n"


@dataclass
class Agent:
    owner: str
    task: Task
    possible: list[Config]  # those that it may have loaded
    pod: str = ""
    stopped: bool = False

    @property
    def socket(self) -> Path:
        return (LAB / "empty" / self.owner / "headroom" if self.pod == "empty-run" else RUN) / "headroom.sock"

    @property
    def alive(self) -> bool:
        return self.task.process.poll() is None


class Node:
    """The world, with one value of each kind, and the knowledge of who may do what."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.values = values()
        self.others_off = ""
        self.commands: list[tuple[str, str, str | None]] = []  # under way: owner, verb, --only
        self.agents: dict[str, Agent] = {}
        self.released: dict[str, str] = {}  # tuner -> yes or maybe
        self.runtime = Containerd(self)
        self.docker = Docker(self, self.runtime.bus)
        self.kubelet, self.mirror = Kubelet(self), Mirror(self)
        self.own_files = {"kubelet": self.kubelet.own, "runtime": self.mirror.own}  # by tuner
        self.images = Images(self)
        self.programs: dict[str, Program] = {"containerd.max_concurrent_downloads": self.runtime, "docker.max-concurrent-downloads": self.docker}
        self.reset()
        world.watch = self.observe
        version = world.command("version", "--json", "--config", str(self.none())).out
        off = [tuner["name"] for tuner in json.loads(version[version.index("{") :])["tuners"]]  # after messages
        self.others_off = "\n".join(f"{name}: {{mode: off}}" for name in off if name not in TUNERS)

    def none(self) -> Path:
        path = ETC / "none.yaml"
        path.write_text('mode: observe\nprofile: minimal\nhttp: {listen: ""}\n')
        return path

    def reset(self) -> None:
        self.world.reset()
        for left in Path("/etc").rglob(f"*{NEW}"):  # of a process that was killed at the end of a history
            left.unlink()
        self.silent: dict[Path, float] = {}  # sockets without an answer, since when
        self.calm_until = self.readable = 0.0
        self.cut_off = False  # a process may have ended within a change
        self.enabled = True
        self.disturbed = False  # a full disk keeps sockets from being made
        self.wants: dict[str, Any] = {}
        self.agents.clear()
        self.released.clear()
        self.commands.clear()
        self.configs = {o: Config(o, {n: c[0] for n, c in FIELDS.items()}, self.others_off) for o in OWNERS}
        self.good: dict[str, list[Config]] = {o: [] for o in OWNERS}  # that it may have loaded
        self.faulty: set[str] = set()
        for owner in OWNERS:
            self.write_config(owner)
        self.runtime.reset()
        self.docker.reset()
        self.kubelet.reset()
        self.mirror.reset()
        self.images.reset()
        self.boot()

    def boot(self) -> None:
        self.world.boots += 1
        Path("/run/systemd/system").mkdir(parents=True, exist_ok=True)
        BOOT_ID.parent.mkdir(parents=True, exist_ok=True)
        BOOT_ID.write_text(f"00000000-0000-4000-8000-{self.world.boots:012}\n")
        for value in self.values.values():
            value.boot()
        self.runtime.start()

    # ---- what hands do ----

    def write_config(self, owner: str, in_place: bool = False) -> None:
        path, config = self.configs[owner].path, self.configs[owner]
        text = f"# {self.world.counter}\n{config.text()}"
        if in_place and path.exists():
            path.write_text(text)
        else:
            new = path.with_suffix(".new")
            new.write_text(text)
            new.rename(path)
        path.chmod(0o644)
        self.faulty.discard(owner)
        self.want(owner)
        if owner in self.agents:
            self.agents[owner].possible.append(config)
            self.good[owner].append(config)

    def write(self, name: str, text: str) -> None:
        """A hand writes a value."""
        self.observe()
        value = self.values[name]
        value.put(text)
        value.text, value.chosen = text, value.still_chosen(text) if text in value.ours else text
        value.by_hand, value.changed = True, self.world.now
        value.writes.append(self.world.now)

    # ---- what the program does ----

    def records_owner(self) -> str:
        """As restore finds it."""
        try:
            header = (RUN / "values").read_bytes()[:512]
            boot = BOOT_ID.read_text().strip().encode()
            if header[24:64].split(b"\0")[0] == boot and (owner := header[64:].split(b"\0")[0].decode()):
                return owner
        except OSError:
            pass
        try:
            return str(json.loads((STATE / "journal.json").read_text())["body"]["owner"])
        except (OSError, ValueError, KeyError):
            return ""

    def hangs_twice(self) -> bool:
        """
        Whether a second process would look up a name on a file system on which the first hangs. The kernel then lets
        nothing end the second one, so the program cannot keep its promises.
        """
        agents = [a for a in self.agents.values() if not a.pod and a.alive]
        return self.world.fuse >= 0 and bool(agents or self.commands)

    def fill_empty(self, owner: str) -> None:
        """A process that starts with an empty file takes the defaults, which manage more than this node has."""
        path = self.configs[owner].path
        if path.exists() and path.stat().st_size == 0:
            self.write_config(owner)

    def start(self, owner: str, crash: int = 0, pod: str = "host", env: dict[str, str] | None = None) -> None:
        self.fill_empty(owner)
        self.want(owner)
        pod = "" if owner == "unit" else pod
        if pod.startswith("empty"):
            clear(LAB / "empty" / owner)
        config = self.configs[owner]
        possible = self.good[owner] + ([] if owner in self.faulty else [config])
        if any(c.mode(t) == "enforce" for c in possible for t in TUNERS) and self.records_owner() != owner:
            # It may take over, and ends the releases of the other installation.
            self.released = {tuner: "maybe" for tuner in self.released}
        task = self.world.spawn("agent", "--config", str(config.path), owner=owner, crash=crash, pod=pod, env=env)
        self.agents[owner] = Agent(owner, task, possible, pod)
        if owner not in self.faulty:
            self.good[owner].append(config)
        self.world.settle()

    def forget_dead(self) -> None:
        for owner, agent in list(self.agents.items()):
            if not agent.alive:
                self.note_kill()
                self.world.tasks.pop(str(agent.task.number), None)
                del self.agents[owner]

    def end(self, owner: str, number: int = signal.SIGTERM) -> None:
        agent, began = self.agents[owner], self.world.now
        if agent.stopped:
            agent.task.process.send_signal(signal.SIGCONT)
            self.world.settle()
        agent.task.process.send_signal(number)
        done = self.world.finish(agent.task)[0]
        if number == signal.SIGTERM and self.world.now - began > 5.5:
            raise Violation("progress", f"SIGTERM ended the agent after {self.world.now - began} s")
        self.observe()
        del self.agents[owner]
        self.check_log(done)

    def note_kill(self) -> None:
        self.cut_off = True
        self.images.forget()
        for program in self.programs.values():
            program.note_kill({c.fields["downloads"] for c in (*self.configs.values(), *(c for good in self.good.values() for c in good))})
        for value in self.values.values():
            value.recorded = value.recorded or value.text
            value.ours |= {c.fields[value.name] for c in (*self.configs.values(), *(c for good in self.good.values() for c in good))}

    def check_log(self, done: Done) -> None:
        if done.crashed:
            self.note_kill()
        if done.code < 0 and done.code not in (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT):
            raise Violation("progress", f"{done.args} ended by signal {-done.code}: {done.out[-2000:]}")

    def run(self, owner: str, verb: str, *options: str, only: str | None = None, crash: int = 0, env: dict[str, str] | None = None) -> Done:
        done = self.run_all([(owner, verb, options, only, crash)], env=env)
        return done[0] if done else Done((verb,), 0, "", 0)

    def run_all(self, wanted: list[tuple[str, str, tuple[str, ...], str | None, int]], stop_at: int | str = 0, env: dict[str, str] | None = None, meanwhile: Callable[[], None] | None = None) -> list[Done]:
        """
        Runs commands, and judges what they did. With stop_at the first one stops at a change, or before it writes this file, or as
        env says, while the others run and meanwhile is called.
        """
        self.observe()
        owner_before, began = self.records_owner(), self.world.now
        before = self.remember()
        tasks = []
        for owner, verb, options, only, crash in wanted:
            if self.hangs_twice() and verb not in ("apply", "restore"):
                continue
            self.fill_empty(owner)
            self.commands.append((owner, verb, only))
            for value in self.values.values():
                value.loose |= verb == "restore" and only in (None, value.tuner)
            args = [verb, *options, *(["--only", only] if only else []), "--config", str(self.configs[owner].path)]
            stop = {"SHIFT_CRASH": str(stop_at), "SHIFT_SIGNAL": str(int(signal.SIGSTOP))} if stop_at and not tasks else env
            if isinstance(stop_at, str):
                stop = env or {"SHIFT_STOP": stop_at}
            pod = "" if owner == "unit" else "host"
            tasks.append(self.world.spawn(*args, owner=owner, crash=crash, env=stop, pod=pod))
            if stop_at and len(tasks) == 1:
                self.world.settle()
        if meanwhile and tasks and tasks[0].process.poll() is None and is_stopped(str(tasks[0].process.pid)):
            meanwhile()
        dones = self.world.finish(*tasks[1:]) if stop_at else []
        left = tasks[: len(tasks) - len(dones)]

        def go_on(_look: int = 0) -> None:  # it may stop later than its first sleep
            for task in left:
                if task.process.poll() is None:
                    task.process.send_signal(signal.SIGCONT)

        go_on()
        dones = self.world.finish(*left, each=go_on) + dones
        self.observe()
        self.commands.clear()
        alone = len(wanted) == 1
        for (owner, verb, options, only, _), done in zip(wanted, dones):
            self.check_log(done)
            if verb == "status" and done.seconds > 4:
                raise Violation("progress", f"status took {done.seconds} s")
            tuners = [only] if only else list(TUNERS)
            if verb == "apply":
                self.calm()
                for tuner in tuners:
                    if tuner in self.released:
                        self.released[tuner] = "maybe"
                # An agent with a /var/lib of its own ends a release only there.
                elsewhere = any(agent.pod == "empty-state" for agent in self.agents.values())
                if alone and done.code == 0 and not elsewhere:
                    for tuner in tuners:
                        self.released.pop(tuner, None)
            if verb == "restore":
                self.judge_restore(done, owner, options, tuners, owner_before, before, began, alone)
        return dones

    def remember(self) -> dict[str, Value]:
        """The values before a command."""
        return {name: dataclasses.replace(value, firsts=set(value.firsts), ours=set(value.ours)) for name, value in self.values.items()}

    def run_script(self, name: str, action: str, crash: int = 0) -> None:
        """Runs a script of the package. The unit is stopped or started by the caller, as systemd does."""
        if not self.configs["unit"].path.exists() or not self.configs["unit"].path.stat().st_size:
            self.write_config("unit")  # dpkg installs it again
        restores = name == "prerm" and action == "remove"
        owner_before, began = self.records_owner(), self.world.now
        before = self.remember()
        self.commands.append(("unit", "restore" if restores else "apply", None))
        for value in self.values.values():
            value.loose |= restores
        done = self.world.command(str(SCRIPTS / name), action, program="/bin/sh", crash=crash)
        self.observe()
        self.commands.clear()
        if restores:
            failed = done.code != 0 or "could not be restored" in done.out
            done.code = (-signal.SIGKILL if crash else 1) if failed else 0
            self.judge_restore(done, "unit", ("--purge",), list(TUNERS), owner_before, before, began, True)
        elif name == "postinst":
            self.released = {tuner: "maybe" for tuner in self.released}

    def judge_restore(
        self,
        done: Done,
        owner: str,
        options: tuple[str, ...],
        tuners: list[str],
        owner_before: str,
        before: dict[str, Value],
        began: float,
        alone: bool,
    ) -> None:
        foreign = owner_before not in ("", owner) and "--force" not in options
        if done.code == 1 and "headroom: " not in done.out and "not" not in done.out:
            raise Violation("originals", f"restore failed without a reason: {done.out}")
        for value in self.values.values():
            # Another command may have written the value before this one restored it.
            value.loose |= not alone and value.tuner in tuners and bool(value.firsts)
            was = before[value.name]
            text, by_hand, firsts = was.text, was.by_hand, was.firsts
            if value.tuner not in tuners or not firsts:
                continue
            quiet = alone and (not value.by_hand or value.changed < began)
            if foreign and alone:
                if quiet and value.text != text and not self.may_write(value, value.text):
                    raise Violation("consent", f"restore of {owner} changed {value.name} of {owner_before}: {done.out}")
            elif done.code == 0:
                others = was.is_of_others() and not was.loose and not self.corrects(value.tuner)
                allowed = {text} if others else firsts | ({text} if by_hand else set())
                if quiet and value.text not in allowed:
                    raise Violation("originals", f"restore left {value.name} at {value.text}, not {sorted(allowed)}: {done.out}")
                complete = all(agent.alive for agent in self.agents.values())  # else one may have named it before it was killed
                if quiet and complete and was.is_of_others() and not was.loose and value.name not in done.out:
                    raise Violation("consent", f"restore does not name {value.name}, which it left at {value.text} of others: {done.out}")
                value.recorded = ""
                value.ours = set() if alone else value.ours
                value.firsts, value.loose = (set(), False) if alone else (value.firsts, True)
            else:
                refused = "(original)" not in done.out  # as a whole
                if quiet and value.immutable and not refused and value.name not in done.out and not by_hand and text not in firsts and done.code == 1:
                    raise Violation("originals", f"restore does not name {value.name}, which it cannot change: {done.out}")
                value.loose = True
        if "runtime" in tuners and not foreign:
            for program in self.programs.values():
                if done.code == 0 and alone:
                    program.judge_restore(done.out)
                elif done.code == 1 and alone:
                    program.judge_failed_restore(done.out)
        for tuner, own in self.own_files.items():
            if tuner in tuners and not foreign and done.code == 0 and alone:
                own.judge_restore(done.out)
        if "images" in tuners and not foreign and done.code == 0 and alone:
            self.images.judge_restore(done.out)
        # An agent of another installation that cannot write yet ends the release once it can.
        taken_over = any(agent.owner != owner for agent in self.agents.values())
        for tuner in tuners:
            if not (foreign and alone):
                self.released[tuner] = "yes" if done.code == 0 and alone and not taken_over else "maybe"
        if "--purge" in options and not (foreign and alone):
            self.calm()
            self.released = {tuner: "maybe" for tuner in self.released}
            if done.code == 0 and alone:
                self.released = {}

    def possible_configs(self) -> list[Config]:
        """All that a process which runs now may have loaded."""
        found = [c for a in self.agents.values() for c in a.possible]
        return found + [c for owner, _, _ in self.commands for c in (self.configs[owner], *self.good[owner])]

    def corrects(self, tuner: str) -> bool:
        """Whether an agent may have written over a value of others just before it was restored: by on_drift, or for another configuration."""
        configs = [c for a in self.agents.values() for c in a.possible]
        enforces = self.released.get(tuner) != "yes" and any(c.mode(tuner) == "enforce" for c in configs)
        return enforces and any(c.fields["on_drift"] == "enforce" or c.fields != configs[0].fields for c in configs)

    def may_write(self, value: Value, text: str, restores: bool = True) -> bool:
        """Whether an enforcing agent or a command that runs now has consent to write this."""
        for agent in self.agents.values():
            if agent.pod == "empty-run":
                continue  # it cannot record originals on the node
            for config in agent.possible:
                if config.mode(value.tuner) == "enforce" and config.fields[value.name] and self.released.get(value.tuner) != "yes":
                    if self.is_wanted(value, config, text):
                        return True
        for owner, verb, only in self.commands:
            if only not in (None, value.tuner):
                continue
            if restores and verb == "restore" and text in value.firsts:
                return True
            agents = [c for a in self.agents.values() for c in a.possible]
            for config in [self.configs[owner], *self.good[owner], *agents]:
                if verb == "apply" and config.mode(value.tuner) == "enforce" and self.is_wanted(value, config, text):
                    return True
        return False

    def is_wanted(self, value: Value, config: Config, text: str) -> bool:
        wanted = config.fields[value.name]
        if not wanted or not value.only_raised:
            return text == wanted
        return all(int(a) >= int(b) for a, b in zip(text.split(), wanted.split()))

    # ---- promises ----

    def observe(self) -> None:
        """Sees what the program has written."""
        for seen in (*self.programs.values(), *self.own_files.values(), self.images):
            seen.observe()
        for value in self.values.values():
            text = value.read()
            if text == value.text:
                continue
            restoring = any(verb == "restore" for _, verb, _ in self.commands)
            if not self.may_write(value, text):
                promise = "originals" if value.firsts and restoring else "consent"
                raise Violation(promise, f"{value.name} was changed from {value.text} to {text}: {self.explain()}")
            restoring = restoring and text in value.firsts
            if restoring and value.is_of_others() and not self.corrects(value.tuner) and not self.may_write(value, text, restores=False):
                raise Violation("consent", f"restore set {value.name} to {text}, others had set it to {value.text}: {self.explain()}")
            if value.by_hand and value.firsts and not self.commands:
                self.fight(value)
            if restoring:
                value.chosen = text  # whoever restores chooses the original
            elif value.only_raised:
                if any(int(a) < int(b) for a, b in zip(text.split(), value.chosen.split())):
                    raise Violation("raises only", f"{value.name} is {text}, but {value.chosen} was chosen: {self.explain()}")
            if not value.firsts or (value.loose and value.by_hand):
                value.firsts |= {value.text, value.recorded or value.text}
            value.text, value.by_hand, value.changed = text, False, self.world.now
            value.ours, value.floor = set() if restoring else {text}, value.chosen
            value.loose = value.loose and restoring

    def fight(self, value: Value) -> None:
        since = max(self.world.now - FIGHT_SECONDS, self.calm_until)
        value.fights = [at for at in (*value.fights, self.world.now) if at > since]
        if len(value.fights) > FIGHT_ROUNDS + 1:
            raise Violation("consent", f"{value.name} was fought over at {value.fights}: {self.explain()}")

    @staticmethod
    def was_fight(writes: list[float]) -> bool:
        """The agent may see a write later, so one round less is enough."""
        return any(later - at < FIGHT_SECONDS for at, later in zip(writes, writes[FIGHT_ROUNDS - 1 :]))

    def calm(self) -> None:
        """apply, or another wanted value, forgets earlier fights. A restart or a reload does not."""
        self.calm_until = self.world.now + SETTLED

    def want(self, owner: str) -> None:
        """An installation may come to want something else. A tuner that is off forgets."""
        config = self.configs[owner]
        wants = {name: (config.fields[name], config.mode(value.tuner)) for name, value in self.values.items()}
        if wants != self.wants or owner in self.faulty or self.disturbed:
            self.calm()
        self.wants = wants

    def explain(self) -> str:
        agents = {o: [c.fields for c in a.possible] for o, a in self.agents.items()}
        logs = [a.task.out.read_text()[-1000:] for a in self.agents.values() if a.task.out.exists()]
        return f"logs {logs}, released {self.released}, commands {self.commands}, agents {agents}"

    def running(self) -> Agent | None:
        """The agent that answers."""
        return next((a for a in self.agents.values() if a.alive and not a.stopped), None)

    def check(self, quiet: bool = False) -> None:
        """After each step. quiet: nobody has done anything for ten seconds."""
        self.observe()
        self.forget_dead()
        self.runtime.check_restored()
        self.docker.check_flag()
        self.docker.check_pull()
        for directory in (RUN, STATE):
            size = sum(p.lstat().st_blocks * 512 for p in directory.rglob("*")) if directory.exists() else 0
            if size > 20 << 20:
                raise Violation("room", f"{directory} takes {size} bytes")
        stopped_now = any(a.stopped for a in self.agents.values())
        if not self.cut_off and not stopped_now and not self.disturbed:
            self.check_left()
        # Two agents have one path. If that of one is stopped, the other does not answer there.
        stopped = {a.socket for a in self.agents.values() if a.stopped}
        paths = {a.socket for a in self.agents.values()} - stopped
        self.silent = {path: since for path, since in self.silent.items() if path in paths}
        for path in sorted(paths):
            document = self.world.get("/v1/status", path)
            # A socket that another agent has left is tried again every ten seconds.
            since = self.silent.setdefault(path, self.world.now) if document is None else self.silent.pop(path, 0)
            if document is None and not self.disturbed and self.world.now - since > 15:
                raise Violation("progress", f"no agent answers: {self.explain()}")
            self.check_settings(document or {"settings": []}, quiet)
            self.images.check(document or {})

    def check_settings(self, document: dict[str, Any], quiet: bool) -> None:
        if self.world.fuse < 0 or not self.kubelet.FILE.is_symlink():
            self.readable = self.world.now
        for tuner in document.get("tuners", []):
            if tuner["mode"] == "released" and tuner["name"] in TUNERS and tuner["name"] not in self.released:
                raise Violation("consent", f"{tuner['name']} is still released: {self.explain()}")
        for setting in document["settings"]:
            if setting["tuner"] == "kubelet" and setting["state"] == "in-sync" and self.world.now - self.readable > UNKNOWN:
                raise Violation("truth", f"the file of the kubelet hangs since {self.readable}, but status says {setting}")
            value = self.values.get(setting["name"])
            if program := self.programs.get(setting["name"]):
                program.check(setting)
            if not value or self.world.now - value.changed <= SETTLED:
                continue
            actual = value.text
            if setting["state"] == "in-sync" and (setting["actual"] != actual or setting["wanted"] != actual):
                raise Violation("truth", f"{value.name} is {actual}, but status says {setting}")
            if setting["actual"] != actual:
                raise Violation("truth", f"{value.name} is {actual}, but status says {setting}")
            if setting["reason"] == "rewritten-too-often" and not self.was_fight(value.writes):
                raise Violation("consent", f"{value.name} is left to others after {value.writes}: {self.explain()}")
            if quiet and (setting["state"] in ("pending", "drifted") and setting["reason"] != "left-by-on-drift"):
                raise Violation("progress", f"after ten quiet seconds: {setting}")

    def check_left(self, everywhere: bool = False) -> None:
        """Nothing temporary is left behind."""
        files = [Path(f"{file}{NEW}") for file in (*(p.FILE for p in self.programs.values()), *(p for own in self.own_files.values() for p in own.paths))]
        left = {str(file) for file in files if file.exists()} | (self.world.private_files() - self.world.private)
        if everywhere:
            self.world.settle()
            left |= {str(path) for directory in ("/etc", "/run", "/var/lib") for path in Path(directory).rglob(f"*{NEW}")}
            left |= self.world.mounts() - self.world.mounted
            fakes = {p.process.pid for p in (*self.programs.values(), self.kubelet) if p.process}
            left |= {f"process {pid} {Path(f'/proc/{pid}/comm').read_text().strip()}" for pid in self.world.pids() if int(pid) not in self.world.kept | fakes}
        if left:
            raise Violation("room", f"{sorted(left)} are left behind: {self.explain()}")

    def end_history(self) -> None:
        """At the end everyone stops, and the owner restores: every original is back."""
        self.world.actors.clear()
        self.world.make_room()
        self.mirror.become("down")
        for seen in (*self.values.values(), *self.programs.values()):
            seen.make_immutable(False)
        self.runtime.make_well()
        self.docker.make_well()
        self.forget_dead()
        for owner in list(self.agents):
            self.end(owner)
        self.observe()
        owner = self.records_owner()
        if not owner:
            for program in self.programs.values():
                program.judge_end()
            if missing := [v.name for v in self.values.values() if v.firsts and not v.by_hand and v.text not in v.firsts]:
                raise Violation("originals", f"no record of {missing}")
            return
        done = self.run(owner, "restore")
        if done.code != 0:
            raise Violation("originals", f"the last restore failed: {done.out}")
        self.check_left(everywhere=True)
