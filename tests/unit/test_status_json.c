/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/json.h"
#include "report/report.h"

#include "fake_node.h"

/* An item of the document as JSON; "missing" for none. */
static void expect_item(const cJSON *document, const char *path, const char *expected)
{
	const cJSON *item = json_at(document, path);
	_cleanup_free_ char *text = item ? cJSON_PrintUnformatted(item) : strdup("missing");

	if (!streq(text, expected))
		fail_msg("%s is %s, not %s", path, text, expected);
}

static const char *const items[][2] = {
	{"schema", "1"},
	{"node/name", "\"node-1\""},
	{"node/started", "\"2024-05-01T12:00:00Z\""},
	{"node/verdict", "\"critical\""},
	{"node/applied", "true"},
	{"dns", "null"},
	{"images", "[]"},
	{"limits/0/name", "\"neighbor/ipv4\""},
	{"limits/0/used", "81234"},
	{"limits/0/max", "100000"},
	{"limits/0/unit", "\"entries\""},
	{"limits/0/headroom", "0.18766000000000005"},
	{"limits/0/peak", "90000"},
	{"limits/0/hits", "7"},
	{"limits/0/hits_before", "7"},
	{"limits/0/severity", "\"warning\""},
	{"limits/1/severity", "\"ok\""},
	{"limits/0/bound", "\"exact\""},
	{"limits/1/bound", "\"upper\""},
	{"limits/0/full_in_seconds", "1876.6"},
	{"limits/1/full_in_seconds", "null"},
	{"limits/0/top/0",
		"{\"workload\":{\"kind\":\"pod\",\"namespace\":\"kube-system\",\"name\":"
		"\"coredns-x\",\"id\":\"uid\",\"text\":\"pod kube-system/coredns-x\"},\"used\":50000}"},
	{"limits/0/top/3/workload/name", "\"4026531840\""}, /* as in metrics: its id, without one */
	{"limits/0/top/3/workload/text", "\"netns 4026531840\""},
	{"settings/0",
		"{\"name\":\"net.ipv4.neigh.default.gc_thresh3\",\"tuner\":\"neighbor\",\"mode\":"
		"\"enforce\",\"wanted\":\"100000\",\"actual\":\"100000\",\"original\":\"1024\","
		"\"state\":\"in-sync\",\"reason\":\"below-configured\",\"why\":\"\"}"},
	{"settings/1/original", "\"\""},
	{"settings/2/mode", "\"observe\""},
	{"conditions/0", /* problems first */
		"{\"type\":\"FakeOverflow\",\"status\":\"True\",\"severity\":\"critical\",\"reason\":"
		"\"neighbor-near-full\",\"message\":\"81 % full\",\"since\":"
		"\"2024-05-01T12:00:00Z\"}"},
	{"conditions/1",
		"{\"type\":\"FakePressure\",\"status\":\"False\",\"severity\":\"warning\",\"reason\":"
		"\"\",\"message\":\"\",\"since\":null}"},
	{"conditions/3", "missing"},
	{"tuners/0/name", "\"neighbor\""},
	{"tuners/0/state", "\"active\""},
	{"tuners/1/state", "\"degraded\""},
	{"tuners/1/why", "\"no /sys/kernel/mm: mount it\""},
	/* A cgroup may be called anything. */
	{"limits/0/top/1/workload/name", "\"a\xef\xbf\xbd\\\"\\n\""},
};

TEST(the_status_document_has_every_member)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *document = NULL;
	struct fake_node fake;

	fake_node_make(&fake);
	copy_text(fake.limits[0].now.top[1].workload.name, 128, "a\xff\"\n");
	fake.conditions[FAKE_OVERFLOW] = fake.conditions[FAKE_PRESSURE];
	fake.conditions[FAKE_OVERFLOW].now.type = &fake_conditions[FAKE_OVERFLOW];
	fake.conditions[FAKE_PRESSURE] =
		(struct condition){.now.type = &fake_conditions[FAKE_PRESSURE]};
	document = report_status(&fake.node, false);
	for (size_t i = 0; i < ARRAY_SIZE(items); i++)
		expect_item(document, items[i][0], items[i][1]);
}
