/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPORT_HTTP_INTERNAL_H
#define REPORT_HTTP_INTERNAL_H

/* How the server's files share it. http.c: sockets and connections. http_route.c: requests. */

#include <sys/stat.h>
#include <sys/un.h>

#include <microhttpd.h>

#include "report/http.h"

enum http_phase {
	HTTP_RECEIVING, /* until a request is complete */
	HTTP_WORKING,   /* a handler has it: suspended, without a deadline */
	HTTP_SENDING,
};

/* A connection and the request it is at. */
struct http_connection {
	struct http_connection *next;
	struct http_server *server;
	struct MHD_Connection *mhd;
	int fd;          /* libmicrohttpd's; valid until it reports that it closes it */
	bool shut;       /* shut down: only waits for libmicrohttpd to notice */
	bool authorized; /* may POST, and sees what is for root alone */
	enum http_phase phase;
	uint64_t since_us;             /* when the phase began */
	size_t body;                   /* bytes of the request's body so far */
	struct http_reply *reply;      /* while a handler has it */
	struct MHD_Response *response; /* what the handler answered */
	unsigned status;
};

/* What is kept until the next tick. */
enum http_document {
	HTTP_LIVE, /* never kept */
	HTTP_READY,
	HTTP_HEALTH,
	HTTP_METRICS,
	HTTP_OPENMETRICS,
	HTTP_PAGE,
	HTTP_PAGE_PAUSED,
	HTTP_STATUS, /* compact, for everyone; then + 1: pretty; + 2: trusted; + 3: both */
	HTTP_DOCUMENTS = HTTP_STATUS + 4,
};

struct http_rendered {
	struct MHD_Response *response;
	unsigned status;
};

struct http_server {
	sd_event *event;
	struct MHD_Daemon *daemon;
	sd_event_source *listener, *daemon_source, *timer;
	const struct http_handlers *handlers;
	void *userdata;
	int fd;
	bool local; /* a unix socket */
	unsigned max_open;
	uint64_t request_us;
	uid_t admin;
	struct http_connection *connections;
	bool closing;
	uint64_t paused_until_us; /* no accept until then; 0 when not paused */
	struct sockaddr_un path;  /* of the unix socket, and what it was when it was made */
	struct stat path_stat;
	uint64_t rendered_at; /* the node's revision that rendered belongs to */
	struct http_rendered rendered[HTTP_DOCUMENTS];
};

/* http.c */
void http_server_wake(struct http_server *server); /* soon, from the loop */
void http_connection_phase(struct http_connection *connection, enum http_phase phase);

/* http_route.c: callbacks of libmicrohttpd, and what close does. */
enum MHD_Result http_route(void *server, struct MHD_Connection *mhd, const char *url,
	const char *method, const char *version, const char *data, size_t *size, void **state);
void http_request_completed(void *server, struct MHD_Connection *mhd, void **state,
	enum MHD_RequestTerminationCode code);
void http_connection_abandon(struct http_connection *connection);
void http_rendered_drop(struct http_server *server);

/* Whether an Accept header prefers OpenMetrics 1.0 to plain text. NULL: no. */
bool http_accepts_openmetrics(const char *accept);

#endif
