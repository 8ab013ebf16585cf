# SPDX-License-Identifier: Apache-2.0
"""A fake containerd with its file, a fake systemd that restarts it, and the promises about both."""

import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from world import BUILD, LAB, ROOT, Violation, World, clear
from world import STATE as RECORDS

sys.path.append(str(ROOT / "tests/root"))

import dbus  # noqa: E402
import dbus.bus  # noqa: E402
import dbus.mainloop.glib  # noqa: E402
import dbus.service  # noqa: E402
from gi.repository import GLib  # noqa: E402

from fakesystemd import CONFIG, SYSTEMD, Unit  # noqa: E402

if TYPE_CHECKING:
    from node import Node

FILE = Path("/etc/containerd/config.toml")
SOCKET = Path("/run/containerd/containerd.sock")
STATE = LAB / "containerd"
BUS = LAB / "bus"
UNIT = "containerd.service"
KEY = "max_concurrent_downloads"
ORIGINAL = """# kept by the administrator
version = 2

[plugins]
  [plugins."io.containerd.grpc.v1.cri"]
    sandbox_image = "registry.example/pause:3.6"   # ours
"""
AN_HOUR, A_DAY = 3, 5  # restarts of one unit
SEEN = 75.0  # seconds until status must show a change of the runtime


def key_of(text: str) -> str:
    found = re.search(rf"^\s*{KEY} = (\S+)", text, re.M)
    return found.group(1) if found else ""


def rest_of(text: str) -> list[str]:
    """All lines but that of the key."""
    return [line for line in text.splitlines() if KEY not in line and "dded by headroom" not in line]


def with_key(text: str, value: str) -> str:
    """A hand sets or removes the key."""
    lines = [line for line in text.splitlines() if KEY not in line and "dded by headroom" not in line]
    at = next((i for i, line in enumerate(lines) if "v1.cri" in line), len(lines) - 1) + 1
    return "\n".join([*lines[:at], *([f"    {KEY} = {value}"] if value else []), *lines[at:]]) + "\n"


class Manager(dbus.service.Object):  # type: ignore[misc]
    def __init__(self, bus: Any, unit: Unit, restart: Any) -> None:
        super().__init__(bus, "/org/freedesktop/systemd1")
        self.unit, self.restart, self.pid = unit, restart, 0
        self.broken: Violation | None = None

    @dbus.service.method(f"{SYSTEMD}.Manager", in_signature="u", out_signature="o")
    def GetUnitByPID(self, pid: int) -> Any:
        if pid != self.pid:
            raise dbus.exceptions.DBusException("no unit", name=f"{SYSTEMD}.NoUnitForPID")
        return dbus.ObjectPath("/org/freedesktop/systemd1/unit/containerd_2eservice")

    @dbus.service.method(f"{SYSTEMD}.Manager", in_signature="ss", out_signature="o")
    def RestartUnit(self, unit: str, _mode: str) -> Any:
        try:
            self.restart(str(unit))
        except Violation as why:  # the bus would swallow it
            self.broken = why
        return dbus.ObjectPath("/org/freedesktop/systemd1/job/1")

    @dbus.service.method(f"{SYSTEMD}.Manager", in_signature="ss", out_signature="o")
    def TryRestartUnit(self, unit: str, mode: str) -> Any:
        return self.RestartUnit(unit, mode)


class Bus:
    """The message bus and the fake systemd. The tester answers in its own thread, whenever the node sleeps."""

    def __init__(self, world: World, restart: Any) -> None:
        config = LAB / "bus.conf"
        config.write_text(CONFIG.format(BUS))
        command = ["dbus-daemon", f"--config-file={config}", "--nofork", "--nopidfile", "--print-address"]
        self.daemon = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert self.daemon.stdout and self.daemon.stdout.readline()
        world.kept.add(self.daemon.pid)
        loop = dbus.mainloop.glib.DBusGMainLoop()
        self.bus = dbus.bus.BusConnection(f"unix:path={BUS}", mainloop=loop)
        self.name = dbus.service.BusName(SYSTEMD, self.bus)
        self.unit = Unit(self.bus, UNIT)
        self.docker = Unit(self.bus, "docker.service")
        self.manager = Manager(self.bus, self.unit, restart)
        world.pumps.append(self.pump)

    @staticmethod
    def pump() -> bool:
        context, busy = GLib.MainContext.default(), False
        while context.pending():
            busy = context.iteration(False) or busy
        return busy


class Containerd:
    def __init__(self, node: "Node") -> None:
        self.node, self.world = node, node.world
        STATE.mkdir()
        self.bus = Bus(node.world, self.restart_by_us)
        self.process: subprocess.Popen[bytes] | None = None
        self.reset()

    def reset(self) -> None:
        clear(STATE)
        self.bus.manager.broken = None
        self.process = None
        self.regenerates = self.breaks = False
        self.due = 0.0
        self.recorded = False
        self.restarts: list[float] = []
        self.bus.unit.state = "active"
        self.started = self.changed = self.world.now
        FILE.parent.mkdir(exist_ok=True)
        self.refused = False
        self.text = self.by_hand = ORIGINAL  # as last seen; as the last hand left it
        self.last_by_hand = True
        self.firsts: list[str] = []  # before the program's first write, each that may be recorded
        self.loose = False
        self.restored = False  # by us, and nobody has written since
        FILE.write_text(ORIGINAL)

    # ---- the process ----

    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def stop(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        self.process = None
        self.bus.unit.state = "inactive"

    def start(self) -> None:
        self.stop()
        if self.regenerates:
            self.write(ORIGINAL)
        if self.breaks:
            (STATE / "hangs").write_text("")
        SOCKET.parent.mkdir(parents=True, exist_ok=True)
        program = str(BUILD / "tests/tool/fake_containerd")
        self.process = subprocess.Popen(
            [program, str(SOCKET), str(FILE), str(STATE)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, close_fds=False
        )
        self.started = self.world.now
        self.bus.unit.pid = self.bus.manager.pid = self.process.pid
        self.bus.unit.state = "failed" if "refused" in FILE.read_text() else "active"

    def restart_by_us(self, unit: str) -> None:
        """RestartUnit and TryRestartUnit: the program restarts the unit."""
        self.observe()
        now, node = self.world.now, self.node
        policies = {c.fields["runtime.restart"] for c in node.possible_configs()}
        if policies == {"never"}:
            raise Violation("restarts", f"{unit} was restarted with never: {node.explain()}")
        if (STATE / "pulls").exists() and "now" not in policies:
            raise Violation("restarts", f"{unit} was restarted during a pull: {node.explain()}")
        if "refused" in FILE.read_text():
            raise Violation("restarts", f"{unit} was restarted with a file that it refuses: {node.explain()}")
        self.restarts.append(now)
        for most, seconds in ((AN_HOUR, 3600), (A_DAY, 86400)):
            times = [at for at in self.restarts if at > now - seconds]
            if len(times) > most:
                raise Violation("restarts", f"{unit} was restarted {len(times)} times in {seconds} s: {times}: {node.explain()}")
        self.start()

    # ---- the file ----

    def write(self, text: str) -> None:
        """A hand writes the file."""
        self.observe()
        FILE.write_text(text)
        self.text = self.by_hand = text
        self.last_by_hand, self.changed, self.restored = True, self.world.now, False

    def observe(self) -> None:
        if self.bus.manager.broken:
            why, self.bus.manager.broken = self.bus.manager.broken, None
            raise why
        recorded = (RECORDS / "journal.json").exists()
        if self.recorded and not recorded:
            self.restarts.clear()  # a purge forgets the budget, too
        self.recorded = recorded
        text = FILE.read_text() if FILE.exists() else ""
        if text == self.text:
            return
        key, restoring = key_of(text), any(verb == "restore" for _, verb, _ in self.node.commands)
        if rest_of(text) != rest_of(self.by_hand) and rest_of(text) not in map(rest_of, self.firsts):
            raise Violation("originals", f"{FILE} lost lines: {text!r}, was {self.by_hand!r}")
        wanted = {c.fields["downloads"] for c in self.node.possible_configs() if c.mode("runtime") == "enforce"}
        undone = {key_of(first) for first in (*self.firsts, self.by_hand)}
        if key not in wanted and not (key in undone):
            raise Violation("consent", f"{FILE} has {KEY} = {key}: {self.node.explain()}")
        if self.node.released.get("runtime") == "yes" and key in wanted and key not in undone and not self.node.commands:
            raise Violation("consent", f"{FILE} was changed after a release: {self.node.explain()}")
        restoring = restoring and key in map(key_of, self.firsts)
        if not restoring and (not self.firsts or self.last_by_hand):  # drift makes a new original
            self.firsts.append(self.text)
            self.loose = False
        self.text, self.last_by_hand, self.changed = text, restoring, self.world.now
        self.restored = restoring

    def make_well(self) -> None:
        """A file that loads, and a process that answers."""
        clear(STATE)
        self.regenerates = self.breaks = False
        if "refused" in FILE.read_text():
            self.write(FILE.read_text().replace("# refused\n", ""))
        self.start()
        self.world.settle()

    def judge_restore(self, why: str) -> None:
        """After a restore that succeeded."""
        if not self.firsts:
            return
        keys = {key_of(text) for text in (*self.firsts, *([] if self.by_hand in self.firsts else [self.by_hand]))}
        if key_of(self.text) not in keys:
            raise Violation("originals", f"restore left {KEY} = {key_of(self.text)}, not {keys}: {why}")
        if self.firsts == [self.by_hand] and self.text != self.by_hand:
            raise Violation("originals", f"restore left {self.text!r}, not {self.by_hand!r}: {why}")
        self.firsts, self.loose, self.by_hand, self.last_by_hand = [], False, self.text, True

    def check_restored(self) -> None:
        """A restore that was cut short is finished by the agent: the program runs with the original again."""
        now, recent = self.world.now, [at for at in self.restarts if at > self.world.now - 86400]
        agent = self.node.running()
        idle = self.running() and not any((STATE / name).exists() for name in ("hangs", "pulls"))
        policies = {c.fields["runtime.restart"] for c in self.node.possible_configs()}
        modes = {c.mode("runtime") for c in self.node.possible_configs()}
        if not agent or len(self.node.agents) > 1 or agent.owner != "unit" or not idle or policies != {"now"} or modes != {"enforce"}:
            self.due = now
        if now - max(self.changed, self.started, self.due) < 200 or not self.restored or len(recent) > 2 or self.node.disturbed:
            return
        key, value = key_of(self.text) or "3", (STATE / "value").read_text()
        if key != value:
            raise Violation("originals", f"the file was restored to {key}, but containerd runs with {value}: {self.node.explain()}")

    def check(self, setting: dict[str, Any]) -> None:
        """status and the node agree."""
        now = self.world.now
        if now - max(self.changed, self.started) <= SEEN or not self.running() or (STATE / "hangs").exists():
            return
        key, value = key_of(self.text) or "3", (STATE / "value").read_text()
        if setting["state"] == "in-sync" and (setting["wanted"] != key or setting["wanted"] != value):
            raise Violation("truth", f"the file has {key}, containerd runs with {value}, but status says {setting}")
