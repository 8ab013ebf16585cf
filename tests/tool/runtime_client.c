/* SPDX-License-Identifier: Apache-2.0 */

/* runtime_client SOCKET COMMAND [ARGUMENT]: one call, its answer as JSON on stdout, for tests. */

#include "base/util.h"
#include "runtime/containerd_client.h"
#include "runtime/cri_client.h"

#include <cjson/cJSON.h>

#define TIMEOUT_US (10 * USEC_PER_SEC)

struct session {
	struct cri cri;
	struct wait wait;
	struct arena arena;
	cJSON *json;          /* of the answer */
	const char *argument; /* of the command */
};

static void add_text(cJSON *to, const char *name, const char *text)
{
	if (text)
		cJSON_AddStringToObject(to, name, text);
}

static cJSON *add_entry(cJSON *list)
{
	cJSON *entry = cJSON_CreateObject();

	cJSON_AddItemToArray(list, entry);
	return entry;
}

static int ask(struct session *s, enum cri_call which, void *ret)
{
	return cri_call(&s->cri, &s->wait, &s->arena, which, NULL, ret);
}

static int version(struct session *s)
{
	const Cri__VersionResponse *m;
	int r = ask(s, CRI_VERSION, &m);

	if (r != 0)
		return r;
	add_text(s->json, "runtime", m->runtime_name);
	add_text(s->json, "version", m->runtime_version);
	add_text(s->json, "api_version", m->runtime_api_version);
	cJSON_AddNumberToObject(s->json, "peer", grpc_peer(s->cri.grpc));
	return 0;
}

static int config(struct session *s)
{
	struct cri_running_config v;
	int r = cri_get_config(&s->cri, &s->wait, &s->arena, &v);

	if (r != 0)
		return r;
	cJSON_AddNumberToObject(
		s->json, "max_concurrent_downloads", (double)v.max_concurrent_downloads);
	add_text(s->json, "registry_config_path", v.registry_config_path);
	return 0;
}

static int filesystems(struct session *s)
{
	const Cri__ImageFsInfoResponse *m;
	int r = ask(s, CRI_FILESYSTEMS, &m);
	cJSON *list = cJSON_AddArrayToObject(s->json, "filesystems");

	for (size_t i = 0; r == 0 && i < m->n_image_filesystems; i++) {
		cJSON *entry = add_entry(list);

		add_text(entry, "mountpoint", m->image_filesystems[i]->fs_id->mountpoint);
		cJSON_AddNumberToObject(
			entry, "used_bytes", (double)m->image_filesystems[i]->used_bytes->value);
	}
	return r;
}

static void fill_sandbox(
	cJSON *json, const char *id, const Cri__PodSandboxMetadata *pod, int32_t state)
{
	add_text(json, "id", id);
	add_text(json, "name", pod->name);
	add_text(json, "namespace", pod->namespace_);
	add_text(json, "uid", pod->uid);
	cJSON_AddBoolToObject(json, "ready", state == CRI_SANDBOX_READY);
}

static int sandboxes(struct session *s)
{
	const Cri__ListPodSandboxResponse *m;
	int r = ask(s, CRI_SANDBOXES, &m);
	cJSON *list = cJSON_AddArrayToObject(s->json, "sandboxes");

	for (size_t i = 0; r == 0 && i < m->n_items; i++)
		fill_sandbox(add_entry(list), m->items[i]->id, m->items[i]->metadata,
			m->items[i]->state);
	return r;
}

static int sandbox(struct session *s)
{
	Cri__PodSandboxStatusRequest request = CRI__POD_SANDBOX_STATUS_REQUEST__INIT;
	const Cri__PodSandboxStatusResponse *m;
	bool host;
	cJSON *ips;
	int r;

	request.pod_sandbox_id = (char *)s->argument;
	r = cri_call(&s->cri, &s->wait, &s->arena, CRI_SANDBOX_STATUS, &request.base, &m);
	if (r != 0)
		return r;
	fill_sandbox(cJSON_AddObjectToObject(s->json, "sandbox"), m->status->id,
		m->status->metadata, m->status->state);
	host = m->status->linux_status->namespaces->options->network == CRI_NAMESPACE_NODE;
	cJSON_AddBoolToObject(s->json, "host_network", host);
	ips = cJSON_AddArrayToObject(s->json, "ips");
	if (m->status->network && m->status->network->ip[0])
		cJSON_AddItemToArray(ips, cJSON_CreateString(m->status->network->ip));
	return 0;
}

static int containers(struct session *s)
{
	const Cri__ListContainersResponse *m;
	int r = ask(s, CRI_CONTAINERS, &m);
	cJSON *list = cJSON_AddArrayToObject(s->json, "containers");

	for (size_t i = 0; r == 0 && i < m->n_containers; i++) {
		cJSON *entry = add_entry(list);

		add_text(entry, "id", m->containers[i]->id);
		add_text(entry, "sandbox_id", m->containers[i]->pod_sandbox_id);
		add_text(entry, "name", m->containers[i]->metadata->name);
		cJSON_AddBoolToObject(
			entry, "running", m->containers[i]->state == CRI_CONTAINER_RUNNING);
	}
	return r;
}

static int ctd_version(struct session *s)
{
	const Containerd__VersionResponse *m;
	int r = containerd_call(
		s->cri.grpc, &s->wait, &s->arena, CONTAINERD_VERSION, NULL, NULL, &m);

	if (r != 0)
		return r;
	add_text(s->json, "version", m->version);
	return 0;
}

static int ctd_ingests(struct session *s)
{
	const Containerd__ListStatusesResponse *m;
	int r = containerd_call(
		s->cri.grpc, &s->wait, &s->arena, CONTAINERD_INGESTS, s->argument, NULL, &m);
	cJSON *list = cJSON_AddArrayToObject(s->json, "ingests");

	for (size_t i = 0; r == 0 && i < m->n_statuses; i++) {
		const Containerd__IngestStatus *ingest = m->statuses[i];
		cJSON *entry = add_entry(list);

		add_text(entry, "ref", ingest->ref);
		cJSON_AddNumberToObject(entry, "offset", (double)ingest->offset);
		cJSON_AddNumberToObject(
			entry, "started_us", (double)containerd_time_us(ingest->started_at));
		cJSON_AddNumberToObject(
			entry, "updated_us", (double)containerd_time_us(ingest->updated_at));
	}
	return r;
}

static const struct command {
	const char *name;
	int (*call)(struct session *session);
	bool has_argument;
} commands[] = {
	{"version", version, false},
	{"status", config, false},
	{"filesystems", filesystems, false},
	{"sandboxes", sandboxes, false},
	{"sandbox", sandbox, true},
	{"containers", containers, false},
	{"ctd-version", ctd_version, false},
	{"ctd-ingests", ctd_ingests, true},
};

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (streq(commands[i].name, name))
			return &commands[i];
	return NULL;
}

static int call(struct session *session, const struct command *command)
{
	int r;

	session->wait = (struct wait){now_us() + TIMEOUT_US, -1};
	r = command->call(session);
	arena_free(&session->arena);
	return r;
}

int main(int argc, char **argv)
{
	const struct command *command = argc > 2 ? find_command(argv[2]) : NULL;
	struct session session = {.argument = argc > 3 ? argv[3] : NULL};
	_cleanup_free_ char *text = NULL;
	int r;

	if (!command || (command->has_argument && argc != 4) ||
		grpc_open(argv[1], &session.cri.grpc) < 0)
		return 64;
	arena_init(&session.arena);
	session.json = cJSON_CreateObject();
	r = call(&session, command);
	add_text(session.json, "status", grpc_status_name(grpc_status_of(r)));
	add_text(session.json, "message", grpc_error(session.cri.grpc));
	cJSON_AddBoolToObject(session.json, "local", r < 0);
	text = cJSON_Print(session.json);
	printf("%s\n", text);
	cJSON_Delete(session.json);
	grpc_close(session.cri.grpc);
	return 0;
}
