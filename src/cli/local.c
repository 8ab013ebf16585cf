/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/local.h"

#include "base/util.h"

int local_look(const struct cli *cli, bool watch, struct core *core)
{
	struct core_options options = cli->core;
	struct config *config = cli_load_config(cli);
	int r;

	if (!config)
		return EXIT_FAILED;
	options.watch = watch;
	r = core_open(core, &options, config);
	if (r == 0) {
		core_read_journal(core);
		r = core_settle(core);
	}
	if (r == 0)
		r = core_poll(core);
	if (r == 0)
		return EXIT_OK;
	core_close(core);
	return cli_fail("node", "%s", strerror(-r));
}
