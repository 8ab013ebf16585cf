/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes BPF maps, fills them and keeps them: bpf_maps [TYPE:NAME:MAX:N[:PIN]]... TYPE is hash,
 * nopre, percpu, lru, percpu-lru, lpm, array or lone-lru, which one CPU fills. It prints "NAME ID"
 * for each map, then "ready". A line "NAME N" on standard input adds elements up to N or removes
 * those above it, and "NAME" alone removes the map. It answers with the last error, 0 if none.
 */
#include "base/util.h"

#include <sched.h>
#include <stdio.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#define MAPS_MAX 2048

static const struct kind {
	char name[16];
	enum bpf_map_type type;
	uint32_t flags;
} kinds[] = {
	{"hash", BPF_MAP_TYPE_HASH, 0},
	{"nopre", BPF_MAP_TYPE_HASH, BPF_F_NO_PREALLOC},
	{"percpu", BPF_MAP_TYPE_PERCPU_HASH, 0},
	{"lru", BPF_MAP_TYPE_LRU_HASH, 0},
	{"lone-lru", BPF_MAP_TYPE_LRU_HASH, BPF_F_NO_COMMON_LRU},
	{"percpu-lru", BPF_MAP_TYPE_LRU_PERCPU_HASH, 0},
	{"lpm", BPF_MAP_TYPE_LPM_TRIE, BPF_F_NO_PREALLOC},
	{"array", BPF_MAP_TYPE_ARRAY, 0},
};

static struct map {
	char name[64];
	int fd;
	unsigned n;
	bool is_trie;
} maps[MAPS_MAX];
static size_t n_maps;
static void *value;

static int change(struct map *map, unsigned n)
{
	int error = 0;

	while (map->n != n) {
		bool adds = map->n < n;
		unsigned number = adds ? map->n++ : --map->n;
		/* The key of a trie is the length of a prefix and an address. */
		uint32_t key[2] = {map->is_trie ? 32 : number, number};
		int r = adds ? bpf_map_update_elem(map->fd, key, value, BPF_ANY)
			     : bpf_map_delete_elem(map->fd, key);

		error = r < 0 ? r : error;
	}
	return error;
}

static void make(char *text)
{
	const char *type = strsep(&text, ":"), *name = strsep(&text, ":");
	const char *max = strsep(&text, ":"), *n = strsep(&text, ":");
	const struct kind *kind = find_named(kinds, ARRAY_SIZE(kinds), type);
	struct map *map = &maps[n_maps++];
	struct bpf_map_info info = {0};
	uint32_t size = sizeof(info);
	cpu_set_t first;

	if (!kind || !n || n_maps > MAPS_MAX)
		exit(64);
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = kind->flags);
	set_text(map->name, name);
	map->is_trie = kind->type == BPF_MAP_TYPE_LPM_TRIE;
	map->fd = bpf_map_create(
		kind->type, name, map->is_trie ? 8 : 4, 8, (unsigned)atoi(max), &options);
	if (map->fd < 0 || bpf_obj_get_info_by_fd(map->fd, &info, &size) < 0 ||
		(text && bpf_obj_pin(map->fd, text) < 0)) {
		perror(name);
		exit(1);
	}
	if (streq(type, "lone-lru")) {
		CPU_ZERO(&first);
		CPU_SET(0, &first);
		(void)sched_setaffinity(0, sizeof(first), &first);
	}
	change(map, (unsigned)atoi(n));
	printf("%s %u\n", name, info.id);
}

int main(int argc, char **argv)
{
	char name[64];
	unsigned n;

	value = must(calloc((size_t)libbpf_num_possible_cpus(), 8));
	for (int i = 1; i < argc; i++)
		make(argv[i]);
	printf("ready\n");
	fflush(stdout);
	for (char line[128]; fgets(line, sizeof(line), stdin);) {
		int fields = sscanf(line, "%63s %u", name, &n), error = 0;

		for (size_t i = 0; fields > 0 && i < n_maps; i++) {
			if (!streq(maps[i].name, name))
				continue;
			if (fields == 2)
				error = change(&maps[i], n);
			else
				close(maps[i].fd);
		}
		printf("%d\n", error);
		fflush(stdout);
	}
	return 0;
}
