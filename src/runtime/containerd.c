/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/containerd.h"

#include "base/file.h"
#include "base/json.h"
#include "runtime/containerd_config.h"
#include "runtime/cri_read.h"

#include <ctype.h>

/* Labels of a manifest: its layers, and the repositories of its pulls. */
#define LAYER_LABEL  "containerd.io/gc.ref.content.l."
#define SOURCE_LABEL "containerd.io/distribution.source."

#define DEFAULT_DOWNLOADS "3"

/* ---- find ---- */

#define RANCHER(name) "/var/lib/rancher/" name "/agent/etc/containerd/config.toml"
#define SNAP          "/var/snap/microk8s/"

static const struct runtime_location locations[] = {
	{.runtime = {.name = "containerd",
		 .managed_by = RUNTIME_OF_NODE,
		 .socket = "/run/containerd/containerd.sock",
		 .config = CONTAINERD_MAIN_FILE,
		 .unit = "containerd.service"}},
	{.runtime = {.name = "rke2",
		 .managed_by = RUNTIME_OF_K8S,
		 .socket = "/run/k3s/containerd/containerd.sock",
		 .config = RANCHER("rke2"),
		 .unit = "rke2-server.service"},
		.other_unit = "rke2-agent.service",
		.needs = "/var/lib/rancher/rke2"},
	{.runtime = {.name = "k3s",
		 .managed_by = RUNTIME_OF_K8S,
		 .socket = "/run/k3s/containerd/containerd.sock",
		 .config = RANCHER("k3s"),
		 .unit = "k3s.service"},
		.other_unit = "k3s-agent.service"},
	{.runtime = {.name = "k0s",
		 .managed_by = RUNTIME_OF_K8S,
		 .socket = "/run/k0s/containerd.sock",
		 .config = "/etc/k0s/containerd.toml",
		 .unit = "k0scontroller.service"},
		.other_unit = "k0sworker.service"},
	{.runtime = {.name = "microk8s",
		 .managed_by = RUNTIME_OF_K8S,
		 .socket = SNAP "common/run/containerd.sock",
		 .config = SNAP "current/args/containerd.toml",
		 .unit = "snap.microk8s.daemon-containerd.service"}},
	/* dockerd starts and stops it. */
	{.runtime = {.name = "docker-containerd",
		 .managed_by = RUNTIME_NESTED,
		 .socket = "/run/docker/containerd/containerd.sock",
		 .config = "/run/docker/containerd/containerd.toml",
		 .unit = "docker.service"}},
	{.runtime = {0}},
};

/* ---- read ---- */

static void ask_version(struct cri_reading *session)
{
	struct node_runtime *runtime = session->runtime;
	const Containerd__VersionResponse *own;
	const Cri__VersionResponse *version;
	int r = GRPC_UNIMPLEMENTED;

	if (!runtime->no_cri)
		r = cri_ask(session, CRI_VERSION, NULL, NULL, &version);
	/* A containerd without its CRI plugin still pulls: Docker uses one. */
	runtime->no_cri = r == GRPC_UNIMPLEMENTED;
	if (runtime->no_cri)
		r = cri_ask(session, CONTAINERD_VERSION, NULL, NULL, &own);
	if (cri_is_ready(session, r))
		cri_set_version(session, runtime->no_cri ? own->version : version->runtime_version);
}

static void ask_status(struct cri_reading *session)
{
	struct node_runtime *runtime = session->runtime;
	_cleanup_(cleanup_cJSON_Delete) cJSON *config = NULL;
	const cJSON *downloads;
	unsigned long long us;
	int r = cri_get_config(&session->cri, &session->wait, &config);

	if (!cri_is_ready(session, r))
		return;
	memset(runtime->reported, 0, sizeof(runtime->reported));
	downloads = json_at(config, "maxConcurrentDownloads");
	if (cJSON_IsNumber(downloads) && downloads->valuedouble >= 0)
		snprintf(runtime->reported[RUNTIME_DOWNLOADS], SETTING_VALUE_MAX, "%d",
			downloads->valueint);
	if (runtime_duration_parse(json_text_at(config, "imagePullProgressTimeout"), &us) == 0)
		runtime_duration_text(us, runtime->reported[RUNTIME_PROGRESS_TIMEOUT]);
	copy_text(runtime->reported[RUNTIME_HOSTS_DIRECTORY], SETTING_VALUE_MAX,
		json_text_at(config, "registry/configPath"));
	set_text(runtime->store.driver, json_text_at(config, "containerd/snapshotter"));
}

static void ask_namespaces(struct cri_reading *session)
{
	struct node_runtime *runtime = session->runtime;
	const Containerd__ListNamedResponse *found;

	if (!cri_is_good(session, cri_ask(session, CONTAINERD_NAMESPACES, NULL, NULL, &found)))
		return;
	/* It exists after the first pull. */
	set_text(runtime->containerd.namespaces[0], CRI_NAMESPACE);
	runtime->containerd.n_namespaces = 1;
	for (size_t i = 0;
		i < found->n_items && runtime->containerd.n_namespaces < RUNTIME_NAMESPACES_MAX;
		i++)
		if (!streq(found->items[i]->name, CRI_NAMESPACE))
			copy_text(
				runtime->containerd.namespaces[runtime->containerd.n_namespaces++],
				sizeof(runtime->containerd.namespaces[0]), found->items[i]->name);
}

/* Times are between 1970 and the year 9999 (bounds of the format). */
static uint64_t age_of(const Containerd__Timestamp *stamp)
{
	static const int64_t last = INT64_C(253402300799);

	if (!stamp || stamp->seconds <= 0 || stamp->seconds > last || stamp->nanos < 0)
		return 0;
	return pulls_age(realtime_us(),
		(uint64_t)stamp->seconds * USEC_PER_SEC + (uint64_t)stamp->nanos / 1000);
}

/* docker.io/library/nginx of ...source.docker.io=library/nginx,other/name */
static bool find_source(const Containerd__Info *info, char image[static 160])
{
	size_t source = 0;
	char *ours;

	while (source < info->n_labels && !starts_with(info->labels[source]->key, SOURCE_LABEL))
		source++;
	if (source == info->n_labels ||
		snprintf(image, 160, "%s/%.*s", info->labels[source]->key + strlen(SOURCE_LABEL),
			(int)strcspn(info->labels[source]->value, ","),
			info->labels[source]->value) >= 160)
		return false;
	/* The rest is a secret. */
	ours = strstr(image, "/" IMAGES_REPOSITORY "/");
	if (ours)
		ours[strlen("/" IMAGES_REPOSITORY "/")] = '\0';
	return true;
}

/*
 * Appends the blobs that have come in since the last time: between two samples a whole pull can
 * begin and end. Their files tell the sizes. Without a view of them, n does not change.
 */
static size_t add_new_blobs(struct cri_reading *session, struct pull_piece *pieces, size_t n)
{
	struct node_runtime *runtime = session->runtime;
	const struct pulls *pulls = &runtime->pulls;
	uint64_t since_us = runtime->containerd.blobs_us,
		 *latest_us = &runtime->containerd.blobs_us;
	_cleanup_(cleanup_closedir) DIR *directory = NULL;
	char path[SETTING_PATH_MAX + 64], full[PATH_MAX];
	const struct dirent *entry;
	struct stat st;

	since_us = MIN(since_us, realtime_us()); /* the clock may have been set back */
	/* The store is containerd's snapshotter, beside its content. */
	copy_text(path, SETTING_PATH_MAX, runtime->store.directory);
	if (!strrchr(path, '/') || n == PULL_LAYERS_MAX)
		return n;
	strcpy(strrchr(path, '/'), "/io.containerd.content.v1.content/blobs/sha256");
	if (path_in_root(session->reading->host->root, path, full) < 0 || stat(full, &st) < 0 ||
		us_of(st.st_mtim) + USEC_PER_SEC < since_us)
		return n;
	*latest_us = MAX(since_us, us_of(st.st_mtim));
	directory = since_us > 0 ? opendir(full) : NULL;
	while (directory && (entry = readdir(directory))) {
		struct pull_piece *piece = &pieces[MIN(n, (size_t)PULL_LAYERS_MAX - 1)];
		const char *ref = NULL;

		if (fstatat(dirfd(directory), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
			!S_ISREG(st.st_mode) || us_of(st.st_mtim) <= since_us)
			continue;
		*latest_us = MAX(*latest_us, us_of(st.st_mtim));
		for (size_t i = 0; i < n && !ref; i++)
			ref = strstr(pieces[i].ref, entry->d_name);
		if (ref)
			continue;
		for (size_t i = 0; i < pulls->n && !ref; i++)
			if (strstr(pulls->layers[i].piece.ref, entry->d_name))
				ref = pulls->layers[i].piece.ref;
		/* A last piece stands for all that would be too many. */
		piece->offset += (uint64_t)st.st_size;
		piece->total = piece->offset;
		if (n == PULL_LAYERS_MAX)
			continue;
		if (ref)
			set_text(piece->ref, ref);
		else
			snprintf(piece->ref, sizeof(piece->ref), "sha256:%.64s", entry->d_name);
		n++;
	}
	return n;
}

/* Pulls of all namespaces, in one update. */
static void ask_pulls(struct cri_reading *session)
{
	struct node_runtime *runtime = session->runtime;
	_cleanup_free_ struct pull_piece *pieces = must(calloc(PULL_LAYERS_MAX, sizeof(*pieces)));
	size_t n = 0;

	for (size_t at = 0; at < runtime->containerd.n_namespaces; at++) {
		const Containerd__ListStatusesResponse *found;

		if (!cri_is_good(
			    session, cri_ask(session, CONTAINERD_INGESTS,
					     runtime->containerd.namespaces[at], NULL, &found)))
			return;
		for (size_t i = 0; i < found->n_statuses && n < PULL_LAYERS_MAX; i++) {
			const Containerd__IngestStatus *ingest = found->statuses[i];
			struct pull_piece *piece = &pieces[n++];

			piece->offset = (uint64_t)MAX(ingest->offset, (int64_t)0);
			piece->total = (uint64_t)MAX(ingest->total, (int64_t)0);
			piece->age_us = age_of(ingest->started_at);
			piece->still_us = age_of(ingest->updated_at);
			set_text(piece->ref, ingest->ref);
			set_text(piece->namespace, runtime->containerd.namespaces[at]);
		}
	}
	n = add_new_blobs(session, pieces, n);
	runtime->pulls_at_us = now_us();
	pulls_update(&runtime->pulls, session->reading->pulled, pieces, n, runtime->pulls_at_us);
}

/* Names layers by the content that these filters select: by its labels, or as itself. */
static void name_layers(struct cri_reading *session, const char *namespace, char **filters,
	size_t n_filters, bool by_labels)
{
	Containerd__FilterRequest message = CONTAINERD__FILTER_REQUEST__INIT;
	struct pulls *pulls = &session->runtime->pulls;
	const Containerd__ListContentResponse *found;
	char image[160];

	message.filters = filters;
	message.n_filters = n_filters;
	if (cri_ask(session, CONTAINERD_CONTENT, namespace, &message.base, &found) != 0)
		return;
	for (size_t m = 0; m < found->n_info; m++) {
		const Containerd__Info *info = found->info[m];

		if (!find_source(info, image))
			continue;
		if (!by_labels)
			pulls_name(pulls, info->digest, image);
		for (size_t i = 0; by_labels && i < info->n_labels; i++)
			if (starts_with(info->labels[i]->key, LAYER_LABEL))
				pulls_name(pulls, info->labels[i]->value, image);
	}
}

/*
 * Names complete layers by their own labels, and the layers of an image by the manifest of one
 * layer. The layers take turns, because a layer without a manifest must not delay the others.
 */
static void ask_content(struct cri_reading *session)
{
	char texts[PULL_LAYERS_MAX][256], *filters[PULL_LAYERS_MAX];
	struct node_runtime *runtime = session->runtime;
	const struct pulls *pulls = &runtime->pulls;
	const struct pull_layer *layer;
	const char *digest;
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(filters); i++)
		filters[i] = texts[i];
	for (size_t i = 0; i < pulls->n; i++) {
		digest = strstr(pulls->layers[i].piece.ref, "sha256:");
		if (digest && !pulls->layers[i].image[0] &&
			pulls_is_complete(&pulls->layers[i].piece))
			snprintf(texts[n++], sizeof(texts[0]), "digest==\"%s\"", digest);
	}
	for (size_t i = 0; n > 0 && i < runtime->containerd.n_namespaces; i++)
		name_layers(session, runtime->containerd.namespaces[i], filters, n, false);
	layer = pulls_nameless(pulls, runtime->containerd.content_turn);
	digest = layer ? strstr(layer->piece.ref, "sha256:") : NULL;
	if (!digest || !layer->piece.namespace[0])
		return;
	runtime->containerd.content_turn++;
	/* Filters are alternatives. */
	for (size_t i = 0; i < ARRAY_SIZE(filters); i++)
		snprintf(texts[i], sizeof(texts[i]), "labels.\"" LAYER_LABEL "%zu\"==\"%s\"", i,
			digest);
	name_layers(session, layer->piece.namespace, filters, ARRAY_SIZE(filters), true);
}

/*
 * "127.0.0.1:5000/app" of "127.0.0.1/app": containerd's label lacks the registry's port, which the
 * names of images from there have, and this one's when it has come in.
 */
static bool find_full_name(
	struct cri_reading *session, const char *namespace, const char *name, char full[static 160])
{
	Containerd__FilterRequest message = CONTAINERD__FILTER_REQUEST__INIT;
	const Containerd__ListImagesResponse *found;
	size_t host = strcspn(name, "/"), len = strlen(name + host);
	char filter[200], *filters[] = {filter};
	bool any = false, same = false;

	snprintf(filter, sizeof(filter), "name~=\"^%.*s(:[0-9]+)?/\"", (int)host, name);
	message.filters = filters;
	message.n_filters = 1;
	if (cri_ask(session, CONTAINERD_IMAGES, namespace, &message.base, &found) != 0)
		return false;
	/* Prefer the port of the same image. */
	for (size_t i = 0; i < found->n_images && !same; i++) {
		const char *image = found->images[i]->name;
		size_t registry = strcspn(image, "/");

		if (strncmp(image, name, host) != 0 || !strchr(":/", image[host]))
			continue;
		same = strncmp(image + registry, name + host, len) == 0 &&
		       strchr(":@", image[registry + len]);
		any = snprintf(full, 160, "%.*s%s", (int)registry, image, name + host) < 160;
	}
	return any;
}

static void ask_registries(struct cri_reading *session)
{
	struct node_runtime *runtime = session->runtime;
	struct pulls *pulls = &runtime->pulls;

	for (size_t i = 0; i < pulls->n_images; i++) {
		const struct pull_image *image = &pulls->images[i];
		char name[160], full[160];

		set_text(name, image->name);
		for (size_t at = 0;
			name[0] && !image->has_port && at < runtime->containerd.n_namespaces;
			at++) {
			if (!find_full_name(
				    session, runtime->containerd.namespaces[at], name, full))
				continue;
			pulls_set_full_name(pulls, name, full);
			break;
		}
	}
}

static void read_containerd(struct runtime_reading *reading)
{
	static const struct cri_question questions[] = {
		{ask_version, false, true},
		{ask_status, true, true},
		{cri_ask_names, true, true},
		{cri_ask_store, true, true},
		{ask_namespaces, false, true},
		{ask_pulls, false, false},
		{ask_content, false, false},
		{ask_registries, false, false},
		{0},
	};

	cri_read(reading, questions);
}

static void read_files(
	struct node_runtime *runtime, const struct host *host, const struct wait *wait)
{
	const struct runtime_files *files = &runtime->files;
	const char *version = runtime->daemon.version;

	version += version[0] == 'v';
	containerd_config_read(host, &runtime->daemon, wait, &runtime->files);
	/* 1.x reports all values, 2.x only some. */
	if (version[0] == '1' && !runtime->no_cri) {
		for (int i = RUNTIME_DOWNLOADS; i <= RUNTIME_HOSTS_DIRECTORY; i++)
			copy_text(runtime->in_force[i], SETTING_VALUE_MAX, runtime->reported[i]);
	} else if (files->error == 0) {
		/* The CRI's number has no effect if the transfer service pulls. */
		runtime_infer(runtime, RUNTIME_DOWNLOADS, files->changed_us,
			files->transfer ? "" : runtime->reported[RUNTIME_DOWNLOADS],
			DEFAULT_DOWNLOADS);
		runtime_infer(runtime, RUNTIME_PROGRESS_TIMEOUT, files->changed_us,
			runtime->reported[RUNTIME_PROGRESS_TIMEOUT], "");
		runtime_infer(runtime, RUNTIME_HOSTS_DIRECTORY, files->changed_us,
			runtime->reported[RUNTIME_HOSTS_DIRECTORY], "");
	}
}

/* ---- verify ---- */

static int check(const struct host *host, const struct daemon *daemon, const struct wait *wait,
	char why[static RUNTIME_WHY_MAX])
{
	_cleanup_free_ char *dump = NULL;
	char full[PATH_MAX];

	/* Without a main file it runs with its defaults. */
	if (path_in_root(host->root, daemon->config, full) == -ENOENT)
		return 0;
	return containerd_dump(host, daemon, daemon->config, wait, &dump, why);
}

/* ---- images ---- */

/* The CRI honours the label from containerd 1.6.25, 1.7.10 and 2.0 on. */
static bool honours_pins(const char *version)
{
	version += version[0] == 'v';
	return isdigit((unsigned char)version[0]) &&
	       (strverscmp(version, "1.7.10") >= 0 ||
		       (strverscmp(version, "1.6.25") >= 0 && strverscmp(version, "1.7") < 0));
}

const struct runtime_driver containerd_driver = {
	.name = "containerd",
	.locations = locations,
	.options = {"config", "c"},
	.read = read_containerd,
	.read_files = read_files,
	.format = EDIT_TOML,
	.keys =
		{
			[RUNTIME_DOWNLOADS] = {"max_concurrent_downloads", ACTIVATE_RESTART,
				UINT64_MAX},
			[RUNTIME_PROGRESS_TIMEOUT] = {"image_pull_progress_timeout",
				ACTIVATE_RESTART, UINT64_MAX},
			[RUNTIME_HOSTS_DIRECTORY] = {"config_path", ACTIVATE_RESTART, 0},
		},
	.mirrors = &containerd_mirrors,
	.names_registry = true,
	.find_mirrors = containerd_find_mirrors,
	.needs_program = true,
	.check = check,
	.dump = containerd_dump,
	.main_file = containerd_main_file,
	.serves_kubelet = true,
	.copies_per_image = 2,
	.honours_pins = honours_pins,
	.read_images_info = containerd_read_images_info,
	.list = cri_list_images,
	.find = cri_find_image,
	.pull = containerd_pull,
	.load = containerd_load,
	.clean = containerd_clean,
	.remove_files = containerd_remove_files,
	.has_leftovers = containerd_has_leftovers,
	.pin = containerd_pin,
};
