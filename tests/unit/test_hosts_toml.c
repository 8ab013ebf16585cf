/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "runtime/hosts_toml.h"

#include <errno.h>

#define FIRST_LINE \
	"# Written by headroom. It replaces and removes this file, unless this line is gone.\n"

static char *write_hosts(const struct hosts_toml *hosts)
{
	char *text = NULL;
	size_t len;

	assert_int_equal(hosts_toml_write(hosts, &text, &len), 0);
	assert_int_equal(len, strlen(text));
	assert_true(hosts_toml_is_ours(text, len));
	return text;
}

static void the_same_node_is_first_and_upstream_last(void **state)
{
	static const struct hosts_toml_mirror mirrors[] = {
		{"https://far.example/", false},
		{"http://127.0.0.1:30020", true},
		{"https://near.example:5000/v2/proxy", false},
		{"http://10.0.0.7:30021", true},
	};
	const struct hosts_toml hosts = {.mirrors = mirrors,
		.n = ARRAY_SIZE(mirrors),
		.upstream = "https://registry-1.docker.io/",
		.dial_timeout_ms = 500};
	_cleanup_free_ char *text = write_hosts(&hosts);

	(void)state;
	/* server is a key of the root, so it stands before the tables; it is asked last. */
	assert_string_equal(text, FIRST_LINE "server = \"https://registry-1.docker.io\"\n"
					     "\n"
					     "[host.\"http://127.0.0.1:30020\"]\n"
					     "  capabilities = [\"pull\", \"resolve\"]\n"
					     "  dial_timeout = \"500ms\"\n"
					     "\n"
					     "[host.\"http://10.0.0.7:30021\"]\n"
					     "  capabilities = [\"pull\", \"resolve\"]\n"
					     "  dial_timeout = \"500ms\"\n"
					     "\n"
					     "[host.\"https://far.example\"]\n"
					     "  capabilities = [\"pull\", \"resolve\"]\n"
					     "  dial_timeout = \"500ms\"\n"
					     "\n"
					     "[host.\"https://near.example:5000/v2/proxy\"]\n"
					     "  capabilities = [\"pull\", \"resolve\"]\n"
					     "  dial_timeout = \"500ms\"\n");
}

static void repeated_mirrors_are_written_once(void **state)
{
	static const struct hosts_toml_mirror mirrors[] = {
		{"http://h", false}, {"http://h/", true}, {"http://h", false}};
	const struct hosts_toml hosts = {.mirrors = mirrors, .n = ARRAY_SIZE(mirrors)};
	_cleanup_free_ char *text = write_hosts(&hosts);

	(void)state;
	/* A table that stands twice would make the file unreadable. */
	assert_string_equal(text,
		FIRST_LINE "\n[host.\"http://h\"]\n  capabilities = [\"pull\", \"resolve\"]\n");
}

static void only_plain_addresses_are_accepted(void **state)
{
	static const char *const bad[] = {
		"http://h\"]\n[host.\"http://evil", "h", "http://u:p@h", "http://h/\\", ""};
	struct hosts_toml_mirror mirror = {"http://h", false};
	struct hosts_toml hosts = {.mirrors = &mirror, .n = 1};
	struct hosts_toml_mirror many[HOSTS_TOML_HOSTS_MAX + 1];
	char *text = NULL;
	size_t len;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		mirror.url = bad[i];
		assert_int_equal(hosts_toml_write(&hosts, &text, &len), -EINVAL);
		mirror.url = "http://h";
		hosts.upstream = bad[i];
		assert_int_equal(hosts_toml_write(&hosts, &text, &len), -EINVAL);
		hosts.upstream = NULL;
	}
	hosts.n = 0;
	assert_int_equal(hosts_toml_write(&hosts, &text, &len), -EINVAL);
	for (size_t i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = mirror;
	hosts = (struct hosts_toml){.mirrors = many, .n = ARRAY_SIZE(many)};
	assert_int_equal(hosts_toml_write(&hosts, &text, &len), -E2BIG);
	assert_null(text);
}

static void own_files_are_recognised(void **state)
{
	static const char *const ours[] = {"# Written by headroom.", "# Written by headroom.\n",
		"# Written by headroom.\r\nserver = \"x\"\n", FIRST_LINE,
		"# Written by headroom. x"};
	static const char *const foreign[] = {"", "#", "server = \"https://x\"\n",
		"\n# Written by headroom.\n", " # Written by headroom.\n",
		"# Written by headroom.x\n", "# written by headroom.\n", "# Written by headroom",
		"# Kept by hand\n# Written by headroom.\n"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(ours); i++)
		if (!hosts_toml_is_ours(ours[i], strlen(ours[i])))
			fail_msg("ours: %s", ours[i]);
	for (size_t i = 0; i < ARRAY_SIZE(foreign); i++)
		if (hosts_toml_is_ours(foreign[i], strlen(foreign[i])))
			fail_msg("foreign: %s", foreign[i]);
	assert_false(hosts_toml_is_ours("# Written by headroom.\0", 23));
	assert_false(hosts_toml_is_ours(NULL, 0));
}

static void directories_that_containerd_reads_are_known(void **state)
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

	(void)state;
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

static void dial_timeout_depends_on_the_version(void **state)
{
	static const char *const yes[] = {
		"2.1.0", "v2.1.4", "2.4.2", "2.10.0", "3.0.0", "2.1.0-beta.0", "v2.2.1+k3s1"};
	static const char *const no[] = {
		"1.6.20~ds1", "1.7.34", "v1.7.2", "2.0.5", "2.0", "", "v", "garbage", "2"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(yes); i++)
		if (!hosts_toml_knows_dial_timeout(yes[i]))
			fail_msg("%s knows it", yes[i]);
	for (size_t i = 0; i < ARRAY_SIZE(no); i++)
		if (hosts_toml_knows_dial_timeout(no[i]))
			fail_msg("%s does not know it", no[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_node_is_first_and_upstream_last),
		cmocka_unit_test(repeated_mirrors_are_written_once),
		cmocka_unit_test(only_plain_addresses_are_accepted),
		cmocka_unit_test(own_files_are_recognised),
		cmocka_unit_test(directories_that_containerd_reads_are_known),
		cmocka_unit_test(dial_timeout_depends_on_the_version),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
