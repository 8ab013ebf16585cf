/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Changes values of the running kernel: record, write, read back. Nothing here blocks.
 *
 * The records are one file of fixed slots in the runtime directory, mapped into memory. Each value
 * is recorded there before its first write. A record costs one memory copy and no allocation, so
 * urgent writes are recorded too, and a full tmpfs cannot refuse them. Each record is there twice,
 * with a checksum: one damaged byte costs nothing. The file survives SIGKILL, a stopped unit and an
 * upgrade. Like the values, it does not survive a boot.
 */

#include "kernel/host.h"

#include <headroom/plan.h>

#define VALUE_STORE_MAX  256
#define VALUE_STORE_FILE "values"

struct header;
struct slot;

struct value_store {
	struct header *header; /* NULL: the file does not exist, and this process may not write */
	struct slot *slots;
	struct value_record
		records[VALUE_STORE_MAX]; /* by slot; the name of a free slot is empty */
	char owner[OWNER_MAX];            /* the installation that wrote last; or empty */
	size_t n;                         /* all slots from n on are free */
};

/*
 * Opens the records of a runtime directory. boot is the boot id, or empty when it is unknown. A
 * file from another boot counts as empty. The one writer sets write: a missing or stale file is
 * replaced. 0; -EBADMSG for a damaged file; -EKEYREJECTED for one of another user; -EPROTO for a
 * newer version; or another -errno.
 */
int value_store_open(const char *directory, const char *boot, bool write, struct value_store **ret);

/* Writes the version of the program that wrote the records, if it is known. */
void value_store_program(const char *directory, char program[static RECORD_PROGRAM_MAX]);

/* Makes owner the owner of all records. The store is open for writing. */
void value_store_adopt(struct value_store *store, const char *owner);
void value_store_close(struct value_store *store);
DEFINE_CLEANUP(struct value_store, value_store_close)

/*
 * Becomes the one writer: makes the runtime directory and locks the file "lock" in it with
 * flock(2). The kernel releases the lock when the process ends. name ("agent", "apply") and the pid
 * are written to the file. waits: for up to a second while the holder changes. Returns a
 * descriptor, to be kept open; -EBUSY with the holder ("agent, pid 1234"); or another -errno.
 */
int lock_acquire(const char *directory, const char *name, bool waits, char *holder, size_t size);

/*
 * Returns whether the process runs that has got the lock last. It may have another name space of
 * pids.
 */
bool lock_holder(const char *directory, char *holder, size_t size);

/* Records whether a configuration file asks for a value. */
void value_store_mark(struct value_store *store, const char *name, bool configured);

/* Removes a record: its value is the original. */
void value_store_forget(struct value_store *store, const char *name);

/*
 * Writes the values of a plan. The results are in error, reason and actual of each change. -ESTALE:
 * someone else has written the value since it was judged, and it stays. A change because of
 * REASON_NO_LONGER_CONFIGURED restores the original, and its record ends.
 */
void values_apply(const struct host *host, struct value_store *store, struct plan *plan);

/* Adds what values_restore() would do to plan, and changes nothing. */
void values_plan_restore(const struct host *host, const struct value_store *store,
	const char *tuner, struct plan *plan);

/*
 * Restores the original values of a tuner, or (NULL) of all tuners, and adds the changes to plan.
 * It does not touch values that someone else changed. It then removes the records, except those of
 * values that could not be restored or do not exist at present.
 */
void values_restore(
	const struct host *host, struct value_store *store, const char *tuner, struct plan *plan);
