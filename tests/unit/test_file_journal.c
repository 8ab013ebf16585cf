/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "apply/file.h"

#include <sys/resource.h>

#define HASH "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"

#define _cleanup_journal_ _cleanup_(cleanup_file_journal_close)

static struct file_journal *open_journal(const struct directory *directory)
{
	struct file_journal *journal;

	assert_int_equal(file_journal_open(directory->path, true, &journal), 0);
	return journal;
}

/* Adds a file with one setting and its wanted value. */
static void put_file(struct file_journal *journal, const char *path, const char *wanted)
{
	struct file_record file = {.tuner = "runtime",
		.format = EDIT_JSON,
		.original = HASH,
		.directories = 1,
		.n_keys = 1,
		.activation = ACTIVATE_RESTART,
		.restart = RESTART_WHEN_IDLE,
		.daemon = {.driver = "containerd", .unit = "containerd.service"}};
	struct key_record *key = file.keys;

	set_text(file.path, path);
	copy_text(key->name, SETTING_NAME_MAX, "docker.max-concurrent-downloads");
	copy_text(key->key, FILE_KEY_MAX, "max-concurrent-downloads");
	copy_text(key->wanted, SETTING_VALUE_MAX, wanted);
	copy_text(key->value_before, SETTING_VALUE_MAX, "\"\xc3\xa9\\\" 10");
	file_journal_put(journal, &file);
}

static void fill(struct file_journal *journal)
{
	struct restart_history *history = &journal->restarts[journal->n_restarts++];

	set_text(history->unit, "containerd.service");
	put_file(journal, "/etc/docker/daemon.json", "10");
	release_set(&journal->released, "thp", true);
	assert_true(journal->released.tuners[0].since_s > 1700000000);
	journal->released.tuners[0].since_s = 1700000001;
	history->times[0].at_s = 1700000000;
	history->n_times = 1;
	history->open = true;
	history->answered = 3;
	history->n_tried = 1;
	copy_text(history->tried[0].name, SETTING_NAME_MAX, "a");
	copy_text(history->tried[0].value, SETTING_VALUE_MAX, "10");
}

static void store_sample(const struct directory *directory)
{
	_cleanup_journal_ struct file_journal *journal = open_journal(directory);

	fill(journal);
	assert_int_equal(file_journal_store(journal), 0);
}

static struct file_journal *empty_journal(void)
{
	struct file_journal *journal = calloc(1, sizeof(*journal));

	journal->dir = -1;
	return journal;
}

static void assert_sample(const struct file_journal *journal)
{
	_cleanup_journal_ struct file_journal *expected = empty_journal();

	fill(expected);
	assert_int_equal(journal->n_files, 1);
	assert_memory_equal(journal->files, expected->files, sizeof(*expected->files));
	assert_memory_equal(&journal->released, &expected->released, sizeof(expected->released));
	assert_int_equal(journal->n_restarts, 1);
	assert_memory_equal(journal->restarts, expected->restarts, sizeof(expected->restarts));
}

DIRECTORY_TEST(a_stored_journal_is_loaded)
{
	_cleanup_journal_ struct file_journal *journal = NULL;

	store_sample(directory);
	journal = open_journal(directory);
	assert_sample(journal);
	/* An unchanged journal is not stored again. */
	directory_delete(directory, "/journal.json");
	assert_int_equal(file_journal_store(journal), 0);
	assert_null(directory_get(directory, "/journal.json"));
}

static void assert_refused(const struct directory *directory, int error)
{
	for (int create = 0; create < 2; create++) {
		_cleanup_journal_ struct file_journal *journal = NULL;

		assert_int_equal(file_journal_open(directory->path, create, &journal), error);
		assert_null(journal);
	}
}

/* Without the journal the agent cannot know which files have originals. */
DIRECTORY_TEST(damaged_missing_and_newer_journals_are_refused_and_stay)
{
	static const struct {
		const char *text;
		int error;
	} cases[] = {
		{"{}", -EBADMSG},
		{"{\"schema\": 3, \"body\": {}}", -EBADMSG},
		{"{\"schema\": 99}", -EPROTO},
		{NULL, -ENODATA},
	};

	directory_put(directory, "/files/" HASH, "an original");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		if (cases[i].text)
			directory_put(directory, "/journal.json", cases[i].text);
		else
			directory_delete(directory, "/journal.json");
		assert_refused(directory, cases[i].error);
		if (cases[i].text)
			assert_file(directory, "/journal.json", cases[i].text);
		assert_file(directory, "/files/" HASH, "an original");
	}
	directory_delete(directory, "/files/" HASH);
	file_journal_close(open_journal(directory));
}

DIRECTORY_TEST(a_newer_journal_names_the_version_that_wrote_it)
{
	char program[RECORD_PROGRAM_MAX] = "";

	directory_put(directory, "/journal.json", "{\"schema\": 99, \"version\": \"9.1\"}");
	file_journal_program(directory->path, program);
	assert_string_equal(program, "9.1");
}

DIRECTORY_TEST(journals_with_wrong_types_are_refused)
{
	static const char *const cases[][2] = {
		{"\"directories\":\t1", "\"directories\":\t-1"},
		{"\"format\":\t1", "\"format\":\t{}"},
		{"\"wanted\"", "\"wonted\""},
		{"\"released\":\t[", "\"released\":\t[5, "},
	};
	_cleanup_free_ char *text = NULL;

	store_sample(directory);
	text = directory_get(directory, "/journal.json");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *wrong = NULL;
		const char *found = strstr(text, cases[i][0]);

		assert_non_null(found);
		assert_true(asprintf(&wrong, "%.*s%s%s", (int)(found - text), text, cases[i][1],
				    found + strlen(cases[i][0])) > 0);
		directory_put(directory, "/journal.json", wrong);
		assert_refused(directory, -EBADMSG);
	}
}

TEST(a_full_disk_leaves_the_old_journal)
{
	struct rlimit before, lowered;
	_cleanup_directory_ struct directory directory;
	_cleanup_journal_ struct file_journal *journal = NULL;
	_cleanup_free_ char *text = NULL;

	signal(SIGXFSZ, SIG_IGN);
	directory_make(&directory);
	store_sample(&directory);
	text = directory_get(&directory, "/journal.json");
	journal = open_journal(&directory);
	put_file(journal, "/etc/b", "10");
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	lowered = (struct rlimit){.rlim_cur = 64, .rlim_max = before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &lowered), 0);
	assert_int_equal(file_journal_store(journal), -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_file(&directory, "/journal.json", text);
	assert_null(directory_get(&directory, "/journal.json.new"));
	assert_int_equal(file_journal_store(journal), 0);
}

DIRECTORY_TEST(only_the_writer_makes_the_directory)
{
	_cleanup_journal_ struct file_journal *reader = NULL, *writer = NULL;
	struct file_journal *none = NULL;
	struct path state = directory_at(directory, "/state");

	assert_int_equal(file_journal_open(state.text, false, &reader), 0);
	assert_int_equal(reader->dir, -1);
	assert_int_equal(access(state.text, F_OK), -1);
	assert_int_equal(file_journal_open(state.text, true, &writer), 0);
	assert_true(writer->dir >= 0);
	directory_put(directory, "/file", "");
	state = directory_at(directory, "/file/state");
	assert_int_equal(file_journal_open(state.text, true, &none), -ENOTDIR);
	assert_null(none);
}
