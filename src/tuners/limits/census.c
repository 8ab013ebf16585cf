/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts what processes, open files and BPF maps use, from the records of the BPF programs, and
 * names the fullest. The parts, in order: what a record adds to a row; the tally, which adds up by
 * user, cgroup or namespace and names the fullest; the connections of netfilter, by namespace and,
 * from a sample, by source; the samples, which a task makes of the parts that are due. The task
 * knows no names of pods.
 */
#include "tuners/limits/limits.h"

#include "base/file.h"
#include "base/text.h"
#include "base/wait.h"
#include "kernel/host.h"
#include "workload/process.h"

#include <arpa/inet.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <sys/socket.h>

#include <headroom/bpf/census.h>
#include <linux/bpf.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>

/* ---- what a process, an open file or a BPF map adds to a row ---- */

/* The use of an instance by one user, as records show it. */
struct limit_use {
	uint64_t key[2];    /* of the instance, and of the user in it; zero: the process is both */
	uint64_t used, max; /* max 0: the instance's */
	uint64_t hits;
	bool adds;             /* used adds up over the records with this key */
	bool is_minor;         /* its maximum is too small to matter */
	bool has_foreign_hits; /* new hits are another limit's */
	/* The instance, if findings are about it. of_max 0: it has what its users have. */
	enum instance_kind kind;
	uint64_t id, of_used, of_max, beside;
	uint64_t cgroup; /* the key of the user's */
	uint32_t pid, last_pid;
	uint32_t uid;              /* if by_uid */
	bool by_uid, by_netns;     /* by_netns: pid is any process of the network namespace */
	bool is_remote;            /* address and port are of the remote end */
	uint16_t family, port;     /* port 0: none */
	uint32_t netns, somaxconn; /* of a listener or a connection */
	uint8_t source[16], address[16];
	bool is_estimate;
	char comm[CENSUS_COMM]; /* the name of a process or of a map */
};

/* The uses by their keys, or the fullest TALLY_CANDIDATES uses without a key. Zeroed: none. */
struct tally {
	struct limit_use *uses;
	size_t n, allocated;
	struct element_index index;
};

#define TALLY_CANDIDATES 32 /* uses that are named; several may belong to one workload */

/* Kubernetes on cgroup v1 leaves pods in the root of cgroup2. */
static uint64_t user_cgroup(uint64_t cgroup, uint64_t pids_cgroup)
{
	return cgroup > CGROUP_ROOT_INODE ? cgroup : pids_cgroup;
}

/* Writes the use that a process adds to a row. False: none. */
static bool census_count(
	const struct census_record *record, enum census_count count, struct limit_use *use)
{
	*use = (struct limit_use){.pid = record->pid};
	switch (count) {
	case COUNT_INOTIFY_INSTANCES:
	case COUNT_INOTIFY_WATCHES:
		use->kind = INSTANCE_UID;
		use->key[0] = 1;
		use->key[1] = use->id = use->uid = record->uid;
		use->by_uid = true;
		use->used = count == COUNT_INOTIFY_WATCHES ? record->inotify_watches
							   : record->inotify_instances;
		return record->uid_counts;
	case COUNT_THREADS:
	case COUNT_OPEN_FILES:
	case COUNT_AIO:
		use->kind = INSTANCE_CGROUP;
		use->id = record->pids_first;
		use->key[0] = 1;
		use->key[1] = record->cgroup * UINT64_C(0x9e3779b97f4a7c15) ^ record->pids_cgroup;
		use->adds = true;
		use->used = count == COUNT_THREADS ? record->threads
			    : count == COUNT_AIO   ? record->aio
						   : record->files;
		return use->used > 0 && (record->cgroup || record->pids_cgroup);
	case COUNT_PIDS:
		use->kind = INSTANCE_CGROUP;
		use->key[0] = use->id = record->pids_limited;
		use->key[1] = record->pids_cgroup;
		use->adds = true;
		use->used = record->threads;
		use->hits = record->forks_failed;
		use->has_foreign_hits = record->pids_first_refuses;
		use->of_used = record->pids_used;
		use->of_max = record->pids_max;
		return record->pids_max > 0;
	case COUNT_MOUNTS:
		use->kind = INSTANCE_MNTNS;
		use->key[0] = 3;
		use->key[1] = use->id = record->mntns;
		use->used = record->mounts;
		break;
	case COUNT_MAPS:
		use->kind = INSTANCE_PROCESS;
		use->id = user_cgroup(record->cgroup, record->pids_cgroup);
		use->used = record->maps;
		break;
	case COUNT_PROCESS_FILES:
		use->kind = INSTANCE_PROCESS;
		use->id = user_cgroup(record->cgroup, record->pids_cgroup);
		use->used = record->files;
		use->max = MAX(record->files_max, (__u64)1);
		use->beside = record->files_hard;
		break;
	case COUNT_NOTHING:
		return false;
	}
	memcpy(use->comm, record->comm, sizeof(use->comm));
	return count == COUNT_MOUNTS ? record->mntns > 0 : use->used > 0;
}

/* A socket of IPv6 may have a connection of IPv4: it takes the same ports. */
static void take_ends(const struct census_file *file, struct limit_use *use)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	bool is_mapped = file->family == AF_INET6 && memcmp(file->address, mapped, 12) == 0;
	size_t skip = is_mapped ? sizeof(mapped) : 0;

	use->family = is_mapped ? AF_INET : file->family;
	memcpy(use->source, file->source + skip, sizeof(file->source) - skip);
	memcpy(use->address, file->address + skip, sizeof(file->address) - skip);
}

static uint64_t hash_data(uint64_t hash, const void *data, size_t len)
{
	const uint8_t *bytes = data;

	for (size_t i = 0; i < len; i++)
		hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
	return hash;
}

/* The kernel looks for a port that is free for the namespace, both addresses and the remote port.
 */
static void count_connection(const struct census_file *file, struct limit_use *use)
{
	uint64_t hash = HASH_START ^ file->netns ^ (uint64_t)file->port << 32;

	take_ends(file, use);
	hash = hash_data(hash, use->source, sizeof(use->source));
	use->key[0] = hash_data(hash, use->address, sizeof(use->address));
	use->key[1] = user_cgroup(file->cgroup, file->pids_cgroup);
	use->kind = INSTANCE_NETNS;
	use->id = file->netns;
	use->used = 1;
	use->of_max = file->max;
	use->adds = use->is_remote = true;
	use->by_netns = !file->cgroup;
	use->port = file->port;
}

/* Writes the use that an open file adds to a row. False: none. */
static bool census_count_file(
	const struct census_file *file, enum census_count_file count, struct limit_use *use)
{
	*use = (struct limit_use){.used = file->used, .pid = file->pid, .netns = file->netns};
	switch (count) {
	case COUNT_FILE_INSTANCES:
	case COUNT_FILE_WATCHES:
	case COUNT_FILE_PTYS:
		use->adds = true;
		use->key[0] = 1;
		use->key[1] = user_cgroup(file->cgroup, file->pids_cgroup);
		use->used = count == COUNT_FILE_WATCHES ? file->used : 1;
		if (count == COUNT_FILE_PTYS)
			return file->kind == CENSUS_PTY;
		use->kind = INSTANCE_UID;
		use->id = file->uid;
		use->key[0] += file->uid;
		return file->kind == CENSUS_INOTIFY && use->used > 0;
	case COUNT_FILE_TCP_PAGES:
	case COUNT_FILE_UDP_PAGES:
		use->adds = true;
		use->key[0] = 6;
		use->key[1] = user_cgroup(file->cgroup, file->pids_cgroup);
		use->used = file->pages;
		return file->pages > 0 && file->is_udp == (count == COUNT_FILE_UDP_PAGES);
	case COUNT_FILE_LISTENERS:
		use->kind = INSTANCE_SOCKET;
		use->id = file->inode;
		use->key[0] = 4;
		use->key[1] = file->file;
		use->max = MAX(file->max, 1U);
		use->hits = file->drops;
		use->port = file->port;
		use->somaxconn = file->somaxconn;
		return file->kind == CENSUS_LISTENER;
	case COUNT_FILE_PORTS:
		count_connection(file, use);
		return file->kind == CENSUS_CONNECTED;
	case COUNT_NO_FILES:
		break;
	}
	return false;
}

#define OWN_MAPS "headroom_" /* bpf/: they have their own bounds */

/* Writes the use of a BPF map. False: the row has other maps. */
static bool census_count_map(
	const struct census_map *map, const struct limit_reader *reader, struct limit_use *use)
{
	bool is_lru =
		map->type == BPF_MAP_TYPE_LRU_HASH || map->type == BPF_MAP_TYPE_LRU_PERCPU_HASH;

	*use = (struct limit_use){
		.key = {7, map->id},
		.kind = INSTANCE_BPF_MAP,
		.id = map->id,
		.used = (uint64_t)MAX(map->used, (__s64)0),
		.of_max = map->max,
		.is_estimate = map->is_estimate,
		.cgroup = map->cgroup > 0 ? cgroup_key(CGROUP_MEMORY, map->cgroup) : 0,
	};
	memcpy(use->comm, map->name, sizeof(use->comm));
	return reader->count_bpf == (is_lru ? COUNT_BPF_LRU_MAPS : COUNT_BPF_MAPS) &&
	       map->max >= reader->matters_from && !starts_with(use->comm, OWN_MAPS);
}

/* ---- the tally ---- */

/* Finds the use with this key, or adds one without users. */
static struct limit_use *tally_at(struct tally *tally, uint64_t high, uint64_t low)
{
	const uint64_t key[2] = {high, low};
	struct limit_use *use = find_keyed(&tally->index, tally->uses, tally->n, &key);

	if (!use) {
		use = add_element(&tally->uses, &tally->n, &tally->allocated);
		memcpy(use->key, key, sizeof(key));
	}
	return use;
}

static void tally_free(struct tally *tally)
{
	free(tally->uses);
	free(tally->index.positions);
	*tally = (struct tally){0};
}

/* Compares by share: either all uses of a row have a maximum of their own, or none has. */
static int by_share(const void *a, const void *b)
{
	const struct limit_use *x = a, *y = b;
	double left = (double)x->used / (double)MAX(MAX(x->max, x->of_max), (uint64_t)1);
	double right = (double)y->used / (double)MAX(MAX(y->max, y->of_max), (uint64_t)1);

	if (x->is_minor != y->is_minor)
		return x->is_minor - y->is_minor;
	return (left < right) - (left > right);
}

static void tally_add(struct tally *tally, const struct limit_reader *reader, struct limit_use *use)
{
	uint64_t max = MAX(use->max, use->of_max);
	struct limit_use *known;

	use->is_minor =
		max > 0 && (max < reader->matters_from || (reader->never_above && use->used > max));
	if (use->key[0] || use->key[1]) {
		known = tally_at(tally, use->key[0], use->key[1]);
		use->used += use->adds ? known->used : 0;
		use->last_pid = use->pid;
		if (known->pid > 0) {
			use->pid = known->pid;
			memcpy(use->comm, known->comm, sizeof(use->comm));
		}
		*known = *use;
		return;
	}
	/* Each process is a use: keep the fullest. */
	if (!tally->uses)
		tally->uses = must(calloc(TALLY_CANDIDATES, sizeof(*tally->uses)));
	keep_first(tally->uses, &tally->n, TALLY_CANDIDATES, sizeof(*use), use, by_share);
}

/* Names a process outside of all workloads and services: the unit of its session, or the host. */
static void name_scope(const char *text, struct workload *workload)
{
	const char *end = strstr(text, ".scope"), *begin = end;

	*workload = (struct workload){.kind = WORKLOAD_HOST, .name = "host"};
	while (begin && begin > text && begin[-1] != '/' && begin[-1] != '\n')
		begin--;
	if (!begin)
		return;
	workload->kind = WORKLOAD_UNIT;
	snprintf(workload->name, sizeof(workload->name), "%.*s",
		(int)(end - begin) + (int)strlen(".scope"), begin);
	cgroup_user_slice(text, workload);
	text_make_printable(workload->name);
}

static bool name_process(const struct host *host, uint32_t pid, struct workload *workload)
{
	_cleanup_free_ char *text = NULL;

	if (process_read(host->root, (pid_t)pid, "cgroup", &text, NULL) < 0)
		return false;
	if (!cgroup_file_workload(text, workload))
		name_scope(text, workload);
	return true;
}

#define ENDS_MAX (2 * INET6_ADDRSTRLEN + 24)

static void describe_ends(const struct limit_use *use, char text[static ENDS_MAX])
{
	char source[INET6_ADDRSTRLEN] = "", address[INET6_ADDRSTRLEN] = "";

	inet_ntop(use->family, use->source, source, sizeof(source));
	inet_ntop(use->family, use->address, address, sizeof(address));
	snprintf(text, ENDS_MAX, "%s to %s port %u", source, address, use->port);
}

static void describe_use(const struct limit_use *use, char detail[static LIMIT_DETAIL_MAX])
{
	char address[INET6_ADDRSTRLEN] = "";

	detail[0] = '\0';
	if (use->is_remote) {
		inet_ntop(use->family, use->address, address, sizeof(address));
		snprintf(detail, LIMIT_DETAIL_MAX, "to %s port %u", address, use->port);
	} else if (use->port > 0) {
		snprintf(detail, LIMIT_DETAIL_MAX, "port %u", use->port);
	} else if (use->kind == INSTANCE_BPF_MAP) {
		snprintf(detail, LIMIT_DETAIL_MAX, "map %s%s(id %" PRIu64 ")", use->comm,
			use->comm[0] ? " " : "", use->id);
	} else if (use->comm[0]) {
		snprintf(detail, LIMIT_DETAIL_MAX, "process %u (%.*s)", use->pid, CENSUS_COMM,
			use->comm);
		text_make_printable(detail);
	}
}

/* The processes of others than pods share the namespace of the host. */
static void name_netns(
	const struct host *host, const struct limit_use *use, struct workload *workload)
{
	bool is_seen = name_process(host, use->pid, workload);

	if (is_seen && workload->kind != WORKLOAD_UNIT)
		return;
	*workload = (struct workload){.kind = WORKLOAD_HOST, .name = "host"};
	/* The process has ended, so whose namespace it is is not known. */
	if (is_seen || use->id == limits_own_netns())
		return;
	workload->kind = WORKLOAD_NETNS;
	snprintf(workload->name, sizeof(workload->name), "%" PRIu64, use->id);
	set_text(workload->id, workload->name);
}

/* Containers may share a namespace: the oldest of their cgroups made it. */
static const struct limit_use *oldest_of(const struct limit_use *uses, size_t n)
{
	const struct limit_use *oldest = uses;

	for (size_t i = 1; i < n; i++)
		if (uses[i].cgroup > 0 && (oldest->cgroup == 0 || uses[i].cgroup < oldest->cgroup))
			oldest = &uses[i];
	return oldest;
}

static void name_use(const struct host *host, const struct limit_use *use, struct limit_user *user)
{
	struct workload *workload = &user->workload;

	*user = (struct limit_user){.used = use->used, .max = MAX(use->max, use->of_max)};
	describe_use(use, user->detail);
	if (use->by_uid) {
		workload->kind = WORKLOAD_UID;
		snprintf(workload->name, sizeof(workload->name), "%u", use->uid);
		return;
	}
	if (use->by_netns) {
		name_netns(host, use, workload);
		return;
	}
	user->id = use->cgroup;
	if (use->kind == INSTANCE_BPF_MAP && !use->cgroup) {
		*workload = (struct workload){.kind = WORKLOAD_UNIT, .name = "unknown"};
		return;
	}
	/* The loop knows the names of cgroups whose processes have ended. */
	if (!name_process(host, use->pid, workload) && !name_process(host, use->last_pid, workload))
		*workload = cgroup_unknown(use->cgroup);
}

/* Uses of several cgroups may belong to one workload. Returns whether user was added to one. */
static bool merge_user(struct limit_user *top, unsigned n, const struct limit_user *user)
{
	for (unsigned i = 0; i < n; i++)
		if (workload_equal(&top[i].workload, &user->workload) &&
			streq(top[i].detail, user->detail)) {
			top[i].used += user->used;
			return true;
		}
	return false;
}

static double user_share(const struct limit_user *user)
{
	return (double)user->used / (double)MAX(user->max, (uint64_t)1);
}

static int by_user_share(const void *a, const void *b)
{
	double left = user_share(a), right = user_share(b);

	return (left < right) - (left > right);
}

/* Sets top to the workloads of the fullest uses, which come first. */
static void name_top(const struct tally *tally, const struct host *host, unsigned named,
	struct limit_reading *reading)
{
	for (size_t i = 0; i < MIN(tally->n, (size_t)named) && tally->uses[i].used > 0; i++) {
		const struct limit_use *use = &tally->uses[i];
		struct limit_user user;

		name_use(host, use, &user);
		if ((use->adds && merge_user(reading->top, reading->n_top, &user)) ||
			reading->n_top == LIMIT_TOP_MAX)
			continue;
		*limit_add_user(reading) = user;
	}
	if (reading->n_top > 0)
		qsort(reading->top, reading->n_top, sizeof(*reading->top), by_user_share);
}

/* ---- instances ---- */

/* A row that a pass finishes. */
struct finish {
	const struct host *host;
	const struct limit_reader *reader;
	uint64_t max;   /* the row's */
	unsigned named; /* users */
	uint64_t at_us; /* CLOCK_MONOTONIC of the pass */
	struct limits_hits *hits;
	size_t row;
	bool is_first;    /* hits of before do not count */
	uint64_t without; /* the id of an instance that another row has */
	uint64_t own_netns;
	struct limit_reading *reading;
	struct limit_instances *instances;
};

static int by_instance(const void *a, const void *b)
{
	const struct limit_use *x = a, *y = b;
	int order = (x->kind > y->kind) - (x->kind < y->kind);

	order = order ? order : (x->id > y->id) - (x->id < y->id);
	return order ? order : (x->key[0] > y->key[0]) - (x->key[0] < y->key[0]);
}

/* Two listeners, or two processes, are two instances although their first key is the same. */
static bool is_of_same(const struct limit_use *x, const struct limit_use *y)
{
	return x->adds && by_instance(x, y) == 0;
}

static struct limits_hit *find_hit(const struct finish *finish, const struct instance *instance)
{
	const uint64_t key[2] = {finish->row + 1, limit_instance_hash(instance)};
	struct limits_hits *hits = finish->hits;
	struct limits_hit *known = find_keyed(&hits->index, hits->list, hits->n, &key);

	if (!known) {
		known = add_element(&hits->list, &hits->n, &hits->allocated);
		*known = (struct limits_hit){.key = {key[0], key[1]}};
	}
	return known;
}

/*
 * A listener also drops packets of connections that it accepts, for example at the end of each
 * handshake with TCP_DEFER_ACCEPT. Returns how many of the drops its namespace counts as refused
 * since the last pass.
 */
static uint64_t count_refused(
	const struct finish *finish, const struct limit_use *listener, uint64_t drops)
{
	const struct instance netns = {.kind = INSTANCE_NETNS, .id = listener->netns};
	struct limits_hit *known = find_hit(finish, &netns);
	_cleanup_free_ char *text = NULL;
	uint64_t before = known->last, refused;

	if (known->at_us != finish->at_us) {
		if (process_read(finish->host->root, (pid_t)listener->pid, "net/netstat", &text,
			    NULL) == 0)
			(void)limits_find_number(text, "TcpExt:", "ListenOverflows", &known->last);
		known->first = known->at_us == 0 && finish->is_first ? known->last : before;
		known->at_us = finish->at_us;
	}
	refused = MIN(drops, known->last - MIN(known->first, known->last));
	known->first += refused;
	return refused;
}

/* Counts from the first pass on, or from the begin of the instance. */
static void count_hits(
	const struct finish *finish, const struct limit_use *use, struct limit_instance *instance)
{
	bool is_listener = use->kind == INSTANCE_SOCKET;
	struct limits_hit *known;
	uint64_t new, refused;

	if (instance->hits == 0) {
		/* What the node's namespace counted before is no news. */
		if (is_listener && instance->of_agent)
			(void)count_refused(finish, use, 0);
		return;
	}
	known = find_hit(finish, &instance->instance);
	if (known->at_us == 0)
		known->first = known->last = finish->is_first ? instance->hits : 0;
	known->at_us = finish->at_us;
	known->first = MIN(known->first, instance->hits);
	new = MAX(instance->hits, known->last) - known->last;
	refused = is_listener ? count_refused(finish, use, new) : use->has_foreign_hits ? 0 : new;
	known = find_hit(finish, &instance->instance);
	known->first += new - refused;
	instance->is_fresh = refused > 0;
	finish->hits->totals[finish->row] += refused;
	known->last = instance->hits;
	instance->hits -= known->first;
}

/* Adds up n uses to their instance, still without names. */
static void add_instance(const struct finish *finish, const struct limit_use *uses, size_t n,
	size_t at, double *fullest)
{
	const struct limit_use *first = &uses[at];
	struct limit_instance instance = {
		.instance = {.kind = first->kind, .id = first->id},
		.max = first->of_max ? first->of_max
		       : first->max  ? first->max
				     : finish->max,
		.at_us = finish->at_us,
		.pid = (pid_t)first->pid,
		.beside = first->beside,
		.of_agent = first->netns == finish->own_netns,
		.first_use = at,
		.n_uses = n,
	};
	char ends[ENDS_MAX];
	double share;

	for (size_t i = 0; i < n; i++) {
		instance.used += uses[at + i].used;
		instance.hits += uses[at + i].hits;
	}
	if (first->of_used)
		instance.used = first->of_used;
	if (first->kind == INSTANCE_PROCESS || first->kind == INSTANCE_BPF_MAP)
		snprintf(
			instance.instance.name, SETTING_PATH_MAX, "%.*s", CENSUS_COMM, first->comm);
	if (first->kind == INSTANCE_UID)
		snprintf(instance.instance.name, SETTING_PATH_MAX, "%u", (unsigned)first->id);
	if (first->kind == INSTANCE_SOCKET)
		snprintf(instance.instance.name, SETTING_PATH_MAX, "port %u", first->port);
	if (first->is_remote) {
		describe_ends(first, ends);
		set_text(instance.instance.name, ends);
	}
	text_make_printable(instance.instance.name);
	count_hits(finish, first, &instance);
	share = (double)instance.used / (double)MAX(instance.max, (uint64_t)1);
	if (!first->is_minor && share > *fullest) {
		*fullest = share;
		finish->reading->used = instance.used;
		finish->reading->max = instance.max;
	}
	if (first->id == finish->without && finish->without)
		return;
	if (!first->is_minor || instance.hits > 0)
		limit_instance_add(finish->instances, &instance);
}

/*
 * Finds the path of a cgroup from a process in it or below it, and its workload. The path that the
 * host has for it is where the command of a cure writes.
 */
static bool find_cgroup(const struct host *host, uint32_t pid, struct instance *instance)
{
	_cleanup_free_ char *text = NULL;
	char why[TUNER_WHY_MAX], mount[PATH_MAX], line[PATH_MAX], *path = NULL, *end;
	_cleanup_close_ int root = cgroup_root_open(host, "pids", why, sizeof(why));
	bool is_v1 = root >= 0;
	struct stat st;

	if (root < 0)
		root = cgroup_root_open(host, NULL, why, sizeof(why));
	if (root < 0 || process_read(host->root, (pid_t)pid, "cgroup", &text, NULL) < 0)
		return false;
	cgroup_root_path(host, root, mount);
	path = cgroup_of_text(text, is_v1 ? "pids" : "");
	if (!mount[0] || !path)
		return false;
	while (path[1] && (fstatat(root, path + 1, &st, 0) < 0 || st.st_ino != instance->id)) {
		end = strrchr(path, '/');
		end[end == path] = '\0';
	}
	if (!path[1])
		return false;
	snprintf(instance->name, SETTING_PATH_MAX, "%s%s", mount, path);
	text_make_printable(instance->name);
	snprintf(line, sizeof(line), "0::%s\n", path);
	if (!cgroup_file_workload(line, &instance->owner))
		name_scope(line, &instance->owner);
	return true;
}

#define PATHS       64 /* that find_repeated() compares */
#define MOUNTED_MAX 87 /* of a longer path the end is shown */

struct mounted {
	char path[SETTING_PATH_MAX];
	size_t n;
};

/* Calls visit with the path of each mount that a process sees. */
static size_t each_mount(const struct host *host, pid_t pid,
	void (*visit)(struct mounted *, const char *), struct mounted *paths)
{
	char full[PATH_MAX], name[64], path[SETTING_PATH_MAX];
	_cleanup_fclose_ FILE *file = NULL;
	struct mount mount;
	size_t n = 0;

	snprintf(name, sizeof(name), "/proc/%d/mountinfo", pid);
	file = fopen(host_path(host, name, full), "re");
	for (; mounts_next(file, &mount); n++) {
		set_text(path, mount.point);
		visit(paths, path);
	}
	return n;
}

/* Keeps the paths that are a large part of all: Misra and Gries, Finding repeated elements, 1982.
 */
static void keep_repeated(struct mounted *paths, const char *path)
{
	struct mounted *free_one = NULL;

	for (struct mounted *known = paths; known < paths + PATHS; known++) {
		if (known->n > 0 && streq(known->path, path)) {
			known->n++;
			return;
		}
		if (known->n == 0)
			free_one = known;
	}
	if (free_one) {
		set_text(free_one->path, path);
		free_one->n = 1;
		return;
	}
	for (struct mounted *known = paths; known < paths + PATHS; known++)
		known->n--;
}

static void count_again(struct mounted *most, const char *path)
{
	most->n += streq(most->path, path);
}

/* Says which path is mounted again and again. */
static void find_repeated(const struct host *host, struct limit_instance *instance)
{
	struct mounted paths[PATHS] = {0}, most = {0};
	size_t len, n = each_mount(host, instance->pid, keep_repeated, paths);

	for (int i = 0; i < PATHS; i++)
		if (paths[i].n > most.n)
			most = paths[i];
	most.n = 0;
	(void)each_mount(host, instance->pid, count_again, &most);
	if (most.n * 10 < n || most.n < 2)
		return;
	text_make_printable(most.path);
	len = strlen(most.path);
	snprintf(instance->what, sizeof(instance->what), "%s%s is mounted %zu times",
		len > MOUNTED_MAX ? "..." : "",
		most.path + (len > MOUNTED_MAX ? len - MOUNTED_MAX : 0), most.n);
}

/* Names an instance and its users. */
static void name_instance(
	const struct finish *finish, const struct limit_use *uses, struct limit_instance *instance)
{
	const struct limit_use *first = &uses[instance->first_use];
	const struct host *host = finish->host;
	struct workload *owner = &instance->instance.owner;

	for (size_t i = 0; i < instance->n_uses && first->kind == INSTANCE_CGROUP &&
			   !instance->instance.name[0];
		i++)
		if (find_cgroup(host, first[i].pid, &instance->instance))
			instance->pid = (pid_t)first[i].pid;
	/* Its processes have ended. */
	if (first->kind == INSTANCE_CGROUP && !instance->instance.name[0])
		instance->max = instance->hits = 0;
	if (first->kind == INSTANCE_NETNS && instance->of_agent)
		*owner = (struct workload){.kind = WORKLOAD_HOST, .name = "host"};
	else if (first->kind == INSTANCE_NETNS)
		name_netns(host, oldest_of(first, instance->n_uses), owner);
	else if (first->kind == INSTANCE_PROCESS || first->kind == INSTANCE_SOCKET ||
		 first->kind == INSTANCE_MNTNS)
		(void)name_process(host, first->pid, owner);
	if (first->port > 0 && first->somaxconn == instance->max) {
		instance->sysctl = "net.core.somaxconn";
		instance->sysctl_value = first->somaxconn;
	}
	if (first->kind == INSTANCE_MNTNS && instance->used * 10 > instance->max * 7)
		find_repeated(host, instance);
	if (first->is_remote && owner->kind != WORKLOAD_HOST)
		set_text(instance->what, instance->instance.name);
	if (finish->reader->count_bpf == COUNT_BPF_LRU_MAPS)
		set_text(instance->what, "full is normal; not known whether it evicts elements in "
					 "use");
	else if (first->is_estimate)
		set_text(instance->what, "estimated from a sample");
	if (first->kind == INSTANCE_BPF_MAP && !first->cgroup)
		return;
	/* The other pass has the users of a uid. */
	for (size_t i = 0; i < instance->n_uses && !first->by_uid && i < TALLY_CANDIDATES; i++) {
		struct limit_user user, *added;

		name_use(host, &first[i], &user);
		user.max = 0;
		if (first->port > 0 || first->kind == INSTANCE_BPF_MAP) /* the instance has it */
			user.detail[0] = '\0';
		if (merge_user(instance->top, instance->n_top, &user))
			continue;
		added = limit_instance_user(instance);
		if (added)
			*added = user;
	}
}

static int by_used(const void *a, const void *b)
{
	const struct limit_use *x = a, *y = b;

	return (x->used < y->used) - (x->used > y->used);
}

static void find_instances(const struct finish *finish, struct tally *tally)
{
	struct limit_instances *instances = finish->instances;
	double fullest = -1;
	size_t n;

	qsort(tally->uses, tally->n, sizeof(*tally->uses), by_instance);
	for (size_t i = 0; i < tally->n; i += n) {
		for (n = 1; i + n < tally->n && is_of_same(&tally->uses[i], &tally->uses[i + n]);)
			n++;
		qsort(&tally->uses[i], n, sizeof(*tally->uses), by_used);
		add_instance(finish, tally->uses, n, i, &fullest);
	}
	for (unsigned i = 0; i < instances->n; i++)
		name_instance(finish, tally->uses, &instances->list[i]);
}

/*
 * Sets used and max to the numbers of the fullest instance, and top to the workloads of the fullest
 * uses. Frees the tally.
 */
static void tally_finish(struct tally *tally, const struct finish *finish)
{
	const struct limit_use *fullest = tally->uses;
	struct limit_reading *reading = finish->reading;
	size_t n = 0;

	for (size_t i = 0; i < tally->n; i++)
		/* A process was seen. */
		if (tally->uses[i].pid > 0 || tally->uses[i].kind == INSTANCE_BPF_MAP)
			tally->uses[n++] = tally->uses[i];
	tally->n = n;
	reading->max = finish->max;
	if (n > 0) {
		qsort(tally->uses, n, sizeof(*tally->uses), by_share);
		reading->used = fullest->used;
		reading->max = fullest->max ? fullest->max : finish->max;
		name_top(tally, finish->host, finish->named, reading);
	}
	if (n > 0 && finish->reader->has_instances)
		find_instances(finish, tally);
	tally_free(tally);
}

/* ---- connections ---- */

#define DUMP_SIZE 32768

/* Reads the tracked connections of these network namespaces. */
static int limits_sample_namespaces(struct tally *namespaces, const struct finish *finish)
{
	struct tally fullest = {0};

	for (size_t i = 0; i < namespaces->n; i++) {
		struct limit_use *use = &namespaces->uses[i];
		_cleanup_free_ char *text = NULL;
		const char *line;

		if (use->pid == 0 || process_read(finish->host->root, (pid_t)use->pid,
					     "net/stat/nf_conntrack", &text, NULL) < 0)
			continue;
		/* Each line of a CPU begins with the count of the namespace. */
		line = strchr(text, '\n');
		use->kind = INSTANCE_NETNS;
		use->id = use->key[1];
		use->by_netns = true;
		use->used = line ? strtoull(line + 1, NULL, 16) : 0;
		use->hits = limits_sum_column(text, "drop") + limits_sum_column(text, "early_drop");
		tally_add(&fullest, finish->reader, use);
	}
	tally_finish(&fullest, finish);
	return 0;
}

/* ---- who: a sample of the table ---- */

/* The kernel dumps in the order of a hash, so the beginning is a random sample. */
#define SAMPLE_MAX 2048

/* Finds an attribute among others. */
static const struct nlattr *find_attribute(const struct nlattr *in, int type)
{
	return in ? nla_find(nla_data(in), nla_len(in), type) : NULL;
}

struct sampled {
	struct tally sources;
	unsigned entries;
};

/* Counts the source address of an entry. */
static int add_source(struct nl_msg *found, void *userdata)
{
	struct nlmsghdr *message = nlmsg_hdr(found);
	const struct nfgenmsg *header = nlmsg_data(message);
	const struct nlattr *tuple = nlmsg_find_attr(message, sizeof(*header), CTA_TUPLE_ORIG);
	bool is_v4 = header->nfgen_family == AF_INET;
	const struct nlattr *source = find_attribute(
		find_attribute(tuple, CTA_TUPLE_IP), is_v4 ? CTA_IP_V4_SRC : CTA_IP_V6_SRC);
	struct sampled *sampled = userdata;
	uint8_t address[16] = {0};
	uint64_t halves[2];
	struct limit_use *use;

	if (!source || nla_len(source) != (is_v4 ? 4 : 16))
		return NL_OK;
	memcpy(address, nla_data(source), (size_t)nla_len(source));
	memcpy(halves, address, sizeof(halves));
	use = tally_at(&sampled->sources, halves[0], halves[1] + is_v4);
	use->family = header->nfgen_family;
	memcpy(use->address, address, sizeof(address));
	use->used++;
	return ++sampled->entries < SAMPLE_MAX ? NL_OK : NL_STOP;
}

static void read_sources(struct sampled *sampled)
{
	struct nfgenmsg family = {AF_UNSPEC, NFNETLINK_V0, 0};
	struct nl_sock *socket = must(nl_socket_alloc());

	nl_socket_set_msg_buf_size(socket, DUMP_SIZE);
	nl_socket_modify_cb(socket, NL_CB_VALID, NL_CB_CUSTOM, add_source, sampled);
	if (nl_connect(socket, NETLINK_NETFILTER) == 0 &&
		nl_send_simple(socket, NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_GET, NLM_F_DUMP,
			&family, sizeof(family)) >= 0)
		(void)nl_recvmsgs_default(socket);
	nl_socket_free(socket);
}

/* Returns whether an address is this node's: it can be bound. */
static bool is_local(const struct limit_use *use)
{
	_cleanup_close_ int fd = socket(use->family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in v4 = {.sin_family = AF_INET};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};

	memcpy(&v4.sin_addr, use->address, sizeof(v4.sin_addr));
	memcpy(&v6.sin6_addr, use->address, sizeof(v6.sin6_addr));
	return use->family == AF_INET ? bind(fd, (struct sockaddr *)&v4, sizeof(v4)) == 0
				      : bind(fd, (struct sockaddr *)&v6, sizeof(v6)) == 0;
}

/* The loop replaces an address by the workload that has it: a task does not know the names. */
int limits_conntrack_users(const struct limit_source *source, struct limit_reading *reading)
{
	struct sampled sampled = {0};
	struct tally *sources = &sampled.sources;
	struct limit_reading now = {0};

	/* The request would load the kernel's module into a node that tracks no connections. */
	if (limits_read_conntrack(source, &now) == 0 && now.used > 0)
		read_sources(&sampled);
	if (sampled.entries > 0)
		qsort(sources->uses, sources->n, sizeof(*sources->uses), by_share);
	for (size_t i = 0; i < MIN(sources->n, (size_t)LIMIT_TOP_MAX); i++) {
		const struct limit_use *use = &sources->uses[i];
		struct limit_user *user = limit_add_user(reading);
		char address[INET6_ADDRSTRLEN];

		inet_ntop(use->family, use->address, address, sizeof(address));
		user->used = use->used * now.used / sampled.entries;
		user->workload.kind = is_local(use) ? WORKLOAD_HOST : WORKLOAD_NETNS;
		set_text(user->workload.name,
			user->workload.kind == WORKLOAD_HOST ? "host" : address);
		snprintf(user->detail, sizeof(user->detail), "from %s", address);
	}
	tally_free(sources);
	return 0;
}

void limits_hits_free(struct limits_hits *hits)
{
	free(hits->list);
	free(hits->index.positions);
	free(hits->totals);
	*hits = (struct limits_hits){0};
}

/* ---- samples: they consist of the parts that are due ---- */

#define SAMPLE_EVERY_US (10 * USEC_PER_SEC)
#define MAPS_EVERY_US   (60 * USEC_PER_SEC)
#define BUSY_EVERY_US   (5 * USEC_PER_SEC) /* passes for a row that is more than half used */

/* A part uses at most 1/N of a CPU. */
#define NAMESPACES_SHARE 5000
static const struct {
	unsigned idle, busy; /* busy: more than half of a row is used */
} shares[PASSES] = {[OF_PROCESSES] = {2000, 400}, [OF_FILES] = {2000, 200}, [OF_BPF] = {2000, 0}};

#define FILE_NS 300 /* CPU time for a file, to predict a pass */

#define NAMED_IDLE 3 /* users of a row that is at most half used */

struct limits_sample {
	struct host host;
	struct node_disks disks; /* a copy */
	bool due_rows, due_namespaces;
	bool pids_apart;      /* the pids controller has a hierarchy of cgroup v1 */
	struct census census; /* a descriptor of its own for each part that is due */
	size_t n;
	bool *busy;              /* more than half of a row is used, or a finding is open */
	struct limit_seen *rows; /* results */
	struct limits_hits hits; /* the tuner's; it comes back with the results */
	struct limits_estimates estimates; /* likewise */
	bool is_first[PASSES], is_first_of_namespaces;
	uint64_t cost_us[PASSES], namespaces_us, n_files;
	int errors[PASSES];
};

static int duplicate(int fd, bool due)
{
	return fd < 0 || !due ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

static bool is_due(uint64_t *next, uint64_t now, uint64_t every_us, bool force)
{
	if (now < *next && !force)
		return false;
	*next = next_turn_us(now, every_us);
	return true;
}

void *limits_sample_request(void *self, const void *, bool now)
{
	struct limits *limits = self;
	uint64_t at = now_us();
	bool is_wanted[PASSES] = {0}, due[PASSES], due_rows, is_first;
	_cleanup_free_ bool *busy = must(calloc(limits->n, sizeof(*busy)));
	struct limits_sample *sample;

	for (size_t i = 0; i < limits->n; i++) {
		const struct limit_reader *reader = limits_rows[i].reader;
		const struct limit_seen *seen = &limits->rows[i];

		busy[i] = now || seen->n_open > 0 ||
			  (seen->error == 0 && seen->reading.used * 2 > seen->reading.max);
		is_wanted[OF_PROCESSES] |= busy[i] && reader && reader->count;
		is_wanted[OF_FILES] |= busy[i] && reader && reader->count_file;
	}
	/* A listener of the node refuses connections: a pass on a large node is rare. */
	is_wanted[OF_FILES] |= limits->has_overflows;
	for (int i = 0; i < PASSES; i++) {
		struct limits_pass *pass = &limits->passes[i];

		if (is_wanted[i])
			pass->next_us = MIN(pass->next_us,
				pass->at_us + MAX(BUSY_EVERY_US, pass->cost_us * shares[i].busy));
	}
	is_first = limits->next_namespaces_us == 0;
	due_rows = is_due(&limits->next_sample_us, at, SAMPLE_EVERY_US, now);
	/* The census predicts its cost. */
	due[OF_FILES] = limits->census.passes[OF_FILES] >= 0 && (limits->counted || now) &&
			is_due(&limits->passes[OF_FILES].next_us, at, SAMPLE_EVERY_US, now);
	limits->has_overflows &= !due[OF_FILES];
	/* A pass over files also needs one process of each network namespace. */
	due[OF_PROCESSES] = limits->census.passes[OF_PROCESSES] >= 0 &&
			    is_due(&limits->passes[OF_PROCESSES].next_us, at, SAMPLE_EVERY_US,
				    now || due[OF_FILES]);
	due[OF_BPF] = limits->census.passes[OF_BPF] >= 0 && due_rows &&
		      is_due(&limits->passes[OF_BPF].next_us, at, MAPS_EVERY_US, now);
	if (!due_rows && !due[OF_PROCESSES] && !due[OF_FILES])
		return NULL;
	if (!limits->hits.totals)
		limits->hits.totals = must(calloc(limits->n, sizeof(*limits->hits.totals)));
	sample = must(calloc(1, sizeof(*sample)));
	*sample = (struct limits_sample){
		.host = *limits->host,
		.disks = limits->facts->disks,
		.due_rows = due_rows,
		.pids_apart = cgroups_root(limits->facts->cgroups, CGROUP_PIDS) >= 0,
		.census = {.lister = duplicate(limits->census.lister, due[OF_FILES]),
			.connections = duplicate(limits->census.connections, due[OF_FILES])},
		.n = limits->n,
		.busy = steal(busy),
		.rows = must(calloc(limits->n, sizeof(*sample->rows))),
		.hits = limits->hits,
		.estimates = limits->estimates,
		.is_first = {limits->passes[OF_PROCESSES].at_us == 0,
			limits->passes[OF_FILES].at_us == 0},
		.is_first_of_namespaces = is_first,
	};
	limits->hits = (struct limits_hits){0};
	limits->estimates = (struct limits_estimates){0};
	for (int kind = 0; kind < PASSES; kind++)
		sample->census.passes[kind] = duplicate(limits->census.passes[kind], due[kind]);
	for (size_t i = 0; i < limits->n; i++) {
		const struct limit_seen *seen = &limits->rows[i];
		struct limit_seen *copy = &sample->rows[i];

		memcpy(copy->open, seen->open, sizeof(copy->open));
		copy->n_open = seen->n_open;
		for (int k = 0; k < SOURCES; k++) {
			copy->instances[k].open = copy->open;
			copy->instances[k].n_open = copy->n_open;
		}
	}
	sample->due_namespaces =
		due[OF_PROCESSES] && is_due(&limits->next_namespaces_us, at, SAMPLE_EVERY_US, now);
	return sample;
}

/* The sums of a pass. */
struct census_pass {
	const struct limits_sample *sample;
	struct tally *tallies;    /* one for each row */
	struct tally *namespaces; /* a process of each */
	struct seen_files {
		__u64 *files;
		size_t n, allocated;
		struct element_index index;
	} files; /* counted so far */
	uint64_t n_files;
	struct census_map *uncounted; /* BPF maps */
	size_t n_uncounted, uncounted_allocated;
};

/*
 * The key of a cgroup by which the loop may name the user later. Where the pids controller is
 * apart, a pod's cgroup in cgroup2 can be its runtime's.
 */
static uint64_t cgroup_of(const struct census_pass *pass, uint64_t inode, uint64_t pids_inode)
{
	return pass->sample->pids_apart ? cgroup_key(CGROUP_PIDS, pids_inode) : inode;
}

static void visit_process(void *userdata, const void *data)
{
	const struct census_record *record = data;
	struct census_pass *pass = userdata;
	struct limit_use use;

	pass->n_files += record->files;
	if (record->netns)
		tally_at(pass->namespaces, 1, record->netns)->pid = record->pid;
	for (size_t i = 0; i < pass->sample->n; i++) {
		const struct limit_reader *reader = limits_rows[i].reader;

		if (!reader || !census_count(record, reader->count, &use))
			continue;
		use.cgroup = cgroup_of(pass, record->cgroup, record->pids_cgroup);
		tally_add(&pass->tallies[i], reader, &use);
	}
}

static void visit_file(void *userdata, const void *data)
{
	const struct census_file *file = data;
	struct census_pass *pass = userdata;
	struct seen_files *files = &pass->files;
	struct limit_use use;

	/* Processes share it, or it is a connection of a process. */
	if (find_keyed(&files->index, files->files, files->n, &file->file))
		return;
	*add_element(&files->files, &files->n, &files->allocated) = file->file;
	for (size_t i = 0; i < pass->sample->n; i++) {
		const struct limit_reader *reader = limits_rows[i].reader;

		if (!reader || !census_count_file(file, reader->count_file, &use))
			continue;
		use.cgroup = cgroup_of(pass, file->cgroup, file->pids_cgroup);
		tally_add(&pass->tallies[i], reader, &use);
	}
}

/* Nobody has a connection open in TIME_WAIT. */
static void visit_connection(void *userdata, const void *data)
{
	const struct census_pass *pass = userdata;
	struct census_file file;

	memcpy(&file, data, sizeof(file));
	file.pid = tally_at(pass->namespaces, 1, file.netns)->pid;
	visit_file(userdata, &file);
}

static void count_map(struct census_pass *pass, const struct census_map *map)
{
	struct limit_use use;

	for (size_t i = 0; i < pass->sample->n; i++) {
		const struct limit_reader *reader = limits_rows[i].reader;

		if (reader && census_count_map(map, reader, &use))
			tally_add(&pass->tallies[i], reader, &use);
	}
}

static void visit_map(void *userdata, const void *data)
{
	const struct census_map *map = data;
	struct census_pass *pass = userdata;

	if (map->used == CENSUS_UNCOUNTED)
		*add_element(&pass->uncounted, &pass->n_uncounted, &pass->uncounted_allocated) =
			*map;
	else
		count_map(pass, map);
}

static void estimate_maps(struct limits_sample *sample, struct census_pass *pass)
{
	limits_estimate_maps(&sample->host, &sample->estimates, pass->uncounted, pass->n_uncounted);
	for (size_t i = 0; i < pass->n_uncounted; i++)
		if (pass->uncounted[i].used != CENSUS_UNCOUNTED)
			count_map(pass, &pass->uncounted[i]);
}

/* Returns what a row needs to finish a pass. */
static struct finish finish_of(struct limits_sample *sample, size_t row, int kind)
{
	const struct limit_reader *reader = limits_rows[row].reader;
	struct limit_seen *seen = &sample->rows[row];

	return (struct finish){
		.host = &sample->host,
		.reader = reader,
		.named = sample->busy[row] ? TALLY_CANDIDATES : NAMED_IDLE,
		.at_us = now_us(),
		.hits = &sample->hits,
		.row = row,
		.is_first = sample->is_first[kind],
		.without = reader->count == COUNT_PIDS ? limits_kubepods(&sample->host, NULL) : 0,
		.own_netns = limits_own_netns(),
		.reading = &seen->users[kind],
		.instances = &seen->instances[kind],
	};
}

static bool is_counted_by(const struct limit_reader *reader, int kind)
{
	return kind == OF_BPF     ? reader->count_bpf != 0
	       : kind == OF_FILES ? reader->count_file != 0
				  : reader->count != 0;
}

/* Turns the tallies of a pass into readings. */
static void finish_rows(struct limits_sample *sample, struct census_pass *pass, int kind, int error)
{
	for (size_t i = 0; i < sample->n; i++) {
		const struct limit_row *row = &limits_rows[i];
		const struct limit_reader *reader = row->reader;
		struct limit_seen *seen = &sample->rows[i];
		bool only = limits_needs_bpf(row) && !(kind == OF_FILES && reader->count);
		struct finish finish;
		bool any;
		int r = error;

		if (!reader || !is_counted_by(reader, kind))
			continue;
		finish = finish_of(sample, i, kind);
		if (r == 0 && limits_needs_bpf(row))
			r = limits_read_max(&sample->host, row, &finish.max);
		any = pass->tallies[i].n > 0;
		tally_finish(&pass->tallies[i], &finish);
		seen->from_pass[kind] = true;
		if (!only)
			continue;
		seen->from_sample = true;
		seen->error = r < 0 ? r : !any || finish.reading->max == 0 ? -ENOENT : 0;
		seen->reading.used = finish.reading->used;
		seen->reading.max = finish.reading->max;
		seen->reading.hits = sample->hits.totals[i];
	}
}

static void finish_namespaces(struct limits_sample *sample, size_t row, struct tally *namespaces)
{
	static const struct limit_row nf_conntrack_max = {
		.max = {"/proc/sys/net/netfilter/nf_conntrack_max", 1}};
	struct finish finish = finish_of(sample, row, OF_PROCESSES);
	struct limit_seen *seen = &sample->rows[row];

	finish.is_first = sample->is_first_of_namespaces;
	finish.without = finish.own_netns;
	seen->error = limits_read_max(&sample->host, &nf_conntrack_max, &finish.max);
	if (seen->error == 0)
		seen->error = limits_sample_namespaces(namespaces, &finish);
	seen->from_sample = seen->from_pass[OF_PROCESSES] = true;
	seen->reading.used = finish.reading->used;
	seen->reading.max = finish.max;
	seen->reading.hits = sample->hits.totals[row];
}

/* Forgets the instances that a row had at an earlier pass only. */
static void forget_hits(struct limits_hits *hits, size_t row, uint64_t begun_us)
{
	size_t kept = 0;

	for (size_t i = 0; i < hits->n; i++)
		if (hits->list[i].key[0] != row + 1 || hits->list[i].at_us >= begun_us)
			hits->list[kept++] = hits->list[i];
	if (kept == hits->n)
		return;
	hits->n = kept;
	index_reset(&hits->index);
}

static void run_pass(struct limits_sample *sample, struct tally *namespaces, int kind)
{
	static const size_t sizes[PASSES] = {sizeof(struct census_record),
		sizeof(struct census_file), sizeof(struct census_map)};
	static census_visit *const visits[PASSES] = {visit_process, visit_file, visit_map};
	struct census_pass pass = {.sample = sample, .namespaces = namespaces};
	uint64_t begun = cpu_us(), begun_us = now_us();
	int r;

	pass.tallies = must(calloc(sample->n, sizeof(*pass.tallies)));
	r = census_each(sample->census.passes[kind], sizes[kind], visits[kind], &pass);
	if (r == 0 && kind == OF_FILES)
		r = census_each_connection(&sample->census, visit_connection, &pass);
	if (r == 0 && pass.n_uncounted > 0)
		estimate_maps(sample, &pass);
	sample->errors[kind] = r;
	sample->n_files += pass.n_files;
	finish_rows(sample, &pass, kind, r);
	sample->cost_us[kind] = cpu_us() - begun;
	begun = cpu_us();
	for (size_t i = 0; sample->due_namespaces && kind == OF_PROCESSES && i < sample->n; i++)
		if (limits_rows[i].reader && limits_rows[i].reader->in_namespaces) {
			finish_namespaces(sample, i, namespaces);
			sample->namespaces_us = cpu_us() - begun;
		}
	for (size_t i = 0; r == 0 && i < sample->n; i++)
		if (sample->rows[i].from_pass[kind])
			forget_hits(&sample->hits, i, begun_us);
	free(pass.uncounted);
	free(pass.files.files);
	free(pass.files.index.positions);
	free(pass.tallies);
}

void limits_sample_run(void *request, const struct wait *wait)
{
	struct limits_sample *sample = request;
	struct tally namespaces = {0};

	for (size_t i = 0; sample->due_rows && i < sample->n; i++) {
		const struct limit_reader *reader = limits_rows[i].reader;
		struct limit_seen *seen = &sample->rows[i];
		const struct limit_source source = {
			&sample->host, &sample->disks, reader, &seen->instances[OF_READER]};

		wait_path(wait, limits_rows[i].name);
		if (reader && reader->sample) {
			seen->from_sample = true;
			seen->error = reader->sample(&source, &seen->reading);
		}
		if (reader && reader->add_users) {
			seen->from_pass[OF_FILES] = true;
			if (sample->busy[i])
				(void)reader->add_users(&source, &seen->users[OF_FILES]);
		}
	}
	wait_path(wait, NULL);
	for (int kind = 0; kind < PASSES; kind++)
		if (sample->census.passes[kind] >= 0)
			run_pass(sample, &namespaces, kind);
	tally_free(&namespaces);
}

static void replace_reading(struct limit_reading *old, struct limit_reading *new)
{
	free(old->top);
	*old = *new;
	*new = (struct limit_reading){0};
}

static void replace_instances(struct limit_instances *old, struct limit_instances *new)
{
	limit_instances_clear(old);
	*old = *new;
	old->open = NULL;
	old->n_open = 0;
	*new = (struct limit_instances){0};
}

/* Drops the old users of a row that no longer needs a pass over files. */
static void adopt_row(struct limit_seen *seen, struct limit_seen *new, bool busy)
{
	const struct limit_reader *reader = seen->row->reader;

	if (new->from_sample) {
		seen->error = new->error;
		replace_reading(&seen->reading, &new->reading);
	}
	if (new->from_sample && reader && reader->sample)
		replace_instances(&seen->instances[OF_READER], &new->instances[OF_READER]);
	for (int kind = 0; kind < PASSES; kind++)
		if (new->from_pass[kind]) {
			replace_reading(&seen->users[kind], &new->users[kind]);
			replace_instances(&seen->instances[kind], &new->instances[kind]);
		}
	if (!busy && reader && reader->count && reader->count_file)
		replace_reading(&seen->users[OF_FILES], &(struct limit_reading){0});
}

/* The node had no file left to open: nothing is known but that. */
static bool is_lost(const struct limits_sample *sample)
{
	bool lost = sample->errors[OF_PROCESSES] == -ENFILE || sample->errors[OF_FILES] == -ENFILE;

	for (size_t i = 0; i < sample->n; i++)
		lost |= sample->rows[i].error == -ENFILE;
	return lost;
}

void limits_sample_adopt(void *self, void *request)
{
	struct limits_sample *sample = request;
	struct limits *limits = self;
	uint64_t at = now_us();
	bool lost = is_lost(sample);

	for (size_t i = 0; i < sample->n; i++) {
		if (limits && !lost)
			adopt_row(&limits->rows[i], &sample->rows[i], sample->busy[i]);
		limits_seen_clear(&sample->rows[i]);
	}
	if (limits && !lost && sample->census.passes[OF_PROCESSES] >= 0) {
		limits->counted = true;
		limits->passes[OF_FILES].cost_us =
			MAX(limits->passes[OF_FILES].cost_us, sample->n_files * FILE_NS / 1000);
		limits->pass_error = 0;
	}
	for (int kind = 0; limits && kind < PASSES; kind++) {
		struct limits_pass *pass = &limits->passes[kind];

		if (sample->census.passes[kind] < 0)
			continue;
		pass->next_us = MAX(pass->next_us, at + sample->cost_us[kind] * shares[kind].idle);
		if (lost)
			continue;
		pass->at_us = at;
		pass->cost_us = sample->cost_us[kind];
		limits->pass_error = MIN(limits->pass_error, sample->errors[kind]);
	}
	if (limits && sample->due_namespaces)
		limits->next_namespaces_us = MAX(
			limits->next_namespaces_us, at + sample->namespaces_us * NAMESPACES_SHARE);
	if (limits) {
		limits->hits = sample->hits;
		limits->estimates = sample->estimates;
		sample->hits = (struct limits_hits){0};
		sample->estimates = (struct limits_estimates){0};
	}
	limits_hits_free(&sample->hits);
	free(sample->estimates.list);
	census_close(&sample->census);
	free(sample->busy);
	free(sample->rows);
	free(sample);
}
