/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The command line. A file has one subcommand, or a few similar subcommands. */

#include "agent/core.h"

enum {
	EXIT_OK = 0,
	EXIT_FAILED = 1,
	EXIT_ATTENTION = 2, /* changes are pending, or the verdict is not ok */
	EXIT_USAGE = 64,    /* sysexits.h, EX_USAGE */
};

/* What the keys of a live view have changed. */
struct live_view {
	unsigned sort_column; /* how often s was pressed */
	int scroll;           /* lines; screen_fit() keeps it within the text */
	bool typing;          /* of the filter */
	bool keys;            /* the list of keys is shown */
	char filter[64];      /* only rows that have it are shown */
};

/* A parsed command line. */
struct cli {
	struct core_options core;
	const char *only; /* --only TUNER; NULL: all tuners */
	bool json;
	bool watch;
	const char *probe;  /* --probe PATH; NULL: the overview */
	const char *bundle; /* --bundle FILE; NULL: none */
	bool plan;          /* restore: only show it */
	bool purge;
	bool force;
	const char *prometheus; /* --prometheus URL */
	const char *finding;    /* --finding NAME; NULL: none */
	const char *by;         /* --by LABEL; NULL: none */
	const char *diff[2];    /* --diff A B; NULL: none */
	const char *token_file; /* --token-file FILE; NULL: no token */
	char *headers;          /* each --header, one a line; NULL: none */
	const char *ca;         /* --ca FILE; NULL: the system's */
	bool help;
	char **names; /* arguments other than options */
	int n_names;
	struct live_view *live; /* NULL: the command prints once */
};

/* The usage, the man page and the completion are generated from the tables below. */
struct cli_option {
	const char *name;     /* NULL ends the table */
	const char *argument; /* NULL for none; two words are two arguments */
	const char *help;
	size_t offset; /* its member in struct cli: a bool, or a string for each argument */
	bool repeats;  /* the member has all its arguments, one a line */
};

struct cli_command {
	const char *name; /* NULL ends the table */
	int (*run)(const struct cli *cli);
	const char *options; /* "only json"; every command also has config, host-root and help */
	const char *names;   /* its other arguments in the usage; NULL: none */
	const char *summary;
	const char *help;
	const char *example; /* "headroom plan --only neighbor" */
};

/* A code has a row for each meaning. */
struct cli_exit {
	int code;
	const char *commands; /* "plan restore"; NULL: every command */
	const char *help;     /* NULL ends the table */
};

extern const struct cli_option cli_options[];
extern const struct cli_command cli_commands[];
extern const struct cli_exit cli_exits[];

/* Finds a command by its name, or NULL. */
const struct cli_command *cli_find_command(const char *name);

/* Returns whether the command has the option. common: the options that every command has count too.
 */
bool cli_has_option(
	const struct cli_command *command, const struct cli_option *option, bool common);

/* Returns whether the command can end with the code of this row, for its reason. */
bool cli_has_exit(const struct cli_command *command, const struct cli_exit *row);

#define CLI_USAGE_MAX 160

/* Writes "plan [--only TUNER] [--json]". */
void cli_usage(const struct cli_command *command, char usage[static CLI_USAGE_MAX]);

int cli_main(int argc, char **argv);

int cli_apply(const struct cli *cli);
int cli_check_config(const struct cli *cli);
int cli_config(const struct cli *cli);
int cli_doctor(const struct cli *cli);
int cli_explain(const struct cli *cli);
int cli_fleet(const struct cli *cli);
int cli_images(const struct cli *cli);
int cli_incidents(const struct cli *cli);
int cli_plan(const struct cli *cli);
int cli_restore(const struct cli *cli);
int cli_status(const struct cli *cli);
int cli_top(const struct cli *cli);
int cli_version(const struct cli *cli);

/* Returns whether `headroom top NAME` shows something: the completion offers such names. */
bool cli_top_accepts(const char *name);

/*
 * Loads the configuration. If it has a fault and faulty is NULL, prints all faults to stderr as
 * FILE:LINE:COLUMN: MESSAGE and returns NULL. Otherwise returns the defaults, which are enough to
 * find the agent. If none answers, call cli_print_faults(): an agent shows the faults itself.
 */
struct config *cli_load_config(const struct cli *cli, bool *faulty);

/* Prints what cli_load_config() has not printed. */
void cli_print_faults(const struct cli *cli);

/*
 * Sends a request to the running agent, over its unix socket or, if socket_path is NULL, over TCP
 * to address ("127.0.0.1:19810"). Returns 0 with the HTTP status and the JSON document, which the
 * caller deletes (NULL if the answer is no JSON object). -ENOTCONN: no agent answers. -EACCES: the
 * caller may not use the socket. -ETIMEDOUT.
 */
int client_call(const char *socket_path, const char *address, bool post, const char *path,
	cJSON **body, long *status);

/* Does the same for an answer of any kind, whose text the caller frees; NULL if it is empty. */
int client_text(const char *socket_path, const char *address, bool post, const char *path,
	char **text, long *status);

/*
 * Opens the tuners and polls once without writing. as_apply: as if every tuner enforced. Owns
 * config from now on. Returns EXIT_OK, and the caller closes core; or another exit code.
 */
int local_poll(
	const struct cli *cli, struct config *config, bool watch, bool as_apply, struct core *core);

#define CLI_ALONE_MAX 64

/* Reports an agent that did not answer in time, in text and on stderr. Returns EXIT_FAILED. */
int cli_fail_hung(const char *socket_path, char text[static CLI_ALONE_MAX]);

/* The configuration that a command found: the defaults if the files have a fault, not printed yet.
 */
struct cli_config {
	struct config *config; /* NULL: not loaded yet */
	bool faulty;
	bool may_be_faulty; /* a fault does not end the command: it uses the defaults */
};

/*
 * Gets the status document from the running agent or, if none answers, from a poll of this process
 * (watch: with BPF). Returns EXIT_OK with *status, which the caller deletes, and alone, which says
 * why no agent answers or is empty; or another exit code after a message. All texts are printable.
 */
int status_document(
	const struct cli *cli, bool watch, cJSON **status, char alone[static CLI_ALONE_MAX]);

/*
 * Does the same with a configuration, which belongs to the call from now on. metrics gets the
 * metrics as text; NULL: none.
 */
int node_documents(const struct cli *cli, struct cli_config config, bool watch, cJSON **status,
	FILE *metrics, char alone[static CLI_ALONE_MAX]);

/* Makes the document of `headroom version --json`, which the caller deletes. */
cJSON *version_document(const cJSON *status);

/* Prints "headroom: OBJECT: what: cure" to stderr. Returns EXIT_FAILED. */
int cli_fail(const char *object, const char *format, ...) PRINTF_LIKE(2, 3);

/* screen.c: text output. Colours and bars need a terminal. Long lines wrap and are never cut. */

/* Clears the terminal. */
#define SCREEN_CLEAR "\033[H\033[J"

struct screen {
	bool color; /* a terminal, and NO_COLOR is not set */
	bool bars;  /* a terminal */
	int width;  /* in characters: COLUMNS, else the terminal's; INT_MAX: unlimited */
	int height; /* in lines; INT_MAX: unlimited */
	bool live;  /* a terminal that can be cleared: the output must fit it */
	/* INT_MAX: all. The numbers become smaller in this order until the output fits. */
	int keep;     /* rows without a problem in a list, and lines below such a row */
	int lines;    /* lines below a row with a problem */
	int problems; /* rows with a problem in a list of problems */
	int names;    /* columns for the names of limits */
	bool ascii;   /* the locale is not UTF-8 */
	FILE *out;
	int column;             /* where the next character goes, from 0 */
	int blanks;             /* before it, not written yet */
	struct live_view *view; /* NULL: no keys */
};

/* Where the further lines of a row begin on a live screen that is too narrow. */
#define LIVE_INDENT 4

/* Lines that a row with a problem keeps while other rows lose theirs. */
#define LINES_MIN 3

enum color {
	COLOR_NONE,
	COLOR_GOOD, /* from here on in the order of enum tone */
	COLOR_WARNING,
	COLOR_BAD,
	COLOR_FAINT,
	COLOR_BOLD,
};

/* Inspects standard output and the environment. */
struct screen screen_open(void);

/*
 * Clears the screen and draws what fits its height: problems with their first users before rows
 * without a problem. Not live: draws all.
 */
void screen_fit(
	struct screen *screen, void (*render)(struct screen *screen, void *data), void *data);

/* Writes a text with "…" instead of its middle, if it is wider than width columns. Returns out. */
const char *shorten(const char *text, int width, char *out, size_t size);

/* Returns the columns that a text takes. */
int text_width(const char *text);

void draw(struct screen *screen, enum color color, const char *format, ...) PRINTF_LIKE(3, 4);

/* Continues the row on the next line, at column indent. */
void draw_further(struct screen *screen, int indent);

/* Begins a line with a title or with column headings: the filter of a live view keeps them. */
void draw_heading_mark(struct screen *screen);

/* Draws a share of 0..1 as a bar and two blanks, if the screen has bars. */
void draw_bar(struct screen *screen, enum color color, double share);

/* Ends the line with this text, wrapped between words. Further lines begin at column indent. */
void draw_wrapped(struct screen *screen, int indent, const char *format, ...) PRINTF_LIKE(3, 4);

/* Draws an indented name of this width, and a text beside it. An empty text (or NULL) draws
 * nothing. */
void draw_field(struct screen *screen, enum color color, int indent, int width, const char *name,
	const char *text);

/* Draws an indented paragraph with draw_wrapped(). An empty text draws nothing. */
void draw_paragraph(struct screen *screen, int indent, const char *text);

/* finding.c: a finding of the status document, or a check of doctor in the same form. */

/* Draws it with its users and cure. word: its severity or status. */
void draw_finding(struct screen *screen, int indent, const char *word, const cJSON *finding);

/* Draws the lines with its users and cure alone. */
void draw_finding_cure(struct screen *screen, int indent, const cJSON *finding);

/* Draws it on one line, with its users: for a list that is renewed. */
void draw_finding_row(struct screen *screen, const cJSON *finding);

/* Returns the colour of a state, status or verdict of the document. */
enum color color_of(const char *word);
