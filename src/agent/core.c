/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/core.h"

#include "apply/load_file.h"
#include "apply/reconcile.h"
#include "base/file.h"
#include "tuners/table.h"

#include <pthread.h>
#include <signal.h>

#define DEFAULT_CONFIG   "/etc/headroom/headroom.yaml"
#define DEFAULT_CONFIG_D "/etc/headroom/conf.d"

static const struct {
	const char *variable; /* of the environment */
	const char *by_default;
} directories[] = {
	[CORE_STATE] = {"HEADROOM_STATE_DIR", "/var/lib/headroom"},
	[CORE_RUNTIME] = {"HEADROOM_RUNTIME_DIR", "/run/headroom"},
};

/* Returns a variable of the environment, or by_default if it is empty or not set. */
static const char *variable(const char *name, const char *by_default)
{
	const char *value = getenv(name);

	return value && value[0] ? value : by_default;
}

const char *core_state_name(void)
{
	return variable(directories[CORE_STATE].variable, directories[CORE_STATE].by_default);
}

const char *core_owner(void)
{
	return variable("HEADROOM_OWNER", "unit");
}

const char *core_other_owner(const struct core *core)
{
	const char *owner = core->values ? core->values->owner : "";

	if (!owner[0] && core->journal)
		owner = core->journal->owner;
	return owner[0] && !streq(owner, core_owner()) ? owner : NULL;
}

/* For a missing directory, stat its parent. */
static int stat_location(const char *path, struct stat *st)
{
	char parent[PATH_MAX];

	if (stat(path, st) == 0)
		return 0;
	set_text(parent, path);
	*strrchr(parent, '/') = '\0';
	return stat(parent, st);
}

/*
 * The environment may name the directory. Otherwise a container must see the same directory at its
 * path and below the host's root: any other directory would be lost with the container.
 */
int core_directory(const struct host *host, enum core_directory which, char path[static PATH_MAX])
{
	const char *given = variable(directories[which].variable, NULL);
	const char *by_default = directories[which].by_default;
	struct stat own, hosts;

	if (!copy_text(path, PATH_MAX, given ? given : by_default))
		return -ENAMETOOLONG;
	if (given || !host->root[0])
		return 0;
	host_path(host, by_default, path);
	if (stat_location(by_default, &own) < 0 || stat_location(path, &hosts) < 0 ||
		own.st_dev != hosts.st_dev || own.st_ino != hosts.st_ino)
		return -ENODEV;
	copy_text(path, PATH_MAX, by_default);
	return 0;
}

const char *core_describe_values_error(int error)
{
	return error == -EBADMSG  ? "values has an unknown format version"
	       : error == -ENODEV ? "not the host's directory but the container's"
				  : strerror(-error);
}

void core_socket_path(const struct config *config, char path[static PATH_MAX])
{
	const char *directory = variable("HEADROOM_RUNTIME_DIR", NULL);

	if (directory && !config_is_given(config, "http.socket"))
		snprintf(path, PATH_MAX, "%s/headroom.sock", directory);
	else
		copy_text(path, PATH_MAX, config_text(config, "http.socket"));
}

struct config_source core_source(const char *config_file)
{
	if (config_file)
		return (struct config_source){.file = config_file};
	return (struct config_source){
		.file = DEFAULT_CONFIG, .optional = true, .directory = DEFAULT_CONFIG_D};
}

int core_load_config(
	const struct config_source *source, struct config **ret, struct config_fault_list *faults)
{
	_cleanup_(cleanup_config_free) struct config *config = NULL;
	int r = config_load(source, option_tables, &config, faults);

	if (r < 0)
		return r;
	tuners_validate(config, faults);
	if (faults->n > 0)
		return -EINVAL;
	*ret = steal(config);
	return 0;
}

static void close_tuner(struct tuner_status *tuner)
{
	if (tuner->self)
		tuner->ops->close(tuner->self, tuner->memory);
	free(tuner->memory);
	tuner->self = tuner->memory = NULL;
	tuner->generation++;
	tuner->sampled = false;
}

int core_open(struct core *core, const struct core_options *options, const struct tuner_loop *loop,
	struct config *config)
{
	struct node *node = &core->node;
	size_t allocated = 0;

	core->options = *options;
	core->loop = loop ? *loop : (struct tuner_loop){0};
	core->config = config;
	core->source = core_source(options->config_file);
	core->lock = -1;
	node->started_us = node->reloaded_us = realtime_us();
	if (!host_init(&core->host, options->host_root))
		return -ENAMETOOLONG;
	if (core_directory(&core->host, CORE_STATE, core->state) < 0)
		core->state[0] = '\0';
	core->host.state = core->state;
	core->host.node_name = node->name;
	core->host.put_load_file = load_file_put;
	while (tuner_table[node->n_tuners])
		node->n_tuners++;
	node->tuners = must(calloc(node->n_tuners, sizeof(*node->tuners)));
	for (size_t i = 0; i < node->n_tuners; i++) {
		node->tuners[i].ops = tuner_table[i];
		node->tuners[i].loop = core->loop;
	}
	for (size_t i = 0; all_tables[i]; i++)
		for (const struct condition_type *type = all_tables[i]->conditions;
			type && type->name; type++) {
			struct condition *condition =
				add_element(&node->conditions, &node->n_conditions, &allocated);

			condition->now.type = type;
		}
	core_reconfigure(core, steal(core->config));
	return 0;
}

void core_close(struct core *core)
{
	for (size_t i = 0; i < core->node.n_tuners; i++) {
		close_tuner(&core->node.tuners[i]);
		proposal_clear(&core->node.tuners[i].proposal);
	}
	free(core->facts.names.entries);
	cleanup_value_store_close(&core->values);
	cleanup_file_journal_close(&core->journal);
	cleanup_close(&core->lock);
	plan_clear(&core->plan);
	free(core->files);
	free(core->pins);
	free(core->peaks);
	free(core->drifts);
	free(core->node.tuners);
	free(core->node.settings);
	for (size_t i = 0; i < core->node.n_limits; i++)
		limit_release(&core->node.limits[i]);
	free(core->node.limits);
	free(core->node.conditions);
	config_free(core->config);
}

/* A job of a command, on a thread of its own. */
struct local_job {
	const struct job_ops *ops;
	void *request;
	struct tuner_status *tuner;
	struct wait wait;
	pthread_t thread;
};

static void *run_local_job(void *data)
{
	struct local_job *job = data;

	job->ops->run(job->request, &job->wait);
	return NULL;
}

static void park_thread(int)
{
	for (;;)
		pause();
}

/* NULL if the tuner has no such job. */
static struct local_job *begin_job(
	struct tuner_status *tuner, enum job_kind kind, uint64_t timeout_us)
{
	const struct job_ops *ops = &tuner->ops->jobs[kind];
	struct local_job *job;
	void *request = NULL;

	if (tuner->self && ops->request)
		request = ops->request(tuner->self, tuner->memory, true);
	if (!request)
		return NULL;
	job = must(malloc(sizeof(*job)));
	*job = (struct local_job){ops, request, tuner,
		{.deadline_us = now_us() + timeout_us,
			.cancel_fd = -1,
			.path = &tuner->sample_path},
		0};
	must_do(pthread_create(&job->thread, NULL, run_local_job, job) == 0);
	return job;
}

/* Leaves a thread that hangs in the kernel: judge_jobs() reports it. */
static void end_job(struct local_job *job, enum job_kind kind, uint64_t until_us)
{
	struct timespec until = timespec_of(until_us);

	if (!job)
		return;
	if (pthread_clockjoin_np(job->thread, NULL, CLOCK_MONOTONIC, &until) != 0) {
		/* When it wakes, the tuners may be closed. */
		signal(SIGUSR1, park_thread);
		pthread_kill(job->thread, SIGUSR1);
		job->tuner->under_way[kind]++;
		return;
	}
	job->tuner->sample_path = NULL;
	job->ops->adopt(job->tuner->self, job->request);
	free(job);
}

void core_sample(struct core *core, bool load)
{
	uint64_t timeout_us = core->sample_us > 0 ? core->sample_us : CORE_JOB_US, until_us;
	size_t n = core->node.n_tuners;
	_cleanup_free_ struct local_job **jobs = must(calloc(n, sizeof(struct local_job *)));

	for (size_t i = 0; load && i < n; i++)
		end_job(begin_job(&core->node.tuners[i], JOB_LOAD, CORE_JOB_US), JOB_LOAD,
			now_us() + 10 * CORE_JOB_US);
	/* All at once: programs that hang delay a command once only. */
	until_us = now_us() + 2 * timeout_us;
	for (size_t i = 0; i < n; i++)
		jobs[i] = begin_job(&core->node.tuners[i], JOB_SAMPLE, timeout_us);
	for (size_t i = 0; i < n; i++)
		end_job(jobs[i], JOB_SAMPLE, until_us);
}

bool core_wants_to_write(const struct core *core)
{
	for (size_t i = 0; i < core->node.n_tuners; i++)
		if (tuner_mode(core->node.tuners[i].ops, core->config) == MODE_ENFORCE)
			return !core->options.observe;
	return false;
}

static void adopt_journal(struct core *core)
{
	free(core->files);
	core->files = file_journal_snapshot(core->journal, &core->n_files);
	free(core->pins);
	core->n_pins = core->journal->n_pins;
	core->pins = must(calloc(core->n_pins + 1, sizeof(*core->pins)));
	if (core->n_pins > 0)
		memcpy(core->pins, core->journal->pins, core->n_pins * sizeof(*core->pins));
	core->released = core->journal->released;
}

/* Where only the host's records cannot be written, a release still counts. */
static void read_host_releases(struct core *core)
{
	_cleanup_(cleanup_file_journal_close) struct file_journal *journal = NULL;
	char directory[PATH_MAX];

	host_path(&core->host, directories[CORE_STATE].by_default, directory);
	if (file_journal_open(directory, false, &journal) == 0 &&
		streq(journal->owner, core_owner()))
		core->released = journal->released;
}

static void load_journal(struct core *core, bool create)
{
	bool is_first = !core->journal && core->journal_error == 0;
	char directory[PATH_MAX];

	if (core->journal)
		file_journal_close(steal(core->journal));
	core->journal_error = core_directory(&core->host, CORE_STATE, directory);
	if (core->journal_error == 0)
		core->journal_error = file_journal_open(directory, create, &core->journal);
	if (core->journal_error == 0)
		adopt_journal(core);
	else if (core->journal_error == -ENODEV && is_first)
		read_host_releases(core);
}

static int load_values(struct core *core, const char *directory, bool write)
{
	char boot[SETTING_VALUE_MAX] = "";

	if (core->values)
		value_store_close(steal(core->values));
	(void)host_read_value(&core->host, "/proc/sys/kernel/random/boot_id", boot);
	return value_store_open(directory, boot, write, &core->values);
}

void core_read_records(struct core *core)
{
	char directory[PATH_MAX];
	int r = core_directory(&core->host, CORE_RUNTIME, directory);

	if (r == 0)
		r = load_values(core, directory, false);
	/* Only a writer needs them. */
	core->values_error = r == -ENOENT || r == -EACCES || r == -ENODEV ? 0 : r;
	core_load_drifts(core);
	load_journal(core, false);
	if (core->journal_error == -EACCES || core->journal_error == -ENODEV)
		core->journal_error = 0;
}

static void adopt_records(struct core *core)
{
	const char *owner = core_owner();

	if (core->values)
		value_store_adopt(core->values, owner);
	if (!core->journal || streq(core->journal->owner, owner))
		return;
	copy_text(core->journal->owner, OWNER_MAX, owner);
	core->journal->released.n = core->released.n = 0;
}

int core_become_writer(struct core *core, const char *who)
{
	char directory[PATH_MAX];
	bool first = core->lock < 0;
	int r = core_directory(&core->host, CORE_RUNTIME, directory);

	if (r == 0 && first) {
		r = lock_acquire(directory, who, core->holder, sizeof(core->holder));
		core->lock = MAX(r, -1);
	}
	if (r >= 0 && (first || core->journal_error < 0))
		load_journal(core, true);
	if (r >= 0 && (first || core->values_error < 0))
		r = load_values(core, directory, true);
	if (first && core->lock >= 0)
		core_load_drifts(core);
	if (core->lock >= 0)
		adopt_records(core);
	core->values_error = MIN(r, 0);
	return core->values_error;
}

bool core_other_writer(struct core *core)
{
	char directory[PATH_MAX];

	return core->lock < 0 && core_directory(&core->host, CORE_RUNTIME, directory) == 0 &&
	       lock_holder(directory, core->holder, sizeof(core->holder));
}

void core_reconfigure(struct core *core, struct config *config)
{
	const char *name = config_text(config, "node_name");

	cleanup_config_free(&core->config);
	core->config = config;
	core->node.config_hash = config_checksum(config);
	/* As configured, or of Kubernetes' downward API, or the host name. */
	if (gethostname(core->node.name, sizeof(core->node.name) - 1) < 0)
		strcpy(core->node.name, "localhost");
	if (!name[0])
		name = variable("NODE_NAME", core->node.name);
	set_text(core->node.name, name);
	reconcile_reset(&core->node, NULL, false);
	for (size_t i = 0; i < core->node.n_tuners; i++) {
		struct tuner_status *tuner = &core->node.tuners[i];

		tuner->mode = tuner_mode(tuner->ops, config);
		if (tuner->mode == MODE_OFF) {
			if (tuner->self && tuner->loop.pause)
				tuner->loop.pause(tuner->self);
			else
				close_tuner(tuner);
			tuner->state = TUNER_OFF;
			set_text(tuner->why, "switched off by the configuration");
			continue;
		}
		if (!tuner->self) {
			tuner->memory = must(calloc(1, MAX(tuner->ops->memory_size, 1)));
			tuner->self = tuner->ops->open(
				&core->host, &core->facts, core->loop.event ? &tuner->loop : NULL);
		}
		if (tuner->ops->configure)
			tuner->ops->configure(tuner->self, config);
	}
}

int core_adopt_files(struct core *core, struct file_job *job, struct plan *done)
{
	int error = job->error;

	core->job = NULL;
	adopt_journal(core);
	if (job->task == FILE_APPLY)
		reconcile_results(&core->node, &job->plan, now_us());
	core_keep_drifts(core);
	for (size_t i = 0; i < core->node.n_tuners; i++) {
		struct tuner_status *tuner = &core->node.tuners[i];

		/* A sample requested during the job shows the files as they were. */
		for (size_t c = 0; tuner->ops->jobs[JOB_SAMPLE].request && c < job->plan.n; c++)
			tuner->files_stale |= streq(job->plan.changes[c].tuner, tuner->ops->name);
	}
	if (done)
		plan_move(done, &job->plan, PLAN_ALL);
	plan_clear(&job->plan);
	free(job);
	return error;
}
