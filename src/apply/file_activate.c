/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/file_work.h"

#include "base/file.h"
#include "base/log.h"
#include "runtime/driver.h"
#include "workload/process.h"

#include <signal.h>
#include <sys/syscall.h>

#define NEVER     UINT64_MAX
#define RELOAD_US (3 * USEC_PER_SEC)

/* ---- the changes that wait for one service ---- */

static bool is_same_service(const struct service *a, const struct service *b)
{
	return a->activation == b->activation && streq(a->driver, b->driver) &&
	       streq(a->unit, b->unit) && a->pid == b->pid;
}

/* The change without error that takes effect with a service, from *i on; or NULL. */
static struct change *next_change(
	const struct file_job *job, const struct service *service, size_t *i)
{
	while (*i < job->plan.n) {
		struct change *change = &job->plan.changes[(*i)++];

		if (change->file && change->error == 0 &&
			is_same_service(&change->file->edit.service, service))
			return change;
	}
	return NULL;
}

/*
 * They wait, for this reason (NULL: for their tuner to see them in force), so long (0: until
 * something changes). why may be NULL.
 */
static void hold(const struct file_job *job, const struct service *service, const char *reason,
	const char *why, uint64_t wait_us)
{
	struct change *change;

	for (size_t i = 0; (change = next_change(job, service, &i));) {
		if (reason && job->task == FILE_APPLY)
			change->reason = reason;
		change->held = reason ? reason : "restart-pending";
		change->retry_us = wait_us > 0 ? now_us() + wait_us : 0;
		if (!why)
			continue;
		free(change->why);
		change->why = strdup(why);
	}
}

/* ---- restarts ---- */

/*
 * A restart that did not bring a value is not repeated for it: what is left waits for another
 * value, or for `headroom apply`. True when nothing is left.
 */
static bool was_tried(
	const struct file_job *job, const struct service *service, struct unit_mark *mark)
{
	struct change *change;
	char why[EDIT_WHY_MAX];
	bool any = false;

	snprintf(why, sizeof(why),
		"%.60s was restarted with it and does not run with it: see which file it reads; "
		"it is not restarted for this value again",
		mark->unit);
	for (size_t i = 0; (change = next_change(job, service, &i));) {
		const struct tried *tried = find_named(mark->tried, mark->n_tried, change->name);

		if (change->file->activate_only && tried && streq(tried->value, change->new))
			work_fail(change, "no-effect", -ERANGE, why, NEVER);
		else
			any = true;
	}
	return !any;
}

/* Whether policy and past restarts allow another one; if not, the changes wait. */
static bool policy_allows(const struct file_job *job, const struct service *service)
{
	struct unit_mark *mark =
		find_named(job->journal->units, job->journal->n_units, service->unit);
	bool applying = job->task == FILE_APPLY;
	bool idle = applying && service->restart == RESTART_WHEN_IDLE;
	/* What is left of the hour between tries. Longer: the clock was wrong then, or is now. */
	uint64_t now = realtime_us();
	uint64_t end = mark ? mark->at_s * USEC_PER_SEC + FILE_RESTART_AGAIN_US : 0;
	uint64_t rest_us = end > now ? end - now : 0;

	if (service->restart == RESTART_NEVER || (idle && service->busy))
		hold(job, service, "restart-pending", NULL, 0);
	else if (!service->unit[0])
		hold(job, service, "restart-refused", NULL, FILE_RESTART_AGAIN_US);
	else if (mark && mark->open) /* what came of it is seen first */
		hold(job, service, "restart-refused", NULL, FILE_RETRY_US);
	else if (mark && applying && was_tried(job, service, mark))
		return false;
	else if (idle && rest_us > 0 && rest_us <= 2 * FILE_RESTART_AGAIN_US)
		hold(job, service, "restart-pending", NULL, rest_us);
	else
		return true;
	return false;
}

/* The restart is durably noted before systemd is asked for it. NULL: it could not be. */
static struct unit_mark *open_mark(struct file_job *job, const struct service *service)
{
	struct file_journal *journal = job->journal;
	struct unit_mark *mark = find_named(journal->units, journal->n_units, service->unit);
	const struct change *change;
	struct unit_mark before;

	if (!mark && journal->n_units == JOURNAL_UNITS_MAX)
		return NULL;
	if (!mark) {
		mark = &journal->units[journal->n_units++];
		*mark = (struct unit_mark){0};
		copy_text(mark->unit, sizeof(mark->unit), service->unit);
	}
	before = *mark;
	mark->at_s = realtime_us() / USEC_PER_SEC;
	mark->answered = unit_probe(job, service, job->wait);
	mark->open = true;
	for (size_t t = 0; t < mark->n_tried; t++)
		mark->tried[t].last = false;
	for (size_t i = 0; (change = next_change(job, service, &i));) {
		struct tried *tried = find_named(mark->tried, mark->n_tried, change->name);

		if (!tried && mark->n_tried == JOURNAL_TRIED_MAX)
			break;
		if (!tried)
			tried = &mark->tried[mark->n_tried++];
		copy_text(tried->name, sizeof(tried->name), change->name);
		copy_text(tried->value, sizeof(tried->value), change->new);
		tried->last = true;
	}
	if (work_store(job) == 0)
		return mark;
	*mark = before;
	return NULL;
}

/* Its end is not known, or it is down and could not be helped: tried again soon. */
static void leave_open(struct file_job *job, const struct unit_mark *mark, const char *why)
{
	job->n_open++;
	log_warning(mark->unit, "what came of its restart is not known: %s", why);
}

/* The files whose settings the restart was to bring get their old content, as far as it is ours. */
static size_t restore_files(
	struct file_job *job, const struct unit_mark *mark, const char *why, size_t *failed)
{
	size_t n = 0;

	for (size_t i = 0; i < job->journal->n_files; i++) {
		struct file_note *note = &job->journal->files[i];
		bool due = false;

		for (size_t k = 0; k < note->n_keys && streq(note->service.unit, mark->unit); k++) {
			struct file_record *key = &note->keys[k];
			const struct tried *tried =
				find_named(mark->tried, mark->n_tried, key->name);
			struct change *change;

			if (!tried || !tried->last)
				continue;
			due = true;
			copy_text(key->failed, SETTING_VALUE_MAX, tried->value);
			/* It may not be one of the plan: the restart was an earlier process's. */
			change = find_named(job->plan.changes, job->plan.n, key->name);
			if (!change)
				change = work_add_change(job, note, key, "", tried->value);
			work_fail(change, "did-not-come-back", -ETIMEDOUT, why, NEVER);
		}
		n += due;
		*failed += due && work_roll_back(job, note) < 0;
	}
	return n;
}

/* It does not answer with the new file: the old one goes back, and it is restarted once more. */
static int roll_back(struct file_job *job, const struct service *service, struct unit_mark *mark,
	const char *why)
{
	char again[EDIT_WHY_MAX] = "";
	size_t failed = 0, n;
	int r;

	log_error("runtime",
		"%s: the file from before goes back, and it is restarted once more; this is not tried again until another value is configured",
		why);
	n = restore_files(job, mark, why, &failed);
	mark->open = n > 0;
	(void)work_store(job);
	if (n == 0)
		log_error(mark->unit, "nothing was restored: the file is not ours");
	else if (failed == n)
		leave_open(job, mark, "no file could be restored");
	/* With the same files it would fail in the same way. */
	if (failed == n)
		return -ETIMEDOUT;
	r = edit_check(&job->host, service, job->wait, again);
	if (r == 0)
		r = unit_restart(job, service, true, again);
	if (r == 0)
		r = unit_await(job, service, mark->answered, true, again);
	if (r == -ECANCELED)
		return r;
	if (r == 0)
		log_notice(mark->unit, "it answers again, with the file from before");
	else
		log_error("runtime", "with the file from before too: %s", again);
	if (r < 0 && (failed > 0 || (r != -ETIMEDOUT && r != -EPERM)))
		leave_open(job, mark, again);
	else
		mark->open = false;
	(void)work_store(job);
	return -ETIMEDOUT;
}

/*
 * What came of a restart, from its first wait's result on: it is over, or stays open. undo: a
 * program that does not come back gets its old file. 0; -ETIMEDOUT: it is not back with the new
 * one; -EPERM, -ECANCELED or another -errno, as unit_await().
 */
static int finish(struct file_job *job, const struct service *service, struct unit_mark *mark,
	int r, bool undo, const char *why)
{
	if (r == -ECANCELED)
		return r;
	if (r == -ETIMEDOUT && undo)
		return roll_back(job, service, mark, why);
	if (r < 0 && r != -EPERM && r != -ETIMEDOUT) {
		leave_open(job, mark, why);
		return r;
	}
	if (r == 0)
		log_notice(mark->unit, "restarted: it answers, and runs with its file as it is");
	else
		log_warning("runtime", "%s%s", why, r == -EPERM ? "" : ": its file is left");
	mark->open = false;
	(void)work_store(job);
	return r;
}

static void restart(struct file_job *job, const struct service *service)
{
	bool undo = job->task == FILE_APPLY;
	char why[EDIT_WHY_MAX] = "", refusal[EDIT_WHY_MAX + 128];
	struct unit_mark *mark;
	struct change *change;
	int r;

	if (!policy_allows(job, service))
		return;
	/* By its files, as they are immediately before, and by systemd; if not, changes wait. */
	r = edit_check(&job->host, service, job->wait, why);
	if (r < 0 && r != -ECANCELED) {
		snprintf(refusal, sizeof(refusal),
			"%.60s is not restarted, its files do not load: %s", service->unit, why);
		log_warning("runtime", "%s", refusal);
		hold(job, service, "does-not-load", refusal, FILE_RETRY_US);
		return;
	}
	if (r == 0)
		r = unit_may_restart(job, service, why);
	if (r < 0 && r != -ECANCELED) {
		log_warning("runtime", "%s", why);
		hold(job, service, r == -ENOTCONN ? "no-systemd" : "restart-refused", why,
			FILE_RESTART_AGAIN_US);
	}
	if (r < 0 || atomic_load(&job->stale))
		return;
	mark = open_mark(job, service);
	if (!mark) {
		log_error(service->unit, "not restarted, for it could not be noted in the journal");
		hold(job, service, "restart-refused", NULL, FILE_RETRY_US);
		return;
	}
	r = unit_restart(job, service, false, why);
	if (r == 0) {
		r = unit_await(job, service, mark->answered, false, why);
		/* It was asked for: whatever it was that did not answer, it is not back. */
		if (r < 0 && r != -EPERM && r != -ECANCELED)
			r = -ETIMEDOUT;
	} else if (r != -ECANCELED) {
		r = -EPERM; /* it was not begun */
	}
	r = finish(job, service, mark, r, undo, why);
	if (r == 0)
		hold(job, service, NULL, NULL, FILE_SEEN_US);
	else if (r != -ECANCELED && (r != -ETIMEDOUT || !undo))
		hold(job, service, "restart-refused", why, FILE_RESTART_AGAIN_US);
	for (size_t i = 0; r == -ETIMEDOUT && undo && (change = next_change(job, service, &i));)
		work_fail(change, "did-not-come-back", -ETIMEDOUT, why, NEVER);
}

/* SIGHUP to the daemon's process, if that number is not another program's by now. */
static int send_reload(const struct file_job *job, const struct runtime_driver *driver, pid_t pid)
{
	_cleanup_close_ int fd = -1;
	char path[PATH_MAX];

	if (pid == 0 &&
		(!driver->pid_file || path_in_root(job->host.root, driver->pid_file, path) < 0 ||
			process_of_pid_file(path, &pid) < 0))
		return -ESRCH;
	/* Held before its name is read: the number cannot pass to another process. */
	fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (fd < 0)
		return -errno;
	/* By our own /proc: the signal goes to the process that has that number here. */
	if (!process_is_named("", pid, driver->program))
		return -ESRCH;
	return syscall(SYS_pidfd_send_signal, fd, SIGHUP, NULL, 0) < 0 ? -errno : 0;
}

static void reload(struct file_job *job, const struct service *service)
{
	const struct runtime_driver *driver = runtime_driver_find(service->driver);
	const struct wait answer = wait_at_most(job->wait, RELOAD_US);
	uint64_t since = realtime_us();
	struct change *change;
	char path[PATH_MAX];
	int r = driver && driver->program ? send_reload(job, driver, service->pid) : -ESRCH;

	if (r < 0) {
		log_warning(driver && driver->program ? driver->program : service->driver,
			"does not read its configuration again: %s",
			r == -ESRCH ? "no such process is seen from here" : strerror(-r));
		hold(job, service, "reload-pending", NULL, FILE_RETRY_US);
		return;
	}
	log_info(driver->program, "asked to read its configuration again");
	hold(job, service, "reload-pending", NULL, FILE_RELOAD_AGAIN_US);
	if (!service->socket[0] || !driver->await_reload)
		return;
	host_path(&job->host, service->socket, path);
	for (size_t i = 0; (change = next_change(job, service, &i));) {
		char value[SETTING_VALUE_MAX];

		if (driver->await_reload(path, since, change->file->target.key, value, &answer) < 0)
			return;
		copy_text(change->actual, sizeof(change->actual), value);
		if (value_equal(value, change->new))
			change->held = NULL;
	}
}

void work_activate(struct file_job *job)
{
	for (size_t i = 0; i < job->plan.n && !atomic_load(&job->stale); i++) {
		const struct change *change = &job->plan.changes[i];
		struct service service;
		size_t first = 0;

		if (!change->file)
			continue;
		service = change->file->edit.service;
		/* Written now, also with a lost original, or found as wanted and not in force. */
		for (; first <= i; first++) {
			const struct file_change *file = job->plan.changes[first].file;

			if (file && (file->written || file->activate_only) &&
				is_same_service(&file->edit.service, &service))
				break;
		}
		if (first == i && service.activation == ACTIVATE_RELOAD)
			reload(job, &service);
		else if (first == i && service.activation == ACTIVATE_RESTART)
			restart(job, &service);
	}
}

/* Restarts whose end nobody saw: the process that asked for them was killed, or cancelled. */
int work_resume(struct file_job *job)
{
	const struct file_journal *journal = job->journal;
	int n = 0, r = 0;

	for (size_t i = 0; i < journal->n_units && r != -ECANCELED; i++) {
		struct unit_mark *mark = &job->journal->units[i];
		const struct service *service = NULL;
		char why[EDIT_WHY_MAX] = "";

		for (size_t k = journal->n_files; mark->open && k-- > 0;)
			if (streq(journal->files[k].service.unit, mark->unit))
				service = &journal->files[k].service;
		if (service) {
			log_notice(mark->unit,
				"its restart was under way when this program last ended: waiting for it to answer");
			r = unit_await(job, service, mark->answered, false, why);
			r = finish(job, service, mark, r, job->undo, why);
			n++;
		} else if (mark->open) { /* its files were restored, or were not ours */
			mark->open = false;
			(void)work_store(job);
		}
	}
	return r == -ECANCELED ? r : n;
}
