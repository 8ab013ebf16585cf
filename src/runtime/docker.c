/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/docker_internal.h"

#include "base/util.h"
#include "runtime/docker_parse.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define LOOK_US     (10 * USEC_PER_SEC)    /* from one look to the next */
#define RETRY_US    (1 * USEC_PER_SEC)     /* after a failure; doubled up to LOOK_US */
#define HELLO_US    (5 * USEC_PER_SEC / 2) /* for /version, which costs a daemon nothing: it hangs */
#define ANSWER_US   (10 * USEC_PER_SEC)    /* for /info, which does */
#define ACCURACY_US USEC_PER_MSEC
#define INFO_EVERY  6      /* looks: the daemon walks its containers for /info */
#define ANSWER_MAX  262144 /* bytes of /version and /info: some thousand are usual */
#define PAST_MAX    1048576

/* The kinds that docker_parse_event knows: exec and health events come with every probe. */
#define EVENTS                                                                                               \
	"{\"type\":[\"daemon\",\"image\",\"container\"],\"event\":[\"reload\",\"pull\",\"load\",\"import\"," \
	"\"tag\",\"untag\",\"delete\",\"start\",\"destroy\",\"rename\"]}"
#define RELOADS "{\"type\":[\"daemon\"],\"event\":[\"reload\"]}"

static void look(struct docker *docker);

/*
 * Where systemd holds the socket, a mere connection would start a dockerd that somebody stopped, or
 * one that was never meant to run on this node: it says by its pid file that it runs.
 */
static bool is_running(const struct docker *docker)
{
	return docker->listening || access(docker->paths.pid_file, F_OK) == 0;
}

int docker_request(struct docker *docker, const char *url_path, struct fetch_request *request,
	struct fetch **fetch)
{
	char url[2048];

	if (!is_running(docker))
		return -ESRCH;
	if (snprintf(url, sizeof(url), "http://docker%s", url_path) >= (int)sizeof(url))
		return -EINVAL;
	request->url = url;
	request->unix_socket = docker->paths.socket;
	return fetch_start(docker->fetcher, request, fetch);
}

static void tell(struct docker *docker)
{
	if (memcmp(&docker->state, &docker->told, sizeof(docker->state)) == 0)
		return;
	docker->told = docker->state;
	if (docker->changed)
		docker->changed(docker->userdata);
}

static int on_time(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void)source;
	(void)usec;
	look(userdata);
	return 0;
}

static void look_in(struct docker *docker, uint64_t us)
{
	sd_event_source_set_time_relative(docker->timer, us);
	sd_event_source_set_enabled(docker->timer, SD_EVENT_ONESHOT);
}

static void set_error(struct docker *docker, int error)
{
	if (docker->state.error != error || docker->state.since_us == 0)
		docker->state.since_us = now_us();
	docker->state.error = error;
}

static void look_is_over(struct docker *docker, uint64_t next_us)
{
	docker->settled = true;
	look_in(docker, next_us);
	tell(docker);
}

static void all_is_well(struct docker *docker)
{
	set_error(docker, 0);
	memset(docker->state.why, 0, sizeof(docker->state.why));
	docker->retry_us = RETRY_US;
	look_is_over(docker, docker->listening ? LOOK_US : RETRY_US);
}

static void fail(struct docker *docker, int error, const char *what, const char *why)
{
	uint64_t retry_us = docker->retry_us;

	set_error(docker, error);
	memset(docker->state.why, 0, sizeof(docker->state.why));
	snprintf(docker->state.why, sizeof(docker->state.why), "%s: %s: %s", docker->paths.socket,
		what, why);
	docker->retry_us = MIN(2 * retry_us, LOOK_US);
	look_is_over(docker, retry_us);
}

/* False when it is no answer that could be read: then the look is over. */
static bool is_answer(struct docker *docker, const char *what, const struct fetch_result *result)
{
	char why[DOCKER_WHY_MAX];

	if (result->error == -ETIMEDOUT)
		fail(docker, result->error, what, "no answer in time: it hangs");
	else if (result->error == -EPROTO || result->error == -EFBIG)
		fail(docker, result->error, what, result->message);
	else if (result->error < 0)
		fail(docker, result->error, what, strerror(-result->error));
	else if (result->status == 200)
		return true;
	else {
		docker_parse_refusal(result->body, why);
		fail(docker, -EPROTO, what, why);
	}
	return false;
}

static void fail_unreadable(struct docker *docker, const char *what)
{
	fail(docker, -EBADMSG, what, "not what a Docker daemon answers");
}

static void stop_listening(struct docker *docker)
{
	fetch_cancel(steal(docker->listening));
	json_stream_clear(&docker->events);
}

static int on_live_event(const char *text, size_t len, void *userdata)
{
	struct docker *docker = userdata;
	struct docker_event event;
	int r = docker_parse_event(text, len, &event, &docker->state);

	if (r <= 0)
		return r;
	if (event.kind == DOCKER_EVENT_RELOAD)
		docker->info_due = true;
	tell(docker);
	if (docker->on_event)
		docker->on_event(&event, docker->userdata);
	return 0;
}

static int on_live_data(const char *data, size_t len, void *userdata)
{
	struct docker *docker = userdata;

	return json_stream_feed(&docker->events, data, len, on_live_event, docker);
}

/* Its end says nothing by itself: the next look tells whether the daemon has gone. */
static void on_live_end(const struct fetch_result *result, void *userdata)
{
	struct docker *docker = userdata;
	bool lasted = now_us() - docker->listening_since_us > LOOK_US;

	(void)result;
	docker->listening = NULL;
	json_stream_clear(&docker->events);
	docker->retry_us = lasted ? RETRY_US : MIN(2 * docker->retry_us, LOOK_US);
	if (!docker->look)
		look_in(docker, docker->retry_us);
}

/* GET /events with a filter, the words of a query escaped (RFC 3986). */
static void events_path(char *path, size_t size, const char *filter)
{
	size_t used = (size_t)snprintf(path, size, "/events?filters=");

	for (const char *p = filter; *p && used + 4 < size; p++)
		used += (size_t)snprintf(path + used, size - used,
			strchr("{}[]\",:", *p) ? "%%%02X" : "%c", (unsigned int)*p);
}

static void append_time(char *path, size_t size, const char *name, uint64_t us)
{
	size_t used = strlen(path);

	snprintf(path + used, size - used, "&%s=%" PRIu64 ".%06" PRIu64, name, us / USEC_PER_SEC,
		us % USEC_PER_SEC);
}

static void listen_from_now(struct docker *docker)
{
	struct fetch_request request = {
		.data = on_live_data, .done = on_live_end, .userdata = docker};
	char path[1024];
	struct stat st;

	request.connect_us = HELLO_US;
	events_path(path, sizeof(path), EVENTS);
	append_time(path, sizeof(path), "since", docker->asked_us);
	if (stat(docker->paths.socket, &st) == 0) {
		docker->socket_dev = st.st_dev;
		docker->socket_ino = st.st_ino;
	}
	docker->listening_since_us = now_us();
	(void)docker_request(docker, path, &request, &docker->listening);
}

static int on_past_event(const char *text, size_t len, void *userdata)
{
	struct docker *docker = userdata;
	struct docker_event event;
	uint64_t reloads = docker->state.reloads;
	int r = docker_parse_event(text, len, &event, &docker->state);

	docker->state.reloads = reloads;
	return MIN(r, 0);
}

static int on_past_data(const char *data, size_t len, void *userdata)
{
	struct docker *docker = userdata;

	return json_stream_feed(&docker->past, data, len, on_past_event, docker);
}

static void on_past(const struct fetch_result *result, void *userdata)
{
	struct docker *docker = userdata;
	bool whole = json_stream_is_whole(&docker->past);

	docker->look = NULL;
	json_stream_clear(&docker->past);
	if (!is_answer(docker, "GET /events", result))
		return;
	if (!whole) {
		fail_unreadable(docker, "GET /events");
		return;
	}
	docker_process_look(&docker->paths, &docker->state);
	listen_from_now(docker);
	all_is_well(docker);
}

static void fail_to_ask(struct docker *docker, int error)
{
	char why[DOCKER_WHY_MAX];

	snprintf(why, sizeof(why), "it does not run: no %s", docker->paths.pid_file);
	fail(docker, error, "dockerd", error == -ESRCH ? why : strerror(-error));
}

/* The request's userdata is set here. */
static void ask(struct docker *docker, const char *path, struct fetch_request request)
{
	int r;

	request.userdata = docker;
	r = docker_request(docker, path, &request, &docker->look);
	if (r < 0)
		fail_to_ask(docker, r);
}

/*
 * The daemon keeps its last 256 events: a reload among them tells what runs now. Those until this
 * moment are asked for, later ones listened to, so that none is lost in between.
 */
static void ask_past(struct docker *docker)
{
	char path[512];

	docker->asked_us = realtime_us();
	docker->state.source = DOCKER_SOURCE_NONE;
	docker->state.max_downloads = 0;
	events_path(path, sizeof(path), RELOADS);
	append_time(path, sizeof(path), "since", USEC_PER_SEC); /* 0 would be no time */
	append_time(path, sizeof(path), "until", docker->asked_us);
	ask(docker, path,
		(struct fetch_request){.deadline_us = HELLO_US,
			.limit = PAST_MAX,
			.data = on_past_data,
			.done = on_past});
}

static void on_info(const struct fetch_result *result, void *userdata)
{
	struct docker *docker = userdata;

	docker->look = NULL;
	if (!is_answer(docker, "GET /info", result))
		return;
	if (docker_parse_info(result->body, result->len, &docker->state) < 0) {
		fail_unreadable(docker, "GET /info");
		return;
	}
	docker->info_due = false;
	if (docker->listening)
		all_is_well(docker);
	else
		ask_past(docker);
}

static void on_version(const struct fetch_result *result, void *userdata)
{
	struct docker *docker = userdata;
	bool again;

	docker->look = NULL;
	if (!is_answer(docker, "GET /version", result))
		return;
	if (docker_parse_version(result->body, result->len, &docker->state) < 0) {
		fail_unreadable(docker, "GET /version");
		return;
	}
	again = docker->listening && !docker->info_due && docker->looks++ % INFO_EVERY != 0;
	if (again)
		all_is_well(docker);
	else
		ask(docker, "/info",
			(struct fetch_request){
				.deadline_us = ANSWER_US, .limit = ANSWER_MAX, .done = on_info});
}

/* Whoever listened on a socket that was replaced is not who answers there now. */
static bool socket_was_replaced(const struct docker *docker)
{
	struct stat st;

	return docker->listening && stat(docker->paths.socket, &st) == 0 &&
	       (st.st_dev != docker->socket_dev || st.st_ino != docker->socket_ino);
}

static void look(struct docker *docker)
{
	if (docker->look)
		return;
	if (socket_was_replaced(docker))
		stop_listening(docker);
	ask(docker, "/version",
		(struct fetch_request){
			.deadline_us = HELLO_US, .limit = ANSWER_MAX, .done = on_version});
}

static bool set_paths(struct docker_paths *paths, const struct docker_options *options)
{
	const char *socket_path = options->socket_path ? options->socket_path : DOCKER_SOCKET;
	const char *pid_file = options->pid_file ? options->pid_file : DOCKER_PID_FILE;
	const char *config = options->config_path ? options->config_path : DOCKER_CONFIG;
	const char *root = options->host_root;
	int n = snprintf(paths->socket, sizeof(paths->socket), "%s%s", root, socket_path);
	int m = snprintf(paths->pid_file, sizeof(paths->pid_file), "%s%s", root, pid_file);

	return n < (int)sizeof(((struct sockaddr_un *)NULL)->sun_path) &&
	       m < (int)sizeof(paths->pid_file) &&
	       copy_text(paths->root, sizeof(paths->root), root) &&
	       copy_text(paths->config, sizeof(paths->config), config);
}

int docker_open(sd_event *event, struct fetcher *fetcher, const struct docker_options *options,
	struct docker **ret)
{
	_cleanup_(cleanup_docker_close) struct docker *docker = calloc(1, sizeof(*docker));
	int r;

	if (!docker)
		return -ENOMEM;
	docker->event = sd_event_ref(event);
	docker->fetcher = fetcher;
	docker->changed = options->changed;
	docker->on_event = options->event;
	docker->userdata = options->userdata;
	docker->state.error = -EINPROGRESS;
	docker->told = docker->state;
	docker->retry_us = RETRY_US;
	docker->events.max = docker->past.max = DOCKER_OBJECT_MAX;
	if (!set_paths(&docker->paths, options))
		return -ENAMETOOLONG;
	r = sd_event_add_time_relative(
		event, &docker->timer, CLOCK_MONOTONIC, 0, ACCURACY_US, on_time, docker);
	if (r < 0)
		return r;
	*ret = steal(docker);
	return 0;
}

void docker_close(struct docker *docker)
{
	if (!docker)
		return;
	fetch_cancel(docker->look);
	stop_listening(docker);
	json_stream_clear(&docker->past);
	listing_clear(&docker->containers);
	listing_clear(&docker->images);
	docker_transfers_clear(docker);
	sd_event_source_disable_unref(docker->timer);
	sd_event_unref(docker->event);
	free(docker);
}

const struct docker_state *docker_state(const struct docker *docker)
{
	return &docker->state;
}

bool docker_settled(const struct docker *docker)
{
	return docker->settled;
}
