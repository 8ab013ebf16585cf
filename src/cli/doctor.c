/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/doctor.h"

#include "base/file.h"
#include "base/log.h"
#include "cli/cli.h"
#include "runtime/systemd.h"
#include "tuners/table.h"

#define UNIT    "headroom.service"
#define NOW_MAX 128

static void add_check(cJSON *document, const cJSON *ignore, const char *name,
	enum check_result result, const char *message, const char *now)
{
	static const char *const statuses[] = {
		[CHECK_FINE] = "ok", [CHECK_ABSENT] = "absent", [CHECK_UNKNOWN] = "unknown"};
	const struct check_row *row = node_checks;
	struct doctor_finding finding = {.name = name};

	while (!streq(row->name, name))
		row++;
	finding.kind = entry_kind_names[ENTRY_CHECK];
	finding.status = result == CHECK_FAULT ? severity_names[row->severity] : statuses[result];
	finding.breaks = row->breaks;
	finding.now = now ? now : row->now;
	finding.option = row->option;
	set_text(finding.message, message);
	doctor_add(document, ignore, &finding);
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
static struct cli_config load(const struct cli *cli, char message[static CHECK_MESSAGE_MAX])
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
	struct cli_config loaded = load(cli, fault);
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
