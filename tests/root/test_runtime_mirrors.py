# SPDX-License-Identifier: Apache-2.0
"""Mirrors of registries: written while they answer, removed while they do not. Files of others stay."""

import json
from typing import Any

import criwire
import pytest
from conftest import Run, until
from imagelab import Image
from runtimelab import BUILT, CONTAINERD_CONFIG, KEEP, Lab, containerd2, lab, systemd, watcher  # noqa: F401
from test_runtime import Watcher, wait_reason, wait_setting

NAME = "mirrors.docker.io"
FOREIGN = '# from our own tool\nserver = "https://registry.example"\n'


def mirrors(*pairs: tuple[str, str]) -> str:
    items = ", ".join(f'{{registry: "{registry}", url: "{url}"}}' for registry, url in pairs)
    return f"{KEEP}, mirrors: [{items}]"


@pytest.mark.slow
def test_a_mirror_comes_and_goes_with_its_health(lab: Lab, systemd: Any, watcher: Watcher, run: Run) -> None:
    registry = lab.registry()
    registry.push("team/app", Image(1, 1000))
    foreign = lab.write("etc/containerd/certs.d/quay.io/hosts.toml", FOREIGN)
    url = f"http://{registry.name}"
    running = watcher(f"restart: now, {mirrors(('docker.io', url), ('quay.io', url))}")
    hosts = lab.certs / "docker.io/hosts.toml"
    until(hosts.exists, f"{hosts}\n{running.log}")
    assert url in hosts.read_text()
    wait_setting(running, NAME, "in-sync")
    wait_setting(running, "containerd.config_path", "in-sync")
    assert systemd.restarted == ["containerd.service"]
    assert 'config_path = "/etc/containerd/certs.d"' in lab.config.read_text()

    # containerd pulls from the mirror without another restart.
    lab.wait_for_cri()
    criwire.pull(lab.containerd_socket, "docker.io/team/app:latest")

    # Files of others stay.
    assert wait_reason(running, "mirrors.quay.io", "file-of-others")["actual"]
    assert foreign.read_text() == FOREIGN

    registry.stop()
    until(lambda: not hosts.exists(), "the mirror is removed")
    document = next(m for m in running.status()["runtime"]["mirrors"] if m["url"] == url)
    assert document["state"] == "down" and "refused" in document["why"].lower()
    registry.start()
    until(hosts.exists, "the mirror is written again")

    assert run("restore", wrap=lab.wrap).returncode == 0
    assert not hosts.exists() and not hosts.parent.exists()
    assert foreign.read_text() == FOREIGN
    assert lab.config.read_text() == CONTAINERD_CONFIG
    assert systemd.restarted == ["containerd.service"] * 2


# Each minor version that mirrors_shown in src/runtime/containerd.c claims. The slow ones are built first, in half a minute each.
VERSIONS = [
    "containerd",
    pytest.param("containerd2", marks=pytest.mark.containerd2),
    *[pytest.param(f"containerd{v}", marks=[pytest.mark.containerd2, pytest.mark.slow]) for v in ("1.7", "2.0", "2.1", "2.2", "2.3")],
]


@pytest.mark.parametrize("config", ["own", pytest.param("default", marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", VERSIONS)
def test_a_mirror_in_sync_is_asked(lab: Lab, watcher: Watcher, kind: str, config: str) -> None:
    """With its default configuration, containerd 2.4 looks for hosts.toml in a directory "A:B"."""
    registry = lab.registry()
    registry.push("team/app", Image(1, 1000))
    lab.start(kind)
    if config == "default":
        program = containerd2(*BUILT[kind]) / "containerd" if kind in BUILT else "containerd"
        lab.config.write_text(lab.run(str(program), "config", "default"))
        lab.daemons["containerd"].restart()
        lab.wait_for_cri()
    lab.with_systemd()
    running = watcher(f"restart: now, {mirrors(('docker.io', f'http://{registry.name}'))}")
    wait_setting(running, "containerd.config_path", "in-sync")
    wait_setting(running, NAME, "in-sync")
    lab.wait_for_cri()
    criwire.pull(lab.containerd_socket, "docker.io/team/app:latest")


@pytest.mark.slow
def test_docker_keeps_mirrors_of_others(lab: Lab, watcher: Watcher, run: Run) -> None:
    registry = lab.registry()
    registry.push("team/app", Image(1, 1000))
    url, other = f"http://{registry.name}", "http://127.0.0.1:9"
    before = f'{{"registry-mirrors": ["{other}"],\t"debug": false}}\n'
    lab.write("etc/docker/daemon.json", before)
    lab.dockerd()
    running = watcher(mirrors(("docker.io", url)))
    wait_setting(running, "docker.registry-mirrors", "in-sync")
    assert json.loads(lab.daemon_json.read_text()) == {"registry-mirrors": [url, other], "debug": False}
    lab.docker_pull("team/app&tag=latest")

    registry.stop()
    until(lambda: json.loads(lab.daemon_json.read_text())["registry-mirrors"] == [other], "the mirror is removed")
    wait_setting(running, "docker.registry-mirrors", "in-sync")
    registry.start()
    until(lambda: json.loads(lab.daemon_json.read_text())["registry-mirrors"] == [url, other], "the mirror is written again")
    assert run("restore", wrap=lab.wrap).returncode == 0
    assert lab.daemon_json.read_text() == before


def test_docker_stops_using_its_last_mirror_when_it_fails(lab: Lab, watcher: Watcher) -> None:
    """If the key were removed, dockerd would keep the dead mirror."""
    registry = lab.registry()
    lab.dockerd()
    running = watcher(mirrors(("docker.io", f"http://{registry.name}")))
    wait_setting(running, "docker.registry-mirrors", "in-sync")
    assert registry.name in lab.docker("GET", "/info")[1]
    registry.stop()
    until(lambda: registry.name not in lab.docker("GET", "/info")[1], f"the mirror is removed\n{running.log}", 0.2, 90)


def test_mirrors_that_the_configuration_excludes_are_not_written(lab: Lab, watcher: Watcher) -> None:
    """containerd ignores hosts.toml if its configuration has the deprecated registry.mirrors."""
    registry = lab.registry()
    text = CONTAINERD_CONFIG + (
        '[plugins."io.containerd.grpc.v1.cri".registry.mirrors."quay.io"]\n  endpoint = ["http://127.0.0.1:1"]\n'
    )
    lab.config.write_text(text)
    lab.containerd()
    running = watcher(mirrors(("docker.io", f"http://{registry.name}")))
    wait_reason(running, NAME, "mirrors-without-effect")
    assert running.setting("containerd.config_path")["state"] == "unsupported"
    assert not (lab.certs / "docker.io").exists()
    assert lab.config.read_text() == text
