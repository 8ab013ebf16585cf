/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_GRPC_REPLY_H
#define RUNTIME_GRPC_REPLY_H

/* What has come of the answer to one call, and which status that makes. No I/O. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/grpc.h"

#define GRPC_TEXT_MAX   1024
#define GRPC_PREFIX_LEN 5 /* compressed or not, and the message's length */

/* Of one answer's headers and trailers together: more than any runtime sends. */
#define GRPC_HEADERS_MAX ((size_t)64 * 1024)

struct grpc_reply {
	unsigned http_status; /* 0: none yet */
	bool is_grpc;         /* by its content-type */
	int status;           /* -1: no grpc-status yet */
	char text[GRPC_TEXT_MAX];
	size_t headers; /* bytes */

	uint8_t prefix[GRPC_PREFIX_LEN];
	size_t have_prefix;
	uint8_t *data; /* room for size bytes */
	size_t size, have;
	size_t limit;
	size_t *budget; /* bytes that all answers of a client may still take */

	enum grpc_status fault; /* of what has come so far; GRPC_OK: none */
};

/* budget must outlive the reply: what it takes there goes back with grpc_reply_clear(). */
void grpc_reply_init(struct grpc_reply *reply, size_t limit, size_t *budget);
void grpc_reply_clear(struct grpc_reply *reply);

/*
 * These take what comes, in this order, and return false when the rest cannot change anything any
 * more: the answer is at fault.
 */
bool grpc_reply_header(
	struct grpc_reply *reply, const char *name, size_t name_len, const char *value, size_t len);
bool grpc_reply_headers_end(struct grpc_reply *reply);
bool grpc_reply_data(struct grpc_reply *reply, const uint8_t *data, size_t len);

/* Ends the answer from this side, if nothing was wrong with it before. */
void grpc_reply_fail(struct grpc_reply *reply, enum grpc_status fault, const char *format, ...)
	__attribute__((__format__(__printf__, 3, 4)));

/*
 * The call's result when nothing more comes. error is the code of HTTP/2 (RFC 9113, section 7) that
 * the stream was closed with, 0 when it ended in order. It points into the reply.
 */
void grpc_reply_result(struct grpc_reply *reply, uint32_t error, struct grpc_result *result);

#endif
