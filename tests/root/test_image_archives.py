# SPDX-License-Identifier: Apache-2.0
"""Each form of an archive, as real runtimes take it."""

import gzip
import io
import json
import os
import subprocess
import tarfile
from pathlib import Path
from typing import Callable

import pytest
from conftest import Agent, until
from registrylab import digest, static_program, tar_of
from runtimelab import Lab, lab  # noqa: F401
from test_runtime import containerd2

OCI = "application/vnd.oci.image."
Files = dict[str, bytes | str]  # a text is a link


def zstd(data: bytes) -> bytes:
    return subprocess.run(["zstd", "-q", "-c"], input=data, stdout=subprocess.PIPE, check=True).stdout


def machine() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]


def config(layers: list[bytes]) -> bytes:
    image = {"architecture": machine(), "os": "linux", "config": {"Entrypoint": ["/pause"]}}
    return json.dumps(image | {"rootfs": {"type": "layers", "diff_ids": [digest(layer) for layer in layers]}}).encode()


def docker_save(name: str, layers: list[bytes], pack: Callable[[bytes], bytes] = bytes) -> Files:
    """Of version 20.10: the last layer is a link to where its bytes are."""
    described = config(layers)
    files: Files = {f"{i}/layer.tar": pack(layer) for i, layer in enumerate(layers)}
    files["again/layer.tar"] = f"../{len(layers) - 1}/layer.tar"
    names = [f"{i}/layer.tar" for i in range(len(layers) - 1)] + ["again/layer.tar"]
    entry = {"Config": digest(described)[7:] + ".json", "RepoTags": [name], "Layers": names}
    return files | {entry["Config"]: described, "manifest.json": json.dumps([entry]).encode()}


def layout(name: str, layers: list[bytes], pack: Callable[[bytes], bytes] = bytes, suffix: str = "", others: bool = False) -> Files:
    files: Files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}'}

    def blob(kind: str, data: bytes, **more: object) -> dict[str, object]:
        files["blobs/sha256/" + digest(data)[7:]] = data
        return {"mediaType": OCI + kind, "digest": digest(data), "size": len(data), **more}

    parts = [blob("layer.v1.tar" + suffix, pack(layer)) for layer in layers]
    manifest = {"schemaVersion": 2, "mediaType": OCI + "manifest.v1+json", "config": blob("config.v1+json", config(layers))}
    top = blob("manifest.v1+json", json.dumps(manifest | {"layers": parts}).encode())
    if others:
        foreign = top | {"digest": digest(b"elsewhere"), "platform": {"os": "linux", "architecture": "s390x"}}
        children = [foreign, top | {"platform": {"os": "linux", "architecture": machine()}}]
        index = {"schemaVersion": 2, "mediaType": OCI + "index.v1+json", "manifests": children}
        top = blob("index.v1+json", json.dumps(index).encode())
    top["annotations"] = {"org.opencontainers.image.ref.name": name}
    return files | {"index.json": json.dumps({"schemaVersion": 2, "manifests": [top]}).encode()}


def tar(files: Files) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            if isinstance(data, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, data
                archive.addfile(entry)
            else:
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def put_directory(path: Path, files: Files) -> None:
    for name, data in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        assert isinstance(data, bytes)
        (path / name).write_bytes(data)


def put_all(store: Path, program: bytes, with_zstd: bool) -> set[str]:
    """One archive of each form, each with an image of its own. The images' names."""
    names = set()

    def image(form: str) -> tuple[str, list[bytes]]:
        names.add(f"registry.example/{form}:1")
        return f"registry.example/{form}:1", [tar_of({"form": form.encode() + os.urandom(99_000)}), program]

    (store / "save.tar").write_bytes(tar(docker_save(*image("save"))))
    (store / "save.tar.gz").write_bytes(gzip.compress(tar(docker_save(*image("save-gzip")))))
    (store / "save.tar.zst").write_bytes(zstd(tar(docker_save(*image("save-zstd")))))
    (store / "layers.tar").write_bytes(tar(docker_save(*image("save-of-gzip"), gzip.compress)))
    (store / "oci.tar").write_bytes(tar(layout(*image("oci"))))
    (store / "oci.tgz").write_bytes(gzip.compress(tar(layout(*image("oci-gzip"), gzip.compress, "+gzip"))))
    (store / "platforms.tar").write_bytes(tar(layout(*image("platforms"), gzip.compress, "+gzip", others=True)))
    put_directory(store / "directory", layout(*image("directory")))
    if with_zstd:
        (store / "zstd.tar").write_bytes(tar(layout(*image("oci-of-zstd"), zstd, "+zstd")))
    return names


@pytest.fixture
def store(lab: Lab) -> Path:
    path = lab.directory / "run/images"
    path.mkdir()
    return path


@pytest.fixture
def program(directory: Path) -> bytes:
    return tar_of({"pause": static_program(directory, "pause", "int main(void){return 42;}")})


def preload(agent: Callable[..., Agent], lab: Lab, names: set[str]) -> Agent:
    running = agent(
        "mode: observe\nimages: {mode: enforce, pin: [], archives: [/run/images/*, /run/images/directory]}\n", wrap=lab.wrap
    )
    until(
        lambda: names <= {row["name"] for row in running.status()["images"] if row["state"] == "ready"},
        lambda: f"{names}: {running.status()['images']}\n{running.log[-3000:]}",
        timeout=120,
    )
    return running


@pytest.mark.parametrize("version", ["debian", pytest.param("2", marks=pytest.mark.containerd2)])
def test_containerd_takes_each_form_of_an_archive(
    lab: Lab, agent: Callable[..., Agent], store: Path, program: bytes, version: str
) -> None:
    lab.containerd(containerd2() if version == "2" else None)
    names = put_all(store, program, True)
    preload(agent, lab, names)
    listed = {line.split()[0] for line in lab.run("ctr", "-n", "k8s.io", "images", "ls").splitlines()[1:]}
    assert names <= listed and not [name for name in listed if "headroom-preload" in name]
    for i, name in enumerate(sorted(names)):
        assert lab.run("sh", "-c", f"ctr -n k8s.io run --rm {name} c{i}; echo $?").splitlines()[-1] == "42", name


def test_docker_takes_each_form_of_an_archive(lab: Lab, agent: Callable[..., Agent], store: Path, program: bytes) -> None:
    lab.dockerd()
    names = put_all(store, program, False)
    preload(agent, lab, names)
    tags = {tag for one in json.loads(lab.docker("GET", "/images/json")[1]) for tag in one["RepoTags"] or []}
    assert names <= tags
