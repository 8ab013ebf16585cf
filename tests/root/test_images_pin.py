# SPDX-License-Identifier: Apache-2.0
"""Pins: the label that protects images from garbage collection, with real runtimes."""

import random
import time
from pathlib import Path
from typing import Any

import criwire
import pytest
from conftest import SLACK, Agent, Node, Run, Start, killed, until
from imagelab import Image, Registry
from runtimelab import Lab, containerd2, lab  # noqa: F401
from test_runtime import found, wait_for, wait_setting

LABEL = "io.cri-containerd.pinned"


def section(pins: list[str], mode: str = "enforce") -> str:
    return f"mode: observe\nimages: {{mode: {mode}, pin: {pins}}}\n".replace("'", '"')


@pytest.fixture
def pinner(lab: Lab, agent: Start) -> Start:
    """pinner([IMAGE, ...]) starts an agent that only changes pins."""

    def start(pins: list[str], mode: str = "enforce", **options: Any) -> Agent:
        return agent(section(pins, mode), wrap=lab.wrap, **options)

    return start


def pulled(lab: Lab, registry: Registry, *names: str) -> list[str]:
    """Pushes small images, pulls them, and returns their names."""
    for name in names:
        registry.push(name, Image(1, 1000), "1")
        criwire.pull(lab.containerd_socket, f"{registry.name}/{name}:1")
    return [f"{registry.name}/{name}:1" for name in names]


def pinned(lab: Lab, name: str) -> bool:
    """Image.pinned of the CRI, which the kubelet reads."""
    for number, image in criwire.fields_of(criwire.call(lab.containerd_socket, f"{criwire.IMAGES}/ListImages")):
        assert isinstance(image, bytes)
        fields = criwire.fields_of(image)
        if number == 1 and (2, name.encode()) in fields:
            return (8, 1) in fields
    raise AssertionError(f"no image {name}")


def labels(lab: Lab) -> str:
    return lab.run("ctr", "-n", "k8s.io", "images", "ls")


def pin(lab: Lab, name: str) -> None:
    lab.run("ctr", "-n", "k8s.io", "images", "label", name, f"{LABEL}=pinned")
    until(lambda: pinned(lab, name), "the CRI reports the pin")


@pytest.mark.slow
def test_an_image_is_pinned_again_after_a_pull_and_restored(lab: Lab, pinner: Start, run: Run) -> None:
    lab.start("containerd2")
    registry = lab.registry()
    app, kept, other = pulled(lab, registry, "app", "kept", "other")
    pin(lab, kept)
    running = pinner([app, kept])
    setting = wait_setting(running, f"pin.{app}", "in-sync")
    assert (setting["wanted"], setting["actual"], setting["original"]) == ("pinned", "pinned", "not pinned")
    assert wait_setting(running, f"pin.{kept}", "in-sync")["original"] == "pinned"
    assert pinned(lab, app) and pinned(lab, kept) and not pinned(lab, other)
    assert running.metrics()[f'headroom_setting_in_sync{{setting="pin.{app}"}}'] == 1

    pulled(lab, registry, "app")
    until(lambda: not pinned(lab, app), "a pull drops the label")
    until(lambda: pinned(lab, app), "it is set again")
    wait_setting(running, f"pin.{app}", "in-sync")
    assert running.metrics()[f'headroom_setting_drift_total{{setting="pin.{app}"}}'] >= 1

    restored = run("restore", wrap=lab.wrap)
    assert restored.returncode == 0 and f"pin.{app}" in restored.stdout and f"pin.{kept}" not in restored.stdout
    until(lambda: not pinned(lab, app), "the agent's pin is removed")
    assert pinned(lab, kept), "the pin from before stays"
    wait_for(running, f"pin.{app}", "reason", "restored")
    running.reload()
    time.sleep(3)
    assert not pinned(lab, app), "a released tuner only observes"

    assert run("apply", wrap=lab.wrap).returncode == 0
    until(lambda: pinned(lab, app), "apply ends the release")
    running.stop()
    assert pinned(lab, app), "the pin stays without an agent"
    assert run("restore", wrap=lab.wrap).returncode == 0
    until(lambda: not pinned(lab, app), "restored without an agent")
    assert LABEL in labels(lab), "the pin from before stays"


def test_pins_follow_the_configuration(lab: Lab, pinner: Start) -> None:
    registry = lab.registry()
    images = "[plugins.'io.containerd.cri.v1.images'.pinned_images]\n  sandbox = '{}'\n"
    lab.config.write_text("version = 3\n" + images.format(f"{registry.name}/new:1"))
    lab.containerd(containerd2())
    old, new = pulled(lab, registry, "old", "new")
    running = pinner(["sandbox", old])
    assert wait_setting(running, f"pin.{new}", "in-sync")["original"] == "pinned", "containerd 2 pins it itself"
    wait_setting(running, f"pin.{old}", "in-sync")
    assert pinned(lab, old) and pinned(lab, new)
    running.write_config(section(["sandbox"]))
    running.reload()
    until(lambda: not pinned(lab, old), "an image loses its pin when the configuration no longer names it")
    assert pinned(lab, new)


def test_plan_and_observe_pin_nothing(lab: Lab, pinner: Start, directory: Path, run: Run) -> None:
    lab.start("containerd2")
    (app,) = pulled(lab, lab.registry(), "app")
    config = directory / "plan.yaml"
    config.write_text(section([app, "registry.example/missing:1"]))
    planned = run("plan", "--config", str(config), wrap=lab.wrap)
    assert planned.returncode == 2 and f"pin.{app}" in planned.stdout and "missing" not in planned.stdout, planned
    running = pinner([app, "registry.example/missing:1", "sandbox"], "observe")
    assert wait_for(running, f"pin.{app}", "actual", "not pinned")["state"] == "observed"
    assert running.setting("pin.registry.example/missing:1")["reason"] == "image-missing"
    assert [s["reason"] for s in running.status()["settings"] if "k8s.io/pause:3" in s["name"]] == ["image-missing"], "the default"
    assert not pinned(lab, app)


@pytest.mark.parametrize("kind,reason", [("containerd", "pins-ignored"), ("docker", "no-pins")])
def test_a_configured_pin_fails_on_a_runtime_without_pins(lab: Lab, pinner: Start, kind: str, reason: str) -> None:
    app = "docker.io/library/busybox:1"
    if kind == "docker":
        lab.dockerd()
    else:
        lab.containerd()
        (app,) = pulled(lab, lab.registry(), "app")
    running = pinner([app])
    if kind == "containerd" and not until(lambda: found(running, kind), "containerd is found")["version"].startswith("1.6.20"):
        wait_setting(running, f"pin.{app}", "in-sync")  # Debian 13's has pins
        return
    assert wait_for(running, f"pin.{app}", "reason", reason)["state"] == "failed"
    assert "remove images.pin" in running.wait_finding(f"pin.{app}")["message"]
    assert kind == "docker" or LABEL not in labels(lab)


def test_restore_removes_pins_after_a_kill_at_any_moment(lab: Lab, node: Node, directory: Path, run: Run) -> None:
    lab.start("containerd2")
    app, kept = pulled(lab, lab.registry(), "app", "kept")
    pin(lab, kept)
    config = directory / "kill.yaml"
    config.write_text(section([app, kept]) + 'http: {listen: ""}\n')
    seen = set()
    for round_ in range(25):
        killed(directory, random.uniform(0.005, 0.2) * SLACK, "apply", "--config", config, wrap=lab.wrap)
        journal = directory / "state/journal.json"
        seen.add((journal.exists() and app in journal.read_text(), pinned(lab, app)))
        assert (False, True) not in seen, "the record comes before the pin"
        if round_ % 3 == 2:
            restored = run("restore", wrap=lab.wrap)
            assert restored.returncode == 0, restored
            until(lambda: not pinned(lab, app), "the pin is removed")
            assert pinned(lab, kept)
    assert len(seen) > 1, "some kills came after the record"
    assert labels(lab).count("io.cri-containerd.image=managed") >= 2, "other labels stay"
