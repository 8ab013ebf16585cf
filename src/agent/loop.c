/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/internal.h"

#include "apply/reconcile.h"
#include "base/log.h"

#include <malloc.h>
#include <sched.h>
#include <systemd/sd-daemon.h>

/* Room for the timer to fall together with other wake-ups of the machine. */
#define TICK_ACCURACY_US (75 * USEC_PER_MSEC)

/* The lowest real-time priority is above all ordinary work, and below all other real time. */
#define URGENT_PRIORITY 1

void agent_poll(struct agent *agent)
{
	struct core *core = &agent->core;
	char line[STATUS_LINE_MAX];

	worker_take(agent->worker);
	core_poll(core);
	/* Limits and metrics follow the new values at once, not at the next tick. */
	if (core_apply_values(core, NULL) > 0)
		core_poll(core);
	core->node.applied = true;
	/* Before the worker's thread begins, which inherits the privileges that are left. */
	if (!agent->ready) {
		agent_drop_privileges(agent);
		malloc_trim(0); /* loading BPF took megabytes for a moment */
		sd_notify(0, "READY=1");
	}
	agent->ready = true;
	agent_work(agent);
	agent_sample(agent);
	agent_transfer(agent);
	report_line(&core->node, line);
	if (streq(line, agent->status))
		return;
	copy_text(agent->status, sizeof(agent->status), line);
	sd_notifyf(0, "STATUS=%s", line);
}

/* The directory may come to be writable later: a mount, a tmpfs with room again. */
static void retry_writer(struct agent *agent)
{
	struct core *core = &agent->core;
	bool observing = core->values_error < 0;
	char holder[64];

	if ((!observing && core->journal_error == 0) || now_us() < core->writer_retry_us ||
		!core_wants_to_write(core) || core->job)
		return;
	core->writer_retry_us = now_us() + RETRY_US;
	if (core_become_writer(core, "agent", holder, sizeof(holder)) == 0 && observing)
		log_notice(
			"/run/headroom", "originals can be recorded: values are set from now on");
}

static uint64_t next_tick_us(const struct agent *agent)
{
	uint64_t soonest = TICK_US;

	for (size_t i = 0; i < agent->core.node.n_tuners; i++) {
		const struct tuner_status *tuner = &agent->core.node.tuners[i];
		uint64_t next_poll_us =
			tuner->self && tuner->ops->next_poll_us
				? tuner->ops->next_poll_us(tuner->self, tuner->memory)
				: 0;

		if (next_poll_us > 0)
			soonest = MIN(soonest, next_poll_us);
	}
	return soonest;
}

static int on_tick(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct agent *agent = userdata;
	uint64_t next;

	(void)usec;
	retry_writer(agent);
	agent_watch_config(agent);
	agent_poll(agent);
	agent_serve(agent);
	if (agent->reloaded)
		sd_notify(0, "READY=1");
	agent->reloaded = false;
	/* Only for who asked: each message wakes the service manager. */
	if (sd_watchdog_enabled(0, NULL) > 0)
		sd_notify(0, "WATCHDOG=1");
	next = next_tick_us(agent);
	/* A table that fills cannot wait for other wake-ups. */
	sd_event_source_set_time_accuracy(
		source, next < TICK_US ? USEC_PER_MSEC : TICK_ACCURACY_US);
	return sd_event_source_set_time(source, now_us() + next);
}

int agent_begin_ticking(struct agent *agent)
{
	int r = sd_event_add_time(agent->event, &agent->tick, CLOCK_MONOTONIC,
		now_us() + next_tick_us(agent), TICK_ACCURACY_US, on_tick, agent);

	/* A timer fires once: on_tick sets the next, after its work. */
	return r < 0 ? r : sd_event_source_set_enabled(agent->tick, SD_EVENT_ON);
}

static int on_watch(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct agent *agent = userdata;

	(void)fd;
	(void)events;
	for (size_t i = 0; i < agent->core.node.n_tuners; i++) {
		struct tuner_status *tuner = &agent->core.node.tuners[i];

		if (tuner->watch != source)
			continue;
		tuner->ops->drain(tuner->self);
		core_poll_tuner(&agent->core, tuner);
		core_apply_values(&agent->core, NULL);
	}
	return 0;
}

int agent_watch_tuners(struct agent *agent)
{
	for (size_t i = 0; i < agent->core.node.n_tuners; i++) {
		struct tuner_status *tuner = &agent->core.node.tuners[i];
		int fd = tuner->self && tuner->ops->event_fd ? tuner->ops->event_fd(tuner->self)
							     : -1;
		int r;

		tuner->watch = sd_event_source_disable_unref(tuner->watch);
		if (fd < 0)
			continue;
		r = sd_event_add_io(agent->event, &tuner->watch, fd, EPOLLIN, on_watch, agent);
		if (r < 0)
			return r;
		/* Before a scrape that came at the same moment. */
		sd_event_source_set_priority(tuner->watch, SD_EVENT_PRIORITY_IMPORTANT);
	}
	return 0;
}

/*
 * A table of a thousand entries fills in two milliseconds, and on a busy node an ordinary process
 * waits longer than that for a CPU. So the loop sleeps, and wakes for what is urgent, with a
 * real-time priority; everything else, above all what clients ask for, is done with an ordinary
 * one.
 */
static void set_urgent(struct agent *agent, bool urgent)
{
	struct sched_param parameter = {.sched_priority = urgent ? URGENT_PRIORITY : 0};

	if (agent->priority == PRIORITY_REFUSED ||
		agent->priority == (urgent ? PRIORITY_URGENT : PRIORITY_ORDINARY))
		return;
	/* The worker's thread inherits nothing of it. */
	if (sched_setscheduler(0, (urgent ? SCHED_FIFO : SCHED_OTHER) | SCHED_RESET_ON_FORK,
		    &parameter) == 0) {
		agent->priority = urgent ? PRIORITY_URGENT : PRIORITY_ORDINARY;
		return;
	}
	log_info("agent",
		"no real-time priority: %s: on a busy node growth may come late: give CAP_SYS_NICE or RLIMIT_RTPRIO 1, "
		"and on cgroup v1 its cgroup a cpu.rt_runtime_us",
		strerror(errno));
	agent->priority = PRIORITY_REFUSED;
}

/* A tuner can wake the loop; pending: it does just now. */
static bool is_watched(const struct agent *agent, bool pending)
{
	for (size_t i = 0; i < agent->core.node.n_tuners; i++) {
		sd_event_source *watch = agent->core.node.tuners[i].watch;

		if (watch && (!pending || sd_event_source_get_pending(watch) > 0))
			return true;
	}
	return false;
}

int agent_loop(struct agent *agent)
{
	int r = 0;

	while (r >= 0 && sd_event_get_state(agent->event) != SD_EVENT_FINISHED) {
		r = sd_event_prepare(agent->event);
		if (r == 0) {
			set_urgent(agent, agent->core.lock >= 0 && is_watched(agent, false));
			r = sd_event_wait(agent->event, UINT64_MAX);
		}
		if (r <= 0)
			continue;
		/* What is urgent has the higher priority in the loop too: it is dispatched first.
		 */
		if (!is_watched(agent, true))
			set_urgent(agent, false);
		r = sd_event_dispatch(agent->event);
	}
	return r;
}
