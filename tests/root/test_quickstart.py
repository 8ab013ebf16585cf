# SPDX-License-Identifier: Apache-2.0
"""packaging/quickstart on a machine without systemd: what is printed, in which order, and that --undo undoes it.
packaging/dependencies and the packages of quickstart: in a copy of the root directory, with packages of their own."""

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
umask 000
"$1/packaging/quickstart" --plan
echo "made: $(find /run /var/lib -name '*headroom*')"
cat /proc/sys/net/ipv4/neigh/default/gc_thresh3
echo "== planned"
"$1/packaging/quickstart"
find /run/headroom -perm /022 ! -type s ! -type l
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
    planned, output = output.split("\n== planned\n")
    assert re.search(r"net\.ipv4\.neigh\.default\.gc_thresh3 +1024 +.*100000", planned), planned
    assert planned.endswith("\nmade: \n1024") and "--undo --packages" in planned, planned
    headings = re.findall(r"^== (.*)$", output, re.M)
    assert headings == ["build", "headroom plan: what it is about to change", "start", "headroom status", "after"]
    plan = output.split("\n== ")[2]
    assert re.search(r"net\.ipv4\.neigh\.default\.gc_thresh3 +1024 +.*100000", plan), plan
    assert "\n100000\n" in output and "--undo" in output
    assert "\n/run/headroom" not in output, "nobody else can write there, whatever the umask"
    assert "The agent is stopped, and the original values are restored." in output
    until(lambda: not running_agents(ours=True), "the agent has ended")
    node.assert_unchanged()
    # The next installation enforces: nothing is released.
    directory, after = output.split("== after\n")[1].split("{", 1)
    assert "headroom" not in directory
    assert {t["mode"] for t in json.loads("{" + after)["tuners"]} == {"enforce"}


# A copy of the root directory, where apt knows the packages in /trial/packages only
COPY = """
set -e
mount -t tmpfs tmpfs "$1/scratch"
mkdir "$1"/scratch/upper "$1"/scratch/work "$1"/scratch/root
root=$1/scratch/root
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/scratch/upper,workdir=$1/scratch/work" "$root"
mkdir "$root/trial"
mount --bind "$1" "$root/trial"
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
for directory in run tmp; do mount -t tmpfs tmpfs "$root/$directory"; done
rm -rf "$root"/etc/apt/sources.list* "$root"/etc/apt/preferences.d/* "$root"/var/lib/apt/lists/*
echo 'deb [trusted=yes] file:/trial/packages ./' >"$root/etc/apt/sources.list"
exec chroot "$root" bash -euc "$2"
"""


def in_copy(directory: Path, script: str) -> str:
    """The output of the script in a copy of the root directory, in which $directory is /trial. Nobody answers a question."""
    (directory / "scratch").mkdir()
    with (directory / "packages/Packages").open("w") as index:
        subprocess.run(["dpkg-scanpackages", "--multiversion", "."], cwd=directory / "packages", stdout=index, stderr=subprocess.DEVNULL, check=True)
    run = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "bash", "-c", COPY, "bash", directory, script],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stdout
    return run.stdout


def make_package(directory: Path, name: str, version: str = "1", depends: str = "", settings: str = "") -> None:
    """settings: the content of its configuration file."""
    tree = directory / f"{name}-{version.replace(':', '-')}"
    (tree / "DEBIAN").mkdir(parents=True)
    fields = {"Package": name, "Version": version, "Architecture": "all", "Maintainer": "tests", "Depends": depends, "Description": "a test"}
    (tree / "DEBIAN/control").write_text("".join(f"{key}: {value}\n" for key, value in fields.items() if value))
    if settings:
        (tree / "etc").mkdir()
        (tree / "etc/trial.conf").write_text(settings)
        (tree / "DEBIAN/conffiles").write_text("/etc/trial.conf\n")
    (directory / "packages").mkdir(exist_ok=True)
    subprocess.run(["dpkg-deb", "-Znone", "--build", tree, directory / "packages"], stdout=subprocess.DEVNULL, check=True)


# Answers every request on the socket that its argument names with 200
AGENT = """#!/usr/bin/python3
import socketserver, sys
class Answer(socketserver.StreamRequestHandler):
    def handle(self):
        self.request.recv(4096)
        self.wfile.write(b"HTTP/1.0 200 OK\\r\\n\\r\\nok")
socketserver.UnixStreamServer(sys.argv[1], Answer).serve_forever()
"""


def test_undo_removes_the_packages_that_it_installed_but_those_that_others_need(tree: Path) -> None:
    make_package(tree, "trial-tool", depends="trial-library, trial-shared")
    for name in ("trial-library", "trial-shared", "trial-earlier"):
        make_package(tree, name)
    make_package(tree, "trial-user", depends="trial-shared")
    (tree / "packaging/dependencies").write_text("#!/bin/sh\napt-get -qq -y install trial-tool\n")
    (tree / "tools/cmake").write_text("#!/bin/sh\nexit 1\n")
    (tree / "build/release/src/headroom").unlink()
    (tree / "tools/agent").write_text(AGENT)
    (tree / "tools/agent").chmod(0o755)
    output = in_copy(
        tree,
        """
        PATH=/trial/tools:$PATH
        apt-get -qq update
        apt-get -qq -y install trial-earlier
        for i in 1 2; do ! /trial/packaging/quickstart; done  # the build fails, and then again
        echo "== undo"
        /trial/packaging/quickstart --undo
        apt-get -qq -y install trial-user
        echo "== agent"
        mkdir /run/headroom
        /trial/tools/agent /run/headroom/headroom.sock &
        until [ -S /run/headroom/headroom.sock ]; do sleep 0.1; done
        ! /trial/packaging/quickstart --undo --packages
        kill $!
        echo "== packages"
        /trial/packaging/quickstart --undo --packages
        echo "== left"
        dpkg-query --show --showformat='${db:Status-Abbrev}${Package}\n' 'trial-*' | sed -n 's/^ii *//p'
        ls -d /trial/build* || true
        """,
    )
    undo, refused, removed, left = re.split("== (?:undo|agent.*|packages|left)\n", output)[1:]
    assert "an agent that this script did not start runs" in refused and "== remove" not in refused, refused
    assert re.search(r"Packages: +3 packages with \d+ MB", undo) and "--undo --packages" in undo, undo
    assert "stay: trial-shared\n" in removed, removed
    assert re.findall(r"^trial-.*", left, re.M) == ["trial-earlier", "trial-shared", "trial-user"], output
    assert "cannot access '/trial/build" in left, output


def test_dependencies_ask_nothing_and_install_go_where_the_release_has_a_new_one(directory: Path) -> None:
    shutil.copytree(ROOT / "packaging", directory / "packaging", ignore=shutil.ignore_patterns("CMakeFiles"))
    for version in ("1", "2"):
        make_package(directory, "trial-settings", version, settings=f"default of {version}\n")
    make_package(directory, "bpftool", "9:1", depends="trial-settings (>= 2)")
    make_package(directory, "golang-go", "9:1")
    output = in_copy(
        directory,
        """
        apt-get -qq update
        apt-get -qq -y install trial-settings=1
        echo mine >/etc/trial.conf
        dpkg --purge --force-depends bpftool golang-go
        rm -rf /usr/bin/go /usr/lib/go /usr/local/bin/go /usr/local/go
        for release in 12 13; do
            sed --in-place --follow-symlinks "s/^VERSION_ID=.*/VERSION_ID=\\"$release\\"/" /etc/os-release
            /trial/packaging/dependencies test
            echo "== $release: $(dpkg-query --show trial-settings golang-go 2>&1 | tr '\t\n' '  ')"
        done
        cat /etc/trial.conf
        """,
    )
    debian12, debian13 = re.findall(r"^== 1[23]: (.*)$", output, re.M)
    assert "trial-settings 2" in debian12 and "golang-go 9:1" not in debian12, output
    assert "golang-go 9:1" in debian13, output
    assert output.endswith("\nmine\n"), output
