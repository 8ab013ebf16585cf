/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Unary gRPC calls over a unix socket, one after another, each of which blocks until it is answered
 * or its wait is over. Source: github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md,
 * statuscodes.md.
 */

#include <sys/types.h>

#include "base/util.h"
#include "base/wait.h"

/*
 * Bytes of one answer and of the messages that it becomes. A list of 1,000 containers with all
 * their labels and annotations takes about two megabytes of each.
 */
#define ARENA_MAX ((size_t)10 * 1024 * 1024)

/* Memory that is freed together, and never more than that. Zero-initialise before use. */
struct arena {
	uint8_t *memory; /* ARENA_MAX bytes of addresses, backed as they are used; NULL: empty */
	size_t taken;
};

void arena_free(struct arena *arena); /* empty again, to be used again */
#define _cleanup_arena_ _cleanup_(arena_free)

/* Aligned for anything, zeroed. NULL where that would be more than ARENA_MAX. For protobuf-c. */
void *arena_take(void *arena, size_t size);

/* Of a server's status those that callers know. */
enum { GRPC_UNKNOWN = 2, GRPC_NOT_FOUND = 5, GRPC_UNIMPLEMENTED = 12, GRPC_STATUS_MAX = 16 };

#define GRPC_ERROR_MAX  1024
#define GRPC_ANSWER_MAX (ARENA_MAX / 2) /* bytes; as many again are there for what it becomes */

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

/* A client and its connection, which it opens with its first call and again after a failed one. */
struct grpc {
	const char *path; /* the caller's; may have any length */
	int fd;           /* -1: not connected */
	/* The process that listens (SO_PEERCRED; the init system with socket activation); 0 before
	 * the first call and where that process is not visible from this pid namespace. */
	pid_t peer;
	/* Why the last call got no answer, or what the server says to its status; as it came. */
	char error[GRPC_ERROR_MAX];
	struct nghttp2_session *session;
	struct grpc_call *call; /* under way */
};

void grpc_open(struct grpc *grpc, const char *path);
void grpc_close(struct grpc *grpc);

/*
 * 0 with the answer; what the server says instead, a status above 0; or -errno where it gave no
 * answer: -ETIMEDOUT, -ECANCELED, -EFBIG (more than GRPC_ANSWER_MAX), -EBADMSG (no answer of this
 * call), -EPROTO (no HTTP/2, or another server), or why it cannot be reached; grpc->error says
 * more.
 */
int grpc_unary(struct grpc *grpc, const struct wait *wait, const struct grpc_request *request,
	struct arena *arena, struct grpc_answer *answer);
