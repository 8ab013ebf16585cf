/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/runtime/runtime.h"

#include "base/exposition.h"
#include "base/util.h"

#include <stdlib.h>

static void write_info(const struct runtime_sample *sample, struct metric_sink *sink)
{
	metric_family(sink, "headroom_runtime_info");
	for (size_t i = 0; i < sample->n; i++)
		if (sample->runtimes[i].version[0])
			metric_sample(sink, 1, sample->runtimes[i].found.name,
				sample->runtimes[i].version, NULL);
	metric_family(sink, "headroom_runtime_max_concurrent_downloads");
	for (size_t i = 0; i < sample->n; i++)
		if (sample->runtimes[i].downloads[0])
			metric_sample(sink, strtod(sample->runtimes[i].downloads, NULL),
				sample->runtimes[i].found.name, NULL);
}

/* What all runtimes fetched from one registry. */
static void add(struct pull_registry sums[static PULL_REGISTRIES_MAX], size_t *n,
	const struct pull_registry *runtime)
{
	size_t i = 0;

	while (i < *n && !streq(sums[i].name, runtime->name))
		i++;
	if (i == PULL_REGISTRIES_MAX)
		i--;
	if (i == *n) {
		sums[(*n)++] = *runtime;
		return;
	}
	sums[i].bytes += runtime->bytes;
	sums[i].seconds += runtime->seconds;
	for (size_t b = 0; b <= PULL_BOUNDS; b++)
		sums[i].buckets[b] += runtime->buckets[b];
}

static unsigned active_from(const struct runtime_sample *sample, const char *registry)
{
	unsigned active = 0;
	char name[64];

	for (size_t i = 0; i < sample->n; i++)
		for (size_t p = 0; p < sample->runtimes[i].pulls.n_images; p++) {
			pulls_registry_of(sample->runtimes[i].pulls.images[p].name, name);
			active += streq(name, registry);
		}
	return active;
}

void runtime_metrics_write(const struct runtime_sample *sample, struct metric_sink *sink)
{
	struct pull_registry sums[PULL_REGISTRIES_MAX];
	size_t n = 0;

	write_info(sample, sink);
	for (size_t i = 0; i < sample->n; i++)
		for (size_t r = 0; r < sample->runtimes[i].pulls.n_registries; r++)
			add(sums, &n, &sample->runtimes[i].pulls.registries[r]);
	metric_family(sink, "headroom_pulls_active");
	for (size_t i = 0; i < n; i++)
		metric_sample(sink, active_from(sample, sums[i].name), sums[i].name, NULL);
	metric_family(sink, "headroom_pull_bytes_total");
	for (size_t i = 0; i < n; i++)
		metric_sample(sink, (double)sums[i].bytes, sums[i].name, NULL);
	metric_family(sink, "headroom_pull_duration_seconds");
	for (size_t i = 0; i < n; i++)
		metric_histogram(sink, pull_bounds, sums[i].buckets, PULL_BOUNDS, sums[i].seconds,
			sums[i].name, NULL);
}
