/* SPDX-License-Identifier: Apache-2.0 */
#include "report/report.h"

#include "base/build.h"
#include "base/log.h"
#include "tuners/table.h"

#define STATUS_SCHEMA 1

static void add_text_or_null(cJSON *object, const char *key, const char *text)
{
	if (text && text[0])
		json_public(object, key, text);
	else
		json_null(object, key);
}

static void add_users(cJSON *limit, const char *key, const struct limit_user *users, unsigned n)
{
	cJSON *array = json_array(limit, key);

	for (unsigned i = 0; i < n; i++) {
		cJSON *user = json_append(array);

		workload_json(user, &users[i].workload);
		json_number(user, "used", (double)users[i].used);
		if (users[i].detail[0])
			json_text(user, "detail", users[i].detail);
	}
}

static void add_limit(cJSON *array, const struct node *node, const struct limit *limit)
{
	cJSON *object = json_append(array);
	double full = limit_full_in_seconds(limit);

	json_text(object, "name", limit->now.name);
	json_number(object, "used", (double)limit->now.used);
	if (limit->now.max > 0)
		JSON_NUMBERS(object, {"max", (double)limit->now.max},
			{"headroom", limit_headroom(limit)});
	else
		json_null(object, "max"), json_null(object, "headroom");
	json_text(object, "unit", limit->now.unit);
	json_number(object, "peak", (double)limit->peak.used);
	json_time(object, "peak_at", limit->peak.wall_us);
	add_users(object, "peak_top", limit->peak.top, limit->peak.n_top);
	JSON_NUMBERS(object, {"hits", (double)limit->now.hits},
		{"hits_before", (double)limit->hits_before});
	json_text(object, "severity", verdict_names[limit_verdict(node, limit)]);
	json_text(object, "bound", limit->now.upper_bound ? "upper" : "exact");
	if (full < 0)
		json_null(object, "full_in_seconds");
	else
		json_number(object, "full_in_seconds", full);
	history_json(object, &limit->history);
	add_users(object, "top", limit->now.top, limit->now.n_top);
}

/* Ranks critical and failed rows first, then warnings, then advice. */
static double tone_rank(const cJSON *row, const void *)
{
	const char *severity = json_text_at(row, "severity"), *status = json_text_at(row, "status");
	enum tone tone = tone_of(severity[0] ? severity : json_text_at(row, "state"));
	bool is_condition = status[0];

	return is_condition && !streq(status, "True") ? 0
	       : tone == TONE_BAD                     ? 3
	       : tone == TONE_WARNING                 ? 2
						      : is_condition;
}

static void findings_json(cJSON *root, const struct node *node)
{
	cJSON *findings = json_array(root, "findings");

	for (size_t i = 0; i < node->findings.n; i++)
		finding_json(findings, &node->findings.findings[i]);
}

static void add_lists(cJSON *root, const struct node *node)
{
	cJSON *limits = json_array(root, "limits");
	cJSON *settings = json_array(root, "settings");
	cJSON *conditions = json_array(root, "conditions");
	cJSON *tuners = json_array(root, "tuners");
	for (size_t i = 0; i < node->n_limits; i++)
		add_limit(limits, node, &node->limits[i]);
	for (size_t i = 0; i < node->n_settings; i++) {
		const struct setting *setting = &node->settings[i];
		cJSON *object = json_append(settings);

		json_text(object, "name", setting->name);
		json_text(object, "tuner", setting->tuner);
		json_text(object, "mode", mode_names[setting->mode]);
		json_public(object, "wanted", setting->wanted);
		json_public(object, "actual", setting->actual);
		json_public(object, "original", setting->original);
		json_text(object, "state", setting_state_names[setting->state]);
		json_text(object, "reason", reason_rows[setting->reason].slug);
		json_text(object, "why", setting->why);
		json_time(object, "since", setting->since_us);
	}
	for (size_t i = 0; i < node->n_conditions; i++) {
		const struct condition *condition = &node->conditions[i];
		bool is_true = condition->status == CONDITION_TRUE;
		cJSON *object = json_append(conditions);

		json_text(object, "type", condition->type->name);
		json_text(object, "status", condition_status_names[condition->status]);
		json_text(object, "severity",
			severity_names[is_true ? condition->severity : condition->type->severity]);
		json_text(object, "reason", condition->slug);
		json_text(object, "message", condition->message);
		json_time(object, "since", condition->since_us);
	}
	for (size_t i = 0; i < node->n_tuners; i++) {
		const struct tuner_status *tuner = &node->tuners[i];
		cJSON *object = json_append(tuners), *held_by;

		json_text(object, "name", tuner->ops->name);
		json_text(object, "mode", mode_names[tuner->mode]);
		held_by = json_array(object, "held_by");
		for (unsigned held = 1; held < HELD_BY_END; held <<= 1)
			if (tuner->held_by & held)
				json_append_text(held_by, held_by_name(held));
		json_time(object, "since", tuner->since_us);
		json_text(object, "state", tuner_state_names[tuner->state]);
		json_text(object, "why", tuner->why);
	}
	findings_json(root, node);
	json_sort(limits, tone_rank, NULL);
	json_sort(settings, tone_rank, NULL);
	json_sort(conditions, tone_rank, NULL);
	json_sort(tuners, tone_rank, NULL);
}

cJSON *report_status(const struct node *node, bool trusted)
{
	cJSON *root = cJSON_CreateObject(), *about, *list;
	struct log_event events[LOG_EVENTS];
	size_t n_events = log_recent(events);

	json_number(root, "schema", STATUS_SCHEMA);
	about = json_object(root, "node");
	json_text(about, "name", node->name);
	json_text(about, "version", HEADROOM_VERSION);
	json_text(about, "commit", HEADROOM_COMMIT);
	json_time(about, "started", node->started_us);
	json_text(about, "verdict", verdict_names[node_verdict(node)]);
	json_bool(about, "applied", node->applied);
	json_number(about, "would_change", (double)node_would_change(node));
	json_number(about, "findings_left_out", (double)node->findings.n_left_out);
	add_lists(root, node);
	list = json_array(root, "events");
	for (size_t i = 0; i < n_events; i++) {
		cJSON *object = json_append(list);

		json_time(object, "time", events[i].at_us);
		json_text(object, "level", log_level_names[events[i].level]);
		json_text(object, "text", events[i].text);
	}
	json_adopt(root, "incidents",
		node->incidents ? cJSON_Duplicate(node->incidents, true) : cJSON_CreateArray());
	for (size_t i = 0; i < node->n_tuners; i++) {
		const struct tuner_status *tuner = &node->tuners[i];

		if (tuner->ops->document && tuner->self)
			json_adopt(root, tuner->ops->name,
				tuner->ops->document(tuner->self, tuner->memory, trusted));
	}
	/* The document has a member for each tuner that has data even if it is off. */
	for (size_t i = 0; tuner_table[i]; i++) {
		const struct table_view *view = tuner_table[i]->tables->view;
		const char *name = tuner_table[i]->name;

		list = cJSON_GetObjectItem(root, name);
		if (!view && tuner_table[i]->document && !list)
			json_null(root, name);
		if (!view)
			continue;
		if (list)
			json_sort(view->rows[0] ? cJSON_GetObjectItem(list, view->rows) : list,
				tone_rank, NULL);
		else if (view->rows[0])
			json_null(root, name);
		else
			json_array(root, name);
	}
	return root;
}

cJSON *report_health(const struct node *node)
{
	cJSON *root = cJSON_CreateObject();
	cJSON *checks;

	json_text(root, "status", verdict_names[node_verdict(node)]);
	checks = json_array(root, "checks");
	for (size_t i = 0; i < node->n_conditions; i++) {
		const struct condition *condition = &node->conditions[i];
		cJSON *check = json_append(checks);

		json_text(check, "type", condition->type->name);
		json_text(check, "status", verdict_names[condition_verdict(condition)]);
		json_text(check, "reason", condition->slug);
		json_text(check, "message", condition->message);
	}
	findings_json(root, node);
	json_number(root, "schema", STATUS_SCHEMA);
	return root;
}

/* Writes ": TEXT" on one line; an empty text writes nothing. */
static void put_part(FILE *out, const char *text)
{
	_cleanup_free_ char *line = must(strdup(text));

	text_make_printable(line);
	if (line[0])
		fprintf(out, ": %s", line);
}

void report_ready(FILE *out, const struct node *node)
{
	char since[TIME_TEXT_MAX];

	fputs(node->applied ? "[+] applied\n" : "[-] applied: the first apply is not done yet\n",
		out);
	if (node->newer[0]) {
		fputs("[-] records", out);
		put_part(out, node->newer);
		fputc('\n', out);
	}
	if (node->is_last_good) {
		fputs("[-] configuration: it has a fault, so the last good one is in use", out);
		for (size_t i = 0; i < node->findings.n; i++) {
			const struct finding *finding = &node->findings.findings[i];

			if (finding->reason != REASON_CONFIG_FAULT)
				continue;
			put_part(out, finding->instance.name);
			put_part(out, finding->message);
		}
		fputc('\n', out);
	}
	for (size_t i = 0; i < node->n_tuners; i++) {
		const struct tuner_status *tuner = &node->tuners[i];
		bool off = tuner->mode == MODE_OFF;

		fprintf(out, "[%c] %s: %s", !off && tuner->state == TUNER_DEGRADED ? '~' : '+',
			tuner->ops->name, off ? "off" : tuner_state_names[tuner->state]);
		if (tuner->mode == MODE_RELEASED) {
			time_text(tuner->since_us, since);
			fprintf(out, ", released since %s", since);
		}
		put_part(out, off ? "" : tuner->why);
		fputc('\n', out);
	}
	fputs(node_is_ready(node) ? "ready\n" : "not ready\n", out);
}

/* Appends the worst problems by slug and instance: their numbers would change the line often. */
static void append_problems(const struct node *node, char line[static STATUS_LINE_MAX])
{
	const char *between = ": ";
	size_t n = 0, listed = 0;

	for (size_t i = 0; i < node->findings.n; i++) {
		const struct finding *finding = &node->findings.findings[i];
		char instance[FINDING_TEXT_MAX];

		if (finding->ignored || finding->severity == SEVERITY_ADVICE)
			continue;
		finding_about(finding, instance, sizeof(instance));
		n++;
		if (strlen(line) + strlen(finding->slug) + strlen(instance) > STATUS_LINE_MAX / 2)
			continue;
		text_append(line, STATUS_LINE_MAX, "%s%s%s%s", between, finding->slug,
			instance[0] ? " " : "", instance);
		between = ", ";
		listed++;
	}
	if (n > listed)
		text_append(line, STATUS_LINE_MAX, listed > 0 ? " and %zu more" : ": %zu problems",
			n - listed);
}

void report_line(const struct node *node, char line[static STATUS_LINE_MAX])
{
	char share[SHARE_MAX];
	size_t synced = 0;

	for (size_t i = 0; i < node->n_settings; i++)
		synced += setting_in_sync(&node->settings[i]);
	copy_text(line, STATUS_LINE_MAX, verdict_names[node_verdict(node)]);
	append_problems(node, line);
	text_append(
		line, STATUS_LINE_MAX, "; %zu of %zu settings in sync", synced, node->n_settings);
	if (node_would_change(node) > 0)
		text_append(line, STATUS_LINE_MAX, "; %zu would change", node_would_change(node));
	for (size_t i = 0; i < node->n_tuners; i++)
		if (node->tuners[i].mode == MODE_RELEASED)
			text_append(
				line, STATUS_LINE_MAX, "; %s released", node->tuners[i].ops->name);
	/* Whole percents, and no limits with much room, so that the line changes rarely. */
	for (size_t i = 0; i < node->n_limits; i++)
		if (node->limits[i].now.max > 0 && limit_headroom(&node->limits[i]) < 0.5)
			text_append(line, STATUS_LINE_MAX, "; %s %s used", node->limits[i].now.name,
				share_text((double)node->limits[i].now.used /
						   (double)node->limits[i].now.max,
					share));
	text_make_printable(line);
}

enum tone tone_of(const char *word)
{
	static const struct {
		enum tone tone;
		const char *words[8];
	} tones[] = {
		{TONE_GOOD, {"ok", "in-sync", "active", "OK", "answers", "ready"}},
		{TONE_WARNING, {"warning", "pending", "drifted", "yielded", "degraded", "silent",
				       STATE_WOULD_CHANGE}},
		{TONE_BAD, {"critical", "failed", "error"}},
	};

	for (size_t i = 0; i < ARRAY_SIZE(tones); i++)
		for (size_t k = 0; tones[i].words[k]; k++)
			if (streq(tones[i].words[k], word))
				return tones[i].tone;
	return TONE_FAINT;
}

bool has_problem(const cJSON *row)
{
	enum tone tone = tone_of(json_text_at(row, "severity"));

	return tone == TONE_WARNING || tone == TONE_BAD;
}

bool condition_is_absent(const cJSON *row)
{
	enum reason reason = reason_parse(json_text_at(row, "reason"));

	return reason_rows[reason].absent || reason == REASON_TUNER_OFF;
}

bool condition_is_listed(const cJSON *row)
{
	return !streq(json_text_at(row, "status"), "False") && !condition_is_absent(row);
}

const char *condition_word(const cJSON *row, const char *word)
{
	return streq(word, "True")    ? json_text_at(row, "severity")
	       : streq(word, "False") ? "OK"
				      : word;
}

const char *finding_word(const cJSON *finding)
{
	return cJSON_IsTrue(json_at(finding, "ignored")) ? "ignored"
							 : json_text_at(finding, "severity");
}

const char *finding_instance(const cJSON *finding)
{
	const char *text = json_text_at(finding, "instance/text");

	return strstr(json_text_at(finding, "slug"), text) ? "" : text;
}

int finding_first_users(const cJSON *finding)
{
	const cJSON *who = json_at(finding, "who"), *first = json_at(who, "0"), *user;
	int n = 0;

	cJSON_ArrayForEach (user, who) {
		if (json_number_at(user, "used") != json_number_at(first, "used") ||
			json_number_at(user, "share") != json_number_at(first, "share"))
			break;
		n++;
	}
	return n;
}

bool finding_lacks_user(const cJSON *finding)
{
	return cJSON_IsFalse(json_at(finding, "who_known"));
}

const cJSON *finding_of(const cJSON *status, const char *slug)
{
	const cJSON *finding;

	cJSON_ArrayForEach (finding, json_at(status, "findings"))
		if (streq(json_text_at(finding, "slug"), slug))
			return finding;
	return NULL;
}

cJSON *report_plan(const struct plan *plan, bool done)
{
	cJSON *root = cJSON_CreateObject(), *changes;
	size_t failed = 0;

	json_number(root, "schema", STATUS_SCHEMA);
	changes = json_array(root, "changes");

	for (size_t i = 0; i < plan->n; i++) {
		const struct change *change = &plan->changes[i];
		bool bad = done && (change->error < 0 || change->lost);
		cJSON *object = json_append(changes);

		json_text(object, "name", change->name);
		json_text(object, "tuner", change->tuner);
		json_public(object, "old", change->old);
		if (change->left)
			json_null(object, "new");
		else
			json_public(object, "new", change->new);
		add_text_or_null(object, "actual", done ? change->actual : NULL);
		json_text(object, "reason", reason_rows[change->reason].slug);
		add_text_or_null(object, "error",
			!bad          ? NULL
			: change->why ? change->why
				      : strerror(-change->error));
		add_text_or_null(object, "note", bad ? NULL : change->why);
		add_text_or_null(object, "cost", change->cost);
		failed += bad;
	}
	json_number(root, "failed", (double)failed);
	return root;
}
