/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/thp/thp.h"

#include "base/util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

static int decide_switch(const struct thp_switch *s, const struct thp_seen *seen,
	const struct thp_config *config, struct proposal *proposal)
{
	const char *wanted = config->wanted[s->kind];
	struct value_want *want = proposal_value(proposal);

	if (!want)
		return -ENOMEM;
	copy_text(want->name, SETTING_NAME_MAX, s->name);
	want->target.kind = VALUE_FILE;
	copy_text(want->target.path, SETTING_PATH_MAX, s->file.path);
	copy_text(want->actual, SETTING_VALUE_MAX, s->actual);
	copy_text(want->wanted, SETTING_VALUE_MAX, wanted);
	want->error = s->error;
	want->reason = wanted[0] == '\0'        ? "kept"
		       : seen->at_boot[s->kind] ? "configured-over-boot-line"
						: "configured";
	return 0;
}

/* The pages that the configuration says should not be: anonymous, shared, or none. */
static uint64_t unwanted_kb(const struct thp_usage *usage, const struct thp_config *config)
{
	const char *shmem = config->wanted[THP_SHMEM_ENABLED];
	uint64_t kb = 0;

	if (streq(config->wanted[THP_ENABLED], "never"))
		kb += usage->anon;
	if (streq(shmem, "never") || streq(shmem, "deny"))
		kb += usage->shmem;
	return kb;
}

static void describe_usage(const struct thp_seen *seen, char *message, size_t size)
{
	const struct thp_usage *usage = &seen->usage;
	int used = snprintf(message, size,
		"AnonHugePages %" PRIu64 " kB, ShmemHugePages %" PRIu64 " kB", usage->anon,
		usage->shmem);

	if (usage->file > 0)
		used += snprintf(message + used, size - (size_t)used,
			", FileHugePages %" PRIu64 " kB (the file systems' own)", usage->file);
	if (seen->boot_line[0])
		snprintf(message + used, size - (size_t)used, "; boot line: %s", seen->boot_line);
}

static int decide_condition(
	const struct thp_seen *seen, const struct thp_config *config, struct proposal *proposal)
{
	struct condition_reading *condition = proposal_condition(proposal);

	if (!condition)
		return -ENOMEM;
	condition->type = &thp_conditions[THP_ACTIVE];
	if (seen->usage_error < 0) {
		condition->status = CONDITION_UNKNOWN;
		condition->reason = "meminfo-unavailable";
		snprintf(condition->message, sizeof(condition->message), "/proc/meminfo: %s",
			strerror(-seen->usage_error));
		return 0;
	}
	describe_usage(seen, condition->message, sizeof(condition->message));
	condition->status = CONDITION_FALSE;
	condition->reason =
		seen->usage.anon + seen->usage.shmem > 0 ? "wanted-in-use" : "none-in-use";
	if (unwanted_kb(&seen->usage, config) > 0) {
		condition->status = CONDITION_TRUE;
		condition->reason = "still-mapped";
	}
	return 0;
}

int thp_decide(
	const struct thp_seen *seen, const struct thp_config *config, struct proposal *proposal)
{
	for (unsigned i = 0; i < seen->n_switches; i++) {
		int r = decide_switch(&seen->switches[i], seen, config, proposal);

		if (r < 0)
			return r;
	}
	return decide_condition(seen, config, proposal);
}
