#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Manual, completion, reference and explain cover all names of the tables. The sample configuration and the metrics are valid.

check_docs.py BUILD tree.headroom TABLES: as for check_source.py.
"""

import json
import os
import re
import runpy
import shutil
import subprocess
import tempfile
from pathlib import Path

from tree import given_tree, report


def plain(roff):
    """The page's text without troff escapes."""
    text = roff.replace("\\-", "-").replace("\\:", "").replace("\\&", "").replace("\\(aq", "'")
    return re.sub(r"\\f[BIRP]", "", text).replace("\\e", "\\")


# Kind of name -> documents. A name stands alone on a line, or in the first cell of a table.
DOCUMENTS_OF_KIND = {
    "config key": ["headroom.yaml.5"],
    "setting": ["headroom.yaml.5"],
    "reason": ["headroom.yaml.5"],
    "profile": ["headroom.yaml.5"],
    "tuner": ["headroom.8"],
    "limit": ["headroom-limits.7", "metrics.md"],
    "check": ["headroom-limits.7"],
    "condition": ["headroom-limits.7", "metrics.md"],
    "metric": ["headroom-metrics.7", "metrics.md"],
}


def check_documents(tree):
    """Each row of a table is in all documents of its kind, without another edit."""
    lines = {name: set() for name in sum(DOCUMENTS_OF_KIND.values(), [])}
    for document, found in lines.items():
        text = (tree.documents / document).read_text()
        found |= set(plain(text).splitlines()) | set(re.findall(r"^\| `([^`]+)` \|", text, re.M))
        found |= set(re.findall(r"^\.SS (.+)$", plain(text), re.M))
        if left := re.findall(r"@[A-Z_]+@", text):
            yield f"{document}: {', '.join(left)} is not filled in"
    for kind, name in tree.names:
        for document in DOCUMENTS_OF_KIND.get(kind, []):
            if name not in lines[document]:
                yield f"{document}: nothing about the {kind} {name}"
    print(f"{len(tree.names)} names looked for in the documents")


def check_completion(tree):
    usage = subprocess.run([tree.headroom, "--help"], capture_output=True, text=True, check=True).stdout
    commands = re.findall(r"^  (\S+)", usage, re.M)
    for shell in ("bash", "zsh", "fish"):
        script = tree.documents / f"headroom.{shell}"
        words = set(re.findall(r"[^\s'()]+", script.read_text().replace(":", " ") + script.read_text()))
        for name in commands + [name for kind, name in tree.names if not re.search(r"[*\[ ]", name)]:  # a blank would end the word
            if name not in words:
                yield f"{script.name}: {name} is not completed"
        if not shutil.which(shell):
            print(f"{script.name}: its syntax is not checked: no {shell}")
        elif (run := subprocess.run([shell, "-n", script], capture_output=True, text=True)).returncode:
            yield f"{script.name}: no valid script of {shell}: {run.stderr}"
    manual = plain((tree.documents / "headroom.8").read_text())
    for command in commands:
        if f"headroom {command}" not in manual:
            yield f"headroom.8: no synopsis of {command}"
    for page in sorted(path.name for path in tree.documents.glob("headroom*.[578]")):
        if shutil.which("mandoc"):
            lint = subprocess.run(["mandoc", "-T", "lint", tree.documents / page], capture_output=True, text=True)
            yield from lint.stdout.splitlines()


def check_shipped_links(tree):
    """The package installs these documents, at the same places below its directory."""
    listed = (tree.root / "packaging/CMakeLists.txt").read_text()
    shipped = re.findall(r"(?<=[ \t(])(?:deploy|packaging)/[\w./-]+", listed[listed.index("foreach(file ") :].split(")")[0])
    for document in [name for name in shipped if name.endswith(".md")]:
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (tree.root / document).read_text()):
            target = os.path.normpath(Path(document).parent / link)
            if target not in shipped:
                yield f"{document}: the package lacks {target}, to which it links"


def check_sample(tree):
    sample = (tree.documents / "headroom.yaml").read_text()
    all_keys = re.sub(r"^#", "", sample, flags=re.M)
    if not re.search(r"^mode: enforce$", all_keys, re.M):
        yield "headroom.yaml: no key was put in force"
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "headroom.yaml"
        for what, text in ("as it is", sample), ("with all keys in force", all_keys):
            path.write_text(text)
            run = subprocess.run([tree.headroom, "check-config", path], capture_output=True, text=True)
            if run.returncode != 0 or run.stderr:
                yield f"headroom.yaml {what}: check-config ends with {run.returncode}:\n{run.stderr}"


def check_explain(tree):
    for kind, name in tree.names:
        run = subprocess.run([tree.headroom, "explain", name], capture_output=True, text=True)
        if run.returncode != 0 or name not in run.stdout:
            yield f"headroom explain {name}: nothing about this {kind}"


# The headings that commands print, badges of the page, and codes of DNS answers.
PRINTED = re.compile(r'draw_(?:title|heading|shares|typed_lines)\(&?screen, "([^"%]+)"|COLOR_BOLD, "\\n([^"%\\]+)|put_badge\(out, "\w+", "([^"%]+)"\)|\[DNS_[A-Z]+\] = "([A-Z]+)"')


def words_of_schema(schema):
    """Its members, and the texts that they may be."""
    for key, value in schema.items() if isinstance(schema, dict) else ():
        yield from value if key == "properties" else ()
        yield from (text for text in value if text and isinstance(text, str)) if key == "enum" else ()
        yield from words_of_schema(value)
    for value in schema if isinstance(schema, list) else ():
        yield from words_of_schema(value)


def check_words(tree):
    """`explain` knows what views print: headings, members and values of JSON documents, values of options, alerts."""
    where = {}
    for path in (tree.documents / "schema.json", *sorted((tree.root / "packaging/schema").glob("*.json"))):
        where |= dict.fromkeys(words_of_schema(json.loads(path.read_text())), path.name)
    where |= dict.fromkeys(re.findall(r"- alert: (\w+)", tree.read("deploy/prometheus/rules.yaml")), "rules.yaml")
    where |= dict.fromkeys(filter(None, tree.print_tables("words").splitlines()), "headroom top")
    for path, text in tree.sources.items():
        if path.parts[0] == "src":
            where |= {next(filter(None, found)): path.name for found in PRINTED.findall(text)}
    run = subprocess.run([tree.headroom, "explain", *where], capture_output=True, text=True)
    for name in re.findall("^headroom: (.*): unknown(?: name)?: ", run.stderr, re.M):
        yield f"{where[name]}: headroom explain does not know {name}"
    print(f"{len(where)} words looked for")


def check_limits(tree):
    """Each view shows all limits of the table that have their files on this node."""
    shown = {
        "status": subprocess.run([tree.headroom, "status"], capture_output=True, text=True).stdout,
        "status --json": subprocess.run([tree.headroom, "status", "--json"], capture_output=True, text=True).stdout,
        "metrics": tree.print_tables("metrics", "node"),
        "page": tree.print_tables("page"),
    }
    for line in tree.print_tables("limits").splitlines():
        name, *files = line.split("\t")
        if not all(os.access(file, os.R_OK) for file in files):
            print(f"{name} is not checked: this node lacks {' or '.join(files)}")
            continue
        for document, text in shown.items():
            # An unused limit may lack a series.
            unused = document == "metrics" and re.search(rf" {re.escape(name)} +0 of ", shown["status"])
            if not unused and not re.search(rf"(?<![\w/-]){name}(?![\w/-])", text):
                yield f"headroom {document}: nothing about the limit {name}"


def check_prose(tree):
    """Keys and metrics in hand-written documents exist. A prefix of a key is its section."""
    known = {name for _, name in tree.names}
    known |= {name.rsplit(".", 1)[0] for name in known if "." in name}
    sections = "|".join({name.split(".")[0] for kind, name in tree.names if kind == "config key"})
    for path in [tree.root / "README.md", *tree.root.glob("deploy/*.md"), *tree.root.glob("packaging/*.md")]:
        text = path.read_text()
        metrics = (re.sub("_(bucket|sum|count)$", "", name) for name in re.findall(r"\bheadroom_[a-z_]+\b", text))
        for name in {*re.findall(rf"`((?:{sections})\.[\w.]+)`", text), *metrics} - known:
            yield f"{path.relative_to(tree.root)}: there is no {name}"


def check_example(tree):
    """README's example of doctor has all parts of a finding, the table's text, and a configuration that is valid."""
    lines = re.search(r"^\$ headroom doctor\n(.*?)^```", tree.read("README.md"), re.M | re.S)[1]
    limit, parts = lines.split()[1], dict(re.findall(r"^  (\w+) +(.*)$", lines, re.M))
    if list(parts) != ["who", "since", "breaks", "now", "keep"]:
        yield f"README.md: the parts of the finding are {list(parts)}"
    explained = subprocess.run([tree.headroom, "explain", limit], capture_output=True, text=True).stdout
    if dict(re.findall(r"^  (\w+) +(.*)$", explained, re.M)).get("breaks") != parts.get("breaks"):
        yield f"README.md: headroom explain {limit} has another text for what breaks"
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(parts.get("keep", "").split("  in ")[0] + "\n")
        file.flush()
        run = subprocess.run([tree.headroom, "check-config", file.name], capture_output=True, text=True)
    if run.returncode != 0:
        yield f"README.md: check-config of what keeps the cure: {run.stderr}"


def check_security(tree):
    """The tests that the threat model names exist."""
    tests = "".join(path.read_text() for path in [*tree.root.glob("tests/root/test_*.py"), *tree.root.glob("tests/unit/test_*.c")])
    listed = tree.read("packaging/SECURITY.md").split("## Tests")[1]
    for name in re.findall(r"(\w+)`", listed):
        if name not in ("c", "py") and not re.search(rf"\bdef {name}\(|TEST\({name}\)", tests):
            yield f"packaging/SECURITY.md: there is no test {name}"
    for name in re.findall(r"\b(?:root|unit)/\w+\.(?:py|c)\b", listed):
        if not (tree.root / "tests" / name).exists():
            yield f"packaging/SECURITY.md: there is no file tests/{name}"


def check_promises(tree):
    """The manual has each promise that tests/chaos checks."""
    promises = runpy.run_path(str(tree.root / "tests/chaos/promises.py"))["PROMISES"]
    manual = " ".join(plain((tree.documents / "headroom.8").read_text()).split())
    for name, sentences in promises.items():
        if f"{name} {sentences}" not in manual:
            yield f"headroom.8: the promise {name} differs from tests/chaos/promises.py"


def check_systems(tree):
    """README's table names each kernel, Debian and architecture that tests/vm/run has, and CI runs on each Debian."""
    rows = dict(re.findall(r"^\| (kernels|distributions|architectures) \| (.*) \|$", (tree.root / "README.md").read_text(), re.M))
    vm, workflow = (tree.root / "tests/vm/run").read_text(), (tree.root / ".github/workflows/ci.yml").read_text()
    kernels, debians = (dict(re.findall(r"\[(\S+)\]=(\w+)", re.search(rf"declare -A {name}=\((.*)\)", vm)[1])) for name in ("suites", "releases"))
    wanted = [("kernels", kernel) for kernel in kernels if kernel != "sid"] + [("distributions", f"Debian {number}:") for number in debians]
    wanted += [("architectures", "arm64")] if "--arch arm64" in vm else []
    yield from (f"README.md: the row {row} lacks {text}" for row, text in wanted if text not in rows[row])
    yield from (f"README.md: the row kernels has {kernel}, which tests/vm/run lacks" for kernel in re.findall(r"\d\.\d+", rows["kernels"]) if kernel not in kernels)
    yield from (f"ci.yml: no {codename}" for codename in debians.values() if codename not in workflow)


def check_metrics(tree):
    """promtool accepts the metrics of a made-up node and of this node without a message."""
    if not shutil.which("promtool"):
        yield "no promtool: install the package prometheus"
        return
    for node in ("made-up", "node"):
        text = tree.print_tables("metrics", node)
        lines = text.splitlines()
        run = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
        if run.returncode != 0 or run.stdout + run.stderr:
            yield f"{node}: {run.stdout}{run.stderr}"
        yield from (f"{node}: without our prefix: {line}" for line in lines if not re.match("#|headroom_|process_|$", line))
        if not tree.print_tables("metrics", node, "openmetrics").endswith("\n# EOF\n"):
            yield f"{node}: the OpenMetrics text has no end"
        print(f"{node}: {sum(not line.startswith('#') for line in lines)} series")


CHECKS = [
    check_documents,
    check_completion,
    check_shipped_links,
    check_sample,
    check_explain,
    check_words,
    check_limits,
    check_prose,
    check_example,
    check_security,
    check_promises,
    check_systems,
    check_metrics,
]

if __name__ == "__main__":
    report(CHECKS, given_tree())
