# SPDX-License-Identifier: Apache-2.0
"""What the chart renders from its values. Needs helm, no cluster."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

CHART = Path(__file__).resolve().parents[2] / "deploy/helm/headroom"
HELM = Path(os.environ["HEADROOM_KUBERNETES"]) / "helm"


def render(values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """KIND/NAME -> object."""
    run = subprocess.run(
        [HELM, "template", "headroom", CHART, "--values=-"], input=json.dumps(values), capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    return {f"{each['kind']}/{each['metadata']['name']}": each for each in yaml.safe_load_all(run.stdout) if each}


def pod_of(workload: dict[str, Any]) -> dict[str, Any]:
    return workload["spec"]["template"]["spec"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"resources": {"limit": {"memory": "1Gi"}}},
        {"securityContext": {"privilege": True}},
        {"capabilities": ["NETADMIN"]},
        {"capabilities": ["CAP_BPF"]},
        {"maxUnavailable": "0%"},
        {"maxUnavailable": 0},
        {"config": {"moode": "observe"}},
        {"config": {"mode": "enforced"}},
        {"config": {"http": {"listen": "19810"}}},
        {"config": {"http": {"listen": "0.0.0.0"}}},
        {"config": {"neighbor": {"ipv4": {"gc_tresh3": 1}}}},
        {"profiles": [{"name": "etcd", "nodeSelector": {"a": "b"}, "config": {"thp": {"enable": "never"}}}]},
        {"image": {"digest": "latest"}},
        {"tolerations": [{"operator": "Exist"}]},
        {"updateStrategy": {"type": "Recreate"}},
    ],
    ids=json.dumps,
)
def test_a_wrong_value_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(AssertionError, match="(?s)values don't meet the specifications"):
        render(wrong)


def test_the_restore_pods_run_where_the_agents_ran_within_a_quota() -> None:
    values = {
        "nodeSelector": {"pool": "web"},
        "tolerations": [{"key": "pool", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}}},
        "resources": {"requests": {"cpu": "20m", "memory": "32Mi"}, "limits": {"cpu": "1", "memory": "64Mi"}},
        "image": {"repository": "registry.example.com/headroom", "digest": "sha256:" + "a" * 64},
    }  # fmt: skip
    objects = render(values)
    agent, restore = (pod_of(objects[f"DaemonSet/headroom{suffix}"]) for suffix in ("", "-restore"))
    owner = {"name": "HEADROOM_OWNER", "value": "helm-release/default/headroom"}
    assert owner in agent["containers"][0]["env"] and owner in restore["initContainers"][0]["env"]
    for key in ("nodeSelector", "affinity", "tolerations", "priorityClassName"):
        assert agent[key] == restore[key]
    assert agent["nodeSelector"]["pool"] == "web" and agent["affinity"] == values["affinity"]
    for pod in (agent, restore, pod_of(objects["Job/headroom-restore"])):
        for container in pod.get("initContainers", []) + pod["containers"]:
            assert container["resources"] == values["resources"]
            assert container["image"] == "registry.example.com/headroom@sha256:" + "a" * 64
            assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"


def test_profiles_and_a_required_affinity_both_hold() -> None:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    required = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term, {"matchFields": []}]}}}
    objects = render({"affinity": required, "profiles": [{"name": "etcd", "nodeSelector": {"role": "etcd"}}]})
    excluded = {"key": "role", "operator": "NotIn", "values": ["etcd"]}
    terms = pod_of(objects["DaemonSet/headroom"])["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert [each["matchExpressions"][-1] for each in terms] == [excluded, excluded]
    assert terms[0]["matchExpressions"][0] == term["matchExpressions"][0]
    assert pod_of(objects["DaemonSet/headroom-etcd"])["affinity"] == required
    assert pod_of(objects["DaemonSet/headroom-restore"])["affinity"] == required


def test_without_a_port_the_probes_ask_the_socket() -> None:
    [container] = pod_of(render({"config": {"http": {"listen": ""}}})["DaemonSet/headroom"])["containers"]
    assert "ports" not in container
    probes = {path: container[f"{kind}Probe"] for path, kind in (("/livez", "liveness"), ("/readyz", "readiness"))}
    for path, probe in probes.items():
        assert "httpGet" not in probe and probe["exec"]["command"] == ["headroom", "status", "--probe", path]


def test_with_a_web_config_the_probes_ask_the_socket_and_prometheus_uses_tls() -> None:
    values = {
        "config": {"http": {"listen": "0.0.0.0:19810", "web_config": "/web/web-config.yml"}},
        "podMonitor": {"enabled": True, "endpoint": {"scheme": "https"}},
        "serviceMonitor": {"enabled": True, "endpoint": {"scheme": "https"}},
    }
    objects = render(values)
    [container] = pod_of(objects["DaemonSet/headroom"])["containers"]
    assert [port["containerPort"] for port in container["ports"]] == [19810]
    assert container["livenessProbe"]["exec"]["command"] == ["headroom", "status", "--probe", "/livez"]
    for kind, endpoints in (("PodMonitor", "podMetricsEndpoints"), ("ServiceMonitor", "endpoints")):
        [endpoint] = objects[f"{kind}/headroom"]["spec"][endpoints]
        assert (endpoint["scheme"], endpoint["port"]) == ("https", "http")


def test_labels_variables_volumes_and_strategy_reach_the_agent() -> None:
    objects = render({
        "podLabels": {"team": "infra"}, "serviceAccountName": "agent", "updateStrategy": {"type": "OnDelete"},
        "extraEnv": [{"name": "HEADROOM_LOG_LEVEL", "value": "debug"}],
        "extraVolumes": [{"name": "more", "emptyDir": {}}], "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
    })  # fmt: skip
    agent = objects["DaemonSet/headroom"]
    pod = pod_of(agent)
    [container] = pod["containers"]
    assert agent["spec"]["template"]["metadata"]["labels"]["team"] == "infra"
    assert agent["spec"]["updateStrategy"] == {"type": "OnDelete"}
    assert pod["serviceAccountName"] == "agent"
    assert {"name": "HEADROOM_LOG_LEVEL", "value": "debug"} in container["env"]
    assert {"name": "NODE_NAME"}.items() <= container["env"][0].items()
    assert {"name": "more", "mountPath": "/more"} in container["volumeMounts"]
    assert {"name": "more", "emptyDir": {}} in pod["volumes"]
