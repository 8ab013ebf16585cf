/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/local.h"

#include "base/util.h"

int local_poll(
	const struct cli *cli, struct config *config, bool watch, bool as_apply, struct core *core)
{
	struct core_options options = cli->core;
	int r;

	options.watch = watch;
	r = core_open(core, &options, config);
	if (r == 0) {
		core->as_apply = as_apply;
		core_read_records(core);
		if (as_apply)
			core_reset(core, cli->only);
		core_sample(core);
	}
	if (r == 0)
		r = core_poll(core);
	if (r == 0)
		return EXIT_OK;
	core_close(core);
	return cli_fail("node", "%s", strerror(-r));
}
