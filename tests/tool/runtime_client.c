/* SPDX-License-Identifier: Apache-2.0 */

/*
 * runtime_client SOCKET COMMAND [ARGUMENT...]: one call, its answer as JSON on stdout, for tests.
 * runtime_client SOCKET time COMMAND COUNT: microseconds of COUNT calls of version, images,
 * sandboxes or containers on one connection, the longest turn of the loop, and what memory grew by.
 */

#include "base/cleanup.h"
#include "base/util.h"
#include "runtime/containerd.h"
#include "runtime/cri.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <malloc.h>
#include <time.h>

#define TIMEOUT_US (10 * USEC_PER_SEC)

struct session {
	sd_event *event;
	struct cri_client *cri;
	struct containerd_client *containerd;
	cJSON *json; /* of the answer */
	enum grpc_status status;
	bool done, quiet;
	size_t n; /* of the list */
};

static void add_texts(cJSON *to, const char *name, const char *const *texts, size_t n)
{
	cJSON *array = cJSON_AddArrayToObject(to, name);

	for (size_t i = 0; i < n; i++)
		cJSON_AddItemToArray(array, cJSON_CreateString(texts[i]));
}

static void add_text(cJSON *to, const char *name, const char *text)
{
	if (text)
		cJSON_AddStringToObject(to, name, text);
}

static void begin_answer(struct session *session, const struct grpc_result *result)
{
	session->done = true;
	session->status = result->status;
	if (session->quiet)
		return;
	session->json = cJSON_CreateObject();
	add_text(session->json, "status", grpc_status_name(result->status));
	add_text(session->json, "message", result->message);
	cJSON_AddBoolToObject(session->json, "local", result->local);
}

static void on_version(const struct cri_answer *answer, void *userdata)
{
	struct session *session = userdata;

	begin_answer(session, &answer->result);
	if (session->quiet || answer->result.status != GRPC_OK)
		return;
	add_text(session->json, "runtime", answer->version.runtime);
	add_text(session->json, "version", answer->version.version);
	add_text(session->json, "api_version", answer->version.api_version);
	cJSON_AddNumberToObject(session->json, "peer", cri_client_peer(session->cri));
}

static void on_status(const struct cri_answer *answer, void *userdata)
{
	struct session *session = userdata;
	const struct cri_running_config *config = &answer->status.config;

	begin_answer(session, &answer->result);
	if (answer->result.status != GRPC_OK)
		return;
	cJSON_AddBoolToObject(session->json, "runtime_ready", answer->status.runtime_ready);
	cJSON_AddBoolToObject(session->json, "network_ready", answer->status.network_ready);
	add_text(session->json, "network_message", answer->status.network_message);
	cJSON_AddBoolToObject(session->json, "config_told", answer->status.config_told);
	cJSON_AddNumberToObject(session->json, "max_concurrent_downloads",
		(double)config->max_concurrent_downloads);
	add_text(session->json, "image_pull_progress_timeout", config->image_pull_progress_timeout);
	add_text(session->json, "registry_config_path", config->registry_config_path);
	add_text(session->json, "sandbox_image", config->sandbox_image);
	add_text(session->json, "snapshotter", config->snapshotter);
	add_text(session->json, "root", config->root);
}

static cJSON *image_json(const struct cri_image *image)
{
	cJSON *json = cJSON_CreateObject();

	add_text(json, "id", image->id);
	add_texts(json, "tags", image->tags, image->n_tags);
	add_texts(json, "digests", image->digests, image->n_digests);
	cJSON_AddNumberToObject(json, "size", (double)image->size);
	cJSON_AddBoolToObject(json, "pinned", image->pinned);
	return json;
}

static void on_images(const struct cri_answer *answer, void *userdata)
{
	struct session *session = userdata;
	cJSON *list;

	begin_answer(session, &answer->result);
	session->n = answer->result.status == GRPC_OK ? answer->images.n : 0;
	if (session->quiet)
		return;
	list = cJSON_AddArrayToObject(session->json, "images");
	for (size_t i = 0; i < session->n; i++)
		cJSON_AddItemToArray(list, image_json(&answer->images.list[i]));
}

static void on_image(const struct cri_answer *answer, void *userdata)
{
	struct session *session = userdata;

	begin_answer(session, &answer->result);
	if (answer->result.status == GRPC_OK && answer->image)
		cJSON_AddItemToObject(session->json, "image", image_json(answer->image));
}

static void on_pull(const struct cri_answer *answer, void *userdata)
{
	struct session *session = userdata;

	begin_answer(session, &answer->result);
	if (answer->result.status == GRPC_OK)
		add_text(session->json, "image_ref", answer->image_ref);
}

static void on_nothing(const struct cri_answer *answer, void *userdata)
{
	begin_answer(userdata, &answer->result);
}

static void on_filesystems(const struct cri_answer *answer, void *userdata)
{
	struct session *session = userdata;
	cJSON *list;

	begin_answer(session, &answer->result);
	list = cJSON_AddArrayToObject(session->json, "filesystems");
	for (size_t i = 0; answer->result.status == GRPC_OK && i < answer->filesystems.n; i++) {
		cJSON *one = cJSON_CreateObject();

		add_text(one, "mountpoint", answer->filesystems.list[i].mountpoint);
		cJSON_AddNumberToObject(
			one, "used_bytes", (double)answer->filesystems.list[i].used_bytes);
		cJSON_AddItemToArray(list, one);
	}
}

static cJSON *sandbox_json(const struct cri_sandbox *sandbox)
{
	cJSON *json = cJSON_CreateObject();

	add_text(json, "id", sandbox->id);
	add_text(json, "name", sandbox->name);
	add_text(json, "namespace", sandbox->namespace);
	add_text(json, "uid", sandbox->uid);
	cJSON_AddBoolToObject(json, "ready", sandbox->ready);
	return json;
}

static void on_sandboxes(const struct cri_answer *answer, void *userdata)
{
	struct session *session = userdata;
	cJSON *list;

	begin_answer(session, &answer->result);
	session->n = answer->result.status == GRPC_OK ? answer->sandboxes.n : 0;
	if (session->quiet)
		return;
	list = cJSON_AddArrayToObject(session->json, "sandboxes");
	for (size_t i = 0; i < session->n; i++)
		cJSON_AddItemToArray(list, sandbox_json(&answer->sandboxes.list[i]));
}

static void on_sandbox(const struct cri_answer *answer, void *userdata)
{
	struct session *session = userdata;

	begin_answer(session, &answer->result);
	if (answer->result.status != GRPC_OK)
		return;
	cJSON_AddItemToObject(session->json, "sandbox", sandbox_json(&answer->sandbox.sandbox));
	cJSON_AddBoolToObject(session->json, "host_network", answer->sandbox.host_network);
	add_texts(session->json, "ips", answer->sandbox.ips, answer->sandbox.n_ips);
}

static void on_containers(const struct cri_answer *answer, void *userdata)
{
	struct session *session = userdata;
	cJSON *list;

	begin_answer(session, &answer->result);
	session->n = answer->result.status == GRPC_OK ? answer->containers.n : 0;
	if (session->quiet)
		return;
	list = cJSON_AddArrayToObject(session->json, "containers");
	for (size_t i = 0; i < session->n; i++) {
		const struct cri_container *container = &answer->containers.list[i];
		cJSON *one = cJSON_CreateObject();

		add_text(one, "id", container->id);
		add_text(one, "sandbox_id", container->sandbox_id);
		add_text(one, "name", container->name);
		add_text(one, "image", container->image);
		cJSON_AddBoolToObject(one, "running", container->running);
		cJSON_AddItemToArray(list, one);
	}
}

static void on_ctd_version(const struct containerd_answer *answer, void *userdata)
{
	struct session *session = userdata;

	begin_answer(session, &answer->result);
	if (answer->result.status != GRPC_OK)
		return;
	add_text(session->json, "version", answer->version.version);
	add_text(session->json, "revision", answer->version.revision);
}

static void on_ctd_namespaces(const struct containerd_answer *answer, void *userdata)
{
	struct session *session = userdata;

	begin_answer(session, &answer->result);
	if (answer->result.status == GRPC_OK)
		add_texts(
			session->json, "namespaces", answer->namespaces.list, answer->namespaces.n);
}

static cJSON *ctd_image_json(const struct containerd_image *image)
{
	cJSON *json = cJSON_CreateObject(), *labels;

	add_text(json, "name", image->name);
	add_text(json, "digest", image->target.digest);
	add_text(json, "media_type", image->target.media_type);
	cJSON_AddNumberToObject(json, "size", (double)image->target.size);
	labels = cJSON_AddObjectToObject(json, "labels");
	for (size_t i = 0; i < image->n_labels; i++)
		add_text(labels, image->labels[i].key, image->labels[i].value);
	return json;
}

static void on_ctd_images(const struct containerd_answer *answer, void *userdata)
{
	struct session *session = userdata;
	cJSON *list;

	begin_answer(session, &answer->result);
	list = cJSON_AddArrayToObject(session->json, "images");
	for (size_t i = 0; answer->result.status == GRPC_OK && i < answer->images.n; i++)
		cJSON_AddItemToArray(list, ctd_image_json(&answer->images.list[i]));
}

static void on_ctd_image(const struct containerd_answer *answer, void *userdata)
{
	struct session *session = userdata;

	begin_answer(session, &answer->result);
	if (answer->result.status == GRPC_OK)
		cJSON_AddItemToObject(session->json, "image", ctd_image_json(answer->image));
}

static void on_ctd_nothing(const struct containerd_answer *answer, void *userdata)
{
	begin_answer(userdata, &answer->result);
}

static void on_ctd_ingests(const struct containerd_answer *answer, void *userdata)
{
	struct session *session = userdata;
	cJSON *list;

	begin_answer(session, &answer->result);
	list = cJSON_AddArrayToObject(session->json, "ingests");
	for (size_t i = 0; answer->result.status == GRPC_OK && i < answer->ingests.n; i++) {
		const struct containerd_ingest *ingest = &answer->ingests.list[i];
		cJSON *one = cJSON_CreateObject();

		add_text(one, "ref", ingest->ref);
		cJSON_AddNumberToObject(one, "offset", (double)ingest->offset);
		cJSON_AddNumberToObject(one, "total", (double)ingest->total);
		cJSON_AddNumberToObject(one, "started_us", (double)ingest->started_us);
		cJSON_AddNumberToObject(one, "updated_us", (double)ingest->updated_us);
		cJSON_AddItemToArray(list, one);
	}
}

static int start_cri(struct session *s, const char *command, char **arg)
{
	if (streq(command, "version"))
		return cri_version(s->cri, on_version, s);
	if (streq(command, "status"))
		return cri_status(s->cri, on_status, s);
	if (streq(command, "images"))
		return cri_list_images(s->cri, on_images, s);
	if (streq(command, "image"))
		return cri_image_status(s->cri, arg[0], on_image, s);
	if (streq(command, "remove"))
		return cri_remove_image(s->cri, arg[0], on_nothing, s);
	if (streq(command, "pull"))
		return cri_pull_image(s->cri, arg[0], 60 * USEC_PER_SEC, on_pull, s);
	if (streq(command, "filesystems"))
		return cri_image_fs_info(s->cri, on_filesystems, s);
	if (streq(command, "sandboxes"))
		return cri_list_sandboxes(s->cri, on_sandboxes, s);
	if (streq(command, "sandbox"))
		return cri_sandbox_status(s->cri, arg[0], on_sandbox, s);
	if (streq(command, "containers"))
		return cri_list_containers(s->cri, on_containers, s);
	return -EINVAL;
}

/* Arguments: the namespace, and what the call wants. */
static int start_containerd(struct session *s, const char *command, char **arg)
{
	struct containerd_image image = {.name = arg[1]};

	if (streq(command, "ctd-version"))
		return containerd_version(s->containerd, on_ctd_version, s);
	if (streq(command, "ctd-namespaces"))
		return containerd_namespaces(s->containerd, on_ctd_namespaces, s);
	if (streq(command, "ctd-ingests"))
		return containerd_ingests(s->containerd, arg[0], on_ctd_ingests, s);
	if (streq(command, "ctd-images"))
		return containerd_images(s->containerd, arg[0], on_ctd_images, s);
	if (streq(command, "ctd-get"))
		return containerd_image_get(s->containerd, arg[0], arg[1], on_ctd_image, s);
	if (streq(command, "ctd-delete"))
		return containerd_image_delete(s->containerd, arg[0], arg[1], on_ctd_nothing, s);
	if (streq(command, "ctd-label"))
		return containerd_image_label(
			s->containerd, arg[0], arg[1], arg[2], arg[3], on_ctd_image, s);
	if (streq(command, "ctd-create")) {
		image.target = (struct containerd_target){arg[2], arg[3], atoll(arg[4])};
		return containerd_image_create(s->containerd, arg[0], &image, on_ctd_image, s);
	}
	return -EINVAL;
}

/* Of this thread: what others do on the same processor does not count. */
static uint64_t cpu_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * USEC_PER_SEC + (uint64_t)now.tv_nsec / 1000;
}

/* The longest turn of the loop, in microseconds of CPU time. */
static uint64_t run(struct session *session)
{
	uint64_t longest = 0;

	while (!session->done) {
		uint64_t start;

		if (sd_event_prepare(session->event) == 0)
			sd_event_wait(session->event, UINT64_MAX);
		start = cpu_us();
		sd_event_dispatch(session->event);
		longest = MAX(longest, cpu_us() - start);
	}
	session->done = false;
	return longest;
}

static int compare(const void *a, const void *b)
{
	return *(const uint64_t *)a < *(const uint64_t *)b ? -1 : 1;
}

static uint64_t resident_kib(void)
{
	_cleanup_fclose_ FILE *file = fopen("/proc/self/statm", "re");
	unsigned long size, resident;

	if (!file || fscanf(file, "%lu %lu", &size, &resident) != 2)
		return 0;
	return resident * (unsigned long)sysconf(_SC_PAGESIZE) / 1024;
}

/* Medians, and what remains in memory. One line of JSON. */
static int time_calls(struct session *session, const char *command, size_t count)
{
	uint64_t *us = calloc(count, sizeof(*us)), longest = 0, before = 0;

	session->quiet = true;
	for (size_t i = 0; i < count; i++) {
		uint64_t start = now_us();
		uint64_t turn;

		if (start_cri(session, command, NULL) < 0)
			return 1;
		turn = run(session);
		us[i] = now_us() - start;
		longest = MAX(longest, turn);
		malloc_trim(0);
		if (i == 0)
			before = resident_kib();
	}
	qsort(us, count, sizeof(*us), compare);
	printf("{\"status\": \"%s\", \"n\": %zu, \"median_us\": %lu, \"p99_us\": %lu, "
	       "\"longest_turn_us\": %lu, \"resident_kib\": %lu, \"grown_kib\": %ld}\n",
		grpc_status_name(session->status), session->n, us[count / 2], us[count * 99 / 100],
		longest, resident_kib(), (long)resident_kib() - (long)before);
	free(us);
	return 0;
}

int main(int argc, char **argv)
{
	struct session session = {0};
	_cleanup_free_ char *text = NULL;

	if (argc < 3 || sd_event_new(&session.event) < 0 ||
		cri_client_open(session.event, argv[1], TIMEOUT_US, &session.cri) < 0 ||
		containerd_client_open(session.event, argv[1], TIMEOUT_US, &session.containerd) < 0)
		return 64;
	if (streq(argv[2], "time") && argc == 5)
		return time_calls(&session, argv[3], (size_t)atoi(argv[4]));
	if (start_cri(&session, argv[2], argv + 3) < 0 &&
		start_containerd(&session, argv[2], argv + 3) < 0)
		return 64;
	run(&session);
	text = cJSON_Print(session.json);
	printf("%s\n", text);
	cJSON_Delete(session.json);
	cri_client_close(session.cri);
	containerd_client_close(session.containerd);
	sd_event_unref(session.event);
	return 0;
}
