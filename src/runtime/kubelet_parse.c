/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kubelet.h"

#include "base/util.h"
#include "config/text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <yaml.h>

#define KIND "KubeletConfiguration"

/* Names of KubeletConfiguration v1beta1, flags of cmd/kubelet/app/options. */
const struct kubelet_row kubelet_fields[KUBELET_FIELDS] = {
	[KUBELET_SERIALIZE_IMAGE_PULLS] = {"serializeImagePulls", "serialize-image-pulls", "true",
		KUBELET_BOOL},
	[KUBELET_MAX_PARALLEL_IMAGE_PULLS] = {"maxParallelImagePulls", NULL, "", KUBELET_NUMBER},
	[KUBELET_REGISTRY_PULL_QPS] = {"registryPullQPS", "registry-qps", "5", KUBELET_NUMBER},
	[KUBELET_REGISTRY_BURST] = {"registryBurst", "registry-burst", "10", KUBELET_NUMBER},
	[KUBELET_IMAGE_GC_HIGH] = {"imageGCHighThresholdPercent", "image-gc-high-threshold", "85",
		KUBELET_NUMBER},
	[KUBELET_IMAGE_GC_LOW] = {"imageGCLowThresholdPercent", "image-gc-low-threshold", "80",
		KUBELET_NUMBER},
	[KUBELET_IMAGE_MAXIMUM_GC_AGE] = {"imageMaximumGCAge", NULL, "0s", KUBELET_AGE},
};

static const char *bool_word(const char *text)
{
	/* YAML 1.1's words as the kubelet's parser takes them, and Go's for a flag. */
	static const char *const yes[] = {
		"true", "True", "TRUE", "t", "T", "1", "yes", "Yes", "YES", "on", "On", "ON"};
	static const char *const no[] = {
		"false", "False", "FALSE", "f", "F", "0", "no", "No", "NO", "off", "Off", "OFF"};

	for (size_t i = 0; i < ARRAY_SIZE(yes); i++) {
		if (streq(text, yes[i]))
			return "true";
		if (streq(text, no[i]))
			return "false";
	}
	return NULL;
}

bool kubelet_take(struct kubelet_value *value, enum kubelet_field field, const char *text)
{
	uint64_t number;

	if (kubelet_fields[field].kind == KUBELET_BOOL)
		text = bool_word(text);
	else if (kubelet_fields[field].kind == KUBELET_NUMBER &&
		 (parse_count(text, &number) < 0 || number > INT32_MAX))
		text = NULL;
	return text && text_is_plain(text) && copy_text(value->text, sizeof(value->text), text);
}

void kubelet_add_cluster_dns(struct kubelet_values *values, const char *address)
{
	uint8_t binary[16];

	if (values->n_cluster_dns < KUBELET_SERVERS_MAX &&
		(inet_pton(AF_INET, address, binary) == 1 ||
			inet_pton(AF_INET6, address, binary) == 1))
		copy_text(
			values->cluster_dns[values->n_cluster_dns++], KUBELET_ADDRESS_MAX, address);
}

void kubelet_merge(struct kubelet_values *values, const struct kubelet_values *over)
{
	for (int i = 0; i < KUBELET_FIELDS; i++)
		if (over->field[i].origin != KUBELET_UNSET)
			values->field[i] = over->field[i];
	if (over->n_cluster_dns > 0) {
		memcpy(values->cluster_dns, over->cluster_dns, sizeof(values->cluster_dns));
		values->n_cluster_dns = over->n_cluster_dns;
	}
}

static bool is_given(const struct kubelet_value *value)
{
	return value->origin == KUBELET_FILE || value->origin == KUBELET_FLAG;
}

void kubelet_fill_defaults(struct kubelet_values *values, bool embedded)
{
	const struct kubelet_value *most = &values->field[KUBELET_MAX_PARALLEL_IMAGE_PULLS];
	uint64_t number = 0;
	/*
	 * From 1.32 pulls are parallel by default where a limit above 1 is given; before, that was
	 * refused. k3s starts its kubelet with --serialize-image-pulls=false.
	 */
	bool parallel = embedded ||
			(is_given(most) && parse_count(most->text, &number) == 0 && number >= 2);

	for (int i = 0; i < KUBELET_FIELDS; i++) {
		struct kubelet_value *value = &values->field[i];

		if (is_given(value))
			continue;
		*value = (struct kubelet_value){.origin = KUBELET_UNSET};
		copy_text(value->text, sizeof(value->text),
			i == KUBELET_SERIALIZE_IMAGE_PULLS && parallel ? "false"
								       : kubelet_fields[i].def);
	}
}

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

static int take_pair(struct reader *reader, const char *key, const yaml_node_t *node)
{
	if (streq(key, "kind")) {
		const char *text = scalar_of(node);

		if (!text)
			return refuse(
				reader, node->start_mark, "one plain value is expected here", NULL);
		return streq(text, KIND)
			       ? 0
			       : refuse(reader, node->start_mark, "not of kind " KIND " but", text);
	}
	if (streq(key, "clusterDNS"))
		take_cluster_dns(reader, node);
	for (int i = 0; i < KUBELET_FIELDS; i++)
		if (streq(key, kubelet_fields[i].name))
			return take_field(reader, (enum kubelet_field)i, node);
	return 0;
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
		const char *key = scalar_of(yaml_document_get_node(&reader->document, pair->key));
		const yaml_node_t *node = yaml_document_get_node(&reader->document, pair->value);

		if (key && node)
			r = take_pair(reader, key, node);
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
		return -ENOMEM;
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
	if (yaml_parser_load(&parser, &reader.document)) {
		r = take_document(&reader);
		yaml_document_delete(&reader.document);
	} else if (parser.error == YAML_MEMORY_ERROR) {
		r = -ENOMEM;
	} else {
		r = refuse(&reader, parser.problem_mark, "neither YAML nor JSON: repair the file:",
			parser.problem ? parser.problem : "unreadable");
	}
	yaml_parser_delete(&parser);
	if (r == 0)
		*values = reader.values;
	return r;
}
