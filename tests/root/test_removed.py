# SPDX-License-Identifier: Apache-2.0
"""What was set and is no longer configured: it is shown everywhere, and on_removed decides what happens to it."""

import json
import mmap
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import THP, Agent, Node, mounted, selected, sysctl, until

BACKLOG, QUEUE = "net.core.netdev_max_backlog", "fs.inotify.max_queued_events"


def findings(one: Agent, instance: str) -> list[dict[str, Any]]:
    found = [f for f in one.status()["findings"] if f["reason"] == "no-longer-configured"]
    return [f for f in found if f["instance"]["name"] == instance]


def finding(one: Agent, instance: str) -> dict[str, Any]:
    return until(lambda: findings(one, instance), f"a finding of {instance}")[0]


def reconfigure(one: Agent, text: str) -> None:
    one.write_config(text)
    one.reload()


def raised(*names: str) -> dict[str, int]:
    """Values above those of the node."""
    return {name: int(sysctl(name)) + 777 for name in names}


def config(values: dict[str, int], more: str = "") -> str:
    return f"profile: minimal\nneighbor: {{mode: off}}\nthp: {{mode: off}}\nsysctl: {json.dumps(values)}\n{more}"


def settled(one: Agent, name: str) -> bool:
    """The value is at its original, and nothing shows it any more."""
    return not findings(one, name) and not any(s["name"] == name for s in one.status()["settings"])


def test_a_removed_key_is_shown_until_its_command_is_typed(node: Node, agent, run) -> None:
    original = sysctl(BACKLOG)
    values = raised(BACKLOG, QUEUE)
    one = agent(config(values))
    reconfigure(one, config({QUEUE: values[QUEUE]}))
    for again in (False, True):
        found = finding(one, BACKLOG)
        assert (found["severity"], found["now"]) == ("advice", f"sysctl -w {BACKLOG}={original}")
        assert again or found["hint"].endswith("or write on_removed: restore")
        assert str(values[BACKLOG]) in found["message"] and original in found["message"]
        setting = one.setting(BACKLOG)
        assert (setting["state"], setting["reason"]) == ("observed", "no-longer-configured")
        assert (setting["actual"], setting["original"], setting["wanted"]) == (str(values[BACKLOG]), original, "")
        assert one.metrics()[f'headroom_setting_no_longer_configured{{setting="{BACKLOG}"}}'] == 1
        assert one.status()["node"]["verdict"] == "ok"
        assert BACKLOG in run("status").stdout
        plan = run("plan", "--config", str(one.config_path))
        assert plan.returncode == 0, plan.stdout
        assert f"{BACKLOG}  {values[BACKLOG]} left  (no-longer-configured)" in plan.stdout
        if not again:  # the record outlives the agent
            one.kill()
            one = agent(config({QUEUE: values[QUEUE]}))
    assert sysctl(BACKLOG) == str(values[BACKLOG])
    subprocess.run(found["now"], shell=True, check=True, stdout=subprocess.DEVNULL)
    assert sysctl(BACKLOG) == original
    until(lambda: settled(one, BACKLOG), "nothing is shown")
    assert one.setting(QUEUE)["state"] == "in-sync"
    assert run("restore").returncode == 0
    node.assert_unchanged()


@pytest.mark.parametrize("name", [BACKLOG, QUEUE])
def test_a_value_that_is_set_again_after_a_restore_has_one_record(node: Node, agent, run, name: str) -> None:
    values = raised(BACKLOG, QUEUE)
    one = agent(config(values))
    assert run("restore").returncode == 0
    reconfigure(one, config({name: values[name]}))
    assert run("apply", "--config", str(one.config_path)).returncode == 0
    until(lambda: one.setting(name)["state"] == "in-sync", "it is set again")
    assert [s["name"] for s in one.status()["settings"] if not s["name"] or s["reason"] == "no-longer-configured"] == []
    assert not [f for f in one.status()["findings"] if f["reason"] == "no-longer-configured"]


def test_a_key_that_is_configured_again_is_as_before(node: Node, agent, run) -> None:
    values = raised(BACKLOG)
    one = agent(config(values))
    reconfigure(one, config({}))
    finding(one, BACKLOG)
    reconfigure(one, config(values))
    until(lambda: not findings(one, BACKLOG), "the finding has ended")
    assert one.setting(BACKLOG)["state"] == "in-sync"
    reconfigure(one, config({}, "on_removed: restore"))
    until(lambda: settled(one, BACKLOG), "restored")
    node.assert_unchanged()


@pytest.mark.parametrize("section", ["thp: {enabled: keep, defrag: keep, shmem: keep, khugepaged_defrag: keep, sizes: keep}", "thp: {mode: off}"])
def test_a_switch_that_is_kept_or_whose_tuner_is_off_is_shown(node: Node, agent, section: str) -> None:
    before = selected(THP / "defrag")
    one = agent("profile: minimal\nneighbor: {mode: off}")
    assert selected(THP / "defrag") == "never" != before
    reconfigure(one, f"profile: minimal\nneighbor: {{mode: off}}\non_removed: restore\n{section}")
    found = finding(one, "thp.defrag")
    # Nobody has asked for it: it was the default.
    reconfigure(one, f"profile: minimal\nneighbor: {{mode: off}}\n{section}")
    until(lambda: finding(one, "thp.defrag")["hint"] == "or configure it again", "no advice that would do nothing")
    assert selected(THP / "defrag") == "never"
    subprocess.run(found["now"], shell=True, check=True)
    assert selected(THP / "defrag") == before
    until(lambda: not findings(one, "thp.defrag"), "the finding has ended")


def test_a_value_of_someone_else_is_not_ours(node: Node, agent) -> None:
    values = raised(BACKLOG)
    one = agent(config(values))
    sysctl(BACKLOG, values[BACKLOG] + 5)
    one.write_config(config({}, "on_drift: report"))
    one.reload()
    assert sysctl(BACKLOG) in (str(values[BACKLOG]), str(values[BACKLOG] + 5))
    sysctl(BACKLOG, values[BACKLOG] + 9)
    until(lambda: settled(one, BACKLOG), "it is of someone else")
    reconfigure(one, config({}, "on_removed: restore"))
    assert sysctl(BACKLOG) == str(values[BACKLOG] + 9)


@pytest.mark.parametrize("how", ["reload", "restart", "plan and apply"])
def test_restore_is_done_once_the_configuration_drops_a_key(node: Node, agent, run, how: str) -> None:
    original = sysctl(QUEUE)
    values = raised(QUEUE)
    text = config({}, "on_removed: restore")
    one = agent(config(values, "on_removed: restore"))
    if how == "reload":
        reconfigure(one, text)
    else:
        until((one.directory / "state/config.json").exists, "the configuration is kept")
        one.kill()
        one.write_config(text)
    if how == "restart":
        one = agent(text)
    if how == "plan and apply":
        plan = run("plan", "--config", str(one.config_path))
        assert plan.returncode == 2 and f"{QUEUE}  {values[QUEUE]} -> {original}  (no-longer-configured)" in plan.stdout
        assert sysctl(QUEUE) == str(values[QUEUE])
        assert run("apply", "--config", str(one.config_path)).returncode == 0
    else:
        until(lambda: settled(one, QUEUE), "restored")
    assert sysctl(QUEUE) == original
    node.assert_unchanged()


@pytest.mark.slow
def test_a_value_is_not_restored_below_its_use(node: Node, agent) -> None:
    original = int(sysctl("vm.max_map_count"))
    values = {"vm.max_map_count": original + 100_000}
    one = agent(config(values, "on_removed: restore"))
    # Every second page has another protection, so that no two maps are merged.
    user = subprocess.Popen(
        [sys.executable, "-c", f"import mmap\nmaps = [mmap.mmap(-1, 4096) for _ in range({original + 10_000})]\nprint(flush=True)\ninput()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert user.stdout and user.stdout.readline()
        until(lambda: any(row["name"] == "maps/process" and row["used"] > original for row in one.status()["limits"]), "the maps are counted", timeout=120)
        reconfigure(one, config({}, "on_removed: restore"))
        found = finding(one, "vm.max_map_count")
        assert not found["now"], "a command to type would be as harmful"
        assert "maps/process" in found["hint"] and sysctl("vm.max_map_count") == str(original + 100_000)
    finally:
        user.kill()
        user.wait()
    until(lambda: settled(one, "vm.max_map_count"), "restored", timeout=120)
    assert sysctl("vm.max_map_count") == str(original)


def test_a_changed_profile_restores_nothing(node: Node, agent) -> None:
    one = agent("profile: kubernetes-node\non_removed: restore")
    value = sysctl("vm.max_map_count")
    assert value != node.before["/proc/sys/vm/max_map_count"].strip()
    reconfigure(one, "profile: minimal\non_removed: restore")
    # Until the first pass, the use of the limit is not known.
    until(lambda: "profile" in finding(one, "vm.max_map_count")["hint"], "the reason")
    assert sysctl("vm.max_map_count") == value
    # The same key in a file, with the profile's value, and then again in the profile alone.
    reconfigure(one, f"profile: kubernetes-node\nsysctl: {{vm.max_map_count: {value}}}")
    reconfigure(one, "profile: kubernetes-node")
    until(lambda: one.setting("vm.max_map_count")["state"] == "in-sync", "in sync")
    reconfigure(one, "profile: minimal\non_removed: restore")
    finding(one, "vm.max_map_count")
    assert sysctl("vm.max_map_count") == value


@pytest.mark.parametrize("lost", ["rm conf.d/20-more.yaml", ": > conf.d/20-more.yaml"])
def test_a_file_that_is_lost_restores_nothing(node: Node, agent, directory: Path, lost: str) -> None:
    values = raised(BACKLOG)
    etc = directory / "etc"
    (etc / "conf.d").mkdir(parents=True)
    more = etc / "conf.d/20-more.yaml"
    (etc / "headroom.yaml").write_text(f'http: {{listen: ""}}\nprofile: minimal\non_removed: restore\nsysctl: {json.dumps(raised(QUEUE))}\n')
    more.write_text(f"sysctl: {json.dumps(values)}\n")
    wrap = mounted(f"mount -t tmpfs tmpfs /opt; cp -a /etc /opt; mkdir -p /opt/etc/headroom; mount --bind /opt/etc /etc; mount --bind {etc} /etc/headroom")
    one = agent(None, wrap=wrap)
    until((directory / "state/config.json").exists, "the configuration is kept")
    one.kill()
    subprocess.run(lost, shell=True, cwd=etc, check=True)
    for _ in range(2):  # an agent that has kept the rest does not restore it either
        one = agent(None, wrap=wrap)
        finding(one, BACKLOG)
        assert sysctl(BACKLOG) == str(values[BACKLOG])
        assert str(more) not in (directory / "state/config.json").read_text() or lost.startswith(":")
        one.kill()


def test_observe_mode_shows_it_and_restores_nothing(node: Node, agent) -> None:
    values = raised(BACKLOG)
    agent(config(values)).kill()
    one = agent("mode: observe\n" + config({}, "on_removed: restore"))
    finding(one, BACKLOG)
    assert sysctl(BACKLOG) == str(values[BACKLOG])


def test_it_can_be_ignored(node: Node, agent) -> None:
    one = agent(config(raised(BACKLOG)))
    reconfigure(one, config({}, f"doctor: {{ignore: [{BACKLOG}]}}"))
    assert finding(one, BACKLOG)["ignored"] is True
    assert one.condition("SettingDrifted")["status"] == "False"
