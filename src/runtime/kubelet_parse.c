/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kubelet.h"

#include "base/text.h"

#include <yaml.h>

#define KIND "KubeletConfiguration"

/* One file being read; why is the caller's. */
struct reader {
	const char *path;
	yaml_document_t document;
	struct kubelet_values values;
	char *why;
};

static int refuse(struct reader *reader, yaml_mark_t mark, const char *what, const char *text)
{
	char quoted[TEXT_QUOTE_MAX];

	snprintf(reader->why, KUBELET_WHY_MAX, "%s:%zu:%zu: %s%s%s", reader->path, mark.line + 1,
		mark.column + 1, what, text ? " " : "", text ? text_quote(quoted, text) : "");
	return -EBADMSG;
}

static const char *scalar_of(const yaml_node_t *node)
{
	return node && node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value
						      : NULL;
}

static bool is_null(const yaml_node_t *node)
{
	static const char *const words[] = {"", "~", "null", "Null", "NULL"};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
			streq((const char *)node->data.scalar.value, words[i]))
			return true;
	return false;
}

static int take_field(struct reader *reader, enum kubelet_field field, const yaml_node_t *node)
{
	struct kubelet_value *value = &reader->values.field[field];
	const char *text = scalar_of(node);
	char what[64];

	if (!text)
		return refuse(reader, node->start_mark, "one plain value is expected here", NULL);
	*value = (struct kubelet_value){.origin = KUBELET_CLEARED};
	if (is_null(node))
		return 0;
	/* A quoted number or bool is a string, which the kubelet refuses. */
	if ((kubelet_fields[field].kind != KUBELET_AGE &&
		    node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE) ||
		!kubelet_take(value, field, text)) {
		snprintf(what, sizeof(what), "%s cannot be", kubelet_fields[field].name);
		return refuse(reader, node->start_mark, what, text);
	}
	value->origin = KUBELET_FILE;
	value->line = (unsigned)node->start_mark.line + 1;
	copy_text(value->file, sizeof(value->file), reader->path);
	return 0;
}

static void take_cluster_dns(struct reader *reader, const yaml_node_t *node)
{
	if (node->type != YAML_SEQUENCE_NODE)
		return;
	reader->values.n_cluster_dns = 0;
	for (const yaml_node_item_t *item = node->data.sequence.items.start;
		item < node->data.sequence.items.top; item++) {
		const char *text = scalar_of(yaml_document_get_node(&reader->document, *item));

		if (text)
			kubelet_add_cluster_dns(&reader->values, text);
	}
}

static int take_document(struct reader *reader)
{
	const yaml_node_t *root = yaml_document_get_root_node(&reader->document);
	int r = 0;

	if (!root || (root->type == YAML_SCALAR_NODE && is_null(root)))
		return 0;
	if (root->type != YAML_MAPPING_NODE)
		return refuse(reader, root->start_mark, "not a map of options", NULL);
	for (const yaml_node_pair_t *pair = root->data.mapping.pairs.start;
		r == 0 && pair < root->data.mapping.pairs.top; pair++) {
		const yaml_node_t *node = yaml_document_get_node(&reader->document, pair->value);
		const char *key = scalar_of(yaml_document_get_node(&reader->document, pair->key));
		const char *text = scalar_of(node);

		if (!key)
			continue;
		if (streq(key, "clusterDNS"))
			take_cluster_dns(reader, node);
		if (streq(key, "kind") && !(text && streq(text, KIND)))
			r = refuse(reader, node->start_mark, "not of kind " KIND " but",
				text ? text : "something else");
		for (int i = 0; i < KUBELET_FIELDS; i++)
			if (streq(key, kubelet_fields[i].name))
				r = take_field(reader, (enum kubelet_field)i, node);
	}
	return r;
}

int kubelet_parse(const char *path, const char *text, size_t len, struct kubelet_values *values,
	char why[static KUBELET_WHY_MAX])
{
	struct reader reader = {.path = path, .why = why};
	yaml_parser_t parser;
	int r;

	if (!yaml_parser_initialize(&parser))
		abort();
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
	if (yaml_parser_load(&parser, &reader.document)) {
		r = take_document(&reader);
		yaml_document_delete(&reader.document);
	} else {
		r = refuse(&reader, parser.problem_mark, "neither YAML nor JSON: repair the file:",
			parser.problem ? parser.problem : "unreadable");
	}
	yaml_parser_delete(&parser);
	if (r == 0)
		*values = reader.values;
	return r;
}
