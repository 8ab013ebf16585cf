/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_systemd.h"

#include "apply/restart.h"

#include <errno.h>

struct outcome {
	bool done;
	int result;
	char why[EDIT_WHY_MAX];
};

static void on_done(int result, const char *why, void *userdata)
{
	struct outcome *outcome = userdata;

	assert_false(outcome->done);
	outcome->done = true;
	outcome->result = result;
	copy_text(outcome->why, sizeof(outcome->why), why);
}

static struct outcome restart_by(struct fake_systemd *fake, const char *unit, enum restart_way way,
	enum answer_level answered)
{
	struct host host = {0};
	struct service service = {0};
	struct restart_options options = {.host = &host,
		.service = &service,
		.way = way,
		.answered = answered,
		.deadline_us = 500 * USEC_PER_MSEC};
	struct outcome outcome = {0};
	struct restart *restart;

	copy_text(service.unit, sizeof(service.unit), unit);
	copy_text(service.socket, sizeof(service.socket), fake->socket_path);
	assert_int_equal(restart_start(fake->event, &options, on_done, &outcome, &restart), 0);
	assert_false(outcome.done);
	while (!outcome.done)
		assert_true(sd_event_run(fake->event, 20 * USEC_PER_SEC) > 0);
	return outcome;
}

static struct outcome restart(struct fake_systemd *fake, const char *unit, bool forced)
{
	return restart_by(fake, unit, forced ? RESTART_AGAIN : RESTART_ASK, ANSWER_NONE);
}

static void expect(
	struct fake_systemd *fake, const char *unit, int result, const char *why, unsigned restarts)
{
	struct outcome outcome = restart(fake, unit, false);

	if (outcome.result != result || !strstr(outcome.why, why))
		fail_msg("%d: %s", outcome.result, outcome.why);
	assert_int_equal(fake->restarts, restarts);
}

static void it_is_restarted_and_answers(void **state)
{
	_cleanup_fake_systemd_ struct fake_systemd fake;

	(void)state;
	fake_systemd_make(&fake);
	expect(&fake, FAKE_UNIT, 0, "", 1);
	fake.slow = 2;
	expect(&fake, FAKE_UNIT, 0, "", 2);
	assert_int_equal(fake.slow, 0);
}

static void only_the_daemon_may_be_killed(void **state)
{
	static const char *const modes[] = {"control-group", "mixed", "none"};
	_cleanup_fake_systemd_ struct fake_systemd fake;

	(void)state;
	fake_systemd_make(&fake);
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		fake.kill_mode = modes[i];
		expect(&fake, FAKE_UNIT, -EPERM, modes[i], 0);
	}
}

/* Who is bound to it would be stopped or restarted along with it: docker, with its containers. */
static void nobody_is_dragged_along(void **state)
{
	static const char *const dependencies[] = {
		"RequiredBy", "RequisiteOf", "BoundBy", "ConsistsOf", "PropagatesStopTo"};
	_cleanup_fake_systemd_ struct fake_systemd fake;

	(void)state;
	fake_systemd_make(&fake);
	for (size_t i = 0; i < ARRAY_SIZE(dependencies); i++) {
		fake.dependency = dependencies[i];
		fake.docker_state = "active";
		expect(&fake, FAKE_UNIT, -EPERM, "docker.service", i);
		fake.docker_state = "activating";
		expect(&fake, FAKE_UNIT, -EPERM, "docker.service", i);
		fake.docker_state = "inactive";
		expect(&fake, FAKE_UNIT, 0, "", i + 1);
	}
	/* Debian's docker.service only wants it. */
	fake.dependency = "WantedBy";
	fake.docker_state = "active";
	expect(&fake, FAKE_UNIT, 0, "", ARRAY_SIZE(dependencies) + 1);
}

static void units_with_more_in_them_are_never_restarted(void **state)
{
	static const char *const units[] = {"k3s.service", "k3s-agent.service",
		"rke2-server.service", "rke2-agent.service", "containerd.socket", "containerd"};
	_cleanup_fake_systemd_ struct fake_systemd fake;

	(void)state;
	fake_systemd_make(&fake);
	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		expect(&fake, units[i], -EPERM, "is not restarted", 0);
}

static void what_does_not_run_is_left(void **state)
{
	_cleanup_fake_systemd_ struct fake_systemd fake;

	(void)state;
	fake_systemd_make(&fake);
	fake.state = "inactive";
	expect(&fake, FAKE_UNIT, -EPERM, "not active", 0);
}

static void one_that_does_not_come_back(void **state)
{
	_cleanup_fake_systemd_ struct fake_systemd fake;

	(void)state;
	fake_systemd_make(&fake);
	fake.fails = 1;
	expect(&fake, FAKE_UNIT, -ETIMEDOUT, "failed", 1);
	/* Up, as systemd says, and deaf. */
	fake.state = "active";
	fake.kill_mode = "control-group";
	assert_int_equal(restart(&fake, FAKE_UNIT, true).result, 0);
	assert_int_equal(fake.restarts, 2);
}

static void active_and_deaf_is_not_back(void **state)
{
	_cleanup_fake_systemd_ struct fake_systemd fake;
	char path[PATH_MAX];

	(void)state;
	fake_systemd_make(&fake);
	copy_text(path, sizeof(path), fake.socket_path);
	directory_path(&fake.directory, "/elsewhere.sock", fake.socket_path);
	fake_listen(&fake);
	unlink(fake.socket_path);
	{
		struct host host = {0};
		struct service service = {.unit = FAKE_UNIT};
		struct restart_options options = {
			.host = &host, .service = &service, .deadline_us = 300 * USEC_PER_MSEC};
		struct outcome outcome = {0};
		struct restart *restart;

		copy_text(service.socket, sizeof(service.socket), path);
		unlink(path);
		assert_int_equal(
			restart_start(fake.event, &options, on_done, &outcome, &restart), 0);
		while (!outcome.done)
			assert_true(sd_event_run(fake.event, 20 * USEC_PER_SEC) > 0);
		assert_int_equal(outcome.result, -ETIMEDOUT);
	}
}

static void without_a_bus_nothing_is_done(void **state)
{
	_cleanup_fake_systemd_ struct fake_systemd fake;
	struct outcome outcome;

	(void)state;
	fake_systemd_make(&fake);
	setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent/bus", 1);
	outcome = restart(&fake, FAKE_UNIT, false);
	assert_true(outcome.result < 0 && outcome.result != -ETIMEDOUT && outcome.result != -EPERM);
	assert_non_null(strstr(outcome.why, "systemd"));
	assert_int_equal(fake.restarts, 0);
}

/* Nothing was done, so nothing is to be put back, least of all by another restart. */
static void no_reply_is_no_restart(void **state)
{
	static const char *const asked[] = {"ActiveState", "KillMode"};
	_cleanup_fake_systemd_ struct fake_systemd fake;

	(void)state;
	fake_systemd_make(&fake);
	for (size_t i = 0; i < ARRAY_SIZE(asked); i++) {
		fake.silent = asked[i];
		expect(&fake, FAKE_UNIT, -EIO, "no reply", 0);
	}
	/* This one was asked for, and may have been done: what comes of it is looked at. */
	fake.silent = "RestartUnit";
	expect(&fake, FAKE_UNIT, 0, "", 1);
	fake.fails = 1;
	expect(&fake, FAKE_UNIT, -ETIMEDOUT, "failed", 2);
}

/* What another process asked for: it is only looked at, by the same measure. */
static void what_was_asked_for_earlier_is_waited_for(void **state)
{
	_cleanup_fake_systemd_ struct fake_systemd fake;
	struct outcome outcome;

	(void)state;
	fake_systemd_make(&fake);
	fake.kill_mode = "control-group";
	assert_int_equal(restart_by(&fake, FAKE_UNIT, RESTART_AWAIT, ANSWER_CONNECT).result, 0);
	/* It listens; before the restart it had a CRI. */
	outcome = restart_by(&fake, FAKE_UNIT, RESTART_AWAIT, ANSWER_CRI);
	assert_int_equal(outcome.result, -ETIMEDOUT);
	fake.state = "failed";
	outcome = restart_by(&fake, FAKE_UNIT, RESTART_AWAIT, ANSWER_NONE);
	assert_int_equal(outcome.result, -ETIMEDOUT);
	assert_non_null(strstr(outcome.why, "failed"));
	/* On its way down, or up: time decides. */
	fake.state = "deactivating";
	outcome = restart_by(&fake, FAKE_UNIT, RESTART_AWAIT, ANSWER_NONE);
	assert_int_equal(outcome.result, -ETIMEDOUT);
	fake.state = "inactive";
	outcome = restart_by(&fake, FAKE_UNIT, RESTART_AWAIT, ANSWER_NONE);
	assert_int_equal(outcome.result, -EPERM);
	assert_non_null(strstr(outcome.why, "stopped"));
	assert_int_equal(fake.restarts, 0);
}

struct readiness {
	struct restart *restart;
	unsigned calls;
	enum answer_level answered;
	struct outcome outcome;
	bool abandons;
};

static void on_ready(enum answer_level answered, void *userdata)
{
	struct readiness *readiness = userdata;

	readiness->calls++;
	readiness->answered = answered;
	if (readiness->abandons)
		restart_abandon(steal(readiness->restart));
}

static void on_ready_done(int result, const char *why, void *userdata)
{
	on_done(result, why, &((struct readiness *)userdata)->outcome);
}

/* What has to be durable before is stored in between. */
static void it_waits_to_be_told_to_go(void **state)
{
	(void)state;
	for (int abandons = 0; abandons < 2; abandons++) {
		_cleanup_fake_systemd_ struct fake_systemd fake;
		struct readiness readiness = {.abandons = abandons};
		struct host host = {0};
		struct service service = {.unit = FAKE_UNIT};
		struct restart_options options = {.host = &host,
			.service = &service,
			.ready = on_ready,
			.deadline_us = 500 * USEC_PER_MSEC};

		fake_systemd_make(&fake);
		copy_text(service.socket, sizeof(service.socket), fake.socket_path);
		assert_int_equal(restart_start(fake.event, &options, on_ready_done, &readiness,
					 &readiness.restart),
			0);
		while (readiness.calls == 0)
			assert_true(sd_event_run(fake.event, 20 * USEC_PER_SEC) > 0);
		for (int i = 0; i < 5; i++)
			assert_true(sd_event_run(fake.event, 20 * USEC_PER_MSEC) >= 0);
		assert_int_equal(readiness.answered, ANSWER_CONNECT);
		assert_int_equal(fake.restarts, 0);
		assert_false(readiness.outcome.done);
		if (abandons)
			continue;
		assert_int_equal(restart_go(readiness.restart), 0);
		while (!readiness.outcome.done)
			assert_true(sd_event_run(fake.event, 20 * USEC_PER_SEC) > 0);
		assert_int_equal(readiness.outcome.result, 0);
		assert_int_equal(readiness.calls, 1);
		assert_int_equal(fake.restarts, 1);
	}
}

static void it_can_be_abandoned_at_any_step(void **state)
{
	_cleanup_fake_systemd_ struct fake_systemd fake;
	struct host host = {0};
	struct service service = {.unit = FAKE_UNIT};
	struct restart_options options = {.host = &host, .service = &service};

	(void)state;
	fake_systemd_make(&fake);
	for (int steps = 0; steps < 30; steps++) {
		struct outcome outcome = {0};
		struct restart *restart;

		assert_int_equal(
			restart_start(fake.event, &options, on_done, &outcome, &restart), 0);
		for (int i = 0; i < steps && !outcome.done; i++)
			sd_event_run(fake.event, 10 * USEC_PER_MSEC);
		if (!outcome.done)
			restart_abandon(restart);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_restarted_and_answers),
		cmocka_unit_test(only_the_daemon_may_be_killed),
		cmocka_unit_test(nobody_is_dragged_along),
		cmocka_unit_test(units_with_more_in_them_are_never_restarted),
		cmocka_unit_test(what_does_not_run_is_left),
		cmocka_unit_test(one_that_does_not_come_back),
		cmocka_unit_test(active_and_deaf_is_not_back),
		cmocka_unit_test(without_a_bus_nothing_is_done),
		cmocka_unit_test(no_reply_is_no_restart),
		cmocka_unit_test(what_was_asked_for_earlier_is_waited_for),
		cmocka_unit_test(it_waits_to_be_told_to_go),
		cmocka_unit_test(it_can_be_abandoned_at_any_step),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
