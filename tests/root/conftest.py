# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the root tests: the real program on the real kernel.

node   saves all values that the agent may change, and restores them
agent  starts agents in the test's state directory, and stops them
run    runs a command of the program in the same state directory
"""

import contextlib
import fcntl
import functools
import http.client
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Callable, Iterator, Sequence

import pytest

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("HEADROOM_BIN", ROOT / "build/dev/src/headroom")).resolve()
PROGRAMS = {b"headroom", BIN.name.encode()}  # a copy may have another name
ASAN = bool({"asan", "fuzz"} & set(BIN.parts))
LOCK = Path("/run/lock/headroom-tests.lock")  # flock(1) locks it too
THP = Path("/sys/kernel/mm/transparent_hugepage")
# A call that the agent's filter does not allow ends its process. Sanitizers need some that no agent does.
SYSCALLS = os.environ.get("HEADROOM_TEST_SYSCALLS", "log" if ASAN else "kill")
SLACK = 4.0 if ASAN else 1.0  # sanitizers slow everything down
# All processes that these tests start inherit this mark.
os.environ["ROOT_TESTS_SESSION"] = SESSION = str(os.getpid())

FAMILIES = ("ipv4", "ipv6")
THRESHOLDS = [f"net.{family}.neigh.default.gc_thresh{level}" for family in FAMILIES for level in (1, 2, 3)]
DEFAULTS = dict(zip(THRESHOLDS, ["80000", "90000", "100000"] * 2))

# Files below /proc/sys that change without a write, or that do something when read.
VOLATILE = re.compile(
    r"^(fs/(aio-nr|dentry-state|file-nr|inode-nr|inode-state|dquot|quota|binfmt_misc)|"
    r"kernel/(ns_last_pid|pty/nr|random|sched_domain|seccomp|tainted|perf_event_max_sample_rate)|"
    r"vm/stat_refresh|net/netfilter/nf_conntrack_(count|buckets)|"
    r"net/ipv[46]/(conf|neigh)/(?!all/|default/|$)|net/ipv4/tcp_fastopen_key|net/mptcp|"
    r"debug/|dev/cdrom|user/)"  # user/ shows fs/inotify again
)


# Tests of these files change at most files in the lab, unless they use the fixture node. Agents in a lab only observe the kernel.
APART = {
    f"test_{name}"
    for name in (
        "containerd_config", "crio", "dns_bpf", "field", "images", "images_archives", "images_kills", "images_pin", "images_runtime", "images_waves", "kill_files", "odd_files",
        "other_versions", "package", "quickstart", "restart", "restore_plan", "resume", "runtime", "runtime_faults", "runtime_mirrors", "runtime_pulls", "runtime_registries", "screen",
    )
}  # fmt: skip
ALONE = "ROOT_TESTS_APART"  # in the environment of all processes of a run that has only such tests


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        fixtures = set(item.fixturenames)
        if item.path.stem in APART and "node" not in fixtures and ("agent" not in fixtures or "lab" in fixtures):
            item.add_marker(pytest.mark.apart)


def until(
    check: Callable[[], Any], what: str | Callable[[], str] = "", every: float = 0.02, timeout: float = 60
) -> Any:
    """Repeats check until its value is true, and returns the value. Fails the test after timeout seconds."""
    deadline = time.monotonic() + timeout * SLACK
    while not (answer := check()):
        if time.monotonic() > deadline:
            what = what() if callable(what) else what or check.__name__
            pytest.fail(f"not within {timeout * SLACK:g} s: {what}; last answer: {answer!r}")
        time.sleep(every)
    return answer


def read(path: Path | str) -> str:
    return Path(path).read_text().strip()


def sysctl(name: str, value: str | int | None = None) -> str:
    """Writes a sysctl if there is a value, and reads it."""
    path = Path("/proc/sys") / name.replace(".", "/")
    if value is not None:
        path.write_text(str(value))
    return read(path)


def selected(path: Path | str) -> str:
    """The word in brackets of a file such as "always [madvise] never"."""
    match = re.search(r"\[([^]]+)\]", read(path))
    return match.group(1) if match else read(path)


def thresholds(family: str = "ipv4") -> tuple[int, int, int]:
    base = Path(f"/proc/sys/net/{family}/neigh/default")
    values = [int(read(base / f"gc_thresh{level}")) for level in (1, 2, 3)]
    return values[0], values[1], values[2]


def set_thresholds(family: str, values: tuple[int, int, int]) -> None:
    """Writes the levels in an order that keeps level 1 <= 2 <= 3 at each moment."""
    for level in (3, 2, 1):
        if values[level - 1] >= int(sysctl(f"net.{family}.neigh.default.gc_thresh{level}")):
            sysctl(f"net.{family}.neigh.default.gc_thresh{level}", values[level - 1])
    for level in (1, 2, 3):
        sysctl(f"net.{family}.neigh.default.gc_thresh{level}", values[level - 1])


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def spawn(command: Sequence[str | Path], log: Path, **more: Any) -> "subprocess.Popen[bytes]":
    """Starts a program, and appends its output to the log."""
    with log.open("ab") as file:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, **more)


def end(process: "subprocess.Popen[Any]", seconds: float = 15) -> None:
    """Terminates a program, and kills it if it stays."""
    process.terminate()
    try:
        process.wait(seconds * SLACK)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Node:
    """The values below /proc/sys and of transparent huge pages at the time of construction."""

    def __init__(self, paths: list[str] | None = None) -> None:
        self.paths = paths or self._find()
        self.before = self.snapshot()

    @staticmethod
    @functools.cache
    def _find() -> list[str]:
        paths = [str(p) for p in THP.rglob("*") if p.is_file() and p.stat().st_mode & 0o200]
        top = Path("/proc/sys")
        for directory, directories, files in os.walk(top):
            relative = os.path.relpath(directory, top)
            directories[:] = [d for d in directories if not VOLATILE.match(f"{relative}/{d}/".removeprefix("./"))]
            for path in (os.path.join(directory, name) for name in files):
                if not VOLATILE.match(os.path.relpath(path, top)) and os.stat(path).st_mode & 0o400:
                    paths.append(path)
        return paths

    def snapshot(self) -> dict[str, str]:
        values: dict[str, str] = {}
        for path in self.paths:
            try:
                with open(path, "rb", buffering=0) as file:
                    values[path] = file.read().decode("utf-8", "replace")
            except OSError:
                pass
        return values

    def changes(self) -> dict[str, tuple[str, str]]:
        """The values that have changed: path -> (before, now)."""
        now = self.snapshot()
        return {path: (old, now[path]) for path, old in self.before.items() if path in now and now[path] != old}

    def assert_unchanged(self, but: tuple[str, ...] = ()) -> None:
        changes = {p: c for p, c in self.changes().items() if not p.endswith(but) or not but}
        assert changes == {}

    @staticmethod
    def prepare() -> None:
        """Sets values that differ from the agent's."""
        for family in FAMILIES:
            set_thresholds(family, (128, 512, 1024))
        for name, value in (("enabled", "madvise"), ("defrag", "madvise"), ("khugepaged/defrag", "1")):
            (THP / name).write_text(value)
        for path in THP.glob("hugepages-*kB/*enabled"):
            path.write_text("inherit")
        sysctl("vm.max_map_count", 65530)

    def restore(self) -> None:
        for family in FAMILIES:
            base = f"/proc/sys/net/{family}/neigh/default/gc_thresh"
            old = [int(self.before[f"{base}{level}"]) for level in (1, 2, 3)]
            set_thresholds(family, (old[0], old[1], old[2]))
        # vm.min_free_kbytes is last: the kernel computes it when huge pages are switched.
        for path, (old, _) in sorted(self.changes().items(), key=lambda item: "min_free" in item[0]):
            if not os.stat(path).st_mode & 0o200:
                continue  # it only shows the value of another file
            match = re.search(r"\[([^]]+)\]", old) if path.startswith("/sys") else None
            with contextlib.suppress(OSError):  # assert_unchanged() reports it after all others are restored
                Path(path).write_text(match.group(1) if match else old.strip())
        self.assert_unchanged()


class Agent:
    """A running `headroom agent`, and its notifications to systemd."""

    def __init__(
        self,
        directory: Path,
        config: str | None = "",
        args: tuple[str, ...] = (),
        wrap: tuple[str, ...] = (),
        env: dict[str, str] | None = None,
        binary: Path | None = None,
        name: str = "agent",
    ) -> None:
        self.directory = directory
        port = directory / f"{name}.port"  # a restarted agent keeps its port and so its configuration
        if not port.exists():
            port.write_text(str(free_port()))
        self.port = int(port.read_text())
        self.notices: list[tuple[float, str]] = []
        self.log_path = directory / f"{name}.log"
        self.config_path = directory / f"{name}.yaml"
        self.socket_path = directory / "run/headroom.sock"
        command = [*wrap, str(binary or BIN), "agent"]
        if config is not None:
            self.write_config(config)
            command += ["--config", str(self.config_path)]
        command += args
        notify = directory / f"{name}.notify"
        notify.unlink(missing_ok=True)
        self._notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._notify.bind(str(notify))
        notify.chmod(0o666)
        self._collector = threading.Thread(target=self._collect, daemon=True)
        self._collector.start()
        self.began = time.monotonic()
        self.process = spawn(
            command, self.log_path, env={**environment(directory), "NOTIFY_SOCKET": str(notify), **(env or {})}
        )

    def _collect(self) -> None:
        while True:
            try:
                text = self._notify.recv(8192).decode()
            except OSError:
                return
            if not text:
                return
            self.notices += [(time.monotonic(), line) for line in text.splitlines()]

    @property
    def pid(self) -> int:
        """The pid of the agent itself, not of a wrapper."""
        pid = self.process.pid
        while read(f"/proc/{pid}/comm").encode() not in {name[:15] for name in PROGRAMS}:
            children = read(f"/proc/{pid}/task/{pid}/children").split()
            if not children:
                break
            pid = int(children[0])
        return pid

    @property
    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def notified(self, prefix: str, since: float = 0.0) -> list[str]:
        """The notifications to systemd that begin with prefix."""
        return [line for when, line in list(self.notices) if line.startswith(prefix) and when >= since]

    def write_config(self, text: str) -> None:
        """Replaces the configuration file. Adds the HTTP address unless the text has one."""
        if not re.search(r"^http:", text, re.M):
            text = f'http: {{listen: "127.0.0.1:{self.port}"}}\n{text}'
        new = self.config_path.with_suffix(".new")
        new.write_text(text)
        new.rename(self.config_path)

    def wait_ready(self, since: float = 0.0) -> "Agent":
        def ready() -> bool:
            if self.process.poll() is not None:
                pytest.fail(f"the agent ended with {self.process.returncode}:\n{self.log}")
            return bool(self.notified("READY=1", since))

        until(ready, lambda: f"READY=1\n{self.log}")
        return self

    def get(
        self, path: str, unix: bool = True, method: str = "GET", headers: dict[str, str] | None = None
    ) -> tuple[int, str]:
        if unix:
            connection: http.client.HTTPConnection = UnixConnection(str(self.socket_path))
        else:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10 * SLACK)
        with contextlib.closing(connection):
            connection.request(method, path, headers=headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def status(self) -> dict[str, Any]:
        code, body = self.get("/v1/status")
        assert code == 200
        return json.loads(body)

    def setting(self, name: str) -> dict[str, Any]:
        """A setting. Those of runtimes and the kubelet appear after the first sample."""
        return until(lambda: next((s for s in self.status()["settings"] if s["name"] == name), None), name)

    def condition(self, name: str) -> dict[str, Any]:
        return next(c for c in self.status()["conditions"] if c["type"] == name)

    def limit(self, name: str) -> dict[str, Any]:
        return next(one for one in self.status()["limits"] if one["name"] == name)

    def tuner(self, name: str) -> dict[str, Any]:
        return next(t for t in self.status()["tuners"] if t["name"] == name)

    def metrics(self) -> dict[str, float]:
        """name{labels} -> value."""
        code, body = self.get("/metrics")
        assert code == 200
        lines = [line for line in body.splitlines() if line and not line.startswith("#")]
        return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines}

    def wait_state(self, name: str, state: str) -> dict[str, Any]:
        return until(
            lambda: (s := self.setting(name))["state"] == state and s, f"{name} {state}: {self.setting(name)}"
        )

    def finding(self, slug: str, about: str = "") -> dict[str, Any] | None:
        """The finding, if it is open. about: words in its text."""
        found = self.status()["findings"]
        return next((f for f in found if f["slug"] == slug and not f["until"] and about in f["text"]), None)

    def wait_finding(self, slug: str, about: str = "", timeout: float = 60) -> dict[str, Any]:
        return until(lambda: self.finding(slug, about), f"{slug}: {about}", timeout=timeout)

    def wait_no_finding(self, slug: str, about: str = "") -> None:
        until(lambda: not self.finding(slug, about), f"{slug} ends")

    def wait_condition(self, name: str, status: str = "True", timeout: float = 60) -> dict[str, Any]:
        what = f"{name} is {status}"
        return until(lambda: (c := self.condition(name))["status"] == status and c, what, timeout=timeout)

    def wait_incident(self, about: str) -> dict[str, Any]:
        """The first line of the record of an incident about a limit or a condition."""
        directory = self.directory / "state/incidents"
        firsts = lambda: (json.loads(file.read_text().split("\n")[0] or "{}") for file in directory.glob("2*"))  # noqa: E731
        return until(lambda: next((first for first in firsts() if first.get("object") == about), None), f"an incident of {about}")

    def document_faults(self) -> list[str]:
        """Where the status differs from its schema."""
        from documents import faults  # it takes a while to load

        with contextlib.suppress(OSError, http.client.HTTPException):
            return faults("status", self.status()) + faults("health", json.loads(self.get("/health")[1]))
        return []

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def reload(self) -> None:
        """Sends SIGHUP, and waits until the agent reports the reload."""
        since = time.monotonic()
        self.signal(signal.SIGHUP)
        self.wait_ready(since)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        """Sends SIGTERM, and returns the exit status."""
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        try:
            return self.process.wait(5 * SLACK)
        except subprocess.TimeoutExpired:
            self.kill()
            pytest.fail(f"the agent did not end on SIGTERM:\n{self.log}")

    def close(self) -> None:
        fault = self.document_faults() if "HEADROOM_TEST_DOCUMENTS" in os.environ and self.process.poll() is None else []
        try:
            self.stop()
        finally:
            # The thread ends before the close: it would read from a new socket with the same descriptor number.
            self._notify.shutdown(socket.SHUT_RDWR)
            self._collector.join()
            self._notify.close()
        assert not re.search(r"AddressSanitizer|LeakSanitizer|runtime error:", self.log), self.log
        assert fault == []


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=10 * SLACK)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def environment(directory: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("HEADROOM_", "NOTIFY_", "WATCHDOG_", "NO_COLOR"))}
    own = {"HEADROOM_STATE_DIR": str(directory / "state"), "HEADROOM_RUNTIME_DIR": str(directory / "run")}
    return {**kept, **own, "LC_ALL": "C.UTF-8", "HEADROOM_TEST_SYSCALLS": SYSCALLS}


def killed(directory: Path, seconds: float, *args: str | Path, wrap: tuple[str, ...] = ()) -> bool:
    """Runs the program, and kills it after this time. False if it had exited with success before."""
    process = spawn([*wrap, BIN, *args], directory / "log", env=environment(directory))
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    code = process.wait()
    assert code in (0, -signal.SIGKILL), (directory / "log").read_text()[-3000:]
    return code != 0


# Calls that create, replace or remove files, or make that durable.
CHANGES = ("fsync", "rename", "renameat", "unlink", "unlinkat", "mkdir", "mkdirat", "rmdir", "symlinkat", "fchmod", "write")


def killed_at_each_change(run: Callable[[tuple[str, ...]], int]) -> Iterator[str]:
    """Calls run(prefix) again and again: strace kills the program at the first, second, ... of each of CHANGES."""
    for call in CHANGES:
        for number in itertools.count(1):
            kill = ("-e", f"trace={call}", "-e", f"inject={call}:signal=SIGKILL:when={number}")
            code = run(("strace", "-f", "-qq", "-o", "/dev/null", *kill))
            yield f"{call} {number}"
            if code == 0:
                break


def mounted(script: str) -> tuple[str, ...]:
    """A command prefix: a new mount namespace in which the script runs first."""
    return ("unshare", "--mount", "sh", "-ec", script + '\nexec "$@"', "sh")


def without(*capabilities: str) -> tuple[str, ...]:
    """A command prefix that drops capabilities, such as bpf."""
    dropped = ",".join(f"-{c}" for c in capabilities)
    return ("setpriv", f"--bounding-set={dropped}", f"--inh-caps={dropped}")


NO_BPF = without("bpf", "perfmon", "sys_admin")


@contextlib.contextmanager
def small_disk(path: Path, size: str = "1m") -> Iterator[Path]:
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "headroom-test", path], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", path], check=True)


def fill_disk(path: Path) -> Path:
    """Fills the disk with a file, and returns its path."""
    filler = path / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    assert shutil.disk_usage(path).free == 0
    return filler


Run = Callable[..., "subprocess.CompletedProcess[str]"]
Start = Callable[..., Agent]


def running_agents(ours: bool) -> list[str]:
    """The pids of the agents that these tests have started, or of all others. Those of a run apart, or in other PID namespaces, do not count."""
    mark = f"ROOT_TESTS_SESSION={SESSION}".encode()
    apart = f"{ALONE}=1".encode()
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            program, *args = (directory / "cmdline").read_bytes().split(b"\0")
            if os.path.basename(program) in PROGRAMS and b"agent" in args:
                here = os.readlink(directory / "ns/pid") == os.readlink("/proc/self/ns/pid")
                environ = (directory / "environ").read_bytes().split(b"\0")  # empty for a process that ends
                if environ != [b""] and (mark in environ) == ours and (ours or (here and apart not in environ)):
                    found.append(directory.name)
    return found


def end_agents() -> list[str]:
    """Kills the agents that these tests have started and that still run. Returns their pids."""
    ended = running_agents(ours=True)
    for pid in ended:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    until(lambda: not running_agents(ours=True), f"the end of {ended}")
    return ended


def wait_for_other_agents() -> None:
    """Waits until the agents of other test runs have ended. Ends the session if one stays."""
    deadline = time.monotonic() + 60
    while pids := running_agents(ours=False):
        if time.monotonic() > deadline:
            pytest.exit(f"a headroom agent runs on this machine (pid {', '.join(pids)}): stop it first", 1)
        time.sleep(0.2)


@pytest.fixture(scope="module", autouse=True)
def kernel_lock(request: pytest.FixtureRequest) -> Iterator[None]:
    """The kernel's tables exist once, so one test file at a time uses them. Other runs wait between files."""
    if os.geteuid() != 0:
        pytest.exit("these tests need root", 1)
    if not os.access(BIN, os.X_OK):
        pytest.exit(f"{BIN} is not built", 1)
    if all(item.get_closest_marker("apart") for item in request.session.items):
        os.environ[ALONE] = "1"
        yield
        return
    LOCK.parent.mkdir(parents=True, exist_ok=True)
    with LOCK.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting for {LOCK}: other tests use this kernel's tables", file=sys.__stderr__, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def new_messages(log: int) -> str:
    """The lines of the kernel's log since the last call, from a descriptor of /dev/kmsg."""
    text = ""
    while True:
        try:
            text += os.read(log, 8192).decode(errors="replace")
        except BlockingIOError:
            return text
        except BrokenPipeError:
            pass  # older lines were overwritten


@contextlib.contextmanager
def kernel_log() -> Iterator[Callable[[], str]]:
    log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    os.lseek(log, 0, os.SEEK_END)
    try:
        yield lambda: new_messages(log)
    finally:
        os.close(log)


FORBIDDEN = 111  # getpgrp(2) on x86-64, which a test makes on purpose


@pytest.fixture(scope="session", autouse=True)
def no_system_call_hits_the_filter() -> Iterator[None]:
    """A hit ends an agent or a child of it, and the kernel logs that."""
    with kernel_log() as messages:
        yield
        hits = [line for line in messages().splitlines() if re.search(r"type=1326 .*sig=31 .*code=0x80000000", line)]
    assert [line for line in hits if f"syscall={FORBIDDEN} " not in line] == []


@contextlib.contextmanager
def temporary(parent: str | None = None) -> Iterator[Path]:
    """A directory with a short path that all users can enter, for state, sockets and configuration."""
    path = Path(tempfile.mkdtemp(prefix="headroom-", dir=parent))
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def directory() -> Iterator[Path]:
    with temporary() as path:
        yield path


@contextlib.contextmanager
def restored_node() -> Iterator[Node]:
    """The node with values that the agent changes. At the end it kills the tests' agents and restores all values."""
    machine = Node()
    try:
        Node.prepare()
        yield Node(machine.paths)
    finally:
        try:
            left, others = end_agents(), running_agents(ours=False)
        finally:
            machine.restore()
    assert left == [], "an agent outlived its test"
    assert others == [], "another agent was started during the test"


@pytest.fixture
def node() -> Iterator[Node]:
    end_agents()
    wait_for_other_agents()
    with restored_node() as machine:
        yield machine


@pytest.fixture
def agent(request: pytest.FixtureRequest, directory: Path) -> Iterator[Callable[..., Agent]]:
    """agent(config, ...) starts an agent, and waits until it is ready unless ready=False. The agents end with the test."""
    with contextlib.ExitStack() as started:
        if ALONE in os.environ:
            started.callback(end_agents)
        else:
            request.getfixturevalue("node")

        def start(config: str | None = "", ready: bool = True, **more: Any) -> Agent:
            one = Agent(directory, config, **more)
            started.callback(one.close)
            return one.wait_ready() if ready else one

        yield start


@pytest.fixture
def run(directory: Path) -> Run:
    """run("plan", "--json") runs the program until it exits."""

    def command(
        *args: str, wrap: tuple[str, ...] = (), env: dict[str, str] | None = None, timeout: float = 30
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*wrap, str(BIN), *args],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env={**environment(directory), **(env or {})},
            timeout=timeout * SLACK,
        )

    return command
