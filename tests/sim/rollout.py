#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rolls a version and a configuration out over a simulated fleet, and prints the tables of deploy/FLEET.md.

rollout.py [--nodes N]   fails if they differ, or if a promise of the document about bad roll-outs does not hold

The model is the DaemonSet controller of Kubernetes 1.34: an unavailable pod counts against maxUnavailable, whether it is
being replaced or its node is down. The controller replaces at most ten pods a second (kube-api-qps 20, a delete and a
create each). A replacement takes seconds: SIGTERM, image, exec to ready, and the next readiness probe.
"""

import argparse
import heapq
import random
import sys
from dataclasses import dataclass
from pathlib import Path

PODS_A_SECOND = 10
PROBE = 10.0  # readiness probe's period
MIN_READY = 10  # the chart's minReadySeconds
DETECT = 30 + 60 + 120 + 30  # seconds until the page: scrape, record, `for` of HeadroomConditionWidespread, group_wait
REACT = 300  # seconds until `kubectl rollout undo`
SYNC = 75.0  # seconds until an edited ConfigMap is in the pod: kubelet's sync period and cache
SOAK = 1800  # seconds of watching a canary
NODES = 10000  # of the document
DOCUMENT = (Path(__file__).parents[2] / "deploy/FLEET.md").read_text().splitlines()


@dataclass
class Rollout:
    seconds: float  # until the last node or until the roll-out is stuck
    reached: list[float]  # start time of each new pod
    stuck: bool


def pod_seconds(min_ready: float) -> float:
    """From the delete until the new pod is available. Measured: 0.1 s to stop, 0.07 s from exec to ready."""
    image = random.lognormvariate(0.0, 1.0)  # present, or 8 MB from a registry that is sometimes slow
    return 0.1 + random.uniform(1.0, 3.0) + image + 0.07 + random.uniform(0, PROBE) + min_ready


def roll(nodes: int, at_once: int, down: int = 0, works: bool = True, min_ready: float = MIN_READY) -> Rollout:
    """Replaces the pods of all nodes that are up. Nodes that are down use up part of at_once."""
    todo, now, busy, reached = nodes - down, 0.0, [], []
    room = at_once - down
    if room <= 0:
        return Rollout(0, [], True)
    while todo or busy:
        while todo and len(busy) < room:
            now += 1 / PODS_A_SECOND
            todo -= 1
            reached.append(now)
            if works:
                heapq.heappush(busy, now + pod_seconds(min_ready))
            else:
                room -= 1
            while busy and busy[0] <= now:
                heapq.heappop(busy)
        if not busy:
            return Rollout(now, reached, todo > 0)
        now = max(now, heapq.heappop(busy))
    return Rollout(now, reached, False)


def clock(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def show(nodes: int, row: str) -> None:
    print(row)
    assert nodes != NODES or row in DOCUMENT, "deploy/FLEET.md differs"


def upgrade_table(nodes: int) -> None:
    print("\n| maxUnavailable | all nodes up | 0.5 % of the nodes down | a version that does not start stops after |")
    print("|---|---|---|---|")
    for share in (0.0001, 0.01, 0.02, 0.05, 0.1):
        at_once = max(1, round(nodes * share))
        good, down = roll(nodes, at_once), roll(nodes, at_once, nodes // 200)
        bad = roll(nodes, at_once, works=False)
        assert bad.stuck and len(bad.reached) == at_once, "never more than maxUnavailable nodes without an agent"
        name = f"{share:.0%}" if share >= 0.01 else str(at_once)  # Kubernetes takes whole percents and numbers
        show(nodes, f"| {name} | {clock(good.seconds)} | {'never ends' if down.stuck else clock(down.seconds)} | {at_once} nodes |")


def config_table(nodes: int) -> None:
    """The number of nodes with a bad configuration at the time of the undo."""
    edited = sorted(random.uniform(0, SYNC) for _ in range(nodes))
    rolled, slow = roll(nodes, nodes // 20), roll(nodes, nodes // 50, min_ready=300)
    canary = [random.uniform(0, SYNC) for _ in range(nodes // 100)]
    print("\n| way | a good one is everywhere after | a faulty file reaches | a wrong value that raises a condition reaches |")
    print("|---|---|---|---|")
    for name, times, whole, stopped in (
        ("the ConfigMap edited in place", edited, edited[-1], 0),
        ("the same after a canary of 1 %", sorted(canary), SYNC + SOAK + edited[-1], 0),
        ("a ConfigMap with a new name, maxUnavailable 5 %", rolled.reached, rolled.seconds, nodes // 20),
        ("the same, 2 %, minReadySeconds 300", slow.reached, slow.seconds, nodes // 50),
    ):
        # HeadroomConditionWidespread: ten nodes and 2 % of the DaemonSet's.
        group = nodes // 100 if "canary" in name else nodes
        seen = times[max(10, group // 50) - 1]
        harmed = sum(1 for time in times if time <= seen + DETECT + REACT)
        faulty = f"{stopped} nodes, which keep the old one, not Ready" if stopped else f"{group} nodes, which keep the old one"
        show(nodes, f"| {name} | {clock(whole)} | {faulty} | {harmed} nodes ({harmed / nodes:.0%}) |")
        if "canary" in name:
            assert harmed <= nodes // 100, "a canary keeps a wrong value to itself"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=NODES)
    nodes = parser.parse_args().nodes
    random.seed(1)
    print(f"{nodes} nodes")
    upgrade_table(nodes)
    config_table(nodes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
