/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/kubelet/kubelet.h"
#include "tuners/table.h"

#include "base/json.h"

#include <linux/capability.h>

/* A running kubelet's files are read often; where there is none, all processes are searched. */
#define RUNNING_EVERY_US (5 * USEC_PER_SEC)
#define ABSENT_EVERY_US  (60 * USEC_PER_SEC)

const struct config_option kubelet_options[] = {
	MODE_OPTION("kubelet"),
	{
		.name = "kubelet.manage",
		.type = OPTION_BOOL,
		.def = "false",
		.help = "Whether headroom writes serializeImagePulls: false into the kubelet's drop-in "
			"directory, as " KUBELET_OWN_FILE
			", when the kubelet has one (--config-dir, from Kubernetes 1.28) and pulls one "
			"image at a time. The kubelet takes it at its next start; headroom never "
			"restarts it. false: the configuration is read, and what is wrong with it said.",
	},
	{0},
};

#define API "kubelet.config.k8s.io/v1beta1 KubeletConfiguration"

static const struct explanation explanations[] = {
	{KUBELET_SETTING, "setting",
		"Whether the kubelet pulls one image after the other. One large image then holds up "
		"all others. Read at the kubelet's start; with kubelet.manage: true headroom writes "
		"false as a drop-in file, which the kubelet takes when it is restarted.",
		NULL, "true; from 1.32 false where maxParallelImagePulls is 2 or more",
		"kubelet.manage", API},
	{"kubelet.maxParallelImagePulls", "kubelet option",
		"How many images the kubelet has pulled at once; from 1.27, and only with "
		"serializeImagePulls: false. Fewer than 3 let one slow registry hold up the others. "
		"headroom reads it and never sets it.",
		"images", "no limit", NULL, API},
	{"kubelet.registryPullQPS", "kubelet option",
		"How many pulls the kubelet begins in a second, after a burst of registryBurst; "
		"what is above is refused and tried again with a growing delay. It limits requests "
		"and not pulls in flight, so it delays a node's start without sparing the registry "
		"much. Raise both on nodes that start many pods at once; 0: no limit.",
		"pulls/s", "5", NULL, API},
	{"kubelet.registryBurst", "kubelet option",
		"How many pulls may begin at once before registryPullQPS holds them back. Raise it "
		"to the number of images that a node needs at its start.",
		"pulls", "10", NULL, API},
	{"kubelet.imageGCHighThresholdPercent", "kubelet option",
		"From this share of the image file system on, the kubelet deletes images that no "
		"container uses, the longest unused first, and preloaded ones among them unless they "
		"are pinned. Keep the preloaded images well below it; 100 switches it off.",
		"percent", "85", NULL, API},
	{"kubelet.imageGCLowThresholdPercent", "kubelet option",
		"Down to this share the kubelet deletes images once it has begun. Close below the "
		"high threshold it deletes fewer images at a time.",
		"percent", "80", NULL, API},
	{"kubelet.imageMaximumGCAge", "kubelet option",
		"Images unused for this long are deleted however much room there is, preloaded ones "
		"too unless they are pinned; from 1.29. 0s: off.",
		"time", "0s", NULL, API},
	{0},
};

static const struct reason pull_reasons[] = {
	{"no-kubelet", "No kubelet and no configuration of one was found on this node."},
	{"kubelet-config-unreadable",
		"The kubelet's configuration could not be read: the message says where and why."},
	{"serial-pulls", "The kubelet pulls one image after the other."},
	{"few-parallel-pulls", "The kubelet pulls fewer than three images at once."},
	{"parallel-pulls", "The kubelet pulls at least three images at once."},
	{0},
};

const struct condition_type kubelet_conditions[] = {
	{"KubeletSerialPulls", SEVERITY_ADVICE,
		"The kubelet pulls one image at a time, or very few: one large image delays all "
		"others. Set serializeImagePulls: false and maxParallelImagePulls in its "
		"configuration.",
		pull_reasons},
	{0},
};

static const struct capability_row capabilities[] = {
	{CAPABILITY(CAP_CHOWN), CAPABILITY_TO_ENFORCE, NULL,
		"keeps the owner of a configuration file that does not belong to root"},
	{0},
};

/* Member of struct tuner_ops; the request is a copy of the tuner. It reads files alone. */
static void kubelet_sample(void *data, const struct wait *wait)
{
	struct kubelet *kubelet = data;

	(void)wait;
	kubelet_read(kubelet->host, &kubelet->seen);
	kubelet->next_sample_us = next_turn_us(now_us(),
		kubelet->seen.presence == KUBELET_RUNNING ? RUNNING_EVERY_US : ABSENT_EVERY_US);
}

/* The first reading is part of the start: nothing is said before it. */
static void *kubelet_open(const struct host *host, bool watch)
{
	struct kubelet *kubelet = must(calloc(1, sizeof(*kubelet)));

	(void)watch;
	kubelet->host = host;
	kubelet_sample(kubelet, NULL);
	return kubelet;
}

static void kubelet_configure(void *self, const struct config *config)
{
	struct kubelet *kubelet = self;

	kubelet->manage = config_bool(config, "kubelet.manage");
}

static void *kubelet_sample_request(void *self, bool now)
{
	struct kubelet *kubelet = self, *request;

	if (!now && now_us() < kubelet->next_sample_us)
		return NULL;
	request = must(malloc(sizeof(*request)));
	*request = *kubelet;
	kubelet->next_sample_us = now_us() + RUNNING_EVERY_US; /* should this one be dropped */
	return request;
}

static void kubelet_sample_take(void *self, void *data)
{
	struct kubelet *kubelet = self, *request = data;

	if (kubelet) {
		kubelet->seen = request->seen;
		kubelet->next_sample_us = request->next_sample_us;
	}
	free(request);
}

static void kubelet_explain(const void *self, char why[static TUNER_WHY_MAX])
{
	const struct kubelet *kubelet = self;
	const char *obstacle = kubelet->manage && kubelet->seen.presence != KUBELET_ABSENT
				       ? kubelet_unmanageable(&kubelet->seen)
				       : NULL;

	if (kubelet->seen.why[0])
		copy_text(why, TUNER_WHY_MAX, kubelet->seen.why);
	else if (obstacle)
		snprintf(why, TUNER_WHY_MAX, "kubelet.manage: %s", obstacle);
}

static void add_values(cJSON *root, const struct kubelet_seen *seen)
{
	char advices[KUBELET_ADVICES_MAX][CONDITION_MESSAGE_MAX];
	size_t n = kubelet_advise(seen, advices);
	cJSON *values = json_object(root, "values");
	cJSON *list;

	for (int i = 0; i < KUBELET_FIELDS; i++) {
		const struct kubelet_value *value = &seen->values.field[i];
		cJSON *object = json_object(values, kubelet_fields[i].name);
		char from[SETTING_PATH_MAX + 16] = "default";

		if (value->origin == KUBELET_FLAG)
			copy_text(from, sizeof(from), "flag");
		else if (value->origin == KUBELET_FILE)
			snprintf(from, sizeof(from), "%s:%u", value->file, value->line);
		json_text(object, "value", value->text);
		json_text(object, "from", from);
	}
	list = json_array(root, "advice");
	for (size_t i = 0; i < n; i++)
		json_append_text(list, advices[i]);
}

static cJSON *kubelet_document(const void *self, const void *memory, bool trusted)
{
	static const char *const presences[] = {"absent", "stopped", "running"};
	const struct kubelet_seen *seen = &((const struct kubelet *)self)->seen;
	cJSON *root = cJSON_CreateObject();

	(void)memory, (void)trusted;
	json_text(root, "kubelet", presences[seen->presence]);
	json_text(root, "config", seen->config);
	json_text(root, "config_dir", seen->config_dir);
	if (seen->presence != KUBELET_ABSENT && seen->why[0] == '\0')
		add_values(root, seen);
	return root;
}

const struct tuner_ops kubelet_tuner = {
	.name = "kubelet",
	.summary =
		"Reads how the kubelet pulls and collects images, and says what makes pods wait.",
	.options = kubelet_options,
	.explanations = explanations,
	.conditions = kubelet_conditions,
	.capabilities = capabilities,
	.open = kubelet_open,
	.configure = kubelet_configure,
	.sample_request = kubelet_sample_request,
	.sample = kubelet_sample,
	.sample_take = kubelet_sample_take,
	.decide = kubelet_decide,
	.explain = kubelet_explain,
	.document_name = "kubelet",
	.document = kubelet_document,
	.close = free,
};
