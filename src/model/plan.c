/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/plan.h>

#include "base/cleanup.h"
#include "base/util.h"

#include <errno.h>

struct change *plan_add(struct plan *plan)
{
	if (grow_array(&plan->changes, plan->n, &plan->allocated, sizeof(*plan->changes)) < 0)
		return NULL;
	return &plan->changes[plan->n++];
}

/*
 * The rank of a change in a safe order: everything without levels first, then what rises, highest
 * level first, then what falls, lowest level first. With that each threshold moves into the gap
 * that its neighbours have already left open.
 */
static int rank(const struct change *change)
{
	int order;

	if (change->file || change->target.kind != VALUE_NEIGHTBL)
		return 0;
	if (value_compare(change->new, change->old, &order) == 0 && order < 0)
		return 10 + change->target.level;
	return 10 - change->target.level;
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

static char *copy_or_null(const char *text, bool *failed)
{
	char *copy = text ? strdup(text) : NULL;

	*failed = *failed || (text && !copy);
	return copy;
}

static void free_file(struct file_change *file)
{
	if (!file)
		return;
	free((char *)file->edit.text);
	free((char *)file->edit.base);
	free((char *)file->edit.dump_key);
	free(file);
}

int change_take_file(struct change *change, const struct file_want *want)
{
	struct file_change *file = calloc(1, sizeof(*file));
	bool failed = false;

	if (!file)
		return -ENOMEM;
	file->target = want->target;
	copy_text(file->on_disk, sizeof(file->on_disk), want->on_disk);
	if (want->edit) {
		file->edit = *want->edit;
		file->edit.text = copy_or_null(want->edit->text, &failed);
		file->edit.base = copy_or_null(want->edit->base, &failed);
		file->edit.dump_key = copy_or_null(want->edit->dump_key, &failed);
	}
	if (failed) {
		free_file(file);
		return -ENOMEM;
	}
	free_file(change->file);
	change->file = file;
	return 0;
}

void change_release(struct change *change)
{
	free_file(steal(change->file));
	free(steal(change->why));
}

int plan_move(struct plan *plan, struct plan *from, bool files_alone)
{
	size_t kept = 0;
	int r = 0;

	for (size_t i = 0; i < from->n; i++) {
		bool wanted = !files_alone || from->changes[i].file;
		struct change *change = wanted ? plan_add(plan) : NULL;

		if (change)
			*change = from->changes[i];
		else
			from->changes[kept++] = from->changes[i];
		if (wanted && !change)
			r = -ENOMEM;
	}
	from->n = kept;
	return r;
}

void plan_reset(struct plan *plan)
{
	for (size_t i = 0; i < plan->n; i++)
		change_release(&plan->changes[i]);
	plan->n = 0;
}

void plan_clear(struct plan *plan)
{
	plan_reset(plan);
	free(plan->changes);
	*plan = (struct plan){0};
}
