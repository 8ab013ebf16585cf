/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/file_work.h"

#include "base/file.h"
#include "runtime/cri.h"
#include "runtime/systemd.h"

#define UNITS MANAGER "/unit"

#define POLL_US   (100 * USEC_PER_MSEC)
#define ANSWER_US (30 * USEC_PER_SEC)
#define PROBE_US  (2 * USEC_PER_SEC)
#define JOB_US    (600 * USEC_PER_SEC) /* at most, with systemd's own job */

/* The longest D-Bus call. The wait can cancel only between calls. */
#define RESTART_US (5 * USEC_PER_SEC)

/* -EIO for a missing reply: -ETIMEDOUT would be a statement about the unit. */
static int explain(int error, const sd_bus_error *reply, char *why)
{
	bool missing = error == -ENOENT || error == -ECONNREFUSED || error == -EHOSTUNREACH;

	snprintf(why, EDIT_WHY_MAX, "systemd%s: %.200s", missing ? " cannot be reached" : "",
		reply && reply->message ? reply->message : strerror(-error));
	text_make_printable(why);
	return missing ? -ENOTCONN : error == -ETIMEDOUT ? -EIO : error;
}

static int open_bus(const struct file_job *job, sd_bus **ret, char *why)
{
	const struct wait now = wait_at_most(job->wait, 0);
	int r;

	if (wait_for(&now, -1, 0) == -ECANCELED)
		return -ECANCELED;
	r = systemd_open(&job->host, ret);
	return r < 0 ? explain(r, NULL, why) : 0;
}

/* Reads a unit's state and the number of its queued job, or 0. */
static int read_state(
	sd_bus *bus, const char *name, char state[static 32], uint32_t *job, char *why)
{
	_cleanup_(sd_bus_error_free) sd_bus_error error = SD_BUS_ERROR_NULL;
	_cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
	_cleanup_free_ char *path = NULL, *text = NULL;
	int r = sd_bus_path_encode(UNITS, name, &path);

	if (r >= 0)
		r = sd_bus_get_property(
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

static int PRINTF_LIKE(3, 4) refuse(const char *unit, char *why, const char *what, ...)
{
	int n = snprintf(why, EDIT_WHY_MAX, "%.80s ", unit);
	va_list args;

	va_start(args, what);
	vsnprintf(why + n, EDIT_WHY_MAX - (size_t)n, what, args);
	va_end(args);
	return -EPERM;
}

/* Refuses if a unit is active that systemd would stop or restart along with this one. */
static int check_dependents(sd_bus *bus, const char *path, const char *unit, char *why)
{
	static const char *const kinds[] = {
		"RequiredBy", "RequisiteOf", "BoundBy", "ConsistsOf", "PropagatesStopTo"};
	int r = 0;

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(kinds); i++) {
		_cleanup_(sd_bus_error_free) sd_bus_error error = SD_BUS_ERROR_NULL;
		char **names = NULL, state[32];
		uint32_t queued;

		r = sd_bus_get_property_strv(
			bus, SYSTEMD, path, SYSTEMD ".Unit", kinds[i], &error, &names);
		/* PropagatesStopTo needs systemd 249. */
		if (sd_bus_error_has_name(&error, SD_BUS_ERROR_UNKNOWN_PROPERTY))
			r = 0;
		else if (r < 0)
			r = explain(r, &error, why);
		for (char **name = names; name && *name; free(*name++)) {
			if (r >= 0)
				r = read_state(bus, *name, state, &queued, why);
			if (r >= 0 && !streq(state, "inactive") && !streq(state, "failed"))
				r = refuse(unit, why,
					"is not restarted: %.80s depends on it and would be stopped too",
					*name);
		}
		free(names);
	}
	return r;
}

int unit_may_restart(
	const struct file_job *job, const struct daemon *daemon, char why[static EDIT_WHY_MAX])
{
	/* Units that also run the kubelet. */
	static const char *const others[] = {"k3s", "rke2", "k0s", "snap.microk8s", "kubelet"};
	const char *unit = daemon->unit, *suffix = strrchr(unit, '.');
	bool forbidden = !suffix || !streq(suffix, ".service");
	_cleanup_(sd_bus_error_free) sd_bus_error error = SD_BUS_ERROR_NULL;
	_cleanup_(sd_bus_close_unrefp) sd_bus *bus = NULL;
	_cleanup_free_ char *path = NULL, *mode = NULL;
	char state[32];
	uint32_t queued;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		forbidden = forbidden || starts_with(unit, others[i]);
	if (forbidden)
		return refuse(unit, why,
			"is not restarted: it is not a service, or it runs more than the runtime");
	r = open_bus(job, &bus, why);
	if (r == 0)
		r = read_state(bus, unit, state, &queued, why);
	if (r < 0)
		return r;
	if (!streq(state, "active"))
		return refuse(unit, why,
			"is not restarted: it is not active, so the runtime runs elsewhere");
	r = sd_bus_path_encode(UNITS, unit, &path);
	if (r >= 0)
		r = sd_bus_get_property_string(
			bus, SYSTEMD, path, SYSTEMD ".Service", "KillMode", &error, &mode);
	if (r < 0)
		return explain(r, &error, why);
	if (!streq(mode, "process"))
		return refuse(unit, why,
			"is not restarted: its KillMode is %.40s, which would kill containers too",
			mode);
	return check_dependents(bus, path, unit, why);
}

int unit_restart(const struct file_job *job, const struct daemon *daemon, bool force,
	char why[static EDIT_WHY_MAX])
{
	_cleanup_(sd_bus_close_unrefp) sd_bus *bus = NULL;
	_cleanup_(sd_bus_error_free) sd_bus_error error = SD_BUS_ERROR_NULL;
	int r = open_bus(job, &bus, why);

	if (r < 0)
		return r;
	/* A long timeout: without a reply it is unknown whether the restart began. */
	(void)sd_bus_set_method_call_timeout(bus, RESTART_US);
	r = sd_bus_call_method(bus, SYSTEMD, MANAGER, SYSTEMD ".Manager",
		force ? "RestartUnit" : "TryRestartUnit", &error, NULL, "ss", daemon->unit,
		"replace");
	return r < 0 && r != -ETIMEDOUT ? explain(r, &error, why) : 0;
}

unsigned unit_probe(const struct file_job *job, const struct daemon *daemon)
{
	const struct wait probe = wait_at_most(job->wait, PROBE_US); /* it may be silent */
	char path[PATH_MAX];

	if (!daemon->socket[0] || path_in_root(job->host.root, daemon->socket, path) < 0)
		return CRI_NO_ANSWER;
	return cri_probe(path, &probe);
}

int unit_await(const struct file_job *job, const struct daemon *daemon, unsigned answered,
	bool force, char why[static EDIT_WHY_MAX])
{
	_cleanup_(sd_bus_close_unrefp) sd_bus *bus = NULL;
	uint64_t deadline = now_us() + ANSWER_US, last_deadline = now_us() + JOB_US;
	uint32_t first_job = 0;
	unsigned level = CRI_NO_ANSWER;

	for (;;) {
		const struct wait pause = wait_at_most(job->wait, POLL_US);
		char state[32] = "";
		uint32_t queued = 0;
		int r = wait_for(&pause, -1, 0);

		if (r != -ETIMEDOUT)
			return r;
		r = bus ? 0 : open_bus(job, &bus, why);
		if (r == 0)
			r = read_state(bus, daemon->unit, state, &queued, why);
		/* systemd reexecutes itself, or the bus restarts: ask the program alone. */
		if (r < 0)
			bus = sd_bus_close_unref(bus);
		/*
		 * The time of the first job does not count: it is our restart, or that of a boot,
		 * and may wait for other units. Later jobs are of a unit that fails repeatedly.
		 */
		if (queued != 0 && first_job == 0)
			first_job = queued;
		if (queued != 0 && queued == first_job)
			deadline = MIN(now_us() + ANSWER_US, last_deadline);
		if (queued == 0 && streq(state, "inactive") && !force)
			return refuse(daemon->unit, why,
				"was stopped by someone else, and stays stopped");
		if (r < 0 || (queued == 0 && streq(state, "active"))) {
			if (r == 0 && !daemon->socket[0])
				return 0;
			level = unit_probe(job, daemon);
			if (level >= MAX(answered, (unsigned)CRI_CONNECTS))
				return 0;
		}
		/* systemd does not restart a failed unit; a restarting one is activating. */
		if (now_us() < MIN(deadline, job->wait->deadline_us) &&
			(queued != 0 || !streq(state, "failed")))
			continue;
		if (r < 0)
			return r;
		snprintf(why, EDIT_WHY_MAX, "%.60s was restarted and does not answer: it is %s%s",
			daemon->unit, state, level == CRI_IS_GRPC ? ", and without its CRI" : "");
		return -ETIMEDOUT;
	}
}
