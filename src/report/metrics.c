/* SPDX-License-Identifier: Apache-2.0 */
#include "report/report.h"

#include "base/build.h"
#include "base/exposition.h"
#include "base/file.h"
#include "tuners/table.h"

#include <glob.h>
#include <sys/resource.h>

static void put_one(struct metric_sink *sink, const char *name, double value)
{
	metric_family(sink, name);
	metric_sample(sink, value, NULL);
}

static void put_limits(struct metric_sink *sink, const struct node *node)
{
	static const char *const names[] = {"headroom_limit_used", "headroom_limit_max",
		"headroom_limit_peak", "headroom_limit_hits_total"};

	metric_family(sink, "headroom_limit_info");
	for (size_t i = 0; i < node->n_limits; i++)
		metric_sample(sink, 1, node->limits[i].now.name, node->limits[i].now.unit, NULL);
	for (size_t f = 0; f < ARRAY_SIZE(names); f++) {
		metric_family(sink, names[f]);
		for (size_t i = 0; i < node->n_limits; i++) {
			const struct limit *limit = &node->limits[i];
			const uint64_t values[] = {
				limit->now.used, limit->now.max, limit->peak.used, limit->now.hits};

			if (f != 1 || limit->now.max > 0)
				metric_sample(sink, (double)values[f], limit->now.name, NULL);
		}
	}
	metric_family(sink, "headroom_limit_used_by_workload");
	for (size_t i = 0; i < node->n_limits; i++)
		if (!node->limits[i].now.idle)
			metric_users(sink, &node->limits[i].now);
}

static void put_tuners(struct metric_sink *sink, const struct node *node)
{
	metric_family(sink, "headroom_tuner_active");
	for (size_t i = 0; i < node->n_tuners; i++)
		metric_sample(sink, node->tuners[i].state == TUNER_ACTIVE,
			node->tuners[i].ops->name, NULL);
	metric_family(sink, "headroom_tuner_mode");
	for (size_t i = 0; i < node->n_tuners; i++)
		for (enum mode mode = MODE_ENFORCE; mode <= MODE_RELEASED; mode++)
			metric_sample(sink, node->tuners[i].mode == mode, node->tuners[i].ops->name,
				mode_names[mode], NULL);
	for (size_t i = 0; i < node->n_tuners; i++) {
		const struct tuner_status *tuner = &node->tuners[i];

		if (!tuner->ops->metrics || !tuner->self || tuner->state == TUNER_OFF)
			continue;
		sink->rows = tuner->ops->tables->metric_rows;
		tuner->ops->metrics(tuner->self, tuner->memory, sink);
	}
}

/* Writes the process_ metrics that every Prometheus client library exports. */
static void put_process(struct metric_sink *sink, uint64_t started_us)
{
	double page = (double)sysconf(_SC_PAGESIZE);
	glob_t descriptors = {0};
	_cleanup_free_ char *memory = NULL;
	uint64_t virtual, resident;
	struct rlimit limit;
	struct timespec ts;

	if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts) == 0)
		put_one(sink, "process_cpu_seconds_total",
			(double)ts.tv_sec + (double)ts.tv_nsec / (double)NSEC_PER_SEC);
	if (read_file("/proc/self/statm", 4096, &memory, NULL) == 0 &&
		sscanf(memory, "%" SCNu64 " %" SCNu64, &virtual, &resident) == 2) {
		put_one(sink, "process_virtual_memory_bytes", (double)virtual * page);
		put_one(sink, "process_resident_memory_bytes", (double)resident * page);
	}
	/* glob() itself has one descriptor open while it reads the directory. */
	if (glob("/proc/self/fd/*", GLOB_NOSORT, NULL, &descriptors) == 0)
		put_one(sink, "process_open_fds", (double)descriptors.gl_pathc - 1);
	globfree(&descriptors);
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
		put_one(sink, "process_max_fds", (double)limit.rlim_cur);
	put_one(sink, "process_start_time_seconds", (double)started_us / (double)USEC_PER_SEC);
}

void report_metrics(FILE *out, const struct node *node, bool openmetrics)
{
	static const char *const statuses[] = {[CONDITION_FALSE] = "false",
		[CONDITION_TRUE] = "true",
		[CONDITION_UNKNOWN] = "unknown"};
	struct metric_sink sink = {
		.out = out, .openmetrics = openmetrics, .rows = core_tables.metric_rows};
	char hash[16];

	metric_family(&sink, "headroom_build_info");
	metric_sample(&sink, 1, HEADROOM_VERSION, HEADROOM_COMMIT, NULL);
	snprintf(hash, sizeof(hash), "%08x", node->config_hash);
	metric_family(&sink, "headroom_config_info");
	metric_sample(&sink, 1, hash, NULL);
	put_one(&sink, "headroom_config_last_reload_successful", !node->reload_failed);
	put_one(&sink, "headroom_config_last_reload_success_timestamp_seconds",
		(double)node->reloaded_us / (double)USEC_PER_SEC);
	put_limits(&sink, node);
	metric_family(&sink, "headroom_setting_in_sync");
	for (size_t i = 0; i < node->n_settings; i++)
		metric_sample(
			&sink, setting_in_sync(&node->settings[i]), node->settings[i].name, NULL);
	metric_family(&sink, "headroom_setting_drift_total");
	for (size_t i = 0; i < node->n_settings; i++)
		metric_sample(
			&sink, (double)node->settings[i].drift.total, node->settings[i].name, NULL);
	metric_family(&sink, "headroom_condition");
	for (size_t i = 0; i < node->n_conditions; i++)
		for (size_t k = 0; k < ARRAY_SIZE(statuses); k++)
			metric_sample(&sink, node->conditions[i].status == k,
				node->conditions[i].type->name, statuses[k], NULL);
	metric_family(&sink, "headroom_condition_severity");
	for (size_t i = 0; i < node->n_conditions; i++) {
		const struct condition *condition = &node->conditions[i];

		metric_sample(&sink,
			condition->status == CONDITION_TRUE ? 1 + condition->severity : 0,
			condition->type->name, NULL);
	}
	put_tuners(&sink, node);
	sink.rows = core_tables.metric_rows;
	put_process(&sink, node->started_us);
	if (openmetrics)
		fputs("# EOF\n", out);
}
