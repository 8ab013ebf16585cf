# SPDX-License-Identifier: Apache-2.0
"""Images in archives of all formats, in a registry on loopback, and a proxy in front of it that limits, stops and counts."""

import contextlib
import gzip
import hashlib
import http.client
import http.server
import io
import json
import os
import re
import shutil
import socket
import socketserver
import subprocess
import tarfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import end, free_port, spawn, until

DOCKER = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"
LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"
OCI = "application/vnd.oci.image."
SAY = '#include <stdio.h>\nint main(int n, char **v){(void)n; puts(v[1]); return 0;}'
MACHINE = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]


def digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def tar_of(files: dict[str, Any]) -> bytes:
    """A tar archive. Bytes are a file, a string is the target of a link."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            if isinstance(data, str):
                entry.type, entry.linkname, data = tarfile.SYMTYPE, data, b""
            entry.size, entry.mode = len(data), 0o755
            tar.addfile(entry, io.BytesIO(data))
    return out.getvalue()


class Image:
    """An image with layers of random data, and a last layer with the given files."""

    def __init__(self, layers: int, size: int, files: dict[str, bytes] | None = None, command: list[str] | None = None,
                 content: Callable[[int], bytes] = os.urandom):
        self.tars = [tar_of({f"data/{i}": content(size)}) for i in range(layers)]
        self.tars += [tar_of(files)] if files else []
        config = {
            "architecture": MACHINE,
            "os": "linux",
            "config": {"Entrypoint": command or ["/none"]},
            "rootfs": {"type": "layers", "diff_ids": [digest(tar) for tar in self.tars]},
        }
        self.config = json.dumps(config).encode()
        self.id = digest(self.config)


class Registry:
    """Debian's docker-registry with its own directory."""

    def __init__(self, directory: Path) -> None:
        self.port = free_port()
        self.name = f"127.0.0.1:{self.port}"
        config = directory / "registry.yml"
        config.write_text(
            "version: 0.1\nlog: {level: error}\n"
            f"storage: {{filesystem: {{rootdirectory: {directory / 'registry'}}}}}\n"
            f"http: {{addr: '{self.name}'}}\n"
        )
        self.log = directory / "registry.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.command = ["docker-registry", "serve", str(config)]
        self.start()

    def start(self) -> None:
        self.process = spawn(self.command, self.log)
        until(self.answers, "the registry answers")

    def answers(self) -> bool:
        try:
            return self.ask("GET", "/v2/")[0] == 200
        except OSError:
            return False

    def stop(self) -> None:
        if self.process:
            end(self.process)
        self.process = None

    def ask(self, method: str, path: str, body: bytes = b"", media: str = "") -> tuple[int, str]:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)) as connection:
            connection.request(method, path, body, {"Content-Type": media} if media else {})
            answer = connection.getresponse()
            answer.read()
            return answer.status, answer.getheader("Location") or ""

    def push(self, repository: str, image: Image, tag: str = "latest") -> list[bytes]:
        """Pushes an image, and returns its compressed layers."""
        layers = [gzip.compress(tar, 1, mtime=0) for tar in image.tars]
        for blob in [*layers, image.config]:
            code, where = self.ask("POST", f"/v2/{repository}/blobs/uploads/")
            assert code == 202
            path = re.sub(r"^http://[^/]*", "", where)
            path += f"{'&' if '?' in path else '?'}digest={digest(blob)}"
            assert self.ask("PUT", path, blob, "application/octet-stream")[0] == 201
        manifest = {
            "schemaVersion": 2,
            "mediaType": DOCKER,
            "config": {"mediaType": CONFIG, "size": len(image.config), "digest": image.id},
            "layers": [{"mediaType": LAYER, "size": len(b), "digest": digest(b)} for b in layers],
        }
        code, _ = self.ask("PUT", f"/v2/{repository}/manifests/{tag}", json.dumps(manifest).encode(), DOCKER)
        assert code == 201
        return layers


class ProxyHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "Proxy"

    def handle(self) -> None:
        try:
            if self.connection.recv(1, socket.MSG_PEEK) == b"\x16":  # a TLS handshake: answer as an HTTP server does
                self.connection.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")
            else:
                super().handle()
        except (OSError, http.client.HTTPException):
            pass

    def do_GET(self) -> None:
        headers = {name: ", ".join(self.headers.get_all(name, [])) for name in self.headers}
        upstream = http.client.HTTPConnection("127.0.0.1", self.server.upstream, timeout=20)
        upstream.request(self.command, self.path, headers={**headers, "Host": self.server.name, "Connection": "close"})
        answer = upstream.getresponse()
        body = answer.read()
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in ("connection", "transfer-encoding"):
                self.send_header(name, value)
        self.end_headers()
        if "/blobs/" in self.path and len(body) > 4096:
            self.server.send_layer(self.connection, body)
        else:
            self.connection.sendall(body)

    do_HEAD = do_GET

    def log_message(self, *args: object) -> None:
        pass


class Proxy(socketserver.ThreadingTCPServer):
    """A proxy in front of the registry that limits the rate of each connection and records the layers."""

    STEP = 0.02  # seconds between two writes
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, port: int, rate: float = 0) -> None:
        super().__init__(("127.0.0.1", 0), ProxyHandler)
        self.upstream = port
        self.rate = rate  # bytes a second on each connection; 0: unlimited
        self.stop_after = 0  # bytes of an answer after which it stalls; 0: never
        self.blobs: list[tuple[float, float]] = []  # begin and end of each answer with a layer
        self.now = self.peak = 0
        self.lock = threading.Lock()
        self.name = f"127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def send_layer(self, client: socket.socket, body: bytes) -> None:
        with self.lock:
            self.now += 1
            self.peak = max(self.peak, self.now)
        began, sent = time.monotonic(), 0
        # The client may begin the next layer when it has the last byte, which is therefore not counted.
        counted = len(body) - 1
        try:
            while sent < counted:
                due = counted if not self.rate else int((time.monotonic() - began + self.STEP) * self.rate)
                due = min(due, self.stop_after or due)
                if due > sent:
                    client.sendall(body[sent : min(due, counted)])
                    sent = due
                if sent < counted:
                    time.sleep(self.STEP)
        finally:
            with self.lock:
                self.now -= 1
                self.blobs.append((began, time.monotonic()))
        client.sendall(body[counted:])

    def count(self) -> None:
        """Resets the counts."""
        with self.lock:
            self.peak, self.blobs = self.now, []

    def close(self) -> None:
        self.stop_after = 0
        self.shutdown()
        self.server_close()


def static_program(directory: Path, name: str, source: str) -> bytes:
    """A program that needs no other file of its image."""
    program = directory / name
    made = subprocess.run(
        ["cc", "-static", "-Os", "-o", str(program), "-x", "c", "-"], input=source, text=True, capture_output=True
    )
    if made.returncode != 0:
        pytest.fail(f"no static program: {made.stderr}")
    return program.read_bytes()


def sleeper(directory: Path, layers: int = 0, size: int = 0) -> Image:
    """An image with a program that sleeps until SIGTERM."""
    source = "#include <unistd.h>\n#include <signal.h>\nint main(void){signal(SIGTERM,_exit);for(;;)pause();}"
    return Image(layers, size, {"pause": static_program(directory, "pause", source)}, ["/pause"])


class Built(Image):
    """A named image. If it has a program, running it prints `text`."""

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


def write_tar(path: Path, files: dict[str, Any], how: str = "") -> Path:
    new = path.with_name("." + path.name)
    new.write_bytes(compress(tar_of(files), how))
    new.rename(path)
    return path


def docker_files(images: list[Built], how: str = "") -> dict[str, bytes | str]:
    """The files of `docker save` 20.10: the last layer is a link to the file with its bytes."""
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
    """An archive as `docker save` before version 25 writes it. how, layers: the compression of the archive and of its layers."""
    return write_tar(path, docker_files(images, layers), how)


class Layout:
    """An OCI image layout, which can be written as a directory or a tar archive."""

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

    def add_index(self, image: Built, nested: bool = False) -> "Layout":
        """Adds an index for two platforms, or an index of such an index. The blobs of the other platform are missing."""
        here = {**self.manifest(image), "platform": {"os": "linux", "architecture": MACHINE}}
        other = {**here, "digest": digest(b"elsewhere"), "platform": {"os": "linux", "architecture": "s390x"}}
        media = f"{OCI}index.v1+json"
        index = json.dumps({"schemaVersion": 2, "mediaType": media, "manifests": [other, here]}).encode()
        if nested:
            outer = {"schemaVersion": 2, "mediaType": media, "manifests": [self.blob(media, index)]}
            index = json.dumps(outer).encode()
        annotations = {"org.opencontainers.image.ref.name": image.name}
        self.manifests.append({**self.blob(media, index), "annotations": annotations})
        return self

    def files(self) -> dict[str, bytes]:
        files = {f"blobs/sha256/{name[7:]}": data for name, data in self.blobs.items()}
        files["oci-layout"] = b'{"imageLayoutVersion": "1.0.0"}'
        files["index.json"] = json.dumps({"schemaVersion": 2, "manifests": self.manifests}).encode()
        return files

    def write_tar(self, path: Path, how: str = "") -> Path:
        return write_tar(path, self.files(), how)

    def write_directory(self, path: Path) -> Path:
        shutil.rmtree(path, ignore_errors=True)
        for name, data in self.files().items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(data)
        return path


def is_fetched_from(pid: int, but: int = 0) -> bool:
    """Whether the process has accepted a connection at another port than this one."""
    links = []
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # it was closed meanwhile
            links.append(os.readlink(path))
    rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    return any(row[3] == "01" and int(row[1].split(":")[1], 16) != but and f"socket:[{row[9]}]" in links for row in rows)
