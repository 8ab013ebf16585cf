# SPDX-License-Identifier: Apache-2.0
"""headroom fleet: what a Prometheus tells about all nodes, from a simulated fleet and from a real agent."""

import contextlib
import http.server
import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import Run, Start, free_port, until
from documents import faults
from fleetlab import TOKEN, Fleet, Server
from prometheus import Prometheus

SERIES = 50000


def rows(document: dict[str, Any], key: str) -> dict[str, int]:
    return {row["value"]: row["nodes"] for row in document[key]}


def test_a_real_agent_has_all_series_that_fleet_reads(agent: Start, directory: Path, run: Run) -> None:
    running = agent("mode: observe\nprofile: minimal\ndoctor: {ignore: ['*']}\nimages: {pull: [registry.invalid/app:1]}\n")
    with contextlib.closing(Prometheus(directory, running.port, 3)) as prometheus:
        until(lambda: len(prometheus.query("headroom_build_info")) == 3, "three nodes are scraped")
        done = run("fleet", "--prometheus", f"http://127.0.0.1:{prometheus.port}", "--json")
    document = json.loads(done.stdout)
    assert document["nodes"] == {"reporting": 3, "stopped": 0}
    assert rows(document, "versions") == {running.status()["node"]["version"]: 3}
    assert rows(document, "profiles") == {"minimal": 3}
    assert document["configurations"][0]["value"] and document["verdicts"]["unknown"] == 0
    assert [(row["value"], row["nodes"]) for row in document["images"]] == [("registry.invalid/app:1", 3)]


@pytest.mark.apart
def test_a_fleet_is_counted_grouped_and_compared(directory: Path, run: Run) -> None:
    fleet = Fleet(30)
    fleet.series()
    gone = {"job": "headroom", "instance": "gone"}
    fleet.add("headroom_build_info", 1, age=1800, version="1.0.0", commit="c", **gone)
    fleet.add("up", 0, job="headroom", instance="down")
    crashed = {"job": "a\\\\.(b)", "instance": "crashed"}
    fleet.add("headroom_build_info", 1, age=1800, version="1.0.0", commit="c", **crashed)
    fleet.add("up", 0, **crashed)
    fleet.add("up", 0, job="other", instance="another-program")
    fleet.add("headroom_build_info", 1, version="e\x1b[2Jvil\u202e" + "x" * 200, commit="c", job="headroom", instance="bare")
    # A second replica, the version before a restart, and a node of another cluster with a name that is used.
    fleet.add("headroom_build_info", 1, version="1.0.0", commit="c", job="headroom", instance="node-0005", replica="b", zone="c")
    fleet.add("headroom_build_info", 1, age=60, version="0.9.0", commit="c", job="headroom", instance="node-0005", zone="old")
    east = {"job": "headroom", "cluster": "east", "instance": "node-0000"}
    fleet.add("headroom_build_info", 1, version="1.0.0", commit="c", **east)
    fleet.finding(east, "ConfigInvalid", "config", "warning")
    with contextlib.closing(Server(directory, fleet)) as server:
        done = run(*server.arguments, "--json")
        document = json.loads(done.stdout)
        assert done.returncode == 2 and done.stderr == ""
        views = ([], ["--by", "zone"], ["--diff", "1.0.0", "1.1.0"], ["--finding", "LimitReached", "--by", "zone"])
        assert [fault for view in views for fault in faults("fleet", json.loads(run(*server.arguments, "--json", *view).stdout))] == []
        assert document["nodes"] == {"reporting": 32, "stopped": 3}
        assert document["verdicts"] == {"ok": 18, "warning": 3, "critical": 10, "unknown": 1}
        versions = rows(document, "versions")
        assert versions.pop("1.0.0") == 28 and versions.pop("1.1.0") == 3 and list(versions.values()) == [1]
        assert rows(document, "configurations") == {"0000000a": 27, "0000000b": 3, "": 2}
        assert rows(document, "profiles") == {"kubernetes-node": 29, "etcd": 1, "": 2}
        findings = [(row["condition"], row["severity"], row["nodes"], row["names"]) for row in document["findings"]]
        assert findings == [
            ("SandboxImageMissing", "advice", 30, ["node-0000", "node-0001", "node-0002"]),
            ("LimitReached", "critical", 10, ["node-0000", "node-0003", "node-0006"]),
            ("LimitPressure", "warning", 3, ["node-0000", "node-0010", "node-0020"]),
            ("ConfigInvalid", "warning", 1, ["east/node-0000"]),
        ]
        users = [row["user"] for row in document["findings"]]
        assert users == [None, {"name": "pod shop/api-*", "nodes": 10}, {"name": "unit job.service", "nodes": 3}, None]
        stopped = {row["name"]: (row["why"], bool(row["last_seen"])) for row in document["stopped"]}
        assert stopped == {"down": ("down", False), "gone": ("no target", True), "crashed": ("down", True)}
        first = document["images"][0]
        assert first == {"value": "registry/app:0", "nodes": 30, "ready": 3, "failed": 1}
        assert len(server.queries) == 5 * document["queries"] <= 60
        server.warning = "store \x1b[31m is down"
        partial = run(*server.arguments, "--diff", "1.0.0", "1.1.0")
        assert partial.returncode == 2 and partial.stdout.count("incomplete") == 1 and "\x1b" not in partial.stdout

        direct = ["fleet", "--prometheus", f"http://127.0.0.1:{server.port}"]
        text = run(*direct, env={"COLUMNS": "80"}).stdout
        assert "\x1b" not in text and "\u202e" not in text
        assert max(len(line) for line in text.splitlines()) <= 80, text
        for part in ("32 nodes", "unknown", "shop/api-*", "gone", "28 of 32", "3 of 30"):
            assert part in text, text

        listed = run(*direct, "--finding", "conntrack")
        assert listed.returncode == 2
        assert [line.split()[0] for line in listed.stdout.splitlines()[2:]] == [f"node-{i:04}" for i in range(0, 30, 3)]
        assert run(*direct, "--finding", "PullStuck").returncode == 2  # of one node it is unknown
        unknown = run(*direct, "--finding", "PullSticky")
        assert unknown.returncode == 1 and "headroom explain" in unknown.stderr

        for label, values in (
            ("zone", {"a": 10, "b": 10, "c": 10, "": 2}),
            ("cluster", {"": 31, "east": 1}),
            ("instance", {f"node-{i:04}": 1 + (i == 0) for i in range(30)} | {"bare": 1}),
            ("profile", {"kubernetes-node": 29, "etcd": 1, "": 2}),
            ("hash", {"0000000a": 27, "0000000b": 3, "": 2}),
        ):
            assert rows(json.loads(run(*direct, "--json", "--by", label).stdout), "groups") == values
        groups = json.loads(run(*direct, "--json", "--by", "zone").stdout)["groups"]
        assert [group["verdicts"]["critical"] for group in groups if group["value"] == "a"] == [10]
        diff = json.loads(run(*direct, "--json", "--diff", "1.0.0", "1.1.0").stdout)["diff"]
        assert diff["nodes"] == [28, 3] and diff["rows"][0]["name"] == "LimitPressure pids"
        assert diff["rows"][0]["nodes"] == [0, 3] and diff["rows"][0]["shares"] == [0, 1]
        none = run(*direct, "--by", "zone", "--diff", "a", "d")
        assert none.returncode == 1 and "no node has this zone" in none.stderr


@pytest.mark.slow
@pytest.mark.apart
def test_two_thousand_nodes_need_few_small_queries(directory: Path, run: Run) -> None:
    fleet = Fleet(2000)
    fleet.series()
    with contextlib.closing(Server(directory, fleet)) as server:
        assert "2000 nodes" in run(*server.arguments).stdout
        begin = time.monotonic()
        assert "2000 nodes" in run("fleet", "--prometheus", f"http://127.0.0.1:{server.port}").stdout
        print(f"{time.monotonic() - begin:.2f} s without the proxy, {len(server.queries)} queries")
        assert 0 < len(server.queries) <= 12
        for query in server.queries:
            steps = 61 if "[1h:1m]" in query["query"] else 1
            print(f"{query['series']:6} series, {query['samples']:7} samples: {query['query']}")
            assert query["series"] <= SERIES and query["samples"] / steps <= SERIES


class Fake(http.server.BaseHTTPRequestHandler):
    answer = (200, "")
    counted = ""

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        status, body = (200, self.counted) if self.counted and "vector" in self.path else self.answer
        self.send_response(status)
        self.send_header("Location", "http://127.0.0.1:1/")
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())


def vector(result: str) -> str:
    return f'{{"status":"success","data":{{"resultType":"vector","result":{result}}}}}'


@pytest.mark.apart
def test_errors_name_their_cure_and_never_the_token(directory: Path, run: Run) -> None:
    token = directory / "token"
    token.write_text(TOKEN)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Fake) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        for answer, part in (
            ((401, "no org id"), "--token-file"),
            ((403, "{}"), "X-Scope-OrgID"),
            ((404, "page"), "/prometheus"),
            ((302, ""), "redirects"),
            ((422, '{"status":"error","error":"a \\u001b[31m b"}'), "a "),
            ((503, ""), "try again"),
            ((200, "<html>"), "not that of a Prometheus"),
            ((200, vector("{}")), "not that of a Prometheus"),
            ((200, vector('[{"metric":{},"value":[1]}]')), "without labels or value"),
            ((200, vector('[{"metric":{"a":1},"value":[1,"1"]}]')), "not a text"),
            ((200, vector("[]")), "API"),
            ((200, vector('[{"metric":{},"value":[1,"60000"]}]')), "60000 nodes are too many"),
            ((200, vector('[{"metric":{},"value":[1e300,"1e300"]}]')), "nodes are too many"),
        ):
            Fake.answer = answer
            done = run("fleet", "--prometheus", url, "--token-file", str(token))
            assert done.returncode == 1 and part in done.stderr, f"{answer}: {done.stderr}"
            assert TOKEN not in done.stderr and "\x1b" not in done.stderr and done.stdout == ""
        Fake.answer, Fake.counted = (200, vector("[]")), vector('[{"metric":{},"value":[1,"0"]}]')
        done = run("fleet", "--prometheus", url)
        assert done.returncode == 1 and "no series of Headroom" in done.stderr
        Fake.counted = ""
        Fake.answer = (200, vector('[{"metric":{"severity":"\\u001b[0m","cluster":"' + "é" * 300 + '"},"value":[1e300,"NaN"]}]'))
        done = run("fleet", "--prometheus", url)
        assert done.returncode == 0 and "\x1b" not in done.stdout and "5138-11-16" in done.stdout
        server.shutdown()
    done = run("fleet", "--prometheus", f"http://127.0.0.1:{free_port()}")
    assert done.returncode == 1 and "check the host" in done.stderr
    for bad in ("", "a\nX-Evil: b", "two words"):
        token.write_text(bad)
        done = run("fleet", "--prometheus", "http://127.0.0.1:1", "--token-file", str(token))
        assert done.returncode == 1 and "not a token" in done.stderr
    for arguments in ([], ["--prometheus", "ftp://x"], ["--prometheus", "http://u:p@h/"], ["--prometheus", "http://h/?a=b"]):
        assert run("fleet", *arguments).returncode == 64
    for label in ("a)", "1", ""):
        assert run("fleet", "--prometheus", "http://127.0.0.1:1", "--by", label).returncode == 64
    assert run("fleet", "--prometheus", "http://127.0.0.1:1", "--diff", "a").returncode == 64
