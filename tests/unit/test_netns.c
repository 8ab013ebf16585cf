/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "workload/netns.h"

/* A root with names in /run/netns. The inode of any file replaces that of a namespace. */
struct node {
	struct directory directory;
	struct netns_owners *owners;
	uint64_t now;
};

static void node_make(struct node *node)
{
	directory_make(&node->directory);
	node->owners = netns_owners_open(&node->directory.host, NULL, -1);
	node->now = 100 * USEC_PER_SEC;
}

static void node_remove(struct node *node)
{
	free(node->owners);
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
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "/run/netns/%s", name);
	directory_put(&node->directory, path, "");
	return inode_of(directory_at(&node->directory, path).text);
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
	uint32_t blue = name_netns(node, "blue"), other = 12;
	char number[16];

	snprintf(number, sizeof(number), "%u", blue);
	expect(node, blue, WORKLOAD_NETNS, number); /* not searched yet */
	learn(node, blue, 0);
	expect(node, blue, WORKLOAD_NETNS, "blue");
	assert_string_equal(netns_owners_find(node->owners, blue).id, number);
	learn(node, other, 10);
	expect(node, other, WORKLOAD_NETNS, "12");
	expect(node, blue, WORKLOAD_NETNS, number); /* no longer requested */
}

/* A search lists all processes, so the next one is five seconds later. */
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
	assert_int_equal(rename(directory_at(&node->directory, from).text,
				 directory_at(&node->directory, to).text),
		0);
}

NODE_TEST(an_event_keeps_its_owner)
{
	uint32_t blue = name_netns(node, "blue"), other = 12;
	struct netns_event event = {0};

	netns_event_update(&event, node->owners, blue, 1, node->now);
	assert_string_equal(event.owner.name, event.owner.id); /* not known yet */
	learn(node, blue, 1);
	netns_event_update(&event, node->owners, blue, 1, node->now);
	assert_string_equal(event.owner.name, "blue");
	netns_event_update(&event, node->owners, other, 1, node->now);
	assert_string_equal(event.owner.name, "blue");
	rename_netns(node, "/run/netns/blue", "/run/netns/green");
	learn(node, blue, 100);
	netns_event_update(&event, node->owners, blue, 1, node->now);
	assert_string_equal(event.owner.name, "blue");
	netns_event_update(&event, node->owners, blue, 2, node->now);
	assert_string_equal(event.owner.name, "green");
}

NODE_TEST(own_namespace_is_the_hosts)
{
	uint32_t own = inode_of("/proc/self/ns/net");

	learn(node, own, 0);
	expect(node, own, WORKLOAD_HOST, "host");
	assert_int_equal(netns_owners_find(NULL, own).kind, WORKLOAD_NETNS);
}
