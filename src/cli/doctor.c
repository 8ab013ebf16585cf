/* SPDX-License-Identifier: Apache-2.0 */
/*
 * headroom doctor: what needs action on this node. The parts, in order: a check in the document;
 * checks of the limits, conditions and settings of the status document; the order, the counts and
 * the verdict; the command, with the checks of the agent, of the configuration and of node_checks.
 * It judges nothing that a condition already judges, and changes nothing.
 */
#include "cli/doctor.h"

#include "base/file.h"
#include "base/log.h"
#include "cli/cli.h"
#include "report/report.h"
#include "runtime/systemd.h"
#include "tuners/table.h"

#include <fnmatch.h>

#define WHO_MAX          3
#define CONFIG_FILE_NAME "/etc/headroom/headroom.yaml"

#define MESSAGE_MAX 1024

struct doctor_check {
	const char *name;
	const char *kind;   /* "condition", "limit", "setting", "check" */
	const char *status; /* as in doctor.h */
	const char *since;  /* RFC 3339; or NULL */
	const char *breaks, *now;
	double max;            /* the limit's maximum; 0: not known */
	const char *option;    /* from its row, or NULL */
	const char *unit;      /* in which users count; or NULL */
	const cJSON *top;      /* users of a limit, or NULL */
	const char *condition; /* True about it, or NULL: may be ignored instead */
	char message[MESSAGE_MAX];
};

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

static void add_to_document(cJSON *document, const cJSON *ignore, const struct doctor_check *check)
{
	cJSON *object = json_append(cJSON_GetObjectItem(document, "checks"));
	bool ignored = (is_ignored(ignore, check->name) || is_ignored(ignore, check->condition)) &&
		       !streq(check->status, "absent");
	char keep[256], explain[256];

	write_keep(check->option, check->max, keep, sizeof(keep));
	json_text(object, "name", check->name);
	json_text(object, "kind", check->kind);
	json_text(object, "status", ignored ? "ignored" : check->status);
	json_text(object, "message", check->message);
	json_text(object, "since", check->since);
	add_who(object, check->top, check->unit ? check->unit : "");
	json_text(object, "breaks", check->breaks);
	if (!check->now)
		snprintf(explain, sizeof(explain), "headroom explain %s", check->name);
	json_text(object, "now", check->now ? check->now : explain);
	json_text(object, "keep", keep);
}

/* Returns NULL in a single reading: it cannot tell since when. */
static const char *true_since(const cJSON *status, const cJSON *condition)
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
static void describe_limit(const cJSON *limit, const cJSON *condition, struct doctor_check *check)
{
	const char *message = json_text_at(condition, "message"), *other;
	size_t len = strlen(check->name);
	char *end;

	if (!starts_with(message, check->name) || !starts_with(message + len, ": ")) {
		describe_use(limit, check->message, sizeof(check->message));
		return;
	}
	set_text(check->message, message + len + 2);
	end = check->breaks ? strstr(check->message, check->breaks) : NULL;
	/* "who" has the user of this moment. The names of further limits follow, and each has a
	 * check. */
	other = strstr(check->message, "; the largest user is ");
	if (!other && !end)
		other = strchr(check->message, ';');
	if (other)
		check->message[other - check->message] = '\0';
	else if (end && end >= check->message + 2)
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
		struct doctor_check check = {
			.name = json_text_at(limit, "name"), .kind = "limit", .status = "ok"};
		const struct limit_row *row = limit_row_find(check.name);
		const struct condition_type *type;

		if (row) {
			check.breaks = row->breaks;
			check.now = row->now;
			check.option = row->option;
			check.max = json_number_at(limit, "max");
		}
		if (streq(json_text_at(condition, "status"), "True")) {
			check.condition = name->valuestring;
			check.status = json_text_at(condition, "severity");
			/* A condition has the severity of the worst of its limits. */
			if (row && row->severity == SEVERITY_WARNING &&
				streq(check.status, "critical"))
				check.status = "warning";
			check.since = true_since(status, condition);
			check.top = json_at(limit, "top");
			check.unit = json_text_at(limit, "unit");
			type = condition_type_find(check.condition);
			if (type && !check.now)
				check.now = type->now;
			if (type && !check.breaks)
				check.breaks = type->help;
			describe_limit(limit, condition, &check);
		} else {
			describe_use(limit, check.message, sizeof(check.message));
		}
		add_to_document(document, ignore, &check);
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
		struct doctor_check check = {
			.name = json_text_at(setting, "name"), .kind = "setting", .status = "ok"};

		if (type) {
			check.condition = type->name;
			check.status = severity_names[type->severity];
			check.since = true_since(status, condition);
			check.breaks = reason_rows[reason_parse(reason)].help;
			check.now = type->now;
		}
		snprintf(check.message, sizeof(check.message), "%s, wanted %s: %s (%s)%s%s",
			json_text_at(setting, "actual"), json_text_at(setting, "wanted"),
			json_text_at(setting, "state"), reason, why[0] ? ": " : "", why);
		add_to_document(document, ignore, &check);
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
		const struct condition_type *caused =
			condition_of_state(json_text_at(item, "state"));

		if (caused && streq(caused->name, type))
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
		struct doctor_check check = {.name = json_text_at(condition, "type"),
			.kind = "condition",
			.status = condition_status(condition),
			.since = true_since(status, condition)};
		const struct condition_type *type = condition_type_find(check.name);

		if (streq(json_text_at(condition, "status"), "True") &&
			is_covered(status, check.name))
			continue;
		if (!message[0])
			message = reason_rows[reason_parse(reason)].help;
		snprintf(check.message, sizeof(check.message), "%s: %s", reason, message);
		if (type) {
			check.breaks = type->help;
			check.now = type->now;
		}
		add_to_document(document, ignore, &check);
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

static double status_rank(const cJSON *check, const void *)
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

	json_sort(checks, status_rank, NULL);
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
		const char *status, *singular, *plural;
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
				n == 1 ? parts[i].singular : parts[i].plural);
	}
}

int doctor_exit(const cJSON *document)
{
	const char *verdict = json_text_at(document, "verdict");

	return streq(verdict, "ok")        ? EXIT_OK
	       : streq(verdict, "unknown") ? EXIT_FAILED
					   : EXIT_ATTENTION;
}

/* ---- the command ---- */

#define UNIT    "headroom.service"
#define NOW_MAX 128

static void add_check(cJSON *document, const cJSON *ignore, const char *name,
	enum check_result result, const char *message, const char *now)
{
	static const char *const results[] = {
		[CHECK_FINE] = "ok", [CHECK_ABSENT] = "absent", [CHECK_UNKNOWN] = "unknown"};
	const struct check_row *row = node_checks;
	struct doctor_check check = {.name = name};

	while (!streq(row->name, name))
		row++;
	check.kind = entry_kind_names[ENTRY_CHECK];
	check.status = result == CHECK_FAULT ? severity_names[row->severity] : results[result];
	check.breaks = row->breaks;
	check.now = now ? now : row->now;
	check.option = row->option;
	set_text(check.message, message);
	add_to_document(document, ignore, &check);
}

/* Returns whether a process is stopped: SIGSTOP, a debugger, or the freezer of version 1. */
static bool is_stopped(pid_t pid)
{
	_cleanup_free_ char *text = NULL;
	char path[64];
	const char *end;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (read_file(path, 4096, &text, NULL) < 0)
		return false;
	end = strrchr(text, ')');
	return end && (starts_with(end, ") T") || starts_with(end, ") t"));
}

/* Checks that the agent answers. alone: why the agent did not answer; empty if it did. */
static enum check_result check_agent(const struct host *host, const char *alone,
	char message[static CHECK_MESSAGE_MAX], char now[static NOW_MAX])
{
	struct systemd_state unit;
	int pid;

	if (!alone[0])
		return CHECK_FINE;
	copy_text(message, CHECK_MESSAGE_MAX, alone);
	if (sscanf(alone, "Agent %d does", &pid) == 1) {
		if (is_stopped(pid)) {
			text_append(
				message, CHECK_MESSAGE_MAX, ": its process is stopped (SIGSTOP)");
			snprintf(now, NOW_MAX, "kill -CONT %d", pid);
		}
		return CHECK_FAULT;
	}
	if (!streq(alone, "No agent is running"))
		return CHECK_FAULT;
	if (!systemd_state(host, UNIT, &unit) || !streq(unit.load, "loaded"))
		/* In a pod of the chart there is one; elsewhere a user tries the program. */
		return getenv("HEADROOM_OWNER") ? CHECK_FAULT : CHECK_ABSENT;
	text_append(message, CHECK_MESSAGE_MAX, ": " UNIT " is %s (%s), %s", unit.active, unit.sub,
		unit.file);
	if (streq(unit.active, "inactive"))
		snprintf(now, NOW_MAX, "systemctl enable --now headroom");
	else
		snprintf(now, NOW_MAX, "journalctl -u headroom -n 20: it says why the agent ends");
	if (unit.restarts > 0)
		text_append(message, CHECK_MESSAGE_MAX, ", restarted %u times", unit.restarts);
	if (unit.result[0] && !streq(unit.result, "success"))
		text_append(message, CHECK_MESSAGE_MAX, ", its last result is %s", unit.result);
	return CHECK_FAULT;
}

static void print_check(struct screen *screen, const cJSON *check)
{
	static const char *const fields[] = {"since", "who", "breaks", "now", "keep"};
	const char *status = json_text_at(check, "status");
	bool is_problem = !streq(status, "ignored") && !streq(status, "unknown");
	char who[1024] = "";
	const cJSON *user;

	cJSON_ArrayForEach (user, json_at(check, "who"))
		text_append(who, sizeof(who), "%s%s", who[0] ? "; " : "", user->valuestring);
	draw(screen, color_of(status), "%-9s ", status);
	draw(screen, COLOR_BOLD, "%s", json_text_at(check, "name"));
	draw(screen, COLOR_NONE, "  ");
	draw_wrapped(screen, 10, "%s", json_text_at(check, "message"));
	if (!is_problem) /* the message has the cure */
		return;
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		draw_field(screen, COLOR_FAINT, 2, 7, fields[i],
			streq(fields[i], "who") ? who : json_text_at(check, fields[i]));
}

static void print_document(const cJSON *document, const char *alone, const char *bundle)
{
	static const char *const shown[] = {"critical", "warning", "unknown", "ignored"};
	struct screen screen = screen_open();
	const cJSON *check;
	char verdict[256];

	if (alone[0])
		draw(&screen, COLOR_WARNING, "%s: this is a single reading.\n", alone);
	cJSON_ArrayForEach (check, json_at(document, "checks"))
		for (size_t i = 0; i < ARRAY_SIZE(shown); i++)
			if (streq(json_text_at(check, "status"), shown[i]))
				print_check(&screen, check);
	if (bundle)
		draw(&screen, COLOR_NONE, "The bundle is in %s: read it before you send it.\n",
			bundle);
	doctor_verdict(document, verdict, sizeof(verdict));
	draw(&screen, color_of(json_text_at(document, "verdict")), "%s", verdict);
	draw(&screen, COLOR_NONE, "\n");
}

static cJSON *copy_ignored(const struct config *config)
{
	cJSON *ignore = cJSON_CreateArray();

	for (size_t i = 0; i < config_list(config, "doctor.ignore"); i++)
		json_append_text(ignore, config_item(config, "doctor.ignore", i, ""));
	return ignore;
}

/* Loads the configuration on disk; with a fault its defaults, and the first fault in message. */
static struct cli_config load_or_default(
	const struct cli *cli, char message[static CHECK_MESSAGE_MAX])
{
	const struct config_source source = core_source(cli->core.config_file), none = {0};
	_cleanup_(config_faults_clear) struct config_fault_list faults = {0};
	struct cli_config loaded = {.may_be_faulty = true};

	if (core_load_config(&source, &loaded.config, &faults) == 0)
		return loaded;
	loaded.faulty = true;
	snprintf(message, CHECK_MESSAGE_MAX, "%s:%u:%u: %s", faults.faults[0].file,
		faults.faults[0].line, faults.faults[0].column, faults.faults[0].message);
	if (faults.n > 1)
		text_append(message, CHECK_MESSAGE_MAX, "; %zu faults in all", faults.n);
	text_make_printable(message);
	config_faults_clear(&faults);
	must_do(core_load_config(&none, &loaded.config, &faults) == 0);
	return loaded;
}

int cli_doctor(const struct cli *cli)
{
	char fault[CHECK_MESSAGE_MAX] = "", message[CHECK_MESSAGE_MAX] = "", alone[CLI_ALONE_MAX];
	char now[NOW_MAX] = "";
	struct cli_config loaded = load_or_default(cli, fault);
	_cleanup_(cleanup_cJSON_Delete) cJSON *ignore = copy_ignored(loaded.config);
	_cleanup_(cleanup_cJSON_Delete) cJSON *configuration = config_json(loaded.config);
	_cleanup_(cleanup_cJSON_Delete) cJSON *status = NULL, *document = NULL;
	_cleanup_free_ char *metrics = NULL;
	size_t len;
	FILE *out = must(open_memstream(&metrics, &len));
	enum check_result result;
	struct host host;
	int r;

	log_init(LOG_CRIT); /* conditions of a single reading are checks, not messages */
	r = host_init(&host, cli->core.host_root)
		    ? node_documents(cli, loaded, true, &status, cli->bundle ? out : NULL, alone)
		    : cli_fail(cli->core.host_root, "the path is too long");

	fclose(out);
	if (r != EXIT_OK) /* after a message */
		return r;
	document = doctor_document(status, ignore);
	result = check_agent(&host, alone, message, now);
	add_check(document, ignore, "agent", result, message, now[0] ? now : NULL);
	json_text(document, "agent", alone[0] ? message : "answers");
	add_check(document, ignore, "configuration", fault[0] ? CHECK_FAULT : CHECK_FINE, fault,
		NULL);
	for (const struct check_row *row = node_checks; row->name; row++) {
		message[0] = '\0';
		if (row->check)
			add_check(document, ignore, row->name, row->check(&host, message), message,
				NULL);
	}
	doctor_finish(document);
	if (cli->bundle) {
		const struct bundle_input input = {&host, document, status, configuration, metrics};

		r = doctor_bundle(cli->bundle, &input);
		if (r < 0)
			(void)cli_fail(cli->bundle, "the bundle was not written: %s", strerror(-r));
	}
	if (cli->bundle && streq(cli->bundle, "-"))
		return r < 0 ? EXIT_FAILED
			     : doctor_exit(document); /* the bundle has the document */
	if (cli->json)
		json_put(stdout, cJSON_Duplicate(document, true), true);
	else
		print_document(document, alone, r < 0 ? NULL : cli->bundle);
	return r < 0 ? EXIT_FAILED : doctor_exit(document);
}
