# SPDX-License-Identifier: Apache-2.0
"""Two network namespaces with DNS between them, cgroups like those of a kubelet, real servers and a real client.

A socket belongs to the namespace and the cgroup that created it. The tests create sockets inside (Lab.udp, Lab.tcp) and use
them from outside. Programs start with nsenter, because `ip netns exec` mounts a new /sys without the cgroups.
"""

import contextlib
import errno
import os
import re
import secrets
import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest
from conftest import SLACK, Agent, Run, Start, end, until, wait_for_other_agents
from dnswire import A, Server, framed, query
from storm import enter, ip

SO_RCVBUFFORCE = 33  # linux/socket.h
# Concurrent runs have different namespaces.
CLIENT, SERVER = f"hr-dns-client-{os.getpid()}", f"hr-dns-server-{os.getpid()}"
V4, V6 = "10.54.0.{}", "fd00:54::{}"  # addresses of servers
OURS = ("10.53.", "10.54.", "fd00:53:", "fd00:54:")
QUIET = "mode: observe\nneighbor: {mode: off}\nthp: {mode: off}\nsysctl: {}\nruntime: {mode: off}\n"


def cgroup_root() -> Path:
    """The mount point of the kernel's cgroup2 root."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        words = line.split()
        if words[words.index("-") + 1] == "cgroup2" and words[3] == "/" and os.stat(words[4]).st_ino == 1:
            return Path(words[4])
    pytest.skip("no cgroup2 root is mounted here")


class Cgroup:
    """A cgroup of the test, with its parents. `with` moves this process into it, one thread after the other."""

    moving = threading.RLock()
    made: set[Path] = set()  # all directories that the tests have made: cgroups share parents

    def __init__(self, path: str) -> None:
        self.root = cgroup_root()
        self.path = self.root / path.strip("/")
        for directory in (*reversed(self.path.parents), self.path):
            if not directory.exists():
                directory.mkdir()
                self.made.add(directory)

    def __enter__(self) -> "Cgroup":
        self.moving.acquire()
        (self.path / "cgroup.procs").write_text("0")
        return self

    def __exit__(self, *_: object) -> None:
        (self.root / "cgroup.procs").write_text("0")
        self.moving.release()

    def remove(self) -> None:
        """Removes the directories that no other cgroup needs. EBUSY: the last process has not been reaped yet."""

        def removed(directory: Path) -> bool:
            try:
                directory.rmdir()
            except OSError as error:
                return error.errno == errno.ENOENT
            return True

        for directory in (self.path, *self.path.parents):
            if directory not in self.made or any(entry.is_dir() for entry in directory.iterdir()):
                break
            until(lambda: removed(directory), f"{directory} is removed", timeout=20)
            self.made.remove(directory)


def pod_path(uid: str = "", container: str = "", systemd: bool = False) -> tuple[str, str, str]:
    """The cgroup path of a pod as the kubelet names it, the pod's uid and the container's id."""
    uid = uid or "{}-{}-{}-{}-{}".format(*(secrets.token_hex(n) for n in (4, 2, 2, 2, 6)))
    container = container or secrets.token_hex(32)
    if systemd:
        slice_name = f"kubepods-burstable-pod{uid.replace('-', '_')}.slice"
        path = f"kubepods.slice/kubepods-burstable.slice/{slice_name}/cri-containerd-{container}.scope"
    else:
        path = f"kubepods/burstable/pod{uid}/{container}"
    return path, uid, container


class Lab:
    """The two namespaces with a veth pair between them, and the programs in them."""

    def __init__(self) -> None:
        self.processes: list[subprocess.Popen[str]] = []
        self.servers: list[Server] = []
        self.cgroups: list[Cgroup] = []
        self.number = 0
        for name in (CLIENT, SERVER):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("link", "add", "dns0", "netns", CLIENT, "type", "veth", "peer", "name", "dns0", "netns", SERVER)
        for name, last in ((CLIENT, 1), (SERVER, 2)):
            ip("-n", name, "addr", "add", f"10.53.0.{last}/24", "dev", "dns0")
            ip("-n", name, "addr", "add", f"fd00:53::{last}/64", "dev", "dns0", "nodad")
            ip("-n", name, "link", "set", "dns0", "up")
        # The server's namespace owns all addresses of these networks, so that a test can listen on any of them.
        for network, via in (("10.54.0.0/16", "10.53.0.2"), ("fd00:54::/64", "fd00:53::2")):
            ip("-n", CLIENT, "route", "add", network, "via", via)
            ip("-n", SERVER, "route", "add", "local", network, "dev", "lo")
        self.run(SERVER, "sysctl", "-qw", "net.ipv6.ip_nonlocal_bind=1")

    def end(self) -> None:
        """Ends the programs of a test and removes its cgroups. The namespaces stay for the next test."""
        with contextlib.ExitStack() as stack:
            for group in self.cgroups:
                stack.callback(group.remove)
            for process in self.processes:
                stack.callback(end, process)
            for server in self.servers:
                stack.callback(server.close)
            self.servers, self.processes, self.cgroups = [], [], []

    def close(self) -> None:
        self.end()
        for name in (CLIENT, SERVER):
            ip("netns", "del", name, check=False)

    def cgroup(self, path: str) -> Cgroup:
        self.cgroups.append(Cgroup(path))
        return self.cgroups[-1]

    @staticmethod
    def raw(where: str, *kind: int, group: Cgroup | None = None) -> socket.socket:
        """A socket that belongs to this namespace and this cgroup."""
        made: list[socket.socket] = []

        def make() -> None:
            enter(f"/run/netns/{where}")  # affects this thread only
            made.append(socket.socket(*kind))

        with group or contextlib.nullcontext():
            thread = threading.Thread(target=make)
            thread.start()
            thread.join()
        made[0].settimeout(5 * SLACK)
        return made[0]

    def server(self, *addresses: str) -> Server:
        """A server that behaves as the queried names say (see dnswire)."""
        udp, tcp = [], []
        for address in addresses:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            for kind, into in ((socket.SOCK_DGRAM, udp), (socket.SOCK_STREAM, tcp)):
                s = self.raw(SERVER, family, kind)
                s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                s.bind((address, 53))
                if kind == socket.SOCK_STREAM:
                    s.listen(64)
                else:
                    s.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 22)  # a busy machine may answer late
                into.append(s)
        self.servers.append(Server(udp, tcp))
        return self.servers[-1]

    def serve(self, *numbers: int) -> Any:
        """Starts a server at V4.format(number), and returns its address or its list of addresses."""
        addresses = [V4.format(number) for number in numbers]
        self.server(*addresses)
        return addresses if len(numbers) > 1 else addresses[0]

    def udp(self, group: Cgroup | None = None, family: int = socket.AF_INET, source: str = "") -> "Client":
        s = self.raw(CLIENT, family, socket.SOCK_DGRAM, group=group)
        s.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 24)
        s.bind((source, 0))
        return Client(s)

    def tcp(self, server: str, group: Cgroup | None = None) -> "Client":
        family = socket.AF_INET6 if ":" in server else socket.AF_INET
        s = self.raw(CLIENT, family, socket.SOCK_STREAM, group=group)
        s.connect((server, 53))
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return Client(s)

    @contextlib.contextmanager
    def more_addresses(self, *addresses: str) -> Iterator[None]:
        """The server's namespace also owns these addresses within this context."""
        for address in addresses:
            ip("-n", SERVER, "route", "add", "local", address, "dev", "lo")
            ip("-n", CLIENT, "route", "add", address, "via", "fd00:53::2" if ":" in address else "10.53.0.2")
        try:
            yield
        finally:
            for address in addresses:
                ip("-n", CLIENT, "route", "del", address)
                ip("-n", SERVER, "route", "del", "local", address, "dev", "lo")

    @staticmethod
    def run(where: str, *command: str) -> None:
        subprocess.run(["nsenter", f"--net=/run/netns/{where}", *command], check=True, capture_output=True)

    def start(self, where: str, *command: str, group: Cgroup | None = None) -> subprocess.Popen[str]:
        with group or contextlib.nullcontext():
            process = subprocess.Popen(
                ["nsenter", f"--net=/run/netns/{where}", *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        self.processes.append(process)
        return process

    def answers(self, address: str, where: str = CLIENT) -> None:
        """Waits until a server answers."""

        def ask() -> bool:
            s = self.raw(where, socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
            with Client(s) as client, contextlib.suppress(OSError):
                s.settimeout(0.2)
                return bool(client.ask(address, "ok.example.test"))
            return False

        until(ask, f"{address} answers")

    def unbound(self, directory: Path, *addresses: str) -> None:
        """Starts a server that answers everything below example.test from memory."""
        need("unbound")
        config = directory / "unbound.conf"
        lines = [f"  interface: {address}" for address in addresses]
        config.write_text(
            'server:\n  username: ""\n  chroot: ""\n  pidfile: ""\n  use-syslog: no\n  do-daemonize: no\n'
            f'  directory: "{directory}"\n  num-threads: 1\n  incoming-num-tcp: 100\n  so-rcvbuf: 4m\n  so-sndbuf: 4m\n'
            '  module-config: "iterator"\n  access-control: 0.0.0.0/0 allow\n  access-control: ::/0 allow\n'
            '  local-zone: "example.test." redirect\n  local-data: "example.test. 60 IN A 192.0.2.1"\n'
            '  local-data: "example.test. 60 IN AAAA 2001:db8::1"\n' + "\n".join(lines) + "\n"
        )
        self.start(SERVER, "unbound", "-d", "-c", str(config))
        for address in addresses:
            self.answers(address)

    def dnsmasq(self, where: str, address: str, *upstreams: str, group: Cgroup | None = None) -> None:
        """Starts a forwarder without a cache."""
        need("dnsmasq")
        self.start(
            where, "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--user=root",
            "--pid-file=", "--cache-size=0", "--bind-interfaces", f"--listen-address={address}", "--log-facility=-",
            *(f"--server={one}" for one in upstreams), group=group,
        )  # fmt: skip
        self.answers(address, where)

    def dnsperf(self, directory: Path, server: str, *options: str, group: Cgroup | None = None) -> "Perf":
        """Runs dnsperf until it exits."""
        return self.dnsperf_start(directory, server, *options, group=group).result()

    def dnsperf_start(self, directory: Path, server: str, *options: str, group: Cgroup | None = None) -> "Perf":
        need("dnsperf")
        names = directory / "names.txt"
        if not names.exists():
            names.write_text("".join(f"host{i}.example.test {kind}\n" for i in range(500) for kind in ("A", "AAAA")))
        return Perf(self.start(CLIENT, "dnsperf", "-s", server, "-d", str(names), "-t", "3", *options, group=group))


class Perf:
    """A running dnsperf, and its figures."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def result(self, timeout: float = 60) -> "Perf":
        self.text, _ = self.process.communicate(timeout=timeout * SLACK)
        assert self.process.returncode == 0, self.text
        self.sent = int(re.search(r"Queries sent:\s+(\d+)", self.text)[1])  # type: ignore[index]
        self.completed = int(re.search(r"Queries completed:\s+(\d+)", self.text)[1])  # type: ignore[index]
        self.rate = float(re.search(r"Queries per second:\s+([\d.]+)", self.text)[1])  # type: ignore[index]
        return self


class Client:
    """A socket that sends queries."""

    def __init__(self, s: socket.socket) -> None:
        self.socket = s
        self.number = secrets.randbelow(60000)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, server: str, name: str, kind: int = A, number: int | None = None, edns: bool = False) -> int:
        """Sends a query, and returns its id."""
        if number is None:
            self.number = number = self.number + 1 & 0xFFFF
        message = query(name, number, kind, edns)
        if self.socket.type == socket.SOCK_STREAM:
            self.socket.sendall(framed(message))
        else:
            self.socket.sendto(message, (server, 53))
        return number

    def receive(self) -> bytes:
        """The next answer."""
        if self.socket.type == socket.SOCK_DGRAM:
            return self.socket.recv(4096)
        data = b""
        while len(data) < 2 or len(data) < 2 + int.from_bytes(data[:2], "big"):
            length = 2 if len(data) < 2 else 2 + int.from_bytes(data[:2], "big")
            more = self.socket.recv(length - len(data))
            assert more, "the server closed the connection"
            data += more
        return data[2:]

    def ask(self, server: str, name: str = "ok.example.test", kind: int = A, count: int = 1, **more: Any) -> bytes:
        """Sends queries one after the other, and returns the last answer."""
        for _ in range(count):
            self.send(server, name, kind, **more)
            reply = self.receive()
        return reply

    def burst(self, server: str, count: int, begin: float, seconds: float, name: str = "ok.example.test") -> None:
        """Sends queries at an even rate for this time, from begin (CLOCK_REALTIME). Does not read the answers."""
        for i in range(count):
            left = begin + seconds * i / count - time.time()
            if left > 0.001:
                time.sleep(left)
            self.send(server, name)


def need(program: str) -> None:
    if not shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin"):
        pytest.skip(f"{program} is not installed")


LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Scrape:
    """One scrape of the metrics and one status document."""

    def __init__(self, agent: Agent) -> None:
        self.metrics = agent.metrics()
        self.document = agent.status()["dns"]

    def total(self, metric: str, **labels: str) -> float:
        """The sum over all series of headroom_dns_METRIC with these labels. Without a server label it leaves out servers
        outside the namespaces: other programs of this machine also send queries."""
        found = 0.0
        for series, value in self.metrics.items():
            name, _, rest = series.partition("{")
            has = dict(LABEL.findall(rest))
            if name != f"headroom_dns_{metric}" or any(has.get(key) != wanted for key, wanted in labels.items()):
                continue
            if "server" in labels or has.get("server", OURS[0]).startswith(OURS):
                found += value
        return found

    def row(self, server: str) -> dict[str, Any]:
        """The server's entry of the document; empty if the document lacks it."""
        return next((row for row in self.document["servers"] if row["server"] == server), {})


# The number of each view: title on the page -> key of the document.
CELLS = {
    "Verdict": "verdict", "Queries a second": "queries_per_second", "Busiest second": "peak", "Seconds over it": "over_budget_seconds",
    "Failed, last minute": "minute_failed", "Unanswered, last minute": "minute_unanswered", "Pending": "pending",
}  # fmt: skip
TOP_ROW = re.compile(r"  (\S+) +(\S+) +(?:upstream|cluster|local) +(\d+) +(\d+) +(?:-|\d+(?: pps| pend)?) +(\d+) +(\d+) +(\d+) +(\d+) +(.*)")
CLIENT_ROW = re.compile(r"\d(?:/s)? +<?\d+ % +(\d+) in all")


def top_rows(text: str) -> dict[str, dict[str, Any]]:
    """The servers of `headroom top dns`."""
    rows: dict[str, dict[str, Any]] = {}
    for line in text.splitlines():
        if match := TOP_ROW.fullmatch(line):
            rows[match[1]] = row = dict(zip(CELLS.values(), match.groups()[1:])) | {"latency": match[9].split("  "), "clients": 0}
        elif line.split()[:1] == ["other"]:
            rows["other"] = row = {"clients": 0}
        elif match := CLIENT_ROW.search(line):
            row["clients"] += int(match[1])
    return rows


def page_rows(page: str) -> dict[str, dict[str, Any]]:
    """The servers of the page."""
    page = page.replace("\u202f", "")
    page = page[page.index("<h2>DNS") :].split("</table>")[0]
    rows: dict[str, dict[str, Any]] = {}
    for part in page.split('<tr><th scope="row">')[1:]:
        cells = {title: re.sub("<[^>]*>", "", cell) for title, cell in re.findall(r'data-title="([^"]+)">(.*?)</td>', part)}
        rows[part.split("<")[0]] = {key: cells.get(title, "") for title, key in CELLS.items()} | {
            "latency": [cells.get(title, "") for title in ("Latency p50", "p99")],
            "clients": sum(map(int, CLIENT_ROW.findall(part))),
        }
    return rows


def views_agree(agent: Agent, run: Run, truth: dict[str, dict[str, int]]) -> None:
    """Status, metrics, `top` and the page are compared with the truth (server -> key of the document -> number) and with each
    other. All of them are read while nothing changes."""
    views: list[Any] = []

    def read() -> bool:
        before = Scrape(agent)
        texts = run("top", "dns", env={"HEADROOM_RUNTIME_DIR": str(agent.directory / "run")}).stdout, agent.get("/")[1]
        after = Scrape(agent)
        assert not any(" ()" in text for text in texts), "a workload without a name"
        views[:] = [after, top_rows(texts[0]), page_rows(texts[1])]
        return all(before.row(server) == after.row(server) and after.row(server) for server in truth)

    until(read, "two documents are equal", 0.3, 10)
    scrape, top, page = views
    for server, numbers in truth.items():
        row = scrape.row(server) | {"queries": sum(scrape.row(server)["queries"].values())}
        assert {key: row[key] for key in numbers} == numbers, server
        metrics = {key: scrape.total(f"{key}_total", server=server) for key in ("queries", "unanswered", "unknown", "retransmissions")}
        metrics |= {"pending": scrape.total("pending", server=server), "answered": scrape.total("latency_seconds_count", server=server)}
        assert metrics == {key: row[key] for key in metrics}, server
        assert scrape.total("responses_total", server=server) == sum(row["responses"].values()), server
        assert scrape.total("peak_queries_per_second", server=server) == row["peak"], server
        # Each query belongs to one client.
        assert sum(user["queries"] for user in row["top"]) + row["other"]["queries"] == row["queries"], server
        assert top[server]["clients"] == row["queries"], server
        # The page lists the clients of servers with a problem.
        assert page[server]["clients"] == (0 if row["severity"] == "ok" else row["queries"]), server
        for view in (top, page):
            assert {key: view[server][key] for key in CELLS.values()} == {key: f"{row[key]:.0f}" if key != "verdict" else row[key] for key in CELLS.values()}, server
        assert [cell.strip(" -") for cell in top[server]["latency"] if cell.strip(" -")] == [cell for cell in page[server]["latency"] if cell], server
        # A minute never has more answers or timeouts than queries.
        assert row["minute_unanswered"] <= row["minute_queries"], server
        assert row["answered"] + row["unanswered"] + row["unknown"] + row["pending"] <= row["queries"], server
    assert scrape.total("unknown_total") <= scrape.document["lost"]["pending"]
    for what, number in scrape.document["lost"].items():
        assert scrape.metrics[f'headroom_dns_lost_total{{what="{what}"}}'] == number, what


def settle(agent: Agent, check: Callable[[Scrape], Any], what: str, timeout: float = 6.0) -> Scrape:
    """Scrapes until check is true, and returns the next scrape: metrics and document come from two requests."""
    last: list[Scrape] = []

    def passes() -> bool:
        last[:] = [Scrape(agent)]
        return bool(check(last[0]))

    def report() -> str:
        lines = [f"{name} {value:g}" for name, value in last[0].metrics.items() if name.startswith("headroom_dns_")]
        return "\n".join([what, *(line for line in lines if "_bucket" not in line), str(last[0].document)])

    until(passes, report, 0.2, timeout)
    return Scrape(agent)


@pytest.fixture(scope="module", name="network")
def fixture_network() -> Iterator[Lab]:
    """One lab for all tests of a file."""
    lab = Lab()
    yield lab
    lab.close()


@pytest.fixture(name="lab")
def fixture_lab(network: Lab) -> Iterator[Lab]:
    yield network
    network.end()


@contextlib.contextmanager
def watching(directory: Path) -> Iterator[Start]:
    """A function that starts agents with the DNS tuner only, which change nothing. They end with the context."""
    wait_for_other_agents()
    started: list[Agent] = []

    def start(dns: str = "{}", ready: bool = True, **more: Any) -> Agent:
        one = Agent(directory, f"{QUIET}dns: {dns}\n", **more)
        started.append(one)
        if ready:
            one.wait_ready()
            # The programs load in the background.
            until(lambda: one.status()["dns"] or one.tuner("dns")["state"] != "active", "the programs are loaded")
        return one

    try:
        yield start
    finally:
        for one in reversed(started):
            one.close()


@pytest.fixture(name="watch")
def fixture_watch(lab: Lab, directory: Path) -> Iterator[Start]:  # noqa: ARG001 - ends before the lab
    """watch("{names: off}", ...) starts an agent with these options of dns."""
    with watching(directory) as start:
        yield start
