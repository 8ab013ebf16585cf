/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver of containerd; its images are in containerd_images.c, its mirrors in
 * containerd_mirrors.c. In this order: its reports over the CRI and its own services; its
 * configuration files and dumps; where each of our keys belongs; the file that it refuses; the
 * members of struct runtime_driver. Nothing here writes a file.
 */
#include "runtime/containerd.h"

#include "base/file.h"
#include "base/json.h"
#include "base/toml.h"
#include "runtime/cri.h"

#include <ctype.h>
#include <fnmatch.h>
#include <glob.h>

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
	/* The pods that wait for it. */
	if (n > 0 && runtime->pulls.n == 0)
		runtime->due_us = 0;
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
			(void)pulls_name(pulls, info->digest, image);
		for (size_t i = 0; by_labels && i < info->n_labels; i++)
			if (starts_with(info->labels[i]->key, LAYER_LABEL) &&
				pulls_name(pulls, info->labels[i]->value, image))
				pulls_add_manifest(pulls, info->digest, namespace, image, now_us());
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

/* Reads the layers of a manifest. Returns their number; 0: it is not known. */
static size_t read_parts(struct cri_reading *session, const struct pull_progress *progress,
	struct pull_part parts[static PULL_PARTS_MAX])
{
	Containerd__ReadContentRequest request = CONTAINERD__READ_CONTENT_REQUEST__INIT;
	_cleanup_(cleanup_cJSON_Delete) cJSON *manifest = NULL;
	const Containerd__ReadContentResponse *answer;
	const cJSON *layer;
	size_t n = 0;

	request.digest = (char *)progress->manifest;
	if (cri_ask(session, CONTAINERD_READ, progress->namespace, &request.base, &answer) != 0)
		return 0;
	manifest = cJSON_ParseWithLength((const char *)answer->data.data, answer->data.len);
	cJSON_ArrayForEach (layer, json_at(manifest, "layers")) {
		const char *digest = json_text_at(layer, "digest");
		double size = json_number_at(layer, "size");

		/* A filter has the digest in quotes. */
		if (n == PULL_PARTS_MAX || !starts_with(digest, "sha256:") ||
			strspn(digest + 7, "0123456789abcdef") != 64 || digest[7 + 64] ||
			size < 0 || size > 1e15)
			return 0;
		parts[n] = (struct pull_part){.size = (uint64_t)size};
		set_text(parts[n++].digest, digest);
	}
	return n;
}

/* Marks the layers that have come in. */
static bool find_existing(struct cri_reading *session, const struct pull_progress *progress,
	struct pull_part *parts, size_t n)
{
	char texts[PULL_LAYERS_MAX][96], *filters[PULL_LAYERS_MAX];
	Containerd__FilterRequest message = CONTAINERD__FILTER_REQUEST__INIT;
	const Containerd__ListContentResponse *found;

	message.filters = filters;
	/* containerd answers nothing at all without a match: ask for the manifest, too. */
	for (size_t at = 0; at < n; at += PULL_LAYERS_MAX - 1) {
		size_t end = MIN(n, at + PULL_LAYERS_MAX - 1);

		message.n_filters = end - at + 1;
		for (size_t i = 0; i < message.n_filters; i++) {
			snprintf(texts[i], sizeof(texts[i]), "digest==\"%s\"",
				at + i < end ? parts[at + i].digest : progress->manifest);
			filters[i] = texts[i];
		}
		if (cri_ask(session, CONTAINERD_CONTENT, progress->namespace, &message.base,
			    &found) != 0)
			return false;
		for (size_t i = at; i < end; i++)
			for (size_t k = 0; k < found->n_info && !parts[i].exists; k++)
				parts[i].exists = streq(found->info[k]->digest, parts[i].digest);
	}
	return n > 0;
}

/* Measures the pulls with a known manifest. */
static void ask_progress(struct cri_reading *session)
{
	struct pulls *pulls = &session->runtime->pulls;
	struct pull_part parts[PULL_PARTS_MAX];

	for (size_t i = 0; i < pulls->n_progress; i++) {
		struct pull_progress *progress = &pulls->progress[i];
		size_t n = read_parts(session, progress, parts);

		if (find_existing(session, progress, parts, n))
			pulls_measure(pulls, progress, parts, n, now_us());
	}
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
		{ask_progress, false, false},
		{ask_registries, false, false},
		{0},
	};

	cri_read(reading, questions);
}

/* ---- files and dumps ---- */

#define DROP_IN   "99-headroom.toml"
#define FILES_MAX 32 /* in one configuration */

struct containerd_file {
	char path[SETTING_PATH_MAX]; /* below the host's root */
	char *text;                  /* NULL for a main file or own file that does not exist */
	size_t len;
	size_t parent; /* index of the file that imports it */
	bool own;      /* a file of ours would be read here */
	bool nested;   /* an imported file imports it */
};

/* In the order in which containerd reads them; the main file is the first. */
struct containerd_files {
	struct containerd_file files[FILES_MAX];
	size_t n;
	size_t own;          /* index of our own file; 0: no import includes it */
	size_t last;         /* index of the file that was read last */
	uint64_t changed_us; /* CLOCK_REALTIME of the newest file */
};

#define DUMP_MAX    ((size_t)4 << 20)
#define VERSION_MAX 4096

static void clear_files(struct containerd_files *files)
{
	for (size_t i = 0; i < files->n; i++)
		free(steal(files->files[i].text));
	files->n = 0;
}

/* Makes the path of an import, as Go's filepath.Clean. False when it is too long. */
static bool import_path(
	const char *directory, const char *import, char path[static SETTING_PATH_MAX])
{
	char full[2 * SETTING_PATH_MAX + 2];

	snprintf(full, sizeof(full), "/%s/%s", import[0] == '/' ? "" : directory, import);
	path_clean(full);
	return copy_text(path, SETTING_PATH_MAX, full);
}

/* Adds a file once. Returns its index or -errno. */
static int add_file(struct containerd_files *files, const char *path)
{
	struct containerd_file *file = &files->files[files->n];

	for (size_t i = 0; i < files->n; i++)
		if (streq(files->files[i].path, path))
			return (int)i;
	if (files->n == FILES_MAX)
		return -E2BIG;
	*file = (struct containerd_file){0};
	if (!set_text(file->path, path))
		return -ENAMETOOLONG;
	return (int)files->n++;
}

/* An existing file in any of the places is ours, else the last place counts. */
static int add_own(const struct host *host, struct containerd_files *files, const char *path)
{
	char full[PATH_MAX];
	int r = add_file(files, path);

	if (r < 0)
		return r;
	files->files[r].own = true;
	if (files->own == 0 || path_in_root(host->root, files->files[files->own].path, full) < 0)
		files->own = (size_t)r;
	return 0;
}

/*
 * Adds matches of a pattern as Go's filepath.Glob: "*" matches a leading dot, unreadable
 * directories are skipped. Only rest has a pattern, which may be that of a directory. ours: adds
 * our own file in its order, even if it does not exist.
 */
static int add_matches(const struct host *host, struct containerd_files *files, const char *path,
	const char *rest, bool ours)
{
	char directory[PATH_MAX], pattern[PATH_MAX + SETTING_PATH_MAX];
	char found[SETTING_PATH_MAX], own[SETTING_PATH_MAX];
	size_t n = strcspn(rest, "/");
	bool deeper = rest[n] == '/';
	glob_t matches = {0};
	int r = 0;

	if (deeper && strcspn(rest, "*?[\\") >= n) {
		if (snprintf(found, sizeof(found), "%s/%.*s", path, (int)n, rest) >=
			(int)sizeof(found))
			return -ENAMETOOLONG;
		return add_matches(host, files, found, rest + n + 1, ours);
	}
	snprintf(own, sizeof(own), "%s/" DROP_IN, path);
	if (path_in_root(host->root, path[0] ? path : "/", directory) == 0) {
		snprintf(pattern, sizeof(pattern), "%s/%.*s", directory, (int)n, rest);
		glob(pattern, GLOB_PERIOD, NULL, &matches);
	}
	/* A pattern of directories may match one that is not for us. */
	ours = ours && !deeper && fnmatch(rest, DROP_IN, 0) == 0;
	for (size_t i = 0; i <= matches.gl_pathc && r >= 0; i++) {
		bool end = i == matches.gl_pathc;
		const char *match = end ? "" : strrchr(matches.gl_pathv[i], '/');

		if (streq(match, "/.") || streq(match, "/.."))
			continue;
		if (snprintf(found, sizeof(found), "%s%s", path, match) >= (int)sizeof(found))
			r = -ENAMETOOLONG;
		if (ours && (end || strcmp(found, own) >= 0)) {
			r = add_own(host, files, own);
			ours = false;
		}
		if (!end && r >= 0)
			r = deeper ? add_matches(host, files, found, rest + n + 1, false)
				   : add_file(files, found);
	}
	globfree(&matches);
	return r;
}

/*
 * A relative import starts at the directory of its file; 1.x may resolve a pattern from its working
 * directory: add both and let filter_files() decide.
 */
static int add_import(const struct host *host, const struct daemon *daemon,
	struct containerd_files *files, size_t parent, const char *import)
{
	bool pattern = strchr(import, '*') != NULL, is_1 = starts_with(daemon->version, "1.");
	bool both = pattern && import[0] != '/' && is_1;
	char directory[SETTING_PATH_MAX], path[SETTING_PATH_MAX];
	size_t before = files->n;
	int r = 0;

	set_text(directory, files->files[parent].path);
	*strrchr(directory, '/') = '\0';
	for (int i = 0; i < (both ? 2 : 1) && r >= 0; i++) {
		if (!import_path(i == 0 ? directory : daemon->directory, import, path))
			return -ENAMETOOLONG;
		r = pattern ? add_matches(host, files, "", path + 1, !is_1) : add_file(files, path);
	}
	for (; before < files->n; before++) {
		files->files[before].parent = parent;
		files->files[before].nested = parent > 0;
	}
	return MIN(r, 0);
}

static int read_file_of(const struct host *host, const struct daemon *daemon,
	struct containerd_files *files, size_t i, char why[static RUNTIME_WHY_MAX])
{
	struct containerd_file *file = &files->files[i];
	char full[PATH_MAX], import[SETTING_PATH_MAX], fault[TOML_WHY_MAX];
	struct toml_item item;
	struct stat st;
	size_t at = 0;
	int r = path_in_root(host->root, file->path, full);

	if (r == 0)
		r = read_file(full, TOML_TEXT_MAX, &file->text, &file->len);
	if (r == -ENOENT && host_is_dangling(host, file->path)) {
		snprintf(why, RUNTIME_WHY_MAX, "%s is a dangling link", file->path);
		return -ELOOP;
	}
	/* containerd starts without a main file, and newer ones without an import: the dump tells.
	 */
	if (r == -ENOENT)
		return 0;
	if (r == 0 && stat(full, &st) == 0)
		files->changed_us = MAX(files->changed_us, us_of(st.st_ctim));
	if (r == 0) {
		r = toml_find(file->text, file->len, "", "imports", &item, fault);
		if (r == -EBADMSG)
			snprintf(why, RUNTIME_WHY_MAX, "%s:%s", file->path, fault);
		if (r < 0)
			return r == -ENOENT ? 0 : r;
	}
	while (r == 0 && toml_next_string(file->text, &item, &at, import, sizeof(import)))
		r = add_import(host, daemon, files, i, import);
	if (r < 0)
		snprintf(why, RUNTIME_WHY_MAX, "%s: %s", file->path,
			r == -E2BIG ? "it imports too many files" : strerror(-r));
	return r;
}

/* Reads all files. -errno with why: "PATH:LINE:COLUMN: what". The caller clears files. */
static int read_files_of(const struct host *host, const struct daemon *daemon,
	struct containerd_files *files, char why[static RUNTIME_WHY_MAX])
{
	int r;

	*files = (struct containerd_files){0};
	r = add_file(files, daemon->config);
	for (size_t i = 0; r == 0 && i < files->n; i++)
		r = read_file_of(host, daemon, files, files->last = i, why);
	return r;
}

/* Removes the files that the imports of a 1.x's dump lack: containerd did not read them. */
static void filter_files(
	struct containerd_files *files, const struct daemon *daemon, const char *dump)
{
	char import[SETTING_PATH_MAX], full[SETTING_PATH_MAX];
	struct toml_item item;
	size_t kept = 1;
	bool imports = toml_find(dump, strlen(dump), "", "imports", &item, NULL) == 0;

	if (!starts_with(daemon->version, "1."))
		return;
	for (size_t i = 1; i < files->n; i++) {
		bool found = false;
		size_t at = 0;

		while (imports && !found &&
			toml_next_string(dump, &item, &at, import, sizeof(import)))
			found = import_path(daemon->directory, import, full) &&
				streq(full, files->files[i].path);
		if (found)
			files->files[kept++] = files->files[i];
		else
			free(files->files[i].text);
	}
	files->n = kept;
}

int containerd_dump(const struct host *host, const struct daemon *daemon, const char *path,
	const struct wait *wait, char **dump, char why[static RUNTIME_WHY_MAX])
{
	const char *const arguments[] = {daemon->program, "-c", path, "config", "dump", NULL};
	const char *const defaults[] = {daemon->program, "config", "default", NULL};
	struct child child = {.arguments = path ? arguments : defaults,
		.root = host->root,
		.directory = daemon->directory,
		.output_max = DUMP_MAX};

	return child_ask(&child, wait, dump, why);
}

int containerd_check_program(const struct host *host, const struct daemon *daemon,
	const struct wait *wait, char why[static RUNTIME_WHY_MAX])
{
	const char *const arguments[] = {daemon->program, "--version", NULL};
	const struct child child = {
		.arguments = arguments, .root = host->root, .output_max = VERSION_MAX};
	_cleanup_free_ char *output = NULL;
	char version[64] = "an unknown version";
	int r = child_ask(&child, wait, &output, why);

	if (r < 0)
		return r;
	/* containerd github.com/containerd/containerd 1.6.20~ds1 REVISION */
	(void)sscanf(output, "%*s %*s %63s", version);
	if (streq(version, daemon->version))
		return 0;
	text_make_printable(version);
	snprintf(why, RUNTIME_WHY_MAX,
		"%.120s is %s, and %.60s runs: restart it, or start it by its full path",
		daemon->program, version, daemon->version);
	return -ESTALE;
}

static int make_main_file(const struct host *host, const struct daemon *daemon, const char *path,
	const char *trial, const struct wait *wait, char **text, char why[static RUNTIME_WHY_MAX])
{
	_cleanup_(clear_files) struct containerd_files files = {0};
	char list[FILES_MAX * SETTING_PATH_MAX] = "", quoted[PATH_MAX];
	const struct containerd_file *main = &files.files[0];
	_cleanup_free_ char *dump = NULL;
	struct toml_item item;
	int r = read_files_of(host, daemon, &files, why);

	if (r == 0)
		r = containerd_dump(host, daemon, daemon->config, wait, &dump, why);
	if (r == 0)
		r = toml_find(main->text ? main->text : "", main->len, "", "imports", &item, why);
	if (r < 0)
		return r;
	filter_files(&files, daemon, dump);
	for (size_t i = 1; i < files.n; i++) {
		const struct containerd_file *file = &files.files[i];
		bool tried = streq(file->path, path);
		/* The file that imports a nested one does so in the trial too: let the trial win.
		 */
		const char *const paths[] = {
			file->text && (!tried || file->nested) ? file->path : "",
			tried ? trial : "",
		};

		for (size_t k = 0; k < ARRAY_SIZE(paths); k++) {
			if (!paths[k][0])
				continue;
			if (!toml_quote(paths[k], quoted, sizeof(quoted)))
				return -EINVAL;
			text_append(list, sizeof(list), "%s%s", list[0] ? ", " : "", quoted);
		}
	}
	if (strlen(list) == sizeof(list) - 1)
		return -E2BIG;
	must_do(asprintf(text, "%.*s[%s]%s", (int)item.value, main->text, list,
			main->text + item.value_end) >= 0);
	return 0;
}

/* ---- keys ---- */

/*
 * Reads a containerd's configuration and finds where each of our keys belongs. `containerd config
 * dump` shows the result of all files, so this needs little knowledge of versions. Blocks.
 *
 * From containerd's source (cmd/containerd/server/config, 1.x: services/server/config), verified
 * with 1.6.20 and 2.4.2:
 * - 1.x: a plugin's section in an imported file replaces the whole section of the main file. A key
 *   must be in the file whose section counts.
 * - 2.x: sections are merged key by key and the last file wins, so a file of our own is enough.
 *   Only `imports` in a file count, not the default /etc/containerd/conf.d that 2.2 and later
 * print.
 * - 2.0 to 2.2 apply the version of the last file to the whole configuration, and do not start with
 *   a version above their own: our own file omits it.
 */

#define OURS "# Added by headroom; \"headroom restore\" removes it.\n"

#define CRI_V1   "plugins.\"io.containerd.cri.v1."
#define CRI_1    "plugins.cri"
#define CRI_2    "plugins.\"io.containerd.grpc.v1.cri\""
#define IMAGES   "plugins.\"io.containerd.cri.v1.images\""
#define TRANSFER "plugins.\"io.containerd.transfer.v1.local\""

/*
 * An empty config_path of 2.2 and later: plugins/cri/images/plugin.go. The transfer service uses it
 * as the name of one directory (tried with 2.4.2).
 */
#define DEFAULT_DIRECTORIES "/etc/containerd/certs.d:/etc/docker/certs.d"

/* Tables of each key: 1.x does not know the first, 2.x still reads the others. */
static const struct {
	const char *sub, *key;
	const char *const tables[4];
} settings[] = {
	[RUNTIME_DOWNLOADS] = {"", "max_concurrent_downloads", {IMAGES, CRI_2, CRI_1}},
	[RUNTIME_PROGRESS_TIMEOUT] = {"", "image_pull_progress_timeout", {IMAGES, CRI_2, CRI_1}},
	[RUNTIME_HOSTS_DIRECTORY] = {".registry", "config_path",
		{IMAGES ".registry", CRI_2 ".registry", CRI_1 ".registry"}},
};
static const char *const transfer_tables[] = {TRANSFER, NULL};

/* Versions that a test (a_mirror_in_sync_is_asked) has shown to ask the mirrors of hosts.toml. */
static const unsigned mirrors_shown[][2] = {{1, 6}, {1, 7}, {2, 0}, {2, 1}, {2, 2}, {2, 3}, {2, 4}};

/* Files that another program writes again at each start. */
static const struct {
	const char *path; /* a part of it */
	const char *text; /* in a comment at the file's start, in any case */
	const char *cure;
} generated[] = {
	{"/snap.docker/", NULL, "dockerd writes it: use Docker's daemon.json"},
	{"/docker/containerd/", NULL, "dockerd writes it: use Docker's daemon.json"},
	{"/microk8s/", NULL, "MicroK8s writes it: use containerd-template.toml beside it"},
	{"/run/k0s/", NULL, "k0s writes it: use /etc/k0s/containerd.d"},
	{NULL, "k0s_managed=true", "k0s writes it: use /etc/k0s/containerd.d"},
	{NULL, "do not edit", "it is generated: change its source"},
	{NULL, "do not modify", "it is generated: change its source"},
	{NULL, "generated by", "it is generated: change its source"},
	{NULL, "automatically generated", "it is generated: change its source"},
	{NULL, "autogenerated", "it is generated: change its source"},
	{NULL, "auto-generated", "it is generated: change its source"},
	{NULL, "managed by", "another program manages it: change its source"},
	{NULL, "ansible managed", "Ansible manages it: change its template"},
};

/* Returns whether a comment before the first key or table has these words. */
static bool has_header(const struct containerd_file *file, const char *words)
{
	const char *at = file->text ? file->text + text_mark(file->text, file->len) : "";
	char line[256];

	for (at += strspn(at, " \t\r\n"); *at == '#'; at += strspn(at, " \t\r\n")) {
		size_t n = strcspn(at, "\n");

		snprintf(line, sizeof(line), "%.*s", (int)MIN(n, sizeof(line) - 1), at);
		if (strcasestr(line, words))
			return true;
		at += n;
	}
	return false;
}

struct containerd_reading {
	const struct host *host;
	const struct daemon *daemon;
	struct containerd_files files;
	char *dump;
	const char *cri; /* the dump's table for images */
	bool merges;     /* 2.x */
	struct runtime_files *config;
};

static void reading_clear(struct containerd_reading *reading)
{
	clear_files(&reading->files);
	free(reading->dump);
}

/* ---- the dump ---- */

static bool dump_is(const struct containerd_reading *reading, const char *key, const char *wanted)
{
	char name[TOML_NAME_MAX], value[SETTING_VALUE_MAX];

	snprintf(name, sizeof(name), "%s.%s", reading->cri, key);
	return toml_lookup(reading->dump, name, value, sizeof(value)) && streq(value, wanted);
}

/* Returns whether the table cri + sub of the dump has an item with `part` in its name. */
static bool has_below(const struct containerd_reading *reading, const char *sub, const char *part)
{
	struct toml_scan scan = {.text = reading->dump, .len = strlen(reading->dump)};
	struct toml_item item;
	char table[TOML_NAME_MAX];
	size_t n = (size_t)snprintf(table, sizeof(table), "%s%s", reading->cri, sub);

	while (toml_next(&scan, &item) > 0)
		if (strncmp(item.table, table, n) == 0 &&
			(item.table[n] == '.' || (item.table[n] == '\0' && !item.header)) &&
			(strstr(item.table + n, part) || streq(item.key, part + (part[0] == '.'))))
			return true;
	return false;
}

static bool has_old_registries(const struct containerd_reading *reading)
{
	return has_below(reading, ".registry.mirrors", "") ||
	       has_below(reading, ".registry.configs", "") ||
	       has_below(reading, ".registry.auths", "");
}

static bool cri_is_off(const struct containerd_reading *reading)
{
	static const char *const names[] = {
		"cri", "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.images"};
	const char *dump = reading->dump;
	char plugin[128];
	struct toml_item item;
	size_t at = 0;

	if (toml_find(dump, strlen(dump), "", "disabled_plugins", &item, NULL) < 0)
		return false;
	while (toml_next_string(dump, &item, &at, plugin, sizeof(plugin)))
		for (size_t i = 0; i < ARRAY_SIZE(names); i++)
			if (streq(plugin, names[i]))
				return true;
	return false;
}

bool containerd_is_at_least(const char *version, unsigned major, unsigned minor)
{
	unsigned is_major, is_minor;

	return sscanf(version, version[0] == 'v' ? "v%3u.%3u" : "%3u.%3u", &is_major, &is_minor) ==
		       2 &&
	       (is_major > major || (is_major == major && is_minor >= minor));
}

static bool is_shown_to_ask_mirrors(const char *version)
{
	for (size_t i = 0; i < ARRAY_SIZE(mirrors_shown); i++)
		if (containerd_is_at_least(version, mirrors_shown[i][0], mirrors_shown[i][1]) &&
			!containerd_is_at_least(
				version, mirrors_shown[i][0], mirrors_shown[i][1] + 1))
			return true;
	return false;
}

/* ---- keys ---- */

/* In 2.x the last file with a key sets it, in 1.x the last file with the plugin's section. */
static bool sets_key(const struct containerd_reading *reading, const struct containerd_file *file,
	const struct runtime_key *key)
{
	struct toml_scan scan = {.text = file->text, .len = file->len};
	struct toml_item item;

	if (!file->text)
		return false;
	for (const char *const *table = key->tables; reading->merges && *table; table++)
		if (toml_find(file->text, file->len, *table, key->key, &item, NULL) != -ENOENT)
			return true;
	while (!reading->merges && toml_next(&scan, &item) > 0)
		if (starts_with(item.table, CRI_1 ".") || streq(item.table, CRI_1) ||
			starts_with(item.table, CRI_2) || streq(item.key, "cri") ||
			streq(item.key, "\"io.containerd.grpc.v1.cri\""))
			return true;
	return false;
}

/* Names a key in a table of the CRI plugin that does not have it: containerd only warns. */
static void find_misplaced(const struct containerd_reading *reading, enum runtime_setting setting,
	struct runtime_key *key)
{
	const char *const *const rows = settings[setting].tables;

	for (size_t i = 0; i < reading->files.n && !key->misplaced[0]; i++) {
		const struct containerd_file *file = &reading->files.files[i];
		struct toml_scan scan = {.text = file->text, .len = file->len};
		struct toml_item item;

		while (file->text && !key->misplaced[0] && toml_next(&scan, &item) > 0) {
			bool is_cri =
				starts_with(item.table, CRI_V1) || starts_with(item.table, CRI_2) ||
				starts_with(item.table, CRI_1 ".") || streq(item.table, CRI_1);

			if (item.header || !is_cri || !streq(item.key, key->key) ||
				streq(item.table, rows[0]) || streq(item.table, rows[1]) ||
				streq(item.table, rows[2]))
				continue;
			snprintf(key->misplaced, sizeof(key->misplaced),
				"%.120s:%zu: %s has no effect in [%.120s]", file->path,
				text_position(file->text, item.start).line, key->key, item.table);
		}
	}
}

/* The first refusal counts. */
static void PRINTF_LIKE(3, 4)
	refuse(struct runtime_key *key, enum runtime_refusal refusal, const char *format, ...)
{
	va_list args;

	if (key->refusal != KEY_EDITABLE)
		return;
	key->refusal = refusal;
	va_start(args, format);
	vsnprintf(key->why, sizeof(key->why), format, args);
	va_end(args);
}

/*
 * k3s and RKE2 write the main file. Newer ones import a directory for files of others; in older
 * ones a template replaces it.
 */
static void refuse_k3s(const struct containerd_reading *reading, struct runtime_key *key)
{
	const struct containerd_files *files = &reading->files;
	const char *own = files->files[files->own].path;

	set_text(key->path, reading->daemon->config);
	if (reading->merges && files->own > 0)
		refuse(key, KEY_GENERATED,
			"%s: k3s and RKE2 write it: write the key into a file of your own in %.*s, "
			"which it imports",
			key->path, (int)(strrchr(own, '/') - own), own);
	else
		refuse(key, KEY_GENERATED, "%s: k3s and RKE2 write it: use %s beside it", key->path,
			reading->merges ? "config-v3.toml.tmpl" : "config.toml.tmpl");
}

/* Refuses a key of a file that another program writes. */
static void refuse_generated(const struct containerd_reading *reading,
	const struct containerd_file *file, struct runtime_key *key)
{
	const char *cure = NULL;
	bool k0s;

	if (strstr(reading->daemon->version, "-k3s") || strstr(file->path, "/rancher/") ||
		strstr(reading->daemon->config, "/rancher/")) {
		refuse_k3s(reading, key);
		return;
	}
	for (size_t i = 0; !cure && i < ARRAY_SIZE(generated); i++)
		if ((generated[i].path && strstr(file->path, generated[i].path)) ||
			(generated[i].text && has_header(file, generated[i].text)))
			cure = generated[i].cure;
	k0s = cure && starts_with(cure, "k0s");
	if (cure)
		refuse(key, KEY_GENERATED, "%s: %s%s", key->path, cure,
			!k0s              ? ""
			: reading->merges ? ", in a file with version = 3"
					  : ", in a file with version = 2");
}

static void read_key(const struct containerd_reading *reading, enum runtime_setting setting)
{
	const struct daemon *daemon = reading->daemon;
	struct runtime_key *key = &reading->config->keys[setting];
	const struct containerd_file *file = &reading->files.files[reading->files.n - 1];
	const struct containerd_file *own = &reading->files.files[0];
	bool transfer = setting == RUNTIME_DOWNLOADS && reading->config->transfer;
	bool directory = setting == RUNTIME_HOSTS_DIRECTORY;
	const char *excluding = NULL;

	*key = (struct runtime_key){.key = settings[setting].key,
		.tables = transfer ? transfer_tables
				   : settings[setting].tables + (reading->merges ? 0 : 1)};
	snprintf(key->dump_key, sizeof(key->dump_key), "%s%s.%s",
		transfer ? TRANSFER : reading->cri, settings[setting].sub, key->key);
	find_misplaced(reading, setting, key);
	if (cri_is_off(reading))
		refuse(key, KEY_CRI_OFF, "%s: disabled_plugins has the CRI plugin", daemon->config);
	else if (!toml_lookup(reading->dump, key->dump_key, key->on_disk, sizeof(key->on_disk)))
		refuse(key, KEY_UNKNOWN, "containerd %s has no %s", daemon->version, key->key);
	if (directory && has_below(reading, ".registry.mirrors", ""))
		excluding = "registry.mirrors";
	else if (directory && !reading->merges && has_below(reading, ".registry.configs", ".tls"))
		excluding = "tls in registry.configs";
	if (directory && reading->config->transfer && strchr(key->on_disk, ':'))
		refuse(key, KEY_EXCLUDED,
			"%s: pulls use a list of directories in config_path as one name: name one "
			"directory, or set use_local_image_pull = true",
			daemon->config);
	if (directory && !is_shown_to_ask_mirrors(daemon->version))
		refuse(key, KEY_EXCLUDED,
			"no test has shown that containerd %s asks mirrors: write its hosts.toml "
			"yourself, or see if a newer Headroom knows this version",
			daemon->version);
	if (excluding)
		refuse(key, KEY_EXCLUDED,
			"%s: %s excludes config_path: move it to hosts.toml files", daemon->config,
			excluding);
	if (directory && !key->on_disk[0] && containerd_is_at_least(daemon->version, 2, 2) &&
		!reading->config->transfer && !has_old_registries(reading))
		set_text(key->on_disk, DEFAULT_DIRECTORIES);
	/* Edit our own file or the main file, unless a later file sets the key. */
	if (reading->merges)
		own += reading->files.own;
	while (file > own && !sets_key(reading, file, key))
		file--;
	key->base = own > reading->files.files ? OURS
		    : reading->merges          ? OURS "version = 3\n"
					       : OURS "version = 2\n";
	set_text(key->path, file->path);
	refuse_generated(reading, file, key);
	if (host_may_write(reading->host, key->path) == -EROFS)
		refuse(key, KEY_READ_ONLY, "%s is on a read-only file system", key->path);
}

/* Finds a key of the text with this value. Returns its line; 0: it has none. */
static unsigned line_of(const char *text, size_t len, const char *key, const char *value)
{
	struct toml_scan scan = {.text = text, .len = len};
	struct toml_item item;
	char found[SETTING_VALUE_MAX];

	while (toml_next(&scan, &item) > 0)
		if (!item.header && streq(item.key, key) &&
			toml_value(text, &item, found, sizeof(found)) && streq(found, value))
			return (unsigned)text_position(text, item.start).line;
	return 0;
}

/* The NVIDIA toolkit copies the plugin's section of the dump into a drop-in of its own. */
static int find_copy(const struct host *host, const struct daemon *daemon, const char *path,
	const char *key, const char *value, const struct wait *wait,
	char why[static RUNTIME_WHY_MAX])
{
	_cleanup_(clear_files) struct containerd_files files = {0};
	_cleanup_free_ char *dump = NULL;
	char ignored[RUNTIME_WHY_MAX];
	unsigned line = 0;
	size_t i;

	/* Without a dump nobody knows what the next start brings. */
	if (!daemon->program[0] || read_files_of(host, daemon, &files, ignored) < 0 ||
		containerd_dump(host, daemon, daemon->config, wait, &dump, ignored) < 0 ||
		line_of(dump, strlen(dump), key, value) == 0)
		return 0;
	for (i = files.n; i > 0 && line == 0; i--)
		if (files.files[i - 1].text && !streq(files.files[i - 1].path, path))
			line = line_of(files.files[i - 1].text, files.files[i - 1].len, key, value);
	if (line == 0)
		return 0;
	snprintf(why, RUNTIME_WHY_MAX,
		"%.160s:%u has a copy of %s = %s, which stays in force: remove the line",
		files.files[i].path, line, key, value);
	return -EEXIST;
}

/* ---- the file that containerd refuses ---- */

/* Returns the version of a file's format, and its line; 0: it has none. */
static int version_of(const struct containerd_file *file, unsigned *line)
{
	struct toml_item item;
	char version[16];

	if (!file->text || toml_find(file->text, file->len, "", "version", &item, NULL) < 0 ||
		!toml_value(file->text, &item, version, sizeof(version)))
		return 0;
	*line = (unsigned)text_position(file->text, item.start).line;
	return atoi(version);
}

/* An imported file may have the version of the main file, whose version may be newest. */
static bool blame_version(
	const struct containerd_reading *reading, const char *message, struct bad_file *bad)
{
	const struct containerd_files *files = &reading->files;
	unsigned line, main_line;
	int main = version_of(&files->files[0], &main_line);

	for (size_t i = 1; i < files->n && strstr(message, "version"); i++) {
		if (version_of(&files->files[i], &line) <= main)
			continue;
		set_text(bad->path, files->files[i].path);
		bad->line = line;
		snprintf(bad->repair, sizeof(bad->repair), "version = %d", main > 0 ? main : 1);
		return true;
	}
	if (!strstr(message, "config version") || main == 0)
		return false;
	set_text(bad->path, files->files[0].path);
	bad->line = main_line;
	return true;
}

/* The line of the imports without the file that is not there, if it is one line. */
static bool blame_import(
	const struct containerd_reading *reading, const char *message, struct bad_file *bad)
{
	const struct containerd_files *files = &reading->files;
	char list[BAD_REPAIR_MAX] = "", import[SETTING_PATH_MAX], path[SETTING_PATH_MAX], *slash;
	const struct containerd_file *parent, *missing = NULL;
	struct toml_item item;
	size_t at = 0;

	for (size_t i = 1; i < files->n && !missing; i++)
		if (!files->files[i].text && !files->files[i].own &&
			strstr(message, files->files[i].path))
			missing = &files->files[i];
	parent = missing ? &files->files[missing->parent] : NULL;
	if (!parent || toml_find(parent->text, parent->len, "", "imports", &item, NULL) < 0)
		return false;
	set_text(bad->path, parent->path);
	bad->line = (unsigned)text_position(parent->text, item.start).line;
	while (toml_next_string(parent->text, &item, &at, import, sizeof(import))) {
		set_text(path, parent->path);
		if ((slash = strrchr(path, '/')))
			*slash = '\0';
		if (import_path(path, import, path) && streq(path, missing->path))
			continue;
		text_append(list, sizeof(list), "%s\"%s\"", list[0] ? ", " : "", import);
	}
	if (!memchr(parent->text + item.value, '\n', item.value_end - item.value))
		snprintf(bad->repair, sizeof(bad->repair), "imports = [%.300s]", list);
	return true;
}

/* Finds a file that is no TOML: it has a position of its own. */
static bool blame_syntax(const struct containerd_reading *reading, struct bad_file *bad)
{
	char fault[TOML_WHY_MAX];

	for (size_t i = 0; i < reading->files.n; i++) {
		const struct containerd_file *file = &reading->files.files[i];
		cJSON *document = NULL;

		if (file->text && toml_parse(file->text, file->len, &document, fault) < 0) {
			set_text(bad->path, file->path);
			bad->line = bad_file_line(fault);
			return true;
		}
		cJSON_Delete(document);
	}
	return false;
}

/* Finds a key of ours whose value has a wrong type. */
static bool blame_value(const struct containerd_reading *reading, struct bad_file *bad)
{
	for (size_t i = 0; i < reading->files.n; i++) {
		const struct containerd_file *file = &reading->files.files[i];
		struct toml_scan scan = {.text = file->text, .len = file->len};
		struct toml_item item;

		while (file->text && toml_next(&scan, &item) > 0)
			for (size_t k = 0; k < ARRAY_SIZE(settings); k++) {
				const char *value = file->text + item.value;
				bool is_text = !item.header && strchr("\"'", *value);
				bool is_whole = !item.header && strspn(value, "+-_0123456789xob") >=
									item.value_end - item.value;

				if (item.header || !settings[k].key ||
					!streq(item.key, settings[k].key) ||
					(k == RUNTIME_DOWNLOADS ? is_whole : is_text))
					continue;
				set_text(bad->path, file->path);
				bad->line = (unsigned)text_position(file->text, item.start).line;
				return true;
			}
	}
	return false;
}

/* Finds an imported file that containerd refuses alone. */
static bool blame_alone(
	const struct containerd_reading *reading, const struct wait *wait, struct bad_file *bad)
{
	char why[RUNTIME_WHY_MAX];

	for (size_t i = 1; i < reading->files.n; i++) {
		const struct containerd_file *file = &reading->files.files[i];
		_cleanup_free_ char *dump = NULL;

		if (!file->text || containerd_dump(reading->host, reading->daemon, file->path, wait,
					   &dump, why) != -EINVAL)
			continue;
		set_text(bad->path, file->path);
		return true;
	}
	return false;
}

/* Finds the line in containerd's words: "(3, 1)" or "row 3 column 1". */
static unsigned line_in(const char *message)
{
	const char *row = strstr(message, "row "), *pair = strchr(message, '(');
	unsigned line = 0, column;

	if (row)
		(void)sscanf(row, "row %9u column", &line);
	else if (pair && sscanf(pair, "(%9u, %9u)", &line, &column) != 2)
		line = 0;
	return line;
}

/* Finds the file that containerd refuses, and the line that repairs it. The main file is named. */
static void find_culprit(
	const struct containerd_reading *reading, const struct wait *wait, const char *message)
{
	struct runtime_files *config = reading->config;
	struct bad_file *bad = &config->bad;
	char position[16] = "";

	if (!blame_syntax(reading, bad) && !blame_version(reading, message, bad) &&
		!blame_import(reading, message, bad) && !blame_value(reading, bad)) {
		(void)blame_alone(reading, wait, bad);
		bad->line = line_in(message);
	}
	bad_file_find_writer(reading->host, bad);
	if (bad->line > 0)
		snprintf(position, sizeof(position), "%u: ", bad->line);
	snprintf(config->why, sizeof(config->why), "%.160s:%s%s%.200s: left alone", bad->path,
		position[0] ? "" : " ", position, message);
}

/* Without a main file containerd uses its defaults. */
static int read_dump(struct containerd_reading *reading, const struct wait *wait)
{
	const struct daemon *daemon = reading->daemon;
	struct runtime_files *config = reading->config;
	char why[RUNTIME_WHY_MAX], version[SETTING_VALUE_MAX];
	int r;

	if (!daemon->program[0]) {
		set_text(config->why, "containerd's process is not visible: left alone");
		return -ESRCH;
	}
	r = containerd_check_program(reading->host, daemon, wait, why);
	if (r == 0)
		r = containerd_dump(reading->host, daemon,
			reading->files.files[0].text ? daemon->config : NULL, wait, &reading->dump,
			why);
	if (r < 0) {
		if (r == -ETIMEDOUT)
			set_text(why,
				"containerd is slow to print its configuration: asked again later");
		snprintf(config->why, sizeof(config->why),
			r == -EINVAL ? "%s: %.200s: left alone" : "%s: %.260s", daemon->config,
			why);
		set_text(config->bad.path, daemon->config);
		if (r == -EINVAL)
			find_culprit(reading, wait, why);
		return r == -EINVAL ? -EBADMSG : r;
	}
	filter_files(&reading->files, daemon, reading->dump);
	reading->cri = IMAGES;
	reading->merges = has_below(reading, "", "");
	reading->cri = reading->merges ? IMAGES : CRI_2;
	/* 1.x ignores parts of a file for 2.x. */
	for (size_t i = 0; !reading->merges && i < reading->files.n; i++) {
		const struct containerd_file *file = &reading->files.files[i];

		if (!file->text || !toml_lookup(file->text, "version", version, sizeof(version)) ||
			atoi(version) <= 2)
			continue;
		snprintf(config->why, sizeof(config->why),
			"%.160s: version %.16s is newer than containerd %.32s reads: left alone",
			file->path, version, daemon->version);
		set_text(config->bad.path, file->path);
		return -EEXIST;
	}
	return 0;
}

void containerd_config_read(const struct host *host, const struct daemon *daemon,
	const struct wait *wait, struct runtime_files *config)
{
	_cleanup_(reading_clear) struct containerd_reading reading = {
		.host = host, .daemon = daemon, .config = config};
	char hash[HASH_TEXT_MAX] = "", why[RUNTIME_WHY_MAX] = "";
	_cleanup_free_ char *all = NULL;
	const char *path;
	size_t len = 0;
	FILE *out;
	int r = read_files_of(host, daemon, &reading.files, why);

	config->changed_us = reading.files.changed_us;
	if (r < 0) {
		path = reading.files.files[reading.files.last].path;
		snprintf(config->why, sizeof(config->why), "%.300s: left alone", why);
		if (!streq(config->bad.path, path)) {
			config->bad = (struct bad_file){0};
			set_text(config->bad.path, path);
			bad_file_find_writer(host, &config->bad);
		}
		config->bad.line = bad_file_line(text_after_path(why, path));
		/* containerd itself may understand it. */
		if (r == -EBADMSG && daemon->program[0] &&
			containerd_dump(host, daemon, daemon->config, wait, &reading.dump, why) ==
				0)
			r = -EEXIST;
		config->error = r;
		config->hash[0] = '\0';
		return;
	}
	out = must(open_memstream(&all, &len));
	fprintf(out, "%s %s %s", daemon->program, daemon->version, daemon->directory);
	for (size_t i = 0; i < reading.files.n; i++) {
		const struct containerd_file *file = &reading.files.files[i];

		fprintf(out, "\n%s %zu\n", file->path, file->len);
		fwrite(file->text ? file->text : "", 1, file->len, out);
	}
	fclose(out);
	hash_bytes(must(all), len, hash);
	if (streq(hash, config->hash))
		return;
	*config = (struct runtime_files){.changed_us = reading.files.changed_us};
	config->error = read_dump(&reading, wait);
	/* Keep the result, even a refusal, until a file changes, unless containerd did not run. */
	if (config->error == 0 || config->error == -EBADMSG || config->error == -EEXIST)
		memcpy(config->hash, hash, sizeof(hash));
	if (config->error < 0)
		return;
	/*
	 * 2.1 and later pull with the transfer service and its key, unless an option needs the CRI
	 * plugin: CheckLocalImagePullConfigs in internal/cri/config/config.go.
	 */
	config->transfer = reading.merges && dump_is(&reading, "use_local_image_pull", "false") &&
			   dump_is(&reading, "max_concurrent_downloads", "3") &&
			   !dump_is(&reading, "disable_snapshot_annotations", "false") &&
			   !dump_is(&reading, "discard_unpacked_layers", "true") &&
			   !dump_is(&reading, "image_pull_with_sync_fs", "true") &&
			   !has_old_registries(&reading);
	for (int i = 0; i <= RUNTIME_HOSTS_DIRECTORY; i++) {
		read_key(&reading, (enum runtime_setting)i);
		/* The file system may become writable without a change of the files. */
		if (config->keys[i].refusal == KEY_READ_ONLY)
			config->hash[0] = '\0';
	}
}

/* ---- the driver ---- */

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

/* ---- images ---- */

/* The CRI honours the label from containerd 1.6.25, 1.7.10 and 2.0 on. */
static bool honours_pins(const char *version)
{
	version += version[0] == 'v';
	return isdigit((unsigned char)version[0]) &&
	       (strverscmp(version, "1.7.10") >= 0 ||
		       (strverscmp(version, "1.6.25") >= 0 && strverscmp(version, "1.7") < 0));
}

/* containerd makes no limiter for them. */
static const struct meaning unbounded[] = {{"0", NO_BOUND}, {"-", NO_BOUND}, {0}};

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
				unbounded, 3},
			[RUNTIME_PROGRESS_TIMEOUT] = {"image_pull_progress_timeout",
				ACTIVATE_RESTART, unbounded},
			[RUNTIME_HOSTS_DIRECTORY] = {"config_path", ACTIVATE_RESTART},
		},
	.mirrors = &containerd_hosts_files,
	.names_registry = true,
	.find_mirrors = containerd_find_mirrors,
	.needs_program = true,
	.dump = containerd_dump,
	.main_file = make_main_file,
	.find_copy = find_copy,
	.serves_kubelet = true,
	.copies_per_image = 2,
	.honours_pins = honours_pins,
	.read_images_info = containerd_read_images_info,
	.list = cri_list_images,
	.find = cri_find_image,
	.pull = containerd_pull,
	.load = containerd_load,
	.clean = containerd_clean,
	.has_leftovers = containerd_has_leftovers,
	.pin = containerd_pin,
};
