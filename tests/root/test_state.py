# SPDX-License-Identifier: Apache-2.0
"""Modes, releases, locks and directories of the agent. Only one process writes at a time."""

import contextlib
import fcntl
import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Callable, Iterator

import pytest
from conftest import ASAN, BIN, DEFAULTS, ROOT, THRESHOLDS, Agent, Node, environment, mounted, read, restored_node, spawn, sysctl, until
from test_modes import leave_open, made, under, wrong_modes


@pytest.mark.parametrize("how", ["gone", pytest.param("empty", marks=pytest.mark.slow)])
def test_the_agent_keeps_its_configuration_when_the_file_disappears(node: Node, agent, run, how: str) -> None:
    """An editor, a deleted ConfigMap or a full disk must not lead to the defaults, which enforce everything."""
    one = agent("mode: observe")
    text = one.config_path.read_text()
    if how == "gone":
        one.config_path.unlink()
    else:
        one.config_path.write_text("")
    condition = one.wait_condition("ConfigInvalid")
    assert one.config_path.name in condition["message"]
    time.sleep(1.5)
    node.assert_unchanged()
    assert one.tuner("neighbor")["mode"] == "observe"
    assert run("status", "--config", str(one.config_path)).returncode == 2
    one.config_path.write_text(text)
    one.wait_condition("ConfigInvalid", "False")


def test_observe_mode_lists_what_would_change(node: Node, directory: Path, agent, run) -> None:
    (directory / "observe.yaml").write_text("mode: observe\n")
    answer = run("plan", "--config", str(directory / "observe.yaml"))
    assert answer.returncode == 2
    assert THRESHOLDS[2] in answer.stdout
    one = agent("mode: observe")
    metrics = one.metrics()
    for name, wanted in DEFAULTS.items():
        assert metrics[f'headroom_setting_in_sync{{setting="{name}"}}'] == float(sysctl(name) == wanted)
    sysctl(THRESHOLDS[5], 100000)
    until(lambda: one.metrics()[f'headroom_setting_in_sync{{setting="{THRESHOLDS[5]}"}}'] == 1, "an equal value is in sync")
    assert run("apply").returncode == 1, "apply fails in observe mode"


def test_the_observe_option_needs_no_write_access(node: Node, agent, directory: Path) -> None:
    for name in ("state", "run"):
        (directory / name).mkdir(exist_ok=True)
    one = agent(args=("--observe",), wrap=mounted(f"mount -t tmpfs -o ro none {directory}/state"))
    assert one.setting(THRESHOLDS[0])["state"] == "observed"
    assert one.condition("AgentDegraded")["status"] == "False", one.condition("AgentDegraded")
    assert one.condition("SettingFailed")["status"] == "False"
    node.assert_unchanged()


def test_commands_reach_the_agent_with_a_broken_file_on_disk(node: Node, agent, run) -> None:
    one = agent("neighbor: {ipv4: {gc_thresh3: 101000}}")
    one.write_config("neighbor: {ipv4: {gc_thresh3: many}}")
    config = ("--config", str(one.config_path))
    one.wait_condition("ConfigInvalid")
    status = run("status", *config)
    assert status.returncode == 2 and "ConfigInvalid" in status.stdout
    assert run("top", *config).returncode == 0
    assert run("plan", *config).returncode == 0
    restored = run("restore", *config)
    assert restored.returncode == 0, restored.stderr
    node.assert_unchanged()
    plan = run("plan", *config)
    assert plan.returncode == 2 and "101000" in plan.stdout


def test_apply_fails_if_a_value_cannot_be_set(node: Node, run) -> None:
    read_only = mounted("mount --bind /proc/sys /proc/sys; mount -o remount,bind,ro /proc/sys")
    answer = run("apply", "--only", "sysctl", wrap=read_only)
    assert answer.returncode == 1
    assert "Read-only" in answer.stderr
    node.assert_unchanged()


def test_nothing_is_written_without_the_boot_id(node: Node, directory: Path, run) -> None:
    """A record without it would count as one of an earlier boot."""
    other = directory / "long"
    other.write_text("x" * 5000)
    answer = run("apply", wrap=mounted(f"mount --bind {other} /proc/sys/kernel/random/boot_id"))
    assert answer.returncode == 1 and "boot_id" in answer.stderr, answer
    node.assert_unchanged()


VOLUME = "mount -t tmpfs none /{parent}; mkdir /{parent}/headroom"


@pytest.mark.apart
@pytest.mark.parametrize(
    "parent, own, state",
    [
        ("run", "mount -t tmpfs none /run", "observed"),
        ("run", VOLUME, "observed"),
        ("run", "mount --bind {host}/run /run", "in-sync"),
        ("var/lib", VOLUME, "in-sync"),
        ("var/lib", "mount --bind {host}/var/lib /var/lib", "in-sync"),
    ],
)
def test_originals_are_recorded_only_in_the_hosts_directories(directory: Path, parent: str, own: str, state: str) -> None:
    """Originals in the container's root, or in an emptyDir in place of the host's directory, would end with the container."""
    host = directory / "host"
    (host / parent / "headroom").mkdir(parents=True)
    count = host / "proc/sys/vm/max_map_count"
    count.parent.mkdir(parents=True)
    count.write_text("100000\n")
    config = f"http: {{listen: '', socket: {directory}/one.sock}}\nsysctl: {{vm.max_map_count: 262144}}\nneighbor: {{mode: off}}"
    variable = "HEADROOM_RUNTIME_DIR" if parent == "run" else "HEADROOM_STATE_DIR"
    script = f"{own.format(host=host, parent=parent)}\nunset {variable}"
    with contextlib.closing(Agent(directory, config, wrap=mounted(script), env={"HEADROOM_HOST_ROOT": str(host)})) as one:
        one.socket_path = directory / "one.sock"
        message = one.wait_ready().condition("AgentDegraded")["message"]
        assert one.setting("vm.max_map_count")["state"] == state
    assert (f"/{parent}/headroom: not the host's" in message) == ("bind" not in own), message
    assert read(count) == ("100000" if state == "observed" else "262144")


@pytest.mark.slow
def test_a_purge_beside_a_running_agent_waits_and_is_refused(agent, run) -> None:
    agent()
    refused = run("restore", "--purge", timeout=40)
    assert refused.returncode == 1 and "lock is held" in refused.stderr
    assert sysctl(THRESHOLDS[2]) == DEFAULTS[THRESHOLDS[2]]


def test_a_purge_removes_the_records_and_a_new_agent_enforces(node: Node, agent, run, directory: Path) -> None:
    one = agent()
    ending = threading.Timer(1, one.stop)  # like a pod that is being deleted
    ending.start()
    purged = run("restore", "--purge")
    ending.join()
    assert purged.returncode == 0, purged.stderr
    node.assert_unchanged()
    assert not (directory / "run").exists() and not (directory / "state").exists()
    agent()
    assert sysctl(THRESHOLDS[2]) == DEFAULTS[THRESHOLDS[2]]


@pytest.mark.quick
def test_a_second_agent_names_the_holder_of_the_lock(agent) -> None:
    one = agent()
    two = agent(ready=False, name="second")
    assert two.process.wait(10) == 75
    assert f"the lock is held by agent, pid {one.pid}" in two.log
    assert not two.notified("READY=1")
    assert one.process.poll() is None
    assert one.get("/livez")[0] == 200


def fake_host(directory: Path, value: int = 100000) -> dict[str, str]:
    """A host with one value and no kernel: its tests run beside those of the machine."""
    count = directory / "host/proc/sys/vm/max_map_count"
    count.parent.mkdir(parents=True)
    count.write_text(f"{value}\n")
    return {"HEADROOM_HOST_ROOT": str(directory / "host")}


FAKE = "sysctl: {vm.max_map_count: 262144}\nneighbor: {mode: off}\nthp: {mode: off}"
LOCK_IT = "import fcntl, sys, time; lock = open(sys.argv[1]); fcntl.flock(lock, fcntl.LOCK_EX); print(flush=True); time.sleep(60)"


@contextlib.contextmanager
def lock_of_a_stranger(path: Path) -> Iterator[subprocess.Popen[str]]:
    command = ["/usr/bin/python3", "-c", LOCK_IT, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as stranger:
        assert stranger.stdout and stranger.stdout.readline()
        try:
            yield stranger
        finally:
            stranger.kill()


@pytest.mark.apart
@pytest.mark.parametrize("left", ["agent, pid 1", "apply, pid 1", ""])
def test_the_unit_tries_again_beside_any_process_but_an_agent(directory: Path, run, left: str) -> None:
    """The text in the lock may be that of a process that has ended: the kernel knows who holds it."""
    assert "RestartPreventExitStatus=75\n" in (ROOT / "packaging/headroom.service").read_text()
    env = fake_host(directory)
    (directory / "run").mkdir()
    (directory / "run/lock").write_text(f"{left}\n" * bool(left))
    with lock_of_a_stranger(directory / "run/lock") as stranger:
        holder = f"the lock is held by python3, pid {stranger.pid}"
        with contextlib.closing(Agent(directory, FAKE, env=env)) as one:
            assert one.process.wait(10) == 1
            assert f"{holder}: " in one.log
        answer = run("restore", env=env)
        assert answer.returncode == 1 and f"{holder}: " in answer.stderr
    with contextlib.closing(Agent(directory, FAKE, env=env, name="second")) as one:
        one.wait_ready()


@pytest.mark.apart
@pytest.mark.parametrize("mode, value", [("observe", "100000"), ("enforce", "262144")])
@pytest.mark.parametrize("text", ["", " \n\n", "# mode: observe\n", "---\nnull\n...\n", "{}\n", "\ufeff\r\n"])
def test_a_main_file_that_sets_nothing_changes_nothing(directory: Path, run, text: str, mode: str, value: str) -> None:
    """A template that renders to nothing, or a full disk, must not lead to the defaults, which enforce."""
    env = fake_host(directory)
    with contextlib.closing(Agent(directory, f"mode: {mode}\n{FAKE}", env=env)) as one:
        one.wait_ready()
        one.config_path.write_text(text)
        assert one.config_path.name in one.wait_condition("ConfigInvalid")["message"]
        one.signal(signal.SIGHUP)
        time.sleep(1.2)
        assert one.tuner("sysctl")["mode"] == mode and read(directory / "host/proc/sys/vm/max_map_count") == value
        if mode == "enforce":  # it has kept the names of its files
            answer = run("check-config", "--config", str(one.config_path), env=env)
            assert f"{one.config_path}:1:1: warning: the file is empty or gone" in answer.stdout
        one.write_config(f"mode: {mode}\n{FAKE}")
        one.wait_condition("ConfigInvalid", "False")


# A process that gets the lock, forks as for another program, and is killed before the child closes its copy.
ORPHAN = """
import fcntl, os, sys, time
lock = open(sys.argv[1], "w")
fcntl.flock(lock, fcntl.LOCK_EX)
print(f"agent, pid {os.getpid()}", file=lock, flush=True)
if os.fork():
    os._exit(0)
time.sleep(float(sys.argv[2]))
"""


@contextlib.contextmanager
def lock_of_an_orphan(path: Path, seconds: float) -> Iterator[None]:
    path.parent.mkdir()
    command = ["/usr/bin/python3", "-c", ORPHAN, str(path), str(seconds)]
    with subprocess.Popen(command, process_group=0) as parent:
        parent.wait()
        try:
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(parent.pid, signal.SIGKILL)


@pytest.mark.apart
def test_a_child_of_a_killed_agent_delays_the_next_one(directory: Path, run) -> None:
    with lock_of_an_orphan(directory / "run/lock", 0.4), contextlib.closing(Agent(directory, FAKE, env=fake_host(directory))) as one:
        one.wait_ready()


@pytest.mark.apart
def test_the_unit_tries_again_while_a_child_of_a_killed_agent_has_the_lock(directory: Path, run) -> None:
    env = fake_host(directory)
    with lock_of_an_orphan(directory / "run/lock", 60), contextlib.closing(Agent(directory, FAKE, env=env)) as one:
        assert one.process.wait(10) == 1, one.log
        assert "the lock is held by a child of pid " in one.log


@pytest.mark.apart
def test_the_unit_tries_again_beside_a_command_that_has_just_begun(directory: Path, run) -> None:
    """The command has the lock, and the name in the file is still that of an agent that has ended."""
    env = fake_host(directory)
    (directory / "run").mkdir()
    (directory / "run/lock").write_text("agent, pid 1\n")
    delayed = ("strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=ftruncate", "-e", "inject=ftruncate:delay_enter=300000")
    config = directory / "apply.yaml"
    config.write_text(FAKE)
    command = [*delayed, str(BIN), "apply", "--config", str(config)]
    with subprocess.Popen(command, env={**environment(directory), **env}, stdout=subprocess.DEVNULL):
        until(lambda: f":{os.stat(directory / 'run/lock').st_ino} " in read("/proc/locks"), "the lock of the command", every=0.005)
        with contextlib.closing(Agent(directory, FAKE, env=env)) as one:
            until(lambda: one.process.poll() is not None or one.notified("READY=1"), "an end or a start")
            assert one.process.poll() in (1, None), one.log


@pytest.mark.apart
@pytest.mark.skipif(ASAN, reason="the leak sanitizer does not work under strace")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_process_of_a_container_can_be_ended_while_it_starts(directory: Path, number: signal.Signals) -> None:
    """The kernel drops a signal to such a process if the process neither handles nor blocks it."""
    slow = ("strace", "-D", "-qq", "-o", "/dev/null", "-e", "trace=flock", "-e", "inject=flock:delay_enter=1000000")
    wrap = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *slow)
    with contextlib.closing(Agent(directory, FAKE, env=fake_host(directory), wrap=wrap)) as one:
        until(lambda: (directory / "run/lock").exists(), "the lock's file", every=0.005)
        os.kill(one.pid, number)
        assert one.process.wait(10) == 0, one.log
        assert not one.notified("READY=1")


def at_the_write(first: Path, act: Callable[[], object]) -> threading.Thread:
    """Acts when a process is about to write the first file, which has to wait: its lease is broken then."""
    file = first.open()
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)

    def wait() -> None:
        until(lambda: fcntl.fcntl(file, fcntl.F_GETLEASE) != fcntl.F_RDLCK, "a write", every=0.001)
        act()
        file.close()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


@pytest.mark.apart
@pytest.mark.parametrize("command", [False, True])
@pytest.mark.parametrize("chosen, then", [(900000, 900000), (150000, 262144)])
@pytest.mark.parametrize("name", ["max_map_count", "min_free_kbytes"])
def test_a_value_set_while_others_are_written_is_judged_again(directory: Path, run, command: bool, chosen: int, then: int, name: str) -> None:
    """A larger one stays, and a smaller one is what restore puts back. The kernel itself sets vm.min_free_kbytes when it gets others."""
    env = fake_host(directory)
    count, first = (directory / "host/proc/sys" / path for path in (f"vm/{name}", "fs/file-max"))
    count.write_text("100000\n")
    first.parent.mkdir()
    first.write_text("1000\n")
    config = f"{FAKE}\n".replace("{vm.max_map_count", f"{{fs.file-max: 2000, vm.{name}")
    (directory / "one.yaml").write_text(config)
    thread = at_the_write(first, lambda: count.write_text(f"{chosen}\n"))
    if command:
        applied = run("apply", "--config", str(directory / "one.yaml"), env=env)
        assert applied.returncode == 0, applied.stderr
    else:
        with contextlib.closing(Agent(directory, config, env=env)) as one:
            one.wait_ready()
    thread.join()
    assert (read(first), read(count)) == ("2000", str(then))
    second = at_the_write(first, lambda: count.write_text("500000\n")) if then != chosen else None
    restored = run("restore", env=env)
    if second:
        second.join()
    assert restored.returncode == 0, restored.stderr
    assert (read(first), read(count)) == ("1000", "500000" if second else str(chosen))


ORIGINAL, OURS = '{"debug": true}\n', '{"debug": true, "max-concurrent-downloads": 10}\n'


class Recorded:
    """A host with a changed file, and the journal of it that a version wrote."""

    def __init__(self, directory: Path, schema: int, path: str = "/etc/docker/daemon.json") -> None:
        self.env = {**fake_host(directory), "HEADROOM_OWNER": "unit"}
        self.file, self.journal = directory / "host/etc/docker/daemon.json", directory / "state/journal.json"
        self.original = directory / "state/files" / hashlib.sha256(ORIGINAL.encode()).hexdigest()
        key = dict.fromkeys(("name", "key"), "docker.max-concurrent-downloads") | dict.fromkeys(
            ("table", "on_disk_originally", "value_before", "failed"), ""
        )
        key |= {"key": "max-concurrent-downloads", "in_force_originally": "3", "wanted": "10"}
        record = dict.fromkeys(("driver", "unit", "socket", "binary", "version", "config", "directory", "ours_next"), "") | {
            "path": path, "tuner": "runtime", "format": 1, "restoring": False, "directories": 0, "activation": 0, "restart": 0,
            "original": self.original.name, "ours": hashlib.sha256(OURS.encode()).hexdigest(), "keys": [key],
        }  # fmt: skip
        body = {"files": [record], "pins": [], "released": [], "restarts": []} | ({"owner": "unit"} if schema > 6 else {})
        for file, text in ((self.file, OURS), (self.original, ORIGINAL), (self.journal, json.dumps({"schema": schema, "body": body}))):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)


@pytest.mark.apart
@pytest.mark.parametrize("schema", [6, 7])
def test_the_journal_of_an_earlier_version_is_restored(directory: Path, run, schema: int) -> None:
    recorded = Recorded(directory, schema)
    restored = run("restore", env=recorded.env)
    assert restored.returncode == 0, restored.stderr
    assert recorded.file.read_text() == ORIGINAL
    journal = json.loads(recorded.journal.read_text())
    assert journal["schema"] == 7 and journal["checksum"], "the version before reads schema 7"


@pytest.mark.apart
def test_a_journal_that_an_earlier_build_numbered_8_is_read_and_needs_its_checksum(directory: Path, run) -> None:
    recorded = Recorded(directory, 7)
    assert run("restore", "--only", "thp", env=recorded.env).returncode == 0, "the journal is stored again"
    journal = json.loads(recorded.journal.read_text()) | {"schema": 8}
    for checksum, code in ((None, 1), (journal["checksum"], 0)):
        recorded.journal.write_text(json.dumps(journal | {"checksum": checksum}))
        assert run("restore", env=recorded.env).returncode == code
    assert recorded.file.read_text() == ORIGINAL


NO_PATHS = ["", "daemon.json", "etc/docker/daemon.json", "/", "//", "/.", "/./", "/..", "/../", "/etc/..", "/etc/../", "/../etc/daemon.json", "/etc/./../."]


@pytest.mark.apart
@pytest.mark.parametrize("host", [True, False])
@pytest.mark.parametrize("path", [*NO_PATHS, "/proc/self/root", "/proc/self/cwd/", "/etc", "/etc/", "/etc/.", "/dev/null", "/none/", "/none/.", "/none/..", "/none/../.."])
def test_a_record_whose_path_is_no_file_is_an_error(directory: Path, run, path: str, host: bool) -> None:
    """Without HEADROOM_HOST_ROOT the host is this machine, and a path can lead to its root."""
    recorded = Recorded(directory, 7, path)
    journal = recorded.journal.read_bytes()
    if not host:
        del recorded.env["HEADROOM_HOST_ROOT"]
    restored = run("restore", "--only", "runtime", env=recorded.env, wrap=("sh", "-c", 'cd / && exec "$@"', "-"))
    assert restored.returncode == 1 or "/none/" in path or host, restored
    assert restored.returncode in (0, 1), restored
    if path in NO_PATHS:
        assert restored.returncode == 1 and "journal.json is damaged" in restored.stderr
        assert recorded.journal.read_bytes() == journal
    if restored.returncode == 1:
        assert (recorded.file.read_text(), recorded.original.read_text()) == (OURS, ORIGINAL)


@pytest.mark.apart
def test_a_flipped_bit_in_the_journal_deletes_no_original(directory: Path, run) -> None:
    recorded = Recorded(directory, 7)
    assert run("restore", "--only", "thp", env=recorded.env).returncode == 0, "the journal is stored again"
    whole = recorded.journal.read_bytes()
    refused = 0
    for at in range(0, len(whole), 11):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << at % 7
        recorded.journal.write_bytes(damaged)
        answer = run("restore", env=recorded.env)
        assert answer.returncode in (0, 1), (at, answer.stderr)
        if answer.returncode == 1:
            refused += 1
            assert "journal.json" in answer.stderr and recorded.file.read_text() == OURS and recorded.original.read_text() == ORIGINAL, at
        else:
            assert recorded.file.read_text() == ORIGINAL, at
            recorded.file.write_text(OURS)
            recorded.original.write_text(ORIGINAL)
    assert refused > 30


def number(values: Path, version: int, program: bytes = b"") -> None:
    """Gives the records of values the version of another release; its first members stay where they are."""
    content = bytearray(values.read_bytes())
    content[16:20] = version.to_bytes(4, "little")
    if program:
        content[128:128] = program.ljust(32, b"\0")  # since version 4
    values.write_bytes(content)


@pytest.mark.apart
@pytest.mark.parametrize("damaged, message", [("values", "values are not restored: "), ("journal.json", "files were not: journal.json is damaged")])
def test_values_and_files_are_restored_each_alone(directory: Path, run, damaged: str, message: str) -> None:
    recorded = Recorded(directory, 7)
    (directory / "one.yaml").write_text(FAKE)
    count = directory / "host/proc/sys/vm/max_map_count"
    assert run("apply", "--only", "sysctl", "--config", str(directory / "one.yaml"), env=recorded.env).returncode == 0
    assert read(count) == "262144" and recorded.file.read_text() == OURS
    (directory / ("run" if damaged == "values" else "state") / damaged).write_text("damaged")
    restored = run("restore", env=recorded.env)
    assert restored.returncode == 1 and message in restored.stderr, restored.stderr
    values_too, files_too = damaged != "values", damaged == "values"
    assert (read(count), recorded.file.read_text()) == ("100000" if values_too else "262144", ORIGINAL if files_too else OURS)
    assert files_too or recorded.original.read_text() == ORIGINAL


SLOT = 128  # where the first record begins in values: a word, and the same record twice


def applied(directory: Path, run) -> tuple[dict[str, str], Path, Path]:
    """The environment of a host with a changed value, the file of the value, and its records."""
    env = fake_host(directory)
    (directory / "one.yaml").write_text(FAKE)
    assert run("apply", "--config", str(directory / "one.yaml"), env=env).returncode == 0
    return env, directory / "host/proc/sys/vm/max_map_count", directory / "run/values"


@pytest.mark.apart
@pytest.mark.parametrize("text", [b"/proc/sys/vm/max_map_count", b"100000", b"vm.max_map_count"])
def test_a_byte_of_the_values_that_changes_costs_no_original(directory: Path, run, text: bytes) -> None:
    """A changed path was a value that this kernel does not have, and a changed original was restored."""
    env, count, values = applied(directory, run)
    whole = values.read_bytes()
    places = [match.start() for match in re.finditer(re.escape(text), whole)]
    assert len(places) >= 2
    for at in places:
        damaged = bytearray(whole)
        damaged[at + 3] ^= 1
        values.write_bytes(damaged)
        assert run("restore", "--plan", env=env).returncode == 2
    for at in places:
        damaged[at + 3] = whole[at + 3] ^ 1
    values.write_bytes(damaged)
    for options in ((), ("--purge",)):
        refused = run("restore", *options, env=env)
        assert refused.returncode == 1 and "values is damaged: restart the node" in refused.stderr, refused
        assert read(count) == "262144" and values.read_bytes() == damaged
    values.write_bytes(whole)
    assert run("restore", env=env).returncode == 0
    assert read(count) == "100000"


@pytest.mark.apart
@pytest.mark.parametrize("kept", [0, 5, 16, 60, 127, SLOT, SLOT + 100, 100_000])
def test_truncated_values_are_damaged_and_no_advice_loses_originals(directory: Path, run, kept: int) -> None:
    env, count, values = applied(directory, run)
    os.truncate(values, kept)
    restored = run("restore", env=env)
    assert restored.returncode == 1 and "values is damaged: restart the node" in restored.stderr, restored
    with contextlib.closing(Agent(directory, FAKE, env=env)) as one:
        message = one.wait_ready().condition("AgentDegraded")["message"]
        assert "values is damaged" in message and "remove" not in message, message
    assert read(count) == "262144" and values.stat().st_size == kept


@pytest.mark.apart
@pytest.mark.parametrize("version", [3, 4])
def test_the_values_of_an_earlier_version_are_used_as_they_are(directory: Path, run, version: int) -> None:
    """Without a checksum, and (3) of the version before, which can be taken back."""
    env, values = fake_host(directory), directory / "run/values"
    (directory / "one.yaml").write_text(FAKE)
    count = directory / "host/proc/sys/vm/max_map_count"
    for expected in ("262144", "300000"):
        assert run("apply", "--config", str(directory / "one.yaml"), env=env).returncode == 0
        assert read(count) == expected
        (directory / "one.yaml").write_text(FAKE.replace("262144", "300000"))
        if expected == "262144":
            assert values.read_bytes()[16] == 3, "the version before can be taken back"
            content = bytearray(values.read_bytes())
            content[SLOT : SLOT + 4] = (1).to_bytes(4, "little")
            values.write_bytes(content)
            number(values, version, b"0.1.0" if version == 4 else b"")
    assert values.read_bytes()[16] == version
    assert run("restore", env=env).returncode == 0
    assert read(count) == "100000"


@pytest.mark.apart
@pytest.mark.parametrize("newer", ["values", "journal.json"])
def test_beside_records_of_a_newer_version_the_agent_observes_and_is_not_ready(directory: Path, run, newer: str) -> None:
    """A canary of a release can be taken back: the older version names it, and changes nothing."""
    recorded = Recorded(directory, 7)
    (directory / "one.yaml").write_text(FAKE)
    assert run("apply", "--only", "sysctl", "--config", str(directory / "one.yaml"), env=recorded.env).returncode == 0
    if newer == "values":
        number(directory / "run/values", 9, b"7.1.2")
    else:
        recorded.journal.write_text(json.dumps({"schema": 99, "version": "7.1.2", "body": {"something": "else"}}))
    before = {path: path.read_bytes() for path in (directory / "run/values", recorded.journal, recorded.original)}
    count = directory / "host/proc/sys/vm/max_map_count"
    count.write_text("200000\n")
    with contextlib.closing(Agent(directory, FAKE, env=recorded.env)) as one:
        one.wait_ready()
        assert "version 7.1.2 wrote the records" in one.condition("AgentDegraded")["message"]
        code, body = one.get("/readyz")
        assert code == 503 and "version 7.1.2 wrote the records" in body
        assert one.get("/livez")[0] == 200
        assert one.setting("vm.max_map_count")["state"] == "observed"
        assert one.tuner("sysctl")["mode"] == "observe"
        refused = run("apply", env=recorded.env)
        assert refused.returncode == 1 and "version 7.1.2 wrote the records" in refused.stderr
    assert not (directory / "state/config.json").exists()
    applied = run("apply", "--config", str(directory / "one.yaml"), env=recorded.env)
    assert applied.returncode == 1 and "version 7.1.2 wrote the records" in applied.stderr
    assert read(count) == "200000"
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.apart
def test_a_limit_of_file_sizes_is_an_error_and_no_signal(directory: Path, run) -> None:
    """SIGXFSZ would kill the program between a record and a write."""
    answer = run("apply", env=fake_host(directory), wrap=("sh", "-c", 'ulimit -f 0; exec "$@"', "-"))
    assert answer.returncode == 1, answer
    assert "File too large" in answer.stderr


@pytest.mark.apart
def test_an_original_without_room_stays_and_the_restore_fails(directory: Path, run) -> None:
    """Of files that others changed since: these originals are kept until the purge, 2 MiB of them at most."""
    recorded = Recorded(directory, 7)
    journal = json.loads(recorded.journal.read_text())
    [record] = journal["body"]["files"]
    records, originals = [], set()
    for name in "abc":
        text = json.dumps({"debug": True, "padding": name * 900_000})
        original = hashlib.sha256(text.encode()).hexdigest()
        originals.add(text)
        (directory / "state/files" / original).write_text(text)
        (directory / f"host/etc/docker/{name}.json").write_text(OURS.replace("true,", f'true, "theirs": "{name}",'))
        records.append(record | {"path": f"/etc/docker/{name}.json", "original": original})
    recorded.journal.write_text(json.dumps(journal | {"body": journal["body"] | {"files": records}}))

    def kept() -> set[str]:
        return {path.read_text() for path in (directory / "state").glob("original-*")}

    for _ in range(2):
        restored = run("restore", env=recorded.env)
        assert restored.returncode == 1 and "no room for the original" in restored.stderr, restored
        assert len(kept()) == 2
        assert kept() | {path.read_text() for path in (directory / "state/files").iterdir()} >= originals
    for path in (directory / "state").glob("original-*"):
        path.rename(directory / path.name)
    assert run("restore", env=recorded.env).returncode == 0
    assert len(kept()) == 1
    assert {path.read_text() for path in directory.glob("original-*")} | kept() == originals


@pytest.mark.apart
def test_a_damaged_file_of_peaks_is_ignored(directory: Path) -> None:
    with contextlib.closing(Agent(directory, "mode: observe")) as one:
        one.wait_ready()
        until((directory / "run/peaks").exists, "the peaks are written")
        one.stop()
    peaks = bytearray((directory / "run/peaks").read_bytes())
    size = int.from_bytes(peaks[128:136], "little")
    for at in range(136, len(peaks), size):
        peaks[at + 88 : at + 92] = b"\xff\xff\xff\x7f"  # the kind of the largest user
        peaks[at + size - 8] = 1  # there is one
    (directory / "run/peaks").write_bytes(peaks)
    with contextlib.closing(Agent(directory, "mode: observe")) as one:
        assert one.wait_ready().status()["limits"]


@pytest.mark.apart
@pytest.mark.parametrize("umask", ["000", "022", "077"])
@pytest.mark.parametrize("old", [False, True])
def test_nobody_but_root_opens_what_the_agent_makes(directory: Path, run, umask: str, old: bool) -> None:
    """Also what an earlier version made for all to read or to replace: flock(2) needs no more than that."""
    env, wrap = fake_host(directory), under(umask)
    if old:
        leave_open(directory)
        (directory / "run/lock").touch(0o644)
    assert run("apply", env=env, wrap=wrap).returncode == 0
    if old:
        (directory / "run/values").chmod(0o644)
    with contextlib.closing(Agent(directory, FAKE, env=env, wrap=wrap)) as one:
        one.wait_ready()
        until(lambda: list(directory.glob("state/incidents/*")), "the start is recorded")
        assert not wrong_modes(directory)
        assert {path.name for path in (directory / "run").iterdir()} >= {"lock", "values", "headroom.sock"}
        assert {"journal.json", "incidents"} <= made(directory)


@pytest.mark.apart
@pytest.mark.parametrize("theirs", ["run", "state", "run/values", "state/journal.json"])
def test_records_of_another_user_are_not_used(directory: Path, run, theirs: str) -> None:
    """The path in a record could be any file of the node."""
    env, count, _ = applied(directory, run)
    os.chown(directory / theirs, 64123, 0)
    restored = run("restore", env=env)
    assert restored.returncode == 1 and "belongs to a user other than root" in restored.stderr, restored
    assert read(count) == ("262144" if "run" in theirs else "100000")
    os.chown(directory / theirs, 0, 0)
    assert run("restore", env=env).returncode == 0
    assert read(count) == "100000"


@pytest.mark.apart
def test_an_agent_whose_port_is_in_use_names_the_other_agent(directory: Path) -> None:
    (directory / "run").mkdir()
    (directory / "run/lock").write_text(f"agent, pid {os.getpid()}\n")
    with socket.create_server(("127.0.0.1", 0)) as port:
        (directory / "agent.port").write_text(str(port.getsockname()[1]))
        with contextlib.closing(Agent(directory, "mode: observe")) as one:
            message = one.wait_ready().condition("AgentDegraded")["message"]
    assert f"Address already in use, probably by agent, pid {os.getpid()}: choose" in message


@pytest.mark.apart
def test_a_probe_asks_the_socket_of_an_agent_without_a_port(directory: Path, run) -> None:
    with contextlib.closing(Agent(directory, 'mode: observe\nhttp: {listen: ""}').wait_ready()):
        assert [run("status", "--probe", path).returncode for path in ("/livez", "/readyz", "/wrong")] == [0, 0, 1]
    ended = run("status", "--probe", "/livez")
    assert ended.returncode == 1 and "headroom.sock" in ended.stderr


@pytest.mark.apart
def test_a_start_needs_less_than_40_mb(directory: Path) -> None:
    """Each load of BPF programs needs twice the size of the kernel's types for a moment, and a pod has a limit of memory."""
    with contextlib.closing(Agent(directory, "mode: observe").wait_ready()) as one:
        until(lambda: all(tuner["state"] == "active" for tuner in one.status()["tuners"]), "all programs are loaded")
        [peak] = re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{one.pid}/status").read_text())
    assert int(peak) < 40_000


def test_concurrent_commands_succeed_or_name_the_lock(node: Node, run) -> None:
    """Without an agent. Restore works afterwards."""
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda i: run(("apply", "restore")[i % 2]), range(16)))
    for answer in answers:
        assert answer.returncode in (0, 1)
        assert answer.returncode == 0 or "lock" in answer.stderr
    assert run("restore").returncode == 0
    node.assert_unchanged()


def test_the_socket_is_for_root_only(agent, directory) -> None:
    one = agent()
    assert one.socket_path.stat().st_mode & 0o777 == 0o600
    one.socket_path.chmod(0o666)  # the agent checks the peer, not only the mode
    (directory / "run").chmod(0o755)
    script = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);"
        "s.sendall(b'POST /v1/restore HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: 0\\r\\n\\r\\n');"
        "print(s.recv(4096).decode())"
    )
    answer = subprocess.run(
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-c", script, one.socket_path],
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert " 200 " not in answer.stdout.split("\n")[0]
    assert sysctl(THRESHOLDS[2]) == "100000"


def test_the_node_fixture_kills_a_leftover_agent_and_restores_all_values(node: Node, directory: Path) -> None:
    """A failed test must not affect later tests."""
    with pytest.raises(AssertionError, match="outlived"), restored_node():
        agent = spawn([BIN, "agent"], directory / "log", env=environment(directory), start_new_session=True)
        until(lambda: sysctl(THRESHOLDS[2]) == DEFAULTS[THRESHOLDS[2]], "the agent has set its values")
    assert agent.wait(10) == -signal.SIGKILL
    node.assert_unchanged()
