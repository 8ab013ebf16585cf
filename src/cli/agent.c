/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include "agent/agent.h"

int cli_agent(const struct cli *cli)
{
	struct core_options options = cli->core;

	options.watch = true;
	return agent_run(&options);
}
