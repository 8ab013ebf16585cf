/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include "report/report.h"
#include "tuners/table.h"

/* Shows an empty value as "". */
static const char *shown(const char *value)
{
	return value[0] ? value : "\"\"";
}

int print_changes(cJSON *document, const char *nothing)
{
	const cJSON *changes = json_at(document, "changes"), *change;
	struct screen screen = screen_open();
	int width = 0, r = EXIT_OK;
	bool explained[REASONS] = {false};

	if (!cJSON_IsArray(changes))
		return cli_fail("agent", "the answer has an unknown form");
	json_make_printable(document);
	cJSON_ArrayForEach (change, changes)
		width = MAX(width, MIN((int)strlen(json_text_at(change, "name")), 60));
	cJSON_ArrayForEach (change, changes) {
		const char *name = json_text_at(change, "name");
		const char *reason = json_text_at(change, "reason");
		const char *old = json_text_at(change, "old"), *new = json_text_at(change, "new");
		const char *error = json_text_at(change, "error");

		if (error[0])
			r = cli_fail(
				name, "not %s%s: %s", new[0] ? "set to " : "removed", new, error);
		else if (!cJSON_IsString(json_at(change, "new")))
			printf("%-*s  %s left  (%s)\n", width, name, shown(old), reason);
		else if (!streq(old, new) || reason_parse(reason) != REASON_ORIGINAL)
			printf("%-*s  %s -> %s  (%s)\n", width, name, shown(old), shown(new),
				reason);
		/* Else restore found the original in place. */
	}
	cJSON_ArrayForEach (change, changes) {
		enum reason reason = reason_parse(json_text_at(change, "reason"));

		if (reason == REASON_NONE || explained[reason])
			continue;
		explained[reason] = true;
		draw(&screen, COLOR_NONE, "  %s: ", reason_rows[reason].slug);
		draw_wrapped(&screen, 4, "%s", reason_rows[reason].help);
	}
	if (cJSON_GetArraySize(changes) == 0)
		puts(nothing);
	return r;
}

static int print_plan(const struct cli *cli, const struct plan *plan, const char *nothing)
{
	cJSON *document = report_plan(plan, false);

	if (cli->json) {
		json_put(stdout, document, true);
	} else {
		print_changes(document, nothing);
		cJSON_Delete(document);
	}
	return plan->n > 0 ? EXIT_ATTENTION : EXIT_OK;
}

/*
 * The configuration on disk has a fault. An apply would use the configuration that the running
 * agent has loaded, so the plan lists the agent's settings that are not in sync.
 */
static int plan_of_agent(const struct cli *cli)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *status = NULL;
	struct plan plan = {0};
	const cJSON *setting;
	char alone[CLI_ALONE_MAX];
	int r = status_document(cli, false, &status, alone);

	if (r != EXIT_OK)
		return r;
	cJSON_ArrayForEach (setting, json_at(status, "settings")) {
		const char *wanted = json_text_at(setting, "wanted");
		const char *actual = json_text_at(setting, "actual");
		struct change *change;

		if (!wanted[0] || value_equal(wanted, actual) ||
			streq(json_text_at(setting, "state"), "unsupported") ||
			(cli->only && !streq(cli->only, json_text_at(setting, "tuner"))))
			continue;
		change = plan_add(&plan, NULL, json_text_at(setting, "name"),
			json_text_at(setting, "tuner"), actual, wanted);
		change->reason = reason_parse(json_text_at(setting, "reason"));
	}
	r = print_plan(cli, &plan, "Nothing to change.");
	plan_clear(&plan);
	return r;
}

int cli_plan(const struct cli *cli)
{
	struct config *config = cli_load_config(cli, NULL);
	struct core core = {0};
	struct plan hidden = {0};
	int r;

	if (!config)
		return plan_of_agent(cli);
	/* Like apply: released tuners enforce, and drifted settings are set again. */
	r = local_poll(cli, config, false, true, &core);
	if (r != EXIT_OK)
		return r;
	core_plan_only(&core, cli->only);
	core_add_hidden(&core, cli->only, &hidden);
	r = print_plan(cli, &core.plan,
		hidden.n > 0 ? "Nothing can be changed now." : "Nothing to change.");
	for (size_t i = 0; i < hidden.n; i++) {
		cli_fail(hidden.changes[i].name, "%s", hidden.changes[i].why);
		r = r == EXIT_OK ? EXIT_FAILED : r;
	}
	plan_clear(&hidden);
	core_close(&core);
	return r;
}
