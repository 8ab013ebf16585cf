# SPDX-License-Identifier: Apache-2.0
"""A node in private namespaces: real sysctls of its own network and IPC, its own /etc, /run and /var/lib, and a fake dockerd."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[1:1] = [str(ROOT / "tests/root"), str(ROOT / "tests/chaos")]

from fakesystemd import Systemd  # noqa: E402
from images import APP, CONTENTS  # noqa: E402

BUILT = Path(os.environ.get("HEADROOM_BIN") or ROOT / "build/dev/src/headroom").resolve()
TOOLS = ROOT / "build/dev/tests/tool"
LAB = Path("/mnt")
BIN = LAB / "bin/headroom"
RUN, STATE = Path("/run/headroom"), Path("/var/lib/headroom")
DAEMON_JSON = Path("/etc/docker/daemon.json")
ORIGINAL_JSON = '{\n  "log-level": "warn"\n}\n'
CONTAINERD_TOML = Path("/etc/containerd/config.toml")
ORIGINAL_TOML = "version = 2\n"
KEY = "max-concurrent-downloads"
ARCHIVE = Path("/var/lib/images/app.tar")
CONTAINERD = Path("/run/containerd/containerd.sock")

MOUNTS = """
set -e
mount --make-rprivate /
mount -t tmpfs lab /mnt
mkdir -p /mnt/etc /mnt/work /mnt/bin /mnt/docker
mount -t overlay -o lowerdir=/etc,upperdir=/mnt/etc,workdir=/mnt/work overlay /etc
mount -t tmpfs run /run
mount -t tmpfs state /var/lib
rm -rf /etc/docker /etc/containerd /etc/headroom
mkdir -p /etc/docker /etc/containerd /var/lib/images
ip link set lo up
"""

# Sysctls of this namespace, their values before the program, and the two configurations of a test.
VALUES = {
    "net.core.somaxconn": ("4096", "8192", "16384"),
    "net.ipv4.tcp_max_syn_backlog": ("512", "4096", "8192"),
    "kernel.msgmax": ("8192", "65536", "131072"),
}


def path_of(name: str) -> Path:
    return Path("/proc/sys") / name.replace(".", "/")


def values() -> dict[str, str]:
    return {name: path_of(name).read_text().strip() for name in VALUES}


def wanted(step: int) -> dict[str, str]:
    """0: the originals; 1 and 2: what a configuration asks for."""
    return {name: texts[step] for name, texts in VALUES.items()}


def environment(notify: Path | None = None) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    return {**kept, "ASAN_OPTIONS": "detect_leaks=0", **({"NOTIFY_SOCKET": str(notify)} if notify else {})}


class Node:
    def __init__(self) -> None:
        subprocess.run(["sh", "-c", MOUNTS], check=True)
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}
        self.systemd: Systemd | None = None
        (LAB / "bin/dockerd").symlink_to(TOOLS / "fake_dockerd")
        shutil.copy(BUILT, BIN)  # so that a build does not disturb a long run
        self.config = LAB / "headroom.yaml"

    def reset(self) -> None:
        """A node that has never seen the program."""
        for directory in (RUN, STATE):
            shutil.rmtree(directory, ignore_errors=True)
        self.boot()
        DAEMON_JSON.write_text(ORIGINAL_JSON)

    @staticmethod
    def boot() -> None:
        """The kernel forgets its values."""
        for name, texts in VALUES.items():
            path_of(name).write_text(texts[0])

    def write_config(self, step: int, kind: str = "", more: str = "", on: str = "") -> None:
        """All tuners are off but sysctl, those with a line in more, and the one that is on."""
        off = "".join(f"{name}: {{mode: off}}\n" for name in ("dns", "limits", "neighbor", "storage", "thp") if name != on)
        sysctl = ", ".join(f"{name}: {text}" for name, text in wanted(step).items())
        runtime = {
            "": "{mode: off}",
            "docker": f"{{kind: docker, restart: never, max_concurrent_downloads: {9 + step}, pull_progress_timeout: keep}}",
            "containerd": "{kind: containerd, max_concurrent_downloads: keep, pull_progress_timeout: keep}",
            "restart": "{kind: containerd, restart: now, max_concurrent_downloads: 10, pull_progress_timeout: keep}",
        }
        self.config.write_text(
            'mode: enforce\nprofile: minimal\nhttp: {listen: ""}\n' + off +
            f"sysctl: {{{sysctl}}}\nruntime: {runtime[kind]}\n{more}"
        )

    def start(self, name: str, command: list[str], answers: Callable[[], bool]) -> None:
        old = self.daemons.get(name)
        if old and old.poll() is None:
            return
        self.daemons[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while not answers():
            assert time.monotonic() < deadline, f"{name} does not start"
            time.sleep(0.02)

    def start_dockerd(self) -> None:
        socket_path = "/run/docker.sock"
        command = [str(LAB / "bin/dockerd"), socket_path, str(DAEMON_JSON), str(LAB / "docker")]
        self.start("dockerd", command, lambda: connects(socket_path))
        Path("/run/docker.pid").write_text(str(self.daemons["dockerd"].pid))

    def start_containerd(self) -> None:
        CONTAINERD_TOML.write_text(ORIGINAL_TOML)
        self.start("containerd", ["containerd"], lambda: self.ctr("version").returncode == 0)
        ARCHIVE.parent.mkdir(exist_ok=True)
        ARCHIVE.write_bytes(CONTENTS["app"].data)

    def launch_containerd(self) -> None:
        """Starts it anew, and does not wait for an answer."""
        old = self.daemons.get("containerd")
        if old:
            old.terminate()
            old.wait()
        self.daemons["containerd"] = subprocess.Popen(["containerd"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def start_systemd(self) -> None:
        """A fake one, which restarts containerd."""
        path = Path("/run/dbus/system_bus_socket")
        path.parent.mkdir(exist_ok=True)
        self.systemd = self.systemd or Systemd(path, LAB / "bus.conf", "containerd.service", lambda _: self.launch_containerd())
        self.systemd.restarted.clear()

    @staticmethod
    def ctr(*args: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(["ctr", "--namespace", "k8s.io", *args], capture_output=True, text=True, timeout=30)

    def has_image(self) -> bool:
        return APP in self.ctr("images", "ls", "-q").stdout.split()

    def remove_image(self) -> None:
        names = self.ctr("images", "ls", "-q").stdout.split()
        if names:
            self.ctr("images", "rm", "--sync", *names)

    @staticmethod
    def command(*args: str) -> "subprocess.CompletedProcess[str]":
        """A command of the program, without a fault."""
        return subprocess.run([str(BIN), *args], capture_output=True, text=True, stdin=subprocess.DEVNULL, env=environment(), timeout=60)

    @staticmethod
    def key() -> int | None:
        return json.loads(DAEMON_JSON.read_text()).get(KEY)


def connects(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(path) == 0


class Notify:
    """The socket on which an agent says that it is ready."""

    def __init__(self) -> None:
        self.path = LAB / "notify"
        self.path.unlink(missing_ok=True)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(self.path))
        self.socket.settimeout(0.05)

    def ready(self, process: "subprocess.Popen[str]", seconds: float = 60) -> bool:
        deadline = time.monotonic() + seconds
        while process.poll() is None and time.monotonic() < deadline:
            try:
                if b"READY=1" in self.socket.recv(4096):
                    return True
            except TimeoutError:
                pass
        return False

    def close(self) -> None:
        self.socket.close()


def stop(process: "subprocess.Popen[str]", seconds: float = 60) -> bool:
    """False if SIGTERM does not end it."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(seconds)
        return True
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return False
