/* SPDX-License-Identifier: Apache-2.0 */
#include "journal_fixture.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>

static void what_is_stored_is_loaded(void **state)
{
	_cleanup_directory_ struct directory directory;
	_cleanup_journal_ struct journal *journal = NULL;

	(void)state;
	directory_make(&directory);
	store_sample(&directory);
	journal = open_journal(&directory, BOOT);
	assert_sample(journal);
	assert_string_equal(journal->note, "");
	assert_false(journal->dirty);
	assert_false(journal->lost);
}

static void an_original_is_stored_in_both_generations(void **state)
{
	_cleanup_directory_ struct directory directory;
	_cleanup_journal_ struct journal *journal = NULL;
	_cleanup_free_ char *first = NULL, *second = NULL, *third = NULL;

	(void)state;
	directory_make(&directory);
	store_sample(&directory);
	first = directory_get(&directory, "/journal.json");
	assert_file(&directory, "/journal.json.1", first);
	/* Another target adds no original: once is enough, and the older one stays. */
	journal = open_journal(&directory, BOOT);
	note(journal, "vm.a", "2", "3");
	assert_int_equal(journal_store(journal), 0);
	second = directory_get(&directory, "/journal.json");
	assert_string_not_equal(second, first);
	assert_file(&directory, "/journal.json.1", first);
	note(journal, "vm.b", "7", "8");
	assert_int_equal(journal_store(journal), 0);
	third = directory_get(&directory, "/journal.json");
	assert_file(&directory, "/journal.json.1", third);
	assert_non_null(strstr(third, "vm.b"));
}

static void nothing_new_is_not_stored(void **state)
{
	_cleanup_directory_ struct directory directory;
	_cleanup_journal_ struct journal *journal = NULL;

	(void)state;
	directory_make(&directory);
	store_sample(&directory);
	journal = open_journal(&directory, BOOT);
	note(journal, "vm.a", "1", "2");
	journal_set_config(journal, UINT32_MAX);
	journal_unrelease(journal, "neighbor");
	journal_forget(journal, "no.such");
	assert_false(journal->dirty);
	directory_delete(&directory, "/journal.json");
	assert_int_equal(journal_store(journal), 0);
	assert_null(directory_get(&directory, "/journal.json"));
}

static void the_older_generation_takes_the_place_of_a_torn_one(void **state)
{
	_cleanup_directory_ struct directory directory;
	_cleanup_journal_ struct journal *journal = NULL;
	_cleanup_free_ char *text = NULL;

	(void)state;
	directory_make(&directory);
	store_sample(&directory);
	text = directory_get(&directory, "/journal.json");
	directory_put(&directory, "/journal.json", "{\"schema\": 1, ");
	journal = open_journal(&directory, BOOT);
	assert_sample(journal);
	assert_non_null(strstr(journal->note, "torn or altered"));
	/* At no moment of what follows is the torn file the only one. */
	assert_file(&directory, "/journal.json", text);
	assert_file(&directory, "/journal.json.bad", "{\"schema\": 1, ");
	assert_true(journal->dirty);
	assert_int_equal(journal_store(journal), 0);
	assert_file(&directory, "/journal.json", text);
	assert_file(&directory, "/journal.json.1", text);
}

static void a_missing_file_is_made_up_for_by_the_older_one(void **state)
{
	_cleanup_directory_ struct directory directory;
	_cleanup_journal_ struct journal *journal = NULL;
	_cleanup_free_ char *text = NULL;

	(void)state;
	directory_make(&directory);
	store_sample(&directory);
	text = directory_get(&directory, "/journal.json");
	directory_delete(&directory, "/journal.json");
	journal = open_journal(&directory, BOOT);
	assert_sample(journal);
	assert_file(&directory, "/journal.json", text);
}

static void two_torn_files_are_kept(void **state)
{
	static const char bad[] = "{}", older[] = "";
	_cleanup_directory_ struct directory directory;
	_cleanup_journal_ struct journal *reader = NULL;
	_cleanup_journal_ struct journal *writer = NULL;

	(void)state;
	directory_make(&directory);
	directory_put(&directory, "/journal.json", bad);
	directory_put(&directory, "/journal.json.1", older);
	assert_int_equal(journal_open(directory.path, BOOT, false, &reader), 0);
	assert_true(reader->lost);
	assert_file(&directory, "/journal.json", bad); /* who only reads moves nothing */
	writer = open_journal(&directory, BOOT);
	assert_true(writer->lost);
	assert_int_equal(writer->n_records, 0);
	assert_non_null(strstr(writer->note, "lost"));
	assert_file(&directory, "/journal.json.bad", bad);
	assert_file(&directory, "/journal.json.1.bad", older);
	assert_null(directory_get(&directory, "/journal.json"));
}

/* It alone knows what is to be put back: a version of before leaves it, and writes nothing. */
static void a_newer_version_s_is_left(void **state)
{
	static const char newer[] =
		"{\"schema\": 3, \"checksum\": \"crc32:a3830348\", \"body\": {}}";
	static const char *const names[] = {"/journal.json", "/journal.json.1"};
	struct journal *journal = NULL;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		_cleanup_directory_ struct directory directory;

		directory_make(&directory);
		directory_put(&directory, "/journal.json", "torn");
		directory_put(&directory, names[i], newer);
		assert_int_equal(journal_open(directory.path, BOOT, true, &journal), -EPROTO);
		assert_null(journal);
		assert_file(&directory, names[i], newer);
	}
}

/* A setting whose file is another one now is restored in both, whichever goes first. */
static void a_moved_setting_is_known_until_both_are_forgotten(void **state)
{
	static const char *const paths[] = {"/etc/a.toml", "/etc/b.toml"};
	_cleanup_directory_ struct directory directory;
	_cleanup_journal_ struct journal *journal = NULL;

	(void)state;
	directory_make(&directory);
	journal = open_journal(&directory, BOOT);
	note(journal, "moved", "3", "10");
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		struct file_note file = {.original = FILE_HASH_NONE};
		struct place place = {.key = "x"};

		copy_text(file.path, sizeof(file.path), paths[i]);
		assert_non_null(file_note_add_key(&file, "moved", &place));
		assert_int_equal(journal_note_file(journal, &file), 0);
		file_note_clear(&file);
	}
	journal_forget_file(journal, paths[0]);
	assert_int_equal(journal->n_records, 1);
	journal_forget_file(journal, paths[1]);
	assert_int_equal(journal->n_records, 0);
}

static void another_boot_begins_afresh(void **state)
{
	_cleanup_directory_ struct directory directory;
	_cleanup_journal_ struct journal *journal = NULL;

	(void)state;
	directory_make(&directory);
	store_sample(&directory);
	journal = open_journal(&directory, "another-boot");
	assert_int_equal(journal->n_records, 1);
	assert_file_noted(journal); /* files stay as they are */
	assert_string_equal(journal->boot, "another-boot");
	assert_true(journal->dirty);
	/* That somebody restored outlives a boot. */
	assert_true(journal_is_released(journal, "thp", UINT32_MAX));
}

static void an_unknown_boot_gives_nothing_up(void **state)
{
	_cleanup_directory_ struct directory directory;
	_cleanup_journal_ struct journal *journal = NULL;

	(void)state;
	directory_make(&directory);
	store_sample(&directory);
	journal = open_journal(&directory, "");
	assert_sample(journal);
	assert_string_equal(journal->boot, BOOT);
	assert_false(journal->dirty);
}

/* What is noted of one setting, step by step: what stood there and what will be written. */
static const struct {
	const char *what;
	const char *old, *new;
	const char *before, *target;
	bool dirty;
} steps[] = {
	{"the first write records the original", "1024", "4096", "1024", "4096", true},
	{"the same again", "1024", "4096", "1024", "4096", false},
	{"a new target", "4096", "8192", "4096", "8192", true},
	{"killed before the write, tried again", "4096", "8192", "4096", "8192", false},
	{"someone put the original back", "1024", "8192", "4096", "8192", false},
	{"a foreign value is not ours to put back", "5", "8192", "8192", "8192", true},
	{"a foreign value again", "6", "8192", "8192", "8192", false},
	{"a target over a foreign value", "7", "9000", "8192", "9000", true},
	{"equal, and written otherwise", " 9000", "9000", " 9000", "9000", true},
};

static void notes_follow_the_node(void **state)
{
	_cleanup_directory_ struct directory directory;
	_cleanup_journal_ struct journal *journal = NULL;

	(void)state;
	directory_make(&directory);
	journal = open_journal(&directory, BOOT);
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		print_message("%s\n", steps[i].what);
		journal->dirty = journal->added = false;
		note(journal, "vm.a", steps[i].old, steps[i].new);
		assert_int_equal(journal->n_records, 1);
		assert_record(journal, "vm.a", "1024", steps[i].before, steps[i].target);
		assert_int_equal(journal->dirty, steps[i].dirty);
		assert_int_equal(journal->added, i == 0);
	}
}

/* The kernel makes 100 of 99: that is ours too. Of what was written in a fight nobody knows. */
static void what_the_kernel_made_of_a_value_is_noted(void **state)
{
	struct change change = {.name = "vm.a", .error = -ERANGE, .actual = "100"};
	struct plan plan = {.changes = &change, .n = 1};
	_cleanup_directory_ struct directory directory;
	_cleanup_journal_ struct journal *journal = NULL;

	(void)state;
	directory_make(&directory);
	journal = open_journal(&directory, BOOT);
	note(journal, "vm.a", "1", "99");
	change.reason = "drift";
	journal_note_actual(journal, &plan);
	assert_true(record_is_foreign(&journal->records[0], "100"));
	change.reason = "configured";
	journal->dirty = false;
	journal_note_actual(journal, &plan);
	assert_false(record_is_foreign(&journal->records[0], "100"));
	assert_true(journal->dirty);
	journal->dirty = false;
	journal_note_actual(journal, &plan);
	assert_false(journal->dirty);
}

static void forgetting(void **state)
{
	_cleanup_directory_ struct directory directory;
	_cleanup_journal_ struct journal *journal = NULL;

	(void)state;
	directory_make(&directory);
	journal = open_journal(&directory, BOOT);
	note(journal, "vm.a", "1", "2");
	note(journal, "vm.b", "3", "4");
	note(journal, "vm.c", "5", "6");
	journal_forget(journal, "vm.a");
	assert_int_equal(journal->n_records, 2);
	assert_record(journal, "vm.b", "3", "3", "4");
	assert_record(journal, "vm.c", "5", "5", "6");
	/* The next write records afresh. */
	note(journal, "vm.a", "9", "10");
	assert_record(journal, "vm.a", "9", "9", "10");
}

static void a_release_holds_for_one_configuration(void **state)
{
	_cleanup_directory_ struct directory directory;
	_cleanup_journal_ struct journal *journal = NULL;
	char name[8];

	(void)state;
	directory_make(&directory);
	journal = open_journal(&directory, BOOT);
	journal_set_config(journal, 17);
	journal_release(journal, "thp");
	journal_release(journal, "thp");
	assert_int_equal(journal->n_released, 1);
	assert_true(journal_is_released(journal, "thp", 17));
	assert_false(journal_is_released(journal, "thp", 18));
	assert_false(journal_is_released(journal, "neighbor", 17));
	journal_unrelease(journal, "thp");
	assert_false(journal_is_released(journal, "thp", 17));
	for (int i = 0; i < JOURNAL_RELEASED_MAX + 3; i++) {
		snprintf(name, sizeof(name), "t%d", i);
		journal_release(journal, name);
	}
	assert_int_equal(journal->n_released, JOURNAL_RELEASED_MAX);
	/* Another one was applied meanwhile: the first is a new one when it comes back. */
	journal_set_config(journal, 18);
	journal_set_config(journal, 17);
	assert_false(journal_is_released(journal, "t0", 17));
	assert_int_equal(journal->n_released, 0);
}

static void what_was_not_stored_is_taken_back(void **state)
{
	_cleanup_directory_ struct directory directory;
	_cleanup_journal_ struct journal *journal = NULL;
	_cleanup_journal_ struct journal *copy = NULL;
	int dir;

	(void)state;
	directory_make(&directory);
	journal = open_journal(&directory, BOOT);
	dir = journal->dir;
	note(journal, "vm.a", "1", "2");
	copy = journal_copy(journal);
	assert_int_equal(copy->dir, -1);
	note(journal, "vm.a", "2", "3");
	note(journal, "vm.b", "3", "4");
	note_file(journal);
	journal_release(journal, "thp");
	journal_take_back(journal, copy);
	assert_int_equal(journal->dir, dir);
	assert_int_equal(journal->n_records, 1);
	assert_record(journal, "vm.a", "1", "1", "2");
	assert_int_equal(journal->n_released, 0);
	assert_int_equal(journal->n_files, 0);
	/* And it goes on from there. */
	note(journal, "vm.c", "5", "6");
	assert_int_equal(journal_store(journal), 0);
}

static void a_full_disk_leaves_the_old_journal(void **state)
{
	struct rlimit before, lowered;
	_cleanup_directory_ struct directory directory;
	_cleanup_journal_ struct journal *journal = NULL;
	_cleanup_free_ char *text = NULL;

	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	directory_make(&directory);
	store_sample(&directory);
	text = directory_get(&directory, "/journal.json");
	journal = open_journal(&directory, BOOT);
	note(journal, "vm.b", "1", "2");
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	lowered = (struct rlimit){.rlim_cur = 64, .rlim_max = before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &lowered), 0);
	assert_int_equal(journal_store(journal), -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_file(&directory, "/journal.json", text);
	assert_file(&directory, "/journal.json.1", text);
	assert_true(journal->dirty);
	assert_true(journal->added);
	assert_int_equal(journal_store(journal), 0);
	assert_false(journal->dirty);
}

static void a_directory_that_is_not_there(void **state)
{
	_cleanup_directory_ struct directory directory;
	_cleanup_journal_ struct journal *journal = NULL;
	struct journal *none = NULL;
	char path[PATH_MAX];

	(void)state;
	directory_make(&directory);
	directory_path(&directory, "/state", path);
	assert_int_equal(journal_open(path, BOOT, false, &journal), 0);
	assert_int_equal(journal->dir, -1);
	assert_int_equal(access(path, F_OK), -1);
	journal_close(steal(journal));
	assert_int_equal(journal_open(path, BOOT, true, &journal), 0);
	assert_true(journal->dir >= 0);
	directory_put(&directory, "/file", "");
	directory_path(&directory, "/file/state", path);
	assert_int_equal(journal_open(path, BOOT, true, &none), -ENOTDIR);
	assert_null(none);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_stored_is_loaded),
		cmocka_unit_test(an_original_is_stored_in_both_generations),
		cmocka_unit_test(nothing_new_is_not_stored),
		cmocka_unit_test(the_older_generation_takes_the_place_of_a_torn_one),
		cmocka_unit_test(a_missing_file_is_made_up_for_by_the_older_one),
		cmocka_unit_test(two_torn_files_are_kept),
		cmocka_unit_test(a_newer_version_s_is_left),
		cmocka_unit_test(a_moved_setting_is_known_until_both_are_forgotten),
		cmocka_unit_test(another_boot_begins_afresh),
		cmocka_unit_test(an_unknown_boot_gives_nothing_up),
		cmocka_unit_test(notes_follow_the_node),
		cmocka_unit_test(what_the_kernel_made_of_a_value_is_noted),
		cmocka_unit_test(forgetting),
		cmocka_unit_test(a_release_holds_for_one_configuration),
		cmocka_unit_test(what_was_not_stored_is_taken_back),
		cmocka_unit_test(a_full_disk_leaves_the_old_journal),
		cmocka_unit_test(a_directory_that_is_not_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
