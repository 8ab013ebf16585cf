# SPDX-License-Identifier: Apache-2.0
"""Each JSON document has a schema that the package installs, and has exactly its members."""

import copy
import json
import re
from pathlib import Path
from typing import Any, Iterator

import pytest
from conftest import Run, Start, free_port, until
from documents import SCHEMA, faults

# The schema of each command with --json, and of each path.
COMMANDS = {
    "status": "status", "plan": "plan", "restore --plan": "plan", "images": "images", "doctor": "doctor", "incidents": "incidents",
    "incidents ID": "incident", "config": "config", "version": "version", "fleet": "fleet",
}  # fmt: skip
PATHS = {"/v1/status": "status", "/v1/incidents": "incidents", "/v1/incidents/ID": "incident", "/health": "health"}
CONFIG = """mode: observe
images: {pull: [registry.invalid/app:1, registry.invalid/app:2], wave: {start: 2020-01-01T00:00:00Z}}
runtime: {mirrors: [{registry: docker.io, url: "http://127.0.0.1:PORT"}]}
doctor: {ignore: [ports]}
neighbor: {stale: refresh}
sysctl: {vm.max_map_count: 99999999}
"""
pytestmark = pytest.mark.apart


OFF = "mode: observe\n" + "".join(f"{tuner}: {{mode: off}}\n" for tuner in "neighbor thp dns runtime images sysctl kubelet storage limits".split())


def test_each_document_has_the_members_of_its_schema(agent: Start, run: Run) -> None:
    one = agent(CONFIG.replace("PORT", str(free_port())))
    one.write_config("mode: observe\nnode_nam: x\n")  # a finding
    one.wait_condition("ConfigInvalid")
    incident = until(lambda: json.loads(run("incidents", "--json").stdout)["incidents"], "an incident")[0]["id"]
    found: list[str] = []
    for command, kind in COMMANDS.items():
        if command != "fleet":
            words = command.replace("ID", incident).split()
            found += faults(kind, json.loads(run(*words, "--json").stdout))
    for path, kind in PATHS.items():
        for unix in (True, False):
            found += faults(kind, json.loads(one.get(path.replace("ID", incident), unix=unix)[1]))
    one.stop()
    for command in ("status", "version"):  # without an agent
        found += faults(COMMANDS[command], json.loads(run(command, "--json").stdout))
    assert found == []


def test_a_document_of_tuners_that_are_off_has_all_members(agent: Start) -> None:
    assert faults("status", agent(OFF).status()) == []


def test_each_command_with_json_has_a_schema_and_each_schema_a_document(run: Run) -> None:
    commands = re.findall(r"^  (\S+)", run("--help").stdout, re.M)
    with_json = {command for command in commands if "--json" in run(command, "--help").stdout.split("\n\n")[0]}
    assert with_json == {command.split()[0] for command in COMMANDS}
    assert {*COMMANDS.values(), *PATHS.values(), "common"} == set(SCHEMA)
    for kind in {*COMMANDS.values()}:
        named = [command for command, other in COMMANDS.items() if other == kind]
        assert all(f"headroom {command} --json" in SCHEMA[kind]["title"] for command in named), kind


def without_one_member(document: Any) -> Iterator[tuple[str, Any]]:
    """The document again and again, each time without one of its members, or with one more."""

    def places(value: Any) -> Iterator[dict[str, Any]]:
        if isinstance(value, dict):
            yield value
        for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            yield from places(inner)

    whole = copy.deepcopy(document)
    for place in places(whole):
        for name in list(place):
            kept = place.pop(name)
            yield f"without {name}", whole
            place[name] = kept
        place["another"] = []
        yield f"another member beside {', '.join(place)}", whole
        del place["another"]


def test_a_schema_refuses_a_missing_and_an_unknown_member(run: Run, agent: Start) -> None:
    agent("mode: observe\n")
    for kind in ("version", "images"):
        document = json.loads(run(kind, "--json").stdout)
        assert faults(kind, document) == []
        assert [what for what, changed in without_one_member(document) if not faults(kind, changed)] == []


def test_the_manual_lists_the_schemas() -> None:
    manual = (Path(__file__).parents[2] / "packaging/headroom-metrics.7.in").read_text()
    assert set(re.findall(r"^\\fI(\w+)\.json\\fR$", manual, re.M)) == set(SCHEMA) - {"common"}
