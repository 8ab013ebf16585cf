#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the seeds in corpus/dns: what dnspython asks, and what dnsmasq on loopback answers, over UDP and TCP.

Each file is the number of cuts (a byte), then a message or a stream of them.
"""

import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import dns.edns
import dns.message
import dns.query
import dns.update

HERE = Path(__file__).resolve().parent / "corpus/dns"
NAMES = {
    "root": (".", "NS"),
    "short": ("a.", "A"),
    "outside": ("storage.googleapis.com.", "A"),
    "expanded": ("storage.googleapis.com.default.svc.cluster.local.", "AAAA"),
    "service": ("_https._tcp.kubernetes.default.svc.cluster.local.", "SRV"),
    "case": ("wWw.eXaMpLe.CoM.", "A"),
    "pointer4": ("53.113.0.203.in-addr.arpa.", "PTR"),
    "pointer6": (".".join("0123456789abcdef" * 2) + ".ip6.arpa.", "PTR"),
    "longest": (".".join(["a"] * 125 + ["bcd"]) + ".", "TXT"),
    "label63": ("x" * 63 + ".example.com.", "HTTPS"),
    "many": ("many.example.com.", "A"),
}


def save(name: str, data: bytes, cuts: int = 7) -> None:
    (HERE / name).write_bytes(bytes([cuts]) + data)


def ask(wire: bytes, port: int, tcp: bool) -> bytes:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM) as s:
        s.settimeout(5)
        s.connect(("127.0.0.1", port))
        s.send(struct.pack("!H", len(wire)) + wire if tcp else wire)
        if not tcp:
            return s.recv(65535)
        size = struct.unpack("!H", s.recv(2, socket.MSG_WAITALL))[0]
        return s.recv(size, socket.MSG_WAITALL)


def make(port: int) -> None:
    queries, answers = [], []
    for number, (name, (what, kind)) in enumerate(NAMES.items(), 1):
        plain = dns.message.make_query(what, kind, id=number, use_edns=-1).to_wire()
        edns = dns.message.make_query(what, kind, id=number, use_edns=0, payload=1232, want_dnssec=True).to_wire()
        save(f"query-{name}", plain)
        save(f"query-{name}-edns", edns)
        queries += [plain, edns]
        for one, wire in (("", plain), ("-edns", edns)):
            answers.append(ask(wire, port, tcp=name == "many" and one == "-edns"))
            save(f"answer-{name}{one}", answers[-1])
    option = dns.edns.GenericOption(10, b"\1\2\3\4\5\6\7\x08")
    save("query-cookie", dns.message.make_query("example.com.", "A", id=99, use_edns=0, options=[option]).to_wire())
    save("update", dns.update.UpdateMessage("example.com.", id=98).to_wire())
    save("no-question", struct.pack("!HHHHHH", 97, 0x8001, 0, 0, 0, 0))
    save("cut", queries[0][:-3])
    save("pointing", queries[0][:12] + b"\xc0\x0c\0\1\0\1")
    for name, messages in (("stream-queries", queries), ("stream-answers", answers), ("stream-small", [b"", b"x", queries[0]])):
        save(name, b"".join(struct.pack("!H", len(m)) + m for m in messages), 33)


def main() -> int:
    HERE.mkdir(parents=True, exist_ok=True)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    many = [f"--host-record=many.example.com,198.51.100.{i}" for i in range(1, 120)]
    server = subprocess.Popen(
        ["dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--no-daemon", f"--port={port}",
         "--listen-address=127.0.0.1", "--bind-interfaces", "--address=/googleapis.com/192.0.2.1", "--host-record=www.example.com,192.0.2.2",
         "--srv-host=_https._tcp.kubernetes.default.svc.cluster.local,kubernetes.example.com,443", "--local=/cluster.local/", *many],
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        time.sleep(0.5)
        make(port)
    finally:
        server.terminate()
        server.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
