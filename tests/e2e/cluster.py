# SPDX-License-Identifier: Apache-2.0
"""A real Kubernetes cluster of one node on this machine: etcd, kube-apiserver, controller-manager, scheduler, containerd, kubelet.

The node is a mount namespace with private directories for the files of kubelet and containerd. Network, processes and
/proc/sys are the machine's. The network namespace of a pod has one link without a peer outside.
"""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from conftest import end, spawn, until
from imagelab import Built, docker_save

PORT = 16443
API = f"https://127.0.0.1:{PORT}"
CGROUP = "headroom-e2e"
USERS = {  # token = name
    "admin": "system:masters",
    "system:kube-controller-manager": "",
    "system:kube-scheduler": "",
    "system:node:node1": "system:nodes",
}
# The kubelet checks these sysctls at its start, and would change them on the machine. It sees files with the values that it wants.
SYSCTLS = {
    "vm/overcommit_memory": 1, "vm/panic_on_oom": 0, "kernel/panic": 10, "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1000000, "kernel/keys/root_maxbytes": 25000000,
}  # fmt: skip
# Private directories of the node. The agent edits the configuration in /etc/containerd.
PRIVATE = ("/var/lib/kubelet", "/var/lib/cni", "/var/log", "/run/containerd", "/run/netns", "/etc/containerd")
TOOLS = "localhost/busybox:1"  # also the sandbox image

CONTAINERD = {  # major version -> configuration
    "1": """
version = 2
root = "{0}/root"
state = "{0}/state"
disabled_plugins = ["io.containerd.internal.v1.opt"]
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{1}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{0}/cni"
    conf_dir = "{0}/cni"
""",
    "2": """
version = 3
root = "{0}/root"
state = "{0}/state"
imports = ["/etc/containerd/conf.d/*.toml"]
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.nri.v1.nri"]
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{1}"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{0}/cni"]
    conf_dir = "{0}/cni"
""",
}
KUBELET = """
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 127.0.0.1
healthzPort: 0
authentication: {{anonymous: {{enabled: true}}, webhook: {{enabled: false}}}}
authorization: {{mode: AlwaysAllow}}
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: cgroupfs
cgroupRoot: /{1}
enforceNodeAllocatable: [pods]
failCgroupV1: false
failSwapOn: false
makeIPTablesUtilChains: false
volumePluginDir: {0}/volumes
imageGCHighThresholdPercent: 100
evictionHard: {{memory.available: 100Mi, nodefs.available: "1%", imagefs.available: "1%"}}
evictionPressureTransitionPeriod: 1s
syncFrequency: 5s
"""
CNI = """#!/bin/sh
if [ "$CNI_COMMAND" = ADD ] && [ "${0##*/}" = loopback ]; then
	echo '{"cniVersion": "0.3.1"}'
elif [ "$CNI_COMMAND" = ADD ]; then
	nsenter --net="$CNI_NETNS" sh -ec 'ip link add eth0 type veth peer name eth1
		ip address add 10.244.0.1/16 dev eth0; ip link set eth0 up; ip link set eth1 up; ip link set lo up'
	echo '{"cniVersion": "0.4.0", "ips": [{"version": "4", "address": "10.244.0.1/16"}]}'
fi
"""


def write_image(path: Path, name: str, ballast: int = 0) -> None:
    """A docker archive with a busybox that sleeps, and ballast random bytes. Compressed if the path ends with .gz."""
    files = {"bin/busybox": Path("/bin/busybox").read_bytes(), "ballast": os.urandom(ballast)}
    image = Built(name, files=files, command=["/bin/busybox", "sleep", "infinity"], layers=0)
    docker_save(path, [image], "gzip" if path.suffix == ".gz" else "")


class Cluster:
    def __init__(self, directory: Path, programs: Path, containerd: Path, images: list[Path]) -> None:
        self.directory, self.programs, self.containerd, self.images = directory, programs, containerd, images
        version = subprocess.run([containerd / "containerd", "--version"], capture_output=True, text=True, check=True).stdout
        self.generation = version.split()[2][0]  # "2" of 2.4.2
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.made: list[Path] = []  # directories of the machine that stop() removes
        self.audit = directory / "audit.log"
        for name in ("pki", "log", "node/cni", "node/etc-containerd", "node/sysctl"):
            (directory / name).mkdir(parents=True)

    # -- processes

    def spawn(self, name: str, *command: str, node: bool = False) -> None:
        inside = self.inside() if node else []
        self.processes[name] = spawn([*inside, *command], self.directory / f"log/{name}", start_new_session=True)

    def end(self, name: str, how: int = signal.SIGTERM) -> None:
        if process := self.processes.pop(name, None):
            process.send_signal(how)
            end(process, 20)

    def inside(self) -> list[str]:
        """Begins a command in the node's mount namespace."""
        return ["nsenter", "--mount", "--uts", "--target", str(self.processes["node"].pid)]

    def ctr(self, *args: str, **more: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.inside(), str(self.containerd / "ctr"), "--namespace", "k8s.io", *args], text=True, capture_output=True, **more
        )

    def containerd_dump(self) -> str:
        """The configuration that containerd would start with now."""
        command = [*self.inside(), str(self.containerd / "containerd"), "config", "dump"]
        return subprocess.run(command, text=True, capture_output=True, check=True).stdout

    def helm(self, *args: str, check: bool = True) -> str:
        return self.kubectl(*args, check=check, program="helm")

    def kubectl(self, *args: str, check: bool = True, stdin: str | None = None, program: str = "kubectl") -> str:
        answer = subprocess.run(
            [str(self.programs / program), *args],
            input=stdin,
            stdin=None if stdin else subprocess.DEVNULL,
            text=True,
            capture_output=True,
            env={**os.environ, "KUBECONFIG": str(self.directory / "admin.kubeconfig"), "HOME": str(self.directory)},
        )
        if check and answer.returncode != 0:
            raise RuntimeError(f"{program} {' '.join(args)}: {answer.stdout}{answer.stderr}")
        return answer.stdout + answer.stderr

    # -- the control plane

    def kubeconfig(self, user: str) -> str:
        path = self.directory / f"{user.split(':')[-1]}.kubeconfig"
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "x",
            "clusters": [{"name": "c", "cluster": {"server": API, "certificate-authority": f"{self.directory}/pki/apiserver.crt"}}],
            "users": [{"name": "u", "user": {"token": user}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        }))  # fmt: skip
        return str(path)

    def start_control_plane(self) -> None:
        d = self.directory
        (d / "tokens.csv").write_text("".join(f'{u},{u},{u},"{g}"\n' for u, g in USERS.items()))
        (d / "audit.yaml").write_text("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n")
        subprocess.run(["openssl", "genrsa", "-out", str(d / "pki/sa.key"), "2048"], check=True, capture_output=True)
        self.spawn(
            "etcd", str(self.programs / "etcd"), "--data-dir", str(d / "etcd"), "--unsafe-no-fsync",
            "--listen-client-urls=http://127.0.0.1:12379", "--advertise-client-urls=http://127.0.0.1:12379",
            "--listen-peer-urls=http://127.0.0.1:12380",
        )  # fmt: skip
        (d / "hosts").write_text(Path("/etc/hosts").read_text() + "127.0.0.1 node1\n")  # for kubectl exec
        self.spawn(
            "kube-apiserver", "unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', str(d / "hosts"),
            str(self.programs / "kube-apiserver"), "--etcd-servers=http://127.0.0.1:12379", "--bind-address=127.0.0.1",
            f"--secure-port={PORT}", f"--cert-dir={d}/pki", f"--token-auth-file={d}/tokens.csv",
            "--authorization-mode=Node,RBAC", "--service-cluster-ip-range=10.96.0.0/16",
            "--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={d}/pki/sa.key",
            f"--service-account-signing-key-file={d}/pki/sa.key", "--allow-privileged=true",
            "--endpoint-reconciler-type=none", "--kubelet-preferred-address-types=Hostname",
            f"--audit-policy-file={d}/audit.yaml", f"--audit-log-path={self.audit}",
        )  # fmt: skip
        self.kubeconfig("admin")
        until(lambda: "ok" == self.kubectl("get", "--raw", "/readyz", check=False), "the API server is ready")
        self.spawn(
            "kube-controller-manager", str(self.programs / "kube-controller-manager"), "--leader-elect=false",
            f"--kubeconfig={self.kubeconfig('system:kube-controller-manager')}", "--use-service-account-credentials", "--bind-address=127.0.0.1",
            f"--service-account-private-key-file={d}/pki/sa.key", f"--root-ca-file={d}/pki/apiserver.crt",
        )  # fmt: skip
        self.spawn(
            "kube-scheduler", str(self.programs / "kube-scheduler"), "--leader-elect=false",
            f"--kubeconfig={self.kubeconfig('system:kube-scheduler')}", "--bind-address=127.0.0.1",
        )  # fmt: skip

    # -- the node

    def make_directory(self, path: Path) -> None:
        if not path.exists():
            path.mkdir(parents=True)
            self.made.append(path)

    def make_cgroups(self) -> None:
        """The kubelet gets a cgroup root of its own, because it kills unknown pods below its root."""
        top = Path("/sys/fs/cgroup")
        for tree in [top] if (top / "cgroup.controllers").exists() else sorted(top.iterdir()):
            if not tree.is_dir():
                continue
            self.make_directory(tree / CGROUP)
            if (tree / "cpuset.cpus").exists() and not (tree / "cgroup.controllers").exists():
                for name in ("cpuset.cpus", "cpuset.mems"):  # cgroup v1 does not inherit them
                    (tree / CGROUP / name).write_text((tree / name).read_text())

    def make_node(self) -> None:
        """The mount namespace. It ends with its only process."""
        node = self.directory / "node"
        script = ["mount --make-rshared /", "hostname node1"]
        for path in PRIVATE:
            self.make_directory(Path(path))
            own = node / path.strip("/").replace("/", "-")
            own.mkdir(exist_ok=True)
            script.append(f"mount --bind {own} {path}")
        for name, value in SYSCTLS.items():
            (node / "sysctl" / name.replace("/", ".")).write_text(f"{value}\n")
        self.spawn("node", "unshare", "--mount", "--uts", "--propagation=private", "sleep", "infinity")
        until(lambda: os.readlink(f"/proc/{self.processes['node'].pid}/ns/mnt") != os.readlink("/proc/self/ns/mnt"), "a namespace")
        subprocess.run([*self.inside(), "sh", "-ec", "\n".join(script)], check=True)

    def start_node(self) -> None:
        node = self.directory / "node"
        self.make_cgroups()
        self.make_node()
        (node / "etc-containerd/config.toml").write_text(CONTAINERD[self.generation].format(node, TOOLS))
        (node / "cni/10-nowhere.conflist").write_text(
            '{"cniVersion": "0.4.0", "name": "pods", "plugins": [{"type": "nowhere"}]}'
        )
        for name in ("loopback", "nowhere"):
            (node / "cni" / name).write_text(CNI)
            (node / "cni" / name).chmod(0o755)
        (node / "kubelet.yaml").write_text(KUBELET.format(node, CGROUP))
        (node / "kubelet.conf.d").mkdir()
        self.start_containerd()
        write_image(self.directory / "tools.tar", TOOLS)
        for image in (self.directory / "tools.tar", *self.images):
            self.ctr("images", "import", str(image), check=True)
        self.start_kubelet()

    def start_containerd(self) -> None:
        path = f"PATH={self.containerd}:{os.environ['PATH']}"  # containerd looks for its shim there
        self.spawn("containerd", "env", path, str(self.containerd / "containerd"), node=True)
        until(lambda: self.ctr("version").returncode == 0, "containerd answers")

    def start_kubelet(self) -> None:
        """Also again, after a change of its files."""
        node = self.directory / "node"
        self.end("kubelet")
        for name in SYSCTLS:
            subprocess.run([*self.inside(), "mount", "--bind", str(node / "sysctl" / name.replace("/", ".")), f"/proc/sys/{name}"], check=True)
        ready = ("get", "node", "node1", '--output=jsonpath={range .status.conditions[?(@.type=="Ready")]}{.status} {.lastHeartbeatTime}{end}')
        before = self.kubectl(*ready, check=False).partition(" ")[2]
        # The kubelet refuses a loopback address as the node's address.
        route = subprocess.run(["ip", "-4", "-oneline", "route", "get", "192.0.2.254"], capture_output=True, text=True).stdout
        address = route.split(" src ")[1].split()[0]
        self.spawn(
            "kubelet", str(self.programs / "kubelet"), f"--config={node}/kubelet.yaml", f"--config-dir={node}/kubelet.conf.d",
            "--hostname-override=node1", f"--kubeconfig={self.kubeconfig('system:node:node1')}", f"--node-ip={address}", f"--cert-dir={node}/pki", node=True,
        )  # fmt: skip
        until(lambda: "node1" in self.kubectl("get", "nodes", "--output=name", check=False), "the node registers", timeout=60)

        def heartbeat() -> bool:
            """Of this kubelet: Ready comes after the check of sysctls. The node stays Ready for a while without a kubelet."""
            status, _, at = self.kubectl(*ready).partition(" ")
            return status == "True" and at != before

        until(heartbeat, "the kubelet is ready", timeout=120)
        # The kubelet has checked its sysctls. The agent needs the real ones.
        for name in SYSCTLS:
            subprocess.run([*self.inside(), "umount", f"/proc/sys/{name}"], check=True)

    def start(self) -> None:
        self.start_control_plane()
        self.start_node()
        until(lambda: "default" in self.kubectl("get", "serviceaccount", check=False), "a service account")

    def end_programs(self) -> None:
        """Ends the kubelet, all containers and containerd, as a reboot of the node does."""
        self.end("kubelet")
        if "containerd" in self.processes:
            for task in self.ctr("tasks", "ls", "--quiet").stdout.split():
                self.ctr("tasks", "rm", "--force", task)
        self.end("containerd")
        # Shims outlive their containerd. They run in the node's mount namespace.
        if "node" in self.processes:
            own = os.readlink(f"/proc/{self.processes['node'].pid}/ns/mnt")
            for process in Path("/proc").glob("[0-9]*"):
                try:
                    if os.readlink(process / "ns/mnt") == own and int(process.name) != self.processes["node"].pid:
                        os.kill(int(process.name), signal.SIGKILL)
                except OSError:
                    pass

    def stop(self) -> None:
        self.end_programs()
        for name in ("node", "kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd"):
            self.end(name, signal.SIGKILL)
        time.sleep(0.5)
        for path in reversed(self.made):
            for below in sorted((p for p in path.rglob("*") if p.is_dir()), reverse=True) + [path]:
                try:
                    below.rmdir()
                except OSError:
                    pass

    def logs(self) -> str:
        """The end of each program's log, for a failure."""
        return "\n".join(f"== {p.name}\n{p.read_text(errors='replace')[-1500:]}" for p in (self.directory / "log").iterdir())
