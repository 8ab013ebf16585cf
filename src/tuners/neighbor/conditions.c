/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/neighbor/neighbor.h"

#include "base/util.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>

/* One condition is of both families: what there is to report of each, joined. */
static void add_pressure(struct condition_reading *condition, enum neighbor_family family,
	const struct neighbor_table_seen *table, const struct neighbor_family_memory *memory)
{
	char user[256];

	if (!memory->pressure && !memory->at_ceiling)
		return;
	condition_raise(condition, memory->at_ceiling ? "at-ceiling" : "near-full");
	condition_append(condition, "%s: %" PRIu64 " of %" PRIu64 " %s%s",
		neighbor_family_name(family), table->collectable, neighbor_table_max(table),
		table->exact ? "collectable entries" : "entries, an upper bound",
		memory->at_ceiling ? ", and growth has reached neighbor.ceiling" : "");
	if (table->n_top == 0)
		return;
	workload_describe(&table->top[0].workload, user, sizeof(user));
	condition_append(condition, ", most of them, %" PRIu64 ", of %s", table->top[0].used, user);
}

static void add_overflow(struct condition_reading *condition, enum neighbor_family family,
	const struct neighbor_table_seen *table, const struct neighbor_family_memory *memory)
{
	const struct neighbor_refusal *last = &table->last;
	char address[INET6_ADDRSTRLEN] = "?", owner[256];

	if (memory->refused_lately == 0)
		return;
	condition_raise(condition, "entries-refused");
	condition_append(condition, "%s: %" PRIu64 " refused in the last five minutes",
		neighbor_family_name(family), memory->refused_lately);
	if (!last->netns)
		return;
	inet_ntop(neighbor_address_family(family), last->address, address, sizeof(address));
	workload_describe(&table->last_owner, owner, sizeof(owner));
	condition_append(condition, ", the last one %s on %.16s in network namespace %u of %s",
		address, last->device, last->netns, owner);
}

int neighbor_decide_conditions(const struct neighbor *neighbor,
	const struct neighbor_memory *memory, struct proposal *proposal)
{
	struct condition_reading readings[] = {
		{.type = &neighbor_conditions[NEIGHBOR_TABLE_PRESSURE], .reason = "within-limit"},
		{.type = &neighbor_conditions[NEIGHBOR_TABLE_OVERFLOW], .reason = "within-limit"},
	};
	bool unknown = false;

	for (int i = 0; i < NEIGHBOR_FAMILIES; i++) {
		const struct neighbor_table_seen *table = &neighbor->tables[i];

		if (table->stats_error == 0) {
			add_pressure(
				&readings[0], (enum neighbor_family)i, table, &memory->families[i]);
			add_overflow(
				&readings[1], (enum neighbor_family)i, table, &memory->families[i]);
		} else if (i == NEIGHBOR_IPV4 || table->stats_error != -ENOENT ||
			   table->threshold_error[NEIGHBOR_LEVELS - 1] != -ENOENT) {
			/* All but a kernel without IPv6, or one booted with ipv6.disable=1. */
			unknown = true;
		}
	}
	for (size_t i = 0; i < ARRAY_SIZE(readings); i++) {
		struct condition_reading *condition = proposal_condition(proposal);

		if (!condition)
			return -ENOMEM;
		*condition = readings[i];
		if (unknown && condition->status == CONDITION_FALSE) {
			condition->status = CONDITION_UNKNOWN;
			condition->reason = "counters-unavailable";
		}
	}
	return 0;
}
