# SPDX-License-Identifier: Apache-2.0
"""Debian's Prometheus on loopback, with the rules of deploy/."""

import json
import math
import re
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, end, free_port, spawn
from dnslab import need

RULES = ROOT / "deploy/prometheus/rules.yaml"


class Prometheus:
    """A Prometheus that scrapes one agent as several nodes of a cluster."""

    def __init__(
        self, directory: Path, agent: int, nodes: int, scrape: str = "1s", evaluation: str = "1s",
        scrape_options: dict[str, Any] | None = None,
    ) -> None:
        need("prometheus")
        self.port = free_port()
        self.log = directory / "prometheus.log"
        rules = directory / "rules.yaml"
        rules.write_text(re.sub(r"interval: \w+", f"interval: {evaluation}", RULES.read_text()))
        labels = [{"cluster": "test", "instance": f"node-{i + 1}"} for i in range(nodes)]
        targets = [{"targets": [f"127.0.0.1:{agent}"], "labels": label} for label in labels]
        config = {
            "global": {"scrape_interval": scrape, "scrape_timeout": scrape, "evaluation_interval": evaluation},
            "rule_files": [str(rules)],
            "scrape_configs": [{"job_name": "headroom", "static_configs": targets, **(scrape_options or {})}],
        }
        (directory / "prometheus.yml").write_text(json.dumps(config))
        options = {
            "config.file": directory / "prometheus.yml",
            "storage.tsdb.path": directory / "tsdb",
            "web.listen-address": f"127.0.0.1:{self.port}",
        }
        self.process = spawn(["prometheus", *(f"--{name}={value}" for name, value in options.items())], self.log)

    def query(self, expression: str) -> list[dict[str, Any]]:
        address = f"http://127.0.0.1:{self.port}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(address, timeout=5) as answer:
                return json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as error:
            if error.code == 503:  # it has just started
                return []
            pytest.fail(f"{expression}: {error.read().decode()}")
        except OSError:
            assert self.process.poll() is None, self.log.read_text()
            return []

    def has(self, expression: str) -> bool:
        return any(not math.isnan(float(row["value"][1])) for row in self.query(expression))

    def close(self) -> None:
        end(self.process)
