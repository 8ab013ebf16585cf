/* SPDX-License-Identifier: Apache-2.0 */
#include "http_bench.h"

static void negotiates(void **state)
{
	static const struct {
		const char *accept;
		bool openmetrics;
	} cases[] = {
		{NULL, false},
		{"", false},
		{"*/*", false},
		{"text/plain", false},
		{"text/html,application/xhtml+xml,*/*;q=0.8", false},
		{"application/openmetrics-text", true},
		{"Application/OpenMetrics-Text; version=1.0.0; charset=utf-8", true},
		{"application/openmetrics-text;version=1.0.0,application/openmetrics-text;version="
		 "0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
			true},
		{"application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;"
		 "version=0.0.4;q=0.3,*/*;q=0.2",
			true},
		{"application/openmetrics-text;version=0.0.1", false},
		{"application/openmetrics-text;q=0", false},
		{"application/openmetrics-text;q=0.3,text/plain;q=0.5", false},
		{"application/openmetrics-text;q=0.3,text/*;q=0.5,text/plain;q=0.1", true},
		{";,;q=,,", false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (http_accepts_openmetrics(cases[i].accept) != cases[i].openmetrics)
			fail_msg("%s", cases[i].accept);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(negotiates),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
