# SPDX-License-Identifier: Apache-2.0
"""Workloads, roles of servers, and the privacy of names."""

import json
import time
from typing import Any

import pytest
from conftest import Agent, Run, until
from dnslab import CLIENT, V4, Cgroup, Lab, fixture_lab, fixture_network, fixture_watch, pod_path, settle  # noqa: F401
from dnswire import AAAA


def asks(lab: Lab, server: str, count: int, group: Cgroup | None, name: str = "ok.example.test", **more: Any) -> None:
    with lab.udp(group, **more) as client:
        client.ask(server, name, count=count)


@pytest.mark.quick
def test_workloads_are_named(watch, lab) -> None:
    server = lab.serve(31)
    plain, guaranteed, systemd, ended = pod_path(), pod_path(), pod_path(systemd=True), pod_path()
    paths = {
        plain[1]: plain[0],
        guaranteed[1]: guaranteed[0].replace("burstable/", ""),
        systemd[1]: systemd[0],
        "hrdns-box": "lxc.payload.hrdns-box",
        "hrdns-test.service": "system.slice/hrdns-test.service",
    }
    one = watch()
    for i, path in enumerate(paths.values()):
        asks(lab, server, 20 + i, lab.cgroup(path))
    # A pod that ends before the agent has read its queries.
    paths[ended[1]] = ended[0]
    group = Cgroup(ended[0])
    asks(lab, server, 25, group)
    group.remove()
    asks(lab, server, 40, None)

    def named(top: list[dict[str, Any]], name: str) -> list[tuple[str, int]]:
        mine = [user for user in top if name in (user["workload"]["name"], user["workload"]["id"])]
        return [(user["workload"]["kind"], user["queries"]) for user in mine]

    kinds = [("pod", 20), ("pod", 21), ("pod", 22), ("lxd", 23), ("unit", 24), ("pod", 25)]
    settle(one, lambda now: now.total("queries_total", server=server) == 40 + sum(range(20, 26)), "all queries", 12)
    scrape = settle(
        one, lambda now: [named(now.row(server).get("top", []), name) for name in paths] == [[kind] for kind in kinds], "named", 12
    )
    top = scrape.row(server)["top"]
    # A process in the root cgroup is known by its address.
    assert top[0]["queries"] == 40 and "10.53.0.1" in str(top[0]["workload"])
    assert sum(user["queries"] for user in top) + scrape.row(server)["other"]["queries"] == 40 + sum(range(20, 26))
    metric = {k: v for k, v in scrape.metrics.items() if k.startswith("headroom_limit_used_by_workload") and "dns/" in k}
    assert len(metric) <= 11


def test_many_workloads_are_summed(watch, lab) -> None:
    server = lab.serve(32)
    one = watch()
    groups = [lab.cgroup(pod_path()[0]) for _ in range(30)]
    for i, group in enumerate(groups):
        asks(lab, server, 1 + i, group)
    scrape = settle(one, lambda now: now.total("queries_total", server=server) == sum(range(1, 31)), "all queries")
    row = scrape.row(server)
    listed = [user["queries"] for user in row["top"]]
    assert listed == list(range(30, 30 - len(listed), -1)) and 10 <= len(listed) <= 20
    assert row["other"]["queries"] == sum(range(1, 31)) - sum(listed)
    # A workload that has ended stays in the sum.
    lab.end()
    time.sleep(2)
    row = settle(one, lambda now: now.row(server), "the server").row(server)
    assert sum(user["queries"] for user in row["top"]) + row["other"]["queries"] == sum(range(1, 31))


def test_roles_belong_to_servers(watch, lab) -> None:
    upstream, listed, answering, denying = (V4.format(i) for i in (33, 34, 35, 36))
    node_cache = "169.254.20.10"
    lab.server(upstream, listed, answering, denying)
    lab.run(CLIENT, "ip", "addr", "add", f"{node_cache}/32", "dev", "lo")
    try:
        lab.dnsmasq(CLIENT, "127.0.0.53", upstream)
        lab.dnsmasq(CLIENT, node_cache, upstream)
        # The agent's network namespace has the node's addresses.
        one = watch(f"{{cluster_servers: [{listed}]}}", wrap=("nsenter", f"--net=/run/netns/{CLIENT}"))
        asks(lab, "127.0.0.53", 5, None)
        asks(lab, node_cache, 6, None)
        asks(lab, listed, 7, None)
        asks(lab, answering, 8, None, "ok.default.svc.cluster.local")
        asks(lab, denying, 9, None, "nx.default.svc.cluster.local")
        scrape = settle(one, lambda now: now.total("responses_total") >= 35, "35 answers")
    finally:
        lab.run(CLIENT, "ip", "addr", "del", f"{node_cache}/32", "dev", "lo")
    roles = {row["server"]: row["role"] for row in scrape.document["servers"]}
    assert {roles[name] for name in ("127.0.0.53", node_cache)} == {"local"}
    assert {roles[name] for name in (listed, answering)} == {"cluster"}
    assert {roles[name] for name in (upstream, denying)} == {"upstream"}
    assert scrape.total("queries_total", role="local", server="127.0.0.53") == 5
    assert scrape.total("queries_total", role="local", server=node_cache) == 6
    assert scrape.total("queries_total", role="upstream", server=upstream) == 11, "forwarded queries count once"
    assert scrape.total("queries_total", server=answering, role="cluster") == 8
    assert {name for name in (one["name"] for one in one.status()["limits"]) if name.startswith("dns/")} == set()


def test_failed_expansions_are_counted_by_role(watch, lab) -> None:
    cluster, upstream = V4.format(37), V4.format(38)
    lab.server(cluster, upstream)
    one = watch(f"{{cluster_servers: [{cluster}], cluster_domains: [Cluster.Local, k8s.test]}}")
    with lab.udp() as client:
        for suffix in ("default.svc.cluster.local", "svc.CLUSTER.local", "cluster.local", "svc.k8s.test"):
            for kind in (1, AAAA):
                client.ask(cluster, f"nx-1.example.org.{suffix}", kind)
        client.ask(cluster, "nx-1.notcluster.local")
        client.ask(cluster, "nx-1.example.org")
        client.ask(cluster, "ok-1.default.svc.cluster.local")
        client.ask(upstream, "nx-2.default.svc.cluster.local")
    scrape = settle(one, lambda now: now.total("search_expansions_total") >= 9, "nine expansions")
    assert scrape.total("search_expansions_total", role="cluster") == 8
    assert scrape.total("search_expansions_total", role="upstream") == 1
    expansions = {row["role"]: row for row in scrape.document["expansions"]}
    assert expansions["cluster"]["failed"] == 8


SECRET = "ok-secret.example.test"


def sampled(agent: Agent, lab: Lab, server: str, seconds: float) -> list[dict[str, Any]]:
    """Queries the name until it is shown over the unix socket, or until the time is over."""
    deadline = time.monotonic() + seconds
    with lab.udp() as client:
        while time.monotonic() < deadline:
            client.ask(server, SECRET, count=20)
            row = next((r for r in agent.status()["dns"]["servers"] if r["server"] == server), {})
            if row.get("names"):
                return row["names"]
            time.sleep(0.1)
    return []


@pytest.mark.quick
def test_names_are_shown_over_the_unix_socket_only(watch, lab, run: Run) -> None:
    server, one = lab.serve(39), watch()
    shown = sampled(one, lab, server, 10)
    assert [(entry["name"], entry["type"]) for entry in shown] == [(SECRET, "A")]
    assert shown[0]["share"] == 1 and shown[0]["samples"] >= 1
    for path in ("/v1/status", "/metrics", "/", "/health", "/readyz?verbose"):
        assert "secret" not in one.get(path, unix=False)[1], path
    assert all("names" not in row for row in json.loads(one.get("/v1/status", unix=False)[1])["dns"]["servers"])
    assert "secret" not in one.get("/metrics")[1] + one.log
    top = run("top", "dns").stdout
    assert SECRET in top and server in top and "upstream" in top


def test_names_are_never_recorded_in_incidents(watch, lab) -> None:
    """An agent that enforces records, first its own start."""
    server, one = lab.serve(39), watch("{mode: enforce}")
    assert [entry["name"] for entry in sampled(one, lab, server, 4)] == [SECRET]
    incidents = one.directory / "state/incidents"
    until(lambda: len(list(incidents.iterdir())) > 1, "the start is recorded")
    assert "secret" not in "".join(path.read_text() for path in incidents.iterdir())
    assert "secret" not in one.get("/v1/incidents", unix=False)[1]


@pytest.mark.slow
def test_names_can_be_switched_off(watch, lab, run: Run) -> None:
    assert sampled(watch("{names: off}"), lab, lab.serve(39), 4) == []
    assert "secret" not in run("top", "dns").stdout


@pytest.mark.slow
def test_several_forwarders_on_one_node_are_reported(watch, lab) -> None:
    """Each forwarder is below the limit, but their sum is above it."""
    upstream = lab.serve(40)
    one = watch()
    for i in range(3):
        lab.dnsmasq(CLIENT, f"127.0.1.{i + 1}", upstream, group=lab.cgroup(pod_path()[0]))
    assert one.condition("DNSForwarderCrowding")["status"] == "False"

    def crowded() -> bool:
        for i in range(3):
            asks(lab, f"127.0.1.{i + 1}", 10, None)
        return one.condition("DNSForwarderCrowding")["status"] == "True"

    until(crowded, "three forwarders are reported", 0.5)
    assert "3" in one.condition("DNSForwarderCrowding")["message"]
