# SPDX-License-Identifier: Apache-2.0
"""Commands read documents of an agent of another version: members are missing, of another type, or have unknown words.

A fake agent serves documents with all members of the schema, of which some are mutated.
"""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conftest import Run
from documents import SCHEMA, example, mutated
from test_screen import Serve, fixture_serve  # noqa: F401

# A document with these values makes readers look at all of its parts.
KNOWN = {"tuner": "sysctl", "slug": "pids", "type": "LimitReached", "condition": "LimitReached", "status": "True", "state": "failed", "unit": "bytes"}
ID = "20260101T000000Z-pids"


def told(value: Any, key: str = "") -> Any:
    """The document with words that the program knows."""
    if isinstance(value, dict):
        return {name: told(member, name) for name, member in value.items()}
    if isinstance(value, list):
        return [told(item, key) for item in value]
    return KNOWN.get(key, value) if value == "text" else value


def status() -> dict[str, Any]:
    one: dict[str, Any] = told(example(SCHEMA["status"], "status"))
    for tuner in one["tuners"]:
        tuner["name"] = "sysctl"
    for limit in one["limits"]:
        limit["name"] = "pids"
    return one


def assert_no_crash(run: Run, document: Any, *command: str) -> None:
    answer = run(*command)
    text = f"headroom {' '.join(command)}: {answer.returncode}\n{answer.stderr}\n{json.dumps(document)}"
    assert answer.returncode in (0, 1, 2), text
    assert "out of memory" not in answer.stderr and "(null)" not in answer.stdout + answer.stderr, text


STATUS = (
    ("status",), ("status", "--json"), ("top",), ("top", "dns"), ("top", "storage"), ("top", "pids"), ("images",), ("images", "--json"),
    ("version",), ("version", "--json"), ("explain", "pids", "LimitReached"), ("plan", "--config", "{faulty}"), ("plan", "--json", "--config", "{faulty}"),
)  # fmt: skip


def test_no_command_crashes_on_a_status_of_another_version(serve: Serve, run: Run, directory: Path) -> None:  # noqa: F811
    faulty = directory / "faulty.yaml"
    faulty.write_text("mode: [\n")
    commands = [[word.format(faulty=faulty) for word in command] for command in STATUS]
    for document in [status(), [], 1, "x", [status()], *mutated(status())]:
        serve(document)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda command: assert_no_crash(run, document, *command), commands))


# The checks of doctor look at the node, and take longer.
@pytest.mark.parametrize("part", range(2))
def test_doctor_does_not_crash_on_a_status_of_another_version(serve: Serve, run: Run, directory: Path, part: int) -> None:  # noqa: F811
    documents = [{}, status(), *mutated({key: status()[key] for key in ("node", "tuners", "conditions", "findings", "limits", "settings")})]
    for document in documents[part::8]:
        serve(document)
        for command in (("doctor",), ("doctor", "--json"), ("doctor", "--bundle", str(directory / "bundle.tar.gz"))):
            assert_no_crash(run, document, *command)


def test_no_incident_of_another_version_crashes_its_view(run: Run, directory: Path) -> None:
    place = directory / "state/incidents"
    place.mkdir(parents=True)
    whole = told(example(SCHEMA["incident"], "incident"))
    whole["incident"]["id"] = ID
    for document in [whole, *mutated({"incident": whole["incident"], "line": whole["lines"][0]})]:
        lines = [document.get("incident"), document.get("line"), document.get("line")]
        (place / f"{ID}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        for command in (("incidents", ID), ("incidents",)):
            assert_no_crash(run, document, *command)


def test_no_list_of_changes_of_another_version_crashes_its_reader(serve: Serve, run: Run, directory: Path) -> None:  # noqa: F811
    quiet = directory / "quiet.yaml"
    quiet.write_text("mode: observe\n")
    for document in [{}, [], *mutated(example(SCHEMA["plan"], "plan"))]:
        serve(document)
        for command in ("apply", "restore"):
            assert_no_crash(run, document, command, "--config", str(quiet))
