# SPDX-License-Identifier: Apache-2.0
"""The status page in a browser: narrow and wide, light and dark; its anchors, its history and events.

PICTURES=DIRECTORY keeps pictures. packaging/page.png is the page of a node of tests/e2e while a pod fills the neighbour table.
"""

import os
import re
import struct
import zlib
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest
import storm
from browser import Browser
from conftest import Agent, Start, set_thresholds, thresholds, until
from dnslab import V4, Lab, fixture_lab, fixture_network  # noqa: F401
from storm import space  # noqa: F401

SERVER, IDLE = V4.format(53), V4.format(54)


@pytest.fixture(name="browser")
def fixture_browser(directory: Path) -> Iterator[Browser]:
    made = Browser(directory)
    yield made
    made.close()


# Faults as [kind, text]: an element wider than the screen, a message in a narrow column, an empty column, text with
# low contrast.
FAULTS = """
const faults = [], width = window.innerWidth;
const shown = e => e.getClientRects().length > 0;
if (document.documentElement.scrollWidth > width) faults.push(["wider than the screen", "page"]);
for (const cell of document.querySelectorAll("td, th, li, p, h1, h3, dd")) {
    const box = cell.getBoundingClientRect();
    if (shown(cell) && box.right > width + 1) faults.push(["beyond the screen", cell.textContent]);
    if (shown(cell) && cell.innerText.length > 60 && box.width < 200) faults.push(["narrow", cell.textContent]);
}
for (const box of document.querySelectorAll(".wide"))
    if (box.scrollWidth > box.clientWidth + 1) faults.push(["wider than its box", box.textContent.slice(0, 80)]);
for (const table of document.querySelectorAll("table")) {
    const rows = [...table.tBodies[0].rows].filter(row => row.cells.length > 1); // not the lines below a row
    table.querySelectorAll("thead th").forEach((head, i) => {
        if (rows.every(row => !row.cells[i].textContent && !row.cells[i].querySelector("svg")))
            faults.push(["blank column", head.textContent]);
    });
}
const light = text => {
    const [r, g, b] = text.match(/[0-9.]+/g).map(Number).map(v => v / 255)
        .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const behind = e => {
    const color = getComputedStyle(e).backgroundColor;
    return color == "rgba(0, 0, 0, 0)" && e.parentElement ? behind(e.parentElement) : color;
};
for (const e of document.querySelectorAll("td, th, dt, dd, a, b, code, small, .badge, span, time")) {
    const a = light(getComputedStyle(e).color), b = light(behind(e));
    if (shown(e) && e.textContent && (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4.5)
        faults.push(["low contrast", e.textContent]);
}
return faults;
"""


# The end of the first problem's message.
FIRST_PROBLEM = "return document.querySelector('main .finding p').getBoundingClientRect().bottom"

# Times and arrows on more than one line.
BROKEN = """
const broken = [...document.querySelectorAll("time, .ago")].filter(e => e.getClientRects().length > 1);
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), range = document.createRange();
for (let text; text = texts.nextNode();)
    for (const arrow of text.data.matchAll(/-\u2060?>/g)) {
        range.setStart(text, arrow.index);
        range.setEnd(text, arrow.index + arrow[0].length);
        if (new Set([...range.getClientRects()].map(box => box.top)).size > 1) broken.push(text);
    }
return broken.map(e => e.textContent);
"""


@pytest.fixture(name="busy")
def fixture_busy(lab: Lab, agent: Start, space: Callable[..., storm.Space]) -> Agent:  # noqa: F811
    """An agent with neighbours, a busy and an idle resolver, and a threshold that drifted."""
    lab.server(SERVER, IDLE)
    qps = 40 if "PICTURES" in os.environ else 200  # a picture shows a problem
    one = agent(f'dns: {{cluster_servers: [], budgets: [{{server: "{SERVER}", qps: {qps}}}]}}\nruntime: {{mode: off}}\n')
    until(lambda: one.status()["dns"], "the programs are loaded")
    storm.fill(space(pod=True), 5000)
    until(lambda: one.limit("neighbor/ipv4")["used"] >= 5000, "the neighbours are counted")
    lab.udp().ask(SERVER, count=50)
    set_thresholds("ipv4", (128, 512, 60000))
    until(lambda: thresholds("ipv4")[2] >= 100000, "set again")
    until(lambda: any(e["text"].startswith("net.ipv4") for e in one.status()["events"]), "the event")
    return one


@pytest.mark.parametrize(
    ("width", "dark"),
    [
        (400, False),
        (1400, True),
        *(pytest.param(*shape, marks=pytest.mark.slow) for shape in ((400, True), (1400, False), (2560, False), (2560, True))),
    ],
)
def test_everything_is_readable(busy: Agent, browser: Browser, width: int, dark: bool) -> None:
    if width < 640:
        busy.write_config("neighbour: {}\n")
        busy.wait_condition("ConfigInvalid")
        until(lambda: "ConfigInvalid" in busy.get("/?paused")[1], "the page has it")
    browser.shape(width, 900, dark)
    browser.open(f"http://127.0.0.1:{busy.port}/?paused")
    if "PICTURES" in os.environ:
        browser.picture(Path(os.environ["PICTURES"]) / f"page-{width}-{'dark' if dark else 'light'}.png")
    assert browser.run(FAULTS) == []
    assert browser.run('return performance.getEntriesByType("resource").map(e => e.name)') == []
    if width < 640:  # a problem is on the first screen of a phone
        assert 0 < browser.run(FIRST_PROBLEM) < 850
    browser.run('document.styleSheets[0].insertRule(".help, .fold { display: block !important }")')
    assert browser.run(FAULTS) == []
    assert browser.run(BROKEN) == []


@pytest.mark.apart
def test_bars_and_lines_have_a_contrast_of_3_in_both_schemes(agent: Start) -> None:
    style = agent("mode: observe\n").get("/")[1].split("<style>")[1]
    names = dict(re.findall(r"--([a-z-]+):(#[0-9a-f]+)", style.split("@media")[0]))
    dark = names | dict(re.findall(r"--([a-z-]+):(#[0-9a-f]+)", style.split("@media")[1].split("}}")[0]))
    for scheme in (names, dark):
        for bar in ("ok-bar", "warning-bar", "critical-bar", "dim"):
            for behind in ("track", "card"):
                assert contrast(scheme[bar], scheme[behind]) >= 3, (bar, behind, scheme)


def contrast(*colours: str) -> float:
    """The ratio of WCAG 2.1."""
    lights = []
    for colour in colours:
        digits = colour[1:] if len(colour) == 7 else "".join(c + c for c in colour[1:])
        parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
        r, g, b = (v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in parts)
        lights.append(0.2126 * r + 0.7152 * g + 0.0722 * b)
    return (max(lights) + 0.05) / (min(lights) + 0.05)


def test_an_open_explanation_pauses_the_page_without_a_script(busy: Agent, browser: Browser) -> None:
    browser.shape(1400, 900, False)
    browser.open(f"http://127.0.0.1:{busy.port}/")
    shown = "return [...document.querySelectorAll('.help')].filter(e => e.getClientRects().length).map(e => e.id)"
    renews = "return document.querySelectorAll('meta[http-equiv=refresh]').length"
    assert browser.run("return document.querySelectorAll('script').length") == 0
    assert (browser.run(renews), browser.run(shown)) == (1, [])
    browser.run("document.querySelector('a[href$=\"#conditions\"]').click()")
    until(lambda: browser.run(renews) == 0, "paused")
    name = "conditions/SandboxImageMissing"  # in the list that was closed
    browser.run(f"document.querySelector('a[href$=\"#{name}\"]').click()")
    assert browser.run(shown) == [name]
    browser.run(f"document.getElementById('{name}').querySelector('a').click()")
    assert browser.run(shown) == []
    browser.run("document.querySelector('a[href=\"/\"]').click()")
    until(lambda: browser.run(renews) == 1, "renewed again")
    browser.run("document.querySelector('a[href=\"/?paused\"]').click()")
    until(lambda: browser.run(renews) == 0, "paused")


# The name and the target of each link, targets that the page lacks, and ids that are there twice.
LINKS = """
const links = [...document.querySelectorAll("a")].map(a => [a.ariaLabel || a.textContent, a.getAttribute("href")]);
const ids = [...document.querySelectorAll("[id]")].map(e => e.id);
return [links, links.map(l => l[1].split("#")[1]).filter(id => id && id != "-" && !ids.includes(id)),
        ids.filter((id, i) => ids.indexOf(id) != i)];
"""
OPEN = """
const box = document.getElementById("%s").getBoundingClientRect();
return box.height > 0 && box.top >= 0 && box.top < window.innerHeight;
"""


def test_each_limit_condition_and_setting_has_an_anchor_that_shows_it(busy: Agent, browser: Browser) -> None:
    browser.shape(1400, 900, False)
    url = f"http://127.0.0.1:{busy.port}/"
    status = busy.status()
    browser.open(url)
    links, lost, doubled = browser.run(LINKS)
    assert (lost, doubled) == ([], [])
    assert len({name.strip() for name, _ in links}) == len(links), "two links have the same name"
    assert all(name.strip() for name, _ in links)
    wanted = [f"{kind}/{row[key]}" for kind, key in (("limits", "name"), ("conditions", "type"), ("settings", "name")) for row in status[kind]]
    assert len(wanted) > 30
    assert browser.run(f"return {wanted}.filter(id => !document.getElementById(id))") == []
    small = min(status["limits"], key=lambda limit: limit["used"] / (limit["max"] or 1))["name"]
    synced = next(row["name"] for row in status["settings"] if row["state"] == "in-sync")
    for anchor in (f"limits/{small}", "limits/neighbor/ipv4", "conditions/PullStuck", f"settings/{synced}"):
        browser.open("about:blank")
        browser.open(f"{url}#{anchor}")
        assert browser.run(OPEN % anchor), anchor


def test_limits_below_5_percent_are_one_line(busy: Agent, browser: Browser) -> None:
    browser.shape(1400, 900, False)

    def rows() -> list[tuple[str, bool]]:
        browser.open(f"http://127.0.0.1:{busy.port}/?paused")
        return browser.run("""
            return [...document.querySelectorAll(".limits tbody th")].map(e => [e.textContent, e.getClientRects().length > 0])
        """)

    def wrong() -> list[str]:
        """A limit may change between the page and the status."""
        limits = {limit["name"]: limit for limit in busy.status()["limits"]}
        shares = {name: limit["used"] / (limit["max"] or 1) for name, limit in limits.items()}
        return [
            name for name, shown in rows()
            if name in shares and not 0.04 < shares[name] < 0.06 and shown != (shares[name] >= 0.05 or limits[name]["severity"] != "ok")
        ]  # fmt: skip

    until(lambda: wrong() == [], "the page and the status agree")
    limits = rows()
    folded = sum(not shown for _, shown in limits)
    assert folded > 5
    browser.run("document.querySelector('a[href$=\"#other-limits\"]').click()")
    assert browser.run("return document.querySelector('#other-limits th').getClientRects().length") == 1
    assert f"{folded} limits below 5 %" in browser.run("return document.body.innerText")


@pytest.mark.apart
def test_title_and_icon_show_the_verdict(agent: Start) -> None:
    one = agent("mode: observe\nlimits: {mode: off}\nruntime: {mode: off}\nkubelet: {mode: off}\nthp: {mode: off}\n")
    seen = {}
    for config, condition in (("mode: observe\n", None), ("mode: nothing\n", "ConfigInvalid")):
        if condition:
            one.write_config(config)
            one.wait_condition(condition)
        page = until(lambda: (text := one.get("/")[1]) and (not condition or condition in text) and text, "the page")
        verdict = one.status()["node"]["verdict"]
        title = re.search(r"<title>[^<]*: ([^<]*) - Headroom</title>", page)
        icon = re.search(r"fill='%23(\w+)'", page)
        assert title and icon and verdict in title[1], (title, verdict)
        if verdict != "ok":
            assert re.match(r"\d+ \w+", title[1])
        seen[verdict] = icon[1]
    assert len(set(seen.values())) == len(seen) == 2, seen


@pytest.mark.apart
def test_problems_link_to_the_documents_of_this_version(agent: Start) -> None:
    one = agent("mode: observe\n")
    version = one.status()["node"]["version"]
    page = one.get("/")[1]
    assert f"Documents of {version}: headroom(8)" in page and "://" not in re.sub("xmlns='[^']*'", "", page.split("</head>")[1])
    at = 'http: {documents: "https://git.example.com/headroom/blob/v1", listen: "127.0.0.1:PORT"}\n'.replace("PORT", str(one.port))
    one.write_config("mode: observe\n" + at)
    until(lambda: "blob/v1/README.md" in one.get("/")[1], "the footer has links")
    one.write_config("nothing: {}\n" + at)
    one.wait_condition("ConfigInvalid")
    link = '<a href="https://git.example.com/headroom/blob/v1/deploy/TROUBLESHOOTING.md#configinvalid">ConfigInvalid</a>'
    until(lambda: one.get("/?paused")[1].count(link) == 1, "the card links to its condition")


@pytest.mark.apart
def test_the_last_hour_survives_a_restart(agent: Start) -> None:
    one = agent("mode: observe\n")
    until(lambda: len(one.status()["limits"]) > 5, "limits")
    name = next(limit["name"] for limit in one.status()["limits"] if limit["used"] > 3)
    before = one.limit(name)["history"]
    assert any(before)
    one.stop()
    path = one.directory / "run" / "history"
    data = path.read_bytes()
    at = data.index(name.encode() + b"\0")
    minute = struct.unpack_from("=Q", data, at + 64)[0]
    # A value of half an hour ago, as an agent that ran then has kept it.
    slot = at + 72 + 8 * ((minute - 30) % 60)
    data = data[:slot] + struct.pack("=Q", 4243) + data[slot + 8 :]
    # The header is the boot, a checksum of the rest, and the size of an element.
    path.write_bytes(data[:124] + struct.pack("=I", zlib.crc32(data[136:])) + data[128:])
    one = agent("mode: observe\n")
    until(lambda: any(limit["name"] == name for limit in one.status()["limits"]), "limits")
    after = one.limit(name)["history"]
    assert 4242 in after[27:31], after
    page = one.get("/")[1]
    row = page[page.index(f'limits/{name}">') :].split("</tr>")[0].replace("\u202f", "")
    clock = r"\d\d:\d\d"
    assert re.search(rf"<title>the last hour, {clock} to {clock} UTC, on a scale from 0 to [^:]+: at most 4242 at {clock}, last \d+</title>", row), row
    assert re.search(rf"<small>4242 at {clock}</small>", row), row


def test_the_last_hour_and_the_last_events_are_shown(busy: Agent) -> None:
    status: dict[str, Any] = busy.status()
    limit = next(one for one in status["limits"] if one["name"] == "neighbor/ipv4")
    assert len(limit["history"]) == 60 and limit["history"][:58] == [None] * 58
    assert 5000 <= limit["history"][-1] <= limit["peak"]
    assert len(status["events"]) <= 40
    assert [e["time"] for e in status["events"]] == sorted((e["time"] for e in status["events"]), reverse=True)
    code, page = busy.get("/?paused", unix=False)
    assert code == 200 and len(page) < 200000
    assert re.search(r'"badge \w+">\w+</span></td><td[^>]*>net\.ipv4\.neigh\.default\.gc_thresh3', page)
    assert page.count("<polyline") >= 3
    servers = {row["server"]: row for row in status["dns"]["servers"]}
    assert max(v for v in servers[SERVER]["history"] if v is not None) >= 50
    assert SERVER in page
