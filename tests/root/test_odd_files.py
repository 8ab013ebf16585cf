# SPDX-License-Identifier: Apache-2.0
"""Files that cannot be replaced, or that others have written, stay as they are, and the message says why."""

import json
import os
from pathlib import Path
from typing import Any, Callable

from conftest import Run
from runtimelab import Lab, headroom, lab  # noqa: F401
from test_runtime import DOCKER

TEXT = '{"log-level": "warn"}\n'


def refused(headroom: Run, *words: str) -> None:
    said = headroom("apply", code=1).stderr
    assert DOCKER in said and all(word in said for word in words), said


def test_a_file_with_hard_links_is_not_separated_from_them(lab: Lab, headroom: Run) -> None:
    lab.write("etc/docker/daemon.json", TEXT)
    other = lab.root / "etc/docker/shared.json"
    os.link(lab.daemon_json, other)
    lab.dockerd()
    refused(headroom, "2 hard links")
    assert lab.daemon_json.samefile(other) and other.read_text() == TEXT
    other.unlink()
    headroom("apply")
    assert json.loads(lab.daemon_json.read_text())["max-concurrent-downloads"] == 10
    headroom("restore")
    assert lab.daemon_json.read_text() == TEXT


def test_a_file_that_is_bind_mounted_is_said_to_be_one(lab: Lab, headroom: Run) -> None:
    lab.write("etc/docker/daemon.json", "{}")
    source = lab.write("run/daemon-of-a-volume.json", TEXT)
    lab.run("mount", "--bind", "/run/daemon-of-a-volume.json", "/etc/docker/daemon.json")
    lab.dockerd()
    refused(headroom, "mount point")
    assert source.read_text() == TEXT
    assert headroom("restore", "--plan").stdout == "Nothing to restore.\n"
    lab.run("umount", "/etc/docker/daemon.json")
    headroom("apply")
    lab.run("mount", "--bind", "/etc/docker/daemon.json", "/etc/docker/daemon.json")  # and it is one before the restore
    assert "mount point" in headroom("restore", code=1).stderr
    lab.run("umount", "/etc/docker/daemon.json")
    headroom("restore")
    assert lab.daemon_json.read_text() == "{}"


def test_a_read_only_file_system_does_not_lack_room(lab: Lab, directory: Path, headroom: Run) -> None:
    lab.write("etc/docker/daemon.json", TEXT)
    lab.dockerd()
    docker, state = "/etc/docker", str(directory / "state")
    lab.run("mount", "--bind", docker, docker)
    lab.run("mount", "-o", "remount,ro,bind", docker)
    refused(headroom, "read-only file system")
    lab.run("umount", docker)
    headroom("apply")
    lab.run("mount", "--bind", state, state)
    lab.run("mount", "-o", "remount,ro,bind", state)
    said = headroom("restore", code=1).stderr
    assert "remount" in said and "make room" not in said and "space" not in said, said
    lab.run("umount", state)
    headroom("restore")
    assert lab.daemon_json.read_text() == TEXT


def test_the_original_is_what_a_restore_writes(lab: Lab, run: Run, headroom: Callable[..., Any]) -> None:
    """Others chose another number after the first write: it is the original from then on."""
    lab.write("etc/docker/daemon.json", '{"max-concurrent-downloads": 5}\n')
    lab.dockerd()
    headroom("apply")
    theirs = '{"max-concurrent-downloads": 7, "log-level": "info"}\n'
    lab.daemon_json.write_text(theirs)
    headroom("apply")
    assert json.loads(lab.daemon_json.read_text())["max-concurrent-downloads"] == 10
    setting = next(s for s in json.loads(headroom("status", "--json", code=None).stdout)["settings"] if s["name"] == DOCKER)
    assert setting["original"] == "7"
    assert "10 -> 7" in headroom("restore", "--plan", code=2).stdout
    assert "10 -> 7" in headroom("restore").stdout
    assert lab.daemon_json.read_text() == theirs
