/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "kernel/bpf.h"
#include "workload/netns.h"

#include <sched.h>

#define UID "0f5c9a1e-7b3d-4c8a-9e2f-1a2b3c4d5e6f"

/* A made-up root with names in /run/netns: any file's inode does for a namespace's. */
struct node {
	struct directory directory;
	struct host host;
	struct netns_owners *owners;
	uint64_t now;
};

static void node_make(struct node *node)
{
	directory_make(&node->directory);
	assert_true(host_init(&node->host, node->directory.path));
	node->owners = netns_owners_open(&node->host);
	assert_non_null(node->owners);
	node->now = 100 * USEC_PER_SEC;
}

static void node_remove(struct node *node)
{
	netns_owners_close(node->owners);
	directory_remove(&node->directory);
}

#define NODE_TEST(name) TEST_OF(node, node, node_make, node_remove, name)

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
	netns_owners_learn(node->owners, &netns, 1, node->now);
}

static void expect(
	const struct node *node, uint32_t netns, enum workload_kind kind, const char *name)
{
	struct workload workload = netns_owners_find(node->owners, netns);

	if (workload.kind != kind || !streq(workload.name, name))
		fail_msg("%u is %s '%s'", netns, workload_kind_names[workload.kind], workload.name);
}

NODE_TEST(a_namespace_has_its_name_in_run_netns)
{
	uint32_t blue, other = 12;
	char number[16];

	blue = name_netns(node, "blue");
	snprintf(number, sizeof(number), "%u", blue);
	expect(node, blue, WORKLOAD_NETNS, number); /* nobody has looked yet */
	learn(node, blue, 0);
	expect(node, blue, WORKLOAD_NETNS, "blue");
	assert_string_equal(netns_owners_find(node->owners, blue).id, number);
	learn(node, other, 10);
	expect(node, other, WORKLOAD_NETNS, "12");
	expect(node, blue, WORKLOAD_NETNS, "blue");
}

/* Listing processes costs: what was sought in vain is sought again after five seconds, not before.
 */
NODE_TEST(unknown_owners_are_searched_every_five_seconds)
{
	uint32_t blue, first = 12;

	learn(node, first, 0);
	blue = name_netns(node, "blue");
	learn(node, blue, 1);
	assert_string_not_equal(netns_owners_find(node->owners, blue).name, "blue");
	learn(node, blue, 3.9);
	assert_string_not_equal(netns_owners_find(node->owners, blue).name, "blue");
	learn(node, blue, 0.2);
	expect(node, blue, WORKLOAD_NETNS, "blue");
}

static void rename_netns(const struct node *node, const char *from, const char *to)
{
	char old[PATH_MAX], new[PATH_MAX];

	directory_path(&node->directory, from, old);
	directory_path(&node->directory, to, new);
	assert_int_equal(rename(old, new), 0);
}

/* The inode of a namespace that died is used again. */
NODE_TEST(a_name_counts_while_it_has_the_inode)
{
	uint32_t blue;

	blue = name_netns(node, "blue");
	for (unsigned i = 0; i < 14; i++)
		learn(node, blue, 6);
	expect(node, blue, WORKLOAD_NETNS, "blue");
	rename_netns(node, "/run/netns/blue", "/run/netns/green");
	learn(node, blue, 1);
	expect(node, blue, WORKLOAD_NETNS, "green");
	netns_owners_keep_only(node->owners, NULL, 0);
	assert_string_equal(netns_owners_find(node->owners, blue).name,
		netns_owners_find(node->owners, blue).id);
}

NODE_TEST(an_event_keeps_its_owner)
{
	struct netns_event event = {0};
	uint32_t blue, other = 12;

	blue = name_netns(node, "blue");
	netns_event_update(&event, node->owners, blue, true, node->now);
	assert_string_equal(event.owner.name, event.owner.id); /* not known yet */
	learn(node, blue, 1);
	netns_event_update(&event, node->owners, blue, false, node->now);
	assert_string_equal(event.owner.name, "blue");
	netns_event_update(&event, node->owners, other, false, node->now);
	assert_string_equal(event.owner.name, "blue");
	rename_netns(node, "/run/netns/blue", "/run/netns/green");
	learn(node, blue, 100);
	netns_event_update(&event, node->owners, blue, false, node->now);
	assert_string_equal(event.owner.name, "blue");
	netns_event_update(&event, node->owners, blue, true, node->now);
	assert_string_equal(event.owner.name, "green");
}

NODE_TEST(own_namespace_is_the_hosts)
{
	uint32_t own = inode_of("/proc/self/ns/net");

	learn(node, own, 0);
	expect(node, own, WORKLOAD_HOST, "host");
	assert_int_equal(netns_owners_find(NULL, own).kind, WORKLOAD_NETNS);
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

static void put_process(const struct node *node, pid_t pid, unsigned start, const char *cgroup)
{
	char path[64], stat[128];

	snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
	directory_put(&node->directory, path, cgroup);
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	snprintf(stat, sizeof(stat),
		"%d (a) S 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 %u 23", pid, start);
	directory_put(&node->directory, path, stat);
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

	put_process(node, pid, 100, "0::/lxc.payload.probe\n");
	learn(node, netns, 0);
	if (netns_owners_find(node->owners, netns).kind != WORKLOAD_LXD)
		return false;
	netns_owners_keep_only(node->owners, NULL, 0);
	node->now += 6 * USEC_PER_SEC;
	return true;
}

/* The kernel lists the processes, the made-up root says what their cgroups are. */
static void check_processes(struct node *node, pid_t pod, pid_t unit, pid_t none)
{
	uint32_t netns[] = {netns_of(pod), netns_of(unit), netns_of(none)};

	put_process(node, pod, 100, "0::/kubepods/burstable/pod" UID "/x\n");
	put_process(node, unit, 100, "0::/system.slice/web.service\n");
	netns_owners_learn(node->owners, netns, 3, node->now);
	expect(node, netns[0], WORKLOAD_POD, UID);
	expect(node, netns[1], WORKLOAD_UNIT, "web.service");
	assert_int_equal(netns_owners_find(node->owners, netns[2]).kind, WORKLOAD_NETNS);
	/* The pod's process enters a namespace that was in use before. */
	put_process(node, unit, 100, "0::/lxc.payload.c1\n");
	put_process(node, none, 100, "0::/lxc.payload.c2\n");
	node->now += 6 * USEC_PER_SEC;
	netns_owners_learn(node->owners, netns, 3, node->now);
	expect(node, netns[0], WORKLOAD_POD, UID);
	expect(node, netns[1], WORKLOAD_LXD, "c1");
	expect(node, netns[2], WORKLOAD_LXD, "c2");
	/* The inode is another namespace's: its processes are others, even with the same pid. */
	put_process(node, unit, 200, "0::/lxc.payload.c3\n");
	put_process(node, pod, 200, "0::/lxc.payload.c4\n");
	node->now += USEC_PER_SEC;
	netns_owners_learn(node->owners, netns, 3, node->now);
	expect(node, netns[0], WORKLOAD_LXD, "c4");
	expect(node, netns[1], WORKLOAD_LXD, "c3");
}

NODE_TEST(processes)
{
	pid_t pod = start_apart(), unit, none;
	bool listed;

	if (pod < 0) {
		print_message("no network namespace may be made here\n");
		skip();
	}
	unit = start_apart();
	none = start_apart();
	listed = lists_processes(node, pod);
	if (listed)
		check_processes(node, pod, unit, none);
	end(pod);
	end(unit);
	end(none);
	if (!listed) {
		print_message("BPF cannot be had here: only names are known\n");
		skip();
	}
}
