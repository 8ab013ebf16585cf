# SPDX-License-Identifier: Apache-2.0
"""Real container runtimes in a mount namespace with private /etc, /run and directories of runtimes.

Inside, all paths are those of a real node, so that runtimes and agent need no options. From outside, these files are below
Lab.root.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Callable, Iterator

import criwire
import pytest
from conftest import ROOT, Agent, Run, Start, UnixConnection, end, spawn, temporary, until
from fakesystemd import Systemd
from imagelab import Proxy, Registry, sleeper

CONTAINERD = "run/containerd/containerd.sock"
DOCKER = "run/docker.sock"

# The configuration of Debian's package, with comments that must survive all edits.
CONTAINERD_CONFIG = """\
# kept by the administrator
version = 2

[plugins]
  [plugins."io.containerd.grpc.v1.cri"]
    restrict_oom_score_adj = true
    sandbox_image = "registry.example/pause:3.6"   # ours
    [plugins."io.containerd.grpc.v1.cri".cni]
      bin_dir = "/etc/cni/bin"
      conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.internal.v1.opt"]
    path = "/var/lib/containerd/opt"
"""

# Pods get a network namespace, and an address that does not exist.
CNI_NET = '{"cniVersion": "0.4.0", "name": "test", "plugins": [{"type": "paper"}]}\n'
CNI_PLUGIN = """#!/bin/sh
[ "$CNI_COMMAND" = ADD ] || exit 0
echo '{"cniVersion": "0.4.0", "interfaces": [{"name": "eth0", "sandbox": "'"$CNI_NETNS"'"}],'
echo '"ips": [{"version": "4", "address": "10.77.0.5/24", "interface": 0}]}'
"""

# Kind -> arguments of tests/tool/containerd2.
BUILT: dict[str, list[str]] = {
    "containerd2": [],
    "containerd1.7": ["v1.7.35"],
    "containerd2.0": ["v2.0.14"],
    "containerd2.1": ["v2.1.9"],
    "containerd2.2": ["v2.2.9"],
    "containerd2.3": ["v2.3.7"],
}

# Options that leave all settings of the runtime alone.
KEEP = "max_concurrent_downloads: keep, pull_progress_timeout: keep"

DOCKER_OPTIONS = ["--iptables=false", "--ip6tables=false", "--bridge=none", "--ip-forward=false"]

SCRIPT = """
set -e
mount -t overlay overlay -o lowerdir=/etc,upperdir=$1/etc,workdir=$1/work /etc
mount -t overlay overlay -o lowerdir=/var/lib,upperdir=$1/lib,workdir=$1/libwork /var/lib
mount --bind $1/run /run
mkdir -p /var/lib/containerd /var/lib/docker
mount --bind $1/containerd /var/lib/containerd
mount --bind $1/docker /var/lib/docker
echo ready
exec sleep infinity
"""


def tool(name: str, *options: str) -> Path:
    """The directory with the programs that tests/tool/NAME builds."""
    asked = subprocess.run([str(ROOT / "tests/tool" / name), *options], capture_output=True, text=True)
    if asked.returncode == 77:
        pytest.skip(asked.stderr.strip())
    assert asked.returncode == 0, asked.stderr
    return Path(asked.stdout.strip())


def containerd2(*version: str) -> Path:
    """The directory with the programs of containerd 2.x or of another version."""
    return tool("containerd2", *version)


class Daemon:
    """A runtime in the lab's namespace."""

    def __init__(self, lab: "Lab", name: str, command: list[str], answers: Callable[[], bool]) -> None:
        self.lab, self.name, self.command, self.answers = lab, name, command, answers
        self.log_path = lab.directory / f"{name}.log"
        self.env: dict[str, str] = {}
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self.process
        return self.process.pid

    @property
    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def launch(self) -> None:
        self.process = spawn([*self.lab.wrap, *self.command], self.log_path, env={**os.environ, **self.env})

    def start(self) -> "Daemon":
        self.launch()
        until(lambda: self.alive() and self.answers(), f"{self.name} answers\n{self.log_path}", 0.1)
        return self

    def alive(self) -> bool:
        if self.process and self.process.poll() is not None:
            pytest.fail(f"{self.name} ended with {self.process.returncode}:\n{self.log[-2000:]}")
        return True

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def stop(self) -> None:
        if not self.process:
            return
        if self.process.poll() is None:
            self.signal(signal.SIGCONT)
        end(self.process)
        self.process = None

    def restart(self) -> None:
        """Restarts as systemd does, without waiting for an answer."""
        self.stop()
        self.launch()


def typed(command: str, directory: Path, **programs: Callable[..., Any]) -> None:
    """Runs a command as it was printed. programs: what systemctl, crictl and others of this node would do."""
    assert subprocess.run(["/bin/bash", "-n", "-c", command]).returncode == 0, command
    bin_ = directory / "typed"
    bin_.mkdir(exist_ok=True)
    for name in programs:
        (bin_ / name).write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >{bin_}/{name}.args\n')
        (bin_ / name).chmod(0o755)
    done = subprocess.run(["/bin/bash", "-c", command], env={"PATH": str(bin_)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for name, program in programs.items():
        program(*(bin_ / f"{name}.args").read_text().splitlines())


class Lab:
    def __init__(self, directory: Path) -> None:
        self.directory = directory / "lab"
        for name in ("etc", "work", "lib", "libwork", "run/dbus", "containerd", "docker"):
            (self.directory / name).mkdir(parents=True)
        self.holder = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", SCRIPT, "sh", str(self.directory)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        assert self.holder.stdout and self.holder.stdout.readline() == b"ready\n"
        self.root = Path(f"/proc/{self.holder.pid}/root")
        self.wrap = ("nsenter", "-t", str(self.holder.pid), "-m", "-r", "--")  # -r: these tests may run in a chroot
        self.daemons: dict[str, Daemon] = {}
        self.systemd: Systemd | None = None
        self.closers: list[Callable[[], None]] = []
        self.config = self.root / "etc/containerd/config.toml"
        self.daemon_json = self.root / "etc/docker/daemon.json"
        self.certs = self.root / "etc/containerd/certs.d"
        self.containerd_socket = self.directory / CONTAINERD
        self.docker_socket = self.directory / DOCKER
        self.write("etc/containerd/config.toml", CONTAINERD_CONFIG)
        self.write("etc/cni/net.d/10-test.conflist", CNI_NET)
        for plugin in ("paper", "loopback"):
            self.write(f"etc/cni/bin/{plugin}", CNI_PLUGIN).chmod(0o755)
        shutil.rmtree(self.root / "etc/docker", ignore_errors=True)

    def write(self, path: str, text: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def run(self, *command: str) -> str:
        done = subprocess.run([*self.wrap, *command], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def containerd(self, programs: Path | None = None, options: tuple[str, ...] = ()) -> Daemon:
        """Starts Debian's containerd, or the one in a directory."""
        program = str(programs / "containerd") if programs else "containerd"
        daemon = Daemon(self, "containerd", [program, *options], lambda: self.connects(self.containerd_socket))
        if programs:
            daemon.env = {"PATH": f"{programs}:{os.environ['PATH']}"}
        self.daemons["containerd"] = daemon
        return daemon.start()

    def dockerd(self, *options: str) -> Daemon:
        command = ["dockerd", *DOCKER_OPTIONS, *options]
        daemon = Daemon(self, "dockerd", command, self.docker_answers)
        self.daemons["dockerd"] = daemon
        return daemon.start()

    def start(self, kind: str) -> None:
        """Starts containerd, docker or one of BUILT, and waits until it can pull."""
        if kind == "docker":
            self.dockerd()
            return
        if kind.startswith("containerd2"):
            self.config.write_text("version = 3\nimports = ['/etc/containerd/conf.d/*.toml']\n")
        self.containerd(containerd2(*BUILT[kind]) if kind in BUILT else None)
        self.wait_for_cri()

    def wait_for_cri(self) -> None:
        until(lambda: criwire.running_config(self.containerd_socket), "the CRI answers", 0.1)

    @staticmethod
    def connects(path: Path) -> bool:
        with contextlib.closing(UnixConnection(str(path))) as connection, contextlib.suppress(OSError):
            connection.connect()
            return True
        return False

    def docker_answers(self) -> bool:
        with contextlib.suppress(OSError):
            return self.docker("GET", "/_ping")[0] == 200
        return False

    def docker(self, method: str, path: str, body: Any = None) -> tuple[int, str]:
        with contextlib.closing(UnixConnection(str(self.docker_socket))) as connection:
            connection.timeout = 120
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def docker_pull(self, name: str) -> None:
        code, answer = self.docker("POST", f"/images/create?fromImage={name}")
        assert code == 200 and "errorDetail" not in answer, answer

    def pause(self) -> str:
        """The name of an image that sleeps, in a new registry."""
        registry = self.registry()
        registry.push("pause", sleeper(self.directory))
        return f"{registry.name}/pause:latest"

    def container(self, name: str) -> Callable[[], dict[str, Any]]:
        """Starts a container of dockerd. The returned function inspects it."""
        image = self.pause()
        self.docker_pull(image)
        body = {"Image": image, "HostConfig": {"NetworkMode": "none"}}
        code, answer = self.docker("POST", f"/containers/create?name={name}", body)
        assert code == 201, answer
        path = f"/containers/{json.loads(answer)['Id']}"
        assert self.docker("POST", f"{path}/start")[0] == 204
        return lambda: json.loads(self.docker("GET", f"{path}/json")[1])

    def with_systemd(self, unit: str = "containerd.service") -> Systemd:
        path = self.directory / "run/dbus/system_bus_socket"
        self.systemd = Systemd(path, self.directory / "bus.conf", unit, lambda _: self.daemons["containerd"].restart())
        return self.systemd

    def registry(self) -> Registry:
        registry = Registry(self.directory)
        self.closers.append(registry.stop)
        return registry

    def proxy(self, registry: Registry, rate: float = 0) -> Proxy:
        proxy = Proxy(registry.port, rate)
        self.closers.append(proxy.close)
        return proxy

    def leftovers(self) -> list[int]:
        """Processes of this namespace: shims, their containers, and Docker's containerd."""
        mine = os.readlink(f"/proc/{self.holder.pid}/ns/mnt")
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            pid = int(entry.name)
            try:
                if pid != self.holder.pid and os.readlink(entry / "ns/mnt") == mine:
                    found.append(pid)
                elif str(self.directory) in (entry / "mountinfo").read_text() and pid != os.getpid():
                    if (entry / "root/pause").exists():
                        found.append(pid)
            except OSError:
                pass
        return found

    def close(self) -> None:
        for closer in self.closers:
            closer()
        for name in ("dockerd", "containerd"):
            if name in self.daemons:
                self.daemons[name].stop()
        if self.systemd:
            self.systemd.close()
        deadline = time.monotonic() + 5
        while (left := self.leftovers()) and time.monotonic() < deadline:
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.05)
        self.holder.kill()
        self.holder.wait()


@contextlib.contextmanager
def own_lab() -> Iterator[Lab]:
    """A lab without fixtures."""
    with temporary() as directory, contextlib.closing(Lab(directory)) as made:
        yield made


@pytest.fixture
def lab(directory: Path) -> Iterator[Lab]:
    with contextlib.closing(Lab(directory)) as made:
        yield made


@pytest.fixture
def systemd(lab: Lab) -> Systemd:
    """A fake systemd with the unit of a running containerd."""
    lab.containerd()
    return lab.with_systemd()


@pytest.fixture
def watcher(lab: Lab, agent: Start) -> Start:
    """watcher(section) starts an agent in the lab that enforces only the runtime tuner. section: its options."""

    def start(section: str = "", more: str = "", wrap: tuple[str, ...] = (), **options: Any) -> Agent:
        text = f"mode: observe\nruntime: {{mode: enforce{section and ', ' + section}}}\n{more}"
        return agent(text, wrap=(*lab.wrap, *wrap), **options)

    return start


@pytest.fixture
def headroom(lab: Lab, directory: Path, run: Run) -> Run:
    """headroom(command, ...) runs a command in the lab without an agent. section: options of the runtime."""
    config = directory / "headroom.yaml"

    def start(*args: str, section: str = "", code: int | None = 0, **more: Any) -> subprocess.CompletedProcess[str]:
        config.write_text(f'mode: observe\nhttp: {{listen: ""}}\nruntime: {{mode: enforce{section and ", " + section}}}\n')
        done = run(*args, "--config", str(config), **{"wrap": lab.wrap, **more})
        assert code in (None, done.returncode), (args, done.stdout, done.stderr)
        return done

    return start
