#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A new limit is one row of src/tuners/limits/rows.c: every view, document, rule and panel has it without another edit.

check_row.py add ROWS MORE_ROWS                 writes the table with one more row
check_row.py check HEADROOM TABLES GENDOC       the programs with that table
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROW = """	{"check-row", "limit", "A row of a test.", "things", "none", .source = "check_row.py", W,
		.breaks = "\\"a test\\"", .now = "nothing", .used = {"/proc/sys/kernel/pid_max", 1},
		.max = {"/proc/sys/kernel/pid_max", 1}},
"""


def add(rows: str, more: str) -> None:
    text = Path(rows).read_text()
    table, end = text.rsplit("\t{0},\n", 1)
    Path(more).write_text(table + ROW + "\t{0},\n" + end)


def check(headroom: str, tables: str, gendoc: str) -> None:
    def output(*command: str) -> str:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout

    with tempfile.TemporaryDirectory() as directory:
        documents = {}
        for name in ("headroom.8", "metrics.md", "headroom.bash"):
            path = f"{directory}/{name}"
            subprocess.run([gendoc, ROOT / f"packaging/{name}.in", path, "1", "2026-01-01"], check=True)
            documents[name] = Path(path).read_text().replace("\\-", "-")
    shown = {
        "status": output(headroom, "status"),
        "status --json": output(headroom, "status", "--json"),
        "top limits": output(headroom, "top", "limits"),
        "top check-row": output(headroom, "top", "check-row"),
        "explain": output(headroom, "explain", "check-row"),
        "metrics": output(tables, "metrics", "node"),
        "page": output(tables, "page"),
        **documents,
    }
    faults = [f"{name}: nothing about the new row" for name, text in shown.items() if "check-row" not in text]
    reached = next(c for c in json.loads(shown["status --json"])["conditions"] if c["type"] == "LimitReached")
    if (reached["status"], reached["severity"], reached["reason"]) != ("True", "warning", "check-row"):
        faults.append(f"the new row is full: {reached}")
    for path in ("deploy/helm/headroom/rules.yaml", "deploy/grafana/headroom.json"):
        for names in re.findall(r'headroom_limit_\w+\{[^}]*?limit=~?\\?"([^"\\]+)', (ROOT / path).read_text()):
            faults.append(f"{path}: an expression has the limits {names} only")
    print(f"{len(shown)} views and documents", *faults, sep="\n")
    sys.exit(bool(faults))


{"add": add, "check": check}[sys.argv[1]](*sys.argv[2:])
