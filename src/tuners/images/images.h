/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Images that are there before the pod: from archives and registries. The loop decides what is to
 * be transferred; a transfer is a job with copies of all it needs, on a worker of its own.
 */

#include "runtime/driver.h"
#include "runtime/kubelet.h"

#include <headroom/tuner.h>

#define IMAGES_PARALLEL_MAX 16
#define IMAGES_LIST_MAX     256 /* configured archives or pulls */
#define IMAGES_TEXT_MAX     256 /* of a name or a path: IMAGE_NAME_MAX, SETTING_PATH_MAX */

/* ---- waves ---- */

/*
 * When a node pulls an image that many nodes want, without anyone who coordinates them: a few
 * nodes fetch it from upstream in round 0, and in each round some times as many have begun as in
 * the one before, which find it at their peers. Which round is a node's follows from a hash of its
 * name and the image's, so that each image begins at other nodes and a restart changes nothing.
 */
struct wave {
	unsigned nodes;    /* about how many there are; 0 and 1: begin at once */
	unsigned seeds;    /* how many of them begin in round 0, on average */
	unsigned growth;   /* how many times as many have begun a round later; at least 2 */
	uint64_t round_us; /* from one round to the next */
	uint64_t start_us; /* when round 0 begins, at all nodes */
};

/* When to begin. Each failed attempt costs one more round. */
uint64_t wave_due_us(
	const struct wave *wave, const char *node, const char *image, unsigned failures);

/* ---- configuration ---- */

struct text_list {
	char (*items)[IMAGES_TEXT_MAX];
	size_t n, allocated;
};

struct images_config {
	struct text_list archives;           /* patterns of glob(7), files and directories */
	struct text_list pulls;              /* whole names */
	struct text_list pins;               /* whole names, and IMAGES_SANDBOX */
	const struct runtime_driver *driver; /* of runtime.kind; NULL: any */
	unsigned generation;                 /* another one, other names */
	uint64_t parallel;
	struct wave wave; /* start_us 0: when a node first saw the image */
};

#define IMAGES_SANDBOX "sandbox"

/* From sample to sample while something is missing, under way, or about to change. */
#define IMAGES_SOON_US (2 * USEC_PER_SEC)

/* ---- the sample ---- */

/* Another key is another archive. */
struct archive_key {
	uint64_t device, inode, size, mtime_us, ctime_us;
};

struct archive_file {
	char path[IMAGES_TEXT_MAX]; /* below the host's root */
	struct archive_key key;
	int error;     /* of a configured path that is not there: -errno */
	bool settling; /* changed within the last seconds: someone may still write it */
};

struct images_sample {
	uint64_t now_us;              /* CLOCK_MONOTONIC of its beginning; 0: none was taken */
	uint64_t realtime_us;         /* and CLOCK_REALTIME */
	uint64_t next_us;             /* CLOCK_MONOTONIC: when the next one is due */
	unsigned generation;          /* of the configuration that it was asked for */
	struct image_runtime runtime; /* socket "": there is none */
	bool answers;
	char why[IMAGES_WHY_MAX];     /* it does not answer */
	struct runtime_image *images; /* that are wanted, pinned or the sandbox's */
	size_t n_images;
	bool leftovers;               /* of a killed agent */
	char sandbox[IMAGE_NAME_MAX]; /* "": the runtime does not say */
	uint64_t sandbox_us;          /* CLOCK_MONOTONIC: when it was asked */
	struct archive_file *archives;
	size_t n_archives, archives_allocated;
	char store[SETTING_PATH_MAX];    /* the file system of the runtime's images */
	uint64_t store_size, store_used; /* bytes; size 0: not known */
	struct kubelet_seen kubelet;
	bool cancelled; /* it is incomplete, and to be dropped */
};

/* ---- the record: images.json in the state directory ---- */

/* An archive (name "") or an image; of the first it is what is in it that is recorded. */
struct preload {
	char name[IMAGE_NAME_MAX];    /* the first member: find_named() */
	char source[IMAGES_TEXT_MAX]; /* the archive's path; "" for a registry */
	char id[DIGEST_MAX];          /* as the runtime has it */
	struct archive_key key;       /* of an archive */
	uint64_t size;                /* bytes, once known */
	uint64_t first_seen_us;       /* CLOCK_REALTIME; 0: never */
	uint64_t took_us;             /* its last transfer */
	uint64_t bytes;               /* given to the runtime, all transfers together */
	unsigned failures;            /* since the last success */

	/* Not on disk. */
	bool loaded;        /* by the transfer that found it */
	uint64_t done_us;   /* CLOCK_MONOTONIC: when its last transfer ended */
	const char *reason; /* it failed */
	char why[IMAGES_WHY_MAX];
};

struct preload_list {
	struct preload *entries;
	size_t n, allocated;
};

struct preload *preload_find(const struct preload_list *list, const char *source, const char *name);
struct preload *preload_add(struct preload_list *list, const char *source, const char *name);

/* Of the state directory; what cannot be read is empty: archives are then read again. */
void record_read(const char *directory, struct preload_list *list);
char *record_text(const struct preload_list *list);        /* the caller frees it */
int record_write(const char *directory, const char *text); /* 0 or -errno */

/* ---- transfers ---- */

enum transfer_kind {
	TRANSFER_ARCHIVE, /* what is missing of one archive */
	TRANSFER_PULL,
	TRANSFER_CLEAN, /* names that a killed agent left */
	TRANSFER_RECORD,
};

/* A job: the worker's, but for what is marked. decide() fills the first five. */
struct transfer {
	enum transfer_kind kind; /* constant, as all down to done */
	struct archive_file archive;
	char name[IMAGE_NAME_MAX]; /* of a pull */
	uint64_t size;             /* bytes to be transferred; 0: not known */
	uint64_t budget;           /* bytes that the store may grow by; UINT64_MAX: not known */
	const struct host *host;
	struct image_runtime runtime;
	struct text_list skip;     /* names in an archive that another one provides */
	char *text;                /* of the record */
	bool cancelled;            /* the loop's: the image store is full */
	uint64_t began_us;         /* CLOCK_MONOTONIC */
	_Atomic uint64_t done;     /* bytes given to the runtime; the loop reads it */
	struct preload_list found; /* of an archive itself and what is in it, or of a pull */
	int error;
	char why[IMAGES_WHY_MAX]; /* of the last two kinds */
};

/* transfer.c: member of struct tuner_ops, and what frees a job. */
void images_transfer(void *request, const struct wait *wait);
void transfer_free(struct transfer *transfer);

/* Bytes that a store needs for an image of this size: layers as they come, and unpacked. */
uint64_t transfer_need(const struct image_runtime *runtime, uint64_t size);
void images_describe_room(char why[static IMAGES_WHY_MAX], uint64_t need, uint64_t budget);

/* ---- the tuner ---- */

/* Part of it is the request of a sample: host, kind, archives and the sample before. */
struct images_tuner {
	const struct host *host; /* constant */
	struct images_config config;
	struct images_sample sample;
	struct preload_list record;
	bool dirty;                                       /* the record is not on disk as it is */
	bool due;                                         /* a sample, at once */
	uint64_t transfer_end_us;                         /* CLOCK_MONOTONIC: of the last one */
	struct transfer *active[IMAGES_PARALLEL_MAX + 2]; /* the agent's, until they are taken */
	size_t n_active;
};

/* sample.c: member of struct tuner_ops. */
void images_sample(void *request, const struct wait *wait);
static inline const struct runtime_image *sampled_image(
	const struct images_sample *sample, const char *name)
{
	return find_named(sample->images, sample->n_images, name);
}
void text_list_add(struct text_list *list, const char *text);
bool text_list_has(const struct text_list *list, const char *text);

/* ---- decisions: pure ---- */

enum image_state { IMAGE_PENDING, IMAGE_ACTIVE, IMAGE_READY, IMAGE_FAILED };
extern const char *const image_state_names[];

/* What is wanted, one by one; an archive that was not read yet is one. */
struct image_row {
	struct preload preload; /* begins with the name: find_named() */
	enum image_state state;
	const char *reason;
	char why[IMAGES_WHY_MAX];
	uint64_t retry_us; /* CLOCK_MONOTONIC: when it is tried again, or its wave begins; or 0 */
	int pinned;        /* -1: not known */
};

struct images_memory {
	struct image_row *rows;
	size_t n, allocated;
	uint64_t forced_us; /* CLOCK_MONOTONIC: what failed before is tried again */
	/* To be begun now. */
	struct transfer begin[IMAGES_PARALLEL_MAX + 2];
	size_t n_begin;
	bool full; /* pulls under way are to end: the store has no room left */
};

/* The transfer under way of an archive, or of a pull; NULL without one. */
const struct transfer *images_active(const struct images_tuner *tuner, enum transfer_kind kind,
	const char *path, const char *name);

/* Member of struct tuner_ops. */
void images_decide(const void *self, const struct decide_input *input, void *memory,
	struct proposal *proposal);

/* ---- reporting ---- */

struct cJSON *images_document(const void *self, const void *memory, bool trusted);
void images_metrics(const void *self, const void *memory, struct metric_sink *sink);

/* report.c */
extern const struct explanation images_explanations[];
extern const struct condition_type images_conditions[];
extern const struct reason images_reasons[];
extern const struct metric_row images_metric_rows[];
extern const struct table_view images_view;

enum { IMAGE_PRELOAD_FAILED, SANDBOX_IMAGE_MISSING };
