#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Makes neighbour entries in a network namespace: with real packets, or by netlink as fast as it goes.

storm.py HOW COUNT [options], HOW being packets, netlink, permanent or extern. Waits for a line on its input once
everything is prepared, and then prints what it did as JSON. Addresses: 198.18.0.0/15, or fd00:198::/64 for IPv6.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import json
import os
import socket
import struct
import sys
import time

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
    s.setsockopt(level, option, 1)  # IP_RECVERR: a refusal is told
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
