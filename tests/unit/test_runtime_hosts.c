/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "tuners/runtime/runtime.h"

#define CERTS "/etc/containerd/certs.d/"
#define OURS  "# Written by headroom.\n\n[host.\"http://m\"]\n"

struct node {
	struct directory directory;
	struct host host;
	struct node_runtime runtime;
	struct runtime_tuner request;
};

static void node_open(struct node *node)
{
	memset(node, 0, sizeof(*node));
	directory_make(&node->directory);
	assert_true(host_init(&node->host, node->directory.path));
	node->runtime.found = (struct runtime){
		.name = "containerd", .kind = RUNTIME_CONTAINERD, .socket = "/run/c.sock"};
	node->runtime.files_known = true;
	node->request.host = &node->host;
	node->request.sample.runtimes = &node->runtime;
	node->request.sample.n = 1;
}

static void node_close(struct node *node)
{
	free(node->request.sample.hosts);
	directory_remove(&node->directory);
}

#define NODE_TEST(name) TEST_OF(node, node, node_open, node_close, name)

/* What the sample says of the hosts.toml of one registry. */
static const struct runtime_hosts *hosts_of(struct node *node, const char *registry)
{
	struct runtime_config *config = &node->request.config;

	config->n_mirrors = 1;
	copy_text(config->mirrors[0].registry, REGISTRY_NAME_MAX, registry);
	runtime_sample_hosts(&node->request);
	assert_int_equal(node->request.sample.n_hosts, 1);
	return &node->request.sample.hosts[0];
}

NODE_TEST(own_files_those_of_others_and_certificates_are_told_apart)
{
	const struct runtime_hosts *hosts;

	directory_put(&node->directory, CERTS "ours.example/hosts.toml", OURS);
	directory_put(&node->directory, CERTS "others.example/hosts.toml", "server = \"x\"\n");
	directory_put(&node->directory, CERTS "certs.example/ca.crt", "");
	hosts = hosts_of(node, "ours.example");
	assert_true(hosts->exists && hosts->ours);
	assert_string_equal(hosts->mirrors, "http://m");
	assert_string_equal(hosts->path, CERTS "ours.example/hosts.toml");
	hosts = hosts_of(node, "others.example");
	assert_true(hosts->exists && !hosts->ours);
	hosts = hosts_of(node, "certs.example");
	assert_true(hosts->exists && !hosts->ours);
	hosts = hosts_of(node, "new.example");
	assert_false(hosts->exists);
	assert_string_equal(hosts->path, CERTS "new.example/hosts.toml");
}

NODE_TEST(a_port_has_two_directories_and_the_first_that_exists_counts)
{
	assert_string_equal(
		hosts_of(node, "r.example:5000")->path, CERTS "r.example_5000_/hosts.toml");
	directory_put(&node->directory, CERTS "r.example:5000/hosts.toml", OURS);
	assert_string_equal(
		hosts_of(node, "r.example:5000")->path, CERTS "r.example:5000/hosts.toml");
	directory_put(&node->directory, CERTS "r.example_5000_/hosts.toml", OURS);
	assert_string_equal(
		hosts_of(node, "r.example:5000")->path, CERTS "r.example_5000_/hosts.toml");
}

NODE_TEST(the_first_configured_directory_counts)
{
	copy_text(node->runtime.directory, SETTING_VALUE_MAX, "/first:/second");
	assert_string_equal(hosts_of(node, "a")->path, "/first/a/hosts.toml");
}

NODE_TEST(recorded_registries_are_read_after_they_left_the_configuration)
{
	directory_put(&node->directory, CERTS "gone.example/hosts.toml", OURS);
	node->request.recorded = (struct runtime_recorded){{"gone.example", "gone.example"}, 2};
	runtime_sample_hosts(&node->request);
	assert_int_equal(node->request.sample.n_hosts, 1);
	assert_true(node->request.sample.hosts[0].ours);
	/* Without containerd's configuration nothing is decided. */
	node->runtime.files_known = false;
	runtime_sample_hosts(&node->request);
	assert_int_equal(node->request.sample.n_hosts, 0);
}
