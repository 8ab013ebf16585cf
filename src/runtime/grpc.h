/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_GRPC_H
#define RUNTIME_GRPC_H

/*
 * Unary gRPC calls over a unix socket, from the event loop and without ever blocking it. Source:
 * github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md, statuscodes.md.
 *
 * A client connects with its first call, and again by itself whenever the connection is gone, says
 * GOAWAY, or another socket stands at the path. Every call ends exactly once: with what the server
 * said, or with a status of our own where it said nothing.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <systemd/sd-event.h>

#include "base/cleanup.h"
#include "runtime/grpc_client.h"

/* Bytes of one answer where a call says nothing else: what the kubelet takes from a runtime. */
#define GRPC_ANSWER_MAX ((size_t)16 * 1024 * 1024)

/* Calls that one client has open at most. */
#define GRPC_CALLS_MAX 64

struct grpc_call {
	const char *method;               /* "/package.Service/Method" */
	const char *containerd_namespace; /* metadata for containerd's own services, or NULL */
	const void *message;              /* the encoded request, copied */
	size_t size;
	uint64_t timeout_us; /* from now until the answer is complete; never 0 */
	size_t limit;        /* bytes of the answer's message; 0: GRPC_ANSWER_MAX */
	/* Frees userdata when the call has ended or the client was closed. May be NULL. */
	void (*release)(void *userdata);
};

/* Valid while the callback runs. */
struct grpc_result {
	enum grpc_status status;
	bool local;          /* the status is this side's: the server sent none */
	const char *message; /* printable, one line, without secrets of URLs; "" for none */
	const uint8_t *data; /* the encoded answer; NULL unless status is GRPC_OK */
	size_t size;
};

/* May start further calls, and close the client. */
typedef void (*grpc_callback)(const struct grpc_result *result, void *userdata);

struct grpc_client;

/* path may have any length; nothing is opened yet. 0 or -errno. */
int grpc_client_open(sd_event *event, const char *path, struct grpc_client **ret);

/* Ends the calls that are open; their callbacks are not called. */
void grpc_client_close(struct grpc_client *client);
DEFINE_CLEANUP(struct grpc_client, grpc_client_close)

/*
 * Starts a call. The callback comes from the loop, once, and never from in here. -EBUSY with
 * GRPC_CALLS_MAX open, -EINVAL, -ENOMEM: then it does not come.
 */
int grpc_call(struct grpc_client *client, const struct grpc_call *call, grpc_callback done,
	void *userdata);

/*
 * The process that listens at the other end (SO_PEERCRED), 0 without a connection and where that
 * process is not visible from this pid namespace. With socket activation it is the init system.
 */
pid_t grpc_client_peer(const struct grpc_client *client);

#endif
