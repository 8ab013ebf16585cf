#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rules for the source: include order, writers, reasons, lengths, licences, globals, format.

check_source.py BUILD HEADROOM TABLES: the build directory, the program, and the program that prints its tables.
"""

import re
import shutil
import subprocess
from pathlib import Path

from tree import COMMENT_OR_TEXT, DIRECTORIES, given_tree, report

# A directory of src/ includes only directories before it.
LEVELS = ["base", "model", "config", "kernel", "workload", "runtime", "tuners", "apply", "report", "agent", "cli"]
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.M)

# Only these files open for writing. All but the first two write below Headroom's own directories.
WRITERS = {
    "src/apply/values.c": "the node: values and thresholds; records and the lock in the runtime directory",
    "src/apply/file.c": "the node: replaces configuration files",
    "src/base/file.c": "replaces files of the state directory",
    "src/report/incidents.c": "records of incidents in the state directory",
    "src/runtime/archive.c": "unpacks to a file without a name in the state directory",
}
WRITING = re.compile(r"\b(O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|RTM_SETNEIGHTBL|RTM_NEWNEIGH|creat|"
                     r"fopen|freopen|truncate|pwrite|rename|renameat)\b")
READING_FOPEN = re.compile(r'fopen\([^;]*,\s*"re"\)')
OTHER_WRITING = {}

REASON_ROWS = Path("include/headroom/reason_rows.h")
ROW = re.compile(r'^ROW\((\w+), "([^"]+)"', re.M)
# Lists, comparisons and tables by reason do not give a reason.
NOT_GIVEN = re.compile(r"const enum reason \w+\[\] = \{.*?\};|\bREASON_LIST\([^)]*\)|[=!]= REASON_\w+|\[REASON_\w+\]", re.S)
CALL_OF_STREQ = re.compile(r"\bstreq(\((?:[^()]|\([^()]*\))*\))")

FUNCTION_MAX = 80
FUNCTION_P90_MAX = 45
FILE_MAX = 1500
TOTALS = [("src", "include"), ("bpf",), ("tests",)]
GLOBALS_ALLOWED = {"log.c.o": {"log_state"}}


def may_include(tree, path, include):
    area, *parts = path.parts
    other = include.split("/")[0] if "/" in include and include.split("/")[0] in LEVELS else None
    if area == "bpf":
        return (tree.root / path.parent / include).exists() or re.match(
            r"headroom/bpf/|linux/|bpf/bpf_|stdbool\.h$|stddef\.h$", include)
    if area == "include":
        return not other
    if len(parts) == 1:  # main.c
        return other in ("cli", None)
    if parts[0] == "tuners" == other and len(parts) > 2:
        return include.split("/")[1] == parts[1] or include == "tuners/table.h"
    return other in (None, parts[0]) or LEVELS.index(other) < LEVELS.index(parts[0])


def check_includes_and_writers(tree):
    yield from (f"{name}: is gone: take it from the list" for name in WRITERS if Path(name) not in tree.sources)
    for path, text in tree.sources.items():
        if path.parts[0] in ("src", "include", "bpf"):
            yield from (f"{path}: includes {name}" for name in INCLUDE.findall(text) if not may_include(tree, path, name))
        if path.parts[0] == "src" and str(path) not in WRITERS:
            found = set(WRITING.findall(COMMENT_OR_TEXT.sub("", READING_FOPEN.sub("", text))))
            if found := found - OTHER_WRITING.get(str(path), set()):
                yield f"{path}: uses {', '.join(sorted(found))}: only {' and '.join(WRITERS)} change the node"


def check_reasons(tree):
    """The code gives each row, and compares no slugs. The slug of a row is its name."""
    rows, given = dict(ROW.findall(tree.sources.get(REASON_ROWS, ""))), set()
    for path, text in tree.sources.items():
        if path.parts[0] == "src":
            given.update(re.findall(r"\bREASON_(\w+)", NOT_GIVEN.sub("", text)))
            calls = CALL_OF_STREQ.findall(text)
            yield from (f"{path}: compares as text: {call}" for call in calls if re.search(r"\breason\b", call))
    yield from (f"the slug of REASON_{name} is {slug}" for name, slug in rows.items() if slug != name.lower().replace("_", "-"))
    yield from (f"REASON_{name} is given nowhere" for name in sorted(rows.keys() - given))
    if not rows:
        yield f"{REASON_ROWS}: no rows"
    print(f"{len(rows)} reasons")


def functions(lines):
    """(first line, length) of each: the braces of a function stand alone in the first column."""
    start = None
    for number, line in enumerate(lines, 1):
        if line == "{":
            start = number
        elif line == "}" and start:
            yield start, number - start + 1
            start = None


def check_lengths(tree):
    lengths = []
    for path, text in tree.sources.items():
        lines = text.split("\n")
        if len(lines) - 1 > FILE_MAX:
            yield f"{path}: {len(lines) - 1} lines, at most {FILE_MAX}"
        for start, length in functions(lines):
            if length > FUNCTION_MAX:
                yield f"{path}:{start}: a function of {length} lines, at most {FUNCTION_MAX}"
            if path.parts[0] != "tests":
                lengths.append(length)
    lengths.sort()
    p90 = lengths[len(lengths) * 9 // 10]
    print(f"{len(lengths)} functions: median {lengths[len(lengths) // 2]} lines, p90 {p90}, longest {lengths[-1]}")
    if p90 >= FUNCTION_P90_MAX:
        yield f"p90 of the length of functions is {p90}, not under {FUNCTION_P90_MAX}"


def print_totals(tree):
    for areas in (("src", "include"), ("bpf",), ("tests",)):
        paths = [path for area in areas for path in (tree.root / area).rglob("*") if path.is_file()]
        lines = sum(path.read_bytes().count(b"\n") for path in paths if not {"corpus", "__pycache__"} & set(path.parts))
        print(f"{' and '.join(areas)}: {lines} lines")


def needs_licence(path):
    if path.suffix or not path.is_file():
        return path.suffix in (".c", ".h", ".py", ".sh", ".cmake") or path.name == "CMakeLists.txt"
    return path.read_bytes()[:2] == b"#!"


def check_licences(tree):
    paths = [tree.root / "CMakeLists.txt", *(path for area in DIRECTORIES for path in (tree.root / area).rglob("*"))]
    for path in paths:
        if "__pycache__" in path.parts or not needs_licence(path):
            continue
        name = path.relative_to(tree.root)
        shared = name.parts[0] == "bpf" or name.parts[:3] == ("include", "headroom", "bpf")
        wanted = "" if name == Path("bpf/CMakeLists.txt") else "GPL-2.0-only OR BSD-2-Clause" if shared else "Apache-2.0"
        head = path.read_text(errors="replace").split("\n")[:3]
        if not any("SPDX-License-Identifier: " in line and wanted in line for line in head):
            yield f"{name}: no SPDX-License-Identifier: {wanted}"


def check_globals(tree):
    """Symbols in .data or .bss of the library are const, constant tables, or allowed."""
    archive = tree.build / "src" / "libheadroom_core.a"
    table = subprocess.run(["objdump", "-t", archive], capture_output=True, text=True, check=True)
    member = ""
    for line in table.stdout.split("\n"):
        if found := re.match(r"^(\S+\.o):\s+file format", line):
            member = found.group(1)
        found = re.match(r"^[0-9a-f]+ .{5}.O \.(?:data|bss|tdata|tbss)(?!\.rel\.ro)\S*\s+[0-9a-f]+\s+(?:\.hidden )?(\S+)$", line)
        if found and not re.match(r"__odr_asan|__asan|_*ubsan", found[1]) and found[1] not in GLOBALS_ALLOWED.get(member, ()):
            yield f"{member.removesuffix('.o')}: {found[1]} is a variable outside any function, or static in one"


def check_format(tree):
    # Versions disagree about the same style. Debian 12 and 13 both have this one.
    if not shutil.which("clang-format-19"):
        print("the format is not checked: no clang-format-19")
        return
    run = subprocess.run(["clang-format-19", "--dry-run", "-Werror", *tree.sources], cwd=tree.root, capture_output=True, text=True)
    for path in sorted(set(re.findall(r"^(\S+?):\d+:\d+: error:", run.stderr, re.M))):
        yield f"{path}: not as clang-format-19 formats it"


CHECKS = [check_includes_and_writers, check_reasons, check_lengths, check_licences, check_globals, check_format]

if __name__ == "__main__":
    given = given_tree()
    print(f"{len(given.sources)} files checked")
    print_totals(given)
    report(CHECKS, given)
