/* SPDX-License-Identifier: Apache-2.0 */

/*
 * One unary gRPC call by src/runtime/grpc.h, for the root tests.
 *
 * grpc_tool SOCKET METHOD SECONDS [NAMESPACE]
 *
 * The encoded request comes on stdin, the encoded answer goes to stdout. Exit status: that of gRPC,
 * with its message on stderr; 64 for wrong usage, 100 where no call was made.
 */

#include "runtime/grpc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#define REQUEST_MAX ((size_t)1024 * 1024)

static void on_answer(const struct grpc_result *result, void *userdata)
{
	sd_event *event = userdata;

	if (result->status == GRPC_OK)
		fwrite(result->data, 1, result->size, stdout);
	else
		fprintf(stderr, "%s: %s\n", grpc_status_name(result->status), result->message);
	sd_event_exit(event, (int)result->status);
}

static int call(sd_event *event, char **args, int n)
{
	_cleanup_(cleanup_grpc_client_close) struct grpc_client *client = NULL;
	_cleanup_free_ char *request = malloc(REQUEST_MAX);
	struct grpc_call call = {
		.method = args[1],
		.containerd_namespace = n > 3 ? args[3] : NULL,
		.message = request,
		.timeout_us = strtoull(args[2], NULL, 10) * USEC_PER_SEC,
	};
	int r = grpc_client_open(event, args[0], &client);

	if (r < 0 || !request)
		return 100;
	call.size = fread(request, 1, REQUEST_MAX, stdin);
	r = grpc_call(client, &call, on_answer, event);
	if (r == 0)
		r = sd_event_loop(event);
	return r < 0 ? 100 : r;
}

int main(int argc, char **argv)
{
	sd_event *event = NULL;
	int r = 100;

	if (argc < 4 || argc > 5) {
		fprintf(stderr, "grpc_tool: see the comment at the top of its source\n");
		return 64;
	}
	if (sd_event_new(&event) >= 0)
		r = call(event, argv + 1, argc - 1);
	sd_event_unref(event);
	return r;
}
