/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "apply/values.h"

#define THRESHOLD "/proc/sys/net/ipv4/neigh/default/gc_thresh1"

DIRECTORY_TEST(a_file_gets_the_value)
{
	struct value_target target = {.kind = VALUE_FILE, .path = "/proc/sys/vm/a"};
	struct host host;

	assert_true(host_init(&host, directory->path));
	assert_int_equal(value_set(&host, &target, "1", false), -ENOENT);
	assert_null(directory_get(directory, target.path)); /* nothing is made that was not there */
	directory_put(directory, target.path, "10000\n");
	assert_int_equal(value_set(&host, &target, "20000", false), 0);
	assert_file(directory, target.path, "20000\n");
	/* Writing nothing leaves what is there: a list of ports is cleared by an empty line. */
	directory_put(directory, target.path, "1");
	assert_int_equal(value_set(&host, &target, "", false), 0);
	assert_file(directory, target.path, "\n");
}

DIRECTORY_TEST(what_cannot_be_written)
{
	struct value_target target = {.kind = VALUE_FILE, .path = "/proc/sys/vm"};
	struct host host;

	assert_true(host_init(&host, directory->path));
	directory_put(directory, "/proc/sys/vm/a", "");
	assert_int_equal(value_set(&host, &target, "1", false), -EISDIR);
	/* A file of the kernel that nobody may write. */
	assert_true(host_init(&host, "/"));
	assert_true(copy_text(target.path, sizeof(target.path), "/proc/self/status"));
	assert_true(value_set(&host, &target, "1", false) < 0);
}

/* Netlink would change the kernel that the test runs on. */
TEST(a_threshold_below_a_made_up_root_is_a_file)
{
	struct value_target target = {
		.kind = VALUE_NEIGHTBL, .path = THRESHOLD, .family = AF_INET, .level = 1};
	_cleanup_directory_ struct directory directory;
	_cleanup_free_ char *before = NULL, *after = NULL;
	struct host host;

	(void)read_file(THRESHOLD, 100, &before, NULL);
	directory_make(&directory);
	assert_true(host_init(&host, directory.path));
	assert_int_equal(value_set(&host, &target, "4711", false), -EOPNOTSUPP);
	directory_put(&directory, THRESHOLD, "1024\n");
	assert_int_equal(value_set(&host, &target, "4711", false), 0);
	assert_file(&directory, THRESHOLD, "4711\n");
	(void)read_file(THRESHOLD, 100, &after, NULL);
	if (before && after)
		assert_string_equal(before, after);
}

/* Refused before anything is sent: with the kernel's own root, and still no change of it. */
TEST(values_that_are_no_thresholds)
{
	static const char *const values[] = {"", "-1", "x", "2147483648", "1 2"};
	struct value_target target = {
		.kind = VALUE_NEIGHTBL, .path = THRESHOLD, .family = AF_INET, .level = 1};
	struct host host;

	if (access(THRESHOLD, F_OK) < 0)
		skip();
	assert_true(host_init(&host, ""));
	for (size_t i = 0; i < ARRAY_SIZE(values); i++)
		assert_int_equal(value_set(&host, &target, values[i], false), -EINVAL);
	target.level = 4;
	assert_int_equal(value_set(&host, &target, "1", false), -EINVAL);
	target.level = 0;
	assert_int_equal(value_set(&host, &target, "1", false), -EINVAL);
}
