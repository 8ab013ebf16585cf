/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/limits/limits.h"

#define C .severity = SEVERITY_CRITICAL
#define W .severity = SEVERITY_WARNING

#define READ(function, ...)                     \
	.reader = &(const struct limit_reader)  \
	{                                       \
		.read = (function), __VA_ARGS__ \
	}
#define SAMPLE(function, ...)                     \
	.reader = &(const struct limit_reader)    \
	{                                         \
		.sample = (function), __VA_ARGS__ \
	}

#define CENSUS(what, ...)                      \
	.reader = &(const struct limit_reader) \
	{                                      \
		.count = (what), __VA_ARGS__   \
	}
#define BPF_MAPS(what, ...)                      \
	.reader = &(const struct limit_reader)   \
	{                                        \
		.count_bpf = (what), __VA_ARGS__ \
	}
#define FILES(what, ...)                          \
	.reader = &(const struct limit_reader)    \
	{                                         \
		.count_file = (what), __VA_ARGS__ \
	}

/* Programs such as systemd make a smaller BPF map as large as its content. */
#define SMALLEST_MAP 64

#define MAPS_CURE                                                                                \
	"nothing on the node can resize a map: raise its maximum in the options of the program " \
	"that made it, such as bpf-map-dynamic-size-ratio or bpf-ct-global-tcp-max of Cilium, "  \
	"and restart that program"

/* Fewer packets within five minutes are ordinary. */
#define FEW_PACKETS 100

#define SYSCTL_INT_MAX INT32_MAX
#define PTYS_MAX       1048576 /* fs/devpts/inode.c, NR_UNIX98_PTY_MAX */

#define TCP_EXT(name) {"/proc/net/netstat", 0, "TcpExt:", name}

#define FILESYSTEM(name, role, what, path)                                                       \
	{"filesystem/" name "/bytes",                                                            \
		"Bytes of the file system of " what ", " path                                    \
		". Blocks that are reserved for root do not count. Shown if no row above is "    \
		"the same file system.",                                                         \
		.unit = "bytes", .def = "the file system's size", .source = "statvfs(3)", C,     \
		.breaks = "\"No space left on device\" (ENOSPC)",                                \
		.cure_help = "delete files or make it larger: du -xh --max-depth=2 " path        \
			     " | sort -h | tail",                                                \
		SAMPLE(limits_sample_filesystem, .filesystem = (role), .begins = 90,             \
			.has_instances = true, .nobody = true, .cure = limits_cure_filesystem)}, \
	{                                                                                        \
		"filesystem/" name "/inodes",                                                    \
			"Files of the file system of " what ", " path                            \
			". Shown if no row above is the same file system, and if it has a "      \
			"fixed number of inodes.",                                               \
			.unit = "inodes", .def = "set when the file system is made",             \
			.source = "statvfs(3)", C,                                               \
			.breaks = "\"No space left on device\" (ENOSPC) although df shows "      \
				  "free space",                                                  \
			.cure_help = "delete files: du -x --inodes --max-depth=2 " path          \
				     " | sort -n | tail",                                        \
			SAMPLE(limits_sample_filesystem, .filesystem = (role), .inodes = true,   \
				.begins = 90, .has_instances = true, .nobody = true,             \
				.cure = limits_cure_filesystem)                                  \
	}

#define ALLOWANCE(name, statistic, what)                                                     \
	{"nic/" name,                                                                        \
		"Packets that the cloud delayed or dropped because " what                    \
		" exceeded the allowance of the instance type: hits of all network "         \
		"interfaces with the driver ena. The driver shows no use and no "            \
		"maximum.",                                                                  \
		.unit = "packets", .def = "by instance type",                                \
		.source = "drivers/net/ethernet/amazon/ena/ena_ethtool.c, " statistic, W,    \
		.breaks = "packets are lost or late, without an error on the node",          \
		.cure_help = "a larger instance type; ethtool -S DEVICE | grep "             \
			     "allowance shows the counters",                                 \
		SAMPLE(limits_sample_allowance, .counter = (statistic), .counts_hits = true, \
			.hits_from = FEW_PACKETS, .has_instances = true, .nobody = true,     \
			.happens = "exceeded", .cure = limits_cure_hint)}

/* Numbers in JSON are exact up to here, and Helm writes larger ones in another form. */
#define LARGEST_IN_JSON (UINT64_C(1) << 53)

/*
 * A new limit needs only a row here. A node without its files does not have the limit. Critical
 * rows come first: a condition names the first of several.
 *
 * A finding needs refused requests or a maximum that matters. Each maximum matters unless the row's
 * comment has another rule.
 */
const struct limit_row limits_rows[] = {
	{"conntrack",
		"Connections that netfilter tracks in the network namespace of the agent. Every "
		"namespace has its own count, and one maximum serves all. At the maximum, packets "
		"of new connections are dropped. Hits are the columns drop and early_drop of "
		"/proc/net/stat/nf_conntrack.",
		.unit = "connections", .def = "by memory, 262144 at most",
		.option = "limits.raise: conntrack; sysctl, net.netfilter.nf_conntrack_max",
		.source = "net/netfilter/nf_conntrack_core.c, __nf_conntrack_alloc()", C,
		.breaks = "new connections time out: \"nf_conntrack: table full, dropping packet\" "
			  "in the kernel log",
		.cure_help = "sysctl -w net.netfilter.nf_conntrack_max=1048576",
		/* early_drop also counts connections that were removed below 95 %. */
		READ(limits_read_conntrack, .add_users = limits_conntrack_users,
			.counts_hits = true, .has_instances = true, .happens = "refused",
			.hits_above = 95, .cure = limits_cure_conntrack, .choice = "conntrack",
			.at_least = 262144)},
	{"pids",
		"Processes and threads of the node, against the least of kernel.pid_max, "
		"kernel.threads-max and the pids.max of kubepods: the one with the largest used "
		"share is shown. The kubelet's PIDPressure looks at kernel.pid_max alone.",
		.unit = "threads", .def = "pid_max 32768 on small machines, threads-max by memory",
		.option = "limits.raise: pids; sysctl, kernel.pid_max",
		.source = "kernel/pid.c, alloc_pid(); kernel/fork.c, copy_process()", C,
		.breaks = "\"fork: Resource temporarily unavailable\" (EAGAIN), \"pthread_create "
			  "failed\"",
		.cure_help = "sysctl -w kernel.pid_max=4194304, then headroom top pids",
		READ(limits_read_pids, .count = COUNT_THREADS, .has_instances = true,
			.cure = limits_cure_pids)},
	{"tcp-memory",
		"Pages that the buffers of all TCP sockets take, of all network namespaces. Above "
		"the maximum the kernel drops received data and delays sending. Hits are "
		"TCPMemoryPressures: how often the second number of tcp_mem was exceeded. "
		"Then the kernel saves memory, without a failure yet. They count in the namespace of "
		"the agent.",
		.unit = "pages", .def = "net.ipv4.tcp_mem, by memory",
		.option = "sysctl, net.ipv4.tcp_mem",
		.source = "net/ipv4/tcp.c, tcp_enter_memory_pressure()", C,
		.breaks = "connections stall; \"TCP: out of memory -- consider tuning tcp_mem\" in "
			  "the kernel log",
		.cure_help = "raise net.ipv4.tcp_mem, as long as a quarter of the memory is more; "
			     "else ss -tmn shows the sockets with full queues: restart their "
			     "program",
		READ(limits_read_socket_memory, .count_file = COUNT_FILE_TCP_PAGES,
			.counts_hits = true, .hits_near = true, .has_instances = true,
			.happens = "under pressure", .cure = limits_cure_socket_memory,
			.sysctl = "net.ipv4.tcp_mem")},
	{"udp-memory",
		"Pages that the buffers of all UDP sockets take, of all network namespaces. Above "
		"the maximum the kernel drops received packets. Hits are MemErrors in the "
		"namespace of the agent.",
		.unit = "pages", .def = "net.ipv4.udp_mem, by memory",
		.option = "sysctl, net.ipv4.udp_mem",
		.source = "net/ipv4/udp.c, udp_rmem_schedule()", W,
		.breaks = "DNS, QUIC and other UDP packets are lost, without an error",
		.cure_help = "raise net.ipv4.udp_mem, as long as a quarter of the memory is more; "
			     "else ss -umn shows the sockets with full queues: restart their "
			     "program",
		READ(limits_read_socket_memory, .quiet = true, .is_udp = true,
			.count_file = COUNT_FILE_UDP_PAGES, .counts_hits = true,
			.has_instances = true, .happens = "dropped",
			.cure = limits_cure_socket_memory, .sysctl = "net.ipv4.udp_mem")},
	{"file-handles",
		"Open files of all processes. At the limit, open, socket and accept fail with "
		"ENFILE for all users but root. Where systemd has raised the maximum to the "
		"largest possible number, the limit is not shown. Users are counted by their "
		"descriptors: several can share a file after a fork.",
		.unit = "files", .def = "by memory, about 10 % at 1 kB a file",
		.option = "sysctl, fs.file-max", .source = "fs/file_table.c, alloc_empty_file()", C,
		.breaks = "\"Too many open files in system\" (ENFILE); \"VFS: file-max limit N "
			  "reached\" in the kernel log",
		.cure_help = "raise fs.file-max; headroom top file-handles shows who has most",
		.used = {"/proc/sys/fs/file-nr", 1}, .max = {"/proc/sys/fs/file-nr", 3},
		CENSUS(COUNT_OPEN_FILES, .cure = limits_cure_sysctl, .sysctl = "fs.file-max",
			.at_most = LARGEST_IN_JSON)},
	{"mounts",
		"Mounts of the fullest mount namespace. A program that repeats a mount without "
		"unmounting it leaks them, and each copy of the namespace has them too.",
		.unit = "mounts", .def = "100000", .option = "sysctl, fs.mount-max",
		.source = "fs/namespace.c, COUNT_MOUNTS()", C,
		.breaks = "containers do not start: \"no space left on device\" (ENOSPC) from "
			  "mount, umount and unshare",
		.cure_help =
			"find the repeated path in /proc/PID/mountinfo, and restart what mounts it",
		.max = {"/proc/sys/fs/mount-max", 1},
		CENSUS(COUNT_MOUNTS, .has_instances = true, .cure = limits_cure_sysctl,
			.sysctl = "fs.mount-max", .at_least = 200000)},
	FILESYSTEM("root", LIMITS_ROOT, "the root directory", "/"),
	FILESYSTEM("images", LIMITS_IMAGES, "images and containers",
		"/var/lib/containerd, /var/lib/docker or /var/lib/containers"),
	FILESYSTEM("kubelet", LIMITS_KUBELET, "the kubelet", "/var/lib/kubelet"),
	FILESYSTEM("log", LIMITS_LOG, "logs", "/var/log"),
	FILESYSTEM("run", LIMITS_RUN, "sockets and state of runtimes", "/run"),
	FILESYSTEM(
		"storage", LIMITS_STORAGE, "etcd and the other storage.processes", "/var/lib/etcd"),
	{"etcd/db",
		"Bytes of the fullest database file of etcd, of the processes in "
		"storage.processes that sync a file named db, against their quota. etcd counts "
		"pages in use, which are up to 16 MiB less.",
		.unit = "bytes",
		.def = "2 GiB, or --quota-backend-bytes, also in k3s' etcd-arg and etcd's --config-file",
		.source = "etcd, server/storage/quota.go", C,
		.breaks = "etcd refuses all writes: \"etcdserver: mvcc: database space exceeded\"",
		.cure_help =
			"etcdctl compact REVISION, etcdctl defrag and etcdctl alarm disarm; or "
			"raise --quota-backend-bytes, to 8 GiB at most",
		SAMPLE(limits_sample_databases, .has_instances = true,
			.cure = limits_cure_database)},
	{"bpf/map",
		"Elements of the fullest BPF map that refuses new elements when it is full: hash "
		"tables and LPM tries of all programs. Maps of headroom, and maps with a maximum "
		"below 64, do not count. The agent counts once a minute. LimitPressure begins at "
		"80 % and is critical from 95 % on. The user is the memory cgroup that created the "
		"map, or its parent after its end. Before Linux 6.6, hash tables count only if "
		"they are pinned in a bpffs: eight of them a minute, large ones by a sample.",
		.unit = "elements", .def = "set by the program that makes the map",
		.source = "kernel/bpf/hashtab.c, alloc_htab_elem(); kernel/bpf/lpm_trie.c", C,
		.breaks = "the program cannot add elements (E2BIG, ENOSPC): a network plugin drops "
			  "new connections or services, although nf_conntrack has room",
		.cure_help = MAPS_CURE,
		BPF_MAPS(COUNT_BPF_MAPS, .has_instances = true, .begins_at = true, .critical = 95,
			.matters_from = SMALLEST_MAP, .cure = limits_cure_map)},
	{"pids/cgroup",
		"Processes and threads of the fullest cgroup with a pids.max: a pod "
		"(podPidsLimit), a container, a service (TasksMax). Hits are failed forks, added "
		"up over the cgroups that have processes.",
		.unit = "threads",
		.def = "by the kubelet's podPidsLimit and systemd's DefaultTasksMax",
		.source = "kernel/cgroup/pids.c, pids_can_fork()", W,
		.breaks = "\"fork: Resource temporarily unavailable\", \"can't start new thread\", "
			  "\"pthread_create failed (EAGAIN)\" in one workload",
		.cure_help = "restart the workload, or raise podPidsLimit or TasksMax",
		/* A service with TasksMax=1 is as wanted: below 32, only failed forks matter. */
		CENSUS(COUNT_PIDS, .counts_hits = true, .has_instances = true, .happens = "refused",
			.matters_from = 32, .cure = limits_cure_cgroup, .at_most = 4194304)},
	{"files/process", "Open files of the fullest process, against its RLIMIT_NOFILE.",
		.unit = "files", .def = "1024, or LimitNOFILE of the unit",
		.source = "fs/file.c, alloc_fd()", W,
		.breaks = "\"Too many open files\" (EMFILE) in one process",
		.cure_help =
			"prlimit --pid PID --nofile=1048576; LimitNOFILE= of its unit keeps it",
		/*
		 * Programs that shut themselves in, such as sshd before the login, lower their
		 * limit to less than 256 or to less than they have open. Many programs have a lot
		 * of files for a moment.
		 */
		CENSUS(COUNT_PROCESS_FILES, .has_instances = true, .matters_from = 256,
			.never_above = true, .twice = true, .cure = limits_cure_files,
			.at_least = 65536)},
	{"maps/process", "Memory maps of the fullest process.", .unit = "maps", .def = "65530",
		.option = "limits.raise: maps; sysctl, vm.max_map_count",
		.source = "mm/mmap.c, do_mmap()", W,
		.breaks = "\"Cannot allocate memory\" (ENOMEM) with free memory; Elasticsearch: "
			  "\"max virtual memory areas vm.max_map_count [65530] is too low\"",
		.cure_help = "sysctl -w vm.max_map_count=1048576",
		.max = {"/proc/sys/vm/max_map_count", 1},
		CENSUS(COUNT_MAPS, .has_instances = true, .twice = true, .cure = limits_cure_sysctl,
			.sysctl = "vm.max_map_count", .choice = "maps", .at_least = 1048576)},
	{"inotify/instances",
		"Inotify instances of the fullest user. All containers that run as root count for "
		"one user. Needs Linux 5.14.",
		.unit = "instances", .def = "128",
		.option = "limits.raise: inotify; sysctl, fs.inotify.max_user_instances",
		.source = "fs/notify/inotify/inotify_user.c, inotify_new_group()", W,
		.breaks = "\"Too many open files\" (EMFILE) from inotify_init: kubectl logs -f "
			  "ends, \"failed to create fsnotify watcher\"",
		.cure_help = "sysctl -w fs.inotify.max_user_instances=8192",
		.max = {"/proc/sys/fs/inotify/max_user_instances", 1},
		CENSUS(COUNT_INOTIFY_INSTANCES, .count_file = COUNT_FILE_INSTANCES,
			.has_instances = true, .cure = limits_cure_sysctl,
			.sysctl = "fs.inotify.max_user_instances", .choice = "inotify",
			.at_least = 8192)},
	{"inotify/watches",
		"Inotify watches of the fullest user. All containers that run as root count for "
		"one user. Needs Linux 5.14.",
		.unit = "watches", .def = "by memory, 8192 before Linux 5.11",
		.option = "limits.raise: inotify; sysctl, fs.inotify.max_user_watches",
		.source = "fs/notify/inotify/inotify_user.c, inotify_new_watch()", W,
		.breaks = "\"No space left on device\" (ENOSPC) from inotify_add_watch: tail -f, "
			  "kubelet and file watchers stop following files",
		.cure_help = "sysctl -w fs.inotify.max_user_watches=524288",
		.max = {"/proc/sys/fs/inotify/max_user_watches", 1},
		CENSUS(COUNT_INOTIFY_WATCHES, .count_file = COUNT_FILE_WATCHES,
			.has_instances = true, .cure = limits_cure_watches,
			.sysctl = "fs.inotify.max_user_watches", .choice = "inotify",
			.at_least = 524288)},
	{"listen",
		"Connections that wait for accept() of the fullest TCP listener, of all network "
		"namespaces. The kernel takes one more than the maximum. Read at intervals: a "
		"short burst leaves its hits, which are the connections that listeners refused.",
		.unit = "connections", .def = "the listener's backlog, net.core.somaxconn at most",
		.option = "limits.raise: somaxconn; sysctl, net.core.somaxconn",
		.source = "include/net/sock.h, sk_acceptq_is_full()", W,
		.breaks = "clients time out; \"connection refused\" with tcp_abort_on_overflow",
		.cure_help =
			"restart the process that does not accept; after a raise of somaxconn it "
			"must listen again",
		/*
		 * A backlog below 16 is for programs that talk to few others. A full queue matters
		 * if it lasts, or if connections are refused.
		 */
		FILES(COUNT_FILE_LISTENERS, .has_instances = true, .counts_hits = true,
			.happens = "refused", .matters_from = 16, .near_from = 16,
			.full_above = true, .twice = true, .cure = limits_cure_listener,
			.sysctl = "net.core.somaxconn", .choice = "somaxconn", .at_least = 4096)},
	{"ports",
		"Local ports that TCP connections from one address of one network namespace to one "
		"remote address and port take, of the fullest pair. Connections in TIME_WAIT count "
		"unless net.ipv4.tcp_tw_reuse lets a new connection take their port.",
		.unit = "ports", .def = "28232", .option = "sysctl, net.ipv4.ip_local_port_range",
		.source = "net/ipv4/inet_hashtables.c, __inet_hash_connect()", W,
		.breaks = "\"Cannot assign requested address\" (EADDRNOTAVAIL) from connect",
		.cure_help = "reuse connections (keep-alive), or use more destination addresses",
		FILES(COUNT_FILE_PORTS, .has_instances = true, .cure = limits_cure_ports)},
	{"conntrack/namespace",
		"Connections that netfilter tracks in the fullest network namespace.",
		.unit = "connections", .def = "by memory, 262144 at most",
		.option = "limits.raise: conntrack; sysctl, net.netfilter.nf_conntrack_max",
		.source = "net/netfilter/nf_conntrack_core.c, __nf_conntrack_alloc()", W,
		.breaks = "new connections of a pod time out: \"nf_conntrack: table full, dropping "
			  "packet\" in the kernel log",
		.cure_help = "sysctl -w net.netfilter.nf_conntrack_max=1048576",
		.reader = &(const struct limit_reader){.in_namespaces = true,
			.has_instances = true,
			.counts_hits = true,
			.happens = "refused",
			.hits_above = 95,
			.cure = limits_cure_conntrack,
			.choice = "conntrack",
			.at_least = 262144}},
	{"conntrack/races",
		"Packets that netfilter dropped because two new connections had the same "
		"translated addresses: insert_failed of /proc/net/stat/nf_conntrack, in the "
		"network namespace of the agent.",
		.unit = "packets", .def = "no maximum",
		.source = "net/netfilter/nf_conntrack_core.c, __nf_conntrack_confirm()", W,
		.breaks = "a DNS query takes 5 s more, a connection 1 s: its first packet is lost",
		.cure_help =
			"NodeLocal DNSCache, or single-request-reopen in the pods' resolv.conf; "
			"--random-fully in the rules of MASQUERADE and SNAT",
		READ(limits_read_races, .quiet = true, .counts_hits = true,
			.hits_from = FEW_PACKETS, .happens = "dropped", .cure = limits_cure_hint)},
	{"memory-cgroups",
		"Memory cgroups. The kernel has 65535 ids for them, and a removed one gives its id "
		"back. Not shown with cgroup v1, whose count includes removed ones.",
		.unit = "cgroups", .def = "65535", .source = "mm/memcontrol.c, MEM_CGROUP_ID_MAX",
		W,
		.breaks = "containers do not start: \"mkdir /sys/fs/cgroup/memory/...: cannot "
			  "allocate memory\" or \"no space left on device\"",
		.cure_help =
			"find what makes cgroups and does not remove them: systemd-cgls, or "
			"find /sys/fs/cgroup -type d | cut -d/ -f5-6 | sort | uniq -c | sort -n "
			"| tail",
		READ(limits_read_memory_cgroups, .nobody = true, .cure = limits_cure_hint)},
	{"ptys",
		"Pseudoterminals. kernel.pty.reserve of them are kept for the first devpts mount, "
		"so containers can use kernel.pty.max less that.",
		.unit = "pseudoterminals", .def = "4096 less 1024",
		.option = "sysctl, kernel.pty.max",
		.source = "fs/devpts/inode.c, devpts_new_index()", W,
		.breaks = "kubectl exec -t and ssh fail: \"open /dev/ptmx: no space left on "
			  "device\", \"PTY allocation request failed\"",
		.cure_help = "raise kernel.pty.max",
		READ(limits_read_ptys, .count_file = COUNT_FILE_PTYS, .has_instances = true,
			.cure = limits_cure_sysctl, .sysctl = "kernel.pty.max", .at_least = 8192,
			.at_most = PTYS_MAX)},
	{"aio",
		"Requests for which programs have set up asynchronous I/O of the kernel "
		"(io_setup), such as databases and virtual machines.",
		.unit = "requests", .def = "65536", .option = "sysctl, fs.aio-max-nr",
		.source = "fs/aio.c, ioctx_alloc()", W,
		.breaks = "databases do not start: \"io_setup: Resource temporarily unavailable\" "
			  "(EAGAIN), \"Could not setup Async I/O\"",
		.cure_help = "raise fs.aio-max-nr", .used = {"/proc/sys/fs/aio-nr", 1},
		.max = {"/proc/sys/fs/aio-max-nr", 1},
		CENSUS(COUNT_AIO, .quiet = true, .cure = limits_cure_sysctl,
			.sysctl = "fs.aio-max-nr", .at_least = 1048576,
			.at_most = LARGEST_IN_JSON)},
	{"keys",
		"Keys of the kernel's key service that the fullest user has. A container takes one "
		"for its session. Root has its own, larger maximum.",
		.unit = "keys", .def = "200 for each user, 1000000 for root",
		.option = "limits.raise: keys; sysctl, kernel.keys.maxkeys",
		.source = "security/keys/key.c, key_alloc()", W,
		.breaks = "containers do not start: \"unable to join session keyring: disk quota "
			  "exceeded\" (EDQUOT)",
		.cure_help = "raise kernel.keys.maxkeys, for root kernel.keys.root_maxkeys",
		READ(limits_read_keys, .has_instances = true, .cure = limits_cure_sysctl,
			.sysctl = "kernel.keys.maxkeys", .choice = "keys", .at_least = 2000,
			.at_most = SYSCTL_INT_MAX)},
	{"keys/bytes", "Bytes of the keys that the fullest user has.", .unit = "bytes",
		.def = "20000 for each user, 25000000 for root",
		.option = "limits.raise: keys; sysctl, kernel.keys.maxbytes",
		.source = "security/keys/key.c, key_alloc()", W,
		.breaks = "containers do not start: \"unable to create session key: disk quota "
			  "exceeded\" (EDQUOT)",
		.cure_help = "raise kernel.keys.maxbytes, for root kernel.keys.root_maxbytes",
		READ(limits_read_keys, .key_bytes = true, .has_instances = true,
			.cure = limits_cure_sysctl, .sysctl = "kernel.keys.maxbytes",
			.choice = "keys", .at_least = 200000, .at_most = SYSCTL_INT_MAX)},
	{"bpf/lru-map",
		"Elements of the fullest BPF map that evicts old elements when it is full. The "
		"agent counts them like those of bpf/map. Full is normal for such a map, and the kernel does not tell "
		"whether it evicts elements that are in use: a finding, from 80 % on, is advice. "
		"CPUs keep free elements for themselves, so a map can evict before it is full, and "
		"with the flag BPF_F_NO_COMMON_LRU when it is half full.",
		.unit = "elements", .def = "set by the program that makes the map",
		.source = "kernel/bpf/bpf_lru_list.c", W,
		.breaks = "if it is too small, connections of a network plugin lose their state: "
			  "they are reset, or time out",
		.cure_help = MAPS_CURE,
		BPF_MAPS(COUNT_BPF_LRU_MAPS, .has_instances = true, .begins_at = true,
			.is_advice = true, .full_above = true, .matters_from = SMALLEST_MAP,
			.cure = limits_cure_map)},
	{"softnet",
		"Received packets that wait for the fullest CPU. A packet above the maximum is "
		"dropped: hits are the column dropped of /proc/net/softnet_stat.",
		.unit = "packets", .def = "1000", .option = "sysctl, net.core.netdev_max_backlog",
		.source = "net/core/dev.c, enqueue_to_backlog()", W,
		.breaks = "packets between pods are lost, without an error",
		.cure_help = "raise net.core.netdev_max_backlog; if one CPU receives all, spread "
			     "the load: rps_cpus of the device",
		READ(limits_read_softnet, .counts_hits = true, .only_hits = true,
			.hits_from = FEW_PACKETS, .happens = "dropped", .nobody = true,
			.cure = limits_cure_sysctl, .sysctl = "net.core.netdev_max_backlog",
			.at_least = 5000, .at_most = SYSCTL_INT_MAX)},
	{"bridge-ports",
		"Ports of the fullest Linux bridge in the agent's network namespace: each pod or "
		"container takes one.",
		.unit = "ports", .def = "1023", .source = "net/bridge/br_private.h, BR_PORT_BITS",
		W,
		.breaks = "containers do not start: \"failed to connect veth to bridge: exchange "
			  "full\" (EXFULL)",
		.cure_help = "move pods to another node, or give the network a second bridge",
		SAMPLE(limits_sample_bridges, .has_instances = true, .nobody = true,
			.cure = limits_cure_hint)},
	{"pod-addresses",
		"Addresses that the CNI plugin host-local has given out in the fullest network, "
		"including leaked ones. The maximum is the network's ranges.",
		.unit = "addresses", .def = "the ranges in /etc/cni/net.d",
		.source = "containernetworking/plugins, host-local: /var/lib/cni/networks", W,
		.breaks = "pods stay in ContainerCreating: \"no IP addresses available in range "
			  "set\"",
		.cure_help = "delete files in /var/lib/cni/networks/NAME whose container does not "
			     "exist, or give the network a larger range",
		SAMPLE(limits_sample_addresses, .has_instances = true, .nobody = true,
			.cure = limits_cure_addresses)},
	ALLOWANCE("bandwidth-in", "bw_in_allowance_exceeded", "the bandwidth of received packets"),
	ALLOWANCE("bandwidth-out", "bw_out_allowance_exceeded", "the bandwidth of sent packets"),
	ALLOWANCE("packets", "pps_allowance_exceeded", "the number of packets per second"),
	ALLOWANCE(
		"connections", "conntrack_allowance_exceeded", "the number of tracked connections"),
	ALLOWANCE("link-local", "linklocal_allowance_exceeded",
		"the number of packets to DNS, metadata and time services"),
	{0},
};
