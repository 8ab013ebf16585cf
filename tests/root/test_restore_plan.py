# SPDX-License-Identifier: Apache-2.0
"""restore --plan says what restore does, and changes nothing; a restore reaches a runtime that has restarted since the write."""

import json
from pathlib import Path
from typing import Any, Callable

import pytest
from conftest import THRESHOLDS, Agent, Node, Run, sysctl, until
from runtimelab import CONTAINERD_CONFIG, Lab, headroom, lab, watcher  # noqa: F401
from test_runtime import DOCKER, DOWNLOADS, found, wait_reason, wait_setting


def files(*tops: Path) -> dict[str, tuple[bytes, int]]:
    return {str(p): (p.read_bytes(), p.stat().st_mtime_ns) for top in tops for p in top.rglob("*") if p.is_file() and p.name != "agent.log"}


def planned(run: Run, *args: str, **more: Any) -> dict[str, dict[str, Any]]:
    return {change["name"]: change for change in json.loads(run("restore", "--plan", "--json", *args, **more).stdout)["changes"]}


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside-an-agent"])
def test_the_plan_of_a_restore_is_what_the_restore_does(node: Node, agent: Callable[..., Agent], run: Run, directory: Path, beside: bool) -> None:
    first = run("restore", "--plan")
    assert (first.returncode, first.stdout) == (0, "Nothing to restore.\n"), first
    if beside:
        agent("on_drift: report")
    else:
        assert run("apply").returncode == 0
    sysctl(THRESHOLDS[2], 123456)
    now = {path: sysctl(path.removeprefix("/proc/sys/").replace("/", ".")) for path in node.changes() if path.startswith("/proc/sys")}
    kept = files(directory)
    plan = run("restore", "--plan")
    changes = planned(run)
    assert plan.returncode == 2, plan
    assert f"{THRESHOLDS[2]}" in plan.stdout and "123456 left  (changed-since)" in plan.stdout, plan.stdout
    assert changes["thp.enabled"]["new"] == "madvise" and changes[THRESHOLDS[2]]["new"] is None
    assert set(planned(run, "--only", "thp")) == {name for name in changes if name.startswith("thp.")}
    assert {path: sysctl(path.removeprefix("/proc/sys/").replace("/", ".")) for path in now} == now, "no value has changed"
    if not beside:
        assert files(directory) == kept, "no record has changed"
    done = run("restore")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == sorted(plan.stdout.splitlines())
    again = run("restore", "--plan")
    assert (again.returncode, again.stdout) == (0, "Nothing to restore.\n"), again
    node.assert_unchanged(but=("ipv4/neigh/default/gc_thresh3",))


@pytest.mark.quick
def test_options_that_contradict_the_plan_are_wrong_usage(run: Run) -> None:
    assert run("restore", "--plan", "--purge").returncode == 64
    assert run("restore", "--json").returncode == 64
    assert "--plan" in run("restore", "--help").stdout


def test_the_plan_names_files_and_what_their_programs_do(lab: Lab, run: Run, headroom: Run) -> None:
    lab.write("etc/docker/daemon.json", '{"log-level": "warn"}\n')
    lab.containerd()
    dockerd = lab.dockerd("--containerd", "/run/containerd/containerd.sock")
    headroom("apply")
    lab.daemon_json.write_text(lab.daemon_json.read_text().replace("warn", "info"))
    before = files(lab.config.parent, lab.daemon_json.parent, lab.directory.parent / "state")
    reloads = dockerd.log.count("Reloaded configuration")
    text = headroom("restore", "--plan", code=2).stdout
    changes = planned(run, wrap=lab.wrap)
    assert files(lab.config.parent, lab.daemon_json.parent, lab.directory.parent / "state") == before
    assert dockerd.log.count("Reloaded configuration") == reloads
    assert (changes[DOCKER]["new"], changes[DOCKER]["reason"]) == ("3", "file-changed-since")
    assert "/etc/docker/daemon.json" in changes[DOCKER]["note"] and "reload" in changes[DOCKER]["note"]
    assert changes[DOWNLOADS]["reason"] == "original-at-next-start"
    assert "/etc/containerd/config.toml" in changes[DOWNLOADS]["note"] and "/etc/containerd/config.toml" in text
    headroom("restore")
    assert lab.config.read_text() == CONTAINERD_CONFIG
    assert json.loads(lab.daemon_json.read_text()) == {"log-level": "info"}
    assert headroom("restore", "--plan").stdout == "Nothing to restore.\n"


def test_the_plan_says_which_original_is_lost(lab: Lab, directory: Path, headroom: Run) -> None:
    lab.write("etc/docker/daemon.json", '{"max-concurrent-downloads": 5}\n')
    lab.dockerd()
    headroom("apply")
    next(p for p in (directory / "state/files").iterdir() if b'": 5' in p.read_bytes()).unlink()
    text = lab.daemon_json.read_text()
    assert "are lost" in headroom("restore", "--plan", code=1).stderr
    assert lab.daemon_json.read_text() == text


def test_a_runtime_that_has_restarted_since_the_write_is_reloaded_by_a_restore(lab: Lab, watcher: Callable[..., Agent], run: Run) -> None:
    lab.write("etc/docker/daemon.json", '{"debug": false}\n')
    daemon = lab.dockerd()
    one = watcher()
    wait_setting(one, DOCKER, "in-sync")
    daemon.stop()
    daemon.start()
    until(lambda: found(one, "docker")["max_concurrent_downloads"] == "10", "the new process has it in force")
    reloads = daemon.log.count("Reloaded configuration")
    assert run("restore", wrap=lab.wrap).returncode == 0
    until(lambda: daemon.log.count("Reloaded configuration") > reloads, f"reloaded\n{one.log}")
    until(lambda: found(one, "docker")["max_concurrent_downloads"] == "3", "the original value is in force")
