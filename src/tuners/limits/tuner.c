/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/limits/limits.h"
#include "tuners/table.h"

#include "base/util.h"
#include "kernel/host.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* A maximum from here on is none: systemd sets fs.file-max to the largest number there is. */
#define UNLIMITED ((uint64_t)INT64_MAX)

struct limits {
	const struct host *host;
	size_t n;
	struct limits_reading *readings;
	struct kept_file (*files)[2]; /* used and max of each row */
};

const struct config_option limits_options[] = {
	{
		.name = "limits.mode",
		.type = OPTION_CHOICE,
		.words = tuner_mode_words,
		.sentence = "The mode of the limits tuner, which only reads; empty: the agent's.",
	},
	{0},
};

int limits_parse(const char *text, unsigned field, uint64_t *value)
{
	uint64_t number = 0;
	int used;

	for (; field > 0; field--, text += used)
		if (sscanf(text, "%" SCNu64 "%n", &number, &used) != 1)
			return -EBADMSG;
	*value = number;
	return 0;
}

int limits_decide(const struct limit_row *rows, const struct limits_reading *readings,
	struct proposal *proposal)
{
	for (size_t i = 0; rows[i].name; i++) {
		struct limit_reading *limit;

		if (readings[i].error < 0 || readings[i].max >= UNLIMITED)
			continue;
		limit = proposal_limit(proposal);
		if (!limit)
			return -ENOMEM;
		copy_text(limit->name, LIMIT_NAME_MAX, rows[i].name);
		limit->unit = rows[i].unit;
		limit->used = readings[i].used;
		limit->max = readings[i].max;
	}
	return 0;
}

static void limits_close(void *self)
{
	struct limits *limits = self;

	for (size_t i = 0; limits->files && i < limits->n; i++) {
		kept_close(&limits->files[i][0]);
		kept_close(&limits->files[i][1]);
	}
	free(limits->files);
	free(limits->readings);
	free(limits);
}

static int limits_open(const struct host *host, bool watch, void **self)
{
	struct limits *limits = calloc(1, sizeof(*limits));

	(void)watch;
	if (!limits)
		return -ENOMEM;
	limits->host = host;
	while (limits_rows[limits->n].name)
		limits->n++;
	limits->readings = calloc(limits->n, sizeof(*limits->readings));
	limits->files = calloc(limits->n, sizeof(*limits->files));
	if (!limits->readings || !limits->files) {
		limits_close(limits);
		return -ENOMEM;
	}
	for (size_t i = 0; i < limits->n; i++) {
		struct kept_file *used = &limits->files[i][0], *max = &limits->files[i][1];

		used->fd = max->fd = -1;
		copy_text(used->path, sizeof(used->path), limits_rows[i].used.path);
		copy_text(max->path, sizeof(max->path), limits_rows[i].max.path);
	}
	*self = limits;
	return 0;
}

static int limits_configure(void *self, const struct config *config)
{
	(void)self, (void)config;
	return 0;
}

static int read_number(
	const struct host *host, struct kept_file *file, unsigned field, uint64_t *value)
{
	char text[256];
	int n = kept_read(host, file, text, sizeof(text));

	return n < 0 ? n : limits_parse(text, field, value);
}

static void limits_sense(void *self)
{
	struct limits *limits = self;

	for (size_t i = 0; i < limits->n; i++) {
		const struct limit_row *row = &limits_rows[i];
		struct limits_reading *reading = &limits->readings[i];

		reading->error = read_number(
			limits->host, &limits->files[i][0], row->used.field, &reading->used);
		if (reading->error == 0)
			reading->error = read_number(
				limits->host, &limits->files[i][1], row->max.field, &reading->max);
	}
}

static int limits_decide_op(
	const void *self, const struct decide_input *input, void *memory, struct proposal *proposal)
{
	const struct limits *limits = self;

	(void)input, (void)memory;
	return limits_decide(limits_rows, limits->readings, proposal);
}

static enum tuner_state limits_state(const void *self, char why[static TUNER_WHY_MAX])
{
	const struct limits *limits = self;
	size_t used = 0;

	why[0] = '\0';
	for (size_t i = 0; i < limits->n; i++)
		if (limits->readings[i].error < 0 && limits->readings[i].error != -ENOENT)
			used += (size_t)snprintf(why + used, TUNER_WHY_MAX - used,
				"%s%s: %s: let the agent read it", used > 0 ? "; " : "",
				limits_rows[i].used.path, strerror(-limits->readings[i].error));
	return why[0] ? TUNER_DEGRADED : TUNER_ACTIVE;
}

const struct tuner_ops limits_tuner = {
	.name = "limits",
	.summary = "Watches limits that the kernel shows as numbers in files; it sets nothing.",
	.options = limits_options,
	.limits = limits_rows,
	.open = limits_open,
	.configure = limits_configure,
	.sense = limits_sense,
	.decide = limits_decide_op,
	.state = limits_state,
	.close = limits_close,
};
