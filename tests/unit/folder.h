/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_FOLDER_H
#define TESTS_UNIT_FOLDER_H

/* A folder of a test's own below /tmp: as the root of a made-up node, or as a state folder. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/util.h"

#include <limits.h>

struct folder {
	char path[64];
};

static inline void folder_make(struct folder *folder)
{
	strcpy(folder->path, "/tmp/headroom-test-XXXXXX");
	assert_non_null(mkdtemp(folder->path));
}

static inline void folder_remove(struct folder *folder)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", folder->path);
	assert_int_equal(system(command), 0);
}

#define _cleanup_folder_ __attribute__((cleanup(folder_remove)))

static inline void folder_path(const struct folder *folder, const char *name, char full[PATH_MAX])
{
	assert_true(snprintf(full, PATH_MAX, "%s%s", folder->path, name) < PATH_MAX);
}

/* Writes a file, name beginning with a slash, and makes the folders above it. */
static inline void folder_put_bytes(
	const struct folder *folder, const char *name, const void *data, size_t len)
{
	_cleanup_fclose_ FILE *file = NULL;
	char full[PATH_MAX], *slash;

	folder_path(folder, name, full);
	slash = strrchr(full, '/');
	*slash = '\0';
	assert_int_equal(make_directories(full, 0700), 0);
	*slash = '/';
	file = fopen(full, "we");
	assert_non_null(file);
	assert_int_equal(fwrite(data, 1, len, file), len);
}

static inline void folder_put(const struct folder *folder, const char *name, const char *text)
{
	folder_put_bytes(folder, name, text, strlen(text));
}

/* The whole file, which the caller frees; NULL when there is none. */
static inline char *folder_get(const struct folder *folder, const char *name)
{
	char full[PATH_MAX], *text = NULL;

	folder_path(folder, name, full);
	return read_file(full, 1024 * 1024, &text, NULL) == 0 ? text : NULL;
}

static inline void assert_file(const struct folder *folder, const char *name, const char *expected)
{
	_cleanup_free_ char *text = folder_get(folder, name);

	if (!text)
		fail_msg("no %s", name);
	assert_string_equal(text, expected);
}

static inline void folder_delete(const struct folder *folder, const char *name)
{
	char full[PATH_MAX];

	folder_path(folder, name, full);
	assert_int_equal(unlink(full), 0);
}

#endif
