# SPDX-License-Identifier: Apache-2.0
"""Runs rows of table.py: inject, judge the finding, do what it says, and look whether that helped.

Rows of one place and one configuration share an agent. Those that touch nothing in common run at the same time.
"""

import contextlib
import json
import os
import re
import subprocess
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Iterator

from conftest import BIN, SLACK, Agent, Node, environment, temporary, until
from inject import Fields, World

Finding = dict[str, Any]


@dataclass(frozen=True)
class Expect:
    """A finding. Patterns are regular expressions; {field} is a field that the injector yields."""

    slug: str
    kind: str  # of the instance
    name: str = ""  # of the instance; empty: any
    who: str = ""  # a pattern; unknown: said to be unknown; ?PATTERN: that or unknown; any; empty: nobody
    now: str = "run"  # run: a command; edit: FILE:LINE: write X; none: it has a hint; any: one of these
    keep: str = ""  # a pattern
    severity: str = ""
    from_doctor: bool = False


@dataclass(frozen=True)
class Row:
    id: str
    inject: Callable[[World], Iterator[Fields]]
    expects: tuple[Expect, ...]  # empty: ordinary life, which raises nothing
    place: str = "node"
    config: str = ""
    uses: tuple[str, ...] = ()  # what no other row may touch at the same time
    also: str = "-"  # slugs of findings that the same fault may raise
    within: float = 30
    lasts: float = 14  # of ordinary life
    stays_cured: bool = True  # the finding ends although the load goes on
    fades: float = 30  # the seconds within which it is over after its cause
    lingers: bool = False  # it is seen although the fault is over: the kernel's log keeps it
    pending: str = ""  # why the agent does not do it yet: the row runs, and does not count until it is good
    prepare: Callable[[Any], Any] | None = None  # before the agent starts
    alone: bool = False  # has its own agent and place


@dataclass
class Outcome:
    row: Row
    skipped: str = ""
    found: bool = False  # slug and instance
    who: bool = False
    cure: str = ""  # none: it has none; good, or what was wrong
    silent: bool = False
    alarms: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0

    def __post_init__(self) -> None:
        self.cure = "not tried" if any(e.now in ("run", "edit") for e in self.row.expects) else "none"

    @property
    def good(self) -> bool:
        if not self.row.expects:
            return not self.alarms and not self.notes
        return self.found and self.who and self.cure in ("none", "good") and self.silent and not self.alarms and not self.notes

    def line(self) -> str:
        if self.skipped:
            return f"skipped  {self.row.id}: {self.skipped}"
        said = [] if self.good else [*self.notes, *(f"alarm {alarm}" for alarm in self.alarms)]
        if self.row.expects and not self.good:
            parts = {"instance": self.found, "who": self.who, "cure": self.cure in ("none", "good"), "silent": self.silent}
            said.insert(0, "wrong: " + ", ".join(name for name, good in parts.items() if not good))
        return f"{'good    ' if self.good else 'pending ' if self.row.pending else 'FAILED  '} {self.row.id} ({self.seconds:.0f} s){': ' if said else ''}{'; '.join(said)}"


# ---- places: where the agent runs ----


@dataclass
class Where:
    wrap: tuple[str, ...] = ()
    lab: Any = None


@contextlib.contextmanager
def on_the_node(_: Path) -> Iterator[Where]:
    yield Where()


@contextlib.contextmanager
def in_a_network_namespace(directory: Path) -> Iterator[Where]:
    """Its /sys shows the devices of the namespace, and the cgroups."""
    name = f"hr-agent-{os.getpid()}"
    World.sh("ip", "netns", "add", name)
    try:
        World.sh("ip", "-n", name, "link", "set", "lo", "up")
        script = "mkdir -p $0; mount --rbind /sys/fs/cgroup $0; mount -t sysfs none /sys; mount --move $0 /sys/fs/cgroup; exec \"$@\""
        yield Where(("unshare", "--mount", "--propagation", "private", "nsenter", f"--net=/run/netns/{name}", "sh", "-ec", script, str(directory / "cgroup")))
    finally:
        World.sh("ip", "netns", "del", name)


@contextlib.contextmanager
def in_a_lab(directory: Path) -> Iterator[Where]:
    """/etc, /run and directories of runtimes are those of the lab."""
    from runtimelab import Lab

    with contextlib.closing(Lab(directory)) as lab:
        yield Where(lab.wrap, lab)


@contextlib.contextmanager
def beside_name_servers(_: Path) -> Iterator[Where]:
    from dnslab import Lab

    with contextlib.closing(Lab()) as lab:
        yield Where((), lab)


PLACES: dict[str, Callable[[Path], contextlib.AbstractContextManager[Where]]] = {
    "node": on_the_node, "disks": in_a_lab, "netns": in_a_network_namespace, "lab": in_a_lab, "dns": beside_name_servers,
}  # fmt: skip


# Rows there change nothing of the kernel, and their agents look at no limit of the node: they run beside the others.
APART = ("lab", "dns")


# ---- what the agent says ----


def findings(agent: Agent) -> list[Finding]:
    for _ in range(4):  # a machine that is full of faults may be slow
        with contextlib.suppress(OSError):
            return agent.status().get("findings", [])
    raise AssertionError(f"the agent does not answer; its log ends with {agent.log[-300:]!r}")


def checks(world: World) -> list[Finding]:
    """The checks of doctor that are not ok, as findings."""
    agent = world.doctored or world.agent
    done = subprocess.run(
        [*world.wrap, str(BIN), "doctor", "--json", "--config", str(agent.config_path)],
        capture_output=True, text=True, timeout=60, env=environment(agent.directory),
    )  # fmt: skip
    if done.returncode not in (0, 1, 2):
        return []
    rows = json.loads(done.stdout)["checks"]
    return [{"slug": row["name"], "severity": row["status"], **row} for row in rows if row["status"] in ("critical", "warning", "advice")]


def is_open(finding: Finding) -> bool:
    return not finding.get("until") and not finding.get("ignored")


def key(finding: Finding) -> str:
    instance = finding.get("instance") or {}
    return f"{finding['slug']}@{instance.get('kind', '?')}:{instance.get('name', '')}"


def described(finding: Finding) -> str:
    users = [f"{text_of(user['workload'])} {user.get('used')}" for user in finding.get("who", []) if isinstance(user, dict)]
    return f"{finding.get('severity')} {key(finding)} who {users or finding.get('who')} now {finding.get('now', '')!r}: {finding.get('message', '')}"


def text_of(workload: dict[str, Any]) -> str:
    return workload.get("text") or f"{workload.get('kind')} {workload.get('name') or workload.get('id')}"


def pattern(text: str, fields: Fields) -> str:
    for name, value in fields.items():
        text = text.replace("{" + name + "}", re.escape(str(value)))
    return text


def has_instance(expect: Expect, fields: Fields, finding: Finding) -> bool:
    if not re.fullmatch(pattern(expect.slug, fields), finding["slug"]):
        return False
    instance = finding.get("instance")
    if expect.from_doctor and not instance:
        return bool(re.search(pattern(expect.name, fields), finding.get("message", "")))
    instance = instance or {}
    named = f"{instance.get('name', '')}|{instance.get('id', '')}"
    return bool(re.fullmatch(expect.kind, instance.get("kind", "")) and re.search(pattern(expect.name, fields), named))


def has_who(expect: Expect, fields: Fields, finding: Finding) -> bool:
    users = finding.get("who") or []
    if expect.who == "any" or expect.who[:1] == "?" and not users and finding.get("who_known") is False:
        return True
    if expect.who in ("", "unknown"):
        return not users and (not expect.who or finding.get("who_known") is False)
    first = users and (text_of(users[0]["workload"]) if isinstance(users[0], dict) else users[0])
    return bool(first and re.search(pattern(expect.who.lstrip("?"), fields), first))


# ---- one row ----


class Running:
    """A row while its fault is there."""

    def __init__(self, row: Row, world: World) -> None:
        self.row, self.world = row, world
        self.outcome = Outcome(row)
        self.fields: Fields = {}
        self.generator: Iterator[Fields] | None = None
        self.matched: dict[Expect, Finding] = {}
        self.wrong_since: float | None = None  # only findings of the right slug and the wrong instance

    def begin(self) -> None:
        self.generator = self.row.inject(self.world)
        self.fields = next(self.generator)

    def look(self, now: list[Finding]) -> bool:
        """Whether everything is as expected. Keeps the newest finding of each."""
        for expect in self.row.expects:
            found = [one for one in now if is_open(one) and has_instance(expect, self.fields, one)]
            if found:
                better = [one for one in found if has_who(expect, self.fields, one)]
                self.matched[expect] = (better or found)[0]
        near = [one for one in now if is_open(one) and self.expected(one)]
        self.wrong_since = (self.wrong_since or time.monotonic()) if near and not self.matched else None
        return all(e in self.matched and has_who(e, self.fields, self.matched[e]) for e in self.row.expects)

    def is_wrong(self) -> bool:
        """Waiting longer does not help."""
        return self.wrong_since is not None and time.monotonic() - self.wrong_since > 12

    def expected(self, finding: Finding) -> bool:
        """Whether it is no alarm. A wrong instance of the right slug counts as that."""
        return any(re.fullmatch(pattern(e.slug, self.fields), finding["slug"]) for e in self.row.expects) or bool(re.fullmatch(self.row.also, finding["slug"]))

    def end(self) -> None:
        """Undoes the fault."""
        try:
            if self.generator:
                next(self.generator, None)
        finally:
            self.world.stack.close()
            self.world.watched = self.world.doctored = None


def run_as_printed(world: World, command: str) -> str:
    """What went wrong, or an empty text."""
    syntax = subprocess.run(["bash", "-n", "-c", command], capture_output=True, text=True)
    if syntax.returncode:
        return f"bash -n: {syntax.stderr.strip()}"
    env = {**environment(world.agent.directory), "PATH": f"{world.tools}:{os.environ['PATH']}:/usr/sbin:/sbin"}
    env["PATH"] = f"{env['PATH']}:{BIN.parent}"
    done = subprocess.run([*world.wrap, "bash", "-c", command], capture_output=True, text=True, timeout=60, env=env)
    world.answer_calls()
    return f"exit status {done.returncode}: {done.stderr.strip()}" if done.returncode else ""


def edit_as_printed(world: World, text: str) -> str:
    match = re.match(r"(/\S+?):(\d+)(?::\d+)?: (?:write (.*)|remove .*)$", text, re.S)
    if not match:
        return f"neither FILE:LINE: write X nor remove X: {text!r}"
    path = world.path(match[1])
    lines = path.read_text().split("\n")
    line = int(match[2]) - 1
    indent = re.match(r"\s*", lines[line])
    lines[line : line + 1] = [(indent[0] if indent else "") + match[3].strip()] if match[3] else []
    path.write_text("\n".join(lines))
    return ""


def accepted(world: World, keep: str) -> str:
    """Whether check-config accepts the lines."""
    file = world.directory / f"keep-{os.getpid()}.yaml"
    file.write_text(keep + "\n")
    done = subprocess.run([str(BIN), "check-config", str(file)], capture_output=True, text=True, timeout=30)
    return "" if done.returncode == 0 else f"keep {keep!r}: {done.stderr.strip()}"


def cure(running: Running) -> list[str]:
    """Does what each finding says. Returns what was wrong."""
    wrong = []
    for expect, finding in running.matched.items():
        now, kind = finding.get("now") or "", finding.get("now_kind")
        if expect.now == "none":
            if now:
                wrong.append(f"a cure where there is none: {now!r}")
            elif not finding.get("hint") and not expect.from_doctor:
                wrong.append("neither now nor hint")
        elif not now and expect.now == "any":
            if not finding.get("hint") and not expect.from_doctor:
                wrong.append("neither now nor hint")
        elif not now:
            wrong.append(f"no now; hint {finding.get('hint', '')!r}")
        elif expect.now == "edit" or kind == "edit":
            wrong += filter(None, [edit_as_printed(running.world, now)])
        else:
            wrong += [f"{now!r}: {fault}" for fault in filter(None, [run_as_printed(running.world, now)])]
        keep = finding.get("keep") or ""
        if expect.keep and not re.search(pattern(expect.keep, running.fields), keep):
            wrong.append(f"keep {keep!r} has no {expect.keep!r}")
        if keep:
            wrong += filter(None, [accepted(running.world, keep)])
    return wrong


# ---- rows that run at the same time ----


class Group:
    """An agent, and rows that share it."""

    def __init__(self, rows: list[Row], report: Callable[[Outcome], None], restore: bool = True) -> None:
        self.rows, self.report, self.restore = rows, report, restore
        self.done: set[str] = set()
        self.allowed: list[Running] = []
        self.alarms: dict[str, Finding] = {}
        self.before: set[str] = set()  # findings of earlier batches, which are reported there
        self.batch: list[Running] = []

    def look(self) -> list[Finding]:
        now = findings(self.agent)
        for running in self.batch:
            if running.world.watched:
                now = now + findings(running.world.watched)
            if any(e.from_doctor for e in running.row.expects):
                now = now + [one for one in checks(running.world) if running.expected(one)]
        for finding in now:
            if is_open(finding) and key(finding) not in self.before and not any(running.expected(finding) for running in self.allowed):
                self.alarms.setdefault(key(finding), finding)
        return now

    def run(self) -> None:
        first = self.rows[0]
        try:
            with temporary() as directory, PLACES[first.place](directory) as where:
                if first.prepare:
                    first.prepare(where.lab)
                self.run_with_agent(directory, where)
        except BaseException as error:  # noqa: BLE001 - outcomes of pytest are no Exceptions
            if isinstance(error, KeyboardInterrupt):
                raise
            for row in self.rows:
                if row.id not in self.done:
                    outcome = Outcome(row, skipped=reason_of(error))
                    if not outcome.skipped:
                        outcome.notes = ["harness: " + " / ".join(traceback.format_exception(error)[-2:]).strip()[-500:].replace("\n", " ")]
                    self.report(outcome)

    def run_with_agent(self, directory: Path, where: Where) -> None:
        config = self.rows[0].config
        self.agent = Agent(directory, config, wrap=where.wrap)
        try:
            self.agent.wait_ready()
            until(lambda: any(limit["name"] == "mounts" for limit in self.agent.status()["limits"]) or "limits: {mode: off" in config, "the first census", 0.2)
            for batch in batches(self.rows):
                with restored_values() if self.restore else contextlib.nullcontext():
                    self.run_batch(batch, directory, where)
        finally:
            self.agent.close()

    def run_batch(self, rows: list[Row], directory: Path, where: Where) -> None:
        began = time.monotonic()
        self.batch = []
        self.before = {key(finding) for finding in findings(self.agent)}
        for row in rows:
            world = World(directory / f"row-{row.id.replace('/', '-')}", where.wrap)
            world.directory.mkdir(exist_ok=True)
            world.lab, world.agent = where.lab, self.agent
            self.batch.append(Running(row, world))
        self.allowed += self.batch
        try:
            for running in self.batch:
                self.attempt(running, running.begin)
            alive = [one for one in self.batch if one.fields is not None and not one.outcome.skipped and not one.outcome.notes]
            self.watch(alive)
            self.cure_all(alive)
        except (OSError, AssertionError, subprocess.SubprocessError) as error:
            for one in alive:
                one.outcome.notes.append(f"harness: {error}"[:500])
        finally:
            for running in self.batch:
                self.attempt(running, running.end)
        faults = [one for one in alive if one.row.expects]
        with contextlib.suppress(BaseException):
            until(lambda: self.all_silent([one for one in faults if one.outcome.found and not one.row.lingers]), "silence", 0.5, max(one.row.fades for one in faults))
        for one in faults:
            one.outcome.silent = one.outcome.found and (one.row.lingers or self.is_silent(one, self.look()))
            one.world.after.close()
        alarms, self.alarms = self.alarms, {}
        life = [one for one in self.batch if not one.row.expects]
        for one in life or self.batch[:1]:
            one.outcome.alarms = [described(finding) for finding in alarms.values()]
        for one in self.batch:
            one.outcome.seconds = time.monotonic() - began
            self.done.add(one.row.id)
            self.report(one.outcome)

    def attempt(self, running: Running, do: Callable[[], Any]) -> None:
        try:
            do()
        except BaseException as error:  # noqa: BLE001
            if isinstance(error, KeyboardInterrupt):
                raise
            running.outcome.skipped = reason_of(error)
            if not running.outcome.skipped:
                running.outcome.notes.append(f"injector: {str(error) or type(error).__name__}"[:600])

    def watch(self, alive: list[Running]) -> None:
        faults = [one for one in alive if one.row.expects]
        least = max([one.row.lasts for one in alive if not one.row.expects], default=3)
        most = max([one.row.within for one in faults], default=0) * SLACK
        began = time.monotonic()
        now: list[Finding] = []
        while (spent := time.monotonic() - began) < most or spent < least:
            now = self.look()
            if all([one.look(now) or one.is_wrong() for one in faults]) and spent >= least:
                break
            time.sleep(0.5)
        for one in faults:
            one.outcome.found = all(e in one.matched for e in one.row.expects)
            one.outcome.who = one.outcome.found and all(has_who(e, one.fields, f) for e, f in one.matched.items())
            for expect in one.row.expects:
                if expect not in one.matched:
                    instead = [f for f in now if f["slug"] == expect.slug] or [f for f in now if not any(o.expected(f) for o in alive)]
                    one.outcome.notes.append(f"no {expect.slug}@{expect.kind}:{pattern(expect.name, one.fields)}; instead {[described(f) for f in instead[:3]] or self.limit(expect.slug)}")
                elif not has_who(expect, one.fields, one.matched[expect]):
                    one.outcome.notes.append(f"who is not {pattern(expect.who, one.fields)!r}: {described(one.matched[expect])}")
                elif expect.severity and one.matched[expect]["severity"] != expect.severity:
                    one.outcome.notes.append(f"severity is not {expect.severity}")

    def limit(self, slug: str) -> str:
        """What the limit of this name shows, for a report."""
        for row in self.agent.status()["limits"]:
            if re.fullmatch(slug, row["name"]):
                return f"nothing; the limit {row['name']} has {row['used']} of {row['max']}, hits {row['hits']}, top {[(text_of(u['workload']), u['used']) for u in row['top'][:2]]}"
        return "nothing, and no limit of this name"

    def cure_all(self, alive: list[Running]) -> None:
        waiting: list[Running] = []
        for one in alive:
            if not one.row.expects:
                continue
            if all(e.now == "none" or e.now == "any" and not one.matched.get(e, {}).get("now") for e in one.row.expects):
                one.outcome.notes += cure(one)  # a hint is required
                continue
            if not one.outcome.found:
                one.outcome.cure = "not found"
                continue
            wrong = cure(one)
            one.outcome.cure = "; ".join(wrong) or "good"
            one.outcome.notes += wrong
            if not wrong and one.row.stays_cured:
                waiting.append(one)
        if waiting:
            with contextlib.suppress(BaseException):
                until(lambda: self.all_silent(waiting, True), "the cures help", 0.5, 25)
        now = self.look() if waiting else []
        for one in waiting:
            if not self.is_silent(one, now, True):
                one.outcome.cure = "did not help"
                one.outcome.notes.append(f"the cure {[f.get('now') for f in one.matched.values()]} did not help: {[described(f) for f in now if one.expected(f)][:1]}")

    def is_silent(self, running: Running, now: list[Finding], curable: bool = False) -> bool:
        expects = [e for e in running.row.expects if not curable or e.now != "none" and running.matched.get(e, {}).get("now")]
        return not any(is_open(f) and has_instance(e, running.fields, f) for f in now for e in expects)

    def all_silent(self, all_of: list[Running], curable: bool = False) -> bool:
        now = self.look()
        return all(self.is_silent(one, now, curable) for one in all_of)


def reason_of(error: BaseException) -> str:
    """Why a row cannot run here; empty if it failed."""
    return str(error) if type(error).__name__ == "Skipped" else ""


def batches(rows: list[Row]) -> list[list[Row]]:
    """Rows that touch nothing in common. Ordinary life has batches of its own, so that an alarm has few possible causes."""
    found: list[tuple[set[str], bool, list[Row]]] = []
    for row in rows:
        uses = set(row.uses) | {e.slug for e in row.expects if e.now != "none"}
        for taken, life, batch in found:
            if life == (not row.expects) and not taken & uses and len(batch) < 12:
                taken |= uses
                batch.append(row)
                break
        else:
            found.append((uses, not row.expects, [row]))
    return [batch for _, _, batch in found]


@contextlib.contextmanager
def restored_values() -> Iterator[None]:
    """All values of the node are again what they were, also those that cures have changed."""
    node = Node()
    try:
        yield
    finally:
        node.restore()

