# SPDX-License-Identifier: Apache-2.0
"""A finding has the same instance, users and cure in each view."""

import html
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import Run, Start, until
from test_limits import Pod, counted, fixture_pod  # noqa: F401


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


# ESC, BEL, a control character of C1, a right-to-left override, a byte that is not UTF-8
EVIL = b"evil-\x1b[2J\x07\xc2\x9b\xe2\x80\xae\xff-name.service"


@pytest.mark.quick
def test_a_name_from_the_kernel_controls_no_reader(agent: Start, run: Run, pod: Pod) -> None:  # noqa: F811
    one = counted(agent("mode: observe\nlog: json\n"))
    group = pod.pids.parent.parent / os.fsdecode(EVIL) if pod.pids.parent.name == "kubepods" else pod.pids.parents[3] / os.fsdecode(EVIL)
    group.mkdir()
    (group / "pids.max").write_text("40")
    fork = "import os, time\nfor _ in range(60):\n try:\n  if os.fork() == 0:\n   time.sleep(1000)\n except OSError:\n  pass\nprint('ready', flush=True)\ntime.sleep(1000)\n"
    program = subprocess.Popen(
        [sys.executable, "-c", fork], stdout=subprocess.PIPE, preexec_fn=lambda: (group / "cgroup.procs").write_text("0"), start_new_session=True
    )
    try:
        assert program.stdout and program.stdout.readline() == b"ready\n"
        until(lambda: "-name" in json.dumps([f for f in one.status()["findings"] if f["slug"] == "pids/cgroup" and f["who"]]), "the cgroup is named")
        answers = {path: one.get(path)[1] for path in ("/metrics", "/", "/?paused", "/v1/status", "/health", "/readyz?verbose")}
        answers |= {view: run(*view.split()).stdout for view in ("top", "status", "doctor", "status --json", "doctor --json")}
        answers["log"] = one.log
    finally:
        for pid in (group / "cgroup.procs").read_text().split():
            os.kill(int(pid), 9)
        program.communicate()
        until(lambda: not Path(group / "cgroup.procs").read_text(), "its processes have ended")
        group.rmdir()
    for name, text in answers.items():
        assert "-name" in text or name == "/readyz?verbose", (name, text)
        if text.startswith("{"):  # what a reader of JSON gets, too
            documents = [json.loads(line) for line in text.splitlines()] if name == "log" else json.loads(text)
            text += json.dumps(documents, ensure_ascii=False)
            assert "\\u00" not in text, (name, text)
        bad = re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\udc80-\udcff]", text)
        assert not bad, (name, bad, text)
