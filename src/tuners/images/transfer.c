/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/images/images.h"

/* Slow registries need hours, but a runtime that hangs must not block a transfer for ever. */
#define TRANSFER_US (6 * 3600 * USEC_PER_SEC)

/*
 * Room in the store that makes it unnecessary to count the unpacked bytes of layers before a load,
 * which takes about as long as the load: images of an archive need less than this many times its
 * size, and a load of anything else is cancelled, within some samples, before it has written the
 * rest.
 */
#define ROOM_TIMES 6
#define ROOM_MORE  (UINT64_C(16) << 30)

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
static void note_end(struct preload *preload, uint64_t began_us, int r, enum reason reason)
{
	preload->took_us = now_us() - began_us;
	if (r < 0) {
		/* Runtimes report ENOSPC and EDQUOT as text only. */
		preload->disk_full = strcasestr(preload->why, "no space left on device") ||
				     strcasestr(preload->why, "disk quota exceeded");
		preload->reason = preload->disk_full ? REASON_DOES_NOT_FIT : reason;
		return;
	}
	preload->why[0] = '\0';
	preload->loaded = true;
}

/* Returns whether this agent loaded or pulled the image that has the name now. */
static bool is_ours(const struct transfer *transfer, const struct runtime_image *there)
{
	for (size_t i = 0; i < transfer->known.n; i++)
		if (streq(transfer->known.entries[i].name, there->name) &&
			streq(transfer->known.entries[i].id, there->id))
			return true;
	return false;
}

/* Finds an image of this name that was loaded from this archive, or from any. */
static const struct preload *find_known(const struct transfer *transfer, const char *name, bool own)
{
	for (size_t i = 0; i < transfer->known.n; i++) {
		const struct preload *known = &transfer->known.entries[i];

		if (known->content[0] && streq(known->name, name) &&
			(!own || streq(known->source, transfer->archive.path)))
			return known;
	}
	return NULL;
}

/*
 * Returns 1 if nothing is to be loaded: the runtime has the archive's image, or others gave its
 * name to another one. Docker's image store of containerd calls an image by its index or manifest.
 */
static int is_there(const struct transfer *transfer, const struct archive_image *image,
	struct preload *preload, const struct wait *wait)
{
	const struct preload *known = find_known(transfer, preload->name, true);
	struct runtime_image there;
	bool same, changed;
	int r = transfer->runtime.driver->find(
		&transfer->runtime, preload->name, wait, &there, preload->why);

	set_text(preload->id, image->id);
	if (known) {
		set_text(preload->id, known->id);
		set_text(preload->content, known->content);
		preload->passed = known->passed;
	}
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	same = streq(there.id, image->id) || streq(there.id, image->manifest) ||
	       streq(there.id, image->top);
	changed = preload->content[0] && !preload->passed && !streq(preload->content, image->id);
	if (!same &&
		(changed || (!streq(preload->content, image->id) && is_ours(transfer, &there))))
		return 0;
	if (same) {
		set_text(preload->id, there.id);
		set_text(preload->content, image->id);
	}
	preload->of_others = !same;
	preload->passed = false;
	return 1;
}

/* Returns the bytes by which the store may grow. */
static uint64_t measure_room(const struct transfer *transfer)
{
	uint64_t size, used;

	if (transfer->store_max == 0 ||
		!store_measure(transfer->host, transfer->store, &size, &used, NULL))
		return UINT64_MAX;
	return transfer->store_max - MIN(transfer->store_max, used + transfer->reserved);
}

static int load_image(struct transfer *transfer, const struct archive *archive,
	const struct archive_image *image, struct preload *preload, const struct wait *wait)
{
	uint64_t began_us = now_us(), before = atomic_load(&transfer->done);
	uint64_t room = measure_room(transfer);
	int r = is_there(transfer, image, preload, wait);

	/* The layers as they are and unpacked, and 1/16 for the blocks of small files. */
	preload->need = image->size + image->unpacked + image->unpacked / 16;
	if (r > 0)
		return 0;
	if (r == 0 && preload->need > room) {
		preload->reason = REASON_DOES_NOT_FIT;
		images_describe_room(preload->why, preload->need, room);
		return 0;
	}
	if (r == 0) {
		atomic_store(&transfer->load_us, now_us());
		r = images_load(&transfer->runtime, transfer->host, archive, image, wait,
			&transfer->done, &transfer->waits, preload->why);
		atomic_store(&transfer->load_us, 0);
	}
	preload->bytes = atomic_load(&transfer->done) - before;
	/* The name stays theirs until the archive changes. */
	preload->of_others = r == -EREMCHG;
	if (preload->of_others)
		preload->why[0] = '\0';
	else
		note_end(preload, began_us, r, REASON_LOAD_FAILED);
	if (r < 0 && !preload->of_others)
		return r;
	set_text(preload->content, image->id);
	preload->passed = false;
	return 0;
}

static void note_unusable(struct preload *preload, int error, const char *why)
{
	preload->reason = error == -ENOEXEC   ? REASON_WRONG_PLATFORM
			  : error == -ENOMSG  ? REASON_UNNAMED
			  : error == -EBADMSG ? REASON_ARCHIVE_BROKEN
			  : error == -ENOSPC  ? REASON_DOES_NOT_FIT
					      : REASON_ARCHIVE_UNREADABLE;
	preload->disk_full = error == -ENOSPC;
	set_text(preload->why, why);
}

/* Leaves the image to be loaded when the other archive no longer provides the name. */
static void pass_name(const struct transfer *transfer, struct preload *preload)
{
	const struct preload *known = find_known(transfer, preload->name, false);

	preload->passed = true;
	if (known) {
		set_text(preload->id, known->id);
		set_text(preload->content, known->content);
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
	bool ample = measure_room(transfer) >= ROOM_MORE + ROOM_TIMES * transfer->archive.key.size;
	char why[ARCHIVE_WHY_MAX];
	int r = archive_open(transfer->host, transfer->archive.path, transfer->percent_free,
		ample ? 0 : transfer->store_max, wait, &archive, why);

	whole->key = transfer->archive.key;
	if (r < 0) {
		note_unusable(whole, r, why);
		return r;
	}
	return load_images(transfer, archive, wait);
}

/* Learns the ids of the new images and the size of a pulled image. */
static void learn_images(struct transfer *transfer, const struct wait *wait)
{
	bool pulled = transfer->kind == TRANSFER_PULL;

	for (size_t i = 0; i < transfer->found.n; i++) {
		struct preload *preload = &transfer->found.entries[i];
		struct runtime_image image;
		char why[IMAGES_WHY_MAX];
		int r;

		if (!preload->loaded)
			continue;
		r = transfer->runtime.driver->find(
			&transfer->runtime, preload->name, wait, &image, why);
		if (r == 0) {
			set_text(preload->id, image.id);
			preload->size = MAX(preload->size, image.size);
			if (pulled)
				preload->bytes = preload->size;
		} else if (r == -ENOENT) {
			/* As a success it would be transferred again at once. */
			preload->loaded = false;
			preload->reason = pulled ? REASON_PULL_FAILED : REASON_LOAD_FAILED;
			snprintf(preload->why, sizeof(preload->why),
				"%s reported success but does not list the image: see its log",
				transfer->runtime.driver->name);
		}
	}
}

/* ---- questions to the mirrors for the images of transfer->asked ---- */

#define QUESTIONS_MAX ((size_t)128) /* in one task: the next one asks the rest */
#define MIRRORS_MAX   8             /* for one registry */

static size_t list_mirrors(const struct transfer *transfer, const char *image,
	struct mirror_access mirrors[static MIRRORS_MAX])
{
	const struct image_runtime *runtime = &transfer->runtime;
	char registry[IMAGE_NAME_MAX];
	bool named = false;
	size_t n = 0;

	snprintf(registry, sizeof(registry), "%.*s", (int)strcspn(image, "/"), image);
	if (!runtime->driver->mirrors && !streq(registry, "docker.io"))
		return 0;
	if (runtime->driver->find_mirrors)
		n = runtime->driver->find_mirrors(
			runtime, transfer->host, registry, mirrors, MIRRORS_MAX);
	for (size_t i = 0; i < transfer->n_mirrors; i++)
		named |= streq(transfer->mirrors[i].registry, registry);
	for (size_t i = 0; i < transfer->n_mirrors && n < MIRRORS_MAX; i++) {
		const struct runtime_mirror *mirror = &transfer->mirrors[i];
		bool known = !streq(mirror->registry, named ? registry : REGISTRY_DEFAULT);

		for (size_t k = 0; k < n; k++)
			known |= streq(mirrors[k].url, mirror->url);
		if (known)
			continue;
		mirrors[n] =
			(struct mirror_access){.is_root = registry_api_length(mirror->url) > 0};
		memcpy(mirrors[n++].url, mirror->url, REGISTRY_URL_MAX);
	}
	return n;
}

/* The best answer counts: one mirror with the image is enough. */
static void adopt_answer(struct preload *image, const struct mirror_question *question)
{
	enum peers_state state = question->answer < 0    ? PEERS_SILENT
				 : question->answer == 0 ? PEERS_LACK
							 : PEERS_HAVE;

	if (state <= image->peers.state)
		return;
	image->peers.state = state;
	set_text(image->why, question->why);
}

static void ask_peers(struct transfer *transfer, const struct wait *wait)
{
	_cleanup_free_ struct mirror_question *questions =
		must(calloc(QUESTIONS_MAX, sizeof(*questions)));
	struct mirror_access mirrors[MIRRORS_MAX];
	size_t n = 0;

	transfer->error = 0;
	for (size_t i = 0; i < transfer->asked.n; i++) {
		struct preload *image = &transfer->asked.entries[i];
		size_t n_mirrors = list_mirrors(transfer, image->name, mirrors);

		image->peers.state = PEERS_UNKNOWN;
		image->peers.asked_us = realtime_us();
		for (size_t k = 0; k < n_mirrors && n < QUESTIONS_MAX; k++) {
			if (mirrors[k].useless)
				continue;
			memcpy(questions[n].image, image->name, IMAGE_NAME_MAX);
			questions[n].names_registry = transfer->runtime.driver->names_registry;
			questions[n++].mirror = mirrors[k];
		}
		if (n == QUESTIONS_MAX && i + 1 < transfer->asked.n)
			transfer->asked.n = i; /* it may be incomplete */
	}
	mirrors_ask(questions, n, transfer->host->root, wait);
	for (size_t i = 0; i < n; i++) {
		struct preload *image = preload_find(&transfer->asked, "", questions[i].image);

		if (questions[i].answer == -ECANCELED)
			transfer->error = -ECANCELED;
		if (image)
			adopt_answer(image, &questions[i]);
	}
}

/* ---- the task ---- */

static int run_pull(struct transfer *transfer, const struct wait *wait)
{
	struct preload *preload = preload_add(&transfer->found, "", transfer->name);
	const struct runtime_driver *driver = transfer->runtime.driver;
	struct runtime_image there;
	uint64_t began_us = now_us();
	int r;

	/* Others may have brought an image since the sample: the name stays theirs. */
	if (driver->find(&transfer->runtime, transfer->name, wait, &there, preload->why) == 0)
		return 0;
	r = driver->pull(&transfer->runtime, transfer->name, wait, &transfer->done, preload->why);
	note_end(preload, began_us, r, REASON_PULL_FAILED);
	return r;
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
	case TRANSFER_ASK:
		ask_peers(transfer, wait);
		break;
	}
	if (transfer->error == 0)
		learn_images(transfer, &bounded);
}
