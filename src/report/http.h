/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An HTTP server in the caller's event loop: read-only over TCP, or a unix socket where root can
 * also change things. A request has 10 s in all, however it trickles; beyond 64 connections the one
 * whose request is oldest is closed in favour of the new one, so that slow clients starve only each
 * other. Documents are rendered at most once a tick. Without a client it never wakes up.
 */

#include <systemd/sd-event.h>

#include "base/util.h"
#include "model/node.h"

struct http_server;
struct http_connection;

/*
 * POST /v1/apply and /v1/restore. only is a tuner's name ([a-z]{1,31}, not yet looked up), or NULL
 * for all; it is gone when the function returns. It calls http_reply() exactly once, now or later
 * from the same loop, also when the client or the server has gone meanwhile. It must not close the
 * server itself.
 */
typedef void http_change_fn(
	void *userdata, bool restore, const char *only, struct http_connection *client);

/* Answers such a request with a JSON document, which is copied. */
void http_reply(struct http_connection *client, unsigned status, const char *json);

/*
 * listen_on: "ADDRESS:PORT", IPv6 in brackets; or a unix socket's path, made with mode 0600 in
 * place of a dead one. 0 with *ret; -EINVAL for what is no address; -EADDRINUSE for a socket on
 * which someone listens; else -errno. node must outlive the server.
 */
int http_server_open(sd_event *event, const char *listen_on, const struct node *node,
	http_change_fn *change, void *userdata, struct http_server **ret);

/* Closes all connections, removes the unix socket. */
void http_server_close(struct http_server *server);
DEFINE_CLEANUP(struct http_server, http_server_close)
