/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/kubelet/kubelet.h"

#include "base/parse.h"
#include "base/util.h"
#include "config/text.h"

enum kind {
	KIND_BOOL,
	KIND_NUMBER,
	KIND_AGE,
};

/* Names of KubeletConfiguration v1beta1, flags of cmd/kubelet/app/options. */
static const struct {
	const char *name, *flag, *def;
	enum kind kind;
} fields[KUBELET_FIELDS] = {
	[KUBELET_SERIALIZE_IMAGE_PULLS] = {"serializeImagePulls", "serialize-image-pulls", "true",
		KIND_BOOL},
	[KUBELET_MAX_PARALLEL_IMAGE_PULLS] = {"maxParallelImagePulls", NULL, "", KIND_NUMBER},
	[KUBELET_REGISTRY_PULL_QPS] = {"registryPullQPS", "registry-qps", "5", KIND_NUMBER},
	[KUBELET_REGISTRY_BURST] = {"registryBurst", "registry-burst", "10", KIND_NUMBER},
	[KUBELET_IMAGE_GC_HIGH] = {"imageGCHighThresholdPercent", "image-gc-high-threshold", "85",
		KIND_NUMBER},
	[KUBELET_IMAGE_GC_LOW] = {"imageGCLowThresholdPercent", "image-gc-low-threshold", "80",
		KIND_NUMBER},
	[KUBELET_IMAGE_MAXIMUM_GC_AGE] = {"imageMaximumGCAge", NULL, "0s", KIND_AGE},
};

const char *kubelet_field_name(enum kubelet_field field)
{
	return fields[field].name;
}

const char *kubelet_field_flag(enum kubelet_field field)
{
	return fields[field].flag;
}

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

	if (fields[field].kind == KIND_BOOL)
		text = bool_word(text);
	else if (fields[field].kind == KIND_NUMBER &&
		 (parse_count(text, &number) < 0 || number > INT32_MAX))
		text = NULL;
	return text && text_is_plain(text) && copy_text(value->text, sizeof(value->text), text);
}

void kubelet_merge(struct kubelet_values *values, const struct kubelet_values *over)
{
	for (int i = 0; i < KUBELET_FIELDS; i++)
		if (over->field[i].origin != KUBELET_UNSET)
			values->field[i] = over->field[i];
}

static bool is_given(const struct kubelet_value *value)
{
	return value->origin == KUBELET_FILE || value->origin == KUBELET_FLAG;
}

/* From 1.32 pulls are parallel by default where a limit above 1 is given; before, that was refused.
 */
static const char *default_of(const struct kubelet_values *values, int field, bool embedded)
{
	const struct kubelet_value *most = &values->field[KUBELET_MAX_PARALLEL_IMAGE_PULLS];
	uint64_t number;

	if (field != KUBELET_SERIALIZE_IMAGE_PULLS)
		return fields[field].def;
	if (embedded) /* k3s starts its kubelet with --serialize-image-pulls=false */
		return "false";
	return is_given(most) && parse_count(most->text, &number) == 0 && number >= 2
		       ? "false"
		       : fields[field].def;
}

void kubelet_fill_defaults(struct kubelet_values *values, bool embedded)
{
	for (int i = 0; i < KUBELET_FIELDS; i++) {
		struct kubelet_value *value = &values->field[i];

		if (is_given(value))
			continue;
		*value = (struct kubelet_value){.origin = KUBELET_UNSET};
		copy_text(value->text, sizeof(value->text), default_of(values, i, embedded));
	}
}
