/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/file_work.h"

#include "base/log.h"
#include "runtime/driver.h"

#define NEVER     UINT64_MAX
#define RELOAD_US (3 * USEC_PER_SEC)
#define ANSWER_US (5 * USEC_PER_SEC)

/* Whether one restart or reload puts both files in force. */
static bool is_with(const struct file_change *a, const struct file_change *b)
{
	return a->activation == b->activation && streq(a->daemon.driver, b->daemon.driver) &&
	       streq(a->daemon.unit, b->daemon.unit) && a->daemon.pid == b->daemon.pid;
}

/* The next change without error, from *i on, that is put in force with this file; or NULL. */
static struct change *next_change(
	const struct file_job *job, const struct file_change *file, size_t *i)
{
	while (*i < job->plan.n) {
		struct change *change = &job->plan.changes[(*i)++];

		if (change->file && change->error == 0 && is_with(change->file, file))
			return change;
	}
	return NULL;
}

/*
 * Makes the changes that are put in force with this file wait. REASON_NONE: until their tuner
 * reads them in force. wait_us 0: until something changes. why may be NULL.
 */
static void hold(const struct file_job *job, const struct file_change *file, enum reason reason,
	const char *why, uint64_t wait_us)
{
	struct change *change;

	for (size_t i = 0; (change = next_change(job, file, &i));) {
		if (reason && job->task == FILE_APPLY)
			change->reason = reason;
		else if (reason && file->activation == ACTIVATE_RESTART &&
			 change->reason == REASON_ORIGINAL)
			change->reason = REASON_ORIGINAL_AT_NEXT_START;
		change->restarted = !reason;
		change->held = reason ? reason : REASON_RESTART_PENDING;
		change->retry_us = wait_us > 0 ? now_us() + wait_us : 0;
		if (why) {
			free(change->why);
			change->why = must(strdup(why));
		}
	}
}

/*
 * Fails the values that an earlier restart did not put in force: only another value or `headroom
 * apply` may cause another restart. True when no value remains.
 */
static bool all_tried(
	const struct file_job *job, const struct file_change *file, struct unit_mark *mark)
{
	struct change *change;
	char why[EDIT_WHY_MAX];
	bool any = false;

	snprintf(why, sizeof(why),
		"%.60s was restarted with it and does not run with it: see which file it reads; "
		"it is not restarted again for this value",
		mark->unit);
	for (size_t i = 0; (change = next_change(job, file, &i));) {
		const struct tried *tried = find_named(mark->tried, mark->n_tried, change->name);

		if (change->file->activate_only && tried && streq(tried->value, change->new))
			work_result(change, REASON_NO_EFFECT, -ERANGE, why, NEVER);
		else
			any = true;
	}
	return !any;
}

bool work_yields(struct file_job *job, struct change *change)
{
	const struct file_change *file = change->file;

	if (change->reason != REASON_DRIFT || file->activation != ACTIVATE_RESTART ||
		file->restart == RESTART_NEVER ||
		budget_rest(job,
			find_named(job->journal->units, job->journal->n_units, file->daemon.unit),
			false) == 0)
		return false;
	change->held = REASON_RESTARTED_TOO_OFTEN;
	return true;
}

/* Whether policy and earlier restarts allow a restart; if not, the changes wait. */
static bool policy_allows(const struct file_job *job, const struct file_change *file)
{
	struct unit_mark *mark =
		find_named(job->journal->units, job->journal->n_units, file->daemon.unit);
	bool applying = job->task == FILE_APPLY;
	bool idle = applying && file->restart == RESTART_WHEN_IDLE;
	uint64_t hour_us = idle ? budget_hour_rest(mark) : 0;
	uint64_t rest_us = budget_rest(job, mark, false);
	char why[EDIT_WHY_MAX];

	if (file->restart == RESTART_NEVER || (idle && file->daemon.busy))
		hold(job, file, REASON_RESTART_PENDING, NULL, 0);
	else if (!file->daemon.unit[0])
		hold(job, file, REASON_RESTART_REFUSED, NULL, FILE_RESTART_AGAIN_US);
	else if (mark && mark->open) /* its result is awaited first */
		hold(job, file, REASON_RESTART_REFUSED, NULL, FILE_RETRY_US);
	else if (mark && applying && all_tried(job, file, mark))
		return false;
	else if (rest_us > 0) {
		snprintf(why, sizeof(why), "%.60s was restarted %zu times within a day",
			file->daemon.unit, budget_used_today(mark));
		hold(job, file, REASON_RESTARTED_TOO_OFTEN, why, rest_us);
	} else if (hour_us > 0)
		hold(job, file, REASON_RESTART_PENDING, NULL, hour_us);
	else
		return true;
	return false;
}

/* Asks the runtime itself: the last sample may be older than a pull. False: no answer. */
static bool is_idle(const struct file_job *job, const struct daemon *daemon)
{
	const struct runtime_driver *driver = runtime_driver_find(daemon->driver);
	const struct wait answer = wait_at_most(job->wait, ANSWER_US);
	_cleanup_free_ struct node_runtime *runtime = must(calloc(1, sizeof(*runtime)));
	struct pull_counts counts = {0};
	char path[PATH_MAX];
	struct runtime_reading reading = {.host = &job->host,
		.runtime = runtime,
		.pulled = &counts,
		.socket = host_path(&job->host, daemon->socket, path),
		.wait = &answer,
		.slow = true};

	runtime->found = (struct runtime){.driver = driver, .config = daemon->config};
	runtime->no_cri = true; /* the CRI knows no pulls */
	if (driver)
		driver->read(&reading);
	return runtime->pulls_at_us > 0 && runtime->pulls.n == 0;
}

/* Records a restart durably, before systemd is asked. NULL when it could not be recorded. */
static struct unit_mark *open_mark(
	struct file_job *job, const struct file_change *file, unsigned answered)
{
	struct file_journal *journal = job->journal;
	struct unit_mark *mark = find_named(journal->units, journal->n_units, file->daemon.unit);
	const struct change *change;
	struct unit_mark before;

	if (!mark && journal->n_units == JOURNAL_UNITS_MAX)
		return NULL;
	if (!mark) {
		mark = &journal->units[journal->n_units++];
		*mark = (struct unit_mark){0};
		set_text(mark->unit, file->daemon.unit);
	}
	before = *mark;
	mark->answered = answered;
	mark->open = true;
	for (size_t t = 0; t < mark->n_tried; t++)
		mark->tried[t].last = false;
	for (size_t i = 0; (change = next_change(job, file, &i));) {
		struct tried *tried = find_named(mark->tried, mark->n_tried, change->name);

		if (!tried && mark->n_tried == JOURNAL_TRIED_MAX)
			break;
		if (!tried)
			tried = &mark->tried[mark->n_tried++];
		set_text(tried->name, change->name);
		set_text(tried->value, change->new);
		tried->last = true;
	}
	if (budget_take(job, mark, false) == 0)
		return mark;
	*mark = before;
	return NULL;
}

/* The result is unknown, or the roll back failed: a later job resumes it. */
static void leave_open(struct file_job *job, const struct unit_mark *mark, const char *why)
{
	job->n_open++;
	log_warning(mark->unit, "the result of its restart is not known: %s", why);
}

/* Rolls back the files with settings of the last restart. The number of files, and of failures. */
static size_t restore_files(
	struct file_job *job, const struct unit_mark *mark, const char *why, size_t *failed)
{
	size_t n = 0;

	for (size_t i = 0; i < job->journal->n_files; i++) {
		struct file_note *note = &job->journal->files[i];
		bool due = false;

		for (size_t k = 0; k < note->n_keys && streq(note->daemon.unit, mark->unit); k++) {
			struct file_record *key = &note->keys[k];
			const struct tried *tried =
				find_named(mark->tried, mark->n_tried, key->name);
			struct change *change;

			if (!tried || !tried->last)
				continue;
			due = true;
			copy_text(key->failed, SETTING_VALUE_MAX, tried->value);
			/* The plan may lack the setting of a resumed restart. */
			change = find_named(job->plan.changes, job->plan.n, key->name);
			if (!change)
				change = work_add_change(job, note, key, "", tried->value);
			work_result(change, REASON_DID_NOT_COME_BACK, -ETIMEDOUT, why, NEVER);
		}
		n += due;
		*failed += due && work_roll_back(job, note) < 0;
	}
	return n;
}

/*
 * Restores the old files of a program that does not answer, and restarts it once more if the budget
 * allows it. Else why gets what to do.
 */
static int roll_back(
	struct file_job *job, const struct daemon *daemon, struct unit_mark *mark, char *why)
{
	bool spent = budget_rest(job, mark, true) > 0;
	char again[EDIT_WHY_MAX] = "";
	size_t failed = 0, n = strlen(why);
	int r;

	if (spent)
		snprintf(why + n, EDIT_WHY_MAX - n,
			"; after %zu restarts within a day it is not restarted with its old file: systemctl restart %.60s",
			budget_used_today(mark), mark->unit);
	log_error("runtime",
		"%s: its old file is restored%s; the value is not tried again until another one is configured",
		why, spent ? "" : " and it is restarted once more");
	n = restore_files(job, mark, why, &failed);
	mark->open = n > 0;
	(void)work_store(job);
	if (n == 0)
		log_error(mark->unit, "nothing was restored: the file is not ours");
	else if (failed == n)
		leave_open(job, mark, "no file could be restored");
	/* With unchanged files it would fail again. */
	if (failed == n)
		return -ETIMEDOUT;
	r = spent ? -EPERM : edit_check(&job->host, daemon, job->wait, again);
	if (r == 0) {
		r = budget_take(job, mark, true);
		if (r < 0)
			set_text(again, "the restart could not be recorded in the journal");
	}
	if (r == 0)
		r = unit_restart(job, daemon, true, again);
	if (r == 0)
		r = unit_await(job, daemon, mark->answered, true, again);
	if (r == -ECANCELED)
		return r;
	if (r == 0)
		log_notice(mark->unit, "it answers again, with its old file");
	else if (!spent)
		log_error("runtime", "with its old file too: %s", again);
	if (r < 0 && (failed > 0 || (r != -ETIMEDOUT && r != -EPERM)))
		leave_open(job, mark, again);
	else
		mark->open = false;
	(void)work_store(job);
	return -ETIMEDOUT;
}

/*
 * Closes a restart, given the result of unit_await(), or leaves it open. undo: roll back a program
 * that does not come back. 0; -ETIMEDOUT when it did not come back with the new file; or another
 * error of unit_await().
 */
static int finish(struct file_job *job, const struct daemon *daemon, struct unit_mark *mark, int r,
	bool undo, char *why)
{
	if (r == -ECANCELED)
		return r;
	if (r == -ETIMEDOUT && undo)
		return roll_back(job, daemon, mark, why);
	if (r < 0 && r != -EPERM && r != -ETIMEDOUT) {
		leave_open(job, mark, why);
		return r;
	}
	if (r == 0)
		log_notice(mark->unit, "restarted: it answers, with its file as it is now");
	else
		log_warning(
			"runtime", "%s%s", why, r == -EPERM ? "" : ": its file is left as it is");
	mark->open = false;
	(void)work_store(job);
	return r;
}

static void restart(struct file_job *job, const struct file_change *file)
{
	const struct daemon *daemon = &file->daemon;
	bool undo = job->task == FILE_APPLY;
	char why[EDIT_WHY_MAX] = "", refusal[EDIT_WHY_MAX + 128];
	struct unit_mark *mark;
	struct change *change;
	unsigned answered;
	int r;

	if (!policy_allows(job, file))
		return;
	/* It may take seconds, in which others change the file: the check follows. */
	answered = unit_probe(job, daemon);
	r = edit_check(&job->host, daemon, job->wait, why);
	if (r < 0 && r != -ECANCELED) {
		snprintf(refusal, sizeof(refusal),
			"%.60s is not restarted, its files do not load: %s", daemon->unit, why);
		log_warning("runtime", "%s", refusal);
		hold(job, file, REASON_DOES_NOT_LOAD, refusal, FILE_RETRY_US);
		return;
	}
	if (r == 0)
		r = unit_may_restart(job, daemon, why);
	if (r < 0 && r != -ECANCELED) {
		log_warning("runtime", "%s", why);
		hold(job, file, r == -ENOTCONN ? REASON_NO_SYSTEMD : REASON_RESTART_REFUSED, why,
			FILE_RESTART_AGAIN_US);
	}
	if (r < 0 || (undo && atomic_load(&job->stale)))
		return;
	if (file->restart == RESTART_WHEN_IDLE && !is_idle(job, daemon)) {
		hold(job, file, REASON_RESTART_PENDING, NULL, 0);
		return;
	}
	mark = open_mark(job, file, answered);
	if (!mark) {
		log_error(daemon->unit,
			"not restarted, because it could not be recorded in the journal");
		hold(job, file, REASON_RESTART_REFUSED, NULL, FILE_RETRY_US);
		return;
	}
	r = unit_restart(job, daemon, false, why);
	if (r == 0) {
		r = unit_await(job, daemon, mark->answered, false, why);
		/* The restart was requested, so any other error means that it is not back. */
		if (r < 0 && r != -EPERM && r != -ECANCELED)
			r = -ETIMEDOUT;
	} else if (r != -ECANCELED) {
		r = -EPERM; /* it did not begin */
	}
	r = finish(job, daemon, mark, r, undo, why);
	if (r == 0)
		hold(job, file, REASON_NONE, NULL, FILE_SEEN_US);
	else if (r != -ECANCELED && (r != -ETIMEDOUT || !undo))
		hold(job, file, REASON_RESTART_REFUSED, why, FILE_RESTART_AGAIN_US);
	for (size_t i = 0; r == -ETIMEDOUT && undo && (change = next_change(job, file, &i));)
		work_result(change, REASON_DID_NOT_COME_BACK, -ETIMEDOUT, why, NEVER);
}

static void reload(struct file_job *job, const struct file_change *file)
{
	const struct daemon *daemon = &file->daemon;
	const struct runtime_driver *driver = runtime_driver_find(daemon->driver);
	const struct wait answer = wait_at_most(job->wait, RELOAD_US);
	uint64_t since = realtime_us();
	struct change *change;
	char path[PATH_MAX];
	int r = -ESRCH;

	if (driver && driver->program)
		r = runtime_reload(&job->host, driver, daemon->socket, daemon->pid, &answer);
	if (r < 0) {
		log_warning(driver && driver->program ? driver->program : daemon->driver,
			"did not reload its configuration: %s",
			r == -ESRCH ? "its process cannot be seen from here" : strerror(-r));
		hold(job, file, REASON_RELOAD_PENDING, NULL, FILE_RETRY_US);
		return;
	}
	log_info(driver->program, "asked to reload its configuration");
	hold(job, file, REASON_RELOAD_PENDING, NULL, FILE_RELOAD_AGAIN_US);
	if (!daemon->socket[0] || !driver->await_reload)
		return;
	host_path(&job->host, daemon->socket, path);
	for (size_t i = 0; (change = next_change(job, file, &i));) {
		char value[SETTING_VALUE_MAX];

		if (driver->await_reload(path, since, change->file->key, value, &answer) < 0)
			return;
		set_text(change->actual, value);
		if (value_equal(value, change->new))
			change->held = REASON_NONE;
	}
}

static bool needs_activation(const struct change *change)
{
	return change->file && (change->file->written || change->file->activate_only);
}

void work_activate(struct file_job *job)
{
	bool applying = job->task == FILE_APPLY; /* a restore goes on */

	for (size_t i = 0; i < job->plan.n && !(applying && atomic_load(&job->stale)); i++) {
		const struct file_change *file = job->plan.changes[i].file;
		size_t first = 0;

		if (!needs_activation(&job->plan.changes[i]))
			continue;
		while (!needs_activation(&job->plan.changes[first]) ||
			!is_with(job->plan.changes[first].file, file))
			first++;
		if (first == i && file->activation == ACTIVATE_RELOAD)
			reload(job, file);
		else if (first == i && file->activation == ACTIVATE_RESTART)
			restart(job, file);
	}
}

int work_resume(struct file_job *job)
{
	const struct file_journal *journal = job->journal;
	int n = 0, r = 0;

	for (size_t i = 0; i < journal->n_units && r != -ECANCELED; i++) {
		struct unit_mark *mark = &job->journal->units[i];
		const struct daemon *daemon = NULL;
		char why[EDIT_WHY_MAX] = "";

		for (size_t k = journal->n_files; mark->open && k-- > 0;)
			if (streq(journal->files[k].daemon.unit, mark->unit))
				daemon = &journal->files[k].daemon;
		if (daemon) {
			log_notice(mark->unit,
				"its restart was under way when this program last ended: waiting for an answer");
			r = unit_await(job, daemon, mark->answered, false, why);
			r = finish(job, daemon, mark, r, job->undo, why);
			n++;
		} else if (mark->open) { /* its files are restored, or never were ours */
			mark->open = false;
			(void)work_store(job);
		}
	}
	return r == -ECANCELED ? r : n;
}
