/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/limits/limits.h"
#include "tuners/table.h"

#include "workload/cgroup.h"
#include "workload/facts.h"

#include <linux/capability.h>

static const char *const raise_choices[] = {
	"conntrack", "inotify", "pids", "maps", "keys", "somaxconn", NULL};

static const struct config_option raise_items[] = {
	{"", OPTION_CHOICE, .choices = raise_choices, .help = "A limit."}, {0}};

const struct config_option limits_options[] = {
	MODE_OPTION("limits"),
	{"limits.raise", OPTION_LIST, .max = 6, .items = raise_items, .def = "[]",
		.help = "Limits to raise, with the records and the mode of the tuner sysctl. "
			"conntrack: nf_conntrack_max to 1 % of the memory at 320 bytes a connection, "
			"at most 1048576, and a quarter as many buckets; inotify: 8192 instances and "
			"524288 watches of a user; pids: pid_max 4194304; maps: max_map_count 1048576; "
			"keys: 2000 keys and 200000 bytes of a user; somaxconn: 4096. A sysctl that the "
			"configuration sets with exact stays as configured."},
	{0},
};

static const struct capability_row capabilities[] = {
	{CAPABILITY(CAP_BPF), CAPABILITY_TO_RUN, NULL,
		"loads the programs that list what processes and files count for"},
	{CAPABILITY(CAP_PERFMON), CAPABILITY_TO_OPEN, NULL, "lets them read the kernel's memory"},
	{CAPABILITY(CAP_NET_ADMIN), CAPABILITY_TO_RUN, NULL,
		"reads a sample of the tracked connections"},
	{0},
};

static void *limits_open(const struct host *host, struct facts *facts, struct sd_event *)
{
	struct limits *limits = must(calloc(1, sizeof(*limits)));

	limits->host = host;
	limits->facts = facts;
	limits->census = NO_CENSUS;
	while (limits_rows[limits->n].name)
		limits->n++;
	limits->rows = must(calloc(limits->n, sizeof(*limits->rows)));
	for (size_t i = 0; i < limits->n; i++)
		limits->rows[i] = (struct limit_seen){.row = &limits_rows[i], .error = -ENOENT};
	return limits;
}

/* The runtime may name a pod after it was found, and a process may have ended before. */
static void name_users(const struct facts *facts, struct limit_user *top, unsigned n, uint64_t now)
{
	const struct names *names = &facts->names;

	for (unsigned i = 0; i < n; i++) {
		struct workload *workload = &top[i].workload;
		struct workload unknown = cgroup_unknown(top[i].id);

		if (workload_equal(workload, &unknown)) {
			cgroups_learn(facts->cgroups, &top[i].id, 1, now);
			*workload = cgroups_find(facts->cgroups, top[i].id);
		}
		if (workload->kind == WORKLOAD_NETNS)
			names_at_address(names, workload->name, workload);
		names_apply(names, workload);
	}
}

static void name_row(const struct facts *facts, struct limit_seen *seen, uint64_t now)
{
	for (int pass = 0; pass < PASSES; pass++)
		name_users(facts, seen->users[pass].top, seen->users[pass].n_top, now);
	for (int i = 0; i < SOURCES; i++)
		for (unsigned k = 0; k < seen->instances[i].n; k++) {
			struct limit_instance *instance = &seen->instances[i].list[k];

			names_apply(&facts->names, &instance->instance.owner);
			name_users(facts, instance->top, instance->n_top, now);
		}
}

void limits_seen_clear(struct limit_seen *seen)
{
	free(steal(seen->reading.top));
	for (int pass = 0; pass < PASSES; pass++)
		free(steal(seen->users[pass].top));
	for (int i = 0; i < SOURCES; i++)
		limit_instances_clear(&seen->instances[i]);
}

#define FILE_NR "/proc/sys/fs/file-nr"

/* Returns whether the node can open no more files. */
static bool files_are_full(const struct host *host)
{
	char value[SETTING_VALUE_MAX];

	return host_read_value(host, FILE_NR, value) == -ENFILE;
}

/* The agent can open none either: the readings stay, and that of the open files is known. */
static void keep_readings(struct limits *limits)
{
	for (size_t i = 0; i < limits->n; i++) {
		const char *path = limits->rows[i].row->used.path;

		if (path && streq(path, FILE_NR) && limits->rows[i].error == 0)
			limits->rows[i].reading.used = limits->rows[i].reading.max;
	}
}

static void limits_sense(void *self, uint64_t now)
{
	static const struct limit_row nr_open = {.max = {"/proc/sys/fs/nr_open", 1}},
				      buckets = {.max = {"/proc/sys/net/netfilter/"
							 "nf_conntrack_buckets",
							 1}};
	static const struct limit_row overflows = {
		.max = {"/proc/net/netstat", 0, "TcpExt:", "ListenOverflows"}};
	struct limits *limits = self;
	uint64_t before = limits->overflows;

	if (files_are_full(limits->host)) {
		keep_readings(limits);
		return;
	}
	(void)limits_read_max(limits->host, &nr_open, &limits->nr_open);
	(void)limits_read_max(limits->host, &buckets, &limits->conntrack_buckets);
	(void)limits_read_max(limits->host, &overflows, &limits->overflows);
	limits->has_overflows |= limits->counted && limits->overflows > before;
	for (size_t i = 0; i < limits->n; i++) {
		struct limit_seen *seen = &limits->rows[i];
		const struct limit_reader *reader = seen->row->reader;
		struct limit_instances *instances = &seen->instances[OF_READER];
		const struct limit_source source = {
			limits->host, &limits->facts->disks, reader, instances};
		bool has_file = seen->row->used.path;
		uint64_t max;

		name_row(limits->facts, seen, now);
		if (!has_file && !(reader && reader->read))
			continue;
		max = seen->reading.max;
		free(seen->reading.top);
		seen->reading = (struct limit_reading){0};
		limit_instances_clear(instances);
		instances->open = seen->open;
		instances->n_open = seen->n_open;
		seen->error = has_file
				      ? limits_read_numbers(limits->host, seen->row, &seen->reading)
				      : reader->read(&source, &seen->reading);
		/* The agent itself gets no file any more. */
		if (seen->error == -ENFILE && has_file && max > 0 &&
			streq(seen->row->used.path, "/proc/sys/fs/file-nr")) {
			seen->error = 0;
			seen->reading.used = seen->reading.max = max;
		}
	}
}

/* The instances with an open finding stay in the next reading. */
static void limits_arm(void *self, const void *data)
{
	const struct limits_memory *memory = data;
	struct limits *limits = self;

	for (size_t i = 0; memory->rows && i < limits->n; i++) {
		const struct limit_memory *row = &memory->rows[i];
		struct limit_seen *seen = &limits->rows[i];

		seen->n_open = 0;
		for (size_t k = 0; k < row->n && seen->n_open < LIMIT_INSTANCES_MAX; k++)
			if (row->known[k].open)
				seen->open[seen->n_open++] = row->known[k].hash;
	}
}

static void limits_close(void *self, void *data)
{
	struct limits_memory *memory = data;
	struct limits *limits = self;
	size_t n = limits->n;

	for (size_t i = 0; i < n; i++)
		limits_seen_clear(&limits->rows[i]);
	free(limits->rows);
	limits_hits_free(&limits->hits);
	free(limits->estimates.list);
	census_close(&limits->census);
	free(limits);
	for (size_t i = 0; memory && memory->rows && i < n; i++)
		free(memory->rows[i].known);
	if (memory)
		free(memory->rows);
}

const struct tuner_tables limits_tables = {
	.summary = "Watches limits of the node that others do not show, and who uses them.",
	.limits = limits_rows,
	.conditions = limits_conditions,
	.capabilities = capabilities,
};

const struct tuner_ops limits_tuner = {
	.name = "limits",
	.tables = &limits_tables,
	.open = limits_open,
	.sense = limits_sense,
	.bpf = &limits_census,
	.tasks[TASK_SAMPLE] = {limits_sample_request, limits_sample_run, limits_sample_adopt, NULL},
	.memory_size = sizeof(struct limits_memory),
	.decide = limits_decide,
	.arm = limits_arm,
	.close = limits_close,
};
