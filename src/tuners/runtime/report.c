/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/runtime/runtime.h"

#include "base/exposition.h"

static void write_pulls(const cJSON *runtime, char *text, size_t size)
{
	const cJSON *pulls = json_at(runtime, "pulls"), *pull;
	int n = cJSON_GetArraySize(pulls);
	char amount[AMOUNT_MAX];
	double rate = 0;

	cJSON_ArrayForEach (pull, pulls)
		rate += json_number_at(pull, "bytes_per_second");
	if (n > 0)
		snprintf(text, size, "%d layer%s, %s/s", n, n == 1 ? "" : "s",
			amount_text(rate, "bytes", amount));
}

/* "/var/lib/containerd (overlayfs, ext4) 40 % full", then warnings. */
static void write_store(const cJSON *runtime, char *text, size_t size)
{
	const cJSON *store = json_at(runtime, "store"), *warning;
	const char *driver = json_text_at(store, "driver"); /* containerd says none */
	char share[SHARE_MAX];

	if (!cJSON_IsObject(store))
		return;
	snprintf(text, size, "%s (%s%s%s) %s full", json_text_at(store, "directory"), driver,
		driver[0] ? ", " : "", json_text_at(store, "filesystem"),
		share_text(json_number_at(store, "used") / MAX(json_number_at(store, "size"), 1.0),
			share));
	cJSON_ArrayForEach (warning, json_at(store, "warnings"))
		text_append(text, size, "; %s", json_text_at(warning, ""));
}

/* Runtimes that were never asked are not shown. */
static bool shows_runtime(const cJSON *runtime)
{
	return !streq(json_text_at(runtime, "state"), "asked");
}

static const struct column runtime_columns[] = {
	{.title = "Runtime", .key = "name"},
	{.title = "Version", .key = "version"},
	{.title = "State", .key = "state", .format = COLUMN_STATE},
	{.title = "Layers at once", .key = "max_concurrent_downloads"},
	{.title = "Fetching now", .write = write_pulls},
	{.title = "Images", .write = write_store},
	{0},
};

/* ---- pulls ---- */

/* "2.1 of 6.4 GB, 48 MB/s, 1 min 30 s left"; total 0 and left 0 are unknown. */
static void write_progress(const struct pull_progress *progress, char *text, size_t size)
{
	double done = (double)progress->done, total = (double)progress->total;
	double left = progress->seconds_left;
	char amount[AMOUNT_MAX], whole[AMOUNT_MAX], rate[AMOUNT_MAX], time[TIME_TEXT_MAX];
	char *unit;

	amount_text(done, "bytes", amount);
	amount_text(total, "bytes", whole);
	amount_text(progress->rate, "bytes", rate);
	unit = strchr(amount, ' ');
	if (total > 0 && unit && streq(unit, strchr(whole, ' ')))
		*unit = '\0';
	snprintf(text, size, "%s%s%s, %s/s", amount, total > 0 ? " of " : "",
		total > 0 ? whole : "", rate);
	if (left >= 60 && left < 3600) {
		text_append(text, size, ", %d min %d s left", (int)left / 60, (int)left % 60);
	} else if (left > 0) {
		duration_text(left, time);
		text_append(text, size, ", %s left", time);
	}
	if (progress->queued > 0)
		text_append(text, size, ", %u layer%s queued", progress->queued,
			progress->queued == 1 ? "" : "s");
}

/* Names the pods that run no container: "shop/web-1, shop/web-2 and 3 more". */
static void write_waiting(const struct node_runtime *runtime, char *text, size_t size)
{
	size_t n = MIN(runtime->n_waiting, ARRAY_SIZE(runtime->waiting));

	for (size_t i = 0; i < n; i++)
		text_append(text, size, "%s%s/%s", i > 0 ? ", " : "", runtime->waiting[i].namespace,
			runtime->waiting[i].name);
	if (runtime->n_waiting > n)
		text_append(text, size, " and %zu more", runtime->n_waiting - n);
}

static void add_known(cJSON *object, const char *key, double number)
{
	if (number > 0)
		json_number(object, key, number);
	else
		json_null(object, key);
}

static void add_pull(cJSON *array, const struct node_runtime *runtime,
	const struct runtime_sample *sample, const struct pull_progress *progress)
{
	cJSON *object = json_append(array);
	char registry[64], text[256], waiting[RUNTIME_WAITING_MAX * 128] = "";

	pulls_registry_of(progress->image, registry);
	write_progress(progress, text, sizeof(text));
	write_waiting(runtime, waiting, sizeof(waiting));
	json_text(object, "image", progress->image[0] ? progress->image : "not known yet");
	json_text(object, "registry", registry);
	json_text(object, "runtime", runtime->found.name);
	json_text(object, "manifest", progress->manifest);
	json_time(object, "since",
		sample->realtime_us - pulls_age(sample->now_us, progress->begun_us));
	JSON_NUMBERS(object, {"done", (double)progress->done}, {"bytes_per_second", progress->rate},
		{"layers", progress->layers}, {"queued", progress->queued});
	add_known(object, "total", (double)progress->total);
	add_known(object, "seconds_left", progress->seconds_left);
	json_text(object, "progress", text);
	json_text(object, "waiting", waiting);
}

/* Adds each image that is being pulled; one without a manifest by what its layers tell. */
static void add_pulls(
	cJSON *array, const struct node_runtime *runtime, const struct runtime_sample *sample)
{
	const struct pulls *pulls = &runtime->pulls;

	for (size_t i = 0; i < pulls->n_progress; i++)
		if (pulls->progress[i].total > 0)
			add_pull(array, runtime, sample, &pulls->progress[i]);
	for (size_t i = 0; i < pulls->n_images; i++) {
		const struct pull_image *image = &pulls->images[i];
		struct pull_progress progress = {.done = image->done, .begun_us = image->since_us};

		set_text(progress.image, image->name);
		for (size_t k = 0; k < pulls->n; k++) {
			const struct pull_layer *layer = &pulls->layers[k];

			if (layer->measured || pulls_is_complete(&layer->piece) ||
				!streq(layer->image, image->name))
				continue;
			progress.layers += !layer->queued;
			progress.queued += layer->queued;
			progress.rate += layer->rate;
		}
		if (progress.layers + progress.queued > 0)
			add_pull(array, runtime, sample, &progress);
	}
}

static void write_pull_notes(const cJSON *document, char *text, size_t size)
{
	const char *waiting = json_text_at(document, "pulls/0/waiting");

	if (waiting[0])
		text_append(text, size, "  pods that run no container: %s\n", waiting);
}

static const struct column pull_columns[] = {
	{.title = "Image", .heading = "image", .key = "image", .width = -60},
	{.title = "Progress", .heading = "progress", .key = "progress", .width = -46},
	{.title = "Layers at once",
		.heading = "layers",
		.key = "layers",
		.format = COLUMN_NUMBER,
		.width = 7,
		.rank = 1},
	{.title = "Queued", .key = "queued", .format = COLUMN_NUMBER},
	{.title = "Runtime", .heading = "  runtime", .key = "runtime", .width = 12, .rank = 2},
	{.title = "Since", .key = "since", .format = COLUMN_TIME},
	{.title = "Pods that run no container", .key = "waiting", .format = COLUMN_NOTE},
	{0},
};

static const struct table_view pulls_view = {.title = "Pulls",
	.rank = 3,
	.rows = "pulls",
	.columns = pull_columns,
	.empty = "no image is being pulled",
	.order = "the order of their begin",
	.write_notes = write_pull_notes};

const struct table_view runtime_view = {.title = "Container runtimes",
	.rank = 5,
	.next = &pulls_view,
	.rows = "found",
	.columns = runtime_columns,
	.shows = shows_runtime};

/* ---- the document ---- */

static const struct poor_driver poor_drivers[] = {
	{"aufs", "the kernel does not include aufs, and Docker 24 dropped it", "overlay2"},
	{"devicemapper", "devicemapper is slow on loop devices, and Docker 25 dropped it",
		"overlay2"},
	{"vfs", "vfs copies every layer whole", "overlay2"},
	{"native", "the native snapshotter copies every layer whole", "overlayfs"},
};

const struct poor_driver *runtime_poor_driver(const struct runtime_store *store)
{
	for (size_t i = 0; i < ARRAY_SIZE(poor_drivers); i++)
		if (streq(store->driver, poor_drivers[i].name))
			return &poor_drivers[i];
	return NULL;
}

static void add_store(cJSON *parent, const struct runtime_store *store)
{
	const struct poor_driver *poor = runtime_poor_driver(store);
	cJSON *object = json_object(parent, "store"), *warnings;
	char text[256];

	json_text(object, "directory", store->directory);
	json_text(object, "driver", store->driver);
	json_text(object, "filesystem", store->filesystem);
	json_text(object, "device", store->device);
	JSON_NUMBERS(object, {"size", (double)store->size}, {"used", (double)store->used},
		{"images", (double)store->image_bytes});
	warnings = json_array(object, "warnings");
	if (poor) {
		snprintf(text, sizeof(text), "%s: use %s", poor->why, poor->instead);
		json_append_text(warnings, text);
	}
}

static void add_runtime(
	cJSON *array, const struct node_runtime *runtime, const struct runtime_sample *sample)
{
	static const char *const answers[] = {"asked", "answers", "silent"};
	bool down = !runtime->found.has_socket && !runtime->answered_once;
	cJSON *object = json_append(array), *list;
	char registry[64];

	json_text(object, "name", runtime->found.name);
	json_text(object, "kind", runtime->found.driver->name);
	json_text(object, "version", runtime->daemon.version);
	json_text(object, "socket", runtime->found.socket);
	json_text(object, "unit", runtime->found.unit);
	json_text(object, "config", runtime->daemon.config);
	json_text(object, "state", down ? "not-running" : answers[runtime->answer]);
	json_public(object, "why", runtime->why[0] ? runtime->why : runtime->files.why);
	json_text(object, "max_concurrent_downloads", runtime->in_force[RUNTIME_DOWNLOADS]);
	list = json_array(object, "refusals");
	for (int i = 0; i < RUNTIME_SETTINGS && runtime->files_known; i++)
		if (runtime->files.keys[i].refusal != KEY_EDITABLE)
			json_append_text(list, runtime->files.keys[i].why);
	if (runtime->store.known)
		add_store(object, &runtime->store);
	else
		json_null(object, "store");
	list = json_array(object, "pulls");
	for (size_t i = 0; i < runtime->pulls.n; i++) {
		const struct pull_layer *layer = &runtime->pulls.layers[i];
		uint64_t age_us = pulls_age(sample->now_us, layer->noted_us);
		uint64_t still_us = pulls_age(sample->now_us, layer->moved_us);

		object = json_append(list);
		pulls_registry_of(layer->image, registry);
		json_text(object, "ref", layer->piece.ref);
		json_text(object, "image", layer->image);
		json_text(object, "registry", registry);
		json_time(object, "since", sample->realtime_us - age_us);
		JSON_NUMBERS(object, {"offset", (double)layer->piece.offset},
			{"total", (double)layer->piece.total}, {"bytes_per_second", layer->rate},
			{"still_seconds", (double)still_us / (double)USEC_PER_SEC});
		json_bool(object, "queued", layer->queued);
	}
}

struct cJSON *runtime_document(const void *self, const void *, bool)
{
	const struct runtime_sample *sample = &((const struct runtime_tuner *)self)->sample;
	static const char *const states[] = {"unknown", "up", "down"};
	cJSON *root = cJSON_CreateObject();
	cJSON *array;

	array = json_array(root, "found");
	for (size_t i = 0; i < sample->n; i++)
		add_runtime(array, &sample->runtimes[i], sample);
	array = json_array(root, "pulls");
	for (size_t i = 0; i < sample->n; i++)
		add_pulls(array, &sample->runtimes[i], sample);
	array = json_array(root, "mirrors");
	for (size_t i = 0; i < sample->n_mirrors; i++) {
		const struct mirror *mirror = &sample->mirrors[i];
		cJSON *object = json_append(array);

		json_text(object, "url", mirror->url);
		json_text(object, "state", states[mirror->state]);
		json_public(object, "why", mirror->why);
		json_number(object, "seconds", (double)mirror->took_us / (double)USEC_PER_SEC);
	}
	return root;
}

/* ---- metrics ---- */

void runtime_metrics(const void *self, const void *, struct metric_sink *sink)
{
	const struct runtime_sample *sample = &((const struct runtime_tuner *)self)->sample;
	const struct pull_registry *registries = sample->pulled.registries;
	size_t n = sample->pulled.n;
	char name[64];

	metric_family(sink, "headroom_runtime_info");
	for (size_t i = 0; i < sample->n; i++)
		if (sample->runtimes[i].daemon.version[0])
			metric_sample(sink, 1, sample->runtimes[i].found.name,
				sample->runtimes[i].daemon.version, NULL);
	metric_family(sink, "headroom_runtime_max_concurrent_downloads");
	for (size_t i = 0; i < sample->n; i++) {
		const char *downloads = sample->runtimes[i].in_force[RUNTIME_DOWNLOADS];

		if (downloads[0])
			metric_sample(sink, strtod(downloads, NULL), sample->runtimes[i].found.name,
				NULL);
	}
	metric_family(sink, "headroom_pulls_active");
	for (size_t i = 0; i < n; i++) {
		unsigned active = 0;

		for (size_t r = 0; r < sample->n; r++)
			for (size_t p = 0; p < sample->runtimes[r].pulls.n_images; p++) {
				const struct pull_image *image =
					&sample->runtimes[r].pulls.images[p];

				pulls_registry_of(image->has_port ? image->name : "", name);
				active += streq(name, registries[i].name);
			}
		metric_sample(sink, active, registries[i].name, NULL);
	}
	metric_family(sink, "headroom_pull_bytes_total");
	for (size_t i = 0; i < n; i++)
		metric_sample(sink, (double)registries[i].bytes, registries[i].name, NULL);
	metric_family(sink, "headroom_pull_duration_seconds");
	for (size_t i = 0; i < n; i++)
		metric_histogram(sink, pull_bounds, registries[i].buckets, PULL_BOUNDS,
			registries[i].seconds, registries[i].name, NULL);
}
