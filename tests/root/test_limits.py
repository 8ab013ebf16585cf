# SPDX-License-Identifier: Apache-2.0
"""The tuner limits: each row equals a source that is not the agent's, and the pod that fills a limit is named.

`headroom top` without an agent counts everything once, so most tests need no agent.
"""

import contextlib
import ctypes
import json
import os
import re
import resource
import secrets
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest
from conftest import BIN, NO_BPF, Agent, Run, Start, sysctl, until
from dnslab import Cgroup, pod_path

Limits = Callable[..., dict[str, dict[str, Any]]]

LIBC = ctypes.CDLL(None, use_errno=True)


class Pod:
    """Cgroups of a pod, in the hierarchy of cgroup2 and in that of the pids controller."""

    def __init__(self) -> None:
        path, self.uid, _ = pod_path()
        self.group = Cgroup(path)
        self.pids = self.group.path
        for line in Path("/proc/self/mountinfo").read_text().splitlines():
            words = line.split()
            if words[words.index("-") + 1] == "cgroup" and "pids" in words[-1].split(","):
                self.pids = Path(words[4]) / f"kubepods/pod{self.uid}"
                self.pids.mkdir(parents=True)
                break
        if not (self.pids / "pids.max").exists():
            pytest.skip("no pids controller for a cgroup of the test")
        self.programs: list[subprocess.Popen[str]] = []

    def run(self, script: str, *wrap: str) -> "subprocess.Popen[str]":
        """Runs a Python program in the pod until the pod ends, and waits for its line "ready"."""

        def enter() -> None:
            for directory in {self.group.path, self.pids}:
                (directory / "cgroup.procs").write_text("0")

        text = f"import os, socket, time\n{script}\nprint('ready', flush=True)\ntime.sleep(1000)\n"
        program = subprocess.Popen([*wrap, sys.executable, "-c", text], stdout=subprocess.PIPE, text=True, preexec_fn=enter)
        self.programs.append(program)
        assert program.stdout and program.stdout.readline() == "ready\n"
        return program

    def end(self) -> None:
        for pid in {*(self.pids / "cgroup.procs").read_text().split(), *(p.pid for p in self.programs)}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), 9)
        for program in self.programs:
            program.communicate()
        self.group.remove()
        if self.pids != self.group.path:
            until(lambda: not (self.pids / "cgroup.procs").read_text(), "the pod has ended")
            self.pids.rmdir()
            with contextlib.suppress(OSError):  # another pod is there
                self.pids.parent.rmdir()


@pytest.fixture(name="pod")
def fixture_pod() -> Iterator[Pod]:
    resource.setrlimit(resource.RLIMIT_NOFILE, (20000, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    one = Pod()
    try:
        yield one
    finally:
        one.end()


@pytest.fixture(name="limits")
def fixture_limits(run: Run) -> Limits:
    def read(wrap: tuple[str, ...] = ()) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for line in run("top", "limits", wrap=wrap).stdout.splitlines():
            if match := re.match(r"  (\S+) +(\d+) of (\d+) ", line):
                top: list[tuple[int, str, str]] = []
                found[match[1]] = {"used": int(match[2]), "max": int(match[3]), "top": top}
            elif match := re.match(r" {5,}(\d+)  ([^,]+)(?:, (.*))?$", line):
                top.append((int(match[1]), match[2], match[3] or ""))
        return found

    return read


def users(limit: dict[str, Any]) -> list[str]:
    return [user for _, user, _ in limit["top"]]


def count(pattern: str, what: str) -> int:
    return sum(path.read_text(errors="replace").count(what) for path in Path("/proc").glob(pattern) if path.exists())


def test_inotify_of_the_fullest_user_and_the_pod_that_has_most_of_it(node: Any, pod: Pod, limits: Limits) -> None:
    sysctl("fs.inotify.max_user_instances", 9000)
    pod.run(
        "import ctypes\nlibc = ctypes.CDLL(None)\nfds = [libc.inotify_init() for _ in range(8000)]\n"
        "assert all(libc.inotify_add_watch(fd, b'/', 2) > 0 for fd in fds[:300])"
    )
    now = limits()
    mine = count("[0-9]*/fdinfo/*", "inotify wd:")
    assert now["inotify/instances"]["max"] == 9000 and 8000 <= now["inotify/instances"]["used"] < 8100
    # Other programs of root may add and remove some meanwhile.
    assert now["inotify/watches"]["used"] == pytest.approx(mine, abs=50) and mine >= 300
    for name, most in (("inotify/instances", 8000), ("inotify/watches", 300)):
        assert users(now[name])[0] == f"pod {pod.uid}" and now[name]["top"][0][0] == most


def counted(one: Agent) -> Agent:
    """Waits for the first pass of an agent: what the kernel refused before does not count."""
    until(lambda: any(limit["name"] == "mounts" for limit in one.status()["limits"]), "the first pass", 0.2)
    return one


def found(one: Agent, slug: str, who: str = "") -> dict[str, Any]:
    """The finding about a limit that lasts, with its users."""

    def look() -> dict[str, Any] | None:
        for finding in one.status()["findings"]:
            if finding["slug"] == slug and not finding["until"] and finding["who_known"] and who in finding["who"][0]["text"]:
                return finding
        return None

    return until(look, lambda: str([finding["text"] for finding in one.status()["findings"]]), 0.5)


def cure(one: Agent, finding: dict[str, Any]) -> None:
    """Types what the finding says, and waits until it is over."""
    done = subprocess.run(["bash", "-c", finding["now"]], capture_output=True, text=True)
    assert done.returncode == 0, (finding["now"], done.stderr)
    if finding["keep"]:
        file = one.directory / "keep.yaml"
        file.write_text(finding["keep"])
        checked = subprocess.run([BIN, "check-config", str(file)], capture_output=True, text=True)
        assert checked.returncode == 0, checked.stderr

    def ended() -> bool:
        return all(other["until"] for other in one.status()["findings"] if other["id"] == finding["id"])

    until(ended, f"{finding['now']} helps", 0.5)


@pytest.fixture(name="pods")
def fixture_pods() -> Iterator[Callable[[], Pod]]:
    with contextlib.ExitStack() as stack:

        def make() -> Pod:
            pod = Pod()
            stack.callback(pod.end)
            return pod

        yield make


@pytest.mark.slow
def test_a_fork_bomb_reaches_the_maximum_of_its_cgroup(node: Any, agent: Start, pod: Pod, pods: Callable[[], Pod]) -> None:
    pods().run("import threading\nfor _ in range(40): threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()")
    one = counted(agent("mode: observe"))
    (pod.pids / "pids.max").write_text("60")
    pod.run(
        "for _ in range(100):\n try:\n  if os.fork() == 0:\n   time.sleep(1000)\n except OSError:\n  failed = True\nassert failed"
    )
    finding = found(one, "pids/cgroup")
    assert (finding["condition"], finding["severity"], finding["used"], finding["max"], finding["times"]) == ("LimitReached", "warning", 60, 60, 41)
    assert finding["instance"]["name"] == str(pod.pids) and int(finding["instance"]["id"]) == pod.pids.stat().st_ino
    assert [user["text"] for user in finding["who"]] == [f"pod {pod.uid} 60 (100 %)"] and "60 of 60 threads, refused 41 times" in finding["text"]
    assert one.metrics()['headroom_limit_used{limit="pids/cgroup"}'] == 60
    cure(one, finding)
    assert int((pod.pids / "pids.max").read_text()) == 120


@pytest.mark.slow
def test_all_pods_together_reach_their_limit_and_the_one_with_most_threads_is_named(node: Any, agent: Start, pods: Callable[[], Pod]) -> None:
    start = "import threading\nfor _ in range({}): threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()"
    large, small = pods(), pods()
    small.run(start.format(30))
    large.run(start.format(150))
    one = counted(agent("mode: observe"))
    kubepods = next(path for path in small.pids.parents if path.name == "kubepods")
    before = (kubepods / "pids.max").read_text()
    (small.pids / "pids.max").write_text("500")
    try:
        (kubepods / "pids.max").write_text((kubepods / "pids.current").read_text())
        # The kernel counts this in the cgroup of the small pod, before Linux 6.11 and with cgroup v1.
        small.run("try:\n os.fork()\nexcept OSError: pass\nelse: assert False")
        finding = found(one, "pids")
        time.sleep(12)  # a pass
        assert [other["id"] for other in one.status()["findings"] if other["slug"].startswith("pids")] == [finding["id"]]
        assert finding["instance"]["name"] == str(kubepods) and finding["who"][0]["text"].startswith(f"pod {large.uid} 151 ")
        cure(one, finding)
    finally:
        (kubepods / "pids.max").write_text(before)


@pytest.mark.slow
def test_maxima_that_programs_lower_on_purpose_are_no_finding_and_hide_none(node: Any, agent: Start, pod: Pod, pods: Callable[[], Pod], space: str) -> None:
    """OpenSSH's child before the login, sandboxes, TasksMax=1, small backlogs."""
    calm = [pods() for _ in range(12)]
    for one_calm, (opened, soft) in zip(calm, ((7, 1), (90, 64), (400, 300), (250, 255), *((7, 1) for _ in range(8)))):
        one_calm.run(f"import resource\nfiles = [os.open('/', 0) for _ in range({opened})]\nresource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {soft}))")
        (one_calm.pids / "pids.max").write_text("1")
    pods().run(
        "c = []\nfor port, backlog, n in ((80, 1, 1), (81, 1, 2), (82, 8, 9), (83, 100, 70)):\n"
        " s = socket.socket()\n s.bind(('127.0.0.1', port))\n s.listen(backlog)\n c.append(s)\n"
        " c += [socket.create_connection(('127.0.0.1', port)) for _ in range(n)]",
        *inside(space))
    one = counted(agent("mode: observe"))
    pod.run("import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (300, 4096))\nfiles = []\ntry:\n while True: files.append(os.open('/', 0))\nexcept OSError: pass")
    finding = found(one, "files/process")
    assert (finding["used"], finding["max"], finding["instance"]["kind"]) == (300, 300, "process")
    assert finding["who"][0]["text"].startswith(f"pod {pod.uid}, process {pod.programs[0].pid} (python3)")
    cure(one, finding)
    assert {other["slug"] for other in one.status()["findings"]} <= {"files/process"}


def test_files_and_maps_of_the_fullest_process(pod: Pod, limits: Limits) -> None:
    program = pod.run("import mmap, resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (1000, 1000))\n"
                      "files = [os.open('/', 0) for _ in range(900)]\nmaps = [mmap.mmap(-1, 4096, prot=1 + i % 2) for i in range(3000)]")
    now = limits()
    here = Path(f"/proc/{program.pid}")
    files, maps = now["files/process"], now["maps/process"]
    assert (files["used"], files["max"]) == (len(os.listdir(here / "fd")), 1000)
    # The page of the vsyscall has a line, and is no map of the process.
    assert maps["used"] == len([line for line in (here / "maps").read_text().splitlines() if "[vsyscall]" not in line]) > 3000
    for limit in (files, maps):
        assert users(limit)[0] == f"pod {pod.uid}" and f"process {program.pid} (python3" in limit["top"][0][2]
    assert f"pod {pod.uid}" in users(now["file-handles"])


def test_mounts_of_a_private_namespace(pod: Pod, limits: Limits) -> None:
    program = pod.run(
        "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        "assert all(libc.mount(b'/tmp', b'/tmp', None, 4096, None) == 0 for _ in range(300))",
        "unshare", "--mount", "--propagation", "private")
    limit = limits()["mounts"]
    # nsenter's root directory is that of the namespace, also if these tests run in a chroot. The file leaves out the mount below it.
    file = subprocess.check_output(["nsenter", f"--mount=/proc/{program.pid}/ns/mnt", "cat", "/proc/self/mountinfo"])
    assert limit["used"] == 1 + len(file.splitlines()) > 300
    assert limit["max"] == int(sysctl("fs.mount-max")) and users(limit)[0] == f"pod {pod.uid}"


@pytest.fixture(name="space")
def fixture_space() -> Iterator[str]:
    name = f"hr-limits-{secrets.token_hex(3)}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
    yield name
    subprocess.run(["ip", "netns", "del", name], check=True)


def inside(space: str) -> tuple[str, ...]:
    return ("nsenter", f"--net=/run/netns/{space}")


def test_a_listener_that_does_not_accept_and_ports_to_one_destination(pod: Pod, space: str, limits: Limits) -> None:
    subprocess.run([*inside(space), "sysctl", "-qw", "net.ipv4.ip_local_port_range=20000 20999", "net.ipv4.tcp_tw_reuse=0"], check=True)
    pod.run(
        "s = socket.socket()\ns.bind(('127.0.0.1', 80))\ns.listen(950)\n"
        "c = []\nfor _ in range(900):\n c.append(socket.socket())\n c[-1].connect(('127.0.0.1', 80))\n"
        "t = socket.create_server(('127.0.0.1', 81))\n"
        "for _ in range(60):\n a = socket.create_connection(('127.0.0.1', 81))\n b = t.accept()[0]\n a.close()\n b.close()",
        *inside(space))
    listing = subprocess.run([*inside(space), "ss", "-ltnH", "sport = :80"], check=True, capture_output=True, text=True).stdout.split()
    now = limits()
    listen, ports = now["listen"], now["ports"]
    assert (listen["used"], listen["max"]) == (int(listing[1]), int(listing[2])) == (900, 950)
    assert (ports["used"], ports["max"]) == (900, 1000)
    assert users(listen)[0] == users(ports)[0] == f"pod {pod.uid}"
    assert listen["top"][0][2] == "port 80" and ports["top"][0][2] == "to 127.0.0.1 port 80"
    # A connection takes its port for a minute after its process has closed it.
    waiting = subprocess.run([*inside(space), "ss", "-tanH", "state", "time-wait"], check=True, capture_output=True, text=True).stdout
    assert waiting.count("127.0.0.1:81") == 60 and (60, f"pod {pod.uid}", "to 127.0.0.1 port 81") in ports["top"]
    subprocess.run([*inside(space), "sysctl", "-qw", "net.ipv4.tcp_tw_reuse=2"], check=True)
    assert "to 127.0.0.1 port 81" not in [detail for _, _, detail in limits()["ports"]["top"]], "a new connection may take these ports"


@pytest.mark.slow
def test_a_full_listener_and_ports_are_found_with_their_addresses_and_cured(node: Any, agent: Start, pod: Pod, space: str) -> None:
    """Two source addresses have ports of their own. The listener asked for all that the namespace allows."""
    subprocess.run([*inside(space), "sysctl", "-qw", "net.ipv4.ip_local_port_range=20000 20399", "net.core.somaxconn=500"], check=True)
    one = counted(agent("mode: observe"))
    program = pod.run(
        "import signal\ns = socket.socket()\ns.bind(('127.0.0.1', 80))\ns.listen(9000)\n"
        "c = []\nfor source, n in (('127.0.0.2', 300), ('127.0.0.3', 400)):\n for _ in range(n):\n"
        "  t = socket.socket()\n  t.setsockopt(0, 24, 1)\n  t.bind((source, 0))\n  t.setblocking(False)\n  c.append(t)\n"
        "  try: t.connect(('127.0.0.1', 80))\n  except OSError: pass\n"
        "signal.signal(signal.SIGUSR1, lambda *_: s.listen(9000))",
        *inside(space))
    ports = found(one, "ports")
    assert ports["instance"]["name"] == "127.0.0.3 to 127.0.0.1 port 80" and (ports["used"], ports["max"]) == (400, 400)
    assert [user["text"] for user in ports["who"]] == [f"pod {pod.uid} 400 (100 %)"]
    listen = found(one, "listen")
    assert listen["instance"]["name"] == "port 80" and (listen["used"], listen["max"]) == (501, 500) and listen["times"] > 0
    cure(one, ports)
    assert subprocess.run(["bash", "-c", listen["now"]]).returncode == 0 and "listen again" in listen["hint"]
    program.send_signal(10)
    until(lambda: all(other["until"] for other in one.status()["findings"] if other["slug"] == "listen"), "it is cured", 0.5)


@pytest.mark.slow
def test_packets_that_a_listener_drops_of_accepted_connections_are_not_refused_ones(node: Any, agent: Start, pod: Pod, pods: Callable[[], Pod], space: str) -> None:
    """With TCP_DEFER_ACCEPT the kernel drops the last packet of each handshake. Another namespace shows that the pass has been."""
    one = counted(agent("mode: observe"))
    pods().run(
        "s = socket.socket()\ns.setsockopt(6, socket.TCP_DEFER_ACCEPT, 5)\ns.bind(('127.0.0.1', 86))\ns.listen(200)\n"
        "for _ in range(9):\n c = socket.create_connection(('127.0.0.1', 86))\n time.sleep(0.05)\n c.send(b'x')\n s.accept()",
        *inside(space))
    dropped = subprocess.run([*inside(space), "ss", "-lntmH", "sport = :86"], check=True, capture_output=True, text=True).stdout
    assert ",d9)" in dropped, dropped
    pod.run(
        "s = socket.socket()\ns.bind(('127.0.0.1', 87))\ns.listen(30)\nc = []\nfor _ in range(40):\n c.append(socket.socket())\n"
        " c[-1].setblocking(False)\n try: c[-1].connect(('127.0.0.1', 87))\n except OSError: pass",
        "unshare", "--net", "sh", "-c", 'ip link set lo up; exec "$@"', "sh")
    finding = found(one, "listen")
    assert finding["instance"]["name"] == "port 87" and finding["times"] > 0
    assert {other["instance"]["name"] for other in one.status()["findings"] if other["slug"] == "listen"} == {"port 87"}


@pytest.mark.slow  # meanwhile no test beside it can open a file either
def test_the_agent_reports_that_no_file_can_be_opened_although_it_cannot_read_the_node(node: Any, agent: Start) -> None:
    """The agent gives up CAP_SYS_ADMIN, with which the kernel allows more files."""
    one = counted(agent("mode: observe"))
    held = [open("/dev/null") for _ in range(600)]  # a quiet node has fewer than 300 files
    files, most = int(Path("/proc/sys/fs/file-nr").read_text().split()[0]), sysctl("fs.file-max")
    sysctl("fs.file-max", files - 300)
    try:
        until(lambda: "LimitReached: file-handles: " in one.log, lambda: one.log[-500:], 0.2, 30)
    finally:
        sysctl("fs.file-max", most)
        for file in held:
            file.close()
    finding = next(finding for finding in one.status()["findings"] if finding["slug"] == "file-handles")
    assert finding["severity"] == "critical" and "let the agent read it" not in one.log and "was not counted" not in one.log


@pytest.mark.slow
def test_the_user_of_inotify_is_found_and_its_cgroups_beside_a_larger_one_of_another_user(node: Any, agent: Start, pod: Pod, pods: Callable[[], Pod]) -> None:
    sysctl("fs.inotify.max_user_instances", 300)
    one = counted(agent("mode: observe"))
    fill = "import ctypes\nlibc = ctypes.CDLL(None)\nos.setuid({})\nn = 0\nwhile n < {} and libc.inotify_init() >= 0: n += 1"
    pods().run(fill.format(61999, 230))
    pods().run(fill.format(62000, 110))
    pod.run(fill.format(62000, 1000))
    finding = found(one, "inotify/instances")
    assert (finding["instance"]["kind"], finding["instance"]["id"], finding["used"], finding["max"]) == ("uid", "62000", 300, 300)
    assert finding["who"][0]["text"] == f"pod {pod.uid} 190 (63 %)" and len(finding["who"]) == 2
    assert "raise: [inotify]" in finding["keep"] and "mode: enforce" in finding["keep"]
    cure(one, finding)


@pytest.mark.slow
def test_mounts_of_one_path_are_found_in_their_namespace_and_cured(node: Any, agent: Start, pod: Pod, pods: Callable[[], Pod]) -> None:
    sysctl("fs.mount-max", 700)
    one = counted(agent("mode: observe"))
    mount = "import ctypes\nlibc = ctypes.CDLL(None)\nn = 0\nwhile n < {} and libc.mount(b'none', b'/mnt', b'tmpfs', 0, b'size=4k') == 0: n += 1"
    private = ("unshare", "--mount", "--propagation", "private")
    pods().run(mount.format(200), *private)
    pod.run(mount.format(900), *private)
    finding = found(one, "mounts")
    assert finding["instance"]["kind"] == "mntns" and finding["used"] == finding["max"] == 700 and finding["severity"] == "critical"
    assert re.search(r"/mnt is mounted 6\d\d times", finding["message"]) and finding["who"][0]["text"].startswith(f"pod {pod.uid}, process ")
    cure(one, finding)


@pytest.mark.slow
def test_connections_of_a_namespace_are_found_and_cured(node: Any, agent: Start, pod: Pod, pods: Callable[[], Pod], space: str) -> None:
    sysctl("net.netfilter.nf_conntrack_max", 3000)
    one = counted(agent("mode: observe"))
    pods().run("")
    pod.run("", *inside(space))
    in_space(space, track, 2900, 0x0A010203)
    finding = found(one, "conntrack/namespace")
    assert finding["condition"] == "LimitPressure" and (finding["used"], finding["max"]) == (2900, 3000)
    assert finding["instance"]["text"] == f"pod {pod.uid}" and finding["instance"]["kind"] == "netns"
    buckets = sysctl("net.netfilter.nf_conntrack_buckets")
    try:
        cure(one, finding)
        assert int(sysctl("net.netfilter.nf_conntrack_max")) >= 6000
        assert int(sysctl("net.netfilter.nf_conntrack_buckets")) >= int(buckets)
    finally:
        sysctl("net.netfilter.nf_conntrack_buckets", buckets)


def attribute(kind: int, data: bytes) -> bytes:
    return struct.pack("HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


def track(n: int, source: int) -> None:
    """Adds entries to the connection tracking table of this network namespace (IPCTNL_MSG_CT_NEW)."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12) as netlink:
        for i in range(n):
            def one_way(a: bytes, b: bytes, p: int, q: int) -> bytes:
                ips = attribute(0x8001, attribute(1, a) + attribute(2, b))
                ends = attribute(1, b"\x11") + attribute(2, struct.pack(">H", p)) + attribute(3, struct.pack(">H", q))
                return ips + attribute(0x8002, ends)

            a, b, port = struct.pack(">I", source), struct.pack(">I", 0x0A000001 + i // 50000), 1024 + i % 50000
            body = struct.pack(">BBH", socket.AF_INET, 0, 0) + attribute(0x8001, one_way(a, b, port, 53))
            body += attribute(0x8002, one_way(b, a, 53, port)) + attribute(7, struct.pack(">I", 3600))
            netlink.send(struct.pack("IHHII", 16 + len(body), 0x100, 0x405, i, 0) + body)
            (error,) = struct.unpack("i", netlink.recv(4096)[16:20])
            assert error == 0, os.strerror(-error)


def in_space(space: str, function: Callable[..., None], *arguments: int) -> None:
    """Calls the function in a child in the network namespace."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            with open(f"/run/netns/{space}") as file:
                assert LIBC.setns(file.fileno(), 0) == 0
            function(*arguments)
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0


def test_tracked_connections_of_a_pod_and_their_source(pod: Pod, space: str, limits: Limits) -> None:
    pod.run("", *inside(space))
    in_space(space, track, 5000, 0x0A010203)
    in_space(space, track, 1000, 0x0A010204)
    command = [*inside(space), "cat", "/proc/sys/net/netfilter/nf_conntrack_count"]
    limit = limits()["conntrack/namespace"]
    assert limit["used"] == int(subprocess.run(command, check=True, capture_output=True, text=True).stdout) == 6000
    assert limit["max"] == int(sysctl("net.netfilter.nf_conntrack_max")) and users(limit)[0] == f"pod {pod.uid}"
    # An agent in the namespace, whose addresses have no names here, shows the share of each address.
    limit = limits(wrap=inside(space))["conntrack"]
    assert limit["used"] == 6000 and users(limit) == ["netns 10.1.2.3", "netns 10.1.2.4"]
    assert 4600 <= limit["top"][0][0] <= 5400 and limit["top"][0][2] == "from 10.1.2.3"


def fill_ports(pod: Pod, space: str) -> None:
    subprocess.run([*inside(space), "sysctl", "-qw", "net.ipv4.ip_local_port_range=1025 61024"], check=True)
    # A process may have too few files for all connections.
    pod.run(
        "s = socket.socket()\ns.bind(('127.0.0.1', 80))\ns.listen(100)\nc = []\nr, w = os.pipe()\n"
        "def fill():\n for _ in range(9990):\n  c.append(socket.socket())\n  c[-1].connect(('127.0.0.1', 80))\n  s.accept()[0].close()\n"
        "for _ in range(6):\n if os.fork() == 0:\n  fill()\n  os.write(w, b'x')\n  time.sleep(1000)\n"
        "assert all(os.read(r, 1) for _ in range(6))",
        *inside(space))


def fill_listener(pod: Pod, space: str) -> None:
    pod.run(
        "s = socket.socket()\ns.bind(('127.0.0.1', 80))\ns.listen(3000)\n"
        "c = []\nfor _ in range(3001):\n c.append(socket.socket())\n c[-1].connect(('127.0.0.1', 80))",
        *inside(space), "sh", "-c", 'sysctl -qw net.core.somaxconn=3000; exec "$@"', "sh")


def fill_conntrack(pod: Pod, space: str) -> None:
    pod.run("", *inside(space))
    in_space(space, track, 500000, 0x0A010203)


def fill_mounts(pod: Pod, space: str) -> None:  # noqa: ARG001
    """Each copy of the tree below /mnt doubles it."""
    pod.run(
        "import ctypes\nlibc = ctypes.CDLL(None)\n"
        "def copy(of, to):\n os.mkdir(to)\n libc.mount(of.encode(), to.encode(), None, 0x5000, None)\n"
        "libc.mount(b'none', b'/mnt', b'tmpfs', 0, None)\n"
        "for i in range(16): copy('/mnt', f'/mnt/{i}')\nfor i in range(16): copy(f'/mnt/{15 - i}', f'/mnt/more{i}')",
        "unshare", "--mount", "--propagation", "private")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "least", "fill"),
    [
        ("ports", 55000, fill_ports),
        ("listen", 3000, fill_listener),
        ("conntrack/namespace", 499000, fill_conntrack),
        ("mounts", 95000, fill_mounts),
    ],
    ids=["ports", "listen", "conntrack", "mounts"],
)
def test_the_condition_names_the_pod_that_fills_a_limit(
    node: Any, agent: Start, pod: Pod, space: str, limit: str, least: int, fill: Callable[[Pod, str], None]
) -> None:
    sysctl("net.netfilter.nf_conntrack_max", 505000)
    one = agent("mode: observe")
    until(lambda: any(one_limit["name"] == "mounts" for one_limit in one.status()["limits"]), "the first census", 0.2)
    fill(pod, space)

    def named() -> bool:
        messages = [one.condition(name) for name in ("LimitReached", "LimitPressure")]
        return any(m["status"] == "True" and limit in m["message"] and f"pod {pod.uid}" in m["message"] for m in messages)

    until(named, lambda: str([one.condition(name) for name in ("LimitReached", "LimitPressure")]), 0.5, 60)
    assert one.limit(limit)["used"] >= least


def test_pseudoterminals_threads_and_file_systems(pod: Pod, limits: Limits, run: Run) -> None:
    before = limits()["ptys"]["used"]
    program = pod.run("import threading\npairs = [os.openpty() for _ in range(20)]\n"
                      "threads = [threading.Thread(target=time.sleep, args=(1000,)) for _ in range(30)]\nfor t in threads: t.start()")
    now = limits()
    assert now["ptys"]["used"] == before + 20 and users(now["ptys"])[0] == f"pod {pod.uid}" and now["ptys"]["top"][0][0] == 20
    pids = now["pids"]
    assert next(used for used, user, _ in pids["top"] if user == f"pod {pod.uid}") == len(os.listdir(f"/proc/{program.pid}/task")) == 31
    document = json.loads(run("status", "--json").stdout)
    disk, shown = os.statvfs("/"), next(one for one in document["limits"] if one["name"] == "filesystem/root/bytes")
    assert shown["max"] - shown["used"] == pytest.approx(disk.f_bavail * disk.f_frsize, abs=1e8)
    assert now["filesystem/root/inodes"]["max"] == disk.f_files


def test_bridge_ports_and_memory_cgroups(space: str, limits: Limits) -> None:
    script = "for b in 2 9; do ip link add br$b type bridge; done; for i in 1 2 3 4; do ip link add v$i type veth peer name w$i; ip link set v$i master br$((i > 1 ? 9 : 2)); done"
    in_sysfs = ("unshare", "--mount", "nsenter", f"--net=/run/netns/{space}", "sh", "-ec", 'mount -t sysfs none /sys\nexec "$@"', "sh")
    subprocess.run([*inside(space), "sh", "-ec", script], check=True)
    bridge = limits(wrap=in_sysfs)["bridge-ports"]
    assert (bridge["used"], bridge["max"]) == (3, 1023) and bridge["top"] == [(3, "host", "br9"), (1, "host", "br2")]
    # Its count has removed cgroups too, which have no id any more.
    assert Path("/sys/fs/cgroup/memory").is_dir() != ("memory-cgroups" in limits())


def test_without_bpf_only_the_rows_that_need_it_are_missing_and_named(agent: Start, limits: Limits) -> None:
    one = agent("mode: observe", wrap=NO_BPF)
    tuner = until(lambda: (t := one.tuner("limits"))["state"] == "degraded" and t, "the programs cannot be loaded")
    everything = set(limits())
    shown = until(lambda: (s := {limit["name"] for limit in one.status()["limits"]}) and "filesystem/root/bytes" in s and s, "the first sample")
    assert "BPF: " in tuner["why"] and "give CAP_BPF" in tuner["why"]
    missing = set(tuner["why"].split("not watched: ")[1].split("; ")[0].split(", "))
    assert everything - shown <= missing and not missing & shown
    assert {"mounts", "pids/cgroup", "files/process", "maps/process", "inotify/instances", "listen"} <= missing
    assert {"conntrack", "pids", "file-handles", "aio", "ptys", "keys", "softnet"} <= shown


def test_top_shows_a_limit_with_its_users_and_what_to_do(pod: Pod, run: Run) -> None:
    pod.run("files = [os.open('/', 0) for _ in range(900)]")
    text = run("top", "files/process").stdout
    assert f"pod {pod.uid}, process " in text and 'breaks  "Too many open files"' in text
    assert " now  " not in text, "without a finding there is no cure"
    assert "inotify/watches" in run("top", "inotify").stdout
    assert run("top", "no-such-limit").returncode == 64


def test_limits_are_raised_on_request_and_restored(node: Any, run: Run, directory: Path) -> None:
    config = directory / "raise.yaml"
    config.write_text("profile: minimal\nlimits: {raise: [conntrack, inotify, maps, keys, somaxconn]}\nsysctl: {net.core.somaxconn: 8192}\n")
    names = ("net.netfilter.nf_conntrack_max", "fs.inotify.max_user_instances", "vm.max_map_count", "kernel.keys.maxkeys", "net.core.somaxconn")
    before = [int(sysctl(name)) for name in names]
    assert run("apply", "--only", "sysctl", "--config", str(config)).returncode == 0
    connections, *others = (int(sysctl(name)) for name in names)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")
    assert connections == max(before[0], min(memory // 100 // 320, 1048576) // 2048 * 2048)
    assert others == [8192, 1048576, 2000, 8192], "the section sysctl has the higher value"
    assert run("restore", "--only", "sysctl", "--config", str(config)).returncode == 0
    assert [int(sysctl(name)) for name in names] == before


def test_the_privileges_of_the_pod_suffice_for_every_row(pod: Pod, limits: Limits) -> None:
    """Reading /proc/PID/fd or ns of another process needs CAP_SYS_PTRACE, which the chart does not give. Other tests mount and unmount."""
    program = pod.run("files = [os.open('/', 0) for _ in range(900)]\npairs = [os.openpty() for _ in range(3)]")
    wrap = ("setpriv", "--bounding-set=-all,+bpf,+perfmon,+net_admin", "--inh-caps=-all")
    now = until(lambda: (rows := limits(wrap=wrap)).keys() >= limits().keys() and rows)
    assert now["files/process"]["used"] == len(os.listdir(f"/proc/{program.pid}/fd"))
    assert users(now["files/process"])[0] == users(now["ptys"])[0] == f"pod {pod.uid}"
