/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/tuner.h>

#include "base/util.h"

#include <stdlib.h>

/* A zeroed element at the end of an array; NULL without memory. */
static void *append(void *array, size_t *n, size_t *allocated, size_t size)
{
	if (grow_array(array, *n, allocated, size) < 0)
		return NULL;
	return *(char **)array + (*n)++ * size;
}

struct value_want *proposal_value(struct proposal *proposal)
{
	return append(&proposal->values, &proposal->n_values, &proposal->values_allocated,
		sizeof(*proposal->values));
}

struct file_want *proposal_file(struct proposal *proposal)
{
	return append(&proposal->files, &proposal->n_files, &proposal->files_allocated,
		sizeof(*proposal->files));
}

struct limit_reading *proposal_limit(struct proposal *proposal)
{
	return append(&proposal->limits, &proposal->n_limits, &proposal->limits_allocated,
		sizeof(*proposal->limits));
}

struct condition_reading *proposal_condition(struct proposal *proposal)
{
	return append(&proposal->conditions, &proposal->n_conditions,
		&proposal->conditions_allocated, sizeof(*proposal->conditions));
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

const char *const tuner_state_names[] = {
	[TUNER_ACTIVE] = "active",
	[TUNER_DEGRADED] = "degraded",
	[TUNER_OFF] = "off",
};
