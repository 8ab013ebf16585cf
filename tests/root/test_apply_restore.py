# SPDX-License-Identifier: Apache-2.0
"""plan, apply and restore, without and with a running agent."""

import json
import re
import subprocess
import time

import pytest
from conftest import DEFAULTS, FAMILIES, THP, THRESHOLDS, Node, selected, mounted, read, set_thresholds, sysctl, thresholds, until


def assert_applied() -> None:
    for name, value in DEFAULTS.items():
        assert sysctl(name) == value
    assert read(THP / "khugepaged/defrag") == "0"
    for path in (p for p in THP.rglob("*") if p.name in ("enabled", "defrag", "shmem_enabled") and p.parent.name != "khugepaged"):
        words = re.findall(r"\w+", read(path))
        assert selected(path) == ("never" if "never" in words else words[-1]), path


@pytest.mark.quick
def test_restore_undoes_apply_byte_for_byte(node: Node, run) -> None:
    answer = run("apply")
    assert answer.returncode == 0, answer.stderr
    assert_applied()
    assert node.changes()
    answer = run("restore")
    assert answer.returncode == 0, answer.stderr
    node.assert_unchanged()


def test_apply_and_restore_go_through_the_running_agent(node: Node, agent, run) -> None:
    one = agent()
    assert_applied()
    answer = run("restore")
    assert answer.returncode == 0, answer.stderr
    node.assert_unchanged()
    answer = run("apply")
    assert answer.returncode == 0, answer.stderr
    assert_applied()
    assert one.process.poll() is None
    assert run("plan").returncode == 0
    assert run("restore").returncode == 0
    node.assert_unchanged()


@pytest.mark.parametrize("config, args", [("mode: observe\n", ()), ("", ("--observe",))])
def test_restore_works_beside_an_agent_that_observes(node: Node, agent, run, config: str, args: tuple[str, ...]) -> None:
    """It sees that the records have changed, and writes nothing itself."""
    assert run("apply").returncode == 0
    one = agent(config, args=args)
    assert one.setting(THRESHOLDS[2])["original"] == "1024"
    answer = run("restore", "--only", "thp")
    assert answer.returncode == 0, answer.stderr
    assert selected(THP / "enabled") == "madvise" and sysctl(THRESHOLDS[2]) == DEFAULTS[THRESHOLDS[2]]
    answer = run("restore")
    assert answer.returncode == 0, answer.stderr
    node.assert_unchanged()
    sysctl(THRESHOLDS[2], 2048)
    until(lambda: one.setting(THRESHOLDS[2])["original"] == "2048", "there is no record", timeout=8)
    sysctl(THRESHOLDS[2], 1024)


@pytest.mark.quick
def test_every_size_of_huge_pages_is_a_setting(agent) -> None:
    names = {s["name"] for s in agent().status()["settings"]}
    sizes = {f"thp.{p.parent.name}.enabled" for p in THP.glob("hugepages-*kB/enabled")}
    assert sizes <= names
    assert {"thp.enabled", "thp.defrag", "thp.shmem_enabled", "thp.khugepaged.defrag"} <= names
    shmem = {f"thp.{p.parent.name}.shmem_enabled" for p in THP.glob("hugepages-*kB/shmem_enabled")}
    assert shmem <= names


@pytest.mark.quick
def test_plan_changes_nothing_and_exits_2_then_0(node: Node, run) -> None:
    answer = run("plan")
    assert answer.returncode == 2, answer.stderr
    by_name = {change["name"]: change for change in json.loads(run("plan", "--json").stdout)["changes"]}
    node.assert_unchanged()
    for name, value in DEFAULTS.items():
        line = next(line for line in answer.stdout.splitlines() if name in line.split())
        words = line.split()
        old = node.before["/proc/sys/" + name.replace(".", "/")].strip()
        assert words.index(old) < words.index(value), "old comes before new"
        assert len(words) > words.index(value) + 1, "and why comes after"
        change = by_name[name]
        assert (change["old"], change["new"]) == (old, value) and change["reason"]
    assert run("apply").returncode == 0
    answer = run("plan")
    assert answer.returncode == 0, answer.stdout
    assert run("restore").returncode == 0
    node.assert_unchanged()


def test_only_limits_apply_and_restore_to_one_tuner(node: Node, run) -> None:
    assert run("apply", "--only", "neighbor").returncode == 0
    assert {p for p in node.changes()} == {"/proc/sys/" + name.replace(".", "/") for name in THRESHOLDS}
    assert run("apply", "--only", "thp").returncode == 0
    assert selected(THP / "enabled") == "never"
    assert run("restore", "--only", "neighbor").returncode == 0
    assert thresholds("ipv4") != (80000, 90000, 100000)
    assert selected(THP / "enabled") == "never"
    assert run("restore").returncode == 0
    node.assert_unchanged()


HIGHER = (200000, 300000, 400000)


@pytest.mark.quick
@pytest.mark.parametrize(
    "config, before, after",
    [
        ("", HIGHER, HIGHER),
        ("neighbor: {lower: true}", HIGHER, (80000, 90000, 100000)),
        # One threshold is above the configured value, the others are below it: the order must hold.
        ("", (1000, 95000, 95000), (80000, 95000, 100000)),
    ],
)
def test_administrator_values_are_only_lowered_on_request(agent, run, config: str, before, after) -> None:
    for family in FAMILIES:
        set_thresholds(family, before)
    agent(config)
    assert thresholds("ipv4") == thresholds("ipv6") == after
    assert run("restore").returncode == 0
    assert thresholds("ipv4") == thresholds("ipv6") == before


def test_restore_leaves_and_reports_values_changed_by_others(node: Node, run) -> None:
    assert run("apply").returncode == 0
    sysctl(THRESHOLDS[2], 123456)
    answer = run("restore")
    assert answer.returncode == 0, answer.stderr
    assert sysctl(THRESHOLDS[2]) == "123456"
    assert THRESHOLDS[2] in answer.stdout + answer.stderr
    assert "123456" in answer.stdout + answer.stderr
    node.assert_unchanged(but=("ipv4/neigh/default/gc_thresh3",))


def test_restore_keeps_levels_in_order_around_a_foreign_value(node: Node, run) -> None:
    """Another program lowered gc_thresh3: restoring gc_thresh1 and 2 must keep the order."""
    set_thresholds("ipv4", (60000, 70000, 80000))
    assert run("apply").returncode == 0
    set_thresholds("ipv4", (300, 400, 50000))
    assert run("restore").returncode == 0
    one, two, three = thresholds()
    assert one <= two <= three


@pytest.mark.quick
def test_restore_twice_is_harmless(node: Node, run) -> None:
    assert run("restore").returncode == 0, "without anything applied"
    node.assert_unchanged()
    assert run("apply").returncode == 0
    assert run("restore").returncode == 0
    node.assert_unchanged()
    sysctl("vm.max_map_count", int(sysctl("vm.max_map_count")) + 1)
    answer = run("restore")
    assert answer.returncode == 0
    node.assert_unchanged(but=("vm/max_map_count",))


@pytest.mark.quick
def test_a_release_lasts_until_apply(node: Node, agent, run) -> None:
    """An edit of the configuration, a restart or an upgrade does not end it."""
    one = agent()
    assert run("restore").returncode == 0
    node.assert_unchanged()
    tuner = until(lambda: (t := one.tuner("neighbor"))["mode"] == "released" and t, "released")
    sysctl(THRESHOLDS[0], 200)
    one.write_config("node_name: other\nneighbor: {ipv4: {gc_thresh3: 100001}}")
    one.reload()
    time.sleep(2.5)
    assert one.setting(THRESHOLDS[2])["state"] == "observed"
    assert one.condition("ConfigInvalid")["status"] == "False"
    assert "released" in one.log
    assert one.stop() == 0
    again = agent("neighbor: {ipv4: {gc_thresh3: 100002}}", name="again")
    time.sleep(1.2)
    assert sysctl(THRESHOLDS[0]) == "200"
    node.assert_unchanged(but=("ipv4/neigh/default/gc_thresh1",))
    assert again.setting(THRESHOLDS[2])["state"] == "observed"
    assert (again.tuner("neighbor")["mode"], again.tuner("neighbor")["since"]) == ("released", tuner["since"])
    assert "enforcing" not in again.log and "released" in again.log
    assert run("apply").returncode == 0
    assert sysctl(THRESHOLDS[2]) == "100002"
    assert again.tuner("neighbor")["mode"] == "enforce"
    assert run("restore").returncode == 0


def test_a_value_that_cannot_be_restored_stays_failed(node: Node, agent, run) -> None:
    """SettingFailed is True and status exits 2 until the value is restored."""
    one = agent(wrap=mounted(""))
    subprocess.run(
        ["nsenter", "-t", str(one.pid), "-m", "-r", "sh", "-ec",
         "mount --bind /sys/kernel/mm/transparent_hugepage/enabled /sys/kernel/mm/transparent_hugepage/enabled;"
         "mount -o remount,bind,ro /sys/kernel/mm/transparent_hugepage/enabled"],
        check=True,
    )  # fmt: skip
    answer = run("restore")
    assert answer.returncode == 1
    assert "thp.enabled" in answer.stderr
    for _ in range(2):
        condition = one.condition("SettingFailed")
        assert condition["status"] == "True" and "thp.enabled" in condition["message"], condition
        assert run("status").returncode == 2
        time.sleep(1.2)
    assert one.setting(THRESHOLDS[0])["state"] == "observed"
    subprocess.run(["nsenter", "-t", str(one.pid), "-m", "-r", "umount", "/sys/kernel/mm/transparent_hugepage/enabled"], check=True)
    assert run("restore").returncode == 0
    one.wait_condition("SettingFailed", "False")
    node.assert_unchanged()


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_an_ended_agent_restores_nothing_and_its_records_outlive_it(node: Node, agent, run, how: str) -> None:
    getattr(agent(), how)()
    assert_applied()
    one = agent()
    assert one.setting(THRESHOLDS[2])["original"] == node.before["/proc/sys/net/ipv4/neigh/default/gc_thresh3"].strip()
    assert run("restore").returncode == 0
    node.assert_unchanged()


def test_a_key_that_the_config_no_longer_names_is_still_restored(node: Node, agent, run) -> None:
    value = int(sysctl("vm.max_map_count")) + 1000
    one = agent(f"sysctl: {{vm.max_map_count: {value}}}")
    assert sysctl("vm.max_map_count") == str(value)
    one.write_config("profile: minimal")
    one.reload()
    assert run("restore").returncode == 0
    node.assert_unchanged()


def test_sysctls_are_only_raised_unless_exact(node: Node, agent) -> None:
    swappiness = int(sysctl("vm.swappiness"))
    assert swappiness > 2, "the test lowers it"
    one = agent("profile: minimal\nsysctl: {vm.swappiness: 1}")
    assert sysctl("vm.swappiness") == str(swappiness)
    one.write_config("profile: minimal\nsysctl: {vm.swappiness: {value: 1, exact: true}}")
    one.reload()
    until(lambda: sysctl("vm.swappiness") == "1", "set exactly")
