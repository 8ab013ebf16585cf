/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/runtime/runtime.h"

const struct explanation runtime_explanations[] = {
	{
		.name = "*.max_concurrent_downloads",
		.kind = "setting",
		.what = "How many layers containerd fetches at once: of one image in the CRI's own "
			"puller (1.6, 1.7, 2.0), of all together in the transfer service (2.1 and "
			"later). One large layer on a slow connection holds up the rest when it is "
			"low. containerd reads it when it starts: until then the setting is pending.",
		.unit = "layers",
		.def = "3",
		.option = "runtime.max_concurrent_downloads",
		.source = "containerd, docs/cri/config.md; plugins/transfer/plugin.go from 2.1",
	},
	{
		.name = "*.image_pull_progress_timeout",
		.kind = "setting",
		.what = "A pull that receives nothing for so long is given up, and the kubelet "
			"begins it anew. Too short for a registry that is overrun makes that worse.",
		.unit = "Go duration",
		.def = "5m0s",
		.option = "runtime.pull_progress_timeout",
		.source = "containerd, docs/cri/config.md, from 1.7",
	},
	{
		.name = "*.config_path",
		.kind = "setting",
		.what = "The directory in which containerd looks for hosts.toml files, that is for "
			"mirrors. Set only where mirrors are configured and nobody has set it.",
		.def = "empty; /etc/containerd/certs.d in the packages of clouds",
		.option = "runtime.mirrors",
		.source = "containerd, docs/hosts.md",
	},
	{
		.name = "*.max-concurrent-downloads",
		.kind = "setting",
		.what = "How many layers dockerd fetches at once, of all images together. A reload "
			"(SIGHUP) takes it at once, and no container notices.",
		.unit = "layers",
		.def = "3",
		.option = "runtime.max_concurrent_downloads",
		.source = "Docker, reference of dockerd: daemon configuration file",
	},
	{
		.name = "*.registry-mirrors",
		.kind = "setting",
		.what = "Mirrors of docker.io that dockerd asks first. Those that somebody else put "
			"into daemon.json stay, behind the configured ones.",
		.def = "none",
		.option = "runtime.mirrors",
		.source = "Docker, reference of dockerd: daemon configuration file",
	},
	{
		.name = "mirrors.*",
		.kind = "setting",
		.what = "The mirrors that containerd asks before a registry: a hosts.toml of our "
			"own, read at each pull. One that does not answer is taken out, because a "
			"mirror that hangs holds up every pull by half a minute a layer; none left "
			"removes the file. A file of somebody else is left alone.",
		.def = "none",
		.option = "runtime.mirrors",
		.source = "containerd, docs/hosts.md; issues 10624 and 10660",
	},
	{
		.name = "images/store",
		.kind = "limit",
		.what = "The file system that images are unpacked to. The kubelet begins to delete "
			"images at 85 % (imageGCHighThresholdPercent), those loaded ahead of time "
			"among the first.",
		.unit = "bytes",
		.def = "the file system's size",
		.source = "CRI, ImageFsInfo; Docker, /info DockerRootDir; statvfs(3)",
	},
	{0},
};
