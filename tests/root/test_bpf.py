# SPDX-License-Identifier: Apache-2.0
"""From the kernel's neighbour tables to the metrics, in a network namespace as pods have."""

import subprocess
from typing import Callable, Iterator

import pytest
from conftest import FAMILIES, Agent, set_thresholds, thresholds, until
from storm import ip

NETNS = "headroom-test"
Fill = Callable[..., int]


@pytest.fixture
def fill() -> Iterator[Fill]:
    """fill(family, count, state) makes entries in a namespace of its own; returns how many there are then.

    ip(8) gives up at the first entry that the kernel refuses.
    """
    ip("netns", "del", NETNS, check=False)
    ip("netns", "add", NETNS)
    ip("-n", NETNS, "link", "add", "h0", "type", "veth", "peer", "name", "h1")
    ip("-n", NETNS, "link", "set", "h0", "up")
    ip("-n", NETNS, "link", "set", "h1", "up")

    def entries(family: str, count: int, state: str = "stale") -> int:
        base = "198.18.{}.{}" if family == "ipv4" else "2001:db8::{:x}:{:x}"
        lines = [
            f"neigh replace {base.format(i >> 8, i & 255)} lladdr 02:00:00:00:{i >> 8:02x}:{i & 255:02x} nud {state} dev h0"
            for i in range(1, count + 1)
        ]
        ip("-n", NETNS, "-batch", "-", text="\n".join(lines) + "\n", check=False)
        return len(ip("-n", NETNS, f"-{family[-1]}", "neigh", "show", "nud", "all", "dev", "h0").splitlines())

    yield entries
    ip("netns", "del", NETNS)


def count(agent: Agent, name: str, family: str) -> float:
    return agent.metrics()[f'headroom_neighbor_{name}{{family="{family}"}}']


@pytest.mark.quick
@pytest.mark.parametrize("family", FAMILIES)
def test_creations_in_a_namespace_are_counted(agent, fill: Fill, family: str) -> None:
    one = agent()
    created = count(one, "created_total", family)
    refused = count(one, "refused_total", family)
    assert fill(family, 500) >= 500
    until(lambda: count(one, "created_total", family) >= created + 500, "500 creations are counted")
    assert count(one, "created_total", family) < created + 600
    assert count(one, "refused_total", family) == refused


@pytest.mark.parametrize("family", FAMILIES)
def test_permanent_entries_are_not_collectable(agent, fill: Fill, family: str) -> None:
    one = agent()
    before = count(one, "collectable_entries", family)
    entries = count(one, "entries", family)
    fill(family, 1000, "permanent")
    until(lambda: count(one, "entries", family) >= entries + 1000, "all entries are seen")
    until(lambda: abs(count(one, "collectable_entries", family) - before) < 100, "permanent ones do not count")
    fill(family, 400, "stale")  # takes 400 of the permanent ones over
    until(lambda: abs(count(one, "collectable_entries", family) - before - 400) < 100, "the others do")
    limit = next(limit for limit in one.status()["limits"] if limit["name"] == f"neighbor/{family}")
    assert abs(limit["used"] - before - 400) < 100
    assert limit["max"] == thresholds(family)[2]


@pytest.mark.parametrize("family", FAMILIES)
def test_refusals_are_counted_and_raise_a_condition(agent, fill: Fill, family: str) -> None:
    """Observing only, so that the table stays small enough to overflow."""
    set_thresholds(family, (64, 128, 256))
    one = agent("mode: observe")
    refused = count(one, "refused_total", family)
    hits = one.metrics()[f'headroom_limit_hits_total{{limit="neighbor/{family}"}}']
    for _ in range(5):
        assert fill(family, 600, "reachable") < 600
    until(lambda: count(one, "refused_total", family) >= refused + 5, "refusals are counted")
    metric = f'headroom_limit_hits_total{{limit="neighbor/{family}"}}'
    until(lambda: one.metrics()[metric] > hits, "the kernel's own count rises")
    condition = one.wait_condition("NeighborTableOverflow")
    assert family in condition["message"].lower() or f"IPv{family[-1]}" in condition["message"]
    assert '"critical"' in one.get("/health")[1].replace(" ", "")


def test_pressure_is_reported_before_overflow(agent, fill: Fill) -> None:
    set_thresholds("ipv4", (1000, 1000, 1000))
    one = agent("mode: observe")
    assert one.condition("NeighborTablePressure")["status"] == "False"
    fill("ipv4", 900)
    condition = one.wait_condition("NeighborTablePressure")
    assert "900" in condition["message"] or "9" in condition["message"]
    assert one.condition("NeighborTableOverflow")["status"] == "False"
    ip("-n", NETNS, "link", "set", "h0", "down")
    one.wait_condition("NeighborTablePressure", "False")


def test_thresholds_are_metrics(agent) -> None:
    metrics = agent().metrics()
    for family in FAMILIES:
        for level, value in enumerate((80000, 90000, 100000), 1):
            labels = f'family="{family}",level="{level}"'
            assert metrics[f"headroom_neighbor_gc_threshold{{{labels}}}"] == value
        assert metrics[f'headroom_limit_max{{limit="neighbor/{family}"}}'] == 100000


def test_bpf_programs_end_with_the_agent(agent) -> None:
    """Nothing stays attached or pinned once the agent is gone, however it went."""

    def programs() -> int:
        out = subprocess.run(["bpftool", "prog", "show"], capture_output=True, text=True, check=True).stdout
        return sum("neigh_create" in line for line in out.splitlines())

    before = programs()
    one = agent()
    assert programs() > before
    one.kill()
    until(lambda: programs() == before, "gone with the process")
