# SPDX-License-Identifier: Apache-2.0
"""Network namespaces, and neighbour entries in them: by real packets, or by netlink at full speed.

Addresses: 198.18.0.0/15, or fd00:198::/64 for IPv6.
"""

import contextlib
import ctypes
import errno
import multiprocessing
import os
import re
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest
from conftest import until

NAMES = {4: "ipv4", 6: "ipv6"}
CLONE_NEWNET = 0x40000000
RTM_NEWNEIGH, RTM_DELNEIGH = 28, 29
NLM_F_REQUEST, NLM_F_CREATE, NLM_F_REPLACE = 1, 0x400, 0x100
NDA_DST, NDA_LLADDR = 1, 2
NUD_REACHABLE, NUD_PERMANENT = 0x02, 0x80
NTF_EXT_LEARNED = 0x10
SOL_NETLINK, NETLINK_NO_ENOBUFS = 270, 5


def enter(netns: str) -> None:
    """os.setns() comes with Python 3.12."""
    fd = os.open(netns, os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(fd, CLONE_NEWNET) < 0:
        raise OSError(ctypes.get_errno(), f"setns {netns}")
    os.close(fd)


def address(family: int, i: int) -> bytes:
    """Leaves out the first 256 addresses, which include those of the network and the sender."""
    if family == 4:
        return (0xC6120000 + 256 + i).to_bytes(4, "big")
    return bytes.fromhex("fd000198000000000000000000000000")[:12] + (256 + i).to_bytes(4, "big")


def text(family: int, i: int) -> str:
    return socket.inet_ntop(socket.AF_INET if family == 4 else socket.AF_INET6, address(family, i))


def pace(began: float, done: int, rate: float) -> None:
    """Sleeps until `done` are due at this rate a second. 0: full speed."""
    left = began + done / rate - time.monotonic() if rate else 0
    if left > 0.001:
        time.sleep(left)


def send_packets(count: int, family: int, rate: float = 0) -> Iterator[None]:
    """Sends a datagram to each address, so that the kernel makes an entry and resolves it. Sends at the second step."""
    s = socket.socket(socket.AF_INET if family == 4 else socket.AF_INET6, socket.SOCK_DGRAM)
    level, option = (socket.IPPROTO_IP, 11) if family == 4 else (socket.IPPROTO_IPV6, 25)
    s.setsockopt(level, option, 1)  # IP_RECVERR: a refusal is reported
    s.setsockopt(socket.SOL_SOCKET, 32, 1 << 29)  # SO_SNDBUFFORCE: room for unresolved packets
    s.setblocking(False)
    addresses = [(text(family, i), 9) for i in range(count)]
    yield
    began = time.monotonic()
    for i, to in enumerate(addresses):
        pace(began, i, rate)
        while True:
            try:
                s.sendto(b"x", to)
            except OSError as error:
                if error.errno in (errno.EHOSTUNREACH, errno.ECONNREFUSED, errno.EAGAIN):
                    continue  # the error belongs to an earlier packet
            break


def send_messages(
    count: int, family: int, device: str, how: str = "", first: int = 0, delete: bool = False, rate: float = 0
) -> Iterator[None]:
    """Makes the entries by netlink, 64 in each system call, so that the kernel's speed is the limit."""
    index = socket.if_nametoindex(device)
    state = NUD_PERMANENT if how == "permanent" else NUD_REACHABLE
    flags = NTF_EXT_LEARNED if how == "extern" else 0
    kind = RTM_DELNEIGH if delete else RTM_NEWNEIGH
    af, size = (socket.AF_INET, 4) if family == 4 else (socket.AF_INET6, 16)
    length = 16 + 12 + 4 + size + 4 + 8
    head = struct.pack(
        "=IHHIIBBHiHBB", length, kind, NLM_F_REQUEST | NLM_F_CREATE | NLM_F_REPLACE, 0, 0, af, 0, 0, index, state, flags, 0
    )
    dst, lladdr = struct.pack("=HH", 4 + size, NDA_DST), struct.pack("=HH", 4 + 6, NDA_LLADDR)
    messages = [
        head + dst + address(family, first + i) + lladdr + b"\x02\x00" + i.to_bytes(4, "big") + b"\0\0" for i in range(count)
    ]
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    s.setsockopt(SOL_NETLINK, NETLINK_NO_ENOBUFS, 1)  # errors stay unread: the kernel counts them
    s.bind((0, 0))
    step = 64 if not rate else max(1, min(64, int(rate / 1000)))
    batches = [b"".join(messages[i : i + step]) for i in range(0, count, step)]
    yield
    began = time.monotonic()
    for i, batch in enumerate(batches):
        pace(began, i * step, rate)
        s.send(batch)


def ip(*args: str, check: bool = True, text: str | None = None) -> str:
    return subprocess.run(["ip", *args], input=text, text=True, capture_output=True, check=check).stdout


def table(family: int) -> dict[str, int]:
    """The kernel's counts for all network namespaces."""
    lines = Path(f"/proc/net/stat/{'arp' if family == 4 else 'ndisc'}_cache").read_text().split("\n")
    names = lines[0].split()
    rows = [dict(zip(names, (int(word, 16) for word in line.split()))) for line in lines[1:] if line]
    return {name: rows[0][name] if name == "entries" else sum(row[name] for row in rows) for name in names}


@contextlib.contextmanager
def netns_with(inode: int) -> Iterator[str]:
    """
    The name of a new namespace with the inode of one that was removed. The kernel frees it later, and gives each new namespace the lowest free
    one, those of others included. So namespaces are added until one has it.
    """
    names: list[str] = []

    def found() -> bool:
        names.append(f"hr-storm-again-{len(names)}")
        ip("netns", "add", names[-1])
        return os.stat(f"/run/netns/{names[-1]}").st_ino == inode

    try:
        until(found, f"a namespace with inode {inode}", every=0.1)
        yield names[-1]
    finally:
        for name in names:
            ip("netns", "del", name, check=False)


class Space:
    """
    A veth pair in a new network namespace, or in the host's (first), or in one that exists (made). pod: with a process in the cgroup of a pod.
    """

    def __init__(self, name: str, first: bool = False, pod: bool = False, make: bool = True, made: bool = False) -> None:
        self.name = None if first else name
        self.device = "hrstorm0" if first else "storm0"
        self.uid = ""
        self.process: subprocess.Popen[bytes] | None = None
        if not make:
            return
        if not made:
            self.remove()
            if self.name:
                ip("netns", "add", self.name)
        self.add_device(self.device, "198.18.0.1/15", "fd00:198::1/64")
        if pod:
            from dnslab import Cgroup, pod_path  # it imports this module

            path, self.uid, _ = pod_path()
            self.cgroup = Cgroup(path)
            script = f"echo $$ >{self.cgroup.path}/cgroup.procs && exec nsenter --net={self.path} sleep 1000"
            self.process = process = subprocess.Popen(["sh", "-c", script], stdin=subprocess.DEVNULL)
            until(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n", "the pod's process runs")

    @property
    def path(self) -> str | None:
        return f"/run/netns/{self.name}" if self.name else None

    @property
    def inode(self) -> int:
        return os.stat(self.path or "/proc/self/ns/net").st_ino

    def ip(self, *args: str, check: bool = True) -> str:
        return ip(*(["-n", self.name] if self.name else []), *args, check=check)

    def add_device(self, device: str, *addresses: str) -> None:
        self.ip("link", "add", device, "type", "veth", "peer", "name", device + "p")
        self.ip("link", "set", device, "up")
        self.ip("link", "set", device + "p", "up")
        for one in addresses:
            self.ip("addr", "add", one, "dev", device, *(["nodad"] if ":" in one else []))

    def remove(self) -> None:
        """Removes the namespace, and waits for the kernel to free its entries."""
        if self.process:
            self.process.kill()
            self.process.wait()
            self.cgroup.remove()
        if self.name:
            ip("netns", "del", self.name, check=False)
        else:
            ip("link", "del", self.device, check=False)
            ip("link", "del", "hrother0", check=False)
        until(lambda: all(table(family)["entries"] < 200 for family in NAMES), "the table is empty again")


@pytest.fixture
def space() -> Iterator[Callable[..., Space]]:
    """space(first=False, pod=False) makes a Space that ends with the test."""
    made: list[Space] = []

    def make(**more: Any) -> Space:
        made.append(Space(f"hr-storm-{len(made)}", **more))
        return made[-1]

    yield make
    for one in reversed(made):  # the last one has the entries, and each waits for an empty table
        one.remove()


def prepare(where: Space, how: str, count: int, family: int = 4, rate: float = 0) -> Callable[[], None]:
    """Prepares a storm (packets or netlink) in a process. The returned function runs it."""
    fork = multiprocessing.get_context("fork")
    ready, go = fork.Event(), fork.Event()

    def work() -> None:
        if where.path:
            enter(where.path)
        steps = send_packets(count, family, rate) if how == "packets" else send_messages(count, family, where.device, rate=rate)
        next(steps)
        ready.set()
        go.wait()
        list(steps)

    process = fork.Process(target=work, daemon=True)
    process.start()
    assert ready.wait(60)

    def storm() -> None:
        go.set()
        process.join(120)
        assert process.exitcode == 0

    return storm


def fill(where: Space, count: int, family: int = 4, **more: Any) -> None:
    """Makes entries by netlink. more: options of send_messages()."""

    def work() -> None:
        if where.path:
            enter(where.path)  # affects this thread only
        list(send_messages(count, family, where.device, **more))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


class BusyCpus:
    """Keeps all CPUs busy."""

    def __init__(self, count: int = os.cpu_count() or 1) -> None:
        self.count = count

    def __enter__(self) -> "BusyCpus":
        self.processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(self.count)]
        time.sleep(0.2)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


def of_threads(pid: int, file: str, pattern: str) -> int:
    """The sum over all threads."""
    total = 0
    for path in Path(f"/proc/{pid}/task").glob(f"*/{file}"):
        with contextlib.suppress(OSError):  # the thread has ended
            total += int(re.search(pattern, path.read_text(), re.M)[1])  # type: ignore[index]
    return total


def wakeups(pid: int) -> int:
    return of_threads(pid, "status", r"^voluntary_ctxt_switches:\s+(\d+)")


def cpu_ns(pid: int) -> int:
    """The CPU time of all threads, also of those that have ended: clock_getcpuclockid(3)."""
    return time.clock_gettime_ns((~pid << 3) | 2)
