/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/kubelet/kubelet.h"

#include "base/util.h"
#include "config/syntax.h"
#include "config/text.h"

#include <errno.h>
#include <stdio.h>

#define KIND "KubeletConfiguration"

/* Only the topmost map is of interest: deeper nodes are counted and passed over. */
struct reader {
	yaml_parser_t yaml;
	const char *path;
	struct kubelet_values *values;
	char *why;
	unsigned depth;
	bool has_key;  /* a key of the topmost map was read, its value not yet */
	int field;     /* that key's: KUBELET_FIELDS for one of no interest */
	bool is_kind;  /* that key is "kind" */
	bool finished; /* the first document ended */
};

static int refuse(struct reader *reader, yaml_mark_t mark, const char *what, const char *text)
{
	char quoted[TEXT_QUOTE_MAX];

	snprintf(reader->why, TUNER_WHY_MAX, "%s:%zu:%zu: %s%s%s", reader->path, mark.line + 1,
		mark.column + 1, what, text ? " " : "", text ? text_quote(quoted, text) : "");
	return -EBADMSG;
}

static int refuse_value(
	struct reader *reader, yaml_mark_t mark, enum kubelet_field field, const char *text)
{
	char what[64];

	snprintf(what, sizeof(what), "%s cannot be", kubelet_field_name(field));
	return refuse(reader, mark, what, text);
}

static int next_event(struct reader *reader, yaml_event_t *event)
{
	if (yaml_parser_parse(&reader->yaml, event))
		return 0;
	if (reader->yaml.error == YAML_MEMORY_ERROR)
		return -ENOMEM;
	return refuse(reader, reader->yaml.problem_mark, "neither YAML nor JSON: repair the file:",
		reader->yaml.problem ? reader->yaml.problem : "unreadable");
}

static void take_key(struct reader *reader, const char *key)
{
	reader->field = 0;
	while (reader->field < KUBELET_FIELDS &&
		!streq(key, kubelet_field_name((enum kubelet_field)reader->field)))
		reader->field++;
	reader->is_kind = streq(key, "kind");
}

static int take_value(struct reader *reader, const yaml_event_t *event)
{
	const char *text = (const char *)event->data.scalar.value;
	struct kubelet_value *value;
	bool quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
	enum kubelet_field field = (enum kubelet_field)reader->field;

	if (reader->is_kind && !streq(text, KIND))
		return refuse(reader, event->start_mark, "not of kind " KIND " but", text);
	if (reader->field == KUBELET_FIELDS)
		return 0;
	value = &reader->values->field[field];
	*value = (struct kubelet_value){.origin = KUBELET_CLEARED};
	if (syntax_is_null(event))
		return 0;
	/* A quoted number or bool is a string, which the kubelet refuses. */
	if ((quoted && field != KUBELET_IMAGE_MAXIMUM_GC_AGE) || !kubelet_take(value, field, text))
		return refuse_value(reader, event->start_mark, field, text);
	value->origin = KUBELET_FILE;
	value->line = (unsigned)event->start_mark.line + 1;
	copy_text(value->file, sizeof(value->file), reader->path);
	return 0;
}

/* A scalar or an alias, or the end of a deeper node: all of them are a key or a value on top. */
static int take_top(struct reader *reader, const yaml_event_t *event)
{
	bool scalar = event->type == YAML_SCALAR_EVENT;

	reader->has_key = !reader->has_key;
	if (scalar && !reader->has_key)
		return take_value(reader, event);
	if (reader->has_key)
		take_key(reader, scalar ? (const char *)event->data.scalar.value : "");
	return 0;
}

/* False for a list, map or alias where a value that matters should stand. */
static bool leaf_fits(const struct reader *reader, const yaml_event_t *event)
{
	bool matters = reader->depth == 1 && reader->has_key &&
		       (reader->field < KUBELET_FIELDS || reader->is_kind);

	return !matters || event->type == YAML_SCALAR_EVENT;
}

static int take_event(struct reader *reader, const yaml_event_t *event)
{
	bool begins =
		event->type == YAML_MAPPING_START_EVENT || event->type == YAML_SEQUENCE_START_EVENT;
	bool ends = event->type == YAML_MAPPING_END_EVENT || event->type == YAML_SEQUENCE_END_EVENT;
	bool leaf = event->type == YAML_SCALAR_EVENT || event->type == YAML_ALIAS_EVENT;

	reader->finished =
		event->type == YAML_STREAM_END_EVENT || event->type == YAML_DOCUMENT_END_EVENT;
	if (reader->depth == 0 && (leaf || event->type == YAML_SEQUENCE_START_EVENT) &&
		!(event->type == YAML_SCALAR_EVENT && syntax_is_null(event)))
		return refuse(reader, event->start_mark, "not a map of options", NULL);
	if (!leaf_fits(reader, event))
		return refuse(reader, event->start_mark, "one plain value is expected here", NULL);
	if (ends)
		reader->depth--;
	if (reader->depth == 1 && (leaf || ends))
		return take_top(reader, event);
	if (begins)
		reader->depth++;
	return 0;
}

int kubelet_parse(const char *path, const char *text, size_t len, struct kubelet_values *values,
	char why[static TUNER_WHY_MAX])
{
	struct kubelet_values found = {0};
	struct reader reader = {.path = path, .values = &found, .why = why};
	int r = 0;

	if (!yaml_parser_initialize(&reader.yaml))
		return -ENOMEM;
	yaml_parser_set_input_string(&reader.yaml, (const unsigned char *)text, len);
	while (r == 0 && !reader.finished) {
		yaml_event_t event = {0};

		r = next_event(&reader, &event);
		if (r == 0)
			r = take_event(&reader, &event);
		yaml_event_delete(&event);
	}
	yaml_parser_delete(&reader.yaml);
	if (r == 0)
		*values = found;
	return r;
}
