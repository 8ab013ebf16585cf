# SPDX-License-Identifier: Apache-2.0
"""Observe mode and plan do not write: strace shows all calls."""

import re
import signal
import time
from pathlib import Path

import pytest
from conftest import ASAN, DEFAULTS, THRESHOLDS, Node, sysctl, until

CALLS = (
    "open,openat,openat2,creat,truncate,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,"
    "link,linkat,symlink,symlinkat,mount,sendto,sendmsg,sendmmsg,write,pwrite64,writev,bpf"
)
WRITING = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND")


def strace(out: Path) -> tuple[str, ...]:
    return ("strace", "-f", "-q", "-s", "300", "-o", str(out), "-e", f"trace={CALLS}", "-e", "signal=none")


def writes(trace: str, directory: Path, but_incidents: bool = False) -> list[str]:
    """The calls that can write below /proc/sys, /sys or the directories of records."""
    guarded = ("/proc/sys", "/sys/", str(directory / "state"), 'values', 'lock"')
    found = []
    for line in trace.splitlines():
        if but_incidents and (f'"{directory}/state/incidents' in line or f'mkdir("{directory}/state"' in line):
            continue  # what happened: it changes nothing on the node
        if "RTM_SETNEIGHTBL" in line:
            found.append(line)
        elif re.search(r" (rename|unlink|mkdir|link|symlink|truncate|creat|mount)\w*\(", line):
            if any(f'"{g}' in line for g in guarded):
                found.append(line)
        elif re.search(r" open(at2?)?\(", line) and WRITING.search(line):
            if any(f'"{g}' in line for g in guarded):
                found.append(line)
    return found


@pytest.fixture(autouse=True)
def no_sanitizers() -> None:
    assert not ASAN, "the leak sanitizer does not work under strace"


def test_observe_mode_writes_nothing(node: Node, directory: Path, agent, run) -> None:
    out = directory / "trace"
    (directory / "state").mkdir(0o700)
    one = agent("mode: observe", wrap=strace(out))
    settings = {s["name"]: s for s in one.status()["settings"]}
    assert settings[THRESHOLDS[2]]["state"] == "observed"
    assert settings[THRESHOLDS[2]]["wanted"] == "100000"
    sysctl(THRESHOLDS[2], int(sysctl(THRESHOLDS[2])) + 1)  # a drift
    one.reload()
    time.sleep(2.2)  # two ticks
    one.metrics()
    assert run("plan").returncode in (0, 2)
    one.signal(signal.SIGTERM)
    assert one.process.wait(10) == 0
    trace = out.read_text()
    assert "/proc/sys/" in trace, "the trace contains the reads"
    assert writes(trace, directory, but_incidents=True) == []
    assert [path.name for path in (directory / "state").iterdir()] == ["incidents"]
    node.assert_unchanged(but=("ipv4/neigh/default/gc_thresh3",))


def test_the_same_trace_shows_writes_in_enforce_mode(directory: Path, agent, run) -> None:
    """The control of the test above: the same search finds the writes of an enforcing agent."""
    out = directory / "trace"
    one = agent(wrap=strace(out))
    one.signal(signal.SIGTERM)
    assert one.process.wait(10) == 0
    found = "\n".join(writes(out.read_text(), directory))
    assert "RTM_SETNEIGHTBL" in found
    assert "/sys/kernel/mm/transparent_hugepage" in found
    assert str(directory / "state") in found and '"values' in found
    assert run("restore").returncode == 0


def test_plan_writes_nothing(node: Node, directory: Path, run) -> None:
    out = directory / "trace"
    assert run("plan", wrap=strace(out)).returncode == 2
    assert writes(out.read_text(), directory) == []
    assert not (directory / "state").exists()
    node.assert_unchanged()


def test_one_tuner_observes_and_the_other_enforces(node: Node, agent) -> None:
    one = agent("neighbor: {mode: observe}")
    until(lambda: one.setting("thp.enabled")["state"] == "in-sync", "thp is enforced")
    assert one.setting(THRESHOLDS[0])["state"] == "observed"
    assert all(p.startswith("/sys/") or p.endswith("min_free_kbytes") or "neigh" not in p for p in node.changes())


def test_a_tuner_that_is_off_has_no_settings(node: Node, agent) -> None:
    one = agent("neighbor: {mode: off}")
    assert one.tuner("neighbor")["mode"] == "off"
    names = {s["name"] for s in one.status()["settings"]}
    assert not names & set(DEFAULTS)
    assert not any("neigh" in p for p in node.changes())
