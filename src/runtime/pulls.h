/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Pulls in flight, from what a runtime says it is fetching at this moment: pieces of content with
 * an offset. Pure: the same texts and times give the same pulls.
 */

#define PULL_LAYERS_MAX     64 /* fetched at once and followed */
#define PULL_REGISTRIES_MAX 8  /* of metrics; more are "other" */
#define PULL_IMAGES_MAX     16
#define PULL_STUCK_US       (60 * UINT64_C(1000000))
#define PULL_BOUNDS         9

extern const double pull_bounds[PULL_BOUNDS]; /* seconds, of the durations' buckets */

/*
 * One piece of content as reported. containerd writes, and so counts, whole MiB: less than that a
 * minute looks like nothing at all.
 */
struct pull_piece {
	char ref[128];          /* "layer-sha256:..." */
	char namespace[64];     /* of containerd */
	uint64_t offset, total; /* bytes; total 0: not known */
	uint64_t age_us;        /* since it began; 0: not known */
	uint64_t still_us;      /* since a byte came last; 0: just now, or not known */
};

struct pull_layer {
	struct pull_piece piece;
	char image[160];   /* "docker.io/library/nginx"; empty until known */
	uint64_t moved_us; /* CLOCK_MONOTONIC: when its offset last changed */
	uint64_t noted_us; /* CLOCK_MONOTONIC: first seen */
	uint64_t at_us;    /* CLOCK_MONOTONIC of the last round */
	double rate;       /* bytes a second, smoothed */
};

/* An image that is being pulled: its layers come and go. */
struct pull_image {
	char name[160];     /* empty: of layers whose image is not known */
	uint64_t since_us;  /* CLOCK_MONOTONIC */
	uint64_t latest_us; /* when a layer of it was last seen */
	bool placed;        /* the name is known with the port of its registry, if any */
	uint64_t bytes;     /* not counted yet: the registry is not known */
};

/* What one runtime pulls. */
struct pulls {
	bool begun; /* what is new from now on is counted from its first byte */
	struct pull_layer layers[PULL_LAYERS_MAX];
	size_t n;
	struct pull_image images[PULL_IMAGES_MAX];
	size_t n_images;
};

/* What registries have given to all runtimes since the agent started. */
struct pull_counts {
	struct pull_registry {
		char name[64]; /* "docker.io"; "unknown" where the runtime does not tell */
		uint64_t bytes;
		uint64_t buckets[PULL_BOUNDS + 1];
		double seconds; /* of all durations */
	} registries[PULL_REGISTRIES_MAX];
	size_t n;
};

/*
 * What is fetched now, all of it. Bytes of an image are counted once its registry is known, or it
 * is over.
 */
void pulls_update(struct pulls *pulls, struct pull_counts *counts, const struct pull_piece *pieces,
	size_t n, uint64_t now_us);

/* The layer with this digest is of this image. */
void pulls_name(struct pulls *pulls, const char *digest, const char *image);

/* An image's full name, with the registry's port. It may be the one that it has. */
void pulls_place(struct pulls *pulls, const char *name, const char *full);

/* The pulls without a name that are under way were one of this image, which has come in. */
void pulls_end(struct pulls *pulls, const char *name, uint64_t now_us);

/* Microseconds from then to now; 0 when an answer came after the clock was read. */
static inline uint64_t pulls_age(uint64_t now_us, uint64_t then_us)
{
	return now_us > then_us ? now_us - then_us : 0;
}

/* One of the layers whose image is not known yet, another with each turn; NULL: all are known. */
const struct pull_layer *pulls_nameless(const struct pulls *pulls, size_t turn);

/* The registry of an image's name: what is before its first slash. */
void pulls_registry_of(const char *image, char registry[static 64]);

/*
 * The layer that has stood still longest, when that is PULL_STUCK_US or more; else NULL. One that
 * is complete, or of unknown size, may well wait for others.
 */
const struct pull_layer *pulls_stuck(const struct pulls *pulls, uint64_t now_us);
