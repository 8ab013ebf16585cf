/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_LOCAL_H
#define CLI_LOCAL_H

/* What a subcommand does by itself when no agent is asked. */

#include "cli/cli.h"

/* Opens the tuners and looks once, writing nothing. 0 or an exit code; core_close releases core. */
int local_look(const struct cli *cli, bool watch, struct core *core);

#endif
