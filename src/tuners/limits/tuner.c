/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/table.h"

#include "base/text.h"
#include "kernel/host.h"

/* A maximum from here on counts as unlimited: systemd sets fs.file-max to the largest number. */
#define UNLIMITED ((uint64_t)INT64_MAX)

/*
 * Limits that the kernel shows as two numbers in files. A new limit needs only a row here. A node
 * without the file does not have the limit.
 */
static const struct explanation rows[] = {
	{"conntrack", "limit",
		"Connections that netfilter tracks in the network namespace of the agent. "
		"When the table is full, packets of new connections are dropped (\"table "
		"full, dropping packet\" in the kernel log).",
		"connections", "by memory, 262144 at most",
		"sysctl, net.netfilter.nf_conntrack_max",
		.source = "net/netfilter/nf_conntrack_core.c, __nf_conntrack_alloc()",
		.severity = SEVERITY_CRITICAL,
		.breaks = "new connections time out: \"nf_conntrack: table full, dropping "
			  "packet\" in the kernel log",
		.now = "sysctl -w net.netfilter.nf_conntrack_max=1048576",
		.used = {"/proc/sys/net/netfilter/nf_conntrack_count", 1},
		.max = {"/proc/sys/net/netfilter/nf_conntrack_max", 1}},
	{"file-handles", "limit",
		"Open files of all processes. At the limit, open, socket and accept fail with "
		"ENFILE for all users but root. Where systemd has raised the maximum to the "
		"largest possible number, the limit is not shown.",
		"files", "by memory, about 10 % at 1 kB a file", "sysctl, fs.file-max",
		.source = "fs/file_table.c, alloc_empty_file()", .severity = SEVERITY_CRITICAL,
		.breaks = "\"Too many open files in system\" (ENFILE); \"VFS: file-max limit N "
			  "reached\" in the kernel log",
		.now = "sysctl -w fs.file-max=9223372036854775807",
		.used = {"/proc/sys/fs/file-nr", 1}, .max = {"/proc/sys/fs/file-nr", 3}},
	{0},
};

#define ROWS (ARRAY_SIZE(rows) - 1)

struct limits {
	const struct host *host;
	struct reading {
		uint64_t used, max;
		int error; /* 0, or -errno; -ENOENT: this node lacks the limit */
	} readings[ROWS];
};

const struct config_option limits_options[] = {MODE_OPTION("limits"), {0}};

static void *limits_open(const struct host *host, struct tuner_loop *loop)
{
	struct limits *limits = must(calloc(1, sizeof(*limits)));

	(void)loop;
	limits->host = host;
	return limits;
}

static int read_number(const struct host *host, const struct number_in_file *from, uint64_t *number)
{
	char numbers[SETTING_VALUE_MAX];
	const char *text = numbers;
	int used, r = host_read_value(host, from->path, numbers);

	if (r < 0)
		return r;
	for (unsigned field = from->field; field > 0; field--, text += used)
		if (sscanf(text, "%" SCNu64 "%n", number, &used) != 1)
			return -EBADMSG;
	return 0;
}

static void limits_sense(void *self)
{
	struct limits *limits = self;

	for (size_t i = 0; i < ROWS; i++) {
		struct reading *reading = &limits->readings[i];

		reading->error = read_number(limits->host, &rows[i].used, &reading->used);
		if (reading->error == 0)
			reading->error = read_number(limits->host, &rows[i].max, &reading->max);
	}
}

static void limits_decide(
	const void *self, const struct decide_input *input, void *memory, struct proposal *proposal)
{
	const struct limits *limits = self;

	(void)input, (void)memory;
	for (size_t i = 0; i < ROWS; i++) {
		const struct reading *reading = &limits->readings[i];
		struct limit_reading *limit;

		if (reading->error < 0 || reading->max >= UNLIMITED)
			continue;
		limit = proposal_limit(proposal);
		copy_text(limit->name, LIMIT_NAME_MAX, rows[i].name);
		limit->unit = rows[i].unit;
		limit->used = reading->used;
		limit->max = reading->max;
	}
}

static void limits_explain(const void *self, char why[static TUNER_WHY_MAX])
{
	const struct limits *limits = self;

	for (size_t i = 0; i < ROWS; i++)
		if (limits->readings[i].error < 0 && limits->readings[i].error != -ENOENT)
			text_append(why, TUNER_WHY_MAX, "%s%s: %s: let the agent read it",
				why[0] ? "; " : "", rows[i].used.path,
				strerror(-limits->readings[i].error));
}

const struct tuner_ops limits_tuner = {
	.name = "limits",
	.summary = "Watches limits that the kernel shows in files; it sets nothing.",
	.explanations = rows,
	.open = limits_open,
	.sense = limits_sense,
	.decide = limits_decide,
	.explain = limits_explain,
	.close = tuner_free,
};
