# SPDX-License-Identifier: Apache-2.0
"""Adds up the JUnit files of a run: summary.py DIRECTORY KIND...

Ends with "N passed, N failed, N skipped" and fails when a test failed, or when a kind ran none. Where CI
is set, a test may be skipped only for want of a virtual machine, or of Go to build containerd 2.x with: its
reason begins with "vm:" or "containerd2:".
"""

import os
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ALLOWED = ("vm:", "containerd2:")


def outcome(case: ElementTree.Element) -> tuple[str, str]:
    """passed, failed or skipped, and why."""
    for tag in ("failure", "error"):
        found = case.find(tag)
        if found is not None:
            return "failed", (found.get("message") or "").split("\n")[0]
    if case.get("status") in ("fail", "notrun"):  # as ctest says it
        if case.find("skipped") is None:
            return "failed", case.get("status") or ""
    skipped = case.find("skipped")
    if skipped is None:
        return "passed", ""
    text = [skipped.get("message") or "", *(case.findtext("system-out") or "").splitlines()]
    reason = next((line for line in text if line.startswith(ALLOWED)), text[0])
    if os.environ.get("CI") == "true" and not reason.startswith(ALLOWED):
        return "failed", f"skipped: {reason}"
    return "skipped", reason


def main(directory: Path, kinds: list[str]) -> int:
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    ran: set[str] = set()
    for path in sorted(directory.glob("*.xml")):
        try:
            cases = list(ElementTree.parse(path).iter("testcase"))
        except ElementTree.ParseError as error:
            print(f"failed: {path.stem}: {error}")
            counts["failed"] += 1
            continue
        for case in cases:
            what, why = outcome(case)
            counts[what] += 1
            if what != "skipped" or why.startswith("vm:"):
                ran.add(path.stem.split(".")[0])
            if what != "passed":
                name = case.get("name", "")
                where = case.get("classname") or ""
                print(f"{what}: {path.stem}: {where + '.' if where and where != name else ''}{name}: {why}")
    for kind in kinds:
        if kind not in ran:
            print(f"failed: {kind}: no test ran")
            counts["failed"] += 1
    print(", ".join(f"{counts[what]} {what}" for what in ("passed", "failed", "skipped")))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
