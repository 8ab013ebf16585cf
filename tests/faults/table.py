# SPDX-License-Identifier: Apache-2.0
"""The faults, one row each, and ordinary life, which must raise nothing. Row and Expect are explained in harness.py."""

import faultlab as lab
import inject
import life
from harness import Expect, Row

# Enforces, because cures differ in observe mode, and changes no value of this machine.
NODE = "profile: minimal\nneighbor: {mode: observe}\nthp: {mode: off}\ndns: {mode: off}\nkubelet: {mode: off}\n"
OBSERVE = "mode: observe\ndns: {mode: off}\nthp: {mode: off}\n"


def fault(id: str, what, *expects: Expect, args: tuple = (), config: str = NODE, **more) -> Row:
    return Row(id, lambda w: what(w, *args), expects, config=config, **more)


def e(slug: str, kind: str, name: str = "", who: str = "{who}", **more) -> Expect:
    return Expect(slug, kind, name, who, **more)


INOTIFY = ("fs.inotify.max_user_instances",)

LIMITS = [
    fault("inotify/one-pod", inject.inotify, e("inotify/instances", "uid", "{uid}", keep=r"raise: \[[^]]*inotify"), args=(64301,)),
    fault("inotify/two-pods-of-a-user", inject.inotify, e("inotify/instances", "uid", "{uid}"), args=(64302, (90, 0))),
    fault("inotify/first-of-three", inject.inotify, e("inotify/instances", "uid", "{uid}"), args=(64303, (15, 70, 0), 110)),
    fault("inotify/beside-another-user", inject.inotify_beside_another_user, e("inotify/instances", "uid", "{uid}"), args=(64304,)),
    fault("inotify/unit", inject.inotify, e("inotify/instances", "uid", "{uid}"), args=(64306, (0,), 300, "units")),
    fault("inotify/watches", inject.watches, e("inotify/watches", "uid", "{uid}", keep=r"raise: \[[^]]*inotify"), args=(64307,)),
    fault("inotify/watches-more", inject.watches, e("inotify/watches", "uid", "{uid}"), args=(64308, 5000)),
    fault("inotify/observe", inject.inotify, e("inotify/instances", "uid", "{uid}", keep="mode: enforce"), args=(64309,), config=OBSERVE),
    fault("files/pod", inject.files, e("files/process", "process", "{comm}"), args=(5000, 1000)),
    fault("files/near", inject.files, e("files/process", "process", "{comm}", severity="warning"), args=(930, 1024)),
    fault("files/unit", inject.files, e("files/process", "process", "{comm}"), args=(5000, 1500, "unit")),
    fault("files/lxd", inject.files, e("files/process", "process", "{comm}"), args=(5000, 2048, "lxd")),
    fault("files/workers", inject.files_of_workers, e("files/process", "process", "{comm}"), args=(5, 480)),
    fault("files/then-killed", inject.files_then_killed, e("files/process", "process", now="none"), stays_cured=False),
    fault("maps/pod", inject.maps, e("maps/process", "process", "{comm}", keep=r"raise: \[[^]]*maps"), uses=("pids",)),
    fault("keys/number", inject.keys, e("keys", "uid", "{uid}", who="uid {uid}|{who}", keep=r"raise: \[[^]]*keys"), args=(64321,)),
    fault("keys/bytes", inject.keys, e("keys/bytes", "uid", "{uid}", who="uid {uid}|{who}", keep="keys"), args=(64322, 6000), also="keys"),
    fault("pids/pod", inject.pids_of_pod, e("pids/cgroup", "cgroup", "{path}")),
    fault("pids/unit", inject.pids_of_pod, e("pids/cgroup", "cgroup", "{path}", now="run"), args=(90, "unit")),
    fault("pids/lxd", inject.pids_of_pod, e("pids/cgroup", "cgroup", "{path}"), args=(200, "lxd")),
    fault("pids/rootless", inject.pids_of_rootless, e("pids/cgroup", "cgroup", "{path}")),
    fault("pids/kubepods", inject.pids_of_kubepods, e("pids(/cgroup)?", "cgroup", "kubepods"), uses=("pids/cgroup", "pids"), also="pids(/cgroup)?"),
    fault("pids/pid-max", inject.threads, e("pids", "node", keep="pid_max|raise"), args=("kernel.pid_max",), uses=("pids/cgroup", "pids")),
    fault("pids/threads-max", inject.threads, e("pids", "node", keep="threads-max"), args=("kernel.threads-max",), uses=("pids/cgroup", "pids")),
    # The others open thousands of files.
    fault(
        "file-handles", inject.file_handles, e("file-handles", "node", keep="file-max"),
        uses=("file-handles", "files/process", "inotify/instances", "listen", "ports", "tcp-memory", "udp-memory"),
    ),
    fault("mounts", inject.mounts, e("mounts", "mntns|process", keep="mount-max")),
    fault("ptys", inject.ptys, e("ptys", "node", keep="pty.max")),
    fault("aio", inject.aio, e("aio", "node", keep="aio-max-nr")),
    fault("listen/somaxconn", inject.listener, e("listen", "socket", "port {port}"), args=(128, 128, 5, "unit")),
    fault("listen/own-backlog", inject.listener, e("listen", "socket", "port {port}", now="none"), args=(40, 4096), stays_cured=False),
    fault("listen/wide", inject.listener, e("listen", "socket", "port {port}"), args=(5000, 300, 40, "unit")),
    fault("ports/pod", inject.ports, e("ports", "netns", "127.0.0.1")),
    fault("ports/wide", inject.ports, e("ports", "netns", "127.0.0.1"), args=(3000,)),
    fault(
        "conntrack/namespace", inject.tracked, e("conntrack/namespace", "netns", keep=r"raise: \[[^]]*conntrack|nf_conntrack_max"),
        args=(3000, ((0x0A010203, 130),), True), uses=("conntrack",),
    ),
    fault("conntrack/namespace-near", inject.tracked, e("conntrack/namespace", "netns"), args=(4000, ((0x0A010203, 60), (0x0A010204, 34)), True), uses=("conntrack",)),
    fault(
        "conntrack/near", inject.tracked_here, e("conntrack", "netns", who="{address}", severity="warning"),
        args=(5000, ((0x0A010209, 20), (0x0A010207, 70))), place="netns", also="conntrack/namespace",
    ),
    fault(
        "conntrack/sources", inject.tracked_here, e("conntrack", "netns", who="{address}", keep="conntrack"),
        args=(3000, ((0x0A010204, 70), (0x0A010203, 50))), place="netns", also="conntrack/namespace",
    ),
    fault("conntrack/races", inject.insert_failed, e("conntrack/races", "netns|node", who="unknown", now="none"), place="netns", within=45, stays_cured=False),
    fault("bridge-ports", inject.bridge, e("bridge-ports", "device", "br7", who="", now="none"), place="netns", within=45, stays_cured=False),
    # Only cgroup2 counts a workload's socket memory.
    fault("tcp-memory", inject.socket_memory, e("tcp-memory", "node", who="?{who}", keep="tcp_mem"), args=("tcp",)),
    fault("udp-memory", inject.socket_memory, e("udp-memory", "node", who="?{who}", keep="udp_mem"), args=("udp",)),
    fault("softnet", inject.softnet, e("softnet", "node|device", who="", keep="netdev_max_backlog"), within=60),
    fault("neighbor/near-ipv4", inject.neighbors, e("neighbor/ipv4", "node|netns", keep="gc_thresh3"), args=(4, 1900, 2048), uses=("neighbor",)),
    fault("neighbor/near-ipv6", inject.neighbors, e("neighbor/ipv6", "node|netns", keep="gc_thresh3"), args=(6, 1400, 1536), uses=("neighbor",)),
    fault("neighbor/refused-ipv4", inject.neighbors, e("neighbor/ipv4", "node|netns", severity="critical"), args=(4, 1500, 1024), uses=("neighbor",)),
    fault(
        "three-at-once", lab.three_at_once, e("inotify/instances", "uid", "{uid}"), e("pids/cgroup", "cgroup", "{path}", who="{pod}"),
        e("files/process", "process", who="{unit}"), uses=("inotify/instances", "pids/cgroup", "files/process", "cpus"),
    ),
    fault("name-late/churn", lab.late_name, e("pids/cgroup", "cgroup", "{path}"), uses=("cpus", "pids/cgroup"), within=40),
    fault("name-late/systemd", lab.late_name, e("pids/cgroup", "cgroup", "{path}"), args=(True,), uses=("cpus", "pids/cgroup"), within=40),
]  # fmt: skip

ROWS = [*LIMITS, *lab.rows(fault, e, NODE), *life.rows(NODE)]
