/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/runtime/runtime.h"

#include "base/json.h"
#include "base/util.h"

#include <stdio.h>

static const char *answer_text(const struct node_runtime *runtime)
{
	static const char *const texts[] = {
		[RUNTIME_ASKED] = "asked",
		[RUNTIME_ANSWERS] = "answers",
		[RUNTIME_SILENT] = "silent",
	};

	if (!runtime->found.has_socket && runtime->answer == RUNTIME_ASKED)
		return "not-running";
	return texts[runtime->answer];
}

/* Stores that are slow, lossy or gone from newer versions, each with what to do. */
static const struct {
	const char *driver, *why;
} poor_drivers[] = {
	{"aufs", "aufs is no part of the kernel, and Docker 24 dropped it: use overlay2"},
	{"devicemapper", "devicemapper is slow on loop devices, and Docker 25 dropped it: use "
			 "overlay2"},
	{"vfs", "vfs copies every layer whole: use overlay2"},
	{"native", "the native snapshotter copies every layer whole: use overlayfs"},
};

static void warn(struct json *json, cJSON *array, const char *text)
{
	cJSON *item = cJSON_CreateString(text);

	if (!item || !cJSON_AddItemToArray(array, item)) {
		cJSON_Delete(item);
		json->failed = true;
	}
}

/* Disks of virtual machines say that they rotate when nobody has told them anything. */
static bool is_virtual(const char *device)
{
	return starts_with(device, "vd") || starts_with(device, "xvd");
}

static void add_store(struct json *json, cJSON *parent, const struct runtime_store *store)
{
	cJSON *object = json_object(json, parent, "store");
	cJSON *warnings;

	json_text(json, object, "directory", store->directory);
	json_text(json, object, "driver", store->driver);
	json_text(json, object, "filesystem", store->filesystem);
	json_text(json, object, "device", store->device);
	json_bool(json, object, "rotational", store->rotational);
	json_bool(json, object, "network", store->network);
	json_number(json, object, "size", (double)store->size);
	json_number(json, object, "used", (double)store->used);
	json_number(json, object, "images", (double)store->image_bytes);
	warnings = json_array(json, object, "warnings");
	for (size_t i = 0; i < ARRAY_SIZE(poor_drivers); i++)
		if (streq(store->driver, poor_drivers[i].driver))
			warn(json, warnings, poor_drivers[i].why);
	if (store->rotational && !is_virtual(store->device))
		warn(json, warnings, "images lie on a disk that rotates: unpacking waits for it");
	if (store->network)
		warn(json, warnings, "images lie on a network file system: use a local disk");
}

static void add_pull(struct json *json, cJSON *array, const struct pull_layer *layer,
	const struct runtime_sample *sample)
{
	cJSON *object = json_append(json, array);
	char registry[64];

	pulls_registry_of(layer->image, registry);
	json_text(json, object, "ref", layer->piece.ref);
	json_text(json, object, "image", layer->image);
	json_text(json, object, "registry", registry);
	json_number(json, object, "offset", (double)layer->piece.offset);
	json_number(json, object, "total", (double)layer->piece.total);
	json_number(json, object, "bytes_per_second", layer->rate);
	json_time(json, object, "since",
		sample->realtime_us - pulls_age(sample->now_us, layer->noted_us));
	json_number(json, object, "still_seconds",
		(double)pulls_age(sample->now_us, layer->moved_us) / (double)USEC_PER_SEC);
}

/* Settings that this runtime cannot be given, and why. */
static void add_refusals(struct json *json, cJSON *parent, const struct node_runtime *runtime)
{
	cJSON *array = json_array(json, parent, "refusals");

	for (int i = 0; i < CONTAINERD_SETTINGS && runtime->files_known; i++)
		if (runtime->containerd.keys[i].refusal != CONTAINERD_FINE)
			warn(json, array, runtime->containerd.keys[i].why);
}

static void add_runtime(struct json *json, cJSON *array, const struct node_runtime *runtime,
	const struct runtime_sample *sample)
{
	cJSON *object = json_append(json, array), *pulls;

	json_text(json, object, "name", runtime->found.name);
	json_text(json, object, "kind", runtime_kind_name(runtime->found.kind));
	json_text(json, object, "version", runtime->version);
	json_text(json, object, "socket", runtime->found.socket);
	json_text(json, object, "unit", runtime->found.unit);
	json_text(json, object, "config", runtime->config_path);
	json_text(json, object, "state", answer_text(runtime));
	json_text(json, object, "why", runtime->why[0] ? runtime->why : runtime_file_why(runtime));
	json_text(json, object, "max_concurrent_downloads", runtime->downloads);
	add_refusals(json, object, runtime);
	if (runtime->store.known)
		add_store(json, object, &runtime->store);
	else
		json_null(json, object, "store");
	pulls = json_array(json, object, "pulls");
	for (size_t i = 0; i < runtime->pulls.n; i++)
		add_pull(json, pulls, &runtime->pulls.layers[i], sample);
}

static void add_mirror(struct json *json, cJSON *array, const struct mirror *mirror)
{
	static const char *const states[] = {
		[MIRROR_UNKNOWN] = "unknown", [MIRROR_UP] = "up", [MIRROR_DOWN] = "down"};
	cJSON *object = json_append(json, array);

	json_text(json, object, "url", mirror->url);
	json_text(json, object, "state", states[mirror->state]);
	json_text(json, object, "why", mirror->why);
	json_number(json, object, "seconds", (double)mirror->took_us / (double)USEC_PER_SEC);
}

struct cJSON *runtime_document_make(const struct runtime_sample *sample)
{
	struct json json;
	cJSON *array;

	json_begin(&json);
	array = json_array(&json, json.root, "found");
	for (size_t i = 0; i < sample->n; i++)
		add_runtime(&json, array, &sample->runtimes[i], sample);
	array = json_array(&json, json.root, "mirrors");
	for (size_t i = 0; i < sample->n_mirrors; i++)
		add_mirror(&json, array, &sample->mirrors[i]);
	return json_take(&json);
}
