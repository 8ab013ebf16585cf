/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cri_client.h"

#include "base/json.h"
#include "base/util.h"
#include "runtime/wire.h"

#include <errno.h>
#include <stdio.h>

#define SMALL_MAX ((size_t)64 * 1024)
#define INFO_MAX  ((size_t)1024 * 1024)

/* A containerd's info.config has 4 to 20 KB. */
#define CONFIG_MAX ((size_t)128 * 1024)

static const struct {
	const char *service, *method;
	size_t answer_max;
	const ProtobufCMessageDescriptor *answer;
} calls[] = {
	[CRI_VERSION] = {"Runtime", "Version", SMALL_MAX, &cri__version_response__descriptor},
	[CRI_STATUS] = {"Runtime", "Status", INFO_MAX, &cri__status_response__descriptor},
	[CRI_FILESYSTEMS] = {"Image", "ImageFsInfo", INFO_MAX,
		&cri__image_fs_info_response__descriptor},
	[CRI_SANDBOXES] = {"Runtime", "ListPodSandbox", WIRE_LIST_MAX,
		&cri__list_pod_sandbox_response__descriptor},
	[CRI_SANDBOX_STATUS] = {"Runtime", "PodSandboxStatus", INFO_MAX,
		&cri__pod_sandbox_status_response__descriptor},
	[CRI_CONTAINERS] = {"Runtime", "ListContainers", WIRE_LIST_MAX,
		&cri__list_containers_response__descriptor},
};

/* In the version of the API that the runtime spoke last, and in the other where it has not that. */
int cri_call(struct cri *cri, const struct wait *wait, struct arena *arena, enum cri_call which,
	const ProtobufCMessage *message, void *ret)
{
	int r = GRPC_UNIMPLEMENTED;

	for (int i = 0; i < 2 && r == GRPC_UNIMPLEMENTED; i++) {
		bool alpha = i == 0 ? cri->alpha : !cri->alpha;
		char method[128];
		const struct grpc_request request = {
			.method = method, .answer_max = calls[which].answer_max};

		snprintf(method, sizeof(method), "/runtime.%s.%sService/%s",
			alpha ? "v1alpha2" : "v1", calls[which].service, calls[which].method);
		r = wire_call(cri->grpc, wait, arena, &request, message, calls[which].answer, ret);
		if (r >= 0 && r != GRPC_UNIMPLEMENTED)
			cri->alpha = alpha;
	}
	return r;
}

/* A text of the document in the arena; NULL when it is not there, or no text. */
static const char *copy_of(struct arena *arena, const cJSON *object, const char *path)
{
	const char *text = cJSON_GetStringValue(json_at(object, path));
	char *copy = text ? arena_take(arena, strlen(text) + 1) : NULL;

	return copy ? strcpy(copy, text) : NULL;
}

/*
 * Names as in containerd's pkg/cri/config/config.go. Only these few are taken out of it: the
 * document holds the registries' credentials, where somebody wrote them there.
 */
static void read_config(struct arena *arena, const char *text, struct cri_running_config *config)
{
	bool fits = strnlen(text, CONFIG_MAX) < CONFIG_MAX;
	_cleanup_(cleanup_cJSON_Delete) cJSON *json = fits ? cJSON_Parse(text) : NULL;
	const cJSON *downloads = json_at(json, "maxConcurrentDownloads");

	if (!cJSON_IsObject(json))
		return;
	if (cJSON_IsNumber(downloads) && downloads->valuedouble >= 0)
		config->max_concurrent_downloads = downloads->valueint;
	config->image_pull_progress_timeout = copy_of(arena, json, "imagePullProgressTimeout");
	config->registry_config_path = copy_of(arena, json, "registry/configPath");
	config->snapshotter = copy_of(arena, json, "containerd/snapshotter");
}

int cri_get_config(struct cri *cri, const struct wait *wait, struct arena *arena,
	struct cri_running_config *config)
{
	Cri__StatusRequest request = CRI__STATUS_REQUEST__INIT;
	const Cri__StatusResponse *m;
	int r;

	request.verbose = true;
	r = cri_call(cri, wait, arena, CRI_STATUS, &request.base, &m);
	if (r != 0)
		return r;
	*config = (struct cri_running_config){.max_concurrent_downloads = -1};
	for (size_t i = 0; i < m->n_info; i++)
		if (streq(m->info[i]->key, "config"))
			read_config(arena, m->info[i]->value, config);
	return 0;
}

enum cri_answers cri_probe(const char *path, const struct wait *wait)
{
	_cleanup_(cleanup_grpc_close) struct grpc *grpc = NULL;
	_cleanup_arena_ struct arena arena;
	const Cri__VersionResponse *version;
	struct cri cri = {0};
	int r;

	arena_init(&arena);
	if (grpc_open(path, &grpc) < 0)
		return CRI_NO_ANSWER;
	cri.grpc = grpc;
	r = cri_call(&cri, wait, &arena, CRI_VERSION, NULL, &version);
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
