/* SPDX-License-Identifier: Apache-2.0 */
#include "config/config.h"

const struct profile profile_table[] = {
	{"kubernetes-node", "A node that runs pods. Many containers share the limits that the "
			    "kernel counts per user, so those of inotify, keys, process ids and "
			    "memory maps are raised."},
	{"etcd", "A node for etcd: only the accept queue is raised. etcd's documentation "
		 "recommends fast disks and suitable time-outs instead of sysctls. "
		 "storage.bound_writeback: true bounds what others may write at once."},
	{"lxd-host",
		"A host of LXD or Incus containers: the values of LXD's page on production setups. "
		"kernel.dmesg_restrict is among them: reading the kernel log then takes privileges."},
	{"microvm-host",
		"A host of microVMs or virtual machines: huge pages for memory that asks for them "
		"with madvise, such as guest memory, and threads for many guests."},
	{"minimal",
		"No sysctl: only neighbour tables and transparent huge pages, according to their "
		"own options."},
	{0},
};

const char *const profile_choices[] = {
	"kubernetes-node", "etcd", "lxd-host", "microvm-host", "minimal", NULL};

#define LXD_PAGE                                        \
	"LXD, Server settings for a production setup, " \
	"https://documentation.ubuntu.com/lxd/latest/reference/server_settings/: "

#define KUBELET_SYSCTL                                                                       \
	"Kubernetes, k8s.io/component-helpers/node/util/sysctl: the value that the kubelet " \
	"itself "

const struct profile_row profile_rows[] = {
	{"kubernetes-node", "sysctl.fs.inotify.max_user_instances", "8192",
		"Amazon's EKS node image (amazon-eks-ami pull request 614) and Zalando's "
		"(kubernetes-on-aws 6630) ship this value. The kernel's default is 128 for each "
		"user, and all containers that run as root count as one user; with cgroup v2 "
		"containerd takes some for each container."},
	{"kubernetes-node", "sysctl.fs.inotify.max_user_watches", "524288",
		"Amazon's EKS node image ships this value (amazon-eks-ami pull request 589), and "
		"kind's Known Issues ask for it. Before Linux 5.11 the default is 8192 for each "
		"user; a watch costs about 1 kB of memory, only when it is used."},
	{"kubernetes-node", "sysctl.vm.max_map_count", "262144",
		"Elasticsearch's bootstrap checks refuse to start below this value, and a pod "
		"cannot set it. The kernel's default is 65530 (DEFAULT_MAX_MAP_COUNT in "
		"include/linux/mm.h)."},
	{"kubernetes-node", "sysctl.kernel.keys.root_maxkeys", "1000000",
		KUBELET_SYSCTL "wants, because each container of root gets a session keyring. The "
			       "kubelet checks it, or sets it with protectKernelDefaults off."},
	{"kubernetes-node", "sysctl.kernel.keys.root_maxbytes", "25000000",
		KUBELET_SYSCTL "wants: 25 bytes for each of kernel.keys.root_maxkeys."},
	{"kubernetes-node", "sysctl.kernel.keys.maxkeys", "2000",
		LXD_PAGE
		"a container takes one key, its session keyring. Where its root is another user on "
		"the host, as with user namespaces and rootless runtimes, that key counts for that "
		"user, who has 200 by default (security/keys/key.c)."},
	{"kubernetes-node", "sysctl.kernel.keys.maxbytes", "2000000",
		LXD_PAGE "goes with kernel.keys.maxkeys; the default is 20000 bytes."},
	{"kubernetes-node", "sysctl.kernel.pid_max", "4194304",
		"systemd's sysctl.d/50-pid-max.conf and Amazon's EKS node image set this value, "
		"the largest of a 64-bit kernel (PID_MAX_LIMIT in include/linux/threads.h). The "
		"default is 32768 on small machines, and every thread of every pod takes one."},
	{"kubernetes-node", "sysctl.net.core.somaxconn", "4096",
		"The kernel's own default since 5.4 (commit 19f92a030ca6, net: increase SOMAXCONN "
		"to 4096): restores it where a distribution's file still says 128. New network "
		"namespaces begin with the kernel's default, so it serves host-network pods."},

	{"etcd", "sysctl.net.core.somaxconn", "4096",
		"The kernel's own default since 5.4 (commit 19f92a030ca6): restores it where an "
		"older file still says 128, a queue that many clients fill when they reconnect at "
		"once. etcd's own pages on tuning and hardware "
		"(https://etcd.io/docs/latest/tuning/, "
		"https://etcd.io/docs/latest/op-guide/hardware/) name no sysctl."},

	{"lxd-host", "sysctl.fs.aio-max-nr", "524288",
		LXD_PAGE "asynchronous I/O operations of all instances together, default 65536."},
	{"lxd-host", "sysctl.fs.inotify.max_queued_events", "1048576",
		LXD_PAGE "events queued for one inotify instance, default 16384."},
	{"lxd-host", "sysctl.fs.inotify.max_user_instances", "1048576",
		LXD_PAGE "inotify instances of one user, default 128."},
	{"lxd-host", "sysctl.fs.inotify.max_user_watches", "1048576",
		LXD_PAGE "watches of one user, default 8192 before Linux 5.11."},
	{"lxd-host", "sysctl.kernel.dmesg_restrict", "1",
		LXD_PAGE
		"keeps containers from reading the host's kernel log, and the host's users without "
		"CAP_SYSLOG too; default 0."},
	{"lxd-host", "sysctl.kernel.keys.maxbytes", "2000000",
		LXD_PAGE "bytes of keys of a user other than root, default 20000."},
	{"lxd-host", "sysctl.kernel.keys.maxkeys", "2000",
		LXD_PAGE
		"keys of a user other than root, default 200; should be above the number of "
		"instances."},
	{"lxd-host", "sysctl.net.core.bpf_jit_limit", "1000000000",
		LXD_PAGE
		"bytes of translated BPF programs; on kernels before 5.15 the default can limit "
		"the number of instances."},
	{"lxd-host", "neighbor.ipv4.gc_thresh3", "100000",
		LXD_PAGE "documents 8192; headroom's larger default is kept."},
	{"lxd-host", "neighbor.ipv6.gc_thresh3", "100000",
		LXD_PAGE "documents 8192; headroom's larger default is kept."},
	{"lxd-host", "sysctl.vm.max_map_count", "262144",
		LXD_PAGE "memory maps of one process, default 65530."},
	{"microvm-host", "thp.enabled", "madvise",
		"QEMU (qemu_madvise() in softmmu/physmem.c) and Firecracker with enable_thp (pull "
		"request 5495) ask for huge pages of guest memory with MADV_HUGEPAGE. Without them "
		"a random read took 865 ns instead of 329 ns in a test."},
	{"microvm-host", "thp.shmem", "advise",
		"The same for guests whose memory is a memfd, as with vhost-user and virtiofs."},
	{"microvm-host", "sysctl.kernel.pid_max", "4194304",
		"systemd's sysctl.d/50-pid-max.conf sets this value. Each guest takes a thread for "
		"each of its CPUs and devices; the default is 32768 on small machines."},
	{0},
};

const struct profile_sysctl profile_sysctls[] = {
	{"fs.aio-max-nr",
		"How many requests of asynchronous I/O (io_setup) all processes may have."},
	{"fs.inotify.max_queued_events", "How many events one inotify instance queues."},
	{"fs.inotify.max_user_instances",
		"How many inotify instances the processes of one user may have: the limit "
		"inotify/instances."},
	{"fs.inotify.max_user_watches",
		"How many files and directories the processes of one user may watch with inotify: the "
		"limit inotify/watches."},
	{"kernel.dmesg_restrict",
		"Whether reading the kernel log takes the capability CAP_SYSLOG."},
	{"kernel.keys.maxbytes", "How many bytes the keys of a user other than root may have."},
	{"kernel.keys.maxkeys", "How many keys a user other than root may have: the limit keys."},
	{"kernel.keys.root_maxbytes", "How many bytes the keys of root may have."},
	{"kernel.keys.root_maxkeys", "How many keys root may have: the limit keys."},
	{"kernel.pid_max", "How many threads the node may have: the limit pids."},
	{"net.core.bpf_jit_limit", "How many bytes of translated BPF programs the kernel keeps."},
	{"net.core.somaxconn",
		"How many connections a listening socket queues until the program accepts them: the "
		"limit listen."},
	{"vm.max_map_count", "How many memory maps one process may have: the limit maps/process."},
	{0},
};
