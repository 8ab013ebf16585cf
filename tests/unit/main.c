/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/log.h"
#include "kernel/bpf.h"

#define TESTS_MAX 64

static struct {
	int line;
	struct CMUnitTest test;
} registered[TESTS_MAX];

static size_t n;

void test_register(int line, const struct CMUnitTest *test)
{
	size_t i = n++;

	if (i == TESTS_MAX) {
		fprintf(stderr, "more than %d tests in one program\n", TESTS_MAX);
		exit(1);
	}
	for (; i > 0 && registered[i - 1].line > line; i--)
		registered[i] = registered[i - 1];
	registered[i].line = line;
	registered[i].test = *test;
}

int main(void)
{
	struct CMUnitTest tests[TESTS_MAX];

	log_init(LOG_ERR);
	bpf_quiet_libbpf();
	for (size_t i = 0; i < n; i++)
		tests[i] = registered[i].test;
	return _cmocka_run_group_tests("tests", tests, n, NULL, NULL);
}
