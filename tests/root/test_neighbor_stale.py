# SPDX-License-Identifier: Apache-2.0
"""Entries with the link address of a machine that is gone: refused updates are counted, and `refresh` replaces such entries.

The host's device DEVICE and a namespace are on one bridge: 198.18.0.1 and .2, fd00:198::1 and ::2.
"""

import contextlib
import os
import re
import select
import socket
import struct
import subprocess
import threading
import time
from typing import Any, Callable, Iterator

import pytest
from conftest import NO_BPF, SLACK, Agent, Run, until
from dnslab import SO_RCVBUFFORCE, Cgroup, pod_path
from storm import enter, ip

DEVICE = f"hrs{os.getpid()}"  # tests run at once
SWITCH, OWNER, THIRD = (f"hr-stale-{name}-{os.getpid()}" for name in ("switch", "owner", "third"))
OURS, OLD, NEW, OTHER = "02:00:00:00:00:01", "02:00:00:00:00:99", "02:00:00:00:00:02", "02:00:00:00:00:12"
HERE, THERE = {4: "198.18.0.1", 6: "fd00:198::1"}, {4: "198.18.0.2", 6: "fd00:198::2"}
QUIET = "profile: minimal\nthp: {mode: off}\nsysctl: {}\nruntime: {mode: off}\nneighbor: {ipv4: keep, ipv6: keep, grow: false, stale: %s}"
REFRESH, OBSERVE, OFF = (QUIET % stale for stale in ("refresh", "observe", "off"))
PORT = 9999

pytestmark = pytest.mark.apart  # the kernel's settings stay


def packed(mac: str) -> bytes:
    return bytes.fromhex(mac.replace(":", ""))


def inside(netns: str, work: Callable[[], Any]) -> Any:
    """Calls work on a thread in this namespace."""
    result: list[Any] = []

    def run() -> None:
        enter(f"/run/netns/{netns}")
        result.append(work())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return result[0]


def checksum(data: bytes) -> int:
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def answer(family: int, mac: str, to: str, override: bool = True) -> bytes:
    """A reply of ARP, or a solicited neighbour advertisement, for the second address."""
    if family == 4:
        sender, target = socket.inet_aton(THERE[4]), socket.inet_aton(HERE[4])
        body = struct.pack("!HHBBH", 1, 0x800, 6, 4, 2) + packed(mac) + sender + packed(to) + target
        return packed(to) + packed(mac) + b"\x08\x06" + body
    sender, target = (socket.inet_pton(socket.AF_INET6, one[6]) for one in (THERE, HERE))
    icmp = struct.pack("!BBHB3x", 136, 0, 0, 0x60 if override else 0x40) + sender + b"\x02\x01" + packed(mac)
    value = checksum(sender + target + struct.pack("!I3xB", len(icmp), 58) + icmp)
    icmp = icmp[:2] + struct.pack("!H", value) + icmp[4:]
    return packed(to) + packed(mac) + b"\x86\xdd" + struct.pack("!IHBB", 6 << 28, len(icmp), 58, 255) + sender + target + icmp


class Lab:
    def __init__(self) -> None:
        self.sockets: list[socket.socket] = []
        self.stop = threading.Event()

    def make(self) -> "Lab":
        self.remove()
        self.stop.clear()
        for name in (SWITCH, OWNER):
            ip("netns", "add", name)
        ip("-n", SWITCH, "link", "add", "br0", "type", "bridge")
        ip("-n", SWITCH, "link", "set", "br0", "up")
        self.connect(None, DEVICE, OURS)
        self.connect(OWNER, "b0", NEW)
        for family in (4, 6):
            self.add(None, DEVICE, HERE[family])
            self.add(OWNER, "b0", THERE[family])
            # The owner never asks, so that nothing heals the entry.
            ip("-n", OWNER, "neigh", "replace", HERE[family], "lladdr", OURS, "dev", "b0", "nud", "permanent")
        return self

    @staticmethod
    def connect(netns: str | None, device: str, mac: str) -> None:
        port = "p" + device
        ip("link", "add", device, *(["netns", netns] if netns else []), "address", mac, "type", "veth", "peer", "name", port, "netns", SWITCH)
        ip("-n", SWITCH, "link", "set", port, "master", "br0", "up")
        ip(*(["-n", netns] if netns else []), "link", "set", device, "up")

    @staticmethod
    def add(netns: str | None, device: str, address: str, bits: str = "") -> None:
        bits = bits or ("/64" if ":" in address else "/24")
        where = ["-n", netns] if netns else []
        ip(*where, "addr", "add", address + bits, "dev", device, *(["nodad"] if ":" in address else []))

    def remove(self) -> None:
        self.stop.set()
        for one in self.sockets:
            one.close()
        ip("link", "del", DEVICE, check=False)
        for name in (SWITCH, OWNER, THIRD):
            ip("netns", "del", name, check=False)

    def echo(self, family: int, netns: str = OWNER, device: str = "") -> None:
        def serve() -> socket.socket:
            one = socket.socket(socket.AF_INET if family == 4 else socket.AF_INET6, socket.SOCK_DGRAM)
            one.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 23)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
            one.bind((THERE[family], PORT))
            return one

        server = inside(netns, serve)
        self.sockets.append(server)

        def loop() -> None:
            with contextlib.suppress(OSError):
                while not self.stop.is_set():
                    if select.select([server], [], [], 0.2)[0]:
                        data, peer = server.recvfrom(99)
                        server.sendto(data, peer)

        threading.Thread(target=loop, daemon=True).start()

    def send(self, frame: bytes, netns: str = OWNER, device: str = "b0") -> None:
        def work() -> None:
            with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
                raw.bind((device, 0))
                raw.send(frame)

        inside(netns, work)

    @staticmethod
    def entry(family: int = 4) -> tuple[str, str]:
        """The link address and the state."""
        out = ip("neigh", "show", THERE[family], "dev", DEVICE)
        mac = re.search(r"lladdr (\S+)", out)
        return (mac[1] if mac else "", out.split()[-1] if out else "")

    @staticmethod
    def set(mac: str, state: str, family: int = 4, *more: str) -> None:
        ip("neigh", "del", THERE[family], "dev", DEVICE, check=False)  # so that it is young in any case
        ip("neigh", "replace", THERE[family], "lladdr", mac, "dev", DEVICE, *(["nud", state] if state else []), *more)


FAMILIES = pytest.mark.parametrize("family", [4, pytest.param(6, marks=pytest.mark.slow)])


@pytest.fixture
def stale() -> Iterator[Lab]:
    lab = Lab()
    try:
        yield lab.make()
    finally:
        lab.remove()


class Client(threading.Thread):
    """Sends datagrams to the second address and notes which of them were answered."""

    def __init__(self, family: int, rate: float, seconds: float) -> None:
        super().__init__(daemon=True)
        self.family, self.rate, self.seconds = family, rate, seconds
        self.sent: dict[int, float] = {}
        self.answered: dict[int, float] = {}

    def run(self) -> None:
        one = socket.socket(socket.AF_INET if self.family == 4 else socket.AF_INET6, socket.SOCK_DGRAM)
        one.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 23)
        began = time.monotonic()
        while (now := time.monotonic()) < began + self.seconds + 0.5:
            due = began + len(self.sent) / self.rate
            if now >= due and now < began + self.seconds:
                self.sent[len(self.sent)] = now
                with contextlib.suppress(OSError):
                    one.sendto(str(len(self.sent) - 1).encode(), (THERE[self.family], PORT))
            elif select.select([one], [], [], max(0.0, min(due - now, 0.05)))[0]:
                with contextlib.suppress(OSError):
                    self.answered[int(one.recv(99))] = time.monotonic()

    @property
    def lost(self) -> int:
        return len(self.sent) - len(self.answered)


def conflicts(agent: Agent, result: str, device: str = DEVICE) -> float:
    wanted = (f'device="{device}"', f'result="{result}"')
    rows = agent.metrics().items()
    return sum(n for name, n in rows if name.startswith("headroom_neighbor_conflicts_total") and all(w in name for w in wanted))


def refreshes(agent: Agent) -> dict[str, int]:
    counts: dict[str, int] = agent.status()["neighbor"]["refreshed"]
    return counts


def counting(agent: Agent) -> None:
    until(lambda: agent.status()["neighbor"]["counted"], "updates are counted")


@FAMILIES
def test_a_refused_update_is_counted_with_both_addresses_and_changes_nothing(agent, run: Run, stale: Lab, family: int) -> None:
    one = agent(OBSERVE)
    counting(one)
    result = "refused" if family == 4 else "weak"
    stale.set(OLD, "reachable", family)
    before = conflicts(one, result)
    stale.send(answer(family, NEW, OURS, override=False))
    until(lambda: conflicts(one, result) == before + 1, lambda: str(one.status()["neighbor"]))
    (row,) = [row for row in one.status()["neighbor"]["conflicts"] if row["address"] == THERE[family]]
    assert (row["device"], row["entry"], row["other"], row[result]) == (DEVICE, OLD, NEW, 1)
    assert row["workload"]["kind"] == "host"
    out = run("top", "neighbor").stdout
    assert re.search(rf"{re.escape(THERE[family])} +{DEVICE} +host +{OLD} +{NEW} +", out), out
    assert "neighbor/ipv4" in out, "the limits are still shown"
    time.sleep(1.5)
    assert stale.entry(family)[0] in (OLD, ""), "nothing is written"  # the kernel may collect a stale entry
    condition = one.condition("NeighborStale")
    assert (condition["status"], condition["reason"]) == ("False", "not-refreshed")
    assert not [f for f in one.status()["findings"] if f["tuner"] == "neighbor"]


@pytest.mark.slow
def test_an_update_that_the_kernel_takes_is_no_conflict(agent, stale: Lab) -> None:
    one = agent(OBSERVE)
    counting(one)
    before = one.status()["neighbor"]["conflicts"]
    stale.set(OLD, "stale")
    time.sleep(1.2)  # locktime
    stale.send(answer(4, NEW, OURS))
    until(lambda: stale.entry()[0] == NEW, "the kernel takes it")
    stale.set(OLD, "permanent")
    stale.send(answer(4, NEW, OURS))
    time.sleep(1.2)
    assert one.status()["neighbor"]["conflicts"] == before


def test_off_counts_nothing_until_a_reload(agent, stale: Lab) -> None:
    one = agent(OFF)
    until(lambda: one.limit("neighbor/ipv4")["bound"] == "exact", "BPF runs")
    stale.set(OLD, "reachable")
    stale.send(answer(4, NEW, OURS))
    time.sleep(1.2)
    document = one.status()["neighbor"]
    assert (document["stale"], document["counted"], document["conflicts"]) == ("off", False, [])
    assert not [name for name in one.metrics() if "conflicts_total" in name]
    one.write_config(OBSERVE)
    one.reload()
    counting(one)
    stale.set(OLD, "reachable")
    stale.send(answer(4, NEW, OURS))
    until(lambda: conflicts(one, "refused") == 1, "counted")
    one.write_config(OFF)
    one.reload()
    until(lambda: not one.status()["neighbor"]["counted"], "not counted")


@FAMILIES
def test_refresh_ends_the_loss_within_a_second(agent, run: Run, stale: Lab, family: int) -> None:
    """The owner's answer within locktime is refused, and confirms the wrong link address for 42 s."""
    one = agent(REFRESH)
    counting(one)
    stale.echo(family)
    stale.set(OLD, "reachable", family)
    client = Client(family, 20, 3.5)
    time.sleep(1.5)
    client.start()
    stale.set(OLD, "reachable", family)
    refused = time.monotonic()
    stale.send(answer(family, NEW, OURS, override=False))
    client.join()
    first = min(client.answered.values())
    assert first - refused < 1.1 + 0.05 * 2 + (SLACK - 1), f"answered {first - refused:.2f} s after it was refused"
    assert stale.entry(family)[0] == NEW
    found = one.wait_finding("stale-neighbor", THERE[family])
    assert found["instance"]["name"] == f"{THERE[family]} on {DEVICE}"
    assert OLD in found["message"] and NEW in found["message"]
    assert one.condition("NeighborStale")["status"] == "True"
    assert refreshes(one)["stale"] == 1
    assert one.metrics()['headroom_neighbor_refreshes_total{result="stale"}'] == 1
    doctor = run("doctor").stdout
    assert "stale-neighbor" in doctor and NEW in doctor
    assert run("restore").returncode in (0, 1)
    assert stale.entry(family)[0] == NEW, "nothing is restored"


def third(stale: Lab, mac: str = OTHER) -> None:
    ip("netns", "add", THIRD)
    stale.connect(THIRD, "c0", mac)


def two_nics(stale: Lab) -> None:
    """Both devices of the owner answer: ARP flux."""
    stale.connect(OWNER, "b1", OTHER)
    stale.add(OWNER, "b1", "198.18.0.200", "/32")


def proxy_arp(stale: Lab) -> None:
    third(stale)
    stale.add(THIRD, "c0", "198.18.0.3")
    ip("-n", THIRD, "link", "add", "d0", "type", "veth", "peer", "name", "d1")
    for device in ("d0", "d1"):
        ip("-n", THIRD, "link", "set", device, "up")
    ip("-n", THIRD, "route", "add", THERE[4] + "/32", "dev", "d0")
    inside(THIRD, lambda: [open(f"/proc/sys/net/ipv4/{name}", "w").write("1") for name in ("conf/c0/proxy_arp", "ip_forward")])


def anycast(stale: Lab) -> None:
    """A second machine has the same address and answers too."""
    third(stale)
    stale.add(THIRD, "c0", THERE[4])
    ip("-n", THIRD, "neigh", "replace", HERE[4], "lladdr", OURS, "dev", "c0", "nud", "permanent")
    stale.echo(4, THIRD)


def gratuitous(mac: str) -> bytes:
    address = socket.inet_aton(THERE[4])
    body = struct.pack("!HHBBH", 1, 0x800, 6, 4, 1) + packed(mac) + address + b"\0" * 6 + address
    return b"\xff" * 6 + packed(mac) + b"\x08\x06" + body


@pytest.mark.parametrize("make", [two_nics, *(pytest.param(make, marks=pytest.mark.slow) for make in (proxy_arp, anycast))])
def test_refresh_keeps_an_entry_that_answers(agent, stale: Lab, make: Callable[[Lab], None]) -> None:
    """Others answer for the address too, and nothing is stale: at most one packet of 5,000 is lost."""
    one = agent(REFRESH)
    counting(one)
    make(stale)
    stale.echo(4)
    client = Client(4, 1000, 5)
    client.start()  # both answer the first request, and the second answer is refused
    client.join()
    assert client.lost <= len(client.sent) / 5000, (client.lost, len(client.sent))
    counts = until(lambda: sum((now := refreshes(one)).values()) and now, "it was probed")
    assert counts["answered"] == 1 and sum(counts.values()) == 1, f"and then rests: {counts}"
    assert one.finding("stale-neighbor") is None


@pytest.mark.slow
def test_refresh_follows_vrrp(agent, stale: Lab) -> None:
    """The address moves between two machines by gratuitous ARP: the kernel follows by itself."""
    one = agent(REFRESH)
    counting(one)
    third(stale)
    for step in range(6):
        owner, loser = ((THIRD, "c0"), (OWNER, "b0")) if step % 2 == 0 else ((OWNER, "b0"), (THIRD, "c0"))
        ip("-n", loser[0], "addr", "flush", "dev", loser[1])
        stale.add(*owner, THERE[4])
        stale.send(gratuitous(OTHER if step % 2 == 0 else NEW), *owner)
        ip("neigh", "change", THERE[4], "dev", DEVICE, "nud", "reachable", check=False)
        time.sleep(0.7)
    time.sleep(2)
    assert one.finding("stale-neighbor") is None and refreshes(one)["stale"] == 0


MORE = ("permanent", "managed", "proto", "ucast_solicit", "observe")


@pytest.mark.parametrize("how", ["extern_learn", "app_solicit", *(pytest.param(how, marks=pytest.mark.slow) for how in MORE)])
def test_refresh_leaves_entries_of_others_alone(agent, run: Run, stale: Lab, how: str) -> None:
    one = agent(REFRESH, args=("--observe",) if how == "observe" else ())
    counting(one)
    if how.endswith("solicit"):
        with open(f"/proc/sys/net/ipv4/neigh/{DEVICE}/{how}", "w") as file:
            file.write("1" if how == "app_solicit" else "0")
    state = "permanent" if how == "permanent" else "reachable"
    more = {"extern_learn": ["extern_learn"], "managed": ["managed"], "proto": ["proto", "zebra"]}.get(how, [])
    stale.set(OLD, "" if how == "managed" else state, 4, *more)
    stale.send(answer(4, NEW, OURS))
    for _ in range(15):
        assert "PROBE" not in stale.entry()[1], "it is never touched"
        time.sleep(0.2)
    assert sum(refreshes(one).values()) == 0
    assert one.finding("stale-neighbor") is None


@pytest.mark.slow
def test_an_entry_that_nobody_answers_for_is_put_back(agent, stale: Lab) -> None:
    """The network delivers frames and answers no ARP: the old link address is the only one that can work."""
    one = agent(REFRESH)
    counting(one)
    ip("-n", OWNER, "link", "set", "b0", "arp", "off")
    stale.set(OLD, "reachable")
    stale.send(answer(4, NEW, OURS))
    until(lambda: stale.entry()[1] in ("", "FAILED", "INCOMPLETE"), "it is removed", 0.02)
    until(lambda: stale.entry() == (OLD, "STALE"), "it is put back", 0.02)
    until(lambda: refreshes(one)["silent"] == 1, "counted")
    stale.set(OLD, "reachable")
    stale.send(answer(4, NEW, OURS))
    for _ in range(15):
        assert stale.entry()[0] == OLD and "PROBE" not in stale.entry()[1], "never again"
        time.sleep(0.2)
    assert one.finding("stale-neighbor") is None


@pytest.mark.slow
def test_at_most_ten_entries_are_probed_in_a_second(agent, stale: Lab) -> None:
    one = agent(REFRESH)
    counting(one)
    addresses = {f"198.18.0.{i}" for i in range(100, 140)}
    seen: dict[str, float] = {}
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            out = ip("neigh", "show", "dev", DEVICE, "nud", "probe")
            for line in out.splitlines():
                seen.setdefault(line.split()[0], time.monotonic())
            time.sleep(0.01)

    watcher = threading.Thread(target=watch)
    watcher.start()
    for address in addresses:
        ip("neigh", "replace", address, "lladdr", OLD, "dev", DEVICE, "nud", "reachable")
        frame = answer(4, NEW, OURS)
        stale.send(frame.replace(socket.inet_aton(THERE[4]), socket.inet_aton(address)))
    until(lambda: sum(refreshes(one).values()) == 40, lambda: str(refreshes(one)))
    done.set()
    watcher.join()
    assert set(seen) == addresses
    times = sorted(seen.values())
    assert all(later - first > 0.9 for first, later in zip(times, times[10:])), times


def test_an_event_in_a_pod_names_the_pod(agent, stale: Lab) -> None:
    one = agent(OBSERVE)
    counting(one)
    path, uid, _ = pod_path()
    cgroup = Cgroup(path)
    with cgroup:
        process = subprocess.Popen(["nsenter", f"--net=/run/netns/{OWNER}", "sleep", "1000"])
    try:
        ip("-n", OWNER, "neigh", "replace", HERE[4], "lladdr", OLD, "dev", "b0", "nud", "reachable")
        frame = answer(4, OURS, NEW)
        here, there = socket.inet_aton(HERE[4]), socket.inet_aton(THERE[4])
        frame = frame[:28] + here + frame[32:38] + there
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
            raw.bind((DEVICE, 0))
            raw.send(frame)
        row = until(lambda: [r for r in one.status()["neighbor"]["conflicts"] if r["workload"]["id"] == uid], "the pod is named")[0]
        assert (row["device"], row["address"], row["entry"], row["other"]) == ("b0", HERE[4], OLD, OURS)
    finally:
        process.kill()
        process.wait()
        cgroup.remove()


def test_without_bpf_entries_are_found_by_age_alone(agent, run: Run, stale: Lab) -> None:
    one = agent(REFRESH, wrap=NO_BPF)
    tuner = until(lambda: (now := one.tuner("neighbor"))["state"] == "degraded" and now, "degraded")
    assert "by their age alone" in tuner["why"]
    stale.set(OLD, "reachable")
    stale.send(answer(4, NEW, OURS))
    time.sleep(1.5)
    assert stale.entry()[0] == OLD
    assert one.status()["neighbor"]["counted"] is False
    assert "BPF does not run" in run("top", "neighbor").stdout


QUIET_DEVICE = (("b1/arp_ignore", "8"), ("b1/rp_filter", "0"), ("all/rp_filter", "0"))


@pytest.mark.slow
def test_refresh_finds_an_entry_that_tcp_keeps_alive(agent, stale: Lab) -> None:
    """The network delivers the frames of one connection, whatever their link address: no update, no event, UDP is lost."""
    stale.connect(OWNER, "b1", OLD)
    inside(OWNER, lambda: [open(f"/proc/sys/net/ipv4/conf/{name}", "w").write(value) for name, value in QUIET_DEVICE])
    one = agent(REFRESH)
    counting(one)
    stale.echo(4, device="b0")
    listener = inside(OWNER, lambda: socket.create_server((THERE[4], 8080)))
    stale.set(OLD, "stale")
    connection = socket.create_connection((THERE[4], 8080))
    peer = listener.accept()[0]
    stale.sockets += [listener, connection, peer]

    def talk() -> bool:
        connection.send(b"x")
        peer.recv(9)
        peer.send(b"y")
        connection.recv(9)
        time.sleep(0.2)
        return stale.entry()[0] == NEW

    lost = Client(4, 10, 2)
    lost.start()
    while lost.is_alive():
        talk()
    assert not lost.answered
    until(lambda: talk() or stale.entry() == (OLD, "REACHABLE"), "TCP confirms", 0)
    assert stale.entry()[0] == OLD
    client = Client(4, 20, 420)
    client.start()
    until(talk, "another link address", 0, 420)
    until(lambda: client.answered, "datagrams arrive")
    first = min(client.answered)
    assert client.sent[first] - client.sent[0] < 400
    for _ in range(20):
        talk()
    assert one.wait_finding("stale-neighbor", THERE[4])["message"].startswith(f"the entry had {OLD}")
