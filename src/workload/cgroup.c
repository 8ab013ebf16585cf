/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names workloads. The parts, in order: what the path of a cgroup says; the programs that record
 * new and removed cgroups; the workloads of cgroups by inode, from that record and from walks
 * through all directories; the names that runtimes give to pods and containers. Only the loop uses
 * them; cgroup_watch_load() alone runs on a thread.
 */
#include "workload/cgroup.h"

#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "workload/process.h"

#include <ctype.h>
#include <mntent.h>
#include <sys/mman.h>

#include <bpf/bpf.h>
#include <headroom/bpf/cgroup.h>

#include "cgroup.skel.h"

#define HEX              "0123456789abcdefABCDEF"
#define LXD              "lxc.payload."
#define CONTAINER_ID_LEN 64
#define SHORT_ID_LEN     12
#define UID_LEN          36
#define STATIC_UID_LEN   32

#define KNOWN_MAX       8192
#define DEPTH_MAX       32
#define WALK_EVERY_US   (2 * USEC_PER_SEC)
#define WALK_NOW_US     USEC_PER_SEC
#define WALK_SHARE      500 /* walks use at most 1/500 of a CPU */
#define ATTEMPTS        5   /* walks before an inode counts as removed */
#define WANTED_US       (10 * USEC_PER_SEC)
#define GONE_MAX        256 /* names kept after their runtimes have forgotten them */
#define FORGET_AFTER_US (600 * USEC_PER_SEC)

/* ---- paths ---- */

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

/* end, which may be NULL, is the length of the path up to the workload's cgroup. */
static bool path_workload(const char *path, struct workload *workload, size_t *end)
{
	bool in_kubepods = strstr(path, "kubepods") != NULL, found = false, of_user = false;
	char copy[PATH_MAX], *state = NULL;

	set_text(copy, path);
	/* From the root down: users know the outermost workload. */
	for (char *part = strtok_r(copy, "/", &state); part && !found;
		part = strtok_r(NULL, "/", &state)) {
		size_t len = strlen(part);
		bool lxd = starts_with(part, LXD) && part[strlen(LXD)];

		found = in_kubepods ? parse_pod(part, workload) : parse_container(part, workload);
		if (!found && (lxd || (len > 8 && streq(part + len - 8, ".service") && !of_user))) {
			*workload = (struct workload){.kind = lxd ? WORKLOAD_LXD : WORKLOAD_UNIT};
			set_text(workload->name, lxd ? part + strlen(LXD) : part);
			/* Below a user's systemd are rootless containers. */
			of_user = starts_with(part, "user@");
			found = !of_user;
		}
		if (found || of_user)
			text_make_printable(workload->name);
		if (end && (found || (of_user && starts_with(part, "user@"))))
			*end = (size_t)(part - copy) + len;
	}
	return found || of_user;
}

void cgroup_user_slice(const char *path, struct workload *workload)
{
	const char *slice = strstr(path, "user.slice/user-");
	unsigned uid;

	if (slice && sscanf(slice, "user.slice/user-%u.slice", &uid) == 1)
		snprintf(workload->id, sizeof(workload->id), "user-%u.slice", uid);
}

size_t cgroup_workload_length(const char *path)
{
	struct workload workload;
	size_t end = strlen(path);

	(void)path_workload(path, &workload, &end);
	return end;
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
		if (!path || !path_workload(path + 1, &candidate, NULL) ||
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

char *cgroup_of_text(char *text, const char *controller)
{
	for (char *next = text, *line; (line = strsep(&next, "\n"));) {
		char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;

		if (!path)
			continue;
		*path = '\0';
		for (char *rest = names + 1, *name; (name = strsep(&rest, ","));)
			if (streq(name, controller))
				return path + 1;
	}
	return NULL;
}

uint64_t cgroup_memory_maximum(
	const struct host *host, const char *cgroup, char path[static PATH_MAX])
{
	static const char *const formats[][2] = {{"/sys/fs/cgroup", "memory.max"},
		{"/sys/fs/cgroup/unified", "memory.max"},
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}};
	char value[SETTING_VALUE_MAX];
	uint64_t bytes = 0;

	/* The kernel writes it below the root of the hierarchy, never with "..". */
	if (cgroup[0] != '/' || strstr(cgroup, "/../"))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		snprintf(path, PATH_MAX, "%s%s/%s", formats[i][0], cgroup, formats[i][1]);
		if (host_read_value(host, path, value) < 0)
			continue;
		if (streq(value, "max") || parse_count(value, &bytes) == 0)
			return streq(value, "max") ? CGROUP_NO_MAXIMUM : bytes;
	}
	return 0;
}

uint64_t cgroup_own_memory_maximum(const struct host *host)
{
	/* A container of its own cgroup namespace is at the root of what it sees. */
	static const struct host container = {0};
	_cleanup_free_ char *text = NULL, *copy = NULL;
	char path[PATH_MAX];
	const char *cgroup;

	if (process_read("", getpid(), "cgroup", &text, NULL) < 0)
		return 0;
	copy = must(strdup(text));
	cgroup = cgroup_of_text(text, "memory");
	if (!cgroup)
		cgroup = cgroup_of_text(copy, "");
	if (!cgroup)
		return 0;
	return cgroup_memory_maximum(cgroup[1] ? host : &container, cgroup, path);
}

void cgroup_root_path(const struct host *host, int root, char path[static PATH_MAX])
{
	char link[32], full[PATH_MAX];
	ssize_t len;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", root);
	len = readlink(link, full, sizeof(full) - 1);
	full[MAX(len, 0)] = '\0';
	copy_text(path, PATH_MAX, full + (starts_with(full, host->root) ? strlen(host->root) : 0));
}

/* ---- the programs that record new and removed cgroups ---- */

struct cgroup_watch {
	int links[2];
	struct cgroup_log *log; /* mapped */
};

static void cgroup_watch_close(struct cgroup_watch *watch)
{
	for (size_t i = 0; i < ARRAY_SIZE(watch->links); i++)
		cleanup_close(&watch->links[i]);
	if (watch->log)
		munmap(watch->log, sizeof(*watch->log));
	free(watch);
}

DEFINE_CLEANUP(struct cgroup_bpf_object, cgroup_bpf_object__destroy)

struct cgroup_watch *cgroup_watch_load(void)
{
	_cleanup_(cleanup_cgroup_bpf_object__destroy) struct cgroup_bpf_object *object =
		cgroup_bpf_object__open_and_load();
	struct cgroup_watch *watch = must(malloc(sizeof(*watch)));
	void *log = MAP_FAILED;

	*watch = (struct cgroup_watch){.links = {-1, -1}};
	if (object) {
		watch->links[0] = bpf_raw_tracepoint_open(
			"cgroup_mkdir", bpf_program__fd(object->progs.cgroup_mkdir));
		watch->links[1] = bpf_raw_tracepoint_open(
			"cgroup_rmdir", bpf_program__fd(object->progs.cgroup_rmdir));
		log = mmap(NULL, sizeof(*watch->log), PROT_READ | PROT_WRITE, MAP_SHARED,
			bpf_map__fd(object->maps.bss), 0);
	}
	if (log != MAP_FAILED)
		watch->log = log;
	if (watch->links[0] >= 0 && watch->links[1] >= 0 && watch->log)
		return watch;
	/* Walks find the same names later. The tuners report what their own programs lack. */
	log_debug("cgroups", "new cgroups are not recorded: %s", strerror(errno));
	cgroup_watch_close(watch);
	return NULL;
}

/* ---- names by inode ---- */

struct known_cgroup {
	uint64_t key;
	bool found, missing; /* missing: it is wanted, and the next walk may find it */
	unsigned attempts;   /* walks for it */
	uint64_t wanted_at_us;
	pid_t pid; /* its first process when it was found; 0: none, or not visible */
	uint64_t start_us;
	char *path; /* below its hierarchy's root; NULL: not known; owned */
	struct workload workload;
};

struct cgroups {
	const struct host *host;
	const struct names *names;
	struct {
		int root;        /* -1: none */
		unsigned number; /* the kernel's */
		size_t missing;  /* cgroups */
	} hierarchies[CGROUP_HIERARCHIES];
	struct cgroup_watch *watch; /* NULL: not loaded */
	struct known_cgroup *known; /* by key */
	size_t n, allocated;
	uint64_t walk_at_us; /* no walk before this time */
	uint64_t walked_at_us;
};

static enum cgroup_hierarchy hierarchy_of(uint64_t key)
{
	return (enum cgroup_hierarchy)(key >> CGROUP_KEY_SHIFT);
}

static uint64_t inode_of(uint64_t key)
{
	return key & ((UINT64_C(1) << CGROUP_KEY_SHIFT) - 1);
}

/* Without a hierarchy of cgroup v1 for the controller, the cgroup is in cgroup2. */
static uint64_t present_key(const struct cgroups *cgroups, uint64_t key)
{
	return cgroups->hierarchies[hierarchy_of(key)].root < 0 ? inode_of(key) : key;
}

static const char *const controllers[CGROUP_HIERARCHIES] = {
	[CGROUP_BLKIO] = "blkio", [CGROUP_MEMORY] = "memory", [CGROUP_PIDS] = "pids"};

/* Returns the kernel's number of a controller's hierarchy; 0: of cgroup2. */
static unsigned hierarchy_number(const char *controller)
{
	_cleanup_free_ char *text = NULL;
	char *state = NULL, names[128], *rest;
	unsigned number;

	if (!controller)
		return 0;
	if (process_read("", getpid(), "cgroup", &text, NULL) < 0)
		return UINT_MAX;
	/* "8:cpu,cpuacct:/" */
	for (char *line = strtok_r(text, "\n", &state); line; line = strtok_r(NULL, "\n", &state)) {
		if (sscanf(line, "%u:%127[^:]", &number, names) != 2)
			continue;
		rest = names;
		for (char *name = strsep(&rest, ","); name; name = strsep(&rest, ","))
			if (streq(name, controller))
				return number;
	}
	return UINT_MAX;
}

void cgroups_set_root(struct cgroups *cgroups, enum cgroup_hierarchy hierarchy, int root)
{
	cleanup_close(&cgroups->hierarchies[hierarchy].root);
	cgroups->hierarchies[hierarchy].root = root;
	cgroups->hierarchies[hierarchy].number = hierarchy_number(controllers[hierarchy]);
}

struct cgroups *cgroups_open(const struct host *host, const struct names *names)
{
	struct cgroups *cgroups = must(calloc(1, sizeof(*cgroups)));
	char why[320];

	*cgroups = (struct cgroups){.host = host, .names = names};
	for (enum cgroup_hierarchy i = 0; i < CGROUP_HIERARCHIES; i++) {
		cgroups->hierarchies[i].root = -1;
		cgroups_set_root(
			cgroups, i, cgroup_root_open(host, controllers[i], why, sizeof(why)));
	}
	return cgroups;
}

void cgroups_close(struct cgroups *cgroups)
{
	for (enum cgroup_hierarchy i = 0; i < CGROUP_HIERARCHIES; i++)
		cleanup_close(&cgroups->hierarchies[i].root);
	if (cgroups->watch)
		cgroup_watch_close(cgroups->watch);
	for (size_t i = 0; i < cgroups->n; i++)
		free(cgroups->known[i].path);
	free(cgroups->known);
	free(cgroups);
}

void cgroups_adopt(struct cgroups *cgroups, struct cgroup_watch *watch)
{
	uint64_t mask = 0;

	for (enum cgroup_hierarchy i = 0; i < CGROUP_HIERARCHIES; i++)
		if (cgroups->hierarchies[i].root >= 0 && cgroups->hierarchies[i].number < 64)
			mask |= UINT64_C(1) << cgroups->hierarchies[i].number;
	watch->log->hierarchies = mask;
	cgroups->watch = watch;
}

int cgroups_root(const struct cgroups *cgroups, enum cgroup_hierarchy hierarchy)
{
	return cgroups->hierarchies[hierarchy].root;
}

static int by_key(const void *a, const void *b)
{
	const struct known_cgroup *x = a, *y = b;

	return (x->key > y->key) - (x->key < y->key);
}

static struct known_cgroup *find_known(const struct cgroups *cgroups, uint64_t cgroup, size_t n)
{
	struct known_cgroup key = {.key = present_key(cgroups, cgroup)};

	return n ? bsearch(&key, cgroups->known, n, sizeof(key), by_key) : NULL;
}

struct workload cgroup_unknown(uint64_t cgroup)
{
	struct workload workload = {.kind = WORKLOAD_UNIT};

	snprintf(workload.name, sizeof(workload.name), "cgroup %" PRIu64, inode_of(cgroup));
	return workload;
}

/* Finds the first process of a cgroup, which may have ended. */
static void find_process(
	const struct cgroups *cgroups, struct known_cgroup *known, int parent, const char *name)
{
	char procs[PATH_MAX], text[32] = "";
	_cleanup_close_ int fd = -1;

	snprintf(procs, sizeof(procs), "%s/cgroup.procs", name);
	fd = openat(parent, procs, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && read(fd, text, sizeof(text) - 1) > 0)
		known->pid = atoi(text);
	if (process_start(cgroups->host->root, known->pid, &known->start_us) < 0)
		known->pid = 0;
}

/* The cgroup has this path below its hierarchy's root, and this name in the directory parent. */
static void set_path(struct cgroups *cgroups, struct known_cgroup *known, const char *path,
	int parent, const char *name)
{
	size_t len = strlen(path);
	bool unit = len > 6 && (streq(path + len - 6, ".scope") || streq(path + len - 6, ".slice"));

	known->found = true;
	/* The record cuts long paths. */
	if (len < sizeof(cgroups->watch->log->events[0].path) - 1)
		known->path = must(strdup(path));
	cgroups->hierarchies[hierarchy_of(known->key)].missing -= known->missing;
	known->missing = false;
	/* Scopes and slices are units too. The name of any other directory is its path. */
	if (!path_workload(path, &known->workload, NULL)) {
		known->workload = (struct workload){.kind = WORKLOAD_UNIT};
		set_text(known->workload.name, unit ? strrchr(path, '/') + 1 : path);
		cgroup_user_slice(path, &known->workload);
		text_make_printable(known->workload.name);
	}
	find_process(cgroups, known, parent, name);
}

/* Finds wanted cgroups in the record of new and removed ones. */
static void read_log(struct cgroups *cgroups)
{
	for (size_t i = 0; cgroups->watch && i < CGROUP_EVENTS; i++) {
		const struct cgroup_event *event = &cgroups->watch->log->events[i];
		uint64_t inode = __atomic_load_n(&event->inode, __ATOMIC_ACQUIRE);
		char path[sizeof(event->path)];

		for (enum cgroup_hierarchy h = 0; inode && h < CGROUP_HIERARCHIES; h++) {
			int root = cgroups->hierarchies[h].root;
			struct known_cgroup *known =
				root >= 0 && cgroups->hierarchies[h].number == event->hierarchy
					? find_known(cgroups, cgroup_key(h, inode), cgroups->n)
					: NULL;

			if (!known || known->found)
				continue;
			memcpy(path, event->path, sizeof(path));
			path[sizeof(path) - 1] = '\0';
			/* The next event may have begun to replace it. */
			if (__atomic_load_n(&event->inode, __ATOMIC_ACQUIRE) == inode)
				set_path(cgroups, known, path, root, path + (path[0] == '/'));
		}
	}
}

/* Visits all directories below path, a buffer of PATH_MAX bytes. */
static void walk_directory(struct cgroups *cgroups, enum cgroup_hierarchy hierarchy, int parent,
	const char *name, char *path, unsigned depth)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	_cleanup_(cleanup_closedir) DIR *directory = fd < 0 ? NULL : fdopendir(fd);
	size_t len = strlen(path);
	const struct dirent *entry;

	if (!directory)
		cleanup_close(&fd);
	while (directory && cgroups->hierarchies[hierarchy].missing > 0 &&
		(entry = readdir(directory))) {
		struct known_cgroup *known;
		struct stat st;

		if (entry->d_type != DT_DIR || entry->d_name[0] == '.' || depth == 0)
			continue;
		snprintf(path + len, PATH_MAX - len, "/%s", entry->d_name);
		known = find_known(cgroups, cgroup_key(hierarchy, entry->d_ino), cgroups->n);
		if (known && !known->found)
			set_path(cgroups, known, path, dirfd(directory), entry->d_name);
		/*
		 * Two links are its name and its ".", so no directory is below. Reading its 70
		 * files would cost several times as much.
		 */
		if (fstatat(dirfd(directory), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
			st.st_nlink != 2)
			walk_directory(cgroups, hierarchy, dirfd(directory), entry->d_name, path,
				depth - 1);
		path[len] = '\0';
	}
}

static void walk(struct cgroups *cgroups, uint64_t now)
{
	uint64_t begun = cpu_us();

	for (enum cgroup_hierarchy i = 0; i < CGROUP_HIERARCHIES; i++) {
		char path[PATH_MAX] = "";

		if (cgroups->hierarchies[i].root >= 0 && cgroups->hierarchies[i].missing > 0)
			walk_directory(
				cgroups, i, cgroups->hierarchies[i].root, ".", path, DEPTH_MAX);
	}
	for (size_t i = 0; i < cgroups->n; i++)
		cgroups->known[i].attempts += cgroups->known[i].missing;
	cgroups->walked_at_us = now;
	/* Not the time that passed: on a busy node most of it belongs to others. */
	cgroups->walk_at_us = now + MAX(WALK_EVERY_US, (cpu_us() - begun) * WALK_SHARE);
}

/* Adds unknown cgroups to the table. A large table forgets unwanted ones. */
static void want(struct cgroups *cgroups, const uint64_t *wanted, size_t n, uint64_t now)
{
	size_t kept = 0;

	for (size_t i = 0; i < cgroups->n; i++)
		if (cgroups->n < KNOWN_MAX / 2 ||
			now - cgroups->known[i].wanted_at_us < FORGET_AFTER_US)
			cgroups->known[kept++] = cgroups->known[i];
		else
			free(cgroups->known[i].path);
	cgroups->n = kept;
	/* Append each new one once. */
	for (size_t i = 0; i < n; i++) {
		uint64_t key = present_key(cgroups, wanted[i]);
		struct known_cgroup *known = find_known(cgroups, key, kept);

		for (size_t k = kept; k < cgroups->n && !known; k++)
			known = cgroups->known[k].key == key ? &cgroups->known[k] : NULL;
		if (!known && cgroups->n < KNOWN_MAX && inode_of(key) > CGROUP_ROOT_INODE) {
			known = add_element(&cgroups->known, &cgroups->n, &cgroups->allocated);
			*known = (struct known_cgroup){.key = key, .workload = cgroup_unknown(key)};
		}
		if (!known)
			continue;
		known->wanted_at_us = now;
		/* The name stays when the runtime has forgotten it. */
		if (!workload_is_named(&known->workload))
			names_apply(cgroups->names, &known->workload);
	}
	if (cgroups->n > kept)
		qsort(cgroups->known, cgroups->n, sizeof(*cgroups->known), by_key);
}

void cgroups_learn(struct cgroups *cgroups, const uint64_t *wanted, size_t n, uint64_t now)
{
	size_t missing = 0;

	want(cgroups, wanted, n, now);
	for (enum cgroup_hierarchy i = 0; i < CGROUP_HIERARCHIES; i++)
		cgroups->hierarchies[i].missing = 0;
	for (size_t i = 0; i < cgroups->n; i++) {
		struct known_cgroup *known = &cgroups->known[i];

		known->missing = !known->found && known->attempts < ATTEMPTS &&
				 now - known->wanted_at_us < WANTED_US;
		cgroups->hierarchies[hierarchy_of(known->key)].missing += known->missing;
		missing += known->missing;
	}
	if (missing == 0)
		return;
	read_log(cgroups);
	if (now >= cgroups->walk_at_us)
		walk(cgroups, now);
}

/* Finds the cgroup of a finding. */
static bool find_at_once(struct cgroups *cgroups, uint64_t cgroup, uint64_t now)
{
	const struct known_cgroup *known = find_known(cgroups, cgroup, cgroups->n);

	/* Learning costs a pass over all that are known: not for one that was removed. */
	if (!known || (!known->found && known->attempts < ATTEMPTS))
		cgroups_learn(cgroups, &cgroup, 1, now);
	known = find_known(cgroups, cgroup, cgroups->n);
	if (known && !known->found && known->attempts == 0 &&
		now - cgroups->walked_at_us >= WALK_NOW_US)
		walk(cgroups, now);
	return inode_of(cgroup) <= CGROUP_ROOT_INODE || (known && known->found);
}

bool names_of_cgroup(
	struct cgroups *cgroups, uint64_t cgroup, uint64_t now, struct workload *workload)
{
	struct workload unknown = cgroup_unknown(cgroup);

	if (!workload_equal(workload, &unknown))
		return !workload_is_named(workload) && names_apply(cgroups->names, workload);
	if (!find_at_once(cgroups, cgroup, now))
		return false;
	*workload = cgroups_find(cgroups, cgroup);
	return true;
}

struct workload cgroups_find(const struct cgroups *cgroups, uint64_t cgroup)
{
	const struct known_cgroup *known = find_known(cgroups, cgroup, cgroups->n);
	struct workload workload = known ? known->workload : cgroup_unknown(cgroup);

	if (inode_of(cgroup) <= CGROUP_ROOT_INODE)
		return (struct workload){.kind = WORKLOAD_HOST, .name = "host"};
	/* The runtime may name a pod after its cgroup was found. */
	names_apply(cgroups->names, &workload);
	return workload;
}

const char *cgroups_path(const struct cgroups *cgroups, uint64_t cgroup)
{
	const struct known_cgroup *known = find_known(cgroups, cgroup, cgroups->n);

	return known ? known->path : NULL;
}

pid_t cgroups_process(const struct cgroups *cgroups, uint64_t cgroup)
{
	const struct known_cgroup *known = find_known(cgroups, cgroup, cgroups->n);

	return known && process_is(cgroups->host->root, known->pid, known->start_us) ? known->pid
										     : 0;
}

/* ---- names that runtimes give ---- */

static int by_id(const void *a, const void *b)
{
	const struct name_entry *left = a, *right = b;

	return strcmp(left->workload.id, right->workload.id);
}

static struct name_entry *find_entry(
	const struct name_entry *entries, size_t n, const struct workload *workload)
{
	struct name_entry key = {.workload = *workload};

	return n > 0 ? bsearch(&key, entries, n, sizeof(key), by_id) : NULL;
}

/* Drops the entries that are gone longest, above GONE_MAX. */
static void drop_oldest(struct names *names)
{
	size_t kept = 0;

	for (size_t i = 0; i < names->n; i++)
		if (!names->entries[i].gone || names->gone - names->entries[i].gone < GONE_MAX)
			names->entries[kept++] = names->entries[i];
	names->n = kept;
}

void names_replace(struct names *names, const char *source, struct name_entry *entries, size_t n)
{
	size_t kept = 0;

	if (n > 0)
		qsort(entries, n, sizeof(*entries), by_id);
	for (size_t i = 0; i < names->n; i++) {
		struct name_entry *entry = &names->entries[i];

		if ((streq(entry->source, source) || entry->gone) &&
			find_entry(entries, n, &entry->workload))
			continue;
		/* Its address may be another's now. */
		if (streq(entry->source, source) && !entry->gone) {
			entry->gone = ++names->gone;
			entry->address[0] = '\0';
		}
		names->entries[kept++] = *entry;
	}
	names->n = kept;
	drop_oldest(names);
	for (size_t i = 0; i < n; i++) {
		entries[i].source = source;
		text_make_printable(entries[i].workload.namespace);
		text_make_printable(entries[i].workload.name);
		*add_element(&names->entries, &names->n, &names->allocated) = entries[i];
	}
	free(entries);
	if (names->n > 0)
		qsort(names->entries, names->n, sizeof(*entries), by_id);
}

bool names_apply(const struct names *names, struct workload *workload)
{
	const struct name_entry *found = NULL;

	if (names && workload->id[0])
		found = find_entry(names->entries, names->n, workload);
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
