/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "apply/values.h"
#include "base/text.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define PATH_A "/proc/sys/vm/a"
#define BOOT   "5e0b9f3c-1d5c-4f7e-9a55-000000000001"

/* A fake node and the records of its values. */
struct fixture {
	struct directory root, run;
	struct value_store *store;
	struct plan plan;
};

static void fixture_make(struct fixture *fixture)
{
	*fixture = (struct fixture){0};
	directory_make(&fixture->root);
	directory_make(&fixture->run);
	assert_int_equal(value_store_open(fixture->run.path, BOOT, true, &fixture->store), 0);
}

static void fixture_clear(struct fixture *fixture)
{
	value_store_close(fixture->store);
	plan_clear(&fixture->plan);
	directory_remove(&fixture->root);
	directory_remove(&fixture->run);
}

#define _cleanup_fixture_  __attribute__((cleanup(fixture_clear)))
#define FIXTURE_TEST(name) TEST_OF(fixture, fixture, fixture_make, fixture_clear, name)

static void plan_value(struct fixture *fixture, const char *name, const char *old, const char *new)
{
	struct change *change = plan_add(&fixture->plan, NULL, name, "sysctl", old, new);

	assert_non_null(change);
	snprintf(change->target.path, SETTING_PATH_MAX, "/proc/sys/vm/%s", name + strlen("vm."));
	change->reason = REASON_CONFIGURED;
}

/* Changes vm.a from old to new and returns the error. */
static int set(struct fixture *fixture, const char *old, const char *new)
{
	plan_clear(&fixture->plan);
	plan_value(fixture, "vm.a", old, new);
	values_apply(&fixture->root.host, fixture->store, &fixture->plan);
	return fixture->plan.changes[0].error;
}

static void restore(struct fixture *fixture, const char *only)
{
	plan_clear(&fixture->plan);
	values_restore(&fixture->root.host, fixture->store, only, &fixture->plan);
}

/* ---- records ---- */

static void reopen(struct fixture *fixture, const char *boot, bool write)
{
	value_store_close(fixture->store);
	assert_int_equal(value_store_open(fixture->run.path, boot, write, &fixture->store), 0);
}

/* Another process reads these records, as "name=wanted". */
static void assert_records(const struct fixture *fixture, const char *boot, const char *text)
{
	_cleanup_(cleanup_value_store_close) struct value_store *store = NULL;
	char found[256] = "";

	assert_int_equal(value_store_open(fixture->run.path, boot, false, &store), 0);
	for (size_t i = 0; i < store->n; i++)
		if (store->records[i].name[0])
			text_append(found, sizeof(found), "%s=%s ", store->records[i].name,
				store->records[i].wanted);
	assert_string_equal(found, text);
}

FIXTURE_TEST(records_outlive_the_process_and_end_with_the_boot)
{
	directory_put(&fixture->root, PATH_A, "1\n");
	directory_put(&fixture->root, "/proc/sys/vm/b", "1\n");
	plan_value(fixture, "vm.b", "1", "3");
	values_apply(&fixture->root.host, fixture->store, &fixture->plan);
	assert_int_equal(set(fixture, "1", "2"), 0);
	assert_int_equal(set(fixture, "2", "4"), 0);
	assert_records(fixture, BOOT, "vm.b=3 vm.a=4 "); /* while it is open, too */
	reopen(fixture, BOOT, true);
	assert_records(fixture, BOOT, "vm.b=3 vm.a=4 ");
	assert_records(fixture, "another", "");
	assert_records(fixture, "", "vm.b=3 vm.a=4 "); /* the boot is unknown */
	reopen(fixture, "another", true);
	assert_records(fixture, BOOT, "");
}

FIXTURE_TEST(a_file_of_unknown_format_is_left_alone)
{
	struct value_store *store = NULL;

	directory_delete(&fixture->run, "/" VALUE_STORE_FILE);
	assert_records(fixture, BOOT, ""); /* the file is missing */
	directory_put(&fixture->run, "/" VALUE_STORE_FILE, "noise");
	for (int write = 0; write < 2; write++)
		assert_int_equal(
			value_store_open(fixture->run.path, BOOT, write, &store), -EBADMSG);
	assert_file(&fixture->run, "/" VALUE_STORE_FILE, "noise");
	assert_int_equal(value_store_open("/nonexistent", BOOT, true, &store), -ENOENT);
}

#define HEADER_SIZE 128

/* Where the first slot and its copies are in the file, whose size is n. */
static size_t copy_size(size_t n)
{
	return ((n - HEADER_SIZE) / VALUE_STORE_MAX - sizeof(uint32_t)) / 2;
}

static char *values_path(const struct fixture *fixture, char path[static PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s/" VALUE_STORE_FILE, fixture->run.path);
	return path;
}

/* Opens the file as it is. Returns 0 with what vm.a is to be, or an error. */
static int read_wanted(const struct fixture *fixture, char wanted[static SETTING_VALUE_MAX])
{
	struct value_store *store;
	int r = value_store_open(fixture->run.path, BOOT, false, &store);

	if (r < 0)
		return r;
	assert_int_equal(store->n, 1);
	assert_string_equal(store->records[0].name, "vm.a");
	assert_string_equal(store->records[0].original, "1");
	copy_text(wanted, SETTING_VALUE_MAX, store->records[0].wanted);
	value_store_close(store);
	return 0;
}

FIXTURE_TEST(a_changed_bit_is_mended_or_refused)
{
	char path[PATH_MAX], wanted[SETTING_VALUE_MAX];
	_cleanup_free_ char *whole = NULL;
	_cleanup_close_ int fd = -1;
	size_t n, refused = 0, end;

	directory_put(&fixture->root, PATH_A, "1\n");
	assert_int_equal(set(fixture, "1", "2"), 0);
	assert_int_equal(read_file(values_path(fixture, path), 1 << 20, &whole, &n), 0);
	fd = open(path, O_RDWR | O_CLOEXEC);
	end = HEADER_SIZE + sizeof(uint32_t) + 2 * copy_size(n);
	for (size_t bit = 0; bit < 8 * end; bit += bit < 8 * HEADER_SIZE + 32 ? 3 : 59) {
		char damaged = (char)(whole[bit / 8] ^ (1 << bit % 8));
		int r;

		assert_int_equal(pwrite(fd, &damaged, 1, (off_t)(bit / 8)), 1);
		r = read_wanted(fixture, wanted);
		assert_int_equal(pwrite(fd, whole + bit / 8, 1, (off_t)(bit / 8)), 1);
		refused += r < 0;
		assert_true(r == 0 || r == -EBADMSG || r == -EPROTO);
		if (r == 0)
			assert_string_equal(wanted, "2");
		/* Each record is there twice. */
		assert_true(r == 0 || bit < 8 * (HEADER_SIZE + sizeof(uint32_t)));
	}
	assert_in_range(refused, 50, SIZE_MAX);
}

/* put_record() stores in this order: the second copy, current, the first copy, current. */
FIXTURE_TEST(a_kill_between_any_two_stores_leaves_a_whole_record)
{
	_cleanup_free_ char *old = NULL, *new = NULL;
	char path[PATH_MAX], wanted[SETTING_VALUE_MAX];
	const uint32_t second = 2;
	bool is_new = false;
	size_t n, size;
	int fd;

	directory_put(&fixture->root, PATH_A, "1\n");
	assert_int_equal(set(fixture, "1", "2"), 0);
	assert_int_equal(read_file(values_path(fixture, path), 1 << 20, &old, &n), 0);
	assert_int_equal(set(fixture, "2", "4"), 0);
	assert_int_equal(read_file(path, 1 << 20, &new, &n), 0);
	size = copy_size(n);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_int_equal(pwrite(fd, old, n, 0), n);
	for (size_t done = 0; done <= 2 * size; done += 13) {
		size_t first = HEADER_SIZE + sizeof(uint32_t), from = first + size;
		size_t part = MIN(done, size);

		assert_int_equal(pwrite(fd, new + from, part, (off_t)from), part);
		if (done >= size) {
			assert_int_equal(pwrite(fd, &second, 4, HEADER_SIZE), 4);
			part = done - size;
			assert_int_equal(pwrite(fd, new + first, part, (off_t)first), part);
		}
		assert_int_equal(read_wanted(fixture, wanted), 0);
		assert_string_equal(wanted, done < size ? "2" : "4");
		is_new |= wanted[0] == '4';
	}
	close(fd);
	assert_true(is_new);
	/* The next process goes on from there. */
	reopen(fixture, BOOT, true);
	assert_int_equal(set(fixture, "4", "5"), 0);
	assert_int_equal(read_wanted(fixture, wanted), 0);
	assert_string_equal(wanted, "5");
}

/* An earlier version writes the first copy, then current. */
FIXTURE_TEST(a_kill_of_an_earlier_version_leaves_the_record_before)
{
	char path[PATH_MAX], wanted[SETTING_VALUE_MAX], torn[64] = "torn";
	int fd;

	directory_put(&fixture->root, PATH_A, "1\n");
	assert_int_equal(set(fixture, "1", "2"), 0);
	fd = open(values_path(fixture, path), O_RDWR | O_CLOEXEC);
	assert_int_equal(
		pwrite(fd, torn, sizeof(torn), HEADER_SIZE + sizeof(uint32_t)), sizeof(torn));
	close(fd);
	assert_int_equal(read_wanted(fixture, wanted), 0);
	reopen(fixture, BOOT, true);
	value_store_adopt(fixture->store, "unit");
	assert_int_equal(set(fixture, "2", "4"), 0);
	assert_int_equal(read_wanted(fixture, wanted), 0);
	assert_string_equal(wanted, "4");
}

/* ---- values ---- */

FIXTURE_TEST(a_value_is_recorded_written_and_read_back)
{
	const struct value_record *record = fixture->store->records;

	directory_put(&fixture->root, PATH_A, "10000\n");
	assert_int_equal(set(fixture, "10000", "20000"), 0);
	assert_file(&fixture->root, PATH_A, "20000\n");
	assert_string_equal(fixture->plan.changes[0].actual, "20000");
	assert_int_equal(set(fixture, "20000", "30000"), 0);
	assert_records(fixture, BOOT, "vm.a=30000 ");
	assert_string_equal(record->original, "10000");
	assert_string_equal(record->before, "30000"); /* 20000 is not ours any more */
}

FIXTURE_TEST(a_value_that_others_wrote_since_it_was_judged_is_left)
{
	directory_put(&fixture->root, PATH_A, "30000\n");
	assert_int_equal(set(fixture, "10000", "20000"), -ESTALE);
	assert_file(&fixture->root, PATH_A, "30000\n");
	assert_records(fixture, BOOT, "");
	assert_int_equal(set(fixture, "10000", "30000"), 0); /* they wrote ours */
}

/* The kernel may store another value than the written one. Here the file keeps its tail. */
FIXTURE_TEST(another_value_read_back_is_a_failure)
{
	directory_put(&fixture->root, PATH_A, "10000\n");
	assert_int_equal(set(fixture, "10000", "2"), -ERANGE);
	assert_string_equal(fixture->plan.changes[0].actual, "20000");
	assert_int_equal(fixture->plan.changes[0].reason, REASON_NOT_TAKEN);
	/* A restore replaces it nevertheless. */
	restore(fixture, NULL);
	assert_file(&fixture->root, PATH_A, "10000\n");
}

FIXTURE_TEST(a_refused_write_does_not_stop_the_others)
{
	struct path a = directory_at(&fixture->root, PATH_A);

	assert_int_equal(make_directories(a.text, 0700), 0); /* even root cannot write it */
	directory_put(&fixture->root, "/proc/sys/vm/b", "1\n");
	plan_value(fixture, "vm.a", "1", "2");
	plan_value(fixture, "vm.b", "1", "2");
	values_apply(&fixture->root.host, fixture->store, &fixture->plan);
	assert_int_equal(fixture->plan.changes[0].error, -EISDIR);
	assert_int_equal(fixture->plan.changes[0].reason, REASON_WRITE_REFUSED);
	assert_file(&fixture->root, "/proc/sys/vm/b", "2\n");
	assert_int_equal(fixture->plan.changes[1].error, 0);
}

/* Its record ends with the write, not before: a killed process leaves the one or the other. */
FIXTURE_TEST(a_value_that_is_no_longer_configured_gets_its_original)
{
	struct change *change;

	directory_put(&fixture->root, PATH_A, "1\n");
	assert_int_equal(set(fixture, "1", "2"), 0);
	value_store_mark(fixture->store, "vm.a", true);
	reopen(fixture, BOOT, true);
	assert_true(fixture->store->records[0].configured);
	for (int gone = 1; gone >= 0; gone--) {
		if (gone)
			directory_delete(&fixture->root, PATH_A);
		else
			directory_put(&fixture->root, PATH_A, "2\n");
		plan_clear(&fixture->plan);
		plan_value(fixture, "vm.a", "2", "1");
		change = &fixture->plan.changes[0];
		change->reason = REASON_NO_LONGER_CONFIGURED;
		values_apply(&fixture->root.host, fixture->store, &fixture->plan);
		assert_int_equal(change->error, gone ? -ENOENT : 0);
		assert_int_equal(
			change->reason, gone ? REASON_NOT_RESTORED : REASON_NO_LONGER_CONFIGURED);
		assert_records(fixture, BOOT, gone ? "vm.a=2 " : "");
	}
	assert_file(&fixture->root, PATH_A, "1\n");
}

FIXTURE_TEST(a_value_that_cannot_be_recorded_is_not_written)
{
	char name[16];

	directory_put(&fixture->root, PATH_A, "1\n");
	directory_put(&fixture->root, "/proc/sys/vm/0", "1\n");
	for (unsigned i = 0; i < VALUE_STORE_MAX; i++) {
		snprintf(name, sizeof(name), "vm.%u", i);
		plan_value(fixture, name, "1", "2");
		strcpy(fixture->plan.changes[i].target.path, "/proc/sys/vm/0");
	}
	values_apply(&fixture->root.host, fixture->store, &fixture->plan);
	assert_int_equal(set(fixture, "1", "2"), -ENOSPC);
	assert_int_equal(fixture->plan.changes[0].reason, REASON_NOT_RECORDED);
	assert_file(&fixture->root, PATH_A, "1\n");
	restore(fixture, NULL);
	assert_int_equal(set(fixture, "1", "2"), 0);
}

/* The kernel kills a process that writes to a file, after the record, which is only memory. */
static void set_and_die(struct fixture *fixture, const char *old, const char *new)
{
	pid_t child = fork();
	int status = 0;

	if (child == 0) {
		(void)signal(SIGXFSZ, SIG_DFL);
		(void)setrlimit(RLIMIT_FSIZE, &(struct rlimit){0});
		(void)set(fixture, old, new);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ);
	reopen(fixture, BOOT, true);
}

FIXTURE_TEST(a_value_of_someone_else_does_not_become_the_value_before_ours)
{
	directory_put(&fixture->root, PATH_A, "10000\n");
	assert_int_equal(set(fixture, "10000", "30000"), 0);
	directory_put(&fixture->root, PATH_A, "77777\n");
	set_and_die(fixture, "77777", "40000");
	assert_string_equal(fixture->store->records[0].before, "30000");
}

/* 10000 was the original; 20000 was written, then 30000 was recorded, and perhaps written. */
TEST(restore_skips_values_changed_by_others)
{
	static const struct {
		bool killed;
		const char *found; /* NULL: the file is missing */
		const char *left;
		enum reason reason;
	} cases[] = {
		{true, "10000\n", "10000\n", REASON_ORIGINAL},
		{true, "20000\n", "10000\n", REASON_ORIGINAL},
		{true, "30000\n", "10000\n", REASON_ORIGINAL}, /* killed after the write */
		{true, "40000\n", "40000\n", REASON_CHANGED_SINCE},
		{false, "20000\n", "20000\n", REASON_CHANGED_SINCE},
		{false, "30000\n", "10000\n", REASON_ORIGINAL},
		{false, NULL, NULL, REASON_NOT_IN_THIS_KERNEL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_fixture_ struct fixture fixture;

		fixture_make(&fixture);
		directory_put(&fixture.root, PATH_A, "10000\n");
		set(&fixture, "10000", "20000");
		if (cases[i].killed)
			set_and_die(&fixture, "20000", "30000");
		else
			set(&fixture, "20000", "30000");
		if (cases[i].found)
			directory_put(&fixture.root, PATH_A, cases[i].found);
		else
			directory_delete(&fixture.root, PATH_A);
		restore(&fixture, "thp"); /* another tuner */
		assert_int_equal(fixture.plan.n, 0);
		restore(&fixture, i % 2 ? "sysctl" : NULL);
		assert_int_equal(fixture.plan.n, 1);
		assert_int_equal(fixture.plan.changes[0].error, 0);
		assert_int_equal(fixture.plan.changes[0].reason, cases[i].reason);
		if (cases[i].left)
			assert_file(&fixture.root, PATH_A, cases[i].left);
		/* A missing file may come back before the next boot: its record stays. */
		assert_records(&fixture, BOOT, cases[i].found ? "" : "vm.a=30000 ");
	}
}

FIXTURE_TEST(an_empty_original_is_restored)
{
	directory_put(&fixture->root, PATH_A, "\n");
	assert_int_equal(set(fixture, "", "1"), 0);
	/* Writing no byte changes nothing: an empty line clears a list of ports. */
	directory_put(&fixture->root, PATH_A, "1");
	restore(fixture, NULL);
	assert_file(&fixture->root, PATH_A, "\n");
	assert_int_equal(fixture->plan.changes[0].error, 0);
	assert_records(fixture, BOOT, "");
}

/* ---- one value ---- */

static int set_target(struct fixture *fixture, const struct host *host,
	const struct value_target *target, const char *value)
{
	plan_clear(&fixture->plan);
	plan_value(fixture, "vm.a", "", value);
	fixture->plan.changes[0].target = *target;
	(void)host_read_value(host, target->path, fixture->plan.changes[0].old);
	values_apply(host, fixture->store, &fixture->plan);
	return fixture->plan.changes[0].error;
}

FIXTURE_TEST(a_missing_or_read_only_file_is_refused)
{
	const struct value_target target = {.kind = VALUE_FILE, .path = "/proc/self/status"};
	struct host host;

	assert_int_equal(set(fixture, "", "1"), -ENOENT);
	assert_null(directory_get(&fixture->root, PATH_A)); /* no file is created */
	/* Nobody may write this file of the kernel. */
	assert_true(host_init(&host, "/"));
	assert_true(set_target(fixture, &host, &target, "1") < 0);
	assert_int_equal(fixture->plan.changes[0].reason, REASON_WRITE_REFUSED);
}

#define THRESHOLD "/proc/sys/net/ipv4/neigh/default/gc_thresh1"

static const struct value_target threshold = {
	.kind = VALUE_NEIGHTBL, .path = THRESHOLD, .family = AF_INET, .level = 1};

/* Netlink would change the kernel of the test machine. */
FIXTURE_TEST(a_threshold_below_another_root_is_a_file)
{
	_cleanup_free_ char *before = NULL, *after = NULL;

	(void)read_file(THRESHOLD, 100, &before, NULL);
	assert_int_equal(set_target(fixture, &fixture->root.host, &threshold, "4711"), -EOPNOTSUPP);
	directory_put(&fixture->root, THRESHOLD, "1024\n");
	assert_int_equal(set_target(fixture, &fixture->root.host, &threshold, "4711"), 0);
	assert_file(&fixture->root, THRESHOLD, "4711\n");
	(void)read_file(THRESHOLD, 100, &after, NULL);
	if (before && after)
		assert_string_equal(before, after);
}

/* They are refused before netlink sends anything to the kernel of the test machine. */
FIXTURE_TEST(invalid_thresholds_are_refused)
{
	static const char *const values[] = {"", "-1", "x", "2147483648", "1 2"};
	struct value_target target = threshold;
	struct host host;

	if (access(THRESHOLD, F_OK) < 0)
		skip();
	assert_true(host_init(&host, ""));
	for (size_t i = 0; i < ARRAY_SIZE(values); i++)
		assert_int_equal(set_target(fixture, &host, &target, values[i]), -EINVAL);
	for (target.level = 0; target.level <= 4; target.level += 4)
		assert_int_equal(set_target(fixture, &host, &target, "1"), -EINVAL);
}

DIRECTORY_TEST(a_lock_names_the_process_that_holds_it)
{
	char holder[256], expected[64], ready;
	int ends[2];
	pid_t pid;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (lock_acquire(directory->path, "apply", true, holder, sizeof(holder)) >= 0)
			(void)!write(ends[1], "-", 1);
		pause();
	}
	assert_int_equal(read(ends[0], &ready, 1), 1);
	assert_int_equal(
		lock_acquire(directory->path, "agent", true, holder, sizeof(holder)), -EBUSY);
	snprintf(expected, sizeof(expected), "apply, pid %d", pid);
	assert_string_equal(holder, expected);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(ends[0]);
	close(ends[1]);
}
