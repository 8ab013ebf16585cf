# SPDX-License-Identifier: Apache-2.0
"""The agent is killed while a real containerd restarts. The next agent finishes or undoes the restart."""

import json
from pathlib import Path
from typing import Any, Callable

import pytest
from conftest import Run, Start, until
from fakesystemd import Systemd
from runtimelab import CONTAINERD_CONFIG, Lab, lab, systemd  # noqa: F401
from test_runtime import wait_reason, wait_setting

NAME = "containerd.max_concurrent_downloads"
CONFIG = "mode: observe\nruntime: {{mode: enforce, restart: {}, max_concurrent_downloads: {}}}\n"


def marks(directory: Path) -> list[dict[str, Any]]:
    body = json.loads((directory / "state/journal.json").read_text())["body"]
    return body.get("restarts", [])


def is_over(directory: Path) -> Callable[[], bool]:
    return lambda: bool(marks(directory)) and not marks(directory)[0]["open"]


def killed_amid(lab: Lab, systemd: Systemd, agent: Start, comes_back: bool) -> None:
    """Kills the agent at the moment of its call to systemd."""
    daemon = lab.daemons["containerd"]
    open_then: list[bool] = []

    def restart(_unit: str) -> None:
        if len(systemd.restarted) > 1 or comes_back:
            systemd.unit.state = "active"
            daemon.restart()
        else:
            systemd.unit.state = "failed"
            daemon.stop()
        if len(systemd.restarted) == 1:
            open_then.append(marks(agent_then.directory)[0]["open"])
            agent_then.kill()

    systemd.manager.restart = restart
    agent_then = agent(CONFIG.format("now", 10), ready=False, wrap=lab.wrap)
    until(lambda: agent_then.process.poll() is not None, f"killed\n{agent_then.log}")
    assert systemd.restarted == ["containerd.service"]
    assert "max_concurrent_downloads = 10" in lab.config.read_text()
    assert open_then == [True], "the record was durable before the call"


@pytest.mark.quick
@pytest.mark.parametrize("who", ["agent", "apply"])
def test_the_next_agent_or_apply_rolls_back_if_the_runtime_stays_down(lab: Lab, systemd: Systemd, directory: Path, agent: Start, run: Run, who: str) -> None:
    killed_amid(lab, systemd, agent, comes_back=False)
    daemon = lab.daemons["containerd"]
    if who == "agent":
        after = agent(CONFIG.format("now", 10), wrap=lab.wrap)
        wait_reason(after, NAME, "did-not-come-back")
        until(lambda: "with its old file" in after.log, after.log)
        assert after.stop() == 0
    else:
        answer = run("apply", "--config", str(directory / "agent.yaml"), wrap=lab.wrap, timeout=90)
        assert answer.returncode == 1, answer.stdout + answer.stderr
        assert "does not answer" in answer.stderr
    assert is_over(directory)()
    assert lab.config.read_bytes() == CONTAINERD_CONFIG.encode()
    assert len(systemd.restarted) == 2
    assert daemon.alive() and daemon.answers()
    # A later agent does not try again.
    later = agent(CONFIG.format("now", 10), wrap=lab.wrap)
    wait_reason(later, NAME, "did-not-come-back")
    assert len(systemd.restarted) == 2


def test_the_next_agent_closes_the_record_if_the_runtime_runs(lab: Lab, systemd: Systemd, directory: Path, agent: Start, run: Run) -> None:
    killed_amid(lab, systemd, agent, comes_back=True)
    after = agent(CONFIG.format("now", 10), wrap=lab.wrap)
    until(is_over(directory), f"the record is closed\n{after.log}")
    assert wait_setting(after, NAME, "in-sync")["actual"] == "10"
    assert "max_concurrent_downloads = 10" in lab.config.read_text()
    assert len(systemd.restarted) == 1
    assert after.stop() == 0
    assert run("restore", wrap=lab.wrap).returncode == 0
    assert lab.config.read_bytes() == CONTAINERD_CONFIG.encode()


@pytest.mark.slow
def test_the_record_stays_open_without_systemd(lab: Lab, systemd: Systemd, directory: Path, agent: Start, run: Run) -> None:
    killed_amid(lab, systemd, agent, comes_back=False)
    config = directory / "agent.yaml"
    env = {"DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nonexistent/bus"}
    run("apply", "--config", str(config), wrap=lab.wrap, env=env, timeout=90)
    assert marks(directory)[0]["open"]
    # With restart: never the runtime and its file stay as they are.
    config.write_text(CONFIG.format("never", 10))
    run("apply", "--config", str(config), wrap=lab.wrap, timeout=90)
    assert is_over(directory)()
    assert "max_concurrent_downloads = 10" in lab.config.read_text()


def test_the_hourly_limit_of_when_idle_survives_the_agent(lab: Lab, systemd: Systemd, directory: Path, agent: Start) -> None:
    first = agent(CONFIG.format("when-idle", 10), wrap=lab.wrap)
    wait_setting(first, NAME, "in-sync")
    until(is_over(directory), first.log)
    assert len(systemd.restarted) == 1
    first.kill()
    second = agent(CONFIG.format("when-idle", 12), wrap=lab.wrap, env={"WATCHDOG_USEC": "3000000"})
    until(lambda: "max_concurrent_downloads = 12" in lab.config.read_text(), second.log)
    beats = len(second.notified("WATCHDOG=1"))
    until(lambda: len(second.notified("WATCHDOG=1")) >= beats + 3, second.log)
    last = second.setting(NAME)
    assert (last["state"], last["reason"], last["actual"]) == ("pending", "restart-pending", "10")
    assert len(systemd.restarted) == 1
