/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Any bytes at all from a server that then closes: two calls on one connection end once each, with
 * a status, and a message that may be shown.
 */

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/util.h"
#include "runtime/grpc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
	unsigned n;
};

static void on_answer(const struct grpc_result *result, void *userdata)
{
	struct outcome *outcome = userdata;

	outcome->n++;
	if ((unsigned)result->status > GRPC_UNAUTHENTICATED || !result->message)
		abort();
	if ((result->data != NULL) != (result->status == GRPC_OK))
		abort();
	for (const char *p = result->message; *p; p++)
		if (iscntrl((unsigned char)*p))
			abort();
	/* All of it can be read. */
	for (size_t i = 0; i < result->size; i++)
		if (((const volatile uint8_t *)result->data)[i] > 255)
			abort();
}

/* Of the one socket that all inputs share. */
static char path[64];

static void remove_socket(void)
{
	unlink(path);
}

static int listen_there(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(path, sizeof(path), "/tmp/headroom-fuzz-grpc-%d", (int)getpid());
	unlink(path);
	atexit(remove_socket);
	copy_text(address.sun_path, sizeof(address.sun_path), path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
		listen(fd, 8) < 0)
		abort();
	return fd;
}

static void call(struct grpc_client *client, struct outcome *outcome)
{
	const struct grpc_call call = {
		.method = "/t.T/Call",
		.message = "hello",
		.size = 5,
		.timeout_us = USEC_PER_SEC,
		.limit = 4096,
	};

	if (grpc_call(client, &call, on_answer, outcome) < 0)
		abort();
}

/* A refused call comes again, on a second connection: to the same answer. */
static void serve(int listener, const uint8_t *data, size_t size)
{
	int fd;

	while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
		(void)!send(fd, data, size, MSG_NOSIGNAL);
		close(fd);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int listener = -1;
	_cleanup_(cleanup_grpc_client_close) struct grpc_client *client = NULL;
	struct outcome first = {0}, second = {0};
	sd_event *event = NULL;

	if (listener < 0) {
		listener = listen_there();
		fcntl(listener, F_SETFL, O_NONBLOCK);
	}
	if (size > 65536)
		return -1;
	if (sd_event_new(&event) < 0 || grpc_client_open(event, path, &client) < 0)
		abort();
	call(client, &first);
	call(client, &second);
	while (first.n == 0 || second.n == 0) {
		if (sd_event_run(event, 2 * USEC_PER_SEC) < 0)
			abort();
		serve(listener, data, size);
	}
	if (first.n != 1 || second.n != 1)
		abort();
	grpc_client_close(steal(client));
	sd_event_unref(event);
	return 0;
}
