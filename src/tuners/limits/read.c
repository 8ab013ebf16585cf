/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the limits whose numbers the kernel or a file shows. The parts, in order: numbers in files,
 * by a row's used, max and hits; the other limits that never block; the limits that a task
 * samples, because reading them may block: file systems, bridges, allowances of network
 * interfaces. Nothing here counts processes or open files: census.c does. etcd.c reads databases,
 * addresses.c addresses of pods.
 */
#include "tuners/limits/limits.h"

#include "base/file.h"
#include "base/text.h"
#include "kernel/host.h"
#include "runtime/driver.h"
#include "workload/process.h"

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

int limits_find_number(const char *text, const char *line, const char *name, uint64_t *number)
{
	return find_by_name(
		text, &(const struct number_in_file){.line = line, .name = name}, number);
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

/* Packets of new connections that the kernel dropped because another had the same addresses. */
int limits_read_races(const struct limit_source *source, struct limit_reading *reading)
{
	_cleanup_free_ char *text = NULL;
	int r = host_read_file(source->host, "/proc/net/stat/nf_conntrack", FILE_SIZE_MAX, &text);

	if (r == 0)
		reading->hits = limits_sum_column(text, "insert_failed");
	return r;
}

/* The cure needs the three numbers of the maximum, which are pages. */
int limits_read_socket_memory(const struct limit_source *source, struct limit_reading *reading)
{
	static const struct limit_row tcp = {.used = {"/proc/net/sockstat", 0, "TCP:", "mem"},
		.max = {"/proc/sys/net/ipv4/tcp_mem", 3},
		.hits = {"/proc/net/netstat", 0, "TcpExt:", "TCPMemoryPressures"}};
	static const struct limit_row udp = {.used = {"/proc/net/sockstat", 0, "UDP:", "mem"},
		.max = {"/proc/sys/net/ipv4/udp_mem", 3},
		.hits = {"/proc/net/snmp", 0, "Udp:", "MemErrors"}};
	const struct limit_row *row = source->reader->is_udp ? &udp : &tcp;
	struct limit_instance instance = {.instance.kind = INSTANCE_NODE};
	char value[SETTING_VALUE_MAX];
	int r = limits_read_numbers(source->host, row, reading);

	if (r == 0)
		r = host_read_value(source->host, row->max.path, value);
	if (r < 0)
		return r;
	instance.used = reading->used;
	instance.max = reading->max;
	instance.hits = reading->hits;
	instance.cure = must(strdup(value));
	limit_instance_add(source->instances, &instance);
	return 0;
}

/* Keeps the use with the largest share of its maximum. Returns whether it is this one. */
bool limit_keep_fuller(struct limit_reading *reading, uint64_t used, uint64_t max)
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
	limit_keep_fuller(reading, pods.used, pods.max);
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
	limit_keep_fuller(reading, node.used, node.max);
	limit_instance_add(source->instances, &node);
	add_kubepods(source, reading);
	return 0;
}

/*
 * A removed cgroup has given its id back, although the kernel may keep it for its cached memory.
 * /proc/cgroups, the only count of cgroup v1, does not tell such ones apart: no row there.
 */
int limits_read_memory_cgroups(const struct limit_source *source, struct limit_reading *reading)
{
	/* Before Linux 6.12 only the cgroups of all controllers are counted. */
	static const char *const names[] = {"nr_subsys_memory", "nr_descendants"};
	_cleanup_free_ char *text = NULL;
	unsigned hierarchy = 0;
	const char *line;
	int r = host_read_file(source->host, "/proc/cgroups", FILE_SIZE_MAX, &text);

	line = r == 0 ? strstr(text, "\nmemory\t") : NULL;
	if (line && sscanf(line, " memory %u", &hierarchy) == 1 && hierarchy > 0)
		return -ENOENT;
	reading->max = MEMORY_CGROUPS_MAX;
	r = -EBADMSG;
	for (size_t i = 0; i < ARRAY_SIZE(names) && r == -EBADMSG; i++) {
		r = read_number(source->host,
			&(struct number_in_file){
				"/sys/fs/cgroup/cgroup.stat", 0, names[i], names[i]},
			&reading->used);
		reading->upper_bound = i > 0;
	}
	return r;
}

int limits_read_ptys(const struct limit_source *source, struct limit_reading *reading)
{
	struct limit_instance instance = {.instance.kind = INSTANCE_NODE};
	uint64_t reserve = 0;
	int r = read_value(source->host, "/proc/sys/kernel/pty/nr", &reading->used);

	if (r == 0)
		r = read_value(source->host, "/proc/sys/kernel/pty/max", &reading->max);
	if (r == 0)
		r = read_value(source->host, "/proc/sys/kernel/pty/reserve", &reserve);
	if (r < 0)
		return r;
	instance.sysctl_value = reading->max;
	reading->max -= MIN(reserve, reading->max);
	instance.used = reading->used;
	instance.max = reading->max;
	limit_instance_add(source->instances, &instance);
	return 0;
}

/* A user's keys count for itself. Users without processes may have some. */
static void add_keys(const struct limit_source *source, unsigned uid, const struct limit_user *user)
{
	struct limit_instance instance = {.instance = {.kind = INSTANCE_UID, .id = uid},
		.used = user->used,
		.max = user->max};

	if (uid == 0)
		instance.sysctl = source->reader->key_bytes ? "kernel.keys.root_maxbytes"
							    : "kernel.keys.root_maxkeys";
	set_text(instance.instance.name, user->workload.name);
	*limit_instance_user(&instance) = *user;
	limit_instance_add(source->instances, &instance);
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
		user.used = source->reader->key_bytes ? used : keys;
		user.max = source->reader->key_bytes ? max : keys_max;
		limit_keep_fuller(reading, user.used, user.max);
		snprintf(user.workload.name, sizeof(user.workload.name), "%u", uid);
		limit_keep_user(reading, &user);
		add_keys(source, uid, &user);
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

static void add_device(const struct limit_source *source, const char *name, uint64_t used,
	uint64_t max, uint64_t hits)
{
	struct limit_instance instance = {
		.instance.kind = INSTANCE_DEVICE, .used = used, .max = max, .hits = hits};

	set_text(instance.instance.name, name);
	limit_instance_add(source->instances, &instance);
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

static bool has_device(const dev_t *devices, unsigned n, dev_t device)
{
	while (n > 0 && devices[n - 1] != device)
		n--;
	return n > 0;
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

/*
 * Returns whether nobody can write to the file system, such as squashfs or an image. Writes to a
 * mount may be forbidden where the file system is not read-only: the host's in a pod.
 */
static bool is_read_only(const struct host *host, const struct statvfs *fs, dev_t device)
{
	_cleanup_(cleanup_fclose) FILE *mounts = NULL;
	_cleanup_free_ struct mount *mount = NULL;

	if (!(fs->f_flag & ST_RDONLY))
		return false;
	mounts = mounts_open(host->root);
	mount = must(malloc(sizeof(*mount)));
	while (mounts_next(mounts, mount))
		if (mount->device == device)
			return mount->is_read_only;
	return false;
}

/* Returns whether the kubelet will delete images before the file system is full. */
static bool is_collected(const struct limit_source *source, const struct statvfs *fs)
{
	unsigned high = source->disks->images_gc_high;

	return source->reader->filesystem == LIMITS_IMAGES && !source->reader->inodes &&
	       high < 100 && fs->f_blocks > 0 && 100 - fs->f_bavail * 100 / fs->f_blocks < high;
}

/* Returns the command that deletes unused images from the file system; NULL: none is known. */
static char *prune_command(const struct limit_source *source, const char *path, dev_t device)
{
	/* The path tells where no runtime does. Other runtimes have crictl. */
	static const struct {
		const char *runtime, *path, *program;
	} rows[] = {
		{"docker", "/var/lib/docker", "docker"},
		{"docker-containerd", NULL, "docker"},
		{"podman", "/var/lib/containers/storage", "podman"},
	};
	const struct node_images *images = NULL;
	const char *program = "crictl";
	char *command, client[RUNTIME_CLIENT_MAX];

	if (source->reader->filesystem != LIMITS_IMAGES)
		return NULL;
	for (unsigned i = 0; i < source->disks->n_images; i++)
		if (source->disks->images[i].device == device && source->disks->images[i].runtime)
			images = &source->disks->images[i];
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (images ? streq(images->runtime, rows[i].runtime)
			   : rows[i].path && streq(path, rows[i].path))
			program = rows[i].program;
	if (!runtime_client(source->host, program, images ? images->socket : "", client))
		return NULL;
	must_do(asprintf(&command, "%s %s", client,
			streq(program, "crictl") ? "rmi --prune" : "image prune -af") >= 0);
	return command;
}

static void add_filesystem(const struct limit_source *source, const struct limit_reading *reading,
	const char *path, const struct statvfs *fs, dev_t device)
{
	struct limit_instance instance = {.instance = {.kind = INSTANCE_FILESYSTEM, .id = device},
		.used = reading->used,
		.max = reading->max};

	if (is_collected(source, fs))
		return;
	set_text(instance.instance.name, path);
	instance.cure = prune_command(source, path, device);
	limit_instance_add(source->instances, &instance);
}

/* Reads the fullest file system of the row. */
int limits_sample_filesystem(const struct limit_source *source, struct limit_reading *reading)
{
	const char *paths[PATHS_MAX], *fullest = NULL;
	unsigned n = list_paths(source->disks, source->reader->filesystem, paths), n_devices = 0;
	dev_t devices[PATHS_MAX];
	int error = -ENOENT;

	for (unsigned i = 0; i < n; i++) {
		struct limit_reading use = {0};
		char full[PATH_MAX];
		struct statvfs fs;
		struct stat st;

		if (stat(host_path(source->host, paths[i], full), &st) < 0 ||
			statvfs(full, &fs) < 0) {
			error = -errno;
			continue;
		}
		if (has_device(devices, n_devices, st.st_dev) ||
			is_shown_above(source, st.st_dev) ||
			is_read_only(source->host, &fs, st.st_dev))
			continue;
		devices[n_devices++] = st.st_dev;
		use.used = (fs.f_blocks - fs.f_bfree) * fs.f_frsize;
		use.max = use.used + fs.f_bavail * fs.f_frsize;
		if (source->reader->inodes) {
			use.used = fs.f_files - fs.f_ffree;
			use.max = fs.f_files; /* 0 on btrfs, which makes them as needed */
		}
		if (use.max == 0)
			continue;
		add_filesystem(source, &use, paths[i], &fs, st.st_dev);
		if (limit_keep_fuller(reading, use.used, use.max))
			fullest = paths[i];
	}
	if (fullest && n > 1)
		add_user(reading, reading->used, fullest);
	return fullest ? 0 : error;
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
		add_device(source, entry->d_name, (uint64_t)n, BRIDGE_PORTS_MAX, 0);
	}
	return reading->n_top > 0 ? 0 : -ENOENT;
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
		add_device(source, device, 0, 0, hits);
		r = 0;
	}
	globfree(&devices);
	return r;
}
