/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "cli/cli.h"
#include "cli/doctor.h"

/* The finished document of a status document with these members. */
static cJSON *doctor(const char *members, struct doctor *made)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_(cleanup_cJSON_Delete) cJSON *status = NULL;

	assert_true(asprintf(&text, "{\"node\": {\"name\": \"n\", \"applied\": true}, %s}",
			    members) > 0);
	status = cJSON_Parse(text);
	assert_non_null(status);
	doctor_begin(made, status);
	return doctor_finish(made);
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

static void assert_verdict(const cJSON *document, const char *expected)
{
	char text[256];

	doctor_verdict(document, text, sizeof(text));
	assert_string_equal(text, expected);
}

#define LIMIT(name) "{\"name\": \"" name "\", \"used\": 128, \"max\": 128, \"unit\": \"instances\"}"

#define CONDITION(type, status, severity, reason, message)                               \
	"{\"type\": \"" type "\", \"status\": \"" status "\", \"severity\": \"" severity \
	"\", \"reason\": \"" reason "\", \"message\": \"" message                        \
	"\", \"since\": \"2026-11-26T12:00:00Z\"}"

#define FINDING(slug, condition, severity, more)                                    \
	"{\"slug\": \"" slug "\", \"condition\": \"" condition "\", \"severity\": " \
	"\"" severity "\", \"message\": \"it broke\"" more "}"

TEST(a_well_node_is_one_line)
{
	struct doctor made;
	_cleanup_(cleanup_cJSON_Delete) cJSON *document =
		doctor("\"limits\": [" LIMIT("conntrack") "], \"conditions\": [" CONDITION(
			       "SettingFailed", "False", "warning", "none-failed", "") "]",
			&made);

	assert_verdict(document, "ok: 2 checks are fine");
	assert_int_equal(doctor_exit(&made), EXIT_OK);
}

TEST(a_finding_is_a_check_with_all_that_the_status_has_of_it)
{
	struct doctor made;
	_cleanup_(cleanup_cJSON_Delete) cJSON *document = doctor(
		"\"limits\": [" LIMIT("ptys") "," LIMIT(
			"keys") "], \"settings\": [{\"name\": "
				"\"vm.a\"}, {\"name\": \"vm.b\", \"actual\": \"1\", \"wanted\": \"1\", \"state\": "
				"\"in-sync\", \"reason\": \"configured\"}], \"findings\": [" FINDING(
					"ptys", "LimitReached", "warning",
					", \"now\": \"sysctl -w kernel.pty.max=9\", \"instance\": "
					"{\"kind\": \"node\"}") "," FINDING("vm.a", "SettingFailed",
					"warning", "") "," FINDING("full", "ImageStoreFull",
					"critical", "") "]",
		&made);

	ASSERT_CHECK(document, "ptys", "status", "warning");
	ASSERT_CHECK(document, "ptys", "kind", "limit");
	ASSERT_CHECK(document, "ptys", "message", "it broke");
	ASSERT_CHECK(document, "ptys", "now", "sysctl -w kernel.pty.max=9");
	ASSERT_CHECK(document, "ptys", "instance/kind", "node");
	ASSERT_CHECK(document, "vm.a", "kind", "setting");
	ASSERT_CHECK(document, "full", "kind", "condition");
	/* A limit without a problem has its use. */
	ASSERT_CHECK(document, "keys", "message", "128 of 128 instances, 100 %");
	ASSERT_CHECK(document, "vm.b", "message", "1, wanted 1: in-sync (configured)");
	assert_verdict(document, "critical: 1 critical, 2 warnings, 2 checks are fine");
	assert_int_equal(doctor_exit(&made), EXIT_ATTENTION);
	/* The worst is the first. */
	assert_string_equal(json_text_at(document, "checks/0/name"), "full");
}

TEST(findings_stand_for_their_condition)
{
	struct doctor made;
	_cleanup_(cleanup_cJSON_Delete) cJSON *document = doctor(
		"\"findings\": [" FINDING("a", "FaultA", "warning", "") "," FINDING("b", "FaultB",
			"warning", ", \"ignored\": true") "], \"conditions\": [" CONDITION("FaultA",
			"True", "warning", "a", "a: it broke") "," CONDITION("FaultB", "False",
			"warning", "ignored", "") "]",
		&made);

	assert_null(check(document, "FaultA"));
	assert_null(check(document, "FaultB"));
	ASSERT_CHECK(document, "b", "status", "ignored");
	assert_verdict(document, "warning: 1 warning, 1 ignored, 0 checks are fine");
}

/* After an upgrade, the command meets an agent that is older. */
TEST(a_condition_is_a_problem_although_the_agent_sends_no_findings)
{
	struct doctor made;
	_cleanup_(cleanup_cJSON_Delete) cJSON *document =
		doctor("\"conditions\": [" CONDITION(
			       "NewFault", "True", "warning", "broken", "it broke") "]",
			&made);

	ASSERT_CHECK(document, "NewFault", "message", "broken: it broke");
	assert_verdict(document, "warning: 1 warning, 0 checks are fine");
}

TEST(what_is_unknown_is_not_fine_and_what_is_absent_does_not_count)
{
	struct doctor made;
	_cleanup_(cleanup_cJSON_Delete) cJSON *document =
		doctor("\"conditions\": [" CONDITION("LimitReached", "Unknown", "critical",
			       "limits-unread", "") "," CONDITION("KubeletSerialPulls", "Unknown",
			       "advice", "no-kubelet", "") "], \"findings\": [" FINDING("slow",
			       "StorageDriverSlow", "advice", "") "]",
			&made);

	assert_verdict(document,
		"unknown: 1 could not be checked, 0 checks are fine, 1 has advice (headroom doctor --json)");
	assert_int_equal(doctor_exit(&made), EXIT_FAILED);
}

TEST(released_tuners_are_named)
{
	struct doctor made;
	_cleanup_(cleanup_cJSON_Delete) cJSON *document = doctor(
		"\"tuners\": [{\"name\": \"thp\", \"mode\": \"released\"}, {\"name\": \"dns\", "
		"\"mode\": \"enforce\"}, {\"name\": \"sysctl\", \"mode\": \"released\"}]",
		&made);

	assert_verdict(document, "ok: 0 checks are fine; released: thp, sysctl (headroom apply)");
	assert_int_equal(doctor_exit(&made), EXIT_OK);
}
