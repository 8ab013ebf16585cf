/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONFIG_STORE_H
#define CONFIG_STORE_H

/* The inside of a configuration while it is put together. Only src/config includes this. */

#include "config/config.h"
#include "config/list.h"
#include "config/value.h"

enum value_origin {
	VALUE_DEFAULT, /* the profile may still set it */
	VALUE_GIVEN,   /* by a file, or by the profile */
	VALUE_CLEARED, /* by a file's null: the row's default, whatever the profile says */
};

struct value {
	const struct config_option *option;
	enum value_origin origin;
	char *text; /* NULL: the row's default */
	struct option_value parsed;
	struct list *list;     /* of an OPTION_LIST: as given; NULL: the default or a word */
	struct list *fallback; /* of an OPTION_LIST whose default is a list: that list */
	struct config_place place;
};

/* What the files say of one sysctl: a value, or with cleared that it is not wanted at all. */
struct sysctl_entry {
	struct config_sysctl sysctl;
	bool cleared;
};

struct config {
	const struct config_option *const *tables;
	struct value *values; /* one for each row, in the order of the tables */
	size_t n_values;
	struct sysctl_entry *entries;
	size_t n_entries, entries_allocated;
	bool sysctls_cleared;          /* a file's `sysctl: null`: none of the profile's either */
	struct config_sysctl *sysctls; /* the effective ones, sorted */
	size_t n_sysctls, sysctls_allocated;
	char **names; /* of files and profile: places point to them */
	size_t n_names, names_allocated;
};

/* A configuration of nothing but defaults. 0 or -ENOMEM. A default that its own row refuses aborts.
 */
int store_new(const struct config_option *const *tables, struct config **ret);

/* A copy of a name that lives as long as the configuration; NULL without memory. */
const char *store_name(struct config *config, const char *name);

/* The value of a row; NULL when no table has it. */
struct value *store_find(const struct config *config, const char *name);

/* Sets a value that was parsed already. 0 or -ENOMEM. */
int store_set(struct value *value, const char *text, const struct option_value *parsed,
	const struct config_place *place);

/* Sets a list, which the value owns from now on whatever is returned. 0 or -ENOMEM. */
int store_set_list(struct value *value, struct list *list, const struct config_place *place);

/* The list that stands there; NULL when a word does. */
const struct list *store_list(const struct value *value);

/* Back to the default: of name, and of everything below it. */
void store_clear(struct config *config, const char *name);
void store_clear_below(struct config *config, const char *name);

/* What was said of a sysctl so far, or NULL. Moves with the next store_sysctl. */
struct sysctl_entry *store_find_sysctl(const struct config *config, const char *name);

/* Adds or replaces. 0 or -ENOMEM. */
int store_sysctl(struct config *config, const struct sysctl_entry *entry);

/* Takes in the profile below what the files gave, and settles the sysctls. 0 or -ENOMEM. */
int store_settle(struct config *config);

/* Adds faults for effective values that are well formed but cannot work. True when there are none.
 */
bool rules_check(const struct config *config, struct config_fault_list *faults);

#endif
