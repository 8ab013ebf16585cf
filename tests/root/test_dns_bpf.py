# SPDX-License-Identifier: Apache-2.0
"""The DNS programs run on thousands of packets, compared with dnspython on the same bytes."""

import random
import struct
from collections import Counter
from pathlib import Path
from typing import Iterator

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.rcode
import pytest
from conftest import BIN
from dnswire import EGRESS, INGRESS, TCP, UDP, Tool, framed, ipv4, ipv6, tcp, udp

CLUSTER, SEARCH = 1, 2
SUFFIXES = {"cluster.local": CLUSTER, "svc.Example.TEST": SEARCH, "example.test": CLUSTER, "a.b.c.d.e.f": SEARCH}
HERE, HERE6 = "198.18.0.1", "2001:db8::1"
BATCH = 500
SYN = 0x1A  # flags of a segment with data: the start of the connection is seen
LONGEST = 2800  # bytes; BPF_PROG_TEST_RUN limits a packet to a page with headroom

# Extension headers: number, and the bytes after the byte that names the next header.
HOP = (0, bytes([0]) + bytes(6))
ROUTING = (43, bytes([2]) + bytes(22))
DESTINATION = (60, bytes([1]) + bytes(14))
AUTHENTICATION = (51, bytes([4]) + bytes(22))
FIRST_FRAGMENT = (44, bytes([0, 0, 1]) + bytes(4))
LATER_FRAGMENT = (44, bytes([0, 1, 1]) + bytes(4))


@pytest.fixture
def tool() -> Iterator[Tool]:
    one = Tool(Path(BIN).resolve().parents[1] / "tests/tool/dns_packets")
    for name, kind in SUFFIXES.items():
        one.suffix(name, kind)
    yield one
    one.close()


def suffix_of(labels: list[bytes]) -> int:
    """The class of the longest suffix of these labels."""
    name = [label.lower() for label in labels]
    best = (0, 0)
    for text, kind in SUFFIXES.items():
        wanted = [label.lower().encode() for label in text.split(".")]
        if name[-len(wanted) :] == wanted:
            best = max(best, (len(wanted), kind))
    return best[1]


class Expected:
    """The expected counts of one message, by dnspython and RFC 1035."""

    def __init__(self, message: bytes, direction: int, transport: int) -> None:
        self.server: Counter[str] = Counter()
        self.expanded = False
        if transport == UDP and direction == EGRESS:
            self.server["packets"] = 1
        if len(message) < 12:
            self.server["malformed"] = int(direction == EGRESS)
            return
        flags, questions, answers, authorities, additional = struct.unpack("!HHHHH", message[2:12])
        if (direction == EGRESS) == bool(flags & dns.flags.QR):
            return  # an answer to port 53 counts as a packet only, a query from port 53 does not count
        suffix, readable, edns = self.question(message, questions)
        if direction == INGRESS:  # of an answer only id and flags are read
            self.server[f"rcode{min(flags & 15, 6)}"] = 1
            self.server["answered"] = 1
            self.server["cluster_answers"] = int(flags & 15 == 0 and suffix == CLUSTER)
            self.server["truncated"] = int(bool(flags & dns.flags.TC))
            return
        self.server["malformed"] = int(not readable)
        self.server["udp" if transport == UDP else "tcp"] = 1
        self.server["edns"] = int(edns and answers == authorities == 0 and additional > 0)
        self.expanded = suffix > 0

    @staticmethod
    def question(message: bytes, count: int) -> tuple[int, bool, bool]:
        """Suffix class, whether the question is readable, whether an OPT record follows."""
        if count == 0:
            return 0, True, False
        if count > 1:
            return 0, False, False
        try:
            # The first name cannot point to an earlier name.
            name, used = dns.name.from_wire(message, 12)
            end = 12 + used
            if any(byte >= 0xC0 for byte in Expected.lengths(message)) or end + 4 > len(message):
                return 0, False, False
        except dns.exception.DNSException:
            return 0, False, False
        opt = message[end + 4 : end + 7] == b"\0\0\x29"
        return suffix_of(list(name.labels[:-1])), True, opt

    @staticmethod
    def lengths(message: bytes) -> Iterator[int]:
        at = 12
        while at < len(message) and message[at]:
            yield message[at]
            if message[at] > 63:
                return
            at += 1 + message[at]


def random_name(chance: random.Random) -> str:
    words = ["www", "api", "x", "storage", "googleapis", "com", "kubernetes", "default", "_http", "_tcp", "a" * 63, "b" * 15, "c" * 16]
    labels = [chance.choice(words) for _ in range(chance.choice((0, 1, 2, 3, 5)))]
    ends = ["com", "example.com", "cluster.local", "notcluster.local", "svc.example.test", "example.test", "xsvc.example.test", "a.b.c.d.e.f", "z.a.b.c.d.e.f", "local", "4.3.2.1.in-addr.arpa", ".".join("0123456789abcdef" * 2) + ".ip6.arpa", ""]
    text = ".".join([*labels, chance.choice(ends)]).strip(".")
    while len(text) > 250:
        text = text.split(".", 1)[1]
    return "".join(chance.choice((c.upper(), c.lower())) for c in text)


def a_query(chance: random.Random) -> bytes:
    kind = chance.choice(("A", "AAAA", "PTR", "SRV", "TXT", "HTTPS", "MX", "TYPE65281"))
    message = dns.message.make_query(random_name(chance) + ".", kind, use_edns=chance.choice((-1, 0, 0)))
    if chance.random() < 0.1:
        message.flags |= dns.flags.CD
    return message.to_wire()


def an_answer(chance: random.Random) -> bytes:
    message = dns.message.make_response(dns.message.make_query(random_name(chance) + ".", "A"))
    message.set_rcode(chance.choice((0, 0, 1, 2, 3, 3, 4, 5, 6, 9)))
    if chance.random() < 0.2:
        message.flags |= dns.flags.TC
    return message.to_wire()


def longest_name() -> bytes:
    """255 bytes of labels with one byte."""
    return b"\x01a" * 126 + b"\x01b" + b"\0"


def spoiled(message: bytes, chance: random.Random) -> bytes:
    """The message truncated, replaced by noise, with a pointer, too long, or with other counts."""
    how = chance.randrange(8)
    head = message[:12]
    if how == 0:
        return message[: chance.randrange(len(message))]
    if how == 1:
        return chance.randbytes(chance.randrange(1, 200))
    if how == 2:
        return head + b"\xc0\x0c" + message[-4:]
    if how == 3:
        return head + b"\x03www" + bytes([chance.choice((64, 0x80, 0xC0, 0xFF))]) + message[16:]
    if how == 4:
        return head + longest_name() + b"\0\1\0\1"
    if how == 5:
        return head + b"\x02aa" + longest_name() + b"\0\1\0\1"
    if how == 6:
        return message[:4] + struct.pack("!H", chance.choice((0, 2, 65535))) + message[6:]
    changed = bytearray(message)
    changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


def packet(chance: random.Random, payload: bytes, transport: int, direction: int, server: int, flags: int = 0x18) -> tuple[bytes, str]:
    """A packet with the payload in a random form, and the server's address, which identifies the case."""
    ports = (chance.randrange(1024, 65536), 53)
    body = tcp(payload, *ports[:: 1 if direction == EGRESS else -1], sequence=chance.randrange(1 << 32), flags=flags, options=chance.choice((b"", bytes([1]) * 12, bytes([1]) * 40))) if transport == TCP else udp(payload, *ports[:: 1 if direction == EGRESS else -1])
    if chance.random() < 0.5:
        there, here = f"198.19.{server >> 8}.{server & 255}", HERE
        source, destination = (here, there) if direction == EGRESS else (there, here)
        options = chance.choice((b"", bytes([1]) * 4, bytes([1]) * 40))
        return ipv4(body, transport, source, destination, options, chance.choice((0, 0x4000, 0x2000))), there
    there, here = f"2001:db8:53::{server:x}", HERE6
    source, destination = (here, there) if direction == EGRESS else (there, here)
    chain = chance.sample([HOP, ROUTING, DESTINATION, AUTHENTICATION, FIRST_FRAGMENT], chance.choice((0, 0, 1, 2, 5)))
    return ipv6(body, transport, source, destination, chain), there


def of_server(dump: dict[str, list[dict[str, str]]], address: str) -> Counter[str]:
    found = [line for line in dump.get("server", []) if line["address"] == address]
    assert len(found) <= 1
    return Counter({key: int(value) for line in found for key, value in line.items() if key != "address"})


def check(dump: dict[str, list[dict[str, str]]], address: str, expected: list[Expected], what: str) -> None:
    wanted: Counter[str] = Counter()
    for one in expected:
        wanted.update(one.server)
    counts = of_server(dump, address)
    assert counts["packet_bins"] == counts["packets"], what
    assert counts["query_bins"] == counts["udp"] + counts["tcp"], what
    # Each query either waits or has an answer.
    assert counts["waiting"] == counts["pending_bins"], what
    passed = ("waiting", "query_bins", "packet_bins", "pending_bins")
    got = {key: counts[key] for key in wanted} | {key: n for key, n in counts.items() if n and key not in passed}
    assert {k: n for k, n in got.items() if n} == {k: n for k, n in wanted.items() if n}, what
    pairs = [line for line in dump.get("pair", []) if line["server"] == address]
    assert sum(int(pair["expanded"]) for pair in pairs) == sum(one.expanded for one in expected), what
    asked = {pair["source"] for pair in pairs}
    assert len(asked) <= 1, what


@pytest.mark.quick
def test_datagrams_are_read_as_dnspython_reads_them(tool: Tool) -> None:
    """2,000 of each kind: valid and spoiled, queries and answers. An answer follows a query with the same bytes."""
    chance = random.Random(53)
    for make, direction in ((a_query, EGRESS), (an_answer, INGRESS)):
        for spoil in (False, True):
            for _ in range(2000 // BATCH):
                cases: dict[str, tuple[bytes, list[Expected]]] = {}
                for server in range(1, BATCH + 1):
                    payload = make(chance)
                    if spoil:
                        payload = spoiled(payload, chance)
                    data, there = packet(chance, payload, UDP, direction, server)
                    expected = [Expected(payload, direction, UDP)]
                    if direction == INGRESS:
                        asked = payload[:2] + bytes(byte & 0x7F for byte in payload[2:3]) + payload[3:]
                        tool.run(EGRESS, packet_to(there, udp(asked, 40000, 53), UDP))
                        expected.insert(0, Expected(asked, EGRESS, UDP))
                        if len(payload) < 12:  # too short for an answer
                            expected.pop()
                    tool.run(direction, data)
                    cases[there] = (payload, expected)
                dump = tool.dump()
                for there, (payload, expected) in cases.items():
                    check(dump, there, expected, f"{there} {payload.hex()}")
                assert dump["control"][0]["lost_pairs"] == "0"


def packet_to(server: str, body: bytes, transport: int) -> bytes:
    return ipv4(body, transport, HERE, server) if "." in server else ipv6(body, transport, HERE6, server)


def test_answers_to_nothing_do_not_count(tool: Tool) -> None:
    there, chance = "198.19.0.1", random.Random(7)
    asked = a_query(chance)
    answered = asked[:2] + b"\x81\x80" + asked[4:]
    tool.run(EGRESS, packet_to(there, udp(asked, 40000, 53), UDP))
    tool.run(INGRESS, ipv4(udp(bytes([answered[0] ^ 1]) + answered[1:], 53, 40000), UDP, there, HERE))
    tool.run(INGRESS, ipv4(udp(answered[:11], 53, 40000), UDP, there, HERE))
    tool.run(INGRESS, ipv4(udp(answered, 53, 40000), UDP, there, HERE))
    tool.run(INGRESS, ipv4(udp(answered, 53, 40000), UDP, there, HERE))
    dump = tool.dump()
    counts = of_server(dump, there)
    assert (counts["answered"], counts["late"], counts["rcode0"]) == (1, 0, 1), "the second answer belongs to no query"
    assert dump["control"][0]["unmatched"] == "2"


def test_every_message_of_a_segment_counts(tool: Tool) -> None:
    """The packets are single segments, and packets that a device would cut, up to the limit of bpf(2)."""
    chance = random.Random(853)
    for _ in range(3):
        cases = {}
        for server in range(1, 101):
            many = chance.choice((1, 2, 7, 40))
            messages: list[bytes] = []
            while len(messages) < many and sum(len(m) + 2 for m in messages) < LONGEST:
                messages.append(a_query(chance) if chance.random() < 0.9 else spoiled(a_query(chance), chance))
            data, there = packet(chance, framed(*messages), TCP, EGRESS, server, SYN)
            segments = max(1, (len(data) - 60 + 1399) // 1400)
            tool.run(EGRESS, data, *((1400, segments) if segments > 1 else ()))
            cases[there] = messages, segments
        dump = tool.dump()
        for there, (messages, segments) in cases.items():
            wanted = [Expected(message, EGRESS, TCP) for message in messages]
            wanted[0].server += Counter(packets=segments)
            # Spoiled messages can be equal.
            wanted[0].server["retransmissions"] = of_server(dump, there)["retransmissions"]
            wanted[0].server["not_followed"] = of_server(dump, there)["not_followed"]
            check(dump, there, wanted, f"{there}: {len(messages)} messages")
        assert dump["control"][0]["uninspected"] == dump["control"][0]["resyncs"] == "0"


def test_a_message_cut_by_the_end_of_a_segment_counts_once(tool: Tool) -> None:
    """The part in the first segment decides its kind."""
    chance = random.Random(1)
    whole, last = a_query(chance), dns.message.make_query("kubernetes.default.svc.cluster.local.", "AAAA").to_wire()
    for server, kept in enumerate(range(0, len(last) + 2), 1):
        there = f"198.19.0.{server}"
        data = (framed(whole) + framed(last))[: len(framed(whole)) + kept]
        tool.run(EGRESS, ipv4(tcp(data, 40000, 53, sequence=4294967295 - server), TCP, HERE, there))
    dump = tool.dump()
    for server, kept in enumerate(range(0, len(last) + 2), 1):
        counts = of_server(dump, f"198.19.0.{server}")
        # Length, id and flags identify a query.
        assert counts["tcp"] == 1 + (kept >= 6), kept
        assert counts["malformed"] == 0, kept
    assert of_server(dump, f"198.19.0.{len(last) + 2}")["tcp"] == 2


def test_datagrams_segmented_by_the_device_are_counted(tool: Tool) -> None:
    query = dns.message.make_query("example.com.", "A", use_edns=-1).to_wire()
    payload = b"".join(struct.pack("!H", i) + query[2:] for i in range(40)) + query[:20]
    tool.run(EGRESS, ipv4(udp(payload, 40000, 53), UDP, HERE, "198.19.0.1"), len(query), 41)
    counts = of_server(tool.dump(), "198.19.0.1")
    assert (counts["udp"], counts["packets"], counts["malformed"]) == (41, 41, 1)


def test_fragments_and_encrypted_packets_are_counted_apart(tool: Tool) -> None:
    query = a_query(random.Random(2))
    there, there6 = "198.19.0.1", "2001:db8:53::1"
    tool.run(EGRESS, ipv4(udp(query, 40000, 53), UDP, HERE, there, fragment=0x2000))
    tool.run(EGRESS, ipv4(udp(query, 40000, 53), UDP, HERE, there, fragment=0x0001))
    tool.run(EGRESS, ipv6(udp(query, 40000, 53), UDP, HERE6, there6, [HOP, LATER_FRAGMENT]))
    tool.run(EGRESS, ipv4(tcp(query, 40000, 853), TCP, HERE, there))
    tool.run(EGRESS, ipv4(tcp(query * 30, 40000, 853), TCP, HERE, there), 100, 43)
    dump = tool.dump()
    counts = of_server(dump, there)
    assert (counts["udp"], counts["packets"], counts["dot"]) == (1, 2, 44)
    assert of_server(dump, there6) == Counter()
    assert dump["control"][0]["fragments"] == "2"


@pytest.mark.quick
def test_pairs_without_room_are_counted_as_other(tool: Tool) -> None:
    query = dns.message.make_query("example.com.", "A", id=1).to_wire()
    for i in range(9000):
        tool.run(EGRESS, ipv4(udp(query, 40000, 53), UDP, HERE, f"198.19.{i >> 8}.{i & 255}"))
    dump = tool.dump()
    assert len(dump["pair"]) == len(dump["server"]) == 8192
    assert sum(int(line["udp"]) for line in dump["server"]) == sum(int(pair["queries"]) for pair in dump["pair"]) == 9000
    assert of_server(dump, "none")["udp"] == int(dump["control"][0]["lost_pairs"]) == 9000 - 8191
    # Only so many pending queries are followed.
    waiting, lost = (sum(int(line[key]) for line in dump["server"]) for key in ("waiting", "not_followed"))
    assert waiting == 9000 and lost >= 9000 - 4096


def test_the_other_servers_of_a_question_are_superseded_by_the_first_answer(tool: Tool) -> None:
    """Not by an error, and not if their own answer comes too."""
    query = dns.message.make_query("www.example.net.", "AAAA", id=77).to_wire()
    servers = [f"198.19.7.{i}" for i in (1, 2, 3)]
    for rcode, superseded in ((2, [0, 0, 0]), (3, [0, 1, 1]), (0, [0, 1, 1])):
        for there in servers:
            tool.run(EGRESS, ipv4(udp(query, 40000, 53), UDP, HERE, there))
        reply = query[:2] + bytes([0x81, 0x80 | rcode]) + query[4:]
        tool.run(INGRESS, ipv4(udp(reply, 53, 40000), UDP, servers[0], HERE))
        if rcode == 0:
            tool.run(INGRESS, ipv4(udp(reply, 53, 40000), UDP, servers[2], HERE))
            superseded = [0, 1, 0]
        counts = [of_server(dump, there) for dump in [tool.dump()] for there in servers]
        assert [one["superseded"] for one in counts] == superseded
        answered = [one["answered"] for one in counts]
        assert answered == [1, 0, int(rcode == 0)]
        assert [one["waiting"] for one in counts] == [1 - a - s for a, s in zip(answered, superseded)]
        assert [one["pending_bins"] % 2**32 for one in counts] == [one["waiting"] for one in counts]


def test_a_server_asked_after_the_answer_of_another_is_superseded(tool: Tool) -> None:
    """A cache on the node answers before the client has sent the question to its other servers."""
    good, bad = (dns.message.make_query("api.example.org.", "A", id=number).to_wire() for number in (6, 7))
    first, *others = "198.19.9.1", "198.19.9.2", "198.19.9.3"
    for query, rcode in ((good, 0), (bad, 2)):
        tool.run(EGRESS, ipv4(udp(query, 40000, 53), UDP, HERE, first))
        tool.run(INGRESS, ipv4(udp(query[:2] + bytes([0x81, 0x80 | rcode]) + query[4:], 53, 40000), UDP, first, HERE))
        for there in others:
            tool.run(EGRESS, ipv4(udp(query, 40000, 53), UDP, HERE, there))
        for counts in [of_server(dump, there) for dump in [tool.dump()] for there in others]:
            assert (counts["superseded"], counts["waiting"], counts["pending_bins"]) == ((1, 0, 0) if rcode == 0 else (0, 1, 1))
    # The same question to the same server is a new query.
    for _ in range(2):
        tool.run(EGRESS, ipv4(udp(good, 40000, 53), UDP, HERE, first))
        tool.run(INGRESS, ipv4(udp(good[:2] + b"\x81\x80" + good[4:], 53, 40000), UDP, first, HERE))
    tool.run(EGRESS, ipv4(udp(good, 40000, 53), UDP, HERE, first))
    counts = of_server(tool.dump(), first)
    assert (counts["udp"], counts["answered"], counts["superseded"], counts["waiting"]) == (3, 2, 0, 1)


def test_twins_have_the_same_id_and_question(tool: Tool) -> None:
    one, other = (dns.message.make_query(name, "A", id=5).to_wire() for name in ("a.example.", "b.example."))
    tool.run(EGRESS, ipv4(udp(one, 40000, 53), UDP, HERE, "198.19.8.1"))
    tool.run(EGRESS, ipv4(udp(other, 40000, 53), UDP, HERE, "198.19.8.2"))
    tool.run(INGRESS, ipv4(udp(one[:2] + b"\x81\x80" + one[4:], 53, 40000), UDP, "198.19.8.1", HERE))
    dump = tool.dump()
    assert of_server(dump, "198.19.8.2")["superseded"] == 0 and of_server(dump, "198.19.8.2")["waiting"] == 1
