# SPDX-License-Identifier: Apache-2.0
"""Draws histories with Hypothesis, counts them, and prints a failing one as a script."""

import argparse
import collections
import hashlib
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

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

    def __init__(self) -> None:
        self.node = Node(World())
        self.counts = Counts()
        self.trace: list[tuple[str, dict[str, Any]]] = []
        self.digest = hashlib.sha256()
        self.log = open(os.environ["CHAOS_LOG"], "w") if "CHAOS_LOG" in os.environ else None
        self.failure: tuple[list[tuple[str, dict[str, Any]]], str] | None = None  # the last one

    def begin(self) -> Hands:
        self.node.reset()
        self.trace = []
        self.counts.histories += 1
        return Hands(self.node)

    def play(self, hands: Hands, name: str, arguments: dict[str, Any]) -> None:
        self.trace.append((name, arguments))
        self.counts.steps += 1
        self.counts.rules[name] += 1
        try:
            hands.play(name, arguments)
        except Violation as why:
            self.failure = (list(self.trace), str(why))
            raise
        seen = [name, arguments, [v.text for v in self.node.values.values()], self.node.runtime.text, self.node.docker.text, sorted(self.node.images.pins), self.node.runtime.restarts, sorted(self.node.agents), self.node.world.monotonic]
        line = json.dumps(seen)
        self.digest.update(line.encode())
        if self.log:
            print(line, file=self.log)

    def end(self) -> None:
        try:
            self.node.end_history()
        except Violation as why:
            self.failure = (list(self.trace), str(why))
            raise


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


def script(session: Session) -> str:
    steps, why = session.failure or (session.trace, "")
    lines = [f"# {line}" for line in why[:3000].splitlines()]
    lines += ["STEPS = [", *(f"    ({name!r}, {arguments!r})," for name, arguments in steps), "]"]
    return "\n".join(lines) + "\n"


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


def explore(session: Session, options: argparse.Namespace) -> int:
    """Fixed seeds first, then fresh ones, until the time or the steps are over."""
    began, round_ = time.monotonic(), 0
    fixed = [options.seed] if options.seed is not None else options.fixed
    while True:
        fresh = options.seed is None and round_ >= len(fixed)
        seed = int.from_bytes(os.urandom(4), "big") if fresh else fixed[round_ % len(fixed)]
        try:
            draw(session, seed, options.histories, not options.no_shrink)
        except Exception as why:
            if not isinstance(why, (Violation, hypothesis.errors.Flaky)):
                traceback.print_exc()
            print(f"seed {seed}: a promise is broken: {type(why).__name__}\n{script(session)}", flush=True)
            out = Path(options.out)
            out.mkdir(parents=True, exist_ok=True)
            (out / f"history-{seed}.py").write_text(script(session))
            print(f"replay: tests/chaos/run --replay {out}/history-{seed}.py")
            print(session.counts.report())
            return 1
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
    parser.add_argument("--combined", action="store_true", help="also steps that do several at once")
    parser.add_argument("--replay")
    parser.add_argument("--no-named", action="store_true", help="no named histories first")
    parser.add_argument("--named", action="store_true")
    parser.add_argument("--out", default="build/chaos")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if options.combined:
        STEPS.update(COMBINED)
    session = Session()
    if options.replay:
        replay(session, load_steps(Path(options.replay)))
        print("the history keeps all promises")
        return 0
    if options.seed is None and not options.no_named:
        for name, steps in NAMED.items():
            try:
                replay(session, steps)
            except Violation as why:
                print(f"{name}: {why}")
                return 1
        print(f"{len(NAMED)} named histories keep all promises")
    if options.named:
        return 0
    try:
        return explore(session, options)
    except KeyboardInterrupt:
        print(session.counts.report())
        return 0
