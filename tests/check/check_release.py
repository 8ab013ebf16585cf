#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""packaging/release refuses what may not be released, all files have one version, and no packaged file or link dangles.

check_release.py BUILD HEADROOM TABLES: as for check_source.py.
"""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from tree import given_tree, report

MAINTAINER = "Jo Example <jo@example.org>"
ADDRESSES = "Homepage: https://example.org\nVcs-Browser: https://example.org/git"
READ = ["CMakeLists.txt", "CHANGELOG.md", "README.md", "packaging", "deploy/helm"]  # by packaging/release --check


def lines_of(*command, path=os.environ["PATH"]):
    """What a command prints, and that it fails: as a set of lines, empty if it succeeds."""
    run = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PATH": path})
    text = (run.stdout + run.stderr).replace("packaging/release: ", "")
    return set(text.splitlines()) | ({"it fails without a reason"} if run.returncode and not text else set()) if run.returncode else set()


class Release:
    """A repository of its own, whose commit may be released."""

    def __init__(self, tree, directory):
        self.root = Path(directory) / "tree"
        for name in READ:
            copy = shutil.copytree if (tree.root / name).is_dir() else shutil.copy
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            copy(tree.root / name, self.root / name)
        self.version = re.search(r"^project\(headroom VERSION (\S+)", tree.read("CMakeLists.txt"), re.M)[1]
        self.edit("packaging/debian/control", r"^Maintainer: .*", f"Maintainer: {MAINTAINER}\n{ADDRESSES}")
        self.edit("README.md", " Version .* is not released yet: .*", "")
        self.edit("packaging/debian/changelog", r"^ -- .*?>", f" -- {MAINTAINER}")
        self.edit("CHANGELOG.md", r"^## \[.*", f"## [{self.version}] - 2026-12-01")
        self.git("init", "--quiet")
        self.commit()

    def edit(self, name, pattern, text):
        path = self.root / name
        path.write_text(re.sub(pattern, lambda _: text, path.read_text(), count=1, flags=re.M))

    def git(self, *args):
        own = ("-c", "user.name=check", "-c", "user.email=check@example.org", "-c", "core.hooksPath=/dev/null")
        subprocess.run(["git", "-C", self.root, *own, *args], check=True, capture_output=True)

    def commit(self):
        self.git("add", "--all", "--force")
        self.git("commit", "--quiet", "--message=release")

    def check(self):
        return lines_of(self.root / "packaging/release", "--check")


# File, expression, the text that replaces its match, and a part of the complaint.
FAULTS = [
    ("packaging/debian/control", "^Maintainer: .*", "Maintainer: Jo Example <>", "the maintainer has no address"),
    ("packaging/debian/control", "^Maintainer: .*", "Maintainer: Al Other <al@example.org>", "its maintainer is not that"),
    ("packaging/debian/control", "^Homepage: .*\n", "", "Homepage is no address"),
    ("README.md", "^# Headroom", "# Headroom is not released yet", "README.md: says that"),
    ("README.md", r"(docker://REGISTRY/headroom:).*", "docker://REGISTRY/headroom:9.8.7", "README.md: version 9.8.7"),
    ("CHANGELOG.md", r"^## \[.*", "## [9.8.7] - 2026-12-01", "CHANGELOG.md: version 9.8.7"),
    ("CHANGELOG.md", r"^## \[.*", "## [Unreleased]", "CHANGELOG.md: version Unreleased"),
    ("CHANGELOG.md", r"2026-12-01", "not released yet", "has no date"),
    ("CMakeLists.txt", r"VERSION \d+\.\d+\.\d+", "VERSION 9.8.7", "CMakeLists.txt has 9.8.7"),
    ("deploy/helm/headroom/Chart.yaml", "^version: .*", "version: 9.8.7", "Chart.yaml: version 9.8.7"),
    ("deploy/helm/headroom/Chart.yaml", "^appVersion: .*", "appVersion: 9.8.7", "Chart.yaml: version 9.8.7"),
    ("deploy/helm/headroom/manifests/agent/daemonset.yaml", "image: headroom:.*", "image: headroom:9.8.7", "daemonset.yaml: version 9.8.7"),
    ("deploy/helm/headroom/manifests/restore/daemonset.yaml", "image: headroom:.*", "image: headroom:9.8.7", "daemonset.yaml: version 9.8.7"),
    ("packaging/debian/changelog", r"\(.*?\)", "(9.8.7)", "changelog: version 9.8.7"),
    ("packaging/rpm/headroom.spec", "^Version: .*", "Version: 9.8.7", "headroom.spec: version 9.8.7"),
    ("packaging/rpm/headroom.spec", r"^(\* .* -) .*-1$", "* Sun Nov 22 2026 Headroom maintainers - 9.8.7-1", "headroom.spec: version 9.8.7"),
]


def check_versions(tree):
    """Each file has the version of CMakeLists.txt. CHANGELOG.md follows before a release only."""
    yield from (line for line in lines_of(tree.root / "packaging/release", "--check") if ": version " in line and "CHANGELOG" not in line)


def check_refusals(tree):
    with tempfile.TemporaryDirectory() as directory:
        release = Release(tree, directory)
        yield from (f"packaging/release refuses a good commit: {line}" for line in release.check())
        for file, pattern, text, wanted in FAULTS:
            release.edit(file, pattern, text)
            release.commit()
            if not any(wanted in line for line in release.check()):
                yield f"packaging/release accepts {text!r} in {file}"
            release.git("reset", "--quiet", "--hard", "HEAD^")
        subprocess.run([release.root / "packaging/release", "--set", "9.8.7"], check=True)
        if any("changelog" not in line.lower() and "spec" not in line for line in release.check() if ": version" in line):
            yield f"packaging/release --set leaves {release.check()}"
        release.git("reset", "--quiet", "--hard")
        (release.root / "left").touch()
        if not any("the tree is dirty: ?? left" in line for line in release.check()):
            yield "packaging/release accepts a dirty tree"
        (release.root / "left").unlink()
        release.git("tag", "v9.8.7")
        if not any("the tag of HEAD is v9.8.7" in line for line in release.check()):
            yield "packaging/release accepts a tag of another version"
        release.git("tag", "--delete", "v9.8.7")
        yield from obstacle_faults(release, Path(directory))


def obstacle_faults(release, directory):
    """On a machine with a few programs only, each kind that cannot be built is a line, and nothing is built."""
    programs = directory / "programs"
    programs.mkdir()
    for name in ("bash", "cat", "date", "dirname", "dpkg", "git", "grep", "head", "id", "paste", "sed", "tail"):
        (programs / name).symlink_to(shutil.which(name))
    found = lines_of(release.root / "packaging/release", directory / "out", path=str(programs))
    for kind in ("deb", "source", "rpm", "image"):
        if sum(line.startswith(f"{kind}: needs ") for line in found) != 1:
            yield f"packaging/release without programs: no line about {kind}: {found}"
    if not any("no kind is called bogus" in line for line in lines_of(release.root / "packaging/release", directory / "out", "--only", "bogus")):
        yield "packaging/release --only bogus is accepted"
    if (directory / "out").exists():
        yield "packaging/release begins what it cannot finish"


def check_links(tree):
    """No link of the tree or of an installation dangles."""
    with tempfile.TemporaryDirectory() as directory:
        run = subprocess.run(["cmake", "--install", tree.build], capture_output=True, text=True, check=False, env={**os.environ, "DESTDIR": directory})
        if run.returncode:
            yield f"cmake --install: {run.stderr}"
        for top, areas in (tree.root, ("deploy", "packaging", "src", "tests")), (Path(directory), ("",)):
            for path in (path for area in areas for path in (top / area).rglob("*")):
                if path.is_symlink() and not path.exists():
                    yield f"{path.relative_to(top)}: a link to {os.readlink(path)}, which does not exist"


def check_build_depends(tree):
    """The Debian package names the libraries of packaging/dependencies."""
    listed = re.search(r"^build=\((.*?)^\)", tree.read("packaging/dependencies"), re.M | re.S)[1].split()
    libraries = {name for name in listed if name.endswith("-dev")} - {"dpkg-dev", "libc6-dev", "linux-libc-dev"}
    named = re.findall(r"^ ([\w.+-]+)", tree.read("packaging/debian/control"), re.M)
    yield from (f"packaging/debian/control: {name} is missing in Build-Depends" for name in sorted(libraries - set(named)))


CHECKS = [check_versions, check_refusals, check_links, check_build_depends]

if __name__ == "__main__":
    report(CHECKS, given_tree())
