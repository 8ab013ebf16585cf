/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/kubelet/kubelet.h"

#include "base/file.h"
#include "base/parse.h"
#include "base/util.h"
#include "workload/process.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define PROC_FILE_MAX  (256 * 1024)
#define K3S_CONFIG_DIR "/var/lib/rancher/k3s/agent/etc/kubelet.conf.d"

static int read_proc(const struct host *host, int pid, const char *name, char **text, size_t *len)
{
	char path[64], full[PATH_MAX];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	return host_path(host, path, full) ? read_file(full, PROC_FILE_MAX, text, len)
					   : -ENAMETOOLONG;
}

/* A kubelet's flag names may be written with underscores. */
static bool is_flag(const char *word, size_t len, const char *name)
{
	for (size_t i = 0; i < len; i++)
		if ((word[i] == '_' ? '-' : word[i]) != name[i])
			return false;
	return name[len] == '\0';
}

static void take_path(char path[static SETTING_PATH_MAX], const char *value)
{
	/* systemd starts services in the root: what is relative begins there. */
	path[0] = '\0';
	if (value[0] != '\0' && snprintf(path, SETTING_PATH_MAX, "%s%s", value[0] == '/' ? "" : "/",
					value) >= SETTING_PATH_MAX)
		path[0] = '\0';
}

static void take_field(struct kubelet_process *process, int field, const char *value)
{
	struct kubelet_value taken = {.origin = KUBELET_FLAG};

	if (kubelet_take(&taken, (enum kubelet_field)field, value))
		process->flags.field[field] = taken;
}

/* Takes one flag; next is the word after it, NULL at the end. */
static void take_flag(struct kubelet_process *process, const char *word, const char *next)
{
	size_t len = strcspn(word, "=");
	const char *value = word[len] == '=' ? word + len + 1 : next;

	if (value && is_flag(word, len, "config"))
		take_path(process->config, value);
	if (value && is_flag(word, len, "config-dir"))
		take_path(process->config_dir, value);
	for (int i = 0; i < KUBELET_FIELDS; i++) {
		const char *flag = kubelet_field_flag((enum kubelet_field)i);

		if (!flag || !is_flag(word, len, flag))
			continue;
		/* A bool's value stands behind an equals sign or not at all. */
		if (i == KUBELET_SERIALIZE_IMAGE_PULLS && word[len] != '=')
			value = "true";
		if (value)
			take_field(process, i, value);
	}
}

void kubelet_parse_command_line(const char *line, size_t len, struct kubelet_process *process)
{
	const char *end = line + len;

	for (const char *word = line; word < end; word += strnlen(word, (size_t)(end - word)) + 1) {
		const char *next = word + strnlen(word, (size_t)(end - word)) + 1;

		if (streq(word, "--"))
			return;
		if (starts_with(word, "--"))
			take_flag(process, word + 2, next < end ? next : NULL);
	}
}

static int read_start(const struct host *host, int pid, uint64_t *start_us)
{
	_cleanup_free_ char *text = NULL;
	int r = read_proc(host, pid, "stat", &text, NULL);

	return r < 0 ? r : process_parse_start(text, start_us);
}

enum match {
	MATCH_NONE,
	MATCH_EMBEDDED, /* k3s, which runs a kubelet inside itself */
	MATCH_KUBELET,
};

/*
 * A kubelet in a container, as in a nested cluster, is not this node's: it has pids of its own. And
 * any user may call a program kubelet: only root's command line may say where files are written.
 */
static bool is_of_node(const struct host *host, int pid)
{
	_cleanup_free_ char *text = NULL;
	const char *pids, *uids;
	unsigned real, effective;
	int first, second;

	if (read_proc(host, pid, "status", &text, NULL) < 0)
		return false;
	uids = strstr(text, "\nUid:");
	pids = strstr(text, "\nNSpid:");
	return uids && sscanf(uids, "\nUid: %u %u", &real, &effective) == 2 && real == 0 &&
	       effective == 0 && !(pids && sscanf(pids, "\nNSpid: %d %d", &first, &second) == 2);
}

static enum match match_process(const struct host *host, int pid)
{
	_cleanup_free_ char *name = NULL;
	enum match match = MATCH_NONE;

	if (read_proc(host, pid, "comm", &name, NULL) < 0)
		return MATCH_NONE;
	name[strcspn(name, "\n")] = '\0';
	if (streq(name, "kubelet"))
		match = MATCH_KUBELET;
	else if (streq(name, "k3s-server") || streq(name, "k3s-agent"))
		match = MATCH_EMBEDDED;
	return match != MATCH_NONE && is_of_node(host, pid) ? match : MATCH_NONE;
}

/* The usual case costs one file: what runs in the service's cgroup. */
static int find_in_service(const struct host *host)
{
	static const char *const files[] = {
		"/sys/fs/cgroup/system.slice/kubelet.service/cgroup.procs",
		"/sys/fs/cgroup/systemd/system.slice/kubelet.service/cgroup.procs",
	};

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		_cleanup_free_ char *text = NULL;
		char full[PATH_MAX], *rest, *line;

		if (!host_path(host, files[i], full) ||
			read_file(full, PROC_FILE_MAX, &text, NULL) < 0)
			continue;
		for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
			int pid = atoi(line);

			if (pid > 0 && match_process(host, pid) == MATCH_KUBELET)
				return pid;
		}
	}
	return 0;
}

/* All processes are looked at only where a kubelet keeps its files. */
static bool may_have_kubelet(const struct host *host)
{
	char full[PATH_MAX];

	return path_in_root(host->root, "/var/lib/kubelet", full) == 0 ||
	       path_in_root(host->root, "/var/lib/rancher", full) == 0;
}

void kubelet_scan_end(struct kubelet_scan *scan)
{
	if (scan->proc)
		closedir(steal(scan->proc));
}

/* A k3s counts when all have been looked at: beside it a kubelet of its own may run. */
static int find_in_proc(const struct host *host, struct kubelet_scan *scan, enum match *match)
{
	char full[PATH_MAX];
	const struct dirent *entry;
	unsigned looked_at = 0;

	if (!scan->proc) {
		scan->embedded = 0;
		scan->proc = host_path(host, "/proc", full) ? opendir(full) : NULL;
	}
	while (scan->proc && (entry = readdir(scan->proc))) {
		uint64_t pid;

		if (parse_count(entry->d_name, &pid) < 0 || pid == 0 || pid > INT32_MAX)
			continue;
		*match = match_process(host, (int)pid);
		if (*match == MATCH_KUBELET) {
			kubelet_scan_end(scan);
			return (int)pid;
		}
		if (*match == MATCH_EMBEDDED)
			scan->embedded = (int)pid;
		if (++looked_at == scan->at_once)
			return 0;
	}
	kubelet_scan_end(scan);
	*match = MATCH_EMBEDDED;
	return scan->embedded;
}

static void take_process(
	const struct host *host, int pid, bool embedded, struct kubelet_process *process)
{
	_cleanup_free_ char *line = NULL;
	char full[PATH_MAX];
	size_t len = 0;

	*process = (struct kubelet_process){.pid = pid, .embedded = embedded};
	if (read_start(host, pid, &process->start_us) < 0 ||
		read_proc(host, pid, "cmdline", &line, &len) < 0) {
		process->pid = 0; /* it ended meanwhile */
		return;
	}
	if (!embedded)
		kubelet_parse_command_line(line, len, process);
	else if (path_in_root(host->root, K3S_CONFIG_DIR, full) == 0)
		take_path(process->config_dir, K3S_CONFIG_DIR);
}

void kubelet_process_find(
	const struct host *host, struct kubelet_scan *scan, struct kubelet_process *process)
{
	uint64_t start_us = 0;
	enum match match = MATCH_KUBELET;
	int pid = process->pid;

	if (pid > 0 && read_start(host, pid, &start_us) == 0 && start_us == process->start_us)
		return;
	pid = find_in_service(host);
	if (pid > 0 || !may_have_kubelet(host))
		kubelet_scan_end(scan);
	else
		pid = find_in_proc(host, scan, &match);
	if (pid > 0)
		take_process(host, pid, match == MATCH_EMBEDDED, process);
	else
		*process = (struct kubelet_process){0};
}
