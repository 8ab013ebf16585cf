/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Rows of the const tables that say what a tuner is; see also condition.h. Status, metrics, the
 * page, `explain`, the manual and the other documents are made from them: nothing is listed twice.
 */

#include <stdbool.h>
#include <stddef.h>

/* A number in a file below the host's root. */
struct number_in_file {
	const char *path;
	unsigned field; /* from 1, white space between them */
};

struct config_option;
struct condition_type;

/*
 * What has a name: `explain`, the completion and the documents are lists of these. The tables hold
 * those of limits, settings and of other names that status shows; all_entries() makes the others
 * from the rows of the other tables.
 */
struct explanation {
	const char *name; /* of limits and settings: a pattern of fnmatch(3); NULL ends a table */
	const char *kind; /* "limit", "setting", "condition", "reason", "config key", ... */
	const char *help; /* what it is and why it matters; NULL for none, as for all below */
	const char *unit;
	const char *def;                        /* the kernel's own default */
	const char *option;                     /* the option that governs it */
	const char *source;                     /* kernel file, commit, RFC or document */
	const char *detail;                     /* "critical when True" */
	const char *const *labels;              /* of a metric; METRIC_LABELS_MAX of them */
	const struct config_option *row;        /* of a config key */
	const struct condition_type *condition; /* of a condition */
	struct number_in_file used, max;        /* of a limit that the tuner `limits` reads */
};

struct cJSON;

/* How a cell is shown. */
enum column_format {
	COLUMN_TEXT,
	COLUMN_CODE,    /* a value of a file or of the kernel */
	COLUMN_NOTE,    /* a text of less weight */
	COLUMN_STATE,   /* a text, marked good or bad by what it says */
	COLUMN_NUMBER,  /* a whole number */
	COLUMN_SECONDS, /* a time: 380 us, 21 ms */
	COLUMN_HISTORY, /* an array as history_json() writes it */
};

/* A column of the table that the page and `headroom top` show of a tuner's document. */
struct column {
	const char *title;   /* on the page; NULL: not there */
	const char *heading; /* in `headroom top`; NULL: not there */
	const char *key;     /* in the row: "latency/p50" */
	enum column_format format;
	int width;         /* in `headroom top`; negative: aligned left */
	const char *limit; /* a key: what is above this number, or near it, is coloured */
	/* Makes a text of several members, in place of key; the buffer is empty before. */
	void (*write)(const struct cJSON *row, char *text, size_t size);
};

struct table_view {
	const char *title;
	const char *rows;             /* the array in the document */
	const struct column *columns; /* ended by one without key and write; at most 32 */
	const char *kind, *help_key;  /* the entries that explain a row, by this key; or NULL */
	/* False for a row that the page leaves out. May be NULL. */
	bool (*shows)(const struct cJSON *row);
	/* True for a row that the page folds away below the others. May be NULL. */
	bool (*folds)(const struct cJSON *row);
	const char *folded; /* what those are: "idle" */
};

#define METRIC_LABELS_MAX 4

enum metric_type {
	METRIC_GAUGE,
	METRIC_COUNTER,   /* its name ends in _total */
	METRIC_HISTOGRAM, /* its samples are written by metric_histogram() */
};

/* Only what has a row is exported. */
struct metric_row {
	const char *name; /* "headroom_limit_used"; NULL ends a table */
	enum metric_type type;
	const char *unit; /* "seconds"; NULL for a plain number */
	const char *help;
	const char *labels[METRIC_LABELS_MAX]; /* the rest is NULL */
};

/* When a capability is needed. */
enum capability_use {
	CAPABILITY_TO_OPEN,    /* to load BPF programs, then given up */
	CAPABILITY_TO_RUN,     /* as long as the tuner is on */
	CAPABILITY_TO_ENFORCE, /* while the tuner may change files, or has changed some */
	CAPABILITY_TO_CHROOT,  /* to run, when the host's root is not the agent's */
	CAPABILITY_TO_SET,     /* while a setting whose name begins with setting is managed */
};

struct capability_row {
	const char *name; /* "CAP_NET_ADMIN"; NULL ends a table */
	int capability;
	enum capability_use use;
	const char *setting; /* CAPABILITY_TO_SET; else NULL */
	const char *why;
};

/* The first two members of a row. */
#define CAPABILITY(capability) #capability, capability
