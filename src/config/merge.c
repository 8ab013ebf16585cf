/* SPDX-License-Identifier: Apache-2.0 */
#include "config/internal.h"

#include "base/text.h"

#define DETAIL_MAX 256 /* the part of a message that varies */
#define LABEL_MAX  (OPTION_NAME_MAX + 32)

/* ---- one value ---- */

static const char *kind_of(const struct tree *tree)
{
	return tree->kind == TREE_MAP ? "a map" : tree->kind == TREE_LIST ? "a list" : "one value";
}

/* "name cannot be a map: write ...", with what the row takes; option NULL: a section. */
static void wrong_kind(const struct loading *loading, const struct config_option *option,
	const char *name, const struct tree *tree)
{
	char detail[DETAIL_MAX] = "";

	if (option)
		value_describe(option, detail, sizeof(detail));
	config_fault_add(loading->faults, &tree->place, "%s cannot be %s: write %s", name,
		kind_of(tree), option ? detail : "its keys below it");
}

/* True for a text that the row takes. */
static bool check_value(const struct loading *loading, const struct config_option *option,
	const char *name, const struct tree *tree)
{
	const char *text = tree_text(tree);
	char why[VALUE_WHY_MAX];

	if (!text)
		wrong_kind(loading, option, name, tree);
	else if (value_check(option, text, why) < 0)
		config_fault_add(loading->faults, &tree->place, "%s: %s", name, why);
	else
		return true;
	return false;
}

static void unknown_key(const struct loading *loading, const struct config_option *const *tables,
	const char *section, const struct tree *key)
{
	char quoted[TEXT_QUOTE_MAX], detail[DETAIL_MAX] = "";

	if (strchr(key->text, '.') && option_find(tables, key->text))
		strcpy(detail, "write each part of the name as a map of its own");
	else
		suggest_key(tables, section, key->text, detail, sizeof(detail));
	config_fault_add(loading->faults, &key->place, "unknown key %s%s%s: %s",
		text_quote(quoted, key->text), section[0] ? " in " : "", section, detail);
}

/* ---- lists ---- */

static void check_item_map(const struct loading *loading, const char *label,
	const struct config_option *option, const struct tree *item)
{
	const struct config_option *const rows[] = {option->items, NULL};
	size_t before = loading->faults->n;

	for (const struct tree *field = item->first; field; field = field->next) {
		const struct config_option *row = option_find(rows, field->key->text);
		char name[LABEL_MAX + OPTION_NAME_MAX];

		if (!row) {
			unknown_key(loading, rows, "", field->key);
		} else if (field->kind != TREE_NULL) { /* else the row's default, as everywhere */
			snprintf(name, sizeof(name), "%s: %s", label, row->name);
			check_value(loading, row, name, field);
		}
	}
	for (const struct config_option *row = option->items; row->name; row++)
		if (loading->faults->n == before && !row->def && row->type == OPTION_TEXT &&
			row->min > 0 && !tree_text(tree_child(item, row->name)))
			config_fault_add(loading->faults, &item->place,
				"%s has no %s: add \"%s: ...\"", label, row->name, row->name);
}

static void check_list(
	const struct loading *loading, const struct config_option *option, const struct tree *list)
{
	size_t n = 0, most = option->max > 0 ? (size_t)option->max : OPTION_ITEMS_MAX;

	for (const struct tree *item = list->first; item; item = item->next) {
		char label[LABEL_MAX]; /* "dns.budgets, item 2" */

		snprintf(label, sizeof(label), "%s, item %zu", option->name, ++n);
		if (n > most) {
			config_fault_add(loading->faults, &item->place,
				"%s takes at most %zu items: remove this one and those after it",
				option->name, most);
			return;
		}
		if (item->kind == TREE_NULL)
			config_fault_add(loading->faults, &item->place,
				"%s is empty: remove it, or write its value", label);
		else if (option->items[0].name[0] == '\0')
			check_value(loading, option->items, label, item);
		else if (item->kind == TREE_MAP)
			check_item_map(loading, label, option, item);
		else
			config_fault_add(loading->faults, &item->place,
				"%s cannot be %s: write a map, such as {%s: ...}", label,
				kind_of(item), option->items[0].name);
	}
}

/* ---- sysctls ---- */

/* The value of {value: V, exact: true}; NULL, and a fault, when it has not this form. */
static const struct tree *exact_value(
	const struct loading *loading, const char *name, const struct tree *map, bool *exact)
{
	const struct tree *value = NULL;
	char quoted[TEXT_QUOTE_MAX];

	for (const struct tree *child = map->first; child; child = child->next) {
		const char *key = child->key->text, *text = tree_text(child);

		if (text && streq(key, "value")) {
			value = child;
		} else if (text && streq(key, "exact") &&
			   (streq(text, "true") || streq(text, "false"))) {
			*exact = streq(text, "true");
		} else {
			config_fault_add(loading->faults, &child->key->place,
				"sysctl.%s: %s does not fit here: write {value: ..., exact: true}",
				name, text_quote(quoted, key));
			return NULL;
		}
	}
	if (!value)
		config_fault_add(loading->faults, &map->place,
			"sysctl.%s has no value: write {value: ..., exact: true}", name);
	return value;
}

static void take_sysctl(const struct loading *loading, const struct tree *tree)
{
	char name[SETTING_NAME_MAX], quoted[TEXT_QUOTE_MAX], why[VALUE_WHY_MAX];
	const struct config_place *place = &tree->key->place;
	struct config_sysctl *sysctl;
	int order;

	if (sysctl_name_parse(tree->key->text, name, why) < 0) {
		config_fault_add(loading->faults, place, "sysctl: %s", why);
		return;
	}
	sysctl = config_sysctl(loading->config, name);
	if (sysctl->place.file == place->file) { /* a sysctl has two spellings */
		config_fault_add(loading->faults, place,
			"sysctl.%s is here twice, first in line %u: remove one", name,
			sysctl->place.line);
		return;
	}
	sysctl->exact = false;
	sysctl->value[0] = '\0';
	if (tree->kind == TREE_MAP)
		tree = exact_value(loading, name, tree, &sysctl->exact);
	if (!tree)
		return;
	sysctl->place = tree->place;
	if (tree->kind == TREE_NULL)
		return;
	if (!tree_text(tree))
		config_fault_add(loading->faults, &tree->place,
			"sysctl.%s cannot be a list: write several numbers as one text, \"4096 "
			"87380 6291456\"",
			name);
	else if (sysctl_value_parse(tree->text, sysctl->value, why) < 0)
		config_fault_add(loading->faults, &tree->place, "sysctl.%s: %s", name, why);
	else if (!sysctl->exact && value_compare(sysctl->value, sysctl->value, &order) < 0)
		config_fault_add(loading->faults, &tree->place,
			"sysctl.%s: %s is no whole number, and headroom raises only numbers; give "
			"{value: ..., exact: true} to set this text",
			name, text_quote(quoted, sysctl->value));
}

/* ---- the tree ---- */

/* Takes away what earlier files, and what a profile may, say of a name and all below it. */
static void clear_below(struct config *config, const char *name)
{
	static const struct tree cleared = {.kind = TREE_NULL};

	for (size_t i = 0; i < config->n_rows; i++) {
		if (!option_is_below(config->rows[i].option->name, name))
			continue;
		config->rows[i].tree = &cleared;
		if (config->rows[i].option->type == OPTION_SYSCTLS)
			config->n_sysctls = 0;
	}
}

static void take_map(const struct loading *loading, const char *section, const struct tree *map);

static void take_value(const struct loading *loading, const char *section, const struct tree *tree)
{
	struct config *config = loading->config;
	const struct row *parent = config_row(config, section);
	const char *key = tree->key->text;
	char name[OPTION_NAME_MAX];
	int n = snprintf(name, sizeof(name), "%s%s%s", section, section[0] ? "." : "", key);
	bool fits = n > 0 && (size_t)n < sizeof(name) && !strchr(key, '.');
	bool is_section = fits && option_is_section(config->tables, name);
	struct row *row = fits ? config_row(config, name) : NULL;
	enum option_type type = row ? row->option->type : OPTION_TEXT;

	if (parent && parent->option->type == OPTION_SYSCTLS && !row) {
		take_sysctl(loading, tree);
	} else if (!row && !is_section) {
		unknown_key(loading, config->tables, section, tree->key);
	} else if (tree->kind == TREE_NULL) {
		clear_below(config, name);
	} else if (type == OPTION_RESERVED) {
		/* During a roll-out an earlier and a later version may read the same file. */
		if (!row->tree || row->tree->kind == TREE_NULL)
			config_fault_add(loading->notices, &tree->key->place,
				"%s: this version of headroom does not use it; it is left for one "
				"that does",
				name);
		row->tree = tree;
	} else if (tree->kind == TREE_MAP && (is_section || type == OPTION_SYSCTLS)) {
		if (row && type != OPTION_SYSCTLS) /* in place of a word, such as keep */
			row->tree = tree;
		take_map(loading, name, tree);
	} else if (!row || type == OPTION_SYSCTLS) {
		wrong_kind(loading, row ? row->option : NULL, name, tree);
	} else if (tree->kind == TREE_LIST && type == OPTION_LIST) {
		check_list(loading, row->option, tree);
		clear_below(config, name);
		row->tree = tree;
	} else if (check_value(loading, row->option, name, tree)) {
		clear_below(config, name);
		row->tree = tree;
	}
}

static void take_map(const struct loading *loading, const char *section, const struct tree *map)
{
	for (const struct tree *tree = map->first; tree; tree = tree->next)
		take_value(loading, section, tree);
}

/* Each key is a word, and there once: what has another is taken out, and costs one fault. */
static void check_keys(const struct loading *loading, struct tree *tree)
{
	struct tree **end = &tree->first;
	char quoted[TEXT_QUOTE_MAX];

	for (struct tree *child = tree->first; child; child = child->next) {
		const struct tree *key = child->key, *same;

		check_keys(loading, child);
		*end = NULL;
		same = key ? tree_child(tree, key->text) : NULL;
		if (key && (key->kind == TREE_MAP || key->kind == TREE_LIST)) {
			config_fault_add(loading->faults, &key->place,
				"a key must be a word: write \"key: value\"");
		} else if (same) {
			config_fault_add(loading->faults, &key->place,
				"the key %s is here twice, first in line %u: remove one",
				text_quote(quoted, key->text), same->key->place.line);
		} else {
			*end = child;
			end = &child->next;
		}
	}
}

static int by_place(const void *a, const void *b)
{
	const struct config_fault *x = a, *y = b;

	if (x->line != y->line)
		return x->line < y->line ? -1 : 1;
	return (x->column > y->column) - (x->column < y->column);
}

void document_merge(const struct loading *loading, struct tree *root)
{
	struct config_fault_list *faults = loading->faults;
	size_t first = faults->n;

	check_keys(loading, root);
	take_map(loading, "", root);
	if (faults->n == first)
		return;
	qsort(faults->faults + first, faults->n - first, sizeof(*faults->faults), by_place);
	faults->n = MIN(faults->n, first + CONFIG_FAULTS_MAX);
}
