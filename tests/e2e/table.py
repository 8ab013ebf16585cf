#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Prints a table of the tests in JUnit files, with their seconds and the figures that they print: table.py FILE..."""

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

total = 0.0
for path in map(Path, sys.argv[1:]):
    print(f"\n{path.stem}")
    for case in ElementTree.parse(path).iter("testcase"):
        seconds = float(case.get("time") or 0)
        total += seconds
        tags = {child.tag for child in case}
        outcome = next((word for tag, word in (("failure", "FAILED"), ("error", "FAILED"), ("skipped", "skipped")) if tag in tags), "passed")
        print(f"{outcome:7} {seconds:6.1f} s  {(case.get('name') or '').removeprefix('test_').replace('_', ' ')}")
        for found in case.iter("property"):
            print(f"{'':19}{found.get('name')}: {found.get('value')}")
print(f"\n{total:.0f} s in all")
