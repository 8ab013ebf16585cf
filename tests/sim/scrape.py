#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The cost of a fleet for Prometheus and logs: Debian's Prometheus scrapes one observing agent as many targets.

scrape.py HEADROOM [--targets N] [--seconds S] [--nodes N]   prints the table of deploy/FLEET.md; needs root for the agent
"""

import argparse
import contextlib
import gzip
import re
import sys
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "root"))

from conftest import Agent, temporary  # noqa: E402
from prometheus import Prometheus  # noqa: E402

SCRAPE = 3  # seconds here; 30 in a fleet
DURATION = "prometheus_rule_group_last_duration_seconds"
RECORDS = rf'{DURATION}\{{[^}}]*;headroom-records"\}}'


def metrics(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return answer.read().decode()


def value(text: str, name: str) -> float:
    return sum(float(line.rsplit(" ", 1)[1]) for line in re.findall(rf"^{name}(?:\{{.*\}})? .*$", text, re.M))


def measure(port: int, agent: int, directory: Path, options: argparse.Namespace) -> None:
    time.sleep(3 * SCRAPE)
    before, records, alerts = metrics(port), [], []
    for _ in range(int(options.seconds // 10)):
        time.sleep(10)
        now = metrics(port)
        records.append(value(now, RECORDS))
        alerts.append(value(now, DURATION) - records[-1])
    after, agent_after = metrics(port), metrics(agent)

    def grown(name: str) -> float:
        return value(after, name) - value(before, name)

    samples = grown("prometheus_tsdb_head_samples_appended_total")
    cpu = grown("process_cpu_seconds_total")
    series = len([line for line in agent_after.splitlines() if not line.startswith("#")])
    head = value(after, "prometheus_tsdb_head_series")
    memory = value(after, "process_resident_memory_bytes") / head
    log = (directory / "agent.log").read_bytes()
    record, alert = min(records), min(alerts)  # longer ones waited for a CPU
    text, packed = len(agent_after), len(gzip.compress(agent_after.encode(), 1))

    nodes = options.nodes
    rows = [
        ("series", f"{series}", f"{series * nodes / 1e6:.1f} million"),
        ("samples a second, a scrape each 30 s", f"{series / 30:.1f}", f"{series * nodes / 30:,.0f}"),
        ("bytes a scrape, as text", f"{text}", f"{text * nodes / 30 / 1e6:.1f} MB/s in all"),
        ("bytes a scrape, with gzip", f"{packed}", f"{packed * nodes / 30 / 1e6:.1f} MB/s in all"),
        ("CPU of Prometheus for a sample", f"{cpu / samples * 1e6:.2f} µs", f"{cpu / samples * series * nodes / 30:.1f} CPUs"),
        ("memory of Prometheus for a series", f"{memory / 1e3:.1f} kB", f"{memory * series * nodes / 1e9:.0f} GB"),
        ("recording rules once", f"{record / options.targets * 1e6:.0f} µs", f"{record / options.targets * nodes:.1f} s"),
        ("alert rules once", f"{alert / options.targets * 1e6:.0f} µs", f"{alert / options.targets * nodes:.1f} s"),
        ("log of a start", f"{len(log.splitlines())} lines, {len(log)} bytes", f"{len(log) * nodes / 1e6:.0f} MB a roll-out"),
    ]
    print(f"{options.targets} targets, {options.seconds:g} s, {head:.0f} series in the head")
    print(f"\n| | a node | {nodes} nodes |\n|---|---|---|")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("headroom", type=Path)
    parser.add_argument("--targets", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--nodes", type=int, default=10000)
    options = parser.parse_args()
    with temporary() as directory, contextlib.closing(Agent(directory, "mode: observe", binary=options.headroom)) as agent:
        agent.wait_ready()
        # Frequent evaluations of the rules show the shortest time.
        with contextlib.closing(Prometheus(directory, agent.port, options.targets, f"{SCRAPE}s", "10s")) as prometheus:
            measure(prometheus.port, agent.port, directory, options)


if __name__ == "__main__":
    main()
