/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* http.c: sockets and connections. http_route.c: requests. */

#include <sys/stat.h>
#include <sys/un.h>

#include <microhttpd.h>

#include "report/report.h"

/* A connection and the request it is at. */
struct http_connection {
	struct http_connection *next;
	struct http_server *server;
	struct MHD_Connection *mhd; /* NULL: it has gone, and was held */
	int fd;                     /* libmicrohttpd's */
	bool shut;                  /* shut down: only waits for libmicrohttpd to notice */
	bool authorized;            /* may POST, and sees what is for root alone */
	bool held;                  /* the change function has it: no deadline */
	bool suspended;             /* and did not answer at once */
	bool sending;               /* the request is complete */
	uint64_t since_us;          /* when it began to receive or to send */
	size_t body;                /* bytes of the request's body so far */
	unsigned status;            /* what the change function answered; 0: nothing yet */
	struct MHD_Response *response;
};

/* What is kept until the next tick. */
enum http_document {
	HTTP_LIVE, /* never kept */
	HTTP_HEALTHZ,
	HTTP_READY,
	HTTP_HEALTH,
	HTTP_METRICS,
	HTTP_OPENMETRICS,
	HTTP_PAGE,
	HTTP_PAGE_PAUSED,
	HTTP_STATUS, /* compact, for everyone; then + 1: pretty; + 2: trusted; + 3: both */
	HTTP_DOCUMENTS = HTTP_STATUS + 4,
};

struct http_server {
	sd_event *event;
	struct MHD_Daemon *daemon;
	sd_event_source *listener, *daemon_source, *timer;
	const struct node *node;
	http_change_fn *change;
	void *userdata;
	int fd;
	bool local;          /* a unix socket */
	unsigned max_open;   /* connections */
	uint64_t request_us; /* for a request in all, and again for its reply */
	uid_t admin;         /* who may POST */
	struct http_connection *connections;
	uint64_t paused_until_us; /* no accept until then; 0 when not paused */
	struct sockaddr_un path;  /* of the unix socket, and what it was when it was made */
	struct stat path_stat;
	uint64_t rendered_at; /* the node's revision that rendered belongs to */
	struct MHD_Response *rendered[HTTP_DOCUMENTS];
};

/* http_route.c: callbacks of libmicrohttpd, and what close does. */
enum MHD_Result http_route(void *server, struct MHD_Connection *mhd, const char *url,
	const char *method, const char *version, const char *data, size_t *size, void **state);
void http_request_completed(void *server, struct MHD_Connection *mhd, void **state,
	enum MHD_RequestTerminationCode code);
void http_rendered_drop(struct http_server *server);
