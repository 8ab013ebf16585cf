# SPDX-License-Identifier: Apache-2.0
"""Mirrors of registries: written while they answer, removed while they do not. Files of others stay."""

import http.server
import json
import threading
from typing import Any

import criwire
import pytest
from conftest import Run, until
from imagelab import Image
from runtimelab import BUILT, CONTAINERD_CONFIG, KEEP, Lab, containerd2, headroom, lab, systemd, watcher  # noqa: F401
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
    assert wait_reason(running, "mirrors.quay.io", "file-of-others")["state"] == "failed"
    assert "quay.io/hosts.toml is not ours" in running.wait_finding("mirrors.quay.io")["message"]
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


class Nothing(http.server.BaseHTTPRequestHandler):
    """A web server that is no registry."""

    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.mark.parametrize("how", ["refused", "404"])
@pytest.mark.parametrize("kind", ["containerd", "docker"])
def test_a_mirror_that_never_answers_fails(lab: Lab, headroom: Run, kind: str, how: str) -> None:
    """A command does not wait for it."""
    lab.start(kind)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Nothing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_address[1] if how == "404" else 9
        done = headroom("apply", "--only", "runtime", section=mirrors(("docker.io", f"http://127.0.0.1:{port}")), code=1)
        server.shutdown()
    assert f"http://127.0.0.1:{port}: " in done.stderr and ("404" if how == "404" else "refused") in done.stderr.lower()
    assert not (lab.certs / "docker.io").exists() and not lab.daemon_json.exists()


@pytest.mark.slow
def test_a_mirror_fails_after_half_a_minute_without_answers(lab: Lab, watcher: Watcher) -> None:
    lab.containerd()
    running = watcher(mirrors(("docker.io", "http://127.0.0.1:9")))
    assert wait_reason(running, NAME, "no-mirror-up")["state"] == "observed"
    assert running.condition("SettingFailed")["status"] == "False", "it may only be starting"
    assert "http://127.0.0.1:9: " in running.wait_finding(NAME, timeout=120)["message"]


def test_docker_has_mirrors_of_docker_io_only(lab: Lab, watcher: Watcher) -> None:
    registry = lab.registry()
    lab.dockerd()
    url = f"http://{registry.name}"
    running = watcher(mirrors(("quay.io", url), ("docker.io", url)))
    wait_setting(running, "docker.registry-mirrors", "in-sync")
    wait_setting(running, "mirrors.quay.io", "failed")
    assert "docker asks mirrors for docker.io only" in running.wait_finding("mirrors.quay.io")["message"]


@pytest.mark.containerd2
def test_mirrors_fail_when_containerd_pulls_with_its_transfer_service_from_a_list_of_directories(lab: Lab, watcher: Watcher) -> None:
    """It takes the list as one name. discard_unpacked_layers = true makes its CRI pull instead, which knows lists."""
    registry = lab.registry()
    lab.start("containerd2")
    images = "[plugins.'io.containerd.cri.v1.images'%s]\n%s\n"
    text = "version = 3\n" + images % ("", "discard_unpacked_layers = true")
    text += images % (".registry", "config_path = '/etc/containerd/certs.d:/etc/docker/certs.d'")
    lab.config.write_text(text)
    lab.daemons["containerd"].restart()
    running = watcher(mirrors(("docker.io", f"http://{registry.name}")))
    wait_setting(running, NAME, "in-sync")
    lab.config.write_text(text.replace("= true", "= false"))
    assert wait_reason(running, NAME, "mirrors-without-effect")["state"] == "failed"
    assert "name one directory" in running.wait_finding(NAME)["message"]


def test_mirrors_that_the_configuration_excludes_are_not_written(lab: Lab, watcher: Watcher) -> None:
    """containerd ignores hosts.toml if its configuration has the deprecated registry.mirrors."""
    registry = lab.registry()
    text = CONTAINERD_CONFIG + (
        '[plugins."io.containerd.grpc.v1.cri".registry.mirrors."quay.io"]\n  endpoint = ["http://127.0.0.1:1"]\n'
    )
    lab.config.write_text(text)
    lab.containerd()
    running = watcher(mirrors(("docker.io", f"http://{registry.name}")))
    assert wait_reason(running, NAME, "mirrors-without-effect")["state"] == "failed"
    assert "registry.mirrors excludes config_path" in running.wait_finding(NAME)["message"]
    assert running.setting("containerd.config_path")["state"] == "unsupported"
    assert not (lab.certs / "docker.io").exists()
    assert lab.config.read_text() == text
