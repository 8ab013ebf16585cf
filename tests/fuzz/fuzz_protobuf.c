/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Any bytes at all as the answer to each call of the CRI and of containerd: the first byte chooses
 * which. What is read must be readable to its end.
 */

#include "socket_server.h"

#include "runtime/containerd_client.h"
#include "runtime/cri_client.h"

#define INPUT_MAX 16000 /* one frame */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const char *text)
{
	if (text && strlen(text) > ARENA_MAX)
		abort();
}

static void use_sandbox(const struct cri_sandbox *sandbox)
{
	use(sandbox->id);
	use(sandbox->name);
	use(sandbox->namespace);
	use(sandbox->uid);
}

static void call_cri(unsigned which, struct cri *cri, const struct wait *wait, struct arena *arena)
{
	struct cri_version version;
	struct cri_status status;
	struct cri_filesystems filesystems;
	struct cri_sandboxes sandboxes;
	struct cri_sandbox_status sandbox;
	struct cri_containers containers;

	if (which == 0 && cri_get_version(cri, wait, arena, &version) == 0)
		use(version.version);
	if (which == 1 && cri_get_status(cri, wait, arena, &status) == 0) {
		use(status.config.image_pull_progress_timeout);
		use(status.config.registry_config_path);
		use(status.config.snapshotter);
	}
	if (which == 2 && cri_get_filesystems(cri, wait, arena, &filesystems) == 0)
		for (size_t i = 0; i < filesystems.n; i++)
			use(filesystems.list[i].mountpoint);
	if (which == 3 && cri_get_sandboxes(cri, wait, arena, &sandboxes) == 0)
		for (size_t i = 0; i < sandboxes.n; i++)
			use_sandbox(&sandboxes.list[i]);
	if (which == 4 && cri_get_sandbox(cri, wait, arena, "id", &sandbox) == 0) {
		use_sandbox(&sandbox.sandbox);
		for (size_t i = 0; i < sandbox.n_ips; i++)
			use(sandbox.ips[i]);
	}
	if (which == 5 && cri_get_containers(cri, wait, arena, &containers) == 0)
		for (size_t i = 0; i < containers.n; i++)
			use(containers.list[i].name);
}

static void call_containerd(
	unsigned which, struct grpc *grpc, const struct wait *wait, struct arena *arena)
{
	struct containerd_version version;
	struct containerd_namespaces namespaces;
	struct containerd_ingests ingests;
	struct containerd_manifests manifests;

	if (which == 6 && containerd_get_version(grpc, wait, arena, &version) == 0)
		use(version.revision);
	if (which == 7 && containerd_get_namespaces(grpc, wait, arena, &namespaces) == 0)
		for (size_t i = 0; i < namespaces.n; i++)
			use(namespaces.list[i]);
	if (which == 8 && containerd_get_ingests(grpc, wait, arena, "moby", &ingests) == 0)
		for (size_t i = 0; i < ingests.n; i++)
			use(ingests.list[i].ref);
	if (which == 9 &&
		containerd_get_manifests(grpc, wait, arena, "moby", "sha256:0", &manifests) == 0)
		for (size_t i = 0; i < manifests.n; i++)
			for (size_t l = 0; l < manifests.list[i].n_labels; l++)
				use(manifests.list[i].labels[l].value);
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
	_cleanup_(cleanup_grpc_close) struct grpc *grpc = NULL;
	_cleanup_arena_ struct arena arena;
	struct cri cri = {0};

	arena_init(&arena);
	if (size == 0 || size > INPUT_MAX)
		return -1;
	server_size = put_answer(server_data, data + 1, size - 1);
	server_start_once();
	if (grpc_open(server_path, &grpc) < 0)
		abort();
	cri.grpc = grpc;
	call_cri(data[0] % 10, &cri, &wait, &arena);
	call_containerd(data[0] % 10, grpc, &wait, &arena);
	return 0;
}
