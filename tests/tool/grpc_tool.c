/* SPDX-License-Identifier: Apache-2.0 */

/*
 * One unary gRPC call by src/runtime/grpc_client.h, for the root tests.
 *
 * grpc_tool SOCKET METHOD SECONDS [NAMESPACE]
 *
 * The encoded request comes on stdin, the encoded answer goes to stdout. Exit status: that of gRPC,
 * 14 (UNAVAILABLE) without an answer; 64 for wrong usage.
 */

#include "runtime/grpc_client.h"

#define REQUEST_MAX ((size_t)1024 * 1024)

int main(int argc, char **argv)
{
	_cleanup_free_ char *message = malloc(REQUEST_MAX);
	struct grpc_request request = {.message = message};
	_cleanup_arena_ struct arena arena = {0};
	struct wait wait = {.cancel_fd = -1};
	struct grpc_answer answer;
	struct grpc grpc;
	int r;

	if (argc < 4 || argc > 5 || !message) {
		fprintf(stderr, "grpc_tool: see the comment at the top of its source\n");
		return 64;
	}
	request.method = argv[2];
	request.containerd_namespace = argc > 4 ? argv[4] : NULL;
	request.size = fread(message, 1, REQUEST_MAX, stdin);
	wait.deadline_us = now_us() + strtoull(argv[3], NULL, 10) * USEC_PER_SEC;
	grpc_open(&grpc, argv[1]);
	r = grpc_unary(&grpc, &wait, &request, &arena, &answer);
	if (r == 0)
		fwrite(answer.data, 1, answer.size, stdout);
	else
		fprintf(stderr, "status %d: %s\n", r, grpc.error);
	grpc_close(&grpc);
	return r < 0 ? 14 : r;
}
