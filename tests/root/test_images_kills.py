# SPDX-License-Identifier: Apache-2.0
"""The agent and the runtime are killed at random times while archives are loaded. In the end nothing is left but the images."""

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Callable

import criwire
import pytest
from conftest import Agent, Run, Start, until
from hostile import FORMS
from imagelab import Built, Image, Layout, compress, docker_files, docker_save, tar_of
from runtimelab import Lab, lab  # noqa: F401
from test_images import A, ctr, names, preload, store, wait_image  # noqa: F401
from test_images_archives import assert_forms, left_over, short

HOW = {"plain": "", "gzip": "gzip", "zstd": "zstd"}


def docker_form(how: str, layers: str) -> Callable[[str], bytes]:
    return lambda name: compress(tar_of(docker_files([Built(name)], layers)), how)


def oci_form(how: str, layers: str) -> Callable[[str], bytes]:
    return lambda name: compress(tar_of(Layout().add(Built(name), layers).files()), how)


def pzstd(data: bytes) -> bytes:
    return subprocess.run(["pzstd", "-qc"], input=data, stdout=subprocess.PIPE, check=True).stdout


def index(name: str, nested: bool) -> bytes:
    layout = Layout()
    layout.add_index(Built(name), nested)
    return tar_of(layout.files())


# Archives as tools write them.
REAL: dict[str, Callable[[str], bytes]] = {
    **{f"docker-{how}-{layers}.tar": docker_form(HOW[how], HOW[layers]) for how in HOW for layers in HOW},
    **{f"oci-{how}-{layers}.tar": oci_form(HOW[how], HOW[layers]) for how in HOW for layers in HOW},
    "index.tar": lambda name: index(name, False),
    "index-in-index.tar": lambda name: index(name, True),
    "several.tar": lambda name: tar_of(docker_files([Built(name), Built(f"{name}-more")])),
    "pzstd-4.tar.zst": lambda name: pzstd(tar_of(docker_files([Built(name, size=1_000_000)]))),
}


def surroundings(lab: Lab) -> dict[str, list[str]]:
    """What must not grow: mounts, processes, files beside the images. containerd, killed before a mount, never removes the mount's directory."""
    mounts = (lab.root.parent / "mountinfo").read_text().splitlines()
    docker = lab.directory / "docker"
    return {
        "mounts": sorted(line.split()[4] for line in mounts),
        "certs": sorted(str(path) for path in lab.certs.rglob("*")),
        "temporary": sorted(str(path) for path in [*(lab.directory / "containerd").glob("tmpmounts/*/*"), *docker.glob("tmp/*")]),
        "run": sorted(str(path) for path in (lab.directory / "run").rglob("*") if path.parent.name not in ("images", "libnetwork")),
        "processes": sorted(Path(f"/proc/{pid}/comm").read_text().strip() for pid in lab.leftovers()),
    }


def docker_images(lab: Lab) -> list[dict[str, Any]]:
    code, answer = lab.docker("GET", "/images/json?all=1")
    assert code == 200, answer
    return [{**i, "RepoTags": [tag for tag in i["RepoTags"] or [] if tag != "<none>:<none>"]} for i in json.loads(answer)]


def own_names(lab: Lab) -> list[str]:
    """Names that a load must not leave."""
    if "dockerd" not in lab.daemons:
        return left_over(lab)
    return [name for i in docker_images(lab) for name in [*i["RepoTags"], *(i["RepoDigests"] or [])] if "headroom" in name]


def stored(lab: Lab) -> dict[str, set[str]]:
    """Content and snapshots by containerd's lists, and their files."""
    root = lab.directory / "containerd"
    return {
        "content": set(ctr(lab, "content", "ls", "-q").split()),
        "blobs": {f"sha256:{path.name}" for path in root.glob("io.containerd.content.v1.content/blobs/sha256/*")},
        "ingests": {path.name for path in root.glob("io.containerd.content.v1.content/ingest/*")},
        "snapshots": {line.split()[0] for line in ctr(lab, "snapshots", "ls").splitlines()[1:]},
        "directories": {path.name for path in root.glob("io.containerd.snapshotter.v1.overlayfs/snapshots/*")},
    }


def unwanted(lab: Lab) -> dict[str, set[str]]:
    """What the runtime stores without need, long after the last deletion."""
    time.sleep(2)
    if "dockerd" in lab.daemons:
        images = docker_images(lab)
        blobs = {f"sha256:{path.name}" for path in (lab.directory / "docker/image/overlay2/imagedb/content/sha256").iterdir()}
        left = {"own": set(own_names(lab)), "unnamed": {i["Id"] for i in images if not i["RepoTags"]}, "ids": blobs ^ {i["Id"] for i in images}}
        return {key: value for key, value in left.items() if value}
    found, rows = stored(lab), [line.split() for line in ctr(lab, "images", "ls").splitlines()[1:]]
    named = {row[2] for row in rows if not row[0].startswith("sha256:")}
    ctr(lab, "leases", "create", "--id", "collect")
    ctr(lab, "leases", "rm", "--sync", "collect")  # collects garbage
    needed = stored(lab)
    left = {key: found[key] - needed[key] for key in found}
    left["ids"] = {row[0] for row in rows if row[2] not in named}
    left["own"] = set(left_over(lab))
    left["files"] = needed["blobs"] ^ needed["content"]
    left["ingest"] = needed["ingests"]
    left["directory"] = needed["directories"] if len(needed["directories"]) != len(needed["snapshots"]) else set()
    return {key: value for key, value in left.items() if value}


def is_loading(running: Agent) -> bool:
    with contextlib.suppress(OSError):
        return any(row["state"] == "active" for row in running.status()["images"])
    return False


@pytest.mark.parametrize(
    "kind, forms, agents, daemons",
    [
        ("containerd", 12, 6, 2),
        pytest.param("containerd", 999, 30, 10, marks=pytest.mark.slow),
        pytest.param("docker", 12, 6, 2, marks=pytest.mark.slow),
        pytest.param("docker", 999, 30, 10, marks=pytest.mark.slow),
        pytest.param("containerd2", 999, 30, 10, marks=[pytest.mark.containerd2, pytest.mark.slow]),
    ],
)
def test_nothing_is_left_of_killed_agents_and_runtimes(
    lab: Lab, preload: Start, run: Run, store: Path, directory: Path, kind: str, forms: int, agents: int, daemons: int
) -> None:
    dice = random.Random(seed := int(os.environ.get("KILLS_SEED", random.randrange(1 << 32))))
    print(f"KILLS_SEED={seed}")
    lab.start(kind)
    daemon = lab.daemons["dockerd" if kind == "docker" else "containerd"]
    before = surroundings(lab)
    expected: dict[str, str | None] = {}
    zstd = None if kind == "docker" else ""  # Docker 20.10 does not unpack such layers
    for table in ({form: (zstd if form.endswith("-zstd.tar") else "", make) for form, make in REAL.items()}, {form: (why, make) for form, (make, why) in FORMS.items()}):
        for form in dice.sample(sorted(table), min(forms, len(table))):
            file = f"{dice.randrange(1000):03}-{form}"  # loaded in random order
            (store / file).write_bytes(table[form][1](short(file)))
            expected[file] = table[form][0]
    kills = ["agent"] * agents + ["runtime"] * daemons
    dice.shuffle(kills)
    running = preload("archives: [/run/images]", ready=False)
    for kill in kills:
        time.sleep(dice.uniform(0, 3))
        if dice.random() < 0.5:
            until(lambda: is_loading(running) or dice.random() < 0.02)
            time.sleep(dice.uniform(0, 0.1))
        if kill == "agent":
            running.kill()
            if dice.random() < 0.3:
                expected.pop(file := dice.choice(sorted(expected)))
                (store / file).unlink()
            running = preload("archives: [/run/images]", ready=False)
        else:
            daemon.signal(signal.SIGKILL)
            assert daemon.process
            daemon.process.wait()
            time.sleep(dice.uniform(0, 1))
            daemon.launch()
    if kind != "docker":
        lab.wait_for_cri()
    until(daemon.answers, "the runtime answers")
    running.wait_ready()
    # An image that failed often would wait longer for the runtime than this test.
    assert run("apply", "--only", "images", wrap=lab.wrap).returncode == 0
    assert_forms(running, expected)
    until(lambda: not own_names(lab), lambda: str(own_names(lab)))
    # It would load archives again that failed, and have their layers in the store for a moment.
    running.stop()
    until(lambda: not unwanted(lab), lambda: str(unwanted(lab)))
    unfinished = "images.json.new"  # of a killed write; the next one replaces it
    assert {path.name for path in (directory / "state").iterdir()} <= {"config.json", "images.json", unfinished, "incidents", "journal.json"}

    def more() -> dict[str, list[str]]:
        after = surroundings(lab)
        return {key: found for key in after if (found := [value for value in after[key] if value not in before[key]])}

    until(lambda: not more(), lambda: str(more()))


def test_no_image_is_left_of_a_load_that_was_killed_before_its_name(lab: Lab, preload: Start) -> None:
    """The runtime names it by its ID. An ID that others left stays."""
    lab.start("containerd")
    registry, theirs = lab.registry(), Image(1, 1000)
    for repository, image in (("team/app", theirs), ("headroom-preload/theirs", theirs), ("headroom-preload/lost", Image(1, 1000))):
        registry.push(repository, image)
        criwire.pull(lab.containerd_socket, f"{registry.name}/{repository}:latest")
    for name in names(lab):
        if "/team/app" in name:
            ctr(lab, "images", "rm", name)
    preload("archives: [/run/images]")
    until(lambda: names(lab) == {theirs.id}, lambda: str(names(lab)))
    assert set(unwanted(lab)) == {"ids"}, "theirs has no other name"


@pytest.fixture
def killed_load(lab: Lab, preload: Start, store: Path) -> Callable[[], Path]:
    """killed_load() kills an agent while containerd has a file of it, because a server is configured for all registries."""
    lab.config.write_text('version = 2\n[plugins."io.containerd.grpc.v1.cri".registry]\nconfig_path = "/etc/containerd/certs.d"\n')
    lab.write("etc/containerd/certs.d/_default/hosts.toml", f'server = "http://{lab.registry().name}"\n[host."http://{lab.registry().name}"]\n')
    # In an overlay, files and directories have different devices.
    over = "lowerdir=/etc/containerd,upperdir=/run/over/upper,workdir=/run/over/work"
    lab.run("sh", "-c", "mkdir /run/over && mount -t tmpfs over /run/over && mkdir /run/over/upper /run/over/work")
    lab.run("mount", "-t", "overlay", "-o", over, "over", "/etc/containerd")
    lab.start("containerd")
    docker_save(store / "a.tar", [Built(A, size=20_000_000)])
    hosts = lab.certs / "headroom.invalid/hosts.toml"

    def kill() -> Path:
        running = preload("archives: [/run/images]", ready=False)
        until(hosts.exists, lambda: f"the file is written\n{running.log}", 0.001)
        lab.daemons["containerd"].signal(signal.SIGSTOP)
        running.kill()
        lab.daemons["containerd"].signal(signal.SIGCONT)
        assert hosts.exists()
        return hosts

    return kill


def test_restore_removes_the_file_of_a_killed_load_unless_others_changed_it(lab: Lab, killed_load: Callable[[], Path], run: Run) -> None:
    hosts = killed_load()
    others = lab.write("etc/containerd/certs.d/other.invalid/hosts.toml", 'server = "http://127.0.0.1:1"\n')
    assert run("restore", "--only", "thp", wrap=lab.wrap).returncode == 0
    assert hosts.exists(), "it belongs to the tuner images"
    assert run("restore", "--only", "images", wrap=lab.wrap).returncode == 0
    assert not hosts.parent.exists() and others.exists()

    assert run("apply", wrap=lab.wrap).returncode == 0  # ends the release
    hosts = killed_load()
    hosts.write_text(changed := hosts.read_text() + "# theirs\n")
    assert run("restore", wrap=lab.wrap).returncode == 0
    assert hosts.read_text() == changed


def test_the_next_agent_removes_the_file_of_a_killed_load(lab: Lab, killed_load: Callable[[], Path], preload: Start) -> None:
    hosts = killed_load()
    running = preload("archives: [/run/images]")
    wait_image(running, A)
    until(lambda: not hosts.parent.exists(), lambda: f"it is removed\n{running.log}")


def test_a_file_of_others_for_the_name_of_a_load_stays(lab: Lab, killed_load: Callable[[], Path], preload: Start, run: Run) -> None:
    hosts = lab.write("etc/containerd/certs.d/headroom.invalid/hosts.toml", theirs := 'server = "http://127.0.0.1:1"\n')
    running = preload("archives: [/run/images]")
    row = wait_image(running, A, "failed")
    assert "_default/hosts.toml" in row["why"] and hosts.read_text() == theirs
    running.stop()
    assert run("restore", wrap=lab.wrap).returncode == 0
    assert hosts.read_text() == theirs
