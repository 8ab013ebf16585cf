/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "directory.h"

#include "apply/reconcile.h"

#define SECOND USEC_PER_SEC

#define HOUR (3600 * SECOND)

/* One tuner with one value, polled again and again; instead of the value it may want a file. */
struct fixture {
	struct node node;
	struct want want;
	struct value_record record;
	struct file_change file;
	struct file_record file_record;
	struct proposal proposal;
	struct decide_input past;
	struct reconcile_input input;
	struct plan plan;
};

static inline void fixture_make(struct fixture *fixture)
{
	*fixture = (struct fixture){0};
	fixture->want = (struct want){
		.name = "vm.a", .actual = "100", .wanted = "100", .reason = "configured"};
	fixture->file = (struct file_change){.edit = {.text = "10", .base = "version = 2\n"}};
	fixture->proposal = (struct proposal){.wants = &fixture->want, .n_wants = 1};
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
	reconcile(&fixture->node, &fixture->input, &fixture->plan);
	return node_setting(&fixture->node, "vm.a");
}

/* The same with a file: what is in force, and what the file has. */
static inline struct setting *poll_file(
	struct fixture *fixture, const char *actual, const char *on_disk)
{
	fixture->want.file = &fixture->file;
	copy_text(fixture->want.wanted, SETTING_VALUE_MAX, "10");
	copy_text(fixture->file.on_disk, SETTING_VALUE_MAX, on_disk);
	return poll(fixture, actual);
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
