/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_JOURNAL_FIXTURE_H
#define TESTS_UNIT_JOURNAL_FIXTURE_H

/* What the tests of the journal share: a journal with something of everything. */

#include "directory.h"

#include "apply/journal.h"

#include <sys/socket.h>

#define BOOT "0f5c2d8e-boot"

static inline struct journal *open_journal(const struct directory *directory, const char *boot)
{
	struct journal *journal = NULL;

	assert_int_equal(journal_open(directory->path, boot, true, &journal), 0);
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
		.place = {.kind = PLACE_NEIGHTBL,
			.path = "/proc/sys/x",
			.family = AF_INET6,
			.level = 2},
		.old = "512",
		.new = "90000",
		.ahead = {.rungs = {"180000", "360000"}, .n = 2}};
	struct plan plan = {.changes = &change, .n = 1};

	assert_int_equal(journal_note(journal, &plan), 0);
}

/* Two settings of one configuration file: one was there, one was not. */
static inline void note_file(struct journal *journal)
{
	struct place place = {.kind = PLACE_EDIT,
		.path = "/etc/docker/daemon.json",
		.format = EDIT_JSON,
		.key = "registry-mirrors"};
	struct change change = {.name = "docker.registry-mirrors",
		.tuner = "runtime",
		.place = place,
		.old = "https://a",
		.on_disk = "https://b",
		.new = "https://c"};
	struct plan plan = {.changes = &change, .n = 1};
	struct file_note file = {.tuner = "runtime",
		.path = "/etc/docker/daemon.json",
		.format = EDIT_JSON,
		.directories = 1,
		.service = {.activation = ACTIVATE_RESTART,
			.restart = RESTART_WHEN_IDLE,
			.unit = "containerd.service",
			.socket = "/run/x.sock",
			.config = "/etc/containerd/config.toml",
			.pid_file = "/run/docker.pid"}};
	struct file_key *key;

	assert_int_equal(journal_note(journal, &plan), 0);
	hash_bytes("a", 1, file.original);
	hash_bytes("b", 1, file.ours[0]);
	hash_bytes("c", 1, file.ours[1]);
	key = file_note_add_key(&file, "docker.registry-mirrors", &place);
	assert_int_equal(replace_text(&key->original, "[\"https://\xc3\xa9\"]"), 0);
	assert_int_equal(replace_text(&key->target, "[\"https://c\"]"), 0);
	assert_int_equal(journal_note_file(journal, &file), 0);
	journal_give_up(journal, "docker.registry-mirrors", 77);
	file_note_clear(&file);
}

static inline void assert_file_noted(const struct journal *journal)
{
	const struct file_note *file = journal_file(journal, "/etc/docker/daemon.json");
	const struct record *record =
		record_find(journal->records, journal->n_records, "docker.registry-mirrors");
	char hash[HASH_TEXT_MAX];

	assert_non_null(file);
	hash_bytes("a", 1, hash);
	assert_string_equal(file->original, hash);
	hash_bytes("b", 1, hash);
	assert_true(file_note_is_ours(file, hash));
	hash_bytes("c", 1, hash);
	assert_true(file_note_is_ours(file, hash));
	assert_int_equal(file->format, EDIT_JSON);
	assert_int_equal(file->directories, 1);
	assert_int_equal(file->service.activation, ACTIVATE_RESTART);
	assert_int_equal(file->service.restart, RESTART_WHEN_IDLE);
	assert_string_equal(file->service.unit, "containerd.service");
	assert_string_equal(file->service.socket, "/run/x.sock");
	assert_string_equal(file->service.config, "/etc/containerd/config.toml");
	assert_string_equal(file->service.pid_file, "/run/docker.pid");
	assert_int_equal(file->n_keys, 1);
	assert_string_equal(file->keys[0].key, "registry-mirrors");
	assert_string_equal(file->keys[0].original, "[\"https://\xc3\xa9\"]");
	assert_null(file->keys[0].before);
	assert_string_equal(file->keys[0].target, "[\"https://c\"]");
	assert_int_equal(record->place.kind, PLACE_EDIT);
	assert_string_equal(record->on_disk, "https://b");
	assert_int_equal(record->given_up, 77);
}

/* What journal_parse() filled in, without a directory. */
static inline void parsed_clear(struct journal *journal)
{
	for (size_t i = 0; i < journal->n_files; i++)
		file_note_clear(&journal->files[i]);
	free(journal->files);
	free(journal->records);
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
static inline void store_sample(const struct directory *directory)
{
	_cleanup_journal_ struct journal *journal = open_journal(directory, BOOT);
	struct journal_restart restart = {
		.unit = "containerd.service", .at_s = 1763755200, .answered = ANSWER_GRPC};

	note(journal, "vm.a", "1", "2");
	note(journal, "kernel.core_pattern", "|/bin/core \"%p\" \\ \xc3\xa9\x01", "core");
	note_threshold(journal);
	note_file(journal);
	journal_set_config(journal, UINT32_MAX);
	journal_release(journal, "thp");
	assert_int_equal(journal_begin_restart(journal, &restart), 0);
	assert_int_equal(journal_store(journal), 0);
}

static inline void assert_sample(const struct journal *journal)
{
	assert_int_equal(journal->n_records, 4);
	assert_file_noted(journal);
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
	assert_int_equal(journal->n_restarts, 1);
	assert_string_equal(journal->restarts[0].unit, "containerd.service");
	assert_int_equal(journal->restarts[0].at_s, 1763755200);
	assert_int_equal(journal->restarts[0].answered, ANSWER_GRPC);
	assert_true(journal->restarts[0].open);
}

#endif
