/* SPDX-License-Identifier: Apache-2.0 */
#include "report/http_internal.h"

#include "base/util.h"

#include <errno.h>

static struct http_connection *connection_unlink(
	struct http_server *server, struct http_connection *connection)
{
	struct http_connection **at = &server->connections;

	while (*at && *at != connection)
		at = &(*at)->next;
	if (*at)
		*at = connection->next;
	return connection;
}

static void connection_free(struct http_server *server, struct http_connection *connection)
{
	if (!connection->shut)
		connection->listener->n_open--;
	free(connection_unlink(server, connection));
}

/* libmicrohttpd finds the end of the stream at its next turn, and closes the descriptor, which is
 * its. */
static void connection_shut(struct http_connection *connection)
{
	if (connection->shut)
		return;
	shutdown(connection->fd, SHUT_RDWR);
	connection->shut = true;
	connection->listener->n_open--;
}

void http_connection_phase(struct http_connection *connection, enum http_phase phase)
{
	connection->phase = phase;
	connection->since_us = now_us();
}

/* Incomplete requests go first, then replies that nobody fetches; what is being worked on stays. */
static bool evicted_before(const struct http_connection *a, const struct http_connection *b)
{
	if (a->phase != b->phase)
		return a->phase == HTTP_RECEIVING;
	return a->since_us < b->since_us;
}

/* False when there is none that may be closed. */
static bool evict_oldest(struct http_listener *listener)
{
	struct http_connection *oldest = NULL;

	for (struct http_connection *c = listener->server->connections; c; c = c->next) {
		if (c->listener != listener || c->shut || c->phase == HTTP_WORKING)
			continue;
		if (!oldest || evicted_before(c, oldest))
			oldest = c;
	}
	if (!oldest)
		return false;
	connection_shut(oldest);
	return true;
}

/* Over TCP nobody may: the address says nothing about who it is. */
static bool is_authorized(const struct http_listener *listener, int fd)
{
	struct ucred peer;
	socklen_t length = sizeof(peer);

	if (!listener->local || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0)
		return false;
	return peer.uid == listener->server->admin;
}

static struct http_connection *connection_new(struct http_listener *listener, int fd)
{
	struct http_server *server = listener->server;
	struct http_connection *connection;

	if (listener->n_open >= server->max_open && !evict_oldest(listener))
		return NULL;
	connection = calloc(1, sizeof(*connection));
	if (!connection)
		return NULL;
	connection->listener = listener;
	connection->fd = fd;
	connection->authorized = is_authorized(listener, fd);
	http_connection_phase(connection, HTTP_RECEIVING);
	connection->next = server->connections;
	server->connections = connection;
	listener->n_open++;
	return connection;
}

void http_connection_add(
	struct http_listener *listener, int fd, const struct sockaddr *address, socklen_t length)
{
	struct http_server *server = listener->server;
	struct http_connection *connection = connection_new(listener, fd);

	if (!connection) {
		close(fd);
		return;
	}
	/* It closes the descriptor when it fails. */
	if (MHD_add_connection(server->daemon, fd, address, length) != MHD_YES)
		connection_free(server, connection);
}

void http_connections_drop_unstarted(struct http_server *server)
{
	struct http_connection *next;

	/* For want of memory libmicrohttpd closed it without a word: the descriptor is someone
	 * else's. */
	for (struct http_connection *c = server->connections; c; c = next) {
		next = c->next;
		if (!c->started)
			connection_free(server, c);
	}
}

static uint64_t deadline(const struct http_server *server, const struct http_connection *connection)
{
	if (connection->shut || connection->phase == HTTP_WORKING)
		return UINT64_MAX;
	return connection->since_us + server->request_us;
}

void http_connections_expire(struct http_server *server)
{
	uint64_t now = now_us();

	for (struct http_connection *c = server->connections; c; c = c->next)
		if (deadline(server, c) <= now)
			connection_shut(c);
}

uint64_t http_connections_deadline(const struct http_server *server)
{
	uint64_t next = UINT64_MAX;

	for (const struct http_connection *c = server->connections; c; c = c->next)
		next = MIN(next, deadline(server, c));
	return next;
}

void http_connections_free(struct http_server *server)
{
	while (server->connections)
		connection_free(server, server->connections);
}

static void connection_started(struct http_server *server, struct MHD_Connection *mhd, void **state)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);

	for (struct http_connection *c = server->connections; info && c; c = c->next) {
		if (c->fd != info->connect_fd || c->started)
			continue;
		c->started = true;
		*state = c;
		return;
	}
}

void http_connection_notify(void *userdata, struct MHD_Connection *mhd, void **state,
	enum MHD_ConnectionNotificationCode code)
{
	struct http_server *server = userdata;

	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		connection_started(server, mhd, state);
		return;
	}
	if (*state)
		connection_free(server, *state);
	*state = NULL;
	http_listen_resume(server); /* a descriptor comes free */
}
