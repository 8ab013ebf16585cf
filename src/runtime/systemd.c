/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/systemd.h"

#include "base/file.h"
#include "base/text.h"

#define BUS_SOCKET "/run/dbus/system_bus_socket"
#define SERVICE    SYSTEMD ".Service"
#define EXEC       "sasbttttuii" /* of ExecStart=: the path, the words, and states */

int systemd_open(const struct host *host, sd_bus **ret)
{
	_cleanup_(sd_bus_close_unrefp) sd_bus *bus = NULL;
	const char *given = getenv("DBUS_SYSTEM_BUS_ADDRESS");
	char address[PATH_MAX + 16] = "unix:path=", path[PATH_MAX];
	int r = given ? 0 : path_in_root(host->root, BUS_SOCKET, path);

	if (r >= 0)
		r = sd_bus_new(&bus);
	if (r >= 0)
		r = sd_bus_set_address(bus, given ? given : strcat(address, path));
	if (r >= 0)
		r = sd_bus_set_bus_client(bus, true);
	if (r >= 0)
		r = sd_bus_set_method_call_timeout(bus, USEC_PER_SEC);
	if (r >= 0)
		r = sd_bus_start(bus);
	if (r < 0)
		return r;
	*ret = steal(bus);
	return 0;
}

/* Opens the bus and encodes the path of the unit. The caller frees it. NULL: not available. */
static char *open_unit(const struct host *host, const char *unit, sd_bus **bus)
{
	char *path = NULL;

	return systemd_open(host, bus) == 0 && sd_bus_path_encode(MANAGER "/unit", unit, &path) >= 0
		       ? path
		       : NULL;
}

pid_t systemd_main_pid(const struct host *host, const char *unit)
{
	_cleanup_(sd_bus_close_unrefp) sd_bus *bus = NULL;
	_cleanup_free_ char *path = open_unit(host, unit, &bus);
	uint32_t pid = 0;

	if (!path || sd_bus_get_property_trivial(
			     bus, SYSTEMD, path, SERVICE, "MainPID", NULL, 'u', &pid) < 0)
		return 0;
	return (pid_t)pid;
}

bool systemd_state(const struct host *host, const char *unit, struct systemd_state *state)
{
	_cleanup_(sd_bus_close_unrefp) sd_bus *bus = NULL;
	_cleanup_free_ char *path = open_unit(host, unit, &bus);
	const struct {
		const char *interface, *property;
		char *text;
	} texts[] = {{SYSTEMD ".Unit", "LoadState", state->load},
		{SYSTEMD ".Unit", "ActiveState", state->active},
		{SYSTEMD ".Unit", "SubState", state->sub},
		{SYSTEMD ".Unit", "UnitFileState", state->file},
		{SERVICE, "Result", state->result}};

	*state = (struct systemd_state){0};
	for (size_t i = 0; path && i < ARRAY_SIZE(texts); i++) {
		_cleanup_free_ char *text = NULL;

		if (sd_bus_get_property_string(bus, SYSTEMD, path, texts[i].interface,
			    texts[i].property, NULL, &text) >= 0)
			copy_text(texts[i].text, sizeof(state->load), text);
	}
	if (path)
		(void)sd_bus_get_property_trivial(
			bus, SYSTEMD, path, SERVICE, "NRestarts", NULL, 'u', &state->restarts);
	return state->active[0];
}

bool systemd_starts_with(
	const struct host *host, const char *unit, const char *option, char *value, size_t size)
{
	_cleanup_(sd_bus_close_unrefp) sd_bus *bus = NULL;
	_cleanup_free_ char *path = open_unit(host, unit, &bus);
	_cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
	bool found = false;

	if (!path ||
		sd_bus_get_property(bus, SYSTEMD, path, SERVICE, "ExecStart", NULL, &reply,
			"a(" EXEC ")") < 0 ||
		sd_bus_message_enter_container(reply, 'a', "(" EXEC ")") < 0)
		return false;
	while (sd_bus_message_enter_container(reply, 'r', EXEC) > 0) {
		char **words = NULL;

		if (sd_bus_message_skip(reply, "s") >= 0)
			(void)sd_bus_message_read_strv(reply, &words);
		for (char **word = words; word && *word; free(*word++)) {
			const char *at = strstr(*word, option);

			found |= at && (copy_text(value, size, at + strlen(option)), true);
		}
		free(words);
		if (sd_bus_message_skip(reply, "bttttuii") < 0 ||
			sd_bus_message_exit_container(reply) < 0)
			break;
	}
	return found;
}

/*
 * Reads an array of strings of a service, and joins those with the prefix by colons, without the
 * prefix itself.
 */
static bool read_joined(sd_bus *bus, const char *unit_path, const char *property,
	const char *prefix, char joined[static PATH_MAX])
{
	char **texts = NULL;

	joined[0] = '\0';
	if (sd_bus_get_property_strv(bus, SYSTEMD, unit_path, SERVICE, property, NULL, &texts) < 0)
		return false;
	for (char **text = texts; text && *text; free(*text++))
		if (starts_with(*text, prefix))
			text_append(joined, PATH_MAX, "%s%s", joined[0] ? ":" : "",
				*text + strlen(prefix));
	free(texts);
	return joined[0] != '\0';
}

bool systemd_search_path(const struct host *host, pid_t pid, char path[static PATH_MAX])
{
	_cleanup_(sd_bus_close_unrefp) sd_bus *bus = NULL;
	_cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
	const char *unit_path;

	return systemd_open(host, &bus) == 0 &&
	       sd_bus_call_method(bus, SYSTEMD, MANAGER, SYSTEMD ".Manager", "GetUnitByPID", NULL,
		       &reply, "u", (uint32_t)pid) >= 0 &&
	       sd_bus_message_read(reply, "o", &unit_path) >= 0 &&
	       (read_joined(bus, unit_path, "ExecSearchPath", "", path) ||
		       read_joined(bus, unit_path, "Environment", "PATH=", path));
}
