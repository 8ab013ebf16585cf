# SPDX-License-Identifier: Apache-2.0
"""The checks of doctor: each with faults, with a cure that works as printed, and with ordinary life."""

import contextlib
import ctypes
import fcntl
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest
from conftest import BIN, Run, environment, mounted, until, without
from fakesystemd import Systemd

KUBELET = "/var/lib/kubelet/config.yaml"
CNI = "/etc/cni/net.d/10-net.conflist"
FORWARD = "/proc/sys/net/ipv4/ip_forward"
BRIDGE = "/proc/sys/net/bridge/bridge-nf-call-iptables"
SWAPS = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
CGROUPS = "#subsys_name\thierarchy\tnum_cgroups\tenabled\n"
V2 = "/sys/fs/cgroup/cgroup.controllers"
LOOP_CTL_ADD, LOOP_CTL_REMOVE = 0x4C80, 0x4C81  # linux/loop.h
ALL_V2 = "cpuset cpu io memory hugetlb pids rdma misc\n"


def put(root: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        file = root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


def findings(run: Run, slug: str, root: Path | None = None, **more: Any) -> list[dict[str, Any]]:
    """The entries of a check, or of several with *, that are neither ok nor absent."""
    words = ("--host-root", str(root)) if root else ()
    answer = run("doctor", "--json", *words, **more)
    found = [c for c in json.loads(answer.stdout)["checks"] if re.fullmatch(slug, c["name"])]
    found = [{**c, "kind": c["instance"]["kind"], "instance": c["instance"]["name"]} for c in found]
    return [c for c in found if c["status"] not in ("ok", "absent")]


def statuses(run: Run, slug: str, root: Path) -> list[str]:
    answer = run("doctor", "--json", "--host-root", str(root))
    return [c["status"] for c in json.loads(answer.stdout)["checks"] if c["name"] == slug]


def cni(*types: str) -> str:
    return json.dumps({"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": one} for one in types]})


# ---- the kernel's log ----

MEMORY = Path("/sys/fs/cgroup/memory")
V1 = (MEMORY / "memory.limit_in_bytes").exists()
MEMORY_ROOT = MEMORY if V1 else Path("/sys/fs/cgroup")
LIMIT = "memory.limit_in_bytes" if V1 else "memory.max"
EAT = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(15, sys.argv[2].encode())
open(sys.argv[1] + "/cgroup.procs", "w").write(str(os.getpid()))
data = [bytearray(os.urandom(1 << 20)) for _ in range(64)]
"""


@contextlib.contextmanager
def memory_cgroup(name: str) -> Iterator[Path]:
    path = MEMORY_ROOT / name
    path.mkdir()
    try:
        (path / LIMIT).write_text(str(16 << 20))
        yield path
    finally:
        until(lambda: not (path / "cgroup.procs").read_text(), "an empty cgroup")
        path.rmdir()


def eat(cgroup: Path, comm: str) -> None:
    done = subprocess.run([sys.executable, "-c", EAT, str(cgroup), comm])
    assert done.returncode == -signal.SIGKILL


def kills(run: Run, comm: str, **more: Any) -> list[dict[str, Any]]:
    return [c for c in findings(run, "kernel-log/oom", **more) if c["instance"].startswith(comm)]


def test_a_kill_names_process_and_cgroup_and_its_cure_raises_that_limit(run: Run) -> None:
    name, comm = f"hr test-{os.getpid()}", f"eat) ({os.getpid() % 10000}"
    with memory_cgroup(name) as cgroup:
        assert kills(run, comm) == []
        for _ in range(2):
            eat(cgroup, comm)
        (found,) = kills(run, comm)
        assert found["instance"] == f"{comm} in /{name}" and found["status"] == "warning", found
        assert re.match(r"killed for lack of memory 2 times since \d\d:\d\d UTC, the last at ", found["message"]), found
        assert "its cgroup may use 16.0 MiB" in found["message"] and found["since"] and found["breaks"]
        answer = run("doctor")
        assert f"process {comm} in /{name}: killed" in " ".join(answer.stdout.split("\n")) and answer.returncode == 2
        subprocess.run(["sh", "-ec", found["now"]], check=True)
        assert int((cgroup / LIMIT).read_text()) == 32 << 20
        (found,) = kills(run, comm)
        assert found["status"] == "advice" and "raised to 32.0 MiB since" in found["message"] and found["now"] == ""
        (cgroup / LIMIT).write_text("-1" if V1 else "max")
        (found,) = kills(run, comm)
        assert found["status"] == "advice" and found["now"] == found["hint"] == "", found
        assert "its cgroup could use 16.0 MiB; now its cgroup has no maximum" in found["message"]
    with memory_cgroup(name) as cgroup:  # a limit that is gone cannot be raised
        eat(cgroup, comm[:8])
    (found,) = kills(run, comm[:8] + " in")
    assert found["now"] == "" and "its cgroup has ended" in found["hint"]


def test_the_cure_of_a_unit_and_of_a_pod_is_their_own(run: Run) -> None:
    unit = f"hr-{os.getpid()}.service"
    with memory_cgroup(unit) as cgroup:
        eat(cgroup, "inunit")
        (found,) = kills(run, f"inunit in unit {unit}")
        assert found["now"] == f"systemctl set-property --runtime {unit} MemoryMax={32 << 20}"
    # A user's systemd has its own units: the node may have another unit with that name.
    manager = MEMORY_ROOT / f"user@{os.getpid()}.service"
    manager.mkdir()
    if not V1:
        (manager / "cgroup.subtree_control").write_text("+memory")
    try:
        with memory_cgroup(f"{manager.name}/cron.service") as cgroup:
            eat(cgroup, "ofuser")
            (found,) = kills(run, "ofuser")
            assert found["now"] == f"echo {32 << 20} > {cgroup / LIMIT}", found
    finally:
        manager.rmdir()
    uid = f"0123456{os.getpid() % 10}-89ab-cdef-0123-456789abcdef"
    pod = MEMORY_ROOT / f"pod{uid}"
    (MEMORY_ROOT / "kubepods").mkdir(exist_ok=True)
    try:
        with memory_cgroup(f"kubepods/{pod.name}") as cgroup:
            eat(cgroup, "inpod")
            (found,) = kills(run, f"inpod in pod {uid}")
            assert found["now"] == "" and "memory limit of the pod" in found["hint"]
    finally:
        with contextlib.suppress(OSError):  # others may have pods there
            (MEMORY_ROOT / "kubepods").rmdir()


def test_lines_that_programs_write_do_not_count(run: Run) -> None:
    for line in (
        "<3>Out of memory: Killed process 77 (faked) total-vm:1kB",
        "<0>EXT4-fs (faked): Remounting filesystem read-only",
        "<2>I/O error, dev faked, sector 1 op 0x0:(READ)",
        "INFO: task faked:9 blocked for more than 120 seconds.",
    ):
        Path("/dev/kmsg").write_text(line + "\n")  # the end makes it visible
    assert not [c for c in findings(run, "kernel-log/.*") if "faked" in c["instance"]]


@contextlib.contextmanager
def loop_device(directory: Path, size: int = 16 << 20) -> Iterator[tuple[Path, str]]:
    """A device whose name no line in the kernel's log has yet."""
    image = directory / "image"
    with image.open("wb") as file:
        file.truncate(size)
    number = random.randrange(1000, 1 << 20)
    with open("/dev/loop-control") as control:
        fcntl.ioctl(control, LOOP_CTL_ADD, number)
        device = f"/dev/loop{number}"
        try:
            subprocess.run(["losetup", device, image], check=True)
            yield image, device
        finally:
            subprocess.run(["losetup", "--detach", device], check=True)
            until(lambda: not Path(f"/sys/block/loop{number}/loop").exists(), "the device is free")
            fcntl.ioctl(control, LOOP_CTL_REMOVE, number)


def findings_of(run: Run, slug: str, device: str) -> list[dict[str, Any]]:
    return [c for c in findings(run, slug) if c["instance"] == Path(device).name]


def of_device(run: Run, slug: str, device: str) -> list[dict[str, Any]]:
    return [c for c in findings_of(run, slug, device) if c["status"] != "advice"]


def test_failed_reads_name_the_device(run: Run, directory: Path) -> None:
    with loop_device(directory) as (image, device):
        assert of_device(run, "kernel-log/io-error", device) == []
        os.truncate(image, 4096)
        subprocess.run(["dd", f"if={device}", "of=/dev/null", "bs=4096", "skip=100", "count=1", "iflag=direct"], capture_output=True)
        (found,) = of_device(run, "kernel-log/io-error", device)
        assert found["status"] == "warning" and "smartctl" in found["hint"] and found["now"] == ""


def test_a_file_system_that_stopped_writing_is_critical_while_it_is_mounted(run: Run, directory: Path) -> None:
    with loop_device(directory) as (_, device):
        point = directory / "m p"
        point.mkdir()
        subprocess.run(["mkfs.ext4", "-q", device], check=True)
        subprocess.run(["mount", "-o", "errors=remount-ro", device, point], check=True)
        try:
            subprocess.run(["mount", "-o", "remount,ro", point], check=True)  # as an administrator does
            subprocess.run(["mount", "-o", "remount,rw", point], check=True)
            assert of_device(run, "kernel-log/read-only", device) == []
            Path(f"/sys/fs/ext4/{Path(device).name}/trigger_fs_error").write_text("1")
            (found,) = of_device(run, "kernel-log/read-only", device)
            assert found["status"] == "critical" and str(point) in found["message"]
            assert f"umount '{point}'" in found["hint"] and len(of_device(run, "kernel-log/io-error", device)) == 1
        finally:
            subprocess.run(["umount", point], check=True)
        assert of_device(run, "kernel-log/read-only", device) == []
        subprocess.run(["fsck", "-fy", device], capture_output=True)  # as the hint says
        subprocess.run(["mount", device, point], check=True)
        try:
            (found,) = findings_of(run, "kernel-log/read-only", device)
            assert found["status"] == "advice" and "mounted again since" in found["message"] and not found["hint"]
        finally:
            subprocess.run(["umount", point], check=True)


@pytest.mark.slow
def test_a_hung_task_is_named(run: Run, directory: Path) -> None:
    names = [Path("/proc/sys/kernel") / name for name in ("hung_task_timeout_secs", "hung_task_warnings")]
    before = [file.read_text() for file in names]
    comm = f"hung{os.getpid()}"
    with loop_device(directory) as (_, device):
        subprocess.run(["mkfs.ext4", "-q", device], check=True)
        point = directory / "mount"
        point.mkdir()
        subprocess.run(["mount", device, point], check=True)
        subprocess.run(["fsfreeze", "--freeze", point], check=True)
        shutil.copy("/usr/bin/touch", directory / comm)
        task = subprocess.Popen([directory / comm, point / "x"])
        try:
            assert [c for c in findings(run, "kernel-log/hung-task") if c["instance"] == comm] == []
            names[0].write_text("1")
            found = until(lambda: [c for c in findings(run, "kernel-log/hung-task") if c["instance"] == comm], "a hung task")[0]
        finally:
            for file, text in zip(names, before):
                file.write_text(text)
            subprocess.run(["fsfreeze", "--unfreeze", point], check=True)
            task.wait()
            subprocess.run(["umount", point], check=True)
    assert found["status"] == "warning" and f"pid {task.pid}" in found["message"] and found["hint"]


def test_without_the_right_the_log_is_unknown_with_the_cure(run: Run, directory: Path) -> None:
    """kernel.dmesg_restrict is 1 for this test, as in Debian."""
    restrict = Path("/proc/sys/kernel/dmesg_restrict")
    before = restrict.read_text()
    restrict.write_text("1")
    deprived = without("syslog", "sys_admin")
    user = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    root = put(directory / "root", {"/etc/resolv.conf": ""})
    try:
        for wrap, cure, words in (
            (deprived, "drop-in examples/kernel-log.conf", ()),
            (deprived, "add SYSLOG to the Helm value capabilities", ("--host-root", str(root))),
            (user, "run the command as root", ("--host-root", str(root))),
        ):
            answer = run("doctor", "--json", *words, wrap=wrap)
            found = [c for c in json.loads(answer.stdout)["checks"] if c["name"].startswith("kernel-log")]
            assert [(c["name"], c["status"]) for c in found] == [("kernel-log", "unknown")], (answer, found)
            assert cure in found[0]["message"], found
    finally:
        restrict.write_text(before)


def test_syslog_shows_what_a_container_cannot_read_from_the_device(run: Run, directory: Path) -> None:
    root = put(directory / "root", {"/etc/resolv.conf": ""})  # without /dev
    name = f"hr-syslog-{os.getpid()}"
    with memory_cgroup(name) as cgroup:
        eat(cgroup, "insyslog")
        for where in (None, root):
            (found,) = kills(run, f"insyslog in /{name}", root=where)
            assert "once at" in found["message"] and found["status"] == "warning", found


# ---- swap ----

KUBELET_FILES = {KUBELET: "kind: KubeletConfiguration\n"}


@pytest.mark.parametrize(
    ("files", "status", "instance", "message", "now", "hint"),
    [
        ({**KUBELET_FILES, "/proc/swaps": SWAPS + "/dev/sdz9 partition 9 0 -2\n"}, "warning", "/dev/sdz9", "(by default)", "swapoff /dev/sdz9", "list-units --type swap"),
        (
            {KUBELET: "a: 1\nfailSwapOn: true\n", "/proc/swaps": SWAPS + "/my\\040swap file 9 0 -2\n", "/etc/fstab": "# x\n/my\\040swap none swap sw 0 0\n"},
            "warning", "/my swap", f"({KUBELET}:2)", "swapoff '/my swap'", "/etc/fstab:2",
        ),
        ({KUBELET: "failSwapOn: maybe\n", "/proc/swaps": SWAPS + "/x file 9 0 -2\n"}, "unknown", "", f"{KUBELET}:1:", "", ""),
    ],
    ids=["default", "fstab", "broken"],
)  # fmt: skip
def test_swap_is_a_fault_where_the_kubelet_forbids_it(
    run: Run, directory: Path, files: dict[str, str], status: str, instance: str, message: str, now: str, hint: str
) -> None:
    (found,) = findings(run, "swap", put(directory / "root", files))
    assert (found["status"], found["instance"], found["now"]) == (status, instance, now), found
    assert message in found["message"] and hint in found["hint"], found


@pytest.mark.parametrize(
    ("files", "status"),
    [
        ({"/proc/swaps": SWAPS + "/x file 9 0 -2\n"}, "absent"),
        ({KUBELET: "failSwapOn: false\nmemorySwap: {swapBehavior: LimitedSwap}\n", "/proc/swaps": SWAPS + "/x file 9 0 -2\n"}, "ok"),
        ({"/var/lib/rancher/k3s/agent/etc/kubelet.conf.d/00-k3s.conf": "kind: KubeletConfiguration\n", "/proc/swaps": SWAPS + "/x file 9 0 -2\n"}, "ok"),
        ({**KUBELET_FILES, "/proc/swaps": SWAPS}, "ok"),
        ({KUBELET: "failSwapOn: maybe\n", "/proc/swaps": SWAPS}, "ok"),
    ],
    ids=["no kubelet", "NodeSwap", "k3s", "no swap", "no swap, broken file"],
)
def test_other_swap_is_ordinary(run: Run, directory: Path, files: dict[str, str], status: str) -> None:
    assert statuses(run, "swap", put(directory / "root", files)) == [status]


def test_the_cure_of_swap_works_as_printed(run: Run, directory: Path) -> None:
    file = directory / "swap's file"
    file.write_bytes(bytes(1 << 20))
    file.chmod(0o600)
    subprocess.run(["mkswap", "-q", file], check=True)
    root = put(directory / "root", KUBELET_FILES)
    (root / "proc").mkdir()
    wrap = mounted(f"mount --rbind /proc {root}/proc")
    with loop_device(directory) as (_, device):  # the file's own file system may refuse swap
        subprocess.run(["mkswap", "-q", device], check=True)
        subprocess.run(["swapon", device], check=True)
        try:
            (found,) = [c for c in findings(run, "swap", root, wrap=wrap) if c["instance"] == device]
            subprocess.run(["sh", "-ec", found["now"]], check=True)
            assert not [c for c in findings(run, "swap", root, wrap=wrap) if c["instance"] == device]
        finally:
            subprocess.run(["swapoff", device], capture_output=True)


# ---- cgroup controllers ----


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            {"/proc/cgroups": CGROUPS + "cpuset 2 1 1\ncpu 3 1 1\nmemory 0 9 0\npids 4 1 1\n"},
            {"memory": "remove cgroup_disable=memory from the kernel's command line, or add cgroup_enable=memory"},
        ),
        ({V2: "cpuset cpu io memory\n"}, {"pids": "grep pids /proc/cgroups"}),
        ({"/proc/cgroups": CGROUPS + "cpuset 0 1 1\ncpu 3 1 1\nmemory 4 9 1\npids 0 1 1\n", V2: "io\n"}, {"cpuset": "mount it", "pids": "mount it"}),
    ],
    ids=["switched off", "v2", "hybrid"],
)  # fmt: skip
def test_a_missing_controller_is_named(run: Run, directory: Path, files: dict[str, str], expected: dict[str, str]) -> None:
    found = findings(run, "cgroup-controllers", put(directory / "root", {**KUBELET_FILES, **files}))
    assert {c["instance"] for c in found} == set(expected), found
    for one in found:
        assert one["status"] == "critical" and expected[one["instance"]] in one["hint"] and one["now"] == "", one


@pytest.mark.parametrize(
    ("files", "status"),
    [
        ({V2: "cpu\n"}, "absent"),
        ({**KUBELET_FILES, V2: ALL_V2}, "ok"),
        ({**KUBELET_FILES, V2: ALL_V2, "/proc/cgroups": CGROUPS + "cpuset 0 1 1\ncpu 0 1 1\nmemory 0 1 1\npids 0 1 1\n"}, "ok"),
        ({**KUBELET_FILES, "/proc/cgroups": CGROUPS + "cpuset 3 1 1\nmemory 4 9 1\n", "/sys/fs/cgroup/unified/cgroup.controllers": "cpu pids\n"}, "ok"),
    ],
    ids=["no kubelet", "v2 alone", "v2", "hybrid"],
)  # fmt: skip
def test_controllers_of_either_version_are_enough(run: Run, directory: Path, files: dict[str, str], status: str) -> None:
    assert statuses(run, "cgroup-controllers", put(directory / "root", files)) == [status]


# ---- forwarding and bridges ----


@contextlib.contextmanager
def network() -> Iterator[tuple[str, ...]]:
    """A network namespace with lo; gives a command prefix that enters it."""
    holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "ip link set lo up && echo && exec sleep 100"], stdout=subprocess.PIPE)
    try:
        assert holder.stdout and holder.stdout.readline()
        yield ("nsenter", "--net", "--target", str(holder.pid))
    finally:
        holder.kill()
        holder.wait()


@pytest.mark.parametrize(
    ("slug", "key", "plugins"),
    [
        ("ip-forward", "net.ipv4.ip_forward", ("ptp", "portmap")),
        ("ip-forward", "net.ipv4.ip_forward", ("flannel", "portmap")),
        ("bridge-netfilter", "net.bridge.bridge-nf-call-iptables", ("bridge", "firewall")),
        ("bridge-netfilter", "net.bridge.bridge-nf-call-iptables", ("flannel",)),
    ],
)
def test_a_switch_that_the_network_needs_is_set_as_printed(run: Run, directory: Path, slug: str, key: str, plugins: tuple[str, ...]) -> None:
    root = put(directory / "root", {**KUBELET_FILES, CNI: cni(*plugins)})
    (root / "proc").mkdir()
    with network() as enter:
        wrap = enter + mounted(f"mount --rbind /proc {root}/proc")
        subprocess.run([*enter, "sysctl", "-qw", "net.ipv4.ip_forward=0", "net.bridge.bridge-nf-call-iptables=0"], check=True)
        (found,) = findings(run, slug, root, wrap=wrap)
        assert f"{key} is 0" in found["message"] and f"{CNI}: {plugins[0]}" in found["message"], found
        subprocess.run([*enter, "sh", "-ec", found["now"]], check=True)
        assert findings(run, slug, root, wrap=wrap) == []
    kept = directory / "kept.yaml"
    kept.write_text(found["keep"] + "\n")
    assert run("check-config", str(kept)).returncode == 0 and key in kept.read_text()


def test_a_missing_module_is_loaded_by_name(run: Run, directory: Path) -> None:
    root = put(directory / "root", {**KUBELET_FILES, CNI: cni("bridge"), FORWARD: "1\n"})
    (found,) = findings(run, "bridge-netfilter", root)
    assert found["now"] == "modprobe br_netfilter" and "/etc/modules-load.d/" in found["hint"]
    assert "br_netfilter is not loaded" in found["message"] and found["keep"].startswith("sysctl: {")


@pytest.mark.parametrize(
    ("files", "forward", "bridge"),
    [
        ({CNI: cni("bridge")}, "absent", "absent"),
        (KUBELET_FILES, "absent", "absent"),
        ({**KUBELET_FILES, CNI: cni("macvlan")}, "ok", "ok"),
        ({**KUBELET_FILES, CNI: cni("cilium-cni"), FORWARD: "1\n"}, "ok", "ok"),
        ({**KUBELET_FILES, CNI: cni("bridge"), FORWARD: "1\n", BRIDGE: "1\n"}, "ok", "ok"),
        ({**KUBELET_FILES, CNI: cni("macvlan"), "/etc/cni/net.d/99-other.conf": '{"type": "bridge"}'}, "ok", "ok"),
        ({**KUBELET_FILES, CNI: "{"}, "unknown", "unknown"),
    ],
    ids=["no kubelet", "no CNI", "macvlan", "cilium", "set", "only the first file counts", "broken file"],
)
def test_a_network_without_the_need_is_ordinary(run: Run, directory: Path, files: dict[str, str], forward: str, bridge: str) -> None:
    root = put(directory / "root", {FORWARD: "0\n", BRIDGE: "0\n", **files})
    if "cilium" in files.get(CNI, ""):
        (root / BRIDGE.lstrip("/")).unlink()
    assert (statuses(run, "ip-forward", root), statuses(run, "bridge-netfilter", root)) == ([forward], [bridge])


# ---- units ----


@pytest.fixture
def systemd(directory: Path) -> Iterator[Callable[..., dict[str, str]]]:
    """systemd("kubelet.service", state, ...) starts a bus with this unit, and gives the environment for doctor. Times are seconds ago."""
    with contextlib.ExitStack() as started:

        def start(name: str, state: str, **properties: Any) -> dict[str, str]:
            path = directory / f"bus{time.monotonic_ns()}"
            fake = Systemd(path, path.with_suffix(".conf"), name, lambda unit: None)
            started.callback(fake.close)
            dbus = __import__("dbus")
            typed = {k: dbus.UInt32(v) if k == "NRestarts" else dbus.UInt64((time.time() - v) * 1e6) if k.endswith("Timestamp") else v for k, v in properties.items()}
            fake.unit.state = state
            fake.unit.more = {"LoadState": "loaded", "UnitFileState": "enabled", "Result": "success", "SubState": "running", **typed}
            return {"DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={path}"}

        yield start


UNITS = [
    (("containerd.service", "failed"), {"Result": "oom-kill", "StateChangeTimestamp": 5}, "critical", "systemctl start containerd.service"),
    (("kubelet.service", "failed"), {"Result": "start-limit-hit"}, "critical", "systemctl reset-failed kubelet.service && systemctl start kubelet.service"),
    (("crio.service", "failed"), {"Result": "exit-code"}, "critical", "systemctl start crio.service"),
    (("kubelet.service", "activating"), {"SubState": "auto-restart", "NRestarts": 7, "Result": "exit-code"}, "warning", ""),
    (("k3s.service", "active"), {"NRestarts": 4, "ActiveEnterTimestamp": 5}, "warning", ""),
    (("cri-docker.service", "failed"), {"Result": "exit-code", "UnitFileState": "disabled"}, "advice", "systemctl reset-failed cri-docker.service"),
]  # fmt: skip


@pytest.mark.parametrize(("unit", "properties", "status", "now"), UNITS, ids=[" ".join(one[0]) for one in UNITS])
def test_a_unit_that_fails_or_flaps_is_named(
    run: Run, directory: Path, systemd: Callable[..., dict[str, str]], unit: tuple[str, str], properties: dict[str, Any], status: str, now: str
) -> None:
    root = put(directory / "root", KUBELET_FILES)
    (found,) = findings(run, "units", root, env=systemd(*unit, **properties))
    assert (found["instance"], found["status"], found["now"]) == (unit[0], status, now), found
    assert f"journalctl -u {unit[0]} -n 20" in found["hint"] or "not enabled" in found["hint"]
    if "NRestarts" in properties:
        assert f"restarted {properties['NRestarts']} times" in found["message"]
    if "StateChangeTimestamp" in properties:
        assert re.search(r"\d\d:\d\d UTC", found["message"])


@pytest.mark.parametrize(
    ("unit", "properties"),
    [
        (("cri-docker.service", "inactive"), {"SubState": "dead", "UnitFileState": "disabled"}),
        (("kubelet.service", "inactive"), {"SubState": "dead"}),
        (("containerd.service", "active"), {"NRestarts": 9, "ActiveEnterTimestamp": 3600}),
        (("kubelet.service", "activating"), {"SubState": "auto-restart", "NRestarts": 1}),
        (("cron.service", "failed"), {"Result": "exit-code"}),
    ],
    ids=["not enabled", "stopped", "stable again", "one restart", "another unit"],
)
def test_other_units_are_ordinary(
    run: Run, directory: Path, systemd: Callable[..., dict[str, str]], unit: tuple[str, str], properties: dict[str, Any]
) -> None:
    assert findings(run, "units", put(directory / "root", KUBELET_FILES), env=systemd(*unit, **properties)) == []


def test_a_kubelet_without_a_cluster_is_advice(run: Run, directory: Path, systemd: Callable[..., dict[str, str]]) -> None:
    env = systemd("kubelet.service", "activating", SubState="auto-restart", NRestarts=30)
    (found,) = findings(run, "units", put(directory / "root", {"/etc/os-release": ""}), env=env)
    assert found["status"] == "advice" and "kubeadm join" in found["hint"]


def test_a_silent_systemd_is_unknown_and_none_is_absent(run: Run, directory: Path) -> None:
    root = put(directory / "root", KUBELET_FILES)
    assert statuses(run, "units", root) == ["absent"]
    (root / "run/systemd/system").mkdir(parents=True)
    assert statuses(run, "units", root) == ["unknown"]


# ---- the clock ----


class Timex(ctypes.Structure):
    _fields_ = [("modes", ctypes.c_uint), *((name, ctypes.c_long) for name in ("offset", "freq", "maxerror", "esterror")), ("status", ctypes.c_int), ("rest", ctypes.c_long * 40)]  # fmt: skip


UNSYNC = 0x40


def set_clock(status: int, maxerror: int) -> Timex:
    """Sets what adjtimex(2) says about the clock, and not the clock. Returns what it said before."""
    libc, before = ctypes.CDLL(None, use_errno=True), Timex()
    assert libc.adjtimex(ctypes.byref(before)) >= 0
    changed = Timex(modes=0x10 | 0x4, status=status, maxerror=maxerror)
    assert libc.adjtimex(ctypes.byref(changed)) >= 0, os.strerror(ctypes.get_errno())
    return before


@pytest.fixture
def clock() -> Iterator[Callable[[int, int], None]]:
    before = set_clock(UNSYNC, 16000000)
    yield lambda status, maxerror: (set_clock(status, maxerror), None)[1]
    set_clock(before.status, before.maxerror)


def program(pid: int, comm: str, ticks: int) -> dict[str, str]:
    return {f"/proc/{pid}/comm": comm + "\n", f"/proc/{pid}/stat": f"{pid} ({comm}) S 1 2 3 0 -1 4 5 6 7 8 9 10 11 12 20 0 1 0 {ticks} 9 9\n"}


def uptime() -> int:
    return int(float(Path("/proc/uptime").read_text().split()[0]))


def test_a_clock_that_nothing_sets_names_the_program(
    run: Run, directory: Path, clock: Callable[[int, int], None], systemd: Callable[..., dict[str, str]]
) -> None:
    root = put(directory / "plain", {"/etc/os-release": ""})
    (found,) = findings(run, "clock", root)
    assert found["status"] == "advice" and "no chronyd" in found["message"]
    root = put(directory / "node", KUBELET_FILES)
    (found,) = findings(run, "clock", root)
    assert found["status"] == "warning" and "install chrony" in found["hint"] and found["now"] == ""
    (found,) = findings(run, "clock", root, env=systemd("chrony.service", "inactive"))
    assert found["status"] == "warning" and found["now"] == "systemctl restart chrony.service", found
    if uptime() > 400:
        root = put(directory / "source", program(77, "chronyd", 100))
        (found,) = findings(run, "clock", root)
        assert found["status"] == "warning" and "although chronyd runs" in found["message"] and "chronyc sources" in found["hint"]


@pytest.mark.slow
def test_a_clock_that_others_set_is_ordinary(run: Run, directory: Path, clock: Callable[[int, int], None]) -> None:
    root = put(directory / "root", KUBELET_FILES)
    for files in ({"/run/systemd/container": "lxc\n"}, {"/sys/bus/vmbus/drivers/hv_utils/bind": ""}, program(9, "VBoxService", 100), program(9, "chronyd", uptime() * 100)):
        assert statuses(run, "clock", put(directory / f"other{len(files)}{hash(str(files))}", {**KUBELET_FILES, **files})) == ["absent"], files
    clock(UNSYNC, 90000)
    assert statuses(run, "clock", root) == ["warning"]
    assert statuses(run, "clock", put(directory / "chrony", {**KUBELET_FILES, **program(9, "chronyd", 100)})) == ["ok"]  # without rtcsync
    clock(0, 90000)
    assert statuses(run, "clock", root) == ["ok"]


# ---- resolv.conf ----


@contextlib.contextmanager
def name_servers(enter: tuple[str, ...], *addresses: str) -> Iterator[None]:
    """Servers in the namespace. They answer every query with a refusal."""
    script = """
import select, socket, sys
servers = []
for address in sys.argv[1:]:
    servers.append(socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM))
    servers[-1].bind((address, 53))
print(flush=True)
while True:
    for server in select.select(servers, [], [])[0]:
        data, peer = server.recvfrom(512)
        server.sendto(data[:2] + b"\\x81\\x85" + data[4:], peer)
"""
    server = subprocess.Popen([*enter, sys.executable, "-c", script, *addresses], stdout=subprocess.PIPE)
    try:
        assert server.stdout and server.stdout.readline()
        yield
    finally:
        server.kill()
        server.wait()


LIVE = ("127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.53", "::1", "127.0.0.5")
STUB = "# This is /run/systemd/resolve/stub-resolv.conf\nnameserver 127.0.0.53\noptions edns0 trust-ad\nsearch .\n"


@pytest.fixture
def resolving() -> Iterator[tuple[str, ...]]:
    with network() as enter, name_servers(enter, *LIVE):
        yield enter


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("nameserver 127.0.0.1\nnameserver 127.9.9.9\n", 2, "127.9.9.9 does not answer (Connection refused), and 1 of 2 servers do"),
        ("; x\nsearch a b\nnameserver 192.0.2.1\nnameserver ::1\nnameserver 127.0.0.2\n", 3, "192.0.2.1 does not answer (Network is unreachable), and 2 of 3"),
        ("".join(f"nameserver {one}\n" for one in LIVE[:5]), 4, "5 name servers: resolvers ask the first 3, never 127.0.0.53 and later ones"),
        ("nameserver 127.0.0.1\nnameserver 127.0.0.2\n\nnameserver 127.0.0.3\nnameserver 127.0.0.9\n", 5, "4 name servers: resolvers ask the first 3, never 127.0.0.9"),
    ],
)  # fmt: skip
def test_a_server_that_does_not_help_is_named_and_taken_out(
    run: Run, directory: Path, resolving: tuple[str, ...], text: str, line: int, message: str
) -> None:
    root = put(directory / "root", {"/etc/resolv.conf": text})
    (found,) = findings(run, "resolver", root, wrap=resolving)
    assert found["status"] == "warning" and found["instance"].startswith(f"/etc/resolv.conf:{line} nameserver ") and message in found["message"], found
    subprocess.run(["sh", "-ec", found["now"].replace("/etc/", f"{root}/etc/")], check=True)
    assert findings(run, "resolver", root, wrap=resolving) == [], (root / "etc/resolv.conf").read_text()


def test_what_cannot_be_typed_has_a_hint(run: Run, directory: Path, resolving: tuple[str, ...]) -> None:
    files = {"/run/systemd/resolve/resolv.conf": "nameserver 127.9.9.9\nnameserver 127.0.0.1\n", "/etc/x": ""}
    root = put(directory / "root", files)
    (root / "etc/resolv.conf").symlink_to("../run/systemd/resolve/resolv.conf")
    (found,) = findings(run, "resolver", root, wrap=resolving)
    assert found["now"] == "" and "resolvectl status" in found["hint"], found
    root = put(directory / "alone", {"/etc/resolv.conf": "nameserver 127.9.9.9\n"})
    (found,) = findings(run, "resolver", root, wrap=resolving)
    assert "no other server does" in found["message"] and found["now"] == "" and "dig @127.9.9.9" in found["hint"]
    root = put(directory / "search", {"/etc/resolv.conf": "nameserver 127.0.0.1\nsearch a b c\ndomain d\nsearch 1 2 3 4 5 6 7\n"})
    (found,) = findings(run, "resolver", root, wrap=resolving)
    assert found["instance"] == "/etc/resolv.conf:4 search" and found["message"].startswith("7 search domains"), found


@pytest.mark.parametrize(
    ("files", "instance", "message", "now"),
    [
        (
            {"/etc/resolv.conf": STUB, KUBELET: "clusterDNS: [10.96.0.10]\nresolvConf: /etc/resolv.conf\n", "/run/systemd/resolve/resolv.conf": "nameserver 127.0.0.1\n"},
            "/etc/resolv.conf:2", "127.0.0.53 to pods", f"{KUBELET}:2: write resolvConf: /run/systemd/resolve/resolv.conf",
        ),
        ({"/etc/resolv.conf": "nameserver 127.0.0.1\n", KUBELET: "a: 1\n"}, "/etc/resolv.conf:1", "there the pod itself", ""),
        ({"/etc/resolv.conf": STUB, KUBELET: "resolvConf: /etc/k\nclusterDNS: ['127.0.0.5']\n", "/etc/k": "\nnameserver 127.0.0.5\n"}, "/etc/k:2", "the cluster's own server", ""),
    ],
    ids=["stub", "default", "cluster"],
)  # fmt: skip
def test_a_loop_through_the_kubelet_is_named(
    run: Run, directory: Path, resolving: tuple[str, ...], files: dict[str, str], instance: str, message: str, now: str
) -> None:
    (found,) = findings(run, "resolver", put(directory / "root", files), wrap=resolving)
    assert found["instance"].startswith(instance + " nameserver ") and message in found["message"], found
    assert found["now"] == now and found["now_kind"] == ("edit" if now else "") and found["hint"], found


def test_a_loop_to_a_dead_server_is_ignored_apart_from_the_server(run: Run, directory: Path, resolving: tuple[str, ...]) -> None:
    root = put(directory / "root", {"/etc/resolv.conf": "nameserver 127.9.9.9\n", KUBELET: "a: 1\n"})
    dead, loop = findings(run, "resolver", root, wrap=resolving)
    assert "does not answer" in dead["message"] and "the kubelet gives" in loop["message"]
    config = directory / "headroom.yaml"
    config.write_text(f"doctor: {{ignore: ['{dead['id']}']}}\n")
    answer = run("doctor", "--json", "--config", str(config), "--host-root", str(root), wrap=resolving)
    shown = {c["message"]: c["status"] for c in json.loads(answer.stdout)["checks"] if c["name"] == "resolver"}
    assert shown == {dead["message"]: "ignored", loop["message"]: "warning"}


@pytest.mark.parametrize(
    "files",
    [
        {"/etc/resolv.conf": STUB},
        {"/etc/resolv.conf": "# nameserver 9.9.9.9\nnameserver 127.0.0.1\nnameserver 127.0.0.2\nnameserver ::1\nsearch a b c d e f\noptions ndots:5\n nameserver 1.2.3.4\n"},
        {"/etc/resolv.conf": "nameserver 127.0.0.1\n", "/var/lib/rancher/k3s/agent/etc/kubelet.conf.d/0.conf": "clusterDNS: [127.0.0.1]\n"},
        {"/etc/resolv.conf": STUB, KUBELET: "resolvConf: ''\n"},
    ],
    ids=["stub", "full", "k3s", "pods have none"],
)  # fmt: skip
def test_other_resolvers_are_ordinary(run: Run, directory: Path, resolving: tuple[str, ...], files: dict[str, str]) -> None:
    assert findings(run, "resolver", put(directory / "root", files), wrap=resolving) == []


def test_a_kubelet_that_cannot_be_read_leaves_loops_unknown(run: Run, directory: Path, resolving: tuple[str, ...]) -> None:
    root = put(directory / "root", {"/etc/resolv.conf": STUB, KUBELET: "resolvConf: [a]\n"})
    (found,) = findings(run, "resolver", root, wrap=resolving)
    assert found["status"] == "unknown" and f"{KUBELET}:1:" in found["message"]


def test_a_file_that_the_kubelet_lacks_is_a_fault(run: Run, directory: Path, resolving: tuple[str, ...]) -> None:
    root = put(directory / "root", {"/etc/resolv.conf": STUB, KUBELET: "resolvConf: /run/gone\n"})
    (found,) = findings(run, "resolver", root, wrap=resolving)
    assert "/run/gone does not exist" in found["message"]


# ---- all ----


def test_each_finding_can_be_ignored_by_slug_and_by_instance(run: Run, directory: Path) -> None:
    root = put(directory / "root", {**KUBELET_FILES, "/proc/swaps": SWAPS + "/a file 9 0 -2\n/b file 9 0 -2\n", CNI: cni("bridge"), FORWARD: "0\n"})
    config = directory / "c.yaml"
    config.write_text("doctor: {ignore: ['swap@device:/a', ip-*, 'kernel-log/*', resolver@*]}\n")
    assert run("check-config", str(config)).returncode == 0
    answer = run("doctor", "--json", "--config", str(config), "--host-root", str(root))
    found = {c.get("id"): c["status"] for c in json.loads(answer.stdout)["checks"]}
    assert (found["swap@device:/a"], found["swap@device:/b"], found["ip-forward"]) == ("ignored", "warning", "ignored"), found
    for slug in ("kernel-log/oom", "cgroup-controllers", "swap", "bridge-netfilter", "ip-forward", "units", "clock", "resolver"):
        assert run("explain", slug).stdout.startswith(f"{slug} (check")
    config.write_text("doctor: {ignore: ['swop@device:/a']}\n")
    assert "no check has this name" in run("check-config", str(config)).stderr


def test_names_of_others_cannot_write_to_the_terminal(run: Run, directory: Path) -> None:
    files = {**KUBELET_FILES, "/proc/swaps": SWAPS + "/x\\033[31m\\012now file 9 0 -2\n", CNI: cni("bridge\x1b[2J")}
    answer = run("doctor", "--host-root", str(put(directory / "root", files)))
    assert "\x1b" not in answer.stdout and "swap" in answer.stdout
    assert not [line for line in answer.stdout.splitlines() if line.startswith("now")]
