/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPORT_HTTP_INTERNAL_H
#define REPORT_HTTP_INTERNAL_H

/*
 * How the server's files share it. http.c: the loop's side. http_listen.c: sockets and accept.
 * http_connection.c: deadlines and eviction. http_route.c: one request. http_document.c: its
 * answer.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <microhttpd.h>

#include "report/http.h"

/* Waits that a paused accept makes at most: descriptors may also come free elsewhere. */
#define HTTP_PAUSE_US USEC_PER_SEC

struct http_listener {
	struct http_server *server;
	sd_event_source *source;
	int fd;
	bool local;      /* the unix socket */
	unsigned n_open; /* connections that were accepted here and not shut down */
};

enum http_phase {
	HTTP_RECEIVING, /* from the connect or the end of the last reply until a request is complete
			 */
	HTTP_WORKING,   /* a handler has it: suspended, without a deadline */
	HTTP_SENDING,
};

struct http_connection {
	struct http_connection *next;
	struct http_listener *listener;
	int fd;          /* libmicrohttpd's; valid until it tells that it closes it */
	bool started;    /* libmicrohttpd knows it */
	bool shut;       /* shut down: only waits for libmicrohttpd to notice */
	bool authorized; /* may POST */
	enum http_phase phase;
	uint64_t since_us; /* when the phase began */
};

struct http_server {
	sd_event *event;
	struct MHD_Daemon *daemon;
	sd_event_source *daemon_source, *timer;
	const struct http_handlers *handlers;
	void *userdata;
	struct http_listener tcp, local;
	struct http_connection *connections;
	uint64_t request_us;
	unsigned max_open; /* for each listener */
	uid_t admin;
	bool closing;
	bool resumed;                 /* a suspended request waits for libmicrohttpd's next turn */
	uint64_t paused_until_us;     /* no accept until then; 0 when not paused */
	struct http_request *working; /* suspended requests */
	char *socket_path;
	struct stat socket_stat; /* of the path when it was made */
};

struct http_request {
	struct http_server *server;
	struct http_connection *connection;
	struct MHD_Connection *mhd;
	struct http_request *next;     /* in server->working */
	struct http_reply *reply;      /* while a handler has it */
	struct MHD_Response *response; /* what it answered */
	unsigned status;
	size_t body; /* bytes of the body so far */
};

/* http.c: lets libmicrohttpd work, then arms the timer for what comes next; wake: soon, from the
 * loop. */
void http_server_turn(struct http_server *server);
void http_server_wake(struct http_server *server);

/* http_listen.c. 0 or -errno as http_server_open. close also removes the unix socket. */
int http_listen_tcp(struct http_server *server, const char *listen_on);
int http_listen_unix(struct http_server *server, const char *path);
void http_listen_close(struct http_server *server);
void http_listen_pause(struct http_server *server);
void http_listen_resume(struct http_server *server);

/* http_connection.c. add takes fd in any case. */
void http_connection_add(
	struct http_listener *listener, int fd, const struct sockaddr *address, socklen_t length);
void http_connection_phase(struct http_connection *connection, enum http_phase phase);
void http_connections_expire(struct http_server *server);
void http_connections_drop_unstarted(struct http_server *server);
uint64_t http_connections_deadline(const struct http_server *server); /* UINT64_MAX for none */
void http_connections_free(struct http_server *server);
void http_connection_notify(void *server, struct MHD_Connection *mhd, void **state,
	enum MHD_ConnectionNotificationCode code);

/* http_route.c: callbacks of libmicrohttpd, and what close does to suspended requests. */
enum MHD_Result http_route(void *server, struct MHD_Connection *mhd, const char *url,
	const char *method, const char *version, const char *data, size_t *size, void **state);
void http_request_completed(void *server, struct MHD_Connection *mhd, void **state,
	enum MHD_RequestTerminationCode code);
void http_requests_abandon(struct http_server *server);

/* http_document.c: answers. MHD_NO closes the connection. */
enum MHD_Result http_answer_text(struct http_request *request, unsigned status, const char *text);
enum MHD_Result http_answer_method(struct http_request *request, const char *allow);
enum MHD_Result http_answer_response(
	struct http_request *request, unsigned status, struct MHD_Response *response);
enum MHD_Result http_get_live(struct http_request *request);
enum MHD_Result http_get_ready(struct http_request *request);
enum MHD_Result http_get_health(struct http_request *request);
enum MHD_Result http_get_metrics(struct http_request *request);
enum MHD_Result http_get_status(struct http_request *request);
enum MHD_Result http_get_page(struct http_request *request);
struct MHD_Response *http_json_response(const char *json);

/* http_accept.c: whether an Accept header prefers OpenMetrics 1.0 to plain text. NULL: no. */
bool http_accepts_openmetrics(const char *accept);

#endif
