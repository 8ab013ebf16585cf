/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/util.h"
#include "base/worker.h"

#include <errno.h>
#include <poll.h>

struct job {
	bool cancelled_by_wait; /* run() waits for a descriptor that never becomes readable */
	int order;              /* in which the jobs ran; 0: not run */
	int result;
	bool done;
};

static int n_run;

static void run(void *userdata, const struct wait *wait)
{
	struct job *job = userdata;

	job->order = ++n_run;
	if (job->cancelled_by_wait)
		job->result = wait_for(wait, -1, 0);
}

static void done(void *userdata, void *event)
{
	struct job *job = userdata;

	job->done = true;
	if (event)
		sd_event_exit(event, 0);
}

static int set_up(void **state)
{
	n_run = 0;
	return sd_event_new((sd_event **)state);
}

static int tear_down(void **state)
{
	sd_event_unref(*state);
	return 0;
}

TEST_FIXTURE(jobs_run_in_order_and_finish_in_the_loop, set_up, tear_down)
{
	_cleanup_(cleanup_worker_free) struct worker *worker = NULL;
	struct job jobs[3] = {0};

	assert_int_equal(worker_new(*state, &worker), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(
			worker_submit(worker, run, done, &jobs[i], i == 2 ? *state : NULL), 0);
	assert_false(jobs[0].done);
	assert_int_equal(sd_event_loop(*state), 0);
	for (int i = 0; i < 3; i++) {
		assert_true(jobs[i].done);
		assert_int_equal(jobs[i].order, i + 1);
	}
}

TEST_FIXTURE(a_job_may_be_submitted_after_the_thread_slept, set_up, tear_down)
{
	_cleanup_(cleanup_worker_free) struct worker *worker = NULL;
	struct job first = {0}, second = {0};

	assert_int_equal(worker_new(*state, &worker), 0);
	assert_int_equal(worker_submit(worker, run, done, &first, NULL), 0);
	while (!first.done)
		assert_true(sd_event_run(*state, UINT64_MAX) >= 0);
	poll(NULL, 0, 10);
	assert_int_equal(worker_submit(worker, run, done, &second, NULL), 0);
	while (!second.done)
		assert_true(sd_event_run(*state, UINT64_MAX) >= 0);
	assert_int_equal(second.order, 2);
}

TEST_FIXTURE(freeing_cancels_the_running_job_and_drops_the_rest, set_up, tear_down)
{
	struct worker *worker;
	struct job blocked = {.cancelled_by_wait = true}, never = {0};
	uint64_t begin = now_us();

	assert_int_equal(worker_new(*state, &worker), 0);
	assert_int_equal(worker_submit(worker, run, done, &blocked, NULL), 0);
	assert_int_equal(worker_submit(worker, run, done, &never, NULL), 0);
	poll(NULL, 0, 10);
	worker_free(worker);
	assert_true(now_us() - begin < USEC_PER_SEC);
	assert_int_equal(blocked.result, -ECANCELED);
	assert_true(blocked.done);
	assert_int_equal(never.order, 0);
	assert_true(never.done);
}

TEST_FIXTURE(a_cancelled_worker_gives_back_every_job_and_takes_no_other, set_up, tear_down)
{
	_cleanup_(cleanup_worker_free) struct worker *worker = NULL;
	struct job blocked = {.cancelled_by_wait = true}, never = {0}, late = {0};

	assert_int_equal(worker_new(*state, &worker), 0);
	assert_int_equal(worker_submit(worker, run, done, &blocked, NULL), 0);
	assert_int_equal(worker_submit(worker, run, done, &never, NULL), 0);
	worker_cancel(worker);
	assert_int_equal(worker_submit(worker, run, done, &late, NULL), -ECANCELED);
	while (!blocked.done || !never.done)
		assert_true(sd_event_run(*state, UINT64_MAX) >= 0);
	assert_int_equal(never.order, 0);
	assert_false(late.done);
}

TEST_FIXTURE(freeing_an_unused_worker_waits_for_nothing, set_up, tear_down)
{
	struct worker *worker;

	assert_int_equal(worker_new(*state, &worker), 0);
	worker_free(worker);
	worker_free(NULL);
}
