/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/docker.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "base/util.h"
#include "runtime/http_client.h"
#include "runtime/json_stream.h"
#include "runtime/registry.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>

#define VERSION_US                                                                             \
	(5 * USEC_PER_SEC / 2)          /* GET /version costs a daemon nothing: later it hangs \
					 */
#define ANSWER_US   (10 * USEC_PER_SEC) /* for /info and lists of thousands of containers */
#define ANSWER_MAX  262144              /* bytes of /version and /info: some thousand are usual */
#define EVENTS_MAX  1048576
#define LIST_MAX    ((size_t)64 << 20)
#define OBJECT_MAX  262144 /* bytes of one object of a list or stream */
#define OBJECTS_MAX 5000
#define MIRRORS_MAX 2048 /* bytes of their list */
#define REFUSAL_MAX 8192 /* bytes of a refusal that are looked at */

#define DOWNLOADS "max-concurrent-downloads"
#define RELOADS   "{\"type\":[\"daemon\"],\"event\":[\"reload\"]}"
#define PULLS     "{\"type\":[\"image\"],\"event\":[\"pull\"]}"

DEFINE_CLEANUP(cJSON, cJSON_Delete)

/* ---- objects ---- */

static const cJSON *get(const cJSON *object, const char *key)
{
	return cJSON_GetObjectItemCaseSensitive(object, key);
}

static const char *text_of(const cJSON *object, const char *key)
{
	const char *text = cJSON_GetStringValue(get(object, key));

	return text ? text : "";
}

/* Cut at a whole character. Control characters would end a log's line or move a terminal. */
static void copy_line(char *dst, size_t size, const char *src)
{
	utf8_copy(dst, size, src);
	for (char *p = dst; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = ' ';
}

#define COPY(member, object, key) copy_line(member, sizeof(member), text_of(object, key))

/* /info puts a slash at the end of each, a reload's event does not. */
static void join_mirrors(const cJSON *list, char value[static DOCKER_VALUE_MAX])
{
	char words[MIRRORS_MAX] = "";
	const cJSON *item;

	cJSON_ArrayForEach (item, list) {
		const char *mirror = cJSON_GetStringValue(item);

		if (mirror)
			registry_list_add(words, sizeof(words), mirror, strlen(mirror));
	}
	registry_shorten_list(words[0] ? words : "none", value, DOCKER_VALUE_MAX);
	copy_line(words, sizeof(words), value);
	copy_text(value, DOCKER_VALUE_MAX, words);
}

static bool is_event(const cJSON *object, const char *type, const char *action)
{
	return streq(text_of(object, "Type"), type) && streq(text_of(object, "Action"), action);
}

/* ---- requests ---- */

/* Takes one object of an answer. 0, 1 for no more, or -errno; -EBADMSG for what it is not. */
typedef int take_fn(const cJSON *object, void *userdata);

struct request {
	struct json_stream stream;
	take_fn *take;
	void *userdata;
};

static int take_text(const char *text, size_t len, void *userdata)
{
	const struct request *request = userdata;
	_cleanup_(cleanup_cJSON_Delete) cJSON *object = cJSON_ParseWithLength(text, len);

	return cJSON_IsObject(object) ? request->take(object, request->userdata) : -EBADMSG;
}

static int take_data(const char *data, size_t len, void *userdata)
{
	struct request *request = userdata;

	return json_stream_feed(&request->stream, data, len, take_text, request);
}

/* A refusal, {"message": "..."}, or any other text. Secrets go before it is cut. */
static void describe_refusal(const char *body, char why[static DOCKER_ERROR_MAX])
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *object = cJSON_Parse(body);
	const char *message = text_of(object, "message");
	_cleanup_free_ char *text = strndup(*message ? message : body, REFUSAL_MAX);

	if (text)
		hide_secrets(text);
	copy_line(why, DOCKER_ERROR_MAX, text ? text : "");
}

/* GET of a path, each object of whose answer goes to take. */
static int ask(const char *socket, const char *path, uint64_t timeout_us, size_t limit,
	struct request *request, const struct wait *wait, char why[static DOCKER_ERROR_MAX])
{
	char url[1024], refusal[DOCKER_ERROR_MAX] = "not what a Docker daemon answers";
	struct http_get http = {.url = url,
		.unix_socket = socket,
		.limit = limit,
		.data = take_data,
		.userdata = request};
	struct wait bounded = wait_at_most(wait, timeout_us);
	const char *text = NULL;
	int r;

	request->stream.max = OBJECT_MAX;
	snprintf(url, sizeof(url), "http://docker%s", path);
	http_get_all(&http, 1, &bounded);
	r = http.error;
	if (r == -ETIMEDOUT) {
		text = "no answer in time: it hangs";
	} else if (r == -EBADMSG || (r == 0 && http.status == 200 && timeout_us < UINT64_MAX &&
					    !json_stream_is_whole(&request->stream))) {
		text = refusal;
		r = -EBADMSG;
	} else if (r < 0) {
		text = http.why;
	} else if (http.status != 200) {
		describe_refusal(http.body ? http.body : "", refusal);
		text = refusal;
		r = -EPROTO;
	}
	why[0] = '\0';
	if (text)
		snprintf(why, DOCKER_ERROR_MAX, "%.100s: GET %.*s: %.120s", socket,
			(int)strcspn(path, "?"), path, text);
	json_stream_clear(&request->stream);
	http_get_clear(&http);
	return r;
}

/* GET /events from since_us on, with a filter; until now, or for ever. */
static int ask_events(const char *socket, const char *filter, uint64_t since_us, bool for_ever,
	take_fn *take, void *userdata, const struct wait *wait, char why[static DOCKER_ERROR_MAX])
{
	struct request request = {.take = take, .userdata = userdata};
	uint64_t until_us = realtime_us();
	char path[512];
	size_t used;

	since_us = MAX(since_us, USEC_PER_SEC); /* 0 would be no time */
	used = (size_t)snprintf(path, sizeof(path), "/events?since=%" PRIu64 ".%06" PRIu64,
		since_us / USEC_PER_SEC, since_us % USEC_PER_SEC);
	if (!for_ever)
		used += (size_t)snprintf(path + used, sizeof(path) - used,
			"&until=%" PRIu64 ".%06" PRIu64, until_us / USEC_PER_SEC,
			until_us % USEC_PER_SEC);
	used += (size_t)snprintf(path + used, sizeof(path) - used, "&filters=");
	for (const char *p = filter; *p && used + 4 < sizeof(path); p++)
		used += (size_t)snprintf(path + used, sizeof(path) - used,
			strchr("{}[]\",:", *p) ? "%%%02X" : "%c", (unsigned int)*p);
	return ask(
		socket, path, for_ever ? UINT64_MAX : VERSION_US, EVENTS_MAX, &request, wait, why);
}

/* ---- what the daemon says of itself ---- */

static int take_version(const cJSON *object, void *userdata)
{
	struct docker_info *info = userdata;

	COPY(info->version, object, "Version");
	return info->version[0] && *text_of(object, "ApiVersion") ? 0 : -EBADMSG;
}

static int take_info(const cJSON *object, void *userdata)
{
	struct docker_info *info = userdata;

	COPY(info->storage_driver, object, "Driver");
	COPY(info->root_dir, object, "DockerRootDir");
	if (!info->storage_driver[0] || !info->root_dir[0])
		return -EBADMSG;
	join_mirrors(get(get(object, "RegistryConfig"), "Mirrors"), info->mirrors);
	return 0;
}

/* The attributes of a reload are texts, also where they hold numbers and lists. */
static int take_past_reload(const cJSON *object, void *userdata)
{
	struct docker_info *info = userdata;
	const cJSON *nano = get(object, "timeNano");

	if (!is_event(object, "daemon", "reload"))
		return 0;
	info->reloaded_us = cJSON_IsNumber(nano) && nano->valuedouble > 0
				    ? (uint64_t)(nano->valuedouble / 1000)
				    : 0;
	COPY(info->reloaded_downloads, get(get(object, "Actor"), "Attributes"), DOWNLOADS);
	return 0;
}

int docker_read_info(const char *socket, struct docker_info *ret, const struct wait *wait,
	char why[static DOCKER_ERROR_MAX])
{
	struct docker_info info = *ret;
	struct request version = {.take = take_version, .userdata = &info};
	struct request rest = {.take = take_info, .userdata = &info};
	int r = ask(socket, "/version", VERSION_US, ANSWER_MAX, &version, wait, why);

	/* The daemon keeps its last 256 events: a reload among them says what runs now. */
	info.reloaded_us = 0;
	info.reloaded_downloads[0] = '\0';
	if (r == 0)
		r = ask_events(socket, RELOADS, 0, false, take_past_reload, &info, wait, why);
	if (r == 0 && (!info.root_dir[0] || info.reloaded_us != ret->reloaded_us))
		r = ask(socket, "/info", ANSWER_US, ANSWER_MAX, &rest, wait, why);
	if (r == 0)
		*ret = info;
	return r;
}

/* ---- events ---- */

struct awaited {
	const char *key;
	char value[DOCKER_VALUE_MAX];
	bool seen;
};

static int take_reload(const cJSON *object, void *userdata)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *list = NULL;
	struct awaited *awaited = userdata;
	const cJSON *attributes = get(get(object, "Actor"), "Attributes");

	if (!is_event(object, "daemon", "reload"))
		return 0;
	awaited->seen = true;
	COPY(awaited->value, attributes, awaited->key);
	if (streq(awaited->key, "registry-mirrors")) {
		list = cJSON_Parse(text_of(attributes, awaited->key));
		join_mirrors(list, awaited->value);
	}
	return 1;
}

int docker_wait_reload(const char *socket, uint64_t since_us, const char *key,
	char value[static DOCKER_VALUE_MAX], const struct wait *wait)
{
	struct awaited awaited = {.key = key};
	char why[DOCKER_ERROR_MAX];
	int r = ask_events(socket, RELOADS, since_us, true, take_reload, &awaited, wait, why);

	if (r == 0 && !awaited.seen)
		return -ECONNRESET;
	if (r == 0)
		copy_text(value, DOCKER_VALUE_MAX, awaited.value);
	return r;
}

struct pulled {
	char (*names)[DOCKER_NAME_MAX];
	size_t n, max;
};

/* The actor of a pull is the whole reference, its name attribute lacks the tag. */
static int take_pull(const cJSON *object, void *userdata)
{
	struct pulled *pulled = userdata;

	if (is_event(object, "image", "pull") && pulled->n < pulled->max)
		COPY(pulled->names[pulled->n++], get(object, "Actor"), "ID");
	return 0;
}

int docker_read_pulled(const char *socket, uint64_t since_us, char (*names)[DOCKER_NAME_MAX],
	size_t max, size_t *n, const struct wait *wait)
{
	struct pulled pulled = {.names = names, .max = max};
	char why[DOCKER_ERROR_MAX];
	int r = ask_events(socket, PULLS, since_us, false, take_pull, &pulled, wait, why);

	if (r == 0)
		*n = pulled.n;
	return r;
}

/* ---- containers ---- */

struct listing {
	void *items;
	size_t n, allocated;
};

static int take_container(const cJSON *object, void *userdata)
{
	struct listing *listing = userdata;
	struct docker_container *container;
	const cJSON *labels = get(object, "Labels");
	const char *name = cJSON_GetStringValue(cJSON_GetArrayItem(get(object, "Names"), 0));
	int r = listing->n == OBJECTS_MAX ? -E2BIG
					  : grow_array(&listing->items, listing->n,
						    &listing->allocated, sizeof(*container));

	if (r < 0)
		return r;
	container = (struct docker_container *)listing->items + listing->n++;
	COPY(container->id, object, "Id");
	copy_line(container->name, sizeof(container->name), name ? name + (*name == '/') : "");
	container->running = streq(text_of(object, "State"), "running");
	COPY(container->pod_namespace, labels, "io.kubernetes.pod.namespace");
	COPY(container->pod_name, labels, "io.kubernetes.pod.name");
	COPY(container->pod_uid, labels, "io.kubernetes.pod.uid");
	return container->id[0] ? 0 : -EBADMSG;
}

int docker_read_containers(
	const char *socket, struct docker_container **list, size_t *n, const struct wait *wait)
{
	struct listing listing = {0};
	struct request request = {
		.stream.list = true, .take = take_container, .userdata = &listing};
	char why[DOCKER_ERROR_MAX];
	int r = ask(socket, "/containers/json?all=1", ANSWER_US, LIST_MAX, &request, wait, why);

	if (r < 0) {
		free(listing.items);
		return r;
	}
	*list = listing.items;
	*n = listing.n;
	return 0;
}
