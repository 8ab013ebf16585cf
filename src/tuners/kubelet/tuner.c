/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/kubelet/kubelet.h"
#include "tuners/table.h"

#include "base/text.h"

#include <linux/capability.h>

#define SETTING "kubelet.serializeImagePulls"

/* Without a running kubelet, a sample may search all processes: it is done less often. */
#define RUNNING_EVERY_US (5 * USEC_PER_SEC)
#define ABSENT_EVERY_US  (60 * USEC_PER_SEC)

#define START_IMAGES 60 /* the advice assumes that a starting node pulls 60 images */
#define FEW_PULLS    3  /* fewer at once let pulls wait for each other */

#define PENDING " for the running kubelet, and its files have changed since"

const struct config_option kubelet_options[] = {
	MODE_OPTION("kubelet"),
	{"kubelet.manage", OPTION_BOOL, .def = "false",
		.help = "Whether headroom writes serializeImagePulls: false into the kubelet's drop-in "
			"directory, as " KUBELET_OWN_FILE
			", when the kubelet has one (--config-dir, from Kubernetes 1.28) and pulls one "
			"image at a time. The kubelet reads it at its next start; headroom never "
			"restarts it. false: headroom reads the configuration and reports problems."},
	{0},
};

#define API "kubelet.config.k8s.io/v1beta1 KubeletConfiguration"

static const struct help_entry entries[] = {
	{SETTING, ENTRY_SETTING,
		"Whether the kubelet pulls one image after the other, so that one large image delays "
		"all others. With kubelet.manage: true headroom writes false as a drop-in file. The "
		"kubelet reads its files only when it starts.",
		.def = "true; from 1.32 false where maxParallelImagePulls is 2 or more",
		.option = "kubelet.manage", .source = API},
	{"kubelet.maxParallelImagePulls", ENTRY_KUBELET_OPTION,
		"How many images the kubelet pulls at once; from 1.27 on, and only with "
		"serializeImagePulls: false. With fewer than 3, one slow registry delays the others. "
		"headroom reads it and never sets it.",
		.unit = "images", .def = "no limit", .source = API},
	{"kubelet.registryPullQPS", ENTRY_KUBELET_OPTION,
		"How many pulls the kubelet starts per second, after a burst of registryBurst. "
		"Further pulls fail and are retried with a growing delay. It limits the start of "
		"pulls, not how many run, so it delays a node's start without much relief for the "
		"registry. Raise both on nodes that start many pods at once. 0: no limit.",
		.unit = "pulls/s", .def = "5", .source = API},
	{"kubelet.registryBurst", ENTRY_KUBELET_OPTION,
		"How many pulls may start at once before registryPullQPS limits them. Raise it to "
		"the number of images that a node needs at its start.",
		.unit = "pulls", .def = "10", .source = API},
	{"kubelet.imageGCHighThresholdPercent", ENTRY_KUBELET_OPTION,
		"When the image file system is used above this share, the kubelet deletes images "
		"that no container uses, the longest unused first. It deletes preloaded images too, "
		"unless they are pinned: keep them well below this share. 100: off.",
		.unit = "percent", .def = "85", .source = API},
	{"kubelet.imageGCLowThresholdPercent", ENTRY_KUBELET_OPTION,
		"The kubelet deletes images until the use is below this share. Just below the high "
		"threshold, it deletes fewer images at a time.",
		.unit = "percent", .def = "80", .source = API},
	{"kubelet.imageMaximumGCAge", ENTRY_KUBELET_OPTION,
		"The kubelet deletes images unused for this long even if there is room, preloaded "
		"images too unless they are pinned; from 1.29 on. 0s: off.",
		.unit = "time", .def = "0s", .source = API},
	{"kubelet.imagePullCredentialsVerificationPolicy", ENTRY_KUBELET_OPTION,
		"Whether a pod may use an image that is already on the node without credentials for "
		"it; from 1.33 on, by default from 1.35. With AlwaysVerify the kubelet asks the "
		"registry also for preloaded images, with NeverVerifyAllowlistedImages for those "
		"that preloadedImagesVerificationAllowlist does not name.",
		.def = "NeverVerifyPreloadedImages", .source = API},
	{0},
};

static const struct condition_type conditions[] = {
	{"KubeletSerialPulls", SEVERITY_ADVICE,
		"The kubelet pulls one image at a time, or very few: one large image delays all "
		"others. Set serializeImagePulls: false and maxParallelImagePulls in its "
		"configuration.",
		REASON_LIST(REASON_NO_KUBELET, REASON_KUBELET_CONFIG_UNREADABLE,
			REASON_SERIAL_PULLS, REASON_FEW_PARALLEL_PULLS, REASON_PARALLEL_PULLS)},
	{0},
};

static const struct capability_row capabilities[] = {
	{CAPABILITY(CAP_CHOWN), CAPABILITY_TO_ENFORCE, NULL,
		"keeps the owner of a configuration file that does not belong to root"},
	{0},
};

/* Returns 0 also for a field without a value. */
static uint64_t number_of(const struct kubelet_values *values, enum kubelet_field field)
{
	uint64_t number = 0;

	(void)parse_count(values->field[field].text, &number);
	return number;
}

/* Returns the values that the running kubelet read at its start; NULL: unknown. */
static const struct kubelet_values *running_values(const struct kubelet *kubelet)
{
	const struct kubelet_seen *seen = &kubelet->seen;

	if (seen->values_run)
		return &seen->values;
	if (seen->others_run)
		return &seen->others;
	return kubelet->running_start_us > 0 && kubelet->running_start_us == seen->start_us
		       ? &kubelet->running
		       : NULL;
}

static void kubelet_sample(void *data, const struct wait *)
{
	struct kubelet *kubelet = data;

	kubelet_read(kubelet->host, &kubelet->seen);
	kubelet->next_sample_us = next_turn_us(now_us(),
		kubelet->seen.presence == KUBELET_RUNNING ? RUNNING_EVERY_US : ABSENT_EVERY_US);
}

static void *kubelet_open(const struct host *host, struct facts *facts, struct sd_event *)
{
	struct kubelet *kubelet = must(calloc(1, sizeof(*kubelet)));

	kubelet->host = host;
	kubelet->facts = facts;
	return kubelet;
}

static void kubelet_configure(void *self, const struct config *config)
{
	struct kubelet *kubelet = self;

	kubelet->manage = config_bool(config, "kubelet.manage");
}

static void *kubelet_sample_request(void *self, const void *, bool now)
{
	struct kubelet *kubelet = self, *request;

	if (!now && now_us() < kubelet->next_sample_us)
		return NULL;
	request = must(malloc(sizeof(*request)));
	*request = *kubelet;
	return request;
}

static void kubelet_sample_adopt(void *self, void *data)
{
	struct kubelet *kubelet = self, *request = data;
	const struct kubelet_values *running;

	if (kubelet) {
		kubelet->seen = request->seen;
		kubelet->next_sample_us = request->next_sample_us;
		kubelet->facts->disks.images_gc_high =
			kubelet->seen.presence == KUBELET_RUNNING && !kubelet->seen.why[0]
				? (unsigned)number_of(&kubelet->seen.values, KUBELET_IMAGE_GC_HIGH)
				: 0;
		running = running_values(kubelet);
		if (running && running != &kubelet->running) {
			kubelet->running = *running;
			kubelet->running_start_us = kubelet->seen.start_us;
		}
	}
	free(request);
}

/* ---- decisions ---- */

static bool is_serial(const struct kubelet_values *values)
{
	return streq(values->field[KUBELET_SERIALIZE_IMAGE_PULLS].text, "true");
}

/* Why the setting cannot be written. */
struct obstacle {
	enum reason reason; /* REASON_NONE: it can */
	const char *cure;
};

static struct obstacle obstacle_of(const struct kubelet_seen *seen)
{
	if (seen->presence != KUBELET_RUNNING)
		return (struct obstacle){REASON_KUBELET_STOPPED, "start it"};
	if (seen->config_dir[0] == '\0')
		return (struct obstacle){REASON_NO_DROP_INS,
			"start the kubelet with --config-dir (from Kubernetes 1.28), or write "
			"serializeImagePulls: false into its file"};
	if (seen->values.field[KUBELET_SERIALIZE_IMAGE_PULLS].origin == KUBELET_FLAG)
		return (struct obstacle){REASON_OVERRIDDEN,
			"the kubelet's command line has --serialize-image-pulls: remove the flag"};
	if (seen->own == KUBELET_OWN_FOREIGN)
		return (struct obstacle){REASON_FILE_OF_OTHERS,
			KUBELET_OWN_FILE " is not ours: write serializeImagePulls: false there, or "
					 "move it away"};
	if (seen->overridden)
		return (struct obstacle){REASON_OVERRIDDEN,
			"a file that comes after " KUBELET_OWN_FILE
			" sets serializeImagePulls: change it there"};
	return (struct obstacle){0};
}

static void decide_setting(const struct kubelet *kubelet, struct proposal *proposal)
{
	const struct kubelet_seen *seen = &kubelet->seen;
	const struct kubelet_values *running = running_values(kubelet);
	const struct obstacle obstacle = obstacle_of(seen);
	struct want *want = proposal_file(proposal, kubelet_own_text);
	struct file_change *file = want->file;

	set_text(want->name, SETTING);
	file->format = EDIT_OWN;
	set_text(file->path, seen->config);
	if (running)
		set_text(want->actual, running->field[KUBELET_SERIALIZE_IMAGE_PULLS].text);
	want->reason = REASON_KEPT;
	/* Write nothing when files of others set the same value. */
	if (!kubelet->manage ||
		(!is_serial(&seen->others) &&
			(seen->own == KUBELET_OWN_MISSING || seen->own == KUBELET_OWN_FOREIGN)))
		return;
	want->requested = true;
	if (obstacle.reason) {
		want->reason = obstacle.reason;
		set_text(want->why, obstacle.cure);
		/* At boot the kubelet starts later. */
		if (obstacle.reason == REASON_KUBELET_STOPPED)
			return;
		set_text(want->wanted, "false");
		want->error = -EOPNOTSUPP;
		return;
	}
	if (snprintf(file->path, sizeof(file->path), "%s/%s", seen->config_dir, KUBELET_OWN_FILE) >=
		(int)sizeof(file->path)) {
		want->error = -ENAMETOOLONG;
		return;
	}
	want->reason = REASON_CONFIGURED;
	set_text(file->daemon.unit, "kubelet.service");
	set_text(want->wanted, "false");
	set_text(file->judged, seen->own == KUBELET_OWN_MISSING ? FILE_HASH_NONE : seen->own_hash);
	if (seen->own == KUBELET_OWN_WRITTEN)
		set_text(file->on_disk, "false");
	else if (seen->own == KUBELET_OWN_OTHER)
		set_text(file->on_disk, "another text");
}

static bool is_problem(const struct kubelet_values *values)
{
	uint64_t most = number_of(values, KUBELET_MAX_PARALLEL_IMAGE_PULLS);

	return is_serial(values) || (most > 0 && most < FEW_PULLS);
}

/* The cure: an edit of the file that has the value, or a restart if that was done. */
static void add_cure(struct finding *finding, const struct kubelet *kubelet,
	const struct decide_input *input, enum kubelet_field field)
{
	const struct kubelet_seen *seen = &kubelet->seen;
	const struct kubelet_value *value = &seen->values.field[field];
	bool is_serialize = field == KUBELET_SERIALIZE_IMAGE_PULLS;
	bool is_file = value->origin == KUBELET_FILE;
	const char *file = is_file ? value->file : seen->config;

	if (!is_problem(&seen->values)) {
		if (seen->embedded)
			finding_hint(finding, "restart the unit that runs the kubelet");
		else
			finding_now(finding, "systemctl restart kubelet");
		return;
	}
	if (value->origin == KUBELET_FLAG)
		finding_hint(finding,
			"remove --%s from the command line of the kubelet, and restart it",
			kubelet_fields[field].flag);
	else if (!file[0] || strstr(file, ".json"))
		finding_hint(finding, "set %s in the configuration of the kubelet, and restart it",
			is_serialize ? "serializeImagePulls: false" : "maxParallelImagePulls: 5");
	else {
		finding_edit(finding, file, is_file ? value->line : 0, "write %s",
			is_serialize ? "serializeImagePulls: false" : "maxParallelImagePulls: 5");
		finding_hint(finding, "then restart the kubelet, which reads it at its start only");
	}
	if (is_serialize && !kubelet->manage && !obstacle_of(seen).reason)
		finding_keep(finding, input, "kubelet", "kubelet: {manage: true}");
}

static void find_few_pulls(const struct kubelet *kubelet, const struct decide_input *input,
	const struct kubelet_values *values, struct proposal *proposal)
{
	const struct kubelet_seen *seen = &kubelet->seen;
	bool serial = is_serial(values);
	enum kubelet_field field =
		serial ? KUBELET_SERIALIZE_IMAGE_PULLS : KUBELET_MAX_PARALLEL_IMAGE_PULLS;
	const struct kubelet_value *value = &values->field[field];
	struct instance instance = {.kind = INSTANCE_FILE};
	struct finding *finding;

	set_text(instance.name, value->origin == KUBELET_FILE ? value->file : seen->config);
	if (!instance.name[0])
		instance.kind = INSTANCE_NODE;
	finding = proposal_finding(proposal, input, conditions,
		serial ? REASON_SERIAL_PULLS : REASON_FEW_PARALLEL_PULLS, NULL, &instance,
		FINDING_HAPPENS);
	if (!finding)
		return;
	finding->breaks = conditions[0].help;
	/* "serializeImagePulls is true by default" */
	if (value->origin == KUBELET_FILE)
		finding_message(finding, "line %u: %s is %s%s", value->line,
			kubelet_fields[field].name, value->text,
			is_problem(&seen->values) ? "" : PENDING);
	else
		finding_message(finding, "%s is %s %s%s%s", kubelet_fields[field].name, value->text,
			value->origin == KUBELET_FLAG ? "by the flag --" : "by default",
			value->origin == KUBELET_FLAG ? kubelet_fields[field].flag : "",
			is_problem(&seen->values) ? "" : PENDING);
	add_cure(finding, kubelet, input, field);
}

static void kubelet_decide(
	const void *self, const struct decide_input *input, void *, struct proposal *proposal)
{
	const struct kubelet *kubelet = self;
	const struct kubelet_seen *seen = &kubelet->seen;
	const struct kubelet_values *running = running_values(kubelet);
	const struct kubelet_values *values = running ? running : &seen->values;
	struct condition_reading *condition =
		proposal_condition(proposal, conditions, REASON_PARALLEL_PULLS);

	/* The node's fault is not the agent's. */
	if (seen->error == -EBADMSG && seen->presence != KUBELET_ABSENT)
		find_bad_file(proposal, input, REASON_KUBELET_CONFIG_UNREADABLE, &seen->bad,
			seen->why, "the kubelet");
	else
		proposal_lacks(proposal, seen->why);
	if (seen->presence != KUBELET_ABSENT && seen->why[0] && seen->error != -EBADMSG)
		note_unverified(proposal, seen->why);
	else if (seen->presence != KUBELET_ABSENT && seen->values.unknown[0])
		note_unverified(proposal, seen->values.unknown);
	/* The effect of a broken file is unknown: write nothing beside it. */
	if (seen->presence != KUBELET_ABSENT && seen->why[0] == '\0')
		decide_setting(self, proposal);
	if (seen->presence == KUBELET_ABSENT) {
		condition_unknown(condition, REASON_NO_KUBELET);
		condition_append(condition, "no kubelet was found on this node");
	} else if (seen->why[0]) {
		condition_unknown(condition, REASON_KUBELET_CONFIG_UNREADABLE);
		condition_append(condition, "%s", seen->why);
	} else if (is_problem(values)) {
		find_few_pulls(self, input, values, proposal);
	} else if (number_of(values, KUBELET_MAX_PARALLEL_IMAGE_PULLS) > 0) {
		condition_append(condition, "the kubelet pulls up to %s images at once",
			values->field[KUBELET_MAX_PARALLEL_IMAGE_PULLS].text);
	} else {
		condition_append(condition, "the kubelet pulls any number of images at once");
	}
}

/* ---- the document ---- */

static void add_advice(cJSON *root, const struct kubelet_values *values)
{
	cJSON *list = json_array(root, "advice");
	char text[CONDITION_MESSAGE_MAX];
	uint64_t qps = number_of(values, KUBELET_REGISTRY_PULL_QPS);
	uint64_t burst = number_of(values, KUBELET_REGISTRY_BURST);
	uint64_t high = number_of(values, KUBELET_IMAGE_GC_HIGH);
	const char *age = values->field[KUBELET_IMAGE_MAXIMUM_GC_AGE].text;
	if (qps > 0 && burst < START_IMAGES) {
		snprintf(text, sizeof(text),
			"registryPullQPS is %" PRIu64 " with registryBurst %" PRIu64
			": of %d images that a node needs at once, the last starts %" PRIu64
			" s late, and pulls above the limit fail and are retried later. The limit "
			"applies to starting pulls, not to running ones: raise both, or set "
			"registryPullQPS: 0.",
			qps, burst, START_IMAGES, (START_IMAGES - burst + qps - 1) / qps);
		json_append_text(list, text);
	}
	if (high < 100) {
		snprintf(text, sizeof(text),
			"Above %" PRIu64
			" %% use of the image file system, the kubelet deletes images that no "
			"container uses, down to %" PRIu64
			" %%, preloaded images too unless they are pinned. Keep the preloaded "
			"images well below it, or raise imageGCHighThresholdPercent.",
			high, number_of(values, KUBELET_IMAGE_GC_LOW));
		json_append_text(list, text);
	}
	if (strspn(age, "0smh") < strlen(age)) {
		snprintf(text, sizeof(text),
			"imageMaximumGCAge is %s: the kubelet deletes images unused for that long "
			"even when there is room, preloaded images too unless they are pinned. 0s "
			"switches it off.",
			age);
		json_append_text(list, text);
	}
}

static cJSON *kubelet_document(const void *self, const void *, bool)
{
	static const char *const presences[] = {[KUBELET_ABSENT] = "absent",
		[KUBELET_STOPPED] = "stopped",
		[KUBELET_RUNNING] = "running"};
	const struct kubelet_seen *seen = &((const struct kubelet *)self)->seen;
	cJSON *root = cJSON_CreateObject(), *values;

	json_text(root, "kubelet", presences[seen->presence]);
	json_text(root, "config", seen->config);
	json_text(root, "config_dir", seen->config_dir);
	if (seen->presence == KUBELET_ABSENT || seen->why[0])
		return root;
	values = json_object(root, "values");
	for (int i = 0; i < KUBELET_FIELDS; i++) {
		const struct kubelet_value *value = &seen->values.field[i];
		cJSON *object = json_object(values, kubelet_fields[i].name);
		char from[SETTING_PATH_MAX + 16] = "default";

		if (value->origin == KUBELET_FLAG)
			set_text(from, "flag");
		else if (value->origin == KUBELET_FILE)
			snprintf(from, sizeof(from), "%s:%u", value->file, value->line);
		json_text(object, "value", value->text);
		json_text(object, "from", from);
	}
	add_advice(root, &seen->values);
	return root;
}

const struct tuner_tables kubelet_tables = {
	.summary = "Reports kubelet settings for pulling and deleting images that make pods wait.",
	.entries = entries,
	.conditions = conditions,
	.capabilities = capabilities,
};

const struct tuner_ops kubelet_tuner = {
	.name = "kubelet",
	.tables = &kubelet_tables,
	.open = kubelet_open,
	.configure = kubelet_configure,
	.tasks[TASK_SAMPLE] = {kubelet_sample_request, kubelet_sample, kubelet_sample_adopt, NULL},
	.decide = kubelet_decide,
	.document = kubelet_document,
	.close = tuner_free,
};
