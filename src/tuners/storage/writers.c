/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the workloads that write to the disk of a slow process, and what could limit them: the
 * facts for the advice of decide.c. The parts, in order: files of cgroups; cgroups that no advice
 * names, because the node needs them; swap; the list of writers. It reads only, and only while a
 * process is slow.
 */
#include "tuners/storage/storage.h"

#include "base/file.h"
#include "base/text.h"
#include "workload/process.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <sys/sysmacros.h>

/* The interval of this reading. The limits in force are read at each poll. */
#define WRITERS_US (5 * USEC_PER_SEC)
#define SECOND_US  USEC_PER_SEC /* after the first: the size of a write needs two */

/* Workloads that write less are not compared; those above STORAGE_MUCH are listed. */
#define SOME 0.01

/* Processes of a cgroup whose names are read, and its directories below: more are not judged. */
#define PROCESSES_MAX 1000
#define DEPTH_MAX     6

/* ---- files of cgroups ---- */

/* Reads a file of a cgroup, path below the root of cgroup2. NULL: it is missing. */
static char *read_cgroup(int root, const char *path, const char *name)
{
	char full[PATH_MAX];
	char *text = NULL;

	snprintf(full, sizeof(full), "/proc/self/fd/%d%s/%s", root, path, name);
	return read_file(full, 256 * 1024, &text, NULL) == 0 ? text : NULL;
}

static void describe_number(uint32_t number, char *text, size_t size)
{
	snprintf(text, size, "%u:%u", major(STORAGE_DEVICE(number)), minor(STORAGE_DEVICE(number)));
}

/* Returns the sum of the bytes that wait to be written; 0 without the memory controller. */
static uint64_t read_backlog(int root, const char *path)
{
	_cleanup_free_ char *text = read_cgroup(root, path, "memory.stat");
	uint64_t sum = 0, number;

	for (char *rest = text, *line; rest && (line = strsep(&rest, "\n"));) {
		const char *key = strsep(&line, " ");

		if ((streq(key, "file_dirty") || streq(key, "file_writeback")) && line &&
			parse_count(line, &number) == 0)
			sum += number;
	}
	return sum;
}

/*
 * Sums up the written bytes and the writes of a cgroup to the disks, from "8:0 rbytes=1 wbytes=2
 * rios=1 wios=1 ...". These are not requests: the kernel joins small files of one into few of
 * these.
 */
static void read_writes(
	int root, const struct storage_writers *writers, struct storage_writer *writer)
{
	_cleanup_free_ char *text = read_cgroup(root, writer->path, "io.stat");

	writer->bytes = writer->writes = 0;
	for (char *rest = text, *line; rest && (line = strsep(&rest, "\n"));) {
		const char *name = strsep(&line, " "), *word;
		bool counts = false;
		uint64_t number;

		for (unsigned i = 0; i < writers->n_disks; i++) {
			char device[32];

			describe_number(writers->disks[i].number, device, sizeof(device));
			counts |= streq(name, device);
		}
		while (counts && (word = strsep(&line, " ")))
			if (starts_with(word, "wbytes=") &&
				parse_count(word + strlen("wbytes="), &number) == 0)
				writer->bytes += number;
			else if (starts_with(word, "wios=") &&
				 parse_count(word + strlen("wios="), &number) == 0)
				writer->writes += number;
	}
}

/* Finds wbps of a device in the text of io.max, "8:0 rbps=max wbps=1000 ...". 0: no limit. */
static uint64_t find_limit(const char *text, uint32_t disk)
{
	_cleanup_free_ char *copy = must(strdup(text));
	char device[32];
	uint64_t limit = 0;

	describe_number(disk, device, sizeof(device));
	for (char *rest = copy, *line; (line = strsep(&rest, "\n"));) {
		const char *name = strsep(&line, " "), *word;

		while (streq(name, device) && (word = strsep(&line, " ")))
			if (starts_with(word, "wbps="))
				(void)parse_count(word + strlen("wbps="), &limit);
	}
	return limit;
}

/* Reads the limit in force on all the disks. False: the kernel does not take one here. */
static bool read_limit(
	int root, const struct storage_writers *writers, struct storage_writer *writer)
{
	_cleanup_free_ char *text = read_cgroup(root, writer->path, "io.max");

	writer->limit = 0;
	for (unsigned i = 0; text && i < writers->n_disks; i++) {
		uint64_t limit = find_limit(text, writers->disks[i].number);

		/* A disk without a limit takes all that the others refuse. */
		if (limit == 0) {
			writer->limit = 0;
			break;
		}
		writer->limit = MAX(writer->limit, limit);
	}
	return text != NULL;
}

/* ---- what the node needs ---- */

static const char *const essential_units[] = {"kubelet*.service", "containerd*.service",
	"docker.service", "dockerd*.service", "crio*.service", "cri-*.service", "k3s*.service",
	"rke2*.service", "k0s*.service", "snap.microk8s.*", "snap.k8s.*", "snap.lxd.*",
	"snap.docker.*", "lxd*.service", "ssh.service", "ssh@*.service", "sshd*.service",
	"init.scope", "systemd-*.service", "dbus*.service", "headroom.service", NULL};

/* Processes of the node. The second list holds in pods and containers. */
static const char *const essential_processes[] = {"kubelet", "kubelite", "containerd", "dockerd",
	"crio", "k3s*", "rke2*", "k0s*", "kube-apiserver*", "sshd*", "systemd*", "lxd", "headroom",
	NULL};
static const char *const essential_contained[] = {"kubelet", "kubelite", "kube-apiserver*", NULL};

static bool matches(const char *const *patterns, const char *name)
{
	while (*patterns && fnmatch(*patterns, name, 0) != 0)
		patterns++;
	return *patterns;
}

static bool is_listed(const struct storage *storage, const char *name)
{
	for (size_t i = 0; i < STORAGE_PROCESSES_MAX && storage->processes[i][0]; i++)
		if (streq(storage->processes[i], name))
			return true;
	return false;
}

/* Returns whether a process of the cgroup is essential, or too many are there to tell. */
static bool has_process(const struct storage *storage, int directory, const char *const *names,
	unsigned depth, unsigned *left)
{
	_cleanup_free_ char *text = read_cgroup(directory, "", "cgroup.procs");
	int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_(cleanup_closedir) DIR *below = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	uint64_t pid;
	bool found = false;

	if (!below)
		cleanup_close(&fd);
	for (char *rest = text, *line; rest && (line = strsep(&rest, "\n"));) {
		_cleanup_free_ char *comm = NULL;

		if (parse_count(line, &pid) < 0)
			continue;
		if (*left == 0)
			return true;
		*left -= 1;
		if (process_read(storage->host->root, (pid_t)pid, "comm", &comm, NULL) < 0)
			continue;
		comm[strcspn(comm, "\n")] = '\0';
		if (matches(names, comm) || is_listed(storage, comm))
			return true;
	}
	while (!found && below && (entry = readdir(below))) {
		_cleanup_close_ int child = -1;

		if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
			continue;
		if (depth == 0)
			return true;
		child = openat(directory, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		found = child >= 0 && has_process(storage, child, names, depth - 1, left);
	}
	return found;
}

/* Returns whether path is that of the cgroup, or of one above it. */
static bool is_above(const char *path, const char *cgroup)
{
	char after = starts_with(cgroup, path) ? cgroup[strlen(path)] : 'x';

	return after == '/' || after == '\0';
}

/* A cgroup whose path is not known may be below any: then nobody is free. */
static bool holds_listed(const struct storage *storage, const char *path)
{
	for (size_t i = 0; i < storage->n_syncs; i++) {
		const struct storage_sync_row *row = &storage->syncs[i];
		const char *cgroup = cgroups_path(
			storage->facts->cgroups, cgroup_key(CGROUP_UNIFIED, row->key.cgroup));

		if (!row->key.process[0] || row->key.cgroup <= CGROUP_ROOT_INODE)
			continue;
		if (cgroup ? is_above(path, cgroup)
			   : storage->read_us - row->changed_us < STORAGE_NOW_US)
			return true;
	}
	return false;
}

static enum storage_held held_of(
	const struct storage *storage, int root, const struct storage_writer *writer)
{
	const char *name = strrchr(writer->path, '/');
	bool is_unit = writer->workload.kind == WORKLOAD_UNIT;
	unsigned left = PROCESSES_MAX;
	char full[PATH_MAX];
	_cleanup_close_ int fd = -1;

	if (!name || !name[1])
		return HELD_HOST;
	if (holds_listed(storage, writer->path))
		return HELD_OWN;
	/* A slice holds other units. */
	if (is_unit && (fnmatch("*.slice", name, 0) == 0 || matches(essential_units, name + 1)))
		return HELD_ESSENTIAL;
	snprintf(full, sizeof(full), "/proc/self/fd/%d%s", root, writer->path);
	fd = open(full, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return HELD_HOST; /* it has ended */
	return has_process(storage, fd, is_unit ? essential_processes : essential_contained,
		       DEPTH_MAX, &left)
		       ? HELD_ESSENTIAL
		       : HELD_NOT;
}

/* ---- swap ---- */

/* A limited cgroup would also swap slowly, and keep the memory that others wait for. */
static bool has_swap(const struct storage *storage, const struct storage_writers *writers)
{
	_cleanup_free_ char *text = NULL;
	struct storage_disk *disk = must(calloc(1, sizeof(*disk)));
	char full[PATH_MAX];
	struct stat st;
	bool found = false;

	if (read_file(host_path(storage->host, "/proc/swaps", full), 256 * 1024, &text, NULL) < 0)
		text = NULL;
	for (char *rest = text, *line; rest && (line = strsep(&rest, "\n"));) {
		const char *path = strsep(&line, " \t");
		char place[PATH_MAX];

		if (path[0] != '/' || stat(host_path(storage->host, path, place), &st) < 0)
			continue;
		storage_disk_read(storage->host,
			STORAGE_NUMBER(S_ISBLK(st.st_mode) ? st.st_rdev : st.st_dev), "", disk);
		for (unsigned i = 0; i < disk->n_below; i++)
			for (unsigned k = 0; k < writers->n_disks; k++)
				found |= disk->below[i] == writers->disks[k].number;
	}
	free(disk);
	return found;
}

/* ---- the list ---- */

static void name_disks(const struct storage *storage, const struct storage_disk *disk,
	struct storage_writers *writers)
{
	writers->n_disks = disk->n_below;
	for (unsigned i = 0; i < disk->n_below; i++) {
		char path[64], full[PATH_MAX], link[PATH_MAX] = "";

		writers->disks[i].number = disk->below[i];
		snprintf(path, sizeof(path), "/sys/dev/block/%u:%u",
			major(STORAGE_DEVICE(disk->below[i])),
			minor(STORAGE_DEVICE(disk->below[i])));
		if (readlink(host_path(storage->host, path, full), link, sizeof(link) - 1) <= 0)
			set_text(link, disk->name);
		set_text(
			writers->disks[i].name, strrchr(link, '/') ? strrchr(link, '/') + 1 : link);
		/* In sysfs, a slash of a name is '!'. */
		for (char *p = writers->disks[i].name; *p; p++)
			*p = *p == '!' ? '/' : *p;
	}
}

static bool is_of(const struct storage_writers *writers, uint32_t number)
{
	for (unsigned i = 0; i < writers->n_disks; i++)
		if (writers->disks[i].number == number)
			return true;
	return false;
}

/* Returns the writer for a path, which it may add. NULL: there are too many. */
static struct storage_writer *writer_of(
	struct storage_writer *all, size_t *n, const char *path, size_t length)
{
	char cut[SETTING_PATH_MAX] = "";
	size_t at = 0;

	/* No command names a longer path. */
	if (length < sizeof(cut))
		copy_text(cut, length + 1, path);
	while (at < *n && !streq(all[at].path, cut))
		at++;
	if (at == STORAGE_USERS)
		return NULL;
	if (at == *n)
		set_text(all[(*n)++].path, cut);
	return &all[at];
}

static int by_bytes(const void *a, const void *b)
{
	const struct storage_writer *x = a, *y = b;

	return (x->share < y->share) - (x->share > y->share);
}

static bool is_of_systemd(const struct storage_writer *writer)
{
	const char *name = strrchr(writer->path, '/');

	return writer->workload.kind != WORKLOAD_POD && writer->workload.kind != WORKLOAD_LXD &&
	       name && (fnmatch("*.service", name, 0) == 0 || fnmatch("*.scope", name, 0) == 0) &&
	       fnmatch("*.service/*", writer->path, 0) != 0 &&
	       fnmatch("*.scope/*", writer->path, 0) != 0;
}

/* before: the list of the reading before. */
static void read_writer(const struct storage *storage, int root, struct storage_writers *writers,
	struct storage_writer *writer, const struct storage_writer *before, unsigned n_before)
{
	read_writes(root, writers, writer);
	for (unsigned i = 0; i < n_before; i++)
		if (streq(before[i].path, writer->path) && writer->writes > before[i].writes)
			writer->size = (double)(writer->bytes - before[i].bytes) /
				       (double)(writer->writes - before[i].writes);
	writer->backlog = read_backlog(root, writer->path);
	writer->is_unit = is_of_systemd(writer);
	writer->held = held_of(storage, root, writer);
	if (!read_limit(root, writers, writer) && writer->held == HELD_NOT)
		writer->held = HELD_HOST;
}

/* Adds up the cgroups of each workload, and keeps the workloads that write much. */
static void list_writers(struct storage *storage, int root, struct storage_writers *writers)
{
	struct storage_writer *all = must(calloc(STORAGE_USERS, sizeof(*all)));
	struct storage_writer before[STORAGE_WRITERS];
	unsigned n_before = writers->n;
	size_t n = 0, kept = 0;
	double sum = 0;

	memcpy(before, writers->list, sizeof(before));

	for (size_t i = 0; i < storage->n_ios; i++)
		if (is_of(writers, storage->ios[i].key.disk))
			sum += storage->ios[i].last_rate;
	for (size_t i = 0; i < storage->n_ios; i++) {
		struct storage_io_row *row = &storage->ios[i];
		uint64_t key = cgroup_key(CGROUP_BLKIO, row->key.cgroup);
		const char *path = cgroups_path(storage->facts->cgroups, key);
		struct storage_writer *writer;

		if (!is_of(writers, row->key.disk) || row->last_rate <= sum * SOME)
			continue;
		writer = writer_of(
			all, &n, path ? path : "", path ? cgroup_workload_length(path) : 0);
		if (!writer)
			continue;
		row->first_rate = row->first_rate > 0 ? row->first_rate : row->last_rate;
		writer->workload = cgroups_find(storage->facts->cgroups, key);
		writer->share += row->last_rate / sum;
		/* With several disks, the rate is that of each. */
		writer->rate += row->last_rate;
		writer->first += row->first_rate;
	}
	for (size_t i = 0; i < n; i++) {
		all[i].rate /= MAX(writers->n_disks, 1U);
		all[i].first /= MAX(writers->n_disks, 1U);
		if (all[i].share > STORAGE_MUCH)
			keep_first(writers->list, &kept, STORAGE_WRITERS, sizeof(*all), &all[i],
				by_bytes);
	}
	free(all);
	writers->n = (unsigned)kept;
	for (size_t i = 0; i < kept; i++)
		read_writer(storage, root, writers, &writers->list[i], before, n_before);
}

void storage_writers_read(struct storage *storage, struct storage_sync_row *row,
	const struct storage_process *process, uint64_t now)
{
	int root = cgroups_root(storage->facts->cgroups, CGROUP_UNIFIED);
	struct storage_writers *writers = row->writers;
	char mount[PATH_MAX];

	if (!storage_is_slow(&process->summary, storage->sync_p99_us) || root < 0 ||
		!storage->attributed || storage->is_v1 || process->disk.n_below == 0) {
		storage_writers_forget(storage, row);
		return;
	}
	if (!writers)
		writers = row->writers = must(calloc(1, sizeof(*writers)));
	/* The step stays while its limit works, and the limit is seen. */
	for (unsigned i = 0; i < writers->n; i++)
		(void)read_limit(root, writers, &writers->list[i]);
	if (!storage_is_over(&process->summary, storage->sync_p99_us) ||
		(writers->readings > 0 &&
			now - writers->at_us < (writers->readings > 1 ? WRITERS_US : SECOND_US)))
		return;
	writers->at_us = now;
	writers->readings++;
	name_disks(storage, &process->disk, writers);
	cgroup_root_path(storage->host, root, mount);
	set_text(writers->mount, mount);
	writers->has_swap = has_swap(storage, writers);
	list_writers(storage, root, writers);
}

/* The next time that the process is slow has first rates of its own. */
void storage_writers_forget(struct storage *storage, struct storage_sync_row *row)
{
	for (size_t i = 0; row->writers && i < storage->n_ios; i++)
		if (is_of(row->writers, storage->ios[i].key.disk))
			storage->ios[i].first_rate = 0;
	free(steal(row->writers));
}
