/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "tuners/runtime/runtime.h"

#define CERTS "/etc/containerd/certs.d/"
#define OURS  "# Written by headroom.\n\n[host.\"http://m\"]\n"

struct node {
	struct directory directory;
	struct node_runtime runtime;
	struct runtime_tuner request;
};

static void node_open(struct node *node)
{
	memset(node, 0, sizeof(*node));
	directory_make(&node->directory);
	node->runtime.found = (struct runtime){
		.name = "containerd", .driver = &containerd_driver, .socket = "/run/c.sock"};
	node->runtime.files_known = true;
	node->request.host = &node->directory.host;
	node->request.sample.runtimes = &node->runtime;
	node->request.sample.n = 1;
}

static void node_close(struct node *node)
{
	free(node->request.sample.files);
	directory_remove(&node->directory);
}

#define NODE_TEST(name) TEST_OF(node, node, node_open, node_close, name)

/* Samples the mirror file of one registry. */
static const struct mirror_file *file_of(struct node *node, const char *registry)
{
	struct runtime_config *config = &node->request.config;

	config->n_mirrors = 1;
	copy_text(config->mirrors[0].registry, REGISTRY_NAME_MAX, registry);
	runtime_sample_files(&node->request);
	assert_int_equal(node->request.sample.n_files, 1);
	return &node->request.sample.files[0];
}

/* A registry with a port has two directories. The first existing one counts. */
NODE_TEST(files_of_others_and_certificates_are_not_ours)
{
	static const struct {
		const char *put, *text; /* a file that is added */
		const char *registry, *path;
		bool exists, ours;
	} steps[] = {
		{CERTS "ours.example/hosts.toml", OURS, "ours.example",
			CERTS "ours.example/hosts.toml", true, true},
		{CERTS "others.example/hosts.toml", "server = \"x\"\n", "others.example",
			CERTS "others.example/hosts.toml", true, false},
		{CERTS "certs.example/ca.crt", "", "certs.example",
			CERTS "certs.example/hosts.toml", true, false},
		{CERTS "old.example/ca.crt", "", "new.example", CERTS "new.example/hosts.toml",
			false, false},
		{CERTS "x/y", "", "r.example:5000", CERTS "r.example_5000_/hosts.toml", false,
			false},
		{CERTS "r.example:5000/hosts.toml", OURS, "r.example:5000",
			CERTS "r.example:5000/hosts.toml", true, true},
		{CERTS "r.example_5000_/hosts.toml", OURS, "r.example:5000",
			CERTS "r.example_5000_/hosts.toml", true, true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		const struct mirror_file *file;

		directory_put(&node->directory, steps[i].put, steps[i].text);
		file = file_of(node, steps[i].registry);
		assert_string_equal(file->path, steps[i].path);
		assert_int_equal(file->exists, steps[i].exists);
		assert_int_equal(file->ours, steps[i].ours);
		assert_string_equal(file->mirrors, steps[i].ours ? "http://m" : "");
		assert_int_equal(file->error, 0);
	}
	copy_text(node->runtime.in_force[RUNTIME_HOSTS_DIRECTORY], SETTING_VALUE_MAX,
		"/first:/second");
	assert_string_equal(file_of(node, "a")->path, "/first/a/hosts.toml");
}

NODE_TEST(recorded_registries_are_read_after_they_left_the_configuration)
{
	directory_put(&node->directory, CERTS "gone.example/hosts.toml", OURS);
	node->request.recorded = (struct runtime_recorded){{"gone.example", "gone.example"}, 2};
	runtime_sample_files(&node->request);
	assert_int_equal(node->request.sample.n_files, 1);
	assert_true(node->request.sample.files[0].ours);
	/* Without the configuration of containerd the directory is unknown. */
	node->runtime.files_known = false;
	runtime_sample_files(&node->request);
	assert_int_equal(node->request.sample.n_files, 0);
}
