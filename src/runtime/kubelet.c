/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kubelet.h"

#include "base/file.h"
#include "base/text.h"
#include "workload/process.h"

#include <arpa/inet.h>
#include <fts.h>

#define FILE_MAX    (256 * 1024) /* bytes: a hundred times a full configuration */
#define FILES_MAX   64           /* and directories; a node has one to five */
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

/* Names of KubeletConfiguration v1beta1, flags of cmd/kubelet/app/options. */
const struct kubelet_row kubelet_fields[KUBELET_FIELDS] = {
	[KUBELET_SERIALIZE_IMAGE_PULLS] = {"serializeImagePulls", "serialize-image-pulls", "true",
		KUBELET_BOOL},
	[KUBELET_MAX_PARALLEL_IMAGE_PULLS] = {"maxParallelImagePulls", NULL, "", KUBELET_NUMBER},
	[KUBELET_REGISTRY_PULL_QPS] = {"registryPullQPS", "registry-qps", "5", KUBELET_NUMBER},
	[KUBELET_REGISTRY_BURST] = {"registryBurst", "registry-burst", "10", KUBELET_NUMBER},
	[KUBELET_IMAGE_GC_HIGH] = {"imageGCHighThresholdPercent", "image-gc-high-threshold", "85",
		KUBELET_NUMBER},
	[KUBELET_IMAGE_GC_LOW] = {"imageGCLowThresholdPercent", "image-gc-low-threshold", "80",
		KUBELET_NUMBER},
	[KUBELET_IMAGE_MAXIMUM_GC_AGE] = {"imageMaximumGCAge", NULL, "0s", KUBELET_AGE},
};

/* ---- values ---- */

bool kubelet_take(struct kubelet_value *value, enum kubelet_field field, const char *text)
{
	/* YAML 1.1's words for a boolean as the kubelet's parser has them, and Go's for a flag. */
	static const char *const words[] = {
		"true", "false", "t", "f", "1", "0", "yes", "no", "on", "off"};
	uint64_t number;
	size_t i = 0;

	if (kubelet_fields[field].kind == KUBELET_BOOL) {
		while (i < ARRAY_SIZE(words) && strcasecmp(text, words[i]) != 0)
			i++;
		if (i == ARRAY_SIZE(words))
			return false;
		text = words[i % 2];
	} else if (kubelet_fields[field].kind == KUBELET_NUMBER &&
		   (parse_count(text, &number) < 0 || number > INT32_MAX)) {
		return false;
	}
	return text_is_printable(text) && copy_text(value->text, sizeof(value->text), text);
}

void kubelet_add_cluster_dns(struct kubelet_values *values, const char *address)
{
	uint8_t binary[16];

	if (values->n_cluster_dns < KUBELET_SERVERS_MAX &&
		(inet_pton(AF_INET, address, binary) == 1 ||
			inet_pton(AF_INET6, address, binary) == 1))
		copy_text(
			values->cluster_dns[values->n_cluster_dns++], KUBELET_ADDRESS_MAX, address);
}

/* Lays a drop-in file's values, or flags, over what came before. */
static void merge(struct kubelet_values *values, const struct kubelet_values *over)
{
	for (int i = 0; i < KUBELET_FIELDS; i++)
		if (over->field[i].origin != KUBELET_UNSET)
			values->field[i] = over->field[i];
	if (over->n_cluster_dns > 0) {
		memcpy(values->cluster_dns, over->cluster_dns, sizeof(values->cluster_dns));
		values->n_cluster_dns = over->n_cluster_dns;
	}
}

/*
 * From 1.32 pulls are parallel by default where a limit above 1 is given; before, that was refused.
 * k3s starts its kubelet with --serialize-image-pulls=false.
 */
void kubelet_fill_defaults(struct kubelet_values *values, bool embedded)
{
	const struct kubelet_value *most = &values->field[KUBELET_MAX_PARALLEL_IMAGE_PULLS];
	uint64_t number = 0;
	bool parallel = embedded || (most->origin >= KUBELET_FILE &&
					    parse_count(most->text, &number) == 0 && number >= 2);

	for (int i = 0; i < KUBELET_FIELDS; i++) {
		struct kubelet_value *value = &values->field[i];

		if (value->origin >= KUBELET_FILE)
			continue;
		*value = (struct kubelet_value){.origin = KUBELET_UNSET};
		copy_text(value->text, sizeof(value->text),
			i == KUBELET_SERIALIZE_IMAGE_PULLS && parallel ? "false"
								       : kubelet_fields[i].def);
	}
}

/* ---- which files ---- */

/* One reading of the files. */
struct reading {
	const struct host *host;
	struct kubelet_seen *seen;
	struct kubelet_values flags;
	uint64_t start_us; /* CLOCK_REALTIME of the kubelet's start */
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
	bool k3s = process_is_named(root, pid, "k3s-server") ||
		   process_is_named(root, pid, "k3s-agent");

	if ((!k3s && !process_is_named(root, pid, "kubelet")) || !process_is_of_host(root, pid))
		return false;
	if (k3s)
		*(pid_t *)embedded = pid;
	return !k3s;
}

static void find_process(const struct host *host, struct kubelet_seen *seen)
{
	pid_t before = seen->pid, embedded = 0, pid;

	if (process_is(host->root, before, seen->start_us)) {
		*seen = (struct kubelet_seen){
			.pid = before, .start_us = seen->start_us, .embedded = seen->embedded};
		return;
	}
	*seen = (struct kubelet_seen){0};
	/* All processes are looked at only where a kubelet keeps its files. */
	if (!is_there(host, "/var/lib/kubelet") && !is_there(host, "/var/lib/rancher"))
		return;
	pid = process_find(host->root, match_kubelet, &embedded);
	seen->embedded = pid == 0 && embedded > 0;
	if (pid == 0)
		pid = embedded;
	if (pid > 0 && process_start(host->root, pid, &seen->start_us) == 0)
		seen->pid = pid;
}

/* A path of the command line. What is relative begins where the process works. */
static int take_path(
	const struct reading *reading, const char *option, char path[static SETTING_PATH_MAX])
{
	const char *root = reading->host->root;
	pid_t pid = reading->seen->pid;
	char value[PATH_MAX], full[PATH_MAX];
	int r = process_option(root, pid, option, false, value, sizeof(value));

	if (r <= 0 || !value[0])
		return r;
	/* systemd starts services in the root. */
	if (process_path(root, pid, value, full) < 0)
		snprintf(full, sizeof(full), "/%.4000s", value);
	if (!copy_text(path, SETTING_PATH_MAX, full))
		path[0] = '\0';
	return 0;
}

static int take_command_line(struct reading *reading)
{
	const char *root = reading->host->root;
	struct kubelet_seen *seen = reading->seen;
	char value[PATH_MAX], *state = NULL;
	int r = take_path(reading, "config", seen->config);

	if (r < 0)
		return r;
	take_path(reading, "config-dir", seen->config_dir);
	for (int i = 0; i < KUBELET_FIELDS; i++) {
		struct kubelet_value taken = {.origin = KUBELET_FLAG};
		const char *flag = kubelet_fields[i].flag;

		if (flag &&
			process_option(root, seen->pid, flag,
				kubelet_fields[i].kind == KUBELET_BOOL, value, sizeof(value)) > 0 &&
			kubelet_take(&taken, (enum kubelet_field)i, value))
			reading->flags.field[i] = taken;
	}
	if (process_option(root, seen->pid, "cluster-dns", false, value, sizeof(value)) > 0)
		for (char *word = strtok_r(value, ",", &state); word;
			word = strtok_r(NULL, ",", &state))
			kubelet_add_cluster_dns(&reading->flags, word);
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

/* The first fault is the one that is reported. */
static void complain(struct reading *reading, const char *path, int error)
{
	const char *cure = "give read access to it below the host's root";

	if (error == -EFBIG)
		cure = "this is no configuration of the kubelet";
	else if (error == -E2BIG)
		cure = "more than 64 files and directories: join them";
	if (reading->seen->why[0] == '\0')
		snprintf(reading->seen->why, KUBELET_WHY_MAX, "%s: %s: %s", path, strerror(-error),
			cure);
}

static bool is_younger(const struct reading *reading, const char *full)
{
	struct stat st;

	return stat(full, &st) == 0 && us_of(st.st_ctim) >= reading->start_us;
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
		complain(reading, path, r);
		return;
	}
	/* After reading: what is put in its place meanwhile is younger. */
	if (is_younger(reading, full))
		*(own ? &reading->own_changed : &reading->changed) = true;
	if (seen->why[0] || kubelet_parse(path, text, len, &given, seen->why) < 0)
		return;
	if (own)
		seen->own = streq(text, kubelet_own_text) ? KUBELET_OWN_WRITTEN : KUBELET_OWN_OTHER;
	else
		merge(&seen->others, &given);
	merge(&seen->values, &given);
	/* In the kubelet's order, by the first part of the name below the directory. */
	if (name && strcmp(name, KUBELET_OWN_FILE) > 0 &&
		given.field[KUBELET_SERIALIZE_IMAGE_PULLS].origin != KUBELET_UNSET)
		seen->overridden = true;
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* The kubelet's order is that of names, a directory's own after the directory. */
static void take_directory(struct reading *reading)
{
	char full[PATH_MAX], path[SETTING_PATH_MAX];
	char *const roots[] = {full, NULL};
	int r = path_in_root(reading->host->root, reading->seen->config_dir, full);
	FTS *tree = r == 0 ? fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, by_name) : NULL;
	const FTSENT *entry;
	int n = 0;

	if (r == 0 && !tree)
		r = -errno;
	while (r == 0 && (entry = fts_read(tree))) {
		const char *dot = strrchr(entry->fts_name, '.');
		const char *name = entry->fts_path + MIN(strlen(full) + 1, strlen(entry->fts_path));
		bool directory = entry->fts_info == FTS_D;

		if (entry->fts_info == FTS_DNR || entry->fts_info == FTS_ERR)
			r = -entry->fts_errno;
		else if (directory)
			reading->directory_changed |= is_younger(reading, entry->fts_accpath);
		else if (entry->fts_info == FTS_DP || !dot || !streq(dot, ".conf"))
			continue;
		if (r == 0 && ++n > FILES_MAX)
			r = -E2BIG;
		if (r < 0 || directory)
			continue;
		if (snprintf(path, sizeof(path), "%s/%s", reading->seen->config_dir, name) >=
			(int)sizeof(path))
			r = -ENAMETOOLONG;
		else
			take_file(reading, path, name);
	}
	if (tree)
		fts_close(tree);
	if (r < 0)
		complain(reading, reading->seen->config_dir, r);
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
	merge(&seen->values, &reading.flags);
	merge(&seen->others, &reading.flags);
	kubelet_fill_defaults(&seen->values, seen->embedded);
	kubelet_fill_defaults(&seen->others, seen->embedded);
	/* The kubelet took what did not change since it started. A directory changes when our own
	 * file comes to lie in it; else a file was taken away. */
	known = seen->presence == KUBELET_RUNNING && !reading.changed && seen->why[0] == '\0';
	seen->values_run = known && !reading.own_changed && !reading.directory_changed;
	seen->others_run = known && reading.own_changed;
}
