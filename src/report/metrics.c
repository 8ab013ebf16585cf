/* SPDX-License-Identifier: Apache-2.0 */
#include "report/report.h"

#include "base/build.h"
#include "base/exposition.h"
#include "base/text.h"
#include "base/util.h"
#include "report/process.h"
#include "tuners/table.h"

struct metrics_text {
	const struct node *node;
	bool openmetrics;
};

static void put_agent(struct metric_sink *sink, const struct node *node)
{
	char hash[16];

	metric_family(sink, "headroom_build_info");
	metric_sample(sink, 1, HEADROOM_VERSION, HEADROOM_COMMIT, NULL);
	snprintf(hash, sizeof(hash), "%08x", node->config_hash);
	metric_family(sink, "headroom_config_info");
	metric_sample(sink, 1, hash, NULL);
	metric_family(sink, "headroom_config_last_reload_successful");
	metric_sample(sink, !node->reload_failed, NULL);
	metric_family(sink, "headroom_config_last_reload_success_timestamp_seconds");
	metric_sample(sink, (double)node->reloaded_us / (double)USEC_PER_SEC, NULL);
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
			metric_sample(sink, sum, reading->name, workload_kind_name(workload->kind),
				workload->namespace, user_name(workload), NULL);
	}
	if (reading->n_top > 0 && told < (double)reading->used)
		metric_sample(sink, (double)reading->used - told, reading->name, "other", "",
			"other", NULL);
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
		double (*value)(const struct limit *limit);
	} families[] = {
		{"headroom_limit_used", limit_used},
		{"headroom_limit_max", limit_max},
		{"headroom_limit_peak", limit_peak},
		{"headroom_limit_hits_total", limit_hits},
	};

	metric_family(sink, "headroom_limit_info");
	for (size_t i = 0; i < node->n_limits; i++)
		metric_sample(sink, 1, node->limits[i].now.name, node->limits[i].now.unit, NULL);
	for (size_t f = 0; f < ARRAY_SIZE(families); f++) {
		metric_family(sink, families[f].name);
		for (size_t i = 0; i < node->n_limits; i++)
			metric_sample(sink, families[f].value(&node->limits[i]),
				node->limits[i].now.name, NULL);
	}
	metric_family(sink, "headroom_limit_used_by_workload");
	for (size_t i = 0; i < node->n_limits; i++)
		put_users(sink, &node->limits[i].now);
}

static void put_settings(struct metric_sink *sink, const struct node *node)
{
	metric_family(sink, "headroom_setting_in_sync");
	for (size_t i = 0; i < node->n_settings; i++)
		metric_sample(
			sink, setting_in_sync(&node->settings[i]), node->settings[i].name, NULL);
	metric_family(sink, "headroom_setting_drift_total");
	for (size_t i = 0; i < node->n_settings; i++)
		metric_sample(
			sink, (double)node->settings[i].drift_total, node->settings[i].name, NULL);
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

	metric_family(sink, "headroom_condition");
	for (size_t i = 0; i < node->n_conditions; i++)
		for (size_t k = 0; k < ARRAY_SIZE(statuses); k++)
			metric_sample(sink, node->conditions[i].now.status == statuses[k].status,
				node->conditions[i].now.type->name, statuses[k].label, NULL);
}

static void put_tuners(struct metric_sink *sink, const struct node *node)
{
	static const enum mode modes[] = {MODE_ENFORCE, MODE_OBSERVE, MODE_OFF, MODE_RELEASED};

	metric_family(sink, "headroom_tuner_active");
	for (size_t i = 0; i < node->n_tuners; i++)
		metric_sample(sink, node->tuners[i].state == TUNER_ACTIVE,
			node->tuners[i].ops->name, NULL);
	metric_family(sink, "headroom_tuner_mode");
	for (size_t i = 0; i < node->n_tuners; i++)
		for (size_t m = 0; m < ARRAY_SIZE(modes); m++)
			metric_sample(sink, node->tuners[i].mode == modes[m],
				node->tuners[i].ops->name, mode_name(modes[m]), NULL);
	for (size_t i = 0; i < node->n_tuners; i++) {
		const struct tuner_status *tuner = &node->tuners[i];

		if (!tuner->ops->metrics || !tuner->self || tuner->state == TUNER_OFF)
			continue;
		sink->rows = tuner->ops->metric_rows;
		tuner->ops->metrics(tuner->self, tuner->memory, sink);
	}
}

static void put_metrics(FILE *out, void *data)
{
	const struct metrics_text *text = data;
	struct metric_sink sink = {
		.out = out, .openmetrics = text->openmetrics, .rows = core_tables.metric_rows};

	put_agent(&sink, text->node);
	put_limits(&sink, text->node);
	put_settings(&sink, text->node);
	put_conditions(&sink, text->node);
	put_tuners(&sink, text->node);
	sink.rows = core_tables.metric_rows;
	process_metrics(&sink, text->node->started_us);
	metric_end(&sink);
}

int report_metrics(const struct node *node, bool openmetrics, char **ret, size_t *len)
{
	struct metrics_text text = {.node = node, .openmetrics = openmetrics};

	return document_text(put_metrics, &text, ret, len);
}
