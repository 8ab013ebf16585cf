/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the parts of this tuner share. A sample is plain data: the worker gets a copy, brings it up
 * to date by asking the runtimes, and the loop takes the copy over whole.
 */

#include "config/config.h"
#include "runtime/driver.h"
#include "runtime/registry.h"

#include <headroom/tuner.h>

#define RUNTIME_MIRROR_MAX 32 /* configured in all */

/* What changes slowly is asked for this often. */
#define RUNTIME_SLOW_EVERY_US (15 * USEC_PER_SEC)

/* ---- configuration ---- */

struct runtime_mirror {
	char registry[REGISTRY_NAME_MAX]; /* REGISTRY_DEFAULT for all without one of their own */
	char url[REGISTRY_URL_MAX];
};

struct runtime_config {
	const struct runtime_driver *driver; /* NULL: all of them */
	struct runtime_number {
		uint64_t value; /* layers, microseconds; 0: keep */
		bool exact;     /* from a file of the administrator: also where that is less */
	} numbers[RUNTIME_PROGRESS_TIMEOUT + 1];
	enum restart_policy restart;
	struct runtime_mirror mirrors[RUNTIME_MIRROR_MAX];
	size_t n_mirrors;
};

/* ---- the sample ---- */

struct runtime_sample {
	struct node_runtime *runtimes;
	size_t n;
	struct mirror mirrors[RUNTIME_MIRROR_MAX]; /* each URL once */
	size_t n_mirrors;
	struct mirror_file *files; /* of registries that have mirrors, or had */
	size_t n_files;
	struct pull_counts pulled;
	uint64_t now_us;      /* CLOCK_MONOTONIC of its beginning */
	uint64_t realtime_us; /* and CLOCK_REALTIME */
	uint64_t discover_due_us;
	uint64_t next_us; /* CLOCK_MONOTONIC: when the next one is due */
};

/* What the journal has of this tuner. */
struct runtime_recorded {
	char registries[RUNTIME_MIRROR_MAX][REGISTRY_NAME_MAX]; /* with a mirror file */
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

/* mirrors.c */
void runtime_sample_files(struct runtime_tuner *request);

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
 * A want of a setting that this runtime's driver has, with its file and what makes it take effect.
 * text is the value in the file.
 */
struct want *runtime_want(const struct runtime_decision *decision,
	const struct node_runtime *runtime, enum runtime_setting setting, const char *text);

/* What makes a file take effect in this runtime. */
void runtime_set_service(const struct runtime_decision *decision,
	const struct node_runtime *runtime, enum activation activation, struct file_change *file);

/* "containerd.KEY"; the driver's name for its first runtime on the node, else the runtime's own. */
void runtime_name(const struct runtime_sample *sample, const struct node_runtime *runtime,
	enum runtime_setting setting, char name[static SETTING_NAME_MAX]);

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
