/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline_bench.h"

#include <sys/prctl.h>

static void never_means_that_it_waits(void **state)
{
	_cleanup_bench_ struct bench bench;

	(void)state;
	bench_make(&bench, RESTART_NEVER);
	look(&bench, 0);
	expect(&bench, SETTING_PENDING, "restart-pending", 0, NEW);
	for (int i = 0; i < 3; i++) {
		look(&bench, HOUR);
		assert_int_equal(bench.core.plan.n, 0);
		expect(&bench, SETTING_PENDING, "restart-pending", 0, NEW);
	}
	/* Somebody restarts it. */
	bench.fake.restarts++;
	look(&bench, HOUR);
	expect(&bench, SETTING_IN_SYNC, "in-sync", 1, NEW);
	restore(&bench);
	assert_file(&bench.root, PATH, OLD);
	assert_int_equal(bench.fake.restarts, 1);
}

static void now_means_at_once_and_once(void **state)
{
	_cleanup_bench_ struct bench bench;

	(void)state;
	bench_make(&bench, RESTART_NOW);
	look(&bench, 0);
	expect(&bench, SETTING_PENDING, "restart-pending", 1, NEW);
	look(&bench, 1);
	expect(&bench, SETTING_IN_SYNC, "in-sync", 1, NEW);
	restore(&bench);
	assert_file(&bench.root, PATH, OLD);
	assert_int_equal(bench.fake.restarts, 2);
}

/* It runs with something else all the same: then it is not restarted over and over. */
static void what_does_not_help_is_not_repeated(void **state)
{
	_cleanup_bench_ struct bench bench;

	(void)state;
	bench_make(&bench, RESTART_NOW);
	look(&bench, 0);
	for (int i = 0; i < 5; i++) {
		bench.seen = bench.fake.restarts;
		look(&bench, HOUR);
		expect(&bench, SETTING_PENDING, "restart-pending", 1, NEW);
	}
	/* Until somebody asks for it. */
	reconcile_reset(&bench.core.node, NULL);
	look(&bench, 1);
	assert_int_equal(bench.fake.restarts, 2);
}

static void when_idle_waits_for_the_last_pull(void **state)
{
	_cleanup_bench_ struct bench bench;

	(void)state;
	bench_make(&bench, RESTART_WHEN_IDLE);
	bench.edit.service.busy = true;
	for (int i = 0; i < 3; i++) {
		look(&bench, HOUR);
		expect(&bench, SETTING_PENDING, "restart-pending", 0, NEW);
	}
	bench.edit.service.busy = false;
	look(&bench, 1);
	expect(&bench, SETTING_PENDING, "restart-pending", 1, NEW);
	look(&bench, 1);
	expect(&bench, SETTING_IN_SYNC, "in-sync", 1, NEW);
	/* Another value within the hour is written, and waits. */
	bench.edit.text = "3";
	copy_text(bench.want.wanted, SETTING_VALUE_MAX, "3");
	look(&bench, 1);
	expect(&bench, SETTING_PENDING, "restart-pending", 1, OLD);
	look(&bench, HOUR / 2);
	expect(&bench, SETTING_PENDING, "restart-pending", 1, OLD);
}

/* Killed between the write and the restart, or restarted by hand to no avail. */
static void what_stands_in_the_file_already_is_activated(void **state)
{
	_cleanup_bench_ struct bench bench;

	(void)state;
	bench_make(&bench, RESTART_NOW);
	directory_put(&bench.root, PATH, NEW);
	look(&bench, 0);
	expect(&bench, SETTING_PENDING, "restart-pending", 1, NEW);
	look(&bench, 1);
	expect(&bench, SETTING_IN_SYNC, "in-sync", 1, NEW);
	assert_int_equal(bench.core.journal->n_files, 0);
}

static void what_must_not_be_restarted_is_said(void **state)
{
	_cleanup_bench_ struct bench bench;

	(void)state;
	bench_make(&bench, RESTART_NOW);
	bench.fake.kill_mode = "control-group";
	look(&bench, 0);
	expect(&bench, SETTING_PENDING, "restart-refused", 0, NEW);
	look(&bench, 1);
	expect(&bench, SETTING_PENDING, "restart-refused", 0, NEW);
	/* An hour later it may. */
	bench.fake.kill_mode = "process";
	look(&bench, HOUR + USEC_PER_SEC);
	assert_int_equal(bench.fake.restarts, 1);
	look(&bench, 1);
	expect(&bench, SETTING_IN_SYNC, "in-sync", 1, NEW);
}

static void a_runtime_that_does_not_come_back_gets_its_old_file(void **state)
{
	_cleanup_bench_ struct bench bench;
	const struct change *change;

	(void)state;
	bench_make(&bench, RESTART_NOW);
	bench.fake.fails = 1;
	look(&bench, 0);
	expect(&bench, SETTING_FAILED, "did-not-come-back", 2, OLD);
	assert_string_equal(bench.fake.state, "active");
	change = &bench.pipeline.edits.plan.changes[0];
	assert_int_equal(change->error, -ETIMEDOUT);
	assert_non_null(strstr(change->why, "does not answer"));
	for (int i = 0; i < 3; i++) {
		look(&bench, HOUR);
		expect(&bench, SETTING_FAILED, "did-not-come-back", 2, OLD);
	}
	/* Not even by another agent, before the configuration changes. */
	reconcile_reset(&bench.core.node, NULL);
	look(&bench, 1);
	expect(&bench, SETTING_FAILED, "did-not-come-back", 2, OLD);
	bench.core.checksum = 2;
	reconcile_reset(&bench.core.node, NULL);
	look(&bench, 1);
	look(&bench, 1);
	expect(&bench, SETTING_IN_SYNC, "in-sync", 3, NEW);
	restore(&bench);
	assert_file(&bench.root, PATH, OLD);
}

static void a_reload_goes_to_dockerd_alone(void **state)
{
	_cleanup_bench_ struct bench bench;
	int status;
	pid_t child;

	(void)state;
	bench_make(&bench, RESTART_NEVER);
	bench.edit.service.activation = ACTIVATE_RELOAD;
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	bench.edit.service.pid = child;
	copy_text(bench.edit.service.program, sizeof(bench.edit.service.program), "dockerd");
	look(&bench, 0);
	expect(&bench, SETTING_PENDING, "reload-pending", 0, NEW);
	assert_int_equal(waitpid(child, &status, WNOHANG), 0); /* not called dockerd: unharmed */
	look(&bench, 30 * USEC_PER_SEC);
	assert_int_equal(waitpid(child, &status, WNOHANG), 0);
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	child = fork();
	if (child == 0) {
		signal(SIGHUP, SIG_DFL);
		prctl(PR_SET_NAME, "dockerd");
		raise(SIGSTOP);
		pause();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, WUNTRACED), child);
	kill(child, SIGCONT);
	bench.edit.service.pid = child;
	look(&bench, 60 * USEC_PER_SEC);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGHUP);
}

static void a_full_state_directory_leaves_the_file(void **state)
{
	_cleanup_bench_ struct bench bench;

	(void)state;
	bench_make(&bench, RESTART_NOW);
	directory_put(&bench.state, "/files", "in the place of a directory");
	look(&bench, 0);
	expect(&bench, SETTING_FAILED, "not-recorded", 0, OLD);
}

/* Preparing may take seconds: what was reloaded meanwhile counts, and may say to write nothing. */
static void a_configuration_that_changes_meanwhile_counts(void **state)
{
	_cleanup_bench_ struct bench bench;
	struct core *core = &bench.core;

	(void)state;
	bench_make(&bench, RESTART_NOW);
	plan(&bench, 0);
	assert_true(pipeline_apply(&bench.pipeline, &core->plan));
	core->checksum = 2;
	pipeline_run(&bench.pipeline);
	expect(&bench, SETTING_PENDING, "configured", 0, OLD);
	assert_int_equal(bench.pipeline.edits.plan.changes[0].error, -ESTALE);
	look(&bench, 1);
	expect(&bench, SETTING_PENDING, "restart-pending", 1, NEW);
}

/* The note is of the last write: since then its owner may have thought better of restarts. */
static void a_restore_heeds_what_the_configuration_says_by_now(void **state)
{
	static const struct service now[] = {
		{.restart = RESTART_NEVER}, {.restart = RESTART_WHEN_IDLE, .busy = true}};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(now); i++) {
		_cleanup_bench_ struct bench bench;

		bench_make(&bench, RESTART_NOW);
		look(&bench, 0);
		look(&bench, 1);
		expect(&bench, SETTING_IN_SYNC, "in-sync", 1, NEW);
		bench.edit.service.restart = now[i].restart;
		bench.edit.service.busy = now[i].busy;
		look(&bench, 1);
		restore(&bench);
		assert_file(&bench.root, PATH, OLD);
		assert_int_equal(bench.fake.restarts, 1);
	}
}

/* Originals that only a journal knows which nobody can read: kept for who can. */
static void what_a_broken_journal_may_know_is_not_swept(void **state)
{
	_cleanup_bench_ struct bench bench;
	char name[16 + HASH_TEXT_MAX];

	(void)state;
	bench_make(&bench, RESTART_NEVER);
	look(&bench, 0);
	snprintf(name, sizeof(name), "/files/%s", bench.core.journal->files[0].original);
	directory_put(&bench.state, "/" JOURNAL_BAD, "{");
	restore(&bench);
	assert_file(&bench.state, name, OLD);
}

static void what_nothing_needs_is_swept(void **state)
{
	_cleanup_bench_ struct bench bench;
	char name[16 + HASH_TEXT_MAX], full[PATH_MAX];

	(void)state;
	bench_make(&bench, RESTART_NEVER);
	look(&bench, 0);
	snprintf(name, sizeof(name), "/files/%s", bench.core.journal->files[0].original);
	assert_file(&bench.state, name, OLD);
	restore(&bench);
	directory_path(&bench.state, name, full);
	assert_int_equal(access(full, F_OK), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(never_means_that_it_waits),
		cmocka_unit_test(now_means_at_once_and_once),
		cmocka_unit_test(what_does_not_help_is_not_repeated),
		cmocka_unit_test(when_idle_waits_for_the_last_pull),
		cmocka_unit_test(what_stands_in_the_file_already_is_activated),
		cmocka_unit_test(what_must_not_be_restarted_is_said),
		cmocka_unit_test(a_runtime_that_does_not_come_back_gets_its_old_file),
		cmocka_unit_test(a_reload_goes_to_dockerd_alone),
		cmocka_unit_test(a_full_state_directory_leaves_the_file),
		cmocka_unit_test(a_configuration_that_changes_meanwhile_counts),
		cmocka_unit_test(a_restore_heeds_what_the_configuration_says_by_now),
		cmocka_unit_test(what_a_broken_journal_may_know_is_not_swept),
		cmocka_unit_test(what_nothing_needs_is_swept),
	};

	log_init(LOG_LEVEL_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
