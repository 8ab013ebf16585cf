/* SPDX-License-Identifier: Apache-2.0 */
#include "journal_fixture.h"

#include "apply/files_json.h"

#include <ctype.h>
#include <errno.h>

/* With journal.json as text, the sample must come back whole: from it, or from the older one. */
static void assert_survives(
	const struct directory *directory, const char *older, const char *text, size_t len)
{
	_cleanup_journal_ struct journal *journal = NULL;

	directory_put_bytes(directory, "/journal.json", text, len);
	directory_put(directory, "/journal.json.1", older);
	assert_int_equal(journal_open(directory->path, BOOT, false, &journal), 0);
	assert_sample(journal);
	assert_false(journal->lost);
}

static void every_truncation_is_noticed(void **state)
{
	_cleanup_directory_ struct directory directory;
	_cleanup_free_ char *text = NULL;

	(void)state;
	directory_make(&directory);
	store_sample(&directory);
	text = directory_get(&directory, "/journal.json");
	for (size_t len = 0; len < strlen(text); len++) {
		_cleanup_free_ char *part = strndup(text, len);
		struct journal parsed = {0};

		if (journal_parse(&parsed, part) != -EBADMSG)
			fail_msg("the first %zu bytes pass", len);
		assert_int_equal(parsed.n_records, 0);
		assert_int_equal(parsed.n_restarts, 0);
		parsed_clear(&parsed);
		if (len % 16 == 0)
			assert_survives(&directory, text, text, len);
	}
}

static void no_flipped_bit_goes_unnoticed(void **state)
{
	_cleanup_directory_ struct directory directory;
	_cleanup_free_ char *text = NULL;
	size_t len;

	(void)state;
	directory_make(&directory);
	store_sample(&directory);
	text = directory_get(&directory, "/journal.json");
	len = strlen(text);
	for (size_t bit = 0; bit < 8 * len; bit++) {
		struct journal parsed = {0};
		bool blank = isspace((unsigned char)text[bit / 8]);
		int r;

		text[bit / 8] = (char)(text[bit / 8] ^ (1 << bit % 8));
		r = journal_parse(&parsed, text);
		/* Between words the parser takes any control character for a blank. */
		if (r == 0 && blank)
			assert_sample(&parsed);
		else if (r == 0)
			fail_msg("bit %zu passes", bit);
		else
			assert_int_equal(parsed.n_records, 0);
		parsed_clear(&parsed);
		text[bit / 8] = (char)(text[bit / 8] ^ (1 << bit % 8));
	}
}

static void wrong_forms(void **state)
{
	static const struct {
		const char *text;
		int result;
	} cases[] = {
		{"", -EBADMSG},
		{"[]", -EBADMSG},
		{"{\"schema\": 1, \"checksum\": \"crc32:a3830348\"}", -EBADMSG},
		{"{\"schema\": 1, \"checksum\": \"crc32:00000000\", \"body\": {}}", -EBADMSG},
		/* A body of the right checksum and the wrong form. */
		{"{\"schema\": 1, \"checksum\": \"crc32:a3830348\", \"body\": {}}", -EBADMSG},
		{"{\"schema\": \"1\", \"checksum\": \"crc32:a3830348\", \"body\": {}}", -EBADMSG},
		{"{\"schema\": 3, \"checksum\": \"crc32:a3830348\", \"body\": {}}", -EPROTO},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct journal journal = {0};

		assert_int_equal(journal_parse(&journal, cases[i].text), cases[i].result);
		parsed_clear(&journal);
	}
}

/* Whoever edits the journal by hand gets no path of theirs written or read. */
static void wrong_file_notes(void **state)
{
	static const struct {
		const char *good, *bad;
	} cases[] = {
		{"\"/etc/docker/daemon.json\",\"tuner", "\"etc/docker/daemon.jsonn\",\"tuner"},
		{"\"original\":\"ca978112", "\"original\":\"../../etc"},
		{"containerd-restart", "containerd-rest@rt"},
		{"when-idle", "when-idol"},
		{"\"directories\":1", "\"directories\":-"},
		{"\"format\":\"json\",\"directories", "\"format\":\"jsom\",\"directories"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_journal_ struct journal *journal = calloc(1, sizeof(*journal));
		struct file_note note = {0};
		_cleanup_free_ char *text = NULL;
		cJSON *good, *bad;
		char *place;

		journal->dir = -1;
		note_file(journal);
		good = file_note_print(&journal->files[0]);
		text = cJSON_PrintUnformatted(good);
		place = strstr(text, cases[i].good);
		assert_non_null(place);
		memcpy(place, cases[i].bad, strlen(cases[i].bad));
		bad = cJSON_Parse(text);
		if (file_note_parse(bad, &note) != -EBADMSG)
			fail_msg("%s passes", cases[i].bad);
		file_note_clear(&note);
		cJSON_Delete(good);
		cJSON_Delete(bad);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_truncation_is_noticed),
		cmocka_unit_test(no_flipped_bit_goes_unnoticed),
		cmocka_unit_test(wrong_forms),
		cmocka_unit_test(wrong_file_notes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
