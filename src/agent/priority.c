/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/internal.h"

#include "base/log.h"
#include "base/util.h"

#include <errno.h>
#include <sched.h>

/* The lowest real-time priority is above all ordinary work, and below everyone else's real time. */
#define URGENT_PRIORITY 1

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
	/* The thread that stores the journal inherits nothing of it. */
	if (sched_setscheduler(0, (urgent ? SCHED_FIFO : SCHED_OTHER) | SCHED_RESET_ON_FORK,
		    &parameter) == 0) {
		agent->priority = urgent ? PRIORITY_URGENT : PRIORITY_ORDINARY;
		return;
	}
	log_info("agent",
		"no real-time priority: %s: on a busy node growth may come late: give CAP_SYS_NICE or RLIMIT_RTPRIO 1",
		strerror(errno));
	agent->priority = PRIORITY_REFUSED;
}

static bool is_urgent(const struct agent *agent)
{
	for (size_t i = 0; i < agent->core.node.n_tuners; i++)
		if (agent->watches[i] && sd_event_source_get_pending(agent->watches[i]) > 0)
			return true;
	return false;
}

/* Without a tuner that can wake it, or without the right to write, there is nothing to be quick
 * for. */
static bool can_be_woken(const struct agent *agent)
{
	if (agent->core.lock < 0)
		return false;
	for (size_t i = 0; i < agent->core.node.n_tuners; i++)
		if (agent->watches[i])
			return true;
	return false;
}

int agent_loop(struct agent *agent)
{
	int r = 0;

	while (r >= 0 && sd_event_get_state(agent->event) != SD_EVENT_FINISHED) {
		r = sd_event_prepare(agent->event);
		if (r == 0) {
			set_urgent(agent, can_be_woken(agent));
			r = sd_event_wait(agent->event, UINT64_MAX);
		}
		if (r <= 0)
			continue;
		/* What is urgent has the higher priority in the loop too: it is dispatched first.
		 */
		if (!is_urgent(agent))
			set_urgent(agent, false);
		r = sd_event_dispatch(agent->event);
	}
	return r;
}
