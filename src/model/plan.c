/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/tuner.h>

#include "base/text.h"

struct change *plan_add(struct plan *plan, const struct file_change *file, const char *name,
	const char *tuner, const char *old, const char *new)
{
	struct change *change = add_element(&plan->changes, &plan->n, &plan->allocated);

	if (file) {
		change->kind = SETTING_FILE;
		change->file = must(malloc(sizeof(*file)));
		*change->file = *file;
		change->file->text = file->text ? must(strdup(file->text)) : NULL;
	}
	set_text(change->name, name);
	set_text(change->tuner, tuner);
	set_text(change->old, old);
	set_text(change->new, new);
	return change;
}

/* Returns where a change belongs: plan_sort() puts smaller numbers first. */
static int change_order(const struct change *change)
{
	int order;

	if (change->kind != SETTING_VALUE || change->target.kind != VALUE_NEIGHTBL)
		return 0;
	if (value_compare(NULL, change->new, change->old, &order) == 0 && order < 0)
		return 10 + change->target.level;
	return 10 - change->target.level;
}

/* Sorts by insertion, which is stable; a plan is short. */
void plan_sort(struct plan *plan)
{
	for (size_t i = 1; i < plan->n; i++) {
		struct change moving = plan->changes[i];
		size_t j = i;

		for (; j > 0 && change_order(&plan->changes[j - 1]) > change_order(&moving); j--)
			plan->changes[j] = plan->changes[j - 1];
		plan->changes[j] = moving;
	}
}

void change_release(struct change *change)
{
	if (change->file)
		free(change->file->text);
	free(steal(change->file));
	free(steal(change->why));
	free(steal(change->cost));
}

void plan_move(struct plan *plan, struct plan *from, enum plan_part part)
{
	size_t kept = 0;

	for (size_t i = 0; i < from->n; i++) {
		bool is_value = from->changes[i].kind == SETTING_VALUE;

		if (part == PLAN_ALL || (part == PLAN_VALUES) == is_value)
			*add_element(&plan->changes, &plan->n, &plan->allocated) = from->changes[i];
		else
			from->changes[kept++] = from->changes[i];
	}
	from->n = kept;
}

void plan_clear(struct plan *plan)
{
	for (size_t i = 0; i < plan->n; i++)
		change_release(&plan->changes[i]);
	free(plan->changes);
	*plan = (struct plan){0};
}

/* ---- proposals ---- */

struct want *proposal_value(struct proposal *proposal)
{
	return add_element(&proposal->wants, &proposal->n_wants, &proposal->wants_allocated);
}

struct want *proposal_file(struct proposal *proposal, const char *text)
{
	struct want *want = proposal_value(proposal);

	want->kind = SETTING_FILE;
	want->file = must(calloc(1, sizeof(*want->file)));
	want->file->text = text ? must(strdup(text)) : NULL;
	return want;
}

struct limit_reading *proposal_limit(struct proposal *proposal)
{
	return add_element(&proposal->limits, &proposal->n_limits, &proposal->limits_allocated);
}

struct condition_reading *proposal_condition(
	struct proposal *proposal, const struct condition_type *type, enum reason reason)
{
	struct condition_reading *reading = add_element(
		&proposal->conditions, &proposal->n_conditions, &proposal->conditions_allocated);

	reading->type = type;
	reading->reason = reason;
	return reading;
}

void proposal_lack(struct proposal *proposal, enum lack_kind kind, const char *why)
{
	struct lack *lack;

	if (!why[0])
		return;
	lack = add_element(&proposal->lacks, &proposal->n_lacks, &proposal->lacks_allocated);
	lack->kind = kind;
	copy_public(lack->why, TUNER_WHY_MAX, why);
	text_append(proposal->why, sizeof(proposal->why), "%s%s", proposal->why[0] ? "; " : "",
		lack->why);
}

void proposal_lacks(struct proposal *proposal, const char *why)
{
	proposal_lack(proposal, LACK_OTHER, why);
}

void proposal_clear(struct proposal *proposal)
{
	for (size_t i = 0; i < proposal->n_wants; i++) {
		if (proposal->wants[i].file)
			free(proposal->wants[i].file->text);
		free(proposal->wants[i].file);
	}
	for (size_t i = 0; i < proposal->n_limits; i++)
		free(proposal->limits[i].top);
	for (size_t i = 0; i < proposal->n_findings; i++)
		finding_release(&proposal->findings[i]);
	free(proposal->findings);
	free(proposal->lacks);
	free(proposal->wants);
	free(proposal->limits);
	free(proposal->conditions);
	*proposal = (struct proposal){0};
}
