/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/unit.h"

#include "apply/file.h"
#include "base/file.h"
#include "base/parse.h"
#include "base/util.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>

#include <systemd/sd-bus.h>

#define BUS_SOCKET "/run/dbus/system_bus_socket"
#define SYSTEMD    "org.freedesktop.systemd1"
#define MANAGER    "/org/freedesktop/systemd1"

#define CALL_US        (5 * USEC_PER_SEC)
#define POLL_US        (100 * USEC_PER_MSEC)
#define ANSWER_US      (30 * USEC_PER_SEC)
#define PROBES         15 /* that fit into the time for an answer, when each takes long */
#define JOB_MAX        20 /* times that time: as long as systemd's own job may take */
#define DEPENDENTS_MAX 64

struct unit_state {
	char active[32]; /* ActiveState; empty: not reported */
	uint32_t job;    /* not 0: systemd is not done with it */
	char *dependents[DEPENDENTS_MAX + 1];
	size_t n_dependents;
};

static void clear_state(struct unit_state *state)
{
	for (size_t i = 0; i < state->n_dependents; i++)
		free(state->dependents[i]);
	*state = (struct unit_state){0};
}

static void close_bus(sd_bus **bus)
{
	if (*bus)
		sd_bus_close(*bus);
	*bus = sd_bus_unref(*bus);
}

static void unref_message(sd_bus_message **message)
{
	sd_bus_message_unref(*message);
}

static int explain(int error, const char *message, char *why)
{
	bool missing = error == -ENOENT || error == -ECONNREFUSED || error == -EHOSTUNREACH;

	snprintf(why, EDIT_WHY_MAX, "systemd%s: %.200s", missing ? " cannot be reached" : "",
		message ? message : strerror(-error));
	/* One line of a log, whatever the peer says. */
	for (char *c = why; *c; c++)
		if (iscntrl((unsigned char)*c))
			*c = ' ';
	return missing ? -ENOTCONN : error;
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
	if (r < 0)
		return r;
	*ret = steal(bus);
	return 0;
}

static int keep_reply(sd_bus_message *message, void *userdata, sd_bus_error *error)
{
	sd_bus_message **reply = userdata;

	(void)error;
	*reply = sd_bus_message_ref(message);
	return 0;
}

/* sd_bus_call() that the wait can cancel. -EIO, not -ETIMEDOUT, without a reply in time. */
static int call_bus(
	sd_bus *bus, sd_bus_message *call, const struct wait *wait, sd_bus_message **ret, char *why)
{
	_cleanup_(unref_message) sd_bus_message *reply = NULL;
	const struct wait bounded = wait_at_most(wait, CALL_US);
	sd_bus_slot *slot = NULL;
	const sd_bus_error *error;
	int r = sd_bus_call_async(bus, &slot, call, keep_reply, &reply, CALL_US);

	while (r >= 0 && !reply) {
		r = sd_bus_process(bus, NULL);
		if (r == 0)
			r = wait_for(&bounded, sd_bus_get_fd(bus),
				(short)MAX(sd_bus_get_events(bus), 0));
	}
	sd_bus_slot_unref(slot);
	if (r < 0)
		return r == -ECANCELED ? r : explain(r == -ETIMEDOUT ? -EIO : r, NULL, why);
	error = sd_bus_message_get_error(reply);
	if (error) {
		r = -sd_bus_error_get_errno(error);
		return explain(r == -ETIMEDOUT ? -EIO : r, error->message, why);
	}
	*ret = steal(reply);
	return 0;
}

/* A call with up to two texts as arguments. */
static int ask_bus(sd_bus *bus, const char *path, const char *interface, const char *member,
	const char *const texts[2], const struct wait *wait, sd_bus_message **reply, char *why)
{
	_cleanup_(unref_message) sd_bus_message *call = NULL;
	int r = sd_bus_message_new_method_call(bus, &call, SYSTEMD, path, interface, member);

	for (int i = 0; r >= 0 && i < 2 && texts[i]; i++)
		r = sd_bus_message_append(call, "s", texts[i]);
	return r < 0 ? explain(r, NULL, why) : call_bus(bus, call, wait, reply, why);
}

/* Units that systemd stops or restarts along with this one. */
static bool is_dependency(const char *name)
{
	static const char *const names[] = {
		"RequiredBy", "RequisiteOf", "BoundBy", "ConsistsOf", "PropagatesStopTo"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (streq(names[i], name))
			return true;
	return false;
}

static int take_dependents(sd_bus_message *reply, struct unit_state *state)
{
	const char *name;
	int r = sd_bus_message_enter_container(reply, 'v', "as");

	if (r >= 0)
		r = sd_bus_message_enter_container(reply, 'a', "s");
	while (r >= 0 && (r = sd_bus_message_read(reply, "s", &name)) > 0) {
		if (state->n_dependents == DEPENDENTS_MAX)
			return -E2BIG;
		state->dependents[state->n_dependents] = strdup(name);
		if (!state->dependents[state->n_dependents++])
			return -ENOMEM;
	}
	if (r >= 0)
		r = sd_bus_message_exit_container(reply);
	return r >= 0 ? sd_bus_message_exit_container(reply) : r;
}

static int take_state(sd_bus_message *reply, struct unit_state *state)
{
	int r = sd_bus_message_enter_container(reply, 'a', "{sv}");

	while (r >= 0 && (r = sd_bus_message_enter_container(reply, 'e', "sv")) > 0) {
		const char *name, *text;

		r = sd_bus_message_read(reply, "s", &name);
		if (r < 0)
			return r;
		if (streq(name, "ActiveState")) {
			r = sd_bus_message_read(reply, "v", "s", &text);
			if (r >= 0)
				copy_text(state->active, sizeof(state->active), text);
		} else if (streq(name, "Job")) {
			r = sd_bus_message_read(reply, "v", "(uo)", &state->job, NULL);
		} else if (is_dependency(name)) {
			r = take_dependents(reply, state);
		} else {
			r = sd_bus_message_skip(reply, "v");
		}
		if (r >= 0)
			r = sd_bus_message_exit_container(reply);
	}
	return r;
}

/* state is the caller's to clear, also after an error. */
static int read_state(sd_bus *bus, const char *unit, const struct wait *wait,
	struct unit_state *state, char **ret_path, char *why)
{
	_cleanup_(unref_message) sd_bus_message *reply = NULL;
	_cleanup_free_ char *path = NULL;
	int r = sd_bus_path_encode(MANAGER "/unit", unit, &path);

	if (r < 0)
		return explain(r, NULL, why);
	r = ask_bus(bus, path, "org.freedesktop.DBus.Properties", "GetAll",
		(const char *const[]){SYSTEMD ".Unit", NULL}, wait, &reply, why);
	if (r < 0)
		return r;
	r = take_state(reply, state);
	if (r < 0)
		return explain(r, NULL, why);
	if (ret_path)
		*ret_path = steal(path);
	return 0;
}

static int refuse(const struct service *service, char *why, const char *what)
{
	snprintf(why, EDIT_WHY_MAX, "%.80s %s", service->unit, what);
	return -EPERM;
}

static int check_kill_mode(sd_bus *bus, const char *path, const struct service *service,
	const struct wait *wait, char *why)
{
	_cleanup_(unref_message) sd_bus_message *reply = NULL;
	const char *mode;
	char what[160];
	int r = ask_bus(bus, path, "org.freedesktop.DBus.Properties", "Get",
		(const char *const[]){SYSTEMD ".Service", "KillMode"}, wait, &reply, why);

	if (r < 0)
		return r;
	r = sd_bus_message_read(reply, "v", "s", &mode);
	if (r < 0)
		return explain(r, NULL, why);
	snprintf(what, sizeof(what),
		"is not restarted: its KillMode is %.40s, which would kill containers too", mode);
	return streq(mode, "process") ? 0 : refuse(service, why, what);
}

static int check_dependents(sd_bus *bus, struct unit_state *state, const struct service *service,
	const struct wait *wait, char *why)
{
	_cleanup_(unref_message) sd_bus_message *call = NULL, *reply = NULL;
	const char *name, *active;
	char what[160];
	int r;

	if (state->n_dependents == 0)
		return 0;
	r = sd_bus_message_new_method_call(
		bus, &call, SYSTEMD, MANAGER, SYSTEMD ".Manager", "ListUnitsByNames");
	if (r >= 0)
		r = sd_bus_message_append_strv(call, state->dependents);
	if (r < 0)
		return explain(r, NULL, why);
	r = call_bus(bus, call, wait, &reply, why);
	if (r < 0)
		return r;
	r = sd_bus_message_enter_container(reply, 'a', "(ssssssouso)");
	while (r >= 0 && (r = sd_bus_message_read(reply, "(ssssssouso)", &name, NULL, NULL, &active,
				  NULL, NULL, NULL, NULL, NULL, NULL)) > 0) {
		/* "active", "reloading", "activating", "deactivating": something of it runs. */
		if (streq(active, "inactive") || streq(active, "failed"))
			continue;
		snprintf(what, sizeof(what),
			"is not restarted: %.80s depends on it and would be stopped too", name);
		return refuse(service, why, what);
	}
	return r < 0 ? explain(r, NULL, why) : 0;
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
	_cleanup_(clear_state) struct unit_state state = {0};
	_cleanup_free_ char *path = NULL;
	int r;

	if (is_forbidden(service->unit))
		return refuse(service, why,
			"is not restarted: more than the runtime runs in it, or it is no service");
	r = open_bus(host, &bus);
	if (r < 0)
		return explain(r, NULL, why);
	r = read_state(bus, service->unit, wait, &state, &path, why);
	if (r < 0)
		return r;
	if (!streq(state.active, "active"))
		return refuse(service, why,
			"is not restarted: it is not active, so it is not what runs here");
	r = check_kill_mode(bus, path, service, wait, why);
	return r < 0 ? r : check_dependents(bus, &state, service, wait, why);
}

int unit_restart(const struct host *host, const struct service *service, bool force,
	const struct wait *wait, char why[static EDIT_WHY_MAX])
{
	_cleanup_(close_bus) sd_bus *bus = NULL;
	_cleanup_(unref_message) sd_bus_message *reply = NULL;
	int r = open_bus(host, &bus);

	if (r < 0)
		return explain(r, NULL, why);
	r = ask_bus(bus, MANAGER, SYSTEMD ".Manager", force ? "RestartUnit" : "TryRestartUnit",
		(const char *const[]){service->unit, "replace"}, wait, &reply, why);
	return r == -EIO ? 0 : r;
}

enum cri_answers unit_probe(
	const struct host *host, const struct service *service, const struct wait *wait)
{
	char path[PATH_MAX];

	if (!service->socket[0] || path_in_root(host->root, service->socket, path) < 0)
		return CRI_NO_ANSWER;
	return cri_probe(path, wait);
}

static int not_back(
	const struct service *service, const struct unit_state *state, unsigned level, char *why)
{
	snprintf(why, EDIT_WHY_MAX, "%.60s was restarted and does not answer: it is %s%s",
		service->unit, state->active[0] ? state->active : "in an unknown state",
		level == CRI_IS_GRPC ? ", and without its CRI" : "");
	return -ETIMEDOUT;
}

int unit_await(const struct host *host, const struct service *service, unsigned answered,
	bool force, uint64_t timeout_us, const struct wait *wait, char why[static EDIT_WHY_MAX])
{
	_cleanup_(close_bus) sd_bus *bus = NULL;
	uint64_t timeout = timeout_us ? timeout_us : ANSWER_US;
	uint64_t deadline = now_us() + timeout, last_deadline = now_us() + JOB_MAX * timeout;
	uint32_t first_job = 0;
	unsigned level = CRI_NO_ANSWER;

	for (;;) {
		_cleanup_(clear_state) struct unit_state state = {0};
		const struct wait pause = wait_at_most(wait, POLL_US);
		const struct wait probe = wait_at_most(wait, timeout / PROBES);
		int r = wait_for(&pause, -1, 0);

		if (r != -ETIMEDOUT)
			return r;
		r = bus ? 0 : open_bus(host, &bus);
		if (r == 0)
			r = read_state(bus, service->unit, wait, &state, NULL, why);
		if (r == -ECANCELED)
			return r;
		/* While systemd reexecutes itself, or the bus is restarted: the program decides. */
		if (r < 0) {
			close_bus(&bus);
			clear_state(&state);
		}
		/*
		 * The job that it is found with is what was asked for, or a boot's: it may wait for
		 * others or stop for long, and none of that counts. Those after it are of a unit
		 * that fails again and again.
		 */
		if (state.job != 0 && first_job == 0)
			first_job = state.job;
		if (state.job != 0 && state.job == first_job)
			deadline = MIN(now_us() + timeout, last_deadline);
		/* Failed is what systemd has given up; a unit that it starts again is activating.
		 */
		if (state.job == 0 && streq(state.active, "failed"))
			return not_back(service, &state, level, why);
		if (state.job == 0 && streq(state.active, "inactive") && !force)
			return refuse(service, why, "was stopped by somebody else, and is left so");
		if (r < 0 || (state.job == 0 && streq(state.active, "active"))) {
			if (r == 0 && !service->socket[0])
				return 0;
			level = unit_probe(host, service, &probe);
			if (level >= MAX(answered, (unsigned)CRI_CONNECTS))
				return 0;
		}
		/* That systemd reports nothing is no fault of the program. */
		if (now_us() >= deadline || now_us() >= wait->deadline_us)
			return r < 0 ? r : not_back(service, &state, level, why);
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
