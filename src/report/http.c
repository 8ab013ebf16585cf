/* SPDX-License-Identifier: Apache-2.0 */
#include "report/http_internal.h"

#include "base/file.h"

#include <libgen.h>

#define REQUEST_US      (10 * USEC_PER_SEC)
#define CONNECTIONS_MAX 64

/*
 * Holds the headers of a request and of its reply; longer headers get 431 or 414. A browser may
 * send all cookies of "localhost", which all ports share.
 */
#define CONNECTION_MEMORY ((size_t)16 * 1024)

/* The default of sd-event, 250 ms, is too coarse for the deadlines. */
#define TIMER_ACCURACY_US (10 * USEC_PER_MSEC)

/* Accepting pauses for this time when the process has no free descriptors. */
#define PAUSE_US USEC_PER_SEC

/*
 * Connections accepted before libmicrohttpd reads from them. Fewer than CONNECTIONS_MAX, so that
 * many new connections at once cannot evict each other before their requests are read.
 */
#define ACCEPT_BATCH 16

/* libmicrohttpd then reads the end of the stream and closes the descriptor. */
static void connection_shut(struct http_connection *connection)
{
	shutdown(connection->fd, SHUT_RDWR);
	connection->shut = true;
}

/* When the connection needs the timer. */
static uint64_t deadline(const struct http_connection *connection)
{
	if (connection->waiting)
		return connection->due_us;
	return connection->shut || connection->held
		       ? UINT64_MAX
		       : connection->since_us + connection->server->request_us;
}

static void on_connection(void *userdata, struct MHD_Connection *mhd, void **state,
	enum MHD_ConnectionNotificationCode code)
{
	struct http_server *server = userdata;
	struct http_connection **at = &server->connections, *connection = *state, *oldest = NULL;
	unsigned n_open = 0;
	struct ucred peer;
	socklen_t length = sizeof(peer);
	int fd = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;

	if (code != MHD_CONNECTION_NOTIFY_STARTED) {
		while (*at && *at != connection)
			at = &(*at)->next;
		if (*at)
			*at = connection->next;
		*state = NULL;
		if (connection && connection->held)
			connection->mhd = NULL; /* http_reply() frees it */
		else
			free(connection);
		return;
	}
	/*
	 * Evict a connection if there are too many: the oldest incomplete request, else the oldest
	 * reply in transmission. Held connections stay.
	 */
	for (struct http_connection *c = server->connections; c; c = c->next) {
		n_open += !c->shut;
		if (c->shut || c->held)
			continue;
		if (!oldest || (c->sending == oldest->sending ? c->since_us < oldest->since_us
							      : oldest->sending))
			oldest = c;
	}
	if (n_open >= server->max_open && !oldest) {
		shutdown(fd, SHUT_RDWR);
		return;
	}
	if (n_open >= server->max_open)
		connection_shut(oldest);
	connection = must(calloc(1, sizeof(*connection)));
	connection->server = server;
	connection->mhd = mhd;
	connection->fd = fd;
	/* A TCP address does not authenticate its user. */
	connection->authorized = server->local &&
				 getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
				 peer.uid == 0;
	connection->since_us = now_us();
	connection->next = server->connections;
	server->connections = connection;
	*state = connection;
}

static void run_daemon(struct http_server *server)
{
	MHD_UNSIGNED_LONG_LONG milliseconds;
	uint64_t next = server->paused_until_us ? server->paused_until_us : UINT64_MAX;

	for (struct http_connection *c = server->connections; c; c = c->next)
		if (c->waiting && (c->shut || c->due_us <= now_us())) {
			c->waiting = false;
			MHD_resume_connection(c->mhd); /* it calls http_route() again */
		}
	MHD_run(server->daemon);
	/* A timeout of 0 means that libmicrohttpd has input to parse. */
	if (MHD_get_timeout(server->daemon, &milliseconds) == MHD_YES)
		next = MIN(next, now_us() + (uint64_t)milliseconds * USEC_PER_MSEC);
	for (const struct http_connection *c = server->connections; c; c = c->next)
		next = MIN(next, deadline(c));
	if (next < UINT64_MAX)
		sd_event_source_set_time(server->timer, next);
	sd_event_source_set_enabled(
		server->timer, next < UINT64_MAX ? SD_EVENT_ONESHOT : SD_EVENT_OFF);
}

static int on_daemon(sd_event_source *, int, uint32_t, void *userdata)
{
	run_daemon(userdata);
	return 0;
}

static int on_timer(sd_event_source *, uint64_t, void *userdata)
{
	struct http_server *server = userdata;
	uint64_t now = now_us();

	if (server->paused_until_us && server->paused_until_us <= now) {
		server->paused_until_us = 0;
		sd_event_source_set_enabled(server->listener, SD_EVENT_ON);
	}
	for (struct http_connection *c = server->connections; c; c = c->next)
		if (!c->waiting && deadline(c) <= now)
			connection_shut(c);
	run_daemon(server);
	return 0;
}

static int on_listener(sd_event_source *source, int fd, uint32_t, void *userdata)
{
	struct http_server *server = userdata;

	for (int i = 0; i < ACCEPT_BATCH; i++) {
		struct sockaddr_storage address = {0};
		socklen_t length = sizeof(address);
		int client = accept4(
			fd, (struct sockaddr *)&address, &length, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (client >= 0) {
			/* On failure it closes the descriptor. */
			MHD_add_connection(
				server->daemon, client, (const struct sockaddr *)&address, length);
			continue;
		}
		/* Pause, else the waiting client would wake the loop again and again. */
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
			server->paused_until_us = now_us() + PAUSE_US;
			sd_event_source_set_enabled(source, SD_EVENT_OFF);
		}
		break; /* no client waits, or it has gone: the loop calls again for the next */
	}
	run_daemon(server);
	return 0;
}

static int bind_tcp(struct http_server *server, const char *listen_on)
{
	static const int one = 1;
	struct sockaddr_storage address;
	socklen_t length = listen_address(listen_on, &address);

	if (length == 0)
		return -EINVAL;
	server->fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* Connections of an earlier agent may still be in TIME_WAIT. */
	if (server->fd < 0 ||
		setsockopt(server->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
		bind(server->fd, (const struct sockaddr *)&address, length) < 0)
		return -errno;
	return 0;
}

static int bind_unix(struct http_server *server, const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char parent[sizeof(address.sun_path)];
	int r;

	if (!set_text(address.sun_path, path))
		return -ENAMETOOLONG;
	set_text(parent, path);
	r = make_directories(dirname(parent), 0755);
	if (r < 0)
		return r;
	server->local = true;
	server->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* The path gets the mode of the socket from the start, so chmod(2) would be too late. */
	if (server->fd < 0 || fchmod(server->fd, 0600) < 0)
		return -errno;
	r = bind(server->fd, (const struct sockaddr *)&address, sizeof(address));
	if (r < 0 && errno == EADDRINUSE) {
		_cleanup_close_ int probe =
			socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		struct stat st;

		/* Replace the socket only if a killed process left it and nobody listens. */
		if (probe < 0 || lstat(path, &st) < 0 || !S_ISSOCK(st.st_mode) ||
			connect(probe, (const struct sockaddr *)&address, sizeof(address)) == 0 ||
			errno != ECONNREFUSED)
			return -EADDRINUSE;
		unlink(path);
		r = bind(server->fd, (const struct sockaddr *)&address, sizeof(address));
	}
	if (r < 0 || stat(path, &server->path_stat) < 0)
		return -errno;
	server->path = address;
	return 0;
}

/*
 * This file enforces the limits on connections and time: libmicrohttpd would refuse the newest
 * connection, and its timeout measures idle time only. Its own limit is larger, because connections
 * that were shut down count until it closes them.
 */
static int start_daemon(struct http_server *server)
{
	const struct web_config *web = server->web;
	/* Up to the first row with NULL. */
	struct MHD_OptionItem tls[] = {
		{MHD_OPTION_HTTPS_MEM_KEY, 0, web ? web->key : NULL},
		{MHD_OPTION_HTTPS_MEM_CERT, 0, web ? web->cert : NULL},
		{MHD_OPTION_HTTPS_PRIORITIES, 0, web ? (void *)web->priorities : NULL},
		{MHD_OPTION_HTTPS_MEM_TRUST, 0, web ? web->client_ca : NULL},
		{MHD_OPTION_END, 0, NULL},
	};
	const union MHD_DaemonInfo *info;
	unsigned flags = MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(tls); i++)
		if (!tls[i].ptr_value) {
			tls[i].option = MHD_OPTION_END;
			break;
		}
	if (web && web->cert)
		flags |= MHD_USE_TLS;
	server->daemon = MHD_start_daemon(flags, 0, NULL, NULL, http_route, server,
		MHD_OPTION_CONNECTION_LIMIT, 4 * server->max_open, MHD_OPTION_CONNECTION_TIMEOUT,
		0U, MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_MEMORY,
		MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_NOTIFY_COMPLETED,
		http_request_completed, server, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_ARRAY,
		tls, MHD_OPTION_END);
	if (!server->daemon)
		return errno > 0 ? -errno : -ENOMEM;
	info = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	if (!info)
		return -ENOTSUP;
	r = sd_event_add_io(
		server->event, &server->daemon_source, info->epoll_fd, EPOLLIN, on_daemon, server);
	if (r < 0)
		return r;
	r = sd_event_add_time(server->event, &server->timer, CLOCK_MONOTONIC, 0, TIMER_ACCURACY_US,
		on_timer, server);
	return r < 0 ? r : sd_event_source_set_enabled(server->timer, SD_EVENT_OFF);
}

int http_server_open(sd_event *event, const char *listen_on, struct web_config *web,
	const struct node *node, http_change_fn *change, void *userdata, struct http_server **ret)
{
	_cleanup_(cleanup_http_server_close) struct http_server *server =
		must(calloc(1, sizeof(*server)));
	int r;

	server->event = sd_event_ref(event);
	server->web = web ? web_config_ref(web) : NULL;
	server->node = node;
	server->change = change;
	server->userdata = userdata;
	server->request_us = REQUEST_US;
	server->max_open = CONNECTIONS_MAX;
	server->fd = -1;
	r = start_daemon(server);
	if (r == 0)
		r = listen_on[0] == '/' ? bind_unix(server, listen_on)
					: bind_tcp(server, listen_on);
	/* A long backlog (net.core.somaxconn) spares clients a retry of their SYN. */
	if (r == 0 && listen(server->fd, INT_MAX) < 0)
		r = -errno;
	if (r == 0)
		r = sd_event_add_io(
			event, &server->listener, server->fd, EPOLLIN, on_listener, server);
	if (r < 0)
		return r;
	*ret = steal(server);
	return 0;
}

void http_server_close(struct http_server *server)
{
	struct stat st;

	/* Another agent may have replaced the socket. */
	if (server->path.sun_path[0] && lstat(server->path.sun_path, &st) == 0 &&
		st.st_dev == server->path_stat.st_dev && st.st_ino == server->path_stat.st_ino)
		unlink(server->path.sun_path);
	sd_event_source_disable_unref(server->listener);
	cleanup_close(&server->fd);
	worker_free(server->auth.worker);
	if (server->daemon) {
		/* MHD_stop_daemon() aborts the program if a connection is suspended. */
		for (struct http_connection *c = server->connections; c; c = c->next)
			if (c->suspended || c->waiting)
				MHD_resume_connection(c->mhd);
		sd_event_source_disable_unref(server->daemon_source);
		http_rendered_drop(server);
		MHD_stop_daemon(server->daemon);
	}
	sd_event_source_disable_unref(server->timer);
	sd_event_unref(server->event);
	web_config_unref(server->web);
	explicit_bzero(&server->auth, sizeof(server->auth));
	free(server);
}
