/* SPDX-License-Identifier: Apache-2.0 */
#include "config_fixture.h"

#include "base/file.h"

#include <sys/socket.h>
#include <sys/un.h>

/* Each test runs in a directory of its own: names are relative. */
static char root[64];

static int enter_directory(void **state)
{
	(void)state;
	strcpy(root, "/tmp/headroom-test-XXXXXX");
	return mkdtemp(root) ? chdir(root) : -1;
}

static int leave_directory(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf '%s'", root);
	return chdir("/") == 0 ? system(command) : -1;
}

static void write_text(const char *path, const char *text)
{
	_cleanup_fclose_ FILE *file = fopen(path, "we");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
}

TEST_FIXTURE(only_a_needed_file_must_exist, enter_directory, leave_directory)
{
	_cleanup_loaded_ struct loaded optional = load_source("F", true, "d");
	_cleanup_loaded_ struct loaded needed = load_source("F", false, NULL);
	_cleanup_loaded_ struct loaded nothing = load_source(NULL, false, NULL);

	assert_loaded(&optional);
	assert_loaded(&nothing);
	assert_one_fault(&needed, 1, 1, "no such file");
}

TEST_FIXTURE(large_files_are_refused, enter_directory, leave_directory)
{
	_cleanup_close_ int fd = open("F", O_CREAT | O_RDWR | O_CLOEXEC, 0600);

	assert_int_equal(ftruncate(fd, 10 << 20), 0);
	_cleanup_loaded_ struct loaded loaded = load_source("F", true, NULL);
	assert_one_fault(&loaded, 1, 1, "larger than 256 kB");
}

TEST_FIXTURE(only_regular_files_are_read, enter_directory, leave_directory)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket.yaml"};
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(mkdir("directory.yaml", 0700), 0);
	assert_int_equal(mkfifo("fifo.yaml", 0600), 0);
	assert_int_equal(symlink("loop.yaml", "loop.yaml"), 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	_cleanup_loaded_ struct loaded directory = load_source("directory.yaml", true, NULL);
	_cleanup_loaded_ struct loaded fifo = load_source("fifo.yaml", true, NULL);
	_cleanup_loaded_ struct loaded device = load_source("/dev/zero", true, NULL);
	_cleanup_loaded_ struct loaded unix_socket = load_source("socket.yaml", true, NULL);
	_cleanup_loaded_ struct loaded loop = load_source("loop.yaml", true, NULL);
	_cleanup_loaded_ struct loaded no_directory = load_source(NULL, true, "fifo.yaml");
	assert_one_fault(&directory, 1, 1, "a directory");
	assert_one_fault(&fifo, 1, 1, "neither a file");
	assert_one_fault(&device, 1, 1, "neither a file");
	assert_one_fault(&unix_socket, 1, 1, "neither a file");
	assert_one_fault(&loop, 1, 1, strerror(ELOOP));
	assert_one_fault(&no_directory, 1, 1, strerror(ENOTDIR));
}

TEST_FIXTURE(yaml_files_are_read_in_name_order, enter_directory, leave_directory)
{
	static const char *const names[] = {"d/b.yaml", "d/a.yaml", "d/10.yaml", "d/9.yaml",
		"d/A.yaml", "d/.hidden.yaml", "d/c.yml", "d/c.yaml~", "d/.yaml"};
	static const char *const order[] = {
		"d/10.yaml", "d/9.yaml", "d/A.yaml", "d/a.yaml", "d/b.yaml"};

	assert_int_equal(mkdir("d", 0700), 0);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		write_text(names[i], "fault: 1\n");
	_cleanup_loaded_ struct loaded loaded = load_source(NULL, false, "d");
	assert_int_equal(loaded.faults.n, ARRAY_SIZE(order));
	for (size_t i = 0; i < loaded.faults.n; i++)
		assert_string_equal(loaded.faults.faults[i].file, order[i]);
}

TEST_FIXTURE(a_dangling_link_is_a_fault, enter_directory, leave_directory)
{
	assert_int_equal(mkdir("d", 0700), 0);
	assert_int_equal(symlink("nowhere", "d/a.yaml"), 0);
	_cleanup_loaded_ struct loaded loaded = load_source(NULL, true, "d");
	assert_one_fault(&loaded, 1, 1, "no such file");
}

/* The files as the kubelet mounts a ConfigMap: swapped by renaming one link. */
static void swap_to(const char *version)
{
	assert_int_equal(symlink(version, "d/..data_tmp"), 0);
	assert_int_equal(rename("d/..data_tmp", "d/..data"), 0);
}

TEST_FIXTURE(the_signature_changes_with_a_swapped_link, enter_directory, leave_directory)
{
	const struct config_source as_file = {.file = "d/a.yaml"};
	const struct config_source as_directory = {.directory = "d"};
	uint64_t file, directory;

	assert_int_equal(mkdir("d", 0700), 0);
	assert_int_equal(mkdir("d/..1", 0700), 0);
	assert_int_equal(mkdir("d/..2", 0700), 0);
	write_text("d/..1/a.yaml", "mode: enforce\n");
	write_text("d/..2/a.yaml", "mode: observe\n");
	swap_to("..1");
	assert_int_equal(symlink("..data/a.yaml", "d/a.yaml"), 0);
	file = config_source_signature(&as_file);
	directory = config_source_signature(&as_directory);
	assert_true(file == config_source_signature(&as_file));
	swap_to("..2");
	assert_true(file != config_source_signature(&as_file));
	assert_true(directory != config_source_signature(&as_directory));
	_cleanup_loaded_ struct loaded loaded = load_source(NULL, true, "d");
	assert_loaded(&loaded);
	assert_string_equal(config_text(loaded.config, "mode"), "observe");
}

TEST_FIXTURE(the_signature_changes_with_every_change, enter_directory, leave_directory)
{
	const struct config_source source = {.file = "F", .optional = true, .directory = "d"};
	uint64_t seen[8];
	size_t n = 0;

	seen[n++] = config_source_signature(&source);
	write_text("F", "a");
	seen[n++] = config_source_signature(&source);
	write_text("F", "ab");
	seen[n++] = config_source_signature(&source);
	assert_int_equal(rename("F", "G"), 0);
	write_text("F", "ab");
	seen[n++] = config_source_signature(&source);
	assert_int_equal(mkdir("d", 0700), 0);
	seen[n++] = config_source_signature(&source);
	write_text("d/a.yaml", "");
	seen[n++] = config_source_signature(&source);
	write_text("d/a.yaml", "x");
	seen[n++] = config_source_signature(&source);
	assert_int_equal(unlink("d/a.yaml"), 0);
	seen[n++] = config_source_signature(&source);
	/* Times have the grain of a tick, so that only neighbours are sure to differ. */
	for (size_t i = 1; i < n; i++)
		assert_true(seen[i] != seen[i - 1]);
	/* What is not read does not count. */
	assert_int_equal(unlink("G"), 0);
	assert_true(seen[n - 1] == config_source_signature(&source));
}
