/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORKLOAD_NAMES_H
#define WORKLOAD_NAMES_H

/*
 * The names behind ids: the pod of a uid, the container of an id, the pod of an address. Container
 * runtimes provide them.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

#include <headroom/workload.h>

#define NAMES_SOURCES_MAX 8
#define NAMES_ADDRESS_MAX 46 /* INET6_ADDRSTRLEN */

struct names;

struct name_entry {
	struct workload workload; /* its id is what it is found by: pod uid or container id */
	char address[NAMES_ADDRESS_MAX]; /* as inet_ntop(3) prints it; empty for none of its own */
};

struct names *names_open(void); /* NULL without memory */
void names_close(struct names *names);
DEFINE_CLEANUP(struct names, names_close)

/*
 * Everything that one source, such as a runtime's socket, knows now; what it knew
 * before is dropped. Takes over entries (malloc'ed; NULL with n 0: it knows nothing any more).
 * -ENOSPC with too many sources, -ENAMETOOLONG for a source's name of over 107 bytes: entries are
 * released then too.
 */
int names_replace(struct names *names, const char *source, struct name_entry *entries, size_t n);

/* Gives a workload the namespace and name that belong to its id. False when it is not known. */
bool names_apply(const struct names *names, struct workload *workload);

/* The workload that has this address alone. */
bool names_at_address(const struct names *names, const char *address, struct workload *workload);

#endif
