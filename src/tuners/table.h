/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "config/config.h"

#include <headroom/tuner.h>

/* A new tuner needs a directory, and its line here. */
#define TUNERS(X)   \
	X(neighbor) \
	X(thp)      \
	X(dns)      \
	X(runtime)  \
	X(images)   \
	X(sysctl)   \
	X(kubelet)  \
	X(storage)  \
	X(limits)

#define DECLARE_TUNER(name)                             \
	extern const struct tuner_ops name##_tuner;     \
	extern const struct tuner_tables name##_tables; \
	extern const struct config_option name##_options[];

TUNERS(DECLARE_TUNER)

/* Tables of the agent itself. */
extern const struct tuner_tables core_tables;

/* The agent's tables, then each tuner's; ended by NULL. */
extern const struct tuner_tables *const all_tables[];

/* The rows of core_tables.conditions. */
enum {
	CORE_SETTING_DRIFTED,
	CORE_SETTING_FAILED,
	CORE_CONFIG_INVALID,
	CORE_AGENT_DEGRADED,
	CORE_WOULD_NOT_START
};

/*
 * Adds a finding about a file with which a program, whose unit is named, would not start; fault is
 * "PATH:LINE:COLUMN: what".
 */
struct bad_file;
void find_bad_file(struct proposal *proposal, const struct decide_input *input, enum reason reason,
	const struct bad_file *bad, const char *fault, const char *unit);

/* Says that nothing could verify these files. A bad file beats it. */
void note_unverified(struct proposal *proposal, const char *what);

/*
 * `headroom doctor` checks these besides conditions, limits and settings. A row without a name ends
 * the table.
 */
extern const struct check_row node_checks[];

/* The units of kubelet and container runtimes, ended by NULL. */
extern const char *const node_units[];

/* Adds what the row's function finds to the report; the caller frees report->findings. */
void check_run(struct check_report *report, const struct check_row *row);

/* Checks that doctor.ignore has names of checks. */
void checks_validate(const struct config *config, struct config_fault_list *faults);

/* The choices of the options NAME.mode, ended by NULL, and their row. */
extern const char *const tuner_mode_choices[];
#define MODE_OPTION(tuner)                     \
	{.name = tuner ".mode",                \
		.type = OPTION_CHOICE,         \
		.choices = tuner_mode_choices, \
		.help = "This tuner's own mode; empty: the agent's."}

/* The options of each of all_tables, in its order; ended by NULL. */
extern const struct config_option *const option_tables[];

/* Closes tuners whose self and memory own nothing. */
void tuner_free(void *self, void *memory);

const struct tuner_ops *tuner_find(const char *name);

/* Find the row of a limit, such as "neighbor/ipv4", of all tables or of one; or NULL. */
const struct limit_row *limit_row_find(const char *name);
const struct limit_row *limit_row_of(const struct tuner_tables *tables, const char *name);

/* Finds a row by its name, or NULL. */
const struct condition_type *condition_type_find(const char *name);

/* Calls validate of all tuners, and checks that no sysctl has two owners. */
void tuners_validate(const struct config *config, struct config_fault_list *faults);

/* Returns the configured mode of a tuner, by default the agent's. */
enum mode tuner_mode(const struct tuner_ops *ops, const struct config *config);

/* Returns what in the configuration keeps a tuner from writing, of enum held_by. */
unsigned tuner_held_by(const struct tuner_ops *ops, const struct config *config);

/*
 * Makes the entries of the agent, of each tuner, and of the profiles. The caller frees the array,
 * but not the texts, and keeps it for all its questions.
 */
struct help_entry *all_entries(size_t *n);

/* How an entry matches a word that someone types, the best last. */
enum name_match {
	NAME_NOT,
	NAME_IN_TEXT, /* its explanation has the word */
	NAME_PART,    /* the word is a part of the name */
	NAME_ALIAS,   /* the field's word for it, or the title of its column on the page */
	NAME_END,     /* the last part of a sysctl or key */
	NAME_WHOLE,
};

enum name_match name_matches(const struct help_entry *entry, const char *word);

/* Returns the best match of all entries. */
enum name_match names_match(const struct help_entry *entries, size_t n, const char *word);

/*
 * Calls take() with all names, the last parts of settings and limits, and the field's words. Some
 * come twice, and some have blanks.
 */
void names_each(const struct help_entry *entries, size_t n,
	void (*take)(void *data, const char *name), void *data);

/* Offers all names, then the words in them, if accepts() takes them. */
struct suggestion;
void names_suggest(const struct help_entry *entries, size_t n, const char *word,
	bool (*accepts)(const char *name), struct suggestion *nearest);

/* Makes the entry of a row. */
struct help_entry limit_entry(const struct limit_row *row);

/* Returns what explain adds to the kind: "critical when True"; or NULL. */
const char *entry_detail(const struct help_entry *entry);

#define PATTERN_CHARACTERS "*[]"

/* Returns false for a pattern. */
bool entry_is_literal(const struct help_entry *entry);

static inline bool entry_is_setting(const struct help_entry *entry)
{
	return entry->kind == ENTRY_SETTING || entry->kind == ENTRY_PROFILE_SETTING;
}
