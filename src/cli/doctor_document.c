/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/doctor.h"

#include "cli/cli.h"
#include "report/report.h"
#include "tuners/table.h"

#include <fnmatch.h>

#define WHO_MAX          3
#define CONFIG_FILE_NAME "/etc/headroom/headroom.yaml"

/* In the order of the document. */
static const char *const statuses[] = {
	"critical", "warning", "unknown", "ignored", "advice", "ok", "absent"};

static bool is_ignored(const cJSON *ignore, const char *name)
{
	const cJSON *item;

	cJSON_ArrayForEach (item, ignore)
		if (name && fnmatch(item->valuestring, name, 0) == 0)
			return true;
	return false;
}

/*
 * Writes the configuration that keeps the cure, from the option of a row: "limits.raise: pids;
 * sysctl, kernel.pid_max". The first way is the simplest one.
 */
static void write_keep(const char *option, double max, char *text, size_t size)
{
	int len = option ? (int)strcspn(option, ";") : 0;

	text[0] = '\0';
	if (len == 0)
		return;
	if (starts_with(option, "limits.raise: "))
		snprintf(text, size, "limits: {raise: [%.*s]}", len - 14, option + 14);
	else if (starts_with(option, "sysctl, ") && max > 0 && !strstr(option, "range") &&
		 !strstr(option, "tcp_mem")) /* one number */
		snprintf(text, size, "sysctl: {%.*s: %.0f}", len - 8, option + 8, 2 * max);
	else
		snprintf(text, size, "%.*s", len, option);
	text_append(text, size, " in " CONFIG_FILE_NAME);
}

static void add_who(cJSON *object, const cJSON *top, const char *unit)
{
	cJSON *list = json_array(object, "who");
	const cJSON *user;

	cJSON_ArrayForEach (user, top) {
		const char *detail = json_text_at(user, "detail");
		char text[512], amount[AMOUNT_MAX];

		if (cJSON_GetArraySize(list) == WHO_MAX)
			return;
		snprintf(text, sizeof(text), "%s%s%s with %s", json_text_at(user, "workload/text"),
			detail[0] ? ", " : "", detail,
			amount_text(json_number_at(user, "used"), unit, amount));
		json_append_text(list, text);
	}
}

void doctor_add(cJSON *document, const cJSON *ignore, const struct doctor_finding *finding)
{
	cJSON *object = json_append(cJSON_GetObjectItem(document, "checks"));
	bool ignored =
		(is_ignored(ignore, finding->name) || is_ignored(ignore, finding->condition)) &&
		!streq(finding->status, "absent");
	char keep[256], explain[256];

	write_keep(finding->option, finding->max, keep, sizeof(keep));
	json_text(object, "name", finding->name);
	json_text(object, "kind", finding->kind);
	json_text(object, "status", ignored ? "ignored" : finding->status);
	json_text(object, "message", finding->message);
	json_text(object, "since", finding->since);
	add_who(object, finding->top, finding->unit ? finding->unit : "");
	json_text(object, "breaks", finding->breaks);
	if (!finding->now)
		snprintf(explain, sizeof(explain), "headroom explain %s", finding->name);
	json_text(object, "now", finding->now ? finding->now : explain);
	json_text(object, "keep", keep);
}

/* Returns NULL in a single reading: it cannot tell since when. */
static const char *since(const cJSON *status, const cJSON *condition)
{
	return cJSON_IsTrue(json_at(status, "node/applied")) ? json_text_at(condition, "since")
							     : NULL;
}

static const cJSON *find_condition(const cJSON *status, const char *type)
{
	const cJSON *condition;

	cJSON_ArrayForEach (condition, json_at(status, "conditions"))
		if (streq(json_text_at(condition, "type"), type))
			return condition;
	return NULL;
}

static void describe_use(const cJSON *limit, char *text, size_t size)
{
	const cJSON *full = json_at(limit, "full_in_seconds");
	const char *unit = json_text_at(limit, "unit");
	double used = json_number_at(limit, "used"), max = json_number_at(limit, "max");
	char use[USE_MAX], share[SHARE_MAX];

	if (max > 0)
		snprintf(text, size, "%s, %s", use_text(used, max, unit, use),
			share_text(used / max, share));
	else
		snprintf(text, size, "reached; no maximum is known");
	if (cJSON_IsNumber(full)) {
		duration_text(full->valuedouble, use);
		text_append(text, size, ", full in %s", use);
	}
}

/*
 * Writes the condition's message if it is about this limit, without the limit's name and the text
 * of `breaks`; else the limit's use.
 */
static void describe_limit(
	const cJSON *limit, const cJSON *condition, struct doctor_finding *finding)
{
	const char *message = json_text_at(condition, "message"), *other;
	size_t len = strlen(finding->name);
	char *end;

	if (!starts_with(message, finding->name) || !starts_with(message + len, ": ")) {
		describe_use(limit, finding->message, sizeof(finding->message));
		return;
	}
	set_text(finding->message, message + len + 2);
	end = finding->breaks ? strstr(finding->message, finding->breaks) : NULL;
	/* "who" has the user of this moment. The names of further limits follow, and each has a
	 * check. */
	other = strstr(finding->message, "; the largest user is ");
	if (!other && !end)
		other = strchr(finding->message, ';');
	if (other)
		finding->message[other - finding->message] = '\0';
	else if (end && end >= finding->message + 2)
		end[-2] = '\0';
}

/* A limit is a problem while a condition about it is True: status and health say the same. */
static void add_limits(cJSON *document, const cJSON *status, const cJSON *ignore)
{
	const cJSON *limit;

	cJSON_ArrayForEach (limit, json_at(status, "limits")) {
		const cJSON *name = json_at(limit, "condition");
		const cJSON *condition =
			cJSON_IsString(name) ? find_condition(status, name->valuestring) : NULL;
		struct doctor_finding finding = {
			.name = json_text_at(limit, "name"), .kind = "limit", .status = "ok"};
		const struct limit_row *row = limit_row_find(finding.name);
		const struct condition_type *type;

		if (row) {
			finding.breaks = row->breaks;
			finding.now = row->now;
			finding.option = row->option;
			finding.max = json_number_at(limit, "max");
		}
		if (streq(json_text_at(condition, "status"), "True")) {
			finding.condition = name->valuestring;
			finding.status = json_text_at(condition, "severity");
			/* A condition has the severity of the worst of its limits. */
			if (row && row->severity == SEVERITY_WARNING &&
				streq(finding.status, "critical"))
				finding.status = "warning";
			finding.since = since(status, condition);
			finding.top = json_at(limit, "top");
			finding.unit = json_text_at(limit, "unit");
			type = condition_type_find(finding.condition);
			if (type && !finding.now)
				finding.now = type->now;
			if (type && !finding.breaks)
				finding.breaks = type->help;
			describe_limit(limit, condition, &finding);
		} else {
			describe_use(limit, finding.message, sizeof(finding.message));
		}
		doctor_add(document, ignore, &finding);
	}
}

/* Returns the condition that is True because of a setting in this state; NULL: none. */
static const struct condition_type *condition_of_state(const char *state)
{
	if (streq(state, setting_state_names[SETTING_FAILED]))
		return &core_tables.conditions[CORE_SETTING_FAILED];
	if (streq(state, setting_state_names[SETTING_DRIFTED]) ||
		streq(state, setting_state_names[SETTING_YIELDED]))
		return &core_tables.conditions[CORE_SETTING_DRIFTED];
	return NULL;
}

static void add_settings(cJSON *document, const cJSON *status, const cJSON *ignore)
{
	const cJSON *setting;

	cJSON_ArrayForEach (setting, json_at(status, "settings")) {
		const struct condition_type *type =
			condition_of_state(json_text_at(setting, "state"));
		const char *why = json_text_at(setting, "why");
		const char *reason = json_text_at(setting, "reason");
		const cJSON *condition = type ? find_condition(status, type->name) : NULL;
		struct doctor_finding finding = {
			.name = json_text_at(setting, "name"), .kind = "setting", .status = "ok"};

		if (type) {
			finding.condition = type->name;
			finding.status = severity_names[type->severity];
			finding.since = since(status, condition);
			finding.breaks = reason_rows[reason_parse(reason)].help;
			finding.now = type->now;
		}
		snprintf(finding.message, sizeof(finding.message), "%s, wanted %s: %s (%s)%s%s",
			json_text_at(setting, "actual"), json_text_at(setting, "wanted"),
			json_text_at(setting, "state"), reason, why[0] ? ": " : "", why);
		doctor_add(document, ignore, &finding);
	}
}

/* Returns whether a check of a limit or setting covers the condition. */
static bool is_covered(const cJSON *status, const char *type)
{
	const cJSON *item;

	cJSON_ArrayForEach (item, json_at(status, "limits"))
		if (streq(json_text_at(item, "condition"), type))
			return true;
	cJSON_ArrayForEach (item, json_at(status, "settings")) {
		const struct condition_type *of = condition_of_state(json_text_at(item, "state"));

		if (of && streq(of->name, type))
			return true;
	}
	return false;
}

static const char *condition_status(const cJSON *condition)
{
	const char *status = json_text_at(condition, "status");

	if (streq(status, "True"))
		return json_text_at(condition, "severity");
	if (streq(status, "False"))
		return "ok";
	return condition_is_absent(condition) ? "absent" : "unknown";
}

static void add_conditions(cJSON *document, const cJSON *status, const cJSON *ignore)
{
	const cJSON *condition;

	cJSON_ArrayForEach (condition, json_at(status, "conditions")) {
		const char *message = json_text_at(condition, "message");
		const char *reason = json_text_at(condition, "reason");
		struct doctor_finding finding = {.name = json_text_at(condition, "type"),
			.kind = "condition",
			.status = condition_status(condition),
			.since = since(status, condition)};
		const struct condition_type *type = condition_type_find(finding.name);

		if (streq(json_text_at(condition, "status"), "True") &&
			is_covered(status, finding.name))
			continue;
		if (!message[0])
			message = reason_rows[reason_parse(reason)].help;
		snprintf(finding.message, sizeof(finding.message), "%s: %s", reason, message);
		if (type) {
			finding.breaks = type->help;
			finding.now = type->now;
		}
		doctor_add(document, ignore, &finding);
	}
}

cJSON *doctor_document(const cJSON *status, const cJSON *ignore)
{
	cJSON *document = cJSON_CreateObject();

	json_number(document, "schema", 1);
	json_text(document, "node", json_text_at(status, "node/name"));
	json_text(document, "version", json_text_at(status, "node/version"));
	json_time(document, "time", realtime_us());
	json_array(document, "checks");
	add_limits(document, status, ignore);
	add_conditions(document, status, ignore);
	add_settings(document, status, ignore);
	return document;
}

static double rank(const cJSON *check, const void *)
{
	size_t i = 0;

	while (!streq(json_text_at(check, "status"), statuses[i]))
		i++;
	return -(double)i;
}

void doctor_finish(cJSON *document)
{
	cJSON *checks = cJSON_DetachItemFromObject(document, "checks");
	cJSON *counts = json_object(document, "counts"), *check;
	const char *verdict = "ok";

	json_sort(checks, rank, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(statuses); i++) {
		int n = 0;

		cJSON_ArrayForEach (check, checks)
			n += streq(json_text_at(check, "status"), statuses[i]);
		json_number(counts, statuses[i], n);
		if (i < 3 && n > 0 && streq(verdict, "ok"))
			verdict = statuses[i];
	}
	json_text(document, "verdict", verdict);
	json_adopt(document, "checks", checks);
}

void doctor_verdict(const cJSON *document, char *text, size_t size)
{
	static const struct {
		const char *status, *one, *many;
	} parts[] = {{"critical", "critical", "critical"}, {"warning", "warning", "warnings"},
		{"unknown", "could not be checked", "could not be checked"},
		{"ignored", "ignored", "ignored"}, {"ok", "check is fine", "checks are fine"},
		{"advice", "has advice (headroom status)", "have advice (headroom status)"}};

	snprintf(text, size, "%s: ", json_text_at(document, "verdict"));
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		double n = json_number_at(json_at(document, "counts"), parts[i].status);

		if (n > 0 || streq(parts[i].status, "ok"))
			text_append(text, size, "%s%.0f %s",
				text[strlen(text) - 2] == ':' ? "" : ", ", n,
				n == 1 ? parts[i].one : parts[i].many);
	}
}

int doctor_exit(const cJSON *document)
{
	const char *verdict = json_text_at(document, "verdict");

	return streq(verdict, "ok")        ? EXIT_OK
	       : streq(verdict, "unknown") ? EXIT_FAILED
					   : EXIT_ATTENTION;
}
