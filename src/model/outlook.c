/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/tuner.h>

#include "base/util.h"

#include <stdlib.h>

struct want *proposal_want(struct proposal *proposal)
{
	if (grow_array(&proposal->wants, proposal->n_wants, &proposal->wants_allocated,
		    sizeof(*proposal->wants)) < 0)
		return NULL;
	return &proposal->wants[proposal->n_wants++];
}

struct limit_reading *proposal_limit(struct proposal *proposal)
{
	if (grow_array(&proposal->limits, proposal->n_limits, &proposal->limits_allocated,
		    sizeof(*proposal->limits)) < 0)
		return NULL;
	return &proposal->limits[proposal->n_limits++];
}

struct condition_reading *proposal_condition(struct proposal *proposal)
{
	if (grow_array(&proposal->conditions, proposal->n_conditions,
		    &proposal->conditions_allocated, sizeof(*proposal->conditions)) < 0)
		return NULL;
	return &proposal->conditions[proposal->n_conditions++];
}

void proposal_reset(struct proposal *proposal)
{
	proposal->n_wants = 0;
	proposal->n_limits = 0;
	proposal->n_conditions = 0;
}

void proposal_clear(struct proposal *proposal)
{
	free(proposal->wants);
	free(proposal->limits);
	free(proposal->conditions);
	*proposal = (struct proposal){0};
}

const char *tuner_state_name(enum tuner_state state)
{
	static const char *const names[] = {
		[TUNER_ACTIVE] = "active",
		[TUNER_DEGRADED] = "degraded",
		[TUNER_OFF] = "off",
	};

	return names[state];
}
