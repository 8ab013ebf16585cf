#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rules, dashboard, troubleshooting and chart agree with the program's tables and with each other.

check_deploy.py METRICS_MD TABLES [--write]: the generated reference of metrics, conditions and limits; the program that prints the
tables. --write updates the configuration keys in the chart's schema.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
REFERENCE = Path(sys.argv[1]).read_text()

faults = []


def fault_unless(good, text):
    if not good:
        faults.append(text)


def reference_rows(cells):
    """First cell -> other cells, of tables with this number of cells."""
    rows = [re.split(r" *(?<!\\)\| *", line.strip("| ")) for line in REFERENCE.splitlines() if line.startswith("| `")]
    return {row[0].strip("`"): row[1:] for row in rows if len(row) == cells}


def sections():
    """Heading -> text of the troubleshooting document."""
    parts = re.split(r"^## (.+)$", (DEPLOY / "TROUBLESHOOTING.md").read_text(), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


def check_sections(conditions, documented, alerts):
    """Each condition has a section that begins with the program's own text. Each section belongs to a condition or an alert."""
    for name, (severity, text) in conditions.items():
        fault_unless(
            documented.get(name, "").strip().split("\n\n")[0] == f"*{severity}*: {text}",
            f"TROUBLESHOOTING.md: section {name} does not begin with: *{severity}*: {text}",
        )
    for name in documented:
        fault_unless(name in conditions or name in alerts, f"TROUBLESHOOTING.md: {name} is no condition and no alert")


def check_alert(alert, documented):
    notes, where = alert["annotations"], f"alert {alert['alert']}"
    for note in ("summary", "description", "runbook_url"):
        fault_unless(notes.get(note), f"{where}: no {note}")
    anchor = notes["runbook_url"].partition("TROUBLESHOOTING.md#")[2]
    known = {name.lower() for name in documented} | {"{{ $labels.condition | tolower }}"}
    fault_unless(anchor.lower() in known, f"{where}: nothing at #{anchor}")
    fault_unless(alert["labels"]["severity"] in ("critical", "warning", "info"), f"{where}: its severity")


def check_names(expressions, known, conditions):
    """The expressions use only metrics and conditions that exist."""
    for where, expression in expressions:
        for name in "|".join(re.findall(r'condition!?=~?"([^"]+)"', expression)).split("|"):
            fault_unless(name in conditions or not name, f"{where}: no condition is called {name}")
        plain = re.sub(r'"[^"]*"', "", expression)
        for name in re.findall(r"(?<![\w:])((?:headroom|process)_\w+)", plain):
            base = re.sub(r"_(bucket|sum|count)$", "", name)
            fault_unless(name in known or base in known, f"{where}: no metric is called {name}")
        for name in re.findall(r"\b\w+:\w+:\w+\b", plain):
            fault_unless(name in known, f"{where}: nothing records {name}")


def check_prometheusrule(rules):
    printed = subprocess.run([DEPLOY / "prometheus/prometheusrule"], capture_output=True, text=True, check=True).stdout
    fault_unless(yaml.safe_load(printed)["spec"] == rules, "prometheusrule prints other rules than rules.yaml")


def check_promtool():
    if not shutil.which("promtool"):
        faults.append("no promtool: install the package prometheus")
        return
    tests = DEPLOY / "prometheus/tests.yaml"
    run = subprocess.run(["promtool", "test", "rules", tests], capture_output=True, text=True, check=False)
    fault_unless(run.returncode == 0, run.stdout + run.stderr)


def check_tested(alerts):
    """Each alert has a test case in which it fires, and another one in which it is silent."""
    cases = yaml.safe_load((DEPLOY / "prometheus/tests.yaml").read_text())["tests"]
    tested = [test for case in cases for test in case.get("alert_rule_test", [])]
    for name in alerts:
        outcomes = {bool(test.get("exp_alerts")) for test in tested if test["alertname"] == name}
        fault_unless(outcomes == {True, False}, f"tests.yaml: {name} is not tried firing and silent")


def dashboard_expressions():
    for path in DEPLOY.glob("grafana/*.json"):
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel.get("targets", []):
                yield f"{path.name}: {panel['title']}", target["expr"]


def agree(what, one, other):
    fault_unless(one == other, f"{what}: {one!r} and {other!r}")


def load(path):
    return yaml.safe_load((DEPLOY / "helm/headroom" / path).read_text())


def check_chart():
    """Versions, the chart's defaults, its manifests and the README's tables agree."""
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

    owners = [e["value"] for c in (container, restoring) for e in c["env"] if e["name"] == "HEADROOM_OWNER"]
    agree("HEADROOM_OWNER of agent and restore", owners, ["daemonset"] * 2)
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


def schema_of(keys, old):
    """The schema of these keys, each with what was added to it by hand."""
    properties = {}
    for name in dict.fromkeys(key.split(".")[0] for key in keys):
        below = [key.partition(".")[2] for key in keys if key.startswith(f"{name}.")]
        properties[name] = old.get(name, {} if below else True)
        if below:
            types = ["object", "null"] + (["string", "integer"] if name in keys else [])
            inner = schema_of(below, properties[name].get("properties", {}))
            properties[name] = {"type": types, "additionalProperties": False, **properties[name], "properties": inner}
    return properties


def check_schema():
    """The chart's schema accepts exactly the values of values.yaml and the configuration keys of the program."""
    path = DEPLOY / "helm/headroom/values.schema.json"
    text = path.read_text()
    schema = json.loads(text)
    agree("keys of values.yaml and its schema", set(load("values.yaml")), set(schema["properties"]) - {"global"})
    printed = subprocess.run([sys.argv[2], "names"], capture_output=True, text=True, check=True).stdout
    keys = [key for key in re.findall(r"^config key\t(.+)$", printed, re.M) if key != "sysctl.mode"]  # sysctl has keys of the kernel
    wanted = schema_of(keys, schema["definitions"]["configuration"]["properties"])
    lines = ",\n".join(f'        "{name}": {json.dumps(value)}' for name, value in wanted.items())
    new = re.sub(r'("configuration": \{.*?"properties": \{\n).*?(?=\n      \}\n    \},\n)', lambda match: match[1] + lines, text, count=1, flags=re.S)
    if "--write" in sys.argv:
        path.write_text(new)
    elif new != text:
        faults.append(f"values.schema.json: its configuration keys are not those of the program: run {' '.join(sys.argv)} --write")


rules = yaml.safe_load((DEPLOY / "prometheus/rules.yaml").read_text())
every = [rule for group in rules["groups"] for rule in group["rules"]]
alerts = {rule["alert"]: rule for rule in every if "alert" in rule}
conditions, documented = reference_rows(3), sections()
known = set(reference_rows(5)) | {rule["record"] for rule in every if "record" in rule}
expressions = [(rule.get("alert") or rule["record"], rule["expr"]) for rule in every]
expressions += dashboard_expressions()

check_sections(conditions, documented, alerts)
for alert in alerts.values():
    check_alert(alert, documented)
check_names(expressions, known, conditions)
check_prometheusrule(rules)
check_promtool()
check_tested(alerts)
check_chart()
check_schema()
print(f"{len(conditions)} conditions, {len(alerts)} alerts, {len(expressions)} expressions")
print("\n".join(faults))
sys.exit(1 if faults else 0)
