/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/pulls.h"

#include "runtime/images.h"

/* Layers of an image can have gaps between them. */
#define BETWEEN_LAYERS_US (5 * USEC_PER_SEC)

/* Layers come in whole MiB: a rate needs several of them. */
#define RATE_US (10 * USEC_PER_SEC)

const double pull_bounds[PULL_BOUNDS] = {1, 3, 10, 30, 60, 120, 300, 600, 1800};

void pulls_registry_of(const char *image, char registry[static 64])
{
	const char *slash = strchr(image, '/');
	size_t length = slash ? (size_t)(slash - image) : 0;

	/* Each archive is served at another port. */
	if (slash && starts_with(slash, "/" IMAGES_REPOSITORY "/"))
		length = 0;
	if (length == 0 || length >= 64)
		copy_text(registry, 64, "unknown");
	else
		snprintf(registry, 64, "%.*s", (int)length, image);
}

static struct pull_registry *registry_of(struct pull_counts *counts, const char *image)
{
	struct pull_registry *registry;
	char name[64];

	pulls_registry_of(image, name);
	registry = find_named(counts->registries, counts->n, name);
	if (registry)
		return registry;
	/* The last slot is for all other registries. */
	if (counts->n == PULL_REGISTRIES_MAX)
		return &counts->registries[PULL_REGISTRIES_MAX - 1];
	registry = &counts->registries[counts->n++];
	set_text(registry->name, counts->n == PULL_REGISTRIES_MAX ? "other" : name);
	return registry;
}

static void count_bytes(
	struct pulls *pulls, struct pull_counts *counts, const char *name, uint64_t bytes)
{
	struct pull_image *image = find_named(pulls->images, pulls->n_images, name);

	if (image) {
		image->bytes += bytes;
		image->done += bytes;
	} else {
		registry_of(counts, name)->bytes += bytes;
	}
}

/* Adds the image of a layer, or extends its times. */
static void note_image(struct pulls *pulls, const struct pull_layer *layer)
{
	struct pull_image *image = find_named(pulls->images, pulls->n_images, layer->image);

	if (!image && pulls->n_images == PULL_IMAGES_MAX)
		return;
	if (!image) {
		image = &pulls->images[pulls->n_images++];
		*image = (struct pull_image){.since_us = layer->noted_us};
		set_text(image->name, layer->image);
	}
	image->since_us = MIN(image->since_us, layer->noted_us);
	image->latest_us = MAX(image->latest_us, layer->at_us);
}

/* Renames an image, and merges it into another with the name. */
static void rename_image(struct pulls *pulls, struct pull_image *image, const char *name)
{
	struct pull_image *same = find_named(pulls->images, pulls->n_images, name);

	if (!same || same == image) {
		set_text(image->name, name);
		return;
	}
	same->since_us = MIN(same->since_us, image->since_us);
	same->latest_us = MAX(same->latest_us, image->latest_us);
	same->bytes += image->bytes;
	same->done += image->done;
	*image = pulls->images[--pulls->n_images];
}

/* Adds a moment. For a fast pull they reach back for RATE_US, for a slow one further. */
static void speed_note(struct pull_speed *speed, uint64_t bytes, uint64_t now)
{
	unsigned n = speed->n;

	if (n > 0 && bytes < speed->points[n - 1].bytes) /* it began again */
		n = 0;
	if (n > 1 && now - speed->points[n - 2].at_us < RATE_US / PULL_POINTS)
		n--;
	if (n == PULL_POINTS)
		memmove(&speed->points[0], &speed->points[1], --n * sizeof(speed->points[0]));
	speed->points[n].at_us = now;
	speed->points[n].bytes = bytes;
	speed->n = n + 1;
}

/*
 * Returns bytes a second, 0: unknown. ahead: bytes that have probably come since the last moment,
 * and are not reported yet.
 */
static double speed_rate(const struct pull_speed *speed, uint64_t now, double *ahead)
{
	unsigned last = speed->n - 1;
	double span, idle, each, rate;

	*ahead = 0;
	if (speed->n < 2)
		return 0;
	span = (double)(speed->points[last].at_us - speed->points[0].at_us);
	idle = (double)pulls_age(now, speed->points[last].at_us);
	each = span / last;
	/* A pull that pauses becomes slower. */
	if (idle > 2 * each)
		span += idle;
	rate = (double)(speed->points[last].bytes - speed->points[0].bytes) / MAX(span, 1.0);
	*ahead = rate * MIN(idle, each);
	return rate * (double)USEC_PER_SEC;
}

static void update_minute(struct pull_layer *layer)
{
	double seconds = (double)(layer->at_us - layer->minute_us) / (double)USEC_PER_SEC;

	if (layer->piece.offset < layer->minute_offset) /* it began again */
		layer->minute_rate = 0;
	else if (seconds < 60 && layer->piece.offset > 0)
		return;
	else if (seconds > 0)
		layer->minute_rate = (double)(layer->piece.offset - layer->minute_offset) / seconds;
	layer->minute_offset = layer->piece.offset;
	layer->minute_us = layer->at_us;
}

static void update_layer(struct pulls *pulls, struct pull_counts *counts,
	const struct pull_piece *piece, uint64_t now)
{
	struct pull_layer *layer = find_named(pulls->layers, pulls->n, piece->ref);

	if (layer) {
		/* A layer that was given up begins again at zero. */
		uint64_t grown = pulls_age(piece->offset, layer->piece.offset);
		double seconds = (double)(now - layer->at_us) / (double)USEC_PER_SEC;

		if (seconds > 0)
			layer->rate = (2 * layer->rate + (double)grown / seconds) / 3;
		if (piece->offset != layer->piece.offset || (piece->total == 0 && !piece->awaited))
			layer->moved_us = now;
		if (grown > 0)
			pulls->moved_us = now;
		count_bytes(pulls, counts, layer->image, grown);
		if (grown > 0)
			speed_note(&layer->speed, piece->offset, now);
		layer->piece = *piece;
		layer->at_us = now;
		update_minute(layer);
	} else if (pulls->n < PULL_LAYERS_MAX) {
		layer = &pulls->layers[pulls->n++];
		*layer = (struct pull_layer){
			.piece = *piece,
			.moved_us = pulls_age(now, piece->still_us),
			.noted_us = pulls_age(now, piece->age_us),
			.at_us = now,
			.minute_offset = piece->offset,
			.minute_us = now,
		};
		if (piece->age_us > 0)
			layer->rate = (double)piece->offset * (double)USEC_PER_SEC /
				      (double)piece->age_us;
		note_image(pulls, layer);
		/* Bytes from before the start of the agent do not count. */
		if (pulls->begun)
			count_bytes(pulls, counts, "", piece->offset);
	}
}

static void find_queued(struct pulls *pulls, uint64_t now)
{
	bool others_move = pulls->moved_us > 0 && pulls_age(now, pulls->moved_us) < PULL_STUCK_US;

	for (size_t i = 0; i < pulls->n; i++) {
		struct pull_layer *layer = &pulls->layers[i];

		layer->queued = others_move && layer->piece.offset == 0 && layer->piece.total > 0;
		if (layer->queued)
			layer->moved_us = MAX(layer->moved_us, pulls->moved_us);
	}
}

void pulls_update(struct pulls *pulls, struct pull_counts *counts, const struct pull_piece *pieces,
	size_t n, uint64_t now)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++)
		update_layer(pulls, counts, &pieces[i], now);
	/* A layer that is no longer reported has come in: the rest of it, too. */
	for (size_t i = 0; i < pulls->n; i++) {
		const struct pull_layer *layer = &pulls->layers[i];

		if (layer->at_us == now)
			pulls->layers[kept++] = *layer;
		else
			count_bytes(pulls, counts, layer->image,
				pulls_age(layer->piece.total, layer->piece.offset));
	}
	pulls->n = kept;
	kept = 0;
	find_queued(pulls, now);
	for (size_t i = 0; i < pulls->n; i++)
		note_image(pulls, &pulls->layers[i]);
	for (size_t i = 0; i < pulls->n_images; i++) {
		struct pull_image *image = &pulls->images[i];
		bool ended = now - image->latest_us >= BETWEEN_LAYERS_US;
		double seconds =
			(double)(image->latest_us - image->since_us) / (double)USEC_PER_SEC;
		struct pull_registry *registry = NULL;
		size_t bucket = 0;

		/* Metrics show an active pull before its bytes are counted. Without the port of its
		 * registry it would have a second name. */
		registry = registry_of(counts, ended || image->has_port ? image->name : "");
		if (ended || image->has_port) {
			registry->bytes += image->bytes;
			image->bytes = 0;
		}
		if (!ended) {
			pulls->images[kept++] = *image;
			continue;
		}
		while (bucket < PULL_BOUNDS && seconds > pull_bounds[bucket])
			bucket++;
		registry->buckets[bucket]++;
		registry->seconds += seconds;
	}
	pulls->n_images = kept;
	kept = 0;
	for (size_t i = 0; i < pulls->n_progress; i++)
		if (now - pulls->progress[i].latest_us < BETWEEN_LAYERS_US)
			pulls->progress[kept++] = pulls->progress[i];
	pulls->n_progress = kept;
	pulls->begun = true;
}

bool pulls_name(struct pulls *pulls, const char *digest, const char *name)
{
	bool named = false;

	for (size_t i = 0; digest[0] && i < pulls->n; i++) {
		struct pull_layer *layer = &pulls->layers[i];
		struct pull_image *nameless = find_named(pulls->images, pulls->n_images, ""),
				  *image;
		uint64_t moved;

		if (layer->image[0] || !strstr(layer->piece.ref, digest))
			continue;
		named = true;
		set_text(layer->image, name);
		note_image(pulls, layer);
		image = find_named(pulls->images, pulls->n_images, name);
		if (nameless && image) {
			moved = MIN(nameless->bytes, layer->piece.offset);
			nameless->bytes -= moved;
			image->bytes += moved;
			nameless->done -= MIN(nameless->done, moved);
			image->done += moved;
		}
		/* Layers that came in without a name belong to the layer that gets its name last.
		 */
		if (nameless && !pulls_nameless(pulls, 0))
			rename_image(pulls, nameless, name);
	}
	return named;
}

void pulls_add_manifest(struct pulls *pulls, const char *manifest, const char *namespace,
	const char *image, uint64_t now)
{
	struct pull_progress *progress;

	if (pulls->n_progress == PULL_IMAGES_MAX ||
		find_named(pulls->progress, pulls->n_progress, manifest))
		return;
	progress = &pulls->progress[pulls->n_progress++];
	*progress = (struct pull_progress){.latest_us = now};
	set_text(progress->manifest, manifest);
	set_text(progress->namespace, namespace);
	set_text(progress->image, image);
}

/* Returns the seconds that a layer needs by its own speed; 0: unknown. */
static double layer_seconds_left(const struct pull_layer *layer)
{
	double ahead, rate = speed_rate(&layer->speed, layer->at_us, &ahead);
	uint64_t left = pulls_age(layer->piece.total, layer->piece.offset);

	return rate >= 1 ? MAX((double)left - ahead, 1.0) / rate : 0;
}

/* Returns bytes a second of a layer from its begin to its last byte. ahead: as speed_rate(). */
static double first_rate(const struct pull_layer *layer, double *ahead)
{
	double took = (double)pulls_age(layer->moved_us, layer->noted_us);
	double rate = took > 0 ? (double)layer->piece.offset / took : 0;

	*ahead = rate * MIN((double)pulls_age(layer->at_us, layer->moved_us), took);
	return rate * (double)USEC_PER_SEC;
}

/* rate and ahead are those of the layers together, until the speed of the pull is known. */
static void update_rate(
	struct pull_progress *progress, uint64_t done, double rate, double *ahead, uint64_t now)
{
	double measured_ahead, measured;

	if (progress->begun_us == 0)
		progress->begun_us = now;
	else if (done > progress->done)
		speed_note(&progress->speed, done, now);
	progress->done = done;
	measured = speed_rate(&progress->speed, now, &measured_ahead);
	progress->rate = measured > 0 ? measured : rate;
	*ahead = measured > 0 ? measured_ahead : *ahead;
}

static struct pull_layer *layer_of(struct pulls *pulls, const char *digest)
{
	for (size_t i = 0; i < pulls->n; i++) {
		const char *ref = pulls->layers[i].piece.ref;
		const char *dash = strchr(ref, '-');

		/* "layer-sha256:..." */
		if (streq(dash ? dash + 1 : ref, digest))
			return &pulls->layers[i];
	}
	return NULL;
}

void pulls_measure(struct pulls *pulls, struct pull_progress *progress,
	const struct pull_part *parts, size_t n, uint64_t now)
{
	uint64_t done = 0, skipped = 0;
	double slowest = 0, rates = 0, ahead = 0, layer_ahead;
	bool begun = false;

	progress->total = 0;
	progress->layers = progress->queued = 0;
	for (size_t i = 0; i < n; i++) {
		struct pull_layer *layer = layer_of(pulls, parts[i].digest);

		/* Layers begin in their order: a missing one below another one is already unpacked,
		 * and is not fetched. */
		begun |= layer || parts[i].exists;
		if (!begun)
			skipped += parts[i].size;
		progress->total += parts[i].size;
		if (parts[i].exists)
			done += parts[i].size;
		else if (layer)
			done += MIN(layer->piece.offset, parts[i].size);
		if (!layer)
			continue;
		(void)pulls_name(pulls, parts[i].digest, progress->image);
		layer->measured = true;
		progress->latest_us = now;
		progress->layers += !layer->queued && !parts[i].exists;
		progress->queued += layer->queued;
		rates += first_rate(layer, &layer_ahead);
		ahead += layer_ahead;
		slowest = MAX(slowest, layer_seconds_left(layer));
	}
	if (begun)
		progress->total -= skipped;
	update_rate(progress, done, rates, &ahead, now);
	progress->seconds_left = slowest;
	if (progress->rate >= 1)
		progress->seconds_left =
			MAX(slowest, MAX((double)pulls_age(progress->total, done) - ahead, 1.0) /
					     progress->rate);
}

void pulls_set_full_name(struct pulls *pulls, const char *name, const char *full)
{
	struct pull_image *image = find_named(pulls->images, pulls->n_images, name);

	for (size_t i = 0; i < pulls->n; i++)
		if (streq(pulls->layers[i].image, name))
			set_text(pulls->layers[i].image, full);
	for (size_t i = 0; i < pulls->n_progress; i++)
		if (streq(pulls->progress[i].image, name))
			set_text(pulls->progress[i].image, full);
	image->has_port = true;
	rename_image(pulls, image, full);
}

void pulls_end(struct pulls *pulls, const char *name, uint64_t now)
{
	struct pull_image *image = find_named(pulls->images, pulls->n_images, "");

	for (size_t i = 0; i < pulls->n; i++)
		if (!pulls->layers[i].image[0] && !pulls_is_complete(&pulls->layers[i].piece))
			return;
	if (!image)
		return;
	image->latest_us = now;
	image->has_port = true;
	rename_image(pulls, image, name);
}

const struct pull_layer *pulls_nameless(const struct pulls *pulls, size_t turn)
{
	for (size_t i = 0; i < pulls->n; i++) {
		const struct pull_layer *layer = &pulls->layers[(turn + i) % pulls->n];

		if (layer->image[0] == '\0')
			return layer;
	}
	return NULL;
}

bool pulls_is_stuck(const struct pull_layer *layer, uint64_t now)
{
	return pulls_age(now, layer->moved_us) >= PULL_STUCK_US &&
	       (layer->piece.awaited || layer->piece.total > layer->piece.offset);
}

double pulls_seconds_left(const struct pull_layer *layer)
{
	return layer->minute_rate > 0 ? (double)pulls_age(layer->piece.total, layer->piece.offset) /
						layer->minute_rate
				      : 0;
}

bool pulls_is_slow(const struct pull_layer *layer)
{
	return pulls_seconds_left(layer) > PULL_SLOW_SECONDS;
}
