/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_LOCAL_H
#define CLI_LOCAL_H

/* What a subcommand does by itself when no agent is asked. */

#include "cli/cli.h"

/*
 * Opens the tuners and polls once, writing nothing. as_apply: as if every tuner enforced. Takes
 * ownership of config. 0 or an exit code; core_close releases core.
 */
int local_poll(
	const struct cli *cli, struct config *config, bool watch, bool as_apply, struct core *core);

#endif
