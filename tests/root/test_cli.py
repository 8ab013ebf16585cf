# SPDX-License-Identifier: Apache-2.0
"""Usage, output and exit codes of the commands."""

import contextlib
import html
import json
import os
import pty
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from conftest import BIN, Node, environment, until

COMMANDS = ("agent", "status", "plan", "apply", "restore", "explain", "check-config", "version")
# The exit codes of each command; 1 and 64 are possible for all.
EXITS = {"agent": {0, 75}, "status": {0, 2}, "plan": {0, 2}, "restore": {0, 2}, "doctor": {0, 2}, "fleet": {0, 2}}
ESCAPE = "\x1b"


@pytest.mark.quick
@pytest.mark.parametrize(
    "args",
    [
        (),
        ("nonesuch",),
        ("--nonesuch",),
        ("status", "--nonesuch"),
        ("status", "extra"),
        ("plan", "extra"),
        ("top", "nothing"),
        ("apply", "--only"),
        ("apply", "--only", "nonesuch"),
        ("restore", "--only", "nonesuch"),
        ("restore", "--purge", "--only", "thp"),
        ("agent", "--config"),
        ("version", "extra"),
        ("incidents", "a", "b"),
        ("top", "conntrack", "pids"),
        ("help", "nonesuch"),
        ("help", "top", "plan"),
    ],
)
def test_wrong_usage_exits_64(node: Node, run, args: tuple[str, ...]) -> None:
    answer = run(*args)
    assert answer.returncode == 64
    assert answer.stdout == ""
    assert answer.stderr.strip() and ("nonesuch" in answer.stderr or args[1:] != ("--only", "nonesuch"))
    node.assert_unchanged()


@pytest.mark.parametrize("command", COMMANDS)
def test_help_lists_every_command(run, command: str) -> None:
    overview = run("--help")
    assert overview.returncode == 0
    assert re.search(rf"^\s+(headroom )?{command}\b", overview.stdout, re.M)
    answer = run(command, "--help")
    assert answer.returncode == 0
    assert answer.stderr == ""
    for part in ("usage: headroom " + command, "--config", "Example:\n  headroom " + command, "Exit codes:", "64  "):
        assert part in answer.stdout


@pytest.mark.apart
def test_help_fits_80_columns_and_lists_the_exit_codes_of_its_command(run) -> None:
    overview = run("--help").stdout
    assert max(map(len, overview.splitlines())) <= 80
    commands = re.findall(r"^  (\S+)", overview, re.M)
    assert {*COMMANDS, *EXITS} <= set(commands)
    for command in commands:
        text = run(command, "--help").stdout
        assert max(map(len, text.splitlines())) <= 80, text
        assert run(command, "-h").stdout == text
        codes = {int(code) for code in re.findall(r"^ +(\d+)  ", text.split("Exit codes:")[1], re.M)}
        assert codes == EXITS.get(command, {0}) | {1, 64}, text
    assert all(len(line) <= 60 or line.startswith("  headroom ") for line in run("fleet", "--help", env={"COLUMNS": "60"}).stdout.splitlines())


@pytest.mark.apart
def test_version_without_an_agent_points_to_doctor(run) -> None:
    answer = run("version")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert re.fullmatch(r"headroom \S+ \(\S+\)\nNo agent is running: headroom doctor .*\n", answer.stdout), answer.stdout
    document = json.loads(run("version", "--json").stdout)
    assert (document["schema"], document["agent"], document["tuners"]) == (1, None, [])


@pytest.mark.apart
def test_every_document_has_its_schema(run, agent) -> None:
    one = agent("mode: observe\n")
    commands = ("status", "plan", "restore --plan", "images", "incidents", "doctor", "version", "config")
    documents = {command: json.loads(run(*command.split(), "--json").stdout) for command in commands}
    documents |= {path: json.loads(one.get(path)[1]) for path in ("/v1/status", "/v1/incidents", "/health")}
    incident = documents["incidents"]["incidents"][0]["id"] if documents["incidents"]["incidents"] else None
    if incident:
        documents["incident"] = json.loads(run("incidents", incident, "--json").stdout)
    assert {name: document.get("schema") for name, document in documents.items()} == dict.fromkeys(documents, 1)


def test_version_lists_the_tuners_and_their_states(agent, run) -> None:
    agent()
    answer = run("version")
    assert answer.returncode == 0 and answer.stderr == ""
    assert re.search(r"\b\d+\.\d+\.\d+\b", answer.stdout)
    tuners = ("neighbor", "thp", "dns", "runtime", "images", "sysctl", "kubelet", "limits", "storage")
    for tuner in tuners:
        assert re.search(rf"\b{tuner}\b", answer.stdout)
    document = json.loads(run("version", "--json").stdout)
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", document["version"])
    assert document["commit"]
    assert {t["name"]: t["state"] for t in document["tuners"]} == dict.fromkeys(tuners, "active")
    short = run("--version")
    assert short.returncode == 0 and short.stdout == f"headroom {document['version']} ({document['commit']})\n"


@pytest.mark.quick
def test_explain_knows_every_name_that_is_shown(agent, run) -> None:
    status = agent().status()
    names = [limit["name"] for limit in status["limits"]]
    names += [setting["name"] for setting in status["settings"]]
    names += [condition["type"] for condition in status["conditions"]]
    names += [thing["reason"] for thing in status["settings"] + status["conditions"]]
    assert "neighbor/ipv4" in names and "neighbor/ipv6" in names
    words = ["headroom_limit_used", "etcd", "conntrack", "limits", "KubeletSerialPulls", "peak", "hits"]
    words += ["OK", "True", "False", "Unknown", "ok", "advice", "warning", "critical", "active", "degraded", "off"]
    words += ["enforce", "observe", "released", *"in-sync pending drifted yielded failed unsupported observed".split()]
    words += ["budget", "p99", "upstream", "cluster", "q/s", "peak/s", "not applicable", "answers", "silent", "not-running"]
    words += ["workload", "device", "kind", "server", *"pod container unit lxd netns uid host".split()]
    for name in {*names, *words}:
        answer = run("explain", name)
        assert answer.returncode == 0, (name, answer.stderr)
        assert len(answer.stdout.split()) >= 6, (name, answer.stdout)
        assert ESCAPE not in answer.stdout
    assert "advice" in run("explain", "KubeletSerialPulls").stdout
    assert {word for word in words if " " not in word} <= {line.split()[0] for line in run("explain").stdout.splitlines()}
    answer = run("explain", "gc_thresh3").stdout
    assert re.search(r"here +net\.ipv4\.neigh\.default\.gc_thresh3: \d+, wanted 100000, mode enforce, [a-z-]+ since 20\d\d-", answer), answer
    assert re.search(r"here +neighbor/ipv4: \d+ of \d+ entries, .* peak ", run("explain", "neighbor/ipv4").stdout)
    assert re.search(r"here +False since \d+-", run("explain", "NeighborTableOverflow").stdout)


@pytest.mark.parametrize(
    ("word", "names"),
    [
        ("inotify", ["inotify/instances", "inotify/watches", "fs.inotify.max_user_instances"]),
        ("arp", ["neighbor/ipv4"]),
        ("mirrors", ["runtime.mirrors"]),
        ("AWS", ["budget/aws"]),
        ("ndots", ["dns-search-cluster"]),
        ("EMFILE", ["files/process"]),
        ("nf_conntrack_max", ["conntrack"]),
        ("EADDRNOTAVAIL", ["ports"]),
        ("hugepages", ["thp"]),
        ("fsync", ["StorageSlow"]),
        ("Busiest second", ["peak/s"]),
        ("conntrack_max", ["conntrack"]),
        ("arp cache", ["neighbor/ipv4"]),
        ("neighbour table overflow", ["NeighborTableOverflow"]),
        ("ephemeral", ["ports"]),
        ("EMFILE", ["inotify/instances"]),
        ("nf_conntrack_max", ["conntrack/namespace"]),
        ("imds", ["nic/link-local"]),
        ("dirty", ["storage.bound_writeback"]),
        ("transparent_hugepage", ["thp"]),
        ("nodelocaldns", ["local"]),
        ("memcg", ["memory-cgroups"]),
        ("psi", ["pressure"]),
        ("rmem", ["udp-memory"]),
        ("ENOBUFS", ["neighbor/ipv4"]),
        ("HeadroomSyncsSlow", ["StorageSlow"]),
        ("findings", ["finding"]),
        ("vm/max_map_count", ["vm.max_map_count"]),
        ("net/ipv4/ip_forward", ["ip-forward"]),
        ("/proc/sys/fs/inotify/max_user_watches", ["fs.inotify.max_user_watches"]),
        ("fd", ["files/process", "file-handles"]),
        ("tw", ["ports"]),
        ("OOMKilled", ["kernel-log/oom"]),
        ("toomanyrequests", ["runtime.mirrors"]),
        ("registry", ["runtime.mirrors", "kubelet.registryPullQPS"]),
        ("certificate", ["tls-key"]),
        ("neighbor/write", ["tuner-degraded"]),
        ("stale neighbours", ["NeighborStale"]),
        ("own-mode", ["held_by"]),
        ("queries/s", ["q/s"]),
        ("could not be checked", ["Unknown"]),
        ("SYN flooding", ["listen"]),
    ],
)
@pytest.mark.apart
def test_explain_finds_the_words_of_the_field_and_parts_of_names(run, word: str, names: list[str]) -> None:
    answer = run("explain", word)
    assert answer.returncode == 0, answer
    assert set(names) <= {line.split()[0] for line in answer.stdout.splitlines() if line.strip()}, answer.stdout


@pytest.mark.apart
def test_explain_says_what_a_sysctl_is_and_who_ships_its_value(run) -> None:
    text = run("explain", "fs.inotify.max_user_instances").stdout
    assert re.search(r"\n  How many inotify instances .*\n  value +8192\n", text) and re.search(r"\n  source +Amazon's EKS", text), text


@pytest.mark.apart
@pytest.mark.parametrize(("word", "count"), [("oom", 3), ("room", 3), ("head", 3)])
def test_explain_skips_the_prefix_that_all_metrics_have(run, word: str, count: int) -> None:
    names = {line.split()[0] for line in run("explain", word).stdout.splitlines() if line.startswith("  ")}
    assert len(names) <= count, names
    assert "headroom_limit_used" in run("explain", "headroom_lim").stdout


WORDS = "who breaks now keep hint since until ignored instance finding limit setting condition tuner incident event wanted actual original"
WORDS += " reason why state status level message progress layers image used max share over-budget near-budget failing unknown rotating network"
WORDS += " loop overlay asked open complete cut-short info notice error versions verdicts profiles commits"
SAID = ("stopped reporting", "single reading", "no maximum is known", "not applied yet", "Largest users", "Timeline", "net/ipv4/neigh/default/gc_thresh3")


@pytest.mark.apart
def test_explain_knows_the_words_of_all_views(run, agent) -> None:
    one = agent("mode: observe\n")
    page = one.get("/?paused")[1]
    heads = {html.unescape(head) for head in re.findall(r'<th scope="col"[^>]*>([^<]*)', page)} | set(re.findall(r'data-title="([^"]*)"', page))
    heads |= set(re.findall("<dt>([^<]*)", page))
    assert len(heads) > 15
    heads |= set(one.status()["dns"]["lost"] if one.status()["dns"] else ())
    # Some tables are empty here: their headings.
    heads |= {"also seen", "entry has", "packets/s", "noarp", "Pods that run no container", "Worst of the last hour", "counting since", "fragments"}
    unknown = [word for word in [*WORDS.split(), *SAID, *sorted(heads)] if run("explain", word).returncode]
    assert unknown == []


@pytest.mark.apart
def test_top_takes_the_words_of_the_field_and_suggests(run) -> None:
    for word, limit in (("arp", "neighbor/ipv4"), ("nf_conntrack_max", "conntrack"), ("EMFILE", "files/process"), ("watches", "inotify/watches")):
        answer = run("top", word)
        assert answer.returncode == 0 and (limit in answer.stdout or "not on this node" in answer.stdout), (word, answer)
    for word, near in (("conntrak", "conntrack"), ("inotfy/watches", "inotify/watches"), ("neighbour/ipv4", "neighbor/ipv4")):
        answer = run("top", word)
        assert answer.returncode == 64 and f"did you mean {near}?" in answer.stderr, answer
    for word, tuner in (("arp", "neighbor"), ("gc_thresh3", "neighbor"), ("conntrack", "limits"), ("neighbour", "neighbor"), ("tph", "thp"), ("inotify", "sysctl or limits"), ("vm.max_map_count", "sysctl"), ("somaxconn", "sysctl"), ("net.core.rmem_max", "sysctl")):
        answer = run("plan", "--only", word)
        assert answer.returncode == 64 and f"did you mean {tuner}?" in answer.stderr, answer


MISSPELT = [("inotfy", "inotify"), ("mirors", "mirrors"), ("ndot", "ndots"), ("AWSS", "AWS"), ("nf_contrack_max", "nf_conntrack_max"), ("EMFLE", "EMFILE")]


@pytest.mark.apart
@pytest.mark.parametrize(("word", "right"), [*MISSPELT, ("aplied", "applied"), ("emfle", "EMFILE")])
def test_explain_suggests_words_of_the_field_and_parts_of_names(run, word: str, right: str) -> None:
    answer = run("explain", word)
    assert (answer.returncode, answer.stderr) == (1, f"headroom: {word}: unknown: did you mean {right}?\n")
    assert run("explain", right).returncode == 0


@pytest.mark.apart
@pytest.mark.parametrize(
    ("args", "right"),
    [
        (("thp",), "headroom explain thp"),
        (("incident",), "headroom incidents"),
        (("conntrack",), "headroom top conntrack, or headroom explain conntrack"),
        (("stauts",), "headroom status"),
        (("help", "stauts"), "headroom status"),
        (("top", "images"), "headroom images"),
        (("top", "inotfy"), "inotify"),
        (("plan", "--only", "contrack"), "limits"),
    ],
)
def test_commands_suggest_what_knows_the_word(run, args: tuple[str, ...], right: str) -> None:
    answer = run(*args)
    assert answer.returncode == 64 and f"did you mean {right}?" in answer.stderr, answer


FAULTY = "mode: 3k\nneighbor: {grow: 4k}\n"
SOCKET_COMMANDS = [("status",), ("top",), ("images",), ("version",), ("explain", "pids"), ("status", "--probe", "/livez"), ("version", "--json")]


@pytest.mark.apart
@pytest.mark.parametrize("args", [*SOCKET_COMMANDS, ("plan",), ("plan", "--only", "thp"), ("explain", "nonesuch", "nonesuch2"), ("restore", "--plan")])
def test_a_fault_is_printed_once_and_only_by_commands_that_need_the_configuration(agent, run, args: tuple[str, ...]) -> None:
    one = agent("mode: observe\n")
    faulty = one.directory / "faulty.yaml"
    faulty.write_text(FAULTY)
    answer = run(*args, "--config", str(faulty))
    assert answer.stderr.count("faulty.yaml:1:7:") == answer.stderr.count("faulty.yaml:2:18:") == int(args not in SOCKET_COMMANDS), answer
    one.stop()
    answer = run(*args, "--config", str(faulty))
    assert answer.stderr.count("faulty.yaml:1:7:") == answer.stderr.count("faulty.yaml:2:18:") == 1, answer


@pytest.mark.apart
@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("top", "--only", "dns"), "--only: unknown option: usage: headroom top"),
        (("status", "--only", "dns"), "--only: unknown option: usage: headroom status"),
        (("incidents", "--finding", "x"), "--finding: unknown option: usage: headroom incidents"),
        (("status", "--diff=a", "b"), "--diff: unknown option: usage: "),
        (("version", "--watch"), "--watch: unknown option: usage: "),
        (("status", "-x"), "-x: unknown option: usage: "),
        (("status", "-xh"), "-x: unknown option: usage: "),
        (("status", "--zebra", "x"), "--zebra: unknown option: usage: "),
        (("plan", "--only"), "--only: its value is missing: usage: "),
        (("status", "--jsn"), "--jsn: unknown option: did you mean --json?"),
        (("restore", "--plann"), "--plann: unknown option: did you mean --plan?"),
        (("plan", "--onyl=thp"), "--onyl=thp: unknown option: did you mean --only?"),
        (("status", "--hepl"), "--hepl: unknown option: did you mean --help?"),
        (("--verison",), "--verison: unknown option: did you mean --version?"),
        (("--hlep",), "--hlep: unknown option: did you mean --help?"),
        (("--jsn", "status"), "--jsn: unknown option: did you mean --json?"),
        (("--zebra",), "--zebra: unknown option: headroom --help lists"),
        (("-x",), "-x: unknown option: headroom --help lists"),
        (("--config", "F", "status"), "--config: options come after the command: headroom status --config F\n"),
        (("--config=F", "status", "--json"), "--config=F: options come after the command: headroom status --config=F --json\n"),
        (("--json", "--only", "plan", "plan"), "--json: options come after the command: headroom plan --json --only plan\n"),
        (("--observe",), "--observe: options come after the command: headroom COMMAND --observe\n"),
        (("--config",), "--config: options come after the command: headroom COMMAND --config\n"),
    ],
)
def test_a_message_names_the_wrong_option_and_the_right_one(run, args: tuple[str, ...], message: str) -> None:
    answer = run(*args)
    assert (answer.returncode, answer.stdout) == (64, "") and answer.stderr.startswith(f"headroom: {message}"), answer


@pytest.mark.apart
@pytest.mark.parametrize("word", ["verbose", "INFO", "critical", "6"])
def test_an_unknown_log_level_is_one_warning(agent, run, word: str) -> None:
    env = {"HEADROOM_LOG_LEVEL": word}
    message = f"HEADROOM_LOG_LEVEL: {word} is not a level: write error, warning, notice, info or debug"
    answer = run("explain", "pids", env=env)
    assert (answer.returncode, answer.stderr) == (0, f"headroom: {message}\n")
    one = agent("mode: observe\nlog: json\n", env=env)
    one.stop()
    assert [said["level"] for said in map(json.loads, one.log.splitlines()) if said["message"] == message] == ["warning"]
    for right in ("error", "debug", ""):
        assert run("explain", "pids", env={"HEADROOM_LOG_LEVEL": right}).stderr == ""


@pytest.mark.apart
@pytest.mark.parametrize("path", ["/livez", "/metrics"])
def test_a_probe_without_an_agent_says_so(run, directory, path: str) -> None:
    answer = run("status", "--probe", path)
    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr == f"headroom: {directory}/run/headroom.sock: no agent is running here: start its unit or pod\n"


@pytest.mark.apart
def test_help_of_a_command_and_short_options(run) -> None:
    assert run("help", "top").stdout == run("top", "--help").stdout
    assert run("help").stdout == run("--help").stdout == run("-h").stdout
    assert run("-V").stdout == run("--version").stdout


def script_of(shell: str, installed: str) -> Path:
    return next(p for p in (Path(BIN).parents[1] / "packaging" / f"headroom.{shell}", Path("/usr/share") / installed) if p.exists())


# The command of each shell, and the line that it reads first.
SHELLS = {
    "bash": (["bash", "--norc", "-i"], "bash-completion/completions/headroom", ". {}"),
    "zsh": (["zsh", "-f", "-i"], "zsh/vendor-completions/_headroom", "autoload -U compinit; compinit -D -u; unsetopt beep; . {} 2>/dev/null; compdef _headroom headroom"),
}
TYPED = [
    ("plan --only=ne", "plan --only=neighbor"),
    ("plan --only ne", "plan --only neighbor"),
    ("doctor --bundle=/etc/hostn", "doctor --bundle=/etc/hostname"),
    ("doctor --bundle /etc/hostn", "doctor --bundle /etc/hostname"),
    ("help ver", "help version"),
    ("hel", "help"),
    ("explain EMF", "explain EMFILE"),
    ("top EMF", "top EMFILE"),
]


@pytest.mark.apart
@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes_what_is_typed(tmp_path: Path, shell: str) -> None:
    command, installed, before = SHELLS[shell]
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TERM": "dumb", "INPUTRC": "/dev/null"}
    leader, follower = pty.openpty()
    process = subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower, env=env, start_new_session=True)
    os.close(follower)
    os.set_blocking(leader, False)
    seen = ""

    def shows(text: str) -> bool:
        nonlocal seen
        with contextlib.suppress(BlockingIOError):
            seen += os.read(leader, 1 << 16).decode(errors="replace")
        return text in seen

    try:
        os.write(leader, f"{before.format(script_of(shell, installed))}; echo rea''dy\n".encode())
        until(lambda: shows("ready"), lambda: f"{shell} begins: {seen!r}")
        for typed, whole in TYPED:
            seen = ""
            os.write(leader, f"headroom {typed}\t".encode())
            until(lambda: shows(f"headroom {whole}"), lambda: f"{shell} completes {typed}: {seen!r}", timeout=10)
            os.write(leader, b"\x15\n")
    finally:
        process.kill()
        process.wait()
        os.close(leader)


@pytest.mark.apart
@pytest.mark.parametrize(("typed", "whole"), TYPED)
def test_fish_completes_what_is_typed(typed: str, whole: str) -> None:
    script = script_of("fish", "fish/vendor_completions.d/headroom.fish")
    offered = subprocess.run(["fish", "--no-config", "-c", f"source {script}; complete -C 'headroom {typed}'"], capture_output=True, text=True, check=True).stdout
    assert whole.split()[-1] in offered.split(), offered


@pytest.mark.apart
def test_completion_offers_what_is_accepted(run) -> None:
    script = script_of("bash", "bash-completion/completions/headroom")

    def complete(*words: str) -> list[str]:
        line = " ".join(shlex.quote(word) for word in ("headroom", *words))
        command = f'. {script}; COMP_WORDS=({line}); COMP_CWORD={len(words)}; _headroom 2>/dev/null; printf "%s\\n" "${{COMPREPLY[@]}}"'
        return subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True).stdout.split()

    offered = complete("top", "")
    assert {"neighbor", "limits", "conntrack", "dns", "storage", "pulls", "inotify", "inotify/watches"} <= set(offered)
    assert "images" not in offered
    for word in offered[:3] + offered[-6:]:
        assert run("top", word).returncode == 0, word
    assert run("top", "images").returncode == 64
    assert {"arp", "watches", "EMFILE"} <= {*complete("top", "ar"), *complete("top", "wat"), *complete("top", "EMF")}
    for part, word in (("ar", "arp"), ("EMF", "EMFILE"), ("ndo", "ndots"), ("nf_", "nf_conntrack_max"), ("gc_thr", "gc_thresh3")):
        assert word in complete("explain", part)
    words = complete("explain", "")
    assert len(words) == len(set(words))
    assert run("explain", *words).stderr == ""
    assert "help" in complete("") and "top" in complete("help", "to")
    assert complete("doctor", "--bundle", str(script)[:-2]) == [str(script)]


def test_explain_says_unit_default_and_source(run) -> None:
    text = run("explain", "neighbor.ipv4.gc_thresh3").stdout
    assert "100000" in text and "entries" in text
    profile = run("explain", "profile").stdout
    for name in ("kubernetes-node", "etcd", "lxd-host", "microvm-host", "minimal"):
        assert name in profile


@pytest.mark.parametrize("name", ["neighbor.ipv4.gc_tresh3", "gc_tresh3"])
def test_explain_suggests_near_matches_and_exits_1(run, name: str) -> None:
    answer = run("explain", name)
    right = name.replace("tresh", "thresh")
    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr == f"headroom: {name}: unknown: did you mean {right}?\n"


@pytest.mark.quick
def test_status_fits_on_one_screen(agent, run) -> None:
    one = agent()
    until(lambda: one.status()["limits"][0]["max"] == 100000, "the limit follows the setting")
    answer = run("status", env={"COLUMNS": "80"})
    assert answer.returncode in (0, 2), answer.stderr
    lines = answer.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert 5 <= len(lines) <= 50, "one screen"
    assert "neighbor/ipv4" in answer.stdout and "100000" in answer.stdout.replace(",", "").replace(" ", "")
    assert ESCAPE not in answer.stdout
    assert answer.stdout.endswith("\n") and not re.search(r"[ \t]+$", answer.stdout, re.M)


def test_status_as_json_is_the_agents_document(agent, run) -> None:
    one = agent()
    document = json.loads(run("status", "--json").stdout)
    assert document["schema"] == 1
    assert {"node", "limits", "settings", "conditions", "tuners"} <= set(document)
    served = one.status()
    assert [s["name"] for s in document["settings"]] == [s["name"] for s in served["settings"]]
    limit = next(limit for limit in document["limits"] if limit["name"] == "neighbor/ipv4")
    assert {"name", "used", "max", "unit", "headroom", "peak", "hits", "full_in_seconds", "top"} <= set(limit)
    assert {"name", "tuner", "mode", "wanted", "actual", "original", "state", "reason"} <= set(document["settings"][0])
    for setting in document["settings"]:
        assert isinstance(setting["wanted"], str) and isinstance(setting["actual"], str)
        assert isinstance(setting["original"], str)
    conditions = {"NeighborTablePressure", "NeighborTableOverflow", "TransparentHugePagesActive", "SettingDrifted"}
    conditions |= {"SettingFailed", "ConfigInvalid", "AgentDegraded"}
    assert {c["type"] for c in document["conditions"]} >= conditions
    for condition in document["conditions"]:
        assert condition["status"] in ("True", "False", "Unknown")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", condition["since"])


@pytest.mark.quick
@pytest.mark.parametrize("through", ["agent", "command"])
def test_apply_fails_for_a_configured_sysctl_that_the_kernel_lacks(agent, run, directory, through: str) -> None:
    text = "profile: minimal\nsysctl: {vm.no_such_key_here: 1}"
    if through == "agent":
        one = agent(text)
        assert one.setting("vm.no_such_key_here")["state"] == "unsupported"
        assert "vm.no_such_key_here" in one.wait_condition("SettingFailed")["message"]
        answer = run("apply")
    else:
        path = directory / "headroom.yaml"
        path.write_text(text)
        answer = run("apply", "--config", str(path))
    assert answer.returncode == 1
    assert [line for line in answer.stderr.splitlines() if "headroom: vm.no_such_key_here: not set to 1: " in line]
    assert run("restore").returncode == 0


@pytest.mark.quick
def test_status_says_first_that_no_agent_runs(node: Node, run) -> None:
    answer = run("status", env={"COLUMNS": "80"})
    assert answer.returncode in (0, 2), answer.stderr
    assert "neighbor/ipv4" in answer.stdout
    first, head = answer.stdout.splitlines()[:2]
    assert first.startswith("No agent is running")
    assert not re.search(r"\bok\b", head)
    assert max(map(len, answer.stdout.splitlines())) <= 80
    assert json.loads(run("status", "--json").stdout)["schema"] == 1
    node.assert_unchanged()


def test_a_closed_pipe_does_not_crash(agent, directory) -> None:
    agent()
    answer = subprocess.run(
        ["bash", "-c", 'set -o pipefail; "$0" status | head -n 1', BIN],
        capture_output=True,
        text=True,
        env=environment(directory),
    )
    assert answer.returncode in (0, 2, 141)
    assert answer.stderr == ""


def test_output_that_cannot_be_written_is_an_error(run) -> None:
    """Otherwise a script would mistake a truncated plan for a complete one."""
    answer = run("help", wrap=("sh", "-c", 'exec "$@" >/dev/full', "sh"))
    assert answer.returncode == 1
    assert "No space" in answer.stderr


def test_errors_name_object_fault_and_cure(run, directory) -> None:
    answer = run("agent", "--config", str(directory / "none.yaml"))
    assert answer.returncode == 1
    assert re.match(rf"headroom: \S+ error: config: {re.escape(str(directory))}/none\.yaml", answer.stderr)


def test_explain_shows_the_value_on_this_node_for_any_case_and_for_the_last_part(agent, run) -> None:
    agent("mode: observe\n")
    for name in ("GC_THRESH3", "net.ipv4.neigh.default.gc_thresh3"):
        text = " ".join(run("explain", name).stdout.split())
        assert re.search(r"here net\.ipv4\.neigh\.default\.gc_thresh3: \d+, wanted 100000, mode observe, observed", text), text
    assert "here neighbor/ipv4: " in " ".join(run("explain", "neighbor/ipv4").stdout.split())
    assert re.search(r"here (True|False|Unknown) since ", " ".join(run("explain", "settingdrifted").stdout.split()))


def test_an_unknown_command_suggests_the_likely_one(run) -> None:
    for word, likely in (("check", "headroom check-config"), ("neighbor", "headroom top neighbor"), ("statsu", "headroom status")):
        answer = run(word)
        assert answer.returncode == 64 and likely in answer.stderr, answer


def test_an_empty_file_is_valid_and_a_warning_says_what_it_means(run, directory) -> None:
    empty = directory / "empty.yaml"
    empty.write_text("")
    answer = run("check-config", str(empty))
    assert answer.returncode == 0 and "keeps what it loaded before" in answer.stdout


@pytest.mark.apart
@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("too many open files", "files/process"),
        ("EMFILE", "files/process"),
        ("fork", "pids"),
        ("disk", "Storage"),
        ("mirrors", "Pulls"),
        ("pending", "DNS"),
        ("DNSFailing", "DNS"),
        ("pod", "pod-addresses"),
        ("log", "filesystem/log/bytes"),
        ("image", "images/store"),
    ],
)
def test_top_shows_what_explain_finds(run, word: str, shown: str) -> None:
    answer = run("top", word)
    assert answer.returncode == 0 and shown in answer.stdout and f"  {word}: not on this node" not in answer.stdout, answer


@pytest.mark.apart
@pytest.mark.parametrize("word", ["somaxconn", "oom", "dockerd", "hugepages", "nothing", "first sentence", "a b"])
def test_top_points_to_explain_for_what_it_cannot_show(run, word: str) -> None:
    answer = run("top", word)
    known = run("explain", word).returncode == 0
    assert (answer.returncode, answer.stdout) == (64, "") and known == (f"headroom explain {shlex.quote(word)} knows it" in answer.stderr), answer


# These are copied: names and paths are whole.
@pytest.mark.apart
@pytest.mark.parametrize("args", [("explain",), ("explain", "inotify"), ("explain", "AgentDegraded"), ("explain", "profile"), ("explain", "sysctl"), ("--help",), ("version",)])
def test_narrow_columns_get_narrow_lines(run, args: tuple[str, ...]) -> None:
    for columns in (40, 60):
        text = run(*args, env={"COLUMNS": str(columns)}).stdout
        assert [line for line in text.splitlines() if len(line) > columns and len(re.split("  +", line.strip())) + line.strip().count(" ") > 2] == [], text
        wide = run(*args, env={"COLUMNS": "400"}).stdout
        assert text.split() == wide.split()
    assert "\n  now       systemctl restart headroom; journalctl -u headroom -n 20\n" in run("explain", "agent", env={"COLUMNS": "40"}).stdout
    assert not [line for line in run("explain").stdout.splitlines() if not re.fullmatch(r"\S.*?  +\S.*", line)]
