# SPDX-License-Identifier: Apache-2.0
"""Everything at once for half an hour: `sudo tests/run soak`, or SOAK_SECONDS=120 for a short run.

A neighbour storm, DNS load, 50 restarts of containerd, a configuration that changes and disappears, a mirror that stops and
starts, 60 connections, namespaces that come and go, and workloads that fill limits of their own. Others revert a sysctl, move the name of a preloaded image, restore
as another installation, and call a container dockerd. A file system and the agent hang. At the end agent and restore are
killed. Observers check that thresholds never fall and that settings in state in-sync are in force.
"""

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Callable, Iterator

import criwire
import dnslab
import pytest
import storm
from conftest import FAMILIES, Node, Run, Start, killed, sysctl, thresholds, until
from dnslab import Cgroup, fixture_network, pod_path  # noqa: F401
from imagelab import Built, Image, docker_save
from runtimelab import CONTAINERD_CONFIG, Lab, lab  # noqa: F401
from test_images import A, ctr, image

sys.path.append(str(Path(__file__).resolve().parents[1] / "faults"))
import inject  # noqa: E402
from harness import text_of  # noqa: E402

SECONDS = float(os.environ.get("SOAK_SECONDS", "1800"))
DOWNLOADS = "containerd.max_concurrent_downloads"
RESTARTS = max(3, round(50 * SECONDS / 1800))
CONNECTIONS = 60
SERVER = dnslab.V4.format(53)
MAPS = "vm.max_map_count"
OTHER = "docker.io/library/other:1"
HUNG = """
import ctypes, os, sys
libc, server = ctypes.CDLL(None), os.open("/dev/fuse", os.O_RDWR)
assert libc.mount(b"hung", b"/run/hung", b"fuse", 0, f"fd={server},rootmode=40000,user_id=0,group_id=0".encode()) == 0
sys.stdin.read()
os.close(server)
libc.umount2(b"/run/hung", 2)
"""

# Those that change neither a sysctl nor another workload.
FAULTS: dict[str, Callable[[inject.World], Iterator[inject.Fields]]] = {
    "files of a pod": lambda w: inject.files(w, 1000, 1024),
    "files of a unit": lambda w: inject.files(w, 1000, 1024, "unit"),
    "files of workers": lambda w: inject.files_of_workers(w, 3, 1024),
    "tasks of a pod": inject.pids_of_pod,
    "tasks of a unit": lambda w: inject.pids_of_pod(w, 80, "unit"),
    "backlog": lambda w: inject.listener(w, 16, 4096),
    "ports": inject.ports,
}

pytestmark = pytest.mark.soak


class Workers:
    """Threads that repeat a function until the end. An exception fails the test."""

    def __init__(self) -> None:
        self.end = threading.Event()
        self.threads: list[threading.Thread] = []
        self.failures: list[str] = []
        self.done: dict[str, int] = {}

    def repeat(self, work: Callable[[], None], every: float) -> None:
        def loop() -> None:
            while not self.end.wait(every * random.uniform(0.5, 1.5)):
                try:
                    work()
                except (Exception, pytest.fail.Exception) as error:  # the test reports all of them
                    self.failures.append(f"{work.__name__}: {error!r}")
                self.done[work.__name__] = self.done.get(work.__name__, 0) + 1

        self.threads.append(threading.Thread(target=loop, daemon=True))
        self.threads[-1].start()

    def close(self) -> None:
        self.end.set()
        for thread in self.threads:
            thread.join(60)


@pytest.fixture(name="workers")
def fixture_workers() -> Iterator[Workers]:
    made = Workers()
    yield made
    made.close()


@pytest.fixture(name="pod")
def fixture_pod() -> Iterator[Cgroup]:
    group = Cgroup(pod_path(systemd=True)[0])
    yield group
    group.remove()


def configuration(downloads: int, mirror: str) -> str:
    return (
        f"sysctl: {{{MAPS}: 300000}}\n"
        "images: {archives: [/run/images, /run/hung/a.tar], pull: ['docker.io/team/app:latest'], pin: []}\n"
        f"runtime: {{restart: now, max_concurrent_downloads: {downloads}, pull_progress_timeout: keep, "
        f'mirrors: [{{registry: docker.io, url: "http://{mirror}"}}]}}\n'
        f'dns: {{cluster_servers: [], budgets: [{{server: "{SERVER}", qps: 200}}]}}\n'
    )


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), 20)


def ask_for_pages(port: int, sockets: list[socket.socket]) -> None:
    """Requests a page on all connections at once. Connects again if the agent has closed a connection."""
    for i, s in enumerate(sockets):
        try:
            s.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        except OSError:
            s.close()
            sockets[i] = connect(port)
    for s in sockets:
        with contextlib.suppress(OSError):
            s.recv(1 << 20)


def test_everything_at_once(  # noqa: F811
    node: Node, lab: Lab, network: dnslab.Lab, workers: Workers, agent: Start, run: Run, directory: Path, pod: Cgroup
) -> None:
    store = lab.directory / "run/images"
    for path in (store, lab.directory / "run/hung"):
        path.mkdir()
    docker_save(store / "a.tar", [Built(A)])
    docker_save(lab.directory / "other.tar", [Built("other:1")])
    victim = lab.write("etc/victim.json", "{}\n")
    lab.run("cp", "/bin/sh", "/run/dockerd")
    reverted = sysctl(MAPS)
    registry = lab.registry()
    registry.push("team/app", Image(1, 1000))
    containerd = lab.containerd()
    systemd = lab.with_systemd()
    network.server(SERVER)
    ctr(lab, "images", "import", str(lab.directory / "other.tar"))
    started = agent(configuration(10, registry.name), wrap=lab.wrap)
    until(lambda: started.setting(DOWNLOADS)["state"] == "in-sync", "the first restart")
    dnslab.settle(started, lambda _: started.tuner("dns")["state"] == "active", "the programs are loaded")

    wanted_changes = 1  # changes that need a restart, including the first one
    asked = 0
    by_others = 0
    changing = threading.Lock()  # keeps containerd from restarting during a check
    storms = storm.Space("hr-soak-storm", pod=True)
    clients = [network.udp() for _ in range(4)]
    sockets = [connect(started.port) for _ in range(CONNECTIONS)]
    seen = {family: thresholds(family) for family in FAMILIES}
    refused = {family: storm.table(storm_family)["table_fulls"] for storm_family, family in storm.NAMES.items()}
    latencies: list[float] = []
    drawn: dict[str, int] = {}

    def storms_break_loose() -> None:
        for family in storm.NAMES:
            storm.fill(storms, 20000, family)
            storm.fill(storms, 20000, family, delete=True)

    def names_are_asked() -> None:
        nonlocal asked
        for client in clients:
            for _ in range(50):
                client.ask(SERVER, "ok.example.test")
                asked += 1

    def containerd_is_restarted() -> None:
        nonlocal by_others
        with changing:
            containerd.restart()
            by_others += 1
            lab.wait_for_cri()

    def configuration_flaps() -> None:
        nonlocal wanted_changes
        how = random.choice(["downloads", "downloads", "broken", "empty", "gone", "writable"])
        if how == "downloads":
            value = random.choice([10, 12])
            wanted_changes += 1
            started.write_config(configuration(value, registry.name))
            return
        kept = started.config_path.read_text()
        if how == "gone":
            started.config_path.unlink()
        elif how == "writable":
            started.config_path.chmod(0o666)
        else:
            started.config_path.write_text("" if how == "empty" else "neighbor: [\n")
        time.sleep(2)
        started.config_path.write_text(kept)
        started.config_path.chmod(0o644)

    def mirror_flaps() -> None:
        if registry.process:
            registry.stop()
        else:
            registry.start()

    def namespaces_come_and_go() -> None:
        space = storm.Space("hr-soak-short", make=False)
        storm.ip("netns", "add", space.name or "")
        space.add_device("storm0", "198.18.0.1/15", "fd00:198::1/64")
        storm.fill(space, 50)
        storm.ip("netns", "del", space.name or "")

    def a_workload_fills_a_limit() -> None:
        """Each time another one of the faults. It is named as long as it exists."""
        what, fill = random.choice(list(FAULTS.items()))
        world = inject.World(directory)
        with world.stack:
            who = next(made := fill(world))["who"]

            def named() -> bool:
                return any(who == text_of(user["workload"]) for found in started.status()["findings"] for user in found["who"])

            until(named, f"{what}: {who} is named", every=0.5)
            made.close()
        drawn[what] = drawn.get(what, 0) + 1

    def nothing_is_lowered() -> None:
        for family in FAMILIES:
            now = thresholds(family)
            assert all(a >= b for a, b in zip(now, seen[family])), (family, seen[family], now)
            seen[family] = now

    def settings_in_sync_are_in_force() -> None:
        with changing:
            first = started.setting(DOWNLOADS)
            running = criwire.running_config(lab.containerd_socket)
            again = started.setting(DOWNLOADS)
        if running and first == again and first["state"] == "in-sync":
            assert str(running["maxConcurrentDownloads"]) == first["actual"] == first["wanted"], (first, running)

    def is_alive() -> None:
        began = time.monotonic()
        code, _ = started.get("/livez", unix=False)
        latencies.append(time.monotonic() - began)
        assert code == 200

    def pages_are_asked_for() -> None:
        ask_for_pages(started.port, sockets)

    def a_manager_reverts() -> None:
        if sysctl(MAPS) != reverted:
            sysctl(MAPS, reverted)

    def target() -> str:
        """Its digest. The CRI plugin adds labels later."""
        return ctr(lab, "images", "ls", f"name=={A}").splitlines()[-1].split()[2]

    theirs = ""  # what others gave the name last

    def others_move_the_name_of_an_image() -> None:
        """It stays until the archive changes."""
        nonlocal theirs
        with changing:
            # Until the changed archive is loaded, the name is to come back.
            if (image(started, A) or {}).get("state") != "ready" or target() == theirs:
                return
            ctr(lab, "images", "tag", "--force", OTHER, A)
            theirs = target()
            time.sleep(3)
            assert target() == theirs, "the agent took the name back"
            docker_save(store / "a.tar", [Built(A)])

    def another_installation_restores() -> None:
        answer = run("restore", env={"HEADROOM_OWNER": "blue"}, wrap=lab.wrap)
        # The agent may be stopped, below.
        assert answer.returncode == 1 and any(text in answer.stdout + answer.stderr for text in ("belong", "does not answer")), answer

    def a_container_is_called_dockerd() -> None:
        enter = ["sh", "-c", f'echo $$ >{pod.path}/cgroup.procs; exec "$@"', "sh"]
        command = [*enter, *lab.wrap, "/run/dockerd", "-c", "read line", "sh", "--config-file=/etc/victim.json"]
        container = subprocess.Popen(command, stdin=subprocess.PIPE)
        time.sleep(3)
        container.communicate()
        assert victim.read_text() == "{}\n"

    def a_file_system_hangs() -> None:
        mount = subprocess.Popen([*lab.wrap, sys.executable, "-c", HUNG], stdin=subprocess.PIPE)
        time.sleep(35)  # until the sample is overdue
        mount.communicate()
        assert mount.returncode == 0

    def the_agent_stops() -> None:
        with changing:
            started.process.send_signal(signal.SIGSTOP)
            began = time.monotonic()
            answer = run("status", wrap=lab.wrap)
            took = time.monotonic() - began
            started.process.send_signal(signal.SIGCONT)
        assert took < 6 and "does not answer" in answer.stdout + answer.stderr, (took, answer)

    def a_website_asks() -> None:
        assert started.get("/v1/status", unix=False, headers={"Host": "website.example"})[0] == 421

    for step, every in (
        (storms_break_loose, 20),
        (a_manager_reverts, min(120, SECONDS / 12)),
        (others_move_the_name_of_an_image, 45),
        (another_installation_restores, 30),
        (a_container_is_called_dockerd, 20),
        (a_file_system_hangs, 60),
        (the_agent_stops, 60),
        (a_website_asks, 5),
        (names_are_asked, 0.3),
        (containerd_is_restarted, SECONDS / RESTARTS),
        (configuration_flaps, 10),
        (mirror_flaps, 15),
        (namespaces_come_and_go, 3),
        (a_workload_fills_a_limit, 20),
        (nothing_is_lowered, 0.1),
        (settings_in_sync_are_in_force, 1),
        (is_alive, 0.5),
        (pages_are_asked_for, 0.1),
    ):
        workers.repeat(step, every)
    time.sleep(SECONDS)
    workers.close()
    for s in sockets:
        s.close()
    storms.remove()

    latencies.sort()
    print(
        f"{SECONDS:g} s: {workers.done}\n{by_others} restarts by others, {len(systemd.restarted)} by the agent for at most "
        f"{wanted_changes} changes; /livez median {latencies[len(latencies) // 2] * 1e3:.1f} ms, "
        f"p99 {latencies[len(latencies) * 99 // 100] * 1e3:.1f} ms; {asked} queries; faults: {drawn}"
    )
    print("\n".join(workers.failures))
    assert workers.failures == [], started.log[-4000:]
    assert len(systemd.restarted) <= min(wanted_changes, 3), systemd.restarted
    metric = f'headroom_setting_drift_total{{setting="{MAPS}"}}'
    assert 2 <= started.metrics()[metric] <= 6, "reverts are counted, and end in yielding"
    for storm_family, family in storm.NAMES.items():
        assert storm.table(storm_family)["table_fulls"] == refused[family], f"{family}: refused"
    scrape = dnslab.settle(started, lambda one: one.total("queries_total", server=SERVER) >= asked, f"{asked} queries", 10)
    assert scrape.total("queries_total", server=SERVER) == asked

    # With a valid configuration and a running mirror, all settings reach in-sync, and restore undoes everything.
    if not registry.process:
        registry.start()
    started.write_config(configuration(10, registry.name))
    until(lambda: "= 10\n" in lab.config.read_text(), started.log[-2000:])
    containerd.restart()
    until(lambda: started.setting(DOWNLOADS)["state"] == "in-sync", started.log[-2000:])
    started.kill()
    killed(directory, 0.05, "restore", wrap=lab.wrap)
    answer = run("restore", wrap=lab.wrap, timeout=90)
    assert answer.returncode == 0, answer
    assert "headroom-preload" not in ctr(lab, "images", "ls")
    assert lab.config.read_text() == CONTAINERD_CONFIG
    assert not (lab.certs / "docker.io/hosts.toml").exists()
    node.assert_unchanged()
