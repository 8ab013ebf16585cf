/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/neighbor/neighbor.h"

#include "base/util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* NeighborTablePressure begins above the first share of gc_thresh3 and ends below the second. */
#define PRESSURE_BEGINS 0.80
#define PRESSURE_ENDS   0.70

/* NeighborTableOverflow stays for as long as a dashboard and an alert need to see it. */
#define OVERFLOW_WINDOW_US (300 * USEC_PER_SEC)

/* One family at one moment, on its way from what was seen to what is wanted. */
struct family_view {
	enum neighbor_family family;
	const struct neighbor_table_seen *table;
	const struct neighbor_config *config;
	const struct decide_input *input;
	uint64_t ceiling;
	bool once;
	char wanted[NEIGHBOR_LEVELS][SETTING_VALUE_MAX]; /* empty for keep */
	const char *reason[NEIGHBOR_LEVELS];
	bool grown; /* gc_thresh2 and gc_thresh3 are above what is configured */
};

uint64_t neighbor_table_max(const struct neighbor_table_seen *table)
{
	return strtoull(table->threshold[NEIGHBOR_LEVELS - 1], NULL, 10);
}

static const struct value_record *record_of(const struct family_view *view, int i)
{
	char name[SETTING_NAME_MAX];

	neightbl_threshold_name(neighbor_address_family(view->family), i + 1, name);
	return value_record_find(view->input->values, view->input->n_values, name);
}

static void want_number(struct family_view *view, int i, uint64_t number, const char *reason)
{
	snprintf(view->wanted[i], SETTING_VALUE_MAX, "%" PRIu64, number);
	view->reason[i] = reason;
}

static void raise_to(struct family_view *view, int i, const char *floor)
{
	int order;

	if (value_compare(floor, view->wanted[i], &order) < 0 || order <= 0)
		return;
	copy_text(view->wanted[i], SETTING_VALUE_MAX, floor);
	view->reason[i] = "administrator-higher";
}

/* The largest of the configuration, what the administrator had, and the threshold below. */
static void want_configured(struct family_view *view)
{
	for (int i = 0; i < NEIGHBOR_LEVELS; i++) {
		char floor[SETTING_VALUE_MAX];

		want_number(
			view, i, view->config->families[view->family].threshold[i], "configured");
		if (view->config->lower)
			continue;
		value_floor(record_of(view, i), view->table->threshold[i], floor);
		raise_to(view, i, floor);
		if (i > 0)
			raise_to(view, i, view->wanted[i - 1]);
	}
}

/* Where growth begins: the wanted gc_thresh3, or with keep the administrator's. */
static uint64_t base_of(const struct family_view *view)
{
	const int last = NEIGHBOR_LEVELS - 1;
	char floor[SETTING_VALUE_MAX];

	copy_text(floor, sizeof(floor), view->wanted[last]);
	if (floor[0] == '\0')
		value_floor(record_of(view, last), view->table->threshold[last], floor);
	return strtoull(floor, NULL, 10);
}

/* What growth had reached, in the record of this boot: a restart does not cut it. */
static uint64_t grown_before(const struct family_view *view, uint64_t base)
{
	const struct value_record *record = record_of(view, NEIGHBOR_LEVELS - 1);

	return record && record->grown ? MAX(base, strtoull(record->wanted, NULL, 10)) : base;
}

/* gc_thresh1 stays: below it nothing is ever collected. */
static void want_growth(struct family_view *view, struct neighbor_family_memory *memory)
{
	const int last = NEIGHBOR_LEVELS - 1;
	uint64_t base = base_of(view), grown;

	if (base == 0)
		return;
	grown = grown_before(view, base);
	/* One look knows no rate, and without BPF not even what counts: growing is the agent's. */
	if (!view->once)
		grown = neighbor_grow(
			view->table, grown, view->ceiling, memory, view->input->now_us);
	if (grown == base)
		return;
	view->grown = true;
	want_number(view, last, grown, "growing");
	want_number(view, last - 1, neighbor_second_threshold(grown), "growing");
	/* With keep, gc_thresh1 is whatever stands there. */
	raise_to(view, last - 1, view->wanted[0][0] ? view->wanted[0] : view->table->threshold[0]);
	raise_to(view, last, view->wanted[last - 1]);
}

static int add_wants(const struct family_view *view, struct proposal *proposal)
{
	int af = neighbor_address_family(view->family);

	for (int i = 0; i < NEIGHBOR_LEVELS; i++) {
		struct value_want *want = proposal_value(proposal);

		if (!want)
			return -ENOMEM;
		neightbl_threshold_name(af, i + 1, want->name);
		want->target =
			(struct value_target){.kind = VALUE_NEIGHTBL, .family = af, .level = i + 1};
		snprintf(want->target.path, sizeof(want->target.path),
			"/proc/sys/net/%s/neigh/default/gc_thresh%d",
			neighbor_family_name(view->family), i + 1);
		copy_text(want->actual, SETTING_VALUE_MAX, view->table->threshold[i]);
		copy_text(want->wanted, SETTING_VALUE_MAX, view->wanted[i]);
		want->error = view->table->threshold_error[i];
		want->reason = view->reason[i] ? view->reason[i] : "kept";
		want->grown = view->grown && i > 0;
	}
	return 0;
}

static int add_limit(const struct family_view *view, struct proposal *proposal)
{
	static const char *const names[NEIGHBOR_FAMILIES] = {"neighbor/ipv4", "neighbor/ipv6"};
	const struct neighbor_table_seen *table = view->table;
	struct limit_reading *limit;

	if (table->stats_error < 0 || table->threshold_error[NEIGHBOR_LEVELS - 1] < 0)
		return 0;
	limit = proposal_limit(proposal);
	if (!limit)
		return -ENOMEM;
	copy_text(limit->name, sizeof(limit->name), names[view->family]);
	limit->unit = "entries";
	limit->used = table->collectable;
	limit->max = neighbor_table_max(table);
	limit->hits = table->stats.table_fulls;
	limit->upper_bound = !table->exact;
	limit->n_top = table->n_top;
	memcpy(limit->top, table->top, sizeof(limit->top));
	return 0;
}

static void remember_refusals(const struct neighbor_table_seen *table,
	struct neighbor_family_memory *memory, uint64_t now)
{
	uint64_t refused = table->stats.table_fulls;

	memory->refusing = memory->seen && refused > memory->refused;
	if (memory->refusing) {
		memory->refused_lately += refused - memory->refused;
		memory->refused_at_us = now;
	}
	if (now - memory->refused_at_us > OVERFLOW_WINDOW_US)
		memory->refused_lately = 0;
	memory->refused = refused;
	memory->seen = true;
}

static void remember_pressure(
	const struct neighbor_table_seen *table, struct neighbor_family_memory *memory)
{
	double used = (double)table->collectable;
	double max = (double)neighbor_table_max(table);

	memory->pressure = used > max * (memory->pressure ? PRESSURE_ENDS : PRESSURE_BEGINS);
}

static int decide_family(
	struct family_view *view, struct neighbor_family_memory *memory, struct proposal *proposal)
{
	bool readable = view->table->stats_error == 0 &&
			view->table->threshold_error[NEIGHBOR_LEVELS - 1] == 0;
	int r;

	if (!view->config->families[view->family].keep)
		want_configured(view);
	if (view->config->grow && readable)
		want_growth(view, memory);
	if (readable) {
		remember_refusals(view->table, memory, view->input->now_us);
		remember_pressure(view->table, memory);
	}
	r = add_wants(view, proposal);
	return r < 0 ? r : add_limit(view, proposal);
}

int neighbor_decide(const struct neighbor_seen *seen, const struct neighbor_config *config,
	struct neighbor_memory *memory, const struct decide_input *input, struct proposal *proposal)
{
	for (int family = 0; family < NEIGHBOR_FAMILIES; family++) {
		struct family_view view = {
			.family = (enum neighbor_family)family,
			.table = &seen->tables[family],
			.config = config,
			.input = input,
			.ceiling = neighbor_ceiling(config, seen->memory_bytes),
			.once = seen->once,
		};
		int r = decide_family(&view, &memory->families[family], proposal);

		if (r < 0)
			return r;
	}
	return neighbor_decide_conditions(seen, memory, proposal);
}
