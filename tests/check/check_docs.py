#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Manual, completion, reference and explain cover all names of the tables. The sample configuration and the metrics are valid.

check_docs.py HEADROOM TABLES DOCUMENTS: the two programs, and the directory of the generated documents.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HEADROOM, TABLES, DOCUMENTS = (Path(argument) for argument in sys.argv[1:4])
ROOT = Path(__file__).resolve().parents[2]

faults = []


def tables(*what):
    run = subprocess.run([TABLES, *what], capture_output=True, text=True, check=True)
    return run.stdout.splitlines()


def plain(roff):
    """The page's text without troff escapes."""
    text = roff.replace("\\-", "-").replace("\\:", "").replace("\\&", "").replace("\\(aq", "'")
    return re.sub(r"\\f[BIRP]", "", text).replace("\\e", "\\")


NAMES = [line.split("\t", 1) for line in tables("names")]

# Kind of name -> documents. A name stands alone on a line, or in the first cell of a table.
DOCUMENTS_OF = {
    "config key": ["headroom.yaml.5"],
    "setting": ["headroom.yaml.5"],
    "reason": ["headroom.yaml.5"],
    "profile": ["headroom.yaml.5"],
    "tuner": ["headroom.8"],
    "limit": ["headroom.8", "metrics.md"],
    "check": ["headroom.8"],
    "condition": ["headroom.8", "metrics.md"],
    "metric": ["metrics.md"],
}


def check_documents():
    """Each row of a table is in all documents of its kind, without another edit."""
    lines = {name: set() for name in sum(DOCUMENTS_OF.values(), [])}
    for document, found in lines.items():
        text = (DOCUMENTS / document).read_text()
        found |= set(plain(text).splitlines()) | set(re.findall(r"^\| `([^`]+)` \|", text, re.M))
        found |= set(re.findall(r"^\.SS (.+)$", plain(text), re.M))
        if left := re.findall(r"@[A-Z_]+@", text):
            faults.append(f"{document}: {', '.join(left)} is not filled in")
    for kind, name in NAMES:
        for document in DOCUMENTS_OF.get(kind, []):
            if name not in lines[document]:
                faults.append(f"{document}: nothing about the {kind} {name}")
    print(f"{len(NAMES)} names looked for in the documents")


def check_completion():
    usage = subprocess.run([HEADROOM, "--help"], capture_output=True, text=True, check=True).stdout
    commands = re.findall(r"^  (\S+)", usage, re.M)
    for shell in ("bash", "zsh", "fish"):
        script = DOCUMENTS / f"headroom.{shell}"
        words = set(re.findall(r"[^\s'()]+", script.read_text().replace(":", " ") + script.read_text()))
        for name in commands + [name for kind, name in NAMES if not re.search(r"[*?\[]", name)]:
            if name not in words:
                faults.append(f"{script.name}: {name} is not completed")
        if not shutil.which(shell):
            print(f"{script.name}: its syntax is not checked: no {shell}")
        elif subprocess.run([shell, "-n", script], check=False).returncode:
            faults.append(f"{script.name}: no valid script of {shell}")
    manual = plain((DOCUMENTS / "headroom.8").read_text())
    for command in commands:
        if f"headroom {command}" not in manual:
            faults.append(f"headroom.8: no synopsis of {command}")
    for page in ("headroom.8", "headroom.yaml.5"):
        if shutil.which("mandoc"):
            lint = subprocess.run(["mandoc", "-T", "lint", DOCUMENTS / page], capture_output=True, text=True)
            faults.extend(lint.stdout.splitlines())


def check_shipped_links():
    """The package installs these documents, at the same places below its directory."""
    listed = (ROOT / "packaging/CMakeLists.txt").read_text()
    shipped = re.findall(r"(?<=[ \t(])(?:deploy|packaging)/[\w./-]+", listed[listed.index("foreach(file ") :].split(")")[0])
    for document in [name for name in shipped if name.endswith(".md")]:
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (ROOT / document).read_text()):
            target = os.path.normpath(Path(document).parent / link)
            if target not in shipped:
                faults.append(f"{document}: the package lacks {target}, to which it links")


def check_config(path, what):
    run = subprocess.run([HEADROOM, "check-config", path], capture_output=True, text=True)
    if run.returncode != 0 or run.stderr:
        faults.append(f"headroom.yaml {what}: check-config ends with {run.returncode}:\n{run.stderr}")


def check_sample():
    sample = (DOCUMENTS / "headroom.yaml").read_text()
    check_config(DOCUMENTS / "headroom.yaml", "as it is")
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "headroom.yaml"
        text = re.sub(r"^#", "", sample, flags=re.M)
        path.write_text(text)
        check_config(path, "with all keys in force")
        if not re.search(r"^mode: enforce$", text, re.M):
            faults.append("headroom.yaml: no key was put in force")


def check_explain():
    for kind, name in NAMES:
        run = subprocess.run([HEADROOM, "explain", name], capture_output=True, text=True)
        if run.returncode != 0 or name not in run.stdout:
            faults.append(f"headroom explain {name}: nothing about this {kind}")


def check_limits():
    """Each view shows all limits of the table that have their files on this node."""
    shown = {
        "status": subprocess.run([HEADROOM, "status"], capture_output=True, text=True).stdout,
        "status --json": subprocess.run([HEADROOM, "status", "--json"], capture_output=True, text=True).stdout,
        "metrics": "\n".join(tables("metrics", "node")),
        "page": "\n".join(tables("page")),
    }
    for line in tables("limits"):
        name, *files = line.split("\t")
        if not all(os.access(file, os.R_OK) for file in files):
            print(f"{name} is not checked: this node lacks {' or '.join(files)}")
            continue
        for document, text in shown.items():
            if name not in text:
                faults.append(f"headroom {document}: nothing about the limit {name}")


def check_prose():
    """Keys and metrics in hand-written documents exist. A prefix of a key is its section."""
    known = {name for _, name in NAMES}
    known |= {name.rsplit(".", 1)[0] for name in known if "." in name}
    sections = "|".join({name.split(".")[0] for kind, name in NAMES if kind == "config key"})
    for path in [ROOT / "README.md", *ROOT.glob("deploy/*.md"), *ROOT.glob("packaging/*.md")]:
        text = path.read_text()
        metrics = (re.sub("_(bucket|sum|count)$", "", name) for name in re.findall(r"\bheadroom_[a-z_]+\b", text))
        for name in {*re.findall(rf"`((?:{sections})\.[\w.]+)`", text), *metrics} - known:
            faults.append(f"{path.relative_to(ROOT)}: there is no {name}")


def check_security():
    """The tests that the threat model names exist."""
    tests = "".join(path.read_text() for path in [*ROOT.glob("tests/root/test_*.py"), *ROOT.glob("tests/unit/test_*.c")])
    for name in re.findall(r"(\w+)`", (ROOT / "packaging/SECURITY.md").read_text().split("## Tests")[1]):
        if name not in ("c", "py") and not re.search(rf"\bdef {name}\(|TEST\({name}\)", tests):
            faults.append(f"packaging/SECURITY.md: there is no test {name}")


def check_promises():
    """The manual has each promise that tests/chaos checks."""
    sys.path.insert(0, str(ROOT / "tests/chaos"))
    from promises import PROMISES

    manual = " ".join(plain((DOCUMENTS / "headroom.8").read_text()).split())
    for name, sentences in PROMISES.items():
        if f"{name} {sentences}" not in manual:
            faults.append(f"headroom.8: the promise {name} differs from tests/chaos/promises.py")


def check_systems():
    """README's table names each kernel, Debian and architecture that tests/vm/run has, and CI runs on each Debian."""
    rows = dict(re.findall(r"^\| (kernels|distributions|architectures) \| (.*) \|$", (ROOT / "README.md").read_text(), re.M))
    vm, workflow = (ROOT / "tests/vm/run").read_text(), (ROOT / ".github/workflows/ci.yml").read_text()
    kernels, debians = (dict(re.findall(r"\[(\S+)\]=(\w+)", re.search(rf"declare -A {name}=\((.*)\)", vm)[1])) for name in ("suites", "releases"))
    wanted = [("kernels", kernel) for kernel in kernels if kernel != "sid"] + [("distributions", f"Debian {number}:") for number in debians]
    wanted += [("architectures", "arm64")] if "--arch arm64" in vm else []
    faults.extend(f"README.md: the row {row} lacks {text}" for row, text in wanted if text not in rows[row])
    faults.extend(f"README.md: the row kernels has {kernel}, which tests/vm/run lacks" for kernel in re.findall(r"\d\.\d+", rows["kernels"]) if kernel not in kernels)
    faults.extend(f"ci.yml: no {codename}" for codename in debians.values() if codename not in workflow)


def check_metrics():
    """promtool accepts the metrics of a made-up node and of this node without a message."""
    if not shutil.which("promtool"):
        faults.append("no promtool: install the package prometheus")
        return
    for node in ("made-up", "node"):
        lines = tables("metrics", node)
        run = subprocess.run(["promtool", "check", "metrics"], input="\n".join(lines) + "\n", capture_output=True, text=True)
        if run.returncode != 0 or run.stdout + run.stderr:
            faults.append(f"{node}: {run.stdout}{run.stderr}")
        faults.extend(f"{node}: without our prefix: {line}" for line in lines if not re.match("#|headroom_|process_|$", line))
        if tables("metrics", node, "openmetrics")[-1] != "# EOF":
            faults.append(f"{node}: the OpenMetrics text has no end")
        print(f"{node}: {sum(not line.startswith('#') for line in lines)} series")


check_documents()
check_completion()
check_shipped_links()
check_sample()
check_explain()
check_limits()
check_prose()
check_security()
check_promises()
check_systems()
check_metrics()
print("\n".join(faults))
sys.exit(1 if faults else 0)
