/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/images/images.h"

#include "base/file.h"

#include <sys/statvfs.h>

/* Slow registries take hours; a runtime that hangs must not hold a transfer for ever. */
#define TRANSFER_US (6 * 3600 * USEC_PER_SEC)

/* Of the file system of the state directory stays free, when an archive is unpacked there. */
#define SPOOL_RESERVE_PERCENT 15

uint64_t transfer_need(const struct image_runtime *runtime, uint64_t size)
{
	return runtime->kind == RUNTIME_DOCKER ? size : 2 * size;
}

void transfer_free(struct transfer *transfer)
{
	free(transfer->skip.items);
	free(transfer->text);
	free(transfer->found.entries);
	free(transfer);
}

void images_describe_room(char why[static IMAGES_WHY_MAX], uint64_t need, uint64_t budget)
{
	snprintf(why, IMAGES_WHY_MAX,
		"it needs about %" PRIu64 " MB, and the image store has %" PRIu64
		" MB before the kubelet deletes images: make room, or preload less",
		need / 1000000, budget / 1000000);
}

void images_describe_full(char why[static IMAGES_WHY_MAX])
{
	snprintf(why, IMAGES_WHY_MAX,
		"stopped: the image store is as full as the kubelet lets it be: make room, or "
		"preload less");
}

/* What the runtime calls the image now. */
static void take_id(const struct runtime_image *images, size_t n, struct preload *preload)
{
	for (size_t i = 0; i < n; i++)
		if (streq(images[i].name, preload->name)) {
			copy_text(preload->id, sizeof(preload->id), images[i].id);
			preload->size = MAX(preload->size, images[i].size);
		}
}

static bool is_there(
	const struct runtime_image *images, size_t n, const struct archive_image *wanted)
{
	for (size_t i = 0; i < n; i++)
		if (streq(images[i].name, wanted->name) && streq(images[i].id, wanted->id))
			return true;
	return false;
}

/* 0, or -ECANCELED; a failure of its own is the image's. */
static int load_image(struct transfer *transfer, const struct archive *archive,
	const struct archive_image *image, const struct wait *wait)
{
	struct preload *preload =
		preload_add(&transfer->found, transfer->archive.path, image->name);
	uint64_t need = transfer_need(&transfer->runtime, image->size);
	uint64_t began_us = now_us(), before = atomic_load(&transfer->done);
	int r;

	copy_text(preload->id, sizeof(preload->id), image->id);
	preload->size = image->size;
	if (need > transfer->budget) {
		preload->reason = "does-not-fit";
		images_describe_room(preload->why, need, transfer->budget);
		return 0;
	}
	r = images_load(&transfer->runtime, transfer->host, archive, image, wait, &transfer->done,
		preload->why);
	preload->bytes = atomic_load(&transfer->done) - before;
	preload->took_us = now_us() - began_us;
	if (r < 0) {
		preload->reason = "load-failed";
		return r == -ECANCELED ? r : 0;
	}
	preload->why[0] = '\0';
	preload->loaded_us = realtime_us();
	if (transfer->budget != UINT64_MAX)
		transfer->budget -= need;
	return 0;
}

static int load_images(
	struct transfer *transfer, const struct archive *archive, const struct wait *wait)
{
	_cleanup_free_ struct runtime_image *images = NULL;
	struct preload *whole = &transfer->found.entries[0];
	size_t n = 0, loaded = 0;
	int r = images_list(&transfer->runtime, wait, &images, &n, whole->why);

	if (r < 0)
		whole->reason = "load-failed";
	for (size_t i = 0; r == 0 && i < archive->n_images; i++) {
		const struct archive_image *image = &archive->images[i];

		if (text_list_has(&transfer->skip, image->name))
			continue;
		if (is_there(images, n, image)) {
			struct preload *preload =
				preload_add(&transfer->found, transfer->archive.path, image->name);

			preload->size = image->size;
			copy_text(preload->id, sizeof(preload->id), image->id);
			continue;
		}
		r = load_image(transfer, archive, image, wait);
		loaded++;
	}
	free(steal(images));
	if (r == 0 && loaded > 0 &&
		images_list(&transfer->runtime, wait, &images, &n, (char[IMAGES_WHY_MAX]){0}) == 0)
		for (size_t i = 1; i < transfer->found.n; i++)
			if (!transfer->found.entries[i].reason)
				take_id(images, n, &transfer->found.entries[i]);
	return r;
}

static int run_archive(struct transfer *transfer, const struct wait *wait)
{
	struct preload *whole = preload_add(&transfer->found, transfer->archive.path, "");
	_cleanup_(cleanup_archive_close) struct archive *archive = NULL;
	struct archive_source source = {
		.host = transfer->host, .path = transfer->archive.path, .spool = -1};
	const char *state = transfer->host->state;
	_cleanup_close_ int spool = -1;
	struct statvfs fs;
	int r;

	whole->key = transfer->archive.key;
	if (state[0] && make_directories(state, 0755) == 0)
		spool = open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	source.spool = spool;
	if (spool >= 0 && fstatvfs(spool, &fs) == 0)
		source.spool_reserve =
			(uint64_t)fs.f_blocks * fs.f_frsize / 100 * SPOOL_RESERVE_PERCENT;
	r = archive_open(&source, wait, &archive, whole->why);
	if (r < 0) {
		whole->reason = r == -EBADMSG  ? "archive-broken"
				: r == -ENOSPC ? "does-not-fit"
					       : "archive-unreadable";
		return r;
	}
	for (size_t i = 0; i < archive->n_images; i++)
		whole->size += archive->images[i].size;
	return load_images(transfer, archive, wait);
}

static int run_pull(struct transfer *transfer, const struct wait *wait)
{
	struct preload *preload = preload_add(&transfer->found, "", transfer->name);
	_cleanup_free_ struct runtime_image *images = NULL;
	uint64_t began_us = now_us();
	size_t n = 0;
	int r = images_pull(&transfer->runtime, transfer->host, transfer->name, wait, preload->why);

	preload->took_us = now_us() - began_us;
	if (r < 0) {
		preload->reason = "pull-failed";
		return r;
	}
	preload->why[0] = '\0';
	preload->loaded_us = realtime_us();
	if (images_list(&transfer->runtime, wait, &images, &n, (char[IMAGES_WHY_MAX]){0}) == 0)
		take_id(images, n, preload);
	preload->bytes = preload->size;
	return 0;
}

void images_transfer(void *request, const struct wait *wait)
{
	struct transfer *transfer = request;
	struct wait bounded = wait_at_most(wait, TRANSFER_US);

	switch (transfer->kind) {
	case TRANSFER_ARCHIVE:
		transfer->error = run_archive(transfer, &bounded);
		break;
	case TRANSFER_PULL:
		transfer->error = run_pull(transfer, &bounded);
		break;
	case TRANSFER_CLEAN:
		transfer->error =
			images_clean(&transfer->runtime, transfer->host, &bounded, transfer->why);
		break;
	case TRANSFER_RECORD:
		transfer->error = record_write(transfer->host->state, transfer->text);
		break;
	}
}
