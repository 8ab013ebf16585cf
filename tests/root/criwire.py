# SPDX-License-Identifier: Apache-2.0
"""Calls of the Container Runtime Interface: hand-made messages over curl."""

import json
import subprocess
from pathlib import Path
from typing import Any

IMAGES = "/runtime.v1.ImageService"
RUNTIME = "/runtime.v1.RuntimeService"
NODE = 2  # NamespaceMode: the host's namespace


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def message(**fields: object) -> bytes:
    """A protobuf message: message(f1="text", f3=5, f7=message(...)), where fN is field number N."""
    out = b""
    for name, value in fields.items():
        number = int(name[1:])
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, int):
                out += varint(number << 3) + varint(one)
            else:
                data = one.encode() if isinstance(one, str) else one
                assert isinstance(data, bytes)
                out += varint(number << 3 | 2) + varint(len(data)) + data
    return out


def fields_of(data: bytes) -> list[tuple[int, int | bytes]]:
    found: list[tuple[int, int | bytes]] = []
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = number()
        value: int | bytes = number()
        if key & 7 == 2:
            value, at = data[at : at + int(value)], at + int(value)
        found.append((key >> 3, value))
    return found


def text(data: bytes, field: int = 1) -> str:
    """The first field with this number, as text."""
    return next((bytes(value).decode() for number, value in fields_of(data) if number == field), "")  # type: ignore


def start(socket: Path, method: str, request: bytes, seconds: int = 60, namespace: str = "") -> subprocess.Popen[bytes]:
    command = f"curl -sS --http2-prior-knowledge -m {seconds} -D /dev/stderr --data-binary @- -H content-type:application/grpc"
    process = subprocess.Popen(
        [*command.split(), "-H", f"containerd-namespace:{namespace}", "--unix-socket", str(socket), f"http://localhost{method}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin
    process.stdin.write(b"\0" + len(request).to_bytes(4, "big") + request)
    process.stdin.close()
    process.stdin = None
    return process


def finish(process: subprocess.Popen[bytes]) -> bytes:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0 and b"grpc-status: 0" in err, err.decode()
    return out[5:]


def call(socket: Path, method: str, request: bytes = b"", seconds: int = 60, namespace: str = "") -> bytes:
    return finish(start(socket, method, request, seconds, namespace))


def pull_request(image: str) -> bytes:
    return message(f1=message(f1=image))


def start_pull(socket: Path, image: str, seconds: int = 120) -> subprocess.Popen[bytes]:
    return start(socket, f"{IMAGES}/PullImage", pull_request(image), seconds)


def pull(socket: Path, image: str) -> None:
    finish(start_pull(socket, image))


def remove(socket: Path, image: str) -> None:
    call(socket, f"{IMAGES}/RemoveImage", pull_request(image))


def run_pod(socket: Path, name: str, namespace: str, uid: str, host: bool = True) -> str:
    """Runs a pod, and returns the id of its sandbox. host: use the host's network, which needs no CNI plugin."""
    linux = message(f1=f"/headroom-test/pod{uid}", f2=message(f1=message(f1=NODE) if host else b""))
    config = message(f1=message(f1=name, f2=uid, f3=namespace), f7="", f8=linux, f4="")
    return text(call(socket, f"{RUNTIME}/RunPodSandbox", message(f1=config)))


def remove_pod(socket: Path, sandbox: str) -> None:
    call(socket, f"{RUNTIME}/StopPodSandbox", message(f1=sandbox))
    call(socket, f"{RUNTIME}/RemovePodSandbox", message(f1=sandbox))


def running_config(socket: Path) -> dict[str, Any]:
    """The configuration that containerd reports; empty while it starts."""
    process = start(socket, f"{RUNTIME}/Status", message(f1=1))
    answer, _ = process.communicate(timeout=60)
    for number, value in fields_of(answer[5:]):
        if number == 2 and text(bytes(value)) == "config":  # type: ignore[arg-type]
            return dict(json.loads(text(bytes(value), 2)))  # type: ignore[arg-type]
    return {}
