#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pulls one image on a simulated fleet: all nodes at once, by the rule of cat-gate, and in waves with times from the agent's own code.

waves.py WAVE_DECIDE [--quick] [--plot FILE]   prints the tables of deploy/IMAGES.md; fails if they differ or one of its promises does not hold

A pull takes 7 s at full speed. Upstream serves 19.5 pulls at full speed and shares its capacity evenly among more. A node with the image
serves 16 others at full speed. A node selects its source at the start of its pull: nodes with the image, or upstream if there are none.
"""

import argparse
import heapq
import math
import random
import subprocess
import sys
from pathlib import Path
from typing import Callable, Iterable

PULL = 7.0
UPSTREAM = 19.5
PEERS = 16.0
RETRY = 10.0  # kubelet's first image back-off
SLOW = 10  # a straggler takes ten times as long
# cat-gate (internal/controller/pod_controller.go): a gated pod checks every 10 s, and starts if the pulling nodes are fewer than twice the
# nodes with the image. The model leaves out a limit of a hundred gates a second, which favours cat-gate.
GATE_PERIOD = 10.0
GATE_DELAY = 13.5  # from the open gate to a known image on the node, without the pull: then 77 nodes take the 105 s of Cybozu's article
SAFE = {"seeds": 10, "growth": 3, "round_s": 10}  # seeds + 3 * sqrt(seeds) <= 19.5
FAST = SAFE | {"growth": 10}  # less than half of the 16 * 10 / 7 that a node can serve in a round
SIZES = (77, 2500, 10000)
NODES = list(SIZES)
IMAGES = 11  # of each figure
differences: list[str] = []
DOCUMENT = (Path(__file__).parents[2] / "deploy/IMAGES.md").read_text().splitlines()
# A mirror such as Spegel: it announces an image after the pull, answers from a cache, and its search for a peer may take too long.
LEARN, CACHED, MISSED = 2.0, 5.0, 0.02
ASK = 3.0  # WAVE_ASK_EVERY_US
UNASKED, LACK, HAVE = 0, 3, 4  # enum peers_state
F = int(UPSTREAM)


class Source:
    """Pulls that share a capacity evenly, at most at full speed. The pull of a straggler uses a tenth of a share for ten times as long."""

    def __init__(self, capacity: float) -> None:
        self.capacity, self.done, self.weight, self.most = capacity, 0.0, 0.0, 0
        self.pulls: list = []

    def rate(self) -> float:
        return min(1.0, self.capacity / self.weight) if self.weight > 1e-9 else 1.0

    def add(self, key: int, node: int, work: float, weight: float, fails: bool) -> None:
        heapq.heappush(self.pulls, (self.done + work, key, node, weight, fails))
        self.weight += weight
        self.most = max(self.most, len(self.pulls))


class Fleet:
    """Nodes that pull one image. begin(node) starts a pull. run() calls ended(node, fails) at its end."""

    def __init__(self, nodes: int, pull: float = PULL, peers: float = PEERS, slow: float = 0, fail: float = 0) -> None:
        self.nodes, self.pull, self.serves, self.fail = nodes, pull, peers, fail
        self.random = random.Random(1)
        self.slow = [self.random.random() < slow for _ in range(nodes)]
        self.upstream, self.peers = Source(UPSTREAM), Source(0)
        self.now, self.key = 0.0, 0
        self.events: list = []
        self.ready: list[float] = []
        self.failures = [0] * nodes

    def at(self, time: float, call: Callable, *args: int) -> None:
        self.key += 1
        heapq.heappush(self.events, (time, self.key, call, args))

    def begin(self, node: int) -> None:
        weight = 1 / SLOW if self.slow[node] else 1.0
        fails = self.random.random() < self.fail
        work = self.pull / weight * (self.random.random() if fails else 1)
        self.key += 1
        (self.peers if self.peers.capacity else self.upstream).add(self.key, node, work, weight, fails)

    def run(self, ended: Callable[[int, bool], None]) -> "Fleet":
        sources = (self.upstream, self.peers)
        while self.events or self.upstream.pulls or self.peers.pulls:
            time, source = self.events[0][0] if self.events else math.inf, None
            for each in sources:
                if each.pulls and self.now + (each.pulls[0][0] - each.done) / each.rate() < time:
                    time, source = self.now + (each.pulls[0][0] - each.done) / each.rate(), each
            for each in sources:
                each.done += (time - self.now) * each.rate()
            self.now = time
            if not source:
                _, _, call, args = heapq.heappop(self.events)
                call(*args)
                continue
            _, _, node, weight, fails = heapq.heappop(source.pulls)
            source.weight -= weight
            if fails:
                self.failures[node] += 1
            else:
                self.ready.append(time)
                self.peers.capacity += self.serves
            ended(node, fails)
        assert len(self.ready) == self.nodes, "all nodes have the image at the end"
        return self

    def share(self, part: float) -> float:
        return self.ready[math.ceil(part * self.nodes) - 1]


def at_once(nodes: int, **model: float) -> Fleet:
    fleet = Fleet(nodes, **model)
    for node in range(nodes):
        fleet.at(0, fleet.begin, node)
    return fleet.run(lambda node, fails: fails and fleet.at(fleet.now + RETRY, fleet.begin, node))


def cat_gate(nodes: int, **model: float) -> Fleet:
    fleet = Fleet(nodes, **model)
    opened = seen = 0

    def check(node: int) -> None:
        nonlocal opened
        if opened - seen < max(1, 2 * seen):
            opened += 1
            fleet.at(fleet.now + GATE_DELAY / 2, fleet.begin, node)
        else:
            fleet.at(fleet.now + GATE_PERIOD, check, node)

    def running() -> None:
        nonlocal seen
        seen += 1

    def ended(node: int, fails: bool) -> None:
        if fails:
            fleet.at(fleet.now + RETRY, fleet.begin, node)
        else:
            fleet.at(fleet.now + GATE_DELAY / 2, running)

    for node in range(nodes):
        fleet.at(fleet.random.uniform(0, GATE_PERIOD), check, node)
    return fleet.run(ended)


class Waves:
    """A fleet whose nodes follow the agent's own decide(). With a gate they ask a mirror, which learns of a node LEARN s after its pull."""

    def __init__(self, nodes: int, configured: int, image: str, *, seeds: int, growth: int, round_s: int, gate: str, spread: float = 0, **model: float) -> None:
        words = [arguments.wave_decide, gate, configured, seeds, growth, round_s, image, "seen" if spread else "start"]
        self.program = subprocess.Popen([str(word) for word in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.fleet = Fleet(nodes, **model)
        self.seen = [self.fleet.random.uniform(0, spread) if spread else 0.0 for _ in range(nodes)]
        self.failed = [0.0] * nodes
        self.peers, self.asked, self.have = [UNASKED] * nodes, [-1.0] * nodes, [-1.0] * nodes
        self.turn = [0] * nodes  # a later decision replaces the earlier one
        self.waiting: set[int] = set()  # nodes without the answer that a peer has it
        self.learnt = math.inf
        self.random = random.Random(2)  # of its own: attempts that fail are the same with and without a mirror
        if spread:
            for node in range(nodes):
                self.fleet.at(self.seen[node], self.decide_one, node)
        else:
            self.decide(list(range(nodes)))

    def run(self) -> Fleet:
        self.fleet.run(self.ended)
        self.program.communicate()
        return self.fleet

    def question(self, nodes: list[int]) -> list[tuple[int, float, bool]]:
        out, now = [], self.fleet.now
        assert self.program.stdin and self.program.stdout
        for start in range(0, len(nodes), 500):
            part = nodes[start : start + 500]
            for n in part:
                state = f"{self.peers[n]} {self.asked[n]:.6f} {self.have[n]:.6f}"
                self.program.stdin.write(f"node-{n:05d} {now:.6f} {self.seen[n]:.6f} {self.fleet.failures[n]} {self.failed[n]:.6f} {state}\n")
            self.program.stdin.write("\n")
            self.program.stdin.flush()
            for n in part:
                wait, asks = self.program.stdout.readline().split()
                out.append((n, float(wait), asks == "1"))
        return out

    def decide_one(self, node: int) -> None:
        self.decide([node])

    def decide(self, nodes: list[int]) -> None:
        again = []
        for node, wait, asks in self.question(nodes):
            if asks and self.peers[node] == UNASKED:
                self.asked[node] = self.fleet.now
                if self.fleet.now >= self.learnt:
                    self.peers[node], self.have[node] = HAVE, 0
                else:
                    self.peers[node] = LACK
                    self.waiting.add(node)
                    self.ask_again([node])
                again.append(node)
                continue
            self.turn[node] += 1
            if wait > 0:
                self.fleet.at(self.fleet.now + wait + 1e-5, self.check, node, self.turn[node])
            else:
                self.waiting.discard(node)
                self.fleet.begin(node)
        if again:
            self.decide(again)

    def check(self, node: int, turn: int) -> None:
        if turn == self.turn[node]:
            self.asked[node] = self.fleet.now
            self.decide([node])

    def ended(self, node: int, fails: bool) -> None:
        if fails:
            self.failed[node] = self.fleet.now
            if self.peers[node] == LACK and self.fleet.now >= self.learnt:
                self.peers[node], self.have[node] = HAVE, self.fleet.now
            elif self.peers[node] == LACK:
                self.waiting.add(node)
            self.decide([node])
        elif self.learnt == math.inf and self.fleet.serves:
            self.learnt = self.fleet.now + LEARN
            self.ask_again(self.waiting)

    def ask_again(self, nodes: Iterable[int]) -> None:
        """The mirror keeps an answer for CACHED s, so that every second question gets a new one. It keeps no answer of a search that was too slow."""
        period = math.ceil(CACHED / ASK) * ASK
        by_time: dict[float, list[int]] = {}
        for node in nodes if self.learnt < math.inf else ():
            time = self.seen[node] + math.ceil((self.learnt - self.seen[node]) / period) * period
            while self.random.random() < MISSED**2:  # each question is repeated at once
                time += ASK
            by_time.setdefault(time, []).append(node)
        for time, answered in by_time.items():
            self.fleet.at(time, self.answers, *answered)

    def answers(self, *nodes: int) -> None:
        still = [node for node in nodes if node in self.waiting]
        for node in still:
            self.waiting.discard(node)
            self.peers[node], self.asked[node], self.have[node] = HAVE, self.fleet.now, self.fleet.now
        self.decide(still)


def over_images(configured: float = 1, seedless: bool = False, **model) -> list[list[Fleet]]:
    """For each number of nodes: the same wave for several images, which begin at different nodes; the fastest first. Seedless: no node is first."""
    by_nodes = []
    for n in NODES:
        fleets: list[Fleet] = []
        image = 0
        while len(fleets) < (3 if arguments.quick else IMAGES):
            fleet = Waves(n, int(n * configured), f"registry.example/app:{image}", **model)
            image += 1
            if not seedless or not fleet.fleet.upstream.pulls:
                fleets.append(fleet.run())
            else:
                fleet.program.communicate()
        by_nodes.append(sorted(fleets, key=lambda fleet: fleet.share(1)))
    return by_nodes


OPEN, CLOSED = {"gate": "off"}, {"gate": "auto"}
NO_SEED = {"seedless": True, "seeds": 2, "growth": 3, "round_s": 10}

# Rows in which asking the peers may take longer than 1.15 times the better of cat-gate's rule and rounds by time.
REASONS = {
    "no peers: all from upstream": "a node waits for a peer before it goes upstream, and no faster than upstream can surely serve",
    "a pull takes 15 s, not 7": "a step is 1.25 pulls; rounds by time are shorter than a pull, and this upstream and these peers survive it",
    "no seed drawn, `seeds: 2`": "upstream serves seeds and 3 * sqrt(seeds) at once; the fleet cannot tell a slow seed from none",
}


def cases() -> dict[str, dict]:
    """Each name with the model of the fleet."""
    return {
        "calm": {},
        "a node serves 4 others at once, not 16": {"peers": 4},
        "a node serves 2 others at once, not 16": {"peers": 2},
        "5 % of the nodes take ten times as long": {"slow": 0.05},
        "5 % of the attempts fail": {"fail": 0.05},
        "no peers: all from upstream": {"peers": 0},
        "a pull takes 15 s, not 7": {"pull": 15},
        "a pull takes 30 s, not 7": {"pull": 30},
        "a pull takes 120 s, not 7": {"pull": 120},
        "no seed drawn, `seeds: 2`": NO_SEED,
        "the configuration reaches the nodes within 60 s": {"spread": 60},
    }


def compared() -> dict[str, list[list[list[Fleet]]]]:
    """For each case: cat-gate's rule, rounds by time, rounds by the answers of a mirror."""
    rows = {}
    for case, model in cases().items():
        if arguments.quick and case not in ("calm", "5 % of the attempts fail", "a pull takes 30 s, not 7"):
            continue
        wave = SAFE | model
        plain = {key: value for key, value in model.items() if key not in NO_SEED and key != "spread"}
        rows[case] = [[[cat_gate(n, **plain)] for n in NODES], over_images(**wave | OPEN), over_images(**wave | CLOSED)]
    table_of_cases(rows)
    for case, (gate, by_time, closed) in rows.items():
        for i, n in enumerate(NODES):
            better = min(middle(gate[i]), middle(by_time[i]))
            assert case in REASONS or middle(closed[i]) <= 1.15 * better, (case, n, middle(closed[i]), better)
        # Without a seed, a few nodes pull from upstream early. They add to the seeds, whose pulls take 120 s.
        limit = 1.5 * F if "120 s" in case else F
        assert case in REASONS or most(closed) <= limit, f"{case}: {most(closed)} pulls from upstream exceed its capacity"
    return rows


def calm() -> dict[str, list[list[Fleet]]]:
    """The fleets with a suitable configuration."""
    fleets = {
        "all at once": [[at_once(n)] for n in NODES],
        "cat-gate's rule": [[cat_gate(n)] for n in NODES],
        "waves, `growth: 3`": over_images(**SAFE | OPEN),
        "waves, `growth: 10`": over_images(**FAST | OPEN),
    }
    _, gate, safe, fast = (middle(of[-1]) for of in fleets.values())
    assert 95 <= fleets["cat-gate's rule"][0][0].share(1) <= 115, "the article measured 105 s on 77 nodes"
    assert fast <= gate / 5 and safe <= gate * 2 / 5, (gate, safe, fast)
    for name in list(fleets)[2:]:
        assert most(fleets[name]) <= F, f"{name}: pulls from upstream never exceed its capacity"
    return fleets


def wrong_counts() -> dict[str, list[list[Fleet]]]:
    fleets = {}
    for name, factor in (("half", 0.5), ("twice", 2)):
        for gate, way in ((OPEN, "by time"), (CLOSED, "by the mirror")):
            fleets[f"{way}, `growth: 3`, `nodes` is {name} the real number"] = over_images(factor, **SAFE | gate)
            fleets[f"{way}, `growth: 10`, `nodes` is {name} the real number"] = over_images(factor, **FAST | gate)
    for name, of in fleets.items():
        # With twice the seeds, an image with many of them overloads upstream: the mirror then measures a longer pull.
        assert (middle(of[-1]) if "mirror" in name else of[-1][-1].share(1)) <= 100, f"{name}: still less than half of the time of cat-gate's rule"
    return fleets


def harder() -> dict[str, list[list[Fleet]]]:
    fleets = {}
    for peers in (4, 2):
        for growth in (4, 10):
            name = f"a node serves {peers} others at once, not 16: `growth: {growth}`"
            fleets[name] = over_images(**SAFE | {"growth": growth} | OPEN, peers=peers)
    fleets["a pull takes 30 s, not 7: all at once"] = [[at_once(n, pull=30)] for n in NODES]
    for growth in (3, 10):
        fleets[f"a pull takes 30 s, `round: 45s`: `growth: {growth}`"] = over_images(**SAFE | OPEN | {"growth": growth, "round_s": 45, "pull": 30})
    return fleets


def middle(fleets: list[Fleet]) -> float:
    return fleets[len(fleets) // 2].share(1)


def most(by_nodes: list[list[Fleet]]) -> int:
    return max(fleet.upstream.most for fleets in by_nodes for fleet in fleets)


def cell(fleets: list[Fleet]) -> str:
    median, worst = fleets[len(fleets) // 2].share(1), fleets[-1].share(1)
    text = f"{median:,.0f}" + (f", worst {worst:,.0f}" if worst > 1.1 * median else "")
    most_have = fleets[len(fleets) // 2].share(0.95)
    return text + (f" (95 %: {most_have:,.0f})" if most_have < 0.9 * median else "")


def show(name: str, ways: list[list[list[Fleet]]], row: str) -> None:
    """Prints a row. With all images it must be that of the document. With fewer nodes, their cells must be."""
    print(row)
    there = next((line for line in DOCUMENT if line.startswith(f"| {name} |")), f"| {name} |  |")
    cells = there.replace(" / ", " | ").split(" | ")[1:]
    by_way = [cells[i : i + len(SIZES)] for i in range(0, len(ways) * len(SIZES), len(SIZES))]
    compared = [(cell(fleets), text) for way, texts in zip(ways, by_way) for fleets, text in zip(way, texts) if len(fleets) in (1, IMAGES)]
    if any(simulated != text for simulated, text in compared) or (not arguments.quick and len(NODES) == len(SIZES) and row != there):
        differences.append(f"simulated: {row}\ndocument:  {there}")


def table(fleets: dict[str, list[list[Fleet]]]) -> None:
    print("\n| seconds until the last node has it | 77 nodes | 2,500 | 10,000 | pulls from upstream at once, at most |")
    print("|---|---|---|---|---|")
    for name, of in fleets.items():
        show(name, [of], f"| {name} | {' | '.join(map(cell, of))} | {most(of):,} |")


def table_of_cases(rows: dict[str, list[list[list[Fleet]]]]) -> None:
    print("\n| seconds for 77 / 2,500 / 10,000 nodes | cat-gate's rule | waves by time | by the mirror | pulls from upstream at once, at most: by time, by the mirror |")
    print("|---|---|---|---|---|")
    for case, of in rows.items():
        ways = " | ".join(" / ".join(map(cell, way)) for way in of)
        show(case, of, f"| {case} | {ways} | {most(of[1]):,}, {most(of[2]):,} |")


def plot(fleets: dict[str, list[list[Fleet]]], path: str) -> None:
    """Draws the share of 10,000 nodes with the image over a logarithmic time axis."""
    width, height, left, top = 640, 300, 50, 12
    ends = (5.0, 20000.0)

    def x(seconds: float) -> float:
        return left + width * math.log(max(seconds, ends[0]) / ends[0]) / math.log(ends[1] / ends[0])

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 20} {top + height + 46}" font-family="sans-serif" font-size="12">',
        f"<title>Share of {NODES[2]:,} simulated nodes that have the image</title>",
        f'<rect width="{left + width + 20}" height="{top + height + 46}" fill="#fff"/>',
    ]
    for seconds in (5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000):
        out.append(f'<path d="M{x(seconds):.1f} {top}v{height}" stroke="#ddd"/>')
        out.append(f'<text x="{x(seconds):.1f}" y="{top + height + 16}" text-anchor="middle">{seconds:,}</text>')
    for part in (0, 25, 50, 75, 100):
        y = top + height * (100 - part) / 100
        out.append(f'<path d="M{left} {y}h{width}" stroke="#ddd"/><text x="{left - 6}" y="{y + 4}" text-anchor="end">{part} %</text>')
    out.append(f'<text x="{left + width / 2}" y="{top + height + 36}" text-anchor="middle">seconds (logarithmic)</text>')
    colours = ("#777", "#c60", "#06c", "#093", "#06c", "#a0a", "#a0a")
    for i, ((name, of), colour) in enumerate(zip(fleets.items(), colours)):
        dashes = ' stroke-dasharray="6 4"' if "by the mirror" in name else ""
        fleet = of[2][len(of[2]) // 2]
        points = {f"{x(fleet.share(k / 200)):.1f} {top + height * (1 - k / 200):.1f}": None for k in range(1, 201)}
        out.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>')
        at = top + 20 + 18 * i
        out.append(f'<path d="M{left + 10} {at - 4}h24" stroke="{colour}" stroke-width="2"{dashes}/><text x="{left + 40}" y="{at}">{name.replace("`", "")}</text>')
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(out) + "\n</svg>\n")


def main() -> int:
    if arguments.quick:  # few images and cases of large fleets, and all of small ones
        table(calm())
        compared()
        arguments.quick, NODES[1:] = False, []
    fleets = calm()
    table(fleets)
    rows = compared()
    table(wrong_counts())
    table(harder())
    if arguments.plot:
        _, by_time, closed = rows["a pull takes 30 s, not 7"]
        more = {"the same by the mirror, growth: 3": rows["calm"][2], "by time, a pull takes 30 s": by_time, "by the mirror, a pull takes 30 s": closed}
        plot(fleets | more, arguments.plot)
    print("".join(f"\ndeploy/IMAGES.md differs\n{text}\n" for text in differences))
    return bool(differences)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wave_decide")
    parser.add_argument("--quick", action="store_true", help="all fleets of 77 nodes, and a part of the larger ones")
    parser.add_argument("--plot", metavar="FILE", help="an SVG of the calm case, and of a pull that takes longer than a round")
    arguments = parser.parse_args()
    sys.exit(main())
