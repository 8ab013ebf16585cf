# SPDX-License-Identifier: Apache-2.0
"""A flood of TLS handshakes that costs its clients nothing: they replay a ClientHello and go away after the reply."""

import multiprocessing
import selectors
import socket
import ssl
import subprocess
from pathlib import Path
from typing import Any

from conftest import free_port, until


def rsa_web_config(directory: Path, bits: int) -> tuple[int, str]:
    """Writes a key, a certificate and a web configuration. Returns a port, and the line of an agent's configuration."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", f"rsa:{bits}", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-keyout", "rsa.key", "-out", "rsa.pem"],
        cwd=directory, check=True, capture_output=True,
    )  # fmt: skip
    (directory / "rsa.yml").write_text("tls_server_config: {cert_file: rsa.pem, key_file: rsa.key}\n")
    port = free_port()
    return port, f'http: {{listen: "127.0.0.1:{port}", web_config: {directory}/rsa.yml}}\n'


def client_hello() -> bytes:
    out = ssl.MemoryBIO()
    context = ssl.create_default_context()
    context.check_hostname = False
    tls = context.wrap_bio(ssl.MemoryBIO(), out)
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return out.read()


class Hellos:
    """Clients that replay a ClientHello and connect again once the server has replied or closed."""

    def __init__(self, port: int, clients: int = 60, source: str = "127.0.0.1") -> None:
        fork = multiprocessing.get_context("fork")
        self.count = fork.Value("l", 0)
        self.process = fork.Process(target=self._flood, args=(port, clients, source), daemon=True)

    def _flood(self, port: int, clients: int, source: str) -> None:
        hello = client_hello()
        selector = selectors.DefaultSelector()

        def connect() -> None:
            client = socket.socket()
            client.setblocking(False)
            client.bind((source, 0))
            client.connect_ex(("127.0.0.1", port))
            selector.register(client, selectors.EVENT_WRITE)

        for _ in range(clients):
            connect()
        while True:
            for key, events in selector.select():
                client: Any = key.fileobj
                try:
                    if events & selectors.EVENT_WRITE:
                        client.send(hello)
                        selector.modify(client, selectors.EVENT_READ)
                        continue
                    if client.recv(1) == b"\x16":  # a handshake message
                        self.count.value += 1
                except OSError:
                    pass
                selector.unregister(client)
                client.close()
                connect()

    def __enter__(self) -> "Hellos":
        self.process.start()
        until(lambda: self.count.value > 5, "the server replies to the flood")
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.join()
