# SPDX-License-Identifier: Apache-2.0
"""What leaves this host for port 53 is counted, all of it and once: queries, answers and what never comes."""

import socket
import struct
import subprocess

import pytest
from conftest import BIN
from dnslab import CLIENT, SERVER, V4, V6, Look, fixture_lab, fixture_network, fixture_watch, need, settle  # noqa: F401
from dnswire import A, AAAA, PTR, SRV, TXT, answer, framed, query

IPV6_DSTOPTS = 59


def sums_agree(look: Look, server: str) -> None:
    """What the workloads asked is what the server was asked."""
    row = look.row(server)
    shares = sum(user["queries"] for user in row["top"]) + row["other"]["queries"]
    assert shares == sum(row["queries"].values()) == look.total("queries_total", server=server)
    assert row["other"]["queries"] == 0, "what has no name is left over, and a handful of workloads all have one"


@pytest.mark.parametrize("args", [pytest.param([], marks=pytest.mark.quick), ["500000", "2"]], ids=["cut", "a-million"])
def test_the_programs_count_datagrams_and_streams_however_cut_and_fast(args: list[str]) -> None:
    """Beside clients and servers that know what they sent (tests/tool/dns_live.c)."""
    tool = BIN.parents[1] / "tests/tool/dns_live"
    done = subprocess.run([tool, *args], capture_output=True, text=True, timeout=300)
    lines = done.stdout.splitlines()
    assert [line for line in lines if not line.startswith("ok ")] == []
    assert len(lines) >= 20 and done.returncode == 0, done.stderr


@pytest.mark.quick
def test_every_query_is_counted_once(watch, lab, directory) -> None:
    server = V4.format(1)
    lab.unbound(directory, server)
    one = watch()
    perf = lab.dnsperf(directory, server, "-Q", "20000", "-l", "2", "-c", "8")
    assert perf.sent == perf.completed
    look = settle(one, lambda now: now.total("responses_total", server=server) >= perf.sent, f"{perf.sent} answers")
    assert look.total("queries_total") == look.total("queries_total", server=server, role="upstream", transport="udp")
    assert look.total("queries_total", server=server) == perf.sent
    assert look.total("responses_total", server=server) == look.total("responses_total", rcode="NOERROR", server=server)
    assert look.total("responses_total") == perf.sent, "nothing is counted at the server's side of this host"
    assert look.total("unanswered_total") == look.total("pending") == 0
    assert look.total("latency_seconds_count", server=server) == perf.sent
    assert look.row(server)["retransmissions"] == 0
    # Names are a sample: what of it found no room is no loss of counts.
    assert {what for what, count in look.document["lost"].items() if count} <= {"names"}
    sums_agree(look, server)


def test_answers_by_rcode_type_and_transport(watch, lab) -> None:
    server = lab.serve(3)
    one = watch()
    with lab.udp() as client:
        for rcode, count in (("ok", 8), ("nx", 5), ("servfail", 4), ("refused", 3), ("formerr", 2), ("notimp", 1)):
            for i in range(count):
                client.ask(server, f"{rcode}-{i}.example.test", (A, AAAA, PTR, SRV, TXT)[i % 5], edns=i % 2 == 1)
        assert client.ask(server, "tc.example.test")[2] & 2
        client.ask(server, "late-200.example.test")
    with lab.tcp(server) as stream:
        stream.ask(server, "tc.example.test")
    look = settle(one, lambda now: now.total("responses_total", server=server) >= 26, "26 answers")
    answers = {"NOERROR": 11, "NXDOMAIN": 5, "SERVFAIL": 4, "REFUSED": 3, "FORMERR": 2, "NOTIMP": 1}
    assert {rcode: look.total("responses_total", server=server, rcode=rcode) for rcode in answers} == answers
    assert look.total("queries_total", server=server, transport="udp") == 25
    assert look.total("queries_total", server=server, transport="tcp") == 1
    row = look.row(server)
    assert row["truncated"] == 1 and row["late"] == 0
    assert look.total("latency_seconds_count", server=server) == 26
    assert look.total("latency_seconds_sum", server=server) > 0.2
    assert 0 < row["latency"]["p50"] < 0.2 <= row["latency"]["p99"] <= 0.5
    within = {le: look.total("latency_seconds_bucket", server=server, le=le) for le in ("0.1", "0.5", "1", "5", "+Inf")}
    assert 0 < within["0.1"] < within["0.5"] <= within["1"] <= within["5"] == within["+Inf"] == 26
    sums_agree(look, server)


def test_retransmissions_and_duplicate_answers_are_distinguished(watch, lab) -> None:
    again, twice, reused = lab.serve(4, 5, 6)
    one = watch()
    with lab.udp() as other, lab.udp() as client:
        for _ in range(3):
            other.send(again, "late-500.example.test", number=77)
        other.send(twice, "twice.example.test")
        # An id that comes back after its answer is a new query, and so is another name.
        for _ in range(2):
            client.ask(reused, number=99)
        client.send(reused, "late-300.example.test", number=98)
        client.send(reused, "late-301.example.test", number=98)
        look = settle(one, lambda now: now.total("responses_total") >= 9, "nine answers")
    assert (look.total("queries_total", server=again), look.row(again)["retransmissions"]) == (3, 2)
    assert (look.total("queries_total", server=twice), look.total("responses_total", server=twice)) == (1, 2)
    assert (look.row(twice)["late"], look.row(twice)["retransmissions"]) == (1, 0)
    assert (look.total("queries_total", server=reused), look.row(reused)["retransmissions"]) == (4, 0)
    assert look.total("unanswered_total", server=twice) == look.total("pending", server=twice) == 0


def test_one_id_to_several_servers(watch, lab) -> None:
    """As musl asks: one socket, one id, all name servers at once."""
    servers = [V4.format(i) for i in (7, 8, 9)]
    lab.server(*servers)
    one = watch()
    with lab.udp() as client:
        for i in range(50):
            for server in servers:
                client.send(server, "ok.example.test", number=i)
            for _ in servers:
                client.receive()
    look = settle(one, lambda now: now.total("responses_total") >= 150, "150 answers")
    for server in servers:
        assert look.total("queries_total", server=server) == look.total("responses_total", server=server) == 50
        assert look.total("latency_seconds_count", server=server) == 50
        assert look.row(server)["retransmissions"] == look.row(server)["late"] == look.total("pending", server=server) == 0


def test_queries_through_a_service_address_are_counted_once(watch, lab) -> None:
    """The query leaves for the address behind, the answer comes from the one in front."""
    need("iptables")
    front, behind = "10.96.0.10", V4.format(10)
    lab.server(behind)
    rule = ["OUTPUT", "-d", front, "-p", "udp", "--dport", "53", "-j", "DNAT", "--to-destination", behind]
    lab.run(CLIENT, "ip", "route", "add", front, "via", "10.53.0.2")
    lab.run(CLIENT, "iptables", "-t", "nat", "-A", *rule)
    try:
        one = watch()
        with lab.udp() as client:
            client.ask(front, count=20)
            look = settle(one, lambda now: now.total("responses_total") >= 20, "20 answers")
    finally:
        lab.run(CLIENT, "iptables", "-t", "nat", "-D", *rule)
        lab.run(CLIENT, "ip", "route", "del", front)
    servers = {row["server"] for row in look.document["servers"] if sum(row["queries"].values())}
    assert servers == {behind}
    assert look.total("queries_total", server=behind) == look.total("responses_total", server=behind) == 20
    assert look.total("latency_seconds_count", server=behind) == 20
    assert look.total("unanswered_total") == look.total("pending") == look.row(behind)["late"] == 0


def test_ipv6_with_extension_headers(watch, lab, directory) -> None:
    plain, options = V6.format("1"), V6.format("2")
    lab.unbound(directory, plain)
    lab.server(options)
    one = watch()
    perf = lab.dnsperf(directory, plain, "-Q", "5000", "-l", "1")
    with lab.udp(family=socket.AF_INET6) as client:
        # A header of destination options that holds nothing but padding.
        client.socket.setsockopt(socket.IPPROTO_IPV6, IPV6_DSTOPTS, bytes([0, 0, 1, 4, 0, 0, 0, 0]))
        for i in range(10):
            client.ask(options, f"nx-{i}.example.test")
    with lab.tcp(options) as stream:
        stream.ask(options, "ok.example.test")
    look = settle(one, lambda now: now.total("responses_total") >= perf.sent + 11, "all answers")
    assert look.total("queries_total", server=plain) == look.total("responses_total", server=plain) >= perf.sent
    assert look.total("queries_total", server=options, transport="udp") == 10
    assert look.total("queries_total", server=options, transport="tcp") == 1
    assert look.total("responses_total", server=options, rcode="NXDOMAIN") == 10
    assert look.total("unanswered_total") == look.total("pending") == 0


def test_answers_out_of_order_on_a_stream_are_matched(watch, lab) -> None:
    server = lab.serve(11)
    one = watch()
    with lab.tcp(server) as stream:
        for i in range(10):
            stream.send(server, f"swap-{i}.example.test")
            stream.send(server, f"ok-{i}.example.test")
        for _ in range(20):
            stream.receive()
    look = settle(one, lambda now: now.total("responses_total", server=server) >= 20, "20 answers")
    assert look.total("queries_total", server=server, transport="tcp") == 20
    assert look.total("responses_total", server=server, rcode="NOERROR") == 20
    assert look.total("latency_seconds_count", server=server) == 20
    assert look.total("pending") == look.total("unanswered_total") == look.document["lost"]["streams"] == 0


def test_lost_segments_do_not_change_counts(watch, lab) -> None:
    """What TCP sends again is no new query."""
    server = lab.serve(12)
    for where, every in ((CLIENT, 7), (SERVER, 5)):
        nth = f"--mode nth --every {every} --packet {every - 1}".split()
        lab.run(where, "iptables", "-A", "INPUT", "-p", "tcp", "-m", "statistic", *nth, "-j", "DROP")
    try:
        one = watch()
        with lab.tcp(server) as stream:
            stream.socket.settimeout(10)
            for i in range(60):
                stream.send(server, f"ok-{i}.example.test")
            for _ in range(60):
                stream.receive()
    finally:
        for where in (CLIENT, SERVER):
            lab.run(where, "iptables", "-F", "INPUT")
    # Segments are seen in order of arrival, and those that fill a hole are counted, too.
    look = settle(one, lambda now: now.total("responses_total", server=server) + now.document["lost"]["streams"] >= 60, "answers")
    assert look.total("queries_total", server=server) == 60
    assert look.total("responses_total", server=server) == 60 or look.document["lost"]["streams"] > 0
    assert look.row(server)["retransmissions"] == 0


def test_a_length_may_be_sent_apart_from_its_message(watch, lab) -> None:
    """As some resolvers write: two bytes, then the rest, on many short connections."""
    server = lab.serve(17)
    one = watch()
    for i in range(300):
        message = framed(query(f"ok-{i}.example.test", i))
        with lab.tcp(server) as stream:
            stream.socket.sendall(message[:2])
            stream.socket.sendall(message[2:])
            stream.receive()
    look = settle(one, lambda now: now.total("responses_total", server=server) >= 300, "300 answers")
    assert look.total("queries_total", server=server) == look.total("responses_total", server=server) == 300
    assert look.document["lost"]["streams"] == 0


def test_thousands_of_messages_in_a_segment_are_counted(watch, lab) -> None:
    server = lab.serve(18)
    one = watch()
    with lab.tcp(server) as stream:
        stream.socket.sendall(framed(*(query("drop.b", i & 0xFFFF) for i in range(30_000))))
        look = settle(one, lambda now: now.total("queries_total", server=server) >= 30_000, "30,000 queries")
    assert look.total("queries_total", server=server) == 30_000 and look.document["lost"]["streams"] == 0


def test_an_agent_that_starts_within_a_message_finds_the_next(watch, lab) -> None:
    """Only what was on its way is lost, and that is reported."""
    server = lab.serve(19)
    with lab.tcp(server) as stream:
        message = framed(query("ok.example.test", 1))
        stream.socket.sendall(message[:9])
        one = watch()
        stream.socket.sendall(message[9:])
        stream.receive()
        stream.ask(server, count=500)
    look = settle(one, lambda now: now.total("queries_total", server=server) >= 500, "500 queries")
    assert look.total("queries_total", server=server) == 500 <= look.total("responses_total", server=server) <= 501
    assert 1 <= look.document["lost"]["streams"] <= 4


def test_an_answer_seen_by_several_sockets_is_one(watch, lab) -> None:
    server = lab.serve(20)
    one = watch()
    raw = [lab.raw(CLIENT, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP) for _ in range(3)]
    with lab.udp() as client:
        client.ask(server, count=10)
    look = settle(one, lambda now: now.total("responses_total", server=server) >= 10, "ten answers")
    assert len(raw[0].recv(512)) > 28 and look.total("responses_total", server=server) == 10
    assert look.row(server)["late"] == look.row(server)["unanswered"] == 0


def test_sockets_may_share_a_port(watch, lab) -> None:
    """The answer reaches any of them (SO_REUSEPORT)."""
    server = lab.serve(29)
    one = watch()
    sockets = [lab.raw(CLIENT, socket.AF_INET, socket.SOCK_DGRAM) for _ in range(3)]
    for s in sockets:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        s.bind(("", 40053))
    for number in range(30):
        sockets[number % 3].sendto(query("ok.example.test", number), (server, 53))
    look = settle(one, lambda now: now.total("responses_total", server=server) >= 30, "30 answers")
    assert look.row(server)["answered"] == 30 and look.row(server)["late"] == look.row(server)["pending"] == 0


def test_missing_and_late_answers_are_counted(watch, lab) -> None:
    """Five seconds are the time-out: first pending, then unanswered; an answer after that is late."""
    silent, late, good = lab.serve(13, 14, 15)
    one = watch()
    with lab.udp() as client:
        for i in range(7):
            client.send(silent, f"drop-{i}.example.test")
        for i in range(3):
            client.send(late, f"late-{6500 + i}.example.test")
        client.ask(good)
        look = settle(one, lambda now: now.total("pending") == 10, "ten are pending", 3)
        assert (look.total("pending", server=silent), look.total("pending", server=late)) == (7, 3)
        assert look.total("unanswered_total") == 0
        look = settle(one, lambda now: now.row(late).get("late") == 3, "three late answers", 10)
    assert look.total("pending") == 0
    assert look.total("unanswered_total", server=silent) == 7
    assert look.total("unanswered_total", server=late) == 3
    assert look.total("unanswered_total", server=good) == 0
    assert look.total("responses_total", server=late) == 3
    assert look.total("latency_seconds_count", server=late) == 0


def test_other_packets_are_not_counted_as_queries(watch, lab) -> None:
    """Answers sent from here, other ports and half messages; encrypted DNS as packets."""
    server = lab.serve(16)
    one = watch()
    with lab.udp() as client:
        client.ask(server)
        client.socket.sendto(answer(query("ok.example.test", 5), 0), (server, 53))
        client.socket.sendto(query("ok.example.test", 6), (server, 5353))
        for length in (0, 1, 11, 14):
            client.socket.sendto(query("ok.example.test", 7)[:length], (server, 53))
        client.socket.sendto(struct.pack("!6H", 8, 0, 0xFFFF, 0, 0, 0) + b"\x3f" * 40, (server, 53))
        for _ in range(4):
            with lab.raw(CLIENT, socket.AF_INET, socket.SOCK_STREAM) as refused:
                assert refused.connect_ex((server, 853))
        look = settle(one, lambda now: now.row(server).get("malformed", 0) >= 5, "malformed ones")
    # A header makes a query of it, readable or not; less than that is nothing.
    assert look.total("queries_total", server=server) == 3 and look.row(server)["malformed"] == 5
    assert look.total("responses_total", server=server) == 1
    sums_agree(look, server)
    # The answer that left for port 53 is a packet, too.
    assert look.row(server)["dot_packets"] == 4 and look.row(server)["packets"] == 7
    settle(one, lambda now: now.total("pending") == 0, "nothing is pending", 8)
