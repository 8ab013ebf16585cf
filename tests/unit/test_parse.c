/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "base/parse.h"

#include <errno.h>

TEST(only_plain_decimal_counts_are_accepted)
{
	static const struct {
		const char *text;
		int result;
		uint64_t value;
	} cases[] = {
		{"0", 0, 0}, {"7", 0, 7}, {"80000", 0, 80000},
		{"18446744073709551615", 0, UINT64_MAX}, {"18446744073709551616", -ERANGE, 0},
		{"99999999999999999999999", -ERANGE, 0}, {"", -EINVAL, 0}, {"00", -EINVAL, 0},
		{"007", -EINVAL, 0}, {"-1", -EINVAL, 0}, {"+1", -EINVAL, 0}, {" 1", -EINVAL, 0},
		{"1 ", -EINVAL, 0}, {"1\n", -EINVAL, 0}, {"80k", -EINVAL, 0}, {"0x10", -EINVAL, 0},
		{"1_000", -EINVAL, 0}, {"1e3", -EINVAL, 0}, {"1.5", -EINVAL, 0},
		{"\xd9\xa1", -EINVAL, 0}, /* a digit, and not ours */
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t value = 12345;

		if (parse_count(cases[i].text, &value) != cases[i].result)
			fail_msg("'%s'", cases[i].text);
		assert_true(value == (cases[i].result == 0 ? cases[i].value : 12345));
	}
}
