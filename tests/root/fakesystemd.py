# SPDX-License-Identifier: Apache-2.0
"""A message bus with a fake systemd. It knows one unit, and a function of the test restarts it."""

import threading
from pathlib import Path
from typing import Any, Callable

import dbus
import dbus.bus
import dbus.mainloop.glib
import dbus.service
from conftest import end, spawn, until
from gi.repository import GLib

SYSTEMD = "org.freedesktop.systemd1"
PROPERTIES = "org.freedesktop.DBus.Properties"

CONFIG = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>system</type><listen>unix:path={}</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow receive_sender="*"/>
<allow own="*"/></policy></busconfig>
"""


class Unit(dbus.service.Object):  # type: ignore[misc]
    def __init__(self, bus: Any, name: str) -> None:
        encoded = "".join(c if c.isalnum() else f"_{ord(c):02x}" for c in name)
        self.path = f"/org/freedesktop/systemd1/unit/{encoded}"
        super().__init__(bus, self.path)
        self.kill_mode = "process"
        self.state = "active"
        self.bound: list[str] = []
        self.command: list[str] = []
        self.pid = 0
        self.environment: list[str] = []
        self.search: list[str] = []
        self.more: dict[str, Any] = {}  # further properties
        self.on_ask: Callable[[], None] = lambda: None  # before KillMode is told

    def exec_start(self) -> Any:
        words = dbus.Array(self.command, signature="s")
        return dbus.Struct((self.command[0], words, False, 0, 0, 0, 0, 0, 0, 0), signature="sasbttttuii")

    @dbus.service.method(PROPERTIES, in_signature="ss", out_signature="v")
    def Get(self, _interface: str, name: str) -> Any:
        if name == "KillMode":
            self.on_ask()
        known = {
            "KillMode": self.kill_mode,
            "ActiveState": self.state,
            "BoundBy": dbus.Array(self.bound, signature="s"),
            "ExecStart": dbus.Array([self.exec_start()] if self.command else [], signature="(sasbttttuii)"),
            "MainPID": dbus.UInt32(self.pid),
            "Environment": dbus.Array(self.environment, signature="s"),
            "ExecSearchPath": dbus.Array(self.search, signature="s"),
            "Job": dbus.Struct((dbus.UInt32(0), dbus.ObjectPath("/")), signature="uo"),
        }
        known.update(self.more)
        return known.get(name, dbus.Array([], signature="s"))


class Manager(dbus.service.Object):  # type: ignore[misc]
    def __init__(self, bus: Any, units: list[Unit], restart: Callable[[str], None]) -> None:
        super().__init__(bus, "/org/freedesktop/systemd1")
        self.units = units
        self.restart = restart
        self.restarted: list[str] = []

    @dbus.service.method(f"{SYSTEMD}.Manager", in_signature="u", out_signature="o")
    def GetUnitByPID(self, pid: int) -> Any:
        return next(dbus.ObjectPath(unit.path) for unit in self.units if unit.pid == pid)

    @dbus.service.method(f"{SYSTEMD}.Manager", in_signature="ss", out_signature="o")
    def RestartUnit(self, unit: str, _mode: str) -> Any:
        self.restarted.append(str(unit))
        self.restart(str(unit))
        return dbus.ObjectPath("/org/freedesktop/systemd1/job/1")

    @dbus.service.method(f"{SYSTEMD}.Manager", in_signature="ss", out_signature="o")
    def TryRestartUnit(self, unit: str, mode: str) -> Any:
        return self.RestartUnit(unit, mode)


def connect(path: Path) -> Any:
    """The bus, or None until its daemon listens: the socket exists a moment earlier."""
    try:
        return dbus.bus.BusConnection(f"unix:path={path}", mainloop=dbus.mainloop.glib.DBusGMainLoop())
    except dbus.exceptions.DBusException:
        return None


class Systemd:
    """A bus at path, and a thread that answers calls."""

    def __init__(self, path: Path, config: Path, unit: str, restart: Callable[[str], None]) -> None:
        config.write_text(CONFIG.format(path))
        command = ["dbus-daemon", f"--config-file={config}", "--nofork", "--nopidfile"]
        self.daemon = spawn(command, config.with_suffix(".log"))
        dbus.mainloop.glib.threads_init()
        self.bus = until(lambda: connect(path), "the message bus")
        self.loop = GLib.MainLoop()
        self.name = dbus.service.BusName(SYSTEMD, self.bus)
        self.unit = Unit(self.bus, unit)
        self.docker = Unit(self.bus, "docker.service")
        self.manager = Manager(self.bus, [self.unit, self.docker], restart)
        self.restarted = self.manager.restarted
        self.thread = threading.Thread(target=self.loop.run, daemon=True)
        self.thread.start()

    def close(self) -> None:
        GLib.idle_add(self.loop.quit)
        self.thread.join(5)
        self.bus.close()
        end(self.daemon)
