/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/neighbor/neighbor.h"

#include "base/util.h"
#include "kernel/sysctl.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

/* A line of /proc/net/stat/arp_cache: 13 columns of at most 17 characters. One is the header. */
#define STAT_LINE 256

int neighbor_address_family(enum neighbor_family family)
{
	return family == NEIGHBOR_IPV4 ? AF_INET : AF_INET6;
}

const char *neighbor_family_name(enum neighbor_family family)
{
	return family == NEIGHBOR_IPV4 ? "ipv4" : "ipv6";
}

static void watch_family(struct neighbor_sensor *sensor, enum neighbor_family family)
{
	int af = neighbor_address_family(family);

	for (int i = 0; i < NEIGHBOR_LEVELS; i++) {
		char name[SETTING_NAME_MAX];

		neightbl_threshold_name(af, i + 1, name);
		sysctl_path(name, sensor->thresholds[family][i].path);
		sensor->thresholds[family][i].fd = -1;
	}
	copy_text(sensor->stats[family].path, SETTING_PATH_MAX, neightbl_stat_path(af));
	sensor->stats[family].fd = -1;
}

int neighbor_sensor_open(struct neighbor_sensor *sensor, const struct host *host)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);

	sensor->host = host;
	sensor->scratch_size = STAT_LINE * (size_t)(MAX(cpus, 1) + 1);
	sensor->memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	sensor->scratch = malloc(sensor->scratch_size);
	if (!sensor->scratch)
		return -ENOMEM;
	watch_family(sensor, NEIGHBOR_IPV4);
	watch_family(sensor, NEIGHBOR_IPV6);
	return 0;
}

void neighbor_sensor_close(struct neighbor_sensor *sensor)
{
	for (int family = 0; family < NEIGHBOR_FAMILIES; family++) {
		for (int i = 0; i < NEIGHBOR_LEVELS; i++)
			kept_close(&sensor->thresholds[family][i]);
		kept_close(&sensor->stats[family]);
	}
	neighbor_bpf_close(sensor->bpf);
	free(sensor->scratch);
}

static void sense_family(
	struct neighbor_sensor *sensor, int family, struct neighbor_table_seen *table)
{
	for (int i = 0; i < NEIGHBOR_LEVELS; i++)
		table->threshold_error[i] = kept_read_value(
			sensor->host, &sensor->thresholds[family][i], table->threshold[i]);
	table->stats_error = neightbl_read_stats(sensor->host, &sensor->stats[family],
		sensor->scratch, sensor->scratch_size, &table->stats);
	/* As far as procfs knows; BPF knows better. */
	table->collectable = table->stats.entries;
	table->created = table->stats.allocs;
	table->refused = table->stats.table_fulls;
}

void neighbor_sense(struct neighbor_sensor *sensor, struct neighbor_seen *seen, uint64_t now)
{
	*seen = (struct neighbor_seen){.memory_bytes = sensor->memory_bytes, .once = sensor->once};
	for (int family = 0; family < NEIGHBOR_FAMILIES; family++)
		sense_family(sensor, family, &seen->tables[family]);
	if (sensor->bpf)
		neighbor_bpf_sense(sensor->bpf, seen, now);
}
