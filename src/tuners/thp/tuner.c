/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/table.h"
#include "tuners/thp/thp.h"

#include "base/util.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct thp {
	struct thp_sensor sensor;
	struct thp_seen seen;
	struct thp_config config;
	char write_why[TUNER_WHY_MAX]; /* empty when the switches can be written */
};

static const char *const enabled_words[] = {"never", "madvise", "always", "keep", NULL};
static const char *const defrag_words[] = {
	"never", "madvise", "defer", "defer+madvise", "always", "keep", NULL};
static const char *const shmem_words[] = {
	"never", "advise", "within_size", "always", "deny", "force", "keep", NULL};
static const char *const khugepaged_words[] = {"false", "true", "keep", NULL};
static const char *const sizes_words[] = {"never", "inherit", "madvise", "always", "keep", NULL};

#define CHOICE(title, of, preset, help)                                                  \
	{                                                                                \
		.name = "thp." title, .type = OPTION_CHOICE, .words = of, .def = preset, \
		.sentence = help                                                         \
	}

const struct config_option thp_options[] = {
	CHOICE("mode", tuner_mode_words, NULL, "This tuner's own mode; empty: the agent's."),
	CHOICE("enabled", enabled_words, "never",
		"Huge pages for anonymous memory; keep leaves what the node has."),
	CHOICE("defrag", defrag_words, "never",
		"Whether a page fault stalls to compact memory for a huge page."),
	CHOICE("shmem", shmem_words, "never",
		"Huge pages for the kernel's internal shared memory mount (shmem_enabled)."),
	CHOICE("khugepaged_defrag", khugepaged_words, "false",
		"Whether khugepaged compacts memory to make huge pages (khugepaged/defrag)."),
	CHOICE("sizes", sizes_words, "never",
		"The switches of each page size, hugepages-*kB/enabled and shmem_enabled, from Linux "
		"6.8."),
	{0},
};

static int thp_open(const struct host *host, bool watch, void **self)
{
	struct thp *thp = calloc(1, sizeof(*thp));
	int r;

	(void)watch;
	if (!thp)
		return -ENOMEM;
	thp_sensor_open(&thp->sensor, host, &thp->seen);
	r = host_may_write(host, THP_DIRECTORY "/enabled");
	/* A kernel without huge pages has none to switch off: nothing is missing. */
	if (r < 0 && r != -ENOENT)
		snprintf(thp->write_why, TUNER_WHY_MAX,
			THP_DIRECTORY "/enabled: %s: run as uid 0 with a writable " THP_DIRECTORY
				      " (ProtectKernelTunables=no, or a hostPath)",
			strerror(-r));
	*self = thp;
	return 0;
}

static void take_choice(struct thp_config *thp, enum thp_switch_kind kind,
	const struct config *config, const char *name)
{
	const struct config_option *option = option_find(option_tables, name);
	const char *word = option->words[config_choice(config, name)];

	if (streq(word, "keep"))
		word = "";
	else if (kind == THP_KHUGEPAGED_DEFRAG)
		word = streq(word, "true") ? "1" : "0";
	else if (kind == THP_SIZE_SHMEM_ENABLED && streq(word, "madvise"))
		word = "advise"; /* shared memory's word for the same */
	copy_text(thp->wanted[kind], sizeof(thp->wanted[kind]), word);
}

static int thp_configure(void *self, const struct config *config)
{
	struct thp *thp = self;

	take_choice(&thp->config, THP_ENABLED, config, "thp.enabled");
	take_choice(&thp->config, THP_DEFRAG, config, "thp.defrag");
	take_choice(&thp->config, THP_SHMEM_ENABLED, config, "thp.shmem");
	take_choice(&thp->config, THP_KHUGEPAGED_DEFRAG, config, "thp.khugepaged_defrag");
	take_choice(&thp->config, THP_SIZE_ENABLED, config, "thp.sizes");
	take_choice(&thp->config, THP_SIZE_SHMEM_ENABLED, config, "thp.sizes");
	return 0;
}

static void thp_sense_op(void *self)
{
	struct thp *thp = self;

	thp_sense(&thp->sensor, &thp->seen);
}

static int thp_decide_op(
	const void *self, const struct decide_input *input, void *memory, struct proposal *proposal)
{
	const struct thp *thp = self;

	(void)input;
	(void)memory;
	return thp_decide(&thp->seen, &thp->config, proposal);
}

static enum tuner_state thp_state(const void *self, char why[static TUNER_WHY_MAX])
{
	const struct thp *thp = self;

	copy_text(why, TUNER_WHY_MAX, thp->write_why);
	return why[0] ? TUNER_DEGRADED : TUNER_ACTIVE;
}

static void thp_close(void *self)
{
	struct thp *thp = self;

	thp_sensor_close(&thp->sensor, &thp->seen);
	free(thp);
}

const struct tuner_ops thp_tuner = {
	.name = "thp",
	.summary =
		"Switches transparent huge pages off, every page size, and reports what is still in use.",
	.options = thp_options,
	.explanations = thp_explanations,
	.conditions = thp_conditions,
	.reasons = thp_reasons,
	.open = thp_open,
	.configure = thp_configure,
	.sense = thp_sense_op,
	.decide = thp_decide_op,
	.state = thp_state,
	.close = thp_close,
};
