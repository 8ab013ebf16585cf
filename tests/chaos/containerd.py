# SPDX-License-Identifier: Apache-2.0
"""A fake containerd with its file, a fake systemd that restarts it, and the promises about both."""

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from program import Program
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
    [plugins."io.containerd.grpc.v1.cri".registry]
      config_path = "/etc/containerd/certs.d"
"""
TABLES = {2: "io.containerd.grpc.v1.cri", 3: "io.containerd.cri.v1.images"}  # by the file's version
AN_HOUR, A_DAY = 3, 5  # restarts of one unit


def key_of(text: str) -> str:
    found = re.search(rf"^\s*{KEY} = (\S+)", text, re.M)
    return found.group(1) if found else ""


def rest_of(text: str) -> list[str]:
    """All lines but that of the key."""
    return [line for line in text.splitlines() if KEY not in line and "dded by headroom" not in line]


def with_key(text: str, value: str) -> str:
    """A hand sets or removes the key."""
    lines = [line for line in text.splitlines() if KEY not in line and "dded by headroom" not in line]
    at = next((i for i, line in enumerate(lines) if any(f'{table}"' in line for table in TABLES.values())), len(lines) - 1) + 1
    return "\n".join([*lines[:at], *([f"    {KEY} = {value}"] if value else []), *lines[at:]]) + "\n"


def migrated(text: str, version: int) -> str:
    """As containerd config migrate does, or an administrator for an older one."""
    text = re.sub(r"^version = \d", f"version = {version}", text, flags=re.M)
    return text.replace(TABLES[5 - version], TABLES[version])


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
        world.turned = True  # from now on this process does not wait for others

    @staticmethod
    def pump() -> bool:
        context, busy = GLib.MainContext.default(), False
        while context.pending():
            busy = context.iteration(False) or busy
        return busy


class Containerd(Program):
    FILE, STATE, KEY, NEWER = FILE, STATE, KEY, LAB / "containerd2"
    key_of, rest_of = staticmethod(key_of), staticmethod(rest_of)

    def __init__(self, node: "Node") -> None:
        super().__init__(node)
        self.bus = Bus(node.world, self.restart_by_us)
        self.reset()

    def reset(self) -> None:
        self.begin(ORIGINAL)
        self.bus.manager.broken = None
        self.regenerates = self.breaks = False
        self.recorded = False
        self.restarts: list[float] = []
        self.bus.unit.state = "active"

    # ---- the process ----

    def stop(self) -> None:
        super().stop()
        self.bus.unit.state = "inactive"

    def start(self) -> None:
        self.stop()
        if self.regenerates:
            self.write(ORIGINAL)
        if self.breaks:
            (STATE / "hangs").write_text("")
        SOCKET.parent.mkdir(parents=True, exist_ok=True)
        program = str(BUILD / "tests/tool/fake_containerd")
        self.bus.unit.pid = self.bus.manager.pid = self.launch(program, str(SOCKET), str(FILE), str(STATE), str(LAB / "images"))
        self.bus.unit.state = "failed" if "refused" in FILE.read_text() else "active"

    def restart_by_us(self, unit: str) -> None:
        """RestartUnit and TryRestartUnit: the program restarts the unit."""
        self.observe()
        now, node = self.world.now, self.node
        policies = {c.fields["runtime.restart"] for c in node.possible_configs()}
        # A restart that began before is finished: a program that does not answer comes back with its old file.
        finishes = (STATE / "hangs").exists() and self.restarts and self.restarts[-1] > now - 300
        if policies == {"never"} and not finishes:
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

    def observe(self) -> None:
        if self.bus.manager.broken:
            why, self.bus.manager.broken = self.bus.manager.broken, None
            raise why
        recorded = (RECORDS / "journal.json").exists()
        if self.recorded and not recorded:
            self.restarts.clear()  # a purge forgets the budget, too
        self.recorded = recorded
        super().observe()

    def make_well(self) -> None:
        """A file that loads, and a process that answers."""
        clear(STATE)
        self.regenerates = self.breaks = False
        if "refused" in FILE.read_text():
            self.write(FILE.read_text().replace("# refused\n", ""))
        self.start()
        self.world.settle()

    def check_restored(self) -> None:
        """A restore that was cut short is finished by the agent: the program runs with the original again."""
        now, recent = self.world.now, [at for at in self.restarts if at > self.world.now - 86400]
        policies = {c.fields["runtime.restart"] for c in self.node.possible_configs()}
        if not self.supervised() or not self.running() or policies != {"now"}:
            self.due = now
        # An agent that enforces keeps a restart for a roll-back.
        held = len(recent) > 1 or "refused" in self.text or self.node.disturbed
        held |= TABLES[3] in self.text and not self.NEWER.exists()  # it ignores the file
        if now - max(self.changed, self.started, self.due) < 200 or not self.restored or held:
            return
        key, value = key_of(self.text) or "3", (STATE / "value").read_text()
        if key != value:
            raise Violation("originals", f"the file was restored to {key}, but containerd runs with {value}: {self.node.explain()}")
