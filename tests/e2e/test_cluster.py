# SPDX-License-Identifier: Apache-2.0
"""Chart and kustomization on a real cluster of one node, from the installation to the removal. Each test needs those before it."""

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import urllib.request
from datetime import datetime
from pathlib import Path
from typing import Any, Iterator

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/root"), str(ROOT / "tests/e2e")]

from cluster import CGROUP, TOOLS, Cluster, write_image  # noqa: E402
from conftest import LOCK, THP, THRESHOLDS, Node, selected, thresholds, until  # noqa: E402
from storm import NAMES, table  # noqa: E402

CHART = str(ROOT / "deploy/helm/headroom")
KUSTOMIZE = ROOT / "deploy/kustomize"
NAMESPACE = "headroom"
IN = ("--namespace", NAMESPACE)
ARCHIVED = "registry.invalid/preloaded:1"
QUICK = ("--set", "minReadySeconds=0", "--set", "restore.seconds=10")
# Headroom could leave files here.
PLACES = ("/run", "/var/lib", "/etc", "/opt", "/usr/local")
OUR_PROGRAMS = ("dns_egress", "dns_ingress", "neigh_create", "neigh_release")
MOVING = re.compile(r"^/(run/(containerd|netns|lock|k3s)|var/lib/(kubelet|cni|containers?|containerd|apt|dpkg|docker)|etc/(cni|mtab))(/|$)")


@pytest.fixture(scope="module")
def machine() -> Iterator[Node]:
    """Values that differ from what the agent wants, before there is a cluster."""
    with LOCK.open("a") as lock:  # tests/root change the same values
        fcntl.flock(lock, fcntl.LOCK_EX)
        records = [Path("/run/headroom"), Path("/var/lib/headroom")]
        assert not any(path.exists() for path in records), "an agent was here: headroom restore --purge"
        before = Node()
        Node.prepare()
        yield Node(before.paths)
        before.restore()
        for path in records:
            shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def cluster(machine: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    images = [Path(os.environ["HEADROOM_IMAGE"])]
    programs = [Path(os.environ[name]) for name in ("HEADROOM_KUBERNETES", "HEADROOM_CONTAINERD")]
    one = Cluster(tmp_path_factory.mktemp("cluster"), *programs, images)
    try:
        one.start()
        yield one
    except BaseException:
        print(one.logs())
        raise
    finally:
        one.stop()


def traces(cluster: Cluster) -> dict[str, Any]:
    """What a removal must leave as it was, besides values: files of the node, and mounts and BPF programs of Headroom."""
    inside = cluster.inside()
    found = subprocess.run([*inside, "find", *PLACES, "-xdev"], capture_output=True, text=True).stdout.splitlines()
    mounts = subprocess.run([*inside, "cat", "/proc/self/mounts"], capture_output=True, text=True).stdout.splitlines()
    programs = subprocess.run(["bpftool", "-j", "prog", "show"], capture_output=True, text=True, check=True).stdout
    return {
        "files": sorted(path for path in found if not MOVING.match(path)),
        "containerd": {p.name: p.read_text() for p in (cluster.directory / "node/etc-containerd").rglob("*.toml")},
        "mounts": sorted(line for line in mounts if re.search("/headroom( |/)", line) and "/var/lib/kubelet" not in line),
        "bpf": sorted(p["name"] for p in json.loads(programs) if p.get("name") in OUR_PROGRAMS),
    }


def status(cluster: Cluster) -> dict[str, Any]:
    return json.loads(cluster.kubectl(*IN, "exec", "ds/headroom", "--", "headroom", "status", "--json", check=False).split("\ncommand term")[0])


def condition(cluster: Cluster, name: str) -> dict[str, str]:
    return next(c for c in status(cluster)["conditions"] if c["type"] == name)


def setting(cluster: Cluster, name: str) -> dict[str, str]:
    return next(s for s in status(cluster)["settings"] if s["name"] == name)


def rolled_out(cluster: Cluster, name: str = "headroom") -> None:
    cluster.kubectl(*IN, "rollout", "status", f"ds/{name}", "--timeout=90s")


def gone(cluster: Cluster) -> bool:
    return "No resources found" in cluster.kubectl(*IN, "get", "pods", check=False)


def pod(cluster: Cluster) -> str:
    return cluster.kubectl(*IN, "get", "pods", "--output=name", "--selector=app.kubernetes.io/name=headroom").strip()


def refusals() -> int:
    """By the kernel's own count."""
    return sum(table(family)["table_fulls"] for family in NAMES)


def neighbor_hits(cluster: Cluster) -> int:
    return next(limit["hits"] for limit in status(cluster)["limits"] if limit["name"] == "neighbor/ipv4")


def test_the_image_holds_the_program_its_libraries_and_their_licences() -> None:
    with tarfile.open(os.environ["HEADROOM_IMAGE"]) as image:
        manifest = json.load(image.extractfile("./manifest.json"))[0]
        with tarfile.open(fileobj=image.extractfile("./" + manifest["Layers"][0])) as layer:
            files = [entry.name for entry in layer if not entry.isdir()]
    known = re.compile(r"./(usr/bin/headroom|(usr/)?lib[/\w-]*/[\w.+-]+\.so[.\d]*|usr/share/doc/[^/]+/copyright|var/lib/dpkg/status.d/[^/]+)")
    assert "./usr/bin/headroom" in files
    assert [name for name in files if not known.fullmatch(name)] == []


def test_the_api_server_accepts_chart_and_kustomization(cluster: Cluster) -> None:
    assert "0 chart(s) failed" in cluster.helm("lint", "--strict", CHART)
    for kind in ("PodMonitor", "ServiceMonitor", "PrometheusRule"):
        plural = kind.lower() + "s"
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        crd = {
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.monitoring.coreos.com"},
            "spec": {
                "group": "monitoring.coreos.com", "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
                "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
            },
        }  # fmt: skip
        cluster.kubectl("apply", "--filename=-", stdin=json.dumps(crd))
    cluster.kubectl("apply", "--kustomize", str(KUSTOMIZE / "namespace"))
    until(lambda: "monitoring" in cluster.kubectl("api-versions"), "the API server knows the kinds of Prometheus")
    profile = "profiles[0].name=etcd,profiles[0].nodeSelector.role=etcd,profiles[0].config.profile=etcd"
    everything = f"{profile},podMonitor.enabled=true,serviceMonitor.enabled=true,prometheusRule.enabled=true,networkPolicy.enabled=true,dashboard.enabled=true,config.http.listen=0.0.0.0:9999"
    dry = ("apply", "--dry-run=server", "--validate=strict")
    for options in ((), ("--set", everything), ("--set", "writableDirectories={/etc/docker}"), ("--set", f"mode=restore,{profile}")):
        manifests = cluster.helm("template", "headroom", CHART, *IN, *options)
        answer = cluster.kubectl(*dry, "--filename=-", stdin=manifests)
        assert "violate" not in answer, answer
        assert ("headroom-etcd" in answer) == any(profile in option for option in options)
    for overlay in ("base", *(f"overlays/{p.name}" for p in (KUSTOMIZE / "overlays").iterdir())):
        assert "violate" not in cluster.kubectl(*dry, "--kustomize", str(KUSTOMIZE / overlay)), overlay


def test_the_rules_of_the_chart_are_those_for_prometheus(cluster: Cluster) -> None:
    base = "https://git.example.com/headroom/blob/main"
    rendered = cluster.helm("template", "headroom", CHART, "--set", f"prometheusRule.enabled=true,prometheusRule.runbookBase={base}/")
    printed = subprocess.run([ROOT / "deploy/prometheus/prometheusrule", base], capture_output=True, text=True, check=True).stdout
    [rule] = [document for document in yaml.safe_load_all(rendered) if document["kind"] == "PrometheusRule"]
    assert rule["spec"] == yaml.safe_load(printed)["spec"]
    assert f"{base}/deploy/TROUBLESHOOTING.md#" in printed


@pytest.fixture(scope="module")
def before(cluster: Cluster) -> dict[str, Any]:
    return traces(cluster)


def install(cluster: Cluster, *options: str) -> None:
    cluster.helm("upgrade", "--install", "headroom", CHART, *IN, *QUICK, *options)
    rolled_out(cluster)


def assert_enforced(cluster: Cluster) -> None:
    assert thresholds() == (80000, 90000, 100000)
    assert selected(THP / "enabled") == "never"
    until(lambda: "max_concurrent_downloads = 10\n" in cluster.containerd_dump(), "containerd's file")


def assert_nothing_left(cluster: Cluster, machine: Node, before: dict[str, Any]) -> None:
    until(lambda: gone(cluster), "no pod is left")
    machine.assert_unchanged()
    now = traces(cluster)
    for what, had in before.items():
        assert now[what] == had, what


def test_the_chart_makes_the_node_ready_and_sets_it(cluster: Cluster, before: dict[str, Any]) -> None:
    began = time.monotonic()
    install(cluster)
    print(f"\ninstalled and Ready in {time.monotonic() - began:.1f} s")
    found = json.loads(cluster.kubectl(*IN, "get", pod(cluster), "--output=json"))["status"]
    at = [found["containerStatuses"][0]["state"]["running"]["startedAt"]]
    at += [each["lastTransitionTime"] for each in found["conditions"] if each["type"] == "Ready"]
    started, ready = (datetime.fromisoformat(each.replace("Z", "+00:00")) for each in at)
    print(f"the container is Ready after {(ready - started).seconds} s")
    assert (ready - started).seconds < 25, "not by the period of the readiness probe"
    assert_enforced(cluster)
    found = status(cluster)
    assert found["node"]["name"] == "node1"
    assert {t["state"] for t in found["tuners"]} == {"active"}, found["tuners"]
    assert condition(cluster, "AgentDegraded")["status"] == "False"
    assert condition(cluster, "SettingFailed")["status"] == "False"
    # This is the peak of the whole pod, including the containerd that checked the new configuration.
    [peak] = Path("/sys/fs/cgroup").glob(f"memory/{CGROUP}/**/burstable/*/memory.max_usage_in_bytes")
    print(f"memory: {int(peak.read_text()) >> 20} MiB at most")
    assert int(peak.read_text()) < 96 << 20, "far from the limit"
    manifest = json.loads(cluster.kubectl(*IN, "get", pod(cluster), "--output=json"))["spec"]
    assert "privileged" not in manifest["containers"][0]["securityContext"]
    assert not any("token" in volume["name"] for volume in manifest["volumes"])


def config_maps(cluster: Cluster) -> set[str]:
    names = cluster.kubectl(*IN, "get", "configmaps", "--selector=app.kubernetes.io/instance=headroom", "--output=name")
    return {name.partition("/")[2] for name in names.splitlines()}


def config_map(cluster: Cluster) -> str:
    """The one that the pod has mounted."""
    spec = json.loads(cluster.kubectl(*IN, "get", pod(cluster), "--output=json"))["spec"]
    return next(volume["configMap"]["name"] for volume in spec["volumes"] if volume["name"] == "config")


def test_helm_test_passes(cluster: Cluster) -> None:
    answer = cluster.helm("test", "headroom", *IN)
    print(answer)
    assert "Phase:          Succeeded" in answer and "node1" in answer, "it shows the status"
    assert "pods" not in cluster.kubectl(*IN, "get", "pod", "headroom-test", "--ignore-not-found")


def test_a_changed_configuration_replaces_the_pod_and_its_old_text_stays(cluster: Cluster) -> None:
    running, old = pod(cluster), config_map(cluster)
    install(cluster, "--set", "config.neighbor.ipv4.gc_thresh3=110000")
    assert thresholds()[2] == 110000
    assert pod(cluster) != running and config_map(cluster) != old
    assert {old, config_map(cluster)} <= config_maps(cluster), "for pods that have not been replaced, and for an undo"
    cluster.kubectl(*IN, "rollout", "undo", "ds/headroom")
    rolled_out(cluster)
    assert config_map(cluster) == old
    install(cluster, "--set", "config.neighbor.ipv4.gc_thresh3=110000")


DISORDER = "config.neighbor.ipv4.gc_thresh1=95000"  # above gc_thresh2, which the schema cannot tell


def test_a_faulty_configuration_stops_before_the_first_node(cluster: Cluster) -> None:
    before, running = config_maps(cluster), pod(cluster)
    options = ("upgrade", "headroom", CHART, *IN, *QUICK, "--set")
    for wrong in ("config.on_drift=bogus", "config.neighbor.ipv4.gc_thresh3=80k", "config.profile=kubernets"):
        assert "don't meet the specifications" in cluster.helm(*options, wrong, check=False)
    answer = cluster.helm(*options, DISORDER, check=False)
    assert "pre-upgrade hooks failed" in answer, answer
    assert "/config/headroom.yaml:" in answer and "gc_thresh1" in answer, answer
    assert pod(cluster) == running and config_maps(cluster) - before <= {"headroom-check-config"}


def test_a_pod_with_a_faulty_configuration_is_not_ready_and_says_why(cluster: Cluster) -> None:
    """This stops a roll-out, and the node keeps its last good configuration."""
    history = json.loads(cluster.helm("history", "headroom", *IN, "--output=json"))
    good = next(str(each["revision"]) for each in history if each["status"] == "deployed")
    cluster.helm("upgrade", "headroom", CHART, *IN, *QUICK, "--set", "checkConfig=false", "--set", DISORDER)
    running = cluster.kubectl(*IN, "rollout", "status", "ds/headroom", "--timeout=20s", check=False)
    assert "timed out" in running, running
    until(lambda: "gc_thresh1" in cluster.kubectl(*IN, "describe", pod(cluster)), "kubectl describe shows the fault", timeout=30)
    assert thresholds()[2] == 110000
    # Helm would go back to the upgrade that the hook has refused.
    assert "job headroom-check-config failed" in cluster.helm("rollback", "headroom", *IN, check=False)
    cluster.helm("rollback", "headroom", good, *IN, "--wait")
    rolled_out(cluster)
    assert thresholds()[2] == 110000


def start_load(cluster: Cluster, entries: int, rate: int) -> None:
    spec = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "load", "namespace": "default"},
        "spec": {
            "automountServiceAccountToken": False,
            "dnsPolicy": "Default",
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "load", "image": TOOLS, "imagePullPolicy": "Never",
                "command": ["/bin/busybox", "chroot", "/host", "/usr/bin/python3", str(ROOT / "tests/e2e/load.py"), str(entries), str(rate)],
                "volumeMounts": [{"name": "host", "mountPath": "/host", "readOnly": True}],
            }],
            "volumes": [{"name": "host", "hostPath": {"path": "/"}}],
        },
    }  # fmt: skip
    cluster.kubectl("apply", "--filename=-", stdin=json.dumps(spec))
    cluster.kubectl("wait", "--for=condition=Ready", "pod/load", "--timeout=30s")


def test_an_upgrade_under_load_loses_nothing_and_names_the_busy_pod(cluster: Cluster) -> None:
    refused, original, hits = refusals(), setting(cluster, THRESHOLDS[2])["original"], neighbor_hits(cluster)
    start_load(cluster, 40000, 1000)
    try:
        for command in ("neighbor", "dns"):
            top = ("exec", "ds/headroom", "--", "headroom", "top", command)
            until(lambda: "default/load" in cluster.kubectl(*IN, *top), f"headroom top {command} names the pod")
        old = pod(cluster)
        lowest = [thresholds()[2]]
        cluster.kubectl(*IN, "rollout", "restart", "ds/headroom")
        while "successfully rolled out" not in cluster.kubectl(*IN, "rollout", "status", "ds/headroom", "--watch=false"):
            lowest.append(thresholds()[2])
        assert pod(cluster) != old
        assert min(lowest) == 110000, "the values stay while no agent runs"
        until(lambda: "refused" in cluster.kubectl("logs", "load"), "the storm is over", timeout=90)
        assert "refused 0 of 40000" in cluster.kubectl("logs", "load")
        assert refusals() == refused
        assert neighbor_hits(cluster) == hits, "a counter goes on, and nothing was refused"
        assert setting(cluster, THRESHOLDS[2])["original"] == original, "the records survive"
        until(lambda: "default/load" in cluster.kubectl(*IN, *top), "the new agent names the pod")
    finally:
        cluster.kubectl("delete", "pod", "load", "--now")


CAPABILITIES = {
    "NET_ADMIN": ("dns",),
    "BPF": ("neighbor", "dns"),
    "PERFMON": ("neighbor", "dns"),
    "SYS_NICE": (),
    "SYS_CHROOT": ("runtime",),
}


@pytest.mark.parametrize("missing", CAPABILITIES)
def test_a_missing_capability_degrades_only_the_tuners_that_need_it(cluster: Cluster, missing: str) -> None:
    # The original values and the original file are back, so that a value that cannot be set is visible.
    cluster.helm("uninstall", "headroom", *IN)
    until(lambda: gone(cluster), "no pod is left")
    rest = ",".join(name for name in CAPABILITIES if name != missing)
    install(cluster, "--set", f"capabilities={{{rest}}}")

    def degraded_ones() -> dict[str, str]:
        return {t["name"]: t["why"] for t in status(cluster)["tuners"] if t["state"] == "degraded"}

    # BPF programs load in the background, and the first sample of the runtime follows.
    time.sleep(3)
    degraded, found = degraded_ones(), status(cluster)
    # containerd is not restarted. Debian's version lacks a timeout of pulls.
    good = ("in-sync", "pending", "unsupported")
    failed = {s["name"]: s["reason"] for s in found["settings"] if s["state"] not in good and s["reason"] != "kept"}
    log = cluster.kubectl(*IN, "logs", "ds/headroom")
    # On cgroup v1, a kernel with CONFIG_RT_GROUP_SCHED refuses real-time priority in any case, for lack of a budget.
    assert missing != "SYS_NICE" or "CAP_SYS_NICE" in log, log
    print(f"\n{missing}: degraded {degraded} failed {failed}\n{log}")
    assert set(degraded) == set(CAPABILITIES[missing]), degraded
    assert all(f"CAP_{missing}" in why for why in degraded.values()), degraded
    files = {"containerd.max_concurrent_downloads", "containerd.image_pull_progress_timeout"}
    assert set(failed) == (files if missing == "SYS_CHROOT" else set()), failed
    assert thresholds() == (80000, 90000, 100000)


@pytest.mark.parametrize("volume, path", [("run", "/run/headroom"), ("state", "/var/lib/headroom")])
def test_a_pod_without_the_hosts_directories_observes_and_says_why(
    cluster: Cluster, machine: Node, before: dict[str, Any], volume: str, path: str
) -> None:
    """Without /run/headroom it writes nothing. Without /var/lib/headroom it writes values, but edits no files."""
    cluster.helm("uninstall", "headroom", *IN)
    until(lambda: gone(cluster), "no pod is left")
    manifests = cluster.helm("template", "headroom", CHART, *IN, *QUICK, "--no-hooks")
    host = rf"hostPath:\n +path: {path}\n +type: DirectoryOrCreate\n( +)name: {volume}"
    wrong = re.sub(host, rf"emptyDir: {{}}\n\1name: {volume}", manifests)
    assert wrong != manifests
    cluster.kubectl("apply", "--filename=-", stdin=wrong)
    try:
        rolled_out(cluster)
        degraded = until(lambda: (c := condition(cluster, "AgentDegraded"))["status"] == "True" and c, "it says why")
        assert f"{path}: not the host's" in degraded["message"]
        assert traces(cluster)["containerd"] == before["containerd"]
        assert (setting(cluster, THRESHOLDS[2])["state"] == "observed") == (volume == "run")
        if volume == "run":
            machine.assert_unchanged()
    finally:
        cluster.kubectl("delete", "--filename=-", stdin=wrong)
        until(lambda: gone(cluster), "no pod is left")
    install(cluster)


def is_pinned(cluster: Cluster, name: str) -> bool:
    lines = cluster.ctr("images", "ls").stdout.splitlines()
    return "io.cri-containerd.pinned=pinned" in next(line for line in lines if line.startswith(name + " "))


def test_an_archive_on_the_nodes_disk_is_an_image_before_the_pod_that_needs_it(cluster: Cluster) -> None:
    """The archive is larger than the agent's memory limit."""
    archive = cluster.directory / "node/archives/app.tar.gz"
    archive.parent.mkdir()
    write_image(archive, ARCHIVED, 200 << 20)
    assert ARCHIVED not in cluster.ctr("images", "ls", "--quiet").stdout
    install(cluster, "--set", f"config.images.archives={{{archive.parent}}},config.images.pin={{sandbox,{ARCHIVED}}}")

    def ready() -> bool:
        return any(i["name"] == ARCHIVED and i["state"] == "ready" for i in status(cluster)["images"])

    began = time.monotonic()
    until(ready, "the image is there", timeout=120)
    print(f"\nloaded in {time.monotonic() - began:.1f} s")
    [state] = json.loads(cluster.kubectl(*IN, "get", pod(cluster), "--output=json"))["status"]["containerStatuses"]
    assert state["restartCount"] == 0, state
    run = ("run", "preloaded", f"--image={ARCHIVED}", "--image-pull-policy=Never", "--overrides", '{"spec": {"hostNetwork": true}}')
    cluster.kubectl(*run)
    try:
        cluster.kubectl("wait", "--for=condition=Ready", "pod/preloaded", "--timeout=30s")
    finally:
        cluster.kubectl("delete", "pod", "preloaded", "--now")
    if cluster.generation == "1":  # Debian's 1.6.20
        assert setting(cluster, f"pin.{ARCHIVED}")["reason"] == "pins-ignored"
    else:
        until(lambda: is_pinned(cluster, ARCHIVED), "the label")
        until(lambda: any(i["name"] == ARCHIVED and i["pinned"] for i in status(cluster)["images"]), "as the CRI says")
    assert "headroom-preload" not in cluster.ctr("images", "ls", "--quiet").stdout, "only the wanted names"


def test_an_uninstalled_chart_leaves_nothing_and_a_new_one_enforces(
    cluster: Cluster, machine: Node, before: dict[str, Any]
) -> None:
    began = time.monotonic()
    cluster.helm("uninstall", "headroom", *IN)
    print(f"\nuninstalled in {time.monotonic() - began:.1f} s")
    assert_nothing_left(cluster, machine, before)
    assert not is_pinned(cluster, ARCHIVED), "the image stays, the pin goes"
    install(cluster)
    assert_enforced(cluster)
    cluster.helm("uninstall", "headroom", *IN)
    assert_nothing_left(cluster, machine, before)


OLD_CHART = "634f29d0"  # the last commit whose ConfigMap was edited in place


def test_an_upgrade_from_an_older_chart_keeps_originals_and_names(cluster: Cluster, machine: Node, before: dict[str, Any], tmp_path: Path) -> None:
    archive = subprocess.run(["git", "-C", str(ROOT), "archive", OLD_CHART, "deploy/helm/headroom"], capture_output=True)
    if archive.returncode != 0:
        pytest.skip(f"this clone has no commit {OLD_CHART}")
    subprocess.run(["tar", "--extract", "--directory", str(tmp_path)], input=archive.stdout, check=True)
    cluster.helm("install", "headroom", str(tmp_path / "deploy/helm/headroom"), *IN, *QUICK, "--set", "config.neighbor.ipv4.gc_thresh3=120000")
    rolled_out(cluster)
    original, running = setting(cluster, THRESHOLDS[2])["original"], pod(cluster)
    cluster.helm("upgrade", "headroom", CHART, *IN, "--reset-then-reuse-values")
    rolled_out(cluster)
    assert pod(cluster) != running
    assert {"headroom", config_map(cluster)} <= config_maps(cluster), "the text of pods that have not been replaced"
    assert setting(cluster, THRESHOLDS[2])["original"] == original and thresholds()[2] == 120000
    cluster.helm("rollback", "headroom", "1", *IN)
    rolled_out(cluster)
    cluster.helm("uninstall", "headroom", *IN)
    assert_nothing_left(cluster, machine, before)


def test_the_mode_restore_restores_without_a_clock(cluster: Cluster, machine: Node, before: dict[str, Any]) -> None:
    install(cluster)
    assert_enforced(cluster)
    install(cluster, "--set", "mode=restore", "--set", "config.http.listen=127.0.0.1:19811")
    machine.assert_unchanged()
    page = urllib.request.urlopen("http://127.0.0.1:19811/metrics", timeout=5).read().decode()
    modes = set(re.findall(r'^headroom_tuner_mode\{.*mode="(\w+)"\} 1$', page, re.M))
    assert modes <= {"observe", "off"} and "headroom_finding{" not in page, page
    began = time.monotonic()
    cluster.helm("uninstall", "headroom", *IN)
    assert time.monotonic() - began < 8, "no hook waits"
    assert_nothing_left(cluster, machine, before)
    install(cluster)
    assert_enforced(cluster)  # nothing is released


def dead_node(cluster: Cluster, name: str) -> None:
    """A node whose kubelet is gone. The scheduler would choose it, because it is empty."""
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/os": "linux", "kubernetes.io/hostname": name}}}
    cluster.kubectl("apply", "--filename=-", stdin=json.dumps(node))
    room = {"cpu": "64", "memory": "256Gi", "pods": "500"}
    cluster.kubectl("patch", "node", name, "--subresource=status", "--patch", json.dumps({"status": {"capacity": room, "allocatable": room}}))
    taints = ("get", "node", name, "--output=jsonpath={.spec.taints}")
    until(lambda: "unreachable" in (found := cluster.kubectl(*taints)) or "not-ready" in found, "the node is known to be dead", timeout=90)


def test_a_node_without_a_kubelet_does_not_hold_up_a_removal(cluster: Cluster, machine: Node, before: dict[str, Any]) -> None:
    install(cluster, "--set", "restore.seconds=15")
    dead_node(cluster, "node2")
    try:
        began = time.monotonic()
        cluster.helm("uninstall", "headroom", *IN)
        assert time.monotonic() - began < 60
    finally:
        cluster.kubectl("delete", "node", "node2")
    assert_nothing_left(cluster, machine, before)


def test_kubectl_alone_installs_and_restores(cluster: Cluster, machine: Node, before: dict[str, Any]) -> None:
    """As a tool does that renders the chart and runs no hooks."""
    for mode in ("agent", "restore"):
        manifests = cluster.helm("template", "headroom", CHART, *IN, *QUICK, "--no-hooks", "--set", f"mode={mode}")
        cluster.kubectl("apply", "--filename=-", stdin=manifests)
        rolled_out(cluster)
        if mode == "agent":
            assert_enforced(cluster)
        else:
            machine.assert_unchanged()
    cluster.kubectl("delete", "--filename=-", stdin=manifests)
    cluster.kubectl(*IN, "delete", "configmaps", "--selector=app.kubernetes.io/instance=headroom")
    assert_nothing_left(cluster, machine, before)


def test_the_kustomization_installs_and_restores(cluster: Cluster, machine: Node, before: dict[str, Any]) -> None:
    cluster.kubectl("apply", "--kustomize", str(KUSTOMIZE / "base"))
    rolled_out(cluster)
    assert_enforced(cluster)
    cluster.kubectl("delete", "--kustomize", str(KUSTOMIZE / "base"))
    assert thresholds()[2] == 100000, "deleting the pods restores nothing"
    cluster.kubectl("apply", "--kustomize", str(KUSTOMIZE / "overlays/restore"))
    rolled_out(cluster, "headroom-restore")
    machine.assert_unchanged()
    cluster.kubectl("delete", "--kustomize", str(KUSTOMIZE / "overlays/restore"))
    assert_nothing_left(cluster, machine, before)


def test_the_privileged_overlay_enforces(cluster: Cluster) -> None:
    cluster.kubectl("apply", "--kustomize", str(KUSTOMIZE / "overlays/privileged"))
    rolled_out(cluster)
    assert_enforced(cluster)
    cluster.kubectl("delete", "--kustomize", str(KUSTOMIZE / "overlays/privileged"))
    cluster.kubectl("apply", "--kustomize", str(KUSTOMIZE / "overlays/restore"))
    rolled_out(cluster, "headroom-restore")
    cluster.kubectl("delete", "--kustomize", str(KUSTOMIZE / "overlays/restore"))


def test_headroom_does_not_talk_to_the_api_server(cluster: Cluster) -> None:
    requests = [json.loads(line) for line in cluster.audit.read_text().splitlines()]
    clients = {(r["user"]["username"], r.get("userAgent", "").split("/")[0]) for r in requests}
    assert len(requests) > 100
    assert not [c for c in clients if "headroom" in " ".join(c)], clients
    known = {"admin", "system:apiserver", "system:kube-scheduler", "system:kube-controller-manager", "system:node:node1"}
    controllers = "system:serviceaccount:kube-system:"
    assert {user for user, _ in clients if not user.startswith(controllers)} <= known, clients
