/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/docker_client.h"

#include "base/json.h"
#include "base/text.h"
#include "runtime/http_client.h"
#include "runtime/images.h"
#include "runtime/registry.h"
#include "runtime/systemd.h"
#include "workload/process.h"

#define VERSION_US  (5 * USEC_PER_SEC / 2) /* a daemon that needs longer for /version hangs */
#define ANSWER_US   (10 * USEC_PER_SEC)    /* for /info and lists of thousands of containers */
#define ANSWER_MAX  ((size_t)64 << 20)
#define OBJECT_MAX  262144 /* bytes of one object of a list or stream, without its long texts */
#define TEXT_MAX    131072 /* bytes: a longer text, such as a label, is left out */
#define NAMES_MAX   10000
#define REFUSAL_MAX 8192 /* bytes */

/* The tag of an archive's image whose name has a digest instead: see docker_add_name(). */
#define DIGEST_TAG ":sha256-"

#define DOWNLOADS "max-concurrent-downloads"
#define MIRRORS   "registry-mirrors"
#define RELOADS   "{\"type\":[\"daemon\"],\"event\":[\"reload\"]}"
#define PULLS     "{\"type\":[\"image\"],\"event\":[\"pull\"]}"

#define COPY(member, object, path) utf8_copy(member, sizeof(member), json_text_at(object, path))

/* ---- the process ---- */

/* Excludes a dockerd in a container, as in a nested cluster. A pid file may be stale. */
static bool is_dockerd(const char *root, pid_t pid)
{
	return process_is_named(root, pid, "dockerd") && process_is_of_host(root, pid);
}

/* Connects to the socket only if a dockerd runs: a connection starts a stopped one. */
static bool listens(const char *root, pid_t pid, void *socket)
{
	return is_dockerd(root, pid) && process_of_socket(socket) == pid;
}

int docker_process_read(
	const struct host *host, const char *socket, pid_t known, struct docker_process *ret)
{
	struct docker_process process = {.pid = known};
	char path[PATH_MAX], value[PATH_MAX];
	bool has_file = access(host_path(host, DOCKER_PID_FILE, path), F_OK) == 0;
	int r;

	if (known == 0 && (!has_file || process_of_pid_file(path, &process.pid) < 0 ||
				  !is_dockerd("", process.pid)))
		process.pid = process_find("", listens, (char *)socket);
	/* With a socket unit systemd itself listens. */
	if (process.pid == 0)
		process.pid = systemd_main_pid(host, "docker.service");
	if (process.pid > 0 && !is_dockerd("", process.pid))
		process.pid = 0;
	if (!has_file && process.pid == 0)
		return -ESRCH;
	r = process_option("", process.pid, DOWNLOADS, false, value, sizeof(value));
	process.downloads_on_command = r > 0;
	if (r > 0)
		set_text(process.downloads, value);
	/* A process whose command line cannot be read counts as not visible. */
	if (r < 0)
		process.pid = 0;
	process.mirrors_on_command =
		process_option("", process.pid, "registry-mirror", false, value, sizeof(value)) > 0;
	*ret = process;
	return 0;
}

/* ---- requests ---- */

struct request;

/* Reads one object of an answer. Returns 0, 1 to end the request, or -errno; -EBADMSG: invalid. */
typedef int object_fn(const cJSON *object, struct request *request);

struct request {
	object_fn *read;
	void *userdata; /* of read() */
	size_t n;       /* objects read */
	struct json_compact rest;
	char refusal[DOCKER_ERROR_MAX];
};

/* Parses the objects of a list or stream one by one, so that a long answer needs little memory. */
static int on_data(const char *text, size_t len, size_t *used, void *userdata)
{
	struct request *request = userdata;
	struct json_compact *rest = &request->rest;
	int r = 0;

	json_compact_add(rest, text, *used = len, TEXT_MAX);
	while (r == 0) {
		_cleanup_(cleanup_cJSON_Delete) cJSON *object = NULL;

		r = json_compact_next(rest, &object);
		if (r <= 0)
			return r == 0 && rest->len > OBJECT_MAX ? -EFBIG : r;
		request->n++;
		json_make_printable(object);
		r = request->read(object, request);
	}
	return r;
}

/* The text of {"message": "..."}, or of any other body. Hides secrets before cutting it. */
static void describe_refusal(const char *body, char why[static DOCKER_ERROR_MAX])
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *object = cJSON_Parse(body);
	const char *message = json_text_at(object, "message");
	_cleanup_free_ char *text = must(strndup(*message ? message : body, REFUSAL_MAX));

	hide_secrets(text);
	text_make_printable(text);
	utf8_copy(why, DOCKER_ERROR_MAX, text);
}

/* Calls read() for each object of the answer, which needs at least `least`. method NULL: GET. */
static int ask(const char *socket, const char *method, const char *path, uint64_t timeout_us,
	size_t least, object_fn *read, void *userdata, const struct wait *wait,
	char why[static DOCKER_ERROR_MAX])
{
	struct request request = {.read = read, .userdata = userdata};
	char url[1024];
	struct http_get http = {.url = url,
		.unix_socket = socket,
		.limit = method ? 0 : ANSWER_MAX,
		.method = method,
		.data = on_data,
		.userdata = &request};
	struct wait bounded = wait_at_most(wait, timeout_us);
	const char *text = NULL;
	int r;

	snprintf(url, sizeof(url), "http://docker%s", path);
	http_get_all(&http, 1, &bounded);
	r = http.error;
	/* An answer that ended within an object, or too early. */
	if (r == 0 && http.status / 100 == 2 && http.ended == 0 &&
		(request.rest.len > 0 || request.n < least))
		r = -EBADMSG;
	if (request.refusal[0]) {
		text = request.refusal;
	} else if (r == -ETIMEDOUT) {
		text = "no answer in time";
	} else if (r == -EBADMSG) {
		text = "the answer is not from a Docker daemon";
	} else if (r < 0) {
		text = http.why;
	} else if (http.status / 100 != 2) {
		describe_refusal(http.body ? http.body : "", request.refusal);
		text = request.refusal;
		r = http.status == 404 ? -ENOENT : -EPROTO;
	}
	why[0] = '\0';
	if (text)
		snprintf(why, DOCKER_ERROR_MAX, "%.100s: %s %.*s: %.120s", socket,
			method ? method : "GET", (int)strcspn(path, "?"), path, text);
	free(request.rest.text);
	free(http.body);
	return r;
}

/* GET /events with a filter, from since_us until now or for ever. */
static int ask_events(const char *socket, const char *filter, uint64_t since_us, bool for_ever,
	object_fn *read, void *userdata, const struct wait *wait, char why[static DOCKER_ERROR_MAX])
{
	char *escaped = must(curl_easy_escape(NULL, filter, 0)), path[512];
	uint64_t until_us = realtime_us();

	since_us = MAX(since_us, USEC_PER_SEC); /* Docker ignores 0 */
	snprintf(path, sizeof(path), "/events?filters=%s&since=%" PRIu64 ".%06" PRIu64, escaped,
		since_us / USEC_PER_SEC, since_us % USEC_PER_SEC);
	curl_free(escaped);
	if (!for_ever)
		text_append(path, sizeof(path), "&until=%" PRIu64 ".%06" PRIu64,
			until_us / USEC_PER_SEC, until_us % USEC_PER_SEC);
	return ask(socket, NULL, path, for_ever ? UINT64_MAX : VERSION_US, 0, read, userdata, wait,
		why);
}

static bool is_event(const cJSON *object, const char *type, const char *action)
{
	return streq(json_text_at(object, "Type"), type) &&
	       streq(json_text_at(object, "Action"), action);
}

/* ---- version, settings, reloads ---- */

static void join_mirrors(const cJSON *list, char words[static DOCKER_LIST_MAX])
{
	const cJSON *item;

	words[0] = '\0';
	cJSON_ArrayForEach (item, list) {
		const char *mirror = json_text_at(item, "");

		registry_list_add(words, DOCKER_LIST_MAX, mirror, strlen(mirror));
	}
	if (!words[0])
		copy_text(words, DOCKER_LIST_MAX, "none");
}

static int read_version(const cJSON *object, struct request *request)
{
	struct docker_info *info = request->userdata;

	COPY(info->version, object, "Version");
	return info->version[0] && *json_text_at(object, "ApiVersion") ? 0 : -EBADMSG;
}

static int read_info(const cJSON *object, struct request *request)
{
	struct docker_info *info = request->userdata;
	const cJSON *item;

	COPY(info->storage_driver, object, "Driver");
	COPY(info->root_dir, object, "DockerRootDir");
	join_mirrors(json_at(object, "RegistryConfig/Mirrors"), info->mirrors);
	join_mirrors(json_at(object, "RegistryConfig/InsecureRegistryCIDRs"), info->insecure);
	cJSON_ArrayForEach (item, json_at(object, "RegistryConfig/IndexConfigs"))
		if (cJSON_IsFalse(json_at(item, "Secure")))
			registry_list_add(info->insecure, DOCKER_LIST_MAX, item->string,
				strlen(item->string));
	return info->storage_driver[0] && info->root_dir[0] ? 0 : -EBADMSG;
}

/* A reload of daemon.json, and the value of key that it put in force. */
struct reload {
	const char *key;
	bool awaited; /* the first event ends the request; else the last one counts */
	bool seen;
	uint64_t at_us; /* CLOCK_REALTIME */
	char value[DOCKER_VALUE_MAX];
};

/* All attributes of a reload are strings, even numbers and lists. */
static int read_reload(const cJSON *object, struct request *request)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *list = NULL;
	const cJSON *attributes = json_at(object, "Actor/Attributes");
	struct reload *reload = request->userdata;
	char mirrors[DOCKER_LIST_MAX];

	if (!is_event(object, "daemon", "reload"))
		return 0;
	reload->seen = true;
	reload->at_us = (uint64_t)MAX(json_number_at(object, "timeNano") / 1000, 0.0);
	COPY(reload->value, attributes, reload->key);
	if (streq(reload->key, MIRRORS)) {
		list = cJSON_Parse(json_text_at(attributes, MIRRORS));
		join_mirrors(list, mirrors);
		registry_shorten_list(mirrors, reload->value, DOCKER_VALUE_MAX);
	}
	return reload->awaited;
}

int docker_read_info(const char *socket, struct docker_info *ret, const struct wait *wait,
	char why[static DOCKER_ERROR_MAX])
{
	struct reload reload = {.key = DOWNLOADS};
	struct docker_info info = *ret;
	int r = ask(socket, NULL, "/version", VERSION_US, 1, read_version, &info, wait, why);

	/* The daemon keeps its last 256 events. */
	if (r == 0)
		r = ask_events(socket, RELOADS, 0, false, read_reload, &reload, wait, why);
	info.reloaded_us = reload.at_us;
	set_text(info.reloaded_downloads, reload.value);
	if (r == 0 && (!info.root_dir[0] || info.reloaded_us != ret->reloaded_us))
		r = ask(socket, NULL, "/info", ANSWER_US, 1, read_info, &info, wait, why);
	if (r == 0)
		*ret = info;
	return r;
}

int docker_wait_reload(const char *socket, uint64_t since_us, const char *key,
	char value[static DOCKER_VALUE_MAX], const struct wait *wait)
{
	struct reload reload = {.key = key, .awaited = true};
	char why[DOCKER_ERROR_MAX];
	int r = ask_events(socket, RELOADS, since_us, true, read_reload, &reload, wait, why);

	if (r == 0)
		memcpy(value, reload.value, sizeof(reload.value));
	return r == 0 && !reload.seen ? -ECONNRESET : r;
}

/* ---- lists ---- */

struct list {
	void *items;
	size_t n, allocated;
};

/* The actor's ID is the whole reference; its name attribute lacks the tag. */
static int read_pull(const cJSON *object, struct request *request)
{
	struct list *pulled = request->userdata;
	char(*names)[DOCKER_NAME_MAX] = pulled->items;

	if (is_event(object, "image", "pull") && pulled->n < pulled->allocated)
		COPY(names[pulled->n++], object, "Actor/ID");
	return 0;
}

int docker_read_pulled(const char *socket, uint64_t since_us, char (*names)[DOCKER_NAME_MAX],
	size_t max, size_t *n, const struct wait *wait)
{
	struct list pulled = {.items = names, .allocated = max};
	char why[DOCKER_ERROR_MAX];
	int r = ask_events(socket, PULLS, since_us, false, read_pull, &pulled, wait, why);

	if (r == 0)
		*n = pulled.n;
	return r;
}

/* The caller frees the items. */
static int ask_list(const char *socket, const char *path, object_fn *read, void *items, size_t *n,
	const struct wait *wait, char why[static DOCKER_ERROR_MAX])
{
	struct list list = {0};
	int r = ask(socket, NULL, path, ANSWER_US, 0, read, &list, wait, why);

	if (r < 0) {
		free(list.items);
		return r;
	}
	*(void **)items = list.items;
	*n = list.n;
	return 0;
}

static int read_container(const cJSON *object, struct request *request)
{
	struct list *list = request->userdata;
	const char *pod = json_text_at(object, "Labels/io.kubernetes.pod.name");
	const char *name = json_text_at(object, "Names/0"); /* with a slash before it */
	const char *const ids[] = {
		json_text_at(object, "Id"), json_text_at(object, "Labels/io.kubernetes.pod.uid")};

	if (!ids[0][0])
		return -EBADMSG;
	for (size_t i = 0; i < ARRAY_SIZE(ids) && ids[i][0]; i++) {
		struct workload *workload;
		struct name_entry *entry;

		if (list->n == NAMES_MAX)
			return -E2BIG;
		entry = add_bytes(&list->items, &list->n, &list->allocated, sizeof(*entry));
		workload = &entry->workload;
		workload->kind = *pod ? WORKLOAD_POD : WORKLOAD_CONTAINER;
		COPY(workload->namespace, object, "Labels/io.kubernetes.pod.namespace");
		utf8_copy(
			workload->name, sizeof(workload->name), *pod ? pod : name + (*name == '/'));
		set_text(workload->id, ids[i]);
	}
	return 0;
}

int docker_read_names(
	const char *socket, struct name_entry **names, size_t *n, const struct wait *wait)
{
	char why[DOCKER_ERROR_MAX];

	return ask_list(socket, "/containers/json", read_container, names, n, wait, why);
}

static int add_image(struct list *list, const struct runtime_image *image)
{
	if (list->n == NAMES_MAX)
		return -E2BIG;
	*(struct runtime_image *)add_bytes(
		&list->items, &list->n, &list->allocated, sizeof(*image)) = *image;
	return 0;
}

static int read_image(const cJSON *object, struct request *request)
{
	const cJSON *name;
	int r = 0;

	for (int digests = 0; digests < 2; digests++)
		cJSON_ArrayForEach (name, json_at(object, digests ? "RepoDigests" : "RepoTags")) {
			struct runtime_image image = {
				.size = (uint64_t)MAX(json_number_at(object, "Size"), 0.0)};
			char *tag;

			COPY(image.id, object, "Id");
			/* also skips "<none>:<none>" */
			if (image_normalize(json_text_at(name, ""), image.name) < 0)
				continue;
			r = add_image(request->userdata, &image);
			tag = strstr(image.name, DIGEST_TAG);
			if (r == 0 && tag && strlen(tag) == DIGEST_MAX) {
				memcpy(tag, "@sha256:", strlen(DIGEST_TAG));
				r = add_image(request->userdata, &image);
			}
			if (r < 0)
				return r;
		}
	return 0;
}

int docker_list_images(const struct image_runtime *runtime, const struct wait *wait,
	struct runtime_image **images, size_t *n, char why[static DOCKER_ERROR_MAX])
{
	return ask_list(runtime->socket, "/images/json", read_image, images, n, wait, why);
}

static int read_found(const cJSON *object, struct request *request)
{
	struct runtime_image *image = request->userdata;

	COPY(image->id, object, "Id");
	image->size = (uint64_t)MAX(json_number_at(object, "Size"), 0.0);
	return image->id[0] ? 0 : -EBADMSG;
}

int docker_find_image(const struct image_runtime *runtime, const char *name,
	const struct wait *wait, struct runtime_image *ret, char why[static DOCKER_ERROR_MAX])
{
	struct runtime_image image = {0};
	char path[DOCKER_NAME_MAX + 64], tag[IMAGE_NAME_MAX];
	char *digest;
	int r;

	set_text(image.name, name);
	set_text(tag, name);
	digest = strstr(tag, "@sha256:");
	snprintf(path, sizeof(path), "/images/%s/json", name);
	r = ask(runtime->socket, NULL, path, ANSWER_US, 1, read_found, &image, wait, why);
	if (r == -ENOENT && digest) {
		memcpy(digest, DIGEST_TAG, strlen(DIGEST_TAG));
		snprintf(path, sizeof(path), "/images/%s/json", tag);
		r = ask(runtime->socket, NULL, path, ANSWER_US, 1, read_found, &image, wait, why);
	}
	if (r == 0)
		*ret = image;
	return r;
}

/* ---- changes ---- */

/* An answer with status 200 may still report an error. */
static int read_progress(const cJSON *object, struct request *request)
{
	const char *error = json_text_at(object, "error");
	_Atomic uint64_t *progress = request->userdata;

	if (progress)
		atomic_fetch_add(progress, 1);
	if (!*error)
		return 0;
	describe_refusal(error, request->refusal);
	return -EPROTO;
}

int docker_pull(const char *socket, const char *name, const struct wait *wait,
	_Atomic uint64_t *progress, char why[static DOCKER_ERROR_MAX])
{
	char path[DOCKER_NAME_MAX + 64];

	/* References need no URL escapes. */
	snprintf(path, sizeof(path), "/images/create?fromImage=%s", name);
	return ask(socket, "POST", path, UINT64_MAX, 1, read_progress, progress, wait, why);
}

int docker_add_name(const char *socket, const char *image, const char *name,
	const struct wait *wait, char why[static DOCKER_ERROR_MAX])
{
	char path[2 * DOCKER_NAME_MAX];
	const char *digest = strchr(name, '@'), *tag = strrchr(name, ':');

	snprintf(path, sizeof(path), "/images/%s/tag?repo=%.*s&tag=%s%s", image,
		(int)((digest ? digest : tag) - name), name, digest ? "sha256-" : "", tag + 1);
	return ask(socket, "POST", path, ANSWER_US, 0, read_progress, NULL, wait, why);
}

int docker_remove_name(const char *socket, const char *name, const struct wait *wait,
	char why[static DOCKER_ERROR_MAX])
{
	char path[DOCKER_NAME_MAX + 64];

	snprintf(path, sizeof(path), "/images/%s", name);
	return ask(socket, "DELETE", path, ANSWER_US, 0, read_progress, NULL, wait, why);
}
