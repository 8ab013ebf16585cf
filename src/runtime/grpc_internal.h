/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_GRPC_INTERNAL_H
#define RUNTIME_GRPC_INTERNAL_H

/*
 * How the client's files share it. grpc.c: calls, their deadlines and callbacks. grpc_connection.c:
 * one HTTP/2 connection and its socket. grpc_reply.c: what one answer means.
 */

#include <nghttp2/nghttp2.h>
#include <sys/stat.h>

#include "runtime/grpc.h"
#include "runtime/grpc_reply.h"

/* Bytes of the answers that one client holds at once. */
#define GRPC_BUDGET (2 * GRPC_ANSWER_MAX)

/* Room for two frames of the default size, 16 KiB (RFC 9113, section 4.2), and their headers. */
#define GRPC_OUT_SIZE ((size_t)2 * (16384 + 9))

struct call {
	struct call *next;
	struct grpc_client *client;
	struct grpc_connection *connection; /* NULL: not sent yet, or ended */
	int32_t stream;
	bool refused; /* once: a server that goes away refuses what it has not begun */
	char *method, *namespace;
	uint8_t *message; /* with its prefix */
	size_t size, sent;
	uint64_t deadline_us, sent_us; /* CLOCK_MONOTONIC */
	struct grpc_reply reply;
	uint32_t error; /* code of HTTP/2 that the stream was closed with */
	grpc_callback done;
	void (*release)(void *userdata);
	void *userdata;
};

struct grpc_connection {
	struct grpc_connection *next;
	struct grpc_client *client;
	int fd;
	sd_event_source *source;
	nghttp2_session *session;
	unsigned n_calls;
	bool closing;         /* takes no new calls; goes when the last one has ended */
	bool dead;            /* goes now */
	bool greeted;         /* the peer speaks HTTP/2 */
	bool mute;            /* the peer takes nothing any more; what it sent before counts */
	size_t unasked;       /* bytes that came without a call */
	uint64_t received_us; /* the last byte; 0: none yet */
	struct stat socket;   /* what stood at the path */
	pid_t peer;
	size_t out_len, out_sent;
	uint8_t out[GRPC_OUT_SIZE];
};

struct grpc_client {
	sd_event *event;
	char *path;
	sd_event_source *work;  /* one turn of the loop: calls to send, answers to hand out */
	sd_event_source *timer; /* the earliest deadline, or a little before */
	uint64_t timer_us;      /* 0: not set */
	struct grpc_connection *connections; /* the newest first: only that one takes calls */
	struct call *calls;                  /* open, in no order */
	struct call *waiting;                /* open, and to be sent; the oldest first */
	struct call *ended;                  /* to be handed out; the oldest first */
	size_t n_calls;                      /* all of them */
	size_t budget;
	bool delivering, closed;
};

/* grpc.c */

/* The call has its result: its callback comes soon. Detaches it from its connection. */
void call_end(struct call *call);

/* The open call of this stream, or NULL. */
struct call *call_find(const struct grpc_connection *connection, int32_t stream);

/* Sends the call again, on another connection. False when it was refused before. */
bool call_retry(struct call *call);

/* After anything has happened: drops dead connections, calls callbacks. May free the client. */
void client_turn(struct grpc_client *client);

/* grpc_connection.c */

/* Connects: a unix socket answers at once. 0 or -errno. */
int connection_open(struct grpc_client *client, struct grpc_connection **ret);
void connection_free(struct grpc_connection *connection);

/* Whether it may take a call: alive, as far as can be told, and still at the path. */
bool connection_usable(const struct grpc_connection *connection);

/* Begins the call; connection_flush() sends it. 0 or -errno. */
int connection_submit(struct grpc_connection *connection, struct call *call);

/* Sends what the socket takes, the rest when it takes more. */
void connection_flush(struct grpc_connection *connection);

/* Tells the server that nobody waits for this call any more; connection_flush() sends it. */
void connection_cancel(struct grpc_connection *connection, const struct call *call);

/* Ends all calls of the connection; client_turn() takes it away. */
void connection_fail(struct grpc_connection *connection, const char *why);

#endif
