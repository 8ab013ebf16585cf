/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/unit.h"

#include "apply/file.h"
#include "base/file.h"
#include "base/util.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>

#include <systemd/sd-bus.h>

#define BUS_SOCKET "/run/dbus/system_bus_socket"
#define SYSTEMD    "org.freedesktop.systemd1"
#define MANAGER    "/org/freedesktop/systemd1"
#define UNITS      MANAGER "/unit"

#define POLL_US   (100 * USEC_PER_MSEC)
#define ANSWER_US (30 * USEC_PER_SEC)
#define PROBES    15 /* that fit into the time for an answer, when each takes long */
#define JOB_MAX   20 /* times that time: as long as systemd's own job may take */

/* No call blocks longer: between them a wait can cancel. */
#define CALL_US    USEC_PER_SEC
#define RESTART_US (5 * USEC_PER_SEC)

static void close_bus(sd_bus **bus)
{
	if (*bus)
		sd_bus_close(*bus);
	*bus = sd_bus_unref(*bus);
}

static bool is_cancelled(const struct wait *wait)
{
	const struct wait now = wait_at_most(wait, 0);

	return wait_for(&now, -1, 0) == -ECANCELED;
}

/* -EIO, not -ETIMEDOUT, without a reply in time: that is no word about the unit. */
static int explain(int error, const sd_bus_error *reply, char *why)
{
	bool missing = error == -ENOENT || error == -ECONNREFUSED || error == -EHOSTUNREACH;

	snprintf(why, EDIT_WHY_MAX, "systemd%s: %.200s", missing ? " cannot be reached" : "",
		reply && reply->message ? reply->message : strerror(-error));
	/* One line of a log, whatever the peer says. */
	for (char *c = why; *c; c++)
		if (iscntrl((unsigned char)*c))
			*c = ' ';
	return missing ? -ENOTCONN : error == -ETIMEDOUT ? -EIO : error;
}

/* Where DBUS_SYSTEM_BUS_ADDRESS says, else the usual socket below the host's root. */
static int open_bus(const struct host *host, sd_bus **ret)
{
	_cleanup_(close_bus) sd_bus *bus = NULL;
	char address[PATH_MAX + 16], path[PATH_MAX];
	int r;

	if (!host->root[0] || getenv("DBUS_SYSTEM_BUS_ADDRESS")) {
		r = sd_bus_open_system(&bus);
	} else {
		r = path_in_root(host->root, BUS_SOCKET, path);
		if (r == 0)
			r = sd_bus_new(&bus);
		snprintf(address, sizeof(address), "unix:path=%s", path);
		if (r >= 0)
			r = sd_bus_set_address(bus, address);
		if (r >= 0)
			r = sd_bus_set_bus_client(bus, true);
		if (r >= 0)
			r = sd_bus_start(bus);
	}
	if (r >= 0)
		r = sd_bus_set_method_call_timeout(bus, CALL_US);
	if (r < 0)
		return r;
	*ret = steal(bus);
	return 0;
}

/* job: not 0 when systemd is not done with the unit. */
static int read_state(
	sd_bus *bus, const char *path, char state[static 32], uint32_t *job, char *why)
{
	_cleanup_(sd_bus_error_free) sd_bus_error error = SD_BUS_ERROR_NULL;
	_cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
	_cleanup_free_ char *text = NULL;
	int r = sd_bus_get_property(
		bus, SYSTEMD, path, SYSTEMD ".Unit", "Job", &error, &reply, "(uo)");

	if (r >= 0)
		r = sd_bus_message_read(reply, "(uo)", job, NULL);
	if (r >= 0)
		r = sd_bus_get_property_string(
			bus, SYSTEMD, path, SYSTEMD ".Unit", "ActiveState", &error, &text);
	if (r < 0)
		return explain(r, &error, why);
	copy_text(state, 32, text);
	return 0;
}

static int refuse(const struct service *service, char *why, const char *what)
{
	snprintf(why, EDIT_WHY_MAX, "%.80s %s", service->unit, what);
	return -EPERM;
}

/* "active", "reloading", "activating", "deactivating": something of it runs. */
static bool is_up(const char *state)
{
	return !streq(state, "inactive") && !streq(state, "failed");
}

/* Units that systemd stops or restarts along with this one. */
static int check_dependents(sd_bus *bus, const char *path, const struct service *service, char *why)
{
	static const char *const kinds[] = {
		"RequiredBy", "RequisiteOf", "BoundBy", "ConsistsOf", "PropagatesStopTo"};
	int r = 0;

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(kinds); i++) {
		_cleanup_(sd_bus_error_free) sd_bus_error error = SD_BUS_ERROR_NULL;
		_cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
		const char *name;

		r = sd_bus_get_property(
			bus, SYSTEMD, path, SYSTEMD ".Unit", kinds[i], &error, &reply, "as");
		/* PropagatesStopTo is there since systemd 249. */
		if (sd_bus_error_has_name(&error, SD_BUS_ERROR_UNKNOWN_PROPERTY)) {
			r = 0;
			continue;
		}
		if (r >= 0)
			r = sd_bus_message_enter_container(reply, 'a', "s");
		while (r >= 0 && (r = sd_bus_message_read(reply, "s", &name)) > 0) {
			_cleanup_free_ char *its_path = NULL;
			char state[32], what[160];
			uint32_t job;

			r = sd_bus_path_encode(UNITS, name, &its_path);
			if (r >= 0)
				r = read_state(bus, its_path, state, &job, why);
			if (r < 0)
				return r;
			if (!is_up(state))
				continue;
			snprintf(what, sizeof(what),
				"is not restarted: %.80s depends on it and would be stopped too",
				name);
			return refuse(service, why, what);
		}
		if (r < 0)
			return explain(r, &error, why);
	}
	return 0;
}

static int check_unit(sd_bus *bus, const struct service *service, char *why)
{
	_cleanup_(sd_bus_error_free) sd_bus_error error = SD_BUS_ERROR_NULL;
	_cleanup_free_ char *path = NULL, *mode = NULL;
	char state[32], what[160];
	uint32_t job;
	int r = sd_bus_path_encode(UNITS, service->unit, &path);

	if (r < 0)
		return explain(r, NULL, why);
	r = read_state(bus, path, state, &job, why);
	if (r < 0)
		return r;
	if (!streq(state, "active"))
		return refuse(service, why,
			"is not restarted: it is not active, so it is not what runs here");
	r = sd_bus_get_property_string(
		bus, SYSTEMD, path, SYSTEMD ".Service", "KillMode", &error, &mode);
	if (r < 0)
		return explain(r, &error, why);
	if (streq(mode, "process"))
		return check_dependents(bus, path, service, why);
	snprintf(what, sizeof(what),
		"is not restarted: its KillMode is %.40s, which would kill containers too", mode);
	return refuse(service, why, what);
}

/* Units that run the kubelet along with the runtime, or that are not ours to restart at all. */
static bool is_forbidden(const char *unit)
{
	static const char *const others[] = {"k3s", "rke2", "k0s", "snap.microk8s", "kubelet"};
	const char *suffix = strrchr(unit, '.');

	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (starts_with(unit, others[i]))
			return true;
	return !suffix || !streq(suffix, ".service");
}

int unit_may_restart(const struct host *host, const struct service *service,
	const struct wait *wait, char why[static EDIT_WHY_MAX])
{
	_cleanup_(close_bus) sd_bus *bus = NULL;
	int r;

	if (is_forbidden(service->unit))
		return refuse(service, why,
			"is not restarted: more than the runtime runs in it, or it is no service");
	r = is_cancelled(wait) ? -ECANCELED : open_bus(host, &bus);
	if (r < 0)
		return r == -ECANCELED ? r : explain(r, NULL, why);
	return check_unit(bus, service, why);
}

int unit_restart(const struct host *host, const struct service *service, bool force,
	const struct wait *wait, char why[static EDIT_WHY_MAX])
{
	_cleanup_(close_bus) sd_bus *bus = NULL;
	_cleanup_(sd_bus_error_free) sd_bus_error error = SD_BUS_ERROR_NULL;
	int r = is_cancelled(wait) ? -ECANCELED : open_bus(host, &bus);

	if (r == -ECANCELED)
		return r;
	/* Longer than the others: without its reply nobody knows whether it began. */
	if (r >= 0)
		r = sd_bus_set_method_call_timeout(bus, RESTART_US);
	if (r >= 0)
		r = sd_bus_call_method(bus, SYSTEMD, MANAGER, SYSTEMD ".Manager",
			force ? "RestartUnit" : "TryRestartUnit", &error, NULL, "ss", service->unit,
			"replace");
	return r < 0 && r != -ETIMEDOUT ? explain(r, &error, why) : 0;
}

enum cri_answers unit_probe(
	const struct host *host, const struct service *service, const struct wait *wait)
{
	char path[PATH_MAX];

	if (!service->socket[0] || path_in_root(host->root, service->socket, path) < 0)
		return CRI_NO_ANSWER;
	return cri_probe(path, wait);
}

static int not_back(const struct service *service, const char *state, unsigned level, char *why)
{
	snprintf(why, EDIT_WHY_MAX, "%.60s was restarted and does not answer: it is %s%s",
		service->unit, state, level == CRI_IS_GRPC ? ", and without its CRI" : "");
	return -ETIMEDOUT;
}

int unit_await(const struct host *host, const struct service *service, unsigned answered,
	bool force, uint64_t timeout_us, const struct wait *wait, char why[static EDIT_WHY_MAX])
{
	_cleanup_(close_bus) sd_bus *bus = NULL;
	_cleanup_free_ char *path = NULL;
	uint64_t timeout = timeout_us ? timeout_us : ANSWER_US;
	uint64_t deadline = now_us() + timeout, last_deadline = now_us() + JOB_MAX * timeout;
	uint32_t first_job = 0;
	unsigned level = CRI_NO_ANSWER;

	if (sd_bus_path_encode(UNITS, service->unit, &path) < 0)
		return -ENOMEM;
	for (;;) {
		const struct wait pause = wait_at_most(wait, POLL_US);
		char state[32] = "";
		uint32_t job = 0;
		int r = wait_for(&pause, -1, 0);

		if (r != -ETIMEDOUT)
			return r;
		r = bus ? 0 : open_bus(host, &bus);
		r = r < 0 ? explain(r, NULL, why) : read_state(bus, path, state, &job, why);
		/* While systemd reexecutes itself, or the bus is restarted: the program decides. */
		if (r < 0)
			close_bus(&bus);
		/*
		 * The job that it is found with is what was asked for, or a boot's: it may wait for
		 * others or stop for long, and none of that counts. Those after it are of a unit
		 * that fails again and again.
		 */
		if (job != 0 && first_job == 0)
			first_job = job;
		if (job != 0 && job == first_job)
			deadline = MIN(now_us() + timeout, last_deadline);
		/* Failed is what systemd has given up; a unit that it starts again is activating.
		 */
		if (job == 0 && streq(state, "failed"))
			return not_back(service, state, level, why);
		if (job == 0 && streq(state, "inactive") && !force)
			return refuse(service, why, "was stopped by somebody else, and is left so");
		if (r < 0 || (job == 0 && streq(state, "active"))) {
			const struct wait probe = wait_at_most(wait, timeout / PROBES);

			if (r == 0 && !service->socket[0])
				return 0;
			level = unit_probe(host, service, &probe);
			if (level >= MAX(answered, (unsigned)CRI_CONNECTS))
				return 0;
		}
		/* That systemd reports nothing is no fault of the program. */
		if (now_us() >= MIN(deadline, wait->deadline_us))
			return r < 0 ? r : not_back(service, state, level, why);
	}
}

static int find_pid(const struct host *host, const struct service *service, pid_t *pid)
{
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX];
	uint64_t number;
	int r;

	if (service->pid > 0) {
		*pid = service->pid;
		return 0;
	}
	if (!service->pid_file[0])
		return -ESRCH;
	r = path_in_root(host->root, service->pid_file, path);
	if (r == 0)
		r = read_file(path, 64, &text, NULL);
	if (r < 0)
		return r == -ENOENT ? -ESRCH : r;
	text[strcspn(text, " \n")] = '\0';
	if (parse_count(text, &number) < 0 || number < 2 || number > INT32_MAX)
		return -ESRCH;
	*pid = (pid_t)number;
	return 0;
}

/* By our own /proc: the signal goes to the process that has that number here. */
static bool is_named(pid_t pid, const char *program)
{
	_cleanup_free_ char *name = NULL;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	if (read_file(path, 64, &name, NULL) < 0)
		return false;
	name[strcspn(name, "\n")] = '\0';
	return streq(name, program);
}

int service_reload(const struct host *host, const struct service *service)
{
	_cleanup_close_ int fd = -1;
	pid_t pid;
	int r = find_pid(host, service, &pid);

	if (r < 0)
		return r;
	/* Held before it is looked at: the number cannot pass to another process in between. */
	fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (fd < 0)
		return -errno;
	if (!is_named(pid, service->program))
		return -ESRCH;
	return syscall(SYS_pidfd_send_signal, fd, SIGHUP, NULL, 0) < 0 ? -errno : 0;
}
