/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include "base/util.h"
#include "cli/changes.h"
#include "cli/local.h"
#include "report/plan_json.h"

#include <errno.h>
#include <stdio.h>

int cli_plan(const struct cli *cli)
{
	_cleanup_free_ char *json = NULL;
	struct core core = {0};
	size_t n;
	int r = local_look(cli, false, &core);

	if (r != EXIT_OK)
		return r;
	/* As apply would: what a restore or on_drift left is wanted again. Nothing of it is stored.
	 */
	core_reset(&core, cli->only);
	r = core_poll(&core);
	core_plan_only(&core, cli->only);
	n = core.plan.n;
	if (r == 0)
		r = report_plan(&core.plan, false, &json);
	core_close(&core);
	if (r < 0)
		return cli_fail("plan", "%s", strerror(-r));
	if (cli->json)
		puts(json);
	else if (n > 0)
		print_changes(json);
	else
		puts("Nothing to change.");
	return n > 0 ? EXIT_ATTENTION : EXIT_OK;
}
