# SPDX-License-Identifier: Apache-2.0
"""The hands that act on a node. Each method is a step of a history; its annotations say which arguments it draws."""

import json
import signal
from pathlib import Path
from typing import Any, Callable

from containerd import FILE, ORIGINAL, STATE, migrated, with_key
from docker import ORIGINAL as DOCKER_ORIGINAL
from images import APP, CONTENTS, FOREIGN, TOOL
from kubelet import TEXTS, Mirror
from node import FIELDS, NEW, OWNERS, WRITES, Node
from world import RUN, SECOND, Actor, Violation, clear

TIMES = [0.2, 1, 2.5, 11, 61, 1800, 90000]
PERIODS = [0.3, 2, 60, 1800, 86400]
VERBS = ["apply", "restore", "plan", "status", "doctor", "explain"]
FILES = ["containerd.max_concurrent_downloads", "docker.max-concurrent-downloads"]
STEPS: dict[str, dict[str, list[Any]]] = {}
COMBINED: dict[str, dict[str, list[Any]]] = {}


def step(**choices: list[Any]) -> Callable[[Any], Any]:
    """Marks a method as a step, with the choices of each argument."""

    def mark(function: Any) -> Any:
        STEPS[function.__name__] = choices
        return function

    return mark


def combined(**choices: list[Any]) -> Callable[[Any], Any]:
    """Marks a method that does several steps at once. Only --combined draws it."""

    def mark(function: Any) -> Any:
        COMBINED[function.__name__] = choices
        return function

    return mark


class Hands:
    def __init__(self, node: Node) -> None:
        self.node, self.world = node, node.world

    def play(self, name: str, arguments: dict[str, Any]) -> None:
        getattr(self, name)(**arguments)
        self.world.settle()
        self.node.check()
        self.world.settle()  # after its answers

    # ---- administrator and configuration management ----

    @step(name=list(WRITES), pick=list(range(6)))
    def set_value(self, name: str, pick: int) -> None:
        self.node.write(name, WRITES[name][pick % len(WRITES[name])])

    @step(name=list(WRITES), pick=list(range(6)), period=PERIODS)
    def manage_value(self, name: str, pick: int, period: float) -> None:
        """Configuration management sets a value again and again."""
        text = WRITES[name][pick % len(WRITES[name])]

        def act() -> None:
            if self.node.values[name].read() != text:
                self.node.write(name, text)

        self.world.actors[name] = Actor(period, act, self.world.now + period)

    @step(pick=list(range(6)))
    def run_sysctl_system(self, pick: int) -> None:
        """sysctl --system writes all of its keys."""
        for name in [name for name, value in self.node.values.items() if value.tuner == "sysctl"]:
            self.set_value(name, pick)

    @step(name=[*WRITES, *FILES, *FILES], on=[True, True, False])
    def make_immutable(self, name: str, on: bool) -> None:
        """An administrator makes a file immutable, or a value read-only. A hand that writes it ends that."""
        {**self.node.values, **self.node.programs}[name].make_immutable(on)

    @combined(name=list(WRITES), restarts=[False, True])
    def fight_slowly(self, name: str, restarts: bool) -> None:
        """Each run of configuration management reverts a value. The unit restarts or reloads between them."""
        if self.world.fuse >= 0 or any(agent.stopped for agent in self.node.agents.values()):
            return
        for _ in range(8):
            self.start_agent("unit", 0)
            self.node.write(name, WRITES[name][0])
            self.world.forward(2 * SECOND)
            self.world.forward(60 * SECOND)
            if restarts and "unit" in self.node.agents:
                self.node.end("unit")
            else:
                self.hang_up()

    @step()
    def stop_managing(self) -> None:
        self.world.actors.clear()

    @step(owner=["unit", "unit", "blue"], field=list(FIELDS), pick=list(range(4)), in_place=[False, True])
    def edit_config(self, owner: str, field: str, pick: int, in_place: bool) -> None:
        fields = {**self.node.configs[owner].fields, field: FIELDS[field][pick % len(FIELDS[field])]}
        self.node.configs[owner] = type(self.node.configs[owner])(owner, fields, self.node.others_off)
        self.node.write_config(owner, in_place)

    @step(owner=["unit", "blue"], how=["missing", "empty", "half", "faulty", "writable"])
    def break_config(self, owner: str, how: str) -> None:
        path = self.node.configs[owner].path
        if owner in self.node.faulty:
            return
        text = path.read_text()
        if how == "missing":
            path.unlink()
        elif how == "writable":
            path.chmod(0o666)
        else:
            path.write_text({"empty": "", "half": text[: text.index("http:") + 7], "faulty": text + "moed: enforce\n"}[how])
        self.node.faulty.add(owner)

    @step(owner=["unit", "blue"])
    def repair_config(self, owner: str) -> None:
        self.node.write_config(owner)

    # ---- time ----

    @step(seconds=TIMES)
    def wait(self, seconds: float) -> None:
        self.world.advance(seconds)

    @step()
    def be_quiet(self) -> None:
        """Nobody does anything for a while, and every setting gets to its place."""
        self.world.actors.clear()
        self.world.advance(15)
        for agent in self.node.agents.values():
            if agent.alive and not agent.stopped and agent.owner not in self.node.faulty:
                agent.possible = [self.node.configs[agent.owner]]
                self.node.good[agent.owner].append(agent.possible[0])
        self.node.check(quiet=True)

    @step(seconds=[-86400, -2, 5, 86400 * 30])
    def set_wall_clock(self, seconds: int) -> None:
        self.world.realtime += seconds * SECOND
        if seconds > 0:
            self.node.runtime.restarts.clear()  # the budget counts the wall clock's hours
        self.world.forward(0)

    @step(seconds=[60, 86400])
    def suspend(self, seconds: int) -> None:
        self.world.realtime += seconds * SECOND
        self.world.boottime += seconds * SECOND
        self.node.runtime.restarts = [at - seconds for at in self.node.runtime.restarts]
        self.world.forward(0)

    # ---- agents ----

    @step(owner=["unit"], crash=[0, 0, 0, 1, 3, 7])
    def start_agent(self, owner: str, crash: int) -> None:
        self.node.forget_dead()
        if owner not in self.node.agents:
            self.node.start(owner, crash)

    @step(number=[int(signal.SIGTERM), int(signal.SIGKILL), int(signal.SIGINT)])
    def end_agent(self, number: int) -> None:
        for owner in list(self.node.agents):
            self.node.end(owner, number)

    @step(change=[1, 2, 3, 5, 8, 16, 20])
    def kill_at_change(self, change: int) -> None:
        """The agent is killed before one of its next changes of files."""
        if agent := self.node.running():
            self.world.crash_at(1 if agent.pod == "own-pids" else agent.task.process.pid, change)

    @step()
    def hang_up(self) -> None:
        if agent := self.node.running():
            agent.task.process.send_signal(signal.SIGHUP)
            self.world.settle()

    @step()
    def freeze(self) -> None:
        if (agent := self.node.running()) and self.world.fuse < 0:
            agent.task.process.send_signal(signal.SIGSTOP)
            agent.stopped = True
            self.world.settle()

    @step()
    def thaw(self) -> None:
        for agent in self.node.agents.values():
            agent.task.process.send_signal(signal.SIGCONT)
            agent.stopped = False
        self.node.runtime.changed = self.world.now  # it samples again
        self.world.advance(1.2)

    # ---- command line ----

    @step(owner=["unit", "unit", "unit", "blue"], verb=VERBS, only=[None, None, "sysctl", "thp", "runtime"], crash=[0, 0, 0, 1, 2, 4, 7, 14, 28], number=[0, 0, int(signal.SIGINT), int(signal.SIGTERM)])
    def command(self, owner: str, verb: str, only: str | None, crash: int, number: int = 0) -> None:
        """The command may be killed or interrupted before one of its changes."""
        if verb in ("status", "doctor", "explain"):
            only = None
        self.node.run(owner, verb, only=only, crash=crash if verb in ("apply", "restore") else 0, env={"SHIFT_SIGNAL": str(number or 9)})

    @step(first=VERBS[:2], second=VERBS, stop_at=[1, 2, 3, 5, 8, 12], crash=[0, 0, 2, 5])
    def two_commands(self, first: str, second: str, stop_at: int, crash: int) -> None:
        """The second command runs while the first one is stopped before a change."""
        if self.world.fuse >= 0:
            return
        crash = crash if second in VERBS[:2] else 0
        self.node.run_all([("unit", first, (), None, 0), ("unit", second, (), None, crash)], stop_at)

    @step(name=[*WRITES, *FILES], pick=list(range(6)), at=[*WRITES, *FILES], verb=VERBS[:2])
    def write_meanwhile(self, name: str, pick: int, at: str, verb: str) -> None:
        """Someone writes a value or file while a command is stopped before it writes another one, or prepares the file's new bytes."""
        if self.world.fuse >= 0 or (name == at and name in WRITES):
            return  # nothing can tell who wrote a value first
        node = self.node
        before = f"{node.programs[at].FILE}{NEW}" if at in FILES else str(node.values[at].path)

        def write() -> None:
            if name in WRITES:
                text = WRITES[name][pick % len(WRITES[name])]
                if text not in FIELDS[name]:  # else nothing can tell whose it is
                    self.set_value(name, pick)
            elif name == FILES[0]:
                self.edit_containerd(["comment", "6", "20"][pick % 3])
            else:
                self.edit_docker(["other key", "6", "20"][pick % 3])

        node.run_all([("unit", verb, (), None, 0)], before, meanwhile=write)

    @combined(verb=VERBS[:2], how=["pull", "refused"])
    def disturb_a_restart(self, verb: str, how: str) -> None:
        """A pull begins, or someone breaks containerd's file, while a command is stopped right after it wrote that file."""
        if self.world.fuse >= 0:
            return

        def disturb() -> None:
            self.change_containerd("pulls") if how == "pull" else self.edit_containerd(how)

        stop = {"SHIFT_AFTER": str(FILE), "SHIFT_SIGNAL": str(int(signal.SIGSTOP))}
        self.node.run_all([("unit", verb, (), None, 0)], str(FILE), env=stop, meanwhile=disturb)

    def apply_alone(self, *fields: tuple[str, int]) -> None:
        """The unit's agent has ended, and apply sets what these fields of its configuration want."""
        self.end_agent(int(signal.SIGTERM))
        for field, pick in fields:
            self.edit_config("unit", field, pick, False)
        self.node.run("unit", "apply")

    @combined(name=list(WRITES))
    def cut_apply_short(self, name: str) -> None:
        """apply is killed right after it wrote a value."""
        if self.world.fuse >= 0:
            return
        self.end_agent(int(signal.SIGTERM))
        self.node.run("unit", "apply", env={"SHIFT_AFTER": str(self.node.values[name].path)})

    @combined(crash=[0, 0, 4, 8, 12, 16, 18, 20, 24, 26, 28, 30], by=["command", "agent"])
    def cut_restore_short(self, crash: int, by: str) -> None:
        """The process that restores is killed, with 0 right after it wrote containerd's file. The unit's next agent finishes it."""
        if self.world.fuse >= 0:
            return
        self.apply_alone(("mode", 0), ("runtime.mode", 0), ("runtime.restart", 0), ("downloads", 0))
        after = {} if crash else {"SHIFT_AFTER": str(FILE)}
        if by == "agent":
            self.node.start("unit", env=after)
            self.wait(2.5)
            if crash:
                self.kill_at_change(crash)
        self.node.run("unit", "restore", **({"crash": crash, "env": after} if by == "command" else {}))
        self.start_agent("unit", 0)
        self.wait(1800)

    @combined(end=["restore", "observe", "off", "unlist"])
    def end_a_pull(self, end: str) -> None:
        """An image that dockerd pulls for the unit's agent is not wanted any more."""
        if self.world.fuse >= 0:
            return
        self.apply_alone(("mode", 0), ("images.mode", 0), ("runtime.kind", 1), ("pull", 1))
        self.run_docker("start")
        self.start_agent("unit", 0)
        self.wait(61)
        if end == "restore":
            self.node.run("unit", "restore")
        else:
            self.edit_config("unit", *{"observe": ("images.mode", 1), "off": ("images.mode", 2), "unlist": ("pull", 0)}[end], False)
            self.hang_up()
        self.wait(11)
        self.be_quiet()

    @combined(seconds=[2.5, 61])
    def give_dockerd_a_flag(self, seconds: float) -> None:
        """A drop-in adds a flag to the unit of dockerd, which restarts much later."""
        if self.world.fuse >= 0:
            return
        self.apply_alone(("mode", 0), ("runtime.mode", 0), ("runtime.kind", 1), ("downloads", 0))
        self.run_docker("no flag")
        self.run_docker("start")
        self.start_agent("unit", 0)
        self.wait(seconds)
        self.run_docker("flag")
        self.wait(1800)
        self.node.check()
        self.run_docker("start")

    @combined(ahead=[5, 86400 * 30])
    def begin_with_a_clock_ahead(self, ahead: int) -> None:
        """The wall clock is ahead when the unit's agent first sees an image, and is set back before the next agent."""
        if self.world.fuse >= 0:
            return
        self.apply_alone(
            ("mode", 0), ("images.mode", 0), ("runtime.mode", 0), ("runtime.kind", 1), ("runtime.restart", 2), ("archives", 0), ("wave", 1), ("pull", 0)
        )
        self.run_docker("no flag")
        self.run_docker("start")
        self.set_wall_clock(ahead)
        self.edit_config("unit", "pull", 1, False)
        self.start_agent("unit", 0)
        self.wait(2.5)
        self.end_agent(int(signal.SIGTERM))
        self.set_wall_clock(-ahead)
        self.start_agent("unit", 0)
        self.wait(1800)
        self.wait(61)

    # ---- package and chart ----

    @step(on=[True, False])
    def enable_unit(self, on: bool) -> None:
        """systemctl enable or disable --now. A disabled unit starts neither at boot nor with its package."""
        self.node.enabled = on
        if not on and "unit" in self.node.agents:
            self.node.end("unit")

    @step(action=["install", "upgrade", "downgrade", "remove", "purge"], crash=[0, 0, 0, 1, 2, 3, 6])
    def package(self, action: str, crash: int) -> None:
        """What dpkg and systemd do. A script may be cut off."""
        node = self.node
        node.forget_dead()
        if action in ("install", "upgrade", "downgrade"):
            if action != "install":
                node.run_script("prerm", "upgrade", crash)
                node.run_script("postrm", "upgrade")
            if action == "downgrade":  # the older program does not know a key of the newer one's file
                self.break_config("unit", "faulty")
            if action != "install" and "unit" in node.agents:
                node.end("unit")
            node.run_script("postinst", "configure", crash)
            if "unit" not in node.agents and node.enabled:
                node.start("unit")
            return
        if "unit" in node.agents:
            node.end("unit")
        node.run_script("prerm", "remove", crash)
        node.run_script("postrm", "remove")
        if action == "purge":
            node.run_script("postrm", "purge", crash)
            node.write_config("unit")  # it has removed the configuration

    @step(owner=["blue", "green"], pod=["host", "host", "own-pids", "empty-run", "empty-state"], crash=[0, 0, 0, 2, 5])
    def start_pod(self, owner: str, pod: str, crash: int) -> None:
        """A pod begins, perhaps beside one that still runs."""
        self.node.forget_dead()
        if owner not in self.node.agents:
            self.node.start(owner, crash, pod)

    @combined(owner=["blue", "green"], pod=["host", "empty-run", "empty-state"])
    def restore_and_replace(self, owner: str, pod: str) -> None:
        """An administrator restores, and the next pod may have another volume."""
        self.node.forget_dead()
        if owner in self.node.agents:
            self.node.end(owner)
        self.node.run(owner, "restore")
        self.node.start(owner, 0, pod)
        self.world.forward(3 * SECOND)

    @combined(owner=["blue", "green"])
    def uninstall_beside_an_observer(self, owner: str) -> None:
        """The unit only observes, and a chart is uninstalled."""
        self.node.forget_dead()
        if "unit" in self.node.agents:
            self.node.end("unit")
        self.edit_config("unit", "mode", 1, False)
        self.node.start("unit")
        self.uninstall(owner, 0)

    @step(owner=["blue", "green"])
    def replace_pod(self, owner: str) -> None:
        self.node.forget_dead()
        if owner in self.node.agents:
            pod = self.node.agents[owner].pod
            self.node.end(owner)
            self.node.start(owner, 0, pod)

    @step(owner=["blue", "green"], crash=[0, 0, 0, 1, 2, 4, 7])
    def uninstall(self, owner: str, crash: int) -> None:
        """The pod ends, and the chart's hook restores."""
        self.node.forget_dead()
        if owner in self.node.agents:
            self.node.end(owner)
        self.node.run(owner, "restore", "--purge", crash=crash)

    # ---- runtime ----

    @step(how=["restart", "stop", "start"])
    def run_containerd(self, how: str) -> None:
        """Someone else restarts, stops or starts it."""
        (self.node.runtime.stop if how == "stop" else self.node.runtime.start)()

    @step(how=["pulls", "pulls end", "slow", "hangs", "breaks", "regenerates", "well"])
    def change_containerd(self, how: str) -> None:
        """A pull begins or ends, pulls do not end any more, it becomes silent, now or at its next start, it will write its own file at its start, or all of that ends."""
        if how == "well":
            self.node.runtime.make_well()
        elif how == "pulls end":
            (STATE / "pulls").unlink(missing_ok=True)
        elif how in ("breaks", "regenerates"):
            setattr(self.node.runtime, how, True)
        else:
            (STATE / how).write_text("")

    @step(how=["comment", "6", "20", "", "refused", "original"])
    def edit_containerd(self, how: str) -> None:
        """An administrator edits its file."""
        text = FILE.read_text()
        if how == "comment":
            text += f"# line {len(text)}\n"
        elif how == "refused":
            text += "# refused\n"
        elif how == "original":
            text = ORIGINAL
        else:
            text = with_key(text, how)
        self.node.runtime.write(text)

    def stick_containerd(self) -> None:
        """containerd config dump does not end. Only named histories do this."""
        self.node.runtime.write(FILE.read_text() + "# stuck\n")
        self.node.cut_off = True  # a change does not end

    @step(name=FILES, newer=[True, False], migrates=[False, True], restarts=[True, True, False])
    def upgrade_runtime(self, name: str, newer: bool, migrates: bool, restarts: bool) -> None:
        """A package of another generation: containerd 1.6 or 2.0, Docker 20.10 or 26.1. The file may get its form."""
        program = self.node.programs[name]
        program.NEWER.write_text("") if newer else program.NEWER.unlink(missing_ok=True)
        if program is self.node.runtime and migrates:
            program.migrate(lambda text: migrated(text, 3 if newer else 2))
        if restarts and program.running():
            program.start()

    @step(how=["start", "start", "stop", "flag", "no flag", "hangs", "well", "pull begins", "pull ends"])
    def run_docker(self, how: str) -> None:
        """Someone starts or stops dockerd, or adds a flag to its unit; it becomes silent; it pulls."""
        docker = self.node.docker
        if how in ("start", "stop"):
            getattr(docker, how)()
        elif how in ("flag", "no flag"):
            docker.flag(how == "flag")
        elif how == "hangs":
            (docker.STATE / "hangs").write_text("")
        elif how == "well":
            docker.make_well()
        else:
            docker.pull(how == "pull begins")

    @step(how=["other key", "6", "20", "", "original", "missing"])
    def edit_docker(self, how: str) -> None:
        """An administrator edits daemon.json. dockerd does not reload it."""
        docker = self.node.docker
        rest = docker.rest_of(docker.read())
        if how == "other key":
            rest = {**rest, "label": str(self.world.counter)}
        elif how in ("6", "20"):
            rest[docker.KEY] = int(how)
        docker.write({"original": DOCKER_ORIGINAL, "missing": ""}.get(how, json.dumps(rest)))

    # ---- images ----

    @step(content=[*CONTENTS], restart=[0, 2], percent=[0, 0, 60, 80])
    def preload(self, content: str, restart: int, percent: int = 0) -> None:
        """The unit is to load an archive into containerd, whose store may be nearly full."""
        self.fill_store(percent)
        for field, pick in (("mode", 0), ("images.mode", 0), ("archives", 2), ("runtime.kind", 0), ("runtime.restart", restart)):
            self.edit_config("unit", field, pick, False)
        self.put_archive("a", content)
        self.hang_up()
        self.start_agent("unit", 0)

    @step(file=["a", "b"], content=[*CONTENTS, *CONTENTS, "broken", "growing", "growing", "missing", "directory", "fifo"])
    def put_archive(self, file: str, content: str) -> None:
        self.node.images.put(file, content)

    @step()
    def finish_archives(self) -> None:
        for file in sorted(self.node.images.growing):
            self.node.images.finish(file)

    @step(name=[APP, APP, TOOL], top=[*FOREIGN, CONTENTS["app"].tops[APP], ""])
    def move_tag(self, name: str, top: str) -> None:
        """Someone pulls or tags another image, or removes the name."""
        self.node.images.move(name, top)

    @combined(how=["again", "other name", "restart"])
    def move_a_loaded_tag(self, how: str) -> None:
        """Others move a name that the unit's agent has loaded. Then its archive is to be read again."""
        if self.world.fuse >= 0:
            return
        self.end_agent(int(signal.SIGTERM))
        self.node.run("unit", "apply")
        self.preload("both", 2)
        self.wait(61)
        self.move_tag(APP, [*FOREIGN][0])
        if how == "restart":
            self.end_agent(int(signal.SIGTERM))
            self.start_agent("unit", 0)
        elif how == "again":
            self.put_archive("a", "both")
        else:
            self.move_tag(TOOL, "")
        self.wait(61)

    @step(name=[APP, TOOL], on=[True, False])
    def pin_image(self, name: str, on: bool) -> None:
        self.node.images.pin(name, on)

    @step(percent=[0, 30, 60, 80, 100])
    def fill_store(self, percent: int) -> None:
        self.node.images.fill(percent)

    @step(how=[*Mirror.ANSWERS, "hangs", "down"])
    def change_mirror(self, how: str) -> None:
        self.node.mirror.become(how)

    @step(how=["start", "start", "start_k3s", "stop"])
    def run_kubelet(self, how: str) -> None:
        getattr(self.node.kubelet, how)()

    @step(drop_in=[False, True], how=[*TEXTS, "missing", "directory"])
    def edit_kubelet(self, drop_in: bool, how: str) -> None:
        kubelet = self.node.kubelet
        directory = kubelet.OF_K3S if kubelet.OF_K3S.exists() else kubelet.DROP_INS
        kubelet.put(directory / "50-site.conf" if drop_in else kubelet.FILE, how)

    def hang_kubelet(self) -> None:
        """The kubelet's file is on a file system that hangs. Only named histories do this."""
        self.node.kubelet.start()
        self.node.kubelet.put(self.node.kubelet.FILE, "hung")
        self.world.hang()

    # ---- disks ----

    @step(directory=["/run", "/var/lib"], how=["fill", "make_read_only"])
    def spoil_disk(self, directory: str, how: str) -> None:
        getattr(self.world, how)(directory)
        self.node.disturbed = True

    @combined(verb=VERBS[:3])
    def outlast_a_hung_file_system(self, verb: str) -> None:
        """Nothing but the archives on it waits for a file system that hangs."""
        if any(agent.pod or agent.stopped for agent in self.node.agents.values()):
            return
        runtime, downloads = self.node.runtime, FIELDS["downloads"]
        runtime.NEWER.unlink(missing_ok=True)
        runtime.write(ORIGINAL)  # one that it can change, without a higher value
        self.apply_alone(("mode", 0), ("runtime.mode", 0), ("runtime.kind", 0), ("runtime.restart", 2), ("downloads", 0))
        runtime.make_well()
        owner = self.node.records_owner()
        self.hang_archives()
        self.start_agent("unit", 0)
        self.wait(61)
        self.edit_config("unit", "downloads", 1, False)
        done = self.node.run("unit", verb)
        self.wait(61)
        if verb == "apply" and owner == "unit" and not self.node.disturbed and runtime.key_of(runtime.read()) != downloads[1]:
            raise Violation("progress", f"the file of containerd waits for archives: {done.out} {self.node.explain()}")
        self.end_agent(int(signal.SIGTERM))
        self.repair_disks()

    def hang_archives(self) -> None:
        """The file system of the unit's archives hangs. Only named and combined histories do this."""
        if any(agent.stopped for agent in self.node.agents.values()):
            return
        if self.node.configs["unit"].fields["archives"] is None:
            self.edit_config("unit", "archives", 1, False)
        self.world.hang()

    @step()
    def repair_disks(self) -> None:
        self.world.make_room()
        self.world.advance(61)
        self.node.disturbed = False

    # ---- reboot ----

    @step(unit=[True, True, False], keeps_run=[False, False, True])
    def reboot(self, unit: bool, keeps_run: bool = False) -> None:
        """A new boot id, the kernel's defaults, and an empty /run, unless the node keeps it. The unit may start again."""
        self.world.end_all()
        self.node.observe()  # what they wrote until they ended
        self.world.tasks.clear()
        self.node.agents.clear()
        self.world.make_room()
        self.node.runtime.process = None
        clear(Path("/run"), *([RUN] if keeps_run else []))
        self.node.cut_off |= keeps_run
        self.node.disturbed = False
        gone = self.world.now - 10
        self.world.monotonic = self.world.boottime = 10 * SECOND
        runtime = self.node.runtime
        self.node.docker.process = self.node.kubelet.process = None
        for program in self.node.programs.values():
            program.started = program.changed = program.due = 10
        runtime.restarts = [at - gone for at in runtime.restarts]
        for actor in self.world.actors.values():
            actor.due = 10 + actor.period
        self.world.forward(0)
        self.node.boot()
        if unit and self.node.enabled:
            self.node.start("unit")
