# SPDX-License-Identifier: Apache-2.0
"""BPF maps that fill: which one, how full, and which workload made it."""

import contextlib
import json
import re
import secrets
import subprocess
import time
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest
from conftest import BIN, NO_BPF, Agent, Start, environment, mounted, until

CONFIG = "profile: minimal\nneighbor: {mode: observe}\nthp: {mode: observe}\nruntime: {mode: observe}\nkubelet: {mode: observe}\n"
MAKE = BIN.parents[1] / "tests/tool/bpf_maps"
FUNCTION = b"\0bpf_map_sum_elem_count\0"
TYPES = Path("/sys/kernel/btf/vmlinux")
# Without the function of Linux 6.6 the agent does as on an older kernel.
COUNTS = FUNCTION in TYPES.read_bytes() if TYPES.exists() else False
# cgroup v1 has a hierarchy for memory.
MEMORY = next((p for p in map(Path, ("/sys/fs/cgroup/memory", "/sys/fs/cgroup")) if (p / "cgroup.procs").exists()), Path("/sys/fs/cgroup/unified"))

Finding = dict[str, Any]
counted = pytest.mark.skipif(not COUNTS, reason="this kernel does not count the elements of BPF maps: Linux 6.6 does")


class Maker:
    """The maps of one process. Its ids are by name."""

    def __init__(self, specs: tuple[str, ...], cgroup: Path | None = None) -> None:
        wrap = ["sh", "-c", f'echo $$ > {cgroup}/cgroup.procs; exec "$@"', "sh"] if cgroup else []
        self.process = subprocess.Popen([*wrap, MAKE, *specs], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout
        lines = iter(self.process.stdout.readline, "ready\n")
        self.ids = {name: int(number) for name, number in (line.split() for line in lines)}

    def say(self, line: str) -> int:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture(name="maps")
def fixture_maps() -> Iterator[Callable[..., Maker]]:
    made: list[Maker] = []

    def make(*specs: str, cgroup: Path | None = None) -> Maker:
        made.append(Maker(specs, cgroup))
        return made[-1]

    try:
        yield make
    finally:
        for one in made:
            one.end()


@pytest.fixture(name="pod")
def fixture_pod() -> Iterator[tuple[str, Path]]:
    """The uid and the memory cgroup of a container in a pod."""
    uid = f"{secrets.token_hex(4)}-1111-4222-8333-{secrets.token_hex(6)}"
    parents = [MEMORY / "kubepods", MEMORY / "kubepods" / f"pod{uid}"]
    parents.append(parents[-1] / secrets.token_hex(32))
    made = [path for path in parents if not path.exists()]
    for path in made:
        path.mkdir()
    try:
        yield uid, parents[-1]
    finally:
        for path in reversed(made):
            until(lambda path=path: removed(path), f"{path} is removed")


def removed(path: Path) -> bool:
    with contextlib.suppress(OSError):
        path.rmdir()
        return True
    return False


def findings(one: Agent, slug: str) -> dict[str, Finding]:
    """The open findings by the name of the map."""
    return {f["instance"]["name"]: f for f in one.status()["findings"] if f["slug"] == slug and not f["until"]}


def wait_finding(one: Agent, slug: str, name: str, timeout: float = 75) -> Finding:
    return until(lambda: findings(one, slug).get(name), lambda: f"{slug} {name}: {json.dumps(one.status()['findings'])}", 0.3, timeout)


def doctor(directory: Path, wrap: tuple[str, ...] = ()) -> dict[str, Any]:
    answer = subprocess.run([*wrap, BIN, "doctor", "--json"], capture_output=True, text=True, env=environment(directory))
    assert answer.returncode in (0, 2), answer.stderr
    return json.loads(answer.stdout)


def of_maps(document: dict[str, Any]) -> list[Finding]:
    return [check for check in document["checks"] if check["slug"].startswith("bpf/") and "instance" in check]


@counted
def test_a_map_is_found_from_80_percent_on_with_the_pod_that_made_it(agent: Start, pod: tuple[str, Path], maps: Callable[..., Maker], run: Any) -> None:
    """Small maps are as large as their content, an array always is full, and headroom's own maps are its own affair."""
    made = maps("hash:at79:1000:790", "hash:at80:1000:800", "nopre:at95:1000:950", "percpu:at94:1000:949", "hash:full:1000:1001", "lpm:trie:1000:960",
                "lpm:small:10:10", "array:list:100:100", "hash:headroom_own:100:100", cgroup=pod[1])
    one = agent(CONFIG).wait_ready()
    wait_finding(one, "bpf/map", "full", 40)
    found = findings(one, "bpf/map")
    shown = {name: (f["severity"], f["condition"], f["used"], f["max"], int(f["instance"]["id"])) for name, f in found.items()}
    assert shown == {
        "at80": ("warning", "LimitPressure", 800, 1000, made.ids["at80"]),
        "at94": ("warning", "LimitPressure", 949, 1000, made.ids["at94"]),
        "at95": ("critical", "LimitPressure", 950, 1000, made.ids["at95"]),
        "trie": ("critical", "LimitPressure", 960, 1000, made.ids["trie"]),
        "full": ("critical", "LimitReached", 1000, 1000, made.ids["full"]),
    }
    for name, finding in found.items():
        assert finding["id"] == f"bpf/map@bpf-map:{made.ids[name]}" and finding["instance"]["kind"] == "bpf-map"
        assert not finding["now"] and not finding["keep"] and "no command can resize a map" in finding["hint"]
        assert f"map {name} (id {made.ids[name]})" in finding["text"]
    named = lambda: [f["who"] and (f["who"][0]["workload"]["kind"], f["who"][0]["workload"]["id"]) for f in findings(one, "bpf/map").values()]  # noqa: E731
    until(lambda: named() == [("pod", pod[0])] * 5, lambda: str(named()), 0.3, 30)
    limit = one.limit("bpf/map")
    assert (limit["used"], limit["max"], limit["severity"]) == (1000, 1000, "critical")
    assert limit["top"][0]["detail"] == f"map full (id {made.ids['full']})"
    assert one.metrics()['headroom_limit_used{limit="bpf/map"}'] == 1000
    text = run("doctor").stdout
    assert re.search(rf"critical +bpf/map +map full \(id {made.ids['full']}\)", text) and "no command can resize a map" in text, text
    assert "map at95" in run("top", "bpf/map").stdout
    assert one.tuner("limits")["state"] == "active"


@counted
def test_a_full_lru_map_is_advice(maps: Callable[..., Maker], directory: Path) -> None:
    """A map that one CPU has filled evicts half full: whether it does is not known, so it is only a row."""
    maps("lru:evicts:10000:50000", "percpu-lru:each:10000:50000", "lone-lru:half:10000:50000")
    document = doctor(directory)
    assert {f["instance"]["name"] for f in of_maps(document)} == {"evicts", "each"}, of_maps(document)
    for finding in of_maps(document):
        assert (finding["slug"], finding["severity"], finding["condition"]) == ("bpf/lru-map", "advice", "LimitPressure")
        assert "not known whether it evicts" in finding["message"] and finding["hint"].startswith("if it loses elements in use: no command")


@counted
@pytest.mark.slow
def test_a_thousand_maps_are_some_findings_and_few_series(agent: Start, maps: Callable[..., Maker]) -> None:
    maps(*(f"nopre:m{number}:100:{80 + number % 15}" for number in range(1000)), "nopre:worst:100:99")
    one = agent(CONFIG).wait_ready()
    wait_finding(one, "bpf/map", "worst", 40)
    found = findings(one, "bpf/map")
    assert 4 <= len(found) <= 8 and min(f["used"] for f in found.values()) >= 93
    series = [name for name in one.metrics() if "bpf/" in name]
    assert len(series) <= 30, series


@counted
@pytest.mark.slow
def test_a_map_that_empties_or_disappears_is_over(agent: Start, maps: Callable[..., Maker]) -> None:
    made = maps("hash:stays:1000:900", "hash:goes:1000:900", "hash:grows:1000:10")
    one = agent(CONFIG).wait_ready()
    wait_finding(one, "bpf/map", "stays", 40)
    assert made.say("stays 300") == 0
    assert made.say("goes") == 0
    assert made.say("grows 1001") == -7  # E2BIG
    finding = wait_finding(one, "bpf/map", "grows")
    assert (finding["severity"], finding["used"], finding["times"]) == ("critical", 1000, 0)
    until(lambda: set(findings(one, "bpf/map")) == {"grows"}, lambda: str(findings(one, "bpf/map")), 0.3, 20)


@counted
def test_a_doctor_without_an_agent_counts_at_once(directory: Path, maps: Callable[..., Maker]) -> None:
    made = maps("hash:cilium_ct4_global:1000:900", "hash:cali_v4_ct3:1000:900")
    found = {f["instance"]["name"]: f["hint"] for f in of_maps(doctor(directory))}
    assert "raise bpf-ct-global-tcp-max or bpf-map-dynamic-size-ratio in the configuration of Cilium" in found["cilium_ct4_glob"]
    assert "bpfMapSizeConntrack" in found["cali_v4_ct3"]
    assert made.say("cali_v4_ct3") == 0 and made.say("cilium_ct4_global 100") == 0
    assert of_maps(doctor(directory)) == []


def older_types(directory: Path) -> Path:
    """The types of this kernel without the function of Linux 6.6."""
    path = directory / "types"
    path.write_bytes(TYPES.read_bytes().replace(FUNCTION, FUNCTION.upper()))
    return path


@pytest.mark.slow
def test_an_older_kernel_without_a_bpffs_shows_tries(directory: Path, maps: Callable[..., Maker]) -> None:
    maps("lpm:trie:1000:900", "hash:loose:1000:1000")
    older = f"mount --bind {older_types(directory)} {TYPES}\n"
    without = "while umount $(awk '$3 == \"bpf\" { print $2; exit }' /proc/self/mounts) 2>/dev/null; do :; done"
    found = of_maps(doctor(directory, mounted(older + without)))
    assert [f["instance"]["name"] for f in found] == ["trie"], found


@contextlib.contextmanager
def bpffs(path: Path) -> Iterator[Path]:
    path.mkdir()
    subprocess.run(["mount", "-t", "bpf", "headroom-test", path], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", path], check=True)


@pytest.mark.slow
def test_an_older_kernel_shows_pinned_maps_and_tries(agent: Start, directory: Path, pod: tuple[str, Path], maps: Callable[..., Maker]) -> None:
    """Eight maps a minute: the ninth comes with the next pass. An estimate never claims that a map is full."""
    older = mounted(f"mount --bind {older_types(directory)} {TYPES}")
    with bpffs(directory / "bpf") as pins:
        (pins / "tc").mkdir()
        many = [f"hash:m{number}:10000:100:{pins}/m{number}" for number in range(5)]
        made = maps(f"hash:large:20000:18000:{pins}/tc/large", f"percpu:each:1000:900:{pins}/each", f"lru:evicts:50000:100000:{pins}/evicts",
                    f"hash:brim:20000:20000:{pins}/brim", "lpm:trie:1000:900", "hash:loose:1000:1000", *many, cgroup=pod[1])
        one = agent(CONFIG, wrap=older).wait_ready()
        began = time.monotonic()
        large, trie = wait_finding(one, "bpf/map", "large", 150), wait_finding(one, "bpf/map", "trie", 5)
        assert abs(large["used"] - 18000) < 900 and large["max"] == 20000 and "estimated from a sample" in large["message"]
        assert trie["used"] == 900 and int(trie["instance"]["id"]) == made.ids["trie"] and "estimated" not in trie["message"]
        each, brim = wait_finding(one, "bpf/map", "each", 120), wait_finding(one, "bpf/map", "brim", 120)
        assert time.monotonic() - began > 20, "more than eight maps in one pass"
        assert each["used"] == 900 and "estimated" not in each["message"]
        assert 19000 < brim["used"] < 20000 and brim["condition"] == "LimitPressure" and brim["severity"] == "critical"
        wait_finding(one, "bpf/lru-map", "evicts", 120)
        assert "loose" not in findings(one, "bpf/map")
        until(lambda: large["id"] and findings(one, "bpf/map")["large"]["who"][0]["workload"]["id"] == pod[0], "the pod", 0.3, 20)
        assert one.tuner("limits")["state"] == "active"


@pytest.mark.parametrize("lack", ["no CAP_BPF", "no BTF"])
def test_without_bpf_the_row_is_missing_and_said(agent: Start, maps: Callable[..., Maker], lack: str) -> None:
    maps("hash:full:1000:1000")
    wrap = NO_BPF if lack == "no CAP_BPF" else mounted("mount -t tmpfs none /sys/kernel/btf")
    one = agent(CONFIG, wrap=wrap).wait_ready()
    until(lambda: one.tuner("limits")["state"] == "degraded", lambda: str(one.tuner("limits")))
    assert "bpf/map" in one.condition("AgentDegraded")["message"] or "bpf/map" in one.tuner("limits")["why"]
    assert not [limit for limit in one.status()["limits"] if limit["name"].startswith("bpf/")] and not findings(one, "bpf/map")


@counted
@pytest.mark.slow
def test_the_capabilities_of_a_pod_are_enough(agent: Start, maps: Callable[..., Maker]) -> None:
    maps("hash:full:1000:1000")
    wrap = ("setpriv", "--bounding-set=-all,+bpf,+perfmon,+net_admin", "--inh-caps=-all")
    wait_finding(agent(CONFIG, wrap=wrap).wait_ready(), "bpf/map", "full", 40)
