/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/table.h"

#include "kernel/host.h"

/* A maximum from here on is none: systemd sets fs.file-max to the largest number there is. */
#define UNLIMITED ((uint64_t)INT64_MAX)

/*
 * Limits that the kernel shows as two numbers in files. A new limit is one row here and no code. A
 * file that this node lacks means that it has no such limit.
 */
static const struct limit_row rows[] = {
	{"conntrack", "connections",
		"Connections that netfilter tracks, in the network namespace of the agent. "
		"When the table is full, packets of new connections are dropped (\"table "
		"full, dropping packet\" in the kernel's log).",
		"by memory, 262144 at most", "sysctl, net.netfilter.nf_conntrack_max",
		"net/netfilter/nf_conntrack_core.c, __nf_conntrack_alloc()",
		.used = {"/proc/sys/net/netfilter/nf_conntrack_count", 1},
		.max = {"/proc/sys/net/netfilter/nf_conntrack_max", 1}},
	{"file-handles", "files",
		"Open files of all processes. When no more are left, open, socket and accept "
		"fail with ENFILE for all but root. Where systemd has raised the maximum to "
		"the largest number, there is no limit.",
		"by memory, about 10 % at 1 kB a file", "sysctl, fs.file-max",
		"fs/file_table.c, alloc_empty_file()", .used = {"/proc/sys/fs/file-nr", 1},
		.max = {"/proc/sys/fs/file-nr", 3}},
	{0},
};

#define ROWS (ARRAY_SIZE(rows) - 1)

struct limits {
	const struct host *host;
	struct reading {
		struct kept_file used, max;
		struct limit_reading now;
		int error; /* 0, or -errno of reading either; -ENOENT: no such limit here */
	} readings[ROWS];
};

const struct config_option limits_options[] = {MODE_OPTION("limits"), {0}};

static void *limits_open(const struct host *host, bool watch)
{
	struct limits *limits = must(calloc(1, sizeof(*limits)));

	(void)watch;
	limits->host = host;
	for (size_t i = 0; i < ROWS; i++) {
		struct reading *reading = &limits->readings[i];

		reading->used.fd = reading->max.fd = -1;
		copy_text(reading->used.path, SETTING_PATH_MAX, rows[i].used.path);
		copy_text(reading->max.path, SETTING_PATH_MAX, rows[i].max.path);
		copy_text(reading->now.name, LIMIT_NAME_MAX, rows[i].name);
		reading->now.unit = rows[i].unit;
	}
	return limits;
}

static void limits_close(void *self)
{
	struct limits *limits = self;

	for (size_t i = 0; i < ROWS; i++) {
		kept_close(&limits->readings[i].used);
		kept_close(&limits->readings[i].max);
	}
	free(limits);
}

/* Field n (from 1) of white-space separated numbers. */
static int read_number(
	const struct host *host, struct kept_file *file, unsigned field, uint64_t *value)
{
	char buffer[256];
	const char *text = buffer;
	int used, n = kept_read(host, file, buffer, sizeof(buffer));

	if (n < 0)
		return n;
	for (; field > 0; field--, text += used)
		if (sscanf(text, "%" SCNu64 "%n", value, &used) != 1)
			return -EBADMSG;
	return 0;
}

static void limits_sense(void *self)
{
	struct limits *limits = self;

	for (size_t i = 0; i < ROWS; i++) {
		struct reading *reading = &limits->readings[i];

		reading->error = read_number(
			limits->host, &reading->used, rows[i].used.field, &reading->now.used);
		if (reading->error == 0)
			reading->error = read_number(
				limits->host, &reading->max, rows[i].max.field, &reading->now.max);
	}
}

static void limits_decide(
	const void *self, const struct decide_input *input, void *memory, struct proposal *proposal)
{
	const struct limits *limits = self;

	(void)input, (void)memory;
	for (size_t i = 0; i < ROWS; i++)
		if (limits->readings[i].error == 0 && limits->readings[i].now.max < UNLIMITED)
			*proposal_limit(proposal) = limits->readings[i].now;
}

static void limits_explain(const void *self, char why[static TUNER_WHY_MAX])
{
	const struct limits *limits = self;
	size_t used = 0;

	for (size_t i = 0; i < ROWS; i++)
		if (limits->readings[i].error < 0 && limits->readings[i].error != -ENOENT)
			used += (size_t)snprintf(why + used, TUNER_WHY_MAX - used,
				"%s%s: %s: let the agent read it", used > 0 ? "; " : "",
				rows[i].used.path, strerror(-limits->readings[i].error));
}

const struct tuner_ops limits_tuner = {
	.name = "limits",
	.summary = "Watches limits that the kernel shows as numbers in files; it sets nothing.",
	.options = limits_options,
	.limits = rows,
	.open = limits_open,
	.sense = limits_sense,
	.decide = limits_decide,
	.explain = limits_explain,
	.close = limits_close,
};
