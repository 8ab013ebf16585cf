#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lengths, licences, globals and format. The argument is the build directory."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(sys.argv[1])
DIRECTORIES = ["src", "bpf", "include", "packaging", "tests"]

FUNCTION_MAX = 80
FUNCTION_P90_MAX = 45
FILE_MAX = 500
GLOBALS_ALLOWED = {"log.c.o": {"log_state"}}

faults = []


def sources():
    for directory in DIRECTORIES:
        yield from sorted(p for p in (ROOT / directory).rglob("*.[ch]"))


def functions(lines):
    """(first line, length) of each: the braces of a function stand alone in the first column."""
    start = None
    for number, line in enumerate(lines, 1):
        if line == "{":
            start = number
        elif line == "}" and start:
            yield start, number - start + 1
            start = None


def check_lengths():
    lengths = []
    for path in sources():
        name = path.relative_to(ROOT)
        lines = path.read_text().split("\n")
        if len(lines) - 1 > FILE_MAX:
            faults.append(f"{name}: {len(lines) - 1} lines, at most {FILE_MAX}")
        for start, length in functions(lines):
            if length > FUNCTION_MAX:
                faults.append(f"{name}:{start}: a function of {length} lines, at most {FUNCTION_MAX}")
            if name.parts[0] != "tests":
                lengths.append(length)
    lengths.sort()
    p90 = lengths[len(lengths) * 9 // 10]
    print(f"{len(lengths)} functions: median {lengths[len(lengths) // 2]} lines, p90 {p90}, "
          f"longest {lengths[-1]}")
    if p90 >= FUNCTION_P90_MAX:
        faults.append(f"p90 of the length of functions is {p90}, not under {FUNCTION_P90_MAX}")


def needs_licence(path):
    if path.suffix in (".c", ".h", ".py", ".sh", ".cmake") or path.name == "CMakeLists.txt":
        return True
    if path.suffix or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(2) == b"#!"


def check_licences():
    paths = [ROOT / "CMakeLists.txt"]
    for directory in DIRECTORIES:
        paths += (ROOT / directory).rglob("*")
    for path in paths:
        if "__pycache__" in path.parts or not needs_licence(path):
            continue
        name = path.relative_to(ROOT)
        head = path.read_text(errors="replace").split("\n")[:3]
        shared = name.parts[0] == "bpf" or name.parts[:3] == ("include", "headroom", "bpf")
        wanted = "GPL-2.0-only OR BSD-2-Clause" if shared else "Apache-2.0"
        if name == Path("bpf/CMakeLists.txt"):
            wanted = "SPDX-License-Identifier: "
        if not any("SPDX-License-Identifier: " in line and wanted in line for line in head):
            faults.append(f"{name}: no SPDX-License-Identifier: {wanted}")


def check_globals():
    """Symbols in .data or .bss of the library: neither const nor a constant table."""
    archive = BUILD / "src" / "libheadroom_core.a"
    table = subprocess.run(["objdump", "-t", archive], capture_output=True, text=True, check=True)
    member = ""
    for line in table.stdout.split("\n"):
        found = re.match(r"^(\S+\.o):\s+file format", line)
        if found:
            member = found.group(1)
        found = re.match(r"^[0-9a-f]+ .{5}.O \.(?:data|bss|tdata|tbss)\S*\s+[0-9a-f]+\s+(?:\.hidden )?(\S+)$",
                         line)
        if not found or re.search(r" \.data\.rel\.ro", line):
            continue
        name = found.group(1)
        if re.match(r"__odr_asan|__asan|_*ubsan", name) or name in GLOBALS_ALLOWED.get(member, ()):
            continue
        faults.append(f"{member.removesuffix('.o')}: {name} is a variable outside any function, "
                      "or static in one")


def check_format():
    if not shutil.which("clang-format"):
        print("the format is not checked: no clang-format")
        return
    run = subprocess.run(["clang-format", "--dry-run", "-Werror", *sources()], cwd=ROOT,
                         capture_output=True, text=True)
    unclean = sorted(set(re.findall(r"^(\S+?):\d+:\d+: error:", run.stderr, re.M)))
    for path in unclean:
        faults.append(f"{Path(path).relative_to(ROOT)}: not as clang-format has it")


check_lengths()
check_licences()
check_globals()
check_format()
for text in faults:
    print(text)
sys.exit(1 if faults else 0)
