#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The directories below src/ include only those before them, and few files open anything for writing."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LEVELS = ["base", "model", "config", "kernel", "workload", "runtime", "tuners", "apply", "report", "agent", "cli"]
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.M)
COMMENT_OR_TEXT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)

# Who opens for writing, and what. All but the first two work below its own directories.
WRITERS = {
    "src/apply/values.c": "the node: values, thresholds; their records, and the lock, in the runtime directory",
    "src/apply/file.c": "the node: configuration files, replaced whole",
    "src/base/file.c": "files of the state directory, replaced whole",
    "src/runtime/archive_tar.c": "what it unpacks, to a file without a name in the state directory",
}
WRITING = re.compile(r"\b(O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|RTM_SETNEIGHTBL|RTM_NEWNEIGH|creat|"
                     r"fopen|freopen|truncate|pwrite|rename|renameat)\b")
READING_FOPEN = re.compile(r'fopen\([^;]*,\s*"re"\)')
OTHER_WRITING = {"src/apply/file_journal.c": {"renameat"}}


def may_include(path, include):
    """Path is relative to the root."""
    area, *parts = path.parts
    other = include.split("/")[0] if "/" in include and include.split("/")[0] in LEVELS else None
    if area == "bpf":
        return (ROOT / path.parent / include).exists() or re.match(
            r"headroom/bpf/|linux/|bpf/bpf_|stdbool\.h$|stddef\.h$", include)
    if area == "include":
        return not other
    if len(parts) == 1:  # main.c
        return other in ("cli", None)
    if parts[0] == "tuners" == other and len(parts) > 2:
        return include.split("/")[1] == parts[1] or include == "tuners/table.h"
    return other in (None, parts[0]) or LEVELS.index(other) < LEVELS.index(parts[0])


def main():
    faults = [f"{name}: is gone: take it from the list" for name in WRITERS if not (ROOT / name).exists()]
    files = [path.relative_to(ROOT) for area in ("src", "include", "bpf") for path in sorted((ROOT / area).rglob("*.[ch]"))]
    for path in files:
        text = (ROOT / path).read_text()
        faults += [f"{path}: includes {include}" for include in INCLUDE.findall(text) if not may_include(path, include)]
        if path.parts[0] == "src" and str(path) not in WRITERS:
            found = set(WRITING.findall(COMMENT_OR_TEXT.sub("", READING_FOPEN.sub("", text))))
            if found := found - OTHER_WRITING.get(str(path), set()):
                faults.append(f"{path}: uses {', '.join(sorted(found))}: only {' and '.join(WRITERS)} change the node")
    print(f"{len(files)} files looked at", *faults, sep="\n")
    return 1 if faults or len(files) < 20 else 0


sys.exit(main())
