# SPDX-License-Identifier: Apache-2.0
"""What the deployment says more than once agrees: versions, the chart's defaults and its manifests, the README's tables."""

import re
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy/helm/headroom"
faults: list[str] = []


def agree(what: str, one: Any, other: Any) -> None:
    if one != other:
        faults.append(f"{what}: {one!r} and {other!r}")


def load(path: str) -> Any:
    return yaml.safe_load((CHART / path).read_text())


version = re.search(r"^project\(headroom VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.M).group(1)
readme = (ROOT / "deploy/README.md").read_text()
chart, values = load("Chart.yaml"), load("values.yaml")
agent, restore = load("manifests/agent/daemonset.yaml"), load("manifests/restore/daemonset.yaml")
pod, after = agent["spec"]["template"]["spec"], restore["spec"]["template"]["spec"]
container, restoring = pod["containers"][0], after["initContainers"][0]

for what in (chart["version"], chart["appVersion"]):
    agree("Chart.yaml and CMakeLists.txt", what, version)
for each in (container, restoring, after["containers"][0]):
    agree("image of a manifest", each["image"], f"{values['image']['repository']}:{version}")
    agree("imagePullPolicy", each["imagePullPolicy"], values["image"]["pullPolicy"])

agree("capabilities", container["securityContext"]["capabilities"]["add"], values["capabilities"])
agree("resources", container["resources"], values["resources"])
agree("nodeSelector", pod["nodeSelector"], values["nodeSelector"])
agree("priorityClassName", pod["priorityClassName"], values["priorityClassName"])
agree("minReadySeconds", agent["spec"]["minReadySeconds"], values["minReadySeconds"])
agree("maxUnavailable", agent["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"], values["maxUnavailable"])
agree("headroom.yaml", load("manifests/agent/headroom.yaml"), values["config"])

for key in ("automountServiceAccountToken", "hostNetwork", "hostPID", "priorityClassName", "tolerations", "securityContext"):
    agree(f"{key} of agent and restore", pod[key], after[key])
own = ("config", "run", "state")
for key in ("mountPath", "readOnly", "mountPropagation"):
    mounts = [{m["name"]: m.get(key) for m in c["volumeMounts"] if m["name"] not in own} for c in (container, restoring)]
    agree(f"{key} of agent and restore", *mounts)

rows = dict(re.findall(r"^\| ([^|]+?) \|(.*)\|$", readme, re.M))
for capability in values["capabilities"]:
    agree(f"deploy/README.md has a row for {capability}", capability in rows, True)
named = " ".join(rows)
for volume in pod["volumes"]:
    if "hostPath" in volume:
        agree(f"deploy/README.md has a row for {volume['hostPath']['path']}", volume["hostPath"]["path"] in re.split(r",? ", named), True)

print("\n".join(faults))
sys.exit(1 if faults else 0)
