/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* http.c: sockets and connections. http_route.c: requests. http_auth.c: who may read over TCP. */

#include <sys/stat.h>
#include <sys/un.h>

#include <microhttpd.h>
#include <nettle/sha2.h>

#include "base/worker.h"
#include "config/web.h"
#include "report/report.h"

/* Credentials that were right lately; most often there is one Prometheus. */
#define HTTP_KNOWN_MAX 8

struct http_digest {
	uint8_t bytes[SHA256_DIGEST_SIZE];
};

/* A connection and its current request. */
struct http_connection {
	struct http_connection *next;
	struct http_server *server;
	struct MHD_Connection *mhd; /* NULL: the client of a held connection has gone */
	int fd;                     /* owned by libmicrohttpd */
	bool shut;                  /* shut down; libmicrohttpd closes it soon */
	bool authorized;            /* may POST and read data for root only */
	bool held;                  /* waits for http_reply(), without a deadline */
	bool suspended;             /* held in libmicrohttpd too */
	bool denied;                /* its password was wrong */
	bool sending;               /* the request is complete */
	bool budgeted;              /* due_us is that of the current request */
	bool waiting;               /* suspended until due_us */
	uint64_t due_us;            /* by the budget; see http_route.c */
	uint64_t since_us;          /* when it began to receive or to send */
	size_t body;                /* bytes of the request's body received so far */
	unsigned status;            /* of http_reply(); 0: no reply yet */
	struct MHD_Response *response;
};

/* Documents that are rendered at most once per tick. */
enum http_document {
	HTTP_LIVE, /* not rendered */
	HTTP_HEALTHZ,
	HTTP_READY,
	HTTP_HEALTH,
	HTTP_METRICS,
	HTTP_OPENMETRICS,
	HTTP_PAGE,
	HTTP_PAGE_PAUSED,
	HTTP_STATUS,
	HTTP_STATUS_TRUSTED, /* with the data for root only */
	HTTP_DOCUMENTS,
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
	uint64_t request_us; /* deadline of a whole request, and of its reply */
	struct http_connection *connections;
	struct web_config *web; /* TLS and users, or NULL */
	struct {
		struct worker *worker; /* checks passwords; NULL before the first */
		bool checking;
		uint64_t next_check_us;
		struct http_digest known[HTTP_KNOWN_MAX];
		unsigned next; /* in known */
	} auth;
	uint64_t paused_until_us; /* accepting is paused until then; 0: not paused */
	struct sockaddr_un path;  /* of the unix socket */
	struct stat path_stat;    /* of path when it was created */
	uint64_t rendered_at;     /* the node's revision of the rendered documents */
	struct MHD_Response *rendered[HTTP_DOCUMENTS][2]; /* as text, and for clients with gzip */
};

/* http_route.c: callbacks of libmicrohttpd. */
enum MHD_Result http_route(void *server, struct MHD_Connection *mhd, const char *url,
	const char *method, const char *version, const char *data, size_t *size, void **state);
void http_request_completed(void *server, struct MHD_Connection *mhd, void **state,
	enum MHD_RequestTerminationCode code);

/* Suspends the connection until http_reply() or http_resume(). */
void http_hold(struct http_connection *connection);

/* Ends http_hold(): libmicrohttpd calls http_route() again. Frees it if the client has gone. */
void http_resume(struct http_connection *connection);

/* Suspends the connection until due_us; libmicrohttpd calls http_route() again. */
void http_wait(struct http_connection *connection, uint64_t due_us);

enum http_access {
	HTTP_GRANTED,
	HTTP_DENIED,         /* no password, or a wrong one */
	HTTP_NO_CERTIFICATE, /* or not from the configured authority */
	HTTP_WAITS,          /* the connection is suspended */
};

/* Whether the client of a TCP connection may read. */
enum http_access http_authenticate(struct http_connection *connection);

/* Frees the rendered documents. */
void http_rendered_drop(struct http_server *server);
