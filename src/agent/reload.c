/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/internal.h"

#include "base/log.h"
#include "base/util.h"
#include "report/notify.h"

#include <errno.h>
#include <stdio.h>

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

void agent_reload(struct agent *agent)
{
	struct config_fault_list faults = {0}, notices = {0};
	struct config *config;
	int r;

	notify_reloading();
	agent->source_signature = config_source_signature(&agent->core.source);
	agent->source_changed = 0;
	r = core_load_config(&agent->core.source, &config, &faults, &notices);
	for (size_t i = 0; i < notices.n; i++)
		log_notice("config", "%s:%u:%u: %s", notices.faults[i].file, notices.faults[i].line,
			notices.faults[i].column, notices.faults[i].message);
	if (r == 0) {
		agent->core.config_fault[0] = '\0';
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
	core_poll(&agent->core);
	agent_pump(agent);
	if (agent->ready)
		notify_ready();
	agent->reloaded = agent->ready;
}

/*
 * The files are looked at every second: that sees each way of replacing them, a ConfigMap's symlink
 * swap included. A change is taken once it has stood for a second, so that nobody's half-written
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
