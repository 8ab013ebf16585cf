/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include "base/json.h"
#include "base/util.h"
#include "cli/changes.h"
#include "cli/client.h"
#include "cli/local.h"
#include "report/report.h"

#include <errno.h>
#include <stdio.h>

static int print_plan(const struct cli *cli, const struct plan *plan)
{
	_cleanup_free_ char *json = NULL;

	if (report_plan(plan, false, &json) < 0)
		return cli_fail("plan", "%s", strerror(ENOMEM));
	if (cli->json)
		fputs(json, stdout);
	else if (plan->n > 0)
		print_changes(json);
	else
		puts("Nothing to change.");
	return plan->n > 0 ? EXIT_ATTENTION : EXIT_OK;
}

static const char *text_of(const cJSON *setting, const char *name)
{
	const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(setting, name));

	return text ? text : "";
}

/*
 * The configuration on disk has a fault: an apply would go by the one that the running agent has
 * loaded, so what its settings lack is the plan.
 */
static int plan_of_agent(const struct cli *cli)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *status = NULL;
	struct plan plan = {0};
	const cJSON *setting;
	bool alone;
	int r = status_document(cli, false, &status, &alone);

	if (r != EXIT_OK)
		return r;
	cJSON_ArrayForEach (setting, cJSON_GetObjectItemCaseSensitive(status, "settings")) {
		const char *wanted = text_of(setting, "wanted"),
			   *actual = text_of(setting, "actual");
		struct change *change;

		if (!wanted[0] || value_equal(wanted, actual) ||
			streq(text_of(setting, "state"), "unsupported") ||
			(cli->only && !streq(cli->only, text_of(setting, "tuner"))) ||
			!(change = plan_add(&plan)))
			continue;
		copy_text(change->name, sizeof(change->name), text_of(setting, "name"));
		copy_text(change->tuner, sizeof(change->tuner), text_of(setting, "tuner"));
		copy_text(change->old, sizeof(change->old), actual);
		copy_text(change->new, sizeof(change->new), wanted);
		change->reason = text_of(setting, "reason");
	}
	r = print_plan(cli, &plan);
	plan_clear(&plan);
	return r;
}

int cli_plan(const struct cli *cli)
{
	struct config *config = cli_load_config(cli);
	const struct condition *unreachable;
	struct core core = {0};
	int r;

	if (!config)
		return plan_of_agent(cli);
	/* As apply would: what a restore or on_drift left is wanted again. Nothing is stored. */
	r = local_poll(cli, config, false, true, &core);
	if (r != EXIT_OK)
		return r;
	core_plan_only(&core, cli->only);
	r = print_plan(cli, &core.plan);
	unreachable = cli->only && !streq(cli->only, "runtime") ? NULL : core_unreachable(&core);
	if (unreachable) {
		cli_fail("runtime", "%s", unreachable->now.message);
		r = r == EXIT_OK ? EXIT_FAILED : r;
	}
	core_close(&core);
	return r;
}
