/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "tuners/limits/limits.h"
#include "tuners/table.h"

struct lab {
	struct directory directory;
	struct decide_input input;
	struct proposal proposal;
	void *self, *memory;
};

static void lab_make(struct lab *lab)
{
	directory_make(&lab->directory);
	lab->self = limits_tuner.open(&lab->directory.host, &lab->directory.facts, NULL);
	lab->memory = must(calloc(1, limits_tuner.memory_size));
	lab->input.now_us = USEC_PER_SEC;
}

static void lab_remove(struct lab *lab)
{
	proposal_clear(&lab->proposal);
	limits_tuner.close(lab->self, lab->memory);
	free(lab->memory);
	directory_remove(&lab->directory);
}

#define LAB_TEST(name) TEST_OF(lab, lab, lab_make, lab_remove, name)

/* Returns the finding about a map with this name and use, or NULL. */
static const struct finding *decide_map(
	struct lab *lab, const char *row, const char *name, uint64_t used)
{
	struct limit_instance instance = {
		.instance = {.kind = INSTANCE_BPF_MAP, .id = 9}, .used = used, .max = 1000};
	struct limits *limits = lab->self;
	struct limit_seen *seen = limits->rows;
	const struct finding *found = NULL;

	while (!streq(seen->row->name, row))
		seen++;
	seen->error = 0;
	seen->reading = (struct limit_reading){.used = used, .max = 1000};
	set_text(instance.instance.name, name);
	limit_instance_add(&seen->instances[OF_BPF], &instance);
	proposal_clear(&lab->proposal);
	limits_tuner.decide(lab->self, &lab->input, lab->memory, &lab->proposal);
	limit_instances_clear(&seen->instances[OF_BPF]);
	lab->input.now_us += USEC_PER_SEC;
	for (size_t i = 0; i < lab->proposal.n_findings; i++)
		if (lab->proposal.findings[i].phase == FINDING_HAPPENS)
			found = &lab->proposal.findings[i];
	return found;
}

LAB_TEST(a_map_is_a_warning_at_80_percent_and_critical_at_95)
{
	static const struct {
		const char *row;
		uint64_t used;
		const char *condition; /* NULL: no finding */
		enum severity severity;
	} cases[] = {
		{"bpf/map", 799, NULL, SEVERITY_ADVICE},
		{"bpf/map", 800, "LimitPressure", SEVERITY_WARNING},
		{"bpf/map", 949, "LimitPressure", SEVERITY_WARNING},
		{"bpf/map", 950, "LimitPressure", SEVERITY_CRITICAL},
		{"bpf/map", 1000, "LimitReached", SEVERITY_CRITICAL},
		{"bpf/lru-map", 799, NULL, SEVERITY_ADVICE},
		{"bpf/lru-map", 800, "LimitPressure", SEVERITY_ADVICE},
		{"bpf/lru-map", 1000, "LimitPressure", SEVERITY_ADVICE},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct finding *finding = decide_map(lab, cases[i].row, "a", cases[i].used);

		assert_int_equal(finding != NULL, cases[i].condition != NULL);
		if (!finding)
			continue;
		assert_string_equal(finding->condition->name, cases[i].condition);
		assert_int_equal(finding->severity, cases[i].severity);
	}
}

LAB_TEST(the_hint_has_the_option_of_the_program_and_no_command)
{
	static const struct {
		const char *row, *name, *hint;
	} cases[] = {
		{"bpf/map", "cilium_ct4_glob",
			"raise bpf-ct-global-tcp-max or bpf-map-dynamic-size-ratio in the "
			"configuration of Cilium"},
		{"bpf/lru-map", "cilium_ct_any4_",
			"if it loses elements in use: no command can resize a map: raise "
			"bpf-ct-global-any-max or"},
		{"bpf/map", "cilium_policy_0", "raise bpf-policy-map-max in"},
		{"bpf/map", "cali_v4_ct3",
			"raise bpfMapSizeConntrack in the configuration of Felix"},
		{"bpf/map", "", "in the options of the program that made it"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct finding *finding = decide_map(lab, cases[i].row, cases[i].name, 900);

		assert_non_null(finding);
		assert_null(finding->now);
		assert_non_null(strstr(finding->hint, "no command can resize a map"));
		if (!strstr(finding->hint, cases[i].hint))
			fail_msg("%s: %s", cases[i].name, finding->hint);
	}
}
