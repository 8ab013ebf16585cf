# SPDX-License-Identifier: Apache-2.0
"""headroom doctor: what needs action, with and without an agent, and the bundle for support."""

import io
import json
import os
import re
import signal
import subprocess
import tarfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import BIN, NO_BPF, Run, Start, environment, mounted, without
from fakesystemd import Systemd

SECRETS = ("hunter2", "alice", "SECRETPATH", "querysecret", "$2y$10$", "Zm9vYmFy")

HASH = "$2y$10$Zm9vYmFyZm9vYmFyZm9vYuABCDEFGHIJKLMNOPQRSTUVWXYZ01234"

# A line of an incident, and that line in the bundle.
LINES = {
    '{"text": "GET https://alice:hunter2@host/SECRETPATH?k=querysecret"}': '{"text": "GET https://host/[hidden]"}',
    "http://a http://b/ http://c/SECRETPATH": "http://a http://b http://c/[hidden]",
    "password: hunter2, next": "password: [hidden], next",
    '{"token": "hunter2"}': '{"token": "[hidden]"}',
    "Authorization: Basic Zm9vYmFy": "Authorization: Basic [hidden]",
    "authorization=Bearer hunter2.alice": "authorization=Bearer [hidden]",
    f"user: {HASH}": "user: [hidden]",
    "x eyJhbGciOiJIUzI1NiJ9.eyJzdWIi.hunter2 y": "x [hidden] y",
    "docker.io/library/busybox:1.36 tokens 5: 6": "docker.io/library/busybox:1.36 tokens 5: 6",
    "password:": "password:",
    r'{"text": "password: \"hunter2 alice\""}': r'{"text": "password: \"[hidden]\""}',
}


def doctor(run: Run, *args: str, **more: Any) -> dict[str, Any]:
    answer = run("doctor", "--json", *args, **more)
    document = json.loads(answer.stdout)
    expected = {"ok": 0, "unknown": 1}.get(document["verdict"], 2)
    assert answer.returncode == expected, answer
    return document


def check(document: dict[str, Any], name: str) -> dict[str, Any]:
    return next(one for one in document["checks"] if one["name"] == name)


def contents(tar: Path | bytes) -> dict[str, str]:
    data = tar if isinstance(tar, bytes) else tar.read_bytes()
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        members = {one.name: archive.extractfile(one) for one in archive}
        return {name.removeprefix("headroom-doctor/"): file.read().decode() for name, file in members.items() if file}


@pytest.fixture
def no_namespaces(directory: Path) -> tuple[str, ...]:
    """A command prefix: user.max_user_namespaces reads as 0."""
    (directory / "zero").write_text("0\n")
    return mounted(f"mount --bind {directory}/zero /proc/sys/user/max_user_namespaces")


@pytest.mark.parametrize(("config", "options", "keep", "hint"), [
    ("sysctl: {mode: observe}", (), "sysctl: {mode: enforce, user.max_user_namespaces: ", ""),
    ("sysctl: {mode: off}\nmode: observe", (), "sysctl: {mode: enforce, user.max_user_namespaces: ", ""),
    ("", ("--observe",), "sysctl: {user.max_user_namespaces: ", "start the agent without --observe"),
    ("mode: observe", ("--observe",), "mode: enforce\nsysctl: {user.max_user_namespaces: ", "start the agent without --observe"),
    ("mode: observe\nsysctl: {mode: enforce}", (), "sysctl: {user.max_user_namespaces: ", ""),
])  # fmt: skip
def test_the_configuration_that_keeps_a_cure_makes_its_tuner_write(agent: Start, run: Run, no_namespaces: tuple[str, ...], directory: Path, config: str, options: tuple[str, ...], keep: str, hint: str) -> None:
    agent(f"profile: minimal\nthp: {{mode: observe}}\nneighbor: {{mode: observe}}\n{config}\n", args=options)
    found = check(doctor(run, wrap=no_namespaces), "user-namespaces")
    assert found["keep"].startswith(keep) and found["hint"].endswith(hint), found
    (directory / "keep.yaml").write_text(found["keep"] + "\n")
    answer = run("check-config", str(directory / "keep.yaml"))
    assert answer.returncode == 0, answer


def test_only_what_needs_action_is_printed(agent: Start, run: Run, no_namespaces: tuple[str, ...]) -> None:
    one = agent("mode: observe\n")
    answer = run("doctor", wrap=no_namespaces)
    lines = answer.stdout.splitlines()
    assert answer.returncode == 2 and answer.stderr == "", answer
    assert "warning   user-namespaces  user.max_user_namespaces is 0" in lines
    assert any(line.startswith("  now     sysctl -w user.max_user_namespaces=") for line in lines)
    keep = lines.index("  keep    mode: enforce")  # the agent only observes
    assert lines[keep + 1].startswith("          sysctl: {user.max_user_namespaces: ")
    assert lines[keep + 2] == "          in /etc/headroom/conf.d/50-doctor.yaml"
    assert lines[-1].startswith("warning: ") and "checks are fine" in lines[-1]
    assert "agent" not in answer.stdout and "gc_thresh" not in answer.stdout
    document = doctor(run, wrap=no_namespaces)
    assert document["agent"] == "answers"
    names = [c["name"] for c in document["checks"]]
    status = one.status()
    assert {limit["name"] for limit in status["limits"]} <= set(names)
    assert {setting["name"] for setting in status["settings"]} <= set(names)
    ignoring = one.config_path.with_name("ignoring.yaml")
    ignoring.write_text("mode: observe\ndoctor: {ignore: [user-namespaces]}\n")
    answer = run("doctor", "--config", str(ignoring), wrap=no_namespaces)
    assert "ignored   user-namespaces  user.max_user_namespaces is 0" in answer.stdout, answer
    assert "1 ignored" in answer.stdout.splitlines()[-1]
    assert "sysctl -w user.max_user_namespaces" not in answer.stdout


PACK = "0xffffffffc0000000-0xffffffffc0200000 2097152 bpf_prog_pack_alloc+0x1/0x2 pages=512 vmalloc\n"
OTHER = "0xffffffffc0200000-0xffffffffc0202000 8192 load_module+0x1/0x2 pages=1 vmalloc\n"


@pytest.mark.parametrize(
    ("name", "files", "message"),
    [
        (
            "bpf-jit",
            {"/proc/sys/net/core/bpf_jit_limit": "2500000\n", "/proc/vmallocinfo": OTHER + PACK},
            "2097152 of 2500000 bytes for compiled BPF programs, 84 %: net.core.bpf_jit_limit",
        ),
        (
            "ipv6-routes",
            {"/proc/sys/net/ipv6/route/max_size": "4096\n", "/proc/$$/net": "0007 0006 0019 000d 0000 0fff 0000\n"},
            "4095 of 4096 IPv6 routes, 100 %: net.ipv6.route.max_size, which kernels before 6.3 enforce",
        ),
    ],
    ids=["bpf-jit", "ipv6-routes"],
)
def test_a_use_near_its_limit_is_named_with_the_sysctl(run: Run, directory: Path, name: str, files: dict[str, str], message: str) -> None:
    script = ""
    for i, (path, text) in enumerate(files.items()):
        source = directory / str(i)
        if path.endswith("/net"):  # nobody can mount on a file in it
            source.mkdir()
            (source / "rt6_stats").write_text(text)
        else:
            source.write_text(text)
        script += f"mount --bind {source} {path}\n"
    found = check(doctor(run, wrap=mounted(script)), name)
    assert (found["status"], found["message"]) == ("warning", message)
    assert found["now"].startswith("sysctl -w net.") and found["keep"].startswith("sysctl: {net.") and found["breaks"]
    (directory / "0").write_text("1000000000\n")
    assert check(doctor(run, wrap=mounted(script)), name)["status"] == "ok"


def test_the_command_for_bpf_programs_never_lowers_their_limit(run: Run, directory: Path) -> None:
    (directory / "limit").write_text("2000000000\n")
    (directory / "used").write_text(OTHER + PACK.replace(" 2097152 ", " 1900000000 "))
    script = f"mount --bind {directory}/limit /proc/sys/net/core/bpf_jit_limit; mount --bind {directory}/used /proc/vmallocinfo\n"
    found = check(doctor(run, wrap=mounted(script)), "bpf-jit")
    assert (found["status"], found["now"], found["keep"]) == ("warning", "", "") and "no larger value" in found["hint"], found


def test_a_command_without_an_agent_prints_a_critical_finding_once(run: Run, directory: Path) -> None:
    """The log of an agent would have it, but standard error is for errors of the command."""
    (directory / "full").write_text("4100\t0\t4096\n")
    wrap = mounted(f"mount --bind {directory}/full /proc/sys/fs/file-nr")
    for command in ("doctor", "status", "top"):
        answer = run(command, wrap=wrap)
        assert answer.stderr == "", answer
        assert len(re.findall(r"^ *critical +file-handles  ", answer.stdout, re.M)) == 1, answer
    assert check(doctor(run, wrap=wrap), "file-handles")["since"] is None, "a single reading cannot tell"


def test_an_unknown_check_cannot_be_ignored(run: Run, directory: Path) -> None:
    config = directory / "headroom.yaml"
    config.write_text("doctor: {ignore: [inotify/instances, filesystem/*, user-namespace]}\n")
    answer = run("check-config", str(config))
    assert answer.returncode == 1
    assert answer.stderr.startswith(f"{config}:1:") and "did you mean user-namespaces?" in answer.stderr, answer
    answer = run("doctor", "--config", str(config))
    assert answer.returncode == 2 and f"configuration  {config}:1:" in answer.stdout, answer


def test_a_stopped_agent_is_named_with_its_cure(agent: Start, run: Run) -> None:
    one = agent("mode: observe\n")
    one.signal(signal.SIGSTOP)
    try:
        document = doctor(run)
    finally:
        one.signal(signal.SIGCONT)
    found = check(document, "agent")
    assert found["status"] == "warning" and found["now"] == f"kill -CONT {one.pid}", found
    assert f"Agent {one.pid} does not answer: its process is stopped" in found["message"]
    assert check(document, "neighbor/ipv4")["status"] == "ok"
    assert check(doctor(run), "agent")["status"] == "ok"


def test_an_agent_that_ends_again_and_again_is_named(run: Run, directory: Path) -> None:
    """systemd knows; the command reads the node itself, and takes no lock from the agent."""
    path = directory / "bus"
    fake = Systemd(path, directory / "bus.conf", "headroom.service", lambda unit: None)
    fake.unit.state = "activating"
    properties = {"LoadState": "loaded", "SubState": "auto-restart", "UnitFileState": "enabled", "Result": "exit-code"}
    fake.unit.more = {**properties, "NRestarts": __import__("dbus").UInt32(12)}
    config = directory / "headroom.yaml"
    config.write_text("mode: observe\nnode_name: [\n")
    try:
        loop = subprocess.Popen(
            ["sh", "-c", f"while :; do {BIN} agent --config {config} --observe >/dev/null 2>&1; sleep 0.2; done"],
            env=environment(directory),
            start_new_session=True,
        )
        try:
            document = doctor(run, "--config", str(config), env={"DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={path}"})
        finally:
            os.killpg(loop.pid, signal.SIGKILL)
            loop.wait()
    finally:
        fake.close()
    found = check(document, "agent")
    if document["agent"] != "answers":  # the agent starts with the defaults between two ends
        assert "activating (auto-restart)" in found["message"] and "restarted 12 times" in found["message"], found
        assert found["now"].startswith("journalctl -u headroom")
    assert str(config) in check(document, "configuration")["message"] + check(document, "ConfigInvalid")["message"]
    assert check(document, "neighbor/ipv4")["status"] == "ok"


def test_missing_capabilities_are_named(run: Run) -> None:
    document = doctor(run, wrap=NO_BPF)
    found = check(document, "capabilities")
    assert found["status"] == "warning" and "CAP_BPF" in found["message"] and "CAP_NET_ADMIN" not in found["message"]
    document = doctor(run, wrap=without("sys_admin", "sys_ptrace", "sys_resource", "dac_override"))
    assert check(document, "capabilities")["status"] == "ok"
    assert check(document, "bpf-jit")["status"] == "absent"


@pytest.mark.apart
def test_another_network_namespace_is_not_cured_by_rights(run: Run) -> None:
    """The cure of a read-only /proc/sys would weaken the unit, and change nothing."""
    document = json.loads(run("doctor", "--json", wrap=("unshare", "--net")).stdout)
    found = next(c for c in document["checks"] if "gc_thresh" in c["message"])
    assert "host's network namespace" in found["message"], found
    assert not found.get("now") and "Protect" not in json.dumps(found) and "privileged" not in json.dumps(found), found


@pytest.mark.parametrize("syslog", [False, True], ids=["as the chart is", "with SYSLOG"])
def test_it_works_in_the_pod_of_the_chart(agent: Start, directory: Path, syslog: bool) -> None:
    """Read-only, without CAP_SYS_ADMIN, and with the host's files below a mount point. A pod cannot open /dev/kmsg."""
    host = directory / "host"
    for name in ("proc", "sys"):
        (host / name).mkdir(parents=True)
    pod = mounted(f"mount --rbind /proc {host}/proc; mount --rbind /sys {host}/sys")
    capabilities = "-all,+bpf,+perfmon,+net_admin,+sys_nice,+sys_chroot" + ",+syslog" * syslog
    pod += ("setpriv", f"--bounding-set={capabilities}", f"--inh-caps={capabilities}")
    env = {**environment(directory), "HEADROOM_HOST_ROOT": str(host), "HEADROOM_OWNER": "chart/headroom"}
    agent("mode: observe\n", env=env, wrap=pod)
    answer = subprocess.run([*pod, BIN, "doctor", "--bundle", "-"], capture_output=True, env=env, timeout=30)
    files = contents(answer.stdout)
    document = json.loads(files["doctor.json"])
    unknown = [c for c in document["checks"] if c["status"] == "unknown"]
    restricted = Path("/proc/sys/kernel/dmesg_restrict").read_text() == "1\n"
    assert [c["name"] for c in unknown] == ["kernel-log"] * (restricted and not syslog), unknown
    assert document["agent"] == "answers" and ("dmesg.txt" in files["errors.txt"]) == bool(unknown)
    if unknown:
        assert "add SYSLOG to the Helm value capabilities" in unknown[0]["message"]
    else:
        assert check(document, "kernel-log")["status"] == "ok" and "Linux version" in files["kernel.txt"]
    assert check(document, "capabilities")["status"] == "ok"
    assert check(document, "bpf-jit")["status"] == "absent"
    assert "headroom_limit_used{" in files["metrics.txt"] and "/etc/os-release" in files["errors.txt"]


def test_what_a_user_lacks_is_not_the_agents_fault(run: Run) -> None:
    document = doctor(run, wrap=("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"))
    assert [c for c in document["checks"] if c["name"] == "tuner-degraded"] == []
    found = check(document, "AgentDegraded")
    assert found["status"] == "unknown" and "run the command as root" in found["message"], found


def secret_config(directory: Path) -> str:
    web = directory / "web-config.yml"
    web.write_text(f"basic_auth_users: {{alice: {HASH}}}\n")
    return (
        "mode: observe\n"
        f"http: {{listen: '', web_config: {web}}}\n"
        "runtime: {mirrors: [{registry: docker.io, url: 'http://127.0.0.1:9/SECRETPATH'}]}\n"
    )


def assert_clean(files: dict[str, str]) -> None:
    for name, text in files.items():
        for secret in SECRETS:
            assert secret not in text, (name, secret)


@pytest.mark.parametrize("runs", [True, False])
def test_the_bundle_has_everything_but_secrets(agent: Start, run: Run, directory: Path, runs: bool) -> None:
    text = secret_config(directory)
    incidents = Path(environment(directory)["HEADROOM_STATE_DIR"]) / "incidents"
    incidents.mkdir(parents=True, mode=0o700)
    name = "20261126T062306Z-conntrack.jsonl"
    (incidents / name).write_text("\n".join(LINES))
    config = directory / "headroom.yaml"
    config.write_text(text)
    if runs:
        config = agent(text).config_path
    tar = directory / "bundle.tar"
    stop = threading.Event()

    def write() -> None:  # again and again, because other lines may push it out of the last 500
        line = "a line of test_doctor, password: hunter2 at https://alice:hunter2@host/SECRETPATH\n"
        Path("/dev/kmsg").write_text(line)  # without its end it would stay hidden until the next line
        while not stop.wait(0.2):
            Path("/dev/kmsg").write_text(line)

    writer = threading.Thread(target=write)
    writer.start()
    time.sleep(0.1)
    path = directory / "bus"
    fake = Systemd(path, directory / "bus.conf", "containerd.service", lambda unit: None)
    fake.unit.state = "failed"
    properties = {"LoadState": "loaded", "SubState": "failed", "UnitFileState": "enabled", "Result": "signal"}
    fake.unit.more = {**properties, "NRestarts": __import__("dbus").UInt32(3)}
    try:
        env = {"DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={path}"}
        answer = run("doctor", "--config", str(config), "--bundle", str(tar), env=env)
    finally:
        stop.set()
        writer.join()
        fake.close()
    assert answer.returncode in (0, 2) and f"The bundle is in {tar}" in answer.stdout, answer
    assert tar.stat().st_mode & 0o777 == 0o600
    files = contents(tar)
    assert_clean(files)
    for json_file in ("doctor", "status", "configuration"):
        json.loads(files[f"{json_file}.json"])
    configuration = json.loads(files["configuration.json"])
    assert configuration["runtime.mirrors"]["value"][0]["url"] == "http://127.0.0.1:9/[hidden]"
    assert configuration["mode"]["from"] == f"{config}:1" or runs
    assert "headroom_limit_used{" in files["metrics.txt"]
    version = run("version", "--json")
    assert json.loads(files["version.json"])["commit"] == json.loads(version.stdout)["commit"]
    assert {t["name"] for t in json.loads(files["version.json"])["tuners"]} >= {"neighbor", "limits"}
    assert "containerd.service: loaded, failed (failed), enabled, result signal, 3 restarts" in files["units.txt"]
    for fact in ("diskstats", "cpuinfo", "sys/net/ipv4/ip_local_port_range"):
        assert f"==> /proc/{fact}\n" in files["kernel.txt"]
    faults, lines = files["dmesg.txt"].split("==> last lines of ")
    assert faults.startswith("==> faults: ") and len(lines.splitlines()) <= 501
    assert "(program) a line of test_doctor, password: [hidden]" in lines
    assert "==> /proc/version\nLinux version" in files["kernel.txt"]
    assert files[f"incidents/{name}"].splitlines() == list(LINES.values())
    assert "log.txt" in files and "errors.txt" in files


def test_the_bundle_says_what_it_lacks_and_goes_to_a_pipe(directory: Path) -> None:
    answer = subprocess.run(
        [BIN, "doctor", "--bundle", "-"], capture_output=True, env=environment(directory), timeout=30
    )
    files = contents(answer.stdout)
    assert "incidents: No such file or directory" in files["errors.txt"]
    answer = subprocess.run(
        [BIN, "doctor", "--bundle", "/nonesuch/bundle.tar"], capture_output=True, text=True, env=environment(directory)
    )
    assert answer.returncode == 1 and "headroom: /nonesuch/bundle.tar: " in answer.stderr
    assert "checks are fine" in answer.stdout.splitlines()[-1]


@pytest.mark.parametrize("fault", ["node_name: [", "password: hunter2", "runtime: {mirrors: [{registry: a, url: 'http://alice:hunter2@b'}]}"])
def test_a_bundle_of_a_faulty_configuration_has_no_secrets(run: Run, directory: Path, fault: str) -> None:
    config = directory / "headroom.yaml"
    config.write_text(fault + "\n")
    tar = directory / "bundle.tar"
    answer = run("doctor", "--config", str(config), "--bundle", str(tar))
    assert answer.returncode == 2 and f"configuration  {config}:" in answer.stdout, answer
    assert_clean(contents(tar))
