/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A node with limits, settings, tuners and conditions, for the tests of the report. */

#include "base/exposition.h"
#include "base/util.h"
#include "model/node.h"

#define FAKE_NODE_USED 81234

enum { FAKE_PRESSURE, FAKE_OVERFLOW, FAKE_ADVICE, FAKE_CONDITIONS };

struct fake_node {
	struct node node;
	struct setting settings[3];
	struct limit limits[2];
	struct limit_user users[4];
	struct tuner_status tuners[2];
	struct condition conditions[FAKE_CONDITIONS];
	struct finding findings[1];
};

static void fake_metrics(const void *self, const void *, struct metric_sink *sink)
{
	metric_family(sink, "headroom_fake_entries");
	metric_sample(sink, *(const int *)self, "ipv4", NULL);
	metric_family(sink, "headroom_fake_unlisted");
	metric_sample(sink, 1, NULL);
}

static const struct condition_type fake_conditions[] = {
	[FAKE_PRESSURE] = {"FakePressure", SEVERITY_WARNING, "The fake fills.", NULL},
	[FAKE_OVERFLOW] = {"FakeOverflow", SEVERITY_CRITICAL, "The fake is full.", NULL},
	[FAKE_ADVICE] = {"FakeAdvice", SEVERITY_ADVICE, "The fake could be larger.", NULL},
	{0},
};
static const struct metric_row fake_metric_rows[] = {
	{"headroom_fake_entries", METRIC_GAUGE, NULL, "Entries of a fake.", {"family"}},
	{0},
};
static const struct tuner_tables fake_tables = {
	.metric_rows = fake_metric_rows, .conditions = fake_conditions};
static const struct tuner_ops fake_tuner = {
	.name = "neighbor", .tables = &fake_tables, .metrics = fake_metrics};
static const struct tuner_ops fake_mute = {.name = "thp", .tables = &(struct tuner_tables){0}};

static char fake_message[320] = "81 % full";

static const struct fake_node fake_template = {
	.node = {.name = "node-1",
		.applied = true,
		.started_us = UINT64_C(1714564800000000), /* 2024-05-01T12:00:00Z */
		.n_limits = 2,
		.n_settings = 3,
		.n_tuners = 2,
		.n_conditions = FAKE_CONDITIONS},
	.settings =
		{
			{"net.ipv4.neigh.default.gc_thresh3", "neighbor", "100000", "100000",
				"1024", .state = SETTING_IN_SYNC, .reason = REASON_CONFIGURED},
			{"vm.max_map_count", "neighbor", "262144", "65530", "",
				.state = SETTING_DRIFTED, .reason = REASON_CONFIGURED,
				.drift = {.total = 3}},
			{"thp.enabled", "neighbor", "never", "madvise", "", MODE_OBSERVE,
				SETTING_OBSERVED, .reason = REASON_CONFIGURED},
		},
	.limits =
		{
			{{"neighbor/ipv4", "entries", FAKE_NODE_USED, 100000, .hits = 7,
				 .n_top = 4},
				{.used = 90000}, .rate = 10, .hits_before = 7,
				.seen_at_us = 60 * USEC_PER_SEC},
			{{"neighbor/ipv6", "entries", 5, 100000, .upper_bound = true}, {.used = 5},
				.seen_at_us = 1},
		},
	.users = {{{WORKLOAD_POD, "kube-system", "coredns-x", "uid"}, 50000},
		{{WORKLOAD_CONTAINER, "", "twin", "a"}, 20000},
		{{WORKLOAD_CONTAINER, "", "twin", "b"}, 10000},
		{{WORKLOAD_NETNS, "", "", "4026531840"}, 1000}},
	.tuners = {{.ops = &fake_tuner, .state = TUNER_ACTIVE},
		{.ops = &fake_mute, .state = TUNER_DEGRADED, .why = "no /sys/kernel/mm: mount it"}},
	.conditions = {[FAKE_PRESSURE] = {.type = &fake_conditions[FAKE_PRESSURE],
			       .status = CONDITION_TRUE,
			       .severity = SEVERITY_WARNING,
			       .reason = REASON_NEAR_FULL,
			       .slug = "near-full",
			       .message = fake_message,
			       .since_us = UINT64_C(1714564800000000)},
		[FAKE_OVERFLOW] = {.type = &fake_conditions[FAKE_OVERFLOW],
			.severity = SEVERITY_CRITICAL},
		[FAKE_ADVICE] = {.type = &fake_conditions[FAKE_ADVICE]}},
};

/* fake must not move after this call. */
static inline void fake_node_make(struct fake_node *fake)
{
	static int self = 42;

	*fake = fake_template;
	fake->tuners[0].self = &self;
	fake->node.limits = fake->limits;
	fake->limits[0].now.top = fake->users;
	fake->node.settings = fake->settings;
	fake->node.tuners = fake->tuners;
	fake->node.conditions = fake->conditions;
}

/* Adds a finding of the node. */
static inline struct finding *fake_node_find(
	struct fake_node *fake, const struct condition_type *condition, const char *slug)
{
	struct finding *finding = &fake->findings[0];

	*finding = (struct finding){.condition = condition,
		.severity = condition->severity,
		.tuner = "neighbor",
		.phase = FINDING_HAPPENS};
	set_text(finding->slug, slug);
	fake->node.findings = (struct finding_list){.findings = finding, .n = 1};
	return finding;
}
