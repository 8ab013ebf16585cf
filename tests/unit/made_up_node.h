/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_MADE_UP_NODE_H
#define TESTS_UNIT_MADE_UP_NODE_H

/*
 * A node in a directory, with a state directory and a configuration beside it. Plain files keep
 * what a shorter value does not overwrite, so all values of one setting are equally long here.
 */

#include "directory.h"

#include "agent/core.h"

struct made_up_file {
	const char *path, *text;
};

#define NEIGH(family) "/proc/sys/net/" family "/neigh/default/gc_thresh"

static const struct made_up_file made_up_files[] = {
	{"/proc/sys/kernel/random/boot_id", "5e0b9f3c-1d5c-4f7e-9a55-000000000001\n"},
	{"/proc/sys/vm/max_map_count", "100000\n"},
	{"/proc/sys/net/ipv4/tcp_rmem", "4096 131072 6291456\n"},
	{NEIGH("ipv4") "1", "10000\n"},
	{NEIGH("ipv4") "2", "20000\n"},
	{NEIGH("ipv4") "3", "30000\n"},
	{NEIGH("ipv6") "1", "10000\n"},
	{NEIGH("ipv6") "2", "20000\n"},
	{NEIGH("ipv6") "3", "30000\n"},
	{"/proc/net/stat/arp_cache", "entries allocs forced_gc_runs table_fulls\n5 6 0 0\n"},
	{"/proc/net/stat/ndisc_cache", "entries allocs forced_gc_runs table_fulls\n5 6 0 0\n"},
	{"/proc/meminfo", "MemTotal: 8 kB\nAnonHugePages: 0 kB\nShmemHugePages: 0 kB\n"},
	{"/proc/cmdline", "ro quiet\n"},
	{"/sys/kernel/mm/transparent_hugepage/defrag", "defer\n"},
	{"/sys/kernel/mm/transparent_hugepage/khugepaged/defrag", "1\n"},
};

#define MADE_UP_COMMON \
	"profile: minimal\nthp: {enabled: keep, defrag: never, shmem: keep, sizes: keep}\n"

/* Two configurations that want something else of everything. */
static const char made_up_a[] = MADE_UP_COMMON
	"neighbor:\n"
	"  ipv4: {gc_thresh1: 40000, gc_thresh2: 50000, gc_thresh3: 60000}\n"
	"  ipv6: {gc_thresh1: 40000, gc_thresh2: 50000, gc_thresh3: 60000}\n"
	"sysctl: {vm.max_map_count: 262144, net.ipv4.tcp_rmem: \"4096 262144 6291456\"}\n";
static const char made_up_b[] = MADE_UP_COMMON
	"neighbor:\n"
	"  lower: true\n"
	"  ipv4: {gc_thresh1: 70000, gc_thresh2: 80000, gc_thresh3: 90000}\n"
	"  ipv6: {gc_thresh1: 10001, gc_thresh2: 10002, gc_thresh3: 10003}\n"
	"sysctl: {vm.max_map_count: 524288, net.ipv4.tcp_rmem: \"8192 131072 6291456\"}\n";

struct made_up_node {
	struct directory directory;
	char root[PATH_MAX], config[PATH_MAX];
};

static inline size_t plan_failures(const struct plan *plan)
{
	size_t n = 0;

	for (size_t i = 0; i < plan->n; i++)
		n += plan->changes[i].error < 0;
	return n;
}

static inline void made_up_node_make(struct made_up_node *node)
{
	char path[PATH_MAX];

	directory_make(&node->directory);
	directory_path(&node->directory, "/root", node->root);
	directory_path(&node->directory, "/config.yaml", node->config);
	for (size_t i = 0; i < ARRAY_SIZE(made_up_files); i++) {
		snprintf(path, sizeof(path), "/root%s", made_up_files[i].path);
		directory_put(&node->directory, path, made_up_files[i].text);
	}
	directory_path(&node->directory, "/state", path);
	assert_int_equal(setenv("HEADROOM_STATE_DIR", path, 1), 0);
	directory_path(&node->directory, "/run", path);
	assert_int_equal(setenv("HEADROOM_RUNTIME_DIR", path, 1), 0);
}

static inline void made_up_node_remove(struct made_up_node *node)
{
	directory_remove(&node->directory);
}

#define NODE_TEST(name) TEST_OF(made_up_node, node, made_up_node_make, made_up_node_remove, name)

static inline void made_up_node_config(const struct made_up_node *node, const char *text)
{
	directory_put(&node->directory, "/config.yaml", text);
}

/* The file of the made-up node is as it was in the beginning. */
static inline bool made_up_file_is_original(const struct made_up_node *node, size_t i)
{
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "/root%s", made_up_files[i].path);
	text = directory_get(&node->directory, path);
	return text && streq(text, made_up_files[i].text);
}

static inline void assert_node_file(
	const struct made_up_node *node, const char *name, const char *expected)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "/root%s", name);
	assert_file(&node->directory, path, expected);
}

/* What `headroom apply` and `headroom restore` do, in this process; false when it went wrong. */
static inline bool made_up_node_open(const struct made_up_node *node, struct core *core)
{
	struct core_options options = {.config_file = node->config, .host_root = node->root};
	struct config_source source = core_source(node->config);
	struct config_fault_list faults = {0};
	struct config *config = NULL;
	char holder[64];
	int r = core_load_config(&source, &config, &faults, NULL);

	for (size_t i = 0; i < faults.n; i++)
		fprintf(stderr, "%s\n", faults.faults[i].message);
	config_faults_clear(&faults);
	*core = (struct core){0};
	return r == 0 && core_open(core, &options, config) == 0 &&
	       core_become_writer(core, "test", holder, sizeof(holder)) == 0;
}

/* Applies what was polled, files too. What was done, and how much of it failed. */
static inline void made_up_node_apply(struct core *core, enum file_task task, struct plan *done)
{
	const struct wait wait = {.deadline_us = UINT64_MAX, .cancel_fd = -1};
	struct file_job *job;

	if (task == FILE_RESTORE)
		assert_int_equal(core_restore_values(core, NULL, done), 0);
	else
		core_apply_values(core, done);
	job = core_file_job(core, task, NULL, task == FILE_APPLY);
	assert_non_null(job);
	file_transaction(job, &wait);
	assert_int_equal(core_take_files(core, job, done), 0);
}

#endif
