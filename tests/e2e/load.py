#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs in a pod, and stays until it is killed: load.py KIND [COUNT RATE].

dns: makes COUNT neighbour entries, RATE a second, prints how many the kernel refused, and sends DNS queries meanwhile.
neighbor: the same without queries. files, inotify: takes open files or inotify instances until there are no more.
"""

import ctypes
import errno
import os
import resource
import socket
import sys
import threading
import time

QUERY = b"\x00\x00\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03www\x07example\x03com\x00\x00\x01\x00\x01"


def ask() -> None:
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    number = 0
    while True:
        number = (number + 1) % 65536
        s.sendto(number.to_bytes(2, "big") + QUERY[2:], ("10.244.0.53", 53))
        time.sleep(0.02)


def make_neighbors(entries: int, rate: int) -> None:
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.IPPROTO_IP, 11, 1)  # IP_RECVERR
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 28)
    s.setblocking(False)
    began, refused = time.monotonic(), 0
    for i in range(entries):
        try:
            s.sendto(b"", (f"10.244.{1 + i // 250}.{1 + i % 250}", 9))
        except OSError as error:
            refused += error.errno == errno.ENOBUFS
        time.sleep(max(0.0, began + i / rate - time.monotonic()))
    print(f"refused {refused} of {entries}", flush=True)


def take_files() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (600, 600))
    try:
        while True:
            os.dup(0)
    except OSError as error:
        print(f"files: {error}", flush=True)


def take_inotify() -> None:
    libc, taken = ctypes.CDLL(None, use_errno=True), 0
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 20000), hard))
    while taken < 15000 and libc.inotify_init1(0) >= 0:
        taken += 1
    print(f"inotify: {taken}: {os.strerror(ctypes.get_errno())}", flush=True)


kind, numbers = sys.argv[1], [int(word) for word in sys.argv[2:]]
if kind == "dns":
    threading.Thread(target=ask, daemon=True).start()
if kind in ("dns", "neighbor"):
    make_neighbors(numbers[0], numbers[1])
else:
    {"files": take_files, "inotify": take_inotify}[kind]()
while True:
    time.sleep(60)
