# SPDX-License-Identifier: Apache-2.0
"""The output of status and top for a given document, on a terminal and elsewhere. A fake agent serves the document."""

import contextlib
import json
import re
import signal
import socket
import termios
import threading
import time
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


def test_status_shows_limits_then_problems_and_counts_conditions_that_are_ok(serve: Serve, run: Run) -> None:
    serve(STATUS)
    text = run("status").stdout
    limits, conditions, settings = (text.index(f"\n{heading}\n") for heading in ("Limits", "Conditions", "Settings"))
    assert limits < text.index("60 of 100 entries") < text.index("full in 2 h 5 min") < conditions
    assert "hits 2 (9 since boot)" in text and "peak 120 at 2024-05-01T12:00:00Z" in text
    assert conditions < text.index("NeighborTablePressure ") < text.index("2 OK") < text.index("kubelet (none)") < settings
    assert "thp" not in text, "a tuner that is off has no line"


def test_all_views_show_bytes_and_shares_in_the_same_form(serve: Serve, run: Run) -> None:
    disk = {"name": "filesystem/root/bytes", "used": 205.1e9, "max": 270.6e9, "unit": "bytes", "peak": 205.1e9, "severity": "ok"}
    user = {**workload("pod shop/cart"), "used": 20.5e9}
    over = {**LIMIT, "name": "neighbor/ipv6", "used": 163}
    serve({**STATUS, "limits": [{**disk, "top": [user]}, over]})
    for command in ("status", "top"):
        text = run(command).stdout
        assert "205.1 GB of 270.6 GB  76 %  peak 205.1 GB" in text and "163 of 100 entries  163 %" in text, text
    assert "20.5 GB  pod shop/cart" in run("top").stdout


def test_long_lines_are_wrapped_and_never_cut(serve: Serve, run: Run) -> None:
    serve(STATUS)
    wide, narrow = (run("status", env={"COLUMNS": columns}).stdout for columns in ("200", "60"))
    assert max(map(len, narrow.splitlines())) <= 60
    assert narrow.split() == wide.split()


@pytest.mark.parametrize("severity,verdict,code", [("advice", "ok", 0), ("warning", "warning", 2), ("critical", "critical", 2)])
def test_status_exits_2_for_a_problem_and_0_for_advice(serve: Serve, run: Run, severity: str, verdict: str, code: int) -> None:
    serve({"node": {"verdict": verdict}, "conditions": [condition("StorageDriverSlow", "True", severity, "slow-driver")]})
    answer = run("status")
    assert answer.returncode == code, answer.stderr
    assert "StorageDriverSlow" in answer.stdout


def test_only_terminals_without_no_color_get_colours(serve: Serve, directory: Path) -> None:
    serve(STATUS)
    coloured = Terminal(directory, "status", columns=80).finish()
    assert f"neighbor/ipv4       {RED}█" in coloured
    assert max(map(len, plain(coloured).splitlines())) <= 80
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": ""}):
        assert "\x1b" not in Terminal(directory, "status", env=env).finish()
    coloured = Terminal(directory, "status", env={"LC_ALL": "C"}).finish()
    assert coloured.isascii() and f"{RED}#" in coloured


def limits(n: int) -> list[dict[str, Any]]:
    """One reached limit behind many idle ones with long names, the busiest last."""
    users = [{**workload("pod a-namespace-of-some-length/a-workload-with-a-long-name-" + "x" * 40), "used": 1}] * 5
    idle = [{**LIMIT, "name": f"idle/{i}", "used": i, "peak": 50, "severity": "ok", "full_in_seconds": None, "top": users} for i in range(n)]
    return [*idle, {**LIMIT, "name": "reached", "top": users}]


def finding(slug: str, severity: str, instance: str, **more: Any) -> dict[str, Any]:
    user = {**workload("pod shop/crawler-7"), "used": 180000, "share": 0.69, "text": "pod shop/crawler-7 180000 (69 %)"}
    numbers = {"used": 262144, "max": 262144, "unit": "connections", "times": 9231, "happens": "refused", "who": [user], "who_known": True}
    cure = {"now": "sysctl -w net.netfilter.nf_conntrack_max=524288", "keep": "limits: {raise: [conntrack]}", "keep_in": "/etc/x.yaml"}
    message = "262144 of 262144 connections, refused 9231 times"
    return {"slug": slug, "severity": severity, "instance": {"kind": "netns", "text": instance}, "message": message, **numbers, **cure, **more}


CURE = [
    "  who     pod shop/crawler-7 180000 (69 %)",
    "  now     sysctl -w net.netfilter.nf_conntrack_max=524288",
    "  keep    limits: {raise: [conntrack]}  in /etc/x.yaml",
]


def test_findings_are_paragraphs_with_their_cure_and_rows_with_their_user(serve: Serve, run: Run) -> None:
    ignored = finding("mounts", "warning", "unit x.service", ignored=True)
    released = {"name": "thp", "mode": "released", "state": "active"}
    serve({**STATUS, "findings": [finding("conntrack", "critical", "host"), ignored], "tuners": [released]})
    message = "262144 of 262144 connections, refused 9231 times"
    for command, indent in (("doctor", ""), ("status", "  ")):
        lines = run(command).stdout.splitlines()
        at = lines.index(f"{indent}critical  conntrack  host: {message}")
        assert lines[at + 1 : at + 4] == [indent + line for line in CURE]
        assert f"{indent}ignored   mounts  unit x.service: {message}" in lines
        assert "1 ignored" in " ".join(lines) and "released: thp" in " ".join(lines)
    text = run("top").stdout
    assert "  critical conntrack  host  262144/262144  9231 refused  pod shop/crawler-7 69 %\n" in text
    assert "  ignored  mounts  unit x.service  262144/262144" in text
    assert text.index(" conntrack ") < text.index(" mounts ") < text.index("neighbor/ipv4")


def test_status_counts_the_findings_that_the_agent_has_left_out(serve: Serve, run: Run) -> None:
    serve({**STATUS, "node": {**STATUS["node"], "findings_left_out": 7}, "findings": [finding("conntrack", "critical", "host")]})
    assert "  and 7 problems" in run("status").stdout.splitlines()


@pytest.mark.parametrize("command", [("status", "--watch"), ("top",)])
def test_a_live_view_with_many_findings_shows_the_first_ones_and_counts_the_others(serve: Serve, directory: Path, command: tuple[str, ...]) -> None:
    many = [finding(f"slug-{i}", "warning", "pod a-namespace-of-some-length/a-workload-with-a-long-name") for i in range(30)]
    serve({**STATUS, "limits": limits(40), "findings": many})
    with contextlib.closing(Terminal(directory, *command, columns=80, rows=24)) as terminal:
        lines = plain(terminal.wait_screens(1)).splitlines()
    assert len(lines) < 24 and max(map(len, lines)) <= 80, lines
    shown = [line.split()[1] for line in lines if line.startswith("  warning  ") and "slug-" in line]
    assert shown == [f"slug-{i}" for i in range(len(shown))] and shown, lines
    assert f"  and {30 - len(shown)} problems" in lines and any("reached" in line for line in lines), lines


@pytest.mark.parametrize("command", [("status", "--watch"), ("top",)])
def test_a_live_view_fits_the_screen_with_the_verdict_and_the_busiest_limits(serve: Serve, directory: Path, command: tuple[str, ...]) -> None:
    serve({**STATUS, "limits": limits(40), **dns(SERVER, SILENT, SILENT)})
    with contextlib.closing(Terminal(directory, *command, columns=80, rows=24)) as terminal:
        lines = plain(terminal.wait_screens(1)).splitlines()
    assert len(lines) < 24 and max(map(len, lines)) <= 80, lines
    assert "warning: NeighborTablePressure" in lines[0]
    names = [line.split()[0] for line in lines if " of 100 entries" in line]
    assert names[0] == "reached" and names[1:] == [f"idle/{39 - i}" for i in range(len(names) - 1)], lines
    assert f"  and {41 - len(names)} idle" in lines


def test_a_live_view_cuts_its_lines_on_a_narrow_terminal(serve: Serve, directory: Path) -> None:
    serve({**STATUS, "limits": limits(40), **dns(SERVER, SILENT, SILENT)})
    with contextlib.closing(Terminal(directory, "top", columns=40, rows=8)) as terminal:
        lines = plain(terminal.wait_screens(1)).splitlines()
    assert len(lines) < 8 and max(map(len, lines)) <= 40, lines


def test_top_on_a_dumb_terminal_shows_one_screen_without_escape_codes(serve: Serve, directory: Path) -> None:
    serve({**STATUS, "limits": limits(3)})
    text = Terminal(directory, "top", env={"TERM": "dumb"}).finish()
    assert "\x1b" not in text and "reached" in text


def test_a_pipe_gets_every_limit_the_problems_first(serve: Serve, run: Run) -> None:
    serve({**STATUS, "limits": limits(40)})
    for command in ("status", "top"):
        text = run(command).stdout
        assert text.index("reached") < text.index("idle/0 ") < text.index("idle/39 "), text
        assert "x" * 40 in run("top").stdout and " idle\n" not in text


def test_a_resolver_over_tls_has_no_zeros(serve: Serve, run: Run) -> None:
    none = {"queries_per_second": 0, "peak": 0, "over_budget_seconds": 0, "minute_failed": 0, "minute_unanswered": 0, "pending": 0}
    serve(dns({"server": "9.9.9.9", "role": "upstream", "verdict": "ok", "dot_packets": 44, "queries": {"udp": 0, "tcp": 0}, **none}))
    lines = run("top", "dns").stdout.splitlines()
    row = next(i for i, line in enumerate(lines) if "9.9.9.9" in line)
    assert "0" not in lines[row].split() and lines[row + 1].strip() == "over TLS, 44 packets", lines


@pytest.mark.parametrize("end", [b"q", b"\x03", signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_live_command_restores_the_terminal_mode(serve: Serve, directory: Path, end: bytes | signal.Signals) -> None:
    serve(STATUS)
    with contextlib.closing(Terminal(directory, "status", "--watch", keep=True)) as terminal:
        until(lambda: termios.tcgetattr(terminal.follower) != terminal.was, "the command reads single keys")
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
    "verdict": "over-budget", "severity": "critical", "over_budget_seconds": 3, "minute_failed": 1, "minute_unanswered": 2,
    "pending": 4, "latency": {"p50": 0.00038, "p99": 0.021}, "second": {"queries": 1500, "counts": "queries", "end": "14:03:07"},
    "top": [{**workload("pod shop/cart"), "queries": 7000, "in_second": 1200}],
    "other": {"queries": 320, "in_second": 300}, "names": [{"name": "ab.example", "type": "A", "share": 0.4}],
}  # fmt: skip
SILENT = {"server": "2001:db8::1", "role": "cluster", "budget": None, "latency": None, "other": {"queries": 0}}


def dns(*servers: Any, **more: Any) -> dict[str, Any]:
    return {"dns": {"servers": servers, **more}}


def test_top_lists_servers_users_and_names(serve: Serve, run: Run) -> None:
    expansions = [{"role": "local"}, {"role": "cluster", "failed_per_second": 40, "queries_per_second": 50}]
    serve(dns(SERVER, SILENT, lost={"servers": 0, "rows": 7, "polls": 1}, expansions=expansions))
    rows = [line.split() for line in run("top", "dns").stdout.splitlines()]
    assert "10.0.0.2 over-budget upstream 12 1500 1024 3 1 2 4 380 µs 21 ms".split() in rows, rows
    assert any(row[:2] == ["2001:db8::1", "cluster"] for row in rows)
    assert "1200/s 80 % 7000 in all pod shop/cart".split() in rows and "300/s 20 % 320 in all other".split() in rows, rows
    assert "40 % ab.example A".split() in rows and "the busiest second, until 14:03:07, had 1500 queries:".split() in rows
    assert "failed search-list expansions: cluster 40 of 50/s".split() in rows
    assert "not counted in full: rows 7, polls 1".split() in rows


def test_top_on_a_small_terminal_keeps_all_servers_and_colours_exceeded_budgets(serve: Serve, directory: Path) -> None:
    serve(dns(SERVER, SILENT, SILENT))
    with contextlib.closing(Terminal(directory, "top", "dns", rows=10)) as terminal:
        text = terminal.wait_screens(1)
        assert "shop/cart" in text and text.count("2001:db8::1") == 2, text
        assert "example" not in text
        assert f"{RED}1500{END}" in text and f"{RED}over-budget{END}" in text, text


@pytest.mark.slow
def test_top_keeps_the_order_of_the_problems_until_s_sorts_by_the_next_column(serve: Serve, directory: Path) -> None:
    serve(dns({"server": "idle", "queries_per_second": 0, "peak": 9}, {"server": "busy", "queries_per_second": 5, "peak": 7}))
    with contextlib.closing(Terminal(directory, "top", "dns")) as terminal:
        for first in ("idle", "busy", "idle", "idle"):
            text = terminal.wait_screens(len(terminal.screens()) + 2)
            assert re.findall("idle|busy", text)[0] == first, text
            terminal.press("s")


def test_top_gives_the_reason_for_an_empty_list(serve: Serve, run: Run) -> None:
    serve(dns())
    assert "no query has left this node yet" in run("top", "dns").stdout
    degraded = {"name": "dns", "state": "degraded", "why": "no cgroup2"}
    serve({"dns": None, "tuners": [{"name": "thp", "state": "active", "why": ""}, degraded]})
    assert run("top", "dns").stdout == "DNS\n  degraded: no cgroup2\n"


@pytest.mark.parametrize("command", [("status",), ("top",), ("top", "dns")])
def test_names_cannot_contain_terminal_controls(serve: Serve, run: Run, command: tuple[str, ...]) -> None:
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


@pytest.mark.apart
def test_top_shows_the_first_users_of_all_problems_before_rows_without_one(serve: Serve, directory: Path) -> None:
    bad = [{**SERVER, "server": f"10.9.9.{i}"} for i in range(12)]
    fine = [{**SILENT, "server": f"10.8.8.{i}", "severity": "ok", "verdict": "ok"} for i in range(12)]
    serve({**dns(*bad, *fine), "limits": limits(30)})
    with contextlib.closing(Terminal(directory, "top", "dns", columns=110, rows=45)) as terminal:
        lines = plain(terminal.wait_screens(1)).splitlines()
    assert len(lines) < 45
    assert sum("10.9.9." in line for line in lines) == 12 and sum("shop/cart" in line for line in lines) == 12, lines
    assert not any("10.8.8." in line for line in lines) or sum(not line.strip() for line in lines) <= 1


@pytest.mark.apart
def test_a_long_node_name_does_not_cut_the_verdict(serve: Serve, directory: Path) -> None:
    name = "ip-10-0-131-97.eu-central-1.compute.internal.example.com-x"
    serve({**STATUS, "node": {**STATUS["node"], "name": name}, "limits": limits(30)})
    with contextlib.closing(Terminal(directory, "top", columns=80, rows=24)) as terminal:
        first = plain(terminal.wait_screens(1)).splitlines()[0]
    assert re.search(r"headroom \S+  (warning|critical|ok)", first), first


@pytest.mark.apart
def test_wide_values_do_not_touch_their_neighbours(serve: Serve, run: Run) -> None:
    serve(dns({**SERVER, "queries_per_second": 123456789, "peak": 123456789, "pending": 123456789}))
    line = next(line for line in run("top", "dns").stdout.splitlines() if "123456789" in line)
    assert line.split().count("123456789") == 3, line


DISK = {"device": "vda", "kind": "rotating", "queue_share": 1, "write_bytes_per_second": 1300000}
SYNCS = {"syncs_per_second": 15, "p50": 0.003, "p99": 0.032, "worst": 0.19}


@pytest.mark.apart
def test_listed_processes_have_their_name_and_the_times_of_columns_are_said(serve: Serve, run: Run) -> None:
    process = {**SYNCS, "device": "vda", "kind": "rotating", "text": "etcd (host)", **workload("host")}
    serve({"storage": {"users": [{**DISK, "syncs_per_second": 0, "text": "host", **workload("host")}, process]}, **dns(SERVER)})
    lines = run("top").stdout.splitlines()
    assert "Storage  (p99 and worst of 5 min)" in lines, lines
    assert "DNS  (peak/s 1 min; p99 since start)" in lines, lines
    rows = [re.split("  +", line.strip()) for line in lines]
    assert ["host", "vda", "rotating", "100 %", "0", "-", "-", "-", "1.3 MB/s"] in rows, rows
    assert ["etcd (host)", "vda", "rotating", "-", "15", "3 ms", "32 ms", "190 ms", "-"] in rows, rows


@pytest.mark.apart
def test_a_row_of_a_problem_keeps_its_user_on_a_narrow_terminal(serve: Serve, directory: Path) -> None:
    message = {"used": None, "max": None, "message": "636 of 1387 local queries of the last minute without an answer"}
    disk = {**LIMIT, "name": "filesystem/root/bytes", "severity": "ok"}
    serve({**STATUS, **dns(SERVER), "limits": [LIMIT, disk], "findings": [finding("unanswered", "warning", "127.0.0.1", **message)]})
    with contextlib.closing(Terminal(directory, "top", columns=80, rows=24)) as terminal:
        lines = plain(terminal.wait_screens(1)).splitlines()
    row = next(line for line in lines if line.startswith("  warning  unanswered"))
    assert row.endswith("pod shop/crawler-7 69 %") and "…" in row and len(row) <= 80, row
    assert any(line.startswith("DNS  (peak/s 1 min; p99 since start)  problems first; s sorts, q quits, ? helps") for line in lines), lines
    assert len({line.index("█") for line in lines if " of 100 entries" in line}) == 1, lines


@pytest.mark.apart
def test_tables_in_a_pipe_wrap_at_columns_and_lose_nothing(serve: Serve, run: Run) -> None:
    pull = {"image": "registry.example.com/team/some-service:1.2.3", "progress": "3 of 7 layers, 120.5 MB of 1.2 GB, 5 MB/s, 3 min left"}
    serve({"runtime": {"pulls": [pull]}, **dns(SERVER, SILENT)})
    for topic in ("pulls", "dns"):
        wide, narrow = (run("top", topic, env={"COLUMNS": columns}).stdout for columns in ("300", "70"))
        assert max(map(len, narrow.splitlines())) <= 70, narrow
        assert not re.search(r" $", wide + narrow, re.M), narrow
    assert pull["image"] in narrow or pull["image"] in run("top", "pulls", env={"COLUMNS": "70"}).stdout


USER = {**workload("pod shop/a-rather-long-name-of-a-pod-7d9c5b6f4-x2x4z"), "used": 20.5e9, "share": 0.95, "detail": "process 4321 (java)", "text": "pod"}
FINDING = {
    "slug": "filesystem/root/bytes", "id": "filesystem/root/bytes@filesystem:/", "severity": "critical", "condition": "LimitReached", "reason": "x",
    "instance": {"kind": "filesystem", "name": "/", "id": "", "text": "/var/lib/containers/storage of unit crio.service"},
    "used": 97.7e9, "max": 97.8e9, "unit": "bytes", "times": 120, "happens": "refused", "until": None, "who": [USER, USER], "who_known": True,
}  # fmt: skip


def neighbors() -> dict[str, Any]:
    row = {"at": "2024-05-01T12:00:00Z", "workload": USER["workload"], "address": "10.0.0.7", "device": "eth0", "was": "02:00:00:00:00:01", "is": "02:00:00:00:00:02"}
    return {"conflicts": [row], "refused": [row], "entries": 3, "not_counted": {"conflicts": 12345678, "entries": 12345678, "requests": 1234567}}


@pytest.mark.apart
@pytest.mark.parametrize("columns", [60, 80, 200])
def test_top_with_problems_and_users_wraps_in_a_pipe(serve: Serve, run: Run, columns: int) -> None:
    serve({**STATUS, "limits": [{**LIMIT, "top": [USER]}], "findings": [FINDING, FINDING], **dns(SERVER, SILENT), "neighbor": neighbors()})
    for topic in ((), ("neighbor",), ("dns",)):
        narrow = run("top", *topic, env={"COLUMNS": str(columns)}).stdout
        assert [line for line in narrow.splitlines() if len(line) > columns] == [], narrow
        assert not re.search(r" $", narrow, re.M), narrow
        if not topic:
            row = f"{FINDING['instance']['text']} 97.7 GB/97.8 GB 120 refused {USER['workload']['text']}, {USER['detail']} 95 %"
            assert row in " ".join(narrow.split()), narrow


@pytest.mark.apart
@pytest.mark.parametrize("columns", [60, 80, 200])
def test_incidents_wrap_in_a_pipe_and_have_the_amounts_of_other_views(run: Run, directory: Path, columns: int) -> None:
    place = directory / "state/incidents"
    place.mkdir(parents=True)
    ident = "20260101T000000Z-filesystem-root-bytes-filesystem--"
    name = USER["workload"]["text"]
    users = [[name, 20.5e9, "process 4321 (java)"], ["host", 1e6]]
    limit = {"name": "filesystem/root/bytes", "unit": "bytes", "used": 97.7e9, "max": 97793294336, "hits": 0}
    text = "filesystem/root/bytes: 97.7 GB of 97.8 GB, " + "words that wrap " * 12
    lines: list[dict[str, Any]] = [
        {"schema": 1, "id": ident, "at": "2026-01-01T00:00:00Z", "text": text, "limit": limit, "top": users, "before": users[1:], "node": "a-node-name-" * 4, "version": "1"},
        *({"t": t, "rows": {limit["name"]: [13987155968 + t * 1e8, limit["max"], 7 + t], "pids": [t, 100, 0]}} for t in range(60)),
        {"t": 61, "event": text, "level": "warning"},
        {"t": 62, "end": "quiet", "text": text, "top": users},
    ]
    (place / f"{ident}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for command in (("incidents", ident), ("incidents",)):
        wide, narrow = (run(*command, env={"COLUMNS": str(width)}).stdout for width in (1000, columns))
        assert max(map(len, narrow.splitlines())) <= columns, narrow
        assert not re.search(r" $", wide + narrow, re.M), narrow
        assert re.sub("[▁-█]+", "", narrow).split() == re.sub("[▁-█]+", "", wide).split(), narrow
    shown = run("incidents", ident).stdout
    assert "14.0 GB to 19.9 GB of 97.8 GB, 59 hits" in shown and "0 to 59 of 100" in shown, shown
    assert re.search(re.escape(name) + r" +- +20.5 GB +20.5 GB  process 4321", shown), shown


@pytest.mark.apart
def test_a_live_view_scrolls_filters_and_lists_its_keys(serve: Serve, directory: Path) -> None:
    serve({**STATUS, "limits": limits(40)})
    with contextlib.closing(Terminal(directory, "top", columns=80, rows=20)) as terminal:

        def press(keys: str) -> list[str]:
            terminal.press(keys)
            return plain(terminal.wait_screens(len(terminal.screens()) + 2)).splitlines()

        terminal.wait_screens(1)
        top = press("\x1b[6~")
        assert "NeighborTablePressure" in top[0] and len(top) < 20
        end = press("\x1b[F")
        assert end != top and end[0] == top[0]
        assert "idle/0 " in "\n".join(press("\x1b[A")) or "idle/0 " in "\n".join(end)
        assert "reached" in "\n".join(press("\x1b[H"))
        press("/")
        terminal.press("idle/3")
        time.sleep(0.5)
        found = press("\r")
        assert found[-1] == "/idle/3" and len(found) == 2 + 11, found  # idle/3, idle/30 to idle/39
        assert all("idle/3" in line for line in found[1:])
        assert len(press("\x1b")) > 5
        assert any(line.startswith("q ") and "quit" in line for line in press("?"))
        press("?")
        terminal.press("q")
        assert terminal.process.wait(10) == 0


NODE = {"name": "ip-10-0-131-97.eu-central-1.compute.internal", "version": "0.1.0", "verdict": "critical"}
FILES = finding("files/process", "warning", "process python3 (pod 7d9c5b6f4-x2x4zq) of unit 774ad.service", used=1003, max=1024, times=0)
BUDGET = finding("dns/10.54.0.53", "critical", "", used=1000, max=20, times=38, happens="s over")
BUDGET["who"] = [{**workload("netns 10.54.0.1-with-a-longer-name-than-a-narrow-pane"), "share": 50, "text": "netns"}] * 2
PANE_USERS = [{**workload("pod shop/a-rather-long-name-of-a-pod-7d9c5b6f4-x2x4z"), "used": 12e9 + i * 1e8, "detail": "process 4321 (java)"} for i in range(3)]
PANE = [
    {**LIMIT, "name": "filesystem/root/bytes", "unit": "bytes", "used": 14.0e9, "max": 97.8e9, "peak": 15.5e9, "severity": "ok", "top": PANE_USERS},
    {**LIMIT, "name": "files/process", "unit": "files", "used": 1003, "max": 1024, "peak": 1003, "top": [{**user, "used": 120 + i} for i, user in enumerate(PANE_USERS)]},
]  # fmt: skip


def glued(text: str) -> set[str]:
    """The numbers of a text, with their short units."""
    return set(re.findall(r"\d+(?:\.\d+)*(?:/\d+)?(?: (?:[kMGT]?B|%|s|ms|µs|min|h)(?![a-z]))?", text))


@pytest.mark.apart
@pytest.mark.parametrize("columns", [20, 40, 48, 60, 72, 80])
def test_a_narrow_pane_cuts_no_figure_and_keeps_the_first_users(serve: Serve, run: Run, directory: Path, columns: int) -> None:
    serve({**STATUS, "node": NODE, "findings": [BUDGET, FILES], "limits": PANE, **dns(SERVER, SILENT), "storage": {"users": [{**DISK, **SYNCS, "text": "etcd (host)"}]}})
    whole = glued(run("top").stdout)
    with contextlib.closing(Terminal(directory, "top", columns=columns, rows=120)) as terminal:
        lines = plain(terminal.wait_screens(1)).splitlines()
    text = "\n".join(lines)
    assert max(map(len, lines)) <= columns, text
    assert [figure for line in lines for figure in glued(line) if figure not in whole] == [], text
    for figure in ("1003/1024", "1000/20", "38 s", "5000 %", "69 %", "14.0 GB", "97.8 GB", "1003 of", "critical", "121", "12.1 GB", "32 ms", "1.3 MB/s"):
        assert any(figure in line for line in lines), (figure, text)
    if columns >= 40:
        rows = " ".join(text.split())
        assert re.search(r"1000/20 38 s over netns \S*… ?\S* ?5000 %", rows) or "netns 10.54.0.1-with-a-longer-name-than-a-narrow-pane 5000 %" in rows, text
        assert "1003/1024 pod shop/crawler-7 69 %" in rows, text
        assert "14.0 GB of 97.8 GB  14 %" in text, text


@pytest.mark.apart
@pytest.mark.parametrize("columns", [20, 40, 60])
def test_a_narrow_status_cuts_no_figure(serve: Serve, run: Run, directory: Path, columns: int) -> None:
    image = {"name": "docker.io/library/busybox:1.36", "source": "PATH", "state": "loading", "size_bytes": 12.3e6, "bytes_done": 4.5e6, "seconds": 1.2}
    serve({**STATUS, "node": NODE, "findings": [BUDGET, FILES], "limits": PANE, "images": [{**image, "state": "active"}]})
    whole = glued(run("status").stdout)
    with contextlib.closing(Terminal(directory, "status", "--watch", columns=columns, rows=120)) as terminal:
        lines = plain(terminal.wait_screens(1)).splitlines()
    text = "\n".join(lines)
    assert max(map(len, lines)) <= columns, text
    assert [figure for line in lines for figure in glued(line) if figure not in whole] == [], text
    for figure in ("4.5 MB", "12.3 MB", "1.2 s", "14.0 GB", "critical"):
        assert any(figure in line for line in lines), (figure, text)


@pytest.mark.apart
def test_a_filter_keeps_what_its_lines_belong_to(serve: Serve, directory: Path) -> None:
    disks = [{**DISK, **SYNCS, "text": name} for name in ("etcd (host)", "pod shop/cart")]
    serve({**STATUS, "node": NODE, "limits": PANE, "findings": [FILES], "storage": {"users": disks}, **dns(SERVER)})
    with contextlib.closing(Terminal(directory, "top", columns=60, rows=50)) as terminal:

        def search(text: str) -> list[str]:
            terminal.press("\x1b")
            time.sleep(0.5)  # a key that is several bytes begins with Esc, too
            terminal.press(f"/{text}\r")
            lines: list[str] = until(lambda: (s := plain(terminal.wait_screens(1)).splitlines())[-1] == f"/{text}" and s, "the filter")
            return [line for line in lines[2:-1] if line.strip()]

        terminal.wait_screens(1)
        users = search("java")
        limits = [i for i, line in enumerate(users) if line.startswith("  fil")]
        assert [users[i].split()[0] for i in limits] == ["files/process", "filesystem/root/bytes"], users
        assert len(users) == 8 and all("java" in users[i + 1] for i in limits), users
        rows = search("etcd")
        assert rows[0].startswith("Storage") and "syncs/s" in " ".join(rows) and "etcd (host)" in rows[-1], rows
        assert not any("cart" in line for line in rows), rows
        found = " ".join(search("files/process"))
        assert "1003/1024" in found and "pod shop/crawler-7 69 %" in found, found
        assert search("no such text") == ['nothing has "no such text"']
