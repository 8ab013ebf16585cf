/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the cures of full limits, from the instance and the values in force. A command never sets a
 * value at or below the one in force.
 */
#include "tuners/limits/limits.h"

#include "tuners/raise.h"

uint64_t limits_raised(const struct limit_row *row, uint64_t value)
{
	const struct limit_reader *reader = row->reader;
	uint64_t raised = MAX(2 * value, reader->at_least);

	if (reader->at_most > 0)
		raised = MIN(raised, reader->at_most);
	return raised > value ? raised : 0;
}

void limits_cure_sysctl(struct finding *finding, const struct limit_row *row,
	const struct limit_instance *instance, const struct decide_input *input,
	const struct limits *)
{
	const char *sysctl = instance->sysctl ? instance->sysctl : row->reader->sysctl;
	uint64_t value = instance->sysctl_value ? instance->sysctl_value : instance->max;
	uint64_t raised = limits_raised(row, value);

	if (raised > 0)
		CURE_WITH_SYSCTLS(finding, input, row->reader->choice, {sysctl, raised});
	else
		finding_hint(finding, "%s has its largest value", sysctl);
}
