# SPDX-License-Identifier: Apache-2.0
"""HTTP from outside: the real program, promtool, a real Prometheus, and clients that mean no good."""

import contextlib
import http.client
import json
import multiprocessing
import os
import pathlib
import resource
import selectors
import shutil
import socket
import stat
import subprocess
import time
import urllib.parse
import urllib.request

import pytest

BINARY = os.environ.get("HEADROOM_BIN", "build/dev/src/headroom")
OPENMETRICS = "application/openmetrics-text;version=1.0.0"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(check, seconds=20, what="it"):
    """The first true result of check; errors of a server that is not up yet count as false."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError, http.client.HTTPException):
            result = check()
            if result:
                return result
        time.sleep(0.05)
    raise AssertionError(f"{what} did not come within {seconds} s")


@contextlib.contextmanager
def running(command, log):
    with open(log, "wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Agent:
    def __init__(self, process, port, path):
        self.process, self.port, self.path = process, port, path

    def get(self, path, method="GET", headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request(method, path, headers=headers or {})
            response = connection.getresponse()
            return response, response.read().decode()
        finally:
            connection.close()

    def metric(self, name):
        for line in self.get("/metrics")[1].splitlines():
            if line.startswith(name + " "):
                return float(line.split()[1])
        raise AssertionError(f"no {name}")

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


@pytest.fixture(name="agent")
def fixture_agent(tmp_path):
    binary = pathlib.Path(BINARY).resolve()
    if not binary.exists():
        pytest.skip(f"{binary} is not built: set HEADROOM_BIN")
    port, path = free_port(), tmp_path / "run" / "headroom.sock"
    config = tmp_path / "headroom.yaml"
    config.write_text(f'mode: observe\nhttp:\n  listen: "127.0.0.1:{port}"\n  socket: {path}\n')
    command = [binary, "agent", "--observe", "--config", config]
    log = tmp_path / "agent.log"
    with running(command, log) as process:
        agent = Agent(process, port, path)

        def ready():
            assert process.poll() is None, log.read_text()
            return agent.get("/readyz")[0].status == 200

        wait_for(ready, what="/readyz")
        # The DNS programs are loaded beside the start, and bring descriptors of their own.
        wait_for(lambda: json.loads(agent.get("/v1/status")[1])["dns"], what="the DNS programs")
        yield agent


def test_documents(agent):
    for path, kind in [
        ("/livez", "text/plain"),
        ("/healthz", "text/plain"),
        ("/readyz?verbose", "text/plain"),
        ("/health", "application/json"),
        ("/v1/status", "application/json"),
        ("/metrics", "text/plain"),
        ("/", "text/html"),
    ]:
        response, body = agent.get(path)
        assert response.status == 200, path
        assert response.headers["Content-Type"].startswith(kind), path
        assert response.headers["Cache-Control"] == "no-store"
        assert len(body) < 200_000
        head, nothing = agent.get(path, "HEAD")
        assert (head.status, nothing) == (200, "")
    assert json.loads(agent.get("/v1/status")[1])["schema"] == 1
    assert json.loads(agent.get("/health")[1])["status"] in ("ok", "warning", "critical")


def test_tcp_is_read_only(agent):
    for path in ("/v1/apply", "/v1/restore", "/v1/apply?only=thp", "/metrics", "/nothing"):
        response, _ = agent.get(path, "POST")
        assert response.status == 405, path
        assert response.headers["Allow"] == "GET, HEAD"
    assert agent.get("/nothing")[0].status == 404


def test_unix_socket_is_private(agent):
    status = os.stat(agent.path)
    assert stat.S_ISSOCK(status.st_mode)
    assert stat.S_IMODE(status.st_mode) == 0o600
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(agent.path))
        client.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert client.makefile("rb").read().endswith(b"\r\n\r\nok\n")


def test_promtool_finds_no_fault(agent):
    if not shutil.which("promtool"):
        pytest.skip("promtool is not installed: it comes with Prometheus")
    result = subprocess.run(
        ["promtool", "check", "metrics"],
        input=agent.get("/metrics")[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_the_number_of_series_is_bounded(agent):
    lines = [line for line in agent.get("/metrics")[1].splitlines() if not line.startswith("#")]
    names = [line.rsplit(" ", 1)[0] for line in lines]
    assert len(names) == len(set(names))
    assert len(names) <= 300


def test_openmetrics(agent):
    response, body = agent.get("/metrics", headers={"Accept": OPENMETRICS})
    assert response.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert body.endswith("# EOF\n")
    assert "# TYPE process_cpu_seconds counter\n" in body


def test_documents_are_rendered_at_most_once_a_tick(agent):
    """No client can cost more than that: what the agent used so far is the same in each copy."""
    start = time.monotonic()
    seen = [agent.metric("process_cpu_seconds_total") for _ in range(40)]
    ticks = int(time.monotonic() - start) + 2
    assert len(set(seen)) <= ticks, seen


def query(port, expression):
    address = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode(
        {"query": expression}
    )
    with urllib.request.urlopen(address, timeout=5) as response:
        return json.load(response)["data"]["result"]


def test_prometheus_scrapes(agent, tmp_path):
    prometheus = shutil.which("prometheus")
    if not prometheus:
        pytest.skip("prometheus is not installed")
    port = free_port()
    config = tmp_path / "prometheus.yml"
    config.write_text(
        "global: {scrape_interval: 1s, scrape_timeout: 1s}\nscrape_configs:\n"
        f"- {{job_name: headroom, static_configs: [{{targets: ['127.0.0.1:{agent.port}']}}]}}\n"
    )
    command = [
        prometheus,
        f"--config.file={config}",
        f"--storage.tsdb.path={tmp_path / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with running(command, tmp_path / "prometheus.log"):
        up = wait_for(
            lambda: [r for r in query(port, "up") if r["value"][1] == "1"], 60, "the first scrape"
        )
        assert len(up) == 1
        info = query(port, "headroom_build_info")
        assert info[0]["metric"]["version"] and info[0]["value"][1] == "1"
        assert query(port, "headroom_condition == 1")
        kept = query(port, "scrape_samples_scraped - scrape_samples_post_metric_relabeling")
        assert kept[0]["value"][1] == "0"


def slow_clients(port, n, started):
    """n clients: every other only connects, the rest send a byte a second; all come back."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (4 * n, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    text = b"GET /livez HTTP/1.1\r\nHost: x\r\nX-Slow: " + b"a" * 4000
    selector = selectors.DefaultSelector()
    again = []

    def connect(i):
        client = socket.socket()
        client.setblocking(False)
        client.connect_ex(("127.0.0.1", port))
        selector.register(client, selectors.EVENT_READ, [i, 0])

    for i in range(n):
        connect(i)
    started.set()
    tick = time.monotonic()
    while True:
        for key, _ in selector.select(0.05):
            selector.unregister(key.fileobj)
            key.fileobj.close()
            again.append((time.monotonic() + 1, key.data[0]))
        now = time.monotonic()
        for when, i in [entry for entry in again if entry[0] <= now]:
            again.remove((when, i))
            connect(i)
        if now < tick + 1:
            continue
        tick = now
        for key in list(selector.get_map().values()):
            if key.data[0] % 2:
                with contextlib.suppress(OSError):
                    key.fileobj.send(text[key.data[1] : key.data[1] + 1])
                    key.data[1] += 1


def test_slow_clients_do_not_delay_others(agent):
    descriptors = agent.descriptors()
    started = multiprocessing.Event()
    crowd = multiprocessing.Process(target=slow_clients, args=(agent.port, 1000, started))
    crowd.start()
    try:
        assert started.wait(20)
        latencies = []
        end = time.monotonic() + 8
        while time.monotonic() < end:
            start = time.monotonic()
            response, body = agent.get("/livez")
            latencies.append(time.monotonic() - start)
            assert (response.status, body) == (200, "ok\n")
            time.sleep(0.02)
    finally:
        crowd.terminate()
        crowd.join()
    latencies.sort()
    # One in a hundred is left to the scheduler: the crowd itself needs the same processors.
    assert latencies[len(latencies) * 99 // 100 - 1] < 0.05
    wait_for(lambda: agent.descriptors() <= descriptors + 1, 15, "the end of all connections")


def test_a_request_has_ten_seconds(agent):
    with socket.create_connection(("127.0.0.1", agent.port)) as client:
        start = time.monotonic()
        client.settimeout(0.25)
        text = b"GET /livez HTTP/1.1\r\nX-Slow: " + b"a" * 1000
        for i in range(len(text)):
            assert time.monotonic() < start + 12
            try:
                client.sendall(text[i : i + 1])
                if client.recv(1) == b"":
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        assert 9.5 < time.monotonic() - start < 11.5


def scrape(agent, n, kept):
    connection = None
    for _ in range(n):
        connection = connection or http.client.HTTPConnection("127.0.0.1", agent.port, timeout=5)
        connection.request("GET", "/metrics", headers={"Accept": OPENMETRICS})
        response = connection.getresponse()
        assert response.status == 200
        response.read()
        if not kept:
            connection.close()
            connection = None
    if connection:
        connection.close()


def test_scrapes_leak_nothing(agent):
    scrape(agent, 500, kept=True)
    scrape(agent, 500, kept=False)
    memory = agent.metric("process_resident_memory_bytes")
    descriptors = agent.descriptors()
    cpu = agent.metric("process_cpu_seconds_total")
    scrape(agent, 5000, kept=True)
    scrape(agent, 5000, kept=False)
    assert agent.metric("process_resident_memory_bytes") - memory < 256 * 1024
    assert agent.descriptors() <= descriptors + 1
    # A sanitizer's build costs several times as much as what is installed.
    print(f"CPU per scrape: {(agent.metric('process_cpu_seconds_total') - cpu) / 10000 * 1e6:.0f} us")
