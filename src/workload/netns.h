/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The owner of a network namespace is the workload of a process in it, or else its name in
 * /run/netns. The kernel reuses the inode of a removed namespace at once, so an owner is valid only
 * while the same process or name exists.
 */

#include "workload/cgroup.h"

#include <headroom/workload.h>

struct netns_owners;

/*
 * list_fd is the link of an iterator of owner_records. With -1 only /run/netns names owners. names
 * may be NULL. The caller frees the result.
 */
struct netns_owners *netns_owners_open(
	const struct host *host, const struct names *names, int list_fd);

/*
 * Checks the known owners of these namespaces (inodes) and searches the unknown ones, at most every
 * few seconds. Forgets all other namespaces.
 */
void netns_owners_learn(
	struct netns_owners *owners, const uint32_t *netns, size_t n, uint64_t now_us);

/* Returns the owner of a namespace; kind netns and the inode while it is unknown. owners may be
 * NULL. */
struct workload netns_owners_find(const struct netns_owners *owners, uint32_t netns);

/* The last event in a namespace and the owner at that time, not a later one. */
struct netns_event {
	uint32_t netns;
	uint64_t total; /* number of events so far */
	uint64_t at_us; /* 0: no event yet */
	struct workload owner;
};

/*
 * Takes the number of events so far, at every poll: a new total means a new event. The search for
 * an unknown owner ends after one minute.
 */
void netns_event_update(struct netns_event *event, const struct netns_owners *owners,
	uint32_t netns, uint64_t total, uint64_t now_us);
