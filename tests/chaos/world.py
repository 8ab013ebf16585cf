# SPDX-License-Identifier: Apache-2.0
"""A node in private mount, pid and network namespaces, whose clocks stand still until a test moves them.

Sysctls and switches are plain files. Between two steps every process of the node sleeps, so that the same steps give
the same history.
"""

import contextlib
import ctypes
import fcntl
import json
import mmap
import os
import random
import resource
import shutil
import signal
import socket
import struct
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Iterator

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("CHAOS_BUILD") or ROOT / "build/dev")
BIN = str(BUILD / "src/headroom")
SCRIPTS = Path(os.environ.get("CHAOS_SCRIPTS") or ROOT / "packaging/debian")
LIBRARY = str(BUILD / "tests/tool/timeshift.so")
LAB = Path("/mnt")  # of the tester itself; no process of the node writes here
RUN, STATE, ETC = Path("/run/headroom"), Path("/var/lib/headroom"), Path("/etc/headroom")
THP = Path("/sys/kernel/mm/transparent_hugepage")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
CONTROL = struct.Struct("<qqqqqqq")  # struct control of tests/tool/preload/timeshift.c
SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND  # of the wall clock
LIMIT = 120  # real seconds until the node must sleep
LOOKS = 20000  # and looks at it: the machine may be busy with others

# System calls (x86-64) that wait for others. In any other one, a sleeping thread waits for a disk.
WAITS = {str(n).encode() for n in (0, 7, 23, 35, 43, 45, 47, 61, 202, 230, 232, 247, 270, 271, 281, 288, 441)}
SCHED_SETATTR = 314
CLONE_NEWNS, CLONE_NEWPID = 0x20000, 0x20000000
PF_EXITING = 4  # linux/sched.h
TURN = b"128"  # of a thread that timeshift.c lets sleep until its turn
PAUSE = b"34"  # of a thread that timeshift.c lets sleep instead of its change

# Functions of the kernel that wait for a FUSE server, or for a thread that does.
HANGS = ("request_wait_answer", "fuse_get_req", "d_alloc_parallel")

MOUNTS = """
set -e
mount --make-rprivate /
mount -t tmpfs -o size=256m lab /mnt
mkdir -p /mnt/etc /mnt/work /mnt/out /mnt/host /mnt/empty/blue /mnt/empty/green /mnt/bin /mnt/hung /mnt/images/store
mount -t tmpfs -o size=1m store /mnt/images/store
mount -t overlay -o lowerdir=/etc,upperdir=/mnt/etc,workdir=/mnt/work overlay /etc
mount -t tmpfs -o size=32m run /run
mount -t tmpfs -o size=32m state /var/lib
mount -t tmpfs kernel /proc/sys
mount -t tmpfs kernel /sys/kernel/mm
n=0
for tree; do n=$((n + 1)); mkdir -p /mnt/trees/$n; mount --bind "$tree" /mnt/trees/$n; done
for directory in /home /root /tmp /var/tmp; do mount -t tmpfs -o size=1m,mode=1777 private $directory; done
n=0
for tree; do
	n=$((n + 1))
	[ -e "$tree" ] || { mkdir -p "$tree"; mount --bind /mnt/trees/$n "$tree"; }
	umount /mnt/trees/$n
done
rm -r /mnt/trees
ip link set lo up
"""
PRIVATE = ("/home", "/root", "/tmp", "/var/tmp")  # empty but for the trees of the tester


class Violation(AssertionError):
    """A promise that the program has broken."""

    def __init__(self, promise: str, text: str) -> None:
        super().__init__(f"{promise}: {text}")
        self.promise = promise


@dataclass
class Done:
    """A command that has ended."""

    args: tuple[str, ...]
    code: int
    out: str
    seconds: float
    crashed: bool = False


@dataclass
class Task:
    args: tuple[str, ...]
    process: "subprocess.Popen[bytes]"
    out: Path
    began: float
    number: int = 0

    def done(self, now: float) -> Done:
        code = self.process.returncode
        text = self.out.read_text(errors="replace")
        self.out.unlink()
        return Done(self.args, code, text, now - self.began, code in (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT))


# The pods of a chart see the node below /mnt/host. An emptyDir may stand in place of a directory of the host.
PODS = {
    "host": "",
    "own-pids": "",  # without hostPID
    "empty-run": "mount --bind /mnt/empty/{} /run",
    "empty-state": "mount --bind /mnt/empty/{} /var/lib",
}
RELEASES = ("blue", "green")


@dataclass
class Actor:
    """Someone who acts again and again, such as configuration management."""

    period: float
    act: Callable[[], None]
    due: float = 0


class World:
    def __init__(self, bpf: bool = True) -> None:
        # On one CPU, so that those few processes that do not wait for their turn run in the same order each time.
        os.sched_setaffinity(0, {random.choice(sorted(os.sched_getaffinity(0)))})
        # A short slice lets each of many short runs begin soon beside other programs.
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.syscall(SCHED_SETATTR, 0, struct.pack("<IIQiIQQQ", 48, os.sched_getscheduler(0), 0, os.nice(0), 0, SECOND // 10000, 0, 0), 0)
        if not bpf:
            subprocess.run(["mount", "-t", "tmpfs", "kernel", "/sys/kernel/btf"], check=True)
        subprocess.run(["sh", "-c", MOUNTS, "sh", *map(str, (ROOT, BUILD, SCRIPTS))], check=True)
        os.chdir("/")
        self.private, self.mounted = self.private_files(), self.mounts()
        (LAB / "control").write_bytes(bytes(CONTROL.size))
        os.mkfifo(LAB / "bell")
        for name in ("control", "bell"):
            (LAB / name).chmod(0o666)
        with (LAB / "control").open("r+b") as file:
            self.control = mmap.mmap(file.fileno(), CONTROL.size)
        Path("/etc/ld.so.preload").write_text(LIBRARY + "\n")  # for the programs that the agent executes, too
        self.pid_namespace = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self.bell = os.open(LAB / "bell", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self.fuse = -1  # the server of the file system that hangs
        self.turned = False  # the threads wait for their turns
        self.turns: list[tuple[int, int]] = []  # threads that wait for their turn, and their processes
        self.at_end: set[int] = set()  # processes at the change before which they are killed
        self.kept: set[int] = set()  # processes of the tester
        self.watch: Callable[[], None] = lambda: None  # called whenever all processes sleep
        self.pumps: list[Callable[[], bool]] = []  # fakes in this process: True if they answered something
        self.pods = {
            (release, kind): self.namespace(f"mount --rbind / /mnt/host\n{script.format(release)}")
            for release in RELEASES
            for kind, script in PODS.items()
        }
        for name in ("systemctl", "deb-systemd-helper", "deb-systemd-invoke"):
            (LAB / "bin" / name).symlink_to("/bin/true")
        (LAB / "bin/headroom").symlink_to(BIN)
        self.reset()

    @staticmethod
    def private_files() -> set[str]:
        return {f"{directory}/{name}" for directory in PRIVATE for name in os.listdir(directory)}

    @staticmethod
    def mounts() -> set[str]:
        """Without their options: a test makes a disk read-only."""
        return {" ".join(line.split()[:3]) for line in Path("/proc/self/mounts").read_text().splitlines()}

    def namespace(self, script: str) -> int:
        """A descriptor of a new mount namespace in which the script has run."""
        command = ["unshare", "--mount", "sh", "-ec", f"{script}\necho ready\nread line"]
        holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert holder.stdin and holder.stdout and holder.stdout.readline() == b"ready\n"
        fd = os.open(f"/proc/{holder.pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        holder.stdin.write(b"\n")
        holder.stdin.close()
        holder.wait()
        return fd

    def reset(self) -> None:
        """A new node at its first boot."""
        self.end_all()
        self.tasks: dict[str, Task] = {}
        self.actors: dict[str, Actor] = {}
        self.monotonic, self.realtime, self.boottime = 1000 * SECOND, START, 1000 * SECOND
        self.counter = 0
        self.set_clocks()
        self.make_room()
        for directory in (Path("/run"), Path("/var/lib"), ETC, LAB / "out", *(LAB / "empty" / r for r in RELEASES)):
            clear(directory)
        ETC.mkdir(exist_ok=True)
        self.boots = 0

    # ---- clocks ----

    @property
    def now(self) -> float:
        return self.monotonic / SECOND

    def set_clocks(self, *crash: int) -> None:
        self.control[:] = CONTROL.pack(self.monotonic, self.realtime, self.boottime, *(crash or (0, 0, 0)), self.turned)

    def ring(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self.bell, 65536)
        os.write(self.bell, b"-")

    def crash_at(self, pid: int, change: int) -> None:
        """Kills the process before one of the next changes of files by one of its threads."""
        self.counter += 1
        self.set_clocks(pid, change, self.counter)

    def forward(self, ns: int) -> None:
        self.monotonic += ns
        self.realtime += ns
        self.boottime += ns
        self.set_clocks(*CONTROL.unpack(self.control[:])[3:6])
        self.ring()
        self.settle()

    def advance(self, seconds: float) -> None:
        """Moves the clocks second by second, and through long times in larger steps."""
        end = self.monotonic + int(seconds * SECOND)
        while self.monotonic < end:
            left = end - self.monotonic
            step = SECOND if left <= 15 * SECOND else max(SECOND, left // 8)
            due = min((int(a.due * SECOND) for a in self.actors.values()), default=end)
            self.forward(max(min(step, left, due - self.monotonic), SECOND // 1000))
            for actor in list(self.actors.values()):
                if actor.due <= self.now:
                    # After a long step, someone who acts often has acted many times.
                    actor.due = self.now + max(actor.period, step / SECOND / 4 if step > SECOND else 0)
                    actor.act()

    # ---- processes ----

    def pids(self) -> Iterator[str]:
        me = str(os.getpid())
        return (name for name in os.listdir("/proc") if name.isdigit() and name != me)

    def sleeps(self) -> bool:
        """Whether all threads sleep. None has run meanwhile if this one, on the same CPU, has not given way to it."""
        before = resource.getrusage(resource.RUSAGE_THREAD)
        self.at_end.clear()
        self.turns.clear()
        me, told = str(os.getpid()).encode(), False
        for pid in self.pids():
            task = f"/proc/{pid}/task"
            try:
                for tid in os.listdir(task):
                    with open(f"{task}/{tid}/stat", "rb", buffering=0) as file:
                        state, parent, *_, flags = file.read(300).rpartition(b") ")[2].split()[:7]
                    # A zombie's parent is to be told, unless it is stopped or awaits its turn. For the tester's own one, its last thread may still run.
                    told |= state == b"Z" and tid == pid and not (is_over(int(pid)) if parent == me else is_stopped(parent.decode()))
                    if state in b"RX":
                        return False
                    # The first process of a pid namespace waits at its end for the others.
                    ending = state == b"S" and int(flags) & PF_EXITING
                    if (state == b"D" or ending) and not self.hangs(task, tid):
                        return False
                    if state == b"S":
                        with open(f"{task}/{tid}/syscall", "rb", buffering=0) as file:
                            call = file.read(100).split(b" ")[0]
                        if call == TURN:
                            self.turns.append((int(tid), int(pid)))
                        elif call == PAUSE:
                            self.at_end.add(int(pid))
                        elif call not in WAITS and not self.hangs(task, tid):
                            return False
            except (FileNotFoundError, ProcessLookupError):
                return False
        after = resource.getrusage(resource.RUSAGE_THREAD)
        gave_way = after.ru_nivcsw != before.ru_nivcsw or after.ru_nvcsw != before.ru_nvcsw
        return not gave_way and not (told and not self.turns)

    def hangs(self, task: str, tid: str) -> bool:
        """Whether a thread waits for the file system that hangs."""
        return self.fuse >= 0 and Path(task, tid, "wchan").read_text() in HANGS

    def settle(self) -> None:
        """
        Waits until all processes sleep. Then one of those that have woken up goes on. If there is none, the fakes in
        this process answer.
        """
        deadline, looks, since = time.monotonic() + LIMIT, 0, 0
        while True:
            if not self.sleeps():
                os.sched_yield() if looks - since < 20 else time.sleep(0.0003 if looks - since < 100 else 0.003)
                looks += 1
            elif self.turns:
                tid, pid = min(self.turns)
                self.libc.tgkill(pid, tid, signal.SIGRTMAX)
                os.sched_yield()
                since = looks
            elif self.at_end:
                for pid in self.at_end:
                    os.kill(pid, signal.SIGKILL)
            elif not any([pump() for pump in self.pumps]):
                break
            if looks > LOOKS and time.monotonic() > deadline:
                raise Violation("progress", f"the node does not sleep: {self.describe()}")
        self.reap()
        self.watch()

    def describe(self) -> str:
        lines = []
        for pid in self.pids():
            try:
                lines.append(Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " "))
                for tid in os.listdir(f"/proc/{pid}/task"):
                    name = f"/proc/{pid}/task/{tid}"
                    lines.append(Path(name, "wchan").read_text() + " " + Path(name, "syscall").read_text().split()[0])
            except OSError:
                pass
        return "; ".join(lines)

    def reap(self) -> None:
        """Takes orphans: this process is the first of its pid namespace."""
        known = {task.process.pid for task in self.tasks.values()} | self.kept
        for pid in list(self.pids()):
            try:
                with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
                    fields = file.read(300).rpartition(b") ")[2].split()
            except OSError:
                continue
            if fields[0] == b"Z" and fields[1] == str(os.getpid()).encode() and int(pid) not in known:
                try:
                    os.waitpid(int(pid), os.WNOHANG)
                except ChildProcessError:
                    pass

    def spawn(
        self,
        *args: str,
        owner: str = "",
        wrap: tuple[str, ...] = (),
        crash: int = 0,
        env: dict[str, str] | None = None,
        program: str = BIN,
        pod: str = "",
    ) -> Task:
        self.counter += 1
        out = LAB / f"out/{self.counter}"
        own = {
            "PATH": f"{LAB}/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "LC_ALL": "C.UTF-8",
            "DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={LAB}/bus",
            "HEADROOM_TEST_SYSCALLS": "kill",
            **({"HEADROOM_OWNER": owner} if owner else {}),
            **({"SHIFT_CRASH": str(crash)} if crash else {}),
            **({"HEADROOM_HOST_ROOT": str(LAB / "host")} if pod else {}),
            **(env or {}),
        }
        if pod == "own-pids":
            self.libc.unshare(CLONE_NEWPID)
        with out.open("wb") as file:
            process = subprocess.Popen(
                [*wrap, program, *args],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env=own,
                close_fds=False,
                preexec_fn=(lambda: self.enter(self.pods[owner, pod], pod == "own-pids")) if pod else None,
            )
        if pod == "own-pids":
            self.libc.setns(self.pid_namespace, CLONE_NEWPID)
        task = Task(args, process, out, self.now, self.counter)
        self.tasks[f"{self.counter}"] = task
        return task

    def enter(self, fd: int, own_pids: bool) -> None:
        libc = self.libc
        failed = libc.setns(fd, CLONE_NEWNS) != 0
        if own_pids:
            failed |= libc.unshare(CLONE_NEWNS) != 0 or libc.mount(b"proc", b"/proc", b"proc", 0, None) != 0
            failed |= libc.mount(b"/mnt/host/proc/sys", b"/proc/sys", None, 0x1000, None) != 0  # MS_BIND
        if failed:
            os._exit(127)

    def finish(self, *tasks: Task, limit: float = 900, each: Callable[[int], None] | None = None) -> list[Done]:
        """Lets time pass until commands have ended. each: called with the number of the look."""
        step, look, began = 0.05, 0, self.now
        self.settle()
        while any(task.process.poll() is None for task in tasks):
            if each:
                each(look)
            look += 1
            self.forward(int(step * SECOND))
            step = min(step * 1.3, 0.25 if self.now - began < 6 else 1.0)
            if self.now - began > limit:
                raise Violation("progress", f"headroom {' '.join(tasks[0].args)} does not end: {self.describe()}")
        for task in tasks:
            del self.tasks[str(task.number)]
        return [task.done(self.now) for task in tasks]

    def command(self, *args: str, **more: Any) -> Done:
        return self.finish(self.spawn(*args, **more))[0]

    def end_all(self) -> None:
        for _ in range(1000):
            pids = [pid for pid in self.pids() if int(pid) not in self.kept]
            if not pids:
                return
            for pid in pids:
                try:
                    os.kill(int(pid), signal.SIGKILL)
                    os.waitpid(int(pid), 0)
                except (ProcessLookupError, ChildProcessError):
                    time.sleep(0.001)
        raise RuntimeError(f"processes do not end: {self.describe()}")

    # ---- disks ----

    def fill(self, directory: str) -> None:
        try:
            with open(f"{directory}/filler", "wb") as file:
                free = shutil.disk_usage(directory).free
                while free > 0:
                    os.posix_fallocate(file.fileno(), file.tell(), min(free, 1 << 20))
                    file.seek(min(free, 1 << 20), os.SEEK_CUR)
                    free = shutil.disk_usage(directory).free
        except OSError:
            pass

    def make_read_only(self, directory: str, read_only: bool = True) -> None:
        flags = 0x20 | (1 if read_only else 0)  # MS_REMOUNT, MS_RDONLY
        self.libc.mount(b"none", directory.encode(), b"tmpfs", flags, None)

    def hang(self) -> None:
        """A FUSE mount whose server never answers."""
        if self.fuse < 0:
            self.fuse = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
            options = f"fd={self.fuse},rootmode=40000,user_id=0,group_id=0"
            assert self.libc.mount(b"hung", b"/mnt/hung", b"fuse", 0, options.encode()) == 0

    def make_room(self) -> None:
        if self.fuse >= 0:
            os.close(self.fuse)
            self.fuse = -1
            self.libc.umount2(b"/mnt/hung", 2)
        for directory in ("/run", "/var/lib"):
            self.make_read_only(directory, False)
            Path(directory, "filler").unlink(missing_ok=True)

    # ---- HTTP ----

    def get(self, path: str, socket_path: Path) -> Any:
        """A document of the agent, or None without an answer. The node's clocks stand still meanwhile."""
        with socket.socket(socket.AF_UNIX) as s:
            s.setblocking(False)
            try:
                s.connect(str(socket_path))
                s.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
                answer, more = b"", b"-"
                while more:
                    self.settle()
                    more = s.recv(1 << 20, socket.MSG_DONTWAIT)
                    answer += more
            except OSError:
                return None
        head, _, body = answer.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            return None
        return json.loads(body)


def set_immutable(path: Path, on: bool) -> None:
    """chattr +i or -i."""
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        fcntl.ioctl(file, 0x40086602, struct.pack("l", 0x10 if on else 0))  # FS_IOC_SETFLAGS


def is_over(pid: int) -> bool:
    """Whether all threads of a child have ended."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def is_stopped(pid: str) -> bool:
    return b") T " in Path(f"/proc/{pid}/stat").read_bytes()


def clear(directory: Path, *kept: Path) -> None:
    """Removes what is in a directory."""
    if not directory.exists():
        return
    for entry in {*directory.iterdir()} - {*kept}:
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
