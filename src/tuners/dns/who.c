/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/who.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/util.h"
#include "workload/cgroup.h"
#include "workload/names.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#define KNOWN_MAX 8192
/* A namespace with thousands of UDP sockets is no forwarder's. */
#define PROC_FILE_MAX   (256 * 1024)
#define DEPTH_MAX       32
#define WALK_EVERY_US   (2 * USEC_PER_SEC)
#define WALK_SHARE      500 /* of the time that passes, a walk takes at most this part */
#define LOOKS_IN_VAIN   5   /* then a directory that nobody finds is gone */
#define CHECK_EVERY_US  (60 * USEC_PER_SEC)
#define FORGET_AFTER_US (600 * USEC_PER_SEC)

struct known {
	uint64_t cgroup;
	bool found;
	unsigned looks;
	uint64_t asked_at_us;
	int pid; /* of its first process when it was found; 0: none, or not to be seen */
	uint64_t checked_at_us; /* whether that serves */
	bool serves;
	struct workload workload;
};

struct dns_who {
	const struct host *host;
	char root[PATH_MAX]; /* empty: there is none */
	struct known *known; /* sorted by cgroup */
	size_t n, allocated;
	uint64_t walk_at_us; /* not before */
	size_t missing;      /* that a walk looks for */
};

static bool is_host_root(const char *path)
{
	struct stat st;

	/* kernfs numbers from its root, which is 1; a container's namespace shows another. */
	return stat(path, &st) == 0 && st.st_ino == 1;
}

/*
 * The place of cgroup2 in this process's view, below the host's root: proc(5), mountinfo. What that
 * has for the root of the mount is told from this process's own cgroup namespace: "/.." is the
 * host's, too.
 */
static void find_root(struct dns_who *who)
{
	_cleanup_fclose_ FILE *mounts = fopen("/proc/self/mountinfo", "re");
	_cleanup_free_ char *line = NULL;
	char path[PATH_MAX];
	size_t size = 0;

	while (mounts && getline(&line, &size, mounts) > 0) {
		if (strstr(line, " - cgroup2 ") &&
			sscanf(line, "%*s %*s %*s %*s %4095s", path) == 1 && is_host_root(path)) {
			copy_text(who->root, sizeof(who->root), path);
			return;
		}
	}
}

struct dns_who *dns_who_open(const struct host *host, const char *root)
{
	struct dns_who *who = calloc(1, sizeof(*who));

	if (!who)
		return NULL;
	who->host = host;
	if (root)
		copy_text(who->root, sizeof(who->root), root);
	else
		find_root(who);
	return who;
}

void dns_who_close(struct dns_who *who)
{
	free(who->known);
	free(who);
}

static int by_cgroup(const void *a, const void *b)
{
	const struct known *x = a, *y = b;

	return (x->cgroup > y->cgroup) - (x->cgroup < y->cgroup);
}

static struct known *find(const struct dns_who *who, uint64_t cgroup)
{
	struct known key = {.cgroup = cgroup};

	return who->n ? bsearch(&key, who->known, who->n, sizeof(key), by_cgroup) : NULL;
}

/* Systemd's scopes and slices are units too; anything else is called by its path. */
struct workload dns_who_of_path(const char *path)
{
	const char *last = strrchr(path, '/');
	struct workload workload = {.kind = WORKLOAD_UNIT};
	size_t len = strlen(path);
	bool unit = len > 6 && (streq(path + len - 6, ".scope") || streq(path + len - 6, ".slice"));

	if (!cgroup_workload(path, &workload))
		copy_text(workload.name, sizeof(workload.name), unit && last ? last + 1 : path);
	return workload;
}

static int first_process(int directory, const char *name)
{
	char path[NAME_MAX + 16], text[32];
	_cleanup_close_ int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "%s/cgroup.procs", name);
	fd = openat(directory, path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	return atoi(text);
}

/* path has room for PATH_MAX; what is below it is visited too. */
static void walk(struct dns_who *who, int parent, const char *name, char *path, unsigned depth)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	size_t len = strlen(path);
	struct dirent *entry;
	DIR *directory = fd < 0 ? NULL : fdopendir(fd);

	if (!directory) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while (who->missing > 0 && (entry = readdir(directory))) {
		struct known *known;

		if (entry->d_type != DT_DIR || entry->d_name[0] == '.' || depth == 0)
			continue;
		snprintf(path + len, PATH_MAX - len, "/%s", entry->d_name);
		known = find(who, entry->d_ino);
		if (known && !known->found) {
			known->workload = dns_who_of_path(path);
			known->pid = first_process(dirfd(directory), entry->d_name);
			known->found = true;
			who->missing--;
		}
		walk(who, dirfd(directory), entry->d_name, path, depth - 1);
		path[len] = '\0';
	}
	closedir(directory);
}

static void add(struct dns_who *who, uint64_t cgroup, uint64_t now)
{
	struct known *known;

	if (who->n == KNOWN_MAX ||
		grow_array(&who->known, who->n, &who->allocated, sizeof(*who->known)) < 0)
		return;
	known = &who->known[who->n++];
	known->cgroup = cgroup;
	known->asked_at_us = now;
	known->workload.kind = WORKLOAD_UNIT;
	snprintf(known->workload.name, sizeof(known->workload.name), "cgroup %llu",
		(unsigned long long)cgroup);
}

/* Those that nobody asked for in a while make room: inodes of cgroups are used once only. */
static void forget_old(struct dns_who *who, uint64_t now)
{
	size_t kept = 0;

	if (who->n < KNOWN_MAX / 2)
		return;
	for (size_t i = 0; i < who->n; i++)
		if (now - who->known[i].asked_at_us < FORGET_AFTER_US)
			who->known[kept++] = who->known[i];
	who->n = kept;
}

/* Adds those that are new, once each, and counts those that a walk may find. */
static void take_wishes(struct dns_who *who, const uint64_t *cgroups, size_t n, uint64_t now)
{
	size_t sorted = who->n;

	for (size_t i = 0; i < n; i++) {
		struct known key = {.cgroup = cgroups[i]}, *known;

		known = sorted ? bsearch(&key, who->known, sorted, sizeof(key), by_cgroup) : NULL;
		for (size_t k = sorted; k < who->n && !known; k++)
			known = who->known[k].cgroup == cgroups[i] ? &who->known[k] : NULL;
		if (known)
			known->asked_at_us = now;
		else
			add(who, cgroups[i], now);
	}
	if (who->n > sorted)
		qsort(who->known, who->n, sizeof(*who->known), by_cgroup);
	who->missing = 0;
	for (size_t i = 0; i < who->n; i++)
		who->missing += !who->known[i].found && who->known[i].looks < LOOKS_IN_VAIN &&
				who->known[i].asked_at_us == now;
}

void dns_who_learn(struct dns_who *who, const uint64_t *cgroups, size_t n, uint64_t now)
{
	char path[PATH_MAX] = "";
	uint64_t begun;

	forget_old(who, now);
	take_wishes(who, cgroups, n, now);
	if (who->missing == 0 || now < who->walk_at_us || !who->root[0])
		return;
	begun = now_us();
	walk(who, AT_FDCWD, who->root, path, DEPTH_MAX);
	who->walk_at_us = now + MAX(WALK_EVERY_US, (now_us() - begun) * WALK_SHARE);
	for (size_t i = 0; i < who->n; i++)
		who->known[i].looks++;
}

static struct workload at_address(
	const struct dns_who *who, const struct dns_key *source, const struct dns_roles *roles)
{
	struct workload workload = {.kind = WORKLOAD_HOST, .name = "host"};
	char text[DNS_ADDRESS_TEXT];

	if (source->family == 0 || dns_address_is_loopback(source) ||
		dns_roles_is_node(roles, source))
		return workload;
	dns_address_text(source, text);
	if (who->host->names && names_at_address(who->host->names, text, &workload))
		return workload;
	workload = (struct workload){.kind = WORKLOAD_NETNS};
	copy_text(workload.name, sizeof(workload.name), text);
	return workload;
}

struct workload dns_who_find(const struct dns_who *who, uint64_t cgroup, uint64_t root_cgroup,
	const struct dns_key *source, const struct dns_roles *roles)
{
	const struct known *known;
	struct workload unknown = {.kind = WORKLOAD_UNIT};

	if (cgroup == root_cgroup)
		return at_address(who, source, roles);
	known = find(who, cgroup);
	if (!known) {
		snprintf(unknown.name, sizeof(unknown.name), "cgroup %llu",
			(unsigned long long)cgroup);
		return unknown;
	}
	unknown = known->workload;
	/* A pod's name may become known after its cgroup. */
	if (who->host->names)
		names_apply(who->host->names, &unknown);
	return unknown;
}

static int read_of_process(const struct dns_who *who, int pid, const char *name, char **text)
{
	char path[64], full[PATH_MAX];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	return host_path(who->host, path, full) ? read_file(full, PROC_FILE_MAX, text, NULL)
						: -ENAMETOOLONG;
}

/* A line of /proc/PID/net/udp: "  12: 00000000:0035 00000000:0000 07 ...". */
static bool binds_dns(const struct dns_who *who, int pid, const char *name)
{
	_cleanup_free_ char *text = NULL;
	char *state = NULL;
	unsigned port;

	if (read_of_process(who, pid, name, &text) < 0)
		return false;
	for (char *line = strtok_r(text, "\n", &state); line; line = strtok_r(NULL, "\n", &state))
		if (sscanf(line, " %*u: %*[0-9A-F]:%x", &port) == 1 && port == 53)
			return true;
	return false;
}

/*
 * Whether the process is in this agent's network namespace, the node's. The kernel numbers these
 * files anew for each namespace (proc_alloc_inum() of fs/proc/generic.c), which anybody may see.
 */
static bool shares_network(const struct dns_who *who, int pid)
{
	char path[64], full[PATH_MAX];
	struct stat its, ours;

	snprintf(path, sizeof(path), "/proc/%d/net/udp", pid);
	return host_path(who->host, path, full) && stat(full, &its) == 0 &&
	       stat("/proc/self/net/udp", &ours) == 0 && its.st_ino == ours.st_ino;
}

/*
 * Sockets are those of the whole network namespace: a container's own. In the node's there may be
 * anybody's stub.
 */
static bool process_serves(const struct dns_who *who, const struct known *known)
{
	static const char *const servers[] = {"coredns", "kube-dns", "node-cache", "dnsmasq",
		"unbound", "named", "pdns_recursor", "kresd"};
	_cleanup_free_ char *name = NULL;

	if (read_of_process(who, known->pid, "comm", &name) < 0)
		return false;
	name[strcspn(name, "\n")] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(servers); i++)
		if (streq(name, servers[i]))
			return true;
	return known->workload.kind != WORKLOAD_UNIT && !shares_network(who, known->pid) &&
	       (binds_dns(who, known->pid, "net/udp") || binds_dns(who, known->pid, "net/udp6"));
}

bool dns_who_serves(struct dns_who *who, uint64_t cgroup, uint64_t now)
{
	struct known *known = find(who, cgroup);

	if (!known || known->pid <= 0)
		return false;
	if (known->checked_at_us == 0 || now - known->checked_at_us >= CHECK_EVERY_US) {
		known->checked_at_us = now;
		known->serves = process_serves(who, known);
	}
	return known->serves;
}

bool dns_who_is_forwarder(const struct workload *workload)
{
	static const char *const words[] = {"coredns", "kube-dns", "kubedns", "dnsmasq", "unbound",
		"pdns-recursor", "powerdns", "bind9", "named.service", "node-local-dns",
		"nodelocaldns", "knot-resolver", "kresd"};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strstr(workload->name, words[i]))
			return true;
	return false;
}

bool dns_who_is_node_cache(const struct workload *workload)
{
	return strstr(workload->name, "node-local-dns") || strstr(workload->name, "nodelocaldns");
}

bool dns_who_same(const struct workload *a, const struct workload *b)
{
	return a->kind == b->kind && streq(a->namespace, b->namespace) && streq(a->name, b->name) &&
	       streq(a->id, b->id);
}
