/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/images/images.h"
#include "tuners/table.h"

#include "base/file.h"
#include "base/log.h"

static const char *check_path(const char *text)
{
	return text[0] == '/' ? NULL
			      : "is not an absolute path: write one, such as /var/lib/images/*.tar";
}

static const char *check_reference(const char *text)
{
	char name[IMAGE_NAME_MAX];

	return image_normalize(text, name) == 0
		       ? NULL
		       : "is not an image reference: write [REGISTRY/]NAME[:TAG][@DIGEST], such as "
			 "registry.k8s.io/pause:3.9";
}

static const char *check_pin(const char *text)
{
	return streq(text, IMAGES_SANDBOX) ? NULL : check_reference(text);
}

static const char *check_time(const char *text)
{
	uint64_t time_us;

	return !text[0] || time_parse(text, &time_us) == 0
		       ? NULL
		       : "is not an RFC 3339 time: write it like 2026-05-01T04:00:00Z";
}

#define TEXT_ITEM .name = "", .type = OPTION_TEXT, .min = 1, .max = IMAGES_TEXT_MAX - 1

static const struct config_option archive_items[] = {
	{TEXT_ITEM, .check = check_path, .pattern = "^/", .help = "A path."}, {0}};
static const struct config_option pull_items[] = {
	{TEXT_ITEM, .check = check_reference, .help = "A reference."}, {0}};
static const struct config_option pin_items[] = {
	{TEXT_ITEM, .check = check_pin, .help = "A reference, or sandbox."}, {0}};

static const char *const wave_gates[] = {"auto", "peers", "off", NULL};

const struct config_option images_options[] = {
	MODE_OPTION("images"),
	{"images.archives", OPTION_LIST, .max = IMAGES_LIST_MAX, .items = archive_items,
		.def = "[]",
		.help = "Archives of images to preload: OCI image layouts and the output of docker "
			"save or ctr images export, optionally compressed with gzip or zstd. Each "
			"is a file, a pattern with *, ? and [], or a directory. In a directory, "
			"every *.tar, *.tar.gz, *.tgz, *.tar.zst and layout counts. The service has "
			"no access to /home, /root and /tmp. Archives are loaded one after the "
			"other, and again when the archive changes or an image disappears. A name "
			"that others moved to another image is left."},
	{"images.pull", OPTION_LIST, .max = IMAGES_LIST_MAX, .items = pull_items, .def = "[]",
		.help = "Images to pull in advance, with the credentials of the runtime."},
	{"images.pin", OPTION_LIST, .max = IMAGES_LIST_MAX, .items = pin_items, .def = "[sandbox]",
		.help = "Images to protect from the kubelet's garbage collection. sandbox is the "
			"runtime's sandbox image, also called the pause image."},
	{"images.parallel", OPTION_COUNT, .min = 1, .max = IMAGES_PARALLEL_MAX, .unit = "images",
		.def = "3",
		.help = "The number of transfers at the same time: pulls, and at most one archive."},
	{"images.wave.nodes", OPTION_COUNT, .min = 1, .max = 1000000, .unit = "nodes", .def = "1",
		.help = "The approximate number of nodes that pull the same images. With more than "
			"one, nodes begin in waves of growing size, so that nodes of later waves "
			"find the image at their peers."},
	{"images.wave.seeds", OPTION_COUNT, .min = 1, .max = 1000000, .unit = "nodes", .def = "2",
		.help = "The approximate number of nodes in the first wave, which pull from "
			"upstream."},
	{"images.wave.growth", OPTION_COUNT, .min = 2, .max = 1000, .def = "3",
		.help = "The factor by which the number of nodes that have begun grows with each "
			"wave: 1 plus the number of pulls that a node with the image can serve to "
			"its peers during a wave."},
	{"images.wave.round", OPTION_DURATION, .min = USEC_PER_SEC,
		.max = 24 * UINT64_C(3600) * USEC_PER_SEC, .def = "20s",
		.help = "The time from one wave to the next: about 1.5 times the duration of a "
			"pull. A node whose pull fails waits one more round."},
	{"images.wave.start", OPTION_TEXT, .check = check_time,
		.pattern = "^([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}.*)?$",
		.help = "When the first wave begins on all nodes, such as 2026-05-01T04:00:00Z. "
			"Empty: each node counts from the time at which its configuration first "
			"named the image, so all nodes should get it at about the same time."},
	{"images.wave.gate", OPTION_CHOICE, .choices = wave_gates, .def = "auto",
		.help = "Whether nodes of later waves ask the mirror of the registry every 3 s if a "
			"peer has the image, and follow in rounds of the time that a pull really "
			"takes. Without any yes they go upstream, one after the other. auto: if a "
			"mirror answers. peers: always. off: waves by time alone."},
	{0},
};

static void *images_open(const struct host *host, struct facts *facts, struct sd_event *)
{
	struct images_tuner *tuner = must(calloc(1, sizeof(*tuner)));

	tuner->host = host;
	tuner->facts = facts;
	record_read(host->state, &tuner->record);
	return tuner;
}

static void read_names(
	const struct config *config, const char *name, bool are_names, struct text_list *list)
{
	char whole[IMAGE_NAME_MAX];

	list->n = 0;
	for (size_t i = 0; i < config_list(config, name); i++) {
		const char *text = config_item(config, name, i, "");

		if (are_names && !streq(text, IMAGES_SANDBOX) && image_normalize(text, whole) == 0)
			text = whole;
		if (!text_list_has(list, text))
			text_list_add(list, text);
	}
}

static void images_configure(void *self, const struct config *config)
{
	struct images_tuner *tuner = self;
	struct images_config *ret = &tuner->config;

	read_names(config, "images.archives", false, &ret->archives);
	read_names(config, "images.pull", true, &ret->pulls);
	read_names(config, "images.pin", true, &ret->pins);
	ret->pins_given = config_is_given(config, "images.pin");
	ret->driver = runtime_driver_find(config_text(config, "runtime.kind"));
	ret->parallel = config_count(config, "images.parallel", 0);
	ret->progress_timeout_us = config_duration(config, "runtime.pull_progress_timeout");
	ret->wave = (struct wave){
		.nodes = (unsigned)config_count(config, "images.wave.nodes", 1),
		.seeds = (unsigned)config_count(config, "images.wave.seeds", 1),
		.growth = (unsigned)config_count(config, "images.wave.growth", 1),
		.round_us = config_duration(config, "images.wave.round"),
	};
	ret->wave.gate = (enum wave_gate)config_choice(config, "images.wave.gate");
	(void)time_parse(config_text(config, "images.wave.start"), &ret->wave.start_us);
	ret->n_mirrors = registry_read_mirrors(config, ret->mirrors);
	ret->generation++;
	tuner->due = true;
	/* Waves count from when an image was first wanted. */
	for (size_t i = 0; i < ret->pulls.n; i++) {
		if (preload_find(&tuner->record, "", ret->pulls.items[i]))
			continue;
		preload_add(&tuner->record, "", ret->pulls.items[i])->first_seen_us = realtime_us();
		tuner->dirty = true;
	}
}

/* ---- samples ---- */

static void sample_free(struct images_tuner *tuner)
{
	free(tuner->config.archives.items);
	free(tuner->config.pulls.items);
	free(tuner->config.pins.items);
	free(tuner->sample.images);
	free(tuner->sample.archives);
	free(tuner->record.entries);
	free(tuner);
}

static void images_close(void *self, void *memory)
{
	free(((struct images_memory *)memory)->rows);
	sample_free(self);
}

static void *images_sample_request(void *self, const void *, bool at_once)
{
	struct images_tuner *tuner = self, *request;
	uint64_t next_us = tuner->sample.next_us;

	/* The store fills. */
	if (tuner->n_active > 0 || tuner->transfer_end_us >= tuner->sample.now_us)
		next_us = MIN(next_us, tuner->sample.now_us + IMAGES_SOON_US);
	if (!at_once && !tuner->due && now_us() < next_us)
		return NULL;
	tuner->due = false;
	request = must(calloc(1, sizeof(*request)));
	request->host = tuner->host;
	request->config.driver = tuner->config.driver;
	request->config.wave = tuner->config.wave;
	for (size_t i = 0; i < tuner->config.archives.n; i++)
		text_list_add(&request->config.archives, tuner->config.archives.items[i]);
	request->sample = tuner->sample;
	request->sample.generation = tuner->config.generation;
	request->sample.images = NULL;
	request->sample.archives = NULL;
	request->sample.n_images = request->sample.n_archives = 0;
	request->sample.archives_allocated = 0;
	return request;
}

/* Keeps only the images that decide() needs. */
static void keep_images(const struct images_tuner *tuner, struct images_sample *sample)
{
	struct element_index recorded = {0};
	size_t kept = 0;

	for (size_t i = 0; i < sample->n_images; i++) {
		const char *name = sample->images[i].name;

		if (sample->images[i].pinned || streq(name, sample->sandbox) ||
			find_indexed(&recorded, tuner->record.entries, tuner->record.n, name) ||
			text_list_has(&tuner->config.pulls, name) ||
			text_list_has(&tuner->config.pins, name))
			sample->images[kept++] = sample->images[i];
	}
	free(recorded.positions);
	sample->n_images = kept;
	if (kept > 0)
		sample->images = must(realloc(sample->images, kept * sizeof(*sample->images)));
}

static void images_sample_adopt(void *self, void *data)
{
	struct images_tuner *tuner = self, *request = data;
	struct images_sample sample = request->sample;
	uint64_t now = realtime_us();

	if (!tuner || sample.cancelled) {
		sample_free(request);
		return;
	}
	keep_images(tuner, &sample);
	tuner->facts->disks.store = sample.store_device;
	for (size_t i = 0; i < tuner->n_active && sample.fetching > 0; i++)
		if (tuner->active[i]->kind == TRANSFER_PULL)
			atomic_store(&tuner->active[i]->done, sample.fetching);
	request->sample = tuner->sample;
	tuner->sample = sample;
	sample_free(request);
	/* The clock was ahead, perhaps at boot: pulls must not wait for that time. */
	for (size_t i = 0; i < tuner->record.n; i++) {
		struct preload *preload = &tuner->record.entries[i];

		preload->first_seen_us = MIN(preload->first_seen_us, now);
		preload->peers.have_us = MIN(preload->peers.have_us, now);
	}
}

/* ---- transfers ---- */

static void add_questions(const struct images_tuner *tuner, const struct images_memory *memory,
	struct transfer *transfer)
{
	for (size_t i = 0; i < memory->n; i++)
		if (memory->rows[i].asks)
			(void)preload_add(&transfer->asked, "", memory->rows[i].preload.name);
	transfer->n_mirrors = tuner->config.n_mirrors;
	transfer->mirrors = must(malloc(sizeof(tuner->config.mirrors)));
	memcpy(transfer->mirrors, tuner->config.mirrors, sizeof(tuner->config.mirrors));
}

static void *images_transfer_request(void *self, const void *data, bool)
{
	const struct images_memory *memory = data;
	struct images_tuner *tuner = self;
	struct preload_list *record = &tuner->record;
	const struct transfer *next = memory->begin;
	struct transfer *transfer;

	for (size_t i = 0; memory->yields && i < tuner->n_active; i++)
		if (tuner->active[i]->kind == TRANSFER_ARCHIVE)
			tuner->facts->disks.load_waited_us = now_us();
	while (next < memory->begin + memory->n_begin &&
		images_active(tuner, next->kind, next->archive.path, next->name))
		next++;
	if (next == memory->begin + memory->n_begin || tuner->n_active == ARRAY_SIZE(tuner->active))
		return NULL;
	transfer = must(malloc(sizeof(*transfer)));
	*transfer = *next;
	transfer->host = tuner->host;
	transfer->runtime = tuner->sample.runtime;
	set_text(transfer->store, tuner->sample.store);
	transfer->began_us = now_us();
	transfer->progress_timeout_us = tuner->config.progress_timeout_us;
	transfer->error = -ECANCELED; /* until it was run */
	for (size_t i = 0; i < memory->n && transfer->kind == TRANSFER_ARCHIVE; i++) {
		const struct image_row *row = &memory->rows[i];

		if (streq(row->preload.source, transfer->archive.path)) {
			if (row->state == IMAGE_READY)
				text_list_add(&transfer->ready, row->preload.name);
		} else if (row->preload.source[0] && reason_rows[row->preload.reason].retry) {
			text_list_add(&transfer->others, row->preload.name);
		}
	}
	for (size_t i = 0; i < record->n && transfer->kind == TRANSFER_ARCHIVE; i++)
		if (record->entries[i].content[0] || !record->entries[i].source[0])
			*add_element(&transfer->known.entries, &transfer->known.n,
				&transfer->known.allocated) = record->entries[i];
	if (transfer->kind == TRANSFER_ASK)
		add_questions(tuner, memory, transfer);
	if (transfer->kind == TRANSFER_RECORD) {
		record_prune(tuner);
		transfer->text = record_text(record);
		tuner->dirty = false;
		tuner->recorded_us = transfer->began_us;
	}
	if (transfer->kind == TRANSFER_ARCHIVE || transfer->kind == TRANSFER_PULL)
		tuner->archive_last = transfer->kind == TRANSFER_ARCHIVE;
	tuner->active[tuner->n_active++] = transfer;
	return transfer;
}

/* containerd 1.7 itself ends a pull without progress, but no runtime sees the end of a load. */
static bool is_stalled(struct transfer *transfer)
{
	uint64_t done = atomic_load(&transfer->done), load_us = atomic_load(&transfer->load_us);

	/* A pause counts as progress. */
	if (done != transfer->progress_bytes || atomic_load(&transfer->waits))
		transfer->progress_us = now_us();
	transfer->progress_bytes = done;
	if (transfer->kind == TRANSFER_PULL && done > 0)
		load_us = transfer->began_us;
	return load_us > 0 && transfer->progress_timeout_us > 0 &&
	       now_us() > MAX(load_us, transfer->progress_us) + transfer->progress_timeout_us;
}

/* The image or archive may have left the list. */
static bool is_listed(const struct transfer *transfer, const struct images_memory *memory)
{
	if (transfer->kind == TRANSFER_PULL)
		return find_named(memory->rows, memory->n, transfer->name);
	for (size_t i = 0; i < memory->n; i++)
		if (streq(memory->rows[i].preload.source, transfer->archive.path))
			return true;
	return transfer->kind != TRANSFER_ARCHIVE;
}

/* The size of a pull is not known in advance, and other programs write to the store, too. */
static bool images_transfer_cancels(void *request, const void *data)
{
	const struct images_memory *memory = data;
	struct transfer *transfer = request;

	transfer->cancelled |= memory->full && (transfer->kind == TRANSFER_PULL ||
						       atomic_load(&transfer->done) > 0);
	atomic_store(&transfer->waits, memory->yields && transfer->kind == TRANSFER_ARCHIVE);
	transfer->stalled |= is_stalled(transfer);
	return transfer->cancelled || transfer->stalled || !is_listed(transfer, memory);
}

static void adopt_peers(struct images_tuner *tuner, const struct transfer *transfer)
{
	for (size_t i = 0; i < transfer->asked.n; i++) {
		const struct peers *seen = &transfer->asked.entries[i].peers;
		struct preload *known =
			preload_find(&tuner->record, "", transfer->asked.entries[i].name);
		struct peers *peers = known ? &known->peers : NULL;

		if (!peers)
			continue;
		peers->asked_us = seen->asked_us;
		peers->silent = seen->state == PEERS_SILENT ? peers->silent + 1 : 0;
		if (peers->state == PEERS_LACK && peers->silent > 0 && peers->silent < 3)
			continue;
		if (seen->state == PEERS_HAVE && peers->have_us == 0) {
			peers->have_us = peers->state == PEERS_LACK ? seen->asked_us : 1;
			tuner->dirty = true;
		}
		peers->state = seen->state;
		if (!known->reason)
			set_text(known->why, transfer->asked.entries[i].why);
	}
}

static void images_transfer_adopt(void *self, void *request)
{
	struct images_tuner *tuner = self;
	struct transfer *transfer = request;
	const struct preload_list *found = &transfer->found;

	if (!tuner) {
		transfer_free(transfer);
		return;
	}
	for (size_t i = 0; i < tuner->n_active; i++)
		if (tuner->active[i] == transfer)
			tuner->active[i] = tuner->active[--tuner->n_active];
	if (transfer->cancelled && transfer->error < 0 && found->n > 0) {
		found->entries[0].reason = REASON_DOES_NOT_FIT;
		found->entries[0].disk_full = true;
		copy_text(found->entries[0].why, IMAGES_WHY_MAX,
			"stopped: the image store has reached the kubelet's threshold for garbage "
			"collection: free some space, or preload less");
	}
	if (transfer->stalled && transfer->error == -ECANCELED && found->n > 0)
		snprintf(found->entries[found->n - 1].why, IMAGES_WHY_MAX,
			"no progress within %.0f s (runtime.pull_progress_timeout): see the log of "
			"the runtime",
			(double)transfer->progress_timeout_us / (double)USEC_PER_SEC);
	if (transfer->kind == TRANSFER_ASK) {
		if (transfer->error == 0)
			adopt_peers(tuner, transfer);
		transfer_free(transfer);
		return;
	}
	if (transfer->error != -ECANCELED || transfer->cancelled || transfer->stalled) {
		for (size_t i = 0; i < found->n; i++)
			record_adopt(&tuner->record, &found->entries[i]);
		tuner->dirty |= found->n > 0;
		if (transfer->kind != TRANSFER_RECORD)
			tuner->transfer_end_us = now_us();
		if (transfer->kind == TRANSFER_RECORD && transfer->error < 0)
			log_warning("images.json", "not written: %s: %s the state directory",
				strerror(-transfer->error), write_cure(transfer->error));
		if (transfer->kind == TRANSFER_CLEAN && transfer->error < 0)
			log_warning("images", "names left by a killed agent cannot be removed: %s",
				transfer->why);
	}
	transfer_free(transfer);
}

const struct tuner_tables images_tables = {
	.summary = "Loads images from archives and registries before a pod needs them, and "
		   "protects them from the kubelet's garbage collection.",
	.entries = images_entries,
	.conditions = images_conditions,
	.metric_rows = images_metric_rows,
	.view = &images_view,
};

const struct tuner_ops images_tuner = {
	.name = IMAGES_TUNER,
	.tables = &images_tables,
	.open = images_open,
	.configure = images_configure,
	.tasks = {[TASK_SAMPLE] = {images_sample_request, images_sample, images_sample_adopt, NULL},
		[TASK_TRANSFER] = {images_transfer_request, images_transfer, images_transfer_adopt,
			images_transfer_cancels}},
	.memory_size = sizeof(struct images_memory),
	.decide = images_decide,
	.document = images_document,
	.metrics = images_metrics,
	.close = images_close,
};
