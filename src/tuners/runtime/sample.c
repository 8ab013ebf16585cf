/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/runtime/runtime.h"

#include "base/file.h"
#include "runtime/systemd.h"

#include <sys/statvfs.h>
#include <sys/sysmacros.h>

#define DISCOVER_EVERY_US (30 * USEC_PER_SEC)

/* A socket that has just gone may be back at once. */
#define RETURNS_EVERY_US (USEC_PER_SEC / 2)
#define RETURNS_FOR_US   (15 * USEC_PER_SEC)

#define PULLS_EVERY_US   (5 * USEC_PER_SEC)
#define PULLING_EVERY_US (2 * USEC_PER_SEC)

void runtime_sample_clear(struct runtime_sample *sample)
{
	for (size_t i = 0; i < sample->n; i++) {
		free(sample->runtimes[i].addresses.entries);
		free(sample->runtimes[i].names.entries);
	}
	free(sample->runtimes);
	free(sample->files);
	*sample = (struct runtime_sample){0};
}

struct node_runtime *runtime_find(const struct runtime_sample *sample, const char *socket)
{
	for (size_t i = 0; i < sample->n; i++)
		if (streq(sample->runtimes[i].found.socket, socket))
			return &sample->runtimes[i];
	return NULL;
}

/* Finds runtimes; known ones keep their state. */
static void discover(struct runtime_tuner *request)
{
	struct runtime_sample *sample = &request->sample;
	struct runtime_sample before = {.runtimes = sample->runtimes, .n = sample->n};
	struct runtime found[RUNTIME_MAX];
	size_t n = runtime_discover(request->host->root, found);
	bool returns = false;
	struct node_runtime *runtimes = must(calloc(MAX(n, (size_t)1), sizeof(*runtimes)));

	sample->runtimes = runtimes;
	sample->n = 0;
	for (size_t i = 0; i < n; i++) {
		struct node_runtime *known = runtime_find(&before, found[i].socket), *runtime;

		if (request->config.driver && request->config.driver != found[i].driver)
			continue;
		runtime = &runtimes[sample->n++];
		if (known) {
			*runtime = *known;
			known->addresses.entries = NULL;
			known->names.entries = NULL;
		} else {
			set_text(runtime->daemon.config, found[i].config);
		}
		runtime->found = found[i];
		set_text(runtime->daemon.driver, found[i].driver->name);
		set_text(runtime->daemon.socket, found[i].socket);
		set_text(runtime->daemon.unit, found[i].unit);
		(void)runtime_client(request->host,
			found[i].driver->serves_kubelet ? "crictl" : "docker", found[i].socket,
			runtime->client);
		if (!runtime->found.has_socket && runtime->answer == RUNTIME_ANSWERS)
			runtime_note(runtime, "its socket is gone");
		returns |= !runtime->found.has_socket && runtime->answered_once &&
			   pulls_age(sample->now_us, runtime->since_us) < RETURNS_FOR_US;
	}
	runtime_sample_clear(&before);
	/* A restart replaces the socket. */
	sample->discover_due_us = returns ? sample->now_us + RETURNS_EVERY_US
					  : next_turn_us(sample->now_us, DISCOVER_EVERY_US);
}

/* Lists each configured URL once; known mirrors keep their state. */
static void list_mirrors(struct runtime_tuner *request)
{
	struct runtime_sample *sample = &request->sample;
	struct mirror mirrors[RUNTIME_MIRROR_MAX] = {0};
	size_t n = 0;

	for (size_t i = 0; i < request->config.n_mirrors; i++) {
		const char *url = request->config.mirrors[i].url;
		const struct mirror *known = find_named(sample->mirrors, sample->n_mirrors, url);

		if (find_named(mirrors, n, url))
			continue;
		if (known)
			mirrors[n] = *known;
		copy_text(mirrors[n++].url, REGISTRY_URL_MAX, url);
	}
	memcpy(sample->mirrors, mirrors, sizeof(mirrors));
	sample->n_mirrors = n;
}

/* ---- the file system of the images ---- */

/* Measures the file system below the store's directory. */
static void sample_store(const struct host *host, struct runtime_store *store)
{
	_cleanup_fclose_ FILE *mounts = NULL;
	_cleanup_free_ struct mount *mount = NULL;
	char full[PATH_MAX], real[PATH_MAX], path[PATH_MAX + 32];
	struct statvfs fs;
	struct stat st;

	store->known = store->directory[0] &&
		       path_in_root(host->root, store->directory, full) == 0 &&
		       stat(full, &st) == 0 && statvfs(full, &fs) == 0 && fs.f_blocks > 0;
	if (!store->known)
		return;
	store->size = (uint64_t)fs.f_blocks * fs.f_frsize;
	store->used = store->size - (uint64_t)fs.f_bavail * fs.f_frsize;
	/* mountinfo has thousands of lines on some nodes: read it only for a new device. */
	if (store->number == st.st_dev && store->filesystem[0])
		return;
	store->number = st.st_dev;
	store->filesystem[0] = '\0';
	mounts = mounts_open("");
	mount = must(malloc(sizeof(*mount)));
	while (!store->filesystem[0] && mounts_next(mounts, mount))
		if (mount->device == store->number)
			set_text(store->filesystem, mount->type);
	store->device[0] = '\0';
	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u", major(store->number),
		minor(store->number));
	if (realpath(host_path(host, path, full), real))
		set_text(store->device, strrchr(real, '/') + 1);
}

/* ---- files of registries with mirrors or with a record ---- */

static void sample_mirror_file(
	struct runtime_tuner *request, const struct node_runtime *runtime, const char *registry)
{
	const struct mirror_format *format = runtime->found.driver->mirrors;
	const char *directories = runtime->in_force[RUNTIME_HOSTS_DIRECTORY];
	struct runtime_sample *sample = &request->sample;
	char directory[SETTING_PATH_MAX];
	struct mirror_file *file;

	for (size_t i = 0; i < sample->n_files; i++)
		if (sample->files[i].driver == runtime->found.driver &&
			streq(sample->files[i].registry, registry))
			return;
	if (!directories[0])
		directories = runtime->files.keys[RUNTIME_HOSTS_DIRECTORY].on_disk;
	/* A new file is made in the first directory. */
	set_text(directory, directories[0] ? directories : format->directory);
	directory[strcspn(directory, ":")] = '\0';
	file = &sample->files[sample->n_files++];
	copy_text(file->registry, REGISTRY_NAME_MAX, registry);
	file->driver = runtime->found.driver;
	mirror_file_read(format, request->host, directory, file);
}

void runtime_sample_files(struct runtime_tuner *request)
{
	const struct runtime_config *config = &request->config;
	const struct runtime_recorded *recorded = &request->recorded;
	struct runtime_sample *sample = &request->sample;

	free(sample->files);
	sample->n_files = 0;
	sample->files = must(
		calloc(sample->n * (config->n_mirrors + recorded->n) + 1, sizeof(*sample->files)));
	for (size_t i = 0; i < sample->n; i++) {
		const struct node_runtime *runtime = &sample->runtimes[i];

		/* The location of a file depends on the configuration. */
		if (!runtime->found.driver->mirrors || !runtime->files_known ||
			runtime->found.managed_by != RUNTIME_OF_NODE)
			continue;
		for (size_t k = 0; k < config->n_mirrors; k++)
			sample_mirror_file(request, runtime, config->mirrors[k].registry);
		/* A registry that left the configuration keeps its record. */
		for (size_t k = 0; k < recorded->n; k++)
			sample_mirror_file(request, runtime, recorded->registries[k]);
	}
}

/* A busy node takes longer than a sample may for a dump of the configuration. */
#define FILES_US           (20 * USEC_PER_SEC)
#define FILES_AGAIN_US     (60 * USEC_PER_SEC)
#define FILES_AGAIN_MAX_US (600 * USEC_PER_SEC)

static void sample_runtime_files(
	const struct runtime_tuner *request, struct node_runtime *runtime, const struct wait *wait)
{
	const struct runtime_driver *driver = runtime->found.driver;
	struct wait longer = {now_us() + FILES_US, wait->cancel_fd};

	/* Some drivers know the keys only by the daemon's version. A nested one has no keys. */
	if (runtime->found.managed_by == RUNTIME_NESTED || !driver->read_files ||
		!runtime->daemon.config[0] || now_us() < runtime->files_due_us ||
		(!runtime->daemon.version[0] &&
			(!driver->has_constant_keys || runtime->answer == RUNTIME_ASKED)))
		return;
	runtime->files_known = true;
	driver->read_files(runtime, request->host, request->once ? wait : &longer);
	if (runtime->files.error != -ETIMEDOUT) {
		runtime->files_slow = 0;
		return;
	}
	runtime->files_due_us =
		now_us() + MIN(FILES_AGAIN_US << runtime->files_slow, FILES_AGAIN_MAX_US);
	runtime->files_slow = MIN(runtime->files_slow + 1, 4U);
}

/* ---- the sample ---- */

/* Someone has stopped the unit, or it is being restarted. After a failure, systemd restarts it. */
static bool is_stopped(const struct systemd_state *unit)
{
	bool changes = streq(unit->active, "activating") || streq(unit->active, "deactivating");

	return (streq(unit->active, "inactive") && streq(unit->result, "success")) ||
	       (changes && unit->restarts == 0 && !streq(unit->sub, "auto-restart"));
}

static void note_stopped(struct runtime_tuner *request)
{
	for (size_t i = 0; i < request->sample.n; i++) {
		struct node_runtime *runtime = &request->sample.runtimes[i];
		struct systemd_state unit;

		runtime->is_stopped = runtime->answer == RUNTIME_SILENT &&
				      systemd_state(request->host, runtime->found.unit, &unit) &&
				      is_stopped(&unit);
	}
}

void runtime_sample(void *data, const struct wait *wait)
{
	struct runtime_tuner *request = data;
	struct runtime_sample *sample = &request->sample;
	char socket[PATH_MAX];
	uint64_t next;

	sample->now_us = now_us();
	sample->realtime_us = realtime_us();
	if (sample->now_us >= sample->discover_due_us)
		discover(request);
	list_mirrors(request);
	mirrors_check(sample->mirrors, sample->n_mirrors, request->host->root, wait);
	for (size_t i = 0; i < sample->n && !request->cancelled; i++) {
		struct node_runtime *runtime = &sample->runtimes[i];
		bool slow = sample->now_us >= runtime->due_us;
		bool asks = runtime->found.has_socket ||
			    (slow && runtime->found.driver->has_constant_keys);
		struct runtime_reading reading;

		/* Without its socket, only the files can change. */
		if (!asks && !(slow && runtime->answered_once))
			continue;
		if (slow)
			runtime->due_us = next_turn_us(sample->now_us, RUNTIME_SLOW_EVERY_US);
		host_path(request->host, runtime->found.socket, socket);
		reading = (struct runtime_reading){request->host, runtime, &sample->pulled,
			request->opened, request->n_opened, socket, wait, slow, false};
		if (asks)
			runtime->found.driver->read(&reading);
		request->cancelled |= reading.cancelled;
		sample_runtime_files(request, runtime, wait);
		sample_store(request->host, &runtime->store);
	}
	note_stopped(request);
	runtime_sample_files(request);
	next = sample->discover_due_us;
	for (size_t i = 0; i < sample->n_mirrors; i++)
		next = MIN(next, sample->mirrors[i].due_us);
	for (size_t i = 0; i < sample->n; i++) {
		const struct node_runtime *runtime = &sample->runtimes[i];

		if (!runtime->found.has_socket && !runtime->found.driver->has_constant_keys &&
			!runtime->answered_once)
			continue;
		next = MIN(next, runtime->due_us);
		if (runtime->answer != RUNTIME_ANSWERS)
			continue;
		if (runtime->pulls.n > 0 || runtime->pulls.n_images > 0)
			next = MIN(next, sample->now_us + PULLING_EVERY_US);
		else
			next = MIN(next, next_turn_us(sample->now_us, PULLS_EVERY_US));
	}
	sample->next_us = next;
}
