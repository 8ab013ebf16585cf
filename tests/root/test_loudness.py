# SPDX-License-Identifier: Apache-2.0
"""Loudness follows who asked: what the configuration asks for and the node refuses is a warning, a default is advice."""

import json
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import NO_BPF, Agent, Node, mounted, sysctl, until
from incidentlab import USER, full_inotify

QUIET = "profile: minimal\nneighbor: {mode: off}\nthp: {mode: off}\n"
READ_ONLY = mounted("mount --bind /proc/sys/vm/max_map_count /proc/sys/vm/max_map_count; mount -o remount,bind,ro /proc/sys/vm/max_map_count")
NO_CONNTRACK = mounted("mount -t tmpfs none /proc/sys/net/netfilter")


def found(one: Agent, slug: str) -> list[dict[str, Any]]:
    return [f for f in one.status()["findings"] if f["slug"] == slug]


def finding(one: Agent, slug: str) -> dict[str, Any]:
    return until(lambda: found(one, slug), f"a finding of {slug}")[0]


@pytest.mark.parametrize(
    "config, wrap, name, now",
    [
        ("limits: {raise: [conntrack]}", NO_CONNTRACK, "net.netfilter.nf_conntrack_max", "modprobe nf_conntrack"),
        ("sysctl: {net.sctp.rto_max: 70000}", (), "net.sctp.rto_max", "modprobe sctp"),
        ("sysctl: {vm.max_map_cuont: 70000}", (), "vm.max_map_cuont", "agent.yaml:5: remove vm.max_map_cuont"),
    ],
)
def test_what_the_configuration_asks_for_and_the_node_lacks_is_a_warning(node: Node, agent, run, config: str, wrap, name: str, now: str) -> None:
    assert wrap or not Path("/proc/sys", name.replace(".", "/")).exists()
    one = agent(QUIET + config, wrap=wrap)
    one.wait_condition("SettingFailed")
    failed = finding(one, name)
    assert failed["severity"] == "warning" and now in failed["now"], failed
    assert "not-in-this-kernel" in failed["message"]
    assert one.setting(name)["state"] == "unsupported"
    assert run("doctor", wrap=wrap).returncode == 2
    one.write_config(QUIET + "mode: observe\n" + config)
    one.reload()
    one.wait_condition("SettingFailed", "False")


def test_many_failed_settings_hide_no_other_fault(node: Node, agent) -> None:
    """An agent has a bounded number of findings of its own."""
    one = agent(QUIET + "sysctl: {" + ", ".join(f"vm.absent_{i}: 1" for i in range(40)) + "}")
    one.wait_condition("SettingFailed")
    one.write_config("mode: 3k")
    one.signal(signal.SIGHUP)
    assert "3k" in one.wait_condition("ConfigInvalid")["message"]
    findings = one.status()["findings"]
    rest = finding(one, "settings-failed")
    named = [f["slug"] for f in findings if f["slug"].startswith("vm.absent_")]
    more = int(rest["message"].split()[0])
    assert len(named) + more == 40 and one.status()["node"]["findings_left_out"] == 0
    assert set(re.findall(r"vm\.absent_\d+", rest["message"])).isdisjoint(named) and rest["severity"] == "warning"


def test_many_failed_settings_hide_no_changed_one(node: Node, agent) -> None:
    one = agent(QUIET + "on_drift: report\nsysctl: {vm.max_map_count: 300001, " + ", ".join(f"vm.absent_{i}: 1" for i in range(60)) + "}")
    until(lambda: one.setting("vm.max_map_count")["state"] == "in-sync", "it is set")
    sysctl("vm.max_map_count", 300000)
    assert "vm.max_map_count" in one.wait_condition("SettingDrifted")["message"]
    assert re.search(r"settings-failed: \d+ more: vm\.absent_", one.wait_condition("SettingFailed")["message"] + finding(one, "settings-failed")["text"])


def test_a_profile_value_that_the_node_lacks_is_silent(node: Node, agent) -> None:
    one = agent("profile: kubernetes-node", wrap=mounted("mount -t tmpfs none /proc/sys/kernel/keys"))
    assert one.setting("kernel.keys.maxkeys")["state"] == "unsupported"
    assert one.condition("SettingFailed")["status"] == "False"


@pytest.mark.parametrize("config, severity", [("profile: kubernetes-node", "advice"), ("sysctl: {vm.max_map_count: 301234}", "warning")])
def test_a_refused_value_is_as_loud_as_who_asked_for_it(node: Node, agent, config: str, severity: str) -> None:
    one = agent(config, wrap=READ_ONLY)
    one.wait_condition("SettingFailed")
    failed = finding(one, "vm.max_map_count")
    assert failed["severity"] == severity and "Read-only" in failed["message"], failed


def test_each_lack_is_a_finding_with_its_cure(node: Node, agent) -> None:
    one = agent(wrap=NO_BPF)
    one.wait_condition("AgentDegraded")
    lacks = until(lambda: (all_ := {f["instance"]["name"]: f for f in found(one, "tuner-degraded")}).keys() >= {"neighbor/bpf", "dns/bpf"} and all_, "the lacks")
    for name in ("neighbor/bpf", "dns/bpf"):
        assert "CapabilityBoundingSet=CAP_BPF CAP_PERFMON" in lacks[name]["now"], lacks[name]
        assert lacks[name]["severity"] == "warning" and "give CAP_BPF" in lacks[name]["message"]
        subprocess.run(["bash", "-n", "-c", lacks[name]["now"]], check=True)
    why = one.tuner("neighbor")["why"]
    assert why and why in lacks["neighbor/bpf"]["message"]


def test_a_kernel_without_a_feature_is_advice(node: Node, agent) -> None:
    one = agent(wrap=mounted("mount -t tmpfs none /sys/kernel/btf"))
    one.wait_condition("AgentDegraded")
    lack = next(f for f in found(one, "tuner-degraded") if f["instance"]["name"] == "neighbor/bpf")
    assert lack["severity"] == "advice" and not lack["now"] and "kernel" in lack["hint"]
    assert one.tuner("neighbor")["state"] == "degraded"
    assert one.status()["node"]["verdict"] == "ok"


@pytest.mark.parametrize("ignore", [f"inotify/instances@uid:{USER}", "inotify/*@uid:6412?", "inotify/instances", "LimitReached"])
def test_an_ignored_finding_is_silent_and_visible(node: Node, agent, run, ignore: str) -> None:
    config = "profile: minimal\nneighbor: {mode: observe}\nthp: {mode: observe}\n"
    with full_inotify():
        one = agent(f'{config}doctor: {{ignore: ["{ignore}"]}}')
        shown = finding(one, "inotify/instances")
        assert shown["ignored"] is True and shown["instance"]["id"] == str(USER)
        condition = one.condition(shown["condition"])
        assert (condition["status"], condition["reason"]) == ("False", "ignored")
        metrics = one.metrics()
        assert metrics[f'headroom_condition{{condition="{shown["condition"]}"}}'] == 0
        assert not [m for m in metrics if m.startswith("headroom_finding{") and "inotify" in m]
        assert one.status()["node"]["verdict"] == "ok"
        assert '"status":"ok"' in one.get("/health")[1].replace(" ", "") and one.get("/health?strict=1")[0] == 200
        assert "inotify" not in one.log
        ignored = {"inotify/instances", "LimitReached"} & {ignore}  # of alerts about other metrics
        assert {m for m in metrics if m.startswith("headroom_ignored{")} == {f'headroom_ignored{{object="{name}"}}' for name in ignored}
        assert not [f for f in (one.directory / "state/incidents").glob("2*") if "inotify" in f.name]
        checks = json.loads(run("doctor", "--json").stdout)["checks"]
        assert {c["status"] for c in checks if c["name"] == "inotify/instances"} == {"ignored"}
        text = run("status").stdout
        assert re.search(r"ignored", text), text
        one.write_config(config + "doctor: {ignore: [inotify/instances@uid:12]}")
        one.reload()
        one.wait_condition(shown["condition"])
        assert finding(one, "inotify/instances")["ignored"] is False


@pytest.mark.parametrize("name, accepted", [("tuner-degraded", True), ("dns/10.0.0.7@*", True), ("tuner-degradd", False), ("inotify/instanes@uid:1", False)])
def test_what_can_be_ignored_is_checked(directory: Path, run, name: str, accepted: bool) -> None:
    path = directory / "headroom.yaml"
    path.write_text(f'doctor: {{ignore: ["{name}"]}}\n')
    assert (run("check-config", str(path)).returncode == 0) == accepted
