# SPDX-License-Identifier: Apache-2.0
"""Who exceeded a budget, exactly; translated queries; servers asked at once; servers that are dead; bursts at the edges of seconds."""

import contextlib
import os
import re
import socket
import struct
import threading
import time
from typing import Any, Iterator

import pytest
from conftest import Agent, Run, until
from dnslab import CLIENT, QUIET, SERVER, V4, Client, Lab, fixture_lab, fixture_network, fixture_watch, need, pod_path, settle  # noqa: F401
from dnswire import Server, answer, query
from test_dns_budget import budgets

IP_PKTINFO = 8  # linux/in.h


def exceeded(one: Agent) -> str:
    return one.condition("DNSBudgetExceeded")["message"]


def at_once(client: Client, server: str, count: int, name: str = "ok.example.test") -> None:
    for i in range(count):
        client.socket.sendto(query(name, i & 0xFFFF), (server, 53))


@pytest.mark.quick
def test_the_burst_of_a_pod_that_has_ended_is_named_among_thousands_of_pairs(watch, lab) -> None:
    """60 pods ask 40 servers each. One pod sends 90 queries a second, another 240 in 0.4 s, and ends."""
    server, pods = lab.serve(101), [pod_path() for _ in range(60)]
    one = watch(budgets(**{server: {"qps": 260}}))
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(lab.udp(lab.cgroup(path))) for path, *_ in pods]
        for client in clients:
            for i in range(40):
                client.send(V4.format(150 + i), "drop.example.test")
        time.sleep(2.2)
        begin = time.time() + 0.2
        steady = threading.Thread(target=clients[0].burst, args=(server, 360, begin, 4))
        steady.start()
        last = pod_path()
        group = lab.cgroup(last[0])
        with lab.udp(group) as burst:
            burst.burst(server, 240, begin + 1.7, 0.4)
        group.remove()
        steady.join()
        message = one.wait_condition("DNSBudgetExceeded")["message"]
        until(lambda: last[1] in exceeded(one), lambda: exceeded(one))
    message = exceeded(one)
    found = re.search(rf"dns/{server}: (\d+) of 260 queries/s, over for 1 s[^;]*(?:; now \d+)?; pod {last[1]} (\d+)", message)
    assert found and 300 <= int(found[1]) <= 345 and int(found[2]) == 240, message


def test_a_proxy_that_keeps_the_addresses_of_pods_is_one_client(watch, lab) -> None:
    """One socket sends three queries from each of 180 addresses, and another client sends 130 from one."""
    server, one = lab.serve(116), watch(budgets(**{V4.format(116): {"qps": 330}}))
    lab.run(CLIENT, "ip", "route", "add", "local", "10.77.0.0/24", "dev", "lo")
    try:
        with lab.udp(lab.cgroup("lxc.payload.proxy")) as proxy, lab.udp(lab.cgroup("lxc.payload.few")) as few:
            for i in range(540):
                source = socket.inet_aton(f"10.77.0.{1 + i % 180}")
                how = (socket.IPPROTO_IP, IP_PKTINFO, struct.pack("=I4s4s", 0, source, bytes(4)))
                proxy.socket.sendmsg([query("drop.example.test", i)], [how], 0, (server, 53))
            at_once(few, server, 130)
            until(lambda: "; lxd " in exceeded(one), lambda: exceeded(one))
    finally:
        lab.run(CLIENT, "ip", "route", "del", "local", "10.77.0.0/24", "dev", "lo")
    found = re.search(r": (\d+) of 330 queries/s, over for [^;]*(?:; now \d+)?; lxd proxy 540 ", exceeded(one))
    assert found and found[1] == "670", exceeded(one)
    row = settle(one, lambda now: now.row(server).get("top"), "the clients").row(server)
    assert {user["workload"]["text"]: user["queries"] for user in row["top"]} == {"lxd proxy": 540, "lxd few": 130}
    assert row["other"]["queries"] == 0


def test_a_budget_of_packets_blames_packets(watch, lab) -> None:
    """30 lookups over TCP are more packets than 90 queries."""
    server = lab.serve(102)
    one = watch(budgets(**{server: {"pps": 150}}))
    many, few = lab.cgroup("lxc.payload.many"), lab.cgroup("lxc.payload.few")
    with lab.udp(many) as client:

        def is_in_one_second() -> bool:
            """A burst that falls into two seconds is repeated."""
            at_once(client, server, 90)
            for _ in range(30):
                with lab.tcp(server, few) as stream:
                    stream.ask(server)
            time.sleep(2.2)
            shown = re.search(r"; lxd few (\d+)", exceeded(one))
            return shown is not None and int(shown[1]) >= 5 * 30

        until(is_in_one_second, lambda: exceeded(one))
    found = re.search(r": (\d+) of 150 packets/s, over for [^;]*(?:; now \d+)?; lxd few (\d+)", exceeded(one))
    assert found and int(found[2]) >= 5 * 30 and int(found[1]) - 95 <= int(found[2]) <= int(found[1]), exceeded(one)


def test_other_packets_of_a_link_local_budget_have_a_client(watch, lab) -> None:
    """50 queries, and 600 packets to the metadata service, of which no query is."""
    aws, metadata = "169.254.169.253", "169.254.169.254"
    one = watch("{budgets: [{server: auto, pps: 400}]}")
    with lab.more_addresses(aws, metadata):
        lab.server(aws)
        with lab.udp(lab.cgroup("lxc.payload.asks")) as asks, lab.udp(lab.cgroup("lxc.payload.reads")) as reads:
            asks.ask(aws)
            time.sleep(2.5)
            at_once(asks, aws, 50)
            for _ in range(600):
                reads.socket.sendto(b"GET", (metadata, 80))
            until(lambda: "lxd reads" in exceeded(one), lambda: exceeded(one))
    assert re.search(rf"dns/{aws}: 650 of 400 packets/s, over for 1 s: .*600 of 650 packets are not DNS[^;]*(; now \d+)?; lxd reads 600", exceeded(one)), exceeded(one)


@pytest.mark.slow
def test_a_server_that_answers_nothing_at_a_high_rate_is_dead(watch, lab) -> None:
    """More queries are pending than can be followed."""
    server = V4.format(104)
    silent = lab.raw(SERVER, socket.AF_INET, socket.SOCK_DGRAM)
    silent.bind((server, 53))
    one = watch()
    group = lab.cgroup("lxc.payload.asks")
    with contextlib.closing(silent), contextlib.ExitStack() as stack:
        clients = [stack.enter_context(lab.udp(group)) for _ in range(4)]
        begin = time.time()
        for tick in range(90):
            for client in clients:
                for i in range(175):  # 7,000 a second
                    client.socket.sendto(query("ok.example.test", tick * 175 + i & 0xFFFF), (server, 53))
            time.sleep(max(0, begin + (tick + 1) / 10 - time.time()))
        message = one.wait_condition("DNSUnanswered")["message"]
        scrape = settle(one, lambda now: now.total("pending") == 0, "nothing is pending", 10)
    row = scrape.row(server)
    assert re.search(rf"{server}: \d+ of \d+ upstream queries of the last minute without an answer; lxd asks", message), message
    assert (row["verdict"], row["answered"], row["queries"]["udp"]) == ("unanswered", 0, 90 * 4 * 175)
    assert row["unanswered"] + row["unknown"] == 90 * 4 * 175 and row["unknown"] > row["unanswered"]
    assert "lxd asks" in one.condition("DNSUnanswered")["message"]


@contextlib.contextmanager
def translated(lab: Lab, *rules: str) -> Iterator[None]:
    """NAT rules of the client's namespace."""
    need("iptables")
    lab.run(CLIENT, "sysctl", "-qw", "net.ipv4.conf.all.route_localnet=1")
    for rule in rules:
        lab.run(CLIENT, "iptables", "-t", "nat", "-A", *rule.split())
    try:
        yield
    finally:
        for rule in rules:
            lab.run(CLIENT, "iptables", "-t", "nat", "-D", *rule.split())


def listen(lab: Lab, where: str, address: str, port: int) -> Server:
    sockets = [lab.raw(where, socket.AF_INET, kind) for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM)]
    for s in sockets:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind((address, port))
    sockets[1].listen(8)
    lab.servers.append(Server([sockets[0]], [sockets[1]]))
    return lab.servers[-1]


def test_queries_to_the_resolver_of_a_docker_network_are_counted(watch, lab) -> None:
    """127.0.0.11:53 is translated to another port, and the answers back."""
    group = lab.cgroup("lxc.payload.in-docker")
    rules = [f"OUTPUT -d 127.0.0.11 -p {kind} --dport 53 -j DNAT --to-destination 127.0.0.11:40911" for kind in ("udp", "tcp")]
    rules += [f"POSTROUTING -s 127.0.0.11 -p {kind} --sport 40911 -j SNAT --to-source :53" for kind in ("udp", "tcp")]
    with translated(lab, *rules):
        listen(lab, CLIENT, "127.0.0.11", 40911)
        one = watch()
        with lab.udp(group) as client:
            client.ask("127.0.0.11", count=45)
        with lab.udp(group) as connected:
            connected.socket.connect(("127.0.0.11", 53))
            for i in range(25):
                connected.socket.send(query("nx.example.test", i))
                connected.receive()
        with lab.tcp("127.0.0.11", group) as stream:
            stream.ask("127.0.0.11", count=5)
        scrape = settle(one, lambda now: now.row("127.0.0.11").get("answered") == 75, "75 answers")
    row = scrape.row("127.0.0.11")
    assert row["queries"] == {"udp": 70, "tcp": 5} and row["role"] == "local"
    assert (row["responses"]["NXDOMAIN"], row["pending"], row["unanswered"], scrape.document["lost"]["unmatched"]) == (25, 0, 0, 0)
    assert [(user["workload"]["text"], user["queries"]) for user in row["top"]] == [("lxd in-docker", 75)]


def test_a_service_with_another_target_port_is_counted(watch, lab) -> None:
    front, behind = "10.96.7.53", V4.format(105)
    rules = [f"OUTPUT -d {front} -p {kind} --dport 53 -j DNAT --to-destination {behind}:9153" for kind in ("udp", "tcp")]
    lab.run(CLIENT, "ip", "route", "add", front, "via", "10.53.0.2")
    try:
        with translated(lab, *rules):
            listen(lab, SERVER, behind, 9153)
            one = watch()
            with lab.udp() as client:
                client.ask(front, count=30)
                # No rule translates this port.
                client.socket.sendto(query("ok.example.test", 1), (behind, 9153))
                client.receive()
            with lab.tcp(front) as stream:
                stream.ask(front, count=10)
            scrape = settle(one, lambda now: now.row(behind).get("answered") == 40, "40 answers")
    finally:
        lab.run(CLIENT, "ip", "route", "del", front)
    assert scrape.row(behind)["queries"] == {"udp": 30, "tcp": 10}
    assert scrape.total("unanswered_total") == scrape.total("pending") == scrape.document["lost"]["unmatched"] == 0


class Slow:
    """Answers each query after some milliseconds."""

    def __init__(self, lab: Lab, address: str, seconds: float) -> None:
        self.socket = lab.raw(SERVER, socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((address, 53))
        self.seconds = seconds
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                message, client = self.socket.recvfrom(512)
                threading.Timer(self.seconds, self._reply, (answer(message, 0), client)).start()

    def _reply(self, *reply: Any) -> None:
        with contextlib.suppress(OSError):
            self.socket.sendto(*reply)


@pytest.mark.slow
def test_the_slower_of_two_servers_is_superseded(watch, lab) -> None:
    """As with musl: one socket asks both, takes the first answer and closes."""
    fast, slow = lab.serve(106), V4.format(107)
    slower = Slow(lab, slow, 0.08)
    one = watch(budgets(**{slow: {"pending": 40}}))
    begin = time.time() + 0.2
    for i in range(240):  # 80 a second
        time.sleep(max(0, begin + i / 80 - time.time()))
        with lab.udp() as client:
            for server in (slow, fast) if i % 2 else (fast, slow):
                client.send(server, f"ok-{i}.example.test", number=i)
            client.receive()
    scrape = settle(one, lambda now: now.row(slow).get("superseded") == 240, "all are superseded", 12)
    slower.socket.close()
    row = scrape.row(slow)
    assert (row["queries"]["udp"], row["answered"], row["unanswered"], row["unknown"], row["pending"]) == (240, 0, 0, 0, 0)
    assert row["verdict"] == "unknown" and row["over_budget_seconds"] == 0
    assert (scrape.row(fast)["answered"], scrape.row(fast)["superseded"], scrape.row(fast)["verdict"]) == (240, 0, "ok")
    assert scrape.total("superseded_total", server=slow) == 240
    for name in ("DNSUnanswered", "DNSBudgetExceeded"):
        assert one.condition(name)["status"] == "False"


def test_a_short_burst_of_pending_queries_exceeds_its_budget(watch, lab, run: Run) -> None:
    server = lab.serve(108)
    one = watch(budgets(**{server: {"pending": 150}}))
    with lab.udp() as client:
        for phase in (0.15, 0.8):
            time.sleep(1 - time.time() % 1 + phase)
            at_once(client, server, 210, "late-250.example.test")
            time.sleep(2)
        scrape = settle(one, lambda now: now.row(server).get("answered") == 420, "all answers")
    top = run("top", "dns", env={"HEADROOM_RUNTIME_DIR": str(one.directory / "run")}).stdout
    # Pending queries have no rate.
    assert re.search(r"\n +(19|20|21)\d +100 % +420 in all", top) and re.search(r" \d+/150  \d s over  ", top), top
    # A poll within a burst sees it in two seconds.
    assert 2 <= scrape.row(server)["over_budget_seconds"] <= 4 and scrape.row(server)["pending"] == 0
    assert re.search(r": (19|20|21)\d of 150 pending, over for \d s", exceeded(one)), exceeded(one)


@pytest.mark.slow
def test_bursts_count_as_seconds_over_the_budget(watch, lab) -> None:
    """Pairs of bursts 0.96 s apart exceed it together, single ones do not, and a burst alone is one second."""
    pairs, singles, alone = lab.serve(109, 110, 111)
    one = watch(budgets(**{pairs: {"qps": 700}, singles: {"qps": 700}, alone: {"qps": 300}}))
    with lab.udp() as client:
        for phase in (0.1, 0.37, 0.61, 0.93):
            begin = int(time.time()) + 1 + phase
            time.sleep(max(0, begin - time.time()))
            at_once(client, pairs, 420)
            at_once(client, singles, 420)
            time.sleep(max(0, begin + 0.96 - time.time()))
            at_once(client, pairs, 420)
            time.sleep(2.2)
        for i in range(5):
            client.burst(alone, 450, time.time() + 1.3, 0.1)
        scrape = settle(one, lambda now: now.total("queries_total", server=alone) >= 5 * 450, "all queries")
        time.sleep(2)
    rows = {server: scrape.row(server)["over_budget_seconds"] for server in (pairs, singles)}
    assert rows == {pairs: 4, singles: 0}
    assert settle(one, lambda now: now.row(alone), "a row").row(alone)["over_budget_seconds"] == 5


def test_a_larger_budget_is_not_exceeded_by_the_past(watch, lab) -> None:
    first, second = lab.serve(112, 113)
    one = watch(budgets(**{first: {"qps": 50}, second: {"qps": 50}}))
    with lab.udp() as client:
        at_once(client, first, 80)
        at_once(client, second, 240)
        message = one.wait_condition("DNSBudgetExceeded")["message"]
        until(lambda: exceeded(one).count("%)") == 2, lambda: exceeded(one))
    # The worst one is the first.
    assert exceeded(one).index(second) < exceeded(one).index(first), message
    one.write_config(QUIET + f"dns: {budgets(**{first: {'qps': 500}, second: {'qps': 500}})}\n")
    one.reload()
    until(lambda: one.condition("DNSBudgetExceeded")["status"] == "False", lambda: exceeded(one), 5)


def test_a_smaller_budget_is_not_compared_with_the_past(watch, lab) -> None:
    server = lab.serve(115)
    one = watch(budgets(**{server: {"qps": 900}}))
    with lab.udp() as client:
        at_once(client, server, 170)
        settle(one, lambda now: now.row(server).get("peak") == 170, "the peak")
        time.sleep(2.2)  # a second that the reload is in counts for the new budget
        one.write_config(QUIET + f"dns: {budgets(**{server: {'qps': 90}})}\n")
        one.reload()
        row = settle(one, lambda now: now.row(server)["budget"]["qps"] == 90, "the new budget").row(server)
        assert (row["verdict"], row["over_budget_seconds"], row["peak"]) == ("ok", 0, 170)
        time.sleep(2)
        assert one.condition("DNSBudgetPressure")["status"] == "False", one.condition("DNSBudgetPressure")
        at_once(client, server, 80)
        settle(one, lambda now: now.row(server)["verdict"] == "near-budget", "80 of 90")
    assert f"dns/{server}: 80 of 90 queries/s" in one.condition("DNSBudgetPressure")["message"]


def test_unique_names_are_shown_by_their_suffix(watch, lab, run: Run) -> None:
    server, one = lab.serve(114), watch()
    with lab.udp() as client:
        for i in range(400):
            client.ask(server, f"nx-{os.urandom(4).hex()}.probe.example.test")
            if i % 40 == 0:
                client.ask(server, "ok.mail.example.test")
            time.sleep(0.01)
        scrape = settle(one, lambda now: now.row(server).get("names", [{}])[0].get("name") == "*.probe.example.test", "the suffix")
        settle(one, lambda now: any(row["other_nxdomain_per_second"] > 1 for row in now.document["expansions"]), "other names")
        top = run("top", "dns", env={"HEADROOM_RUNTIME_DIR": str(one.directory / "run")}).stdout
    name = scrape.row(server)["names"][0]
    assert name["share"] > 0.9 and name["type"] == ""
    # A search domain that only pods have is not known.
    assert "*.probe.example.test" in top and "NXDOMAIN for names outside of the known search domains: upstream" in top
