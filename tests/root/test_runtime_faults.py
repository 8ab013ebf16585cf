# SPDX-License-Identifier: Apache-2.0
"""Broken configurations and broken runtimes are named and left alone, and the agent recovers by itself."""

import contextlib
import json
import multiprocessing
import os
import shutil
import signal
import socketserver
import stat
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Iterator

import pytest
from conftest import Agent, Run, read, until
from dnslab import Cgroup, pod_path
from runtimelab import CONTAINERD_CONFIG, DOCKER_OPTIONS, Daemon, Lab, containerd2, headroom, lab, typed, watcher  # noqa: F401
from test_runtime import DOCKER, DOWNLOADS, LINE, Watcher, found, keeping, wait_reason, wait_setting

SECRET = "hunter2-not-to-be-seen"


def test_broken_toml_is_named_and_left_alone(lab: Lab, watcher: Watcher) -> None:
    lab.containerd()
    broken = CONTAINERD_CONFIG + "[plugins\n"
    lab.config.write_text(broken)
    running = watcher()
    finding = running.wait_finding("file-unusable")
    line = len(CONTAINERD_CONFIG.splitlines()) + 1
    assert finding["instance"] == {"kind": "file", "name": "/etc/containerd/config.toml", "id": "", "text": "/etc/containerd/config.toml"}
    assert (finding["severity"], finding["condition"], finding["now"]) == ("critical", "RuntimeWouldNotStart", "")
    assert finding["message"].startswith(f"{line}:") and "left alone" in finding["message"]
    assert running.condition("RuntimeWouldNotStart")["status"] == "True"
    assert running.condition("AgentDegraded")["status"] == "False", "it is the node's fault"
    wait_reason(running, DOWNLOADS, "file-unusable")
    assert lab.config.read_text() == broken
    assert running.log.count("config.toml") == 1, running.log

    lab.config.write_text(CONTAINERD_CONFIG)
    wait_reason(running, DOWNLOADS, "restart-pending")
    running.wait_condition("RuntimeWouldNotStart", "False")
    assert LINE in lab.config.read_text()


def test_a_runtime_that_was_asked_for_and_is_missing_is_named(lab: Lab, watcher: Watcher) -> None:
    lab.dockerd()
    running = watcher("kind: crio")
    finding = running.wait_finding("no-runtime")
    assert (finding["condition"], finding["severity"]) == ("SettingFailed", "warning")
    assert finding["instance"]["name"] == "runtime.kind" and "crio" in finding["message"]
    assert "remove runtime.kind" in finding["hint"]


@pytest.mark.parametrize(
    "text, expected",
    [
        ('{\n  "log-level": "warn",,\n}\n', "2:23:"),
        ('{\n  "log-level": "warn",\n  "max-concurent-downloads": 6\n}\n', "max-concurent-downloads"),
    ],
    ids=["syntax", "unknown-key"],
)
def test_broken_daemon_json_is_named_and_left_alone(lab: Lab, watcher: Watcher, text: str, expected: str) -> None:
    lab.dockerd()
    lab.write("etc/docker/daemon.json", text)
    running = watcher("max_concurrent_downloads: 7")
    finding = running.wait_finding("file-unusable")
    assert finding["instance"]["name"] == "/etc/docker/daemon.json" and expected in finding["message"]
    assert running.condition("SettingFailed")["status"] == "False", "one fault is one warning"
    assert running.condition("AgentDegraded")["status"] == "False"
    wait_reason(running, DOCKER, "file-unusable")
    assert lab.daemon_json.read_text() == text
    lab.daemon_json.write_text("{}\n")
    wait_setting(running, DOCKER, "in-sync")


def test_a_containerd_without_its_cri_is_unsupported_and_left_alone(lab: Lab, watcher: Watcher) -> None:
    text = 'version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n'
    lab.config.write_text(text)
    lab.containerd()
    running = watcher()
    wait_setting(running, DOWNLOADS, "unsupported")
    assert found(running, "containerd")["version"].startswith("1.")
    running.wait_condition("RuntimeUnreachable", "False")
    assert lab.config.read_text() == text


def test_an_option_of_dockerd_prevents_the_edit(lab: Lab, watcher: Watcher) -> None:
    lab.dockerd("--max-concurrent-downloads=5")
    running = watcher()
    setting = wait_reason(running, DOCKER, "on-command-line")
    assert setting["actual"] == "5" and setting["state"] == "observed", "a default is no failure"
    running.stop()
    running = watcher("max_concurrent_downloads: 7")
    wait_setting(running, DOCKER, "failed")
    assert "docker.service has --max-concurrent-downloads=5" in running.wait_finding(DOCKER)["message"]
    assert not lab.daemon_json.exists()


def test_a_timeout_that_no_runtime_has_fails(lab: Lab, watcher: Watcher) -> None:
    lab.dockerd()
    running = watcher("pull_progress_timeout: 20m")
    wait_setting(running, "docker.image_pull_progress_timeout", "failed")
    assert "docker has no such option" in running.wait_finding("docker.image_pull_progress_timeout")["message"]


def test_a_timeout_fails_on_a_containerd_that_lacks_it(lab: Lab, watcher: Watcher) -> None:
    lab.containerd()
    name = "containerd.image_pull_progress_timeout"
    running = watcher()
    version = until(lambda: found(running, "containerd").get("version"), "its version")
    if not version.startswith("1.6."):
        wait_reason(running, name, "restart-pending")  # Debian 13's has it
        return
    wait_setting(running, name, "unsupported")
    assert running.condition("SettingFailed")["status"] == "False", "a default is no failure"
    running.stop()
    running = watcher("pull_progress_timeout: 20m")
    wait_setting(running, name, "failed")
    assert f"containerd {version} has no image_pull_progress_timeout" in running.wait_finding(name)["message"]


@pytest.mark.parametrize("word", ["--max-concurrent-downloads=5", "$OPTIONS"])
def test_an_option_that_the_unit_of_dockerd_gets_removes_our_key(lab: Lab, watcher: Watcher, word: str) -> None:
    """Otherwise dockerd would not start again. RHEL's unit has its options in a file."""
    import dbus

    lab.write("etc/docker/daemon.json", "{}\n")
    daemon, systemd = lab.dockerd(), lab.with_systemd()
    running = watcher()
    wait_setting(running, DOCKER, "in-sync")
    lab.write("etc/sysconfig/docker", "OPTIONS='--selinux-enabled=false \\\n  --max-concurrent-downloads 5'\n")
    systemd.docker.more["EnvironmentFiles"] = dbus.Array([dbus.Struct(("/etc/sysconfig/docker", True), signature="sb")], signature="(sb)")
    systemd.docker.command = ["/usr/bin/dockerd", word]
    wait_reason(running, DOCKER, "on-command-line")
    until(lambda: lab.daemon_json.read_text() == "{}\n", lambda: running.log)
    daemon.command.append("--max-concurrent-downloads=5")
    daemon.restart()
    until(lambda: running.setting(DOCKER)["actual"] == "5", lambda: running.log)
    assert running.setting(DOCKER)["reason"] == "on-command-line" and lab.daemon_json.read_text() == "{}\n"


NEXT = """#!/bin/sh
[ "$1" != --version ] || exec echo "Docker version 29.1.0, build 1234567"
[ ! -e {refuses} ] || echo "unable to configure the Docker daemon with file $3: a reason of 29" >&2
[ ! -e {refuses} ]
"""


def test_the_dockerd_that_an_upgrade_installed_judges_the_file(lab: Lab, watcher: Watcher, directory: Path) -> None:
    """The next start runs it, so the version that still runs says nothing about the file."""
    program, refuses = directory / "bin/dockerd", directory / "refuses"
    program.parent.mkdir()
    shutil.copy("/usr/sbin/dockerd", program)
    lab.daemons["docker"] = Daemon(lab, "dockerd", [str(program), *DOCKER_OPTIONS], lab.docker_answers).start()
    running = watcher("max_concurrent_downloads: keep")
    lab.write("etc/docker/daemon.json", '{"of-a-later-version": true}\n')
    assert "of-a-later-version" in running.wait_finding("file-unusable")["message"]
    program.unlink()  # as dpkg replaces it
    program.write_text(NEXT.format(refuses=refuses))
    program.chmod(0o755)
    running.wait_condition("RuntimeWouldNotStart", "False")
    refuses.touch()
    lab.write("etc/docker/daemon.json", '{"of-a-later-version": false}\n')
    assert "a reason of 29" in running.wait_finding("file-unusable")["message"]


@pytest.mark.parametrize("spelling", ["literal", pytest.param("variable", marks=pytest.mark.slow), pytest.param("file", marks=pytest.mark.slow)])
def test_a_running_dockerd_whose_unit_and_file_have_the_same_option_would_not_start(lab: Lab, watcher: Watcher, spelling: str) -> None:
    """The option of the unit is also found where systemd has it from a variable, or from a file."""
    import dbus

    systemd = lab.with_systemd()
    lab.write("etc/docker/daemon.json", '{\n  "log-level": "warn",\n  "hosts": ["unix:///run/docker.sock"]\n}\n')
    lab.dockerd()
    running = watcher("max_concurrent_downloads: keep")
    until(lambda: found(running, "docker").get("state") == "answers", lambda: running.log)
    assert running.condition("RuntimeWouldNotStart")["status"] == "False"
    options = "-D --log-level=info"
    if spelling == "file":
        lab.write("etc/default/docker", f"# options\nDOCKER_OPTS=\"{options}\"\n")
        systemd.docker.more["EnvironmentFiles"] = dbus.Array([dbus.Struct(("/etc/default/docker", True), signature="sb")], signature="(sb)")
    elif spelling == "variable":
        systemd.docker.environment = ["OTHER=--bridge=none", f"DOCKER_OPTS={options}"]
    systemd.docker.command = ["/usr/bin/dockerd", *(options.split() if spelling == "literal" else ["$DOCKER_OPTS"])]
    finding = running.wait_finding("file-unusable")
    assert (finding["severity"], finding["condition"]) == ("critical", "RuntimeWouldNotStart")
    assert '2:3: "log-level" is also an option of docker.service, --log-level' in finding["message"]
    assert finding["now"] == '/etc/docker/daemon.json:2: remove "log-level": "warn",'
    assert "do not restart docker.service" in finding["hint"]
    lab.write("etc/docker/daemon.json", '{\n  "hosts": ["unix:///run/docker.sock"]\n}\n')
    running.wait_condition("RuntimeWouldNotStart", "False")


@pytest.mark.parametrize("written_by", ["us", pytest.param("administrator", marks=pytest.mark.slow)])
def test_an_agent_that_starts_while_dockerd_is_down_for_option_and_key_names_the_cure(
    lab: Lab, watcher: Watcher, written_by: str
) -> None:
    lab.write("etc/docker/daemon.json", "{}\n")
    daemon, systemd = lab.dockerd(), lab.with_systemd()
    if written_by == "us":
        first = watcher()
        wait_setting(first, DOCKER, "in-sync")
        assert first.stop() == 0
    else:
        lab.daemon_json.write_text('{"max-concurrent-downloads": 6}\n')
    daemon.stop()
    systemd.docker.command = ["/usr/bin/dockerd", "--max-concurrent-downloads=5"]
    running = watcher()
    assert wait_reason(running, DOCKER, "on-command-line")["mode"] == "enforce"
    if written_by == "us":
        until(lambda: lab.daemon_json.read_text() == "{}\n", lambda: running.log)
        daemon.command.append("--max-concurrent-downloads=5")
        daemon.start()
        until(lambda: running.setting(DOCKER)["actual"] == "5", lambda: running.log)
    else:
        assert "remove one of them" in running.wait_condition("RuntimeUnreachable")["message"]
        assert lab.daemon_json.read_text() == '{"max-concurrent-downloads": 6}\n'


def test_a_dockerd_with_its_own_pid_file_and_socket_activation_is_seen(lab: Lab, watcher: Watcher) -> None:
    """systemd listens on the socket, and its MainPID names dockerd."""
    lab.write("etc/docker/daemon.json", "{}\n")
    systemd = lab.with_systemd()
    activate = ["systemd-socket-activate", "-l", "/run/docker.sock", "--fdname=docker", "-E", "PATH"]
    command = [*activate, "dockerd", *DOCKER_OPTIONS, "-H", "fd://", "--pidfile=/run/other.pid"]
    daemon = lab.daemons["dockerd"] = Daemon(lab, "dockerd", command, lab.docker_answers)
    daemon.start()
    systemd.docker.pid = int(until(lambda: read(lab.root / "run/other.pid"), "dockerd runs"))
    running = watcher()
    wait_setting(running, DOCKER, "in-sync")
    assert json.loads(lab.daemon_json.read_text()) == {"max-concurrent-downloads": 10}


@pytest.fixture
def pod() -> Iterator[Cgroup]:
    group = Cgroup(pod_path(systemd=True)[0])
    yield group
    group.remove()


@pytest.mark.parametrize("option", [(), ("--pidfile=/run/other.pid",)], ids=["stale-pid-file", "another-pid-file"])
def test_a_container_that_is_called_dockerd_is_not_dockerd(pod: Cgroup, lab: Lab, watcher: Watcher, option: tuple[str, ...]) -> None:
    """Root in a pod with hostPID chooses its name and its arguments."""
    victim = lab.write("etc/victim.json", "{}\n")
    lab.run("cp", "/bin/sh", "/run/dockerd")
    with pod:
        command = [*lab.wrap, "/run/dockerd", "-c", "read line", "sh", "--config-file=/etc/victim.json"]
        container = subprocess.Popen(command, stdin=subprocess.PIPE)
    try:
        lab.dockerd(*option)
        if not option:
            (lab.directory / "run/docker.pid").write_text(str(container.pid))
        wait_setting(watcher(), DOCKER, "in-sync")
        assert json.loads(lab.daemon_json.read_text()) == {"max-concurrent-downloads": 10}
        assert victim.read_text() == "{}\n"
    finally:
        container.communicate()


def test_a_containerd_in_a_container_is_left_alone(pod: Cgroup, lab: Lab, watcher: Watcher) -> None:
    with pod:
        lab.containerd()
    wait_reason(watcher(), DOWNLOADS, "process-not-seen")
    assert lab.config.read_text() == CONTAINERD_CONFIG


@pytest.mark.containerd2
def test_another_program_than_the_running_one_is_not_asked(lab: Lab, watcher: Watcher) -> None:
    """The daemon's $PATH is not visible for a pod."""
    text = "version = 2\nimports = ['/etc/containerd/conf.d/*.toml']\n"
    lab.config.write_text(text)
    daemon = lab.daemons["containerd"] = Daemon(lab, "containerd", ["containerd"], lambda: lab.connects(lab.containerd_socket))
    daemon.env = {"PATH": f"{containerd2()}:{os.environ['PATH']}"}
    daemon.start()
    running = watcher(wrap=("setpriv", "--bounding-set=-all,+net_admin,+bpf,+perfmon", "--no-new-privs"))
    assert wait_reason(running, DOWNLOADS, "program-differs")["actual"] == ""
    finding = running.wait_finding("program-differs", "/usr/bin/containerd is 1.")
    assert (finding["severity"], finding["now"]) == ("advice", ""), "nobody knows what a restart would do"
    assert lab.config.read_text() == text and not (lab.root / "etc/containerd/conf.d").exists()


@pytest.mark.containerd2
@pytest.mark.parametrize("how", ["ExecSearchPath", "Environment"])
def test_a_relative_program_is_searched_in_the_path_of_its_unit(lab: Lab, watcher: Watcher, how: str) -> None:
    lab.config.write_text("version = 2\nimports = ['/etc/containerd/conf.d/*.toml']\n")
    path = f"{containerd2()}:{os.environ['PATH']}"
    daemon = lab.daemons["containerd"] = Daemon(lab, "containerd", ["containerd"], lambda: lab.connects(lab.containerd_socket))
    daemon.env = {"PATH": path}
    daemon.start()
    unit = lab.with_systemd().unit
    unit.pid = daemon.pid
    if how == "ExecSearchPath":
        unit.command, unit.search = ["containerd"], path.split(":")
    else:  # of a shell that starts it
        unit.command, unit.environment = ["/bin/sh", "-c", "exec containerd"], ["A=b", f"PATH={path}"]
    running = watcher(wrap=("setpriv", "--bounding-set=-all,+net_admin,+bpf,+perfmon,+sys_chroot", "--no-new-privs"))
    wait_reason(running, DOWNLOADS, "restart-pending")
    assert running.tuner("runtime")["state"] == "active", running.tuner("runtime")


@pytest.mark.slow
def test_commands_without_an_agent_name_a_runtime_that_hangs(lab: Lab, headroom: Run) -> None:
    daemon = lab.containerd()
    daemon.signal(signal.SIGSTOP)
    # plan and apply of this tuner alone: the values of the machine do not matter.
    for command, code in (("plan --only runtime", 1), ("apply --only runtime", 1), ("status", 2)):
        answer = headroom(*command.split(), code=code)
        output = answer.stdout + answer.stderr
        assert "Nothing to change" not in output and "containerd" in output and "answer" in output, (command, output)
    daemon.signal(signal.SIGCONT)
    assert lab.config.read_text() == CONTAINERD_CONFIG


def test_a_read_only_etc_is_named(lab: Lab, watcher: Watcher) -> None:
    lab.containerd()
    lab.run("mount", "-o", "remount,bind,ro", "/etc")
    running = watcher()
    setting = wait_setting(running, DOWNLOADS, "unsupported")
    assert "/etc/containerd/config.toml is on a read-only" in setting["why"]
    assert running.condition("SettingFailed")["status"] == "False", "a default is no failure"
    running.stop()
    running = watcher("max_concurrent_downloads: 12")
    setting = wait_setting(running, DOWNLOADS, "failed")
    assert "/etc/containerd/config.toml is on a read-only" in running.wait_finding(DOWNLOADS)["message"]
    assert lab.config.read_text() == CONTAINERD_CONFIG
    lab.run("mount", "-o", "remount,bind,rw", "/etc")


def test_a_read_only_directory_is_named(lab: Lab, watcher: Watcher) -> None:
    lab.write("etc/docker/daemon.json", "{}\n")
    lab.dockerd()
    lab.run("sh", "-c", "mount --bind /etc/docker /etc/docker && mount -o remount,bind,ro /etc/docker")
    running = watcher()
    setting = wait_setting(running, DOCKER, "failed")
    message = running.wait_condition("SettingFailed")["message"]
    assert DOCKER in message and "read-only file system" in message
    assert setting["actual"] == "3"


def test_credentials_stay_in_files_for_root(lab: Lab, directory: Path, watcher: Watcher, run: Run) -> None:
    text = CONTAINERD_CONFIG.replace(
        '  [plugins."io.containerd.internal.v1.opt"]',
        '    [plugins."io.containerd.grpc.v1.cri".registry.configs."registry.example".auth]\n'
        f'      password = "{SECRET}"\n  [plugins."io.containerd.internal.v1.opt"]',
    )
    lab.config.write_text(text)
    lab.containerd()
    home = directory / "home"
    for name in (".docker/config.json", ".dockercfg"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(f'{{"auths": {{"registry.example": {{"auth": "{SECRET}"}}}}}}')
    env = {"HOME": str(home), "HEADROOM_LOG_LEVEL": "debug"}
    running = watcher(env=env)
    wait_reason(running, DOWNLOADS, "restart-pending")
    assert SECRET not in running.log
    assert SECRET not in str(running.status()) + str(running.metrics())
    assert SECRET not in run("plan", wrap=lab.wrap).stdout
    kept = [path for path in (directory / "state").rglob("*") if path.is_file() and SECRET in path.read_text()]
    assert len(kept) == 2, "the original and its replacement"
    for path in kept:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600 and path.stat().st_uid == 0
        assert stat.S_IMODE(path.parent.stat().st_mode) & 0o077 == 0


@pytest.mark.parametrize("password", [f"a/{SECRET}", f"{SECRET * 12}"], ids=["slash", "long"])
def test_a_fault_of_containerd_that_quotes_a_url_does_not_show_its_password(lab: Lab, watcher: Watcher, run: Run, password: str) -> None:
    lab.containerd()
    mirrors = '[plugins."io.containerd.grpc.v1.cri".registry.mirrors."quay.io"]\n'
    lab.config.write_text(f'{CONTAINERD_CONFIG}{mirrors}  endpoint = "https://bob:{password}@mirror.example"\n')
    running = watcher()
    assert "mirror.example" in running.wait_finding("file-unusable")["message"]
    shown = [running.get(path, unix=False)[1] for path in ("/health", "/v1/status", "/v1/incidents", "/")] + [running.log]
    assert not [text for text in [*shown, run("doctor", wrap=lab.wrap).stdout] if SECRET in text]


class Impostor(socketserver.ThreadingUnixStreamServer):
    """A hostile server at the socket of a runtime."""

    SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
    HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    daemon_threads = True

    def __init__(self, path: Path, how: str, http: bool) -> None:
        path.unlink(missing_ok=True)
        super().__init__(str(path), socketserver.BaseRequestHandler)
        self.path, self.how, self.http = path, how, http
        self.served = 0
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def finish_request(self, client: Any, address: Any) -> None:
        self.served += 1
        head = self.HEAD if self.http else self.SETTINGS
        with contextlib.suppress(OSError):
            if self.how == "huge":
                client.recv(64)
                client.sendall(head % 100_000_000 if self.http else head)
                for _ in range(100):
                    client.sendall(b" " * 1_000_000)
            else:
                client.recv(1 << 20)
                time.sleep(60)

    def close(self) -> None:
        self.shutdown()
        self.server_close()
        self.path.unlink(missing_ok=True)


@contextlib.contextmanager
def always_alive(agent: Agent) -> Iterator[None]:
    """Each answer of /livez within the context is 200. pytest -rP prints the longest time, measured by another process."""
    end, result = multiprocessing.Event(), multiprocessing.SimpleQueue()

    def ask() -> None:
        codes, waits = set(), []
        while not end.wait(0.005):
            began = time.monotonic()
            codes.add(agent.get("/livez", unix=False)[0])
            waits.append(time.monotonic() - began)
        result.put((codes, len(waits), max(waits)))

    multiprocessing.Process(target=ask).start()
    try:
        yield
    finally:
        end.set()
    codes, n, longest = result.get()
    print(f"/livez: the longest of {n} took {longest * 1000:.1f} ms")
    assert codes == {200}


def resident(agent: Agent) -> int:
    """Anonymous resident memory in kB."""
    return int(next(line.split()[1] for line in read(f"/proc/{agent.pid}/status").splitlines() if "RssAnon" in line))


def check_silent(agent: Agent, name: str) -> None:
    finding = agent.wait_finding("runtime-silent", name)
    assert finding["instance"]["name"] == name and finding["now"] == f"systemctl restart {name}.service"
    assert agent.condition("RuntimeUnreachable")["status"] == "True"
    assert agent.get("/livez")[0] == 200 and agent.get("/readyz")[0] == 200


@pytest.mark.slow
def test_a_containerd_that_hangs_or_died_is_unreachable_until_it_answers(lab: Lab, watcher: Watcher) -> None:
    daemon = lab.containerd()
    running = keeping(watcher, "containerd")
    daemon.signal(signal.SIGSTOP)
    check_silent(running, "containerd")
    daemon.signal(signal.SIGCONT)
    running.wait_condition("RuntimeUnreachable", "False")
    daemon.signal(signal.SIGKILL)
    daemon.process.wait()  # type: ignore[union-attr]
    check_silent(running, "containerd")
    daemon.start()
    running.wait_condition("RuntimeUnreachable", "False")
    assert running.log.count("RuntimeUnreachable: runtime-silent: containerd") == 2, running.log


@pytest.mark.slow
def test_a_runtime_that_someone_has_stopped_is_no_alarm(lab: Lab, watcher: Watcher) -> None:
    daemon = lab.containerd()
    unit = lab.with_systemd().unit
    running = keeping(watcher, "containerd")
    unit.more["Result"] = "success"
    unit.state = "inactive"
    daemon.stop()
    until(lambda: running.condition("RuntimeUnreachable")["reason"] == "runtime-stopped", lambda: running.log)
    assert running.condition("RuntimeUnreachable")["status"] == "False"
    # It fails again and again.
    unit.more["SubState"], unit.more["Result"], unit.state = "auto-restart", "exit-code", "activating"
    assert running.wait_finding("runtime-silent")["now"] == "systemctl restart containerd.service"
    daemon.start()
    running.wait_condition("RuntimeUnreachable", "False")


@pytest.mark.slow
def test_no_restart_is_advised_for_a_silent_runtime_with_a_broken_file(lab: Lab, watcher: Watcher) -> None:
    daemon = lab.containerd()
    running = keeping(watcher, "containerd")
    daemon.stop()
    lab.config.write_text(CONTAINERD_CONFIG + "[grpc\n")
    until(lambda: (f := running.finding("runtime-silent")) and "it would not start" in f["hint"], lambda: running.log)
    found = running.wait_finding("runtime-silent")
    assert found["now"] == "" and "config.toml" in found["hint"]
    lab.config.write_text(CONTAINERD_CONFIG)
    until(lambda: (f := running.finding("runtime-silent")) and f["now"], lambda: running.log)
    typed(running.wait_finding("runtime-silent")["now"], lab.directory, systemctl=lambda *_: daemon.start())
    running.wait_no_finding("runtime-silent")


@pytest.mark.slow
def test_hostile_servers_cost_neither_memory_nor_time(lab: Lab, watcher: Watcher) -> None:
    daemon, docker = lab.containerd(), lab.dockerd("--containerd", "/run/containerd/containerd.sock")
    running = keeping(watcher, "containerd", "docker")
    before = resident(running)
    kept = [(path, path.with_suffix(".kept")) for path in (lab.containerd_socket, lab.docker_socket)]
    for path, aside in kept:
        path.rename(aside)
    with always_alive(running):
        for how in ("huge", "hangs"):
            others = [Impostor(path, how, path == lab.docker_socket) for path, _ in kept]
            until(lambda: all(other.served for other in others), f"{how}: the agent connects")
            until(
                lambda: {found(running, name)["state"] for name in ("containerd", "docker")} == {"silent"},
                f"{how}: silent",
            )
            assert resident(running) < before + 20_000, f"{how}: memory is bounded"
            for other in others:
                other.close()
    check_silent(running, "docker")
    for path, aside in kept:
        aside.rename(path)
    running.wait_condition("RuntimeUnreachable", "False")
    assert resident(running) < before + 4_000
    assert daemon.alive() and docker.alive()


@pytest.mark.slow  # it waits for the limit of a sample, and for that of a program
@pytest.mark.parametrize("seconds", [11, 25])
def test_a_slow_dump_is_not_a_broken_file(lab: Lab, watcher: Watcher, seconds: int) -> None:
    """On a busy node. After 20 s it is asked again a minute later."""
    lab.containerd()
    lab.wait_for_cri()
    slow = 'case " $* " in *" dump "*) echo >>/run/dumps; sleep ' + str(seconds) + ' ;; esac\nexec /run/fast "$@"\n'
    lab.write("run/slow", "#!/bin/sh\n" + slow).chmod(0o755)
    lab.run("sh", "-c", "touch /run/fast; mount --bind /usr/bin/containerd /run/fast; mount --bind /run/slow /usr/bin/containerd")
    running = watcher("restart: never")
    name = "containerd.max_concurrent_downloads"
    setting = running.setting(name)
    assert (setting["reason"], setting["wanted"]) == (("file-slow", "") if seconds > 20 else ("default", "10")), setting
    assert running.condition("AgentDegraded")["status"] == "False"
    assert not [one for one in running.status()["findings"] if one["slug"] == "file-unusable"]
    if seconds > 20:
        dumps = (lab.root / "run/dumps").read_text()
        time.sleep(7)  # a sample comes every five seconds
        assert (lab.root / "run/dumps").read_text() == dumps == "\n"
