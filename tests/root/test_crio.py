# SPDX-License-Identifier: Apache-2.0
"""CRI-O: what the agent finds, pulls and writes there. tests/tool/crio builds it, by hand."""

import json
import signal
import subprocess
from pathlib import Path
from typing import Callable, Iterator

import criwire
import pytest
from conftest import ASAN, BIN, Agent, Run, environment, killed_at_each_change, until
from imagelab import Image
from runtimelab import Daemon, Lab, lab, own_lab, tool, watcher  # noqa: F401
from test_field import FIELD, ROWS
from test_runtime import Watcher, found, wait_reason, wait_setting
from test_runtime_mirrors import mirrors

pytestmark = pytest.mark.crio

SOCKET = "run/crio/crio.sock"
MIRROR = "crio.mirrors.docker.io"
RELOADED = "Applied new registry configuration"

CONFIG = """\
[crio]
storage_driver = "vfs"
[crio.image]
signature_policy = "/etc/crio/policy.json"
pause_image = "registry.example/pause:3.6"
pinned_images = ["*kept*"]
[crio.runtime]
default_runtime = "runc"
pinns_path = "/bin/true"
[crio.runtime.runtimes.runc]
runtime_path = "/usr/sbin/runc"
"""

# Registries of the tests have no TLS.
INSECURE = '[[registry]]\nlocation = "{}"\ninsecure = true\n'


def start_crio(lab: Lab) -> Daemon:
    lab.write("etc/crio/crio.conf", CONFIG)
    lab.write("etc/crio/policy.json", '{"default": [{"type": "insecureAcceptAnything"}]}\n')
    path = lab.directory / SOCKET
    lab.daemons["crio"] = Daemon(lab, "crio", [str(tool("crio", "--built") / "crio")], lambda: lab.connects(path))
    return lab.daemons["crio"].start()


@pytest.fixture
def crio(lab: Lab) -> Daemon:
    return start_crio(lab)


def pull(lab: Lab, name: str) -> None:
    criwire.pull(lab.directory / SOCKET, name)


def test_crio_is_found_and_what_it_cannot_do_is_unsupported(lab: Lab, crio: Daemon, watcher: Watcher) -> None:
    running = watcher("mirrors: [{url: 'http://127.0.0.1:1'}]")
    until(lambda: found(running, "crio").get("store"), f"the store is known\n{running.log}")
    document = found(running, "crio")
    assert (document["kind"], document["version"], document["state"]) == ("crio", "1.34.0", "answers")
    assert document["unit"] == "crio.service" and document["config"] == "/etc/crio/crio.conf"
    assert document["store"]["directory"].startswith("/var/lib/containers/storage")
    wait_reason(running, "crio.max_concurrent_downloads", "runtime-unsupported")
    assert running.setting("crio.max_concurrent_downloads")["state"] == "unsupported"
    assert any("CRI-O cannot be told" in why for why in found(running, "crio")["refusals"])
    assert running.metrics()['headroom_runtime_info{runtime="crio",version="1.34.0"}'] == 1


def test_crio_lists_and_pulls_images(lab: Lab, crio: Daemon, agent: Callable[..., Agent]) -> None:
    registry = lab.registry()
    for name in ("here", "kept", "pulled"):
        registry.push(name, Image(1, 1000))
    here, kept, pulled = (f"{registry.name}/{name}:latest" for name in ("here", "kept", "pulled"))
    lab.write("etc/containers/registries.conf.d/test.conf", INSECURE.format(registry.name))
    crio.stop()
    crio.start()
    pull(lab, here)
    pull(lab, kept)
    running = agent(f"mode: observe\nimages: {{mode: enforce, pin: ['{here}', '{kept}', sandbox], pull: ['{here}', '{pulled}']}}\n", wrap=lab.wrap)
    rows = lambda: {row["name"]: row["state"] for row in running.status()["images"]}  # noqa: E731
    until(lambda: rows() == {here: "ready", pulled: "ready"}, lambda: f"pulled: {rows()}\n{running.log}")
    assert running.log.count("pulled") >= 1
    wait_setting(running, f"pin.{here}", "failed")
    assert "/etc/crio/crio.conf has a list pinned_images" in running.condition("SettingFailed")["message"]
    wait_setting(running, f"pin.{kept}", "in-sync")
    assert running.setting("pin.registry.example/pause:3.6")["reason"] == "image-missing"


def test_pins_are_set_without_a_restart_and_restored(lab: Lab, crio: Daemon, agent: Callable[..., Agent], run: Run) -> None:
    registry = lab.registry()
    names = [f"{registry.name}/{name}:latest" for name in ("one", "two")]
    for name in ("one", "two"):
        registry.push(name, Image(1, 1000))
    lab.write("etc/containers/registries.conf.d/test.conf", INSECURE.format(registry.name))
    lab.write("etc/crio/crio.conf", CONFIG.replace('pinned_images = ["*kept*"]\n', ""))
    file = lab.write("etc/crio/crio.conf.d/headroom-pins.conf", "")
    file.unlink()
    crio.stop()
    crio.start()
    for name in names:
        pull(lab, name)
    running = agent(f"mode: observe\nimages: {{mode: enforce, pin: {names}}}\n", wrap=lab.wrap)
    for name in names:
        wait_setting(running, f"pin.{name}", "in-sync")
    assert [line.strip() for line in file.read_text().splitlines()[3:-1]] == [f'"{name}",' for name in names]
    running.write_config(f"mode: observe\nimages: {{mode: enforce, pin: ['{names[1]}']}}\n")
    until(lambda: names[0] not in file.read_text(), f"an image of an older configuration is not pinned\n{running.log}")
    assert running.setting(f"pin.{names[1]}")["state"] == "in-sync"
    running.stop()
    assert run("restore", wrap=lab.wrap).returncode == 0
    assert not file.exists()


@pytest.fixture
def pins(lab: Lab, crio: Daemon) -> tuple[Path, list[str]]:
    """The file of pins, in a directory without files, and two images that are not pinned."""
    registry = lab.registry()
    lab.write("etc/containers/registries.conf.d/test.conf", INSECURE.format(registry.name))
    lab.write("etc/crio/crio.conf", CONFIG.replace('pinned_images = ["*kept*"]\n', ""))
    file = lab.write("etc/crio/crio.conf.d/headroom-pins.conf", "")
    file.unlink()
    crio.stop()
    crio.start()
    for name in ("one", "two"):
        registry.push(name, Image(1, 1000))
        pull(lab, f"{registry.name}/{name}:latest")
    return file, [f"{registry.name}/{name}:latest" for name in ("one", "two")]


def write_pins(directory: Path, names: list[str]) -> str:
    path = directory / "pins.yaml"
    path.write_text(f'mode: observe\nhttp: {{listen: ""}}\nimages: {{mode: enforce, pin: {names}}}\n')
    return str(path)


@pytest.mark.skipif(ASAN, reason="the leak sanitizer does not work under strace")
def test_restore_leaves_nothing_of_pins_after_a_kill_at_any_change(
    lab: Lab, pins: tuple[Path, list[str]], directory: Path, run: Run
) -> None:
    file, names = pins
    config = write_pins(directory, names[:1])
    written = 0

    def apply(prefix: tuple[str, ...]) -> int:
        return subprocess.run([*lab.wrap, *prefix, BIN, "apply", "--config", config], env=environment(directory), capture_output=True).returncode

    for moment in killed_at_each_change(apply):
        written += file.exists()
        restored = run("restore", wrap=lab.wrap)
        assert restored.returncode == 0, (moment, restored)
        assert list(file.parent.iterdir()) == [], moment
    assert written > 1, "some kills came after the write"


def test_pins_of_others_stay(lab: Lab, pins: tuple[Path, list[str]], directory: Path, run: Run) -> None:
    file, names = pins
    file.write_text("[crio.runtime]\nlog_level = \"info\"\n")
    theirs = file.read_text()
    one = write_pins(directory, names[:1])
    refused = run("apply", "--config", one, wrap=lab.wrap)
    assert refused.returncode == 1 and "changed by others" in refused.stdout + refused.stderr, refused
    assert run("restore", wrap=lab.wrap).returncode == 0, "it has no pin of ours"
    assert file.read_text() == theirs
    file.unlink()

    assert run("apply", "--config", one, wrap=lab.wrap).returncode == 0
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join([*lines[:-1], '\t"registry.example/theirs:1",\n', lines[-1]]))
    assert run("apply", "--config", write_pins(directory, names), wrap=lab.wrap).returncode == 0
    assert names[1] in file.read_text() and "theirs" in file.read_text()
    assert run("restore", wrap=lab.wrap).returncode == 0
    assert '"registry.example/theirs:1"' in file.read_text() and names[0] not in file.read_text()
    file.unlink()

    assert run("apply", "--config", write_pins(directory, names[:1]), wrap=lab.wrap).returncode == 0
    file.write_text(changed := file.read_text() + theirs)
    for command in (("apply", "--config", write_pins(directory, names)), ("restore",)):
        refused = run(*command, wrap=lab.wrap)
        assert refused.returncode == 1 and "changed by others" in refused.stdout + refused.stderr, refused
        assert file.read_text() == changed
    file.unlink()
    assert run("restore", wrap=lab.wrap).returncode == 0


@pytest.mark.slow
def test_a_mirror_serves_pulls_and_is_restored(lab: Lab, crio: Daemon, watcher: Watcher, run: Run) -> None:
    registry = lab.registry()
    for name in ("one", "two"):
        registry.push(f"team/{name}", Image(1, 1000))
    foreign = lab.write("etc/containers/registries.conf.d/other.conf", '[[registry]]\nlocation = "quay.io"\n')
    url = f"http://{registry.name}"
    file = lab.root / "etc/containers/registries.conf.d/headroom-docker.io.conf"
    running = watcher(mirrors(("docker.io", url), ("quay.io", url), ("_default", url)))
    until(file.exists, f"{file}\n{running.log}")
    assert f'location = "{registry.name}"' in file.read_text()
    wait_setting(running, MIRROR, "in-sync")
    assert running.setting(MIRROR)["wanted"] == url
    pull(lab, "docker.io/team/one:latest")

    wait_reason(running, "crio.mirrors.quay.io", "file-of-others")
    wait_setting(running, "crio.mirrors._default", "failed")

    registry.stop()
    until(lambda: not file.exists(), f"a dead mirror is removed\n{running.log}")
    registry.start()
    until(file.exists, f"it is back\n{running.log}")
    running.stop()

    reloads = crio.log.count(RELOADED)
    assert run("restore", wrap=lab.wrap).returncode == 0
    until(lambda: crio.log.count(RELOADED) > reloads, "CRI-O has read its files again")
    assert sorted(path.name for path in foreign.parent.iterdir()) == ["other.conf"]


DROP_INS = {"crio": "/etc/crio/crio.conf.d/10-field.conf", "registries": "/etc/containers/registries.conf.d/field.conf"}
OF_CRIO = [row for row in ROWS if row[1] in DROP_INS]


@pytest.fixture(scope="module")
def running_crio() -> Iterator[Lab]:
    with own_lab() as lab:
        start_crio(lab)
        yield lab


def takes(lab: Lab) -> bool:
    """Whether another CRI-O starts with these files."""
    socket = lab.directory / "run/tried/crio.sock"
    socket.unlink(missing_ok=True)
    tried = Daemon(lab, "tried", [str(tool("crio", "--built") / "crio"), "--listen", "/run/tried/crio.sock"], lambda: True)
    tried.launch()
    until(lambda: tried.process.poll() is not None or lab.connects(socket), "CRI-O ends or listens", 0.05)
    started = tried.process.poll() is None
    tried.stop()
    return started


@pytest.mark.parametrize("name, kind, verdict", OF_CRIO, ids=[row[0] for row in OF_CRIO])
def test_a_file_of_another_tool_gets_its_verdict(running_crio: Lab, directory: Path, run: Run, name: str, kind: str, verdict: str) -> None:
    lab, path = running_crio, DROP_INS[kind]
    text = (FIELD / "inputs" / name).read_bytes()
    file = lab.write(path[1:], "")
    file.write_bytes(text)
    ours = lab.root / "etc/containers/registries.conf.d/headroom-docker.io.conf"
    word, _, rest = verdict.partition(" ")
    registry = lab.registry()
    try:
        assert takes(lab) == (word != "broken"), "CRI-O itself"
        config = directory / "field.yaml"
        config.write_text(f"mode: observe\nhttp: {{listen: ''}}\nruntime: {{mode: enforce, {mirrors(('docker.io', f'http://{registry.name}'))}}}\n")
        status = json.loads(run("status", "--json", "--config", str(config), wrap=lab.wrap).stdout)
        bad = [f for f in status["findings"] if f["condition"] == "RuntimeWouldNotStart"]
        assert [f["instance"]["name"] for f in bad] == [path] * (word == "broken"), bad
        assert word != "broken" or rest in bad[0]["message"], bad
        done = run("apply", "--config", str(config), wrap=lab.wrap)
        assert ours.exists() == (kind == "crio" or word == "written" or (word == "broken" and b"docker.io" not in text)), done
        assert word != "left" or rest in done.stdout + done.stderr, done
        assert run("restore", wrap=lab.wrap).returncode == 0
        assert file.read_bytes() == text and not ours.exists()
    finally:
        file.unlink()


BLOCKS = ["[[registry]]\nlocation = 'docker.io'\nblocked = true\n", 'registry = [{{prefix = "docker.io/team", blocked = true, location = "docker.io/team"}}]\n']
ASKS = "[['registry']]\n'location' = \"docker.io\"\nmirror = [{{insecure = true, location = '{}'}}]\n"


@pytest.mark.parametrize("text", [*BLOCKS, ASKS], ids=["single-quotes", "inline-array", "mirror"])
def test_what_the_administrator_says_of_a_registry_stays(running_crio: Lab, directory: Path, run: Run, text: str) -> None:
    lab, theirs, ours = running_crio, running_crio.registry(), running_crio.registry()
    theirs.push("team/app", Image(1, 1000))
    file = lab.write("etc/containers/registries.conf.d/theirs.conf", text.format(theirs.name))
    crio = lab.daemons["crio"]
    reloads = crio.log.count(RELOADED)
    crio.signal(signal.SIGHUP)
    until(lambda: crio.log.count(RELOADED) > reloads, "CRI-O has read its files again")
    config = directory / "theirs.yaml"
    config.write_text(f"mode: observe\nhttp: {{listen: ''}}\nruntime: {{mode: enforce, {mirrors(('docker.io', f'http://{ours.name}'))}}}\n")
    try:
        run("apply", "--config", str(config), wrap=lab.wrap)
        if text == ASKS:
            pull(lab, "docker.io/team/app:latest")
        else:
            with pytest.raises(AssertionError, match="blocked"):
                pull(lab, "docker.io/team/app:latest")
    finally:
        file.unlink()
        assert run("restore", wrap=lab.wrap).returncode == 0


@pytest.mark.parametrize("name", [".pins", "more/10-pins.toml"])
def test_pins_in_a_file_of_any_name_stay(lab: Lab, pins: tuple[Path, list[str]], directory: Path, run: Run, name: str) -> None:
    """CRI-O reads all files below the directory, and the last list counts alone."""
    file, names = pins
    theirs = lab.write(f"etc/crio/crio.conf.d/{name}", "crio.image.pinned_images = ['registry.example/theirs:1']\n")
    refused = run("apply", "--config", write_pins(directory, names), wrap=lab.wrap)
    assert refused.returncode == 1 and name in refused.stdout + refused.stderr, refused
    assert not file.exists() and "theirs" in theirs.read_text()


def test_a_restore_through_the_agent_reloads_a_restarted_crio(lab: Lab, crio: Daemon, watcher: Watcher, run: Run) -> None:
    registry = lab.registry()
    running = watcher(mirrors(("docker.io", f"http://{registry.name}")))
    wait_setting(running, MIRROR, "in-sync")
    crio.restart()
    until(lambda: lab.connects(lab.directory / SOCKET), "CRI-O has restarted")
    until(lambda: found(running, "crio").get("state") == "answers", "the agent sees it")
    reloads = crio.log.count(RELOADED)
    assert run("restore", wrap=lab.wrap).returncode == 0
    until(lambda: crio.log.count(RELOADED) > reloads, "CRI-O has read its files again")
    assert running.setting(MIRROR)["wanted"] != "in-sync" and not (lab.root / "etc/containers/registries.conf.d/headroom-docker.io.conf").exists()
