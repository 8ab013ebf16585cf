/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/thp/thp.h"

/* Growth is reported for as long as a dashboard and an alert need to see it. */
#define GROWTH_WINDOW_US (300 * USEC_PER_SEC)

static void decide_switch(
	const struct thp *thp, const struct thp_switch *s, struct proposal *proposal)
{
	const char *wanted = thp->wanted[s->kind];
	struct want *want = proposal_value(proposal);

	copy_text(want->name, SETTING_NAME_MAX, s->name);
	want->target.kind = VALUE_FILE;
	copy_text(want->target.path, SETTING_PATH_MAX, s->file.path);
	copy_text(want->actual, SETTING_VALUE_MAX, s->actual);
	copy_text(want->wanted, SETTING_VALUE_MAX, wanted);
	want->error = s->error;
	want->requested = thp->requested[s->kind];
	want->reason = wanted[0] == '\0'       ? "kept"
		       : thp->at_boot[s->kind] ? "configured-over-boot-line"
					       : "configured";
}

/* The pages that the configuration says should not be: anonymous, shared, or none. */
static uint64_t unwanted_kb(const struct thp *thp, const struct thp_usage *usage)
{
	const char *shmem = thp->wanted[THP_SHMEM_ENABLED];
	uint64_t kb = 0;

	if (streq(thp->wanted[THP_ENABLED], "never"))
		kb += usage->anon;
	if (streq(shmem, "never") || streq(shmem, "deny"))
		kb += usage->shmem;
	return kb;
}

/* What was mapped before the switch and only becomes less is nothing to warn of. */
static bool is_growing(const struct thp *thp, struct thp_memory *memory, uint64_t now)
{
	if (memory->seen && unwanted_kb(thp, &thp->usage) > unwanted_kb(thp, &memory->usage))
		memory->grown_at_us = now;
	memory->seen = true;
	memory->usage = thp->usage;
	return memory->grown_at_us > 0 && now - memory->grown_at_us < GROWTH_WINDOW_US;
}

static void decide_condition(
	const struct thp *thp, struct thp_memory *memory, uint64_t now, struct proposal *proposal)
{
	const struct thp_usage *usage = &thp->usage;
	struct condition_reading *condition = proposal_condition(proposal, thp_conditions,
		usage->anon + usage->shmem > 0 ? "wanted-in-use" : "none-in-use");
	bool growing;

	if (thp->usage_error < 0) {
		condition->status = CONDITION_UNKNOWN;
		condition->reason = "meminfo-unavailable";
		condition_append(condition, "/proc/meminfo: %s", strerror(-thp->usage_error));
		return;
	}
	growing = is_growing(thp, memory, now);
	condition_append(condition, "AnonHugePages %" PRIu64 " kB, ShmemHugePages %" PRIu64 " kB",
		usage->anon, usage->shmem);
	if (usage->file > 0)
		condition_append(condition,
			", FileHugePages %" PRIu64 " kB (the file systems' own)", usage->file);
	if (thp->boot_line[0])
		condition_append(condition, "; boot line: %s", thp->boot_line);
	if (unwanted_kb(thp, usage) > 0) {
		condition->status = CONDITION_TRUE;
		condition->advice = !growing;
		condition->reason = condition->advice ? "still-mapped" : "growing-though-off";
	}
}

void thp_decide(
	const void *self, const struct decide_input *input, void *memory, struct proposal *proposal)
{
	const struct thp *thp = self;

	for (unsigned i = 0; i < thp->n_switches; i++)
		decide_switch(thp, &thp->switches[i], proposal);
	decide_condition(thp, memory, input->now_us, proposal);
}
