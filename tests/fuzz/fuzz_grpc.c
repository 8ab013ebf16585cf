/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A gRPC server sends any bytes. The first byte chooses the call of the CRI or containerd whose
 * answer has them as its message. RAW: they are the whole stream. A client makes two calls, and
 * each ends with a valid message or a printable error.
 */

#include "base/json.h"
#include "runtime/cri.h"

#include <ctype.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

#define RAW       0xff
#define INPUT_MAX 16000 /* one frame */
#define CALLS     (CONTAINERD_DELETE_LEASE + 1)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The bytes for each client, set before it connects. */
static struct {
	uint8_t data[65536];
	size_t size;
	char path[64];
} server;

static void server_remove(void)
{
	unlink(server.path);
}

static void *server_run(void *listener)
{
	char drain[4096];

	for (;;) {
		int fd = accept4(*(int *)listener, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0)
			continue;
		(void)!send(fd, server.data, server.size, MSG_NOSIGNAL);
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
	snprintf(server.path, sizeof(server.path), "/tmp/headroom-fuzz-%d", (int)getpid());
	unlink(server.path);
	atexit(server_remove);
	set_text(address.sun_path, server.path);
	if (bind(listener, (struct sockaddr *)&address, sizeof(address)) < 0 ||
		listen(listener, 8) < 0 ||
		pthread_create(&thread, NULL, server_run, &listener) != 0)
		abort();
}

static size_t put_frame(uint8_t *out, uint8_t type, uint8_t flags, const void *payload, size_t len)
{
	const uint8_t header[] = {
		0, (uint8_t)(len >> 8), (uint8_t)len, type, flags, 0, 0, 0, type == 4 ? 0 : 1};

	memcpy(out, header, sizeof(header));
	if (len > 0)
		memcpy(out + sizeof(header), payload, len);
	return sizeof(header) + len;
}

/* SETTINGS, then HEADERS, DATA with one message and HEADERS with grpc-status 0 on stream 1. */
static size_t put_answer(uint8_t *out, const uint8_t *data, size_t size)
{
	static const char headers[] = "\x88\x0f\x10\x10"
				      "application/grpc";
	static const char trailers[] = "\x00\x0bgrpc-status\x01"
				       "0";
	uint8_t message[5 + INPUT_MAX] = {0, 0, 0, (uint8_t)(size >> 8), (uint8_t)size};
	size_t used = put_frame(out, 4, 0, NULL, 0);

	memcpy(message + 5, data, size);
	used += put_frame(out + used, 1, 4, headers, sizeof(headers) - 1);
	used += put_frame(out + used, 0, 0, message, 5 + size);
	return used + put_frame(out + used, 1, 4 | 1, trailers, sizeof(trailers) - 1);
}

/* A call succeeds with a readable message, or fails with a printable error. */
static void call_any(unsigned which, struct cri *cri)
{
	const struct wait wait = {now_us() + USEC_PER_SEC, -1};
	_cleanup_(cleanup_cJSON_Delete) cJSON *config = NULL;
	const ProtobufCMessage *message = NULL;
	_cleanup_arena_ struct arena arena = {0};
	int r;

	if (which < CALLS)
		r = cri_call(cri, &wait, &arena, which, "moby", NULL, &message);
	else
		r = cri_get_config(cri, &wait, &config);
	if (r > GRPC_STATUS_MAX || (r != 0 && message) ||
		(message && protobuf_c_message_get_packed_size(message) > ARENA_MAX))
		abort();
	for (const char *p = cri->grpc.error; *p; p++)
		if (iscntrl((unsigned char)*p))
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cri cri = {0};

	if (size == 0 || size > INPUT_MAX)
		return -1;
	server.size = data[0] == RAW ? size - 1 : put_answer(server.data, data + 1, size - 1);
	if (data[0] == RAW)
		memcpy(server.data, data + 1, size - 1);
	server_start_once();
	grpc_open(&cri.grpc, server.path);
	for (int i = 0; i < 2; i++)
		call_any(data[0] % (CALLS + 1), &cri);
	grpc_close(&cri.grpc);
	return 0;
}
