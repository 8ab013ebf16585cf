/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline_bench.h"

/* A restart outlives the process that asked for it: what the next one makes of the journal. */

/* As far as this step, or until it is over. */
static void run_to(struct bench *bench, enum pipeline_step step)
{
	while (bench->pipeline.step != step && bench->pipeline.step != PIPELINE_IDLE)
		bench_step(bench);
	assert_int_equal(bench->pipeline.step, step);
}

/* Systemd was asked so often, and its answer was not waited for. */
static void run_to_restart(struct bench *bench, unsigned restarts)
{
	while (bench->fake.restarts < restarts)
		bench_step(bench);
}

static void begin(struct bench *bench)
{
	plan(bench, 0);
	assert_true(pipeline_apply(&bench->pipeline, &bench->core.plan));
}

static bool is_open(const struct bench *bench)
{
	const struct journal_restart *mark = journal_find_restart(bench->core.journal, FAKE_UNIT);

	assert_non_null(mark);
	return mark->open;
}

static void it_is_on_disk_before_systemd_is_asked(void **state)
{
	_cleanup_bench_ struct bench bench;
	const struct journal_restart *mark;

	(void)state;
	bench_make(&bench, RESTART_NOW);
	begin(&bench);
	run_to(&bench, PIPELINE_MARKING);
	assert_null(journal_find_restart(bench.core.journal, FAKE_UNIT));
	for (int i = 0; i < 5; i++)
		assert_true(sd_event_run(bench.fake.event, 20 * USEC_PER_MSEC) >= 0);
	assert_int_equal(bench.fake.restarts, 0);
	bench_step(&bench);
	assert_int_equal(bench.fake.restarts, 0); /* it is sent, and lies on the bus */
	bench_kill(&bench);
	assert_true(is_open(&bench));
	mark = journal_find_restart(bench.core.journal, FAKE_UNIT);
	assert_int_equal(mark->config, 1);
	assert_true(mark->at_s > 0 && mark->at_s * USEC_PER_SEC <= realtime_us());
}

static void without_a_note_there_is_no_restart(void **state)
{
	_cleanup_bench_ struct bench bench;

	(void)state;
	bench_make(&bench, RESTART_NOW);
	begin(&bench);
	run_to(&bench, PIPELINE_MARKING);
	pipeline_stored(&bench.pipeline, -ENOSPC);
	run_to(&bench, PIPELINE_IDLE);
	expect(&bench, SETTING_PENDING, "restart-refused", 0, NEW);
	assert_false(pipeline_resume(&bench.pipeline));
	look(&bench, 61 * USEC_PER_SEC);
	look(&bench, 1);
	expect(&bench, SETTING_IN_SYNC, "in-sync", 1, NEW);
}

static void killed_and_it_does_not_come_back(void **state)
{
	_cleanup_bench_ struct bench bench;

	(void)state;
	bench_make(&bench, RESTART_NOW);
	bench.fake.fails = 1;
	begin(&bench);
	run_to_restart(&bench, 1);
	bench_kill(&bench);
	assert_file(&bench.root, PATH, NEW);
	assert_true(pipeline_resume(&bench.pipeline));
	pipeline_run(&bench.pipeline);
	assert_int_equal(bench.pipeline.edits.plan.changes[0].error, -ETIMEDOUT);
	assert_string_equal(bench.fake.state, "active");
	look(&bench, 1);
	expect(&bench, SETTING_FAILED, "did-not-come-back", 2, OLD);
	/* That was seen to, and it stays given up. */
	bench_kill(&bench);
	assert_false(is_open(&bench));
	assert_false(pipeline_resume(&bench.pipeline));
	look(&bench, 2 * HOUR);
	expect(&bench, SETTING_FAILED, "did-not-come-back", 2, OLD);
	/* Nor is anything forgotten that a restore has to know. */
	restore(&bench);
	assert_file(&bench.root, PATH, OLD);
}

static void killed_and_it_comes_back(void **state)
{
	_cleanup_bench_ struct bench bench;

	(void)state;
	bench_make(&bench, RESTART_NOW);
	begin(&bench);
	run_to_restart(&bench, 1);
	bench_kill(&bench);
	assert_true(pipeline_resume(&bench.pipeline));
	assert_false(pipeline_resume(&bench.pipeline)); /* it is at it */
	pipeline_run(&bench.pipeline);
	look(&bench, 1);
	expect(&bench, SETTING_IN_SYNC, "in-sync", 1, NEW);
	bench_kill(&bench);
	assert_false(is_open(&bench));
	restore(&bench);
	assert_file(&bench.root, PATH, OLD);
}

/* The configuration that broke it is another one by now: the new one may try. */
static void it_is_given_up_for_its_own_configuration(void **state)
{
	_cleanup_bench_ struct bench bench;

	(void)state;
	bench_make(&bench, RESTART_NOW);
	bench.fake.fails = 1;
	begin(&bench);
	run_to_restart(&bench, 1);
	bench_kill(&bench);
	bench.core.checksum = 2;
	assert_true(pipeline_resume(&bench.pipeline));
	pipeline_run(&bench.pipeline);
	assert_int_equal(bench.fake.restarts, 2);
	assert_file(&bench.root, PATH, OLD);
	look(&bench, 1);
	look(&bench, 1);
	expect(&bench, SETTING_IN_SYNC, "in-sync", 3, NEW);
}

static void killed_again_while_the_old_file_is_tried(void **state)
{
	_cleanup_bench_ struct bench bench;

	(void)state;
	bench_make(&bench, RESTART_NOW);
	bench.fake.fails = 1;
	begin(&bench);
	run_to(&bench, PIPELINE_PUTTING_BACK);
	run_to_restart(&bench, 2);
	bench_kill(&bench);
	assert_true(is_open(&bench));
	assert_true(pipeline_resume(&bench.pipeline));
	pipeline_run(&bench.pipeline);
	assert_false(is_open(&bench));
	look(&bench, 1);
	expect(&bench, SETTING_FAILED, "did-not-come-back", 2, OLD);
}

/* Wherever it was: in the end the old file is back, the unit is up, and nothing is tried again. */
static void killed_at_any_step(void **state)
{
	bool ended = false;

	(void)state;
	for (unsigned steps = 0; !ended; steps += 3) {
		_cleanup_bench_ struct bench bench;

		bench_make(&bench, RESTART_NOW);
		bench.fake.fails = 1;
		begin(&bench);
		for (unsigned i = 0; i < steps && bench.pipeline.step != PIPELINE_IDLE; i++)
			bench_step(&bench);
		ended = bench.pipeline.step == PIPELINE_IDLE;
		bench_kill(&bench);
		while (pipeline_resume(&bench.pipeline))
			pipeline_run(&bench.pipeline);
		for (int i = 0; i < 3; i++)
			look(&bench, HOUR);
		/* A third one when what was asked for last had not been heard by then. */
		if (bench.fake.restarts != 2 && bench.fake.restarts != 3)
			fail_msg("after %u steps: %u restarts", steps, bench.fake.restarts);
		expect(&bench, SETTING_FAILED, "did-not-come-back", bench.fake.restarts, OLD);
		assert_string_equal(bench.fake.state, "active");
		assert_false(is_open(&bench));
	}
}

/* Nothing to put back: somebody restored meanwhile. */
static void without_files_of_ours_it_is_over(void **state)
{
	_cleanup_bench_ struct bench bench;
	struct journal_restart mark = {.unit = FAKE_UNIT, .at_s = 1};

	(void)state;
	bench_make(&bench, RESTART_NOW);
	assert_int_equal(journal_begin_restart(bench.core.journal, &mark), 0);
	assert_false(pipeline_resume(&bench.pipeline));
	assert_false(is_open(&bench));
	assert_int_equal(bench.fake.restarts, 0);
}

/* As long as nobody can be asked what came of it, another one must not cover it up. */
static void without_a_bus_it_stays_open(void **state)
{
	_cleanup_bench_ struct bench bench;
	char address[PATH_MAX];

	(void)state;
	bench_make(&bench, RESTART_NOW);
	begin(&bench);
	run_to_restart(&bench, 1);
	bench_kill(&bench);
	copy_text(address, sizeof(address), getenv("DBUS_SYSTEM_BUS_ADDRESS"));
	setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent/bus", 1);
	assert_true(pipeline_resume(&bench.pipeline));
	pipeline_run(&bench.pipeline);
	setenv("DBUS_SYSTEM_BUS_ADDRESS", address, 1);
	assert_true(is_open(&bench));
	assert_false(pipeline_resume(&bench.pipeline)); /* soon, not at once */
	bench.seen = 1;
	look(&bench, 0);
	expect(&bench, SETTING_PENDING, "restart-refused", 1, NEW);
	bench.pipeline.resume_us = 0;
	assert_true(pipeline_resume(&bench.pipeline));
	pipeline_run(&bench.pipeline);
	assert_false(is_open(&bench));
}

/* Moves the last restart in time, by the clock on the wall. */
static void set_at(struct bench *bench, int64_t seconds_from_now)
{
	bench->core.journal->restarts[0].at_s =
		(uint64_t)((int64_t)(realtime_us() / USEC_PER_SEC) + seconds_from_now);
}

static void the_hour_of_when_idle_outlives_it(void **state)
{
	static const int64_t within[] = {-1, -3500, 60, 3500};
	static const int64_t without[] = {-3601, 7200};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(within) + ARRAY_SIZE(without); i++) {
		_cleanup_bench_ struct bench bench;
		bool waits = i < ARRAY_SIZE(within);

		bench_make(&bench, RESTART_WHEN_IDLE);
		look(&bench, 0);
		look(&bench, 1);
		expect(&bench, SETTING_IN_SYNC, "in-sync", 1, NEW);
		bench_kill(&bench);
		set_at(&bench, waits ? within[i] : without[i - ARRAY_SIZE(within)]);
		bench.edit.text = "3";
		copy_text(bench.want.wanted, SETTING_VALUE_MAX, "3");
		look(&bench, 1);
		expect(&bench, SETTING_PENDING, "restart-pending", waits ? 1 : 2, OLD);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_on_disk_before_systemd_is_asked),
		cmocka_unit_test(without_a_note_there_is_no_restart),
		cmocka_unit_test(killed_and_it_does_not_come_back),
		cmocka_unit_test(killed_and_it_comes_back),
		cmocka_unit_test(it_is_given_up_for_its_own_configuration),
		cmocka_unit_test(killed_again_while_the_old_file_is_tried),
		cmocka_unit_test(killed_at_any_step),
		cmocka_unit_test(without_files_of_ours_it_is_over),
		cmocka_unit_test(without_a_bus_it_stays_open),
		cmocka_unit_test(the_hour_of_when_idle_outlives_it),
	};

	log_init(LOG_LEVEL_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
