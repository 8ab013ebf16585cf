/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcile_fixture.h"

FIXTURE_TEST(a_difference_in_the_file_is_planned)
{
	const struct change *change;

	poll_file(fixture, "3", "");
	expect(fixture, SETTING_PENDING, "configured", 1);
	change = &fixture->plan.changes[0];
	assert_string_equal(change->old, "3");
	assert_string_equal(change->file->on_disk, "");
	assert_string_equal(change->new, "10");
	assert_false(change->file->activate_only);
	/* A copy: the tuner's own is valid until its next decision only. */
	assert_ptr_not_equal(change->file->edit.text, fixture->file.edit.text);
	assert_string_equal(change->file->edit.text, "10");
	/* In force by other means, and not in the file: the next start would lose it. */
	poll_file(fixture, "10", "3");
	expect(fixture, SETTING_PENDING, "configured", 1);
	poll_file(fixture, "10", "10");
	expect(fixture, SETTING_IN_SYNC, "in-sync", 0);
	/* While a job is at the files nothing is judged anew. */
	fixture->input.files_busy = true;
	poll_file(fixture, "10", "4");
	expect(fixture, SETTING_IN_SYNC, "in-sync", 0);
}

TEST(a_file_that_is_not_in_force_is_pending)
{
	static const struct {
		enum activation activation;
		enum restart_policy restart;
		bool busy;
		const char *reason;
		size_t changes;
	} cases[] = {
		{ACTIVATE_NOTHING, RESTART_NEVER, false, "restart-pending", 0},
		{ACTIVATE_RESTART, RESTART_NEVER, false, "restart-pending", 0},
		{ACTIVATE_RESTART, RESTART_WHEN_IDLE, true, "restart-pending", 0},
		{ACTIVATE_RESTART, RESTART_WHEN_IDLE, false, "restart-pending", 1},
		{ACTIVATE_RESTART, RESTART_NOW, true, "restart-pending", 1},
		{ACTIVATE_RELOAD, RESTART_NEVER, true, "reload-pending", 1},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_fixture_ struct fixture fixture;

		fixture_make(&fixture);
		fixture.file.edit.service.activation = cases[i].activation;
		fixture.file.edit.service.restart = cases[i].restart;
		fixture.file.edit.service.busy = cases[i].busy;
		poll_file(&fixture, "3", "10");
		expect(&fixture, SETTING_PENDING, cases[i].reason, cases[i].changes);
		/* Also when it is not known what runs. */
		poll_file(&fixture, "", "10")->retry_at_us = fixture.past.now_us + HOUR;
		expect(&fixture, SETTING_PENDING, cases[i].reason, cases[i].changes);
		poll_file(&fixture, "", "10");
		expect(&fixture, SETTING_PENDING, cases[i].reason, 0);
		poll_file(&fixture, "10", "10");
		expect(&fixture, SETTING_IN_SYNC, "in-sync", 0);
	}
}

/* A value in force that changes is a restart; a file that changes is somebody. */
FIXTURE_TEST(only_the_file_drifts)
{
	poll_file(fixture, "10", "10");
	assert_int_equal(poll_file(fixture, "3", "10")->drift_total, 0);
	expect(fixture, SETTING_PENDING, "restart-pending", 0);
	assert_int_equal(poll_file(fixture, "3", "4")->drift_total, 1);
	expect(fixture, SETTING_PENDING, "drift", 1);
}

TEST(the_record_says_what_is_ours_in_the_file)
{
	static const struct {
		const char *on_disk, *failed, *reason;
		enum setting_state state;
	} cases[] = {
		{"", "", "configured", SETTING_PENDING},
		{"8", "", "configured", SETTING_PENDING},
		{"7", "", "drift", SETTING_PENDING},
		{"8", "10", "did-not-come-back", SETTING_FAILED},
		{"8", "11", "configured", SETTING_PENDING},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_fixture_ struct fixture fixture;

		fixture_make(&fixture);
		fixture.file_record = (struct file_record){
			.name = "vm.a", .original = "3", .before = "8", .wanted = "10"};
		copy_text(fixture.file_record.failed, SETTING_VALUE_MAX, cases[i].failed);
		fixture.past.files = &fixture.file_record;
		fixture.past.n_files = 1;
		assert_string_equal(poll_file(&fixture, "3", cases[i].on_disk)->original, "3");
		expect(&fixture, cases[i].state, cases[i].reason,
			cases[i].state == SETTING_PENDING);
	}
}
