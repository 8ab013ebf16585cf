# SPDX-License-Identifier: Apache-2.0
"""Limits that the kernel or a file shows: each is filled, the finding names the instance, its command is run as printed and helps."""

import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest
from conftest import BIN, Agent, Start, end, environment, free_port, mounted, read, spawn, sysctl, until

# It enforces, because commands differ in observe mode, and changes nothing itself.
CONFIG = "profile: minimal\nneighbor: {mode: observe}\nthp: {mode: observe}\nruntime: {mode: observe}\nkubelet: {mode: observe}\n"

Finding = dict[str, Any]


def findings(one: Agent, slug: str) -> list[Finding]:
    return [finding for finding in one.status()["findings"] if finding["slug"] == slug]


def find(one: Agent, slug: str, name: str = "", timeout: float = 40) -> Finding:
    """Waits for a finding about an instance of this name."""
    is_it = lambda finding: not name or name == finding["instance"]["text"]  # noqa: E731
    return until(
        lambda: next((finding for finding in findings(one, slug) if is_it(finding)), None),
        lambda: f"{slug} of {name}: {json.dumps(one.status()['findings'], indent=1)}", 0.3, timeout)


def accepted(directory: Path, finding: Finding) -> None:
    """The schema accepts what keeps the cure."""
    path = directory / f"keep-{secrets.token_hex(3)}.yaml"
    path.write_text(finding["keep"])
    answer = subprocess.run([BIN, "check-config", path], capture_output=True, text=True, env=environment(directory))
    assert finding["keep"] and answer.returncode == 0, answer.stdout + answer.stderr


def type_it(finding: Finding, wrap: tuple[str, ...] = (), path: Path | None = None) -> None:
    """Runs the command as printed."""
    assert finding["now_kind"] == "command", finding
    subprocess.run(["bash", "-n"], input=finding["now"], text=True, check=True)
    env = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}"} if path else None
    subprocess.run([*wrap, "sh", "-c", finding["now"]], check=True, env=env, capture_output=True)


def caused(one: Agent, slug: str) -> None:
    """Who has most of it becomes known; here it is the test itself."""
    who = lambda: find(one, slug)["who"]  # noqa: E731
    until(lambda: (users := who()) and users[0]["used"] > 0.5 * find(one, slug)["used"], lambda: str(who()), 0.5, 30)


def cured(one: Agent, finding: Finding) -> None:
    """Its instance is at most 70 % full, or has no finding any more."""

    def now() -> list[Finding]:
        return [f for f in findings(one, finding["slug"]) if f["id"] == finding["id"]]

    until(lambda: all(f["until"] and f["current"]["used"] <= 0.7 * f["current"]["max"] for f in now()), lambda: str(now()), 0.3, 40)


@pytest.fixture(name="program")
def fixture_program() -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Starts a Python program and waits for its line "ready"."""
    started: list["subprocess.Popen[str]"] = []

    def start(script: str, *wrap: str) -> "subprocess.Popen[str]":
        text = f"import ctypes, os, socket, time\nlibc = ctypes.CDLL(None, use_errno=True)\n{script}\nprint('ready', flush=True)\ntime.sleep(1000)\n"
        started.append(subprocess.Popen([*wrap, sys.executable, "-c", text], stdout=subprocess.PIPE, text=True))
        assert started[-1].stdout and started[-1].stdout.readline() == "ready\n"
        return started[-1]

    try:
        yield start
    finally:
        for one in started:
            one.kill()
            one.communicate()


ADD_KEYS = "libc.syscall(250, 1, None)\nadd = lambda name, size: libc.syscall(248, b'user', name, b'x' * size, size, -3)\n"


@pytest.mark.slow
def test_keys_of_the_user_whose_maximum_is_reached(node: Any, agent: Start, program: Callable[..., Any], directory: Path) -> None:
    """Root has more keys, and far more bytes, of larger maxima."""
    sysctl("kernel.keys.maxkeys", 200)
    sysctl("kernel.keys.maxbytes", 20000)
    program(ADD_KEYS + "assert all(add(b'r%d' % i, 30) > 0 for i in range(250))")
    program("os.setuid(64551)\n" + ADD_KEYS + "n = 0\nwhile add(b'%d' % n, 1) > 0: n += 1\nassert n > 100")
    program("os.setuid(64552)\n" + ADD_KEYS + "n = 0\nwhile add(b'%d' % n, 900) > 0: n += 1\nassert n > 10")
    one = agent(CONFIG).wait_ready()
    for slug, uid, sysctls in (("keys", 64551, {"maxkeys": 2000}), ("keys/bytes", 64552, {"maxbytes": 200000})):
        finding = find(one, slug, f"uid {uid}")
        assert finding["used"] >= 0.9 * finding["max"] and [f["instance"]["text"] for f in findings(one, slug)] == [f"uid {uid}"]
        assert finding["who"][0]["workload"]["name"] == str(uid) and finding["severity"] == "warning"
        assert "raise: [keys]" in finding["keep"]
        accepted(directory, finding)
        type_it(finding)
        assert {name: int(sysctl(f"kernel.keys.{name}")) for name in sysctls} == sysctls
        cured(one, finding)


@pytest.mark.slow
def test_maxima_of_the_kernel_that_are_raised(node: Any, agent: Start, program: Callable[..., Any], directory: Path) -> None:
    used = int(sysctl("fs.aio-nr"))
    sysctl("fs.aio-max-nr", used + 5000)
    sysctl("kernel.pty.max", int(sysctl("kernel.pty.reserve")) + int(sysctl("kernel.pty.nr")) + 90)
    program("contexts = [ctypes.c_ulong() for _ in range(60)]\nassert libc.syscall(206, 100, ctypes.byref(contexts[0])) == 0\n"
            "for c in contexts[1:]: libc.syscall(206, 80, ctypes.byref(c))\n"
            "pairs = []\ntry:\n while True: pairs.append(os.openpty())\nexcept OSError: pass")
    one = agent(CONFIG).wait_ready()
    for slug, name, value in (("aio", "fs.aio-max-nr", 1048576), ("ptys", "kernel.pty.max", 8192)):
        finding = find(one, slug)
        assert finding["instance"]["kind"] == "node" and f"{name}: {value}" in finding["keep"]
        accepted(directory, finding)
        type_it(finding)
        assert int(sysctl(name)) == value
        cured(one, finding)


@pytest.mark.parametrize("kind", ["tcp", pytest.param("udp", marks=pytest.mark.slow)])
def test_buffers_of_sockets(node: Any, agent: Start, program: Callable[..., Any], directory: Path, kind: str) -> None:
    space = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
    if kind == "tcp":
        program(
            "s = socket.create_server(('127.0.0.1', 81))\nk = []\nfor _ in range(30):\n a = socket.create_connection(('127.0.0.1', 81))\n"
            " b = s.accept()[0]\n a.setblocking(False)\n k += [a, b]\n try:\n  while True: a.send(b'x' * 65536)\n except OSError: pass", *space)
    else:
        program(
            "k = []\nfor _ in range(60):\n s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n s.setsockopt(socket.SOL_SOCKET, 33, 1 << 22)\n"
            " s.bind(('127.0.0.1', 0))\n k.append(s)\n c = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
            " for _ in range(60): c.sendto(b'x' * 60000, s.getsockname())", *space)
    match = re.search(rf"^{kind.upper()}: .*mem (\d+)", read("/proc/net/sockstat"), re.M)
    assert match
    top = int(int(match[1]) / 0.93)
    sysctl(f"net.ipv4.{kind}_mem", f"{top - 20} {top - 10} {top}")
    one = agent(CONFIG).wait_ready()
    finding = find(one, f"{kind}-memory")
    assert finding["max"] == top and f"{kind}_mem" in finding["keep"]
    caused(one, f"{kind}-memory")
    accepted(directory, finding)
    type_it(finding)
    assert [int(word) for word in sysctl(f"net.ipv4.{kind}_mem").split()] == [2 * top - 40, 2 * top - 20, 2 * top]
    cured(one, finding)


def full_disk(path: str, options: str, fill: str) -> str:
    return f"mkdir -p {path}; mount -t tmpfs -o {options} none {path}; mkdir {path}/fill; cd {path}/fill; {fill}; cd /\n"


BYTES = "head -c 63M /dev/zero > big"
INODES = "i=0; while [ $i -lt 970 ]; do i=$((i + 1)); : > $i; done"


@pytest.mark.slow
def test_a_full_file_system_is_named_by_its_one_path(agent: Start, directory: Path) -> None:
    """A read-only one stays silent, although it always is full. One that only this mount of cannot be written is no such."""
    tools = directory / "tools"
    tools.mkdir()
    for name, path in (("docker", "/var/lib/docker"), ("podman", "/var/lib/containers/storage")):
        (tools / name).write_text(f'#!/bin/sh\n[ "$*" = "image prune -af" ] && rm -r {path}/fill\n')
        (tools / name).chmod(0o755)
    script = (
        f"mount --bind {tools} /usr/local/sbin\nmount -t tmpfs none /var/lib\n"
        + full_disk("/var/lib/docker", "size=64m", BYTES)
        + full_disk("/var/lib/containers/storage", "nr_inodes=1000,size=64m", INODES)
        + full_disk("/var/lib/containerd", "size=64m", "true")
        + full_disk("/var/lib/kubelet", "size=64m", BYTES) + "mount -o remount,ro /var/lib/kubelet\n"
        + full_disk("/var/log", "size=64m", BYTES) + "mount -o remount,bind,ro /var/log\n"
    )
    one = agent(CONFIG, wrap=mounted(script)).wait_ready()
    inside = ("nsenter", "-t", str(one.pid), "-m")
    for what, path in (("bytes", "/var/lib/docker"), ("inodes", "/var/lib/containers/storage")):
        finding = find(one, f"filesystem/images/{what}", path)
        assert finding["instance"]["kind"] == "filesystem" and finding["who"] == [] and finding["who_known"] is None
        assert finding["used"] > 0.9 * finding["max"] and len(findings(one, f"filesystem/images/{what}")) == 1
        type_it(finding, inside, tools)
        cured(one, finding)
    finding = find(one, "filesystem/log/bytes", "/var/log")
    assert not finding["now"] and "du -xh --max-depth=2 /var/log" in finding["hint"]
    assert findings(one, "filesystem/kubelet/bytes") == [] and not [f for f in one.status()["findings"] if "kubelet" in f["slug"]]


@pytest.mark.slow
def test_a_database_of_etcd_is_compacted(node: Any, agent: Start, directory: Path) -> None:
    """etcd itself refuses the writes, and accepts them after the command."""
    if not shutil.which("etcdctl"):
        pytest.skip("no etcdctl: install etcd-client")
    url, log, data = f"http://127.0.0.1:{free_port()}", directory / "etcd.log", Path("/var/tmp") / f"hr-{secrets.token_hex(3)}"
    flags = ["--data-dir", data, "--listen-client-urls", url, "--advertise-client-urls", url,
             "--listen-peer-urls", f"http://127.0.0.1:{free_port()}", "--quota-backend-bytes", str(16 << 20)]
    etcd = spawn(["etcd", *flags], log)

    def put(key: str) -> bool:
        command = ["etcdctl", f"--endpoints={url}", "put", key]
        return subprocess.run(command, input="x" * 500_000, text=True, capture_output=True, env={**os.environ, "ETCDCTL_API": "3"}).returncode == 0

    try:
        until(lambda: "ready to serve client requests" in log.read_text(), "etcd serves")
        one = agent(CONFIG + "storage: {processes: [etcd]}\n").wait_ready()
        until(lambda: not put("same"), "etcd is full")
        finding = find(one, "etcd/db", str(data / "member/snap/db"))
        assert finding["instance"]["kind"] == "file" and finding["max"] == 16 << 20
        type_it(finding)
        assert put("same")
        cured(one, finding)
    finally:
        end(etcd)
        shutil.rmtree(data, ignore_errors=True)


@pytest.mark.slow
def test_what_is_far_from_a_limit_stays_silent(agent: Start, program: Callable[..., Any]) -> None:
    """Some keys, a listener, a pseudoterminal, asynchronous requests."""
    program("os.setuid(64553)\n" + ADD_KEYS + "assert all(add(b'%d' % i, 10) > 0 for i in range(3))")
    program("c = ctypes.c_ulong()\nassert libc.syscall(206, 10, ctypes.byref(c)) == 0\npair = os.openpty()")
    one = agent(CONFIG).wait_ready()
    until(lambda: {"aio", "keys", "udp-memory"} <= {limit["name"] for limit in one.status()["limits"]}, "the rows")
    time.sleep(12)  # a sample
    assert 'headroom_limit_hits_total{limit="conntrack/races"}' not in one.metrics()
    own = ("aio", "keys", "keys/bytes", "ptys", "tcp-memory", "udp-memory", "softnet", "conntrack/races", "memory-cgroups")
    assert [f for f in one.status()["findings"] if f["slug"] in own] == []
