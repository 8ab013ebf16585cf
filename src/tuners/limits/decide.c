/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/limits/limits.h"

#include "base/text.h"

/* LimitPressure begins above the first share of a limit, in percent, and ends that much below. */
#define PRESSURE_BEGINS 80
#define PRESSURE_LASTS  10

/* LimitReached stays True long enough for a dashboard and an alert to see it. */
#define REACHED_WINDOW_US (300 * USEC_PER_SEC)

/* A maximum from here on counts as unlimited: systemd sets fs.file-max to the largest number. */
#define UNLIMITED ((uint64_t)INT64_MAX)

const struct condition_type limits_conditions[] = {
	[LIMITS_PRESSURE] = {"LimitPressure", SEVERITY_WARNING,
		"A limit is more than 80 % used, a file system more than 90 %. It clears 10 % "
		"below. The reason is the name of the limit: headroom explain NAME says what "
		"breaks and what to do, headroom top NAME who uses it.",
		REASON_LIST(REASON_WITHIN_LIMIT, REASON_LIMITS_UNREAD),
		.now = "headroom top limits"},
	[LIMITS_REACHED] = {"LimitReached", SEVERITY_CRITICAL,
		"A limit was reached within the last five minutes. The reason is the name of the "
		"limit: headroom explain NAME says what breaks and what to do, headroom top NAME "
		"who uses it. A limit of less importance makes it a warning.",
		REASON_LIST(REASON_WITHIN_LIMIT, REASON_LIMITS_UNREAD),
		.now = "headroom top limits"},
	{0},
};

static bool counts_hits(const struct limit_row *row)
{
	return row->hits.path || (row->reader && row->reader->counts_hits);
}

bool limits_needs_bpf(const struct limit_row *row)
{
	const struct limit_reader *reader = row->reader;

	return !row->used.path && reader && !reader->read && !reader->sample;
}

/* A row in decide(). */
struct row_input {
	const struct limit_row *row;
	struct limit_memory *memory;
	struct limit_reading *limit;
	const struct decide_input *input;
	double seconds; /* since the last poll */
};

static void judge_hits(const struct row_input *known)
{
	struct limit_memory *memory = known->memory;
	struct limit_reading *limit = known->limit;
	bool counted = counts_hits(known->row), full = limit->max && limit->used >= limit->max;
	uint64_t new = 0;

	if (counted && memory->seen && limit->hits > memory->hits)
		new = limit->hits - memory->hits;
	else if (!counted && full)
		new = MAX((uint64_t)(known->seconds + 0.5), (uint64_t)1);
	memory->hits = limit->hits;
	if (!counted) {
		memory->full_seconds += full ? known->seconds : 0;
		limit->hits = (uint64_t)memory->full_seconds;
	}
	memory->seen = true;
	if (known->input->now_us - memory->reached_at_us > REACHED_WINDOW_US)
		memory->lately = 0;
	if (new == 0 && !full)
		return;
	/* The user at the worst moment: later it may have ended. */
	if (limit->n_top > 0 && (memory->lately == 0 || limit->top[0].used >= memory->user.used))
		memory->user = limit->top[0];
	else if (memory->lately == 0)
		memory->user = (struct limit_user){0};
	memory->lately += MAX(new, (uint64_t)1);
	memory->reached_at_us = known->input->now_us;
}

static void judge_pressure(const struct row_input *known)
{
	const struct limit_reader *reader = known->row->reader;
	unsigned begins = reader && reader->begins ? reader->begins : PRESSURE_BEGINS;
	struct limit_memory *memory = known->memory;

	if (memory->pressure)
		begins -= PRESSURE_LASTS;
	memory->pressure = known->limit->max > 0 &&
			   (double)known->limit->used * 100 > (double)known->limit->max * begins;
}

static void append_use(struct condition_reading *reading, const struct limit_reading *limit)
{
	char text[USE_MAX];

	if (limit->max > 0)
		condition_append(reading, "%s, ",
			use_text((double)limit->used, (double)limit->max, limit->unit, text));
}

static void append_user(struct condition_reading *reading, const struct limit_reading *limit,
	const struct limit_user *user, const char *verb)
{
	char text[WORKLOAD_TEXT_MAX], amount[AMOUNT_MAX];

	if (user->used == 0)
		return;
	workload_describe(&user->workload, text, sizeof(text));
	condition_append(reading, "; the largest user %s %s%s%s with %s", verb, text,
		user->detail[0] ? ", " : "", user->detail,
		bare_amount_text((double)user->used, limit->unit, amount));
}

/* The first row appears with its details, further rows with their names. */
static bool begin_message(struct condition_reading *reading, const struct row_input *known)
{
	bool first = reading->status != CONDITION_TRUE;

	if (first) {
		reading->limit = known->row->name;
		condition_raise(reading, REASON_NONE, "%s: ", known->row->name);
	} else {
		condition_append(reading, "; %s", known->row->name);
	}
	return first;
}

static void report_reached(const struct row_input *known, struct condition_reading *reading)
{
	bool first = begin_message(reading, known);

	known->limit->condition = &limits_conditions[LIMITS_REACHED];
	reading->last_us = MAX(reading->last_us, known->memory->reached_at_us);
	reading->milder = (first || reading->milder) && known->row->severity < SEVERITY_CRITICAL;
	if (!first)
		return;
	append_use(reading, known->limit);
	condition_append(reading, "reached %s%" PRIu64 "%s in the last five minutes",
		counts_hits(known->row) ? "" : "for ", known->memory->lately,
		counts_hits(known->row) ? " times" : " s");
	append_user(reading, known->limit, &known->memory->user, "was");
	condition_append(reading, "; %s", known->row->breaks);
}

static void report_pressure(const struct row_input *known, struct condition_reading *reading)
{
	const struct limit *limit =
		find_named(known->input->limits, known->input->n_limits, known->limit->name);
	double full = limit ? limit_full_in_seconds(limit) : -1;
	char text[TIME_TEXT_MAX], share[SHARE_MAX];

	known->limit->condition = &limits_conditions[LIMITS_PRESSURE];
	if (!begin_message(reading, known))
		return;
	append_use(reading, known->limit);
	condition_append(reading, "%s",
		share_text((double)known->limit->used / (double)MAX(known->limit->max, (uint64_t)1),
			share));
	if (full >= 0) {
		duration_text(full, text);
		condition_append(reading, ", full in %s", text);
	}
	if (known->limit->n_top > 0)
		append_user(reading, known->limit, &known->limit->top[0], "is");
}

static void add_lacks(const struct limits *limits, struct proposal *proposal)
{
	const char *separator = ": not watched: ";
	char why[TUNER_WHY_MAX];

	proposal_lacks(proposal, limits->census_why);
	for (size_t i = 0; i < limits->n && limits->census_why[0]; i++)
		if (limits_needs_bpf(&limits_rows[i])) {
			text_append(proposal->why, TUNER_WHY_MAX, "%s%s", separator,
				limits_rows[i].name);
			separator = ", ";
		}
	if (limits->pass_error < 0) {
		snprintf(why, sizeof(why),
			"what processes and open files use was not counted: %s: the agent tries "
			"again by itself",
			strerror(-limits->pass_error));
		proposal_lacks(proposal, why);
	}
	for (size_t i = 0; i < limits->n; i++) {
		int error = limits->rows[i].error;

		if (error >= 0 || error == -ENOENT)
			continue;
		snprintf(why, sizeof(why), "%s: %s: let the agent read it", limits_rows[i].name,
			strerror(-error));
		proposal_lacks(proposal, why);
	}
}

/* Critical rows come first in the table, so a condition describes the worst. */
void limits_decide(
	const void *self, const struct decide_input *input, void *data, struct proposal *proposal)
{
	const struct limits *limits = self;
	struct limits_memory *memory = data;
	struct condition_reading *conditions[2];
	double seconds = memory->polled_at_us == 0
				 ? 0
				 : (double)(input->now_us - memory->polled_at_us) / USEC_PER_SEC;
	size_t readable = 0;

	if (!memory->rows)
		memory->rows = must(calloc(limits->n + 1, sizeof(*memory->rows)));
	memory->polled_at_us = input->now_us;
	add_lacks(limits, proposal);
	(void)proposal_condition(
		proposal, &limits_conditions[LIMITS_PRESSURE], REASON_WITHIN_LIMIT);
	(void)proposal_condition(proposal, &limits_conditions[LIMITS_REACHED], REASON_WITHIN_LIMIT);
	for (int i = 0; i < 2; i++)
		conditions[i] = &proposal->conditions[i];
	for (size_t i = 0; i < limits->n; i++) {
		const struct limit_seen *seen = &limits->rows[i];
		const struct limit_reading *users;
		struct row_input known = {seen->row, &memory->rows[i], NULL, input, seconds};

		/* A row whose use is unknown has no hits: no cgroup of the node has a limit. */
		if (seen->error < 0 && limits->counted && limits_needs_bpf(seen->row)) {
			known.memory->seen = true;
			known.memory->hits = seen->reading.hits;
		}
		if (seen->error < 0 || seen->reading.max >= UNLIMITED)
			continue;
		readable++;
		known.limit = proposal_limit(proposal);
		*known.limit = seen->reading;
		known.limit->top = NULL;
		known.limit->n_top = 0;
		users = seen->users[OF_FILES].n_top > 0       ? &seen->users[OF_FILES]
			: seen->users[OF_PROCESSES].n_top > 0 ? &seen->users[OF_PROCESSES]
							      : &seen->reading;
		for (unsigned k = 0; k < users->n_top; k++)
			*limit_add_user(known.limit) = users->top[k];
		copy_text(known.limit->name, LIMIT_NAME_MAX, seen->row->name);
		known.limit->unit = seen->row->unit;
		known.limit->idle = known.limit->used * 2 <= known.limit->max;
		judge_hits(&known);
		judge_pressure(&known);
		if (known.memory->lately > 0)
			report_reached(&known, conditions[LIMITS_REACHED]);
		else if (known.memory->pressure)
			report_pressure(&known, conditions[LIMITS_PRESSURE]);
	}
	for (int i = 0; i < 2 && readable == 0; i++)
		condition_unknown(conditions[i], REASON_LIMITS_UNREAD);
}
