/* SPDX-License-Identifier: Apache-2.0 */
#include "workload/process.h"

#include "base/file.h"
#include "base/util.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define PROCESS_FILE_MAX (256 * 1024)

/* Fields of /proc/PID/stat, counted from 1. */
#define FIELD_STATE 3
#define FIELD_START 22

int process_read(const char *root, pid_t pid, const char *name, char **text, size_t *len)
{
	char path[PATH_MAX];
	int r;

	if (pid <= 0)
		return -ESRCH;
	if (snprintf(path, sizeof(path), "%s/proc/%d/%s", root, (int)pid, name) >= PATH_MAX)
		return -ENAMETOOLONG;
	r = read_file(path, PROCESS_FILE_MAX, text, len);
	return r == -ENOENT ? -ESRCH : r;
}

int process_start(const char *root, pid_t pid, uint64_t *boottime_us)
{
	_cleanup_free_ char *text = NULL;
	int r = process_read(root, pid, "stat", &text, NULL);
	/* The name, field 2 in brackets, may hold spaces and brackets itself. */
	const char *field = r < 0 ? NULL : strrchr(text, ')');
	unsigned long long ticks;
	uint64_t us;
	char *end;

	if (r < 0)
		return r;
	for (int i = FIELD_STATE; field && i <= FIELD_START; i++) {
		field = strchr(field, ' ');
		field = field ? field + 1 : NULL;
	}
	if (!field || *field < '0' || *field > '9')
		return -EBADMSG;
	errno = 0;
	ticks = strtoull(field, &end, 10);
	if (errno || (*end != ' ' && *end != '\n' && *end != '\0') ||
		__builtin_mul_overflow(ticks, USEC_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK), &us))
		return -EBADMSG;
	*boottime_us = us;
	return 0;
}

uint64_t realtime_of_boottime(uint64_t boottime_us)
{
	struct timespec ts = {0};
	uint64_t now;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	now = (uint64_t)ts.tv_sec * USEC_PER_SEC + (uint64_t)ts.tv_nsec / 1000;
	return realtime_us() - (now - MIN(boottime_us, now));
}

bool process_is_named(const char *root, pid_t pid, const char *name)
{
	_cleanup_free_ char *comm = NULL;

	if (process_read(root, pid, "comm", &comm, NULL) < 0)
		return false;
	comm[strcspn(comm, "\n")] = '\0';
	return streq(comm, name);
}

bool process_is_of_host(const char *root, pid_t pid)
{
	_cleanup_free_ char *text = NULL;
	const char *pids, *uids;
	unsigned real, effective;
	int first, second;

	if (process_read(root, pid, "status", &text, NULL) < 0)
		return false;
	uids = strstr(text, "\nUid:");
	pids = strstr(text, "\nNSpid:");
	return uids && sscanf(uids, "\nUid: %u %u", &real, &effective) == 2 && real == 0 &&
	       effective == 0 && !(pids && sscanf(pids, "\nNSpid: %d %d", &first, &second) == 2);
}

int process_path(const char *root, pid_t pid, const char *name, char path[static PATH_MAX])
{
	char link[PATH_MAX], directory[PATH_MAX] = "";
	ssize_t n;

	if (name[0] != '/') {
		if (snprintf(link, sizeof(link), "%s/proc/%d/cwd", root, (int)pid) >= PATH_MAX)
			return -ENAMETOOLONG;
		n = readlink(link, directory, sizeof(directory) - 1);
		if (n < 0)
			return errno == ENOENT ? -ESRCH : -errno;
		directory[n] = '\0';
		if (directory[0] != '/' || directory[1] == '\0')
			directory[0] = '\0';
	}
	return snprintf(path, PATH_MAX, "%s%s%s", directory, name[0] == '/' ? "" : "/", name) <
			       PATH_MAX
		       ? 0
		       : -ENAMETOOLONG;
}

pid_t process_of_unit(const char *root, const char *unit, process_match *match, void *userdata)
{
	/* cgroup2, alone or beside the older hierarchies, and those. */
	static const char *const hierarchies[] = {"", "/unified", "/systemd"};

	for (size_t i = 0; i < ARRAY_SIZE(hierarchies); i++) {
		_cleanup_free_ char *text = NULL;
		char path[PATH_MAX], *state = NULL;

		if (snprintf(path, sizeof(path), "%s/sys/fs/cgroup%s/system.slice/%s/cgroup.procs",
			    root, hierarchies[i], unit) >= PATH_MAX ||
			read_file(path, PROCESS_FILE_MAX, &text, NULL) < 0)
			continue;
		for (char *line = strtok_r(text, "\n", &state); line;
			line = strtok_r(NULL, "\n", &state)) {
			pid_t pid = atoi(line);

			if (pid > 0 && match(root, pid, userdata))
				return pid;
		}
	}
	return 0;
}

pid_t process_find(const char *root, process_match *match, void *userdata)
{
	const struct dirent *entry;
	char path[PATH_MAX];
	pid_t found = 0;
	DIR *proc;

	if (snprintf(path, sizeof(path), "%s/proc", root) >= PATH_MAX)
		return 0;
	proc = opendir(path);
	while (proc && found == 0 && (entry = readdir(proc))) {
		uint64_t pid;

		if (parse_count(entry->d_name, &pid) == 0 && pid > 0 && pid <= INT_MAX &&
			match(root, (pid_t)pid, userdata))
			found = (pid_t)pid;
	}
	if (proc)
		closedir(proc);
	return found;
}

int process_of_pid_file(const char *path, pid_t *pid)
{
	_cleanup_free_ char *text = NULL;
	uint64_t number;
	int r = read_file(path, 64, &text, NULL);

	if (r < 0)
		return r;
	text[strcspn(text, " \n")] = '\0';
	if (parse_count(text, &number) < 0 || number < 2 || number > INT_MAX)
		return -EINVAL;
	*pid = (pid_t)number;
	return 0;
}

int process_of_socket(const char *path, pid_t *pid)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct ucred peer;
	socklen_t len = sizeof(peer);

	if (fd < 0)
		return -errno;
	if (!copy_text(address.sun_path, sizeof(address.sun_path), path))
		return -ENAMETOOLONG;
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
		getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return -errno;
	if (peer.pid <= 0)
		return -ESRCH; /* in another PID namespace */
	*pid = peer.pid;
	return 0;
}

int command_read(const char *root, pid_t pid, struct command *command)
{
	return process_read(root, pid, "cmdline", &command->text, &command->len);
}

void command_free(struct command *command)
{
	free(command->text);
	*command = (struct command){0};
}

const char *command_next(const struct command *command, const char *word)
{
	const char *end = command->text + command->len;
	const char *next = word ? word + strnlen(word, (size_t)(end - word)) + 1 : command->text;

	return next && next < end ? next : NULL;
}

/* What follows the name in a word that is this option: "" or "=VALUE"; else NULL. */
static const char *after_name(const char *word, const char *name)
{
	if (*word++ != '-')
		return NULL;
	word += *word == '-';
	for (; *name; word++, name++)
		if ((*word == '_' ? '-' : *word) != *name)
			return NULL;
	return *word == '\0' || *word == '=' ? word : NULL;
}

static const char *find_option(const struct command *command, const char *name, bool boolean)
{
	const char *value = NULL, *word = NULL;

	while ((word = command_next(command, word)) && !streq(word, "--")) {
		const char *rest = after_name(word, name), *next = command_next(command, word);

		if (rest && *rest == '=')
			value = rest + 1;
		else if (rest && boolean)
			value = "true";
		else if (rest && next)
			value = next;
	}
	return value;
}

const char *command_option(const struct command *command, const char *name)
{
	return find_option(command, name, false);
}

const char *command_switch(const struct command *command, const char *name)
{
	return find_option(command, name, true);
}
