/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/tuner.h>

#include "base/util.h"

#include <stdlib.h>

struct want *outlook_want(struct outlook *outlook)
{
	if (grow_array(&outlook->wants, outlook->n_wants, &outlook->wants_allocated,
		    sizeof(*outlook->wants)) < 0)
		return NULL;
	return &outlook->wants[outlook->n_wants++];
}

struct limit_reading *outlook_limit(struct outlook *outlook)
{
	if (grow_array(&outlook->limits, outlook->n_limits, &outlook->limits_allocated,
		    sizeof(*outlook->limits)) < 0)
		return NULL;
	return &outlook->limits[outlook->n_limits++];
}

struct condition_reading *outlook_condition(struct outlook *outlook)
{
	if (grow_array(&outlook->conditions, outlook->n_conditions, &outlook->conditions_allocated,
		    sizeof(*outlook->conditions)) < 0)
		return NULL;
	return &outlook->conditions[outlook->n_conditions++];
}

void outlook_reset(struct outlook *outlook)
{
	outlook->n_wants = 0;
	outlook->n_limits = 0;
	outlook->n_conditions = 0;
}

void outlook_clear(struct outlook *outlook)
{
	free(outlook->wants);
	free(outlook->limits);
	free(outlook->conditions);
	*outlook = (struct outlook){0};
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
