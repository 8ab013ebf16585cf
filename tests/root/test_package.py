# SPDX-License-Identifier: Apache-2.0
"""The scripts of the packages, with a node that is a directory of files."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from conftest import BIN, ROOT, mounted, read

OWN = "for d in /run /var/lib /etc; do mount -t tmpfs none $d; done"  # no directory of this machine
OTHER = "helm-release/kube-system/headroom"
SCRIPTS = ROOT / "packaging/debian"


class Machine:
    """A machine on which the package sets one sysctl."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.count = directory / "proc/sys/vm/max_map_count"
        self.count.parent.mkdir(parents=True)
        self.count.write_text("100000\n")  # the agent does not truncate: as long as the wanted value

        (directory / "agent.yaml").write_text("sysctl: {vm.max_map_count: 262144}\nhttp: {listen: ''}\nneighbor: {mode: off}\n")
        agent = f"(export HEADROOM_OWNER={OTHER}; exec headroom agent --config {directory}/agent.yaml)"
        self.agent = f"{agent} & trap 'kill $! || :' EXIT"

    def __call__(self, script: str) -> "subprocess.CompletedProcess[str]":
        own = {"HEADROOM_STATE_DIR": "/var/lib/headroom", "HEADROOM_RUNTIME_DIR": "/run/headroom"}
        path = f"{BIN.parent}:{os.environ['PATH']}"
        return subprocess.run(
            mounted(OWN) + ("sh", "-ec", script),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, **own, "HEADROOM_HOST_ROOT": str(self.directory), "PATH": path},
        )


@pytest.fixture
def machine(directory: Path) -> Machine:
    return Machine(directory)


SET = "headroom apply --only sysctl >/dev/null || true"  # this node lacks other sysctls of the profile


def test_a_removal_restores_the_original_and_deletes_the_records(machine: Machine) -> None:
    done = machine(f"{SET}; grep 262144 {machine.count}; {SCRIPTS}/prerm remove; {SCRIPTS}/postrm purge; find /run /var/lib -name headroom")
    assert (done.returncode, read(machine.count)) == (0, "100000"), done.stderr
    assert not re.search("^/(run|var)", done.stdout, re.M), done.stdout


def test_a_purge_keeps_the_originals_that_could_not_be_restored_and_says_where(machine: Machine) -> None:
    read_only = f"mount --bind {machine.count} {machine.count}; mount -o remount,bind,ro {machine.count}"
    writable = f"umount {machine.count}; headroom restore"
    done = machine(f"{SET}; {read_only}; {SCRIPTS}/prerm remove; {SCRIPTS}/postrm purge; {writable}")
    assert "original values stay in /run/headroom/values and /var/lib/headroom" in done.stderr
    assert (done.returncode, read(machine.count)) == (0, "100000"), done.stderr


def test_a_removal_leaves_the_values_of_another_installation(machine: Machine) -> None:
    """With its agent, which has the lock, and without it."""
    started = f"{machine.agent}; until headroom status --probe /livez; do sleep 0.1; done; headroom restore 2>&1 | grep 'agent: the values'"
    remove = f"{SCRIPTS}/prerm remove; {SCRIPTS}/postrm purge; grep 262144 {machine.count}"
    done = machine(f"{SET}; {started}; {remove}; kill $!; wait $!; {remove}; ! headroom restore; headroom restore --force")
    assert done.stdout.count(f"Nothing to restore: the values of this node belong to {OTHER}.") == 2, done
    assert f"headroom: restore: the values of this node belong to {OTHER}: " in done.stderr
    assert (done.returncode, read(machine.count)) == (0, "100000"), done.stderr


def test_a_release_ends_when_another_installation_takes_over(machine: Machine) -> None:
    done = machine(f"{SET}; headroom restore; {machine.agent}; until grep 262144 {machine.count}; do sleep 0.1; done")
    assert done.returncode == 0, done.stderr
