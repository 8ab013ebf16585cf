# SPDX-License-Identifier: Apache-2.0
"""DNS counts with loss, reordering, many servers, slow servers and unusual streams, compared with a generator's own counts.

A relay between two TUN devices drops and reorders packets.
"""

import contextlib
import fcntl
import heapq
import os
import random
import re
import select
import socket
import struct
import threading
import time
from typing import Iterator

import pytest
from conftest import until
from dnslab import CLIENT, QUIET, SERVER, V4, V6, Lab, Scrape, fixture_lab, fixture_network, fixture_watch, need, pod_path, settle, views_agree  # noqa: F401
from dnswire import QR, answer, framed, query
from storm import enter, ip

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000
NEAR, FAR = "10.57.0.1", "10.58.0.{}"


class Relay:
    """Moves packets between two TUN devices; some answers are lost or delayed."""

    def __init__(self, lost: float, delayed: float) -> None:
        self.lost, self.delayed, self.chance = lost, delayed, random.Random(9)
        self.fds = [self._device(CLIENT), self._device(SERVER)]
        ip("-n", CLIENT, "addr", "add", f"{NEAR}/32", "dev", "relay")
        ip("-n", SERVER, "addr", "add", "10.57.0.2/32", "dev", "relay")
        for name in (CLIENT, SERVER):
            ip("-n", name, "link", "set", "relay", "up")
        ip("-n", CLIENT, "route", "add", "10.58.0.0/24", "dev", "relay", "src", NEAR)
        ip("-n", SERVER, "route", "add", f"{NEAR}/32", "dev", "relay")
        ip("-n", SERVER, "route", "add", "local", "10.58.0.0/24", "dev", "lo")
        self.stop, self.wake = socket.socketpair()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    @staticmethod
    def _device(where: str) -> int:
        made: list[int] = []

        def make() -> None:
            enter(f"/run/netns/{where}")
            made.append(os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK))
            fcntl.ioctl(made[0], TUNSETIFF, struct.pack("16sH22x", b"relay", IFF_TUN | IFF_NO_PI))

        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        return made[0]

    def _run(self) -> None:
        held: list[tuple[float, int, bytes]] = []
        number = 0
        while True:
            wait = max(0, held[0][0] - time.monotonic()) if held else None
            ready, _, _ = select.select([*self.fds, self.stop], [], [], wait)
            if self.stop in ready:
                return
            while held and held[0][0] <= time.monotonic():
                os.write(self.fds[0], heapq.heappop(held)[2])
            for fd in ready:
                data = os.read(fd, 65536)
                if fd == self.fds[0] or len(data) < 60:  # queries and acknowledgements
                    os.write(self.fds[self.fds[0] == fd], data)
                elif self.chance.random() >= self.lost:
                    number += 1
                    late = self.chance.random() < self.delayed
                    heapq.heappush(held, (time.monotonic() + (self.chance.uniform(0.002, 0.006) if late else 0), number, data))

    def close(self) -> None:
        self.wake.send(b"x")
        self.thread.join()
        for fd in self.fds:
            os.close(fd)  # removes the device
        ip("-n", SERVER, "route", "del", "local", "10.58.0.0/24", "dev", "lo")
        self.stop.close()
        self.wake.close()


def sums_agree(scrape: Scrape, truth: int, prefix: str = "10.5") -> None:
    """Status, metrics and the generator have the same sum."""
    rows = [row for row in scrape.document["servers"] if row["server"].startswith(prefix) or row["server"] == "other"]
    assert sum(sum(row["queries"].values()) for row in rows) == truth
    metrics = sum(value for name, value in scrape.metrics.items() if name.startswith("headroom_dns_queries_total{") and (f'server="{prefix}' in name or 'server="other"' in name))
    assert metrics == truth


def settled(scrape: Scrape, server: str, truth: int) -> bool:
    row = scrape.row(server)
    return bool(row) and sum(row["queries"].values()) >= truth and row["pending"] == 0


def pipeline(lab: Lab, server: str, count: int, first: int) -> int:
    """Sends queries on a connection, 200 at a time, and returns the number of answers."""
    answers = 0
    with lab.tcp(server) as stream:
        stream.socket.settimeout(20)
        for begin in range(0, count, 200):
            names = range(begin, min(begin + 200, count))
            stream.socket.sendall(framed(*[query(f"ok-{first + i}.example.test", (first + i) & 0xFFFF) for i in names]))
            for _ in names:
                stream.receive()
                answers += 1
    return answers


@pytest.mark.parametrize(("lost", "delayed"), [(0.03, 0.0), pytest.param(0.0, 0.3, marks=pytest.mark.slow)], ids=["loss", "reordering"])
def test_answers_over_a_disturbed_stream_are_counted(watch, lab, run, lost: float, delayed: float) -> None:
    with contextlib.closing(Relay(lost, delayed)):
        server = FAR.format(1)
        lab.server(server)
        one = watch()
        truth = sum(pipeline(lab, server, 600, 10000 * i) for i in range(3))
        assert truth == 1800
        scrape = settle(one, lambda now: settled(now, server, truth), "nothing is pending", 10)
    row = scrape.row(server)
    assert sum(row["queries"].values()) == truth and row["unanswered"] == 0
    # After a gap it is not known whether the open queries of the connection get an answer.
    assert row["answered"] + row["unknown"] == truth and row["answered"] >= 200
    views_agree(one, run, {server: {"queries": truth, "unanswered": 0, "pending": 0}})


@pytest.mark.slow
def test_a_disturbed_stream_that_is_older_than_the_agent_has_no_unanswered_queries(watch, lab) -> None:
    """The agent has not seen the connection's begin, and the firewall drops the first answers once."""
    need("iptables")
    server, rule = lab.serve(91), "INPUT -p tcp --sport 53 --tcp-flags PSH PSH -m quota --quota 250 -j DROP".split()
    with lab.tcp(server) as stream:
        stream.ask(server)
        one = watch()
        stream.ask(server)
        lab.run(CLIENT, "iptables", "-A", *rule)
        try:
            for i in range(50):
                stream.send(server, f"late-{100 + 10 * i}.example.test")
            for _ in range(50):
                stream.receive()
        finally:
            lab.run(CLIENT, "iptables", "-D", *rule)
    scrape = settle(one, lambda now: settled(now, server, 51), "nothing is pending", 10)
    row = scrape.row(server)
    assert row["unanswered"] == 0 < row["unknown"] and row["answered"] + row["unknown"] == 51, row


def test_a_name_behind_a_gap_is_not_read_from_the_ip_header(watch, lab) -> None:
    """The frame's length comes in a segment that the firewall holds back. With the addresses and ports in front of it, the
    first name looks like the end of another one."""
    need("iptables")
    server, name, one = lab.serve(90), "ok-1234567", watch()
    first, behind = framed(query(name, 1)), framed(query("ok-behind.example.test", 2))
    late = len(first) + 2
    # Without a listener for the queue, the kernel takes a packet as sent. IP and TCP with a timestamp have 52 bytes.
    rule = f"OUTPUT -p tcp --dport 53 -m length --length {52 + late} -j NFQUEUE".split()
    with lab.tcp(server) as stream:
        lab.run(CLIENT, "iptables", "-A", *rule)
        try:
            stream.socket.sendall((first + behind)[:late])
            stream.socket.sendall((first + behind)[late:])
        finally:
            lab.run(CLIENT, "iptables", "-D", *rule)
        for _ in range(2):
            stream.receive()
    scrape = settle(one, lambda now: now.row(server).get("names"), "the name")
    # The message behind the gap may be lost.
    assert scrape.row(server)["queries"]["tcp"] == scrape.row(server)["answered"] + scrape.row(server)["unknown"] in (1, 2)
    assert [entry["name"] for entry in scrape.row(server)["names"]] == [name]


def test_queries_without_room_are_unknown(watch, lab, run) -> None:
    """The server answers 25,000 queries after two seconds."""
    server, truth = V4.format(80), 25000
    receiver = lab.raw(SERVER, socket.AF_INET, socket.SOCK_DGRAM)
    receiver.setsockopt(socket.SOL_SOCKET, 33, 1 << 26)
    receiver.bind((server, 53))
    one = watch()
    with contextlib.closing(receiver), contextlib.ExitStack() as stack:
        clients = [stack.enter_context(lab.udp()) for _ in range(4)]
        for i in range(truth):
            clients[i % 4].socket.sendto(query(f"ok-{i}.example.test", i & 0xFFFF), (server, 53))
        time.sleep(1)
        received = [receiver.recvfrom(512) for _ in range(truth)]
        for message, client in received:
            receiver.sendto(answer(message, 0), client)
        scrape = settle(one, lambda now: settled(now, server, truth), "nothing is pending", 10)
    row = scrape.row(server)
    assert row["queries"]["udp"] == truth and row["unanswered"] == row["late"] == 0
    assert row["answered"] + row["unknown"] == truth and row["answered"] >= 4000  # of 4,096
    assert scrape.document["lost"]["pending"] == row["unknown"]
    sums_agree(scrape, truth)
    views_agree(one, run, {server: {"queries": truth, "unanswered": 0, "late": 0, "pending": 0}})


@pytest.mark.slow
def test_the_limit_of_an_answer_is_five_seconds(watch, lab, run) -> None:
    early, late = lab.serve(81, 82)
    one = watch()
    with lab.udp() as client:
        for i in range(300):
            client.send(late, f"late-5300.host-{i}.test", number=i)
            client.send(early, f"late-4700.host-{i}.test", number=i)
            time.sleep(0.003)
        settle(one, lambda now: now.row(late).get("late") == 300, "the late answers", 12)
        settle(one, lambda now: now.total("pending") == 0, "nothing is pending")
    views_agree(one, run, {early: {"queries": 300, "answered": 300, "unanswered": 0}, late: {"queries": 300, "answered": 0, "unanswered": 300, "late": 300}})


def test_a_share_above_the_limit_is_the_same_in_all_views(watch, lab, run) -> None:
    server = lab.serve(92)
    one = watch(f"{{budgets: [{{server: {server}, pending: 100}}]}}")
    limit = f"dns/{server}/pending"
    with lab.udp() as client:
        for i in range(163):
            client.send(server, f"late-4500.host-{i}.test")
        until(lambda: one.limit(limit)["used"] == 163, "all are pending")
        status = run("status", env={"HEADROOM_RUNTIME_DIR": str(one.directory / "run")}).stdout
        page = one.get("/")[1]
        views_agree(one, run, {server: {"queries": 163, "pending": 163}})
    assert re.search(rf"{limit} +163 of 100 queries  163 %", status), status
    assert re.search(rf'>{limit}</a></th><td class="num critical">163 %</td>', page), page
    # A second poll within a second counts no second over the budget yet.
    until(lambda: "163 of 100" in one.condition("DNSBudgetExceeded")["message"], lambda: one.status()["findings"])


def test_a_counter_never_goes_back_or_to_another_server(watch, lab, run) -> None:
    """More servers than rows, and one of them becomes busy. The series that ends for it does not become a part of another."""
    truth: dict[str, int] = {}
    one = watch()
    seen: dict[str, float] = {}
    others: list[float] = []

    def look() -> Scrape:
        scrape = Scrape(one)
        for name, value in scrape.metrics.items():
            if not name.startswith("headroom_dns_queries_total{"):
                continue
            assert value >= seen.get(name, 0), name
            seen[name] = value
            server = name.split('server="')[1].split('"')[0]
            if server == "other":
                others.append(value)
            assert server not in truth or value <= truth[server], name
        return scrape

    with lab.udp() as client:
        for i in range(25):
            server = V4.format(100 + i)
            truth[server] = 40 + i
            for _ in range(truth[server]):
                client.send(server, "drop.example.test")
        settle(one, lambda now: sum(sum(row["queries"].values()) for row in now.document["servers"]) >= sum(truth.values()), "all")
        look()
        before = dict(seen)
        busy = V4.format(150)
        truth[busy] = 0
        for _ in range(10):
            truth[busy] += 50
            for _ in range(50):
                client.send(busy, "drop.example.test")
            look()
            time.sleep(0.15)
        scrape = settle(one, lambda now: sum(now.row(busy).get("queries", {}).values()) + now.total("queries_total", server="other") >= truth[busy] + others[0], "all of the busy server")
    look()
    # Its first queries are in the rest, which rises by nothing else.
    assert sum(scrape.row(busy)["queries"].values()) + others[-1] == truth[busy] + others[0]
    ended = [name for name in before if name not in scrape.metrics]
    assert len(ended) == 1
    sent = {row["server"]: sum(row["queries"].values()) for row in scrape.document["servers"]}
    views_agree(one, run, {server: {"queries": count} for server, count in truth.items() if sent.get(server) == count})
    assert sum(sent.values()) == sum(truth.values()) - before[ended[0]]


def test_messages_behind_one_without_a_question_count(watch, lab, run) -> None:
    """A cookie (RFC 7873), a keepalive of RFC 8490, and an empty message."""
    server = lab.serve(83)
    cookie = struct.pack("!6H", 1, 0, 0, 0, 0, 1) + b"\0" + struct.pack("!HHIHHH", 41, 1232, 0, 12, 10, 8) + bytes(8)
    dso = struct.pack("!6H", 0, 6 << 11, 0, 0, 0, 0) + struct.pack("!HHII", 1, 8, 15000, 15000)
    one = watch()
    with lab.tcp(server) as stream:
        stream.socket.sendall(framed(cookie, dso, *[query(f"ok-{i}.example.test", 100 + i) for i in range(99)]))
        for _ in range(99):
            stream.receive()
    scrape = settle(one, lambda now: now.row(server).get("answered") == 99, "99 answers")
    assert scrape.document["lost"]["streams"] == 0
    # Only the cookie waits for an answer.
    views_agree(one, run, {server: {"queries": 101, "answered": 99, "pending": 1}})


def test_many_streams_whose_length_comes_apart_are_counted(watch, lab, run) -> None:
    server, truth = lab.serve(84), 2500
    one = watch()
    with contextlib.ExitStack() as stack:
        streams = []
        for i in range(truth):
            streams.append(stack.enter_context(lab.tcp(server)))
        for part in (slice(0, 2), slice(2, None)):
            for i, stream in enumerate(streams):
                stream.socket.sendall(framed(query(f"ok-{i}.example.test", i))[part])
        for stream in streams:
            stream.receive()
    settle(one, lambda now: now.row(server).get("answered", 0) >= truth, "all answers", 8)
    views_agree(one, run, {server: {"queries": truth, "answered": truth, "unanswered": 0}})


@contextlib.contextmanager
def pods(lab: Lab, count: int) -> Iterator[list[str]]:
    """Namespaces with a route to the servers."""
    names = [f"hr-dns-pod{i}-{os.getpid()}" for i in range(count)]
    try:
        for i, name in enumerate(names):
            ip("netns", "add", name)
            ip("link", "add", "eth0", "netns", name, "type", "veth", "peer", "name", f"pod{i}", "netns", SERVER)
            ip("-n", name, "addr", "add", f"10.59.{i}.2/24", "dev", "eth0")
            ip("-n", SERVER, "addr", "add", f"10.59.{i}.1/24", "dev", f"pod{i}")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", SERVER, "link", "set", f"pod{i}", "up")
            ip("-n", name, "route", "add", "10.54.0.0/16", "via", f"10.59.{i}.1")
        yield names
    finally:
        for name in names:
            ip("netns", "del", name, check=False)


def test_pods_with_the_same_port_id_and_question_are_told_apart(watch, lab, run) -> None:
    server = lab.serve(85)
    one = watch()
    with pods(lab, 4) as names, contextlib.ExitStack() as stack:
        sockets = []
        for name in names:
            s = stack.enter_context(lab.raw(name, socket.AF_INET, socket.SOCK_DGRAM, group=lab.cgroup(pod_path()[0])))
            s.bind(("", 33333))
            sockets.append(s)
        for number in range(50):
            for s in sockets:
                s.sendto(query("late-20.example.test", number), (server, 53))
        for s in sockets:
            for _ in range(50):
                s.recv(512)
    scrape = settle(one, lambda now: now.total("responses_total", server=server) >= 200, "200 answers")
    views_agree(one, run, {server: {"queries": 200, "answered": 200, "retransmissions": 0, "late": 0, "pending": 0}})
    assert [user["queries"] for user in scrape.row(server)["top"]] == [50] * 4


def test_an_answer_of_another_address_is_no_answer(watch, lab, run) -> None:
    server, other = V4.format(86), V4.format(87)
    asked, forger = lab.raw(SERVER, socket.AF_INET, socket.SOCK_DGRAM), lab.raw(SERVER, socket.AF_INET, socket.SOCK_DGRAM)
    one = watch()
    with lab.udp() as client, contextlib.closing(asked), contextlib.closing(forger):
        asked.bind((server, 53))
        forger.bind((other, 53))
        for number in range(20):
            client.send(server, "ok.example.test", number=number)
            message, address = asked.recvfrom(512)
            forger.sendto(answer(message, 0), address)
            client.receive()
            if number < 10:
                asked.sendto(answer(message, 3), address)
                client.receive()
        scrape = settle(one, lambda now: now.row(server).get("answered"), "the answers")
        views_agree(one, run, {server: {"queries": 20, "answered": 10, "pending": 10}})
    row = scrape.row(server)
    assert (row["responses"]["NXDOMAIN"], row["responses"]["NOERROR"]) == (10, 0)
    assert scrape.document["lost"]["unmatched"] >= 20


def test_a_zone_transfer_is_one_answer(watch, lab, run) -> None:
    """Each message repeats the question."""
    server, count = V4.format(88), 200
    listener = lab.raw(SERVER, socket.AF_INET, socket.SOCK_STREAM)
    listener.bind((server, 53))
    listener.listen()
    one = watch()
    with contextlib.closing(listener), lab.tcp(server) as stream:
        peer, _ = listener.accept()
        stream.send(server, "ok.example.test", kind=252, number=5)
        message = peer.recv(512)[2:]
        peer.sendall(framed(answer(message, 0)) * count)
        for _ in range(count):
            stream.receive()
        stream.send(server, "ok.example.test", number=6)
        peer.sendall(framed(answer(peer.recv(512)[2:], 3)))
        stream.receive()
        scrape = settle(one, lambda now: now.row(server).get("answered") == 2, "two answers")
        peer.close()
    row = scrape.row(server)
    assert (row["responses"]["NOERROR"], row["responses"]["NXDOMAIN"]) == (1, 1)
    views_agree(one, run, {server: {"queries": 2, "answered": 2, "late": 0}})


def test_a_server_cannot_choose_the_work_of_the_programs(watch, lab, run) -> None:
    """It sends 8 MiB of messages that nobody asked for, and then the answer."""
    server = V4.format(89)
    listener = lab.raw(SERVER, socket.AF_INET, socket.SOCK_STREAM)
    listener.bind((server, 53))
    listener.listen()
    junk = framed(struct.pack("!6H", 1, QR, 0, 0, 0, 0), struct.pack("!6H", 2, QR, 1, 0, 0, 0) + b"\1a" * 126 + b"\0\0\1\0\1")
    one = watch()
    with contextlib.closing(listener), lab.tcp(server) as stream:
        peer, _ = listener.accept()
        stream.send(server, "ok.example.test", number=5)
        message = peer.recv(512)[2:]
        data = junk * ((8 << 20) // len(junk))
        sender = threading.Thread(target=peer.sendall, args=(data,))
        sender.start()
        left = len(data)
        while left:
            left -= len(stream.socket.recv(1 << 20))
        sender.join()
        peer.sendall(framed(answer(message, 0)))
        stream.receive()
        scrape = settle(one, lambda now: settled(now, server, 1), "the query is not pending", 9)
        peer.close()
    row = scrape.row(server)
    assert scrape.document["lost"]["uninspected"] > 10
    # The answer may be lost in the rest of the stream.
    assert sum(row["responses"].values()) <= 1 and row["unanswered"] == 0
    assert row["answered"] + row["unknown"] == 1
    views_agree(one, run, {server: {"queries": 1, "unanswered": 0}})


def test_queries_with_many_ipv6_headers_are_counted_or_reported(watch, lab, run) -> None:
    server = V6.format("90")
    lab.server(server)
    one = watch()
    with contextlib.closing(lab.raw(CLIENT, socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_RAW)) as s:
        for headers in (9, 30):
            body = struct.pack("!HHHH", 40000, 53, 8 + 33, 0) + query("ok.example.test", 7)
            chain = b"".join(bytes([60 if i + 1 < headers else 17, 0, 1, 4, 0, 0, 0, 0]) for i in range(headers))
            size = len(chain) + len(body)
            source, there = socket.inet_pton(socket.AF_INET6, "fd00:53::1"), socket.inet_pton(socket.AF_INET6, server)
            s.sendto(struct.pack("!IHBB", 6 << 28, size, 60, 64) + source + there + chain + body, (server, 0))
    scrape = settle(one, lambda now: now.row(server), "the server")
    assert scrape.document["lost"]["uninspected"] == 1
    views_agree(one, run, {server: {"queries": 1, "answered": 0}})


def test_the_tuner_counts_again_after_it_was_off(watch, lab, run) -> None:
    server = lab.serve(91)
    one = watch()
    with lab.udp() as client:
        client.ask(server, count=3)
        settle(one, lambda now: now.row(server).get("answered") == 3, "three answers")
        one.write_config(f"{QUIET}dns: {{mode: off}}\n")
        one.reload()
        until(lambda: one.tuner("dns")["state"] == "off", "it is off")
        client.ask(server, count=3)
        one.write_config(f"{QUIET}dns: {{}}\n")
        one.reload()
        until(lambda: one.tuner("dns")["state"] == "active" and one.status()["dns"], lambda: one.tuner("dns")["why"])
        client.ask(server, count=4)
        scrape = settle(one, lambda now: now.row(server).get("answered", 0) >= 4, "four answers")
    sent = scrape.row(server)["queries"]["udp"]
    assert sent in (4, 7), "the queries in between are not counted"
    views_agree(one, run, {server: {"queries": sent, "answered": sent}})
