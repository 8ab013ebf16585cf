// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Tells user space what each process has: files, maps, threads, mounts, and what the kernel counts
 * for its user and its cgroup. The links in /proc/PID/fd and /proc/PID/ns show the same only to a
 * process that may trace PID.
 */
#include <stdbool.h>

#include "kernel_types.h"
#include "maps.h"

#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include <headroom/bpf/census.h>

#define AF_INET       2
#define AF_INET6      10
#define SOCK_STREAM   1
#define SOCK_DGRAM    2
#define TCP_TIME_WAIT 6 /* include/net/tcp_states.h */
#define TCP_CLOSE     7
#define TCP_LISTEN    10

#define LOOPBACK 127 /* first byte of 127.0.0.0/8 */

#define RLIMIT_NOFILE 7
#define PIDS_MAX      4194305 /* PID_MAX_LIMIT + 1: no limit */

#define DEPTH_MAX 16   /* cgroups and user namespaces */
#define WORDS     1024 /* in a bit map, read by one call of count_bits() */
#define CALLS     64   /* calls of count_bits(): 4,194,304 descriptors */

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Not static: the verifier checks it once, not once per call. */
__noinline int count_bits(__u64 words, __u32 n)
{
	int bits = 0;

	for (__u32 i = 0; i < WORDS && i < n; i++) {
		unsigned long word = 0;

		bpf_probe_read_kernel(&word, sizeof(word), (void *)(words + i * sizeof(word)));
		bits += __builtin_popcountl(word);
	}
	return bits;
}

static __always_inline void read_files(struct task_struct *task, struct census_record *record)
{
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	__u64 words = (__u64)BPF_CORE_READ(table, open_fds);
	__u32 left = BPF_CORE_READ(table, max_fds) / (8 * sizeof(long));

	for (__u32 i = 0; i < CALLS && left > 0; i++) {
		record->files += count_bits(words, left);
		words += WORDS * sizeof(long);
		left = left > WORDS ? left - WORDS : 0;
	}
	record->files_max = BPF_CORE_READ(task, signal, rlim[RLIMIT_NOFILE].rlim_cur);
	record->files_hard = BPF_CORE_READ(task, signal, rlim[RLIMIT_NOFILE].rlim_max);
}

/*
 * Functions that access a field that only some kernels have are not inlined: the compiler must not
 * move the access out of the branch that the other kernels never run.
 */

/* A process in a user namespace counts for the user who made it, up to the first namespace. */
static __always_inline struct ucounts *first_counts(struct ucounts *counts)
{
	for (int i = 0; i < DEPTH_MAX; i++) {
		struct ucounts *above = BPF_CORE_READ(counts, ns, ucounts);

		if (!above)
			break;
		counts = above;
	}
	return counts;
}

static __noinline void read_user(struct task_struct *task, struct census_record *record)
{
	struct ucounts *counts = first_counts(BPF_CORE_READ(task, cred, ucounts));
	void *numbers;

	record->uid = BPF_CORE_READ(counts, uid.val);
	record->uid_counts = bpf_core_enum_value_exists(enum ucount_type, UCOUNT_INOTIFY_INSTANCES);
	if (!record->uid_counts)
		return;
	numbers = (void *)counts + bpf_core_field_offset(counts->ucount);
	bpf_probe_read_kernel(&record->inotify_instances, sizeof(__u64),
		numbers + 8 * bpf_core_enum_value(enum ucount_type, UCOUNT_INOTIFY_INSTANCES));
	bpf_probe_read_kernel(&record->inotify_watches, sizeof(__u64),
		numbers + 8 * bpf_core_enum_value(enum ucount_type, UCOUNT_INOTIFY_WATCHES));
}

static __noinline __u64 forks_failed(struct pids_cgroup *pids)
{
	return BPF_CORE_READ(pids, events_local[1].counter);
}

static __noinline __u64 forks_failed_before_6_11(struct pids_cgroup *pids)
{
	return BPF_CORE_READ(pids, events_limit.counter);
}

static __always_inline struct cgroup_subsys_state *pids_css(struct css_set *set)
{
	struct cgroup_subsys_state *css = NULL;

	if (bpf_core_enum_value_exists(enum cgroup_subsys_id, pids_cgrp_id))
		bpf_probe_read_kernel(&css, sizeof(css),
			(void *)set + bpf_core_field_offset(set->subsys) +
				8 * bpf_core_enum_value(enum cgroup_subsys_id, pids_cgrp_id));
	return css;
}

static __always_inline void read_pids(struct css_set *set, struct census_record *record)
{
	struct cgroup_subsys_state *css = pids_css(set);
	struct pids_cgroup *pids;

	if (!css)
		return;
	record->pids_cgroup = BPF_CORE_READ(css, cgroup, kn, id);
	pids = (struct pids_cgroup *)css; /* its first member */
	record->forks_failed = bpf_core_field_exists(pids->events_local)
				       ? forks_failed(pids)
				       : forks_failed_before_6_11(pids);
	for (int i = 0; i < DEPTH_MAX && css; i++) {
		struct cgroup_subsys_state *parent = BPF_CORE_READ(css, parent);
		__u64 used, max;
		bool is_inner;

		if (parent)
			record->pids_first = BPF_CORE_READ(css, cgroup, kn, id);
		pids = (struct pids_cgroup *)css;
		used = BPF_CORE_READ(pids, counter.counter);
		max = BPF_CORE_READ(pids, limit.counter);
		/* A limit of all pods hides none of a pod. */
		is_inner = parent && BPF_CORE_READ(parent, parent);
		if (max < PIDS_MAX && (is_inner || record->pids_max == 0) &&
			used * record->pids_max >= record->pids_used * max) {
			record->pids_limited = BPF_CORE_READ(css, cgroup, kn, id);
			record->pids_used = used;
			record->pids_max = max;
		} else if (max < PIDS_MAX && !is_inner && used * 10 >= max * 9) {
			record->pids_first_refuses = 1;
		}
		css = parent;
	}
}

#define AIO_CONTEXTS 256

/*
 * Contexts beyond the first ones do not count: a program has one for each disk or thread. There is
 * no branch for a free place of the table, whose read fails and gives 0: Linux 6.1 would verify
 * each combination. Not static: the verifier checks it once.
 */
__noinline int count_requests(__u64 contexts, __u32 n)
{
	int requests = 0;

	for (__u32 i = 0; i < AIO_CONTEXTS && i < n; i++) {
		struct kioctx *context = NULL;

		bpf_probe_read_kernel(
			&context, sizeof(context), (void *)(contexts + i * sizeof(context)));
		requests += BPF_CORE_READ(context, max_reqs);
	}
	return requests;
}

static __noinline void read_aio(struct mm_struct *mm, struct census_record *record)
{
	struct kioctx_table *table = BPF_CORE_READ(mm, ioctx_table);

	record->aio = count_requests(
		(__u64)table + bpf_core_field_offset(table->table), BPF_CORE_READ(table, nr));
}

static __noinline __u32 mounts_of(struct mnt_namespace *mounts)
{
	return BPF_CORE_READ(mounts, nr_mounts);
}

static __noinline __u32 mounts_before_6_8(struct mnt_namespace *mounts)
{
	return BPF_CORE_READ(mounts, mounts);
}

SEC("iter/task")
int census(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct census_record record = {0};
	struct mnt_namespace *mounts;
	struct css_set *set;

	if (!task || task->pid != task->tgid)
		return 0;
	record.pid = task->tgid;
	record.threads = BPF_CORE_READ(task, signal, nr_threads);
	record.netns = BPF_CORE_READ(task, nsproxy, net_ns, ns.inum);
	mounts = BPF_CORE_READ(task, nsproxy, mnt_ns);
	record.mntns = BPF_CORE_READ(mounts, ns.inum);
	record.mounts = bpf_core_field_exists(mounts->nr_mounts) ? mounts_of(mounts)
								 : mounts_before_6_8(mounts);
	record.maps = BPF_CORE_READ(task, mm, map_count);
	if (bpf_core_field_exists(task->mm->ioctx_table))
		read_aio(task->mm, &record);
	read_files(task, &record);
	set = task->cgroups;
	record.cgroup = BPF_CORE_READ(set, dfl_cgrp, kn, id);
	read_pids(set, &record);
	if (bpf_core_field_exists(task->cred->ucounts))
		read_user(task, &record);
	bpf_probe_read_kernel(record.comm, sizeof(record.comm), task->comm);
	bpf_seq_write(ctx->meta->seq, &record, sizeof(record));
	return 0;
}

/* The operations of files of each kind; a listener is a socket as well. learn() finds them. */
__u64 operations[CENSUS_KINDS];

/* A file of each kind that user space has open, or -1. */
__s32 examples[CENSUS_KINDS];

/* The symbols of the operations exist only with KALLSYMS_ALL. */
SEC("raw_tp")
int learn(void *ctx)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct file **files = BPF_CORE_READ(task, files, fdt, fd);

	for (int i = 0; i < CENSUS_KINDS; i++) {
		struct file *file = NULL;

		if (examples[i] < 0)
			continue;
		bpf_probe_read_kernel(&file, sizeof(file), &files[examples[i]]);
		operations[i] = (__u64)BPF_CORE_READ(file, f_op);
	}
	return 0;
}

#define CHAIN 1024 /* elements that one call of count_list() visits */

__u64 list_at; /* the element that count_list() visited last */

__noinline int count_list(__u64 head)
{
	__u64 at = list_at;
	int n = 0;

	for (int i = 0; i < CHAIN; i++) {
		if (bpf_probe_read_kernel(&at, sizeof(at), (void *)at) < 0 || at == head || !at) {
			list_at = 0;
			return n;
		}
		n++;
	}
	list_at = at;
	return n;
}

static __always_inline __u32 count_watches(struct fsnotify_group *group)
{
	__u64 head = (__u64)group + bpf_core_field_offset(group->marks_list);
	__u32 n = 0;

	list_at = head;
	for (int i = 0; i < CHAIN && list_at; i++)
		n += count_list(head);
	return n;
}

/* Both return the last port in the upper half and the first in the lower half. */
static __noinline __u32 range_of(void *ports)
{
	return BPF_CORE_READ((struct local_ports *)ports, range);
}

static __noinline __u32 range_before_6_8(void *ports)
{
	__u32 low = BPF_CORE_READ((struct local_ports___before_6_8 *)ports, range[0]);
	__u32 high = BPF_CORE_READ((struct local_ports___before_6_8 *)ports, range[1]);

	return high << 16 | low;
}

/* Gets the number of ephemeral ports of a network namespace. Returns false for another port. */
static __always_inline bool is_ephemeral(struct net *net, __u16 port, __u32 *width)
{
	void *ports = (void *)net + bpf_core_field_offset(net->ipv4) +
		      bpf_core_field_offset(struct netns_ipv4, ip_local_ports);
	__u32 range = bpf_core_field_exists(struct local_ports, range) ? range_of(ports)
								       : range_before_6_8(ports);

	*width = (range >> 16) - (range & 0xffff) + 1;
	return port >= (range & 0xffff) && port <= range >> 16;
}

/* Reads both ends. */
static __always_inline void read_ends(struct sock *sk, struct census_file *record)
{
	void *common = (void *)sk + bpf_core_field_offset(sk->__sk_common);

	record->family = BPF_CORE_READ(sk, __sk_common.skc_family);
	record->port = __builtin_bswap16(BPF_CORE_READ(sk, __sk_common.skc_dport));
	if (record->family == AF_INET6) {
		bpf_probe_read_kernel(record->address, 16,
			common + bpf_core_field_offset(struct sock_common, skc_v6_daddr));
		bpf_probe_read_kernel(record->source, 16,
			common + bpf_core_field_offset(struct sock_common, skc_v6_rcv_saddr));
		return;
	}
	bpf_probe_read_kernel(
		record->address, 4, common + bpf_core_field_offset(struct sock_common, skc_daddr));
	bpf_probe_read_kernel(record->source, 4,
		common + bpf_core_field_offset(struct sock_common, skc_rcv_saddr));
}

/* A new connection may take the port: tcp_twsk_unique(), with tcp_tw_reuse 2 on loopback only. */
static __always_inline bool is_reusable(
	struct sock *sk, struct net *net, const struct census_file *record)
{
	__u8 reuse = BPF_CORE_READ(net, ipv4.sysctl_tcp_tw_reuse);
	bool local = record->family == AF_INET && record->address[0] == LOOPBACK;

	return BPF_CORE_READ(sk, __sk_common.skc_state) == TCP_TIME_WAIT &&
	       (reuse == 1 || (reuse == 2 && local));
}

/*
 * A connection in TIME_WAIT is a struct sock_common only. Returns false for a connection that takes
 * no ephemeral port.
 */
static __always_inline bool read_connection(struct sock *sk, struct census_file *record)
{
	struct net *net = BPF_CORE_READ(sk, __sk_common.skc_net.net);

	record->file = (__u64)sk;
	record->kind = CENSUS_CONNECTED;
	record->netns = BPF_CORE_READ(net, ns.inum);
	if (!is_ephemeral(net, BPF_CORE_READ(sk, __sk_common.skc_num), &record->max))
		return false;
	read_ends(sk, record);
	return !is_reusable(sk, net, record);
}

static __always_inline void read_listener(
	struct sock *sk, struct file *file, struct census_file *record)
{
	struct net *net = BPF_CORE_READ(sk, __sk_common.skc_net.net);

	record->file = (__u64)sk;
	record->kind = CENSUS_LISTENER;
	record->netns = BPF_CORE_READ(net, ns.inum);
	record->somaxconn = BPF_CORE_READ(net, core.sysctl_somaxconn);
	record->inode = BPF_CORE_READ(file, f_inode, i_ino);
	record->port = BPF_CORE_READ(sk, __sk_common.skc_num);
	record->used = BPF_CORE_READ(sk, sk_ack_backlog);
	record->max = BPF_CORE_READ(sk, sk_max_ack_backlog);
	record->drops = BPF_CORE_READ(sk, sk_drops.counter);
}

#define PAGE_SIZE 4096

/* Pages that the kernel counts in sockstat: also those that the socket keeps in reserve. */
static __always_inline __u32 pages_of(struct sock *sk)
{
	__s64 bytes = BPF_CORE_READ(sk, sk_wmem_queued);

	bytes += BPF_CORE_READ(sk, sk_forward_alloc);
	bytes += BPF_CORE_READ(sk, sk_backlog.rmem_alloc.counter);
	return bytes > 0 ? (bytes + PAGE_SIZE - 1) / PAGE_SIZE : 0;
}

/* Returns false for other sockets. */
static __always_inline bool read_socket(struct file *file, struct census_file *record)
{
	struct socket *socket = file->private_data;
	struct sock *sk = BPF_CORE_READ(socket, sk);
	__u8 state = BPF_CORE_READ(sk, __sk_common.skc_state);
	__u16 family = BPF_CORE_READ(sk, __sk_common.skc_family);
	short type = BPF_CORE_READ(socket, type);

	if (!sk || (family != AF_INET && family != AF_INET6) ||
		(type != SOCK_STREAM && type != SOCK_DGRAM))
		return false;
	record->pages = pages_of(sk);
	record->is_udp = type == SOCK_DGRAM;
	if (type == SOCK_STREAM && state == TCP_LISTEN) {
		read_listener(sk, file, record);
		return true;
	}
	if (type == SOCK_STREAM && state != TCP_CLOSE && read_connection(sk, record))
		return true;
	record->file = (__u64)sk;
	record->kind = CENSUS_SOCKET;
	return record->pages > 0;
}

static __noinline void read_group_user(struct fsnotify_group *group, struct census_file *record)
{
	struct ucounts *counts = first_counts(BPF_CORE_READ(group, inotify_data.ucounts));

	record->uid = BPF_CORE_READ(counts, uid.val);
}

SEC("iter/task_file")
int list_files(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	struct census_file record = {0};
	struct cgroup_subsys_state *css;
	struct css_set *set;
	__u64 found;

	/* Linux 5.10 visits the files of each thread. */
	if (!task || !file || task->pid != task->tgid)
		return 0;
	found = (__u64)file->f_op;
	if (found == operations[CENSUS_INOTIFY]) {
		record.kind = CENSUS_INOTIFY;
		record.used = count_watches(file->private_data);
		if (bpf_core_field_exists(struct fsnotify_group, inotify_data.ucounts))
			read_group_user(file->private_data, &record);
	} else if (found == operations[CENSUS_PTY]) {
		record.kind = CENSUS_PTY;
	} else if (found != operations[CENSUS_LISTENER] || !read_socket(file, &record)) {
		return 0;
	}
	if (!record.file)
		record.file = (__u64)file;
	record.pid = task->tgid;
	set = task->cgroups;
	css = pids_css(set);
	record.cgroup = BPF_CORE_READ(set, dfl_cgrp, kn, id);
	record.pids_cgroup = BPF_CORE_READ(css, cgroup, kn, id);
	bpf_seq_write(ctx->meta->seq, &record, sizeof(record));
	return 0;
}

/* Before Linux 6.6, which counts the elements of a hash table: maps.bpf.c. */
SEC("iter/bpf_map")
int list_maps(struct bpf_iter__bpf_map *ctx)
{
	struct bpf_map *map = ctx->map;

	if (map && is_hash(map))
		write_map(ctx->meta->seq, map, CENSUS_UNCOUNTED);
	else if (map && is_trie(map))
		write_map(ctx->meta->seq, map, used_of_trie(map));
	return 0;
}

/* ---- all TCP connections ---- */

#define BUCKETS    1024 /* that one run of list_connections() visits */
#define AT_ONCE    32   /* buckets of one call of list_buckets() */
#define BUCKET_MAX 64   /* connections of a bucket; a longer one is cut */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct census_connections);
} connections SEC(".maps");

static __noinline struct inet_hashinfo *table_of(void *ipv4)
{
	return BPF_CORE_READ((struct netns_ipv4 *)ipv4, tcp_death_row.hashinfo);
}

static __noinline struct inet_hashinfo *table_before_6_1(void *ipv4)
{
	return BPF_CORE_READ((struct netns_ipv4___before_6_1 *)ipv4, tcp_death_row, hashinfo);
}

static __always_inline struct census_connections *find_list(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&connections, &zero);
}

/* These are not static: the verifier checks each of them once. */
__noinline int list_connection(__u64 sk)
{
	struct census_connections *list = find_list();
	__u32 n = list ? list->n : CENSUS_CONNECTIONS;

	if (!list || n >= CENSUS_CONNECTIONS)
		return 0;
	__builtin_memset(&list->connections[n], 0, sizeof(list->connections[n]));
	if (read_connection((struct sock *)sk, &list->connections[n]))
		list->n = n + 1;
	return 0;
}

__noinline int list_bucket(__u64 bucket)
{
	__u64 at = 0; /* odd at the end of the bucket */

	bpf_probe_read_kernel(&at, sizeof(at), (void *)bucket);
	for (int i = 0; i < BUCKET_MAX && at && !(at & 1); i++) {
		list_connection(at - bpf_core_field_offset(struct sock_common, skc_nulls_node));
		if (bpf_probe_read_kernel(&at, sizeof(at), (void *)at) < 0)
			break;
	}
	return 0;
}

/* Returns 1 at the end of the table, or if the list is nearly full. */
__noinline int list_buckets(__u64 buckets, __u32 mask)
{
	struct census_connections *list = find_list();

	for (int i = 0; list && i < AT_ONCE; i++) {
		if (list->n > CENSUS_CONNECTIONS - BUCKET_MAX)
			return 1;
		list_bucket(buckets + (__u64)list->next * sizeof(struct inet_ehash_bucket));
		if (list->next == mask) {
			list->next = 0;
			return 1;
		}
		list->next++;
	}
	return !list;
}

/*
 * Lists the connections of the buckets from list->next on, and sets it to the next one, or to 0 at
 * the end of the table. A network namespace with a table of its own
 * (net.ipv4.tcp_child_ehash_entries) is left out.
 */
SEC("raw_tp")
int list_connections(void *ctx)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	void *ipv4 = (void *)BPF_CORE_READ(task, nsproxy, net_ns) +
		     bpf_core_field_offset(struct net, ipv4);
	struct census_connections *list = find_list();
	struct inet_hashinfo *table;

	if (!list)
		return 0;
	table = bpf_core_field_exists(struct netns_ipv4___before_6_1, tcp_death_row)
			? table_before_6_1(ipv4)
			: table_of(ipv4);
	list->n = 0;
	for (int i = 0; i < BUCKETS / AT_ONCE; i++)
		if (list_buckets(
			    (__u64)BPF_CORE_READ(table, ehash), BPF_CORE_READ(table, ehash_mask)))
			break;
	return 0;
}
