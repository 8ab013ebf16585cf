# SPDX-License-Identifier: Apache-2.0
"""Records of original values survive SIGKILL. Damaged records and a full tmpfs are reported."""

import os
import random
from pathlib import Path

import pytest
from conftest import DEFAULTS, THP, THRESHOLDS, Node, selected, fill_disk, killed, mounted, small_disk, sysctl, thresholds, until

OTHER = """\
profile: minimal
neighbor: {ipv4: {gc_thresh1: 3000, gc_thresh2: 4000, gc_thresh3: 5000}, ipv6: {gc_thresh1: 300, gc_thresh2: 600, gc_thresh3: 700}, lower: true}
thp: {enabled: always, defrag: defer, shmem: advise, sizes: inherit}
"""


@pytest.mark.parametrize("rounds", [25, pytest.param(200, marks=pytest.mark.slow)])
def test_restore_works_after_many_kills_with_two_configurations_in_turn(node: Node, directory: Path, run, rounds: int) -> None:
    (directory / "a.yaml").write_text('http: {listen: ""}\n')
    (directory / "b.yaml").write_text('http: {listen: ""}\n' + OTHER)
    dice = random.Random(1)
    touched = 0
    for i in range(rounds):
        assert killed(directory, dice.uniform(0, 0.4), "agent", "--config", directory / ("a.yaml", "b.yaml")[i % 2])
        for family in ("ipv4", "ipv6"):
            one, two, three = thresholds(family)
            assert one <= two <= three
        touched += selected(THP / "enabled") != "madvise"
    assert touched > rounds / 4, "the agents had time to write"
    answer = run("restore")
    assert answer.returncode == 0, answer.stderr
    node.assert_unchanged()


def spoil(path: Path, how: str) -> None:
    data = path.read_bytes()
    to = {"empty": b"", "half": data[: len(data) // 2], "zeros": bytes(len(data)), "noise": os.urandom(len(data))}
    path.write_bytes(to[how])


@pytest.mark.parametrize("how", ["empty", "half", "noise"])
def test_damaged_records_are_reported(node: Node, directory: Path, agent, run, how: str) -> None:
    """Restore fails then and writes no value."""
    assert run("apply").returncode == 0
    kept = (directory / "run/values").read_bytes()
    spoil(directory / "run/values", how)
    answer = run("restore")
    assert answer.returncode == 1
    assert "values" in answer.stderr
    assert sysctl(THRESHOLDS[2]) == DEFAULTS[THRESHOLDS[2]]
    assert run("apply").returncode == 1, "without records nothing is written"
    one = agent()
    condition = one.condition("AgentDegraded")
    assert condition["status"] == "True" and condition["reason"] == "values-unrecorded", condition
    assert one.setting(THRESHOLDS[0])["state"] == "observed"
    assert run("restore").returncode == 1
    one.stop()
    (directory / "run/values").write_bytes(kept)
    (directory / "run/values.new").write_text("{")  # left by a killed agent
    assert run("restore").returncode == 0
    node.assert_unchanged()


@pytest.mark.parametrize("how", ["empty", "half", "noise", "removed"])
def test_a_damaged_journal_loses_neither_values_nor_originals(node: Node, directory: Path, agent, run, how: str) -> None:
    """The journal records files. They and their originals stay as they are until an administrator decides."""
    assert run("apply").returncode == 0
    assert run("restore", "--only", "thp").returncode == 0
    journal, kept = directory / "state/journal.json", directory / "state/files" / ("a" * 64)
    kept.parent.mkdir(exist_ok=True)
    kept.write_text("an original")
    journal.unlink() if how == "removed" else spoil(journal, how)
    damaged = None if how == "removed" else journal.read_bytes()
    assert "remove journal.json" in run("apply").stderr
    one = agent()
    condition = one.wait_condition("AgentDegraded")
    assert condition["reason"] == "journal-unusable" and "remove journal.json" in condition["message"], condition
    for _ in range(2):
        answer = run("restore")
        assert answer.returncode == 1
        assert "files were not: journal.json" in answer.stderr, answer.stderr
        node.assert_unchanged()
        one.stop()  # the second restore runs without an agent
    assert kept.read_text() == "an original" and (damaged is None or journal.read_bytes() == damaged)
    kept.unlink()
    journal.unlink(missing_ok=True)
    assert run("restore").returncode == 0


@pytest.fixture
def tiny_run(directory: Path):
    with small_disk(directory / "run") as run:
        yield run


def test_a_full_tmpfs_delays_writes_until_there_is_room(node: Node, agent, tiny_run: Path, directory: Path, run) -> None:
    filler = fill_disk(tiny_run)
    one = agent(f"http: {{listen: '', socket: {directory}/headroom.sock}}")
    one.socket_path = directory / "headroom.sock"
    setting = one.wait_state(THRESHOLDS[2], "observed")
    assert setting["reason"] == "not-recorded"
    node.assert_unchanged()
    condition = one.wait_condition("AgentDegraded")
    assert "No space" in condition["message"] and "make room" in condition["message"], condition
    assert one.get("/livez")[0] == 200
    filler.unlink()
    until(lambda: sysctl(THRESHOLDS[2]) == "100000", "set after there is room", timeout=70)
    one.wait_condition("AgentDegraded", "False")
    fill_disk(tiny_run)
    sysctl(THRESHOLDS[2], 99000)
    until(lambda: sysctl(THRESHOLDS[2]) == "100000", "a recorded value needs no room")
    one.stop()
    assert run("restore").returncode == 0
    node.assert_unchanged()


@pytest.mark.quick
def test_apply_in_a_full_tmpfs_fails_and_writes_nothing(node: Node, tiny_run: Path, run) -> None:
    filler = fill_disk(tiny_run)
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
    """Originals of another boot are ignored."""
    assert run("apply").returncode == 0
    assert run("restore").returncode == 0
    set_by_hand = int(sysctl("vm.max_map_count")) + 7
    sysctl("vm.max_map_count", set_by_hand)
    boot = directory / "boot_id"
    boot.write_text("00000000-0000-4000-8000-000000000000\n")
    assert run("apply", wrap=mounted(f"mount --bind {boot} /proc/sys/kernel/random/boot_id")).returncode == 0
    sysctl("vm.max_map_count", set_by_hand)
    middle = Node()
    assert run("apply").returncode == 0
    assert run("restore").returncode == 0
    assert middle.changes() == {}, "the originals of this boot are restored"
