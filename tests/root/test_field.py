# SPDX-License-Identifier: Apache-2.0
"""Files in the style of other tools: each has a row in field/rows.txt with the verdict that the agent must give.

A new file takes one line there. One dockerd reads all of them, so that no row may need a runtime that it lacks. The verdicts:
edited         the wanted value is written, nothing else changes for the program, and restore brings back every byte
keeps REASON   the number in the file is a choice, which stays for this reason
left WORDS     the file stays as it is, and the setting says why
broken WORDS   the program would not start with it: RuntimeWouldNotStart names the file, which stays as it is
REASON         of KubeletSerialPulls: how the kubelet pulls (test_kubelet.py)
unverified WORDS  nothing knows whether the kubelet starts with it: RuntimeWouldNotStart is Unknown
NUMBER         the quota of etcd, or unknown
NAME LINE      of a sysctl of which 64 is in force: the line that sets it, or none
fine           CRI-O starts with it (test_crio.py)
written        a mirror of docker.io is written beside it (test_crio.py)
"""

import json
import re
import secrets
import shutil
import subprocess
import tomllib
import urllib.request
from pathlib import Path
from typing import Any, Iterator

import pytest
from conftest import BIN, Node, Run, Start, end, environment, free_port, spawn, sysctl, temporary, until
from runtimelab import CONTAINERD_CONFIG, DOCKER_OPTIONS, Lab, lab  # noqa: F401

FIELD = Path(__file__).with_name("field")
ROWS = [tuple(line.split(None, 2)) for line in (FIELD / "rows.txt").read_text().splitlines() if line and line[0] != "#"]
SECTION = "mode: observe\nhttp: {listen: ''}\nruntime: {mode: enforce, pull_progress_timeout: keep}\n"


def text_of(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.read().decode()
    except OSError:
        return ""


class Field:
    """A node with a running containerd, dockerd and kubelet, whose files are replaced."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.lab = Lab(directory)
        self.config = directory / "headroom.yaml"
        self.config.write_text(SECTION)
        self.files = {"containerd": self.lab.config, "docker": self.lab.daemon_json}
        self.settings = {"containerd": "containerd.max_concurrent_downloads", "docker": "docker.max-concurrent-downloads"}
        self.lab.containerd()
        self.lab.dockerd("--containerd", "/run/containerd/containerd.sock")

    def run(self, *args: str) -> "subprocess.CompletedProcess[str]":
        command = [*self.lab.wrap, str(BIN), *args, "--config", str(self.config)]
        return subprocess.run(command, env=environment(self.directory), capture_output=True, text=True, timeout=60)

    def status(self) -> dict[str, Any]:
        return json.loads(self.run("status", "--json").stdout)

    def takes(self) -> bool:
        """Whether dockerd starts with daemon.json. Its next step fails: the file for its pid cannot be made."""
        options = ("--containerd", "/nowhere", "--exec-root", "/run/tried", "--pidfile", "/dev/null/pid", *DOCKER_OPTIONS)
        return "mkdir /dev/null" in subprocess.run([*self.lab.wrap, "dockerd", *options], capture_output=True, text=True, timeout=60).stderr

    def put(self, kind: str, text: bytes) -> Path:
        file = self.files[kind]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text)
        return file


@pytest.fixture(scope="module")
def field() -> Iterator[Field]:
    with temporary() as directory:
        made = Field(directory)
        yield made
        made.lab.close()


def meaning(kind: str, text: bytes, lab: Lab) -> Any:
    """What the program reads, without the edited key."""
    if kind == "docker":
        return {key: value for key, value in json.loads(text or "{}").items() if key != "max-concurrent-downloads"}
    dump = tomllib.loads(lab.run("containerd", "-c", "/etc/containerd/config.toml", "config", "dump"))
    dump["plugins"]["io.containerd.grpc.v1.cri"].pop("max_concurrent_downloads")
    return dump


RUNTIMES = [row for row in ROWS if row[1] in ("containerd", "docker")]


def test_every_input_has_a_row() -> None:
    assert sorted(row[0] for row in ROWS) == sorted(path.name for path in (FIELD / "inputs").iterdir())


@pytest.mark.parametrize("name, kind, verdict", RUNTIMES, ids=[row[0] for row in RUNTIMES])
def test_a_file_of_another_tool_gets_its_verdict(field: Field, name: str, kind: str, verdict: str) -> None:
    text = (FIELD / "inputs" / name).read_bytes()
    file = field.put(kind, text)
    word, _, rest = verdict.partition(" ")
    status = field.status()
    bad = [f for f in status["findings"] if f["condition"] == "RuntimeWouldNotStart"]
    assert bool(bad) == (word == "broken"), bad
    assert kind != "docker" or field.takes() == (word != "broken"), "dockerd itself"
    setting = next((s for s in status["settings"] if s["name"] == field.settings.get(kind)), {})
    before = meaning(kind, text, field.lab) if word == "edited" else None
    done = field.run("apply")
    said = done.stdout + done.stderr
    try:
        if word == "edited":
            assert setting["wanted"] == "10", setting
            assert file.read_bytes() != text and meaning(kind, file.read_bytes(), field.lab) == before, said
        else:
            assert file.read_bytes() == text, said
        if word == "keeps":
            assert setting["reason"] == rest, setting
        elif word == "left":
            assert rest in said + json.dumps(setting), (said, setting)
        elif word == "broken":
            assert [f["instance"]["name"] for f in bad] == [str(file).removeprefix(str(field.lab.root))] and rest in bad[0]["message"], bad
    finally:
        if file.read_bytes() != text:
            field.run("restore")
    assert file.read_bytes() == text
    field.put("containerd", CONTAINERD_CONFIG.encode())
    field.put("docker", b"{}")


SYSCTLS = [(row[0], *row[2].split()) for row in ROWS if row[1] == "sysctl"]


@pytest.mark.parametrize("name, key, line", SYSCTLS, ids=[row[0] for row in SYSCTLS])
def test_the_line_that_sets_a_value_at_boot_is_named(node: Node, lab: Lab, run: Run, name: str, key: str, line: str) -> None:
    path = f"etc/sysctl.d/{name}"
    lab.write(path, "").write_bytes((FIELD / "inputs" / name).read_bytes())
    before = sysctl(key)
    sysctl(key, 64)
    try:
        status = json.loads(run("status", "--json", wrap=lab.wrap).stdout)
    finally:
        sysctl(key, before)
    setting = next(s for s in status["settings"] if s["name"] == key)
    assert setting["reason"] == "chosen-on-node", setting
    assert setting["why"] == ("" if line == "none" else f"set by /{path}:{line}"), setting


ETCD = [(row[0], row[2]) for row in ROWS if row[1] == "etcd"]


@pytest.mark.slow
@pytest.mark.parametrize("name, quota", ETCD, ids=[row[0] for row in ETCD])
def test_the_quota_of_etcd_is_that_of_its_file(lab: Lab, directory: Path, agent: Start, name: str, quota: str) -> None:
    """etcd's own metric is the judge. URL and DATA of a file are replaced."""
    url, data = f"http://127.0.0.1:{free_port()}", lab.root / "var/tmp" / f"hr-{secrets.token_hex(3)}"
    text = (FIELD / "inputs" / name).read_text().replace("URL", url).replace("DATA", f"/var/tmp/{data.name}")
    lab.write("etc/etcd/etcd.conf", text)
    one = agent("mode: observe\nstorage: {processes: [etcd]}\n", wrap=lab.wrap).wait_ready()
    etcd = spawn([*lab.wrap, "etcd", "--config-file", "/etc/etcd/etcd.conf"], directory / "etcd.log")
    try:
        own = until(lambda: re.search(r"^etcd_server_quota_backend_bytes (\S+)$", text_of(f"{url}/metrics"), re.M), "etcd serves")
        database = until(lambda: next((row for row in one.status()["limits"] if row["name"] == "etcd/db"), None), "its database is a limit")
        assert (str(database["max"]), float(own[1])) == (quota, float(quota)), database
    finally:
        end(etcd)
        shutil.rmtree(data, ignore_errors=True)
