# SPDX-License-Identifier: Apache-2.0
"""Pulls: the number of parallel layers, and the view of running pulls."""

import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import criwire
import pytest
from conftest import Agent, Run, until
from imagelab import Image
from runtimelab import CONTAINERD_CONFIG, Lab, headroom, lab, watcher  # noqa: F401
from test_runtime import Watcher, found, keeping

LAYERS, SIZE, RATE = 12, 64 * 1024, 128 * 1024


@pytest.mark.parametrize("runtime", ["containerd", pytest.param("containerd2", marks=[pytest.mark.containerd2, pytest.mark.slow]), "docker"])
def test_ten_layers_at_once_after_apply(lab: Lab, runtime: str, headroom: Run) -> None:
    """Ten connections instead of one. tests/bench/pulls measures the gain."""
    registry = lab.registry()
    registry.push("twelve", Image(LAYERS, SIZE))
    proxy = lab.proxy(registry, RATE)
    name = f"{proxy.name}/twelve:latest"
    lab.start(runtime)
    if runtime != "docker":
        lab.with_systemd()
    peaks = {}
    for downloads in (1, 10):
        headroom("apply", section=f"restart: now, max_concurrent_downloads: {{value: {downloads}, exact: true}}")
        if runtime == "docker":
            reloads = downloads // 10 + 1
            until(lambda: lab.daemons["dockerd"].log.count("Reloaded configuration") == reloads, "reloaded")
        else:
            lab.wait_for_cri()
        proxy.count()
        if runtime == "docker":
            lab.docker_pull(name)
            assert lab.docker("DELETE", f"/images/{name}")[0] == 200
        else:
            criwire.pull(lab.containerd_socket, name)
            criwire.remove(lab.containerd_socket, name)
        assert len(proxy.blobs) >= LAYERS
        peaks[downloads] = proxy.peak
    assert peaks[1] == 1 and 5 < peaks[10] <= 10, peaks  # on a busy machine one may end before the last begins


def test_pulls_of_containerd_are_shown_while_they_run(lab: Lab, watcher: Watcher) -> None:
    registry = lab.registry()
    registry.push("team/app", Image(4, 4 << 20))
    proxy = lab.proxy(registry, 700 * 1024)
    lab.containerd()
    running = keeping(watcher, "containerd")
    pull = criwire.start_pull(lab.containerd_socket, f"{proxy.name}/team/app:latest")
    pulls = until(lambda: [p for p in found(running, "containerd")["pulls"] if p["bytes_per_second"] > 0], "pulls", 0.1)
    for one in pulls:
        assert one["ref"].startswith("layer-sha256:")
        assert 0 < one["offset"] <= one["total"] and one["total"] > 1 << 20
    named = until(lambda: [p for p in found(running, "containerd")["pulls"] if p["image"]], "the image is known", 0.1)
    assert {p["image"] for p in named} == {"127.0.0.1/team/app"}, "containerd's label lacks the port"
    until(lambda: running.metrics().get('headroom_pulls_active{registry="unknown"}') == 1, "one pull", 0.1)
    proxy.rate = 0
    criwire.finish(pull)
    until(lambda: not found(running, "containerd")["pulls"], "all layers are complete")
    label = f'{{registry="{proxy.name}"}}'
    metrics = until(
        lambda: (m := running.metrics()).get(f"headroom_pull_duration_seconds_count{label}") and m, "a duration"
    )
    assert metrics[f"headroom_pull_bytes_total{label}"] > 1 << 20
    assert metrics[f"headroom_pulls_active{label}"] == 0
    assert 'headroom_pull_bytes_total{registry="127.0.0.1"}' not in metrics, "one registry, one label"
    assert metrics['headroom_runtime_max_concurrent_downloads{runtime="containerd"}'] == 3
    assert any(name.startswith('headroom_runtime_info{runtime="containerd",version="1.') for name in metrics)
    assert len(metrics) < 500
    running.wait_condition("PullStuck", "False")

    # The agent knows the port from the first image of this registry.
    registry.push("team/other", Image(2, 4 << 20))
    proxy.rate = 700 * 1024
    pull = criwire.start_pull(lab.containerd_socket, f"{proxy.name}/team/other:latest")
    image = f"{proxy.name}/team/other"
    until(lambda: any(p["image"] == image for p in found(running, "containerd")["pulls"]), "the port", 0.1)
    proxy.rate = 0
    criwire.finish(pull)


def test_pulls_of_docker_are_shown_while_they_run(lab: Lab, watcher: Watcher) -> None:
    registry = lab.registry()
    layers = registry.push("team/app", Image(4, 4 << 20))
    proxy = lab.proxy(registry, 700 * 1024)
    lab.dockerd()
    running = keeping(watcher, "docker")
    thread = threading.Thread(target=lab.docker_pull, args=(f"{proxy.name}/team/app:latest",), daemon=True)
    thread.start()
    pulls = until(lambda: [p for p in found(running, "docker")["pulls"] if p["bytes_per_second"] > 0], "pulls", 0.1)
    assert len(pulls) <= 3
    proxy.rate = 0
    thread.join(30)
    until(lambda: not found(running, "docker")["pulls"], "all layers are complete")
    label = f'headroom_pull_bytes_total{{registry="{proxy.name}"}}'
    assert 0 < until(lambda: running.metrics().get(label), "bytes of its registry") < 2 * sum(map(len, layers))


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["containerd", "docker"])
def test_bytes_of_pulls_that_are_shorter_than_a_sample_are_counted(lab: Lab, watcher: Watcher, runtime: str) -> None:
    registry = lab.registry()
    layers = registry.push("team/short", Image(8, 2 << 20))
    registry.push("team/known", Image(1, 4096))
    size = sum(map(len, layers))
    lab.start(runtime)
    running = keeping(watcher, runtime)

    def pull(repository: str) -> None:
        name = f"{registry.name}/{repository}:latest"
        lab.docker_pull(name) if runtime == "docker" else criwire.pull(lab.containerd_socket, name)

    label = f'headroom_pull_bytes_total{{registry="{registry.name}"}}'
    pull("team/known")  # the agent sees Docker's directory and the registry's port
    until(lambda: label in running.metrics(), "a first pull")
    before = running.metrics()[label]
    pull("team/short")
    until(lambda: running.metrics()[label] >= before + size, "the bytes of the pull")
    until(lambda: not any(running.metrics()[name] for name in running.metrics() if "pulls_active" in name), "its end")
    assert running.metrics()[label] - before <= 1.02 * size, "no piece is counted twice"
    assert running.metrics().get('headroom_pull_bytes_total{registry="unknown"}', 0) == 0


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["containerd", "docker"])
def test_a_pull_without_progress_for_a_minute_is_named(lab: Lab, watcher: Watcher, runtime: str) -> None:
    registry = lab.registry()
    layers = registry.push("team/stuck", Image(5, 1 << 20))
    proxy = lab.proxy(registry)
    proxy.stop_after = 300_000
    lab.start(runtime)
    running = keeping(watcher, runtime)
    name = f"{proxy.name}/team/stuck:latest"
    with ThreadPoolExecutor() as pool:
        pull = pool.submit(lab.docker_pull if runtime == "docker" else lambda n: criwire.pull(lab.containerd_socket, n), name)
        condition = running.wait_condition("PullStuck", timeout=90)
        assert condition["reason"] == "no-progress"
        message = condition["message"]
        found = running.wait_finding("no-progress")
        if runtime == "containerd":
            assert "layer-sha256:" in message and "of 127.0.0.1/team/stuck: " in message
            assert (found["instance"]["kind"], found["instance"]["name"]) == ("registry", "127.0.0.1")
            assert "curl -v https://127.0.0.1/v2/ (with its port" in found["hint"]
            assert any(f"of {len(layer)} bytes" in message for layer in layers)
        assert "2 other layers" in message, message
        assert "2 other layers" in running.wait_incident(found["id"])["text"]
        proxy.stop_after = 0
        running.wait_condition("PullStuck", "False")
        pull.result()


def pulls(agent: Agent) -> list[dict[str, Any]]:
    return list(agent.status()["runtime"]["pulls"])


def test_the_progress_of_a_pull_is_that_of_its_image(lab: Lab, watcher: Watcher, run: Run) -> None:
    """Two tags of one repository, with pods that wait: each has a row with the size of its own layers."""
    lab.config.write_text(CONTAINERD_CONFIG.replace("registry.example/pause:3.6", lab.pause()))
    lab.containerd()
    registry = lab.registry()
    sizes = {tag: sum(map(len, registry.push("team/app", Image(n, 6 << 20), tag))) for tag, n in (("one", 2), ("two", 4))}
    proxy = lab.proxy(registry, 600 * 1024)
    running = keeping(watcher, "containerd")
    sandbox = criwire.run_pod(lab.containerd_socket, "web-1", "shop", "0b1c2d3e-0000-4000-8000-000000000001")
    until(lambda: not pulls(running), "the image of the sandbox is there")
    assert "no image is being pulled" in run("top", "pulls", wrap=lab.wrap).stdout
    under_way = [criwire.start_pull(lab.containerd_socket, f"{proxy.name}/team/app:{tag}") for tag in sizes]

    rows = until(lambda: len(now := [p for p in pulls(running) if p["total"] and p["seconds_left"]]) == 2 and now, "two pulls", 0.1)
    assert {p["total"] for p in rows} == set(sizes.values())
    for pull in rows:
        assert pull["image"].endswith("/team/app") and 0 < pull["done"] < pull["total"]
        assert pull["bytes_per_second"] > 0 and pull["layers"] <= 3
    assert until(lambda: next(iter(pulls(running)), {}).get("waiting"), "the pod", 0.1) == "shop/web-1"
    shown = run("top", "pulls", wrap=lab.wrap).stdout
    assert len(re.findall(r"/team/app +[\d.]+( [kM]B)? of [\d.]+ MB, [\d.]+ [kM]?B/s, \d+ s left", shown)) == 2, shown
    assert "pods that run no container: shop/web-1" in shown
    assert re.search(r" of [\d.]+ MB, [\d.]+ [kM]?B/s, .*/team/app", run("status", wrap=lab.wrap).stdout)
    page = running.get("/")[1]
    assert "<h2>Pulls</h2>" in page and " MB/s, " in page or " kB/s, " in page

    proxy.rate = 0
    for pull in under_way:
        criwire.finish(pull)
    until(lambda: not pulls(running), "the ends")
    assert "<h2>Pulls</h2>" not in running.get("/")[1]
    criwire.remove_pod(lab.containerd_socket, sandbox)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["containerd", *[pytest.param(f"containerd{v}", marks=pytest.mark.containerd2) for v in ("2", "2.0", "2.2", "2.3")]])
def test_a_queue_is_no_stuck_pull_and_the_time_left_is_right(lab: Lab, watcher: Watcher, kind: str) -> None:
    """Nine layers, three at a time: the last ones wait for more than a minute, on a registry of constant speed."""
    lab.start(kind)
    registry = lab.registry()
    layers = registry.push("team/queue", Image(9, 2_400_000))
    proxy = lab.proxy(registry, 60_000)
    running = keeping(watcher, "containerd")
    under_way = criwire.start_pull(lab.containerd_socket, f"{proxy.name}/team/queue:latest", 300)
    begin, seen = time.monotonic(), []
    while under_way.poll() is None:
        seen += [(time.monotonic(), pull) for pull in pulls(running) if pull["seconds_left"]]
        assert running.condition("PullStuck")["status"] != "True", running.condition("PullStuck")
        time.sleep(2)
    end = time.monotonic()
    assert end - begin > 100, "the last layers have waited for more than a minute"
    middle = [(end - at, pull["seconds_left"]) for at, pull in seen if 0.25 < (at - begin) / (end - begin) < 0.75]
    assert len(middle) > 10 and {pull["total"] for _, pull in seen} == {sum(map(len, layers))}, seen
    wrong = [f"{left} s of {real:.0f} s" for real, left in middle if abs(left - real) > 0.2 * real]
    assert not wrong, wrong
