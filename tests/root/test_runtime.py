# SPDX-License-Identifier: Apache-2.0
"""Settings of real runtimes: edit, restart or reload, restore."""

import json
import shutil
from pathlib import Path
from typing import Any, Callable

import criwire
import pytest
from conftest import Agent, Run, until
from imagelab import Image
from runtimelab import CONTAINERD_CONFIG, KEEP, Lab, containerd2, headroom, lab, systemd, typed, watcher  # noqa: F401

DOWNLOADS = "containerd.max_concurrent_downloads"
DOCKER = "docker.max-concurrent-downloads"
LINE = "    max_concurrent_downloads = 10\n"
TIMEOUT_LINE = '    image_pull_progress_timeout = "30m0s"\n'  # from containerd 1.7 on

Watcher = Callable[..., Agent]


def wait_for(agent: Agent, name: str, key: str, value: str) -> dict[str, Any]:
    """Waits for a setting, which appears after the first sample. A failure prints the agent's view."""

    def seen() -> Any:
        settings = [s for s in agent.status()["settings"] if s["name"] == name]
        return settings and settings[0][key] == value and settings[0]

    try:
        return until(seen, f"{name} {value}", 0.1)
    except pytest.fail.Exception:
        status = agent.status()
        print(agent.log, [s for s in status["settings"] if s["tuner"] == "runtime"], status["runtime"], sep="\n")
        raise


def wait_setting(agent: Agent, name: str, state: str) -> dict[str, Any]:
    return wait_for(agent, name, "state", state)


def wait_reason(agent: Agent, name: str, reason: str) -> dict[str, Any]:
    return wait_for(agent, name, "reason", reason)


def found(agent: Agent, name: str) -> dict[str, Any]:
    """The document's entry of a runtime."""
    return next((one for one in agent.status()["runtime"]["found"] if one["name"] == name), {})


def keeping(watcher: Watcher, *names: str) -> Agent:
    """An agent that only watches, after these runtimes have answered."""
    running = watcher(KEEP)
    until(lambda: all(found(running, name).get("version") for name in names), f"{names} answer")
    return running


@pytest.mark.quick
def test_containerd_is_edited_and_its_restart_is_pending(lab: Lab, watcher: Watcher, run: Run) -> None:
    lab.containerd()
    running = watcher()
    pending = wait_reason(running, DOWNLOADS, "restart-pending")
    assert (pending["wanted"], pending["actual"], pending["original"]) == ("10", "3", "3")
    assert pending["state"] == "pending"
    condition = running.wait_condition("RuntimeRestartPending")
    assert "/etc/containerd/config.toml" in condition["message"]
    finding = running.wait_finding("restart-pending", DOWNLOADS)
    assert finding["now"] == "systemctl restart containerd.service"
    assert finding["keep"] == "runtime: {restart: when-idle}"
    text = lab.config.read_text()
    assert LINE in text and text.replace(LINE, "").replace(TIMEOUT_LINE, "") == CONTAINERD_CONFIG

    asked = []
    typed(finding["now"], lab.directory, systemctl=lambda *words: (asked.append(words), lab.daemons["containerd"].restart()))
    assert asked == [("restart", "containerd.service")]
    wait_setting(running, DOWNLOADS, "in-sync")
    running.wait_no_finding("restart-pending")
    running.wait_condition("RuntimeRestartPending", "False")
    assert found(running, "containerd")["max_concurrent_downloads"] == "10"

    assert run("restore", wrap=lab.wrap).returncode == 0
    assert lab.config.read_text() == CONTAINERD_CONFIG


def test_apply_restarts_containerd_and_pods_keep_running(lab: Lab, headroom: Run) -> None:
    text = CONTAINERD_CONFIG.replace("registry.example/pause:3.6", lab.pause())
    lab.config.write_text(text)
    lab.containerd()
    systemd = lab.with_systemd()
    sandbox = criwire.run_pod(lab.containerd_socket, "web-1", "shop", "0b1c2d3e-0000-4000-8000-000000000001")
    status = criwire.call(lab.containerd_socket, f"{criwire.RUNTIME}/PodSandboxStatus", criwire.message(f1=sandbox))
    assert sandbox.encode() in status
    pods = set(lab.leftovers()) - {lab.daemons["containerd"].pid}
    assert pods

    headroom("apply", section="restart: now")
    assert systemd.restarted == ["containerd.service"]
    assert lab.config.read_text().replace(LINE, "").replace(TIMEOUT_LINE, "") == text
    until(lambda: criwire.running_config(lab.containerd_socket).get("maxConcurrentDownloads") == 10, "10 is in force")
    assert pods <= set(lab.leftovers()), "all processes of the pod keep running"
    answer = criwire.call(lab.containerd_socket, f"{criwire.RUNTIME}/ListPodSandbox")
    assert sandbox.encode() in answer

    headroom("restore", section="restart: now")
    assert lab.config.read_text() == text
    assert systemd.restarted == ["containerd.service"] * 2
    criwire.remove_pod(lab.containerd_socket, sandbox)


def test_an_apply_says_that_a_restart_has_lost_its_value(lab: Lab, headroom: Run) -> None:
    """As with an ExecStartPre that writes the file."""
    lab.containerd()
    systemd = lab.with_systemd()

    def start(_: str) -> None:
        lab.config.write_text(CONTAINERD_CONFIG)
        lab.daemons["containerd"].restart()

    systemd.manager.restart = start
    said = headroom("apply", section="restart: now", code=1)
    assert systemd.restarted == ["containerd.service"]
    assert "containerd.max_concurrent_downloads: not set to 10" in said.stderr and "have 3 now" in said.stderr, said
    assert "/etc/containerd/config.toml" in said.stderr and "ExecStartPre" in said.stderr, said
    headroom("restore", section="restart: never")
    assert lab.config.read_text() == CONTAINERD_CONFIG


def test_the_capabilities_of_the_service_suffice(systemd: Any, watcher: Watcher) -> None:
    """They do not allow to read /proc/PID/exe of a process with more capabilities."""
    few = ("setpriv", "--bounding-set=-all,+net_admin,+bpf,+perfmon", "--no-new-privs")
    running = watcher("restart: now", wrap=few)
    wait_setting(running, DOWNLOADS, "in-sync")
    assert systemd.restarted == ["containerd.service"]


def test_when_idle_waits_for_pulls(lab: Lab, systemd: Any, watcher: Watcher) -> None:
    registry = lab.registry()
    registry.push("slow", Image(2, 1 << 20))
    proxy = lab.proxy(registry, 32 * 1024)
    pull = criwire.start_pull(lab.containerd_socket, f"{proxy.name}/slow:latest")
    until(lambda: proxy.now > 0, "the pull has begun")
    running = watcher("restart: when-idle")
    wait_reason(running, DOWNLOADS, "restart-pending")
    until(lambda: found(running, "containerd")["pulls"], "the pull is listed")
    assert systemd.restarted == []
    proxy.rate = 0
    criwire.finish(pull)
    wait_setting(running, DOWNLOADS, "in-sync")
    assert systemd.restarted == ["containerd.service"]


def test_a_runtime_of_another_program_is_never_restarted(lab: Lab, watcher: Watcher) -> None:
    """k3s writes containerd's configuration from a template and runs the kubelet beside it."""
    where = "var/lib/rancher/k3s/agent/etc/containerd/config.toml"
    (lab.directory / "run/k3s/containerd").mkdir(parents=True)
    socket = lab.directory / "run/k3s/containerd/containerd.sock"
    text = CONTAINERD_CONFIG + '[grpc]\n  address = "/run/k3s/containerd/containerd.sock"\n'
    lab.write(where, text)
    lab.containerd_socket = socket
    daemon = lab.containerd(options=("--config", f"/{where}"))
    systemd = lab.with_systemd("k3s.service")
    running = watcher("restart: now")
    setting = wait_setting(running, "k3s.max_concurrent_downloads", "unsupported")
    assert any("config.toml.tmpl" in refusal for refusal in found(running, "k3s")["refusals"])
    assert "config.toml.tmpl" in setting["why"]
    # Nobody asked for it, and nobody can change it.
    loud = [c["type"] for c in running.status()["conditions"] if c["status"] == "True" and c["severity"] != "advice"]
    assert "AgentDegraded" not in loud and "SettingFailed" not in loud
    running.stop()
    running = watcher("restart: now, max_concurrent_downloads: 20")
    assert "config.toml.tmpl" in running.wait_finding("k3s.max_concurrent_downloads")["message"]
    assert running.condition("SettingFailed")["status"] == "True"
    assert (lab.root / where).read_text() == text
    assert systemd.restarted == [] and daemon.alive()


@pytest.mark.quick
def test_docker_is_reloaded_and_containers_keep_running(lab: Lab, watcher: Watcher, run: Run) -> None:
    before = '{\n    "log-level": "warn",\n    "registry-mirrors": ["http://127.0.0.1:9"],\n    "labels": ["a=b"]\n}\n'
    lab.write("etc/docker/daemon.json", before)
    daemon = lab.dockerd()
    container = lab.container("keeps-running")
    pid = container()["State"]["Pid"]
    running = watcher()
    setting = wait_setting(running, DOCKER, "in-sync")
    assert (setting["actual"], setting["original"]) == ("10", "3")
    written = json.loads(lab.daemon_json.read_text())
    assert written == {**json.loads(before), "max-concurrent-downloads": 10}
    assert list(written)[:3] == ["log-level", "registry-mirrors", "labels"]
    assert daemon.alive()
    state = container()["State"]
    assert state["Running"] and state["Pid"] == pid

    assert run("restore", wrap=lab.wrap).returncode == 0
    assert lab.daemon_json.read_text() == before
    until(lambda: found(running, "docker")["max_concurrent_downloads"] == "3", "the original value is in force")


@pytest.mark.parametrize("option", [(), ("--pidfile=/run/other.pid",)], ids=["plain", "another-pid-file"])
def test_apply_reloads_docker(lab: Lab, headroom: Run, option: tuple[str, ...]) -> None:
    lab.dockerd(*option)
    headroom("apply")
    assert json.loads(lab.daemon_json.read_text()) == {"max-concurrent-downloads": 10}
    until(lambda: "Reloaded configuration" in lab.daemons["dockerd"].log, "reloaded")
    assert headroom("plan", "--only", "runtime").stdout == "Nothing to change.\n"
    headroom("restore")
    assert not lab.daemon_json.exists()


def test_a_number_only_raises_unless_it_is_exact(lab: Lab, headroom: Run) -> None:
    lab.write("etc/docker/daemon.json", '{"max-concurrent-downloads": 20}\n')
    lab.dockerd()
    for number, result in (("10", 20), ("{value: 9, exact: true}", 9)):
        headroom("apply", section=f"max_concurrent_downloads: {number}")
        assert json.loads(lab.daemon_json.read_text()) == {"max-concurrent-downloads": result}


def test_restore_keeps_edits_of_others(lab: Lab, watcher: Watcher, run: Run, directory: Path) -> None:
    """A file that others have edited loses only Headroom's key."""
    before = '{"log-level": "warn"}\n'
    lab.write("etc/docker/daemon.json", before)
    lab.containerd()
    lab.dockerd("--containerd", "/run/containerd/containerd.sock")
    running = watcher()
    wait_reason(running, DOWNLOADS, "restart-pending")
    wait_setting(running, DOCKER, "in-sync")
    lab.config.write_text(lab.config.read_text() + "# by others\n")
    lab.daemon_json.write_text(lab.daemon_json.read_text().replace("warn", "info"))
    done = run("restore", wrap=lab.wrap)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "file-changed-since" in done.stdout
    for name in (path.name for path in (directory / "state").glob("original-*")):
        assert name in " ".join(done.stdout.split()), "it says where the originals are kept"
    assert lab.config.read_text() == CONTAINERD_CONFIG + "# by others\n"
    assert json.loads(lab.daemon_json.read_text()) == {"log-level": "info"}


def test_restore_reports_lost_original_bytes(lab: Lab, directory: Path, headroom: Run) -> None:
    """Restore removes Headroom's key and does not invent a value. The loss stays an error."""
    lab.write("etc/docker/daemon.json", '{"log-level": "warn", "max-concurrent-downloads": 5}\n')
    lab.dockerd()
    headroom("apply")
    shutil.rmtree(directory / "state/files")
    done = headroom("restore", code=1)
    assert "not set to 5: the original bytes of /etc/docker/daemon.json are lost" in done.stderr, done.stderr
    assert json.loads(lab.daemon_json.read_text()) == {"log-level": "warn"}
    assert "are lost" in headroom("restore", code=1).stderr, "the error stays until an apply"
    headroom("apply")
    headroom("restore")
    assert json.loads(lab.daemon_json.read_text()) == {"log-level": "warn"}


@pytest.mark.containerd2
def test_containerd_2_gets_a_drop_in_file(lab: Lab, watcher: Watcher, run: Run) -> None:
    main = "version = 3\nimports = ['/etc/containerd/conf.d/*.toml']   # as its own default\n"
    lab.config.write_text(main)
    lab.containerd(containerd2())
    systemd = lab.with_systemd()
    running = watcher("restart: now")
    wait_setting(running, DOWNLOADS, "in-sync")
    assert systemd.restarted == ["containerd.service"]
    assert lab.config.read_text() == main
    own = lab.root / "etc/containerd/conf.d/99-headroom.toml"
    assert "max_concurrent_downloads = 10" in own.read_text()
    assert running.setting("containerd.image_pull_progress_timeout")["state"] == "in-sync"
    assert run("restore", wrap=lab.wrap).returncode == 0
    assert not own.exists()
    assert lab.config.read_text() == main


@pytest.mark.containerd2
def test_a_copy_of_our_value_in_a_file_of_others_is_named_by_restore(lab: Lab, watcher: Watcher, run: Run) -> None:
    """As the NVIDIA toolkit makes one. The value in force is not the original before it is gone."""
    lab.config.write_text("version = 3\nimports = ['/etc/containerd/conf.d/*.toml']\n")
    lab.containerd(containerd2())
    lab.with_systemd()
    running = watcher()
    wait_reason(running, DOWNLOADS, "restart-pending")
    own = lab.root / "etc/containerd/conf.d/99-headroom.toml"
    section = next(line for line in own.read_text().splitlines() if "transfer" in line)
    copy = lab.write("etc/containerd/conf.d/99-nvidia.toml", f"version = 3\n{section}\n  max_concurrent_downloads = 10\n")
    running.stop()
    for _ in range(2):
        done = run("restore", wrap=lab.wrap)
        assert done.returncode == 1 and not own.exists()
        assert "conf.d/99-nvidia.toml:3 has a copy of max_concurrent_downloads = 10" in done.stdout + done.stderr
    copy.unlink()
    assert run("restore", wrap=lab.wrap).returncode == 0


def test_a_key_of_a_file_that_is_no_longer_configured_is_shown(lab: Lab, watcher: Watcher, agent: Watcher, run: Run) -> None:
    off = "mode: observe\nruntime: {mode: off}\non_removed: restore\n"
    lab.containerd()
    running = watcher()
    wait_reason(running, DOWNLOADS, "restart-pending")
    running.write_config(off)
    running.reload()
    for again in (False, True):
        if again:  # the journal says it
            running.kill()
            running = agent(off, wrap=lab.wrap)
        finding = running.wait_finding(DOWNLOADS)
        assert finding["reason"] == "no-longer-configured"
        assert (finding["severity"], finding["now"]) == ("advice", "headroom restore --only runtime")
        assert running.setting(DOWNLOADS)["reason"] == "no-longer-configured"
        assert LINE in lab.config.read_text(), "on_removed changes no files"
    running.stop()
    assert run("restore", "--only", "runtime", wrap=lab.wrap).returncode == 0
    assert lab.config.read_text() == CONTAINERD_CONFIG
    running = agent(off, wrap=lab.wrap)
    assert not [s for s in running.status()["settings"] if s["name"] == DOWNLOADS], "nothing is shown"
