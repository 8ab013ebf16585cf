/* SPDX-License-Identifier: Apache-2.0 */
#include "file_fixture.h"
#include "systemd_fixture.h"

#include "base/log.h"

/* A changed file and the restart that it needs; daemon.json stands for any file of a unit. */

#define NAME "docker.max-concurrent-downloads"
#define OLD  "{\n  \"max-concurrent-downloads\": 3\n}\n"
#define NEW  "{\n  \"max-concurrent-downloads\": 10\n}\n"
#define HOUR (3600 * USEC_PER_SEC)

struct bench {
	struct fake_systemd fake;
	struct file_fixture fixture;
	pid_t child; /* to be killed when systemd is asked for a restart */
	int cancel;  /* or: readable then */
	bool was_open;
};

static void bench_make(struct bench *bench)
{
	*bench = (struct bench){.cancel = -1};
	fake_systemd_make(&bench->fake);
	fixture_make(&bench->fixture);
	directory_put(&bench->fixture.root, DAEMON_JSON, OLD);
}

static void bench_clear(struct bench *bench)
{
	fixture_clear(&bench->fixture);
	fake_systemd_clear(&bench->fake);
}

#define _cleanup_bench_  __attribute__((cleanup(bench_clear)))
#define BENCH_TEST(name) TEST_OF(bench, bench, bench_make, bench_clear, name)

/* A job for one value: written when the file has another one, else only to take effect. */
static struct change *change_to(struct bench *bench, const char *wanted, enum restart_policy policy)
{
	_cleanup_free_ char *text = directory_get(&bench->fixture.root, DAEMON_JSON);
	const char *number = text ? strstr(text, ": ") : NULL;
	char on_disk[16];
	struct change *change;

	plan_reset(&bench->fixture.job.plan);
	snprintf(on_disk, sizeof(on_disk), "%d", number ? atoi(number + 2) : 0);
	change = change_docker(&bench->fixture, on_disk, wanted);
	change->file->activate_only = streq(on_disk, wanted);
	change->file->edit.service = (struct service){
		.activation = ACTIVATE_RESTART, .restart = policy, .unit = FAKE_UNIT};
	return change;
}

static struct change *apply(struct bench *bench, const char *wanted, enum restart_policy policy)
{
	struct change *change = change_to(bench, wanted, policy);

	run_job(&bench->fixture, FILE_APPLY);
	return change;
}

static void expect_at(const struct bench *bench, const struct change *change, int error,
	const char *slug, unsigned restarts, const char *file, int line)
{
	const char *found = change->error < 0 ? change->reason : change->held;

	if (change->error != error || !streq(found ? found : "", slug))
		fail_msg("line %d: %d, %s, %s", line, change->error, found,
			change->why ? change->why : "");
	if (bench->fake.restarts != restarts)
		fail_msg("line %d: %u restarts", line, bench->fake.restarts);
	assert_file(&bench->fixture.root, DAEMON_JSON, file);
}

#define expect(bench, change, error, slug, restarts, file) \
	expect_at(bench, change, error, slug, restarts, file, __LINE__)

static struct unit_mark *mark_of(struct bench *bench)
{
	return file_journal_unit(bench->fixture.job.journal, FAKE_UNIT, false);
}

BENCH_TEST(policy_never_leaves_the_restart_to_others)
{
	expect(bench, apply(bench, "10", RESTART_NEVER), 0, "restart-pending", 0, NEW);
	expect(bench, apply(bench, "10", RESTART_NEVER), 0, "restart-pending", 0, NEW);
	restore_all(&bench->fixture);
	assert_file(&bench->fixture.root, DAEMON_JSON, OLD);
	assert_int_equal(bench->fake.restarts, 0);
}

/* In the restart: what the next process would find. */
static void check_mark(struct fake_systemd *fake)
{
	struct bench *bench = fake->userdata;
	_cleanup_free_ char *text = directory_get(&bench->fixture.state, "/journal.json");

	bench->was_open = text && strstr(text, "\"open\":\ttrue");
	if (bench->child > 0)
		kill(bench->child, SIGKILL);
	if (bench->cancel >= 0) {
		close(bench->cancel);
		bench->cancel = -1;
	}
}

BENCH_TEST(a_restart_is_recorded_before_and_restore_makes_another)
{
	const struct change *change;

	bench->fake.restarted = check_mark;
	bench->fake.userdata = bench;
	change = apply(bench, "10", RESTART_NOW);
	expect(bench, change, 0, "restart-pending", 1, NEW);
	assert_true(change->retry_us > now_us());
	assert_true(bench->was_open);
	assert_false(mark_of(bench)->open);
	restore_all(&bench->fixture);
	assert_file(&bench->fixture.root, DAEMON_JSON, OLD);
	assert_int_equal(bench->fake.restarts, 2);
	/* A restore heeds what the configuration allows by now. */
	for (int i = 0; i < 2; i++) {
		expect(bench, apply(bench, "10", RESTART_WHEN_IDLE), 0,
			i == 0 ? "restart-pending" : "restart-pending", 2, NEW);
		bench->fixture.job.restart = i == 0 ? RESTART_NEVER : RESTART_WHEN_IDLE;
		bench->fixture.job.busy = i == 1;
		restore_all(&bench->fixture);
		assert_file(&bench->fixture.root, DAEMON_JSON, OLD);
		assert_int_equal(bench->fake.restarts, 2);
	}
}

BENCH_TEST(a_restart_without_effect_is_not_repeated_for_that_value)
{
	const struct change *change;

	expect(bench, apply(bench, "10", RESTART_NOW), 0, "restart-pending", 1, NEW);
	for (int i = 0; i < 3; i++) {
		change = apply(bench, "10", RESTART_NOW);
		expect(bench, change, -ERANGE, "no-effect", 1, NEW);
		assert_non_null(strstr(change->why, "does not run with it"));
		fixture_reopen(&bench->fixture); /* nor by the next process */
	}
	/* Until somebody asks for it, or wants another value. */
	bench->fixture.job.forced = true;
	expect(bench, apply(bench, "10", RESTART_NOW), 0, "restart-pending", 2, NEW);
	bench->fixture.job.forced = false;
	expect(bench, apply(bench, "10", RESTART_NOW), -ERANGE, "no-effect", 2, NEW);
	expect(bench, apply(bench, "3", RESTART_NOW), 0, "restart-pending", 3, OLD);
	expect(bench, apply(bench, "10", RESTART_NOW), 0, "restart-pending", 4, NEW);
}

BENCH_TEST(when_idle_waits_for_pulls_and_restarts_once_an_hour)
{
	static const int64_t within[] = {-1, -3500, 60, 3500}, beyond[] = {-3601, 7200};
	struct change *change;
	unsigned restarts = 1;

	change = change_to(bench, "10", RESTART_WHEN_IDLE);
	change->file->edit.service.busy = true;
	run_job(&bench->fixture, FILE_APPLY);
	expect(bench, change, 0, "restart-pending", 0, NEW);
	expect(bench, apply(bench, "10", RESTART_WHEN_IDLE), 0, "restart-pending", restarts, NEW);
	for (size_t i = 0; i < ARRAY_SIZE(within); i++) {
		fixture_reopen(&bench->fixture);
		mark_of(bench)->at_s =
			(uint64_t)((int64_t)(realtime_us() / USEC_PER_SEC) + within[i]);
		change = apply(bench, i % 2 ? "10" : "3", RESTART_WHEN_IDLE);
		expect(bench, change, 0, "restart-pending", restarts, i % 2 ? NEW : OLD);
		assert_true(change->retry_us > now_us());
	}
	for (size_t i = 0; i < ARRAY_SIZE(beyond); i++) {
		mark_of(bench)->at_s =
			(uint64_t)((int64_t)(realtime_us() / USEC_PER_SEC) + beyond[i]);
		expect(bench, apply(bench, i % 2 ? "10" : "3", RESTART_WHEN_IDLE), 0,
			"restart-pending", ++restarts, i % 2 ? NEW : OLD);
	}
}

BENCH_TEST(a_refused_restart_says_why)
{
	const struct change *change;

	bench->fake.kill_mode = "control-group";
	change = apply(bench, "10", RESTART_NOW);
	expect(bench, change, 0, "restart-refused", 0, NEW);
	assert_non_null(strstr(change->why, "KillMode"));
	bench->fake.kill_mode = "process";
	/* Without a durable note there is none. */
	assert_int_equal(mkdirat(bench->fixture.job.journal->dir, "journal.json.new", 0700), 0);
	expect(bench, apply(bench, "10", RESTART_NOW), 0, "restart-refused", 0, NEW);
	assert_true(bench->fixture.job.error < 0);
	assert_int_equal(
		unlinkat(bench->fixture.job.journal->dir, "journal.json.new", AT_REMOVEDIR), 0);
	setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent/bus", 1);
	change = apply(bench, "10", RESTART_NOW);
	expect(bench, change, 0, "no-systemd", 0, NEW);
	assert_non_null(strstr(change->why, "systemd cannot be reached"));
}

static void expect_failed(struct bench *bench, const char *value)
{
	assert_int_equal(bench->fixture.job.n_records, 1);
	assert_string_equal(bench->fixture.job.records[0].failed, value);
}

BENCH_TEST(a_program_that_does_not_come_back_gets_its_old_file)
{
	const struct change *change;

	bench->fake.fails = 1;
	change = apply(bench, "10", RESTART_NOW);
	expect(bench, change, -ETIMEDOUT, "did-not-come-back", 2, OLD);
	assert_non_null(strstr(change->why, "does not answer"));
	assert_string_equal(bench->fake.state, "active");
	assert_false(mark_of(bench)->open);
	fixture_reopen(&bench->fixture);
	run_job(&bench->fixture, FILE_RESUME);
	expect_failed(bench, "10");
	/* Another value, or a forced one, may try; and it is forgotten then. */
	expect(bench, apply(bench, "10", RESTART_NOW), 0, "restart-pending", 3, NEW);
	expect_failed(bench, "");
	restore_all(&bench->fixture);
	assert_file(&bench->fixture.root, DAEMON_JSON, OLD);
}

/* What an earlier restart brought stays. */
BENCH_TEST(a_roll_back_undoes_the_last_restart_alone)
{
	struct change *change;

	expect(bench, apply(bench, "10", RESTART_NOW), 0, "restart-pending", 1, NEW);
	bench->fake.fails = 1;
	plan_reset(&bench->fixture.job.plan);
	change = change_downloads(&bench->fixture, "", "12");
	change->file->edit.service = (struct service){
		.activation = ACTIVATE_RESTART, .restart = RESTART_NOW, .unit = FAKE_UNIT};
	assert_int_equal(run_job(&bench->fixture, FILE_APPLY), -ETIMEDOUT);
	assert_file(&bench->fixture.root, DAEMON_JSON, NEW);
	assert_no_file(&bench->fixture.root, CONFIG_TOML);
}

/* What somebody else wrote during the restart stays. */
static void change_file(struct fake_systemd *fake)
{
	struct bench *bench = fake->userdata;

	if (fake->restarts == 1)
		directory_put(&bench->fixture.root, DAEMON_JSON,
			"{\n  \"max-concurrent-downloads\": 10,\n  \"debug\": true\n}\n");
}

BENCH_TEST(a_roll_back_keeps_the_changes_of_others)
{
	bench->fake.fails = 1;
	bench->fake.restarted = change_file;
	bench->fake.userdata = bench;
	expect(bench, apply(bench, "10", RESTART_NOW), -ETIMEDOUT, "did-not-come-back", 2,
		"{\n  \"max-concurrent-downloads\": 3,\n  \"debug\": true\n}\n");
}

/* A job in a process that is killed when systemd has been asked for a restart. */
static void apply_and_die(struct bench *bench, const char *wanted)
{
	int status;

	change_to(bench, wanted, RESTART_NOW);
	bench->fake.restarted = check_mark;
	bench->fake.userdata = bench;
	bench->child = fork();
	if (bench->child == 0) {
		run_job(&bench->fixture, FILE_APPLY);
		_exit(0);
	}
	assert_int_equal(waitpid(bench->child, &status, 0), bench->child);
	assert_true(WIFSIGNALED(status));
	bench->child = 0;
	fixture_reopen(&bench->fixture);
	assert_true(mark_of(bench)->open);
	assert_file(&bench->fixture.root, DAEMON_JSON, NEW);
	plan_reset(&bench->fixture.job.plan);
}

BENCH_TEST(the_next_process_finishes_a_restart)
{
	const struct change *change;

	apply_and_die(bench, "10");
	run_job(&bench->fixture, FILE_RESUME);
	assert_false(mark_of(bench)->open);
	assert_int_equal(bench->fixture.job.n_open, 0);
	assert_int_equal(bench->fake.restarts, 1);
	assert_file(&bench->fixture.root, DAEMON_JSON, NEW);
	/* A plan from before that is outdated. */
	mark_of(bench)->open = true;
	change = apply(bench, "10", RESTART_NOW);
	expect(bench, change, -ESTALE, "not-recorded", 1, NEW);
	/* Nothing of ours left: it is over. */
	restore_all(&bench->fixture);
	mark_of(bench)->open = true;
	run_job(&bench->fixture, FILE_RESUME);
	assert_false(mark_of(bench)->open);
}

TEST(the_next_process_undoes_a_restart)
{
	_cleanup_bench_ struct bench bench;

	for (int forced = 0; forced < 2; forced++) {
		const struct change *change;

		bench_make(&bench);
		bench.fake.fails = 1;
		apply_and_die(&bench, "10");
		bench.fixture.job.forced = forced;
		change = apply(&bench, "10", RESTART_NOW);
		expect(&bench, change, -ETIMEDOUT, "did-not-come-back", 2, OLD);
		assert_string_equal(bench.fake.state, "active");
		assert_false(mark_of(&bench)->open);
		expect_failed(&bench, "10");
		if (forced == 0)
			bench_clear(&bench);
	}
}

BENCH_TEST(the_next_process_leaves_what_the_configuration_forbids)
{
	bench->fake.fails = 1;
	apply_and_die(bench, "10");
	bench->fixture.job.restart = RESTART_NEVER;
	run_job(&bench->fixture, FILE_RESUME);
	assert_false(mark_of(bench)->open);
	assert_int_equal(bench->fake.restarts, 1);
	assert_file(&bench->fixture.root, DAEMON_JSON, NEW);
}

BENCH_TEST(without_systemd_a_restart_stays_open)
{
	apply_and_die(bench, "10");
	setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent/bus", 1);
	run_job(&bench->fixture, FILE_RESUME);
	assert_true(mark_of(bench)->open);
	assert_int_equal(bench->fixture.job.n_open, 1);
	setenv("DBUS_SYSTEM_BUS_ADDRESS", bench->fake.address, 1);
	run_job(&bench->fixture, FILE_RESUME);
	assert_false(mark_of(bench)->open);
	assert_int_equal(bench->fixture.job.n_open, 0);
}

BENCH_TEST(a_cancelled_job_ends_at_once_and_the_next_one_finishes_it)
{
	uint64_t begin;
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	bench->cancel = fds[1];
	bench->fixture.wait.cancel_fd = fds[0];
	bench->fixture.job.timeout_us = 20 * USEC_PER_SEC;
	bench->fake.fails = 1;
	bench->fake.slow = 1000000; /* looks that see it activating */
	bench->fake.restarted = check_mark;
	bench->fake.userdata = bench;
	begin = now_us();
	apply(bench, "10", RESTART_NOW);
	assert_true(now_us() - begin < USEC_PER_SEC);
	assert_true(mark_of(bench)->open);
	close(fds[0]);
	bench->fixture.wait.cancel_fd = -1;
	bench->fixture.job.timeout_us = 300 * USEC_PER_MSEC;
	bench->fake.slow = 0;
	fixture_reopen(&bench->fixture);
	plan_reset(&bench->fixture.job.plan);
	run_job(&bench->fixture, FILE_RESUME);
	assert_false(mark_of(bench)->open);
	assert_int_equal(bench->fake.restarts, 2);
	assert_file(&bench->fixture.root, DAEMON_JSON, OLD);
}
