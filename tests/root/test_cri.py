# SPDX-License-Identifier: Apache-2.0
"""CRI and containerd's services by our client against real containerds.

containerd 1.6 is Debian's, 2.x is built by tests/tool/containerd2. Each has directories of its own.
"""

import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import criwire
import pytest
from conftest import BIN, ROOT, until
from registrylab import static_program

pytestmark = pytest.mark.quick

CLIENT = BIN.parents[1] / "tests/tool/runtime_client"
CONFIG = {
    "1.6": """version = 2
[plugins."io.containerd.grpc.v1.cri"]
  max_concurrent_downloads = 7
  sandbox_image = "test.invalid/sandbox:1"
  disable_tcp_service = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "/nowhere/certs.d"
""",
    "2.": """version = 3
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "test.invalid/sandbox:1"
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
""",
}


class Containerd:
    def __init__(self, program: Path, generation: str, directory: Path) -> None:
        self.program, self.generation = program, generation
        self.directory = directory
        self.socket = directory / "c.sock"
        self.config = directory / "config.toml"
        self.config.write_text(CONFIG[generation])
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, ready: str = "version") -> None:
        env = {**os.environ, "PATH": f"{self.program.parent}:{os.environ['PATH']}:/usr/sbin:/sbin"}
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [self.program, "-c", self.config, "-a", self.socket]
                + ["--root", self.directory / "root", "--state", self.directory / "state"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=env,
            )
        until(lambda: self.ask(ready)["status"] == "OK", 30, f"containerd answers, see {self.directory}/log")

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self.process:
            self.process.send_signal(number)
            self.process.wait(20)
        self.process = None

    def ask(self, *command: str | Path | int) -> dict[str, Any]:
        answer = subprocess.run([CLIENT, self.socket, *map(str, command)], capture_output=True, text=True, timeout=90)
        assert answer.returncode == 0, f"{command}: {answer.returncode} {answer.stderr}"
        parsed = json.loads(answer.stdout)
        assert isinstance(parsed, dict)
        return parsed

    def well(self, *command: str | Path | int) -> dict[str, Any]:
        answer = self.ask(*command)
        assert answer["status"] == "OK", f"{command}: {answer}"
        return answer

    def ctr(self, *args: str | Path) -> str:
        return subprocess.run(
            [self.program.parent / "ctr", "-a", self.socket, "-n", "k8s.io", *args],
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        ).stdout


def write_archive(path: Path, names: list[str], program: bytes = b"") -> None:
    """Images in docker-save's form: one common layer with /program, a configuration each."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        entry = tarfile.TarInfo("program")
        entry.size = len(program)
        entry.mode = 0o755
        tar.addfile(entry, io.BytesIO(program))
    diff = hashlib.sha256(layer.getvalue()).hexdigest()
    files = {"layer.tar": layer.getvalue()}
    manifest = []
    for name in names:
        config = {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Labels": {"name": name}, "Entrypoint": ["/program"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{diff}"]},
        }
        text = json.dumps(config).encode()
        file = hashlib.sha256(text).hexdigest() + ".json"
        files[file] = text
        manifest.append({"Config": file, "RepoTags": [f"{name}:1"], "Layers": ["layer.tar"]})
    files["manifest.json"] = json.dumps(manifest).encode()
    with tarfile.open(path, "w") as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))


def program_of(generation: str) -> Path:
    if generation.startswith("1."):
        found = shutil.which("containerd")
        if not found:
            pytest.skip("Debian's containerd is not installed")
        return Path(found)
    answer = subprocess.run([ROOT / "tests/tool/containerd2"], capture_output=True, text=True, timeout=1200)
    if answer.returncode == 77:
        pytest.skip(f"containerd2: {answer.stderr.strip()}")
    assert answer.returncode == 0, answer.stderr
    return Path(answer.stdout.strip()) / "containerd"


@pytest.fixture(params=sorted(CONFIG))
def containerd(request: pytest.FixtureRequest, directory: Path) -> Iterator[Containerd]:
    daemon = Containerd(program_of(request.param), request.param, directory)
    try:
        daemon.start()
        yield daemon
    finally:
        daemon.stop(signal.SIGKILL)


def test_version_and_status(containerd: Containerd) -> None:
    version = containerd.well("version")
    assert version["runtime"] == "containerd"
    assert version["version"].lstrip("v").startswith(containerd.generation)
    assert version["api_version"] == "v1"
    assert version["peer"] == containerd.process.pid
    assert containerd.well("ctd-version")["version"] == version["version"]
    status = containerd.well("status")
    if containerd.generation == "1.6":
        assert status["max_concurrent_downloads"] == 7
        assert status["registry_config_path"] == "/nowhere/certs.d"
    else:
        assert status["max_concurrent_downloads"] == -1, "2.x does not show it"
        assert "registry_config_path" not in status
    filesystems = containerd.well("filesystems")["filesystems"]
    assert [Path(f["mountpoint"]).parent for f in filesystems] == [containerd.directory / "root"]


def test_status_shows_the_running_value_not_the_files(containerd: Containerd) -> None:
    if containerd.generation != "1.6":
        assert containerd.well("status")["max_concurrent_downloads"] == -1
        return
    text = containerd.config.read_text()
    containerd.config.write_text(text.replace("downloads = 7", "downloads = 10"))
    assert containerd.well("status")["max_concurrent_downloads"] == 7
    containerd.stop()
    assert containerd.ask("status")["status"] == "UNAVAILABLE"
    containerd.start()
    assert containerd.well("status")["max_concurrent_downloads"] == 10


def test_content_being_fetched_is_listed(containerd: Containerd) -> None:
    assert containerd.well("ctd-ingests", "k8s.io")["ingests"] == []
    before = time.time()
    feeder = subprocess.Popen(
        [containerd.program.parent / "ctr", "-a", containerd.socket, "-n", "k8s.io", "content", "ingest"]
        + ["--expected-size", "10000000", "layer-test"],
        stdin=subprocess.PIPE,
    )
    try:
        feeder.stdin.write(b"x" * 3_000_000)
        feeder.stdin.flush()
        (ingest,) = until(
            lambda: (i := containerd.well("ctd-ingests", "k8s.io")["ingests"]) and i[0]["offset"] > 0 and i, 10, "bytes"
        )
    finally:
        feeder.kill()
        feeder.wait()
        feeder.stdin.close()
    assert ingest["ref"] == "layer-test"
    assert 0 < ingest["offset"] <= 3_000_000
    assert before - 1 < ingest["started_us"] / 1e6 <= ingest["updated_us"] / 1e6 + 0.001 < time.time() + 1


def test_pods_and_containers(containerd: Containerd, tmp_path: Path) -> None:
    assert containerd.well("sandboxes")["sandboxes"] == []
    assert containerd.well("containers")["containers"] == []
    assert containerd.ask("sandbox", "none")["status"] == "NOT_FOUND"
    source = "#include <signal.h>\n#include <unistd.h>\nint main(void){signal(SIGTERM,_exit);for(;;)pause();}"
    program = static_program(tmp_path, "sleeper", source)
    write_archive(tmp_path / "sandbox.tar", ["test.invalid/sandbox"], program)
    containerd.ctr("images", "import", tmp_path / "sandbox.tar")
    image = criwire.pull_request("test.invalid/sandbox:1")
    until(lambda: criwire.call(containerd.socket, f"{criwire.IMAGES}/ImageStatus", image), 10, "the sandbox's image")

    uid = "0b1c2d3e-0000-4000-8000-000000000004"
    sandbox = criwire.run_pod(containerd.socket, "web-1", "shop", uid)
    try:
        (pod,) = containerd.well("sandboxes")["sandboxes"]
        assert pod == {"id": sandbox, "name": "web-1", "namespace": "shop", "uid": uid, "ready": True}
        answer = containerd.well("sandbox", sandbox)
        assert answer["sandbox"] == pod and answer["host_network"] and answer["ips"] == []
        assert containerd.well("containers")["containers"] == []
        criwire.call(containerd.socket, f"{criwire.RUNTIME}/StopPodSandbox", criwire.message(f1=sandbox))
        assert not containerd.well("sandbox", sandbox)["sandbox"]["ready"]
    finally:
        criwire.remove_pod(containerd.socket, sandbox)


def test_disabled_cri_plugin_leaves_containerds_own_services(directory: Path) -> None:
    daemon = Containerd(program_of("1.6"), "1.6", directory)
    daemon.config.write_text('version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n')
    try:
        daemon.start("ctd-version")
        assert daemon.ask("version")["status"] == "UNIMPLEMENTED"
        assert daemon.well("ctd-version")["version"].startswith("1.6")
    finally:
        daemon.stop(signal.SIGKILL)


def test_stopped_process_ends_in_the_deadline(containerd: Containerd) -> None:
    """A runtime that hangs: an answer of our own in time, and it works again at once afterwards."""
    containerd.process.send_signal(signal.SIGSTOP)
    stat = Path(f"/proc/{containerd.process.pid}/stat")
    try:
        until(lambda: stat.read_text().rsplit(")", 1)[1].split()[0] == "T", 5, "stopped")
        answer = containerd.ask("version")
    finally:
        containerd.process.send_signal(signal.SIGCONT)
    assert answer["status"] == "DEADLINE_EXCEEDED" and answer["local"]
    containerd.well("version")
