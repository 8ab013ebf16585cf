/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/neighbor/neighbor.h"

#include "kernel/bpf.h"

#include <bpf/bpf.h>

#include "neighbor.skel.h"

/* Counting costs a system call for each 256 namespaces and devices. */
#define COUNT_EVERY_US (2 * USEC_PER_SEC)

/* A sum that does not match is corrected by walking the table, 200 ns an entry. */
#define WALK_EVERY_US       (60 * USEC_PER_SEC)
#define WALK_AGAIN_AFTER_US (5 * USEC_PER_SEC)

bool neighbor_users_sample(struct neighbor_bpf_object *object)
{
	LIBBPF_OPTS(bpf_test_run_opts, options);

	return bpf_prog_test_run_opts(bpf_program__fd(object->progs.sample), &options) == 0;
}

static uint64_t count_events(const struct neighbor_users *users)
{
	const struct neighbor_record *records = users->object->bss->records;
	uint64_t sum = 0;

	for (int family = 0; family < NEIGHBOR_FAMILIES; family++)
		sum += records[family].created + records[family].removed + records[family].refused;
	return sum;
}

static void take_row(void *userdata, const void *key, const void *value)
{
	struct neighbor_users *users = userdata;
	const struct neighbor_count *count = value;
	struct neighbor_row *row =
		add_element(&users->rows, &users->n, &users->allocated, sizeof(*row));

	memcpy(&row->key, key, sizeof(row->key));
	row->used = (int64_t)(count->created - count->exempt - count->removed);
}

/* When the map cannot be read, rows are missing, and the sum does not match. */
static void read_map(struct neighbor_users *users, const struct bpf_map *map)
{
	users->n = 0;
	(void)bpf_each(map, take_row, users);
}

static void clear_map(const struct bpf_map *map)
{
	struct neighbor_key key;

	while (bpf_map_get_next_key(bpf_map__fd(map), NULL, &key) == 0)
		bpf_map_delete_elem(bpf_map__fd(map), &key);
}

/*
 * The counts start again from what is in the table. Entries that come or go meanwhile make them
 * wrong: then the next walk is soon.
 */
static void walk(struct neighbor_users *users)
{
	LIBBPF_OPTS(bpf_test_run_opts, options);
	const struct bpf_map *walked = users->object->maps.walked;
	const struct bpf_map *counts = users->object->maps.counts;
	struct neighbor_bpf_object__bss *shared = users->object->bss;
	int program = bpf_program__fd(users->object->progs.walk);

	clear_map(walked);
	for (uint32_t family = 0; family < NEIGHBOR_FAMILIES; family++) {
		shared->walk_family = family;
		shared->walk_bucket = 0;
		do {
			if (bpf_prog_test_run_opts(program, &options) < 0)
				break;
			shared->walk_bucket += NEIGHBOR_WALK_BUCKETS;
		} while (shared->walk_bucket < shared->walk_buckets);
	}
	read_map(users, walked);
	clear_map(walked);
	clear_map(counts);
	for (size_t i = 0; i < users->n; i++)
		bpf_map_update_elem(bpf_map__fd(counts), &users->rows[i].key,
			&(struct neighbor_count){.created = (uint64_t)users->rows[i].used},
			BPF_ANY);
}

/* A row begins with its key. */
static int by_key(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct neighbor_key));
}

static int by_use(const void *a, const void *b)
{
	const struct neighbor_row *x = a, *y = b;

	return (x->used < y->used) - (x->used > y->used);
}

static void count(struct neighbor_users *users)
{
	const struct bpf_map *map = users->object->maps.counts;
	size_t kept = 0;

	read_map(users, map);
	for (size_t i = 0; i < users->n; i++) {
		/*
		 * So that namespaces that died leave no trace. An entry made just now is lost: the
		 * sum will not match, and be corrected.
		 */
		if (users->rows[i].used == 0)
			bpf_map_delete_elem(bpf_map__fd(map), &users->rows[i].key);
		/* By namespace, whatever its devices. */
		users->rows[i].key.ifindex = 0;
	}
	if (users->n == 0)
		return;
	qsort(users->rows, users->n, sizeof(*users->rows), by_key);
	for (size_t i = 0; i < users->n; i++) {
		if (kept > 0 && by_key(&users->rows[kept - 1], &users->rows[i]) == 0)
			users->rows[kept - 1].used += users->rows[i].used;
		else
			users->rows[kept++] = users->rows[i];
	}
	users->n = kept;
	qsort(users->rows, users->n, sizeof(*users->rows), by_use);
}

/* False when the kernel's own count is another, unless entries came or went since the last count.
 */
static bool matches(const struct neighbor_users *users)
{
	const struct neighbor_record *records = users->object->bss->records;
	int64_t sums[NEIGHBOR_FAMILIES] = {0};
	bool equal = true;

	if (!neighbor_users_sample(users->object))
		return true;
	for (size_t i = 0; i < users->n; i++)
		sums[users->rows[i].key.family & 1] += users->rows[i].used;
	for (int family = 0; family < NEIGHBOR_FAMILIES; family++)
		if (records[family].sampled && sums[family] != (int64_t)records[family].collectable)
			equal = false;
	return equal || count_events(users) != users->events;
}

static void learn_owners(struct neighbor_users *users, uint64_t now)
{
	uint32_t netns[2 * NEIGHBOR_FAMILIES * LIMIT_TOP_MAX];
	const struct neighbor_record *records = users->object->bss->records;
	unsigned seen[NEIGHBOR_FAMILIES] = {0};
	size_t n = 0;

	for (size_t i = 0; i < users->n; i++) {
		unsigned family = users->rows[i].key.family & 1;

		if (users->rows[i].used > 0 && seen[family]++ < LIMIT_TOP_MAX)
			netns[n++] = users->rows[i].key.netns;
	}
	for (int family = 0; family < NEIGHBOR_FAMILIES; family++)
		if (records[family].last.netns)
			netns[n++] = records[family].last.netns;
	netns_owners_learn(users->owners, netns, n, now);
}

void neighbor_users_update(struct neighbor_users *users, uint64_t now)
{
	uint64_t events = count_events(users);
	bool first = users->counted_at_us == 0;

	if (users->started_at_us == 0)
		users->started_at_us = now;
	if (now - users->started_at_us < NEIGHBOR_START_US ||
		(!first && now - users->counted_at_us < COUNT_EVERY_US))
		return;
	if (first || users->wrong || events != users->events) {
		users->events = events;
		count(users);
		users->wrong = !matches(users);
		if (users->wrong && now >= users->next_walk_us) {
			walk(users);
			users->next_walk_us =
				now + (count_events(users) == events ? WALK_EVERY_US
								     : WALK_AGAIN_AFTER_US);
			count(users);
			users->wrong = !matches(users);
		}
	}
	users->counted_at_us = now;
	learn_owners(users, now);
}

unsigned neighbor_users_top(const struct neighbor_users *users, enum neighbor_family family,
	struct limit_user top[static LIMIT_TOP_MAX])
{
	unsigned n = 0;

	for (size_t i = 0; i < users->n && n < LIMIT_TOP_MAX; i++) {
		const struct neighbor_row *row = &users->rows[i];

		if (row->key.family != family || row->used <= 0)
			continue;
		top[n].workload = netns_owners_find(users->owners, row->key.netns);
		top[n++].used = (uint64_t)row->used;
	}
	return n;
}

struct workload neighbor_users_refused(
	struct neighbor_users *users, enum neighbor_family family, uint64_t now)
{
	const struct neighbor_record *record = &users->object->bss->records[family];
	struct netns_event *event = &users->refusals[family];

	netns_event_update(event, users->owners, record->last.netns,
		record->refused != users->refused[family], now);
	users->refused[family] = record->refused;
	return event->owner;
}
