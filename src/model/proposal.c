/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/tuner.h>

#include "base/util.h"

struct want *proposal_value(struct proposal *proposal)
{
	return add_element(&proposal->wants, &proposal->n_wants, &proposal->wants_allocated);
}

struct want *proposal_file(struct proposal *proposal, const char *text)
{
	struct want *want = proposal_value(proposal);

	want->file = must(calloc(1, sizeof(*want->file)));
	want->file->edit.text = text ? must(strdup(text)) : NULL;
	return want;
}

struct limit_reading *proposal_limit(struct proposal *proposal)
{
	return add_element(&proposal->limits, &proposal->n_limits, &proposal->limits_allocated);
}

struct condition_reading *proposal_condition(
	struct proposal *proposal, const struct condition_type *type, const char *reason)
{
	struct condition_reading *reading = add_element(
		&proposal->conditions, &proposal->n_conditions, &proposal->conditions_allocated);

	reading->type = type;
	reading->reason = reason;
	return reading;
}

void proposal_clear(struct proposal *proposal)
{
	for (size_t i = 0; i < proposal->n_wants; i++) {
		if (proposal->wants[i].file)
			free((char *)proposal->wants[i].file->edit.text);
		free(proposal->wants[i].file);
	}
	free(proposal->wants);
	free(proposal->limits);
	free(proposal->conditions);
	*proposal = (struct proposal){0};
}

const char *const tuner_state_names[] = {
	[TUNER_ACTIVE] = "active",
	[TUNER_DEGRADED] = "degraded",
	[TUNER_OFF] = "off",
};
