/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_EDIT_FIXTURE_H
#define TESTS_UNIT_EDIT_FIXTURE_H

/* What the tests of configuration files share: a made-up host, a journal, and one run of edits. */

#include "directory.h"

#include "apply/edit.h"
#include "apply/journal.h"

#define CRI         "plugins.\"io.containerd.grpc.v1.cri\""
#define CONFIG_TOML "/etc/containerd/config.toml"
#define DAEMON_JSON "/etc/docker/daemon.json"

struct edit_bench {
	struct directory root, state;
	struct host host;
	struct journal *journal;
	struct plan plan;
	struct edits edits;
};

static inline void edit_bench_open(struct edit_bench *bench, const char *boot)
{
	if (bench->journal)
		journal_close(bench->journal);
	bench->journal = NULL;
	assert_int_equal(journal_open(bench->state.path, boot, true, &bench->journal), 0);
	assert_string_equal(bench->journal->note, "");
}

static inline void edit_bench_make(struct edit_bench *bench)
{
	*bench = (struct edit_bench){.edits = {.state = -1}};
	directory_make(&bench->root);
	directory_make(&bench->state);
	assert_true(host_init(&bench->host, bench->root.path));
	edit_bench_open(bench, "boot-1");
}

static inline void edit_bench_clear(struct edit_bench *bench)
{
	edits_clear(&bench->edits);
	plan_clear(&bench->plan);
	journal_close(bench->journal);
	directory_remove(&bench->root);
	directory_remove(&bench->state);
}

#define _cleanup_edit_bench_ __attribute__((cleanup(edit_bench_clear)))

/* Adds a change to the plan; edit's texts are copied. */
static inline struct change *plan_edit(struct edit_bench *bench, const char *name,
	const struct place *place, const char *on_disk, const char *wanted,
	const struct file_edit *edit)
{
	struct change *change = plan_add(&bench->plan);

	assert_non_null(change);
	copy_text(change->name, sizeof(change->name), name);
	copy_text(change->tuner, sizeof(change->tuner), "runtime");
	change->place = *place;
	copy_text(change->old, SETTING_VALUE_MAX, "3");
	copy_text(change->on_disk, SETTING_VALUE_MAX, on_disk);
	copy_text(change->new, SETTING_VALUE_MAX, wanted);
	change->reason = "configured";
	assert_int_equal(change_take_edit(change, edit), 0);
	return change;
}

static inline struct change *plan_downloads(
	struct edit_bench *bench, const char *on_disk, const char *wanted)
{
	const struct place place = {.kind = PLACE_EDIT,
		.path = CONFIG_TOML,
		.format = EDIT_TOML,
		.table = CRI,
		.key = "max_concurrent_downloads"};
	const struct file_edit edit = {.text = wanted, .base = "version = 2\n"};

	return plan_edit(
		bench, "containerd.max_concurrent_downloads", &place, on_disk, wanted, &edit);
}

static inline struct change *plan_docker(
	struct edit_bench *bench, const char *on_disk, const char *wanted)
{
	const struct place place = {.kind = PLACE_EDIT,
		.path = DAEMON_JSON,
		.format = EDIT_JSON,
		.key = "max-concurrent-downloads"};
	const struct file_edit edit = {.text = wanted};

	return plan_edit(bench, "docker.max-concurrent-downloads", &place, on_disk, wanted, &edit);
}

static inline struct change *plan_own(
	struct edit_bench *bench, const char *path, const char *wanted, const char *text)
{
	struct place place = {.kind = PLACE_EDIT, .format = EDIT_OWN};
	const struct file_edit edit = {.text = text};

	copy_text(place.path, sizeof(place.path), path);
	return plan_edit(bench, "mirrors.docker.io", &place, "", wanted, &edit);
}

static inline void edit_prepare(struct edit_bench *bench)
{
	edits_clear(&bench->edits);
	assert_int_equal(edits_take(&bench->plan, &bench->edits), 0);
	assert_int_equal(edits_make(&bench->host, bench->journal, &bench->edits), 0);
	edits_prepare(&bench->edits);
	assert_int_equal(edits_note(&bench->edits, bench->journal), 0);
	assert_int_equal(journal_store(bench->journal), 0);
}

/* All of it, as the agent does it. The first file's error. */
static inline int edit_apply(struct edit_bench *bench)
{
	struct node none = {0};

	edit_prepare(bench);
	edits_write(&bench->edits);
	edits_settle(&bench->edits, &none, 1000);
	return bench->edits.n > 0 ? bench->edits.files[0].error : 0;
}

static inline void edit_restore(struct edit_bench *bench)
{
	edits_clear(&bench->edits);
	assert_int_equal(edits_make_restore(&bench->host, bench->journal, NULL, &bench->edits), 0);
	edits_restore(&bench->edits);
	edits_finish_restore(&bench->edits, bench->journal);
	assert_int_equal(journal_store(bench->journal), 0);
}

static inline void assert_no_file(const struct directory *directory, const char *name)
{
	char full[PATH_MAX];

	directory_path(directory, name, full);
	if (access(full, F_OK) == 0)
		fail_msg("%s is there", name);
}

#endif
