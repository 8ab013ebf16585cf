/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/limits/census.h"
#include "tuners/table.h"

#include "base/file.h"
#include "base/wait.h"
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

/* The runtime may name a pod after it was found. */
static void name_users(const struct names *names, struct limit_reading *reading)
{
	for (unsigned i = 0; i < reading->n_top; i++) {
		struct workload *workload = &reading->top[i].workload;

		if (workload->kind == WORKLOAD_NETNS)
			names_at_address(names, workload->name, workload);
		names_apply(names, workload);
	}
}

static void seen_clear(struct limit_seen *seen)
{
	free(steal(seen->reading.top));
	for (int pass = 0; pass < PASSES; pass++)
		free(steal(seen->users[pass].top));
}

static void limits_sense(void *self, uint64_t)
{
	struct limits *limits = self;

	for (size_t i = 0; i < limits->n; i++) {
		struct limit_seen *seen = &limits->rows[i];
		const struct limit_reader *reader = seen->row->reader;
		const struct limit_source source = {limits->host, &limits->facts->disks, reader};
		bool has_file = seen->row->used.path;

		for (int pass = 0; pass < PASSES; pass++)
			name_users(&limits->facts->names, &seen->users[pass]);
		if (!has_file && !(reader && reader->read))
			continue;
		free(seen->reading.top);
		seen->reading = (struct limit_reading){0};
		seen->error = has_file
				      ? limits_read_numbers(limits->host, seen->row, &seen->reading)
				      : reader->read(&source, &seen->reading);
	}
}

static void limits_close(void *self, void *data)
{
	struct limits_memory *memory = data;
	struct limits *limits = self;

	for (size_t i = 0; i < limits->n; i++)
		seen_clear(&limits->rows[i]);
	free(limits->rows);
	census_close(&limits->census);
	free(limits);
	if (memory)
		free(memory->rows);
}

/* ---- tasks: a sample consists of the parts that are due ---- */

#define SAMPLE_EVERY_US (10 * USEC_PER_SEC)
#define BUSY_EVERY_US   (5 * USEC_PER_SEC) /* passes for a row that is more than half used */

/* A part uses at most 1/N of a CPU. */
#define NAMESPACES_SHARE 5000
static const struct {
	unsigned idle, busy; /* busy: more than half of a row is used */
} shares[PASSES] = {[OF_PROCESSES] = {2000, 400}, [OF_FILES] = {4000, 200}};

#define FILE_NS 300 /* CPU time for a file, to predict a pass */

#define NAMED_IDLE 3 /* users of a row that is at most half used */

static uint64_t cpu_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return us_of(ts);
}

static void adopt_census(void *self, void *programs, const char *why)
{
	struct limits *limits = self;

	copy_text(limits->census_why, TUNER_WHY_MAX, why);
	if (programs)
		limits->census = *(struct census *)programs;
	free(programs);
}

static const struct bpf_ops census_bpf = {
	.load = census_load, .adopt = adopt_census, .unload = census_unload};

/* ---- samples ---- */

struct limits_sample {
	struct host host;
	struct node_disks disks; /* a copy */
	bool due_rows, due_namespaces;
	struct census census; /* a descriptor of its own for each part that is due */
	size_t n;
	bool *busy;              /* more than half of a row is used, or it was reached */
	struct limit_seen *rows; /* results */
	uint64_t cost_us[PASSES], namespaces_us, n_files;
	int errors[PASSES];
};

static int duplicate(int fd, bool due)
{
	return fd < 0 || !due ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

static bool is_due(uint64_t *next, uint64_t now, uint64_t every_us, bool force)
{
	if (now < *next && !force)
		return false;
	*next = next_turn_us(now, every_us);
	return true;
}

static void *sample_request(void *self, const void *memory, bool now)
{
	const struct limits_memory *known = memory;
	struct limits *limits = self;
	uint64_t at = now_us();
	bool is_wanted[PASSES] = {0}, due[PASSES], due_rows;
	_cleanup_free_ bool *busy = must(calloc(limits->n, sizeof(*busy)));
	struct limits_sample *sample;

	for (size_t i = 0; i < limits->n; i++) {
		const struct limit_reader *reader = limits_rows[i].reader;
		const struct limit_seen *seen = &limits->rows[i];

		busy[i] = now ||
			  (seen->error == 0 &&
				  (seen->reading.used * 2 > seen->reading.max ||
					  (known && known->rows && known->rows[i].lately > 0)));
		is_wanted[OF_PROCESSES] |= busy[i] && reader && reader->count;
		is_wanted[OF_FILES] |= busy[i] && reader && reader->count_file;
	}
	for (int i = 0; i < PASSES; i++) {
		struct limits_pass *pass = &limits->passes[i];

		if (is_wanted[i])
			pass->next_us = MIN(pass->next_us,
				pass->at_us + MAX(BUSY_EVERY_US, pass->cost_us * shares[i].busy));
	}
	due_rows = is_due(&limits->next_sample_us, at, SAMPLE_EVERY_US, now);
	/* The census predicts its cost. */
	due[OF_FILES] = limits->census.passes[OF_FILES] >= 0 && (limits->counted || now) &&
			is_due(&limits->passes[OF_FILES].next_us, at, SAMPLE_EVERY_US, now);
	/* A pass over files also needs one process of each network namespace. */
	due[OF_PROCESSES] = limits->census.passes[OF_PROCESSES] >= 0 &&
			    is_due(&limits->passes[OF_PROCESSES].next_us, at, SAMPLE_EVERY_US,
				    now || due[OF_FILES]);
	if (!due_rows && !due[OF_PROCESSES] && !due[OF_FILES])
		return NULL;
	sample = must(calloc(1, sizeof(*sample)));
	*sample = (struct limits_sample){
		.host = *limits->host,
		.disks = limits->facts->disks,
		.due_rows = due_rows,
		.census = {{duplicate(limits->census.passes[OF_PROCESSES], due[OF_PROCESSES]),
				   duplicate(limits->census.passes[OF_FILES], due[OF_FILES])},
			duplicate(limits->census.connections, due[OF_FILES])},
		.n = limits->n,
		.busy = steal(busy),
		.rows = must(calloc(limits->n, sizeof(*sample->rows))),
	};
	sample->due_namespaces =
		due[OF_PROCESSES] && is_due(&limits->next_namespaces_us, at, SAMPLE_EVERY_US, now);
	return sample;
}

/* The sums of a pass. */
struct census_pass {
	const struct limits_sample *sample;
	struct tally *tallies;    /* one for each row */
	struct tally cgroups;     /* their failed forks */
	struct tally *namespaces; /* a process of each */
	struct tally files;       /* the files counted so far */
	uint64_t n_files;
};

static void visit_process(void *userdata, const void *data)
{
	const struct census_record *record = data;
	struct census_pass *pass = userdata;
	struct limit_use use;

	pass->n_files += record->files;
	if (record->netns)
		tally_at(pass->namespaces, 1, record->netns)->pid = record->pid;
	if (record->pids_cgroup)
		tally_at(&pass->cgroups, 1, record->pids_cgroup)->used = record->forks_failed;
	for (size_t i = 0; i < pass->sample->n; i++) {
		const struct limit_reader *reader = limits_rows[i].reader;

		if (reader && census_count(record, reader->count, &use))
			tally_add(&pass->tallies[i], &use);
	}
}

static void visit_file(void *userdata, const void *data)
{
	const struct census_file *file = data;
	struct census_pass *pass = userdata;
	struct limit_use *seen = tally_at(&pass->files, 1, file->file), use;

	/* Processes share it, or it is a connection of a process. */
	if (seen->used > 0)
		return;
	seen->used = 1;
	for (size_t i = 0; i < pass->sample->n; i++) {
		const struct limit_reader *reader = limits_rows[i].reader;

		if (reader && census_count_file(file, reader->count_file, &use))
			tally_add(&pass->tallies[i], &use);
	}
}

/* Nobody has a connection open in TIME_WAIT. */
static void visit_connection(void *userdata, const void *data)
{
	const struct census_pass *pass = userdata;
	struct census_file file;

	memcpy(&file, data, sizeof(file));
	file.pid = tally_at(pass->namespaces, 1, file.netns)->pid;
	visit_file(userdata, &file);
}

/* Turns the tallies of a pass into readings. */
static void finish_rows(struct limits_sample *sample, struct census_pass *pass, int kind, int error)
{
	for (size_t i = 0; i < sample->n; i++) {
		const struct limit_row *row = &limits_rows[i];
		const struct limit_reader *reader = row->reader;
		struct limit_seen *seen = &sample->rows[i];
		struct limit_reading *reading = &seen->users[kind];
		bool only = limits_needs_bpf(row) && !(kind == OF_FILES && reader->count);
		uint64_t max = 0;
		bool any;
		int r = error;

		if (!reader || !(kind == OF_FILES ? reader->count_file != 0 : reader->count != 0))
			continue;
		if (r == 0 && only)
			r = limits_read_max(&sample->host, row, &max);
		any = pass->tallies[i].n > 0;
		tally_finish(&pass->tallies[i], &sample->host, max,
			sample->busy[i] ? TALLY_CANDIDATES : NAMED_IDLE, reading);
		seen->from_pass[kind] = true;
		if (!only)
			continue;
		seen->from_sample = true;
		seen->error = r < 0 ? r : !any || reading->max == 0 ? -ENOENT : 0;
		seen->reading.used = reading->used;
		seen->reading.max = reading->max;
		for (size_t k = 0; reader->count == COUNT_PIDS && k < pass->cgroups.n; k++)
			seen->reading.hits += pass->cgroups.uses[k].used;
	}
}

static void run_pass(struct limits_sample *sample, struct tally *namespaces, int kind)
{
	static const size_t sizes[PASSES] = {
		sizeof(struct census_record), sizeof(struct census_file)};
	static census_visit *const visits[PASSES] = {visit_process, visit_file};
	struct census_pass pass = {.sample = sample, .namespaces = namespaces};
	uint64_t begun = cpu_us();
	int r;

	pass.tallies = must(calloc(sample->n, sizeof(*pass.tallies)));
	r = census_each(sample->census.passes[kind], sizes[kind], visits[kind], &pass);
	if (r == 0 && kind == OF_FILES)
		r = census_each(sample->census.connections, sizes[kind], visit_connection, &pass);
	sample->errors[kind] = r;
	sample->n_files += pass.n_files;
	finish_rows(sample, &pass, kind, r);
	sample->cost_us[kind] = cpu_us() - begun;
	begun = cpu_us();
	for (size_t i = 0; sample->due_namespaces && kind == OF_PROCESSES && i < sample->n; i++) {
		const struct limit_reader *reader = limits_rows[i].reader;
		struct limit_seen *seen = &sample->rows[i];

		if (!reader || !reader->in_namespaces)
			continue;
		seen->from_sample = seen->from_pass[kind] = true;
		seen->error = limits_sample_namespaces(
			&sample->host, namespaces, &seen->reading, &seen->users[kind]);
		sample->namespaces_us = cpu_us() - begun;
	}
	tally_free(&pass.cgroups);
	tally_free(&pass.files);
	free(pass.tallies);
}

static void sample_run(void *request, const struct wait *wait)
{
	struct limits_sample *sample = request;
	struct tally namespaces = {0};

	for (size_t i = 0; sample->due_rows && i < sample->n; i++) {
		const struct limit_reader *reader = limits_rows[i].reader;
		const struct limit_source source = {&sample->host, &sample->disks, reader};
		struct limit_seen *seen = &sample->rows[i];

		wait_path(wait, limits_rows[i].name);
		if (reader && reader->sample) {
			seen->from_sample = true;
			seen->error = reader->sample(&source, &seen->reading);
		}
		if (reader && reader->add_users) {
			seen->from_pass[OF_FILES] = true;
			if (sample->busy[i])
				(void)reader->add_users(&source, &seen->users[OF_FILES]);
		}
	}
	wait_path(wait, NULL);
	for (int kind = 0; kind < PASSES; kind++)
		if (sample->census.passes[kind] >= 0)
			run_pass(sample, &namespaces, kind);
	tally_free(&namespaces);
}

static void replace_reading(struct limit_reading *old, struct limit_reading *new)
{
	free(old->top);
	*old = *new;
	*new = (struct limit_reading){0};
}

/* Drops the old users of a row that no longer needs a pass over files. */
static void adopt_row(struct limit_seen *seen, struct limit_seen *new, bool busy)
{
	const struct limit_reader *reader = seen->row->reader;

	if (new->from_sample) {
		seen->error = new->error;
		replace_reading(&seen->reading, &new->reading);
	}
	for (int kind = 0; kind < PASSES; kind++)
		if (new->from_pass[kind])
			replace_reading(&seen->users[kind], &new->users[kind]);
	if (!busy && reader && reader->count && reader->count_file)
		replace_reading(&seen->users[OF_FILES], &(struct limit_reading){0});
}

static void sample_adopt(void *self, void *request)
{
	struct limits_sample *sample = request;
	struct limits *limits = self;
	uint64_t at = now_us();

	for (size_t i = 0; i < sample->n; i++) {
		if (limits)
			adopt_row(&limits->rows[i], &sample->rows[i], sample->busy[i]);
		seen_clear(&sample->rows[i]);
	}
	if (limits && sample->census.passes[OF_PROCESSES] >= 0) {
		limits->counted = true;
		limits->passes[OF_FILES].cost_us =
			MAX(limits->passes[OF_FILES].cost_us, sample->n_files * FILE_NS / 1000);
		limits->pass_error = 0;
	}
	for (int kind = 0; limits && kind < PASSES; kind++) {
		struct limits_pass *pass = &limits->passes[kind];

		if (sample->census.passes[kind] < 0)
			continue;
		pass->at_us = at;
		pass->cost_us = sample->cost_us[kind];
		pass->next_us = MAX(pass->next_us, at + pass->cost_us * shares[kind].idle);
		limits->pass_error = MIN(limits->pass_error, sample->errors[kind]);
	}
	if (limits && sample->due_namespaces)
		limits->next_namespaces_us = MAX(
			limits->next_namespaces_us, at + sample->namespaces_us * NAMESPACES_SHARE);
	census_close(&sample->census);
	free(sample->busy);
	free(sample->rows);
	free(sample);
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
	.bpf = &census_bpf,
	.tasks[TASK_SAMPLE] = {sample_request, sample_run, sample_adopt, NULL},
	.memory_size = sizeof(struct limits_memory),
	.decide = limits_decide,
	.close = limits_close,
};
