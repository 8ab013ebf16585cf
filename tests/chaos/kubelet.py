# SPDX-License-Identifier: Apache-2.0
"""A fake kubelet with its files, a fake mirror of a registry, and the files that Headroom adds for both."""

import contextlib
import re
import shutil
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from world import LAB, Violation

if TYPE_CHECKING:
    from node import Node

DEFAULT = 85
KNOWN = 135.0  # seconds until the agent has read a file again
CHANGES = ("02", "03", "04", "09", "0B")  # SYN_SENT, SYN_RECV, FIN_WAIT1, LAST_ACK, CLOSING
HIGH = "imageGCHighThresholdPercent"
TEXTS = {
    "plain": "kind: KubeletConfiguration\n",
    "60": f"kind: KubeletConfiguration\n{HIGH}: 60\n",
    "100": f"kind: KubeletConfiguration\n{HIGH}: 100\nserializeImagePulls: false\n",
    "parallel": "kind: KubeletConfiguration\nserializeImagePulls: false\nmaxParallelImagePulls: 2\n",
    "faulty": f"kind: KubeletConfiguration\n{HIGH}: [\n",
}


class OwnFile:
    """A whole file of Headroom, which nobody else writes, in one of some paths."""

    def __init__(self, node: "Node", paths: list[Path], tuner: str, field: str) -> None:
        self.node, self.paths, self.tuner, self.field = node, paths, tuner, field
        self.text = ""

    def read(self) -> str:
        return "".join(path.read_text() for path in self.paths if path.is_file())

    def observe(self) -> None:
        text, node = self.read(), self.node
        if text == self.text:
            return
        self.text = text
        wanted = any(c.mode(self.tuner) == "enforce" and c.fields[self.field] for c in node.possible_configs())
        if text and not (wanted and (node.released.get(self.tuner) != "yes" or node.commands)):
            raise Violation("consent", f"{self.paths} was written: {node.explain()}")

    def judge_restore(self, why: str) -> None:
        """After a restore that succeeded."""
        if self.read():
            raise Violation("originals", f"restore left {self.paths}: {why}")


class Kubelet:
    FILE, DROP_INS = Path("/var/lib/kubelet/config.yaml"), Path("/var/lib/kubelet/config.d")
    OF_K3S = Path("/var/lib/rancher/k3s/agent/etc/kubelet.conf.d")

    def __init__(self, node: "Node") -> None:
        self.node = node
        self.own = OwnFile(node, [d / "99-headroom.conf" for d in (self.DROP_INS, self.OF_K3S)], "kubelet", "manage")
        for name in ("kubelet", "k3s-server"):
            (LAB / "bin" / name).symlink_to("/bin/dash")
        self.reset()

    def reset(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.own.text = ""
        self.highs = {DEFAULT: self.node.world.now}  # and when each was in force

    def absent(self) -> bool:
        return self.process is None and not self.FILE.exists()

    def start_k3s(self) -> None:
        """k3s has a kubelet inside."""
        self.stop()
        with contextlib.suppress(OSError):  # a full or read-only disk
            self.OF_K3S.mkdir(parents=True, exist_ok=True)
        self.process = subprocess.Popen([LAB / "bin/k3s-server", "-c", "read line"], stdin=subprocess.PIPE, close_fds=False)

    def start(self) -> None:
        self.stop()
        if not self.FILE.exists():
            self.put(self.FILE, "plain")
        options = [f"--config={self.FILE}", f"--config-dir={self.DROP_INS}"]
        self.process = subprocess.Popen([LAB / "bin/kubelet", "-c", "read line", "kubelet", *options], stdin=subprocess.PIPE, close_fds=False)

    def stop(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()
        self.process = None

    def put(self, path: Path, how: str) -> None:
        with contextlib.suppress(OSError):  # a full or read-only disk
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
            if how == "directory":
                path.mkdir()
            elif how == "hung":
                path.symlink_to("/mnt/hung/kubelet")
            elif how != "missing":
                path.write_text(TEXTS[how])

    @staticmethod
    def high(paths: list[Path]) -> int:
        """imageGCHighThresholdPercent of the files."""
        texts = [p.read_text() for p in paths if p.is_file()]
        found = [int(n) for text in texts for n in re.findall(rf"{HIGH}: (\d+)", text)]
        return found[-1] if found else DEFAULT

    def thresholds(self) -> list[int]:
        """Those that the agent may know: a file that it cannot read leaves the default."""
        now = self.node.world.now
        for paths in ([self.FILE, *sorted(self.DROP_INS.glob("*.conf"))], sorted(self.OF_K3S.glob("*.conf"))):
            self.highs[self.high(paths)] = now
        return [DEFAULT, *(high for high, at in self.highs.items() if now - at < KNOWN)]


class Mirror:
    """A registry's mirror that Headroom may configure, and asks for images. The tester answers in its own thread."""

    URL = "http://127.0.0.1:5000"
    ANSWERS = {"has": "200 OK", "lacks": "404 Not Found", "fails": "500 Internal Server Error"}

    def __init__(self, node: "Node") -> None:
        self.own = OwnFile(node, [Path("/etc/containerd/certs.d/registry.example/hosts.toml")], "runtime", "mirrors")
        self.listening: socket.socket | None = None
        self.clients: list[socket.socket] = []
        node.world.pumps.append(self.pump)
        self.reset()

    def reset(self) -> None:
        self.own.text = ""
        shutil.rmtree(self.own.paths[0].parent.parent, ignore_errors=True)
        self.become("down")

    def become(self, how: str) -> None:
        for open_ in (*self.clients, self.listening):
            if open_:
                open_.close()
        self.how, self.clients, self.listening = how, [], None
        if how != "down":
            self.listening = socket.create_server(("127.0.0.1", 5000))
            self.listening.setblocking(False)

    def carries(self) -> bool:
        """Whether the kernel still carries something through a connection."""
        count = Path("/proc/net/sockstat").read_text().split("TCP: inuse ")[1].split()[0]
        if int(count) <= bool(self.listening):  # to read all connections takes a millisecond
            return False
        rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return any(state in CHANGES or not queue.startswith("00000000:") for _, _, _, state, queue, *_ in rows)

    def pump(self) -> bool:
        """Answers whoever has asked."""
        busy = self.carries()
        with contextlib.suppress(BlockingIOError):
            while self.listening:
                self.clients.append(self.listening.accept()[0])
                self.clients[-1].setblocking(False)
                busy = True
        for client in list(self.clients if self.how in self.ANSWERS else []):
            try:
                if client.recv(65536):
                    client.sendall(f"HTTP/1.1 {self.ANSWERS[self.how]}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
            except BlockingIOError:
                continue
            except OSError:
                pass
            client.close()
            self.clients.remove(client)
            busy = True
        return busy
