/* SPDX-License-Identifier: Apache-2.0 */
#include "report/http_internal.h"

#include "base/util.h"

#include <errno.h>
#include <netinet/in.h>

#define REQUEST_US      (10 * USEC_PER_SEC)
#define CONNECTIONS_MAX 64

/*
 * For the head of a request and of its reply: a browser may send all cookies of "localhost", which
 * ports share. More is answered with 431 or 414.
 */
#define CONNECTION_MEMORY ((size_t)16 * 1024)

/* sd-event's default of 250 ms would let a deadline pass by that much. */
#define TIMER_ACCURACY_US (10 * USEC_PER_MSEC)

/* libmicrohttpd tells with a timeout of 0 that it holds input that it has not looked at. */
static uint64_t daemon_deadline(const struct http_server *server)
{
	MHD_UNSIGNED_LONG_LONG milliseconds;

	if (server->resumed)
		return now_us();
	if (MHD_get_timeout(server->daemon, &milliseconds) != MHD_YES)
		return UINT64_MAX;
	return now_us() + (uint64_t)milliseconds * USEC_PER_MSEC;
}

static void arm_timer(struct http_server *server)
{
	uint64_t next = MIN(daemon_deadline(server), http_connections_deadline(server));

	if (server->paused_until_us)
		next = MIN(next, server->paused_until_us);
	if (next == UINT64_MAX) {
		sd_event_source_set_enabled(server->timer, SD_EVENT_OFF);
		return;
	}
	sd_event_source_set_time(server->timer, next);
	sd_event_source_set_enabled(server->timer, SD_EVENT_ONESHOT);
}

void http_server_wake(struct http_server *server)
{
	/* libmicrohttpd signals a resumed connection to its own threads only, and has none here. */
	server->resumed = true;
	arm_timer(server);
}

void http_server_turn(struct http_server *server)
{
	server->resumed = false;
	MHD_run(server->daemon);
	http_connections_drop_unstarted(server);
	arm_timer(server);
}

static int on_daemon(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	(void)source, (void)fd, (void)events;
	http_server_turn(userdata);
	return 0;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct http_server *server = userdata;

	(void)source, (void)usec;
	if (server->paused_until_us && server->paused_until_us <= now_us())
		http_listen_resume(server);
	http_connections_expire(server);
	http_server_turn(server);
	return 0;
}

static struct MHD_Daemon *start_daemon(struct http_server *server)
{
	/*
	 * The limits on connections and time are ours: libmicrohttpd refuses the newest connection,
	 * and its timeout counts idleness. Its own limit leaves room for those that were shut down
	 * and not yet noticed.
	 */
	return MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME,
		0, NULL, NULL, http_route, server, MHD_OPTION_CONNECTION_LIMIT,
		4 * server->max_open, MHD_OPTION_CONNECTION_TIMEOUT, 0U,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_MEMORY, MHD_OPTION_NOTIFY_CONNECTION,
		http_connection_notify, server, MHD_OPTION_NOTIFY_COMPLETED, http_request_completed,
		server, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
}

static int watch_daemon(struct http_server *server)
{
	const union MHD_DaemonInfo *info =
		MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	int r;

	if (!info)
		return -ENOTSUP;
	r = sd_event_add_io(
		server->event, &server->daemon_source, info->epoll_fd, EPOLLIN, on_daemon, server);
	if (r < 0)
		return r;
	r = sd_event_add_time(server->event, &server->timer, CLOCK_MONOTONIC, 0, TIMER_ACCURACY_US,
		on_timer, server);
	if (r < 0)
		return r;
	return sd_event_source_set_enabled(server->timer, SD_EVENT_OFF);
}

static struct http_server *server_new(
	sd_event *event, const struct http_options *options, const struct http_handlers *handlers)
{
	struct http_server *server = calloc(1, sizeof(*server));

	if (!server)
		return NULL;
	server->event = sd_event_ref(event);
	server->handlers = handlers;
	server->request_us = options->request_us ? options->request_us : REQUEST_US;
	server->max_open = options->connections ? options->connections : CONNECTIONS_MAX;
	server->admin = options->admin;
	server->tcp = (struct http_listener){.server = server, .fd = -1};
	server->local = (struct http_listener){.server = server, .fd = -1, .local = true};
	return server;
}

static int open_listeners(
	struct http_server *server, const struct http_options *options, const char **what)
{
	int r;

	if (options->listen_on && options->listen_on[0]) {
		r = http_listen_tcp(server, options->listen_on);
		if (r < 0) {
			*what = "listen";
			return r;
		}
	}
	if (options->socket_path && options->socket_path[0]) {
		r = http_listen_unix(server, options->socket_path);
		if (r < 0) {
			*what = "socket";
			return r;
		}
	}
	return 0;
}

int http_server_open_with(sd_event *event, const struct http_options *options,
	const struct http_handlers *handlers, void *userdata, struct http_server **ret,
	const char **what)
{
	_cleanup_(cleanup_http_server_close) struct http_server *server =
		server_new(event, options, handlers);
	int r;

	*what = "server";
	if (!server)
		return -ENOMEM;
	server->userdata = userdata;
	server->daemon = start_daemon(server);
	if (!server->daemon)
		return errno > 0 ? -errno : -ENOMEM;
	r = watch_daemon(server);
	if (r < 0)
		return r;
	r = open_listeners(server, options, what);
	if (r < 0)
		return r;
	*ret = steal(server);
	return 0;
}

int http_server_open(sd_event *event, const char *listen_on, const char *socket_path,
	const struct http_handlers *handlers, void *userdata, struct http_server **ret,
	const char **what)
{
	const struct http_options options = {.listen_on = listen_on, .socket_path = socket_path};

	return http_server_open_with(event, &options, handlers, userdata, ret, what);
}

uint16_t http_server_port(const struct http_server *server)
{
	struct sockaddr_storage address = {0};
	socklen_t length = sizeof(address);

	if (server->tcp.fd < 0 ||
		getsockname(server->tcp.fd, (struct sockaddr *)&address, &length) < 0)
		return 0;
	/* sin_port and sin6_port stand at the same place. */
	return ntohs(((const struct sockaddr_in *)&address)->sin_port);
}

void http_server_close(struct http_server *server)
{
	server->closing = true;
	http_listen_close(server);
	if (server->daemon) {
		http_requests_abandon(server);
		sd_event_source_disable_unref(server->daemon_source);
		MHD_stop_daemon(server->daemon);
	}
	sd_event_source_disable_unref(server->timer);
	http_connections_free(server);
	sd_event_unref(server->event);
	free(server->socket_path);
	free(server);
}
