/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/neighbor/neighbor.h"

#include "base/text.h"
#include "config/config.h"

#include <arpa/inet.h>

#define LAST (NEIGHBOR_LEVELS - 1) /* the index of gc_thresh3 */
#define KEEP (-1)

/* NeighborTablePressure begins above the first share of gc_thresh3 and ends below the second. */
#define PRESSURE_BEGINS 0.80
#define PRESSURE_ENDS   0.70

/* NeighborTableOverflow stays True long enough for a dashboard and an alert to see it. */
#define OVERFLOW_WINDOW_US (300 * USEC_PER_SEC)

/* The users are counted at most every two seconds, at a tick that may be late. */
#define USERS_KNOWN_US (5 * USEC_PER_SEC)

/* 1 % of the node's memory at 512 bytes per entry: struct neighbour, its key and slab padding. */
#define CEILING_MEMORY_SHARE 100
#define ENTRY_BYTES          512
#define CEILING_MAX          UINT64_C(1048576)

/*
 * Small tables grow eightfold. One CPU can create 100,000 entries per second, so 768 free entries
 * last 8 ms: the first step must be early and large. A large table leaves time to measure its rate.
 */
#define SMALL_TABLE  65536
#define SMALL_FACTOR 8
#define LARGE_FACTOR 2

/* In percent of gc_thresh3: a small table grows at the first mark, a large one at the second. */
#define FIRST_MARK  25
#define SECOND_MARK 50

/* A large table grows at the first mark when it would be full within this time. */
#define FILLS_SOON_SECONDS 10.0

/* Two polls can be 1 ms apart, which is too short to measure a rate. */
#define RATE_MIN_SECONDS 0.1

/* The decision about one family. */
struct family {
	const struct neighbor_family_row *row;
	const struct neighbor_table_seen *table;
	const struct neighbor *neighbor;
	const struct neighbor_family_config *config;
	const struct decide_input *input;
	struct neighbor_family_memory *memory;
	int64_t wanted[NEIGHBOR_LEVELS]; /* or KEEP */
	enum reason reason[NEIGHBOR_LEVELS];
	bool grown;
};

/* Returns gc_thresh3; 0 when it could not be read. */
static uint64_t table_max(const struct neighbor_table_seen *table)
{
	return strtoull(table->threshold[LAST], NULL, 10);
}

/*
 * Returns the gc_thresh3 to set: from, or more if the table could fill up before the next poll.
 * Updates the memory.
 */
static uint64_t grow(const struct family *family, uint64_t from)
{
	const struct neighbor *neighbor = family->neighbor;
	struct neighbor_family_memory *memory = family->memory;
	uint64_t by_memory = neighbor->memory_bytes / CEILING_MEMORY_SHARE / ENTRY_BYTES;
	uint64_t ceiling =
		neighbor->config.ceiling ? neighbor->config.ceiling : MIN(by_memory, CEILING_MAX);
	uint64_t used = family->table->collectable, size = from, needed,
		 now = family->input->now_us;
	uint64_t first = from * FIRST_MARK / 100, second = from * SECOND_MARK / 100;
	double seconds = (double)(now - memory->used_at_us) / (double)USEC_PER_SEC;
	double more = (double)used - (double)memory->used;
	bool fills_soon;

	memory->rate = memory->used_at_us ? MAX(more / MAX(seconds, RATE_MIN_SECONDS), 0) : 0;
	memory->used = used;
	memory->used_at_us = now;
	memory->at_ceiling = false;
	memory->wake_at = used < first ? first : second;
	fills_soon = from < SMALL_TABLE ||
		     (double)from - (double)used < memory->rate * FILLS_SOON_SECONDS;
	if (used < first || (used < second && !fills_soon))
		return from;
	/* Grow in steps until twice the entries and the growth of one second fit. */
	needed = 2 * used + (uint64_t)memory->rate;
	do
		size = MIN(
			MAX(size, 1) * (size < SMALL_TABLE ? SMALL_FACTOR : LARGE_FACTOR), ceiling);
	while (size < needed && size < ceiling);
	size = MAX(size, from);
	if (size > from) {
		memory->wake_at = size * FIRST_MARK / 100;
	} else if (used >= second) {
		/* The table cannot grow: an immediate poll would not help. */
		memory->at_ceiling = true;
		memory->wake_at = 0;
	}
	return size;
}

static const struct value_record *record_of(const struct family *family, int i)
{
	char name[SETTING_NAME_MAX];

	neighbor_threshold_name(family->row, i, name);
	return find_named(family->input->values, family->input->n_values, name);
}

/* Returns the administrator's value; 0 when it is unknown. */
static int64_t floor_of(const struct family *family, int i)
{
	char text[SETTING_VALUE_MAX];

	value_floor(NULL, record_of(family, i), family->table->threshold[i], text);
	return strtoll(text, NULL, 10);
}

static void want_at_least(struct family *family, int i, int64_t number, enum reason reason)
{
	if (number <= family->wanted[i])
		return;
	family->wanted[i] = number;
	family->reason[i] = reason;
}

/* Growth leaves gc_thresh1 alone: below it the kernel never collects garbage. */
static void want_growth(struct family *family)
{
	const struct value_record *record = record_of(family, LAST);
	int64_t base = family->wanted[LAST] == KEEP ? floor_of(family, LAST) : family->wanted[LAST];
	int64_t size = base, first;

	if (base == 0)
		return;
	if (record && record->grown)
		size = MAX(size, strtoll(record->wanted, NULL, 10));
	/* Only the agent grows a table: a single poll cannot measure a rate. */
	if (!family->neighbor->once)
		size = (int64_t)grow(family, (uint64_t)size);
	if (size == base)
		return;
	family->grown = true;
	want_at_least(family, LAST, size, REASON_GROWING);
	/* gc_thresh2 stays 10 % lower: forced collections begin before the table is full. */
	want_at_least(family, LAST - 1, size - size / 10, REASON_GROWING);
	if (family->wanted[LAST - 1] == size - size / 10)
		family->reason[LAST - 1] = REASON_GROWING;
	/* keep leaves gc_thresh1 as the node has it; it may be above the new gc_thresh2. */
	first = family->wanted[0] == KEEP ? strtoll(family->table->threshold[0], NULL, 10)
					  : family->wanted[0];
	want_at_least(family, LAST - 1, first, REASON_ADMINISTRATOR_HIGHER);
	want_at_least(family, LAST, family->wanted[LAST - 1], REASON_ADMINISTRATOR_HIGHER);
}

/*
 * Below gc_thresh1 stale entries stay for ever. A value below the kernel's asks for collections, so
 * our default, which would end them, leaves it.
 */
static enum reason find_choice(int i, const char *node)
{
	int order;

	return i == 0 && value_compare(NULL, node, NEIGHBOR_KERNEL_THRESH1, &order) == 0 &&
			       order < 0
		       ? REASON_CHOSEN_ON_NODE
		       : REASON_NONE;
}

static void choose_threshold(struct family *family, int i)
{
	const char *actual = family->table->threshold[i];
	const char *node = value_of_node(record_of(family, i), actual);
	char ours[SETTING_VALUE_MAX], wanted[SETTING_VALUE_MAX], floor[SETTING_VALUE_MAX];
	struct choice choice = {.ours = ours,
		.configured = family->config->chosen[i],
		.reason = family->config->reason[i],
		.exact = family->neighbor->config.lower,
		.chosen = find_choice(i, node)};

	value_floor(NULL, record_of(family, i), actual, floor);
	choice.node = choice.chosen ? node : floor;
	snprintf(ours, sizeof(ours), "%" PRIu64, family->config->threshold[i]);
	family->reason[i] = value_choose(&choice, wanted);
	family->wanted[i] = strtoll(wanted, NULL, 10);
}

static void decide_values(struct family *family, bool growing, struct proposal *proposal)
{
	const struct neighbor_family_config *config = family->config;

	/* The largest of the configured value, the administrator's and the lower threshold. */
	for (int i = 0; i < NEIGHBOR_LEVELS && !config->keep; i++) {
		choose_threshold(family, i);
		if (i > 0 && !family->neighbor->config.lower)
			want_at_least(
				family, i, family->wanted[i - 1], REASON_ADMINISTRATOR_HIGHER);
	}
	if (growing)
		want_growth(family);
	for (int i = 0; i < NEIGHBOR_LEVELS; i++) {
		struct want *want = proposal_value(proposal);

		neighbor_threshold_name(family->row, i, want->name);
		want->target = (struct value_target){
			.kind = VALUE_NEIGHTBL, .family = family->row->af, .level = i + 1};
		sysctl_path(want->name, want->target.path);
		copy_text(want->actual, SETTING_VALUE_MAX, family->table->threshold[i]);
		if (family->wanted[i] != KEEP)
			snprintf(want->wanted, SETTING_VALUE_MAX, "%" PRId64, family->wanted[i]);
		want->error = family->table->threshold_error[i];
		want->reason = family->reason[i] ? family->reason[i] : REASON_KEPT;
		if (want->reason == REASON_CHOSEN_ON_NODE)
			set_text(want->why,
				family->neighbor->choices[family->row - neighbor_families].why);
		want->grown = family->grown && i > 0;
		want->requested = config->requested[i];
	}
}

static void decide_limit(const struct family *family, struct proposal *proposal)
{
	const struct neighbor_table_seen *table = family->table;
	struct neighbor_family_memory *memory = family->memory;
	struct limit_reading *limit = proposal_limit(proposal);
	uint64_t refused = table->stats.table_fulls, now = family->input->now_us;

	memory->refused_now =
		memory->seen && refused > memory->refused ? refused - memory->refused : 0;
	if (memory->refused_now > 0) {
		memory->refused_at_us = now;
		memory->used_then = table->collectable;
	}
	memory->refused = refused;
	memory->seen = true;
	snprintf(limit->name, sizeof(limit->name), "neighbor/%s", family->row->name);
	limit->unit = "entries";
	limit->used = table->collectable;
	limit->max = table_max(table);
	limit->hits = refused;
	limit->upper_bound = !table->exact;
	for (unsigned i = 0; i < table->n_top; i++)
		*limit_add_user(limit) = table->top[i];
}

static bool is_above(const struct neighbor_table_seen *table, double share)
{
	return (double)table->collectable > (double)table_max(table) * share;
}

/* Returns whether the agent is about to raise the maximum. */
static bool is_growing(const struct family *family)
{
	return family->input->mode == MODE_ENFORCE &&
	       family->wanted[LAST] > (int64_t)table_max(family->table);
}

/*
 * A table with refusals is the graver problem, and stays one for as long as it is held. Otherwise
 * growth that is under way needs no words.
 */
static enum finding_phase judge_table(const struct family *family, enum reason *reason)
{
	const struct neighbor_family_memory *memory = family->memory;
	const struct decide_input *input = family->input;
	bool was_refused = memory->refused_at_us > 0 &&
			   input->now_us - memory->refused_at_us <= OVERFLOW_WINDOW_US;

	*reason = was_refused          ? REASON_ENTRIES_REFUSED
		  : memory->at_ceiling ? REASON_AT_CEILING
				       : REASON_NEAR_FULL;
	if (was_refused)
		return memory->refused_now > 0                                   ? FINDING_HAPPENS
		       : input->now_us - memory->refused_at_us <= USERS_KNOWN_US ? FINDING_LASTS
										 : FINDING_OVER;
	if (is_growing(family))
		return FINDING_OVER;
	return memory->at_ceiling || is_above(family->table, PRESSURE_BEGINS) ? FINDING_HAPPENS
	       : is_above(family->table, PRESSURE_ENDS)                       ? FINDING_LASTS
									      : FINDING_OVER;
}

static void describe_table(const struct family *family, struct finding *finding)
{
	const struct neighbor_refusal *last = &family->table->last;
	char address[INET6_ADDRSTRLEN] = "?", owner[WORKLOAD_TEXT_MAX];
	const char *bound = family->table->exact ? "" : "an upper bound";

	if (finding->reason == REASON_AT_CEILING) {
		finding_message(finding, "%s%sgrowth has reached neighbor.ceiling", bound,
			bound[0] ? "; " : "");
	} else if (finding->reason == REASON_ENTRIES_REFUSED && last->netns) {
		inet_ntop(family->row->af, last->address, address, sizeof(address));
		workload_describe(&family->table->last_owner, owner, sizeof(owner));
		finding_message(finding, "the last was %s on %.16s in network namespace %u of %s",
			address, last->device, last->netns, owner);
	} else if (bound[0]) {
		finding_message(finding, "%s", bound);
	}
}

/* Twice the maximum in force, or twice the use; what stays must also pass the checks of options. */
static void cure_table(const struct family *family, struct finding *finding)
{
	const struct neighbor *neighbor = family->neighbor;
	const struct config *config = family->input->config;
	const char *name = family->row->name;
	uint64_t size = 2 * MAX(table_max(family->table), family->table->collectable);
	uint64_t kept = MAX(size, family->config->threshold[LAST]);
	char option[64], ceiling[64] = "", amount[AMOUNT_MAX];
	struct config_position where = {0};

	size = MIN(size, (uint64_t)INT32_MAX);
	kept = MIN(kept, (uint64_t)INT32_MAX);
	finding_hint(finding, "an entry takes %d bytes: %s when it is full", ENTRY_BYTES,
		amount_text((double)size * ENTRY_BYTES, "memory", amount));
	/* The agent would set its own again. */
	if (!neighbor->config.lower || family->config->keep)
		finding_now(finding,
			"sysctl -w net.%s.neigh.default.gc_thresh3=%" PRIu64
			" net.%s.neigh.default.gc_thresh2=%" PRIu64,
			name, size, name, size - size / 10);
	if (finding->reason == REASON_AT_CEILING) {
		finding_keep(finding, family->input, "neighbor", "neighbor: {ceiling: %" PRIu64 "}",
			kept);
		snprintf(option, sizeof(option), "neighbor.ceiling");
	} else {
		if (neighbor->config.grow && neighbor->config.ceiling > 0 &&
			neighbor->config.ceiling < kept)
			snprintf(ceiling, sizeof(ceiling), ", ceiling: %" PRIu64, kept);
		finding_keep(finding, family->input, "neighbor",
			"neighbor: {%s: {gc_thresh3: %" PRIu64 "}%s}", name, kept, ceiling);
		snprintf(option, sizeof(option), "neighbor.%s", name);
	}
	/* What a file says already is to be changed there. */
	if (config && config_is_given(config, option))
		where = config_where(config, option);
	if (where.line > 0)
		finding_keep_in(finding, family->input, where.file);
}

static void add_users(const struct family *family, struct finding *finding)
{
	struct neighbor_family_memory *memory = family->memory;
	const struct neighbor_table_seen *table = family->table;

	memory->holder_used = memory->holder_netns = 0;
	for (unsigned i = 0; i < table->n_top; i++)
		finding_user_add(finding, &table->top[i]);
	if (table->n_top == 0)
		return;
	memory->holder_used = table->top[0].used;
	if (workload_is_unknown_netns(&table->top[0].workload))
		memory->holder_netns = (uint32_t)strtoul(table->top[0].workload.id, NULL, 10);
}

/* Adds the largest user once its owner is known: by then it may have few entries. */
static void name_holder(const struct family *family, struct finding *finding)
{
	struct neighbor_family_memory *memory = family->memory;
	struct limit_user holder = {.used = memory->holder_used};

	if (memory->holder_netns == 0)
		return;
	holder.workload = netns_owners_find(family->neighbor->users.owners, memory->holder_netns);
	if (workload_is_unknown_netns(&holder.workload))
		return;
	finding_user_add(finding, &holder);
	memory->holder_netns = 0;
}

static void find_full(const struct family *family, struct proposal *proposal)
{
	struct neighbor_family_memory *memory = family->memory;
	const struct neighbor_table_seen *table = family->table;
	enum reason reason;
	enum finding_phase phase = judge_table(family, &reason);
	bool is_refused = reason == REASON_ENTRIES_REFUSED;
	struct finding *finding;
	char slug[FINDING_SLUG_MAX];

	snprintf(slug, sizeof(slug), "neighbor/%s", family->row->name);
	finding = proposal_finding(proposal, family->input,
		&neighbor_conditions[is_refused ? NEIGHBOR_TABLE_OVERFLOW
						: NEIGHBOR_TABLE_PRESSURE],
		reason, slug, NULL, phase);
	if (!finding)
		return;
	finding->unit = "entries";
	finding->happens = "refused";
	finding->counts_hits = true;
	finding->breaks = neighbor_tables.limits[0].breaks;
	finding->hold_us = is_refused ? OVERFLOW_WINDOW_US : 0;
	finding->use =
		(struct finding_use){table->collectable, table_max(table), memory->refused_now, 0};
	/* The users of the moment are counted up to some seconds later. */
	if (is_refused && phase != FINDING_OVER) {
		finding->use.used = memory->used_then;
		finding->use.at_us = memory->refused_at_us;
	}
	if (memory->refused_now > 0)
		memory->holder_used = 0;
	finding->knows = WHO_UNKNOWN;
	if (!is_refused || (table->n_top > 0 && table->top[0].used >= memory->holder_used))
		add_users(family, finding);
	else
		name_holder(family, finding);
	describe_table(family, finding);
	cure_table(family, finding);
}

/*
 * Without BPF nothing wakes the agent, so it polls more often as a table fills, and at least twice
 * per second: 1,000 new entries per second would fill an empty table of 1024 between two ticks.
 */
static uint64_t next_poll_us(const struct neighbor *neighbor, uint64_t now)
{
	uint64_t delay = 500 * USEC_PER_MSEC;

	if (neighbor->bpf)
		return neighbor->users.counted_at_us == 0 ? now + NEIGHBOR_START_US : 0;
	if (!neighbor->config.grow)
		return 0;
	for (int family = 0; family < NEIGHBOR_FAMILIES; family++) {
		uint64_t used = neighbor->tables[family].collectable;
		uint64_t max = table_max(&neighbor->tables[family]);

		if (max > 0 && used * 4 >= max)
			return now + 20 * USEC_PER_MSEC;
		if (max > 0 && used * 10 >= max)
			delay = 100 * USEC_PER_MSEC;
	}
	return now + delay;
}

void neighbor_decide(
	const void *self, const struct decide_input *input, void *data, struct proposal *proposal)
{
	const struct neighbor *neighbor = self;
	struct neighbor_memory *memory = data;
	bool unknown = false;
	char why[TUNER_WHY_MAX];

	proposal->poll_us = next_poll_us(neighbor, input->now_us);
	snprintf(why, sizeof(why), "%s%s", neighbor->bpf_why,
		neighbor->bpf_why[0] && neighbor->config.stale == STALE_REFRESH
			? "; neighbor.stale finds entries by their age alone"
			: "");
	proposal_lack(proposal, LACK_BPF, why);
	if (input->mode == MODE_ENFORCE)
		proposal_lack(proposal, neighbor->write_lack, neighbor->write_why);
	for (int i = 0; i < NEIGHBOR_FAMILIES; i++) {
		const struct neighbor_table_seen *table = &neighbor->tables[i];
		bool readable = table->stats_error == 0 && table->threshold_error[LAST] == 0;
		struct family family = {
			.row = &neighbor_families[i],
			.table = table,
			.neighbor = neighbor,
			.config = &neighbor->config.families[i],
			.input = input,
			.memory = &memory->families[i],
			.wanted = {KEEP, KEEP, KEEP},
		};

		decide_values(&family, neighbor->config.grow && readable, proposal);
		if (readable) {
			decide_limit(&family, proposal);
			find_full(&family, proposal);
		}
		if (table->stats_error != 0 &&
			(i == NEIGHBOR_IPV4 || table->stats_error != -ENOENT ||
				table->threshold_error[LAST] != -ENOENT)) {
			/* A kernel without IPv6, or booted with ipv6.disable=1, is not a fault. */
			unknown = true;
		}
	}
	for (int i = NEIGHBOR_TABLE_PRESSURE; i <= NEIGHBOR_TABLE_OVERFLOW; i++) {
		struct condition_reading *reading =
			proposal_condition(proposal, &neighbor_conditions[i], REASON_WITHIN_LIMIT);

		if (unknown)
			condition_unknown(reading, REASON_COUNTERS_UNAVAILABLE);
	}
	refresh_decide(neighbor, input, &memory->refresh, proposal);
}
