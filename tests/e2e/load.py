#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs in a pod. load.py ENTRIES RATE makes neighbour entries, RATE a second, prints how many the kernel refused, and sends DNS queries until it is killed."""

import errno
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


def main(entries: int, rate: int) -> None:
    threading.Thread(target=ask, daemon=True).start()
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
    while True:
        time.sleep(60)


main(int(sys.argv[1]), int(sys.argv[2]))
