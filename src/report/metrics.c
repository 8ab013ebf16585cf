/* SPDX-License-Identifier: Apache-2.0 */
#include "report/report.h"

#include "base/build.h"
#include "base/exposition.h"
#include "base/file.h"
#include "config/config.h"
#include "tuners/table.h"

#include <fnmatch.h>
#include <glob.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* Findings beyond these are in the status only. */
#define FINDINGS_EXPORTED 20

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
		if (!node->limits[i].now.is_quiet)
			metric_sample(
				sink, 1, node->limits[i].now.name, node->limits[i].now.unit, NULL);
	for (size_t f = 0; f < ARRAY_SIZE(names); f++) {
		metric_family(sink, names[f]);
		for (size_t i = 0; i < node->n_limits; i++) {
			const struct limit *limit = &node->limits[i];
			const uint64_t values[] = {
				limit->now.used, limit->now.max, limit->peak.used, limit->now.hits};

			if (!limit->now.is_quiet && (f != 1 || limit->now.max > 0))
				metric_sample(sink, (double)values[f], limit->now.name, NULL);
		}
	}
	metric_family(sink, "headroom_limit_used_by_workload");
	for (size_t i = 0; i < node->n_limits; i++)
		if (!node->limits[i].now.idle)
			metric_users(sink, &node->limits[i].now);
}

/* Findings with the same labels are one series: Prometheus rejects duplicates. */
static bool is_exported(const struct node *node, size_t i, const struct workload *workload)
{
	const struct finding *finding = &node->findings.findings[i];

	for (size_t k = 0; k < i; k++) {
		const struct finding *other = &node->findings.findings[k];
		const struct workload *who =
			other->n_who > 0 ? &other->who[0].workload : &other->instance.owner;

		if (!other->ignored && other->condition == finding->condition &&
			other->severity == finding->severity && streq(other->slug, finding->slug) &&
			who->kind == workload->kind && streq(who->namespace, workload->namespace) &&
			streq(workload_name(who), workload_name(workload)))
			return false;
	}
	return !finding->ignored;
}

/* Writes the worst findings, each with its largest user or else the owner of its instance. */
static void put_findings(struct metric_sink *sink, const struct node *node)
{
	unsigned n = 0;

	metric_family(sink, "headroom_finding");
	for (size_t i = 0; i < node->findings.n && n < FINDINGS_EXPORTED; i++) {
		const struct finding *finding = &node->findings.findings[i];
		const struct workload *who =
			finding->n_who > 0 ? &finding->who[0].workload : &finding->instance.owner;
		bool is_known = finding->n_who > 0 || who->kind != WORKLOAD_HOST;

		if (!is_exported(node, i, who))
			continue;
		metric_sample(sink, 1, finding->condition->name, finding->slug,
			severity_names[finding->severity],
			is_known ? workload_kind_names[who->kind] : "", who->namespace,
			is_known ? workload_name(who) : "", NULL);
		n++;
	}
}

static void put_ignored(struct metric_sink *sink, const struct config *config, const char *name)
{
	for (size_t i = 0; config && i < config_list(config, "doctor.ignore"); i++)
		if (fnmatch(config_item(config, "doctor.ignore", i, ""), name, 0) == 0) {
			metric_sample(sink, 1, name, NULL);
			return;
		}
}

/* Writes what doctor.ignore names, for alerts about other metrics than headroom_finding. */
static void put_all_ignored(struct metric_sink *sink, const struct node *node)
{
	metric_family(sink, "headroom_ignored");
	for (size_t i = 0; i < node->n_limits; i++)
		put_ignored(sink, node->config, node->limits[i].now.name);
	for (size_t i = 0; i < node->n_settings; i++)
		put_ignored(sink, node->config, node->settings[i].name);
	for (size_t i = 0; i < node->n_conditions; i++)
		put_ignored(sink, node->config, node->conditions[i].type->name);
}

static void put_conditions(struct metric_sink *sink, const struct node *node)
{
	static const double values[] = {
		[CONDITION_FALSE] = 0, [CONDITION_TRUE] = 1, [CONDITION_UNKNOWN] = -1};

	metric_family(sink, "headroom_condition");
	for (size_t i = 0; i < node->n_conditions; i++)
		metric_sample(sink, values[node->conditions[i].status],
			node->conditions[i].type->name, NULL);
	put_findings(sink, node);
	put_all_ignored(sink, node);
}

static void put_tuners(struct metric_sink *sink, const struct node *node)
{
	metric_family(sink, "headroom_tuner_active");
	for (size_t i = 0; i < node->n_tuners; i++)
		metric_sample(sink, node->tuners[i].state == TUNER_ACTIVE,
			node->tuners[i].ops->name, NULL);
	metric_family(sink, "headroom_tuner_mode");
	for (size_t i = 0; i < node->n_tuners; i++)
		metric_sample(
			sink, 1, node->tuners[i].ops->name, mode_names[node->tuners[i].mode], NULL);
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
	_cleanup_free_ char *memory = NULL;
	uint64_t virtual, resident;
	glob_t descriptors = {0};
	struct rlimit limit;
	struct timespec ts;
	struct stat st;

	if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts) == 0)
		put_one(sink, "process_cpu_seconds_total",
			(double)ts.tv_sec + (double)ts.tv_nsec / (double)NSEC_PER_SEC);
	if (read_file("/proc/self/statm", 4096, &memory, NULL) == 0 &&
		sscanf(memory, "%" SCNu64 " %" SCNu64, &virtual, &resident) == 2) {
		put_one(sink, "process_virtual_memory_bytes", (double)virtual * page);
		put_one(sink, "process_resident_memory_bytes", (double)resident * page);
	}
	/*
	 * The size of the directory is their number since Linux 6.2, and 0 before. To list it costs
	 * as much as all other metrics. glob() itself has one descriptor open.
	 */
	if (stat("/proc/self/fd", &st) == 0 && st.st_size > 0)
		put_one(sink, "process_open_fds", (double)st.st_size);
	else if (glob("/proc/self/fd/*", GLOB_NOSORT, NULL, &descriptors) == 0)
		put_one(sink, "process_open_fds", (double)descriptors.gl_pathc - 1);
	globfree(&descriptors);
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
		put_one(sink, "process_max_fds", (double)limit.rlim_cur);
	put_one(sink, "process_start_time_seconds", (double)started_us / (double)USEC_PER_SEC);
}

void report_metrics(FILE *out, const struct node *node, bool openmetrics)
{
	struct metric_sink sink = {
		.out = out, .openmetrics = openmetrics, .rows = core_tables.metric_rows};
	char hash[16];

	metric_family(&sink, "headroom_build_info");
	metric_sample(&sink, 1, HEADROOM_VERSION, HEADROOM_COMMIT, NULL);
	snprintf(hash, sizeof(hash), "%08x", node->config_hash);
	metric_family(&sink, "headroom_config_info");
	metric_sample(
		&sink, 1, hash, node->config ? config_text(node->config, "profile") : "", NULL);
	put_one(&sink, "headroom_config_last_reload_successful", !node->reload_failed);
	put_one(&sink, "headroom_config_last_reload_success_timestamp_seconds",
		(double)node->reloaded_us / (double)USEC_PER_SEC);
	put_limits(&sink, node);
	metric_family(&sink, "headroom_setting_in_sync");
	for (size_t i = 0; i < node->n_settings; i++)
		if (node->settings[i].reason != REASON_NO_LONGER_CONFIGURED)
			metric_sample(&sink, setting_in_sync(&node->settings[i]),
				node->settings[i].name, NULL);
	metric_family(&sink, "headroom_setting_drift_total");
	for (size_t i = 0; i < node->n_settings; i++)
		if (node->settings[i].drift.total > 0)
			metric_sample(&sink, (double)node->settings[i].drift.total,
				node->settings[i].name, NULL);
	metric_family(&sink, "headroom_setting_no_longer_configured");
	for (size_t i = 0; i < node->n_settings; i++)
		if (node->settings[i].reason == REASON_NO_LONGER_CONFIGURED)
			metric_sample(&sink, 1, node->settings[i].name, NULL);
	put_conditions(&sink, node);
	put_tuners(&sink, node);
	sink.rows = core_tables.metric_rows;
	put_process(&sink, node->started_us);
	if (openmetrics)
		fputs("# EOF\n", out);
}
