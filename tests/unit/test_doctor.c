/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "cli/cli.h"
#include "cli/doctor.h"

/* The finished document of a status document with these members. */
static cJSON *doctor(const char *members, const char *ignored)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_(cleanup_cJSON_Delete) cJSON *status = NULL, *ignore = cJSON_Parse(ignored);
	cJSON *document;

	assert_true(asprintf(&text, "{\"node\": {\"name\": \"n\", \"applied\": true}, %s}",
			    members) > 0);
	status = cJSON_Parse(text);
	assert_non_null(status);
	document = doctor_document(status, ignore);
	doctor_finish(document);
	return document;
}

static const cJSON *check(const cJSON *document, const char *name)
{
	const cJSON *item;

	cJSON_ArrayForEach (item, json_at(document, "checks"))
		if (streq(json_text_at(item, "name"), name))
			return item;
	return NULL;
}

#define ASSERT_CHECK(document, name, member, text) \
	assert_string_equal(json_text_at(check(document, name), member), text)

#define LIMIT(name, condition)                                                                \
	"{\"name\": \"" name                                                                  \
	"\", \"used\": 128, \"max\": 128, \"unit\": \"instances\", \"condition\": " condition \
	", \"top\": [{\"workload\": {\"text\": \"pod a/b\"}, \"detail\": \"uid 0\", \"used\": 100}]}"

#define CONDITION(type, status, severity, reason, message)                               \
	"{\"type\": \"" type "\", \"status\": \"" status "\", \"severity\": \"" severity \
	"\", \"reason\": \"" reason "\", \"message\": \"" message                        \
	"\", \"since\": \"2026-11-26T12:00:00Z\"}"

TEST(a_well_node_is_one_line)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *document =
		doctor("\"limits\": [" LIMIT("conntrack", "null") "], \"conditions\": [" CONDITION(
			       "SettingFailed", "False", "warning", "none-failed", "") "]",
			"[]");
	char text[256];

	doctor_verdict(document, text, sizeof(text));
	assert_string_equal(text, "ok: 2 checks are fine");
	assert_int_equal(doctor_exit(document), EXIT_OK);
}

TEST(a_limit_says_its_user_effect_and_cure)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *document = doctor(
		"\"limits\": [" LIMIT("inotify/instances",
			"\"LimitReached\"") "], \"conditions\": [" CONDITION("LimitReached", "True",
			"critical", "inotify/instances",
			"inotify/instances: 128 of 128 instances, reached for 3 s in the last five "
			"minutes") "]",
		"[]");

	ASSERT_CHECK(document, "inotify/instances", "status", "warning"); /* as its row says */
	ASSERT_CHECK(document, "inotify/instances", "message",
		"128 of 128 instances, reached for 3 s in the last five minutes");

	assert_string_equal(
		cJSON_GetArrayItem(json_at(check(document, "inotify/instances"), "who"), 0)
			->valuestring,
		"pod a/b, uid 0 with 100 instances");
	ASSERT_CHECK(document, "inotify/instances", "since", "2026-11-26T12:00:00Z");
	ASSERT_CHECK(document, "inotify/instances", "keep",
		"limits: {raise: [inotify]} in /etc/headroom/headroom.yaml");
	assert_non_null(
		strstr(json_text_at(check(document, "inotify/instances"), "now"), "sysctl -w"));
	assert_non_null(
		json_text_at(check(document, "inotify/instances"), "breaks")[0] ? "" : NULL);
	assert_null(check(document, "LimitReached")); /* the limit stands for it */
	assert_int_equal(doctor_exit(document), EXIT_ATTENTION);
}

TEST(names_that_no_table_has_need_no_edit)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *document =
		doctor("\"limits\": [" LIMIT("new/limit",
			       "\"NewPressure\"") "], \"conditions\": [" CONDITION("NewPressure",
			       "True", "critical", "full", "all of it") "," CONDITION("NewFault",
			       "True", "warning", "broken", "it broke") "]",
			"[]");

	ASSERT_CHECK(document, "new/limit", "status", "critical");
	ASSERT_CHECK(document, "new/limit", "message", "128 of 128 instances, 100 %");
	ASSERT_CHECK(document, "NewFault", "message", "broken: it broke");
	assert_null(check(document, "NewPressure"));
	assert_string_equal(json_text_at(document, "verdict"), "critical");
}

TEST(bytes_have_one_unit)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *document = doctor(
		"\"limits\": [{\"name\": \"a\", \"used\": 95000000000, \"max\": 100000000000, "
		"\"unit\": \"bytes\", \"full_in_seconds\": 90, \"condition\": \"LimitPressure\", "
		"\"top\": [{\"workload\": {\"text\": \"pod a/b\"}, \"used\": 5e9}]}], \"conditions\": "
		"[" CONDITION("LimitPressure", "True", "warning", "b", "b: full; a") "]",
		"[]");
	const cJSON *who = json_at(check(document, "a"), "who");

	ASSERT_CHECK(document, "a", "message", "95.0 GB of 100.0 GB, 95 %, full in 1 min");
	assert_string_equal(cJSON_GetArrayItem(who, 0)->valuestring, "pod a/b with 5.0 GB");
}

TEST(a_setting_that_failed_stands_for_the_condition)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *document = doctor(
		"\"settings\": [{\"name\": \"vm.max_map_count\", \"state\": \"failed\", \"actual\": \"1\", "
		"\"wanted\": \"2\", \"reason\": \"write-refused\", \"why\": \"Operation not permitted\"}, "
		"{\"name\": \"a.b\", \"state\": \"in-sync\"}], \"conditions\": [" CONDITION(
			"SettingFailed", "True", "warning", "write-refused",
			"vm.max_map_count: no") "]",
		"[]");
	char text[256];

	ASSERT_CHECK(document, "vm.max_map_count", "message",
		"1, wanted 2: failed (write-refused): Operation not permitted");
	doctor_verdict(document, text, sizeof(text));
	assert_string_equal(text, "warning: 1 warning, 1 check is fine");
}

TEST(one_check_is_ignored_alone)
{
#define TWO                                                                                    \
	"\"limits\": [" LIMIT("ptys", "\"LimitPressure\"") ", " LIMIT("inotify/instances",     \
		"\"LimitPressure\"") "], \"conditions\": [" CONDITION("LimitPressure", "True", \
		"warning", "ptys", "ptys: full; inotify/instances") "]"
	static const struct {
		const char *ignored, *ptys, *inotify, *verdict;
	} cases[] = {{"[\"ptys\"]", "ignored", "warning", "warning"},
		{"[\"inotify/*\", \"ptys\"]", "ignored", "ignored", "ok"},
		{"[\"LimitPressure\"]", "ignored", "ignored", "ok"},
		{"[\"conntrack\"]", "warning", "warning", "warning"}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(cleanup_cJSON_Delete) cJSON *document = doctor(TWO, cases[i].ignored);

		ASSERT_CHECK(document, "ptys", "status", cases[i].ptys);
		ASSERT_CHECK(document, "inotify/instances", "status", cases[i].inotify);
		assert_string_equal(json_text_at(document, "verdict"), cases[i].verdict);
	}
}

TEST(what_is_unknown_is_not_fine_and_what_is_absent_does_not_count)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *document =
		doctor("\"conditions\": [" CONDITION("LimitReached", "Unknown", "critical",
			       "limits-unread", "") "," CONDITION("KubeletSerialPulls", "Unknown",
			       "advice", "no-kubelet", "") "," CONDITION("StorageDriverSlow",
			       "True", "advice", "slow", "vfs") "]",
			"[]");
	char text[256];

	doctor_verdict(document, text, sizeof(text));
	assert_string_equal(text,
		"unknown: 1 could not be checked, 0 checks are fine, 1 has advice (headroom status)");
	assert_int_equal(doctor_exit(document), EXIT_FAILED);
}
