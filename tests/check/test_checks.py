#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each check reports exactly the defect that is planted in a copy of a few files, besides what it reports without it.

test_checks.py BUILD HEADROOM TABLES: as for check_source.py.
"""

import contextlib
import io
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import check_deploy
import check_docs
import check_release
import check_row
import check_source
from tree import Tree, given_tree

COPIED = [".clang-format", ".github/workflows", "CHANGELOG.md", "CMakeLists.txt", "README.md", "deploy", "packaging",
          "src/agent/findings.c", "src/agent/syscalls.c", "tests/check/syscalls.txt", "tests/chaos/promises.py", "tests/mutants/chosen.py",
          "tests/root", "tests/tool/fail_calls.c", "tests/unit", "tests/vm/run"]  # fmt: skip
LICENCE = "// SPDX-License-Identifier: Apache-2.0\n"
FUNCTION = "int sum(int a, int b);\n\nint sum(int a, int b)\n{\n%s\treturn a + b;\n}\n"
CALL = "\nint %s(const char *path)\n{\n\treturn %s;\n}\n"
EXEC = '#!/bin/sh\nexec %s "$@"\n'
REASONS = str(check_source.REASON_ROWS)
RULES, DAEMONSET = "deploy/helm/headroom/rules.yaml", "deploy/helm/headroom/manifests/agent/daemonset.yaml"


def long_function(lines):
    return LICENCE + FUNCTION % ("\ta += b;\n" * (lines - 3))


# Check -> defects: {file: its text, or (old, new) in its text}, and the beginnings of the faults that it must report.
DEFECTS = {
    check_source.check_includes: [
        ({"src/base/x.h": '#include "apply/values.h"\n'}, ["src/base/x.h: includes apply/values.h"]),
        ({"src/tuners/dns/x.h": '#include "tuners/thp/thp.h"\n'}, ["src/tuners/dns/x.h: includes tuners/thp/thp.h"]),
        ({"include/headroom/x.h": '#include "base/log.h"\n'}, ["include/headroom/x.h: includes base/log.h"]),
        ({"bpf/x.h": "#include <stdio.h>\n"}, ["bpf/x.h: includes stdio.h"]),
    ],
    check_source.check_syscalls: [
        ({"src/agent/syscalls.c": ('"bpf",', "")}, ["src/agent/syscalls.c: bpf is missing: the tests use it"]),
        ({"src/agent/syscalls.c": ('"bpf",', '"bpf",\n\t"reboot",')}, ["src/agent/syscalls.c: no test uses a call of the row reboot: "]),
        ({"src/agent/syscalls.c": (" fremovexattr", ""), "src/x.c": CALL % ("f", "fremovexattr(1, path)")}, ["src/agent/syscalls.c: fremovexattr is missing: the program can call it"]),
        ({"src/x.c": CALL % ("f", "syscall(SYS_pivot_root, path, path) == 0")}, ["src/agent/syscalls.c: pivot_root is missing: the program can call it"]),
        ({"tests/check/syscalls.txt": ("accept4\n", "accept4\nacct\n")}, ["src/agent/syscalls.c: acct is missing: the tests use it"]),
    ],
    check_source.check_failing_calls: [
        ({"tests/tool/fail_calls.c": ("CALL(kill, ", "CALL(tkill, ")}, ["tests/tool/fail_calls.c: kill is missing: the tests use it"]),
        ({"tests/tool/fail_calls.c": ("CALL(kill, ", "CALL(pause, ")}, ["tests/tool/fail_calls.c: kill is missing", "tests/tool/fail_calls.c: pause has a reason to be missing, and is there"]),
        ({"tests/check/syscalls.txt": ("pause\n", "")}, ["tests/tool/fail_calls.c: pause has a reason to be missing, and no test uses it"]),
    ],
    check_source.check_callers: [
        ({"src/runtime/x.c": CALL % ("write_pins", "replace_path(path, text, 1, true)")}, ["src/runtime/x.c: write_pins() uses replace_path: let src/apply"]),
        ({"src/apply/x.c": CALL % ("f", "mkdir(path, 0755)")}, ["src/apply/x.c: f() uses mkdir: let src/apply write, or give a reason"]),
        ({"src/tuners/x.c": CALL % ("f", "open(path, O_WRONLY | O_CLOEXEC)")}, ["src/tuners/x.c: f() uses O_WRONLY"]),
        ({"include/headroom/x.h": "int replace_path(void);\n" + CALL % ("f", "unlink(path)")}, ["include/headroom/x.h: f() uses unlink"]),
        ({"src/tuners/x.c": CALL % ("f", 'fopen(path, "we")')}, ["src/tuners/x.c: f() uses fopen"]),
        ({"src/tuners/x.c": "static const struct ops ops = {.run = remove_tree};\n"}, ["src/tuners/x.c: () uses remove_tree"]),
        ({"src/model/x.c": CALL % ("f", 'fopen(path, "re") /* unlink(path) */')}, []),
        ({"src/apply/pin.c": CALL % ("write_file", "0")}, ["src/apply/pin.c: write_file() changes no file: take it"]),
    ],
    check_source.check_matches: [
        ({"src/runtime/x.c": CALL % ("has_mirror", 'strstr(path, "location =") != NULL')}, ["src/runtime/x.c: has_mirror() uses strstr: take a parser"]),
        ({"src/tuners/x.c": CALL % ("f", 'sscanf(path, "%d") /* strncmp(a) */')}, ["src/tuners/x.c: f() uses sscanf: take"]),
    ],
    check_source.check_reasons: [
        ({}, [f"{check_source.REASON_ROWS}: no rows"]),
        ({REASONS: 'ROW(A_B, "a-b",\n', "src/x.c": "x = REASON_A_B; if (streq(a, b) || reason == REASON_A_B)"}, []),
        ({REASONS: 'ROW(A_B, "a-c",\n', "src/x.c": "x = REASON_A_B;"}, ["the slug of REASON_A_B is a-c"]),
        ({REASONS: 'ROW(A, "a",\n', "src/x.c": "const enum reason rows[] = {REASON_A}; REASON_LIST(REASON_A); y == REASON_A; [REASON_A] = 1"},
         ["REASON_A is given nowhere"]),
        ({REASONS: 'ROW(A, "a",\n', "src/x.c": 'x = REASON_A; streq(text_at(row, "reason"), "a")'},
         ["src/x.c: compares as text: (text_at(row"]),
    ],
    check_source.check_lengths: [
        ({"src/x.h": "\n" * 1501}, ["src/x.h: 1501 lines, at most 1500"]),
        ({"tests/x.c": long_function(81)}, ["tests/x.c:5: a function of 81 lines, at most 80"]),
        ({"src/x.c": long_function(45) * 20}, ["p90 of the length of functions is 45, not under 45"]),
    ],
    check_source.check_names: [
        ({"src/a.c": "struct tag {\n};\n", "src/b.h": "static const struct tag {\n} one_tag;\n"}, ["src/a.c and src/b.h: both have a tag tag"]),
        ({"src/a.c": "struct tag *a;\nstruct other {\n};\n", "src/b.h": "struct tag {\n};\n"}, []),
        ({"src/a.c": "static bool load(void)\n{\n}\n"}, ["src/a.c: a function called only load"]),
        ({"src/a.c": "static bool file_load(void)\n{\n\tops.load(1);\n}\n"}, []),
        ({"src/a.c": "/* one */\nint sum(int one);\n"}, ["src/a.c: a variable called one"]),
        ({"bpf/a.bpf.c": 'MAP(ios, LRU_HASH, 0, 9, __u64, __u64);\nMAP(list, ARRAY, 0, 1, __u32, __u64);\n'}, ["bpf/a.bpf.c: the row bpf/map does not leave out the map ios: "]),
        ({"bpf/a.bpf.c": 'struct {\n\t__uint(type, BPF_MAP_TYPE_HASH);\n\t__type(key, int);\n} ios SEC(".maps");\nstruct rows headroom_rows SEC(".maps");\n'},
         ["bpf/a.bpf.c: the row bpf/map does not leave out the map ios: "]),
    ],
    check_source.check_idioms: [
        ({"src/a.c": "must(close(fd) == 0 ? text : NULL);"}, ["src/a.c: must(close(fd) == 0 ? text : NULL) is not"]),
        ({"src/a.c": "must(n > 0);"}, ["src/a.c: must(n > 0) is not for a pointer"]),
        ({"src/a.c": "must(fd < 0 ? strdup(a) : strdup(b)); must(a->b);"}, []),
        ({"src/a.c": "int f(enum view view)\n{\n\tview += trusted;\n}\n"}, ["src/a.c: adds to the enum view"]),
        ({"src/a.c": "int f(enum view view)\n{\n\tn += view == A;\n}\nint g(int view)\n{\n\tview += 1;\n}\n"}, []),
        ({"src/a.c": '"full?in", "/a?b=c"'}, ['src/a.c: the pattern "full?in" has a ?']),
    ],
    check_source.check_named_files: [
        ({"src/a.c": "/* As in gone.c, not as in net/core/gone.c or test_http.py. */\n"}, ["src/a.c: there is no file gone.c"]),
        ({"deploy/README.md": ("# ", "`gone.py`\n# ")}, ["deploy/README.md: there is no file gone.py"]),
    ],
    check_source.check_mutants: [
        ({"tests/mutants/chosen.py": 'MUTANTS = {"a": ("room", "src/a.c", "no text", ""), "b": ("room", "src/a.c", "text", "")}',
          "tests/chaos/promises.py": 'PROMISES = {"room": ""}', "src/a.c": "text\n"},
         ["tests/mutants/chosen.py: a: its text is 0 times in src/a.c"]),
        ({"tests/mutants/chosen.py": 'MUTANTS = {"a": ("luck", "src/a.c", "text", "")}', "tests/chaos/promises.py": 'PROMISES = {"room": ""}', "src/a.c": "text\n"},
         ["tests/mutants/chosen.py: no mutant breaks room", "tests/mutants/chosen.py: a: there is no promise luck"]),
    ],
    check_source.check_licences: [
        ({"src/x.c": "int a;\n"}, ["src/x.c: no SPDX-License-Identifier: Apache-2.0"]),
        ({"bpf/x.h": LICENCE}, ["bpf/x.h: no SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause"]),
        ({"tests/x": "#!/bin/sh\n"}, ["tests/x: no SPDX-License-Identifier: Apache-2.0"]),
        ({"tests/x": "text\n"}, []),
    ],
    check_source.check_globals: [
        ({"library": "int counter = 1;"}, ["x.c: counter is a variable"]),
        ({"library": "int f(void); int f(void) { static int calls; return ++calls; }"}, ["x.c: calls.0 is a variable"]),
        ({"library": 'const char *const names[] = {"a"};'}, []),
    ],
    check_source.check_format: [({"src/x.c": "int  a;\n"}, ["src/x.c: not as clang-format-19 formats it"])],
    check_docs.check_documents: [
        ({"build/packaging/metrics.md": ("| `headroom_build_info` |", "| `build_info` |")},
         ["metrics.md: nothing about the metric headroom_build_info"]),
        ({"build/packaging/headroom-metrics.7": ("headroom_build_info", "build_info")},
         ["headroom-metrics.7: nothing about the metric headroom_build_info"]),
        ({"build/packaging/headroom-limits.7": ("LimitReached", "LimitFull")}, ["headroom-limits.7: nothing about the condition LimitReached"]),
        ({"build/packaging/headroom.yaml.5": (".SH NAME", ".SH @NAME@")}, ["headroom.yaml.5: @NAME@ is not filled in"]),
    ],
    check_docs.check_completion: [
        ({"build/packaging/headroom.bash": ("LimitReached", "")}, ["headroom.bash: LimitReached is not completed"]),
        ({"build/packaging/headroom.fish": ("#", ")\n#")}, ["headroom.fish: no valid script of fish"]),
        ({"build/packaging/headroom.8": ("headroom incidents", "headroom occasions")}, ["headroom.8: no synopsis of incidents"]),
        ({"build/packaging/headroom.yaml.5": (".SH NAME", ".NO NAME")}, ["mandoc: "]),
    ],
    check_docs.check_shipped_links: [
        ({"deploy/README.md": ("# ", "[source](../src/main.c)\n# ")}, ["deploy/README.md: the package lacks src/main.c, to which it links"]),
    ],
    check_docs.check_sample: [
        ({"build/packaging/headroom.yaml": ("#mode: enforce", "mode: anything")},
         ["headroom.yaml: no key was put in force",
          "headroom.yaml as it is: check-config ends with", "headroom.yaml with all keys in force: check-config"]),
        ({"build/packaging/headroom.yaml": ("#mode: enforce", "#mode: enforce\n#mod: enforce")},
         ["headroom.yaml with all keys in force: check-config ends with"]),
    ],
    check_docs.check_explain: [
        ({"headroom": ("exec", '[ "$2" = zen4 ] || exec'), "tables": "#!/bin/sh\nprintf 'limit\\tzen4\\nlimit\\tlimits\\n'"},
         ["headroom explain zen4: nothing about this limit"]),
    ],
    check_docs.check_words: [
        ({RULES: ("- alert: HeadroomDown", "- alert: HeadroomAway")}, ["rules.yaml: headroom explain does not know HeadroomAway"]),
        ({"packaging/schema/common.json": ('"held_by": {', '"kept_by": {')}, ["common.json: headroom explain does not know kept_by"]),
        ({"src/cli/x.c": LICENCE + 'draw_title(screen, "Odd things");\n'}, ["x.c: headroom explain does not know Odd things"]),
        ({"tables": ("exec", '[ "$1" != words ] || echo oddness; exec')}, ["headroom top: headroom explain does not know oddness"]),
    ],
    check_docs.check_limits: [
        ({"tables": ("exec", '[ "$1" != page ] || exit 0; [ "$1" != limits ] || { echo tcp-memory; exit; }; exec')},
         ["headroom page: nothing about the limit tcp-memory"]),
    ],
    check_docs.check_prose: [
        ({"README.md": ("# ", "headroom_nothing_total\n# ")}, ["README.md: there is no headroom_nothing_total"]),
        ({"deploy/README.md": ("# ", "`dns.nothing`\n# ")}, ["deploy/README.md: there is no dns.nothing"]),
    ],
    check_docs.check_example: [
        ({"README.md": ("  since   ", "  until   ")}, ["README.md: the parts of the finding are"]),
        ({"README.md": ("  breaks  new connections", "  breaks  connections")}, ["README.md: headroom explain conntrack has another text"]),
        ({"README.md": ("  keep    limits: {raise:", "  keep    limits: {rise:")}, ["README.md: check-config of what keeps the cure"]),
    ],
    check_docs.check_security: [
        ({"packaging/SECURITY.md": ("::test_tcp_is_read_only", "::test_tcp_is_gone")}, ["packaging/SECURITY.md: there is no test test_tcp_is_gone"]),
        ({"packaging/SECURITY.md": ("`root/test_kill_files.py`", "`root/test_gone.py`")},
         ["packaging/SECURITY.md: there is no file tests/root/test_gone.py"]),
    ],
    check_docs.check_promises: [
        ({"tests/chaos/promises.py": ("within four seconds", "within five seconds")}, ["headroom.8: the promise progress differs"]),
    ],
    check_docs.check_systems: [
        ({"README.md": ("Debian 13:", "Debian:")}, ["README.md: the row distributions lacks Debian 13:"]),
        ({"README.md": ("| kernels | ", "| kernels | 2.6, ")}, ["README.md: the row kernels has 2.6, which"]),
        ({".github/workflows/ci.yml": ("trixie", "sid")}, ["ci.yml: no trixie"]),
    ],
    check_docs.check_metrics: [
        ({"tables": ("exec", '[ "$1$2$3" != metricsnode ] || printf "# HELP other_things Things.\\n# TYPE other_things gauge\\nother_things 1\\n"; exec')},
         ["node: without our prefix: other_things 1"]),
        ({"tables": ("exec", "[ $# -lt 3 ] || exit 0; exec")}, ["made-up: the OpenMetrics text has no end", "node: the OpenMetrics text has no end"]),
        ({"tables": ("exec", '[ "$1$2$3" != metricsnode ] || echo "headroom_A-1"; exec')}, ["node: headroom_A no help text"]),
    ],
    check_deploy.check_sections: [
        ({"deploy/TROUBLESHOOTING.md": ("## StorageSlow\n", "## StorageSlower\n")},
         ["TROUBLESHOOTING.md: section StorageSlow does not", "TROUBLESHOOTING.md: StorageSlower is no condition"]),
    ],
    check_deploy.check_alerts: [
        ({RULES: ("          summary:", "          other:")}, ["alert HeadroomConditionCritical: no summary"]),
        ({RULES: ("    interval: 2m", "    limit: 0")}, ["group headroom-limits: no interval"]),
        ({RULES: ("severity: warning", "severity: loud")}, ["alert HeadroomConditionWarning: its severity"]),
        ({"deploy/TROUBLESHOOTING.md": ("## HeadroomDown\n", "## Down\n")}, ["alert HeadroomDown: nothing at #headroomdown"]),
    ],
    check_deploy.check_names: [
        ({RULES: ("(headroom_build_info)", "(headroom_build_inf)")}, ["job:headroom_nodes:count: no metric is called headroom_build_inf"]),
        ({RULES: ("expr: count by", 'expr: headroom_condition{condition="Gone"} + count by')},
         ["job:headroom_nodes:count: no condition is called Gone"]),
        ({RULES: ("expr: count by", "expr: a:b:c + count by")}, ["job:headroom_nodes:count: nothing records a:b:c"]),
    ],
    check_deploy.check_prometheusrule: [
        ({"deploy/prometheus/prometheusrule": "#!/bin/sh\necho 'spec: {groups: []}'\n"}, ["prometheusrule prints other rules"]),
    ],
    check_deploy.check_promtool: [
        ({RULES: ("headroom_limit_used / headroom_limit_max", "headroom_limit_used / 1")}, ["promtool: "]),
    ],
    check_deploy.check_tested: [
        ({RULES: ("- alert: HeadroomDown", "- alert: HeadroomAway")}, ["tests.yaml: HeadroomAway is not tried firing and silent"]),
    ],
    check_deploy.check_manifests: [
        ({"deploy/helm/headroom/Chart.yaml": ("\nversion: ", "\nversion: 9.")}, ["Chart.yaml and CMakeLists.txt"]),
        ({DAEMONSET: ("hostPID: true", "hostPID: false")}, ["hostPID of agent and restore"]),
        ({"src/agent/findings.c": ("SYS_NICE, SYS_CHROOT", "SYS_NICE")}, ["CHART_CAPABILITIES"]),
    ],
    check_deploy.check_readme: [({"deploy/README.md": ("| PERFMON |", "| PERF |")}, ["deploy/README.md: no row for PERFMON"])],
    check_deploy.check_schema: [
        ({"build/packaging/schema.json": ('"on_drift"', '"on_shift"')}, ["values.schema.json: not that of the program"]),
        ({"deploy/helm/headroom/README.md": ("| `profiles` |", "| `profile` |")}, ["README.md: not that of the program"]),
        ({"deploy/helm/headroom/values.yaml": ("\nresources:", "\nsources: {}\nresources:")}, ["keys of values.yaml and its schema", "defaults.json: not that of the program"]),
    ],
    check_deploy.check_options: [({"build/packaging/schema.json": ('"yield"', '"yields"')}, ["schema.json: on_drift: "])],
    check_release.check_versions: [
        ({"packaging/rpm/headroom.spec": ("\nVersion:  ", "\nVersion:  9.")}, ["packaging/rpm/headroom.spec: version 9."]),
    ],
    check_release.check_refusals: [
        ({"packaging/release": ("\t[[ -z $(git status", "\ttrue || [[ -z $(git status")}, ["packaging/release accepts a dirty tree"]),
        ({"packaging/release": ("'packaging/debian/changelog ^", "'packaging/debian/copyright ^")}, ["packaging/release refuses a good commit: ", "packaging/release accepts '(9.8.7)' in packaging/debian/changelog", "packaging/release --set leaves "]),
    ],
    check_release.check_links: [
        ({"deploy/helm/headroom/dashboard.json": None}, ["deploy/grafana/headroom.json: a link to ../helm/headroom/dashboard.json"]),
    ],
    check_release.check_build_depends: [
        ({"packaging/debian/control": (" libisal-dev (>= 2.30),\n", "")}, ["packaging/debian/control: libisal-dev is missing"]),
    ],
    check_row.check_views: [
        ({},
         [*(f"{view}: nothing" for view in ("status",
          "status --json", "top limits", "top check-row", "explain", "metrics", "page", "headroom-limits.7", "metrics.md", "headroom.bash")), "the new row is full:"]),
    ],
    check_row.check_expressions: [
        ({RULES: ("headroom_limit_used / ", 'headroom_limit_used{limit="pids"} / ')}, [f"{RULES}: an expression has the limits pids only"]),
    ],
}  # fmt: skip


def copy_files(given, top):
    for name in COPIED:
        target = top / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (given.root / name).is_dir():
            shutil.copytree(given.root / name, target, symlinks=True, ignore=shutil.ignore_patterns("gendoc*"))
        else:
            shutil.copy(given.root / name, target)
    shutil.copytree(given.documents, top / "build/packaging", ignore=shutil.ignore_patterns("CMakeFiles"))
    callers = [(name, functions) for files in check_source.CALLERS.values() for name, functions in files.items()]
    for name in dict(callers):
        functions = " ".join(functions for file, functions in callers if file == name).split()
        write(top / name, LICENCE + "".join(CALL % (function, "unlink(path)") for function in functions))
    (top / "src/good.c").write_text(LICENCE + FUNCTION % "" * 8)
    (top / "build/src").mkdir()
    (top / "library").touch()
    make_library(top)
    for name, program in ("headroom", given.headroom), ("tables", given.tables):
        (top / name).write_text(EXEC % program)
        (top / name).chmod(0o755)


def make_library(top):
    subprocess.run(["cc", "-x", "c", "-c", "-o", "x.c.o", "library"], cwd=top, check=True)
    subprocess.run(["ar", "rc", "build/src/libheadroom_core.a", "x.c.o"], cwd=top, check=True)


def changed(path, change):
    if not isinstance(change, tuple):
        return change
    old, new = change
    text = path.read_text()
    assert old in text, f"{path} has no {old!r}"
    return text.replace(old, new) if "build/packaging" in str(path) else text.replace(old, new, 1)


def plant(top, files):
    """Returns how to undo it: {path: text, or None for no file}"""
    undo = {}
    for name, change in files.items():
        path = top / name
        undo[path] = path.read_text() if path.exists() else None
        write(path, changed(path, change))
    return undo


def write(path, text):
    if text is None:
        path.unlink()
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def faults_of(check, top, files):
    undo = plant(top, files)
    if "library" in files:
        make_library(top)
    with contextlib.redirect_stdout(io.StringIO()):
        faults = list(check(Tree(top, top / "build", top / "headroom", top / "tables", top / "build/packaging/gendoc")))
    for path, text in undo.items():
        write(path, text)
    return faults


def main():
    given, wrong, n = given_tree(), [], 0
    for module in (check_source, check_docs, check_deploy, check_release, check_row):
        wrong += [f"{check.__name__}: no defect is planted for it" for check in module.CHECKS if check not in DEFECTS]
    with tempfile.TemporaryDirectory() as directory:
        copy_files(given, Path(directory))
        without = {check: faults_of(check, Path(directory), {}) for check in DEFECTS}
        for check, files, expected in [(check, *case) for check, cases in DEFECTS.items() for case in cases]:
            faults, n = faults_of(check, Path(directory), files), n + 1
            faults = [fault for fault in faults if not files or fault not in without[check]]
            if len(faults) != len(expected) or not all(fault.startswith(text) for fault, text in zip(faults, expected)):
                wrong.append(f"{check.__name__} with {files}:\n    {faults}\n    and not {expected}")
    print(f"{n} defects planted", *wrong, sep="\n")
    sys.exit(1 if wrong else 0)


main()
