# SPDX-License-Identifier: Apache-2.0
"""The HTTP endpoint: documents, metrics and hostile clients."""

import contextlib
import http.client
import multiprocessing
import os
import re
import resource
import selectors
import socket
import threading
import time

import pytest
from conftest import ROOT, UnixConnection, until

OPENMETRICS = "application/openmetrics-text;version=1.0.0"


@pytest.fixture(name="one")
def fixture_one(agent):
    one = agent("mode: observe")
    # The DNS programs load in the background and open descriptors.
    until(lambda: one.status()["dns"], "the DNS programs are loaded")
    return one


def get(one, path, method="GET", headers=None):
    """The response over TCP, and its body."""
    connection = http.client.HTTPConnection("127.0.0.1", one.port, timeout=5)
    with contextlib.closing(connection):
        connection.request(method, path, headers=headers or {})
        response = connection.getresponse()
        return response, response.read().decode()


def sockets(one):
    found = 0
    for file in os.scandir(f"/proc/{one.process.pid}/fd"):
        with contextlib.suppress(OSError):
            found += os.readlink(file.path).startswith("socket:")
    return found


def test_fleet_md_has_about_the_series_of_a_quiet_agent(one):
    documented = int(re.search(r"^\| series \| (\d+) \|", (ROOT / "deploy/FLEET.md").read_text(), re.M)[1])
    series = sum(not line.startswith("#") for line in get(one, "/metrics")[1].splitlines())
    assert documented / 2 < series < documented * 2


@pytest.mark.parametrize(
    "path,kind,begin",
    [
        ("/livez", "text/plain; charset=utf-8", "ok\n$"),
        ("/healthz", "text/plain; charset=utf-8", "ok\n$"),
        ("/readyz", "text/plain; charset=utf-8", "ok\n$"),
        ("/readyz?verbose", "text/plain; charset=utf-8", r"\[\+\] applied\n\[\+\] neighbor: active\n"),
        ("/health", "application/json", '{"status":"(ok|warning|critical)","checks":'),
        ("/v1/status", "application/json", '{"schema":1,'),
        ("/metrics", "text/plain; version=0.0.4; charset=utf-8", "# HELP headroom_build_info "),
        ("/", "text/html; charset=utf-8", "<!doctype html>"),
    ],
)
def test_documents_have_type_headers_and_content(one, path, kind, begin):
    response, body = get(one, path)
    assert (response.status, response.headers["Content-Type"]) == (200, kind)
    assert response.headers["Cache-Control"] == "no-store" and response.headers["X-Content-Type-Options"] == "nosniff"
    assert re.match(begin, body) and len(body) < 200_000
    assert ("default-src 'none'; " in response.headers.get("Content-Security-Policy", "")) == (path == "/")
    head, nothing = get(one, path, "HEAD")
    assert (head.status, nothing) == (200, "")
    code, local = one.get(path)
    assert code == 200 and re.match(begin, local)


def test_tcp_is_read_only(one):
    for path in ("/v1/apply", "/v1/restore", "/v1/apply?only=thp", "/metrics", "/livez", "/nothing"):
        response, _ = get(one, path, "POST")
        assert response.status == 405, path
        assert response.headers["Allow"] == "GET, HEAD"
    assert get(one, "/nothing")[0].status == 404


@pytest.mark.parametrize("host", ["localhost:80", "LocalHost", "127.0.0.1", "127.9.9.9:1", "[::1]", "[::1]:19810", "10.0.0.1:9", None])
def test_a_loopback_address_answers_under_its_own_names(one, host):
    """An address as the Host is that of a proxy's client."""
    host = host or f"{one.status()['node']['name']}:{one.port}"
    assert get(one, "/v1/status", headers={"Host": host})[0].status == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.1.evil", ""])
def test_a_loopback_address_refuses_other_names(one, host):
    """A website whose name resolves to 127.0.0.1 (DNS rebinding) cannot read the documents."""
    for path in ("/v1/status", "/", "/livez"):
        response, body = get(one, path, headers={"Host": host})
        assert response.status == 421 and "Host" in body
    assert get(one, "/livez")[0].status == 200


def test_an_address_in_use_is_not_in_the_line_of_the_start(one, agent):
    config = f'mode: observe\nhttp: {{listen: "127.0.0.1:{one.port}"}}'
    second = agent(config, name="second")
    until(lambda: " on no port and no socket; " in second.log, lambda: second.log)


def test_the_number_of_series_is_bounded(one):
    """A quiet node has at most 300 series and 25 kB. A family without a sample has no lines."""
    lines = get(one, "/metrics")[1].splitlines()
    names = [line.rsplit(" ", 1)[0] for line in lines if not line.startswith("#")]
    assert len(names) == len(set(names))
    families = [line.split()[2] for line in lines if line.startswith("# HELP")]
    assert [family for family in families if not any(name.startswith(family) for name in names)] == []
    # The node of the tests has any number of disks, name servers and users: a quiet node has 50 series and 4 kB of them.
    quiet = [line for line in lines if not re.search("device=|server=|namespace=", line)]
    assert len([line for line in quiet if not line.startswith("#")]) <= 250
    assert len("\n".join(quiet)) <= 21_000


def test_the_number_of_descriptors_is_that_of_proc(one):
    until(lambda: one.metrics()["process_open_fds"] == len(os.listdir(f"/proc/{one.process.pid}/fd")), "the same number")


def test_openmetrics_is_served_on_request(one):
    response, body = get(one, "/metrics", headers={"Accept": OPENMETRICS})
    assert response.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert body.endswith("# EOF\n")
    assert "# TYPE process_cpu_seconds counter\n" in body


def test_documents_are_rendered_at_most_once_a_tick(one):
    """All copies of a document within a tick show the same CPU time."""
    start = time.monotonic()
    seen = [one.metrics()["process_cpu_seconds_total"] for _ in range(40)]
    ticks = int(time.monotonic() - start) + 2
    assert len(set(seen)) <= ticks, seen


def slow_clients(port, n, started):
    """n clients that connect again when closed. Half of them send a byte a second, the others nothing."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (4 * n, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    text = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Slow: " + b"a" * 4000
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


def test_slow_clients_do_not_delay_others(one):
    before = sockets(one)
    started = multiprocessing.Event()
    crowd = multiprocessing.Process(target=slow_clients, args=(one.port, 1000, started))
    crowd.start()
    try:
        assert started.wait(20)
        latencies = []
        end = time.monotonic() + 4
        while time.monotonic() < end:
            start = time.monotonic()
            response, body = get(one, "/livez")
            latencies.append(time.monotonic() - start)
            assert (response.status, body) == (200, "ok\n")
            time.sleep(0.02)
    finally:
        crowd.terminate()
        crowd.join()
    latencies.sort()
    # A request of a slow client may take ten seconds. The slow clients need the same CPUs.
    assert latencies[len(latencies) * 99 // 100 - 1] < 1
    until(lambda: sockets(one) <= before + 1, "the end of all connections")


@pytest.mark.slow
def test_a_request_has_ten_seconds(one):
    with socket.create_connection(("127.0.0.1", one.port)) as client:
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


def scrape(one, n, kept):
    """Scrapes over one connection to the socket, or probes over n TCP connections: neither has a budget."""
    connection = UnixConnection(str(one.socket_path)) if kept else None
    for _ in range(n):
        connection = connection or http.client.HTTPConnection("127.0.0.1", one.port, timeout=5)
        connection.request("GET", "/metrics" if kept else "/livez", headers={"Accept": OPENMETRICS})
        response = connection.getresponse()
        assert response.status == 200
        response.read()
        if not kept:
            connection.close()
            connection = None
    if connection:
        connection.close()


def closed_loop(port, seconds):
    """60 clients that send their next request when the answer has come."""

    def client():
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        while time.monotonic() < end:
            connection.request("GET", "/v1/status", headers={"Accept-Encoding": "gzip"})
            connection.getresponse().read()

    end = time.monotonic() + seconds
    for _ in range(60):
        threading.Thread(target=client).start()


@pytest.mark.slow
def test_sixty_kept_connections_cost_little(one):
    crowd = multiprocessing.Process(target=closed_loop, args=(one.port, 8))
    crowd.start()
    time.sleep(3)  # each connection may begin with a burst
    before, start = one.metrics()["process_cpu_seconds_total"], time.monotonic()
    time.sleep(4)
    share = (one.metrics()["process_cpu_seconds_total"] - before) / (time.monotonic() - start)
    crowd.join()
    print(f"{share:.1%} of a CPU")
    assert share < 0.2


def test_scrapes_leak_nothing(one):
    scrape(one, 500, kept=True)
    scrape(one, 500, kept=False)
    memory = one.metrics()["process_resident_memory_bytes"]
    before = sockets(one)
    cpu = one.metrics()["process_cpu_seconds_total"]
    scrape(one, 5000, kept=True)
    scrape(one, 5000, kept=False)
    assert one.metrics()["process_resident_memory_bytes"] - memory < 256 * 1024
    until(lambda: sockets(one) <= before + 1, "the connections are closed")
    print(f"CPU per scrape: {(one.metrics()['process_cpu_seconds_total'] - cpu) / 10000 * 1e6:.0f} us")
