/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/util.h"

#include <sys/socket.h>

#include <headroom/setting.h>

/*
 * The table of options. A row is a name, a type, a range, a default and the help that documents
 * it; the parser, validation, `explain`, the sample configuration and headroom.yaml(5) all come
 * from these rows. The agent's own rows are in options.c, a tuner's in its directory.
 */

#define OPTION_NAME_MAX 96 /* bytes of a row's name, terminator included */

enum option_type {
	OPTION_BOOL,
	OPTION_COUNT,    /* a whole number in min..max (max 0: no upper bound), or one of choices */
	OPTION_DURATION, /* a number with ms, s, m or h; min..max in microseconds; or a word */
	OPTION_CHOICE,   /* one of choices */
	OPTION_TEXT,     /* any one-line text of min..max bytes; max 0: 255 */
	OPTION_LIST,     /* a list of at most max items (max 0: 64), or one of choices */
	OPTION_SYSCTLS,  /* a map of sysctl names to a value, or to {value: V, exact: true} */
	OPTION_RESERVED, /* for a later version: anything is accepted, not used, and said once */
};

struct config_option {
	const char *name; /* "neighbor.ipv4.gc_thresh1"; NULL ends a table */
	enum option_type type;
	uint64_t min, max;
	const char *const *choices; /* ended by NULL; OPTION_CHOICE needs it */
	const char *unit;           /* NULL for none */
	const char *def;            /* as in the file; NULL: empty */
	const char *help;
	/*
	 * OPTION_LIST alone: the rows of one item's map, ended by a row without a name; or, for a
	 * list of plain values, one row whose name is "". They are of any type but a list, a map of
	 * sysctls or reserved. A text with a min above 0 and no default must be given in each item.
	 */
	const struct config_option *items;
	/* OPTION_TEXT alone, may be NULL: what is wrong with a text, and the cure; or NULL. */
	const char *(*check)(const char *text);
};

#define OPTION_ITEMS_MAX 64 /* items of a list whose row has no max */

/* The agent's own rows: mode, profile, node_name, http, on_drift and the reserved sections. */
extern const struct config_option core_options[];

/* A row found by name in tables (ended by NULL), or NULL. */
const struct config_option *option_find(
	const struct config_option *const *tables, const char *name);

/* True when rows are named below name: "neighbor", and "neighbor.ipv4", if that is a row too. */
bool option_is_section(const struct config_option *const *tables, const char *name);

/* True for name itself and whatever is named below it. */
bool option_is_below(const char *option, const char *name);

/* "ADDRESS:PORT", an IPv6 address in brackets: its length in *address, 0 for anything else. */
socklen_t listen_address(const char *text, struct sockaddr_storage *address);

/* Appends what the row takes: "a whole number from 1 to 2147483647 (entries), or keep". */
void value_describe(const struct config_option *option, char *buffer, size_t size);

#define OPTION_TEXT_MAX 1536

/* Sentences: what a row is for, what it takes, and its default. */
void option_describe(const struct config_option *option, char text[static OPTION_TEXT_MAX]);

#define SUGGEST_WORD_MAX 32 /* longer words are not compared */

/* The word nearest to a typed one; empty while none is near. */
struct suggestion {
	char word[SUGGEST_WORD_MAX + 1];
	unsigned apart; /* letters in which they differ */
};

/* Takes a word of which typed may be a slip, if it is nearer than those before. */
void suggest_offer(struct suggestion *suggestion, const char *typed, const char *word);

/*
 * The merged configuration: the rows' defaults, then the profile's, then the file, then conf.d in
 * name order. Later wins; maps merge, lists replace, null takes a key away. Immutable once loaded.
 */

#define CONFIG_FILE_MAX   (256 * 1024) /* bytes: a hundred times a full configuration */
#define CONFIG_FAULTS_MAX 20           /* faults reported of one file: more only bury the first */

struct config;

/* Where a value was given. */
struct config_position {
	const char *file;      /* owned by the config; "profile NAME" or "default" without a file */
	unsigned line, column; /* from 1; 0 without a file */
};

struct config_fault {
	char file[256];
	unsigned line, column; /* from 1; 1:1 for the file as a whole */
	char message[320];     /* what is wrong, and the cure: one line */
};

/* Zero-initialise before use; config_faults_clear releases, also by way of _cleanup_. */
struct config_fault_list {
	struct config_fault *faults;
	size_t n, allocated;
};

void config_fault_add(struct config_fault_list *list, const struct config_position *position,
	const char *format, ...) PRINTF_LIKE(3, 4);
void config_faults_clear(struct config_fault_list *list);

/* A line each: "FILE:LINE:COLUMN: MESSAGE", kind ("warning: " or "") before the message. */
void config_faults_print(FILE *out, const struct config_fault_list *list, const char *kind);

/* One sysctl that is wanted, from the profile or from `sysctl:`. */
struct config_sysctl {
	char name[SETTING_NAME_MAX];   /* dotted, as sysctl(8) prints it */
	char value[SETTING_VALUE_MAX]; /* fields separated by one space */
	bool exact;                    /* set even where it lowers */
	struct config_position position;
};

struct config_source {
	const char *file; /* the main file; a missing one is no fault when optional */
	bool optional;
	const char *directory; /* its *.yaml are merged in name order; NULL for none */
};

/*
 * Loads and checks everything. 0 with *ret, which config_free releases; -EINVAL with at least one
 * fault and no config. Notices (reserved sections) are added to notices, which may be NULL. Nothing
 * but reading happens. tables is ended by NULL and must outlive the config.
 */
int config_load(const struct config_source *source, const struct config_option *const *tables,
	struct config **ret, struct config_fault_list *faults, struct config_fault_list *notices);

void config_free(struct config *config);
DEFINE_CLEANUP(struct config, config_free)

/* Values. Asking for a name that no table has is a bug: it aborts. */
bool config_bool(const struct config *config, const char *name);

/* Of a text, "" when empty; of a choice or count, what is given as text. */
const char *config_text(const struct config *config, const char *name);

/* The index of the chosen word; -1 for an OPTION_CHOICE that is empty, an OPTION_COUNT or
 * OPTION_DURATION that is a number, or an OPTION_LIST that is a list. */
int config_choice(const struct config *config, const char *name);

/* The number; fallback when a word is given. */
uint64_t config_count(const struct config *config, const char *name, uint64_t fallback);

/* Microseconds; 0 when a word is given, or nothing. */
uint64_t config_duration(const struct config *config, const char *name);

/* The items of an OPTION_LIST; 0 when a word is given instead. */
size_t config_list(const struct config *config, const char *name);

/*
 * A field of item i, which is below config_list: "" as field means the item itself in a list
 * of plain values. The text as it is in the file, else the row's default, else "".
 */
const char *config_item(const struct config *config, const char *name, size_t i, const char *field);

/* Where the field was given; the item's place when it was not, or when field is NULL. */
struct config_position config_item_where(
	const struct config *config, const char *name, size_t i, const char *field);

/* Where it was given, for faults: the file, the profile or the default. */
struct config_position config_where(const struct config *config, const char *name);

/* A file says it, be it the default again. */
bool config_is_given(const struct config *config, const char *name);

/* Sorted by name. Owned by config; NULL when *n is 0. */
const struct config_sysctl *config_sysctls(const struct config *config, size_t *n);

/* A checksum of all effective values: equal for configurations that want the same. */
uint32_t config_checksum(const struct config *config);

/* The names of options and sysctls that differ, "thp.enabled, vm.max_map_count"; "" for none. */
void config_changes(
	const struct config *before, const struct config *after, char *text, size_t size);

/*
 * A cheap checksum of name, inode, size and times of all source files, symlinks followed. It
 * changes when one is written, replaced or swapped below a symlink, as a ConfigMap's are.
 */
uint64_t config_source_signature(const struct config_source *source);

/* The files that were loaded and not empty; NULL after the last. */
const char *config_file(const struct config *config, size_t i);

/* Profiles: named defaults, each with the document it comes from. A file's value wins over them. */
struct profile {
	const char *name;
	const char *help; /* for what node, and what it does */
};

struct profile_row {
	const char *profile;
	const char *name; /* an option, or "sysctl." and a sysctl */
	const char *value;
	const char *source; /* why, and who says so */
};

extern const struct profile profile_table[];    /* ended by a row without a name */
extern const char *const profile_choices[];     /* the names alone, in the same order */
extern const struct profile_row profile_rows[]; /* ended by a row without a name */
