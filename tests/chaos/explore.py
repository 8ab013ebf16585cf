# SPDX-License-Identifier: Apache-2.0
"""Draws histories with Hypothesis, counts them, and prints a failing one as a script."""

import argparse
import collections
import contextlib
import hashlib
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any, Iterator

import hypothesis
import hypothesis.core
import hypothesis.errors
import hypothesis.stateful
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from hands import COMBINED, STEPS, Hands
from named import NAMED
from node import Node
from world import Violation, World

LENGTH = 40  # steps of a history


class Counts:
    def __init__(self) -> None:
        self.histories = self.steps = 0
        self.rules: collections.Counter[str] = collections.Counter()
        self.began = time.monotonic()

    def report(self) -> str:
        seconds = max(time.monotonic() - self.began, 1e-3)
        unused = sorted(set(STEPS) - set(self.rules))
        return (
            f"{self.histories} histories, {self.steps} steps, {self.histories / seconds:.1f} histories/s, "
            f"{self.steps / seconds:.1f} steps/s, {len(STEPS) - len(unused)} of {len(STEPS)} rules"
            + (f", never used: {' '.join(unused)}" if unused else "")
        )


class Session:
    """One node for many histories."""

    def __init__(self, bpf: bool = True) -> None:
        self.log = open(os.environ["CHAOS_LOG"], "w") if "CHAOS_LOG" in os.environ else None
        self.node = Node(World(bpf))
        self.counts = Counts()
        self.trace: list[tuple[str, dict[str, Any]]] = []
        self.digest = hashlib.sha256()
        self.failure: tuple[list[tuple[str, dict[str, Any]]], str] | None = None  # the last one

    @contextlib.contextmanager
    def judged(self) -> Iterator[None]:
        """Keeps the steps before a broken promise."""
        try:
            yield
        except Violation as why:
            self.failure = (list(self.trace), str(why))
            raise

    def begin(self) -> Hands:
        self.trace = []
        self.counts.histories += 1
        with self.judged():
            self.node.reset()
        return Hands(self.node)

    def play(self, hands: Hands, name: str, arguments: dict[str, Any]) -> None:
        self.trace.append((name, arguments))
        self.counts.steps += 1
        self.counts.rules[name] += 1
        with self.judged():
            hands.play(name, arguments)
        seen = [name, arguments, [v.text for v in self.node.values.values()], self.node.runtime.text, self.node.docker.text, sorted(self.node.images.pins), self.node.runtime.restarts, sorted(self.node.agents), self.node.world.monotonic]
        line = json.dumps(seen)
        self.digest.update(line.encode())
        if self.log:
            print(line, file=self.log)

    def end(self) -> None:
        with self.judged():
            self.node.end_history()


def machine(session: Session) -> type:
    """A state machine with a rule for each step."""

    class Machine(hypothesis.stateful.RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.hands = session.begin()

        def teardown(self) -> None:
            if sys.exc_info()[0] is None:
                session.end()

    def rule(name: str, choices: dict[str, list[Any]]) -> Any:
        def run(self: Machine, **arguments: Any) -> None:
            session.play(self.hands, name, arguments)

        run.__name__ = name
        return hypothesis.stateful.rule(**{k: st.sampled_from(v) for k, v in choices.items()})(run)

    for name, choices in STEPS.items():
        setattr(Machine, name, rule(name, choices))
    return Machine


def script(heading: str, steps: list[tuple[str, dict[str, Any]]]) -> str:
    """Short enough for the end of a log."""
    lines = [f"# {heading}", "STEPS = ["]
    for step in (f"({name!r}, {arguments!r})," for name, arguments in steps):
        if len(lines[-1]) + len(step) > 200 or len(lines) == 2:
            lines.append("")
        lines[-1] += step
    return "\n".join([*lines, "]"]) + "\n"


class Out:
    """The directory of scripts, opened before private mounts may hide it."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.path.mkdir(parents=True, exist_ok=True)
        self.fd = os.open(path, os.O_PATH | os.O_CLOEXEC)

    def write(self, name: str, text: str) -> Path:
        Path(f"/proc/self/fd/{self.fd}", name).write_text(text)
        return self.path / name


def tell(session: Session, out: Out, what: str, why: Exception) -> int:
    """Prints a failure, keeps its script in a file whose first line names it, and prints that last."""
    if not isinstance(why, (Violation, hypothesis.errors.Flaky)):
        traceback.print_exc()
    steps, text = session.failure or (session.trace, f"{type(why).__name__}: {why}")
    heading = f"{what}: {text.splitlines()[0][:1500]}"
    text_of_script = script(heading, steps)
    path = out.write(f"history-{what.split()[-1]}.py", text_of_script)
    again = "" if isinstance(why, Violation) else f" ({type(why).__name__})"
    print(f"{session.counts.report()}\n{what} breaks a promise{again}: {text[:3000]}\nreplay: tests/chaos/run --replay {path}\n{text_of_script}", flush=True)
    return 1


def draw(session: Session, seed: int, histories: int, shrink: bool) -> None:
    hypothesis.core.global_force_seed = seed
    phases = [Phase.generate, *([Phase.shrink] if shrink else [])]
    hypothesis.stateful.run_state_machine_as_test(
        machine(session),
        settings=settings(
            max_examples=histories,
            stateful_step_count=LENGTH,
            deadline=None,
            database=None,
            phases=phases,
            suppress_health_check=list(HealthCheck),
            print_blob=False,
            verbosity=hypothesis.Verbosity.quiet,
            report_multiple_bugs=False,
        ),
    )


def replay(session: Session, steps: list[tuple[str, dict[str, Any]]]) -> None:
    hands = session.begin()
    for name, arguments in steps:
        session.play(hands, name, arguments)
    session.end()


def load_steps(path: Path) -> list[tuple[str, dict[str, Any]]]:
    names: dict[str, Any] = {}
    exec(path.read_text(), names)
    return names["STEPS"]


def explore(session: Session, out: Out, options: argparse.Namespace) -> int:
    """Fixed seeds first, then fresh ones, until the time or the steps are over."""
    began, round_ = time.monotonic(), 0
    fixed = [options.seed] if options.seed is not None else options.fixed
    while True:
        fresh = options.seed is None and round_ >= len(fixed)
        seed = int.from_bytes(os.urandom(4), "big") if fresh else fixed[round_ % len(fixed)]
        try:
            draw(session, seed, options.histories, not options.no_shrink)
        except Exception as why:
            return tell(session, out, f"seed {seed}", why)
        round_ += 1
        print(f"seed {seed}: {session.digest.hexdigest()[:16]}; {session.counts.report()}", flush=True)
        over = options.seconds and time.monotonic() - began > options.seconds
        over = over or (options.steps and session.counts.steps >= options.steps)
        if over or (options.seed is not None):
            return 0


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="tests/chaos/run")
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--fixed", type=int, nargs="*", default=[])
    parser.add_argument("--histories", type=int, default=20, help="for each seed")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--without-bpf", action="store_true", help="each agent starts twice as fast, without its programs in the kernel")
    parser.add_argument("--combined", action="store_true", help="also steps that do several at once")
    parser.add_argument("--replay")
    parser.add_argument("--no-named", action="store_true", help="no named histories first")
    parser.add_argument("--named", action="store_true")
    parser.add_argument("--first", default="", help="the named history to begin with")
    parser.add_argument("--out", default="build/chaos")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
    if options.combined:
        STEPS.update(COMBINED)
    out, given = Out(options.out), load_steps(Path(options.replay)) if options.replay else None
    session = Session(bpf=not options.without_bpf)
    if given is not None:
        replay(session, given)
        print("the history keeps all promises")
        return 0
    if options.seed is None and not options.no_named:
        for name in sorted(NAMED, key=lambda name: name != options.first):
            try:
                replay(session, NAMED[name])
            except Exception as why:
                return tell(session, out, f"history {name}", why)
        print(f"{len(NAMED)} named histories keep all promises")
    if options.named:
        return 0
    try:
        return explore(session, out, options)
    except KeyboardInterrupt:
        print(session.counts.report())
        return 0
