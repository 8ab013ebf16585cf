# SPDX-License-Identifier: Apache-2.0
"""Notifications, signals and the log, as a service manager sees them."""

import contextlib
import json
import re
import signal
import socket
import time
from pathlib import Path

import pytest
from conftest import DEFAULTS, SLACK, Node, sysctl, until


@pytest.mark.quick
def test_ready_is_sent_after_the_first_apply(agent) -> None:
    one = agent(ready=False)
    until(lambda: one.notified("READY=1"), "READY=1")
    assert {name: sysctl(name) for name in DEFAULTS} == DEFAULTS
    assert one.get("/readyz")[0] == 200
    assert len(one.notified("READY=1")) == 1


@pytest.mark.quick
def test_status_is_one_short_line(agent) -> None:
    one = agent()
    until(lambda: one.notified("STATUS="), "STATUS=")
    for line in one.notified("STATUS="):
        assert 8 < len(line) < 200 and line.isprintable()
    time.sleep(2.2)
    assert len(one.notified("STATUS=")) <= 3, "sent on changes only"


@pytest.mark.quick
def test_the_watchdog_is_fed(agent) -> None:
    one = agent(env={"WATCHDOG_USEC": "3000000"})
    begin = time.monotonic()
    until(lambda: len(one.notified("WATCHDOG=1", begin)) >= 3, "WATCHDOG=1 again and again")
    beats = [when for when, line in one.notices if line == "WATCHDOG=1" and when >= begin]
    gaps = [b - a for a, b in zip(beats, beats[1:])]
    assert max(gaps) < 2.0 * SLACK, "well below the timeout"


@pytest.mark.quick
def test_reload_is_announced(agent) -> None:
    one = agent()
    since = time.monotonic()
    one.signal(signal.SIGHUP)
    until(lambda: one.notified("READY=1", since), "READY=1")
    assert one.notified("RELOADING=1", since)
    stamps = one.notified("MONOTONIC_USEC=", since)
    assert stamps and int(stamps[0].split("=")[1]) > 0
    order = [line for when, line in one.notices if when >= since and line in ("RELOADING=1", "READY=1")]
    # The next tick repeats READY=1, and a busy machine may receive it here.
    assert order[:2] == ["RELOADING=1", "READY=1"] and "RELOADING=1" not in order[2:]


@pytest.mark.quick
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_sigterm_ends_the_agent_within_a_second_and_restores_nothing(agent, number: signal.Signals) -> None:
    one = agent()
    began = time.monotonic()
    one.signal(number)
    assert one.process.wait(10) == 0
    assert time.monotonic() - began < 1.0 * SLACK
    until(lambda: one.notified("STOPPING=1"), "STOPPING=1")
    assert {name: sysctl(name) for name in DEFAULTS} == DEFAULTS
    assert not one.socket_path.exists()


def test_sigterm_ends_the_agent_at_any_moment_of_its_start(node: Node, agent, run) -> None:
    for i in range(12):
        one = agent(ready=False, name=f"agent{i}")
        time.sleep(i * 0.015)
        began = time.monotonic()
        one.process.send_signal(signal.SIGTERM)
        assert one.process.wait(10) in (0, -signal.SIGTERM)  # -SIGTERM before the handler is installed
        assert time.monotonic() - began < 1.0 * SLACK
    assert run("restore").returncode == 0
    node.assert_unchanged()


def test_the_agent_runs_without_a_service_manager(agent) -> None:
    one = agent(env={"NOTIFY_SOCKET": ""}, ready=False)
    until(lambda: one.socket_path.exists() and one.get("/readyz")[0] == 200, "ready")
    assert one.stop() == 0


@pytest.mark.quick
def test_the_log_is_short_and_plain(agent) -> None:
    one = agent()
    time.sleep(1.2)
    assert one.stop() == 0
    lines = one.log.splitlines()
    assert len(lines) < 60
    for line in lines:
        assert re.match(r"headroom: 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ (error|warning|notice|info): \S.*: ", line) and line.isprintable(), line


@pytest.mark.apart
def test_the_log_is_json_if_asked_for(agent) -> None:
    one = agent("mode: observe\nlog: json\nnode_name: ${X}\n")
    until(lambda: "version " in one.log, "it has started")
    assert one.stop() == 0
    lines = [json.loads(line) for line in one.log.splitlines()]
    warning = next(line for line in lines if line["object"] == "config")
    assert warning["level"] == "warning" and "is literal" in warning["message"]
    assert all(re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", line["time"]) and re.fullmatch("[0-9a-f]{32}", line["message_id"]) for line in lines)


@pytest.mark.apart
def test_the_log_is_json_with_the_last_good_configuration_too(agent) -> None:
    off = "".join(f"{tuner}: {{mode: off}}\n" for tuner in ("neighbor", "thp", "dns", "runtime", "images", "kubelet", "limits"))
    one = agent(f"profile: minimal\nlog: json\n{off}")  # one that only observes keeps no configuration
    until(lambda: (one.directory / "state/config.json").exists(), "the last good configuration")
    assert one.stop() == 0
    one = agent("mode: wrong\n")
    one.wait_condition("ConfigInvalid")
    one.write_config("mode: false\n")
    until(lambda: '\\"false\\"' in one.log, "the next fault")
    assert one.stop() == 0
    lines = [json.loads(line) for line in one.log.splitlines()]
    for word in ("wrong", "false"):
        fault = next(line for line in lines if f'mode: "{word}" is not a valid choice' in line["message"])
        assert fault["object"] == "config" and fault["level"] == "error", fault


@pytest.mark.apart
def test_the_journal_gets_fields(directory: Path, agent) -> None:
    """The socket of the journal is the test's, in a mount namespace of the agent."""
    journal = directory / "journal"
    journal.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(journal / "socket"))
        receiver.settimeout(0.2)
        script = f'mkdir -p /run/systemd/journal && mount --bind {journal} /run/systemd/journal && JOURNAL_STREAM=$(stat -L -c %d:%i /dev/stderr) exec "$@"'
        one = agent("mode: observe\n", wrap=("unshare", "--mount", "sh", "-c", script, "sh"))
        one.write_config("mode: wrong\n")
        one.wait_condition("ConfigInvalid")
        time.sleep(1)
        entries = []
        with contextlib.suppress(TimeoutError):
            while True:
                entries.append(dict(line.split("=", 1) for line in receiver.recv(1 << 16).decode().splitlines() if "=" in line))
    found = next(entry for entry in entries if entry.get("HEADROOM_CONDITION") == "ConfigInvalid")
    assert found["PRIORITY"] == "4" and found["SYSLOG_IDENTIFIER"] == "headroom" and found["HEADROOM_REASON"], found
    assert found["MESSAGE"].startswith("ConfigInvalid: ")
    other = next(entry for entry in entries if "HEADROOM_CONDITION" not in entry)
    assert re.fullmatch("[0-9a-f]{32}", other["MESSAGE_ID"]) and other["MESSAGE_ID"] != found["MESSAGE_ID"]
    kinds = {entry["MESSAGE"].split(":")[0]: entry["MESSAGE_ID"] for entry in entries if entry["HEADROOM_OBJECT"] in ("agent", "config")}
    assert kinds == {"agent": "7d1f6a0c5c0b4b6e9f3ad0c1a2e45b15", "config": "7d1f6a0c5c0b4b6e9f3ad0c1a2e45b17"}, "as in headroom(8)"
    assert one.log == "", "nothing goes to stderr"


def test_a_closed_stdout_does_not_end_the_agent(agent) -> None:
    one = agent(wrap=("sh", "-c", 'exec "$@" >&- 2>&-', "sh"))
    one.reload()
    assert one.get("/livez")[0] == 200
    assert one.stop() == 0


@pytest.mark.quick
def test_the_log_names_the_configuration_at_the_start_and_the_changes_at_a_reload(agent) -> None:
    one = agent("mode: observe\nprofile: etcd\nneighbor: {grow: true}\n")
    started = until(lambda: next((line for line in one.log.splitlines() if ": version " in line), None))
    for part in ("observing", "profile etcd", f"127.0.0.1:{one.port}", str(one.socket_path), f"configuration: {one.config_path}"):
        assert part in started, started
    one.write_config("mode: observe\nprofile: minimal\nneighbor: {grow: false}\n")
    one.reload()
    changes = [line.partition("loaded, changed: ")[2] for line in one.log.splitlines() if "loaded, changed: " in line]
    assert len(changes) == 1 and {"profile", "neighbor.grow"} <= set(changes[0].split(", ")), one.log
    assert "mode" not in changes[0].split(", ")
    one.reload()
    assert "loaded, changed: nothing\n" in one.log
