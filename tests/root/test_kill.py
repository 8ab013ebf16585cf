# SPDX-License-Identifier: Apache-2.0
"""The journal outlives SIGKILL, torn files and a full disk."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import ASAN, BIN, DEFAULTS, THP, THRESHOLDS, Node, chosen, environment, sysctl, thresholds, until

OTHER = """\
profile: minimal
neighbor: {ipv4: {gc_thresh1: 3000, gc_thresh2: 4000, gc_thresh3: 5000}, ipv6: {gc_thresh1: 300, gc_thresh2: 600, gc_thresh3: 700}, lower: true}
thp: {enabled: always, defrag: defer, shmem: advise, sizes: inherit}
"""
ROUNDS = 30 if ASAN else 200


@pytest.mark.parametrize("seed", [1])
def test_killed_200_times_while_two_configs_take_turns(node: Node, directory: Path, run, seed: int) -> None:
    (directory / "a.yaml").write_text('http: {listen: ""}\n')
    (directory / "b.yaml").write_text('http: {listen: ""}\n' + OTHER)
    dice = random.Random(seed)
    touched = 0
    for i in range(ROUNDS):
        with (directory / "log").open("ab") as log:
            agent = subprocess.Popen(
                [BIN, "agent", "--config", directory / ("a.yaml", "b.yaml")[i % 2]],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(directory),
            )
            time.sleep(dice.uniform(0, 0.4))
            agent.send_signal(signal.SIGKILL)
            assert agent.wait() == -signal.SIGKILL, (directory / "log").read_text()
        for family in ("ipv4", "ipv6"):
            one, two, three = thresholds(family)
            assert one <= two <= three
        touched += chosen(THP / "enabled") != "madvise"
    assert touched > ROUNDS / 4, "the agents got as far as writing"
    answer = run("restore")
    assert answer.returncode == 0, answer.stderr
    node.assert_unchanged()


def generations(state: Path) -> list[Path]:
    files = sorted(p for p in state.iterdir() if p.name.startswith("journal"))
    assert any(p.name == "journal.json" for p in files), files
    return files


def spoil(path: Path, how: str) -> None:
    data = path.read_bytes()
    if how == "deleted":
        path.unlink()
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "half":
        path.write_bytes(data[: len(data) // 2])
    elif how == "last byte":
        path.write_bytes(data[:-2])
    elif how == "bit":
        middle = len(data) // 3
        path.write_bytes(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])
    elif how == "zeros":
        path.write_bytes(bytes(len(data)))
    else:
        path.write_bytes(os.urandom(len(data)))


@pytest.mark.parametrize("how", ["deleted", "empty", "half", "last byte", "bit", "zeros", "noise"])
def test_a_torn_journal(node: Node, directory: Path, run, how: str) -> None:
    """The newest generation is spoilt: the one before it knows the originals too."""
    assert run("apply").returncode == 0
    assert len(generations(directory / "state")) >= 2
    spoil(directory / "state/journal.json", how)
    answer = run("restore")
    assert answer.returncode == 0, answer.stderr
    node.assert_unchanged()


@pytest.mark.quick
def test_a_torn_journal_below_an_agent(node: Node, directory: Path, agent, run) -> None:
    agent().kill()
    spoil(directory / "state/journal.json", "half")
    one = agent()
    assert one.setting(THRESHOLDS[0])["original"] == node.before["/proc/sys/net/ipv4/neigh/default/gc_thresh1"].strip()
    assert run("restore").returncode == 0
    node.assert_unchanged()


def test_two_torn_generations_are_reported(node: Node, directory: Path, run) -> None:
    """Nothing can be restored then: no success may be claimed, and no value invented."""
    assert run("apply").returncode == 0
    for path in generations(directory / "state"):
        spoil(path, "noise")
    answer = run("restore")
    assert answer.returncode == 1
    assert "journal" in answer.stderr
    assert sysctl(THRESHOLDS[2]) == DEFAULTS[THRESHOLDS[2]]


def test_two_torn_generations_below_an_agent_are_reported(node: Node, directory: Path, agent, run) -> None:
    agent().kill()
    for path in generations(directory / "state"):
        spoil(path, "noise")
    one = agent()
    assert one.condition("AgentDegraded")["reason"] == "journal-unusable"
    answer = run("restore")
    assert answer.returncode == 1
    assert "originals" in answer.stderr and "lost" in answer.stderr


def test_leftovers_of_a_torn_write_are_ignored(node: Node, directory: Path, run) -> None:
    assert run("apply").returncode == 0
    (directory / "state/journal.json.new").write_text("{")
    assert run("restore").returncode == 0
    node.assert_unchanged()


@pytest.fixture
def tiny_state(directory: Path):
    state = directory / "state"
    state.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "headroom-test", state], check=True)
    yield state
    subprocess.run(["umount", "-l", state], check=True)


def fill(directory: Path) -> Path:
    filler = directory / "filler"
    with filler.open("wb", buffering=0) as f:
        try:
            while True:
                f.write(bytes(4096))
        except OSError:
            pass
    assert shutil.disk_usage(directory).free == 0
    return filler


def test_a_full_disk_stops_the_writing_until_there_is_room(node: Node, agent, tiny_state: Path, run) -> None:
    filler = fill(tiny_state)
    one = agent()
    setting = one.wait_state(THRESHOLDS[2], "failed")
    assert setting["reason"] == "not-recorded"
    node.assert_unchanged()
    condition = one.wait_condition("SettingFailed")
    assert "ENOSPC" in condition["message"] or "No space" in condition["message"], condition
    assert one.get("/livez")[0] == 200
    assert run("status").returncode in (0, 2)
    filler.unlink()
    until(lambda: sysctl(THRESHOLDS[2]) == "100000", 70, "goes on once there is room", every=0.2)
    one.wait_condition("SettingFailed", "False")
    assert run("restore").returncode == 0
    node.assert_unchanged()


@pytest.mark.quick
def test_apply_on_a_full_disk_fails_and_writes_nothing(node: Node, tiny_state: Path, run) -> None:
    filler = fill(tiny_state)
    answer = run("apply")
    assert answer.returncode == 1
    assert "No space" in answer.stderr or "ENOSPC" in answer.stderr
    node.assert_unchanged()
    filler.unlink()
    assert run("apply").returncode == 0
    assert sysctl(THRESHOLDS[2]) == "100000"
    assert run("restore").returncode == 0
    node.assert_unchanged()


def test_another_boot_records_new_originals(node: Node, directory: Path, run) -> None:
    """Originals of another boot are no originals of this one."""
    state = directory / "state"
    assert run("apply").returncode == 0
    assert run("restore").returncode == 0
    set_by_hand = int(sysctl("vm.max_map_count")) + 7
    sysctl("vm.max_map_count", set_by_hand)
    boot = (directory / "boot_id")
    boot.write_text("00000000-0000-4000-8000-000000000000\n")
    in_another_boot = (
        "unshare", "-m", "sh", "-c",
        f'mount --bind {boot} /proc/sys/kernel/random/boot_id && exec "$@"', "sh",
    )  # fmt: skip
    assert run("apply", wrap=in_another_boot).returncode == 0
    assert state.exists()
    sysctl("vm.max_map_count", set_by_hand)
    middle = Node()
    assert run("apply").returncode == 0
    assert run("restore").returncode == 0
    assert middle.changes() == {}, "what this boot found is what it leaves"
