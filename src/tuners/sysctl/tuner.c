/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/sysctl/sysctl.h"
#include "tuners/table.h"

#include "base/util.h"
#include "kernel/sysctl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct sysctl {
	const struct host *host;
	struct sysctl_key *keys;
	size_t n;
	char write_why[TUNER_WHY_MAX]; /* empty when /proc/sys can be written */
};

const struct config_option sysctl_options[] = {
	{
		.name = "sysctl",
		.type = OPTION_SYSCTLS,
		.sentence =
			"Sysctls and their values, beside those of the profile. A value only raises; "
			"{value: V, exact: true} sets it exactly; null leaves a key of the profile alone.",
	},
	{
		.name = "sysctl.mode",
		.type = OPTION_CHOICE,
		.words = tuner_mode_words,
		.sentence = "The mode of the sysctl tuner; empty: the agent's.",
	},
	{0},
};

static int sysctl_open(const struct host *host, bool watch, void **self)
{
	/* In every kernel, and only a read-only mount keeps root from writing it. */
	static const char probe[] = "/proc/sys/vm/max_map_count";
	struct sysctl *sysctl = calloc(1, sizeof(*sysctl));
	int r;

	(void)watch;
	if (!sysctl)
		return -ENOMEM;
	sysctl->host = host;
	r = host_may_write(host, probe);
	if (r < 0)
		snprintf(sysctl->write_why, TUNER_WHY_MAX,
			"%s: %s: run as root with a writable /proc/sys", probe, strerror(-r));
	*self = sysctl;
	return 0;
}

static void drop_keys(struct sysctl *sysctl)
{
	for (size_t i = 0; i < sysctl->n; i++)
		kept_close(&sysctl->keys[i].file);
	free(sysctl->keys);
	sysctl->keys = NULL;
	sysctl->n = 0;
}

static int sysctl_configure(void *self, const struct config *config)
{
	struct sysctl *sysctl = self;
	size_t n;
	const struct config_sysctl *wanted = config_sysctls(config, &n);

	drop_keys(sysctl);
	sysctl->keys = calloc(n > 0 ? n : 1, sizeof(*sysctl->keys));
	if (!sysctl->keys)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		struct sysctl_key *key = &sysctl->keys[i];

		copy_text(key->name, SETTING_NAME_MAX, wanted[i].name);
		copy_text(key->configured, SETTING_VALUE_MAX, wanted[i].value);
		key->exact = wanted[i].exact;
		key->from_profile = wanted[i].place.line == 0;
		key->file.fd = -1;
		sysctl_path(key->name, key->file.path);
	}
	sysctl->n = n;
	return 0;
}

static void sysctl_sense(void *self)
{
	struct sysctl *sysctl = self;

	for (size_t i = 0; i < sysctl->n; i++) {
		struct sysctl_key *key = &sysctl->keys[i];

		key->error = kept_read_value(sysctl->host, &key->file, key->actual);
	}
}

static int sysctl_decide_op(
	const void *self, const struct decide_input *input, void *memory, struct proposal *proposal)
{
	const struct sysctl *sysctl = self;

	(void)memory;
	return sysctl_decide(sysctl->keys, sysctl->n, input, proposal);
}

static enum tuner_state sysctl_state(const void *self, char why[static TUNER_WHY_MAX])
{
	const struct sysctl *sysctl = self;

	copy_text(why, TUNER_WHY_MAX, sysctl->n > 0 ? sysctl->write_why : "");
	return why[0] ? TUNER_DEGRADED : TUNER_ACTIVE;
}

static void sysctl_close(void *self)
{
	struct sysctl *sysctl = self;

	drop_keys(sysctl);
	free(sysctl);
}

const struct tuner_ops sysctl_tuner = {
	.name = "sysctl",
	.summary = "Raises the sysctls of the profile and of the configuration.",
	.options = sysctl_options,
	.capabilities = sysctl_capabilities,
	.open = sysctl_open,
	.configure = sysctl_configure,
	.sense = sysctl_sense,
	.decide = sysctl_decide_op,
	.state = sysctl_state,
	.close = sysctl_close,
};
