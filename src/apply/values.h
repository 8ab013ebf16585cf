/* SPDX-License-Identifier: Apache-2.0 */
#ifndef APPLY_VALUES_H
#define APPLY_VALUES_H

/*
 * Changes values of the running kernel. The order is always the same: record, write, read back.
 * Nothing here waits: a record is a copy in memory. The node gets what was read, never what was
 * asked for.
 */

#include "apply/value_store.h"
#include "kernel/host.h"

#include <headroom/plan.h>

/*
 * Writes one value to the node: nothing else changes it, but for configuration files
 * (src/apply/file.h). A threshold goes by RTM_SETNEIGHTBL with an acknowledgement, and by its file
 * in /proc/sys where that is refused; urgent the other way round, for rtnetlink may have to wait
 * for a lock that others hold. 0 or -errno; what the kernel made of it must be read back.
 */
int value_set(
	const struct host *host, const struct value_target *target, const char *value, bool urgent);

/*
 * Carries out the changes of values in a plan: change->error, reason and actual have the results.
 * Changes of files are left alone.
 */
void values_apply(const struct host *host, struct value_store *store, struct plan *plan);

/*
 * Restores the originals of a tuner, or (NULL) of all, and forgets them; plan gets what was done.
 * What someone else changed since is left and forgotten too. What failed, or has gone, stays
 * recorded.
 */
void values_restore(
	const struct host *host, struct value_store *store, const char *tuner, struct plan *plan);

#endif
