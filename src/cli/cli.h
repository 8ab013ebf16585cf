/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The command line: one file a subcommand, or several that are alike. */

#include <cjson/cJSON.h>

#include "agent/core.h"

enum {
	EXIT_OK = 0,
	EXIT_FAILED = 1,
	EXIT_ATTENTION = 2, /* changes are pending, the verdict is not ok */
	EXIT_USAGE = 64,    /* sysexits.h, EX_USAGE */
};

/* The options of all subcommands, as given. */
struct cli {
	struct core_options core;
	const char *only; /* --only TUNER; NULL for all */
	bool json;
	bool watch;
	bool purge;
	bool help;
	char **names; /* what is left of the command line */
	int n_names;
	unsigned turn; /* of the columns that s sorts by */
};

/* The tables of options and commands: usage, manual and completion are made from them. */
struct cli_option {
	const char *name;     /* NULL ends the table */
	const char *argument; /* NULL for none */
	const char *help;
	size_t offset; /* in struct cli: of a bool or, with an argument, a text */
};

struct cli_command {
	const char *name; /* NULL ends the table */
	int (*run)(const struct cli *cli);
	const char *takes; /* options: "only json"; beside those that every command takes */
	const char *names; /* what it takes beside options; NULL for nothing */
	const char *summary;
	const char *help;
	const char *example; /* "headroom plan --only neighbor" */
};

/* What the commands end with. */
struct cli_exit {
	int code;
	const char *help; /* NULL ends the table */
};

extern const struct cli_option cli_options[];
extern const struct cli_command cli_commands[];
extern const struct cli_exit cli_exits[];

/* Whether the command takes this option; all: those of all commands are not left out. */
bool cli_takes(const struct cli_command *command, const struct cli_option *option, bool all);

#define CLI_USAGE_MAX 160

/* "plan [--only TUNER] [--json]". */
void cli_usage(const struct cli_command *command, char usage[static CLI_USAGE_MAX]);

int cli_main(int argc, char **argv);

int cli_apply(const struct cli *cli);
int cli_check_config(const struct cli *cli);
int cli_explain(const struct cli *cli);
int cli_images(const struct cli *cli);
int cli_plan(const struct cli *cli);
int cli_restore(const struct cli *cli);
int cli_status(const struct cli *cli);
int cli_top(const struct cli *cli);
int cli_version(const struct cli *cli);

/*
 * Loads the configuration; faults go to stderr as FILE:LINE:COLUMN: MESSAGE. After a fault NULL, or
 * where faulty is not NULL the defaults: to reach a running agent all the same.
 */
struct config *cli_load_config(const struct cli *cli, bool *faulty);

/*
 * Prints once or, again, every two seconds, until that fails or, on a terminal, someone presses q:
 * the exit code of the last time. s moves cli->turn.
 */
int cli_repeat(const struct cli *cli, bool again, int (*print)(const struct cli *cli));

/* The running agent and, where there is none, a poll of our own. */

/*
 * One request to the running agent: over its unix socket, or over TCP when socket_path is NULL and
 * address ("127.0.0.1:19810") is not. Its HTTP status, and the answer's document: NULL for an
 * answer of another form, else the caller's. 0; -ENOTCONN when no agent answers there; -EACCES when
 * the socket is not for us; -ETIMEDOUT.
 */
int client_call(const char *socket_path, const char *address, bool post, const char *path,
	cJSON **body, long *status);

/*
 * Opens the tuners and polls once, writing nothing. as_apply: as if every tuner enforced. Takes
 * ownership of config. EXIT_OK, and core_close releases core; else an exit code.
 */
int local_poll(
	const struct cli *cli, struct config *config, bool watch, bool as_apply, struct core *core);

/*
 * The status document, of the running agent or, without one, of a reading of our own (watch: with
 * what only BPF knows). EXIT_OK with *status, which the caller deletes, and in alone whether there
 * was no agent; else an exit code, reported on stderr. Its texts are printable.
 */
int status_document(const struct cli *cli, bool watch, cJSON **status, bool *alone);

/*
 * Prints the changes of a document of report_plan(), here or in the agent: a line each with name,
 * old, new and why, then what each reason means; failures on stderr. An exit code.
 */
int print_changes(cJSON *document, const char *nothing);

/* "headroom: OBJECT: what: cure" on stderr; returns EXIT_FAILED. */
int cli_fail(const char *object, const char *format, ...) PRINTF_LIKE(2, 3);

/* screen.c: text for people; colours and bars on a terminal, lines wrapped and never cut. */

/* Begins anew at the top of a terminal. */
#define SCREEN_CLEAR "\033[H\033[J"

struct screen {
	bool color; /* a terminal, and NO_COLOR is not set: colours */
	bool bars;  /* a terminal: bars of block characters */
	int width;  /* columns: COLUMNS, else the terminal's; INT_MAX where nothing ends */
	int height; /* lines; INT_MAX where nothing ends */
	int column; /* of what comes next */
};

enum color {
	COLOR_NONE,
	COLOR_GOOD, /* from here in the order of enum tone */
	COLOR_WARNING,
	COLOR_BAD,
	COLOR_FAINT,
	COLOR_BOLD,
};

/* How to draw on standard output, from what it is and the environment. */
struct screen screen_open(void);

void draw(struct screen *screen, enum color color, const char *format, ...) PRINTF_LIKE(3, 4);

/* A share of 0..1 and two blanks; nothing where the screen has no bars. */
void draw_bar(struct screen *screen, enum color color, double share);

/* The rest of the line, wrapped between words; lines that follow begin at the column indent. */
void draw_wrapped(struct screen *screen, int indent, const char *format, ...) PRINTF_LIKE(3, 4);

/* A paragraph from the line's begin on, all of it at this column; nothing for "". */
void draw_paragraph(struct screen *screen, int indent, const char *text);

/* A row of the status document. */
void print_limit(struct screen *screen, const cJSON *limit);
