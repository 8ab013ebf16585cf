/* SPDX-License-Identifier: Apache-2.0 */
#include "config/internal.h"

#include "base/text.h"

#include <stdarg.h>

#define DETAIL_MAX 256 /* the part of a message that varies */
#define LABEL_MAX  (OPTION_NAME_MAX + 32)

struct merge {
	struct config *config;
	struct document *document;
	struct config_fault_list *faults, *notices;
	unsigned n; /* faults found; CONFIG_FAULTS_MAX of them are kept */
};

static void fault_at(struct merge *merge, const yaml_node_t *node, const char *format, ...)
	PRINTF_LIKE(3, 4);

static void fault_at(struct merge *merge, const yaml_node_t *node, const char *format, ...)
{
	struct config_place place = node_place(merge->document, node);
	char message[DETAIL_MAX + OPTION_NAME_MAX];
	va_list args;

	if (++merge->n > CONFIG_FAULTS_MAX)
		return;
	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	config_fault_add(merge->faults, &place, "%s", message);
}

/* Of a key that was found to be one. */
static const char *key_text(const struct merge *merge, const yaml_node_pair_t *pair)
{
	return (const char *)node_at(merge->document, pair->key)->data.scalar.value;
}

/* ---- one value ---- */

static const char *kind_of(const yaml_node_t *node)
{
	return node->type == YAML_MAPPING_NODE    ? "a map"
	       : node->type == YAML_SEQUENCE_NODE ? "a list"
						  : "one value";
}

/* "name cannot be a map: write ...", with what the row takes; option NULL: a section. */
static void wrong_kind(struct merge *merge, const struct config_option *option, const char *name,
	const yaml_node_t *node)
{
	char detail[DETAIL_MAX] = "";

	if (option)
		value_describe(option, detail, sizeof(detail));
	fault_at(merge, node, "%s cannot be %s: write %s", name, kind_of(node),
		option ? detail : "its keys below it");
}

/* True, with value, for a text that the row takes. */
static bool check_value(struct merge *merge, const struct config_option *option, const char *name,
	const yaml_node_t *node, struct option_value *value)
{
	const char *text = node_text(node);
	char why[VALUE_WHY_MAX];

	if (!text)
		wrong_kind(merge, option, name, node);
	else if (value_parse(option, text, value, why) < 0)
		fault_at(merge, node, "%s: %s", name, why);
	else
		return true;
	return false;
}

static void unknown_key(struct merge *merge, const struct config_option *const *tables,
	const char *section, const yaml_node_pair_t *pair)
{
	const char *key = key_text(merge, pair);
	char quoted[TEXT_QUOTE_MAX], detail[DETAIL_MAX] = "";

	if (strchr(key, '.') && option_find(tables, key))
		text_append(
			detail, sizeof(detail), "write each part of the name as a map of its own");
	else
		suggest_key(tables, section, key, detail, sizeof(detail));
	fault_at(merge, node_at(merge->document, pair->key), "unknown key %s%s%s: %s",
		text_quote(quoted, key), section[0] ? " in " : "", section, detail);
}

/* ---- lists ---- */

const struct config_option *item_row(const struct config_option *option, const char *field)
{
	for (const struct config_option *row = option->items; row->name; row++)
		if (streq(row->name, field))
			return row;
	return NULL;
}

static void check_item_map(struct merge *merge, const char *label,
	const struct config_option *option, const yaml_node_t *item)
{
	const struct config_option *const rows[] = {option->items, NULL};
	const yaml_node_pair_t *pair = item->data.mapping.pairs.start;
	unsigned before = merge->n;
	struct option_value value;

	for (; pair < item->data.mapping.pairs.top; pair++) {
		const yaml_node_t *node = node_at(merge->document, pair->value);
		const struct config_option *row = item_row(option, key_text(merge, pair));
		char name[LABEL_MAX + OPTION_NAME_MAX];

		if (!row) {
			unknown_key(merge, rows, "", pair);
		} else if (!node_is_null(node)) { /* else the row's default, as everywhere */
			snprintf(name, sizeof(name), "%s: %s", label, row->name);
			check_value(merge, row, name, node, &value);
		}
	}
	for (const struct config_option *row = option->items; row->name && merge->n == before;
		row++) {
		const yaml_node_t *field = node_child(merge->document, item, row->name);

		if (!row->def && row->type == OPTION_TEXT && row->min > 0 &&
			(!field || node_is_null(field)))
			fault_at(merge, item, "%s has no %s: add \"%s: ...\"", label, row->name,
				row->name);
	}
}

static void check_list(
	struct merge *merge, const struct config_option *option, const yaml_node_t *list)
{
	const yaml_node_item_t *first = list->data.sequence.items.start;
	size_t most = option->max > 0 ? (size_t)option->max : OPTION_ITEMS_MAX;
	size_t n = (size_t)(list->data.sequence.items.top - first);
	struct option_value value;

	for (size_t i = 0; i < MIN(n, most); i++) {
		const yaml_node_t *item = node_at(merge->document, first[i]);
		char label[LABEL_MAX]; /* "dns.budgets, item 2" */

		snprintf(label, sizeof(label), "%s, item %zu", option->name, i + 1);
		if (node_is_null(item))
			fault_at(merge, item, "%s is empty: remove it, or write its value", label);
		else if (option->items[0].name[0] == '\0')
			check_value(merge, option->items, label, item, &value);
		else if (item->type == YAML_MAPPING_NODE)
			check_item_map(merge, label, option, item);
		else
			fault_at(merge, item, "%s cannot be %s: write a map, such as {%s: ...}",
				label, kind_of(item), option->items[0].name);
	}
	if (n > most)
		fault_at(merge, node_at(merge->document, first[most]),
			"%s takes at most %zu items: remove this one and those after it",
			option->name, most);
}

void row_take_default_list(struct config *config, struct row *row)
{
	struct config_fault_list faults = {0};
	struct merge merge = {.faults = &faults};
	char text[256];
	int len = snprintf(
		text, sizeof(text), "list: %s", row->option->def ? row->option->def : "[]");

	merge.document = document_load(config, "default", text, (size_t)len, &faults);
	if (merge.document) {
		row->document = merge.document;
		row->list = node_child(
			merge.document, yaml_document_get_root_node(&merge.document->yaml), "list");
		check_list(&merge, row->option, row->list);
	}
	if (faults.n > 0)
		abort(); /* the tables' tests would have found it */
}

/* ---- sysctls ---- */

/* The value of {value: V, exact: true}; NULL, and a fault, when it has not this form. */
static const yaml_node_t *exact_value(
	struct merge *merge, const char *name, const yaml_node_t *map, bool *exact)
{
	const yaml_node_pair_t *pair = map->data.mapping.pairs.start;
	const yaml_node_t *value = NULL;
	char quoted[TEXT_QUOTE_MAX];

	for (; pair < map->data.mapping.pairs.top; pair++) {
		const yaml_node_t *node = node_at(merge->document, pair->value);
		const char *key = key_text(merge, pair), *text = node_text(node);

		if (text && streq(key, "value")) {
			value = node;
		} else if (text && streq(key, "exact") &&
			   (streq(text, "true") || streq(text, "false"))) {
			*exact = streq(text, "true");
		} else {
			fault_at(merge, node_at(merge->document, pair->key),
				"sysctl.%s: %s does not fit here: write {value: ..., exact: true}",
				name, text_quote(quoted, key));
			return NULL;
		}
	}
	if (!value)
		fault_at(merge, map, "sysctl.%s has no value: write {value: ..., exact: true}",
			name);
	return value;
}

static void take_sysctl(struct merge *merge, const yaml_node_t *key, const yaml_node_t *node)
{
	char name[SETTING_NAME_MAX], quoted[TEXT_QUOTE_MAX], why[VALUE_WHY_MAX];
	struct config_sysctl *sysctl;
	int order;

	if (sysctl_name_parse((const char *)key->data.scalar.value, name, why) < 0) {
		fault_at(merge, key, "sysctl: %s", why);
		return;
	}
	sysctl = config_sysctl(merge->config, name);
	if (sysctl->place.file == merge->document->file) { /* a sysctl has two spellings */
		fault_at(merge, key, "sysctl.%s is here twice, first in line %u: remove one", name,
			sysctl->place.line);
		return;
	}
	sysctl->exact = false;
	sysctl->value[0] = '\0';
	if (node->type == YAML_MAPPING_NODE)
		node = exact_value(merge, name, node, &sysctl->exact);
	if (!node)
		return;
	sysctl->place = node_place(merge->document, node);
	if (node_is_null(node))
		return;
	if (!node_text(node))
		fault_at(merge, node,
			"sysctl.%s cannot be a list: write several numbers as one text, \"4096 "
			"87380 6291456\"",
			name);
	else if (sysctl_value_parse(node_text(node), sysctl->value, why) < 0)
		fault_at(merge, node, "sysctl.%s: %s", name, why);
	else if (!sysctl->exact && value_compare(sysctl->value, sysctl->value, &order) < 0)
		fault_at(merge, node,
			"sysctl.%s: %s is no whole number, and headroom raises only numbers; give "
			"{value: ..., exact: true} to set this text",
			name, text_quote(quoted, sysctl->value));
}

/* ---- the tree ---- */

/* Takes away what earlier files, and what a profile may, say of a name and all below it. */
static void clear_below(struct config *config, const char *name)
{
	for (size_t i = 0; i < config->n_rows; i++) {
		const struct config_option *option = config->rows[i].option;

		if (!option_is_below(option->name, name))
			continue;
		config->rows[i] = (struct row){.option = option, .cleared = true};
		if (option->type == OPTION_SYSCTLS)
			config->n_sysctls = 0;
	}
}

/* What only a later version uses: during a roll-out both may read the same file. */
static void note_reserved(struct merge *merge, struct row *row, const yaml_node_t *key)
{
	struct config_place place = node_place(merge->document, key);

	if (row->place.line == 0) /* an earlier file may have it too */
		config_fault_add(merge->notices, &place,
			"%s: this version of headroom does not use it; it is left for one that "
			"does",
			row->option->name);
	row->place = place;
}

static void take_map(struct merge *merge, const char *section, const yaml_node_t *map);

static void take_pair(struct merge *merge, const char *section, const yaml_node_pair_t *pair)
{
	struct config *config = merge->config;
	const yaml_node_t *key = node_at(merge->document, pair->key);
	const yaml_node_t *node = node_at(merge->document, pair->value);
	const struct row *parent = section[0] ? config_row(config, section) : NULL;
	char name[OPTION_NAME_MAX];
	int n = snprintf(name, sizeof(name), "%s%s%s", section, section[0] ? "." : "",
		key_text(merge, pair));
	bool fits = n > 0 && (size_t)n < sizeof(name) && !strchr(key_text(merge, pair), '.');
	bool is_section = fits && option_is_section(config->tables, name);
	struct row *row = fits ? config_row(config, name) : NULL;
	enum option_type type = row ? row->option->type : OPTION_TEXT;
	struct option_value value;

	if (parent && parent->option->type == OPTION_SYSCTLS && !row) {
		take_sysctl(merge, key, node);
	} else if (!row && !is_section) {
		unknown_key(merge, config->tables, section, pair);
	} else if (node_is_null(node)) {
		clear_below(config, name);
	} else if (type == OPTION_RESERVED) {
		note_reserved(merge, row, key);
	} else if (node->type == YAML_MAPPING_NODE && (is_section || type == OPTION_SYSCTLS)) {
		if (row && row->text) /* a word, such as keep */
			*row = (struct row){.option = row->option, .cleared = true};
		take_map(merge, name, node);
	} else if (node->type == YAML_SEQUENCE_NODE && type == OPTION_LIST) {
		check_list(merge, row->option, node);
		clear_below(config, name);
		row->document = merge->document;
		row->list = node;
		row->parsed.choice = -1;
		row->place = node_place(merge->document, node);
	} else if (!row || type == OPTION_SYSCTLS) {
		wrong_kind(merge, row ? row->option : NULL, name, node);
	} else if (check_value(merge, row->option, name, node, &value)) {
		clear_below(config, name);
		row->text = node_text(node);
		row->parsed = value;
		row->place = node_place(merge->document, node);
	}
}

static void take_map(struct merge *merge, const char *section, const yaml_node_t *map)
{
	const yaml_node_pair_t *pair = map->data.mapping.pairs.start;

	for (; pair < map->data.mapping.pairs.top; pair++)
		take_pair(merge, section, pair);
}

/* Each key is a word, and there once: a pair whose key is not is taken out, and costs one fault. */
static void check_keys(struct merge *merge, yaml_node_t *map)
{
	yaml_node_pair_t *first = map->data.mapping.pairs.start, *kept = first;
	char quoted[TEXT_QUOTE_MAX];

	for (yaml_node_pair_t *pair = first; pair < map->data.mapping.pairs.top; pair++) {
		const yaml_node_t *key = node_at(merge->document, pair->key);
		const yaml_node_pair_t *same = first;

		if (key->type != YAML_SCALAR_NODE) {
			fault_at(merge, key, "a key must be a word: write \"key: value\"");
			continue;
		}
		while (same < kept && !streq(key_text(merge, same), key_text(merge, pair)))
			same++;
		if (same < kept)
			fault_at(merge, key,
				"the key %s is here twice, first in line %u: remove one",
				text_quote(quoted, key_text(merge, pair)),
				node_place(merge->document, node_at(merge->document, same->key))
					.line);
		else
			*kept++ = *pair;
	}
	map->data.mapping.pairs.top = kept;
}

static int by_place(const void *a, const void *b)
{
	const struct config_fault *x = a, *y = b;

	if (x->line != y->line)
		return x->line < y->line ? -1 : 1;
	return (x->column > y->column) - (x->column < y->column);
}

void document_merge(struct config *config, struct document *document,
	struct config_fault_list *faults, struct config_fault_list *notices)
{
	struct merge merge = {
		.config = config, .document = document, .faults = faults, .notices = notices};
	const yaml_node_t *root = yaml_document_get_root_node(&document->yaml);
	size_t first = faults->n;

	for (yaml_node_t *node = document->yaml.nodes.start; node < document->yaml.nodes.top;
		node++)
		if (node->type == YAML_MAPPING_NODE)
			check_keys(&merge, node);
	if (root && root->type == YAML_MAPPING_NODE)
		take_map(&merge, "", root);
	if (faults->n > first)
		qsort(faults->faults + first, faults->n - first, sizeof(*faults->faults), by_place);
}
