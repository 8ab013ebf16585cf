#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each reason that the code gives is a row of a table, and each row is used. The argument is the
program `tables`."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DIRECTORIES = ["tuners", "apply", "agent"]
SLUG = re.compile(r'"([a-z]+(?:-[a-z0-9]+)*)"')
# A function with a parameter of this name passes its callers' literal on.
DEFINITION = re.compile(r"^(static )?[a-z][\w *]*?\b(\w+)\(([^;{}]*?)\)\n\{", re.M)
ASSIGNMENT = re.compile(r"\breason(?:\s*\[[^\]]*\])*\s*=\s*([^;,}]+)")


def split_arguments(text, start):
    """The arguments of a call whose opening parenthesis is at start."""
    depth, arguments, begin, quoted = 0, [], start + 1, False
    for i in range(start, len(text)):
        c = text[i]
        if c == '"' and text[i - 1] != "\\":
            quoted = not quoted
        if quoted:
            continue
        if c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        if depth == 0 or (depth == 1 and c == ","):
            arguments.append(text[begin:i])
            begin = i + 1
        if depth == 0:
            return arguments
    return arguments


def takers(text, public=False):
    """{function: index of its parameter reason}"""
    found = {}
    for static, name, parameters in DEFINITION.findall(text):
        if public and static:
            continue
        for index, parameter in enumerate(parameters.split(",")):
            if re.search(r"const char \*\s*reason$", parameter.strip()):
                found[name] = index
    return found


def given(text, functions):
    slugs = set()
    for expression in ASSIGNMENT.findall(text):
        slugs |= set(SLUG.findall(expression))
    for name, index in functions.items():
        for call in re.finditer(rf"\b{name}\(", text):
            arguments = split_arguments(text, call.end() - 1)
            if index < len(arguments):
                slugs |= set(SLUG.findall(arguments[index]))
    return slugs


def main():
    names = subprocess.run([sys.argv[1], "names"], capture_output=True, text=True, check=True)
    table = set(re.findall(r"^reason\t(.+)$", names.stdout, re.M))
    used, faults = set(), []
    for directory in DIRECTORIES:
        public = {}
        for path in [*(ROOT / "src/model").glob("*.c"), *(ROOT / "src" / directory).rglob("*.c")]:
            public |= takers(path.read_text(), public=True)
        for path in sorted((ROOT / "src" / directory).rglob("*.c")):
            text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
            for slug in sorted(given(text, {"setting_become": 2} | public | takers(text))):
                used.add(slug)
                if slug not in table:
                    faults.append(f"{path.relative_to(ROOT)}: {slug} is in no table")
    faults += [f"the reason {slug} is given nowhere" for slug in sorted(table - used)]
    print(f"{len(table)} reasons in the table, {len(used)} given")
    print("\n".join(faults))
    return 1 if faults or len(table) < 10 else 0


sys.exit(main())
