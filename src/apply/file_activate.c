/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/file_work.h"

#include "apply/editor.h"
#include "apply/unit.h"
#include "base/log.h"
#include "base/util.h"
#include "runtime/docker.h"

#include <errno.h>
#include <stdio.h>

#define NEVER     UINT64_MAX
#define RELOAD_US (3 * USEC_PER_SEC)

/* ---- the changes that wait for one service ---- */

static bool is_same_service(const struct service *a, const struct service *b)
{
	return a->activation == b->activation && streq(a->unit, b->unit) &&
	       streq(a->pid_file, b->pid_file) && a->pid == b->pid;
}

/* Calls for each change without error that takes effect with the service of a file; or NULL. */
static struct change *next_change(const struct work *work, const struct work_file *file, size_t *i)
{
	while (*i < work->job->plan.n) {
		struct change *change = &work->job->plan.changes[(*i)++];
		const struct work_file *its = work_find(work, change->file->target.path);

		if (its && change->error == 0 && is_same_service(&its->service, &file->service))
			return change;
	}
	return NULL;
}

/* They wait, for this reason (NULL: for their tuner to see them in force), until then. */
static void hold(const struct work *work, const struct work_file *file, const char *reason,
	const char *why, uint64_t until)
{
	struct change *change;

	for (size_t i = 0; (change = next_change(work, file, &i));) {
		if (reason && work->job->task == FILE_APPLY)
			change->reason = reason;
		change->held = reason ? reason : "restart-pending";
		change->retry_us = until;
		if (why)
			(void)replace_text(&change->why, why);
	}
}

static void fail_all(const struct work *work, const struct work_file *file, const char *reason,
	int error, const char *why)
{
	struct change *change;

	for (size_t i = 0; (change = next_change(work, file, &i));)
		work_fail(change, reason, error, why, NEVER);
}

/* Written now, or found as wanted and not in force. */
static bool is_due(const struct work *work, const struct work_file *file)
{
	const struct change *change;

	for (size_t i = 0; i < work->n; i++)
		if (work->files[i].written &&
			is_same_service(&work->files[i].service, &file->service))
			return true;
	for (size_t i = 0; (change = next_change(work, file, &i));)
		if (change->file->activate_only)
			return true;
	return false;
}

/* ---- restarts ---- */

/* How long a unit has to be left, as RESTART_WHEN_IDLE tries once an hour; 0 for no longer. */
static uint64_t rest_us(const struct unit_mark *mark)
{
	uint64_t now = realtime_us(), end = mark->at_s * USEC_PER_SEC + FILE_RESTART_AGAIN_US;

	/* Longer still: the clock was wrong then, or is now. */
	return end > now && end - now <= 2 * FILE_RESTART_AGAIN_US ? end - now : 0;
}

/*
 * A restart that did not bring a value is not repeated for it: what is left waits for another
 * value, or for `headroom apply`. True when nothing is left.
 */
static bool was_tried(
	const struct work *work, const struct work_file *file, const struct unit_mark *mark)
{
	struct change *change;
	bool any = false;

	for (size_t i = 0; (change = next_change(work, file, &i));) {
		bool tried = false;

		for (size_t t = 0; change->file->activate_only && t < mark->n_tried; t++)
			tried = tried || (streq(mark->tried[t].name, change->name) &&
						 streq(mark->tried[t].value, change->new));
		if (tried) {
			char why[EDIT_WHY_MAX];

			snprintf(why, sizeof(why),
				"%.60s was restarted with it and does not run with it: see which file it reads; "
				"it is not restarted for this value again",
				mark->unit);
			work_fail(change, "no-effect", -ERANGE, why, NEVER);
		}
		any = any || !tried;
	}
	return !any;
}

static void mark_tried(
	const struct work *work, const struct work_file *file, struct unit_mark *mark)
{
	const struct change *change;

	for (size_t t = 0; t < mark->n_tried; t++)
		mark->tried[t].last = false;
	for (size_t i = 0; (change = next_change(work, file, &i));) {
		size_t t = 0;

		while (t < mark->n_tried && !streq(mark->tried[t].name, change->name))
			t++;
		if (t == JOURNAL_TRIED_MAX)
			return;
		mark->n_tried = MAX(mark->n_tried, t + 1);
		copy_text(mark->tried[t].name, SETTING_NAME_MAX, change->name);
		copy_text(mark->tried[t].value, SETTING_VALUE_MAX, change->new);
		mark->tried[t].last = true;
	}
}

int work_store(const struct work *work)
{
	int r;

	work->journal->dirty = true;
	r = file_journal_store(work->journal);
	if (r < 0) {
		work->job->error = r;
		log_error("journal.json", "not stored: %s", strerror(-r));
	}
	return r;
}

static void close_mark(const struct work *work, struct unit_mark *mark)
{
	mark->open = false;
	(void)work_store(work);
}

/* Its end is not known, or it is down and could not be helped: tried again soon. */
static void leave_open(const struct work *work, const struct unit_mark *mark, const char *why)
{
	work->job->n_open++;
	log_warning(mark->unit, "what came of its restart is not known: %s", why);
}

/* Immediately before every restart: the program accepts its files as they are on disk. */
static int check_loads(const struct work *work, const struct service *service, char *why)
{
	struct file_at at;
	const struct editor editor = {
		&work->job->host, work->journal->dir, service, service->config, &at};
	int r = service->config[0] ? file_locate(&work->job->host, service->config, &at) : 0;

	if (r < 0)
		snprintf(why, EDIT_WHY_MAX, "%.200s: %s", service->config, strerror(-r));
	return r < 0 || !service->config[0] ? r : edit_check(&editor, work->wait, why);
}

/* A result that no change asked for: the restart was an earlier process's. */
static void report_failed(
	const struct work *work, const struct file_record *record, const char *why)
{
	const struct file_want want = {.target = record->target};
	struct plan *plan = &work->job->plan;
	struct change *change = NULL;

	for (size_t i = 0; i < plan->n && !change; i++)
		if (streq(plan->changes[i].name, record->name))
			change = &plan->changes[i];
	if (!change && (change = plan_add(plan))) {
		if (change_take_file(change, &want) < 0) {
			plan->n--;
			return;
		}
		copy_text(change->name, sizeof(change->name), record->name);
		copy_text(change->tuner, sizeof(change->tuner), record->tuner);
		copy_text(change->new, sizeof(change->new), record->failed);
	}
	if (change)
		work_fail(change, "did-not-come-back", -ETIMEDOUT, why, NEVER);
}

/* The files whose settings the restart was to bring get their old content, as far as it is ours. */
static size_t put_back(
	const struct work *work, const struct unit_mark *mark, const char *why, size_t *failed)
{
	size_t n = 0;

	for (size_t i = 0; i < work->journal->n_files; i++) {
		struct file_note *note = &work->journal->files[i];
		struct work_file file = {0};
		struct file_record *keys[JOURNAL_TRIED_MAX];
		size_t n_keys = 0;
		int r;

		for (size_t t = 0; t < mark->n_tried && streq(note->service.unit, mark->unit);
			t++) {
			struct file_record *key =
				mark->tried[t].last ? note_key(note, mark->tried[t].name) : NULL;

			if (key)
				copy_text(key->failed, SETTING_VALUE_MAX, mark->tried[t].value);
			if (key)
				keys[n_keys++] = key;
		}
		if (n_keys == 0)
			continue;
		n++;
		r = note_copy(note, &file.note);
		if (r == 0)
			r = work_roll_back(work, &file);
		if (r < 0)
			log_error(note->path, "not put back: %s",
				file.why[0] ? file.why : strerror(-r));
		*failed += r < 0;
		work_file_clear(&file);
		for (size_t k = 0; k < n_keys; k++)
			report_failed(work, keys[k], why);
	}
	return n;
}

/* It does not answer with the new file: the old one goes back, and it is restarted once more. */
static int roll_back(const struct work *work, const struct service *service, struct unit_mark *mark,
	const char *why)
{
	const struct host *host = &work->job->host;
	char again[EDIT_WHY_MAX] = "";
	size_t failed = 0, n;
	int r;

	log_error("runtime",
		"%s: the file from before goes back, and it is restarted once more; this is not tried again until another value is configured",
		why);
	n = put_back(work, mark, why, &failed);
	(void)work_store(work);
	if (n == 0) {
		log_error(mark->unit, "nothing was put back: the file is not ours");
		close_mark(work, mark);
		return -ETIMEDOUT;
	}
	/* With the same files it would fail in the same way. */
	if (failed == n) {
		leave_open(work, mark, "no file could be put back");
		return -ETIMEDOUT;
	}
	r = check_loads(work, service, again);
	if (r == 0)
		r = unit_restart(host, service, true, work->wait, again);
	if (r == 0)
		r = unit_await(host, service, mark->answered, true, work->job->timeout_us,
			work->wait, again);
	if (r == -ECANCELED)
		return r;
	if (r == 0)
		log_notice(mark->unit, "it answers again, with the file from before");
	else
		log_error("runtime", "with the file from before too: %s", again);
	if (r < 0 && (failed > 0 || (r != -ETIMEDOUT && r != -EPERM)))
		leave_open(work, mark, again);
	else
		close_mark(work, mark);
	return -ETIMEDOUT;
}

/* Whether policy and past restarts allow another one; if not, the changes wait. */
static bool policy_allows(const struct work *work, const struct work_file *file)
{
	const struct file_job *job = work->job;
	const struct service *service = &file->service;
	const struct unit_mark *mark = file_journal_unit(work->journal, service->unit, false);
	bool applying = job->task == FILE_APPLY, busy = applying ? service->busy : job->busy;
	enum restart_policy policy =
		applying ? service->restart : MIN(service->restart, job->restart);
	const char *reason = NULL;
	uint64_t wait_us = 0;

	if (policy == RESTART_NEVER || (policy == RESTART_WHEN_IDLE && busy)) {
		reason = "restart-pending";
	} else if (!service->unit[0]) {
		reason = "restart-refused";
		wait_us = FILE_RESTART_AGAIN_US;
	} else if (mark && mark->open) { /* what came of it is seen first */
		reason = "restart-refused";
		wait_us = FILE_RETRY_US;
	} else if (mark && applying && was_tried(work, file, mark)) {
		return false;
	} else if (mark && applying && policy == RESTART_WHEN_IDLE && rest_us(mark) > 0) {
		reason = "restart-pending";
		wait_us = rest_us(mark);
	}
	if (reason)
		hold(work, file, reason, NULL, wait_us > 0 ? now_us() + wait_us : 0);
	return !reason;
}

/* The restart is durably noted before systemd is asked for it. NULL: it could not be. */
static struct unit_mark *open_mark(
	const struct work *work, const struct work_file *file, enum cri_answers answered)
{
	struct unit_mark *mark = file_journal_unit(work->journal, file->service.unit, true);
	struct unit_mark before;

	if (!mark)
		return NULL;
	before = *mark;
	mark->at_s = realtime_us() / USEC_PER_SEC;
	mark->answered = answered;
	mark->open = true;
	mark_tried(work, file, mark);
	if (work_store(work) == 0)
		return mark;
	*mark = before;
	return NULL;
}

static void restart(const struct work *work, const struct work_file *file)
{
	const struct host *host = &work->job->host;
	const struct service *service = &file->service;
	struct unit_mark *mark;
	char why[EDIT_WHY_MAX] = "", refusal[EDIT_WHY_MAX + 64];
	int r;

	if (!policy_allows(work, file))
		return;
	r = check_loads(work, service, why);
	if (r < 0 && r != -ECANCELED) {
		snprintf(refusal, sizeof(refusal),
			"%.60s is not restarted, its files do not load: %s", service->unit, why);
		log_warning(service->unit, "%s", refusal);
		hold(work, file, "does-not-load", refusal, now_us() + FILE_RETRY_US);
		return;
	}
	if (r == 0)
		r = unit_may_restart(host, service, work->wait, why);
	if (r == -ECANCELED)
		return;
	if (r < 0) {
		log_warning("runtime", "%s", why);
		hold(work, file, r == -ENOTCONN ? "no-systemd" : "restart-refused", why,
			now_us() + FILE_RESTART_AGAIN_US);
		return;
	}
	mark = open_mark(work, file, unit_probe(host, service, work->wait));
	if (!mark) {
		log_error(service->unit, "not restarted, for it could not be noted in the journal");
		hold(work, file, "restart-refused", NULL, now_us() + FILE_RETRY_US);
		return;
	}
	if (atomic_load(&work->job->stale)) {
		close_mark(work, mark);
		return;
	}
	r = unit_restart(host, service, false, work->wait, why);
	if (r == 0) {
		r = unit_await(host, service, mark->answered, false, work->job->timeout_us,
			work->wait, why);
		/* It was asked for: whatever it was that did not answer, it is not back. */
		if (r < 0 && r != -EPERM && r != -ECANCELED)
			r = -ETIMEDOUT;
	}
	if (r == -ECANCELED)
		return;
	if (r == -ETIMEDOUT && work->job->task == FILE_APPLY) {
		if (roll_back(work, service, mark, why) != -ECANCELED)
			fail_all(work, file, "did-not-come-back", -ETIMEDOUT, why);
		return;
	}
	close_mark(work, mark);
	if (r == 0) {
		log_notice(service->unit, "restarted: it answers, and runs with its file as it is");
		hold(work, file, NULL, NULL, now_us() + FILE_SEEN_US);
	} else {
		log_warning("runtime", "%s", why);
		hold(work, file, "restart-refused", why, now_us() + FILE_RESTART_AGAIN_US);
	}
}

static void reload(const struct work *work, const struct work_file *file)
{
	const struct service *service = &file->service;
	const struct wait answer = wait_at_most(work->wait, RELOAD_US);
	uint64_t since = realtime_us();
	struct change *change;
	char path[PATH_MAX];
	int r = service_reload(&work->job->host, service);

	if (r < 0) {
		log_warning(service->program, "does not read its configuration again: %s",
			r == -ESRCH ? "no such process is seen from here" : strerror(-r));
		hold(work, file, "reload-pending", NULL, now_us() + FILE_RETRY_US);
		return;
	}
	log_info(service->program, "asked to read its configuration again");
	hold(work, file, "reload-pending", NULL, now_us() + FILE_RELOAD_AGAIN_US);
	if (!service->socket[0] || !host_path(&work->job->host, service->socket, path))
		return;
	for (size_t i = 0; (change = next_change(work, file, &i));) {
		char value[DOCKER_VALUE_MAX];

		if (docker_wait_reload(path, since, change->file->target.key, value, &answer) < 0)
			return;
		copy_text(change->actual, sizeof(change->actual), value);
		if (value_equal(value, change->new))
			change->held = NULL;
	}
}

void work_activate(const struct work *work)
{
	for (size_t i = 0; i < work->n; i++) {
		const struct work_file *file = &work->files[i];
		bool is_done = false;

		for (size_t before = 0; before < i; before++)
			is_done = is_done ||
				  is_same_service(&work->files[before].service, &file->service);
		if (is_done || !is_due(work, file) || atomic_load(&work->job->stale))
			continue;
		if (file->service.activation == ACTIVATE_RELOAD)
			reload(work, file);
		else if (file->service.activation == ACTIVATE_RESTART)
			restart(work, file);
	}
}

/* ---- what an earlier process began ---- */

/* A restart whose end nobody saw: the process that asked for it was killed, or cancelled. */
static int resume_unit(const struct work *work, struct unit_mark *mark)
{
	const struct service *service = NULL;
	char why[EDIT_WHY_MAX] = "";
	int r;

	for (size_t i = 0; i < work->journal->n_files && !service; i++)
		if (streq(work->journal->files[i].service.unit, mark->unit))
			service = &work->journal->files[i].service;
	if (!service) {
		close_mark(work, mark); /* its files were restored meanwhile, or were not ours */
		return 0;
	}
	log_notice(mark->unit,
		"its restart was under way when this program last ended: waiting for it to answer");
	r = unit_await(&work->job->host, service, mark->answered, false, work->job->timeout_us,
		work->wait, why);
	if (r == -ECANCELED)
		return r;
	if (r == 0 || r == -EPERM) {
		log_notice(mark->unit, "%s", r == 0 ? "it answers after the restart" : why);
		close_mark(work, mark);
	} else if (r == -ETIMEDOUT && work->job->restart == RESTART_NEVER) {
		log_error(mark->unit,
			"%s: its file is left, and it is not restarted, as the configuration forbids it now",
			why);
		close_mark(work, mark);
	} else if (r == -ETIMEDOUT) {
		r = roll_back(work, service, mark, why);
	} else {
		leave_open(work, mark, why);
	}
	return r == -ECANCELED ? r : 1;
}

int work_resume(const struct work *work)
{
	int n = 0;

	for (size_t i = 0; i < work->journal->n_units; i++) {
		int r = work->journal->units[i].open ? resume_unit(work, &work->journal->units[i])
						     : 0;

		if (r < 0)
			return r;
		n += r;
	}
	return n;
}
