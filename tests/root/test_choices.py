# SPDX-License-Identifier: Apache-2.0
"""The configuration beats an explicit choice on the node, which beats a default; and nobody loses by a default without a word."""

import contextlib
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest
from conftest import THP, Agent, Node, Run, selected, sysctl, until
from incidentlab import full_inotify
from runtimelab import Lab, lab  # noqa: F401

MIB = 96
ASKS = f"import mmap, sys; m = mmap.mmap(-1, {MIB} << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); m.madvise(14)\nfor i in range(0, len(m), 4096): m[i] = 1\nprint(flush=True); sys.stdin.read()"
LEGACY = Path("/sys/fs/cgroup/memory")


@contextlib.contextmanager
def guest() -> Iterator[str]:
    """A process in the cgroup of a pod, whose memory asks for huge pages as a virtual machine's does. Its value is the pod's uid."""
    uid = str(uuid.uuid4())
    pod = (LEGACY if LEGACY.is_dir() else Path("/sys/fs/cgroup")) / f"kubepods/pod{uid}"
    pod.mkdir(parents=True)
    process = subprocess.Popen(
        ["sh", "-c", f'echo $$ > {pod}/cgroup.procs; exec "$0" -c "$1"', sys.executable, ASKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin and process.stdout
    try:
        process.stdout.readline()
        yield uid
    finally:
        process.stdin.close()
        process.wait()
        until(lambda: not (pod / "cgroup.procs").read_text(), "the cgroup is empty")
        pod.rmdir()
        with contextlib.suppress(OSError):
            pod.parent.rmdir()


def taken(one: Agent) -> dict[str, Any] | None:
    return next((f for f in one.status()["findings"] if f["reason"] == "takes-huge-pages"), None)


def test_who_loses_huge_pages_is_said_before_and_remembered(node: Node, agent: Callable[..., Agent], run: Run) -> None:
    defrag = selected(THP / "defrag")
    with guest() as uid:
        plan = " ".join(run("plan").stdout.split())
        assert "asked for huge pages" in plan and "thp: {enabled: madvise" in plan and uid in plan, plan
        node.assert_unchanged()
        one = agent("")
        until(lambda: selected(THP / "enabled") == "never", "the default is in force")
        found = until(lambda: taken(one), "the finding")
        # Other programs of the machine may have some too.
        assert found["severity"] == "advice" and uid in [user["workload"]["name"] for user in found["who"]], found["who"]
        amount = found["message"].split(" of memory")[0]
    assert one.stop() == 0
    one = agent("")
    found = until(lambda: taken(one), "the next agent remembers it, although nothing uses huge pages now")
    assert found["message"].split(" of memory")[0] == amount and uid in str(found["who"])
    assert amount in run("doctor").stdout
    assert "Nothing to change" in run("apply").stdout
    one.write_config(found["keep"].strip())
    one.reload()
    until(lambda: selected(THP / "enabled") == "madvise" and selected(THP / "defrag") == defrag, "what is advised keeps them")
    assert not taken(one)
    with guest():
        anon = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("AnonHugePages"))
        assert int(anon.split()[1]) >= MIB * 1024 * 3 // 4


@pytest.mark.quick
def test_the_profile_of_microvms_leaves_huge_pages_to_those_that_ask(node: Node, agent: Callable[..., Agent], run: Run) -> None:
    defrag, free = selected(THP / "defrag"), sysctl("vm.min_free_kbytes")
    one = agent("profile: microvm-host")
    until(lambda: sysctl("kernel.pid_max") == "4194304", "the profile is in force")
    assert (selected(THP / "enabled"), selected(THP / "shmem_enabled"), selected(THP / "defrag")) == ("madvise", "advise", defrag)
    assert one.setting("thp.enabled")["state"] == "in-sync" and sysctl("vm.min_free_kbytes") == free, "only what differs is written"
    assert "vm.min_free_kbytes" in run("explain", "thp.enabled").stdout
    assert "no-longer" not in run("plan").stdout and run("restore").returncode == 0
    node.assert_unchanged()


@pytest.mark.parametrize("mode, kept", [("manual", True), ("auto", False)])
def test_a_profile_of_tuned_that_somebody_chose_is_a_choice(node: Node, lab: Lab, agent: Callable[..., Agent], run: Run, mode: str, kept: bool) -> None:
    lab.write("etc/tuned/active_profile", "node\n")
    lab.write("etc/tuned/profile_mode", f"{mode}\n")
    lab.write("etc/tuned/node/tuned.conf", "[vm]\ntransparent_hugepages=madvise\n[sysctl]\nfs.inotify.max_user_instances=64\n")
    before = sysctl("fs.inotify.max_user_instances")
    sysctl("fs.inotify.max_user_instances", 64)
    try:
        one = agent("", wrap=lab.wrap)
        until(lambda: one.setting("thp.enabled")["state"] == "in-sync", "applied")
        assert selected(THP / "enabled") == ("madvise" if kept else "never")
        setting = one.setting("thp.enabled")
        assert (setting["reason"] == "chosen-on-node") == kept, setting
        explained = run("explain", "fs.inotify.max_user_instances", wrap=lab.wrap).stdout
        assert "the profile node of TuneD (/etc/tuned/node/tuned.conf:4)" in " ".join(explained.split()), explained
        assert one.setting("fs.inotify.max_user_instances")["reason"] == "chosen-on-node"
        one.write_config("thp: {enabled: never}\n")
        one.reload()
        until(lambda: selected(THP / "enabled") == "never", "the configuration beats it")
        assert run("restore", wrap=lab.wrap).returncode == 0
    finally:
        sysctl("fs.inotify.max_user_instances", before)


@pytest.mark.slow
@pytest.mark.parametrize("mode, now", [("enforce", ""), ("observe", "sysctl -w fs.inotify.max_user_instances=")])
def test_a_limit_that_the_configuration_sets_exactly_is_cured_there(node: Node, agent, mode: str, now: str) -> None:
    """limits.raise leaves such a value alone, and the agent sets back what is typed."""
    name = "fs.inotify.max_user_instances"
    before = f"mode: {mode}\nprofile: minimal\nneighbor: {{mode: off}}\nthp: {{mode: off}}\n"
    with full_inotify():
        one = agent(f"{before}sysctl: {{{name}: {{value: {sysctl(name)}, exact: true}}}}\n")
        found = one.wait_finding("inotify/instances")
        assert found["now"].startswith(now) and bool(found["now"]) == bool(now), found
        assert "exact: true}" in found["keep"] and "raise" not in found["keep"], found
        one.write_config(before.replace("mode: observe", "") + found["keep"])
        one.reload()
        until(lambda: int(sysctl(name)) > 128, "what was kept is in force")
        one.wait_no_finding("inotify/instances")
