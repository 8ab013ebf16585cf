/* SPDX-License-Identifier: Apache-2.0 */
#ifndef AGENT_AGENT_H
#define AGENT_AGENT_H

#include "agent/core.h"

/* The daemon: runs until SIGTERM or SIGINT. The exit code of the program. */
int agent_run(const struct core_options *options);

#endif
