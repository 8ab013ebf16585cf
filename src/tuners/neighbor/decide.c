/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/neighbor/neighbor.h"

#include "base/util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/* NeighborTablePressure begins above the first share of gc_thresh3 and ends below the second. */
#define PRESSURE_BEGINS 0.80
#define PRESSURE_ENDS   0.70

/* NeighborTableOverflow stays for as long as a dashboard and an alert need to see it. */
#define OVERFLOW_WINDOW_US (300 * USEC_PER_SEC)

/* One family's three thresholds, each with the value wanted and why. */
struct wanted_thresholds {
	char value[NEIGHBOR_LEVELS][SETTING_VALUE_MAX];
	const char *reason[NEIGHBOR_LEVELS];
};

static void raise_to(struct wanted_thresholds *wanted, int i, const char *floor)
{
	int order;

	if (value_compare(floor, wanted->value[i], &order) < 0 || order <= 0)
		return;
	copy_text(wanted->value[i], SETTING_VALUE_MAX, floor);
	wanted->reason[i] = "administrator-higher";
}

/* The largest of the configuration, what the administrator had, and the threshold below. */
static void want_thresholds(const struct neighbor_table_seen *table,
	const struct neighbor_config *config, int family, const struct past *past,
	struct wanted_thresholds *wanted)
{
	for (int i = 0; i < NEIGHBOR_LEVELS; i++) {
		char name[SETTING_NAME_MAX], floor[SETTING_VALUE_MAX];

		snprintf(wanted->value[i], SETTING_VALUE_MAX, "%" PRIu64,
			config->families[family].threshold[i]);
		wanted->reason[i] = "configured";
		if (config->lower)
			continue;
		neightbl_threshold_name(
			neighbor_address_family((enum neighbor_family)family), i + 1, name);
		record_floor(record_find(past->records, past->n_records, name), table->threshold[i],
			floor);
		raise_to(wanted, i, floor);
		if (i > 0)
			raise_to(wanted, i, wanted->value[i - 1]);
	}
}

static int decide_thresholds(const struct neighbor_table_seen *table,
	const struct neighbor_config *config, int family, const struct past *past,
	struct outlook *outlook)
{
	int af = neighbor_address_family((enum neighbor_family)family);
	struct wanted_thresholds wanted = {0};

	if (!config->families[family].keep)
		want_thresholds(table, config, family, past, &wanted);
	for (int i = 0; i < NEIGHBOR_LEVELS; i++) {
		struct want *want = outlook_want(outlook);

		if (!want)
			return -ENOMEM;
		neightbl_threshold_name(af, i + 1, want->name);
		want->place = (struct place){.kind = PLACE_NEIGHTBL, .family = af, .level = i + 1};
		snprintf(want->place.path, sizeof(want->place.path),
			"/proc/sys/net/%s/neigh/default/gc_thresh%d",
			neighbor_family_name((enum neighbor_family)family), i + 1);
		copy_text(want->actual, SETTING_VALUE_MAX, table->threshold[i]);
		copy_text(want->wanted, SETTING_VALUE_MAX, wanted.value[i]);
		want->error = table->threshold_error[i];
		want->reason = wanted.reason[i] ? wanted.reason[i] : "kept";
	}
	return 0;
}

static uint64_t table_max(const struct neighbor_table_seen *table)
{
	uint64_t max = 0;

	sscanf(table->threshold[NEIGHBOR_LEVELS - 1], "%" SCNu64, &max);
	return max;
}

static int decide_limit(
	const struct neighbor_table_seen *table, int family, struct outlook *outlook)
{
	static const char *const names[NEIGHBOR_FAMILIES] = {"neighbor/ipv4", "neighbor/ipv6"};
	struct limit_reading *limit;

	if (table->stats_error < 0 || table->threshold_error[NEIGHBOR_LEVELS - 1] < 0)
		return 0;
	limit = outlook_limit(outlook);
	if (!limit)
		return -ENOMEM;
	limit->name = names[family];
	limit->unit = "entries";
	limit->used = table->collectable;
	limit->max = table_max(table);
	limit->hits = table->stats.table_fulls;
	limit->upper_bound = !table->exact;
	return 0;
}

static void remember_refusals(const struct neighbor_table_seen *table,
	struct neighbor_memory *memory, int family, uint64_t now)
{
	uint64_t refused = table->stats.table_fulls;
	uint64_t before = memory->families[family].refused;

	if (memory->families[family].seen && refused > before) {
		memory->families[family].refused_lately += refused - before;
		memory->families[family].refused_at_us = now;
	}
	if (now - memory->families[family].refused_at_us > OVERFLOW_WINDOW_US)
		memory->families[family].refused_lately = 0;
	memory->families[family].refused = refused;
	memory->families[family].seen = true;
}

static void remember_pressure(
	const struct neighbor_table_seen *table, struct neighbor_memory *memory, int family)
{
	double used = (double)table->collectable;
	double max = (double)table_max(table);
	bool *pressure = &memory->families[family].pressure;

	*pressure = used > max * (*pressure ? PRESSURE_ENDS : PRESSURE_BEGINS);
}

/* One condition speaks for both families: what there is to say of each, joined. */
static void say(struct condition_reading *condition, const char *reason, const char *text)
{
	size_t used = strlen(condition->message);

	snprintf(condition->message + used, CONDITION_MESSAGE_MAX - used, "%s%s",
		used > 0 ? "; " : "", text);
	condition->status = CONDITION_TRUE;
	condition->reason = reason;
}

static int decide_conditions(const struct neighbor_seen *seen, const struct neighbor_memory *memory,
	struct outlook *outlook)
{
	struct condition_reading pressure = {
		.type = CONDITION_NEIGHBOR_TABLE_PRESSURE, .reason = "within-limit"};
	struct condition_reading overflow = {
		.type = CONDITION_NEIGHBOR_TABLE_OVERFLOW, .reason = "within-limit"};

	for (int family = 0; family < NEIGHBOR_FAMILIES; family++) {
		const struct neighbor_table_seen *table = &seen->tables[family];
		const char *name = neighbor_family_name((enum neighbor_family)family);
		uint64_t refused = memory->families[family].refused_lately;
		char text[128];

		snprintf(text, sizeof(text), "%s: %" PRIu64 " of %" PRIu64 " %s", name,
			table->collectable, table_max(table),
			table->exact ? "collectable entries" : "entries, an upper bound");
		if (memory->families[family].pressure)
			say(&pressure, "near-full", text);
		snprintf(text, sizeof(text), "%s: %" PRIu64 " refused in the last five minutes",
			name, refused);
		if (refused > 0)
			say(&overflow, "entries-refused", text);
		if (table->stats_error < 0 && pressure.status == CONDITION_FALSE) {
			pressure.status = overflow.status = CONDITION_UNKNOWN;
			pressure.reason = overflow.reason = "counters-unavailable";
		}
	}
	for (int i = 0; i < 2; i++) {
		struct condition_reading *condition = outlook_condition(outlook);

		if (!condition)
			return -ENOMEM;
		*condition = i == 0 ? pressure : overflow;
	}
	return 0;
}

int neighbor_decide(const struct neighbor_seen *seen, const struct neighbor_config *config,
	struct neighbor_memory *memory, const struct past *past, struct outlook *outlook)
{
	int r;

	for (int family = 0; family < NEIGHBOR_FAMILIES; family++) {
		const struct neighbor_table_seen *table = &seen->tables[family];

		r = decide_thresholds(table, config, family, past, outlook);
		if (r == 0)
			r = decide_limit(table, family, outlook);
		if (r < 0)
			return r;
		if (table->stats_error == 0) {
			remember_refusals(table, memory, family, past->now_us);
			remember_pressure(table, memory, family);
		}
	}
	return decide_conditions(seen, memory, outlook);
}
