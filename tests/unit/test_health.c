/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/json.h"
#include "report/report.h"

#include "fake_node.h"

static void put_health(FILE *out, const struct node *node)
{
	assert_true(json_put(out, report_health(node), false));
}

static void put_ready(FILE *out, const struct node *node)
{
	fputs(report_ready(out, node) ? "yes" : "no", out);
}

static void expect_written(
	void (*put)(FILE *out, const struct node *node), const struct node *node, const char *part)
{
	_cleanup_free_ char *text = written_by(put, node);

	if (!strstr(text, part))
		fail_msg("no %s in %s", part, text);
}

TEST(the_verdict_is_the_worst_condition)
{
	struct fake_node fake;

	fake_node_make(&fake);
	expect_written(put_health, &fake.node, "{\"status\":\"warning\",\"checks\":[");
	expect_written(put_health, &fake.node,
		"{\"type\":\"FakePressure\",\"status\":\"warning\",\"reason\":"
		"\"neighbor-near-full\",\"message\":\"81 % full\"}");
	fake.node.conditions[FAKE_OVERFLOW].now.status = CONDITION_TRUE;
	expect_written(put_health, &fake.node, "{\"status\":\"critical\"");
	fake.node.conditions[FAKE_OVERFLOW].now.status = CONDITION_FALSE;
	fake.node.conditions[FAKE_PRESSURE].now.status = CONDITION_UNKNOWN;
	expect_written(put_health, &fake.node, "{\"status\":\"ok\"");
	expect_written(put_health, &fake.node, "\"type\":\"FakePressure\",\"status\":\"ok\"");
}

TEST(readiness_lists_every_tuner)
{
	struct fake_node fake;

	fake_node_make(&fake);
	expect_written(put_ready, &fake.node, "[+] neighbor: active\n");
	expect_written(put_ready, &fake.node,
		"[~] thp: degraded: no /sys/kernel/mm: mount it\nready\nyes");
	fake.node.applied = false;
	expect_written(put_ready, &fake.node, "[-] applied");
	expect_written(put_ready, &fake.node, "not ready\nno");
	fake.node.applied = true;
	fake.tuners[1].why[0] = '\0'; /* degraded, and does not say why */
	expect_written(put_ready, &fake.node, "[-] thp: degraded\nnot ready\nno");
	fake.tuners[1].state = TUNER_OFF;
	expect_written(put_ready, &fake.node, "[-] thp: off\nnot ready\nno");
	fake.tuners[1].mode = MODE_OFF;
	expect_written(put_ready, &fake.node, "[+] thp: off\nready\nyes");
}
