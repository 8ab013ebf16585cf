# SPDX-License-Identifier: Apache-2.0
"""packaging/quickstart on a machine without systemd: what is printed, in which order, and that --undo undoes it."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import BIN, ROOT, Node, running_agents, until

# /run and /var/lib are empty, and quickstart does not see systemd.
WRAP = """
set -e
for directory in /run /var/lib; do mount -t tmpfs tmpfs "$directory"; done
"$1/packaging/quickstart"
cat /proc/sys/net/ipv4/neigh/default/gc_thresh3
"$1/packaging/quickstart" --undo
echo "== after"
ls /var/lib
"$1/build/release/src/headroom" status --json
"""


@pytest.fixture(name="tree")
def fixture_tree(directory: Path) -> Path:
    """A clone with a finished build, where neither the compiler nor apt-get runs."""
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
    script = subprocess.Popen(
        ["unshare", "--mount", "bash", "-c", WRAP, "bash", str(tree)],
        env={**os.environ, "PATH": f"{tree}/tools:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output = script.communicate(timeout=120)[0]
    finally:  # a script that still runs could start an agent after the test
        with contextlib.suppress(ProcessLookupError):
            os.killpg(script.pid, signal.SIGKILL)
    assert script.returncode in (0, 2), output  # 2: a condition is True
    headings = re.findall(r"^== (.*)$", output, re.M)
    assert headings == ["build", "headroom plan: what it is about to change", "start", "headroom status", "after"]
    plan = output.split("\n== ")[2]
    assert re.search(r"net\.ipv4\.neigh\.default\.gc_thresh3 +1024 +.*100000", plan), plan
    assert "\n100000\n" in output and "--undo" in output
    assert "The agent is stopped, and the original values are restored." in output
    until(lambda: not running_agents(ours=True), "the agent has ended")
    node.assert_unchanged()
    # The next installation enforces: nothing is released.
    directory, after = output.split("== after\n")[1].split("{", 1)
    assert "headroom" not in directory
    assert {t["mode"] for t in json.loads("{" + after)["tuners"]} == {"enforce"}
