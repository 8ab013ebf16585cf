/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#define LONG_VALUE                                                               \
	"1234567890123456789012345678901234567890123456789012345678901234567890" \
	"123456789012345678901234567890123456789012345678901234567" /* SETTING_VALUE_MAX - 1 */

static const struct {
	const char *path, *text;
	int result;
	const char *value;
} cases[] = {
	{"/sys/a", "always [madvise] never\n", 0, "madvise"},
	{"/sys/a", "always defer+madvise [never]", 0, "never"}, {"/sys/a", "1\n", 0, "1"},
	{"/sys/a", "odd [bracket\n", 0, "odd [bracket"},
	{"/sys/a", "odd] [bracket]\n", 0, "bracket"}, {"/sys/a", "[]\n", 0, ""},
	/* Brackets mark a choice only in sysfs: a sysctl may have any text. */
	{"/proc/sys/a", "core [%p]\n", 0, "core [%p]"},
	{"/proc/sys/a", "4096\t87380\t6291456\n", 0, "4096 87380 6291456"},
	{"/proc/sys/a", "  1 \n\n 2\t\n", 0, "1 2"}, {"/proc/sys/a", "\n", 0, ""},
	{"/proc/sys/a", "", 0, ""}, {"/proc/sys/a", "-1\n", 0, "-1"},
	{"/proc/sys/a", LONG_VALUE, 0, LONG_VALUE},
	{"/proc/sys/a", LONG_VALUE "x", -E2BIG, "untouched"},
	/* Other kinds of files. */
	{"/proc/sys/none", NULL, -ENOENT, "untouched"}, {"/proc/sys", NULL, -EISDIR, "untouched"},
	{"/" LONG_VALUE LONG_VALUE LONG_VALUE, NULL, -ENAMETOOLONG, "untouched"},
	{"/fifo", NULL, -EINVAL, "untouched"}, /* it does not wait for a writer */
};

DIRECTORY_TEST(values_are_normalised)
{
	assert_int_equal(mkfifo(directory_at(directory, "/fifo").text, 0600), 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char value[SETTING_VALUE_MAX] = "untouched";

		if (cases[i].text)
			directory_put(directory, cases[i].path, cases[i].text);
		assert_int_equal(
			host_read_value(&directory->host, cases[i].path, value), cases[i].result);
		assert_string_equal(value, cases[i].value);
	}
}

TEST(roots_lose_their_last_slash)
{
	static const char *const roots[][2] = {
		{"", "/proc"}, {"/", "/proc"}, {"/host", "/host/proc"}, {"/host//", "/host/proc"}};
	char full[PATH_MAX], root[300];
	struct host host;

	for (size_t i = 0; i < ARRAY_SIZE(roots); i++) {
		assert_true(host_init(&host, roots[i][0]));
		assert_string_equal(host_path(&host, "/proc", full), roots[i][1]);
	}
	memset(root, 'x', sizeof(root));
	root[sizeof(host.root)] = '\0';
	assert_false(host_init(&host, root));
	root[sizeof(host.root) - 1] = '\0';
	assert_true(host_init(&host, root));
}

TEST(names_of_sysctls_become_paths)
{
	static const char *const paths[][2] = {
		{"vm.max_map_count", "/proc/sys/vm/max_map_count"},
		{"net.ipv4.conf.eth0/100.mtu", "/proc/sys/net/ipv4/conf/eth0.100/mtu"},
		{"", "/proc/sys/"},
	};
	char name[SETTING_PATH_MAX - sizeof("/proc/sys/") + 2], path[SETTING_PATH_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		assert_true(sysctl_path(paths[i][0], path));
		assert_string_equal(path, paths[i][1]);
	}
	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	assert_true(sysctl_path(name + 1, path));
	assert_int_equal(strlen(path), SETTING_PATH_MAX - 1);
	assert_false(sysctl_path(name, path));
}

DIRECTORY_TEST(the_file_that_sets_a_sysctl_is_found)
{
	static const struct {
		const char *name, *value, *where;
	} writers[] = {
		{"net.ipv4.neigh.default.gc_thresh1", "0", "set by /etc/sysctl.d/90-cloud.conf:3"},
		{"net.ipv4.neigh.default.gc_thresh1", "1", ""}, /* a comment */
		{"net.ipv4.neigh.default.gc_thresh1", "7", ""},
		{"vm.max_map_count", "1000", "set by /etc/sysctl.conf:1"},
		{"kernel.pid_max", "4096", "set by /usr/lib/sysctl.d/50-pids.conf:1"},
		{"net.ipv4.tcp_rmem", "1 2 3", "set by /etc/sysctl.d/90-cloud.conf:5"},
		{"kernel.keys.maxkeys", "10", ""}, /* no .conf */
		{"kernel.shmmni", "10", ""},       /* a file hides another one with its name */
		{"kernel.msgmni", "7", "set by /usr/lib/sysctl.d/60-z.conf:1"},
		{"kernel.threads-max", "900",
			"set by the profile node of TuneD (/etc/tuned/node/tuned.conf:5)"},
		{"fs.inotify.max_user_instances", "64",
			"set by the profile base of TuneD (/usr/lib/tuned/base/tuned.conf:2)"},
		{"kernel.threads-max", "800", ""}, /* the profile above it has another value */
	};
	char where[SETTING_WHY_MAX];

	directory_put(directory, "/etc/sysctl.conf", "vm.max_map_count=1000");
	directory_put(directory, "/etc/sysctl.d/90-cloud.conf",
		"# cloud\n; net.ipv4.neigh.default.gc_thresh1 = 1\n"
		"-net/ipv4/neigh/default/gc_thresh1 = 0\nnonsense\n"
		"  net.ipv4.tcp_rmem\t= 1\t2 3 \n");
	directory_put(directory, "/etc/sysctl.d/keys.conf.bak", "kernel.keys.maxkeys = 10\n");
	directory_put(directory, "/usr/lib/sysctl.d/50-pids.conf", "kernel.pid_max = 4096\n");
	directory_put(directory, "/usr/lib/sysctl.d/60-z.conf", "kernel.msgmni = 7\n");
	directory_put(directory, "/etc/sysctl.d/50-a.conf", "kernel.msgmni = 9\n");
	directory_put(directory, "/usr/lib/sysctl.d/70-hidden.conf", "kernel.shmmni = 10\n");
	directory_put(directory, "/run/sysctl.d/70-hidden.conf", "");
	directory_put(directory, "/etc/tuned/active_profile", "other node\n");
	directory_put(directory, "/etc/tuned/node/tuned.conf",
		"[main]\ninclude = missing, base\n# kernel.threads-max = 1\n[sysctl]\n"
		"kernel.threads-max = >900\n[vm]\ntransparent_hugepages=madvise\n");
	directory_put(directory, "/usr/lib/tuned/base/tuned.conf",
		"[sysctl]\nfs.inotify/max_user_instances=64\nkernel.threads-max=800\n"
		"[main]\ninclude=node\n");
	for (size_t i = 0; i < ARRAY_SIZE(writers); i++) {
		assert_int_equal(host_find_sysctl(&directory->host, writers[i].name,
					 writers[i].value, where),
			writers[i].where[0] != '\0');
		assert_string_equal(where, writers[i].where);
	}
}
