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
