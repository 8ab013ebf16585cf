/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cri_internal.h"

#include "base/util.h"

#include <cjson/cJSON.h>
#include <runtime/cri.pb-c.h>

/* A containerd's info.config has 4 to 20 KB; parsing this much stays under 10 ms. */
#define CONFIG_MAX ((size_t)128 * 1024)

/* Numbers of the API's enumerations. */
enum { SANDBOX_READY = 0, CONTAINER_RUNNING = 1, NAMESPACE_NODE = 2 };

DEFINE_CLEANUP(cJSON, cJSON_Delete)

/* CRI counts nanoseconds since 1970 in signed numbers. */
static uint64_t time_ns(int64_t stamp)
{
	return stamp > 0 ? (uint64_t)stamp : 0;
}

bool cri_read_nothing(
	struct arena *arena, const uint8_t *data, size_t size, struct cri_answer *answer)
{
	(void)arena, (void)data, (void)size, (void)answer;
	return true;
}

bool cri_read_version(
	struct arena *arena, const uint8_t *data, size_t size, struct cri_answer *answer)
{
	const Cri__VersionResponse *m =
		wire_decode(arena, &cri__version_response__descriptor, data, size);

	if (!m)
		return false;
	answer->version.runtime = m->runtime_name;
	answer->version.version = m->runtime_version;
	answer->version.api_version = m->runtime_api_version;
	return true;
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
	config->sandbox_image = json_text(arena, json, "sandboxImage");
	config->snapshotter = json_text(
		arena, cJSON_GetObjectItemCaseSensitive(json, "containerd"), "snapshotter");
	config->root = json_text(arena, json, "containerdRootDir");
	return true;
}

static void read_condition(const Cri__RuntimeCondition *condition, struct cri_status *status)
{
	if (streq(condition->type, "RuntimeReady")) {
		status->runtime_ready = condition->status;
		status->runtime_message = condition->message;
	} else if (streq(condition->type, "NetworkReady")) {
		status->network_ready = condition->status;
		status->network_message = condition->message;
	}
}

bool cri_read_status(
	struct arena *arena, const uint8_t *data, size_t size, struct cri_answer *answer)
{
	const Cri__StatusResponse *m =
		wire_decode(arena, &cri__status_response__descriptor, data, size);
	struct cri_status *status = &answer->status;

	if (!m)
		return false;
	*status = (struct cri_status){
		.runtime_message = "",
		.network_message = "",
		.config.max_concurrent_downloads = -1,
	};
	for (size_t i = 0; m->status && i < m->status->n_conditions; i++)
		read_condition(m->status->conditions[i], status);
	for (size_t i = 0; i < m->n_info; i++)
		if (streq(m->info[i]->key, "config"))
			status->config_told =
				read_config(arena, m->info[i]->value, &status->config);
	return true;
}

static void read_image(const Cri__Image *m, struct cri_image *image)
{
	image->id = m->id;
	image->tags = (const char *const *)m->repo_tags;
	image->n_tags = m->n_repo_tags;
	image->digests = (const char *const *)m->repo_digests;
	image->n_digests = m->n_repo_digests;
	image->size = m->size;
	image->pinned = m->pinned;
}

bool cri_read_images(
	struct arena *arena, const uint8_t *data, size_t size, struct cri_answer *answer)
{
	const Cri__ListImagesResponse *m =
		wire_decode(arena, &cri__list_images_response__descriptor, data, size);
	struct cri_image *list = m ? arena_array(arena, m->n_images, sizeof(*list)) : NULL;

	if (!list)
		return false;
	for (size_t i = 0; i < m->n_images; i++)
		read_image(m->images[i], &list[i]);
	answer->images.list = list;
	answer->images.n = m->n_images;
	return true;
}

bool cri_read_image(
	struct arena *arena, const uint8_t *data, size_t size, struct cri_answer *answer)
{
	const Cri__ImageStatusResponse *m =
		wire_decode(arena, &cri__image_status_response__descriptor, data, size);
	struct cri_image *image = m ? arena_array(arena, 1, sizeof(*image)) : NULL;

	if (!image)
		return false;
	if (m->image)
		read_image(m->image, image);
	answer->image = m->image ? image : NULL;
	return true;
}

bool cri_read_pull(struct arena *arena, const uint8_t *data, size_t size, struct cri_answer *answer)
{
	const Cri__PullImageResponse *m =
		wire_decode(arena, &cri__pull_image_response__descriptor, data, size);

	if (!m)
		return false;
	answer->image_ref = m->image_ref;
	return true;
}

bool cri_read_filesystems(
	struct arena *arena, const uint8_t *data, size_t size, struct cri_answer *answer)
{
	const Cri__ImageFsInfoResponse *m =
		wire_decode(arena, &cri__image_fs_info_response__descriptor, data, size);
	struct cri_filesystem *list =
		m ? arena_array(arena, m->n_image_filesystems, sizeof(*list)) : NULL;

	if (!list)
		return false;
	for (size_t i = 0; i < m->n_image_filesystems; i++) {
		const Cri__FilesystemUsage *usage = m->image_filesystems[i];

		list[i].mountpoint = usage->fs_id ? usage->fs_id->mountpoint : "";
		list[i].used_bytes = usage->used_bytes ? usage->used_bytes->value : 0;
		list[i].used_inodes = usage->inodes_used ? usage->inodes_used->value : 0;
		list[i].measured_ns = time_ns(usage->timestamp);
	}
	answer->filesystems.list = list;
	answer->filesystems.n = m->n_image_filesystems;
	return true;
}

static void read_sandbox(const char *id, const Cri__PodSandboxMetadata *metadata, int32_t state,
	int64_t created_at, struct cri_sandbox *sandbox)
{
	sandbox->id = id;
	sandbox->name = metadata ? metadata->name : "";
	sandbox->namespace = metadata ? metadata->namespace_ : "";
	sandbox->uid = metadata ? metadata->uid : "";
	sandbox->ready = state == SANDBOX_READY;
	sandbox->created_ns = time_ns(created_at);
}

bool cri_read_sandboxes(
	struct arena *arena, const uint8_t *data, size_t size, struct cri_answer *answer)
{
	const Cri__ListPodSandboxResponse *m =
		wire_decode(arena, &cri__list_pod_sandbox_response__descriptor, data, size);
	struct cri_sandbox *list = m ? arena_array(arena, m->n_items, sizeof(*list)) : NULL;

	if (!list)
		return false;
	for (size_t i = 0; i < m->n_items; i++) {
		const Cri__PodSandbox *item = m->items[i];

		read_sandbox(item->id, item->metadata, item->state, item->created_at, &list[i]);
	}
	answer->sandboxes.list = list;
	answer->sandboxes.n = m->n_items;
	return true;
}

bool cri_read_containers(
	struct arena *arena, const uint8_t *data, size_t size, struct cri_answer *answer)
{
	const Cri__ListContainersResponse *m =
		wire_decode(arena, &cri__list_containers_response__descriptor, data, size);
	struct cri_container *list = m ? arena_array(arena, m->n_containers, sizeof(*list)) : NULL;

	if (!list)
		return false;
	for (size_t i = 0; i < m->n_containers; i++) {
		const Cri__Container *c = m->containers[i];

		list[i].id = c->id;
		list[i].sandbox_id = c->pod_sandbox_id;
		list[i].name = c->metadata ? c->metadata->name : "";
		list[i].image = c->image ? c->image->image : "";
		list[i].image_ref = c->image_ref;
		list[i].running = c->state == CONTAINER_RUNNING;
		list[i].created_ns = time_ns(c->created_at);
	}
	answer->containers.list = list;
	answer->containers.n = m->n_containers;
	return true;
}

static bool read_addresses(struct arena *arena, const Cri__PodSandboxNetworkStatus *network,
	struct cri_sandbox_status *status)
{
	size_t room = network ? 1 + network->n_additional_ips : 0;
	const char **ips = arena_array(arena, room, sizeof(*ips));

	if (!ips)
		return false;
	status->ips = ips;
	if (network && network->ip[0])
		ips[status->n_ips++] = network->ip;
	for (size_t i = 0; network && i < network->n_additional_ips; i++)
		ips[status->n_ips++] = network->additional_ips[i]->ip;
	return true;
}

static bool on_host_network(const Cri__LinuxPodSandboxStatus *status)
{
	return status && status->namespaces && status->namespaces->options &&
	       status->namespaces->options->network == NAMESPACE_NODE;
}

bool cri_read_sandbox(
	struct arena *arena, const uint8_t *data, size_t size, struct cri_answer *answer)
{
	const Cri__PodSandboxStatusResponse *m =
		wire_decode(arena, &cri__pod_sandbox_status_response__descriptor, data, size);
	const Cri__PodSandboxStatus *status = m ? m->status : NULL;

	if (!status)
		return false;
	answer->sandbox = (struct cri_sandbox_status){
		.host_network = on_host_network(status->linux_status),
	};
	read_sandbox(status->id, status->metadata, status->state, status->created_at,
		&answer->sandbox.sandbox);
	return read_addresses(arena, status->network, &answer->sandbox);
}
