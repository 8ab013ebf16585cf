/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/json.h"

#include <sys/socket.h>

#include <headroom/setting.h>

/*
 * A row of a table of options. The parser, validation, `explain`, the sample configuration and
 * headroom.yaml(5) are generated from the rows. The agent's own rows are in options.c, a tuner's in
 * its directory.
 */

#define OPTION_NAME_MAX  96
#define OPTION_ITEMS_MAX 64 /* items of a list whose row sets max to 0 */

enum option_type {
	OPTION_BOOL,
	OPTION_COUNT,    /* a whole number in min..max (max 0: unlimited), or a choice */
	OPTION_DURATION, /* a number with ms, s, m or h; min..max in microseconds; or a choice */
	OPTION_CHOICE,
	OPTION_TEXT,    /* any one-line text of min..max bytes; max 0: 255 */
	OPTION_LIST,    /* a list of at most max items, or a choice */
	OPTION_SYSCTLS, /* a map of sysctl names to a value, or to {value: V, exact: true} */
};

struct config_option {
	const char *name; /* "neighbor.ipv4.gc_thresh1"; NULL ends a table */
	enum option_type type;
	uint64_t min, max;
	const char *const *choices; /* ended by NULL */
	const char *unit;
	const char *def; /* as in the file; NULL: empty */
	const char *help;
	/*
	 * OPTION_LIST: the rows of one item's map, ended by a row without a name. A list of plain
	 * values has one row with the name "". Lists and maps of sysctls cannot be
	 * items. An OPTION_TEXT with a min above 0 and without a default is mandatory.
	 */
	const struct config_option *items;
	/* OPTION_TEXT: returns the cure of an invalid text, or NULL. May be NULL. */
	const char *(*check)(const char *text);
	/* OPTION_TEXT: a regular expression that all valid texts match, for schemas. May be NULL.
	 */
	const char *pattern;
};

extern const struct config_option core_options[];

/* Finds a row by name in tables, which NULL ends. Returns NULL if the name is unknown. */
const struct config_option *option_find(
	const struct config_option *const *tables, const char *name);

/* Returns whether rows have names below name, such as neighbor.ipv4 below neighbor. */
bool option_is_section(const struct config_option *const *tables, const char *name);

/* Returns whether option is name itself and all names below it. */
bool option_is_below(const char *option, const char *name);

/* Parses "ADDRESS:PORT", with an IPv6 address in brackets. Returns the length, 0 if invalid. */
socklen_t listen_address(const char *text, struct sockaddr_storage *address);

/* Appends the row's valid values: "a whole number from 1 to 2147483647 (entries), or keep". */
void value_describe(const struct config_option *option, char *buffer, size_t size);

#define OPTION_TEXT_MAX 1536

/* Writes the help, the valid values and the default. */
void option_describe(const struct config_option *option, char text[static OPTION_TEXT_MAX]);

#define SUGGEST_WORD_MAX 32 /* longer words are not compared */

/* The known word most similar to a misspelt one; empty if none is similar. */
struct suggestion {
	char word[SUGGEST_WORD_MAX + 1];
	unsigned distance;
};

/* Stores word if it is similar to typed, and more similar than the words before. */
void suggest_offer(struct suggestion *suggestion, const char *typed, const char *word);

/*
 * The merged configuration: the rows' defaults, then the profile's, then the main file, then conf.d
 * in name order. Later values override; maps merge, lists replace, null removes a key. Immutable
 * once loaded.
 */

#define CONFIG_FILE_MAX   (256 * 1024) /* bytes: a hundred times a full configuration */
#define CONFIG_FAULTS_MAX 20           /* faults reported for one file */

struct config;

/* The position of a value. */
struct config_position {
	const char *file;      /* owned by the config; "profile NAME" or "default" without a file */
	unsigned line, column; /* from 1; 0 without a file */
};

struct config_fault {
	char file[256];
	unsigned line, column; /* from 1; 1:1 for the file as a whole */
	char message[320];     /* fault and cure, one line */
};

struct config_fault_list {
	struct config_fault *faults;
	size_t n, allocated;
	bool log_json; /* the option log, as far as the files could be read */
};

void config_fault_add(struct config_fault_list *list, const struct config_position *position,
	const char *format, ...) PRINTF_LIKE(3, 4);
void config_faults_clear(struct config_fault_list *list);

/* Prints lines of "FILE:LINE:COLUMN: KIND MESSAGE"; kind is "warning: " or "". */
void config_faults_print(FILE *out, const struct config_fault_list *list, const char *kind);

/* A sysctl of the profile or of the section sysctl. */
struct config_sysctl {
	char name[SETTING_NAME_MAX];   /* dotted, as sysctl(8) prints it */
	char value[SETTING_VALUE_MAX]; /* fields separated by one space */
	bool exact;                    /* may lower the value */
	struct config_position position;
};

struct config_source {
	const char *file;
	bool optional;         /* a missing file is accepted */
	const char *directory; /* its *.yaml are merged in name order; may be NULL */
	bool draft;            /* users other than root may be able to write the files */
	const cJSON *texts;    /* what config_texts() gave, instead of files; or NULL */
};

/*
 * Loads and checks all files. Returns 0 with *ret, or -EINVAL with at least one fault. tables is
 * ended by NULL and must outlive the config.
 */
int config_load(const struct config_source *source, const struct config_option *const *tables,
	struct config **ret, struct config_fault_list *faults);

void config_free(struct config *config);
DEFINE_CLEANUP(struct config, config_free)

/* The functions below abort on a name that no table has. */

bool config_bool(const struct config *config, const char *name);

/* Returns the value as text, "" if it is empty. */
const char *config_text(const struct config *config, const char *name);

/* Returns the index in choices, or -1 if the value is empty, a number or a list. */
int config_choice(const struct config *config, const char *name);

/* Returns the number, or fallback if the value is a choice. */
uint64_t config_count(const struct config *config, const char *name, uint64_t fallback);

/* Returns microseconds, or 0 if the value is a choice or empty. */
uint64_t config_duration(const struct config *config, const char *name);

/* Returns the number of items, or 0 if the value is a choice. */
size_t config_list(const struct config *config, const char *name);

/*
 * Returns a field of item i, or the default, or "". The item of a list of plain values has the
 * field "".
 */
const char *config_item(const struct config *config, const char *name, size_t i, const char *field);

/* Returns the position of the field, or of the item if the field is absent or NULL. */
struct config_position config_item_where(
	const struct config *config, const char *name, size_t i, const char *field);

struct config_position config_where(const struct config *config, const char *name);

/* Returns whether a file sets the option, even to its default. */
bool config_is_given(const struct config *config, const char *name);

/* Returns why an option has its value: REASON_CONFIGURED, _PROFILE or _DEFAULT. */
enum reason config_reason(const struct config *config, const char *name);

/*
 * Returns whether a file has the option, or names the profile that has it: both beat an explicit
 * choice on the node. The default profile does not.
 */
bool config_is_chosen(const struct config *config, const char *name);

/* Returns what is no fault but looks like a mistake: a file that is not read, a text with ${NAME}.
 */
const struct config_fault_list *config_warnings(const struct config *config);

/* Says in each fault of a text with ${NAME} that it is literal. config_load() has done so. */
void config_mark_literals(const struct config *config, struct config_fault_list *faults);

/* Returns the sysctls, sorted by name. */
const struct config_sysctl *config_sysctls(const struct config *config, size_t *n);

/* Returns the sysctls that files remove, with empty values, sorted by name. */
const struct config_sysctl *config_removed_sysctls(const struct config *config, size_t *n);

/* Returns a checksum of all effective values. */
uint32_t config_checksum(const struct config *config);

/* Lists the options and sysctls that differ: "thp.enabled, vm.max_map_count". */
void config_changes(
	const struct config *before, const struct config *after, char *text, size_t size);

/*
 * Returns a checksum of name, inode, size and times of all source files. It changes when a file is
 * written, or replaced through a symlink, as those of a ConfigMap are.
 */
uint64_t config_source_signature(const struct config_source *source);

/* Returns the loaded files, for config_source.texts. A file that sets nothing has an empty text. */
const cJSON *config_texts(const struct config *config);

/*
 * Returns the effective values, for support: {NAME: {"value": VALUE, "from": "FILE:LINE"}}. A list
 * is an array, a map an object. The caller deletes it.
 */
cJSON *config_json(const struct config *config);

/* Returns the name of a loaded file that sets something; NULL after the last. */
const char *config_file(const struct config *config, size_t i);

/* Returns the name of a file that set something in these texts, and does not in config, or NULL. */
const char *config_lost_file(const struct config *config, const cJSON *texts);

/* A profile is a named set of defaults. Values of files override them. */
struct profile {
	const char *name;
	const char *help;
};

struct profile_row {
	const char *profile;
	const char *name; /* an option, or "sysctl." and a sysctl */
	const char *value;
	const char *source; /* the document that recommends the value */
};

/* The tables end with a row without a name. */
extern const struct profile profile_table[];
extern const char *const profile_choices[];
extern const struct profile_row profile_rows[];

/* The meaning of each sysctl of the profiles. A row without a name ends the table. */
struct profile_sysctl {
	const char *name, *help;
};
extern const struct profile_sysctl profile_sysctls[];
