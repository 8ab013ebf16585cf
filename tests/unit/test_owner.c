/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "kernel/bpf.h"
#include "kernel/owner.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define UID "0f5c9a1e-7b3d-4c8a-9e2f-1a2b3c4d5e6f"

/* A made-up root with names in /run/netns: any file's inode does for a namespace's. */
struct node {
	struct directory directory;
	struct host host;
	struct owner_book *book;
	uint64_t now;
};

static void node_make(struct node *node)
{
	directory_make(&node->directory);
	assert_true(host_init(&node->host, node->directory.path));
	node->book = owner_book_open(&node->host);
	assert_non_null(node->book);
	node->now = 100 * USEC_PER_SEC;
}

static void node_remove(struct node *node)
{
	owner_book_close(node->book);
	directory_remove(&node->directory);
}

#define _cleanup_node_ __attribute__((cleanup(node_remove)))

static uint32_t inode_of(const char *path)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return (uint32_t)st.st_ino;
}

static uint32_t name_netns(const struct node *node, const char *name)
{
	char path[PATH_MAX], full[PATH_MAX];

	snprintf(path, sizeof(path), "/run/netns/%s", name);
	directory_put(&node->directory, path, "");
	directory_path(&node->directory, path, full);
	return inode_of(full);
}

static void learn(struct node *node, uint32_t netns, double seconds)
{
	node->now += (uint64_t)(seconds * 1e6);
	owner_book_learn(node->book, &netns, 1, node->now);
}

static void expect(
	const struct node *node, uint32_t netns, enum workload_kind kind, const char *name)
{
	struct workload workload = owner_book_find(node->book, netns);

	if (workload.kind != kind || !streq(workload.name, name))
		fail_msg("%u is %s '%s'", netns, workload_kind_name(workload.kind), workload.name);
}

static void names_of_namespaces(void **state)
{
	_cleanup_node_ struct node node;
	uint32_t blue, other = 12;
	char number[16];

	(void)state;
	node_make(&node);
	blue = name_netns(&node, "blue");
	snprintf(number, sizeof(number), "%u", blue);
	expect(&node, blue, WORKLOAD_NETNS, number); /* nobody has looked yet */
	learn(&node, blue, 0);
	expect(&node, blue, WORKLOAD_NETNS, "blue");
	assert_string_equal(owner_book_find(node.book, blue).id, number);
	learn(&node, other, 10);
	expect(&node, other, WORKLOAD_NETNS, "12");
	expect(&node, blue, WORKLOAD_NETNS, "blue");
}

/* Listing processes costs: what was sought in vain is sought again after five seconds, not before.
 */
static void what_is_unknown_is_sought_again(void **state)
{
	_cleanup_node_ struct node node;
	uint32_t blue, first = 12;

	(void)state;
	node_make(&node);
	learn(&node, first, 0);
	blue = name_netns(&node, "blue");
	learn(&node, blue, 1);
	assert_string_not_equal(owner_book_find(node.book, blue).name, "blue");
	learn(&node, blue, 3.9);
	assert_string_not_equal(owner_book_find(node.book, blue).name, "blue");
	learn(&node, blue, 0.2);
	expect(&node, blue, WORKLOAD_NETNS, "blue");
}

static void rename_netns(const struct node *node, const char *from, const char *to)
{
	char old[PATH_MAX], new[PATH_MAX];

	directory_path(&node->directory, from, old);
	directory_path(&node->directory, to, new);
	assert_int_equal(rename(old, new), 0);
}

/* A name is provisional for a minute, and then stands until it is forgotten. */
static void a_name_stands_in_the_end(void **state)
{
	_cleanup_node_ struct node node;
	uint32_t blue, other = 12;

	(void)state;
	node_make(&node);
	blue = name_netns(&node, "blue");
	learn(&node, blue, 0);
	rename_netns(&node, "/run/netns/blue", "/run/netns/green");
	learn(&node, blue, 6);
	expect(&node, blue, WORKLOAD_NETNS, "green");
	for (unsigned i = 0; i < 12; i++)
		learn(&node, blue, 6);
	rename_netns(&node, "/run/netns/green", "/run/netns/red");
	learn(&node, blue, 6);
	expect(&node, blue, WORKLOAD_NETNS, "green");
	/* The inode of a namespace that died is used again. */
	owner_book_keep_only(node.book, &blue, 1);
	expect(&node, blue, WORKLOAD_NETNS, "green");
	owner_book_keep_only(node.book, &other, 1);
	learn(&node, blue, 6);
	expect(&node, blue, WORKLOAD_NETNS, "red");
}

static void ours_is_the_hosts(void **state)
{
	_cleanup_node_ struct node node;
	uint32_t own = inode_of("/proc/self/ns/net");

	(void)state;
	node_make(&node);
	learn(&node, own, 0);
	expect(&node, own, WORKLOAD_HOST, "host");
	assert_int_equal(owner_book_find(NULL, own).kind, WORKLOAD_NETNS);
}

/* Each child in a network namespace of its own; -1 where that is not permitted. */
static pid_t start_apart(void)
{
	int ready[2];
	char done = 'x';
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		done = unshare(CLONE_NEWNET) == 0 ? 'y' : 'n';
		if (write(ready[1], &done, 1) == 1)
			pause();
		_exit(0);
	}
	assert_int_equal(read(ready[0], &done, 1), 1);
	close(ready[0]);
	close(ready[1]);
	if (done == 'y')
		return pid;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return -1;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void says_cgroup(const struct node *node, pid_t pid, const char *text)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
	directory_put(&node->directory, path, text);
}

static uint32_t netns_of(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/net", pid);
	return inode_of(path);
}

/* True when the kernel lists processes here: it takes BPF. */
static bool lists_processes(struct node *node, pid_t pid)
{
	uint32_t netns = netns_of(pid);

	says_cgroup(node, pid, "0::/lxc.payload.probe\n");
	learn(node, netns, 0);
	if (owner_book_find(node->book, netns).kind != WORKLOAD_LXD)
		return false;
	owner_book_keep_only(node->book, NULL, 0);
	node->now += 6 * USEC_PER_SEC;
	return true;
}

/* The kernel lists the processes, the made-up root says what their cgroups are. */
static void check_processes(struct node *node, pid_t pod, pid_t unit, pid_t none)
{
	uint32_t netns[] = {netns_of(pod), netns_of(unit), netns_of(none)};

	says_cgroup(node, pod, "0::/kubepods/burstable/pod" UID "/x\n");
	says_cgroup(node, unit, "0::/system.slice/web.service\n");
	owner_book_learn(node->book, netns, 3, node->now);
	expect(node, netns[0], WORKLOAD_POD, UID);
	expect(node, netns[1], WORKLOAD_UNIT, "web.service");
	assert_int_equal(owner_book_find(node->book, netns[2]).kind, WORKLOAD_NETNS);
	/* The pod's process enters a namespace that was in use before. */
	says_cgroup(node, unit, "0::/lxc.payload.c1\n");
	says_cgroup(node, none, "0::/lxc.payload.c2\n");
	node->now += 6 * USEC_PER_SEC;
	owner_book_learn(node->book, netns, 3, node->now);
	expect(node, netns[0], WORKLOAD_POD, UID);
	expect(node, netns[1], WORKLOAD_LXD, "c1");
	expect(node, netns[2], WORKLOAD_LXD, "c2");
}

static void processes(void **state)
{
	_cleanup_node_ struct node node;
	pid_t pod = start_apart(), unit, none;
	bool listed;

	(void)state;
	node_make(&node);
	if (pod < 0) {
		print_message("no network namespace may be made here\n");
		skip();
	}
	unit = start_apart();
	none = start_apart();
	listed = lists_processes(&node, pod);
	if (listed)
		check_processes(&node, pod, unit, none);
	end(pod);
	end(unit);
	end(none);
	if (!listed) {
		print_message("BPF cannot be had here: only names are known\n");
		skip();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_of_namespaces),
		cmocka_unit_test(what_is_unknown_is_sought_again),
		cmocka_unit_test(a_name_stands_in_the_end),
		cmocka_unit_test(ours_is_the_hosts),
		cmocka_unit_test(processes),
	};

	bpf_quiet_libbpf();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
