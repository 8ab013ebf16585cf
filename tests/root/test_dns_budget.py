# SPDX-License-Identifier: Apache-2.0
"""Budgets of upstream servers and their conditions; the busiest second, wherever it begins."""

import math
import re
import socket
import time
from typing import Any, Iterator

import pytest
from conftest import Agent, Run, mounted, temporary, until
from dnslab import V4, Scrape, fixture_lab, fixture_network, fixture_watch, settle, watching  # noqa: F401


def budgets(**limits: dict[str, int]) -> str:
    """server address -> budget, as configuration."""
    rows = [f"{{server: {server}, " + ", ".join(f"{k}: {v}" for k, v in of.items()) + "}" for server, of in limits.items()]
    return "{budgets: [" + ", ".join(rows) + "]}"


def seconds_above(scrape: Scrape, server: str, least: int) -> float:
    """The number of seconds in the histogram's buckets above least."""
    found = {}
    for series, value in scrape.metrics.items():
        if series.startswith("headroom_dns_second_queries_bucket{") and f'server="{server}"' in series:
            found[float(re.search(r'le="([^"]+)"', series)[1])] = value  # type: ignore[index]
    return found[math.inf] - found[max(bound for bound in found if bound <= least)]


BURSTS = {V4.format(21 + i): i / 4 for i in range(4)}  # server -> phase of the second at which the burst begins
NEAR, SILENT = V4.format(25), V4.format(28)


@pytest.fixture(scope="module", name="one")
def fixture_one(network) -> Iterator[Agent]:  # noqa: ARG001
    """One agent for most tests of this file. Each test uses other servers."""
    limits = {server: {"qps": 1024} for server in BURSTS} | {NEAR: {"qps": 200}}
    with temporary() as directory, watching(directory) as start:
        yield start(budgets(**limits))


@pytest.mark.slow
def test_a_burst_is_seen_wherever_its_second_begins(one, lab) -> None:
    for name in ("DNSBudgetPressure", "DNSBudgetExceeded", "DNSUnanswered"):
        assert one.condition(name)["status"] == "False"
    lab.server(*BURSTS)
    clients = {server: lab.udp() for server in BURSTS}
    for server, client in clients.items():
        client.ask(server)
    time.sleep(1.2)
    begin = math.ceil(time.time()) + 0.2
    for i, (server, phase) in enumerate(BURSTS.items()):
        clients[server].burst(server, 1500, begin + 2 * i + phase, 0.9)
    scrape = settle(one, lambda now: all(now.total("peak_queries_per_second", server=s) > 1400 for s in BURSTS), "peaks")
    exceeded = one.wait_condition("DNSBudgetExceeded")
    assert any(server in exceeded["message"] for server in BURSTS)
    time.sleep(2)
    scrape = Scrape(one)
    for server in BURSTS:
        assert scrape.total("queries_total", server=server) == 1501
        assert 1470 <= scrape.total("peak_queries_per_second", server=server) <= 1530
        # Each second of the clock observes the busiest window that ended in it, so the burst counts once or twice.
        assert seconds_above(scrape, server, 1024) in (1, 2)
        assert scrape.total("second_queries_sum", server=server) >= 1470
        assert scrape.total("over_budget_seconds_total", server=server) in (1, 2)
        assert scrape.total("budget_queries_per_second", server=server) == 1024
        has = one.limit(f"dns/{server}")
        assert (has["max"], has["unit"], has["used"]) == (1024, "queries/s", 0)
        assert 1470 <= has["peak"] <= 1530 and has["hits"] in (1, 2)
        row = scrape.row(server)
        assert row["budget"]["qps"] == 1024 and row["over_budget_seconds"] == has["hits"]
    for client in clients.values():
        client.socket.close()


def test_pressure_is_reported_before_the_limit(one, lab, directory) -> None:
    lab.unbound(directory, NEAR)
    lab.dnsperf(directory, NEAR, "-Q", "180", "-l", "3", "-c", "1")
    scrape = settle(one, lambda now: now.total("peak_queries_per_second", server=NEAR) >= 170, "a peak")
    assert scrape.total("over_budget_seconds_total", server=NEAR) == 0 and one.limit(f"dns/{NEAR}")["hits"] == 0
    one.wait_condition("DNSBudgetPressure")
    # The message names the three worst servers, and those of other tests are worse.
    assert Scrape(one).row(NEAR)["condition"] == "DNSBudgetPressure"
    assert NEAR not in one.condition("DNSBudgetExceeded")["message"]
    perf = lab.dnsperf(directory, NEAR, "-Q", "300", "-l", "3", "-c", "1")
    scrape = settle(one, lambda now: now.row(NEAR)["queries_per_second"] == 0, "quiet")
    assert perf.sent >= 890
    assert 2 <= scrape.total("over_budget_seconds_total", server=NEAR) <= 4
    assert one.limit(f"dns/{NEAR}")["hits"] == scrape.total("over_budget_seconds_total", server=NEAR)


def test_unanswered_queries_are_reported(one, lab) -> None:
    lab.server(SILENT)
    with lab.udp() as client:
        for i in range(60):
            client.send(SILENT, f"drop-{i}.example.test")
        until(lambda: SILENT in one.condition("DNSUnanswered")["message"], "the silent server is named")
        condition = one.condition("DNSUnanswered")
        assert condition["status"] == "True" and NEAR not in condition["message"]
    scrape = Scrape(one)
    assert scrape.total("unanswered_total", server=SILENT) == 60 and scrape.total("pending") == 0


def test_packets_over_the_budget_are_reported(watch, lab) -> None:
    """A query over TCP costs several packets. Some clouds count each packet."""
    server = lab.serve(26)
    one = watch(budgets(**{server: {"pps": 60}}))
    for _ in range(40):
        with lab.tcp(server) as stream:
            stream.ask(server)
    settle(one, lambda now: now.total("queries_total", server=server) >= 40, "all queries are counted")
    scrape = settle(one, lambda now: now.total("over_budget_seconds_total", server=server) >= 1, "seconds over the budget")
    row = scrape.row(server)
    assert row["queries"]["tcp"] == 40 and row["peak_packets"] >= 160 > 60 and row["budget"]["pps"] == 60
    assert server in one.wait_condition("DNSBudgetExceeded")["message"]


def test_pending_queries_over_the_budget_are_reported(watch, lab) -> None:
    server = lab.serve(27)
    one = watch(budgets(**{server: {"pending": 20}}).replace("{", "{mode: enforce, ", 1))
    with lab.udp() as client:
        for i in range(40):
            client.send(server, f"late-{3000 + i}.example.test")
        assert server in one.wait_condition("DNSBudgetExceeded")["message"]
        assert one.condition("DNSUnanswered")["status"] == "False"
        assert server in one.wait_incident(f"dns/{server}@server:{server}")["text"]
        scrape = settle(one, lambda now: now.total("pending") == 0, "nothing is pending")
    assert scrape.total("unanswered_total") == 0


def test_the_clouds_budgets_are_known(watch, lab, run: Run) -> None:
    azure, aws, metadata = "168.63.129.16", "169.254.169.253", "169.254.169.254"
    with lab.more_addresses(azure, aws, metadata):
        lab.server(azure, aws)
        one = watch()
        with lab.udp() as client:
            for server in (azure, aws):
                client.ask(server)
            settle(one, lambda now: now.row(azure) and now.row(aws), "both servers")
            time.sleep(1.2)
            # The cloud counts these packets in the same budget.
            for _ in range(1200):
                client.socket.sendto(b"what time is it", (metadata, 123))
            client.ask(aws, "ok.example.test")
        message = one.wait_condition("DNSBudgetExceeded")["message"]
        assert aws in message and azure not in message
    scrape = Scrape(one)
    assert scrape.row(azure)["budget"] == {"qps": 1000, "pps": 0, "pending": 200, "source": "azure"}
    # A narrow space separates thousands.
    assert re.search(r"<td class=.num.[^>]*>1\W?000 queries/s, 200 pending</td>", one.get("/")[1])
    assert scrape.row(aws)["budget"]["pps"] == 1024 and scrape.row(aws)["budget"]["source"] == "aws"
    has = one.limit(f"dns/{azure}")
    assert (has["max"], has["unit"]) == (1000, "queries/s")
    has = one.limit(f"dns/{aws}")
    assert (has["max"], has["unit"]) == (1024, "packets/s") and 1200 <= has["peak"] <= 1204 and has["hits"] in (1, 2)
    assert scrape.total("queries_total", server=aws) == 2
    assert "https://" in run("explain", f"dns/{azure}").stdout + run("explain", "budget/azure").stdout


@pytest.mark.parametrize("family", [4, 6])
def test_link_local_services_beside_dns_have_clients(watch, lab, run: Run, family: int) -> None:
    resolver, metadata, clock, other = (
        ("169.254.169.253", "169.254.169.254", "169.254.169.123", "169.254.169.250")
        if family == 4
        else ("fd00:ec2::253", "fd00:ec2::254", "fd00:ec2::123", "fd00:ec2::250")
    )
    kind = socket.AF_INET if family == 4 else socket.AF_INET6

    def services() -> dict[str, dict[str, Any]]:
        return {row["service"]: row for row in one.status()["dns"]["services"]}

    with lab.more_addresses(resolver, metadata, clock, other):
        lab.server(resolver)
        one = watch()
        assert services() == {} and "metadata" not in run("top", "dns").stdout, "nothing is watched on other nodes"
        with lab.udp(lab.cgroup("lxc.payload.asks"), kind) as asks, lab.udp(lab.cgroup("lxc.payload.reads"), kind) as reads:
            asks.ask(resolver)
            until(lambda: set(services()) == {"metadata", "time"}, "AWS is known by its resolver")
            for address, client, n in ((metadata, reads, 300), (metadata, asks, 20), (clock, asks, 7), (other, reads, 50)):
                for _ in range(n):
                    client.socket.sendto(b"x", (address, 80))
            rows = until(lambda: (now := services())["time"]["packets"] == 7 and now, lambda: str(services()))
    assert rows["metadata"]["packets"] == 320 and 300 <= rows["metadata"]["peak_packets"] <= 320
    assert {user["workload"]["name"]: user["packets"] for user in rows["metadata"]["top"]} == {"reads": 300, "asks": 20}
    assert {user["workload"]["name"]: user["packets"] for user in rows["time"]["top"]} == {"asks": 7}
    out = run("top", "dns").stdout
    assert re.search(r"^ +metadata .* 320$", out, re.M) and re.search(r" 300 in all +lxd reads$", out, re.M), out
    assert re.search(r"^ +time .* 7$", out, re.M), out
    metrics = one.metrics()
    assert metrics['headroom_dns_service_packets_total{service="metadata"}'] == 320
    assert metrics['headroom_dns_service_packets_total{service="time"}'] == 7


@pytest.mark.slow
def test_a_resolver_keeps_its_budget_after_the_node_moved_to_another(watch, lab, directory) -> None:
    """Pods keep the resolv.conf that they started with."""
    old, new = lab.serve(34, 50)  # like the base of a VPC plus two
    resolv_conf = directory / "resolv.conf"
    resolv_conf.write_text(f"nameserver {old}\n")
    one = watch(
        wrap=mounted(
            f"mount --bind {resolv_conf} /etc/resolv.conf\n"
            f"resolved=/run/systemd/resolve/resolv.conf\n"
            f'[ ! -e "$resolved" ] || mount --bind {resolv_conf} "$resolved"\n'
            "mount -t tmpfs none /sys/class && mkdir -p /sys/class/dmi/id && echo 'Amazon EC2' >/sys/class/dmi/id/sys_vendor"
        )
    )
    assert Scrape(one).row(old)["budget"]["pps"] == 1024
    resolv_conf.write_text(f"nameserver {new}\n")
    with lab.udp() as client:
        client.ask(new)
        settle(one, lambda now: now.row(new).get("budget"), "the new resolv.conf is read", timeout=15)
        for _ in range(1100):
            client.send(old, "ok.example.test")
        message = one.wait_condition("DNSBudgetExceeded")["message"]
    assert old in message
    assert one.limit(f"dns/{old}")["hits"] in (1, 2)


def test_a_burst_is_counted_for_its_sender_whenever_the_agent_polls(watch, lab) -> None:
    """A poll in the middle of a burst divides it into two readings."""
    servers = lab.serve(*range(36, 46))
    one = watch(budgets(**{server: {"qps": 1000} for server in servers}))
    with lab.udp() as client:
        for server in servers:
            for _ in range(1100):
                client.send(server, "ok.example.test")
            time.sleep(0.07)
    scrape = settle(one, lambda now: all(now.row(server)["top"] for server in servers), "the bursts have a sender")
    for server in servers:
        assert [user["in_second"] for user in scrape.row(server)["top"]] == [pytest.approx(1100, abs=1)], server
    for event in one.status()["events"]:
        if "DNSBudgetExceeded" in event["text"]:
            assert re.search(r"; .+ 1\d\d\d \(", event["text"]), event
