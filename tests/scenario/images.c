/* SPDX-License-Identifier: Apache-2.0 */
#include "scenario.h"

#include "tuners/images/images.h"

#define FILE_SIZE 1000000 /* of each archive */

/* The wall clock at time 0. */
#define EPOCH_US UINT64_C(1800000000000000)

static struct host host = {.state = "", .node_name = "node-1"};
static struct facts facts;

static void open_node(void *self)
{
	struct images_tuner *tuner = self;

	facts = (struct facts){0};
	tuner->host = &host;
	tuner->facts = &facts;
	tuner->config.parallel = 3;
	tuner->config.wave = (struct wave){
		.gate = WAVE_OFF, .nodes = 1, .seeds = 1, .round_us = 20 * USEC_PER_SEC};
	set_text(tuner->sample.runtime.socket, "/run/x");
	set_text(tuner->sample.runtime.daemon.socket, "/run/x");
	tuner->sample.runtime.driver = &containerd_driver;
	set_text(tuner->sample.puller, "crictl -r unix:///run/x pull");
	tuner->sample.answers = true;
	strcpy(tuner->sample.kubelet.values.field[KUBELET_IMAGE_GC_HIGH].text, "85");
}

static void free_active(struct images_tuner *tuner)
{
	while (tuner->n_active > 0)
		transfer_free(tuner->active[--tuner->n_active]);
}

static void close_node(void *self, void *memory)
{
	struct images_tuner *tuner = self;

	free(((struct images_memory *)memory)->rows);
	free_active(tuner);
	free(tuner->config.pulls.items);
	free(tuner->config.pins.items);
	free(tuner->sample.archives);
	free(tuner->sample.images);
	free(tuner->record.entries);
}

/* ---- the state of the node ---- */

/* `PATH|- NAME|-`: an archive, or an image of an archive or a registry. NULL: error. */
static struct preload *parse_preload(struct scenario *scenario, struct images_tuner *tuner)
{
	char source[IMAGES_TEXT_MAX], name[IMAGE_NAME_MAX];
	struct preload *preload;

	if (!scenario_value(scenario, source, sizeof(source)) ||
		!scenario_value(scenario, name, sizeof(name)))
		return NULL;
	preload = preload_find(&tuner->record, source, name);
	if (!preload)
		preload = preload_add(&tuner->record, source, name);
	preload->key = (struct archive_key){.inode = 1, .size = FILE_SIZE};
	return preload;
}

/* `record PATH|- NAME|- ID SIZE` */
static bool parse_record(struct scenario *scenario, void *base)
{
	struct preload *preload = parse_preload(scenario, base);

	if (!preload)
		return false;
	preload->reason = REASON_NONE;
	preload->why[0] = '\0';
	if (!scenario_value(scenario, preload->id, sizeof(preload->id)))
		return false;
	strcpy(preload->content, preload->id);
	return scenario_number(scenario, &preload->size);
}

/* `fails PATH|- NAME|- REASON`: its transfer fails now. */
static bool parse_failure(struct scenario *scenario, void *base)
{
	struct preload *preload = parse_preload(scenario, base);
	const char *word;

	if (!preload)
		return false;
	preload->failures++;
	preload->done_us = scenario->now_us;
	set_text(preload->why, "it broke");
	word = scenario_word(scenario);
	preload->reason = word ? reason_parse(word) : REASON_NONE;
	return preload->reason != REASON_NONE;
}

/* `has NAME ID [pinned]`, `lacks NAME`: images of the runtime. */
static bool parse_has(struct scenario *scenario, void *base)
{
	struct images_sample *sample = &((struct images_tuner *)base)->sample;
	size_t allocated = sample->n_images;
	struct runtime_image *image = add_element(&sample->images, &sample->n_images, &allocated);

	if (!scenario_value(scenario, image->name, sizeof(image->name)) ||
		!scenario_value(scenario, image->id, sizeof(image->id)))
		return false;
	image->pinned = scenario_is(scenario, "pinned");
	sample_sort(sample);
	return true;
}

/* `pinned-here NAME`: a record of our pin. */
static bool parse_pinned_here(struct scenario *scenario, void *)
{
	struct pin_target *pin = &scenario->pins[scenario->n_pins++].target;

	return scenario_value(scenario, pin->image, sizeof(pin->image));
}

static bool parse_docker(struct scenario *, void *base)
{
	((struct images_tuner *)base)->sample.runtime.driver = &docker_driver;
	set_text(((struct images_tuner *)base)->sample.puller, "docker pull");
	return true;
}

static bool parse_lacks(struct scenario *scenario, void *base)
{
	struct images_sample *sample = &((struct images_tuner *)base)->sample;
	const char *name = scenario_word(scenario);

	for (size_t i = 0; name && i < sample->n_images; i++)
		if (streq(sample->images[i].name, name))
			sample->images[i] = sample->images[--sample->n_images];
	sample_sort(sample);
	return name;
}

/* `archive PATH INODE [settling] [missing]` */
static bool parse_archive(struct scenario *scenario, void *base)
{
	struct images_sample *sample = &((struct images_tuner *)base)->sample;
	const char *path = scenario_word(scenario);
	struct archive_file *file;

	if (!path)
		return false;
	file = find_named(sample->archives, sample->n_archives, path);
	if (!file)
		file = add_element(
			&sample->archives, &sample->n_archives, &sample->archives_allocated);
	*file = (struct archive_file){.key.size = FILE_SIZE};
	set_text(file->path, path);
	if (!scenario_number(scenario, &file->key.inode))
		return false;
	file->settling = scenario_is(scenario, "settling");
	file->error = scenario_is(scenario, "missing") ? -ENOENT : 0;
	return true;
}

/* `begun`: starts the proposed transfers; `ended`: ends all. */
static bool begin_transfers(struct scenario *scenario, void *base)
{
	while (images_tuner.tasks[TASK_TRANSFER].request(base, scenario->memory, false))
		;
	return true;
}

static bool end_transfers(struct scenario *, void *base)
{
	free_active(base);
	return true;
}

static bool parse_asked(struct scenario *scenario, void *base)
{
	struct images_sample *sample = &((struct images_tuner *)base)->sample;

	sample->now_us = scenario->now_us;
	sample->realtime_us = EPOCH_US + scenario->now_us;
	return true;
}

/* `peers NAME unknown|silent|lack|have`: the mirror's answer now. */
static bool parse_peers(struct scenario *scenario, void *base)
{
	static const char *const states[] = {"", "unknown", "silent", "lack", "have"};
	struct images_tuner *tuner = base;
	const char *name = scenario_word(scenario);
	struct peers *peers;
	unsigned state = PEERS_UNKNOWN;

	if (!name)
		return false;
	if (!preload_find(&tuner->record, "", name))
		(void)preload_add(&tuner->record, "", name);
	peers = &preload_find(&tuner->record, "", name)->peers;
	while (state < PEERS_HAVE && !scenario_is(scenario, states[state]))
		state++;
	if (state == PEERS_HAVE && !scenario_is(scenario, "have"))
		return false;
	peers->asked_us = EPOCH_US + scenario->now_us;
	if (state == PEERS_HAVE)
		peers->have_us = peers->state == PEERS_LACK ? peers->asked_us : 1;
	peers->state = (enum peers_state)state;
	return true;
}

/* `seen NAME SECONDS`: the configuration named the image then. */
static bool parse_seen(struct scenario *scenario, void *base)
{
	struct images_tuner *tuner = base;
	const char *name = scenario_word(scenario);
	uint64_t seconds;

	if (!name || !scenario_number(scenario, &seconds))
		return false;
	preload_add(&tuner->record, "", name)->first_seen_us = EPOCH_US + seconds * USEC_PER_SEC;
	return true;
}

/* `count-from-seen`: without images.wave.start. */
static bool parse_count_from_seen(struct scenario *, void *base)
{
	((struct images_tuner *)base)->config.wave.start_us = 0;
	return true;
}

static bool parse_force(struct scenario *scenario, void *)
{
	scenario->force = true;
	return true;
}

static bool parse_kubelet(struct scenario *scenario, void *base)
{
	struct kubelet_seen *kubelet = &((struct images_tuner *)base)->sample.kubelet;

	kubelet->presence = scenario_is(scenario, "stopped") ? KUBELET_STOPPED : KUBELET_RUNNING;
	if (scenario_is(scenario, "verifies")) {
		struct kubelet_value *policy = &kubelet->values.field[KUBELET_PULL_VERIFICATION];

		policy->origin = KUBELET_FILE;
		policy->line = 7;
		set_text(policy->file, "/k.yaml");
		return scenario_value(scenario, policy->text, KUBELET_VALUE_MAX);
	}
	return scenario_is(scenario, "runs") ||
	       (scenario_is(scenario, "gc-high") &&
		       scenario_value(scenario, kubelet->values.field[KUBELET_IMAGE_GC_HIGH].text,
			       KUBELET_VALUE_MAX));
}

/* `slow PROCESS`: it waits for its syncs to the disk of the store. `fast`: it does no longer. */
static bool parse_slow(struct scenario *scenario, void *)
{
	facts.disks.slow.p99 = 0.045;
	return scenario_value(scenario, facts.disks.slow.process, sizeof(facts.disks.slow.process));
}

static bool parse_fast(struct scenario *, void *)
{
	facts.disks.slow = (struct node_slow){0};
	return true;
}

static const struct scenario_word at[] = {
	WORD_CALL("record", parse_record),
	WORD_CALL("fails", parse_failure),
	WORD_CALL("slow", parse_slow),
	WORD_CALL("fast", parse_fast),
	WORD_CALL("has", parse_has),
	WORD_CALL("lacks", parse_lacks),
	WORD_CALL("pinned-here", parse_pinned_here),
	WORD_CALL("archive", parse_archive),
	WORD_CALL("begun", begin_transfers),
	WORD_CALL("ended", end_transfers),
	WORD_CALL("asked", parse_asked),
	WORD_CALL("mode", scenario_mode),
	WORD_CALL("force", parse_force),
	WORD_CALL("peers", parse_peers),
	WORD_CALL("seen", parse_seen),
	WORD_CALL("kubelet", parse_kubelet),
	WORD_CONST("silent", struct images_tuner, sample.answers, false),
	WORD_CONST("answers", struct images_tuner, sample.answers, true),
	WORD_CONST("leftovers", struct images_tuner, sample.leftovers, true),
	WORD_CONST("clean", struct images_tuner, sample.leftovers, false),
	WORD_CALL("docker", parse_docker),
	WORD_TEXT("version", struct images_tuner, sample.runtime.daemon.version),
	WORD_TEXT("socket", struct images_tuner, sample.runtime.socket),
	WORD_CONST("pods", struct images_tuner, sample.has_pods, true),
	WORD_CONST("no-pods", struct images_tuner, sample.has_pods, false),
	WORD_TEXT("puller", struct images_tuner, sample.puller),
	WORD_TEXT("sandbox", struct images_tuner, sample.sandbox),
	WORD_NUMBER("store-size", struct images_tuner, sample.store_size),
	WORD_NUMBER("store-used", struct images_tuner, sample.store_used),
	{0},
};

/* ---- configuration ---- */

static bool parse_pull(struct scenario *scenario, void *base)
{
	const char *name = scenario_word(scenario);

	if (name)
		text_list_add(&((struct images_tuner *)base)->config.pulls, name);
	return name;
}

static bool parse_pin(struct scenario *scenario, void *base)
{
	const char *name = scenario_word(scenario);

	if (name)
		text_list_add(&((struct images_tuner *)base)->config.pins, name);
	return name;
}

static bool parse_wave(struct scenario *scenario, void *base)
{
	struct wave *wave = &((struct images_tuner *)base)->config.wave;
	uint64_t nodes, start;

	if (!scenario_number(scenario, &nodes) || !scenario_number(scenario, &start))
		return false;
	wave->nodes = (unsigned)nodes;
	wave->start_us = EPOCH_US + start * USEC_PER_SEC;
	return true;
}

static const struct scenario_word config[] = {
	WORD_CALL("pull", parse_pull),
	WORD_CALL("pin", parse_pin),
	WORD_CONST("pins-given", struct images_tuner, config.pins_given, true),
	WORD_CALL("wave", parse_wave),
	WORD_CALL("count-from-seen", parse_count_from_seen),
	WORD_CONST("ask-auto", struct images_tuner, config.wave.gate, WAVE_AUTO),
	WORD_CONST("ask-peers", struct images_tuner, config.wave.gate, WAVE_PEERS),
	WORD_NUMBER("parallel", struct images_tuner, config.parallel),
	{0},
};

/* ---- expectations ---- */

/* `image NAME STATE REASON` */
static bool expect_image(struct scenario *scenario, void *)
{
	const struct images_memory *memory = scenario->memory;
	const char *name = scenario_word(scenario);
	const struct image_row *row;

	row = name ? find_named(memory->rows, memory->n, name) : NULL;
	if (!row) {
		fprintf(stderr, "%s: no such image\n", name ? name : "");
		return false;
	}
	if (scenario_is(scenario, image_state_names[row->state]) &&
		scenario_is(scenario, reason_rows[row->reason].slug))
		return true;
	fprintf(stderr, "%s is %s, %s: %s\n", name, image_state_names[row->state],
		reason_rows[row->reason].slug, row->why);
	return false;
}

/* `begins NAME...`: exactly these; `clean` for leftovers, `-` for nothing. */
static bool expect_begins(struct scenario *scenario, void *)
{
	const struct images_memory *memory = scenario->memory;

	for (size_t i = 0; i < memory->n_begin; i++) {
		const struct transfer *next = &memory->begin[i];
		const char *name = next->kind == TRANSFER_ARCHIVE ? next->archive.path
				   : next->kind == TRANSFER_PULL  ? next->name
				   : next->kind == TRANSFER_ASK   ? "ask"
								  : "clean";

		if (!scenario_is(scenario, name)) {
			fprintf(stderr, "%s begins\n", name);
			return false;
		}
	}
	return memory->n_begin > 0 || scenario_is(scenario, "-");
}

/* `cancels NAME...`: these pulls under way; `-` for nothing. */
static bool expect_cancels(struct scenario *scenario, void *base)
{
	const struct images_tuner *tuner = base;
	size_t n = 0;

	for (size_t i = 0; i < tuner->n_active; i++) {
		struct transfer *transfer = tuner->active[i];

		if (transfer->cancelled ||
			!images_tuner.tasks[TASK_TRANSFER].cancels(transfer, scenario->memory))
			continue;
		n++;
		if (!scenario_is(scenario, transfer->name)) {
			fprintf(stderr, "%s is cancelled\n", transfer->name);
			return false;
		}
	}
	return n > 0 || scenario_is(scenario, "-");
}

static const struct scenario_word expected[] = {
	WORD_CALL("image", expect_image),
	WORD_CALL("begins", expect_begins),
	WORD_CALL("cancels", expect_cancels),
	{0},
};

const struct scenario_tuner images_scenario = {
	.ops = &images_tuner,
	.size = sizeof(struct images_tuner),
	.at = at,
	.config = config,
	.expect = expected,
	.open = open_node,
	.close = close_node,
};
