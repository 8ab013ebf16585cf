/* SPDX-License-Identifier: Apache-2.0 */
#include "config/internal.h"

#include <errno.h>

const char *config_keep_name(struct config *config, const char *prefix, const char *name)
{
	if (grow_array(&config->names, config->n_names, &config->names_allocated,
		    sizeof(*config->names)) < 0 ||
		asprintf(&config->names[config->n_names], "%s%s", prefix, name) < 0)
		return NULL;
	return config->names[config->n_names++];
}

/* The list of a row's default, [] without one. A row that is wrong is found by the tables' tests.
 */
static int parse_default_list(struct row *row)
{
	struct config_option options[2] = {*row->option, {0}};
	const struct config_option *const tables[] = {options, NULL};
	_cleanup_(cleanup_node_free) struct node *root = NULL;
	_cleanup_free_ char *text = NULL;
	struct config_fault_list faults = {0};
	int r, len = asprintf(&text, "list: %s", row->option->def ? row->option->def : "[]");

	options[0].name = "list";
	r = len < 0 ? -ENOMEM : document_parse("default", text, (size_t)len, &root, &faults);
	if (r == 0)
		check_document(tables, NULL, root, &faults, &faults);
	if (faults.n > 0 || (root && root->children->kind != NODE_LIST))
		abort();
	if (r == 0)
		row->fallback = steal(root->children);
	return r;
}

int config_new(const struct config_option *const *tables, struct config **ret)
{
	_cleanup_(cleanup_config_free) struct config *config = calloc(1, sizeof(*config));
	size_t n = 0;

	if (!config)
		return -ENOMEM;
	for (size_t t = 0; tables[t]; t++)
		for (const struct config_option *option = tables[t]; option->name; option++)
			n++;
	config->tables = tables;
	config->rows = calloc(n + 1, sizeof(*config->rows));
	if (!config->rows)
		return -ENOMEM;
	for (; *tables; tables++)
		for (const struct config_option *option = *tables; option->name; option++) {
			struct row *row = &config->rows[config->n_rows++];
			bool word = option->def && value_word(option, option->def) >= 0;
			int r;

			row->option = option;
			r = option->type == OPTION_LIST && !word ? parse_default_list(row) : 0;
			if (r < 0)
				return r;
		}
	*ret = steal(config);
	return 0;
}

void config_free(struct config *config)
{
	for (size_t i = 0; i < config->n_rows; i++)
		if (config->rows[i].fallback)
			node_free(config->rows[i].fallback);
	for (size_t i = 0; i < config->n_names; i++)
		free(config->names[i]);
	if (config->root)
		node_free(config->root);
	free(config->rows);
	free(config->names);
	free(config->sysctls);
	free(config);
}

/*
 * What the files say of a row; NULL for nothing. cleared: they have taken away what a profile may
 * say of it, by a null or by another value in its place or above it.
 */
static const struct node *find_node(const struct config *config, const char *name, bool *cleared)
{
	const struct node *node = config->root;
	char part[OPTION_NAME_MAX];

	*cleared = false;
	while (node && *name) {
		size_t n = strcspn(name, ".");

		snprintf(part, sizeof(part), "%.*s", (int)n, name);
		name += n + (name[n] == '.' ? 1 : 0);
		*cleared = *cleared || node->cleared || node->kind != NODE_MAP;
		node = node_child(node, part);
	}
	*cleared = *cleared || (node && node->kind == NODE_NULL);
	return node && node->kind != NODE_NULL ? node : NULL;
}

static const struct profile_row *find_in_profile(const char *profile, const char *name)
{
	for (const struct profile_row *row = profile_rows; profile && row->name; row++)
		if (streq(row->profile, profile) && streq(row->name, name))
			return row;
	return NULL;
}

/* A value that was checked, or is a table's own. */
static struct option_value parse_again(const struct config_option *option, const char *text)
{
	struct option_value value = {.choice = -1};
	char why[VALUE_WHY_MAX];

	if (value_parse(option, text, &value, why) < 0)
		abort();
	return value;
}

static void settle_row(struct config *config, struct row *row, const struct config_place *profile)
{
	const struct config_option *option = row->option;
	const struct profile_row *named = NULL;
	bool cleared;
	const struct node *node = find_node(config, option->name, &cleared);

	*row = (struct row){.option = option,
		.fallback = row->fallback,
		.list = row->fallback,
		.text = "",
		.parsed.choice = -1,
		.place.file = "default"};
	if (node)
		row->place = node_place(node);
	if (option->type == OPTION_SYSCTLS || option->type == OPTION_RESERVED)
		return;
	if (node && node->kind == NODE_MAP) { /* in the place of a word, such as keep */
		row->list = NULL;
		return;
	}
	if (node && node->kind == NODE_LIST) {
		row->list = node;
		return;
	}
	if (!node && !cleared && profile->file)
		named = find_in_profile(profile->file + strlen("profile "), option->name);
	if (named)
		row->place = *profile;
	row->text = node ? node->text : named ? named->value : option->def ? option->def : "";
	if (node || named)
		row->list = NULL;
	if (node || named || (option->def && !row->fallback))
		row->parsed = parse_again(option, row->text);
}

static int add_sysctl(struct config *config, const char *name, const char *value, bool exact,
	const struct config_place *place)
{
	struct config_sysctl *sysctl;
	char why[VALUE_WHY_MAX];

	if (grow_array(&config->sysctls, config->n_sysctls, &config->sysctls_allocated,
		    sizeof(*config->sysctls)) < 0)
		return -ENOMEM;
	sysctl = &config->sysctls[config->n_sysctls++];
	copy_text(sysctl->name, sizeof(sysctl->name), name);
	(void)sysctl_value_parse(value, sysctl->value, why);
	sysctl->exact = exact;
	sysctl->place = *place;
	return 0;
}

static int by_name(const void *a, const void *b)
{
	const struct config_sysctl *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static int settle_sysctls(
	struct config *config, const char *map_name, const struct config_place *profile)
{
	bool cleared, exact;
	const struct node *map = find_node(config, map_name, &cleared), *value, *unfit;
	char prefix[OPTION_NAME_MAX + 1];
	int r = 0;

	snprintf(prefix, sizeof(prefix), "%s.", map_name);
	cleared = cleared || (map && map->cleared);
	for (const struct profile_row *row = profile_rows; r == 0 && row->name; row++)
		if (profile->file && !cleared && starts_with(row->name, prefix) &&
			streq(row->profile, profile->file + strlen("profile ")) &&
			!option_find(config->tables, row->name) &&
			!(map && node_child(map, row->name + strlen(prefix))))
			r = add_sysctl(
				config, row->name + strlen(prefix), row->value, false, profile);
	for (const struct node *node = map ? map->children : NULL; r == 0 && node;
		node = node->next) {
		struct config_place place = node_place(node);

		if (!node->whole || node->kind == NODE_NULL)
			continue; /* an option beside the sysctls, or one that is not wanted */
		value = sysctl_value_node(node, &exact, &unfit);
		place = node_place(value);
		r = add_sysctl(config, node->key, value->text, exact, &place);
	}
	if (config->n_sysctls > 1)
		qsort(config->sysctls, config->n_sysctls, sizeof(*config->sysctls), by_name);
	return r;
}

int config_settle(struct config *config, struct config_fault_list *faults)
{
	struct config_place profile = {0};
	struct row *chosen = config_row(config, "profile");
	int r = 0;

	if (chosen)
		settle_row(config, chosen, &profile);
	if (chosen && chosen->parsed.choice >= 0) {
		profile.file = config_keep_name(
			config, "profile ", chosen->option->words[chosen->parsed.choice]);
		if (!profile.file)
			return -ENOMEM;
	}
	for (size_t i = 0; r == 0 && i < config->n_rows; i++) {
		settle_row(config, &config->rows[i], &profile);
		if (config->rows[i].option->type == OPTION_SYSCTLS)
			r = settle_sysctls(config, config->rows[i].option->name, &profile);
	}
	if (r == 0)
		rules_check(config, faults);
	return r;
}
