# SPDX-License-Identifier: Apache-2.0
"""packaging/quickstart on a machine without systemd: what is printed, in which order, and that --undo undoes it."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import BIN, ROOT, Node, other_agents, until

# Its files in /run and /var/lib are its own; nothing is built.
WRAP = """
set -e
for directory in /run /var/lib; do mount -t tmpfs tmpfs "$directory"; done
"$1/packaging/quickstart"
cat /proc/sys/net/ipv4/neigh/default/gc_thresh3
"$1/packaging/quickstart" --undo
"""


@pytest.fixture(name="tree")
def fixture_tree(directory: Path) -> Path:
    """As a clone with a finished build: the compiler and apt-get are not asked."""
    (directory / "packaging").mkdir()
    (directory / "build/release/src").mkdir(parents=True)
    (directory / "tools").mkdir()
    shutil.copy(ROOT / "packaging/quickstart", directory / "packaging")
    (directory / "build/release/src/headroom").symlink_to(BIN)
    for name in ("packaging/dependencies", "tools/cmake"):
        (directory / name).write_text("#!/bin/sh\n")
        (directory / name).chmod(0o755)
    return directory


def test_quickstart_prints_the_plan_before_it_starts_and_undo_restores(node: Node, tree: Path) -> None:
    if Path("/etc/headroom").exists():
        pytest.skip("a configuration is installed on this machine")
    answer = subprocess.run(
        ["unshare", "--mount", "bash", "-c", WRAP, "bash", str(tree)],
        env={**os.environ, "PATH": f"{tree}/tools:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    headings = re.findall(r"^== (.*)$", answer.stdout, re.M)
    assert headings == ["build", "headroom plan: what it is about to change", "start", "headroom status"]
    plan = answer.stdout.split("\n== ")[2]
    assert re.search(r"net\.ipv4\.neigh\.default\.gc_thresh3 +1024 +.*100000", plan), plan
    assert "\n100000\n" in answer.stdout and "--undo" in answer.stdout
    assert "The agent is stopped, and the original values are restored." in answer.stdout
    until(lambda: not other_agents(), "the agent has ended")
    node.assert_unchanged()
