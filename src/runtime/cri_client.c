/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cri_client.h"

/* A containerd's info.config has 4 to 20 KB. */
#define CONFIG_MAX ((size_t)128 * 1024)

static const struct {
	const char *method; /* below the CRI's version, or below containerd's services */
	const ProtobufCMessageDescriptor *answer;
} calls[] = {
	[CRI_VERSION] = {"RuntimeService/Version", &cri__version_response__descriptor},
	[CRI_STATUS] = {"RuntimeService/Status", &cri__status_response__descriptor},
	[CRI_FILESYSTEMS] = {"ImageService/ImageFsInfo", &cri__image_fs_info_response__descriptor},
	[CRI_SANDBOXES] = {"RuntimeService/ListPodSandbox",
		&cri__list_pod_sandbox_response__descriptor},
	[CRI_SANDBOX_STATUS] = {"RuntimeService/PodSandboxStatus",
		&cri__pod_sandbox_status_response__descriptor},
	[CRI_CONTAINERS] = {"RuntimeService/ListContainers",
		&cri__list_containers_response__descriptor},
	[CRI_IMAGES] = {"ImageService/ListImages", &cri__list_images_response__descriptor},
	[CRI_IMAGE] = {"ImageService/ImageStatus", &cri__image_status_response__descriptor},
	[CRI_PULL] = {"ImageService/PullImage", &cri__text__descriptor},
	[CONTAINERD_VERSION] = {"version.v1.Version/Version",
		&containerd__version_response__descriptor},
	[CONTAINERD_NAMESPACES] = {"namespaces.v1.Namespaces/List",
		&containerd__list_named_response__descriptor},
	[CONTAINERD_INGESTS] = {"content.v1.Content/ListStatuses",
		&containerd__list_statuses_response__descriptor},
	[CONTAINERD_CONTENT] = {"content.v1.Content/List",
		&containerd__list_content_response__descriptor},
	[CONTAINERD_IMAGES] = {"images.v1.Images/List",
		&containerd__list_images_response__descriptor},
	[CONTAINERD_GET_IMAGE] = {"images.v1.Images/Get", &containerd__image_response__descriptor},
	[CONTAINERD_CREATE_IMAGE] = {"images.v1.Images/Create",
		&containerd__image_response__descriptor},
	[CONTAINERD_UPDATE_IMAGE] = {"images.v1.Images/Update",
		&containerd__image_response__descriptor},
	[CONTAINERD_DELETE_IMAGE] = {"images.v1.Images/Delete", &containerd__empty__descriptor},
	[CONTAINERD_LEASES] = {"leases.v1.Leases/List",
		&containerd__list_named_response__descriptor},
	[CONTAINERD_CREATE_LEASE] = {"leases.v1.Leases/Create", &containerd__empty__descriptor},
	[CONTAINERD_DELETE_LEASE] = {"leases.v1.Leases/Delete", &containerd__empty__descriptor},
};

/* All at once, in arena_free(). */
static void release(void *arena, void *memory)
{
	(void)arena, (void)memory;
}

/* A small answer can hold millions of empty messages: they are decoded into the arena. */
int cri_call(struct cri *cri, const struct wait *wait, struct arena *arena, enum cri_call which,
	const char *namespace, const ProtobufCMessage *message, void *ret)
{
	ProtobufCAllocator allocator = {arena_take, release, arena};
	size_t size = message ? protobuf_c_message_get_packed_size(message) : 0;
	_cleanup_free_ uint8_t *data = must(malloc(size + 1));
	char method[128];
	const struct grpc_request request = {method, namespace, cri->lease, data, size};
	struct grpc_answer answer;
	void *decoded;
	int r;

	if (message)
		protobuf_c_message_pack(message, data);
	snprintf(method, sizeof(method), "/%s.%s",
		which < CONTAINERD_VERSION ? "runtime.v1" : "containerd.services",
		calls[which].method);
	r = grpc_unary(&cri->grpc, wait, &request, arena, &answer);
	if (r != 0)
		return r;
	decoded = protobuf_c_message_unpack(
		calls[which].answer, &allocator, answer.size, answer.data);
	if (!decoded) {
		copy_text(cri->grpc.error, sizeof(cri->grpc.error),
			"the answer is not what the API says, or far too large");
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
	case -ETIMEDOUT: /* also where it is too busy to accept */
	case -ECONNRESET:
	case -EPROTO:
	case -EBADMSG:
	case -EFBIG:
		return CRI_CONNECTS;
	default:
		return r > 0 ? CRI_IS_GRPC : CRI_NO_ANSWER;
	}
}
