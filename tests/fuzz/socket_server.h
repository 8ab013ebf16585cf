/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_FUZZ_SOCKET_SERVER_H
#define TESTS_FUZZ_SOCKET_SERVER_H

/* A thread that sends the same bytes to each client, and closes when the client does. */

#include "base/util.h"

#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

/* Filled before a client connects. */
static uint8_t server_data[65536];
static size_t server_size;
static char server_path[64];

static void server_remove(void)
{
	unlink(server_path);
}

static void *server_run(void *listener)
{
	char drain[4096];

	for (;;) {
		int fd = accept4(*(int *)listener, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0)
			continue;
		(void)!send(fd, server_data, server_size, MSG_NOSIGNAL);
		shutdown(fd, SHUT_WR);
		while (recv(fd, drain, sizeof(drain), 0) > 0)
			;
		close(fd);
	}
	return NULL;
}

static void server_start_once(void)
{
	static int listener = -1;
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	pthread_t thread;

	if (listener >= 0)
		return;
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	snprintf(server_path, sizeof(server_path), "/tmp/headroom-fuzz-%d", (int)getpid());
	unlink(server_path);
	atexit(server_remove);
	copy_text(address.sun_path, sizeof(address.sun_path), server_path);
	if (bind(listener, (struct sockaddr *)&address, sizeof(address)) < 0 ||
		listen(listener, 8) < 0 ||
		pthread_create(&thread, NULL, server_run, &listener) != 0)
		abort();
}

#endif
