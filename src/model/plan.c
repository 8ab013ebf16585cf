/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/plan.h>

#include "base/util.h"

#include <stdlib.h>

struct change *plan_add(struct plan *plan)
{
	if (grow_array(&plan->changes, plan->n, &plan->allocated, sizeof(*plan->changes)) < 0)
		return NULL;
	return &plan->changes[plan->n++];
}

/*
 * The place of a change in a safe order: everything without levels first, then what rises, highest
 * level first, then what falls, lowest level first. With that each threshold moves into the gap
 * that its neighbours have already left open.
 */
static int rank(const struct change *change)
{
	int order;

	if (change->place.kind != PLACE_NEIGHTBL)
		return 0;
	if (value_compare(change->new, change->old, &order) == 0 && order < 0)
		return 10 + change->place.level;
	return 10 - change->place.level;
}

/* Insertion keeps equal ranks in their order, and a plan is short. */
void plan_sort(struct plan *plan)
{
	for (size_t i = 1; i < plan->n; i++) {
		struct change moving = plan->changes[i];
		size_t j = i;

		for (; j > 0 && rank(&plan->changes[j - 1]) > rank(&moving); j--)
			plan->changes[j] = plan->changes[j - 1];
		plan->changes[j] = moving;
	}
}

void plan_clear(struct plan *plan)
{
	free(plan->changes);
	*plan = (struct plan){0};
}
