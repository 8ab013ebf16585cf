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
		"below. A BPF map is critical from 95 % on, and advice if it evicts. The reason is the name of the limit: headroom explain NAME says what "
		"breaks and what to do, headroom top NAME who uses it.",
		REASON_LIST(REASON_WITHIN_LIMIT, REASON_LIMITS_UNREAD)},
	[LIMITS_REACHED] = {"LimitReached", SEVERITY_CRITICAL,
		"A limit was reached within the last five minutes. The reason is the name of the "
		"limit: headroom explain NAME says what breaks and what to do, headroom top NAME "
		"who uses it. A limit of less importance makes it a warning.",
		REASON_LIST(REASON_WITHIN_LIMIT, REASON_LIMITS_UNREAD)},
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

/* ---- instances ---- */

/* The path of a cgroup is not known at once. */
uint64_t limit_instance_hash(const struct instance *instance)
{
	bool is_named = instance->id == 0 || instance->kind == INSTANCE_PROCESS ||
			instance->kind == INSTANCE_NETNS;
	uint64_t hash = hash_text(HASH_START ^ instance->kind, is_named ? instance->name : "") ^
			instance->id * UINT64_C(0x9e3779b97f4a7c15);

	return hash ? hash : 1;
}

static double share_of(const struct limit_instance *instance)
{
	return instance->max > 0 ? (double)instance->used / (double)instance->max : 0;
}

static bool is_open(const struct limit_instances *instances, const struct instance *instance)
{
	uint64_t hash = limit_instance_hash(instance);

	for (size_t i = 0; i < instances->n_open; i++)
		if (instances->open[i] == hash)
			return true;
	return false;
}

static bool is_nearly_full(const struct limit_instance *instance)
{
	return share_of(instance) * 100 >= PRESSURE_BEGINS;
}

/* A finding that is over takes no place of an instance that is full now. */
static int rank_of(const struct limit_instances *instances, const struct limit_instance *instance)
{
	bool open = is_open(instances, &instance->instance);

	if (instance->is_fresh || (open && is_nearly_full(instance)))
		return 3;
	return is_nearly_full(instance) ? 2 : open;
}

/* Instances with a finding come first. */
static bool is_before(const struct limit_instances *instances, const struct limit_instance *a,
	const struct limit_instance *b)
{
	int first = rank_of(instances, a), second = rank_of(instances, b);

	return first != second ? first > second : share_of(a) > share_of(b);
}

static void remove_instance(struct limit_instances *instances, unsigned at)
{
	free(instances->list[at].top);
	free(instances->list[at].cure);
	instances->n--;
	memmove(&instances->list[at], &instances->list[at + 1],
		(instances->n - at) * sizeof(*instances->list));
}

/* A program has several processes, which fill together: the cure is for all of them. */
static void add_other(struct limit_instance *instance, const struct limit_instance *other)
{
	if (other->pid == 0 || other->max != instance->max || other->beside != instance->beside ||
		!is_nearly_full(other))
		return;
	if (instance->n_others < LIMIT_OTHERS_MAX)
		instance->others[instance->n_others++] = other->pid;
	for (unsigned i = 0; i < other->n_others && instance->n_others < LIMIT_OTHERS_MAX; i++)
		instance->others[instance->n_others++] = other->others[i];
}

/* Returns whether to keep it; removes the emptier one with the same key. */
static bool is_kept(struct limit_instances *instances, struct limit_instance *instance)
{
	uint64_t hash = limit_instance_hash(&instance->instance);

	for (unsigned i = 0; i < instances->n; i++) {
		if (limit_instance_hash(&instances->list[i].instance) != hash)
			continue;
		if (!is_before(instances, instance, &instances->list[i])) {
			add_other(&instances->list[i], instance);
			return false;
		}
		add_other(instance, &instances->list[i]);
		remove_instance(instances, i);
		break;
	}
	return instance->used * 2 > instance->max || instance->hits > 0 ||
	       is_open(instances, &instance->instance);
}

/* Forgets an instance that has no place. */
static void leave_out(struct limit_instances *instances, const struct limit_instance *instance)
{
	instances->n_left_out += rank_of(instances, instance) > 1;
}

static void drop_instance(struct limit_instance *instance)
{
	free(steal(instance->top));
	free(steal(instance->cure));
}

void limit_instance_add(struct limit_instances *instances, struct limit_instance *instance)
{
	unsigned at = 0;

	if (!is_kept(instances, instance)) {
		drop_instance(instance);
		return;
	}
	while (at < instances->n && !is_before(instances, instance, &instances->list[at]))
		at++;
	if (at == LIMIT_INSTANCES_MAX) {
		leave_out(instances, instance);
		drop_instance(instance);
		return;
	}
	if (!instances->list)
		instances->list = must(calloc(LIMIT_INSTANCES_MAX, sizeof(*instances->list)));
	if (instances->n == LIMIT_INSTANCES_MAX) {
		leave_out(instances, &instances->list[LIMIT_INSTANCES_MAX - 1]);
		remove_instance(instances, LIMIT_INSTANCES_MAX - 1);
	}
	memmove(&instances->list[at + 1], &instances->list[at],
		(instances->n - at) * sizeof(*instances->list));
	instances->list[at] = *instance;
	instances->n++;
	instance->top = NULL;
	instance->cure = NULL;
}

struct limit_user *limit_instance_user(struct limit_instance *instance)
{
	if (instance->n_top == LIMIT_TOP_MAX)
		return NULL;
	if (!instance->top)
		instance->top = must(calloc(LIMIT_TOP_MAX, sizeof(*instance->top)));
	return &instance->top[instance->n_top++];
}

void limit_instances_clear(struct limit_instances *instances)
{
	while (instances->n > 0)
		remove_instance(instances, instances->n - 1);
	instances->n_left_out = 0;
	free(steal(instances->list));
}

/* ---- what decide() remembers ---- */

#define KNOWN_MAX 64

static struct limit_known *find_known(struct limit_memory *memory, uint64_t hash)
{
	for (size_t i = 0; i < memory->n; i++)
		if (memory->known[i].hash == hash)
			return &memory->known[i];
	return NULL;
}

/* Forgets the instance with the oldest poll. */
static struct limit_known *add_known(struct limit_memory *memory, uint64_t hash)
{
	struct limit_known *known;

	if (memory->n < KNOWN_MAX) {
		known = add_element(&memory->known, &memory->n, &memory->allocated);
	} else {
		known = &memory->known[0];
		for (size_t i = 1; i < memory->n; i++)
			if (memory->known[i].seen_us < known->seen_us)
				known = &memory->known[i];
	}
	*known = (struct limit_known){.hash = hash};
	return known;
}

/* ---- findings ---- */

/* A row in decide(). */
struct row_input {
	const struct limits *limits;
	const struct limit_row *row;
	const struct limit_seen *seen;
	struct limit_memory *memory;
	struct limit_reading *limit;
	const struct decide_input *input;
	struct proposal *proposal;
	double seconds; /* since the last poll */
};

/* Returns what the kernel has refused since the last poll. */
static uint64_t count_hits(const struct row_input *in, const struct limit_instance *instance,
	struct limit_known *known)
{
	const struct limit_reader *reader = in->row->reader;
	uint64_t new = 0;

	if (!counts_hits(in->row))
		return 0;
	/* The inode belongs to another namespace now: its refusals count from here. */
	if (instance->hits < known->hits)
		known->lately = known->begun_us = 0;
	if (in->memory->seen && instance->hits > known->hits)
		new = instance->hits - known->hits;
	known->hits = instance->hits;
	if (reader && instance->used * 100 < instance->max * reader->hits_above)
		new = 0;
	if (in->input->now_us - known->begun_us > REACHED_WINDOW_US)
		known->lately = known->begun_us = 0;
	if (new > 0 && known->begun_us == 0)
		known->begun_us = in->input->now_us;
	known->lately += new;
	return new;
}

static bool matters(const struct limit_row *row, const struct limit_instance *instance)
{
	const struct limit_reader *reader = row->reader;

	return instance->max > 0 &&
	       (!reader || (instance->max >= reader->matters_from && !reader->only_hits &&
				   !(reader->never_above && instance->used > instance->max)));
}

static bool is_full(const struct limit_row *row, const struct limit_instance *instance)
{
	return matters(row, instance) &&
	       instance->used >= instance->max + (row->reader && row->reader->full_above);
}

/*
 * Returns whether the use is above the given share of the maximum, in percent, or with begins_at
 * equal to it.
 */
static bool is_near(
	const struct limit_row *row, const struct limit_instance *instance, unsigned percent)
{
	const struct limit_reader *reader = row->reader;
	double used = (double)instance->used * 100, share = (double)instance->max * percent;

	return matters(row, instance) && instance->used >= (reader ? reader->near_from : 0) &&
	       (used > share || (reader && reader->begins_at && used == share));
}

struct verdict_of {
	unsigned condition;
	enum finding_phase phase;
	uint64_t hits;
};

/* A pass is not enough for a row with twice: such a finding does not begin yet. */
static bool is_first_pass(const struct row_input *in, const struct limit_instance *instance,
	struct limit_known *known)
{
	uint64_t at_us = instance->at_us ? instance->at_us : in->input->now_us;

	if (known->full_at_us == 0)
		known->full_at_us = at_us;
	return in->row->reader && in->row->reader->twice && known->full_at_us == at_us;
}

static struct verdict_of judge_use(const struct row_input *in,
	const struct limit_instance *instance, const struct finding *open,
	struct limit_known *known)
{
	const struct limit_reader *reader = in->row->reader;
	unsigned begins = reader && reader->begins ? reader->begins : PRESSURE_BEGINS;
	struct verdict_of verdict = {.hits = count_hits(in, instance, known)};
	bool was_reached = open && open->condition == &limits_conditions[LIMITS_REACHED];

	if (!is_near(in->row, instance, begins) && !is_full(in->row, instance))
		known->full_at_us = 0;
	if (verdict.hits > 0 && known->lately >= (reader ? reader->hits_from : 0)) {
		verdict.condition = reader && reader->hits_near && !is_full(in->row, instance)
					    ? LIMITS_PRESSURE
					    : LIMITS_REACHED;
		verdict.phase = FINDING_HAPPENS;
		/* The first hits were too few for a finding. */
		if (!was_reached)
			verdict.hits = known->lately;
	} else if (is_full(in->row, instance)) {
		verdict.condition = LIMITS_REACHED;
		verdict.phase =
			is_first_pass(in, instance, known) ? FINDING_LASTS : FINDING_HAPPENS;
	} else if (was_reached) {
		verdict.condition = LIMITS_REACHED;
		verdict.phase = FINDING_OVER;
	} else if (is_near(in->row, instance, begins)) {
		verdict.phase =
			is_first_pass(in, instance, known) ? FINDING_LASTS : FINDING_HAPPENS;
	} else if (open && is_near(in->row, instance, begins - PRESSURE_LASTS)) {
		verdict.phase = FINDING_LASTS;
	}
	return verdict;
}

static void add_message(
	const struct row_input *in, struct finding *finding, const struct limit_instance *instance)
{
	const struct limit *limit =
		find_named(in->input->limits, in->input->n_limits, in->row->name);
	double full = limit && instance->instance.kind == INSTANCE_NODE
			      ? limit_full_in_seconds(limit)
			      : -1;
	char text[TIME_TEXT_MAX];

	if (instance->what[0]) {
		finding_message(finding, "%s", instance->what);
	} else if (full >= 0 && finding->condition == &limits_conditions[LIMITS_PRESSURE]) {
		duration_text(full, text);
		finding_message(finding, "full in %s", text);
	}
}

/* The pass that has counted the users of the node; PASSES: none. */
static int pass_of_users(const struct limit_seen *seen)
{
	for (int kind = PASSES - 1; kind >= OF_PROCESSES; kind--)
		if (seen->users[kind].n_top > 0)
			return kind;
	return PASSES;
}

/* The users of an instance may come from the other pass, or from the row. */
static void add_users(
	const struct row_input *in, struct finding *finding, const struct limit_instance *instance)
{
	uint64_t hash = limit_instance_hash(&instance->instance);
	const struct limit_user *top = instance->top;
	unsigned n = instance->n_top;

	for (int i = 0; i < SOURCES && n == 0 && in->row->reader; i++) {
		const struct limit_instances *others = &in->seen->instances[i];

		for (unsigned k = 0; k < others->n && n == 0; k++)
			if (limit_instance_hash(&others->list[k].instance) == hash) {
				top = others->list[k].top;
				n = others->list[k].n_top;
			}
	}
	if (n == 0 && (instance->instance.kind == INSTANCE_NODE || in->row->reader->add_users)) {
		top = in->limit->top;
		n = in->limit->n_top;
		if (pass_of_users(in->seen) < PASSES)
			finding->who_us = in->limits->passes[pass_of_users(in->seen)].at_us;
	}
	finding->knows = WHO_UNKNOWN;
	for (unsigned i = 0; i < n; i++)
		finding_user_add(finding, &top[i]);
}

/* A maximum that was raised since needs only what keeps it. */
static void add_cure(const struct row_input *in, struct finding *finding,
	const struct limit_instance *instance, const struct finding *open)
{
	static const char raised[] = "its maximum is larger now";
	struct limit_instance before = *instance;
	_cleanup_free_ char *now = NULL, *hint = NULL;

	before.is_raised = finding->phase == FINDING_OVER && instance->max > open->worst.max;
	if (before.is_raised) {
		before.max = open->worst.max;
		before.sysctl_value = 0;
	}
	in->row->reader->cure(finding, in->row, &before, in->input, in->limits);
	if (!before.is_raised)
		return;
	now = steal(finding->now);
	hint = steal(finding->hint);
	/* Beside a command, the hint is what keeps its effect. */
	if (now && hint && hint[0])
		must_do(asprintf(&finding->hint, "%s; %s", raised, hint) >= 0);
	else
		finding_hint(finding, "%s", raised);
}

/* A limit that is nearly reached is a warning, unless the row says otherwise. */
static enum severity severity_of(
	const struct limit_row *row, const struct limit_instance *instance, unsigned condition)
{
	const struct limit_reader *reader = row->reader;

	if (reader && reader->is_advice)
		return SEVERITY_ADVICE;
	if (condition == LIMITS_REACHED ||
		(reader && reader->critical > 0 &&
			instance->used * 100 >= instance->max * reader->critical))
		return row->severity;
	return limits_conditions[condition].severity;
}

static void find(const struct row_input *in, const struct limit_instance *instance,
	const struct verdict_of *verdict, const struct finding *open)
{
	const struct limit_row *row = in->row;
	const struct condition_type *condition = &limits_conditions[verdict->condition];
	struct finding *finding = proposal_finding(in->proposal, in->input, condition, REASON_NONE,
		row->name, &instance->instance, verdict->phase);

	if (!finding)
		return;
	finding->unit = row->unit;
	finding->happens = row->reader ? row->reader->happens : NULL;
	finding->breaks = row->breaks;
	finding->counts_hits = counts_hits(row);
	finding->use =
		(struct finding_use){instance->used, instance->max, verdict->hits, instance->at_us};
	finding->severity = severity_of(row, instance, verdict->condition);
	if (verdict->condition == LIMITS_REACHED || verdict->hits > 0)
		finding->hold_us = REACHED_WINDOW_US;
	if (!row->reader || !row->reader->nobody)
		add_users(in, finding, instance);
	add_message(in, finding, instance);
	if (row->reader && row->reader->cure)
		add_cure(in, finding, instance, open);
}

static void judge_instance(const struct row_input *in, const struct limit_instance *instance)
{
	uint64_t hash = limit_instance_hash(&instance->instance);
	struct limit_known *known = find_known(in->memory, hash);
	const struct finding *open = finding_find(in->input, in->row->name, &instance->instance);
	struct verdict_of verdict;

	if (!known)
		known = add_known(in->memory, hash);
	known->seen_us = in->input->now_us;
	verdict = judge_use(in, instance, open, known);
	known->open = open || verdict.phase == FINDING_HAPPENS;
	find(in, instance, &verdict, open);
}

/* A row without instances is about the node. */
static void judge_node(const struct row_input *in)
{
	const struct limit_instance node = {
		.instance.kind = INSTANCE_NODE,
		.used = MAX(in->limit->used, in->limit->peak),
		.max = in->limit->max,
		.hits = in->limit->hits,
	};

	judge_instance(in, &node);
}

/* The node's own instances come from a reader, from the pass over processes or over files. */
static void judge_instances(const struct row_input *in)
{
	for (int i = SOURCES - 1; i >= 0; i--) {
		const struct limit_instances *instances = &in->seen->instances[i];
		bool of_other = i == OF_FILES && in->row->reader->count;

		for (unsigned k = 0; k < instances->n && !of_other; k++)
			judge_instance(in, &instances->list[k]);
		in->proposal->n_left_out += of_other ? 0 : instances->n_left_out;
		if (in->row->reader->read || in->row->reader->sample)
			break;
	}
}

static void judge_row(const struct row_input *in)
{
	struct limit_memory *memory = in->memory;
	struct limit_reading *limit = in->limit;
	bool has_open = false;

	if (in->row->reader && in->row->reader->has_instances)
		judge_instances(in);
	else
		judge_node(in);
	for (size_t i = 0; i < memory->n; i++)
		if (memory->known[i].seen_us != in->input->now_us) {
			memory->known[i].open = false;
			memory->known[i].full_at_us = 0;
		} else {
			has_open |= memory->known[i].open;
		}
	limit->is_quiet =
		in->row->reader && in->row->reader->quiet && limit->used == 0 && !has_open;
	memory->seen = true;
	if (counts_hits(in->row))
		return;
	if (limit->max > 0 && limit->used >= limit->max)
		memory->full_seconds += in->seconds;
	limit->hits = (uint64_t)memory->full_seconds;
}

static void add_lacks(const struct limits *limits, struct proposal *proposal)
{
	const char *separator = ": not watched: ";
	char why[TUNER_WHY_MAX];

	proposal_lack(proposal, LACK_BPF, limits->census_why);
	for (size_t i = 0; i < limits->n && limits->census_why[0]; i++)
		if (limits_needs_bpf(&limits_rows[i])) {
			text_append(proposal->why, TUNER_WHY_MAX, "%s%s", separator,
				limits_rows[i].name);
			separator = ", ";
		}
	if (limits->maps_why[0]) {
		snprintf(why, sizeof(why), "BPF maps are not watched: %.200s", limits->maps_why);
		proposal_lack(proposal, LACK_BPF, why);
	}
	/* Without free files nothing can be counted: file-handles says so. */
	if (limits->pass_error < 0 && limits->pass_error != -ENFILE) {
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

static void take_limit(const struct limit_seen *seen, struct limit_reading *limit)
{
	int pass = pass_of_users(seen);
	const struct limit_reading *users = pass < PASSES ? &seen->users[pass] : &seen->reading;

	*limit = seen->reading;
	limit->top = NULL;
	limit->n_top = 0;
	for (unsigned k = 0; k < users->n_top; k++)
		*limit_add_user(limit) = users->top[k];
	copy_text(limit->name, LIMIT_NAME_MAX, seen->row->name);
	limit->unit = seen->row->unit;
	limit->own_hits = !counts_hits(seen->row) || limits_needs_bpf(seen->row);
	limit->idle = limit->used * 2 <= limit->max;
}

void limits_decide(
	const void *self, const struct decide_input *input, void *data, struct proposal *proposal)
{
	const struct limits *limits = self;
	struct limits_memory *memory = data;
	double seconds = memory->polled_at_us == 0
				 ? 0
				 : (double)(input->now_us - memory->polled_at_us) / USEC_PER_SEC;
	size_t readable = 0;

	if (!memory->rows)
		memory->rows = must(calloc(limits->n + 1, sizeof(*memory->rows)));
	memory->polled_at_us = input->now_us;
	add_lacks(limits, proposal);
	for (size_t i = 0; i < limits->n; i++) {
		const struct limit_seen *seen = &limits->rows[i];
		struct row_input in = {
			limits, seen->row, seen, &memory->rows[i], NULL, input, proposal, seconds};

		/* A row with an unknown use has no hits: no cgroup of the node has a limit. */
		if (seen->error < 0 && limits->counted && limits_needs_bpf(seen->row))
			in.memory->seen = true;
		if (seen->error < 0 || seen->reading.max >= UNLIMITED)
			continue;
		readable++;
		in.limit = proposal_limit(proposal);
		take_limit(seen, in.limit);
		judge_row(&in);
	}
	for (int i = 0; i < 2; i++) {
		struct condition_reading *reading =
			proposal_condition(proposal, &limits_conditions[i], REASON_WITHIN_LIMIT);

		if (readable == 0)
			condition_unknown(reading, REASON_LIMITS_UNREAD);
	}
}
