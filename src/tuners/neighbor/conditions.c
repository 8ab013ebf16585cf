/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/neighbor/neighbor.h"

#include "base/util.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/* One condition speaks for both families: what there is to say of each, joined. */
static void say(struct condition_reading *condition, const char *reason, const char *text)
{
	size_t used = strlen(condition->message);

	snprintf(condition->message + used, CONDITION_MESSAGE_MAX - used, "%s%s",
		used > 0 ? "; " : "", text);
	condition->status = CONDITION_TRUE;
	condition->reason = reason;
}

/* "pod kube-system/coredns-x". */
static void describe_workload(const struct workload *workload, char *text, size_t size)
{
	if (workload->kind == WORKLOAD_HOST)
		copy_text(text, size, "the host");
	else
		snprintf(text, size, "%s %s%s%s", workload_kind_name(workload->kind),
			workload->namespace, workload->namespace[0] ? "/" : "", workload->name);
}

static void say_pressure(struct condition_reading *condition, const char *name,
	const struct neighbor_table_seen *table, const struct neighbor_family_memory *memory)
{
	char text[CONDITION_MESSAGE_MAX], who[192] = "";
	int used;

	used = snprintf(text, sizeof(text), "%s: %" PRIu64 " of %" PRIu64 " %s", name,
		table->collectable, neighbor_table_max(table),
		table->exact ? "collectable entries" : "entries, an upper bound");
	if (memory->at_ceiling)
		used += snprintf(text + used, sizeof(text) - (size_t)used,
			", and growth has reached neighbor.ceiling");
	if (table->n_top > 0) {
		describe_workload(&table->top[0].workload, who, sizeof(who));
		snprintf(text + used, sizeof(text) - (size_t)used,
			", most of them, %" PRIu64 ", of %s", table->top[0].used, who);
	}
	say(condition, memory->at_ceiling ? "at-ceiling" : "near-full", text);
}

static void say_overflow(struct condition_reading *condition, enum neighbor_family family,
	const struct neighbor_table_seen *table, const struct neighbor_family_memory *memory)
{
	const struct neighbor_refusal *last = &table->last;
	char text[CONDITION_MESSAGE_MAX], address[INET6_ADDRSTRLEN] = "?", who[192];
	int used = snprintf(text, sizeof(text), "%s: %" PRIu64 " refused in the last five minutes",
		neighbor_family_name(family), memory->refused_lately);

	if (last->netns) {
		inet_ntop(neighbor_address_family(family), last->address, address, sizeof(address));
		describe_workload(&table->last_owner, who, sizeof(who));
		snprintf(text + used, sizeof(text) - (size_t)used,
			", the last one %s on %.16s in network namespace %u of %s", address,
			last->device, last->netns, who);
	}
	say(condition, "entries-refused", text);
}

/* A kernel without IPv6, or booted with ipv6.disable=1, has no such table: nothing is unknown. */
static bool is_absent(enum neighbor_family family, const struct neighbor_table_seen *table)
{
	return family == NEIGHBOR_IPV6 && table->stats_error == -ENOENT &&
	       table->threshold_error[NEIGHBOR_LEVELS - 1] == -ENOENT;
}

/* What is known of the other table stands. */
static void leave_unknown(struct condition_reading *condition)
{
	if (condition->status != CONDITION_FALSE)
		return;
	condition->status = CONDITION_UNKNOWN;
	condition->reason = "counters-unavailable";
}

static void judge_family(enum neighbor_family family, const struct neighbor_table_seen *table,
	const struct neighbor_family_memory *memory, struct condition_reading *pressure,
	struct condition_reading *overflow)
{
	if (is_absent(family, table))
		return;
	if (table->stats_error < 0) {
		leave_unknown(pressure);
		leave_unknown(overflow);
		return;
	}
	if (memory->pressure || memory->at_ceiling)
		say_pressure(pressure, neighbor_family_name(family), table, memory);
	if (memory->refused_lately > 0)
		say_overflow(overflow, family, table, memory);
}

int neighbor_decide_conditions(const struct neighbor_seen *seen,
	const struct neighbor_memory *memory, struct proposal *proposal)
{
	struct condition_reading readings[] = {
		{.type = &neighbor_conditions[NEIGHBOR_TABLE_PRESSURE], .reason = "within-limit"},
		{.type = &neighbor_conditions[NEIGHBOR_TABLE_OVERFLOW], .reason = "within-limit"},
	};

	for (int family = 0; family < NEIGHBOR_FAMILIES; family++)
		judge_family((enum neighbor_family)family, &seen->tables[family],
			&memory->families[family], &readings[0], &readings[1]);
	for (size_t i = 0; i < ARRAY_SIZE(readings); i++) {
		struct condition_reading *condition = proposal_condition(proposal);

		if (!condition)
			return -ENOMEM;
		*condition = readings[i];
	}
	return 0;
}
