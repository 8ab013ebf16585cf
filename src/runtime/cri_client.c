/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cri_client.h"

#include "base/util.h"
#include "runtime/wire.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <runtime/cri.pb-c.h>
#include <stdio.h>

/* A string's field is at most this long. */
#define NAME_LEN_MAX 4096

#define SMALL_MAX ((size_t)64 * 1024)
#define INFO_MAX  ((size_t)1024 * 1024)

/* A containerd's info.config has 4 to 20 KB. */
#define CONFIG_MAX ((size_t)128 * 1024)

/* Numbers of the API's enumerations. */
enum { SANDBOX_READY = 0, CONTAINER_RUNNING = 1, NAMESPACE_NODE = 2 };

DEFINE_CLEANUP(cJSON, cJSON_Delete)

struct operation {
	const char *service, *method;
	size_t answer_max;
	const ProtobufCMessageDescriptor *answer;
};

/* In the version of the API that the runtime spoke last, and in the other where it has not that. */
static int call(struct cri *cri, const struct wait *wait, struct arena *arena,
	const struct operation *operation, const ProtobufCMessage *message, void *ret)
{
	int r = 0;

	for (int i = 0; i < 2; i++) {
		bool alpha = i == 0 ? cri->alpha : !cri->alpha;
		char method[128];
		const struct grpc_request request = {
			.method = method, .answer_max = operation->answer_max};

		snprintf(method, sizeof(method), "/runtime.%s.%s/%s", alpha ? "v1alpha2" : "v1",
			operation->service, operation->method);
		r = wire_call(cri->grpc, wait, arena, &request, message, operation->answer, ret);
		if (r == GRPC_UNIMPLEMENTED)
			continue;
		if (r >= 0)
			cri->alpha = alpha;
		break;
	}
	return r;
}

int cri_get_version(
	struct cri *cri, const struct wait *wait, struct arena *arena, struct cri_version *version)
{
	static const struct operation operation = {
		"RuntimeService", "Version", SMALL_MAX, &cri__version_response__descriptor};
	const Cri__VersionRequest request = CRI__VERSION_REQUEST__INIT;
	const Cri__VersionResponse *m;
	int r = call(cri, wait, arena, &operation, &request.base, &m);

	if (r == 0)
		*version = (struct cri_version){
			m->runtime_name, m->runtime_version, m->runtime_api_version};
	return r;
}

/* A text of the document in the arena; NULL when it is not there, or no text. */
static const char *json_text(struct arena *arena, const cJSON *object, const char *name)
{
	const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
	char *copy = text ? arena_take(arena, strlen(text) + 1) : NULL;

	return copy ? strcpy(copy, text) : NULL;
}

/*
 * Names as in containerd's pkg/cri/config/config.go. Only these few are taken out of it: the
 * document holds the registries' credentials, where somebody wrote them there.
 */
static bool read_config(struct arena *arena, const char *text, struct cri_running_config *config)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *json = NULL;
	const cJSON *downloads;

	if (strnlen(text, CONFIG_MAX) == CONFIG_MAX)
		return false;
	json = cJSON_Parse(text);
	if (!cJSON_IsObject(json))
		return false;
	downloads = cJSON_GetObjectItemCaseSensitive(json, "maxConcurrentDownloads");
	if (cJSON_IsNumber(downloads) && downloads->valuedouble >= 0)
		config->max_concurrent_downloads = downloads->valueint;
	config->image_pull_progress_timeout = json_text(arena, json, "imagePullProgressTimeout");
	config->registry_config_path =
		json_text(arena, cJSON_GetObjectItemCaseSensitive(json, "registry"), "configPath");
	config->snapshotter = json_text(
		arena, cJSON_GetObjectItemCaseSensitive(json, "containerd"), "snapshotter");
	return true;
}

int cri_get_status(
	struct cri *cri, const struct wait *wait, struct arena *arena, struct cri_status *status)
{
	static const struct operation operation = {
		"RuntimeService", "Status", INFO_MAX, &cri__status_response__descriptor};
	Cri__StatusRequest request = CRI__STATUS_REQUEST__INIT;
	const Cri__StatusResponse *m;
	int r;

	request.verbose = true;
	r = call(cri, wait, arena, &operation, &request.base, &m);
	if (r != 0)
		return r;
	*status = (struct cri_status){.config.max_concurrent_downloads = -1};
	for (size_t i = 0; i < m->n_info; i++)
		if (streq(m->info[i]->key, "config"))
			status->has_config = read_config(arena, m->info[i]->value, &status->config);
	return 0;
}

int cri_get_filesystems(struct cri *cri, const struct wait *wait, struct arena *arena,
	struct cri_filesystems *filesystems)
{
	static const struct operation operation = {
		"ImageService", "ImageFsInfo", INFO_MAX, &cri__image_fs_info_response__descriptor};
	const Cri__ImageFsInfoResponse *m;
	struct cri_filesystem *list;
	int r = call(cri, wait, arena, &operation, NULL, &m);

	if (r != 0)
		return r;
	list = arena_array(arena, m->n_image_filesystems, sizeof(*list));
	if (!list)
		return grpc_refuse_answer(cri->grpc);
	for (size_t i = 0; i < m->n_image_filesystems; i++) {
		const Cri__FilesystemUsage *usage = m->image_filesystems[i];

		list[i].mountpoint = usage->fs_id ? usage->fs_id->mountpoint : "";
		list[i].used_bytes = usage->used_bytes ? usage->used_bytes->value : 0;
	}
	*filesystems = (struct cri_filesystems){list, m->n_image_filesystems};
	return 0;
}

static void read_sandbox(const char *id, const Cri__PodSandboxMetadata *metadata, int32_t state,
	struct cri_sandbox *sandbox)
{
	sandbox->id = id;
	sandbox->name = metadata ? metadata->name : "";
	sandbox->namespace = metadata ? metadata->namespace_ : "";
	sandbox->uid = metadata ? metadata->uid : "";
	sandbox->ready = state == SANDBOX_READY;
}

int cri_get_sandboxes(struct cri *cri, const struct wait *wait, struct arena *arena,
	struct cri_sandboxes *sandboxes)
{
	static const struct operation operation = {"RuntimeService", "ListPodSandbox",
		WIRE_LIST_MAX, &cri__list_pod_sandbox_response__descriptor};
	const Cri__ListPodSandboxResponse *m;
	struct cri_sandbox *list;
	int r = call(cri, wait, arena, &operation, NULL, &m);

	if (r != 0)
		return r;
	list = arena_array(arena, m->n_items, sizeof(*list));
	if (!list)
		return grpc_refuse_answer(cri->grpc);
	for (size_t i = 0; i < m->n_items; i++)
		read_sandbox(m->items[i]->id, m->items[i]->metadata, m->items[i]->state, &list[i]);
	*sandboxes = (struct cri_sandboxes){list, m->n_items};
	return 0;
}

static bool on_host_network(const Cri__LinuxPodSandboxStatus *status)
{
	return status && status->namespaces && status->namespaces->options &&
	       status->namespaces->options->network == NAMESPACE_NODE;
}

int cri_get_sandbox(struct cri *cri, const struct wait *wait, struct arena *arena, const char *id,
	struct cri_sandbox_status *status)
{
	static const struct operation operation = {"RuntimeService", "PodSandboxStatus", INFO_MAX,
		&cri__pod_sandbox_status_response__descriptor};
	Cri__PodSandboxStatusRequest request = CRI__POD_SANDBOX_STATUS_REQUEST__INIT;
	const Cri__PodSandboxNetworkStatus *network;
	const Cri__PodSandboxStatusResponse *m;
	const char **ips;
	size_t n = 0;
	int r;

	if (id[0] == '\0' || strnlen(id, NAME_LEN_MAX) == NAME_LEN_MAX)
		return -EINVAL;
	request.pod_sandbox_id = (char *)id;
	r = call(cri, wait, arena, &operation, &request.base, &m);
	if (r != 0)
		return r;
	if (!m->status)
		return grpc_refuse_answer(cri->grpc);
	network = m->status->network;
	ips = arena_array(arena, network ? 1 + network->n_additional_ips : 0, sizeof(*ips));
	if (!ips)
		return grpc_refuse_answer(cri->grpc);
	if (network && network->ip[0])
		ips[n++] = network->ip;
	for (size_t i = 0; network && i < network->n_additional_ips; i++)
		ips[n++] = network->additional_ips[i]->ip;
	*status = (struct cri_sandbox_status){
		.ips = ips, .n_ips = n, .host_network = on_host_network(m->status->linux_status)};
	read_sandbox(m->status->id, m->status->metadata, m->status->state, &status->sandbox);
	return 0;
}

int cri_get_containers(struct cri *cri, const struct wait *wait, struct arena *arena,
	struct cri_containers *containers)
{
	static const struct operation operation = {"RuntimeService", "ListContainers",
		WIRE_LIST_MAX, &cri__list_containers_response__descriptor};
	const Cri__ListContainersResponse *m;
	struct cri_container *list;
	int r = call(cri, wait, arena, &operation, NULL, &m);

	if (r != 0)
		return r;
	list = arena_array(arena, m->n_containers, sizeof(*list));
	if (!list)
		return grpc_refuse_answer(cri->grpc);
	for (size_t i = 0; i < m->n_containers; i++) {
		const Cri__Container *c = m->containers[i];

		list[i].id = c->id;
		list[i].sandbox_id = c->pod_sandbox_id;
		list[i].name = c->metadata ? c->metadata->name : "";
		list[i].running = c->state == CONTAINER_RUNNING;
	}
	*containers = (struct cri_containers){list, m->n_containers};
	return 0;
}

enum cri_answers cri_probe(const char *path, const struct wait *wait)
{
	_cleanup_(cleanup_grpc_close) struct grpc *grpc = NULL;
	_cleanup_arena_ struct arena arena;
	struct cri_version version;
	struct cri cri = {0};
	int r;

	arena_init(&arena);
	if (grpc_open(path, &grpc) < 0)
		return CRI_NO_ANSWER;
	cri.grpc = grpc;
	r = cri_get_version(&cri, wait, &arena, &version);
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
