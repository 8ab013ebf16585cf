/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/limits/limits.h"
#include "tuners/table.h"

#include "base/text.h"
#include "base/wait.h"
#include "workload/cgroup.h"

#define SAMPLE_EVERY_US (10 * USEC_PER_SEC)

const struct config_option limits_options[] = {MODE_OPTION("limits"), {0}};

static void *limits_open(const struct host *host, struct tuner_loop *loop)
{
	struct limits *limits = must(calloc(1, sizeof(*limits)));

	(void)loop;
	limits->host = host;
	while (limits_rows[limits->n].name)
		limits->n++;
	limits->rows = must(calloc(limits->n, sizeof(*limits->rows)));
	for (size_t i = 0; i < limits->n; i++)
		limits->rows[i] = (struct limit_seen){.row = &limits_rows[i], .error = -ENOENT};
	return limits;
}

static void seen_clear(struct limit_seen *seen)
{
	free(seen->reading.top);
	seen->reading = (struct limit_reading){0};
}

static void limits_sense(void *self)
{
	struct limits *limits = self;

	for (size_t i = 0; i < limits->n; i++) {
		struct limit_seen *seen = &limits->rows[i];
		const struct limit_reader *reader = seen->row->reader;

		if (reader && !reader->read)
			continue;
		seen_clear(seen);
		seen->error = reader ? reader->read(limits->host, reader, &seen->reading)
				     : limits_read_numbers(limits->host, seen->row, &seen->reading);
	}
	/* The runtime may name a pod after it was found. */
	for (size_t i = 0; i < limits->n; i++)
		for (unsigned k = 0; k < limits->rows[i].reading.n_top; k++)
			names_apply(limits->host->names, &limits->rows[i].reading.top[k].workload);
}

/* ---- the sample ---- */

struct limits_sample {
	struct host host;
	size_t n;
	struct limit_seen *rows;
};

static void *sample_request(void *self, const void *memory, bool now)
{
	struct limits *limits = self;
	struct limits_sample *sample;

	(void)memory;
	if (!now && now_us() < limits->next_sample_us)
		return NULL;
	limits->next_sample_us = next_turn_us(now_us(), SAMPLE_EVERY_US);
	sample = must(calloc(1, sizeof(*sample)));
	sample->host = *limits->host;
	sample->n = limits->n;
	sample->rows = must(calloc(limits->n, sizeof(*sample->rows)));
	return sample;
}

static void sample_run(void *request, const struct wait *wait)
{
	struct limits_sample *sample = request;

	for (size_t i = 0; i < sample->n; i++) {
		const struct limit_reader *reader = limits_rows[i].reader;

		if (!reader || !reader->sample)
			continue;
		wait_path(wait, limits_rows[i].name);
		sample->rows[i].error =
			reader->sample(&sample->host, reader, &sample->rows[i].reading);
	}
	wait_path(wait, NULL);
}

static void sample_adopt(void *self, void *request)
{
	struct limits_sample *sample = request;
	struct limits *limits = self;

	for (size_t i = 0; i < sample->n; i++) {
		if (limits && limits_rows[i].reader && limits_rows[i].reader->sample) {
			seen_clear(&limits->rows[i]);
			limits->rows[i].error = sample->rows[i].error;
			limits->rows[i].reading = sample->rows[i].reading;
		} else {
			seen_clear(&sample->rows[i]);
		}
	}
	free(sample->rows);
	free(sample);
}

static void limits_explain(const void *self, char why[static TUNER_WHY_MAX])
{
	const struct limits *limits = self;

	for (size_t i = 0; i < limits->n; i++) {
		int error = limits->rows[i].error;

		if (error < 0 && error != -ENOENT)
			text_append(why, TUNER_WHY_MAX, "%s%s: %s: let the agent read it",
				why[0] ? "; " : "", limits_rows[i].name, strerror(-error));
	}
}

static void limits_close(void *self, void *data)
{
	struct limits_memory *memory = data;
	struct limits *limits = self;

	for (size_t i = 0; i < limits->n; i++)
		seen_clear(&limits->rows[i]);
	free(limits->rows);
	free(limits);
	if (memory)
		free(memory->rows);
}

const struct tuner_ops limits_tuner = {
	.name = "limits",
	.summary = "Watches limits of the node that others do not show, and who uses them.",
	.explanations = limits_rows,
	.conditions = limits_conditions,
	.open = limits_open,
	.sense = limits_sense,
	.jobs[JOB_SAMPLE] = {sample_request, sample_run, sample_adopt, NULL},
	.memory_size = sizeof(struct limits_memory),
	.decide = limits_decide,
	.explain = limits_explain,
	.close = limits_close,
};
