/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * TEST(a_value_is_kept) { ... } is a test of its program: main.c runs them all, in the order of the
 * file. The C library that most of them need is included here.
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

/* A test of a fixture of its own, to which the body has a pointer; (void) as make or as clear:
 * none. */
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

/* The other end may go at any time: that is what is tested. */
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
