/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Preloads images from archives and registries. tuner.c has the options and makes requests of
 * tasks; sample.c reads archives, runtime and store; decide.c chooses transfers and pins;
 * transfer.c runs transfers, each a task with copies of all its input; record.c keeps images.json;
 * report.c shows all of it.
 */

#include "runtime/driver.h"
#include "runtime/kubelet.h"
#include "runtime/registry.h"
#include "workload/facts.h"

#include <headroom/tuner.h>

#define IMAGES_PARALLEL_MAX 16
#define IMAGES_ACTIVE_MAX   (IMAGES_PARALLEL_MAX + 3) /* TRANSFER_CLEAN, _RECORD, _ASK */
#define IMAGES_LIST_MAX     256                       /* configured archives or pulls */
#define ARCHIVES_MAX        ((size_t)1024)
#define IMAGES_TEXT_MAX     256 /* a name or a path: IMAGE_NAME_MAX, SETTING_PATH_MAX */

/* ---- waves ---- */

/*
 * Spreads the pulls of one image by many nodes over time, without coordination: in round 0 a few
 * seeds pull from upstream; in each later round more nodes begin, which find the image at their
 * peers. A hash of the node's and the image's name selects the round, so that each image has other
 * seeds and a restart changes nothing.
 */
enum wave_gate { WAVE_AUTO, WAVE_PEERS, WAVE_OFF };

struct wave {
	enum wave_gate gate;
	unsigned nodes;    /* estimated number of nodes; 0 and 1: begin at once */
	unsigned seeds;    /* nodes that begin in round 0, on average */
	unsigned growth;   /* factor by which the nodes that have begun grow per round, >= 2 */
	uint64_t round_us; /* length of a round */
	uint64_t start_us; /* begin of round 0, CLOCK_REALTIME; the same on all nodes */
};

/* Returns when to begin, CLOCK_REALTIME. Each failed attempt delays it by one more round. */
uint64_t wave_due_us(
	const struct wave *wave, const char *node, const char *image, unsigned failures);

/* Interval of questions to the peers, counted from since_us. */
#define WAVE_ASK_EVERY_US (3 * USEC_PER_SEC)

/* ---- configuration ---- */

struct text_list {
	char (*items)[IMAGES_TEXT_MAX];
	size_t n, allocated;
};

struct images_config {
	struct text_list archives;           /* patterns of glob(7), files and directories */
	struct text_list pulls;              /* normalized names */
	struct text_list pins;               /* normalized names, and IMAGES_SANDBOX */
	bool pins_given;                     /* in a configuration file */
	const struct runtime_driver *driver; /* named by runtime.kind; NULL: any */
	unsigned generation;                 /* changes with each configuration */
	uint64_t parallel;
	uint64_t progress_timeout_us; /* for a load; 0: none */
	struct wave wave;             /* start_us 0: from when the node first saw the image */
	struct runtime_mirror mirrors[RUNTIME_MIRROR_MAX];
	size_t n_mirrors;
};

#define IMAGES_SANDBOX "sandbox"

/* Interval of samples while a transfer runs, an archive changes or the runtime is silent. */
#define IMAGES_SOON_US (2 * USEC_PER_SEC)

/* ---- the sample ---- */

/* Identifies the content of an archive. */
struct archive_key {
	uint64_t device, inode, size, mtime_us, ctime_us;
};

struct archive_file {
	char path[IMAGES_TEXT_MAX]; /* below the host's root */
	struct archive_key key;
	int error;     /* -errno of a configured path that cannot be read */
	bool settling; /* changed within the last seconds and possibly still being written */
};

struct images_sample {
	uint64_t now_us;              /* CLOCK_MONOTONIC of its begin; 0: no sample yet */
	uint64_t realtime_us;         /* CLOCK_REALTIME of its begin */
	uint64_t next_us;             /* CLOCK_MONOTONIC of the next sample */
	unsigned generation;          /* the configuration's at the request */
	struct image_runtime runtime; /* socket "": no runtime found */
	/* What pulls an image by hand, up to its name, such as "docker pull"; "": nothing is there.
	 */
	char puller[RUNTIME_CLIENT_MAX + 16];
	bool answers;
	char why[IMAGES_WHY_MAX]; /* why it does not answer */
	/* Wanted and pinned images and the sandbox image, sorted by name. */
	struct runtime_image *images;
	size_t n_images;
	bool leftovers;                /* a killed agent left names behind */
	char sandbox[IMAGE_NAME_MAX];  /* "": unknown */
	uint64_t sandbox_us;           /* CLOCK_MONOTONIC of the last request for it */
	bool has_pods;                 /* if it is missing: the kubelet has made a pod's cgroup */
	struct archive_file *archives; /* at most one more than ARCHIVES_MAX */
	size_t n_archives, archives_allocated;
	struct element_index by_path;    /* finds archives during the sample */
	char store[SETTING_PATH_MAX];    /* directory of the runtime's images */
	dev_t store_device;              /* 0: unknown */
	uint64_t store_size, store_used; /* its file system's, in bytes; size 0: unknown */
	uint64_t fetching;               /* changes with downloads; 0: not known */
	struct kubelet_seen kubelet;
	bool cancelled; /* incomplete: drop it */
};

/* ---- peers ---- */

enum peers_state {
	PEERS_UNASKED,
	PEERS_UNKNOWN, /* the registry has no mirror */
	PEERS_SILENT,  /* the mirror does not answer or refuses */
	PEERS_LACK,    /* none has the image */
	PEERS_HAVE,
};

/* The answers of the mirrors of an image's registry. */
struct peers {
	enum peers_state state;
	unsigned silent;   /* questions in a row without an answer */
	uint64_t asked_us; /* the last question, CLOCK_REALTIME */
	uint64_t have_us;  /* when one first had it; 1: already when first asked; 0: not yet */
};

/* ---- the record: images.json in the state directory ---- */

/* An image that others delete so often is left to them. */
#define PRELOAD_ROUNDS_MAX 5
#define PRELOAD_ROUNDS_US  (600 * USEC_PER_SEC)

/* The record of an archive (name "") or of an image. */
struct preload {
	char name[IMAGE_NAME_MAX];    /* must be the first member: find_named() */
	char source[IMAGES_TEXT_MAX]; /* path of the archive; "": a registry */
	char id[DIGEST_MAX];          /* in the runtime */
	/* Archives only: archive_image.id of the last load under this name; "": never loaded. */
	char content[DIGEST_MAX];
	bool passed;            /* another archive provides the name, its id and its content */
	struct archive_key key; /* archives only */
	uint64_t size;          /* bytes; 0: unknown */
	uint64_t need;          /* bytes in the store, of an archive's image; 0: unknown */
	uint64_t first_seen_us; /* in the configuration, CLOCK_REALTIME; 0: never */
	uint64_t took_us;       /* duration of the last transfer */
	uint64_t bytes;         /* sent to the runtime in all transfers */
	unsigned failures;      /* since the last success */
	struct peers peers;     /* have_us is stored */

	/* Not stored: */
	bool loaded;      /* by the last transfer */
	bool of_others;   /* the last transfer found another image of others */
	bool disk_full;   /* the transfer filled the store: not again soon */
	uint64_t done_us; /* end of the last transfer, CLOCK_MONOTONIC */
	/* Transfers of an image that others had deleted, in PRELOAD_ROUNDS_US since rounds_us. */
	unsigned rounds;
	uint64_t rounds_us;
	enum reason reason;       /* why it failed; REASON_NONE: it did not */
	char why[IMAGES_WHY_MAX]; /* explains a failure; before the first attempt PEERS_SILENT */
};

/* Entries are sorted by source. Entries of one source keep the order in which they were added. */
struct preload_list {
	struct preload *entries;
	size_t n, allocated;
};

/* Returns the index of the source's first entry or, without one, of its insertion. */
size_t preload_first(const struct preload_list *list, const char *source);
struct preload *preload_find(const struct preload_list *list, const char *source, const char *name);
struct preload *preload_add(struct preload_list *list, const char *source, const char *name);

void preload_remove(struct preload_list *list, const char *source); /* all of the source */

/* Reads the record in the state directory. One that cannot be read counts as empty. */
void record_read(const char *directory, struct preload_list *list);
char *record_text(const struct preload_list *list); /* the caller frees it */
int record_write(const char *directory, const char *text);

/* ---- transfers ---- */

enum transfer_kind {
	TRANSFER_ARCHIVE, /* the images of an archive that are missing */
	TRANSFER_PULL,
	TRANSFER_CLEAN, /* removes names that a killed agent left */
	TRANSFER_RECORD,
	TRANSFER_ASK, /* asks the mirrors for images whose waves wait */
};

/* A task. decide() sets kind to percent_free. Members before `done` do not change while it runs. */
struct transfer {
	enum transfer_kind kind;
	struct archive_file archive;
	char name[IMAGE_NAME_MAX]; /* TRANSFER_PULL */
	uint64_t need;             /* bytes in the store; 0: unknown */
	uint64_t store_max;        /* bytes that may be used in the store; 0: unknown */
	uint64_t reserved;         /* part of these for other transfers */
	unsigned percent_free;     /* on the state directory's file system */
	char store[SETTING_PATH_MAX];
	const struct host *host;
	struct image_runtime runtime;
	struct text_list ready;    /* names of the archive that the runtime has */
	struct text_list others;   /* names that other archives provide */
	struct preload_list known; /* the record's images that were loaded or pulled */
	char *text;                /* TRANSFER_RECORD: the content of the file */
	/* TRANSFER_ASK: name and peers of each image are used. */
	struct preload_list asked;
	struct runtime_mirror *mirrors;
	size_t n_mirrors;
	bool cancelled;    /* the store is full; used by the loop only */
	uint64_t began_us; /* CLOCK_MONOTONIC */
	/* Used by the loop only: a load without progress is cancelled. */
	bool stalled;
	uint64_t progress_timeout_us, progress_us, progress_bytes;
	_Atomic uint64_t done;     /* bytes sent to the runtime; the loop reads it */
	_Atomic bool waits;        /* an archive: the loop says that it is to pause */
	_Atomic uint64_t load_us;  /* begin of the load of an image, CLOCK_MONOTONIC; 0: none */
	struct preload_list found; /* the archive and its images, or the pulled image */
	int error;
	char why[IMAGES_WHY_MAX]; /* TRANSFER_CLEAN, TRANSFER_RECORD */
};

/* transfer.c: member of struct tuner_ops. */
void images_transfer(void *request, const struct wait *wait);
void transfer_free(struct transfer *transfer);

/* Writes why an image does not fit. */
void images_describe_room(char why[static IMAGES_WHY_MAX], uint64_t need, uint64_t budget);

/* ---- the tuner ---- */

/* The request of a sample has this type too, with host, part of config, and the last sample. */
struct images_tuner {
	const struct host *host;
	struct facts *facts; /* NULL: in a request, and for a test */
	struct images_config config;
	struct images_sample sample;
	struct preload_list record;
	bool dirty;               /* the record must be written */
	bool due;                 /* a sample is due at once */
	uint64_t transfer_end_us; /* when the last one ended, CLOCK_MONOTONIC */
	uint64_t recorded_us;     /* begin of the last TRANSFER_RECORD, the same */
	bool archive_last;        /* an archive began after the last pull */
	struct transfer *active[IMAGES_ACTIVE_MAX]; /* owned by their tasks */
	size_t n_active;
};

void record_prune(struct images_tuner *tuner);

/* Adopts the result of a transfer. */
void record_adopt(struct preload_list *record, const struct preload *found);

/* sample.c: member of struct tuner_ops. */
void images_sample(void *request, const struct wait *wait);
void sample_sort(struct images_sample *sample);
struct runtime_image *sampled_image(const struct images_sample *sample, const char *name);

/* Returns whether the kubelet has made the cgroup of a pod. */
bool images_has_pods(const struct host *host);

/* Measures the bytes of the store's file system; device may be NULL. False: unknown. */
bool store_measure(
	const struct host *host, const char *store, uint64_t *size, uint64_t *used, dev_t *device);

void text_list_add(struct text_list *list, const char *text);
bool text_list_has(const struct text_list *list, const char *text);

/* ---- decisions: pure ---- */

enum image_state { IMAGE_PENDING, IMAGE_ACTIVE, IMAGE_READY, IMAGE_MOVED, IMAGE_FAILED };
extern const char *const image_state_names[];

/* A wanted image, or an archive whose content is not known yet. */
struct image_row {
	struct preload preload; /* begins with the name: find_named() */
	enum image_state state;
	enum reason reason;
	char why[IMAGES_WHY_MAX];
	bool asks;           /* its mirrors are to be asked now */
	uint64_t retry_us;   /* next attempt or begin of the wave, CLOCK_MONOTONIC; 0: none */
	int pinned;          /* -1: unknown */
	int wave;            /* -1: it has none */
	uint64_t planned_us; /* begin of its wave by the clock, CLOCK_REALTIME; 0: it has none */
};

/* The memory of decide(). */
struct images_memory {
	struct image_row *rows;
	size_t n, allocated;
	uint64_t forced_us; /* the last `headroom apply`, which retries failures; CLOCK_MONOTONIC */
	struct transfer begin[IMAGES_ACTIVE_MAX]; /* transfers to begin now */
	size_t n_begin;
	uint64_t missing_us;  /* since when the sandbox image is missing, CLOCK_MONOTONIC */
	uint64_t wanted_us;   /* the same, with pods; 0: there are none */
	bool full;            /* the store is full: cancel pulls */
	bool yields;          /* to a listed process on the disk: archives pause */
	uint64_t yield_us;    /* time for which transfers waited, since none was under way */
	uint64_t yield_at_us; /* the last decision, if a transfer waited then; 0: none did */
	bool pull_waits;      /* for the end of another transfer, in the last decision */
};

/* Returns the transfer of this kind that is under way, or NULL. */
const struct transfer *images_active(const struct images_tuner *tuner, enum transfer_kind kind,
	const char *path, const char *name);

/* Is a member of struct tuner_ops. */
void images_decide(const void *self, const struct decide_input *input, void *memory,
	struct proposal *proposal);

/* ---- reporting ---- */

struct cJSON *images_document(const void *self, const void *memory, bool trusted);
void images_metrics(const void *self, const void *memory, struct metric_sink *sink);

/* report.c */
extern const struct help_entry images_entries[];
extern const struct condition_type images_conditions[];
extern const struct metric_row images_metric_rows[];
extern const struct table_view images_view;

enum { IMAGE_PRELOAD_FAILED, SANDBOX_IMAGE_MISSING };
