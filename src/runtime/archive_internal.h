/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How the parts of the reader share an archive that is being opened. Functions that return int
 * return 0, or -errno with the reason in the reader's why.
 */

#include "base/json.h"
#include "base/text.h"
#include "runtime/archive.h"

#define GZIP_MAGIC "\x1f\x8b"
#define ZSTD_MAGIC "\x28\xb5\x2f\xfd"

/* A file of a tar that may be an image's. */
struct archive_member {
	char *name;
	char *link; /* another name; "": one outside of the archive; NULL: a file */
	uint64_t offset, size;
};

struct archive_reader {
	const struct host *host;
	unsigned int percent_free;
	const struct wait *wait;
	struct archive *archive;
	char *why;
	struct archive_member *members;
	size_t n_members, members_allocated, images_allocated, blobs_allocated;
	unsigned int documents; /* that were read */
};

/* The descriptor is the caller's to close. */
struct archive_file {
	int fd;
	uint64_t offset, size;
};

/* Gives the reason; returns error. */
int archive_fail(struct archive_reader *reader, int error, const char *format, ...)
	PRINTF_LIKE(3, 4);
int archive_error(struct archive_reader *reader, int error); /* what strerror() says */
#define archive_bad(reader, ...) archive_fail(reader, -EBADMSG, __VA_ARGS__)

/* -ECANCELED or -ETIMEDOUT once the caller does not wait any longer. */
int archive_go_on(struct archive_reader *reader);

/* -ENOENT when the archive has no such file. */
int archive_file_open(struct archive_reader *reader, const char *name, struct archive_file *file);

/* All of it or an error: -EBADMSG for what ends too soon. */
int archive_pread(int fd, void *data, size_t size, uint64_t offset);

/* archive_tar.c: replaces a compressed archive->fd by what is in it, lists the members. */
int archive_read_tar(struct archive_reader *reader);

/* archive_index.c: finds images and blobs. -ENOENT and -ENOEXEC are of something in the archive. */
int archive_read_index(struct archive_reader *reader);

#define BLOB_PATH     "blobs/sha256/"
#define BLOB_NAME_MAX 96
