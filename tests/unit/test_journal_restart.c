/* SPDX-License-Identifier: Apache-2.0 */
#include "journal_fixture.h"

#include <errno.h>

#include <cjson/cJSON.h>
#include <zlib.h>

static int begin(struct journal *journal, const char *unit, uint64_t at_s)
{
	struct journal_restart restart = {
		.at_s = at_s, .answered = ANSWER_CRI, .config = UINT32_MAX};

	copy_text(restart.unit, sizeof(restart.unit), unit);
	return journal_begin_restart(journal, &restart);
}

static void what_is_stored_is_loaded(void **state)
{
	_cleanup_directory_ struct directory directory;
	_cleanup_journal_ struct journal *journal = NULL;
	_cleanup_free_ char *text = NULL;
	const struct journal_restart *restart;

	(void)state;
	directory_make(&directory);
	journal = open_journal(&directory, BOOT);
	assert_int_equal(begin(journal, "a.service", 1763755200), 0);
	assert_int_equal(journal_store(journal), 0);
	/* Either file may be lost from now on. */
	text = directory_get(&directory, "/journal.json");
	assert_file(&directory, "/journal.json.1", text);
	journal_close(steal(journal));
	/* A boot starts it with the same file. */
	journal = open_journal(&directory, "another-boot");
	restart = journal_find_restart(journal, "a.service");
	assert_non_null(restart);
	assert_int_equal(restart->at_s, 1763755200);
	assert_int_equal(restart->answered, ANSWER_CRI);
	assert_int_equal(restart->config, UINT32_MAX);
	assert_true(restart->open);
	assert_null(journal_find_restart(journal, "b.service"));
	/* Its end keeps the time. */
	journal->dirty = false;
	journal_end_restart(journal, "b.service");
	assert_false(journal->dirty);
	journal_end_restart(journal, "a.service");
	assert_true(journal->dirty);
	assert_int_equal(journal_store(journal), 0);
	journal_end_restart(journal, "a.service");
	assert_false(journal->dirty);
	journal_close(steal(journal));
	journal = open_journal(&directory, BOOT);
	restart = journal_find_restart(journal, "a.service");
	assert_false(restart->open);
	assert_int_equal(restart->at_s, 1763755200);
}

/* An older version reads it, and a journal without restarts is what such a version wrote. */
static void the_schema_stays(void **state)
{
	_cleanup_directory_ struct directory directory;
	_cleanup_journal_ struct journal *journal = NULL;
	_cleanup_free_ char *without = NULL, *with = NULL;

	(void)state;
	directory_make(&directory);
	journal = open_journal(&directory, BOOT);
	note(journal, "vm.a", "1", "2");
	assert_int_equal(journal_print(journal, &without), 0);
	assert_null(strstr(without, "restarts"));
	assert_int_equal(begin(journal, "a.service", 1), 0);
	assert_int_equal(journal_print(journal, &with), 0);
	assert_non_null(strstr(with, "\"restarts\""));
	assert_non_null(strstr(with, "\"schema\":\t1,"));
}

static void there_is_room_for_so_many(void **state)
{
	_cleanup_directory_ struct directory directory;
	_cleanup_journal_ struct journal *journal = NULL;
	char unit[32];

	(void)state;
	directory_make(&directory);
	journal = open_journal(&directory, BOOT);
	assert_int_equal(begin(journal, "", 1), -EINVAL);
	for (unsigned i = 0; i < JOURNAL_RESTARTS_MAX; i++) {
		snprintf(unit, sizeof(unit), "%u.service", i);
		assert_int_equal(begin(journal, unit, 100 - i), 0);
	}
	journal->dirty = journal->added = false;
	assert_int_equal(begin(journal, "more.service", 1), -ENOSPC);
	assert_false(journal->dirty || journal->added);
	/* One that is known has its place. */
	assert_int_equal(begin(journal, "3.service", 200), 0);
	assert_int_equal(journal->n_restarts, JOURNAL_RESTARTS_MAX);
	assert_int_equal(journal_find_restart(journal, "3.service")->at_s, 200);
	journal_end_restart(journal, "1.service");
	journal_end_restart(journal, "5.service");
	assert_int_equal(begin(journal, "more.service", 300), 0);
	assert_null(journal_find_restart(journal, "5.service"));
	assert_non_null(journal_find_restart(journal, "1.service"));
	assert_true(journal_find_restart(journal, "more.service")->open);
}

static void what_was_not_stored_is_taken_back(void **state)
{
	_cleanup_directory_ struct directory directory;
	_cleanup_journal_ struct journal *journal = NULL;
	_cleanup_journal_ struct journal *copy = NULL;

	(void)state;
	directory_make(&directory);
	journal = open_journal(&directory, BOOT);
	assert_int_equal(begin(journal, "a.service", 1), 0);
	journal_end_restart(journal, "a.service");
	copy = journal_copy(journal);
	assert_int_equal(begin(journal, "a.service", 2), 0);
	assert_int_equal(begin(journal, "b.service", 2), 0);
	journal_take_back(journal, copy);
	assert_int_equal(journal->n_restarts, 1);
	assert_int_equal(journal->restarts[0].at_s, 1);
	assert_false(journal->restarts[0].open);
}

/* Parses a body with these restarts in it, under its right checksum: so many are understood. */
static size_t parse(const char *restarts)
{
	_cleanup_journal_ struct journal *journal = calloc(1, sizeof(*journal));
	_cleanup_free_ char *body = NULL, *text = NULL;
	char given[2048];
	cJSON *parsed;

	journal->dir = -1;
	snprintf(given, sizeof(given),
		"{\"records\":[],\"released\":[{\"tuner\":\"vm\",\"config\":1}],\"boot\":\"\",\"config\":0,\"restarts\":[%s]}",
		restarts);
	parsed = cJSON_Parse(given);
	assert_non_null(parsed);
	body = cJSON_PrintUnformatted(parsed);
	cJSON_Delete(parsed);
	assert_true(
		asprintf(&text, "{\"schema\":1,\"checksum\":\"crc32:%08lx\",\"body\":%s}",
			crc32(0, (const unsigned char *)body, (unsigned)strlen(body)), body) > 0);
	assert_int_equal(journal_parse(journal, text), 0);
	/* All else is there, whatever becomes of them. */
	assert_int_equal(journal->n_released, 1);
	return journal->n_restarts;
}

#define GOOD "\"unit\":\"a.service\",\"at\":1e12,\"open\":true,\"answered\":\"grpc\""
#define CRC  "\"config\":4294967295"
#define LONG "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static void what_is_not_understood_is_left_out(void **state)
{
	static const char *const bad[] = {
		"1",
		"{}",
		"{" GOOD "}",
		"{" GOOD ",\"config\":4294967296}",
		"{" GOOD ",\"config\":-1}",
		"{\"unit\":\"\",\"at\":1,\"open\":true,\"answered\":\"cri\"," CRC "}",
		"{\"unit\":\"" LONG "\",\"at\":1,\"open\":true,\"answered\":\"cri\"," CRC "}",
		"{\"unit\":\"a\",\"at\":-1,\"open\":true,\"answered\":\"cri\"," CRC "}",
		"{\"unit\":\"a\",\"at\":1e300,\"open\":true,\"answered\":\"cri\"," CRC "}",
		"{\"unit\":\"a\",\"at\":1,\"open\":1,\"answered\":\"cri\"," CRC "}",
	};

	(void)state;
	assert_int_equal(parse(""), 0);
	assert_int_equal(parse("{" GOOD "," CRC "}"), 1);
	assert_int_equal(parse("{" GOOD "," CRC "},{" GOOD "," CRC "}"), 1);
	assert_int_equal(
		parse("{\"unit\":\"a\",\"at\":1,\"open\":true,\"answered\":\"well\"," CRC "}"), 1);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (parse(bad[i]) != 0)
			fail_msg("%s passes", bad[i]);
}

/* One more than there is room for. */
static void too_many(void **state)
{
	char restarts[1536] = "";

	(void)state;
	for (int i = 0; i <= JOURNAL_RESTARTS_MAX; i++)
		snprintf(restarts + strlen(restarts), sizeof(restarts) - strlen(restarts),
			"%s{\"unit\":\"%d\",\"at\":1,\"open\":false,\"answered\":\"none\"," CRC "}",
			i > 0 ? "," : "", i);
	assert_int_equal(parse(restarts), JOURNAL_RESTARTS_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_stored_is_loaded),
		cmocka_unit_test(the_schema_stays),
		cmocka_unit_test(there_is_room_for_so_many),
		cmocka_unit_test(what_was_not_stored_is_taken_back),
		cmocka_unit_test(what_is_not_understood_is_left_out),
		cmocka_unit_test(too_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
