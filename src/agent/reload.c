/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/internal.h"

#include "base/log.h"
#include "base/util.h"
#include "report/notify.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

static void keep_old(struct agent *agent, const struct config_fault_list *faults)
{
	const struct config_fault *first = &faults->faults[0];

	for (size_t i = 0; i < faults->n; i++)
		log_error("config", "%s:%u:%u: %s", faults->faults[i].file, faults->faults[i].line,
			faults->faults[i].column, faults->faults[i].message);
	snprintf(agent->core.config_fault, sizeof(agent->core.config_fault), "%.80s:%u:%u: %s",
		first->file, first->line, first->column, first->message);
	log_warning("config", "the configuration loaded before stays in use");
}

static bool is_empty(const char *path)
{
	struct stat st;

	return stat(path, &st) < 0 || (S_ISREG(st.st_mode) && st.st_size == 0);
}

void agent_forget_sources(struct agent *agent)
{
	for (size_t i = 0; i < agent->n_sources; i++)
		free(agent->sources[i]);
	free(agent->sources);
	agent->sources = NULL;
	agent->n_sources = agent->sources_allocated = 0;
}

static int remember_source(const char *path, void *userdata)
{
	struct agent *agent = userdata;
	char *copy = is_empty(path) ? NULL : strdup(path);

	if (copy && grow_array(&agent->sources, agent->n_sources, &agent->sources_allocated,
			    sizeof(*agent->sources)) == 0)
		agent->sources[agent->n_sources++] = copy;
	else
		free(copy);
	return 0;
}

void agent_remember_sources(struct agent *agent)
{
	agent_forget_sources(agent);
	(void)config_source_each(&agent->core.source, remember_source, agent);
}

/*
 * An editor, a full disk or a ConfigMap that is gone for a moment leaves a file empty or missing.
 * That is no configuration: the defaults would enforce what nobody asked for.
 */
static void find_lost_source(const struct agent *agent, struct config_fault_list *faults)
{
	for (size_t i = 0; i < agent->n_sources; i++) {
		struct config_place place = {.file = agent->sources[i], .line = 1, .column = 1};

		if (is_empty(place.file))
			config_fault_add(faults, &place,
				"gone or empty since it was loaded: put it back, or restart the "
				"agent to do without it");
	}
}

void agent_reload(struct agent *agent)
{
	struct config_fault_list faults = {0}, notices = {0};
	struct config *config;
	int r;

	notify_reloading();
	agent->source_signature = config_source_signature(&agent->core.source);
	agent->source_changed = 0;
	find_lost_source(agent, &faults);
	r = faults.n > 0 ? -EINVAL
			 : core_load_config(&agent->core.source, &config, &faults, &notices);
	for (size_t i = 0; i < notices.n; i++)
		log_notice("config", "%s:%u:%u: %s", notices.faults[i].file, notices.faults[i].line,
			notices.faults[i].column, notices.faults[i].message);
	if (r == 0) {
		agent->core.config_fault[0] = '\0';
		agent->core.node.reloaded_us = realtime_us();
		if (agent->job)
			atomic_store(&agent->job->stale, true);
		agent_remember_sources(agent);
		r = core_reconfigure(&agent->core, config);
		agent_become_writer(agent);
		agent_watch_tuners(agent);
		agent_serve(agent);
		log_info("config", "loaded");
	} else if (faults.n > 0) {
		keep_old(agent, &faults);
	}
	if (r == -ENOMEM)
		log_error("config", "not loaded: %s", strerror(ENOMEM));
	config_faults_clear(&faults);
	config_faults_clear(&notices);
	agent->core.node.reload_failed = r < 0;
	agent_poll(agent);
	if (agent->ready)
		notify_ready();
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
