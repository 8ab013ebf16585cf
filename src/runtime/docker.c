/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"
#include "runtime/daemon_json.h"
#include "runtime/mirror_ask.h"

#include "runtime/systemd.h"
#include "workload/process.h"

#include <glob.h>

#define DEFAULT_DOWNLOADS "3"
#define LAYER_FILE        "GetImageBlob" /* the beginning of its name */
#define PULLED_MAX        16             /* names of one round */
#define SLOW_EVERY_US     (15 * USEC_PER_SEC)

static const struct runtime_location locations[] = {
	{.runtime = {.name = "docker",
		 .managed_by = RUNTIME_OF_NODE,
		 .socket = "/run/docker.sock",
		 .config = "/etc/docker/daemon.json",
		 .unit = "docker.service"}},
	{.runtime = {0}},
};

/* ---- read ---- */

/*
 * The Engine API does not report layers in flight. Until it is unpacked, each layer is a file below
 * the daemon's root that grows with its download (distribution/pull_v2.go). A complete one waits
 * while dockerd unpacks another, with a transaction in layer/filestore.go.
 */
static void read_layers(struct runtime_reading *reading)
{
	struct node_runtime *runtime = reading->runtime;
	_cleanup_free_ struct pull_piece *pieces = must(calloc(PULL_LAYERS_MAX, sizeof(*pieces)));
	char full[PATH_MAX], pattern[PATH_MAX + 64];
	glob_t found = {0};
	int r;
	struct stat st;
	size_t n = 0;
	bool unpacks;

	if (!runtime->store.directory[0] ||
		path_in_root(reading->host->root, runtime->store.directory, full) < 0)
		return;
	if (snprintf(runtime->watch, sizeof(runtime->watch), "%s/tmp", full) >=
		(int)sizeof(runtime->watch))
		runtime->watch[0] = '\0';
	runtime->watch_prefix = LAYER_FILE;
	snprintf(pattern, sizeof(pattern), "%s/image/*/layerdb/tmp/write-set-*", full);
	unpacks = glob(pattern, GLOB_NOSORT, NULL, &found) == 0;
	globfree(&found);
	snprintf(pattern, sizeof(pattern), "%s/tmp/" LAYER_FILE "*", full);
	r = glob(pattern, GLOB_NOSORT | GLOB_ERR, NULL, &found);
	for (size_t i = 0; r == 0 && i < found.gl_pathc && n < PULL_LAYERS_MAX; i++) {
		if (lstat(found.gl_pathv[i], &st) < 0)
			continue;
		set_text(pieces[n].ref, strrchr(found.gl_pathv[i], '/') + 1);
		pieces[n].awaited = !unpacks;
		pieces[n++].offset = (uint64_t)st.st_size;
	}
	globfree(&found);
	if (r != 0 && r != GLOB_NOMATCH)
		return;
	/* dockerd deletes the file of a layer that it has unpacked. */
	for (size_t i = 0; i < reading->n_opened && n < PULL_LAYERS_MAX; i++) {
		struct runtime_opened *opened = &reading->opened[i];

		if (opened->fd < 0 || fstat(opened->fd, &st) < 0 || st.st_nlink > 0)
			continue;
		set_text(pieces[n].ref, opened->name);
		pieces[n].total = pieces[n].offset = (uint64_t)st.st_size;
		n++;
		close(opened->fd);
		opened->fd = -1;
	}
	runtime->pulls_at_us = now_us();
	pulls_update(&runtime->pulls, reading->pulled, pieces, n, runtime->pulls_at_us);
}

/* Completed pulls, with the registry that Docker omits: splitDockerDomain() of distribution. */
static void read_ended(struct runtime_reading *reading)
{
	struct node_runtime *runtime = reading->runtime;
	char pulled[PULLED_MAX][DOCKER_NAME_MAX];
	uint64_t since_us = runtime->docker.events_us;
	size_t n = 0;

	runtime->docker.events_us = realtime_us();
	if (since_us > 0 && runtime->pulls.n_images > 0)
		(void)docker_read_pulled(
			reading->socket, since_us, pulled, PULLED_MAX, &n, reading->wait);
	for (size_t i = 0; i < n; i++) {
		size_t host = strcspn(pulled[i], "/");
		bool is_host =
			pulled[i][host] == '/' &&
			(strcspn(pulled[i], ".:") < host || starts_with(pulled[i], "localhost/"));
		char image[160];

		snprintf(image, sizeof(image), "%s%.140s", is_host ? "" : "docker.io/", pulled[i]);
		pulls_end(&runtime->pulls, image, now_us());
	}
}

static void read_docker(struct runtime_reading *reading)
{
	struct node_runtime *runtime = reading->runtime;
	struct docker_process process;
	struct docker_info *info = &runtime->docker.info;
	struct runtime_store *store = &runtime->store;
	struct runtime_names names = {0};
	bool known = process_is("", runtime->daemon.pid, runtime->daemon.start_us);
	char why[DOCKER_ERROR_MAX];
	int r;

	runtime->watch[0] = '\0';
	if (reading->slow)
		runtime->docker.unit_sets_downloads = systemd_starts_with(reading->host,
			"docker.service", "--max-concurrent-downloads", why, sizeof(why));
	runtime->on_command[RUNTIME_DOWNLOADS] = runtime->docker.unit_sets_downloads;
	/* With a socket unit, a connection would start a stopped dockerd. */
	if (docker_process_read(reading->host, reading->socket, known ? runtime->daemon.pid : 0,
		    &process) < 0) {
		/* A dockerd that was never started is no concern, unless it could not start. */
		if (!runtime->found.has_socket && !runtime->answered_once &&
			!runtime->docker.unit_sets_downloads)
			return;
		runtime->cannot_start = runtime->docker.unit_sets_downloads &&
					runtime->files.keys[RUNTIME_DOWNLOADS].on_disk[0];
		runtime_note(runtime,
			runtime->cannot_start
				? "dockerd does not start with --max-concurrent-downloads and "
				  "the same key in daemon.json: remove one of them"
				: "dockerd does not run: no " DOCKER_PID_FILE);
		runtime->due_us = next_turn_us(now_us(), SLOW_EVERY_US);
		return;
	}
	runtime->cannot_start = false;
	if (runtime_set_process(runtime, reading->host, process.pid))
		*info = (struct docker_info){0};
	runtime->on_command[RUNTIME_DOWNLOADS] |= process.downloads_on_command;
	runtime->on_command[RUNTIME_MIRRORS] = process.mirrors_on_command;
	if (reading->slow || runtime->answer != RUNTIME_ANSWERS) {
		r = docker_read_info(reading->socket, info, reading->wait, why);
		reading->cancelled |= r == -ECANCELED;
		if (r < 0 && r != -ECANCELED)
			runtime_note(runtime, why);
		if (r < 0)
			return;
		runtime_note(runtime, NULL);
		set_text(runtime->daemon.version, info->version);
		set_text(store->driver, info->storage_driver);
		set_text(store->directory, info->root_dir);
	}
	copy_text(runtime->reported[RUNTIME_DOWNLOADS], SETTING_VALUE_MAX,
		info->reloaded_downloads[0] ? info->reloaded_downloads : process.downloads);
	registry_shorten_list(info->mirrors, runtime->in_force[RUNTIME_MIRRORS], SETTING_VALUE_MAX);
	read_layers(reading);
	read_ended(reading);
	if (reading->slow &&
		docker_read_names(reading->socket, &names.entries, &names.n, reading->wait) == 0)
		runtime_set_names(runtime, &names);
}

/*
 * The latest time at which a missing file was removed: the last change of its directory, unless
 * this was the key file of Docker 20.10's first start. CLOCK_REALTIME; 0: unknown.
 */
static uint64_t removed_us(const struct host *host, const struct daemon *daemon)
{
	char directory[SETTING_PATH_MAX], path[PATH_MAX], key[PATH_MAX + 16];
	struct stat st, key_st;

	set_text(directory, daemon->config);
	*strrchr(directory, '/') = '\0';
	if (path_in_root(host->root, directory[0] ? directory : "/", path) < 0 ||
		stat(path, &st) < 0)
		return 0;
	snprintf(key, sizeof(key), "%s/key.json", path);
	return stat(key, &key_st) < 0 || us_of(st.st_mtim) > us_of(key_st.st_ctim)
		       ? us_of(st.st_mtim)
		       : 0;
}

static void read_files(
	struct node_runtime *runtime, const struct host *host, const struct wait *wait)
{
	const struct daemon *daemon = &runtime->daemon;
	struct runtime_files *files = &runtime->files;
	const char *reported = runtime->reported[RUNTIME_DOWNLOADS];
	char *downloads = runtime->in_force[RUNTIME_DOWNLOADS];

	docker_config_read(host, daemon, wait, files);
	if (files->error < 0 && !reported[0])
		return;
	runtime_infer(runtime, RUNTIME_DOWNLOADS,
		files->changed_us > 0 ? files->changed_us : removed_us(host, daemon), reported,
		DEFAULT_DOWNLOADS);
	if (streq(downloads, "0"))
		copy_text(downloads, SETTING_VALUE_MAX, DEFAULT_DOWNLOADS);
}

static int find_process(
	const struct host *host, const char *socket, const struct wait *, pid_t *pid)
{
	struct docker_process process = {0};
	int r = docker_process_read(host, socket, 0, &process);

	if (r == 0 && process.pid == 0)
		r = -ESRCH;
	if (r == 0)
		*pid = process.pid;
	return r;
}

/* ---- verify ---- */

static int check(const struct host *host, const struct daemon *daemon, const struct wait *wait,
	char why[static RUNTIME_WHY_MAX])
{
	struct runtime_files files = {0};

	docker_config_read(host, daemon, wait, &files);
	copy_text(why, RUNTIME_WHY_MAX, files.why);
	return files.error;
}

/* ---- images ---- */

static int read_images_info(struct image_runtime *runtime, const struct host *host,
	const struct wait *wait, struct image_info *ret, char why[static IMAGES_WHY_MAX])
{
	struct docker_process process = {0};
	struct docker_info info = {0};
	/* With a socket unit, a connection would start a stopped dockerd. */
	int r = docker_process_read(host, runtime->socket, 0, &process);

	if (r == 0)
		r = docker_read_info(runtime->socket, &info, wait, why);
	runtime->knows_mirrors = set_text(runtime->mirrors, info.mirrors);
	(void)set_text(runtime->insecure, info.insecure);
	set_text(runtime->daemon.version, info.version);
	set_text(ret->store, info.root_dir);
	return r;
}

/* As dockerd does (registry/registry.go): CAs, certificates of the client, and their keys. */
static void find_certificates(const struct host *host, struct mirror_access *mirror)
{
	const char *name = strstr(mirror->url, "//") + 2, *file, *end;
	char path[SETTING_PATH_MAX + 32], pattern[PATH_MAX + 8];
	glob_t found = {0};

	snprintf(path, sizeof(path), "/etc/docker/certs.d/%.*s", (int)strcspn(name, "/"), name);
	if (path_in_root(host->root, path, pattern) < 0)
		return;
	text_append(pattern, sizeof(pattern), "/*.c*rt");
	(void)glob(pattern, 0, NULL, &found);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		file = found.gl_pathv[i];
		end = strrchr(file, '.');
		if (streq(end, ".crt")) {
			text_append(mirror->cas, sizeof(mirror->cas), "%s\n", file);
		} else if (streq(end, ".cert")) {
			text_append(mirror->clients, sizeof(mirror->clients), "%s\n%.*s.key\n",
				file, (int)(end - file), file);
		}
	}
	globfree(&found);
}

/* dockerd asks its list for docker.io only. */
static size_t find_mirrors(const struct image_runtime *runtime, const struct host *host,
	const char *registry, struct mirror_access *mirrors, size_t max)
{
	size_t n = 0;

	for (const char *at = streq(registry, "docker.io") ? runtime->mirrors : ""; *at && n < max;
		at += strspn(at, " ")) {
		struct mirror_access mirror = {0};
		const char *name;

		snprintf(mirror.url, sizeof(mirror.url), "%.*s", (int)strcspn(at, " "), at);
		at += strcspn(at, " ");
		if (registry_check_url(mirror.url) < 0)
			continue;
		name = strstr(mirror.url, "//") + 2;
		mirror.insecure = registry_list_has(runtime->insecure, name, strcspn(name, "/"));
		mirror.networks = runtime->insecure;
		find_certificates(host, &mirror);
		mirrors[n++] = mirror;
	}
	return n;
}

static int pull(const struct image_runtime *runtime, const char *name, const struct wait *wait,
	_Atomic uint64_t *progress, char why[static IMAGES_WHY_MAX])
{
	atomic_store(progress, 1);
	return docker_pull(runtime->socket, name, wait, progress, why);
}

/* Removes our names. dockerd itself removes layers of incomplete pulls. */
static int clean(const struct image_runtime *runtime, const struct wait *wait,
	char why[static IMAGES_WHY_MAX])
{
	_cleanup_free_ struct runtime_image *names = NULL;
	size_t n = 0;
	int r = docker_list_images(runtime, wait, &names, &n, why);

	for (size_t i = 0; r == 0 && i < n; i++)
		if (images_is_ours(names[i].name))
			r = docker_remove_name(runtime->socket, names[i].name, wait, why);
	return r;
}

static int load(const struct image_runtime *runtime, const struct host *,
	const struct archive_image *image, const char *reference, const struct wait *wait,
	const struct image_server *, char why[static IMAGES_WHY_MAX])
{
	/* Used after a cancellation, too. */
	const struct wait tidy = {now_us() + USEC_PER_SEC / 2, -1};
	char ignored[IMAGES_WHY_MAX];
	int r = docker_pull(runtime->socket, reference, wait, NULL, why);

	if (r == 0)
		r = docker_add_name(runtime->socket, reference, image->name, wait, why);
	(void)clean(runtime, &tidy, ignored);
	return r;
}

const struct runtime_driver docker_driver = {
	.name = "docker",
	.locations = locations,
	.options = {"config-file"},
	.read = read_docker,
	.read_files = read_files,
	.format = EDIT_JSON,
	.has_constant_keys = true,
	.keys =
		{
			[RUNTIME_DOWNLOADS] = {"max-concurrent-downloads", ACTIVATE_RELOAD, 3},
			[RUNTIME_MIRRORS] = {"registry-mirrors", ACTIVATE_RELOAD, 0},
		},
	.check = check,
	.verify = docker_config_check,
	.program = "dockerd",
	.find_process = find_process,
	.await_reload = docker_wait_reload,
	.copies_per_image = 1,
	.loads_manifests = true,
	.read_images_info = read_images_info,
	.find_mirrors = find_mirrors,
	.list = docker_list_images,
	.find = docker_find_image,
	.pull = pull,
	.load = load,
	.clean = clean,
};
