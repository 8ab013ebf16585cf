/* SPDX-License-Identifier: Apache-2.0 */
#include "workload/process.h"

#include "base/file.h"

#include <ctype.h>
#include <sys/socket.h>
#include <sys/un.h>

#define PROCESS_FILE_MAX (256 * 1024)
#define CONTAINER_ID_LEN 64

int process_read(const char *root, pid_t pid, const char *name, char **text, size_t *len)
{
	char path[PATH_MAX];
	int r;

	if (pid <= 0)
		return -ESRCH;
	snprintf(path, sizeof(path), "%s/proc/%d/%s", root, (int)pid, name);
	r = read_file(path, PROCESS_FILE_MAX, text, len);
	return r == -ENOENT ? -ESRCH : r;
}

int process_start(const char *root, pid_t pid, uint64_t *boottime_us)
{
	_cleanup_free_ char *text = NULL;
	int r = process_read(root, pid, "stat", &text, NULL);
	unsigned long long ticks;
	const char *fields;

	if (r < 0)
		return r;
	/* Field 2, the name in brackets, may contain spaces and brackets. The start is field 22. */
	fields = strrchr(text, ')');
	if (!fields || sscanf(fields,
			       ") %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
			       "%*s %*s %*s %llu",
			       &ticks) != 1)
		return -EBADMSG;
	*boottime_us = ticks * (USEC_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK));
	return 0;
}

bool process_is(const char *root, pid_t pid, uint64_t start_us)
{
	uint64_t now;

	return process_start(root, pid, &now) == 0 && now == start_us;
}

uint64_t realtime_of_boottime(uint64_t boottime_us)
{
	struct timespec ts = {0};

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return realtime_us() - (us_of(ts) - MIN(boottime_us, us_of(ts)));
}

bool process_is_named(const char *root, pid_t pid, const char *name)
{
	_cleanup_free_ char *comm = NULL;

	if (process_read(root, pid, "comm", &comm, NULL) < 0)
		return false;
	comm[strcspn(comm, "\n")] = '\0';
	return streq(comm, name);
}

/* The cgroup of a container has the name of its manager or an id of 64 hexadecimal digits. */
static bool is_of_container(const char *cgroup)
{
	size_t digits = 0;

	for (const char *c = cgroup; *c && digits < CONTAINER_ID_LEN; c++)
		digits = isxdigit((unsigned char)*c) ? digits + 1 : 0;
	return digits == CONTAINER_ID_LEN || strstr(cgroup, "kubepods") || strstr(cgroup, "lxc");
}

bool process_is_of_host(const char *root, pid_t pid)
{
	_cleanup_free_ char *text = NULL, *cgroup = NULL;
	const char *pids, *uids;
	unsigned real, effective;
	int first, second;

	if (process_read(root, pid, "status", &text, NULL) < 0 ||
		process_read(root, pid, "cgroup", &cgroup, NULL) < 0 || is_of_container(cgroup))
		return false;
	uids = strstr(text, "\nUid:");
	pids = strstr(text, "\nNSpid:");
	return uids && sscanf(uids, "\nUid: %u %u", &real, &effective) == 2 && real == 0 &&
	       effective == 0 && !(pids && sscanf(pids, "\nNSpid: %d %d", &first, &second) == 2);
}

int process_path(const char *root, pid_t pid, const char *name, char path[static PATH_MAX])
{
	char link[PATH_MAX], directory[PATH_MAX] = "";
	bool relative = name[0] != '/';
	int n;

	snprintf(link, sizeof(link), "%s/proc/%d/cwd", root, (int)pid);
	if (relative && readlink(link, directory, sizeof(directory) - 1) < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	/* The root itself, or "(unreachable)". */
	if (directory[0] != '/' || streq(directory, "/"))
		directory[0] = '\0';
	n = snprintf(path, PATH_MAX, "%s%s%s", directory, relative ? "/" : "", name);
	return n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

pid_t process_find(const char *root, process_match *match, void *userdata)
{
	_cleanup_(cleanup_closedir) DIR *proc = NULL;
	const struct dirent *entry;
	char path[PATH_MAX];
	pid_t found = 0;

	snprintf(path, sizeof(path), "%s/proc", root);
	proc = opendir(path);
	while (proc && found == 0 && (entry = readdir(proc))) {
		uint64_t pid;

		if (parse_count(entry->d_name, &pid) == 0 && pid > 0 && pid <= INT_MAX &&
			match(root, (pid_t)pid, userdata))
			found = (pid_t)pid;
	}
	return found;
}

pid_t process_of_socket(const char *path)
{
	_cleanup_close_ int file = open(path, O_PATH | O_CLOEXEC);
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct ucred peer = {0};
	socklen_t length = sizeof(peer);

	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d", file);
	if (file < 0 || fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
		getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0)
		return 0;
	return peer.pid;
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

/* Returns the rest of the word behind the option's name, "" or "=VALUE"; NULL for another option.
 */
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

int process_option(
	const char *root, pid_t pid, const char *name, bool boolean, char *value, size_t size)
{
	_cleanup_free_ char *text = NULL;
	const char *found = NULL, *next, *end;
	size_t len;
	int r = process_read(root, pid, "cmdline", &text, &len);

	if (r < 0)
		return r;
	end = text + len;
	for (const char *word = text; word < end && !streq(word, "--"); word = next) {
		const char *rest = after_name(word, name);

		next = word + strlen(word) + 1;
		if (rest && *rest == '=')
			found = rest + 1;
		else if (rest && boolean)
			found = "true";
		else if (rest && next < end)
			found = next;
	}
	return found && copy_text(value, size, found);
}
