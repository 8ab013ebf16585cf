/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/map_table.h"

#include "base/cleanup.h"
#include "base/util.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bpf/bpf.h>

/* Elements that one system call reads: more than a bucket of the kernel's hash table has. */
#define AT_ONCE 64

int dns_map_each(const struct bpf_map *map, dns_take *take, void *userdata)
{
	size_t key_size = bpf_map__key_size(map), value_size = bpf_map__value_size(map);
	_cleanup_free_ char *keys = calloc(AT_ONCE, key_size);
	_cleanup_free_ char *values = calloc(AT_ONCE, value_size);
	uint32_t position = 0; /* in a hash table: a bucket's number */
	int fd = bpf_map__fd(map), r;
	bool began = false;

	if (!keys || !values)
		return -ENOMEM;
	do {
		uint32_t n = AT_ONCE;

		r = bpf_map_lookup_batch(
			fd, began ? &position : NULL, &position, keys, values, &n, NULL);
		if (r < 0 && errno != ENOENT)
			return -errno;
		for (uint32_t i = 0; i < n; i++)
			take(userdata, keys + i * key_size, values + i * value_size);
		began = true;
	} while (r == 0);
	return 0;
}

int dns_map_array(const struct bpf_map *map, size_t offset, size_t size, void *start)
{
	void *mapped = mmap(
		NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map), (off_t)offset);

	if (mapped == MAP_FAILED)
		return -errno;
	*(void **)start = mapped;
	return 0;
}

static int give(const struct dns_map_table *table, uint32_t index)
{
	return bpf_map_update_elem(table->free, NULL, &index, BPF_ANY) < 0 ? -errno : 0;
}

int dns_map_table_open(struct dns_map_table *table, const struct bpf_map *keys,
	const struct bpf_map *counts, const struct bpf_map *unused, uint32_t first)
{
	int r = 0;

	table->keys = keys;
	table->free = bpf_map__fd(unused);
	table->array = counts;
	table->size = bpf_map__value_size(counts);
	for (uint32_t i = first; r == 0 && i < bpf_map__max_entries(counts); i++)
		r = give(table, i);
	return r;
}

void dns_map_table_close(struct dns_map_table *table)
{
	if (table->counts)
		munmap(table->counts, table->mapped);
	free(table->known);
	free(table->gone);
}

/* Maps the array up to this element. */
static int reach(struct dns_map_table *table, uint32_t index)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), end = (index + (size_t)1) * table->size;
	size_t all = bpf_map__max_entries(table->array) * table->size;
	char *counts = NULL;
	int r;

	if (index >= bpf_map__max_entries(table->array))
		return -ERANGE;
	if (end <= table->mapped)
		return 0;
	end = MIN(MAX(end, 2 * table->mapped), all);
	end = (end + page - 1) / page * page;
	r = dns_map_array(table->array, 0, end, &counts);
	if (r < 0)
		return r;
	if (table->counts)
		munmap(table->counts, table->mapped);
	table->counts = counts;
	table->mapped = end;
	return 0;
}

/* A key and its index, so that each key is aligned as the first is. */
static size_t known_size(const struct dns_map_table *table)
{
	return (bpf_map__key_size(table->keys) + sizeof(uint32_t) + 7) / 8 * 8;
}

static void learn(void *userdata, const void *key, const void *index)
{
	struct dns_map_table *table = userdata;
	size_t size = known_size(table), key_size = bpf_map__key_size(table->keys);
	uint32_t number;
	char *one;

	memcpy(&number, index, sizeof(number));
	if (reach(table, number) < 0 ||
		grow_array(&table->known, table->n_known, &table->known_allocated, size) < 0) {
		table->incomplete = true;
		return;
	}
	one = table->known + table->n_known++ * size;
	memcpy(one, key, key_size);
	memcpy(one + key_size, index, sizeof(uint32_t));
}

int dns_map_table_each(
	struct dns_map_table *table, const __u64 *made, dns_take *take, void *userdata)
{
	/* One more than that is never 0; what is added from now on, it does not have. */
	uint64_t now = __atomic_load_n(made, __ATOMIC_ACQUIRE) + 1;
	size_t size = known_size(table);
	uint32_t index;
	int r;

	if (table->read_at != now) {
		table->read_at = table->n_known = 0;
		table->incomplete = false;
		r = dns_map_each(table->keys, learn, table);
		if (r < 0 || table->incomplete)
			return r < 0 ? r : -ENOMEM;
		table->read_at = now;
	}
	for (size_t i = 0; i < table->n_known; i++) {
		const char *one = table->known + i * size;

		memcpy(&index, one + bpf_map__key_size(table->keys), sizeof(index));
		take(userdata, one, table->counts + index * table->size);
	}
	return 0;
}

void dns_map_table_add(struct dns_map_table *table, const void *key)
{
	int keys = bpf_map__fd(table->keys);
	uint32_t index;

	if (bpf_map_lookup_elem(keys, key, &index) == 0 ||
		bpf_map_lookup_and_delete_elem(table->free, NULL, &index) < 0)
		return;
	/* A program may have been quicker. */
	if (bpf_map_update_elem(keys, key, &index, BPF_NOEXIST) < 0)
		(void)give(table, index);
	table->read_at = 0;
}

bool dns_map_table_remove(struct dns_map_table *table, const void *key, uint64_t until)
{
	int keys = bpf_map__fd(table->keys);
	uint32_t index;

	if (bpf_map_lookup_elem(keys, key, &index) < 0)
		return true;
	if (grow_array(&table->gone, table->n_gone, &table->gone_allocated, sizeof(*table->gone)) <
			0 ||
		bpf_map_delete_elem(keys, key) < 0)
		return false;
	table->gone[table->n_gone].index = index;
	table->gone[table->n_gone++].at_us = until;
	table->read_at = 0;
	return true;
}

void dns_map_table_reuse(struct dns_map_table *table, uint64_t now)
{
	size_t kept = 0;

	for (size_t i = 0; i < table->n_gone; i++) {
		uint32_t index = table->gone[i].index;

		if (now < table->gone[i].at_us || reach(table, index) < 0) {
			table->gone[kept++] = table->gone[i];
			continue;
		}
		memset(table->counts + index * table->size, 0, table->size);
		(void)give(table, index);
	}
	table->n_gone = kept;
}
