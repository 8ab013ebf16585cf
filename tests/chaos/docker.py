# SPDX-License-Identifier: Apache-2.0
"""A fake dockerd with its daemon.json and its unit's command line, and the promises about both."""

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from containerd import Bus
from program import SEEN, Program
from world import BUILD, LAB, Violation

if TYPE_CHECKING:
    from node import Node

KEY = "max-concurrent-downloads"
FLAG = f"--{KEY}=5"
ORIGINAL = '{\n  "log-level": "warn"\n}\n'
LAYER = Path("/var/lib/docker/tmp/GetImageBlob1")
SOCKET, PID_FILE = Path("/run/docker.sock"), Path("/run/docker.pid")
PULL_BEGINS = 1800.0  # seconds: its wave comes in 3 minutes, and a failed pull is tried again in 10
PROGRAM = LAB / "bin/dockerd"


def load(text: str) -> dict[str, Any]:
    return dict(json.loads(text or "{}"))


class Docker(Program):
    FILE = Path("/etc/docker/daemon.json")
    STATE, NEWER = LAB / "docker", LAB / "docker26"
    KEY = KEY

    def __init__(self, node: "Node", bus: Bus) -> None:
        super().__init__(node)
        self.unit = bus.docker
        PROGRAM.symlink_to(BUILD / "tests/tool/fake_dockerd")
        self.reset()

    def reset(self) -> None:
        self.begin("")
        self.unit.command = ["/usr/bin/dockerd"]
        self.unit.pid = 0
        self.pull_due = self.pulled = self.world.now

    @staticmethod
    def key_of(text: str) -> str:
        return str(load(text).get(KEY, ""))

    @staticmethod
    def rest_of(text: str) -> Any:
        return {key: value for key, value in load(text).items() if key != KEY}

    def observe(self) -> None:
        super().observe()
        if (self.STATE / "pulling").exists():
            self.pulled = self.world.now

    def flagged(self) -> bool:
        return FLAG in self.unit.command

    def flag(self, add: bool) -> None:
        """A drop-in of the unit adds or removes the flag. It counts at the next start."""
        self.unit.command = ["/usr/bin/dockerd", *([FLAG] if add else [])]
        self.due = self.world.now

    def stop(self) -> None:
        super().stop()
        (self.STATE / "pulling").unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # a read-only disk
            SOCKET.unlink(missing_ok=True)
            PID_FILE.unlink(missing_ok=True)
        self.unit.pid = 0

    def start(self) -> None:
        self.stop()
        flags = [FLAG] if self.flagged() else []
        self.unit.pid = self.launch(str(PROGRAM), str(SOCKET), str(self.FILE), str(self.STATE), *flags)
        with contextlib.suppress(OSError):  # a full or read-only disk
            LAYER.parent.mkdir(parents=True, exist_ok=True)
            PID_FILE.write_text(str(self.unit.pid))

    def pull(self, begin: bool) -> None:
        with contextlib.suppress(OSError):  # a full or read-only disk, or dockerd has never started
            LAYER.write_bytes(b"-" * 4096) if begin else LAYER.unlink(missing_ok=True)

    def make_well(self) -> None:
        (self.STATE / "hangs").unlink(missing_ok=True)
        if self.process:
            self.start()

    def check_flag(self) -> None:
        """dockerd does not start with a flag and the same key in its file, so our key has to go."""
        kinds = {c.fields["runtime.kind"] for c in self.node.possible_configs()}
        if not self.supervised() or kinds != {"auto"} or not self.flagged() or self.node.released:
            self.due = self.world.now
        ours = self.firsts and not self.last_by_hand and self.key_of(self.text) not in map(self.key_of, (*self.firsts, self.by_hand))
        if ours and self.world.now - max(self.due, self.changed) > SEEN:
            raise Violation("restarts", f"docker.service has {FLAG} and would not start with {self.text!r}: {self.node.explain()}")

    def check_pull(self) -> None:
        """A pull of ours ends at once when nobody wants it any more."""
        configs, node = self.node.possible_configs(), self.node
        wanted = any(c.mode("images") == "enforce" and (c.fields["pull"] or c.fields["archives"]) for c in configs) and node.released.get("images") != "yes"
        if wanted or node.commands or node.world.fuse >= 0 or any(a.stopped for a in node.agents.values()):
            self.pull_due = self.world.now
        # Restarts of containerd hold pulls back.
        due = {(c.mode("images"), c.fields["runtime.kind"], c.fields["runtime.restart"], c.fields["archives"], bool(c.fields["pull"])) for c in configs}
        if not self.supervised() or not self.running() or not node.kubelet.absent() or due != {("enforce", "auto", "never", None, True)} or node.released:
            self.pulled = self.world.now
        if self.world.now - max(self.pulled, self.started) > PULL_BEGINS:
            raise Violation("progress", f"an image is not pulled: {node.explain()}")
        if (self.STATE / "hangs").exists():  # it does not see the end
            self.pull_due = self.world.now
        if (self.STATE / "pulling").exists() and self.running() and self.world.now - max(self.pull_due, self.started) > 5:
            raise Violation("consent", f"an image is pulled that nobody wants any more: {node.explain()}")
