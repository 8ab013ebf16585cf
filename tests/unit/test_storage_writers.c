/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"
#include "test.h"

#include "tuners/storage/storage.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define NOW_US (UINT64_C(1229) * USEC_PER_SEC)
#define UID    "0f2d7ad8_91c1_4d49_a1c9_1f1d2f0000"
#define PODS   "/kubepods.slice/kubepods-pod" UID
#define SCOPE \
	"/cri-containerd-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.scope"
#define ETCD PODS "01.slice"
#define HOG  PODS "02.slice"
#define SDA  (8 << 20)

/* A node with its own cgroup2 and processes, in plain files. */
struct node {
	struct directory directory;
	struct storage_io_row ios[16];
	struct storage_sync_row sync;
	struct storage_process process;
	struct storage storage;
};

static void put(const struct node *node, const char *path, const char *text)
{
	directory_put(&node->directory, path, text);
}

static uint64_t inode_of(const struct node *node, const char *path)
{
	char full[PATH_MAX];
	struct stat st;

	snprintf(full, sizeof(full), "%s/cgroup%s", node->directory.path, path);
	assert_int_equal(stat(full, &st), 0);
	return st.st_ino;
}

/* Adds a cgroup with a process, and what it writes a second. */
static void add_cgroup(struct node *node, const char *path, const char *comm, double rate)
{
	struct storage_io_row *row = &node->ios[node->storage.n_ios++];
	char file[PATH_MAX], text[64];

	snprintf(file, sizeof(file), "/cgroup%s/cgroup.procs", path);
	snprintf(text, sizeof(text), "%zu\n", 100 + node->storage.n_ios);
	put(node, file, text);
	snprintf(file, sizeof(file), "/proc/%zu/comm", 100 + node->storage.n_ios);
	snprintf(text, sizeof(text), "%s\n", comm);
	put(node, file, text);
	snprintf(file, sizeof(file), "/cgroup%.*s/io.max", (int)cgroup_workload_length(path), path);
	put(node, file, "");
	*row = (struct storage_io_row){
		.key = {inode_of(node, path), .disk = SDA}, .last_rate = rate, .queue_rate = 1};
}

static void begin(struct node *node)
{
	*node = (struct node){0};
	directory_make(&node->directory);
	put(node, "/proc/swaps", "Filename Type Size Used Priority\n");
	node->storage = (struct storage){.host = &node->directory.host,
		.facts = &node->directory.facts,
		.processes = {"etcd"},
		.sync_p99_us = 10000,
		.attributed = true,
		.ios = node->ios,
		.syncs = &node->sync,
		.n_syncs = 1,
		.read_us = NOW_US};
	node->process.disk = (struct storage_disk){.name = "sda", .below = {SDA}, .n_below = 1};
	/* It is slow, and now, too. */
	node->process.summary = (struct storage_summary){
		.syncs = 100, .p99 = 1, .now_syncs = 100, .now_took_us = STORAGE_NOW_US};
}

/* Reads the writers beside an etcd in a pod of its own, twice. */
static const struct storage_writers *read_writers(struct node *node)
{
	uint64_t wanted[ARRAY_SIZE(node->ios) + 1];
	char full[PATH_MAX];
	size_t n = 0;

	put(node, "/cgroup" ETCD SCOPE "/cgroup.procs", "99\n");
	put(node, "/proc/99/comm", "etcd\n");
	node->sync = (struct storage_sync_row){
		.key = {.cgroup = inode_of(node, ETCD SCOPE), .device = SDA, .process = "etcd"},
		.changed_us = NOW_US};
	snprintf(full, sizeof(full), "%s/cgroup", node->directory.path);
	cgroups_set_root(node->directory.facts.cgroups, CGROUP_UNIFIED,
		open(full, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	for (size_t i = 0; i < node->storage.n_ios; i++)
		wanted[n++] = cgroup_key(CGROUP_BLKIO, node->ios[i].key.cgroup);
	wanted[n++] = cgroup_key(CGROUP_UNIFIED, node->sync.key.cgroup);
	cgroups_learn(node->directory.facts.cgroups, wanted, n, NOW_US);
	storage_writers_read(&node->storage, &node->sync, &node->process, NOW_US);
	assert_non_null(node->sync.writers);
	return node->sync.writers;
}

static void end(struct node *node)
{
	free(node->sync.writers);
	directory_remove(&node->directory);
}

#define WRITERS_TEST(name) TEST_OF(node, node, begin, end, name)

WRITERS_TEST(all_above_a_tenth_of_the_bytes_are_listed_by_workload)
{
	const struct storage_writers *writers;

	add_cgroup(node, "/system.slice/backup.service", "dd", 50e6);
	add_cgroup(node, HOG SCOPE, "runner", 30e6);
	add_cgroup(node, "/system.slice/log.service", "rsyslogd", 5e6);
	writers = read_writers(node);
	assert_int_equal(writers->n, 2);
	assert_string_equal(writers->list[0].path, "/system.slice/backup.service");
	assert_true(writers->list[0].is_unit);
	assert_int_equal(writers->list[0].held, HELD_NOT);
	/* A pod by its slice, with all its containers. */
	assert_string_equal(writers->list[1].path, HOG);
	assert_false(writers->list[1].is_unit);
	assert_int_equal(writers->list[1].held, HELD_NOT);
}

WRITERS_TEST(what_the_node_needs_is_held)
{
	static const struct {
		const char *path, *comm;
		enum storage_held held;
	} rows[] = {
		{"/system.slice/kubelet.service", "kubelet", HELD_ESSENTIAL},
		{"/system.slice/my-runtime.service", "containerd", HELD_ESSENTIAL},
		{"/user.slice/user-0.slice/session-3.scope", "sshd", HELD_ESSENTIAL},
		{"/system.slice/systemd-journald.service", "x", HELD_ESSENTIAL},
		{"/system.slice", "x", HELD_ESSENTIAL},
		{PODS "03.slice" SCOPE, "kube-apiserver", HELD_ESSENTIAL},
		/* A runtime in a pod, as CI runners have it, is not the node's. */
		{PODS "04.slice" SCOPE, "dockerd", HELD_NOT},
		{ETCD SCOPE, "sh", HELD_OWN},
	};
	const struct storage_writers *writers;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		add_cgroup(node, rows[i].path, rows[i].comm, 10e6);
	writers = read_writers(node);
	assert_int_equal(writers->n, ARRAY_SIZE(rows));
	for (size_t i = 0; i < writers->n; i++) {
		const struct storage_writer *writer = &writers->list[i];
		size_t k = 0;

		while (strncmp(rows[k].path, writer->path, strlen(writer->path)) != 0 ||
			strlen(writer->path) != cgroup_workload_length(rows[k].path))
			k++;
		if (writer->held != rows[k].held)
			fail_msg("%s is held by %d", writer->path, writer->held);
	}
}

WRITERS_TEST(limits_backlog_and_the_size_of_writes_are_those_of_the_cgroup)
{
	const struct storage_writers *writers;

	add_cgroup(node, HOG SCOPE, "runner", 30e6);
	put(node, "/cgroup" HOG "/memory.stat",
		"anon 5\nfile_dirty 7000000\nfile_writeback 500000\n");
	put(node, "/cgroup" HOG "/io.stat",
		"8:0 rbytes=9 wbytes=1000000 rios=9 wios=100 dbytes=0 dios=0\n");
	put(node, "/cgroup" HOG "/io.max", "8:16 rbps=max wbps=9 riops=max wiops=max\n");
	writers = read_writers(node);
	assert_int_equal(writers->list[0].backlog, 7500000);
	assert_int_equal(writers->list[0].limit, 0); /* that of another disk */
	assert_true(writers->list[0].size == 0);
	put(node, "/cgroup" HOG "/io.stat",
		"8:16 rbytes=9 wbytes=5 rios=9 wios=5\n8:0 rbytes=9 wbytes=7000000 rios=9 wios=200\n");
	put(node, "/cgroup" HOG "/io.max", "8:0 rbps=1 wbps=26000000 riops=max wiops=max\n");
	storage_writers_read(
		&node->storage, &node->sync, &node->process, NOW_US + 2 * USEC_PER_SEC);
	assert_true(writers->list[0].size == 60000);
	assert_int_equal(writers->list[0].limit, 26000000);
	/* Its first rate stays while the process is slow. */
	node->ios[0].last_rate = 10e6;
	storage_writers_read(
		&node->storage, &node->sync, &node->process, NOW_US + 9 * USEC_PER_SEC);
	assert_true(writers->list[0].rate == 10e6 && writers->list[0].first == 30e6);
	node->process.summary = (struct storage_summary){.syncs = 100};
	storage_writers_read(
		&node->storage, &node->sync, &node->process, NOW_US + 20 * USEC_PER_SEC);
	assert_null(node->sync.writers);
	assert_true(node->ios[0].first_rate == 0);
}

WRITERS_TEST(swap_on_the_disk_is_seen)
{
	char link[64];
	struct stat st;

	put(node, "/swap", "");
	put(node, "/proc/swaps", "Filename Type Size Used Priority\n/swap file 1 0 -2\n");
	put(node, "/sys/devices/sda/dev", "8:0\n");
	assert_int_equal(stat(directory_at(&node->directory, "/swap").text, &st), 0);
	assert_int_equal(
		make_directories(directory_at(&node->directory, "/sys/dev/block").text, 0700), 0);
	snprintf(link, sizeof(link), "/sys/dev/block/%u:%u", major(st.st_dev), minor(st.st_dev));
	directory_link(&node->directory, link, "../../devices/sda");
	add_cgroup(node, HOG SCOPE, "runner", 30e6);
	assert_true(read_writers(node)->has_swap);
}

WRITERS_TEST(a_listed_process_without_a_path_frees_nobody)
{
	add_cgroup(node, HOG SCOPE, "runner", 30e6);
	(void)read_writers(node);
	node->sync.key.cgroup = 1000000007;
	storage_writers_read(
		&node->storage, &node->sync, &node->process, NOW_US + 9 * USEC_PER_SEC);
	assert_int_equal(node->sync.writers->list[0].held, HELD_OWN);
}
