/* SPDX-License-Identifier: Apache-2.0 */
#ifndef APPLY_APPLY_H
#define APPLY_APPLY_H

/*
 * Carries plans out. The order is always the same: note the plan in the journal, store the journal,
 * write, read back. The node is told what was read, never what was asked for.
 */

#include "apply/journal.h"
#include "kernel/host.h"
#include "model/node.h"

#include <headroom/plan.h>

/*
 * Writes every change of a plan whose journal is stored, or that is urgent, and reads it back:
 * change->error and change->actual. node may be NULL; with it, its settings follow.
 */
void apply_plan(const struct host *host, struct plan *plan, struct node *node, uint64_t now_us);

/*
 * Moves to urgent what may be written before it is noted: values that a durable record names in
 * advance. 0 or -ENOMEM.
 */
int plan_take_urgent(struct plan *plan, const struct journal *durable, struct plan *urgent);

/*
 * Takes out what the node's settings no longer want: while the journal was being stored the
 * configuration may have changed, or a table grown further.
 */
void plan_drop_outdated(struct plan *plan, const struct node *node);

/* The journal could not be stored: nothing was written, and every setting of the plan says so. */
void apply_refused(struct plan *plan, struct node *node, int error, uint64_t now_us);

/*
 * The plan that puts originals back, but for files (src/apply/edit.h): tuner NULL for all. What
 * someone else changed since, and what has gone, is in it too, to be left. 0 or -ENOMEM.
 */
int restore_make_plan(const struct host *host, const struct journal *journal, const char *tuner,
	struct plan *plan);

/*
 * Carries a restore plan out and forgets in the journal what was put back or left; what failed
 * stays recorded. The tuner's (NULL: all tuners') release is noted; storing is the caller's.
 */
void restore_plan(const struct host *host, struct journal *journal, const char *tuner,
	const char *const *tuners, struct plan *plan);

/*
 * Tells a setting that it could not be set, and the log, once, when that begins. why may be NULL
 * when strerror() says enough.
 */
void setting_fail(struct setting *setting, const char *reason, int error, const char *why,
	uint64_t retry_at_us);

/* How many changes of a plan failed. */
size_t plan_failures(const struct plan *plan);

#endif
