/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Rows of the const tables that describe a tuner; see also condition.h. Status, metrics, the page,
 * `explain`, the man pages and the other documents are generated from them: nothing is listed
 * twice.
 */

#include <headroom/condition.h>
#include <headroom/finding.h>

/*
 * A number in a file below the host's root: field NUMBER of its only line, or the number that
 * belongs to a name on the lines that begin with a word, as in proc_net_sockstat and netstat.
 */
struct number_in_file {
	const char *path;
	unsigned field; /* counted from 1, separated by white space */
	const char *line, *name;
};

struct config_option;
struct profile_row;
struct host;
struct limit_reader;

enum check_result {
	CHECK_FINE,
	CHECK_FAULT,
	CHECK_ABSENT,  /* the node lacks the thing to check */
	CHECK_UNKNOWN, /* message says why */
};

#define CHECK_MESSAGE_MAX 512

/* A result of a check about one instance. Texts may be empty, and are free of control characters.
 */
struct check_finding {
	const struct check_row *row;
	enum check_result result;
	enum severity severity; /* of CHECK_FAULT: the row's unless the check knows better */
	uint64_t since_us;      /* CLOCK_REALTIME; 0: not known */
	struct instance instance;
	char message[CHECK_MESSAGE_MAX];
	char now[CHECK_MESSAGE_MAX]; /* a command or an edit; empty: the row's */
	bool now_is_edit;
	char keep[CHECK_MESSAGE_MAX]; /* lines of configuration; empty: from the row's option */
	char hint[CHECK_MESSAGE_MAX]; /* why nothing can be typed, or where to look */
};

struct check_report {
	const struct host *host;
	const struct check_row *row; /* of this call */
	struct check_finding *findings;
	size_t n, allocated;
};

/* Reads the node for `headroom doctor`, and adds at least one finding to the report. */
typedef void check_fn(struct check_report *report);

/* The kinds of names that `explain` knows, with the text that users see. */
#define ENTRY_KINDS_LIST(X)                                       \
	X(TUNER, "tuner")                                         \
	X(OPTION, "config key")                                   \
	X(LIMIT, "limit")                                         \
	X(SETTING, "setting")                                     \
	X(PROFILE_SETTING, "setting") /* a sysctl of a profile */ \
	X(CONDITION, "condition")                                 \
	X(REASON, "reason")                                       \
	X(METRIC, "metric")                                       \
	X(CHECK, "check")                                         \
	X(PROFILE, "profile")                                     \
	X(KUBELET_OPTION, "kubelet option")                       \
	X(BUDGET, "budget")                                       \
	X(ADVICE, "advice")                                       \
	/* Words that status prints. */                           \
	X(MODE, "mode")                                           \
	X(TUNER_STATE, "state of a tuner")                        \
	X(SETTING_STATE, "state of a setting")                    \
	X(RUNTIME_STATE, "state of a runtime")                    \
	X(IMAGE_STATE, "state of an image")                       \
	X(VERDICT, "verdict")                                     \
	X(SEVERITY, "severity")                                   \
	X(CONDITION_STATUS, "status of a condition")              \
	X(LOG_LEVEL, "level of the log")                          \
	X(INCIDENT_STATE, "state of an incident")                 \
	X(COLUMN, "column")                                       \
	X(WORKLOAD_KIND, "kind of workload")                      \
	X(VALUE, "value")                                         \
	X(RCODE, "code of an answer")                             \
	X(MEMBER, "member of JSON")                               \
	X(ALERT, "alert")

#define ENTRY_KIND(name, text) ENTRY_##name,
enum entry_kind { ENTRY_KINDS_LIST(ENTRY_KIND) ENTRY_KINDS };
#undef ENTRY_KIND

extern const char *const entry_kind_names[ENTRY_KINDS];

/*
 * Anything with a name, as explain, the shell completion and the documents show it. all_entries()
 * makes entries from the tables of options, limits, conditions and so on. Settings and words have
 * nothing more than their explanation, so the tables have rows of this type for them.
 */
struct help_entry {
	const char *name; /* limits and settings: an fnmatch(3) pattern; NULL ends a table */
	enum entry_kind kind;
	const char *help; /* meaning and importance */
	/* Each may be NULL. */
	const char *unit;
	const char *def;    /* the kernel's default */
	const char *option; /* the option that controls it, or keeps the cure */
	const char *source; /* kernel file, commit, RFC or document */
	const char *tuner;  /* whose table has it; NULL: the agent's. Set by all_entries() */
	/* The row that the entry was made from, by kind. */
	union {
		const struct config_option *config_option;
		const struct limit_row *limit;
		const struct condition_type *condition;
		const struct reason_row *reason;
		const struct metric_row *metric;
		const struct check_row *check;
		const struct profile_row *profile_row;
	};
};

/* A word that status prints. */
#define WORD(word, word_kind, meaning) \
	{.name = (word), .kind = (word_kind), .help = (meaning), .source = "headroom(8)"}

/* A member of the JSON documents. */
#define MEMBER(name, meaning) \
	{(name), ENTRY_MEMBER, (meaning), .source = "/usr/share/headroom/schema"}

struct limit_row {
	const char *name, *help, *unit, *def, *option, *source; /* as in struct help_entry */
	enum severity severity;                                 /* when it is reached */
	const char *breaks;    /* what fails then, with the text of the error */
	const char *cure_help; /* what helps in general: a finding has the command */
	struct number_in_file used, max, hits; /* where the kernel shows them in files */
	const struct limit_reader *reader;     /* how the tuner `limits` reads another limit */
};

/* A check of `headroom doctor` besides conditions, limits and settings. */
struct check_row {
	const char *name, *help, *option, *source; /* as in struct help_entry */
	enum severity severity;                    /* what a fault is */
	const char *breaks, *now;                  /* as in struct limit_row */
	check_fn *check; /* NULL: another row's function checks it, or the command */
};

struct cJSON;

/* How a cell is shown. */
enum column_format {
	COLUMN_TEXT,
	COLUMN_CODE,    /* a value of a file or of the kernel */
	COLUMN_NOTE,    /* text of less importance */
	COLUMN_STATE,   /* text coloured by tone_of() */
	COLUMN_NUMBER,  /* a whole number */
	COLUMN_SECONDS, /* a time: 380 µs, 21 ms */
	COLUMN_TIME,    /* a time of RFC 3339 */
	COLUMN_HISTORY, /* an array as history_json() writes it */
};

/* A column of the table in which the page and `headroom top` show a tuner's document. */
struct column {
	const char *title;   /* on the page; NULL: not shown there */
	const char *heading; /* in `headroom top`; NULL: not shown there */
	const char *key;     /* path of the value in the row: "latency/p50" */
	enum column_format format;
	int width;         /* in `headroom top`, in characters; negative: aligned left */
	const char *limit; /* path of a number: values near or above it are coloured */
	const char *tone;  /* COLUMN_STATE: path of the word that gives the colour; or NULL */
	const char *unit;  /* COLUMN_HISTORY: of its values; "us" is a time. NULL: none */
	const char
		*link; /* on the page, the text is a link to this address and the text; or NULL */
	/* Says which columns `headroom top` leaves out if they do not fit: the largest first. 0:
	 * never. */
	unsigned rank;
	/* Instead of key: combines several members. text is an empty string at the call. */
	void (*write)(const struct cJSON *row, char *text, size_t size);
};

struct table_view {
	const char *title;
	const char *times; /* of which time some columns are, beside the title; NULL: nothing */
	const struct table_view *next; /* another table of the same document; NULL: none */
	const char *rows;              /* name of the array in the document */
	unsigned rank;                 /* the page shows the tables in this order */
	const struct column *columns;  /* at most 32; the last has neither key nor write */
	const char *(*help)(const struct cJSON *row); /* explains a row; NULL: rows have no help */
	/* False for a row that the page leaves out. May be NULL. */
	bool (*shows)(const struct cJSON *row);
	/* True for a row that the page shows in a closed list below the others. May be NULL. */
	bool (*folds)(const struct cJSON *row);
	const char *folded; /* heading of that list: "idle" */

	/* True for a row whose numbers are not known, which are then shown as "-". May be NULL. */
	bool (*blanks)(const struct cJSON *row);

	/* The order of the rows: "problems first". NULL: by the first column of numbers. */
	const char *order;

	/* `headroom top` leaves it out if it is empty, unless the tuner's first was asked for. */
	bool is_optional;

	/* For `headroom top`, which shows no table without them. `headroom top` and the name of
	 * the rows, or of the tuner, shows the table alone. */
	const char *empty; /* printed if the table has no rows */
	/* Appends the lines below the table. */
	void (*write_notes)(const struct cJSON *document, char *text, size_t size);
	/* Writes line i below a row, from 0; an empty one is left out. False after the last. The
	 * page shows the lines of rows whose severity is warning or critical. May be NULL. */
	bool (*write_detail)(const struct cJSON *row, int i, char *text, size_t size);
	int users_at; /* the line of the largest user: it stays where there is room for few lines */
};

#define METRIC_LABELS_MAX 6

enum metric_type {
	METRIC_GAUGE,
	METRIC_COUNTER,   /* its name ends in _total */
	METRIC_HISTOGRAM, /* metric_histogram() writes its samples */
};

/* A metric without a row is not exported. */
struct metric_row {
	const char *name; /* "headroom_limit_used"; NULL ends a table */
	enum metric_type type;
	const char *unit; /* "seconds"; NULL for a plain number */
	const char *help;
	const char *labels[METRIC_LABELS_MAX]; /* unused elements are NULL */
};

/* When a capability is needed. */
enum capability_use {
	CAPABILITY_TO_OPEN,    /* to load BPF programs; dropped afterwards */
	CAPABILITY_TO_RUN,     /* while the tuner is on */
	CAPABILITY_TO_ENFORCE, /* while the tuner may change files, or has changed some */
	CAPABILITY_TO_CHROOT,  /* while it is on, if the host's root is not the agent's */
	CAPABILITY_TO_SET,     /* while a setting is managed whose name begins with `setting` */
};

struct capability_row {
	const char *name; /* "CAP_NET_ADMIN"; NULL ends a table */
	int capability;
	enum capability_use use;
	const char *setting; /* CAPABILITY_TO_SET: a prefix of setting names; else NULL */
	const char *why;
};

/* The first two members of a struct capability_row. */
#define CAPABILITY(capability) #capability, capability
