# SPDX-License-Identifier: Apache-2.0
"""The verdict on a server and the workload to blame are the same in condition, event, status, `top`, page and metrics. They
are compared with the counts of the generator."""

import html
import math
import re
import threading
import time
from pathlib import Path
from typing import Any, Iterator

import pytest
from conftest import Agent, Run, mounted, temporary, until
from dnslab import LABEL, V4, Lab, Scrape, fixture_lab, fixture_network, fixture_watch, settle, watching  # noqa: F401
from test_dns_budget import budgets

QPS = 1024
FIRST, SECOND, FAILS, MIXED = (V4.format(number) for number in (61, 62, 63, 64))


@pytest.fixture(scope="module", name="one")
def fixture_one(network) -> Iterator[Agent]:  # noqa: ARG001
    """One agent for most tests of this file. Each test uses other servers."""
    with temporary() as directory, watching(directory) as start:
        yield start(budgets(**{server: {"qps": QPS} for server in (FIRST, SECOND)}))


def send(lab: Lab, *load: tuple[str, str, int, float, float], name: str = "ok.example.test") -> None:
    """Sends at the same time for each (container, server, queries, seconds from now, duration)."""
    begin = math.ceil(time.time() + 0.5) + 0.3
    clients = [(lab.udp(lab.cgroup(f"lxc.payload.{who}")), *rest) for who, *rest in load]
    threads = [
        threading.Thread(target=client.burst, args=(server, count, begin + later, seconds, name))
        for client, server, count, later, seconds in clients
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for client, *_ in clients:
        client.socket.close()


def top_dns(one: Agent, run: Run) -> str:
    """The agent is that of all tests, in a directory of its own."""
    return run("top", "dns", env={"HEADROOM_RUNTIME_DIR": str(one.directory / "run")}).stdout


def below(text: str, server: str) -> list[str]:
    """The lines of `top` below the row of the server."""
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if line.split()[:1] == [server])
    end = next((i for i in range(at + 1, len(lines)) if not lines[i].startswith("   ")), len(lines))
    return lines[at + 1 : end]


def shares(one: Agent, run: Run, server: str) -> dict[str, dict[str, int]]:
    """Each view's clients of the server in the second that matters, with their queries; the busiest first."""
    scrape = Scrape(one)
    row, limit = scrape.row(server), one.limit(f"dns/{server}")
    metric: dict[str, int] = {}
    for series, value in scrape.metrics.items():
        has = dict(LABEL.findall(series))
        if series.startswith("headroom_dns_workload_queries_per_second{") and has["server"] == server:
            metric[f"{has['kind']} {has['name']}"] = round(value)
    lines = [re.match(r" +(\d+)/s +\d+ % +\d+ in all +(lxd \S+|other)", line) for line in below(top_dns(one, run), server)]
    page = html.unescape(one.get("/")[1]).replace("\u202f", "")
    shown = page[page.index("<h2>DNS") :]
    shown = shown[shown.index(f">{server}<") :]
    most = re.search(r"(lxd \S+) (\d+) of (\d+)", shown)
    assert most, shown[:2000]
    return {
        "status": {user["workload"]["text"]: round(user["in_second"]) for user in row["top"] if user["in_second"] >= 0.5}
        | {"other": round(row["other"]["in_second"])},
        "limit": {user["workload"]["text"]: user["used"] for user in limit["peak_top"]},
        "metric": dict(sorted(metric.items(), key=lambda item: -item[1])),
        "top": {match[2]: int(match[1]) for match in lines if match and match[1] != "0"},
        "page": {most[1]: int(most[2])},
    }


def test_the_clients_of_the_second_over_the_budget_are_named_everywhere(one, lab, run: Run) -> None:
    lab.server(FIRST, SECOND)
    # Most queries since the start, and the fastest client before and after the excess.
    send(lab, ("steady", FIRST, 2400, 0, 3), ("innocent", FIRST, 900, 5.2, 0.9), ("b0", FIRST, 400, 3.4, 0.4),
         ("b1", FIRST, 700, 3.4, 0.4), ("other", SECOND, 1500, 5.2, 0.9))  # fmt: skip
    settle(one, lambda now: now.total("queries_total", server=FIRST) >= 4400, "all queries")
    message = one.wait_condition("DNSBudgetExceeded")["message"]
    time.sleep(2)
    message = one.condition("DNSBudgetExceeded")["message"]
    assert "innocent" not in message and "steady" not in message
    assert re.search(rf"dns/{FIRST}: 1\d+ of 1024 queries/s, over for \d s[^;]*(; now \d+)?; lxd b1 [4-7]\d\d", message), message
    assert re.search(rf"dns/{SECOND}: 1\d+ of 1024 queries/s, over for \d s[^;]*(; now \d+)?; lxd other 1\d\d\d", message), message
    for server, truth in ((FIRST, {"lxd b1": 700, "lxd b0": 400}), (SECOND, {"lxd other": 1500})):
        row = Scrape(one).row(server)
        assert (row["verdict"], row["severity"], row["condition"]) == ("over-budget", "critical", "DNSBudgetExceeded")
        for view, found in shares(one, run, server).items():
            assert list(found)[0] == list(truth)[0], (view, found)
            for name, count in found.items():
                if name in truth:  # on a busy machine a burst takes longer than its second
                    assert 0.6 * truth[name] <= count <= truth[name] + 1, (view, found)
                else:
                    # A part of the steady load is in the same second.
                    assert name in ("lxd steady", "other", "other other") and count <= 500, (view, found)
        found = shares(one, run, server)
        assert sum(found["status"].values()) == pytest.approx(row["second"]["queries"], abs=3), found
        assert sum(found["metric"].values()) == pytest.approx(row["second"]["queries"], abs=3), found
        assert sum(found["top"].values()) == pytest.approx(row["second"]["queries"], abs=4), found
    event = next(e for e in one.status()["events"] if e["text"].startswith("DNSBudgetExceeded"))
    # The clients of that second are read within the next seconds, so the event names nobody or the right one.
    assert event["level"] == "critical" and "innocent" not in event["text"], event


def test_a_server_that_fails_is_reported_with_its_client(one, lab, run: Run) -> None:
    lab.server(FAILS, MIXED)
    assert one.condition("DNSFailing")["status"] == "False"
    with lab.udp(lab.cgroup("lxc.payload.victim")) as victim, lab.udp(lab.cgroup("lxc.payload.fine")) as fine:
        for rcode, count in (("servfail", 40), ("refused", 30), ("formerr", 20), ("notimp", 10)):
            for i in range(count):
                victim.ask(FAILS, f"{rcode}-{i}.example.test")
        # A name that does not exist is a good answer. One client sees all failures, another sends most queries.
        fine.ask(MIXED, "nx.example.test", count=150)
        victim.ask(MIXED, "servfail.example.test", count=50)
    message = one.wait_condition("DNSFailing")["message"]
    until(lambda: one.condition("DNSFailing")["message"].count("victim") == 2, lambda: one.condition("DNSFailing")["message"])
    message = one.condition("DNSFailing")["message"]
    assert f"{FAILS}: 100 of 100 upstream answers of the last minute (100 %) failed: SERVFAIL 40, REFUSED 30, FORMERR 20" in message
    assert f"{MIXED}: 50 of 200 upstream answers of the last minute (25 %) failed: SERVFAIL 50" in message and "fine" not in message
    row = Scrape(one).row(FAILS)
    assert (row["verdict"], row["minute_failed"], row["condition"]) == ("failing", 100, "DNSFailing")
    top = top_dns(one, run)
    line = next(line for line in top.splitlines() if line.split()[:1] == [FAILS])
    assert "failing" in line and re.search(r"\b100\b", line), top
    assert any("dig @SERVER" in line for line in below(top, FAILS)) or "dig @SERVER" in " ".join(below(top, FAILS)), top
    event = next(e for e in one.status()["events"] if e["text"].startswith("DNSFailing"))
    assert event["level"] == "warning"


@pytest.mark.slow
def test_unanswered_queries_never_exceed_the_queries(watch, lab) -> None:
    """The queries of a busy moment and their timeouts leave the last minute together."""
    silent = lab.serve(65)
    one = watch()
    with lab.udp() as client:
        for i in range(300):
            client.send(silent, f"drop-{i}.example.test")
        message = one.wait_condition("DNSUnanswered")["message"]
    assert re.search(rf"{silent}: (\d+) of 300 upstream queries of the last minute without an answer", message), message
