/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "runtime/kubelet.h"

static int parse(const char *text, struct kubelet_values *values, char why[static KUBELET_WHY_MAX])
{
	*values = (struct kubelet_values){0};
	why[0] = '\0';
	return kubelet_parse("/k.yaml", text, strlen(text), values, why);
}

static void assert_value(const struct kubelet_values *values, enum kubelet_field field,
	const char *text, unsigned line)
{
	assert_int_equal(values->field[field].origin, KUBELET_FILE);
	assert_string_equal(values->field[field].text, text);
	assert_string_equal(values->field[field].file, "/k.yaml");
	assert_int_equal(values->field[field].line, line);
}

TEST(a_file_of_kubeadm_is_read)
{
	static const char text[] = "apiVersion: kubelet.config.k8s.io/v1beta1\n"
				   "authentication:\n"
				   "  anonymous:\n"
				   "    enabled: false\n"
				   "  serializeImagePulls: true\n"
				   "clusterDNS:\n"
				   "- 10.96.0.10\n"
				   "imageMaximumGCAge: 24h\n"
				   "kind: KubeletConfiguration\n"
				   "nodeLabels: {a: [b, {c: d}]}\n"
				   "registryPullQPS: 0\n"
				   "serializeImagePulls: false\n"
				   "maxParallelImagePulls: 8\n"
				   "registryBurst: null\n";
	struct kubelet_values values;
	char why[KUBELET_WHY_MAX];

	assert_int_equal(parse(text, &values, why), 0);
	assert_value(&values, KUBELET_IMAGE_MAXIMUM_GC_AGE, "24h", 8);
	assert_value(&values, KUBELET_REGISTRY_PULL_QPS, "0", 11);
	assert_value(&values, KUBELET_SERIALIZE_IMAGE_PULLS, "false", 12);
	assert_value(&values, KUBELET_MAX_PARALLEL_IMAGE_PULLS, "8", 13);
	assert_int_equal(values.field[KUBELET_REGISTRY_BURST].origin, KUBELET_CLEARED);
	assert_int_equal(values.field[KUBELET_IMAGE_GC_HIGH].origin, KUBELET_UNSET);
	assert_int_equal(values.n_cluster_dns, 1);
	assert_string_equal(values.cluster_dns[0], "10.96.0.10");
}

TEST(json_is_read)
{
	static const char text[] = "{\n\t\"kind\": \"KubeletConfiguration\",\n"
				   "\t\"serializeImagePulls\": false,\n"
				   "\t\"evictionHard\": {\"memory.available\": \"100Mi\"},\n"
				   "\t\"imageGCHighThresholdPercent\": 70,\n"
				   "\t\"imageMaximumGCAge\": \"0s\"\n}\n";
	struct kubelet_values values;
	char why[KUBELET_WHY_MAX];

	assert_int_equal(parse(text, &values, why), 0);
	assert_value(&values, KUBELET_SERIALIZE_IMAGE_PULLS, "false", 3);
	assert_value(&values, KUBELET_IMAGE_GC_HIGH, "70", 5);
	assert_value(&values, KUBELET_IMAGE_MAXIMUM_GC_AGE, "0s", 6);
}

TEST(a_file_may_set_nothing)
{
	static const char *const texts[] = {"", "\n# a comment\n", "---\n...\n", "{}", "~\n",
		"serializeImagePulls: ~\n", "? [serializeImagePulls]\n: true\n",
		"a: &serial {serializeImagePulls: false}\nb: *serial\n",
		"--- {}\n--- {serializeImagePulls: false}\n"};
	struct kubelet_values values;
	char why[KUBELET_WHY_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		print_message("%s\n", texts[i]);
		assert_int_equal(parse(texts[i], &values, why), 0);
		assert_int_not_equal(
			values.field[KUBELET_SERIALIZE_IMAGE_PULLS].origin, KUBELET_FILE);
	}
}

TEST(a_fault_has_its_position)
{
	static const struct {
		const char *text, *why;
	} cases[] = {
		{"a: [b\n", "/k.yaml:2:1: neither YAML nor JSON"},
		{"a: b: c\n", "/k.yaml:1:5: neither YAML nor JSON"},
		{"\x80", "/k.yaml:1:1: neither YAML nor JSON"},
		{"- a\n", "/k.yaml:1:1: not a map of options"},
		{"a text\n", "/k.yaml:1:1: not a map of options"},
		{"kind: Pod\n", "/k.yaml:1:7: not of kind KubeletConfiguration but \"Pod\""},
		{"a: 1\nserializeImagePulls: maybe\n",
			"/k.yaml:2:22: serializeImagePulls cannot be \"maybe\""},
		{"serializeImagePulls: \"true\"\n", "serializeImagePulls cannot be \"true\""},
		{"maxParallelImagePulls: -1\n", "maxParallelImagePulls cannot be \"-1\""},
		{"maxParallelImagePulls: 2147483648\n", "cannot be \"2147483648\""},
		{"maxParallelImagePulls: 5.0\n", "cannot be \"5.0\""},
		{"imageMaximumGCAge: 1234567890123456789012345678901234567890h\n", "cannot be"},
		{"imageMaximumGCAge: \"a\\nb\"\n", "cannot be \"a?b\""},
		{"registryPullQPS: [5]\n", "/k.yaml:1:18: one plain value is expected here"},
		{"registryPullQPS: {a: 5}\n", "one plain value"},
		{"kind: [a]\n", "/k.yaml:1:7: not of kind KubeletConfiguration but"},
	};
	struct kubelet_values values;
	char why[KUBELET_WHY_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(parse(cases[i].text, &values, why), -EBADMSG);
		print_message("%s\n", why);
		assert_non_null(strstr(why, cases[i].why));
		for (int field = 0; field < KUBELET_FIELDS; field++)
			assert_int_equal(values.field[field].origin, KUBELET_UNSET);
	}
}

TEST(addresses_of_the_cluster_are_read)
{
	static const struct {
		const char *text, *expected;
	} cases[] = {
		{"clusterDNS: [10.43.0.10, fd00::a]\n", "10.43.0.10 fd00::a "},
		{"{\"clusterDNS\": [\"10.0.0.10\"]}", "10.0.0.10 "},
		{"clusterDNS: [dns.invalid, {}, 10.0.0.300, \"\", 10.0.0.1]\n", "10.0.0.1 "},
		{"clusterDNS: 10.0.0.10\n", ""},
		{"clusterDNS: []\n", ""},
		{"a: {clusterDNS: [10.0.0.10]}\n", ""},
	};
	struct kubelet_values values;
	char why[KUBELET_WHY_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char list[256] = "";

		assert_int_equal(parse(cases[i].text, &values, why), 0);
		for (size_t n = 0; n < values.n_cluster_dns; n++) {
			strcat(list, values.cluster_dns[n]);
			strcat(list, " ");
		}
		assert_string_equal(list, cases[i].expected);
	}
	for (int i = 0; i < 2 * KUBELET_SERVERS_MAX; i++)
		kubelet_add_cluster_dns(&values, "10.0.0.10");
	assert_int_equal(values.n_cluster_dns, KUBELET_SERVERS_MAX);
}
