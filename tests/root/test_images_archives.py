# SPDX-License-Identifier: Apache-2.0
"""Archives that are unusual, hostile or in conflict with others: each has one clear error, and its neighbours are loaded."""

import bz2
import json
import os
import re
import signal
import struct
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import Agent, Start, until
from hostile import FORMS
from imagelab import OCI, Built, Image, Layout, compress, digest, docker_files, docker_save, tar_of, write_tar
from runtimelab import Lab, lab  # noqa: F401
from test_images import A, B, ctr, image, make_small_store, names, preload, store, wait_image  # noqa: F401

FOREIGN = "docker.io/library/foreign:1"
CLOSED = "containerd: |docker.sock: .*([Cc]onnection|closed|empty reply|failure)"


def id_of(lab: Lab, name: str) -> str:
    """The ID of the image that has the name in containerd, by the CRI's name of the ID."""
    rows = [line.split() for line in ctr(lab, "images", "ls").splitlines()[1:]]
    target = next(row[2] for row in rows if row[0] == name)
    return next(row[0] for row in rows if row[0].startswith("sha256:") and row[2] == target)


def with_new_build(lab: Lab, preload: Start, store: Path) -> tuple[Agent, Built, Built]:
    """An agent that has loaded A from app-1.tar, the image, and a newer image with its name."""
    lab.containerd()
    old, new = Built(A), Built(A)
    docker_save(store / "app-1.tar", [old])
    running = preload("archives: [/run/images]")
    wait_image(running, A)
    return running, old, new


def test_a_name_returns_to_another_archive_when_its_archive_is_removed(lab: Lab, preload: Start, store: Path) -> None:
    running, old, new = with_new_build(lab, preload, store)
    docker_save(store / "app-2.tar", [new, Built("b:2", layers=1)])
    running.reload()
    wait_image(running, B)
    assert id_of(lab, A) == old.id
    (store / "app-1.tar").unlink()
    running.reload()
    until(lambda: id_of(lab, A) == new.id, lambda: f"the archive that is left is loaded: {running.status()['images']}")
    assert wait_image(running, A)["source"] == "/run/images/app-2.tar"
    assert running.condition("ImagePreloadFailed")["reason"] == "all-present"


@pytest.mark.parametrize("newer", ["values", "journal.json"])
def test_beside_records_of_a_newer_version_no_image_is_loaded(lab: Lab, preload: Start, store: Path, directory: Path, newer: str) -> None:
    lab.containerd()
    docker_save(store / "app.tar", [Built(A)])
    preload("archives: []").stop()
    if newer == "values":
        values = bytearray((directory / "run/values").read_bytes())
        values[16] = 9
        (directory / "run/values").write_bytes(values)
    else:
        (directory / "state/journal.json").write_text(json.dumps({"schema": 99, "version": "7.1.2", "body": {}}))
    config = (directory / "state/config.json").read_bytes()
    running = preload("archives: [/run/images]")
    until(lambda: running.tuner("images")["state"] == "active", "the first sample")
    time.sleep(9)  # a load begins within seconds
    assert A not in names(lab), running.log
    assert running.tuner("images")["mode"] == "observe"
    assert (directory / "state/config.json").read_bytes() == config


@pytest.mark.parametrize("text, message", [("noise", "damaged: remove it"), ('{"schema": 99, "body": {}}', "a newer version wrote it: install that version")])
def test_a_record_of_a_load_that_cannot_be_read_is_named(lab: Lab, preload: Start, store: Path, directory: Path, text: str, message: str) -> None:
    lab.containerd()
    docker_save(store / "app.tar", [Built(A)])
    record = directory / "state/load/journal.json"
    record.parent.mkdir(parents=True)
    record.write_text(text)
    running = preload("archives: [/run/images]")
    until(lambda: f"load/journal.json: {message}" in running.log, lambda: running.log)
    wait_image(running, A)
    assert record.read_text() == text


def test_a_new_file_with_the_name_of_a_removed_one_is_loaded(lab: Lab, preload: Start, store: Path) -> None:
    """As an upgrade of app-1.tar to app-2.tar."""
    running, _, new = with_new_build(lab, preload, store)
    (store / "app-1.tar").unlink()
    docker_save(store / "b.tar", [Built("b:2", layers=1)])
    running.reload()
    wait_image(running, B)
    docker_save(store / "app-2.tar", [new])
    running.reload()
    until(lambda: id_of(lab, A) == new.id, lambda: f"{running.status()['images']}")


def artifact(name: str, config: str = "application/vnd.cncf.helm.config.v1+json") -> Layout:
    """A Helm chart in an OCI layout."""
    layout = Layout()
    manifest = {
        "schemaVersion": 2,
        "config": layout.blob(config, b'{"name": "chart", "version": "1.0.0"}'),
        "layers": [layout.blob("application/vnd.cncf.helm.chart.content.v1.tar+gzip", compress(tar_of({"a": b"b"}), "gzip"))],
    }
    entry = layout.blob(f"{OCI}manifest.v1+json", json.dumps(manifest).encode())
    layout.manifests.append({**entry, "annotations": {"io.containerd.image.name": name}})
    return layout


def many_layers(name: str, n: int) -> Layout:
    """An image that names one layer n times."""
    layout, built = Layout(), Built(name, layers=1, size=100)
    layer = layout.blob(f"{OCI}layer.v1.tar", built.tars[0])
    config = json.loads(built.config)
    config["rootfs"]["diff_ids"] *= n
    manifest = {
        "schemaVersion": 2,
        "config": layout.blob(f"{OCI}config.v1+json", json.dumps(config).encode()),
        "layers": [layer] * n,
    }
    entry = layout.blob(f"{OCI}manifest.v1+json", json.dumps(manifest).encode())
    layout.manifests.append({**entry, "annotations": {"io.containerd.image.name": name}})
    return layout


def foreign(name: str) -> Built:
    built = Built(name, layers=1)
    built.config = built.config.replace(b'"architecture": "', b'"architecture": "not-')
    built.id = digest(built.config)
    return built


def failed(running: Agent) -> dict[str, tuple[str, str]]:
    return {i["name"]: (i["reason"], i["why"]) for i in running.status()["images"] if i["state"] == "failed"}


def test_each_unusable_archive_has_one_error_and_its_neighbours_are_loaded(lab: Lab, preload: Start, store: Path) -> None:
    lab.containerd()
    artifact("docker.io/library/chart:1").write_tar(store / "artifact.tar")
    artifact("docker.io/library/empty:1", f"{OCI}config.v1+json").write_tar(store / "empty-config.tar")
    many_layers("docker.io/library/many:1", 10_000).write_tar(store / "many.tar")
    (store / "zero.tar").symlink_to("/dev/zero")
    os.mkfifo(store / "fifo.tar")
    (store / "gone.tar").symlink_to("nowhere")
    (store / "README").symlink_to("nowhere")
    docker_save(store / f"{'x' * 250}.tar", [Built("docker.io/library/long:1", layers=1)])
    docker_save(store / "foreign.tar", [foreign(FOREIGN)])
    (store / "other.tar.bz2").write_bytes(bz2.compress(tar_of({"a": b"b"})))
    layout = Layout().add(Built("links:1", layers=1)).write_directory(store / "links")
    (layout / "blobs").rename(store / ".blobs")
    (layout / "blobs").symlink_to("../.blobs")
    docker_save(store / "unnamed.tar", [Built("", layers=1)])
    vast(store / "vast.tar", 1 << 40)
    running = preload("archives: [/run/images, '/run/images/*.tar', /dev/zero]")

    def reported() -> dict[str, Any]:
        found = failed(running)
        return found if len(found) == 13 else {}

    found = until(reported, lambda: f"{failed(running)}\n{running.log[-3000:]}")
    there = "/run/images/"
    assert "not an image" in found[f"{there}artifact.tar"][1] and found[f"{there}artifact.tar"][0] == "archive-broken"
    assert "not an image, but application/vnd.cncf.helm.chart.content" in found[f"{there}empty-config.tar"][1]
    assert "too large" in found[f"{there}many.tar"][1]
    assert found[f"{there}foreign.tar"] == ("wrong-platform", f"{FOREIGN}: not for linux/{platform()}")
    for name in (f"{there}fifo.tar", f"{there}zero.tar", "/dev/zero"):
        assert found[name][0] == "archive-unreadable" and "neither a regular file nor an OCI layout" in found[name][1]
    assert "No such file" in found[f"{there}gone.tar"][1]
    assert "plain or compressed by gzip or zstd" in found[f"{there}other.tar.bz2"][1]
    assert "symbolic link: copy the layout with cp -rL" in found[f"{there}links"][1]
    assert found["docker.io/library/vast:1"][0] == "does-not-fit"
    reason, why = found[f"{there}unnamed.tar"]
    assert reason == "unnamed" and "skopeo copy" in why
    long = next(name for name in found if name.startswith(f"{there}xxx"))
    assert found[long][0] == "archive-unreadable" and "at most 255" in found[long][1]
    assert running.wait_condition("ImagePreloadFailed")
    assert not names(lab)


def vast(path: Path, size: int) -> None:
    """An archive with a compressed layer that is a sparse file of this size."""
    files = docker_files([Built("docker.io/library/vast:1", layers=1)])
    layer = tarfile.TarInfo(json.loads(files["manifest.json"])[0]["Layers"][0])
    layer.size = size
    with open(path, "wb") as file:
        file.write(tar_of(files).rstrip(b"\0"))
        file.seek(-file.tell() % 512, os.SEEK_CUR)
        file.write(layer.tobuf() + b"\x1f\x8b")
        file.truncate(file.tell() - 2 + size)


def platform() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]


def test_an_image_that_cannot_be_loaded_does_not_keep_its_archive_from_others(lab: Lab, preload: Start, store: Path) -> None:
    lab.containerd()
    files = docker_files([Built(A), foreign(FOREIGN)])
    manifest = json.loads(files["manifest.json"])
    manifest.append({**manifest[0], "RepoTags": None})
    write_tar(store / "docker.tar", {**files, "manifest.json": json.dumps(manifest).encode()})
    layout = Layout().add(Built(B)).add(foreign("docker.io/library/foreign:2"))
    tag = {"annotations": {"org.opencontainers.image.ref.name": "a-mere-tag"}}
    layout.manifests += [{**layout.manifests[0], **tag}, {**layout.manifest(Built("c:1", layers=1)), **tag}]
    layout.write_tar(store / "oci.tar")
    # Skopeo and pzstd: a frame that a decoder skips comes first.
    plain = docker_files([Built("docker.io/library/pzstd:1", layers=1)], "zstd")
    for name, data in plain.items():
        if name.endswith("layer.tar") and isinstance(data, bytes):
            plain[name] = skippable(data)
    (store / "pzstd.tar.zst").write_bytes(skippable(compress(tar_of(plain), "zstd")))
    running = preload("archives: [/run/images]")
    for name in (A, B, "docker.io/library/pzstd:1"):
        wait_image(running, name)
    found = failed(running)
    assert {reason for reason, _ in found.values()} == {"wrong-platform", "unnamed"} and len(found) == 4, found
    assert all("skopeo" in why for reason, why in found.values() if reason == "unnamed")
    message = running.wait_condition("ImagePreloadFailed")["message"]
    assert FOREIGN in message
    assert {A, B} <= names(lab) and FOREIGN not in names(lab)


def skippable(data: bytes) -> bytes:
    return struct.pack("<II", 0x184D2A5E, 12) + bytes(12) + data


def short(form: str) -> str:
    return f"docker.io/library/{form.split('.')[0]}:1"


def assert_forms(running: Agent, forms: dict[str, str | None]) -> None:
    """Each archive is loaded or has one error, as in FORMS."""

    def rows(form: str) -> list[dict[str, Any]]:
        return [i for i in running.status()["images"] if f"/run/images/{form}" in (i["source"], i["name"])]

    def ended(form: str) -> bool:
        found = rows(form)
        # A load whose connection was closed begins again.
        return bool(found) and all(row["state"] in ("ready", "failed") and not re.search(CLOSED, row["why"]) for row in found)

    wrong = []
    for form, why in forms.items():
        until(lambda: ended(form), lambda: f"{form}: {rows(form)}\n{running.log[-2000:]}", 0.2, 180)
        failures = [row["why"] for row in rows(form) if row["state"] == "failed"]
        if (failures != [] if why == "" else not failures if why else False) or len(failures) > 1 or (why and not re.search(why, failures[0])):
            wrong.append((form, why, [(row["name"], row["state"], row["why"]) for row in rows(form)][:3]))
    assert not wrong, "\n".join(map(str, wrong))


def left_over(lab: Lab) -> list[str]:
    """Names, leases and downloads that a load must not leave."""
    return [
        *(name for name in names(lab) if "headroom" in name),
        *ctr(lab, "leases", "ls", "-q").split(),
        *ctr(lab, "content", "active").splitlines()[1:],
    ]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["containerd", "docker", pytest.param("containerd2", marks=pytest.mark.containerd2)])
def test_hostile_archives_are_loaded_or_have_one_error(lab: Lab, preload: Start, store: Path, kind: str) -> None:
    lab.start(kind)
    for form, (make, _) in FORMS.items():
        (store / form).write_bytes(make(short(form)))
    neighbours = [f"docker.io/library/neighbour-{where}:1" for where in ("first", "last")]
    for name, path in zip(neighbours, ("0.tar", "zz.tar")):
        docker_save(store / path, [Built(name, layers=1)])
    running = preload("archives: [/run/images]")

    assert_forms(running, {form: why for form, (_, why) in FORMS.items()})
    for name in neighbours:
        wait_image(running, name)
    if kind != "docker":
        until(lambda: not left_over(lab), lambda: str(left_over(lab)))


def test_a_disk_that_fills_during_a_load_is_not_filled_again_at_once(lab: Lab, preload: Start, store: Path) -> None:
    """The image needs more inodes than the store has."""
    make_small_store(lab, 16 << 20)
    lab.containerd()
    docker_save(store / "inodes.tar", [Built(A, layers=0, files={f"{i:06}": b"" for i in range(8000)})])
    running = preload("archives: [/run/images]")
    row = wait_image(running, A, "failed")
    assert row["reason"] == "does-not-fit" and "no space left" in row["why"], row
    assert row["next_in_seconds"] > 300


@pytest.mark.slow
def test_a_load_that_makes_no_progress_ends(lab: Lab, preload: Start, store: Path) -> None:
    containerd = lab.containerd()
    docker_save(store / "a.tar", [Built(A, layers=8, size=100 << 20)])
    running = preload("archives: [/run/images]}\nruntime: {pull_progress_timeout: 10s")
    until(lambda: (row := image(running, "/run/images/a.tar") or {}) and row["state"] == "active" and (row["bytes_done"] or 0) > 0)
    containerd.signal(signal.SIGSTOP)
    try:
        until(lambda: f"{A}: no progress within 10 s" in running.log, lambda: running.log[-2000:])
    finally:
        containerd.signal(signal.SIGCONT)
    wait_image(running, A)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["containerd", "docker"])
def test_a_pull_that_makes_no_progress_ends(lab: Lab, preload: Start, kind: str) -> None:
    """Later versions of containerd end it themselves."""
    lab.start(kind)
    registry = lab.registry()
    proxy = lab.proxy(registry)
    proxy.stop_after = 10_000
    registry.push("team/app", Image(1, 1_000_000))
    name = f"{proxy.name}/team/app:latest"
    running = preload(f"pull: ['{name}']}}\nruntime: {{pull_progress_timeout: 10s")
    until(lambda: f"{name}: no progress within 10 s" in running.log, lambda: running.log[-2000:])
    proxy.stop_after = 0
    wait_image(running, name)
