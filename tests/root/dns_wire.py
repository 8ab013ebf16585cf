# SPDX-License-Identifier: Apache-2.0
"""IP packets for the DNS programs, and the tool that runs them (tests/tool/dns_packets.c)."""

import ipaddress
import struct
import subprocess
from pathlib import Path

EGRESS, INGRESS = 0, 1
UDP, TCP = 17, 6

Address = "ipaddress.IPv4Address | ipaddress.IPv6Address"


def udp(payload: bytes, sport: int, dport: int) -> bytes:
    return struct.pack("!HHHH", sport, dport, min(8 + len(payload), 65535), 0) + payload


def tcp(payload: bytes, sport: int, dport: int, sequence: int = 1, flags: int = 0x18, options: bytes = b"") -> bytes:
    size = 20 + len(options)
    return struct.pack("!HHIIBBHHH", sport, dport, sequence, 1, size // 4 << 4, flags, 512, 0, 0) + options + payload


def framed(*messages: bytes) -> bytes:
    """As they follow each other on a TCP connection."""
    return b"".join(struct.pack("!H", len(message)) + message for message in messages)


def ipv4(
    transport: bytes, protocol: int, source: str, destination: str, options: bytes = b"", fragment: int = 0
) -> bytes:
    size = 20 + len(options)
    return (
        struct.pack(
            "!BBHHHBBH4s4s",
            4 << 4 | size // 4,
            0,
            min(size + len(transport), 65535),
            1,
            fragment,
            64,
            protocol,
            0,
            ipaddress.IPv4Address(source).packed,
            ipaddress.IPv4Address(destination).packed,
        )
        + options
        + transport
    )


def ipv6(
    transport: bytes, protocol: int, source: str, destination: str, extensions: list[tuple[int, bytes]] | None = None
) -> bytes:
    """extensions: (number of the header, the rest of it after the byte that names the next)."""
    chain = list(extensions or [])
    kinds = [kind for kind, _ in chain] + [protocol]
    headers = b"".join(bytes([after]) + rest for (_, rest), after in zip(chain, kinds[1:]))
    return (
        struct.pack(
            "!IHBB16s16s",
            6 << 28,
            min(len(headers) + len(transport), 65535),
            kinds[0],
            64,
            ipaddress.IPv6Address(source).packed,
            ipaddress.IPv6Address(destination).packed,
        )
        + headers
        + transport
    )


class Tool:
    """The programs, attached to nothing."""

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

    def nanoseconds(self, direction: int, packet: bytes, repeat: int, empty: bool = False) -> int:
        """Of one run, by the kernel's own measurement over repeat runs."""
        self.into.write((b"e" if empty else b"t") + struct.pack("<I", repeat) + self._packet(direction, packet, 0, 0))
        return int(self._answer().split()[1])

    def suffix(self, name: str, kind: int) -> int:
        self.into.write(b"s" + struct.pack("<II", kind, len(name)) + name.encode())
        return int(self._answer().split()[1])

    def watch(self, address: str) -> int:
        one = ipaddress.ip_address(address)
        family = 2 if one.version == 4 else 10
        self.into.write(b"w" + struct.pack("<I", family) + one.packed.ljust(16, b"\0"))
        return int(self._answer().split()[1])

    def sample(self, one_in: int) -> None:
        self.into.write(b"n" + struct.pack("<I", one_in))

    def dump(self) -> dict[str, list[dict[str, str]]]:
        """What was counted since the last time, by kind of line; servers and rows begin anew."""
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
