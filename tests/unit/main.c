/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/log.h"
#include "kernel/bpf.h"

#define LINES_MAX 1000

static struct CMUnitTest by_line[LINES_MAX];

void test_register(int line, const struct CMUnitTest *test)
{
	if (line >= LINES_MAX || by_line[line].name)
		abort();
	by_line[line] = *test;
}

int main(void)
{
	struct CMUnitTest tests[LINES_MAX];
	size_t n = 0;

	log_init(LOG_ERR);
	bpf_quiet_libbpf();
	for (size_t i = 0; i < LINES_MAX; i++)
		if (by_line[i].name)
			tests[n++] = by_line[i];
	return _cmocka_run_group_tests("tests", tests, n, NULL, NULL);
}
