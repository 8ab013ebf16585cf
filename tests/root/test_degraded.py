# SPDX-License-Identifier: Apache-2.0
"""Nodes that lack something lose one feature only, and the agent names errno and cure."""

import contextlib
import os
import re
import shutil
import socket
from errno import EACCES, EINVAL, ENOENT, EOPNOTSUPP, EPERM, EROFS, ESRCH, errorcode
from os import strerror
from pathlib import Path
from typing import NamedTuple

import pytest
from conftest import BIN, NO_BPF, THP, Node, selected, mounted, thresholds, until, without


READ_ONLY = "mount --bind {0} {0}; mount -o remount,bind,ro {0}"
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


class Lack(NamedTuple):
    wrap: tuple[str, ...]
    tuner: str | None  # the degraded tuner
    errors: tuple[int, ...]  # the message names one of them
    neighbor: bool  # thresholds are set
    thp: bool  # huge pages are switched off
    config: str = ""


LACKS = {
    "read-only /proc/sys": Lack(mounted(READ_ONLY.format("/proc/sys")), "sysctl", (EROFS,), True, True),
    "read-only sysfs": Lack(mounted(READ_ONLY.format("/sys")), "thp", (EROFS,), True, False),
    "no CAP_BPF": Lack(NO_BPF, "neighbor", (EPERM,), True, True),
    "no CAP_NET_ADMIN": Lack(without("net_admin"), None, (), True, True),
    "no CAP_NET_ADMIN, as in a pod": Lack(without("net_admin", "sys_admin"), "dns", (EPERM,), True, True),
    "no CAP_NET_ADMIN and read-only /proc/sys": Lack(
        without("net_admin") + mounted(READ_ONLY.format("/proc/sys")), "neighbor", (EPERM, EROFS), False, True
    ),
    "nobody": Lack(NOBODY, "neighbor", (EPERM, EACCES), False, False),
    "another network namespace": Lack(("unshare", "--net"), "neighbor", (ENOENT, EPERM, EOPNOTSUPP), False, True),
    "no BTF": Lack(mounted("mount -t tmpfs none /sys/kernel/btf"), "neighbor", (ENOENT, ESRCH, EINVAL), True, True),
}
BOOSTED = "sysctl: {{vm.max_map_count: {}}}\n"


@pytest.fixture
def prepared(directory: Path) -> Path:
    """Directories and a copy of the program that all users can access."""
    for name in ("state", "run"):
        (directory / name).mkdir()
        (directory / name).chmod(0o777)
    binary = directory / "headroom"
    shutil.copy(BIN, binary)
    binary.chmod(0o755)
    return binary


@pytest.mark.quick
@pytest.mark.parametrize("lack", LACKS)
def test_a_degraded_agent_runs_and_names_what_is_missing(node: Node, agent, directory: Path, prepared: Path, run, lack: str) -> None:
    case = LACKS[lack]
    higher = int(Path("/proc/sys/vm/max_map_count").read_text()) + 1000
    one = agent(BOOSTED.format(higher), wrap=case.wrap, binary=prepared)

    assert one.get("/livez")[0] == 200
    assert one.get("/readyz")[0] == 200, "a degraded agent is ready"
    assert one.process.poll() is None
    assert (thresholds() == (80000, 90000, 100000)) == case.neighbor
    assert (selected(THP / "enabled") == "never") == case.thp

    if case.tuner is not None:  # programs load in the background
        until(lambda: one.tuner(case.tuner)["state"] == "degraded", f"{case.tuner} is degraded\n{one.log}")
    assert os.readlink(f"/proc/{one.pid}/fd/0") == "/dev/null", "it closed what it does not own"
    code, ready = one.get("/readyz?verbose")
    version = run("version", wrap=case.wrap)
    assert version.returncode == 0, version.stderr
    status = one.status()
    assert {s["name"] for s in status["settings"]} >= {"thp.enabled"}
    for setting in status["settings"]:
        assert setting["state"] in ("in-sync", "failed", "unsupported", "observed"), setting
    if case.tuner is None:
        assert not [t for t in status["tuners"] if t["state"] == "degraded"], status["tuners"]
    else:
        tuner = next(t for t in status["tuners"] if t["name"] == case.tuner)
        assert tuner["state"] == "degraded"
        for text in (tuner["why"], line_of(ready, case.tuner), line_of(version.stdout, case.tuner)):
            assert named(text, case.errors), text
        condition = one.condition("AgentDegraded")
        assert condition["status"] == "True"
        assert named(condition["message"], case.errors), condition
    failed = [s["name"] for s in status["settings"] if s["state"] == "failed"]
    assert one.condition("SettingFailed")["status"] == ("True" if failed else "False")
    if failed:
        assert named(one.condition("SettingFailed")["message"], tuple(errorcode), cure=False)
    assert one.get("/metrics")[0] == 200
    assert run("status").returncode in (0, 2)
    assert one.stop() == 0
    answer = run("restore")
    assert answer.returncode == 0, answer.stderr
    node.assert_unchanged()


def test_observe_mode_needs_no_right_to_write(agent, prepared: Path) -> None:
    read_only = mounted("; ".join(READ_ONLY.format(path) for path in ("/proc/sys", "/sys")))
    one = agent("mode: observe", wrap=read_only, binary=prepared)
    for name in ("neighbor", "sysctl", "thp"):
        until(lambda name=name: one.tuner(name)["state"] == "active", name)


def line_of(text: str, tuner: str) -> str:
    """The line of a tuner with the indented lines below it."""
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if re.search(rf"\b{tuner}\b", line))
    block = [lines[at]]
    for line in lines[at + 1 :]:
        if not line.startswith("    "):
            break
        block.append(line)
    return " ".join(" ".join(block).split())


def named(text: str, errors: tuple[int, ...], cure: bool = True) -> bool:
    """True if the text names one of the errors after an object and, with cure, has words after it."""
    for error in errors:
        for name in (errorcode[error], strerror(error)):
            before, found, after = text.partition(name)
            if found and before.strip() and (not cure or len(after.split()) >= 3):
                return True
    return False


@pytest.mark.quick
def test_without_bpf_the_count_is_an_upper_bound(agent, run) -> None:
    one = agent(wrap=NO_BPF)
    limit = one.limit("neighbor/ipv4")
    assert (limit["max"], limit["bound"]) == (100000, "upper")
    assert re.search(r"^ *neighbor/ipv4 +<= ", run("status").stdout, re.M)


def test_every_tuner_is_active_on_a_complete_node(agent) -> None:
    """The control for the tests above."""
    one = agent()
    assert {t["state"] for t in one.status()["tuners"]} == {"active"}, one.status()["tuners"]
    assert one.condition("AgentDegraded")["status"] == "False"
    assert one.condition("SettingFailed")["status"] == "False"


def test_the_host_root_may_be_another_directory(agent, directory: Path) -> None:
    """In a container the host's files are below a mount point."""
    host = directory / "host"
    (host / "proc").mkdir(parents=True)
    (host / "sys").mkdir()
    script = f"mount --rbind /proc {host}/proc; mount --rbind /sys {host}/sys"
    one = agent(wrap=mounted(script + f"; {READ_ONLY.format('/proc/sys')}; {READ_ONLY.format('/sys')}"), env={"HEADROOM_HOST_ROOT": str(host)})
    assert thresholds() == (80000, 90000, 100000)
    assert selected(THP / "enabled") == "never"
    assert one.setting("thp.enabled")["state"] == "in-sync"


@pytest.mark.slow
def test_a_port_in_use_disables_only_tcp(agent, directory: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        path = directory / "run/headroom.sock"
        one = agent(f'http: {{listen: "127.0.0.1:{port}", socket: {path}}}\nmode: observe\n')
        condition = one.wait_condition("AgentDegraded")
        assert "http.listen" in condition["message"]
        assert f"127.0.0.1:{port}" in condition["message"]
    one.port = port
    until(lambda: one.condition("AgentDegraded")["status"] == "False", "the port is free again")
    assert one.get("/livez", unix=False)[0] == 200


MEMORY = next((path for path in (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")) if (path / "cgroup.procs").exists()), None)


@pytest.mark.apart
@pytest.mark.parametrize("mebibytes, says", [(12, True), (39, True), (40, False)])
def test_a_memory_limit_below_what_a_start_takes_is_the_first_word(agent, mebibytes: int, says: bool) -> None:
    """The first word, because the kernel may kill the agent before there is another one."""
    if MEMORY is None:
        pytest.skip("no memory controller here")
    group = MEMORY / f"hrdegraded-{os.getpid()}"
    with contextlib.suppress(OSError):
        (MEMORY / "cgroup.subtree_control").write_text("+memory")
    group.mkdir()
    try:
        limit = next(group / name for name in ("memory.max", "memory.limit_in_bytes") if (group / name).exists())
        limit.write_text(str(mebibytes << 20))
        enter = ("sh", "-c", f'echo 0 >{group}/cgroup.procs; exec "$@"', "sh")
        one = agent("mode: observe\n", ready=False, wrap=(*enter, "unshare", "--net"))
        until(lambda: "version " in one.log or one.process.poll() is not None, "it has begun")
        first = one.log.splitlines()[0]
        assert (f"memory-limit-low: agent/memory: the agent's memory limit is {mebibytes}.0 MiB" in first) == says, one.log
        assert ("memory-limit-low" in one.log) == says
        one.kill()
    finally:
        until(lambda: not (group / "cgroup.procs").read_text(), "the cgroup is empty")
        group.rmdir()
