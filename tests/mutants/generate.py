# SPDX-License-Identifier: Apache-2.0
"""Generates mutants of C source: a condition is flipped, a call is dropped, or two statements are swapped.

It knows the layout of clang-format instead of the language. The compiler rejects what is not well formed.
"""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator

SEED = "headroom 1"
HIDDEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|/\*.*?\*/|//[^\n]*|^#(?:\\\n|[^\n])*', re.S | re.M)
NAME = re.compile(r"\b(\w*[a-z]\w*)\(")
FLIPPED = {"&&": "||", "||": "&&", "<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}
CALL = re.compile(r"(?:\(void\))?[a-z_][\w.>-]*\(")
FREES = re.compile(r"(?:\(void\))?(?:free|va_end|munmap|\w+_(?:clear|close|free))\(")  # the kind asan finds what these leave
ASSIGNMENT = re.compile(r"([\w.>*\[\]()-]+) [|&+-]?= |([\w.>\[\]-]+)(?:\+\+|--);")
KINDS = ("condition", "call", "swap")


@dataclass(frozen=True)
class Mutant:
    file: str
    function: str
    kind: str
    at: int  # in the text of the file
    old: str
    new: str
    id: str

    def apply(self, text: str) -> str:
        assert text.startswith(self.old, self.at)
        return text[: self.at] + self.new + text[self.at + len(self.old) :]

    def describe(self) -> str:
        old, new = (" ".join(part.split()) for part in (self.old, self.new))
        return {
            "condition": f"`{old}` is `{new}`",
            "call": f"no `{old}`",
            "swap": f"`{new}`",
        }[self.kind]


def closing(text: str, start: int) -> int:
    """The end of the parentheses that open at start."""
    depth = 0
    for at in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return at + 1
    return len(text)


def statements(code: str, begin: int, end: int) -> list[tuple[int, int, bool]]:
    """Statements that end with a semicolon: begin, end, and whether one that is alone below an if, else or loop."""
    found = []
    for match in re.finditer(r"^(\t+)(?=[^\s{}])", code[begin:end], re.M):
        at = begin + match.end()
        before = code[:at].rstrip()
        stop = code.find(";", at) + 1
        inner = code[at:stop]
        if before[-1] not in ";{})" and not before.endswith(("else", "do")):
            continue
        if stop and "{" not in inner and inner.count("(") == inner.count(")") and not re.match(r"(if|for|while|switch) ", inner):
            found.append((at, stop, before[-1] not in ";{}"))
    return found


def order_matters(first: str, second: str) -> bool:
    """Whether a statement uses what the other one sets, as far as their words tell."""
    for one, other in ((first, second), (second, first)):
        if assigned := ASSIGNMENT.match(one):
            if re.search(rf"(?<![\w.>]){re.escape(assigned[1] or assigned[2])}(?!\w)", other):
                return True
    words = [set(re.findall(r"[a-z_]\w*", statement)) - {"void"} for statement in (first, second)]
    calls = [CALL.match(statement) for statement in (first, second)]
    order = not any("json" in call.group() for call in calls if call)  # of keys
    return bool(order and calls[0] and calls[1] and calls[0].group() != calls[1].group() and words[0] & words[1])


def changes(text: str, code: str, begin: int, end: int) -> Iterator[tuple[str, int, str, str]]:
    """Kind, offset, old and new text. code is the text without comments and strings."""
    for match in re.finditer(r"\b(?:if|while) (?=\()", code[begin:end]):
        start = begin + match.end()
        stop = closing(code, start)
        yield "condition", start, text[start:stop], f"(!{text[start:stop]})"
    for match in re.finditer(r"(?<= )(&&|\|\||[<>=!]=|[<>])(?=\s)", code[begin:end]):
        start = begin + match.start()
        # With its line, so that a reader sees which one it is.
        first, last = text.rfind("\n", 0, start) + 1, text.find("\n", start)
        line = text[first:last]
        first += len(line) - len(line.lstrip())
        yield "condition", first, text[first:last], text[first:start] + FLIPPED[match.group()] + text[start + len(match.group()) : last]
    found = statements(code, begin, end)
    for start, stop, _ in found:
        if CALL.match(code, start) and not FREES.match(code, start):
            yield "call", start, text[start:stop], "(void)0;"
    for (start, stop, alone), (start2, stop2, _) in zip(found, found[1:]):
        between = code[stop:start2]
        known = all(not FREES.match(code, at) and (CALL.match(code, at) or ASSIGNMENT.match(code, at)) for at in (start, start2))
        if known and not alone and not between.strip() and order_matters(code[start:stop], code[start2:stop2]):
            yield "swap", start, text[start:stop2], text[start2:stop2] + text[stop:start2] + text[start:stop]


def bodies(code: str) -> Iterator[tuple[str, int, int]]:
    """The name of each function, and where its body begins and ends."""
    head, name, begin, at = "", "", -1, 0
    for line in code.splitlines(keepends=True):
        if line[0] not in "\t {}\n":
            head = line
        at += len(line)
        if line == "{\n":
            name, begin = "".join(NAME.findall(head)[:1]), at
        elif line == "}\n" and begin >= 0:
            yield name, begin, at - len(line)
            begin = -1


def mutants(root: Path, file: str) -> list[Mutant]:
    """All mutants of a file, in an order that depends on the seed and on each mutant alone, kinds in turn."""
    text = (root / file).read_text()
    code = HIDDEN.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)
    made: dict[str, list[Mutant]] = {kind: [] for kind in KINDS}
    seen: set[str] = set()
    for name, begin, end in bodies(code):
        for kind, at, old, new in changes(text, code, begin, end):
            key, number = "", 0
            while not key or key in seen:
                key = hashlib.sha256("\0".join((SEED, file, name, kind, old, new, str(number))).encode()).hexdigest()[:8]
                number += 1
            seen.add(key)
            made[kind].append(Mutant(file, name, kind, at, old, new, key))
    for kind in KINDS:
        made[kind].sort(key=lambda mutant: mutant.id)
    return [made[kind][i] for i in range(max(map(len, made.values()))) for kind in KINDS if i < len(made[kind])]
