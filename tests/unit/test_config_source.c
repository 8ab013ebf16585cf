/* SPDX-License-Identifier: Apache-2.0 */
#include "config_fixture.h"

#include <sys/un.h>

/* All names are relative to a temporary directory. */
static void enter(struct directory *directory)
{
	directory_make(directory);
	assert_int_equal(chdir(directory->path), 0);
	assert_int_equal(mkdir("d", 0700), 0);
}

static struct loaded load(const char *file, bool optional, const char *others)
{
	return load_source(fixture_tables,
		&(struct config_source){.file = file, .optional = optional, .directory = others});
}

#define SOURCE_TEST(name) TEST_OF(directory, directory, enter, directory_remove, name)

SOURCE_TEST(only_a_required_file_must_exist)
{
	_cleanup_loaded_ struct loaded optional = load("F", true, "d");
	_cleanup_loaded_ struct loaded needed = load("F", false, NULL);
	_cleanup_loaded_ struct loaded nothing = load(NULL, false, NULL);

	assert_loaded(&optional);
	assert_loaded(&nothing);
	assert_one_fault(&needed, 1, 1, "no such file");
}

SOURCE_TEST(only_regular_files_are_read)
{
	static const char *const cases[][2] = {{"socket.yaml", "not a regular file"},
		{"loop.yaml", "symbolic links"}, {"d", "a directory"}};
	struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket.yaml"};
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(symlink("loop.yaml", "loop.yaml"), 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_loaded_ struct loaded loaded = load(cases[i][0], true, NULL);

		assert_one_fault(&loaded, 1, 1, cases[i][1]);
	}
	_cleanup_loaded_ struct loaded no_directory = load(NULL, true, "socket.yaml");
	assert_one_fault(&no_directory, 1, 1, strerror(ENOTDIR));
	assert_int_equal(symlink("nowhere", "d/a.yaml"), 0);
	_cleanup_loaded_ struct loaded dangling = load(NULL, true, "d");
	assert_one_fault(&dangling, 1, 1, "no such file");
}

SOURCE_TEST(yaml_files_are_read_in_name_order)
{
	static const char *const names[] = {"/d/b.yaml", "/d/a.yaml", "/d/10.yaml", "/d/9.yaml",
		"/d/A.yaml", "/d/.hidden.yaml", "/d/c.yml", "/d/c.yaml~", "/d/.yaml"};
	static const char *const order[] = {
		"d/10.yaml", "d/9.yaml", "d/A.yaml", "d/a.yaml", "d/b.yaml"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		directory_put(directory, names[i], "fault: 1\n");
	_cleanup_loaded_ struct loaded loaded = load(NULL, false, "d");
	assert_int_equal(loaded.faults.n, ARRAY_SIZE(order));
	for (size_t i = 0; i < loaded.faults.n; i++)
		assert_string_equal(loaded.faults.faults[i].file, order[i]);
}
