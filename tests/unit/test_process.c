/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "workload/process.h"

#define FIELDS " S 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 "

DIRECTORY_TEST(the_start_time_is_field_22)
{
	static const struct {
		const char *stat;
		unsigned ticks; /* 0: refused */
	} table[] = {{"1 (a) b)" FIELDS "300 23\n", 300}, {"1 (a)" FIELDS "42", 42}, {"", 0},
		{")", 0}, {"1 (a) S 4 5 6 7 8 9 10 11 12 13 14 15 16 17", 0},
		{"1 (a" FIELDS "22 23", 0}, {"1 (a)" FIELDS "x 23", 0}};
	uint64_t us = 7, tick_us = USEC_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK);

	assert_int_equal(process_start(directory->path, 9, &us), -ESRCH);
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		int r;

		us = 0;
		directory_put(directory, "/proc/9/stat", table[i].stat);
		r = process_start(directory->path, 9, &us);
		if (r != (table[i].ticks ? 0 : -EBADMSG) || us != table[i].ticks * tick_us)
			fail_msg("%s: %d", table[i].stat, r);
	}
}

TEST(a_time_since_boot_is_a_time_of_day)
{
	uint64_t before = realtime_us(), now = realtime_of_boottime(UINT64_MAX);

	assert_true(now >= before);
	assert_true(realtime_of_boottime(0) < now);
	assert_true(realtime_of_boottime(0) > 0);
}

DIRECTORY_TEST(a_pid_file_holds_a_pid)
{
	static const struct {
		const char *text;
		int r;
	} table[] = {{"77\n", 0}, {"77", 0}, {"1\n", -EINVAL}, {"", -EINVAL}, {"x", -EINVAL}};
	struct path file = directory_at(directory, "/pid");
	pid_t pid = 0;

	assert_int_equal(process_of_pid_file(file.text, &pid), -ENOENT);
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		directory_put(directory, "/pid", table[i].text);
		assert_int_equal(process_of_pid_file(file.text, &pid), table[i].r);
	}
	assert_int_equal(pid, 77);
}

DIRECTORY_TEST(options_are_parsed_like_by_dockerd_and_the_kubelet)
{
	static const struct {
		const char *line;            /* with '|' between the words */
		const char *value, *boolean; /* of "config-file" */
	} table[] = {
		{"dockerd", NULL, NULL},
		{"dockerd|--config-file|/a", "/a", "true"},
		{"dockerd|--config-file=/a|-D", "/a", "/a"},
		{"dockerd|-config-file=/a|--config-file=/b", "/b", "/b"},
		{"kubelet|--config_file=/a|--config-files=/b", "/a", "/a"},
		{"x|config-file=/a|--config-file", NULL, "true"},
		{"x|--|--config-file=/a", NULL, NULL},
		{"x|--config-file=", "", ""},
	};
	char value[64], boolean[64];

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		char line[128];
		size_t len = strlen(strcpy(line, table[i].line)) + 1;
		int r, b;

		for (size_t k = 0; k < len; k++)
			line[k] = line[k] == '|' ? '\0' : line[k];
		directory_put_bytes(directory, "/proc/9/cmdline", line, len);
		r = process_option(directory->path, 9, "config-file", false, value, sizeof(value));
		b = process_option(
			directory->path, 9, "config-file", true, boolean, sizeof(boolean));
		if (r != (table[i].value != NULL) || (r && !streq(value, table[i].value)) ||
			b != (table[i].boolean != NULL) || (b && !streq(boolean, table[i].boolean)))
			fail_msg("%s: %d %s, %d %s", table[i].line, r, value, b, boolean);
	}
	assert_int_equal(
		process_option(directory->path, 8, "x", false, value, sizeof(value)), -ESRCH);
}
