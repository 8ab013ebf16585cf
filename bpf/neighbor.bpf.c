// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Counts neighbour entries by network namespace as the kernel creates, removes and refuses them,
 * and reads how many entries of each table are collectable. The program wakes user space once when
 * a table has filled to a mark or the kernel refused an entry. User space then sets the mark again.
 * It also counts the link addresses that the kernel did not take for an entry that has another.
 *
 * Atomics that return a value need Linux 5.12: 5.10 is supported, so a mark that several CPUs pass
 * at once can wake user space more than once.
 */
#include <stdbool.h>

#include "kernel_types.h"

#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include <headroom/bpf/neighbor.h>

#define AF_INET  2
#define AF_INET6 10

#define NUD_NOARP       0x40 /* include/uapi/linux/neighbour.h */
#define NUD_PERMANENT   0x80
#define NUD_CONNECTED   0xc2
#define NUD_VALID       0xde
#define NTF_EXT_LEARNED 0x10

#define UPDATE_OVERRIDE      0x00000001 /* NEIGH_UPDATE_F_OVERRIDE, include/net/neighbour.h */
#define UPDATE_WEAK_OVERRIDE 0x00000002
#define UPDATE_ADMIN         0x80000000

#define PAGE 4096 /* no object lies in the first page */

#define CHAIN_MAX 16 /* entries of one bucket; the kernel keeps the average below one */

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct neighbor_record records[NEIGHBOR_FAMILIES];

/* User space sets the family and the first bucket before each run of walk(). */
__u32 walk_family;
__u32 walk_bucket;
__u32 walk_buckets; /* counts of the whole table, by walk() */

/* walk() fills it if census_hz, the kernel's ticks per second, is not 0. */
__u32 census_hz;
struct neighbor_census census[NEIGHBOR_FAMILIES];

struct count_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, NEIGHBOR_COUNTS_MAX);
	__type(key, struct neighbor_key);
	__type(value, __s64);
};

struct count_map headroom_counts SEC(".maps");

/* Preallocated like counts: before 6.1 a tracing program must not allocate memory. */
struct count_map headroom_walked SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, NEIGHBOR_CONFLICTS_MAX);
	__type(key, struct neighbor_address);
	__type(value, struct neighbor_conflict);
} headroom_conflicts SEC(".maps");

/* All conflicts since the program was attached, also those for which the map had no room. */
__u64 conflict_counts[NEIGHBOR_VERDICTS];

/* Wake user space at a conflict in this network namespace; 0: never. The program clears it. */
__u32 wake_conflict;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} wakeups SEC(".maps");

static __always_inline int family_of(const struct neigh_table *table)
{
	if (table->family == AF_INET)
		return NEIGHBOR_IPV4;
	if (table->family == AF_INET6)
		return NEIGHBOR_IPV6;
	return -1;
}

static __always_inline void count(void *map, __u32 netns, __u32 family, __s64 n)
{
	static const __s64 zero;
	struct neighbor_key key = {.netns = netns, .family = family};
	__s64 *used = bpf_map_lookup_elem(map, &key);

	if (!used) {
		bpf_map_update_elem(map, &key, &zero, BPF_NOEXIST);
		used = bpf_map_lookup_elem(map, &key);
	}
	if (used)
		__sync_fetch_and_add(used, n);
}

static __always_inline void wake(__u32 family)
{
	bpf_ringbuf_output(&wakeups, &family, sizeof(family), BPF_RB_FORCE_WAKEUP);
}

static __always_inline void refuse(
	struct neighbor_record *record, struct net_device *device, const void *key, __u32 family)
{
	__u32 length = family == NEIGHBOR_IPV4 ? 4 : 16;

	__sync_fetch_and_add(&record->refused, 1);
	record->last.netns = device->nd_net.net->ns.inum;
	bpf_probe_read_kernel(record->last.device, sizeof(record->last.device), device->name);
	bpf_probe_read_kernel(record->last.address, length, key);
	if (record->wake_refused) {
		record->wake_refused = 0;
		wake(family);
	}
}

/* Fires for every creation, and with a NULL neighbour for every refusal: net/core/neighbour.c. */
SEC("tp_btf/neigh_create")
int BPF_PROG(neigh_create, struct neigh_table *table, struct net_device *device,
	const void *unreadable, const struct neighbour *neighbour, bool exempt)
{
	int family = family_of(table);
	struct neighbor_record *record;

	if (family < 0)
		return 0;
	record = &records[family & 1];
	/*
	 * Newer verifiers assume that the argument is never NULL and drop the branch behind a
	 * comparison with 0, but not one behind another comparison.
	 */
	if ((unsigned long)neighbour < PAGE) {
		const void *key = NULL;

		/* The verifiers of 5.10 and 6.1 reject loading a const void * argument. */
		bpf_probe_read_kernel(&key, sizeof(key), &ctx[2]);
		refuse(record, device, key, family);
		return 0;
	}
	if (!exempt)
		count(&headroom_counts, device->nd_net.net->ns.inum, family, 1);
	__sync_fetch_and_add(&record->created, 1);
	if (record->wake_at && (__u64)table->gc_entries.counter >= record->wake_at) {
		record->wake_at = 0;
		wake(family);
	}
	return 0;
}

SEC("tp_btf/neigh_cleanup_and_release")
int BPF_PROG(neigh_release, struct neighbour *neighbour, int rc)
{
	int family = family_of(neighbour->tbl);

	if (family < 0)
		return 0;
	__sync_fetch_and_add(&records[family & 1].removed, 1);
	/* The kernel never collects permanent and externally learned entries. */
	if (!(neighbour->nud_state & NUD_PERMANENT) && !(neighbour->flags & NTF_EXT_LEARNED))
		count(&headroom_counts, neighbour->dev->nd_net.net->ns.inum, family, -1);
	return 0;
}

static __always_inline void add_conflict(const struct neighbour *neighbour, __u32 family,
	const __u64 *known, const __u64 *other, __u32 verdict)
{
	static const struct neighbor_conflict zero;
	struct net_device *device = neighbour->dev;
	struct neighbor_address key = {.netns = device->nd_net.net->ns.inum,
		.ifindex = (__u32)device->ifindex,
		.family = family};
	struct neighbor_conflict *conflict;

	bpf_probe_read_kernel(
		key.address, family == NEIGHBOR_IPV4 ? 4 : 16, neighbour->primary_key);
	conflict = bpf_map_lookup_elem(&headroom_conflicts, &key);
	if (!conflict) {
		bpf_map_update_elem(&headroom_conflicts, &key, &zero, BPF_NOEXIST);
		conflict = bpf_map_lookup_elem(&headroom_conflicts, &key);
	}
	if (conflict) {
		__sync_fetch_and_add(&conflict->counts[verdict & 1], 1);
		conflict->at_ns = bpf_ktime_get_ns();
		bpf_probe_read_kernel(conflict->device, sizeof(conflict->device), device->name);
		__builtin_memcpy(conflict->known, known, NEIGHBOR_MAC);
		__builtin_memcpy(conflict->other, other, NEIGHBOR_MAC);
	}
	/* Last: user space reads the map when these have changed. */
	__sync_fetch_and_add(&conflict_counts[verdict & 1], 1);
	if (wake_conflict && wake_conflict == key.netns) {
		wake_conflict = 0;
		wake(family);
	}
}

/*
 * Fires before each update, by a packet of ARP or NDP or by an administrator, and not for other
 * packets. The conditions are those of __neigh_update().
 */
SEC("tp_btf/neigh_update")
int BPF_PROG(
	neigh_update, struct neighbour *neighbour, const __u8 *unreadable, __u8 state, __u32 flags)
{
	int family = family_of(neighbour->tbl);
	__u8 before = neighbour->nud_state;
	__u64 known = 0, other = 0;
	const void *address = NULL;

	/* The argument may be NULL, and older verifiers reject loading it: see neigh_create(). */
	bpf_probe_read_kernel(&address, sizeof(address), &ctx[1]);
	if (family < 0 || !address || (flags & (UPDATE_OVERRIDE | UPDATE_ADMIN)) ||
		!(state & NUD_VALID) || !(before & NUD_VALID) ||
		(before & (NUD_NOARP | NUD_PERMANENT)) || neighbour->dev->addr_len != NEIGHBOR_MAC)
		return 0;
	bpf_probe_read_kernel(&known, NEIGHBOR_MAC, neighbour->ha);
	bpf_probe_read_kernel(&other, NEIGHBOR_MAC, address);
	if (known != other)
		add_conflict(neighbour, (__u32)family, &known, &other,
			(flags & UPDATE_WEAK_OVERRIDE) && (before & NUD_CONNECTED)
				? NEIGHBOR_WEAK
				: NEIGHBOR_REFUSED);
	return 0;
}

/* All network namespaces share the tables, so any loopback device points to them. */
static __always_inline struct neigh_table *table_of(__u32 family)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct net_device *loopback = BPF_CORE_READ(task, nsproxy, net_ns, loopback_dev);

	if (family == NEIGHBOR_IPV4)
		return BPF_CORE_READ(loopback, ip_ptr, arp_parms, tbl);
	return BPF_CORE_READ(loopback, ip6_ptr, nd_parms, tbl);
}

static __always_inline void sample_one(__u32 family)
{
	struct neigh_table *table = table_of(family);

	if (!table)
		return;
	records[family].collectable = (__u64)BPF_CORE_READ(table, gc_entries.counter);
	records[family].sampled = 1;
}

/*
 * User space runs this program (BPF_PROG_TEST_RUN, 5.10) when it needs fresh counts. The symbols of
 * the tables exist only with KALLSYMS_ALL, so the program does not rely on them.
 */
SEC("raw_tp")
int sample(void *ctx)
{
	sample_one(NEIGHBOR_IPV4);
	sample_one(NEIGHBOR_IPV6);
	return 0;
}

/*
 * The two layouts of the hash table. These are not inlined: the compiler must not move an access to
 * a missing field out of the branch that a kernel never runs.
 */
static __noinline void *hlist_of(const struct neigh_hash_table *hash, __u32 bucket)
{
	struct hlist_head *heads = BPF_CORE_READ(hash, hash_heads);
	void *first = NULL;

	bpf_probe_read_kernel(&first, sizeof(first), &heads[bucket]);
	return first;
}

static __noinline void *chain_of(const struct neigh_hash_table *hash, __u32 bucket)
{
	struct neighbour **buckets = BPF_CORE_READ(hash, hash_buckets);
	void *first = NULL;

	bpf_probe_read_kernel(&first, sizeof(first), &buckets[bucket]);
	return first;
}

static __noinline void *hlist_next(const struct neighbour *neighbour)
{
	return BPF_CORE_READ(neighbour, hash.next);
}

static __noinline void *chain_next(const struct neighbour *neighbour)
{
	return BPF_CORE_READ(neighbour, next);
}

/* The kernel collects a stale entry by the same time: neigh_periodic_work(). */
__noinline int take_census(__u64 address, __u32 family)
{
	static const __u32 bounds[NEIGHBOR_AGES - 1] = NEIGHBOR_AGE_SECONDS;
	const struct neighbour *neighbour = (const struct neighbour *)address;
	__u64 used = BPF_CORE_READ(neighbour, used), now = bpf_jiffies64(), seconds;
	__u64 confirmed = BPF_CORE_READ(neighbour, confirmed);
	__u32 states = BPF_CORE_READ(neighbour, nud_state), state = 0, age = 0;

	if (used < confirmed)
		used = confirmed;
	seconds = now > used && census_hz ? (now - used) / census_hz : 0;
	for (__u32 i = 0; i < NEIGHBOR_AGES - 1; i++)
		age += seconds >= bounds[i];
	for (__u32 i = 1; i < NEIGHBOR_STATES; i++)
		state += states >> i != 0;
	census[family & 1].entries[state & (NEIGHBOR_STATES - 1)][age & (NEIGHBOR_AGES - 1)]++;
	return 0;
}

/* Not static: the verifier checks it once, not once per bucket, which took 250 ms. */
__noinline int walk_chain(__u64 first, __u32 family)
{
	struct neighbour *neighbour = (struct neighbour *)first;

	for (int depth = 0; neighbour && depth < CHAIN_MAX; depth++) {
		struct list_head *linked = BPF_CORE_READ(neighbour, gc_list.next);
		struct net_device *device = BPF_CORE_READ(neighbour, dev);

		/* An empty list points to itself. */
		if (linked != (void *)neighbour + bpf_core_field_offset(neighbour->gc_list))
			count(&headroom_walked, BPF_CORE_READ(device, nd_net.net, ns.inum), family,
				1);
		if (census_hz)
			take_census((__u64)neighbour, family);
		/* struct neighbour begins with its link in both layouts. */
		neighbour = bpf_core_field_exists(neighbour->hash) ? hlist_next(neighbour)
								   : chain_next(neighbour);
	}
	return 0;
}

/*
 * Counts the entries of some of the table's buckets, for an agent that starts when the table has
 * entries already. The count is wrong if a chain changes meanwhile.
 */
SEC("raw_tp")
int walk(void *ctx)
{
	__u32 family = walk_family & 1;
	struct neigh_table *table = table_of(family);
	struct neigh_hash_table *hash = table ? BPF_CORE_READ(table, nht) : NULL;

	walk_buckets = hash ? 1U << (BPF_CORE_READ(hash, hash_shift) & 31) : 0;
	for (__u32 i = 0; i < NEIGHBOR_WALK_BUCKETS; i++) {
		if (walk_bucket + i >= walk_buckets)
			break;
		walk_chain(bpf_core_field_exists(hash->hash_heads)
				   ? (__u64)hlist_of(hash, walk_bucket + i)
				   : (__u64)chain_of(hash, walk_bucket + i),
			family);
	}
	return 0;
}

/*
 * Lists the network namespace of every process: reading /proc/PID/ns/net needs the right to trace
 * the process. It is not a separate object because libbpf needs 20 ms per object to read the
 * kernel's BTF.
 */
SEC("iter/task")
int list_owners(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct owner_record record = {0};

	if (!task || task->pid != task->tgid)
		return 0;
	record.pid = task->tgid;
	/* An exiting process has left its namespaces. */
	record.netns = BPF_CORE_READ(task, nsproxy, net_ns, ns.inum);
	if (record.netns)
		bpf_seq_write(ctx->meta->seq, &record, sizeof(record));
	return 0;
}
