# SPDX-License-Identifier: Apache-2.0
"""What the rows of table.py are made of: pods, processes that fill a limit, name servers, files of runtimes.

An injector is a generator: inject(w, ...) brings its fault about, yields the fields for the patterns of its row, and
undoes what w does not undo by itself. w is a World.
"""

import contextlib
import ctypes
import os
import re
import resource
import secrets
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest
from conftest import Agent, read, sysctl, until

Fields = dict[str, Any]

RUN = "import ctypes, mmap, os, resource, signal, socket, sys, threading, time\nlibc = ctypes.CDLL(None, use_errno=True)\n"


def mount_of(controller: str) -> Path | None:
    """The hierarchy of a controller of cgroup v1, else that of cgroup2."""
    unified = None
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        words = line.split()
        kind = words[words.index("-") + 1]
        if kind == "cgroup" and controller in words[-1].split(","):
            return Path(words[4])
        if kind == "cgroup2" and words[3] == "/" and os.stat(words[4]).st_ino == 1:
            unified = Path(words[4])
    return unified


class Group:
    """A workload: the same cgroup in the hierarchies that the agent reads. text: the agent's name for it."""

    def __init__(self, world: "World", path: str, text: str, controllers: tuple[str, ...]) -> None:
        self.text, self.programs = text, []  # type: ignore[var-annotated]
        self.world = world
        self.paths: dict[str, Path] = {}
        self.made: list[Path] = []
        for controller in ("", *controllers):
            base = mount_of(controller)
            if not base:
                pytest.skip(f"no hierarchy of the controller {controller or 'of cgroup2'}")
            self.paths[controller] = group = base / path
            for directory in (*reversed(group.parents), group):
                if not directory.exists():
                    directory.mkdir()
                    self.made.append(directory)

    def limit(self, file: str, value: int | str) -> None:
        path = self.paths[file.split(".")[0]] / file
        if not path.exists():
            pytest.skip(f"no {path}")
        path.write_text(str(value))

    def enter(self) -> None:
        for directory in set(self.paths.values()):
            (directory / "cgroup.procs").write_text("0")

    def run(self, script: str, *wrap: str, ready: str = "ready\n", **more: Any) -> "subprocess.Popen[str]":
        """Runs a Python program in the workload until the workload ends, and waits for its line "ready"."""
        text = f"{RUN}{script}\nprint('ready', flush=True)\ntime.sleep(1000)\n"
        program = subprocess.Popen(
            [*wrap, sys.executable, "-c", text], stdout=subprocess.PIPE, text=True, preexec_fn=self.enter, **more
        )
        self.programs.append(program)
        line = program.stdout.readline()  # type: ignore[union-attr]
        assert line == ready, f"the program of {self.text} ended: {line!r}"
        return program

    def processes(self) -> set[int]:
        pids = {program.pid for program in self.programs}
        for directory in set(self.paths.values()):
            for file in directory.rglob("cgroup.procs"):
                with contextlib.suppress(OSError):
                    pids |= {int(word) for word in file.read_text().split()}
        return pids

    def kill(self) -> None:
        def gone() -> bool:
            pids = self.processes()
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for program in self.programs:
                program.communicate()
            self.programs = []
            return not pids

        until(gone, f"{self.text} has ended")

    def remove(self) -> None:
        self.kill()
        for directory in reversed(self.made):

            def removed(directory: Path = directory) -> bool:
                with contextlib.suppress(OSError):
                    directory.rmdir()
                return not directory.exists() or any(entry.is_dir() for entry in directory.iterdir())

            until(removed, f"{directory} is removed", timeout=20)


class World:
    """One row while it runs. Everything that it makes is undone at its end, the last first."""

    def __init__(self, directory: Path, wrap: tuple[str, ...] = ()) -> None:
        self.directory = directory
        self.wrap = wrap  # of commands that run beside the agent
        self.lab: Any = None  # of the place
        self.agent: Agent = None  # type: ignore[assignment]
        self.stack = contextlib.ExitStack()
        self.after = contextlib.ExitStack()  # undone when the agent has been silent again
        self.watched: Agent | None = None  # another agent that has the finding
        self.doctored: Agent | None = None  # another agent that doctor asks
        self.called: dict[str, Callable[[list[str]], Any]] = {}

    def group(self, path: str, text: str, *controllers: str) -> Group:
        made = Group(self, path, text, controllers or ("pids",))
        self.stack.callback(made.remove)
        return made

    def pod(self, *controllers: str, systemd: bool = False) -> Group:
        """A pod as the kubelet makes it."""
        uid = "{}-{}-{}-{}-{}".format(*(secrets.token_hex(n) for n in (4, 2, 2, 2, 6)))
        container = secrets.token_hex(32)
        path = f"kubepods/burstable/pod{uid}/{container}"
        if systemd:
            path = f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid.replace('-', '_')}.slice/cri-containerd-{container}.scope"
        return self.group(path, f"pod {uid}", *controllers)

    def unit(self, *controllers: str) -> Group:
        name = f"hr{secrets.token_hex(3)}.service"
        return self.group(f"system.slice/{name}", f"unit {name}", *controllers)

    def lxd(self, *controllers: str) -> Group:
        name = f"hr{secrets.token_hex(3)}"
        return self.group(f"lxc.payload.{name}", f"lxd {name}", *controllers)

    def sysctl(self, name: str, value: int | str) -> None:
        """Sets a value until the end of the row."""
        before = sysctl(name)
        self.stack.callback(sysctl, name, before)
        sysctl(name, value)

    def netns(self) -> tuple[str, ...]:
        """A network namespace, and the prefix of commands in it."""
        name = f"hr-fault-{secrets.token_hex(3)}"
        self.sh("ip", "netns", "add", name)
        self.stack.callback(self.sh, "ip", "netns", "del", name)
        self.sh("ip", "-n", name, "link", "set", "lo", "up")
        return ("nsenter", f"--net=/run/netns/{name}")

    def tool(self, name: str, call: Callable[[list[str]], Any], installed: bool = False) -> None:
        """
        A program that this node lacks, such as systemctl: `now` calls it, and then the harness calls `call`. installed: the agent looks for it, and
        finds it where RKE2 has its programs.
        """
        path = self.tools / name
        path.write_text(f'#!/bin/sh\nprintf "%s\\0" "$@" >>{self.tools}/{name}.calls; echo >>{self.tools}/{name}.calls\n')
        path.chmod(0o755)
        self.called[name] = call
        if installed:
            link = self.path(f"/var/lib/rancher/rke2/bin/{name}")
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path)
            self.stack.callback(link.unlink)

    @property
    def tools(self) -> Path:
        path = self.directory / "tools"
        path.mkdir(exist_ok=True)
        return path

    def answer_calls(self) -> None:
        """Does what the tools were called for."""
        for name, call in self.called.items():
            file = self.tools / f"{name}.calls"
            for line in file.read_text().split("\n")[:-1] if file.exists() else []:
                call(line.split("\0")[:-1])
            file.unlink(missing_ok=True)

    def path(self, file: str) -> Path:
        """A path of the agent's node, from here."""
        return self.lab.root / file.lstrip("/") if getattr(self.lab, "root", None) else Path(file)

    @staticmethod
    def sh(*command: str | Path, check: bool = True, **more: Any) -> str:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=60, **more)
        assert not check or done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    def thread(self, run: Callable[[threading.Event], Any]) -> None:
        """Repeats run(stop) in a thread until the end of the row."""
        stop = threading.Event()

        def work() -> None:
            while not stop.is_set():
                run(stop)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()

        def ended() -> None:
            stop.set()
            thread.join(20)

        self.stack.callback(ended)


def systemctl(w: World, restart: Callable[[], Any] | None = None) -> None:
    """The verbs that a cure uses, on cgroups and on a program of the row."""

    def call(words: list[str]) -> None:
        verb, *rest = [word for word in words if not word.startswith("-")]
        if verb == "set-property":
            unit, *settings = rest
            for setting in settings:
                key, value = setting.split("=", 1)
                if key == "TasksMax":
                    base = mount_of("pids")
                    assert base
                    (base / "system.slice" / unit / "pids.max").write_text(value)
        elif verb in ("restart", "start", "reload") and restart:
            restart()

    w.tool("systemctl", call)


# ---- limits of processes and users ----


def inotify(w: World, uid: int, counts: tuple[int, ...] = (0,), maximum: int = 128, kinds: str = "pods") -> Iterator[Fields]:
    """Workloads that share the instances of a user. The last one takes what is left."""
    w.sysctl("fs.inotify.max_user_instances", maximum)
    made = [w.pod() if kinds == "pods" else w.unit() for _ in counts]
    for group, count in zip(made, counts):
        group.run(f"os.setuid({uid})\nn = 0\nwhile n < ({count} or {1 << 30}) and libc.inotify_init1(0) >= 0: n += 1")
    most = max(range(len(made)), key=lambda i: counts[i] or maximum - sum(counts))
    yield {"uid": uid, "who": made[most].text}


def innocent_inotify(w: World, uid: int) -> None:
    """Another user with more instances than the full one, of a larger maximum. Nobody needs to hear of it."""
    w.pod().run(f"os.setuid({uid})\nfor i in range(20): assert libc.inotify_init1(0) >= 0")


def inotify_beside_another_user(w: World, uid: int) -> Iterator[Fields]:
    innocent_inotify(w, uid + 1)
    yield from inotify(w, uid)


def watches(w: World, uid: int, maximum: int = 2000) -> Iterator[Fields]:
    w.sysctl("fs.inotify.max_user_watches", maximum)
    other, most = w.pod(), w.pod()
    tree = w.directory / f"watched-{uid}"
    tree.mkdir()
    for i in range(maximum + 10):
        (tree / str(i)).touch()
    script = (
        "os.setuid({uid})\nfd = libc.inotify_init1(0)\n"
        "for i in range({first}, {first} + {n}):\n if libc.inotify_add_watch(fd, b'{tree}/%d' % i, 2) < 0: break"
    )
    other.run(script.format(uid=uid, n=maximum // 10, first=0, tree=tree))
    most.run(script.format(uid=uid, n=maximum + 5, first=0, tree=tree))
    yield {"uid": uid, "who": most.text}


def files(w: World, count: int, maximum: int, kind: str = "pod") -> Iterator[Fields]:
    group = getattr(w, kind)()
    w.pod().run("files = [os.open('/', 0) for _ in range(500)]")  # more than none, and far from its maximum
    program = group.run(
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({maximum}, max({maximum}, 4096)))\n"
        f"files = []\ntry:\n while len(files) < {count}: files.append(os.open('/', 0))\nexcept OSError: pass"
    )
    yield {"who": group.text, "pid": program.pid, "comm": read(f"/proc/{program.pid}/comm")}


def files_of_workers(w: World, count: int, maximum: int) -> Iterator[Fields]:
    """All workers of a service are full, as they serve the same load."""
    group = w.unit()
    fill = f"resource.setrlimit(resource.RLIMIT_NOFILE, ({maximum}, {8 * maximum}))\nfiles = []\ntry:\n while True: files.append(os.open('/', 0))\nexcept OSError: pass"
    programs = [group.run(fill) for _ in range(count)]
    yield {"who": group.text, "comm": read(f"/proc/{programs[0].pid}/comm")}


def files_then_killed(w: World) -> Iterator[Fields]:
    """The workload of the finding is gone a moment later."""
    group = w.pod()
    group.run("resource.setrlimit(resource.RLIMIT_NOFILE, (700, 700))\nfiles = []\ntry:\n while True: files.append(os.open('/', 0))\nexcept OSError: pass")
    limit_seen(w, "files/process")
    group.kill()
    yield {"who": group.text}


def limit_seen(w: World, slug: str) -> None:
    until(lambda: any(f["slug"] == slug for f in w.agent.status().get("findings", [])), f"a finding {slug}", 0.5, 25)


def maps(w: World, maximum: int = 12000) -> Iterator[Fields]:
    w.sysctl("vm.max_map_count", maximum)
    group = w.pod()
    program = group.run(
        "maps = []\ntry:\n while True: maps.append(mmap.mmap(-1, 4096, prot=1 + len(maps) % 2))\nexcept OSError: del maps[-5:]"
    )
    yield {"who": group.text, "pid": program.pid, "comm": read(f"/proc/{program.pid}/comm")}


def keys(w: World, uid: int, size: int = 0) -> Iterator[Fields]:
    """A user's keys, beside root with more of a larger maximum. size: of one key's payload, instead of many keys."""
    w.sysctl("kernel.keys.maxkeys", 200)
    w.sysctl("kernel.keys.maxbytes", 20000)
    add = 'add = lambda name, data, n: libc.syscall(248, b"user", name, data, n, {ring})\n'
    w.pod().run(add.format(ring="-3") + "libc.syscall(250, 1, None)\nfor i in range(300): add(b'r%d' % i, b'x', 1)")
    group = w.pod()
    fill = f"n = 0\nwhile add(b'k%d' % n, b'x' * {size or 1}, {size or 1}) > 0: n += 1\nassert n > 0"
    if size:
        fill += "\nassert add(b'last', b'x' * 200, 200) < 0 or True\nwhile add(b'm%d' % n, b'x' * 90, 90) > 0: n += 1"
    group.run(f"os.setuid({uid})\nlibc.syscall(250, 1, None)\n" + add.format(ring="-3") + fill)
    yield {"uid": uid, "who": group.text}


def pids_of_pod(w: World, maximum: int = 60, kind: str = "pod") -> Iterator[Fields]:
    """A workload that forks until it is refused, beside one with few threads."""
    other, group = w.pod(), getattr(w, kind)()
    other.run("for _ in range(4): threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()")
    group.limit("pids.max", maximum)
    systemctl(w)
    group.run(
        f"for _ in range({maximum} + 30):\n try:\n  if os.fork() == 0:\n   time.sleep(1000)\n   os._exit(0)\n except OSError: pass"
    )
    yield {"who": group.text, "path": str(group.paths["pids"].relative_to(mount_of("pids")))}  # type: ignore[arg-type]


def pids_of_rootless(w: World, maximum: int = 64) -> Iterator[Fields]:
    """A rootless container, beside another one of the user."""
    manager, ids = "user.slice/user-64440.slice/user@64440.service/user.slice", [secrets.token_hex(32) for _ in range(2)]
    other, group = (w.group(f"{manager}/libpod-{x}.scope/container", f"container {x[:12]}", "pids") for x in ids)
    (group.paths["pids"].parent / "pids.max").write_text(str(maximum))
    other.run("")
    group.run(f"for _ in range({maximum} + 20):\n try:\n  if os.fork() == 0:\n   time.sleep(1000)\n   os._exit(0)\n except OSError: pass")
    yield {"who": group.text, "path": f"libpod-{ids[1]}.scope"}


def pids_of_kubepods(w: World, maximum: int = 300) -> Iterator[Fields]:
    """The limit of all pods together: most threads are of one of them."""
    big, small = w.pod(), w.pod()
    kubepods = mount_of("pids") / "kubepods"  # type: ignore[operator]
    before = read(kubepods / "pids.max")
    (kubepods / "pids.max").write_text(str(maximum))
    w.stack.callback((kubepods / "pids.max").write_text, before)
    small.run("for _ in range(2): threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()")
    big.run(
        f"for _ in range({maximum}):\n try: threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n except RuntimeError: pass"
    )
    yield {"who": big.text}


def threads(w: World, name: str) -> Iterator[Fields]:
    """Near kernel.pid_max or kernel.threads-max, not full: others on this machine fork too."""
    group = w.pod()
    group.run("threading.stack_size(65536)\nfor _ in range(2500): threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()")
    now = int(read("/proc/loadavg").split()[3].split("/")[1])
    w.sysctl(name, int(now / 0.87))
    yield {"who": group.text}


def file_handles(w: World) -> Iterator[Fields]:
    """Near, not full: others on this machine open files too."""
    group = w.pod()
    resource.setrlimit(resource.RLIMIT_NOFILE, (20000, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    group.run("files = [os.open('/', 0) for _ in range(15000)]")
    w.sysctl("fs.file-max", int(int(read("/proc/sys/fs/file-nr").split()[0]) / 0.85))
    yield {"who": group.text}


def mounts(w: World, maximum: int = 1500) -> Iterator[Fields]:
    """One path, mounted again and again."""
    w.sysctl("fs.mount-max", maximum)
    group = w.pod()
    group.run(
        "n = 0\nwhile n < 5000 and libc.mount(b'none', b'/mnt', b'tmpfs', 0, b'size=4k') == 0: n += 1",
        "unshare", "--mount", "--propagation", "private",
    )  # fmt: skip
    yield {"who": group.text}


def ptys(w: World) -> Iterator[Fields]:
    group = w.pod()
    w.sysctl("kernel.pty.max", int(sysctl("kernel.pty.reserve")) + int(read("/proc/sys/kernel/pty/nr")) + 100)
    group.run("pairs = []\ntry:\n while len(pairs) < 120: pairs.append(os.openpty())\nexcept OSError: pass")
    yield {"who": group.text}


def aio(w: World) -> Iterator[Fields]:
    group = w.pod()
    group.run(
        "contexts = []\nfor n in (8192, 1024, 64, 1):\n"
        " while True:\n  c = ctypes.c_ulong()\n  if libc.syscall(206, n, ctypes.byref(c)) != 0: break\n  contexts.append(c)"
    )
    yield {"who": group.text}


# ---- the network ----


def listener(w: World, backlog: int, somaxconn: int, extra: int = 5, kind: str = "pod") -> Iterator[Fields]:
    """A listener that does not accept. It listens again when the unit restarts."""
    inside, group, port = w.netns(), getattr(w, kind)(), 8000 + secrets.randbelow(900)
    w.sh(*inside, "sysctl", "-qw", f"net.core.somaxconn={somaxconn}", "net.ipv4.tcp_syn_retries=1")
    program = group.run(
        f"s = socket.socket()\ns.bind(('127.0.0.1', {port}))\ns.listen({backlog})\nc = []\n"
        f"for _ in range({min(backlog, somaxconn)} + 1 + {extra}):\n t = socket.socket()\n t.setblocking(False)\n c.append(t)\n"
        f" try: t.connect(('127.0.0.1', {port}))\n except OSError: pass\n"
        f"signal.signal(signal.SIGUSR1, lambda *_: s.listen(65535))",
        *inside,
    )  # fmt: skip
    w.again = lambda: os.kill(program.pid, signal.SIGUSR1)  # type: ignore[attr-defined]
    systemctl(w, w.again)  # type: ignore[attr-defined]
    yield {"who": group.text, "port": port}


def ports(w: World, width: int = 600) -> Iterator[Fields]:
    """All ports to one destination."""
    inside, group = w.netns(), w.pod()
    w.sh(*inside, "sysctl", "-qw", f"net.ipv4.ip_local_port_range=20000 {20000 + width - 1}")
    group.run(
        "s = socket.socket()\ns.bind(('127.0.0.1', 80))\ns.listen(100)\nc, a = [], []\n"
        f"for _ in range({width}):\n t = socket.socket()\n try: t.connect(('127.0.0.1', 80))\n except OSError: break\n"
        " c.append(t)\n a.append(s.accept()[0])",
        *inside,
    )  # fmt: skip
    yield {"who": group.text}


def tracked(w: World, maximum: int, sources: tuple[tuple[int, int], ...], pods: bool) -> Iterator[Fields]:
    """Connections of sources (address, share of the maximum in percent) in a namespace, or in that of the agent."""
    from test_limits import in_space, track

    w.sysctl("net.netfilter.nf_conntrack_max", maximum)
    inside = w.netns()
    space = inside[1].rsplit("/", 1)[1]
    group = w.pod()
    if pods:
        group.run("", *inside)

    def fill() -> None:
        with contextlib.suppress(AssertionError):  # the table is full
            for source, percent in sources:
                track(maximum * percent // 100, source)

    in_space(space, fill)
    first = max(sources, key=lambda one: one[1])[0]
    yield {"who": group.text, "address": socket.inet_ntoa(first.to_bytes(4, "big"))}


def tracked_here(w: World, maximum: int, sources: tuple[tuple[int, int], ...]) -> Iterator[Fields]:
    """Connections in the agent's own network namespace."""
    from test_limits import track

    w.sysctl("net.netfilter.nf_conntrack_max", maximum)
    w.wrap = ()  # the maximum can be raised in the first namespace only

    def fill() -> None:
        with contextlib.suppress(AssertionError):
            for source, percent in sources:
                track(maximum * percent // 100, source)

    in_namespace(w, fill)
    first = max(sources, key=lambda one: one[1])[0]
    yield {"address": socket.inet_ntoa(first.to_bytes(4, "big"))}
    in_namespace(w, forget_connections)


def forget_connections() -> None:
    """Empties the table of this network namespace (IPCTNL_MSG_CT_DELETE)."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12) as netlink:
        netlink.send(struct.pack("=IHHIIBBH", 20, 0x102, 5, 1, 0, socket.AF_INET, 0, 0))
        netlink.recv(4096)


def in_namespace(w: World, function: Callable[[], None]) -> None:
    """Calls the function in a child in the network namespace of the agent."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            with open(f"/proc/{w.agent.pid}/ns/net") as file:
                assert ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0) == 0
            function()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0


def neighbors(w: World, family: int, count: int, top: int, device: str = "storm0") -> Iterator[Fields]:
    """Entries of a pod's namespace: near the maximum, or more than it."""
    import storm
    from conftest import set_thresholds, thresholds

    name = storm.NAMES[family]
    before = thresholds(name)
    w.stack.callback(set_thresholds, name, before)
    set_thresholds(name, (128, top // 2, top))
    inside, group = w.netns(), w.pod()
    space = inside[1].rsplit("/", 1)[1]
    storm.ip("-n", space, "link", "add", device, "type", "veth", "peer", "name", f"{device}p")
    for end in (device, f"{device}p"):
        storm.ip("-n", space, "link", "set", end, "up")
    storm.ip("-n", space, "addr", "add", "198.18.0.1/15", "dev", device)
    storm.ip("-n", space, "addr", "add", "fd00:198::1/64", "dev", device, "nodad")
    group.run("", *inside)

    def work() -> None:
        storm.enter(f"/run/netns/{space}")
        for _ in storm.send_messages(count, family, device):
            pass

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    yield {"who": group.text, "family": name}


def bridge(w: World, count: int = 850) -> Iterator[Fields]:
    """In the agent's network namespace."""
    target = f"/proc/{w.agent.pid}/ns/net"
    lines = ["link add br7 type bridge"]
    for i in range(count // 2):  # both ends of a pair
        lines += [f"link add v{i} type veth peer name w{i}", f"link set v{i} master br7", f"link set w{i} master br7"]
    w.sh("nsenter", f"--net={target}", "ip", "-batch", "-", input="\n".join(lines) + "\n")
    w.stack.callback(w.sh, "nsenter", f"--net={target}", "ip", "link", "del", "br7")
    yield {}
    w.sh("nsenter", f"--net={target}", "ip", "-batch", "-", input="\n".join(f"link del v{i}" for i in range(count // 2)) + "\n")


def socket_memory(w: World, kind: str) -> Iterator[Fields]:
    """Sockets with data that nobody reads, and a maximum that they nearly reach."""
    inside, group = w.netns(), w.pod("pids", "memory")
    if kind == "tcp":
        fill = (
            "s = socket.create_server(('127.0.0.1', 81))\nk = []\nfor _ in range(60):\n a = socket.create_connection(('127.0.0.1', 81))\n"
            " b = s.accept()[0]\n a.setblocking(False)\n k += [a, b]\n try:\n  while True: a.send(b'x' * 65536)\n except OSError: pass"
        )
    else:
        fill = (
            "k = []\nfor _ in range(200):\n s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n s.setsockopt(socket.SOL_SOCKET, 33, 1 << 22)\n"
            " s.bind(('127.0.0.1', 0))\n k.append(s)\n c = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
            " for _ in range(60): c.sendto(b'x' * 60000, s.getsockname())"
        )
    group.run(fill, *inside)
    pages = int(re.search(rf"^{kind.upper()}: .*mem (\d+)", Path("/proc/net/sockstat").read_text(), re.M)[1])  # type: ignore[index]
    top = int(pages / 0.93)
    name = f"net.ipv4.{kind}_mem"
    w.sysctl(name, f"{top - 2} {top - 1} {top}")
    yield {"who": group.text}


def softnet(w: World) -> Iterator[Fields]:
    """Bursts over a pair of devices, which the receiving CPU does not take in time."""
    w.sysctl("net.core.netdev_max_backlog", 8)
    inside, group = w.netns(), w.pod()
    space = inside[1].rsplit("/", 1)[1]
    w.sh("ip", "-n", space, "link", "add", "a0", "type", "veth", "peer", "name", "b0")
    for device in ("a0", "b0"):
        w.sh("ip", "-n", space, "link", "set", device, "up")
    w.sh("ip", "-n", space, "addr", "add", "10.9.0.1/24", "dev", "a0")
    w.sh("ip", "-n", space, "neigh", "add", "10.9.0.2", "lladdr", "02:00:00:00:00:09", "dev", "a0")
    group.run(
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.connect(('10.9.0.2', 9))\n"
        "def flood():\n while True:\n  for _ in range(300):\n   try: s.send(b'x' * 1000)\n   except OSError: pass\n  time.sleep(0.01)\n"
        "for _ in range(3): threading.Thread(target=flood, daemon=True).start()",
        *inside,
    )  # fmt: skip
    yield {"who": group.text}


def insert_failed(w: World) -> Iterator[Fields]:
    """Flows whose translated source port is taken: the kernel drops their first packet."""
    agent = ("nsenter", f"--net=/proc/{w.agent.pid}/ns/net")
    w.sh(*agent, "ip", "link", "add", "n0", "type", "veth", "peer", "name", "n1")
    w.stack.callback(w.sh, *agent, "ip", "link", "del", "n0")
    for device in ("n0", "n1"):
        w.sh(*agent, "ip", "link", "set", device, "up")
    w.sh(*agent, "ip", "addr", "add", "10.8.0.1/24", "dev", "n0")
    w.sh(*agent, "ip", "neigh", "add", "10.8.0.2", "lladdr", "02:00:00:00:00:08", "dev", "n0")
    rule = ["POSTROUTING", "-p", "udp", "-d", "10.8.0.2", "-j", "MASQUERADE", "--to-ports", "5000-5000"]
    iptables = next((name for name in ("iptables-nft", "iptables-legacy", "iptables") if shutil.which(name)), "")
    if not iptables:
        pytest.skip("no iptables")
    w.sh(*agent, iptables, "-t", "nat", "-A", *rule)
    w.stack.callback(w.sh, *agent, iptables, "-t", "nat", "-D", *rule)
    group = w.pod()
    group.run(
        "def flow():\n while True:\n  for i in range(40):\n   s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "   try: s.sendto(b'x', ('10.8.0.2', 53))\n   except OSError: pass\n   s.close()\n  time.sleep(0.1)\n"
        "threading.Thread(target=flow, daemon=True).start()",
        *agent,
    )  # fmt: skip
    yield {"who": group.text}


# ---- file systems ----


def full_disk(w: World, path: str, inodes: bool = False) -> Iterator[Fields]:
    """A small file system at a path of the node, filled by 96 %."""
    where = w.path(path)
    where.mkdir(parents=True, exist_ok=True)
    options = "size=64m,nr_inodes=2000" if inodes else "size=64m"
    w.lab.run("mount", "-t", "tmpfs", "-o", options, "fault", path)
    w.stack.callback(w.lab.run, "umount", "-l", path)
    filler = where / "filler"
    if inodes:
        filler.mkdir()
        for i in range(1950):
            (filler / str(i)).touch()
    else:
        filler.write_bytes(bytes(62 << 20))
    remove = lambda _: w.lab.run("rm", "-rf", f"{path}/filler")  # noqa: E731
    for program in ("crictl", "docker"):
        w.tool(program, remove, installed=True)
    yield {"path": path}


def etcd_database(w: World) -> Iterator[Fields]:
    """A process with etcd's name and options that syncs a database near its quota."""
    program, data = w.directory / "etcd", w.directory / "member/snap"
    if not program.exists():
        program.symlink_to(sys.executable)
    data.mkdir(parents=True, exist_ok=True)
    file = data / "db"
    file.write_bytes(bytes(9_600_000))
    group = w.unit()
    script = f"{RUN}fd = os.open('{file}', os.O_WRONLY)\nprint('ready', flush=True)\nwhile True:\n os.pwrite(fd, b'x', 0)\n os.fdatasync(fd)\n time.sleep(0.05)\n"
    started = subprocess.Popen(
        [program, "-c", script, "--quota-backend-bytes=10000000", f"--data-dir={w.directory}"], stdout=subprocess.PIPE, text=True, preexec_fn=group.enter
    )
    group.programs.append(started)
    assert started.stdout and started.stdout.readline() == "ready\n"
    w.tool("etcdctl", lambda words: "defrag" in words and file.open("r+").truncate(1_000_000))
    yield {"path": str(file), "who": group.text}


def addresses(w: World, used: int = 240, size: int = 253) -> Iterator[Fields]:
    """Files of host-local: one network nearly full, another with more addresses of a larger range."""
    import json

    for name, subnet, n in (("near", "10.61.0.0/24", used), ("wide", "10.62.0.0/16", 300)):
        ipam = {"type": "host-local", "ranges": [[{"subnet": subnet}]]}
        conf = {"cniVersion": "0.4.0", "name": name, "plugins": [{"type": "bridge", "ipam": ipam}]}
        w.lab.write(f"etc/cni/net.d/20-{name}.conflist", json.dumps(conf))
        base = subnet.split("/")[0].rsplit(".", 2)[0]
        for i in range(n):
            w.lab.write(f"var/lib/cni/networks/{name}/{base}.{(i + 2) >> 8}.{(i + 2) & 255}", f"{secrets.token_hex(32)}\r\neth0")
    yield {"network": "near"}
    w.lab.run("rm", "-rf", "/var/lib/cni/networks/near", "/var/lib/cni/networks/wide")
