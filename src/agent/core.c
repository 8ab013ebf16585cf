/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core: the node's state and all that changes it, without a loop. Its parts, in this order:
 * directories and options; tasks of tuners; polls, which sense, decide and reconcile; records and
 * the lock; the configuration; changes. findings.c has what the polls find. The agent polls it
 * every second, a command once. The core writes values only in core_apply_values() and
 * core_restore_values(), and waits for nothing but in core_sample() and core_end_tasks().
 */
#include "agent/core.h"

#include "apply/load_file.h"
#include "apply/reconcile.h"
#include "base/build.h"
#include "base/file.h"
#include "base/log.h"
#include "kernel/bpf.h"
#include "tuners/table.h"

#include <malloc.h>
#include <sys/prctl.h>

#define DEFAULT_CONFIG   "/etc/headroom/headroom.yaml"
#define DEFAULT_CONFIG_D "/etc/headroom/conf.d"

#define PLANS_MAX 3 /* in a row, when others write the same values */

#define LOAD_CAPABILITIES_MAX 16

#define LOAD_TURN_S 60 /* the next load waits at most so long; on a busy node one takes ten */

/* A task that has not ended by then hangs. */
#define TASK_OVERDUE_US (3 * CORE_TASK_US)

/* ---- directories and options ---- */

static const struct {
	const char *variable; /* the environment variable */
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

/* Reads the status of a directory, or of its parent if it is missing. */
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

/* Why originals of values cannot be recorded, and the cure. */
static const struct {
	int error;
	const char *what, *cure;
} values_errors[] = {
	{-EBADMSG, "values is damaged",
		"restart the node: its kernel begins with its own values, and the records anew"},
	{-EKEYREJECTED, "it or values belongs to a user other than root, who may have changed it",
		"find out who made it, and give it to root (chown)"},
	{-ENODEV, "not the host's directory but the container's", NULL},
	{-ENOMSG,
		"/proc/sys/kernel/random/boot_id cannot be read, so records of this boot cannot be "
		"told from older ones",
		"make it readable"},
	{-ENOSPC, NULL, "make room in it"},
	{-EROFS, NULL, "remount its file system read-write"},
};

const char *core_describe_values_error(const struct core *core)
{
	if (core->values_error == -EPROTO)
		return core->node.newer;
	for (size_t i = 0; i < ARRAY_SIZE(values_errors); i++)
		if (values_errors[i].error == core->values_error && values_errors[i].what)
			return values_errors[i].what;
	return strerror(-core->values_error);
}

const char *core_values_cure(const struct core *core)
{
	for (size_t i = 0; i < ARRAY_SIZE(values_errors); i++)
		if (values_errors[i].error == core->values_error && values_errors[i].cure)
			return values_errors[i].cure;
	return core->host->root[0] ? "mount the host's /run/headroom there, writable, and its root "
				     "at HEADROOM_HOST_ROOT"
				   : "give write access to it";
}

const char *core_describe_journal_error(const struct core *core)
{
	return core->journal_error == -EPROTO ? core->node.newer
					      : file_journal_describe(core->journal_error);
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
	if (faults->n > 0) {
		config_mark_literals(config, faults);
		return -EINVAL;
	}
	*ret = steal(config);
	return 0;
}

bool core_wants_to_write(const struct core *core)
{
	for (size_t i = 0; i < core->node.n_tuners; i++)
		if (tuner_mode(core->node.tuners[i].ops, core->config) == MODE_ENFORCE)
			return !core->options.observe;
	return false;
}

/* ---- tasks of tuners ---- */

/* The request of TASK_LOAD. */
struct load_request {
	const struct bpf_ops *ops;
	const struct capability_row *capabilities; /* of the tuner */
	struct host host;
	void *programs;
	char why[TUNER_WHY_MAX];
	struct cgroups *cgroups; /* not NULL: it also loads the programs that all tuners share */
	struct cgroup_watch *watch;
	pthread_mutex_t *one_load; /* of the core */
};

static void *request_load(struct core *core, struct tuner_status *tuner)
{
	struct load_request *request;
	void *programs = NULL;

	if (!tuner->ops->bpf ||
		(tuner->ops->bpf->due ? !tuner->ops->bpf->due(tuner->self, &programs)
				      : tuner->bpf_requested))
		return NULL;
	tuner->bpf_requested = true;
	request = must(malloc(sizeof(*request)));
	*request = (struct load_request){.ops = tuner->ops->bpf,
		.capabilities = tuner->ops->tables->capabilities,
		.host = *core->host,
		.programs = programs,
		.one_load = &core->one_load,
		.why = "no thread to load BPF programs"};
	if (core->event && !core->watch_requested)
		request->cgroups = core->facts.cgroups;
	core->watch_requested = true;
	return request;
}

/* A load may begin while the agent still has all privileges of its start, and last for seconds. */
static void keep_for_load(const struct load_request *request)
{
	cap_value_t kept[LOAD_CAPABILITIES_MAX];
	size_t n = 0;

	for (const struct capability_row *row = request->capabilities;
		row && row->name && n < ARRAY_SIZE(kept) - 1; row++)
		if (row->use == CAPABILITY_TO_OPEN || row->use == CAPABILITY_TO_RUN)
			kept[n++] = row->capability;
	/* To bpf(2) it stands for these. */
	if (!capability_have(CAP_BPF) || !capability_have(CAP_PERFMON) ||
		!capability_have(CAP_NET_ADMIN))
		kept[n++] = CAP_SYS_ADMIN;
	(void)capability_keep(kept, n);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

/*
 * One load at a time: each needs twice the size of the kernel's types for a moment, and a pod has a
 * limit of memory. All threads begin at once, with the privileges of the start. A load that hangs
 * delays the others, and does not prevent them.
 */
static void run_load(void *data, const struct wait *)
{
	struct load_request *request = data;
	struct timespec until;
	bool alone;
	int r;

	keep_for_load(request);
	bpf_quiet_libbpf();
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += LOAD_TURN_S;
	alone = pthread_mutex_clocklock(request->one_load, CLOCK_MONOTONIC, &until) == 0;
	request->why[0] = '\0';
	r = request->ops->load(&request->host, &request->programs, request->why);
	if (r < 0 && !request->why[0])
		bpf_explain_failure(r, request->why, sizeof(request->why));
	if (request->cgroups)
		request->watch = cgroup_watch_load();
	malloc_trim(0);
	if (alone)
		pthread_mutex_unlock(request->one_load);
}

static void adopt_load(void *self, void *data)
{
	struct load_request *request = data;

	if (self)
		request->ops->adopt(self, request->programs, request->why);
	else if (request->programs)
		request->ops->unload(request->programs);
	if (request->watch)
		cgroups_adopt(request->cgroups, request->watch);
	free(request);
}

static const struct task_ops load_ops = {.run = run_load, .adopt = adopt_load};

static void run_task(void *data, const struct wait *wait)
{
	const struct tuner_task *task = data;

	task->ops->run(task->request, wait);
}

static void adopt_task(void *data, void *userdata)
{
	struct tuner_task *task = data;
	struct core *core = userdata;
	struct tuner_status *tuner = task->tuner;
	bool is_current = task->generation == tuner->generation;

	/* Other samples wait for the tick. */
	core->poll_due |= task->kind != TASK_SAMPLE || !tuner->sampled;
	if (task->kind == TASK_SAMPLE && is_current) {
		tuner->sampled = true;
		tuner->files_stale = tuner->files_stale && !task->is_after_files;
	}
	tuner->under_way[task->kind]--;
	task->ops->adopt(is_current ? tuner->self : NULL, task->request);
	malloc_trim(0); /* it took up to megabytes for a moment */
	core->node.revision++;
}

bool core_begin_task(struct core *core, struct tuner_status *tuner, enum task_kind kind)
{
	const struct task_ops *ops = kind == TASK_LOAD ? &load_ops : &tuner->ops->tasks[kind];
	struct tuner_task *task = core->tasks;
	uint64_t timeout_us = kind == TASK_TRANSFER ? UINT64_MAX : core->task_us;
	void *request = NULL;
	int r;

	while (task < core->tasks + TASKS_MAX && task->task)
		task++;
	if (!tuner->self || tuner->mode == MODE_OFF || task == core->tasks + TASKS_MAX)
		return false;
	if (kind == TASK_LOAD)
		request = request_load(core, tuner);
	else if (ops->request)
		request = ops->request(
			tuner->self, tuner->memory, !core->event || tuner->files_stale);
	if (!request)
		return false;
	*task = (struct tuner_task){.ops = ops,
		.request = request,
		.tuner = tuner,
		.kind = kind,
		.generation = tuner->generation,
		.is_after_files = !core->job};
	r = task_start(&task->task, core->event,
		&(struct task){run_task, adopt_task, task, core, timeout_us});
	if (kind == TASK_SAMPLE)
		tuner->sample_error = r;
	if (r < 0) {
		ops->adopt(kind == TASK_SAMPLE ? NULL : tuner->self, request);
		return false;
	}
	tuner->under_way[kind]++;
	tuner->requested_us[kind] = now_us();
	return true;
}

bool core_task_hangs(const struct tuner_status *tuner, enum task_kind kind, uint64_t now)
{
	return tuner->under_way[kind] > 0 && now > tuner->requested_us[kind] + TASK_OVERDUE_US;
}

void core_sample(struct core *core, bool load)
{
	for (enum task_kind kind = load ? TASK_LOAD : TASK_SAMPLE; kind <= TASK_SAMPLE; kind++) {
		/* All at once: programs that hang delay a command once only. */
		uint64_t until_us =
			now_us() + (kind == TASK_LOAD ? TASK_OVERDUE_US : 2 * core->task_us);

		for (size_t i = 0; i < core->node.n_tuners; i++)
			(void)core_begin_task(core, &core->node.tuners[i], kind);
		for (size_t i = 0; i < TASKS_MAX; i++)
			if (!task_end(&core->tasks[i].task, until_us))
				core->tasks[i].tuner->requested_us[core->tasks[i].kind] = 0;
	}
}

void core_finish_tasks(struct core *core)
{
	for (size_t i = 0; i < TASKS_MAX; i++)
		(void)task_end(&core->tasks[i].task, 0);
}

bool core_end_tasks(struct core *core, uint64_t deadline_us)
{
	bool ended;

	for (size_t i = 0; i < TASKS_MAX; i++)
		task_cancel(core->tasks[i].task);
	/* The next agent finishes or undoes what a cancelled change of files began. */
	task_cancel(core->file_task);
	ended = task_end(&core->file_task, deadline_us);
	ended = task_end(&core->save_task, deadline_us) && ended;
	for (size_t i = 0; i < TASKS_MAX; i++)
		/* Nothing cancels a load. */
		ended = task_end(&core->tasks[i].task,
				core->tasks[i].kind == TASK_LOAD ? 0 : deadline_us) &&
			ended;
	return ended;
}

/* ---- polls ---- */

/* Updates the mode of a tuner, since_us, and what keeps it from writing. */
static void settle_mode(const struct core *core, struct tuner_status *tuner)
{
	const struct release *release =
		find_named(core->released.tuners, core->released.n, tuner->ops->name);
	enum mode mode = tuner_mode(tuner->ops, core->config);

	if (mode == MODE_OFF)
		release = NULL;
	else if (core->as_apply)
		mode = MODE_ENFORCE;
	else if (core->options.observe || core->node.newer[0])
		mode = MODE_OBSERVE;
	else if (mode == MODE_ENFORCE && release)
		mode = MODE_RELEASED;
	if (mode == MODE_RELEASED)
		tuner->since_us = release->since_s * USEC_PER_SEC;
	else if (mode != tuner->mode || tuner->since_us == 0)
		tuner->since_us = realtime_us();
	if (mode == MODE_RELEASED && tuner->mode != MODE_RELEASED)
		log_notice(tuner->ops->name,
			"released by headroom restore: nothing is written until headroom apply");
	tuner->mode = mode;
	tuner->held_by = tuner_held_by(tuner->ops, core->config) |
			 (core->options.observe ? HELD_BY_OPTION : 0U) |
			 (mode == MODE_RELEASED ? HELD_BY_RELEASE : 0U);
}

bool core_lacks_sample(const struct tuner_status *tuner, uint64_t now)
{
	return tuner->sample_error < 0 || core_task_hangs(tuner, TASK_SAMPLE, now);
}

static void describe_lack(const struct core *core, struct tuner_status *tuner)
{
	const char *path = NULL;

	if (tuner->sample_error < 0) {
		snprintf(tuner->why, sizeof(tuner->why), "a sample cannot begin: %s",
			strerror(-tuner->sample_error));
		return;
	}
	for (size_t i = 0; i < TASKS_MAX; i++)
		if (core->tasks[i].task && core->tasks[i].tuner == tuner &&
			core->tasks[i].kind == TASK_SAMPLE)
			path = core->tasks[i].task->path;
	snprintf(tuner->why, sizeof(tuner->why),
		"%s hangs: a sample has not ended: repair or unmount the file system, or "
		"see the kernel stack of the agent's threads",
		path ? path : "a file system or a program");
}

/*
 * Neither a deadline nor cancelling ends a task that hangs in the kernel, such as a read of a hung
 * file system, and without descriptors or threads none begins. Then the last sample of the tuner is
 * too old.
 */
static void report_lack(struct core *core, struct tuner_status *tuner, uint64_t now)
{
	struct proposal *proposal = &tuner->proposal;

	if (core_task_hangs(tuner, TASK_LOAD, now))
		set_text(tuner->why,
			"BPF: loading has not ended for 30 s: restart the node if it stays so");
	if (!core_lacks_sample(tuner, now))
		return;
	describe_lack(core, tuner);
	if (tuner->ops->sense)
		return;
	for (size_t i = 0; i < proposal->n_wants; i++) {
		proposal->wants[i].error = 0;
		proposal->wants[i].wanted[0] = '\0';
		proposal->wants[i].reason = REASON_SAMPLE_OVERDUE;
	}
	for (size_t i = 0; i < proposal->n_conditions; i++) {
		condition_unknown(&proposal->conditions[i], REASON_SAMPLE_OVERDUE);
		copy_text(proposal->conditions[i].message, CONDITION_MESSAGE_MAX, tuner->why);
	}
}

static void poll_tuner(struct core *core, struct tuner_status *tuner, uint64_t now)
{
	struct node *node = &core->node;
	struct decide_input input = {
		.keys = core->keys,
		.n_keys = core->n_keys,
		.restarts = core->restarts,
		.n_restarts = core->n_restarts,
		.pins = core->pins,
		.n_pins = core->n_pins,
		.settings = node->settings,
		.n_settings = node->n_settings,
		.limits = node->limits,
		.n_limits = node->n_limits,
		.findings = node->findings.findings,
		.n_findings = node->findings.n,
		.config = core->config,
		.config_file = core->config_file,
		.tuners = node->tuners,
		.n_tuners = node->n_tuners,
		.now_us = now,
		.realtime_us = realtime_us(),
		.force = tuner->force,
	};
	bool may_write = core_may_write(core);
	struct proposal *proposal = &tuner->proposal;
	struct reconcile_input wanted = {
		.tuner = tuner->ops->name,
		.proposal = proposal,
		.decide = &input,
		.on_drift = tuner->force ? ON_DRIFT_ENFORCE
					 : (enum on_drift)config_choice(core->config, "on_drift"),
		/* A command without the lock shows the changes of an agent. */
		.values_recordable = !core->event || (may_write && core->values),
		.files_recordable = !core->event || (may_write && core->journal),
		.drifts = core->drifts,
		.n_drifts = core->n_drifts,
		.transferring = node_transfers(node),
		.files_busy = core->job || tuner->files_stale,
	};

	for (size_t i = 0; i < core->n_restarts; i++)
		restart_set_clock(&core->restarts[i], input.realtime_us / USEC_PER_SEC);
	if (core->values) {
		input.values = core->values->records;
		input.n_values = core->values->n;
	}
	settle_mode(core, tuner);
	input.mode = tuner->mode;
	proposal_clear(proposal);
	if (tuner->mode != MODE_OFF) {
		if (tuner->ops->sense)
			tuner->ops->sense(tuner->self, now);
		tuner->ops->decide(tuner->self, &input, tuner->memory, proposal);
		core_keep_memory(core, tuner);
		if (tuner->ops->arm)
			tuner->ops->arm(tuner->self, tuner->memory);
		copy_public(tuner->why, TUNER_WHY_MAX, proposal->why);
		report_lack(core, tuner, now);
		tuner->state = tuner->why[0] ? TUNER_DEGRADED : TUNER_ACTIVE;
	}
	core_add_removed(core, tuner);
	reconcile(node, &wanted, &core->plan);
	core_mark_configured(core, tuner);
	tuner->force = false;
	core_take_findings(core, tuner, &input);
	for (size_t l = 0; l < proposal->n_limits; l++) {
		struct limit *limit =
			find_named(node->limits, node->n_limits, proposal->limits[l].name);

		if (!limit) {
			limit = add_element(
				&node->limits, &node->n_limits, &node->limits_allocated);
			core_recall_peak(core, limit, proposal->limits[l].name);
			core_recall_history(core, limit, proposal->limits[l].name);
		}
		limit_observe(limit, &proposal->limits[l], now);
	}
}

void core_poll_tuner(struct core *core, struct tuner_status *tuner, uint64_t now)
{
	plan_clear(&core->plan);
	poll_tuner(core, tuner, now);
	core_keep_drifts(core);
}

void core_poll(struct core *core)
{
	uint64_t now = now_us();
	size_t kept = 0;

	plan_clear(&core->plan);
	core->node.findings.n_left_out = 0;
	for (size_t i = 0; i < core->node.n_tuners; i++)
		poll_tuner(core, &core->node.tuners[i], now);
	for (size_t i = 0; i < core->node.n_limits; i++)
		if (core->node.limits[i].seen_at_us == now)
			core->node.limits[kept++] = core->node.limits[i];
		else
			limit_release(&core->node.limits[i]);
	core->node.n_limits = kept;
	/* The records say it from now on. */
	core->files_lost = core->files_lost && core->lock < 0;
	core_keep_peaks(core);
	core_keep_histories(core, false);
	core_keep_events(core);
	core_keep_drifts(core);
	core_judge(core);
	core->node.heartbeat_us = now;
	core->node.revision++;
}

/* ---- records and the lock ---- */

static void adopt_journal(struct core *core)
{
	free(core->keys);
	core->keys = file_journal_snapshot(core->journal, &core->n_keys);
	core->n_restarts = core->journal->n_restarts;
	memcpy(core->restarts, core->journal->restarts, core->n_restarts * sizeof(*core->restarts));
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

	host_path(core->host, directories[CORE_STATE].by_default, directory);
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
	core->journal_error = core_directory(core->host, CORE_STATE, directory);
	if (core->journal_error == 0)
		core->journal_error = file_journal_open(directory, create, &core->journal);
	if (core->journal_error == 0)
		adopt_journal(core);
	else if (core->journal_error == -ENODEV && is_first)
		read_host_releases(core);
}

/* A canary can be taken back: an older version leaves the records of a newer one as they are. */
static void note_newer(struct core *core)
{
	char program[RECORD_PROGRAM_MAX] = "", directory[PATH_MAX];

	core->node.newer[0] = '\0';
	if (core->values_error != -EPROTO && core->journal_error != -EPROTO)
		return;
	if (core->values_error == -EPROTO &&
		core_directory(core->host, CORE_RUNTIME, directory) == 0)
		value_store_program(directory, program);
	if (!program[0] && core->journal_error == -EPROTO &&
		core_directory(core->host, CORE_STATE, directory) == 0)
		file_journal_program(directory, program);
	snprintf(core->node.newer, sizeof(core->node.newer),
		"%s %s wrote the records, which %s cannot read, so nothing is written: install that version, or restore with it",
		program[0] ? "version" : "a newer version", program, HEADROOM_VERSION);
}

static int read_boot(struct core *core)
{
	static const char path[] = "/proc/sys/kernel/random/boot_id";
	static const struct host here = {0}; /* the kernel is the host's */

	return host_read_value(core->host, path, core->boot) == 0
		       ? 0
		       : host_read_value(&here, path, core->boot);
}

static int load_values(struct core *core, const char *directory, bool write)
{
	if (core->values)
		value_store_close(steal(core->values));
	/* The next process would take records without it for those of another boot. */
	if (write && !core->boot[0] && read_boot(core) < 0)
		return -ENOMSG;
	return value_store_open(directory, core->boot, write, &core->values);
}

uint64_t core_records_signature(const struct core *core)
{
	static const struct {
		enum core_directory directory;
		const char *name;
	} records[] = {{CORE_RUNTIME, VALUE_STORE_FILE}, {CORE_STATE, FILE_JOURNAL_FILE}};
	char directory[PATH_MAX], path[PATH_MAX + 32];
	uint64_t signature = 0;
	struct stat st;

	for (size_t i = 0; i < ARRAY_SIZE(records); i++) {
		if (core_directory(core->host, records[i].directory, directory) < 0)
			continue;
		snprintf(path, sizeof(path), "%s/%s", directory, records[i].name);
		if (stat(path, &st) == 0)
			signature = signature * 31 + us_of(st.st_mtim) + st.st_ino;
	}
	return signature;
}

void core_read_records(struct core *core)
{
	char directory[PATH_MAX];
	int r = core_directory(core->host, CORE_RUNTIME, directory);

	if (r == 0)
		r = load_values(core, directory, false);
	/* Only a writer needs them. */
	core->values_error = r == -ENOENT || r == -EACCES || r == -ENODEV ? 0 : r;
	core_load_drifts(core);
	load_journal(core, false);
	if (core->journal_error == -EACCES || core->journal_error == -ENODEV)
		core->journal_error = 0;
	note_newer(core);
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

void core_find_lost_files(struct core *core)
{
	_cleanup_free_ char *file = NULL;

	core->files_lost =
		last_good_lost_file(core->host, &core->options, core->config, &file) < 0 || file;
}

int core_become_writer(struct core *core, const char *who, bool waits)
{
	char directory[PATH_MAX];
	bool first = core->lock < 0;
	int r = core_directory(core->host, CORE_RUNTIME, directory);

	if (r == 0 && first) {
		r = lock_acquire(directory, who, waits, core->holder, sizeof(core->holder));
		core->lock = MAX(r, -1);
	}
	if (r >= 0 && (first || core->journal_error < 0))
		load_journal(core, true);
	if (r >= 0 && (first || core->values_error < 0))
		r = load_values(core, directory, true);
	if (first && core->lock >= 0) {
		core_load_drifts(core);
		core_find_lost_files(core);
	}
	core->values_error = MIN(r, 0);
	note_newer(core);
	if (core_may_write(core))
		adopt_records(core);
	return core->values_error;
}

bool core_other_writer(struct core *core)
{
	char directory[PATH_MAX];

	return core->lock < 0 && core_directory(core->host, CORE_RUNTIME, directory) == 0 &&
	       lock_holder(directory, core->holder, sizeof(core->holder));
}

/* ---- the configuration ---- */

static void close_tuner(struct tuner_status *tuner)
{
	if (tuner->self)
		tuner->ops->close(tuner->self, tuner->memory);
	free(tuner->memory);
	free(tuner->kept);
	tuner->self = tuner->memory = tuner->kept = NULL;
	tuner->generation++;
	tuner->sampled = tuner->bpf_requested = false;
}

void core_reconfigure(struct core *core, struct config *config)
{
	const char *name = config_text(config, "node_name");

	cleanup_config_free(&core->config);
	core->config = config;
	core->node.config = config;
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
			if (tuner->self && core->event && tuner->ops->pause)
				tuner->ops->pause(tuner->self);
			else
				close_tuner(tuner);
			tuner->state = TUNER_OFF;
			tuner->files_stale = false; /* no sample follows */
			set_text(tuner->why, "switched off by the configuration");
			continue;
		}
		if (!tuner->self) {
			tuner->memory = must(calloc(1, MAX(tuner->ops->memory_size, 1)));
			core_load_memory(core, tuner);
			tuner->self = tuner->ops->open(core->host, &core->facts, core->event);
		}
		if (tuner->ops->configure)
			tuner->ops->configure(tuner->self, config);
	}
}

int core_open(struct core *core, const struct core_options *options, sd_event *event,
	struct config *config)
{
	struct node *node = &core->node;
	size_t allocated = 0;

	core->options = *options;
	core->event = event;
	core->config = config;
	core->source = core_source(options->config_file);
	core->lock = -1;
	pthread_mutex_init(&core->one_load, NULL);
	if (core->task_us == 0)
		core->task_us = event ? CORE_TASK_US : CORE_COMMAND_TASK_US;
	core_place_cures(core);
	node->started_us = node->reloaded_us = realtime_us();
	core->host = must(malloc(sizeof(*core->host)));
	core->state = must(malloc(PATH_MAX));
	if (!host_init(core->host, options->host_root))
		return -ENAMETOOLONG;
	if (core_directory(core->host, CORE_STATE, core->state) < 0)
		core->state[0] = '\0';
	core->host->state = core->state;
	(void)read_boot(core);
	core->host->node_name = node->name;
	core->host->put_load_file = load_file_put;
	while (tuner_table[node->n_tuners])
		node->n_tuners++;
	node->tuners = must(calloc(node->n_tuners, sizeof(*node->tuners)));
	for (size_t i = 0; i < node->n_tuners; i++)
		node->tuners[i].ops = tuner_table[i];
	for (size_t i = 0; all_tables[i]; i++)
		for (const struct condition_type *type = all_tables[i]->conditions;
			type && type->name; type++) {
			struct condition *condition =
				add_element(&node->conditions, &node->n_conditions, &allocated);

			condition->type = type;
		}
	core->memory_limit = event ? cgroup_own_memory_maximum(core->host) : 0;
	core->facts.cgroups = cgroups_open(core->host, &core->facts.names);
	core_reconfigure(core, steal(core->config));
	return 0;
}

void core_close(struct core *core)
{
	bool ended = core_end_tasks(core, 0);

	for (size_t i = 0; i < core->node.n_tuners; i++) {
		close_tuner(&core->node.tuners[i]);
		proposal_clear(&core->node.tuners[i].proposal);
	}
	if (core->facts.cgroups)
		cgroups_close(core->facts.cgroups);
	free(core->facts.names.entries);
	/* A task that hangs uses its request and these until the command ends. */
	if (ended) {
		free(core->host);
		free(core->state);
	}
	cleanup_value_store_close(&core->values);
	cleanup_file_journal_close(&core->journal);
	cleanup_close(&core->lock);
	plan_clear(&core->plan);
	free(core->keys);
	free(core->pins);
	free(core->peaks);
	free(core->histories);
	free(core->drifts);
	free(core->node.tuners);
	free(core->node.settings);
	for (size_t i = 0; i < core->node.n_limits; i++)
		limit_release(&core->node.limits[i]);
	free(core->node.limits);
	findings_clear(&core->node.findings);
	for (size_t i = 0; i < core->node.n_conditions; i++)
		free(core->node.conditions[i].message);
	free(core->node.conditions);
	config_free(core->config);
}

/* ---- changes ---- */

void core_reset(struct core *core, const char *only)
{
	reconcile_reset(&core->node, only, true);
	for (size_t i = 0; i < core->node.n_tuners; i++) {
		struct tuner_status *tuner = &core->node.tuners[i];

		if (only && !streq(only, tuner->ops->name))
			continue;
		tuner->force = true;
		release_set(&core->released, tuner->ops->name, false);
	}
	for (size_t i = 0; i < core->n_keys; i++)
		if (!only || streq(only, core->keys[i].tuner))
			core->keys[i].failed[0] = '\0';
}

void core_plan_only(struct core *core, const char *only)
{
	size_t kept = 0;

	for (size_t i = 0; i < core->plan.n; i++)
		if (!only || streq(core->plan.changes[i].tuner, only))
			core->plan.changes[kept++] = core->plan.changes[i];
		else
			change_release(&core->plan.changes[i]);
	core->plan.n = kept;
}

/* Removes the changes that gave way to another writer. Returns their number. */
static size_t drop_overtaken(struct plan *plan)
{
	size_t kept = 0, n = plan->n;

	for (size_t i = 0; i < n; i++)
		if (plan->changes[i].error == -ESTALE)
			change_release(&plan->changes[i]);
		else
			plan->changes[kept++] = plan->changes[i];
	plan->n = kept;
	return n - kept;
}

size_t core_apply_values(struct core *core, const char *only, struct plan *done)
{
	size_t n = 0, overtaken = 1;

	for (int plans = 1; overtaken > 0; plans++) {
		struct plan values = {0};

		overtaken = 0;
		plan_move(&values, &core->plan, PLAN_VALUES);
		n += values.n;
		if (values.n > 0 && core->values && core_may_write(core)) {
			values_apply(core->host, core->values, &values);
			overtaken = plans < PLANS_MAX ? drop_overtaken(&values) : 0;
			reconcile_results(&core->node, &values, now_us());
			core_keep_drifts(core);
		}
		if (done)
			plan_move(done, &values, PLAN_ALL);
		plan_clear(&values);
		if (overtaken > 0) {
			core_poll(core);
			core_plan_only(core, only);
		}
	}
	return n;
}

void core_restore_values(struct core *core, const char *only, struct plan *done)
{
	struct plan plan = {0};

	for (size_t i = 0; i < core->node.n_tuners; i++)
		if (!only || streq(only, core->node.tuners[i].ops->name))
			release_set(&core->released, core->node.tuners[i].ops->name, true);
	if (core->values)
		values_restore(core->host, core->values, only, &plan);
	for (size_t i = 0; i < plan.n; i++) {
		struct setting *setting = node_setting(&core->node, plan.changes[i].name);

		if (setting && plan.changes[i].error < 0)
			setting_become(setting, SETTING_FAILED, REASON_NOT_RESTORED,
				plan.changes[i].error, NULL);
	}
	if (done)
		plan_move(done, &plan, PLAN_ALL);
	plan_clear(&plan);
}

void core_plan_restore(struct core *core, const char *only, struct plan *plan)
{
	const struct wait wait = {.deadline_us = UINT64_MAX, .cancel_fd = -1};
	_cleanup_free_ struct file_job *job = must(calloc(1, sizeof(*job)));
	size_t kept = 0;

	if (core->values)
		values_plan_restore(core->host, core->values, only, plan);
	job->journal = core->journal;
	job->host = *core->host;
	job->task = FILE_PLAN_RESTORE;
	job->restart = (enum restart_policy)config_choice(core->config, "runtime.restart");
	set_text(job->only, only ? only : "");
	if (job->journal)
		file_transaction(job, &wait);
	plan_move(plan, &job->plan, PLAN_ALL);
	plan_clear(&job->plan);
	/* Originals that are in place are no change. */
	for (size_t i = 0; i < plan->n; i++) {
		struct change *change = &plan->changes[i];

		if (change->error == 0 && change->reason == REASON_ORIGINAL &&
			value_equal(change->old, change->new))
			change_release(change);
		else
			plan->changes[kept++] = *change;
	}
	plan->n = kept;
}

struct file_job *core_file_job(
	struct core *core, enum file_task task, const char *only, bool forced)
{
	struct file_job *job;

	if (!core->journal || core->lock < 0 || core->job)
		return NULL;
	job = must(calloc(1, sizeof(*job)));
	job->journal = core->journal;
	job->host = *core->host;
	job->task = task;
	job->forced = forced;
	if (forced || task == FILE_RESTORE)
		core->journal->released = core->released;
	job->restart = (enum restart_policy)config_choice(core->config, "runtime.restart");
	job->undo = task == FILE_RESTORE || job->restart != RESTART_NEVER;
	set_text(job->only, only ? only : "");
	if (task == FILE_APPLY)
		plan_move(&job->plan, &core->plan, PLAN_FILES);
	core->job = job;
	return job;
}

static const struct condition *find_hiding(const struct core *core, const struct tuner_ops *ops)
{
	const struct condition *condition = core->node.conditions;

	for (size_t i = 0; i < core->node.n_conditions; i++, condition++)
		for (const struct condition_type *type = ops->tables->conditions;
			type && type->name; type++)
			if (type->hides_settings && condition->type == type &&
				condition->status == CONDITION_TRUE)
				return condition;
	return NULL;
}

void core_add_unset(const struct core *core, const char *only, struct plan *done)
{
	struct change *change;

	for (size_t i = 0; i < core->node.n_settings; i++) {
		const struct setting *setting = &core->node.settings[i];
		const struct reason_row *reason = &reason_rows[setting->reason];
		const char *why;
		bool untried = reason->unmet && (setting->state == SETTING_OBSERVED ||
							setting->state == SETTING_PENDING);
		bool unset = setting->state == SETTING_FAILED || untried ||
			     (setting->state == SETTING_UNSUPPORTED && setting->error < 0);

		for (size_t c = 0; c < done->n; c++)
			unset &= !streq(done->changes[c].name, setting->name) ||
				 done->changes[c].error >= 0;
		if (!unset || setting->mode != MODE_ENFORCE ||
			(only && !streq(setting->tuner, only)))
			continue;
		change = plan_add(done, NULL, setting->name, setting->tuner, setting->actual,
			setting->wanted);
		set_text(change->actual, setting->actual);
		change->reason = setting->reason;
		change->error = setting->error < 0 ? setting->error : -ECANCELED;
		why = setting->why[0]                         ? setting->why
		      : setting->state == SETTING_UNSUPPORTED ? reason->help
							      : NULL;
		change->why = why ? strdup(why) : NULL;
	}
	core_add_hidden(core, only, done);
}

void core_add_hidden(const struct core *core, const char *only, struct plan *done)
{
	uint64_t now = now_us();

	for (size_t i = 0; i < core->node.n_tuners; i++) {
		const struct tuner_status *tuner = &core->node.tuners[i];
		const struct condition *hiding = find_hiding(core, tuner->ops);
		const char *name = tuner->ops->name;
		bool lacks = tuner->mode == MODE_ENFORCE && core_lacks_sample(tuner, now);
		struct change *change;

		if ((!hiding && !lacks) || (only && !streq(only, name)))
			continue;
		change = plan_add(done, NULL, name, name, "", "configured");
		change->reason = hiding ? hiding->reason : REASON_SAMPLE_OVERDUE;
		change->error = lacks && tuner->sample_error < 0 ? tuner->sample_error : -ETIMEDOUT;
		change->why = must(strdup(hiding ? hiding->message : tuner->why));
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
		for (size_t c = 0; tuner->ops->tasks[TASK_SAMPLE].request && c < job->plan.n; c++)
			tuner->files_stale |= streq(job->plan.changes[c].tuner, tuner->ops->name);
	}
	if (done)
		plan_move(done, &job->plan, PLAN_ALL);
	plan_clear(&job->plan);
	free(job);
	return error;
}
