# SPDX-License-Identifier: Apache-2.0
"""DNS clients, servers and node programs with unusual behaviour."""

import contextlib
import secrets
import socket
import struct
import time
from pathlib import Path

import pytest
from conftest import mounted, until
from dnslab import CLIENT, SERVER, V4, cgroup_root, fixture_lab, fixture_network, fixture_watch, pod_path, settle  # noqa: F401
from dnswire import encode, query
from passing import Passing
from storm import ip


@pytest.mark.slow
def test_the_pod_that_exceeded_the_budget_is_named(watch, lab, directory) -> None:
    """A pod with a steady low rate is not named, even later."""
    server = V4.format(61)
    lab.unbound(directory, server)
    one = watch(f"{{budgets: [{{server: {server}, qps: 1024}}]}}")
    steady, burst = pod_path(), pod_path()
    perf = lab.dnsperf_start(directory, server, "-Q", "400", "-l", "10", "-c", "1", group=lab.cgroup(steady[0]))
    with lab.udp(lab.cgroup(burst[0])) as client:
        client.ask(server)
        settle(one, lambda now: len(now.row(server).get("top", [])) >= 2, "both pods")
        time.sleep(1.5)
        client.burst(server, 1500, time.time() + 0.3, 0.9)
        one.wait_condition("DNSBudgetExceeded")
        until(lambda: burst[1] in one.condition("DNSBudgetExceeded")["message"], "the pod of the burst is named")
        time.sleep(3)
        message = one.condition("DNSBudgetExceeded")["message"]
        assert burst[1] in message and steady[1] not in message
    perf.result()


def test_an_agent_in_a_private_cgroup_namespace_names_pods(watch, lab) -> None:
    """A pod has a private cgroup namespace, and the host's cgroups are mounted."""
    group = lab.cgroup("hrdns-agent")
    script = f'echo 0 >{group.path}/cgroup.procs && exec unshare -C "$@"'
    one = watch(wrap=("sh", "-c", script, "sh"))
    server, pod = V4.format(62), pod_path()
    lab.server(server)
    with lab.udp(lab.cgroup(pod[0])) as client:
        client.ask(server, count=10)
        settle(one, lambda now: pod[1] in str(now.row(server).get("top")), "the pod is named")
    one.stop()


def test_cluster_dns_comes_from_the_kubelet_configuration(watch, lab) -> None:
    server, other = V4.format(71), V4.format(72)
    lab.server(server, other)
    config = f"kind: KubeletConfiguration\\nclusterDNS:\\n- {server}\\n"
    make = f"mount -t tmpfs none /var/lib; mkdir /var/lib/kubelet; printf '{config}' >/var/lib/kubelet/config.yaml"
    one = watch(wrap=mounted(make))
    with lab.udp() as client:
        client.ask(server, count=3)
        client.ask(other, count=3)
    scrape = settle(one, lambda now: now.total("responses_total") >= 6, "the answers")
    assert scrape.total("queries_total", server=server, role="cluster") == 3
    assert scrape.total("queries_total", server=other, role="upstream") == 3


@pytest.mark.slow
def test_host_network_pods_are_not_forwarders(watch, lab) -> None:
    """They share a namespace with a stub on port 53, and send queries to the upstream server."""
    upstream = lab.serve(63)
    lab.dnsmasq(CLIENT, "127.0.0.53", upstream, group=lab.cgroup("system.slice/hrdns-stub.service"))
    one = watch(wrap=("nsenter", f"--net=/run/netns/{CLIENT}"))
    groups = [lab.cgroup(pod_path()[0]) for _ in range(3)]
    for group in groups:
        lab.start(CLIENT, "sleep", "60", group=group)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(lab.udp(group)) for group in groups]
        for _ in range(16):
            for client in clients:
                client.ask(upstream, count=5)
            time.sleep(0.5)
    settle(one, lambda now: now.total("queries_total", server=upstream) >= 240, "their queries")
    assert one.condition("DNSForwarderCrowding")["status"] == "False", one.condition("DNSForwarderCrowding")


def test_a_budgeted_upstream_always_has_a_label(watch, lab) -> None:
    """The number of other servers does not matter."""
    upstream = lab.serve(64)
    one = watch(f"{{budgets: [{{server: {upstream}, qps: 100}}]}}")
    settle(one, lambda now: now.row(upstream), "the upstream")
    with lab.udp() as client:
        for i in range(1500):
            client.send(f"10.54.{150 + (i >> 8)}.{i & 255}", "drop.example.test")
        client.ask(upstream, count=20)
    scrape = settle(one, lambda now: now.document["lost"]["servers"] > 0, "a loss")
    scrape = settle(one, lambda now: now.total("queries_total", server=upstream) >= 20, "the upstream's")
    assert scrape.total("queries_total", server=upstream) == scrape.total("responses_total", server=upstream) == 20


def test_letter_case_cookies_and_edns_versions_are_handled(watch, lab) -> None:
    """Mixed case (0x20), EDNS with a cookie, a dual-stack socket, a link-local server."""
    server, mapped = V4.format(65), V4.format(66)
    lab.server(server, mapped)
    ip("-n", SERVER, "addr", "add", "fe80::53/64", "dev", "dns0", "nodad")
    local = lab.raw(SERVER, socket.AF_INET6, socket.SOCK_DGRAM)
    one = watch()
    try:
        index, served = (int(ip("-n", name, "-o", "link", "show", "dns0").split(":")[0]) for name in (CLIENT, SERVER))
        local.bind(("fe80::53", 53, 0, served))
        with lab.udp() as client:
            client.ask(server, "oK-1.ExAmPle.TeSt")
            # The same question in another case is a repetition.
            client.send(server, "late-800.ExAmple.test", number=501)
            client.send(server, "LATE-800.exaMPLE.test", number=501)
            cookie = struct.pack("!HH", 10, 8) + secrets.token_bytes(8)
            head = struct.pack("!6H", 502, 0x100, 1, 0, 0, 1) + encode("ok.example.test") + struct.pack("!2H", 1, 1)
            client.socket.sendto(head + b"\0" + struct.pack("!HHIH", 41, 1232, 0, len(cookie)) + cookie, (server, 53))
            client.receive()
            scrape = settle(one, lambda now: now.total("responses_total", server=server) >= 3, "answers")
        assert scrape.total("queries_total", server=server) == 4
        row = scrape.row(server)
        assert (row["edns"], row["malformed"], row["retransmissions"], row["late"]) == (1, 0, 1, 0)
        with lab.raw(CLIENT, socket.AF_INET6, socket.SOCK_DGRAM) as both:
            both.sendto(query("ok.example.test", 1), (f"::ffff:{mapped}", 53))
            both.recv(512)
            both.sendto(query("ok.example.test", 2), ("fe80::53", 53, 0, index))
            asked, client_address = local.recvfrom(512)
            local.sendto(bytes([asked[0], asked[1], 0x81, 0x80]) + asked[4:], client_address)
            both.recv(512)
        scrape = settle(one, lambda now: now.row("fe80::53").get("answered"), "the last answer")
    finally:
        local.close()
        ip("-n", SERVER, "addr", "del", "fe80::53/64", "dev", "dns0")
    assert scrape.total("queries_total", server=mapped) == scrape.total("responses_total", server=mapped) == 1
    assert scrape.row("fe80::53")["queries"]["udp"] == scrape.row("fe80::53")["answered"] == 1


@pytest.mark.slow
def test_queries_of_a_client_that_gave_up_are_unanswered(watch, lab) -> None:
    """An answer to a closed socket does not count. An id that is used again at once is a new query."""
    server = lab.serve(69)
    one = watch()
    for i in range(5):
        with lab.udp() as client:
            client.send(server, f"late-300.host{i}.test", number=7)
    with lab.udp() as client:
        for i in range(5):
            client.ask(server, f"ok-{i}.example.test", number=8)
    scrape = settle(one, lambda now: now.total("unanswered_total", server=server) >= 5, "five without an answer", 8)
    assert scrape.total("queries_total", server=server) == 10 and scrape.row(server)["retransmissions"] == 0
    assert scrape.total("responses_total", server=server) == scrape.row(server)["answered"] == 5
    assert scrape.total("unanswered_total", server=server) == 5 and scrape.total("pending", server=server) == 0


@pytest.mark.slow
def test_a_burst_on_a_busy_machine_is_measured(watch, lab) -> None:
    """The agent has the lowest priority, and all CPUs are busy."""
    server = lab.serve(70)
    one = watch(f"{{budgets: [{{server: {server}, qps: 1024}}]}}", wrap=("nice", "-n", "19"))
    for _ in range(3):
        lab.start(CLIENT, "sh", "-c", "while :; do :; done")
    with lab.udp() as client:
        client.burst(server, 1500, int(time.time()) + 2.45, 0.9)
    time.sleep(3)
    scrape = settle(one, lambda now: now.total("peak_queries_per_second", server=server) > 1000, "a peak", 10)
    assert scrape.total("queries_total", server=server) == 1500
    assert 1400 <= scrape.total("peak_queries_per_second", server=server) <= 1530
    assert scrape.total("over_budget_seconds_total", server=server) in (1, 2)


def when_free(cgroup: Path) -> Passing:
    """An exclusive program, as soon as the agent of no other test has one there."""

    def attach() -> Passing | None:
        with contextlib.suppress(PermissionError):
            return Passing(cgroup, flags=0)
        return None

    return until(attach, "the programs of other tests are gone", 0.1, 60)


@pytest.mark.slow
def test_counting_begins_when_the_cgroup_root_is_free(watch, lab) -> None:
    """The message names an exclusive program of another owner, and the command that finds it."""
    server = lab.serve(73)
    with contextlib.closing(when_free(cgroup_root())):
        one = watch(ready=False)
        one.wait_ready()
        until(lambda: one.tuner("dns")["state"] == "degraded", "the tuner is degraded")
        assert "exclusively" in one.tuner("dns")["why"] and "bpftool cgroup tree" in one.tuner("dns")["why"]
    until(lambda: one.tuner("dns")["state"] == "active", "the programs are attached")
    with lab.udp() as client:
        client.ask(server, count=5)
        scrape = settle(one, lambda now: now.total("responses_total", server=server) >= 5, "five answers")
    assert scrape.total("queries_total", server=server) == 5
    assert one.condition("AgentDegraded")["status"] == "False"


def test_a_budget_without_effect_is_reported(watch, run) -> None:
    one = watch("{budgets: [{server: 127.0.0.53, qps: 100}]}")
    until(lambda: "127.0.0.53: this budget has no effect" in one.log, "it is logged")
    assert one.log.count("has no effect") == 1
    assert "on this node" in run("explain", "dns.budgets").stdout


def test_a_server_of_encrypted_dns_has_one_series(watch, lab) -> None:
    server = V4.format(74)
    one = watch()
    for _ in range(3):
        with lab.raw(CLIENT, socket.AF_INET, socket.SOCK_STREAM) as refused:
            assert refused.connect_ex((server, 853))
    scrape = settle(one, lambda now: now.total("encrypted_packets_total", server=server) == 3, "three packets")
    assert len([series for series in scrape.metrics if f'"{server}"' in series]) == 1
