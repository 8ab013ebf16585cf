# SPDX-License-Identifier: Apache-2.0
"""Faults of runtimes, name servers, disks, settings and of the checks of doctor."""

import contextlib
import ctypes
import json
import os
import secrets
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest
from conftest import NO_BPF, Agent, free_port, read, spawn, sysctl, until
from harness import Expect, Row
from inject import RUN, Fields, World, systemctl
from inject import full_disk, addresses, etcd_database

# Agents of a lab look at no limit of the node, which has faults of other rows.
QUIET = "mode: observe\nlimits: {mode: off}\nneighbor: {mode: off}\nthp: {mode: off}\nstorage: {mode: off}\ndns: {mode: off}\nkubelet: {mode: off}\n"
RUNTIME = QUIET + "sysctl: {}\nimages: {mode: off}\n"
KEEP = "max_concurrent_downloads: keep, pull_progress_timeout: keep"


def runtime(section: str, more: str = "") -> str:
    return f"{RUNTIME}runtime: {{mode: enforce{section and ', ' + section}}}\n{more}"


# ---- more than one fault at a time ----


def three_at_once(w: World) -> Iterator[Fields]:
    """Three limits, three workloads, and no idle CPU."""
    import inject

    from storm import BusyCpus

    w.stack.enter_context(BusyCpus())
    user, forks, files = inject.inotify(w, 64390), inject.pids_of_pod(w, 70), inject.files(w, 5000, 900, "unit")
    fields = next(user)
    forked, opened = next(forks), next(files)
    yield {**fields, "path": forked["path"], "pod": forked["who"], "unit": opened["who"]}


def late_name(w: World, systemd: bool = False) -> Iterator[Fields]:
    """The pod is younger than hundreds of cgroups that come and go while the CPUs are busy."""
    from inject import mount_of
    from storm import BusyCpus

    w.stack.enter_context(BusyCpus())
    base = mount_of("") / f"hr-churn-{os.getpid()}"  # type: ignore[operator]
    base.mkdir()
    w.stack.callback(base.rmdir)

    def churn(stop: threading.Event) -> None:
        made = [base / f"{i}" for i in range(300)]
        for path in made:
            path.mkdir()
        stop.wait(0.3)
        for path in made:
            path.rmdir()

    w.thread(churn)
    time.sleep(3)
    group = w.pod(systemd=systemd)
    group.limit("pids.max", 55)
    group.run("for _ in range(90):\n try:\n  if os.fork() == 0:\n   time.sleep(1000)\n   os._exit(0)\n except OSError: pass")
    yield {"who": group.text, "path": str(group.paths["pids"].relative_to(mount_of("pids")))}  # type: ignore[arg-type]


# ---- runtimes ----


def stopped_runtime(w: World, kind: str) -> Iterator[Fields]:
    """A runtime that hangs."""
    daemon = w.lab.containerd() if kind == "containerd" else w.lab.dockerd()
    w.lab.with_systemd("containerd.service")
    systemctl(w, lambda: daemon.signal(signal.SIGCONT))
    until(lambda: w.agent.condition("RuntimeUnreachable")["reason"] == "runtime-answers", "the runtime answers", 0.2)
    daemon.signal(signal.SIGSTOP)
    yield {}
    daemon.signal(signal.SIGCONT)


def killed_runtime(w: World) -> Iterator[Fields]:
    daemon = w.lab.containerd()
    unit = w.lab.with_systemd("containerd.service").unit
    until(lambda: w.agent.condition("RuntimeUnreachable")["reason"] == "runtime-answers", "the runtime answers", 0.2)
    unit.state = "failed"
    os.kill(daemon.pid, signal.SIGKILL)
    daemon.process.wait()

    def start() -> None:
        unit.state = "active"
        daemon.launch()

    systemctl(w, start)
    yield {}
    daemon.stop()
    daemon.start()


def restart_pending(w: World) -> Iterator[Fields]:
    daemon = w.lab.containerd()
    w.lab.with_systemd("containerd.service")
    systemctl(w, daemon.restart)
    yield {}
    daemon.restart()


def broken_containerd(w: World, text: str, line: int = 0) -> Iterator[Fields]:
    """The file of a running containerd, which its program refuses at the next start."""
    daemon = w.lab.containerd()
    w.lab.with_systemd("containerd.service")
    before = w.lab.config.read_text()
    w.lab.config.write_text(text.replace("{before}", before))
    systemctl(w, daemon.restart)
    yield {"file": "/etc/containerd/config.toml"}
    w.lab.config.write_text(before)


def broken_drop_in(w: World) -> Iterator[Fields]:
    """A drop-in of a version that this containerd does not know."""
    from runtimelab import containerd2

    w.lab.config.write_text("version = 2\nimports = ['/etc/containerd/conf.d/*.toml']\n")
    w.lab.containerd(containerd2())
    w.lab.with_systemd("containerd.service")
    drop_in = w.lab.write("etc/containerd/conf.d/99-gpu.toml", "version = 9\n")
    yield {"file": "/etc/containerd/conf.d/99-gpu.toml"}
    drop_in.unlink()


def broken_dockerd(w: World, text: str) -> Iterator[Fields]:
    w.lab.dockerd()
    w.lab.with_systemd("containerd.service")
    w.lab.write("etc/docker/daemon.json", text)
    yield {"file": "/etc/docker/daemon.json"}
    w.lab.daemon_json.write_text("{}\n")


def kubelet(w: World, config: str, drop_ins: bool = False) -> Any:
    """A process with the name of a kubelet, and its directory in the lab."""
    from test_kubelet import Kubelet

    (w.lab.root / "var/lib/kubelet").mkdir(exist_ok=True)
    made = Kubelet(w.directory)
    made.config.write_text(config)
    made.start(drop_ins)
    w.stack.callback(made.stop)
    return made


def seen_kubelet(w: World, config: str, drop_ins: bool = False) -> Any:
    made = kubelet(w, config, drop_ins)
    # An agent that has not seen a kubelet looks for one each minute.
    until(lambda: w.agent.status().get("kubelet", {}).get("kubelet") == "running", "the kubelet is seen", 0.2, 75)
    return made


def kubelet_file(w: World, text: str, drop_ins: bool = False) -> Iterator[Fields]:
    made = seen_kubelet(w, text, drop_ins)
    systemctl(w, lambda: made.start(drop_ins))
    yield {"file": str(made.config)}
    made.config.write_text("kind: KubeletConfiguration\nserializeImagePulls: false\nmaxParallelImagePulls: 5\n")
    made.start(drop_ins)


def broken_kubelet(w: World, line: str = "serializeImagePulls: maybe\n") -> Iterator[Fields]:
    made = seen_kubelet(w, "kind: KubeletConfiguration\nserializeImagePulls: false\n")
    made.config.write_text("kind: KubeletConfiguration\n" + ("" if "serialize" in line else "serializeImagePulls: false\n") + line)
    yield {"file": str(made.config)}
    made.config.write_text("kind: KubeletConfiguration\nserializeImagePulls: false\n")


def dead_mirror(w: World, port: int, answer: str) -> Iterator[Fields]:
    """A mirror at a port that the configuration names. answer: refused, silent, or a status line."""
    daemon = w.lab.containerd()
    w.lab.with_systemd("containerd.service")
    systemctl(w, daemon.restart)
    if answer != "refused":
        server = socket.create_server(("127.0.0.1", port))
        w.stack.callback(server.close)
        server.settimeout(0.3)
        held = []

        def serve(_: threading.Event) -> None:
            with contextlib.suppress(OSError):
                client, _address = server.accept()
                held.append(client)
                if answer != "silent":
                    client.recv(4096)
                    client.sendall(f"HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
                    client.close()

        w.thread(serve)
    yield {}
    w.agent.write_config(runtime(KEEP))
    w.agent.reload()


def hosts_of_others(w: World, port: int) -> Iterator[Fields]:
    w.lab.write("etc/containerd/certs.d/quay.io/hosts.toml", 'server = "https://registry.example"\n')
    yield from dead_mirror(w, port, "200 OK")


def mirrors_beside(w: World, port: int) -> Iterator[Fields]:
    """registry.mirrors of the old kind: containerd refuses both together."""
    w.lab.config.write_text(
        w.lab.config.read_text() + '\n[plugins."io.containerd.grpc.v1.cri".registry.mirrors."docker.io"]\n  endpoint = ["https://mirror.example"]\n'
    )
    yield from dead_mirror(w, port, "200 OK")


def docker_cannot(w: World, *options: str) -> Iterator[Fields]:
    """What is asked for is not possible with this dockerd."""
    w.lab.dockerd(*options)
    yield {}
    w.agent.write_config(runtime(KEEP))
    w.agent.reload()


def containerd_cannot(w: World) -> Iterator[Fields]:
    w.lab.containerd()
    yield {}
    w.agent.write_config(runtime(KEEP))
    w.agent.reload()


def slow_driver(w: World) -> Iterator[Fields]:
    daemon = w.lab.dockerd("--storage-driver=vfs")
    yield {}
    daemon.stop()
    w.lab.dockerd()


def stuck_pull(w: World) -> Iterator[Fields]:
    import criwire
    from imagelab import Image

    registry = w.lab.registry()
    registry.push("team/stuck", Image(3, 1 << 20))
    proxy = w.lab.proxy(registry)
    proxy.stop_after = 300_000
    w.lab.start("containerd")
    thread = threading.Thread(target=criwire.pull, args=(w.lab.containerd_socket, f"{proxy.name}/team/stuck:latest"), daemon=True)
    thread.start()
    yield {"registry": proxy.name}
    proxy.stop_after = 0
    thread.join(30)


def images(section: str) -> str:
    return f"{RUNTIME}runtime: {{mode: observe}}\n".replace("images: {mode: off}\n", "") + f"images: {{mode: enforce, pin: [], {section}}}\n"


def failed_image(w: World, archive: bytes = b"", name: str = "") -> Iterator[Fields]:
    from imagelab import Built, docker_save

    w.lab.containerd()
    if archive:
        (w.lab.directory / "run/images").mkdir()
        (w.lab.directory / "run/images/a.tar").write_bytes(archive)
    else:  # what crictl pulls, which this node lacks

        def pull(_: list[str]) -> None:
            (w.lab.directory / "run/pulled").mkdir(exist_ok=True)
            docker_save(w.lab.directory / "run/pulled/a.tar", [Built(name)])
            w.lab.run("ctr", "-n", "k8s.io", "images", "import", "/run/pulled/a.tar")

        w.tool("crictl", pull, installed=True)
    yield {"image": name}
    w.agent.write_config(images("archives: []"))
    w.agent.reload()


# ---- disks ----


def slow_disk(w: World) -> Iterator[Fields]:
    """A process that syncs, and a pod that keeps the queue of their slow disk full."""
    from inject import mount_of

    blkio = mount_of("blkio")
    if not blkio or not (blkio / "blkio.throttle.write_bps_device").exists():
        pytest.skip("no throttle of the root cgroup")
    image, mount = w.directory / "disk.img", w.directory / "disk"
    mount.mkdir()
    memory = w.directory / "memory"
    memory.mkdir()
    w.sh("mount", "-t", "tmpfs", "-o", "size=300m", "fault", memory)
    w.stack.callback(w.sh, "umount", "-l", memory)
    image = memory / "disk.img"
    with image.open("wb") as file:
        file.truncate(256 << 20)
    inner = w.sh("losetup", "--find", "--show", image).strip()
    w.stack.callback(w.sh, "losetup", "--detach", inner)
    outer = w.sh("losetup", "--find", "--show", "--direct-io=on", inner).strip()
    w.stack.callback(w.sh, "losetup", "--detach", outer)
    w.sh("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", outer)
    w.sh("mount", outer, mount)
    w.stack.callback(w.sh, "umount", "-l", mount)
    program = w.directory / "faultsync"
    program.symlink_to(sys.executable)
    hog, etcd = w.pod("pids", "blkio"), w.unit()
    number = os.stat(inner).st_rdev
    device = f"{os.major(number)}:{os.minor(number)}"
    for group in (blkio, hog.paths["blkio"]):
        throttle = group / "blkio.throttle.write_bps_device"
        throttle.write_text(f"{device} 12000000")
        w.stack.callback(throttle.write_text, f"{device} 0")
    script = f"{RUN}fd = os.open('{mount}/wal', os.O_WRONLY | os.O_CREAT)\nprint('ready', flush=True)\nn = 0\nwhile True:\n os.pwrite(fd, b'x' * 4096, n)\n n += 4096\n os.fdatasync(fd)\n time.sleep(0.01)\n"
    started = subprocess.Popen([program, "-c", script], stdout=subprocess.PIPE, text=True, preexec_fn=etcd.enter)
    etcd.programs.append(started)
    assert started.stdout and started.stdout.readline() == "ready\n"
    time.sleep(2)
    hog.run(
        f"def write(k):\n fd = os.open('{mount}/hog%d' % k, os.O_WRONLY | os.O_CREAT)\n i = 0\n"
        " while True:\n  os.pwrite(fd, b'x' * (1 << 20), i % 40 << 20)\n  i += 1\n  if i % 8 == 0: os.fsync(fd)\n"
        "for k in range(2): threading.Thread(target=write, args=(k,), daemon=True).start()"
    )
    yield {"who": hog.text, "device": Path(outer).name}
    for group in (blkio, hog.paths["blkio"]):
        (group / "blkio.throttle.write_bps_device").write_text(f"{device} 0")


# ---- settings ----


def drift(w: World, name: str, value: int) -> Iterator[Fields]:
    before = sysctl(name)
    sysctl(name, value)
    yield {"name": name}
    sysctl(name, before)


def contested(w: World, name: str, value: int) -> Iterator[Fields]:
    """Another program writes its value again and again."""
    before = sysctl(name)
    w.thread(lambda stop: (sysctl(name, value), stop.wait(0.2)))
    yield {"name": name}
    w.stack.callback(sysctl, name, before)


def refused_sysctl(w: World, name: str, path: str) -> Iterator[Fields]:
    """A file system that is mounted read-only."""
    yield {"name": name}
    w.lab.run("mount", "-o", "remount,bind,rw", path)


def read_only(lab: Any) -> None:
    lab.run("mount", "--bind", "/proc/sys", "/proc/sys")
    lab.run("mount", "-o", "remount,bind,ro", "/proc/sys")


def no_module(lab: Any) -> None:
    lab.run("mount", "-t", "tmpfs", "none", "/proc/sys/net/netfilter")


def absent(w: World, without: str) -> Iterator[Fields]:
    """Asked for, and not on this node."""
    w.tool("modprobe", lambda _: w.lab.run("umount", "-l", "/proc/sys/net/netfilter"))
    yield {}
    w.agent.write_config(without)
    w.agent.reload()


def not_configured_any_more(w: World, name: str, config: str, more: str) -> Iterator[Fields]:
    before = sysctl(name)
    w.stack.callback(sysctl, name, before)
    w.agent.write_config(config + more)
    w.agent.reload()
    until(lambda: w.agent.setting(name)["state"] == "in-sync", f"{name} is set", 0.2)
    w.agent.write_config(config)
    w.agent.reload()
    yield {"name": name, "before": before.replace("\t", " ")}
    sysctl(name, before)


def broken_configuration(w: World, text: str) -> Iterator[Fields]:
    before = w.agent.config_path.read_text()
    w.agent.config_path.write_text(before + text)
    yield {"file": str(w.agent.config_path)}
    w.agent.config_path.write_text(before)


def spoiled(w: World, file: str) -> Iterator[Fields]:
    """A record that cannot be read, before the agent starts again."""
    path = w.agent.directory / file
    second = w.directory / "second"
    (second / file).parent.mkdir(parents=True)
    (second / file).write_bytes(b"\0\xff" * 40)
    one = Agent(second, "profile: minimal\nneighbor: {mode: observe}\nthp: {mode: off}\ndns: {mode: off}\nlimits: {mode: off}\n")
    w.stack.callback(one.close)
    one.wait_ready()
    w.watched = one
    yield {"file": path.name}


def without_bpf(w: World) -> Iterator[Fields]:
    """A second agent, which may not load programs. Its cure is a drop-in of its unit."""
    dropins = Path("/etc/systemd/system/headroom.service.d")
    assert not dropins.exists()
    w.stack.callback(shutil.rmtree, dropins, ignore_errors=True)
    systemctl(w)
    second = w.directory / "second"
    second.mkdir()
    one = Agent(second, "profile: minimal\nneighbor: {mode: observe}\nthp: {mode: observe}\n", wrap=NO_BPF)
    w.stack.callback(one.close)
    one.wait_ready()
    w.watched = one
    yield {}


# ---- checks of doctor ----


def stopped_agent(w: World) -> Iterator[Fields]:
    second = w.directory / "second"
    second.mkdir()
    one = Agent(second, QUIET + "runtime: {mode: off}\nimages: {mode: off}\n", wrap=w.wrap)
    one.wait_ready()
    w.stack.callback(one.close)
    w.doctored = one
    one.signal(signal.SIGSTOP)
    yield {"pid": one.pid}
    one.signal(signal.SIGCONT)


def shown_file(w: World, path: str, text: str, healed: str) -> Iterator[Fields]:
    """A file of the kernel shows another text to the lab. A cure can write to it."""
    file = w.directory / path.strip("/").replace("/", "-")
    file.write_text(text)
    w.lab.run("mount", "--bind", str(file), path)
    w.stack.callback(w.lab.run, "umount", "-l", path)
    yield {"path": path}
    file.write_text(healed)
    w.stack.pop_all()  # the lab ends with its mounts


def bpf_jit(w: World) -> Iterator[Fields]:
    pack = "0xffffffffc0000000-0xffffffffc0200000 2097152 bpf_prog_pack_alloc+0x1/0x2 pages=512 vmalloc\n"
    list(zip(range(1), shown_file(w, "/proc/vmallocinfo", pack, pack)))
    yield from shown_file(w, "/proc/sys/net/core/bpf_jit_limit", "2500000\n", "264241152\n")


def swapping(w: World) -> Iterator[Fields]:
    kubelet(w, "kind: KubeletConfiguration\n")
    head = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
    file = w.directory / "proc-swaps"
    w.tool("swapoff", lambda _: file.write_text(head))
    yield from shown_file(w, "/proc/swaps", head + "/swap.img                               file\t\t2097148\t\t0\t\t-2\n", head)


def no_forwarding(w: World) -> Iterator[Fields]:
    kubelet(w, "kind: KubeletConfiguration\n")
    conf = {"cniVersion": "0.4.0", "name": "pods", "plugins": [{"type": "bridge", "ipam": {"type": "host-local"}}]}
    w.lab.write("etc/cni/net.d/10-test.conflist", json.dumps(conf))
    yield from shown_file(w, "/proc/sys/net/ipv4/ip_forward", "0\n", "1\n")


def resolver(w: World, text: str) -> Iterator[Fields]:
    file = w.lab.write("etc/resolv.conf", text)
    yield {}
    file.write_text("nameserver 127.0.0.1\n" if "search" in text else "")


def failed_unit(w: World) -> Iterator[Fields]:
    unit = w.lab.with_systemd("containerd.service").unit
    unit.state = "failed"
    unit.more = {"LoadState": "loaded", "SubState": "failed", "UnitFileState": "enabled", "Result": "exit-code"}

    def heal(*_: Any) -> None:
        unit.state = "active"
        unit.more = {**unit.more, "SubState": "running", "Result": "success"}

    w.tool("systemctl", heal)
    yield {}
    heal()


def unsynchronised_clock(w: World) -> Iterator[Fields]:
    def adjust(status: int) -> int:
        """Sets the status of the kernel's clock, and returns the earlier one (adjtimex(2))."""
        old = ctypes.create_string_buffer(208)
        ctypes.CDLL(None).adjtimex(old)
        new = ctypes.create_string_buffer(struct.pack("<IxxxxqqqqiI", 0x14, 0, 0, 0, 0, status, 0), 208)
        assert ctypes.CDLL(None).adjtimex(new) >= 0
        return struct.unpack_from("<i", old, 40)[0]

    kubelet(w, "kind: KubeletConfiguration\n")
    before = adjust(0x40)  # STA_UNSYNC
    w.after.callback(adjust, before)
    yield {}
    adjust(0)


def oom_kill(w: World) -> Iterator[Fields]:
    group = w.pod("pids", "memory")
    memory = group.paths["memory"]
    (memory / ("memory.limit_in_bytes" if (memory / "memory.limit_in_bytes").exists() else "memory.max")).write_text(str(24 << 20))
    group.run("if os.fork() == 0:\n x = bytearray(b'x' * (60 << 20))\n os._exit(0)\nos.wait()")
    yield {"who": group.text}


# ---- name servers ----

QPS = 400
DNS = "mode: observe\nneighbor: {mode: off}\nthp: {mode: off}\nsysctl: {}\nruntime: {mode: off}\nlimits: {mode: off}\nstorage: {mode: off}\nimages: {mode: off}\nkubelet: {mode: off}\n"
BUDGETS = {n: f"qps: {QPS}" for n in (101, 102, 103, 104, 107)} | {105: "pps: 120"}
DNS += "dns: {budgets: [" + ", ".join(f'{{server: "10.54.0.{n}", {what}}}' for n, what in BUDGETS.items()) + f', {{server: "fd00:54::66", qps: {QPS}}}]}}\n'


def client(w: World, kind: str = "pod", family: int = socket.AF_INET) -> tuple[Any, str]:
    """A socket in a workload of the lab, and the workload's name."""
    from dnslab import pod_path

    if kind == "pod":
        path, uid, _ = pod_path()
        name = f"pod {uid}"
    elif kind == "lxd":
        name = f"hr{secrets.token_hex(3)}"
        path, name = f"lxc.payload.{name}", f"lxd {name}"
    else:
        name = f"hr{secrets.token_hex(3)}.service"
        path, name = f"system.slice/{name}", f"unit {name}"
    one = w.lab.udp(w.lab.cgroup(path), family)
    w.stack.callback(one.socket.close)
    return one, name


def rate(w: World, one: Any, server: str, per_second: int, name: str = "ok.example.test") -> None:
    """Sends queries evenly until the end of the row."""

    def second(stop: threading.Event) -> None:
        begin = time.time()
        for i in range(per_second):
            left = begin + i / per_second - time.time()
            if left > 0.002:
                stop.wait(left)
            if stop.is_set():
                return
            with contextlib.suppress(OSError):
                one.send(server, name.replace("%", str(i)))

    w.thread(second)


def dns_flood(w: World, number: int, busy: int, kind: str = "pod", steady: int = 40, v6: bool = False) -> Iterator[Fields]:
    server = "fd00:54::66" if v6 else f"10.54.0.{number}"
    family = socket.AF_INET6 if v6 else socket.AF_INET
    w.lab.server(server)
    calm, _ = client(w, "pod", family)
    flood, who = client(w, kind, family)
    rate(w, calm, server, steady)
    rate(w, flood, server, busy)
    yield {"server": server, "who": who}


def dns_answers(w: World, number: int, name: str, listens: bool = True) -> Iterator[Fields]:
    """A server that fails one client. Another one asks it for nothing bad."""
    server = f"10.54.0.{number}"
    if listens:
        w.lab.server(server)
    victim, who = client(w)
    rate(w, victim, server, 30, name)
    yield {"server": server, "who": who}


def dns_packets(w: World, number: int) -> Iterator[Fields]:
    """A query over TCP costs several packets."""
    from dnslab import pod_path

    server = f"10.54.0.{number}"
    w.lab.server(server)
    path, uid, _ = pod_path()
    group = w.lab.cgroup(path)

    def ask(stop: threading.Event) -> None:
        with contextlib.suppress(OSError, AssertionError):
            with w.lab.tcp(server, group) as stream:
                stream.ask(server)
        stop.wait(0.005)

    w.thread(ask)
    yield {"server": server, "who": f"pod {uid}"}


def forwarders(w: World) -> Iterator[Fields]:
    """Two servers on this node that ask the same upstream server."""
    from dnslab import CLIENT, pod_path

    upstream = "10.54.0.106"
    w.lab.server(upstream)
    for i in (1, 2):
        path, _, _ = pod_path()
        w.lab.run(CLIENT, "ip", "addr", "replace", f"10.55.0.{i}/32", "dev", "lo")
        w.lab.dnsmasq(CLIENT, f"10.55.0.{i}", upstream, group=w.lab.cgroup(path))
    for i in (1, 2):
        one, _ = client(w)
        rate(w, one, f"10.55.0.{i}", 60, "ok-%.example.test")
    yield {"server": upstream}


# ---- the rows ----


def rows(fault: Callable[..., Row], e: Callable[..., Expect], node: str) -> list[Row]:
    def r(id: str, what: Any, *expects: Expect, **more: Any) -> Row:
        return fault(id, what, *expects, **{"place": "lab", "alone": True, "within": 40, **more})

    def asked(name: str, kind: str = "setting", **more: Any) -> Expect:
        return e(name, kind, "", who="", now="any", **more)

    broken = lambda kind, name="{file}", now="any": e("would-not-start|file-unusable|kubelet-config-unreadable", "runtime|file", name, who="", now=now)  # noqa: E731
    patient = {"within": 100}
    mirror = lambda port, name="docker.io": runtime(f'{KEEP}, restart: now, mirrors: [{{registry: "{name}", url: "http://127.0.0.1:{port}"}}]')  # noqa: E731
    server = lambda slug, **more: e(slug, "server", "{server}", now="none", **more)  # noqa: E731
    dns = {"place": "dns", "config": DNS, "alone": False, "stays_cured": False, "within": 25, "fades": 90}
    disk = {"place": "disks", "config": node}
    doctor = {"config": RUNTIME + "runtime: {mode: off}\n"}
    check = lambda slug, name="", **more: e(slug, ".*", name, who="any", from_doctor=True, **more)  # noqa: E731
    queued = "profile: minimal\nneighbor: {mode: observe}\nthp: {mode: off}\ndns: {mode: off}\nlimits: {mode: off}\n"
    events = "fs.inotify.max_queued_events"
    return [
        r("runtime/containerd-hangs", stopped_runtime, e("runtime-silent", "runtime", "containerd", who=""), args=("containerd",), config=runtime(KEEP)),
        r("runtime/dockerd-hangs", stopped_runtime, e("runtime-silent", "runtime", "docker", who=""), args=("dockerd",), config=runtime(KEEP)),
        r("runtime/containerd-killed", killed_runtime, e("runtime-silent", "runtime", "containerd", who=""), config=runtime(KEEP)),
        r("runtime/restart-pending", restart_pending, e("restart-pending", "setting|runtime", who="", keep="when-idle"), config=runtime("")),
        r("broken/containerd-table", broken_containerd, broken("containerd"), args=("{before}[plugins\n",), config=runtime(""), stays_cured=False),
        r("broken/containerd-value", broken_containerd, broken("containerd"), args=("{before}oom_score = many\n",), config=runtime(""), stays_cured=False),
        r("broken/containerd-drop-in", broken_drop_in, broken("containerd"), config=runtime("")),
        r("broken/containerd-import", broken_containerd, broken("containerd", now="edit"), args=("imports = ['/etc/containerd/gone.toml']\n{before}",), config=runtime("")),
        r("broken/daemon.json-type", broken_dockerd, broken("docker"), args=('{\n  "live-restore": "true"\n}\n',), config=runtime(""), stays_cured=False),
        r("broken/kubelet-quoted", broken_kubelet, broken("kubelet", now="edit"), args=('maxPods: "110"\n',), config=RUNTIME.replace("kubelet: {mode: off}\n", "") + "runtime: {mode: off}\n", uses=("kubelet",)),
        r("broken/daemon.json", broken_dockerd, broken("docker"), args=('{\n  "log-level": "warn",,\n}\n',), config=runtime(""), stays_cured=False),
        r("broken/daemon.json-key", broken_dockerd, broken("docker"), args=('{\n  "max-concurent-downloads": 6\n}\n',), config=runtime(""), stays_cured=False),
        r("broken/kubelet", broken_kubelet, broken("kubelet"), config=RUNTIME.replace("kubelet: {mode: off}\n", "") + "runtime: {mode: off}\n", stays_cured=False, uses=("kubelet",)),
        r("kubelet/serial-pulls", kubelet_file, e("serial-pulls", "file", "{file}", who="", now="edit"), args=("kind: KubeletConfiguration\nserializeImagePulls: true\n",),
          config=RUNTIME.replace("kubelet: {mode: off}\n", "") + "runtime: {mode: off}\n", stays_cured=False, uses=("kubelet",)),
        r("kubelet/few-parallel", kubelet_file, e("few-parallel-pulls", "file", "{file}", who="", now="edit"),
          args=("kind: KubeletConfiguration\nserializeImagePulls: false\nmaxParallelImagePulls: 2\n",),
          config=RUNTIME.replace("kubelet: {mode: off}\n", "") + "runtime: {mode: off}\n", stays_cured=False, uses=("kubelet",)),
        r("mirror/refuses", dead_mirror, asked(r"mirrors\.docker\.io"), args=(5941, "refused"), config=mirror(5941), stays_cured=False, **patient),
        r("mirror/never-answers", dead_mirror, asked(r"mirrors\.docker\.io"), args=(5942, "silent"), config=mirror(5942), stays_cured=False, **patient),
        r("mirror/404", dead_mirror, asked(r"mirrors\.ghcr\.io"), args=(5943, "404 Not Found"), config=mirror(5943, "ghcr.io"), stays_cured=False, **patient),
        r("mirror/hosts-of-others", hosts_of_others, asked(r"mirrors\.quay\.io"), args=(5944,), config=mirror(5944, "quay.io"), stays_cured=False),
        r("mirror/beside-old-ones", mirrors_beside, asked(r"mirrors\.docker\.io|containerd\.config_path"), args=(5945,), config=mirror(5945), stays_cured=False),
        r("asked/mirror-on-docker", docker_cannot, asked(r"mirrors\.quay\.io"), config=mirror(5946, "quay.io"), stays_cured=False),
        r("asked/option-of-dockerd", docker_cannot, asked(r"docker\.max-concurrent-downloads"), args=("--max-concurrent-downloads=4",), config=runtime("max_concurrent_downloads: 7"), stays_cured=False),
        r("asked/pins-on-docker", docker_cannot, asked(r"pin\..*"), stays_cured=False,
          config=RUNTIME.replace("images: {mode: off}\n", "") + "runtime: {mode: observe}\nimages: {mode: enforce, pin: ['docker.io/library/pause:9']}\n"),
        r("asked/timeout-on-1.6", containerd_cannot, asked(r"containerd\.image_pull_progress_timeout"), config=runtime("max_concurrent_downloads: keep, pull_progress_timeout: 20m"), stays_cured=False),
        r("asked/absent-sysctl", absent, asked(r"net\.fault\.absent"), args=(QUIET,), stays_cured=False,
          config=QUIET.replace("mode: observe\n", "mode: enforce\nprofile: minimal\n", 1) + "runtime: {mode: off}\nimages: {mode: off}\nsysctl: {net.fault.absent: 5}\n"),
        r("asked/no-module", absent, asked(r"net\.netfilter\.nf_conntrack_max"), args=(QUIET,), prepare=no_module, stays_cured=False,
          config=QUIET.replace("mode: observe\nlimits: {mode: off}\n", "mode: enforce\nprofile: minimal\nlimits: {mode: off, raise: [conntrack]}\n", 1) + "runtime: {mode: off}\nimages: {mode: off}\n"),
        r("asked/read-only", refused_sysctl, e(r"vm\.max_map_count", "setting", who="any", now="any"), args=("vm.max_map_count", "/proc/sys"), prepare=read_only, also="tuner-degraded",
          config=QUIET.replace("mode: observe\n", "mode: enforce\nprofile: minimal\n", 1) + "runtime: {mode: off}\nimages: {mode: off}\nsysctl: {vm.max_map_count: 262144}\n"),
        r("runtime/driver-slow", slow_driver, e("driver-slow", "runtime", "docker", who="", now="none"), config=runtime(KEEP), stays_cured=False, also="runtime-silent"),
        r("pull/no-progress", stuck_pull, e("no-progress", "registry", "127.0.0.1", who="any", now="none"), config=runtime(KEEP), within=100, stays_cured=False),
        r("image/pull-failed", failed_image, e("pull-failed|127.0.0.1:9/team/gone:1", "image", "team/gone", who="", now="any"), args=(b"", "127.0.0.1:9/team/gone:1"),
          config=images("pull: ['127.0.0.1:9/team/gone:1']"), within=90),
        r("image/archive-torn", failed_image, e("archive-broken|.*a.tar", "image|file", "a.tar", who="", now="any"), args=(b"no archive" * 500, "a.tar"),
          config=images("archives: [/run/images]"), within=90, stays_cured=False),
        r("disk/images", full_disk, e("filesystem/images/bytes", "filesystem", "/var/lib/containerd", who=""), args=("/var/lib/containerd",), also="store-nearly-full|images/store", **disk),
        r("disk/images-inodes", full_disk, e("filesystem/images/inodes", "filesystem", "/var/lib/docker", who=""), args=("/var/lib/docker", True), **disk),
        r("disk/kubelet", full_disk, e("filesystem/kubelet/bytes", "filesystem", "/var/lib/kubelet", who="", now="none"), args=("/var/lib/kubelet",), stays_cured=False, **disk),
        r("disk/log", full_disk, e("filesystem/log/bytes", "filesystem", "/var/log", who="", now="none"), args=("/var/log",), stays_cured=False, **disk),
        r("disk/log-inodes", full_disk, e("filesystem/log/inodes", "filesystem", "/var/log", who="", now="none"), args=("/var/log", True), stays_cured=False, **disk),
        r("disk/etcd-database", etcd_database, e("etcd/db", "file", "{path}", who="any", now="any"), place="node", config=node + "storage: {processes: [etcd]}\n",
          stays_cured=False, also=".*unsuited|syncs.*", within=45),
        r("disk/hogged", slow_disk, e("syncs-slow|syncs-over-election", "device", "{device}", now="none"), place="node", stays_cured=False, lingers=True, within=90,
          config=node + "storage: {processes: [faultsync], sync_p99: 2ms}\n", also=".*unsuited|syncs.*"),
        r("addresses", addresses, e("pod-addresses", "node|file|netns|.*", "near", who="any", now="any"), stays_cured=False, **disk),
        r("value/drift", drift, e(r"fs\.inotify\.max_queued_events|drift", "setting", who="any"), args=(events, 17000), place="node",
          config=queued + f"on_drift: report\nsysctl: {{{events}: 20000}}\n"),
        r("value/yielded", drift, e(r"fs\.inotify\.max_queued_events|left-by-on-drift", "setting", who="any", keep="on_drift"), args=(events, 16999), place="node",
          config=queued + f"on_drift: yield\nsysctl: {{{events}: 21000}}\n"),
        r("value/contested", contested, e(r"fs\.inotify\.max_queued_events|rewritten-too-often", "setting", who="any", now="none"), args=(events, 16888), place="node",
          config=queued + f"sysctl: {{{events}: 22000}}\n", within=60, stays_cured=False),
        r("value/no-longer-configured", not_configured_any_more, e("{name}|no-longer-configured", "setting", "{name}", who="any"),
          args=(events, queued, f"sysctl: {{{events}: 23000}}\n"), place="node", config=queued),
        r("config/unknown-key", broken_configuration, e("config-fault", "file|setting", "{file}", who="", now="none"), args=("neighbour: {mode: off}\n",), place="node", config=queued + "# 1\n", stays_cured=False),
        r("config/not-a-number", broken_configuration, e("config-fault", "file|setting", "{file}", who="", now="none"), args=("storage: {sync_p99: soon}\n",), place="node", config=queued + "# 2\n", stays_cured=False),
        r("agent/values-unrecorded", spoiled, e("values-unrecorded", "file", "/run/headroom", who="", now="none"), args=("run/values",), place="node", config=queued + "# 3\n", stays_cured=False),
        r("agent/journal-unusable", spoiled, e("journal-unusable", "file", ".*", who="", now="none"), args=("state/journal.json",), place="node", config=queued + "# 4\n", stays_cured=False),
        r("agent/no-bpf", without_bpf, e("tuner-degraded", "tuner", "limits", who="", now="any"), place="node", config=queued + "# 5\n", also="tuner-degraded", stays_cured=False),
        r("dns/flood", dns_flood, server("dns/{server}", severity="critical"), args=(101, 900), **dns),
        r("dns/flood-of-lxd", dns_flood, server("dns/{server}", severity="critical"), args=(102, 700, "lxd"), **dns),
        r("dns/flood-of-a-unit", dns_flood, server("dns/{server}"), args=(103, 600, "unit", 150), **dns),
        r("dns/near", dns_flood, server("dns/{server}", severity="warning"), args=(104, 340, "pod", 25), **dns),
        r("dns/flood-ipv6", dns_flood, server("dns/{server}"), args=(0, 800, "pod", 40, True), **dns),
        r("dns/packets-over-tcp", dns_packets, server("dns/{server}"), args=(105,), **dns),
        r("dns/silent", dns_answers, server("unanswered"), args=(111, "drop-%.example.test"), **dns),
        r("dns/servfail", dns_answers, server("failing"), args=(112, "servfail-%.example.test"), **dns),
        r("dns/refused", dns_answers, server("failing"), args=(113, "refused-%.example.test"), **dns),
        r("dns/dead-server", dns_answers, server("unanswered"), args=(114, "ok-%.example.test", False), **dns),
        r("dns/forwarders", forwarders, e("several-forwarders", "node|server", who="any", now="none"), **dns),
        r("doctor/agent-stopped", stopped_agent, check("agent"), **doctor),
        r("doctor/user-namespaces", shown_file, check("user-namespaces", keep="max_user_namespaces"), args=("/proc/sys/user/max_user_namespaces", "0\n", "63359\n"), **doctor),
        r("doctor/bpf-jit", bpf_jit, check("bpf-jit", keep="bpf_jit_limit"), **doctor),
        r("doctor/swap", swapping, check("swap"), **doctor, uses=("kubelet",)),
        r("doctor/ip-forward", no_forwarding, check("ip-forward", keep="ip_forward"), **doctor, uses=("kubelet",)),
        r("doctor/dead-name-server", resolver, check("resolver", "127.0.0.9", now="any"), args=("nameserver 127.0.0.9\nnameserver 127.0.0.8\n",), stays_cured=False, **doctor),
        r("doctor/fourth-name-server", resolver, check("resolver", "127.0.0.14|fourth|4", now="any"), stays_cured=False, **doctor,
          args=("nameserver 127.0.0.11\nnameserver 127.0.0.12\nnameserver 127.0.0.13\nnameserver 127.0.0.14\n",)),
        r("doctor/search-domains", resolver, check("resolver", "search|domain", now="any"), args=("search a.b c.d e.f g.h i.j k.l m.n o.p\n",), stays_cured=False, **doctor),
        r("doctor/failed-unit", failed_unit, check("units", "containerd.service"), **doctor),
        r("doctor/clock", unsynchronised_clock, check("clock", now="any"), stays_cured=False, **doctor, uses=("kubelet",)),
        r("doctor/oom-kill", oom_kill, check("kernel-log/oom", now="any"), stays_cured=False, lingers=True, **doctor),
    ]  # fmt: skip
