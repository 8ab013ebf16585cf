/* SPDX-License-Identifier: Apache-2.0 */
#include "config/merge.h"

#include "config/fault.h"
#include "config/text.h"

#include <errno.h>

struct merge {
	struct config *config;
	struct fault_sink sink;
	struct config_fault_list *notices;
};

static const struct node *earlier_sibling(const struct node *map, const struct node *node)
{
	for (const struct node *child = map->children; child != node; child = child->next)
		if (streq(child->key, node->key))
			return child;
	return NULL;
}

/* Reports keys that stand twice and drops the second, so that each costs one fault. */
static void drop_duplicates(struct merge *merge, struct node *parent)
{
	char quoted[TEXT_QUOTE_MAX];

	for (struct node **at = &parent->children; *at;) {
		struct node *node = *at;
		const struct node *first =
			parent->kind == NODE_MAP ? earlier_sibling(parent, node) : NULL;

		if (!first) {
			drop_duplicates(merge, node);
			at = &node->next;
			continue;
		}
		fault_at_key(&merge->sink, node,
			"the key %s stands here twice, first in line %u: remove one",
			text_quote(quoted, node->key), first->key_line);
		*at = node->next;
		node_free(node);
	}
}

/* What only a later version uses: during a roll-out both may read the same file. */
static int merge_reserved(
	struct merge *merge, const struct config_option *option, const struct node *node)
{
	struct config_place place = fault_place_of_key(&merge->sink, node);
	struct value *value = store_find(merge->config, option->name);
	struct option_value none = {.choice = -1};

	if (node->kind == NODE_NULL || value->origin == VALUE_GIVEN)
		return 0;
	config_fault_add(merge->notices, &place,
		"%s: this version of headroom does not use it; it is left for one that does",
		option->name);
	return store_set(value, "", &none, &place);
}

static int merge_scalar(struct merge *merge, const struct config_option *option, const char *name,
	const struct node *node)
{
	struct config_place place = fault_place(&merge->sink, node);
	struct option_value parsed;
	char why[VALUE_WHY_MAX];

	if (!option) {
		fault_wrong_kind(&merge->sink, option, name, node);
		return 0;
	}
	if (value_parse(option, node->text, &parsed, why) < 0) {
		fault_at_value(&merge->sink, node, "%s: %s", name, why);
		return 0;
	}
	store_clear_below(merge->config, name);
	return store_set(store_find(merge->config, name), node->text, &parsed, &place);
}

/* Reads {value: V, exact: true}. True with *text and *exact set. */
static bool read_sysctl_map(
	struct merge *merge, const struct node *node, const struct node **value, bool *exact)
{
	const struct node *found = NULL;
	char quoted[TEXT_QUOTE_MAX];

	for (const struct node *child = node->children; child; child = child->next) {
		bool is_true = child->kind == NODE_TEXT && streq(child->text, "true");

		if (streq(child->key, "value") && child->kind == NODE_TEXT) {
			found = child;
		} else if (streq(child->key, "exact") && child->kind == NODE_TEXT &&
			   (is_true || streq(child->text, "false"))) {
			*exact = is_true;
		} else {
			fault_at_key(&merge->sink, child,
				"sysctl.%s: %s does not fit here: write {value: ..., exact: true}",
				node->key, text_quote(quoted, child->key));
			return false;
		}
	}
	if (!found)
		fault_at_value(&merge->sink, node,
			"sysctl.%s has no value: write {value: ..., exact: true}", node->key);
	*value = found;
	return found;
}

/* True with *value and *exact when the node has the form of a sysctl's value. */
static bool read_sysctl(
	struct merge *merge, const struct node *node, const struct node **value, bool *exact)
{
	*exact = false;
	if (node->kind == NODE_MAP)
		return read_sysctl_map(merge, node, value, exact);
	*value = node;
	if (node->kind == NODE_TEXT)
		return true;
	fault_at_value(&merge->sink, node,
		"sysctl.%s cannot be a list: write several numbers as one text, \"4096 87380 "
		"6291456\"",
		node->key);
	return false;
}

/* True with entry filled; false with a fault added. */
static bool fill_sysctl(struct merge *merge, const struct node *node, struct sysctl_entry *entry)
{
	struct config_sysctl *sysctl = &entry->sysctl;
	char quoted[TEXT_QUOTE_MAX], why[VALUE_WHY_MAX];
	const struct node *value = NULL;

	if (!read_sysctl(merge, node, &value, &sysctl->exact))
		return false;
	sysctl->place = fault_place(&merge->sink, value);
	if (sysctl_value_parse(value->text, sysctl->value, why) < 0) {
		fault_at_value(&merge->sink, value, "sysctl.%s: %s", sysctl->name, why);
		return false;
	}
	if (sysctl->exact || sysctl_value_is_numeric(sysctl->value))
		return true;
	fault_at_value(&merge->sink, value,
		"sysctl.%s: %s is no whole number, and headroom raises only numbers; give {value: "
		"..., exact: true} to set this text",
		sysctl->name, text_quote(quoted, sysctl->value));
	return false;
}

static int merge_sysctl(struct merge *merge, const struct node *node)
{
	struct sysctl_entry entry = {.cleared = node->kind == NODE_NULL};
	const struct sysctl_entry *earlier;
	char why[VALUE_WHY_MAX];

	if (sysctl_name_parse(node->key, entry.sysctl.name, why) < 0) {
		fault_at_key(&merge->sink, node, "sysctl: %s", why);
		return 0;
	}
	earlier = store_find_sysctl(merge->config, entry.sysctl.name);
	if (earlier && earlier->sysctl.place.file == merge->sink.file) {
		fault_at_key(&merge->sink, node,
			"sysctl.%s stands here twice, first in line %u: remove one",
			entry.sysctl.name, earlier->sysctl.place.line);
		return 0;
	}
	entry.sysctl.place = fault_place(&merge->sink, node);
	if (!entry.cleared && !fill_sysctl(merge, node, &entry))
		return 0;
	return store_sysctl(merge->config, &entry);
}

static int merge_key(struct merge *merge, const char *section, const struct node *node);

/* The map of sysctls has rows of options beside the sysctls, such as the tuner's mode. */
static int merge_sysctls(struct merge *merge, const char *name, const struct node *map)
{
	int r = 0;

	if (map->kind != NODE_MAP) {
		fault_wrong_kind(&merge->sink, option_find(merge->config->tables, name), name, map);
		return 0;
	}
	for (const struct node *child = map->children; child && r == 0; child = child->next) {
		char path[OPTION_NAME_MAX];
		int n = snprintf(path, sizeof(path), "%s.%s", name, child->key);
		bool fits = n > 0 && (size_t)n < sizeof(path);

		if (fits && !strchr(child->key, '.') && option_find(merge->config->tables, path))
			r = merge_key(merge, name, child);
		else
			r = merge_sysctl(merge, child);
	}
	return r;
}

static int merge_list(
	struct merge *merge, const struct config_option *option, const struct node *node)
{
	struct config_place place = fault_place(&merge->sink, node);
	struct list *list;
	int r = list_read(option, node, &merge->sink, &list);

	if (r < 0)
		return r == -EINVAL ? 0 : r; /* told as faults */
	return store_set_list(store_find(merge->config, option->name), list, &place);
}

static int merge_map(struct merge *merge, const char *section, const struct node *map)
{
	int r = 0;

	for (const struct node *child = map->children; child && r == 0; child = child->next)
		r = merge_key(merge, section, child);
	return r;
}

static int merge_section(struct merge *merge, const struct config_option *option, const char *name,
	const struct node *node)
{
	struct config_place place = fault_place(&merge->sink, node);
	struct value *value = store_find(merge->config, name);
	struct option_value none = {.choice = -1};

	if (node->kind == NODE_LIST || !option_is_section(merge->config->tables, name)) {
		fault_wrong_kind(&merge->sink, option, name, node);
		return 0;
	}
	/* A map stands in place of a single word, such as keep, of an earlier file. */
	if (value && store_set(value, "", &none, &place) < 0)
		return -ENOMEM;
	return merge_map(merge, name, node);
}

static int merge_key(struct merge *merge, const char *section, const struct node *node)
{
	const struct config_option *const *tables = merge->config->tables;
	const struct config_option *option;
	char name[OPTION_NAME_MAX];
	int n = snprintf(name, sizeof(name), "%s%s%s", section, section[0] ? "." : "", node->key);

	if (n < 0 || (size_t)n >= sizeof(name) || strchr(node->key, '.') ||
		(!option_find(tables, name) && !option_is_section(tables, name))) {
		fault_unknown_key(&merge->sink, tables, section, node);
		return 0;
	}
	option = option_find(tables, name);
	if (option && option->type == OPTION_RESERVED)
		return merge_reserved(merge, option, node);
	if (node->kind == NODE_NULL) {
		store_clear(merge->config, name);
		return 0;
	}
	if (option && option->type == OPTION_SYSCTLS)
		return merge_sysctls(merge, name, node);
	if (node->kind == NODE_TEXT)
		return merge_scalar(merge, option, name, node);
	if (node->kind == NODE_LIST && option && option->type == OPTION_LIST)
		return merge_list(merge, option, node);
	return merge_section(merge, option, name, node);
}

static int by_place(const void *a, const void *b)
{
	const struct config_fault *x = a, *y = b;

	if (x->line != y->line)
		return x->line < y->line ? -1 : 1;
	return (x->column > y->column) - (x->column < y->column);
}

int merge_document(struct config *config, const char *file, struct node *root,
	struct config_fault_list *faults, struct config_fault_list *notices)
{
	struct merge merge = {
		.config = config,
		.sink = {.file = file, .faults = faults},
		.notices = notices,
	};

	size_t before = faults->n;
	int r;

	drop_duplicates(&merge, root);
	r = merge_map(&merge, "", root);
	if (faults->n > before)
		qsort(faults->faults + before, faults->n - before, sizeof(*faults->faults),
			by_place);
	/* A fault that could not be noted must not pass as none. */
	return r == 0 && merge.sink.n > 0 && faults->n == before ? -ENOMEM : r;
}
