/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/worker.h"

#include <sys/eventfd.h>

struct job {
	int started; /* eventfd: run() signals its start and waits to be cancelled; 0: it ends at
			once */
	int order;   /* of the jobs; 0: did not run */
	int result;
	bool done;
};

static int n_run;

static void run(void *userdata, const struct wait *wait)
{
	struct job *job = userdata;

	job->order = ++n_run;
	if (job->started == 0)
		return;
	eventfd_write(job->started, 1);
	job->result = wait_for(wait, -1, 0);
}

static void done(void *job, void *)
{
	((struct job *)job)->done = true;
}

struct fixture {
	sd_event *event;
	struct worker *worker;
	struct job blocked, never; /* one behind the other */
};

static void begin(struct fixture *fixture)
{
	n_run = 0;
	assert_int_equal(sd_event_new(&fixture->event), 0);
	assert_int_equal(worker_new(fixture->event, &fixture->worker), 0);
}

static void end(struct fixture *fixture)
{
	worker_free(fixture->worker);
	sd_event_unref(fixture->event);
}

static void submit(struct fixture *fixture, struct job *job)
{
	assert_int_equal(worker_submit(fixture->worker, run, done, job, NULL), 0);
}

static void loop_until_done(struct fixture *fixture, const struct job *job)
{
	while (!job->done)
		assert_true(sd_event_run(fixture->event, UINT64_MAX) >= 0);
}

/* Returns when the thread runs the first of two jobs. */
static void block(struct fixture *fixture)
{
	eventfd_t n;

	fixture->blocked.started = eventfd(0, EFD_CLOEXEC);
	submit(fixture, &fixture->blocked);
	submit(fixture, &fixture->never);
	assert_int_equal(eventfd_read(fixture->blocked.started, &n), 0);
	close(fixture->blocked.started);
}

static void expect_cancelled(const struct fixture *fixture)
{
	assert_int_equal(fixture->blocked.result, -ECANCELED);
	assert_true(fixture->blocked.done && fixture->never.done);
	assert_int_equal(fixture->never.order, 0);
}

#define WORKER_TEST(name) TEST_OF(fixture, fixture, begin, end, name)

WORKER_TEST(jobs_run_in_order_and_finish_in_the_loop)
{
	struct job jobs[4] = {0};

	for (int i = 0; i < 3; i++)
		submit(fixture, &jobs[i]);
	assert_false(jobs[0].done);
	loop_until_done(fixture, &jobs[2]);
	submit(fixture, &jobs[3]);
	loop_until_done(fixture, &jobs[3]);
	for (int i = 0; i < 4; i++) {
		assert_true(jobs[i].done);
		assert_int_equal(jobs[i].order, i + 1);
	}
}

WORKER_TEST(a_worker_without_wake_ups_is_polled)
{
	struct job quiet = {0}, loud = {0};

	worker_wakes_loop(fixture->worker, false);
	submit(fixture, &quiet);
	assert_int_equal(sd_event_run(fixture->event, 20 * USEC_PER_MSEC), 0);
	assert_false(quiet.done);
	while (!quiet.done)
		worker_finish(fixture->worker);
	worker_wakes_loop(fixture->worker, true);
	submit(fixture, &loud);
	loop_until_done(fixture, &loud);
}

WORKER_TEST(freeing_cancels_the_running_job_and_drops_the_rest)
{
	uint64_t start = now_us();

	block(fixture);
	worker_free(fixture->worker);
	assert_true(now_us() - start < USEC_PER_SEC);
	expect_cancelled(fixture);
	worker_free(NULL);
	/* end() frees an unused worker. */
	assert_int_equal(worker_new(fixture->event, &fixture->worker), 0);
}

WORKER_TEST(a_cancelled_worker_ends_every_job_and_refuses_others)
{
	struct job late = {0};

	block(fixture);
	worker_cancel(fixture->worker);
	assert_int_equal(worker_submit(fixture->worker, run, done, &late, NULL), -ECANCELED);
	loop_until_done(fixture, &fixture->blocked);
	loop_until_done(fixture, &fixture->never);
	expect_cancelled(fixture);
	assert_false(late.done);
}
