/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/agent.h"

#include "agent/internal.h"
#include "base/build.h"
#include "base/log.h"
#include "base/util.h"
#include "report/notify.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>

static int on_hangup(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata)
{
	(void)source;
	(void)info;
	agent_reload(userdata);
	return 0;
}

static int add_signals(struct agent *agent)
{
	sigset_t set;
	int r;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	signal(SIGPIPE, SIG_IGN);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -errno;
	/* No handler: the loop ends with code 0. */
	r = sd_event_add_signal(agent->event, NULL, SIGTERM, NULL, NULL);
	if (r >= 0)
		r = sd_event_add_signal(agent->event, NULL, SIGINT, NULL, NULL);
	if (r >= 0)
		r = sd_event_add_signal(agent->event, NULL, SIGHUP, on_hangup, agent);
	return r;
}

/* Connections of many slow clients need descriptors: take what the hard limit gives. */
static void raise_file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = MIN(limit.rlim_max, 4096);
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

int agent_become_writer(struct agent *agent)
{
	char holder[64];
	int r;

	if (agent->core.lock >= 0)
		return 0;
	if (!core_wants_to_write(&agent->core)) {
		core_read_records(&agent->core);
		return 0;
	}
	r = core_become_writer(&agent->core, "agent", holder, sizeof(holder));
	if (r == -EBUSY)
		log_error("/run/headroom", "the lock is held by %s: stop it, or run with --observe",
			holder);
	else if (r < 0)
		log_warning("/run/headroom",
			"%s: originals of values cannot be recorded, so values are only observed",
			strerror(-r));
	return r;
}

static int start(struct agent *agent)
{
	int r = sd_event_new(&agent->event);

	if (r >= 0)
		r = add_signals(agent);
	if (r >= 0)
		r = worker_new(agent->event, &agent->worker);
	if (r >= 0)
		r = core_attach(&agent->core, agent->event);
	if (r < 0)
		return r;
	agent->source_signature = config_source_signature(&agent->core.source);
	agent_remember_sources(agent);
	agent_serve(agent);
	agent_poll(agent);
	r = agent_watch_tuners(agent);
	return r < 0 ? r : agent_begin_ticking(agent);
}

static void stop(struct agent *agent)
{
	notify_stopping();
	agent_stop_serving(agent);
	/* Cancels what is under way: the next agent finishes or undoes it. */
	if (agent->worker)
		worker_free(agent->worker);
	sd_event_source_disable_unref(agent->tick);
	for (size_t i = 0; agent->watches && i < agent->core.node.n_tuners; i++)
		sd_event_source_disable_unref(agent->watches[i]);
	free(agent->watches);
	sd_event_unref(agent->event);
	agent_forget_sources(agent);
	plan_clear(&agent->done);
	core_close(&agent->core);
}

static int load_first_config(const struct core_options *options, struct config **config)
{
	struct config_source source = core_source(options->config_file);
	struct config_fault_list faults = {0}, notices = {0};
	int r = core_load_config(&source, config, &faults, &notices);

	for (size_t i = 0; i < notices.n; i++)
		log_notice("config", "%s:%u:%u: %s", notices.faults[i].file, notices.faults[i].line,
			notices.faults[i].column, notices.faults[i].message);
	for (size_t i = 0; i < faults.n; i++)
		fprintf(stderr, "%s:%u:%u: %s\n", faults.faults[i].file, faults.faults[i].line,
			faults.faults[i].column, faults.faults[i].message);
	config_faults_clear(&faults);
	config_faults_clear(&notices);
	return r;
}

/* What it does to the node, in a word. */
static const char *attitude(const struct core *core)
{
	size_t released = 0, enforcing = 0;

	for (size_t i = 0; i < core->node.n_tuners; i++) {
		released += core->node.tuners[i].mode == MODE_RELEASED;
		enforcing += core->node.tuners[i].mode == MODE_ENFORCE;
	}
	return enforcing > 0 ? "enforcing" : released > 0 ? "released" : "observing";
}

int agent_run(const struct core_options *options)
{
	struct agent agent = {0};
	struct config *config;
	int r;

	/* One arena: the worker needs no heap of its own. */
	mallopt(M_ARENA_MAX, 1);
	raise_file_limit();
	r = load_first_config(options, &config);
	if (r < 0)
		return 1;
	r = core_open(&agent.core, options, config);
	if (r == 0 && agent_become_writer(&agent) == -EBUSY) {
		core_close(&agent.core);
		return 1;
	}
	if (r == 0)
		r = start(&agent);
	if (r >= 0) {
		log_info("agent", "version %s, %s", HEADROOM_VERSION, attitude(&agent.core));
		r = agent_loop(&agent);
	}
	if (r < 0)
		log_error("agent", "%s", strerror(-r));
	stop(&agent);
	return r < 0 ? 1 : 0;
}
