# SPDX-License-Identifier: Apache-2.0
"""The agent is killed while a real containerd restarts: the next one sees to what comes of it."""

import json
from pathlib import Path
from typing import Any, Callable

import pytest
from conftest import Agent, until
from fakesystemd import Systemd
from runtimelab import CONTAINERD_CONFIG, Lab, lab  # noqa: F401

NAME = "containerd.max_concurrent_downloads"
CONFIG = "mode: observe\nruntime: {{mode: enforce, restart: {}, max_concurrent_downloads: {}}}\n"


def marks(directory: Path) -> list[dict[str, Any]]:
    body = json.loads((directory / "state/journal.json").read_text())["body"]
    return body.get("restarts", [])


def is_over(directory: Path) -> Callable[[], bool]:
    return lambda: bool(marks(directory)) and not marks(directory)[0]["open"]


def found(agent: Agent) -> dict[str, Any]:
    """The setting; nothing until the runtime has answered."""
    return next((s for s in agent.status()["settings"] if s["name"] == NAME), {})


def is_given_up(agent: Agent) -> Callable[[], bool]:
    return lambda: found(agent).get("reason") == "did-not-come-back"


def is_in_sync(agent: Agent) -> Callable[[], bool]:
    return lambda: found(agent).get("state") == "in-sync"


def killed_amid(lab: Lab, agent: Callable[..., Agent], comes_back: bool) -> tuple[Systemd, list[bool]]:
    """An agent that is no more at the moment when systemd has been asked for a restart."""
    systemd = lab.with_systemd()
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
    return systemd, open_then


@pytest.mark.quick
@pytest.mark.parametrize("who", ["agent", "apply"])
def test_the_runtime_does_not_come_back(
    lab: Lab, directory: Path, agent: Callable[..., Agent], run: Callable[..., Any], who: str
) -> None:
    daemon = lab.containerd()
    systemd, open_then = killed_amid(lab, agent, comes_back=False)
    assert open_then == [True], "it was durable before systemd was asked"
    if who == "agent":
        after = agent(CONFIG.format("now", 10), wrap=lab.wrap)
        until(is_given_up(after), after.log)
        until(lambda: "with the file from before" in after.log, after.log)
        assert after.stop() == 0
    else:
        answer = run("apply", "--config", str(directory / "agent.yaml"), wrap=lab.wrap, timeout=90)
        assert answer.returncode == 1, answer.stdout + answer.stderr
        assert "does not answer" in answer.stderr
    assert is_over(directory)()
    assert lab.config.read_bytes() == CONTAINERD_CONFIG.encode()
    assert len(systemd.restarted) == 2
    assert daemon.alive() and daemon.answers()
    # Nor does a later one try again.
    later = agent(CONFIG.format("now", 10), wrap=lab.wrap)
    until(is_given_up(later), later.log)
    assert len(systemd.restarted) == 2


def test_the_runtime_comes_back(lab: Lab, directory: Path, agent: Callable[..., Agent], run: Callable[..., Any]) -> None:
    lab.containerd()
    systemd, open_then = killed_amid(lab, agent, comes_back=True)
    assert open_then == [True]
    after = agent(CONFIG.format("now", 10), wrap=lab.wrap)
    until(is_over(directory), f"it is over\n{after.log}")
    until(is_in_sync(after), after.log)
    assert after.setting(NAME)["actual"] == "10"
    assert "max_concurrent_downloads = 10" in lab.config.read_text()
    assert len(systemd.restarted) == 1
    assert after.stop() == 0
    assert run("restore", wrap=lab.wrap).returncode == 0
    assert lab.config.read_bytes() == CONTAINERD_CONFIG.encode()


@pytest.mark.slow
def test_without_systemd_it_stays_open(lab: Lab, directory: Path, agent: Callable[..., Agent], run: Callable[..., Any]) -> None:
    lab.containerd()
    killed_amid(lab, agent, comes_back=False)
    config = directory / "agent.yaml"
    env = {"DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nonexistent/bus"}
    run("apply", "--config", str(config), wrap=lab.wrap, env=env, timeout=90)
    assert marks(directory)[0]["open"]
    # What the configuration forbids by now is left as it is.
    config.write_text(CONFIG.format("never", 10))
    run("apply", "--config", str(config), wrap=lab.wrap, timeout=90)
    assert is_over(directory)()
    assert "max_concurrent_downloads = 10" in lab.config.read_text()


def test_the_hour_of_when_idle_outlives_the_agent(lab: Lab, directory: Path, agent: Callable[..., Agent]) -> None:
    lab.containerd()
    systemd = lab.with_systemd()
    first = agent(CONFIG.format("when-idle", 10), wrap=lab.wrap)
    until(is_in_sync(first), first.log)
    until(is_over(directory), first.log)
    assert len(systemd.restarted) == 1
    first.kill()
    second = agent(CONFIG.format("when-idle", 12), wrap=lab.wrap, env={"WATCHDOG_USEC": "3000000"})
    until(lambda: "max_concurrent_downloads = 12" in lab.config.read_text(), second.log)
    looks = len(second.notified("WATCHDOG=1"))
    until(lambda: len(second.notified("WATCHDOG=1")) >= looks + 3, second.log)
    last = found(second)
    assert (last["state"], last["reason"], last["actual"]) == ("pending", "restart-pending", "10")
    assert len(systemd.restarted) == 1
