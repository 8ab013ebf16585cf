/* SPDX-License-Identifier: Apache-2.0 */
#include "config/internal.h"

#include "base/text.h"

#include <ctype.h>

#define DETAIL_MAX 256
#define LABEL_MAX  (OPTION_NAME_MAX + 32)

static const char *kind_of(const struct tree *tree)
{
	return tree->kind == TREE_MAP ? "a map" : tree->kind == TREE_LIST ? "a list" : "one value";
}

/* Reports that the option, or the section if option is NULL, cannot be a map or list. */
static void wrong_kind(struct config *config, const struct config_option *option, const char *name,
	const struct tree *tree)
{
	char detail[DETAIL_MAX] = "";

	if (option)
		value_describe(option, detail, sizeof(detail));
	config_fault_add(config->faults, &tree->position, "%s cannot be %s: write %s", name,
		kind_of(tree), option ? detail : "its keys below it");
}

static void check_value(struct config *config, const struct config_option *option, const char *name,
	const struct tree *tree)
{
	static const char *const wrong[] = {
		[OPTION_BOOL] = "neither true nor false",
		[OPTION_COUNT] = "not a whole number",
		[OPTION_DURATION] = "not a time with a unit",
		[OPTION_CHOICE] = "not a valid choice",
		[OPTION_TEXT] = "a text with line breaks or control characters",
		[OPTION_LIST] = "not a list",
	};
	enum option_type type = option->type;
	uint64_t max = option->max > 0 ? option->max : type == OPTION_TEXT ? 255 : UINT64_MAX;
	const char *text = tree_text(tree), *refused = NULL;
	char quoted[TEXT_QUOTE_MAX], detail[DETAIL_MAX] = "";
	uint64_t number = 0;
	int r = -EINVAL;

	if (!text) {
		wrong_kind(config, option, name, tree);
		return;
	}
	if (type == OPTION_TEXT && text_is_printable(text)) {
		refused = option->check ? option->check(text) : NULL;
		if (strlen(text) > max)
			config_fault_add(config->faults, &tree->position,
				"%s: the text is too long: write at most %" PRIu64 " bytes", name,
				max);
		else if (strlen(text) < option->min)
			config_fault_add(config->faults, &tree->position,
				"%s: the text is too short: write at least %" PRIu64 " bytes", name,
				option->min);
		else if (refused)
			config_fault_add(config->faults, &tree->position, "%s: %s is invalid: %s",
				name, text_quote(quoted, text), refused);
		return;
	}
	if (word_index(option->choices, text) >= 0 ||
		(type == OPTION_BOOL && (streq(text, "true") || streq(text, "false"))))
		return;
	if (type == OPTION_COUNT)
		r = parse_count(text, &number);
	else if (type == OPTION_DURATION)
		r = duration_parse(text, &number);
	if (r == 0 && number >= option->min && number <= max)
		return;
	value_describe(option, detail, sizeof(detail));
	config_fault_add(config->faults, &tree->position, "%s: %s is %s: write %s", name,
		text_quote(quoted, text), r == -EINVAL ? wrong[type] : "out of range", detail);
}

/* Suggests a similar key of the section, else the same key elsewhere, else lists the keys. */
static void unknown_key(struct config *config, const struct config_option *const *tables,
	const char *section, const struct tree *key)
{
	char word[OPTION_NAME_MAX], last[OPTION_NAME_MAX] = "", quoted[TEXT_QUOTE_MAX];
	char cure[DETAIL_MAX] = "valid keys are ";
	size_t skip = section[0] ? strlen(section) + 1 : 0;
	bool is_name = strchr(key->text, '.') && option_find(tables, key->text);
	struct suggestion nearest = {0};
	const char *elsewhere = NULL;

	for (; *tables; tables++) {
		for (const struct config_option *option = *tables; option->name; option++) {
			const char *dot = strrchr(option->name, '.');

			if (!elsewhere && dot && streq(dot + 1, key->text))
				elsewhere = option->name;
			if (section[0] && (!option_is_below(option->name, section) ||
						  strlen(option->name) < skip))
				continue;
			set_text(word, option->name + skip);
			word[strcspn(word, ".")] = '\0';
			if (streq(word, last))
				continue;
			text_append(cure, sizeof(cure), "%s%s", last[0] ? ", " : "", word);
			set_text(last, word);
			suggest_offer(&nearest, key->text, word);
		}
	}
	if (is_name)
		strcpy(cure, "write each part of the name as a map of its own");
	else if (nearest.word[0] || elsewhere)
		snprintf(cure, sizeof(cure), "did you mean %s?",
			nearest.word[0] ? nearest.word : elsewhere);
	config_fault_add(config->faults, &key->position, "unknown key %s%s%s: %s",
		text_quote(quoted, key->text), section[0] ? " in " : "", section, cure);
}

static void check_item_map(struct config *config, const char *label,
	const struct config_option *option, const struct tree *item)
{
	const struct config_option *const rows[] = {option->items, NULL};
	size_t before = config->faults->n;

	for (const struct tree *field = item->first; field; field = field->next) {
		const struct config_option *row = option_find(rows, field->key->text);
		char name[LABEL_MAX + OPTION_NAME_MAX];

		if (!row) {
			unknown_key(config, rows, "", field->key);
		} else if (field->kind != TREE_NULL) { /* null: the default */
			snprintf(name, sizeof(name), "%s: %s", label, row->name);
			check_value(config, row, name, field);
		}
	}
	for (const struct config_option *row = option->items; row->name; row++)
		if (config->faults->n == before && !row->def && row->type == OPTION_TEXT &&
			row->min > 0 && !tree_text(tree_child(item, row->name)))
			config_fault_add(config->faults, &item->position,
				"%s lacks the key %s: add \"%s: ...\"", label, row->name,
				row->name);
}

static void check_list(
	struct config *config, const struct config_option *option, const struct tree *list)
{
	size_t n = 0, most = option->max > 0 ? (size_t)option->max : OPTION_ITEMS_MAX;

	for (const struct tree *item = list->first; item; item = item->next) {
		char label[LABEL_MAX]; /* "dns.budgets, item 2" */

		snprintf(label, sizeof(label), "%s, item %zu", option->name, ++n);
		if (n > most) {
			config_fault_add(config->faults, &item->position,
				"%s has more than %zu items: remove this and the following items",
				option->name, most);
			return;
		}
		if (item->kind == TREE_NULL)
			config_fault_add(config->faults, &item->position,
				"%s is empty: remove it, or write its value", label);
		else if (option->items[0].name[0] == '\0')
			check_value(config, option->items, label, item);
		else if (item->kind == TREE_MAP)
			check_item_map(config, label, option, item);
		else
			config_fault_add(config->faults, &item->position,
				"%s cannot be %s: write a map, such as {%s: ...}", label,
				kind_of(item), option->items[0].name);
	}
}

/* Returns the value of {value: V, exact: true}, or NULL after a fault. */
static const struct tree *exact_value(
	struct config *config, const char *name, const struct tree *map, bool *exact)
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
			config_fault_add(config->faults, &child->key->position,
				"sysctl.%s: %s is not allowed here: write {value: ..., exact: true}",
				name, text_quote(quoted, key));
			return NULL;
		}
	}
	if (!value)
		config_fault_add(config->faults, &map->position,
			"sysctl.%s lacks a value: write {value: ..., exact: true}", name);
	return value;
}

/*
 * Converts a name to the form of sysctl(8): net/ipv4/conf/eth0.100/rp_filter becomes
 * net.ipv4.conf.eth0/100.rp_filter. The first separator shows the form of the given name. Returns
 * the fault of an invalid name, else NULL.
 */
static const char *parse_sysctl_name(const char *text, char name[static SETTING_NAME_MAX])
{
	bool slashes = text[strcspn(text, "./")] == '/';
	const char *part = name;
	size_t parts = 0;

	if (!copy_text(name, SETTING_NAME_MAX, text))
		return "is too long";
	for (char *p = name; *p; p++) {
		if (!isalnum((unsigned char)*p) && !strchr("_.:/@-", *p))
			return "has an invalid character";
		if (slashes)
			*p = *p == '/' ? '.' : *p == '.' ? '/' : *p;
	}
	/* A part of slashes becomes "." or ".." in the path, and an empty part "//". */
	do {
		size_t len = strcspn(part, ".");

		if (strspn(part, "/") >= len)
			return "has an empty part";
		part += len;
		parts++;
	} while (*part++ == '.');
	return parts < 2 ? "has only one part" : NULL;
}

/* Copies the value and folds blanks to one space. Returns the fault of an invalid value. */
static const char *parse_sysctl_value(const char *text, char value[static SETTING_VALUE_MAX])
{
	char folded[1024];

	if (set_text(folded, text))
		text_fold_blanks(folded);
	if (strpbrk(text, "\n\v\f\r") || !text_is_printable(folded))
		return "the value has line breaks or control characters: write one line of text";
	if (folded[0] == '\0')
		return "the value is empty: write null to remove the key";
	if (!copy_text(value, SETTING_VALUE_MAX, folded))
		return "the value is too long: write at most 127 bytes";
	return NULL;
}

static void merge_sysctl(struct config *config, const struct tree *tree)
{
	const struct config_position *position = &tree->key->position;
	char name[SETTING_NAME_MAX], quoted[TEXT_QUOTE_MAX];
	const char *fault = parse_sysctl_name(tree->key->text, name);
	struct config_sysctl *sysctl;
	int order;

	if (fault) {
		config_fault_add(config->faults, position,
			"sysctl: the name %s %s: write it as sysctl -a prints it",
			text_quote(quoted, tree->key->text), fault);
		return;
	}
	sysctl = config_sysctl(config, name);
	if (sysctl->position.file == position->file) { /* in its other form */
		config_fault_add(config->faults, position,
			"sysctl.%s is set twice, first in line %u: remove one", name,
			sysctl->position.line);
		return;
	}
	sysctl->exact = false;
	sysctl->value[0] = '\0';
	if (tree->kind == TREE_MAP)
		tree = exact_value(config, name, tree, &sysctl->exact);
	if (!tree)
		return;
	sysctl->position = tree->position;
	if (tree->kind == TREE_NULL)
		return;
	fault = parse_sysctl_value(tree->text, sysctl->value);
	if (tree->kind == TREE_LIST)
		config_fault_add(config->faults, &tree->position,
			"sysctl.%s cannot be a list: write several numbers as one text, \"4096 "
			"87380 6291456\"",
			name);
	else if (fault)
		config_fault_add(config->faults, &tree->position, "sysctl.%s: %s", name, fault);
	else if (!sysctl->exact && value_compare(sysctl->value, sysctl->value, &order) < 0)
		config_fault_add(config->faults, &tree->position,
			"sysctl.%s: %s is not a whole number, and headroom raises only numbers; write "
			"{value: ..., exact: true} to set this text",
			name, text_quote(quoted, sysctl->value));
}

/* Removes the values of earlier files and of the profile for name and all names below it. */
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

static void merge_map(struct config *config, const char *section, const struct tree *map)
{
	const struct row *parent = config_row(config, section);

	for (const struct tree *tree = map->first; tree; tree = tree->next) {
		const char *key = tree->key->text;
		char name[OPTION_NAME_MAX];
		int n = snprintf(name, sizeof(name), "%s%s%s", section, section[0] ? "." : "", key);
		bool fits = (size_t)n < sizeof(name) && !strchr(key, '.');
		bool is_section = fits && option_is_section(config->tables, name);
		struct row *row = fits ? config_row(config, name) : NULL;
		enum option_type type = row ? row->option->type : OPTION_TEXT;

		if (parent && parent->option->type == OPTION_SYSCTLS && !row) {
			merge_sysctl(config, tree);
		} else if (!row && !is_section) {
			unknown_key(config, config->tables, section, tree->key);
		} else if (tree->kind == TREE_NULL) {
			clear_below(config, name);
		} else if (tree->kind == TREE_MAP && (is_section || type == OPTION_SYSCTLS)) {
			if (row && type != OPTION_SYSCTLS) /* it replaces a choice such as keep */
				row->tree = tree;
			merge_map(config, name, tree);
		} else if (!row || type == OPTION_SYSCTLS) {
			wrong_kind(config, row ? row->option : NULL, name, tree);
		} else {
			if (tree->kind == TREE_LIST && type == OPTION_LIST)
				check_list(config, row->option, tree);
			else
				check_value(config, row->option, name, tree);
			clear_below(config, name);
			row->tree = tree;
		}
	}
}

/* Removes values whose key is not a word or occurs twice, with a fault for each. */
static void check_keys(struct config *config, struct tree *tree)
{
	struct tree **end = &tree->first;
	char quoted[TEXT_QUOTE_MAX];

	for (struct tree *child = tree->first; child; child = child->next) {
		const struct tree *key = child->key, *same;

		check_keys(config, child);
		*end = NULL;
		same = key ? tree_child(tree, key->text) : NULL;
		if (key && (key->kind == TREE_MAP || key->kind == TREE_LIST)) {
			config_fault_add(config->faults, &key->position,
				"a key must be a word: write \"key: value\"");
		} else if (same) {
			config_fault_add(config->faults, &key->position,
				"the key %s occurs twice, first in line %u: remove one",
				text_quote(quoted, key->text), same->key->position.line);
		} else {
			*end = child;
			end = &child->next;
		}
	}
}

static int by_position(const void *a, const void *b)
{
	const struct config_fault *x = a, *y = b;

	return x->line != y->line ? (int)(x->line - y->line) : (int)(x->column - y->column);
}

void document_merge(struct config *config, struct tree *root)
{
	struct config_fault_list *faults = config->faults;
	size_t first = faults->n;

	check_keys(config, root);
	merge_map(config, "", root);
	if (faults->n == first)
		return;
	qsort(faults->faults + first, faults->n - first, sizeof(*faults->faults), by_position);
	faults->n = MIN(faults->n, first + CONFIG_FAULTS_MAX);
}
