# SPDX-License-Identifier: Apache-2.0
"""Preloading of images from archives and registries, with real runtimes."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import tarfile
import threading
import time
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest
from conftest import Agent, Node, Run, Start, until
from imagelab import Built, Image, Proxy, compress, docker_save, is_fetched_from, say_program, sleeper
from runtimelab import Lab, lab  # noqa: F401
from test_containerd_config import Containerd, containerd  # noqa: F401
from test_kubelet import Kubelet, kubelet  # noqa: F401

A, B = "registry.example/team/a:1", "docker.io/library/b:2"


def ctr(lab: Lab, *args: str) -> str:
    return lab.run("ctr", "-n", "k8s.io", *args)


def names(lab: Lab) -> set[str]:
    return {line.split()[0] for line in ctr(lab, "images", "ls").splitlines()[1:]}


def removed(lab: Lab, name: str) -> None:
    """Removes an image with all its names, as the kubelet's garbage collection does."""
    for other in names(lab):
        if other == name or other.startswith((name.rsplit(":", 1)[0] + "@", "sha256:")):
            ctr(lab, "images", "rm", "--sync", other)


def image(running: Agent, name: str) -> dict[str, Any] | None:
    return next((i for i in running.status()["images"] if i["name"] == name), None)


def wait_image(running: Agent, name: str, state: str = "ready") -> dict[str, Any]:
    return until(
        lambda: (i := image(running, name)) and i["state"] == state and i,
        lambda: f"{name} {state}: {running.status()['images']}\n{running.log[-2000:]}",
    )


@pytest.fixture
def preload(lab: Lab, agent: Start) -> Start:
    """preload("archives: [...]") starts an agent that enforces only the images tuner."""

    def start(section: str, mode: str = "enforce", wrap: tuple[str, ...] = (), **options: Any) -> Agent:
        text = f"mode: observe\nimages: {{mode: {mode}, pin: [], {section}}}\n"
        return agent(text, wrap=(*lab.wrap, *wrap), **options)

    return start


@pytest.fixture
def store(lab: Lab) -> Path:
    path = lab.directory / "run/images"
    path.mkdir()
    return path


@pytest.fixture
def loaded(lab: Lab, preload: Start, store: Path) -> Agent:
    """An agent that has loaded the image A from an archive."""
    lab.containerd()
    docker_save(store / "a.tar", [Built(A)])
    running = preload("archives: [/run/images]")
    wait_image(running, A)
    return running


@pytest.mark.quick
def test_an_archive_is_loaded_after_the_agent_is_ready(
    lab: Lab, preload: Start, store: Path, directory: Path, run: Run, containerd: Containerd
) -> None:
    lab.write("etc/containerd/config.toml", "version = 2\n")
    lab.containerd(containerd.program.parent)
    docker_save(store / "both.tar", [Built(A), Built("b:2", "it runs", say_program(directory))])
    running = preload("archives: [/run/images/*.tar]")
    assert image(running, A) is None or image(running, A)["state"] != "ready", "the agent is ready before its images"
    for name in (A, B):
        row = wait_image(running, name)
        assert row["source"] == "/run/images/both.tar" and row["size_bytes"] > 200_000
    assert {A, B} <= names(lab) and not [n for n in names(lab) if "headroom-preload" in n]
    assert ctr(lab, "run", "--rm", B, "one") == "it runs\n"
    metrics = running.metrics()
    assert metrics[f'headroom_image_preload{{image="{A}",state="ready"}}'] == 1
    assert metrics[f'headroom_image_preload_bytes_total{{image="{A}"}}'] > 200_000
    assert running.condition("ImagePreloadFailed")["reason"] == "all-present"
    shown = run("images", wrap=lab.wrap)
    assert shown.returncode == 0 and A in shown.stdout and "ready" in shown.stdout and "both.tar" in shown.stdout
    assert [i["name"] for i in json.loads(run("images", "--json", wrap=lab.wrap).stdout)["images"]] == [A, B]


def test_a_second_start_loads_nothing_and_opens_no_archive(loaded: Agent, preload: Start, directory: Path) -> None:
    record = directory / "state/images.json"
    until(lambda: record.exists() and A in record.read_text(), "the record is on disk")
    loaded.stop()
    trace = directory / "trace"
    running = preload("archives: [/run/images]", wrap=("strace", "-f", "-qq", "-e", "trace=openat,open", "-o", str(trace)))
    wait_image(running, A)
    running.reload()  # causes another sample
    time.sleep(2)
    running.stop()
    assert running.log.count("loaded from") == 1, "by the first agent"
    assert "images.json" in trace.read_text()
    assert not [line for line in trace.read_text().splitlines() if "a.tar" in line]


def test_an_archive_that_changes_is_loaded_again(lab: Lab, loaded: Agent, store: Path) -> None:
    before = [line for line in ctr(lab, "images", "ls").splitlines() if line.startswith(A)]
    docker_save(store / "a.tar", [Built(A), Built("c:1", layers=1)])
    loaded.reload()
    wait_image(loaded, "docker.io/library/c:1")
    wait_image(loaded, A)
    assert [line for line in ctr(lab, "images", "ls").splitlines() if line.startswith(A)] != before


def test_a_name_that_others_move_during_a_load_is_left_until_the_archive_changes(lab: Lab, preload: Start, store: Path) -> None:
    lab.containerd()
    docker_save(lab.directory / "other.tar", [Built("other:1")])
    ctr(lab, "images", "import", str(lab.directory / "other.tar"))
    docker_save(store / "a.tar", [Built(A, size=200_000_000)])
    running = preload("archives: [/run/images]")
    until(lambda: is_fetched_from(running.pid, running.port), "containerd fetches it", 0.005)
    ctr(lab, "images", "tag", "docker.io/library/other:1", A)
    theirs = ctr(lab, "images", "ls", f"name=={A}")
    assert wait_image(running, A, "moved")["reason"] == "moved-by-others"
    running.reload()
    time.sleep(3)
    assert ctr(lab, "images", "ls", f"name=={A}") == theirs and image(running, A)["state"] == "moved"
    docker_save(store / "a.tar", [Built(A)])
    running.reload()
    wait_image(running, A)
    assert ctr(lab, "images", "ls", f"name=={A}") != theirs


@pytest.mark.slow
def test_a_name_that_others_moved_is_left_until_the_archive_changes(lab: Lab, loaded: Agent, store: Path, preload: Start) -> None:
    ours = ctr(lab, "images", "ls", f"name=={A}")
    docker_save(lab.directory / "other.tar", [Built(A)])
    ctr(lab, "images", "import", str(lab.directory / "other.tar"))
    theirs = ctr(lab, "images", "ls", f"name=={A}")
    assert ours != theirs
    loaded.reload()
    assert wait_image(loaded, A, "moved")["reason"] == "moved-by-others"
    (store / "a.tar").touch()  # the same content
    loaded.reload()
    time.sleep(4)  # longer than the agent waits for a file to settle
    loaded.stop()
    running = preload("archives: [/run/images]")
    wait_image(running, A, "moved")
    assert running.condition("ImagePreloadFailed")["reason"] == "moved-by-others"
    assert ctr(lab, "images", "ls", f"name=={A}") == theirs and loaded.log.count("loaded from") == 1
    docker_save(store / "a.tar", [Built(A)])
    running.reload()
    wait_image(running, A)
    assert ctr(lab, "images", "ls", f"name=={A}") not in (ours, theirs)


@pytest.mark.parametrize("how", ["imported", pytest.param("tagged", marks=pytest.mark.slow), pytest.param("docker", marks=pytest.mark.slow)])
def test_an_image_of_others_is_left_by_an_archive_that_was_never_loaded(lab: Lab, preload: Start, store: Path, how: str) -> None:
    theirs, ours = Built(A if how == "imported" else "other:1"), Built(A)
    docker_save(lab.directory / "other.tar", [theirs])
    if how == "docker":
        lab.dockerd()
        load = ["--data-binary", f"@{lab.directory / 'other.tar'}", "http://docker/images/load"]
        subprocess.run(["curl", "-sSf", "--unix-socket", str(lab.docker_socket), "-H", "Content-Type: application/x-tar", *load], check=True)
        assert lab.docker("POST", "/images/other:1/tag?repo=registry.example/team/a&tag=1")[0] == 201
    else:
        lab.containerd()
        ctr(lab, "images", "import", str(lab.directory / "other.tar"))
        if how == "tagged":
            ctr(lab, "images", "tag", "--force", "docker.io/library/other:1", A)

    def there() -> str:
        return json.loads(lab.docker("GET", f"/images/{A}/json")[1])["Id"] if how == "docker" else ctr(lab, "images", "ls", f"name=={A}")

    before = there()
    docker_save(store / "a.tar", [ours, Built("b:2")])
    running = preload("archives: [/run/images]")
    wait_image(running, B)
    assert wait_image(running, A, "moved")["reason"] == "moved-by-others"
    assert running.condition("ImagePreloadFailed")["reason"] == "moved-by-others"
    docker_save(store / "a.tar", [Built(A), Built("c:1", layers=1)])
    running.reload()
    wait_image(running, "docker.io/library/c:1")
    wait_image(running, A, "moved")
    assert there() == before
    if how == "docker":
        assert lab.docker("DELETE", f"/images/{A}")[0] == 200
    else:
        removed(lab, A)
    running.reload()
    wait_image(running, A)
    assert there() != before


def test_an_archive_of_the_same_image_adopts_that_of_others(lab: Lab, preload: Start, store: Path) -> None:
    lab.containerd()
    docker_save(store / "a.tar", [Built(A)])
    ctr(lab, "images", "import", str(store / "a.tar"))
    running = preload("archives: [/run/images]")
    wait_image(running, A)
    assert "loaded from" not in running.log
    docker_save(store / "a.tar", [Built(A)])
    running.reload()
    until(lambda: "loaded from" in running.log, "a later version is loaded")


def test_an_image_that_was_removed_is_loaded_again(lab: Lab, loaded: Agent) -> None:
    removed(lab, A)
    assert A not in names(lab)
    loaded.reload()
    until(lambda: A in names(lab), f"{A} is back\n{loaded.log[-1000:]}")


@pytest.mark.quick
def test_a_torn_archive_fails_alone(lab: Lab, preload: Start, store: Path, run: Run) -> None:
    lab.containerd()
    whole = docker_save(store / "whole.tar", [Built(A)]).read_bytes()
    docker_save(store / "again.tar.gz", [Built("b:2")], "gzip")
    (store / "torn.tar").write_bytes(whole[: len(whole) // 2])
    (store / "ignored.txt").write_text("no archive")
    running = preload("archives: [/run/images, /run/images/missing.tar]")
    wait_image(running, A)
    wait_image(running, B)
    row = wait_image(running, "/run/images/torn.tar", "failed")
    assert row["reason"] == "archive-broken" and row["why"]
    condition = running.wait_condition("ImagePreloadFailed")
    assert "torn.tar" in condition["message"] and "missing.tar" in condition["message"]
    assert "torn.tar" in run("images", wrap=lab.wrap).stdout
    (store / "torn.tar").unlink()
    docker_save(store / "missing.tar", [Built("c:3", layers=1)])
    running.reload()
    running.wait_condition("ImagePreloadFailed", "False")


def test_an_image_that_others_delete_again_and_again_is_left_to_them(loaded: Agent, lab: Lab, run: Run) -> None:
    for again in range(5):
        ctr(lab, "images", "rm", A)
        loaded.reload()
        until(lambda: A in names(lab), f"round {again}", 0.1)
    ctr(lab, "images", "rm", A)
    loaded.reload()
    assert wait_image(loaded, A, "failed")["reason"] == "deleted-by-others" and A not in names(lab)
    assert "headroom apply" in loaded.wait_finding("deleted-by-others", A)["hint"]
    assert run("apply", "--only", "images", wrap=lab.wrap).returncode == 0
    wait_image(loaded, A)
    assert A in names(lab)


@pytest.mark.parametrize("how", ["observe", "off", "released"])
def test_nothing_is_loaded_unless_the_tuner_enforces(lab: Lab, preload: Start, store: Path, run: Run, how: str) -> None:
    lab.containerd()
    docker_save(store / "a.tar", [Built(A)])
    if how == "released":
        preload("parallel: 1").stop()
        assert run("restore", "--only", "images", wrap=lab.wrap).returncode == 0
    running = preload("archives: [/run/images]", mode="enforce" if how == "released" else how)
    assert running.tuner("images")["mode"] == how
    if how != "off":
        row = wait_image(running, "/run/images/a.tar", "pending")
        assert row["reason"] == ("restored" if how == "released" else "observe-mode")
    time.sleep(4)  # longer than the agent waits for a file to settle
    assert A not in names(lab)
    if how == "released":
        assert run("apply", "--only", "images", wrap=lab.wrap).returncode == 0
        wait_image(running, A)


@pytest.mark.parametrize(
    "kind, kills, restarts",
    [("containerd", 3, 1), pytest.param("containerd2", 1, 1, marks=[pytest.mark.containerd2, pytest.mark.slow]),
     pytest.param("containerd", 100, 10, marks=pytest.mark.slow)],  # fmt: skip
)
def test_a_transfer_that_a_kill_interrupted_is_finished_by_the_next_agent(
    lab: Lab, preload: Start, store: Path, kind: str, kills: int, restarts: int
) -> None:
    """The transfers are an archive and a pull. The kills hit the agent and the runtime."""
    lab.start(kind)
    containerd = lab.daemons["containerd"]
    docker_save(store / "a.tar", [Built(A, "it runs", say_program(lab.directory), 3, 20 << 20)])
    registry = lab.registry()
    registry.push("team/app", sleeper(lab.directory, layers=3, size=4 << 20))
    pulled = f"{lab.proxy(registry, rate=8 << 20).name}/team/app:latest"
    section = f"archives: [/run/images], pull: ['{pulled}']"
    rounds = ["agent"] * kills + ["runtime"] * restarts
    random.shuffle(rounds)
    running = preload(section)
    for what in rounds:
        time.sleep(random.uniform(0, 2))
        if what == "runtime":
            containerd.signal(signal.SIGKILL)
            containerd.restart()
            until(containerd.answers, "containerd answers")
        else:
            running.kill()
            for name in (A, pulled):
                if random.random() < 0.5:
                    removed(lab, name)
            running = preload(section)
    for name in (A, pulled):
        wait_image(running, name)
        until(lambda: name in names(lab), "the image is there")
    left = lambda: [n for n in names(lab) if "headroom" in n] + ctr(lab, "leases", "ls", "-q").split()  # noqa: E731
    until(lambda: not left(), lambda: f"nothing is left over: {left()}\n{running.log[-2000:]}")
    assert ctr(lab, "run", "--rm", A, "one") == "it runs\n"
    ctr(lab, "run", "-d", pulled, "two")
    assert "RUNNING" in ctr(lab, "task", "ls")


def make_small_store(lab: Lab, size: int = 96 << 20, where: str = "/var/lib/containerd") -> None:
    disk = lab.directory / f"disk{where.replace('/', '-')}"
    with disk.open("wb") as file:
        file.truncate(size)
    lab.run("mkfs.ext4", "-q", str(disk))
    lab.run("mount", "-o", "loop", str(disk), where)


def test_a_pull_that_fills_the_store_is_cancelled_and_the_next_transfer_works(lab: Lab, preload: Start, store: Path) -> None:
    make_small_store(lab)
    lab.run("sh", "-c", "head -c 50000000 /dev/zero >/var/lib/containerd/filler")
    lab.containerd()
    registry = lab.registry()
    registry.push("team/large", Image(1, 80_000_000))
    name = f"{lab.proxy(registry, rate=3_000_000).name}/team/large:latest"
    running = preload(f"pull: ['{name}']")
    wait_image(running, name, "active")
    row = wait_image(running, name, "failed")
    assert row["reason"] == "does-not-fit" and row["why"].startswith("stopped: ")
    assert running.wait_condition("ImagePreloadFailed")["reason"] == "does-not-fit"
    docker_save(store / "small.tar", [Built(A)])
    running.write_config("mode: observe\nimages: {mode: enforce, pin: [], archives: [/run/images]}\n")
    running.reload()
    wait_image(running, A)
    running.wait_condition("ImagePreloadFailed", "False")


@pytest.fixture(name="syncs")
def fixture_syncs(lab: Lab, directory: Path) -> Iterator[Callable[[int], None]]:
    """A process synctest on the disk of the store: syncs(3) lets it write so often a second, syncs(0) as often as it can."""
    throttle = Path("/sys/fs/cgroup/blkio/headroom-sync")
    if not throttle.parent.exists():
        pytest.skip("only cgroup v1 limits writes of a file system here")
    make_small_store(lab, 600 << 20)
    listed = directory / "synctest"
    listed.symlink_to("/usr/bin/python3")
    number = os.stat(lab.root / "var/lib/containerd").st_dev
    program = (
        "import os, sys, time\nfd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)\n"
        "while True:\n os.pwrite(fd, os.urandom(4096), 0)\n os.fdatasync(fd)\n time.sleep(0.01)\n"
    )

    def limit(writes: int) -> None:
        (throttle / "blkio.throttle.write_iops_device").write_text(f"{os.major(number)}:{os.minor(number)} {writes}")

    def join() -> None:
        (throttle / "cgroup.procs").write_text(str(os.getpid()))

    throttle.mkdir()
    process = subprocess.Popen([listed, "-c", program, lab.root / "var/lib/containerd/wal"], preexec_fn=join)
    try:
        yield limit
    finally:
        limit(0)
        process.kill()
        process.wait()
        until(lambda: not (throttle / "cgroup.procs").read_text(), "the process has ended")
        throttle.rmdir()


SLOW = "}\nruntime: {pull_progress_timeout: 10s}\nstorage: {processes: [synctest], sync_p99: 100ms"


def waits(running: Agent, name: str) -> dict[str, Any] | None:
    return next((i for i in running.status()["images"] if name in (i["name"], i["source"]) and i["reason"] == "waits-for-syncs"), None)


@pytest.mark.slow
def test_no_transfer_begins_while_a_listed_process_waits_for_the_same_disk(
    lab: Lab, preload: Start, store: Path, syncs: Callable[[int], None]
) -> None:
    lab.containerd()
    registry = lab.registry()
    registry.push("team/small", Image(1, 10_000))
    pulled = f"{lab.proxy(registry).name}/team/small:latest"
    syncs(3)
    running = preload(f"archives: [/run/images]{SLOW}")
    until(lambda: (one := running.status()["storage"]) and one["processes"] and one["processes"][0]["window_syncs"] > 40, "it is slow")
    docker_save(store / "a.tar", [Built(A)])
    running.write_config(f"mode: observe\nimages: {{mode: enforce, pin: [], archives: [/run/images], pull: ['{pulled}']{SLOW}}}\n")
    running.reload()
    row = until(lambda: waits(running, pulled), "the pull waits")
    assert row["state"] == "pending" and "synctest is slow on the same disk" in row["why"]
    until(lambda: waits(running, "/run/images/a.tar"), "the load waits")
    time.sleep(5)
    assert A not in names(lab)
    syncs(0)
    wait_image(running, A)
    wait_image(running, pulled)
    assert running.condition("ImagePreloadFailed")["status"] == "False"


@pytest.mark.slow
def test_a_load_pauses_while_a_listed_process_waits_for_the_same_disk(
    lab: Lab, preload: Start, store: Path, directory: Path, syncs: Callable[[int], None]
) -> None:
    """Also beyond runtime.pull_progress_timeout: a pause is no lack of progress."""
    slow_reads = Path("/sys/fs/cgroup/blkio/blkio.throttle.read_bps_device")
    if not slow_reads.exists():
        pytest.skip("the root cgroup has no throttle")
    lab.containerd()
    docker_save(directory / "large.tar", [Built(A, layers=1, size=100 << 20)])
    make_small_store(lab, 160 << 20, "/run/images")
    shutil.copy(directory / "large.tar", lab.root / "run/images/large.tar")
    lab.run("sh", "-c", "sync -f /run/images/large.tar; echo 1 >/proc/sys/vm/drop_caches")
    number = os.stat(lab.root / "run/images").st_dev
    slow_reads.write_text(f"{os.major(number)}:{os.minor(number)} 3000000")
    try:
        running = preload(f"archives: [/run/images]{SLOW}")
        until(lambda: any((i["bytes_done"] or 0) > 5_000_000 for i in running.status()["images"]), "the load is under way")
        syncs(3)
        row = until(lambda: waits(running, "/run/images/large.tar"), "the load pauses")
        assert row["state"] == "active"
        time.sleep(9)
        before = waits(running, "/run/images/large.tar")
        time.sleep(25)
        after = waits(running, "/run/images/large.tar")
        assert before and after and 0 <= after["bytes_done"] - before["bytes_done"] < 100_000
        assert running.condition("PullStuck")["status"] != "True"
        syncs(0)
        slow_reads.write_text(f"{os.major(number)}:{os.minor(number)} 0")
        wait_image(running, A)
        assert running.condition("ImagePreloadFailed")["status"] == "False"
    finally:
        slow_reads.write_text(f"{os.major(number)}:{os.minor(number)} 0")


def test_an_archive_that_does_not_fit_is_not_started(lab: Lab, preload: Start, store: Path) -> None:
    make_small_store(lab)
    lab.containerd()
    docker_save(store / "large.tar", [Built(A, layers=1, size=60 << 20)])
    docker_save(store / "small.tar", [Built("b:2")])
    running = preload("archives: [/run/images]")
    wait_image(running, B)
    row = wait_image(running, A, "failed")
    assert row["reason"] == "does-not-fit" and "MB" in row["why"]
    assert running.wait_condition("ImagePreloadFailed")["reason"] == "does-not-fit"
    assert A not in names(lab)


def zeros(size: int, how: str) -> bytes:
    """A compressed tar with a file of zeros, as repeated gzip members or zstd frames."""
    entry = tarfile.TarInfo("zeros")
    entry.size = size
    return b"".join([compress(entry.tobuf(), how), compress(bytes(1 << 26), how) * (size >> 26), compress(bytes(1024), how)])


@pytest.mark.parametrize(
    "kind, how, what",
    [("containerd", "gzip", "layer"), ("docker", "gzip", "layer"),
     pytest.param("containerd", "zstd", "layer", marks=pytest.mark.slow), pytest.param("containerd", "gzip", "archive", marks=pytest.mark.slow),
     pytest.param("containerd2", "gzip", "layer", marks=[pytest.mark.containerd2, pytest.mark.slow])],
)  # fmt: skip
def test_an_archive_that_unpacks_to_10_gb_never_fills_the_store(
    lab: Lab, preload: Start, store: Path, directory: Path, kind: str, how: str, what: str
) -> None:
    """The store has 300 MB, of which the kubelet allows 85 %. The state directory is on the same file system."""
    where = "/var/lib/docker" if kind == "docker" else "/var/lib/containerd"
    make_small_store(lab, 300 << 20, where)
    (directory / "state").mkdir()
    lab.run("mount", "--bind", where, str(directory / "state"))
    lab.start(kind)
    bomb = zeros(10 << 30, how)
    if what == "archive":
        (store / "bomb.tar.gz").write_bytes(bomb)
    else:
        image = Built(A, layers=1)
        image.tars = [bomb]
        docker_save(store / "bomb.tar", [image])
    full, ended = [], threading.Event()

    def watch() -> None:
        while not ended.wait(0.005):
            disk = os.statvfs(lab.root / where[1:])
            full.append(1 - disk.f_bavail / disk.f_blocks)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        running = preload("archives: [/run/images]")
        row = until(lambda: next((i for i in running.status()["images"] if i["state"] == "failed"), None))
    finally:
        ended.set()
        watcher.join()
    assert row["reason"] == "does-not-fit" and row["why"] and max(full) < 0.85
    docker_save(store / "small.tar", [Built("b:2")])
    running.reload()
    wait_image(running, B)


def test_docker_loads_archives(lab: Lab, preload: Start, store: Path) -> None:
    lab.dockerd()
    docker_save(store / "a.tar", [Built(A), Built("b:2")])
    running = preload("archives: [/run/images/a.tar]")
    wait_image(running, A)
    wait_image(running, B)
    tags = {tag for one in json.loads(lab.docker("GET", "/images/json")[1]) for tag in one["RepoTags"] or []}
    assert {A, "b:2"} <= tags
    assert lab.docker("DELETE", "/images/b:2")[0] == 200
    running.reload()
    until(lambda: lab.docker("GET", "/images/b:2/json")[0] == 200, "b:2 is back")


def test_apply_retries_a_failed_pull_at_once(lab: Lab, preload: Start, run: Run) -> None:
    lab.containerd()
    registry = lab.registry()
    registry.push("team/app", Image(2, 50_000))
    name = f"{registry.name}/team/app:latest"
    registry.stop()
    running = preload(f"pull: ['{name}']")
    row = wait_image(running, name, "failed")
    assert row["reason"] == "pull-failed" and row["source"] == "registry" and row["bytes_done"] is None
    assert running.wait_condition("ImagePreloadFailed")["reason"] == "pull-failed"
    now = running.wait_finding("pull-failed", name)["now"]
    assert now == f"ctr -a /run/containerd/containerd.sock -n k8s.io images pull {name}", "this node has no crictl"
    registry.start()
    assert run("apply", "--only", "images", wrap=lab.wrap).returncode == 0
    wait_image(running, name)
    assert name in names(lab)
    running.wait_no_finding("pull-failed")


def test_the_printed_pull_cures_a_failed_one(lab: Lab, preload: Start) -> None:
    lab.containerd()
    registry = lab.registry()
    registry.push("team/late", Image(1, 1000))
    name = f"{registry.name}/team/late:latest"
    registry.stop()
    running = preload(f"pull: ['{name}']")
    now = running.wait_finding("pull-failed", name)["now"]
    registry.start()
    lab.run("bash", "-c", now)
    running.wait_no_finding("pull-failed")
    wait_image(running, name)


def slow_image(lab: Lab, rate: int, size: int) -> tuple[Proxy, str]:
    """Starts containerd and a registry behind a slow proxy. Returns the proxy and the name of an image there."""
    lab.containerd()
    registry = lab.registry()
    proxy = lab.proxy(registry, rate=rate)
    registry.push("team/app", Image(1, size))
    return proxy, f"{proxy.name}/team/app:latest"


def test_a_transfer_survives_a_reload_and_ends_with_the_agent(lab: Lab, preload: Start) -> None:
    proxy, name = slow_image(lab, 300_000, 1_500_000)
    running = preload(f"pull: ['{name}'], parallel: 1")
    wait_image(running, name, "active")
    running.write_config(f"mode: observe\nimages: {{mode: enforce, pin: [], pull: ['{name}'], parallel: 2}}\n")
    running.reload()
    row = image(running, name)
    assert row and row["state"] in ("active", "ready"), row
    wait_image(running, name)
    assert len(proxy.blobs) == 1, "the layer was fetched once"
    proxy.rate = 20_000
    removed(lab, name)
    ctr(lab, "content", "prune", "references")
    running.reload()
    wait_image(running, name, "active")
    assert running.stop() == 0


@pytest.fixture
def pulling(lab: Lab, preload: Start) -> tuple[Agent, Proxy, str]:
    """An agent that pulls an image for minutes, the proxy in front of its registry, and the image's name."""
    proxy, name = slow_image(lab, 20_000, 8_000_000)
    running = preload(f"pull: ['{name}']")
    wait_image(running, name, "active")
    until(lambda: proxy.now == 1, "the download has begun")
    return running, proxy, name


def set_mode(running: Agent, name: str, mode: str) -> None:
    running.write_config(f"mode: observe\nimages: {{mode: {mode}, pin: [], pull: ['{name}']}}\n")
    running.reload()


@pytest.mark.parametrize("how", ["restore", "observe", "off"])
def test_a_pull_ends_when_its_tuner_no_longer_enforces(
    lab: Lab, pulling: tuple[Agent, Proxy, str], run: Run, how: str
) -> None:
    running, proxy, name = pulling
    if how == "restore":
        assert run("restore", "--only", "images", wrap=lab.wrap).returncode == 0
    else:
        set_mode(running, name, how)
    until(lambda: proxy.now == 0, "the download ends", timeout=10)
    if how != "off":
        row = wait_image(running, name, "pending")
        assert row["reason"] == ("restored" if how == "restore" else "observe-mode")
    assert running.condition("ImagePreloadFailed")["status"] != "True", "a cancelled pull is not a failure"


def test_an_archive_waits_for_a_pull_when_one_image_at_a_time_may_be_transferred(
    pulling: tuple[Agent, Proxy, str], store: Path
) -> None:
    running, proxy, name = pulling
    docker_save(store / "a.tar", [Built(A)])
    text = f"mode: observe\nimages: {{mode: enforce, pin: [], parallel: 1, archives: [/run/images], pull: ['{name}']}}\n"
    running.write_config(text)
    running.reload()
    until(lambda: wait_image(running, "/run/images/a.tar", "pending")["reason"] == "queued")
    time.sleep(2)
    assert wait_image(running, "/run/images/a.tar", "pending")["reason"] == "queued" and proxy.now == 1
    proxy.rate = 0
    wait_image(running, name)
    wait_image(running, A)


def test_pulls_and_archives_take_turns_when_one_image_at_a_time_may_be_transferred(lab: Lab, preload: Start, store: Path) -> None:
    _, name = slow_image(lab, 0, 1000)
    for i in range(3):
        docker_save(store / f"{i}.tar", [Built(f"{A}{i}")])
    time.sleep(3)  # they may still be written
    running = preload(f"parallel: 1, archives: [/run/images], pull: ['{name}']")
    until(lambda: len(order := re.findall("pulled|loaded from", running.log)) == 4 and order.index("pulled") == 1, lambda: running.log)


def test_archives_beyond_the_limit_are_reported(lab: Lab, preload: Start, store: Path) -> None:
    for i in range(1025):
        (store / f"{i:04}.tar").touch()
    running = preload("archives: [/run/images]", mode="observe")
    condition = running.wait_condition("ImagePreloadFailed")
    assert condition["reason"] == "too-many-archives" and "/run/images/1024.tar" in condition["message"]


@pytest.mark.slow
def test_a_tuner_switched_off_and_on_pulls_an_image_once(pulling: tuple[Agent, Proxy, str]) -> None:
    running, proxy, name = pulling

    def threads() -> int:
        return len(list(Path(f"/proc/{running.pid}/task").iterdir()))

    time.sleep(2)  # short-lived threads of the start end
    before = threads()
    for _ in range(3):
        set_mode(running, name, "off")
        set_mode(running, name, "enforce")
    wait_image(running, name, "active")
    time.sleep(2)
    until(lambda: threads() == before, "one thread for each transfer")  # that of a sample ends
    proxy.rate = 0
    wait_image(running, name)
    assert running.log.count(f"{name}: pulled") == 1


def test_a_command_reports_a_missing_sandbox_image_at_once(kubelet: Kubelet, lab: Lab, directory: Path, run: Run) -> None:
    """Nobody knows for how long it is missing."""
    lab.containerd()
    kubelet.start()
    config = directory / "headroom.yaml"
    config.write_text('mode: observe\nhttp: {listen: ""}\nimages: {pull: [r.example/app:1]}\n')
    answer = run("status", "--json", "--config", str(config), wrap=lab.wrap)
    found = next(f for f in json.loads(answer.stdout)["findings"] if f["slug"] == "sandbox-missing")
    assert found["instance"]["name"] == "registry.example/pause:3.6"
    assert found["now"] == "ctr -a /run/containerd/containerd.sock -n k8s.io images pull registry.example/pause:3.6"
    keep = directory / "keep.yaml"
    keep.write_text(found["keep"])
    assert "registry.example/pause:3.6" in found["keep"] and "r.example/app:1" in found["keep"], "a list replaces"
    assert run("check-config", str(keep)).returncode == 0


@pytest.mark.slow
def test_a_missing_sandbox_image_is_reported_until_it_is_loaded(kubelet: Kubelet, lab: Lab, preload: Start, store: Path) -> None:
    lab.containerd()
    running = preload("archives: [/run/images]")
    running.wait_condition("SandboxImageMissing", "Unknown")
    assert running.condition("SandboxImageMissing")["reason"] == "no-kubelet"
    kubelet.start()
    running.reload()
    name = "registry.example/pause:3.6"  # in the lab's configuration
    assert name in running.wait_condition("SandboxImageMissing", timeout=120)["message"]
    assert running.wait_finding("sandbox-missing")["keep"].startswith("images: {pull: [")
    docker_save(store / "pause.tar", [Built(name, layers=1)])
    running.reload()
    wait_image(running, name)
    running.wait_condition("SandboxImageMissing", "False")
