/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/images/images.h"

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"

/* Slow registries need hours, but a runtime that hangs must not block a transfer for ever. */
#define TRANSFER_US (6 * 3600 * USEC_PER_SEC)

#define RECORD_FILE    "images.json"
#define RECORD_VERSION 1
#define RECORD_MAX     ((size_t)4 * 1024 * 1024)

/* ---- the record ---- */

struct preload *preload_find(const struct preload_list *list, const char *source, const char *name)
{
	for (size_t i = 0; i < list->n; i++)
		if (streq(list->entries[i].source, source) && streq(list->entries[i].name, name))
			return &list->entries[i];
	return NULL;
}

struct preload *preload_add(struct preload_list *list, const char *source, const char *name)
{
	struct preload *preload = add_element(&list->entries, &list->n, &list->allocated);

	copy_text(preload->source, sizeof(preload->source), source);
	copy_text(preload->name, sizeof(preload->name), name);
	return preload;
}

/* Stored as strings: a double cannot represent every inode or time in microseconds. */
static const struct {
	const char *key;
	size_t offset;
} numbers[] = {
	{"device", offsetof(struct preload, key.device)},
	{"inode", offsetof(struct preload, key.inode)},
	{"file_size", offsetof(struct preload, key.size)},
	{"mtime_us", offsetof(struct preload, key.mtime_us)},
	{"ctime_us", offsetof(struct preload, key.ctime_us)},
	{"size", offsetof(struct preload, size)},
	{"need", offsetof(struct preload, need)},
	{"first_seen_us", offsetof(struct preload, first_seen_us)},
	{"peers_have_us", offsetof(struct preload, peers.have_us)},
	{"took_us", offsetof(struct preload, took_us)},
	{"bytes", offsetof(struct preload, bytes)},
};

void record_read(const char *directory, struct preload_list *list)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *root = NULL;
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX];
	const cJSON *item;

	if (snprintf(path, sizeof(path), "%s/" RECORD_FILE, directory) >= PATH_MAX ||
		read_file(path, RECORD_MAX, &text, NULL) < 0)
		return;
	root = cJSON_Parse(text);
	if ((int)json_number_at(root, "version") != RECORD_VERSION)
		return;
	cJSON_ArrayForEach (item, json_at(root, "images")) {
		struct preload *preload =
			preload_add(list, json_text_at(item, "source"), json_text_at(item, "name"));

		copy_text(preload->id, sizeof(preload->id), json_text_at(item, "id"));
		copy_text(
			preload->content, sizeof(preload->content), json_text_at(item, "content"));
		preload->passed = cJSON_IsTrue(json_at(item, "passed"));
		preload->failures = (unsigned)json_number_at(item, "failures");
		for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
			(void)parse_count(json_text_at(item, numbers[i].key),
				(uint64_t *)((char *)preload + numbers[i].offset));
	}
}

char *record_text(const struct preload_list *list)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *root = must(cJSON_CreateObject());
	cJSON *images;

	json_number(root, "version", RECORD_VERSION);
	images = json_array(root, "images");
	for (size_t i = 0; i < list->n; i++) {
		const struct preload *preload = &list->entries[i];
		cJSON *item;

		/* An archive whose content is unknown is read again anyway. */
		if (!preload->name[0] && preload->reason)
			continue;
		item = json_append(images);
		json_text(item, "source", preload->source);
		json_text(item, "name", preload->name);
		json_text(item, "id", preload->id);
		json_text(item, "content", preload->content);
		json_bool(item, "passed", preload->passed);
		json_number(item, "failures", preload->failures);
		for (size_t n = 0; n < ARRAY_SIZE(numbers); n++) {
			const void *number = (const char *)preload + numbers[n].offset;
			char digits[24];

			snprintf(digits, sizeof(digits), "%" PRIu64, *(const uint64_t *)number);
			if (!streq(digits, "0"))
				json_text(item, numbers[n].key, digits);
		}
	}
	return must(cJSON_Print(root));
}

static int record_write(const char *directory, const char *text)
{
	int r = directory[0] ? make_directories(directory, 0755) : -ENODEV;
	_cleanup_close_ int dir = -1;

	if (r == 0)
		dir = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (r == 0)
		r = dir < 0 ? -errno : write_file_atomic(dir, RECORD_FILE, text, strlen(text));
	return r;
}

/* ---- transfers ---- */

void transfer_free(struct transfer *transfer)
{
	free(transfer->ready.items);
	free(transfer->others.items);
	free(transfer->known.entries);
	free(transfer->text);
	free(transfer->asked.entries);
	free(transfer->mirrors);
	free(transfer->found.entries);
	free(transfer);
}

void images_describe_room(char why[static IMAGES_WHY_MAX], uint64_t need, uint64_t budget)
{
	char needs[AMOUNT_MAX + 32] = "", amount[AMOUNT_MAX];

	if (need > 0)
		snprintf(needs, sizeof(needs), "it needs about %s, and ",
			amount_text((double)need, "bytes", amount));
	snprintf(why, IMAGES_WHY_MAX,
		"%sthe image store has %s left before the kubelet deletes images: free some "
		"space, or preload less",
		needs, amount_text((double)budget, "bytes", amount));
}

/* Records the end of a transfer. */
static void note_end(struct preload *preload, uint64_t began_us, int r, const char *reason)
{
	preload->took_us = now_us() - began_us;
	if (r < 0) {
		/* Runtimes report ENOSPC and EDQUOT as text only. */
		preload->disk_full = strcasestr(preload->why, "no space left on device") ||
				     strcasestr(preload->why, "disk quota exceeded");
		preload->reason = preload->disk_full ? "does-not-fit" : reason;
		return;
	}
	preload->why[0] = '\0';
	preload->loaded = true;
}

/* Whether this agent loaded or pulled the image that has the name now. */
static bool is_ours(const struct preload_list *known, const struct runtime_image *there)
{
	for (size_t i = 0; i < known->n; i++)
		if (streq(known->entries[i].name, there->name) &&
			streq(known->entries[i].id, there->id) &&
			(known->entries[i].content[0] || !known->entries[i].source[0]))
			return true;
	return false;
}

/*
 * Whether nothing is to be loaded: the runtime has the archive's image, or others gave its name to
 * another one. Docker's image store of containerd calls an image by its index or manifest.
 */
static int is_there(const struct transfer *transfer, const struct archive_image *image,
	struct preload *preload, const struct wait *wait)
{
	const struct preload *known =
		preload_find(&transfer->known, preload->source, preload->name);
	_cleanup_free_ struct runtime_image *images = NULL;
	const struct runtime_image *there;
	bool same, changed;
	size_t n = 0;
	int r = transfer->runtime.driver->list(&transfer->runtime, wait, &images, &n, preload->why);

	copy_text(preload->id, sizeof(preload->id), image->id);
	if (known && known->content[0]) {
		copy_text(preload->id, sizeof(preload->id), known->id);
		copy_text(preload->content, sizeof(preload->content), known->content);
		preload->passed = known->passed;
	}
	if (r < 0)
		return r;
	there = find_named(images, n, image->name);
	if (!there)
		return 0;
	same = streq(there->id, image->id) || streq(there->id, image->manifest) ||
	       streq(there->id, image->top);
	changed = preload->content[0] && !preload->passed && !streq(preload->content, image->id);
	if (!same && (changed || (!streq(preload->content, image->id) &&
					 is_ours(&transfer->known, there))))
		return 0;
	if (same) {
		copy_text(preload->id, sizeof(preload->id), there->id);
		copy_text(preload->content, sizeof(preload->content), image->id);
	}
	preload->passed = false;
	return 1;
}

static int load_image(struct transfer *transfer, const struct archive *archive,
	const struct archive_image *image, struct preload *preload, const struct wait *wait)
{
	uint64_t began_us = now_us(), before = atomic_load(&transfer->done);
	uint64_t size, used, room = UINT64_MAX;
	int r = is_there(transfer, image, preload, wait);

	/* The layers as they are and unpacked, and 1/16 for the blocks of small files. */
	preload->need = image->size + image->unpacked + image->unpacked / 16;
	if (r > 0)
		return 0;
	if (transfer->store_max > 0 && store_measure(transfer->host, transfer->store, &size, &used))
		room = transfer->store_max - MIN(transfer->store_max, used + transfer->reserved);
	if (r == 0 && preload->need > room) {
		preload->reason = "does-not-fit";
		images_describe_room(preload->why, preload->need, room);
		return 0;
	}
	if (r == 0) {
		atomic_store(&transfer->load_us, now_us());
		r = images_load(&transfer->runtime, transfer->host, archive, image, wait,
			&transfer->done, preload->why);
		atomic_store(&transfer->load_us, 0);
	}
	preload->bytes = atomic_load(&transfer->done) - before;
	note_end(preload, began_us, r, "load-failed");
	if (r < 0)
		return r;
	copy_text(preload->content, sizeof(preload->content), image->id);
	preload->passed = false;
	return 0;
}

static void note_unusable(struct preload *preload, int error, const char *why)
{
	preload->reason = error == -ENOEXEC   ? "wrong-platform"
			  : error == -ENOMSG  ? "unnamed"
			  : error == -EBADMSG ? "archive-broken"
			  : error == -ENOSPC  ? "does-not-fit"
					      : "archive-unreadable";
	preload->final = error == -ENOEXEC || error == -ENOMSG;
	preload->disk_full = error == -ENOSPC;
	copy_text(preload->why, sizeof(preload->why), why);
}

/* To be loaded when the other archive no longer provides the name. */
static void pass_name(const struct transfer *transfer, struct preload *preload)
{
	const struct preload_list *known = &transfer->known;

	preload->passed = true;
	for (size_t i = 0; i < known->n; i++)
		if (known->entries[i].content[0] && streq(known->entries[i].name, preload->name)) {
			copy_text(preload->id, sizeof(preload->id), known->entries[i].id);
			copy_text(preload->content, sizeof(preload->content),
				known->entries[i].content);
		}
}

/* A failure to load an image is recorded with the image; only -ECANCELED ends the loop. */
static int load_images(
	struct transfer *transfer, const struct archive *archive, const struct wait *wait)
{
	int r = 0;

	for (size_t i = 0; r != -ECANCELED && i < archive->n_images; i++) {
		const struct archive_image *image = &archive->images[i];
		struct preload *preload;

		if (text_list_has(&transfer->ready, image->name))
			continue;
		preload = preload_add(&transfer->found, transfer->archive.path, image->name);
		preload->size = image->size;
		if (image->error)
			note_unusable(preload, image->error, image->why);
		else if (text_list_has(&transfer->others, image->name))
			pass_name(transfer, preload);
		else
			r = load_image(transfer, archive, image, preload, wait);
	}
	return r == -ECANCELED ? r : 0;
}

static int run_archive(struct transfer *transfer, const struct wait *wait)
{
	struct preload *whole = preload_add(&transfer->found, transfer->archive.path, "");
	_cleanup_(cleanup_archive_close) struct archive *archive = NULL;
	char why[ARCHIVE_WHY_MAX];
	int r = archive_open(transfer->host, transfer->archive.path, transfer->percent_free,
		transfer->store_max, wait, &archive, why);

	whole->key = transfer->archive.key;
	if (r < 0) {
		note_unusable(whole, r, why);
		return r;
	}
	return load_images(transfer, archive, wait);
}

void images_transfer(void *request, const struct wait *wait)
{
	struct transfer *transfer = request;
	struct wait bounded = wait_at_most(wait, TRANSFER_US);
	_cleanup_free_ struct runtime_image *images = NULL;
	uint64_t began_us = now_us();
	char why[IMAGES_WHY_MAX];
	struct preload *preload;
	size_t n = 0;

	switch (transfer->kind) {
	case TRANSFER_ARCHIVE:
		transfer->error = run_archive(transfer, &bounded);
		break;
	case TRANSFER_PULL:
		preload = preload_add(&transfer->found, "", transfer->name);
		transfer->error = transfer->runtime.driver->pull(&transfer->runtime, transfer->name,
			&bounded, &transfer->done, preload->why);
		note_end(preload, began_us, transfer->error, "pull-failed");
		break;
	case TRANSFER_CLEAN:
		transfer->error =
			images_clean(&transfer->runtime, transfer->host, &bounded, transfer->why);
		break;
	case TRANSFER_RECORD:
		transfer->error = record_write(transfer->host->state, transfer->text);
		break;
	case TRANSFER_ASK:
		peers_ask(transfer, wait);
		break;
	}
	if (transfer->error < 0 || transfer->found.n == 0)
		return;
	/* Learn the ids of the new images and the size of a pulled image. */
	(void)transfer->runtime.driver->list(&transfer->runtime, &bounded, &images, &n, why);
	for (size_t i = 0; i < transfer->found.n; i++) {
		const struct runtime_image *image;

		preload = &transfer->found.entries[i];
		image = find_named(images, n, preload->name);
		if (!image || !preload->loaded)
			continue;
		copy_text(preload->id, sizeof(preload->id), image->id);
		preload->size = MAX(preload->size, image->size);
		if (transfer->kind == TRANSFER_PULL)
			preload->bytes = preload->size;
	}
}
