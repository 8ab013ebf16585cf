/* SPDX-License-Identifier: Apache-2.0 */

/* Sends any bytes to the image server. It answers with HTTP or not at all. */

#include "archive_file.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

#define CONFIG   "{\"rootfs\":{\"diff_ids\":[]}}"
#define QUIET_MS 10
#define MANIFEST "[{\"Config\":\"c\",\"RepoTags\":[\"a\"],\"Layers\":[]}]"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint16_t port;

static void start_once(void)
{
	static struct archive *archive;
	static struct image_server *server;
	static _Atomic uint64_t sent;
	_cleanup_bytes_ struct bytes tar = {0};

	if (server)
		return;
	tar_put(&tar, "c", CONFIG);
	tar_put(&tar, "manifest.json", MANIFEST);
	require(open_archive(tar.data, tar.len, &archive) == 0);
	require(image_server_open(archive, "a/b", &sent, &server, &port) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	char answer[65536];
	/* Without TIME_WAIT there are enough ports. */
	static const struct linger reset = {.l_onoff = 1};
	struct pollfd wait;
	size_t have = 0;
	ssize_t n;
	int fd;

	if (size > 16384)
		return -1;
	start_once();
	address.sin_port = htons(port);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	wait = (struct pollfd){.fd = fd, .events = POLLIN};
	require(fd >= 0);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		/* libFuzzer's alarm interrupted it, or no port is free. */
		require(errno == EINTR || errno == EADDRNOTAVAIL);
		close(fd);
		return -1;
	}
	(void)!send(fd, data, size, MSG_NOSIGNAL);
	(void)!send(fd, "\r\n\r\n", 4, MSG_NOSIGNAL);
	/* The server waits for the rest of an incomplete request. */
	while (have < sizeof(answer) - 1 && poll(&wait, 1, QUIET_MS) > 0 &&
		(n = recv(fd, answer + have, sizeof(answer) - 1 - have, 0)) > 0)
		have += (size_t)n;
	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(fd);
	answer[have] = '\0';
	require(have == 0 || memcmp(answer, "HTTP/1.", 7) == 0);
	return 0;
}
