#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The manual tells of every option, condition and reason, and the sample is a configuration.

check_docs.py HEADROOM TABLES DOCUMENTS: the two programs, and the directory of the documents.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

HEADROOM, TABLES, DOCUMENTS = (Path(argument) for argument in sys.argv[1:4])

faults = []


def tables(what):
    run = subprocess.run([TABLES, what], capture_output=True, text=True, check=True)
    return run.stdout.splitlines()


def plain(roff):
    """The page's text without what troff wants."""
    text = roff.replace("\\-", "-").replace("\\:", "").replace("\\&", "").replace("\\(aq", "'")
    return re.sub(r"\\f[BIRP]", "", text).replace("\\e", "\\")


def check_manual():
    page = plain((DOCUMENTS / "headroom.yaml.5").read_text())
    lines = set(page.splitlines())
    names = [line.split(" ", 1) for line in tables("names")]
    for kind, name in names:
        if name not in lines:
            faults.append(f"headroom.yaml.5: nothing about the {kind} {name}")
    print(f"{len(names)} names looked for in the manual")


def check_config(path, what):
    run = subprocess.run([HEADROOM, "check-config", path], capture_output=True, text=True)
    if run.returncode != 0 or run.stderr:
        faults.append(f"headroom.yaml {what}: check-config ends with {run.returncode}:\n{run.stderr}")


def check_sample():
    sample = (DOCUMENTS / "headroom.yaml").read_text()
    check_config(DOCUMENTS / "headroom.yaml", "as it is")
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "headroom.yaml"
        text = re.sub(r"^#", "", sample, flags=re.M)
        path.write_text(text)
        check_config(path, "with all keys in force")
        if not re.search(r"^mode: enforce$", text, re.M):
            faults.append("headroom.yaml: no key was put in force")


def check_explain():
    for line in tables("names"):
        kind, name = line.split(" ", 1)
        run = subprocess.run([HEADROOM, "explain", name], capture_output=True, text=True)
        if run.returncode != 0 or name not in run.stdout:
            faults.append(f"headroom explain {name}: nothing about this {kind}")


def check_sources():
    for line in tables("sources"):
        row, _, source = line.partition(": ")
        if len(source) < 20:
            faults.append(f"profile row {row}: no source")


check_manual()
check_sample()
check_explain()
check_sources()
print("\n".join(faults))
sys.exit(1 if faults else 0)
