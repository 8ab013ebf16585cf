/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/kubelet/kubelet.h"
#include "tuners/table.h"

#include "base/util.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct kubelet {
	struct kubelet_sensor sensor;
	struct kubelet_seen seen;
	struct kubelet_config config;
};

static const char *const mode_words[] = {"enforce", "observe", "off", NULL};

const struct config_option kubelet_options[] = {
	{
		.name = "kubelet.mode",
		.type = OPTION_CHOICE,
		.words = mode_words,
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

static int kubelet_open(const struct host *host, bool watch, void **self)
{
	struct kubelet *kubelet = calloc(1, sizeof(*kubelet));

	(void)watch;
	if (!kubelet)
		return -ENOMEM;
	kubelet->sensor.host = host;
	*self = kubelet;
	return 0;
}

static int kubelet_configure(void *self, const struct config *config)
{
	struct kubelet *kubelet = self;

	kubelet->config.manage = config_bool(config, "kubelet.manage");
	return 0;
}

static void kubelet_sense_op(void *self)
{
	struct kubelet *kubelet = self;

	kubelet_sense(&kubelet->sensor, &kubelet->seen);
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

static struct cJSON *kubelet_document_op(const void *self, const void *memory, bool trusted)
{
	const struct kubelet *kubelet = self;

	(void)memory;
	(void)trusted;
	return kubelet_document(&kubelet->seen);
}

static void kubelet_close(void *self)
{
	struct kubelet *kubelet = self;

	kubelet_sensor_close(&kubelet->sensor);
	free(kubelet);
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
	.sense = kubelet_sense_op,
	.decide = kubelet_decide_op,
	.state = kubelet_state,
	.document_name = "kubelet",
	.document = kubelet_document_op,
	.close = kubelet_close,
};
