# SPDX-License-Identifier: Apache-2.0
"""Faulty configurations: messages have the position, and nothing changes."""

import json
import os
import re
import signal
import time
from pathlib import Path

import pytest
from conftest import THRESHOLDS, Node, mounted, read, sysctl, thresholds, until

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(9)
)

# name: (content, expected line or None, word in the message or None)
FAULTS: dict[str, tuple[bytes, int | None, str | None]] = {
    "wrong type": (b"mode: enforce\nneighbor:\n  lower: [1]\n", 3, "lower"),
    "80k": (b"neighbor:\n  ipv4:\n    gc_thresh1: 80k\n", 3, "80k"),
    "unknown key": (b"mode: enforce\nneighbour: {}\n", 2, "neighbour"),
    "thresh1 > thresh2": (b"neighbor:\n  ipv4: {gc_thresh1: 500, gc_thresh2: 400, gc_thresh3: 600}\n", 2, "gc_thresh"),
    "thresh1 > the default thresh2": (b"neighbor: {ipv6: {gc_thresh1: 95000}}\n", 1, "gc_thresh"),
    "tab indentation": (b"neighbor:\n\tgrow: true\n", 2, "tab"),
    "10 MB": (b"# padding\n" * 1_000_000 + b"mode: enforce\n", None, None),
    "10 MB in one line": (b"mode: " + b"x" * 10_000_000, None, None),
    "binary junk": (bytes(range(256)) * 8, None, None),
    "zeros": (bytes(4096), None, None),
    "half a character": (b"node_name: \xc3\n", 1, None),
    "another name of docker.io": (b"runtime: {mirrors: [{registry: index.docker.io, url: 'https://m.example'}]}\n", 1, "write docker.io"),
    "a registry in capitals": (b"runtime: {mirrors: [{registry: Quay.IO, url: 'https://m.example'}]}\n", 1, "write quay.io"),
    "a namespace alone": (b"runtime: {mirrors: [{url: 'https://m.example/v2/hub'}]}\n", 1, "add override_path: true"),
    "override_path alone": (b"runtime: {mirrors: [{url: 'https://m.example/hub', override_path: true}]}\n", 1, "remove override_path"),
    "duplicate keys": (b"mode: enforce\nthp: {enabled: never}\nmode: observe\n", 3, "mode"),
    "YAML bomb": (BOMB.encode(), None, None),
    "deep nesting": (b"[" * 100_000, None, None),
    "two documents": (b"mode: enforce\n---\nmode: observe\n", 2, "document"),
    "an unclosed bracket": (b"neighbor: {ipv4: {gc_thresh1: 1\n", 1, "this map is not closed"),
    "an open bracket at the end": (b"mode: observe\n\nhttp: [\n\n", 3, "this list is not closed"),
    "an open brace at the end": (b"mode: observe\nhttp: {", 2, "this map is not closed"),
    "a blank too few in an item": (b"dns:\n  budgets:\n    - server: 10.0.0.2\n     qps: 5\n", 4, "the list that began in line 3"),
    "an item without a blank": (b"dns:\n  domains:\n  - a\n  -b\n", 4, "a blank after the -"),
    "a template": (b"mode: observe\nnode_name: {{ .Values.x }}\n", 2, "a template that was not rendered"),
    "a template beside a text": (b"node_name: {{ .Values.x }}-a\n", 1, "a template that was not rendered"),
    "a condition of a template": (b"mode: observe\n{{- if .Values.x }}\nlog: json\n{{- end }}\n", 2, "a template that was not rendered"),
    "a ceiling below the threshold": (b"neighbor:\n  ceiling: 50000\n  ipv6: keep\n", 2, "ceiling"),
    "a sysctl that a tuner owns": (b"sysctl:\n  net.ipv4.neigh.default.gc_thresh3: 5\n", 2, "neighbor"),
    "an invalid address": (b"http: {listen: nowhere}\n", 1, "nowhere"),
    "a budget with a unit": (b"dns:\n  budgets:\n    - {server: 10.0.0.2, qps: 80k}\n", 3, "80k"),
    "a budget without a number": (b"dns:\n  budgets:\n    - {server: 10.0.0.2}\n", 3, "qps, pps or pending"),
    "a budget of an invalid server": (b"dns:\n  budgets:\n    - {server: nowhere, qps: 5}\n", 3, "nowhere"),
}


# A fault begins so in the log of an agent.
LOGGED = r"headroom: 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ error: config: "


def assert_one_line(text: str, path: Path, line: int | None, word: str | None, before: str = "") -> None:
    lines = text.splitlines()
    assert len(lines) == 1, text
    match = re.fullmatch(rf"{before}{re.escape(str(path))}:(\d+):(\d+): (.+)", lines[0])
    assert match, lines[0]
    assert int(match[1]) >= 1 and int(match[2]) >= 1
    assert line is None or int(match[1]) == line, lines[0]
    assert word is None or word in match[3], lines[0]
    assert len(lines[0]) < 1000 and lines[0].isprintable()


@pytest.mark.quick
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_one_line_with_its_position(directory: Path, run, fault: str) -> None:
    content, line, word = FAULTS[fault]
    path = directory / "bad.yaml"
    path.write_bytes(content)
    began = time.monotonic()
    answer = run("check-config", str(path))
    assert answer.returncode == 1
    assert time.monotonic() - began < 5, "each file is read in a short time"
    assert_one_line((answer.stdout + answer.stderr).rstrip("\n"), path, line, word)


@pytest.mark.quick
@pytest.mark.parametrize("fault", ["80k", "thresh1 > thresh2", "YAML bomb", "binary junk"])
def test_the_agent_does_not_start_with_a_fault(node: Node, agent, directory: Path, fault: str) -> None:
    content, line, word = FAULTS[fault]
    path = directory / "bad.yaml"
    path.write_bytes(content)
    one = agent(None, ready=False, args=("--config", str(path)))
    assert one.process.wait(10) == 1
    assert_one_line(one.log.rstrip("\n"), path, line, word, LOGGED)
    node.assert_unchanged()


def test_a_fifo_or_directory_for_a_file_does_not_hang(directory: Path, run) -> None:
    os.mkfifo(directory / "fifo.yaml")
    for path in (directory / "fifo.yaml", directory, Path("/dev/zero")):
        answer = run("check-config", str(path), timeout=5)
        assert answer.returncode == 1
        assert str(path) in answer.stdout + answer.stderr


@pytest.mark.quick
@pytest.mark.parametrize("whose", ["owner", "group", "others", "directory"])
def test_a_configuration_that_others_may_write_is_refused(directory: Path, run, whose: str) -> None:
    site = directory / "site"
    site.mkdir()
    path = site / "headroom.yaml"
    path.write_text("mode: observe\n")
    loads = ("check-config", "--config", str(path))
    assert run(*loads).returncode == 0
    if whose == "owner":
        os.chown(path, 1000, 0)
    else:
        (site if whose == "directory" else path).chmod({"group": 0o664, "others": 0o646, "directory": 0o777}[whose])
    for command, before in ((loads, ""), (("agent", "--config", str(path)), LOGGED)):
        answer = run(*command)
        assert answer.returncode == 1
        assert_one_line(answer.stderr, site if whose == "directory" else path, 1, "chmod go-w", before)
    assert run("check-config", str(path)).returncode == 0, "a named file is a draft"
    # As a ConfigMap, whose directory has mode 0777.
    mount = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
    assert run(*loads, wrap=("unshare", "--mount", "sh", "-c", mount, str(site))).returncode == 0


@pytest.mark.quick
def test_a_bad_file_on_reload_keeps_the_old_config(agent) -> None:
    one = agent("neighbor: {ipv4: {gc_thresh3: 101000}}")
    assert one.condition("ConfigInvalid")["status"] == "False"
    # write_config adds the address as the first line.
    one.write_config("neighbor: {ipv4: {gc_thresh1: 1, gc_thresh2: 2, gc_thresh3: 3k}}")
    one.signal(signal.SIGHUP)
    condition = one.wait_condition("ConfigInvalid")
    assert f"{one.config_path}: line 2," in condition["message"] and "3k" in condition["message"]
    assert thresholds() == (80000, 90000, 101000)
    assert one.setting(THRESHOLDS[2])["wanted"] == "101000"
    sysctl(THRESHOLDS[2], 100500)
    until(lambda: sysctl(THRESHOLDS[2]) == "101000", "the old config is still enforced")
    assert one.get("/livez")[0] == 200
    one.write_config("neighbor: {ipv4: {gc_thresh3: 102000}}")
    one.signal(signal.SIGHUP)
    until(lambda: sysctl(THRESHOLDS[2]) == "102000", "the repaired config is applied")
    one.wait_condition("ConfigInvalid", "False")


def test_a_faulty_file_at_the_start_leaves_the_last_good_config_in_use(agent, directory: Path, run) -> None:
    one = agent("neighbor: {ipv4: {gc_thresh3: 101000}}")
    saved = directory / "state/config.json"
    until(lambda: saved.exists() and "101000" in read(saved), "the configuration is kept")
    assert one.stop() == 0
    sysctl(THRESHOLDS[2], 90000)
    one = agent("neighbor: {ipv4: {gc_thresh3: 3k}}")
    assert sysctl(THRESHOLDS[2]) == "101000"
    assert "3k" in one.wait_condition("ConfigInvalid")["message"]
    code, text = one.get("/readyz")
    assert code == 503 and "last good" in text and "not ready" in text
    probe = run("status", "--probe", "/readyz", "--config", str(one.config_path))
    assert probe.returncode == 1 and "configuration: it has a fault" in probe.stdout and "3k" in probe.stdout, probe
    assert str(one.config_path) in probe.stdout
    other = directory / "other.yaml"
    other.write_text("mode: 3k\n")
    assert run("agent", "--config", str(other)).returncode == 1, "it is of another file"
    one.write_config("neighbor: {ipv4: {gc_thresh3: 102000}}")
    one.wait_condition("ConfigInvalid", "False")
    assert (sysctl(THRESHOLDS[2]), one.get("/readyz")[0]) == ("102000", 200)


def test_a_changed_file_is_loaded_without_a_signal(agent) -> None:
    one = agent()
    one.write_config("neighbor: {ipv4: {gc_thresh3: 103000}}")
    until(lambda: sysctl(THRESHOLDS[2]) == "103000", "reloaded by itself")
    one.config_path.write_text(one.config_path.read_text().replace("103000", "104000"))  # in place
    until(lambda: sysctl(THRESHOLDS[2]) == "104000", "reloaded by itself again")


def test_a_configmap_swap_is_loaded(agent, directory: Path) -> None:
    """The kubelet changes a mounted ConfigMap by renaming the ..data symlink."""
    mount = directory / "config"
    for version, value in (("..1", 105000), ("..2", 106000)):
        (mount / version).mkdir(parents=True)
        (mount / version / "headroom.yaml").write_text(f'http: {{listen: ""}}\nneighbor: {{ipv4: {{gc_thresh3: {value}}}}}\n')
    (mount / "..data").symlink_to("..1")
    (mount / "headroom.yaml").symlink_to("..data/headroom.yaml")
    one = agent(None, args=("--config", str(mount / "headroom.yaml")))
    assert sysctl(THRESHOLDS[2]) == "105000"
    (mount / "..data_tmp").symlink_to("..2")
    (mount / "..data_tmp").rename(mount / "..data")
    until(lambda: sysctl(THRESHOLDS[2]) == "106000", "the new version is loaded")
    assert one.condition("ConfigInvalid")["status"] == "False"


def test_repeated_reloads_end_with_the_last_configuration(agent) -> None:
    """A hundred SIGHUPs with valid and faulty files in turn."""
    one = agent()
    for i in range(100):
        one.write_config("mode: nonsense" if i % 2 else f"neighbor: {{ipv4: {{gc_thresh3: {110000 + i}}}}}")
        one.signal(signal.SIGHUP)
    one.write_config("neighbor: {ipv4: {gc_thresh3: 120000}}")
    one.signal(signal.SIGHUP)
    until(lambda: sysctl(THRESHOLDS[2]) == "120000", "the last config is in force")
    one.wait_condition("ConfigInvalid", "False")


def test_all_settings_of_each_profile_are_in_sync(agent, run) -> None:
    for profile in PROFILES:
        one = agent(f"profile: {profile}", name=profile)
        assert run("apply").returncode == 0, "apply ends the release of the last restore"
        states = {s["name"]: s["state"] for s in one.status()["settings"]}
        assert set(states.values()) <= {"in-sync", "unsupported"}, states
        assert one.stop() == 0
        assert run("restore").returncode == 0
    assert run("restore").returncode == 0


@pytest.mark.quick
def test_a_sysctl_that_the_node_lacks_is_a_warning_with_the_nearest_key(directory: Path, run) -> None:
    path = directory / "good.yaml"
    path.write_text("sysctl:\n  vm.max_map_counts: 300000\n  vm.swappiness: 10\n  no.such.key: 1\n")
    answer = run("check-config", str(path))
    assert answer.returncode == 0 and answer.stderr == ""
    assert answer.stdout.splitlines() == [
        f"{path}:4:16: warning: sysctl.no.such.key: this node lacks the key",
        f"{path}:2:22: warning: sysctl.vm.max_map_counts: this node lacks the key: did you mean vm.max_map_count?",
        f"OK: {path}",
    ]


@pytest.mark.quick
def test_all_faults_are_reported_in_one_run(directory: Path, run) -> None:
    path = directory / "bad.yaml"
    path.write_text("mode: on\nneighbor: {ipv4: {gc_thresh1: 80k}}\nhttp: {web_config: x}\nsysctl: {vm: 1}\ndns:\n  budgets:\n  - {qps: 0, x: 1}\n  - {server: a, qps: no}\n")
    answer = run("check-config", str(path))
    assert answer.returncode == 1
    assert [line.split(":")[1] for line in answer.stderr.splitlines()] == ["1", "2", "3", "4", "7", "7", "8"]


@pytest.mark.apart
@pytest.mark.parametrize(
    ("text", "likely"),
    [
        ("mode: enforc", "enforce"),
        ("on_drift: yeild", "yield"),
        ("neighbor: {grow: treu}", "true"),
        ("profile: lxd-hots", "lxd-host"),
        ("profile: kubernetes", "kubernetes-node"),
        ("profile: Kubernetes_Node", "kubernetes-node"),
        ("profile: lxd", "lxd-host"),
        ("profile: MicroVM", "microvm-host"),
        ("log: JSON", "json"),
    ],
)
def test_a_wrong_choice_suggests_the_likely_one(directory: Path, run, text: str, likely: str) -> None:
    path = directory / "x.yaml"
    path.write_text(text + "\n")
    assert f"did you mean {likely}?" in run("check-config", str(path)).stderr


@pytest.mark.apart
@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("log: json\nmode: 3k\n", "json"),
        ("mode: 3k\nneighbor: {grow: 4k}\nlog: json\n", "json"),
        ("mode: 3k\n", "text"),
        ("log: text\nmode: 3k\n", "text"),
        ("log: jsn\nmode: 3k\n", "text"),
        ("log: json\nmode: [\n", "text"),
        ("log: json\nhttp: {web_config: /nonexistent}\n", "json"),
    ],
)
def test_a_fault_at_the_start_is_a_line_of_the_log(directory: Path, run, text: str, form: str) -> None:
    path = directory / "headroom.yaml"
    path.write_text(text)
    answer = run("agent", "--config", str(path))
    assert answer.returncode == 1 and answer.stdout == ""
    for line in answer.stderr.splitlines():
        if form == "text":
            assert re.match(LOGGED + re.escape(str(path)) + r":\d+:\d+: ", line), line
            continue
        said = json.loads(line)
        assert said["level"] == "error" and said["object"] == "config" and said["message"].startswith(f"config: {path}:"), said
        assert said["message_id"].endswith("17")
    assert len(answer.stderr.splitlines()) == (2 if "4k" in text or "jsn" in text else 1)


@pytest.mark.apart
@pytest.mark.parametrize("kind", ["none", "directory", "large", "fifo", "mode", "content", "template"])
def test_a_fault_of_web_config_is_where_to_edit(directory: Path, run, kind: str) -> None:
    path, web = directory / "headroom.yaml", directory / "web.yml"
    path.write_text(f"mode: observe\nhttp:\n  web_config: {web}\n")
    if kind == "directory":
        web.mkdir()
    elif kind == "fifo":
        os.mkfifo(web)
    elif kind != "none":
        web.write_text({"large": "# x\n" * 100_000, "template": "basic_auth_users: {{ .Values.users }}\n"}.get(kind, "users: {}\n"))
    if kind == "mode":
        web.chmod(0o666)
    answer = run("check-config", "--config", str(path))
    words = {"mode": "chmod go-w", "content": "users is not supported", "template": "a template that was not rendered"}
    assert answer.returncode == 1
    if kind in words:
        assert words[kind] in answer.stderr and all(line.startswith(f"{web}:1:") for line in answer.stderr.splitlines()), answer
    else:
        assert_one_line(answer.stderr, path, 3, f"http.web_config: {web} cannot be read")


@pytest.mark.apart
def test_a_check_without_a_fault_prints_ok_and_warns_of_likely_mistakes(directory: Path, run, agent) -> None:
    path = directory / "x.yaml"
    path.write_text("mode: observe\n")
    assert run("check-config", str(path)).stdout == f"OK: {path}\n"
    cases = {
        "node_name: ${NODE_NAME}": "node_name: \"${NODE_NAME}\" is literal",
        "storage: {processes: [$(MY_DB)]}": 'storage.processes: "$(MY_DB)" is literal',
        "images: {archives: ['/var/${X}/a.tar']}": 'images.archives: "/var/${X}/a.tar" is literal',
        'http: {listen: "0.0.0.0:19810"}': "http.listen: 0.0.0.0:19810 is every address",
        'http: {listen: "[::]:19810"}': "http.listen: [::]:19810 is every address",
        'http: {listen: "[0::0]:19810"}': "http.listen: [0::0]:19810 is every address",
        'http: {listen: "[0:0:0:0:0:0:0:0]:19810"}': "is every address",
        'http: {listen: "[::ffff:0.0.0.0]:19810"}': "is every address",
    }
    for text, warning in cases.items():
        path.write_text(text + "\n")
        answer = run("check-config", str(path))
        assert answer.returncode == 0 and answer.stdout.splitlines()[-1] == f"OK: {path}", answer
        assert re.search(rf"^{re.escape(str(path))}:1:\d+: warning: .*{re.escape(warning)}", answer.stdout), answer.stdout
    path.write_text('http: {listen: "127.0.0.1:19810"}\nnode_name: cost-5$\n')
    assert run("check-config", str(path)).stdout == f"OK: {path}\n"
    one = agent("mode: observe\nnode_name: $NODE_NAME\n")
    assert re.search(r"config: \S+:\d+:\d+: node_name: .* is literal", one.log)


@pytest.mark.apart
@pytest.mark.parametrize(
    "text",
    [
        'http: {listen: "${POD_IP}:19810"}',
        "http: {web_config: $HOME/x}",
        'runtime: {mirrors: [{url: "${MIRROR}"}]}',
        'images: {pull: ["$(NAME) 1"]}',
        "thp: {enabled: $MODE}",
        'dns: {budgets: [{server: "${DNS}", qps: 5}]}',
    ],
)
def test_a_fault_of_a_text_with_a_variable_says_that_it_is_literal(directory: Path, run, text: str) -> None:
    path = directory / "x.yaml"
    path.write_text(text + "\n")
    [line] = run("check-config", str(path)).stderr.splitlines()
    assert line.endswith("; variables are not expanded here"), line
    path.write_text(text.replace("$", "") + "\n")
    assert "variables" not in run("check-config", str(path)).stderr


@pytest.mark.apart
def test_files_of_conf_d_with_another_ending_are_warned_about(directory: Path, run) -> None:
    etc = directory / "etc"
    (etc / "conf.d").mkdir(parents=True)
    (etc / "headroom.yaml").write_text("mode: observe\n")
    for name in ("a.yaml", "b.yml", "C.YAML", "d.json", "30-f.conf", ".hidden.yml", "e.yaml.rpmsave"):
        (etc / "conf.d" / name).write_text("node_name: there\n" if name == "a.yaml" else "mode: off\n")
    wrap = mounted(f"mount -t tmpfs tmpfs /opt; cp -a /etc /opt; mkdir -p /opt/etc/headroom; mount --bind /opt/etc /etc; mount --bind {etc} /etc/headroom")
    answer = run("check-config", wrap=wrap)
    assert answer.returncode == 0, answer
    lines = answer.stdout.splitlines()
    assert lines[-1] == "OK: /etc/headroom/headroom.yaml, /etc/headroom/conf.d/a.yaml"
    ignored = {re.match(r"/etc/headroom/conf\.d/(\S+):1:1: warning: this file is not read", line)[1] for line in lines[:-1]}
    assert ignored == {"b.yml", "C.YAML", "d.json", "30-f.conf"}
    merged = run("config", wrap=wrap).stdout
    assert re.search(r"^mode: observe +# /etc/headroom/headroom\.yaml:1$", merged, re.M), merged
    assert re.search(r"^node_name: there +# /etc/headroom/conf\.d/a\.yaml:1$", merged, re.M), merged
    assert re.search(r"^  gc_thresh3|^    gc_thresh3: 100000 +# default$", merged, re.M), merged


@pytest.mark.apart
@pytest.mark.parametrize("name", ["headroom.yml", "headroom.json", "Headroom.yaml"])
def test_a_main_file_with_another_ending_is_warned_about(directory: Path, run, name: str) -> None:
    etc = directory / "etc"
    etc.mkdir()
    (etc / name).write_text("mode: off\n")
    (etc / "web-config.yml").write_text("\n")
    wrap = mounted(f"mount -t tmpfs tmpfs /opt; cp -a /etc /opt; mkdir -p /opt/etc/headroom; mount --bind /opt/etc /etc; mount --bind {etc} /etc/headroom")
    warning = f"/etc/headroom/{name}:1:1: warning: this file is not read: its name must be headroom.yaml"
    assert run("check-config", wrap=wrap).stdout.splitlines() == [warning, "OK: no file sets anything: the defaults are used"]
    (etc / "headroom.yaml").write_text("mode: observe\n")
    assert run("check-config", wrap=wrap).stdout == "OK: /etc/headroom/headroom.yaml\n"


PROFILES = ("kubernetes-node", "etcd", "lxd-host", "microvm-host", "minimal")

# `headroom config` prints each of these configurations, and reads the same values back.
MERGED = (
    'mode: observe\nneighbor: {ipv4: keep, ipv6: {gc_thresh3: 200000}}\nsysctl: {vm.max_map_count: {value: 300000, exact: true}, '
    'net.ipv4.tcp_rmem: {value: "4096 87380 6291456", exact: true}}\ndns: {budgets: [{server: 10.0.0.2, qps: 200}]}\n'
    'runtime: {mirrors: [{registry: docker.io, url: "https://mirror.example/a"}]}\nimages: {pin: [sandbox, "docker.io/library/a:1"]}',
    *(f"profile: {profile}" for profile in PROFILES),
    *(f"profile: {profile}\nsysctl: null\nthp: {{enabled: null, shmem: null}}\nneighbor: null" for profile in PROFILES),
    "profile: lxd-host\nneighbor: {ipv4: {gc_thresh3: null}, ipv6: null}",
    "runtime: {max_concurrent_downloads: {value: 7, exact: true}}",
    "runtime: {max_concurrent_downloads: {value: 7}}",
    "runtime: {max_concurrent_downloads: {exact: true}}",
    "runtime: {max_concurrent_downloads: {value: null}}",
    "runtime: {max_concurrent_downloads: {}}",
    "runtime: {max_concurrent_downloads: 12}",
    "runtime: {max_concurrent_downloads: keep, pull_progress_timeout: keep}",
    'http: {listen: "", socket: "", web_config: "", documents: ""}\nnode_name: ""\nimages: {wave: {start: ""}}',
    'http: {listen: "[::1]:19811", socket: /run/a b.sock}',
    *(f"node_name: '{name}'" for name in ("null", "Null", "NULL", "~", "~a", "true", "7", "-", "- a", "a: b", "a #b", "#", "''", '"', "\\", "{a}", "[", "@a", "%a", "?", "*", "=", "é")),
    "sysctl: {kernel.pid_max: null}",
    "sysctl: {kernel.pid_max: null, vm.swappiness: null, fs.inotify.max_user_watches: 7}",
    'sysctl: {kernel.core_pattern: {value: "NULL", exact: true}, net/ipv4/conf/eth0.1/rp_filter: 1, "@a:b.c": 1, mode: observe}',
    "images: {pin: null, pull: [], archives: [/a b, '/c,d', \"/e'f\", '/g: h']}\nstorage: {processes: ['null', '~']}",
    "dns: {cluster_servers: auto, cluster_domains: [a.b, 'null'], names: off, budgets: [{server: auto, qps: 5}, {server: '::1', pps: 6, pending: 7}]}",
    "runtime: {mirrors: [{url: 'https://m.example/v2/hub', override_path: true}, {url: 'https://m.example'}]}",
    "neighbor: {lower: true, grow: false, ceiling: auto, stale: off, ipv4: {gc_thresh1: 1}}\nthp: {enabled: always}\non_drift: report",
    "doctor: {ignore: ['filesystem/*', 'pids/cgroup@cgroup:4711']}\nlimits: {raise: [conntrack]}",
)


@pytest.mark.apart
def test_the_merged_configuration_is_one_that_headroom_reads(directory: Path, run) -> None:
    path, again = directory / "x.yaml", directory / "again.yaml"

    def values(file: Path) -> dict:
        answer = run("config", "--json", "--config", str(file))
        assert answer.returncode == 0, (answer.stderr, file.read_text())
        return {name: row["value"] for name, row in json.loads(answer.stdout)["config"].items()}

    for text in MERGED:
        path.write_text(text + "\n")
        merged = run("config", "--config", str(path)).stdout
        again.write_text(merged)
        assert values(again) == values(path), (text, merged)


@pytest.mark.apart
def test_the_merged_configuration_names_the_file_of_each_value(directory: Path, run) -> None:
    path = directory / "x.yaml"
    path.write_text(f'mode: observe\nneighbor: {{ipv4: keep}}\nhttp: {{listen: ""}}\nsysctl: {{kernel.pid_max: null}}\n')
    merged = run("config", "--config", str(path)).stdout
    for line in ("  ipv4: keep +# {}:2", '  listen: "" +# {}:3', "  kernel.pid_max: null +# {}:4", "  fs.inotify.max_user_instances: 8192 +# profile kubernetes-node"):
        assert re.search(rf"^{line.format(re.escape(str(path)))}$", merged, re.M), merged
    document = json.loads(run("config", "--json", "--config", str(path)).stdout)
    assert document["schema"] == 1 and document["config"]["mode"] == {"value": "observe", "from": f"{path}:1"}
    assert document["config"]["log"] == {"value": "text", "from": "default"}
    path.write_text("mode: wrong\n")
    answer = run("config", "--config", str(path))
    assert answer.returncode == 1 and answer.stdout == "" and answer.stderr.startswith(f"{path}:1:7: "), answer
