/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_FAKE_NODE_H
#define TESTS_UNIT_FAKE_NODE_H

/* A node with something of everything, for the tests of the report. */

#include "base/exposition.h"
#include "base/util.h"
#include "model/node.h"

#define FAKE_NODE_USED 81234

enum { FAKE_PRESSURE, FAKE_OVERFLOW, FAKE_ADVICE, FAKE_CONDITIONS };

struct fake_node {
	struct node node;
	struct setting settings[3];
	struct limit limits[2];
	struct tuner_status tuners[2];
	struct condition conditions[FAKE_CONDITIONS];
};

static void fake_metrics(const void *self, const void *memory, struct metric_sink *sink)
{
	(void)memory;
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
static const struct tuner_ops fake_tuner = {.name = "neighbor",
	.metrics = fake_metrics,
	.metric_rows = fake_metric_rows,
	.conditions = fake_conditions};
static const struct tuner_ops fake_mute = {.name = "thp"};

static inline void fake_workload(struct limit_user *user, enum workload_kind kind,
	const char *namespace, const char *name, const char *id, uint64_t used)
{
	user->workload.kind = kind;
	copy_text(user->workload.namespace, sizeof(user->workload.namespace), namespace);
	copy_text(user->workload.name, sizeof(user->workload.name), name);
	copy_text(user->workload.id, sizeof(user->workload.id), id);
	user->used = used;
}

static inline void fake_limits(struct fake_node *fake)
{
	struct limit *limit = fake->limits;

	limit[0] = (struct limit){.peak = 90000, .rate = 10, .hits_before = 7};
	limit[0].seen_at_us = 60 * USEC_PER_SEC;
	copy_text(limit[0].now.name, LIMIT_NAME_MAX, "neighbor/ipv4");
	limit[0].now.unit = "entries";
	limit[0].now.used = FAKE_NODE_USED;
	limit[0].now.max = 100000;
	limit[0].now.hits = 7;
	limit[0].now.n_top = 4;
	fake_workload(&limit[0].now.top[0], WORKLOAD_POD, "kube-system", "coredns-x", "uid", 50000);
	fake_workload(&limit[0].now.top[1], WORKLOAD_CONTAINER, "", "twin", "a", 20000);
	fake_workload(&limit[0].now.top[2], WORKLOAD_CONTAINER, "", "twin", "b", 10000);
	fake_workload(&limit[0].now.top[3], WORKLOAD_NETNS, "", "", "4026531840", 1000);
	limit[1] = (struct limit){.peak = 5, .seen_at_us = 1};
	copy_text(limit[1].now.name, LIMIT_NAME_MAX, "neighbor/ipv6");
	limit[1].now.unit = "entries";
	limit[1].now.used = 5;
	limit[1].now.max = 100000;
	limit[1].now.upper_bound = true;
}

static inline void fake_setting(struct setting *setting, const char *name, const char *wanted,
	const char *actual, enum setting_state state)
{
	copy_text(setting->name, sizeof(setting->name), name);
	copy_text(setting->wanted, sizeof(setting->wanted), wanted);
	copy_text(setting->actual, sizeof(setting->actual), actual);
	setting->tuner = "neighbor";
	setting->reason = "below-configured";
	setting->state = state;
}

/* fake must not move afterwards. */
static inline void fake_node_make(struct fake_node *fake)
{
	static int self = 42;
	struct condition *pressure;

	*fake = (struct fake_node){0};
	fake_limits(fake);
	fake_setting(&fake->settings[0], "net.ipv4.neigh.default.gc_thresh3", "100000", "100000",
		SETTING_IN_SYNC);
	copy_text(fake->settings[0].original, sizeof(fake->settings[0].original), "1024");
	fake_setting(&fake->settings[1], "vm.max_map_count", "262144", "65530", SETTING_DRIFTED);
	fake->settings[1].drift_total = 3;
	fake_setting(&fake->settings[2], "thp.enabled", "never", "madvise", SETTING_OBSERVED);
	fake->settings[2].mode = MODE_OBSERVE;
	fake->tuners[0] =
		(struct tuner_status){.ops = &fake_tuner, .self = &self, .state = TUNER_ACTIVE};
	fake->tuners[1] = (struct tuner_status){
		.ops = &fake_mute, .state = TUNER_DEGRADED, .why = "no /sys/kernel/mm: mount it"};
	copy_text(fake->node.name, sizeof(fake->node.name), "node-1");
	fake->node.applied = true;
	fake->node.started_us = UINT64_C(1714564800000000); /* 2024-05-01T12:00:00Z */
	fake->node.limits = fake->limits;
	fake->node.n_limits = 2;
	fake->node.settings = fake->settings;
	fake->node.n_settings = 3;
	fake->node.tuners = fake->tuners;
	fake->node.n_tuners = 2;
	fake->node.conditions = fake->conditions;
	fake->node.n_conditions = FAKE_CONDITIONS;
	for (int i = 0; i < FAKE_CONDITIONS; i++)
		fake->conditions[i].now.type = &fake_conditions[i];
	pressure = &fake->conditions[FAKE_PRESSURE];
	pressure->now.status = CONDITION_TRUE;
	pressure->now.reason = "neighbor-near-full";
	copy_text(pressure->now.message, sizeof(pressure->now.message), "81 % full");
	pressure->since_us = fake->node.started_us;
}

/* What put writes of a node; the caller's. */
static inline char *written_by(
	void (*put)(FILE *out, const struct node *node), const struct node *node)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	put(out, node);
	fclose(out);
	return text;
}

#endif
