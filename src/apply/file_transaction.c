/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/file_transaction.h"

#include "apply/file_work.h"
#include "base/util.h"

#include <errno.h>

static void release_tuners(const struct work *work, bool release)
{
	const char *only = work->job->only;

	for (const char *const *name = work->job->tuners; name && *name; name++) {
		if (only[0] && !streq(only, *name))
			continue;
		if (release)
			file_journal_release(work->journal, *name);
		else
			file_journal_unrelease(work->journal, *name);
	}
}

/* Keep the originals, edit, verify; note it durably; replace; make the programs take it. */
static void apply(struct work *work)
{
	int r = work_make(work);

	for (size_t i = 0; work->job->forced && i < work->job->plan.n; i++)
		file_journal_try_again(work->journal, work->job->plan.changes[i].name);
	for (size_t i = 0; r == 0 && i < work->n; i++)
		work_prepare(work, &work->files[i]);
	for (size_t i = 0; r == 0 && i < work->n; i++)
		r = work_note(work, &work->files[i]);
	if (r == 0)
		r = file_journal_store(work->journal);
	for (size_t i = 0; i < work->n; i++)
		work_write(work, &work->files[i], r);
	for (size_t i = 0; r < 0 && i < work->job->plan.n; i++)
		if (work->job->plan.changes[i].error == 0)
			work_fail(&work->job->plan.changes[i], "not-recorded", r, NULL, 0);
	if (r == 0)
		work_activate(work);
}

static void restore(struct work *work)
{
	work_make_restore(work);
	for (size_t i = 0; i < work->n; i++)
		work_restore(work, &work->files[i]);
	release_tuners(work, true);
	if (work_store(work) == 0)
		work_sweep(work);
	work_activate(work);
}

/* An earlier restart was seen to just now: the plan is from before that. */
static void refuse_outdated(const struct work *work)
{
	for (size_t i = 0; i < work->job->plan.n; i++)
		if (work->job->plan.changes[i].error == 0)
			work_fail(&work->job->plan.changes[i], "not-recorded", -ESTALE,
				"an earlier restart was seen to first: try again", 0);
}

void file_transaction(void *userdata, const struct wait *wait)
{
	struct file_job *job = userdata;
	struct file_journal *journal = job->journal;
	struct work work = {.job = job, .journal = journal, .wait = wait};
	int r;

	if (job->forced)
		release_tuners(&work, false);
	work_sweep(&work);
	r = work_resume(&work);
	if (job->task == FILE_RESTORE && r >= 0)
		restore(&work);
	else if (job->task == FILE_APPLY && r != 0)
		refuse_outdated(&work);
	else if (job->task == FILE_APPLY)
		apply(&work);
	r = file_journal_store(journal);
	if (r < 0)
		job->error = r;
	work_clear(&work);
	if (file_journal_snapshot(journal, &job->records, &job->n_records) < 0)
		job->error = -ENOMEM;
	memcpy(job->released, journal->released, sizeof(job->released));
	job->n_released = journal->n_released;
}

void file_job_clear(struct file_job *job)
{
	plan_clear(&job->plan);
	free(steal(job->records));
	job->n_records = 0;
}
