/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/journal.h"

#include "base/util.h"

#include <errno.h>

static struct journal_restart *find(struct journal *journal, const char *unit)
{
	for (size_t i = 0; i < journal->n_restarts; i++)
		if (streq(journal->restarts[i].unit, unit))
			return &journal->restarts[i];
	return NULL;
}

const struct journal_restart *journal_find_restart(const struct journal *journal, const char *unit)
{
	return find((struct journal *)journal, unit);
}

/* Of those whose end is known the one longest ago, or NULL. */
static struct journal_restart *oldest(struct journal *journal)
{
	struct journal_restart *found = NULL;

	for (size_t i = 0; i < journal->n_restarts; i++) {
		struct journal_restart *restart = &journal->restarts[i];

		if (!restart->open && (!found || restart->at_s < found->at_s))
			found = restart;
	}
	return found;
}

int journal_begin_restart(struct journal *journal, const struct journal_restart *restart)
{
	struct journal_restart *slot = find(journal, restart->unit);

	if (!restart->unit[0])
		return -EINVAL;
	if (!slot && journal->n_restarts < JOURNAL_RESTARTS_MAX)
		slot = &journal->restarts[journal->n_restarts++];
	if (!slot)
		slot = oldest(journal);
	if (!slot)
		return -ENOSPC;
	*slot = *restart;
	slot->open = true;
	journal->dirty = journal->added = true;
	return 0;
}

void journal_end_restart(struct journal *journal, const char *unit)
{
	struct journal_restart *restart = find(journal, unit);

	if (!restart || !restart->open)
		return;
	restart->open = false;
	journal->dirty = true;
}
