# SPDX-License-Identifier: Apache-2.0
"""The record of incidents: what is in a file, when one is written, and that none is lost."""

import json
import os
import re
import time
from pathlib import Path

import pytest
from conftest import Run, fill_disk, small_disk, until
from incidentlab import FLOODER, USER, flood_of_files, full_inotify
from terminal import Terminal, picture, plain

CONFIG = "profile: minimal\nneighbor: {mode: observe}\nthp: {mode: observe}\n"
OBJECT = "inotify/instances"


def files(directory: Path, like: str = "*") -> list[Path]:
    return sorted((directory / "state/incidents").glob(f"2{like}.jsonl*"))


def written(directory: Path) -> set[Path]:
    """The records of starts that are being written."""
    return {path for path in files(directory, "*-agent") if path.suffix == ".part"}


def lines_of(path: Path) -> list[dict]:
    """The lines of a file; a torn last one is left out."""
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]]


def test_one_file_alone_says_when_which_limit_who_and_what_to_type(agent, directory: Path, run: Run) -> None:
    """PICTURES=DIRECTORY keeps a picture: packaging/incident.svg."""
    one = agent(CONFIG)
    until(lambda: files(directory, "*-agent"), "the record of the start")
    with full_inotify():
        path = until(lambda: (found := files(directory, "*inotify-instances-uid-*")) and found[0], "an incident")
        until(lambda: len(lines_of(path)) > 8, "it is appended to")
        if "PICTURES" in os.environ:
            until(lambda: any(line.get("finding", {}).get("who_known") for line in lines_of(path)), "the user is named")
        assert one.stop() == 0
    path = path.with_suffix("")
    first, *lines = lines_of(path)
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", first["at"])
    assert first["object"].startswith(f"{OBJECT}@uid:")
    assert first["limit"]["name"] == OBJECT and first["limit"]["used"] >= first["limit"]["max"] - 1
    assert "sysctl" in first["now"] and "EMFILE" in first["breaks"] and OBJECT in first["text"] and first["node"] and first["boot"]
    assert [f"uid {USER}", first["limit"]["used"]] in first["top"]
    assert [line for line in lines if OBJECT in line.get("rows", {})], "its readings are there"
    assert lines[-1]["end"] == "stopped" and f"uid {USER}" in lines[-1]["text"]
    assert json.loads(run("incidents", path.stem, "--json").stdout)["incident"] == first
    assert path.stem in run("incidents").stdout
    assert run("incidents", "20260101T000000Z-none").returncode == 1
    text = Terminal(directory, "incidents", path.stem, columns=110).finish()
    shown = plain(text)
    for heading in ("Limits", "Largest users", "Timeline", "What breaks", "What to type"):
        assert f"\n{heading}" in shown, shown
    assert "█" in shown and f"uid {USER}" in shown and first["now"] in shown
    if "PICTURES" in os.environ:
        hidden = re.sub(r"/tmp/headroom-[^/]*/", "/run/", text)
        (Path(os.environ["PICTURES"]) / "incident.svg").write_text(picture(hidden, "headroom incidents ID"))


def test_the_page_and_http_list_incidents(agent, directory: Path) -> None:
    (directory / "state/incidents").mkdir(parents=True)
    os.mkfifo(directory / "state/incidents/20260101T000000Z-pids.jsonl")  # no file, and nobody writes to it
    one = agent(CONFIG)
    path = until(lambda: (found := files(directory, "*-agent*")) and found[0], "the record of the start")
    ident = path.name.split(".")[0]
    listed = until(lambda: (rows := json.loads(one.get("/v1/incidents", unix=False)[1])["incidents"]) and rows, "a list")
    assert [row["id"] for row in listed] == [ident] and "for the first time" in listed[0]["text"]
    document = json.loads(one.get(f"/v1/incidents/{ident}", unix=False)[1])
    assert document["incident"]["id"] == ident and document["state"] == "open"
    until(lambda: ident in one.get("/", unix=False)[1], "it is on the page")
    assert [row["id"] for row in one.status()["incidents"]] == [ident]
    for wrong in ("x", "../journal", "%2e%2e/journal"):
        assert one.get(f"/v1/incidents/{wrong}", unix=False)[0] == 404
    assert one.get("/v1/incidents", unix=False, method="POST")[0] == 405


def test_the_list_is_read_again_only_if_incidents_have_changed(agent, directory: Path) -> None:
    place = directory / "state/incidents"
    place.mkdir(parents=True)
    line = {"schema": 1, "at": "2026-01-01T00:00:00Z", "object": "pids", "trigger": "hits", "text": "x" * 20000}
    for n in range(200):
        ident = f"20260101T{n:06}Z-pids"
        (place / f"{ident}.jsonl").write_text(json.dumps({**line, "id": ident}) + '\n{"t": 9, "end": "quiet"}\n')
    one = agent(CONFIG)
    until(lambda: files(directory, "*-agent*"), "the record of the start")

    def read() -> set[str]:
        return {row["id"] for row in json.loads(one.get("/v1/incidents")[1])["incidents"]}

    def bytes_read() -> int:
        return int(re.search(r"rchar: (\d+)", Path(f"/proc/{one.pid}/io").read_text())[1])  # type: ignore[index]

    assert len(read()) == 201
    before = bytes_read()
    for _ in range(20):
        assert len(read()) == 201
    whole = 200 * 20000
    # An open incident changes every few seconds.
    assert bytes_read() - before < 10 * whole, "of 20 lists"
    (place / "20260101T000007Z-pids.jsonl").unlink()
    assert "20260101T000007Z-pids" not in read()
    (place / "20260101T000008Z-pids.jsonl").write_text(json.dumps({**line, "id": "20260101T000008Z-pids", "text": "new"}) + "\n")
    assert '"text":"new"' in one.get("/v1/incidents")[1]


@pytest.mark.slow
def test_a_start_tells_a_stop_from_a_kill_and_a_reboot(agent, directory: Path) -> None:
    """The mark has the boot id: another one there is a reboot."""
    for how in ("for the first time", "after a stop", "killed or crashed", "without a shutdown", "after a reboot"):
        mark = directory / "state/incidents/agent.json"
        if how in ("without a shutdown", "after a reboot"):
            mark.write_text(json.dumps({**json.loads(mark.read_text()), "boot": how}))
        seen = set(files(directory))
        one = agent(CONFIG)
        path = until(lambda seen=seen: (written(directory) - seen or {None}).pop(), f"a start {how}")
        assert how in lines_of(path)[0]["text"]
        time.sleep(1)  # ids have whole seconds
        one.stop() if how in ("for the first time", "without a shutdown") else one.kill()


@pytest.mark.slow
def test_an_observing_agent_records_and_a_reload_to_enforce_adds_nothing(agent, directory: Path, run: Run) -> None:
    """Beside incidents it writes nothing: test_observe.py."""
    with full_inotify():
        one = agent("mode: observe\n" + CONFIG)
        record = one.wait_incident(f"inotify/instances@uid:{USER}")
        assert f"inotify/instances: uid {USER}" in record["text"], record
        before = files(directory)
        time.sleep(1.1)  # ids have whole seconds
        one.write_config(CONFIG)
        one.reload()
        time.sleep(3)
        assert files(directory) == before
        assert json.loads(run("incidents", "--json").stdout)["incidents"]


def test_one_who_provokes_twenty_does_not_mute_the_incident_of_another(agent, directory: Path) -> None:
    (directory / "state/incidents").mkdir(parents=True)
    provoked = {"causes": {f"uid {FLOODER}": {OBJECT: 20}}}
    days = (time.strftime("%Y-%m-%d", time.gmtime(time.time() + seconds)) for seconds in (0, 600))
    (directory / "state/incidents/counts.json").write_text(json.dumps({day: provoked for day in days}))
    with full_inotify():
        agent("mode: observe\n" + CONFIG).wait_incident(f"{OBJECT}@uid:{USER}")


def test_a_flood_of_units_and_objects_of_one_user_keeps_no_other_out(agent, directory: Path) -> None:
    one = agent("mode: observe\n" + CONFIG)
    until(lambda: files(directory, "*-agent*"), "the record of the start")
    with flood_of_files(20):
        until(lambda: len(files(directory, "*files-process*")) >= 7, "the flood is recorded")
        causes = {lines_of(path)[0]["cause"] for path in files(directory, "*files-process*")}
        assert causes == {f"uid {FLOODER}"}, "its names and sessions are one cause"
        with full_inotify():
            one.wait_incident(f"{OBJECT}@uid:{USER}")
            path = files(directory, "*inotify-instances-uid-*")[0]
            until(lambda: len(lines_of(path)) > 8, "it is recorded on")
            assert path.suffix == ".part" and lines_of(path)[1]["t"] < 0, "with the time before"


def test_one_of_two_agents_records(agent, directory: Path) -> None:
    """A second one would close what the first has open."""
    one = agent(CONFIG)
    path = until(lambda: (written(directory) or {None}).pop(), "the start of the first")
    two = agent("mode: observe\nhttp: {listen: \"\", socket: \"\"}\n" + CONFIG, name="second")
    time.sleep(3)
    assert written(directory) == {path}
    one.stop()
    until(lambda: written(directory) != {path}, "the second records now", timeout=30)
    assert two.process.poll() is None


def test_nothing_is_recorded_below_5_percent_of_free_disk(agent, directory: Path, run: Run) -> None:
    with small_disk(directory / "state", "4m") as state:
        (state / "incidents").mkdir()
        filler = fill_disk(state)
        filler.open("r+").truncate(filler.stat().st_size - 64 * 1024)
        agent(CONFIG)
        until(lambda: json.loads(run("incidents", "--json").stdout)["not_recorded"], "it is counted")
        assert "5 % of the disk" in run("incidents").stdout and files(directory) == []


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [3, 100])
def test_kills_while_an_incident_is_written_lose_at_most_the_last_second(agent, directory: Path, rounds: int) -> None:
    for _ in range(rounds):
        (directory / "state/incidents/counts.json").unlink(missing_ok=True)  # more than twenty a day
        one = agent(CONFIG)
        path = until(lambda: (found := sorted(written(directory))) and found[-1], "the record of the start")
        until(lambda path=path: len(path.read_text().splitlines()) > 6, "some seconds")
        one.kill()
        before = path.read_text()
        one = agent(CONFIG)
        until(lambda path=path: path.with_suffix("").exists(), "it is closed")
        one.kill()
        after = path.with_suffix("").read_text()
        assert after.startswith(before[: before.rindex("\n") + 1]) and "cut-short" in after.splitlines()[-1]
    assert all(lines_of(path) for path in files(directory)), "every file is readable"
