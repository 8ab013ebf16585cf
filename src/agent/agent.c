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

/* Room for the timer to fall together with other wakeups of the machine. */
#define TICK_ACCURACY_US (50 * USEC_PER_MSEC)

static void become_ready(struct agent *agent)
{
	if (agent->ready || !agent->core.node.applied)
		return;
	agent->ready = true;
	agent_drop_privileges(agent);
	/* Loading BPF took megabytes for a moment. */
	malloc_trim(0);
	notify_ready();
}

/* The directory may come to be writable later: a mount, a disk with room again. */
static void retry_writer(struct agent *agent)
{
	struct core *core = &agent->core;
	char holder[64];

	if (core->lock >= 0 || now_us() < core->journal_retry_us || !core_wants_to_write(core))
		return;
	core->journal_retry_us = now_us() + RETRY_US;
	if (core_become_writer(core, "agent", holder, sizeof(holder)) == 0)
		log_notice(
			core_state_directory(), "the lock is taken: this agent writes from now on");
}

static int on_tick(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct agent *agent = userdata;
	uint64_t next;

	(void)usec;
	retry_writer(agent);
	agent_watch_config(agent);
	if (core_poll(&agent->core) < 0)
		log_error("agent", "out of memory: this look was incomplete");
	agent_pump(agent);
	become_ready(agent);
	agent_serve(agent);
	if (agent->reloaded)
		notify_ready();
	agent->reloaded = false;
	notify_status(&agent->core.node, agent->status);
	notify_watchdog();
	next = agent_tick_us(agent);
	/* A table that fills cannot wait for other wakeups. */
	sd_event_source_set_time_accuracy(
		source, next < TICK_US ? USEC_PER_MSEC : TICK_ACCURACY_US);
	return sd_event_source_set_time(source, now_us() + next);
}

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

static int add_tick(struct agent *agent)
{
	int r = sd_event_add_time(agent->event, &agent->tick, CLOCK_MONOTONIC,
		now_us() + agent_tick_us(agent), TICK_ACCURACY_US, on_tick, agent);

	/* A timer fires once: on_tick sets the next, after its work. */
	return r < 0 ? r : sd_event_source_set_enabled(agent->tick, SD_EVENT_ON);
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
		core_read_journal(&agent->core);
		return 0;
	}
	r = core_become_writer(&agent->core, "agent", holder, sizeof(holder));
	if (r == -EBUSY)
		log_error(core_state_directory(),
			"the lock is held by %s: stop it, or run with --observe", holder);
	else if (r < 0)
		log_warning(core_state_directory(),
			"%s: nothing will be written without a journal: give write access",
			strerror(-r));
	return r;
}

static int start(struct agent *agent)
{
	int r = sd_event_new(&agent->event);

	if (r >= 0)
		r = add_signals(agent);
	if (r >= 0)
		r = core_attach(&agent->core, agent->event);
	if (r < 0)
		return r;
	agent->source_signature = config_source_signature(&agent->core.source);
	agent_begin_files(agent);
	agent_serve(agent);
	r = core_poll(&agent->core);
	if (r < 0)
		return r;
	agent_pump(agent);
	r = agent_watch_tuners(agent);
	return r < 0 ? r : add_tick(agent);
}

/* READY must not wait for the first tick when storing the journal was quick. */
static int run_until_applied(struct agent *agent)
{
	int r = 0;

	while (r >= 0 && agent->job && sd_event_get_state(agent->event) != SD_EVENT_FINISHED)
		r = sd_event_run(agent->event, UINT64_MAX);
	become_ready(agent);
	notify_status(&agent->core.node, agent->status);
	return r;
}

static void stop(struct agent *agent)
{
	notify_stopping();
	job_finish(&agent->job);
	free(steal(agent->store.text));
	agent_serve_no_more(agent);
	if (pipeline_abandon(&agent->files))
		return;
	sd_event_source_disable_unref(agent->tick);
	for (size_t i = 0; agent->watches && i < agent->core.node.n_tuners; i++)
		sd_event_source_disable_unref(agent->watches[i]);
	free(agent->watches);
	sd_event_unref(agent->event);
	if (agent->take_back)
		journal_close(agent->take_back);
	plan_clear(&agent->committing);
	plan_clear(&agent->done);
	core_close(&agent->core);
	free(agent);
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

int agent_run(const struct core_options *options)
{
	struct config *config;
	struct agent *agent;
	int r;

	/* One arena: the short-lived threads need no heap of their own. */
	mallopt(M_ARENA_MAX, 1);
	raise_file_limit();
	r = load_first_config(options, &config);
	if (r < 0)
		return 1;
	/* Not on the stack: a job may go on until the process has ended, see stop(). */
	agent = calloc(1, sizeof(*agent));
	if (!agent) {
		config_free(config);
		return 1;
	}
	r = core_open(&agent->core, options, config);
	if (r == 0 && agent_become_writer(agent) == -EBUSY) {
		core_close(&agent->core);
		free(agent);
		return 1;
	}
	if (r == 0)
		r = start(agent);
	if (r >= 0) {
		log_info("agent", "version %s, %s", HEADROOM_VERSION,
			core_wants_to_write(&agent->core) ? "enforcing" : "observing");
		r = run_until_applied(agent);
	}
	if (r >= 0 && sd_event_get_state(agent->event) != SD_EVENT_FINISHED)
		r = agent_loop(agent);
	if (r < 0)
		log_error("agent", "%s", strerror(-r));
	stop(agent);
	return r < 0 ? 1 : 0;
}
