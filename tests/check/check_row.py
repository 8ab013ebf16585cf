#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A new limit is one row of src/tuners/limits/rows.c: every view, document, rule and panel has it without another edit.

check_row.py --add ROWS MORE_ROWS               writes the table with one more row
check_row.py BUILD HEADROOM TABLES GENDOC       the programs with that table
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tree import given_tree, report

ROW = """	{"check-row", "A row of a test.", .unit = "things", .def = "none", .source = "check_row.py", W,
		.breaks = "\\"a test\\"", .cure_help = "nothing", .used = {"/proc/sys/kernel/pid_max", 1},
		.max = {"/proc/sys/kernel/pid_max", 1}},
"""


def add(rows, more):
    text = Path(rows).read_text()
    table, end = text.rsplit("\t{0},\n", 1)
    Path(more).write_text(table + ROW + "\t{0},\n" + end)


def check_views(tree):
    def output(*arguments):
        return subprocess.run([tree.headroom, *arguments], capture_output=True, text=True, check=False).stdout

    shown = {
        "status": output("status"),
        "status --json": output("status", "--json"),
        "top limits": output("top", "limits"),
        "top check-row": output("top", "check-row"),
        "explain": output("explain", "check-row"),
        "metrics": tree.print_tables("metrics", "node"),
        "page": tree.print_tables("page"),
    }
    with tempfile.TemporaryDirectory() as directory:
        for name in ("headroom-limits.7", "metrics.md", "headroom.bash"):
            path = f"{directory}/{name}"
            subprocess.run([tree.gendoc, tree.root / f"packaging/{name}.in", path, "1", "2026-01-01"], check=True)
            shown[name] = Path(path).read_text().replace("\\-", "-")
    yield from (f"{name}: nothing about the new row" for name, text in shown.items() if "check-row" not in text)
    reached = next(c for c in json.loads(shown["status --json"])["conditions"] if c["type"] == "LimitReached")
    if (reached["status"], reached["severity"], reached["reason"]) != ("True", "warning", "check-row"):
        yield f"the new row is full: {reached}"


def check_expressions(tree):
    for path in ("deploy/helm/headroom/rules.yaml", "deploy/grafana/headroom.json"):
        for names in re.findall(r'headroom_limit_\w+\{[^}]*?limit=~?\\?"([^"\\]+)', tree.read(path)):
            yield f"{path}: an expression has the limits {names} only"


CHECKS = [check_views, check_expressions]

if __name__ == "__main__":
    if sys.argv[1] == "--add":
        add(*sys.argv[2:])
    else:
        report(CHECKS, given_tree())
