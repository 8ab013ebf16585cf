/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/containerd_generation.h"

#include "base/util.h"

#include <stdlib.h>

/*
 * Facts per row are those of the row before it but for what the source says. Sources are files of
 * github.com/containerd/containerd at the tag.
 */
static const struct containerd_generation generations[] = {
	{
		.major = 1,
		.minor = 6,
		.versions = CONTAINERD_VERSION_LAST,
		.newest = 2,
		.begin = CONTAINERD_OURS "version = 2\n",
		.source = "v1.6.36 services/server/config/config.go LoadConfig, mergeConfig; "
			  "pkg/cri/config/config.go PluginConfig",
	},
	{
		.major = 1,
		.minor = 7,
		.versions = CONTAINERD_VERSION_LAST,
		.newest = 2,
		.progress = true,
		.begin = CONTAINERD_OURS "version = 2\n",
		.source = "v1.7.0 pkg/cri/config/config.go ImagePullProgressTimeout",
	},
	{
		.major = 2,
		.minor = 0,
		.versions = CONTAINERD_VERSION_SPREAD,
		.newest = 3,
		.merges = true,
		.progress = true,
		.begin = CONTAINERD_OURS "version = 3\n",
		.source = "v2.0.14 cmd/containerd/server/config/config.go LoadConfig; "
			  "plugins/cri/images/plugin.go migrateConfig",
	},
	{
		.major = 2,
		.minor = 1,
		.versions = CONTAINERD_VERSION_SPREAD,
		.newest = 3,
		.merges = true,
		.progress = true,
		.transfer = true,
		.begin = CONTAINERD_OURS "version = 3\n",
		.source = "v2.1.9 internal/cri/config/config.go CheckLocalImagePullConfigs; "
			  "plugins/transfer/plugin.go transferConfig",
	},
	{
		.major = 2,
		.minor = 2,
		.versions = CONTAINERD_VERSION_SPREAD,
		.newest = 3,
		.merges = true,
		.progress = true,
		.transfer = true,
		.registry_default = "/etc/containerd/certs.d:/etc/docker/certs.d",
		.begin = CONTAINERD_OURS "version = 3\n",
		.source = "v2.2.9 plugins/cri/images/plugin.go",
	},
	{
		.major = 2,
		.minor = 3,
		.versions = CONTAINERD_VERSION_EACH,
		.newest = 4,
		.merges = true,
		.progress = true,
		.transfer = true,
		.registry_default = "/etc/containerd/certs.d:/etc/docker/certs.d",
		/* Not 4: that would keep 2.2 from starting, should someone go back to it. */
		.begin = CONTAINERD_OURS "version = 3\n",
		.source = "v2.3.7, v2.4.2 cmd/containerd/server/config/config.go "
			  "LoadConfigWithPlugins; version/version.go ConfigVersion",
	},
};

/* "1.6.20~ds1", "v2.1.4-k3s1", "2.4.2+unknown": the first two numbers. */
static bool parse_version(const char *text, unsigned *major, unsigned *minor)
{
	char *end;
	unsigned long first, second;

	if (*text == 'v')
		text++;
	if (*text < '0' || *text > '9')
		return false;
	first = strtoul(text, &end, 10);
	if (*end != '.' || end[1] < '0' || end[1] > '9')
		return false;
	second = strtoul(end + 1, NULL, 10);
	if (first > 1000 || second > 1000)
		return false;
	*major = (unsigned)first;
	*minor = (unsigned)second;
	return true;
}

const struct containerd_generation *containerd_generation_of(const char *version)
{
	const struct containerd_generation *found = NULL;
	unsigned major, minor;

	if (!version || !parse_version(version, &major, &minor) || major > 2)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(generations); i++) {
		const struct containerd_generation *row = &generations[i];

		if (row->major < major || (row->major == major && row->minor <= minor))
			found = row;
	}
	return found;
}
