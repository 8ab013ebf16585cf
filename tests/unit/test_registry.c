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

static int is_on_this_node(const char *url)
{
	return registry_is_loopback(url);
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

static int is_insecure(const char *address)
{
	return registry_list_covers(
		"mirror:5000 10.0.0.0/8 x/8 fd00::/7 192.0.2.128/25 ::1/128 10.1/16", address);
}

TEST(addresses_are_found_in_networks)
{
	ALL(is_insecure, true, "10.0.0.0", "10.255.1.2", "fd12::1", "fc00::", "192.0.2.128",
		"192.0.2.255", "::1");
	ALL(is_insecure, false, "", "mirror", "mirror:5000", "11.0.0.1", "fe80::1", "192.0.2.127",
		"::2", "::ffff:11.0.0.1");
	assert_true(registry_list_covers("0.0.0.0/0", "8.8.8.8"));
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

TEST(the_api_ends_before_its_namespace)
{
	static const struct {
		const char *url;
		size_t length;
	} rows[] = {
		{"https://m.example/v2/hub", 20},
		{"http://m.example:5000/x/v2/hub/y", 26},
		{"https://m.example/v2", 0},
		{"https://m.example/v2/", 0},
		{"https://m.example/hub", 0},
		{"https://m.example", 0},
		{"http://v2/hub", 0},
		{"http://v2/v2/hub", 12},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(registry_api_length(rows[i].url), rows[i].length);
}

TEST(a_registry_has_one_name_for_its_mirrors)
{
	static const char *const rows[][2] = {{"docker.io", NULL}, {"quay.io:443", NULL},
		{"index.docker.io", "docker.io"}, {"Docker.IO", "docker.io"},
		{"registry-1.docker.io", "docker.io"}, {"GHCR.io", "ghcr.io"}};
	char canonical[REGISTRY_NAME_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *found = registry_canonical(rows[i][0], canonical);

		assert_int_equal(found != NULL, rows[i][1] != NULL);
		if (found)
			assert_string_equal(found, rows[i][1]);
	}
}
