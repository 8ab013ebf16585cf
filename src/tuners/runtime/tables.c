/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/runtime/runtime.h"

#include "base/json.h"
#include "base/util.h"

#include <linux/capability.h>
#include <stdio.h>

const struct limit_row runtime_limits[] = {
	{
		.name = "images/store",
		.help = "The file system that images are unpacked to. The kubelet begins to delete "
			"images at 85 % (imageGCHighThresholdPercent), those loaded ahead of time "
			"among the first.",
		.unit = "bytes",
		.def = "the file system's size",
		.source = "CRI, ImageFsInfo; Docker, /info DockerRootDir; statvfs(3)",
	},
	{0},
};

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
	{0},
};

static const struct reason reach_reasons[] = {
	{"runtime-answers", "Every installed runtime answers."},
	{"no-runtime", "No container runtime was found on this node."},
	{0},
};

static const struct reason restart_reasons[] = {
	{"none-pending", "Everything that was written is in force."},
	{0},
};

static const struct reason store_reasons[] = {
	{"store-unknown", "No runtime has reported where it keeps its images."},
	{"store-nearly-full", "More than 85 % of the file system of the images is in use."},
	{0},
};

static const struct reason pull_reasons[] = {
	{"pulls-move", "Every layer that is being fetched makes progress."},
	{"no-progress", "A layer has made no progress for one minute."},
	{0},
};

const struct condition_type runtime_conditions[] = {
	[RUNTIME_UNREACHABLE] = {"RuntimeUnreachable", SEVERITY_WARNING,
		"A container runtime is installed and does not answer. Its settings are not checked, "
		"and pods and containers appear under their ids.",
		reach_reasons},
	[RUNTIME_RESTART_PENDING] = {"RuntimeRestartPending", SEVERITY_WARNING,
		"A setting is in the runtime's configuration and takes effect at its next start. "
		"Restart it, or let headroom do so: runtime.restart.",
		restart_reasons},
	[IMAGE_STORE_FULL] = {"ImageStoreFull", SEVERITY_WARNING,
		"The file system that holds the images is nearly full: pulls will fail, and the "
		"kubelet deletes images, preloaded ones too.",
		store_reasons},
	[PULL_STUCK] = {"PullStuck", SEVERITY_WARNING,
		"A layer that is being fetched made no progress for one minute. The message names "
		"it, its registry, and what waits for it.",
		pull_reasons},
	{0},
};

const struct reason runtime_reasons[] = {
	{"runtime-unsupported",
		"This runtime or its version has no such key, or another program writes its "
		"configuration: /v1/status says which."},
	{"file-unusable",
		"The runtime's configuration file cannot be read or is broken: it is left "
		"as it is."},
	{"on-command-line",
		"The daemon was started with an option for it: the same key in its file would keep "
		"it from starting. Remove the option."},
	{"process-not-seen",
		"The runtime's process is not visible from here, and so its command line and its "
		"program are not known: share the host's process IDs."},
	{"file-of-others",
		"The file that this belongs into was made by someone else: it is left alone."},
	{"no-mirror-up",
		"None of the registry's mirrors answers: pulls go to the registry itself."},
	{"mirrors-without-effect",
		"The configuration of containerd has registry.mirrors, and so it reads no "
		"hosts.toml: remove those, and give them to runtime.mirrors."},
	{"runtime-silent", "The runtime does not answer."},
	{0},
};

const struct metric_row runtime_metric_rows[] = {
	{"headroom_runtime_info", METRIC_GAUGE, NULL,
		"A container runtime of this node that has answered, and its version.",
		{"runtime", "version"}},
	{"headroom_runtime_max_concurrent_downloads", METRIC_GAUGE, "layers",
		"Layers that the runtime fetches at once, as it is in force.", {"runtime"}},
	{"headroom_pulls_active", METRIC_GAUGE, "images", "Images that are being pulled now.",
		{"registry"}},
	{"headroom_pull_bytes_total", METRIC_COUNTER, "bytes",
		"Bytes of images fetched while the agent ran.", {"registry"}},
	{"headroom_pull_duration_seconds", METRIC_HISTOGRAM, "seconds",
		"How long pulls took, from samples of what is being fetched: short ones are missed.",
		{"registry"}},
	{0},
};

const struct capability_row runtime_capabilities[] = {
	{CAPABILITY(CAP_CHOWN), CAPABILITY_TO_ENFORCE, NULL,
		"keeps the owner of a configuration file that does not belong to root"},
	{CAPABILITY(CAP_SYS_CHROOT), CAPABILITY_TO_CHROOT, NULL,
		"runs the host's containerd and dockerd to check a new file, from a container"},
	{0},
};

static void write_pulls(const cJSON *runtime, char *text, size_t size)
{
	const cJSON *pulls = json_at(runtime, "pulls"), *pull;
	int n = cJSON_GetArraySize(pulls);
	double rate = 0;

	cJSON_ArrayForEach (pull, pulls)
		rate += json_number_at(pull, "bytes_per_second");
	if (n > 0)
		snprintf(text, size, "%d layer%s, %.1f MB/s", n, n == 1 ? "" : "s", rate / 1e6);
}

/* "/var/lib/containerd (overlayfs, ext4) 40 % full", and what is odd about it. */
static void write_store(const cJSON *runtime, char *text, size_t size)
{
	const cJSON *store = json_at(runtime, "store"), *warning;

	if (!cJSON_IsObject(store))
		return;
	snprintf(text, size, "%s (%s, %s) %.0f %% full", json_text_at(store, "directory"),
		json_text_at(store, "driver"), json_text_at(store, "filesystem"),
		100 * json_number_at(store, "used") / MAX(json_number_at(store, "size"), 1.0));
	cJSON_ArrayForEach (warning, json_at(store, "warnings")) {
		size_t used = strlen(text);

		snprintf(text + used, size - used, "; %s", json_text_at(warning, ""));
	}
}

/* One that was never installed is not shown. */
static bool shows_runtime(const cJSON *runtime)
{
	return !streq(json_text_at(runtime, "state"), "asked");
}

static const struct column runtime_columns[] = {
	{.title = "Runtime", .key = "name"},
	{.title = "Version", .key = "version"},
	{.title = "State", .key = "state", .format = COLUMN_STATE},
	{.title = "Layers at once", .key = "max_concurrent_downloads"},
	{.title = "Fetching now", .write = write_pulls},
	{.title = "Images", .write = write_store},
	{0},
};

const struct table_view runtime_view = {.title = "Container runtimes",
	.rows = "found",
	.columns = runtime_columns,
	.shows = shows_runtime};
