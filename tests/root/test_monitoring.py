# SPDX-License-Identifier: Apache-2.0
"""deploy/: rules and dashboard in a real Prometheus that scrapes an agent under load; plugins of other daemons."""

import contextlib
import http.server
import json
import os
import re
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Callable, Iterator

import criwire
import dnslab
import pytest
from conftest import ROOT, Start, free_port, until
from dnslab import fixture_network  # noqa: F401
from imagelab import Image
from prometheus import Prometheus
from runtimelab import Lab, lab  # noqa: F401
from storm import fill, space  # noqa: F401
from test_storage import disk  # noqa: F401
from test_top import dns_load

DEPLOY = ROOT / "deploy"
UPSTREAM, CLUSTER = "10.54.0.1", "10.54.0.2"
CONFIG = f"""\
mode: observe
dns: {{cluster_servers: [{CLUSTER}], budgets: [{{server: {UPSTREAM}, qps: 50}}]}}
runtime: {{mode: enforce, max_concurrent_downloads: keep, pull_progress_timeout: keep}}
images: {{pull: [registry.invalid/app:1], wave: {{nodes: 10}}}}
"""


def dashboard() -> dict[str, str]:
    """Panel and target -> expression, with variables replaced as by Grafana."""
    panels = json.loads((DEPLOY / "grafana/headroom.json").read_text())["panels"]
    filled = {"$cluster": "test", "$node": "node-1", "$__rate_interval": "10s"}
    return {
        f"{panel['title']} {target['refId']}": re.sub(r"\$\w+", lambda m: filled[m[0]], target["expr"])
        for panel in panels
        for target in panel.get("targets", [])
    }


def test_every_query_of_the_dashboard_has_data(
    lab: Lab, network: dnslab.Lab, space: Callable[..., Any], agent: Start, directory: Path, disk: Path  # noqa: F811
) -> None:
    registry = lab.registry()
    registry.push("app", Image(4, 4 << 20))
    proxy = lab.proxy(registry, 500 * 1024)
    lab.containerd()
    running = agent(CONFIG, wrap=lab.wrap)
    fill(space(pod=True), 300)
    with contextlib.closing(Prometheus(directory, running.port, 2)) as prometheus:
        network.server(UPSTREAM, CLUSTER)
        pod_cgroup = dnslab.pod_path()[0]
        with dns_load(network, *((pod_cgroup, 100, server, "ok.example.test") for server in (UPSTREAM, CLUSTER))):
            pull = criwire.start_pull(lab.containerd_socket, f"{proxy.name}/app:latest")
            empty = dashboard()
            deadline = time.monotonic() + 90
            while empty and time.monotonic() < deadline:
                time.sleep(1)
                with (disk / "file").open("w") as file:
                    os.fsync(file.fileno())  # containerd may be on a file system without a disk
                empty = {name: expression for name, expression in empty.items() if not prometheus.has(expression)}
            assert empty == {}
            assert prometheus.query("headroom_build_info")[0]["metric"]["version"]
            lost = prometheus.query("scrape_samples_scraped - scrape_samples_post_metric_relabeling")
            assert lost and all(row["value"][1] == "0" for row in lost)
            for alert in ("HeadroomDown", "HeadroomAbsent"):
                assert not prometheus.query(f'ALERTS{{alertname="{alert}"}}')
            exceeded = 'ALERTS{alertname="HeadroomDNSBudgetTouched",alertstate="firing"}'
            until(lambda: len(prometheus.query(exceeded)) == 2, "both nodes are over their budget", 0.5)
        proxy.rate = 0
        criwire.finish(pull)


def test_node_problem_detector_gets_a_condition(agent: Start) -> None:
    running = agent("mode: observe\n")
    plugins = json.loads((DEPLOY / "node-problem-detector/headroom.json").read_text())
    assert {rule["condition"] for rule in plugins["rules"]} == {c["type"] for c in plugins["conditions"]}

    def ask(name: str, port: int) -> tuple[int, str]:
        command = [str(DEPLOY / "node-problem-detector/condition"), name]
        done = subprocess.run(command, env={"HEADROOM_ADDRESS": f"127.0.0.1:{port}"}, capture_output=True, text=True)
        return done.returncode, done.stdout

    for rule in plugins["rules"]:
        until(lambda name=rule["args"][0]: ask(name, running.port)[0] == 0, f"{rule['condition']} is known")
        assert len(ask(*rule["args"], running.port)[1]) <= plugins["pluginConfig"]["max_output_length"]
    running.write_config("mode: nonsense\n")
    running.wait_condition("ConfigInvalid")
    until(lambda: ask("ConfigInvalid", running.port)[0] == 1, "the plugin reports it")
    assert ask("NoSuchCondition", running.port)[0] == 2
    assert ask("ConfigInvalid", free_port())[0] == 2


METRICS = """\
headroom_build_info{version="1.4.0",commit="abc"} 1
headroom_condition{condition="LimitReached"} 1
headroom_condition{condition="StorageSlow"} 1
headroom_condition{condition="LimitPressure"} 0
headroom_condition{condition="DNSUnanswered"} -1
headroom_finding{condition="LimitPressure",object="pids",severity="warning",kind="pod",namespace="a",name="b"} 1
headroom_finding{condition="LimitReached",object="pids/cgroup",severity="critical",kind="pod",namespace="shop",name="api-7"} 1
headroom_finding{condition="LimitReached",object="inotify",severity="warning",kind="unit",namespace="",name="x.service"} 1
headroom_finding{condition="StorageSlow",object="syncs-slow",severity="warning",kind="",namespace="",name=""} 1
headroom_tuner_active{tuner="neighbor"} 1
headroom_tuner_active{tuner="thp"} 1
headroom_tuner_active{tuner="dns"} 0
headroom_tuner_mode{tuner="neighbor",mode="observe"} 1
headroom_tuner_mode{tuner="thp",mode="enforce"} 1
headroom_tuner_mode{tuner="dns",mode="enforce"} 1
"""


@pytest.fixture
def metrics() -> Iterator[str]:
    """The address of an agent that answers METRICS."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(METRICS.encode())

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.apart
@pytest.mark.parametrize(
    "name, code, text",
    [
        ("LimitReached", 1, "LimitReached: pids/cgroup by pod shop/api-7: run"),
        ("StorageSlow", 1, "StorageSlow: syncs-slow: run"),
        ("LimitPressure", 0, "LimitPressure: no problem"),
        ("DNSUnanswered", 2, "DNSUnanswered: unknown"),
        ("Limit", 2, "Limit: unknown"),
    ],
)
def test_node_problem_detector_names_the_pod(metrics: str, name: str, code: int, text: str) -> None:
    command = [str(DEPLOY / "node-problem-detector/condition"), name]
    done = subprocess.run(command, env={"HEADROOM_ADDRESS": metrics}, capture_output=True, text=True)
    assert done.returncode == code and done.stdout.startswith(text), done


@pytest.mark.apart
def test_node_problem_detector_reports_limits_and_disks() -> None:
    plugins = json.loads((DEPLOY / "node-problem-detector/headroom.json").read_text())
    assert {"LimitReached", "StorageSlow"} <= {rule["args"][0] for rule in plugins["rules"]}


@pytest.mark.apart
def test_a_tuner_that_observes_is_not_active_for_node_feature_discovery(metrics: str, tmp_path: Path) -> None:
    command = [str(DEPLOY / "node-feature-discovery/features"), str(tmp_path / "headroom")]
    subprocess.run(command, env={"HEADROOM_ADDRESS": metrics, "PATH": "/usr/bin:/bin"}, check=True)
    lines = (tmp_path / "headroom").read_text().splitlines()[1:]
    labels = dict(line.removeprefix("feature.node.kubernetes.io/headroom.").split("=") for line in lines)
    assert {name: labels[f"{name}-active"] for name in ("neighbor", "thp", "dns")} == {"neighbor": "false", "thp": "true", "dns": "false"}
    assert labels["version"] == "1.4.0" and labels["neighbor"] == "observe"


def test_node_feature_discovery_gets_labels(agent: Start, directory: Path) -> None:
    running = agent("mode: observe\nthp: {mode: off}\n")
    file = directory / "headroom"
    command = [str(DEPLOY / "node-feature-discovery/features"), str(file)]
    environment = {"HEADROOM_ADDRESS": f"127.0.0.1:{running.port}", "PATH": "/usr/bin:/bin"}
    subprocess.run(command, env=environment, check=True)
    first, *lines = file.read_text().splitlines()
    assert re.fullmatch(r"# \+expiry-time=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", first)
    labels = dict(line.removeprefix("feature.node.kubernetes.io/").split("=") for line in lines)
    assert labels["headroom.neighbor"] == "observe" and labels["headroom.thp"] == "off"
    assert labels["headroom.thp-active"] == "false"
    for name, value in labels.items():
        assert re.fullmatch(r"[A-Za-z0-9]([-.\w]{0,61}[A-Za-z0-9])?", value), f"{name}={value} is not a valid label"
    running.stop()
    old = file.read_text()
    assert subprocess.run(command, env=environment, capture_output=True, check=False).returncode != 0
    assert file.read_text() == old
