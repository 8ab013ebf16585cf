# SPDX-License-Identifier: Apache-2.0
"""DNS messages and packets; a server with configurable faults; the tool that runs the DNS programs on packets
(tests/tool/dns_packets.c).

The first label of a queried name selects the answer:

ok        NOERROR and an address             nx, servfail, refused, formerr, notimp   that error
drop      no answer                          late-1500   an answer after 1500 milliseconds
tc        over UDP truncated and empty, over TCP in full
twice     two answers                        swap        an answer after the next answer to the same client
"""

import heapq
import ipaddress
import re
import selectors
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Callable

A, NS, PTR, TXT, AAAA, SRV = 1, 2, 12, 16, 28, 33
RCODES = {"ok": 0, "formerr": 1, "servfail": 2, "nx": 3, "notimp": 4, "refused": 5}
QR, TC, RD, RA = 0x8000, 0x0200, 0x0100, 0x0080
EGRESS, INGRESS = 0, 1
UDP, TCP = 17, 6


def encode(name: str) -> bytes:
    labels = [label for label in name.split(".") if label]
    return b"".join(bytes([len(label)]) + label.encode() for label in labels) + b"\0"


def query(name: str, number: int, kind: int = A, edns: bool = False) -> bytes:
    head = struct.pack("!6H", number, RD, 1, 0, 0, 1 if edns else 0)
    extra = b"\0" + struct.pack("!HHIH", 41, 1232, 0, 0) if edns else b""
    return head + encode(name) + struct.pack("!2H", kind, 1) + extra


def framed(*messages: bytes) -> bytes:
    """The messages as a TCP stream."""
    return b"".join(struct.pack("!H", len(message)) + message for message in messages)


def question(message: bytes) -> tuple[str, int]:
    """The name, and the offset of the byte after the question."""
    labels, at = [], 12
    while message[at]:
        labels.append(message[at + 1 : at + 1 + message[at]].decode())
        at += 1 + message[at]
    return ".".join(labels), at + 5


def answer(message: bytes, rcode: int, truncated: bool = False) -> bytes:
    """The answer to a query for one name. NOERROR comes with an address."""
    _, end = question(message)
    number, flags = struct.unpack("!2H", message[:4])
    full = rcode == 0 and not truncated
    head = struct.pack("!6H", number, QR | flags & RD | RA | (TC if truncated else 0) | rcode, 1, int(full), 0, 0)
    record = struct.pack("!3HIH", 0xC00C, A, 1, 60, 4) + bytes([192, 0, 2, 1]) if full else b""
    return head + message[12:end] + record


class Server:
    """Answers on the given sockets in a thread, and counts the queries."""

    def __init__(self, udp: list[socket.socket], tcp: list[socket.socket]) -> None:
        self.seen = 0
        self._selector = selectors.DefaultSelector()
        self._late: list[tuple[float, int, Callable[[], Any]]] = []
        self._held: dict[Any, Callable[[], Any]] = {}
        self._stop, self._wake = socket.socketpair()
        self._selector.register(self._stop, selectors.EVENT_READ, None)
        for one in udp:
            self._selector.register(one, selectors.EVENT_READ, self._udp)
        for one in tcp:
            one.setblocking(False)
            self._selector.register(one, selectors.EVENT_READ, self._accept)
        self._streams: dict[socket.socket, bytes] = {}
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._wake.send(b"x")
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        self._selector.close()
        self._wake.close()

    def _run(self) -> None:
        while True:
            while self._late and self._late[0][0] <= time.monotonic():
                heapq.heappop(self._late)[2]()
            wait = max(0, self._late[0][0] - time.monotonic()) if self._late else None
            for key, _ in self._selector.select(wait):
                if key.data is None:
                    return
                key.data(key.fileobj)

    def _accept(self, listener: socket.socket) -> None:
        stream, _ = listener.accept()
        self._streams[stream] = b""
        self._selector.register(stream, selectors.EVENT_READ, self._tcp)

    def _udp(self, s: socket.socket) -> None:
        message, client = s.recvfrom(4096)
        self._handle(message, (s, client), lambda reply: s.sendto(reply, client), False)

    def _tcp(self, stream: socket.socket) -> None:
        try:
            data = stream.recv(65536)
        except OSError:
            data = b""
        if not data:
            self._selector.unregister(stream)
            del self._streams[stream]
            stream.close()
            return
        data = self._streams[stream] + data
        while len(data) >= 2 and len(data) >= 2 + int.from_bytes(data[:2], "big"):
            length = 2 + int.from_bytes(data[:2], "big")
            self._handle(data[2:length], stream, lambda reply: stream.send(framed(reply)), True)
            data = data[length:]
        self._streams[stream] = data

    def _handle(self, message: bytes, client: Any, send: Callable[[bytes], Any], tcp: bool) -> None:
        try:
            asked = re.match(r"([a-z]+)(?:-(\d+))?", question(message)[0].lower())
        except (IndexError, UnicodeDecodeError):
            return
        if not asked or len(message) < 17 or message[2] & 0x80:
            return
        self.seen += 1
        word, argument = asked.groups()
        reply = answer(message, RCODES.get(word, 0), truncated=word == "tc" and not tcp)
        if word == "drop":
            return
        if word == "late":
            heapq.heappush(self._late, (time.monotonic() + int(argument) / 1000, self.seen, lambda: send(reply)))
        elif word == "swap" and client not in self._held:
            self._held[client] = lambda: send(reply)
        else:
            send(reply)
            if word == "twice":
                send(reply)
            if client in self._held:
                self._held.pop(client)()


def udp(payload: bytes, sport: int, dport: int) -> bytes:
    return struct.pack("!HHHH", sport, dport, min(8 + len(payload), 65535), 0) + payload


def tcp(payload: bytes, sport: int, dport: int, sequence: int = 1, flags: int = 0x18, options: bytes = b"") -> bytes:
    size = 20 + len(options)
    return struct.pack("!HHIIBBHHH", sport, dport, sequence, 1, size // 4 << 4, flags, 512, 0, 0) + options + payload


def ipv4(body: bytes, protocol: int, source: str, destination: str, options: bytes = b"", fragment: int = 0) -> bytes:
    size = 20 + len(options)
    head = struct.pack("!BBHHHBBH", 4 << 4 | size // 4, 0, min(size + len(body), 65535), 1, fragment, 64, protocol, 0)
    addresses = ipaddress.IPv4Address(source).packed + ipaddress.IPv4Address(destination).packed
    return head + addresses + options + body


def ipv6(body: bytes, protocol: int, source: str, destination: str, extensions: list[tuple[int, bytes]] | None = None) -> bytes:
    """extensions: (number of the header, its bytes after the one that names the next header)."""
    chain = list(extensions or [])
    kinds = [kind for kind, _ in chain] + [protocol]
    headers = b"".join(bytes([after]) + rest for (_, rest), after in zip(chain, kinds[1:]))
    head = struct.pack("!IHBB", 6 << 28, min(len(headers) + len(body), 65535), kinds[0], 64)
    return head + ipaddress.IPv6Address(source).packed + ipaddress.IPv6Address(destination).packed + headers + body


class Tool:
    """The programs, without being attached."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdin and self.process.stdout
        self.into, self.out = self.process.stdin, self.process.stdout

    def _packet(self, direction: int, packet: bytes, gso_size: int, gso_segs: int) -> bytes:
        return struct.pack("<BIII", direction, gso_size, gso_segs, len(packet)) + packet

    def _answer(self) -> str:
        self.into.flush()
        line = self.out.readline().decode()
        if not line:
            raise RuntimeError(f"dns_packets ended with {self.process.wait()}")
        return line.rstrip("\n")

    def run(self, direction: int, packet: bytes, gso_size: int = 0, gso_segs: int = 0) -> None:
        self.into.write(b"p" + self._packet(direction, packet, gso_size, gso_segs))

    def nanoseconds(self, direction: int, packet: bytes, repeat: int) -> tuple[int, ...]:
        """The nanoseconds of a run and of a run of an empty program, measured by the kernel over repeat runs."""
        self.into.write(b"t" + struct.pack("<I", repeat) + self._packet(direction, packet, 0, 0))
        return tuple(int(word) for word in self._answer().split()[1:])

    def turns(self, asked: bytes, replied: bytes, repeat: int) -> tuple[int, ...]:
        """The nanoseconds of a query, its answer and an empty program, run in turn: the least, the tenth part and the median."""
        self.into.write(b"a" + struct.pack("<I", repeat) + self._packet(EGRESS, asked, 0, 0) + self._packet(INGRESS, replied, 0, 0))
        return tuple(int(word) for word in self._answer().split()[1:])

    def suffix(self, name: str, kind: int) -> None:
        self.into.write(b"s" + struct.pack("<II", kind, len(name)) + name.encode())

    def dump(self) -> dict[str, list[dict[str, str]]]:
        """Kind of line -> counts. Servers and rows start from zero again."""
        found: dict[str, list[dict[str, str]]] = {}
        self.into.write(b"d")
        while (line := self._answer()) != "end":
            kind, *fields = line.split(" ")
            found.setdefault(kind, []).append(dict(field.split("=", 1) for field in fields))
        return found

    def close(self) -> None:
        self.into.close()
        self.out.close()
        self.process.wait(10)
