# SPDX-License-Identifier: Apache-2.0
"""Floods, garbage, a killed agent and nodes without the prerequisites: DNS keeps working, and lost counts are reported."""

import contextlib
import os
import random
import socket
import time

import pytest
from conftest import NO_BPF, mounted, until
from dnslab import CLIENT, V4, Scrape, cgroup_root, fixture_lab, fixture_network, fixture_watch, pod_path, settle  # noqa: F401
from dnswire import query
from passing import Passing, attached

SERVERS, CGROUPS = 10_000, 5_000


def memory(pid: int) -> int:
    """Private dirty bytes. Clean pages of the program are private or shared depending on other agents."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("Private_Dirty")) * 1024


@pytest.mark.slow
def test_ten_thousand_servers_are_summed_in_bounded_memory(watch, lab) -> None:
    one = watch()
    good = lab.serve(41)
    with lab.udp() as client:
        client.ask(good)
        settle(one, lambda now: now.total("responses_total") == 1, "the first answer")
        before = memory(one.pid)
        for i in range(SERVERS):
            client.send(f"10.54.{100 + (i >> 8)}.{i & 255}", f"drop-{i}.example.test", number=random.randrange(65536))
        client.ask(good, count=100)

    def reported(now: Scrape) -> float:
        return now.total("queries_total") + now.total("queries_total", server="other")

    scrape = settle(one, lambda now: reported(now) >= SERVERS + 101, "all queries")
    assert reported(scrape) < SERVERS + 200, "other contains a few queries of the machine itself"
    assert scrape.total("queries_total", server=good) == 101
    assert scrape.total("queries_total", server="other") > 8000
    assert scrape.document["lost"]["servers"] > 0
    assert len(scrape.metrics) <= 2000 and len(scrape.document["servers"]) <= 21
    assert memory(one.pid) - before < 8 << 20
    settle(one, lambda now: now.total("pending") + now.total("pending", server="other") == 0, "nothing is pending", 12)
    assert len([line for line in one.log.splitlines() if "dns" in line.lower()]) <= 10, one.log
    assert one.get("/livez")[0] == 200


@pytest.mark.slow
def test_five_thousand_cgroups_are_summed_in_bounded_memory(watch, lab) -> None:
    """Each cgroup sends one query and ends."""
    one = watch()
    server = lab.serve(42)
    before = memory(one.pid)
    base = f"kubepods/besteffort/{os.path.basename(pod_path()[0])}"
    for i in range(CGROUPS):
        group = lab.cgroup(f"{base}/{i}")
        s = lab.raw(CLIENT, socket.AF_INET, socket.SOCK_DGRAM, group=group)
        s.sendto(query("ok.example.test", i & 0xFFFF), (server, 53))
        s.close()
        if i % 500 == 499:
            time.sleep(0.1)
    scrape = settle(one, lambda now: now.total("queries_total", server=server) >= CGROUPS, "all queries")
    row = scrape.row(server)
    assert sum(user["queries"] for user in row["top"]) + row["other"]["queries"] == CGROUPS
    assert len(row["top"]) <= 20 and len(scrape.metrics) <= 2000
    assert memory(one.pid) - before < 8 << 20
    lab.end()
    time.sleep(2)
    assert one.get("/livez")[0] == 200


def test_garbage_passes_and_is_counted(watch, lab) -> None:
    """Each packet to port 53 is counted as malformed or as a query."""
    one = watch()
    server = lab.serve(43)
    noise = random.Random(53)
    valid = query("ok.example.test", 1)
    sent = 0
    with lab.udp() as client, lab.tcp(server) as stream:
        for i in range(5000):
            if i % 3 == 0:
                message = bytearray(valid)
                for _ in range(1 + i % 7):
                    message[noise.randrange(len(message))] = noise.randrange(256)
                message[2] &= 0x7F
            else:
                message = bytearray(noise.randbytes(noise.randrange(0, 1400)))
                if len(message) > 2:
                    message[2] &= 0x7F
            client.socket.sendto(message, ("10.54.0.200", 53))
            sent += 1
        stream.socket.sendall(noise.randbytes(60_000))
        client.ask(server)
    scrape = settle(one, lambda now: now.total("responses_total", server=server) >= 1, "an answer")
    row = scrape.row("10.54.0.200")
    assert sum(row["queries"].values()) + row["malformed"] >= sent
    assert row["malformed"] > 1000
    assert one.get("/livez")[0] == 200


@pytest.mark.quick
def test_a_killed_agent_leaves_dns_working(watch, lab, directory) -> None:
    server = V4.format(44)
    lab.unbound(directory, server)
    root = cgroup_root()
    with contextlib.closing(Passing(root)):
        before = attached(root)
        one = watch()
        mine = set(attached(root)) - set(before)
        assert len(mine) >= 2
        perf = lab.dnsperf_start(directory, server, "-Q", "5000", "-l", "2")
        time.sleep(1)
        one.kill()
        until(lambda: not mine & set(attached(root)), "the agent's programs are detached")
        perf.result()
        assert perf.sent == perf.completed
        assert "passing" in attached(root).values()


def test_a_restarted_agent_counts_from_zero(watch, lab) -> None:
    server = lab.serve(46)
    for _ in range(2):
        one = watch()
        with lab.udp() as client:
            client.ask(server, count=10)
        settle(one, lambda now: now.total("queries_total", server=server) == 10, "exactly ten queries")
        one.stop()


@pytest.mark.quick
@pytest.mark.parametrize(
    "wrap, why",
    [
        (NO_BPF, "CAP_BPF"),
        (mounted('umount -l "$(findmnt -n -o TARGET -t cgroup2 | head -1)"'), "cgroup2"),
    ],
    ids=["no-CAP_BPF", "no-cgroup2"],
)
def test_missing_prerequisites_are_named(watch, lab, run, wrap: tuple[str, ...], why: str) -> None:
    one = watch(wrap=wrap)
    tuner = one.tuner("dns")
    assert tuner["state"] == "degraded" and why in tuner["why"]
    assert why in one.condition("AgentDegraded")["message"]
    assert one.condition("DNSBudgetExceeded")["status"] == "Unknown"
    assert one.status()["dns"] is None
    assert one.get("/readyz")[0] == 200 and one.get("/livez")[0] == 200
    assert not [series for series in one.metrics() if series.startswith("headroom_dns_")]
    assert why in run("top", "dns").stdout


def test_a_containers_cgroup_root_is_not_mistaken_for_the_hosts(watch, lab) -> None:
    """In a cgroup namespace, a new mount shows the container's cgroup as the root."""
    group = lab.cgroup("hrdns-container")
    script = (
        f'echo 0 >{group.path}/cgroup.procs && exec unshare -C -m sh -c \'umount -l "$0" && mount -t cgroup2 none "$0" '
        f'&& exec "$@"\' {group.root} "$@"'
    )
    one = watch(wrap=("sh", "-c", script, "sh"))
    tuner = one.tuner("dns")
    assert tuner["state"] == "degraded" and "root" in tuner["why"], tuner
    assert one.get("/readyz")[0] == 200
