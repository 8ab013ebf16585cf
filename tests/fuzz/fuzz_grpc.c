/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Any bytes at all from a server that then closes: two calls by one client end, with an answer that
 * can be read or an error that may be shown.
 */

#include "socket_server.h"

#include <ctype.h>

#include "runtime/grpc_client.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void call(struct grpc *grpc)
{
	static const struct grpc_request request = {
		.method = "/t.T/Call",
		.message = "hello",
		.size = 5,
	};
	const struct wait wait = {now_us() + USEC_PER_SEC, -1};
	struct grpc_answer answer = {0};
	_cleanup_arena_ struct arena arena = {0};
	int r;

	r = grpc_unary(grpc, &wait, &request, &arena, &answer);
	if (r > GRPC_STATUS_MAX || (r == 0 && !answer.data) || (r != 0 && answer.data))
		abort();
	for (const char *p = grpc->error; *p; p++)
		if (iscntrl((unsigned char)*p))
			abort();
	/* All of it can be read. */
	for (size_t i = 0; i < answer.size; i++)
		if (((const volatile uint8_t *)answer.data)[i] > 255)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct grpc grpc;

	if (size > sizeof(server_data))
		return -1;
	if (size > 0)
		memcpy(server_data, data, size);
	server_size = size;
	server_start_once();
	grpc_open(&grpc, server_path);
	call(&grpc);
	call(&grpc);
	grpc_close(&grpc);
	return 0;
}
