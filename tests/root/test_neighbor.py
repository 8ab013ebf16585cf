# SPDX-License-Identifier: Apache-2.0
"""Neighbour tables under storms: they grow ahead of need, and reports name the workload that makes the entries."""

import contextlib
import json
import math
import re
import threading
import time
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest
import storm
from conftest import NO_BPF, SLACK, Agent, Run, fill_disk, set_thresholds, small_disk, temporary, thresholds, until
from hellos import Hellos, rsa_web_config
from storm import NAMES, BusyCpus, Space, fill, ip, netns_with, prepare, space, table, wakeups  # noqa: F401

KERNEL = (128, 512, 1024)  # the kernel's defaults, from which growth is hardest
DEFAULTS = (80000, 90000, 100000)
KEEP = "neighbor: {ipv4: keep, ipv6: keep, grow: true}"


@pytest.fixture
def directory() -> Iterator[Path]:
    """In memory: a write of the agent that waits for a disk would count as a wake-up."""
    with temporary("/dev/shm") as path:
        yield path


@pytest.fixture
def agent(agent: Callable[..., Agent]) -> Callable[..., Agent]:
    """The agent with its BPF programs: READY=1 does not wait for them, and they count from 0."""

    def start(*args: Any, **more: Any) -> Agent:
        one = agent(*args, **more)
        if more.get("wrap") != NO_BPF and "env" not in more:
            until(lambda: one.limit("neighbor/ipv4")["bound"] == "exact", "BPF counts the entries")
        return one

    return start


class Watch:
    """Records the effects of a storm on node and agent within a context."""

    def __init__(self, agent: Agent, family: int) -> None:
        self.agent, self.family = agent, family
        self.fell: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
        self.stop = threading.Event()

    def _poll(self) -> None:
        before = thresholds(NAMES[self.family])
        while not self.stop.wait(0.003):
            now = thresholds(NAMES[self.family])
            if any(new < old for new, old in zip(now, before)):
                self.fell.append((before, now))
            before = now

    def __enter__(self) -> "Watch":
        self.pid = self.agent.pid
        self.before = table(self.family)
        self.first = thresholds(NAMES[self.family])
        self.lines = len(self.agent.log.splitlines())
        self.began, self.woken = time.monotonic(), wakeups(self.pid)
        self.thread = threading.Thread(target=self._poll)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.thread.join()
        # The poll of each second is not caused by the storm.
        self.woken = wakeups(self.pid) - self.woken - math.ceil(time.monotonic() - self.began)
        now = table(self.family)
        self.refused = now["table_fulls"] - self.before["table_fulls"]
        self.made = now["allocs"] - self.before["allocs"]
        # Huge pages of other programs are not caused by the storm.
        lines = self.agent.log.splitlines()[self.lines :]
        self.log = [line for line in lines if "TransparentHugePages" not in line]

    def assert_calm(self, count: int) -> None:
        now = thresholds(NAMES[self.family])
        assert self.refused == 0, f"{self.refused} of {count} refused\n" + "\n".join(self.log)
        assert self.made >= count
        assert self.fell == [], "thresholds never fall"
        assert now[0] == self.first[0], "growth leaves gc_thresh1 alone: below it the kernel collects nothing"
        assert now[0] <= now[1] <= now[2]
        assert len(self.log) <= 10, "\n".join(self.log)
        if SLACK == 1:
            assert self.woken <= 12


def limit(agent: Agent, family: int = 4) -> dict[str, Any]:
    return agent.limit(f"neighbor/{NAMES[family]}")


def top(agent: Agent, family: int = 4) -> list[dict[str, Any]]:
    return limit(agent, family)["top"]


def used_by(agent: Agent, name: str, family: int = 4) -> int:
    return sum(user["used"] for user in top(agent, family) if name in (user["workload"]["name"], user["workload"]["id"]))


def name_of(agent: Agent, name: str, least: float, family: int = 4) -> None:
    """Waits until the agent reports at least this number of entries of a workload."""
    until(lambda: used_by(agent, name, family) >= least, lambda: f"{name} has {least}: {limit(agent, family)}", 0.1)


STORMS = [
    # base, how, count, family, where, busy CPUs, a second device
    pytest.param(KERNEL, "packets", 4000, 4, "first", False, False, marks=pytest.mark.quick),
    pytest.param(KERNEL, "packets", 4000, 6, "pod", False, False, marks=pytest.mark.quick),
    pytest.param(KERNEL, "netlink", 4000, 4, "pod", True, True, marks=pytest.mark.slow),
    pytest.param(KERNEL, "netlink", 4000, 6, "first", True, False, marks=pytest.mark.slow),
    pytest.param(KERNEL, "packets", 100000, 4, "pod", True, False, marks=pytest.mark.slow),
    pytest.param(KERNEL, "packets", 100000, 6, "first", False, False, marks=pytest.mark.slow),
    (KERNEL, "packets", 100000, 4, "first", True, True),
    pytest.param(KERNEL, "netlink", 100000, 4, "pod", False, True, marks=pytest.mark.slow),
    (KERNEL, "netlink", 100000, 6, "pod", True, False),
    (DEFAULTS, "packets", 100000, 6, "pod", True, False),
]


@pytest.mark.parametrize("base, how, count, family, where, busy, second", STORMS)
def test_no_entry_is_refused_in_a_storm(agent, space, base, how: str, count: int, family: int, where: str, busy, second) -> None:
    for name in NAMES.values():
        set_thresholds(name, KERNEL)
    one = agent(KEEP if base == KERNEL else "")
    assert thresholds(NAMES[family]) >= base  # entries of other programs may have grown the table
    place = space(first=where == "first", pod=where == "pod")
    if second:
        place.add_device("hrother0", "192.0.2.1/24", "fd00:192::1/64")
        for i in range(2, 20):
            place.ip("neigh", "replace", f"192.0.2.{i}", "lladdr", "02:00:00:00:00:01", "dev", "hrother0")
    run_storm = prepare(place, how, count, family)
    time.sleep(1.1)
    with BusyCpus() if busy else contextlib.nullcontext(), Watch(one, family) as watch:
        run_storm()
        time.sleep(0.5)
    watch.assert_calm(count)
    if base == KERNEL:
        assert thresholds(NAMES[family])[2] >= count
    if where == "pod":
        name_of(one, place.uid, count * 0.9, family)
        first = top(one, family)[0]["workload"]
        assert (first["kind"], first["id"]) == ("pod", place.uid)
    else:
        name_of(one, "host", count * 0.9, family)
        assert top(one, family)[0]["workload"]["kind"] == "host"


@pytest.mark.parametrize("busy", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_no_entry_is_refused_in_a_storm_beside_a_flood_of_handshakes(agent, space, directory: Path, busy: bool) -> None:
    """The handshakes are the most expensive ones that a configuration can ask for."""
    port, web = rsa_web_config(directory, 4096)
    for name in NAMES.values():
        set_thresholds(name, KERNEL)
    one = agent(f"{KEEP}\n{web}")
    run_storm = prepare(space(first=True), "packets", 4000, 4)
    with Hellos(port) as hellos:
        time.sleep(1.1)
        with BusyCpus() if busy else contextlib.nullcontext():
            before, first = table(4), hellos.count.value
            run_storm()
            after = table(4)
        until(lambda: hellos.count.value > first, "the flood goes on")
    assert after["table_fulls"] == before["table_fulls"]
    assert after["allocs"] - before["allocs"] >= 4000


@pytest.mark.parametrize("family", [4, 6])
def test_administrator_values_are_kept(agent, space, family: int) -> None:
    values = (8192, 32768, 65536)
    set_thresholds(NAMES[family], values)
    one = agent(KEEP)
    place = space()
    with Watch(one, family) as watch:
        for _ in range(3):
            fill(place, 1000, family)
            time.sleep(0.3)
            fill(place, 1000, family, delete=True)
    assert watch.refused == 0 and watch.made >= 3000
    time.sleep(1.2)
    assert thresholds(NAMES[family]) == values
    assert watch.log == []
    assert one.condition("NeighborTablePressure")["status"] == "False"


def metric(agent: Agent, name: str, family: int) -> float:
    return agent.metrics()[f'headroom_neighbor_{name}{{family="{NAMES[family]}"}}']


@pytest.mark.quick
@pytest.mark.parametrize("family", [4, 6])
def test_creations_in_a_namespace_are_counted(agent, space, family: int) -> None:
    one = agent()
    place = space()
    created, refused = (metric(one, name, family) for name in ("created_total", "refused_total"))
    fill(place, 500, family)
    until(lambda: 500 <= metric(one, "created_total", family) - created < 600, "500 creations are counted")
    assert metric(one, "refused_total", family) == refused


def test_thresholds_are_metrics(agent) -> None:
    metrics = agent().metrics()
    for family in NAMES.values():
        for level, value in enumerate(DEFAULTS, 1):
            assert metrics[f'headroom_neighbor_gc_threshold{{family="{family}",level="{level}"}}'] == value
        assert metrics[f'headroom_limit_max{{limit="neighbor/{family}"}}'] == DEFAULTS[2]


@pytest.mark.quick
@pytest.mark.parametrize("family", [4, 6])
def test_growth_is_shown_at_once(agent, space, run: Run, family: int) -> None:
    """Not at the next tick, which is up to a second later."""
    name = NAMES[family]
    set_thresholds(name, KERNEL)
    one = agent(KEEP)
    fill(space(), 300, family)
    before = KERNEL[2]
    grown = until(lambda: (now := thresholds(name))[2] > before and now[2], "the table has grown", 0.001)
    metrics, limit_now = one.metrics(), limit(one, family)
    shown = json.loads(run("status", "--json").stdout)
    assert thresholds(name)[2] == grown
    assert metrics[f'headroom_neighbor_gc_threshold{{family="{name}",level="3"}}'] == grown
    assert metrics[f'headroom_limit_max{{limit="neighbor/{name}"}}'] == grown == limit_now["max"]
    settings = {row["name"]: row for row in shown["settings"]}
    row = settings[f"net.{name}.neigh.default.gc_thresh3"]
    assert (row["wanted"], row["actual"], row["state"]) == (str(grown), str(grown), "in-sync")


@pytest.mark.parametrize("family, how", [(4, "permanent"), (6, "extern")])
def test_uncollectable_entries_raise_no_condition(agent, space, family: int, how: str) -> None:
    one = agent(KEEP)
    place = space()
    with Watch(one, family) as watch:
        fill(place, 100000, family, how=how)
        time.sleep(2.5)
    watch.assert_calm(100000)
    assert thresholds(NAMES[family]) == KERNEL
    assert watch.log == []
    assert table(family)["entries"] >= 100000
    assert metric(one, "entries", family) >= 100000
    assert limit(one, family)["used"] < 100 and metric(one, "collectable_entries", family) < 100
    for condition in ("NeighborTablePressure", "NeighborTableOverflow"):
        assert one.condition(condition)["status"] == "False"
    # The limit counts collectable entries only.
    fill(place, 200, family, first=100000)
    until(lambda: 200 <= limit(one, family)["used"] < 300, "200 that can be collected")
    until(lambda: 200 <= used_by(one, place.name, family) < 300, f"their owner: {top(one, family)}")


MANY = 100


@pytest.fixture
def many() -> Iterator[list[Space]]:
    """A hundred namespaces with a device."""
    names = [f"hr-many-{i}" for i in range(MANY)]
    script = "".join(f"netns add {name}\n" for name in names)
    ip("-force", "-batch", "-", text=script, check=False)
    spaces = []
    for name in names:
        ip("-n", name, "-batch", "-", text="link add storm0 type veth peer name storm1\nlink set storm0 up\nlink set storm1 up\n")
        spaces.append(Space(name, make=False))
    yield spaces
    ip("-force", "-batch", "-", text="".join(f"netns del {name}\n" for name in names), check=False)


def test_entries_from_before_the_start_are_counted_with_their_owners(agent, run: Run, many: list[Space]) -> None:
    """A hundred namespaces have entries. Their counts are right at the second tick."""
    set_thresholds("ipv4", DEFAULTS)
    for i, place in enumerate(many):
        fill(place, 10 * (i + 1))
    total = sum(10 * (i + 1) for i in range(MANY))
    one = agent("")
    began = time.monotonic()
    until(lambda: len(top(one)) == 10, "top users are known")
    seen = limit(one)
    assert time.monotonic() - began < 2 * SLACK
    assert abs(seen["used"] - total) < 50
    for i, user in enumerate(seen["top"]):
        assert user["used"] == 10 * (MANY - i), seen["top"]
        assert user["workload"]["kind"] == "netns"
        assert user["workload"]["name"] == f"hr-many-{MANY - 1 - i}"

    # The largest users have a series each, the others share one.
    series = {k: v for k, v in one.metrics().items() if k.startswith('headroom_limit_used_by_workload{limit="neighbor/ipv4"')}
    assert len(series) == 11
    rest = next(value for key, value in series.items() if 'kind="other"' in key)
    assert abs(sum(series.values()) - total) < 50 and rest > total / 2
    assert len(one.metrics()) < 450

    out = run("top", "neighbor").stdout
    ipv4 = out[out.index("neighbor/ipv4") : out.index("neighbor/ipv6")]
    assert re.findall(r"\d  netns (hr-many-\d+)$", ipv4, re.M) == [f"hr-many-{MANY - 1 - i}" for i in range(10)], out
    assert re.search(r"50[ ,]?[45]\d\d", ipv4), out

    # Namespaces that have ended are removed, and the next ones move up.
    for place in many[-5:]:
        ip("netns", "del", str(place.name))
    until(lambda: top(one)[0]["workload"]["name"] == f"hr-many-{MANY - 6}", f"removed: {top(one)}")
    assert all(user["workload"]["name"] not in [p.name for p in many[-5:]] for user in top(one))
    assert top(one)[0]["used"] == 10 * (MANY - 5)
    fill(many[0], 3000)
    until(lambda: used_by(one, "hr-many-0") == 3000, f"new entries are counted: {top(one)}")


def counted(out: str, family: str, state: str) -> list[int]:
    found = re.search(rf"^  {family} +{state} +(\d+) +(\d+) +(\d+) +(\d+)$", out, re.M)
    return [int(n) for n in found.groups()] if found else [0] * 4


def test_top_neighbor_counts_entries_of_pods_by_state_and_age(run: Run, space: Callable[..., Space]) -> None:
    place = space()
    before = run("top", "neighbor").stdout
    lines = [f"neigh add 198.18.9.{i} dev {place.device} lladdr 02:00:00:00:00:01 nud {'stale' if i <= 30 else 'permanent'}" for i in range(1, 38)]
    for line in lines:
        ip("-n", str(place.name), *line.split())
    now = run("top", "neighbor").stdout
    for state, count in (("stale", 30), ("permanent", 7)):
        young = counted(now, "ipv4", state)[0] - counted(before, "ipv4", state)[0]
        assert count <= young < count + 5, f"{before}\n{now}"
    assert "by state" not in run("top", "limits").stdout, "nobody asked"


@pytest.mark.quick
def test_a_first_level_below_the_kernels_default_stays(agent: Callable[..., Agent], run: Run) -> None:
    set_thresholds("ipv4", (0, 512, 1024))
    set_thresholds("ipv6", (16, 512, 1024))
    one = agent("")
    until(lambda: thresholds("ipv6")[2] == 100000, "the other levels are set")
    assert thresholds("ipv4") == (0, 90000, 100000) and thresholds("ipv6")[0] == 16
    seen = one.setting("net.ipv4.neigh.default.gc_thresh1")
    assert (seen["state"], seen["reason"]) == ("in-sync", "chosen-on-node"), seen
    assert "8.6 s" in run("explain", "gc_thresh1").stdout and "twice a minute" in run("explain", "gc_thresh1").stdout
    one.write_config("neighbor: {ipv4: {gc_thresh1: 2000}}")
    one.reload()
    until(lambda: thresholds("ipv4")[0] == 2000, "the configuration beats the choice")
    assert thresholds("ipv6")[0] == 16


def grow(one: Agent, place: Space, count: int = 4000, family: int = 4) -> tuple[int, int, int]:
    """Fills until the table has grown, and returns its thresholds."""
    refused = table(family)["table_fulls"]
    fill(place, count, family, rate=20000)
    assert table(family)["table_fulls"] == refused
    until(lambda: thresholds(NAMES[family])[2] >= count, "the table has grown")
    return thresholds(NAMES[family])


@pytest.mark.quick
def test_a_kill_during_growth_lowers_nothing(agent, run: Run, space) -> None:
    one = agent(KEEP)
    place = space()
    grown = grow(one, place)
    one.kill()
    assert grown[2] > 1024
    again = agent(KEEP, name="again")
    with Watch(again, 4) as watch:
        time.sleep(2.2)
    assert watch.fell == [] and thresholds() == grown
    assert again.setting("net.ipv4.neigh.default.gc_thresh3")["original"] == "1024"
    assert again.condition("SettingDrifted")["status"] == "False"
    assert run("restore").returncode == 0
    assert thresholds() == KERNEL


LOWERED = "neighbor: {lower: true, ipv4: {gc_thresh1: 200, gc_thresh2: 400, gc_thresh3: 800}}"


@pytest.mark.parametrize("config, base", [(KEEP, KERNEL), (LOWERED, (200, 400, 800))])
def test_apply_reload_and_restart_lower_nothing(agent, run: Run, space, config: str, base) -> None:
    one = agent(config)
    assert thresholds() == base
    place = space()
    grown = grow(one, place)
    with Watch(one, 4) as watch:
        assert run("apply").returncode == 0
        one.reload()
        one.write_config(config + "\nthp: {enabled: keep}")
        one.reload()
        time.sleep(2.2)
    assert watch.fell == [] and thresholds() == grown
    assert run("plan", "--config", str(one.config_path)).returncode == 0
    assert one.stop() == 0
    assert thresholds() == grown
    again = agent(config, name="again")
    with Watch(again, 4) as watch:
        time.sleep(1.2)
        assert run("apply").returncode == 0
    assert watch.fell == [] and thresholds() == grown
    assert run("restore").returncode == 0
    assert thresholds() == KERNEL


@pytest.mark.slow
def test_a_full_disk_does_not_stop_growth(agent, run: Run, space, directory: Path) -> None:
    """The state directory and /run are full. The room for originals is allocated at the start."""
    with small_disk(directory / "disk", "640k") as disk:
        env = {"HEADROOM_STATE_DIR": str(disk / "state"), "HEADROOM_RUNTIME_DIR": str(disk / "run")}
        one = agent(KEEP, env=env)
        time.sleep(1.5)
        filler = fill_disk(disk)
        place = space()
        lines = len(one.log.splitlines())
        first = grow(one, place)
        with Watch(one, 4) as watch:
            fill(place, 100000, rate=50000)
            time.sleep(0.5)
        grown = thresholds()
        assert watch.refused == 0 and watch.fell == []
        assert grown[2] > first[2]
        assert len(one.log.splitlines()) - lines <= 10, one.log
        one.kill()
        again = agent(KEEP, env=env, name="again")
        with Watch(again, 4) as watch:
            time.sleep(2.2)
        assert watch.fell == [] and thresholds() == grown, "the growth was recorded on the full disk"
        again.stop()
        filler.unlink()
        assert run("restore", env=env).returncode == 0
        assert thresholds() == KERNEL


@pytest.mark.quick
def test_the_ceiling_condition_names_the_largest_user(agent, space) -> None:
    one = agent(KEEP.replace("}", ", ceiling: 2048}"))
    place = space(pod=True)
    fill(place, 1500, rate=20000)
    condition = one.wait_condition("NeighborTablePressure")
    assert condition["reason"] == "at-ceiling"
    counted = rf"neighbor/ipv4: 1[45]\d\d of 2048 .*; pod {place.uid}.* 1500"
    until(lambda: re.search(counted, one.condition("NeighborTablePressure")["message"]), "all entries of the pod are counted")
    assert thresholds() == (128, 1844, 2048)
    assert one.condition("NeighborTableOverflow")["status"] == "False"
    fill(place, 1500, delete=True)
    one.wait_condition("NeighborTablePressure", "False")
    assert thresholds() == (128, 1844, 2048)
    one.kill()  # the peak and its users survive
    again = agent(KEEP)
    assert any("NeighborTablePressure: " in e["text"] and e["level"] == "warning" for e in again.status()["events"])
    limit = again.limit("neighbor/ipv4")
    assert limit["used"] < 1000 < 1500 <= limit["peak"]
    assert str(place.uid) in str(limit["peak_top"][0]) and limit["peak_top"][0]["used"] >= 1500, limit


@pytest.mark.parametrize("family", [4, 6])
def test_an_overflow_names_device_namespace_workload_and_address(agent, space, family: int) -> None:
    one = agent(KEEP.replace("true", "false"))
    place = space(pod=True)
    refused = metric(one, "refused_total", family)
    before = table(family)["table_fulls"]
    with Watch(one, family) as watch:
        prepare(place, "packets", 3000, family)()
        time.sleep(1)
    assert watch.refused > 1000
    assert thresholds(NAMES[family]) == KERNEL
    assert watch.woken <= 12 and len(watch.log) <= 10, "\n".join(watch.log)
    until(lambda: place.uid in one.condition("NeighborTableOverflow")["message"], "the pod is named")
    condition = one.condition("NeighborTableOverflow")
    # With IPv6, the last entry may be for a multicast group of the devices.
    last = f"{storm.text(4, 2999)} on storm0" if family == 4 else r"f\S+ on storm0p?"
    assert re.search(rf"the last was {last} in network namespace {place.inode} of pod {place.uid}", condition["message"])
    now = table(family)["table_fulls"] - before
    # Entries can still be refused.
    until(lambda: abs(metric(one, "refused_total", family) - refused - table(family)["table_fulls"] + before) < 50, "every refusal is counted")
    assert one.metrics()[f'headroom_limit_hits_total{{limit="neighbor/{NAMES[family]}"}}'] >= now
    assert '"critical"' in one.get("/health")[1].replace(" ", "")


@pytest.mark.quick
@pytest.mark.parametrize("family", [4, pytest.param(6, marks=pytest.mark.slow)])
def test_without_bpf_tables_grow_by_polling(agent, space, family: int) -> None:
    one = agent(KEEP, wrap=NO_BPF)
    until(lambda: one.tuner("neighbor")["state"] == "degraded", "the load of its program has failed")
    assert "CAP_BPF" in one.tuner("neighbor")["why"]
    assert "CAP_BPF" in one.condition("AgentDegraded")["message"]
    place = space()
    count = 1500 if family == 4 else 3000
    run_storm = prepare(place, "packets", count, family, rate=200 if family == 4 else 1000)
    with Watch(one, family) as watch:
        run_storm()
        time.sleep(0.5)
    assert watch.refused == 0 and watch.made >= count and watch.fell == []
    assert thresholds(NAMES[family])[2] > count
    assert len(watch.log) <= 10


@pytest.mark.slow
def test_a_tool_that_lowers_thresholds_in_a_storm_is_reported_once(agent, space) -> None:
    one = agent(KEEP)
    place = space()
    stop = threading.Event()
    lowered = 0

    def lower() -> None:
        nonlocal lowered
        while not stop.wait(0.05):
            set_thresholds("ipv4", KERNEL)
            lowered += 1

    other = threading.Thread(target=lower)
    lines = len(one.log.splitlines())
    other.start()
    try:
        prepare(place, "packets", 30000, rate=5000)()
        one.wait_condition("SettingDrifted")
    finally:
        stop.set()
        other.join()
    log = one.log.splitlines()[lines:]
    assert lowered > 50
    assert len(log) <= 40, "\n".join(log)
    # Each of the two settings that the tool lowers is a finding, and is reported once.
    drifted = sorted(re.findall(r"SettingDrifted: net\.ipv4\.neigh\.default\.(gc_thresh\d):", "\n".join(log)))
    assert drifted == ["gc_thresh2", "gc_thresh3"] and sum("SettingDrifted" in line for line in log) == 2, "\n".join(log)
    assert "gc_thresh3" in one.condition("SettingDrifted")["message"]
    time.sleep(2.2)
    assert one.get("/livez")[0] == 200
    assert len(one.log.splitlines()[lines:]) <= 45, "\n".join(one.log.splitlines()[lines:])


def test_who_fills_a_table_between_two_counts_is_named_in_the_log_too(agent, space) -> None:
    """The users that were counted before are not those of the full table."""
    one = agent(KEEP.replace("true", "false"))
    fill(space(first=True), 5, 4)
    until(lambda: any(user["used"] >= 5 for user in top(one, 4)), "the host's entries are counted")
    pod = space(pod=True)
    prepare(pod, "packets", 3000, 4)()
    lines = until(lambda: [line for line in one.log.splitlines() if "NeighborTableOverflow" in line and f"pod {pod.uid} " in line], lambda: one.log)
    assert re.search(rf"; pod {pod.uid} \d+ \(", lines[-1]), one.log
    assert "; host" not in "".join(line for line in one.log.splitlines() if "NeighborTableOverflow" in line), one.log


def test_who_has_filled_a_table_is_named_although_its_entries_are_gone(agent, space) -> None:
    """Owners of new namespaces are searched every five seconds."""
    one = agent(KEEP.replace("true", "false"))
    earlier = space(pod=True)
    fill(earlier, 5, 4)
    until(lambda: any(earlier.uid in user["workload"]["text"] for user in top(one, 4)), "a search has just ended")
    pod = space(pod=True)
    fill(pod, 1100, 4)
    inode = str(pod.inode)
    until(lambda: any(user["used"] > 500 for user in top(one, 4)), "the entries are counted")
    was_unknown = f"netns {inode} " in one.log
    fill(pod, 1090, 4, delete=True)
    until(lambda: f"pod {pod.uid} " in one.condition("NeighborTableOverflow")["message"], lambda: one.log, timeout=20)
    assert was_unknown, one.log


def test_a_reused_namespace_inode_belongs_to_its_new_owner(agent, space) -> None:
    """The kernel reuses the inode of a removed namespace at once."""
    one = agent(KEEP.replace("true", "false"))
    first = space(pod=True)
    prepare(first, "packets", 3000, 4)()
    until(lambda: first.uid in one.condition("NeighborTableOverflow")["message"], "the first pod is named")
    assert "gc_thresh3" in one.wait_incident("neighbor/ipv4")["now"]
    inode = first.inode
    first.remove()
    with netns_with(inode) as name:
        second = Space(name, made=True, pod=True)
        try:
            fill(second, 300, 4)
            name_of(one, second.uid, 290)  # the full table may refuse a few entries
            assert used_by(one, first.uid) == 0
            assert first.uid in one.condition("NeighborTableOverflow")["message"], "the overflow still names the first pod"
        finally:
            second.remove()
