/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "runtime/driver.h"

#include <sys/un.h>

static void put_socket(const struct directory *directory, const char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	directory_put(directory, name, "");
	directory_delete(directory, name);
	assert_true(set_text(address.sun_path, directory_at(directory, name).text));
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
}

/* Expects runtimes as "NAME UNIT": ! is down, * belongs to a distribution of Kubernetes. */
static void expect(const struct directory *directory, const char *expected)
{
	struct runtime found[RUNTIME_MAX];
	size_t n = runtime_discover(directory->path, found);
	char text[512] = "";

	for (size_t i = 0; i < n; i++)
		text_append(text, sizeof(text), "%s%s%s%s %s", i > 0 ? ", " : "", found[i].name,
			found[i].has_socket ? "" : "!",
			found[i].managed_by == RUNTIME_OF_K8S ? "*" : "", found[i].unit);
	assert_string_equal(text, expected);
}

static void put_unit(const struct directory *directory, const char *name)
{
	directory_put(directory, name, "[Service]\n");
}

DIRECTORY_TEST(a_runtime_has_a_socket_or_a_unit)
{
	directory_put(directory, "/run/containerd/containerd.sock", "");
	directory_put(directory, "/etc/containerd/config.toml", "version = 2\n");
	expect(directory, "");
}

/* Programs of the node, and what a finding prints; without a text the node lacks a client. */
DIRECTORY_TEST(the_client_of_a_runtime_is_a_program_of_the_node)
{
	static const struct {
		const char *file, *program, *socket, *client;
	} cases[] = {
		{"/etc/none", "crictl", "/run/x.sock", ""},
		{"/usr/bin/crictl", "crictl", "/run/x.sock", "crictl -r unix:///run/x.sock"},
		{"/usr/local/bin/crictl", "crictl", "", "crictl"},
		{"/opt/bin/crictl", "crictl", "/run/x.sock",
			"/opt/bin/crictl -r unix:///run/x.sock"},
		{"/var/lib/rancher/rke2/bin/crictl", "crictl", "/run/k3s/my c.sock",
			"/var/lib/rancher/rke2/bin/crictl -r unix://'/run/k3s/my c.sock'"},
		{"/usr/local/bin/k3s", "crictl", "/run/k3s.sock",
			"k3s crictl -r unix:///run/k3s.sock"},
		{"/usr/local/bin/k3s", "ctr", "/run/k3s.sock",
			"k3s ctr -a /run/k3s.sock -n k8s.io"},
		{"/usr/local/bin/k3s", "docker", "", ""},
		{"/usr/bin/ctr", "ctr", "/run/x.sock", "ctr -a /run/x.sock -n k8s.io"},
		{"/bin/docker", "docker", "/run/docker.sock", "docker"},
	};
	char client[RUNTIME_CLIENT_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		bool expected = cases[i].client[0];

		directory_put(directory, cases[i].file, "");
		assert_false(runtime_client(
			&directory->host, cases[i].program, cases[i].socket, client));
		assert_int_equal(chmod(directory_at(directory, cases[i].file).text, 0755), 0);
		assert_int_equal(
			runtime_client(&directory->host, cases[i].program, cases[i].socket, client),
			expected);
		assert_string_equal(client, cases[i].client);
		directory_delete(directory, cases[i].file);
	}
}

/* k3s makes links to itself, and packages have alternatives: their targets are on the node. */
DIRECTORY_TEST(a_link_to_a_program_is_followed_on_the_node)
{
	char client[RUNTIME_CLIENT_MAX];

	directory_put(directory, "/usr/bin/none", "");
	directory_delete(directory, "/usr/bin/none");
	assert_int_equal(
		symlink("/opt/cni/crictl", directory_at(directory, "/usr/bin/crictl").text), 0);
	assert_false(runtime_client(&directory->host, "crictl", "", client));
	directory_put(directory, "/opt/cni/crictl", "");
	assert_int_equal(chmod(directory_at(directory, "/opt/cni/crictl").text, 0755), 0);
	assert_true(runtime_client(&directory->host, "crictl", "", client));
	/* The agent's own programs do not count. */
	assert_int_equal(symlink("/bin/sh", directory_at(directory, "/usr/bin/ctr").text), 0);
	assert_false(runtime_client(&directory->host, "ctr", "", client));
}

DIRECTORY_TEST(several_runtimes_are_found)
{
	static const struct runtime_driver *const drivers[] = {
		&containerd_driver, &docker_driver, &crio_driver, &containerd_driver};
	struct runtime found[RUNTIME_MAX];

	put_socket(directory, "/run/containerd/containerd.sock");
	put_socket(directory, "/run/docker.sock");
	put_socket(directory, "/run/crio/crio.sock");
	put_socket(directory, "/run/docker/containerd/containerd.sock");
	put_unit(directory, "/lib/systemd/system/containerd.service");
	expect(directory, "containerd containerd.service, docker docker.service, "
			  "crio crio.service, docker-containerd docker.service");
	runtime_discover(directory->path, found);
	for (size_t i = 0; i < ARRAY_SIZE(drivers); i++) {
		assert_ptr_equal(found[i].driver, drivers[i]);
		assert_int_equal(found[i].managed_by, i == 3 ? RUNTIME_NESTED : RUNTIME_OF_NODE);
	}
	assert_string_equal(found[0].config, "/etc/containerd/config.toml");
}

DIRECTORY_TEST(a_unit_that_is_not_masked_is_found_without_a_socket)
{
	put_unit(directory, "/usr/lib/systemd/system/docker.service");
	expect(directory, "docker! docker.service");
	/* A link to /dev/null and an empty file mask a unit. */
	directory_put(directory, "/etc/systemd/system/other", "");
	directory_link(directory, "/etc/systemd/system/docker.service", "/dev/null");
	expect(directory, "");
	directory_delete(directory, "/etc/systemd/system/docker.service");
	directory_put(directory, "/etc/systemd/system/docker.service", "");
	expect(directory, "");
	/* systemctl link and alias units create links to other files. */
	directory_delete(directory, "/etc/systemd/system/docker.service");
	directory_link(
		directory, "/etc/systemd/system/docker.service", "/opt/docker/docker.service");
	expect(directory, "docker! docker.service");
}

DIRECTORY_TEST(k3s_and_rke2_have_distinct_names)
{
	put_socket(directory, "/run/k3s/containerd/containerd.sock");
	put_unit(directory, "/etc/systemd/system/k3s-agent.service");
	expect(directory, "k3s* k3s-agent.service");
	directory_delete(directory, "/etc/systemd/system/k3s-agent.service");
	directory_put(directory, "/var/lib/rancher/rke2/agent/x", "");
	put_unit(directory, "/usr/local/lib/systemd/system/rke2-server.service");
	expect(directory, "rke2* rke2-server.service");
}

/* Administrators link the default path of containerd to the socket of k3s. */
DIRECTORY_TEST(a_socket_with_several_paths_is_one_runtime)
{
	put_socket(directory, "/run/k3s/containerd/containerd.sock");
	directory_put(directory, "/run/containerd/other", "");
	directory_link(
		directory, "/run/containerd/containerd.sock", "../k3s/containerd/containerd.sock");
	directory_put(directory, "/var/other", "");
	directory_link(directory, "/var/run", "/run");
	expect(directory, "k3s* k3s.service");
}
