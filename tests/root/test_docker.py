# SPDX-License-Identifier: Apache-2.0
"""The client of Docker's API against a real dockerd: what it is, what it runs with, what it has pulled."""

import json
import signal
import subprocess
import time
from typing import Any

from conftest import BIN, SLACK, until
from registrylab import Image
from runtimelab import Lab, lab  # noqa: F401

TOOL = BIN.parent.parent / "tests/tool/docker_tool"
KEY = "max-concurrent-downloads"


def tool(lab: Lab, *args: str) -> list[Any]:
    """Runs it to its end: what it printed."""
    done = subprocess.run([str(TOOL), str(lab.root), *args], capture_output=True, text=True, timeout=60 * SLACK)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def info(lab: Lab) -> dict[str, Any]:
    (said,) = tool(lab, "info")
    return said


def test_it_knows_the_daemon(lab: Lab) -> None:
    daemon = lab.dockerd()
    said = info(lab)
    assert (said["error"], said["why"]) == (0, "")
    assert said["version"] == json.loads(lab.docker("GET", "/version")[1])["Version"]
    real = json.loads(lab.docker("GET", "/info")[1])
    assert (said["storage_driver"], said["root_dir"]) == (real["Driver"], real["DockerRootDir"])
    assert said["pid"] == daemon.pid
    assert (said["mirrors"], said["reloaded_downloads"]) == ("none", "")


def test_a_reload_says_what_is_in_force(lab: Lab) -> None:
    lab.write("etc/docker/daemon.json", '{"max-concurrent-downloads": 4}\n')
    daemon = lab.dockerd()
    text = '{"max-concurrent-downloads": 10, "registry-mirrors": ["http://127.0.0.1:30020"]}\n'
    lab.write("etc/docker/daemon.json", text)
    assert tool(lab, "reload", KEY) == [{"error": 0, "value": "10"}]
    assert tool(lab, "reload", "registry-mirrors") == [{"error": 0, "value": "http://127.0.0.1:30020"}]
    said = info(lab)
    assert (said["reloaded_downloads"], said["mirrors"]) == ("10", "http://127.0.0.1:30020")

    # One unknown key, and the daemon keeps what it had: it sends no event.
    lab.write("etc/docker/daemon.json", '{"max-concurrent-downloads": 6, "max-concurent-uploads": 1}\n')
    (refused,) = tool(lab, "reload", KEY)
    assert refused["error"] != 0
    until(lambda: "max-concurent-uploads" in daemon.log, 10, "the refusal in the log")
    assert info(lab)["reloaded_downloads"] == "10"

    # Mirrors that are no longer there stay until a list without them is: this is Docker's way.
    lab.write("etc/docker/daemon.json", "{}\n")
    assert tool(lab, "reload", KEY) == [{"error": 0, "value": "3"}]
    assert info(lab)["mirrors"] == "http://127.0.0.1:30020"
    lab.write("etc/docker/daemon.json", '{"registry-mirrors": []}\n')
    assert tool(lab, "reload", "registry-mirrors") == [{"error": 0, "value": "none"}]


def test_it_reads_the_command_line(lab: Lab) -> None:
    lab.dockerd("--max-concurrent-downloads=7")
    said = info(lab)
    assert (said["on_command"], said["command_downloads"]) == (True, "7")


def test_it_says_why_there_is_no_answer(lab: Lab) -> None:
    assert "does not run" in info(lab)["why"]
    daemon = lab.dockerd()
    daemon.signal(signal.SIGSTOP)
    assert "it hangs" in info(lab)["why"]
    daemon.signal(signal.SIGCONT)
    until(lambda: info(lab)["error"] == 0, 10, "it answers again")


def test_it_lists_containers_and_pulls(lab: Lab) -> None:
    registry = lab.registry()
    registry.push("team/app", Image(1, 1000))
    lab.dockerd()
    since = int((time.time() - 1) * 1e6)
    assert tool(lab, "containers") == []
    name = f"{registry.name}/team/app:latest"
    assert lab.docker("POST", f"/images/create?fromImage={name}")[0] == 200
    assert tool(lab, "pulled", str(since)) == [{"name": name}]
    code, body = lab.docker("POST", "/containers/create?name=idle", {"Image": name, "Cmd": ["/none"]})
    assert code == 201, body
    (container,) = tool(lab, "containers")
    assert (container["name"], container["running"]) == ("idle", False)
    assert container["id"] == json.loads(body)["Id"]
