/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/owner.h"

#include "base/file.h"
#include "base/util.h"
#include "kernel/bpf.h"
#include "kernel/cgroup.h"
#include "kernel/names.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include <bpf/bpf.h>

#include <headroom/bpf/owner.h>

#include "owner.skel.h"

/* Listing all processes takes milliseconds on a large node: not more often than this. */
#define LEARN_EVERY_US (5 * USEC_PER_SEC)

/*
 * A network namespace is made, named and used before the pod's first process enters it: a name or a
 * unit stands for good only after so many looks have found nothing better.
 */
#define LOOKS_FOR_BETTER 12

#define NETNS_DIRECTORY "/run/netns"

struct owner {
	uint32_t netns;
	bool known;     /* else it is looked for again */
	unsigned looks; /* that found a name or a unit at best */
	struct workload workload;
};

struct owner_book {
	const struct host *host;
	struct owner_bpf_object *bpf; /* NULL without */
	uint32_t own;                 /* the namespace we run in: the host's */
	struct owner *owners;
	size_t n, allocated;
	uint64_t learned_at_us;
};

struct owner_book *owner_book_open(const struct host *host)
{
	struct owner_book *book = calloc(1, sizeof(*book));
	struct stat st;

	if (!book)
		return NULL;
	book->host = host;
	if (stat("/proc/self/ns/net", &st) == 0)
		book->own = (uint32_t)st.st_ino;
	book->bpf = owner_bpf_object__open_and_load();
	if (book->bpf && owner_bpf_object__attach(book->bpf) < 0) {
		owner_bpf_object__destroy(book->bpf);
		book->bpf = NULL;
	}
	return book;
}

void owner_book_close(struct owner_book *book)
{
	owner_bpf_object__destroy(book->bpf);
	free(book->owners);
	free(book);
}

static struct owner *find(const struct owner_book *book, uint32_t netns)
{
	for (size_t i = 0; i < book->n; i++)
		if (book->owners[i].netns == netns)
			return &book->owners[i];
	return NULL;
}

/*
 * A pod or a container is the answer. A unit is one only for want of a name in /run/netns: whoever
 * works in a namespace made by hand was started by some unit.
 */
static void take_process(const struct owner_book *book, struct owner *owner, uint32_t pid)
{
	_cleanup_free_ char *text = NULL;
	char path[64], full[PATH_MAX];

	snprintf(path, sizeof(path), "/proc/%u/cgroup", pid);
	if (host_path(book->host, path, full) && read_file(full, 65536, &text, NULL) == 0)
		owner->known = cgroup_file_workload(text, &owner->workload) &&
			       owner->workload.kind != WORKLOAD_UNIT;
}

/* Every process that the kernel lists, until all that is sought has been found. */
static void ask_processes(struct owner_book *book)
{
	struct owner_record records[256];
	_cleanup_close_ int fd =
		book->bpf ? bpf_iter_create(bpf_link__fd(book->bpf->links.list_owners)) : -1;
	ssize_t n = 0;

	while (fd >= 0 && (n = read(fd, records, sizeof(records))) != 0) {
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return;
		for (ssize_t i = 0; i < n / (ssize_t)sizeof(records[0]); i++) {
			struct owner *owner = find(book, records[i].netns);

			if (owner && !owner->known && records[i].netns != book->own)
				take_process(book, owner, records[i].pid);
		}
	}
}

/* By its inode: what there is to say of a namespace of which nothing is known. */
static void call_netns(struct owner *owner)
{
	owner->workload = (struct workload){.kind = WORKLOAD_NETNS};
	snprintf(owner->workload.name, sizeof(owner->workload.name), "%u", owner->netns);
	copy_text(owner->workload.id, sizeof(owner->workload.id), owner->workload.name);
}

/* A namespace without a known process may have a name: ip-netns(8), CNI plugins. */
static void ask_names(struct owner_book *book)
{
	char full[PATH_MAX];
	struct dirent *entry;
	DIR *directory;

	if (!host_path(book->host, NETNS_DIRECTORY, full))
		return;
	directory = opendir(full);
	while (directory && (entry = readdir(directory))) {
		struct owner *owner;
		struct stat st;

		if (fstatat(dirfd(directory), entry->d_name, &st, 0) < 0)
			continue;
		owner = find(book, (uint32_t)st.st_ino);
		if (!owner || owner->known)
			continue;
		call_netns(owner);
		copy_text(owner->workload.name, sizeof(owner->workload.name), entry->d_name);
	}
	if (directory)
		closedir(directory);
}

static void add_unknown(struct owner_book *book, uint32_t netns)
{
	struct owner *owner;

	if (grow_array(&book->owners, book->n, &book->allocated, sizeof(*book->owners)) < 0)
		return;
	owner = &book->owners[book->n++];
	owner->netns = netns;
	call_netns(owner);
	if (netns != book->own)
		return;
	owner->known = true;
	owner->workload = (struct workload){.kind = WORKLOAD_HOST, .name = "host"};
}

static bool has_name(const struct owner *owner)
{
	return !streq(owner->workload.name, owner->workload.id);
}

void owner_book_learn(struct owner_book *book, const uint32_t *netns, size_t n, uint64_t now)
{
	bool unknown = false;

	for (size_t i = 0; i < n; i++) {
		const struct owner *owner = find(book, netns[i]);

		if (!owner)
			add_unknown(book, netns[i]);
		unknown = unknown || !owner || !owner->known;
	}
	if (!unknown || (book->learned_at_us && now - book->learned_at_us < LEARN_EVERY_US))
		return;
	book->learned_at_us = now;
	ask_processes(book);
	ask_names(book);
	for (size_t i = 0; i < book->n; i++)
		if (++book->owners[i].looks >= LOOKS_FOR_BETTER && has_name(&book->owners[i]))
			book->owners[i].known = true;
}

struct workload owner_book_find(const struct owner_book *book, uint32_t netns)
{
	const struct owner *owner = book ? find(book, netns) : NULL;
	struct workload unknown = {.kind = WORKLOAD_NETNS};

	if (owner) {
		struct workload workload = owner->workload;

		names_apply(book->host->names, &workload);
		return workload;
	}
	snprintf(unknown.name, sizeof(unknown.name), "%u", netns);
	snprintf(unknown.id, sizeof(unknown.id), "%u", netns);
	return unknown;
}

void owner_book_keep_only(struct owner_book *book, const uint32_t *netns, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < book->n; i++) {
		bool wanted = false;

		for (size_t j = 0; j < n; j++)
			wanted = wanted || netns[j] == book->owners[i].netns;
		if (wanted)
			book->owners[kept++] = book->owners[i];
	}
	book->n = kept;
}
