# SPDX-License-Identifier: Apache-2.0
"""What commands draw of a document, on a terminal and elsewhere. The agent that serves it is made up."""

import contextlib
import json
import re
import signal
import socket
import termios
import threading
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest
from conftest import Run, until
from terminal import Terminal, plain

pytestmark = pytest.mark.quick
RED, GREEN, END = "\x1b[31m", "\x1b[32m", "\x1b[0m"
Serve = Callable[[Any], None]


@pytest.fixture(name="serve")
def fixture_serve(directory: Path) -> Iterator[Serve]:
    """serve(document) answers each request on the agent's socket with it."""
    listener = socket.socket(socket.AF_UNIX)
    (directory / "run").mkdir(exist_ok=True)
    listener.bind(str(directory / "run/headroom.sock"))
    listener.listen()
    body = b""

    def answer() -> None:
        while True:
            try:
                client = listener.accept()[0]
            except OSError:
                return
            with client:
                client.recv(4096)
                client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    def serve(document: Any) -> None:
        nonlocal body
        body = json.dumps(document).encode()

    thread = threading.Thread(target=answer)
    thread.start()
    yield serve
    listener.shutdown(socket.SHUT_RDWR)
    thread.join()
    listener.close()


def condition(name: str, status: str, severity: str, reason: str, message: str = "") -> dict[str, str]:
    return {"type": name, "status": status, "severity": severity, "reason": reason, "message": message}


LIMIT = {"name": "neighbor/ipv4", "used": 60, "max": 100, "unit": "entries", "peak": 120, "peak_at": "2024-05-01T12:00:00Z"}
LIMIT |= {"hits": 9, "hits_before": 7, "bound": "exact", "severity": "critical", "full_in_seconds": 7500}
STATUS = {
    "schema": 1,
    "node": {"name": "n", "version": "1", "verdict": "warning"},
    "limits": [LIMIT],
    "tuners": [{"name": "thp", "mode": "off", "state": "off"}, {"name": "dns", "mode": "enforce", "state": "active"}],
    "conditions": [
        condition("NeighborTablePressure", "True", "warning", "near-full", "60 of 100"),
        condition("SettingFailed", "False", "warning", "none-failed"),
        condition("AgentDegraded", "False", "warning", "all-active"),
        condition("DNSBudgetPressure", "False", "warning", "no-budget"),
        condition("DNSBudgetExceeded", "False", "critical", "no-budget"),
        condition("KubeletSerialPulls", "Unknown", "advice", "no-kubelet"),
        condition("TransparentHugePagesActive", "Unknown", "warning", "tuner-off"),
    ],
}
SHOWN = """\
n  headroom 1  warning

Limits
  neighbor/ipv4       60 of 100 entries  60 %  peak 120 at 2024-05-01T12:00:00Z  hits 2 (9 since boot)  full in 2 h 5 min

Conditions
  warning  NeighborTablePressure        near-full
           60 of 100
  2 OK
  not applicable: DNS budgets (no cloud resolver), kubelet (none)

Settings
  dns        enforce  active
"""


def test_status_has_limits_first_then_problems_and_counts_what_is_well(serve: Serve, run: Run) -> None:
    serve(STATUS)
    assert run("status").stdout == SHOWN


def test_lines_are_wrapped_to_the_width_and_nothing_is_cut(serve: Serve, run: Run) -> None:
    serve(STATUS)
    text = run("status", env={"COLUMNS": "60"}).stdout
    assert max(map(len, text.splitlines())) <= 60
    assert text.split() == SHOWN.split()


@pytest.mark.parametrize("severity,verdict,code", [("advice", "ok", 0), ("warning", "warning", 2), ("critical", "critical", 2)])
def test_status_exits_2_for_a_problem_and_0_for_advice_alone(serve: Serve, run: Run, severity: str, verdict: str, code: int) -> None:
    serve({"node": {"verdict": verdict}, "conditions": [condition("StorageSlow", "True", severity, "slow-driver")]})
    answer = run("status")
    assert answer.returncode == code, answer.stderr
    assert "StorageSlow" in answer.stdout


def test_colours_are_for_terminals_without_no_color(serve: Serve, directory: Path) -> None:
    serve(STATUS)
    coloured = Terminal(directory, "status", columns=80).finish()
    assert f"neighbor/ipv4       {RED}█" in coloured
    assert max(map(len, plain(coloured).splitlines())) <= 80
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\x1b" not in Terminal(directory, "status", env=env).finish()


@pytest.mark.parametrize("end", [b"q", b"\x03", signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_what_is_live_leaves_the_terminal_as_it_was(serve: Serve, directory: Path, end: bytes | signal.Signals) -> None:
    serve(STATUS)
    with contextlib.closing(Terminal(directory, "status", "--watch", keep=True)) as terminal:
        until(lambda: termios.tcgetattr(terminal.follower) != terminal.was, "keys are read one by one")
        if isinstance(end, bytes):
            terminal.press(end.decode())
        else:
            terminal.process.send_signal(end)
        assert terminal.process.wait(5) in ((0, 2, -signal.SIGINT) if isinstance(end, bytes) else (-end,))
        assert termios.tcgetattr(terminal.follower) == terminal.was


def workload(text: str) -> dict[str, Any]:
    return {"workload": {"kind": "pod", "text": text}}


SERVER = {
    "server": "10.0.0.2", "role": "upstream", "queries_per_second": 12, "peak": 1500, "budget": {"qps": 1024, "pps": 60},
    "pending": 4, "unanswered": 2, "latency": {"p50": 0.00038, "p99": 0.021},
    "top": [{**workload("pod shop/cart"), "queries": 700, "queries_per_second": 8}],
    "other": {"queries": 320, "queries_per_second": 4}, "names": [{"name": "ab.example", "type": "A", "share": 0.4}],
}  # fmt: skip
SILENT = {"server": "2001:db8::1", "role": "cluster", "budget": None, "latency": None, "other": {"queries": 0}}


def dns(*servers: Any, **more: Any) -> dict[str, Any]:
    return {"dns": {"servers": servers, **more}}


def test_top_lists_servers_users_and_names(serve: Serve, run: Run) -> None:
    expansions = [{"role": "local"}, {"role": "cluster", "failed_per_second": 40, "queries_per_second": 50}]
    serve(dns(SERVER, SILENT, lost={"servers": 0, "rows": 7, "polls": 1}, expansions=expansions))
    assert run("top", "dns").stdout == """\
DNS
  server          role       q/s  peak/s   budget pending unanswered    p50    p99
  10.0.0.2        upstream    12    1500     1024       4          2 380 us  21 ms
           8/s          700  pod shop/cart
           4/s          320  other
          40 %               ab.example  A
  2001:db8::1     cluster      0       0        -       0          0      -      -
  failed search-list expansions: cluster 40 of 50/s
  not counted in full: rows 7, polls 1
"""


def test_top_on_a_small_terminal_keeps_every_server_and_colours_what_is_over_its_budget(serve: Serve, directory: Path) -> None:
    serve(dns(SERVER, SILENT, SILENT))
    with contextlib.closing(Terminal(directory, "top", "dns", rows=10)) as terminal:
        text = terminal.wait_screens(1)
        assert "shop/cart" in text and text.count("2001:db8::1") == 2, text
        assert "other" not in text and "example" not in text
        assert f"{RED}    1500{END}" in text and f"{GREEN}    12{END}" in text


def test_top_shows_live_rows_first_and_s_sorts_by_the_next_column(serve: Serve, directory: Path) -> None:
    serve(dns({"server": "idle", "queries_per_second": 0, "peak": 9}, {"server": "busy", "queries_per_second": 5, "peak": 7}))
    with contextlib.closing(Terminal(directory, "top", "dns")) as terminal:
        for first in ("busy", "idle", "idle", "idle", "busy"):
            text = terminal.wait_screens(len(terminal.screens()) + 2)
            assert re.findall("idle|busy", text)[0] == first, text
            terminal.press("s")


def test_top_says_why_a_list_is_empty(serve: Serve, run: Run) -> None:
    serve(dns())
    assert "no query has left this node yet" in run("top", "dns").stdout
    degraded = {"name": "dns", "state": "degraded", "why": "no cgroup2"}
    serve({"dns": None, "tuners": [{"name": "thp", "state": "active", "why": ""}, degraded]})
    assert run("top", "dns").stdout == "DNS\n  degraded: no cgroup2\n"


@pytest.mark.parametrize("command", [("status",), ("top",), ("top", "dns")])
def test_foreign_names_cannot_steer_the_terminal(serve: Serve, run: Run, command: tuple[str, ...]) -> None:
    evil = "e\x1b[2Jv\x9b31m\x07il\u202e"
    serve({
        "node": {"name": evil, "version": "1", "verdict": "critical"},
        "limits": [{"name": "neighbor/" + evil, "used": 1, "max": 2, "unit": evil, "top": [{**workload(evil), "used": 1}]}],
        "settings": [{"name": evil, "tuner": "thp", "wanted": evil, "actual": evil, "state": "failed", "reason": evil}],
        "tuners": [{"name": "thp", "mode": evil, "state": evil, "why": evil}],
        "conditions": [condition(evil, "True", evil, evil, evil)],
        "dns": {"servers": [{"server": evil, "role": evil, "top": [workload(evil)], "names": [{"name": evil, "share": 1}]}]},
        "runtime": {"found": [{"name": evil, "pulls": [{"image": evil, "ref": evil}]}]},
    })  # fmt: skip
    answer = run(*command)
    assert answer.returncode in (0, 2), answer.stderr
    assert "e?[2Jv" in answer.stdout
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", answer.stdout)
