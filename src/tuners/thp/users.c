/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/thp/thp.h"

#include "base/file.h"
#include "base/text.h"

#include <dirent.h>

#define STAT_MAX  16384 /* memory.stat has 60 lines */
#define DEPTH_MAX 12

struct walk {
	struct thp_users *users;
	const char *const *names; /* lines of memory.stat whose sum counts, with those below */
};

static const char *const unified[] = {"\nanon_thp ", "\nshmem_thp ", NULL};
static const char *const legacy[] = {"\ntotal_rss_huge ", NULL};

static int by_use(const void *a, const void *b)
{
	const struct limit_user *x = a, *y = b;

	return (x->used < y->used) - (x->used > y->used);
}

/* Returns the bytes in huge pages of a cgroup and of those below it. */
static uint64_t huge_bytes(const struct walk *walk, int directory)
{
	_cleanup_close_ int fd = openat(directory, "memory.stat", O_RDONLY | O_CLOEXEC);
	char text[STAT_MAX];
	uint64_t sum = 0;
	ssize_t n;

	text[0] = '\n';
	n = fd < 0 ? -1 : read(fd, text + 1, sizeof(text) - 2);
	if (n < 0)
		return 0;
	text[n + 1] = '\0';
	for (const char *const *name = walk->names; *name; name++) {
		const char *line = strstr(text, *name);

		sum += line ? strtoull(line + strlen(*name), NULL, 10) : 0;
	}
	return sum;
}

static void add_user(struct walk *walk, const char *path, uint64_t used)
{
	struct limit_user user = {.used = used};
	char line[PATH_MAX + 4];

	snprintf(line, sizeof(line), "0::%s\n", path);
	if (!cgroup_file_workload(line, &user.workload)) {
		user.workload.kind = path[0] ? WORKLOAD_UNIT : WORKLOAD_HOST;
		set_text(user.workload.name, path[0] ? strrchr(path, '/') + 1 : "");
	}
	keep_first(walk->users->users, &walk->users->n, FINDING_USERS_MAX, sizeof(user), &user,
		by_use);
}

/* Returns the bytes below this cgroup. What its children do not have is its own. */
static uint64_t walk_cgroup(struct walk *walk, int parent, const char *path, int depth)
{
	const char *name = path[0] ? strrchr(path, '/') + 1 : ".";
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct workload workload;
	char line[PATH_MAX + 4];
	const struct dirent *entry;
	uint64_t used, below = 0;
	DIR *directory;

	if (fd < 0)
		return 0;
	used = huge_bytes(walk, fd);
	directory = fdopendir(fd);
	snprintf(line, sizeof(line), "0::%s\n", path);
	/* The root of cgroup2 has no such file in older kernels. */
	if ((used > 0 || !path[0]) && depth < DEPTH_MAX && !cgroup_file_workload(line, &workload))
		while (directory && (entry = readdir(directory))) {
			char child[PATH_MAX];

			if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
				continue;
			snprintf(child, sizeof(child), "%s/%s", path, entry->d_name);
			below += walk_cgroup(walk, fd, child, depth + 1);
		}
	if (used > below)
		add_user(walk, path, used - below);
	if (directory)
		closedir(directory);
	else
		close(fd);
	return used;
}

void thp_find_users(const struct host *host, struct thp_users *users)
{
	struct walk walk = {users, legacy};
	_cleanup_close_ int root = -1;
	char why[256];

	users->n = 0;
	root = cgroup_root_open(host, "memory", why, sizeof(why));
	if (root < 0) {
		walk.names = unified;
		root = cgroup_root_open(host, NULL, why, sizeof(why));
	}
	if (root >= 0)
		walk_cgroup(&walk, root, "", 0);
}
