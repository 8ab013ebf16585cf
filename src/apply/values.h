/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Changes values of the running kernel. The order is always the same: record, write, read back.
 * Nothing here waits: a record is a copy in memory. The node gets what was read, never what was
 * asked for.
 *
 * The records are one file of fixed slots in the runtime directory, mapped into memory. A record is
 * in it before the first write to the node. That costs a memory copy and no allocation, so it is
 * done on the urgent path too, and a full tmpfs cannot refuse it. The file survives SIGKILL, a
 * stopped unit and an upgrade; a boot ends it, as it ends the values.
 */

#include "kernel/host.h"

#include <headroom/plan.h>

#define VALUE_STORE_MAX  256
#define VALUE_STORE_FILE "values"

struct value_file;

struct value_store {
	struct value_file *file; /* NULL: there is none, and this process may not make one */
	struct value_record records[VALUE_STORE_MAX]; /* of its slots; a free one has no name */
	size_t n;                                     /* from here on all are free */
};

/*
 * Opens the records of a runtime directory. boot is the boot id: a file of another boot counts as
 * empty, unless boot is empty, that is not known. write is for the one writer: a missing or stale
 * file is replaced. 0; -EBADMSG for a file that is not ours or of another version; -errno.
 */
int value_store_open(const char *directory, const char *boot, bool write, struct value_store **ret);
void value_store_close(struct value_store *store);
DEFINE_CLEANUP(struct value_store, value_store_close)

/*
 * Puts a record in the place of an older one of its name. At every instruction the file holds the
 * old one or the new one as a whole. 0; -ENOSPC when all slots are taken. Both are for a store that
 * was opened for writing.
 */
int value_store_put(struct value_store *store, const struct value_record *record);

void value_store_forget(struct value_store *store, const char *name);

/*
 * One writer at a time: an exclusive flock(2) on the file "lock" of the runtime directory, which
 * the kernel gives up for us however we end. The directory is made. who ("agent", "apply") and our
 * pid are written into it. The descriptor to keep open; -EBUSY with the holder ("agent, pid 1234")
 * in holder; -errno.
 */
int lock_take(const char *directory, const char *who, char *holder, size_t size);

/* Carries out a plan of values: change->error, reason and actual have the results. */
void values_apply(const struct host *host, struct value_store *store, struct plan *plan);

/*
 * Restores the originals of a tuner, or (NULL) of all, and forgets them; plan gets what was done.
 * What someone else changed since is left and forgotten too. What failed, or has gone, stays
 * recorded.
 */
void values_restore(
	const struct host *host, struct value_store *store, const char *tuner, struct plan *plan);
