/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/dns.h"

#include "kernel/bpf.h"
#include "workload/cgroup.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <headroom/bpf/dns_hash.h>

#include "dns.skel.h"

/* A program that looked a slot up before its removal has finished after this time. */
#define LATE_US (1 * USEC_PER_SEC)

static const struct dns_key other;

/* The mapped part of an array. Only the used part is mapped, as it counts as resident memory. */
struct mapping {
	int array;
	void *start;
	size_t size;
};

/* A hash table with an index for each key, and a mapped array with the counters of each index. */
struct map_table {
	int keys, free; /* free: queue of the unused indices */
	struct mapping counts;
	size_t key_size, size, max; /* size and number of the array's elements */
	/* Keys that the last reading found. */
	struct known {
		struct dns_row_key key; /* in servers it begins with a struct dns_key */
		uint32_t index;
	} *known;
	size_t n_known, known_allocated;
	uint64_t read_at; /* dns_control.made at that time; 0: read the keys again */
	/* Indices without a key, which programs may still use. */
	struct gone {
		uint32_t index;
		uint64_t until_us;
	} *gone;
	size_t n_gone, gone_allocated;
};

/* Copies of the skeleton's descriptors: the skeleton itself needs 250 kB of memory. */
enum kept {
	SERVERS,
	SERVER_COUNTS,
	FREE_SERVERS,
	ROWS,
	ROW_COUNTS,
	FREE_ROWS,
	SOURCES,
	PENDING,
	CONTROL,
	INGRESS,
	EGRESS,
	CGROUP_RMDIR,
	INGRESS_LINK,
	EGRESS_LINK,
	CGROUP_RMDIR_LINK,
	KEPT,
};

struct dns_bpf {
	int fds[KEPT];
	struct mapping control;
	struct ring_buffer *ring;
	struct mapping pending;
	struct map_table tables[DNS_MAP_SOURCES]; /* servers and rows: enum dns_map */
	/* While dns_bpf_drain_samples() runs. */
	dns_visit_sample *visit_sample;
	void *userdata;
};

/* Maps at least size bytes. NULL with errno on failure; the old mapping stays. */
static void *mapping_reach(struct mapping *mapping, size_t size)
{
	void *start;

	if (size <= mapping->size)
		return mapping->start;
	start = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, mapping->array, 0);
	if (start == MAP_FAILED)
		return NULL;
	munmap(mapping->start, mapping->size);
	mapping->size = size;
	return mapping->start = start;
}

static int give(const struct map_table *table, uint32_t index)
{
	return bpf_map_update_elem(table->free, NULL, &index, BPF_ANY);
}

/* Maps the array up to this index. */
static void *counts_of(struct map_table *table, uint32_t index)
{
	size_t end = (index + (size_t)1) * table->size, all = table->max * table->size;

	if (end > table->counts.size)
		must(mapping_reach(&table->counts, MIN(MAX(end, 2 * table->counts.size), all)));
	return (char *)table->counts.start + index * table->size;
}

/* Moves the counters of an index to counts. True if any was not 0. */
static bool take_counts(struct map_table *table, uint32_t index, void *counts)
{
	__u64 *live = counts_of(table, index), *taken = counts, any = 0;

	for (size_t i = 0; i < table->size / sizeof(*live); i++)
		any |= taken[i] = live[i] ? __atomic_exchange_n(&live[i], 0, __ATOMIC_RELAXED) : 0;
	return any;
}

static void learn(void *userdata, const void *key, const void *index)
{
	struct map_table *table = userdata;
	struct known *known = add_element(&table->known, &table->n_known, &table->known_allocated);

	memcpy(&known->key, key, table->key_size);
	memcpy(&known->index, index, sizeof(known->index));
}

struct dns_control *dns_bpf_control(struct dns_bpf *bpf)
{
	return bpf->control.start;
}

static int on_sample(void *userdata, void *data, size_t size)
{
	const struct dns_bpf *bpf = userdata;

	if (size >= sizeof(struct dns_sample))
		bpf->visit_sample(bpf->userdata, data);
	return 0;
}

DEFINE_CLEANUP(struct dns_bpf_object, dns_bpf_object__destroy)

/*
 * Lets the program read the kernel's packet: see tracking_of(). A weak symbol would need
 * CAP_SYS_ADMIN with libbpf 1.1 before Linux 6.2. False if this kernel has no such call.
 */
static bool cast_packet(struct bpf_program *program)
{
	struct btf *types = btf__load_vmlinux_btf();
	int id = types ? btf__find_by_name_kind(types, "bpf_cast_to_kern_ctx", BTF_KIND_FUNC) : 0;
	size_t n = bpf_program__insn_cnt(program);
	_cleanup_free_ struct bpf_insn *code = must(calloc(n, sizeof(*code)));

	btf__free(types);
	memcpy(code, bpf_program__insns(program), n * sizeof(*code));
	for (size_t i = 0; i < n; i++)
		if (code[i].code == (BPF_ALU64 | BPF_MOV | BPF_K) && code[i].imm == DNS_CAST)
			code[i] = (struct bpf_insn){.code = BPF_JMP | BPF_CALL,
				.src_reg = BPF_PSEUDO_KFUNC_CALL,
				.imm = id};
	return id > 0 && bpf_program__set_insns(program, code, n) == 0;
}

/* Without the JIT a program cannot call the kernel's functions. */
static struct dns_bpf_object *open_and_load(void)
{
	struct dns_bpf_object *object = dns_bpf_object__open();

	if (object && cast_packet(object->progs.dns_egress) && dns_bpf_object__load(object) == 0)
		return object;
	dns_bpf_object__destroy(object);
	return dns_bpf_object__open_and_load();
}

static int load(struct dns_bpf *bpf)
{
	static const struct dns_source nowhere;
	static const uint32_t first;
	_cleanup_(cleanup_dns_bpf_object__destroy) struct dns_bpf_object *object = open_and_load();
	int *fds = bpf->fds, r = 0;

	if (!object)
		return -errno;
	const int known[INGRESS_LINK] = {
		[SERVERS] = bpf_map__fd(object->maps.servers),
		[SERVER_COUNTS] = bpf_map__fd(object->maps.server_counts),
		[FREE_SERVERS] = bpf_map__fd(object->maps.free_servers),
		[ROWS] = bpf_map__fd(object->maps.rows),
		[ROW_COUNTS] = bpf_map__fd(object->maps.row_counts),
		[FREE_ROWS] = bpf_map__fd(object->maps.free_rows),
		[SOURCES] = bpf_map__fd(object->maps.sources),
		[PENDING] = bpf_map__fd(object->maps.pending),
		[CONTROL] = bpf_map__fd(object->maps.bss),
		[INGRESS] = bpf_program__fd(object->progs.dns_ingress),
		[EGRESS] = bpf_program__fd(object->progs.dns_egress),
		[CGROUP_RMDIR] = bpf_program__fd(object->progs.dns_cgroup_rmdir),
	};
	for (int i = 0; i < INGRESS_LINK; i++) {
		fds[i] = fcntl(known[i], F_DUPFD_CLOEXEC, 0);
		if (fds[i] < 0)
			return -errno;
	}
	bpf->pending.array = fds[PENDING];
	bpf->control.array = fds[CONTROL];
	if (!mapping_reach(&bpf->pending, DNS_PRIMARY * sizeof(struct dns_bucket)) ||
		!mapping_reach(&bpf->control, sizeof(*object->bss)))
		return -errno;
	dns_bpf_control(bpf)->root_cgroup = CGROUP_ROOT_INODE;
	dns_bpf_control(bpf)->generation = 1;
	bpf->tables[DNS_MAP_SERVERS] = (struct map_table){.keys = fds[SERVERS],
		.free = fds[FREE_SERVERS],
		.counts.array = fds[SERVER_COUNTS],
		.key_size = sizeof(struct dns_key),
		.size = sizeof(struct dns_server),
		.max = DNS_SERVERS_MAX};
	bpf->tables[DNS_MAP_ROWS] = (struct map_table){.keys = fds[ROWS],
		.free = fds[FREE_ROWS],
		.counts.array = fds[ROW_COUNTS],
		.key_size = sizeof(struct dns_row_key),
		.size = sizeof(struct dns_row),
		.max = DNS_ROWS_MAX};
	/* The first server is the zero key's. */
	for (uint32_t i = 1; r == 0 && i < DNS_SERVERS_MAX; i++)
		r = give(&bpf->tables[DNS_MAP_SERVERS], i);
	for (uint32_t i = 0; r == 0 && i < DNS_ROWS_MAX; i++)
		r = give(&bpf->tables[DNS_MAP_ROWS], i);
	if (r == 0)
		r = bpf_map_update_elem(fds[SERVERS], &other, &first, BPF_NOEXIST);
	if (r == 0)
		r = bpf_map_update_elem(fds[SOURCES], &other, &nowhere, BPF_NOEXIST);
	if (r < 0)
		return r;
	bpf->ring = ring_buffer__new(bpf_map__fd(object->maps.samples), on_sample, bpf, NULL);
	return bpf->ring ? 0 : -errno;
}

int dns_bpf_attach(struct dns_bpf *bpf, const struct host *host, char why[static TUNER_WHY_MAX])
{
	_cleanup_close_ int cgroup = cgroup_root_open(host, NULL, why, TUNER_WHY_MAX);
	int *links = &bpf->fds[INGRESS_LINK], r = 0;

	if (cgroup < 0)
		return -ENOENT;
	/* Answers first: a query that is counted must find its answer counted, too. */
	for (int i = 0; r >= 0 && i < 2; i++)
		if (links[i] < 0)
			r = links[i] = bpf_link_create(bpf->fds[INGRESS + i], cgroup,
				i == 0 ? BPF_CGROUP_INET_INGRESS : BPF_CGROUP_INET_EGRESS, NULL);
	/* A failure leaves only the names of clients that end at once unknown. */
	if (r >= 0 && links[2] < 0)
		links[2] = bpf_raw_tracepoint_open("cgroup_rmdir", bpf->fds[CGROUP_RMDIR]);
	r = MIN(r, 0);
	why[0] = '\0';
	if (r == -EPERM && capability_have(CAP_NET_ADMIN))
		snprintf(why, TUNER_WHY_MAX,
			"BPF: another program holds the root of the cgroups exclusively; "
			"`bpftool cgroup tree` shows it: attach it with the flag multi, or detach "
			"it, and counting begins");
	else if (r < 0)
		bpf_explain_failure(r, why, TUNER_WHY_MAX);
	return r;
}

struct dns_bpf *dns_bpf_load(char why[static TUNER_WHY_MAX])
{
	struct dns_bpf *bpf = must(calloc(1, sizeof(*bpf)));
	int r;

	memset(bpf->fds, 0xff, sizeof(bpf->fds));
	bpf_quiet_libbpf();
	r = load(bpf);
	if (r == 0)
		return bpf;
	bpf_explain_failure(r, why, TUNER_WHY_MAX);
	dns_bpf_close(bpf);
	return NULL;
}

void dns_bpf_detach(struct dns_bpf *bpf)
{
	for (int *link = &bpf->fds[INGRESS_LINK]; link < &bpf->fds[KEPT]; link++)
		if (*link >= 0)
			close(steal_fd(link));
	memset(bpf->pending.start, 0, bpf->pending.size);
}

void dns_bpf_close(struct dns_bpf *bpf)
{
	if (!bpf)
		return;
	ring_buffer__free(bpf->ring);
	munmap(bpf->pending.start, bpf->pending.size);
	munmap(bpf->control.start, bpf->control.size);
	for (size_t i = 0; i < ARRAY_SIZE(bpf->tables); i++) {
		munmap(bpf->tables[i].counts.start, bpf->tables[i].counts.size);
		free(bpf->tables[i].known);
		free(bpf->tables[i].gone);
	}
	for (int i = 0; i < KEPT; i++)
		if (bpf->fds[i] >= 0)
			close(bpf->fds[i]);
	free(bpf);
}

int dns_bpf_each(struct dns_bpf *bpf, enum dns_map map, dns_visit *visit, void *userdata)
{
	struct map_table *table = &bpf->tables[map];
	uint64_t now;
	int r;

	if (map == DNS_MAP_SOURCES)
		return bpf_each(bpf->fds[SOURCES], sizeof(struct dns_key),
			sizeof(struct dns_source), visit, userdata);
	/* A program increments made after it adds a key. Without new keys, no system call is
	 * needed. */
	now = __atomic_load_n(&dns_bpf_control(bpf)->made, __ATOMIC_ACQUIRE) + 1;
	if (table->read_at != now) {
		table->read_at = table->n_known = 0;
		r = bpf_each(table->keys, table->key_size, sizeof(uint32_t), learn, table);
		if (r < 0)
			return r;
		table->read_at = now;
	}
	for (size_t i = 0; i < table->n_known; i++)
		visit(userdata, &table->known[i].key, counts_of(table, table->known[i].index));
	return 0;
}

void dns_bpf_expect_server(struct dns_bpf *bpf, const struct dns_key *server)
{
	struct map_table *table = &bpf->tables[DNS_MAP_SERVERS];
	uint32_t index;

	if (bpf_map_lookup_elem(table->keys, server, &index) == 0 ||
		bpf_map_lookup_and_delete_elem(table->free, NULL, &index) < 0)
		return;
	/* A program may have added the key meanwhile. */
	if (bpf_map_update_elem(table->keys, server, &index, BPF_NOEXIST) < 0)
		(void)give(table, index);
	table->read_at = 0;
}

bool dns_bpf_forget(
	struct dns_bpf *bpf, enum dns_map map, const void *key, uint64_t now, void *last)
{
	struct map_table *table = &bpf->tables[map];
	struct gone *gone;
	uint32_t index;

	if (map != DNS_MAP_ROWS && memcmp(key, &other, sizeof(other)) == 0)
		return false;
	if (map == DNS_MAP_SOURCES)
		return bpf_map_delete_elem(bpf->fds[SOURCES], key) == 0;
	if (bpf_map_lookup_elem(table->keys, key, &index) < 0)
		return true;
	if (bpf_map_delete_elem(table->keys, key) < 0)
		return false;
	/* A program may still count a query with this index. */
	gone = add_element(&table->gone, &table->n_gone, &table->gone_allocated);
	*gone = (struct gone){.index = index, .until_us = now + LATE_US};
	table->read_at = 0;
	__atomic_add_fetch(&dns_bpf_control(bpf)->generation, 1, __ATOMIC_RELEASE);
	if (last)
		(void)take_counts(table, index, last);
	return true;
}

void dns_bpf_reuse(struct dns_bpf *bpf, uint64_t now, dns_visit *visit, void *userdata)
{
	struct dns_server counts; /* the larger element */

	for (size_t t = 0; t < ARRAY_SIZE(bpf->tables); t++) {
		struct map_table *table = &bpf->tables[t];
		size_t kept = 0;

		for (size_t i = 0; i < table->n_gone; i++) {
			uint32_t index = table->gone[i].index;

			if (now < table->gone[i].until_us) {
				table->gone[kept++] = table->gone[i];
				continue;
			}
			if (take_counts(table, index, &counts) && t == DNS_MAP_SERVERS)
				visit(userdata, NULL, &counts);
			(void)give(table, index);
		}
		table->n_gone = kept;
	}
}

void dns_bpf_sweep(struct dns_bpf *bpf, uint64_t now, dns_visit_pending *visit, void *userdata)
{
	const struct map_table *servers = &bpf->tables[DNS_MAP_SERVERS];
	const struct dns_control *control = dns_bpf_control(bpf);
	/* Map the overflow buckets when they are first used. */
	bool overflow =
		now < __atomic_load_n(&control->overflow_ns, __ATOMIC_ACQUIRE) + DNS_KEPT_NS;
	size_t n = overflow ? DNS_PRIMARY + DNS_OVERFLOW : DNS_PRIMARY;
	struct dns_bucket *buckets = must(mapping_reach(&bpf->pending, n * sizeof(*buckets)));
	const struct dns_key *keys[DNS_SERVERS_MAX] = {0};

	for (size_t i = 0; i < servers->n_known; i++)
		keys[servers->known[i].index] = &servers->known[i].key.server;
	for (size_t i = 0; i < n * DNS_WAYS; i++) {
		struct dns_pending *way = &buckets[i / DNS_WAYS].ways[i % DNS_WAYS];
		__u64 sent = __atomic_load_n(&way->sent_ns, __ATOMIC_ACQUIRE);
		bool timed_out = now > sent && now - sent > DNS_TIMEOUT_NS;
		enum dns_end end = timed_out ? DNS_END_UNANSWERED : DNS_END_NONE;
		struct dns_pending query;

		if (sent == 0 || sent & DNS_FATE_MASK)
			continue;
		query = *way;
		query.sent_ns = sent;
		/* The kernel may have seen the answer or reused the way during the copy. */
		if (__atomic_load_n(&way->sent_ns, __ATOMIC_ACQUIRE) != sent ||
			(timed_out && !__atomic_compare_exchange_n(&way->sent_ns, &sent,
					      sent | DNS_FATE_LATE, false, __ATOMIC_ACQ_REL,
					      __ATOMIC_RELAXED)))
			continue;
		if (timed_out && query.port == 0 &&
			control->lossy_ns[DNS_LOSSY_INDEX(query.cookie)] >= query.sent_ns)
			end = DNS_END_UNKNOWN;
		visit(userdata, keys[query.server % DNS_SERVERS_MAX], &query, end);
	}
}

void dns_bpf_drain_samples(struct dns_bpf *bpf, dns_visit_sample *visit, void *userdata)
{
	bpf->visit_sample = visit;
	bpf->userdata = userdata;
	ring_buffer__consume(bpf->ring);
}
