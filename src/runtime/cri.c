/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cri.h"

#include "base/util.h"
#include "runtime/cri_internal.h"

#include <errno.h>
#include <runtime/cri.pb-c.h>
#include <stdio.h>

/* A string's field is at most this long: names of images have some hundred bytes. */
#define NAME_LEN_MAX 4096

#define SMALL_MAX ((size_t)64 * 1024)
#define INFO_MAX  ((size_t)1024 * 1024)

struct cri_client {
	struct grpc_client *grpc;
	uint64_t timeout_us;
	bool alpha; /* what the runtime answered to last */
};

struct operation {
	const char *service, *method;
	size_t limit; /* bytes of the answer */
	cri_reader read;
};

/* One call, maybe in two versions of the API. */
struct cri_call {
	struct cri_client *client;
	const struct operation *operation;
	uint8_t *message;
	size_t size;
	uint64_t deadline_us;
	bool alpha, second;
	cri_callback done;
	void *userdata;
};

static void cri_call_free(struct cri_call *call)
{
	free(call->message);
	free(call);
}

DEFINE_CLEANUP(struct cri_call, cri_call_free)

static void release(void *userdata)
{
	cri_call_free(userdata);
}

static void on_result(const struct grpc_result *result, void *userdata);

/* Takes the call over, also on an error. */
static int start(struct cri_call *given)
{
	_cleanup_(cleanup_cri_call_free) struct cri_call *call = given;
	uint64_t now = now_us();
	char method[128];
	struct grpc_call grpc = {
		.method = method,
		.message = call->message,
		.size = call->size,
		.timeout_us = call->deadline_us > now ? call->deadline_us - now : 1,
		.limit = call->operation->limit,
		.release = release,
	};
	int r;

	snprintf(method, sizeof(method), "/runtime.%s.%s/%s", call->alpha ? "v1alpha2" : "v1",
		call->operation->service, call->operation->method);
	r = grpc_call(call->client->grpc, &grpc, on_result, call);
	if (r == 0)
		call = NULL; /* release() has it */
	return r;
}

/* The same in the other version of the API. */
static bool try_other(struct cri_call *call)
{
	struct cri_call *other;

	if (call->second)
		return false;
	other = malloc(sizeof(*other));
	if (!other)
		return false;
	*other = *call;
	call->message = NULL;
	other->alpha = !call->alpha;
	other->second = true;
	return start(other) == 0;
}

static void on_result(const struct grpc_result *result, void *userdata)
{
	struct cri_call *call = userdata;
	struct cri_answer answer = {.result = *result};
	_cleanup_arena_ struct arena arena;

	arena_init(&arena);
	if (result->status == GRPC_UNIMPLEMENTED && try_other(call))
		return;
	if (!result->local && result->status != GRPC_UNIMPLEMENTED)
		call->client->alpha = call->alpha;
	answer.result.data = NULL;
	answer.result.size = 0;
	if (result->status == GRPC_OK &&
		!call->operation->read(&arena, result->data, result->size, &answer)) {
		answer.result.status = GRPC_INTERNAL;
		answer.result.local = true;
		answer.result.message = "the answer is not what the API says, or far too large";
	}
	call->done(&answer, call->userdata); /* may close the client */
}

static int begin(struct cri_client *client, const struct operation *operation,
	const ProtobufCMessage *request, uint64_t timeout_us, cri_callback done, void *userdata)
{
	_cleanup_(cleanup_cri_call_free) struct cri_call *call = calloc(1, sizeof(*call));
	int r;

	if (!call)
		return -ENOMEM;
	if (request) {
		r = wire_encode(request, &call->message, &call->size);
		if (r < 0)
			return r;
	}
	call->client = client;
	call->operation = operation;
	call->deadline_us = now_us() + timeout_us;
	call->alpha = client->alpha;
	call->done = done;
	call->userdata = userdata;
	return start(steal(call));
}

int cri_client_open(sd_event *event, const char *path, uint64_t timeout_us, struct cri_client **ret)
{
	struct cri_client *client = calloc(1, sizeof(*client));
	int r;

	if (!client)
		return -ENOMEM;
	client->timeout_us = timeout_us;
	r = grpc_client_open(event, path, &client->grpc);
	if (r < 0) {
		free(client);
		return r;
	}
	*ret = client;
	return 0;
}

void cri_client_close(struct cri_client *client)
{
	grpc_client_close(client->grpc);
	free(client);
}

pid_t cri_client_peer(const struct cri_client *client)
{
	return grpc_client_peer(client->grpc);
}

int cri_version(struct cri_client *client, cri_callback done, void *userdata)
{
	static const struct operation operation = {
		"RuntimeService", "Version", SMALL_MAX, cri_read_version};
	Cri__VersionRequest request = CRI__VERSION_REQUEST__INIT;

	return begin(client, &operation, &request.base, client->timeout_us, done, userdata);
}

int cri_status(struct cri_client *client, cri_callback done, void *userdata)
{
	static const struct operation operation = {
		"RuntimeService", "Status", INFO_MAX, cri_read_status};
	Cri__StatusRequest request = CRI__STATUS_REQUEST__INIT;

	request.verbose = true;
	return begin(client, &operation, &request.base, client->timeout_us, done, userdata);
}

int cri_list_images(struct cri_client *client, cri_callback done, void *userdata)
{
	static const struct operation operation = {
		"ImageService", "ListImages", WIRE_LIST_MAX, cri_read_images};

	return begin(client, &operation, NULL, client->timeout_us, done, userdata);
}

/* ImageStatus, PullImage and RemoveImage ask alike. */
static int begin_image(struct cri_client *client, const struct operation *operation,
	const char *image, uint64_t timeout_us, cri_callback done, void *userdata)
{
	Cri__ImageSpec spec = CRI__IMAGE_SPEC__INIT;
	Cri__ImageRequest request = CRI__IMAGE_REQUEST__INIT;

	if (image[0] == '\0' || strnlen(image, NAME_LEN_MAX) == NAME_LEN_MAX)
		return -EINVAL;
	spec.image = (char *)image;
	request.image = &spec;
	return begin(client, operation, &request.base, timeout_us, done, userdata);
}

int cri_image_status(
	struct cri_client *client, const char *image, cri_callback done, void *userdata)
{
	static const struct operation operation = {
		"ImageService", "ImageStatus", INFO_MAX, cri_read_image};

	return begin_image(client, &operation, image, client->timeout_us, done, userdata);
}

int cri_remove_image(
	struct cri_client *client, const char *image, cri_callback done, void *userdata)
{
	static const struct operation operation = {
		"ImageService", "RemoveImage", SMALL_MAX, cri_read_nothing};

	return begin_image(client, &operation, image, client->timeout_us, done, userdata);
}

int cri_pull_image(struct cri_client *client, const char *image, uint64_t timeout_us,
	cri_callback done, void *userdata)
{
	static const struct operation operation = {
		"ImageService", "PullImage", SMALL_MAX, cri_read_pull};

	return begin_image(client, &operation, image, timeout_us, done, userdata);
}

int cri_image_fs_info(struct cri_client *client, cri_callback done, void *userdata)
{
	static const struct operation operation = {
		"ImageService", "ImageFsInfo", INFO_MAX, cri_read_filesystems};

	return begin(client, &operation, NULL, client->timeout_us, done, userdata);
}

int cri_list_sandboxes(struct cri_client *client, cri_callback done, void *userdata)
{
	static const struct operation operation = {
		"RuntimeService", "ListPodSandbox", WIRE_LIST_MAX, cri_read_sandboxes};

	return begin(client, &operation, NULL, client->timeout_us, done, userdata);
}

int cri_list_containers(struct cri_client *client, cri_callback done, void *userdata)
{
	static const struct operation operation = {
		"RuntimeService", "ListContainers", WIRE_LIST_MAX, cri_read_containers};

	return begin(client, &operation, NULL, client->timeout_us, done, userdata);
}

int cri_sandbox_status(struct cri_client *client, const char *id, cri_callback done, void *userdata)
{
	static const struct operation operation = {
		"RuntimeService", "PodSandboxStatus", INFO_MAX, cri_read_sandbox};
	Cri__PodSandboxStatusRequest request = CRI__POD_SANDBOX_STATUS_REQUEST__INIT;

	if (id[0] == '\0' || strnlen(id, NAME_LEN_MAX) == NAME_LEN_MAX)
		return -EINVAL;
	request.pod_sandbox_id = (char *)id;
	return begin(client, &operation, &request.base, client->timeout_us, done, userdata);
}
