#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The directories below src/ include only those before them, and few files open anything for writing."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LEVEL = {"base": 0, "model": 1, "config": 2, "kernel": 3, "workload": 4, "runtime": 5, "tuners": 6,
         "apply": 7, "report": 8, "agent": 9, "cli": 10}
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

faults = []


def fault(path, text):
    faults.append(f"{path.relative_to(ROOT)}: {text}")


def directory_of(include):
    first = include.split("/")[0]
    return first if "/" in include and first in LEVEL else None


def check_directory(path, directory, include):
    other = directory_of(include)
    if include.startswith("headroom/") or other is None or other == directory:
        return
    if LEVEL[other] >= LEVEL[directory]:
        fault(path, f"{directory} includes {include}")


def check_tuner(path, directory, include):
    parts = include.split("/")
    if parts[0] == "tuners" and parts[1] != directory and include != "tuners/table.h":
        fault(path, f"the tuner {directory} includes {include}")


def check_public(path, include):
    if not include.startswith("headroom/") and directory_of(include):
        fault(path, f"a public header includes {include}")


def check_bpf(path, include):
    if (path.parent / include).exists():
        return
    if not re.match(r"headroom/bpf/|linux/|bpf/bpf_|stdbool\.h$|stddef\.h$", include):
        fault(path, f"a BPF program includes {include}")


def check_writing(path, text):
    name = str(path.relative_to(ROOT))
    text = READING_FOPEN.sub("", text)
    text = COMMENT_OR_TEXT.sub("", text)
    found = set(WRITING.findall(text)) - OTHER_WRITING.get(name, set())
    if found and name not in WRITERS:
        fault(path, f"uses {', '.join(sorted(found))}: only {' and '.join(sorted(WRITERS))} change the node")


def main():
    files = [p for p in sorted((ROOT / "src").rglob("*.[ch]"))]
    for path in files:
        text = path.read_text()
        parts = path.relative_to(ROOT / "src").parts
        for include in INCLUDE.findall(text):
            if len(parts) == 1:
                if directory_of(include) not in ("cli", None):
                    fault(path, f"main includes {include}")
                continue
            if parts[0] not in LEVEL:
                fault(path, f"{parts[0]} is no known directory")
                break
            check_directory(path, parts[0], include)
            if parts[0] == "tuners" and len(parts) > 2:
                check_tuner(path, parts[1], include)
        check_writing(path, text)
    for path in (ROOT / "include").rglob("*.h"):
        for include in INCLUDE.findall(path.read_text()):
            check_public(path, include)
    for path in (ROOT / "bpf").glob("*.[ch]"):
        for include in INCLUDE.findall(path.read_text()):
            check_bpf(path, include)
    for name in WRITERS:
        if not (ROOT / name).exists():
            faults.append(f"{name}: is gone: take it from the list")
    print(f"{len(files)} files of src/ looked at")
    for line in faults:
        print(line)
    return 1 if faults or len(files) < 20 else 0


sys.exit(main())
