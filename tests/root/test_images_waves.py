# SPDX-License-Identifier: Apache-2.0
"""Waves that ask the peers: two nodes, each with its containerd, and a mirror that learns which of them has the image."""

import contextlib
import http.server
import json
import os
import re
import socketserver
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import SLACK, Agent, Start, temporary, until
from imagelab import Image, compress, digest
from runtimelab import Lab, containerd2, lab  # noqa: F401
from storm import enter
from test_images import image, names, wait_image
from test_web_config import authority, certificate


class Mirror(http.server.ThreadingHTTPServer):
    """Answers for all images with one status, or as the containerds of its peers know them. It counts the questions and keeps the last one."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.status, self.asked, self.last, self.documents = 404, 0, "", dict[str, bytes]()
        self.location = ""
        self.missed = 0  # searches that are too slow, from now on
        self.peers: list[Lab] = []
        self.headers: dict[str, str] = {}
        super().__init__((host, 0), MirrorHandler)
        self.url = f"http://{host}:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def answer(self, path: str) -> int:
        if self.missed:
            self.missed -= 1
            return 404
        if not self.peers:
            return self.status
        name = re.sub(r"/v2/(.*)/manifests/(.*)\?ns=(.*)", r"\3/\1:\2", path)
        return 200 if any(name in names(peer) for peer in self.peers) else 404

    def require(self, directory: Path, headers: dict[str, str]) -> None:
        """From now on it is asked over TLS, by nodes with a certificate and these headers."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=directory / "ca.pem")
        context.load_cert_chain(directory / "mirror.pem", directory / "mirror.key")
        context.verify_mode = ssl.CERT_REQUIRED
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.url, self.headers = self.url.replace("http:", "https:"), headers

    def close(self) -> None:
        self.shutdown()
        self.server_close()

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
        refused = any(self.headers.get(name) != value for name, value in self.server.headers.items())
        self.send_response(401 if refused else 200 if body or self.path == "/v2/" else self.server.answer(self.path))
        if self.server.location:
            self.send_header("Location", self.server.location)
        self.send_header("Content-Length", str(len(body) if self.command == "GET" else 1000))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_GET = do_HEAD

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def mirror() -> Iterator[Mirror]:
    with contextlib.closing(Mirror()) as made:
        yield made


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
    """
    The name of a node in the first wave, or in the second, of two nodes with one seed. The first nodes of the second
    wave soon go upstream without a peer, so this one is late in it.
    """
    low, high = (0, 0.5) if first else (0.75, 1)
    return next(n for i in range(1000) if all(low <= place(n := f"node-{i}", one) < high for one in name.split()))


def config(name: str, node_name: str, mirror: Mirror | None, round_s: int = 1, **more: Any) -> str:
    wave = {"nodes": 2, "seeds": 1, "growth": 2, "round": f"{round_s}s", **more}
    mirrors = [{"registry": name.split("/")[0], "url": mirror.url}] if mirror else []
    document: dict[str, Any] = {
        "mode": "observe",
        "node_name": node_name,
        "images": {"mode": "enforce", "pin": [], "pull": name.split(), "wave": wave},
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
    with temporary() as directory, contextlib.closing(Lab(directory)) as other:
        other.containerd()
        mirror.peers = [lab, other]
        late = agent(config(name, node(name, first=False), mirror), wrap=lab.wrap)
        wait_reason(late, name, "peers-lack-it")
        mirror.after(2)  # its round is over
        assert mirror.last == f"HEAD /v2/team/app/manifests/latest?ns={name.split('/')[0]}"
        assert image(late, name)["state"] == "pending" and name not in names(lab)
        seed = Agent(directory, config(name, node(name, first=True), mirror), wrap=other.wrap)
        with contextlib.closing(seed):
            wait_image(seed.wait_ready(), name)
        assert name in names(other)
        wait_image(late, name)
        assert name in names(lab)
    asked = mirror.asked
    until(lambda: late.status()["images"][0]["state"] == "ready", "ready")
    assert mirror.asked == asked, "nobody asks for an image that is there"


def test_rounds_follow_the_clock_if_the_mirror_refuses(lab: Lab, name: str, mirror: Mirror, agent: Start) -> None:
    mirror.status = 401
    late = agent(config(name, node(name, first=False), mirror, 8), wrap=lab.wrap)
    wait_reason(late, name, "wave-waits")
    row = until(lambda: (i := image(late, name)) and i["why"] and i, lambda: f"a reason: {image(late, name)}")
    assert "answers 401" in row["why"]
    wait_image(late, name)
    assert mirror.asked > 0


def test_a_search_of_the_mirror_that_was_too_slow_is_repeated_at_once(lab: Lab, name: str, mirror: Mirror, agent: Start) -> None:
    mirror.status, mirror.missed = 200, 1
    late = agent(config(name, node(name, first=False), mirror, 60), wrap=lab.wrap)
    row = until(lambda: (i := image(late, name)) and i["why"] and i, lambda: f"a reason: {image(late, name)}")
    assert "when first asked" in row["why"]


@pytest.mark.parametrize("seen, have", [(86_400, 86_460), pytest.param(-(50 * 365 * 86_400), -5, marks=pytest.mark.slow)])
def test_a_clock_that_was_set_does_not_delay_a_pull(lab: Lab, name: str, mirror: Mirror, agent: Start, directory: Path, seen: int, have: int) -> None:
    """Back, after the mirror's answer; or ahead between the first question and this answer, which is then no measure of a pull."""
    first_us, have_us = (str(int(time.time() + s) * 10**6) for s in (seen, have))
    record = {"version": 1, "images": [{"source": "", "name": name, "first_seen_us": first_us, "peers_have_us": have_us}]}
    (directory / "state").mkdir(exist_ok=True)
    (directory / "state/images.json").write_text(json.dumps(record))
    last = next(n for i in range(1000) if place(n := f"node-{i}", name) >= 0.9)
    wait_image(agent(config(name, last, mirror, nodes=54), wrap=lab.wrap), name)


OK = b"HTTP/1.1 200 OK\r\nA: "


class Hanging(socketserver.ThreadingTCPServer):
    """Answers nothing, a byte now and then, headers or a body without an end, or some bytes."""

    daemon_threads = True
    ways = {"silent": (b"", b"", 1.0), "slow": (OK, b"a", 0.3), "endless": (OK, 1000 * b"a" + b"\r\nA: ", 0.0)}

    def __init__(self, way: str, first: bytes = b"", then: bytes = b"", pause: float = 0.0, host: str = "127.0.0.1") -> None:
        super().__init__((host, 0), HangingHandler)
        self.closing, self.asked, self.connections = False, 0, 0
        self.first, self.then, self.pause = self.ways.get(way, (first, then, pause))
        self.registry = {"registry": f"{way}.example", "url": f"http://{host}:{self.server_address[1]}"}
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self.closing = True
        self.shutdown()
        self.server_close()


class HangingHandler(socketserver.BaseRequestHandler):
    server: Hanging

    def handle(self) -> None:
        self.server.connections += 1
        if b"/v2/ " not in self.request.recv(4096):
            self.server.asked += 1
        with contextlib.suppress(OSError):
            self.request.sendall(self.server.first)
            while (self.server.then or self.server.pause) and not self.server.closing:
                self.request.sendall(self.server.then)
                time.sleep(self.server.pause)


def config_with(mirrors: list[Hanging], images: list[str], more: list[str], mirror: Mirror | None, node_name: str = "") -> str:
    names = " ".join(more + images)
    text = config(names, node_name or node(names, first=False), mirror, 6, gate="peers")
    listed = ", ".join(json.dumps(one.registry) for one in mirrors)
    return text.replace('"mirrors": [', f'"mirrors": [{listed}{", " if mirror else ""}')


def test_a_mirror_that_hangs_keeps_only_its_own_images(lab: Lab, name: str, mirror: Mirror, agent: Start) -> None:
    """The agent ends while it asks them."""
    mirror.status = 200
    with contextlib.ExitStack() as stack:
        hanging = [stack.enter_context(contextlib.closing(Hanging(way))) for way in Hanging.ways]
        images = [f"{one.registry['registry']}/app:latest" for one in hanging]
        late = agent(config_with(hanging, images, [name], mirror), wrap=lab.wrap)
        for one, why in zip(images, ("no answer within 2 s", "no answer within 2 s", "the answer is too large")):
            until(lambda: (i := image(late, one)) and why in i["why"], lambda: image(late, one))
        wait_image(late, name)
        assert late.stop() == 0


@pytest.mark.slow
def test_a_file_of_a_mirror_that_hangs_does_not_keep_other_images(lab: Lab, name: str, mirror: Mirror, agent: Start) -> None:
    soon = next(n for i in range(1000) if 0.5 <= place(n := f"node-{i}", name) < 0.52)  # upstream, after two rounds
    lab.config.write_text("version = 2\n[plugins.'io.containerd.grpc.v1.cri'.registry]\nconfig_path = '/etc/containerd/certs.d'\n")
    lab.daemons["containerd"].restart()
    lab.wait_for_cri()
    os.mkfifo(lab.root / "etc/ca.pem")
    lab.write("etc/containerd/certs.d/other.example/hosts.toml", f"[host.'{mirror.url.replace('http:', 'https:')}']\nca = '/etc/ca.pem'\n")
    running = agent(config(f"{late_name(soon, 'other.example/app:{}'.format)} {name}", soon, None), wrap=lab.wrap)
    wait_image(running, name)


def late_name(node_name: str, name: Callable[[int], str]) -> str:
    """A name for which the node is late in its wave."""
    return next(n for i in range(200) if place(node_name, n := name(i)) >= 0.75)


def answer(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, "", ""]).encode() + body


LAYER = json.dumps({"layers": [{"digest": digest(b"layer"), "size": 1}]}).encode()

# The answer of a mirror, the bytes that it repeats after it, and why the answer does not count: for a tag, then for a digest.
TAGS = {
    "html": (answer(b"", "Content-Type: text/html; charset=utf-8", "Content-Length: 7"), b"", "answers with text/html"),
    "redirect": (answer(b"", "Location: /v2/", "Content-Length: 0", status="307 Temporary Redirect"), b"", "answers 307"),
    "cookies": (answer(b"", *["Set-Cookie: a=" + "b" * 100] * 1000, "Content-Length: 7"), b"", "too large"),
    "header": (answer(b"", "A: " + "b" * 1_000_000), b"", "."),
    "status": (answer(b"", status="200 " + "b" * 90_000), b"", "."),
    "length": (answer(b"", "Content-Length: 99999999999999999999999"), b"", "."),
    "continue": (b"", answer(b"", status="100 Continue"), "too large"),
    "http-0": (b"hello\n", b"", "."),
    "version": (b"HTTP/7.0 200 OK\r\n\r\n", b"", "."),
    "tls": (b"\x15\x03\x03\x00\x02\x02\x28", b"", "."),
    "nothing": (b"", b"", "."),
}
DIGESTS = {
    "garbage": (answer(b"garbage", "Content-Length: 7"), b"", "other content"),
    "layer": (answer(LAYER, f"Content-Length: {len(LAYER)}"), b"", "other content"),
    "gzip": (answer(compress(LAYER, "gzip"), "Content-Encoding: gzip"), b"", "other content"),
    "short": (answer(LAYER, "Content-Length: 100000"), b"", "."),
    "large": (answer(b"[" * 10_000_000, "Content-Length: 10000000"), b"", "too large"),
    "values": (answer(b"[" + b"0," * 60_000 + b"0]", "Content-Length: 120003"), b"", "other content|too large"),
    "chunks": (answer(b"", "Transfer-Encoding: chunked"), b"1000\r\n" + b"a" * 4096 + b"\r\n", "too large"),
    "chunk": (answer(b"FFFFFFFFFFFFFFFFF\r\n", "Transfer-Encoding: chunked"), b"", "."),
    "dribble": (answer(b"", "Content-Length: 7"), b"", "no answer within 2 s"),
}


def test_no_answer_of_a_hostile_mirror_counts_as_a_peer(lab: Lab, name: str, mirror: Mirror, agent: Start) -> None:
    mirror.status = 200
    with contextlib.ExitStack() as stack:
        hostile, images, reasons = [], [], []
        for way, (first, then, why) in [*TAGS.items(), *DIGESTS.items()]:
            one = Hanging(way, first, then, 5.0 if way == "dribble" else 0.0)
            hostile.append(stack.enter_context(contextlib.closing(one)))
            images += [late_name("node", lambda i: f"{way}.example/app" + (f"@{digest(f'{way}{i}'.encode())}" if way in DIGESTS else f":{i}"))]
            reasons.append(why)
        late = agent(config_with(hostile, images, [name], mirror, "node"), wrap=lab.wrap)
        for one, why, server in zip(images, reasons, hostile):
            until(lambda: (i := image(late, one)) and i["why"] and re.search(why, i["why"]), lambda: image(late, one), timeout=20)
            assert image(late, one)["reason"] == "wave-waits" and server.asked > 0, image(late, one)
        wait_image(late, name)


@pytest.mark.parametrize("n, values", [pytest.param(60, 450_000, marks=pytest.mark.slow), (1, 200_000)])
def test_large_answers_of_a_mirror_take_little_memory(lab: Lab, name: str, agent: Start, n: int, values: int) -> None:
    """One of 60 has no room for such an answer. That to a single question is read, and not parsed. The agent's start needs more memory than the answers."""
    body = b"[" + b"0," * values + b"0]"
    with contextlib.closing(Hanging("large", answer(b"", "Content-Length: 0", status="404 Not Found"))) as mirror:
        images = [late_name("node", lambda i: f"large.example/app-{k}-{i}@{digest(body)}") for k in range(n)]
        late = agent(config_with([mirror], images, [], None, "node"), wrap=lab.wrap)

        def private() -> int:
            return int(re.search(r"Private_Dirty: +(\d+)", Path(f"/proc/{late.pid}/smaps_rollup").read_text())[1])

        until(lambda: mirror.asked >= 4 * n and abs(private() - (time.sleep(1) or private())) < 200, "its start is over")
        before, asked, samples = private(), mirror.asked, []
        mirror.first = answer(body, f"Content-Length: {len(body)}")
        while mirror.asked < asked + 3 * n and image(late, images[-1])["reason"] != "pull-failed":  # after a yes
            samples.append(private())
        assert max(samples) < before + 8 * SLACK * 1024, (before, max(samples))


K3S = "var/lib/rancher/k3s/agent/etc/containerd/certs.d"


@pytest.mark.parametrize("kind", ["containerd", pytest.param("containerd2", marks=[pytest.mark.containerd2, pytest.mark.slow])])
def test_a_mirror_of_others_is_found_where_the_runtime_looks(lab: Lab, mirror: Mirror, agent: Start, directory: Path, kind: str) -> None:
    """It wants a header and a certificate, which is not the first one of the file."""
    lab.containerd(containerd2() if kind == "containerd2" else None)
    table = "'io.containerd.cri.v1.images'" if kind == "containerd2" else '"io.containerd.grpc.v1.cri"'
    # The transfer service of 2.x uses a list of directories as one name.
    path = f"/{K3S}" if kind == "containerd2" else f"/etc/containerd/none:/{K3S}"
    version = 3 if kind == "containerd2" else 2
    lab.config.write_text(f"version = {version}\n[plugins.{table}.registry]\nconfig_path = '{path}'\n")
    lab.daemons["containerd"].restart()
    lab.wait_for_cri()
    certificates(directory)
    mirror.require(directory, {"X-Team": "a", "X-More": "b"})
    with contextlib.closing(Mirror()) as unused:
        for where, text in (("etc/containerd/certs.d", f"[host.'{unused.url}']\n"), (K3S, HOSTS.format(url=mirror.url, directory=directory))):
            lab.write(f"{where}/registry.example/hosts.toml", text)
        name = "registry.example/team/app:latest"
        late = agent(config(name, node(name, first=False), None, 600), wrap=lab.wrap)
        wait_reason(late, name, "peers-lack-it")
        mirror.status, mirror.location = 307, f"{unused.url}/v2/team/app/manifests/latest"
        until(lambda: (i := image(late, name)) and "answers 307" in i["why"], lambda: image(late, name))
        assert unused.asked == 0 and mirror.asked > 0, "no other host gets the headers"
        (directory / "node.key").unlink()
        row = wait_reason(late, name, "wave-waits")
        assert row["why"].startswith(mirror.url) and "begins at the time of its wave" in row["why"]


HOSTS = """\
server = 'https://other.example'

  [host.'{url}']
  capabilities = ['pull', 'resolve']
  ca = ["{directory}/node.pem", "../../../../../../../../../..{directory}/ca.pem"]
  client = [["{directory}/mirror.pem", "{directory}/mirror.key"], ["{directory}/node.pem", "{directory}/node.key"]]
    [host.'{url}'.header]
    X-Team = "a"
    X-More = ["b"]
  [host.'http://127.0.0.1:1']
  capabilities = ["push"]
"""


def test_docker_asks_the_mirrors_of_its_list_for_docker_io(lab: Lab, mirror: Mirror, agent: Start, directory: Path) -> None:
    """With the certificate that dockerd would use, and without the name of the registry."""
    certificates(directory)
    mirror.require(directory, {})
    for source, target in (("ca.pem", "ca.crt"), ("node.pem", "node.cert"), ("node.key", "node.key")):
        lab.write(f"etc/docker/certs.d/{mirror.url.split('/')[2]}/{target}", (directory / source).read_text())
    lab.write("etc/docker/daemon.json", json.dumps({"registry-mirrors": [mirror.url]}))
    lab.dockerd()
    name, other = "docker.io/library/app:latest", "registry.example/app:latest"
    late = agent(config(f"{name} {other}", node(f"{name} {other}", first=False), None, 600), wrap=lab.wrap)
    wait_reason(late, name, "peers-lack-it")
    assert mirror.last == "HEAD /v2/library/app/manifests/latest"
    assert "its registry has no mirror" in wait_reason(late, other, "wave-waits")["why"]
    mirror.status = 200
    wait_reason(late, name, "peers-have-it")


@pytest.fixture
def network(lab: Lab, agent: Start) -> Iterator[str]:
    """An address outside of 127.0.0.0/8. This thread, runtimes and agents from now on are in its network namespace."""
    name, home = f"mirror-{os.getpid()}", os.readlink("/proc/thread-self/ns/net")
    back = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        for command in ("link set lo up", "addr add 10.77.0.1/32 dev lo"):
            subprocess.run(["ip", "-n", name, *command.split()], check=True)
        enter(f"/run/netns/{name}")
        yield "10.77.0.1"
    finally:
        enter(f"/proc/self/fd/{back}")
        os.close(back)
        assert os.readlink("/proc/thread-self/ns/net") == home
        subprocess.run(["ip", "netns", "del", name], check=True)


@pytest.mark.parametrize("insecure", ["10.77.0.0/24", pytest.param("", marks=pytest.mark.slow), pytest.param("HOST", marks=pytest.mark.slow)])
def test_docker_trusts_its_insecure_registries(network: str, lab: Lab, agent: Start, directory: Path, insecure: str) -> None:
    """The mirror has a certificate of an unknown authority for another address, and refuses the first certificate of the client."""
    with contextlib.closing(Mirror(network)) as mirror:
        certificates(directory)
        mirror.require(directory, {})
        host = mirror.url.split("/")[2]
        for source in ("mirror", "node"):
            for suffix, end in (("pem", "cert"), ("key", "key")):
                lab.write(f"etc/docker/certs.d/{host}/{source}.{end}", (directory / f"{source}.{suffix}").read_text())
        listed = [insecure.replace("HOST", host)] if insecure else []
        lab.write("etc/docker/daemon.json", json.dumps({"registry-mirrors": [mirror.url], "insecure-registries": listed}))
        lab.dockerd()
        name = "docker.io/library/app:latest"
        late = agent(config(name, node(name, first=False), None, 600), wrap=lab.wrap)
        if insecure:
            wait_reason(late, name, "peers-lack-it")
        else:
            until(lambda: (i := image(late, name)) and "certificate" in i["why"], lambda: image(late, name))


def certificates(directory: Path) -> None:
    """Of a CA, the mirror and the node."""
    authority(directory)
    certificate(directory, "mirror", "serverAuth")
    certificate(directory, "node", "clientAuth")


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
