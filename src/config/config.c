/* SPDX-License-Identifier: Apache-2.0 */
#include "config/internal.h"

#include "base/text.h"

#include <stdarg.h>
#include <zlib.h>

void config_fault_add(
	struct config_fault_list *list, const struct config_place *place, const char *format, ...)
{
	struct config_fault *fault;
	va_list args;

	fault = add_element(&list->faults, &list->n, &list->allocated, sizeof(*fault));
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

void config_faults_print(FILE *out, const struct config_fault_list *list, const char *kind)
{
	for (size_t i = 0; i < list->n; i++)
		fprintf(out, "%s:%u:%u: %s%s\n", list->faults[i].file, list->faults[i].line,
			list->faults[i].column, kind, list->faults[i].message);
}

struct row *config_row(const struct config *config, const char *name)
{
	for (size_t i = 0; i < config->n_rows; i++)
		if (streq(config->rows[i].option->name, name))
			return &config->rows[i];
	return NULL;
}

/* A row that the caller knows to exist. */
static const struct row *need(const struct config *config, const char *name)
{
	const struct row *row = config_row(config, name);

	if (!row)
		abort();
	return row;
}

bool config_bool(const struct config *config, const char *name)
{
	return need(config, name)->parsed.flag;
}

const char *config_text(const struct config *config, const char *name)
{
	return need(config, name)->text;
}

int config_choice(const struct config *config, const char *name)
{
	return need(config, name)->parsed.choice;
}

uint64_t config_count(const struct config *config, const char *name, uint64_t fallback)
{
	const struct row *row = need(config, name);

	return row->parsed.choice >= 0 || *row->text == '\0' ? fallback : row->parsed.count;
}

uint64_t config_duration(const struct config *config, const char *name)
{
	return need(config, name)->parsed.count;
}

/* A list's items, and how many; none where a word is given. */
static const yaml_node_item_t *items(const struct row *row, size_t *n)
{
	*n = row->list ? (size_t)(row->list->data.sequence.items.top -
				  row->list->data.sequence.items.start)
		       : 0;
	return row->list ? row->list->data.sequence.items.start : NULL;
}

size_t config_list(const struct config *config, const char *name)
{
	size_t n;

	items(need(config, name), &n);
	return n;
}

/* An item, or (NULL: the item itself) its field; NULL for one that was not given. */
static const yaml_node_t *find_item(const struct row *row, size_t i, const char *field)
{
	size_t n;
	const yaml_node_item_t *all = items(row, &n);
	const yaml_node_t *item;

	if (i >= n)
		abort();
	item = node_at(row->document, all[i]);
	return field && field[0] ? node_child(row->document, item, field) : item;
}

/* The text of an item's field, or its default; NULL for neither. *option: the field's row. */
static const char *field_text(const struct config *config, const char *name, size_t i,
	const char *field, const struct config_option **option)
{
	const struct row *row = need(config, name);
	const char *text = node_text(find_item(row, i, field));

	*option = item_row(row->option, field);
	if (!*option)
		abort();
	return text ? text : (*option)->def;
}

const char *config_item(const struct config *config, const char *name, size_t i, const char *field)
{
	const struct config_option *option;
	const char *text = field_text(config, name, i, field, &option);

	return text ? text : "";
}

uint64_t config_item_count(const struct config *config, const char *name, size_t i,
	const char *field, uint64_t fallback)
{
	struct option_value value = {.choice = -1};
	const struct config_option *option;
	const char *text = field_text(config, name, i, field, &option);
	char why[VALUE_WHY_MAX];

	if (option->type != OPTION_COUNT ||
		(text && value_parse(option, text, &value, why) < 0)) /* it was checked */
		abort();
	return !text || value.choice >= 0 ? fallback : value.count;
}

struct config_place config_item_where(
	const struct config *config, const char *name, size_t i, const char *field)
{
	const struct row *row = need(config, name);
	const yaml_node_t *node = find_item(row, i, field);

	if (row->place.line == 0)
		return row->place;
	return node_place(
		row->document, node && !node_is_null(node) ? node : find_item(row, i, NULL));
}

struct config_place config_where(const struct config *config, const char *name)
{
	return need(config, name)->place;
}

bool config_is_given(const struct config *config, const char *name)
{
	return config_where(config, name).line > 0;
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

const char *config_file(const struct config *config, size_t i)
{
	for (const struct document *document = config->documents; document;
		document = document->next)
		if (document->is_file && i-- == 0)
			return document->file;
	return NULL;
}

static uLong mix_row(uLong sum, const struct config *config, const struct row *row)
{
	return row->list ? mix_list(sum, config, row) : mix_text(sum, row->text ? row->text : "");
}

static bool has_sysctl(const struct config *config, const struct config_sysctl *sysctl)
{
	for (size_t i = 0; i < config->n_sysctls; i++)
		if (streq(config->sysctls[i].name, sysctl->name))
			return streq(config->sysctls[i].value, sysctl->value) &&
			       config->sysctls[i].exact == sysctl->exact;
	return false;
}

/* Those of one that the other has not, or has otherwise; seen: a name is there already. */
static void add_sysctls(const struct config *one, const struct config *other, const char *seen,
	char *text, size_t size)
{
	for (size_t i = 0; i < one->n_sysctls; i++)
		if (!has_sysctl(other, &one->sysctls[i]) && !strstr(seen, one->sysctls[i].name))
			text_append(text, size, "%s%s", text[0] ? ", " : "", one->sysctls[i].name);
}

void config_changes(
	const struct config *before, const struct config *after, char *text, size_t size)
{
	text[0] = '\0';
	for (size_t i = 0; i < after->n_rows; i++)
		if (mix_row(0, before, &before->rows[i]) != mix_row(0, after, &after->rows[i]))
			text_append(text, size, "%s%s", text[0] ? ", " : "",
				after->rows[i].option->name);
	add_sysctls(after, before, "", text, size);
	add_sysctls(before, after, text, text, size);
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
		sum = mix_row(sum, config, row);
	}
	for (size_t i = 0; i < config->n_sysctls; i++) {
		sum = mix_text(sum, config->sysctls[i].name);
		sum = mix_text(sum, config->sysctls[i].value);
		sum = mix_text(sum, config->sysctls[i].exact ? "exact" : "");
	}
	return (uint32_t)sum;
}
