/* SPDX-License-Identifier: Apache-2.0 */
#include "config/internal.h"

#include "config/suggest.h"
#include "config/text.h"

#include <stdarg.h>

#define DETAIL_MAX 256 /* the part of a message that varies */
#define LABEL_MAX  (OPTION_NAME_MAX + 32)

struct check {
	const struct config_option *const *tables;
	const struct node *before;
	struct config_fault_list *faults, *notices;
	unsigned n; /* faults found; CONFIG_FAULTS_MAX of them are kept */
};

void config_fault_add(
	struct config_fault_list *list, const struct config_place *place, const char *format, ...)
{
	struct config_fault *fault;
	va_list args;

	if (grow_array(&list->faults, list->n, &list->allocated, sizeof(*list->faults)) < 0)
		abort(); /* a fault that is lost would pass as none */
	fault = &list->faults[list->n++];
	copy_text(fault->file, sizeof(fault->file), place->file);
	fault->line = place->line;
	fault->column = place->column;
	va_start(args, format);
	vsnprintf(fault->message, sizeof(fault->message), format, args);
	va_end(args);
}

void config_faults_clear(struct config_fault_list *list)
{
	free(list->faults);
	*list = (struct config_fault_list){0};
}

static void fault_at(struct check *check, struct config_place place, const char *format, ...)
	PRINTF_LIKE(3, 4);

static void fault_at(struct check *check, struct config_place place, const char *format, ...)
{
	char message[DETAIL_MAX + OPTION_NAME_MAX];
	va_list args;

	if (++check->n > CONFIG_FAULTS_MAX)
		return;
	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	config_fault_add(check->faults, &place, "%s", message);
}

struct config_place node_place(const struct node *node)
{
	return (struct config_place){
		.file = node->file, .line = node->line, .column = node->column};
}

static struct config_place key_place(const struct node *node)
{
	return (struct config_place){
		.file = node->file, .line = node->key_line, .column = node->key_column};
}

/* "name cannot be a map: write ...", with what the row takes; option NULL: a section. */
static void wrong_kind(struct check *check, const struct config_option *option, const char *name,
	const struct node *node)
{
	char detail[DETAIL_MAX] = "";

	if (option)
		value_describe(option, detail, sizeof(detail));
	fault_at(check, node_place(node), "%s cannot be %s: write %s", name,
		node->kind == NODE_MAP    ? "a map"
		: node->kind == NODE_LIST ? "a list"
					  : "one value",
		option ? detail : "its keys below it");
}

static void unknown_key(struct check *check, const struct config_option *const *tables,
	const char *section, const struct node *node)
{
	char quoted[TEXT_QUOTE_MAX], detail[DETAIL_MAX] = "";

	if (strchr(node->key, '.') && option_find(tables, node->key))
		text_append(
			detail, sizeof(detail), "write each part of the name as a map of its own");
	else
		suggest_key(tables, section, node->key, detail, sizeof(detail));
	fault_at(check, key_place(node), "unknown key %s%s%s: %s", text_quote(quoted, node->key),
		section[0] ? " in " : "", section, detail);
}

static const struct node *earlier_sibling(const struct node *map, const struct node *node)
{
	for (const struct node *child = map->children; child != node; child = child->next)
		if (streq(child->key, node->key))
			return child;
	return NULL;
}

/* Reports keys that are there twice and drops the second, so that each costs one fault. */
static void drop_duplicates(struct check *check, struct node *parent)
{
	char quoted[TEXT_QUOTE_MAX];

	for (struct node **at = &parent->children; *at;) {
		struct node *node = *at;
		const struct node *first =
			parent->kind == NODE_MAP ? earlier_sibling(parent, node) : NULL;

		if (!first) {
			drop_duplicates(check, node);
			at = &node->next;
			continue;
		}
		fault_at(check, key_place(node),
			"the key %s stands here twice, first in line %u: remove one",
			text_quote(quoted, node->key), first->key_line);
		*at = node->next;
		node_free(node);
	}
}

/* ---- sysctls ---- */

const struct node *sysctl_value_node(
	const struct node *node, bool *exact, const struct node **unfit)
{
	const struct node *value = node->kind == NODE_TEXT ? node : NULL;

	*exact = false;
	*unfit = NULL;
	for (const struct node *child = node->kind == NODE_MAP ? node->children : NULL; child;
		child = child->next) {
		bool is_true = child->kind == NODE_TEXT && streq(child->text, "true");

		if (child->kind == NODE_TEXT && streq(child->key, "value"))
			value = child;
		else if (streq(child->key, "exact") &&
			 (is_true || (child->kind == NODE_TEXT && streq(child->text, "false"))))
			*exact = is_true;
		else if (!*unfit)
			*unfit = child;
	}
	return *unfit ? NULL : value;
}

static void check_sysctl(struct check *check, const struct node *map, struct node *node)
{
	char name[SETTING_NAME_MAX], text[SETTING_VALUE_MAX];
	char quoted[TEXT_QUOTE_MAX], why[VALUE_WHY_MAX];
	const struct node *value, *first, *unfit;
	bool exact;

	if (sysctl_name_parse(node->key, name, why) < 0) {
		fault_at(check, key_place(node), "sysctl: %s", why);
		return;
	}
	free(node->key);
	node->key = strdup(name);
	node->whole = true;
	if (!node->key)
		abort();
	first = earlier_sibling(map, node);
	if (first) {
		fault_at(check, key_place(node),
			"sysctl.%s stands here twice, first in line %u: remove one", name,
			first->key_line);
		return;
	}
	if (node->kind == NODE_NULL)
		return;
	value = sysctl_value_node(node, &exact, &unfit);
	if (node->kind == NODE_LIST)
		fault_at(check, node_place(node),
			"sysctl.%s cannot be a list: write several numbers as one text, \"4096 "
			"87380 6291456\"",
			name);
	else if (unfit)
		fault_at(check, key_place(unfit),
			"sysctl.%s: %s does not fit here: write {value: ..., exact: true}", name,
			text_quote(quoted, unfit->key));
	else if (!value)
		fault_at(check, node_place(node),
			"sysctl.%s has no value: write {value: ..., exact: true}", name);
	else if (sysctl_value_parse(value->text, text, why) < 0)
		fault_at(check, node_place(value), "sysctl.%s: %s", name, why);
	else if (!exact && !sysctl_value_is_numeric(text))
		fault_at(check, node_place(value),
			"sysctl.%s: %s is no whole number, and headroom raises only numbers; give "
			"{value: ..., exact: true} to set this text",
			name, text_quote(quoted, text));
}

/* ---- lists ---- */

const struct config_option *item_row(const struct config_option *option, const char *field)
{
	for (const struct config_option *row = option->items; row->name; row++)
		if (streq(row->name, field))
			return row;
	return NULL;
}

static void check_field(struct check *check, const char *label, const struct config_option *row,
	const struct node *node)
{
	char name[LABEL_MAX + OPTION_NAME_MAX], why[VALUE_WHY_MAX];
	struct option_value parsed;

	snprintf(name, sizeof(name), "%s%s%s", label, row->name[0] ? ": " : "", row->name);
	if (node->kind == NODE_NULL)
		return; /* the row's default, as everywhere */
	if (node->kind != NODE_TEXT)
		wrong_kind(check, row, name, node);
	else if (value_parse(row, node->text, &parsed, why) < 0)
		fault_at(check, node_place(node), "%s: %s", name, why);
}

static void check_item_map(struct check *check, const char *label,
	const struct config_option *option, const struct node *item)
{
	const struct config_option *const rows[] = {option->items, NULL};
	unsigned before = check->n;

	for (const struct node *child = item->children; child; child = child->next) {
		const struct config_option *row = item_row(option, child->key);

		if (row)
			check_field(check, label, row, child);
		else
			unknown_key(check, rows, "", child);
	}
	for (const struct config_option *row = option->items; row->name && check->n == before;
		row++) {
		const struct node *field = node_child(item, row->name);

		if (!row->def && row->type == OPTION_TEXT && row->min > 0 &&
			(!field || field->kind == NODE_NULL))
			fault_at(check, node_place(item), "%s has no %s: add \"%s: ...\"", label,
				row->name, row->name);
	}
}

static void check_list(
	struct check *check, const struct config_option *option, const struct node *list)
{
	size_t most = option->max > 0 ? (size_t)option->max : OPTION_ITEMS_MAX, n = 0;

	for (const struct node *item = list->children; item; item = item->next) {
		char label[LABEL_MAX]; /* "dns.budgets, item 2" */

		if (n++ == most) {
			fault_at(check, node_place(item),
				"%s takes at most %zu items: remove this one and those after it",
				option->name, most);
			return;
		}
		snprintf(label, sizeof(label), "%s, item %zu", option->name, n);
		if (item->kind == NODE_NULL)
			fault_at(check, node_place(item),
				"%s is empty: remove it, or write its value", label);
		else if (option->items[0].name[0] == '\0')
			check_field(check, label, option->items, item);
		else if (item->kind == NODE_MAP)
			check_item_map(check, label, option, item);
		else
			fault_at(check, node_place(item),
				"%s cannot be %s: write a map, such as {%s: ...}", label,
				item->kind == NODE_LIST ? "a list" : "one value",
				option->items[0].name);
	}
}

/* ---- the tree ---- */

/* What only a later version uses: during a roll-out both may read the same file. */
static void note_reserved(
	struct check *check, const struct config_option *option, const struct node *node)
{
	struct config_place place = key_place(node);
	const struct node *earlier = check->before ? node_child(check->before, option->name) : NULL;

	if (node->kind != NODE_NULL && (!earlier || earlier->kind == NODE_NULL))
		config_fault_add(check->notices, &place,
			"%s: this version of headroom does not use it; it is left for one that "
			"does",
			option->name);
}

static void check_map(struct check *check, const char *section, const struct node *map);

static void check_key(
	struct check *check, const char *section, const struct node *map, struct node *node)
{
	const struct config_option *option;
	char name[OPTION_NAME_MAX], why[VALUE_WHY_MAX];
	struct option_value parsed;
	int n = snprintf(name, sizeof(name), "%s%s%s", section, section[0] ? "." : "", node->key);
	bool fits = n > 0 && (size_t)n < sizeof(name) && !strchr(node->key, '.');
	const struct config_option *parent =
		section[0] ? option_find(check->tables, section) : NULL;

	option = fits ? option_find(check->tables, name) : NULL;
	if (parent && parent->type == OPTION_SYSCTLS && !option)
		check_sysctl(check, map, node);
	else if (!fits || (!option && !option_is_section(check->tables, name)))
		unknown_key(check, check->tables, section, node);
	else if (option && option->type == OPTION_RESERVED)
		note_reserved(check, option, node);
	else if (node->kind == NODE_NULL)
		return;
	else if (node->kind == NODE_TEXT && option && option->type != OPTION_SYSCTLS) {
		if (value_parse(option, node->text, &parsed, why) < 0)
			fault_at(check, node_place(node), "%s: %s", name, why);
	} else if (node->kind == NODE_LIST && option && option->type == OPTION_LIST)
		check_list(check, option, node);
	else if (node->kind == NODE_MAP && (option_is_section(check->tables, name) ||
						   (option && option->type == OPTION_SYSCTLS)))
		check_map(check, name, node);
	else
		wrong_kind(check, option, name, node);
}

static void check_map(struct check *check, const char *section, const struct node *map)
{
	for (struct node *child = map->children; child; child = child->next)
		check_key(check, section, map, child);
}

static int by_place(const void *a, const void *b)
{
	const struct config_fault *x = a, *y = b;

	if (x->line != y->line)
		return x->line < y->line ? -1 : 1;
	return (x->column > y->column) - (x->column < y->column);
}

void check_document(const struct config_option *const *tables, const struct node *before,
	struct node *root, struct config_fault_list *faults, struct config_fault_list *notices)
{
	struct check check = {
		.tables = tables, .before = before, .faults = faults, .notices = notices};
	size_t first = faults->n;

	drop_duplicates(&check, root);
	check_map(&check, "", root);
	if (faults->n > first)
		qsort(faults->faults + first, faults->n - first, sizeof(*faults->faults), by_place);
}
