/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A temporary directory: the root of a fake node, or a state directory. */

#include "test.h"

#include "base/file.h"
#include "workload/facts.h"

struct directory {
	char path[64];
	struct host host; /* its root is the directory */
	struct facts facts;
};

static inline void directory_make(struct directory *directory)
{
	strcpy(directory->path, "/tmp/headroom-test-XXXXXX");
	assert_non_null(mkdtemp(directory->path));
	assert_true(host_init(&directory->host, directory->path));
	directory->facts.cgroups = cgroups_open(&directory->host, &directory->facts.names);
}

static inline void directory_remove(struct directory *directory)
{
	cgroups_close(directory->facts.cgroups);
	assert_int_equal(remove_tree(directory->path), 0);
}

#define _cleanup_directory_  __attribute__((cleanup(directory_remove)))
#define DIRECTORY_TEST(name) TEST_OF(directory, directory, directory_make, directory_remove, name)

static inline void directory_path(
	const struct directory *directory, const char *name, char full[PATH_MAX])
{
	assert_true(snprintf(full, PATH_MAX, "%s%s", directory->path, name) < PATH_MAX);
}

struct path {
	char text[PATH_MAX];
};

/* The same as an expression: directory_at(directory, "/f").text. */
static inline struct path directory_at(const struct directory *directory, const char *name)
{
	struct path path;

	directory_path(directory, name, path.text);
	return path;
}

/* Writes a file and creates the directories above it. The name begins with a slash. */
static inline void directory_put_bytes(
	const struct directory *directory, const char *name, const void *data, size_t len)
{
	_cleanup_fclose_ FILE *file = NULL;
	char full[PATH_MAX], *slash;

	directory_path(directory, name, full);
	slash = strrchr(full, '/');
	*slash = '\0';
	assert_int_equal(make_directories(full, 0700), 0);
	*slash = '/';
	file = fopen(full, "we");
	assert_non_null(file);
	assert_int_equal(fwrite(data, 1, len, file), len);
}

static inline void directory_put(
	const struct directory *directory, const char *name, const char *text)
{
	directory_put_bytes(directory, name, text, strlen(text));
}

/* Returns the whole file, which the caller frees. NULL: it cannot be read. */
static inline char *directory_get(const struct directory *directory, const char *name)
{
	char *text = NULL;
	int r = read_file(directory_at(directory, name).text, 1024 * 1024, &text, NULL);

	return r == 0 ? text : NULL;
}

static inline void assert_file(
	const struct directory *directory, const char *name, const char *expected)
{
	_cleanup_free_ char *text = directory_get(directory, name);

	if (!text)
		fail_msg("no %s", name);
	assert_string_equal(text, expected);
}

static inline void directory_delete(const struct directory *directory, const char *name)
{
	assert_int_equal(unlink(directory_at(directory, name).text), 0);
}

static inline void directory_link(
	const struct directory *directory, const char *name, const char *target)
{
	assert_int_equal(symlink(target, directory_at(directory, name).text), 0);
}
