/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An HTTP server in the caller's event loop. Over TCP it is read-only; over a unix socket root can
 * also change the node. A request has a deadline of 10 s. Beyond 64 connections the one with the
 * oldest request is closed, of the address that has most, so that slow clients harm only each
 * other. All TCP clients share a budget of requests. Documents are rendered at most once per tick.
 * Without clients the server never wakes up.
 */

#include <sys/stat.h>
#include <sys/un.h>

#include <microhttpd.h>
#include <nettle/sha2.h>

#include "base/task.h"
#include "config/web.h"
#include "model/node.h"
#include "report/peer.h"
#include "report/tls.h"

struct http_connection;

/*
 * Handles POST /v1/apply and /v1/restore. only has the form of a tuner's name ([a-z]{1,31}) or is
 * NULL for all tuners; owner is the client's core_owner(), or NULL. Both are valid during the call.
 * The function must call http_reply() exactly once, now or later from the same loop, even if the
 * client or the server has gone by then. It must not close the server.
 */
typedef void http_change_fn(void *userdata, bool restore, const char *only, const char *owner,
	struct http_connection *client);

/* Answers the request. json is copied. */
void http_reply(struct http_connection *client, unsigned status, const char *json);

/* Credentials that were right lately; most often there is one Prometheus. */
#define HTTP_KNOWN_MAX 8

struct http_digest {
	uint8_t bytes[SHA256_DIGEST_SIZE];
};

enum http_wait {
	WAITS_NOT,
	WAITS_FOR_BUDGET,
	WAITS_FOR_CHECK, /* of its password */
};

/* Addresses whose use is known. */
#define HTTP_CLIENTS_MAX 64

struct http_client {
	struct peer peer;
	uint64_t due_us;   /* as that of the server, for its own requests */
	uint64_t wrong_us; /* when its last password was wrong; 0: it was not */
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
	bool is_loopback;           /* the address that the client has used */
	bool certificate_fits;      /* the client's, over TLS */
	bool budgeted;              /* the budget has the current request */
	bool is_next;               /* its password is checked now */
	enum http_wait wait;        /* suspended until it is its turn */
	struct peer peer;           /* zero over a unix socket */
	uint64_t since_us;          /* when it began to receive or to send */
	uint64_t asked_us;          /* when the headers of the current request were complete */
	size_t body;                /* bytes of the request's body received so far */
	unsigned status;            /* given to http_reply(); 0: no reply yet */
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
	bool is_closed;      /* it is freed when the check of a password has ended */
	unsigned max_open;   /* connections */
	uint64_t request_us; /* deadline of a whole request, and of its reply */
	struct http_connection *connections;
	struct web_config *web; /* TLS and users, or NULL */
	struct tls *tls;        /* accepts the clients instead of listener; or NULL */
	const struct tls_arrival *arriving;
	uint64_t due_us; /* in the future: the budget is used up until then */
	struct http_client clients[HTTP_CLIENTS_MAX];
	struct {
		uint64_t next_check_us;
		struct task *check; /* checks a password; NULL: none is under way */
		struct http_digest known[HTTP_KNOWN_MAX];
		unsigned next; /* in known */
	} auth;
	uint64_t paused_until_us; /* accepting is paused until then; 0: not paused */
	struct sockaddr_un path;  /* where the unix socket is */
	struct stat path_stat;    /* identifies path when it was created */
	uint64_t rendered_at;     /* the node's revision of the rendered documents */
	struct MHD_Response *rendered[HTTP_DOCUMENTS][2]; /* as text, and for clients with gzip */
};

/*
 * Opens a server. listen_on is "ADDRESS:PORT" (IPv6 in brackets) or the path of a unix socket,
 * which is created with mode 0600 and replaces a dead socket. web has TLS and users of a TCP
 * address, or is NULL; the server keeps a reference. node must outlive the server. Returns 0 with
 * *ret; -EINVAL for an invalid address; -EADDRINUSE if a process listens there; or another -errno.
 */
int http_server_open(sd_event *event, const char *listen_on, struct web_config *web,
	const struct node *node, http_change_fn *change, void *userdata, struct http_server **ret);

/*
 * Closes all connections and removes the unix socket. false: a thread has not ended. The loop frees
 * its memory later; without the loop, the process must end by _exit().
 */
bool http_server_close(struct http_server *server);
DEFINE_CLEANUP(struct http_server, http_server_close)
