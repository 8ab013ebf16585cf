/* SPDX-License-Identifier: Apache-2.0 */
#include "config/store.h"

#include "config/text.h"

#include <errno.h>

static size_t count_rows(const struct config_option *const *tables)
{
	size_t n = 0;

	for (; *tables; tables++)
		for (const struct config_option *option = *tables; option->name; option++)
			n++;
	return n;
}

/* Drops what was given. */
static void forget(struct value *value)
{
	free(value->text);
	value->text = NULL;
	if (value->list)
		list_free(value->list);
	value->list = NULL;
}

static void set_default(struct value *value, enum value_origin origin)
{
	char why[VALUE_WHY_MAX];

	forget(value);
	value->origin = origin;
	value->place = (struct config_place){.file = "default"};
	value->parsed = (struct option_value){.choice = -1};
	if (value->option->def && value->option->type != OPTION_SYSCTLS &&
		value->option->type != OPTION_RESERVED && !value->fallback &&
		value_parse(value->option, value->option->def, &value->parsed, why) < 0)
		abort(); /* the table is wrong: the tests of the tables find this */
}

/* True when the row's default is one of its words. */
static bool default_is_word(const struct config_option *option)
{
	for (const char *const *word = option->words; word && *word && option->def; word++)
		if (streq(*word, option->def))
			return true;
	return false;
}

static int init_value(struct value *value, const struct config_option *option)
{
	int r = 0;

	value->option = option;
	if (option->type == OPTION_LIST && !default_is_word(option))
		r = list_default(option, &value->fallback);
	if (r == -EINVAL)
		abort(); /* as in set_default */
	if (r == 0)
		set_default(value, VALUE_DEFAULT);
	return r;
}

int store_new(const struct config_option *const *tables, struct config **ret)
{
	_cleanup_(cleanup_config_free) struct config *config = calloc(1, sizeof(*config));

	if (!config)
		return -ENOMEM;
	config->tables = tables;
	config->values = calloc(count_rows(tables) + 1, sizeof(*config->values));
	if (!config->values)
		return -ENOMEM;
	for (; *tables; tables++) {
		for (const struct config_option *option = *tables; option->name; option++) {
			int r = init_value(&config->values[config->n_values++], option);

			if (r < 0)
				return r;
		}
	}
	*ret = steal(config);
	return 0;
}

void config_free(struct config *config)
{
	for (size_t i = 0; i < config->n_values; i++) {
		forget(&config->values[i]);
		if (config->values[i].fallback)
			list_free(config->values[i].fallback);
	}
	for (size_t i = 0; i < config->n_names; i++)
		free(config->names[i]);
	free(config->values);
	free(config->names);
	free(config->entries);
	free(config->sysctls);
	free(config);
}

const char *store_name(struct config *config, const char *name)
{
	char *copy = strdup(name);

	if (!copy || grow_array(&config->names, config->n_names, &config->names_allocated,
			     sizeof(*config->names)) < 0) {
		free(copy);
		return NULL;
	}
	config->names[config->n_names++] = copy;
	return copy;
}

struct value *store_find(const struct config *config, const char *name)
{
	for (size_t i = 0; i < config->n_values; i++)
		if (streq(config->values[i].option->name, name))
			return &config->values[i];
	return NULL;
}

int store_set(struct value *value, const char *text, const struct option_value *parsed,
	const struct config_place *place)
{
	char *copy = strdup(text);

	if (!copy)
		return -ENOMEM;
	forget(value);
	value->text = copy;
	value->origin = VALUE_GIVEN;
	value->parsed = *parsed;
	value->place = *place;
	return 0;
}

int store_set_list(struct value *value, struct list *list, const struct config_place *place)
{
	int r = store_set(value, "", &(struct option_value){.choice = -1}, place);

	if (r < 0)
		list_free(list);
	else
		value->list = list;
	return r;
}

const struct list *store_list(const struct value *value)
{
	return value->text ? value->list : value->fallback;
}

static void clear_sysctls(struct config *config)
{
	config->sysctls_cleared = true;
	config->n_entries = 0;
}

static void clear_value(struct config *config, struct value *value)
{
	if (value->option->type == OPTION_SYSCTLS)
		clear_sysctls(config);
	set_default(value, VALUE_CLEARED);
}

void store_clear_below(struct config *config, const char *name)
{
	for (size_t i = 0; i < config->n_values; i++) {
		struct value *value = &config->values[i];

		if (option_is_below(value->option->name, name) && !streq(value->option->name, name))
			clear_value(config, value);
	}
}

void store_clear(struct config *config, const char *name)
{
	struct value *value = store_find(config, name);

	if (value)
		clear_value(config, value);
	store_clear_below(config, name);
}

struct sysctl_entry *store_find_sysctl(const struct config *config, const char *name)
{
	for (size_t i = 0; i < config->n_entries; i++)
		if (streq(config->entries[i].sysctl.name, name))
			return &config->entries[i];
	return NULL;
}

int store_sysctl(struct config *config, const struct sysctl_entry *entry)
{
	struct sysctl_entry *existing = store_find_sysctl(config, entry->sysctl.name);

	if (!existing) {
		if (grow_array(&config->entries, config->n_entries, &config->entries_allocated,
			    sizeof(*config->entries)) < 0)
			return -ENOMEM;
		existing = &config->entries[config->n_entries++];
	}
	*existing = *entry;
	return 0;
}

static int add_effective(struct config *config, const struct config_sysctl *sysctl)
{
	if (grow_array(&config->sysctls, config->n_sysctls, &config->sysctls_allocated,
		    sizeof(*config->sysctls)) < 0)
		return -ENOMEM;
	config->sysctls[config->n_sysctls++] = *sysctl;
	return 0;
}

static int add_profile_sysctl(
	struct config *config, const struct profile_row *row, const struct config_place *place)
{
	struct config_sysctl sysctl = {.place = *place};
	const char *name = row->name + strlen("sysctl.");

	if (config->sysctls_cleared || store_find_sysctl(config, name))
		return 0;
	copy_text(sysctl.name, sizeof(sysctl.name), name);
	copy_text(sysctl.value, sizeof(sysctl.value), row->value);
	return add_effective(config, &sysctl);
}

static int add_profile_row(
	struct config *config, const struct profile_row *row, const struct config_place *place)
{
	struct value *value = store_find(config, row->name);
	struct option_value parsed;
	char why[VALUE_WHY_MAX];

	if (!value)
		return starts_with(row->name, "sysctl.") ? add_profile_sysctl(config, row, place)
							 : 0;
	if (value->origin != VALUE_DEFAULT)
		return 0;
	if (value_parse(value->option, row->value, &parsed, why) < 0)
		abort(); /* the profile's row is wrong: the tests of the tables find this */
	return store_set(value, row->value, &parsed, place);
}

static int apply_profile(struct config *config)
{
	const struct value *profile = store_find(config, "profile");
	const char *name = profile && profile->parsed.choice >= 0
				   ? profile->option->words[profile->parsed.choice]
				   : NULL;
	struct config_place place = {0};
	char label[64] = "profile ";

	if (!name)
		return 0;
	text_append(label, sizeof(label), name);
	place.file = store_name(config, label);
	if (!place.file)
		return -ENOMEM;
	for (const struct profile_row *row = profile_rows; row->name; row++) {
		int r = streq(row->profile, name) ? add_profile_row(config, row, &place) : 0;

		if (r < 0)
			return r;
	}
	return 0;
}

static int by_name(const void *a, const void *b)
{
	const struct config_sysctl *x = a, *y = b;

	return strcmp(x->name, y->name);
}

int store_settle(struct config *config)
{
	int r = apply_profile(config);

	for (size_t i = 0; r == 0 && i < config->n_entries; i++)
		if (!config->entries[i].cleared)
			r = add_effective(config, &config->entries[i].sysctl);
	if (config->n_sysctls > 1)
		qsort(config->sysctls, config->n_sysctls, sizeof(*config->sysctls), by_name);
	return r;
}
