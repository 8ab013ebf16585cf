/* SPDX-License-Identifier: Apache-2.0 */
#include "config/list.h"

#include "config/text.h"

#include <errno.h>

#define LABEL_MAX (OPTION_NAME_MAX + 32)

/* What is being read: one item, and where its faults go. */
struct item {
	const struct config_option *option;
	struct fault_sink *sink;
	const struct node *node;
	struct list_field *fields;
	char label[LABEL_MAX]; /* "dns.budgets, item 2", as faults name it */
};

void list_free(struct list *list)
{
	for (size_t i = 0; i < list->n * list->n_fields; i++)
		free(list->fields[i].text);
	free(list->fields);
	free(list->places);
	free(list);
}

static size_t count_fields(const struct config_option *option)
{
	size_t n = 0;

	while (option->items[n].name)
		n++;
	return n;
}

static bool is_plain(const struct config_option *option)
{
	return option->items[0].name[0] == '\0';
}

const struct config_option *list_row(
	const struct config_option *option, const char *field, size_t *index)
{
	for (size_t i = 0; option->items[i].name; i++) {
		if (!streq(option->items[i].name, field))
			continue;
		*index = i;
		return &option->items[i];
	}
	return NULL;
}

static int new_list(const struct config_option *option, size_t n, struct list **ret)
{
	_cleanup_(cleanup_list_free) struct list *list = calloc(1, sizeof(*list));

	if (!list)
		return -ENOMEM;
	list->n_fields = count_fields(option);
	list->fields = calloc(n * list->n_fields + 1, sizeof(*list->fields));
	list->places = calloc(n + 1, sizeof(*list->places));
	if (!list->fields || !list->places)
		return -ENOMEM;
	list->n = n;
	*ret = steal(list);
	return 0;
}

/* Takes one value of an item. 0, also with a fault added; -ENOMEM. */
static int read_field(const struct item *item, const struct config_option *row,
	const struct node *node, struct list_field *field)
{
	char name[LABEL_MAX + OPTION_NAME_MAX], why[VALUE_WHY_MAX];

	snprintf(name, sizeof(name), "%s%s%s", item->label, row->name[0] ? ": " : "", row->name);
	if (node->kind == NODE_NULL)
		return 0; /* the row's default, as everywhere */
	if (node->kind != NODE_TEXT) {
		fault_wrong_kind(item->sink, row, name, node);
		return 0;
	}
	if (value_parse(row, node->text, &field->parsed, why) < 0) {
		fault_at_value(item->sink, node, "%s: %s", name, why);
		return 0;
	}
	field->text = strdup(node->text);
	field->place = fault_place(item->sink, node);
	return field->text ? 0 : -ENOMEM;
}

static int read_map(const struct item *item)
{
	const struct config_option *const rows[] = {item->option->items, NULL};
	int r = 0;

	for (const struct node *child = item->node->children; child && r == 0;
		child = child->next) {
		size_t index;
		const struct config_option *row = list_row(item->option, child->key, &index);

		if (row)
			r = read_field(item, row, child, &item->fields[index]);
		else
			fault_unknown_key(item->sink, rows, "", child);
	}
	return r;
}

/* Takes the defaults of what an item does not give, and says what it must. */
static void fill_defaults(const struct item *item)
{
	for (size_t i = 0; item->option->items[i].name; i++) {
		const struct config_option *row = &item->option->items[i];
		struct list_field *field = &item->fields[i];
		char why[VALUE_WHY_MAX];

		if (field->text)
			continue;
		field->place = fault_place(item->sink, item->node);
		field->parsed = (struct option_value){.choice = -1};
		if (row->def) {
			if (value_parse(row, row->def, &field->parsed, why) < 0)
				abort(); /* the table is wrong: the tests of the tables find this */
		} else if (row->type == OPTION_TEXT && row->min > 0) {
			fault_at_value(item->sink, item->node, "%s has no %s: add \"%s: ...\"",
				item->label, row->name, row->name);
		}
	}
}

/* 0, also with faults added; -ENOMEM. */
static int read_item(const struct item *item)
{
	unsigned before = item->sink->n;
	bool plain = is_plain(item->option);
	int r = 0;

	if (item->node->kind == NODE_NULL)
		fault_at_value(item->sink, item->node, "%s is empty: remove it, or write its value",
			item->label);
	else if (plain)
		r = read_field(item, item->option->items, item->node, item->fields);
	else if (item->node->kind == NODE_MAP)
		r = read_map(item);
	else
		fault_at_value(item->sink, item->node,
			"%s cannot be %s: write a map, such as {%s: ...}", item->label,
			item->node->kind == NODE_LIST ? "a list" : "one value",
			item->option->items[0].name);
	if (r == 0 && item->sink->n == before)
		fill_defaults(item);
	return r;
}

/* The items that the row allows; says so when there are more. */
static size_t count_items(
	const struct config_option *option, const struct node *node, struct fault_sink *sink)
{
	size_t most = option->max > 0 ? (size_t)option->max : OPTION_ITEMS_MAX;
	size_t n = 0;

	for (const struct node *child = node->children; child; child = child->next) {
		if (n == most) {
			fault_at_value(sink, child,
				"%s takes at most %zu items: remove this one and those after it",
				option->name, most);
			break;
		}
		n++;
	}
	return n;
}

int list_read(const struct config_option *option, const struct node *node, struct fault_sink *sink,
	struct list **ret)
{
	_cleanup_(cleanup_list_free) struct list *list = NULL;
	const struct node *child = node->children;
	unsigned before = sink->n;
	int r = new_list(option, count_items(option, node, sink), &list);

	for (size_t i = 0; r == 0 && i < list->n; i++, child = child->next) {
		struct item item = {
			.option = option,
			.sink = sink,
			.node = child,
			.fields = list->fields + i * list->n_fields,
		};

		snprintf(item.label, sizeof(item.label), "%s, item %zu", option->name, i + 1);
		list->places[i] = fault_place(sink, child);
		r = read_item(&item);
	}
	if (r < 0)
		return r;
	if (sink->n > before)
		return -EINVAL;
	*ret = steal(list);
	return 0;
}

/* A default stands in no file. */
static void clear_places(struct list *list, const char *file)
{
	for (size_t i = 0; i < list->n; i++)
		list->places[i] = (struct config_place){.file = file};
	for (size_t i = 0; i < list->n * list->n_fields; i++)
		list->fields[i].place = (struct config_place){.file = file};
}

int list_default(const struct config_option *option, struct list **ret)
{
	_cleanup_(cleanup_node_free) struct node *root = NULL;
	_cleanup_free_ char *text = NULL;
	struct config_fault_list faults = {0};
	struct fault_sink sink = {.file = "default", .faults = &faults};
	struct list *list = NULL;
	int len = asprintf(&text, "default: %s", option->def ? option->def : "[]");
	int r;

	if (len < 0)
		return -ENOMEM;
	r = document_parse(sink.file, text, (size_t)len, &root, &faults);
	if (r == 0 && root->children->kind != NODE_LIST)
		r = -EINVAL;
	if (r == 0)
		r = list_read(option, root->children, &sink, &list);
	config_faults_clear(&faults);
	if (r < 0)
		return r;
	clear_places(list, sink.file);
	*ret = list;
	return 0;
}
