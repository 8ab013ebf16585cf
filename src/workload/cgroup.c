/* SPDX-License-Identifier: Apache-2.0 */
#include "workload/cgroup.h"

#include "base/file.h"
#include "workload/process.h"

#include <ctype.h>
#include <mntent.h>

#define HEX              "0123456789abcdefABCDEF"
#define LXD              "lxc.payload."
#define CONTAINER_ID_LEN 64
#define SHORT_ID_LEN     12
#define UID_LEN          36
#define STATIC_UID_LEN   32

#define KNOWN_MAX       8192
#define DEPTH_MAX       32
#define WALK_EVERY_US   (2 * USEC_PER_SEC)
#define WALK_SHARE      500 /* walks use at most 1/500 of the time */
#define ATTEMPTS        5   /* walks before an inode counts as removed */
#define FORGET_AFTER_US (600 * USEC_PER_SEC)

/*
 * Parses "podUID" below kubepods, or "kubepods-burstable-podUID.slice" with '_' for '-'. The uid of
 * a static pod has 32 hexadecimal digits and no dashes.
 */
static bool parse_pod(const char *component, struct workload *workload)
{
	const char *pod = strstr(component, "pod");
	size_t n;

	/* No uid follows the "pod" of "kubepods". */
	while (pod && !isxdigit((unsigned char)pod[3]))
		pod = strstr(pod + 3, "pod");
	if (!pod || (pod != component && pod[-1] != '-'))
		return false;
	n = strspn(pod + 3, HEX "-_");
	if ((n != STATIC_UID_LEN && n != UID_LEN) || (pod[3 + n] && pod[3 + n] != '.'))
		return false;
	*workload = (struct workload){.kind = WORKLOAD_POD};
	copy_text(workload->id, n + 1, pod + 3);
	for (char *p = workload->id; *p; p++)
		*p = *p == '_' ? '-' : *p;
	set_text(workload->name, workload->id);
	return true;
}

/* Parses "docker-<64 hex>.scope", "cri-containerd-<64 hex>.scope", or the digits alone. */
static bool parse_container(const char *component, struct workload *workload)
{
	const char *dash = strrchr(component, '-');
	const char *id = dash ? dash + 1 : component;

	if (strspn(id, HEX) != CONTAINER_ID_LEN || starts_with(component, "crio-conmon-") ||
		(id[CONTAINER_ID_LEN] && id[CONTAINER_ID_LEN] != '.'))
		return false;
	*workload = (struct workload){.kind = WORKLOAD_CONTAINER};
	copy_text(workload->name, SHORT_ID_LEN + 1, id);
	copy_text(workload->id, CONTAINER_ID_LEN + 1, id);
	return true;
}

static bool path_workload(const char *path, struct workload *workload)
{
	bool in_kubepods = strstr(path, "kubepods") != NULL, found = false;
	char copy[PATH_MAX], *state = NULL;

	set_text(copy, path);
	/* From the root down: users know the outermost workload. */
	for (char *part = strtok_r(copy, "/", &state); part && !found;
		part = strtok_r(NULL, "/", &state)) {
		size_t len = strlen(part);
		bool lxd = starts_with(part, LXD) && part[strlen(LXD)];

		found = in_kubepods ? parse_pod(part, workload) : parse_container(part, workload);
		if (!found && (lxd || (len > 8 && streq(part + len - 8, ".service")))) {
			*workload = (struct workload){.kind = lxd ? WORKLOAD_LXD : WORKLOAD_UNIT};
			set_text(workload->name, lxd ? part + strlen(LXD) : part);
			found = true;
		}
	}
	return found;
}

bool cgroup_file_workload(const char *text, struct workload *workload)
{
	bool found = false;

	/* Each line is hierarchy-ID:controllers:path, cgroups(7). */
	for (size_t len; *text; text += len + (text[len] == '\n')) {
		struct workload candidate;
		char line[PATH_MAX];
		const char *path;

		len = strcspn(text, "\n");
		snprintf(line, sizeof(line), "%.*s", (int)len, text);
		path = strchr(line, ':');
		path = path ? strchr(path + 1, ':') : NULL;
		/* The cgroup of a container may be below its runtime's unit. */
		if (!path || !path_workload(path + 1, &candidate) ||
			(found && (workload->kind != WORKLOAD_UNIT ||
					  candidate.kind == WORKLOAD_UNIT)))
			continue;
		*workload = candidate;
		found = true;
	}
	return found;
}

int cgroup_root_open(const struct host *host, const char *controller, char *why, size_t size)
{
	/* A container finds the mounts of the host in the host's first process. */
	const char *mounts = host->root[0] ? "/proc/1/mounts" : "/proc/self/mounts";
	const struct mntent *mount;
	char full[PATH_MAX];
	FILE *file;
	int root = -1;

	snprintf(why, size, "no cgroup2 is mounted: mount -t cgroup2 none /sys/fs/cgroup/unified");
	file = setmntent(host_path(host, mounts, full), "re");
	if (!file) {
		snprintf(why, size,
			"%.200s: %s: it lists the cgroup2 mount; mount the host's /proc", full,
			strerror(errno));
		return -1;
	}
	while (root < 0 && (mount = getmntent(file))) {
		_cleanup_close_ int fd = -1;
		struct stat st;

		if (!streq(mount->mnt_type, controller ? "cgroup" : "cgroup2") ||
			(controller && !hasmntopt(mount, controller)))
			continue;
		fd = open(
			host_path(host, mount->mnt_dir, full), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0 || fstat(fd, &st) < 0)
			snprintf(why, size, "%.200s: %s: let the agent read the host's cgroup2",
				full, strerror(errno));
		else if (st.st_ino == CGROUP_ROOT_INODE)
			root = steal_fd(&fd);
		else
			snprintf(why, size,
				"%.180s is not the host's root of cgroup2 but a container's: mount "
				"the host's /sys/fs/cgroup, and give the agent the host's cgroup "
				"namespace",
				full);
	}
	endmntent(file);
	return root;
}

struct known_cgroup {
	uint64_t inode;
	bool found;
	unsigned attempts;
	uint64_t wanted_at_us;
	pid_t pid; /* its first process at the time of the walk; 0: none, or not visible */
	uint64_t start_us;
	struct workload workload;
};

struct cgroups {
	const struct host *host;
	const struct names *names;
	int root;                   /* -1: none */
	struct known_cgroup *known; /* by inode */
	size_t n, allocated;
	uint64_t walk_at_us; /* no walk before this time */
	size_t missing;      /* wanted cgroups that the walk has not found yet */
};

struct cgroups *cgroups_open(const struct host *host, const struct names *names, int root)
{
	struct cgroups *cgroups = must(calloc(1, sizeof(*cgroups)));

	*cgroups = (struct cgroups){.host = host, .names = names, .root = root};
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
	const struct known_cgroup *x = a, *y = b;

	return (x->inode > y->inode) - (x->inode < y->inode);
}

static struct known_cgroup *find_known(const struct cgroups *cgroups, uint64_t inode, size_t n)
{
	struct known_cgroup key = {.inode = inode};

	return n ? bsearch(&key, cgroups->known, n, sizeof(key), by_inode) : NULL;
}

static struct workload unknown_cgroup(uint64_t inode)
{
	struct workload workload = {.kind = WORKLOAD_UNIT};

	snprintf(workload.name, sizeof(workload.name), "cgroup %llu", (unsigned long long)inode);
	return workload;
}

void cgroups_name(struct cgroups *cgroups, uint64_t inode, const char *path)
{
	struct known_cgroup *known = find_known(cgroups, inode, cgroups->n);
	size_t len = strlen(path);
	bool unit = len > 6 && (streq(path + len - 6, ".scope") || streq(path + len - 6, ".slice"));

	if (!known || known->found)
		return;
	known->found = true;
	cgroups->missing--;
	/* Scopes and slices are units too. The name of any other directory is its path. */
	if (!path_workload(path, &known->workload)) {
		known->workload = (struct workload){.kind = WORKLOAD_UNIT};
		set_text(known->workload.name, unit ? strrchr(path, '/') + 1 : path);
	}
}

static void read_directory(
	const struct cgroups *cgroups, struct known_cgroup *known, int parent, const char *name)
{
	char procs[NAME_MAX + 16], text[32] = "";
	_cleanup_close_ int fd = -1;

	snprintf(procs, sizeof(procs), "%s/cgroup.procs", name);
	fd = openat(parent, procs, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && read(fd, text, sizeof(text) - 1) > 0)
		known->pid = atoi(text);
	if (process_start(cgroups->host->root, known->pid, &known->start_us) < 0)
		known->pid = 0;
}

/* Visits all directories below path, a buffer of PATH_MAX bytes. */
static void walk_directory(
	struct cgroups *cgroups, int parent, const char *name, char *path, unsigned depth)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	_cleanup_(cleanup_closedir) DIR *directory = fd < 0 ? NULL : fdopendir(fd);
	size_t len = strlen(path);
	const struct dirent *entry;

	if (!directory)
		cleanup_close(&fd);
	while (directory && cgroups->missing > 0 && (entry = readdir(directory))) {
		struct known_cgroup *known;

		if (entry->d_type != DT_DIR || entry->d_name[0] == '.' || depth == 0)
			continue;
		snprintf(path + len, PATH_MAX - len, "/%s", entry->d_name);
		known = find_known(cgroups, entry->d_ino, cgroups->n);
		if (known && !known->found) {
			cgroups_name(cgroups, entry->d_ino, path);
			read_directory(cgroups, known, dirfd(directory), entry->d_name);
		}
		walk_directory(cgroups, dirfd(directory), entry->d_name, path, depth - 1);
		path[len] = '\0';
	}
}

bool cgroups_learn(struct cgroups *cgroups, const uint64_t *inodes, size_t n, uint64_t now)
{
	char path[PATH_MAX] = "";
	uint64_t begun;
	size_t kept = 0;

	for (size_t i = 0; i < cgroups->n; i++)
		if (cgroups->n < KNOWN_MAX / 2 ||
			now - cgroups->known[i].wanted_at_us < FORGET_AFTER_US)
			cgroups->known[kept++] = cgroups->known[i];
	cgroups->n = kept;
	/* Append each new inode once. */
	for (size_t i = 0; i < n; i++) {
		struct known_cgroup *known = find_known(cgroups, inodes[i], kept);

		for (size_t k = kept; k < cgroups->n && !known; k++)
			known = cgroups->known[k].inode == inodes[i] ? &cgroups->known[k] : NULL;
		if (!known && cgroups->n < KNOWN_MAX) {
			known = add_element(&cgroups->known, &cgroups->n, &cgroups->allocated);
			*known = (struct known_cgroup){
				.inode = inodes[i], .workload = unknown_cgroup(inodes[i])};
		}
		if (known)
			known->wanted_at_us = now;
	}
	if (cgroups->n > kept)
		qsort(cgroups->known, cgroups->n, sizeof(*cgroups->known), by_inode);
	cgroups->missing = 0;
	for (size_t i = 0; i < cgroups->n; i++)
		cgroups->missing += !cgroups->known[i].found &&
				    cgroups->known[i].attempts < ATTEMPTS &&
				    cgroups->known[i].wanted_at_us == now;
	if (cgroups->missing == 0 || now < cgroups->walk_at_us || cgroups->root < 0)
		return cgroups->missing > 0;
	begun = now_us();
	walk_directory(cgroups, cgroups->root, ".", path, DEPTH_MAX);
	cgroups->walk_at_us = now + MAX(WALK_EVERY_US, (now_us() - begun) * WALK_SHARE);
	for (size_t i = 0; i < cgroups->n; i++)
		cgroups->known[i].attempts++;
	return cgroups->missing > 0;
}

struct workload cgroups_find(const struct cgroups *cgroups, uint64_t inode)
{
	const struct known_cgroup *known = find_known(cgroups, inode, cgroups->n);
	struct workload workload = known ? known->workload : unknown_cgroup(inode);

	/* The runtime may name a pod after its cgroup was found. */
	names_apply(cgroups->names, &workload);
	return workload;
}

pid_t cgroups_process(const struct cgroups *cgroups, uint64_t inode)
{
	const struct known_cgroup *known = find_known(cgroups, inode, cgroups->n);

	return known && process_is(cgroups->host->root, known->pid, known->start_us) ? known->pid
										     : 0;
}

static int by_id(const void *a, const void *b)
{
	const struct name_entry *left = a, *right = b;

	return strcmp(left->workload.id, right->workload.id);
}

void names_replace(struct names *names, const char *source, struct name_entry *entries, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < names->n; i++)
		if (!streq(names->entries[i].source, source))
			names->entries[kept++] = names->entries[i];
	names->n = kept;
	for (size_t i = 0; i < n; i++) {
		entries[i].source = source;
		*add_element(&names->entries, &names->n, &names->allocated) = entries[i];
	}
	free(entries);
	if (names->n > 0)
		qsort(names->entries, names->n, sizeof(*entries), by_id);
}

bool names_apply(const struct names *names, struct workload *workload)
{
	struct name_entry key = {.workload = *workload};
	const struct name_entry *found = NULL;

	if (names && names->n > 0 && workload->id[0])
		found = bsearch(&key, names->entries, names->n, sizeof(key), by_id);
	if (found)
		*workload = found->workload;
	return found != NULL;
}

bool names_at_address(const struct names *names, const char *address, struct workload *workload)
{
	for (size_t i = 0; names && address[0] && i < names->n; i++)
		if (streq(names->entries[i].address, address)) {
			*workload = names->entries[i].workload;
			return true;
		}
	return false;
}
