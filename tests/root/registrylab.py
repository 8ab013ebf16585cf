# SPDX-License-Identifier: Apache-2.0
"""A registry on loopback, images made for it, and a proxy before it that is slow, stops or counts."""

import gzip
import hashlib
import http.client
import io
import json
import os
import re
import socket
import subprocess
import tarfile
import threading
import time
from pathlib import Path

import pytest
from conftest import free_port, until

DOCKER = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"
LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"


def digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def tar_of(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o755
            tar.addfile(entry, io.BytesIO(data))
    return out.getvalue()


class Image:
    """Layers of random data, or one of given files; as it lies in a registry."""

    def __init__(self, layers: int, size: int, files: dict[str, bytes] | None = None, command: list[str] | None = None):
        tars = [tar_of({f"data/{i}": os.urandom(size)}) for i in range(layers)]
        tars += [tar_of(files)] if files else []
        self.layers = [gzip.compress(tar, 1, mtime=0) for tar in tars]
        self.config = json.dumps(
            {
                "architecture": "amd64",
                "os": "linux",
                "config": {"Entrypoint": command or ["/none"]},
                "rootfs": {"type": "layers", "diff_ids": [digest(tar) for tar in tars]},
            }
        ).encode()
        self.manifest = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": DOCKER,
                "config": {"mediaType": CONFIG, "size": len(self.config), "digest": digest(self.config)},
                "layers": [{"mediaType": LAYER, "size": len(b), "digest": digest(b)} for b in self.layers],
            }
        ).encode()

    @property
    def bytes(self) -> int:
        return sum(len(layer) for layer in self.layers)


class Registry:
    """Debian's docker-registry with a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.port = free_port()
        self.name = f"127.0.0.1:{self.port}"
        config = directory / "registry.yml"
        config.write_text(
            "version: 0.1\nlog: {level: error}\n"
            f"storage: {{filesystem: {{rootdirectory: {directory / 'registry'}}}}}\n"
            f"http: {{addr: '{self.name}'}}\n"
        )
        self.log = (directory / "registry.log").open("wb")
        self.process: subprocess.Popen[bytes] | None = None
        self.command = ["docker-registry", "serve", str(config)]
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        until(self.answers, "the registry answers")

    def answers(self) -> bool:
        try:
            return self.ask("GET", "/v2/")[0] == 200
        except OSError:
            return False

    def stop(self) -> None:
        if self.process:
            self.process.terminate()
            self.process.wait(10)
        self.process = None

    def ask(self, method: str, path: str, body: bytes = b"", media: str = "") -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request(method, path, body, {"Content-Type": media} if media else {})
            answer = connection.getresponse()
            answer.read()
            return answer.status, answer.getheader("Location") or ""
        finally:
            connection.close()

    def push_blob(self, repository: str, blob: bytes) -> None:
        code, where = self.ask("POST", f"/v2/{repository}/blobs/uploads/")
        assert code == 202
        path = re.sub(r"^http://[^/]*", "", where)
        code, _ = self.ask(
            "PUT", f"{path}{'&' if '?' in path else '?'}digest={digest(blob)}", blob, "application/octet-stream"
        )
        assert code == 201

    def push(self, repository: str, image: Image, tag: str = "latest") -> Image:
        for blob in [*image.layers, image.config]:
            self.push_blob(repository, blob)
        code, _ = self.ask("PUT", f"/v2/{repository}/manifests/{tag}", image.manifest, DOCKER)
        assert code == 201
        return image


class Proxy:
    """Before the registry: so many bytes a second on each connection, counted by what is asked for."""

    STEP = 0.02  # seconds between two pieces

    def __init__(self, port: int, rate: float = 0) -> None:
        self.upstream = port
        self.rate = rate  # bytes a second on each connection; 0: as fast as it goes
        self.stop_after = 0  # bytes of one answer, then nothing more; 0: never
        self.blobs: list[tuple[float, float]] = []  # layers: when each answer began and ended
        self.now = self.peak = 0
        self.lock = threading.Lock()
        self.open = True
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.server.getsockname()[1]
        self.name = f"127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        """One answer after the other: requests of a connection do not overlap."""
        upstream = http.client.HTTPConnection("127.0.0.1", self.upstream, timeout=20)
        try:
            with client, client.makefile("rb") as requests:
                if client.recv(1, socket.MSG_PEEK) == b"\x16":  # a TLS handshake: as servers of HTTP answer it
                    client.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")
                    return
                while self.open and (head := self._head(requests)):
                    self._answer(client, upstream, *head)
        except (OSError, http.client.HTTPException):
            pass
        finally:
            upstream.close()

    @staticmethod
    def _head(requests: io.BufferedReader) -> tuple[str, str, dict[str, str]] | None:
        line = requests.readline().decode("latin-1").split()
        if len(line) != 3:
            return None
        headers: dict[str, str] = {}
        for name, value in http.client.parse_headers(requests).items():
            if name.lower() not in ("host", "connection"):
                headers[name] = f"{headers[name]}, {value}" if name in headers else value
        return line[0], line[1], headers

    def _answer(
        self, client: socket.socket, upstream: http.client.HTTPConnection, method: str, path: str, headers: dict[str, str]
    ) -> None:
        upstream.request(method, path, headers={**headers, "Host": self.name})
        answer = upstream.getresponse()
        body = answer.read()
        lines = [f"HTTP/1.1 {answer.status} {answer.reason}"]
        lines += [f"{k}: {v}" for k, v in answer.getheaders() if k.lower() not in ("connection", "transfer-encoding")]
        is_blob = "/blobs/" in path and method == "GET" and len(body) > 4096
        client.sendall(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
        if not is_blob:
            client.sendall(body)
            return
        with self.lock:
            self.now += 1
            self.peak = max(self.peak, self.now)
        began = time.monotonic()
        try:
            self._send(client, body)
        finally:
            with self.lock:
                self.now -= 1
                self.blobs.append((began, time.monotonic()))

    def _send(self, client: socket.socket, body: bytes) -> None:
        began, sent = time.monotonic(), 0
        while sent < len(body):
            if self.stop_after and sent >= self.stop_after:
                until(lambda: not self.open or not self.stop_after, "the proxy goes on", 0.1, 600)
            may = len(body) if not self.rate else int((time.monotonic() - began + self.STEP) * self.rate)
            may = min(may, self.stop_after or may)
            if may > sent:
                client.sendall(body[sent:may])
                sent = min(may, len(body))
            if sent < len(body):
                time.sleep(self.STEP)

    def count(self) -> None:
        """Begins to count anew."""
        with self.lock:
            self.peak, self.blobs = self.now, []

    def close(self) -> None:
        self.open = False
        self.server.close()


def static_program(directory: Path, name: str, source: str) -> bytes:
    """A program that needs nothing of the image it is in."""
    program = directory / name
    made = subprocess.run(
        ["cc", "-static", "-Os", "-o", str(program), "-x", "c", "-"], input=source, text=True, capture_output=True
    )
    if made.returncode != 0:
        pytest.fail(f"no static program: {made.stderr}")
    return program.read_bytes()


def sleeper(directory: Path, layers: int = 0, size: int = 0) -> Image:
    """An image whose only program sleeps until a signal ends it."""
    source = "#include <unistd.h>\n#include <signal.h>\nint main(void){signal(SIGTERM,_exit);for(;;)pause();}"
    return Image(layers, size, {"pause": static_program(directory, "pause", source)}, ["/pause"])
