/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/kubelet/kubelet.h"
#include "tuners/table.h"

#include "base/json.h"
#include "base/util.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* A running kubelet's files are read often; where there is none, all processes are searched. */
#define RUNNING_EVERY_US (5 * USEC_PER_SEC)
#define ABSENT_EVERY_US  (60 * USEC_PER_SEC)

struct kubelet {
	const struct host *host;
	struct kubelet_seen seen;
	struct kubelet_config config;
	uint64_t next_sample_us; /* CLOCK_MONOTONIC */
};

struct request {
	struct host host;
	struct kubelet_seen seen; /* from before, then anew */
};

const struct config_option kubelet_options[] = {
	{
		.name = "kubelet.mode",
		.type = OPTION_CHOICE,
		.words = tuner_mode_words,
		.sentence = "This tuner's own mode; empty: the agent's.",
	},
	{
		.name = "kubelet.manage",
		.type = OPTION_BOOL,
		.def = "false",
		.sentence =
			"Whether headroom writes serializeImagePulls: false into the kubelet's drop-in "
			"directory, as " KUBELET_OWN_FILE
			", when the kubelet has one (--config-dir, from Kubernetes 1.28) and pulls one "
			"image at a time. The kubelet takes it at its next start; headroom never "
			"restarts it. false: the configuration is read, and what is wrong with it said.",
	},
	{0},
};

static void set_next_sample(struct kubelet *kubelet)
{
	kubelet->next_sample_us =
		now_us() +
		(kubelet->seen.presence == KUBELET_RUNNING ? RUNNING_EVERY_US : ABSENT_EVERY_US);
}

/* The first reading is part of the start: nothing is said before it. */
static int kubelet_open(const struct host *host, bool watch, void **self)
{
	struct kubelet *kubelet = calloc(1, sizeof(*kubelet));

	(void)watch;
	if (!kubelet)
		return -ENOMEM;
	kubelet->host = host;
	kubelet_read(host, &kubelet->seen);
	set_next_sample(kubelet);
	*self = kubelet;
	return 0;
}

static int kubelet_configure(void *self, const struct config *config)
{
	struct kubelet *kubelet = self;

	kubelet->config.manage = config_bool(config, "kubelet.manage");
	return 0;
}

static void *kubelet_sample_request(void *self, bool now)
{
	struct kubelet *kubelet = self;
	struct request *request;

	if (!now && now_us() < kubelet->next_sample_us)
		return NULL;
	request = malloc(sizeof(*request));
	if (!request)
		return NULL;
	*request = (struct request){*kubelet->host, kubelet->seen};
	kubelet->next_sample_us = now_us() + RUNNING_EVERY_US; /* should this one be dropped */
	return request;
}

static void kubelet_sample(void *data, const struct wait *wait)
{
	struct request *request = data;

	(void)wait; /* files only */
	kubelet_read(&request->host, &request->seen);
}

static void kubelet_sample_take(void *self, void *data)
{
	struct kubelet *kubelet = self;
	struct request *request = data;

	if (kubelet) {
		kubelet->seen = request->seen;
		set_next_sample(kubelet);
	}
	free(request);
}

static int kubelet_decide_op(
	const void *self, const struct decide_input *input, void *memory, struct proposal *proposal)
{
	const struct kubelet *kubelet = self;

	(void)input;
	(void)memory;
	return kubelet_decide(&kubelet->seen, &kubelet->config, proposal);
}

static enum tuner_state kubelet_state(const void *self, char why[static TUNER_WHY_MAX])
{
	const struct kubelet *kubelet = self;
	const char *obstacle = kubelet->config.manage && kubelet->seen.presence != KUBELET_ABSENT
				       ? kubelet_unmanageable(&kubelet->seen)
				       : NULL;

	why[0] = '\0';
	if (kubelet->seen.why[0])
		copy_text(why, TUNER_WHY_MAX, kubelet->seen.why);
	else if (obstacle)
		snprintf(why, TUNER_WHY_MAX, "kubelet.manage: %s", obstacle);
	return why[0] ? TUNER_DEGRADED : TUNER_ACTIVE;
}

static void add_values(struct json *json, const struct kubelet_seen *seen)
{
	char advices[KUBELET_ADVICES_MAX][CONDITION_MESSAGE_MAX];
	size_t n = kubelet_advise(seen, advices);
	cJSON *values = json_object(json, json->root, "values");
	cJSON *list;

	for (int i = 0; i < KUBELET_FIELDS; i++) {
		const struct kubelet_value *value = &seen->values.field[i];
		cJSON *object = json_object(json, values, kubelet_fields[i].name);
		char from[SETTING_PATH_MAX + 16] = "default";

		if (value->origin == KUBELET_FLAG)
			copy_text(from, sizeof(from), "flag");
		else if (value->origin == KUBELET_FILE)
			snprintf(from, sizeof(from), "%s:%u", value->file, value->line);
		json_text(json, object, "value", value->text);
		json_text(json, object, "from", from);
	}
	list = json_array(json, json->root, "advice");
	for (size_t i = 0; i < n; i++)
		cJSON_AddItemToArray(list, cJSON_CreateString(advices[i]));
}

static cJSON *kubelet_document(const void *self, const void *memory, bool trusted)
{
	static const char *const presences[] = {"absent", "stopped", "running"};
	const struct kubelet_seen *seen = &((const struct kubelet *)self)->seen;
	struct json json;

	(void)memory, (void)trusted;
	json_begin(&json);
	json_text(&json, json.root, "kubelet", presences[seen->presence]);
	json_text(&json, json.root, "config", seen->config);
	json_text(&json, json.root, "config_dir", seen->config_dir);
	if (seen->presence != KUBELET_ABSENT && seen->why[0] == '\0')
		add_values(&json, seen);
	return json_take(&json);
}

const struct tuner_ops kubelet_tuner = {
	.name = "kubelet",
	.summary =
		"Reads how the kubelet pulls and collects images, and says what makes pods wait.",
	.options = kubelet_options,
	.explanations = kubelet_explanations,
	.conditions = kubelet_conditions,
	.capabilities = kubelet_capabilities,
	.open = kubelet_open,
	.configure = kubelet_configure,
	.sample_request = kubelet_sample_request,
	.sample = kubelet_sample,
	.sample_take = kubelet_sample_take,
	.decide = kubelet_decide_op,
	.state = kubelet_state,
	.document_name = "kubelet",
	.document = kubelet_document,
	.close = free,
};
