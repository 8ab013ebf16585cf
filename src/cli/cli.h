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

/* The tables of options and commands: usage, manual and completion are made from them. */
struct cli_option {
	const char *name;     /* NULL ends the table */
	const char *argument; /* NULL for none */
	unsigned bit;
	const char *help;
};

struct cli_command {
	const char *name; /* NULL ends the table */
	int (*run)(const struct cli *cli);
	unsigned takes;    /* bits of options; those of all commands are not among them */
	const char *names; /* what it takes beside options; NULL for nothing */
	const char *summary;
	const char *help;
};

/* Every command takes --config, --host-root and --help. */
#define OPTIONS_OF_ALL (1U << 0 | 1U << 5 | 1U << 6)

extern const struct cli_option cli_options[];
extern const struct cli_command cli_commands[];

#define CLI_USAGE_MAX 160

/* "plan [--only TUNER] [--json]". */
void cli_usage(const struct cli_command *command, char usage[static CLI_USAGE_MAX]);

int cli_main(int argc, char **argv);

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

/* The same, and after a fault the defaults: to reach a running agent all the same. */
struct config *cli_any_config(const struct cli *cli, bool *faulty);

/* "headroom: OBJECT: what: cure" on stderr; returns EXIT_FAILED. */
int cli_fail(const char *object, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
