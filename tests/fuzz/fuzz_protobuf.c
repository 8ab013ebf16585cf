/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Any bytes at all as the answer to each call of the CRI and of containerd: the first byte chooses
 * which. What is read must be readable to its end.
 */

#include "socket_server.h"

#include "base/json.h"
#include "runtime/cri_client.h"

#define INPUT_MAX 16000 /* one frame */
#define CALLS     (CONTAINERD_DELETE_LEASE + 1)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Readable to its end: the size of all of it, in every field. */
static void use(const void *message)
{
	if (protobuf_c_message_get_packed_size(message) > ARENA_MAX)
		abort();
}

static void call_any(unsigned which, struct cri *cri, const struct wait *wait, struct arena *arena)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *config = NULL;
	const Containerd__ListContentResponse *manifests;
	const ProtobufCMessage *message;

	if (which < CALLS && cri_call(cri, wait, arena, which, "moby", NULL, &message) == 0)
		use(message);
	if (which == CALLS)
		cri_get_config(cri, wait, arena, &config);
	if (which > CALLS &&
		containerd_get_manifests(cri, wait, arena, "moby", "sha256:0", &manifests) == 0)
		use(manifests);
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

/* SETTINGS, HEADERS, DATA with one message, HEADERS with grpc-status 0: of stream 1. */
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct wait wait = {now_us() + USEC_PER_SEC, -1};
	_cleanup_arena_ struct arena arena = {0};
	struct cri cri = {0};

	if (size == 0 || size > INPUT_MAX)
		return -1;
	server_size = put_answer(server_data, data + 1, size - 1);
	server_start_once();
	grpc_open(&cri.grpc, server_path);
	call_any(data[0] % (CALLS + 2), &cri, &wait, &arena);
	grpc_close(&cri.grpc);
	return 0;
}
