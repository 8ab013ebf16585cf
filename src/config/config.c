/* SPDX-License-Identifier: Apache-2.0 */
#include "config/internal.h"

#include <limits.h>
#include <zlib.h>

struct row *config_row(const struct config *config, const char *name)
{
	for (size_t i = 0; i < config->n_rows; i++)
		if (streq(config->rows[i].option->name, name))
			return &config->rows[i];
	return NULL;
}

/* A row that the caller knows to exist, with one of some types. */
static const struct row *need(const struct config *config, const char *name, unsigned types)
{
	const struct row *row = config_row(config, name);

	if (!row || !(types & 1U << row->option->type))
		abort();
	return row;
}

bool config_bool(const struct config *config, const char *name)
{
	return need(config, name, 1U << OPTION_BOOL)->parsed.flag;
}

const char *config_text(const struct config *config, const char *name)
{
	return need(config, name,
		1U << OPTION_TEXT | 1U << OPTION_CHOICE | 1U << OPTION_COUNT |
			1U << OPTION_DURATION)
		->text;
}

int config_choice(const struct config *config, const char *name)
{
	return need(config, name,
		1U << OPTION_CHOICE | 1U << OPTION_COUNT | 1U << OPTION_DURATION |
			1U << OPTION_LIST)
		->parsed.choice;
}

uint64_t config_count(const struct config *config, const char *name, uint64_t fallback)
{
	const struct row *row = need(config, name, 1U << OPTION_COUNT);

	return row->parsed.choice >= 0 || *row->text == '\0' ? fallback : row->parsed.count;
}

uint64_t config_duration(const struct config *config, const char *name)
{
	return need(config, name, 1U << OPTION_DURATION)->parsed.count;
}

size_t config_list(const struct config *config, const char *name)
{
	const struct node *list = need(config, name, 1U << OPTION_LIST)->list;
	size_t n = 0;

	for (const struct node *item = list ? list->children : NULL; item; item = item->next)
		n++;
	return n;
}

/* An item of a list; one that is not there is a bug. */
static const struct node *need_item(const struct config *config, const char *name, size_t i)
{
	const struct node *list = need(config, name, 1U << OPTION_LIST)->list;
	const struct node *item = list ? list->children : NULL;

	while (item && i-- > 0)
		item = item->next;
	if (!item)
		abort();
	return item;
}

/* One field of an item, of one of some types: its row, and its node where it was given. */
static const struct node *need_field(const struct config *config, const char *name, size_t i,
	const char *field, unsigned types, const struct config_option **option)
{
	const struct node *item = need_item(config, name, i);

	*option = item_row(config_row(config, name)->option, field);
	if (!*option || !(types & 1U << (*option)->type))
		abort();
	if (field[0])
		item = node_child(item, field);
	return item && item->kind == NODE_TEXT ? item : NULL;
}

const char *config_item(const struct config *config, const char *name, size_t i, const char *field)
{
	const struct config_option *option;
	const struct node *node = need_field(config, name, i, field, UINT_MAX, &option);

	return node ? node->text : option->def ? option->def : "";
}

uint64_t config_item_count(const struct config *config, const char *name, size_t i,
	const char *field, uint64_t fallback)
{
	struct option_value value = {.choice = -1};
	const struct config_option *option;
	const struct node *node = need_field(config, name, i, field, 1U << OPTION_COUNT, &option);
	const char *text = node ? node->text : option->def;
	char why[VALUE_WHY_MAX];

	if (text && value_parse(option, text, &value, why) < 0)
		abort(); /* it was checked */
	return !text || value.choice >= 0 ? fallback : value.count;
}

struct config_place config_item_where(
	const struct config *config, const char *name, size_t i, const char *field)
{
	const struct config_option *option;
	const struct node *item = need_item(config, name, i);
	const struct node *node =
		field ? need_field(config, name, i, field, UINT_MAX, &option) : NULL;

	if (config_row(config, name)->list == config_row(config, name)->fallback)
		return (struct config_place){.file = "default"};
	return node_place(node ? node : item);
}

struct config_place config_where(const struct config *config, const char *name)
{
	const struct row *row = config_row(config, name);

	if (!row)
		abort();
	return row->place;
}

const struct config_sysctl *config_sysctls(const struct config *config, size_t *n)
{
	*n = config->n_sysctls;
	return config->sysctls;
}

static uLong mix_text(uLong sum, const char *text)
{
	return crc32(sum, (const Bytef *)text, (uInt)strlen(text) + 1);
}

static uLong mix_list(uLong sum, const struct config *config, const struct row *row)
{
	const char *name = row->option->name;
	size_t n = config_list(config, name);

	for (size_t i = 0; i < n; i++) {
		sum = mix_text(sum, "item");
		for (const struct config_option *field = row->option->items; field->name; field++)
			sum = mix_text(sum, config_item(config, name, i, field->name));
	}
	return sum;
}

uint32_t config_checksum(const struct config *config)
{
	uLong sum = crc32(0, NULL, 0);

	for (size_t i = 0; i < config->n_rows; i++) {
		const struct row *row = &config->rows[i];

		/* An unused section changes nothing. */
		if (row->option->type == OPTION_RESERVED)
			continue;
		sum = mix_text(sum, row->option->name);
		sum = row->list ? mix_list(sum, config, row) : mix_text(sum, row->text);
	}
	for (size_t i = 0; i < config->n_sysctls; i++) {
		sum = mix_text(sum, config->sysctls[i].name);
		sum = mix_text(sum, config->sysctls[i].value);
		sum = mix_text(sum, config->sysctls[i].exact ? "exact" : "");
	}
	return (uint32_t)sum;
}
