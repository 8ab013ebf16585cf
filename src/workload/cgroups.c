/* SPDX-License-Identifier: Apache-2.0 */
#include "workload/cgroups.h"

#include "base/util.h"
#include "workload/cgroup.h"
#include "workload/names.h"
#include "workload/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>

#define KNOWN_MAX       8192
#define DEPTH_MAX       32
#define WALK_EVERY_US   (2 * USEC_PER_SEC)
#define WALK_SHARE      500 /* a walk takes at most this part of the time */
#define ATTEMPTS        5   /* walks after which a directory counts as gone */
#define FORGET_AFTER_US (600 * USEC_PER_SEC)

struct known {
	uint64_t inode;
	bool found;
	unsigned attempts;
	uint64_t wanted_at_us;
	pid_t pid; /* its first process when it was found; 0: none, or not visible */
	uint64_t start_us;
	struct workload workload;
};

struct cgroups {
	const struct host *host;
	int root;            /* -1: none */
	struct known *known; /* by inode */
	size_t n, allocated;
	uint64_t walk_at_us; /* not before */
	size_t missing;      /* that a walk searches */
};

struct cgroups *cgroups_open(const struct host *host, int root)
{
	struct cgroups *cgroups = calloc(1, sizeof(*cgroups));

	if (cgroups)
		*cgroups = (struct cgroups){.host = host, .root = root};
	else if (root >= 0)
		close(root);
	return cgroups;
}

void cgroups_close(struct cgroups *cgroups)
{
	if (cgroups->root >= 0)
		close(cgroups->root);
	free(cgroups->known);
	free(cgroups);
}

static int by_inode(const void *a, const void *b)
{
	const struct known *x = a, *y = b;

	return (x->inode > y->inode) - (x->inode < y->inode);
}

static struct known *find(const struct cgroups *cgroups, uint64_t inode, size_t n)
{
	struct known key = {.inode = inode};

	return n ? bsearch(&key, cgroups->known, n, sizeof(key), by_inode) : NULL;
}

static struct workload unknown_cgroup(uint64_t inode)
{
	struct workload workload = {.kind = WORKLOAD_UNIT};

	snprintf(workload.name, sizeof(workload.name), "cgroup %llu", (unsigned long long)inode);
	return workload;
}

/* Scopes and slices are units too; any other directory is called by its path. */
static struct workload workload_of_path(const char *path)
{
	const char *last = strrchr(path, '/');
	struct workload workload = {.kind = WORKLOAD_UNIT};
	size_t len = strlen(path);
	bool unit = len > 6 && (streq(path + len - 6, ".scope") || streq(path + len - 6, ".slice"));

	if (!cgroup_workload(path, &workload))
		copy_text(workload.name, sizeof(workload.name), unit && last ? last + 1 : path);
	return workload;
}

static void take_directory(
	const struct cgroups *cgroups, struct known *known, int parent, const char *path)
{
	const char *name = strrchr(path, '/') + 1;
	char procs[NAME_MAX + 16], text[32] = "";
	_cleanup_close_ int fd = -1;

	known->found = true;
	known->workload = workload_of_path(path);
	snprintf(procs, sizeof(procs), "%s/cgroup.procs", name);
	fd = openat(parent, procs, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && read(fd, text, sizeof(text) - 1) > 0)
		known->pid = atoi(text);
	if (process_start(cgroups->host->root, known->pid, &known->start_us) < 0)
		known->pid = 0;
}

/* path has room for PATH_MAX; all directories below it are visited. */
static void walk(struct cgroups *cgroups, int parent, const char *name, char *path, unsigned depth)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	DIR *directory = fd < 0 ? NULL : fdopendir(fd);
	size_t len = strlen(path);
	const struct dirent *entry;

	if (!directory) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while (cgroups->missing > 0 && (entry = readdir(directory))) {
		struct known *known;

		if (entry->d_type != DT_DIR || entry->d_name[0] == '.' || depth == 0)
			continue;
		snprintf(path + len, PATH_MAX - len, "/%s", entry->d_name);
		known = find(cgroups, entry->d_ino, cgroups->n);
		if (known && !known->found) {
			take_directory(cgroups, known, dirfd(directory), path);
			cgroups->missing--;
		}
		walk(cgroups, dirfd(directory), entry->d_name, path, depth - 1);
		path[len] = '\0';
	}
	closedir(directory);
}

/* Adds those that are new, once each, and counts those that a walk may find. */
static void take_wanted(struct cgroups *cgroups, const uint64_t *inodes, size_t n, uint64_t now)
{
	size_t sorted = cgroups->n;

	for (size_t i = 0; i < n; i++) {
		struct known *known = find(cgroups, inodes[i], sorted);

		for (size_t k = sorted; k < cgroups->n && !known; k++)
			known = cgroups->known[k].inode == inodes[i] ? &cgroups->known[k] : NULL;
		if (!known && cgroups->n < KNOWN_MAX &&
			grow_array(&cgroups->known, cgroups->n, &cgroups->allocated,
				sizeof(*known)) == 0) {
			known = &cgroups->known[cgroups->n++];
			*known = (struct known){
				.inode = inodes[i], .workload = unknown_cgroup(inodes[i])};
		}
		if (known)
			known->wanted_at_us = now;
	}
	if (cgroups->n > sorted)
		qsort(cgroups->known, cgroups->n, sizeof(*cgroups->known), by_inode);
	cgroups->missing = 0;
	for (size_t i = 0; i < cgroups->n; i++)
		cgroups->missing += !cgroups->known[i].found &&
				    cgroups->known[i].attempts < ATTEMPTS &&
				    cgroups->known[i].wanted_at_us == now;
}

void cgroups_learn(struct cgroups *cgroups, const uint64_t *inodes, size_t n, uint64_t now)
{
	char path[PATH_MAX] = "";
	uint64_t begun;
	size_t kept = 0;

	for (size_t i = 0; i < cgroups->n; i++)
		if (cgroups->n < KNOWN_MAX / 2 ||
			now - cgroups->known[i].wanted_at_us < FORGET_AFTER_US)
			cgroups->known[kept++] = cgroups->known[i];
	cgroups->n = kept;
	take_wanted(cgroups, inodes, n, now);
	if (cgroups->missing == 0 || now < cgroups->walk_at_us || cgroups->root < 0)
		return;
	begun = now_us();
	walk(cgroups, cgroups->root, ".", path, DEPTH_MAX);
	cgroups->walk_at_us = now + MAX(WALK_EVERY_US, (now_us() - begun) * WALK_SHARE);
	for (size_t i = 0; i < cgroups->n; i++)
		cgroups->known[i].attempts++;
}

struct workload cgroups_find(const struct cgroups *cgroups, uint64_t inode)
{
	const struct known *known = find(cgroups, inode, cgroups->n);
	struct workload workload = known ? known->workload : unknown_cgroup(inode);

	/* A pod's name may become known after its cgroup. */
	names_apply(cgroups->host->names, &workload);
	return workload;
}

pid_t cgroups_process(const struct cgroups *cgroups, uint64_t inode)
{
	const struct known *known = find(cgroups, inode, cgroups->n);
	uint64_t start_us;

	return known && known->pid > 0 &&
			       process_start(cgroups->host->root, known->pid, &start_us) == 0 &&
			       start_us == known->start_us
		       ? known->pid
		       : 0;
}
