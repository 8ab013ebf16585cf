/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Decides which transfers begin, what is pinned, and what is reported. In order: waves; rows, one
 * for each image; archives; pulls; pins; findings. Pure: it reads the tuner and its memory only.
 */

#include "tuners/images/images.h"

#include "config/config.h"

#include <fnmatch.h>
#include <math.h>
#include <zlib.h>

#define BACKOFF_FIRST_US (10 * USEC_PER_SEC)
#define BACKOFF_MAX_US   (600 * USEC_PER_SEC)

/* The kubelet's default of imageGCHighThresholdPercent. */
#define STORE_PERCENT 85

/* Three intervals of samples: then it is not known any more what the runtime has. */
#define KNOWN_US (90 * USEC_PER_SEC)

struct decision {
	const struct images_tuner *tuner;
	const struct decide_input *input;
	struct images_memory *memory;
	struct element_index by_name; /* finds rows */
	enum reason obstacle;         /* why no transfer begins, or REASON_NONE */
	bool overdue;                 /* the sample is too old */
	uint64_t realtime_us;
	uint64_t percent;   /* how much of the store may be used */
	uint64_t store_max; /* the same in bytes; 0: unknown */
	uint64_t budget;    /* bytes by which the store may grow */
	uint64_t reserved;  /* part of the budget for transfers under way */
	bool archive_busy;  /* an archive is being loaded or begins now */
	bool cleaning;      /* leftovers are being removed: nothing else begins */
	bool asks;          /* the mirrors of a row are to be asked */
	bool pulls_turn;    /* with `parallel: 1`: no archive begins */
	bool yields;        /* a listed process on the disk is slow: nothing begins */
	bool waits;         /* a transfer waits for it */
	unsigned busy;      /* pulls and archives under way or beginning now */
};

const char *const image_state_names[] = {
	[IMAGE_PENDING] = "pending",
	[IMAGE_ACTIVE] = "active",
	[IMAGE_READY] = "ready",
	[IMAGE_MOVED] = "moved",
	[IMAGE_FAILED] = "failed",
};

const struct transfer *images_active(const struct images_tuner *tuner, enum transfer_kind kind,
	const char *path, const char *name)
{
	for (size_t i = 0; i < tuner->n_active; i++)
		if (tuner->active[i]->kind == kind && streq(tuner->active[i]->archive.path, path) &&
			streq(tuner->active[i]->name, name))
			return tuner->active[i];
	return NULL;
}

/* ---- waves: see images.h ---- */

/* If no peer has the image after this time, the nodes go upstream one after the other. */
#define PATIENCE_US     (180 * USEC_PER_SEC)
#define PATIENCE_ROUNDS 4

/* The first nodes go upstream after this many rounds. Perhaps the hash selected no seed, or all
 * seeds failed. */
#define TRICKLE_ROUNDS 2

#define HANGS_US (10 * USEC_PER_SEC) /* a question takes 2 s at most */

/* Nodes that pull upstream at once are rarely more than seeds and this many. */
static double spare(const struct wave *wave)
{
	return 3 * sqrt(MAX(wave->seeds, 1U));
}

/* Returns the node's place in the order of the hash: 0 to 1. */
static double place_of(const char *node, const char *image)
{
	const char *const parts[] = {node, "|", image, "|"};
	uint64_t h = HASH_START;

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		h = hash_text(h, parts[i]);
	/* MurmurHash3's fmix64: the last bytes, in which names of nodes differ, hardly change the
	 * high bits of FNV-1a. */
	h = (h ^ h >> 33) * UINT64_C(0xff51afd7ed558ccd);
	h = (h ^ h >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
	return (double)(h ^ h >> 33) / 0x1p64;
}

/* Returns the round of a node's first attempt. */
static unsigned round_of(const struct wave *wave, const char *node, const char *image)
{
	double begun = (double)MAX(wave->seeds, 1U) / MAX(wave->nodes, 1U);
	double place = place_of(node, image);
	unsigned round = 0;

	for (; begun < 1 && place >= begun; begun *= MAX(wave->growth, 2U))
		round++;
	return round;
}

uint64_t wave_due_us(
	const struct wave *wave, const char *node, const char *image, unsigned failures)
{
	return wave->start_us + (uint64_t)(round_of(wave, node, image) + failures) * wave->round_us;
}

/* In the order of the hash, a few nodes begin, then as many in a round as upstream can serve. */
static uint64_t upstream_due_us(
	const struct wave *wave, const char *node, const char *image, unsigned failures)
{
	uint64_t soon_us = TRICKLE_ROUNDS * wave->round_us;
	uint64_t patience_us = MAX(PATIENCE_US, PATIENCE_ROUNDS * wave->round_us);
	double before = place_of(node, image) * wave->nodes - MAX(wave->seeds, 1U);
	double late = (before - spare(wave)) / (MAX(wave->seeds, 1U) + spare(wave));

	if (late < 0)
		soon_us += (uint64_t)(MAX(before, 0.0) / spare(wave) *
				      (double)(patience_us - soon_us));
	else
		soon_us = patience_us + (uint64_t)(late * (double)wave->round_us);
	return soon_us + failures * wave->round_us;
}

/*
 * Like wave_due_us() for a node that asks its peers from since_us on. have_us is when one first had
 * the image (0: not yet): the measure of a pull, unless a peer had it when first asked.
 */
static uint64_t peers_due_us(const struct wave *wave, const char *node, const char *image,
	unsigned failures, uint64_t since_us, uint64_t have_us)
{
	uint64_t rounds = round_of(wave, node, image), took_us, step_us = wave->round_us;
	uint64_t latest_us = since_us + upstream_due_us(wave, node, image, failures);

	if (rounds == 0 || (have_us > 0 && have_us <= since_us))
		return wave_due_us(wave, node, image, failures);
	if (have_us == 0)
		return latest_us;
	/* The node would have begun before a later answer: the clock was set ahead. */
	have_us = MIN(have_us, latest_us);
	/* The peer had it up to one interval before the question. */
	took_us = have_us - since_us - MIN(have_us - since_us, WAVE_ASK_EVERY_US);
	if (took_us > step_us + step_us * 3 / 10)
		step_us = took_us + took_us / 4;
	return MAX(have_us, since_us + wave->round_us) + (rounds + failures - 1) * step_us;
}

/* Returns whether the answers of the mirrors count, or rounds by time alone. */
static bool is_gated(const struct wave *wave, const struct peers *peers)
{
	return wave->gate == WAVE_PEERS ||
	       (wave->gate == WAVE_AUTO && peers->state != PEERS_UNKNOWN &&
		       peers->state != PEERS_SILENT);
}

static void describe_wait(struct image_row *row, const struct wave *wave)
{
	const struct peers *peers = &row->preload.peers;

	row->reason = REASON_WAVE_WAITS;
	if (wave->gate == WAVE_OFF)
		return;
	if (peers->state == PEERS_SILENT)
		snprintf(row->why, sizeof(row->why), "%s%s", row->preload.why,
			wave->gate == WAVE_AUTO ? ": begins at the time of its wave" : "");
	else if (peers->state == PEERS_UNKNOWN || peers->have_us == 1)
		snprintf(row->why, sizeof(row->why), "%s: begins at the time of its wave",
			peers->have_us == 1 ? "the mirror had it when first asked"
					    : "its registry has no mirror");
	else if (peers->have_us > 0)
		row->reason = REASON_PEERS_HAVE_IT;
	else if (peers->state == PEERS_LACK)
		row->reason = REASON_PEERS_LACK_IT;
}

/* Sets the row's wave and its begin by the clock. now_us: CLOCK_REALTIME. */
static void wave_plan(const struct images_tuner *tuner, struct image_row *row, uint64_t now_us)
{
	const char *node = tuner->host->node_name;
	struct wave wave = tuner->config.wave;

	if (wave.nodes <= 1)
		return;
	if (wave.start_us == 0)
		wave.start_us = row->preload.first_seen_us ? row->preload.first_seen_us : now_us;
	row->wave = (int)round_of(&wave, node, row->preload.name);
	row->planned_us = wave_due_us(&wave, node, row->preload.name, 0);
}

/* Returns whether a pull waits. Sets row->retry_us, and row->asks to have its mirrors asked. */
static bool wave_waits(const struct images_tuner *tuner, struct image_row *row,
	uint64_t monotonic_us, uint64_t now_us)
{
	const char *node = tuner->host->node_name, *name = row->preload.name;
	const struct peers *peers = &row->preload.peers;
	const struct transfer *ask = images_active(tuner, TRANSFER_ASK, "", "");
	struct wave wave = tuner->config.wave;
	uint64_t first_us = row->preload.first_seen_us, due_us, since_us;
	unsigned failures = row->preload.failures;

	if (wave.nodes <= 1)
		return false;
	if (first_us == 0)
		first_us = now_us;
	if (wave.start_us == 0)
		wave.start_us = first_us;
	since_us = MAX(wave.start_us, first_us);
	due_us = is_gated(&wave, peers)
			 ? peers_due_us(&wave, node, name, failures, since_us, peers->have_us)
			 : wave_due_us(&wave, node, name, failures);
	row->asks = wave.gate != WAVE_OFF && peers->have_us == 0 && now_us >= since_us &&
		    round_of(&wave, node, name) > 0 &&
		    (peers->asked_us < since_us ||
			    (now_us - since_us) / WAVE_ASK_EVERY_US !=
				    (peers->asked_us - since_us) / WAVE_ASK_EVERY_US);
	/* A late node asks first, but not for ever: a file of a mirror may hang. */
	if (due_us <= now_us && (!row->asks || peers->state != PEERS_UNASKED ||
					(ask && monotonic_us > ask->began_us + HANGS_US)))
		return row->asks = false;
	row->retry_us = monotonic_us + MAX(due_us, now_us) - now_us;
	if (row->state == IMAGE_PENDING)
		describe_wait(row, &wave);
	return true;
}

/* ---- rows ---- */

static struct image_row *find_row(struct decision *decision, const char *name)
{
	return find_indexed(&decision->by_name, decision->memory->rows, decision->memory->n, name);
}

static struct image_row *add_row(struct decision *decision, const struct preload *known,
	const char *source, const char *name)
{
	struct images_memory *memory = decision->memory;
	const struct runtime_image *image = sampled_image(&decision->tuner->sample, name);
	struct image_row *row = find_row(decision, name);

	if (!row)
		row = add_element(&memory->rows, &memory->n, &memory->allocated);
	*row = (struct image_row){
		.pinned = -1, .wave = -1, .state = IMAGE_PENDING, .reason = REASON_QUEUED};
	if (known)
		row->preload = *known;
	set_text(row->preload.source, source);
	set_text(row->preload.name, name);
	if (image && decision->tuner->sample.runtime.driver->honours_pins)
		row->pinned = image->pinned;
	return row;
}

static void become(struct image_row *row, enum image_state state, enum reason reason)
{
	row->state = state;
	row->reason = reason;
}

/* Returns whether `headroom apply` ran after the failure. */
static bool is_forced(const struct decision *decision, const struct preload *preload)
{
	return preload->reason && decision->memory->forced_us > preload->done_us;
}

/* The row stays failed until an attempt succeeds. Returns whether the next attempt is due. */
static bool judge_failure(struct decision *decision, struct image_row *row)
{
	const struct preload *preload = &row->preload;
	const char *node = decision->tuner->host->node_name;
	unsigned doublings = MIN(MAX(preload->failures, 1U) - 1, 6U);
	uint64_t backoff_us = MIN(BACKOFF_FIRST_US << doublings, BACKOFF_MAX_US);
	uLong hash = crc32(preload->failures, (const Bytef *)node, (uInt)strlen(node));

	become(row, IMAGE_FAILED, preload->reason);
	set_text(row->why, preload->why);
	if (is_forced(decision, preload))
		return true;
	/* Another attempt with the same archive cannot succeed. */
	if (!reason_rows[preload->reason].retry)
		return false;
	if (preload->disk_full)
		backoff_us = BACKOFF_MAX_US;
	/* Exponential back-off, plus up to 50 % so that nodes do not retry at the same time. */
	hash = crc32(hash, (const Bytef *)preload->name, (uInt)strlen(preload->name));
	row->retry_us = preload->done_us + backoff_us + backoff_us / 2 * (hash & 1023) / 1024;
	return decision->input->now_us >= row->retry_us;
}

/* Leaves an image to others that delete it again and again, until `headroom apply`. */
static bool is_left(struct decision *decision, struct image_row *row)
{
	if (row->preload.rounds < PRELOAD_ROUNDS_MAX ||
		decision->memory->forced_us > row->preload.done_us)
		return false;
	become(row, IMAGE_FAILED, REASON_DELETED_BY_OTHERS);
	snprintf(row->why, sizeof(row->why),
		"others deleted it %d times within ten minutes: it is left to them",
		PRELOAD_ROUNDS_MAX);
	return true;
}

/* Returns whether a transfer since the last sample knows what the runtime has. */
static bool is_newer(const struct decision *decision, const struct preload *preload)
{
	return !preload->reason &&
	       preload->done_us >= MAX(decision->tuner->sample.now_us, UINT64_C(1));
}

/* Returns whether the runtime has the image, in the sample or from a later transfer. */
static bool is_ready(const struct decision *decision, const struct preload *preload)
{
	const struct runtime_image *image = sampled_image(&decision->tuner->sample, preload->name);

	if (decision->overdue)
		return false;
	if (is_newer(decision, preload))
		return !preload->of_others && !preload->passed;
	return image &&
	       (!preload->source[0] || (streq(image->id, preload->id) && !preload->passed &&
					       preload->failures == 0));
}

/* Returns whether another image of others has the name. */
static bool is_moved(const struct decision *decision, const struct preload *preload)
{
	const struct runtime_image *image = sampled_image(&decision->tuner->sample, preload->name);

	if (decision->overdue || preload->passed || preload->reason || preload->failures > 0)
		return false;
	return is_newer(decision, preload) ? preload->of_others
					   : image && !streq(image->id, preload->id);
}

/* Counts a transfer that is under way or begins now. */
static void occupy(struct decision *decision, const struct transfer *transfer)
{
	enum transfer_kind kind = transfer->kind;

	decision->reserved += transfer->need;
	decision->busy += kind == TRANSFER_ARCHIVE || kind == TRANSFER_PULL;
	decision->archive_busy |= kind == TRANSFER_ARCHIVE || kind == TRANSFER_CLEAN;
	decision->cleaning |= kind == TRANSFER_CLEAN;
}

/* Returns the bytes in the store, which may keep an image packed and unpacked. */
static uint64_t need_of(const struct decision *decision, const struct preload *preload)
{
	const struct runtime_driver *driver = decision->tuner->sample.runtime.driver;

	return preload->need > 0 || !driver ? preload->need
					    : driver->copies_per_image * preload->size;
}

/* Returns whether the image fits now. If it cannot fit at all, the row becomes failed. */
static bool fits(const struct decision *decision, struct image_row *row)
{
	uint64_t need = need_of(decision, &row->preload);

	if (need <= decision->budget && decision->budget > 0)
		return need <= decision->budget - MIN(decision->budget, decision->reserved);
	become(row, IMAGE_FAILED, REASON_DOES_NOT_FIT);
	images_describe_room(row->why, need, decision->budget);
	return false;
}

/* ---- a listed process on the disk of the store ---- */

/* So long in all, while transfers are under way or wait: a disk may be slow for ever. */
#define YIELD_MAX_US (600 * USEC_PER_SEC)

static void wait_for_syncs(struct decision *decision, struct image_row *row)
{
	const struct node_slow *slow = &decision->tuner->facts->disks.slow;
	char p99[TIME_TEXT_MAX];

	latency_text(slow->p99, p99);
	decision->waits = true;
	row->reason = REASON_WAITS_FOR_SYNCS;
	snprintf(row->why, sizeof(row->why),
		"%s is slow on the same disk: p99 of its syncs is %s (storage.sync_p99): it goes on "
		"after ten minutes at most",
		slow->process, p99);
}

/* Begins with the time since the last decision, in which a transfer waited. */
static void begin_yield(struct decision *decision)
{
	struct images_memory *memory = decision->memory;
	const struct facts *facts = decision->tuner->facts;

	if (memory->yield_at_us > 0)
		memory->yield_us += decision->input->now_us - memory->yield_at_us;
	decision->yields = facts && facts->disks.slow.process[0] && !decision->obstacle &&
			   memory->yield_us < YIELD_MAX_US;
}

static void end_yield(struct decision *decision)
{
	struct images_memory *memory = decision->memory;

	memory->yields = decision->yields;
	memory->yield_at_us = decision->waits ? decision->input->now_us : 0;
	if (!decision->waits && decision->busy == 0)
		memory->yield_us = 0;
}

/* ---- transfers ---- */

static void begin(struct decision *decision, enum transfer_kind kind,
	const struct archive_file *archive, const char *name, uint64_t need)
{
	struct transfer *next = &decision->memory->begin[decision->memory->n_begin++];

	*next = (struct transfer){.kind = kind,
		.need = need,
		.store_max = decision->store_max,
		.reserved = decision->reserved,
		.percent_free = (unsigned)(100 - MIN(decision->percent, STORE_PERCENT))};
	if (archive)
		next->archive = *archive;
	set_text(next->name, name);
	occupy(decision, next);
}

/* ---- archives ---- */

/*
 * Adds a row for each image of the archive or, while its content is unknown, for the archive.
 * Returns whether it should be loaded; need is then the number of bytes in the store.
 */
static bool judge_archive(
	struct decision *decision, const struct archive_file *file, bool active, uint64_t *need)
{
	const struct preload_list *record = &decision->tuner->record;
	const struct preload *whole = preload_find(record, file->path, "");
	struct image_row *row;
	bool wanted = false;

	if (whole && memcmp(&whole->key, &file->key, sizeof(file->key)) != 0)
		whole = NULL;
	if (whole && !whole->reason) {
		for (size_t i = preload_first(record, file->path);
			i < record->n && streq(record->entries[i].source, file->path); i++) {
			const struct preload *preload = &record->entries[i];

			if (!preload->name[0])
				continue;
			/* The first archive with the name for this machine provides it. */
			row = find_row(decision, preload->name);
			if (row && reason_rows[row->preload.reason].retry)
				continue;
			row = add_row(decision, preload, file->path, preload->name);
			if (active)
				become(row, IMAGE_ACTIVE, REASON_LOADING);
			if (is_moved(decision, preload)) {
				become(row, IMAGE_MOVED, REASON_MOVED_BY_OTHERS);
				set_text(row->why,
					"another image of others has this name and stays: to load "
					"the archive, remove the name");
			} else if (is_ready(decision, preload)) {
				become(row, IMAGE_READY, REASON_PRESENT);
			}
			if (row->state != IMAGE_PENDING || decision->obstacle)
				continue;
			if ((preload->reason && !judge_failure(decision, row)) ||
				is_left(decision, row))
				continue;
			if (fits(decision, row)) {
				wanted = true;
				*need += need_of(decision, preload);
			}
		}
		return wanted;
	}
	row = add_row(decision, whole, file->path, file->path);
	row->preload.size = file->key.size;
	*need = need_of(decision, &row->preload);
	if (active)
		become(row, IMAGE_ACTIVE, REASON_LOADING);
	return !active && (!whole || judge_failure(decision, row));
}

static void decide_archive(struct decision *decision, const struct archive_file *file)
{
	bool active = images_active(decision->tuner, TRANSFER_ARCHIVE, file->path, ""), wanted;
	struct images_memory *memory = decision->memory;
	enum reason reason = decision->obstacle;
	size_t first = memory->n;
	struct image_row *row;
	uint64_t need = 0;

	if (file->error < 0) {
		row = add_row(decision, NULL, file->path, file->path);
		become(row, IMAGE_FAILED, REASON_ARCHIVE_UNREADABLE);
		if (file->error == -EINVAL)
			set_text(row->why,
				"neither a regular file nor an OCI layout: replace it, or remove it "
				"from images.archives");
		else if (file->error == -ENAMETOOLONG)
			snprintf(row->why, sizeof(row->why),
				"its path is too long: use at most %d characters",
				IMAGES_TEXT_MAX - 1);
		else
			snprintf(row->why, sizeof(row->why),
				"%s: create it, or remove it from images.archives",
				strerror(-file->error));
		return;
	}
	wanted = judge_archive(decision, file, active, &need);
	if (!reason && wanted && file->settling)
		reason = REASON_SETTLING;
	for (size_t i = first; reason && i < memory->n; i++)
		if (memory->rows[i].state == IMAGE_PENDING)
			memory->rows[i].reason = reason;
	for (size_t i = first; decision->yields && (active || (wanted && !reason)) && i < memory->n;
		i++)
		if (memory->rows[i].state == (active ? IMAGE_ACTIVE : IMAGE_PENDING))
			wait_for_syncs(decision, &memory->rows[i]);
	if (wanted && !reason && !decision->archive_busy && !decision->pulls_turn &&
		!decision->yields && decision->busy < decision->tuner->config.parallel)
		begin(decision, TRANSFER_ARCHIVE, file, "", need);
}

static void strip_slashes(char *path)
{
	for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
		path[n - 1] = '\0';
}

/* A pattern names an archive or its directory. */
static bool matches(const char *pattern, const char *path)
{
	char wanted[IMAGES_TEXT_MAX], directory[IMAGES_TEXT_MAX];

	set_text(wanted, pattern);
	strip_slashes(wanted);
	snprintf(directory, sizeof(directory), "%.*s", (int)(strrchr(path, '/') + 1 - path), path);
	strip_slashes(directory);
	return streq(wanted, path) || fnmatch(wanted, path, FNM_PATHNAME) == 0 ||
	       streq(wanted, directory) || fnmatch(wanted, directory, FNM_PATHNAME) == 0;
}

/* The sample may be older than the configuration, and the next one may hang. */
static bool is_configured(const struct images_tuner *tuner, const char *path)
{
	const struct text_list *patterns = &tuner->config.archives;
	bool found = tuner->sample.generation == tuner->config.generation;

	for (size_t i = 0; i < patterns->n && !found; i++)
		found = matches(patterns->items[i], path);
	return found;
}

/* ---- pulls ---- */

static void decide_pull(struct decision *decision, const char *name)
{
	const struct preload *known = preload_find(&decision->tuner->record, "", name);
	struct image_row *row;

	if (find_row(decision, name))
		return; /* an archive has it */
	row = add_row(decision, known, "", name);
	wave_plan(decision->tuner, row, decision->realtime_us);
	if (is_ready(decision, &row->preload)) {
		become(row, IMAGE_READY, REASON_PRESENT);
	} else if (images_active(decision->tuner, TRANSFER_PULL, "", name)) {
		become(row, IMAGE_ACTIVE, REASON_PULLING);
	} else if (decision->obstacle) {
		row->reason = decision->obstacle;
	} else if ((row->preload.reason && !judge_failure(decision, row)) ||
		   is_left(decision, row)) {
		return;
	} else if (decision->cleaning ||
		   (!is_forced(decision, &row->preload) &&
			   wave_waits(decision->tuner, row, decision->input->now_us,
				   decision->realtime_us))) {
		decision->asks |= row->asks;
	} else if (fits(decision, row) && decision->yields) {
		wait_for_syncs(decision, row);
	} else if (fits(decision, row) && decision->busy < decision->tuner->config.parallel) {
		begin(decision, TRANSFER_PULL, NULL, name, need_of(decision, &row->preload));
	} else {
		decision->memory->pull_waits |= row->state == IMAGE_PENDING;
	}
}

/* ---- pins ---- */

static void want_pin(
	const struct images_tuner *tuner, const char *name, bool pinned, struct proposal *proposal)
{
	const struct images_sample *sample = &tuner->sample;
	const struct runtime_image *image = sampled_image(sample, name);
	const struct runtime_driver *driver = sample->runtime.driver;
	struct want *want = proposal_value(proposal);
	size_t len = strlen(name), most = SETTING_NAME_MAX - sizeof("pin.");

	/* Keep the end of a long name: it holds the tag or digest. */
	snprintf(want->name, sizeof(want->name), "pin.%s", name + len - MIN(len, most));
	want->reason = pinned ? REASON_CONFIGURED : REASON_NO_LONGER_CONFIGURED;
	if (!sample->answers) {
		want->reason = REASON_RUNTIME_SILENT;
	} else if (!driver->honours_pins && image && image->pinned && pinned) {
		copy_text(want->wanted, SETTING_VALUE_MAX, PINNED); /* by the runtime itself */
	} else if (!driver->honours_pins || !driver->honours_pins(sample->runtime.daemon.version)) {
		want->error = -ENOENT;
		want->reason = driver->honours_pins ? REASON_PINS_IGNORED : REASON_NO_PINS;
		want->requested = pinned && tuner->config.pins_given;
		if (want->requested)
			set_text(want->wanted, PINNED);
		snprintf(want->why, sizeof(want->why),
			driver->honours_pins ? "%s %s ignores pins: update it, or remove images.pin"
					     : "%s %s has no pins: remove images.pin; with "
					       "cri-dockerd use its option --pinned-images",
			driver->name, sample->runtime.daemon.version);
	} else if (!image) {
		want->reason = REASON_IMAGE_MISSING;
	} else {
		copy_text(want->wanted, SETTING_VALUE_MAX, pinned ? PINNED : NOT_PINNED);
	}
	want->kind = SETTING_PIN;
	set_text(want->pin.image, name);
	set_text(want->pin.driver, driver->name);
	set_text(want->pin.socket, sample->runtime.daemon.socket);
	if (image && !want->error)
		copy_text(want->actual, SETTING_VALUE_MAX, image->pinned ? PINNED : NOT_PINNED);
}

static bool is_wanted(const struct images_tuner *tuner, const char *name)
{
	return text_list_has(&tuner->config.pins, name) ||
	       (streq(name, tuner->sample.sandbox) &&
		       text_list_has(&tuner->config.pins, IMAGES_SANDBOX));
}

static void decide_pins(const struct images_tuner *tuner, const struct decide_input *input,
	struct proposal *proposal)
{
	const struct images_sample *sample = &tuner->sample;
	const struct text_list *pins = &tuner->config.pins;

	if (!sample->runtime.socket[0])
		return;
	if (sample->sandbox[0] && is_wanted(tuner, sample->sandbox))
		want_pin(tuner, sample->sandbox, true, proposal);
	for (size_t i = 0; i < pins->n; i++)
		if (!streq(pins->items[i], IMAGES_SANDBOX) &&
			!streq(pins->items[i], sample->sandbox))
			want_pin(tuner, pins->items[i], true, proposal);
	if (!sample->sandbox[0] && text_list_has(pins, IMAGES_SANDBOX))
		return;
	/* Unpin images of an older configuration and an older sandbox image. */
	for (size_t i = 0; i < input->n_pins; i++) {
		const char *name = input->pins[i].target.image;
		const struct runtime_image *image = sampled_image(sample, name);

		if (image && image->pinned && !is_wanted(tuner, name))
			want_pin(tuner, name, false, proposal);
	}
}

/* ---- findings ---- */

/* The first pod pulls the sandbox image. */
#define SANDBOX_AFTER_US (60 * USEC_PER_SEC)

static struct finding *find_image(const struct decision *decision, struct proposal *proposal,
	unsigned condition, enum reason reason, const char *name, enum finding_phase phase)
{
	const struct condition_type *type = &images_conditions[condition];
	struct instance instance = {.kind = INSTANCE_IMAGE};
	struct finding *finding;

	set_text(instance.name, name);
	finding = proposal_finding(proposal, decision->input, type, reason, NULL, &instance, phase);
	if (finding)
		finding->breaks = type->help;
	return finding;
}

/* The command that pulls an image by hand. */
static void cure_with_pull(
	struct finding *finding, const struct images_sample *sample, const char *name)
{
	char word[SHELL_WORD_MAX];

	if (sample->puller[0])
		finding_now(finding, "%s %s", sample->puller, shell_word(word, name));
	else
		finding_hint(finding, "install %s, and pull it by hand",
			sample->runtime.driver->serves_kubelet ? "crictl (cri-tools)"
							       : "the docker CLI");
}

/* A failed pull can be tried by hand; the other reasons need a decision. */
static void find_failed(
	const struct decision *decision, const struct image_row *row, struct proposal *proposal)
{
	static const char *const hints[REASONS] = {
		[REASON_ARCHIVE_BROKEN] = "copy the archive again: it is loaded when it changes",
		[REASON_ARCHIVE_UNREADABLE] = "make it readable for root, or remove it from "
					      "images.archives",
		[REASON_WRONG_PLATFORM] = "save the image for the platform of this node",
		[REASON_UNNAMED] = "save the image by a complete name: docker save REPOSITORY:TAG",
		[REASON_DOES_NOT_FIT] = "remove images that are not in use, give the store more "
					"room, or preload less",
		[REASON_LOAD_FAILED] = "headroom apply tries again at once; the log of the runtime "
				       "may say more",
		[REASON_DELETED_BY_OTHERS] = "find out who deletes it; images.pin protects it from "
					     "the kubelet; headroom apply tries again at once",
		[REASON_TOO_MANY_ARCHIVES] = "put several images into one archive",
		[REASON_PULL_FAILED] = "the command shows the answer of the registry; headroom "
				       "apply tries again at once",
	};
	bool is_retried = row->state == IMAGE_ACTIVE;
	enum reason reason = is_retried ? row->preload.reason : row->reason;
	struct finding *finding = find_image(decision, proposal, IMAGE_PRELOAD_FAILED, reason,
		row->preload.name, is_retried ? FINDING_LASTS : FINDING_HAPPENS);

	if (!finding)
		return;
	finding_message(finding, "%s", is_retried ? row->preload.why : row->why);
	if (hints[reason])
		finding_hint(finding, "%s", hints[reason]);
	if (reason == REASON_PULL_FAILED)
		cure_with_pull(finding, &decision->tuner->sample, row->preload.name);
}

static void judge_preloads(const struct decision *decision, struct proposal *proposal)
{
	const struct images_sample *sample = &decision->tuner->sample;
	const struct images_memory *memory = decision->memory;
	struct condition_reading *condition = proposal_condition(
		proposal, &images_conditions[IMAGE_PRELOAD_FAILED], REASON_NONE_WANTED);
	struct image_row beyond = {.state = IMAGE_FAILED, .reason = REASON_TOO_MANY_ARCHIVES};

	if (sample->n_archives > ARCHIVES_MAX) {
		set_text(beyond.preload.name, sample->archives[ARCHIVES_MAX].path);
		snprintf(beyond.why, sizeof(beyond.why),
			"it and more are beyond %zu archives and not loaded", ARCHIVES_MAX);
		find_failed(decision, &beyond, proposal);
		condition->n_failed++;
	}
	for (size_t i = 0; i < memory->n; i++) {
		const struct image_row *row = &memory->rows[i];

		if (row->state == IMAGE_FAILED ||
			(row->state == IMAGE_ACTIVE && row->preload.reason)) {
			find_failed(decision, row, proposal);
			condition->n_failed++;
		}
		if (row->state != IMAGE_READY)
			condition->reason =
				row->state == IMAGE_MOVED ? row->reason : REASON_UNDER_WAY;
		else if (condition->reason == REASON_NONE_WANTED)
			condition->reason = REASON_ALL_PRESENT;
	}
}

/* The kubelet may ask the registry for images that it did not pull itself. */
static void find_verification(const struct decision *decision, struct proposal *proposal)
{
	const struct kubelet_seen *kubelet = &decision->tuner->sample.kubelet;
	const struct kubelet_value *policy = &kubelet->values.field[KUBELET_PULL_VERIFICATION];
	bool listed = streq(policy->text, "NeverVerifyAllowlistedImages");
	struct finding *finding;

	if (kubelet->presence != KUBELET_RUNNING || decision->memory->n == 0 ||
		policy->origin != KUBELET_FILE || (!listed && !streq(policy->text, "AlwaysVerify")))
		return;
	finding = find_image(decision, proposal, IMAGE_PRELOAD_FAILED, REASON_KUBELET_VERIFIES,
		kubelet_fields[KUBELET_PULL_VERIFICATION].name, FINDING_HAPPENS);
	if (!finding)
		return;
	finding->severity = SEVERITY_ADVICE;
	finding_message(finding,
		"%s:%u: %s: the kubelet asks the registry before a pod may use a preloaded image%s, "
		"and refuses it if the registry does, or with imagePullPolicy: Never",
		policy->file, policy->line, policy->text,
		listed ? " that preloadedImagesVerificationAllowlist does not name" : "");
	finding_hint(finding, "%s",
		listed ? "name the images in preloadedImagesVerificationAllowlist"
		       : "set NeverVerifyPreloadedImages, the default, or "
			 "NeverVerifyAllowlistedImages with a list");
}

/* The sandbox image joins the configured pulls: a list replaces those of earlier files. */
static void keep_pulling(
	struct finding *finding, const struct decision *decision, const char *sandbox)
{
	const struct text_list *pulls = &decision->tuner->config.pulls;
	const struct config *config = decision->input->config;
	_cleanup_free_ char *list = NULL;
	size_t len = 0;
	FILE *out = must(open_memstream(&list, &len));

	for (size_t i = 0; i < pulls->n; i++)
		fprintf(out, "\"%s\", ", pulls->items[i]);
	fprintf(out, "\"%s\"", sandbox);
	fclose(out);
	finding_keep(finding, decision->input, "images", "images: {pull: [%s]}", list);
	if (config && config_is_given(config, "images.pull"))
		finding_keep_in(finding, decision->input, config_where(config, "images.pull").file);
}

static void find_no_sandbox(struct decision *decision, struct proposal *proposal)
{
	const struct images_sample *sample = &decision->tuner->sample;
	struct images_memory *memory = decision->memory;
	const char *sandbox = sample->sandbox;
	const struct image_row *row = find_row(decision, sandbox);
	uint64_t now = decision->input->now_us;
	struct finding *finding;
	bool is_new, is_wanted = sample->has_pods;

	if (memory->missing_us == 0)
		memory->missing_us = now;
	if (!sample->has_pods || memory->wanted_us == 0)
		memory->wanted_us = sample->has_pods ? now : 0;
	is_new = now - memory->missing_us < SANDBOX_AFTER_US ||
		 (row && row->state != IMAGE_FAILED && !decision->obstacle);
	finding = find_image(decision, proposal, SANDBOX_IMAGE_MISSING, REASON_SANDBOX_MISSING,
		sandbox, is_new ? FINDING_LASTS : FINDING_HAPPENS);
	if (!finding)
		return;
	/* The first pod pulls it, also long after the kubelet has started. */
	if (now - memory->wanted_us < SANDBOX_AFTER_US &&
		finding_find(decision->input, finding->slug, &finding->instance))
		is_wanted = false;
	if (!is_wanted)
		finding->severity = SEVERITY_ADVICE;
	finding_message(finding, "no pod can start without it%s",
		sample->has_pods ? "" : "; the kubelet has started none yet");
	cure_with_pull(finding, sample, sandbox);
	if (!row)
		keep_pulling(finding, decision, sandbox);
}

static void judge_sandbox(struct decision *decision, struct proposal *proposal)
{
	const struct images_sample *sample = &decision->tuner->sample;
	struct condition_reading *condition = proposal_condition(
		proposal, &images_conditions[SANDBOX_IMAGE_MISSING], REASON_SANDBOX_PRESENT);
	bool is_known = sample->answers && sample->sandbox[0];

	if (sample->kubelet.presence != KUBELET_RUNNING)
		condition_unknown(condition, REASON_NO_KUBELET);
	else if (!is_known)
		condition_unknown(condition, REASON_SANDBOX_UNKNOWN);
	else if (!sampled_image(sample, sample->sandbox)) {
		find_no_sandbox(decision, proposal);
		return;
	}
	decision->memory->missing_us = decision->memory->wanted_us = 0;
}

void images_decide(
	const void *self, const struct decide_input *input, void *data, struct proposal *proposal)
{
	const struct images_tuner *tuner = self;
	const struct images_sample *sample = &tuner->sample;
	struct images_memory *memory = data;
	struct decision decision = {
		.tuner = tuner, .input = input, .memory = memory, .percent = STORE_PERCENT};
	enum reason reason = REASON_NONE;

	memory->n = memory->n_begin = 0;
	if (input->force)
		memory->forced_us = input->now_us;
	decision.overdue = sample->now_us > 0 && input->now_us > sample->now_us + KNOWN_US;
	if (input->mode == MODE_RELEASED)
		reason = REASON_RESTORED;
	else if (input->mode != MODE_ENFORCE)
		reason = REASON_OBSERVE_MODE;
	else if (sample->now_us == 0 || sample->generation != tuner->config.generation)
		reason = REASON_NOT_ASKED_YET;
	else if (decision.overdue)
		reason = REASON_SAMPLE_OVERDUE;
	else if (!sample->runtime.socket[0])
		reason = REASON_NO_RUNTIME;
	else if (!sample->answers)
		reason = REASON_RUNTIME_SILENT;
	decision.obstacle = reason;
	decision.realtime_us = sample->realtime_us + input->now_us - sample->now_us;
	decision.budget = UINT64_MAX;
	if (sample->store_size > 0) {
		if (sample->kubelet.presence != KUBELET_ABSENT && !sample->kubelet.why[0])
			(void)parse_count(sample->kubelet.values.field[KUBELET_IMAGE_GC_HIGH].text,
				&decision.percent);
		/* Only the command line of a running kubelet names its drop-ins: one may lower it.
		 */
		if (sample->kubelet.presence == KUBELET_STOPPED)
			decision.percent = MIN(decision.percent, (uint64_t)STORE_PERCENT);
		decision.store_max =
			sample->store_size / 100 * MIN(decision.percent, (uint64_t)100);
		decision.budget = decision.store_max - MIN(decision.store_max, sample->store_used);
	}
	memory->full = decision.budget == 0;
	begin_yield(&decision);
	decision.pulls_turn =
		tuner->config.parallel == 1 && tuner->archive_last && memory->pull_waits;
	memory->pull_waits = false;
	for (size_t i = 0; i < tuner->n_active; i++)
		occupy(&decision, tuner->active[i]);
	/* Remove leftovers of an interrupted transfer, unless the sample is older than its end. */
	if (!decision.archive_busy && decision.busy == 0 && !decision.obstacle &&
		sample->leftovers && tuner->transfer_end_us < sample->now_us)
		begin(&decision, TRANSFER_CLEAN, NULL, "", 0);
	for (size_t i = 0; i < MIN(sample->n_archives, ARCHIVES_MAX); i++)
		if (is_configured(tuner, sample->archives[i].path))
			decide_archive(&decision, &sample->archives[i]);
	for (size_t i = 0; i < tuner->config.pulls.n; i++)
		decide_pull(&decision, tuner->config.pulls.items[i]);
	end_yield(&decision);
	/* A series of loads does not write the whole record after each of them. */
	if (tuner->dirty && !images_active(tuner, TRANSFER_RECORD, "", "") &&
		(decision.busy == 0 || input->now_us >= tuner->recorded_us + IMAGES_SOON_US))
		begin(&decision, TRANSFER_RECORD, NULL, "", 0);
	if (decision.asks && !images_active(tuner, TRANSFER_ASK, "", ""))
		begin(&decision, TRANSFER_ASK, NULL, "", 0);
	judge_preloads(&decision, proposal);
	find_verification(&decision, proposal);
	judge_sandbox(&decision, proposal);
	free(decision.by_name.positions);
	decide_pins(tuner, input, proposal);
}
