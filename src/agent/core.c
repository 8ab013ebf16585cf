/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/core.h"

#include "agent/pipeline.h"
#include "apply/apply.h"
#include "apply/lock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/util.h"
#include "tuners/table.h"
#include "workload/names.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include <systemd/sd-event.h>

#define DEFAULT_CONFIG    "/etc/headroom/headroom.yaml"
#define DEFAULT_CONFIG_D  "/etc/headroom/conf.d"
#define DEFAULT_STATE_DIR "/var/lib/headroom"

DEFINE_CLEANUP(sd_event, sd_event_unref)

/* How long a command waits for a runtime that does not answer. */
#define SETTLE_US (3 * USEC_PER_SEC)

const char *core_state_directory(void)
{
	const char *directory = getenv("HEADROOM_STATE_DIR");

	return directory && directory[0] ? directory : DEFAULT_STATE_DIR;
}

void core_socket_path(const struct config *config, char path[static PATH_MAX])
{
	const char *directory = getenv("HEADROOM_RUNTIME_DIR");

	if (directory && directory[0] && config_where(config, "http.socket").line == 0)
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

int core_load_config(const struct config_source *source, struct config **ret,
	struct config_fault_list *faults, struct config_fault_list *notices)
{
	_cleanup_(cleanup_config_free) struct config *config = NULL;
	struct config_fault_list unread = {0};
	int r = config_load(source, option_tables, &config, faults, notices ? notices : &unread);

	config_faults_clear(&unread);
	if (r < 0)
		return r;
	tuners_validate(config, faults);
	if (faults->n > 0)
		return -EINVAL;
	*ret = steal(config);
	return 0;
}

/* The node's name for people: configured, given by Kubernetes' downward API, or the host's. */
static void name_node(struct core *core)
{
	const char *configured = config_text(core->config, "node_name");
	const char *given = getenv("NODE_NAME");

	if (configured[0])
		copy_text(core->node.name, sizeof(core->node.name), configured);
	else if (given && given[0])
		copy_text(core->node.name, sizeof(core->node.name), given);
	else if (gethostname(core->node.name, sizeof(core->node.name) - 1) < 0)
		copy_text(core->node.name, sizeof(core->node.name), "localhost");
}

static void close_tuner(struct tuner_status *tuner)
{
	if (tuner->self)
		tuner->ops->close(tuner->self);
	if (tuner->memory && tuner->ops->memory_clear)
		tuner->ops->memory_clear(tuner->memory);
	free(tuner->memory);
	tuner->self = tuner->memory = NULL;
}

static int open_tuner(struct core *core, struct tuner_status *tuner)
{
	int r;

	tuner->mode = tuner_mode(tuner->ops, core->config);
	if (tuner->mode == MODE_OFF) {
		close_tuner(tuner);
		tuner->state = TUNER_OFF;
		copy_text(tuner->why, sizeof(tuner->why), "switched off by the configuration");
		return 0;
	}
	if (tuner->self)
		return tuner->ops->configure(tuner->self, core->config);
	tuner->memory = calloc(1, MAX(tuner->ops->memory_size, 1));
	if (!tuner->memory)
		return -ENOMEM;
	r = tuner->ops->open(&core->host, core->options.watch, &tuner->self);
	if (r == 0)
		r = tuner->ops->configure(tuner->self, core->config);
	if (r == 0 && core->event && tuner->ops->attach)
		r = tuner->ops->attach(tuner->self, core->event);
	return r;
}

static int open_tuners(struct core *core)
{
	for (size_t i = 0; i < core->node.n_tuners; i++) {
		int r = open_tuner(core, &core->node.tuners[i]);

		if (r < 0)
			return r;
	}
	return 0;
}

static int make_conditions(struct node *node)
{
	for (size_t i = 0; all_tables[i]; i++)
		for (const struct condition_type *type = all_tables[i]->conditions;
			type && type->name; type++)
			node->n_conditions++;
	node->conditions = calloc(node->n_conditions, sizeof(*node->conditions));
	if (!node->conditions)
		return -ENOMEM;
	node->n_conditions = 0;
	for (size_t i = 0; all_tables[i]; i++)
		for (const struct condition_type *type = all_tables[i]->conditions;
			type && type->name; type++)
			node->conditions[node->n_conditions++].now.type = type;
	return 0;
}

static int make_tuners(struct core *core)
{
	size_t n = 0;

	while (tuner_table[n])
		n++;
	core->node.tuners = calloc(n, sizeof(*core->node.tuners));
	core->proposals = calloc(n, sizeof(*core->proposals));
	if (!core->node.tuners || !core->proposals)
		return -ENOMEM;
	core->node.n_tuners = n;
	for (size_t i = 0; i < n; i++)
		core->node.tuners[i].ops = tuner_table[i];
	return make_conditions(&core->node);
}

static void load_journal(struct core *core, bool create)
{
	char boot[SETTING_VALUE_MAX] = "";

	if (core->journal)
		journal_close(steal(core->journal));
	(void)host_read_value(&core->host, "/proc/sys/kernel/random/boot_id", boot);
	core->journal_error = journal_open(core_state_directory(), boot, create, &core->journal);
	if (core->journal && core->journal->note[0])
		log_warning(core_state_directory(), "%s", core->journal->note);
}

int core_open(struct core *core, const struct core_options *options, struct config *config)
{
	int r;

	core->options = *options;
	core->config = config;
	core->checksum = config_checksum(config);
	core->source = core_source(options->config_file);
	core->lock = -1;
	core->node.started_us = realtime_us();
	if (!host_init(&core->host, options->host_root))
		return -ENAMETOOLONG;
	core->host.names = names_open();
	if (!core->host.names)
		return -ENOMEM;
	name_node(core);
	r = make_tuners(core);
	return r < 0 ? r : open_tuners(core);
}

void core_close(struct core *core)
{
	for (size_t i = 0; i < core->node.n_tuners; i++) {
		close_tuner(&core->node.tuners[i]);
		proposal_clear(&core->proposals[i]);
	}
	sd_event_unref(core->event);
	if (core->host.names)
		names_close(core->host.names);
	if (core->journal)
		journal_close(core->journal);
	cleanup_close(&core->lock);
	plan_clear(&core->plan);
	free(core->proposals);
	free(core->wants);
	free(core->value_records);
	free(core->file_records);
	free(core->node.tuners);
	free(core->node.settings);
	free(core->node.limits);
	free(core->node.conditions);
	config_free(core->config);
}

int core_attach(struct core *core, struct sd_event *event)
{
	int r = 0;

	core->event = sd_event_ref(event);
	for (size_t i = 0; r >= 0 && i < core->node.n_tuners; i++) {
		const struct tuner_status *tuner = &core->node.tuners[i];

		if (tuner->self && tuner->ops->attach)
			r = tuner->ops->attach(tuner->self, event);
	}
	return MIN(r, 0);
}

static bool is_settled(const struct core *core)
{
	for (size_t i = 0; i < core->node.n_tuners; i++) {
		const struct tuner_status *tuner = &core->node.tuners[i];

		if (tuner->self && tuner->ops->settled && !tuner->ops->settled(tuner->self))
			return false;
	}
	return true;
}

int core_settle(struct core *core)
{
	uint64_t end = now_us() + SETTLE_US, now;
	int r = 0;

	if (!core->event) {
		_cleanup_(cleanup_sd_event_unref) sd_event *event = NULL;

		r = sd_event_new(&event);
		if (r >= 0)
			r = core_attach(core, event);
	}
	while (r >= 0 && !is_settled(core) && (now = now_us()) < end)
		r = sd_event_run(core->event, end - now);
	return MIN(r, 0);
}

bool core_wants_to_write(const struct core *core)
{
	for (size_t i = 0; i < core->node.n_tuners; i++)
		if (tuner_mode(core->node.tuners[i].ops, core->config) == MODE_ENFORCE)
			return !core->options.observe;
	return false;
}

void core_read_journal(struct core *core)
{
	load_journal(core, false);
}

int core_become_writer(struct core *core, const char *who, char *holder, size_t size)
{
	const char *directory = core_state_directory();
	_cleanup_close_ int dir = -1;
	int r = make_directories(directory, 0755);

	if (r == 0) {
		dir = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		r = dir < 0 ? -errno : lock_take(dir, who, holder, size);
	}
	if (r < 0) {
		core->journal_error = r;
		return r;
	}
	core->lock = r;
	load_journal(core, true);
	return 0;
}

int core_reconfigure(struct core *core, struct config *config)
{
	config_free(core->config);
	core->config = config;
	core->checksum = config_checksum(config);
	name_node(core);
	reconcile_reset(&core->node, NULL);
	return open_tuners(core);
}

void core_reset(struct core *core, const char *only)
{
	reconcile_reset(&core->node, only);
	for (size_t i = 0; i < core->node.n_tuners; i++) {
		struct tuner_status *tuner = &core->node.tuners[i];

		if (only && !streq(only, tuner->ops->name))
			continue;
		tuner->force = true;
		if (core->journal)
			journal_unrelease(core->journal, tuner->ops->name);
	}
	if (core->journal)
		journal_try_again(core->journal, only);
}

void core_plan_only(struct core *core, const char *only)
{
	size_t kept = 0;

	for (size_t i = 0; i < core->plan.n; i++)
		if (!core->plan.changes[i].record_only &&
			(!only || streq(core->plan.changes[i].tuner, only)))
			core->plan.changes[kept++] = core->plan.changes[i];
		else
			change_release(&core->plan.changes[i]);
	core->plan.n = kept;
}

static void write_plan(struct core *core)
{
	int r;

	apply_plan(&core->host, &core->plan, &core->node, now_us());
	if (!core->journal)
		return;
	journal_note_actual(core->journal, &core->plan);
	r = journal_store(core->journal);
	if (r < 0)
		log_error("journal.json",
			"what the kernel made of a value is not noted: %s: make room in %s",
			strerror(-r), core_state_directory());
}

/* All but files. */
static int apply_values(struct core *core)
{
	int r = core->journal ? journal_note(core->journal, &core->plan) : 0;

	if (r < 0)
		return r;
	r = core->journal_error;
	if (core->journal) {
		journal_set_config(core->journal, core->checksum);
		r = journal_store(core->journal);
	}
	if (r < 0)
		apply_refused(&core->plan, &core->node, r, now_us());
	else
		write_plan(core);
	return 0;
}

/* For what waits for systemd, or for a thread. */
static int need_loop(struct core *core)
{
	_cleanup_(cleanup_sd_event_unref) sd_event *event = NULL;
	int r = core->event ? 0 : sd_event_new(&event);

	return r < 0 || core->event ? r : core_attach(core, event);
}

static bool has_failed(const struct plan *plan)
{
	for (size_t i = 0; i < plan->n; i++)
		if (plan->changes[i].error < 0)
			return true;
	return false;
}

int core_resume(struct core *core)
{
	struct pipeline files = {.core = core};
	int r = need_loop(core);
	bool failed = false;

	files.event = core->event;
	while (r == 0 && core->journal && pipeline_resume(&files)) {
		pipeline_run(&files);
		failed = failed || has_failed(&files.edits.plan);
	}
	pipeline_close(&files);
	return r == 0 && failed ? -ETIMEDOUT : r;
}

int core_apply(struct core *core)
{
	struct pipeline files = {.core = core};
	int r = need_loop(core);

	files.event = core->event;
	if (r == 0 && core->journal && core->lock >= 0)
		pipeline_apply(&files, &core->plan);
	if (r == 0)
		r = apply_values(core);
	if (r == 0)
		pipeline_run(&files);
	if (r == 0)
		r = plan_append(&core->plan, &files.edits.plan);
	pipeline_close(&files);
	core_judge(core);
	return r;
}

int core_restore_files(struct core *core, const char *only)
{
	struct pipeline files = {.core = core};
	int r = need_loop(core);

	files.event = core->event;
	if (r == 0 && core->journal && pipeline_restore(&files, only))
		pipeline_run(&files);
	if (r == 0)
		r = plan_append(&core->plan, &files.edits.plan);
	if (r == 0)
		r = files.store_error;
	pipeline_close(&files);
	return r;
}

int core_restore(struct core *core, const char *only)
{
	const char *names[JOURNAL_RELEASED_MAX + 1] = {0};
	int r;

	for (size_t i = 0; i < MIN(core->node.n_tuners, JOURNAL_RELEASED_MAX); i++)
		names[i] = core->node.tuners[i].ops->name;
	plan_clear(&core->plan);
	if (!core->journal)
		return core->journal_error;
	r = restore_make_plan(&core->host, core->journal, only, &core->plan);
	if (r == 0)
		restore_plan(&core->host, core->journal, only, names, &core->plan);
	return r;
}
