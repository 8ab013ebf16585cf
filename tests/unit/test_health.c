/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/cleanup.h"
#include "report/report.h"

#include "fake_node.h"

static void expect_health(const struct node *node, const char *part)
{
	_cleanup_free_ char *text = NULL;
	size_t len;

	assert_int_equal(report_health(node, &text, &len), 0);
	assert_int_equal(strlen(text), len);
	if (!strstr(text, part))
		fail_msg("no %s in %s", part, text);
}

TEST(the_verdict_is_the_worst_condition)
{
	struct fake_node fake;

	fake_node_make(&fake);
	expect_health(&fake.node, "{\"status\":\"warning\",\"checks\":[");
	expect_health(&fake.node, "{\"type\":\"FakePressure\",\"status\":\"warning\",\"reason\":"
				  "\"neighbor-near-full\",\"message\":\"81 % full\"}");
	fake.node.conditions[FAKE_OVERFLOW].now.status = CONDITION_TRUE;
	expect_health(&fake.node, "{\"status\":\"critical\"");
	expect_health(&fake.node, "\"type\":\"FakeOverflow\",\"status\":\"critical\"");
	fake.node.conditions[FAKE_OVERFLOW].now.status = CONDITION_FALSE;
	fake.node.conditions[FAKE_PRESSURE].now.status = CONDITION_UNKNOWN;
	expect_health(&fake.node, "{\"status\":\"ok\"");
	expect_health(&fake.node, "\"type\":\"FakePressure\",\"status\":\"ok\"");
}

static void expect_ready(const struct node *node, bool expected, const char *part)
{
	_cleanup_free_ char *text = NULL;
	bool ready = !expected;
	size_t len;

	assert_int_equal(report_ready(node, &ready, &text, &len), 0);
	assert_int_equal(strlen(text), len);
	assert_int_equal(ready, expected);
	if (!strstr(text, part))
		fail_msg("no %s in %s", part, text);
}

TEST(readiness_lists_every_tuner)
{
	struct fake_node fake;

	fake_node_make(&fake);
	expect_ready(&fake.node, true, "[+] neighbor: active\n");
	expect_ready(&fake.node, true, "[~] thp: degraded: no /sys/kernel/mm: mount it\n");
	fake.node.applied = false;
	expect_ready(&fake.node, false, "[-] applied");
	fake.node.applied = true;
	fake.tuners[1].why[0] = '\0'; /* degraded, and does not say why */
	expect_ready(&fake.node, false, "[-] thp: degraded\n");
	fake.tuners[1].state = TUNER_OFF;
	expect_ready(&fake.node, false, "[-] thp: off\n");
	fake.tuners[1].mode = MODE_OFF;
	expect_ready(&fake.node, true, "[+] thp: off\n");
}
