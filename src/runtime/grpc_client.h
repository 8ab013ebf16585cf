/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Unary gRPC calls over a unix socket; each blocks until it is answered or its wait is over.
 * Source: github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md, statuscodes.md.
 */

#include <sys/types.h>

#include "base/util.h"
#include "base/wait.h"

/*
 * Bytes of an answer with its decoded messages. A list of 1,000 containers with all labels and
 * annotations needs about two megabytes for each of both.
 */
#define ARENA_MAX ((size_t)10 * 1024 * 1024)

/* Bounded memory that is freed as a whole. Zero-initialise before use. */
struct arena {
	uint8_t *memory; /* reserves ARENA_MAX bytes of addresses; NULL: empty */
	size_t used;
};

void arena_free(struct arena *arena); /* the arena can be used again */
#define _cleanup_arena_ _cleanup_(arena_free)

/* Allocates zeroed memory, aligned for any type; NULL above ARENA_MAX. For protobuf-c. */
void *arena_alloc(void *arena, size_t size);

/* Status codes of a server that callers handle. */
enum { GRPC_UNKNOWN = 2, GRPC_NOT_FOUND = 5, GRPC_UNIMPLEMENTED = 12, GRPC_STATUS_MAX = 16 };

#define GRPC_ERROR_MAX  1024
#define GRPC_ANSWER_MAX (ARENA_MAX / 2) /* bytes; leaves the other half for decoded messages */

struct grpc_request {
	const char *method;               /* "/package.Service/Method" */
	const char *containerd_namespace; /* metadata for containerd's own services, or NULL */
	const char *containerd_lease;     /* metadata for containerd, or NULL */
	const void *message;              /* encoded */
	size_t size;
};

struct grpc_answer {
	const uint8_t *data; /* encoded, in the arena of the call */
	size_t size;
};

/* A client. The first call connects it, and so does a call after a failed one. */
struct grpc {
	const char *path; /* the socket's path, owned by the caller; may be longer than sun_path */
	int fd;           /* -1: not connected */
	/* The listening process (SO_PEERCRED), or the init system with socket activation. 0 before
	 * the first call, and for a process outside of this PID namespace. */
	pid_t peer;
	char error[GRPC_ERROR_MAX]; /* the last call's error; "" after a success */
	struct nghttp2_session *session;
	struct grpc_call *call; /* in progress */
};

void grpc_open(struct grpc *grpc, const char *path);
void grpc_close(struct grpc *grpc);

/*
 * Returns 0 with the answer, a positive gRPC status, or -errno; grpc->error describes an error.
 * -ETIMEDOUT, -ECANCELED, -EFBIG (more than GRPC_ANSWER_MAX), -EBADMSG (invalid answer), -EPROTO
 * (the server does not speak gRPC), or why the server cannot be reached.
 */
int grpc_unary(struct grpc *grpc, const struct wait *wait, const struct grpc_request *request,
	struct arena *arena, struct grpc_answer *answer);
