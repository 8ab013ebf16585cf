# SPDX-License-Identifier: Apache-2.0
"""Other data from runtimes: owners of network namespaces, and the use of the image store."""

import subprocess
import sys
import time
from typing import Any

import criwire
import pytest
from conftest import Agent, end, until
from dnslab import Cgroup, pod_path
from runtimelab import CONTAINERD_CONFIG, KEEP, Lab, lab, watcher  # noqa: F401
from test_runtime import Watcher, found

NEIGHBORS = 40


def fill_neighbors(pid: int) -> None:
    """Makes entries in the network namespace of a process."""
    script = "ip link add hr-d type veth peer name hr-p\nip addr add 10.9.0.1/24 dev hr-d\n"
    script += "ip link set hr-d up\nip link set hr-p up\n"
    script += "".join(
        f"ip neigh add 10.9.0.{i} lladdr 02:00:00:00:00:{i:02x} nud reachable dev hr-d\n" for i in range(2, 2 + NEIGHBORS)
    )
    subprocess.run(["nsenter", "-t", str(pid), "-n", "sh", "-ec", script], check=True)


def users(agent: Agent) -> dict[str, dict[str, Any]]:
    return {user["workload"]["name"]: user for user in agent.limit("neighbor/ipv4")["top"]}


def process_of(lab: Lab, container: str) -> int:
    """The pid of a container's first process."""
    tasks = criwire.call(
        lab.containerd_socket, "/containerd.services.tasks.v1.Tasks/Get", criwire.message(f1=container), namespace="k8s.io"
    )
    process = next(bytes(v) for n, v in criwire.fields_of(tasks) if n == 1)  # type: ignore[arg-type]
    return next(int(v) for n, v in criwire.fields_of(process) if n == 3)  # type: ignore[arg-type]


def test_pods_are_named(lab: Lab, watcher: Watcher) -> None:
    lab.config.write_text(CONTAINERD_CONFIG.replace("registry.example/pause:3.6", lab.pause()))
    lab.containerd()
    sandbox = criwire.run_pod(lab.containerd_socket, "web-1", "shop", "0b1c2d3e-0000-4000-8000-000000000001", host=False)
    fill_neighbors(process_of(lab, sandbox))
    running = watcher(KEEP)
    user = until(lambda: users(running).get("web-1"), f"the pod: {users(running)}", 0.2)
    assert user["used"] >= NEIGHBORS
    assert (user["workload"]["kind"], user["workload"]["namespace"]) == ("pod", "shop")
    criwire.remove_pod(lab.containerd_socket, sandbox)


TAKE_FILES = """
import os, resource, time
resource.setrlimit(resource.RLIMIT_NOFILE, (700, 700))
try:
    while True:
        os.dup(0)
except OSError:
    time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.apart
def test_a_new_pod_with_a_finding_is_named_within_three_seconds(lab: Lab, watcher: Watcher) -> None:
    """It comes just after the runtime was asked: that is every 15 seconds otherwise, and every second after a start."""
    lab.config.write_text(CONTAINERD_CONFIG.replace("registry.example/pause:3.6", lab.pause()))
    lab.containerd()
    running = watcher(KEEP)
    until(lambda: found(running, "containerd").get("store"), "containerd answers", 0.2)
    time.sleep(20)
    until(lambda: 15.5 < time.monotonic() % 30 < 17, "the turn to ask is over, and that to count is near")
    path, uid, _ = pod_path()
    sandbox = criwire.run_pod(lab.containerd_socket, "late-1", "shop", uid)
    group = Cgroup(path)
    with group:
        process = subprocess.Popen([sys.executable, "-c", TAKE_FILES])
    try:
        until(lambda: running.finding("files/process", f"process {process.pid} "), "a finding", 0.1)
        began = time.monotonic()
        until(lambda: running.finding("files/process", f"pod shop/late-1, process {process.pid} "), "its name", 0.1)
        assert time.monotonic() - began <= 3
        until(lambda: "by name: files/process: process" in running.log, "the log has it too")
    finally:
        end(process)
        group.remove()
        criwire.remove_pod(lab.containerd_socket, sandbox)


@pytest.mark.slow
def test_docker_containers_are_named(lab: Lab, watcher: Watcher) -> None:
    lab.dockerd()
    container = lab.container("hungry")
    fill_neighbors(container()["State"]["Pid"])
    running = watcher(KEEP)
    user = until(lambda: users(running).get("hungry"), f"the container: {users(running)}", 0.2)
    assert user["used"] >= NEIGHBORS and user["workload"]["kind"] == "container"
    assert container()["Id"].startswith(user["workload"]["id"])
    # The agent follows a new name.
    assert lab.docker("POST", "/containers/hungry/rename?name=less-hungry")[0] == 204
    until(lambda: users(running).get("less-hungry"), "its new name", 0.2)


@pytest.mark.slow
def test_a_full_image_store_is_reported(lab: Lab, watcher: Watcher) -> None:
    lab.run("mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", "/var/lib/containerd")
    lab.write("var/lib/rancher/rke2/bin/crictl", "#!/bin/sh\n").chmod(0o755)
    lab.containerd()
    running = watcher(KEEP)
    store = until(lambda: found(running, "containerd").get("store"), "the store is known")
    assert store["filesystem"] == "tmpfs" and store["driver"] == "overlayfs" and store["size"] == 40 << 20
    limit = running.limit("images/store")
    assert limit["unit"] == "bytes" and limit["max"] == 40 << 20
    running.wait_condition("ImageStoreFull", "False")
    big = lab.write("var/lib/containerd/big", "")
    big.write_bytes(b"x" * (36 << 20))
    finding = running.wait_finding("images/store")
    assert finding["instance"]["name"].startswith("/var/lib/containerd/") and finding["max"] == 40 << 20
    assert finding["now"] == "/var/lib/rancher/rke2/bin/crictl -r unix:///run/containerd/containerd.sock rmi --prune"
    big.unlink()
    running.wait_condition("ImageStoreFull", "False")


def test_a_storage_driver_that_copies_causes_a_warning(lab: Lab, watcher: Watcher) -> None:
    lab.dockerd("--storage-driver=vfs")
    running = watcher(KEEP)
    store = until(lambda: found(running, "docker").get("store"), "the store is known")
    assert store["driver"] == "vfs" and store["directory"] == "/var/lib/docker"
    assert any("vfs copies every layer" in warning for warning in store["warnings"])
