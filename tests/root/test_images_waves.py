# SPDX-License-Identifier: Apache-2.0
"""Waves that ask the peers: two nodes, each with its containerd, and a mirror that learns which of them has the image."""

import contextlib
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Agent, Start, temporary, until
from imagelab import Image, digest
from runtimelab import Lab, lab  # noqa: F401
from test_images import image, names, wait_image


class Mirror(http.server.ThreadingHTTPServer):
    """Answers for all images with one status. It counts the questions and keeps the last one."""

    def __init__(self) -> None:
        self.status, self.asked, self.last, self.documents = 404, 0, "", dict[str, bytes]()
        self.missed = 0  # searches that are too slow, from now on
        super().__init__(("127.0.0.1", 0), MirrorHandler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def after(self, questions: int) -> None:
        until(lambda before=self.asked: self.asked >= before + questions, lambda: f"{questions} questions: {self.asked}")


class MirrorHandler(http.server.BaseHTTPRequestHandler):
    server: Mirror
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        if self.path != "/v2/":  # not a check of its health
            self.server.asked += 1
            self.server.last = f"{self.command} {self.path}"
        body = self.server.documents.get(self.path.split("?")[0].rsplit("/", 1)[1], b"")
        missed = self.path != "/v2/" and self.server.missed > 0
        self.server.missed -= missed
        self.send_response(200 if body else 404 if missed else self.server.status)
        self.send_header("Content-Length", str(len(body) if self.command == "GET" else 1000))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_GET = do_HEAD

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def mirror() -> Iterator[Mirror]:
    made = Mirror()
    yield made
    made.shutdown()
    made.server_close()


def place(node: str, name: str) -> float:
    """The node's place in the order of the hash: 0 to 1."""
    mask, h = 2**64 - 1, 0xCBF29CE484222325
    for text in (node, name):
        for byte in text.encode() + b"|":
            h = (h ^ byte) * 0x100000001B3 & mask
    h = (h ^ h >> 33) * 0xFF51AFD7ED558CCD & mask
    h = (h ^ h >> 33) * 0xC4CEB9FE1A85EC53 & mask
    return (h ^ h >> 33) / 2**64


def node(name: str, first: bool) -> str:
    """The name of a node in the first wave, or in the second, of two nodes with one seed."""
    return next(n for i in range(100) if (place(n := f"node-{i}", name) < 0.5) == first)


def config(name: str, node_name: str, mirror: Mirror | None, round_s: int = 1, **more: str) -> str:
    wave = {"nodes": 2, "seeds": 1, "growth": 2, "round": f"{round_s}s", **more}
    mirrors = [{"registry": name.split("/")[0], "url": mirror.url}] if mirror else []
    document: dict[str, Any] = {
        "mode": "observe",
        "node_name": node_name,
        "images": {"mode": "enforce", "pin": [], "pull": [name], "wave": wave},
        "runtime": {"mirrors": mirrors},
    }
    return "".join(f"{key}: {json.dumps(value)}\n" for key, value in document.items())


@pytest.fixture
def name(lab: Lab) -> str:
    lab.containerd()
    registry = lab.registry()
    registry.push("team/app", Image(1, 1000))
    return f"{registry.name}/team/app:latest"


def wait_reason(running: Agent, name: str, reason: str) -> dict[str, Any]:
    return until(
        lambda: (i := image(running, name)) and i["reason"] == reason and i,
        lambda: f"{reason}: {image(running, name)}\n{running.log[-1000:]}",
    )


def test_a_node_of_the_second_wave_waits_until_a_peer_has_the_image(lab: Lab, name: str, mirror: Mirror, agent: Start) -> None:
    late = agent(config(name, node(name, first=False), mirror), wrap=lab.wrap)
    wait_reason(late, name, "peers-lack-it")
    mirror.after(2)  # its round is over
    assert mirror.last == f"HEAD /v2/team/app/manifests/latest?ns={name.split('/')[0]}"
    assert image(late, name)["state"] == "pending" and name not in names(lab)
    with temporary() as directory, contextlib.closing(Lab(directory)) as other:
        other.containerd()
        seed = Agent(directory, config(name, node(name, first=True), mirror), wrap=other.wrap)
        with contextlib.closing(seed):
            wait_image(seed.wait_ready(), name)
        assert name in names(other) and name not in names(lab)
    mirror.status = 200
    wait_image(late, name)
    assert name in names(lab)
    asked = mirror.asked
    until(lambda: late.status()["images"][0]["state"] == "ready", "ready")
    assert mirror.asked == asked, "nobody asks for an image that is there"


@pytest.mark.parametrize("answer", [401, 200, pytest.param(None, marks=pytest.mark.slow), pytest.param("off", marks=pytest.mark.slow)])
def test_rounds_follow_the_clock_if_the_mirror_shows_nothing(lab: Lab, name: str, mirror: Mirror, agent: Start, answer: int | str | None) -> None:
    """A mirror that refuses, that fetches whatever it is asked for, none at all, and a gate that is off."""
    mirror.status = answer if isinstance(answer, int) else 404
    more = {"gate": "off"} if answer == "off" else {}
    late = agent(config(name, node(name, first=False), mirror if answer else None, 8, **more), wrap=lab.wrap)
    row = wait_reason(late, name, "wave-waits")
    if answer and answer != "off":
        row = until(lambda: (i := image(late, name)) and i["why"] and i, lambda: f"a reason: {image(late, name)}")
        assert ("answers 401" if answer == 401 else "when first asked") in row["why"]
    wait_image(late, name)
    assert (mirror.asked > 0) == isinstance(answer, int)


def test_a_search_of_the_mirror_that_was_too_slow_is_repeated_at_once(lab: Lab, name: str, mirror: Mirror, agent: Start) -> None:
    mirror.status, mirror.missed = 200, 1
    late = agent(config(name, node(name, first=False), mirror, 60), wrap=lab.wrap)
    row = until(lambda: (i := image(late, name)) and i["why"] and i, lambda: f"a reason: {image(late, name)}")
    assert "when first asked" in row["why"]


def test_a_mirror_of_others_is_found(lab: Lab, name: str, mirror: Mirror, agent: Start) -> None:
    lab.write(f"etc/containerd/certs.d/{name.split('/')[0]}/hosts.toml", f"server = 'https://other.example'\n\n  [host.'{mirror.url}']\n  capabilities = ['pull']\n")
    late = agent(config(name, node(name, first=False), None), wrap=lab.wrap)
    wait_reason(late, name, "peers-lack-it")
    mirror.status = 200
    wait_image(late, name)


def test_the_largest_layer_of_a_digest_is_asked_for(lab: Lab, mirror: Mirror, agent: Start) -> None:
    """A mirror knows a manifest by its digest before a peer has the layers."""
    lab.containerd()
    layers = [{"digest": digest(bytes([i])), "size": size} for i, size in enumerate((10, 1000, 100))]
    manifest = json.dumps({"layers": layers}).encode()
    index = json.dumps({"manifests": [{"digest": digest(b"x"), "platform": {"os": "plan9", "architecture": "z80"}}, {"digest": digest(manifest)}]}).encode()
    mirror.documents = {digest(manifest): manifest, digest(index): index}
    name = f"registry.example/team/app@{digest(index)}"
    late = agent(config(name, node(name, first=False), mirror), wrap=lab.wrap)
    wait_reason(late, name, "peers-lack-it")
    assert mirror.last == f"HEAD /v2/team/app/blobs/{layers[1]['digest']}?ns=registry.example"
