/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "report/report.h"

#include "fake_node.h"

#define PAGE_MAX 200000

static char *page_of(const struct node *node)
{
	char *text;
	size_t len;

	assert_int_equal(report_page(node, &text, &len), 0);
	assert_int_equal(strlen(text), len);
	assert_true(len < PAGE_MAX);
	assert_non_null(strstr(text, "</html>\n"));
	return text;
}

static void shows_the_node(void **state)
{
	/* In two parts, as \xaf000 would be one number. */
	static const char thousands[] = "peak 90\xe2\x80\xaf"
					"000";
	static const char *const parts[] = {
		"<!doctype html>",
		"<h1>node-1</h1>",
		">warning</span>",
		"width:81.2%",
		thousands,
		"at most 5 of",
		"kube-system/coredns-x",
		"net.ipv4.neigh.default.gc_thresh3",
		">in-sync</span>",
		">drifted</span>",
		"81 % full",
		"no /sys/kernel/mm: mount it",
		"http-equiv=\"refresh\" content=\"5\"",
		"role=\"meter\"",
	};
	struct fake_node fake;
	_cleanup_free_ char *text = NULL;

	(void)state;
	fake_node_make(&fake);
	text = page_of(&fake.node);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (!strstr(text, parts[i]))
			fail_msg("no '%s' in:\n%s", parts[i], text);
	/* Nothing from elsewhere: the icon's namespace is a name, not an address that is asked. */
	assert_null(strstr(text, "src="));
	assert_null(strstr(text, "@import"));
	assert_null(strstr(text, "<script"));
}

static void escapes_everything(void **state)
{
	static const char evil[] = "<script>\"'&\xff";
	static const char good[] = "&lt;script&gt;&quot;&#39;&amp;\xef\xbf\xbd";
	struct fake_node fake;
	_cleanup_free_ char *text = NULL;
	size_t found = 0;

	(void)state;
	fake_node_make(&fake);
	copy_text(fake.node.name, sizeof(fake.node.name), evil);
	fake_workload(&fake.limits[0].now.top[0], WORKLOAD_POD, evil, evil, evil, 1);
	copy_text(fake.settings[0].want.name, SETTING_NAME_MAX, evil);
	copy_text(fake.settings[0].want.wanted, SETTING_VALUE_MAX, evil);
	copy_text(fake.settings[0].want.actual, SETTING_VALUE_MAX, evil);
	copy_text(fake.settings[0].original, SETTING_VALUE_MAX, evil);
	fake.settings[0].reason = evil;
	copy_text(fake.node.conditions[0].now.message, CONDITION_MESSAGE_MAX, evil);
	copy_text(fake.tuners[1].why, TUNER_WHY_MAX, evil);
	text = page_of(&fake.node);
	assert_null(strstr(text, "<script>"));
	for (const char *p = text; (p = strstr(p, good)); p++)
		found++;
	assert_int_equal(found, 2 + 2 + 5 + 1 + 1);
}

static void stays_small(void **state)
{
	enum { SETTINGS = 1000 };
	struct fake_node fake;
	_cleanup_free_ struct setting *settings = calloc(SETTINGS, sizeof(*settings));
	_cleanup_free_ char *text = NULL;
	char quotes[SETTING_VALUE_MAX];

	(void)state;
	assert_non_null(settings);
	memset(quotes, '"', sizeof(quotes));
	quotes[sizeof(quotes) - 1] = '\0';
	for (int i = 0; i < SETTINGS; i++)
		fake_setting(&settings[i], quotes, quotes, quotes, SETTING_FAILED);
	fake_node_make(&fake);
	fake.node.settings = settings;
	fake.node.n_settings = SETTINGS;
	text = page_of(&fake.node);
	assert_non_null(strstr(text, " more: see /v1/status."));
}

static void stands_an_empty_node(void **state)
{
	struct node node = {0};

	(void)state;
	free(page_of(&node));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shows_the_node),
		cmocka_unit_test(escapes_everything),
		cmocka_unit_test(stays_small),
		cmocka_unit_test(stands_an_empty_node),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
