# SPDX-License-Identifier: Apache-2.0
"""Restarts of a real containerd through the D-Bus interface of systemd, and the cases in which there is no restart."""

import json
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import criwire
import pytest
from conftest import SLACK, Run, Start, until
from imagelab import Image, Proxy
from runtimelab import CONTAINERD_CONFIG, Lab, headroom, lab, systemd  # noqa: F401

NAME = "containerd.max_concurrent_downloads"
NOW = "restart: now"
CONFIG = f'mode: observe\nhttp: {{listen: ""}}\nruntime: {{mode: enforce, {NOW}}}\n'
NO_BUS = {"DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nonexistent/bus"}


@pytest.fixture
def written(systemd: Any, headroom: Run) -> Any:
    """The systemd of a containerd whose file has been edited, and that has not been restarted."""
    headroom("apply", section="restart: never")
    return systemd


def setting(headroom: Run) -> dict[str, Any]:
    document = json.loads(headroom("status", "--json", section=NOW, code=None).stdout)
    return next(s for s in document["settings"] if s["name"] == NAME)


@pytest.mark.quick
def test_apply_with_restart_now_puts_the_value_in_force(lab: Lab, systemd: Any, headroom: Run, run: Run) -> None:
    assert "the result of its restart is not known" not in headroom("apply", section=NOW).stderr
    assert systemd.restarted == ["containerd.service"]
    found = setting(headroom)
    assert (found["actual"], found["original"], found["state"]) == ("10", "3", "in-sync"), found
    assert headroom("apply", section=NOW).stdout == "Nothing to change.\n"
    assert len(systemd.restarted) == 1
    headroom("restore", section=NOW)
    assert lab.config.read_text() == CONTAINERD_CONFIG
    assert len(systemd.restarted) == 2, "restore restarts by the same policy"


@pytest.mark.parametrize("then", ["never", "now"])
def test_restore_restarts_by_the_configured_policy_not_the_recorded_one(lab: Lab, systemd: Any, headroom: Run, then: str) -> None:
    headroom("apply", section="restart: never" if then == "now" else NOW)
    systemd.restarted.clear()
    answer = headroom("restore", section=f"restart: {then}").stdout
    assert lab.config.read_text() == CONTAINERD_CONFIG
    assert systemd.restarted == (["containerd.service"] if then == "now" else [])
    assert ("takes effect at the program's next start" in answer) == (then == "never"), answer


BY_OTHERS = {
    "nothing": lambda text: text,
    "another line": lambda text: text + "# by someone else\n",
    "no TOML": lambda text: CONTAINERD_CONFIG.replace("version = 2", "version = = 2"),
}


@pytest.mark.parametrize("meanwhile", BY_OTHERS)
def test_a_runtime_that_does_not_come_back_gets_its_old_file(
    lab: Lab, systemd: Any, headroom: Run, run: Run, directory: Path, meanwhile: str
) -> None:
    """An edit by others stays. If it does not load, the original replaces it, and the edit is kept in another file."""
    daemon = lab.daemons["containerd"]
    change = BY_OTHERS[meanwhile]
    old = CONTAINERD_CONFIG if meanwhile == "no TOML" else change(CONTAINERD_CONFIG)

    def fail_once(_unit: str) -> None:
        daemon.stop()
        if len(systemd.restarted) > 1:
            systemd.unit.state = "active"
            daemon.launch()
        else:
            lab.config.write_text(change(lab.config.read_text()))
            systemd.unit.state = "failed"

    systemd.manager.restart = fail_once
    answer = headroom("apply", section=NOW, code=1, timeout=90)
    assert "does not answer" in answer.stderr
    assert "containerd.service: was restarted and does not answer: it is failed: its old file is restored" in answer.stderr
    assert lab.config.read_text() == old
    assert len(systemd.restarted) == 2
    assert daemon.alive() and daemon.answers()
    found = setting(headroom)
    assert (found["state"], found["reason"]) == ("failed", "did-not-come-back"), found
    if meanwhile == "no TOML":
        assert "theirs are kept as rejected-config.toml" in answer.stderr, answer.stderr
        assert (directory / "state/rejected-config.toml").read_text() == change("")
    # Another apply writes again. The third restart of the hour is not for it, but for restore.
    systemd.manager.restart = lambda _unit: daemon.restart()
    assert "restarted-too-often" in headroom("apply", section=NOW, code=1).stdout
    assert len(systemd.restarted) == 2 and "max_concurrent_downloads = 10" in lab.config.read_text()
    daemon.restart()
    until(daemon.answers, "containerd")
    assert setting(headroom)["state"] == "in-sync"
    headroom("restore", section=NOW)
    assert len(systemd.restarted) == 3
    assert lab.config.read_text() == old


@pytest.mark.slow
def test_a_restart_without_a_working_cri_is_rolled_back(lab: Lab, systemd: Any, headroom: Run) -> None:
    """containerd listens, but the kubelet could not start pods, as after a plugin that failed to load."""
    daemon = lab.daemons["containerd"]
    lab.write("etc/without.toml", 'version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n')

    def lose_cri_once(_unit: str) -> None:
        broken = len(systemd.restarted) == 1
        daemon.command = ["containerd", "-c", "/etc/without.toml"] if broken else ["containerd"]
        daemon.restart()

    systemd.manager.restart = lose_cri_once
    assert "without its CRI" in headroom("apply", section=NOW, code=1, timeout=120).stderr
    assert lab.config.read_text() == CONTAINERD_CONFIG
    assert len(systemd.restarted) == 2


def test_apply_waits_for_a_slow_restart(lab: Lab, systemd: Any, headroom: Run) -> None:
    daemon = lab.daemons["containerd"]

    def answer_later(_unit: str) -> None:
        daemon.stop()
        systemd.unit.state = "activating"

        def come_back() -> None:
            daemon.launch()
            systemd.unit.state = "active"

        threading.Timer(3, come_back).start()

    systemd.manager.restart = answer_later
    headroom("apply", section=NOW, timeout=60)
    assert systemd.restarted == ["containerd.service"]


def test_without_a_bus_or_a_journal_there_is_no_restart(written: Any, headroom: Run, directory: Path) -> None:
    assert "no-systemd" in headroom("apply", section=NOW, code=None, env=NO_BUS).stdout
    # A directory blocks the new journal.
    (directory / "state/journal.json.new").mkdir()
    headroom("apply", section=NOW, code=1)
    assert written.restarted == []


def test_a_restart_without_effect_is_not_repeated(lab: Lab, systemd: Any, headroom: Run, agent: Start) -> None:
    systemd.manager.restart = lambda _unit: None  # containerd keeps running
    headroom("apply", section=NOW, code=None)
    assert systemd.restarted == ["containerd.service"]
    for _ in range(2):
        running = agent(CONFIG, wrap=lab.wrap)
        until(lambda: "no-effect" in [s["reason"] for s in running.status()["settings"]], running.log)
        assert (running.setting(NAME)["state"], running.setting(NAME)["reason"]) == ("failed", "no-effect")
        assert running.stop() == 0
    assert systemd.restarted == ["containerd.service"]


CAUSES = {
    "no-systemd": "systemd cannot be reached",
    "file-unusable": "file-unusable: /etc/containerd/config.toml: 2:",
    "restart-refused": "its KillMode is control-group",
}


@pytest.mark.parametrize("what", CAUSES)
def test_the_condition_names_the_reason_of_a_pending_restart(lab: Lab, written: Any, agent: Start, what: str) -> None:
    """It does not advise to set runtime.restart, which is set."""
    written.unit.kill_mode = "control-group" if what == "restart-refused" else "process"
    if what == "file-unusable":
        lab.config.write_text(lab.config.read_text().replace("version = 2", "version = = 2"))
    running = agent(CONFIG, wrap=lab.wrap, env=NO_BUS if what == "no-systemd" else {})
    name = "RuntimeWouldNotStart" if what == "file-unusable" else "RuntimeRestartPending"
    until(lambda: running.condition(name)["reason"] == what, running.log)
    assert CAUSES[what] in running.condition(name)["message"]
    found = running.wait_finding("file-unusable" if what == "file-unusable" else "restart-pending")
    assert found["keep"] == ""
    assert found["now"] == ("systemctl restart containerd.service" if what == "no-systemd" else "")
    assert written.restarted == []


@pytest.mark.parametrize("what", ["BoundBy", "not active"])
def test_a_unit_that_must_not_be_restarted_is_left_alone(lab: Lab, systemd: Any, headroom: Run, what: str) -> None:
    if what == "BoundBy":
        systemd.unit.bound = ["docker.service"]
    else:
        systemd.unit.state = "inactive"
    # Apply fails, because the value is not in force.
    assert "is not restarted" in headroom("apply", section=NOW, code=1).stderr
    assert systemd.restarted == []
    assert "max_concurrent_downloads = 10" in lab.config.read_text()
    assert setting(headroom)["state"] == "pending"


CONTAINER = """
mount --rbind / "$0"
mount -t tmpfs none /etc/containerd
mount -t tmpfs none /run
mount --bind /dev/null /usr/bin/containerd
exec "$@"
"""


def test_apply_in_a_container_edits_and_restarts_the_hosts_runtime(lab: Lab, systemd: Any, headroom: Run, directory: Path) -> None:
    """All files of the node, including containerd and the bus, are below one directory."""
    if not any(line.split()[3:5] == ["/", "/"] for line in Path("/proc/self/mountinfo").read_text().splitlines()):
        pytest.skip("vm: in a chroot, the path of a program in another mount namespace begins outside of the chroot")
    host = directory / "host"
    host.mkdir()
    wrap = (*lab.wrap, "unshare", "--mount", "--propagation", "private", "sh", "-ec", CONTAINER, str(host))
    env = {"HEADROOM_HOST_ROOT": str(host)}
    answer = headroom("apply", section=NOW, wrap=wrap, env=env)
    assert "max_concurrent_downloads = 10" in lab.config.read_text(), answer.stdout + answer.stderr
    assert systemd.restarted == ["containerd.service"], answer.stdout + answer.stderr
    assert setting(headroom)["state"] == "in-sync"
    headroom("restore", section=NOW, wrap=wrap, env=env)
    assert lab.config.read_text() == CONTAINERD_CONFIG
    # Without CAP_SYS_CHROOT the trial in the host's root is impossible, so nothing is written.
    poor = (*wrap, "setpriv", "--bounding-set=-sys_chroot", "--inh-caps=-sys_chroot")
    assert "CAP_SYS_CHROOT" in headroom("apply", section=NOW, code=1, wrap=poor, env=env).stderr
    assert lab.config.read_text() == CONTAINERD_CONFIG


def test_a_program_that_rewrites_its_file_at_each_start_is_restarted_twice(
    lab: Lab, systemd: Any, headroom: Run, agent: Start
) -> None:
    def regenerate(_unit: str) -> None:
        lab.config.write_text(CONTAINERD_CONFIG)
        lab.daemons["containerd"].restart()

    systemd.manager.restart = regenerate
    running = agent(CONFIG, wrap=lab.wrap)
    running.wait_state(NAME, "yielded")
    assert len(systemd.restarted) == 2 and running.setting(NAME)["reason"] == "restarted-too-often"
    assert running.metrics()[f'headroom_setting_drift_total{{setting="{NAME}"}}'] == 2
    message = running.wait_condition("SettingDrifted")["message"]
    assert "changed 2 times, the last time by its program when it started" in message
    assert lab.config.read_text() == CONTAINERD_CONFIG, "it is left to the other writer"
    assert running.stop() == 0  # neither apply nor another agent lifts the bound
    assert "restarted-too-often" in headroom("apply", section=NOW, code=1).stdout
    later = agent(CONFIG, wrap=lab.wrap)
    until(lambda: later.setting(NAME)["reason"] == "restarted-too-often", lambda: later.log)
    assert len(systemd.restarted) == 2, "the third one is kept for a roll-back"


def test_a_roll_back_beyond_the_budget_restores_the_file_and_names_the_command(lab: Lab, systemd: Any, agent: Start) -> None:
    """Each agent is killed while it waits for the program, so the next one rolls back again."""

    def kill_agent(_unit: str) -> None:
        systemd.unit.state = "failed"
        running.process.kill()

    systemd.manager.restart = kill_agent
    for _ in range(3):
        running = agent(CONFIG, wrap=lab.wrap)
        running.process.wait(20)
    running = agent(CONFIG, wrap=lab.wrap)
    until(lambda: running.setting(NAME)["reason"] == "did-not-come-back", lambda: running.log)
    assert "systemctl restart containerd.service" in running.wait_condition("SettingFailed")["message"]
    assert "the result of its restart is not known" not in running.log
    assert len(systemd.restarted) == 3
    assert lab.config.read_text() == CONTAINERD_CONFIG


def test_a_file_that_a_watcher_reverts_at_once_is_yielded(lab: Lab, systemd: Any, agent: Start) -> None:
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(0.05):
            if lab.config.read_text() != CONTAINERD_CONFIG:
                lab.config.write_text(CONTAINERD_CONFIG)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        running = agent(CONFIG.replace(NOW, "restart: never"), wrap=lab.wrap)
        running.wait_state(NAME, "yielded")
    finally:
        stop.set()
        watcher.join()
    assert running.metrics()[f'headroom_setting_drift_total{{setting="{NAME}"}}'] == 6
    assert "by another writer" in running.wait_condition("SettingDrifted")["message"]


def test_a_file_that_is_reverted_before_each_start_of_the_agent_is_yielded(lab: Lab, systemd: Any, agent: Start) -> None:
    """Configuration management reverts it like this in each of its runs."""
    for _ in range(6):
        running = agent(CONFIG.replace(NOW, "restart: never"), wrap=lab.wrap)
        until(lambda: running.setting(NAME)["reason"] == "restart-pending", running.log)
        running.stop()
        lab.config.write_text(CONTAINERD_CONFIG)
    running = agent(CONFIG.replace(NOW, "restart: never"), wrap=lab.wrap)
    running.wait_state(NAME, "yielded")
    assert lab.config.read_text() == CONTAINERD_CONFIG
    assert "changed 6 times" in running.wait_condition("SettingDrifted")["message"]


@pytest.fixture
def slow(lab: Lab) -> Proxy:
    """A registry with an image that needs some seconds."""
    registry = lab.registry()
    registry.push("slow", Image(1, 1 << 18))
    return lab.proxy(registry, 96 << 10)


@pytest.mark.slow
def test_a_pull_that_begins_just_before_the_restart_postpones_it(lab: Lab, systemd: Any, slow: Proxy, agent: Start) -> None:
    pulls: list[subprocess.Popen[bytes]] = []

    def begin() -> None:
        if not pulls:
            pulls.append(criwire.start_pull(lab.containerd_socket, f"{slow.name}/slow:latest"))
            until(lambda: slow.now > 0, "the pull has begun")

    systemd.unit.on_ask = begin
    running = agent(CONFIG.replace(NOW, "restart: when-idle"), wrap=lab.wrap)
    until(lambda: pulls, running.log)
    criwire.finish(pulls[0])
    until(lambda: running.setting(NAME)["state"] == "in-sync", lambda: running.log)
    assert systemd.restarted == ["containerd.service"]


def test_preloads_wait_for_a_restart_and_it_for_them(lab: Lab, systemd: Any, slow: Proxy, agent: Start) -> None:
    images = f"images: {{mode: enforce, pin: [], pull: ['{slow.name}/slow:latest']}}\n"
    running = agent(CONFIG.replace(NOW, "restart: when-idle") + images, wrap=lab.wrap)
    until(lambda: running.setting(NAME)["state"] == "in-sync", lambda: running.log)
    until(lambda: running.status()["images"][0]["state"] in ("ready", "failed"), lambda: running.log)
    assert running.status()["images"][0]["state"] == "ready", running.log
    assert systemd.restarted == ["containerd.service"] and len(slow.blobs) == 1, "no pull was cut off"


def test_sigterm_ends_the_agent_while_a_runtime_does_not_answer(lab: Lab, systemd: Any, agent: Start) -> None:
    def fail(_unit: str) -> None:
        lab.daemons["containerd"].stop()
        systemd.unit.state = "activating"

    systemd.manager.restart = fail
    one = agent(CONFIG, wrap=lab.wrap)
    until(lambda: systemd.restarted, "restarted")
    time.sleep(0.5)
    began = time.monotonic()
    assert one.stop() == 0
    assert time.monotonic() - began < 1.0 * SLACK
