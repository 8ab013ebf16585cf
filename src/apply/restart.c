/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/restart.h"

#include "apply/bus.h"
#include "apply/restart_internal.h"
#include "base/util.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>

#define UNIT_DIRECTORY "/org/freedesktop/systemd1/unit"

#define ANSWER_US (30 * USEC_PER_SEC)
#define ANSWERS   15 /* that may be waited for within that time, one after the other */
#define CALL_US   (5 * USEC_PER_SEC)
#define POLL_US   (100 * USEC_PER_MSEC)
#define PATIENCES 20 /* as long as it may take with systemd's job for it, at most: 10 min */

static int poll_again(struct restart *restart);
static int on_restarted(struct restart *restart, sd_bus_message *answer);

void restart_abandon(struct restart *restart)
{
	if (!restart)
		return;
	sd_bus_slot_unref(restart->call);
	sd_event_source_disable_unref(restart->timer);
	answer_abandon(restart->answer);
	if (restart->bus) {
		sd_bus_detach_event(restart->bus);
		sd_bus_close(restart->bus);
		sd_bus_unref(restart->bus);
	}
	sd_event_unref(restart->event);
	for (size_t i = 0; i < restart->n_neighbors; i++)
		free(restart->neighbors[i]);
	free(restart->path);
	free(restart);
}

static int finish(struct restart *restart, int result, const char *why)
{
	restart_done done = restart->done;
	void *userdata = restart->userdata;
	char said[EDIT_WHY_MAX];

	copy_text(said, sizeof(said), why);
	restart_abandon(restart);
	done(result, said, userdata);
	return 0;
}

int restart_refuse(struct restart *restart, const char *what)
{
	char why[EDIT_WHY_MAX];

	snprintf(why, sizeof(why), "%.80s %s", restart->service.unit, what);
	return finish(restart, -EPERM, why);
}

static int give_up(struct restart *restart, int error, const char *message)
{
	char why[EDIT_WHY_MAX];

	/* To the caller that would say that it was restarted. */
	if (error == -ETIMEDOUT)
		error = -EIO;
	snprintf(why, sizeof(why), "systemd: %.200s", message ? message : strerror(-error));
	/* One line of a log, whatever the peer says. */
	for (char *p = why; *p; p++)
		if (iscntrl((unsigned char)*p))
			*p = ' ';
	/* Who only waits has not seen it fail. */
	if (restart->restarted && restart->way != RESTART_AWAIT)
		error = -ETIMEDOUT;
	return finish(restart, error, why);
}

static int on_error(struct restart *restart, sd_bus_message *answer, const sd_bus_error *error)
{
	int failed = sd_bus_error_get_errno(error);

	/* No reply, because systemd is slow or reexecutes itself: it may have begun. */
	if (restart->asked && !restart->restarted && failed == ETIMEDOUT)
		return on_restarted(restart, answer);
	/* While systemd reexecutes itself, or the bus is restarted: the deadline decides. */
	if (restart->restarted) {
		restart->state[0] = '\0';
		return poll_again(restart);
	}
	return give_up(restart, -failed, error->message);
}

/* An error of the bus, or what the handler of this answer makes of it. */
int restart_on_answer(struct restart *restart, sd_bus_message *answer, restart_handler handler)
{
	const sd_bus_error *error = sd_bus_message_get_error(answer);
	int r;

	restart->call = sd_bus_slot_unref(restart->call);
	r = error ? on_error(restart, answer, error) : handler(restart, answer);
	return r < 0 ? give_up(restart, r, NULL) : 0;
}

/* ---- after the restart: until it answers ---- */

int restart_take_state(struct restart *restart, sd_bus_message *answer)
{
	int r = sd_bus_message_enter_container(answer, 'a', "{sv}");

	while (r >= 0 && (r = sd_bus_message_enter_container(answer, 'e', "sv")) > 0) {
		const char *name, *text;

		r = sd_bus_message_read(answer, "s", &name);
		if (r < 0)
			return r;
		if (streq(name, "ActiveState")) {
			r = sd_bus_message_read(answer, "v", "s", &text);
			if (r >= 0)
				copy_text(restart->state, sizeof(restart->state), text);
		} else if (streq(name, "Job")) {
			r = sd_bus_message_read(answer, "v", "(uo)", &restart->job, NULL);
		} else {
			r = sd_bus_message_skip(answer, "v");
		}
		if (r >= 0)
			r = sd_bus_message_exit_container(answer);
	}
	return r;
}

static int ask_socket(struct restart *restart, answer_done done)
{
	return answer_ask(restart->event, &restart->host, restart->service.socket,
		restart->timeout_us / ANSWERS, done, restart, &restart->answer);
}

/* As much of it has to answer as did before: its CRI may fail to load, while all else runs. */
static void on_answer_after(enum answer_level level, void *userdata)
{
	struct restart *restart = userdata;

	restart->answer = NULL;
	restart->level = level;
	if (level >= MAX(restart->before, ANSWER_CONNECT))
		finish(restart, 0, "");
	else if (poll_again(restart) < 0)
		give_up(restart, -ENOMEM, NULL);
}

static int not_back(struct restart *restart)
{
	char why[EDIT_WHY_MAX];

	snprintf(why, sizeof(why), "%.60s was restarted and does not answer: it is %s%s",
		restart->service.unit, restart->state[0] ? restart->state : "in an unknown state",
		restart->level == ANSWER_GRPC ? ", and without its CRI" : "");
	return finish(restart, -ETIMEDOUT, why);
}

static void on_last_answer(enum answer_level level, void *userdata)
{
	struct restart *restart = userdata;

	restart->answer = NULL;
	restart->level = level;
	if (level >= MAX(restart->before, ANSWER_CONNECT))
		finish(restart, 0, "");
	else
		not_back(restart);
}

/* That systemd says nothing is no fault of the runtime, which is asked itself then. */
static int on_deadline(struct restart *restart)
{
	if (restart->state[0])
		return not_back(restart);
	if (restart->service.socket[0] && ask_socket(restart, on_last_answer) >= 0)
		return 0;
	return give_up(restart, -EIO, "it does not tell the unit's state");
}

/*
 * The job that it is found with is what was asked for, or a boot's: it may wait for others or stop
 * for long, and none of that counts. Those after it are of a unit that fails again and again.
 */
static void wait_for_job(struct restart *restart)
{
	if (restart->job != 0 && restart->first_job == 0)
		restart->first_job = restart->job;
	if (restart->job != 0 && restart->job == restart->first_job)
		restart->deadline_us =
			MIN(now_us() + restart->timeout_us, restart->last_deadline_us);
}

static int on_state_after(struct restart *restart, sd_bus_message *answer)
{
	int r = restart_take_state(restart, answer);

	if (r < 0)
		return r;
	wait_for_job(restart);
	/* Failed is what systemd has given up; a unit that it starts again is activating. */
	if (restart->job == 0 && streq(restart->state, "failed"))
		return not_back(restart);
	if (restart->job == 0 && restart->way != RESTART_AGAIN && streq(restart->state, "inactive"))
		return restart_refuse(restart, "was stopped by somebody else, and is left so");
	if (restart->job != 0 || !streq(restart->state, "active"))
		return poll_again(restart);
	if (!restart->service.socket[0])
		return finish(restart, 0, "");
	return ask_socket(restart, on_answer_after);
}

static int handle_state_after(sd_bus_message *answer, void *userdata, sd_bus_error *error)
{
	(void)error;
	return restart_on_answer(userdata, answer, on_state_after);
}

int restart_get_all(struct restart *restart, sd_bus_message_handler_t handler)
{
	return sd_bus_call_method_async(restart->bus, &restart->call, RESTART_SYSTEMD,
		restart->path, "org.freedesktop.DBus.Properties", "GetAll", handler, restart, "s",
		RESTART_SYSTEMD ".Unit");
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct restart *restart = userdata;

	(void)source;
	(void)usec;
	restart->timer = sd_event_source_disable_unref(restart->timer);
	if (now_us() >= restart->deadline_us)
		return on_deadline(restart);
	if (restart_get_all(restart, handle_state_after) >= 0)
		return 0;
	/* The bus is gone: then what the runtime itself says has to do. */
	restart->state[0] = '\0';
	if (restart->service.socket[0] && ask_socket(restart, on_answer_after) >= 0)
		return 0;
	return on_deadline(restart);
}

static int poll_again(struct restart *restart)
{
	return sd_event_add_time(restart->event, &restart->timer, CLOCK_MONOTONIC,
		now_us() + POLL_US, POLL_US / 4, on_timer, restart);
}

static int on_restarted(struct restart *restart, sd_bus_message *answer)
{
	(void)answer;
	restart->restarted = true;
	restart->state[0] = '\0';
	restart->deadline_us = now_us() + restart->timeout_us;
	restart->last_deadline_us = now_us() + PATIENCES * restart->timeout_us;
	return poll_again(restart);
}

static int handle_restarted(sd_bus_message *answer, void *userdata, sd_bus_error *error)
{
	(void)error;
	return restart_on_answer(userdata, answer, on_restarted);
}

/* One that was stopped since it was looked at is not started; one that failed by us is. */
static int call_restart(struct restart *restart)
{
	const char *method = restart->way == RESTART_AGAIN ? "RestartUnit" : "TryRestartUnit";

	restart->asked = true;
	return sd_bus_call_method_async(restart->bus, &restart->call, RESTART_SYSTEMD,
		RESTART_MANAGER, RESTART_SYSTEMD ".Manager", method, handle_restarted, restart,
		"ss", restart->service.unit, "replace");
}

int restart_may_go(struct restart *restart)
{
	if (!restart->ready)
		return call_restart(restart);
	/* It may be released in there. */
	restart->ready(restart->before, restart->userdata);
	return 0;
}

int restart_go(struct restart *restart)
{
	int r = call_restart(restart);

	return MIN(r, 0);
}

/* ---- start ---- */

/* What runs the kubelet along with the runtime, or is no unit to be restarted by us at all. */
static bool is_forbidden(const char *unit)
{
	static const char *const others[] = {"k3s", "rke2", "k0s", "snap.microk8s", "kubelet"};
	const char *ending = strrchr(unit, '.');

	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (starts_with(unit, others[i]))
			return true;
	return !ending || !streq(ending, ".service");
}

static int ask(struct restart *restart)
{
	int r = bus_open(&restart->host, &restart->bus);

	if (r >= 0)
		r = sd_bus_set_method_call_timeout(restart->bus, CALL_US);
	if (r >= 0)
		r = sd_bus_attach_event(restart->bus, restart->event, SD_EVENT_PRIORITY_NORMAL);
	if (r >= 0)
		r = sd_bus_path_encode(UNIT_DIRECTORY, restart->service.unit, &restart->path);
	if (r < 0)
		return r;
	switch (restart->way) {
	case RESTART_AGAIN:
		return call_restart(restart);
	case RESTART_AWAIT:
		return on_restarted(restart, NULL);
	case RESTART_ASK:
		break;
	}
	return restart_check(restart);
}

static void on_answer_before(enum answer_level level, void *userdata)
{
	struct restart *restart = userdata;
	int r;

	restart->answer = NULL;
	restart->before = level;
	r = ask(restart);
	if (r < 0)
		give_up(restart, r, NULL);
}

/* What is known without asking is said from the loop too. */
static int on_begin(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct restart *restart = userdata;
	int r;

	(void)source;
	(void)usec;
	restart->timer = sd_event_source_disable_unref(restart->timer);
	if (is_forbidden(restart->service.unit))
		return restart_refuse(restart,
			"is not restarted: more than the runtime runs in it, or it is no service");
	r = restart->way == RESTART_ASK && restart->service.socket[0]
		    ? ask_socket(restart, on_answer_before)
		    : ask(restart);
	return r < 0 ? give_up(restart, r, NULL) : 0;
}

int restart_start(sd_event *event, const struct restart_options *options, restart_done done,
	void *userdata, struct restart **ret)
{
	struct restart *restart = calloc(1, sizeof(*restart));
	int r;

	if (!restart)
		return -ENOMEM;
	restart->event = sd_event_ref(event);
	restart->host = *options->host;
	restart->service = *options->service;
	restart->way = options->way;
	restart->ready = options->ready;
	restart->before = options->way == RESTART_AWAIT ? options->answered : ANSWER_NONE;
	restart->timeout_us = options->deadline_us ? options->deadline_us : ANSWER_US;
	restart->done = done;
	restart->userdata = userdata;
	r = sd_event_add_time(
		event, &restart->timer, CLOCK_MONOTONIC, now_us(), 1, on_begin, restart);
	if (r < 0) {
		restart_abandon(restart);
		return r;
	}
	*ret = restart;
	return 0;
}
