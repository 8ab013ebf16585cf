/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Shared by the parts of the archive reader. Functions return 0, or -errno with reader->why. */

#include "base/json.h"
#include "base/text.h"
#include "runtime/archive.h"

#define GZIP_MAGIC "\x1f\x8b"
#define ZSTD_MAGIC "\x28\xb5\x2f\xfd"
#define BLOB_PATH  "blobs/sha256/%s"

/* A file of a tar that may belong to an image. */
struct archive_member {
	char *name;
	char *link; /* a link's target; "": outside of the archive; NULL: a regular file */
	uint64_t offset, size;
};

struct archive_reader {
	const struct host *host;
	unsigned int percent_free;
	uint64_t unpacked_max;
	const struct wait *wait;
	struct archive *archive;
	char *why;
	struct archive_member *members;
	size_t n_members, members_allocated, images_allocated, blobs_allocated;
	unsigned int n_documents; /* parsed so far */
};

struct archive_file {
	int fd; /* the caller closes it */
	uint64_t offset, size;
};

/* Sets the reason and returns error. */
int archive_fail(struct archive_reader *reader, int error, const char *format, ...)
	PRINTF_LIKE(3, 4);
#define archive_bad(reader, ...)     archive_fail(reader, -EBADMSG, __VA_ARGS__)
#define archive_error(reader, error) archive_fail(reader, error, "%s", strerror(-(error)))

/* -ECANCELED or -ETIMEDOUT once the wait is over. */
int archive_check_wait(struct archive_reader *reader);

/* -ENOENT when the archive has no such file. */
int archive_file_open(struct archive_reader *reader, const char *name, struct archive_file *file);

/* Reads size bytes; -EBADMSG at an early end of the file. */
int archive_pread(int fd, void *data, size_t size, uint64_t offset);

/* archive_tar.c: unpacks a compressed archive->fd and lists the members. */
int archive_read_tar(struct archive_reader *reader);

/* archive_tar.c: the size of a layer without its compression. */
int archive_count_unpacked(
	struct archive_reader *reader, const struct archive_file *file, uint64_t *unpacked);

/* archive_index.c: finds images and blobs. */
int archive_read_index(struct archive_reader *reader);
