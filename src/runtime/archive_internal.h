/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Shared by the parts of the archive reader. Functions return 0, or -errno with reader->why. */

#include "base/json.h"
#include "base/text.h"
#include "runtime/archive.h"

#define BLOB_PATH    "blobs/sha256/%s"
#define OCI_MANIFEST "application/vnd.oci.image.manifest.v1+json"
#define OCI_CONFIG   "application/vnd.oci.image.config.v1+json"
#define OCI_LAYER    "application/vnd.oci.image.layer.v1.tar"
#define SHORT_DIGEST 19 /* length of a digest in messages: "sha256:" and 12 digits */

/*
 * A file of a tar that may belong to an image. Names may be long, so only their hashes are kept.
 * A collision does no harm: the runtime checks all digests.
 */
struct archive_member {
	uint64_t name;
	uint64_t link; /* a link's target, of "" if outside of the archive; 0: a regular file */
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
	size_t n_members, members_allocated, images_allocated, blobs_allocated, parts_allocated;
	size_t json;              /* bytes of the parsed documents: who deletes one sets it back */
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

/* archive_tar.c: lists the members of a tar, which archive_unpack() unpacks first. */
int archive_read_tar(struct archive_reader *reader);

/* ---- archive_unpack.c ---- */

/* OCI_LAYER, with the suffix "+gzip" or "+zstd" for such files. */
const char *archive_layer_type(const struct archive_file *file);

/* Replaces a compressed archive->fd by an unpacked file without a name. */
int archive_unpack(struct archive_reader *reader);

/* The size of a layer without its compression. */
int archive_count_unpacked(
	struct archive_reader *reader, const struct archive_file *file, uint64_t *unpacked);

/* ---- archive_blob.c ---- */

bool archive_is_digest(const char *text);

/* Parses a descriptor, which needs a SHA-256 digest, a size and a media type. */
int archive_read_descriptor(struct archive_reader *reader, const char *parent, const cJSON *item,
	struct archive_blob *blob);

/* Adds a blob once, and counts the unpacked bytes of its file (or NULL). Returns its index. */
int archive_add_blob(
	struct archive_reader *reader, struct archive_blob *blob, const struct archive_file *file);

/* Opens the file of a blob, which must have the size of its descriptor, and adds the blob. */
int archive_open_blob(
	struct archive_reader *reader, struct archive_blob *blob, struct archive_file *file);

/*
 * Parses a JSON document: the named file, whose digest and location go to blob (if not NULL), or
 * with name NULL the blob, whose digest is verified.
 */
int archive_read_document(
	struct archive_reader *reader, const char *name, struct archive_blob *blob, cJSON **json);

/* Calls read() for each object of the list in the named file. The text may hold another value. */
typedef int archive_object_fn(struct archive_reader *reader, const cJSON *object);
int archive_read_list(struct archive_reader *reader, const char *name, archive_object_fn *read);

/* Whether a descriptor or configuration is for this machine: an absent field matches. */
bool archive_fits_machine(const cJSON *platform);
int archive_wrong_machine(struct archive_reader *reader, const char *name);

/* archive_index.c: finds images and blobs. */
int archive_read_index(struct archive_reader *reader);
