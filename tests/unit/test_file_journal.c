/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "apply/file_journal.h"

#include <ctype.h>
#include <sys/resource.h>

#include <cjson/cJSON.h>
#include <zlib.h>

#define HASH "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"

#define _cleanup_journal_ _cleanup_(cleanup_file_journal_close)

static struct file_journal *open_journal(const struct directory *directory)
{
	struct file_journal *journal;

	assert_int_equal(file_journal_open(directory->path, true, &journal), 0);
	return journal;
}

/* The same file, its setting wanted at some value. */
static void put_note(struct file_journal *journal, const char *path, const char *wanted)
{
	struct file_note note = {.tuner = "runtime",
		.format = EDIT_JSON,
		.original = HASH,
		.directories = 1,
		.n_keys = 1,
		.service = {.activation = ACTIVATE_RESTART,
			.restart = RESTART_WHEN_IDLE,
			.verifier = VERIFY_CONTAINERD_DUMP,
			.unit = "containerd.service"}};
	struct file_record *key = note.keys;

	copy_text(note.path, sizeof(note.path), path);
	copy_text(key->name, SETTING_NAME_MAX, "docker.max-concurrent-downloads");
	copy_text(key->target.key, FILE_KEY_MAX, "max-concurrent-downloads");
	copy_text(key->wanted, SETTING_VALUE_MAX, wanted);
	copy_text(key->before, SETTING_VALUE_MAX, "\"\xc3\xa9\\\" 10");
	file_journal_put(journal, &note);
}

static void fill(struct file_journal *journal)
{
	struct unit_mark *mark = &journal->units[journal->n_units++];

	copy_text(mark->unit, sizeof(mark->unit), "containerd.service");
	put_note(journal, "/etc/docker/daemon.json", "10");
	release_set(&journal->released, "thp", true);
	assert_true(journal->released.tuners[0].since_s > 1700000000);
	journal->released.tuners[0].since_s = 1700000001;
	mark->at_s = 1700000000;
	mark->open = true;
	mark->answered = 3;
	mark->n_tried = 1;
	copy_text(mark->tried[0].name, SETTING_NAME_MAX, "a");
	copy_text(mark->tried[0].value, SETTING_VALUE_MAX, "10");
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
	assert_int_equal(journal->n_units, 1);
	assert_memory_equal(journal->units, expected->units, sizeof(expected->units));
}

DIRECTORY_TEST(what_is_stored_is_loaded)
{
	_cleanup_journal_ struct file_journal *journal = NULL;

	store_sample(directory);
	journal = open_journal(directory);
	assert_sample(journal);
	assert_string_equal(journal->lost, "");
	/* Nothing new is not stored. */
	directory_delete(directory, "/journal.json");
	assert_int_equal(file_journal_store(journal), 0);
	assert_null(directory_get(directory, "/journal.json"));
}

/*
 * A copy takes the place of what is torn. A journal of a newer version alone knows what is to be
 * restored: it is left, and nothing is written.
 */
TEST(a_copy_serves_a_torn_journal_is_kept_and_a_newer_one_left)
{
	static const char newer[] =
		"{\"schema\": 99, \"checksum\": \"crc32:a3830348\", \"body\": {}}";
	static const struct {
		const char *text, *copy; /* copy: NULL for the whole one, as it was stored */
		int error;
	} cases[] = {
		{"{\"schema\": 4, ", NULL, 0},
		{NULL, NULL, 0},
		{"{}", "", 0},
		{"", "torn", 0},
		{newer, "torn", -EPROTO},
		{"torn", newer, -EPROTO},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_journal_ struct file_journal *reader = NULL, *writer = NULL;
		_cleanup_directory_ struct directory directory;
		_cleanup_free_ char *whole = NULL;

		directory_make(&directory);
		store_sample(&directory);
		whole = directory_get(&directory, "/journal.json");
		directory_delete(&directory, "/journal.json");
		if (cases[i].text)
			directory_put(&directory, "/journal.json", cases[i].text);
		if (cases[i].copy)
			directory_put(&directory, "/journal.json.1", cases[i].copy);
		assert_int_equal(file_journal_open(directory.path, false, &reader), cases[i].error);
		if (cases[i].text) /* a reader moves nothing */
			assert_file(&directory, "/journal.json", cases[i].text);
		assert_int_equal(file_journal_open(directory.path, true, &writer), cases[i].error);
		if (cases[i].error < 0) {
			assert_file(&directory, "/journal.json", cases[i].text);
			assert_file(&directory, "/journal.json.1", cases[i].copy);
			continue;
		}
		if (cases[i].text)
			assert_file(&directory, "/" JOURNAL_BAD, cases[i].text);
		assert_null(directory_get(&directory, "/journal.json"));
		if (cases[i].copy) {
			assert_true(reader->lost[0] && writer->lost[0]);
			assert_non_null(strstr(writer->lost, "are lost"));
			assert_int_equal(writer->n_files, 0);
			assert_file(&directory, "/journal.json.1.bad", cases[i].copy);
			assert_null(directory_get(&directory, "/journal.json.1"));
			continue;
		}
		assert_sample(writer);
		assert_string_equal(writer->lost, "");
		/* Without a store it is still there for the next process. */
		assert_file(&directory, "/journal.json.1", whole);
		assert_int_equal(file_journal_store(writer), 0);
		assert_file(&directory, "/journal.json", whole);
		assert_file(&directory, "/journal.json.1", whole);
	}
}

DIRECTORY_TEST(no_truncation_or_flipped_bit_goes_unnoticed)
{
	_cleanup_free_ char *text = NULL;
	size_t len;

	store_sample(directory);
	text = directory_get(directory, "/journal.json");
	directory_delete(directory, "/journal.json.1");
	len = strlen(text);
	for (size_t i = 0; i < 9 * len; i++) {
		_cleanup_journal_ struct file_journal *journal = NULL;
		_cleanup_free_ char *changed = strdup(text);
		size_t at = i < len ? i : (i - len) / 8;

		changed[at] = i < len ? '\0' : (char)(text[at] ^ (1 << (i - len) % 8));
		directory_delete(directory, "/journal.json"); /* or ext4 would flush each */
		directory_put_bytes(directory, "/journal.json", changed, i < len ? at : len);
		if (file_journal_open(directory->path, false, &journal) < 0)
			continue; /* a newer version's */
		/* Between words the parser takes any control character for a blank. */
		if (!journal->lost[0] && i >= len && isspace((unsigned char)text[at]))
			assert_sample(journal);
		else if (!journal->lost[0])
			fail_msg("change %zu passes", i);
		else
			assert_int_equal(journal->n_files + journal->n_units, 0);
	}
}

DIRECTORY_TEST(wrong_forms_are_refused)
{
	static const char *const cases[][2] = {
		{"\"directories\":1", "\"directories\":-1"},
		{"\"format\":1", "\"format\":{}"},
		{"\"wanted\"", "\"wonted\""},
		{"\"released\":[]", "\"released\":{}"},
	};
	_cleanup_journal_ struct file_journal *written = open_journal(directory);
	_cleanup_free_ char *body = NULL;
	cJSON *root;

	put_note(written, "/etc/docker/daemon.json", "10");
	assert_int_equal(file_journal_store(written), 0);
	root = cJSON_Parse(written->stored);
	body = cJSON_PrintUnformatted(cJSON_GetObjectItemCaseSensitive(root, "body"));
	cJSON_Delete(root);
	directory_delete(directory, "/journal.json.1");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_journal_ struct file_journal *journal = NULL;
		_cleanup_free_ char *wrong = NULL, *text = NULL;
		const char *found = strstr(body, cases[i][0]);

		assert_non_null(found);
		assert_true(asprintf(&wrong, "%.*s%s%s", (int)(found - body), body, cases[i][1],
				    found + strlen(cases[i][0])) > 0);
		assert_true(asprintf(&text,
				    "{\"schema\": 4, \"checksum\": \"crc32:%08lx\", \"body\": %s}",
				    crc32(0, (const unsigned char *)wrong, (unsigned)strlen(wrong)),
				    wrong) > 0);
		directory_put(directory, "/journal.json", text);
		assert_int_equal(file_journal_open(directory->path, false, &journal), 0);
		if (!journal->lost[0])
			fail_msg("%s passes", cases[i][1]);
		assert_int_equal(journal->n_files, 0);
	}
}

DIRECTORY_TEST(a_setting_in_two_files_is_one_record)
{
	_cleanup_journal_ struct file_journal *journal = open_journal(directory);
	struct file_record *records;
	size_t n;

	put_note(journal, "/etc/a", "10");
	put_note(journal, "/etc/b", "12");
	for (int i = 0; i < 2; i++) {
		records = file_journal_snapshot(journal, &n);
		assert_int_equal(n, 1);
		assert_string_equal(records[0].target.path, i == 0 ? "/etc/b" : "/etc/a");
		free(records);
		file_journal_forget(journal, "/etc/b");
		file_journal_forget(journal, "/etc/none");
	}
}

DIRECTORY_TEST(a_release_lasts_until_it_is_ended)
{
	_cleanup_journal_ struct file_journal *journal = open_journal(directory);

	for (int i = 0; i < 2; i++)
		release_set(&journal->released, "thp", true);
	assert_int_equal(journal->released.n, 1);
	release_set(&journal->released, "thp", false);
	for (int i = 0; i < JOURNAL_RELEASED_MAX + 3; i++) {
		char name[8];

		assert_int_equal(journal->released.n, MIN(i, JOURNAL_RELEASED_MAX));
		snprintf(name, sizeof(name), "t%d", i);
		release_set(&journal->released, name, true);
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
	put_note(journal, "/etc/b", "10");
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
