# SPDX-License-Identifier: Apache-2.0
"""Hostile answers to the check of a mirror have one reason each, and the other mirrors stay."""

import contextlib
import re
import ssl
import zlib
from pathlib import Path

from conftest import SLACK, until
from runtimelab import Lab, lab, watcher  # noqa: F401
from test_images_waves import Hanging, answer
from test_runtime import Watcher
from test_runtime_mirrors import mirrors
from test_web_config import authority, certificate

PAGE = b"<!DOCTYPE html><title>Please log in</title>"
CHALLENGE = "401 Unauthorized"


def bomb(size: int) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return packer.compress(bytes(size)) + packer.flush()


def redirect(location: str) -> bytes:
    return answer(b"", f"Location: {location}", "Content-Length: 0", status="307 Temporary Redirect")


# The bytes that a mirror sends, those that it then repeats, the pause before each, and why it is down. None: it is up.
ANSWERS: dict[str, tuple[bytes, bytes, float, str | None]] = {
    "body": (answer(b"", "Transfer-Encoding: chunked"), b"1000\r\n" + bytes(4096) + b"\r\n", 0, "the answer is too large"),
    "body-until-close": (answer(b""), bytes(4096), 0, "the answer is too large"),
    "headers": (b"HTTP/1.1 200 OK\r\n", b"A: " + 1000 * b"a" + b"\r\n", 0, "the answer is too large"),
    "status-line": (b"HTTP/1.1 200 ", 1000 * b"a", 0, "large|header"),
    "continue": (b"", answer(b"", status="100 Continue"), 0, "the answer is too large"),
    "trailers": (answer(b"0\r\n", "Transfer-Encoding: chunked"), b"A: " + 1000 * b"a" + b"\r\n", 0, "large"),
    "redirect-loop": (redirect("/loop"), b"", 0, "redirects followed"),
    "redirect-file": (redirect("file:///etc/passwd"), b"", 0, '"file" not supported'),
    "challenge-endless": (f"HTTP/1.1 {CHALLENGE}\r\nWWW-Authenticate: Bearer realm=".encode(), 1000 * b"a", 0, "large|header"),
    "challenge-many": (f"HTTP/1.1 {CHALLENGE}\r\n".encode(), b"WWW-Authenticate: Basic\r\n", 0, "the answer is too large"),
    "challenge-odd": (answer(b"", 'WWW-Authenticate: Bearer realm="\x01,,=', "Content-Length: 0", status=CHALLENGE), b"", 0, None),
    "token": (answer(b'{"token": "' + (1 << 20) * b"a" + b'"}', status=CHALLENGE), b"", 0, "the answer is too large"),
    "page": (answer(PAGE, "Content-Type: text/html", f"Content-Length: {len(PAGE)}"), b"", 0, "answers with a web page"),
    "page-without-type": (answer(b" \r\n" + PAGE), b"", 0, "answers with a web page"),
    "page-of-401": (answer(PAGE, "Content-Type: text/html", status=CHALLENGE), b"", 0, None),
    "other-type": (answer(b"true", "Content-Type: text/html", "Content-Length: 4"), b"", 0, None),
    "bomb": (answer(bomb(40 << 20), "Content-Encoding: gzip"), b"", 0, None),
    "drop-by-drop": (answer(b"", "Content-Length: 1000"), b"a", 1, "no answer within 2 s"),
    "silent": (b"", b"", 1, "no answer within 2 s"),
    "closed": (b"", b"", 0, "."),
    "length-too-large": (answer(b"{}", "Content-Length: 1000"), b"", 0, "."),
    "length-too-small": (answer(1000 * b"{", "Content-Length: 2"), b"", 0, None),
    "length-negative": (answer(b"{}", "Content-Length: -1"), b"", 0, "."),
    "http-1.0": (b"HTTP/1.0 200 OK\r\n\r\n{}", b"", 0, None),
    "http-0.9": (b"{}\n", b"", 0, "HTTP/0.9"),
    "later": (answer(b"", f"Retry-After: {9**20}", "Content-Length: 0", status="429 Too Many Requests"), b"", 0, "GET /v2/ answers 429"),
    "not-http": (b"\x00\x00\x12\x04\x00\x00\x00\x00\x00", b"", 0, "."),
}  # fmt: skip

# The address of a mirror whose certificate is for 127.0.0.1, who issued it, and why the mirror is down.
TLS = {
    "tls": ("127.0.0.1", "ca", None),
    "tls-name": ("127.0.0.2", "ca", "does not trust its certificate"),
    "tls-issuer": ("127.0.0.1", "other", "does not trust its certificate"),
}


def private_kib(pid: int) -> int:
    match = re.search(r"Private_Dirty: +(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text())
    assert match
    return int(match[1])


def test_hostile_mirrors_have_one_reason_each_and_the_others_stay(lab: Lab, watcher: Watcher, directory: Path) -> None:
    servers, reasons, urls = {}, {}, {}
    with contextlib.ExitStack() as stack:

        def serve(way: str, first: bytes, then: bytes, pause: float, why: str | None, host: str = "127.0.0.1") -> Hanging:
            servers[way] = server = stack.enter_context(contextlib.closing(Hanging(way, first, then, pause, host)))
            reasons[way], urls[way] = why, server.registry["url"]
            return server

        lost = stack.enter_context(contextlib.closing(Hanging("lost")))
        serve("redirect", redirect(f"{lost.registry['url']}/v2/lost"), b"", 0, "Empty reply")
        for way, form in ANSWERS.items():
            serve(way, *form)
        for authority_name in ("ca", "other"):
            authority(directory, authority_name)
        lab.write("etc/ssl/certs/ca-certificates.crt", (directory / "ca.pem").read_text())
        for way, (host, issuer, why) in TLS.items():
            server = serve(way, answer(b"{}", "Content-Length: 2"), b"", 0, why, host)
            certificate(directory, way, "serverAuth", issuer)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(directory / f"{way}.pem", directory / f"{way}.key")
            server.socket = context.wrap_socket(server.socket, server_side=True)
            urls[way] = urls[way].replace("http:", "https:")
        lab.containerd()
        running = watcher(mirrors(*((f"{way}.example", url) for way, url in urls.items())))

        def seen() -> dict[str, tuple[str, str]]:
            return {one["url"]: (one["state"], one["why"]) for one in running.status()["runtime"]["mirrors"]}

        until(lambda: len(seen()) == len(urls) and all(state != "unknown" for state, _ in seen().values()), lambda: str(seen()))
        found = {one["name"]: one["state"] for one in running.status()["runtime"]["found"]}
        assert found["containerd"] == "answers", "mirrors leave no time to ask it"
        wrong = {}
        for way, why in reasons.items():
            state, told = seen()[urls[way]]
            if state != ("up" if why is None else "down") or (not re.search(why, told) if why else told):
                wrong[way] = (state, told)
        assert not wrong
        up = {f"{way}.example" for way, why in reasons.items() if why is None}
        until(lambda: {path.parent.name for path in lab.certs.glob("*/hosts.toml")} == up, lambda: str(list(lab.certs.glob("*"))))
        before = peak = private_kib(running.pid)
        rounds = [server.connections for server in servers.values()]
        while any(server.connections == count for server, count in zip(servers.values(), rounds)):
            peak = max(peak, private_kib(running.pid))
        assert peak < before + 4 * SLACK * 1024, (before, peak)
        assert lost.connections > 0, "it follows a redirect, as containerd does"
        assert running.stop() == 0
