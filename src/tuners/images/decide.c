/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/images/images.h"

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
	struct element_index by_name; /* of the rows */
	enum reason obstacle;         /* why no transfer begins, or REASON_NONE */
	bool overdue;                 /* the sample is too old */
	uint64_t realtime_us;
	uint64_t percent;   /* of the store that may be used */
	uint64_t store_max; /* the same in bytes; 0: unknown */
	uint64_t budget;    /* bytes by which the store may grow */
	uint64_t reserved;  /* part of the budget for transfers under way */
	bool archive_busy;  /* an archive is being loaded or begins now */
	bool cleaning;      /* leftovers are being removed: nothing else begins */
	bool asks;          /* the mirrors of a row are to be asked */
	bool pulls_turn;    /* with `parallel: 1`: no archive begins */
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

/* `headroom apply` ran after the failure. */
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

/* Whether a transfer since the last sample knows what the runtime has. */
static bool is_newer(const struct decision *decision, const struct preload *preload)
{
	return !preload->reason &&
	       preload->done_us >= MAX(decision->tuner->sample.now_us, UINT64_C(1));
}

/* Whether the runtime has the image, in the sample or from a later transfer. */
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

/* Whether another image of others has the name. */
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

/* Bytes in the store, which may keep an image packed and unpacked. */
static uint64_t need_of(const struct decision *decision, const struct preload *preload)
{
	const struct runtime_driver *driver = decision->tuner->sample.runtime.driver;

	return preload->need > 0 || !driver ? preload->need
					    : driver->copies_per_image * preload->size;
}

/* Whether the image fits now. If it cannot fit at all, the row becomes failed. */
static bool fits(const struct decision *decision, struct image_row *row)
{
	uint64_t need = need_of(decision, &row->preload);

	if (need <= decision->budget && decision->budget > 0)
		return need <= decision->budget - MIN(decision->budget, decision->reserved);
	become(row, IMAGE_FAILED, REASON_DOES_NOT_FIT);
	images_describe_room(row->why, need, decision->budget);
	return false;
}

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
	if (kind == TRANSFER_ARCHIVE || kind == TRANSFER_PULL)
		decision->memory->archive_last = kind == TRANSFER_ARCHIVE;
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
			if (preload->reason && !judge_failure(decision, row))
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
	if (wanted && !reason && !decision->archive_busy && !decision->pulls_turn &&
		decision->busy < decision->tuner->config.parallel)
		begin(decision, TRANSFER_ARCHIVE, file, "", need);
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
	} else if (row->preload.reason && !judge_failure(decision, row)) {
		return;
	} else if (decision->cleaning ||
		   (!is_forced(decision, &row->preload) &&
			   wave_waits(decision->tuner, row, decision->input->now_us,
				   decision->realtime_us))) {
		decision->asks |= row->asks;
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

/* ---- conditions ---- */

static void decide_conditions(const struct decision *decision, struct proposal *proposal)
{
	const struct images_sample *sample = &decision->tuner->sample;
	const struct images_memory *memory = decision->memory;
	struct condition_reading *condition = proposal_condition(
		proposal, &images_conditions[IMAGE_PRELOAD_FAILED], REASON_NONE_WANTED);
	const char *sandbox = sample->sandbox;

	for (size_t i = 0; i < memory->n; i++) {
		const struct image_row *row = &memory->rows[i];

		if (row->state == IMAGE_FAILED)
			condition_raise(
				condition, row->reason, "%s: %s", row->preload.name, row->why);
		else if (condition->status == CONDITION_FALSE && row->state != IMAGE_READY)
			condition->reason =
				row->state == IMAGE_MOVED ? row->reason : REASON_UNDER_WAY;
		else if (condition->reason == REASON_NONE_WANTED)
			condition->reason = REASON_ALL_PRESENT;
	}
	if (sample->n_archives > ARCHIVES_MAX)
		condition_raise(condition, REASON_TOO_MANY_ARCHIVES,
			"%s and more are beyond %zu archives and not loaded: put several images "
			"into one archive",
			sample->archives[ARCHIVES_MAX].path, ARCHIVES_MAX);
	condition = proposal_condition(
		proposal, &images_conditions[SANDBOX_IMAGE_MISSING], REASON_SANDBOX_PRESENT);
	if (sample->kubelet.presence != KUBELET_RUNNING)
		condition_unknown(condition, REASON_NO_KUBELET);
	else if (!sample->answers || !sandbox[0])
		condition_unknown(condition, REASON_SANDBOX_UNKNOWN);
	else if (!sampled_image(sample, sandbox))
		condition_raise(condition, REASON_SANDBOX_MISSING,
			"%s is missing, and no pod can start without it: pull it, or preload it "
			"from an archive (images.archives)",
			sandbox);
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
		decision.store_max =
			sample->store_size / 100 * MIN(decision.percent, (uint64_t)100);
		decision.budget = decision.store_max - MIN(decision.store_max, sample->store_used);
	}
	memory->full = decision.budget == 0;
	decision.pulls_turn =
		tuner->config.parallel == 1 && memory->archive_last && memory->pull_waits;
	memory->pull_waits = false;
	for (size_t i = 0; i < tuner->n_active; i++)
		occupy(&decision, tuner->active[i]);
	/* Remove leftovers of an interrupted transfer, unless the sample is older than its end. */
	if (!decision.archive_busy && decision.busy == 0 && !decision.obstacle &&
		sample->leftovers && tuner->transfer_end_us < sample->now_us)
		begin(&decision, TRANSFER_CLEAN, NULL, "", 0);
	for (size_t i = 0; i < MIN(sample->n_archives, ARCHIVES_MAX); i++)
		decide_archive(&decision, &sample->archives[i]);
	for (size_t i = 0; i < tuner->config.pulls.n; i++)
		decide_pull(&decision, tuner->config.pulls.items[i]);
	/* A series of loads does not write the whole record after each of them. */
	if (tuner->dirty && !images_active(tuner, TRANSFER_RECORD, "", "") &&
		(decision.busy == 0 || input->now_us >= tuner->recorded_us + IMAGES_SOON_US))
		begin(&decision, TRANSFER_RECORD, NULL, "", 0);
	if (decision.asks && !images_active(tuner, TRANSFER_ASK, "", ""))
		begin(&decision, TRANSFER_ASK, NULL, "", 0);
	free(decision.by_name.positions);
	decide_conditions(&decision, proposal);
	decide_pins(tuner, input, proposal);
}
