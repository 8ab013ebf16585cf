/* SPDX-License-Identifier: Apache-2.0 */
#include "file_fixture.h"

#include <sys/ptrace.h>

/*
 * A process that writes, changes and restores configuration files is killed, again and again.
 * Whatever it was doing: each file is whole and valid, and a restore gives the original bytes.
 */

#define ROUNDS 100

#define TOML(value)                                                     \
	"version = 2 # 1\n[" CRI "]\n\tmax_concurrent_downloads=" value \
	"\n[metrics]\naddress = \"\"\n"
#define JSON(member)  "{\n  \"live-restore\": true" member "\n}\n"
#define MEMBER(value) ",\n  \"max-concurrent-downloads\": " value

/* What may be there at any moment; the first is the original. */
static const struct {
	const char *path, *texts[3];
} files[] = {
	{CONFIG_TOML, {TOML("3"), TOML("10"), TOML("12")}},
	{DAEMON_JSON, {JSON(""), JSON(MEMBER("10")), JSON(MEMBER("12"))}},
	{HOSTS, {NULL, "10", "12"}},
};

/* What the last life left may be there already: then there is nothing to do. */
static bool apply(struct file_fixture *fixture, const char *on_disk, const char *wanted)
{
	bool good = true;

	change_downloads(fixture, on_disk, wanted);
	change_docker(fixture, on_disk, wanted);
	change_hosts(fixture, wanted, wanted);
	run_job(fixture, FILE_APPLY);
	for (size_t i = 0; i < fixture->job.plan.n; i++)
		good = good && fixture->job.plan.changes[i].error == 0;
	return good;
}

static bool run_life(struct file_fixture *fixture)
{
	fixture_reopen(fixture);
	restore_all(fixture);
	if (!apply(fixture, "3", "10") || !apply(fixture, "10", "12"))
		return false;
	restore_all(fixture);
	return apply(fixture, "3", "12");
}

static void expect_valid(const struct file_fixture *fixture, int round)
{
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		_cleanup_free_ char *now = directory_get(&fixture->root, files[i].path);
		bool valid = !now && !files[i].texts[0];

		for (size_t t = 0; now && t < ARRAY_SIZE(files[i].texts); t++)
			valid = valid || (files[i].texts[t] && streq(now, files[i].texts[t]));
		if (!valid)
			fail_msg("round %d: %s", round, now);
	}
}

static void expect_restored(struct file_fixture *fixture)
{
	fixture_reopen(fixture);
	restore_all(fixture);
	for (size_t i = 0; i < fixture->job.plan.n; i++) {
		assert_int_equal(fixture->job.plan.changes[i].error, 0);
		assert_false(fixture->job.plan.changes[i].left);
	}
	assert_file(&fixture->root, CONFIG_TOML, TOML("3"));
	assert_file(&fixture->root, DAEMON_JSON, JSON(""));
	assert_no_file(&fixture->root, HOSTS);
	assert_no_file(&fixture->root, CONFIG_TOML FILE_NEW);
	assert_no_file(&fixture->root, DAEMON_JSON FILE_NEW);
}

/* One life up to its nth system call, where it is killed; or to its end. How far it came. */
static long live(struct file_fixture *fixture, long nth)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
			_exit(2);
		raise(SIGSTOP);
		_exit(run_life(fixture) ? 0 : 1);
	}
	for (long stops = 0;; stops++) {
		assert_int_equal(waitpid(child, &status, 0), child);
		if (WIFEXITED(status)) {
			assert_int_equal(WEXITSTATUS(status), 0);
			return stops;
		}
		assert_true(WIFSTOPPED(status));
		if (stops == nth)
			break;
		assert_int_equal(ptrace(PTRACE_SYSCALL, child, NULL, NULL), 0);
	}
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, &status, 0), child);
	return nth;
}

FIXTURE_TEST(restore_after_any_death)
{
	long whole_life;
	int killed = 0;

	srandom(20240502);
	directory_put(&fixture->root, CONFIG_TOML, TOML("3"));
	directory_put(&fixture->root, DAEMON_JSON, JSON(""));
	whole_life = live(fixture, LONG_MAX);
	for (int round = 0; round < ROUNDS; round++) {
		long nth = random() % (whole_life + 1);

		killed += live(fixture, nth) == nth;
		expect_valid(fixture, round);
		/* Sometimes another life is cut short before anybody restores. */
		if (random() % 3)
			expect_restored(fixture);
	}
	expect_restored(fixture);
	print_message("%d of %d lives were cut short, of %ld stops\n", killed, ROUNDS, whole_life);
	assert_true(killed > ROUNDS / 2);
}
