/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Estimates how full BPF maps are where the kernel does not count the elements of a hash table,
 * before Linux 6.6. Without CAP_SYS_ADMIN only a map that is pinned in a bpffs can be opened. A
 * batch of its elements fills some buckets: the others are as full, because keys are hashed. A
 * count of all elements would take milliseconds for each map.
 */
#include "tuners/limits/limits.h"

#include "base/file.h"
#include "kernel/host.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <headroom/bpf/census.h>

#define AT_ONCE     8       /* maps for each pass */
#define BATCH       4096    /* elements of a sample */
#define BATCH_BYTES 1048576 /* its largest size */
#define DEPTH_MAX   16      /* directories */
#define FILES_MAX   4096    /* of all bpffs */
#define BPFFS_MAX   8

struct pinned {
	uint64_t at_us; /* of its last estimate */
	uint32_t id;
	char path[PATH_MAX];
};

struct bpffs_walk {
	struct limits_estimates *estimates;
	const struct census_map *maps;
	size_t n_maps, n_files;
	struct pinned due[AT_ONCE]; /* those whose estimate is the oldest */
	size_t n_due;
};

static int open_map(const char *path, struct bpf_map_info *info)
{
	LIBBPF_OPTS(bpf_obj_get_opts, options, .file_flags = BPF_F_RDONLY);
	uint32_t size = sizeof(*info), next, none = 0;
	int fd = bpf_obj_get_opts(path, &options);

	*info = (struct bpf_map_info){0};
	/* An empty batch is an error for a program or a link. */
	if (fd >= 0 && bpf_map_lookup_batch(fd, NULL, &next, NULL, NULL, &none, NULL) == 0 &&
		bpf_obj_get_info_by_fd(fd, info, &size) == 0)
		return fd;
	cleanup_close(&fd);
	return -1;
}

static struct limits_estimate *estimate_of(struct limits_estimates *estimates, uint32_t id)
{
	for (size_t i = 0; i < estimates->n; i++)
		if (estimates->list[i].id == id)
			return &estimates->list[i];
	return NULL;
}

static bool is_wanted(const struct bpffs_walk *walk, uint32_t id)
{
	for (size_t i = 0; i < walk->n_maps; i++)
		if (walk->maps[i].id == id)
			return true;
	return false;
}

static int by_age(const void *a, const void *b)
{
	const struct pinned *x = a, *y = b;

	return (x->at_us > y->at_us) - (x->at_us < y->at_us);
}

static void visit_file(struct bpffs_walk *walk, const char *path)
{
	struct bpf_map_info info;
	_cleanup_close_ int fd = open_map(path, &info);
	struct limits_estimate *known;
	struct pinned pinned;

	if (fd < 0 || !is_wanted(walk, info.id))
		return;
	known = estimate_of(walk->estimates, info.id);
	/* A map can be pinned twice. */
	if (known && known->is_pinned)
		return;
	if (!known) {
		known = add_element(
			&walk->estimates->list, &walk->estimates->n, &walk->estimates->allocated);
		known->id = info.id;
	}
	known->is_pinned = true;
	pinned = (struct pinned){.at_us = known->at_us, .id = info.id};
	set_text(pinned.path, path);
	keep_first(walk->due, &walk->n_due, AT_ONCE, sizeof(pinned), &pinned, by_age);
}

/* path is a buffer, which has the same text again afterwards. */
static void walk_directory(struct bpffs_walk *walk, char path[static PATH_MAX], unsigned depth)
{
	_cleanup_(cleanup_closedir) DIR *directory = opendir(path);
	size_t len = strlen(path);
	const struct dirent *entry;

	while (directory && walk->n_files < FILES_MAX && (entry = readdir(directory))) {
		if (entry->d_name[0] == '.' || snprintf(path + len, PATH_MAX - len, "/%s",
						       entry->d_name) >= (int)(PATH_MAX - len))
			continue;
		if (entry->d_type == DT_DIR && depth < DEPTH_MAX)
			walk_directory(walk, path, depth + 1);
		if (entry->d_type == DT_REG) {
			walk->n_files++;
			visit_file(walk, path);
		}
		path[len] = '\0';
	}
	path[len] = '\0';
}

static void walk_all(const struct host *host, struct bpffs_walk *walk)
{
	_cleanup_fclose_ FILE *mounts = mounts_open(host->root);
	struct mount *mount = must(malloc(sizeof(*mount)));
	dev_t seen[BPFFS_MAX];
	char path[PATH_MAX];
	size_t n = 0;

	while (n < BPFFS_MAX && mounts_next(mounts, mount)) {
		bool is_new = streq(mount->type, "bpf");

		for (size_t i = 0; i < n; i++)
			is_new &= seen[i] != mount->device;
		if (!is_new)
			continue;
		seen[n++] = mount->device;
		host_path(host, mount->point, path);
		walk_directory(walk, path, 0);
	}
	free(mount);
}

static size_t value_size(const struct bpf_map_info *info)
{
	bool is_percpu = info->type == BPF_MAP_TYPE_PERCPU_HASH ||
			 info->type == BPF_MAP_TYPE_LRU_PERCPU_HASH;
	size_t rounded = (info->value_size + 7) & ~(size_t)7;

	return is_percpu ? rounded * (size_t)MAX(libbpf_num_possible_cpus(), 1) : rounded;
}

static void estimate(const struct pinned *pinned, struct limits_estimate *known)
{
	struct bpf_map_info info;
	_cleanup_close_ int fd = open_map(pinned->path, &info);
	_cleanup_free_ char *keys = NULL, *values = NULL;
	size_t size = value_size(&info);
	uint64_t buckets = 1;
	uint32_t next = 0, n;
	int r;

	/* The path may have another map now. */
	if (fd < 0 || info.id != pinned->id)
		return;
	n = (uint32_t)MIN((size_t)BATCH, BATCH_BYTES / (info.key_size + size) + 1);
	keys = must(calloc(n, info.key_size));
	values = must(calloc(n, size));
	r = bpf_map_lookup_batch(fd, NULL, &next, keys, values, &n, NULL);
	known->is_complete = r == -ENOENT;
	if (known->is_complete) {
		known->used = n;
	} else if (r == 0 && next > 0) {
		while (buckets < info.max_entries)
			buckets *= 2;
		/* An estimate is not exact enough to say that the map is full. */
		known->used = (uint32_t)MIN(n * buckets / next, (uint64_t)info.max_entries - 1);
	} else {
		return;
	}
	known->at_us = now_us();
}

static void keep_pinned(struct limits_estimates *estimates)
{
	size_t kept = 0;

	for (size_t i = 0; i < estimates->n; i++)
		if (estimates->list[i].is_pinned)
			estimates->list[kept++] = estimates->list[i];
	estimates->n = kept;
}

void limits_estimate_maps(const struct host *host, struct limits_estimates *estimates,
	struct census_map *maps, size_t n)
{
	struct bpffs_walk *walk = must(calloc(1, sizeof(*walk)));

	*walk = (struct bpffs_walk){.estimates = estimates, .maps = maps, .n_maps = n};
	for (size_t i = 0; i < estimates->n; i++)
		estimates->list[i].is_pinned = false;
	walk_all(host, walk);
	keep_pinned(estimates);
	for (size_t i = 0; i < walk->n_due; i++)
		estimate(&walk->due[i], estimate_of(estimates, walk->due[i].id));
	free(walk);
	for (size_t i = 0; i < n; i++) {
		const struct limits_estimate *known = estimate_of(estimates, maps[i].id);

		if (!known || known->at_us == 0)
			continue;
		maps[i].used = known->used;
		maps[i].is_estimate = !known->is_complete;
	}
}
