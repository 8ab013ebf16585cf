/* SPDX-License-Identifier: Apache-2.0 */
#include "config_text.h"
#include "directory.h"

#include "tuners/raise.h"
#include "tuners/sysctl/sysctl.h"
#include "tuners/table.h"

/* Decides on a node with these values of /proc/sys. */
struct lab {
	struct directory directory;
	struct loaded loaded;
	struct sysctl *sysctl;
	struct proposal proposal;
};

static void lab_make(struct lab *lab)
{
	directory_make(&lab->directory);
	directory_put(&lab->directory, "/proc/sys/vm/max_map_count", "65530\n");
	directory_put(&lab->directory, "/proc/sys/vm/dirty_background_bytes", "0\n");
	directory_put(&lab->directory, "/proc/sys/vm/dirty_background_ratio", "10\n");
	directory_put(&lab->directory, "/proc/sys/fs/inotify/max_user_instances", "100\n");
	lab->sysctl = sysctl_tuner.open(&lab->directory.host, &lab->directory.facts, NULL);
}

static void lab_remove(struct lab *lab)
{
	proposal_clear(&lab->proposal);
	sysctl_tuner.close(lab->sysctl, NULL);
	loaded_clear(&lab->loaded);
	directory_remove(&lab->directory);
}

#define LAB_TEST(name) TEST_OF(lab, lab, lab_make, lab_remove, name)

static void decide_with(struct lab *lab, const char *text, enum mode mode)
{
	const struct decide_input input = {.mode = mode};

	loaded_clear(&lab->loaded);
	lab->loaded = load_bytes(option_tables, text, strlen(text));
	assert_non_null(lab->loaded.config);
	proposal_clear(&lab->proposal);
	sysctl_tuner.configure(lab->sysctl, lab->loaded.config);
	sysctl_tuner.sense(lab->sysctl, 0);
	sysctl_tuner.decide(lab->sysctl, &input, NULL, &lab->proposal);
}

static const struct want *want_of(const struct lab *lab, const char *name)
{
	for (size_t i = 0; i < lab->proposal.n_wants; i++)
		if (streq(lab->proposal.wants[i].name, name))
			return &lab->proposal.wants[i];
	return NULL;
}

LAB_TEST(a_chosen_limit_is_raised_to_the_value_of_the_table)
{
	decide_with(lab, "limits: {raise: [maps]}\n", MODE_ENFORCE);
	assert_string_equal(want_of(lab, "vm.max_map_count")->wanted, "1048576");
	assert_int_equal(want_of(lab, "vm.max_map_count")->reason, REASON_RAISED_LIMIT);
	assert_string_equal(want_of(lab, "vm.max_map_count")->actual, "65530");
}

LAB_TEST(a_raise_is_at_least_what_the_section_sysctl_asks)
{
	decide_with(lab, "limits: {raise: [maps]}\nsysctl: {vm.max_map_count: 2000000}\n",
		MODE_ENFORCE);
	assert_string_equal(want_of(lab, "vm.max_map_count")->wanted, "2000000");
	decide_with(
		lab, "limits: {raise: [maps]}\nsysctl: {vm.max_map_count: 70000}\n", MODE_ENFORCE);
	assert_string_equal(want_of(lab, "vm.max_map_count")->wanted, "1048576");
}

LAB_TEST(bounded_writeback_records_the_ratio_that_it_clears)
{
	decide_with(lab, "storage: {bound_writeback: true}\n", MODE_ENFORCE);
	assert_string_equal(want_of(lab, "vm.dirty_background_bytes")->wanted, "8388608");
	assert_string_equal(want_of(lab, "vm.dirty_background_ratio")->wanted, "0");
	assert_string_equal(want_of(lab, "vm.dirty_background_ratio")->actual, "10");
}

/* 100 is below the kernel's 128: somebody has chosen it. */
LAB_TEST(a_choice_of_the_node_stands_against_a_profile_that_no_file_names)
{
	const struct want *want;

	decide_with(lab, "profile: kubernetes-node\n", MODE_ENFORCE);
	want = want_of(lab, "fs.inotify.max_user_instances");
	assert_int_equal(want->reason, REASON_PROFILE);
	assert_string_not_equal(want->wanted, "100");
	decide_with(lab, "", MODE_ENFORCE);
	want = want_of(lab, "fs.inotify.max_user_instances");
	if (want) {
		assert_int_equal(want->reason, REASON_CHOSEN_ON_NODE);
		assert_string_equal(want->wanted, "100");
	}
}

LAB_TEST(sysctls_that_cannot_be_written_are_a_lack_where_some_are_to_be_set)
{
	static const struct {
		const char *text;
		enum mode mode;
		bool lacks;
	} cases[] = {
		{"profile: minimal\nsysctl: {vm.max_map_count: 70000}\n", MODE_ENFORCE, true},
		{"profile: minimal\nsysctl: {vm.max_map_count: 70000}\n", MODE_OBSERVE, false},
		{"profile: minimal\n", MODE_ENFORCE, false},
	};

	set_text(lab->sysctl->write_why, "/proc/sys/vm/max_map_count: Read-only file system");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		decide_with(lab, cases[i].text, cases[i].mode);
		assert_int_equal(lab->proposal.n_lacks, cases[i].lacks);
	}
}
