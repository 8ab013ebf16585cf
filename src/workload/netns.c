/* SPDX-License-Identifier: Apache-2.0 */
#include "workload/netns.h"

#include "base/file.h"
#include "base/text.h"
#include "workload/cgroup.h"
#include "workload/process.h"

#include <bpf/bpf.h>

#include <headroom/bpf/neighbor.h>

/* Listing all processes takes milliseconds on a large node. */
#define LEARN_EVERY_US (5 * USEC_PER_SEC)

/*
 * A network namespace is created, named and used before the pod's first process enters it. So a
 * name or a unit is final only after this many searches found nothing better.
 */
#define ATTEMPTS 12

#define EVENT_PROVISIONAL_US (60 * USEC_PER_SEC)
#define NETNS_DIRECTORY      "/run/netns"
#define OWNERS_MAX           128

struct owner {
	uint32_t netns;
	bool known;        /* the search is over */
	unsigned attempts; /* searches that found a name or a unit at best */
	pid_t pid;         /* the process that identified the owner; 0: a name did */
	uint64_t start_us; /* when that process started */
	struct workload workload;
};

struct netns_owners {
	const struct host *host;
	const struct names *names;
	int list_fd;
	uint32_t own; /* the agent's namespace, which is the host's */
	struct owner owners[OWNERS_MAX];
	size_t n;
	uint64_t learned_at_us;
};

struct netns_owners *netns_owners_open(
	const struct host *host, const struct names *names, int list_fd)
{
	struct netns_owners *owners = must(calloc(1, sizeof(*owners)));
	struct stat st;

	owners->host = host;
	owners->names = names;
	owners->list_fd = list_fd;
	if (stat("/proc/self/ns/net", &st) == 0)
		owners->own = (uint32_t)st.st_ino;
	return owners;
}

static struct owner *find_owner(const struct netns_owners *owners, uint32_t netns)
{
	for (size_t i = 0; i < owners->n; i++)
		if (owners->owners[i].netns == netns)
			return (struct owner *)&owners->owners[i];
	return NULL;
}

static struct workload unknown_netns(uint32_t netns)
{
	struct workload workload = {.kind = WORKLOAD_NETNS};

	snprintf(workload.name, sizeof(workload.name), "%u", netns);
	snprintf(workload.id, sizeof(workload.id), "%u", netns);
	return workload;
}

static struct workload host_workload(void)
{
	return (struct workload){.kind = WORKLOAD_HOST, .name = "host"};
}

static void search_processes(struct netns_owners *owners)
{
	const char *root = owners->host->root;
	struct owner_record records[256];
	_cleanup_close_ int fd = owners->list_fd < 0 ? -1 : bpf_iter_create(owners->list_fd);
	ssize_t n = 0;

	while (fd >= 0 && (n = read(fd, records, sizeof(records))) != 0) {
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return;
		for (ssize_t i = 0; i < n / (ssize_t)sizeof(records[0]); i++) {
			struct owner *owner = find_owner(owners, records[i].netns);
			pid_t pid = (pid_t)records[i].pid;
			_cleanup_free_ char *text = NULL;
			uint64_t start_us;

			if (!owner || owner->known || process_start(root, pid, &start_us) < 0 ||
				process_read(root, pid, "cgroup", &text, NULL) < 0 ||
				!cgroup_file_workload(text, &owner->workload))
				continue;
			owner->pid = pid;
			owner->start_us = start_us;
			/*
			 * A pod or a container is final. A name in /run/netns is better than a
			 * unit: some unit also starts the processes of a hand-made namespace.
			 */
			owner->known = owner->workload.kind != WORKLOAD_UNIT;
		}
	}
}

/* ip-netns(8) and CNI plugins name namespaces. */
static void search_names(struct netns_owners *owners)
{
	const struct dirent *entry;
	char full[PATH_MAX];
	_cleanup_(cleanup_closedir) DIR *directory =
		opendir(host_path(owners->host, NETNS_DIRECTORY, full));

	while (directory && (entry = readdir(directory))) {
		struct owner *owner;
		struct stat st;

		if (fstatat(dirfd(directory), entry->d_name, &st, 0) < 0)
			continue;
		owner = find_owner(owners, (uint32_t)st.st_ino);
		if (!owner || owner->known)
			continue;
		owner->pid = 0;
		owner->workload = unknown_netns(owner->netns);
		set_text(owner->workload.name, entry->d_name);
	}
}

static bool has_name(const struct owner *owner)
{
	return !streq(owner->workload.name, owner->workload.id);
}

/* Returns whether the identifying process or name is gone, so that the inode may be reused. */
static bool is_gone(const struct netns_owners *owners, const struct owner *owner)
{
	char path[PATH_MAX], full[PATH_MAX];
	struct stat st;

	if (owner->pid > 0)
		return !process_is(owners->host->root, owner->pid, owner->start_us);
	if (owner->netns == owners->own || !has_name(owner))
		return false;
	snprintf(path, sizeof(path), NETNS_DIRECTORY "/%s", owner->workload.name);
	return stat(host_path(owners->host, path, full), &st) < 0 ||
	       (uint32_t)st.st_ino != owner->netns;
}

static bool needs_search(struct netns_owners *owners, uint32_t netns)
{
	struct owner *owner = find_owner(owners, netns);

	if (owner && !is_gone(owners, owner))
		return !owner->known;
	if (owner)
		owners->learned_at_us = 0;
	else if (owners->n == OWNERS_MAX)
		return false;
	else
		owner = &owners->owners[owners->n++];
	*owner = (struct owner){.netns = netns, .workload = unknown_netns(netns)};
	owner->known = netns == owners->own;
	if (owner->known)
		owner->workload = host_workload();
	return !owner->known;
}

void netns_owners_learn(struct netns_owners *owners, const uint32_t *netns, size_t n, uint64_t now)
{
	bool unknown = false;
	size_t kept = 0;

	for (size_t i = 0; i < owners->n; i++) {
		bool wanted = false;

		for (size_t j = 0; j < n; j++)
			wanted = wanted || netns[j] == owners->owners[i].netns;
		if (wanted)
			owners->owners[kept++] = owners->owners[i];
	}
	owners->n = kept;
	for (size_t i = 0; i < n; i++)
		unknown = needs_search(owners, netns[i]) || unknown;
	for (size_t i = 0; i < owners->n; i++)
		if (!workload_is_named(&owners->owners[i].workload))
			names_apply(owners->names, &owners->owners[i].workload);
	if (!unknown || (owners->learned_at_us && now - owners->learned_at_us < LEARN_EVERY_US))
		return;
	owners->learned_at_us = now;
	search_processes(owners);
	search_names(owners);
	for (size_t i = 0; i < owners->n; i++)
		if (++owners->owners[i].attempts >= ATTEMPTS && has_name(&owners->owners[i]))
			owners->owners[i].known = true;
}

struct workload netns_owners_find(const struct netns_owners *owners, uint32_t netns)
{
	const struct owner *owner = owners ? find_owner(owners, netns) : NULL;
	struct workload workload = owner                            ? owner->workload
				   : owners && netns == owners->own ? host_workload()
								    : unknown_netns(netns);

	if (owner)
		names_apply(owners->names, &workload);
	text_make_printable(workload.name);
	return workload;
}

void netns_event_update(struct netns_event *event, const struct netns_owners *owners,
	uint32_t netns, uint64_t total, uint64_t now)
{
	struct workload owner = netns_owners_find(owners, netns);
	bool unnamed = event->owner.kind == WORKLOAD_NETNS; /* its id is only the inode */
	bool same = !unnamed && owner.kind == event->owner.kind && streq(owner.id, event->owner.id);

	if (total != event->total)
		*event = (struct netns_event){netns, total, now, owner};
	else if (event->at_us && netns == event->netns &&
		 (same || (unnamed && now - event->at_us < EVENT_PROVISIONAL_US)))
		event->owner = owner;
}
