# SPDX-License-Identifier: Apache-2.0
"""File systems and agents that hang delay nothing else."""

import contextlib
import ctypes
import os
import signal
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Iterator

import pytest
from conftest import SLACK, Run, Start, thresholds, until
from test_kubelet import Kubelet, kubelet  # noqa: F401


@contextlib.contextmanager
def hung_disk(path: Path) -> Iterator[None]:
    """A FUSE mount whose server never answers. Nobody can use it until the end, where the kernel aborts it."""
    path.mkdir(parents=True)
    libc = ctypes.CDLL(None, use_errno=True)
    server = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={server},rootmode=40000,user_id=0,group_id=0"
    assert libc.mount(b"hung", bytes(path), b"fuse", 0, options.encode()) == 0, os.strerror(ctypes.get_errno())
    with contextlib.ExitStack() as ending:
        ending.callback(libc.umount2, bytes(path), 2)
        ending.callback(os.close, server)
        yield


@pytest.fixture
def hung(directory: Path) -> Iterator[Path]:
    """An archive on a hung disk."""
    with hung_disk(directory / "hung"):
        yield directory / "hung/a.tar"


def archives(path: Path) -> str:
    return f"images: {{archives: [{path}]}}\n"


@pytest.mark.slow
def test_a_hung_file_system_of_archives_delays_nothing_else(agent: Start, run: Run, hung: Path) -> None:
    one = agent(archives(hung))
    since = time.monotonic()
    original = one.setting("net.ipv4.neigh.default.gc_thresh3")["original"]
    assert run("restore").returncode == 0
    assert str(thresholds()[2]) == original
    assert run("apply").returncode == 0
    assert time.monotonic() - since < 20 * SLACK
    until(lambda: one.condition("ImagePreloadFailed")["reason"] == "sample-overdue", "the sample is overdue", timeout=60)
    assert one.condition("ImagePreloadFailed")["status"] == "Unknown"
    assert str(hung) in one.condition("ImagePreloadFailed")["message"]
    assert (one.tuner("images")["state"], one.tuner("kubelet")["state"]) == ("degraded", "active")
    assert one.get("/readyz")[0] == 200
    assert one.stop() == 0, one.log
    apply = run("apply", "--config", str(one.config_path))
    assert "Nothing to change." in apply.stdout, apply


@pytest.mark.slow  # waits until a sample is overdue, as the test above
def test_a_hung_file_of_the_kubelet_delays_no_change_of_files(
    agent: Start, run: Run, directory: Path, kubelet: Kubelet  # noqa: F811
) -> None:
    with hung_disk(directory / "hung"):
        kubelet.config = directory / "hung/config.yaml"
        kubelet.start()
        one = agent("")
        until(lambda: one.condition("KubeletSerialPulls")["reason"] == "sample-overdue", "the sample is overdue", timeout=60)
        assert one.condition("KubeletSerialPulls")["status"] == "Unknown"
        assert (one.tuner("kubelet")["state"], one.tuner("neighbor")["state"]) == ("degraded", "active")
        for command in ("apply", "restore"):
            assert run(command, timeout=15).returncode == 0
        assert one.get("/readyz")[0] == 200
    until(lambda: one.condition("KubeletSerialPulls")["reason"] != "sample-overdue", "the sample ends")
    assert one.stop() == 0, one.log


@pytest.mark.slow
def test_a_command_without_an_agent_names_a_hung_file_system(run: Run, directory: Path, hung: Path) -> None:
    config = directory / "headroom.yaml"
    config.write_text("mode: observe\n" + archives(hung))
    for command in ("status", "plan"):
        answer = run(command, "--config", str(config), timeout=20)
        assert command == "plan" or (str(hung) in answer.stdout and "sample-overdue" in answer.stdout), answer


@pytest.mark.slow
def test_a_hung_disk_of_incidents_delays_nothing_else(agent: Start, run: Run, directory: Path) -> None:
    incidents, tar, ident = directory / "state/incidents", directory / "bundle.tar", "20261126T062306Z-conntrack"
    with hung_disk(incidents), ThreadPoolExecutor() as pool:
        one = agent("profile: minimal\nneighbor: {mode: observe}\nthp: {mode: observe}\n")
        commands = [pool.submit(run, *words, timeout=15) for words in (("incidents",), ("incidents", ident), ("doctor", "--bundle", str(tar)))]
        # The first tick opens the record.
        until(lambda: one.get("/v1/incidents/x", unix=False)[0] == 503, "a request for an incident")
        requests = [pool.submit(one.get, path, unix=False) for path in ("/v1/incidents", f"/v1/incidents/{ident}")]
        assert one.get("/", unix=False)[0] == one.get("/readyz")[0] == 200 and one.status()["incidents"] == []
        *answers, doctor = (command.result() for command in commands)
        for answer in answers:
            assert answer.stderr == f"headroom: {incidents}: its disk does not answer: findmnt -T shows the file system\n"
        for request in requests:
            code, text = request.result()
            assert code == 503 and "the disk of the state directory does not answer" in text, (code, text)
        assert doctor.returncode in (0, 2), doctor
        errors = tarfile.open(tar).extractfile("headroom-doctor/errors.txt")
        assert errors and "incidents: their disk does not answer\n" in errors.read().decode()
        assert one.stop() == 0, one.log
        assert f"the disk of {incidents} hangs" in one.log


@pytest.mark.slow
def test_commands_name_an_agent_that_hangs(agent: Start, run: Run) -> None:
    one = agent()
    one.signal(signal.SIGSTOP)
    try:
        for command in ("status", "top", "images"):
            answer = run(command, timeout=10)
            assert answer.stdout.startswith(f"Agent {one.pid} does not answer"), answer
            assert command == "images" or "neighbor/ipv4" in answer.stdout
        for command in ("apply", "restore"):
            answer = run(command, timeout=10)
            assert answer.returncode == 1 and f"Agent {one.pid} does not answer since" in answer.stderr, answer
            assert "kill -CONT" in answer.stderr
    finally:
        one.signal(signal.SIGCONT)
    assert run("apply").returncode == 0
