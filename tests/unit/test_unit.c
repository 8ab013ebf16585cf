/* SPDX-License-Identifier: Apache-2.0 */
#include "systemd_fixture.h"

#include "apply/unit.h"

#include <sys/prctl.h>

static const struct host host;
static char why[EDIT_WHY_MAX];

static const struct wait no_wait = {.deadline_us = UINT64_MAX, .cancel_fd = -1};

static struct service service_of(const struct fake_systemd *fake, const char *unit)
{
	struct service service = {.activation = ACTIVATE_RESTART};

	copy_text(service.unit, sizeof(service.unit), unit);
	copy_text(service.socket, sizeof(service.socket), fake->socket_path);
	return service;
}

static int await(struct fake_systemd *fake, unsigned answered, bool force)
{
	struct service service = service_of(fake, FAKE_UNIT);

	why[0] = '\0';
	return unit_await(&host, &service, answered, force, 500 * USEC_PER_MSEC, &no_wait, why);
}

/* As far as it may go. */
static int restart(struct fake_systemd *fake, const char *unit)
{
	struct service service = service_of(fake, unit);
	int r;

	why[0] = '\0';
	r = unit_may_restart(&host, &service, &no_wait, why);
	if (r == 0)
		r = unit_restart(&host, &service, false, &no_wait, why);
	return r < 0 ? r : await(fake, CRI_NO_ANSWER, false);
}

#define expect(fake, unit, result, text, n)                    \
	do {                                                   \
		assert_int_equal(restart(fake, unit), result); \
		if (!strstr(why, text))                        \
			fail_msg("%s", why);                   \
		assert_int_equal((fake)->restarts, n);         \
	} while (0)

SYSTEMD_TEST(a_unit_is_restarted_and_answers)
{
	expect(fake, FAKE_UNIT, 0, "", 1);
	fake->slow = 2;
	expect(fake, FAKE_UNIT, 0, "", 2);
	assert_int_equal(fake->slow, 0);
}

SYSTEMD_TEST(a_unit_that_must_not_be_restarted_is_not)
{
	static const char *const modes[] = {"control-group", "mixed", "none"};
	static const char *const units[] = {"k3s.service", "k3s-agent.service",
		"rke2-server.service", "rke2-agent.service", "containerd.socket", "containerd"};

	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		expect(fake, units[i], -EPERM, "is not restarted", 0);
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		fake->kill_mode = modes[i];
		expect(fake, FAKE_UNIT, -EPERM, modes[i], 0);
	}
	fake->kill_mode = "process";
	fake->state = "inactive";
	expect(fake, FAKE_UNIT, -EPERM, "not active", 0);
}

/* A unit that depends on it would be stopped or restarted too: docker, with its containers. */
SYSTEMD_TEST(active_dependents_forbid_a_restart)
{
	static const char *const dependencies[] = {
		"RequiredBy", "RequisiteOf", "BoundBy", "ConsistsOf", "PropagatesStopTo"};

	for (size_t i = 0; i < ARRAY_SIZE(dependencies); i++) {
		fake->dependency = dependencies[i];
		fake->docker_state = "active";
		expect(fake, FAKE_UNIT, -EPERM, "docker.service", i);
		fake->docker_state = "activating";
		expect(fake, FAKE_UNIT, -EPERM, "docker.service", i);
		fake->docker_state = "inactive";
		expect(fake, FAKE_UNIT, 0, "", i + 1);
	}
	/* Debian's docker.service only wants it. */
	fake->dependency = "WantedBy";
	fake->docker_state = "active";
	expect(fake, FAKE_UNIT, 0, "", ARRAY_SIZE(dependencies) + 1);
}

SYSTEMD_TEST(a_unit_that_fails_or_does_not_answer_is_not_back)
{
	struct service service;

	fake->fails = 1;
	expect(fake, FAKE_UNIT, -ETIMEDOUT, "failed", 1);
	/* One that failed is restarted by force alone. */
	service = service_of(fake, FAKE_UNIT);
	assert_int_equal(unit_restart(&host, &service, true, &no_wait, why), 0);
	assert_int_equal(await(fake, CRI_NO_ANSWER, true), 0);
	assert_int_equal(fake->restarts, 2);
	/* It listens, and had a CRI before. */
	assert_int_equal(await(fake, CRI_ANSWERS, false), -ETIMEDOUT);
	unlink(fake->socket_path);
	assert_int_equal(await(fake, CRI_NO_ANSWER, false), -ETIMEDOUT);
	fake->state = "deactivating";
	assert_int_equal(await(fake, CRI_NO_ANSWER, false), -ETIMEDOUT);
	fake->state = "inactive";
	assert_int_equal(await(fake, CRI_NO_ANSWER, false), -EPERM);
	assert_non_null(strstr(why, "stopped"));
}

SYSTEMD_TEST(without_systemd_nothing_is_done)
{
	static const char *const asked[] = {"ActiveState", "KillMode"};

	for (size_t i = 0; i < ARRAY_SIZE(asked); i++) {
		fake->silent = asked[i];
		expect(fake, FAKE_UNIT, -EIO, "no reply", 0);
	}
	/* A restart without a reply may have been done: its outcome is looked at. */
	fake->silent = "RestartUnit";
	expect(fake, FAKE_UNIT, 0, "", 1);
	fake->fails = 1;
	expect(fake, FAKE_UNIT, -ETIMEDOUT, "failed", 2);
	setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent/bus", 1);
	expect(fake, FAKE_UNIT, -ENOTCONN, "systemd cannot be reached", 2);
}

SYSTEMD_TEST(every_call_can_be_cancelled)
{
	struct service service;
	struct wait wait = {.deadline_us = UINT64_MAX};
	int fds[2];

	service = service_of(fake, FAKE_UNIT);
	assert_int_equal(pipe(fds), 0);
	close(fds[1]);
	wait.cancel_fd = fds[0];
	assert_int_equal(unit_may_restart(&host, &service, &wait, why), -ECANCELED);
	assert_int_equal(unit_restart(&host, &service, false, &wait, why), -ECANCELED);
	assert_int_equal(unit_await(&host, &service, 0, false, 0, &wait, why), -ECANCELED);
	close(fds[0]);
}

TEST(a_reload_goes_to_the_named_program_alone)
{
	struct service service = {.activation = ACTIVATE_RELOAD, .program = "dockerd"};
	int status;
	pid_t child;

	for (int named = 0; named < 2; named++) {
		child = fork();
		if (child == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			signal(SIGHUP, SIG_DFL);
			if (named)
				prctl(PR_SET_NAME, "dockerd");
			raise(SIGSTOP);
			pause();
			_exit(0);
		}
		assert_int_equal(waitpid(child, &status, WUNTRACED), child);
		kill(child, SIGCONT);
		service.pid = child;
		assert_int_equal(service_reload(&host, &service), named ? 0 : -ESRCH);
		if (!named)
			kill(child, SIGKILL);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(WTERMSIG(status), named ? SIGHUP : SIGKILL);
	}
	assert_int_equal(service_reload(&host, &service), -ESRCH);
}
