/* SPDX-License-Identifier: Apache-2.0 */
#include "config/internal.h"

#include "base/text.h"

#include <zlib.h>

void config_fault_add(struct config_fault_list *list, const struct config_position *position,
	const char *format, ...)
{
	struct config_fault *fault;
	va_list args;

	fault = add_element(&list->faults, &list->n, &list->allocated);
	set_text(fault->file, position->file);
	fault->line = position->line;
	fault->column = position->column;
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

static const struct row *must_find_row(const struct config *config, const char *name)
{
	return must(config_row(config, name));
}

bool config_bool(const struct config *config, const char *name)
{
	return streq(config_text(config, name), "true");
}

const char *config_text(const struct config *config, const char *name)
{
	return must_find_row(config, name)->tree->text;
}

int config_choice(const struct config *config, const char *name)
{
	const struct row *row = must_find_row(config, name);

	return word_index(row->option->choices, row->tree->text);
}

uint64_t config_count(const struct config *config, const char *name, uint64_t fallback)
{
	(void)parse_count(config_text(config, name), &fallback);
	return fallback;
}

uint64_t config_duration(const struct config *config, const char *name)
{
	uint64_t us = 0;

	(void)duration_parse(config_text(config, name), &us);
	return us;
}

size_t config_list(const struct config *config, const char *name)
{
	size_t n = 0;

	for (const struct tree *item = must_find_row(config, name)->tree->first; item;
		item = item->next)
		n++;
	return n;
}

/* Returns the item itself if field is "" or NULL, and NULL if the item lacks the field. */
static const struct tree *find_field(
	const struct config *config, const char *name, size_t i, const char *field)
{
	const struct tree *item = must_find_row(config, name)->tree->first;

	for (; item && i > 0; i--)
		item = item->next;
	if (!item)
		abort();
	return field && field[0] ? tree_child(item, field) : item;
}

const char *config_item(const struct config *config, const char *name, size_t i, const char *field)
{
	const char *text = tree_text(find_field(config, name, i, field));
	const struct config_option *const rows[] = {
		must_find_row(config, name)->option->items, NULL};
	const struct config_option *option = option_find(rows, field);

	if (!option)
		abort();
	return text ? text : option->def ? option->def : "";
}

struct config_position config_item_where(
	const struct config *config, const char *name, size_t i, const char *field)
{
	const struct tree *tree = find_field(config, name, i, field);

	if (!tree || tree->kind == TREE_NULL)
		tree = find_field(config, name, i, NULL);
	return tree->position;
}

struct config_position config_where(const struct config *config, const char *name)
{
	return must_find_row(config, name)->tree->position;
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

static uLong mix_row(uLong sum, const struct config *config, const struct row *row)
{
	const char *name = row->option->name;

	for (size_t i = 0; row->tree->kind == TREE_LIST && i < config_list(config, name); i++) {
		sum = mix_text(sum, "item");
		for (const struct config_option *field = row->option->items; field->name; field++)
			sum = mix_text(sum, config_item(config, name, i, field->name));
	}
	return mix_text(sum, row->tree->text);
}

/* A plain value, or the fields of a map. */
static void add_item(cJSON *array, const struct config *config, const struct row *row, size_t i)
{
	const struct config_option *field = row->option->items;
	cJSON *object = NULL;

	if (!field->name[0]) {
		json_append_text(array, config_item(config, row->option->name, i, ""));
		return;
	}
	object = json_append(array);
	for (; field->name; field++)
		json_text(object, field->name,
			config_item(config, row->option->name, i, field->name));
}

cJSON *config_json(const struct config *config)
{
	cJSON *root = cJSON_CreateObject();
	char from[256 + 16];

	for (size_t i = 0; i < config->n_rows; i++) {
		const struct row *row = &config->rows[i];
		const struct config_position *position = &row->tree->position;
		cJSON *object = json_object(root, row->option->name), *array;

		snprintf(from, sizeof(from), "%s:%u", position->file, position->line);
		json_text(object, "from", from);
		if (row->option->type == OPTION_SYSCTLS) {
			object = json_object(object, "value");
			for (size_t k = 0; k < config->n_sysctls; k++)
				must(cJSON_AddStringToObject(
					object, config->sysctls[k].name, config->sysctls[k].value));
			continue;
		}
		if (row->tree->kind != TREE_LIST) {
			json_text(object, "value", row->tree->text);
			continue;
		}
		array = json_array(object, "value");
		for (size_t k = 0; k < config_list(config, row->option->name); k++)
			add_item(array, config, row, k);
	}
	return root;
}

const char *config_file(const struct config *config, size_t i)
{
	const cJSON *file = cJSON_GetArrayItem(config->files, (int)i);

	return file ? json_text_at(file, "name") : NULL;
}

const cJSON *config_texts(const struct config *config)
{
	return config->files;
}

void config_changes(
	const struct config *before, const struct config *after, char *text, size_t size)
{
	const struct config *const both[] = {after, before};

	text[0] = '\0';
	for (size_t i = 0; i < after->n_rows; i++)
		if (mix_row(0, before, &before->rows[i]) != mix_row(0, after, &after->rows[i]))
			text_append(text, size, "%s%s", text[0] ? ", " : "",
				after->rows[i].option->name);
	/* New and changed sysctls, then the removed ones. */
	for (size_t i = 0; i < ARRAY_SIZE(both); i++)
		for (size_t s = 0; s < both[i]->n_sysctls; s++) {
			const struct config_sysctl *sysctl = &both[i]->sysctls[s];
			const struct config_sysctl *other =
				find_named(both[!i]->sysctls, both[!i]->n_sysctls, sysctl->name);

			if (!other || (i == 0 && (!streq(other->value, sysctl->value) ||
							 other->exact != sysctl->exact)))
				text_append(text, size, "%s%s", text[0] ? ", " : "", sysctl->name);
		}
}

uint32_t config_checksum(const struct config *config)
{
	uLong sum = crc32(0, NULL, 0);

	for (size_t i = 0; i < config->n_rows; i++) {
		sum = mix_text(sum, config->rows[i].option->name);
		sum = mix_row(sum, config, &config->rows[i]);
	}
	for (size_t i = 0; i < config->n_sysctls; i++) {
		sum = mix_text(sum, config->sysctls[i].name);
		sum = mix_text(sum, config->sysctls[i].value);
		sum = mix_text(sum, config->sysctls[i].exact ? "exact" : "");
	}
	return (uint32_t)sum;
}
