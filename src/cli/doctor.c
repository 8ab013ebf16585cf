/* SPDX-License-Identifier: Apache-2.0 */
/*
 * headroom doctor: the problems of this node. The parts, in order: the document, with the findings
 * of the status document and an entry for everything else in it; its counts and verdict; the
 * command, with the checks of the agent, of the configuration and of node_checks. It judges nothing
 * that a finding already judges, and changes nothing.
 */
#include "cli/doctor.h"

#include "base/file.h"
#include "base/log.h"
#include "cli/cli.h"
#include "config/web.h"
#include "report/report.h"
#include "runtime/systemd.h"
#include "tuners/table.h"

#include <fnmatch.h>

#define MESSAGE_MAX 1024

static const char *const status_names[DOCTOR_STATUSES] = {
	[DOCTOR_CRITICAL] = "critical",
	[DOCTOR_WARNING] = "warning",
	[DOCTOR_UNKNOWN] = "unknown",
	[DOCTOR_IGNORED] = "ignored",
	[DOCTOR_ADVICE] = "advice",
	[DOCTOR_OK] = "ok",
	[DOCTOR_ABSENT] = "absent",
};

/* Takes a severity or "ignored". An unknown word, from another version, is a warning. */
static enum doctor_status status_of(const char *word)
{
	for (enum doctor_status status = 0; status < DOCTOR_STATUSES; status++)
		if (streq(status_names[status], word))
			return status;
	return DOCTOR_WARNING;
}

/* Appends an entry, which then belongs to the document, with these members before its others. */
static void add_entry(struct doctor *doctor, cJSON *entry, const char *name, const char *kind,
	enum doctor_status status)
{
	if (!doctor->lists[status])
		doctor->lists[status] = cJSON_CreateArray();
	json_text(entry, "name", name);
	json_text(entry, "kind", kind);
	json_text(entry, "status", status_names[status]);
	cJSON_AddItemToArray(doctor->lists[status], entry);
}

/* ---- findings ---- */

static bool has_name(const cJSON *list, const char *name)
{
	const cJSON *item;

	cJSON_ArrayForEach (item, list)
		if (streq(json_text_at(item, "name"), name))
			return true;
	return false;
}

static void add_findings(struct doctor *doctor, const cJSON *status)
{
	const cJSON *finding;

	cJSON_ArrayForEach (finding, json_at(status, "findings")) {
		const char *slug = json_text_at(finding, "slug");
		cJSON *entry =
			cJSON_IsObject(finding) ? must(cJSON_Duplicate(finding, true)) : NULL;
		enum entry_kind kind = has_name(json_at(status, "limits"), slug) ? ENTRY_LIMIT
				       : has_name(json_at(status, "settings"), slug)
					       ? ENTRY_SETTING
					       : ENTRY_CONDITION;

		if (entry)
			add_entry(doctor, entry, slug, entry_kind_names[kind],
				status_of(finding_word(finding)));
	}
}

/* ---- entries without a finding ---- */

static void add_plain(struct doctor *doctor, const char *name, enum entry_kind kind,
	enum doctor_status status, const char *message)
{
	cJSON *entry = cJSON_CreateObject();

	json_text(entry, "slug", name);
	json_text(entry, "message", message);
	add_entry(doctor, entry, name, entry_kind_names[kind], status);
}

static void add_limits(struct doctor *doctor, const cJSON *status)
{
	const cJSON *limit;

	cJSON_ArrayForEach (limit, json_at(status, "limits")) {
		const char *name = json_text_at(limit, "name");
		double used = json_number_at(limit, "used"), max = json_number_at(limit, "max");
		char message[USE_MAX + SHARE_MAX], use[USE_MAX], share[SHARE_MAX];

		if (finding_of(status, name))
			continue;
		use_text(used, max, json_text_at(limit, "unit"), use);
		snprintf(message, sizeof(message), "%s%s%s", use, max > 0 ? ", " : "",
			max > 0 ? share_text(used / max, share) : "");
		add_plain(doctor, name, ENTRY_LIMIT, DOCTOR_OK, message);
	}
}

static void add_settings(struct doctor *doctor, const cJSON *status)
{
	const cJSON *setting;

	cJSON_ArrayForEach (setting, json_at(status, "settings")) {
		const char *name = json_text_at(setting, "name");
		const char *why = json_text_at(setting, "why");
		char message[MESSAGE_MAX];

		if (finding_of(status, name))
			continue;
		snprintf(message, sizeof(message), "%s, wanted %s: %s (%s)%s%s",
			json_text_at(setting, "actual"), json_text_at(setting, "wanted"),
			json_text_at(setting, "state"), json_text_at(setting, "reason"),
			why[0] ? ": " : "", why);
		add_plain(doctor, name, ENTRY_SETTING, DOCTOR_OK, message);
	}
}

/* The findings of a condition stand for it. An agent of another version may have sent none. */
static bool has_finding(const cJSON *status, const char *type)
{
	const cJSON *finding;

	cJSON_ArrayForEach (finding, json_at(status, "findings"))
		if (streq(json_text_at(finding, "condition"), type))
			return true;
	return false;
}

static enum doctor_status status_of_condition(const cJSON *condition)
{
	const char *status = json_text_at(condition, "status");

	if (streq(status, condition_status_names[CONDITION_TRUE]))
		return status_of(json_text_at(condition, "severity"));
	if (streq(status, condition_status_names[CONDITION_FALSE]))
		return DOCTOR_OK;
	return condition_is_absent(condition) ? DOCTOR_ABSENT : DOCTOR_UNKNOWN;
}

static void add_conditions(struct doctor *doctor, const cJSON *status)
{
	const cJSON *condition;

	cJSON_ArrayForEach (condition, json_at(status, "conditions")) {
		const char *name = json_text_at(condition, "type");
		const char *reason = json_text_at(condition, "reason");
		const char *text = json_text_at(condition, "message");
		char message[2 * MESSAGE_MAX];

		if (has_finding(status, name))
			continue;
		snprintf(message, sizeof(message), "%s: %s", reason,
			text[0] ? text : reason_rows[reason_parse(reason)].help);
		add_plain(doctor, name, ENTRY_CONDITION, status_of_condition(condition), message);
	}
}

/* The configuration that keeps the cure of a check is a sysctl. */
static unsigned held_by_of_sysctl(const cJSON *status)
{
	const cJSON *tuner, *name;
	unsigned held_by = 0;

	cJSON_ArrayForEach (tuner, json_at(status, "tuners"))
		if (streq(json_text_at(tuner, "name"), sysctl_tuner.name))
			cJSON_ArrayForEach (name, json_at(tuner, "held_by"))
				for (unsigned held = 1; held < HELD_BY_END; held <<= 1)
					if (streq(json_text_at(name, ""), held_by_name(held)))
						held_by |= held;
	return held_by;
}

/* A restore, a trial or an installation may have left tuners that change nothing. */
static void add_released(cJSON *document, const cJSON *status)
{
	cJSON *released = json_array(document, "released");
	const cJSON *tuner;

	cJSON_ArrayForEach (tuner, json_at(status, "tuners"))
		if (streq(json_text_at(tuner, "mode"), mode_names[MODE_RELEASED]))
			json_append_text(released, json_text_at(tuner, "name"));
}

void doctor_begin(struct doctor *doctor, const cJSON *status)
{
	*doctor = (struct doctor){.document = cJSON_CreateObject()};
	json_number(doctor->document, "schema", 1);
	json_text(doctor->document, "node", json_text_at(status, "node/name"));
	json_text(doctor->document, "version", json_text_at(status, "node/version"));
	json_time(doctor->document, "time", realtime_us());
	add_released(doctor->document, status);
	doctor->sysctl_held_by = held_by_of_sysctl(status);
	add_findings(doctor, status);
	add_limits(doctor, status);
	add_conditions(doctor, status);
	add_settings(doctor, status);
}

cJSON *doctor_finish(struct doctor *doctor)
{
	cJSON *document = steal(doctor->document), *checks = cJSON_CreateArray();
	cJSON *counts = json_object(document, "counts");
	enum doctor_status verdict = DOCTOR_OK;

	for (enum doctor_status status = 0; status < DOCTOR_STATUSES; status++) {
		cJSON *list = steal(doctor->lists[status]);

		json_number(counts, status_names[status], cJSON_GetArraySize(list));
		if (list && status <= DOCTOR_UNKNOWN)
			verdict = MIN(verdict, status);
		while (cJSON_GetArraySize(list) > 0)
			cJSON_AddItemToArray(checks, cJSON_DetachItemFromArray(list, 0));
		cJSON_Delete(list);
	}
	json_text(document, "verdict", status_names[verdict]);
	json_adopt(document, "checks", checks);
	doctor->verdict = verdict;
	return document;
}

void doctor_verdict(const cJSON *document, char *text, size_t size)
{
	static const struct {
		enum doctor_status status;
		const char *singular, *plural;
	} parts[] = {{DOCTOR_CRITICAL, "critical", "critical"},
		{DOCTOR_WARNING, "warning", "warnings"},
		{DOCTOR_UNKNOWN, "could not be checked", "could not be checked"},
		{DOCTOR_IGNORED, "ignored", "ignored"},
		{DOCTOR_OK, "check is fine", "checks are fine"},
		{DOCTOR_ADVICE, "has advice (headroom doctor --json)",
			"have advice (headroom doctor --json)"}};
	const cJSON *tuner;
	const char *between = "; released: ";

	snprintf(text, size, "%s: ", json_text_at(document, "verdict"));
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		double n =
			json_number_at(json_at(document, "counts"), status_names[parts[i].status]);

		if (n > 0 || parts[i].status == DOCTOR_OK)
			text_append(text, size, "%s%.0f %s",
				text[strlen(text) - 2] == ':' ? "" : ", ", n,
				n == 1 ? parts[i].singular : parts[i].plural);
	}
	cJSON_ArrayForEach (tuner, json_at(document, "released")) {
		text_append(text, size, "%s%s", between, json_text_at(tuner, ""));
		between = ", ";
	}
	if (between[0] == ',')
		text_append(text, size, " (headroom apply)");
}

int doctor_exit(const struct doctor *doctor)
{
	return doctor->verdict == DOCTOR_OK        ? EXIT_OK
	       : doctor->verdict == DOCTOR_UNKNOWN ? EXIT_FAILED
						   : EXIT_ATTENTION;
}

/* ---- the command ---- */

#define UNIT    "headroom.service"
#define NOW_MAX 128

static bool is_ignored(const cJSON *ignore, const char *name)
{
	const cJSON *item;

	cJSON_ArrayForEach (item, ignore)
		if (fnmatch(json_text_at(item, ""), name, 0) == 0)
			return true;
	return false;
}

/* A pattern may name the slug or the id. */
static bool is_ignored_finding(
	const cJSON *ignore, const struct check_finding *found, const char *id)
{
	return found->result != CHECK_ABSENT &&
	       (is_ignored(ignore, found->row->name) || is_ignored(ignore, id));
}

/* Adds what a check found, in the form of a finding. */
static void add_check_finding(
	struct doctor *doctor, const cJSON *ignore, const struct check_finding *found)
{
	const struct tuner_status sysctl = {
		.ops = &sysctl_tuner, .held_by = doctor->sysctl_held_by};
	const struct decide_input input = {
		.config_file = doctor->config_file, .tuners = &sysctl, .n_tuners = 1};
	static const enum doctor_status results[] = {[CHECK_FINE] = DOCTOR_OK,
		[CHECK_ABSENT] = DOCTOR_ABSENT,
		[CHECK_UNKNOWN] = DOCTOR_UNKNOWN};
	const struct check_row *row = found->row;
	struct finding finding = {.instance = found->instance};
	cJSON *entry = cJSON_CreateObject(), *instance;
	bool is_fault = found->result == CHECK_FAULT, ignored;
	/* A hint says why the command of the row does not help. */
	const char *now = found->now[0] || found->hint[0] || !is_fault ? found->now : row->now;
	bool no_option = found->keep[0] || !is_fault || !now || !now[0];
	const char *keep = no_option ? found->keep : row->option;
	char id[FINDING_ID_MAX], text[FINDING_TEXT_MAX];

	finding_hint(&finding, "%s", found->hint);
	if (keep && keep[0])
		finding_keep(&finding, &input, sysctl_tuner.name, "%s", keep);
	set_text(finding.slug, row->name);
	finding_id(&finding, id);
	ignored = is_ignored_finding(ignore, found, id);
	json_text(entry, "slug", row->name);
	json_text(entry, "id", id);
	instance = json_object(entry, "instance");
	json_text(instance, "kind", instance_kind_names[found->instance.kind]);
	json_text(instance, "name", found->instance.name);
	json_text(instance, "id", "");
	instance_describe(&found->instance, text, sizeof(text));
	json_text(instance, "text", text);
	json_text(entry, "message", found->message);
	json_time(entry, "since", found->since_us);
	json_null(entry, "until");
	json_array(entry, "who");
	json_null(entry, "who_known");
	json_text(entry, "breaks", row->breaks);
	json_text(entry, "now", now);
	json_text(entry, "now_kind",
		!now || !now[0]      ? ""
		: found->now_is_edit ? "edit"
				     : "command");
	json_text(entry, "keep", finding.keep);
	json_text(entry, "keep_in", finding.keep_in);
	json_text(entry, "hint", finding.hint);
	json_bool(entry, "ignored", ignored);
	finding_release(&finding);
	add_entry(doctor, entry, row->name, entry_kind_names[ENTRY_CHECK],
		ignored    ? DOCTOR_IGNORED
		: is_fault ? status_of(severity_names[found->severity])
			   : results[found->result]);
}

/* Adds a check of this command. */
static void add_check(struct doctor *doctor, const cJSON *ignore, const char *name,
	enum check_result result, const char *message, const char *now)
{
	struct check_finding found = {.row = node_checks, .result = result};

	while (!streq(found.row->name, name))
		found.row++;
	found.severity = found.row->severity;
	set_text(found.message, message);
	set_text(found.now, now ? now : "");
	add_check_finding(doctor, ignore, &found);
}

static void add_node_checks(struct doctor *doctor, const cJSON *ignore, const struct host *host)
{
	struct check_report report = {.host = host};

	for (const struct check_row *row = node_checks; row->name; row++)
		if (row->check)
			check_run(&report, row);
	for (size_t i = 0; i < report.n; i++)
		add_check_finding(doctor, ignore, &report.findings[i]);
	free(report.findings);
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
		snprintf(now, NOW_MAX, "journalctl -u headroom -n 20");
	if (unit.restarts > 0)
		text_append(message, CHECK_MESSAGE_MAX, ", restarted %u times", unit.restarts);
	if (unit.result[0] && !streq(unit.result, "success"))
		text_append(message, CHECK_MESSAGE_MAX, ", its last result is %s", unit.result);
	return CHECK_FAULT;
}

static void print_document(const cJSON *document, const char *alone, const char *bundle)
{
	struct screen screen = screen_open();
	const cJSON *check, *counts = json_at(document, "counts");
	int shown = 0;
	size_t word;
	char verdict[512];

	if (alone[0])
		draw(&screen, COLOR_WARNING, "%s: this is a single reading.\n", alone);
	/* The entries that are not printed come last. */
	for (enum doctor_status status = 0; status <= DOCTOR_IGNORED; status++)
		shown += (int)json_number_at(counts, status_names[status]);
	cJSON_ArrayForEach (check, json_at(document, "checks"))
		if (shown-- > 0 || reason_rows[reason_parse(json_text_at(check, "reason"))].told)
			draw_finding(&screen, 0, json_text_at(check, "status"), check);
	if (bundle)
		draw(&screen, COLOR_NONE, "The bundle is in %s: read it before you send it.\n",
			bundle);
	doctor_verdict(document, verdict, sizeof(verdict));
	word = strcspn(verdict, " ");
	draw(&screen, color_of(json_text_at(document, "verdict")), "%.*s", (int)word, verdict);
	draw(&screen, COLOR_NONE, " ");
	draw_wrapped(&screen, 2, "%s", verdict + word + (verdict[word] == ' '));
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

static void add_tls_key(struct doctor *doctor, const cJSON *ignore, const char *path)
{
	const char *warning = "";
	_cleanup_(cleanup_web_config_unref) struct web_config *web = NULL;
	_cleanup_(config_faults_clear) struct config_fault_list faults = {0};

	if (path[0] &&
		web_config_load(path, &(struct config_position){path, 1, 1}, &faults, &web) == 0 &&
		web->warnings.n > 0)
		warning = web->warnings.faults[0].message;
	add_check(doctor, ignore, "tls-key",
		warning[0]         ? CHECK_FAULT
		: web && web->cert ? CHECK_FINE
				   : CHECK_ABSENT,
		warning, NULL);
}

int cli_doctor(const struct cli *cli)
{
	char fault[CHECK_MESSAGE_MAX] = "", message[CHECK_MESSAGE_MAX] = "", alone[CLI_ALONE_MAX];
	char now[NOW_MAX] = "";
	struct cli_config loaded = load_or_default(cli, fault);
	_cleanup_free_ char *web_path = must(strdup(config_text(loaded.config, "http.web_config")));
	_cleanup_(cleanup_cJSON_Delete) cJSON *ignore = copy_ignored(loaded.config);
	_cleanup_(cleanup_cJSON_Delete) cJSON *configuration = config_json(loaded.config);
	struct core place = {.source = core_source(cli->core.config_file)};
	_cleanup_(cleanup_cJSON_Delete) cJSON *status = NULL, *document = NULL;
	_cleanup_free_ char *metrics = NULL;
	size_t len;
	FILE *out = must(open_memstream(&metrics, &len));
	enum check_result result;
	struct doctor doctor;
	struct host host;
	int r;

	log_init(LOG_CRIT); /* conditions of a single reading are checks, not messages */
	r = host_init(&host, cli->core.host_root)
		    ? node_documents(cli, loaded, true, &status, cli->bundle ? out : NULL, alone)
		    : cli_fail(cli->core.host_root, "the path is too long");

	fclose(out);
	if (r != EXIT_OK) /* after a message */
		return r;
	doctor_begin(&doctor, status);
	core_place_cures(&place);
	doctor.config_file = place.config_file;
	result = check_agent(&host, alone, message, now);
	add_check(&doctor, ignore, "agent", result, message, now[0] ? now : NULL);
	json_text(doctor.document, "agent", alone[0] ? message : "answers");
	add_check(
		&doctor, ignore, "configuration", fault[0] ? CHECK_FAULT : CHECK_FINE, fault, NULL);
	add_tls_key(&doctor, ignore, web_path);
	add_node_checks(&doctor, ignore, &host);
	document = doctor_finish(&doctor);
	if (cli->bundle) {
		const struct bundle_input input = {&host, document, status, configuration, metrics};

		r = doctor_bundle(cli->bundle, &input);
		if (r < 0)
			(void)cli_fail(cli->bundle, "the bundle was not written: %s", strerror(-r));
	}
	if (cli->bundle && streq(cli->bundle, "-"))
		return r < 0 ? EXIT_FAILED : doctor_exit(&doctor); /* the bundle has the document */
	if (cli->json)
		json_put(stdout, cJSON_Duplicate(document, true), true);
	else
		print_document(document, alone, r < 0 ? NULL : cli->bundle);
	return r < 0 ? EXIT_FAILED : doctor_exit(&doctor);
}
