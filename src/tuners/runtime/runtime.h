/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the parts of this tuner share. A sample is plain data: the worker gets a copy, brings it up
 * to date by asking the runtimes, and the loop takes the copy over whole.
 */

#include "config/config.h"
#include "runtime/containerd_config.h"
#include "runtime/daemon_json.h"
#include "runtime/docker.h"
#include "runtime/registry.h"

#include <headroom/tuner.h>

#define RUNTIME_MIRROR_MAX     32 /* configured in all */
#define RUNTIME_NAMESPACES_MAX 8  /* of containerd, looked at for pulls */
#define RUNTIME_WHY_MAX        256

/* What changes slowly is asked for this often. */
#define RUNTIME_SLOW_EVERY_US (15 * USEC_PER_SEC)

/* Of hosts.toml files, unless the configuration names another. */
#define RUNTIME_HOSTS_DIRECTORY "/etc/containerd/certs.d"

/* ---- configuration ---- */

struct runtime_mirror {
	char registry[REGISTRY_NAME_MAX]; /* HOSTS_TOML_DEFAULT for all without one of their own */
	char url[REGISTRY_URL_MAX];
};

struct runtime_config {
	int kind; /* 0: every one; else enum runtime_kind + 1 */
	struct runtime_number {
		uint64_t value; /* layers, microseconds; 0: keep */
		bool exact;     /* from a file of the administrator: also where that is less */
	} numbers[CONTAINERD_PROGRESS_TIMEOUT + 1];
	enum restart_policy restart;
	struct runtime_mirror mirrors[RUNTIME_MIRROR_MAX];
	size_t n_mirrors;
};

/* ---- pulls.c ---- */

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
void pulls_take(struct pulls *pulls, struct pull_counts *counts, const struct pull_piece *pieces,
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

/* ---- the sample ---- */

enum runtime_answer {
	RUNTIME_ASKED,   /* no answer yet */
	RUNTIME_ANSWERS, /* the last one came */
	RUNTIME_SILENT,  /* why says why */
};

/* The file system that images are unpacked to. */
struct runtime_store {
	bool known;
	char directory[SETTING_PATH_MAX]; /* below the host's root */
	char driver[64];                  /* Docker's storage driver or containerd's snapshotter */
	dev_t number;                     /* that filesystem and device are of */
	char filesystem[32];              /* "ext4"; empty when not known */
	char device[64];                  /* "sda1"; empty for a file system without one */
	bool rotational, network;
	uint64_t size, used; /* bytes of the file system; used is what root cannot write any more */
	uint64_t image_bytes; /* of it, what the runtime says its images take */
};

/* The network address of a pod, asked for once. */
struct runtime_address {
	char sandbox[72];
	char address[NAMES_ADDRESS_MAX]; /* empty: none of its own */
};

struct node_runtime {
	struct runtime found;
	enum runtime_answer answer;
	bool answered_once; /* since the agent started */
	bool no_cri;        /* a containerd whose CRI plugin is off */
	char why[RUNTIME_WHY_MAX];
	uint64_t since_us; /* CLOCK_MONOTONIC: of answer */
	char version[64];
	pid_t pid;                      /* of the daemon; 0: not known */
	struct runtime_process process; /* with the usual configuration, if it names none */
	struct docker_process options;  /* of dockerd's command line */

	/* In force, as the runtime says; empty: it does not. Durations as Go prints them. */
	char reported_downloads[SETTING_VALUE_MAX], reported_timeout[SETTING_VALUE_MAX];
	/* In force, also where only unchanged files say so; empty: not known. */
	char downloads[SETTING_VALUE_MAX], timeout[SETTING_VALUE_MAX], directory[SETTING_VALUE_MAX];

	/* Its files. */
	bool files_known; /* were read at least once */
	struct containerd_config containerd;
	struct docker_config docker;

	struct runtime_store store;
	struct pulls pulls;
	uint64_t pulls_at_us; /* CLOCK_MONOTONIC of the last answer; 0: not known */
	struct docker_info docker_info;
	uint64_t docker_events_us; /* CLOCK_REALTIME: pulls that ended before are counted */
	char namespaces[RUNTIME_NAMESPACES_MAX][64];
	size_t n_namespaces;

	uint64_t due_us;     /* CLOCK_MONOTONIC: when what changes slowly is asked for again */
	size_t content_turn; /* which layer without a name is asked about next */

	/* Not copied but moved with a request: the loop has no use for the addresses, and gives the
	 * names on. */
	struct runtime_addresses {
		struct runtime_address *entries;
		size_t n, allocated;
	} addresses;
	struct runtime_names {
		struct name_entry *entries;
		size_t n, allocated;
		bool fresh; /* of this sample; else as before, and entries is NULL */
	} names;
};

/* A registry that has mirrors configured, or had: what its hosts.toml is. */
struct runtime_hosts {
	char registry[REGISTRY_NAME_MAX];
	char path[SETTING_PATH_MAX]; /* of hosts.toml */
	bool exists, ours;
	char sum[HASH_TEXT_MAX];         /* of its text, when it is ours */
	char mirrors[SETTING_VALUE_MAX]; /* that it has, when it is ours */
	int error;                       /* of reading it */
};

struct runtime_sample {
	struct node_runtime *runtimes;
	size_t n;
	struct mirror mirrors[RUNTIME_MIRROR_MAX]; /* each URL once */
	size_t n_mirrors;
	struct runtime_hosts *hosts;
	size_t n_hosts;
	struct pull_counts pulled;
	uint64_t now_us;      /* CLOCK_MONOTONIC of its beginning */
	uint64_t realtime_us; /* and CLOCK_REALTIME */
	uint64_t discover_due_us;
	uint64_t next_us; /* CLOCK_MONOTONIC: when the next one is due */
};

/* What the journal has of this tuner. */
struct runtime_recorded {
	char registries[RUNTIME_MIRROR_MAX][REGISTRY_NAME_MAX]; /* with a hosts.toml */
	size_t n;
};

/* A copy of it, with a copy of the sample, is the request to the worker. */
struct runtime_tuner {
	const struct host *host; /* constant */
	bool once; /* a command without an agent: a silent runtime is not given time */
	struct runtime_config config;
	struct runtime_sample sample;
	bool due;                         /* at once: the configuration or a file has changed */
	uint64_t soon_until_us;           /* CLOCK_MONOTONIC */
	struct runtime_recorded recorded; /* as decide() left it */
	bool cancelled; /* of a request: the sample is incomplete, and to be dropped */
};

/* sample.c: member of struct tuner_ops. */
void runtime_sample(void *request, const struct wait *wait);
void runtime_sample_clear(struct runtime_sample *sample);
struct node_runtime *runtime_find(const struct runtime_sample *sample, const char *socket);

/* Notes an answer, or why there is none. */
void runtime_note(struct node_runtime *runtime, const char *why);

/* All names that the runtime has now. */
void runtime_take_names(struct node_runtime *runtime, struct runtime_names *names);

/* Takes the daemon's process: a new one has read its files again, and forgets what was in force. */
void runtime_take_process(struct node_runtime *runtime, const struct host *host, pid_t pid);

/* Asks the runtime at a socket; slow: also for what changes slowly. */
void runtime_sample_cri(struct node_runtime *runtime, struct runtime_tuner *request,
	const char *socket, bool slow, const struct wait *wait);

/* mirrors.c */
void runtime_sample_hosts(struct runtime_tuner *request);

/* Why its configuration cannot be used, "" when it can. */
const char *runtime_file_why(const struct node_runtime *runtime);

/* "30m0s" of microseconds, as Go prints it. */
void runtime_duration_text(uint64_t us, char text[static 32]);

/* ---- decisions: pure ---- */

struct runtime_memory {
	bool store_full; /* hysteresis */
	struct runtime_recorded recorded;
};

/* What the parts of one decide() share: what goes in, and where the result goes. */
struct runtime_decision {
	const struct runtime_tuner *tuner;
	const struct decide_input *input;
	struct runtime_memory *memory;
	struct proposal *proposal;
};

/* Member of struct tuner_ops. */
void runtime_decide(const void *self, const struct decide_input *input, void *memory,
	struct proposal *proposal);
void runtime_decide_mirrors(const struct runtime_decision *decision);

/*
 * A want of a key of this runtime's, named by it, with what makes it take effect; in the topmost
 * object of its JSON file, unless the target becomes another. text is the value there.
 */
struct want *runtime_want(const struct runtime_decision *decision,
	const struct node_runtime *runtime, const char *key, const char *text);

/* "containerd.KEY"; the kind for the node's own runtime, wherever it was found, else its name. */
void runtime_name(const struct runtime_sample *sample, const struct node_runtime *runtime,
	const char *key, char name[static SETTING_NAME_MAX]);

/* The setting is reported and not written, for this reason. */
void runtime_leave(struct want *want, const char *reason);

/* The reason why nothing of this runtime's can be written now; NULL: it can. */
const char *runtime_obstacle(const struct node_runtime *runtime);

/* ---- reporting ---- */

struct cJSON *runtime_document(const void *self, const void *memory, bool trusted);
void runtime_metrics(const void *self, const void *memory, struct metric_sink *sink);

/* report.c */
extern const struct condition_type runtime_conditions[];
extern const struct table_view runtime_view;

enum { RUNTIME_UNREACHABLE, RUNTIME_RESTART_PENDING, IMAGE_STORE_FULL, PULL_STUCK, STORAGE_SLOW };

/* What is slow about the driver that unpacks images there, and the cure; NULL for nothing. */
const char *runtime_poor_driver(const struct runtime_store *store);
