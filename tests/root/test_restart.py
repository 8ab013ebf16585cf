# SPDX-License-Identifier: Apache-2.0
"""A real containerd, restarted through systemd's interface by `headroom apply`: only where it may be."""

import json
import threading
import time
from pathlib import Path
from typing import Any, Callable

import pytest
from conftest import SLACK, Agent, until
from runtimelab import CONTAINERD_CONFIG, Lab, lab  # noqa: F401

NAME = "containerd.max_concurrent_downloads"
CONFIG = 'mode: observe\nhttp: {listen: ""}\nruntime: {mode: enforce, restart: now}\n'


@pytest.fixture
def config(directory: Path) -> str:
    path = directory / "a.yaml"
    path.write_text(CONFIG)
    return str(path)


def written_and_not_restarted(lab: Lab, run: Callable[..., Any], directory: Path) -> Any:
    """A containerd whose file is as wanted already. Its systemd."""
    lab.containerd()
    systemd = lab.with_systemd()
    never = directory / "never.yaml"
    never.write_text(CONFIG.replace("now", "never"))
    assert run("apply", "--config", str(never), wrap=lab.wrap).returncode == 0
    return systemd


def setting(run: Callable[..., Any], lab: Lab, config: str) -> dict[str, Any]:
    document = json.loads(run("status", "--json", "--config", config, wrap=lab.wrap).stdout)
    return next(s for s in document["settings"] if s["name"] == NAME)


@pytest.mark.quick
def test_now_means_that_it_is_in_force(lab: Lab, run: Callable[..., Any], config: str) -> None:
    lab.containerd()
    systemd = lab.with_systemd()
    answer = run("apply", "--config", config, wrap=lab.wrap)
    assert answer.returncode == 0, answer.stderr
    assert systemd.restarted == ["containerd.service"]
    found = setting(run, lab, config)
    assert (found["actual"], found["original"], found["state"]) == ("10", "3", "in-sync"), found
    assert run("apply", "--config", config, wrap=lab.wrap).stdout == "Nothing to change.\n"
    assert len(systemd.restarted) == 1
    assert run("restore", wrap=lab.wrap).returncode == 0
    assert lab.config.read_text() == CONTAINERD_CONFIG
    assert len(systemd.restarted) == 2, "the old file takes effect by the same policy"


def fail_once(daemon: Any, systemd: Any, meanwhile: Callable[[], Any]) -> None:
    """The first restart fails, after something has happened to the files; the next one starts it."""

    def restart(_unit: str) -> None:
        daemon.stop()
        if len(systemd.restarted) > 1:
            systemd.unit.state = "active"
            daemon.launch()
        else:
            meanwhile()
            systemd.unit.state = "failed"

    systemd.manager.restart = restart


BY_OTHERS = {
    "nothing": lambda text: text,
    "another line": lambda text: text + "# by someone else\n",
    "no TOML": lambda text: CONTAINERD_CONFIG.replace("version = 2", "version = = 2"),
}


@pytest.mark.parametrize("meanwhile", BY_OTHERS)
def test_a_runtime_that_does_not_come_back_gets_its_old_file(
    lab: Lab, run: Callable[..., Any], config: str, directory: Path, meanwhile: str
) -> None:
    """What others wrote stays; where it does not load, the bytes from before replace it, and theirs are kept."""
    daemon = lab.containerd()
    systemd = lab.with_systemd()
    change = BY_OTHERS[meanwhile]
    old = CONTAINERD_CONFIG if meanwhile == "no TOML" else change(CONTAINERD_CONFIG)

    fail_once(daemon, systemd, lambda: lab.config.write_text(change(lab.config.read_text())))
    answer = run("apply", "--config", config, wrap=lab.wrap, timeout=90)
    assert answer.returncode == 1
    assert "does not answer" in answer.stderr
    assert lab.config.read_text() == old
    assert len(systemd.restarted) == 2
    assert daemon.alive() and daemon.answers()
    found = setting(run, lab, config)
    assert (found["state"], found["reason"]) == ("failed", "did-not-come-back"), found
    if meanwhile == "no TOML":
        assert "theirs are kept as rejected-config.toml" in answer.stderr, answer.stderr
        assert (directory / "state/rejected-config.toml").read_text() == change("")
    # Asked for once more, it is tried once more.
    systemd.manager.restart = lambda _unit: daemon.restart()
    assert run("apply", "--config", config, wrap=lab.wrap).returncode == 0
    assert len(systemd.restarted) == 3
    assert run("restore", wrap=lab.wrap).returncode == 0
    assert lab.config.read_text() == old


def test_a_runtime_without_its_cri_is_not_back(lab: Lab, run: Callable[..., Any], config: str) -> None:
    """It runs and listens, and the kubelet could start no pod: as with a plugin that did not load."""
    daemon = lab.containerd()
    systemd = lab.with_systemd()
    lab.write("etc/without.toml", 'version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n')

    def lose_cri_once(_unit: str) -> None:
        broken = len(systemd.restarted) == 1
        daemon.command = ["containerd", "-c", "/etc/without.toml"] if broken else ["containerd"]
        daemon.restart()

    systemd.manager.restart = lose_cri_once
    answer = run("apply", "--config", config, wrap=lab.wrap, timeout=120)
    assert answer.returncode == 1
    assert "without its CRI" in answer.stderr
    assert lab.config.read_text() == CONTAINERD_CONFIG
    assert len(systemd.restarted) == 2


def test_a_slow_restart_is_waited_for(lab: Lab, run: Callable[..., Any], config: str) -> None:
    daemon = lab.containerd()
    systemd = lab.with_systemd()

    def answer_later(_unit: str) -> None:
        daemon.stop()
        systemd.unit.state = "activating"

        def come_back() -> None:
            daemon.launch()
            systemd.unit.state = "active"

        threading.Timer(3, come_back).start()

    systemd.manager.restart = answer_later
    answer = run("apply", "--config", config, wrap=lab.wrap, timeout=60)
    assert answer.returncode == 0, answer.stderr
    assert systemd.restarted == ["containerd.service"]


@pytest.mark.parametrize("what", ["no bus", "no journal"])
def test_without_what_it_needs_there_is_no_restart(
    lab: Lab, run: Callable[..., Any], config: str, directory: Path, what: str
) -> None:
    systemd = written_and_not_restarted(lab, run, directory)
    env = {"DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nonexistent/bus"} if what == "no bus" else {}
    if what == "no journal":  # a directory where the new one is to be written
        (directory / "state/journal.json.new").mkdir()
    answer = run("apply", "--config", config, wrap=lab.wrap, env=env)
    assert answer.returncode == 1 if what == "no journal" else "no-systemd" in answer.stdout, answer.stdout
    assert systemd.restarted == []


def test_a_broken_file_is_not_restarted_into(lab: Lab, run: Callable[..., Any], config: str, directory: Path) -> None:
    systemd = written_and_not_restarted(lab, run, directory)
    daemon = lab.daemons["containerd"]
    lab.config.write_text(lab.config.read_text().replace("version = 2", "version = = 2"))
    run("apply", "--config", config, wrap=lab.wrap)
    assert systemd.restarted == []
    assert daemon.alive() and daemon.answers()


def test_a_restart_without_effect_is_not_repeated(
    lab: Lab, run: Callable[..., Any], config: str, agent: Callable[..., Agent]
) -> None:
    lab.containerd()
    systemd = lab.with_systemd()
    systemd.manager.restart = lambda _unit: None  # it runs on with what it read at its start
    run("apply", "--config", config, wrap=lab.wrap)
    assert systemd.restarted == ["containerd.service"]
    for _ in range(2):
        running = agent(CONFIG, wrap=lab.wrap)
        until(lambda: "no-effect" in [s["reason"] for s in running.status()["settings"]], running.log)
        assert (running.setting(NAME)["state"], running.setting(NAME)["reason"]) == ("failed", "no-effect")
        assert running.stop() == 0
    assert systemd.restarted == ["containerd.service"]


@pytest.mark.parametrize(
    "what", ["no-systemd", "file-unusable", "restart-refused", pytest.param("no-effect", marks=pytest.mark.slow)]
)
def test_the_condition_names_what_holds_the_restart_up(
    lab: Lab, run: Callable[..., Any], agent: Callable[..., Agent], directory: Path, what: str
) -> None:
    """And not runtime.restart to an administrator who has set it."""
    systemd = written_and_not_restarted(lab, run, directory)
    systemd.manager.restart = lambda _unit: None
    systemd.unit.kill_mode = "control-group" if what == "restart-refused" else "process"
    if what == "file-unusable":
        lab.config.write_text(lab.config.read_text().replace("version = 2", "version = = 2"))
    env = {"DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nonexistent/bus"} if what == "no-systemd" else {}
    running = agent(CONFIG, wrap=lab.wrap, env=env)
    until(lambda: running.condition("RuntimeRestartPending")["reason"] == what, running.log)
    message = running.condition("RuntimeRestartPending")["message"]
    cause = {
        "no-systemd": "systemd cannot be reached",
        "file-unusable": "cannot be restarted with a broken file: /etc/containerd/config.toml:2:",
        "restart-refused": "its KillMode is control-group",
        "no-effect": "does not run with it",
    }
    assert cause[what] in message and "set runtime.restart" not in message


@pytest.mark.parametrize("what", ["KillMode", "BoundBy", "not active"])
def test_what_must_not_be_restarted_is_not(lab: Lab, run: Callable[..., Any], config: str, what: str) -> None:
    lab.containerd()
    systemd = lab.with_systemd()
    if what == "KillMode":
        systemd.unit.kill_mode = "control-group"
    elif what == "BoundBy":
        systemd.unit.bound = ["docker.service"]
    else:
        systemd.unit.state = "inactive"
    answer = run("apply", "--config", config, wrap=lab.wrap)
    assert answer.returncode == 1, "what is not in force could not be set"
    assert "is not restarted" in answer.stderr
    assert systemd.restarted == []
    assert "max_concurrent_downloads = 10" in lab.config.read_text()
    assert setting(run, lab, config)["state"] == "pending"


CONTAINER = """
mount --rbind / "$0"
mount -t tmpfs none /etc/containerd
mount -t tmpfs none /run
mount --bind /dev/null /usr/bin/containerd
exec "$@"
"""


def test_from_a_container(lab: Lab, run: Callable[..., Any], config: str, directory: Path) -> None:
    """Nothing of the node is where it usually is, but all below one directory: its containerd and its bus too."""
    host = directory / "host"
    host.mkdir()
    lab.containerd()
    systemd = lab.with_systemd()
    wrap = (*lab.wrap, "unshare", "--mount", "--propagation", "private", "sh", "-ec", CONTAINER, str(host))
    env = {"HEADROOM_HOST_ROOT": str(host)}
    answer = run("apply", "--config", config, wrap=wrap, env=env)
    assert answer.returncode == 0, answer.stderr
    assert "max_concurrent_downloads = 10" in lab.config.read_text(), answer.stdout + answer.stderr
    assert systemd.restarted == ["containerd.service"], answer.stdout + answer.stderr
    assert setting(run, lab, config)["state"] == "in-sync"
    # Without the right to go into the host's root nothing is tried out, and nothing written.
    lab.write("etc/containerd/config.toml", CONTAINERD_CONFIG)
    poor = (*wrap, "setpriv", "--bounding-set=-sys_chroot", "--inh-caps=-sys_chroot")
    answer = run("apply", "--config", config, wrap=poor, env=env)
    assert answer.returncode == 1
    assert "CAP_SYS_CHROOT" in answer.stderr
    assert lab.config.read_text() == CONTAINERD_CONFIG


def test_sigterm_ends_the_agent_while_a_runtime_does_not_answer(lab: Lab, agent: Callable[..., Any]) -> None:
    daemon = lab.containerd()
    systemd = lab.with_systemd()

    def fail(_unit: str) -> None:
        daemon.stop()
        systemd.unit.state = "activating"

    systemd.manager.restart = fail
    one = agent(CONFIG, wrap=lab.wrap)
    until(lambda: systemd.restarted, "restarted")
    time.sleep(0.5)
    began = time.monotonic()
    assert one.stop() == 0
    assert time.monotonic() - began < 1.0 * SLACK
