/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_TEST_H
#define TESTS_UNIT_TEST_H

/*
 * TEST(a_value_is_kept) { ... } is a test of its program: main.c runs them all, in the order of the
 * file. TEST_FIXTURE has a function before and one after it, either of which may be NULL.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

void test_register(int line, const struct CMUnitTest *test);

#define TEST_FIXTURE(name, setup, teardown)                                                 \
	static void name(void **state);                                                     \
	static void __attribute__((constructor)) register_##name(void)                      \
	{                                                                                   \
		static const struct CMUnitTest test = {#name, name, setup, teardown, NULL}; \
                                                                                            \
		test_register(__LINE__, &test);                                             \
	}                                                                                   \
	static void name(void **state __attribute__((unused)))

#define TEST(name) TEST_FIXTURE(name, NULL, NULL)

#endif
