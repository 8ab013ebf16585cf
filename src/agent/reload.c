/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/internal.h"

#include "base/log.h"

#include <sys/stat.h>
#include <systemd/sd-daemon.h>

static void log_faults(int level, const struct config_fault_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		log_line(level, "config", "%s:%u:%u: %s", list->faults[i].file,
			list->faults[i].line, list->faults[i].column, list->faults[i].message);
}

/*
 * An editor, a full disk or a ConfigMap that is gone for a moment leaves a file empty or missing.
 * That is no configuration: the defaults would enforce what nobody asked for.
 */
static void find_lost_source(const struct config *config, struct config_fault_list *faults)
{
	struct config_place place = {.line = 1, .column = 1};
	struct stat st;

	for (size_t i = 0; (place.file = config_file(config, i)); i++)
		if (stat(place.file, &st) < 0 || (S_ISREG(st.st_mode) && st.st_size == 0))
			config_fault_add(faults, &place,
				"gone or empty since it was loaded: restore it, or restart the "
				"agent to do without it");
}

/* old: what is in use; NULL for the first load. */
static int load(const struct config_source *source, const struct config *old,
	struct config **config, char fault[static CONDITION_MESSAGE_MAX])
{
	struct config_fault_list faults = {0}, notices = {0};
	int r = -EINVAL;

	if (old)
		find_lost_source(old, &faults);
	if (faults.n == 0)
		r = core_load_config(source, config, &faults, &notices);
	log_faults(LOG_NOTICE, &notices);
	if (old)
		log_faults(LOG_ERR, &faults);
	else /* as a compiler: the agent is not to run */
		config_faults_print(stderr, &faults, "");
	fault[0] = '\0';
	if (faults.n > 0)
		snprintf(fault, CONDITION_MESSAGE_MAX, "%.80s:%u:%u: %s", faults.faults->file,
			faults.faults->line, faults.faults->column, faults.faults->message);
	else if (r < 0)
		log_error("config", "not loaded: %s", strerror(-r));
	config_faults_clear(&faults);
	config_faults_clear(&notices);
	return r;
}

int agent_load_config(const char *config_file, struct config **config)
{
	const struct config_source source = core_source(config_file);
	char fault[CONDITION_MESSAGE_MAX];

	return load(&source, NULL, config, fault);
}

void agent_reload(struct agent *agent)
{
	struct core *core = &agent->core;
	struct config *config;
	char changed[512];
	int r;

	/* The time is required for Type=notify-reload, and ignored by systemd before 253. */
	sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, now_us());
	agent->source_signature = config_source_signature(&core->source);
	agent->source_changed = 0;
	r = load(&core->source, core->config, &config, core->config_fault);
	core->node.reload_failed = r < 0;
	if (r == 0) {
		core->node.reloaded_us = realtime_us();
		if (agent->job)
			atomic_store(&agent->job->stale, true);
		config_changes(core->config, config, changed, sizeof(changed));
		core_reconfigure(core, config);
		agent_become_writer(agent);
		agent_watch_tuners(agent);
		agent_serve(agent);
		log_info("config", "loaded, changed: %s", changed[0] ? changed : "nothing");
	} else {
		log_warning("config", "the configuration loaded before stays in use");
	}
	agent_poll(agent);
	if (agent->ready)
		sd_notify(0, "READY=1");
	agent->reloaded = agent->ready;
}

/*
 * The files are checked every second: that sees each way of replacing them, a ConfigMap's symlink
 * swap included. A change is taken once it has lasted for a second, so that no half-written
 * file is loaded.
 */
void agent_watch_config(struct agent *agent)
{
	uint64_t signature = config_source_signature(&agent->core.source);

	if (signature == agent->source_signature) {
		agent->source_changed = 0;
		return;
	}
	if (signature != agent->source_changed) {
		agent->source_changed = signature;
		return;
	}
	agent_reload(agent);
}
