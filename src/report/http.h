/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPORT_HTTP_H
#define REPORT_HTTP_H

/*
 * An HTTP server in the caller's event loop: read-only over TCP, or a unix socket where root can
 * also change things. A request has 10 s in all, however it trickles; beyond 64 connections the one
 * whose request is oldest is closed in favour of the new one, so that slow clients starve only each
 * other. Documents are rendered at most once a tick. Without a client it never wakes up.
 */

#include <sys/types.h>

#include <systemd/sd-event.h>

#include "base/util.h"
#include "model/node.h"

struct http_server;

/* A request of the unix socket that is being worked on. */
struct http_reply;

/* Zero is the default of each number. */
struct http_options {
	const char *listen_on; /* "ADDRESS:PORT", IPv6 in brackets; or a unix socket's path */
	uint64_t request_us;   /* for a request in all, and again for its reply; default 10 s */
	unsigned connections;  /* default 64 */
	uid_t admin;           /* who may POST; default root */
};

struct http_handlers {
	const struct node *(*node)(void *userdata);

	/*
	 * POST /v1/apply and /v1/restore. only is a tuner's name ([a-z]{1,31}, not yet looked up),
	 * or NULL for all; it is gone when the handler returns. The handler calls http_reply_finish
	 * exactly once, now or later from the same loop. A client that has gone meanwhile, or a
	 * server that was closed, is no concern of the handler. It must not close the server
	 * itself.
	 */
	void (*change)(void *userdata, bool restore, const char *only, struct http_reply *reply);
};

/* Answers with a JSON document, which is copied. Ends reply. */
void http_reply_finish(struct http_reply *reply, unsigned status, const char *json);

/*
 * A unix socket is made with mode 0600 in place of a dead one. 0 with *ret; -EINVAL for a listen_on
 * that is no address; -EADDRINUSE for a socket on which someone listens; else -errno. handlers must
 * outlive the server, all else need not.
 */
int http_server_open(sd_event *event, const struct http_options *options,
	const struct http_handlers *handlers, void *userdata, struct http_server **ret);

/* The TCP port, for a listen_on with port 0; 0 without TCP. */
uint16_t http_server_port(const struct http_server *server);

/* Closes all connections, removes the unix socket. Open replies lead nowhere then. */
void http_server_close(struct http_server *server);
DEFINE_CLEANUP(struct http_server, http_server_close)

#endif
