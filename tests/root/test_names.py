# SPDX-License-Identifier: Apache-2.0
"""Names of pods come soon: when they end at once, among thousands of cgroups, and on a busy node."""

import contextlib
import os
import signal
import subprocess
from pathlib import Path
from typing import Any, Iterator

import pytest
from conftest import Agent, Start, until
from dnslab import Cgroup, Lab, fixture_lab, fixture_network, fixture_watch, pod_path, settle  # noqa: F401
from test_storage import CONFIG, disk, fixture_pod, loop_of, write_file  # noqa: F401

MANY = 2000


@contextlib.contextmanager
def stopped(agent: Agent) -> Iterator[None]:
    """The agent does not run within this context."""
    agent.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        agent.signal(signal.SIGCONT)


@pytest.fixture
def many() -> Iterator[list[Cgroup]]:
    """Pods with three containers each, some 2,000 cgroups."""
    pods = [Cgroup(f"kubepods/{qos}/{path}") for path, qos in ((pod_path()[0].split("/")[2], ("burstable", "besteffort")[i % 2]) for i in range(MANY // 4))]
    children = [Cgroup(f"{pod.path.relative_to(pod.root)}/{i}") for pod in pods for i in range(3)]
    try:
        yield pods
    finally:
        for group in (*children, *pods):
            group.remove()


@contextlib.contextmanager
def busy() -> Iterator[None]:
    """Processes in a cgroup that want twenty times the CPUs of this machine."""
    group = Cgroup("hrnames-busy")
    programs = []
    with group:
        for _ in range(20 * (os.cpu_count() or 1)):
            programs.append(subprocess.Popen(["sh", "-c", "while :; do :; done"]))
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()
        group.remove()


@pytest.mark.slow
def test_a_pod_that_ended_before_the_agent_saw_it_is_the_user_of_a_disk(agent: Start, disk: Path, pod: Path) -> None:
    one = agent(CONFIG)
    until(lambda: one.status()["storage"] is not None, "BPF counts requests")
    group = pod.parent / f"pod{pod_path()[1]}"
    with stopped(one):
        group.mkdir()
        write_file(disk / "file", group, 64)
        until(lambda: not (group / "cgroup.procs").read_text(), "the pod has ended")
        group.rmdir()

    def users() -> list[str]:
        return [user["workload"]["text"] for user in one.status()["storage"]["users"] if user["device"] == loop_of(disk)]

    until(lambda: f"pod {group.name[3:]}" in users(), lambda: f"the pod is named: {users()}", 0.2, 20)


@pytest.mark.slow
def test_pods_on_a_busy_node_with_many_cgroups_are_named(watch: Start, lab: Lab, many: list[Cgroup]) -> None:
    """The first ones are older than the agent: each needs a walk through all cgroups."""
    server = lab.serve(61)
    one = watch()

    def asks(group: Cgroup) -> None:
        uid = next(part for part in group.path.parts if part.startswith("pod"))[3:]
        with lab.udp(group) as client:
            client.ask(server)
        found: list[Any] = []

        def named() -> bool:
            found[:] = [user["workload"]["id"] for row in one.status()["dns"]["servers"] for user in row.get("top", [])]
            return uid in found

        until(named, lambda: f"{uid} is named: {found}", 0.2, 30)

    with busy():
        for group in (many[3], many[-1], many[len(many) // 2], lab.cgroup(pod_path()[0])):
            asks(group)
