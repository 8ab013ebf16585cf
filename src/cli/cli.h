/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

/* The command line: one file a subcommand. */

#include <stdbool.h>
#include <stddef.h>

#include "agent/core.h"

enum {
	EXIT_OK = 0,
	EXIT_FAILED = 1,
	EXIT_ATTENTION = 2, /* changes are pending, a condition is True */
	EXIT_USAGE = 64,    /* sysexits.h, EX_USAGE */
};

/* The options of all subcommands, as given. */
struct cli {
	struct core_options core;
	const char *only; /* --only TUNER; NULL for all */
	bool json;
	bool watch;
	bool help;
	char **names; /* what is left of the command line */
	int n_names;
};

int cli_main(int argc, char **argv);

int cli_agent(const struct cli *cli);
int cli_apply(const struct cli *cli);
int cli_check_config(const struct cli *cli);
int cli_explain(const struct cli *cli);
int cli_plan(const struct cli *cli);
int cli_restore(const struct cli *cli);
int cli_status(const struct cli *cli);
int cli_top(const struct cli *cli);
int cli_version(const struct cli *cli);

/* Loads the configuration; faults go to stderr as FILE:LINE:COLUMN: MESSAGE. NULL after a fault. */
struct config *cli_load_config(const struct cli *cli);

/* "headroom: OBJECT: what: cure" on stderr; returns EXIT_FAILED. */
int cli_fail(const char *object, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
