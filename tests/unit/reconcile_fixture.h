/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_RECONCILE_FIXTURE_H
#define TESTS_UNIT_RECONCILE_FIXTURE_H

#include "directory.h"

#include "apply/reconcile.h"

#define SECOND USEC_PER_SEC

#define HOUR (3600 * SECOND)

/* One tuner with one value, polled again and again; instead of the value it may want a file. */
struct fixture {
	struct node node;
	struct value_want want;
	struct value_record record;
	struct file_want file;
	struct file_edit edit;
	struct file_record file_record;
	struct proposal proposal;
	struct decide_input past;
	struct reconcile_input input;
	struct plan plan;
};

static inline void fixture_make(struct fixture *fixture)
{
	*fixture = (struct fixture){0};
	fixture->want = (struct value_want){
		.name = "vm.a", .actual = "100", .wanted = "100", .reason = "configured"};
	fixture->edit = (struct file_edit){.text = "10", .base = "version = 2\n"};
	fixture->file = (struct file_want){
		.name = "vm.a", .wanted = "10", .reason = "configured", .edit = &fixture->edit};
	fixture->proposal = (struct proposal){.values = &fixture->want, .n_values = 1};
	fixture->past.now_us = HOUR;
	fixture->input = (struct reconcile_input){.tuner = "sysctl",
		.proposal = &fixture->proposal,
		.past = &fixture->past,
		.values_recordable = true};
}

static inline void fixture_clear(struct fixture *fixture)
{
	plan_clear(&fixture->plan);
	free(fixture->node.settings);
}

#define _cleanup_fixture_  __attribute__((cleanup(fixture_clear)))
#define FIXTURE_TEST(name) TEST_OF(fixture, fixture, fixture_make, fixture_clear, name)

/* A second later, with this value on the node. */
static inline struct setting *poll(struct fixture *fixture, const char *actual)
{
	fixture->past.now_us += SECOND;
	copy_text(fixture->want.actual, SETTING_VALUE_MAX, actual);
	plan_reset(&fixture->plan);
	assert_int_equal(reconcile(&fixture->node, &fixture->input, &fixture->plan), 0);
	return node_setting(&fixture->node, "vm.a");
}

/* The same with a file: what is in force, and what the file has. */
static inline struct setting *poll_file(
	struct fixture *fixture, const char *actual, const char *on_disk)
{
	fixture->proposal = (struct proposal){.files = &fixture->file, .n_files = 1};
	copy_text(fixture->file.actual, SETTING_VALUE_MAX, actual);
	copy_text(fixture->file.on_disk, SETTING_VALUE_MAX, on_disk);
	return poll(fixture, "");
}

static inline void expect_at(const struct fixture *fixture, enum setting_state state,
	const char *reason, size_t changes, int line)
{
	const struct setting *setting = node_setting(&fixture->node, "vm.a");

	if (setting->state != state || !streq(setting->reason, reason))
		fail_msg("line %d: %s, %s", line, setting_state_names[setting->state],
			setting->reason);
	if (fixture->plan.n != changes)
		fail_msg("line %d: %zu changes", line, fixture->plan.n);
}

#define expect(fixture, state, reason, changes) expect_at(fixture, state, reason, changes, __LINE__)

#endif
