/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Pulls in flight, computed from the pieces of content that a runtime reports. All functions are
 * pure.
 */

#define PULL_LAYERS_MAX     64 /* tracked at once */
#define PULL_REGISTRIES_MAX 8  /* in metrics; the last one is "other" */
#define PULL_IMAGES_MAX     16
#define PULL_STUCK_US       (60 * UINT64_C(1000000))
#define PULL_SLOW_SECONDS   600 /* for the rest of a layer */
#define PULL_BOUNDS         9
#define PULL_PARTS_MAX      256 /* layers of an image; more than an overlay can have */

extern const double pull_bounds[PULL_BOUNDS]; /* bounds of the buckets of durations, in seconds */

/*
 * A reported piece of content. containerd counts whole MiB: a slower layer than 1 MiB a minute
 * shows no progress.
 */
struct pull_piece {
	char ref[128];          /* "layer-sha256:..." */
	char namespace[64];     /* containerd's */
	uint64_t offset, total; /* bytes; total 0: unknown */
	uint64_t age_us;        /* since it began; 0: unknown */
	uint64_t still_us;      /* since the last byte; 0: unknown */
	bool awaited;           /* total is unknown, and the layer does not wait for others */
};

/* Moments at which bytes had come, the oldest first: layers come in whole MiB. */
#define PULL_POINTS 8
struct pull_speed {
	struct {
		uint64_t at_us, bytes; /* CLOCK_MONOTONIC */
	} points[PULL_POINTS];
	unsigned n;
};

struct pull_layer {
	struct pull_piece piece;
	char image[160]; /* "docker.io/library/nginx"; empty until known */
	/* CLOCK_MONOTONIC of the last change of offset; if it is queued, of the last of any layer.
	 */
	uint64_t moved_us;
	bool queued;   /* it has no byte yet, and others move: the runtime limits their number */
	bool measured; /* it is a part of a struct pull_progress */
	uint64_t noted_us; /* CLOCK_MONOTONIC of its first report */
	uint64_t at_us;    /* CLOCK_MONOTONIC of the last update */
	double rate;       /* bytes a second, smoothed */
	struct pull_speed speed;
	/* Bytes a second in the last whole minute, 0: unknown; and where the next one began. */
	double minute_rate;
	uint64_t minute_offset, minute_us;
};

/* An image that is being pulled. */
struct pull_image {
	char name[160];     /* empty: the image of the layers is unknown */
	uint64_t since_us;  /* CLOCK_MONOTONIC */
	uint64_t latest_us; /* when a layer was last reported */
	bool has_port;      /* the name has the port of the registry, if any */
	uint64_t bytes;     /* to be counted when the registry is known */
	uint64_t done;      /* all bytes that the agent has seen */
};

/* A layer in a manifest. */
struct pull_part {
	char digest[72]; /* "sha256:..." */
	uint64_t size;
	bool exists; /* it has come in */
};

/* An image that is being pulled, and whose manifest is known. */
struct pull_progress {
	char manifest[72]; /* its digest */
	char namespace[64];
	char image[160];
	uint64_t done, total;    /* bytes of its layers; total 0: not measured yet */
	double rate;             /* bytes a second, smoothed */
	double seconds_left;     /* 0: unknown */
	unsigned layers, queued; /* being fetched, and waiting */
	uint64_t begun_us;       /* at the first measurement */
	struct pull_speed speed;
	uint64_t latest_us; /* when the runtime last reported a layer of it */
};

/* The pulls of one runtime. */
struct pulls {
	bool begun;        /* after the first update: new layers count from their first byte */
	uint64_t moved_us; /* CLOCK_MONOTONIC of the last byte of any layer; 0: none */
	struct pull_layer layers[PULL_LAYERS_MAX];
	size_t n;
	struct pull_image images[PULL_IMAGES_MAX];
	size_t n_images;
	struct pull_progress progress[PULL_IMAGES_MAX];
	size_t n_progress;
};

/* Bytes and durations by registry, for all runtimes, since the agent started. */
struct pull_counts {
	struct pull_registry {
		char name[64]; /* "docker.io"; "unknown" if the runtime does not report it */
		uint64_t bytes;
		uint64_t buckets[PULL_BOUNDS + 1];
		double seconds; /* the sum of all durations */
	} registries[PULL_REGISTRIES_MAX];
	size_t n;
};

/*
 * Updates the pulls. pieces has all layers that are being fetched, and the layers that came in
 * since the last update (offset = total), at least those that no earlier update had. Bytes of an
 * image are counted when its registry is known or its pull has ended.
 */
void pulls_update(struct pulls *pulls, struct pull_counts *counts, const struct pull_piece *pieces,
	size_t n, uint64_t now_us);

/* Names the layers without an image that have this digest. Returns whether there was one. */
bool pulls_name(struct pulls *pulls, const char *digest, const char *image);

/* Adds a manifest, which is to be measured. */
void pulls_add_manifest(struct pulls *pulls, const char *manifest, const char *namespace,
	const char *image, uint64_t now_us);

/* Measures the progress of an image by its layers, in the order of its manifest. */
void pulls_measure(struct pulls *pulls, struct pull_progress *progress,
	const struct pull_part *parts, size_t n, uint64_t now_us);

/* Replaces the name of an image by its full name, which has the registry's port. */
void pulls_set_full_name(struct pulls *pulls, const char *name, const char *full);

/* Ends the pull of this image, which includes all layers without an image. */
void pulls_end(struct pulls *pulls, const char *name, uint64_t now_us);

/* Microseconds from then to now; 0 when an answer came after the clock was read. */
static inline uint64_t pulls_age(uint64_t now_us, uint64_t then_us)
{
	return now_us > then_us ? now_us - then_us : 0;
}

static inline bool pulls_is_complete(const struct pull_piece *piece)
{
	return piece->total > 0 && piece->offset == piece->total;
}

/* Returns a layer without an image, another one with each turn; NULL: all have one. */
const struct pull_layer *pulls_nameless(const struct pulls *pulls, size_t turn);

/* Returns the registry of an image's name: the part before the first slash. */
void pulls_registry_of(const char *image, char registry[static 64]);

/*
 * Returns whether a layer has made no progress for PULL_STUCK_US. Complete layers may wait for
 * others, and so may layers of unknown size that nobody awaits.
 */
bool pulls_is_stuck(const struct pull_layer *layer, uint64_t now_us);

/* Returns whether the rest of a layer takes more than PULL_SLOW_SECONDS at its minute_rate. */
bool pulls_is_slow(const struct pull_layer *layer);

/* Returns the seconds for the rest of a layer, at its minute_rate. */
double pulls_seconds_left(const struct pull_layer *layer);
