/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "kernel/host.h"

TEST(names_become_paths)
{
	static const char *const cases[][2] = {
		{"vm.max_map_count", "/proc/sys/vm/max_map_count"},
		{"net.ipv4.conf.eth0/100.mtu", "/proc/sys/net/ipv4/conf/eth0.100/mtu"},
		{"kernel.pid_max", "/proc/sys/kernel/pid_max"},
		{"", "/proc/sys/"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char path[SETTING_PATH_MAX];

		assert_true(sysctl_path(cases[i][0], path));
		assert_string_equal(path, cases[i][1]);
	}
}

TEST(names_that_are_too_long_are_refused)
{
	char name[SETTING_PATH_MAX], path[SETTING_PATH_MAX];
	size_t fits = SETTING_PATH_MAX - 1 - strlen("/proc/sys/");

	memset(name, 'x', sizeof(name));
	name[fits] = '\0';
	assert_true(sysctl_path(name, path));
	assert_int_equal(strlen(path), SETTING_PATH_MAX - 1);
	name[fits] = 'x';
	name[fits + 1] = '\0';
	assert_false(sysctl_path(name, path));
}
