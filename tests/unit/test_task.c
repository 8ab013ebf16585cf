/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/task.h"

#include <sys/eventfd.h>

struct work {
	int started; /* eventfd: run() signals its start and waits for the cancel; -1: it ends at
			once */
	int result;
	bool done;
};

static void run(void *userdata, const struct wait *wait)
{
	struct work *work = userdata;

	wait_path(wait, "/a/file");
	if (work->started < 0)
		return;
	eventfd_write(work->started, 1);
	work->result = wait_for(wait, -1, 0);
}

static void done(void *data, void *userdata)
{
	struct task **slot = userdata;

	assert_null(*slot); /* done() may start the next one */
	((struct work *)data)->done = true;
}

struct fixture {
	sd_event *event;
	struct task *task;
	struct work work;
};

static void begin(struct fixture *fixture)
{
	*fixture = (struct fixture){.work.started = -1};
	assert_int_equal(sd_event_new(&fixture->event), 0);
}

static void end(struct fixture *fixture)
{
	assert_true(task_end(&fixture->task, UINT64_MAX));
	sd_event_unref(fixture->event);
}

static void start(struct fixture *fixture, sd_event *event, uint64_t timeout_us)
{
	const struct task task = {run, done, &fixture->work, &fixture->task, timeout_us};

	assert_int_equal(task_start(&fixture->task, event, &task), 0);
}

/* Returns when the task waits for its cancel. */
static void start_waiting(struct fixture *fixture, uint64_t timeout_us)
{
	eventfd_t n;

	fixture->work.started = eventfd(0, EFD_CLOEXEC);
	start(fixture, fixture->event, timeout_us);
	assert_int_equal(eventfd_read(fixture->work.started, &n), 0);
	close(fixture->work.started);
}

#define TASK_TEST(name) TEST_OF(fixture, fixture, begin, end, name)

TASK_TEST(the_loop_adopts_the_results)
{
	start(fixture, fixture->event, UINT64_MAX);
	assert_false(fixture->work.done);
	while (!fixture->work.done)
		assert_true(sd_event_run(fixture->event, UINT64_MAX) >= 0);
	assert_null(fixture->task);
}

TASK_TEST(a_task_without_wake_ups_is_polled)
{
	start(fixture, fixture->event, UINT64_MAX);
	task_wakes_loop(fixture->task, false);
	assert_int_equal(sd_event_run(fixture->event, 20 * USEC_PER_MSEC), 0);
	assert_false(fixture->work.done);
	assert_true(task_end(&fixture->task, now_us() + USEC_PER_SEC));
	assert_true(fixture->work.done);
	assert_true(task_end(&fixture->task, 0));
}

TASK_TEST(nobody_waits_longer_than_the_deadline)
{
	uint64_t before = now_us();

	start_waiting(fixture, UINT64_MAX);
	assert_string_equal(fixture->task->path, "/a/file");
	assert_false(task_end(&fixture->task, 0));
	assert_false(task_end(&fixture->task, now_us() + 10 * USEC_PER_MSEC));
	assert_true(now_us() - before < USEC_PER_SEC);
	assert_non_null(fixture->task);
	task_cancel(fixture->task);
	assert_true(task_end(&fixture->task, UINT64_MAX));
	assert_int_equal(fixture->work.result, -ECANCELED);
	assert_true(fixture->work.done);
	task_cancel(fixture->task); /* NULL */
}

TASK_TEST(the_wait_has_the_timeout)
{
	start_waiting(fixture, 10 * USEC_PER_MSEC);
	assert_true(task_end(&fixture->task, UINT64_MAX));
	assert_int_equal(fixture->work.result, -ETIMEDOUT);
}

TASK_TEST(a_command_needs_no_loop)
{
	start(fixture, NULL, UINT64_MAX);
	task_wakes_loop(fixture->task, true);
	assert_true(task_end(&fixture->task, UINT64_MAX));
	assert_true(fixture->work.done);
}
