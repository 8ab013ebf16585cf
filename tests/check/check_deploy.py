#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rules, dashboard, troubleshooting and chart agree with the program's tables and with each other.

check_deploy.py BUILD HEADROOM TABLES [--write]: as for check_source.py. --write updates the chart's schema, its defaults.json and the table of its README.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml
from tree import given_tree, report


def reference_rows(tree, cells):
    """First cell -> other cells, of tables with this number of cells in the generated reference."""
    reference = (tree.documents / "metrics.md").read_text()
    rows = [re.split(r" *(?<!\\)\| *", line.strip("| ")) for line in reference.splitlines() if line.startswith("| `")]
    return {row[0].strip("`"): row[1:] for row in rows if len(row) == cells}


def sections(tree):
    """Heading -> text of the troubleshooting document."""
    parts = re.split(r"^## (.+)$", tree.read("deploy/TROUBLESHOOTING.md"), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


def load(tree, path):
    return yaml.safe_load(tree.read(f"deploy/{path}"))


def rules(tree):
    return [rule for group in load(tree, "prometheus/rules.yaml")["groups"] for rule in group["rules"]]


def alerts(tree):
    return {rule["alert"]: rule for rule in rules(tree) if "alert" in rule}


def conditions(tree):
    return reference_rows(tree, 3)


def check_sections(tree):
    """Each condition has a section that begins with the program's own text. Each section belongs to a condition or an alert."""
    documented = sections(tree)
    for name, (severity, text) in conditions(tree).items():
        if documented.get(name, "").strip().split("\n\n")[0] != f"*{severity}*: {text}":
            yield f"TROUBLESHOOTING.md: section {name} does not begin with: *{severity}*: {text}"
    for name in set(documented) - set(conditions(tree)) - set(alerts(tree)):
        yield f"TROUBLESHOOTING.md: {name} is no condition and no alert"


def check_alerts(tree):
    """Each alert has notes, a section and a severity. Each group has an interval: that of Prometheus may be a few seconds."""
    for group in load(tree, "prometheus/rules.yaml")["groups"]:
        if "interval" not in group:
            yield f"group {group['name']}: no interval"
    known = {name.lower() for name in sections(tree)} | {"{{ $labels.condition | tolower }}"}
    for name, alert in alerts(tree).items():
        for note in {"summary", "description", "runbook_url"} - set(alert["annotations"]):
            yield f"alert {name}: no {note}"
        anchor = alert["annotations"].get("runbook_url", "").partition("TROUBLESHOOTING.md#")[2]
        if anchor.lower() not in known:
            yield f"alert {name}: nothing at #{anchor}"
        if alert["labels"]["severity"] not in ("critical", "warning", "info"):
            yield f"alert {name}: its severity"


def expressions(tree):
    """(where, expression) of all rules and panels."""
    for rule in rules(tree):
        yield rule.get("alert") or rule["record"], rule["expr"]
    for path in (tree.root / "deploy").glob("grafana/*.json"):
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel.get("targets", []):
                yield f"{path.name}: {panel['title']}", target["expr"]


def check_names(tree):
    """The expressions use only metrics and conditions that exist."""
    known = set(reference_rows(tree, 5)) | {rule["record"] for rule in rules(tree) if "record" in rule}
    for where, expression in expressions(tree):
        used = set("|".join(re.findall(r'headroom_\w+\{[^}]*?condition!?=~?"([^"]+)"', expression)).split("|")) - {""}
        yield from (f"{where}: no condition is called {name}" for name in used - set(conditions(tree)))
        plain = re.sub(r'"[^"]*"', "", expression)
        for name in re.findall(r"(?<![\w:])((?:headroom|process)_\w+)", plain):
            if name not in known and re.sub(r"_(bucket|sum|count)$", "", name) not in known:
                yield f"{where}: no metric is called {name}"
        yield from (f"{where}: nothing records {name}" for name in re.findall(r"\b\w+:\w+:\w+\b", plain) if name not in known)


def check_prometheusrule(tree):
    printed = subprocess.run([tree.root / "deploy/prometheus/prometheusrule"], capture_output=True, text=True, check=True).stdout
    if yaml.safe_load(printed)["spec"] != load(tree, "prometheus/rules.yaml"):
        yield "prometheusrule prints other rules than rules.yaml"


def check_promtool(tree):
    if not shutil.which("promtool"):
        yield "no promtool: install the package prometheus"
        return
    tests = tree.root / "deploy/prometheus/tests.yaml"
    run = subprocess.run(["promtool", "test", "rules", tests], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        yield f"promtool: {run.stdout}{run.stderr}"


def check_tested(tree):
    """Each alert has a test case in which it fires, and another one in which it is silent."""
    cases = load(tree, "prometheus/tests.yaml")["tests"]
    tested = [test for case in cases for test in case.get("alert_rule_test", [])]
    for name in alerts(tree):
        if {bool(test.get("exp_alerts")) for test in tested if test["alertname"] == name} != {True, False}:
            yield f"tests.yaml: {name} is not tried firing and silent"


def differences(pairs):
    return (f"{what}: {one!r} and {other!r}" for what, one, other in pairs if one != other)


def check_manifests(tree):
    """Versions, the chart's defaults and its manifests agree."""
    version = re.search(r"^project\(headroom VERSION (\S+)", tree.read("CMakeLists.txt"), re.M).group(1)
    chart, values, agent, restore, config = (
        load(tree, f"helm/headroom/{name}")
        for name in (
            "Chart.yaml",
            "values.yaml",
            "manifests/agent/daemonset.yaml",
            "manifests/restore/daemonset.yaml",
            "manifests/agent/headroom.yaml",
        )
    )
    pod, after = agent["spec"]["template"]["spec"], restore["spec"]["template"]["spec"]
    container, restoring = pod["containers"][0], after["initContainers"][0]
    advised = re.search(r'^#define CHART_CAPABILITIES "(.+)"', tree.read("src/agent/findings.c"), re.M).group(1).split(", ")
    owners = [e["value"] for c in (container, restoring) for e in c["env"] if e["name"] == "HEADROOM_OWNER"]
    image = f"{values['image']['repository']}:{version}"

    pairs = [("Chart.yaml and CMakeLists.txt", what, version) for what in (chart["version"], chart["appVersion"])]
    for each in (container, restoring, after["containers"][0]):
        pairs.append(("image of a manifest", each["image"], image))
        pairs.append(("imagePullPolicy", each["imagePullPolicy"], values["image"]["pullPolicy"]))
    pairs += [
        ("HEADROOM_OWNER of agent and restore", owners, ["daemonset"] * 2),
        ("capabilities", container["securityContext"]["capabilities"]["add"], values["capabilities"]),
        ("CHART_CAPABILITIES of src/agent/findings.c", advised, values["capabilities"]),
        ("resources", container["resources"], values["resources"]),
        ("nodeSelector", pod["nodeSelector"], values["nodeSelector"]),
        ("priorityClassName", pod["priorityClassName"], values["priorityClassName"]),
        ("minReadySeconds", agent["spec"]["minReadySeconds"], values["minReadySeconds"]),
        ("maxUnavailable", agent["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"], values["maxUnavailable"]),
        ("headroom.yaml", config, values["config"]),
    ]
    for key in ("automountServiceAccountToken", "hostNetwork", "hostPID", "priorityClassName", "tolerations", "securityContext"):
        pairs.append((f"{key} of agent and restore", pod[key], after[key]))
    for key in ("mountPath", "readOnly", "mountPropagation"):
        mounts = [{m["name"]: m.get(key) for m in c["volumeMounts"] if m["name"] not in ("config", "run", "state")} for c in (container, restoring)]
        pairs.append((f"{key} of agent and restore", *mounts))
    yield from differences(pairs)


def check_readme(tree):
    """The README has a row for each capability and each directory of the host."""
    rows = re.findall(r"^\| ([^|]+?) \|.*\|$", tree.read("deploy/README.md"), re.M)
    pod = load(tree, "helm/headroom/manifests/agent/daemonset.yaml")["spec"]["template"]["spec"]
    paths = [volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume]
    for name in load(tree, "helm/headroom/values.yaml")["capabilities"] + paths:
        if name not in {cell for row in rows for cell in row.split(", ")}:
            yield f"deploy/README.md: no row for {name}"


def in_lines(schema, path=""):
    """The schema as text, with a line for each definition, value and option."""
    split = ("", "/definitions", "/definitions/configuration", "/definitions/configuration/properties", "/properties")
    if path not in split:
        return json.dumps(schema)
    indent = "  " * (path.count("/") + 1)
    lines = (f"{indent}{json.dumps(name)}: {in_lines(value, f'{path}/{name}')}" for name, value in schema.items())
    return "{\n" + ",\n".join(lines) + "\n" + indent[2:] + "}"


def chart_readme(schema, values):
    """The table of the chart's README: a row for each value, with its default."""
    rows = [
        f"| `{name}` | `{json.dumps(values[name])}` | {row['description']} |\n"
        for name, row in schema["properties"].items()
        if name in values
    ]
    return "| value | default | meaning |\n|---|---|---|\n" + "".join(rows)


def check_schema(tree):
    """The schema has the program's options with types and ranges, and exactly the values of values.yaml. The README lists them.

    Templates cannot read values.yaml: defaults.json is a copy for them.
    """
    chart = tree.root / "deploy/helm/headroom"
    texts = {name: (chart / name).read_text() for name in ("values.schema.json", "README.md", "defaults.json")}
    schema = json.loads(texts["values.schema.json"])
    values = load(tree, "helm/headroom/values.yaml")
    yield from differences([("keys of values.yaml and its schema", set(values), set(schema["properties"]) - {"global"})])
    [schema["definitions"]["configuration"]] = json.loads((tree.documents / "schema.json").read_text())["allOf"]
    new = {
        "values.schema.json": in_lines(schema) + "\n",
        "README.md": re.sub(r"\| value \|.*\|\n", lambda _: chart_readme(schema, values), texts["README.md"], flags=re.S),
        "defaults.json": json.dumps(values, indent=2) + "\n",
    }
    for name, text in new.items():
        if "--write" in sys.argv:
            (chart / name).write_text(text)
        elif text != texts[name]:
            yield f"{name}: not that of the program and values.yaml: run {' '.join(sys.argv)} --write"


def accepts(schema, value):
    """Whether a JSON schema accepts a value, for the keywords that the program prints."""
    kinds = {"boolean": bool, "integer": int, "number": (int, float), "string": str, "array": list, "object": dict, "null": type(None)}
    wanted = [kinds[kind] for kind in ([schema["type"]] if isinstance(schema.get("type"), str) else schema.get("type", kinds))]
    if isinstance(value, bool) and bool not in wanted or not isinstance(value, tuple(k for kind in wanted for k in (kind if isinstance(kind, tuple) else (kind,)))):
        return False
    if "enum" in schema:
        return any(value == one and isinstance(value, type(one)) for one in schema["enum"])
    if isinstance(value, (int, float)):
        return schema.get("minimum", value) <= value <= schema.get("maximum", value)
    if isinstance(value, str):
        in_bounds = schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value))
        return in_bounds and bool(re.search(schema.get("pattern", ""), value))
    if isinstance(value, list):
        return len(value) <= schema["maxItems"] and all(accepts(schema["items"], item) for item in value)
    if isinstance(value, dict):
        known = schema.get("properties", {})
        return set(schema.get("required", ())) <= set(value) and all(name in known and accepts(known[name], one) for name, one in value.items())
    return True


ITEMS = {"doctor.ignore": "SettingFailed", "dns.cluster_servers": "10.0.0.1", "images.archives": "/x"}  # valid ones


def trials(name, schema):
    """Values that a schema accepts and refuses, at its bounds and of other types."""
    yield from (None, "", "bogus", [], {"bogus": 1}, "1.2.3.4:5", "[::1]:65535", "[::1]:65536", "1.2.3.4:99999", "1.2.3.4:0", "/x", "keep", "off")
    if "string" not in schema.get("type", ()) or "integer" in schema["type"]:
        yield from (False, 0, 1.5)  # the program takes any scalar as a text, which Helm may print otherwise: 1.10 as 1.1
    if "ms" in schema.get("pattern", ""):
        yield from (f"{n}{unit}" for unit in ("ms", "s", "m", "h") for n in (0, 1, 5, 6, 9, 10, 24, 25, 1000, 5000, 5001, 9999, 86400, 86401, "01"))
    yield from schema.get("enum", ())
    for bound in ("minimum", "maximum"):
        yield from (schema[bound] + step for step in (-1, 0, 1) if bound in schema)
    for bound in ("minLength", "maxLength"):
        yield from ("/" + "x" * (schema[bound] + step - 1) for step in (0, 1) if schema.get(bound, 0) > 0)
    if "items" in schema:
        good = ITEMS.get(name, schema["items"].get("enum", ["x"])[0])
        yield from ([good] * (schema["maxItems"] + step) for step in (0, 1))
        yield from ([one] for one in (None, good, {}, {"server": "auto"}, {"qps": 1}, {"server": "auto", "qps": 0}, {"url": "x", "override_path": "no"}))


def options_of(schema, path=()):
    for name, below in schema["properties"].items():
        yield (*path, name), below
        if "properties" in below:
            yield from options_of(below, (*path, name))


def check_options(tree):
    """The program accepts what its schema accepts, for each option alone: its type, range and choices."""
    [schema] = json.loads((tree.documents / "schema.json").read_text())["allOf"]
    with tempfile.TemporaryDirectory() as directory:
        tried = {}
        for path, option in options_of(schema):
            for value in trials(".".join(path), option):
                document = value
                for name in reversed(path):
                    # The three thresholds have to be in order, and a ceiling has to be above them.
                    document = dict.fromkeys(("gc_thresh1", "gc_thresh2", "gc_thresh3") if "gc_thresh" in name else (name,), document)
                    document |= {"grow": False} if name == "ceiling" else {}
                file = Path(directory) / f"{len(tried)}.yaml"
                file.write_text(json.dumps(document))
                tried[str(file)] = ".".join(path), value, accepts(schema, document)
        run = subprocess.run([tree.headroom, "check-config", *tried], capture_output=True, text=True, check=False)
    # No schema knows which files can be read.
    refused = {line.partition(":")[0]: line for line in run.stderr.splitlines() if "cannot be read: " not in line}
    for file, (name, value, accepted) in tried.items():
        if accepted == (file in refused):
            yield f"schema.json: {name}: {json.dumps(value)[:80]}: the schema {'accepts' if accepted else 'refuses'} it, and check-config says: {refused.get(file)}"


CHECKS = [
    check_sections,
    check_alerts,
    check_names,
    check_prometheusrule,
    check_promtool,
    check_tested,
    check_manifests,
    check_readme,
    check_schema,
    check_options,
]

if __name__ == "__main__":
    given = given_tree()
    print(f"{len(conditions(given))} conditions, {len(alerts(given))} alerts, {len(list(expressions(given)))} expressions")
    report(CHECKS, given)
