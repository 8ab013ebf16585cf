/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/runtime/pulls.h"

#include "base/util.h"

/* Between the layers of one image nothing may be fetched for a moment. */
#define BETWEEN_LAYERS_US (5 * USEC_PER_SEC)

#define NO_REGISTRY "unknown"

const double pull_bounds[PULL_BOUNDS] = {1, 3, 10, 30, 60, 120, 300, 600, 1800};

void pulls_registry_of(const char *image, char registry[static 64])
{
	const char *slash = strchr(image, '/');
	size_t length = slash ? (size_t)(slash - image) : 0;

	if (length == 0 || length >= 64) {
		copy_text(registry, 64, NO_REGISTRY);
		return;
	}
	memcpy(registry, image, length);
	registry[length] = '\0';
}

static struct pull_registry *registry_of(struct pulls *pulls, const char *image)
{
	struct pull_registry *registry;
	char name[64];

	pulls_registry_of(image, name);
	for (size_t i = 0; i < pulls->n_registries; i++)
		if (streq(pulls->registries[i].name, name))
			return &pulls->registries[i];
	/* The last place is for all that find none. */
	if (pulls->n_registries == PULL_REGISTRIES_MAX)
		return &pulls->registries[PULL_REGISTRIES_MAX - 1];
	registry = &pulls->registries[pulls->n_registries++];
	copy_text(registry->name, sizeof(registry->name),
		pulls->n_registries == PULL_REGISTRIES_MAX ? "other" : name);
	return registry;
}

static struct pull_image *image_of(struct pulls *pulls, const char *name, uint64_t now)
{
	struct pull_image *image;

	for (size_t i = 0; i < pulls->n_images; i++)
		if (streq(pulls->images[i].name, name))
			return &pulls->images[i];
	if (pulls->n_images == PULL_IMAGES_MAX)
		return NULL;
	image = &pulls->images[pulls->n_images++];
	*image = (struct pull_image){.since_us = now};
	copy_text(image->name, sizeof(image->name), name);
	return image;
}

/* Of a layer whose image has no name yet they wait until it has one, or is over. */
static void count_bytes(struct pulls *pulls, const char *name, uint64_t bytes, uint64_t now)
{
	struct pull_image *image = image_of(pulls, name, now);

	if (image)
		image->bytes += bytes;
	else
		registry_of(pulls, name)->bytes += bytes;
}

static struct pull_layer *find_layer(struct pulls *pulls, const char *ref)
{
	for (size_t i = 0; i < pulls->n; i++)
		if (streq(pulls->layers[i].piece.ref, ref))
			return &pulls->layers[i];
	return NULL;
}

static struct pull_layer *add_layer(
	struct pulls *pulls, const struct pull_piece *piece, uint64_t now)
{
	struct pull_layer *layer;

	if (pulls->n == PULL_LAYERS_MAX) {
		pulls->more++;
		return NULL;
	}
	layer = &pulls->layers[pulls->n++];
	*layer = (struct pull_layer){
		.piece = *piece,
		.moved_us = pulls_age(now, piece->still_us),
		.noted_us = pulls_age(now, piece->age_us),
		.at_us = now,
		.rate = piece->age_us > 0 ? (double)piece->offset * (double)USEC_PER_SEC /
						    (double)piece->age_us
					  : 0,
	};
	/* What came before the agent is not counted. */
	if (pulls->begun)
		count_bytes(pulls, "", piece->offset, now);
	return layer;
}

static void advance(
	struct pulls *pulls, struct pull_layer *layer, const struct pull_piece *piece, uint64_t now)
{
	/* A layer that was given up begins again at zero. */
	uint64_t grown =
		piece->offset > layer->piece.offset ? piece->offset - layer->piece.offset : 0;
	double seconds = (double)(now - layer->at_us) / (double)USEC_PER_SEC;

	if (seconds > 0)
		layer->rate = (2 * layer->rate + (double)grown / seconds) / 3;
	if (piece->offset != layer->piece.offset)
		layer->moved_us = now;
	count_bytes(pulls, layer->image, grown, now);
	layer->piece = *piece;
	layer->at_us = now;
}

/* A layer that is not told of any more has come in: the rest of it, too. */
static void drop_ended(struct pulls *pulls, uint64_t now)
{
	size_t kept = 0;

	for (size_t i = 0; i < pulls->n; i++) {
		const struct pull_layer *layer = &pulls->layers[i];

		if (layer->seen)
			pulls->layers[kept++] = *layer;
		else if (layer->piece.total > layer->piece.offset)
			count_bytes(
				pulls, layer->image, layer->piece.total - layer->piece.offset, now);
	}
	pulls->n = kept;
}

static void observe_duration(struct pulls *pulls, const struct pull_image *image)
{
	struct pull_registry *registry = registry_of(pulls, image->name);
	double seconds = (double)(image->latest_us - image->since_us) / (double)USEC_PER_SEC;
	size_t bucket = 0;

	while (bucket < PULL_BOUNDS && seconds > pull_bounds[bucket])
		bucket++;
	registry->buckets[bucket]++;
	registry->seconds += seconds;
}

/* Its name is known, or it is over: what came in counts for its registry. */
static void settle_bytes(struct pulls *pulls, struct pull_image *image)
{
	registry_of(pulls, image->name)->bytes += image->bytes;
	image->bytes = 0;
}

static void count_images(struct pulls *pulls, uint64_t now)
{
	size_t kept = 0;

	for (size_t i = 0; i < pulls->n; i++) {
		struct pull_image *image =
			image_of(pulls, pulls->layers[i].image, pulls->layers[i].noted_us);

		if (image)
			image->latest_us = now;
	}
	for (size_t i = 0; i < pulls->n_images; i++) {
		struct pull_image *image = &pulls->images[i];
		bool over = now - image->latest_us >= BETWEEN_LAYERS_US;

		if (over || image->name[0])
			settle_bytes(pulls, image);
		if (over)
			observe_duration(pulls, image);
		else
			pulls->images[kept++] = *image;
	}
	pulls->n_images = kept;
}

void pulls_take(struct pulls *pulls, const struct pull_piece *pieces, size_t n, uint64_t now)
{
	pulls->more = 0;
	for (size_t i = 0; i < pulls->n; i++)
		pulls->layers[i].seen = false;
	for (size_t i = 0; i < n; i++) {
		struct pull_layer *layer = find_layer(pulls, pieces[i].ref);

		if (layer)
			advance(pulls, layer, &pieces[i], now);
		else
			layer = add_layer(pulls, &pieces[i], now);
		if (layer)
			layer->seen = true;
	}
	drop_ended(pulls, now);
	count_images(pulls, now);
	pulls->begun = true;
}

/* The pull was noted without its name: it goes on under it. */
static void rename_image(struct pulls *pulls, const struct pull_layer *layer)
{
	struct pull_image *image = image_of(pulls, layer->image, layer->noted_us);

	if (!image)
		return;
	image->since_us = MIN(image->since_us, layer->noted_us);
	image->latest_us = MAX(image->latest_us, layer->at_us);
	for (size_t i = 0; i < pulls->n_images; i++) {
		if (pulls->images[i].name[0])
			continue;
		image->bytes += pulls->images[i].bytes;
		pulls->images[i] = pulls->images[--pulls->n_images];
		break;
	}
	settle_bytes(pulls, image_of(pulls, layer->image, layer->noted_us));
}

void pulls_name(struct pulls *pulls, const char *digest, const char *image)
{
	for (size_t i = 0; digest[0] && i < pulls->n; i++) {
		struct pull_layer *layer = &pulls->layers[i];

		if (layer->image[0] || !strstr(layer->piece.ref, digest))
			continue;
		copy_text(layer->image, sizeof(layer->image), image);
		rename_image(pulls, layer);
	}
}

void pulls_end(struct pulls *pulls, const char *name, uint64_t now)
{
	for (size_t i = 0; i < pulls->n; i++)
		if (pulls->layers[i].image[0] == '\0')
			return;
	for (size_t i = 0; i < pulls->n_images; i++) {
		struct pull_image *image = &pulls->images[i];

		if (image->name[0])
			continue;
		copy_text(image->name, sizeof(image->name), name);
		image->latest_us = now;
		settle_bytes(pulls, image);
		return;
	}
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

const struct pull_layer *pulls_stuck(const struct pulls *pulls, uint64_t now)
{
	const struct pull_layer *worst = NULL;

	for (size_t i = 0; i < pulls->n; i++) {
		const struct pull_layer *layer = &pulls->layers[i];

		if (pulls_age(now, layer->moved_us) >= PULL_STUCK_US &&
			layer->piece.total > layer->piece.offset &&
			(!worst || layer->moved_us < worst->moved_us))
			worst = layer;
	}
	return worst;
}
