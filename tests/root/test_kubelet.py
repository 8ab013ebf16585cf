# SPDX-License-Identifier: Apache-2.0
"""The kubelet's configuration: advice, and the drop-in file of kubelet.manage."""

import json
import subprocess
import time
from pathlib import Path
from typing import Iterator

import pytest
from conftest import Run, Start, until
from test_field import FIELD, ROWS

LIBRARY = Path("/var/lib/kubelet")  # the agent looks for a kubelet if this exists
SETTING = "kubelet.serializeImagePulls"
CONDITION = "KubeletSerialPulls"
MANAGE = "mode: observe\nkubelet: {mode: enforce, manage: true}\n"


class Kubelet:
    """A process with the name and the command line of a kubelet."""

    def __init__(self, directory: Path) -> None:
        self.program = directory / "kubelet"
        self.program.write_text("#!/bin/sh\nread line\n")
        self.program.chmod(0o755)
        self.config = directory / "config.yaml"
        self.drop_ins = directory / "kubelet.conf.d"
        self.drop_ins.mkdir()
        self.own = self.drop_ins / "99-headroom.conf"
        self.config.write_text("kind: KubeletConfiguration\nregistryBurst: 20\n")
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, drop_ins: bool = False) -> None:
        self.stop()
        time.sleep(0.05)  # the start of a process is known to 10 ms: it must come after the last change of a file
        command = [str(self.program), f"--config={self.config}", *([f"--config-dir={self.drop_ins}"] if drop_ins else [])]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE)
        comm = Path(f"/proc/{self.process.pid}/comm")
        until(lambda: comm.read_text() == "kubelet\n", "the fake kubelet runs")

    def stop(self) -> None:
        if self.process:
            self.process.communicate(b"\n", timeout=10)
            self.process = None


@pytest.fixture
def kubelet(directory: Path) -> Iterator[Kubelet]:
    made = not LIBRARY.exists()
    LIBRARY.mkdir(exist_ok=True)
    made_up = Kubelet(directory)
    yield made_up
    made_up.stop()
    if made:
        LIBRARY.rmdir()


@pytest.mark.slow
def test_serial_pulls_are_reported(kubelet: Kubelet, agent: Start, run: Run) -> None:
    kubelet.start()
    running = agent("mode: observe\n")
    condition = running.wait_condition(CONDITION)
    assert condition["reason"] == "serial-pulls"
    assert str(kubelet.config) in condition["message"]
    assert running.setting(SETTING)["state"] == "observed"
    document = running.status()["kubelet"]
    assert document["values"]["registryBurst"] == {"value": "20", "from": f"{kubelet.config}:2"}
    assert document["advice"]
    problems = [c for c in running.status()["conditions"] if c["status"] == "True" and c["severity"] != "advice"]
    assert run("status").returncode == (2 if problems else 0), "advice alone is no problem"
    assert running.metrics()['headroom_condition{condition="KubeletSerialPulls"}'] == 1

    # The next tick reads the change. An error is the node's, and has its position.
    kubelet.config.write_text("serializeImagePulls: maybe\n")
    finding = running.wait_finding("kubelet-config-unreadable")
    assert (finding["severity"], finding["instance"]["name"]) == ("critical", str(kubelet.config))
    assert finding["message"].startswith("1:22")
    running.wait_condition(CONDITION, "Unknown")
    assert running.tuner("kubelet")["state"] == "active"
    kubelet.config.write_text("serializeImagePulls: false\n")
    running.wait_condition("RuntimeWouldNotStart", "False")
    assert running.wait_finding("serial-pulls")["now"] == "systemctl restart kubelet", "the running one has not read it"
    kubelet.start()
    running.wait_condition(CONDITION, "False")


def edit(printed: str) -> None:
    """Does what "FILE[:LINE]: write TEXT" says."""
    where, text = printed.split(": write ")
    path, _, line = where.partition(":")
    lines = Path(path).read_text().splitlines()
    number = int(line or len(lines) + 1)
    lines[number - 1 : number] = [text]
    Path(path).write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("text", ["registryBurst: 20\n", "registryBurst: 20\nserializeImagePulls: true\n"], ids=["default", "true"])
@pytest.mark.slow
def test_the_printed_edit_cures_serial_pulls(kubelet: Kubelet, agent: Start, text: str) -> None:
    kubelet.config.write_text(text)
    kubelet.start()
    running = agent("mode: observe\n")
    edit(running.wait_finding("serial-pulls")["now"])
    until(lambda: running.wait_finding("serial-pulls")["now"] == "systemctl restart kubelet", lambda: running.log)
    kubelet.start()
    running.wait_no_finding("serial-pulls")
    running.wait_condition(CONDITION, "False")


def test_the_printed_edit_cures_few_parallel_pulls(kubelet: Kubelet, agent: Start) -> None:
    kubelet.config.write_text("serializeImagePulls: false\nmaxParallelImagePulls: 1\n")
    kubelet.start()
    running = agent("mode: observe\n")
    edit(running.wait_finding("few-parallel-pulls")["now"])
    kubelet.start()
    running.wait_no_finding("few-parallel-pulls")
    running.wait_condition(CONDITION, "False")


def test_the_drop_in_is_written_and_restore_removes_it(kubelet: Kubelet, agent: Start, run: Run) -> None:
    kubelet.start(drop_ins=True)
    before = kubelet.config.read_bytes()
    running = agent(MANAGE)
    until(kubelet.own.exists, f"{kubelet.own}\n{running.log}")
    assert "serializeImagePulls: false" in kubelet.own.read_text()
    setting = until(
        lambda: (s := running.setting(SETTING))["reason"] == "restart-pending" and s, "waits for a restart"
    )
    assert setting["state"] == "pending"
    assert running.wait_finding("serial-pulls")["now"] == "systemctl restart kubelet"
    running.stop()

    # A restarted kubelet pulls in parallel.
    kubelet.start(drop_ins=True)
    running = agent(MANAGE)
    running.wait_state(SETTING, "in-sync")
    running.wait_condition(CONDITION, "False")

    assert run("restore").returncode == 0
    assert list(kubelet.drop_ins.iterdir()) == []
    assert kubelet.config.read_bytes() == before


def test_a_drop_in_of_others_with_our_name_stays(kubelet: Kubelet, agent: Start, run: Run) -> None:
    text = "kind: KubeletConfiguration\nserializeImagePulls: true\nmaxPods: 40\n"
    kubelet.own.write_text(text)
    kubelet.start(drop_ins=True)
    running = agent(MANAGE)
    running.wait_state(SETTING, "failed")
    assert "99-headroom.conf is not ours" in running.wait_finding(SETTING)["message"]
    assert run("restore").returncode == 0
    assert kubelet.own.read_text() == text


def test_nothing_is_written_without_a_drop_in_directory(kubelet: Kubelet, agent: Start) -> None:
    kubelet.start()
    running = agent(MANAGE)
    running.wait_condition(CONDITION)
    running.wait_state(SETTING, "failed")
    assert "--config-dir" in running.wait_finding(SETTING)["message"], "kubelet.manage asks for it"
    assert running.tuner("kubelet")["state"] == "active"
    assert list(kubelet.drop_ins.iterdir()) == []


def test_plan_shows_the_drop_in_without_writing_it(kubelet: Kubelet, directory: Path, run: Run) -> None:
    kubelet.start(drop_ins=True)
    config = directory / "plan.yaml"
    config.write_text(MANAGE)
    planned = run("plan", "--json", "--config", str(config))
    assert planned.returncode == 2, planned.stderr
    changes = {change["name"]: change for change in json.loads(planned.stdout)["changes"]}
    assert changes[SETTING]["new"] == "false"
    assert list(kubelet.drop_ins.iterdir()) == []


@pytest.mark.parametrize("name, verdict", [(row[0], row[2]) for row in ROWS if row[1] == "kubelet"])
def test_a_file_of_another_tool_gets_its_verdict(kubelet: Kubelet, run: Run, name: str, verdict: str) -> None:
    kubelet.config.write_bytes((FIELD / "inputs" / name).read_bytes())
    kubelet.start()
    status = json.loads(run("status", "--json").stdout)
    serial = next(c for c in status["conditions"] if c["type"] == CONDITION)
    bad = [f["message"] for f in status["findings"] if f["condition"] == "RuntimeWouldNotStart"]
    start = next(c for c in status["conditions"] if c["type"] == "RuntimeWouldNotStart")
    assert start["status"] == {"broken": "True", "unverified": "Unknown"}.get(verdict.split()[0], "False"), start
    if verdict.startswith("unverified "):
        assert verdict.removeprefix("unverified ") in start["message"] and not bad, start
    elif verdict.startswith("broken "):
        assert len(bad) == 1 and verdict.removeprefix("broken ") in bad[0], (bad, serial)
    else:
        assert (serial["reason"], bad) == (verdict, []), serial
