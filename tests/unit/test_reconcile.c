/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "apply/reconcile.h"

#include <errno.h>

#define SECOND USEC_PER_SEC

static const struct tuner_ops ops = {.name = "sysctl"};
static const struct tuner_ops other_ops = {.name = "thp"};

/* One tuner with one setting, looked at again and again. */
struct bench {
	struct node node;
	struct tuner_status tuner;
	struct want want;
	struct record record;
	struct reconcile_input input;
	struct plan plan;
};

static void bench_make(struct bench *bench)
{
	*bench = (struct bench){.tuner = {.ops = &ops}};
	bench->want = (struct want){.name = "vm.a", .reason = "configured"};
	copy_text(bench->want.wanted, SETTING_VALUE_MAX, "100");
	copy_text(bench->want.actual, SETTING_VALUE_MAX, "100");
	bench->input = (struct reconcile_input){.tuner = &bench->tuner,
		.wants = &bench->want,
		.n_wants = 1,
		.observe_reason = "observe-mode",
		.now_us = 1000 * SECOND};
}

static void bench_clear(struct bench *bench)
{
	plan_clear(&bench->plan);
	free(bench->node.settings);
}

#define _cleanup_bench_ __attribute__((cleanup(bench_clear)))

/* A second later, with this value on the node. */
static struct setting *look(struct bench *bench, const char *actual)
{
	bench->input.now_us += SECOND;
	copy_text(bench->want.actual, SETTING_VALUE_MAX, actual);
	bench->plan.n = 0;
	assert_int_equal(reconcile(&bench->node, &bench->input, &bench->plan), 0);
	return node_setting(&bench->node, "vm.a");
}

static void expect_at(const struct bench *bench, enum setting_state state, const char *reason,
	size_t changes, int line)
{
	const struct setting *setting = node_setting(&bench->node, "vm.a");

	if (setting->state != state || !streq(setting->reason, reason))
		fail_msg("line %d: %s, %s", line, setting_state_name(setting->state),
			setting->reason);
	if (bench->plan.n != changes)
		fail_msg("line %d: %zu changes", line, bench->plan.n);
}

#define expect(bench, state, reason, changes) expect_at(bench, state, reason, changes, __LINE__)

static void record_original(struct bench *bench, const char *original, const char *target)
{
	copy_text(bench->record.name, sizeof(bench->record.name), "vm.a");
	copy_text(bench->record.original, SETTING_VALUE_MAX, original);
	copy_text(bench->record.before, SETTING_VALUE_MAX, original);
	copy_text(bench->record.target, SETTING_VALUE_MAX, target);
	bench->input.records = &bench->record;
	bench->input.n_records = 1;
}

static void a_difference_is_planned(void **state)
{
	_cleanup_bench_ struct bench bench;
	const struct change *change;

	(void)state;
	bench_make(&bench);
	look(&bench, "5");
	expect(&bench, SETTING_PENDING, "configured", 1);
	change = &bench.plan.changes[0];
	assert_string_equal(change->name, "vm.a");
	assert_string_equal(change->tuner, "sysctl");
	assert_string_equal(change->old, "5");
	assert_string_equal(change->new, "100");
	assert_string_equal(change->reason, "configured");
	assert_string_equal(node_setting(&bench.node, "vm.a")->original, "5");
	record_original(&bench, "5", "100");
	look(&bench, " 100 ");
	expect(&bench, SETTING_IN_SYNC, "in-sync", 0);
	assert_string_equal(node_setting(&bench.node, "vm.a")->original, "5");
}

static void what_the_journal_knows_is_no_drift(void **state)
{
	static const struct {
		const char *actual, *reason;
		uint64_t drift;
	} cases[] = {
		{"5", "configured", 0},  /* the original: killed before the write, or restored */
		{"50", "configured", 0}, /* what was written under an older configuration */
		{"7", "drift", 1},       /* changed while no agent ran */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_bench_ struct bench bench;

		bench_make(&bench);
		record_original(&bench, "5", "50");
		look(&bench, cases[i].actual);
		expect(&bench, SETTING_PENDING, cases[i].reason, 1);
		assert_int_equal(node_setting(&bench.node, "vm.a")->drift_total, cases[i].drift);
	}
}

static void a_new_wish_is_no_drift(void **state)
{
	_cleanup_bench_ struct bench bench;

	(void)state;
	bench_make(&bench);
	look(&bench, "100");
	copy_text(bench.want.wanted, SETTING_VALUE_MAX, "200");
	look(&bench, "100");
	expect(&bench, SETTING_PENDING, "configured", 1);
	assert_int_equal(node_setting(&bench.node, "vm.a")->drift_total, 0);
}

static void drift_is_met_as_configured(void **state)
{
	static const struct {
		enum on_drift on_drift;
		enum setting_state state;
		const char *reason;
		size_t changes;
	} cases[] = {
		{ON_DRIFT_ENFORCE, SETTING_PENDING, "drift", 1},
		{ON_DRIFT_YIELD, SETTING_YIELDED, "left-by-on-drift", 0},
		{ON_DRIFT_REPORT, SETTING_DRIFTED, "left-by-on-drift", 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_bench_ struct bench bench;
		const struct setting *setting;

		bench_make(&bench);
		bench.input.on_drift = cases[i].on_drift;
		look(&bench, "100");
		setting = look(&bench, "7");
		expect(&bench, cases[i].state, cases[i].reason, cases[i].changes);
		assert_int_equal(setting->drift_total, 1);
		assert_int_equal(setting->drift_at_us, bench.input.now_us);
		/* Back in sync by someone else's hand, whatever it was left to. */
		look(&bench, "100");
		expect(&bench, SETTING_IN_SYNC, "in-sync", 0);
	}
}

static void drift_that_is_left_is_counted_once(void **state)
{
	_cleanup_bench_ struct bench bench;
	const struct setting *setting = NULL;

	(void)state;
	bench_make(&bench);
	bench.input.on_drift = ON_DRIFT_REPORT;
	look(&bench, "100");
	for (int i = 0; i < 10; i++)
		setting = look(&bench, i % 2 ? "7" : "8");
	expect(&bench, SETTING_DRIFTED, "left-by-on-drift", 0);
	assert_int_equal(setting->drift_total, 1);
}

/* The store is slow, or the disk full: nobody has rewritten anything meanwhile. */
static void drift_that_waits_to_be_put_back_is_counted_once(void **state)
{
	_cleanup_bench_ struct bench bench;
	struct setting *setting;

	(void)state;
	bench_make(&bench);
	setting = look(&bench, "100");
	for (int i = 0; i < 3 * DRIFT_ROUNDS_MAX; i++) {
		look(&bench, "7");
		expect(&bench, SETTING_PENDING, "drift", 1);
		if (i % 2) {
			setting->state = SETTING_FAILED; /* as apply_refused() leaves it */
			setting->reason = "not-recorded";
		}
	}
	assert_int_equal(setting->rounds, 1);
	assert_int_equal(setting->drift_total, 1);
	look(&bench, "100");
	assert_int_equal(look(&bench, "7")->rounds, 2);
}

/* Someone else and we, in turns. */
static void fight(struct bench *bench, unsigned rounds)
{
	for (unsigned i = 0; i < rounds; i++) {
		look(bench, "7");
		expect(bench, SETTING_PENDING, "drift", 1);
		look(bench, "100");
		expect(bench, SETTING_IN_SYNC, "in-sync", 0);
	}
}

static void a_fight_ends(void **state)
{
	_cleanup_bench_ struct bench bench;

	(void)state;
	bench_make(&bench);
	look(&bench, "100");
	fight(&bench, DRIFT_ROUNDS_MAX);
	assert_int_equal(look(&bench, "7")->drift_total, DRIFT_ROUNDS_MAX + 1);
	expect(&bench, SETTING_YIELDED, "rewritten-too-often", 0);
	look(&bench, "8");
	expect(&bench, SETTING_YIELDED, "rewritten-too-often", 0);
}

static void a_quiet_time_ends_a_fight(void **state)
{
	_cleanup_bench_ struct bench bench;

	(void)state;
	bench_make(&bench);
	look(&bench, "100");
	fight(&bench, DRIFT_ROUNDS_MAX);
	bench.input.now_us += DRIFT_QUIET_US;
	assert_int_equal(look(&bench, "100")->rounds, 0);
	fight(&bench, DRIFT_ROUNDS_MAX);
	look(&bench, "7");
	expect(&bench, SETTING_YIELDED, "rewritten-too-often", 0);
}

static void a_failure_waits_before_it_is_tried_again(void **state)
{
	_cleanup_bench_ struct bench bench;
	struct setting *setting;

	(void)state;
	bench_make(&bench);
	setting = look(&bench, "5");
	setting->state = SETTING_FAILED;
	setting->reason = "write-refused";
	setting->error = -EPERM;
	setting->retry_at_us = bench.input.now_us + RETRY_US;
	look(&bench, "5");
	expect(&bench, SETTING_FAILED, "write-refused", 0);
	bench.input.now_us += RETRY_US;
	look(&bench, "5");
	expect(&bench, SETTING_PENDING, "configured", 1);
	setting = look(&bench, "100");
	expect(&bench, SETTING_IN_SYNC, "in-sync", 0);
	assert_int_equal(setting->error, 0);
	assert_int_equal(setting->retry_at_us, 0);
}

static void what_cannot_be_read(void **state)
{
	_cleanup_bench_ struct bench bench;

	(void)state;
	bench_make(&bench);
	bench.want.error = -ENOENT;
	look(&bench, "");
	expect(&bench, SETTING_UNSUPPORTED, "not-in-this-kernel", 0);
	bench.want.error = -EACCES;
	assert_int_equal(look(&bench, "")->error, -EACCES);
	expect(&bench, SETTING_FAILED, "unreadable", 0);
	/* A module was loaded, a mount was added. */
	bench.want.error = 0;
	assert_int_equal(look(&bench, "5")->error, 0);
	expect(&bench, SETTING_PENDING, "configured", 1);
}

static void what_is_only_observed(void **state)
{
	_cleanup_bench_ struct bench bench;

	(void)state;
	bench_make(&bench);
	bench.tuner.mode = MODE_OBSERVE;
	look(&bench, "5");
	expect(&bench, SETTING_OBSERVED, "observe-mode", 0);
	bench.input.observe_reason = "restored";
	look(&bench, "5");
	expect(&bench, SETTING_OBSERVED, "restored", 0);
	bench.want.wanted[0] = '\0';
	look(&bench, "5");
	expect(&bench, SETTING_OBSERVED, "kept", 0);
	/* Errors are told in any mode. */
	bench.want.error = -EIO;
	look(&bench, "5");
	expect(&bench, SETTING_FAILED, "unreadable", 0);
}

static void what_may_be_written_in_a_hurry_is_recorded_before(void **state)
{
	_cleanup_bench_ struct bench bench;

	(void)state;
	bench_make(&bench);
	bench.want.ahead = (struct ladder){.rungs = {"200"}, .n = 1};
	look(&bench, "100");
	expect(&bench, SETTING_IN_SYNC, "in-sync", 0); /* the journal cannot be stored just now */
	bench.input.may_record = true;
	look(&bench, "100");
	expect(&bench, SETTING_IN_SYNC, "in-sync", 1);
	assert_true(bench.plan.changes[0].record_only);
	assert_string_equal(bench.plan.changes[0].new, "100");
	assert_string_equal(bench.plan.changes[0].ahead.rungs[0], "200");
	record_original(&bench, "100", "100");
	bench.record.ahead = bench.want.ahead;
	look(&bench, "100");
	expect(&bench, SETTING_IN_SYNC, "in-sync", 0);
	bench.want.ahead.n = 0;
	bench.tuner.mode = MODE_OBSERVE;
	look(&bench, "100");
	expect(&bench, SETTING_OBSERVED, "observe-mode", 0);
}

static void a_reset_tries_everything_again(void **state)
{
	static const enum setting_state left[] = {SETTING_YIELDED, SETTING_DRIFTED, SETTING_FAILED};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(left); i++) {
		_cleanup_bench_ struct bench bench;
		struct setting *setting;

		bench_make(&bench);
		look(&bench, "100");
		setting = look(&bench, "7");
		setting->state = left[i];
		setting->reason = "left-by-on-drift";
		setting->rounds = 9;
		setting->retry_at_us = UINT64_MAX;
		reconcile_reset(&bench.node, "thp"); /* another tuner */
		assert_int_equal(setting->state, left[i]);
		reconcile_reset(&bench.node, i == 0 ? NULL : "sysctl");
		assert_int_equal(setting->rounds, 0);
		setting = look(&bench, "7");
		expect(&bench, SETTING_PENDING, "configured", 1);
	}
}

static void assert_names(const struct node *node, const char *names)
{
	char text[256] = "";

	for (size_t i = 0; i < node->n_settings; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s/%s", i ? " " : "",
			node->settings[i].tuner, node->settings[i].want.name);
	assert_string_equal(text, names);
}

static void reconcile_names(
	struct node *node, const struct tuner_ops *tuner_ops, const char *a, const char *b)
{
	struct tuner_status tuner = {.ops = tuner_ops, .mode = MODE_OBSERVE};
	struct want wants[2] = {{.reason = "kept"}, {.reason = "kept"}};
	struct reconcile_input input = {.tuner = &tuner,
		.wants = wants,
		.n_wants = (size_t)((a != NULL) + (b != NULL)),
		.observe_reason = "observe-mode"};
	struct plan plan = {0};

	copy_text(wants[0].name, SETTING_NAME_MAX, a ? a : "");
	copy_text(wants[1].name, SETTING_NAME_MAX, b ? b : "");
	assert_int_equal(reconcile(node, &input, &plan), 0);
	plan_clear(&plan);
}

static void settings_come_and_go_with_their_tuner(void **state)
{
	struct node node = {0};

	(void)state;
	reconcile_names(&node, &ops, NULL, NULL); /* the first tuner is off */
	assert_names(&node, "");
	reconcile_names(&node, &ops, "a", "b");
	reconcile_names(&node, &other_ops, "a", "c");
	assert_names(&node, "sysctl/a sysctl/b thp/a thp/c");
	node.settings[1].drift_total = 5;
	reconcile_names(&node, &ops, "b", NULL);
	assert_names(&node, "sysctl/b thp/a thp/c");
	assert_int_equal(node.settings[0].drift_total, 5); /* its story goes on */
	reconcile_names(&node, &ops, "x", "b");
	assert_names(&node, "sysctl/x sysctl/b thp/a thp/c");
	assert_int_equal(node.settings[0].drift_total, 0);
	assert_int_equal(node.settings[1].drift_total, 5);
	reconcile_names(&node, &ops, NULL, NULL);
	assert_names(&node, "thp/a thp/c");
	reconcile_names(&node, &other_ops, "c", "a");
	assert_names(&node, "thp/c thp/a");
	free(node.settings);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_difference_is_planned),
		cmocka_unit_test(what_the_journal_knows_is_no_drift),
		cmocka_unit_test(a_new_wish_is_no_drift),
		cmocka_unit_test(drift_is_met_as_configured),
		cmocka_unit_test(drift_that_is_left_is_counted_once),
		cmocka_unit_test(drift_that_waits_to_be_put_back_is_counted_once),
		cmocka_unit_test(a_fight_ends),
		cmocka_unit_test(a_quiet_time_ends_a_fight),
		cmocka_unit_test(a_failure_waits_before_it_is_tried_again),
		cmocka_unit_test(what_cannot_be_read),
		cmocka_unit_test(what_is_only_observed),
		cmocka_unit_test(what_may_be_written_in_a_hurry_is_recorded_before),
		cmocka_unit_test(a_reset_tries_everything_again),
		cmocka_unit_test(settings_come_and_go_with_their_tuner),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
