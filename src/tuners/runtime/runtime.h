/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Internals of this tuner. A sample is plain data: a task updates a copy, and the loop adopts the
 * copy.
 */

#include "config/config.h"
#include "runtime/driver.h"

#include <headroom/tuner.h>

/* The interval of slow readings. */
#define RUNTIME_SLOW_EVERY_US (15 * USEC_PER_SEC)

/* ---- configuration ---- */

struct runtime_config {
	const struct runtime_driver *driver; /* NULL: all of them */
	struct runtime_number {
		uint64_t value; /* layers, microseconds; 0: keep */
		bool exact;     /* also lowers */
		bool given;     /* in a configuration file */
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
	struct mirror_file *files; /* for registries with mirrors or with a record */
	size_t n_files;
	struct pull_counts pulled;
	uint64_t now_us;      /* CLOCK_MONOTONIC of its start */
	uint64_t realtime_us; /* and CLOCK_REALTIME */
	uint64_t discover_due_us;
	uint64_t next_us; /* CLOCK_MONOTONIC of the next sample */
};

/* Registries with a mirror file in the journal. */
struct runtime_recorded {
	char registries[RUNTIME_MIRROR_MAX][REGISTRY_NAME_MAX]; /* with a mirror file */
	size_t n;
};

/* A copy of it, with a copy of the sample, is the request of the task. */
struct runtime_tuner {
	const struct host *host; /* constant */
	struct facts *facts;     /* belongs to the loop: not for a task */
	bool once; /* a command without an agent: a silent runtime is not given time */
	struct runtime_config config;
	struct runtime_sample sample;
	struct sd_event *event;        /* NULL: a command */
	struct sd_event_source *watch; /* for a driver's directory, or NULL */
	const char *watch_prefix;
	char watched[SETTING_PATH_MAX];
	struct runtime_opened opened[PULL_LAYERS_MAX]; /* there, since the last request */
	size_t n_opened;
	bool due;                         /* at once: the configuration or a file has changed */
	uint64_t soon_until_us;           /* CLOCK_MONOTONIC */
	struct runtime_recorded recorded; /* as decide() left it */
	bool cancelled; /* in a request: the sample is incomplete, and to be dropped */
};

/* sample.c: member of struct tuner_ops. */
void runtime_sample(void *request, const struct wait *wait);
void runtime_sample_clear(struct runtime_sample *sample);
struct node_runtime *runtime_find(const struct runtime_sample *sample, const char *socket);

void runtime_sample_files(struct runtime_tuner *request);

/* ---- decisions: pure ---- */

struct runtime_memory {
	bool awaits_idle; /* a restart may be due when the next sample shows no pull */
	struct runtime_recorded recorded;
};

/* Is a member of struct tuner_ops. */
void runtime_decide(const void *self, const struct decide_input *input, void *memory,
	struct proposal *proposal);
/* ---- reporting ---- */

struct cJSON *runtime_document(const void *self, const void *memory, bool trusted);
void runtime_metrics(const void *self, const void *memory, struct metric_sink *sink);

/* report.c */
extern const struct condition_type runtime_conditions[];
extern const struct table_view runtime_view;

enum {
	RUNTIME_UNREACHABLE,
	RUNTIME_RESTART_PENDING,
	IMAGE_STORE_FULL,
	PULL_STUCK,
	PULL_SLOW,
	STORAGE_DRIVER_SLOW
};

/* A slow or obsolete storage driver. */
struct poor_driver {
	const char *name, *why, *instead;
};

/* NULL: the store's driver is good, or not known. */
const struct poor_driver *runtime_poor_driver(const struct runtime_store *store);
