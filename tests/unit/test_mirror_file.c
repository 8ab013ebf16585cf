/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "runtime/driver.h"

#define FIRST_LINE \
	"# Written by headroom. It replaces and removes this file, unless this line is gone.\n"

#define TABLE(url) "\n[host.\"" url "\"]\n  capabilities = [\"pull\", \"resolve\"]\n"

static const char *const urls[] = {
	"https://far.example", "http://127.0.0.1:30020", "https://far.example", "http://localhost"};

TEST(a_file_of_containerd_lists_each_mirror_once_and_loopback_first)
{
	const struct mirror_format *format = containerd_driver.mirrors;
	_cleanup_free_ char *text = NULL, *timed = NULL;
	char list[SETTING_VALUE_MAX];

	text = mirror_file_make(format, "1.6.20", "docker.io", urls, ARRAY_SIZE(urls));
	assert_string_equal(text, FIRST_LINE TABLE("http://127.0.0.1:30020")
					  TABLE("http://localhost") TABLE("https://far.example"));
	mirror_file_list(format, text, list);
	assert_string_equal(list, "http://127.0.0.1:30020 http://localhost https://far.example");
	timed = mirror_file_make(format, "v2.1.0", "docker.io", urls, 1);
	assert_string_equal(
		timed, FIRST_LINE TABLE("https://far.example") "  dial_timeout = \"3000ms\"\n");
	mirror_file_list(format, FIRST_LINE, list);
	assert_string_equal(list, "none");
}

TEST(a_file_of_crio_is_a_registry_with_its_mirrors)
{
	static const char *const with_path[] = {"http://m.example/proxy"};
	const struct mirror_format *format = crio_driver.mirrors;
	_cleanup_free_ char *text = NULL;
	char list[SETTING_VALUE_MAX];

	text = mirror_file_make(format, "1.34.0", "docker.io", urls, 2);
	assert_string_equal(text, FIRST_LINE "[[registry]]\nlocation = \"docker.io\"\n"
					     "\n# \"http://127.0.0.1:30020\"\n[[registry.mirror]]\n"
					     "location = \"127.0.0.1:30020\"\ninsecure = true\n"
					     "\n# \"https://far.example\"\n[[registry.mirror]]\n"
					     "location = \"far.example\"\n");
	mirror_file_list(format, text, list);
	assert_string_equal(list, "http://127.0.0.1:30020 https://far.example");
	assert_null(mirror_file_make(format, "1.34.0", REGISTRY_DEFAULT, urls, 1));
	assert_null(mirror_file_make(format, "1.34.0", "docker.io", with_path, 1));
}

TEST(crio_leaves_registries_that_other_files_define)
{
	const struct mirror_format *format = crio_driver.mirrors;
	struct mirror_file file = {.registry = "r.example:5000"};
	struct directory directory;

	directory_make(&directory);
	directory_put(&directory, "/etc/containers/registries.conf",
		"unqualified-search-registries = [\"r.example:5000\"]\n");
	mirror_file_read(format, &directory.host, format->directory, &file);
	assert_false(file.exists);
	directory_put(&directory, "/etc/containers/registries.conf.d/a.conf",
		"[[registry]]\n  prefix = \"r.example:5000\"\n");
	mirror_file_read(format, &directory.host, format->directory, &file);
	assert_true(file.exists && !file.ours && file.error == 0);
	set_text(file.registry, "../x");
	mirror_file_read(format, &directory.host, format->directory, &file);
	assert_int_equal(file.error, -EINVAL);
	directory_remove(&directory);
}

TEST(only_files_with_the_mark_are_ours)
{
	static const char *const ours[] = {"# Written by headroom.", "# Written by headroom.\n",
		"# Written by headroom.\r\nserver = \"x\"\n", FIRST_LINE,
		"# Written by headroom. x"};
	static const char *const others[] = {"", "#", "server = \"https://x\"\n",
		"\n# Written by headroom.\n", " # Written by headroom.\n",
		"# Written by headroom.x\n", "# written by headroom.\n",
		"# Kept by hand\n# Written by headroom.\n"};

	const struct mirror_format *format = crio_driver.mirrors;
	struct mirror_file file = {.registry = "r.example"};
	struct directory directory;

	directory_make(&directory);
	for (size_t i = 0; i < ARRAY_SIZE(ours) + ARRAY_SIZE(others); i++) {
		bool is_ours = i < ARRAY_SIZE(ours);

		directory_put(&directory,
			"/etc/containers/registries.conf.d/headroom-r.example.conf",
			is_ours ? ours[i] : others[i - ARRAY_SIZE(ours)]);
		mirror_file_read(format, &directory.host, format->directory, &file);
		assert_true(file.exists && file.ours == is_ours);
	}
	directory_remove(&directory);
}
