/* SPDX-License-Identifier: Apache-2.0 */
#include "config/fault.h"

#include "config/suggest.h"
#include "config/text.h"
#include "config/value.h"

#include <stdarg.h>

void config_fault_add(
	struct config_fault_list *list, const struct config_place *place, const char *format, ...)
{
	struct config_fault *fault;
	va_list args;

	if (grow_array(&list->faults, list->n, &list->allocated, sizeof(*list->faults)) < 0)
		return;
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

struct config_place fault_place(const struct fault_sink *sink, const struct node *node)
{
	return (struct config_place){
		.file = sink->file, .line = node->line, .column = node->column};
}

struct config_place fault_place_of_key(const struct fault_sink *sink, const struct node *node)
{
	return (struct config_place){
		.file = sink->file, .line = node->key_line, .column = node->key_column};
}

void fault_at(struct fault_sink *sink, struct config_place place, const char *format, ...)
{
	char message[FAULT_DETAIL_MAX + OPTION_NAME_MAX];
	va_list args;

	if (++sink->n > CONFIG_FAULTS_MAX)
		return;
	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	config_fault_add(sink->faults, &place, "%s", message);
}

void fault_wrong_kind(struct fault_sink *sink, const struct config_option *option, const char *name,
	const struct node *node)
{
	char detail[FAULT_DETAIL_MAX] = "";

	if (option)
		value_describe(option, detail, sizeof(detail));
	else
		text_append(detail, sizeof(detail), "its keys below it");
	fault_at_value(sink, node, "%s cannot be %s: write %s", name,
		node->kind == NODE_MAP    ? "a map"
		: node->kind == NODE_LIST ? "a list"
					  : "one value",
		detail);
}

void fault_unknown_key(struct fault_sink *sink, const struct config_option *const *tables,
	const char *section, const struct node *node)
{
	char quoted[TEXT_QUOTE_MAX], detail[FAULT_DETAIL_MAX] = "";

	if (strchr(node->key, '.') && option_find(tables, node->key))
		text_append(
			detail, sizeof(detail), "write each part of the name as a map of its own");
	else
		suggest_key(tables, section, node->key, detail, sizeof(detail));
	fault_at_key(sink, node, "unknown key %s%s%s: %s", text_quote(quoted, node->key),
		section[0] ? " in " : "", section, detail);
}
