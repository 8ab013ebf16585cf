/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/tuner.h>

#include "base/util.h"

#include <stdlib.h>

struct value_want *proposal_value(struct proposal *proposal)
{
	if (grow_array(&proposal->values, proposal->n_values, &proposal->values_allocated,
		    sizeof(*proposal->values)) < 0)
		return NULL;
	return &proposal->values[proposal->n_values++];
}

struct file_want *proposal_file(struct proposal *proposal)
{
	if (grow_array(&proposal->files, proposal->n_files, &proposal->files_allocated,
		    sizeof(*proposal->files)) < 0)
		return NULL;
	return &proposal->files[proposal->n_files++];
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
	proposal->n_values = 0;
	proposal->n_files = 0;
	proposal->n_limits = 0;
	proposal->n_conditions = 0;
}

void proposal_clear(struct proposal *proposal)
{
	free(proposal->values);
	free(proposal->files);
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
