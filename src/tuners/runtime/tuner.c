/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/runtime/runtime.h"
#include "tuners/table.h"

#include "workload/facts.h"
#include "workload/process.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/inotify.h>
#include <systemd/sd-event.h>

/* The interval of samples after a write, and its duration. */
#define SOON_US     (1 * USEC_PER_SEC)
#define SOON_FOR_US (20 * USEC_PER_SEC)

/* A restart needs a recent answer without pulls. */
#define IDLE_EVERY_US (2 * USEC_PER_SEC)

static const char *const keep_choices[] = {"keep", NULL};
static const char *const restart_choices[] = {
	[RESTART_NEVER] = "never", [RESTART_WHEN_IDLE] = "when-idle", [RESTART_NOW] = "now", NULL};

static const struct config_option mirror_items[] = {
	{"registry", OPTION_TEXT, .max = REGISTRY_NAME_MAX - 1, .def = REGISTRY_DEFAULT,
		.help = "The mirrored registry, such as docker.io or registry.example:5000; "
			"_default: all registries without their own mirrors."},
	{"url", OPTION_TEXT, .min = 1, .max = REGISTRY_URL_MAX - 1,
		.help = "The address of the mirror, such as http://127.0.0.1:30020."},
	{"override_path", OPTION_BOOL, .def = "false",
		.help = "true: the address has a namespace behind /v2, and the runtime adds nothing to "
			"it, as Harbor needs it: https://harbor.example/v2/proxy. containerd and CRI-O."},
	{0},
};

#define DOWNLOADS "runtime.max_concurrent_downloads"

const struct config_option runtime_options[] = {
	MODE_OPTION("runtime"),
	{"runtime.kind", OPTION_CHOICE, .choices = runtime_choices, .def = "auto",
		.help = "The container runtime to manage. auto: all that are found."},
	{DOWNLOADS, OPTION_COUNT, .min = 1, .max = 1000, .choices = keep_choices, .unit = "layers",
		.def = "10",
		.help = "How many layers the runtime fetches at once. A number only raises: {value: "
			"10, exact: true} also lowers. keep: do not change it."},
	{DOWNLOADS ".value", OPTION_COUNT, .min = 1, .max = 1000, .unit = "layers", .def = "10",
		.help = "How many layers the runtime fetches at once."},
	{DOWNLOADS ".exact", OPTION_BOOL, .def = "false",
		.help = "true: replace a higher value of the administrator, too."},
	{"runtime.pull_progress_timeout", OPTION_DURATION, .min = 10 * USEC_PER_SEC,
		.max = 24 * UINT64_C(3600) * USEC_PER_SEC, .choices = keep_choices, .def = "30m",
		.help = "containerd cancels a pull without progress after this time. The default only "
			"raises. keep: do not change it."},
	{"runtime.restart", OPTION_CHOICE, .choices = restart_choices, .def = "never",
		.help = "containerd reads its configuration at its start only. never: do not "
			"restart it; RuntimeRestartPending reports that a restart is due. when-idle: "
			"restart it when nothing is being pulled, at most once an hour. now: "
			"restart it at once. Containers keep running. A unit whose restart would stop "
			"containers or other units is never restarted."},
	{"runtime.mirrors", OPTION_LIST, .max = RUNTIME_MIRROR_MAX, .items = mirror_items,
		.def = "[]",
		.help = "Mirrors of registries, in the order of requests. Mirrors on this node "
			"come first, the registry itself comes last. A mirror that does not answer "
			"is removed until it answers again."},
	{0},
};

static const struct limit_row limits[] = {
	{"images/store",
		"The file system of unpacked images. The kubelet deletes unused images above "
		"85 % (imageGCHighThresholdPercent), preloaded images among the first.",
		.unit = "bytes", .def = "the file system's size",
		.source = "CRI, ImageFsInfo; Docker, /info DockerRootDir; statvfs(3)",
		.severity = SEVERITY_CRITICAL,
		.breaks = "pulls and containers fail with \"no space left on device\", and the "
			  "kubelet evicts pods (DiskPressure)",
		.cure_help = "crictl rmi --prune, or make the file system larger"},
	{0},
};

static const struct help_entry entries[] = {
	{"crio.max_concurrent_downloads", ENTRY_SETTING,
		"CRI-O cannot be told how many layers to fetch at once: unsupported.",
		.unit = "layers", .def = "6 of each image",
		.option = "runtime.max_concurrent_downloads", .source = "crio.conf(5)"},
	{"*.max_concurrent_downloads", ENTRY_SETTING,
		"How many layers containerd fetches at once: of each image in the CRI's own "
		"puller (1.6, 1.7, 2.0), of all images in the transfer service (2.1 and later). "
		"With a low number, one large layer on a slow connection delays the others. "
		"containerd reads the key when it starts: until then the setting is pending.",
		.unit = "layers", .def = "3", .option = "runtime.max_concurrent_downloads",
		.source = "containerd, docs/cri/config.md; plugins/transfer/plugin.go from 2.1"},
	{"*.image_pull_progress_timeout", ENTRY_SETTING,
		"A pull that receives nothing for this time is cancelled, and the kubelet starts "
		"it again. A short time increases the load of a slow registry.",
		.unit = "Go duration", .def = "5m0s", .option = "runtime.pull_progress_timeout",
		.source = "containerd, docs/cri/config.md, from 1.7"},
	{"*.config_path", ENTRY_SETTING,
		"The directory of hosts.toml files, which name mirrors. Set only if mirrors are "
		"configured and the directory is not. The default of 2.2 and later, two "
		"directories, has no effect where the transfer service pulls.",
		.def = "empty; /etc/containerd/certs.d in the packages of clouds",
		.option = "runtime.mirrors", .source = "containerd, docs/hosts.md"},
	{"*.max-concurrent-downloads", ENTRY_SETTING,
		"How many layers dockerd fetches at once, of all images together. dockerd reads "
		"it after SIGHUP, without affecting containers.",
		.unit = "layers", .def = "3", .option = "runtime.max_concurrent_downloads",
		.source = "Docker, reference of dockerd: daemon configuration file"},
	{"*.registry-mirrors", ENTRY_SETTING,
		"Mirrors of docker.io that dockerd asks first. Mirrors of others in daemon.json "
		"stay, after the configured mirrors.",
		.def = "none", .option = "runtime.mirrors",
		.source = "Docker, reference of dockerd: daemon configuration file"},
	{"mirrors.*", ENTRY_SETTING,
		"The mirrors that containerd asks before a registry: a hosts.toml of our "
		"own, which containerd reads at each pull. A mirror that does not answer is "
		"removed from it, because it would delay every layer by half a minute. Without a "
		"mirror the file is removed. A file made by others is left alone.",
		.def = "none", .option = "runtime.mirrors",
		.source = "containerd, docs/hosts.md; issues 10624 and 10660"},
	{"crio.mirrors.*", ENTRY_SETTING,
		"The mirrors that CRI-O asks before a registry: a file of our own in "
		"/etc/containers/registries.conf.d, which CRI-O reads again after SIGHUP. A mirror "
		"that does not answer is removed from it. A registry that another file there "
		"defines is left alone. CRI-O cannot have _default or a mirror with a path.",
		.def = "none", .option = "runtime.mirrors",
		.source = "containers-registries.conf(5); crio.conf(5)"},
	WORD("answers", ENTRY_RUNTIME_STATE, "Its socket answers."),
	WORD("asked", ENTRY_RUNTIME_STATE, "Its socket was asked and has not answered yet."),
	WORD("silent", ENTRY_RUNTIME_STATE, "It runs, and its socket does not answer in time."),
	WORD("not-running", ENTRY_RUNTIME_STATE, "It is installed, and has no socket."),
	WORD("Pods that run no container", ENTRY_COLUMN,
		"Pods of the runtime that wait, for example for the image that is pulled."),
	MEMBER("done", "The bytes of an image that have come in."),
	MEMBER("bytes_per_second", "The rate at which an image or a layer comes in."),
	MEMBER("manifest", "The digest of the manifest of an image that is pulled."),
	MEMBER("offset", "The bytes of a layer that have come in."),
	MEMBER("seconds_left", "The time until an image is complete, at its recent rate."),
	MEMBER("still_seconds", "How long nothing of a layer has come in."),
	MEMBER("url", "The address of a mirror."),
	MEMBER("waiting", "Pods of the runtime that run no container yet."),
	{0},
};

const struct condition_type runtime_conditions[] = {
	[RUNTIME_UNREACHABLE] = {"RuntimeUnreachable", SEVERITY_WARNING,
		"A container runtime is installed and does not answer. Its settings are not checked, "
		"and pods and containers appear under their ids.",
		REASON_LIST(REASON_RUNTIME_ANSWERS, REASON_RUNTIME_SILENT, REASON_RUNTIME_STOPPED,
			REASON_NO_RUNTIME),
		.hides_settings = true},
	[RUNTIME_RESTART_PENDING] = {"RuntimeRestartPending", SEVERITY_WARNING,
		"A setting is in the runtime's configuration and takes effect at its next start. "
		"Restart it, or let headroom do so: runtime.restart. With runtime.restart: never, "
		"or a runtime that another program manages, this is advice.",
		REASON_LIST(REASON_NONE_PENDING, REASON_RESTART_PENDING, REASON_RESTART_REFUSED,
			REASON_NO_SYSTEMD, REASON_RESTARTED_TOO_OFTEN, REASON_DOES_NOT_LOAD,
			REASON_NO_EFFECT, REASON_PROGRAM_DIFFERS)},
	[IMAGE_STORE_FULL] = {"ImageStoreFull", SEVERITY_WARNING,
		"The file system that holds the images is nearly full: pulls will fail, and the "
		"kubelet deletes images, preloaded ones too.",
		REASON_LIST(REASON_WITHIN_LIMIT, REASON_STORE_UNKNOWN, REASON_STORE_NEARLY_FULL)},
	[PULL_STUCK] = {"PullStuck", SEVERITY_WARNING,
		"A layer made no progress for one minute. The message names the layer, its "
		"registry and the number of other layers.",
		REASON_LIST(REASON_PULLS_MOVE, REASON_NO_PROGRESS), .is_recorded = true},
	[PULL_SLOW] = {"PullSlow", SEVERITY_ADVICE,
		"The rest of a layer takes more than ten minutes at its rate of the last minute. "
		"The message names the layer, its registry, the rate and the number of other "
		"layers. Docker does not report the size of a layer.",
		REASON_LIST(REASON_PULLS_MOVE, REASON_PULL_SLOW), .is_recorded = true},
	[STORAGE_DRIVER_SLOW] = {"StorageDriverSlow", SEVERITY_ADVICE,
		"The storage driver of a container runtime is slow. It delays pulls and starts of "
		"containers. The message names a better driver.",
		REASON_LIST(REASON_DRIVER_FAST, REASON_DRIVER_SLOW)},
	{0},
};

static const struct metric_row metric_rows[] = {
	{"headroom_runtime_info", METRIC_GAUGE, NULL,
		"A container runtime of this node and its version.", {"runtime", "version"}},
	{"headroom_runtime_max_concurrent_downloads", METRIC_GAUGE, "layers",
		"Layers that the runtime fetches at once: the value in force.", {"runtime"}},
	{"headroom_pulls_active", METRIC_GAUGE, "images", "Images that are being pulled now.",
		{"registry"}},
	{"headroom_pull_bytes_total", METRIC_COUNTER, "bytes",
		"Bytes of images fetched while the agent ran.", {"registry"}},
	{"headroom_pull_duration_seconds", METRIC_HISTOGRAM, "seconds",
		"Durations of pulls, from samples every few seconds.", {"registry"}},
	{0},
};

static const struct capability_row capabilities[] = {
	{CAPABILITY(CAP_CHOWN), CAPABILITY_TO_ENFORCE, NULL,
		"keeps the owner of a configuration file that does not belong to root"},
	{CAPABILITY(CAP_SYS_CHROOT), CAPABILITY_TO_CHROOT, NULL,
		"runs the host's containerd and dockerd to check a new file, from a container"},
	{0},
};

static void runtime_validate(const struct config *config, struct config_fault_list *faults)
{
	for (size_t i = 0; i < config_list(config, "runtime.mirrors"); i++) {
		const char *registry = config_item(config, "runtime.mirrors", i, "registry");
		const char *url = config_item(config, "runtime.mirrors", i, "url");
		struct config_position position =
			config_item_where(config, "runtime.mirrors", i, "url");
		char canonical[REGISTRY_NAME_MAX], quoted[TEXT_QUOTE_MAX];

		if (registry_check_url(url) < 0)
			config_fault_add(faults, &position,
				"runtime.mirrors.url: %s %s: use http[s]://HOST[:PORT][/PATH]",
				text_quote(quoted, url),
				/* The quoted text lacks them. */
				strpbrk(url, "@?#") ? "must come without user, password, query "
						      "and fragment"
						    : "is not the address of a mirror");
		else if ((registry_api_length(url) > 0) !=
			 streq(config_item(config, "runtime.mirrors", i, "override_path"), "true"))
			config_fault_add(faults, &position, "runtime.mirrors.url: \"%s\" %s", url,
				registry_api_length(url) > 0
					? "has a namespace behind /v2: add override_path: true, "
					  "or the runtime adds another /v2"
					: "has no namespace behind /v2: remove override_path");
		position = config_item_where(config, "runtime.mirrors", i, "registry");
		if (streq(registry, REGISTRY_DEFAULT))
			continue;
		if (registry_check_name(registry) < 0)
			config_fault_add(faults, &position,
				"runtime.mirrors.registry: %s is not a registry: use "
				"HOST[:PORT] or _default",
				text_quote(quoted, registry));
		else if (registry_canonical(registry, canonical))
			config_fault_add(faults, &position,
				"runtime.mirrors.registry: no runtime asks mirrors of \"%s\": write %s",
				registry, canonical);
	}
}

static void *runtime_open(const struct host *host, struct facts *facts, struct sd_event *event)
{
	struct runtime_tuner *tuner = must(calloc(1, sizeof(*tuner)));

	tuner->host = host;
	tuner->facts = facts;
	tuner->once = !event;
	tuner->event = event;
	return tuner;
}

static void runtime_configure(void *self, const struct config *config)
{
	struct runtime_tuner *tuner = self;
	struct runtime_config *ret = &tuner->config;
	const char *downloads =
		config_is_given(config, DOWNLOADS ".value") ? DOWNLOADS ".value" : DOWNLOADS;

	*ret = (struct runtime_config){
		.driver = runtime_driver_find(config_text(config, "runtime.kind")),
		.restart = (enum restart_policy)config_choice(config, "runtime.restart"),
	};
	ret->numbers[RUNTIME_DOWNLOADS] = (struct runtime_number){
		.value = config_count(config, downloads, 0),
		.exact = config_bool(config, DOWNLOADS ".exact"),
		.given = config_is_given(config, downloads),
	};
	ret->numbers[RUNTIME_PROGRESS_TIMEOUT].exact =
		ret->numbers[RUNTIME_PROGRESS_TIMEOUT].given =
			config_is_given(config, "runtime.pull_progress_timeout");
	if (config_choice(config, "runtime.pull_progress_timeout") < 0)
		ret->numbers[RUNTIME_PROGRESS_TIMEOUT].value =
			config_duration(config, "runtime.pull_progress_timeout");
	ret->n_mirrors = registry_read_mirrors(config, ret->mirrors);
	tuner->due = true;
}

static int on_file(sd_event_source *, const struct inotify_event *event, void *userdata)
{
	struct runtime_tuner *tuner = userdata;
	struct runtime_opened *opened = &tuner->opened[tuner->n_opened];
	char path[PATH_MAX];

	if (!(event->mask & IN_CREATE)) { /* dockerd replaces the directory when it starts */
		tuner->watch = sd_event_source_disable_unref(tuner->watch);
		return 0;
	}
	if (event->len == 0 || !starts_with(event->name, tuner->watch_prefix) ||
		tuner->n_opened == PULL_LAYERS_MAX || !set_text(opened->name, event->name))
		return 0;
	snprintf(path, sizeof(path), "%s/%s", tuner->watched, event->name);
	opened->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	tuner->n_opened += opened->fd >= 0;
	return 0;
}

/* Watches the directory of the first driver that asks for it, and keeps its opened files. */
static void watch_files(struct runtime_tuner *tuner, const struct runtime_tuner *request)
{
	const struct node_runtime *runtime = tuner ? tuner->sample.runtimes : NULL;
	size_t n = tuner ? tuner->sample.n : 0;

	while (n > 0 && !runtime->watch[0])
		n--, runtime++;
	for (size_t i = 0; i < request->n_opened; i++) {
		if (n > 0 && request->opened[i].fd >= 0 && tuner->n_opened < PULL_LAYERS_MAX)
			tuner->opened[tuner->n_opened++] = request->opened[i];
		else
			cleanup_close(&request->opened[i].fd);
	}
	if (!tuner || !tuner->event ||
		(n > 0 && tuner->watch && streq(tuner->watched, runtime->watch)))
		return;
	tuner->watch = sd_event_source_disable_unref(tuner->watch);
	if (n == 0)
		return;
	set_text(tuner->watched, runtime->watch);
	tuner->watch_prefix = runtime->watch_prefix;
	/* Without it, short pulls are missed. */
	(void)sd_event_add_inotify(tuner->event, &tuner->watch, tuner->watched,
		IN_CREATE | IN_MOVE_SELF | IN_DELETE_SELF | IN_ONLYDIR, on_file, tuner);
}

static void *runtime_sample_request(void *self, const void *memory, bool at_once)
{
	struct runtime_tuner *tuner = self, *request;
	struct runtime_sample *sample = &tuner->sample;
	uint64_t now = now_us(), next = sample->next_us, started;
	bool names = tuner->facts->names_wanted && now - sample->now_us >= SOON_US;

	if (at_once) {
		tuner->due = true;
		tuner->soon_until_us = now + SOON_FOR_US;
	}
	for (size_t i = 0; i < sample->n; i++) {
		struct node_runtime *runtime = &sample->runtimes[i];

		/* A restarted runtime is asked at once. */
		if (runtime->daemon.pid <= 0 || runtime->answer != RUNTIME_ANSWERS ||
			process_start("", runtime->daemon.pid, &started) != -ESRCH)
			continue;
		runtime->daemon.pid = 0;
		runtime->no_cri = false;
		runtime->due_us = 0;
		tuner->due = true;
	}
	if (now < tuner->soon_until_us)
		next = MIN(next, sample->now_us + SOON_US);
	if (((const struct runtime_memory *)memory)->awaits_idle)
		next = MIN(next, sample->now_us + IDLE_EVERY_US);
	if (!tuner->due && !names && now < next)
		return NULL;
	request = must(malloc(sizeof(*request)));
	*request = *tuner;
	tuner->n_opened = 0;
	request->recorded = ((const struct runtime_memory *)memory)->recorded;
	request->sample.runtimes = must(calloc(sample->n + 1, sizeof(*sample->runtimes)));
	request->sample.files = NULL;
	request->sample.n_files = 0;
	for (size_t i = 0; i < sample->n; i++) {
		request->sample.runtimes[i] = sample->runtimes[i];
		sample->runtimes[i].addresses = (struct runtime_addresses){0};
		/* A written value may be in force already. */
		if (now < tuner->soon_until_us ||
			(names && sample->runtimes[i].answer == RUNTIME_ANSWERS))
			request->sample.runtimes[i].due_us = 0;
	}
	if (tuner->due)
		request->sample.discover_due_us = 0;
	tuner->due = false;
	return request;
}

static void pass_stores(const struct runtime_tuner *tuner)
{
	struct node_disks *disks = &tuner->facts->disks;
	bool all_answer = tuner->sample.n > 0;

	disks->n_images = 0;
	for (size_t i = 0; i < tuner->sample.n && disks->n_images < NODE_IMAGES_MAX; i++) {
		const struct node_runtime *runtime = &tuner->sample.runtimes[i];
		const struct runtime_store *store = &runtime->store;
		struct node_images *images = &disks->images[disks->n_images];

		all_answer &= runtime->answer == RUNTIME_ANSWERS &&
			      (runtime->no_cri || runtime->names.known);
		if (!store->known)
			continue;
		images->runtime = runtime->no_cri ? NULL : runtime->found.name;
		set_text(images->socket, runtime->found.socket);
		set_text(images->path, store->directory);
		images->device = store->number;
		disks->n_images++;
	}
	tuner->facts->names_complete = all_answer;
}

static void runtime_sample_adopt(void *self, void *data)
{
	struct runtime_tuner *tuner = self, *request = data;
	struct names *names = tuner ? &tuner->facts->names : NULL;
	struct runtime_sample *sample = &request->sample, before;

	if (tuner && !request->cancelled) {
		before = tuner->sample;
		/* Passes on new names, and removes those of vanished runtimes. */
		for (size_t i = 0; i < before.n; i++)
			if (!runtime_find(sample, before.runtimes[i].found.socket))
				names_replace(names, before.runtimes[i].found.socket, NULL, 0);
		for (size_t i = 0; i < sample->n; i++) {
			struct node_runtime *runtime = &sample->runtimes[i];

			if (runtime->names.fresh)
				names_replace(names, runtime->found.socket,
					steal(runtime->names.entries), runtime->names.n);
			runtime->names.known |= runtime->names.fresh;
			runtime->names.fresh = false;
		}
		tuner->sample = *sample;
		*sample = before;
		pass_stores(tuner);
	}
	watch_files(tuner, request);
	runtime_sample_clear(sample);
	free(request);
}

static void runtime_close(void *self, void *)
{
	struct runtime_tuner *tuner = self;

	sd_event_source_disable_unref(tuner->watch);
	watch_files(NULL, tuner);
	runtime_sample_clear(&tuner->sample);
	free(tuner);
}

const struct tuner_tables runtime_tables = {
	.summary =
		"Sets how many layers the container runtime fetches at once and from which mirrors, "
		"and watches pulls and the image store.",
	.limits = limits,
	.entries = entries,
	.conditions = runtime_conditions,
	.metric_rows = metric_rows,
	.capabilities = capabilities,
	.view = &runtime_view,
};

const struct tuner_ops runtime_tuner = {
	.name = "runtime",
	.tables = &runtime_tables,
	.validate = runtime_validate,
	.open = runtime_open,
	.configure = runtime_configure,
	.tasks[TASK_SAMPLE] = {runtime_sample_request, runtime_sample, runtime_sample_adopt, NULL},
	.memory_size = sizeof(struct runtime_memory),
	.decide = runtime_decide,
	.document = runtime_document,
	.metrics = runtime_metrics,
	.close = runtime_close,
};
