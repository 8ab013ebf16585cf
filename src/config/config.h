/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The merged configuration: the rows' defaults, then the profile's, then the file, then conf.d in
 * name order. Later wins; maps merge, lists replace, null takes a key away. Immutable once loaded.
 */

#include "base/util.h"
#include "config/option.h"

#include <headroom/setting.h>

#define CONFIG_FILE_MAX   (256 * 1024) /* bytes: a hundred times a full configuration */
#define CONFIG_FAULTS_MAX 20           /* faults reported of one file: more only bury the first */

struct config;

/* Where a value was given. */
struct config_place {
	const char *file;      /* owned by the config; "profile NAME" or "default" without a file */
	unsigned line, column; /* from 1; 0 without a file */
};

struct config_fault {
	char file[256];
	unsigned line, column; /* from 1; 1:1 for the file as a whole */
	char message[320];     /* what is wrong, and the cure: one line */
};

/* Zero-initialise before use; config_faults_clear releases. */
struct config_fault_list {
	struct config_fault *faults;
	size_t n, allocated;
};

void config_fault_add(struct config_fault_list *list, const struct config_place *place,
	const char *format, ...) PRINTF_LIKE(3, 4);
void config_faults_clear(struct config_fault_list *list);

/* A line each: "FILE:LINE:COLUMN: MESSAGE", kind ("warning: " or "") before the message. */
void config_faults_print(FILE *out, const struct config_fault_list *list, const char *kind);

/* One sysctl that is wanted, from the profile or from `sysctl:`. */
struct config_sysctl {
	char name[SETTING_NAME_MAX];   /* dotted, as sysctl(8) prints it */
	char value[SETTING_VALUE_MAX]; /* fields separated by one space */
	bool exact;                    /* set even where it lowers */
	struct config_place place;
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
struct config_place config_item_where(
	const struct config *config, const char *name, size_t i, const char *field);

/* Where it was given, for faults: the file, the profile or the default. */
struct config_place config_where(const struct config *config, const char *name);

/* A file says it, be it the default again. */
bool config_is_given(const struct config *config, const char *name);

/* Sorted by name. Owned by config; NULL when *n is 0. */
const struct config_sysctl *config_sysctls(const struct config *config, size_t *n);

/* A checksum of all effective values: equal for configurations that want the same. */
uint32_t config_checksum(const struct config *config);

/* The names of the options and sysctls that differ, "thp.enabled, vm.max_map_count"; "" for none.
 */
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
extern const char *const profile_words[];       /* the names alone, in the same order */
extern const struct profile_row profile_rows[]; /* ended by a row without a name */
