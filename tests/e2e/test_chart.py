# SPDX-License-Identifier: Apache-2.0
"""What the chart renders from its values. Needs helm, no cluster."""

import itertools
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/root")]

from imagelab import Registry  # noqa: E402

CHART = ROOT / "deploy/helm/headroom"
HELM = Path(os.environ["HEADROOM_KUBERNETES"]) / "helm"
VERSION = yaml.safe_load((CHART / "Chart.yaml").read_text())["version"]


def template(values: dict[str, Any], *options: str, chart: Path = CHART) -> subprocess.CompletedProcess[str]:
    command = [HELM, "template", "headroom", chart, "--values=-", *options]
    return subprocess.run(command, input=json.dumps(values), capture_output=True, text=True, check=False)


def render(values: dict[str, Any], *options: str, chart: Path = CHART) -> dict[str, dict[str, Any]]:
    """KIND/NAME -> object."""
    run = template(values, *options, chart=chart)
    assert run.returncode == 0, run.stderr
    return {f"{each['kind']}/{each['metadata']['name']}": each for each in yaml.safe_load_all(run.stdout) if each}


@pytest.fixture
def notes(tmp_path: Path) -> Callable[..., str]:
    """What Helm prints after an installation. `helm template` prints a text only in an object."""
    chart = shutil.copytree(CHART, tmp_path / "headroom")
    (chart / "templates/NOTES.txt").rename(chart / "NOTES")
    (chart / "templates/notes.yaml").write_text(
        '{apiVersion: v1, kind: Notes, metadata: {name: x}, text: {{ tpl (.Files.Get "NOTES") . | toJson }}}\n'
    )

    def printed(values: dict[str, Any], *options: str) -> str:
        return render(values, "--namespace=nodes", *options, chart=chart)["Notes/x"]["text"]

    return printed


def pod_of(workload: dict[str, Any]) -> dict[str, Any]:
    return workload["spec"]["template"]["spec"]


def agents(objects: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Name -> DaemonSet, without the one of the removal."""
    sets = {name.partition("/")[2]: each for name, each in objects.items() if name.startswith("DaemonSet/")}
    return {name: each for name, each in sets.items() if name != "headroom-restore"}


def config_of(objects: dict[str, dict[str, Any]], name: str) -> dict[str, Any]:
    """The configuration that the agents of a DaemonSet read."""
    [volume] = [volume for volume in pod_of(objects[f"DaemonSet/{name}"])["volumes"] if volume["name"] == "config"]
    return yaml.safe_load(objects[f"ConfigMap/{volume['configMap']['name']}"]["data"]["headroom.yaml"])


Labels = dict[str, str]


def selects(pod: dict[str, Any], labels: Labels) -> bool:
    """Whether the scheduler may place the pod on a node with these labels."""

    def holds(each: dict[str, Any]) -> bool:
        value, values = labels.get(each["key"]), each.get("values", [])
        return {"In": value in values, "NotIn": value not in values, "Exists": value is not None, "DoesNotExist": value is None}[each["operator"]]

    required = pod.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    terms = [term.get("matchExpressions") for term in required["nodeSelectorTerms"]] if required else [[]]
    fits = any(term is not None and all(map(holds, term)) for term in terms)
    return fits and pod["nodeSelector"].items() <= labels.items()


def label_sets(universe: dict[str, tuple[str, ...]]) -> Iterator[Labels]:
    for values in itertools.product(*((None, *values) for values in universe.values())):
        yield {"kubernetes.io/os": "linux"} | {name: value for name, value in zip(universe, values) if value is not None}


UNIVERSE = {"a": ("1", "2"), "b": ("1", "2"), "c": ("", "1")}
SELECTORS: list[Labels] = [
    {"a": "1"}, {"a": "2"}, {"c": ""}, {"a": "1", "b": "1"}, {"a": "1", "b": "2"}, {"b": "1", "c": "1"}, {"a": "2", "b": "1", "c": "1"},
]  # fmt: skip
ZONE = {"matchExpressions": [{"key": "c", "operator": "DoesNotExist"}]}
EITHER = [ZONE, {"matchExpressions": [{"key": "b", "operator": "In", "values": ["1"]}]}]


@pytest.mark.parametrize("terms", [[], EITHER], ids=["all nodes", "an affinity"])
def test_each_node_has_exactly_one_agent_and_the_first_profile_that_fits(terms: list[dict[str, Any]]) -> None:
    """For all label sets and all lists of up to three profiles."""
    required = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    affinity = required if terms else {}

    def faults(selectors: tuple[Labels, ...]) -> list[Any]:
        profiles = [{"name": f"p{i}", "nodeSelector": selector} for i, selector in enumerate(selectors)]
        sets = agents(render({"profiles": profiles, "affinity": affinity, "checkConfig": False}))
        found = []
        for labels in label_sets(UNIVERSE):
            allowed = selects({"affinity": affinity, "nodeSelector": {}}, labels)
            first = [f"headroom-p{i}" for i, selector in enumerate(selectors) if selector.items() <= labels.items()]
            wanted = (first or ["headroom"])[:1] if allowed else []
            running = [name for name, each in sets.items() if selects(pod_of(each), labels)]
            if running != wanted:
                found.append((selectors, labels, running, wanted))
        return found

    lists = [chosen for n in range(4 if not terms else 3) for chosen in itertools.permutations(SELECTORS, n)]
    with ThreadPoolExecutor(2) as pool:
        assert [fault for each in pool.map(faults, lists) for fault in each] == []


@pytest.mark.parametrize(
    "wrong, sentence",
    [
        ({"profiles": [{"name": "x", "nodeSelector": {"a": "1"}}, {"name": "x", "nodeSelector": {"a": "2"}}]}, "the name x is taken"),
        ({"profiles": [{"name": "restore", "nodeSelector": {"a": "1"}}]}, "the name restore is taken"),
        ({"updateStrategy": {"rollingUpdate": {"maxSurge": 1}}}, "maxSurge starts a second agent"),
        ({"updateStrategy": {"rollingUpdate": {"maxSurge": "10%", "maxUnavailable": 0}}}, "maxSurge starts a second agent"),
        (
            {"profiles": [{"name": "x", "nodeSelector": {"a": "1"}, "updateStrategy": {"rollingUpdate": {"maxSurge": 1}}}]},
            "maxSurge starts a second agent",
        ),
        ({"nodeSelector": {"a": "2"}, "profiles": [{"name": "x", "nodeSelector": {"a": "1"}}]}, "x selects a=1, but nodeSelector has only nodes"),
        (
            {"profiles": [{"name": f"p{i}", "nodeSelector": {f"{k}{i}": "1" for k in "abc"}} for i in range(7)]},
            "more than 256 combinations",
        ),
        ({"prometheusRule": {"enabled": True, "rules": {"HeadroomPullStack": {"enabled": False}}}}, "there is no rule HeadroomPullStack"),
        ({"podMonitor": {"enabled": True}}, "need a config.http.listen that Prometheus can reach"),
        (
            {"podMonitor": {"enabled": True}, "serviceMonitor": {"enabled": True}, "config": {"http": {"listen": "0.0.0.0:19810"}}},
            "each would scrape every node, with the same labels",
        ),
        (
            {"profiles": [{"name": "x", "nodeSelector": {"a": "1", "b": "2"}}, {"name": "y", "nodeSelector": {"b": "2", "a": "1"}}]},
            "y selects the nodes of an earlier profile",
        ),
        ({"nodeSelector": {"a": ""}, "profiles": [{"name": "x", "nodeSelector": {"a": "1"}}]}, "x selects a=1, but nodeSelector has only nodes"),
        *(
            ({"podLabels": {f"app.kubernetes.io/{name}": "x"}}, f"app.kubernetes.io/{name} selects the pods of the chart")
            for name in ("name", "instance", "component")
        ),
        ({"extraContainers": [{"name": "headroom", "image": "x"}]}, "the agent's container is called headroom"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_impossible_value_is_refused_with_a_sentence(wrong: dict[str, Any], sentence: str) -> None:
    run = template(wrong)
    assert run.returncode != 0 and sentence in run.stderr, run.stderr


@pytest.mark.parametrize(
    "wrong",
    [
        {"resources": {"limit": {"memory": "1Gi"}}},
        {"securityContext": {"privilege": True}},
        {"capabilities": ["NETADMIN"]},
        {"capabilities": ["CAP_BPF"]},
        {"maxUnavailable": "0%"},
        {"maxUnavailable": 0},
        {"mode": "restored"},
        {"config": {"moode": "observe"}},
        {"config": {"mode": "enforced"}},
        {"config": {"mode": "off"}},
        {"config": {"profile": "kubernets"}},
        {"config": {"on_drift": "bogus"}},
        {"config": {"thp": {"mode": "enforced"}}},
        {"config": {"neighbor": {"ipv4": {"gc_thresh3": "80k"}}}},
        {"config": {"neighbor": {"ipv6": {"gc_thresh1": -1}}}},
        {"config": {"neighbor": {"ipv6": "keeps"}}},
        {"config": {"neighbor": {"grow": "yes"}}},
        {"config": {"images": {"parallel": 17}}},
        {"config": {"images": {"archives": ["images/a.tar"]}}},
        {"config": {"runtime": {"pull_progress_timeout": "9s"}}},
        {"config": {"storage": {"sync_p99": "5001ms"}}},
        {"config": {"dns": {"budgets": [{"qps": 100}]}}},
        {"config": {"limits": {"raise": ["files"]}}},
        {"config": {"sysctl": {"vm.max_map_count": "many"}}},
        {"config": {"sysctl": {"fs.file-max": 9223372036854775807}}},  # Helm would round it
        {"config": {"http": {"listen": "0.0.0.0:99999"}}},
        {"config": {"sysctl": {"vm": {"max_map_count": 262144}}}},
        {"profiles": [{"name": "etcd", "nodeSelector": {}}]},
        {"profiles": [{"name": "etcd", "nodeSelector": {"a": "b"}, "replicas": 1}]},
        {"profiles": [{"name": "etcd", "nodeSelector": {"a": "b"}, "config": {"on_removed": "drop"}}]},
        {"config": {"http": {"listen": "19810"}}},
        {"config": {"http": {"listen": "0.0.0.0"}}},
        {"config": {"neighbor": {"ipv4": {"gc_tresh3": 1}}}},
        {"profiles": [{"name": "etcd", "nodeSelector": {"a": "b"}, "config": {"thp": {"enable": "never"}}}]},
        {"image": {"digest": "latest"}},
        {"tolerations": [{"operator": "Exist"}]},
        {"updateStrategy": {"type": "Recreate"}},
        {"affinity": {"nodeAffinity": None}},
        {"affinity": {"nodeAffinity": "zone"}},
        {"affinity": {"podAffinity": []}},
        {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []}}},
        {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": ["zone"]}}}},
        {"prometheusRule": {"rules": {"HeadroomDown": {"for": "ten minutes"}}}},
        {"prometheusRule": {"rules": {"HeadroomDown": {"keep_firing_for": "10"}}}},
        {"podMonitor": {"interval": ""}},
        {"writableDirectories": ["/etc/docker", "/etc/docker"]},
        {"securityContext": {"privileged": "yes"}},
        {"securityContext": {"runAsUser": "root"}},
        {"securityContext": {"seLinuxOptions": "spc_t"}},
        {"podMonitor": {"endpoint": {"tls_config": {}}}},
        {"serviceMonitor": {"endpoint": {"schema": "https"}}},
        {"fullnameOverride": "x" * 41},
    ],
    ids=json.dumps,
)
def test_a_wrong_value_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(AssertionError, match="(?s)values don't meet the specifications"):
        render(wrong)


@pytest.mark.parametrize(
    "values",
    [
        {"updateStrategy": {"rollingUpdate": {"maxSurge": None, "maxUnavailable": "10%"}}},
        {"fullnameOverride": "x" * 40},
        {"prometheusRule": {"enabled": True, "rules": {"HeadroomDown": {"for": "1h30m"}, "HeadroomReleased": {"for": "2d"}}}},
        {"securityContext": {"privileged": True, "allowPrivilegeEscalation": True}},
        {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}},
        {"nodeSelector": {"a": ""}, "profiles": [{"name": "x", "nodeSelector": {"a": ""}}]},
    ],
    ids=json.dumps,
)
def test_a_rare_value_is_accepted(values: dict[str, Any]) -> None:
    assert render(values)


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
    probes = [(path, container[f"{kind}Probe"]) for path, kind in (("/livez", "liveness"), ("/readyz", "readiness"))]
    for path, probe in probes:
        assert "httpGet" not in probe and probe["exec"]["command"] == ["headroom", "status", "--probe", path]


def test_with_a_web_config_the_probes_ask_the_socket_and_prometheus_uses_tls() -> None:
    values = {
        "config": {"http": {"listen": "0.0.0.0:19810", "web_config": "/web/web-config.yml"}},
    }
    monitors = {"podMonitor": {"enabled": True, "endpoint": {"scheme": "https"}}}, {"serviceMonitor": {"enabled": True, "endpoint": {"scheme": "https"}}}
    objects = {name: each for monitor in monitors for name, each in render({**values, **monitor}).items()}
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


PROFILE = {"name": "canary", "nodeSelector": {"canary": "1"}}


def test_a_profile_has_its_own_version_resources_and_directories_and_the_same_owner() -> None:
    values = {
        "image": {"digest": "sha256:" + "a" * 64},
        "writableDirectories": ["/etc/docker"],
        "profiles": [{
            **PROFILE, "image": {"tag": "1.5.0"}, "resources": {"limits": {"memory": "256Mi"}}, "priorityClassName": "low",
            "tolerations": [{"key": "canary", "operator": "Exists"}], "updateStrategy": {"type": "OnDelete"},
            "writableDirectories": ["/etc/crio"],
        }],
    }  # fmt: skip
    objects = render(values)
    canary, rest = (objects[f"DaemonSet/headroom{suffix}"] for suffix in ("-canary", ""))
    [one], [other] = pod_of(canary)["containers"], pod_of(rest)["containers"]
    assert (one["image"], other["image"]) == ("headroom:1.5.0", "headroom@sha256:" + "a" * 64)
    assert one["resources"] == {"requests": {"cpu": "10m", "memory": "24Mi"}, "limits": {"memory": "256Mi"}}
    assert pod_of(canary)["tolerations"] == [{"key": "canary", "operator": "Exists"}]
    assert (pod_of(canary)["priorityClassName"], pod_of(rest)["priorityClassName"]) == ("low", "system-node-critical")
    assert canary["spec"]["updateStrategy"] == {"type": "OnDelete"}
    assert rest["spec"]["updateStrategy"] == {"rollingUpdate": {"maxUnavailable": "5%"}}

    def writable(pod: dict[str, Any]) -> set[str]:
        return {volume["hostPath"]["path"] for volume in pod["volumes"] if volume["name"].startswith("writable")}

    assert (writable(pod_of(canary)), writable(pod_of(rest))) == ({"/etc/crio"}, {"/etc/docker"})
    owners = {
        entry["value"]
        for name, each in objects.items() if name.startswith("DaemonSet/")
        for container in pod_of(each).get("initContainers", []) + pod_of(each)["containers"]
        for entry in container.get("env", []) if entry["name"] == "HEADROOM_OWNER"
    }  # fmt: skip
    assert owners == {"helm-release/default/headroom"}
    # The removal reaches the nodes and the files of all profiles.
    restore = pod_of(objects["DaemonSet/headroom-restore"])
    assert restore["tolerations"] == [{"operator": "Exists"}, {"key": "canary", "operator": "Exists"}]
    assert writable(restore) == {"/etc/docker", "/etc/crio"}


def test_a_profile_overrides_with_empty_values_and_other_kinds_too() -> None:
    general = {"neighbor": {"grow": True, "ipv4": "keep", "ipv6": {"gc_thresh3": 5}}, "images": {"archives": ["/a"]}, "node_name": "x"}
    own = {"neighbor": {"grow": False, "ipv4": {"gc_thresh3": 1048576}, "ipv6": "keep"}, "images": {"archives": []}, "node_name": "", "dns": {"mode": False}}
    objects = render({"config": general, "profiles": [{**PROFILE, "config": own}]})
    assert config_of(objects, "headroom") == {"mode": "enforce", **general}
    assert config_of(objects, "headroom-canary") == {"mode": "enforce", **own}
    for listen in ({"http": None}, {"http": {"listen": None}}):
        [container] = pod_of(render({"config": listen})["DaemonSet/headroom"])["containers"]
        assert container["ports"][0]["containerPort"] == 19810


DEFAULTS = yaml.safe_load((CHART / "values.yaml").read_text())
# Everything is on.
ALL: dict[str, Any] = {
    "config": {"mode": "enforce", "http": {"listen": "0.0.0.0:19810"}},
    **{name: {"enabled": True} for name in ("podMonitor", "prometheusRule", "dashboard", "networkPolicy")},
}  # fmt: skip
SECTIONS = ("image", "restore", "podMonitor", "prometheusRule", "dashboard", "networkPolicy")


def test_a_value_that_is_null_is_the_default() -> None:
    """As after `helm upgrade --set NAME=null`, which takes away an earlier value."""
    nulls = [{**ALL, name: None} for name in DEFAULTS if name != "config"] + [{"config": None}]
    nulls += [{**ALL, name: {**ALL.get(name, {}), key: None}} for name in SECTIONS for key in DEFAULTS[name]]
    nulls += [{"serviceMonitor": None}, *({"serviceMonitor": {key: None}} for key in DEFAULTS["serviceMonitor"])]

    def without(values: dict[str, Any]) -> dict[str, Any]:
        return {key: without(one) if isinstance(one, dict) else one for key, one in values.items() if one is not None}

    with ThreadPoolExecutor(2) as pool:
        for values, same in zip(nulls, pool.map(lambda values: render(values) == render(without(values)), nulls)):
            assert same, values


def test_a_map_of_kubernetes_loses_a_key_that_is_null() -> None:
    objects = render({"resources": {"limits": {"memory": None}}, "nodeSelector": {"kubernetes.io/os": None, "pool": "web"}})
    pod = pod_of(objects["DaemonSet/headroom"])
    assert not pod["containers"][0]["resources"].get("limits") and pod["nodeSelector"] == {"pool": "web"}


OLD_CHART = "634f29d0"  # has few of the values of today


@pytest.mark.parametrize("old", ["those of an older chart", "none"])
def test_missing_defaults_are_those_of_this_chart(tmp_path: Path, old: str) -> None:
    """After `helm upgrade --reuse-values` Helm has the defaults of the older chart."""
    text = "{}"
    if old != "none":
        shown = subprocess.run(["git", "-C", ROOT, "show", f"{OLD_CHART}:deploy/helm/headroom/values.yaml"], capture_output=True, text=True, check=False)
        if shown.returncode != 0:
            pytest.skip(f"this clone has no commit {OLD_CHART}")
        text = shown.stdout
    chart = shutil.copytree(CHART, tmp_path / "headroom")
    (chart / "values.yaml").write_text(text)
    for values in ({}, ALL, {"mode": "restore"}):
        assert render(values, chart=chart) == render(values)


def test_a_change_of_a_configuration_replaces_the_pods_of_its_profile_only() -> None:
    before, after, again = (
        {name: each["spec"]["template"] for name, each in agents(render({"profiles": [{**PROFILE, "config": config}]})).items()}
        for config in ({}, {"neighbor": {"grow": False}}, {})
    )
    assert before["headroom"] == after["headroom"] and before["headroom-canary"] != after["headroom-canary"]
    assert before == again


def test_the_hook_checks_each_configuration_with_its_own_image() -> None:
    values = {
        "profiles": [{**PROFILE, "image": {"tag": "1.5.0"}, "config": {"profile": "etcd"}}],
        "extraVolumes": [{"name": "web", "secret": {"secretName": "web"}}],
        "extraVolumeMounts": [{"name": "web", "mountPath": "/web"}],
    }
    objects = render(values)
    job, texts = objects["Job/headroom-check-config"], objects["ConfigMap/headroom-check-config"]
    assert {each["metadata"]["annotations"]["helm.sh/hook"] for each in (job, texts)} == {"pre-install,pre-upgrade,pre-rollback"}
    assert int(texts["metadata"]["annotations"]["helm.sh/hook-weight"]) < int(job["metadata"]["annotations"]["helm.sh/hook-weight"])
    for name, image in (("headroom-canary", "headroom:1.5.0"), ("headroom", f"headroom:{VERSION}")):
        [container] = [each for each in pod_of(job)["containers"] if each["name"] == name]
        assert (container["image"], container["args"]) == (image, ["check-config", f"/config/{name}.yaml"])
        assert {"name": "web", "mountPath": "/web"} in container["volumeMounts"]
        assert yaml.safe_load(texts["data"][f"{name}.yaml"]) == config_of(objects, name)
    assert job["spec"]["backoffLimit"] == 0 and job["spec"]["activeDeadlineSeconds"] < 300
    assert not [name for name in render({"checkConfig": False}) if "check-config" in name]


def test_nodes_may_be_without_tolerations() -> None:
    objects = render({"tolerations": [], "capabilities": []})
    pods = [each["spec"] if name.startswith("Pod/") else pod_of(each) for name, each in objects.items() if name.split("/")[0] in ("DaemonSet", "Job", "Pod")]
    assert [pod.get("tolerations") for pod in pods] == [[]] * 5


def test_the_jobs_of_hooks_tolerate_no_node_without_a_kubelet() -> None:
    values = {"tolerations": [{"operator": "Exists"}, {"key": "pool", "operator": "Exists"}, {"key": "node.kubernetes.io/unreachable"}]}
    objects = render({**values, "hookTolerations": [{"key": "all", "operator": "Exists"}], "nodeSelector": {"pool": "web"}})
    for name in ("check-config", "restore"):
        pod = pod_of(objects[f"Job/headroom-{name}"])
        keys = [toleration.get("key") for toleration in pod["tolerations"]]
        assert None not in keys and not [key for key in keys if key.startswith("node.kubernetes.io/")]
        assert {"pool", "all", "node-role.kubernetes.io/control-plane"} <= set(keys)
        assert pod["nodeSelector"] == {"pool": "web", "kubernetes.io/os": "linux"}


def test_the_mode_restore_replaces_the_agents_by_pods_that_restore() -> None:
    values = {"profiles": [{**PROFILE, "config": {"profile": "etcd"}}], "config": {"http": {"listen": "0.0.0.0:9999"}}, "updateStrategy": {"type": "OnDelete"}}
    normal, objects = render(values), render({**values, "mode": "restore"})
    assert set(agents(objects)) == {"headroom", "headroom-canary"}
    assert not [name for name in objects if name.startswith("Job/") or name.endswith("-restore")], "no hook is left"
    for name, each in agents(objects).items():
        before, pod = normal[f"DaemonSet/{name}"], pod_of(each)
        assert each["spec"]["selector"] == before["spec"]["selector"], "it cannot be changed"
        assert each["spec"]["selector"]["matchLabels"].items() <= each["spec"]["template"]["metadata"]["labels"].items()
        assert each["spec"]["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%"}}
        for key in ("nodeSelector", "affinity", "tolerations"):
            assert pod.get(key) == pod_of(before).get(key), "the nodes of the agents"
        [init], [done] = pod["initContainers"], pod["containers"]
        assert init["args"] == ["restore", "--purge"]
        assert {"name": "HEADROOM_OWNER", "value": "helm-release/default/headroom"} in init["env"]
        assert done["args"] == ["agent", "--observe"] and done["ports"][0]["containerPort"] == 9999
        assert config_of(objects, name) == {"http": {"listen": "0.0.0.0:9999"}, "doctor": {"ignore": ["*"]}}


@pytest.mark.parametrize("kind, value", [("PodMonitor", "podMonitor"), ("ServiceMonitor", "serviceMonitor")])
def test_a_monitor_keeps_its_labels_beside_further_relabelings(kind: str, value: str) -> None:
    more = {"sourceLabels": ["__meta_kubernetes_node_label_zone"], "targetLabel": "zone"}
    monitor = {"enabled": True, "interval": "15s", "namespace": "monitoring", "labels": {"release": "prom"}, "endpoint": {"relabelings": [more], "scrapeTimeout": "9s"}}
    one = render({value: monitor, "config": {"http": {"listen": "0.0.0.0:19810"}}})[f"{kind}/headroom"]
    [endpoint] = one["spec"].get("podMetricsEndpoints") or one["spec"]["endpoints"]
    assert [each["targetLabel"] for each in endpoint["relabelings"]] == ["instance", "job", "zone"]
    assert (endpoint["interval"], endpoint["scrapeTimeout"]) == ("15s", "9s")
    assert one["metadata"]["namespace"] == "monitoring" and one["metadata"]["labels"]["release"] == "prom"
    assert one["spec"]["namespaceSelector"] == {"matchNames": ["default"]}
    assert one["spec"].get("serviceDiscoveryRole") == {"PodMonitor": None, "ServiceMonitor": "EndpointSlice"}[kind]


def test_single_rules_can_be_changed_or_switched_off() -> None:
    def rules(changes: dict[str, Any]) -> dict[str, dict[str, Any]]:
        spec = render({"prometheusRule": {"enabled": True, "rules": changes}})["PrometheusRule/headroom"]["spec"]
        return {rule.get("alert") or rule["record"]: rule for group in spec["groups"] for rule in group["rules"]}

    plain = rules({})
    changed = rules({"HeadroomPullStuck": {"enabled": False}, "HeadroomLimitFullSoon": {"for": "3h", "labels": {"severity": "info", "team": "infra"}}})
    assert set(plain) - set(changed) == {"HeadroomPullStuck"}
    soon = changed.pop("HeadroomLimitFullSoon")
    assert soon["for"] == "3h" and soon["labels"]["team"] == "infra" and soon["expr"] == plain["HeadroomLimitFullSoon"]["expr"]
    assert all(changed[name] == plain[name] for name in changed)


def test_the_alerts_about_agents_select_those_of_another_name(tmp_path: Path) -> None:
    values = {"fullnameOverride": "nodes", "prometheusRule": {"enabled": True}}
    (tmp_path / "rules.yaml").write_text(json.dumps(render(values)["PrometheusRule/nodes"]["spec"]))
    series = {}
    for name in ("nodes", "nodes-canary", "node-exporter", "nodesets"):
        series[f'up{{job="{name}"}}'] = "0x60"
        series[f'process_start_time_seconds{{job="{name}"}}'] = "0+1x60"
        series[f'kube_daemonset_status_desired_number_scheduled{{daemonset="{name}"}}'] = "100x60"
        series[f'kube_daemonset_status_number_ready{{daemonset="{name}"}}'] = "90x60"
        series[f'kube_pod_status_ready{{pod="{name}-x7k2p",condition="true"}}'] = "0x60"
    names = ("HeadroomAgentNotReady", "HeadroomDown", "HeadroomNodesWithoutAgent", "HeadroomRestarting")
    firing = f'count by (alertname) (ALERTS{{alertstate="firing",alertname=~"{"|".join(names)}"}})'
    case = {
        "interval": "1m",
        "input_series": [{"series": name, "values": text} for name, text in series.items()],
        "promql_expr_test": [
            {"expr": firing, "eval_time": "50m", "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 2} for name in names]}
        ],
    }
    (tmp_path / "tests.yaml").write_text(json.dumps({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [case]}))
    run = subprocess.run(["promtool", "test", "rules", tmp_path / "tests.yaml"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def test_helm_test_asks_any_agent_of_the_release() -> None:
    """Perhaps all nodes belong to a profile."""
    values = {
        "profiles": [{**PROFILE, "tolerations": [{"key": "canary", "operator": "Exists"}]}],
        "securityContext": {"seLinuxOptions": {"type": "spc_t"}},
        "tolerations": [{"operator": "Exists"}, {"key": "node.kubernetes.io/unreachable"}],
    }
    objects = render(values)
    pod = objects["Pod/headroom-test"]["spec"]
    [near] = pod["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    for each in agents(objects).values():
        assert near["labelSelector"]["matchLabels"].items() <= each["spec"]["template"]["metadata"]["labels"].items()
    other = {"app.kubernetes.io/name": "headroom", "app.kubernetes.io/instance": "headroom"}
    assert near["labelSelector"]["matchLabels"] == other, "of this release"
    keys = [toleration.get("key") for toleration in pod["tolerations"]]
    assert "canary" in keys and "node-role.kubernetes.io/control-plane" in keys
    assert None not in keys and "node.kubernetes.io/unreachable" not in keys, "the pod would never end there"
    for container in pod["initContainers"] + pod["containers"]:
        assert container["securityContext"]["seLinuxOptions"] == {"type": "spc_t"}


def test_the_notes_name_a_command_that_finds_an_agent(notes: Callable[..., str]) -> None:
    assert "kubectl -n nodes exec ds/headroom -- headroom status" in notes({})
    some = "$(kubectl -n nodes get pods -l app.kubernetes.io/name=headroom,app.kubernetes.io/instance=headroom -o name | head -n 1)"
    assert f"exec {some} -- headroom status" in notes({"profiles": [PROFILE]})


def test_the_notes_of_a_restoration_list_all_nodes_but_the_restored(notes: Callable[..., str]) -> None:
    """The phase of a pod on a node without a kubelet stays Running."""
    text = notes({"mode": "restore"})
    [command] = [line.strip() for line in text.splitlines() if "get pods" in line]
    assert command.endswith("-o wide | grep -vw Running") and "phase" not in text
    listed = "NAME READY STATUS NODE\na-1 1/1 Running n1\na-2 1/1 Terminating n2\na-3 0/1 Init:0/1 n3\n"
    script = f"kubectl() {{ printf '{listed}'; }}; {command}"
    left = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout
    assert [line.split()[-1] for line in left.splitlines()] == ["NODE", "n2", "n3"]


def test_before_kubernetes_1_30_an_uninstallation_restores_nothing_and_the_notes_say_so(notes: Callable[..., str]) -> None:
    """The API server of 1.29 refuses a pod that sleeps in a hook."""
    for version, restores in (("1.25.0", False), ("1.29.9-gke.1", False), ("1.30.0-gke.1", True), ("1.34.0", True)):
        option = f"--kube-version={version}"
        objects = render({}, option)
        assert [name for name in objects if name.endswith("-restore")] == (["DaemonSet/headroom-restore", "Job/headroom-restore"] if restores else [])
        assert ("sleep" in json.dumps(objects)) == restores
        text = notes({}, option)
        assert ("Kubernetes before 1.30 cannot wait" in text) == (not restores)
        assert ("Helm cannot count the nodes" in text) == restores
    assert render({"mode": "restore"}, "--kube-version=1.25.0")["DaemonSet/headroom"]


def test_the_dashboard_is_a_config_map_for_the_sidecar() -> None:
    values = {"enabled": True, "namespace": "monitoring", "annotations": {"grafana_folder": "Nodes"}}
    one = render({"dashboard": values})["ConfigMap/headroom-dashboard"]
    assert one["metadata"]["labels"]["grafana_dashboard"] == "1" and one["metadata"]["namespace"] == "monitoring"
    assert one["metadata"]["annotations"] == {"grafana_folder": "Nodes"}
    assert json.loads(one["data"]["headroom.json"]) == json.loads((CHART.parents[1] / "grafana/headroom.json").read_text())


def test_names_and_labels_reach_all_objects() -> None:
    values = {
        "fullnameOverride": "nodes", "commonLabels": {"team": "infra"}, "revisionHistoryLimit": 3,
        "extraContainers": [{"name": "proxy", "image": "proxy:1"}], "config": {"http": {"listen": "0.0.0.0:1"}},
        "podLabels": {"pool": "all"}, "podAnnotations": {"inject": "false"},
        **{name: {"enabled": True} for name in ("prometheusRule", "dashboard", "networkPolicy")},
    }  # fmt: skip
    kinds, objects = set(), {}
    for more in ({"podMonitor": {"enabled": True}}, {"serviceMonitor": {"enabled": True}}, {"mode": "restore"}):
        objects |= (rendered := render({**values, **more}))
        for name, each in rendered.items():
            assert each["metadata"]["name"].split("-")[0] == "nodes", name
            assert each["metadata"]["labels"]["team"] == "infra", name
            pod = each if each["kind"] == "Pod" else each.get("spec", {}).get("template")
            if pod:
                kinds.add(each["kind"])
                assert {"team": "infra", "pool": "all"}.items() <= pod["metadata"]["labels"].items(), name
                assert {"inject": "false"}.items() <= pod["metadata"]["annotations"].items(), name
    assert kinds == {"DaemonSet", "Job", "Pod"}
    objects |= render(values)
    agent = objects["DaemonSet/nodes"]
    assert agent["spec"]["template"]["metadata"]["labels"]["team"] == "infra" and agent["spec"]["revisionHistoryLimit"] == 3
    assert [container["name"] for container in pod_of(agent)["containers"]] == ["headroom", "proxy"]
    assert "team" not in agent["spec"]["selector"]["matchLabels"], "labels can change later"


def test_the_chart_is_an_oci_artifact(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    environment = {**os.environ, "HOME": str(tmp_path)}

    def helm(*args: str) -> str:
        return subprocess.run([HELM, *args], env=environment, capture_output=True, text=True, check=True).stdout

    try:
        helm("package", str(CHART), "--destination", str(tmp_path))
        [package] = tmp_path.glob("headroom-*.tgz")
        helm("push", str(package), f"oci://{registry.name}/charts", "--plain-http")
        assert helm("template", "headroom", f"oci://{registry.name}/charts/headroom", "--plain-http") == helm("template", "headroom", str(CHART))
    finally:
        registry.stop()
