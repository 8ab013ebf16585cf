/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "runtime/containerd_config.h"

#include <errno.h>

#define MAIN "/etc/containerd/config.toml"

static void assert_read(const struct directory *root, const char *const *paths)
{
	char culprit[CONTAINERD_CULPRIT_MAX];
	struct containerd_files files;
	size_t n = 0;
	int r = containerd_files_read(root->path, MAIN, &files, culprit);

	if (r != 0)
		fail_msg("%d: %s", r, culprit);
	for (; paths[n]; n++) {
		assert_true(n < files.n);
		assert_string_equal(files.files[n].path, paths[n]);
		assert_int_equal(files.files[n].len, strlen(files.files[n].text));
		assert_false(files.files[n].read_only);
	}
	assert_int_equal(files.n, n);
	containerd_files_clear(&files);
	assert_int_equal(files.n, 0);
}

TEST(files_come_in_the_order_that_containerd_reads_them)
{
	_cleanup_directory_ struct directory root;

	directory_make(&root);
	assert_read(&root, (const char *const[]){NULL});
	directory_put(&root, MAIN,
		"imports = ['conf.d/*.toml', '/etc/containerd/../x.toml', './config.toml', "
		"'none/*.toml']\n");
	directory_put(
		&root, "/etc/x.toml", "imports = ['y.toml', '/etc/containerd/config.toml']\n");
	directory_put(&root, "/etc/y.toml", "");
	directory_put(&root, "/etc/containerd/conf.d/b.toml", "imports = ['/etc/z.toml']\n");
	directory_put(&root, "/etc/containerd/conf.d/a.toml", "# nothing");
	directory_put(&root, "/etc/containerd/conf.d/.c.toml", "");
	directory_put(&root, "/etc/containerd/conf.d/c.tom", "not read");
	directory_put(&root, "/etc/z.toml", "");
	assert_read(&root, (const char *const[]){MAIN, "/etc/containerd/conf.d/.c.toml",
				   "/etc/containerd/conf.d/a.toml", "/etc/containerd/conf.d/b.toml",
				   "/etc/x.toml", "/etc/z.toml", "/etc/y.toml", NULL});
}

/* An absolute link on the host begins at the host's root, wherever that is here. */
TEST(links_are_the_hosts)
{
	_cleanup_directory_ struct directory root;
	char path[PATH_MAX];

	directory_make(&root);
	directory_put(&root, "/opt/containerd/real.toml", "imports = ['conf.d/*.toml']\n");
	directory_put(&root, "/opt/conf.d/a.toml", "");
	directory_put(&root, "/etc/containerd/x", "");
	directory_path(&root, MAIN, path);
	assert_int_equal(symlink("/opt/containerd/real.toml", path), 0);
	directory_path(&root, "/etc/containerd/conf.d", path);
	assert_int_equal(symlink("/opt/conf.d", path), 0);
	assert_read(&root, (const char *const[]){MAIN, "/etc/containerd/conf.d/a.toml", NULL});
}

static void assert_fails(const struct directory *root, int error, const char *said)
{
	char culprit[CONTAINERD_CULPRIT_MAX];
	struct containerd_files files = {.n = 7};

	assert_int_equal(containerd_files_read(root->path, MAIN, &files, culprit), error);
	assert_int_equal(files.n, 7);
	assert_string_equal(culprit, said);
}

TEST(a_file_that_cannot_be_read_is_named)
{
	_cleanup_directory_ struct directory root;
	char text[4096] = "imports = [";

	directory_make(&root);
	directory_put(&root, MAIN, "imports = ['gone.toml']\n");
	assert_fails(&root, -ENOENT, "/etc/containerd/gone.toml");
	directory_put(&root, MAIN, "imports = 'x.toml'\n");
	assert_fails(&root, -EBADMSG, MAIN);
	directory_put(&root, MAIN, "imports = [1]\n");
	assert_fails(&root, -EBADMSG, MAIN);
	directory_put(&root, MAIN, "version = 2\n[plugins\n");
	assert_fails(&root, -EBADMSG, MAIN ":2:9: ] was expected");
	directory_put(&root, MAIN, "imports = ['x.toml']\n");
	directory_put(&root, "/etc/containerd/x.toml", "a = \n");
	assert_fails(&root, -EBADMSG, "/etc/containerd/x.toml:1:5: a value was expected");
	for (int i = 0; i < CONTAINERD_FILES_MAX; i++) {
		char name[64];

		snprintf(name, sizeof(name), "/etc/containerd/m%d.toml", i);
		directory_put(&root, name, "");
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "'m%d.toml', ", i);
	}
	strcat(text, "]\n");
	directory_put(&root, MAIN, text);
	assert_fails(&root, -E2BIG, "/etc/containerd/m31.toml");
}

TEST(durations_are_those_of_go)
{
	static const struct {
		const char *text;
		int result;
		unsigned long long us;
	} cases[] = {
		{"30m", 0, 1800000000ULL},
		{"30m0s", 0, 1800000000ULL},
		{"1h30m", 0, 5400000000ULL},
		{"500ms", 0, 500000},
		{"1us", 0, 1},
		{"7\xc2\xb5s", 0, 7},
		{"0", 0, 0},
		{"0s", 0, 0},
		{"", -EINVAL, 0},
		{"30", -EINVAL, 0},
		{"m", -EINVAL, 0},
		{"-1m", -EINVAL, 0},
		{"1 m", -EINVAL, 0},
		{"1d", -EINVAL, 0},
		{"99999999999999999999s", -ERANGE, 0},
		{"9999999999999999h", -ERANGE, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		unsigned long long us = 12345;

		if (containerd_duration_parse(cases[i].text, &us) != cases[i].result)
			fail_msg("'%s'", cases[i].text);
		assert_true(us == (cases[i].result == 0 ? cases[i].us : 12345));
	}
}
