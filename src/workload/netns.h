/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Who owns a network namespace: the workload of a process in it, else its name in /run/netns. The
 * kernel gives the inode of a namespace that died to the next one at once, so each answer holds
 * only while the process or the name that it came from is the same.
 */

#include "kernel/host.h"

#include <headroom/workload.h>

struct netns_owners;

/*
 * list_fd: the link of an iterator of owner_records; -1: only names of /run/netns. The caller
 * frees the owners.
 */
struct netns_owners *netns_owners_open(const struct host *host, int list_fd);

/*
 * Checks what is known of these namespaces (inodes), and searches the owners of the others: all at
 * once, and at most every few seconds. Forgets all but these.
 */
void netns_owners_learn(
	struct netns_owners *owners, const uint32_t *netns, size_t n, uint64_t now_us);

/* The owner of a namespace; kind netns and its inode when none is known. owners may be NULL. */
struct workload netns_owners_find(const struct netns_owners *owners, uint32_t netns);

/* Who caused an event in a namespace: its owner then, not a later one. */
struct netns_event {
	uint32_t netns;
	uint64_t total; /* events until then, as the caller counts */
	uint64_t at_us; /* 0: no event yet */
	struct workload owner;
};

/*
 * To be called again and again, with the number of all events: another total means another event.
 * An owner that was not known then is searched for one minute.
 */
void netns_event_update(struct netns_event *event, const struct netns_owners *owners,
	uint32_t netns, uint64_t total, uint64_t now_us);
