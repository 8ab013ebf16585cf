# SPDX-License-Identifier: Apache-2.0
"""Values that other programs change, and the order of the thresholds at each moment."""

import multiprocessing
import os
import subprocess
import threading
import time
from typing import Any, Callable

import pytest
from conftest import FAMILIES, SLACK, THP, THRESHOLDS, Node, selected, set_thresholds, sysctl, thresholds, until, without
from pyroute2 import IPRoute
from pyroute2.netlink import NLM_F_ACK, NLM_F_REQUEST
from pyroute2.netlink.rtnl import RTM_SETNEIGHTBL
from pyroute2.netlink.rtnl.ndtmsg import ndtmsg

KEY = THRESHOLDS[2]


def by_sysctl() -> None:
    sysctl(KEY, 99000)


def by_netlink() -> None:
    message = ndtmsg()
    message["family"] = 2
    message["attrs"] = [("NDTA_NAME", "arp_cache"), ("NDTA_THRESH3", 99000)]
    with IPRoute() as route:
        route.nlm_request(message, RTM_SETNEIGHTBL, NLM_F_REQUEST | NLM_F_ACK)


def by_another_procfs() -> None:
    script = 'mount -t proc proc "$0" && echo 99000 > "$0/sys/net/ipv4/neigh/default/gc_thresh3"'
    subprocess.run(["unshare", "--mount", "sh", "-c", script, "/mnt"], check=True)


@pytest.mark.quick
@pytest.mark.parametrize("write", [by_sysctl, by_netlink, by_another_procfs])
def test_a_changed_threshold_is_set_again(agent, write: Callable[[], None]) -> None:
    one = agent()
    write()
    until(lambda: sysctl(KEY) == "100000", "set again")
    metric = f'headroom_setting_drift_total{{setting="{KEY}"}}'
    until(lambda: one.metrics()[metric] >= 1, "the drift is counted")
    assert one.setting(KEY)["state"] == "in-sync"


@pytest.mark.quick
@pytest.mark.parametrize("file", ["enabled", "defrag", "hugepages-64kB/enabled"])
def test_a_changed_sysfs_switch_is_set_again(agent, file: str) -> None:
    path = THP / file
    if not path.exists():
        pytest.skip("vm: this kernel has no such size of huge pages")
    agent()
    path.write_text("always")
    until(lambda: selected(path) == "never", "set again")


@pytest.mark.parametrize("policy", ["report", "yield"])
def test_on_drift_yield_and_report_leave_the_value_until_apply(agent, run, policy: str) -> None:
    one = agent(f"on_drift: {policy}")
    by_sysctl()
    state = {"report": "drifted", "yield": "yielded"}[policy]
    setting = one.wait_state(KEY, state)
    assert setting["actual"] == "99000" and setting["wanted"] == "100000"
    condition = one.wait_condition("SettingDrifted")
    assert KEY in condition["message"]
    time.sleep(2.2)  # two ticks
    assert sysctl(KEY) == "99000"
    assert one.setting(THRESHOLDS[5])["state"] == "in-sync", "other settings stay enforced"
    assert run("apply").returncode == 0
    assert sysctl(KEY) == "100000"
    one.wait_condition("SettingDrifted", "False")


def test_a_higher_administrator_value_is_kept(agent) -> None:
    """The agent only raises thresholds."""
    one = agent()
    sysctl(KEY, 150000)
    time.sleep(2.2)
    assert sysctl(KEY) == "150000"
    assert one.condition("SettingDrifted")["status"] == "False"


@pytest.mark.quick
def test_a_value_that_is_rewritten_repeatedly_is_yielded(agent) -> None:
    one = agent()
    stop = threading.Event()

    def fight() -> None:
        while not stop.wait(0.1):
            by_sysctl()

    fighter = threading.Thread(target=fight)
    fighter.start()
    try:
        one.wait_state(KEY, "yielded")
        condition = one.wait_condition("SettingDrifted")
        assert KEY in condition["message"]
    finally:
        stop.set()
        fighter.join()
    rounds = one.metrics()[f'headroom_setting_drift_total{{setting="{KEY}"}}']
    assert 2 <= rounds < 60, "the agent gives up after a few rounds"
    time.sleep(2.2)
    assert sysctl(KEY) == "99000"
    lines = [line for line in one.log.splitlines() if KEY in line]
    assert len(lines) <= 2 * rounds + 5, "the log is not flooded"


FORK = multiprocessing.get_context("fork")


def sample(ready: Any, stop: Any, results: Any) -> None:
    """Reads the thresholds about ten thousand times a second. The three reads are not atomic, so a violation counts
    only if two readings agree."""
    base = "/proc/sys/net/{}/neigh/default/gc_thresh{}"
    files = {family: [os.open(base.format(family, i), os.O_RDONLY) for i in (1, 2, 3)] for family in FAMILIES}
    seen, bad = set(), []
    ready.set()
    while not stop.is_set():
        for family, fds in files.items():
            first, second = (tuple(int(os.pread(fd, 32, 0)) for fd in fds) for _ in range(2))
            seen.add((family, first))
            if first == second and not first[0] <= first[1] <= first[2]:
                bad.append((family, first))
    results.put((len(seen), bad[:5]))


class Sampler:
    """Reads the thresholds in another process."""

    def __enter__(self) -> "Sampler":
        ready, self.stop, self.results = FORK.Event(), FORK.Event(), FORK.SimpleQueue()
        FORK.Process(target=sample, args=(ready, self.stop, self.results), daemon=True).start()
        assert ready.wait(10 * SLACK)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.seen, self.bad = self.results.get()


SMALL = "neighbor: {lower: true, ipv4: {gc_thresh1: 100, gc_thresh2: 200, gc_thresh3: 300}, ipv6: {gc_thresh1: 1, gc_thresh2: 2, gc_thresh3: 3}}"
LARGE = "neighbor: {lower: true, ipv4: {gc_thresh1: 700000, gc_thresh2: 800000, gc_thresh3: 900000}, ipv6: {gc_thresh1: 500, gc_thresh2: 600, gc_thresh3: 700000}}"


def test_thresholds_are_in_order_at_every_moment(agent, run) -> None:
    set_thresholds("ipv4", (128, 512, 1024))
    with Sampler() as sampler:
        for _ in range(5):
            assert run("apply", "--only", "neighbor").returncode == 0
            assert run("restore").returncode == 0
        one = agent(SMALL)
        assert run("apply").returncode == 0  # ends the release by restore
        for config in [LARGE, SMALL, "neighbor: {lower: true}"] * 4:
            one.write_config(config)
            one.reload()
            until(lambda: run("plan", "--config", str(one.config_path)).returncode == 0, "the new config is applied")
        assert run("restore").returncode == 0
    assert sampler.seen > 10, "the sampler saw the values move"
    assert sampler.bad == []


@pytest.mark.slow
def test_thresholds_are_in_order_when_written_through_procfs(node: Node, run) -> None:
    """Without CAP_NET_ADMIN the agent writes the thresholds one by one through /proc/sys."""
    wrap = without("net_admin")
    with Sampler() as sampler:
        for _ in range(5):
            answer = run("apply", "--only", "neighbor", wrap=wrap)
            assert answer.returncode == 0, answer.stderr
            assert thresholds() == (80000, 90000, 100000)
            assert run("restore", wrap=wrap).returncode == 0
    assert sampler.seen >= 4
    assert sampler.bad == []


def test_a_changed_configuration_is_a_new_attempt_after_yielding(agent) -> None:
    key, value = "vm.max_map_count", int(sysctl("vm.max_map_count")) + 5000
    original = sysctl(key)
    one = agent(f"sysctl: {{{key}: {value}}}")
    for _ in range(6):
        until(lambda: sysctl(key) == str(value), "set again")
        one.wait_state(key, "in-sync")
        sysctl(key, original)
    one.wait_state(key, "yielded")
    one.write_config(f"sysctl: {{{key}: {value + 1}}}")
    one.reload()
    until(lambda: sysctl(key) == str(value + 1), "set")
