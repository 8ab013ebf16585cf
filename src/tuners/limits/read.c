/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the limits whose numbers the kernel or a file shows. The parts, in order: numbers in files,
 * by a row's used, max and hits; the other limits that never block; the limits that a task
 * samples, because reading them may block: file systems, databases of etcd, bridges, addresses of
 * pods, allowances of network interfaces. Nothing here counts processes or open files: census.c
 * does.
 */
#include "tuners/limits/limits.h"

#include "base/file.h"
#include "base/json.h"
#include "runtime/systemd.h"
#include "workload/process.h"

#include <arpa/inet.h>
#include <glob.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>

#include <linux/ethtool.h>
#include <linux/sockios.h>

#define FILE_SIZE_MAX (256 * 1024) /* enough for a file with a line for each CPU or user */

/* The kernel's largest number of memory cgroups. */
#define MEMORY_CGROUPS_MAX 65535

/* ---- numbers in files ---- */

/* Copies a word, counted from 0. False after the last. */
static bool word_at(const char *text, unsigned index, char *word, size_t size)
{
	size_t len;

	for (text += strspn(text, " \t"); index > 0; index--) {
		text += strcspn(text, " \t\n");
		text += strspn(text, " \t");
	}
	len = strcspn(text, " \t\n");
	snprintf(word, size, "%.*s", (int)len, text);
	return len > 0;
}

static const char *next_line(const char *text)
{
	text += strcspn(text, "\n");
	return text + (*text == '\n');
}

/*
 * Finds in "TCP: inuse 4 mem 1" the word after the name. "TcpExt: A B" and below "TcpExt: 1 2": the
 * word at the same position of the next line.
 */
static int find_by_name(const char *text, const struct number_in_file *from, uint64_t *number)
{
	char word[64];
	unsigned index = 0;

	while (*text && !starts_with(text, from->line))
		text = next_line(text);
	while (word_at(text, index, word, sizeof(word)) && !streq(word, from->name))
		index++;
	if (!word[0])
		return -EBADMSG;
	if (word_at(text, index + 1, word, sizeof(word)) && parse_count(word, number) == 0)
		return 0;
	text = next_line(text);
	if (!starts_with(text, from->line) || !word_at(text, index, word, sizeof(word)))
		return -EBADMSG;
	return parse_count(word, number);
}

static int read_number(const struct host *host, const struct number_in_file *from, uint64_t *number)
{
	_cleanup_free_ char *text = NULL;
	char value[SETTING_VALUE_MAX], word[32];
	int r;

	if (!from->name) {
		r = host_read_value(host, from->path, value);
		if (r < 0)
			return r;
		if (!word_at(value, from->field - 1, word, sizeof(word)))
			return -EBADMSG;
		return parse_count(word, number) < 0 ? -EBADMSG : 0;
	}
	r = host_read_file(host, from->path, FILE_SIZE_MAX, &text);
	return r < 0 ? r : find_by_name(text, from, number);
}

int limits_read_numbers(
	const struct host *host, const struct limit_row *row, struct limit_reading *reading)
{
	int r = read_number(host, &row->used, &reading->used);

	if (r == 0)
		r = read_number(host, &row->max, &reading->max);
	/* An older kernel may lack the counter. */
	if (r == 0 && row->hits.path)
		(void)read_number(host, &row->hits, &reading->hits);
	return r;
}

int limits_read_max(const struct host *host, const struct limit_row *row, uint64_t *max)
{
	return row->max.path ? read_number(host, &row->max, max) : 0;
}

static int read_value(const struct host *host, const char *path, uint64_t *number)
{
	return read_number(host, &(const struct number_in_file){path, 1, NULL, NULL}, number);
}

/* ---- other limits ---- */

uint64_t limits_sum_column(const char *text, const char *name)
{
	char word[64];
	unsigned index = 0;
	uint64_t sum = 0;

	while (word_at(text, index, word, sizeof(word)) && !streq(word, name))
		index++;
	if (!word[0])
		return 0;
	for (text = next_line(text); *text; text = next_line(text))
		if (word_at(text, index, word, sizeof(word)))
			sum += strtoull(word, NULL, 16);
	return sum;
}

uint64_t limits_own_netns(void)
{
	struct stat st;

	return stat("/proc/self/ns/net", &st) == 0 ? st.st_ino : 0;
}

int limits_read_conntrack(const struct limit_source *source, struct limit_reading *reading)
{
	struct limit_instance own = {
		.instance = {.kind = INSTANCE_NETNS, .id = limits_own_netns(), .name = "host"}};
	_cleanup_free_ char *text = NULL;
	int r = read_value(
		source->host, "/proc/sys/net/netfilter/nf_conntrack_count", &reading->used);

	if (r == 0)
		r = read_value(
			source->host, "/proc/sys/net/netfilter/nf_conntrack_max", &reading->max);
	/* Kernels without CONFIG_NF_CONNTRACK_PROCFS lack the file. */
	if (r == 0 && host_read_file(source->host, "/proc/net/stat/nf_conntrack", FILE_SIZE_MAX,
			      &text) == 0)
		reading->hits =
			limits_sum_column(text, "drop") + limits_sum_column(text, "early_drop");
	own.used = reading->used;
	own.max = reading->max;
	own.hits = reading->hits;
	if (r == 0)
		limit_instance_add(source->instances, &own);
	return r;
}

/* Keeps the use with the largest share of its maximum. Returns whether it is this one. */
static bool keep_fuller(struct limit_reading *reading, uint64_t used, uint64_t max)
{
	if (max == 0 || (reading->max > 0 && (double)used / (double)max <=
						     (double)reading->used / (double)reading->max))
		return false;
	reading->used = used;
	reading->max = max;
	return true;
}

uint64_t limits_kubepods(const struct host *host, char path[SETTING_PATH_MAX])
{
	static const char *const names[] = {"/sys/fs/cgroup/kubepods.slice",
		"/sys/fs/cgroup/kubepods", "/sys/fs/cgroup/pids/kubepods.slice",
		"/sys/fs/cgroup/pids/kubepods"};
	char full[PATH_MAX], file[SETTING_PATH_MAX];
	struct stat st;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(file, sizeof(file), "%s/pids.max", names[i]);
		if (access(host_path(host, file, full), F_OK) < 0 ||
			stat(host_path(host, names[i], full), &st) < 0)
			continue;
		if (path)
			snprintf(path, SETTING_PATH_MAX, "%s", names[i]);
		return st.st_ino;
	}
	return 0;
}

/* Adds the cgroup of all pods if it has a limit. */
static void add_kubepods(const struct limit_source *source, struct limit_reading *reading)
{
	struct limit_instance pods = {.instance.kind = INSTANCE_CGROUP};
	char file[SETTING_PATH_MAX + 16], *path = pods.instance.name;

	pods.instance.id = limits_kubepods(source->host, path);
	if (pods.instance.id == 0)
		return;
	snprintf(file, sizeof(file), "%s/pids.current", path);
	if (read_value(source->host, file, &pods.used) < 0)
		return;
	snprintf(file, sizeof(file), "%s/pids.max", path);
	if (read_value(source->host, file, &pods.max) < 0) /* "max" */
		return;
	keep_fuller(reading, pods.used, pods.max);
	limit_instance_add(source->instances, &pods);
}

int limits_read_pids(const struct limit_source *source, struct limit_reading *reading)
{
	struct limit_instance node = {.instance.kind = INSTANCE_NODE, .sysctl = "kernel.pid_max"};
	char value[SETTING_VALUE_MAX];
	uint64_t max;
	/* "0.20 0.18 0.12 1/80 11206": runnable and all tasks, proc_loadavg(5). */
	int r = host_read_value(source->host, "/proc/loadavg", value);

	if (r < 0)
		return r;
	if (sscanf(value, "%*s %*s %*s %*[0-9]/%" SCNu64, &node.used) != 1)
		return -EBADMSG;
	r = read_value(source->host, "/proc/sys/kernel/pid_max", &node.max);
	if (r < 0)
		return r;
	if (read_value(source->host, "/proc/sys/kernel/threads-max", &node.beside) == 0 &&
		node.beside < node.max) {
		max = node.max;
		node.max = node.beside;
		node.beside = max;
		node.sysctl = "kernel.threads-max";
	}
	keep_fuller(reading, node.used, node.max);
	limit_instance_add(source->instances, &node);
	add_kubepods(source, reading);
	return 0;
}

/* A hierarchy of cgroup v1 counts its removed cgroups too, in /proc/cgroups. */
int limits_read_memory_cgroups(const struct limit_source *source, struct limit_reading *reading)
{
	/* Before Linux 6.12 only the cgroups of all controllers are counted. */
	static const char *const names[][2] = {{"nr_subsys_memory", "nr_dying_subsys_memory"},
		{"nr_descendants", "nr_dying_descendants"}};
	_cleanup_free_ char *text = NULL;
	uint64_t hierarchy = 0, removed;
	char *line;
	int r = host_read_file(source->host, "/proc/cgroups", FILE_SIZE_MAX, &text);

	reading->max = MEMORY_CGROUPS_MAX;
	line = r == 0 ? strstr(text, "\nmemory\t") : NULL;
	if (line && sscanf(line, " memory %" SCNu64 " %" SCNu64, &hierarchy, &reading->used) == 2 &&
		hierarchy > 0)
		return 0;
	r = -EBADMSG;
	for (size_t i = 0; i < ARRAY_SIZE(names) && r == -EBADMSG; i++) {
		struct number_in_file from = {
			"/sys/fs/cgroup/cgroup.stat", 0, names[i][0], names[i][0]};

		r = read_number(source->host, &from, &reading->used);
		from.line = from.name = names[i][1];
		if (r == 0)
			r = read_number(source->host, &from, &removed);
	}
	reading->used += r == 0 ? removed : 0;
	return r;
}

int limits_read_ptys(const struct limit_source *source, struct limit_reading *reading)
{
	uint64_t reserve = 0;
	int r = read_value(source->host, "/proc/sys/kernel/pty/nr", &reading->used);

	if (r == 0)
		r = read_value(source->host, "/proc/sys/kernel/pty/max", &reading->max);
	if (r == 0)
		r = read_value(source->host, "/proc/sys/kernel/pty/reserve", &reserve);
	reading->max -= MIN(reserve, reading->max);
	return r;
}

/* "    0:     9 8/8 3/1000000 40/25000000": user, references, keys, quotas of keys and bytes. */
int limits_read_keys(const struct limit_source *source, struct limit_reading *reading)
{
	_cleanup_free_ char *text = NULL;
	int r = host_read_file(source->host, "/proc/key-users", FILE_SIZE_MAX, &text);

	if (r < 0)
		return r;
	for (const char *line = text; *line; line = next_line(line)) {
		uint64_t keys, keys_max, used, max;
		struct limit_user user = {.workload.kind = WORKLOAD_UID};
		unsigned uid;

		if (sscanf(line, " %u: %*u %*u/%*u %" SCNu64 "/%" SCNu64 " %" SCNu64 "/%" SCNu64,
			    &uid, &keys, &keys_max, &used, &max) != 5)
			return -EBADMSG;
		if (!source->reader->key_bytes) {
			used = keys;
			max = keys_max;
		}
		keep_fuller(reading, used, max);
		user.used = used;
		snprintf(user.workload.name, sizeof(user.workload.name), "%u", uid);
		limit_keep_user(reading, &user);
	}
	return 0;
}

/* Columns of /proc/net/softnet_stat, from 0: net/core/net-procfs.c, softnet_seq_show(). */
#define SOFTNET_DROPPED 1
#define SOFTNET_BACKLOG 11 /* from Linux 5.10 */

int limits_read_softnet(const struct limit_source *source, struct limit_reading *reading)
{
	_cleanup_free_ char *text = NULL;
	char word[32];
	int r = read_value(source->host, "/proc/sys/net/core/netdev_max_backlog", &reading->max);

	if (r == 0)
		r = host_read_file(source->host, "/proc/net/softnet_stat", FILE_SIZE_MAX, &text);
	for (const char *line = text; r == 0 && *line; line = next_line(line)) {
		if (!word_at(line, SOFTNET_BACKLOG, word, sizeof(word)))
			return -EBADMSG;
		reading->used = MAX(reading->used, strtoull(word, NULL, 16));
		word_at(line, SOFTNET_DROPPED, word, sizeof(word));
		reading->hits += strtoull(word, NULL, 16);
	}
	return r;
}

#define BRIDGE_PORTS_MAX 1023 /* port 0 is reserved: net/bridge/br_private.h */

#define NETWORKS  "/var/lib/cni/networks"
#define CNI_FILES "/etc/cni/net.d"

/* Counts the files of a directory except hidden files. -1: not readable. */
static int count_files(const char *path)
{
	_cleanup_(cleanup_closedir) DIR *directory = opendir(path);
	const struct dirent *entry;
	int n = 0;

	if (!directory)
		return -1;
	while ((entry = readdir(directory)))
		n += entry->d_name[0] != '.';
	return n;
}

static void add_user(struct limit_reading *reading, uint64_t used, const char *detail)
{
	struct limit_user user = {{WORKLOAD_HOST, .name = "host"}, .used = used};

	set_text(user.detail, detail);
	limit_keep_user(reading, &user);
}

/* ---- file systems ---- */

#define PATHS_MAX (4 + NODE_IMAGES_MAX + NODE_SYNCED_MAX)

/* Lists the directories that may be on the file system of a row. */
static unsigned list_paths(const struct node_disks *disks, enum limits_filesystem filesystem,
	const char *list[static PATHS_MAX])
{
	static const char *const paths[][4] = {
		[LIMITS_ROOT] = {"/"},
		[LIMITS_IMAGES] = {"/var/lib/containerd", "/var/lib/docker",
			"/var/lib/containers/storage", "/var/lib/rancher"},
		[LIMITS_KUBELET] = {"/var/lib/kubelet"},
		[LIMITS_LOG] = {"/var/log"},
		[LIMITS_RUN] = {"/run"},
		[LIMITS_STORAGE] = {NULL},
	};
	unsigned n = 0;

	for (; n < ARRAY_SIZE(paths[0]) && paths[filesystem][n]; n++)
		list[n] = paths[filesystem][n];
	for (unsigned i = 0; filesystem == LIMITS_IMAGES && i < disks->n_images; i++)
		list[n++] = disks->images[i].path;
	for (unsigned i = 0; filesystem == LIMITS_STORAGE && i < disks->n_synced; i++)
		list[n++] = disks->synced[i].path;
	return n;
}

static bool is_shown_above(const struct limit_source *source, dev_t device)
{
	const char *paths[PATHS_MAX];
	char full[PATH_MAX];
	struct stat st;

	for (unsigned above = 0; above < source->reader->filesystem; above++)
		for (unsigned n = list_paths(source->disks, above, paths); n > 0; n--)
			if (stat(host_path(source->host, paths[n - 1], full), &st) == 0 &&
				st.st_dev == device)
				return true;
	return false;
}

/* Reads the fullest file system of the row. */
int limits_sample_filesystem(const struct limit_source *source, struct limit_reading *reading)
{
	const char *paths[PATHS_MAX], *fullest = NULL;
	unsigned n = list_paths(source->disks, source->reader->filesystem, paths);
	bool inodes = source->reader->inodes;
	int error = -ENOENT;

	for (unsigned i = 0; i < n; i++) {
		char full[PATH_MAX];
		uint64_t used, max;
		struct statvfs fs;
		struct stat st;

		if (stat(host_path(source->host, paths[i], full), &st) < 0 ||
			statvfs(full, &fs) < 0) {
			error = -errno;
			continue;
		}
		used = inodes ? fs.f_files - fs.f_ffree : (fs.f_blocks - fs.f_bfree) * fs.f_frsize;
		max = inodes ? fs.f_files : used + fs.f_bavail * fs.f_frsize;
		/* max is 0 on btrfs, which makes inodes as needed. */
		if (!is_shown_above(source, st.st_dev) && keep_fuller(reading, used, max))
			fullest = paths[i];
	}
	if (fullest && n > 1)
		add_user(reading, reading->used, fullest);
	return fullest ? 0 : error;
}

/* ---- etcd's databases ---- */

#define DATABASE_QUOTA INT64_C(2147483648) /* etcd: server/storage, DefaultQuotaBytes */

#define QUOTA       "quota-backend-bytes"
#define K3S_WRITTEN "/var/lib/rancher/k3s/server/db/etcd/config"

/* Copies the value of the last "quota-backend-bytes=VALUE" or ": VALUE" outside of comments. */
static void find_quota(char *text, char value[static 32])
{
	for (char *next = text, *line; (line = strsep(&next, "\n"));) {
		const char *found;

		line[strcspn(line, "#")] = '\0';
		found = strstr(line, QUOTA);
		if (found && (found[strlen(QUOTA)] == '=' || found[strlen(QUOTA)] == ':'))
			snprintf(value, 32, "%.31s", found + strlen(QUOTA "="));
	}
}

static bool find_quota_in(const char *path, char value[static 32])
{
	_cleanup_free_ char *text = NULL;

	if (read_file(path, 256 * 1024, &text, NULL) < 0)
		return false;
	find_quota(text, value);
	return true;
}

static bool is_of_host(const struct node_database *database)
{
	return database->workload.kind == WORKLOAD_UNIT || database->workload.kind == WORKLOAD_HOST;
}

/*
 * The server of k3s gives etcd the values of etcd-arg, of its files in this order and of its
 * command line. It hides the latter, but writes all of them to a file below its usual data-dir.
 * A server in a container has other files.
 */
static void read_k3s_quota(
	const struct host *host, const struct node_database *database, char value[static 32])
{
	static const char *const patterns[] = {
		"/etc/rancher/k3s/config.yaml", "/etc/rancher/k3s/config.yaml.d/*.yaml"};
	_cleanup_free_ char *words = NULL;
	char full[PATH_MAX];
	size_t len = 0;

	if (is_of_host(database) && find_quota_in(host_path(host, K3S_WRITTEN, full), value))
		return;
	for (size_t i = 0; is_of_host(database) && i < ARRAY_SIZE(patterns); i++) {
		glob_t files = {0};

		(void)glob(host_path(host, patterns[i], full), 0, NULL, &files);
		for (size_t k = 0; k < files.gl_pathc; k++)
			(void)find_quota_in(files.gl_pathv[k], value);
		globfree(&files);
	}
	if (database->workload.kind == WORKLOAD_UNIT)
		(void)systemd_starts_with(host, database->workload.name, QUOTA "=", value, 32);
	if (process_read(host->root, database->pid, "cmdline", &words, &len) == 0) {
		for (size_t i = 0; i < len; i++)
			words[i] = words[i] == '\0' ? '\n' : words[i];
		find_quota(words, value);
	}
}

/* A process can misreport its own database only. INT64_MAX: no quota, or an unknown one. */
static uint64_t read_quota(const struct host *host, const struct node_database *database)
{
	static const char variable[] = "ETCD_QUOTA_BACKEND_BYTES=";
	_cleanup_free_ char *text = NULL;
	char value[32] = "", file[PATH_MAX], full[PATH_MAX];
	pid_t pid = database->pid;
	long long quota;
	size_t len = 0;

	if (streq(database->process, "k3s-server")) {
		read_k3s_quota(host, database, value);
	} else if (process_option(host->root, pid, "config-file", false, file, sizeof(file)) == 1) {
		/* etcd then has no other options. The directories are root's: their files are safe
		 * to read. The etcd of RKE2 is a pod, and its directory the host's. */
		if (strstr(file, "/../") ||
			!starts_with(file, is_of_host(database) ? "/etc/" : "/var/lib/rancher/") ||
			!find_quota_in(host_path(host, file, full), value))
			return INT64_MAX;
	} else if (process_option(host->root, pid, QUOTA, false, value, sizeof(value)) != 1 &&
		   process_read(host->root, pid, "environ", &text, &len) == 0) {
		/* The environment of another user's process needs privileges that a pod lacks. */
		for (const char *word = text; word < text + len; word += strlen(word) + 1)
			if (starts_with(word, variable))
				(void)set_text(value, word + strlen(variable));
	}
	quota = strtoll(value, NULL, 10);
	return quota < 0 ? INT64_MAX : quota == 0 ? DATABASE_QUOTA : (uint64_t)quota;
}

/* etcd counts the pages in use: up to 16 MiB less than the file. */
int limits_sample_databases(const struct limit_source *source, struct limit_reading *reading)
{
	reading->upper_bound = true;
	for (unsigned i = 0; i < source->disks->n_databases; i++) {
		const struct node_database *database = &source->disks->databases[i];
		uint64_t max = read_quota(source->host, database);
		struct limit_user user = {
			.workload = database->workload, .used = database->bytes, .max = max};

		if (max == INT64_MAX ||
			!process_is_named(source->host->root, database->pid, database->process))
			continue;
		snprintf(user.detail, sizeof(user.detail), "process %d (%s)", database->pid,
			database->process);
		if (reading->n_top < LIMIT_TOP_MAX)
			*limit_add_user(reading) = user;
		if (!keep_fuller(reading, database->bytes, max))
			continue;
		reading->top[reading->n_top - 1] = reading->top[0];
		reading->top[0] = user;
	}
	return reading->n_top > 0 ? 0 : -ENOENT;
}

/* ---- bridges ---- */

int limits_sample_bridges(const struct limit_source *source, struct limit_reading *reading)
{
	char full[PATH_MAX], ports[PATH_MAX + NAME_MAX + 16];
	_cleanup_(cleanup_closedir) DIR *devices =
		opendir(host_path(source->host, "/sys/class/net", full));
	const struct dirent *entry;

	reading->max = BRIDGE_PORTS_MAX;
	while (devices && (entry = readdir(devices))) {
		int n;

		snprintf(ports, sizeof(ports), "%s/%s/brif", full, entry->d_name);
		n = entry->d_name[0] == '.' ? -1 : count_files(ports);
		if (n < 0)
			continue;
		reading->used = MAX(reading->used, (uint64_t)n);
		add_user(reading, (uint64_t)n, entry->d_name);
	}
	return reading->n_top > 0 ? 0 : -ENOENT;
}

/* ---- addresses of host-local ---- */

/* Parses an IPv4 address to a number; false for IPv6, whose ranges never fill. */
static bool parse_address(const char *text, uint32_t *address)
{
	struct in_addr in;

	if (inet_pton(AF_INET, text, &in) != 1)
		return false;
	*address = ntohl(in.s_addr);
	return true;
}

/* Counts the addresses of a range without the network, the broadcast address and the gateway. */
static uint64_t count_range(const char *subnet, const cJSON *range)
{
	char text[INET_ADDRSTRLEN];
	const char *slash = strchr(subnet, '/');
	uint32_t base, first, last, gateway;
	int bits = slash ? atoi(slash + 1) : 0;

	snprintf(text, sizeof(text), "%.*s", (int)(slash ? slash - subnet : 0), subnet);
	if (!parse_address(text, &base) || bits < 8 || bits > 30)
		return 0;
	base &= ~UINT32_C(0) << (32 - bits);
	first = gateway = base + 1;
	last = base + (UINT32_C(1) << (32 - bits)) - 2;
	(void)parse_address(json_text_at(range, "rangeStart"), &first);
	(void)parse_address(json_text_at(range, "rangeEnd"), &last);
	(void)parse_address(json_text_at(range, "gateway"), &gateway);
	return last < first ? 0 : last - first + 1 - (gateway >= first && gateway <= last);
}

static uint64_t count_ranges(const cJSON *ipam)
{
	const cJSON *set, *range;
	uint64_t n = count_range(json_text_at(ipam, "subnet"), ipam);

	cJSON_ArrayForEach (set, json_at(ipam, "ranges"))
		cJSON_ArrayForEach (range, set)
			n += count_range(json_text_at(range, "subnet"), range);
	return n;
}

/* Returns the size of a network in a configuration of CNI; 0 if it is not that network's. */
static uint64_t size_in_file(const char *path, const char *network)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_(cleanup_cJSON_Delete) cJSON *root = NULL;
	const cJSON *plugin;
	uint64_t n = 0;

	if (read_file(path, 256 * 1024, &text, NULL) == 0)
		root = cJSON_Parse(text);
	if (!root || !streq(json_text_at(root, "name"), network))
		return 0;
	if (streq(json_text_at(root, "ipam/type"), "host-local"))
		n = count_ranges(json_at(root, "ipam"));
	cJSON_ArrayForEach (plugin, json_at(root, "plugins"))
		if (streq(json_text_at(plugin, "ipam/type"), "host-local"))
			n += count_ranges(json_at(plugin, "ipam"));
	return n;
}

/* Flannel's range is not in the configuration: it hands it over with each container. */
static uint64_t size_of_flannel(const struct host *host)
{
	_cleanup_free_ char *text = NULL;
	char subnet[64];
	const char *line = NULL;

	if (host_read_file(host, "/run/flannel/subnet.env", 4096, &text) == 0)
		line = strstr(text, "FLANNEL_SUBNET=");
	return line && sscanf(line, "FLANNEL_SUBNET=%63s", subnet) == 1 ? count_range(subnet, NULL)
									: 0;
}

static uint64_t size_of_network(const struct host *host, const char *network)
{
	static const char *const directories[] = {
		CNI_FILES, ("/var/lib/rancher/k3s/agent" CNI_FILES), "/etc/cni/multus/net.d"};
	uint64_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(directories) && n == 0; i++) {
		char full[PATH_MAX], path[PATH_MAX + NAME_MAX + 2];
		_cleanup_(cleanup_closedir) DIR *directory =
			opendir(host_path(host, directories[i], full));
		const struct dirent *entry;

		while (n == 0 && directory && (entry = readdir(directory))) {
			snprintf(path, sizeof(path), "%s/%s", full, entry->d_name);
			n = size_in_file(path, network);
		}
	}
	return n > 0 ? n : size_of_flannel(host);
}

static uint64_t count_addresses(const char *path)
{
	_cleanup_(cleanup_closedir) DIR *directory = opendir(path);
	const struct dirent *entry;
	uint32_t address;
	uint64_t n = 0;

	while (directory && (entry = readdir(directory)))
		n += parse_address(entry->d_name, &address);
	return n;
}

int limits_sample_addresses(const struct limit_source *source, struct limit_reading *reading)
{
	char full[PATH_MAX], path[PATH_MAX + NAME_MAX + 2];
	_cleanup_(cleanup_closedir) DIR *networks =
		opendir(host_path(source->host, NETWORKS, full));
	const struct dirent *entry;
	int r = networks ? -ENOENT : -errno;

	while (networks && (entry = readdir(networks))) {
		uint64_t used, max;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", full, entry->d_name);
		used = count_addresses(path);
		max = used > 0 ? size_of_network(source->host, entry->d_name) : 0;
		if (max == 0)
			continue;
		add_user(reading, used, entry->d_name);
		keep_fuller(reading, used, max);
		r = 0;
	}
	return r;
}

/* ---- allowances of network interfaces ---- */

static int ethtool(int fd, struct ifreq *request, void *data)
{
	request->ifr_data = data;
	return ioctl(fd, SIOCETHTOOL, request) < 0 ? -errno : 0;
}

static int add_counter(int fd, const char *device, const char *counter, uint64_t *hits)
{
	struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};
	_cleanup_free_ struct ethtool_gstrings *names = NULL;
	_cleanup_free_ struct ethtool_stats *stats = NULL;
	struct ifreq request = {0};
	int r;

	set_text(request.ifr_name, device);
	r = ethtool(fd, &request, &info);
	if (r < 0)
		return r;
	names = must(calloc(1, sizeof(*names) + (size_t)info.n_stats * ETH_GSTRING_LEN));
	stats = must(calloc(1, sizeof(*stats) + info.n_stats * sizeof(stats->data[0])));
	names->cmd = ETHTOOL_GSTRINGS;
	names->string_set = ETH_SS_STATS;
	stats->cmd = ETHTOOL_GSTATS;
	names->len = stats->n_stats = info.n_stats;
	r = ethtool(fd, &request, names);
	if (r == 0)
		r = ethtool(fd, &request, stats);
	for (uint32_t i = 0; r == 0 && i < MIN(info.n_stats, stats->n_stats); i++)
		if (strncmp((char *)names->data + (size_t)i * ETH_GSTRING_LEN, counter,
			    ETH_GSTRING_LEN) == 0) {
			*hits += stats->data[i];
			return 0;
		}
	return -ENOENT;
}

int limits_sample_allowance(const struct limit_source *source, struct limit_reading *reading)
{
	char full[PATH_MAX];
	glob_t devices = {0};
	_cleanup_close_ int fd = -1;
	int r = -ENOENT;

	if (glob(host_path(source->host, "/sys/bus/pci/drivers/ena/*/net/*", full), 0, NULL,
		    &devices) == 0)
		fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	for (size_t i = 0; fd >= 0 && i < devices.gl_pathc; i++) {
		const char *device = strrchr(devices.gl_pathv[i], '/') + 1;
		uint64_t hits = 0;

		if (add_counter(fd, device, source->reader->counter, &hits) < 0)
			continue;
		reading->hits += hits;
		add_user(reading, hits, device);
		r = 0;
	}
	globfree(&devices);
	return r;
}
