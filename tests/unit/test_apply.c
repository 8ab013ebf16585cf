/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "apply/apply.h"
#include "apply/reconcile.h"

#include <errno.h>
#include <sys/stat.h>

#define PATH_A "/proc/sys/vm/a"

/* A made-up node and its journal. */
struct bench {
	struct directory root, state;
	struct host host;
	struct journal *journal;
	struct node node;
	struct setting setting;
	struct plan plan;
};

static void bench_make(struct bench *bench)
{
	*bench = (struct bench){0};
	directory_make(&bench->root);
	directory_make(&bench->state);
	assert_true(host_init(&bench->host, bench->root.path));
	assert_int_equal(journal_open(bench->state.path, "boot", true, &bench->journal), 0);
	copy_text(bench->setting.want.name, SETTING_NAME_MAX, "vm.a");
	bench->setting.reason = "configured";
	bench->setting.state = SETTING_PENDING;
	bench->node.settings = &bench->setting;
	bench->node.n_settings = 1;
}

static void bench_clear(struct bench *bench)
{
	journal_close(bench->journal);
	plan_clear(&bench->plan);
	directory_remove(&bench->root);
	directory_remove(&bench->state);
}

#define _cleanup_bench_ __attribute__((cleanup(bench_clear)))

static void plan_value(struct bench *bench, const char *name, const char *old, const char *new)
{
	struct change *change = plan_add(&bench->plan);

	assert_non_null(change);
	copy_text(change->name, SETTING_NAME_MAX, name);
	copy_text(change->tuner, sizeof(change->tuner), "sysctl");
	snprintf(change->place.path, SETTING_PATH_MAX, "/proc/sys/vm/%s", name + strlen("vm."));
	copy_text(change->old, SETTING_VALUE_MAX, old);
	copy_text(change->new, SETTING_VALUE_MAX, new);
	change->reason = "configured";
}

/* What the agent does with a plan: note, store, write. */
static void carry_out(struct bench *bench)
{
	assert_int_equal(journal_note(bench->journal, &bench->plan), 0);
	assert_int_equal(journal_store(bench->journal), 0);
	apply_plan(&bench->host, &bench->plan, &bench->node, 1000);
}

static void writes_and_reads_back(void **state)
{
	_cleanup_bench_ struct bench bench;

	(void)state;
	bench_make(&bench);
	directory_put(&bench.root, PATH_A, "10000\n");
	plan_value(&bench, "vm.a", "10000", "20000");
	carry_out(&bench);
	assert_file(&bench.root, PATH_A, "20000\n");
	assert_int_equal(bench.plan.changes[0].error, 0);
	assert_string_equal(bench.plan.changes[0].actual, "20000");
	assert_int_equal(plan_failures(&bench.plan), 0);
	assert_int_equal(bench.setting.state, SETTING_IN_SYNC);
	assert_string_equal(bench.setting.want.actual, "20000");
	assert_string_equal(bench.setting.confirmed, "20000");
}

/* A value that the kernel takes and makes another of: here a file that keeps its tail. */
static void another_value_read_back_is_a_failure(void **state)
{
	_cleanup_bench_ struct bench bench;

	(void)state;
	bench_make(&bench);
	directory_put(&bench.root, PATH_A, "10000\n");
	plan_value(&bench, "vm.a", "10000", "2");
	carry_out(&bench);
	assert_int_equal(bench.plan.changes[0].error, -ERANGE);
	assert_string_equal(bench.plan.changes[0].actual, "20000");
	assert_int_equal(bench.setting.state, SETTING_FAILED);
	assert_string_equal(bench.setting.reason, "not-taken");
	assert_string_equal(bench.setting.want.actual, "20000"); /* what stands there */
	assert_int_equal(bench.setting.retry_at_us, 1000 + RETRY_US);
}

static void someone_quicker_in_a_fight_is_no_failure(void **state)
{
	_cleanup_bench_ struct bench bench;

	(void)state;
	bench_make(&bench);
	bench.setting.rounds = 1;
	directory_put(&bench.root, PATH_A, "10000\n");
	plan_value(&bench, "vm.a", "10000", "2");
	carry_out(&bench);
	assert_int_equal(bench.plan.changes[0].error, -ERANGE);
	assert_int_equal(bench.setting.state, SETTING_PENDING);
}

static void a_refused_write_is_told_and_no_reason_to_stop(void **state)
{
	_cleanup_bench_ struct bench bench;
	char path[PATH_MAX];

	(void)state;
	bench_make(&bench);
	directory_path(&bench.root, PATH_A, path);
	assert_int_equal(make_directories(path, 0700), 0); /* what even root cannot write */
	directory_put(&bench.root, "/proc/sys/vm/b", "1\n");
	plan_value(&bench, "vm.a", "1", "2");
	plan_value(&bench, "vm.b", "1", "2");
	carry_out(&bench);
	assert_int_equal(bench.plan.changes[0].error, -EISDIR);
	assert_int_equal(bench.setting.state, SETTING_FAILED);
	assert_string_equal(bench.setting.reason, "write-refused");
	assert_int_equal(bench.setting.error, -EISDIR);
	assert_int_equal(bench.plan.changes[1].error, 0);
	assert_file(&bench.root, "/proc/sys/vm/b", "2\n");
	assert_int_equal(plan_failures(&bench.plan), 1);
}

static void without_a_journal_nothing_is_written(void **state)
{
	_cleanup_bench_ struct bench bench;

	(void)state;
	bench_make(&bench);
	directory_put(&bench.root, PATH_A, "1\n");
	plan_value(&bench, "vm.a", "1", "2");
	apply_refused(&bench.plan, &bench.node, -ENOSPC, 1000);
	assert_file(&bench.root, PATH_A, "1\n");
	assert_int_equal(bench.plan.changes[0].error, -ENOSPC);
	assert_string_equal(bench.plan.changes[0].actual, "1");
	assert_int_equal(bench.setting.state, SETTING_FAILED);
	assert_string_equal(bench.setting.reason, "not-recorded");
}

/* Only what a durable record names in advance may be written before it is noted. */
static void what_is_urgent(void **state)
{
	_cleanup_bench_ struct bench bench;
	struct plan urgent = {0};

	(void)state;
	bench_make(&bench);
	plan_value(&bench, "vm.a", "1", "2");
	bench.plan.changes[0].ahead = (struct ladder){.rungs = {"4", "8"}, .n = 2};
	assert_int_equal(journal_note(bench.journal, &bench.plan), 0);
	bench.plan.n = 0;
	plan_value(&bench, "vm.a", "2", "8");
	plan_value(&bench, "vm.a", "2", "5");
	plan_value(&bench, "vm.b", "2", "8");
	assert_int_equal(plan_take_urgent(&bench.plan, bench.journal, &urgent), 0);
	assert_int_equal(urgent.n, 1);
	assert_string_equal(urgent.changes[0].new, "8");
	assert_int_equal(bench.plan.n, 2);
	assert_string_equal(bench.plan.changes[0].new, "5");
	assert_string_equal(bench.plan.changes[1].name, "vm.b");
	plan_clear(&urgent);
}

static void restore(struct bench *bench, const char *only)
{
	static const char *const tuners[] = {"sysctl", "thp", NULL};

	plan_clear(&bench->plan);
	assert_int_equal(restore_make_plan(&bench->host, bench->journal, only, &bench->plan), 0);
	restore_plan(&bench->host, bench->journal, only, tuners, &bench->plan);
}

static void note_value(struct bench *bench, const char *old, const char *new)
{
	bench->plan.n = 0;
	plan_value(bench, "vm.a", old, new);
	assert_int_equal(journal_note(bench->journal, &bench->plan), 0);
}

/*
 * The journal says: 10000 was the original; 20000 was written, then 30000 was noted. Killed at any
 * point of that, or changed by others since, this is what restore does.
 */
static void restore_puts_back_what_is_ours(void **state)
{
	static const struct {
		const char *found; /* NULL: the file has gone */
		const char *left;
		const char *reason;
	} cases[] = {
		{"10000\n", "10000\n", "original"}, /* killed before the first write */
		{"20000\n", "10000\n",
			"original"}, /* killed between the second note and its write */
		{"30000\n", "10000\n", "original"},
		{"40000\n", "40000\n", "changed-since"}, /* someone else's: left */
		{NULL, NULL, "not-in-this-kernel"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_bench_ struct bench bench;

		bench_make(&bench);
		note_value(&bench, "10000", "20000");
		note_value(&bench, "20000", "30000");
		if (cases[i].found)
			directory_put(&bench.root, PATH_A, cases[i].found);
		restore(&bench, NULL);
		assert_int_equal(bench.plan.n, 1);
		assert_int_equal(plan_failures(&bench.plan), 0);
		assert_string_equal(bench.plan.changes[0].reason, cases[i].reason);
		if (cases[i].left)
			assert_file(&bench.root, PATH_A, cases[i].left);
		else
			assert_null(directory_get(&bench.root, PATH_A));
		/* What cannot be seen now may be seen again before the next boot. */
		assert_int_equal(bench.journal->n_records, cases[i].found ? 0 : 1);
		assert_true(journal_is_released(bench.journal, "sysctl", 0));
		assert_true(journal_is_released(bench.journal, "thp", 0));
	}
}

static void an_empty_original_is_put_back(void **state)
{
	_cleanup_bench_ struct bench bench;

	(void)state;
	bench_make(&bench);
	note_value(&bench, "", "1");
	directory_put(&bench.root, PATH_A, "1");
	restore(&bench, NULL);
	assert_string_equal(bench.plan.changes[0].reason, "original");
	assert_int_equal(plan_failures(&bench.plan), 0);
	assert_file(&bench.root, PATH_A, "\n");
	assert_int_equal(bench.journal->n_records, 0);
}

/* While the journal was being stored the table grew, or the configuration changed. */
static void what_is_no_longer_wanted_is_not_written(void **state)
{
	_cleanup_bench_ struct bench bench;

	(void)state;
	bench_make(&bench);
	copy_text(bench.setting.want.wanted, SETTING_VALUE_MAX, "20000");
	plan_value(&bench, "vm.a", "10000", "20000");
	plan_value(&bench, "vm.gone", "1", "2");
	plan_drop_outdated(&bench.plan, &bench.node);
	assert_int_equal(bench.plan.n, 1);
	copy_text(bench.setting.want.wanted, SETTING_VALUE_MAX, "40000");
	plan_drop_outdated(&bench.plan, &bench.node);
	assert_int_equal(bench.plan.n, 0);
	plan_value(&bench, "vm.a", "10000", "40000");
	bench.setting.mode = MODE_OBSERVE;
	plan_drop_outdated(&bench.plan, &bench.node);
	assert_int_equal(bench.plan.n, 0);
}

static void what_could_not_be_put_back_stays_recorded(void **state)
{
	_cleanup_bench_ struct bench bench;
	char path[PATH_MAX];

	(void)state;
	bench_make(&bench);
	note_value(&bench, "10000", "20000");
	directory_path(&bench.root, PATH_A, path);
	assert_int_equal(make_directories(path, 0700), 0);
	restore(&bench, NULL);
	assert_int_equal(plan_failures(&bench.plan), 1);
	assert_int_equal(bench.journal->n_records, 1);
	/* The next try does it. */
	assert_int_equal(rmdir(path), 0);
	directory_put(&bench.root, PATH_A, "20000\n");
	restore(&bench, NULL);
	assert_int_equal(plan_failures(&bench.plan), 0);
	assert_file(&bench.root, PATH_A, "10000\n");
	assert_int_equal(bench.journal->n_records, 0);
}

static void only_one_tuner(void **state)
{
	_cleanup_bench_ struct bench bench;

	(void)state;
	bench_make(&bench);
	note_value(&bench, "10000", "20000");
	directory_put(&bench.root, PATH_A, "20000\n");
	restore(&bench, "thp");
	assert_int_equal(bench.plan.n, 0);
	assert_file(&bench.root, PATH_A, "20000\n");
	assert_true(journal_is_released(bench.journal, "thp", 0));
	assert_false(journal_is_released(bench.journal, "sysctl", 0));
	restore(&bench, "sysctl");
	assert_file(&bench.root, PATH_A, "10000\n");
	assert_true(journal_is_released(bench.journal, "sysctl", 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writes_and_reads_back),
		cmocka_unit_test(another_value_read_back_is_a_failure),
		cmocka_unit_test(someone_quicker_in_a_fight_is_no_failure),
		cmocka_unit_test(a_refused_write_is_told_and_no_reason_to_stop),
		cmocka_unit_test(without_a_journal_nothing_is_written),
		cmocka_unit_test(what_is_urgent),
		cmocka_unit_test(restore_puts_back_what_is_ours),
		cmocka_unit_test(an_empty_original_is_put_back),
		cmocka_unit_test(what_is_no_longer_wanted_is_not_written),
		cmocka_unit_test(what_could_not_be_put_back_stays_recorded),
		cmocka_unit_test(only_one_tuner),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
