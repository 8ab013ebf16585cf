/* SPDX-License-Identifier: Apache-2.0 */
#include "report/report.h"

#include "base/build.h"
#include "base/exposition.h"
#include "base/text.h"
#include "base/util.h"
#include "report/process.h"

struct metrics_text {
	const struct node *node;
	bool openmetrics;
};

static void put_build(struct metric_sink *sink)
{
	metric_family(sink, "headroom_build_info", METRIC_GAUGE,
		"The running agent: always 1, with its version and commit.");
	metric_sample(sink, 1, "version", HEADROOM_VERSION, "commit", HEADROOM_COMMIT, NULL);
}

/* A namespace without a better name is told by its inode. */
static const char *user_name(const struct workload *workload)
{
	return workload->name[0] ? workload->name : workload->id;
}

static bool same_labels(const struct workload *a, const struct workload *b)
{
	return a->kind == b->kind && streq(a->namespace, b->namespace) &&
	       streq(user_name(a), user_name(b));
}

/*
 * Two workloads may differ in nothing but their id, which is no label: what they use is summed, as
 * a series that came twice would void the scrape. 0 for one that an earlier sum contains.
 */
static bool user_sum(const struct limit_reading *reading, unsigned i, double *sum)
{
	const struct workload *workload = &reading->top[i].workload;

	for (unsigned k = 0; k < i; k++)
		if (same_labels(&reading->top[k].workload, workload))
			return false;
	*sum = 0;
	for (unsigned k = i; k < reading->n_top; k++)
		if (same_labels(&reading->top[k].workload, workload))
			*sum += (double)reading->top[k].used;
	return true;
}

static void put_users(struct metric_sink *sink, const struct limit_reading *reading)
{
	double told = 0, sum;

	for (unsigned i = 0; i < reading->n_top; i++) {
		const struct workload *workload = &reading->top[i].workload;

		told += (double)reading->top[i].used;
		if (user_sum(reading, i, &sum))
			metric_sample(sink, sum, "limit", reading->name, "kind",
				workload_kind_name(workload->kind), "namespace",
				workload->namespace, "name", user_name(workload), NULL);
	}
	if (reading->n_top > 0 && told < (double)reading->used)
		metric_sample(sink, (double)reading->used - told, "limit", reading->name, "kind",
			"other", "namespace", "", "name", "other", NULL);
}

static double limit_used(const struct limit *limit)
{
	return (double)limit->now.used;
}

static double limit_max(const struct limit *limit)
{
	return (double)limit->now.max;
}

static double limit_peak(const struct limit *limit)
{
	return (double)limit->peak;
}

static double limit_hits(const struct limit *limit)
{
	return (double)limit->now.hits;
}

static void put_limits(struct metric_sink *sink, const struct node *node)
{
	static const struct {
		const char *name;
		enum metric_type type;
		const char *help;
		double (*value)(const struct limit *limit);
	} families[] = {
		{"headroom_limit_used", METRIC_GAUGE, "How much of the limit is in use.",
			limit_used},
		{"headroom_limit_max", METRIC_GAUGE, "The limit itself.", limit_max},
		{"headroom_limit_peak", METRIC_GAUGE,
			"The largest use seen since the agent started.", limit_peak},
		{"headroom_limit_hits_total", METRIC_COUNTER,
			"Times that the limit was struck since boot.", limit_hits},
	};

	for (size_t f = 0; f < ARRAY_SIZE(families); f++) {
		metric_family(sink, families[f].name, families[f].type, families[f].help);
		for (size_t i = 0; i < node->n_limits; i++)
			metric_sample(sink, families[f].value(&node->limits[i]), "limit",
				node->limits[i].now.name, NULL);
	}
	metric_family(sink, "headroom_limit_used_by_workload", METRIC_GAUGE,
		"Who uses most of the limit; everyone else is summed under kind other.");
	for (size_t i = 0; i < node->n_limits; i++)
		put_users(sink, &node->limits[i].now);
}

static void put_settings(struct metric_sink *sink, const struct node *node)
{
	metric_family(sink, "headroom_setting_in_sync", METRIC_GAUGE,
		"1 while the value read back is the wanted one.");
	for (size_t i = 0; i < node->n_settings; i++)
		metric_sample(sink, node->settings[i].state == SETTING_IN_SYNC, "setting",
			node->settings[i].want.name, NULL);
	metric_family(sink, "headroom_setting_drift_total", METRIC_COUNTER,
		"Times that someone else changed the setting.");
	for (size_t i = 0; i < node->n_settings; i++)
		metric_sample(sink, (double)node->settings[i].drift_total, "setting",
			node->settings[i].want.name, NULL);
}

static void put_conditions(struct metric_sink *sink, const struct node *node)
{
	static const struct {
		enum condition_status status;
		const char *label;
	} statuses[] = {
		{CONDITION_TRUE, "true"},
		{CONDITION_FALSE, "false"},
		{CONDITION_UNKNOWN, "unknown"},
	};

	metric_family(sink, "headroom_condition", METRIC_GAUGE,
		"A statement about the node: the series of its status is 1. True is a problem.");
	for (int i = 0; i < CONDITION_TYPES; i++)
		for (size_t k = 0; k < ARRAY_SIZE(statuses); k++)
			metric_sample(sink, node->conditions[i].now.status == statuses[k].status,
				"condition", condition_name((enum condition_type)i), "status",
				statuses[k].label, NULL);
}

static void put_tuners(struct metric_sink *sink, const struct node *node)
{
	metric_family(sink, "headroom_tuner_active", METRIC_GAUGE,
		"1 while the tuner does everything it can do, 0 while it is degraded or off.");
	for (size_t i = 0; i < node->n_tuners; i++)
		metric_sample(sink, node->tuners[i].state == TUNER_ACTIVE, "tuner",
			node->tuners[i].ops->name, NULL);
	for (size_t i = 0; i < node->n_tuners; i++) {
		const struct tuner_status *tuner = &node->tuners[i];

		if (tuner->ops->metrics && tuner->self && tuner->state != TUNER_OFF)
			tuner->ops->metrics(tuner->self, tuner->memory, sink);
	}
}

static void put_metrics(FILE *out, void *data)
{
	const struct metrics_text *text = data;
	struct metric_sink sink = {.out = out, .openmetrics = text->openmetrics};

	put_build(&sink);
	put_limits(&sink, text->node);
	put_settings(&sink, text->node);
	put_conditions(&sink, text->node);
	put_tuners(&sink, text->node);
	process_metrics(&sink, text->node->started_us);
	metric_end(&sink);
}

int report_metrics(const struct node *node, bool openmetrics, char **ret, size_t *len)
{
	struct metrics_text text = {.node = node, .openmetrics = openmetrics};

	return document_text(put_metrics, &text, ret, len);
}
