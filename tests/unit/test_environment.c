/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/environment.h"
#include "base/util.h"

TEST(a_variable_has_its_last_value_as_systemd_reads_it)
{
	static const struct {
		const char *text, *value;
	} rows[] = {
		{"A=1\n", "1"},
		{"  A = 1 2 \t\r\n", "1 2"},
		{"A=1\nAB=2\nBA=3\n", "1"},
		{"#A=1\n;A=2\nB=3\n", NULL},
		{"A=1\nA=2", "2"},
		{"A=\"x y\" # z\n", "x y # z"},
		{"A='x \"y\" \\z'\n", "x \"y\" \\z"},
		{"A=\"x \\\"y\\\" \\z\"\n", "x \"y\" \\z"},
		{"A=a \\\n  b\nB=1\n", "a   b"},
		{"A=\"a\nB=2\nb\"\n", "a\nB=2\nb"},
		{"A=a'b'\"c\"\n", "abc"},
		{"A\nB=A=1\n", NULL},
		{"A=\n", ""},
		{"A='not closed\n", "not closed\n"},
		{"A=12345678901234567890123456789012\n", NULL},
		{"A=12345678901234567890123456789012\nA=3\n", "3"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char value[32] = "";

		assert_int_equal(environment_get(rows[i].text, "A", value, sizeof(value)),
			rows[i].value != NULL);
		if (rows[i].value)
			assert_string_equal(value, rows[i].value);
	}
}
