#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a fleet costs its Prometheus and its logs: one agent, which only observes, scraped as many, by Debian's Prometheus.

scrape.py HEADROOM [--targets N] [--seconds S] [--nodes N]   prints the table of deploy/FLEET.md; needs root, as the agent does
"""

import argparse
import json
import re
import socket
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

RULES = Path(__file__).resolve().parents[2] / "deploy/prometheus/rules.yaml"
SCRAPE = 3  # seconds here; 30 in a fleet


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def metrics(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return answer.read().decode()


def value(text: str, name: str) -> float:
    return sum(float(line.rsplit(" ", 1)[1]) for line in re.findall(rf"^{name}(?:\{{.*\}})? .*$", text, re.M))


def wait_answer(port: int, process: "subprocess.Popen[bytes]") -> None:
    for _ in range(200):
        try:
            metrics(port)
            return
        except OSError:
            if process.poll() is not None:
                break
            time.sleep(0.1)
    raise SystemExit(f"{process.args} does not answer")


def start_agent(program: str, directory: Path) -> "tuple[subprocess.Popen[bytes], int]":
    port = free_port()
    config = directory / "headroom.yaml"
    config.write_text(f'mode: observe\nhttp: {{listen: "127.0.0.1:{port}"}}\n')
    environment = {"HEADROOM_STATE_DIR": str(directory / "state"), "HEADROOM_RUNTIME_DIR": str(directory / "run")}
    with (directory / "agent.log").open("wb") as log:
        agent = subprocess.Popen([program, "agent", "--config", str(config)], stderr=log, stdout=log, env=environment)
    wait_answer(port, agent)
    return agent, port


def start_prometheus(directory: Path, agent: int, targets: int) -> "tuple[subprocess.Popen[bytes], int]":
    port = free_port()
    every = f"{SCRAPE}s"
    nodes = [{"targets": [f"127.0.0.1:{agent}"], "labels": {"instance": f"node-{i}"}} for i in range(targets)]
    config = {
        "global": {"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": "10s"},
        "rule_files": [str(directory / "rules.yaml")],
        "scrape_configs": [{"job_name": "headroom", "static_configs": nodes}],
    }
    rules = re.sub(r"interval: \w+", "interval: 10s", RULES.read_text())  # often, for the shortest time
    (directory / "rules.yaml").write_text(rules)
    (directory / "prometheus.yml").write_text(json.dumps(config))
    with (directory / "prometheus.log").open("wb") as log:
        command = [
            "prometheus",
            f"--config.file={directory}/prometheus.yml",
            f"--storage.tsdb.path={directory}/tsdb",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        prometheus = subprocess.Popen(command, stderr=log, stdout=log)
    wait_answer(port, prometheus)
    return prometheus, port


def measure(port: int, agent: int, directory: Path, options: argparse.Namespace) -> None:
    time.sleep(3 * SCRAPE)
    before, agent_before, evaluations = metrics(port), metrics(agent), []
    for _ in range(int(options.seconds // 10)):
        time.sleep(10)
        evaluations.append(value(metrics(port), "prometheus_rule_group_last_duration_seconds"))
    after, agent_after = metrics(port), metrics(agent)

    def grown(name: str, texts: tuple[str, str] = (before, after)) -> float:
        return value(texts[1], name) - value(texts[0], name)

    samples = grown("prometheus_tsdb_head_samples_appended_total")
    cpu = grown("process_cpu_seconds_total")
    series = len([line for line in agent_after.splitlines() if not line.startswith("#")])
    head = value(after, "prometheus_tsdb_head_series")
    memory = value(after, "process_resident_memory_bytes") / head
    log = (directory / "agent.log").read_bytes()
    evaluation = min(evaluations)  # the others waited for a CPU
    scrapes = options.seconds / SCRAPE * options.targets
    agent_cpu = grown("process_cpu_seconds_total", (agent_before, agent_after)) / scrapes

    nodes = options.nodes
    rows = [
        ("series", f"{series}", f"{series * nodes / 1e6:.1f} million"),
        ("samples a second, a scrape each 30 s", f"{series / 30:.1f}", f"{series * nodes / 30:,.0f}"),
        ("bytes a scrape", f"{len(agent_after)}", f"{len(agent_after) * nodes / 30 / 1e6:.1f} MB/s in all"),
        ("CPU of the agent for a scrape, its idle work included", f"{agent_cpu * 1e6:.0f} µs", ""),
        ("CPU of Prometheus for a sample", f"{cpu / samples * 1e6:.2f} µs", f"{cpu / samples * series * nodes / 30:.1f} CPUs"),
        ("memory of Prometheus for a series", f"{memory / 1e3:.1f} kB", f"{memory * series * nodes / 1e9:.0f} GB"),
        ("all rules once", f"{evaluation / options.targets * 1e6:.0f} µs", f"{evaluation / options.targets * nodes:.1f} s a minute"),
        ("log of a start", f"{len(log.splitlines())} lines, {len(log)} bytes", f"{len(log) * nodes / 1e6:.0f} MB a roll-out"),
    ]
    print(f"{options.targets} targets, {options.seconds:g} s, {head:.0f} series in the head")
    print(f"\n| | a node | {nodes} nodes |\n|---|---|---|")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("headroom")
    parser.add_argument("--targets", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--nodes", type=int, default=10000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        agent, agent_port = start_agent(options.headroom, directory)
        try:
            prometheus, port = start_prometheus(directory, agent_port, options.targets)
            try:
                measure(port, agent_port, directory, options)
            finally:
                prometheus.terminate()
                prometheus.wait()
        finally:
            agent.terminate()
            agent.wait()


if __name__ == "__main__":
    main()
