/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Opens bytes as an archive of images and checks the result. */

#include "../unit/tar.h"
#include "base/file.h"
#include "runtime/images.h"
#include "runtime/registry.h"

static char archive_path[64];

static inline void require(bool holds)
{
	if (!holds)
		abort();
}

static inline void archive_path_remove(void)
{
	unlink(archive_path);
}

static inline int open_archive(const void *data, size_t size, struct archive **archive)
{
	static const struct host host = {.state = "/dev/shm"};
	const struct wait wait = {.deadline_us = UINT64_MAX, .cancel_fd = -1};
	char why[ARCHIVE_WHY_MAX] = "";
	int fd, r;

	if (!archive_path[0]) {
		snprintf(archive_path, sizeof(archive_path), "/dev/shm/headroom-fuzz-%d",
			(int)getpid());
		atexit(archive_path_remove);
	}
	fd = open(archive_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	require(fd >= 0 && write_all(fd, data, size) == 0);
	close(fd);
	r = archive_open(&host, archive_path, 1, 1 << 20, &wait, archive, why);
	require(r == 0 || why[0]);
	return r;
}

/* The archive has all parts of each image without an error, and the bytes of each blob. */
static inline void check_archive(const struct archive *archive)
{
	require(archive->n_images > 0);
	for (size_t i = 0; i < archive->n_images; i++) {
		const struct archive_image *image = &archive->images[i];
		char name[IMAGE_NAME_MAX];

		require(image->error == 0 || image->why[0]);
		if (image->error < 0)
			continue;
		require(image_normalize(image->name, name) == 0 && !strcmp(name, image->name));
		require(find_named(archive->blobs, archive->n_blobs, image->top) &&
			find_named(archive->blobs, archive->n_blobs, image->id));
	}
	for (size_t i = 0; i < archive->n_blobs; i++) {
		const struct archive_blob *blob = &archive->blobs[i];
		_cleanup_free_ char *text =
			blob->made ? archive_manifest_text(archive, blob) : NULL;
		int fd = blob->made ? -1 : archive_blob_open(archive, blob);

		require(text ? strlen(text) == blob->size
			     : fd >= 0 && lseek(fd, 0, SEEK_END) >=
						  (off_t)(blob->offset + blob->size));
		cleanup_close(&fd);
	}
}

static inline void try_archive(const void *data, size_t size)
{
	struct archive *archive;

	if (open_archive(data, size, &archive) < 0)
		return;
	check_archive(archive);
	archive_close(archive);
}
