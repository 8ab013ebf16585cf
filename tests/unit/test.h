/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * TEST(a_value_is_kept) { ... } defines a test. main.c runs all tests in the order of the file. The
 * headers that most tests need are included here.
 */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

void test_register(int line, const struct CMUnitTest *test);

#define TEST(name)                                                                     \
	static void name(void **state);                                                \
	static void __attribute__((constructor)) register_##name(void)                 \
	{                                                                              \
		static const struct CMUnitTest test = {#name, name, NULL, NULL, NULL}; \
                                                                                       \
		test_register(__LINE__, &test);                                        \
	}                                                                              \
	static void name(void **state __attribute__((unused)))

/* A test with a fixture, to which the body has a pointer. make or clear may be (void): none. */
#define TEST_OF(type, variable, make, clear, name)    \
	static void name##_of(struct type *variable); \
	TEST(name)                                    \
	{                                             \
		struct type made = {0};               \
                                                      \
		make(&made);                          \
		name##_of(&made);                     \
		clear(&made);                         \
	}                                             \
	static void name##_of(struct type *variable __attribute__((unused)))

/* Tests close the other end at any time, so errors end it silently. */
static inline void send_text(int fd, const char *text)
{
	size_t len = strlen(text);

	while (len > 0) {
		ssize_t n = send(fd, text, len, MSG_NOSIGNAL);

		if (n <= 0)
			return;
		text += n;
		len -= (size_t)n;
	}
}
