# SPDX-License-Identifier: Apache-2.0
"""After SIGKILL at any moment, each runtime accepts its file, and restore writes the original bytes."""

import json
import os
import random
import threading
import time
from pathlib import Path

import pytest
from conftest import ASAN, SLACK, Agent, Node, Run, Start, killed, until
from runtimelab import CONTAINERD_CONFIG, Lab, headroom, lab, watcher  # noqa: F401

DAEMON_JSON = '{\n    "live-restore": true,\n    "log-opts": {"max-size": "10m"}\n}'


def configuration(directory: Path, round_: int) -> Path:
    """Each round has another configuration, so that there is a change to write."""
    path = directory / "a.yaml"
    path.write_text(
        'mode: observe\nhttp: {listen: ""}\n'
        f"runtime: {{mode: enforce, max_concurrent_downloads: {(10, 12)[round_ % 2]}}}\n"
    )
    return path


def expect_valid(lab: Lab, round_: int) -> None:
    text = lab.config.read_text()
    assert "# kept by the administrator" in text and "# ours" in text, (round_, text)
    dump = lab.run("containerd", "-c", "/etc/containerd/config.toml", "config", "dump")
    assert 'sandbox_image = "registry.example/pause:3.6"' in dump, round_
    document = json.loads(lab.daemon_json.read_text())
    assert document.pop("max-concurrent-downloads", 3) in (3, 10, 12), round_
    assert document == json.loads(DAEMON_JSON), round_


def restore(lab: Lab, directory: Path, run: Run) -> None:
    answer = run("restore", wrap=lab.wrap)
    assert answer.returncode == 0, answer.stderr
    assert lab.config.read_bytes() == CONTAINERD_CONFIG.encode(), answer.stdout
    assert lab.daemon_json.read_bytes() == DAEMON_JSON.encode(), answer.stdout
    left = [p.name for f in (lab.config, lab.daemon_json) for p in f.parent.iterdir() if "headroom" in p.name]
    assert left == []
    kept = directory / "state/files"
    assert not kept.exists() or list(kept.iterdir()) == []


@pytest.mark.parametrize(
    "command, rounds",
    [("apply", 16), *(pytest.param(*c, marks=pytest.mark.slow) for c in (("apply", 200), ("agent", 25)))],
)
def test_kills_leave_valid_files_and_restorable_originals(node: Node, lab: Lab, directory: Path, run: Run, command: str, rounds: int) -> None:
    lab.write("etc/docker/daemon.json", DAEMON_JSON)
    lab.containerd()
    lab.dockerd()
    for _ in range(2):  # the first run is slower, because programs come from the disk
        started = time.monotonic()
        answer = run("apply", "--config", str(configuration(directory, 0)), wrap=lab.wrap)
        whole = time.monotonic() - started
        assert answer.returncode == 0, answer.stderr
        assert "max_concurrent_downloads = 10" in lab.config.read_text()
        assert json.loads(lab.daemon_json.read_text())["max-concurrent-downloads"] == 10
        restore(lab, directory, run)
    if command == "agent":
        whole = 2.5 * SLACK  # the agent polls once a second, after the first sample
    dice = random.Random(7)
    touched = kills = 0
    for i in range(rounds):
        if i % 4 == 3:
            kills += killed(directory, dice.uniform(0, 0.1) * SLACK, "restore", wrap=lab.wrap)
        else:
            if command == "agent":  # apply ends the release by the last restore
                run("apply", "--config", str(configuration(directory, i)), wrap=lab.wrap)
            before = lab.config.read_text()
            config = configuration(directory, i + 1)
            kills += killed(directory, dice.uniform(0, whole * 1.6), command, "--config", config, wrap=lab.wrap)
            wrote = lab.config.read_text() != before
            touched += wrote
            whole *= 0.93 if wrote else 1.07  # keeps the kills around the time of the write
        expect_valid(lab, i)
        if i % 10 == 9:
            restore(lab, directory, run)
    restore(lab, directory, run)
    assert kills > rounds / 4, "the kills came before the end"
    assert touched > rounds / 8, "some kills came after the write"
    for daemon in lab.daemons.values():
        daemon.stop()
        daemon.start()


@pytest.mark.skipif(ASAN, reason="the leak sanitizer does not work under strace")
@pytest.mark.parametrize("attribute", ["mode", "label"])
def test_metadata_that_others_set_while_a_file_is_replaced_stays(lab: Lab, directory: Path, run: Run, attribute: str) -> None:
    """The new file has its metadata before it is synced, and replaces the old one after that."""
    lab.containerd()
    lab.config.chmod(0o644)
    new = lab.config.with_name("config.toml.headroom-new")
    applied = ("apply", "--config", str(configuration(directory, 0)))

    def act() -> None:
        until(lambda: new.exists() and new.stat().st_mode & 0o777 == 0o644, "the new file is complete", every=0.001)
        if attribute == "mode":
            lab.config.chmod(0o600)
        else:
            os.setxattr(lab.config, "user.label", b"theirs")

    other = threading.Thread(target=act)
    other.start()
    slow = ("strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync", "-e", "inject=fsync:delay_enter=150000")
    overtaken = run(*applied, wrap=(*lab.wrap, *slow))
    other.join()
    assert overtaken.returncode == 1 and "someone else is changing the file now: try again" in overtaken.stderr
    assert run(*applied, wrap=lab.wrap).returncode == 0
    assert "max_concurrent_downloads = 10" in lab.config.read_text()
    if attribute == "mode":
        assert lab.config.stat().st_mode & 0o777 == 0o600
    else:
        assert os.getxattr(lab.config, "user.label") == b"theirs"
    assert run("restore", wrap=lab.wrap).returncode == 0
    assert lab.config.read_bytes() == CONTAINERD_CONFIG.encode()


@pytest.mark.parametrize("kind", ["containerd", "docker"])
def test_a_value_that_others_set_before_the_write_is_judged_again(lab: Lab, watcher: Start, kind: str) -> None:
    """A reload plans with the last sample, which is older than their value."""
    if kind == "containerd":
        name, file, theirs = "containerd.max_concurrent_downloads", lab.config, CONTAINERD_CONFIG
        theirs = theirs.replace("    restrict_oom", "    max_concurrent_downloads = 20\n    restrict_oom")
        lab.containerd()
    else:
        name, file, theirs = "docker.max-concurrent-downloads", lab.daemon_json, DAEMON_JSON.replace("{\n", '{\n    "max-concurrent-downloads": 20,\n', 1)
        lab.write("etc/docker/daemon.json", DAEMON_JSON)
        lab.dockerd()
    one = watcher("max_concurrent_downloads: keep")
    until(lambda: one.setting(name)["actual"] == "3", "the sample")
    one.write_config("mode: observe\nruntime: {mode: enforce, max_concurrent_downloads: 10}\n")
    file.write_text(theirs)
    one.reload()
    until(lambda: one.setting(name)["reason"] == "administrator-higher", lambda: str(one.setting(name)))
    assert file.read_text() == theirs


MIRROR = "max_concurrent_downloads: keep, pull_progress_timeout: keep, mirrors: [{{registry: docker.io, url: 'http://{}'}}]"


def seen(lab: Lab, watcher: Start, name: str) -> tuple[Agent, str, str]:
    """An agent that only observes a mirror that answers. With it the mirror's URL, and the configuration that writes it."""
    registry = lab.registry()
    options = MIRROR.format(registry.name)
    one = watcher("max_concurrent_downloads: keep")
    one.write_config(f"mode: observe\nruntime: {{mode: observe, {options}}}\n")
    one.reload()
    until(lambda: registry.name in one.setting(name)["wanted"], lambda: str(one.setting(name)))
    return one, f"http://{registry.name}", f"mode: observe\nruntime: {{mode: enforce, {options}}}\n"


@pytest.mark.parametrize("before, theirs", [(None, ["http://127.0.0.1:9"]), (["http://127.0.0.1:9"], ["http://127.0.0.1:8"]), (["http://127.0.0.1:9"], None)])
def test_a_list_that_others_set_before_the_write_is_judged_again(
    lab: Lab, watcher: Start, run: Run, before: list[str] | None, theirs: list[str] | None
) -> None:
    def text(mirrors: list[str] | None) -> str:
        return json.dumps({"debug": False} | ({} if mirrors is None else {"registry-mirrors": mirrors})) + "\n"

    lab.write("etc/docker/daemon.json", text(before))
    lab.dockerd()
    one, url, config = seen(lab, watcher, "docker.registry-mirrors")
    one.write_config(config)
    lab.daemon_json.write_text(text(theirs))
    one.reload()
    until(lambda: one.setting("docker.registry-mirrors")["state"] == "in-sync", lambda: str(one.setting("docker.registry-mirrors")))
    assert json.loads(lab.daemon_json.read_text())["registry-mirrors"] == [url, *(theirs or [])]
    assert run("restore", wrap=lab.wrap).returncode == 0
    assert lab.daemon_json.read_text() == text(theirs)


def test_a_file_of_mirrors_that_others_made_before_the_write_stays(lab: Lab, watcher: Start, run: Run) -> None:
    lab.config.write_text(CONTAINERD_CONFIG + '[plugins."io.containerd.grpc.v1.cri".registry]\n  config_path = "/etc/containerd/certs.d"\n')
    lab.containerd()
    one, _, config = seen(lab, watcher, "mirrors.docker.io")
    one.write_config(config)
    theirs = 'server = "https://registry.example"\n'
    hosts = lab.write("etc/containerd/certs.d/docker.io/hosts.toml", theirs)
    one.reload()
    until(lambda: one.setting("mirrors.docker.io")["reason"] == "file-of-others", lambda: f"{one.setting('mirrors.docker.io')}\n{one.log}")
    assert run("restore", wrap=lab.wrap).returncode == 0
    assert hosts.read_text() == theirs


def test_the_original_of_a_file_that_others_changed_stays_until_the_purge(lab: Lab, headroom: Run, directory: Path, run: Run) -> None:
    lab.containerd()
    headroom("apply", section="max_concurrent_downloads: 10")
    theirs = lab.config.read_text().replace("max_concurrent_downloads = 10", "max_concurrent_downloads = 20")
    lab.config.write_text(theirs)
    left = headroom("restore")
    assert lab.config.read_text() == theirs
    kept = [path for path in (directory / "state").iterdir() if path.name.startswith("original-")]
    assert [path.read_text() for path in kept] == [CONTAINERD_CONFIG] and kept[0].stat().st_mode & 0o77 == 0
    assert kept[0].name.endswith("-config.toml") and kept[0].name in left.stdout, left.stdout
    assert run("restore", "--purge", wrap=lab.wrap).returncode == 0
    assert not (directory / "state").exists()
