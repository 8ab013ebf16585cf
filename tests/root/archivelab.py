# SPDX-License-Identifier: Apache-2.0
"""Archives of images in every form that tools write, and images that say which one they are when they run."""

import gzip
import io
import json
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any, Iterable

from registrylab import MACHINE, Image, digest, static_program

OCI = "application/vnd.oci.image."
SAY = '#include <stdio.h>\nint main(int n, char **v){(void)n; puts(v[1]); return 0;}'


class Built(Image):
    """With a program, it prints `text`."""

    def __init__(
        self, name: str, text: str = "", program: bytes = b"", layers: int = 2, size: int = 100_000, **more: Any
    ) -> None:
        says = {"files": {"say": program, "text": text.encode()}, "command": ["/say", text]} if program else {}
        super().__init__(layers, size, **{**says, **more})
        self.name, self.text = name, text


def say_program(directory: Path) -> bytes:
    return static_program(directory, "say", SAY)


def compress(data: bytes, how: str) -> bytes:
    if how == "gzip":
        return gzip.compress(data, 1, mtime=0)
    if how == "zstd":
        return subprocess.run(["zstd", "-1", "-c"], input=data, stdout=subprocess.PIPE, check=True).stdout
    return data


def write_tar(path: Path, files: Iterable[tuple[str, bytes | str]], how: str = "") -> Path:
    """A text is a link."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in files:
            entry = tarfile.TarInfo(name)
            if isinstance(data, str):
                entry.type, entry.linkname, data = tarfile.SYMTYPE, data, b""
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    new = path.with_name("." + path.name)
    new.write_bytes(compress(out.getvalue(), how))
    new.rename(path)
    return path


def docker_files(images: list[Built], how: str = "") -> dict[str, bytes | str]:
    """As of version 20.10: the last layer is a link to where its bytes are."""
    files: dict[str, bytes | str] = {}
    manifest = []
    for image in images:
        names = [f"{digest(tar)[7:]}/layer.tar" for tar in image.tars]
        files.update((name, compress(tar, how)) for name, tar in zip(names, image.tars))
        link = f"{image.id[7:]}/layer.tar"
        files[link] = f"../{names[-1]}"
        files[f"{image.id[7:]}.json"] = image.config
        manifest.append({"Config": f"{image.id[7:]}.json", "RepoTags": [image.name], "Layers": [*names[:-1], link]})
    files["manifest.json"] = json.dumps(manifest).encode()
    return files


def docker_save(path: Path, images: list[Built], how: str = "", layers: str = "") -> Path:
    """What `docker save` of before version 25 writes; how it and its layers are compressed."""
    return write_tar(path, docker_files(images, layers).items(), how)


class Layout:
    """An OCI image layout, to be written as a directory or a tar."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.manifests: list[dict[str, Any]] = []

    def blob(self, media: str, data: bytes, **more: Any) -> dict[str, Any]:
        self.blobs[digest(data)] = data
        return {"mediaType": media, "digest": digest(data), "size": len(data), **more}

    def manifest(self, image: Built, how: str = "gzip") -> dict[str, Any]:
        media = f"{OCI}layer.v1.tar" + (f"+{how}" if how else "")
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{OCI}manifest.v1+json",
            "config": self.blob(f"{OCI}config.v1+json", image.config),
            "layers": [self.blob(media, compress(tar, how)) for tar in image.tars],
        }
        return self.blob(f"{OCI}manifest.v1+json", json.dumps(manifest).encode())

    def add(self, image: Built, how: str = "gzip") -> "Layout":
        self.manifests.append({**self.manifest(image, how), "annotations": {"io.containerd.image.name": image.name}})
        return self

    def add_index(self, image: Built) -> "Layout":
        """One name for several platforms; of the other only the descriptor is there."""
        here = {**self.manifest(image), "platform": {"os": "linux", "architecture": MACHINE}}
        other = {**here, "digest": digest(b"elsewhere"), "platform": {"os": "linux", "architecture": "s390x"}}
        media = f"{OCI}index.v1+json"
        index = json.dumps({"schemaVersion": 2, "mediaType": media, "manifests": [other, here]}).encode()
        annotations = {"org.opencontainers.image.ref.name": image.name}
        self.manifests.append({**self.blob(media, index), "annotations": annotations})
        return self

    def files(self) -> dict[str, bytes]:
        files = {f"blobs/sha256/{name[7:]}": data for name, data in self.blobs.items()}
        files["oci-layout"] = b'{"imageLayoutVersion": "1.0.0"}'
        files["index.json"] = json.dumps({"schemaVersion": 2, "manifests": self.manifests}).encode()
        return files

    def write_tar(self, path: Path, how: str = "") -> Path:
        return write_tar(path, self.files().items(), how)

    def write_directory(self, path: Path) -> Path:
        shutil.rmtree(path, ignore_errors=True)
        for name, data in self.files().items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(data)
        return path
