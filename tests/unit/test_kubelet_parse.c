/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "tuners/kubelet/kubelet.h"

#include <errno.h>

static int parse(const char *text, struct kubelet_values *values, char why[static TUNER_WHY_MAX])
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

static void a_file_of_kubeadm(void **state)
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
	char why[TUNER_WHY_MAX];

	(void)state;
	assert_int_equal(parse(text, &values, why), 0);
	assert_value(&values, KUBELET_IMAGE_MAXIMUM_GC_AGE, "24h", 8);
	assert_value(&values, KUBELET_REGISTRY_PULL_QPS, "0", 11);
	assert_value(&values, KUBELET_SERIALIZE_IMAGE_PULLS, "false", 12);
	assert_value(&values, KUBELET_MAX_PARALLEL_IMAGE_PULLS, "8", 13);
	assert_int_equal(values.field[KUBELET_REGISTRY_BURST].origin, KUBELET_CLEARED);
	assert_int_equal(values.field[KUBELET_IMAGE_GC_HIGH].origin, KUBELET_UNSET);
}

static void json_as_some_clouds_write_it(void **state)
{
	static const char text[] = "{\n\t\"kind\": \"KubeletConfiguration\",\n"
				   "\t\"serializeImagePulls\": false,\n"
				   "\t\"evictionHard\": {\"memory.available\": \"100Mi\"},\n"
				   "\t\"imageGCHighThresholdPercent\": 70,\n"
				   "\t\"imageMaximumGCAge\": \"0s\"\n}\n";
	struct kubelet_values values;
	char why[TUNER_WHY_MAX];

	(void)state;
	assert_int_equal(parse(text, &values, why), 0);
	assert_value(&values, KUBELET_SERIALIZE_IMAGE_PULLS, "false", 3);
	assert_value(&values, KUBELET_IMAGE_GC_HIGH, "70", 5);
	assert_value(&values, KUBELET_IMAGE_MAXIMUM_GC_AGE, "0s", 6);
}

static void what_gives_nothing(void **state)
{
	static const char *const texts[] = {"", "\n# a comment\n", "---\n...\n", "{}", "~\n",
		"serializeImagePulls: ~\n", "? [serializeImagePulls]\n: true\n",
		"a: &serial {serializeImagePulls: false}\nb: *serial\n",
		"--- {}\n--- {serializeImagePulls: false}\n"};
	struct kubelet_values values;
	char why[TUNER_WHY_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		print_message("%s\n", texts[i]);
		assert_int_equal(parse(texts[i], &values, why), 0);
		assert_int_not_equal(
			values.field[KUBELET_SERIALIZE_IMAGE_PULLS].origin, KUBELET_FILE);
	}
}

static void broken_files_tell_the_place(void **state)
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
		{"a: &x 5\nregistryPullQPS: *x\n", "/k.yaml:2:18: one plain value"},
	};
	struct kubelet_values values;
	char why[TUNER_WHY_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(parse(cases[i].text, &values, why), -EBADMSG);
		print_message("%s\n", why);
		assert_non_null(strstr(why, cases[i].why));
		for (int field = 0; field < KUBELET_FIELDS; field++)
			assert_int_equal(values.field[field].origin, KUBELET_UNSET);
	}
}

static void our_own_file_is_one(void **state)
{
	struct kubelet_values values;
	char why[TUNER_WHY_MAX];

	(void)state;
	assert_int_equal(parse(kubelet_own_text, &values, why), 0);
	assert_value(&values, KUBELET_SERIALIZE_IMAGE_PULLS, "false", 5);
}

/* A command line as /proc shows it: words end with a NUL. */
#define COMMAND_LINE(text, process) kubelet_parse_command_line(text, sizeof(text), process)

static void command_lines(void **state)
{
	struct kubelet_process process = {0};

	(void)state;
	COMMAND_LINE(
		"/usr/bin/kubelet\0--config=/etc/k.yaml\0--config-dir\0/etc/k.d\0--v=2", &process);
	assert_string_equal(process.config, "/etc/k.yaml");
	assert_string_equal(process.config_dir, "/etc/k.d");
	assert_int_equal(process.flags.field[KUBELET_SERIALIZE_IMAGE_PULLS].origin, KUBELET_UNSET);

	process = (struct kubelet_process){0};
	COMMAND_LINE("kubelet\0--serialize-image-pulls\0false\0--registry_qps=0\0"
		     "--registry-burst\0"
		     "20\0--config\0k.yaml\0--image-gc-high-threshold=x",
		&process);
	assert_string_equal(process.flags.field[KUBELET_SERIALIZE_IMAGE_PULLS].text, "true");
	assert_int_equal(process.flags.field[KUBELET_SERIALIZE_IMAGE_PULLS].origin, KUBELET_FLAG);
	assert_string_equal(process.flags.field[KUBELET_REGISTRY_PULL_QPS].text, "0");
	assert_string_equal(process.flags.field[KUBELET_REGISTRY_BURST].text, "20");
	assert_int_equal(process.flags.field[KUBELET_IMAGE_GC_HIGH].origin, KUBELET_UNSET);
	assert_string_equal(process.config, "/k.yaml");

	process = (struct kubelet_process){0};
	COMMAND_LINE("kubelet\0--serialize-image-pulls=true\0--serialize-image-pulls=false\0"
		     "--\0--config=/after",
		&process);
	assert_string_equal(process.flags.field[KUBELET_SERIALIZE_IMAGE_PULLS].text, "false");
	assert_string_equal(process.config, "");
}

static void odd_command_lines(void **state)
{
	struct kubelet_process process = {0};
	char line[2 * SETTING_PATH_MAX] = "--config=";

	(void)state;
	kubelet_parse_command_line("", 0, &process);
	COMMAND_LINE("kubelet\0--config", &process);
	COMMAND_LINE("kubelet\0\0\0--\0", &process);
	assert_string_equal(process.config, "");
	memset(line + strlen(line), 'x', sizeof(line) - strlen(line) - 1);
	line[sizeof(line) - 1] = '\0';
	kubelet_parse_command_line(line, sizeof(line), &process);
	assert_string_equal(process.config, "");
	COMMAND_LINE("--config=/a\0--config=", &process);
	assert_string_equal(process.config, "");
}

static void defaults_are_the_kubelets(void **state)
{
	struct kubelet_values values = {0}, most = {0};

	(void)state;
	most.field[KUBELET_MAX_PARALLEL_IMAGE_PULLS] =
		(struct kubelet_value){.origin = KUBELET_FILE, .text = "2"};
	kubelet_fill_defaults(&values, false);
	assert_string_equal(values.field[KUBELET_SERIALIZE_IMAGE_PULLS].text, "true");
	assert_string_equal(values.field[KUBELET_MAX_PARALLEL_IMAGE_PULLS].text, "");
	assert_string_equal(values.field[KUBELET_REGISTRY_PULL_QPS].text, "5");
	assert_string_equal(values.field[KUBELET_REGISTRY_BURST].text, "10");
	assert_string_equal(values.field[KUBELET_IMAGE_GC_HIGH].text, "85");
	assert_string_equal(values.field[KUBELET_IMAGE_GC_LOW].text, "80");
	assert_string_equal(values.field[KUBELET_IMAGE_MAXIMUM_GC_AGE].text, "0s");
	kubelet_fill_defaults(&values, true);
	assert_string_equal(values.field[KUBELET_SERIALIZE_IMAGE_PULLS].text, "false");
	kubelet_fill_defaults(&most, false);
	assert_string_equal(most.field[KUBELET_SERIALIZE_IMAGE_PULLS].text, "false");
}

static void advices_fit_what_is_seen(void **state)
{
	struct kubelet_seen seen = {.presence = KUBELET_RUNNING};
	char advices[4][CONDITION_MESSAGE_MAX];

	(void)state;
	kubelet_fill_defaults(&seen.values, false);
	assert_int_equal(kubelet_advise(&seen, advices, 4), 2);
	assert_non_null(
		strstr(advices[0], "registryPullQPS is 5 with registryBurst 10: of 60 "
				   "images that a node needs at once, the last begins 10 s"));
	assert_non_null(strstr(advices[1], "From 85 %"));
	for (size_t i = 0; i < 2; i++)
		assert_true(strlen(advices[i]) < CONDITION_MESSAGE_MAX - 1);
	assert_int_equal(kubelet_advise(&seen, advices, 1), 1);
	strcpy(seen.values.field[KUBELET_REGISTRY_PULL_QPS].text, "0");
	strcpy(seen.values.field[KUBELET_IMAGE_GC_HIGH].text, "100");
	assert_int_equal(kubelet_advise(&seen, advices, 4), 0);
	strcpy(seen.values.field[KUBELET_IMAGE_MAXIMUM_GC_AGE].text, "24h");
	assert_int_equal(kubelet_advise(&seen, advices, 4), 1);
	assert_non_null(strstr(advices[0], "imageMaximumGCAge is 24h"));
	strcpy(seen.why, "broken");
	assert_int_equal(kubelet_advise(&seen, advices, 4), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_of_kubeadm),
		cmocka_unit_test(json_as_some_clouds_write_it),
		cmocka_unit_test(what_gives_nothing),
		cmocka_unit_test(broken_files_tell_the_place),
		cmocka_unit_test(our_own_file_is_one),
		cmocka_unit_test(command_lines),
		cmocka_unit_test(odd_command_lines),
		cmocka_unit_test(defaults_are_the_kubelets),
		cmocka_unit_test(advices_fit_what_is_seen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
