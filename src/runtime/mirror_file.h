/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Files that have the mirrors of one registry each, for a runtime that reads such files. */

#include "base/text.h"
#include "runtime/registry.h"

#include <headroom/daemon.h>

struct host;
struct runtime_driver;

/* How a runtime's mirror files look. Paths are below the host's root. */
struct mirror_format {
	const char *setting;        /* "mirrors.": a file's setting is this and its registry */
	const char *directory;      /* unless the runtime's configuration names another */
	const char *url_mark;       /* precedes each URL in the text */
	enum activation activation; /* ACTIVATE_NONE: each pull reads the files */

	/*
	 * Finds the path of a registry's file, and the full path if it exists. -ENOENT: it does not
	 * exist; -EEXIST: a file of others has the registry.
	 */
	int (*locate)(const struct host *host, const char *directory, const char *registry,
		char path[static SETTING_PATH_MAX], char full[static PATH_MAX]);

	/* Writes the tables for mirrors of a registry. False: the runtime cannot have them. */
	bool (*write)(FILE *out, const char *version, const char *registry, const char *const *urls,
		size_t n);
};

/* The file of one registry, as it is on disk. */
struct mirror_file {
	char registry[REGISTRY_NAME_MAX];    /* or REGISTRY_DEFAULT */
	const struct runtime_driver *driver; /* of the runtime that reads it */
	char path[SETTING_PATH_MAX];
	bool exists; /* or a file of others has the registry */
	bool ours;
	char sum[HASH_TEXT_MAX];         /* of the text of our file */
	char mirrors[SETTING_VALUE_MAX]; /* of our file */
	int error;                       /* of reading it */
};

void mirror_file_read(const struct mirror_format *format, const struct host *host,
	const char *directory, struct mirror_file *file);

/*
 * The text of a file, for the caller to free; its first line marks it as ours. urls are checked and
 * in the wanted order; those on this node go first. NULL: the runtime cannot have these mirrors.
 */
char *mirror_file_make(const struct mirror_format *format, const char *version,
	const char *registry, const char *const *urls, size_t n);

/* The URLs in a text of ours, "none" without one; a long list is cut and ends in a checksum. */
void mirror_file_list(
	const struct mirror_format *format, const char *text, char list[static SETTING_VALUE_MAX]);
