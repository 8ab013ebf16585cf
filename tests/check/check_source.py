#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rules for the source: include order, callers that change files, reasons, lengths, licences, globals, format.

check_source.py BUILD HEADROOM TABLES: the build directory, the program, and the program that prints its tables.
"""

import re
import runpy
import shutil
import subprocess
from pathlib import Path

from tree import COMMENT_OR_TEXT, DIRECTORIES, given_tree, report

# A directory of src/ includes only directories before it.
LEVELS = ["base", "model", "config", "kernel", "workload", "runtime", "tuners", "apply", "report", "agent", "cli"]
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.M)

# Only these functions create, replace or remove files. The node's configuration: src/apply alone, after a record.
NODE = "the node's configuration"
CALLERS = {
    NODE: {
        "src/apply/values.c": "write_text set_threshold",
        "src/apply/file.c": "match_attribute copy_metadata write_beside file_put file_remove file_put_trial file_drop_trial",
        "src/apply/pin.c": "write_file",
        "src/apply/load_file.c": "remove_file load_file_put",
        "src/apply/file_transaction.c": "replace_old restore_once file_transaction",
    },
    "hosts.toml of a load, through load_file_put() of src/apply": {
        "src/agent/core.c": "core_open",
        "src/runtime/containerd_images.c": "put_hosts",
        "src/runtime/images.c": "images_remove_file",
    },
    "records of originals, in the state directory": {
        "src/apply/file.c": "open_kept file_keep file_sweep file_journal_open file_journal_store",
        "src/apply/file_transaction.c": "roll_back_file keep_original",
    },
    "records of values, and the lock, in the runtime directory": {"src/apply/values.c": "open_file value_store_open lock_acquire"},
    "state that a later agent reads, in both directories": {
        "src/agent/kept.c": "write_kept run_save",
        "src/report/incidents.c": "write_small prune append incidents_lock incident_begin append_to finish_file close_left incidents_mark_start",
        "src/tuners/images/record.c": "record_write",
    },
    "entries of the neighbour tables, which are no configuration": {"src/kernel/neighbors.c": "neighbors_probe neighbors_put_stale"},
    "both directories, when the package is removed": {"src/cli/apply.c": "remove_runtime restore_locally"},
    "the agent's socket": {"src/report/http.c": "bind_unix http_server_close"},
    "a file without a name, for the time of a job": {"src/runtime/archive.c": "unpack_archive", "src/base/child.c": "open_output"},
    "the file that the user names": {"src/cli/doctor_bundle.c": "doctor_bundle"},
    "tools of the others": {"src/base/file.c": "make_directories make_own_directory remove_tree replace_file replace_path"},
}
CHANGING = re.compile(
    r"\b(?:(replace_path|replace_file|remove_tree|make_directories|make_own_directory|file_put|file_remove|load_file_put|put_load_file|"
    r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_TMPFILE|RTM_SETNEIGHTBL|RTM_NEWNEIGH)\b|"
    r"(mkdir|mkdirat|rmdir|unlink|unlinkat|remove|rename|renameat2?|symlink|symlinkat|link|linkat|creat|mknod|mkfifo|mkstemp|mkostemp|"
    r"mkdtemp|f?truncate|pwrite|posix_fallocate|fallocate|f?chmod|fchmodat|f?chown|f?setxattr|f?removexattr|mount|umount2?|freopen|fopen)\()")
READING_FOPEN = re.compile(r'fopen\([^;]*?,\s*"re"\)')
FUNCTION = re.compile(r"^\w(?:(?!\n\n)[^;{}#])*?\b(\w+)\((?:(?!\n\n)[^;{}])*\)\n\{\n(.*?)^\}", re.M | re.S)

# These functions find words in a text. Facts of a configuration of others come from a parser: toml_parse(), libyaml, cJSON, environment_get().
MATCHES = {
    "text of the kernel, which has one spelling": {
        "src/kernel/host.c": "unescape mounts_next",
        "src/kernel/kmsg.c": "kmsg_parse_record kmsg_parse_line",
        "src/report/metrics.c": "put_process",
        "src/tuners/check_node.c": "find_controller_v1 check_swap",
        "src/tuners/checks.c": "bpf_jit_bytes check_ipv6_routes",
        "src/tuners/dns/who.c": "process_serves",
        "src/tuners/limits/read.c": "limits_read_pids limits_read_memory_cgroups limits_read_keys add_counter",
        "src/tuners/storage/disk.c": "read_disk",
        "src/tuners/storage/sense.c": "controls_io",
        "src/tuners/thp/tuner.c": "parse_boot_line meminfo_kb thp_sense",
        "src/tuners/thp/users.c": "huge_bytes",
        "src/workload/cgroup.c": "hierarchy_number cgroup_memory_maximum",
        "src/workload/process.c": "process_start process_is_of_host",
    },
    "paths and names: of cgroups, programs, files, units": {
        "src/apply/file.c": "file_put_trial",
        "src/runtime/bad_file.c": "bad_file_find_writer",
        "src/runtime/driver.c": "read_program",
        "src/runtime/kubelet.c": "find_files",
        "src/tuners/check_log.c": "cure_oom",
        "src/tuners/check_resolver.c": "PRINTF_LIKE",
        "src/tuners/dns/judge.c": "dns_is_node_cache list_forwarders",
        "src/tuners/kubelet/tuner.c": "add_cure",
        "src/tuners/limits/census.c": "name_scope",
        "src/tuners/limits/cure.c": "is_unit",
        "src/tuners/limits/etcd.c": "read_etcd",
        "src/report/recorder.c": "find_cause",
        "src/workload/cgroup.c": "parse_pod path_workload cgroup_user_slice",
        "src/workload/process.c": "is_of_container",
    },
    "names of images, layers, registries and tables, and URLs, after a parser": {
        "src/runtime/containerd.c": "find_source add_new_blobs ask_content find_full_name has_below",
        "src/runtime/crio.c": "covers write_registry",
        "src/runtime/docker.c": "read_image find_image find_certificates find_mirrors",
        "src/runtime/images.c": "images_is_ours",
        "src/runtime/pulls.c": "pulls_name",
        "src/runtime/registry.c": "registry_list_covers registry_api_length",
        "src/tuners/limits/etcd.c": "choose_url",
    },
    "texts of this program, and words that users type": {
        "src/cli/explain.c": "print_brief",
        "src/cli/screen.c": "filter_rows",
        "src/config/config.c": "has_variable",
        "src/tuners/names.c": "text_has has_part",
    },
    "the comment of a generator at the start of its file: no parser keeps comments": {
        "src/runtime/bad_file.c": "find_header",
        "src/runtime/containerd.c": "refuse_generated has_header",
    },
    "fstab(5) and files of host-local, which know no quotes": {
        "src/tuners/check_node.c": "decode find_in_fstab",
        "src/tuners/limits/addresses.c": "list_leaked",
    },
    "options of a command line": {"src/runtime/systemd.c": "systemd_starts_with", "src/tuners/limits/etcd.c": "read_k3s"},
    "versions, messages of programs, headers of HTTP": {
        "src/base/child.c": "logged_message error_line child_ask",
        "src/config/config.c": "encoding_fault parser_fault",
        "src/report/http.c": "quality",
        "src/runtime/containerd.c": "containerd_check_program containerd_is_at_least blame_version blame_import line_in",
        "src/runtime/docker.c": "read_next_version",
        "src/runtime/cri.c": "image_call",
        "src/runtime/crio.c": "blame check_files",
        "src/runtime/images.c": "answer_blob",
        "src/tuners/images/transfer.c": "note_end",
    },
    "our own files, lists and texts": {
        "src/agent/findings.c": "add_missing",
        "src/apply/values.c": "check_header lock_owner is_settled name_holder lock_holder",
        "src/base/text.c": "time_parse hide_login hide_secrets text_after_path",
        "src/base/util.h": "starts_with",
        "src/cli/doctor.c": "check_agent",
        "src/cli/doctor_bundle.c": "secret_word redact",
        "src/cli/screen.c": "locale_is_ascii put",
        "src/cli/status.c": "fit_parts print_conditions",
        "src/config/web.c": "hash_fault",
        "src/model/finding.c": "finding_about",
        "src/report/page.c": "PRINTF_LIKE",
        "src/report/status_json.c": "finding_instance",
        "src/tuners/runtime/decide.c": "find_mirrors",
        "src/runtime/crio.c": "edit_pins",
        "src/runtime/docker.c": "check_flags check_types describe_bad read_docker",
        "src/runtime/kubelet.c": "is_known_key check_type",
        "src/runtime/registry.c": "prepare_get mirror_file_list",
        "src/tuners/limits/cure.c": "limits_cure_socket_memory limits_cure_filesystem",
    },
}
MATCHING = re.compile(r"\b(strstr|strcasestr|sscanf|strncmp|memmem|getline|fgets)\(")

REASON_ROWS = Path("include/headroom/reason_rows.h")
ROW = re.compile(r'^ROW\((\w+), "([^"]+)"', re.M)
# Lists, comparisons and tables by reason do not give a reason.
NOT_GIVEN = re.compile(r"const enum reason \w+\[\] = \{.*?\};|\bREASON_LIST\([^)]*\)|[=!]= REASON_\w+|\[REASON_\w+\]", re.S)
CALL_OF_STREQ = re.compile(r"\bstreq(\((?:[^()]|\([^()]*\))*\))")

FUNCTION_MAX = 80
FUNCTION_P90_MAX = 45
FILE_MAX = 1500
GLOBALS_ALLOWED = {"log.c.o": {"log_state"}}


def may_include(tree, path, include):
    area, *parts = path.parts
    other = include.split("/")[0] if "/" in include and include.split("/")[0] in LEVELS else None
    if area == "bpf":
        return (tree.root / path.parent / include).exists() or re.match(
            r"headroom/bpf/|linux/|bpf/bpf_|stdbool\.h$|stddef\.h$", include)
    if area == "include":
        return not other
    if len(parts) == 1:  # main.c
        return other in ("cli", None)
    if parts[0] == "tuners" == other and len(parts) > 2:
        return include.split("/")[1] == parts[1] or include.count("/") == 1
    return other in (None, parts[0]) or LEVELS.index(other) < LEVELS.index(parts[0])


def check_includes(tree):
    for path, text in tree.sources.items():
        if path.parts[0] in ("src", "include", "bpf"):
            yield from (f"{path}: includes {name}" for name in INCLUDE.findall(text) if not may_include(tree, path, name))


def changes(path, text):
    """Function -> what it calls to create, replace or remove a file. "": outside of functions, where headers have declarations."""
    text = COMMENT_OR_TEXT.sub("", READING_FOPEN.sub("", text))
    bodies = [*FUNCTION.findall(text), ("", FUNCTION.sub("", text) if path.suffix == ".c" else "")]
    found = {name: sorted({a or b for a, b in CHANGING.findall(body)}) for name, body in bodies}
    return {name: calls for name, calls in found.items() if calls}


def check_matches(tree):
    listed = {(file, name) for files in MATCHES.values() for file, names in files.items() for name in names.split()}
    for path, text in tree.code.items():
        bodies = [*FUNCTION.findall(text), ("", FUNCTION.sub("", text))] if path.parts[0] == "src" else ()
        for name, calls in ((name, set(MATCHING.findall(body))) for name, body in bodies):
            if calls and (str(path), name) not in listed:
                yield f"{path}: {name}() uses {', '.join(sorted(calls))}: take a parser, or give a reason in MATCHES"
            listed -= {(str(path), name)} if calls else set()
    yield from (f"{file}: {name}() matches no text: take it from MATCHES" for file, name in sorted(listed))


def check_callers(tree):
    listed = {(file, name) for files in CALLERS.values() for file, names in files.items() for name in names.split()}
    yield from (f"{file}: only src/apply may write {NODE}" for file in CALLERS[NODE] if not file.startswith("src/apply/"))
    for path, text in tree.sources.items():
        for name, calls in changes(path, text).items() if path.parts[0] in ("src", "include") else ():
            if (str(path), name) not in listed:
                yield f"{path}: {name}() uses {', '.join(calls)}: let src/apply write, or give a reason in CALLERS"
            listed.discard((str(path), name))
    yield from (f"{file}: {name}() changes no file: take it from CALLERS" for file, name in sorted(listed))


def check_reasons(tree):
    """The code gives each row, and compares no slugs. The slug of a row is its name."""
    rows, given = dict(ROW.findall(tree.sources.get(REASON_ROWS, ""))), set()
    for path, text in tree.sources.items():
        if path.parts[0] == "src":
            given.update(re.findall(r"\bREASON_(\w+)", NOT_GIVEN.sub("", text)))
            calls = CALL_OF_STREQ.findall(text)
            yield from (f"{path}: compares as text: {call}" for call in calls if re.search(r"\breason\b", call))
    yield from (f"the slug of REASON_{name} is {slug}" for name, slug in rows.items() if slug != name.lower().replace("_", "-"))
    yield from (f"REASON_{name} is given nowhere" for name in sorted(rows.keys() - given))
    if not rows:
        yield f"{REASON_ROWS}: no rows"
    print(f"{len(rows)} reasons")


def functions(lines):
    """(first line, length) of each: the braces of a function stand alone in the first column."""
    start = None
    for number, line in enumerate(lines, 1):
        if line == "{":
            start = number
        elif line == "}" and start:
            yield start, number - start + 1
            start = None


def check_lengths(tree):
    lengths = []
    for path, text in tree.sources.items():
        lines = text.split("\n")
        if len(lines) - 1 > FILE_MAX:
            yield f"{path}: {len(lines) - 1} lines, at most {FILE_MAX}"
        for start, length in functions(lines):
            if length > FUNCTION_MAX:
                yield f"{path}:{start}: a function of {length} lines, at most {FUNCTION_MAX}"
            if path.parts[0] != "tests":
                lengths.append(length)
    lengths.sort()
    p90 = lengths[len(lengths) * 9 // 10]
    print(f"{len(lengths)} functions: median {lengths[len(lengths) // 2]} lines, p90 {p90}, longest {lengths[-1]}")
    if p90 >= FUNCTION_P90_MAX:
        yield f"p90 of the length of functions is {p90}, not under {FUNCTION_P90_MAX}"


def print_totals(tree):
    for areas in (("src", "include"), ("bpf",), ("tests",)):
        paths = [path for area in areas for path in (tree.root / area).rglob("*") if path.is_file()]
        lines = sum(path.read_bytes().count(b"\n") for path in paths if not {"corpus", "__pycache__"} & set(path.parts))
        print(f"{' and '.join(areas)}: {lines} lines")


def needs_licence(path):
    if path.suffix or not path.is_file():
        return path.suffix in (".c", ".h", ".py", ".sh", ".cmake") or path.name == "CMakeLists.txt"
    return path.read_bytes()[:2] == b"#!"


def check_licences(tree):
    paths = [tree.root / "CMakeLists.txt", *(path for area in DIRECTORIES for path in (tree.root / area).rglob("*"))]
    for path in paths:
        if "__pycache__" in path.parts or not needs_licence(path):
            continue
        name = path.relative_to(tree.root)
        shared = name.parts[0] == "bpf" or name.parts[:3] == ("include", "headroom", "bpf")
        wanted = "" if name == Path("bpf/CMakeLists.txt") else "GPL-2.0-only OR BSD-2-Clause" if shared else "Apache-2.0"
        head = path.read_text(errors="replace").split("\n")[:3]
        if not any("SPDX-License-Identifier: " in line and wanted in line for line in head):
            yield f"{name}: no SPDX-License-Identifier: {wanted}"


def check_globals(tree):
    """Symbols in .data or .bss of the library are const, constant tables, or allowed."""
    archive = tree.build / "src" / "libheadroom_core.a"
    table = subprocess.run(["objdump", "-t", archive], capture_output=True, text=True, check=True)
    member = ""
    for line in table.stdout.split("\n"):
        if found := re.match(r"^(\S+\.o):\s+file format", line):
            member = found.group(1)
        found = re.match(r"^[0-9a-f]+ .{5}.O \.(?:data|bss|tdata|tbss)(?!\.rel\.ro)\S*\s+[0-9a-f]+\s+(?:\.hidden )?(\S+)$", line)
        if found and not re.match(r"__odr_asan|__asan|_*ubsan", found[1]) and found[1] not in GLOBALS_ALLOWED.get(member, ()):
            yield f"{member.removesuffix('.o')}: {found[1]} is a variable outside any function, or static in one"


def check_format(tree):
    # Versions disagree about the same style. Debian 12 and 13 both have this one.
    if not shutil.which("clang-format-19"):
        print("the format is not checked: no clang-format-19")
        return
    run = subprocess.run(["clang-format-19", "--dry-run", "-Werror", *tree.sources], cwd=tree.root, capture_output=True, text=True)
    for path in sorted(set(re.findall(r"^(\S+?):\d+:\d+: error:", run.stderr, re.M))):
        yield f"{path}: not as clang-format-19 formats it"


# A hash table or a trie: by the macro, in a structure, or of a structure that several share.
FILLING_MAP = re.compile(r'^MAP\((\w+), \w*(?:HASH|TRIE)|BPF_MAP_TYPE_\w*(?:HASH|TRIE)\);[^}]*\} (\w+) SEC|^struct \w+ (\w+) SEC\("\.maps"\)', re.M)


def check_names(tree):
    """A name leads to one thing: tags are unique in src, and functions, variables and BPF maps say what they are."""
    for path, text in tree.sources.items():
        for name in (next(filter(None, found)) for found in FILLING_MAP.findall(text) if path.parts[0] == "bpf"):
            if not name.startswith("headroom_"):
                yield f"{path}: the row bpf/map does not leave out the map {name}: call it headroom_{name}"
    places = {}
    for path, text in tree.code.items():
        for tag in re.findall(r"^(?:typedef |static |const )*(?:struct|union|enum) (\w+) \{", text, re.M):
            places.setdefault(tag, []).append(str(path))
        for name in re.findall(r"^\w[\w *]*?\b(load|finish|judge|rank|check)\(", text, re.M):
            yield f"{path}: a function called only {name}"
        for name in sorted(set(re.findall(r"\b(its|of|one|that|mine)\b", INCLUDE.sub("", text)))):
            yield f"{path}: a variable called {name}"
    yield from (f"{' and '.join(paths)}: both have a tag {tag}" for tag, paths in places.items() if len(paths) > 1)


def argument_of(text, start):
    """What stands between the parenthesis before start and its end."""
    depth = 1
    for end in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        if depth == 0:
            return " ".join(text[start:end].split())
    return text[start:]


def check_idioms(tree):
    for path, text in tree.code.items():
        for call in re.finditer(r"\bmust\(", text):
            argument = argument_of(text, call.end())
            result = argument.rsplit("?", 1)[-1]
            if re.search(r"\?.*\bNULL\b", argument) or re.search(r"[!=<>]=|[<>]|&&|\|\|", re.sub(r"->|\([^()]*\)", "", result)):
                yield f"{path}: must({argument}) is not for a pointer"
        for body in re.findall(r"^\w[^\n;]*\([^;{}]*\)\n\{.*?^\}", text, re.M | re.S):
            for name in set(re.findall(r"\benum \w+ (\w+)\b", body)):
                if re.search(rf"\b{name} \+= |\b{name} = [^;]*\b{name} \+", body):
                    yield f"{path}: adds to the enum {name}"
        for pattern in re.findall(r'"[\w*?]*\w\?[\w*?]*"', tree.sources[path]):
            yield f"{path}: the pattern {pattern} has a ? for a character"


AREAS = ["src", "include", "bpf", "tests", "packaging", "deploy", ".github"]
COMMENT = re.compile(r"/\*.*?\*/", re.S)
NAMED_FILE = re.compile(r"(?<![\w/.<>\"*-])([a-z][a-z0-9_]*\.(?:bpf\.c|c|py))\b(?![\w(.])")


def check_named_files(tree):
    """Comments and documents name files that exist. Files of other projects have a directory in their name."""
    paths = [path for area in AREAS for path in sorted((tree.root / area).rglob("*"))]
    existing = {path.name for path in paths}
    for path in paths:
        if path.suffix in (".c", ".h", ".md", ".in") and path.is_file():
            text = path.read_text(errors="replace")
            text = "\n".join(COMMENT.findall(text)) if path.suffix in (".c", ".h") else text
            for name in sorted(set(NAMED_FILE.findall(text)) - existing):
                yield f"{path.relative_to(tree.root)}: there is no file {name}"


def check_mutants(tree):
    """Each chosen mutant still has its text in the source, and breaks one of the promises, of which each is broken."""
    table = "tests/mutants/chosen.py"
    mutants = runpy.run_path(str(tree.root / table))["MUTANTS"]
    promises = runpy.run_path(str(tree.root / "tests/chaos/promises.py"))["PROMISES"]
    yield from (f"{table}: no mutant breaks {promise}" for promise in set(promises) - {m[0] for m in mutants.values()})
    for name, (promise, file, old, _) in mutants.items():
        if promise not in promises:
            yield f"{table}: {name}: there is no promise {promise}"
        text = tree.read(file) if (tree.root / file).exists() else ""
        if text.count(old) != 1:
            yield f"{table}: {name}: its text is {text.count(old)} times in {file}"


SYSCALL_TABLE = Path("src/agent/syscalls.c")
WRAPPERS = {"klogctl": "syslog"}  # functions of the C library with another name than their call
NEVER_WHEN_READY = {"getpgrp": "commands on a terminal", "setrlimit": "the start of the agent", "splice": "a function of src/apply/edit.c"}


def known_syscalls():
    macros = subprocess.run(["cc", "-E", "-dM", "-include", "sys/syscall.h", "-x", "c", "/dev/null"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"^#define __NR_(\w+)", macros, re.M))


def called_syscalls(tree):
    """The system calls that the program makes by functions of the C library, or with syscall(2)."""
    functions = {name for text in tree.code.values() for name in re.findall(r"(?<![\w>.])(\w+)\(", text)}
    functions -= {match[1] for text in tree.code.values() for match in FUNCTION.finditer(text)}
    direct = {name for text in tree.code.values() for name in re.findall(r"\bSYS_(\w+)", text)}
    return ({WRAPPERS.get(name, name) for name in functions} | direct) & known_syscalls()


def check_syscalls(tree):
    """The agent's filter has all calls that the tests have used or that the program can make, and no others."""
    table = re.search(r"allowed\[\] = \{(.*?)\};", tree.sources[SYSCALL_TABLE], re.S)
    rows = [row.split() for row in re.findall(r'"([^"]*)"', table[1])]
    allowed = {name for row in rows for name in row}
    recorded = set(tree.read("tests/check/syscalls.txt").split())
    for name in sorted(recorded - allowed):
        yield f"{SYSCALL_TABLE}: {name} is missing: the tests use it"
    called = called_syscalls(tree) - recorded
    for name in sorted(called - allowed - NEVER_WHEN_READY.keys()):
        yield f"{SYSCALL_TABLE}: {name} is missing: the program can call it"
    for row in rows:
        if not recorded.union(called).intersection(row):
            yield f"{SYSCALL_TABLE}: no test uses a call of the row {' '.join(row)}: take it out, or run tests/tool/syscalls"


FAIL_CALLS = Path("tests/tool/fail_calls.c")
NEVER_FAIL = {
    "exit exit_group rt_sigreturn restart_syscall": "do not return",
    "clock_gettime getegid geteuid getgid getpid getppid getrlimit gettid getuid sched_yield sysinfo umask uname": "have no errors",
    "capget getsockname inotify_rm_watch rt_sigaction rt_sigprocmask sched_getaffinity tgkill": "have errors for wrong arguments only",
    "pause": "always ends with EINTR",
    "arch_prctl brk futex rseq set_robust_list set_tid_address sigaltstack": "are made by the C library alone",
    "close close_range": "close the descriptor in spite of an error, and a call that is not made does not",
    "munmap": "fails only at the limit of mappings, and then the C library ends the program",
}


def check_failing_calls(tree):
    """tests/calls makes each call of the tests fail, unless there is a reason."""
    table = set(re.findall(r"\b(?:CALL|CHANGE)\((\w+), ", tree.read(str(FAIL_CALLS))))
    recorded = set(tree.read("tests/check/syscalls.txt").split())
    excused = {name for names in NEVER_FAIL for name in names.split()}
    for name in sorted(recorded - table - excused):
        yield f"{FAIL_CALLS}: {name} is missing: the tests use it"
    for name in sorted(excused & table | excused - recorded):
        yield f"{FAIL_CALLS}: {name} has a reason to be missing, and {'is there' if name in table else 'no test uses it'}"


CHECKS = [
    check_includes,
    check_syscalls,
    check_failing_calls,
    check_callers,
    check_matches,
    check_reasons,
    check_lengths,
    check_names,
    check_idioms,
    check_named_files,
    check_mutants,
    check_licences,
    check_globals,
    check_format,
]

if __name__ == "__main__":
    given = given_tree()
    print(f"{len(given.sources)} files checked")
    print_totals(given)
    report(CHECKS, given)
