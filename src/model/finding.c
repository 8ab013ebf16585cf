/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Findings. The parts, in this order: how decide() makes one; the list, which keeps since, until,
 * the worst moment and who it was; the texts and the JSON of one for each medium. Nothing here
 * reads the node.
 */
#include <headroom/finding.h>

#include "base/json.h"
#include "base/text.h"
#include "model/node.h"

/* The users of a worst moment are counted after it: at a later tick, or by the next sample. */
#define USERS_FOLLOW_US (5 * USEC_PER_SEC)
#define NEARLY          0.9 /* of the worst: its users are named if those of the worst are not known */

/* Until then it may go on: what comes and goes every second does not end each time. */
#define ENDED_US (10 * USEC_PER_SEC)

#define KIND_TEXT(name, text) [INSTANCE_##name] = text,
const char *const instance_kind_names[] = {INSTANCE_KINDS_LIST(KIND_TEXT)};

const char *const pressure_names[PRESSURES] = {
	[PRESSURE_IO] = "io", [PRESSURE_CPU] = "cpu", [PRESSURE_MEMORY] = "memory"};

/* ---- making one ---- */

static bool has_key(
	const struct finding *finding, const char *slug, const struct instance *instance)
{
	return streq(finding->slug, slug) && finding->instance.kind == instance->kind &&
	       finding->instance.id == instance->id &&
	       streq(finding->instance.name, instance->name);
}

uint64_t instance_object(const struct instance *instance)
{
	const struct workload *owner = &instance->owner;
	bool is_reused = instance->kind == INSTANCE_NETNS || instance->kind == INSTANCE_MNTNS;
	bool is_known = owner->kind != WORKLOAD_HOST && owner->kind != WORKLOAD_NETNS;
	uint64_t hash = hash_text(HASH_START ^ owner->kind, owner->id[0] ? owner->id : owner->name);

	return is_reused && is_known ? MAX(hash, 1U) : 0;
}

bool is_other_object(uint64_t known, uint64_t now)
{
	return known && now && known != now;
}

static bool is_same(
	const struct finding *finding, const char *slug, const struct instance *instance)
{
	return has_key(finding, slug, instance) &&
	       !is_other_object(instance_object(&finding->instance), instance_object(instance));
}

static const struct instance the_node = {.kind = INSTANCE_NODE};

const struct finding *finding_find(
	const struct decide_input *input, const char *slug, const struct instance *instance)
{
	for (size_t i = 0; i < input->n_findings; i++)
		if (is_same(&input->findings[i], slug, instance ? instance : &the_node))
			return &input->findings[i];
	return NULL;
}

struct finding *proposal_finding(struct proposal *proposal, const struct decide_input *input,
	const struct condition_type *condition, enum reason reason, const char *slug,
	const struct instance *instance, enum finding_phase phase)
{
	struct finding *finding;

	if (!slug)
		slug = reason_rows[reason].slug;
	if (phase == FINDING_OVER && !finding_find(input, slug, instance))
		return NULL;
	if (proposal->n_findings >= FINDINGS_A_TUNER) {
		proposal->n_left_out++;
		return NULL;
	}
	finding = add_element(
		&proposal->findings, &proposal->n_findings, &proposal->findings_allocated);
	set_text(finding->slug, slug);
	finding->condition = condition;
	finding->reason = reason;
	finding->severity = condition->severity;
	finding->is_recorded = condition->is_recorded;
	finding->phase = phase;
	finding->instance = instance ? *instance : the_node;
	return finding;
}

/* The share of a user of its own maximum, if it has one. */
static double user_share(const struct finding *finding, const struct limit_user *user)
{
	uint64_t max = user->max ? user->max : finding->use.max;

	return max > 0 ? (double)user->used / (double)max : 0;
}

void finding_user_add(struct finding *finding, const struct limit_user *user)
{
	unsigned at = 0;
	double share = user_share(finding, user);

	if (user->used == 0)
		return;
	finding->knows = WHO_KNOWN;
	if (!finding->who)
		finding->who = must(calloc(FINDING_USERS_MAX, sizeof(*finding->who)));
	while (at < finding->n_who && (user_share(finding, &finding->who[at]) > share ||
					      (user_share(finding, &finding->who[at]) == share &&
						      finding->who[at].used >= user->used)))
		at++;
	if (at == FINDING_USERS_MAX)
		return;
	finding->n_who = MIN(finding->n_who + 1, (unsigned)FINDING_USERS_MAX);
	memmove(&finding->who[at + 1], &finding->who[at],
		(finding->n_who - at - 1) * sizeof(*finding->who));
	finding->who[at] = *user;
}

/* Foreign text enters a finding here only. */
static void __attribute__((format(printf, 2, 0))) replace_text(
	char **text, const char *format, va_list args)
{
	free(steal(*text));
	must_do(vasprintf(text, format, args) >= 0);
	hide_secrets(*text);
	text_make_printable(*text);
}

void finding_message(struct finding *finding, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	replace_text(&finding->message, format, args);
	va_end(args);
}

void finding_now(struct finding *finding, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	replace_text(&finding->now, format, args);
	va_end(args);
	finding->now_is_edit = false;
}

void finding_edit(struct finding *finding, const char *path, unsigned line, const char *format, ...)
{
	_cleanup_free_ char *what = NULL;
	va_list args;

	va_start(args, format);
	must_do(vasprintf(&what, format, args) >= 0);
	va_end(args);
	if (line > 0)
		finding_now(finding, "%s:%u: %s", path, line, what);
	else
		finding_now(finding, "%s: %s", path, what);
	finding->now_is_edit = true;
}

static void add_needs(struct finding *finding)
{
	_cleanup_free_ char *hint = steal(finding->hint);

	if (finding->needs)
		must_do(asprintf(&finding->hint, "%s%s%s", hint && hint[0] ? hint : "",
				hint && hint[0] ? "; " : "", finding->needs) >= 0);
	else
		finding->hint = steal(hint);
}

void finding_hint(struct finding *finding, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	replace_text(&finding->hint, format, args);
	va_end(args);
	add_needs(finding);
}

unsigned finding_held_by(const struct decide_input *input, const char *writer)
{
	for (size_t i = 0; i < input->n_tuners; i++)
		if (streq(input->tuners[i].ops->name, writer))
			return input->tuners[i].held_by;
	return 0;
}

void finding_keep(struct finding *finding, const struct decide_input *input, const char *writer,
	const char *format, ...)
{
	unsigned held = finding_held_by(input, writer);
	const char *indent = input->config_file ? "" : "  ";
	_cleanup_free_ char *line = NULL;
	char section[FINDING_SLUG_MAX], mode[FINDING_SLUG_MAX + 32] = "";
	size_t joins = 0;
	va_list args;

	va_start(args, format);
	must_do(vasprintf(&line, format, args) >= 0);
	va_end(args);
	snprintf(section, sizeof(section), "%s: {", writer);
	/* A map has a key once: in the section of the writer, its mode is one more key. */
	if (held & HELD_BY_OWN_MODE && starts_with(line, section))
		joins = strlen(section);
	else if (held & HELD_BY_OWN_MODE)
		snprintf(mode, sizeof(mode), "%smode: enforce}\n", section);
	else if (held & HELD_BY_MODE)
		set_text(mode, "mode: enforce\n");
	free(steal(finding->keep));
	free(steal(finding->keep_in));
	must_do(asprintf(&finding->keep, "%s%s%s%s%.*s%s%s", input->config_file ? "" : "config:\n",
			mode[0] ? indent : "", mode, indent, (int)joins, line,
			joins ? "mode: enforce, " : "", line + joins) >= 0);
	finding->keep_in =
		must(strdup(input->config_file ? input->config_file : "the values of the chart"));
	finding->needs = held & HELD_BY_OPTION    ? "start the agent without --observe"
			 : held & HELD_BY_RELEASE ? "headroom apply ends the release"
						  : NULL;
	add_needs(finding);
}

void finding_keep_in(struct finding *finding, const struct decide_input *input, const char *file)
{
	if (!input->config_file || input->config_file[0] != '/')
		return;
	free(steal(finding->keep_in));
	finding->keep_in = must(strdup(file));
}

void finding_release(struct finding *finding)
{
	free(steal(finding->who));
	free(steal(finding->message));
	free(steal(finding->now));
	free(steal(finding->keep));
	free(steal(finding->keep_in));
	free(steal(finding->hint));
}

/* ---- the list ---- */

static double share_of(const struct finding_use *use)
{
	return use->max > 0 ? (double)use->used / (double)use->max : (double)use->used;
}

static void take_users(struct finding *known, struct finding *reading)
{
	free(known->who);
	known->who = steal(reading->who);
	known->n_who = reading->n_who;
	known->who_us = reading->who_us;
	known->knows = reading->knows;
}

static const struct finding_use *worst_of(const struct finding *reading)
{
	return reading->worst.max > 0 ? &reading->worst : &reading->use;
}

/* A namespace whose owner was not known yet. */
static bool is_first_unnamed(const struct finding *finding)
{
	return finding->n_who > 0 && workload_is_unknown_netns(&finding->who[0].workload);
}

/* Returns whether the reading knows whose namespace the first user was. */
static bool names_first(const struct finding *known, const struct finding *reading)
{
	return reading->n_who > 0 && is_first_unnamed(known) && !is_first_unnamed(reading) &&
	       user_share(reading, &reading->who[0]) >= NEARLY * user_share(known, &known->who[0]);
}

/* Keeps the users of the worst moment. */
static void take_worst(struct finding *known, struct finding *reading, uint64_t now)
{
	const struct finding_use *use = worst_of(reading);
	uint64_t at_us = use->at_us ? use->at_us : now;
	double share = share_of(use), worst = share_of(&known->worst);
	bool is_same_moment = at_us == known->worst.at_us;
	bool follows = now - known->worst.at_us <= USERS_FOLLOW_US;
	/* The users were counted before the worst moment, and now again. */
	bool precede = known->who_us && known->who_us < known->worst.at_us &&
		       known->who_us < reading->who_us;
	bool is_larger;

	if (share > worst) {
		known->worst = *use;
		known->worst.at_us = at_us;
		known->unit = reading->unit;
		known->node_pressure = reading->node_pressure;
		known->own_pressure = reading->own_pressure;
		take_users(known, reading);
		return;
	}
	if (reading->n_who == 0)
		return;
	if (names_first(known, reading)) {
		take_users(known, reading);
		return;
	}
	is_larger = known->n_who > 0 &&
		    user_share(known, &known->who[0]) < user_share(reading, &reading->who[0]);
	/*
	 * A pass may count the users when a little less is used again, and an earlier pass may have
	 * counted other users: while as much is used, the larger ones count.
	 */
	if (known->n_who == 0 || precede
			? follows || share >= NEARLY * worst
			: (share >= worst && (is_same_moment || follows || is_larger)) ||
				  (share >= NEARLY * worst && follows && is_larger))
		take_users(known, reading);
}

/* What is true now replaces what was; since, times and the worst moment stay. */
static void take_reading(struct finding *known, struct finding *reading)
{
	char **const texts[][2] = {{&known->message, &reading->message},
		{&known->now, &reading->now}, {&known->keep, &reading->keep},
		{&known->keep_in, &reading->keep_in}, {&known->hint, &reading->hint}};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		free(*texts[i][0]);
		*texts[i][0] = steal(*texts[i][1]);
	}
	known->now_is_edit = reading->now_is_edit;
	known->needs = reading->needs;
	known->use = reading->use;
	known->phase = reading->phase;
	known->severity = reading->severity;
	known->reason = reading->reason;
	known->breaks = reading->breaks;
	known->hold_us = reading->hold_us;
	if (reading->instance.owner.name[0] || reading->instance.owner.id[0])
		known->instance.owner = reading->instance.owner;
}

static bool is_full(const struct finding *finding)
{
	return finding->phase != FINDING_OVER && finding->use.max > 0 &&
	       finding->use.used >= finding->use.max;
}

static void lasts_until(struct finding *finding, const struct finding_clock *clock)
{
	finding->last_us = clock->wall_us;
	finding->last_mono_us = clock->mono_us;
	finding->is_over = false;
}

static int by_weight(const void *a, const void *b)
{
	const struct finding *x = a, *y = b;
	double left = finding_share(x), right = finding_share(y);
	char left_id[FINDING_ID_MAX], right_id[FINDING_ID_MAX];

	if (x->ignored != y->ignored)
		return x->ignored - y->ignored;
	if (x->severity != y->severity)
		return (int)y->severity - (int)x->severity;
	if ((x->phase == FINDING_OVER) != (y->phase == FINDING_OVER))
		return x->phase == FINDING_OVER ? 1 : -1;
	if (left != right)
		return left < right ? 1 : -1;
	if (x->times != y->times)
		return x->times < y->times ? 1 : -1;
	if (x->since_us != y->since_us)
		return x->since_us > y->since_us ? 1 : -1;
	finding_id(x, left_id);
	finding_id(y, right_id);
	return strcmp(left_id, right_id);
}

/* A full list gives the place of its least finding to a worse one. Returns NULL if it has none. */
static struct finding *place_for(struct finding_list *list, const struct finding *reading)
{
	struct finding *least = list->findings;

	if (list->n < FINDINGS_MAX)
		return add_element(&list->findings, &list->n, &list->allocated);
	list->n_left_out++;
	for (size_t i = 1; i < list->n; i++)
		if (by_weight(&list->findings[i], least) > 0)
			least = &list->findings[i];
	if (by_weight(reading, least) >= 0)
		return NULL;
	finding_release(least);
	return least;
}

static struct finding *add_finding(struct finding_list *list, const char *tuner,
	struct finding *reading, const struct finding_clock *clock)
{
	struct finding *finding;

	reading->worst = *worst_of(reading);
	finding = place_for(list, reading);
	if (!finding)
		return NULL;
	*finding = *reading;
	*reading = (struct finding){0};
	finding->tuner = tuner;
	if (finding->worst.at_us == 0)
		finding->worst.at_us = clock->mono_us;
	finding->since_us = clock->is_single ? 0 : clock->wall_us;
	finding->highest = finding->severity;
	finding->times = finding->use.hits;
	return finding;
}

/* Updates an open finding from its reading, or without one. Returns false when its hold ends. */
static bool update(
	struct finding *finding, struct finding *reading, const struct finding_clock *clock)
{
	bool was_full = is_full(finding);

	if (reading) {
		take_reading(finding, reading);
		if (reading->phase != FINDING_OVER)
			take_worst(finding, reading, clock->mono_us);
		/* The maximum was raised before a pass has counted the users. */
		else if (names_first(finding, reading) ||
			 (finding->n_who == 0 && reading->n_who > 0 &&
				 (double)reading->use.used >= NEARLY * (double)finding->worst.used))
			take_users(finding, reading);
		/* The numbers of one text have one unit. */
		if (finding->unit && reading->unit && !streq(finding->unit, reading->unit))
			finding->use.used = finding->use.max = 0;
		if (reading->phase != FINDING_OVER) {
			finding->times += finding->use.hits;
			if (!finding->counts_hits && was_full && is_full(finding))
				finding->full_us += clock->mono_us - finding->last_mono_us;
			lasts_until(finding, clock);
			return true;
		}
	} else {
		free(steal(finding->now));
		free(steal(finding->keep));
		free(steal(finding->keep_in));
		finding->needs = NULL;
		finding->use = (struct finding_use){0};
		finding->phase = FINDING_OVER;
		finding_hint(finding, "it has ended");
	}
	finding->is_over = clock->mono_us - finding->last_mono_us > ENDED_US;
	return clock->mono_us - finding->last_mono_us <
	       (clock->hold_us ? MIN(clock->hold_us, finding->hold_us) : finding->hold_us);
}

static struct finding *reading_of(struct proposal *proposal, const struct finding *known)
{
	for (size_t i = 0; i < proposal->n_findings; i++)
		if (is_same(&proposal->findings[i], known->slug, &known->instance))
			return &proposal->findings[i];
	return NULL;
}

static bool is_other(const struct finding *known, const struct finding *reading)
{
	return reading && reading->phase == FINDING_HAPPENS && reading->condition &&
	       reading->condition != known->condition;
}

static bool begins(const struct finding *reading, const struct finding_clock *clock)
{
	return reading->condition && (reading->phase == FINDING_HAPPENS ||
					     (reading->phase == FINDING_LASTS && clock->is_single));
}

/* Another object has its number now, and a finding. */
static bool is_replaced(const struct finding *known, const struct proposal *proposal,
	const struct finding_clock *clock)
{
	for (size_t i = 0; i < proposal->n_findings; i++) {
		const struct finding *reading = &proposal->findings[i];

		if (has_key(known, reading->slug, &reading->instance) &&
			!is_same(known, reading->slug, &reading->instance) &&
			begins(reading, clock))
			return true;
	}
	return false;
}

static bool is_known(
	const struct finding_list *list, const char *tuner, const struct finding *reading)
{
	for (size_t i = 0; i < list->n; i++)
		if (streq(list->findings[i].tuner, tuner) &&
			is_same(&list->findings[i], reading->slug, &reading->instance))
			return true;
	return false;
}

/* The log names the first user as well as it can. It has a line for each step up. */
enum known_user { USER_UNKNOWN, USER_NETNS, USER_ID, USER_NAME };

static enum known_user known_user_of(const struct finding *finding)
{
	if (finding->knows == WHO_UNKNOWN)
		return USER_UNKNOWN;
	if (is_first_unnamed(finding))
		return USER_NETNS;
	return finding->n_who > 0 && workload_lacks_name(&finding->who[0].workload) ? USER_ID
										    : USER_NAME;
}

void findings_observe(struct finding_list *list, const char *tuner, struct proposal *proposal,
	const struct finding_clock *clock, finding_news_fn *news, void *userdata)
{
	size_t kept = 0;

	for (size_t i = 0; i < list->n; i++) {
		struct finding *finding = &list->findings[i];
		struct finding *reading = reading_of(proposal, finding);
		enum known_user before = known_user_of(finding);

		/* It has become another problem, such as a limit that was nearly reached before. */
		if (streq(finding->tuner, tuner) && is_other(finding, reading)) {
			finding_release(finding);
			continue;
		}
		if (streq(finding->tuner, tuner) &&
			(!update(finding, reading, clock) ||
				is_replaced(finding, proposal, clock))) {
			news(userdata, finding, FINDING_ENDED);
			finding_release(finding);
			continue;
		}
		if (finding->phase != FINDING_OVER && finding->severity > finding->highest) {
			finding->highest = finding->severity;
			news(userdata, finding, FINDING_ROSE);
		} else if (known_user_of(finding) > before) {
			news(userdata, finding, FINDING_NAMED);
		}
		list->findings[kept++] = *finding;
	}
	list->n = kept;
	for (size_t i = 0; i < proposal->n_findings; i++) {
		struct finding *reading = &proposal->findings[i], *added;

		if (!begins(reading, clock) || is_known(list, tuner, reading))
			continue;
		added = add_finding(list, tuner, reading, clock);
		if (!added)
			continue;
		lasts_until(added, clock);
		news(userdata, added, FINDING_BEGAN);
	}
	list->n_left_out += proposal->n_left_out;
}

void findings_name(struct finding_list *list,
	bool (*name)(void *userdata, uint64_t id, struct workload *workload), finding_news_fn *news,
	void *userdata)
{
	for (size_t i = 0; i < list->n; i++) {
		struct finding *finding = &list->findings[i];
		bool named = name(userdata, 0, &finding->instance.owner);

		for (unsigned k = 0; k < finding->n_who; k++) {
			struct limit_user *user = &finding->who[k];
			struct workload workload = user->workload;

			if (!name(userdata, user->id, &workload) ||
				workload_equal(&workload, &user->workload))
				continue;
			user->workload = workload;
			named = true;
		}
		if (named)
			news(userdata, finding, FINDING_NAMED);
	}
}

void findings_sort(struct finding_list *list)
{
	if (list->n > 1)
		qsort(list->findings, list->n, sizeof(*list->findings), by_weight);
}

void findings_clear(struct finding_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		finding_release(&list->findings[i]);
	free(list->findings);
	*list = (struct finding_list){0};
}

/* ---- conditions ---- */

/* A condition lists its findings up to this length, and the number of the others. */
#define MESSAGE_MAX 1000

static void take_findings(const struct finding_list *list, const struct condition_reading *judged,
	struct condition *condition)
{
	char message[MESSAGE_MAX + 64] = "", text[FINDING_TEXT_MAX];
	size_t others = 0, before = 0;

	if (judged->n_failed > 1)
		text_append(message, sizeof(message), "%u failed: ", judged->n_failed);
	before = strlen(message);
	for (size_t i = 0; i < list->n; i++) {
		const struct finding *finding = &list->findings[i];

		if (finding->condition != condition->type || finding->ignored)
			continue;
		finding_text(finding, text, sizeof(text));
		if (message[before] && strlen(message) + strlen(text) + 2 > MESSAGE_MAX)
			others++;
		else
			text_append(message, sizeof(message), "%s%s", message[before] ? "; " : "",
				text);
	}
	if (others > 0)
		text_append(message, sizeof(message), "; and %zu other%s", others,
			others == 1 ? "" : "s");
	condition->message = must(strdup(message));
}

bool findings_judge(const struct finding_list *list, const struct condition_reading *judged,
	struct condition *condition)
{
	enum condition_status before = condition->status;
	const struct finding *first = NULL, *ignored = NULL;

	for (size_t i = 0; i < list->n && !first; i++)
		if (list->findings[i].condition == condition->type) {
			if (list->findings[i].ignored)
				ignored = &list->findings[i];
			else
				first = &list->findings[i];
		}
	free(steal(condition->message));
	condition->severity = first ? first->severity : SEVERITY_ADVICE;
	if (first) {
		condition->status = CONDITION_TRUE;
		condition->reason = first->reason;
		set_text(condition->slug, finding_reason(first));
		take_findings(list, judged, condition);
	} else {
		condition->status = ignored ? CONDITION_FALSE : judged->status;
		condition->reason = ignored ? REASON_IGNORED : judged->reason;
		set_text(condition->slug, reason_rows[condition->reason].slug);
		condition->message = must(strdup(ignored ? "" : judged->message));
	}
	return condition->status != before;
}

/* ---- texts ---- */

void finding_id(const struct finding *finding, char id[static FINDING_ID_MAX])
{
	const struct instance *instance = &finding->instance;
	/* A cgroup has several programs, a namespace several pairs of addresses, a disk workloads.
	 */
	bool has_parts = instance->kind == INSTANCE_PROCESS || instance->kind == INSTANCE_DEVICE ||
			 (instance->kind == INSTANCE_NETNS && strchr(instance->name, ' '));

	snprintf(id, FINDING_ID_MAX, "%s", finding->slug);
	if (instance->kind == INSTANCE_NODE)
		return;
	text_append(id, FINDING_ID_MAX, "@%s:", instance_kind_names[instance->kind]);
	if (instance->id)
		text_append(id, FINDING_ID_MAX, "%" PRIu64, instance->id);
	if (has_parts || !instance->id)
		text_append(id, FINDING_ID_MAX, "%s%s", instance->id ? "/" : "", instance->name);
}

const char *finding_reason(const struct finding *finding)
{
	return finding->reason == REASON_NONE ? finding->slug : reason_rows[finding->reason].slug;
}

double finding_share(const struct finding *finding)
{
	return finding->worst.max > 0 ? share_of(&finding->worst) : 0;
}

void instance_describe(const struct instance *instance, char *text, size_t size)
{
	char owner[WORKLOAD_TEXT_MAX] = "";
	const char *name = instance->name;
	bool is_owned = instance->owner.kind != WORKLOAD_HOST;

	text[0] = '\0';
	if (is_owned)
		workload_describe(&instance->owner, owner, sizeof(owner));
	switch (instance->kind) {
	case INSTANCE_NODE:
	case INSTANCE_KINDS:
		return;
	case INSTANCE_UID:
		snprintf(text, size, "uid %" PRIu64, instance->id);
		return;
	case INSTANCE_CGROUP:
	case INSTANCE_NETNS:
	case INSTANCE_MNTNS:
		/* The name is a path or a number, so the owner says more. */
		if (is_owned)
			copy_text(text, size, owner);
		else if (name[0])
			copy_text(text, size, name);
		else
			snprintf(text, size, "%s %" PRIu64, instance_kind_names[instance->kind],
				instance->id);
		return;
	case INSTANCE_BPF_MAP:
		/* A program may make several maps of one name. */
		snprintf(text, size, "map %s%s(id %" PRIu64 ")", name, name[0] ? " " : "",
			instance->id);
		return;
	case INSTANCE_PROCESS:
		snprintf(text, size, "process %s%s%s", name, is_owned ? " of " : "", owner);
		return;
	default:
		snprintf(text, size, "%s%s%s", name, is_owned ? " of " : "", owner);
	}
}

void finding_about(const struct finding *finding, char *text, size_t size)
{
	instance_describe(&finding->instance, text, size);
	if (strstr(finding->slug, text))
		text[0] = '\0';
}

static void append_times(const struct finding *finding, char *text, size_t size)
{
	const char *happens = finding->happens ? finding->happens : "reached";
	char duration[TIME_TEXT_MAX];

	if (finding->times > 0 && finding->hits_are_seconds)
		text_append(text, size, "%s%s for %" PRIu64 " s", text[0] ? ", " : "", happens,
			finding->times);
	else if (finding->times > 0)
		text_append(text, size, "%s%s %" PRIu64 " %s", text[0] ? ", " : "", happens,
			finding->times, finding->times == 1 ? "time" : "times");
	if (finding->times == 0 && finding->full_us >= USEC_PER_SEC) {
		duration_text((double)finding->full_us / USEC_PER_SEC, duration);
		text_append(text, size, "%sfull for %s", text[0] ? ", " : "", duration);
	}
}

/* The numbers after a message have room. */
#define MESSAGE_SHOWN_MAX (FINDING_TEXT_MAX * 3 / 4)

static void append_message(const char *message, char *text, size_t size)
{
	_cleanup_free_ char *shown = must(strdup(message));

	text_cut(shown, MESSAGE_SHOWN_MAX);
	text_append(text, size, "%s%s", text[0] ? ": " : "", shown);
}

void finding_describe(const struct finding *finding, char *text, size_t size)
{
	char use[USE_MAX], end[TIME_TEXT_MAX];

	text[0] = '\0';
	if (finding->unit) {
		if (finding->worst.max + finding->worst.used > 0)
			copy_text(text, size,
				use_text((double)finding->worst.used, (double)finding->worst.max,
					finding->unit, use));
		append_times(finding, text, size);
	}
	if (finding->message && finding->message[0])
		append_message(finding->message, text, size);
	if (finding->is_over) {
		time_text(finding->last_us, end);
		text_append(
			text, size, "%suntil %.5s UTC", text[0] ? ", " : "", strchr(end, 'T') + 1);
	}
	if (finding->unit && finding->use.max > 0 && finding->use.used != finding->worst.used)
		text_append(text, size, "; now %s",
			bare_amount_text((double)finding->use.used, finding->unit, use));
}

void finding_describe_user(const struct finding *finding, unsigned i, char *text, size_t size)
{
	const struct limit_user *user = &finding->who[i];
	uint64_t max = user->max ? user->max : finding->worst.max;
	char amount[AMOUNT_MAX], share[SHARE_MAX];

	workload_describe(&user->workload, text, size);
	if (user->detail[0])
		text_append(text, size, ", %s%s", user->detail, finding->unit ? "," : "");
	if (!finding->unit) /* the detail has the numbers */
		return;
	text_append(text, size, " %s", bare_amount_text((double)user->used, finding->unit, amount));
	if (max > 0)
		text_append(
			text, size, " (%s)", share_text((double)user->used / (double)max, share));
}

/* Two users with the same use are both named. */
static unsigned n_first(const struct finding *finding)
{
	unsigned n = MIN(finding->n_who, 1U);

	while (n > 0 && n < finding->n_who && finding->who[n].used == finding->who[0].used &&
		finding->who[n].max == finding->who[0].max)
		n++;
	return n;
}

void finding_text(const struct finding *finding, char *text, size_t size)
{
	char part[FINDING_TEXT_MAX], whole[4 * FINDING_TEXT_MAX];

	set_text(whole, finding->slug);
	finding_about(finding, part, sizeof(part));
	if (part[0])
		text_append(whole, sizeof(whole), ": %s", part);
	finding_describe(finding, part, sizeof(part));
	if (part[0])
		text_append(whole, sizeof(whole), ": %s", part);
	for (unsigned i = 0; i < n_first(finding); i++) {
		finding_describe_user(finding, i, part, sizeof(part));
		text_append(whole, sizeof(whole), "; %s", part);
	}
	if (finding->knows == WHO_UNKNOWN)
		text_append(whole, sizeof(whole), "; by whom is not known");
	text_cut(whole, size - 1);
	copy_text(text, size, whole);
}

/* ---- JSON ---- */

static void instance_json(cJSON *parent, const struct instance *instance)
{
	cJSON *object = json_object(parent, "instance");
	char text[FINDING_TEXT_MAX], id[24] = "";

	json_text(object, "kind", instance_kind_names[instance->kind]);
	json_text(object, "name", instance->name);
	if (instance->id)
		snprintf(id, sizeof(id), "%" PRIu64, instance->id);
	json_text(object, "id", id);
	instance_describe(instance, text, sizeof(text));
	json_text(object, "text", text);
}

static void who_json(cJSON *parent, const struct finding *finding)
{
	cJSON *array = json_array(parent, "who");

	for (unsigned i = 0; i < finding->n_who; i++) {
		const struct limit_user *user = &finding->who[i];
		uint64_t max = user->max ? user->max : finding->worst.max;
		cJSON *object = json_append(array);
		char text[FINDING_TEXT_MAX];

		workload_json(object, &user->workload);
		json_text(object, "detail", user->detail);
		json_number(object, "used", (double)user->used);
		if (max > 0)
			json_number(object, "share", (double)user->used / (double)max);
		else
			json_null(object, "share");
		finding_describe_user(finding, i, text, sizeof(text));
		json_text(object, "text", text);
	}
	if (finding->knows == WHO_NOBODY)
		json_null(parent, "who_known");
	else
		json_bool(parent, "who_known", finding->knows == WHO_KNOWN);
}

static void use_json(cJSON *object, const struct finding *finding, const struct finding_use *use)
{
	if (finding->unit && (use->max > 0 || use->used > 0))
		json_number(object, "used", (double)use->used);
	else
		json_null(object, "used");
	if (finding->unit && use->max > 0)
		json_number(object, "max", (double)use->max);
	else
		json_null(object, "max");
}

/* Adds a member, and appends "node: io 61 %, cpu 4 %". */
static void add_pressure(cJSON *object, const char *member, const char *name,
	const struct pressure *pressure, char *text, size_t size)
{
	const char *before = text[0] ? "; " : "";
	cJSON *numbers = json_object(object, member);

	for (enum pressure_kind i = 0; i < PRESSURES; i++) {
		char share[SHARE_MAX];

		if (!pressure->is_known[i]) {
			json_null(numbers, pressure_names[i]);
			continue;
		}
		json_number(numbers, pressure_names[i], pressure->some[i]);
		text_append(text, size, "%s%s%s%s %s", before, name, name[0] ? ": " : "",
			pressure_names[i], share_text(pressure->some[i], share));
		before = ", ";
		name = "";
	}
}

/* A finding of slowness has it. The numbers are of its worst moment. */
static void pressure_json(cJSON *object, const struct finding *finding)
{
	const struct workload *owner = &finding->instance.owner;
	char name[WORKLOAD_TEXT_MAX] = "the agent", text[2 * FINDING_TEXT_MAX] = "";
	bool is_known = false;

	for (enum pressure_kind i = 0; i < PRESSURES; i++)
		is_known |= finding->node_pressure.is_known[i] || finding->own_pressure.is_known[i];
	if (!is_known)
		return;
	object = json_object(object, "pressure");
	if (workload_name(owner)[0])
		workload_describe(owner, name, sizeof(name));
	add_pressure(object, "node", "node", &finding->node_pressure, text, sizeof(text));
	add_pressure(object, "cgroup", name, &finding->own_pressure, text, sizeof(text));
	json_text(object, "text", text);
}

void finding_json(cJSON *array, const struct finding *finding)
{
	cJSON *object = json_append(array);
	char text[FINDING_TEXT_MAX], id[FINDING_ID_MAX];

	json_text(object, "slug", finding->slug);
	finding_id(finding, id);
	json_text(object, "id", id);
	json_text(object, "severity", severity_names[finding->severity]);
	json_text(object, "condition", finding->condition->name);
	json_text(object, "reason", finding_reason(finding));
	instance_json(object, &finding->instance);
	use_json(object, finding, &finding->worst);
	json_text(object, "unit", finding->unit);
	json_time(object, "since", finding->since_us);
	json_time(object, "until", finding->is_over ? finding->last_us : 0);
	json_number(object, "times", (double)finding->times);
	/* These words follow the number of times: "3 refused", "3 s over". */
	snprintf(text, sizeof(text), "%s%s", finding->hits_are_seconds ? "s " : "",
		finding->happens ? finding->happens : "reached");
	json_text(object, "happens", text);
	who_json(object, finding);
	pressure_json(object, finding);
	finding_describe(finding, text, sizeof(text));
	json_text(object, "message", text);
	finding_text(finding, text, sizeof(text));
	json_text(object, "text", text);
	json_text(object, "breaks", finding->breaks);
	json_text(object, "now", finding->now);
	json_text(object, "now_kind",
		!finding->now          ? ""
		: finding->now_is_edit ? "edit"
				       : "command");
	json_text(object, "keep", finding->keep);
	json_text(object, "keep_in", finding->keep_in);
	json_text(object, "hint", finding->hint);
	use_json(json_object(object, "current"), finding, &finding->use);
	json_bool(object, "ignored", finding->ignored);
	json_text(object, "tuner", finding->tuner);
}
