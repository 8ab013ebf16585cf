/* SPDX-License-Identifier: Apache-2.0 */
/*
 * systemd over D-Bus, in this order: properties of services; the command of a service's next
 * start; restarts.
 */
#include "runtime/systemd.h"

#include "base/environment.h"
#include "base/file.h"
#include "base/text.h"
#include "runtime/cri.h"

#include <glob.h>

#define BUS_SOCKET "/run/dbus/system_bus_socket"
#define SERVICE    SYSTEMD ".Service"
#define EXEC       "sasbttttuii" /* ExecStart=: the path, the words, and states */

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
	if (path) {
		(void)sd_bus_get_property_trivial(
			bus, SYSTEMD, path, SERVICE, "NRestarts", NULL, 'u', &state->restarts);
		(void)sd_bus_get_property_trivial(bus, SYSTEMD, path, SYSTEMD ".Unit",
			"ActiveEnterTimestamp", NULL, 't', &state->active_us);
		(void)sd_bus_get_property_trivial(bus, SYSTEMD, path, SYSTEMD ".Unit",
			"StateChangeTimestamp", NULL, 't', &state->change_us);
	}
	return state->active[0];
}

/* ---- the command of the next start ---- */

#define ENVIRONMENT_MAX 65536 /* bytes of a file */
#define VALUE_MAX       4096

struct environment {
	const struct host *host;
	char **variables, **files; /* "NAME=VALUE"; paths and patterns */
};

/* Reads EnvironmentFiles=: paths, and whether each may be missing. */
static void read_environment_files(sd_bus *bus, const char *unit_path, char ***files)
{
	_cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
	size_t n = 0, allocated = 0;
	const char *path;
	char **list = NULL;
	int optional;

	if (sd_bus_get_property(bus, SYSTEMD, unit_path, SERVICE, "EnvironmentFiles", NULL, &reply,
		    "a(sb)") < 0 ||
		sd_bus_message_enter_container(reply, 'a', "(sb)") < 0)
		return;
	while (sd_bus_message_read(reply, "(sb)", &path, &optional) > 0)
		*add_element(&list, &n, &allocated) = must(strdup(path));
	if (list)
		*add_element(&list, &n, &allocated) = NULL;
	*files = list;
}

static void free_texts(char **texts)
{
	for (char **text = texts; text && *text; text++)
		free(*text);
	free(texts);
}

/* Gets the value of a variable; later definitions and files count. "": not set. */
static void get_variable(
	const struct environment *environment, const char *name, char value[static VALUE_MAX])
{
	char full[PATH_MAX];
	size_t n = strlen(name);

	value[0] = '\0';
	for (char **variable = environment->variables; variable && *variable; variable++)
		if (starts_with(*variable, name) && (*variable)[n] == '=')
			copy_text(value, VALUE_MAX, *variable + n + 1);
	for (char **file = environment->files; file && *file; file++) {
		glob_t found = {0};

		(void)glob(host_path(environment->host, *file, full), 0, NULL, &found);
		for (size_t i = 0; i < found.gl_pathc; i++) {
			_cleanup_free_ char *text = NULL;

			if (read_file(found.gl_pathv[i], ENVIRONMENT_MAX, &text, NULL) == 0)
				(void)environment_get(text, name, value, VALUE_MAX);
		}
		globfree(&found);
	}
}

/* Writes the words of a value, which may be in quotes. */
static void put_words(FILE *out, const char *value)
{
	while (*(value += strspn(value, " \t\n"))) {
		for (char quote = '\0'; *value && (quote || !strchr(" \t\n", *value)); value++)
			if (!quote && strchr("\"'", *value))
				quote = *value;
			else if (quote && *value == quote)
				quote = '\0';
			else
				fputc(*value, out);
		fputc('\0', out);
	}
}

/* Writes a word as systemd.service(5) expands it: $NAME is any number of words. */
static void put_word(FILE *out, const struct environment *environment, const char *word)
{
	char name[128], value[VALUE_MAX];
	size_t n;

	if (word[0] == '$' && word[1] && !strchr("${", word[1])) {
		get_variable(environment, word + 1, value);
		put_words(out, value);
		return;
	}
	for (; *word; word++) {
		n = starts_with(word, "${") ? strcspn(word, "}") : 0;
		if (n > 0 && word[n] == '}') {
			snprintf(name, sizeof(name), "%.*s", (int)(n - 2), word + 2);
			get_variable(environment, name, value);
			fputs(value, out);
			word += n;
			continue;
		}
		word += starts_with(word, "$$");
		fputc(*word, out);
	}
	fputc('\0', out);
}

char *systemd_words(const struct host *host, const char *unit, size_t *len)
{
	_cleanup_(sd_bus_close_unrefp) sd_bus *bus = NULL;
	_cleanup_free_ char *path = open_unit(host, unit, &bus);
	_cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
	struct environment environment = {.host = host};
	char *text = NULL;
	FILE *out;

	if (!path ||
		sd_bus_get_property(bus, SYSTEMD, path, SERVICE, "ExecStart", NULL, &reply,
			"a(" EXEC ")") < 0 ||
		sd_bus_message_enter_container(reply, 'a', "(" EXEC ")") < 0)
		return NULL;
	(void)sd_bus_get_property_strv(
		bus, SYSTEMD, path, SERVICE, "Environment", NULL, &environment.variables);
	read_environment_files(bus, path, &environment.files);
	out = must(open_memstream(&text, len));
	while (sd_bus_message_enter_container(reply, 'r', EXEC) > 0) {
		char **words = NULL;

		if (sd_bus_message_skip(reply, "s") >= 0)
			(void)sd_bus_message_read_strv(reply, &words);
		for (char **word = words; word && *word; word++)
			if (word > words)
				put_word(out, &environment, *word);
		free_texts(words);
		if (sd_bus_message_skip(reply, "bttttuii") < 0 ||
			sd_bus_message_exit_container(reply) < 0)
			break;
	}
	must_do(fclose(out) == 0);
	free_texts(environment.variables);
	free_texts(environment.files);
	return must(text);
}

bool systemd_starts_with(
	const struct host *host, const char *unit, const char *option, char *value, size_t size)
{
	size_t len = 0;
	_cleanup_free_ char *words = systemd_words(host, unit, &len);
	bool found = false;

	for (const char *word = words; word && word < words + len; word += strlen(word) + 1) {
		const char *at = strstr(word, option);

		found |= at && (copy_text(value, size, at + strlen(option)), true);
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

/* ---- restarts ---- */

#define POLL_US   (100 * USEC_PER_MSEC)
#define ANSWER_US (30 * USEC_PER_SEC)
#define PROBE_US  (2 * USEC_PER_SEC)
#define JOB_US    (600 * USEC_PER_SEC) /* at most, with systemd's own job */

/* The longest D-Bus call. The wait can cancel only between calls. */
#define RESTART_US (5 * USEC_PER_SEC)

/* Returns -EIO for a missing reply: -ETIMEDOUT would be a statement about the unit. */
static int explain(int error, const sd_bus_error *reply, char *why)
{
	bool missing = error == -ENOENT || error == -ECONNREFUSED || error == -EHOSTUNREACH;

	snprintf(why, SYSTEMD_WHY_MAX, "systemd%s: %.200s", missing ? " cannot be reached" : "",
		reply && reply->message ? reply->message : strerror(-error));
	text_make_printable(why);
	return missing ? -ENOTCONN : error == -ETIMEDOUT ? -EIO : error;
}

static int open_bus(const struct host *host, const struct wait *wait, sd_bus **ret, char *why)
{
	const struct wait now = wait_at_most(wait, 0);
	int r;

	if (wait_for(&now, -1, 0) == -ECANCELED)
		return -ECANCELED;
	r = systemd_open(host, ret);
	return r < 0 ? explain(r, NULL, why) : 0;
}

/* Reads a unit's state and the number of its queued job, or 0. */
static int read_state(
	sd_bus *bus, const char *name, char state[static 32], uint32_t *job, char *why)
{
	_cleanup_(sd_bus_error_free) sd_bus_error error = SD_BUS_ERROR_NULL;
	_cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
	_cleanup_free_ char *path = NULL, *text = NULL;
	int r = sd_bus_path_encode(MANAGER "/unit", name, &path);

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
	int n = snprintf(why, SYSTEMD_WHY_MAX, "%.80s ", unit);
	va_list args;

	va_start(args, what);
	vsnprintf(why + n, SYSTEMD_WHY_MAX - (size_t)n, what, args);
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

int systemd_may_restart(const struct host *host, const struct daemon *daemon,
	const struct wait *wait, char why[static SYSTEMD_WHY_MAX])
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
	r = open_bus(host, wait, &bus, why);
	if (r == 0)
		r = read_state(bus, unit, state, &queued, why);
	if (r < 0)
		return r;
	if (!streq(state, "active"))
		return refuse(unit, why,
			"is not restarted: it is not active, so the runtime runs elsewhere");
	r = sd_bus_path_encode(MANAGER "/unit", unit, &path);
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

int systemd_restart(const struct host *host, const struct daemon *daemon, bool force,
	const struct wait *wait, char why[static SYSTEMD_WHY_MAX])
{
	_cleanup_(sd_bus_close_unrefp) sd_bus *bus = NULL;
	_cleanup_(sd_bus_error_free) sd_bus_error error = SD_BUS_ERROR_NULL;
	int r = open_bus(host, wait, &bus, why);

	if (r < 0)
		return r;
	/* A long timeout: without a reply it is unknown whether the restart began. */
	(void)sd_bus_set_method_call_timeout(bus, RESTART_US);
	r = sd_bus_call_method(bus, SYSTEMD, MANAGER, SYSTEMD ".Manager",
		force ? "RestartUnit" : "TryRestartUnit", &error, NULL, "ss", daemon->unit,
		"replace");
	return r < 0 && r != -ETIMEDOUT ? explain(r, &error, why) : 0;
}

unsigned systemd_probe(
	const struct host *host, const struct daemon *daemon, const struct wait *wait)
{
	const struct wait probe = wait_at_most(wait, PROBE_US); /* it may be silent */
	char path[PATH_MAX];

	if (!daemon->socket[0] || path_in_root(host->root, daemon->socket, path) < 0)
		return CRI_NO_ANSWER;
	return cri_probe(path, &probe);
}

int systemd_await(const struct host *host, const struct daemon *daemon, unsigned answered,
	bool force, const struct wait *wait, char why[static SYSTEMD_WHY_MAX])
{
	_cleanup_(sd_bus_close_unrefp) sd_bus *bus = NULL;
	uint64_t deadline = now_us() + ANSWER_US, last_deadline = now_us() + JOB_US;
	uint32_t first_job = 0;
	unsigned level = CRI_NO_ANSWER;

	for (;;) {
		const struct wait pause = wait_at_most(wait, POLL_US);
		char state[32] = "";
		uint32_t queued = 0;
		int r = wait_for(&pause, -1, 0);

		if (r != -ETIMEDOUT)
			return r;
		r = bus ? 0 : open_bus(host, wait, &bus, why);
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
			level = systemd_probe(host, daemon, wait);
			if (level >= MAX(answered, (unsigned)CRI_CONNECTS))
				return 0;
		}
		/* systemd does not restart a failed unit; a restarting one is activating. */
		if (now_us() < MIN(deadline, wait->deadline_us) &&
			(queued != 0 || !streq(state, "failed")))
			continue;
		if (r < 0)
			return r;
		snprintf(why, SYSTEMD_WHY_MAX,
			"%.60s was restarted and does not answer: it is %s%s", daemon->unit, state,
			level == CRI_IS_GRPC ? ", and without its CRI" : "");
		return -ETIMEDOUT;
	}
}
