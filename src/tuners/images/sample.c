/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/images/images.h"

#include "base/file.h"

#include <fnmatch.h>
#include <glob.h>
#include <sys/statvfs.h>

#define IDLE_EVERY_US    (30 * USEC_PER_SEC)
#define SANDBOX_EVERY_US (300 * USEC_PER_SEC)
#define ANSWER_US        (3 * USEC_PER_SEC)

/* A file that changed within this time may still be written. */
#define SETTLED_AFTER_US (2 * USEC_PER_SEC)

void text_list_add(struct text_list *list, const char *text)
{
	char(*item)[IMAGES_TEXT_MAX] = add_element(&list->items, &list->n, &list->allocated);

	set_text(*item, text);
}

bool text_list_has(const struct text_list *list, const char *text)
{
	return find_named(list->items, list->n, text);
}

/* ---- archives ---- */

/*
 * Reads the key of an archive; that of a layout directory is the key of its index. -EISDIR for any
 * other directory, -EINVAL for anything but a file.
 */
static int read_key(const char *full, struct archive_file *file)
{
	char index[PATH_MAX];
	struct stat st;

	if (stat(full, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode) &&
		(snprintf(index, sizeof(index), "%s/index.json", full) >= PATH_MAX ||
			stat(index, &st) < 0 || !S_ISREG(st.st_mode)))
		return -EISDIR;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	file->key = (struct archive_key){
		st.st_dev, st.st_ino, (uint64_t)st.st_size, us_of(st.st_mtim), us_of(st.st_ctim)};
	return 0;
}

/* Returns true also for archives that are compressed in another way: their error is shown. */
static bool has_archive_name(const char *name)
{
	return fnmatch("?*.@(tar?(.@(gz|zst|zstd|bz2|lz4|xz))|tgz|tzst|tbz|txz)", name,
		       FNM_EXTMATCH) == 0;
}

/* Returns whether it is an archive by its name, or a possible layout. */
static int is_archive(const struct dirent *entry)
{
	bool may_be_layout =
		entry->d_type == DT_DIR || entry->d_type == DT_LNK || entry->d_type == DT_UNKNOWN;

	return entry->d_name[0] != '.' && (may_be_layout || has_archive_name(entry->d_name));
}

enum origin { CONFIGURED, MATCHED, IN_DIRECTORY };

/* Adds a file, a layout, or the archives in a directory (not in its subdirectories). */
static void add_path(struct images_tuner *request, const char *path, enum origin origin)
{
	struct images_sample *sample = &request->sample;
	char full[PATH_MAX], inside[PATH_MAX + NAME_MAX];
	struct archive_file file = {0};
	struct dirent **entries = NULL;
	int n = 0, r = path_in_root(request->host->root, path, full);

	if (r == 0)
		r = read_key(full, &file);
	if (r == -EISDIR && origin != IN_DIRECTORY)
		n = scandir(full, &entries, is_archive, alphasort);
	for (int i = 0; i < n; i++) {
		snprintf(inside, sizeof(inside), "%s%s%s", path,
			path[strlen(path) - 1] == '/' ? "" : "/", entries[i]->d_name);
		add_path(request, inside, IN_DIRECTORY);
		free(entries[i]);
	}
	free(entries);
	/* A link in a directory may be anything. */
	if (r == -EISDIR || (r < 0 && origin == IN_DIRECTORY && !has_archive_name(path)))
		return;
	if (strlen(path) >= sizeof(file.path))
		r = -ENAMETOOLONG;
	registry_shorten_list(path, file.path, sizeof(file.path));
	if (sample->n_archives > ARCHIVES_MAX ||
		find_indexed(&sample->by_path, sample->archives, sample->n_archives, file.path))
		return;
	file.error = r;
	file.settling = sample->realtime_us - file.key.ctime_us < SETTLED_AFTER_US;
	*add_element(&sample->archives, &sample->n_archives, &sample->archives_allocated) = file;
}

/* Resolves the directory before the first wildcard within the host's root. */
static void add_pattern(struct images_tuner *request, const char *pattern)
{
	size_t base = strcspn(pattern, "*?[");
	char directory[IMAGES_TEXT_MAX], path[PATH_MAX], full[PATH_MAX];
	glob_t found = {0};

	if (!pattern[base]) {
		add_path(request, pattern, CONFIGURED);
		return;
	}
	while (base > 1 && pattern[base - 1] != '/')
		base--;
	snprintf(directory, sizeof(directory), "%.*s", (int)base, pattern);
	if (path_in_root(request->host->root, directory, full) < 0 ||
		snprintf(path, sizeof(path), "%s/%s", streq(full, "/") ? "" : full,
			pattern + base) >= PATH_MAX)
		return;
	if (glob(path, 0, NULL, &found) == 0)
		for (size_t i = 0; i < found.gl_pathc; i++) {
			const char *rest =
				found.gl_pathv[i] + strlen(path) - strlen(pattern + base);

			snprintf(full, sizeof(full), "%s%s", directory, rest);
			add_path(request, full, MATCHED);
		}
	globfree(&found);
}

/* ---- the runtime ---- */

static int compare_images(const void *a, const void *b)
{
	return strcmp(
		((const struct runtime_image *)a)->name, ((const struct runtime_image *)b)->name);
}

void sample_sort(struct images_sample *sample)
{
	if (sample->n_images > 0)
		qsort(sample->images, sample->n_images, sizeof(*sample->images), compare_images);
}

struct runtime_image *sampled_image(const struct images_sample *sample, const char *name)
{
	struct runtime_image key;

	if (sample->n_images == 0 || !set_text(key.name, name))
		return NULL;
	return bsearch(&key, sample->images, sample->n_images, sizeof(key), compare_images);
}

/*
 * Ranks the runtimes, because images are loaded into one only. First a runtime that is restarting
 * but was chosen before, then that of k3s and the like, then the one that serves the kubelet
 * (without a kubelet: Docker), then any other. 0: not usable.
 */
static int rank_runtime(const struct runtime *runtime, const struct images_tuner *request)
{
	const struct images_sample *sample = &request->sample;
	bool kubelet = sample->kubelet.presence != KUBELET_ABSENT;
	char socket[PATH_MAX];

	host_path(request->host, runtime->socket, socket);
	if (!runtime->driver->list || runtime->managed_by == RUNTIME_NESTED ||
		(request->config.driver && request->config.driver != runtime->driver))
		return 0;
	if (!runtime->has_socket)
		return streq(socket, sample->runtime.socket) ? 4 : 0;
	if (runtime->managed_by == RUNTIME_OF_K8S)
		return 3;
	return runtime->driver->serves_kubelet == kubelet ? 2 : 1;
}

/* Reads version, store and sandbox image. -EOPNOTSUPP: the runtime does not serve images. */
static int ask(struct images_tuner *request, const struct wait *wait)
{
	struct images_sample *sample = &request->sample;
	const struct wave *wave = &request->config.wave;
	bool old =
		sample->sandbox_us == 0 || sample->now_us >= sample->sandbox_us + SANDBOX_EVERY_US;
	struct image_info info = {.wants_sandbox = old,
		.wants_mirrors = wave->nodes > 1 && wave->gate != WAVE_OFF &&
				 (old || !sample->runtime.knows_mirrors)};
	int r = sample->runtime.driver->read_images_info(
		&sample->runtime, request->host, wait, &info, sample->why);

	if (info.store[0])
		set_text(sample->store, info.store);
	sample->fetching = info.fetching;
	if (r == 0 && info.wants_sandbox) {
		sample->sandbox_us = sample->now_us;
		set_text(sample->sandbox, info.sandbox);
	}
	return r;
}

/* The programs that pull an image by hand, the best first. */
static void find_puller(struct images_tuner *request, const struct runtime *runtime)
{
	static const struct {
		const struct runtime_driver *driver;
		const char *program, *command;
	} rows[] = {{&containerd_driver, "crictl", "pull"},
		{&containerd_driver, "ctr", "images pull"}, {&crio_driver, "crictl", "pull"},
		{&docker_driver, "docker", "pull"}};
	struct images_sample *sample = &request->sample;
	char client[RUNTIME_CLIENT_MAX];

	sample->puller[0] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(rows) && !sample->puller[0]; i++)
		if (rows[i].driver == runtime->driver &&
			runtime_client(request->host, rows[i].program, runtime->socket, client))
			snprintf(sample->puller, sizeof(sample->puller), "%s %s", client,
				rows[i].command);
}

static void sample_runtime(struct images_tuner *request, const struct wait *wait)
{
	struct images_sample *sample = &request->sample;
	struct image_runtime *runtime = &sample->runtime;
	struct runtime found[RUNTIME_MAX];
	size_t n = runtime_discover(request->host->root, found);
	char socket[PATH_MAX] = "";
	int r = -EOPNOTSUPP;

	/* Try the next one after -EOPNOTSUPP, such as a containerd without the CRI. */
	for (int wanted = 4; wanted > 0 && r == -EOPNOTSUPP; wanted--)
		for (size_t i = 0; i < n && r == -EOPNOTSUPP; i++) {
			struct wait bounded = wait_at_most(wait, ANSWER_US);

			if (rank_runtime(&found[i], request) != wanted)
				continue;
			host_path(request->host, found[i].socket, socket);
			if (!streq(socket, runtime->socket))
				sample->sandbox_us = sample->runtime.knows_mirrors = 0;
			runtime->driver = found[i].driver;
			set_text(runtime->socket, socket);
			set_text(runtime->daemon.socket, found[i].socket);
			find_puller(request, &found[i]);
			r = ask(request, &bounded);
			if (r == 0)
				r = runtime->driver->list(runtime, &bounded, &sample->images,
					&sample->n_images, sample->why);
			if (r == 0)
				sample->leftovers = images_has_leftovers(
					runtime, &bounded, sample->images, sample->n_images);
		}
	if (r == -EOPNOTSUPP)
		runtime->socket[0] = '\0';
	sample_sort(sample);
	sample->cancelled = r == -ECANCELED;
	sample->answers = r == 0;
}

/* The kubelet makes the cgroup of a pod before it asks for its sandbox. */
bool images_has_pods(const struct host *host)
{
	char full[PATH_MAX];
	glob_t found = {0};
	/* cgroup2 and v1; kind has kubepods in a cgroup of its own. */
	bool has = glob(host_path(host, "/sys/fs/cgroup/{,pids/}{,*/}*kubepods*/{,*/}*pod[0-9a-f]*",
				full),
			   GLOB_BRACE | GLOB_NOSORT, NULL, &found) == 0;

	globfree(&found);
	return has;
}

bool store_measure(
	const struct host *host, const char *store, uint64_t *size, uint64_t *used, dev_t *device)
{
	char full[PATH_MAX];
	struct statvfs fs;
	struct stat st;

	if (!store[0] || path_in_root(host->root, store, full) < 0 || statvfs(full, &fs) < 0)
		return false;
	*size = (uint64_t)fs.f_blocks * fs.f_frsize;
	*used = *size - (uint64_t)fs.f_bavail * fs.f_frsize;
	if (device && stat(full, &st) == 0)
		*device = st.st_dev;
	return true;
}

void images_sample(void *data, const struct wait *wait)
{
	struct images_tuner *request = data;
	struct images_sample *sample = &request->sample;
	bool soon = false;

	sample->now_us = now_us();
	sample->realtime_us = realtime_us();
	kubelet_read(request->host, &sample->kubelet);
	for (size_t i = 0; i < request->config.archives.n; i++) {
		wait_path(wait, request->config.archives.items[i]);
		add_pattern(request, request->config.archives.items[i]);
	}
	wait_path(wait, NULL);
	free(sample->by_path.positions);
	sample->by_path = (struct element_index){0};
	sample_runtime(request, wait);
	sample->has_pods = sample->answers && sample->sandbox[0] &&
			   sample->kubelet.presence == KUBELET_RUNNING &&
			   !sampled_image(sample, sample->sandbox) &&
			   images_has_pods(request->host);
	if (!store_measure(request->host, sample->store, &sample->store_size, &sample->store_used,
		    &sample->store_device))
		sample->store_size = 0;
	for (size_t i = 0; i < sample->n_archives; i++)
		soon |= sample->archives[i].settling;
	soon |= !sample->answers && sample->runtime.socket[0] != '\0';
	sample->next_us = next_turn_us(sample->now_us, soon ? IMAGES_SOON_US : IDLE_EVERY_US);
}
