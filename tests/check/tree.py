# SPDX-License-Identifier: Apache-2.0
"""What the checks have in common. A check is a function that yields the faults of a tree."""

import os
import re
import subprocess
import sys
from functools import cached_property
from pathlib import Path

DIRECTORIES = ["src", "bpf", "include", "packaging", "tests"]
COMMENT_OR_TEXT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)


class Tree:
    """A source tree, the directory it was built in, and its programs."""

    def __init__(self, root, build, headroom, tables, gendoc=None):
        self.root, self.build = Path(root), Path(build)
        self.headroom, self.tables, self.gendoc = headroom, tables, gendoc
        self.documents = self.build / "packaging"

    @cached_property
    def sources(self):
        """Path below the root -> text, of all C files."""
        paths = [path for area in DIRECTORIES for path in sorted((self.root / area).rglob("*.[ch]"))]
        return {path.relative_to(self.root): path.read_text() for path in paths}

    @cached_property
    def code(self):
        """The same of src, without comments and with empty strings. Lines keep their numbers."""
        def blank(match):
            return '""' if match[0][0] == '"' else "\n" * match[0].count("\n")

        return {path: COMMENT_OR_TEXT.sub(blank, text) for path, text in self.sources.items() if path.parts[0] == "src"}

    def read(self, name):
        return (self.root / name).read_text()

    def print_tables(self, *what):
        return subprocess.run([self.tables, *what], capture_output=True, text=True, check=True).stdout

    @cached_property
    def names(self):
        """(kind, name) of each row that `explain` knows."""
        return [tuple(line.split("\t", 1)) for line in self.print_tables("names").splitlines()]


def given_tree():
    """The tree of this file, with the build directory and programs of the command line."""
    return Tree(Path(__file__).resolve().parents[2], *(os.path.abspath(name) for name in sys.argv[1:5] if name != "--write"))


def report(checks, tree):
    faults = [fault for check in checks for fault in check(tree)]
    print(*faults, sep="\n")
    sys.exit(1 if faults else 0)
