/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/docker.h"

#include "base/cleanup.h"
#include "base/util.h"
#include "runtime/docker_parse.h"
#include "runtime/http_client.h"
#include "runtime/json_stream.h"

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

#define RELOADS "{\"type\":[\"daemon\"],\"event\":[\"reload\"]}"
#define PULLS   "{\"type\":[\"image\"],\"event\":[\"pull\"]}"

/* What one request collects from a stream of JSON objects. */
struct collector {
	struct json_stream stream;
	json_stream_fn *each;
	void *userdata;
};

static int take_data(const char *data, size_t len, void *userdata)
{
	struct collector *collector = userdata;

	return json_stream_feed(
		&collector->stream, data, len, collector->each, collector->userdata);
}

static void describe(
	char why[static DOCKER_ERROR_MAX], const char *socket, const char *what, const char *text)
{
	snprintf(why, DOCKER_ERROR_MAX, "%.100s: GET %.16s: %.120s", socket, what, text);
}

/*
 * GET of a path; the body goes to collector where there is one, else to body (which the caller
 * frees).
 */
static int get(const char *socket, const char *path, uint64_t timeout_us, size_t limit,
	struct collector *collector, char **body, const struct wait *wait,
	char why[static DOCKER_ERROR_MAX])
{
	char url[1024], what[16];
	struct http_get request = {.url = url,
		.unix_socket = socket,
		.limit = limit,
		.data = collector ? take_data : NULL,
		.userdata = collector};
	struct wait bounded = wait_at_most(wait, timeout_us);

	snprintf(url, sizeof(url), "http://docker%s", path);
	snprintf(what, sizeof(what), "%.*s", (int)strcspn(path, "?"), path);
	http_get_all(&request, 1, &bounded);
	why[0] = '\0';
	if (request.error < 0) {
		describe(why, socket, what,
			request.error == -ETIMEDOUT ? "no answer in time: it hangs" : request.why);
	} else if (request.status != 200) {
		char refusal[DOCKER_ERROR_MAX];

		docker_parse_refusal(request.body ? request.body : "", refusal);
		describe(why, socket, what, refusal);
		request.error = -EPROTO;
	} else if (body) {
		*body = steal(request.body);
	}
	http_get_clear(&request);
	return request.error;
}

/* GET of one object, which parse understands. */
static int get_object(const char *socket, const char *path, uint64_t timeout_us,
	int (*parse)(const char *, size_t, struct docker_info *), struct docker_info *info,
	const struct wait *wait, char why[static DOCKER_ERROR_MAX])
{
	_cleanup_free_ char *body = NULL;
	int r = get(socket, path, timeout_us, ANSWER_MAX, NULL, &body, wait, why);

	if (r == 0) {
		r = parse(body ? body : "", body ? strlen(body) : 0, info);
		if (r < 0)
			describe(why, socket, path, "not what a Docker daemon answers");
	}
	return r;
}

/* GET /events from since_us on, until until_us (0: for ever), with a filter as URLs spell it. */
static int get_events(const char *socket, const char *filter, uint64_t since_us, uint64_t until_us,
	json_stream_fn *each, void *userdata, const struct wait *wait,
	char why[static DOCKER_ERROR_MAX])
{
	struct collector collector = {.stream.max = OBJECT_MAX, .each = each, .userdata = userdata};
	char path[512];
	size_t used;
	int r;

	since_us = MAX(since_us, USEC_PER_SEC); /* 0 would be no time */
	used = (size_t)snprintf(path, sizeof(path), "/events?since=%" PRIu64 ".%06" PRIu64,
		since_us / USEC_PER_SEC, since_us % USEC_PER_SEC);
	if (until_us > 0)
		used += (size_t)snprintf(path + used, sizeof(path) - used,
			"&until=%" PRIu64 ".%06" PRIu64, until_us / USEC_PER_SEC,
			until_us % USEC_PER_SEC);
	used += (size_t)snprintf(path + used, sizeof(path) - used, "&filters=");
	for (const char *p = filter; *p && used + 4 < sizeof(path); p++)
		used += (size_t)snprintf(path + used, sizeof(path) - used,
			strchr("{}[]\",:", *p) ? "%%%02X" : "%c", (unsigned int)*p);
	r = get(socket, path, until_us > 0 ? VERSION_US : UINT64_MAX, EVENTS_MAX, &collector, NULL,
		wait, why);
	if (r == 0 && until_us > 0 && !json_stream_is_whole(&collector.stream)) {
		describe(why, socket, "/events", "not what a Docker daemon answers");
		r = -EBADMSG;
	}
	json_stream_clear(&collector.stream);
	return r;
}

static int take_reload(const char *text, size_t len, void *userdata)
{
	struct docker_info *info = userdata;
	char downloads[DOCKER_VALUE_MAX];
	int r = docker_parse_reload(
		text, len, "max-concurrent-downloads", downloads, &info->reloaded_us);

	if (r > 0)
		copy_text(info->reloaded_downloads, sizeof(info->reloaded_downloads), downloads);
	return MIN(r, 0);
}

int docker_read_info(const char *socket, struct docker_info *ret, const struct wait *wait,
	char why[static DOCKER_ERROR_MAX])
{
	struct docker_info info = *ret;
	int r = get_object(socket, "/version", VERSION_US, docker_parse_version, &info, wait, why);

	/* The daemon keeps its last 256 events: a reload among them says what runs now. */
	info.reloaded_us = 0;
	info.reloaded_downloads[0] = '\0';
	if (r == 0)
		r = get_events(socket, RELOADS, 0, realtime_us(), take_reload, &info, wait, why);
	if (r == 0 && (!info.root_dir[0] || info.reloaded_us != ret->reloaded_us))
		r = get_object(socket, "/info", ANSWER_US, docker_parse_info, &info, wait, why);
	if (r == 0)
		*ret = info;
	return r;
}

struct awaited {
	const char *key;
	char *value;
	bool seen;
};

static int end_at_reload(const char *text, size_t len, void *userdata)
{
	struct awaited *awaited = userdata;

	uint64_t when_us;
	int r = docker_parse_reload(text, len, awaited->key, awaited->value, &when_us);

	awaited->seen = awaited->seen || r > 0;
	return r;
}

int docker_wait_reload(const char *socket, uint64_t since_us, const char *key,
	char value[static DOCKER_VALUE_MAX], const struct wait *wait)
{
	char found[DOCKER_VALUE_MAX], why[DOCKER_ERROR_MAX];
	struct awaited awaited = {.key = key, .value = found};
	int r;

	found[0] = '\0';
	r = get_events(socket, RELOADS, since_us, 0, end_at_reload, &awaited, wait, why);
	if (r == 0 && !awaited.seen)
		return -ECONNRESET;
	if (r == 0)
		copy_text(value, DOCKER_VALUE_MAX, found);
	return r;
}

struct pulled {
	char (*names)[DOCKER_NAME_MAX];
	size_t n, max;
};

static int take_pull(const char *text, size_t len, void *userdata)
{
	struct pulled *pulled = userdata;
	char name[DOCKER_NAME_MAX];
	int r = docker_parse_pull(text, len, name);

	if (r > 0 && pulled->n < pulled->max)
		copy_text(pulled->names[pulled->n++], DOCKER_NAME_MAX, name);
	return MIN(r, 0);
}

int docker_read_pulled(const char *socket, uint64_t since_us, char (*names)[DOCKER_NAME_MAX],
	size_t max, size_t *n, const struct wait *wait)
{
	struct pulled pulled = {.names = names, .max = max};
	char why[DOCKER_ERROR_MAX];
	int r = get_events(socket, PULLS, since_us, realtime_us(), take_pull, &pulled, wait, why);

	if (r == 0)
		*n = pulled.n;
	return r;
}

struct listing {
	void *items;
	size_t n, allocated;
};

static int take_container(const char *text, size_t len, void *userdata)
{
	struct listing *listing = userdata;
	struct docker_container *list;
	int r;

	if (listing->n == OBJECTS_MAX)
		return -E2BIG;
	r = grow_array(&listing->items, listing->n, &listing->allocated, sizeof(*list));
	if (r < 0)
		return r;
	list = listing->items;
	r = docker_parse_container(text, len, &list[listing->n]);
	if (r == 0)
		listing->n++;
	return r;
}

int docker_read_containers(
	const char *socket, struct docker_container **list, size_t *n, const struct wait *wait)
{
	struct listing listing = {0};
	struct collector collector = {.stream = {.list = true, .max = OBJECT_MAX},
		.each = take_container,
		.userdata = &listing};
	char why[DOCKER_ERROR_MAX];
	int r = get(
		socket, "/containers/json?all=1", ANSWER_US, LIST_MAX, &collector, NULL, wait, why);

	if (r == 0 && !json_stream_is_whole(&collector.stream))
		r = -EBADMSG;
	json_stream_clear(&collector.stream);
	if (r < 0) {
		free(listing.items);
		return r;
	}
	*list = listing.items;
	*n = listing.n;
	return 0;
}
