# SPDX-License-Identifier: Apache-2.0
"""A finding has the same instance, users and cure in each view."""

import html
import json
import re
from typing import Any

import pytest
from conftest import Run, Start, until
from test_limits import Pod, fixture_pod  # noqa: F401


def text_of(page: str) -> str:
    """What a reader of the page sees."""
    return html.unescape(re.sub("<[^>]*>", " ", page.split("<main")[1]))


def parts(finding: dict[str, Any]) -> list[str]:
    users = [user["text"] for user in finding["who"]]
    lines = finding["keep"].splitlines()
    return [finding["slug"], finding["instance"]["text"], *users, finding["now"], *lines, finding["keep_in"], finding["hint"]]


def same(finding: dict[str, Any]) -> dict[str, Any]:
    members = ("slug", "instance", "who", "who_known", "breaks", "now", "now_kind", "keep", "keep_in", "hint", "ignored", "condition", "reason")
    return {member: finding[member] for member in members}


@pytest.mark.quick
def test_a_full_cgroup_and_a_faulty_configuration_are_the_same_in_each_view(agent: Start, run: Run, pod: Pod) -> None:  # noqa: F811
    one = agent("mode: observe")
    until(lambda: any(limit["name"] == "mounts" for limit in one.status()["limits"]), "the first census", 0.2)
    (pod.pids / "pids.max").write_text("47")
    pod.run("for _ in range(90):\n try:\n  if os.fork() == 0:\n   time.sleep(1000)\n except OSError:\n  failed = True\nassert failed")
    until(lambda: pod.uid in json.dumps([f["who"] for f in one.status()["findings"]]), "the pod is named")
    one.write_config("mode: observe\nnode_nam: x\n")
    one.wait_condition("ConfigInvalid")
    findings = one.status()["findings"]
    assert {"pids/cgroup", "config-fault"} <= {finding["slug"] for finding in findings}
    health = json.loads(one.get("/health")[1])["findings"]
    doctor = json.loads(run("doctor", "--json").stdout)["checks"]
    views = {view: run(view).stdout for view in ("status", "doctor", "top")}
    page = " ".join(text_of(one.get("/?paused")[1]).split())
    for finding in findings:
        for document in (health, doctor):
            assert same(finding) in [same(other) for other in document if other.get("id") == finding["id"]], finding
        for part in parts(finding):
            assert " ".join(part.split()) in page, (part, page)
            assert part in views["status"], (part, views)
            assert part in views["doctor"] or finding["severity"] == "advice", (part, views)
        for name in ("slug", "id", "reason", "condition"):
            explained = run("explain", finding[name]).stdout
            assert all(part in explained for part in parts(finding)), (name, explained)
        row = next(line for line in views["top"].splitlines() if line.split()[:2] == [finding["severity"], finding["slug"]])
        assert not finding["who"] or finding["who"][0]["workload"]["text"] in row, (finding, row)
