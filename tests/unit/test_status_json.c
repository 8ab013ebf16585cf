/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <cjson/cJSON.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "report/report.h"

#include "fake_node.h"

#define _cleanup_json_ _cleanup_(cleanup_cJSON_Delete)

static cJSON *status_of(const struct node *node)
{
	_cleanup_free_ char *text = NULL;
	cJSON *json;
	size_t len;

	assert_int_equal(report_status(node, false, false, &text, &len), 0);
	assert_int_equal(strlen(text), len);
	assert_int_equal(text[len - 1], '\n');
	json = cJSON_Parse(text);
	assert_non_null(json);
	return json;
}

/* The item at "limits/0/name". */
static const cJSON *at(const cJSON *json, const char *path)
{
	char copy[128], *rest = copy, *key;

	assert_true(copy_text(copy, sizeof(copy), path));
	while ((key = strsep(&rest, "/"))) {
		json = cJSON_IsArray(json) ? cJSON_GetArrayItem(json, atoi(key))
					   : cJSON_GetObjectItemCaseSensitive(json, key);
		if (!json)
			fail_msg("no %s", path);
	}
	return json;
}

static void is_text(const cJSON *json, const char *path, const char *text)
{
	assert_true(cJSON_IsString(at(json, path)));
	assert_string_equal(at(json, path)->valuestring, text);
}

static void is_number(const cJSON *json, const char *path, double number)
{
	assert_true(cJSON_IsNumber(at(json, path)));
	assert_true(at(json, path)->valuedouble == number);
}

#define NODE_TEST(name) TEST_OF(fake_node, fake, fake_node_make, (void), name)

NODE_TEST(the_node_is_described)
{
	_cleanup_json_ cJSON *json = NULL;

	json = status_of(&fake->node);
	is_number(json, "schema", 1);
	is_text(json, "node/name", "node-1");
	is_text(json, "node/started", "2024-05-01T12:00:00Z");
	is_text(json, "node/verdict", "warning");
	assert_true(cJSON_IsTrue(at(json, "node/applied")));
	assert_true(cJSON_IsString(at(json, "node/version")));
	assert_true(cJSON_IsString(at(json, "node/commit")));
	assert_true(cJSON_IsNull(at(json, "dns")));
	assert_true(cJSON_IsArray(at(json, "images")));
}

NODE_TEST(limits_are_described)
{
	_cleanup_json_ cJSON *json = NULL;

	json = status_of(&fake->node);
	is_text(json, "limits/0/name", "neighbor/ipv4");
	is_number(json, "limits/0/used", FAKE_NODE_USED);
	is_number(json, "limits/0/max", 100000);
	is_text(json, "limits/0/unit", "entries");
	is_number(json, "limits/0/headroom", limit_headroom(&fake->limits[0]));
	is_number(json, "limits/0/peak", 90000);
	is_number(json, "limits/0/hits", 7);
	is_text(json, "limits/0/bound", "exact");
	is_text(json, "limits/1/bound", "upper");
	is_number(json, "limits/0/full_in_seconds", limit_full_in_seconds(&fake->limits[0]));
	assert_true(cJSON_IsNull(at(json, "limits/1/full_in_seconds")));
	is_text(json, "limits/0/top/0/workload/kind", "pod");
	is_text(json, "limits/0/top/0/workload/namespace", "kube-system");
	is_text(json, "limits/0/top/0/workload/name", "coredns-x");
	is_text(json, "limits/0/top/0/workload/id", "uid");
	is_number(json, "limits/0/top/0/used", 50000);
}

NODE_TEST(settings_conditions_and_tuners_are_described)
{
	_cleanup_json_ cJSON *json = NULL;

	json = status_of(&fake->node);
	is_text(json, "settings/0/name", "net.ipv4.neigh.default.gc_thresh3");
	is_text(json, "settings/0/tuner", "neighbor");
	is_text(json, "settings/0/mode", "enforce");
	is_text(json, "settings/0/wanted", "100000");
	is_text(json, "settings/0/actual", "100000");
	is_text(json, "settings/0/original", "1024");
	is_text(json, "settings/0/state", "in-sync");
	is_text(json, "settings/0/reason", "below-configured");
	is_text(json, "settings/1/original", "");
	is_text(json, "settings/2/mode", "observe");
	is_text(json, "conditions/0/type", "FakePressure");
	is_text(json, "conditions/0/status", "True");
	is_text(json, "conditions/0/reason", "neighbor-near-full");
	is_text(json, "conditions/0/message", "81 % full");
	is_text(json, "conditions/0/since", "2024-05-01T12:00:00Z");
	is_text(json, "conditions/1/status", "False");
	is_text(json, "conditions/1/reason", "");
	assert_true(cJSON_IsNull(at(json, "conditions/1/since")));
	assert_int_equal(cJSON_GetArraySize(at(json, "conditions")), FAKE_CONDITIONS);
	is_text(json, "tuners/0/name", "neighbor");
	is_text(json, "tuners/0/state", "active");
	is_text(json, "tuners/1/state", "degraded");
	is_text(json, "tuners/1/why", "no /sys/kernel/mm: mount it");
}

/* A cgroup may be called anything. */
NODE_TEST(invalid_bytes_are_replaced)
{
	_cleanup_json_ cJSON *json = NULL;

	copy_text(fake->limits[0].now.top[0].workload.name, 128, "a\xff\"\n");
	json = status_of(&fake->node);
	is_text(json, "limits/0/top/0/workload/name", "a\xef\xbf\xbd\"\n");
}
