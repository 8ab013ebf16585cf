/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_GRPC_RESPONSE_H
#define RUNTIME_GRPC_RESPONSE_H

/* What has come of the answer to one call, and what that makes of the call. No I/O. */

#include <stdbool.h>

#include "runtime/grpc_client.h"

#define GRPC_PREFIX_LEN 5 /* compressed or not, and the message's length */

/* Of one answer's headers and trailers together: more than any runtime sends. */
#define GRPC_HEADERS_MAX ((size_t)64 * 1024)

struct grpc_response {
	unsigned http_status; /* 0: none yet */
	bool is_grpc;         /* by its content-type */
	int status;           /* -1: no grpc-status yet */
	int fault;            /* -errno: what came so far is no answer; 0: it may become one */
	char text[GRPC_ERROR_MAX];
	size_t headers; /* bytes */

	uint8_t prefix[GRPC_PREFIX_LEN];
	size_t have_prefix;
	struct arena *arena;
	uint8_t *data; /* in the arena, room for size bytes */
	size_t size, have, max;
};

void grpc_response_init(struct grpc_response *response, struct arena *arena, size_t max);

/* These take what comes, in this order. After a fault nothing changes the response any more. */
void grpc_response_header(struct grpc_response *response, const char *name, const char *value);
void grpc_response_headers_end(struct grpc_response *response);
void grpc_response_data(struct grpc_response *response, const uint8_t *data, size_t len);

/* Ends it from this side, unless it is at fault already. Returns the fault. */
int grpc_response_fail(struct grpc_response *response, int fault, const char *format, ...)
	__attribute__((__format__(__printf__, 3, 4)));

/*
 * When nothing more comes: 0, the server's status, or the fault. error is the code of HTTP/2 (RFC
 * 9113, section 7) that the stream was closed with, 0 when it ended in order.
 */
int grpc_response_result(struct grpc_response *response, uint32_t error);

#endif
