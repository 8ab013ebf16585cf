# SPDX-License-Identifier: Apache-2.0
"""Storage: syncs and requests are counted exactly, etcd's latency is etcd's own, and the workload that holds the queue is named."""

import contextlib
import os
import re
import subprocess
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest
from conftest import BIN, Agent, Node, Run, end, free_port, spawn, sysctl, until
from fakesystemd import Systemd
from runtimelab import Lab, lab  # noqa: F401

CONFIG = "mode: observe\nstorage: {processes: [etcd, synctest]}"
BLKIO = Path("/sys/fs/cgroup/blkio")
CGROUP2 = next(path for path in (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup")) if (path / "cgroup.controllers").exists())
MIB = 1 << 20

SYNC = "import os, sys\nfd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)\nfor i in range(int(sys.argv[2])):\n os.pwrite(fd, b'x' * 2300, 0)\n os.fdatasync(fd)\n"


# As dqlite does: it syncs its directory, then makes a segment in it, and writes that with libaio and O_DSYNC past the page cache.
ASYNC = """import ctypes, mmap, os, struct, sys
call, context, block = ctypes.CDLL(None).syscall, ctypes.c_ulong(), mmap.mmap(-1, 4096)
setup, destroy, events, submit = SYSTEM_CALLS
os.fsync(os.open(os.path.dirname(sys.argv[1]), os.O_RDONLY))
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_DIRECT | os.O_DSYNC)
os.posix_fallocate(fd, 0, 1 << 20)
assert call(setup, 1, ctypes.byref(context)) == 0
for i in range(50):
    request = struct.pack("QIIHhIQQqQII", 0, 0, 0, 1, 0, fd, ctypes.addressof(ctypes.c_char.from_buffer(block)), 4096, i * 4096, 0, 0, 0)
    requests = (ctypes.c_char_p * 1)(request)
    assert call(submit, context, ctypes.c_long(1), requests) == 1
    assert call(events, context, ctypes.c_long(1), ctypes.c_long(1), ctypes.create_string_buffer(32), None) == 1
""".replace("SYSTEM_CALLS", "0, 1, 4, 2" if os.uname().machine == "aarch64" else "206, 207, 208, 209")


@pytest.fixture
def disk(directory: Path) -> Iterator[Path]:
    """An ext4 file system on a loop device, mounted."""
    image, mount = directory / "disk.img", directory / "disk"
    mount.mkdir()
    with image.open("wb") as file:
        file.truncate(512 * MIB)
    subprocess.run(["mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", image], check=True)
    loop = subprocess.run(["losetup", "--find", "--show", image], capture_output=True, text=True, check=True).stdout.strip()
    try:
        subprocess.run(["mount", "-t", "ext4", loop, mount], check=True)
        yield mount
    finally:
        subprocess.run(["umount", "--lazy", mount], check=False)
        subprocess.run(["losetup", "--detach", loop], check=False)


@pytest.fixture
def counting(agent: Callable[..., Agent]) -> Agent:
    one = agent(CONFIG)
    until(lambda: one.status()["storage"] is not None, "BPF counts syncs")
    return one


@pytest.fixture(name="pod")
def fixture_pod() -> Iterator[Path]:
    """A pod's cgroup for requests to disks."""
    uid = "0f2d7ad8-91c1-4d49-a1c9-1f1d2f000026"
    base = BLKIO if BLKIO.exists() else Path("/sys/fs/cgroup")
    group = base / "kubepods" / f"pod{uid}"
    group.mkdir(parents=True)
    try:
        yield group
    finally:
        until(lambda: not (group / "cgroup.procs").read_text(), "the pod has ended")
        group.rmdir()
        group.parent.rmdir()


def loop_of(mount: Path) -> str:
    return Path(subprocess.run(["findmnt", "-no", "SOURCE", mount], capture_output=True, text=True, check=True).stdout.strip()).name


def latency(agent: Agent, device: str, process: str) -> tuple[float, float]:
    labels, metrics = f'{{device="{device}",process="{process}"}}', agent.metrics()
    name = "headroom_storage_sync_latency_seconds"
    return metrics.get(f"{name}_count{labels}", 0), metrics.get(f"{name}_sum{labels}", 0)


def write_file(path: Path, group: Path | None, mebibytes: int, stop: Path | None = None) -> int:
    """Writes through the page cache, with fdatasync every 16 MiB, in the cgroup, again until there is a file stop. Returns how many MiB."""

    def join() -> None:
        if group:
            (group / "cgroup.procs").write_text(str(os.getpid()))

    program = (f"import os\nfd = os.open('{path}', os.O_WRONLY | os.O_CREAT)\nblock, i = b'x' * {MIB}, 0\n"
               f"while i % {mebibytes} or not i or not os.path.exists('{stop or '/'}'):\n"
               f" os.pwrite(fd, block, i % {mebibytes} * {MIB})\n i += 1\n if i % 16 == 0: os.fdatasync(fd)\nprint(i)")
    return int(subprocess.run(["/usr/bin/python3", "-c", program], preexec_fn=join, check=True, stdout=subprocess.PIPE).stdout)


def test_each_sync_counts_once_for_its_device_and_process(counting: Agent, disk: Path, directory: Path) -> None:
    device, trace = loop_of(disk), directory / "strace"
    listed = directory / "synctest"
    listed.symlink_to("/usr/bin/python3")
    subprocess.run(["strace", "-f", "-c", "-o", trace, listed, "-c", SYNC, disk / "a", "300"], check=True)
    calls = int(re.search(r"(\d+)\s+fdatasync", trace.read_text()).group(1))  # type: ignore[union-attr]
    assert calls == 300
    until(lambda: latency(counting, device, "synctest")[0] >= calls, "the syncs are reported")
    assert latency(counting, device, "synctest")[0] == calls
    users = {user["text"]: user for user in counting.status()["storage"]["users"] if user["device"] == device}
    assert users["synctest (host)"]["syncs"] == calls and "queue_share" not in users["synctest (host)"]
    subprocess.run(["dd", "if=/dev/zero", f"of={disk}/b", "bs=4k", "count=50", "oflag=dsync"], check=True, capture_output=True)
    until(lambda: latency(counting, device, "other")[0] >= 50, "synchronous writes are reported")
    assert latency(counting, device, "other")[0] == 50
    subprocess.run([listed, "-c", ASYNC, disk / "c"], check=True)
    until(lambda: latency(counting, device, "synctest")[0] >= calls + 51, "syncs by kernel workers are reported")
    assert (latency(counting, device, "synctest")[0], latency(counting, device, "other")[0]) == (calls + 51, 50)
    unsuited = counting.wait_condition("StorageUnsuited")
    assert unsuited["severity"] == "advice" and f"syncs go to {device}, kind loop" in unsuited["message"]


def test_bytes_are_those_of_the_disk_and_the_writer_is_named(counting: Agent, disk: Path, pod: Path) -> None:
    device = loop_of(disk)
    stat = Path(f"/sys/block/{device}/stat")

    def written() -> int:
        return int(stat.read_text().split()[6]) * 512

    def users() -> dict[str, dict[str, Any]]:
        return {user["workload"]["text"]: user for user in counting.status()["storage"]["users"] if user["device"] == device}

    name = f"pod {pod.name[3:]}"
    counted = f'headroom_storage_io_bytes_total{{device="{device}",direction="write"}}'
    subprocess.run(["sync", "-f", disk], check=True)
    until(lambda: counted in counting.metrics() and counting.metrics()[counted] > 0, "the disk is known")
    before, counted_before = written(), counting.metrics()[counted]
    write_file(disk / "hog", pod, 128)
    subprocess.run(["sync", "-f", disk], check=True)
    until(lambda: counting.metrics()[counted] - counted_before >= 128 * MIB, "the bytes are reported")
    until(lambda: counting.metrics()[counted] - counted_before == written() - before, "all bytes of the disk are counted")
    until(lambda: name in users(), "the writer is named")
    assert users()[name]["write_bytes"] == pytest.approx(128 * MIB, rel=0.02)


@pytest.mark.slow
def test_a_process_whose_sync_does_not_end_is_slow_after_many_fast_ones(
    agent: Callable[..., Agent], disk: Path, directory: Path, pod: Path
) -> None:
    """p99 of five minutes says nothing about it: the share of the time in syncs does, and the sync has not ended."""
    throttle = pod / "blkio.throttle.write_bps_device"
    if not throttle.exists():
        pytest.skip("only cgroup v1 limits writes of a file system here")
    counting = agent("mode: observe\nstorage: {processes: [synctest], sync_p99: 1s}")
    until(lambda: counting.status()["storage"] is not None, "BPF counts syncs")
    listed, device = directory / "synctest", loop_of(disk)
    listed.symlink_to("/usr/bin/python3")
    number = os.stat(f"/dev/{device}").st_rdev
    program = SYNC + "input()\nos.pwrite(fd, b'y' * 2300, 0)\nos.fdatasync(fd)\n"
    group = CGROUP2 / "headroom-sync"
    group.mkdir()

    def join() -> None:
        for directory in (pod, group):
            (directory / "cgroup.procs").write_text(str(os.getpid()))

    slow = subprocess.Popen([listed, "-c", program, disk / "a", "4000"], stdin=subprocess.PIPE, preexec_fn=join)
    assert slow.stdin
    try:
        until(lambda: latency(counting, device, "synctest")[0] >= 4000, "the fast syncs are reported")
        assert not [found for found in counting.status()["findings"] if found["condition"] == "StorageSlow"]
        throttle.write_text(f"{os.major(number)}:{os.minor(number)} 50")  # 80 s for a page
        slow.stdin.write(b"\n")
        slow.stdin.flush()
        found = lambda: next((one for one in counting.status()["findings"] if one["slug"] == "syncs-slow"), {"message": ""})  # noqa: E731
        shown = until(lambda: "of the last 30 s in" in (one := found())["message"] and one, "it takes half of the time", timeout=40)
        assert latency(counting, device, "synctest")[0] == 4000  # none has ended since
        assert "1 took over 1 s" in shown["message"]
        if Path("/proc/pressure/io").exists():
            assert shown["pressure"]["cgroup"]["io"] > 0.5 and 0 <= shown["pressure"]["node"]["cpu"] <= 1
            assert re.search(r"node: io .*; unit /headroom-sync: io ", shown["pressure"]["text"])
    finally:
        throttle.write_text(f"{os.major(number)}:{os.minor(number)} 0")
        slow.communicate()
        group.rmdir()


@pytest.fixture
def start_etcd(disk: Path, directory: Path) -> Iterator[Callable[..., str]]:
    """start_etcd(*options) starts etcd on the disk and returns its URL."""
    started: list["subprocess.Popen[bytes]"] = []

    def start(*options: str) -> str:
        url, log = f"http://127.0.0.1:{free_port()}", directory / "etcd.log"
        started.append(spawn(["etcd", "--data-dir", disk / "etcd", "--listen-client-urls", url, "--advertise-client-urls", url,
                              "--listen-peer-urls", f"http://127.0.0.1:{free_port()}", *options], log))
        until(lambda: "ready to serve client requests" in log.read_text(), "etcd serves")
        return url

    try:
        yield start
    finally:
        for etcd in started:
            end(etcd)


@pytest.mark.slow
@pytest.mark.parametrize("puts, beside", [pytest.param(2000, False, marks=pytest.mark.slow), (400, True)], ids=["quiet", "beside_a_buffered_writer"])
def test_the_latency_of_etcd_is_etcds_own_and_a_writer_is_named(
    counting: Agent, disk: Path, pod: Path, start_etcd: Callable[..., str], puts: int, beside: bool
) -> None:
    url = start_etcd()

    def own() -> dict[str, float]:
        text = urllib.request.urlopen(f"{url}/metrics", timeout=10).read().decode()
        return {name: float(value) for name, value in re.findall(r"^(etcd_disk_\S+_(?:count|sum)) (\S+)$", text, re.M)}

    device = loop_of(disk)

    def settled() -> tuple[float, float]:
        """Etcd commits a moment after the last put."""
        until(lambda: (a := latency(counting, device, "etcd")) and not until_quiet(a, lambda: latency(counting, device, "etcd")), "etcd is quiet")
        return latency(counting, device, "etcd")

    until(lambda: latency(counting, device, "etcd")[0] > 0, "etcd is seen")
    before, first = settled(), own()
    with ThreadPoolExecutor() as pool:
        writer = pool.submit(write_file, disk / "hog", pod, 16, disk / "stop") if beside else None
        try:
            put(url, puts)
        finally:
            (disk / "stop").touch()
    now, after = settled(), own()
    wal = after["etcd_disk_wal_fsync_duration_seconds_count"] - first["etcd_disk_wal_fsync_duration_seconds_count"]
    commits = after["etcd_disk_backend_commit_duration_seconds_count"] - first["etcd_disk_backend_commit_duration_seconds_count"]
    assert wal >= puts
    syncs, seconds = now[0] - before[0], now[1] - before[1]
    # A commit syncs the database twice: its pages, then its meta page.
    assert syncs == pytest.approx(wal + 2 * commits, rel=0.005)
    took = sum(after[f"etcd_disk_{name}_duration_seconds_sum"] - first[f"etcd_disk_{name}_duration_seconds_sum"] for name in ("wal_fsync", "backend_commit"))
    print(f"etcd: {wal:.0f} WAL syncs, {commits:.0f} commits, {took:.3f} s; counted: {syncs:.0f}, {seconds:.3f} s")
    # etcd starts its clock before the system call, some microseconds on a fast disk, and a commit also writes its pages.
    assert took - max(0.05 * took, 20e-6 * syncs) <= seconds <= took
    process = next(p for p in counting.status()["storage"]["processes"] if p["process"] == "etcd")
    assert process["device"] == device and process["kind"] == "loop" and process["p99"] > 0
    if writer:
        # Users are sorted by their share of the queue.
        hog = next(user for user in counting.status()["storage"]["users"] if user["device"] == device)
        print(f"{hog['workload']['text']}: {hog['write_bytes'] / MIB} of {writer.result()} MiB, {hog['queue_share']:.0%} of the queue")
        assert hog["workload"]["text"] == f"pod {pod.name[3:]}"
        assert hog["write_bytes"] == pytest.approx(writer.result() * MIB, rel=0.02)


@pytest.mark.slow
def test_the_database_of_etcd_and_its_file_system_are_limits(counting: Agent, disk: Path, start_etcd: Callable[..., str]) -> None:
    url, file = start_etcd("--quota-backend-bytes=18500000"), disk / "etcd/member/snap/db"
    put(url, 150, 100_000)  # the file has 15.8 MB with etcd 3.4, and 16.8 MB with 3.5, which grows it in steps

    def limit(name: str) -> dict[str, Any]:
        return next((one for one in counting.status()["limits"] if one["name"] == name), {})

    shown = until(lambda: (one := limit("etcd/db")) and one["used"] == file.stat().st_size and one, "the size of the database is a limit")
    assert shown["max"] == 18_500_000 and shown["bound"] == "upper"
    assert counting.wait_condition("LimitPressure")["message"].count("etcd/db")
    shown, stat = until(lambda: limit("filesystem/storage/bytes"), "the file system of etcd is a limit"), os.statvfs(disk)
    assert shown["max"] == (stat.f_blocks - stat.f_bfree + stat.f_bavail) * stat.f_frsize
    assert shown["used"] == pytest.approx((stat.f_blocks - stat.f_bfree) * stat.f_frsize, rel=0.05)
    assert limit("filesystem/storage/inodes")["max"] == stat.f_files


@pytest.mark.slow
def test_the_quota_of_k3s_is_that_of_its_units_command(disk: Path, directory: Path, agent: Callable[..., Agent]) -> None:
    """The server hides its own command line."""
    bus, listed, group = directory / "bus", directory / "k3s-server", CGROUP2 / "system.slice/k3s.service"
    systemd = Systemd(bus, directory / "bus.conf", "k3s.service", lambda _: None)
    systemd.unit.command = ["k3s", "server", "--etcd-arg=quota-backend-bytes=1", "--etcd-arg", "quota-backend-bytes=3000", "--etcd-arg=heartbeat-interval=9"]
    listed.symlink_to("/usr/bin/python3")
    group.mkdir(parents=True)
    server = subprocess.Popen([listed, "-c", f"input()\n{SYNC}\ninput()", disk / "db", "1"], stdin=subprocess.PIPE)
    assert server.stdin
    try:
        (group / "cgroup.procs").write_text(str(server.pid))
        one = agent("mode: observe", env={"DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={bus}"})
        until(lambda: one.status()["storage"] is not None, "BPF counts syncs")
        server.stdin.write(b"\n")
        server.stdin.flush()
        shown = until(lambda: next((limit for limit in one.status()["limits"] if limit["name"] == "etcd/db"), None), "the database is a limit")
        assert (shown["used"], shown["max"]) == (2300, 3000)
    finally:
        server.communicate(b"\n")
        systemd.close()
        group.rmdir()
        with contextlib.suppress(OSError):
            group.parent.rmdir()  # others may use it


@pytest.mark.slow
def test_images_on_a_loop_device_are_unsuited_and_their_file_system_is_a_limit(disk: Path, lab: Lab, agent: Callable[..., Agent]) -> None:
    lab.dockerd(f"--data-root={disk}/docker")
    subprocess.run(["fallocate", "-l", "440M", disk / "fill"], check=True)
    one = agent(CONFIG, wrap=lab.wrap)
    message = until(lambda: (text := one.condition("StorageUnsuited")["message"]) and "images" in text and text, "the disk of the images is judged")
    assert f"{disk}/docker: images are on {loop_of(disk)}, kind loop" in message
    limits = lambda: (each for each in one.status()["limits"] if each["name"] == "filesystem/images/bytes" and f"{disk}/docker" in str(each["top"]))  # noqa: E731
    shown = until(lambda: next(limits(), None), "Docker's own root is a limit")
    assert shown["used"] > 440 * MIB


def test_counting_goes_on_after_disks_vanish(counting: Agent, disk: Path, directory: Path) -> None:
    """Loop devices, removed right after their syncs. The next one gets the number of the last one."""
    for i in range(3):
        image, mount = directory / f"{i}.img", directory / f"mount{i}"
        mount.mkdir()
        with image.open("wb") as file:
            file.truncate(64 * MIB)
        loop = subprocess.run(["losetup", "--find", "--show", image], capture_output=True, text=True, check=True).stdout.strip()
        try:
            subprocess.run(["mkfs.ext4", "-q", loop], check=True)
            subprocess.run(["mount", loop, mount], check=True)
            subprocess.run(["/usr/bin/python3", "-c", SYNC, mount / "a", "50"], check=True)
        finally:
            subprocess.run(["umount", mount], check=False)
            subprocess.run(["losetup", "--detach", loop], check=False)
    device = loop_of(disk)
    before = latency(counting, device, "other")[0]
    subprocess.run(["/usr/bin/python3", "-c", SYNC, disk / "a", "100"], check=True)
    until(lambda: latency(counting, device, "other")[0] - before == 100, "the disk that stayed is counted")
    counts = [value for name, value in counting.metrics().items() if name.startswith("headroom_storage_sync_latency_seconds_count")]
    assert sum(counts) >= 250  # those of removed disks stay in a counter
    assert counting.tuner("storage")["state"] == "active"


def lost(agent: Agent) -> dict[str, float]:
    return {what: agent.metrics()[f'headroom_storage_lost_total{{what="{what}"}}'] for what in ("requests", "syncs", "threads")}


@pytest.mark.parametrize("processes", [20_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_processes_that_sync_once_need_one_row(counting: Agent, disk: Path, processes: int) -> None:
    before = lost(counting)
    subprocess.run(["mount", "-o", "remount,barrier=0", disk], check=True)  # no flush of the disk below each time
    subprocess.run([BIN.parents[1] / "tests/tool/sync_once", disk / "a", str(processes)], check=True)
    until(lambda: latency(counting, loop_of(disk), "other")[0] >= processes, "the syncs are reported")
    assert latency(counting, loop_of(disk), "other")[0] == processes and lost(counting) == before


@pytest.mark.slow
def test_syncs_of_more_cgroups_than_rows_are_counted_or_shown_as_lost(counting: Agent, disk: Path) -> None:
    base, cgroups, before = CGROUP2 / "headroom-many", 10_000, lost(counting)["syncs"]
    own = next(line[3:].strip("/") for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::"))
    fd = os.open(disk / "a", os.O_WRONLY | os.O_CREAT)
    try:
        for i in range(cgroups):
            group = base / str(i)
            group.mkdir(parents=True)
            (group / "cgroup.procs").write_text("0")
            os.fsync(fd)
        until(lambda: latency(counting, loop_of(disk), "other")[0] + lost(counting)["syncs"] - before == cgroups, "each sync is counted or lost")
        assert lost(counting)["syncs"] > before
        assert counting.status()["storage"]["lost"]["syncs"] == lost(counting)["syncs"]
    finally:
        os.close(fd)
        (CGROUP2 / own / "cgroup.procs").write_text("0")
        for group in [*base.iterdir(), base]:
            if group.is_dir():
                group.rmdir()


def test_bounded_writeback_is_restored_although_the_kernel_refuses_zero(node: Node, run: Run, directory: Path) -> None:
    names = ("vm.dirty_bytes", "vm.dirty_ratio", "vm.dirty_background_bytes", "vm.dirty_background_ratio")
    (directory / "bound.yaml").write_text('profile: minimal\nstorage: {mode: "off", bound_writeback: true}\n')
    before = [sysctl(name) for name in names]
    assert before[0] == before[2] == "0"
    run("apply", "--only", "sysctl", "--config", str(directory / "bound.yaml"))
    assert [sysctl(name) for name in names] == ["16777216", "0", "8388608", "0"]
    run("restore", "--only", "sysctl", "--config", str(directory / "bound.yaml"))
    assert [sysctl(name) for name in names] == before


def until_quiet(first: tuple[float, float], read: Callable[[], tuple[float, float]]) -> bool:
    """Whether the counters changed within two polls."""
    import time

    time.sleep(2)
    return read() != first


def put(url: str, n: int, size: int = 100) -> None:
    """Puts n keys one after the other on one connection."""
    import base64
    import http.client
    import json

    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=30)
    for i in range(n):
        key = base64.b64encode(f"key{i}".encode()).decode()
        connection.request("POST", "/v3/kv/put", json.dumps({"key": key, "value": base64.b64encode(b"x" * size).decode()}))
        assert connection.getresponse().read()
