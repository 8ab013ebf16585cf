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

static int version(struct session *s)
{
	struct cri_version v;
	int r = cri_get_version(&s->cri, &s->wait, &s->arena, &v);

	if (r != 0)
		return r;
	add_text(s->json, "runtime", v.runtime);
	add_text(s->json, "version", v.version);
	add_text(s->json, "api_version", v.api_version);
	cJSON_AddNumberToObject(s->json, "peer", grpc_peer(s->cri.grpc));
	return 0;
}

static int status(struct session *s)
{
	struct cri_status v;
	int r = cri_get_status(&s->cri, &s->wait, &s->arena, &v);

	if (r != 0)
		return r;
	cJSON_AddBoolToObject(s->json, "has_config", v.has_config);
	cJSON_AddNumberToObject(
		s->json, "max_concurrent_downloads", (double)v.config.max_concurrent_downloads);
	add_text(s->json, "image_pull_progress_timeout", v.config.image_pull_progress_timeout);
	add_text(s->json, "registry_config_path", v.config.registry_config_path);
	add_text(s->json, "snapshotter", v.config.snapshotter);
	return 0;
}

static int filesystems(struct session *s)
{
	struct cri_filesystems v = {0};
	int r = cri_get_filesystems(&s->cri, &s->wait, &s->arena, &v);
	cJSON *list = cJSON_AddArrayToObject(s->json, "filesystems");

	for (size_t i = 0; i < v.n; i++) {
		cJSON *entry = add_entry(list);

		add_text(entry, "mountpoint", v.list[i].mountpoint);
		cJSON_AddNumberToObject(entry, "used_bytes", (double)v.list[i].used_bytes);
	}
	return r;
}

static void fill_sandbox(cJSON *json, const struct cri_sandbox *sandbox)
{
	add_text(json, "id", sandbox->id);
	add_text(json, "name", sandbox->name);
	add_text(json, "namespace", sandbox->namespace);
	add_text(json, "uid", sandbox->uid);
	cJSON_AddBoolToObject(json, "ready", sandbox->ready);
}

static int sandboxes(struct session *s)
{
	struct cri_sandboxes v = {0};
	int r = cri_get_sandboxes(&s->cri, &s->wait, &s->arena, &v);
	cJSON *list = cJSON_AddArrayToObject(s->json, "sandboxes");

	for (size_t i = 0; list && i < v.n; i++)
		fill_sandbox(add_entry(list), &v.list[i]);
	return r;
}

static int sandbox(struct session *s)
{
	struct cri_sandbox_status v;
	int r = cri_get_sandbox(&s->cri, &s->wait, &s->arena, s->argument, &v);
	cJSON *ips;

	if (r != 0)
		return r;
	fill_sandbox(cJSON_AddObjectToObject(s->json, "sandbox"), &v.sandbox);
	cJSON_AddBoolToObject(s->json, "host_network", v.host_network);
	ips = cJSON_AddArrayToObject(s->json, "ips");
	for (size_t i = 0; i < v.n_ips; i++)
		cJSON_AddItemToArray(ips, cJSON_CreateString(v.ips[i]));
	return 0;
}

static int containers(struct session *s)
{
	struct cri_containers v = {0};
	int r = cri_get_containers(&s->cri, &s->wait, &s->arena, &v);
	cJSON *list = cJSON_AddArrayToObject(s->json, "containers");

	for (size_t i = 0; list && i < v.n; i++) {
		cJSON *entry = add_entry(list);

		add_text(entry, "id", v.list[i].id);
		add_text(entry, "sandbox_id", v.list[i].sandbox_id);
		add_text(entry, "name", v.list[i].name);
		cJSON_AddBoolToObject(entry, "running", v.list[i].running);
	}
	return r;
}

static int ctd_version(struct session *s)
{
	struct containerd_version v;
	int r = containerd_get_version(s->cri.grpc, &s->wait, &s->arena, &v);

	if (r != 0)
		return r;
	add_text(s->json, "version", v.version);
	add_text(s->json, "revision", v.revision);
	return 0;
}

static int ctd_namespaces(struct session *s)
{
	struct containerd_namespaces v = {0};
	int r = containerd_get_namespaces(s->cri.grpc, &s->wait, &s->arena, &v);
	cJSON *list = cJSON_AddArrayToObject(s->json, "namespaces");

	for (size_t i = 0; i < v.n; i++)
		cJSON_AddItemToArray(list, cJSON_CreateString(v.list[i]));
	return r;
}

static int ctd_ingests(struct session *s)
{
	struct containerd_ingests v = {0};
	int r = containerd_get_ingests(s->cri.grpc, &s->wait, &s->arena, s->argument, &v);
	cJSON *list = cJSON_AddArrayToObject(s->json, "ingests");

	for (size_t i = 0; i < v.n; i++) {
		cJSON *entry = add_entry(list);

		add_text(entry, "ref", v.list[i].ref);
		cJSON_AddNumberToObject(entry, "offset", (double)v.list[i].offset);
		cJSON_AddNumberToObject(entry, "total", (double)v.list[i].total);
		cJSON_AddNumberToObject(entry, "started_us", (double)v.list[i].started_us);
		cJSON_AddNumberToObject(entry, "updated_us", (double)v.list[i].updated_us);
	}
	return r;
}

static const struct command {
	const char *name;
	int (*call)(struct session *session);
	bool has_argument;
} commands[] = {
	{"version", version, false},
	{"status", status, false},
	{"filesystems", filesystems, false},
	{"sandboxes", sandboxes, false},
	{"sandbox", sandbox, true},
	{"containers", containers, false},
	{"ctd-version", ctd_version, false},
	{"ctd-namespaces", ctd_namespaces, false},
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
