/* SPDX-License-Identifier: Apache-2.0 */
#include "edit_fixture.h"

#include "apply/apply.h"
#include "base/log.h"

#include <errno.h>

#define NAME    "containerd.max_concurrent_downloads"
#define DROP_IN "/etc/containerd/conf.d/99-headroom.toml"
#define IMAGES  "plugins.\"io.containerd.cri.v1.images\""

static const char original[] =
	"version = 2\n[" CRI "]\n  max_concurrent_downloads = 3 # as always\n";

/* The same setting as in plan_downloads(), in another file or table. */
static void plan_elsewhere(struct edit_bench *bench, const char *path, const char *table,
	const char *on_disk, const char *wanted)
{
	struct place place = {
		.kind = PLACE_EDIT, .format = EDIT_TOML, .key = "max_concurrent_downloads"};
	const struct file_edit edit = {.text = wanted, .base = "version = 2\n"};

	copy_text(place.path, sizeof(place.path), path);
	copy_text(place.table, sizeof(place.table), table);
	plan_edit(bench, NAME, &place, on_disk, wanted, &edit);
}

/* The runtime was upgraded, and takes drop-ins by now: both files are ours to put back. */
static void a_setting_that_moved_is_told_of_each_file(void **state)
{
	_cleanup_edit_bench_ struct edit_bench bench;

	(void)state;
	edit_bench_make(&bench);
	directory_put(&bench.root, CONFIG_TOML, original);
	plan_downloads(&bench, "3", "10");
	assert_int_equal(edit_apply(&bench), 0);
	plan_elsewhere(&bench, DROP_IN, CRI, "", "10");
	assert_int_equal(edit_apply(&bench), 0);
	directory_put(&bench.root, CONFIG_TOML, "what is [ this");
	edit_restore(&bench);
	assert_int_equal(bench.edits.plan.n, 2);
	assert_int_equal(plan_failures(&bench.edits.plan), 1);
	assert_string_equal(bench.edits.plan.changes[0].place.path, CONFIG_TOML);
	assert_int_equal(bench.edits.plan.changes[0].error, -EBADMSG);
	assert_no_file(&bench.root, DROP_IN);
	assert_non_null(journal_file(bench.journal, CONFIG_TOML));
	assert_int_equal(bench.journal->n_records, 1);
	/* Mended, it is put back too. */
	directory_put(&bench.root, CONFIG_TOML,
		"version = 2\n[" CRI "]\n  max_concurrent_downloads = 10\n[x]\n");
	edit_restore(&bench);
	assert_file(&bench.root, CONFIG_TOML,
		"version = 2\n[" CRI "]\n  max_concurrent_downloads = 3\n[x]\n");
	assert_int_equal(bench.journal->n_records, 0);
}

/* Somebody rewrote the file for a newer runtime, where the same key is in another table. */
static void a_key_that_moved_is_taken_out_where_it_is(void **state)
{
	_cleanup_edit_bench_ struct edit_bench bench;

	(void)state;
	edit_bench_make(&bench);
	directory_put(&bench.root, CONFIG_TOML, original);
	plan_downloads(&bench, "3", "10");
	assert_int_equal(edit_apply(&bench), 0);
	directory_put(&bench.root, CONFIG_TOML,
		"version = 3\n[" IMAGES "]\n  max_concurrent_downloads = 10\n");
	plan_elsewhere(&bench, CONFIG_TOML, IMAGES, "10", "12");
	assert_int_equal(edit_apply(&bench), 0);
	directory_put(&bench.root, CONFIG_TOML,
		"version = 3\n[" IMAGES "]\n  max_concurrent_downloads = 12\n[x]\n");
	edit_restore(&bench);
	assert_file(&bench.root, CONFIG_TOML,
		"version = 3\n[" IMAGES "]\n  max_concurrent_downloads = 3\n[x]\n");
	assert_int_equal(bench.journal->n_files, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_setting_that_moved_is_told_of_each_file),
		cmocka_unit_test(a_key_that_moved_is_taken_out_where_it_is),
	};

	log_init(LOG_LEVEL_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
