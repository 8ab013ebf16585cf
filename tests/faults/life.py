# SPDX-License-Identifier: Apache-2.0
"""Ordinary life of a node. Each row goes on for a while, and nothing may be raised."""

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import threading
import time
from typing import Any, Iterator

import faultlab
from conftest import THP
from harness import Row
from inject import Fields, World, mount_of

Life = Iterator[Fields]


def ssh_logins(w: World) -> Life:
    """OpenSSH's child before the login has a soft and hard maximum of 1 file, and 7 open."""
    unit = w.unit()
    for _ in range(4):
        unit.run("files = [os.open('/', 0) for _ in range(4)]\nresource.setrlimit(resource.RLIMIT_NOFILE, (1, 1))\nresource.setrlimit(resource.RLIMIT_NPROC, (0, 0))")
    yield {}


def one_task(w: World) -> Life:
    unit = w.unit()
    unit.limit("pids.max", 1)
    unit.run("")
    yield {}


def few_tasks(w: World) -> Life:
    """A sandbox has all the tasks that it may have, and asks for no more."""
    unit = w.unit()
    unit.limit("pids.max", 4)
    unit.run("for _ in range(3):\n if os.fork() == 0:\n  time.sleep(1000)")
    yield {}


def small_backlogs(w: World) -> Life:
    inside, unit = w.netns(), w.unit()
    unit.run(
        "k = []\nfor port, backlog in ((81, 1), (82, 5), (83, 0)):\n s = socket.socket()\n s.bind(('127.0.0.1', port))\n s.listen(backlog)\n k.append(s)\n"
        " for _ in range(max(backlog, 1)): k.append(socket.create_connection(('127.0.0.1', port)))",
        *inside,
    )  # fmt: skip
    yield {}


def lowered_limits(w: World) -> Life:
    """Sandboxes lower what they may use below what they have."""
    for many, soft in ((40, 20), (300, 290), (60, 64), (12, 0)):
        w.pod().run(f"files = [os.open('/', 0) for _ in range({many})]\nresource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {soft}))")
    w.pod().run("resource.setrlimit(resource.RLIMIT_NPROC, (5, 5))\nresource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\nresource.setrlimit(resource.RLIMIT_FSIZE, (1, 1))")
    yield {}


def upgrade(w: World) -> Life:
    """Many short processes, many small files with fsync."""
    tree = w.directory / "packages"
    tree.mkdir()

    def unpack(stop: threading.Event) -> None:
        for i in range(30):
            new = tree / f"{i}.dpkg-new"
            with new.open("w") as file:
                file.write("x" * 2000)
                os.fsync(file.fileno())
            new.rename(tree / str(i))
            subprocess.run(["/bin/true"], check=True)
            if stop.is_set():
                return
        stop.wait(0.1)

    w.thread(unpack)
    yield {}


def short_namespaces(w: World) -> Life:
    def make(stop: threading.Event) -> None:
        names = [f"hr-short-{secrets.token_hex(4)}" for _ in range(15)]
        for name in names:
            w.sh("ip", "netns", "add", name)
        for name in names:
            w.sh("ip", "netns", "del", name)
        stop.wait(0.2)

    w.thread(make)
    yield {}


def short_cgroups(w: World) -> Life:
    bases = [mount_of(c) / f"hr-short-{os.getpid()}" for c in ("", "pids", "memory")]  # type: ignore[operator]
    for base in {*bases}:
        base.mkdir()
        w.stack.callback(base.rmdir)

    def make(stop: threading.Event) -> None:
        made = [base / f"{i}" for base in {*bases} for i in range(150)]
        for path in made:
            path.mkdir()
        for path in made:
            path.rmdir()
        stop.wait(0.2)

    w.thread(make)
    yield {}


def log_rotation(w: World) -> Life:
    logs = w.directory / "log"
    logs.mkdir()

    def rotate(stop: threading.Event) -> None:
        with (logs / "app.log").open("w") as file:
            for _ in range(50):
                file.write("line\n" * 2000)
            file.flush()
            (logs / "app.log").rename(logs / "app.log.1")
            file.truncate(0)
        stop.wait(0.3)

    w.thread(rotate)
    yield {}


def backup(w: World) -> Life:
    """Reads a tree, and writes one file with fsync."""

    def copy(stop: threading.Event) -> None:
        with (w.directory / "backup").open("wb") as out:
            for path in sorted(p for p in __import__("pathlib").Path("/usr/bin").iterdir() if p.is_file())[:200]:
                with contextlib.suppress(OSError), path.open("rb") as file:
                    shutil.copyfileobj(file, out)
                if stop.is_set():
                    return
            os.fsync(out.fileno())
        stop.wait(0.5)

    w.thread(copy)
    yield {}


def page_cache(w: World) -> Life:
    """A pod reads more than its memory has room for."""
    pod = w.pod("pids", "memory")
    memory = pod.paths["memory"]
    (memory / ("memory.limit_in_bytes" if (memory / "memory.limit_in_bytes").exists() else "memory.max")).write_text(str(64 << 20))
    big = w.directory / "big"
    big.write_bytes(bytes(160 << 20))
    pod.run(f"def read():\n while True:\n  with open('{big}', 'rb') as f:\n   while f.read(1 << 20): pass\nthreading.Thread(target=read, daemon=True).start()")
    yield {}


def pods_come_and_go(w: World) -> Life:
    def live(stop: threading.Event) -> None:
        world = World(w.directory)
        pod = world.pod()
        pod.limit("pids.max", 60)
        pod.run("for _ in range(20):\n if os.fork() == 0:\n  time.sleep(1000)\nfiles = [os.open('/', 0) for _ in range(300)]")
        stop.wait(1.5)
        world.stack.close()

    w.thread(live)
    yield {}


def restarting_unit(w: World) -> Life:
    unit = w.unit()

    def again(stop: threading.Event) -> None:
        unit.run("threads = [threading.Thread(target=time.sleep, args=(1000,), daemon=True) for _ in range(10)]\nfor t in threads: t.start()")
        stop.wait(2)
        unit.kill()

    w.thread(again)
    yield {}


def three_quarters(w: World) -> Life:
    """Every limit at 75 percent."""
    pod = w.pod()
    pod.limit("pids.max", 100)
    pod.run("for _ in range(74):\n if os.fork() == 0:\n  time.sleep(1000)")
    w.pod().run("resource.setrlimit(resource.RLIMIT_NOFILE, (1000, 1000))\nfiles = [os.open('/', 0) for _ in range(740)]")
    w.sysctl("fs.inotify.max_user_instances", 128)
    w.pod().run("os.setuid(64777)\nfor _ in range(95): assert libc.inotify_init1(0) >= 0")
    w.pod().run("os.setuid(64778)\nlibc.syscall(250, 1, None)\nfor i in range(140): libc.syscall(248, b'user', b'k%d' % i, b'x', 1, -3)")
    yield {}


def tracked_connections(w: World) -> Life:
    from inject import tracked

    generator = tracked(w, 4000, ((0x0A010203, 75),), True)
    next(generator)
    yield {}


def time_wait(w: World) -> Life:
    """Ports of connections in TIME_WAIT can be used again."""
    inside, pod = w.netns(), w.pod()
    w.sh(*inside, "sysctl", "-qw", "net.ipv4.ip_local_port_range=20000 20399", "net.ipv4.tcp_tw_reuse=1")
    pod.run(
        "s = socket.create_server(('127.0.0.1', 80), backlog=100)\nfor _ in range(380):\n c = socket.create_connection(('127.0.0.1', 80))\n a = s.accept()[0]\n c.close()\n a.close()",
        *inside,
    )  # fmt: skip
    yield {}


def many_sources(w: World) -> Life:
    """Each source address has its own ports."""
    inside, pod = w.netns(), w.pod()
    w.sh(*inside, "sysctl", "-qw", "net.ipv4.ip_local_port_range=20000 20399")
    pod.run(
        "resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))\ns = socket.create_server(('127.0.0.1', 80), backlog=2000)\nk = []\n"
        "for host in (2, 3, 4):\n for _ in range(180):\n  c = socket.socket()\n  c.setsockopt(socket.IPPROTO_IP, 24, 1)\n  c.bind((f'127.0.0.{host}', 0))\n  c.connect(('127.0.0.1', 80))\n  k += [c, s.accept()[0]]",
        *inside,
    )  # fmt: skip
    yield {}


def clock_step(w: World) -> Life:
    """A step as an NTP client makes it at its start, and back."""

    def step(seconds: int) -> None:
        time.clock_settime(time.CLOCK_REALTIME, time.clock_gettime(time.CLOCK_REALTIME) + seconds)

    step(20)
    w.stack.callback(step, -20)
    yield {}


def huge_pages(w: World) -> Life:
    """A program that asks for huge pages, in observe mode: they come and go."""
    (THP / "enabled").write_text("madvise")
    w.pod().run(
        "def use():\n while True:\n  m = mmap.mmap(-1, 64 << 20)\n  m.madvise(14)\n  for i in range(0, 64 << 20, 4096): m[i] = 1\n  time.sleep(2)\n  m.close()\n  time.sleep(2)\nthreading.Thread(target=use, daemon=True).start()"
    )
    yield {}


def musl(w: World) -> Life:
    """A resolver that asks two servers at once. One never answers, and nobody waits for it."""
    w.lab.server("10.54.0.121")
    w.lab.server("10.54.0.122")
    one, _ = faultlab.client(w)

    def ask(stop: threading.Event) -> None:
        for i in range(20):
            number = one.send("10.54.0.121", f"ok-{i}.example.test")
            one.send("10.54.0.122", f"drop-{i}.example.test", number=number)
            with contextlib.suppress(OSError):
                one.receive()
            stop.wait(0.02)

    w.thread(ask)
    yield {}


def search_domains(w: World) -> Life:
    """Names of a search list do not exist, until the last one."""
    w.lab.server("10.54.0.123")
    one, _ = faultlab.client(w)

    def ask(stop: threading.Event) -> None:
        for name in ("nx.shop.svc.cluster.local", "nx.svc.cluster.local", "nx.cluster.local", "ok.example.test"):
            with contextlib.suppress(OSError):
                one.ask("10.54.0.123", name)
        stop.wait(0.05)

    w.thread(ask)
    yield {}


def late_answers(w: World) -> Life:
    w.lab.server("10.54.0.124")
    one, _ = faultlab.client(w)
    faultlab.rate(w, one, "10.54.0.124", 20, "late-700.example.test")
    yield {}


def below_the_budget(w: World) -> Life:
    """Steadily at 60 percent of a server's budget."""
    w.lab.server("10.54.0.107")
    one, _ = faultlab.client(w)
    faultlab.rate(w, one, "10.54.0.107", 240)
    yield {}


def queued_layers(w: World) -> Life:
    """Layers that wait for their turn have no byte yet."""
    import criwire
    from imagelab import Image

    registry = w.lab.registry()
    registry.push("team/app", Image(6, 3 << 20))
    proxy = w.lab.proxy(registry, 300 * 1024)
    w.lab.start("containerd")
    thread = threading.Thread(target=criwire.pull, args=(w.lab.containerd_socket, f"{proxy.name}/team/app:latest"), daemon=True)
    thread.start()
    yield {}
    proxy.rate = 0
    thread.join(30)


def restarted_runtime(w: World) -> Life:
    daemon = w.lab.containerd()
    w.lab.with_systemd("containerd.service")
    time.sleep(2)
    daemon.restart()
    yield {}


def rows(node: str) -> list[Row]:
    def row(name: str, inject: Any, config: str = node, **more: Any) -> Row:
        return Row(f"life/{name}", inject, (), config=config, **more)

    quiet = {"place": "lab", "config": faultlab.runtime(faultlab.KEEP), "alone": True}
    dns = {"place": "dns", "config": faultlab.DNS}
    return [
        row("ssh-logins", ssh_logins),
        row("one-task", one_task),
        row("few-tasks", few_tasks),
        row("small-backlogs", small_backlogs),
        row("lowered-limits", lowered_limits),
        row("package-upgrade", upgrade),
        row("short-namespaces", short_namespaces),
        row("short-cgroups", short_cgroups),
        row("log-rotation", log_rotation),
        row("backup", backup),
        row("page-cache", page_cache),
        row("pods-come-and-go", pods_come_and_go),
        row("restarting-unit", restarting_unit),
        row("three-quarters", three_quarters),
        row("tracked-connections", tracked_connections),
        row("time-wait", time_wait),
        row("many-sources", many_sources),
        row("clock-step", clock_step),
        row("huge-pages", huge_pages, "mode: observe\ndns: {mode: off}\n", lasts=40),
        row("dns-musl", musl, **dns),
        row("dns-search-domains", search_domains, **dns),
        row("dns-late-answers", late_answers, **dns),
        row("dns-below-budget", below_the_budget, **dns),
        row("queued-layers", queued_layers, lasts=20, **quiet),
        row("restarted-runtime", restarted_runtime, lasts=12, **quiet),
    ]
