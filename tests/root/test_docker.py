# SPDX-License-Identifier: Apache-2.0
"""The client of Docker's API against a real dockerd: what it is, what it runs with, what it does."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import tarfile
import threading
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest
from conftest import BIN, SLACK, until
from runtimelab import Lab, lab  # noqa: F401

TOOL = BIN.parent.parent / "tests/tool/docker_tool"
RELOAD, IMAGE_LOAD = 0, 2  # enum docker_event_kind


def tool(lab: Lab, *args: str) -> list[Any]:
    """Runs it to its end: what it printed."""
    done = subprocess.run([str(TOOL), str(lab.root), *args], capture_output=True, text=True, timeout=60 * SLACK)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


class Watch:
    """docker_tool watch: pictures of the daemon, and events, as they come."""

    def __init__(self, lab: Lab) -> None:
        self.process = subprocess.Popen(
            [str(TOOL), str(lab.root), "watch"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.states: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        threading.Thread(target=self._collect, daemon=True).start()

    def _collect(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            parsed = json.loads(line)
            (self.events if "event" in parsed else self.states).append(parsed)

    def until(self, check: Callable[[dict[str, Any]], Any], what: str) -> dict[str, Any]:
        return until(lambda: self.states and check(self.states[-1]) and self.states[-1], 20, f"{what}: {self.states[-1:]}")

    def close(self) -> None:
        self.process.terminate()
        _, err = self.process.communicate(timeout=10 * SLACK)
        assert self.process.returncode == 0, err
        assert "longest turn" in err


@pytest.fixture
def watch(lab: Lab) -> Iterator[Callable[[], Watch]]:
    started: list[Watch] = []

    def start() -> Watch:
        started.append(Watch(lab))
        return started[-1]

    yield start
    for one in started:
        one.close()


def test_it_knows_the_daemon(lab: Lab) -> None:
    daemon = lab.dockerd()
    (state,) = tool(lab, "state")
    assert (state["error"], state["why"]) == (0, "")
    assert state["version"] == json.loads(lab.docker("GET", "/version")[1])["Version"]
    info = json.loads(lab.docker("GET", "/info")[1])
    assert (state["storage_driver"], state["root_dir"]) == (info["Driver"], info["DockerRootDir"])
    assert state["live_restore"] is False
    assert state["pid"] == daemon.pid
    # Nothing is configured, and nothing was when it started.
    assert (state["max_downloads"], state["source"]) == (3, "dockerd's default")


def test_it_hears_of_a_reload(lab: Lab, watch: Callable[[], Watch]) -> None:
    lab.write("etc/docker/daemon.json", '{"max-concurrent-downloads": 4, "live-restore": true}\n')
    daemon = lab.dockerd()
    watching = watch()
    first = watching.until(lambda s: s["error"] == 0, "an answer")
    assert first["live_restore"] is True and first["mirrors"] == []

    text = '{"max-concurrent-downloads": 10, "registry-mirrors": ["http://127.0.0.1:30020"]}\n'
    lab.write("etc/docker/daemon.json", text)
    daemon.signal(signal.SIGHUP)
    state = watching.until(lambda s: s["reloads"] == 1, "the reload")
    assert (state["max_downloads"], state["source"]) == (10, "the daemon's last reload")
    assert state["mirrors"] == ["http://127.0.0.1:30020"]
    assert [e["event"] for e in watching.events] == [RELOAD]
    # A later subscriber gets it, too.
    (state,) = tool(lab, "state")
    assert (state["max_downloads"], state["source"], state["reloads"]) == (10, "the daemon's last reload", 0)

    # One unknown key, and the daemon keeps what it had: it says nothing.
    lab.write("etc/docker/daemon.json", '{"max-concurrent-downloads": 6, "max-concurent-uploads": 1}\n')
    daemon.signal(signal.SIGHUP)
    until(lambda: "max-concurent-uploads" in daemon.log, 10, "the refusal in the log")
    assert tool(lab, "state")[0]["max_downloads"] == 10

    # Mirrors that are no longer there stay until a list without them is: this is Docker's way.
    lab.write("etc/docker/daemon.json", "{}\n")
    daemon.signal(signal.SIGHUP)
    state = watching.until(lambda s: s["reloads"] == 2, "the second reload")
    assert (state["max_downloads"], state["mirrors"]) == (3, ["http://127.0.0.1:30020"])
    lab.write("etc/docker/daemon.json", '{"registry-mirrors": []}\n')
    daemon.signal(signal.SIGHUP)
    assert watching.until(lambda s: s["reloads"] == 3, "the third reload")["mirrors"] == []


def test_it_reads_the_command_line(lab: Lab) -> None:
    lab.dockerd("--max-concurrent-downloads=7")
    (state,) = tool(lab, "state")
    assert (state["max_downloads"], state["source"]) == (7, "dockerd's command line")
    assert state["on_command"] is True


def test_it_comes_back_by_itself(lab: Lab, watch: Callable[[], Watch]) -> None:
    lab.containerd()  # its own one would outlive a dockerd that is killed, and keep the next from starting
    watching = watch()
    assert "it does not run" in watching.until(lambda s: s["error"] != 0, "nobody")["why"]
    daemon = lab.dockerd("--containerd=/run/containerd/containerd.sock")
    first = watching.until(lambda s: s["error"] == 0, "the daemon")
    assert first["containerd"] == "/run/containerd/containerd.sock"
    daemon.signal(signal.SIGSTOP)
    assert "it hangs" in watching.until(lambda s: s["error"] != 0, "a daemon that hangs")["why"]
    daemon.signal(signal.SIGCONT)
    watching.until(lambda s: s["error"] == 0, "the daemon again")
    daemon.signal(signal.SIGKILL)
    watching.until(lambda s: s["error"] != 0, "its death")
    assert daemon.process
    daemon.process.wait()
    (lab.directory / "run/docker.pid").unlink(missing_ok=True)
    daemon.start()
    second = watching.until(lambda s: s["error"] == 0, "the next one")
    assert second["pid"] == daemon.pid != first["pid"]


def archive(path: Path, config: bytes) -> Path:
    """An image of one empty layer, as docker save writes it."""
    layer = io.BytesIO()
    tarfile.open(fileobj=layer, mode="w").close()
    manifest = [{"Config": "config.json", "RepoTags": ["made-up:1"], "Layers": ["layer.tar"]}]
    with tarfile.open(path, "w") as out:
        for name, data in (
            ("config.json", config),
            ("layer.tar", layer.getvalue()),
            ("manifest.json", json.dumps(manifest).encode()),
        ):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            out.addfile(member, io.BytesIO(data))
    return path


def diff_id() -> str:
    import hashlib

    layer = io.BytesIO()
    tarfile.open(fileobj=layer, mode="w").close()
    return "sha256:" + hashlib.sha256(layer.getvalue()).hexdigest()


def test_it_lists_and_loads(lab: Lab, watch: Callable[[], Watch]) -> None:
    lab.dockerd("--storage-driver=vfs")
    watching = watch()
    watching.until(lambda s: s["error"] == 0, "an answer")
    assert tool(lab, "images") == [] and tool(lab, "containers") == []
    config = {"architecture": "amd64", "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": [diff_id()]}}
    good = archive(lab.directory / "good.tar", json.dumps(config).encode())
    (end,) = tool(lab, "load", str(good))
    assert (end["error"], end["why"]) == (0, "")
    (image,) = tool(lab, "images")
    assert image["name"] == "made-up:1"
    until(lambda: [e for e in watching.events if e["event"] == IMAGE_LOAD], 10, "the event of the load")

    code, body = lab.docker("POST", "/containers/create?name=idle", {"Image": "made-up:1", "Cmd": ["/none"]})
    assert code == 201, body
    (container,) = tool(lab, "containers")
    assert (container["name"], container["running"]) == ("idle", False)
    assert container["id"] == json.loads(body)["Id"]

    # It answers 200, and says no inside.
    bad = archive(lab.directory / "bad.tar", b"this is no configuration")
    (end,) = tool(lab, "load", str(bad))
    assert end["error"] != 0 and end["why"]


def test_it_tells_why_a_pull_failed(lab: Lab) -> None:
    lab.dockerd()
    (end,) = tool(lab, "pull", "127.0.0.1:1/nothing:1")
    assert end["error"] != 0
    assert "refused" in end["why"]
    assert os.strerror(-end["error"])
