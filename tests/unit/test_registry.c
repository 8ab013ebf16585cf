/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "runtime/registry.h"

static void check_all(int (*judge)(const char *text), int expected, const char *const *texts)
{
	for (; *texts; texts++)
		if (judge(*texts) != expected)
			fail_msg("%s: not %d", *texts, expected);
}

#define ALL(judge, expected, ...) \
	check_all(judge, expected, (const char *const[]){__VA_ARGS__, NULL})

/* A mirror on this node is the first in a file. */
static int is_on_this_node(const char *url)
{
	const char *const urls[] = {"http://far.example", url};
	_cleanup_free_ char *text = hosts_toml_make(urls, ARRAY_SIZE(urls), 0);

	return strstr(text, url) < strstr(text, urls[0]);
}

static int is_ours(const char *text)
{
	return hosts_toml_is_ours(text, strlen(text));
}

TEST(names_of_registries_are_checked)
{
	char longest[REGISTRY_NAME_MAX + 1];

	ALL(registry_check_name, 0, "docker.io", "registry.k8s.io", "localhost", "10.0.0.1",
		"10.0.0.1:5000", "host:1", "host:65535", "my_registry-1.example:5000", "[::1]",
		"[fd00:ec2::253]:5000", "GCR.IO");
	ALL(registry_check_name, -EINVAL, "", ".", "..", "../etc", "a/b", "/", "_default", "-a",
		".a", "a.", "a..b", "a:", "a:0", "a:05", "a:65536", "a:123456", "a:5000:1", "a:b",
		"a b", "a\n", "a\"", "a\\b", "ü.example", "user@a", "[::1", "::1", "[::g]",
		"[fe80::1%eth0]", "[]", "[::1]5000", "%2e%2e", "*");
	memset(longest, 'a', sizeof(longest));
	longest[253] = '\0';
	assert_int_equal(registry_check_name(longest), 0);
	longest[253] = 'a';
	longest[254] = '\0';
	assert_int_equal(registry_check_name(longest), -EINVAL);
}

TEST(addresses_of_mirrors_are_checked)
{
	char text[REGISTRY_URL_MAX + 8] = "http://h/";

	ALL(registry_check_url, 0, "http://127.0.0.1:5000", "https://mirror.example",
		"https://mirror.example/", "https://mirror.example/v2/proxy-1_x.y~z/",
		"http://[::1]:30020", "https://h:1/a:b+c");
	ALL(registry_check_url, -EINVAL, "", "mirror.example", "ftp://mirror.example", "http://",
		"http:///v2", "https://user@h", "https://user:password@h/", "https://h?x=1",
		"https://h/?x", "https://h/#f", "https://h/a b", "https://h/\"", "https://h/\\",
		"https://h/..", "https://h/../x", "https://h/.hidden", "https://h/a%2f",
		"https://h/\n", "https://h:0", "HTTPS://h", "https://h/é", "unix:///run/x");
	memset(text + 9, 'a', REGISTRY_URL_MAX - 9);
	text[REGISTRY_URL_MAX - 1] = '\0';
	assert_int_equal(registry_check_url(text), 0);
	text[REGISTRY_URL_MAX - 1] = 'a';
	text[REGISTRY_URL_MAX] = '\0';
	assert_int_equal(registry_check_url(text), -EINVAL);
}

TEST(copied_addresses_have_no_slash_at_the_end)
{
	char copy[16];

	assert_true(registry_copy_url(copy, sizeof(copy), "http://h///"));
	assert_string_equal(copy, "http://h");
	assert_true(registry_copy_url(copy, sizeof(copy), "http://h/v2"));
	assert_string_equal(copy, "http://h/v2");
	assert_true(registry_copy_url(copy, sizeof(copy), "http://12345678"));
	assert_false(registry_copy_url(copy, sizeof(copy), "http://123456789"));
	assert_string_equal(copy, "http://12345678");
}

TEST(loopback_addresses_are_on_this_node)
{
	ALL(is_on_this_node, true, "http://127.0.0.1:5000", "http://127.255.0.9",
		"https://localhost/x", "http://LocalHost:1", "http://[::1]:1");
	ALL(is_on_this_node, false, "http://10.0.0.1", "http://128.0.0.1",
		"http://localhost.example", "http://[::2]", "http://127.0.0.1.example");
}

#define FIRST_LINE \
	"# Written by headroom. It replaces and removes this file, unless this line is gone.\n"

#define TABLE(url) "\n[host.\"" url "\"]\n  capabilities = [\"pull\", \"resolve\"]\n"

TEST(a_file_lists_each_mirror_once_and_loopback_first)
{
	static const char *const urls[] = {"https://far.example", "http://127.0.0.1:30020",
		"https://near.example:5000/v2/proxy", "https://far.example", "http://localhost"};
	_cleanup_free_ char *text = NULL, *timed = NULL;
	char words[256];

	text = hosts_toml_make(urls, ARRAY_SIZE(urls), 0);
	assert_string_equal(text,
		FIRST_LINE TABLE("http://127.0.0.1:30020") TABLE("http://localhost")
			TABLE("https://far.example") TABLE("https://near.example:5000/v2/proxy"));
	assert_true(hosts_toml_is_ours(text, strlen(text)));
	hosts_toml_mirrors(text, words, sizeof(words));
	assert_string_equal(words, "http://127.0.0.1:30020 http://localhost https://far.example "
				   "https://near.example:5000/v2/proxy");
	timed = hosts_toml_make(urls, 1, 500);
	assert_string_equal(
		timed, FIRST_LINE TABLE("https://far.example") "  dial_timeout = \"500ms\"\n");
}

TEST(shortened_lists_differ)
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

TEST(own_files_are_recognised)
{
	ALL(is_ours, true, "# Written by headroom.", "# Written by headroom.\n",
		"# Written by headroom.\r\nserver = \"x\"\n", FIRST_LINE,
		"# Written by headroom. x");
	ALL(is_ours, false, "", "#", "server = \"https://x\"\n", "\n# Written by headroom.\n",
		" # Written by headroom.\n", "# Written by headroom.x\n",
		"# written by headroom.\n", "# Written by headroom",
		"# Kept by hand\n# Written by headroom.\n");
	assert_false(hosts_toml_is_ours("# Written by headroom.\0", 23));
	assert_false(hosts_toml_is_ours(NULL, 0));
}

TEST(directories_have_the_names_that_containerd_reads)
{
	static const struct {
		const char *registry, *first, *second;
	} cases[] = {
		{"docker.io", "docker.io", NULL},
		{"_default", "_default", NULL},
		{"10.0.0.1:5000", "10.0.0.1_5000_", "10.0.0.1:5000"},
		{"[::1]:5000", "[::1]_5000_", "[::1]:5000"},
		/* containerd finds a port in this address. */
		{"[::1]", "[:_1]_", "[::1]"},
	};
	char directories[2][REGISTRY_NAME_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(hosts_toml_directories(cases[i].registry, directories),
			cases[i].second ? 2 : 1);
		assert_string_equal(directories[0], cases[i].first);
		if (cases[i].second)
			assert_string_equal(directories[1], cases[i].second);
	}
	assert_int_equal(hosts_toml_directories("../../etc", directories), -EINVAL);
}
