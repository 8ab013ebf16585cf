/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/docker_keys.h"

#include "base/util.h"

#include <stdio.h>

/* The versions of which the tables below were made, by their first number; 20 is 20.10. */
#define FIRST_VERSION 20
#define LAST_VERSION  28

static const char *const always[] = {"add-runtime", "allow-nondistributable-artifacts",
	"api-cors-header", "authorization-plugin", "authorization-plugins", "bip", "bridge",
	"builder", "cgroup-parent", "config-file", "containerd", "containerd-namespace",
	"containerd-plugins-namespace", "cpu-rt-period", "cpu-rt-runtime", "cri-containerd",
	"data-root", "debug", "default-address-pool", "default-address-pools",
	"default-cgroupns-mode", "default-gateway", "default-gateway-v6", "default-ipc-mode",
	"default-runtime", "default-shm-size", "default-ulimit", "default-ulimits",
	"deprecated-key-path", "dns", "dns-opt", "dns-opts", "dns-search", "exec-opt", "exec-opts",
	"exec-root", "experimental", "features", "fixed-cidr", "fixed-cidr-v6", "group", "help",
	"host", "host-gateway-ip", "hosts", "icc", "init", "init-path", "insecure-registries",
	"insecure-registry", "ip", "ip-forward", "ip-masq", "ip6tables", "iptables", "ipv6",
	"label", "labels", "live-restore", "log-driver", "log-level", "log-opt", "log-opts",
	"max-concurrent-downloads", "max-concurrent-uploads", "max-download-attempts",
	"metrics-addr", "mtu", "network-control-plane-mtu", "network-diagnostic-port",
	"no-new-privileges", "node-generic-resource", "node-generic-resources", "pidfile",
	"raw-logs", "registry-mirror", "registry-mirrors", "restart", "rootless", "runtimes",
	"seccomp-profile", "selinux-enabled", "shutdown-timeout", "storage-driver", "storage-opt",
	"storage-opts", "swarm-default-advertise-addr", "tls", "tlscacert", "tlscert", "tlskey",
	"tlsverify", "userland-proxy", "userland-proxy-path", "userns-remap", "version"};

static const struct {
	const char *name;
	unsigned int since, until; /* versions; until 0: still */
} sometimes[] = {
	{"allow-direct-routing", 28, 0},
	{"bip6", 28, 0},
	{"cdi-spec-dir", 25, 0},
	{"cdi-spec-dirs", 25, 0},
	{"cluster-advertise", 0, 23},
	{"cluster-store", 0, 23},
	{"cluster-store-opt", 0, 23},
	{"cluster-store-opts", 0, 23},
	{"default-network-opt", 24, 0},
	{"default-network-opts", 24, 0},
	{"graph", 0, 23},
	{"host-gateway-ips", 28, 0},
	{"http-proxy", 23, 0},
	{"https-proxy", 23, 0},
	{"ip-forward-no-drop", 28, 0},
	{"log-format", 25, 0},
	{"no-proxy", 23, 0},
	{"oom-score-adjust", 0, 25},
	{"validate", 23, 0},
};

bool docker_config_is_flat(const char *key)
{
	static const char *const flat[] = {"builder", "cluster-store-opts", "default-network-opts",
		"default-ulimits", "features", "log-opts", "runtimes"};

	for (size_t i = 0; i < ARRAY_SIZE(flat); i++)
		if (streq(flat[i], key))
			return true;
	return false;
}

bool docker_config_knows(const char *version, const char *key)
{
	unsigned int major, minor;

	if (sscanf(version, "%4u.%4u", &major, &minor) != 2 || major < FIRST_VERSION ||
		major > LAST_VERSION || (major == 20 && minor < 10))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(always); i++)
		if (streq(always[i], key))
			return true;
	for (size_t i = 0; i < ARRAY_SIZE(sometimes); i++)
		if (streq(sometimes[i].name, key))
			return major >= sometimes[i].since &&
			       (sometimes[i].until == 0 || major <= sometimes[i].until);
	return false;
}
