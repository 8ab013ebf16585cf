/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "apply/reconcile.h"

#include <errno.h>

#define NAME "containerd.max_concurrent_downloads"
#define HOUR (3600 * USEC_PER_SEC)

static const struct tuner_ops ops = {.name = "runtime"};

/* One setting of a file, looked at again and again. */
struct bench {
	struct node node;
	struct tuner_status tuner;
	struct file_edit edit;
	struct want want;
	struct record record;
	struct reconcile_input input;
	struct plan plan;
};

static void bench_make(struct bench *bench)
{
	*bench = (struct bench){.tuner = {.ops = &ops}};
	bench->edit = (struct file_edit){.text = "10", .base = "version = 2\n"};
	bench->want = (struct want){.name = NAME,
		.place = {.kind = PLACE_EDIT, .path = "/etc/containerd/config.toml"},
		.wanted = "10",
		.reason = "configured",
		.edit = &bench->edit};
	bench->input = (struct reconcile_input){.tuner = &bench->tuner,
		.wants = &bench->want,
		.n_wants = 1,
		.observe_reason = "observe-mode",
		.config = 5,
		.now_us = HOUR};
}

static void bench_clear(struct bench *bench)
{
	plan_clear(&bench->plan);
	free(bench->node.settings);
}

#define _cleanup_bench_ __attribute__((cleanup(bench_clear)))

/* A second later: what is in force, and what stands in the file. */
static struct setting *look(struct bench *bench, const char *actual, const char *on_disk)
{
	bench->input.now_us += USEC_PER_SEC;
	copy_text(bench->want.actual, SETTING_VALUE_MAX, actual);
	copy_text(bench->want.on_disk, SETTING_VALUE_MAX, on_disk);
	plan_reset(&bench->plan);
	assert_int_equal(reconcile(&bench->node, &bench->input, &bench->plan), 0);
	return node_setting(&bench->node, NAME);
}

static void expect_at(const struct bench *bench, enum setting_state state, const char *reason,
	size_t changes, int line)
{
	const struct setting *setting = node_setting(&bench->node, NAME);

	if (setting->state != state || !streq(setting->reason, reason))
		fail_msg("line %d: %s, %s", line, setting_state_name(setting->state),
			setting->reason);
	if (bench->plan.n != changes)
		fail_msg("line %d: %zu changes", line, bench->plan.n);
}

#define expect(bench, state, reason, changes) expect_at(bench, state, reason, changes, __LINE__)

static void what_differs_in_the_file_is_planned(void **state)
{
	_cleanup_bench_ struct bench bench;
	const struct change *change;

	(void)state;
	bench_make(&bench);
	look(&bench, "3", "");
	expect(&bench, SETTING_PENDING, "configured", 1);
	change = &bench.plan.changes[0];
	assert_string_equal(change->old, "3");
	assert_string_equal(change->on_disk, "");
	assert_string_equal(change->new, "10");
	assert_false(change->activate_only);
	/* A copy, for the tuner's own lasts until its next decision only. */
	assert_ptr_not_equal(change->edit->text, bench.edit.text);
	assert_string_equal(change->edit->text, "10");
	assert_string_equal(change->edit->base, "version = 2\n");
	/* In force by other means, and not in the file: the next start would lose it. */
	look(&bench, "10", "3");
	expect(&bench, SETTING_PENDING, "configured", 1);
	look(&bench, "10", "10");
	expect(&bench, SETTING_IN_SYNC, "in-sync", 0);
}

static void a_file_that_waits_is_pending(void **state)
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

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_bench_ struct bench bench;

		bench_make(&bench);
		bench.edit.service.activation = cases[i].activation;
		bench.edit.service.restart = cases[i].restart;
		bench.edit.service.busy = cases[i].busy;
		look(&bench, "3", "10");
		expect(&bench, SETTING_PENDING, cases[i].reason, cases[i].changes);
		if (cases[i].changes > 0)
			assert_true(bench.plan.changes[0].activate_only);
		/* What runs is not known: the same. */
		look(&bench, "", "10");
		expect(&bench, SETTING_PENDING, cases[i].reason, cases[i].changes);
		look(&bench, "10", "10");
		expect(&bench, SETTING_IN_SYNC, "in-sync", 0);
	}
}

static void whoever_tried_waits_before_the_next_try(void **state)
{
	_cleanup_bench_ struct bench bench;

	(void)state;
	bench_make(&bench);
	bench.edit.service.activation = ACTIVATE_RESTART;
	bench.edit.service.restart = RESTART_NOW;
	look(&bench, "3", "10")->retry_at_us = bench.input.now_us + HOUR;
	look(&bench, "3", "10");
	expect(&bench, SETTING_PENDING, "restart-pending", 0);
	bench.input.now_us += HOUR;
	look(&bench, "3", "10");
	expect(&bench, SETTING_PENDING, "restart-pending", 1);
}

/* A value in force that changes is a restart; a file that changes is somebody. */
static void only_the_file_drifts(void **state)
{
	_cleanup_bench_ struct bench bench;

	(void)state;
	bench_make(&bench);
	look(&bench, "10", "10");
	look(&bench, "3", "10");
	expect(&bench, SETTING_PENDING, "restart-pending", 0);
	assert_int_equal(node_setting(&bench.node, NAME)->drift_total, 0);
	look(&bench, "3", "4");
	expect(&bench, SETTING_PENDING, "drift", 1);
	assert_int_equal(node_setting(&bench.node, NAME)->drift_total, 1);
	look(&bench, "3", "10");
	bench.input.on_drift = ON_DRIFT_REPORT;
	look(&bench, "10", "4");
	expect(&bench, SETTING_DRIFTED, "left-by-on-drift", 0);
}

static void the_journal_tells_what_stood_in_the_file(void **state)
{
	static const struct {
		const char *on_disk, *reason;
	} cases[] = {{"", "configured"}, {"8", "configured"}, {"7", "drift"}};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_bench_ struct bench bench;

		bench_make(&bench);
		bench.record = (struct record){.name = NAME,
			.place.kind = PLACE_EDIT,
			.original = "3",
			.before = "8",
			.target = "10"};
		bench.input.records = &bench.record;
		bench.input.n_records = 1;
		look(&bench, "3", cases[i].on_disk);
		expect(&bench, SETTING_PENDING, cases[i].reason, 1);
		assert_string_equal(node_setting(&bench.node, NAME)->original, "3");
	}
}

static void what_broke_its_program_is_not_tried_again(void **state)
{
	_cleanup_bench_ struct bench bench;

	(void)state;
	bench_make(&bench);
	bench.record = (struct record){
		.name = NAME, .place.kind = PLACE_EDIT, .original = "3", .given_up = 5};
	bench.input.records = &bench.record;
	bench.input.n_records = 1;
	look(&bench, "3", "");
	expect(&bench, SETTING_FAILED, "did-not-come-back", 0);
	/* Somebody made it work. */
	look(&bench, "10", "10");
	expect(&bench, SETTING_IN_SYNC, "in-sync", 0);
	bench.input.config = 6;
	look(&bench, "3", "");
	expect(&bench, SETTING_PENDING, "drift", 1);
}

static void a_want_without_an_edit_is_refused(void **state)
{
	_cleanup_bench_ struct bench bench;

	(void)state;
	bench_make(&bench);
	bench.want.edit = NULL;
	look(&bench, "3", "3");
	expect(&bench, SETTING_FAILED, "unreadable", 0);
	bench.want.wanted[0] = '\0';
	bench.want.reason = "file-of-others";
	look(&bench, "3", "3");
	expect(&bench, SETTING_OBSERVED, "file-of-others", 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_differs_in_the_file_is_planned),
		cmocka_unit_test(a_file_that_waits_is_pending),
		cmocka_unit_test(whoever_tried_waits_before_the_next_try),
		cmocka_unit_test(only_the_file_drifts),
		cmocka_unit_test(the_journal_tells_what_stood_in_the_file),
		cmocka_unit_test(what_broke_its_program_is_not_tried_again),
		cmocka_unit_test(a_want_without_an_edit_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
