/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cri_client.h"

#define CONFIG_MAX ((size_t)128 * 1024) /* containerd's info.config has 4 to 20 KB */

#define CRI(method, answer) {"/runtime.v1." method, &cri__##answer##__descriptor}
#define CONTAINERD(method, answer) \
	{"/containerd.services." method, &containerd__##answer##__descriptor}

static const struct {
	const char *method;
	const ProtobufCMessageDescriptor *answer;
} calls[] = {
	[CRI_VERSION] = CRI("RuntimeService/Version", version_response),
	[CRI_STATUS] = CRI("RuntimeService/Status", status_response),
	[CRI_FILESYSTEMS] = CRI("ImageService/ImageFsInfo", image_fs_info_response),
	[CRI_SANDBOXES] = CRI("RuntimeService/ListPodSandbox", list_pod_sandbox_response),
	[CRI_SANDBOX_STATUS] = CRI("RuntimeService/PodSandboxStatus", pod_sandbox_status_response),
	[CRI_CONTAINERS] = CRI("RuntimeService/ListContainers", list_containers_response),
	[CRI_IMAGES] = CRI("ImageService/ListImages", list_images_response),
	[CRI_IMAGE] = CRI("ImageService/ImageStatus", image_status_response),
	[CRI_PULL] = CRI("ImageService/PullImage", text),
	[CONTAINERD_VERSION] = CONTAINERD("version.v1.Version/Version", version_response),
	[CONTAINERD_NAMESPACES] = CONTAINERD("namespaces.v1.Namespaces/List", list_named_response),
	[CONTAINERD_INGESTS] =
		CONTAINERD("content.v1.Content/ListStatuses", list_statuses_response),
	[CONTAINERD_CONTENT] = CONTAINERD("content.v1.Content/List", list_content_response),
	[CONTAINERD_IMAGES] = CONTAINERD("images.v1.Images/List", list_images_response),
	[CONTAINERD_GET_IMAGE] = CONTAINERD("images.v1.Images/Get", image_response),
	[CONTAINERD_CREATE_IMAGE] = CONTAINERD("images.v1.Images/Create", image_response),
	[CONTAINERD_UPDATE_IMAGE] = CONTAINERD("images.v1.Images/Update", image_response),
	[CONTAINERD_DELETE_IMAGE] = CONTAINERD("images.v1.Images/Delete", empty),
	[CONTAINERD_LEASES] = CONTAINERD("leases.v1.Leases/List", list_named_response),
	[CONTAINERD_CREATE_LEASE] = CONTAINERD("leases.v1.Leases/Create", empty),
	[CONTAINERD_DELETE_LEASE] = CONTAINERD("leases.v1.Leases/Delete", empty),
};

/* arena_free() releases all of it. */
static void release(void *, void *)
{
}

/* Decodes into the bounded arena: a small answer can contain millions of empty messages. */
int cri_call(struct cri *cri, const struct wait *wait, struct arena *arena, enum cri_call which,
	const char *namespace, const ProtobufCMessage *message, void *ret)
{
	ProtobufCAllocator allocator = {arena_alloc, release, arena};
	size_t size = message ? protobuf_c_message_get_packed_size(message) : 0;
	_cleanup_free_ uint8_t *data = must(malloc(size + 1));
	const struct grpc_request request = {
		calls[which].method, namespace, cri->lease, data, size};
	struct grpc_answer answer;
	void *decoded;
	int r;

	if (message)
		protobuf_c_message_pack(message, data);
	r = grpc_unary(&cri->grpc, wait, &request, arena, &answer);
	if (r != 0)
		return r;
	decoded = protobuf_c_message_unpack(
		calls[which].answer, &allocator, answer.size, answer.data);
	if (!decoded) {
		set_text(cri->grpc.error, "the answer is invalid or too large");
		return -EBADMSG;
	}
	*(void **)ret = decoded;
	return 0;
}

int cri_get_config(struct cri *cri, const struct wait *wait, cJSON **config)
{
	Cri__StatusRequest request = CRI__STATUS_REQUEST__INIT;
	_cleanup_arena_ struct arena arena = {0};
	const Cri__StatusResponse *m;
	int r;

	request.verbose = true;
	r = cri_call(cri, wait, &arena, CRI_STATUS, NULL, &request.base, &m);
	for (size_t i = 0; r == 0 && i < m->n_info && !*config; i++)
		if (streq(m->info[i]->key, "config") &&
			strnlen(m->info[i]->value, CONFIG_MAX) < CONFIG_MAX)
			*config = cJSON_Parse(m->info[i]->value);
	return r;
}

enum cri_answers cri_probe(const char *path, const struct wait *wait)
{
	_cleanup_arena_ struct arena arena = {0};
	const Cri__VersionResponse *version;
	struct cri cri = {0};
	int r;

	grpc_open(&cri.grpc, path);
	r = cri_call(&cri, wait, &arena, CRI_VERSION, NULL, NULL, &version);
	grpc_close(&cri.grpc);
	switch (r) {
	case 0:
		return CRI_ANSWERS;
	case -ETIMEDOUT: /* or too busy to accept */
	case -ECONNRESET:
	case -EPROTO:
	case -EBADMSG:
	case -EFBIG:
		return CRI_CONNECTS;
	default:
		return r > 0 ? CRI_IS_GRPC : CRI_NO_ANSWER;
	}
}
