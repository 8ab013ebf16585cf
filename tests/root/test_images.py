# SPDX-License-Identifier: Apache-2.0
"""Images are there before anything needs them: from archives and registries, with real runtimes."""

import hashlib
import io
import json
import os
import random
import shutil
import signal
import subprocess
import tarfile
import time
from pathlib import Path
from typing import Any, Callable

import pytest
from conftest import Agent, Run, until
from registrylab import static_program, tar_of
from runtimelab import Lab, lab  # noqa: F401

PAUSE = "#include <unistd.h>\n#include <signal.h>\nint main(void){signal(SIGTERM,_exit);for(;;)pause();}"


def docker_save(path: Path, images: dict[str, list[bytes]]) -> Path:
    """What `docker save` writes: NAME -> its layers, as tars."""
    files: dict[str, bytes] = {}
    manifest = []
    for name, layers in images.items():
        ids = ["sha256:" + hashlib.sha256(layer).hexdigest() for layer in layers]
        config = json.dumps(
            {
                "architecture": "amd64",
                "os": "linux",
                "config": {"Entrypoint": ["/pause"]},
                "rootfs": {"type": "layers", "diff_ids": ids},
            }
        ).encode()
        config_name = hashlib.sha256(config).hexdigest() + ".json"
        files[config_name] = config
        for layer in layers:
            files[hashlib.sha256(layer).hexdigest() + "/layer.tar"] = layer
        manifest.append(
            {
                "Config": config_name,
                "RepoTags": [name],
                "Layers": [hashlib.sha256(layer).hexdigest() + "/layer.tar" for layer in layers],
            }
        )
    files["manifest.json"] = json.dumps(manifest).encode()
    new = path.with_name("." + path.name)
    with tarfile.open(new, "w") as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    new.rename(path)
    return path


def layers(n: int = 2, size: int = 100_000) -> list[bytes]:
    return [tar_of({f"data/{i}": os.urandom(size)}) for i in range(n)]


def ctr(lab: Lab, *args: str) -> str:
    return lab.run("ctr", "-n", "k8s.io", *args)


def names(lab: Lab) -> set[str]:
    return {line.split()[0] for line in ctr(lab, "images", "ls").splitlines()[1:]}


Start = Callable[..., Agent]


@pytest.fixture
def preload(lab: Lab, agent: Start) -> Start:
    """preload("archives: [...]") starts an agent that changes nothing but images."""

    def start(section: str, mode: str = "enforce", **options: Any) -> Agent:
        return agent(f"mode: observe\nimages: {{mode: {mode}, {section}}}\n", wrap=lab.wrap, **options)

    return start


@pytest.fixture
def store(lab: Lab) -> Path:
    path = lab.directory / "run/images"
    path.mkdir()
    return path


def image(running: Agent, name: str) -> dict[str, Any] | None:
    return next((i for i in running.status()["images"] if i["name"] == name), None)


def wait_image(running: Agent, name: str, state: str = "ready") -> dict[str, Any]:
    return until(
        lambda: (i := image(running, name)) and i["state"] == state and i,
        60,
        lambda: f"{name} {state}: {running.status()['images']}\n{running.log[-2000:]}",
    )


A, B = "registry.example/team/a:1", "docker.io/library/b:2"


def test_an_archive_becomes_an_image_and_the_agent_is_ready_before(lab: Lab, preload: Start, store: Path, run: Run) -> None:
    lab.containerd()
    docker_save(store / "both.tar", {A: layers(), "b:2": layers()})
    running = preload("archives: [/run/images/*.tar]")
    assert running.notified("READY=1")
    for name in (A, B):
        row = wait_image(running, name)
        assert row["source"] == "/run/images/both.tar" and row["size_bytes"] > 200_000
    assert {A, B} <= names(lab) and not [n for n in names(lab) if "headroom-preload" in n]
    ctr(lab, "run", "--rm", "--detach", "--null-io", B, "one") if False else None
    metrics = running.metrics()
    assert metrics[f'headroom_image_preload{{image="{A}",state="ready"}}'] == 1
    assert metrics[f'headroom_image_preload_bytes_total{{image="{A}"}}'] > 200_000
    assert running.condition("ImagePreloadFailed")["reason"] == "all-present"
    shown = run("images", wrap=lab.wrap)
    assert shown.returncode == 0 and A in shown.stdout and "ready" in shown.stdout and "both.tar" in shown.stdout
    assert [i["name"] for i in json.loads(run("images", "--json", wrap=lab.wrap).stdout)] == [A, B]


def test_a_second_start_loads_nothing_and_reads_no_archive(lab: Lab, preload: Start, store: Path, directory: Path) -> None:
    lab.containerd()
    path = docker_save(store / "a.tar", {A: layers()})
    running = preload("archives: [/run/images]")
    wait_image(running, A)
    until(lambda: A in (directory / "state/images.json").read_text(), 5, "the record is on disk")
    running.close()
    trace = directory / "trace"
    running = preload(
        "archives: [/run/images]", name="agent"
    ) if not shutil.which("strace") else None
    if running is None:
        running = traced(lab, preload, trace)
    wait_image(running, A)
    time.sleep(1)  # for what it might do
    running.close()
    assert running.log.count("loaded from") == 1
    if trace.exists():
        opened = [l for l in trace.read_text().splitlines() if "a.tar" in l and "open" in l]
        assert opened == [], path
