/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/internal.h"

#include "apply/apply.h"
#include "base/log.h"
#include "base/util.h"

#include <errno.h>

/* What is on disk for sure: the journal as it was before the store that is under way. */
static const struct journal *durable_journal(const struct agent *agent)
{
	const struct journal *journal = agent->job ? agent->take_back : agent->core.journal;

	return journal && !journal->added ? journal : NULL;
}

void agent_apply_urgent(struct agent *agent)
{
	const struct journal *durable = durable_journal(agent);
	struct core *core = &agent->core;
	struct plan urgent = {0};

	if (!durable || core->lock < 0 || core->plan.n == 0)
		return;
	if (plan_take_urgent(&core->plan, durable, &urgent) < 0)
		log_error("agent", "%s", strerror(ENOMEM));
	if (urgent.n > 0) {
		apply_plan(&core->host, &urgent, &core->node, now_us());
		agent->urgent_at_us = now_us();
		if (journal_note(core->journal, &urgent) < 0)
			log_error("journal.json", "%s", strerror(ENOMEM));
	}
	plan_clear(&urgent);
}

static int on_watch(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct agent *agent = userdata;

	(void)fd;
	(void)events;
	for (size_t i = 0; i < agent->core.node.n_tuners; i++) {
		const struct tuner_status *tuner = &agent->core.node.tuners[i];

		if (agent->watches[i] != source)
			continue;
		tuner->ops->drain(tuner->self);
		if (core_poll_tuner(&agent->core, i) < 0)
			log_error(tuner->ops->name, "%s", strerror(ENOMEM));
	}
	agent_apply_urgent(agent);
	/* What was written ahead is stored by the next tick; all else goes its ordinary way now. */
	if (agent->core.plan.n > 0)
		agent_pump(agent);
	return 0;
}

int agent_watch_tuners(struct agent *agent)
{
	size_t n = agent->core.node.n_tuners;

	if (!agent->watches)
		agent->watches = calloc(n, sizeof(*agent->watches));
	if (!agent->watches)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct tuner_status *tuner = &agent->core.node.tuners[i];
		int fd, r;

		agent->watches[i] = sd_event_source_disable_unref(agent->watches[i]);
		if (!tuner->self || !tuner->ops->event_fd)
			continue;
		fd = tuner->ops->event_fd(tuner->self);
		if (fd < 0)
			continue;
		r = sd_event_add_io(agent->event, &agent->watches[i], fd, EPOLLIN, on_watch, agent);
		if (r < 0)
			return r;
		/* Before a scrape that came at the same moment. */
		sd_event_source_set_priority(agent->watches[i], SD_EVENT_PRIORITY_IMPORTANT);
	}
	return 0;
}

uint64_t agent_tick_us(const struct agent *agent)
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
