/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/driver.h"

#include "base/file.h"
#include "base/text.h"
#include "runtime/systemd.h"
#include "workload/process.h"

#include <signal.h>
#include <sys/syscall.h>

/* systemd.unit(5), in the order of precedence. */
static const char *const unit_directories[] = {"/etc/systemd/system", "/run/systemd/system",
	"/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"};

/* Calls lstat() for a path below the host's root. False also for a path that is too long. */
static bool stat_in_root(
	const char *host_root, const char *path, char full[static PATH_MAX], struct stat *st)
{
	return snprintf(full, PATH_MAX, "%s%s", host_root, path) < PATH_MAX && lstat(full, st) == 0;
}

/*
 * A masked unit is a link to /dev/null or an empty file. The target of any other link is on the
 * host, and may be missing here.
 */
static bool unit_installed(const char *host_root, const char *unit)
{
	for (size_t i = 0; unit && i < ARRAY_SIZE(unit_directories); i++) {
		char path[PATH_MAX], full[PATH_MAX];
		struct stat st, target;

		snprintf(path, sizeof(path), "%s/%s", unit_directories[i], unit);
		if (!stat_in_root(host_root, path, full, &st))
			continue;
		return S_ISLNK(st.st_mode) ? stat(full, &target) < 0 || !S_ISCHR(target.st_mode)
					   : st.st_size > 0;
	}
	return false;
}

/* The sockets of earlier rows. */
struct claims {
	struct stat sockets[RUNTIME_MAX];
	size_t n;
};

/* Returns false if an earlier row has the socket. */
static bool claim_socket(struct claims *claims, const char *host_root, const char *path)
{
	char full[PATH_MAX];
	struct stat st;

	if (!stat_in_root(host_root, path, full, &st) || !S_ISSOCK(st.st_mode) ||
		claims->n == RUNTIME_MAX)
		return false;
	for (size_t i = 0; i < claims->n; i++)
		if (claims->sockets[i].st_dev == st.st_dev &&
			claims->sockets[i].st_ino == st.st_ino)
			return false;
	claims->sockets[claims->n++] = st;
	return true;
}

static bool find_at(const struct runtime_location *location, const char *host_root,
	struct claims *claims, struct runtime *found)
{
	char full[PATH_MAX];
	struct stat st;
	bool installed;

	*found = location->runtime;
	if (location->needs && !stat_in_root(host_root, location->needs, full, &st))
		return false;
	found->has_socket = claim_socket(claims, host_root, found->socket);
	installed = unit_installed(host_root, found->unit);
	if (!installed && unit_installed(host_root, location->other_unit)) {
		installed = true;
		found->unit = location->other_unit;
	}
	/* The unit of a nested runtime is the other runtime's. */
	return found->has_socket || (installed && found->managed_by != RUNTIME_NESTED);
}

size_t runtime_discover(const char *host_root, struct runtime found[static RUNTIME_MAX])
{
	struct claims claims = {.n = 0};
	size_t n = 0;

	/* The node's own runtimes come first. */
	for (int managed_by = RUNTIME_OF_NODE; managed_by <= RUNTIME_NESTED; managed_by++)
		for (size_t d = 0; runtime_drivers[d]; d++) {
			const struct runtime_location *location = runtime_drivers[d]->locations;

			for (; location->runtime.name && n < RUNTIME_MAX; location++)
				if ((int)location->runtime.managed_by == managed_by &&
					find_at(location, host_root, &claims, &found[n]))
					found[n++].driver = runtime_drivers[d];
		}
	return n;
}

bool runtime_client(const struct host *host, const char *program, const char *socket,
	char client[static RUNTIME_CLIENT_MAX])
{
	static const struct {
		const char *program, *before, *after; /* around the socket */
	} rows[] = {{"crictl", " -r unix://", ""}, {"ctr", " -a ", " -n k8s.io"}};
	char found[SETTING_PATH_MAX], word[SHELL_WORD_MAX];
	bool is_there = host_find_program(host, program, found);

	client[0] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (!streq(rows[i].program, program))
			continue;
		if (!is_there && !host_find_program(host, "k3s", found))
			return false;
		snprintf(client, RUNTIME_CLIENT_MAX, "%s%s%s%s%s%s", found, is_there ? "" : " ",
			is_there ? "" : program, socket[0] ? rows[i].before : "",
			socket[0] ? shell_word(word, socket) : "", rows[i].after);
		return true;
	}
	return is_there && copy_text(client, RUNTIME_CLIENT_MAX, found);
}

/*
 * Reads /proc/PID/exe. If this is not permitted (PTRACE_MODE_READ) or if the file was replaced, the
 * program is the first word of the command line, searched in the unit's $PATH, else in that of all
 * units (systemd.exec(5)).
 */
static void read_program(const struct host *host, pid_t pid, char program[static SETTING_PATH_MAX])
{
	_cleanup_free_ char *first = NULL;
	char path[PATH_MAX], full[PATH_MAX],
		search[PATH_MAX] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
	char *rest = search, *directory;
	struct stat st;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	n = readlink(path, full, sizeof(full) - 1);
	full[MAX(n, (ssize_t)0)] = '\0';
	if (full[0] == '/' && !strstr(full, " (deleted)")) {
		copy_text(program, SETTING_PATH_MAX, full);
		return;
	}
	if (process_read("", pid, "cmdline", &first, NULL) < 0 || !first[0])
		return;
	if (first[0] == '/')
		copy_text(program, SETTING_PATH_MAX, first);
	if (strchr(first, '/'))
		return;
	if (systemd_search_path(host, pid, path))
		set_text(search, path);
	while ((directory = strsep(&rest, ":"))) {
		snprintf(path, sizeof(path), "%s/%.255s", directory, first);
		if (path[0] != '/' || !stat_in_root(host->root, path, full, &st))
			continue;
		copy_text(program, SETTING_PATH_MAX, path);
		return;
	}
}

int runtime_process_read(const struct host *host, const struct runtime_driver *driver, pid_t pid,
	struct daemon *daemon)
{
	char path[PATH_MAX], value[PATH_MAX];
	uint64_t start_us;
	int r = process_start("", pid, &start_us);

	memset(daemon->program, 0, sizeof(*daemon) - offsetof(struct daemon, program));
	if (r < 0)
		return r;
	/* systemd listens on the socket of a socket unit. */
	if (pid == 1 || !process_is_of_host("", pid))
		return -ESRCH;
	daemon->pid = pid;
	daemon->start_us = start_us;
	daemon->started_us = realtime_of_boottime(start_us);
	if (process_path("", pid, ".", path) == 0) {
		path[strlen(path) - strlen("/.")] = '\0';
		copy_text(daemon->directory, SETTING_PATH_MAX, path[0] ? path : "/");
	}
	for (size_t i = 0; driver->options[i] && !daemon->config[0]; i++)
		if (process_option("", pid, driver->options[i], false, value, sizeof(value)) > 0 &&
			process_path("", pid, value, path) == 0)
			copy_text(daemon->config, SETTING_PATH_MAX, path);
	read_program(host, pid, daemon->program);
	return 0;
}

/* ---- notes of drivers ---- */

/* A silent runtime is asked for its version only. */
#define SILENT_EVERY_US (5 * USEC_PER_SEC)

/* The start of a process has a resolution of 10 ms, and times of files drift. */
#define START_SLACK_US (50 * USEC_PER_MSEC)

int runtime_reload(const struct host *host, const struct runtime_driver *driver, const char *socket,
	pid_t pid, const struct wait *wait)
{
	_cleanup_close_ int fd = -1;
	char path[PATH_MAX];

	host_path(host, socket, path);
	if (pid == 0 && driver->find_process(host, path, wait, &pid) < 0)
		return -ESRCH;
	/* Opened before its name is read, so that the pid cannot be reused in between. */
	fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (fd < 0)
		return -errno;
	/* In our own /proc: the pid is that of this process's namespace. */
	if (!process_is_named("", pid, driver->program) || !process_is_of_host("", pid))
		return -ESRCH;
	return syscall(SYS_pidfd_send_signal, fd, SIGHUP, NULL, 0) < 0 ? -errno : 0;
}

void runtime_note(struct node_runtime *runtime, const char *why)
{
	enum runtime_answer answer = why ? RUNTIME_SILENT : RUNTIME_ANSWERS;

	if (runtime->answer != answer)
		runtime->since_us = now_us();
	runtime->answer = answer;
	runtime->answered_once = runtime->answered_once || !why;
	set_text(runtime->why, why ? why : "");
	if (!why)
		return;
	runtime->due_us = now_us() + SILENT_EVERY_US;
	/* Pulls of a silent runtime are unknown and never stuck. */
	runtime->pulls.n = 0;
	runtime->pulls_at_us = 0;
}

void runtime_set_names(struct node_runtime *runtime, struct runtime_names *names)
{
	free(runtime->names.entries);
	runtime->names = *names;
	runtime->names.fresh = true;
}

bool runtime_set_process(struct node_runtime *runtime, const struct host *host, pid_t pid)
{
	struct daemon daemon = runtime->daemon;

	(void)runtime_process_read(host, runtime->found.driver, pid, &daemon);
	if (daemon.pid == runtime->daemon.pid && daemon.start_us == runtime->daemon.start_us)
		return false;
	runtime->daemon = daemon;
	if (!daemon.config[0])
		copy_text(runtime->daemon.config, SETTING_PATH_MAX, runtime->found.config);
	/* The new process has read its files again. */
	memset(runtime->reported, 0, sizeof(runtime->reported));
	memset(runtime->in_force, 0, sizeof(runtime->in_force));
	runtime->due_us = 0;
	return true;
}

bool runtime_changed_since(const struct daemon *daemon, uint64_t changed_us)
{
	return changed_us > daemon->started_us + START_SLACK_US;
}

void runtime_infer(struct node_runtime *runtime, enum runtime_setting setting, uint64_t changed_us,
	const char *reported, const char *otherwise)
{
	const char *on_disk = runtime->files.keys[setting].on_disk;
	char *value = runtime->in_force[setting];
	bool known = value[0] != '\0';

	if (reported[0])
		copy_text(value, SETTING_VALUE_MAX, reported);
	else if (runtime->daemon.started_us == 0 ||
		 (!known && runtime_changed_since(&runtime->daemon, changed_us)))
		value[0] = '\0';
	else if (!known)
		copy_text(value, SETTING_VALUE_MAX, on_disk[0] ? on_disk : otherwise);
}

void runtime_duration_text(uint64_t us, char text[static 32])
{
	uint64_t seconds = us / USEC_PER_SEC, minutes = seconds / 60, hours = minutes / 60;

	if (hours > 0)
		snprintf(text, 32, "%" PRIu64 "h%" PRIu64 "m%" PRIu64 "s", hours, minutes % 60,
			seconds % 60);
	else if (minutes > 0)
		snprintf(text, 32, "%" PRIu64 "m%" PRIu64 "s", minutes, seconds % 60);
	else
		snprintf(text, 32, "%" PRIu64 "s", seconds);
}

/* Units of Go's time.ParseDuration, without nanoseconds. */
int runtime_duration_parse(const char *text, unsigned long long *us)
{
	static const struct {
		const char *name;
		unsigned long long us;
	} units[] = {
		{"ms", USEC_PER_MSEC},
		{"us", 1},
		{"\xc2\xb5s", 1},
		{"h", 3600 * USEC_PER_SEC},
		{"m", 60 * USEC_PER_SEC},
		{"s", USEC_PER_SEC},
		{"", 0},
	};
	unsigned long long sum = 0;

	for (bool first = true; first || *text; first = false) {
		size_t unit = 0;
		char *end;
		unsigned long long value = strtoull(text, &end, 10);

		if (first && streq(text, "0"))
			break;
		while (!starts_with(end, units[unit].name))
			unit++;
		if (*text < '0' || *text > '9' || units[unit].us == 0)
			return -EINVAL;
		if (__builtin_mul_overflow(value, units[unit].us, &value) ||
			__builtin_add_overflow(sum, value, &sum))
			return -ERANGE;
		text = end + strlen(units[unit].name);
	}
	*us = sum;
	return 0;
}
