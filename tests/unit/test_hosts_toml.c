/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "runtime/hosts_toml.h"

#define FIRST_LINE \
	"# Written by headroom. It replaces and removes this file, unless this line is gone.\n"

#define TABLE(url) "\n[host.\"" url "\"]\n  capabilities = [\"pull\", \"resolve\"]\n"

TEST(the_same_node_is_first_and_each_mirror_once)
{
	static const char *const urls[] = {"https://far.example/", "http://127.0.0.1:30020",
		"https://near.example:5000/v2/proxy", "https://far.example", "http://localhost"};
	_cleanup_free_ char *text = NULL, *timed = NULL;
	char words[256];

	assert_int_equal(hosts_toml_write(urls, ARRAY_SIZE(urls), 0, &text), 0);
	assert_string_equal(text,
		FIRST_LINE TABLE("http://127.0.0.1:30020") TABLE("http://localhost")
			TABLE("https://far.example") TABLE("https://near.example:5000/v2/proxy"));
	assert_true(hosts_toml_is_ours(text, strlen(text)));
	hosts_toml_mirrors(text, words, sizeof(words));
	assert_string_equal(words, "http://127.0.0.1:30020 http://localhost https://far.example "
				   "https://near.example:5000/v2/proxy");
	assert_int_equal(hosts_toml_write(urls, 1, 500, &timed), 0);
	assert_string_equal(
		timed, FIRST_LINE TABLE("https://far.example") "  dial_timeout = \"500ms\"\n");
}

TEST(lists_that_differ_never_look_the_same)
{
	char one[32], other[32];

	hosts_toml_mirrors(
		FIRST_LINE TABLE("http://a.example.com:5000") TABLE("http://b"), one, sizeof(one));
	hosts_toml_mirrors(FIRST_LINE TABLE("http://a.example.com:5000") TABLE("http://c"), other,
		sizeof(other));
	assert_int_equal(strlen(one), 31);
	assert_string_not_equal(one, other);
	hosts_toml_mirrors(FIRST_LINE, one, sizeof(one));
	assert_string_equal(one, "none");
}

TEST(only_plain_addresses_are_accepted)
{
	static const char *const bad[] = {
		"http://h\"]\n[host.\"http://evil", "h", "http://u:p@h", "http://h/\\", ""};
	const char *many[HOSTS_TOML_URLS_MAX + 1];
	char *text = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(hosts_toml_write(&bad[i], 1, 0, &text), -EINVAL);
	assert_int_equal(hosts_toml_write(bad, 0, 0, &text), -EINVAL);
	for (size_t i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = "http://h";
	assert_int_equal(hosts_toml_write(many, ARRAY_SIZE(many), 0, &text), -E2BIG);
	assert_null(text);
}

TEST(own_files_are_recognised)
{
	static const char *const ours[] = {"# Written by headroom.", "# Written by headroom.\n",
		"# Written by headroom.\r\nserver = \"x\"\n", FIRST_LINE,
		"# Written by headroom. x"};
	static const char *const foreign[] = {"", "#", "server = \"https://x\"\n",
		"\n# Written by headroom.\n", " # Written by headroom.\n",
		"# Written by headroom.x\n", "# written by headroom.\n", "# Written by headroom",
		"# Kept by hand\n# Written by headroom.\n"};

	for (size_t i = 0; i < ARRAY_SIZE(ours); i++)
		if (!hosts_toml_is_ours(ours[i], strlen(ours[i])))
			fail_msg("ours: %s", ours[i]);
	for (size_t i = 0; i < ARRAY_SIZE(foreign); i++)
		if (hosts_toml_is_ours(foreign[i], strlen(foreign[i])))
			fail_msg("foreign: %s", foreign[i]);
	assert_false(hosts_toml_is_ours("# Written by headroom.\0", 23));
	assert_false(hosts_toml_is_ours(NULL, 0));
}

TEST(directories_that_containerd_reads_are_known)
{
	static const struct {
		const char *registry, *first, *second;
	} cases[] = {
		{"docker.io", "docker.io", NULL},
		{"_default", "_default", NULL},
		{"10.0.0.1:5000", "10.0.0.1_5000_", "10.0.0.1:5000"},
		{"[::1]:5000", "[::1]_5000_", "[::1]:5000"},
		/* containerd itself takes this address for one with a port. */
		{"[::1]", "[:_1]_", "[::1]"},
	};
	static const char *const bad[] = {"", "..", ".", "../../etc", "a/b", "_other", "a:", "a:x"};
	char directories[2][REGISTRY_NAME_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(hosts_toml_directories(cases[i].registry, directories),
			cases[i].second ? 2 : 1);
		assert_string_equal(directories[0], cases[i].first);
		if (cases[i].second)
			assert_string_equal(directories[1], cases[i].second);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(hosts_toml_directories(bad[i], directories), -EINVAL);
}

TEST(dial_timeout_depends_on_the_version)
{
	static const char *const yes[] = {
		"2.1.0", "v2.1.4", "2.4.2", "2.10.0", "3.0.0", "2.1.0-beta.0", "v2.2.1+k3s1"};
	static const char *const no[] = {
		"1.6.20~ds1", "1.7.34", "v1.7.2", "2.0.5", "2.0", "", "v", "garbage", "2"};

	for (size_t i = 0; i < ARRAY_SIZE(yes); i++)
		if (!hosts_toml_knows_dial_timeout(yes[i]))
			fail_msg("%s knows it", yes[i]);
	for (size_t i = 0; i < ARRAY_SIZE(no); i++)
		if (hosts_toml_knows_dial_timeout(no[i]))
			fail_msg("%s does not know it", no[i]);
}
