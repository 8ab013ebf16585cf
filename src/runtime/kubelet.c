/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kubelet.h"

#include "base/file.h"
#include "base/util.h"
#include "workload/process.h"

#include <errno.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define FILE_MAX    (256 * 1024) /* bytes: a hundred times a full configuration */
#define FILES_MAX   64           /* and directories; a node has one to five */
#define DEPTH_MAX   4
#define K3S_DROP_IN "/var/lib/rancher/k3s/agent/etc/kubelet.conf.d"

const char kubelet_own_text[] =
	"# Written by headroom, because its configuration says kubelet.manage: true.\n"
	"# headroom restore takes this file away.\n"
	"apiVersion: kubelet.config.k8s.io/v1beta1\n"
	"kind: KubeletConfiguration\n"
	"serializeImagePulls: false\n";

/* Where kubeadm, k3s, RKE2, EKS, GKE and AKS keep it: for a kubelet whose process is not seen. */
static const struct {
	const char *config, *config_dir;
	bool embedded;
} known_files[] = {
	{"/var/lib/kubelet/config.yaml", "", false},
	{"", K3S_DROP_IN, true},
	{"", "/var/lib/rancher/rke2/agent/etc/kubelet.conf.d", false},
	{"/etc/kubernetes/kubelet/config.json", "", false},
	{"/etc/kubernetes/kubelet/kubelet-config.json", "", false},
	{"/home/kubernetes/kubelet-config.yaml", "", false},
	{"/etc/default/kubeletconfig.json", "", false},
};

/* One reading of the files. */
struct reading {
	const struct host *host;
	struct kubelet_seen *seen;
	struct kubelet_values flags;
	uint64_t start_us; /* CLOCK_REALTIME of the kubelet's start */
	size_t n_files;
	/* What is younger than that: files of others, our own, directories. */
	bool changed, own_changed, directory_changed;
};

static bool is_there(const struct host *host, const char *path)
{
	char full[PATH_MAX];

	return path_in_root(host->root, path, full) == 0;
}

/*
 * k3s runs a kubelet inside itself; beside it one of its own may run. One in a container, as in a
 * nested cluster, is not this node's; and any user may call a program kubelet: only root's command
 * line may say where files are written.
 */
static bool match_kubelet(const char *root, pid_t pid, void *embedded)
{
	_cleanup_free_ char *name = NULL;
	bool k3s;

	if (process_read(root, pid, "comm", &name, NULL) < 0)
		return false;
	k3s = streq(name, "k3s-server\n") || streq(name, "k3s-agent\n");
	if ((!k3s && !streq(name, "kubelet\n")) || !process_is_of_host(root, pid))
		return false;
	if (k3s)
		*(pid_t *)embedded = pid;
	return !k3s;
}

static void find_process(const struct host *host, struct kubelet_seen *seen)
{
	pid_t before = seen->pid, embedded = 0, pid;
	uint64_t start_us = 0;

	if (before > 0 && process_start(host->root, before, &start_us) == 0 &&
		start_us == seen->start_us) {
		*seen = (struct kubelet_seen){
			.pid = before, .start_us = start_us, .embedded = seen->embedded};
		return;
	}
	*seen = (struct kubelet_seen){0};
	pid = process_of_unit(host->root, "kubelet.service", match_kubelet, &embedded);
	/* All processes are looked at only where a kubelet keeps its files. */
	if (pid == 0 && (is_there(host, "/var/lib/kubelet") || is_there(host, "/var/lib/rancher")))
		pid = process_find(host->root, match_kubelet, &embedded);
	seen->embedded = pid == 0 && embedded > 0;
	if (pid == 0)
		pid = embedded;
	if (pid > 0 && process_start(host->root, pid, &seen->start_us) == 0)
		seen->pid = pid;
}

/* What is relative begins where the process works: systemd starts services in the root. */
static void take_path(
	const struct reading *reading, const char *value, char path[static SETTING_PATH_MAX])
{
	char full[PATH_MAX];

	if (!value || !value[0])
		return;
	if (process_path(reading->host->root, reading->seen->pid, value, full) < 0)
		snprintf(full, sizeof(full), "/%s", value);
	if (!copy_text(path, SETTING_PATH_MAX, full))
		path[0] = '\0';
}

static int take_command_line(struct reading *reading)
{
	_cleanup_(command_free) struct command command = {0};
	struct kubelet_seen *seen = reading->seen;
	const char *value;
	char word[KUBELET_ADDRESS_MAX];
	int r = command_read(reading->host->root, seen->pid, &command);

	if (r < 0)
		return r;
	take_path(reading, command_option(&command, "config"), seen->config);
	take_path(reading, command_option(&command, "config-dir"), seen->config_dir);
	for (int i = 0; i < KUBELET_FIELDS; i++) {
		struct kubelet_value taken = {.origin = KUBELET_FLAG};
		const char *flag = kubelet_fields[i].flag;

		if (!flag)
			continue;
		value = i == KUBELET_SERIALIZE_IMAGE_PULLS ? command_switch(&command, flag)
							   : command_option(&command, flag);
		if (value && kubelet_take(&taken, (enum kubelet_field)i, value))
			reading->flags.field[i] = taken;
	}
	value = command_option(&command, "cluster-dns");
	for (; value && value[0]; value += strspn(value, ",")) {
		size_t len = strcspn(value, ",");

		snprintf(word, sizeof(word), "%.*s", (int)MIN(len, sizeof(word)), value);
		kubelet_add_cluster_dns(&reading->flags, word);
		value += len;
	}
	return 0;
}

static void find_files(struct reading *reading)
{
	struct kubelet_seen *seen = reading->seen;

	if (seen->pid > 0 && (seen->embedded || take_command_line(reading) == 0)) {
		seen->presence = KUBELET_RUNNING;
		reading->start_us = realtime_of_boottime(seen->start_us);
		if (seen->embedded && is_there(reading->host, K3S_DROP_IN))
			copy_text(seen->config_dir, sizeof(seen->config_dir), K3S_DROP_IN);
		return;
	}
	seen->pid = 0; /* it ended meanwhile */
	for (size_t i = 0; i < ARRAY_SIZE(known_files); i++) {
		const char *path = known_files[i].config[0] ? known_files[i].config
							    : known_files[i].config_dir;

		if (!is_there(reading->host, path))
			continue;
		seen->presence = KUBELET_STOPPED;
		seen->embedded = known_files[i].embedded;
		copy_text(seen->config, sizeof(seen->config), known_files[i].config);
		copy_text(seen->config_dir, sizeof(seen->config_dir), known_files[i].config_dir);
		return;
	}
}

static void complain(struct reading *reading, const char *path, int error, const char *too_much)
{
	const char *cure = error == -EFBIG || error == -E2BIG
				   ? too_much
				   : "give read access to it below the host's root";

	if (reading->seen->why[0] == '\0')
		snprintf(reading->seen->why, KUBELET_WHY_MAX, "%s: %s: %s", path, strerror(-error),
			cure);
}

static bool is_younger(const struct reading *reading, const char *full)
{
	struct stat st;

	return stat(full, &st) == 0 &&
	       (uint64_t)st.st_ctim.tv_sec * USEC_PER_SEC + (uint64_t)st.st_ctim.tv_nsec / 1000 >=
		       reading->start_us;
}

/* name: below the drop-in directory; NULL for the main file. */
static void take_file(struct reading *reading, const char *path, const char *name)
{
	struct kubelet_seen *seen = reading->seen;
	bool own = name && streq(name, KUBELET_OWN_FILE);
	_cleanup_free_ char *text = NULL;
	struct kubelet_values given = {0};
	char full[PATH_MAX];
	size_t len = 0;
	int r = path_in_root(reading->host->root, path, full);

	if (r == 0)
		r = read_file(full, FILE_MAX, &text, &len);
	if (r < 0) {
		complain(reading, path, r, "this is no configuration of the kubelet");
		return;
	}
	/* After reading: what is put in its place meanwhile is younger. */
	if (is_younger(reading, full))
		*(own ? &reading->own_changed : &reading->changed) = true;
	/* The first fault is the one that is reported. */
	if (seen->why[0] || kubelet_parse(path, text, len, &given, seen->why) < 0)
		return;
	if (own)
		seen->own = streq(text, kubelet_own_text) ? KUBELET_OWN_WRITTEN : KUBELET_OWN_OTHER;
	else
		kubelet_merge(&seen->others, &given);
	kubelet_merge(&seen->values, &given);
	/* In the kubelet's order, by the first part of the name below the directory. */
	if (name && strcmp(name, KUBELET_OWN_FILE) > 0 &&
		given.field[KUBELET_SERIALIZE_IMAGE_PULLS].origin != KUBELET_UNSET)
		seen->overridden = true;
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

static int take_entry(struct reading *reading, const FTSENT *entry, const char *name)
{
	char path[SETTING_PATH_MAX];
	const char *dot = strrchr(entry->fts_name, '.');

	if (entry->fts_info == FTS_DP)
		return 0;
	if (entry->fts_info == FTS_DNR || entry->fts_info == FTS_ERR)
		return -entry->fts_errno;
	if (entry->fts_info == FTS_D) {
		reading->directory_changed |= is_younger(reading, entry->fts_accpath);
		return ++reading->n_files > FILES_MAX || entry->fts_level > DEPTH_MAX ? -E2BIG : 0;
	}
	if (!dot || !streq(dot, ".conf"))
		return 0;
	if (++reading->n_files > FILES_MAX)
		return -E2BIG;
	if (snprintf(path, sizeof(path), "%s/%s", reading->seen->config_dir, name) >=
		(int)sizeof(path))
		return -ENAMETOOLONG;
	take_file(reading, path, name);
	return 0;
}

/* The kubelet's order is that of names, a directory's own after the directory. */
static void take_directory(struct reading *reading)
{
	const char *directory = reading->seen->config_dir;
	char full[PATH_MAX];
	char *const roots[] = {full, NULL};
	const FTSENT *entry;
	FTS *tree;
	int r = path_in_root(reading->host->root, directory, full);

	tree = r == 0 ? fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, by_name) : NULL;
	if (r == 0 && !tree)
		r = -errno;
	while (r == 0 && (entry = fts_read(tree)))
		r = take_entry(reading, entry,
			entry->fts_path + MIN(strlen(full) + 1, strlen(entry->fts_path)));
	if (tree)
		fts_close(tree);
	if (r < 0)
		complain(reading, directory, r,
			"more than 64 files, or directories 5 deep: join them");
}

void kubelet_read(const struct host *host, struct kubelet_seen *seen)
{
	struct reading reading = {.host = host, .seen = seen};
	bool known;

	find_process(host, seen);
	find_files(&reading);
	if (seen->config[0])
		take_file(&reading, seen->config, NULL);
	if (seen->config_dir[0])
		take_directory(&reading);
	kubelet_merge(&seen->values, &reading.flags);
	kubelet_merge(&seen->others, &reading.flags);
	kubelet_fill_defaults(&seen->values, seen->embedded);
	kubelet_fill_defaults(&seen->others, seen->embedded);
	/* The kubelet took what did not change since it started. A directory changes when our own
	 * file comes to lie in it; else a file was taken away. */
	known = seen->presence == KUBELET_RUNNING && !reading.changed && seen->why[0] == '\0';
	seen->values_run = known && !reading.own_changed && !reading.directory_changed;
	seen->others_run = known && reading.own_changed;
}
