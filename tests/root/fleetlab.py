# SPDX-License-Identifier: Apache-2.0
"""A simulated fleet: a Prometheus with the series of many nodes, behind a proxy that counts what is asked."""

import http.server
import json
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from conftest import end, free_port, spawn, until
from dnslab import need

TOKEN, TENANT, PREFIX = "let-me-in", "shop", "/prometheus"


class Fleet:
    """Every third node has conntrack full, every tenth is on the new version; see series()."""

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes
        self.now = time.time()
        self.lines: list[tuple[str, str]] = []

    def add(self, metric: str, value: float, age: float = 0, **labels: str) -> None:
        text = ",".join(f'{key}="{text}"' for key, text in labels.items())
        self.lines.append((metric, f"{metric}{{{text}}} {value} {self.now - age:.3f}"))

    def series(self) -> None:
        for i in range(self.nodes):
            node = {"job": "headroom", "instance": f"node-{i:04}", "zone": "abc"[i % 3]}
            new = i % 10 == 0
            self.add("headroom_build_info", 1, version="1.1.0" if new else "1.0.0", commit="c", **node)
            profile = "etcd" if i % 100 == 0 else "kubernetes-node"
            self.add("headroom_config_info", 1, hash="0000000b" if new else "0000000a", profile=profile, **node)
            self.add("up", 1, **node)
            for k in range(28):
                condition = "AgentDegraded" if k == 0 else f"Condition{k}"
                self.add("headroom_condition", int(k == 1 and i % 3 == 0), condition=condition, **node)
            if i % 3 == 0:
                self.finding(node, "LimitReached", "conntrack", "critical", "pod", "shop", f"api-7d9f8b6c5-{'bcdfg' if i % 2 else 'x2x4z'}")
            if new:
                self.finding(node, "LimitPressure", "pids", "warning", "unit", "", "job.service")
            self.finding(node, "SandboxImageMissing", "pause", "advice")
            for image in range(5):
                for state in ("pending", "active", "ready", "failed"):
                    is_state = state == ("failed" if i == 1 and image == 0 else "ready" if new or image else "pending")
                    self.add("headroom_image_preload", int(is_state), image=f"registry/app:{image}", state=state, wave="0", **node)

    def finding(self, node: dict[str, str], condition: str, object_: str, severity: str, kind="", namespace="", name="") -> None:
        self.add("headroom_finding", 1, condition=condition, object=object_, severity=severity, kind=kind,
                 namespace=namespace, name=name, **node)  # fmt: skip

    def store(self, directory: Path) -> None:
        lines = sorted(self.lines, key=lambda line: line[0])
        (directory / "fleet.txt").write_text("".join(f"{line}\n" for _, line in lines) + "# EOF\n")
        command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", directory / "fleet.txt", directory / "tsdb"]
        subprocess.run(command, check=True, capture_output=True)


class Server:
    """A Prometheus with the series of a fleet. The proxy wants a token and a tenant, over TLS, below a prefix."""

    def __init__(self, directory: Path, fleet: Fleet) -> None:
        need("prometheus")
        fleet.store(directory)
        (directory / "prometheus.yml").write_text("{}")
        self.port = free_port()
        options = {
            "config.file": directory / "prometheus.yml",
            "storage.tsdb.path": directory / "tsdb",
            "web.listen-address": f"127.0.0.1:{self.port}",
        }
        self.process = spawn(["prometheus", *(f"--{name}={value}" for name, value in options.items())], directory / "log")
        until(lambda: self.ask("query=vector(1)")[0] == 200, "Prometheus is ready")
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
             "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "proxy.key", "-out", "proxy.pem"],
            cwd=directory, check=True, capture_output=True,
        )  # fmt: skip
        self.queries: list[dict[str, Any]] = []
        self.warning = ""
        self.proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(directory / "proxy.pem", directory / "proxy.key")
        self.proxy.socket = context.wrap_socket(self.proxy.socket, server_side=True)
        threading.Thread(target=self.proxy.serve_forever, daemon=True).start()
        self.url = f"https://127.0.0.1:{self.proxy.server_port}{PREFIX}/"
        (directory / "token").write_text(TOKEN + "\n")
        self.arguments = ["fleet", "--prometheus", self.url, "--ca", str(directory / "proxy.pem"),
                          "--token-file", str(directory / "token"), "--header", f"X-Scope-OrgID: {TENANT}"]  # fmt: skip

    def ask(self, query: str) -> tuple[int, bytes]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/query?{query}", timeout=20) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()
        except OSError:
            return 0, b""

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                path, _, query = self.path.partition("?")
                if path != f"{PREFIX}/api/v1/query":
                    status, body = 404, b"page not found"
                elif self.headers["Authorization"] != f"Bearer {TOKEN}" or self.headers["X-Scope-OrgID"] != TENANT:
                    status, body = 401, b"no org id"
                else:
                    status, body = server.ask(query + "&stats=all")
                    document = json.loads(body)
                    data = document["data"]
                    server.queries.append({
                        "query": urllib.parse.parse_qs(query)["query"][0],
                        "series": len(data["result"]),
                        "samples": data.pop("stats")["samples"]["totalQueryableSamples"],
                    })
                    if server.warning:
                        document["warnings"] = [server.warning]
                    body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        return Handler

    def close(self) -> None:
        self.proxy.shutdown()
        self.proxy.server_close()
        end(self.process)
