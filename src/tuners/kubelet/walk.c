/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/kubelet/kubelet.h"

#include "base/file.h"
#include "base/util.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#define DEPTH_MAX 4

void kubelet_paths_clear(struct kubelet_paths *paths)
{
	for (size_t i = 0; i < paths->n; i++)
		free(paths->paths[i]);
	paths->n = 0;
}

int kubelet_paths_add(struct kubelet_paths *paths, const char *path, bool is_file)
{
	if (paths->n == KUBELET_FILES_MAX)
		return -E2BIG;
	paths->paths[paths->n] = strdup(path);
	if (!paths->paths[paths->n])
		return -ENOMEM;
	paths->is_file[paths->n++] = is_file;
	return 0;
}

static int not_dots(const struct dirent *entry)
{
	return !streq(entry->d_name, ".") && !streq(entry->d_name, "..");
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static bool is_drop_in(const char *name)
{
	const char *dot = strrchr(name, '.');

	return dot && streq(dot, ".conf");
}

static int walk(const struct host *host, const char *directory, unsigned depth,
	struct kubelet_paths *paths);

/* real: where the directory is. */
static int take_entry(const struct host *host, const char *directory, const char *real,
	const char *name, unsigned depth, struct kubelet_paths *paths)
{
	char path[SETTING_PATH_MAX], full[PATH_MAX];
	struct stat st;

	if (snprintf(path, sizeof(path), "%s/%s", directory, name) >= (int)sizeof(path) ||
		snprintf(full, sizeof(full), "%s/%s", real, name) >= (int)sizeof(full))
		return -ENAMETOOLONG;
	if (lstat(full, &st) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (S_ISDIR(st.st_mode))
		return depth < DEPTH_MAX ? walk(host, path, depth + 1, paths) : -E2BIG;
	return is_drop_in(name) ? kubelet_paths_add(paths, path, true) : 0;
}

static int walk(
	const struct host *host, const char *directory, unsigned depth, struct kubelet_paths *paths)
{
	_cleanup_free_ struct dirent **entries = NULL;
	char full[PATH_MAX];
	int n, r = kubelet_paths_add(paths, directory, false);

	if (r < 0)
		return r;
	r = path_in_root(host->root, directory, full);
	if (r < 0)
		return r;
	n = scandir(full, &entries, not_dots, by_bytes);
	if (n < 0)
		return -errno;
	for (int i = 0; i < n; i++) {
		if (r == 0)
			r = take_entry(host, directory, full, entries[i]->d_name, depth, paths);
		free(entries[i]);
	}
	return r;
}

int kubelet_walk(const struct host *host, const char *directory, struct kubelet_paths *paths)
{
	return walk(host, directory, 0, paths);
}
