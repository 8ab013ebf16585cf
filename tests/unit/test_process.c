/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "workload/process.h"

#define FIELDS " S 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 "

TEST(the_start_is_field_22)
{
	static const struct {
		const char *stat;
		unsigned ticks; /* 0: refused */
	} table[] = {{"1 (a) b)" FIELDS "300 23\n", 300}, {"1 (a)" FIELDS "42", 42}, {"", 0},
		{")", 0}, {"1 (a) S 4 5 6 7 8 9 10 11 12 13 14 15 16 17", 0},
		{"1 (a" FIELDS "22 23", 0}, {"1 (a)" FIELDS "-1 23", 0},
		{"1 (a)" FIELDS "5x 23", 0}, {"1 (a)" FIELDS "9999999999999999999 23", 0},
		{"1 (a)" FIELDS "99999999999999999999 23", 0}};
	_cleanup_directory_ struct directory directory = {0};
	uint64_t us = 7, tick_us = USEC_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK);

	directory_make(&directory);
	assert_int_equal(process_start(directory.path, 9, &us), -ESRCH);
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		int r;

		us = 0;
		directory_put(&directory, "/proc/9/stat", table[i].stat);
		r = process_start(directory.path, 9, &us);
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

static void put(const struct directory *directory, int pid, const char *name, const char *text)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	directory_put(directory, path, text);
}

static bool is_kubelet_of_host(const char *root, pid_t pid, void *userdata)
{
	return process_is_named(root, pid, userdata) && process_is_of_host(root, pid);
}

TEST(processes_are_found_by_name_owner_and_unit)
{
	_cleanup_directory_ struct directory directory = {0};
	const char *root;
	char name[] = "kubelet";

	directory_make(&directory);
	root = directory.path;
	put(&directory, 5, "comm", "kubelet\n");
	put(&directory, 5, "status", "Name:\tx\nUid:\t0\t0\t0\t0\nNSpid:\t5\t1\n");
	put(&directory, 6, "comm", "kubelet\n");
	put(&directory, 6, "status", "Name:\tx\nUid:\t1000\t0\t0\t0\nNSpid:\t6\n");
	assert_int_equal(process_find(root, is_kubelet_of_host, name), 0);
	put(&directory, 7, "comm", "kubelet\n");
	put(&directory, 7, "status", "Name:\tx\nUid:\t0\t0\t0\t0\nNSpid:\t7\n");
	assert_int_equal(process_find(root, is_kubelet_of_host, name), 7);
	assert_int_equal(process_of_unit(root, "kubelet.service", is_kubelet_of_host, name), 0);
	directory_put(&directory,
		"/sys/fs/cgroup/systemd/system.slice/kubelet.service/cgroup.procs", "5\n7\n");
	assert_int_equal(process_of_unit(root, "kubelet.service", is_kubelet_of_host, name), 7);
}

TEST(a_pid_file_holds_a_pid)
{
	static const struct {
		const char *text;
		int r;
	} table[] = {{"77\n", 0}, {"77", 0}, {"1\n", -EINVAL}, {"", -EINVAL}, {"x", -EINVAL}};
	_cleanup_directory_ struct directory directory = {0};
	char path[PATH_MAX];
	pid_t pid = 0;

	directory_make(&directory);
	directory_path(&directory, "/pid", path);
	assert_int_equal(process_of_pid_file(path, &pid), -ENOENT);
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		directory_put(&directory, "/pid", table[i].text);
		assert_int_equal(process_of_pid_file(path, &pid), table[i].r);
	}
	assert_int_equal(pid, 77);
}

TEST(options_are_read_as_their_programs_read_them)
{
#define LINE(text)                 \
	{                          \
		text, sizeof(text) \
	}
	static const struct {
		struct {
			char text[64];
			size_t len;
		} line;
		const char *value, *boolean; /* of "config-file" */
	} table[] = {
		{LINE("dockerd"), NULL, NULL},
		{LINE("dockerd\0--config-file\0/a"), "/a", "true"},
		{LINE("dockerd\0--config-file=/a\0-D"), "/a", "/a"},
		{LINE("dockerd\0-config-file=/a\0--config-file=/b"), "/b", "/b"},
		{LINE("kubelet\0--config_file=/a\0--config-files=/b"), "/a", "/a"},
		{LINE("x\0config-file=/a\0--config-file"), NULL, "true"},
		{LINE("x\0--\0--config-file=/a"), NULL, NULL},
		{LINE("x\0--config-file="), "", ""},
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct command command = {(char *)table[i].line.text, table[i].line.len};
		const char *value = command_option(&command, "config-file");
		const char *boolean = command_switch(&command, "config-file");

		if (!value != !table[i].value || (value && !streq(value, table[i].value)) ||
			!boolean != !table[i].boolean ||
			(boolean && !streq(boolean, table[i].boolean)))
			fail_msg(
				"row %zu: %s, %s", i, value ? value : "-", boolean ? boolean : "-");
	}
}
