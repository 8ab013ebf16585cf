# SPDX-License-Identifier: Apache-2.0
"""Adds up the JUnit files of a run: summary.py DIRECTORY KIND...

The last line is "N passed, N failed, N skipped". The exit status is 1 if a test failed, or if a kind ran no test. With
CI=true a skipped test counts as failed, unless its reason begins with "vm:" (no virtual machine) "containerd2:" (no Go
to build containerd 2.x) or "crio:" (not built). A test that failed in KIND.xml and passed in KIND.second.xml has passed, and is listed.

summary.py --failed FILE   prints the number of failed tests in one file
"""

import os
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ALLOWED = ("vm:", "containerd2:", "crio:")


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


def failed(path: Path) -> int:
    return sum(outcome(case)[0] == "failed" for case in ElementTree.parse(path).iter("testcase"))


def second_run(path: Path) -> dict[tuple[str | None, str | None], str]:
    """Class and name -> outcome of the tests that ran twice."""
    second = path.with_suffix(".second.xml")
    cases = ElementTree.parse(second).iter("testcase") if second.exists() else []
    return {(case.get("classname"), case.get("name")): outcome(case)[0] for case in cases}


def main(directory: Path, kinds: list[str]) -> int:
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    ran: set[str] = set()
    for path in sorted(directory.glob("*.xml")):
        if path.name.endswith(".second.xml"):
            continue
        try:
            cases = list(ElementTree.parse(path).iter("testcase"))
            second = second_run(path)
        except ElementTree.ParseError as error:
            print(f"failed: {path.stem}: {error}")
            counts["failed"] += 1
            continue
        for case in cases:
            what, why = outcome(case)
            note = what
            if what == "failed" and second.get((case.get("classname"), case.get("name"))) == "passed":
                what, note = "passed", "passed only at the second run"
            counts[what] += 1
            if what != "skipped" or why.startswith("vm:"):
                ran.add(path.stem.split(".")[0])
            if note != "passed":
                name = case.get("name", "")
                where = case.get("classname") or ""
                print(f"{note}: {path.stem}: {where + '.' if where and where != name else ''}{name}: {why}")
    for kind in kinds:
        if kind not in ran:
            print(f"failed: {kind}: no test ran")
            counts["failed"] += 1
    print(", ".join(f"{counts[what]} {what}" for what in ("passed", "failed", "skipped")))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    if sys.argv[1] == "--failed":
        print(failed(Path(sys.argv[2])))
        sys.exit(0)
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
