# SPDX-License-Identifier: Apache-2.0
"""Each command in README, manuals, help and deploy/*.md is run as it is printed, or a row of a table says why not.

`headroom` runs in namespaces of its own beside an agent that observes, with a configuration in an overlay of /etc. `sudo` and
`kubectl exec` are programs that run what follows them.
"""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Iterator

import pytest
from conftest import BIN, Agent, Run, Start, environment, until

pytestmark = pytest.mark.apart
ROOT = Path(__file__).parents[2]
MARKDOWN = [ROOT / "README.md", *sorted(ROOT.glob("deploy/*.md")), *sorted(ROOT.glob("packaging/*.md")), ROOT / "deploy/helm/headroom/README.md"]
MANUALS = sorted(ROOT.glob("packaging/headroom*.[578].in"))

# Programs whose commands count in the middle of a sentence. A line of a block counts whatever it begins with.
PROGRAMS = "apt chmod cmake crictl ctr curl dig dnf docker echo headroom helm journalctl kubectl promtool skopeo sudo sysctl systemctl systemd-analyze"
NO_COMMAND = re.compile(r"#|- |[\w.-]+:( |$)|[\w]+: *\{|(sum|count) by |\|")

# Values for the names that stand for any value.
PLACEHOLDERS = {"explain NAME": "explain conntrack", "explain LIMIT": "explain conntrack", "explain REASON": "explain observe-mode", "top NAME": "top conntrack"}
PLACEHOLDERS |= {"check-config FILE": "check-config /etc/headroom/headroom.yaml", "status --probe": "status --probe /livez", "headroom status --watch": "timeout 1 headroom status --watch"}

# Exit codes other than 0 or 2. The configuration says observe, nothing listens on the addresses, and a machine may
# lack what doctor checks.
EXITS = {r"headroom doctor\b": {0, 1, 2}, r"headroom apply\b": {1}, r"headroom fleet\b": {1}, r" --watch$": {124}}

# Run as printed.
RUN = [
    r"(sudo )?(build/release/src/)?headroom (?!agent)[a-z]",
    r"kubectl .*exec .*-- headroom ",
    r"curl -s http://127\.0\.0\.1:19810/metrics",
    r"deploy/prometheus/prometheusrule ",
    r"sed .* deploy/prometheus/rules\.yaml$",
]

# Not run here: why, and what runs it or the like.
ELSEWHERE = {
    r"headroom agent\b": "it is the agent of these tests",
    r"(sudo )?packaging/quickstart": "installs packages and builds: tests/root/test_quickstart.py",
    r"(sudo )?(packaging/(dependencies|sysroot|image|release|rpm/headroom\.spec)|rpmbuild|git archive|docker build|dpkg-source)\b": "builds packages and images: tests/vm/package-checks, tests/check/check_release.py, tests/e2e/run",
    r"(sudo )?tests/": "a kind of test itself: tests/run",
    r"cmake --workflow --preset (deb|dev|arm64)$": "builds: tests/run, tests/vm/run",
    r"(sudo )?(apt|dnf) |sudo systemctl |systemctl (start|status|stop|mask|set-property) ?|systemd-analyze ": "needs a machine that has booted: tests/vm/run",
    r"journalctl ": "needs a journal: tests/vm/run",
    r"(helm|kubectl|skopeo) ": "needs a cluster or a registry: tests/e2e/run",
    r"promtool test rules ": "tests/check/check_deploy.py runs it",
    r"(docker|ctr|crictl|chmod|dig|curl -v) ?": "a program of others, about an image, a file or a server of the reader",
    r"sysctl (-w|--system)$": "a program of others, without its arguments",
    r"echo ['+]": "changes the limits of the machine's cgroups",
}


def plain(roff: str) -> str:
    return re.sub(r"\\f[BIRP]", "", roff).replace("\\-", "-").replace("\\:", "").replace("\\e", "\\")


def markdown_commands(text: str) -> Iterator[str]:
    for line in re.findall(r"^    (\S.*)$", text, re.M):
        if not NO_COMMAND.match(line):
            yield re.sub(r"\s+# .*", "", line)
    yield from re.findall(r"^\$ (.*)$", text, re.M)
    for span in re.findall(r"`([^`\n]+)`", text):
        if " " in span and re.match(rf"({'|'.join(PROGRAMS.split())}|packaging/\w+|tests/[\w/-]+) ", span):
            yield span


def manual_commands(roff: str) -> Iterator[str]:
    for block in re.findall(r"^\.nf\n(.*?)^\.fi", roff, re.M | re.S):
        yield from (line for line in plain(block).splitlines() if not NO_COMMAND.match(line) and not line.startswith(" "))
    for name in re.findall(r"\\fB(headroom (?:[^\\\n]|\\-)+)\\fR", roff):
        yield plain(name)


def documented(run: Run) -> dict[str, str]:
    """Command -> where it stands."""
    found: dict[str, str] = {}
    for path in MARKDOWN:
        found |= {command: str(path.relative_to(ROOT)) for command in markdown_commands(path.read_text())}
    for path in MANUALS:
        found |= {command: path.name for command in manual_commands(path.read_text())}
    for command in re.findall(r"^  (\S+)", run("--help").stdout, re.M):
        text = run(command, "--help").stdout
        found |= {example: f"{command} --help" for example in re.findall(r"^  (headroom .*)$", text.split("Example:")[1], re.M)}
    return found


def rows_of(command: str) -> list[str]:
    first = next((row for row in RUN if re.match(row, command)), None)
    return [first] if first else [row for row in ELSEWHERE if re.match(row, command)]


def test_each_documented_command_has_a_row_and_each_row_a_command(run: Run) -> None:
    commands = documented(run)
    assert len(commands) > 100
    assert [(command, where) for command, where in commands.items() if not rows_of(command)] == []
    assert {*RUN, *ELSEWHERE} - {row for command in commands for row in rows_of(command)} == set()
    presets = {preset["name"] for preset in json.loads((ROOT / "CMakePresets.json").read_text())["workflowPresets"]}
    for command, where in commands.items():
        words = command.removeprefix("sudo ").split()
        if re.match(r"(packaging|tests|deploy)/", words[0]):
            assert (ROOT / words[0].rstrip("/")).exists(), (command, where)
        assert "--preset" not in words or words[words.index("--preset") + 1] in presets, (command, where)


SUDO = '#!/bin/sh\nexec "$@"\n'
KUBECTL = '#!/bin/sh\n[ "$1 $4" = "apply -f" ] && exec cat >/dev/null\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n'


@pytest.fixture(name="place")
def fixture_place(directory: Path) -> Path:
    """A working directory like the root of the source, with the programs above."""
    place, programs = directory / "here", directory / "bin"
    (place / "build/release/src").mkdir(parents=True)
    programs.mkdir()
    for name in ("deploy", "packaging"):
        (place / name).symlink_to(ROOT / name)
    (place / "token").write_text("token\n")
    (place / "build/release/src/headroom").symlink_to(BIN)
    (programs / "headroom").symlink_to(BIN)
    for name, text in (("sudo", SUDO), ("kubectl", KUBECTL)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    return place


@pytest.fixture(name="alone")
def fixture_alone(directory: Path, agent: Start) -> Agent:
    """An agent that observes, at the default address, with its configuration in /etc/headroom."""
    layers = directory / "layers"
    layers.mkdir()
    script = f"""mount -t tmpfs headroom-test {layers}
        mkdir -p {layers}/upper/headroom {layers}/work
        echo "mode: observe" >{layers}/upper/headroom/headroom.yaml
        mount -t overlay -o lowerdir=/etc,upperdir={layers}/upper,workdir={layers}/work headroom-test /etc
        ip link set lo up
        exec "$@" """
    return agent(None, wrap=("unshare", "--mount", "--net", "sh", "-ec", script, "sh"))


def test_documented_commands_run_as_they_are_printed(run: Run, alone: Agent, place: Path, directory: Path) -> None:
    incident = until(lambda: json.loads(run("incidents", "--json").stdout)["incidents"], "an incident")[0]["id"]
    commands = [command for command in documented(run) if any(re.match(row, command) for row in RUN)]
    # A purge comes last: it removes the records.
    commands.sort(key=lambda command: "restore" in command)
    failed = []
    for command in commands:
        typed = command.replace("incidents ID", f"incidents {incident}")
        for name, value in PLACEHOLDERS.items():
            typed = re.sub(rf"{name}$", value, typed)
        done = subprocess.run(
            ["nsenter", "-t", str(alone.pid), "--mount", "--net", f"--wd={place}", "sh", "-c", typed],
            env={**environment(directory), "PATH": f"{directory}/bin:{os.environ['PATH']}"},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        wanted = next((codes for row, codes in EXITS.items() if re.search(row, command)), {0, 2})
        if done.returncode not in wanted:
            failed.append((command, done.returncode, done.stderr[-200:]))
    assert failed == [] and len(commands) > 40
