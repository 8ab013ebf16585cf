/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/values.h"

#include "apply/writer.h"
#include "base/log.h"
#include "base/util.h"

#include <errno.h>

/*
 * before is what a crash between the record and the write leaves behind: ours to restore. A value
 * that someone else wrote is not, so it never gets in there.
 */
static int record_change(struct value_store *store, const struct change *change)
{
	size_t n;
	const struct value_record *records = value_store_records(store, &n);
	const struct value_record *known = value_record_find(records, n, change->name);
	struct value_record record = {.target = change->target, .grown = change->grown};

	if (known) {
		record = *known;
		if (streq(record.wanted, change->new) && record.grown == change->grown &&
			(value_equal(change->old, record.original) ||
				value_equal(change->old, record.before)))
			return 0;
		copy_text(record.before, sizeof(record.before),
			value_is_foreign(known, change->old) ? known->wanted : change->old);
		record.grown = change->grown;
	} else {
		copy_text(record.name, sizeof(record.name), change->name);
		copy_text(record.tuner, sizeof(record.tuner), change->tuner);
		copy_text(record.original, sizeof(record.original), change->old);
		copy_text(record.before, sizeof(record.before), change->old);
	}
	copy_text(record.wanted, sizeof(record.wanted), change->new);
	return value_store_put(store, &record);
}

/*
 * Where the kernel rounds or limits what is written, what was read back is ours to restore. In a
 * fight it may be someone else's, and is not recorded.
 */
static void record_actual(struct value_store *store, const struct change *change)
{
	size_t n;
	const struct value_record *records = value_store_records(store, &n);
	const struct value_record *known = value_record_find(records, n, change->name);
	struct value_record record;

	if (!known || streq(change->reason, "drift") || !value_is_foreign(known, change->actual))
		return;
	record = *known;
	copy_text(record.before, sizeof(record.before), change->actual);
	(void)value_store_put(store, &record);
}

/* -ERANGE: the write succeeded, and another value is read. */
static int write_and_read_back(const struct host *host, struct change *change)
{
	/* The path that never waits for other users of rtnetlink is for what is urgent. */
	int r = writer_set(host, &change->target, change->new, change->grown);
	int read = host_read_value(host, change->target.path, change->actual);

	if (r < 0 || read < 0)
		return r < 0 ? r : read;
	return value_equal(change->actual, change->new) ? 0 : -ERANGE;
}

static void apply_change(const struct host *host, struct value_store *store, struct change *change)
{
	change->error = write_and_read_back(host, change);
	if (change->error == -ERANGE)
		record_actual(store, change);
	if (change->error < 0)
		change->reason = change->error == -ERANGE ? "not-taken" : "write-refused";
}

void values_apply(const struct host *host, struct value_store *store, struct plan *plan)
{
	plan_sort(plan);
	for (size_t i = 0; i < plan->n; i++) {
		struct change *change = &plan->changes[i];

		if (change->file)
			continue;
		copy_text(change->actual, sizeof(change->actual), change->old);
		change->error = record_change(store, change);
		if (change->error < 0)
			change->reason = "not-recorded";
	}
	for (size_t i = 0; i < plan->n; i++)
		if (!plan->changes[i].file && plan->changes[i].error == 0)
			apply_change(host, store, &plan->changes[i]);
}

/*
 * A thing that has gone (a device, a module) took its value with it; or it cannot be seen from
 * where we are. Either way its record stays until the next boot ends it.
 */
static int plan_restore(
	const struct host *host, const struct value_record *record, struct plan *plan)
{
	struct change *change = plan_add(plan);
	int r;

	if (!change)
		return -ENOMEM;
	r = host_read_value(host, record->target.path, change->old);
	copy_text(change->name, sizeof(change->name), record->name);
	copy_text(change->tuner, sizeof(change->tuner), record->tuner);
	copy_text(change->actual, sizeof(change->actual), change->old);
	change->target = record->target;
	change->gone = r == -ENOENT;
	change->error = change->gone ? 0 : r;
	change->left = change->gone || (r == 0 && value_is_foreign(record, change->old));
	change->reason = change->gone   ? "not-in-this-kernel"
			 : change->left ? "changed-since"
					: "original";
	if (!change->left)
		copy_text(change->new, sizeof(change->new), record->original);
	return 0;
}

int values_restore(
	const struct host *host, struct value_store *store, const char *tuner, struct plan *plan)
{
	size_t n;
	const struct value_record *records = value_store_records(store, &n);

	for (size_t i = 0; i < n; i++)
		if ((!tuner || streq(tuner, records[i].tuner)) &&
			plan_restore(host, &records[i], plan) < 0)
			return -ENOMEM;
	plan_sort(plan);
	for (size_t i = 0; i < plan->n; i++) {
		struct change *change = &plan->changes[i];

		if (change->error == 0 && !change->left && !value_equal(change->old, change->new))
			change->error = write_and_read_back(host, change);
		if (change->error == 0 && !change->gone)
			value_store_forget(store, change->name);
		if (change->error < 0)
			log_error(change->name, "not restored to %s: %s", change->new,
				strerror(-change->error));
		else if (change->left)
			log_notice(change->name, "left at %s: someone else changed it since",
				change->old);
		else if (!value_equal(change->old, change->new))
			log_info(change->name, "%s -> %s (%s)", change->old, change->new,
				change->reason);
	}
	return 0;
}
