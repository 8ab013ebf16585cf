/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_JOURNAL_FIXTURE_H
#define TESTS_UNIT_JOURNAL_FIXTURE_H

/* What the tests of the journal share: a journal with something of everything. */

#include "folder.h"

#include "apply/journal.h"

#include <sys/socket.h>

#define BOOT "0f5c2d8e-boot"

static inline struct journal *open_journal(const struct folder *folder, const char *boot)
{
	struct journal *journal = NULL;

	assert_int_equal(journal_open(folder->path, boot, true, &journal), 0);
	assert_non_null(journal);
	return journal;
}

#define _cleanup_journal_ _cleanup_(cleanup_journal_close)

/* Notes one change of a file setting, as a plan of its own. */
static inline void note(struct journal *journal, const char *name, const char *old, const char *new)
{
	struct change change = {.place.kind = PLACE_FILE, .reason = "configured"};
	struct plan plan = {.changes = &change, .n = 1};

	copy_text(change.name, sizeof(change.name), name);
	copy_text(change.tuner, sizeof(change.tuner), "sysctl");
	snprintf(change.place.path, sizeof(change.place.path), "/proc/sys/%s", name);
	copy_text(change.old, sizeof(change.old), old);
	copy_text(change.new, sizeof(change.new), new);
	assert_int_equal(journal_note(journal, &plan), 0);
}

static inline void note_threshold(struct journal *journal)
{
	struct change change = {.name = "net.ipv6.neigh.default.gc_thresh2",
		.tuner = "neighbor",
		.place = {PLACE_NEIGHTBL, "/proc/sys/x", AF_INET6, 2},
		.old = "512",
		.new = "90000",
		.ahead = {.rungs = {"180000", "360000"}, .n = 2}};
	struct plan plan = {.changes = &change, .n = 1};

	assert_int_equal(journal_note(journal, &plan), 0);
}

static inline void assert_record(const struct journal *journal, const char *name,
	const char *original, const char *before, const char *target)
{
	const struct record *record = record_find(journal->records, journal->n_records, name);

	assert_non_null(record);
	assert_string_equal(record->original, original);
	assert_string_equal(record->before, before);
	assert_string_equal(record->target, target);
}

/* A journal with something of everything, stored. */
static inline void store_sample(const struct folder *folder)
{
	_cleanup_journal_ struct journal *journal = open_journal(folder, BOOT);

	note(journal, "vm.a", "1", "2");
	note(journal, "kernel.core_pattern", "|/bin/core \"%p\" \\ \xc3\xa9\x01", "core");
	note_threshold(journal);
	journal_set_config(journal, UINT32_MAX);
	journal_release(journal, "thp");
	assert_int_equal(journal_store(journal), 0);
}

static inline void assert_sample(const struct journal *journal)
{
	assert_int_equal(journal->n_records, 3);
	assert_record(journal, "vm.a", "1", "1", "2");
	assert_record(journal, "kernel.core_pattern", "|/bin/core \"%p\" \\ \xc3\xa9\x01",
		"|/bin/core \"%p\" \\ \xc3\xa9\x01", "core");
	assert_record(journal, "net.ipv6.neigh.default.gc_thresh2", "512", "512", "90000");
	assert_int_equal(journal->records[2].place.kind, PLACE_NEIGHTBL);
	assert_int_equal(journal->records[2].place.family, AF_INET6);
	assert_int_equal(journal->records[2].place.level, 2);
	assert_string_equal(journal->records[2].place.path, "/proc/sys/x");
	assert_string_equal(journal->records[2].tuner, "neighbor");
	assert_int_equal(journal->records[2].ahead.n, 2);
	assert_string_equal(journal->records[2].ahead.rungs[1], "360000");
	assert_int_equal(journal->records[0].ahead.n, 0);
	assert_int_equal(journal->config, UINT32_MAX);
	assert_true(journal_is_released(journal, "thp", UINT32_MAX));
}

#endif
