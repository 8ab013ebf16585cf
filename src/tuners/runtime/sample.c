/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/runtime/runtime.h"

#include "base/file.h"

#include <glob.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>

#define DISCOVER_EVERY_US (30 * USEC_PER_SEC)

/* One that does not answer is asked for its version alone. */
#define SILENT_EVERY_US (5 * USEC_PER_SEC)

#define PULLS_EVERY_US   (5 * USEC_PER_SEC)
#define PULLING_EVERY_US (2 * USEC_PER_SEC)

/* A process's start is known to a tick of the kernel's clock (10 ms), and times of files drift. */
#define START_SLACK_US (50 * USEC_PER_MSEC)

#define DEFAULT_DOWNLOADS "3" /* of every containerd and dockerd */

#define PULLED_MAX 16 /* names of one round of Docker's */

void runtime_sample_clear(struct runtime_sample *sample)
{
	for (size_t i = 0; i < sample->n; i++) {
		free(sample->runtimes[i].addresses.entries);
		free(sample->runtimes[i].names.entries);
	}
	free(sample->runtimes);
	free(sample->hosts);
	*sample = (struct runtime_sample){0};
}

void runtime_note(struct node_runtime *runtime, const char *why)
{
	enum runtime_answer answer = why ? RUNTIME_SILENT : RUNTIME_ANSWERS;

	if (runtime->answer != answer)
		runtime->since_us = now_us();
	runtime->answer = answer;
	runtime->answered_once = runtime->answered_once || !why;
	copy_text(runtime->why, sizeof(runtime->why), why ? why : "");
	if (!why)
		return;
	runtime->due_us = now_us() + SILENT_EVERY_US;
	/* What it fetches is not known any more: nothing is stuck as far as is known. */
	runtime->pulls.n = 0;
	runtime->pulls_at_us = 0;
}

void runtime_take_names(struct node_runtime *runtime, struct runtime_names *names)
{
	free(runtime->names.entries);
	runtime->names = *names;
	runtime->names.fresh = true;
}

void runtime_take_process(struct node_runtime *runtime, const struct host *host, pid_t pid)
{
	struct runtime_process process = {0};

	(void)runtime_process_read(host->root, runtime->found.kind, pid, &process);
	if (pid == runtime->pid && process.start_us == runtime->process.start_us)
		return;
	runtime->pid = pid;
	runtime->process = process;
	if (!process.config[0])
		copy_text(runtime->process.config, SETTING_PATH_MAX, runtime->found.config);
	/* What another process had in force says nothing of this one. */
	runtime->reported_downloads[0] = runtime->reported_timeout[0] = runtime->downloads[0] =
		runtime->timeout[0] = runtime->directory[0] = '\0';
	runtime->due_us = 0;
	runtime->docker_info = (struct docker_info){0};
}

struct node_runtime *runtime_find(const struct runtime_sample *sample, const char *socket)
{
	for (size_t i = 0; i < sample->n; i++)
		if (streq(sample->runtimes[i].found.socket, socket))
			return &sample->runtimes[i];
	return NULL;
}

/* What is found now keeps what is known of it; the rest is forgotten. */
static void discover(struct runtime_tuner *request)
{
	struct runtime_sample *sample = &request->sample;
	struct runtime_sample before = {.runtimes = sample->runtimes, .n = sample->n};
	struct runtime found[RUNTIME_MAX];
	size_t n = runtime_discover(request->host->root, found);
	struct node_runtime *runtimes = must(calloc(MAX(n, (size_t)1), sizeof(*runtimes)));

	sample->runtimes = runtimes;
	sample->n = 0;
	for (size_t i = 0; i < n; i++) {
		struct node_runtime *known = runtime_find(&before, found[i].socket), *runtime;

		if (request->config.kind > 0 && request->config.kind - 1 != (int)found[i].kind)
			continue;
		runtime = &runtimes[sample->n++];
		if (known) {
			*runtime = *known;
			known->addresses.entries = NULL;
			known->names.entries = NULL;
		} else {
			copy_text(runtime->process.config, SETTING_PATH_MAX, found[i].config);
		}
		runtime->found = found[i];
		if (!runtime->found.has_socket && runtime->answer == RUNTIME_ANSWERS)
			runtime_note(runtime, "its socket is gone");
	}
	runtime_sample_clear(&before);
	sample->discover_due_us = next_turn_us(sample->now_us, DISCOVER_EVERY_US);
}

/* The configured ones, each URL once; those known already keep their state. */
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

void runtime_duration_text(uint64_t us, char text[static 32])
{
	uint64_t seconds = us / USEC_PER_SEC, minutes = seconds / 60, hours = minutes / 60;

	if (hours > 0)
		snprintf(text, 32, "%" PRIu64 "h%" PRIu64 "m%" PRIu64 "s", hours, minutes % 60,
			seconds % 60);
	else if (minutes > 0)
		snprintf(text, 32, "%" PRIu64 "m%" PRIu64 "s", minutes, seconds % 60);
	else
		snprintf(text, 32, "%" PRIu64 "s", seconds);
}

const char *runtime_file_why(const struct node_runtime *runtime)
{
	return runtime->docker.why[0] ? runtime->docker.why : runtime->containerd.why;
}

/* ---- Docker ---- */

/*
 * What the Engine API does not tell: a layer that comes in is a file of its own below the daemon's
 * root, as large as what is there of it, until it is unpacked (distribution/pull_v2.go).
 */
static void read_layers(struct node_runtime *runtime, struct runtime_tuner *request)
{
	_cleanup_free_ struct pull_piece *pieces = must(calloc(PULL_LAYERS_MAX, sizeof(*pieces)));
	char path[PATH_MAX], full[PATH_MAX], pattern[PATH_MAX + 16];
	glob_t found = {0};
	int r;
	struct stat st;
	size_t n = 0;

	snprintf(path, sizeof(path), "%s/tmp", runtime->store.directory);
	if (path_in_root(request->host->root, path, full) < 0)
		return;
	snprintf(pattern, sizeof(pattern), "%s/GetImageBlob*", full);
	r = glob(pattern, GLOB_NOSORT | GLOB_ERR, NULL, &found);
	for (size_t i = 0; r == 0 && i < found.gl_pathc && n < PULL_LAYERS_MAX; i++) {
		if (lstat(found.gl_pathv[i], &st) < 0)
			continue;
		copy_text(
			pieces[n].ref, sizeof(pieces[n].ref), strrchr(found.gl_pathv[i], '/') + 1);
		pieces[n++].offset = (uint64_t)st.st_size;
	}
	globfree(&found);
	if (r != 0 && r != GLOB_NOMATCH)
		return;
	runtime->pulls_at_us = now_us();
	pulls_take(&runtime->pulls, &request->sample.pulled, pieces, n, runtime->pulls_at_us);
}

static void sample_docker(struct node_runtime *runtime, struct runtime_tuner *request,
	const char *socket, bool slow, const struct wait *wait)
{
	struct docker_info *info = &runtime->docker_info;
	struct runtime_store *store = &runtime->store;
	struct runtime_names names = {0};
	char why[DOCKER_ERROR_MAX], pulled[PULLED_MAX][DOCKER_NAME_MAX];
	uint64_t since_us = runtime->docker_events_us;
	size_t n = 0;
	int r;

	/* Where systemd listens on the socket, connecting would start a stopped dockerd. */
	if (docker_process_read(request->host, &runtime->options) < 0) {
		runtime_note(runtime, "dockerd does not run: no " DOCKER_PID_FILE);
		runtime->due_us = next_turn_us(now_us(), RUNTIME_SLOW_EVERY_US);
		return;
	}
	runtime_take_process(runtime, request->host, runtime->options.pid);
	if (slow || runtime->answer != RUNTIME_ANSWERS) {
		r = docker_read_info(socket, info, wait, why);
		request->cancelled |= r == -ECANCELED;
		if (r < 0 && r != -ECANCELED)
			runtime_note(runtime, why);
		if (r < 0)
			return;
		runtime_note(runtime, NULL);
		copy_text(runtime->version, sizeof(runtime->version), info->version);
		copy_text(runtime->reported_downloads, SETTING_VALUE_MAX, info->reloaded_downloads);
		copy_text(store->driver, sizeof(store->driver), info->storage_driver);
		copy_text(store->directory, sizeof(store->directory), info->root_dir);
	}
	read_layers(runtime, request);
	runtime->docker_events_us = realtime_us();
	if (since_us > 0 && runtime->pulls.n_images > 0)
		(void)docker_read_pulled(socket, since_us, pulled, PULLED_MAX, &n, wait);
	/* With the registry that Docker omits: splitDockerDomain() of distribution/reference. */
	for (size_t i = 0; i < n; i++) {
		size_t host = strcspn(pulled[i], "/");
		bool is_host =
			pulled[i][host] == '/' &&
			(strcspn(pulled[i], ".:") < host || starts_with(pulled[i], "localhost/"));
		char image[160];

		snprintf(image, sizeof(image), "%s%.140s", is_host ? "" : "docker.io/", pulled[i]);
		pulls_end(&runtime->pulls, image, now_us());
	}
	if (slow && docker_read_names(socket, &names.entries, &names.n, wait) == 0)
		runtime_take_names(runtime, &names);
}

/* ---- what is in force by the files, where the runtime does not say ---- */

/*
 * What a daemon read when it started is what its files say, if they have not changed since. Once
 * known of a process it stays so, whatever is written while it runs.
 */
static void infer(const struct node_runtime *runtime, uint64_t changed_us, const char *reported,
	const char *on_disk, const char *otherwise, char value[static SETTING_VALUE_MAX])
{
	bool known = value[0] != '\0';

	if (reported[0])
		copy_text(value, SETTING_VALUE_MAX, reported);
	else if (runtime->process.started_us == 0 ||
		 (!known && changed_us > runtime->process.started_us + START_SLACK_US))
		value[0] = '\0';
	else if (!known)
		copy_text(value, SETTING_VALUE_MAX, on_disk[0] ? on_disk : otherwise);
}

static void infer_docker(const struct host *host, struct node_runtime *runtime)
{
	const char *reported = runtime->reported_downloads[0] ? runtime->reported_downloads
							      : runtime->options.downloads;
	char directory[SETTING_PATH_MAX], path[PATH_MAX], key[PATH_MAX + 16];
	uint64_t changed_us = runtime->docker.changed_us;
	struct stat st, key_st;

	if (runtime->docker.error < 0 && !reported[0])
		return;
	copy_text(directory, sizeof(directory), runtime->process.config);
	*strrchr(directory, '/') = '\0';
	/*
	 * A file that does not exist was removed when its directory changed last, or before: but
	 * for the key that Docker 20.10 puts there at its first start.
	 */
	if (changed_us == 0 &&
		path_in_root(host->root, directory[0] ? directory : "/", path) == 0 &&
		stat(path, &st) == 0) {
		snprintf(key, sizeof(key), "%s/key.json", path);
		if (stat(key, &key_st) < 0 || us_of(st.st_mtim) > us_of(key_st.st_ctim))
			changed_us = us_of(st.st_mtim);
	}
	infer(runtime, changed_us, reported, runtime->docker.downloads, DEFAULT_DOWNLOADS,
		runtime->downloads);
	if (streq(runtime->downloads, "0"))
		copy_text(runtime->downloads, SETTING_VALUE_MAX, DEFAULT_DOWNLOADS);
}

static void sample_files(
	struct node_runtime *runtime, const struct runtime_tuner *request, const struct wait *wait)
{
	const struct runtime_daemon daemon = {.host = request->host,
		.binary = runtime->process.program,
		.version = runtime->version,
		.config = runtime->process.config,
		.directory = runtime->process.directory};
	const struct containerd_config *config = &runtime->containerd;
	bool tells = runtime->version[runtime->version[0] == 'v'] == '1'; /* 2.x leaves some out */

	/* What a key means depends on the version: without one nothing is decided yet. */
	if (!runtime->version[0] || !runtime->process.config[0] ||
		runtime->found.kind == RUNTIME_CRIO)
		return;
	runtime->files_known = true;
	if (runtime->found.kind == RUNTIME_DOCKER) {
		docker_config_read(&daemon, wait, &runtime->docker);
		infer_docker(request->host, runtime);
		return;
	}
	containerd_config_read(&daemon, wait, &runtime->containerd);
	if (tells && !runtime->no_cri) {
		copy_text(runtime->downloads, SETTING_VALUE_MAX, runtime->reported_downloads);
		copy_text(runtime->timeout, SETTING_VALUE_MAX, runtime->reported_timeout);
	} else if (config->error == 0) {
		/* The CRI's own number has no effect where the transfer service pulls. */
		infer(runtime, config->changed_us,
			config->transfer ? "" : runtime->reported_downloads,
			config->keys[CONTAINERD_DOWNLOADS].on_disk, DEFAULT_DOWNLOADS,
			runtime->downloads);
		infer(runtime, config->changed_us, runtime->reported_timeout,
			config->keys[CONTAINERD_PROGRESS_TIMEOUT].on_disk, "", runtime->timeout);
	}
}

/* ---- the file system of the images ---- */

/* The file system below the store's directory. */
static void sample_store(const struct host *host, struct runtime_store *store)
{
	/* By the field that mountinfo has for it: those whose blocks are elsewhere. */
	static const char *const network[] = {"nfs", "nfs4", "cifs", "smb3", "ceph", "9p",
		"glusterfs", "fuse.glusterfs", "lustre"};
	_cleanup_fclose_ FILE *mounts = NULL;
	_cleanup_free_ char *line = NULL, *text = NULL;
	size_t size = 0;
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
	/* mountinfo has thousands of lines on some nodes, and the device rarely changes. */
	if (store->number == st.st_dev && store->filesystem[0])
		return;
	store->number = st.st_dev;
	store->filesystem[0] = '\0';
	store->network = false;
	/* proc_pid_mountinfo(5) has the file system's type for a device. */
	mounts = fopen("/proc/self/mountinfo", "re");
	while (mounts && !store->filesystem[0] && getline(&line, &size, mounts) > 0) {
		const char *separator = strstr(line, " - ");
		unsigned major_number, minor_number;

		if (separator && sscanf(line, "%*d %*d %u:%u", &major_number, &minor_number) == 2 &&
			makedev(major_number, minor_number) == store->number)
			(void)sscanf(separator + 3, "%31s", store->filesystem);
	}
	for (size_t i = 0; i < ARRAY_SIZE(network); i++)
		store->network |= streq(network[i], store->filesystem);
	store->device[0] = '\0';
	store->rotational = false;
	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u", major(store->number),
		minor(store->number));
	if (!realpath(host_path(host, path, full), real))
		return;
	snprintf(path, sizeof(path), "%s/partition", real);
	copy_text(store->device, sizeof(store->device), strrchr(real, '/') + 1);
	/* A partition has no queue of its own: its disk's counts. */
	if (access(path, F_OK) == 0)
		*strrchr(real, '/') = '\0';
	snprintf(path, sizeof(path), "%s/queue/rotational", real);
	if (read_file(path, 16, &text, NULL) == 0)
		store->rotational = text[0] == '1';
}

/* ---- all of it ---- */

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

		if (!runtime->found.has_socket)
			continue;
		if (slow)
			runtime->due_us = next_turn_us(sample->now_us, RUNTIME_SLOW_EVERY_US);
		host_path(request->host, runtime->found.socket, socket);
		if (runtime->found.kind == RUNTIME_DOCKER)
			sample_docker(runtime, request, socket, slow, wait);
		else
			runtime_sample_cri(runtime, request, socket, slow, wait);
		sample_files(runtime, request, wait);
		sample_store(request->host, &runtime->store);
	}
	runtime_sample_hosts(request);
	next = sample->discover_due_us;
	for (size_t i = 0; i < sample->n_mirrors; i++)
		next = MIN(next, sample->mirrors[i].due_us);
	for (size_t i = 0; i < sample->n; i++) {
		const struct node_runtime *runtime = &sample->runtimes[i];

		if (!runtime->found.has_socket)
			continue;
		next = MIN(next, runtime->due_us);
		if (runtime->answer != RUNTIME_ANSWERS)
			continue;
		/* Before a restart it must be known that there is no pull. */
		if (runtime->pulls.n > 0 || runtime->pulls.n_images > 0 ||
			request->config.restart == RESTART_WHEN_IDLE)
			next = MIN(next, sample->now_us + PULLING_EVERY_US);
		else
			next = MIN(next, next_turn_us(sample->now_us, PULLS_EVERY_US));
	}
	sample->next_us = next;
}
