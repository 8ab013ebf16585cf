# SPDX-License-Identifier: Apache-2.0
"""All queries to port 53, their answers and missing answers are counted once."""

import socket
import struct
import subprocess

import pytest
from conftest import BIN
from dnslab import CLIENT, SERVER, V4, V6, Scrape, fixture_lab, fixture_network, fixture_watch, need, settle  # noqa: F401
from dnswire import A, AAAA, PTR, SRV, TXT, answer, framed, query

IPV6_DSTOPTS = 59


def sums_agree(scrape: Scrape, server: str) -> None:
    """The queries of all workloads add up to the queries of the server."""
    row = scrape.row(server)
    shares = sum(user["queries"] for user in row["top"]) + row["other"]["queries"]
    assert shares == sum(row["queries"].values()) == scrape.total("queries_total", server=server)
    assert row["other"]["queries"] == 0, "few workloads are all listed by name"


@pytest.mark.parametrize("args", [pytest.param([], marks=pytest.mark.quick), pytest.param(["500000", "2"], marks=pytest.mark.slow)], ids=["cut", "a-million"])
def test_the_programs_count_all_datagrams_and_stream_messages(args: list[str]) -> None:
    """tests/tool/dns_live.c has clients and servers that count their own messages."""
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
    scrape = settle(one, lambda now: now.total("responses_total", server=server) >= perf.sent, f"{perf.sent} answers")
    assert scrape.total("queries_total") == scrape.total("queries_total", server=server, role="upstream", transport="udp")
    assert scrape.total("queries_total", server=server) == perf.sent
    assert scrape.total("responses_total", server=server) == scrape.total("responses_total", rcode="NOERROR", server=server)
    assert scrape.total("responses_total") == perf.sent, "nothing is counted at the server's side of this host"
    assert scrape.total("unanswered_total") == scrape.total("pending") == 0
    assert scrape.total("latency_seconds_count", server=server) == perf.sent
    assert scrape.row(server)["retransmissions"] == 0
    # Names are a sample. A lost sample does not change a count.
    assert {what for what, count in scrape.document["lost"].items() if count} <= {"names"}
    sums_agree(scrape, server)


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
    scrape = settle(one, lambda now: now.total("responses_total", server=server) >= 26, "26 answers")
    answers = {"NOERROR": 11, "NXDOMAIN": 5, "SERVFAIL": 4, "REFUSED": 3, "FORMERR": 2, "NOTIMP": 1}
    assert {rcode: scrape.total("responses_total", server=server, rcode=rcode) for rcode in answers} == answers
    assert scrape.total("queries_total", server=server, transport="udp") == 25
    assert scrape.total("queries_total", server=server, transport="tcp") == 1
    row = scrape.row(server)
    assert row["truncated"] == 1 and row["late"] == 0
    assert scrape.total("latency_seconds_count", server=server) == 26
    assert scrape.total("latency_seconds_sum", server=server) > 0.2
    assert 0 < row["latency"]["p50"] < 0.2 <= row["latency"]["p99"] <= 0.5
    within = {le: scrape.total("latency_seconds_bucket", server=server, le=le) for le in ("0.1", "0.5", "1", "5", "+Inf")}
    assert 0 < within["0.1"] < within["0.5"] <= within["1"] <= within["5"] == within["+Inf"] == 26
    sums_agree(scrape, server)


def test_retransmissions_and_duplicate_answers_are_distinguished(watch, lab) -> None:
    again, twice, reused = lab.serve(4, 5, 6)
    one = watch()
    with lab.udp() as other, lab.udp() as client:
        for _ in range(3):
            other.send(again, "late-500.example.test", number=77)
        other.send(twice, "twice.example.test")
        # An id after its answer is a new query, and so is another name.
        for _ in range(2):
            client.ask(reused, number=99)
        client.send(reused, "late-300.example.test", number=98)
        client.send(reused, "late-301.example.test", number=98)
        scrape = settle(one, lambda now: now.total("responses_total") >= 6, "six answers")
    assert (scrape.total("queries_total", server=again), scrape.row(again)["retransmissions"]) == (3, 2)
    # The second answer belongs to no query.
    assert (scrape.total("queries_total", server=twice), scrape.total("responses_total", server=twice)) == (1, 1)
    assert (scrape.row(twice)["late"], scrape.row(twice)["retransmissions"]) == (0, 0)
    assert (scrape.total("queries_total", server=reused), scrape.row(reused)["retransmissions"]) == (4, 0)
    assert scrape.total("unanswered_total", server=twice) == scrape.total("pending", server=twice) == 0


def test_a_query_to_several_servers_with_one_id_is_matched_for_each(watch, lab) -> None:
    """musl sends one id from one socket to all name servers."""
    servers = [V4.format(i) for i in (7, 8, 9)]
    lab.server(*servers)
    one = watch()
    with lab.udp() as client:
        for i in range(50):
            for server in servers:
                client.send(server, "ok.example.test", number=i)
            for _ in servers:
                client.receive()
    scrape = settle(one, lambda now: now.total("responses_total") >= 150, "150 answers")
    for server in servers:
        assert scrape.total("queries_total", server=server) == scrape.total("responses_total", server=server) == 50
        assert scrape.total("latency_seconds_count", server=server) == 50
        assert scrape.row(server)["retransmissions"] == scrape.row(server)["late"] == scrape.total("pending", server=server) == 0


def test_queries_through_a_service_address_are_counted_once(watch, lab) -> None:
    """The query goes to the translated address, and the answer comes from the service address."""
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
            scrape = settle(one, lambda now: now.total("responses_total") >= 20, "20 answers")
    finally:
        lab.run(CLIENT, "iptables", "-t", "nat", "-D", *rule)
        lab.run(CLIENT, "ip", "route", "del", front)
    servers = {row["server"] for row in scrape.document["servers"] if sum(row["queries"].values()) and row["server"].startswith("10.")}
    assert servers == {behind}
    assert scrape.total("queries_total", server=behind) == scrape.total("responses_total", server=behind) == 20
    assert scrape.total("latency_seconds_count", server=behind) == 20
    assert scrape.total("unanswered_total") == scrape.total("pending") == scrape.row(behind)["late"] == 0


def test_queries_with_ipv6_extension_headers_are_counted(watch, lab, directory) -> None:
    plain, options = V6.format("1"), V6.format("2")
    lab.unbound(directory, plain)
    lab.server(options)
    one = watch()
    perf = lab.dnsperf(directory, plain, "-Q", "5000", "-l", "1")
    with lab.udp(family=socket.AF_INET6) as client:
        # A destination options header with padding only.
        client.socket.setsockopt(socket.IPPROTO_IPV6, IPV6_DSTOPTS, bytes([0, 0, 1, 4, 0, 0, 0, 0]))
        for i in range(10):
            client.ask(options, f"nx-{i}.example.test")
    with lab.tcp(options) as stream:
        stream.ask(options, "ok.example.test")
    scrape = settle(one, lambda now: now.total("responses_total") >= perf.sent + 11, "all answers")
    assert scrape.total("queries_total", server=plain) == scrape.total("responses_total", server=plain) >= perf.sent
    assert scrape.total("queries_total", server=options, transport="udp") == 10
    assert scrape.total("queries_total", server=options, transport="tcp") == 1
    assert scrape.total("responses_total", server=options, rcode="NXDOMAIN") == 10
    assert scrape.total("unanswered_total") == scrape.total("pending") == 0


def test_answers_out_of_order_on_a_stream_are_matched(watch, lab) -> None:
    server = lab.serve(11)
    one = watch()
    with lab.tcp(server) as stream:
        for i in range(10):
            stream.send(server, f"swap-{i}.example.test")
            stream.send(server, f"ok-{i}.example.test")
        for _ in range(20):
            stream.receive()
    scrape = settle(one, lambda now: now.total("responses_total", server=server) >= 20, "20 answers")
    assert scrape.total("queries_total", server=server, transport="tcp") == 20
    assert scrape.total("responses_total", server=server, rcode="NOERROR") == 20
    assert scrape.total("latency_seconds_count", server=server) == 20
    assert scrape.total("pending") == scrape.total("unanswered_total") == scrape.document["lost"]["streams"] == 0


def test_lost_segments_do_not_change_counts(watch, lab) -> None:
    """A TCP retransmission is not a new query."""
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
    # Queries that were open when a segment was lost are unknown.
    scrape = settle(one, lambda now: now.row(server) and now.row(server)["answered"] + now.row(server)["unknown"] >= 60, "60 queries with a known end")
    row = scrape.row(server)
    assert scrape.total("queries_total", server=server) == row["answered"] + row["unknown"] == 60
    assert row["unknown"] == 0 or scrape.document["lost"]["streams"] > 0
    assert row["retransmissions"] == 0


def test_a_length_in_a_segment_of_its_own_is_counted_with_its_message(watch, lab) -> None:
    """Some resolvers write two bytes and then the rest, on many short connections."""
    server = lab.serve(17)
    one = watch()
    for i in range(300):
        message = framed(query(f"ok-{i}.example.test", i))
        with lab.tcp(server) as stream:
            stream.socket.sendall(message[:2])
            stream.socket.sendall(message[2:])
            stream.receive()
    scrape = settle(one, lambda now: now.total("responses_total", server=server) >= 300, "300 answers")
    assert scrape.total("queries_total", server=server) == scrape.total("responses_total", server=server) == 300
    assert scrape.document["lost"]["streams"] == 0


def test_an_agent_that_starts_within_a_message_finds_the_next_one(watch, lab) -> None:
    """Only the message in flight is lost, and the loss is reported."""
    server = lab.serve(19)
    with lab.tcp(server) as stream:
        message = framed(query("ok.example.test", 1))
        stream.socket.sendall(message[:9])
        one = watch()
        stream.socket.sendall(message[9:])
        stream.receive()
        stream.ask(server, count=500)
    scrape = settle(one, lambda now: now.total("queries_total", server=server) >= 500, "500 queries")
    assert scrape.total("queries_total", server=server) == 500 <= scrape.total("responses_total", server=server) <= 501
    assert 1 <= scrape.document["lost"]["streams"] <= 4


def test_an_answer_that_several_sockets_receive_is_counted_once(watch, lab) -> None:
    server = lab.serve(20)
    one = watch()
    raw = [lab.raw(CLIENT, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP) for _ in range(3)]
    with lab.udp() as client:
        client.ask(server, count=10)
    scrape = settle(one, lambda now: now.total("responses_total", server=server) >= 10, "ten answers")
    assert len(raw[0].recv(512)) > 28 and scrape.total("responses_total", server=server) == 10
    assert scrape.row(server)["late"] == scrape.row(server)["unanswered"] == 0


def test_answers_to_sockets_that_share_a_port_are_matched(watch, lab) -> None:
    """With SO_REUSEPORT an answer reaches any of the sockets."""
    server = lab.serve(29)
    one = watch()
    sockets = [lab.raw(CLIENT, socket.AF_INET, socket.SOCK_DGRAM) for _ in range(3)]
    for s in sockets:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        s.bind(("", 40053))
    for number in range(30):
        sockets[number % 3].sendto(query("ok.example.test", number), (server, 53))
    scrape = settle(one, lambda now: now.total("responses_total", server=server) >= 30, "30 answers")
    assert scrape.row(server)["answered"] == 30 and scrape.row(server)["late"] == scrape.row(server)["pending"] == 0


def test_missing_and_late_answers_are_counted(watch, lab) -> None:
    """A query is pending for five seconds, and then unanswered. A later answer is late."""
    silent, late, good = lab.serve(13, 14, 15)
    one = watch()
    with lab.udp() as client:
        for i in range(7):
            client.send(silent, f"drop-{i}.example.test")
        for i in range(3):
            client.send(late, f"late-{6500 + i}.example.test")
        client.ask(good)
        scrape = settle(one, lambda now: now.total("pending") == 10, "ten are pending", 3)
        assert (scrape.total("pending", server=silent), scrape.total("pending", server=late)) == (7, 3)
        assert scrape.total("unanswered_total") == 0
        scrape = settle(one, lambda now: now.row(late).get("late") == 3, "three late answers", 10)
    assert scrape.total("pending") == 0
    assert scrape.total("unanswered_total", server=silent) == 7
    assert scrape.total("unanswered_total", server=late) == 3
    assert scrape.total("unanswered_total", server=good) == 0
    assert scrape.total("responses_total", server=late) == 3
    assert scrape.total("latency_seconds_count", server=late) == 0


def test_other_packets_are_not_counted_as_queries(watch, lab, run) -> None:
    """Answers from this host, other ports and half messages. Encrypted DNS is counted as packets."""
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
        scrape = settle(one, lambda now: now.row(server).get("malformed", 0) >= 5, "malformed ones")
    # A message with a whole header counts as a query, readable or not. A shorter message does not.
    assert scrape.total("queries_total", server=server) == 3 and scrape.row(server)["malformed"] == 5
    assert scrape.total("responses_total", server=server) == 1
    sums_agree(scrape, server)
    # The answer to port 53 counts as a packet.
    assert scrape.row(server)["dot_packets"] == 4 and scrape.row(server)["packets"] == 7
    settle(one, lambda now: now.total("pending") == 0, "nothing is pending", 8)
    for view in (run("top", "dns", env={"HEADROOM_RUNTIME_DIR": str(one.directory / "run")}).stdout, one.get("/")[1]):
        assert "over TLS, 4 packets" in view
