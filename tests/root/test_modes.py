# SPDX-License-Identifier: Apache-2.0
"""Owner and mode of all that the agent makes, whatever the umask, and in directories that an earlier version left open to everybody."""

import stat
from pathlib import Path
from typing import Any, Iterator

import pytest
from conftest import Agent, Run, Start, until
from imagelab import Built, docker_save
from runtimelab import CONTAINERD_CONFIG, Lab, lab  # noqa: F401
from test_images import A, wait_image
from test_kubelet import Kubelet

MODES = {"run": 0o755, "state": 0o755}  # of directories; all others are root's alone


def wrong_modes(directory: Path) -> dict[str, str]:
    """What below run and state has another owner or mode than it should have."""
    found = {path: path.lstat() for top in MODES for path in (directory / top, *(directory / top).rglob("*"))}
    return {
        str(path): f"{info.st_uid}:{info.st_gid} {info.st_mode & 0o7777:o}"
        for path, info in found.items()
        if info.st_uid or info.st_gid
        or info.st_mode & 0o7777 != MODES.get(str(path.relative_to(directory)), 0o700 if stat.S_ISDIR(info.st_mode) else 0o600)
    }  # fmt: skip


def made(directory: Path) -> set[str]:
    """The names in state; of originals only what they begin with."""
    names = {str(path.relative_to(directory / "state")) for path in (directory / "state").rglob("*")}
    return names | {name.split("-")[0] + "-" for name in names if "-" in name}


def leave_open(directory: Path) -> None:
    """Directories of an earlier version under umask 000."""
    for name in MODES:
        (directory / name).mkdir(exist_ok=True)
        (directory / name).chmod(0o777)


def under(umask: str) -> tuple[str, ...]:
    return ("sh", "-c", f'umask {umask}; exec "$@"', "-")


@pytest.fixture
def kubelet(directory: Path, lab: Lab) -> Iterator[Kubelet]:
    (lab.root / "var/lib/kubelet").mkdir()
    made_up = Kubelet(directory)
    yield made_up
    made_up.stop()


def spoil(lab: Lab, systemd: Any) -> None:
    """The next restart fails, and others spoil the file meanwhile."""
    daemon = lab.daemons["containerd"]

    def restart(_unit: str) -> None:
        daemon.stop()
        if len(systemd.restarted) > 1:
            systemd.unit.state = "active"
            daemon.launch()
        else:
            lab.config.write_text(lab.config.read_text().replace("version = 2", "version = = 2"))
            systemd.unit.state = "failed"

    systemd.manager.restart = restart


@pytest.mark.apart
@pytest.mark.parametrize("umask, old", [("000", True), ("022", False), ("077", False)])
def test_what_is_made_beside_a_runtime_and_a_kubelet_is_root_s_alone(
    lab: Lab, kubelet: Kubelet, agent: Start, run: Run, directory: Path, umask: str, old: bool
) -> None:
    """Files of programs can be read by all, as other files of theirs."""
    if old:
        leave_open(directory)
    wrap = (*lab.wrap, *under(umask))
    registry = lab.registry()
    # A load has a file of its own because of this server for all registries.
    lab.write("etc/containerd/certs.d/_default/hosts.toml", f'server = "http://{registry.name}"\n')
    lab.config.write_text(f'{CONTAINERD_CONFIG}[plugins."io.containerd.grpc.v1.cri".registry]\nconfig_path = "/etc/containerd/certs.d"\n')
    lab.containerd()
    systemd = lab.with_systemd()
    (lab.directory / "run/images").mkdir()
    docker_save(lab.directory / "run/images/a.tar", [Built(A)])
    kubelet.start(drop_ins=True)
    spoil(lab, systemd)
    runtime = f"mode: enforce, restart: now, max_concurrent_downloads: 10, pull_progress_timeout: keep, mirrors: [{{registry: docker.io, url: 'http://{registry.name}'}}]"
    config = f"mode: observe\nruntime: {{{runtime}}}\nkubelet: {{mode: enforce, manage: true}}\nimages: {{mode: enforce, pin: [], archives: [/run/images]}}\n"
    running: Agent = agent(config, wrap=wrap)
    rejected = directory / "state/rejected-config.toml"
    until(rejected.exists, lambda: f"{running.log[-3000:]}")
    until(kubelet.own.exists, "the drop-in of the kubelet")
    hosts = lab.certs / "docker.io/hosts.toml"
    until(hosts.exists, lambda: f"{running.log[-3000:]}")
    until(lambda: systemd.unit.state == "active" and lab.daemons["containerd"].answers(), "containerd is back")
    wait_image(running, A)
    assert run("apply", wrap=wrap).returncode == 1, "the value failed, and is written for the next start"
    lab.config.write_text(lab.config.read_text() + "# by someone else\n")
    assert not wrong_modes(directory)
    assert {"files", "load/journal.json", "config.json", "images.json", "journal.json", "incidents/counts.json"} <= made(directory)
    for path in (hosts, hosts.parent, kubelet.own):
        assert path.stat().st_mode & 0o777 == (0o755 if path.is_dir() else 0o644), path
    restored = run("restore", wrap=wrap)
    assert restored.returncode == 0, restored.stderr
    assert "original-" in made(directory) and not wrong_modes(directory)
