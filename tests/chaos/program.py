# SPDX-License-Identifier: Apache-2.0
"""A program of the node with a configuration file in which Headroom sets one key, and the promises about the file."""

import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from world import Violation, clear, set_immutable

if TYPE_CHECKING:
    from node import Node

SEEN = 75.0  # seconds until status must show a change


class Program:
    FILE: Path
    NEWER: Path  # exists if a package of the newer generation is installed
    STATE: Path  # of the fake: it writes its value there, and looks for "hangs"
    KEY: str

    def __init__(self, node: "Node") -> None:
        self.node, self.world = node, node.world
        self.STATE.mkdir()
        self.process: subprocess.Popen[bytes] | None = None

    @staticmethod
    def key_of(text: str) -> str:
        raise NotImplementedError

    @staticmethod
    def rest_of(text: str) -> Any:
        """All but the key."""
        raise NotImplementedError

    def begin(self, text: str) -> None:
        clear(self.STATE)
        self.NEWER.unlink(missing_ok=True)
        self.process = None
        self.started = self.changed = self.world.now
        self.due = 0.0
        self.text = self.by_hand = text  # as last seen; as the last hand left it
        self.last_by_hand = True
        self.firsts: list[str] = []  # before the program's first write, each that may be recorded
        self.ours: set[str] = set()  # keys that a hand may write to give the file back to the program
        self.restored = False  # by us, and nobody has written since
        self.FILE.parent.mkdir(exist_ok=True)
        self.put(text)

    def put(self, text: str) -> None:
        """An empty text stands for a missing file."""
        self.make_immutable(False)
        if text:
            self.FILE.write_text(text)
        else:
            self.FILE.unlink(missing_ok=True)

    def make_immutable(self, on: bool) -> None:
        set_immutable(self.FILE, on)
        self.immutable = on and self.FILE.exists()

    def read(self) -> str:
        return self.FILE.read_text() if self.FILE.exists() else ""

    # ---- the process ----

    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        self.process = None

    def launch(self, *command: str) -> int:
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False
        )
        self.started = self.world.now
        return self.process.pid

    # ---- the file ----

    def note_kill(self, wanted: set[str]) -> None:
        """A process was killed, perhaps between its record and the write."""
        self.ours |= {self.key_of(self.text), *wanted}

    def migrate(self, change: Any) -> None:
        """The file gets another form. The value stays, so that it is not the hand's choice."""
        self.observe()
        chosen = change(self.by_hand)
        self.firsts = [change(text) for text in self.firsts]
        self.put(change(self.text))
        self.text, self.by_hand, self.changed = self.read(), chosen, self.world.now

    def write(self, text: str) -> None:
        """A hand writes the file."""
        self.observe()
        self.put(text)
        self.text = self.by_hand = text
        self.last_by_hand, self.changed, self.restored = True, self.world.now, False

    def observe(self) -> None:
        text = self.read()
        if text == self.text:
            return
        key, restoring = self.key_of(text), any(verb == "restore" for _, verb, _ in self.node.commands)
        # A roll-back replaces a file of others that the program refuses, and keeps a copy.
        rests = [self.rest_of(first) for first in (self.by_hand, *(self.firsts if "refused" in self.by_hand else []))]
        if self.rest_of(text) not in rests:
            raise Violation("originals", f"{self.FILE} lost lines: {text!r}, was {self.by_hand!r}")
        wanted = {c.fields["downloads"] for c in self.node.possible_configs() if c.mode("runtime") == "enforce"}
        undone = {self.key_of(first) for first in (*self.firsts, self.by_hand)}
        if key not in wanted and not (key in undone):
            raise Violation("consent", f"{self.FILE} has {self.KEY} = {key}: {self.node.explain()}")
        if self.node.released.get("runtime") == "yes" and key in wanted and key not in undone and not self.node.commands:
            raise Violation("consent", f"{self.FILE} was changed after a release: {self.node.explain()}")
        restoring = restoring and key in map(self.key_of, self.firsts)
        theirs, firsts = self.key_of(self.text), map(self.key_of, self.firsts)
        if restoring and key not in wanted and not self.node.corrects("runtime") and self.last_by_hand and theirs not in (*self.ours, *firsts):
            raise Violation("consent", f"restore set {self.KEY} to {key}, others had set it to {theirs}: {self.node.explain()}")
        self.ours = set() if restoring else {key}
        if not restoring and (not self.firsts or self.last_by_hand):  # drift makes a new original
            self.firsts.append(self.text)
        self.text, self.last_by_hand, self.changed = text, restoring, self.world.now
        self.restored = restoring

    def judge_failed_restore(self, out: str) -> None:
        """A restore that could not change the file names it."""
        ours = self.firsts and not self.last_by_hand and self.text not in self.firsts
        refused = "(original)" not in out or "files were not" in out or self.node.disturbed
        if self.immutable and ours and not refused and str(self.FILE) not in out:
            raise Violation("originals", f"restore does not name {self.FILE}, which it cannot change: {out}")

    def judge_restore(self, why: str) -> None:
        """After a restore that succeeded."""
        if not self.firsts:
            return
        keys = {self.key_of(text) for text in (*self.firsts, *([] if self.by_hand in self.firsts else [self.by_hand]))}
        if self.key_of(self.text) not in keys:
            raise Violation("originals", f"restore left {self.KEY} = {self.key_of(self.text)}, not {keys}: {why}")
        if self.firsts == [self.by_hand] and self.text != self.by_hand:
            raise Violation("originals", f"restore left {self.text!r}, not {self.by_hand!r}: {why}")
        self.firsts, self.by_hand, self.last_by_hand = [], self.text, True

    def judge_end(self) -> None:
        """Without any record, nothing of ours is left."""
        if self.firsts and self.text not in self.firsts and not self.last_by_hand:
            raise Violation("originals", f"no record of {self.text}")

    # ---- promises ----

    def supervised(self) -> bool:
        """Whether one agent of the unit enforces, and nothing keeps it or the program from their work."""
        agent, configs = self.node.running(), self.node.possible_configs()
        return (
            agent is not None
            and len(self.node.agents) == 1
            and agent.owner == "unit"
            and {c.mode("runtime") for c in configs} == {"enforce"}
            and not any((self.STATE / name).exists() for name in ("hangs", "pulls"))
            and not self.node.disturbed
        )

    def check(self, setting: dict[str, Any]) -> None:
        """status and the node agree."""
        now = self.world.now
        if now - max(self.changed, self.started) <= SEEN or not self.running() or (self.STATE / "hangs").exists():
            return
        key, value = self.key_of(self.text) or "3", (self.STATE / "value").read_text()
        if setting["state"] == "in-sync" and (setting["wanted"] != key or setting["wanted"] != value):
            raise Violation("truth", f"{self.FILE} has {key}, its program runs with {value}, but status says {setting}")
