/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_GRPC_CLIENT_H
#define RUNTIME_GRPC_CLIENT_H

/*
 * Unary gRPC calls over a unix socket, one after another, each of which blocks until it is answered
 * or its wait is over. Source: github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md,
 * statuscodes.md.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/wait.h"

enum grpc_status {
	GRPC_OK = 0,
	GRPC_CANCELLED = 1,
	GRPC_UNKNOWN = 2,
	GRPC_INVALID_ARGUMENT = 3,
	GRPC_DEADLINE_EXCEEDED = 4,
	GRPC_RESOURCE_EXHAUSTED = 8,
	GRPC_FAILED_PRECONDITION = 9,
	GRPC_UNIMPLEMENTED = 12,
	GRPC_INTERNAL = 13,
	GRPC_UNAVAILABLE = 14,
	GRPC_UNAUTHENTICATED = 16,
};

#define GRPC_ERROR_MAX 256

struct grpc_request {
	const char *method;               /* "/package.Service/Method" */
	const char *containerd_namespace; /* metadata for containerd's own services, or NULL */
	const void *message;              /* encoded */
	size_t size;
	size_t answer_max; /* bytes of the answer that are taken at most */
};

struct grpc_answer {
	const uint8_t *data; /* encoded, in the arena of the call */
	size_t size;
};

/* A client and its connection, which it opens with its first call and again when it is gone. */
struct grpc;

/* path may have any length. 0 or -ENOMEM. */
int grpc_open(const char *path, struct grpc **ret);
void grpc_close(struct grpc *grpc);
DEFINE_CLEANUP(struct grpc, grpc_close)

/*
 * 0 with the answer; what the server says instead, an enum grpc_status above 0; or -errno where it
 * gave no answer: -ETIMEDOUT, -ECANCELED, -EFBIG (more than answer_max), -EBADMSG (no answer of
 * this call), -EPROTO (no HTTP/2, or another server), or why it cannot be reached. grpc_error()
 * says more.
 */
int grpc_unary(struct grpc *grpc, const struct wait *wait, const struct grpc_request *request,
	struct arena *arena, struct grpc_answer *answer);

/* Of the last call that did not return 0: "UNAVAILABLE: Connection refused". One line, without
 * secrets of URLs. */
const char *grpc_error(const struct grpc *grpc);

/* For a caller that finds the answer to be no message of the call: sets grpc_error(), -EBADMSG. */
int grpc_refuse_answer(struct grpc *grpc);

/*
 * The process that listens at the other end (SO_PEERCRED), 0 before the first call and where that
 * process is not visible from this pid namespace. With socket activation it is the init system.
 */
pid_t grpc_peer(const struct grpc *grpc);

/* Of what a call returned; for -errno the status that comes closest. */
enum grpc_status grpc_status_of(int result);

/* "DEADLINE_EXCEEDED"; "UNKNOWN" for any other number. */
const char *grpc_status_name(enum grpc_status status);

#endif
