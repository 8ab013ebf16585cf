/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/images/images.h"

#include "base/exposition.h"
#include "base/json.h"

/* Further images are summed as "other". */
#define METRIC_IMAGES_MAX 50

const struct help_entry images_entries[] = {
	{"pin.*", ENTRY_SETTING,
		"Protects an image from the kubelet's garbage collection. In containerd a pull "
		"removes the pin, and it is set again. restore removes pins set by Headroom.",
		.def = "not pinned", .option = "images.pin",
		.source =
			"containerd, io.cri-containerd.pinned, from 1.6.25, 1.7.10 and 2.0; CRI-O, "
			"pinned_images, from 1.31"},
	WORD("ready", ENTRY_IMAGE_STATE, "The runtime has unpacked the image."),
	WORD("moved", ENTRY_IMAGE_STATE,
		"Another image of others has the name of an archive's image, and stays."),
	MEMBER("bytes_done", "The bytes of an image that have come in."),
	MEMBER("next_in_seconds", "The time until the agent tries the image again."),
	MEMBER("size_bytes", "The size of an image."),
	{0},
};

const struct condition_type images_conditions[] = {
	[IMAGE_PRELOAD_FAILED] = {"ImagePreloadFailed", SEVERITY_WARNING,
		"A configured image could not be loaded or pulled. The message has the error and "
		"the cure. The agent tries again later; headroom apply tries again at once.",
		REASON_LIST(REASON_NONE_WANTED, REASON_ALL_PRESENT, REASON_MOVED_BY_OTHERS,
			REASON_UNDER_WAY, REASON_ARCHIVE_BROKEN, REASON_ARCHIVE_UNREADABLE,
			REASON_WRONG_PLATFORM, REASON_UNNAMED, REASON_DOES_NOT_FIT,
			REASON_LOAD_FAILED, REASON_TOO_MANY_ARCHIVES, REASON_PULL_FAILED,
			REASON_DELETED_BY_OTHERS, REASON_KUBELET_VERIFIES)},
	[SANDBOX_IMAGE_MISSING] = {"SandboxImageMissing", SEVERITY_WARNING,
		"The runtime lacks the sandbox image (the pause image), which every pod needs: the "
		"next pod has to wait until it is pulled.",
		REASON_LIST(REASON_SANDBOX_PRESENT, REASON_SANDBOX_MISSING, REASON_SANDBOX_UNKNOWN,
			REASON_NO_KUBELET)},
	{0},
};

const struct metric_row images_metric_rows[] = {
	{"headroom_image_preload", METRIC_GAUGE, NULL,
		"A configured image: the series of its state is 1. Images beyond the first 50 are "
		"counted as other. wave is the wave in which the node pulls it, from 0; without "
		"waves the label is absent.",
		{"image", "state", "wave"}},
	{"headroom_image_preload_bytes_total", METRIC_COUNTER, "bytes",
		"Bytes of the image that were sent to the runtime.", {"image"}},
	{"headroom_image_preload_seconds", METRIC_GAUGE, "seconds",
		"Duration of the image's last transfer.", {"image"}},
	{"headroom_image_preload_planned_timestamp_seconds", METRIC_GAUGE, "seconds",
		"When the wave of the image begins by images.wave, whatever its mirror says.",
		{"image"}},
	{0},
};

/* ---- the page ---- */

static void write_size(const cJSON *image, char *text, size_t size)
{
	double bytes = json_number_at(image, "size_bytes");
	const cJSON *done = json_at(image, "bytes_done");
	char amount[USE_MAX] = "";

	if (cJSON_IsNumber(done))
		use_text(done->valuedouble, bytes, "bytes", amount);
	else if (bytes > 0)
		amount_text(bytes, "bytes", amount);
	copy_text(text, size, amount);
}

static void write_pinned(const cJSON *image, char *text, size_t size)
{
	copy_text(text, size, cJSON_IsTrue(json_at(image, "pinned")) ? "pinned" : "");
}

static void write_why(const cJSON *image, char *text, size_t size)
{
	const char *why = json_text_at(image, "why");

	copy_text(text, size, why[0] ? why : json_text_at(image, "reason"));
}

static const struct column images_columns[] = {
	{.title = "Image", .key = "name"},
	{.title = "State", .key = "state", .format = COLUMN_STATE},
	{.title = "Size", .write = write_size},
	{.title = "Took", .key = "seconds", .format = COLUMN_SECONDS},
	{.title = "From", .key = "source", .format = COLUMN_NOTE},
	{.title = "Pinned", .write = write_pinned},
	{.title = "Why", .write = write_why},
	{0},
};

const struct table_view images_view = {
	.title = "Images", .rank = 4, .rows = "", .columns = images_columns};

/* ---- the document ---- */

static void put_number(cJSON *image, const char *key, bool known, double number)
{
	if (known)
		json_number(image, key, number);
	else
		json_null(image, key);
}

static double seconds_of(uint64_t us)
{
	return (double)us / (double)USEC_PER_SEC;
}

struct cJSON *images_document(const void *self, const void *data, bool)
{
	const struct images_memory *memory = data;
	cJSON *array = must(cJSON_CreateArray());
	uint64_t now = now_us(), before = 0; /* bytes of earlier images of the same archive */

	for (size_t i = 0; i < memory->n; i++) {
		const struct image_row *row = &memory->rows[i];
		const char *source = row->preload.source, *name = row->preload.name;
		const bool active = row->state == IMAGE_ACTIVE, loads = active && source[0];
		const struct transfer *transfer =
			!active ? NULL
			: loads ? images_active(self, TRANSFER_ARCHIVE, source, "")
				: images_active(self, TRANSFER_PULL, "", name);
		uint64_t size = row->preload.size, done = 0;
		uint64_t took_us = transfer ? now - transfer->began_us : row->preload.took_us;
		cJSON *image = json_append(array);

		json_text(image, "name", name);
		json_text(image, "source", source[0] ? source : "registry");
		json_text(image, "state", image_state_names[row->state]);
		json_text(image, "reason", reason_rows[row->reason].slug);
		json_public(image, "why", row->why);
		json_number(image, "size_bytes", (double)size);
		if (transfer && loads) {
			done = atomic_load(&transfer->done);
			done = MIN(done - MIN(done, before), size);
			before += size;
		}
		put_number(image, "bytes_done", transfer && loads, (double)done);
		put_number(image, "seconds", took_us > 0, seconds_of(took_us));
		json_adopt(image, "pinned",
			must(row->pinned < 0 ? cJSON_CreateNull() : cJSON_CreateBool(row->pinned)));
		put_number(image, "wave", row->wave >= 0, row->wave);
		put_number(image, "next_in_seconds", row->retry_us > now,
			seconds_of(row->retry_us - now));
	}
	return array;
}

/* ---- metrics ---- */

void images_metrics(const void *, const void *data, struct metric_sink *sink)
{
	enum { BYTES = IMAGE_FAILED + 1, SECONDS, PLANNED }; /* after the states */
	static const char *const families[] = {
		[IMAGE_PENDING] = "headroom_image_preload",
		[BYTES] = "headroom_image_preload_bytes_total",
		[SECONDS] = "headroom_image_preload_seconds",
		[PLANNED] = "headroom_image_preload_planned_timestamp_seconds",
	};
	const struct images_memory *memory = data;

	for (size_t what = 0; what <= PLANNED; what++) {
		const char *state = what <= IMAGE_FAILED ? image_state_names[what] : NULL;
		double rest = 0;

		if (families[what])
			metric_family(sink, families[what]);
		for (size_t i = 0; i < memory->n; i++) {
			const struct image_row *row = &memory->rows[i];
			const struct preload *preload = &row->preload;
			char wave[16];
			double value = what == BYTES     ? (double)preload->bytes
				       : what == SECONDS ? seconds_of(preload->took_us)

				       : what == PLANNED ? seconds_of(row->planned_us)
							 : row->state == what;

			snprintf(wave, sizeof(wave), "%d", row->wave);
			if (what == PLANNED && (row->wave < 0 || i >= METRIC_IMAGES_MAX))
				continue;
			if (i < METRIC_IMAGES_MAX)
				metric_sample(sink, value, preload->name, state,
					row->wave < 0 ? NULL : wave, NULL);
			else
				rest += value;
		}
		if (memory->n > METRIC_IMAGES_MAX && what != PLANNED)
			metric_sample(sink, rest, "other", state, NULL);
	}
}
