/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/core.h"

#include "apply/lock.h"
#include "apply/reconcile.h"
#include "base/file.h"
#include "base/log.h"
#include "base/util.h"
#include "tuners/table.h"
#include "workload/names.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include <systemd/sd-event.h>

#define DEFAULT_CONFIG    "/etc/headroom/headroom.yaml"
#define DEFAULT_CONFIG_D  "/etc/headroom/conf.d"
#define DEFAULT_STATE_DIR "/var/lib/headroom"
#define DEFAULT_RUN_DIR   "/run/headroom"

const char *core_state_directory(void)
{
	const char *directory = getenv("HEADROOM_STATE_DIR");

	return directory && directory[0] ? directory : DEFAULT_STATE_DIR;
}

/*
 * In a container the host's directory, not one of the container: what is recorded there has to live
 * as long as the host's kernel.
 */
int core_runtime_directory(const struct host *host, char path[static PATH_MAX])
{
	const char *directory = getenv("HEADROOM_RUNTIME_DIR");
	struct stat own, hosts;

	if (directory && directory[0]) {
		copy_text(path, PATH_MAX, directory);
		return 0;
	}
	if (!host_path(host, DEFAULT_RUN_DIR, path))
		return -ENAMETOOLONG;
	if (host->root[0] && (stat(path, &hosts) < 0 || stat("/", &own) < 0))
		return -errno;
	return host->root[0] && own.st_dev == hosts.st_dev ? -ENODEV : 0;
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

struct config *core_default_config(void)
{
	struct config_source none = {.file = "/nonexistent", .optional = true};
	struct config_fault_list faults = {0};
	struct config *config = NULL;

	(void)core_load_config(&none, &config, &faults, NULL);
	config_faults_clear(&faults);
	return config;
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
	core->tuner_names = calloc(n + 1, sizeof(*core->tuner_names));
	if (!core->node.tuners || !core->proposals || !core->tuner_names)
		return -ENOMEM;
	core->node.n_tuners = n;
	for (size_t i = 0; i < n; i++) {
		core->node.tuners[i].ops = tuner_table[i];
		core->tuner_names[i] = tuner_table[i]->name;
	}
	return make_conditions(&core->node);
}

int core_open(struct core *core, const struct core_options *options, struct config *config)
{
	int r;

	core->options = *options;
	core->config = config;
	core->node.config_hash = config_checksum(config);
	core->source = core_source(options->config_file);
	core->lock = -1;
	core->node.started_us = core->node.reloaded_us = realtime_us();
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
	if (core->values)
		value_store_close(core->values);
	if (core->journal)
		file_journal_close(core->journal);
	cleanup_close(&core->lock);
	plan_clear(&core->plan);
	free(core->proposals);
	free(core->tuner_names);
	free(core->files);
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

void core_sample(struct core *core)
{
	for (size_t i = 0; i < core->node.n_tuners; i++) {
		struct tuner_status *tuner = &core->node.tuners[i];
		struct wait wait = {.deadline_us = now_us() + CORE_SAMPLE_US, .cancel_fd = -1};
		void *request = NULL;

		if (tuner->self && tuner->ops->sample_request)
			request = tuner->ops->sample_request(tuner->self, true);
		if (!request)
			continue;
		tuner->ops->sample(request, &wait);
		tuner->ops->sample_take(tuner->self, request);
	}
}

bool core_wants_to_write(const struct core *core)
{
	for (size_t i = 0; i < core->node.n_tuners; i++)
		if (tuner_mode(core->node.tuners[i].ops, core->config) == MODE_ENFORCE)
			return !core->options.observe;
	return false;
}

/* What the loop may know of the journal while a job owns it. */
static int look_into_journal(struct core *core)
{
	struct file_record *records = NULL;
	size_t n = 0;
	int r = file_journal_snapshot(core->journal, &records, &n);

	if (r < 0)
		return r;
	free(core->files);
	core->files = records;
	core->n_files = n;
	core->n_released = core->journal->n_released;
	memcpy(core->released, core->journal->released, sizeof(core->released));
	return 0;
}

static void load_journal(struct core *core, bool create)
{
	if (core->journal)
		file_journal_close(steal(core->journal));
	core->journal_error = file_journal_open(core_state_directory(), create, &core->journal);
	if (core->journal_error < 0)
		return;
	core->journal_lost = core->journal->lost;
	copy_text(core->journal_note, sizeof(core->journal_note), core->journal->note);
	if (core->journal_note[0])
		log_warning(core_state_directory(), "%s", core->journal_note);
	core->journal_error = look_into_journal(core);
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
	int r = core_runtime_directory(&core->host, directory);

	if (r == 0)
		r = load_values(core, directory, false);
	/* Who may not write has not lost anything by that. */
	core->values_error = r == -ENOENT || r == -EACCES || r == -ENODEV ? 0 : r;
	load_journal(core, false);
	if (core->journal_error == -EACCES)
		core->journal_error = 0;
}

int core_become_writer(struct core *core, const char *who, char *holder, size_t size)
{
	char directory[PATH_MAX];
	_cleanup_close_ int dir = -1;
	int r = core_runtime_directory(&core->host, directory);

	if (r == 0 && core->lock < 0) {
		r = make_directories(directory, 0755);
		dir = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (r == 0)
			r = dir < 0 ? -errno : lock_take(dir, who, holder, size);
		if (r >= 0) {
			core->lock = r;
			r = load_values(core, directory, true);
			load_journal(core, true);
		}
	} else if (r == 0) {
		if (core->values_error < 0)
			r = load_values(core, directory, true);
		if (core->journal_error < 0)
			load_journal(core, true);
	}
	core->values_error = MIN(r, 0);
	return core->values_error;
}

int core_reconfigure(struct core *core, struct config *config)
{
	config_free(core->config);
	core->config = config;
	core->node.config_hash = config_checksum(config);
	name_node(core);
	reconcile_reset(&core->node, NULL);
	return open_tuners(core);
}
