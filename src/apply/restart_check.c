/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/restart_internal.h"

#include "base/util.h"

#include <errno.h>
#include <stdio.h>

/* "active", "reloading", "activating", "deactivating": something of it runs. */
static bool is_up(const char *state)
{
	return !streq(state, "inactive") && !streq(state, "failed");
}

static int on_neighbors(struct restart *restart, sd_bus_message *answer)
{
	const char *name, *state;
	int r = sd_bus_message_enter_container(answer, 'a', "(ssssssouso)");

	while (r >= 0 && (r = sd_bus_message_read(answer, "(ssssssouso)", &name, NULL, NULL, &state,
				  NULL, NULL, NULL, NULL, NULL, NULL)) > 0)
		if (is_up(state)) {
			char what[160];

			snprintf(what, sizeof(what),
				"is not restarted: %.80s depends on it and would be stopped too",
				name);
			return restart_refuse(restart, what);
		}
	return r < 0 ? r : restart_may_go(restart);
}

static int handle_neighbors(sd_bus_message *answer, void *userdata, sd_bus_error *error)
{
	(void)error;
	return restart_on_answer(userdata, answer, on_neighbors);
}

static int check_neighbors(struct restart *restart)
{
	sd_bus_message *call = NULL;
	int r;

	if (restart->n_neighbors == 0)
		return restart_may_go(restart);
	r = sd_bus_message_new_method_call(restart->bus, &call, RESTART_SYSTEMD, RESTART_MANAGER,
		RESTART_SYSTEMD ".Manager", "ListUnitsByNames");
	if (r >= 0)
		r = sd_bus_message_append_strv(call, restart->neighbors);
	if (r >= 0)
		r = sd_bus_call_async(
			restart->bus, &restart->call, call, handle_neighbors, restart, 0);
	sd_bus_message_unref(call);
	return r;
}

static int on_kill_mode(struct restart *restart, sd_bus_message *answer)
{
	const char *mode;
	int r = sd_bus_message_read(answer, "v", "s", &mode);

	if (r < 0)
		return r;
	if (!streq(mode, "process")) {
		char what[160];

		snprintf(what, sizeof(what),
			"is not restarted: its KillMode is %.40s, which would kill containers too",
			mode);
		return restart_refuse(restart, what);
	}
	return check_neighbors(restart);
}

static int handle_kill_mode(sd_bus_message *answer, void *userdata, sd_bus_error *error)
{
	(void)error;
	return restart_on_answer(userdata, answer, on_kill_mode);
}

static int check_kill_mode(struct restart *restart)
{
	return sd_bus_call_method_async(restart->bus, &restart->call, RESTART_SYSTEMD,
		restart->path, "org.freedesktop.DBus.Properties", "Get", handle_kill_mode, restart,
		"ss", RESTART_SYSTEMD ".Service", "KillMode");
}

static int add_neighbors(struct restart *restart, sd_bus_message *answer)
{
	const char *name;
	int r = sd_bus_message_enter_container(answer, 'v', "as");

	if (r >= 0)
		r = sd_bus_message_enter_container(answer, 'a', "s");
	while (r >= 0 && (r = sd_bus_message_read(answer, "s", &name)) > 0) {
		/* More than anybody looks through: then one of them is up. */
		if (restart->n_neighbors == NEIGHBORS_MAX)
			return -E2BIG;
		restart->neighbors[restart->n_neighbors] = strdup(name);
		if (!restart->neighbors[restart->n_neighbors])
			return -ENOMEM;
		restart->n_neighbors++;
	}
	if (r >= 0)
		r = sd_bus_message_exit_container(answer);
	return r >= 0 ? sd_bus_message_exit_container(answer) : r;
}

/*
 * What systemd stops or restarts along with the unit: who has it in Requires=, Requisite=,
 * BindsTo=, PartOf= or StopPropagatedFrom=.
 */
static bool is_dependency(const char *name)
{
	static const char *const names[] = {
		"RequiredBy", "RequisiteOf", "BoundBy", "ConsistsOf", "PropagatesStopTo"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (streq(names[i], name))
			return true;
	return false;
}

static int on_state_before(struct restart *restart, sd_bus_message *answer)
{
	int r = sd_bus_message_enter_container(answer, 'a', "{sv}");

	while (r >= 0 && (r = sd_bus_message_enter_container(answer, 'e', "sv")) > 0) {
		const char *name;

		r = sd_bus_message_read(answer, "s", &name);
		if (r >= 0 && is_dependency(name))
			r = add_neighbors(restart, answer);
		else if (r >= 0)
			r = sd_bus_message_skip(answer, "v");
		if (r >= 0)
			r = sd_bus_message_exit_container(answer);
	}
	if (r >= 0)
		r = sd_bus_message_rewind(answer, true);
	if (r >= 0)
		r = restart_take_state(restart, answer);
	if (r < 0)
		return r;
	if (!streq(restart->state, "active"))
		return restart_refuse(
			restart, "is not restarted: it is not active, so it is not what runs here");
	return check_kill_mode(restart);
}

static int handle_state_before(sd_bus_message *answer, void *userdata, sd_bus_error *error)
{
	(void)error;
	return restart_on_answer(userdata, answer, on_state_before);
}

int restart_check(struct restart *restart)
{
	return restart_get_all(restart, handle_state_before);
}
