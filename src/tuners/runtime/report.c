/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/runtime/runtime.h"

#include "base/exposition.h"
#include "base/json.h"
#include "base/util.h"

#include <stdlib.h>

/* ---- the document ---- */

/* Stores that are slow, lossy or gone from newer versions, each with what to do. */
static const struct {
	const char *driver, *why;
} poor_drivers[] = {
	{"aufs", "aufs is no part of the kernel, and Docker 24 dropped it: use overlay2"},
	{"devicemapper",
		"devicemapper is slow on loop devices, and Docker 25 dropped it: use overlay2"},
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

static void add_store(struct json *json, cJSON *parent, const struct runtime_store *store)
{
	cJSON *object = json_object(json, parent, "store"), *warnings;

	json_text(json, object, "directory", store->directory);
	json_text(json, object, "driver", store->driver);
	json_text(json, object, "filesystem", store->filesystem);
	json_text(json, object, "device", store->device);
	json_bool(json, object, "rotational", store->rotational);
	json_bool(json, object, "network", store->network);
	JSON_NUMBERS(json, object, {"size", (double)store->size}, {"used", (double)store->used},
		{"images", (double)store->image_bytes});
	warnings = json_array(json, object, "warnings");
	for (size_t i = 0; i < ARRAY_SIZE(poor_drivers); i++)
		if (streq(store->driver, poor_drivers[i].driver))
			warn(json, warnings, poor_drivers[i].why);
	/* Disks of virtual machines say that they rotate when nobody has set that. */
	if (store->rotational && !starts_with(store->device, "vd") &&
		!starts_with(store->device, "xvd"))
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
	json_time(json, object, "since",
		sample->realtime_us - pulls_age(sample->now_us, layer->noted_us));
	JSON_NUMBERS(json, object, {"offset", (double)layer->piece.offset},
		{"total", (double)layer->piece.total}, {"bytes_per_second", layer->rate},
		{"still_seconds",
			(double)pulls_age(sample->now_us, layer->moved_us) / (double)USEC_PER_SEC});
}

static void add_runtime(struct json *json, cJSON *array, const struct node_runtime *runtime,
	const struct runtime_sample *sample)
{
	static const char *const answers[] = {"asked", "answers", "silent"};
	bool down = !runtime->found.has_socket && runtime->answer == RUNTIME_ASKED;
	cJSON *object = json_append(json, array), *list;

	json_text(json, object, "name", runtime->found.name);
	json_text(json, object, "kind", runtime_kind_names[runtime->found.kind]);
	json_text(json, object, "version", runtime->version);
	json_text(json, object, "socket", runtime->found.socket);
	json_text(json, object, "unit", runtime->found.unit);
	json_text(json, object, "config", runtime->config_path);
	json_text(json, object, "state", down ? "not-running" : answers[runtime->answer]);
	json_text(json, object, "why", runtime->why[0] ? runtime->why : runtime_file_why(runtime));
	json_text(json, object, "max_concurrent_downloads", runtime->downloads);
	list = json_array(json, object, "refusals");
	for (int i = 0; i < CONTAINERD_SETTINGS && runtime->files_known; i++)
		if (runtime->containerd.keys[i].refusal != CONTAINERD_FINE)
			warn(json, list, runtime->containerd.keys[i].why);
	if (runtime->store.known)
		add_store(json, object, &runtime->store);
	else
		json_null(json, object, "store");
	list = json_array(json, object, "pulls");
	for (size_t i = 0; i < runtime->pulls.n; i++)
		add_pull(json, list, &runtime->pulls.layers[i], sample);
}

struct cJSON *runtime_document_make(const struct runtime_sample *sample)
{
	static const char *const states[] = {"unknown", "up", "down"};
	struct json json;
	cJSON *array;

	json_begin(&json);
	array = json_array(&json, json.root, "found");
	for (size_t i = 0; i < sample->n; i++)
		add_runtime(&json, array, &sample->runtimes[i], sample);
	array = json_array(&json, json.root, "mirrors");
	for (size_t i = 0; i < sample->n_mirrors; i++) {
		const struct mirror *mirror = &sample->mirrors[i];
		cJSON *object = json_append(&json, array);

		json_text(&json, object, "url", mirror->url);
		json_text(&json, object, "state", states[mirror->state]);
		json_text(&json, object, "why", mirror->why);
		json_number(
			&json, object, "seconds", (double)mirror->took_us / (double)USEC_PER_SEC);
	}
	return json_take(&json);
}

/* ---- metrics ---- */

/* What all runtimes fetched from one registry. The last of the sums is for all that find no room.
 */
static size_t sum_registries(
	const struct runtime_sample *sample, struct pull_registry sums[static PULL_REGISTRIES_MAX])
{
	size_t n = 0;

	for (size_t r = 0; r < sample->n; r++)
		for (size_t i = 0; i < sample->runtimes[r].pulls.n_registries; i++) {
			const struct pull_registry *registry =
				&sample->runtimes[r].pulls.registries[i];
			size_t at = 0;

			while (at < n && !streq(sums[at].name, registry->name))
				at++;
			at = MIN(at, (size_t)PULL_REGISTRIES_MAX - 1);
			if (at == n) {
				sums[n++] = *registry;
				continue;
			}
			sums[at].bytes += registry->bytes;
			sums[at].seconds += registry->seconds;
			for (size_t b = 0; b <= PULL_BOUNDS; b++)
				sums[at].buckets[b] += registry->buckets[b];
		}
	return n;
}

static unsigned active_from(const struct runtime_sample *sample, const char *registry)
{
	unsigned active = 0;
	char name[64];

	for (size_t i = 0; i < sample->n; i++)
		for (size_t p = 0; p < sample->runtimes[i].pulls.n_images; p++) {
			pulls_registry_of(sample->runtimes[i].pulls.images[p].name, name);
			active += streq(name, registry);
		}
	return active;
}

void runtime_metrics_write(const struct runtime_sample *sample, struct metric_sink *sink)
{
	struct pull_registry sums[PULL_REGISTRIES_MAX];
	size_t n = sum_registries(sample, sums);

	metric_family(sink, "headroom_runtime_info");
	for (size_t i = 0; i < sample->n; i++)
		if (sample->runtimes[i].version[0])
			metric_sample(sink, 1, sample->runtimes[i].found.name,
				sample->runtimes[i].version, NULL);
	metric_family(sink, "headroom_runtime_max_concurrent_downloads");
	for (size_t i = 0; i < sample->n; i++)
		if (sample->runtimes[i].downloads[0])
			metric_sample(sink, strtod(sample->runtimes[i].downloads, NULL),
				sample->runtimes[i].found.name, NULL);
	metric_family(sink, "headroom_pulls_active");
	for (size_t i = 0; i < n; i++)
		metric_sample(sink, active_from(sample, sums[i].name), sums[i].name, NULL);
	metric_family(sink, "headroom_pull_bytes_total");
	for (size_t i = 0; i < n; i++)
		metric_sample(sink, (double)sums[i].bytes, sums[i].name, NULL);
	metric_family(sink, "headroom_pull_duration_seconds");
	for (size_t i = 0; i < n; i++)
		metric_histogram(sink, pull_bounds, sums[i].buckets, PULL_BOUNDS, sums[i].seconds,
			sums[i].name, NULL);
}
