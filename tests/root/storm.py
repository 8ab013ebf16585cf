#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Makes neighbour entries in a network namespace: with real packets, or by netlink as fast as it goes.

storm.py HOW COUNT [options], HOW being packets, netlink, permanent or extern. Waits for a line on its input once
everything is prepared, and then prints what it did as JSON. Addresses: 198.18.0.0/15, or fd00:198::/64 for IPv6.

As a module it makes the namespaces too, for the tests.
"""

import argparse
import ctypes
import errno
import json
import os
import re
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable

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
    """The network's own address and the sender's first ones are left out."""
    if family == 4:
        return (0xC6120000 + 256 + i).to_bytes(4, "big")
    return bytes.fromhex("fd000198000000000000000000000000")[:12] + (256 + i).to_bytes(4, "big")


def text(family: int, i: int) -> str:
    return socket.inet_ntop(socket.AF_INET if family == 4 else socket.AF_INET6, address(family, i))


class Pace:
    """So many a second, in bunches of a millisecond; 0 is as fast as possible."""

    def __init__(self, rate: float, step: int) -> None:
        self.rate, self.step = rate, step
        self.began = time.monotonic()

    def wait(self, done: int) -> None:
        if self.rate:
            left = self.began + done / self.rate - time.monotonic()
            if left > 0.001:
                time.sleep(left)


def packets(options: argparse.Namespace) -> tuple[object, ...]:
    """One datagram to each address: the kernel makes an entry and asks for it on the link."""
    s = socket.socket(socket.AF_INET if options.family == 4 else socket.AF_INET6, socket.SOCK_DGRAM)
    level, option = (socket.IPPROTO_IP, 11) if options.family == 4 else (socket.IPPROTO_IPV6, 25)
    s.setsockopt(level, option, 1)  # IP_RECVERR: a refusal is reported
    s.setsockopt(socket.SOL_SOCKET, 32, 1 << 29)  # SO_SNDBUFFORCE: unresolved packets must not stop us
    s.setblocking(False)
    return s, [(text(options.family, options.first + i), 9) for i in range(options.count)]


def send_packets(options: argparse.Namespace, s: socket.socket, addresses: list[tuple[str, int]]) -> int:
    failed = 0
    pace = Pace(options.rate, 1)
    for i, to in enumerate(addresses):
        pace.wait(i)
        for _ in range(4):
            try:
                s.sendto(b"x", to)
            except OSError as error:
                if error.errno in (errno.EHOSTUNREACH, errno.ECONNREFUSED, errno.EAGAIN):
                    continue  # of an earlier one
                failed += 1
            break
    return failed


def messages(options: argparse.Namespace) -> tuple[object, ...]:
    """The same by netlink, 64 in each system call, so that nothing but the kernel's own speed counts."""
    index = socket.if_nametoindex(options.device)
    state = NUD_PERMANENT if options.how == "permanent" else NUD_REACHABLE
    flags = NTF_EXT_LEARNED if options.how == "extern" else 0
    kind = RTM_DELNEIGH if options.delete else RTM_NEWNEIGH
    af, size = (socket.AF_INET, 4) if options.family == 4 else (socket.AF_INET6, 16)
    length = 16 + 12 + 4 + size + 4 + 8
    head = struct.pack(
        "=IHHIIBBHiHBB", length, kind, NLM_F_REQUEST | NLM_F_CREATE | NLM_F_REPLACE, 0, 0, af, 0, 0, index, state, flags, 0
    )
    dst, lladdr = struct.pack("=HH", 4 + size, NDA_DST), struct.pack("=HH", 4 + 6, NDA_LLADDR)
    all_of_them = [
        head + dst + address(options.family, options.first + i) + lladdr + b"\x02\x00" + i.to_bytes(4, "big") + b"\0\0"
        for i in range(options.count)
    ]
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    s.setsockopt(SOL_NETLINK, NETLINK_NO_ENOBUFS, 1)  # the errors are not read: the kernel counts them
    s.bind((0, 0))
    step = 64 if not options.rate else max(1, min(64, int(options.rate / 1000)))
    return s, step, [b"".join(all_of_them[i : i + step]) for i in range(0, options.count, step)]


def send_messages(options: argparse.Namespace, s: socket.socket, step: int, batches: list[bytes]) -> int:
    pace = Pace(options.rate, step)
    for i, batch in enumerate(batches):
        pace.wait(i * step)
        s.send(batch)
    return 0


def wait(check: Callable[[], Any], what: str, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not check():
        if time.monotonic() > deadline:
            raise RuntimeError(f"not within {seconds:g} s: {what}")
        time.sleep(0.05)


def ip(*args: str, check: bool = True, text: str | None = None) -> str:
    return subprocess.run(["ip", *args], input=text, text=True, capture_output=True, check=check).stdout


def table(family: int) -> dict[str, int]:
    """The kernel's own counts, of all network namespaces."""
    lines = Path(f"/proc/net/stat/{'arp' if family == 4 else 'ndisc'}_cache").read_text().split("\n")
    names = lines[0].split()
    rows = [dict(zip(names, (int(word, 16) for word in line.split()))) for line in lines[1:] if line]
    return {name: rows[0][name] if name == "entries" else sum(row[name] for row in rows) for name in names}


class Space:
    """A pair of devices in a network namespace, or in the first one; with pod: a process as the kubelet places it."""

    def __init__(self, name: str, first: bool = False, pod: bool = False, make: bool = True) -> None:
        self.name = None if first else name
        self.device = "hrstorm0" if first else "storm0"
        self.uid = ""
        self.process: subprocess.Popen[bytes] | None = None
        if not make:
            return
        self.remove()
        if self.name:
            ip("netns", "add", self.name)
        self.add_device(self.device, "198.18.0.1/15", "fd00:198::1/64")
        if pod:
            self._make_pod()

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

    def _make_pod(self) -> None:
        from dnslab import Cgroup, pod_path  # not for the program: they need pytest

        path, self.uid, _ = pod_path()
        self.cgroup = Cgroup(path)
        script = f'echo $$ >{self.cgroup.path}/cgroup.procs && exec nsenter --net={self.path} sleep 1000'
        self.process = subprocess.Popen(["sh", "-c", script], stdin=subprocess.DEVNULL)
        wait(lambda: Path(f"/proc/{self.process.pid}/comm").read_text() == "sleep\n", "the pod's process runs")

    def remove(self) -> None:
        """The kernel takes a namespace apart later: the next test wants its entries gone."""
        if self.process:
            self.process.kill()
            self.process.wait()
            self.cgroup.remove()
        if self.name:
            ip("netns", "del", self.name, check=False)
        else:
            ip("link", "del", self.device, check=False)
            ip("link", "del", "hrother0", check=False)
        wait(lambda: all(table(family)["entries"] < 200 for family in NAMES), "the table is empty again")


def prepare(where: Space, how: str, count: int, family: int = 4, **more: Any) -> Callable[[], dict[str, float]]:
    """A storm ready to break loose: call what is returned."""
    options = [word for key, value in more.items() for word in (f"--{key}", str(value))]
    options += ["--netns", where.path] if where.path else []
    process = subprocess.Popen(
        [sys.executable, __file__, how, str(count), "--family", str(family), "--device", where.device, *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout and process.stdout.readline() == "ready\n"

    def loose() -> dict[str, float]:
        out, _ = process.communicate("go\n", timeout=120)
        return json.loads(out)

    return loose


def fill(
    where: Space, count: int, family: int = 4, how: str = "netlink", first: int = 0, delete: bool = False, rate: float = 0
) -> None:
    """Without a program of its own: for many namespaces."""

    def work() -> None:
        if where.path:
            enter(where.path)  # of this thread
        options = argparse.Namespace(how=how, count=count, family=family, device=where.device, first=first, rate=rate, delete=delete)
        send_messages(options, *messages(options))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


class Hogs:
    """Keeps every CPU busy."""

    def __enter__(self) -> "Hogs":
        self.processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
        time.sleep(0.2)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


def wakeups(pid: int) -> int:
    """Of all threads there are."""
    total = 0
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        try:
            total += int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", status.read_text(), re.M)[1])
        except OSError:
            pass  # one that stored the journal has ended
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("how", choices=["packets", "netlink", "permanent", "extern"])
    parser.add_argument("count", type=int)
    parser.add_argument("--netns", help="the file of the namespace")
    parser.add_argument("--device", default="storm0")
    parser.add_argument("--family", type=int, choices=[4, 6], default=4)
    parser.add_argument("--rate", type=float, default=0, help="a second; 0: as fast as possible")
    parser.add_argument("--first", type=int, default=0, help="begin at this address")
    parser.add_argument("--delete", action="store_true", help="take entries away")
    options = parser.parse_args()
    if options.netns:
        enter(options.netns)
    prepared = (packets if options.how == "packets" else messages)(options)
    print("ready", flush=True)
    sys.stdin.readline()
    began = time.monotonic()
    failed = (send_packets if options.how == "packets" else send_messages)(options, *prepared)
    print(json.dumps({"began": began, "seconds": time.monotonic() - began, "failed": failed}), flush=True)


if __name__ == "__main__":
    main()
