# SPDX-License-Identifier: Apache-2.0
"""Passwords and signatures of URLs are in no document, line or file that the program makes; and what a reader without root sees."""

import json
import subprocess
from pathlib import Path

import pytest
from conftest import BIN, environment, without
from incidentlab import full_inotify

SECRET = "s3cret-Pa55"
LONG = "m" * 40
QUIET = "profile: minimal\nneighbor: {mode: observe}\nthp: {mode: observe}\n"


@pytest.mark.parametrize(
    "fault",
    [
        f'runtime: {{mirrors: [{{registry: docker.io, url: "https://bob:{SECRET}@mirror.example/ x"}}]}}',
        f'runtime: {{mirrors: [{{registry: docker.io, url: "ftp://{LONG}:{SECRET}@mirror.example/v2"}}]}}',
        f'http: {{listen: "https://bob:{SECRET}@127.0.0.1:1"}}',
        f'profile: "https://mirror.example/x?signature={SECRET}"',
        f'images: {{pull: ["https://{LONG}:{SECRET}@registry.example/a b"]}}',
        f'runtime: {{mirrors: [{{registry: ghcr.io, url: "bob:{SECRET}@mirror.example"}}]}}',
        f'runtime: {{mirrors: [{{registry: ghcr.io, url: "https://bob:p/{SECRET}@mirror.example"}}]}}',
        f'runtime: {{mirrors: [{{registry: ghcr.io, url: "https://mirror.example/#token={SECRET}"}}]}}',
    ],
)
def test_a_fault_that_quotes_a_url_does_not_show_its_password(agent, run, directory: Path, fault: str) -> None:
    one = agent(QUIET)
    text = fault if fault.startswith("http") else f'http: {{listen: "127.0.0.1:{one.port}"}}\n' + fault
    one.config_path.write_text(text + "\n")
    one.reload()
    one.wait_condition("ConfigInvalid")
    shown = [one.get(path, unix=unix)[1] for unix in (True, False) for path in ("/health", "/v1/status", "/metrics", "/readyz?verbose", "/")]
    shown += [one.log]
    for command in (["status"], ["doctor"], ["doctor", "--json"], ["check-config", str(one.config_path)], ["plan", "--config", str(one.config_path)]):
        answer = run(*command)
        shown += [answer.stdout, answer.stderr]
    assert any("agent.yaml:" in text for text in shown), "the fault is shown"
    if "mirrors" in fault:
        assert "must come without user, password, query and fragment" in one.log, "what is shown lacks the cause"
    assert not [text for text in shown if SECRET in text or SECRET[:6] in text]
    bundle = directory / "bundle.tar"
    run("doctor", "--bundle", str(bundle))
    assert SECRET.encode() not in bundle.read_bytes()
    assert not [path for path in (directory / "run").rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


def test_incidents_without_root_are_those_of_tcp(agent, directory: Path) -> None:
    def incidents(*args: str) -> "subprocess.CompletedProcess[str]":
        user = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *without("all"))
        return subprocess.run([*user, str(BIN), "incidents", "--config", str(one.config_path), *args], env=environment(directory), capture_output=True, text=True)  # fmt: skip

    with full_inotify():
        one = agent(QUIET)
        one.wait_incident("inotify/instances@uid:64123")
        answer = incidents("--json")
        assert answer.returncode == 0, answer.stderr
        listed, tcp = json.loads(answer.stdout)["incidents"], json.loads(one.get("/v1/incidents", unix=False)[1])["incidents"]
        assert [i["id"] for i in listed] == [i["id"] for i in tcp] != []
        name = next(i["id"] for i in listed if "inotify" in i["id"])
        shown = incidents(name)
        assert shown.returncode == 0 and "uid 64123" in shown.stdout, shown
        one.stop()
        refused = incidents()
        assert refused.returncode == 1 and "no agent answers" in refused.stderr
