/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/neighbor/neighbor.h"

#include "base/util.h"
#include "kernel/bpf.h"
#include "kernel/sysctl.h"
#include "tuners/neighbor/users.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <bpf/bpf.h>

#include "neighbor.skel.h"

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

static int ignore_record(void *userdata, void *data, size_t size)
{
	(void)userdata;
	(void)data;
	(void)size;
	return 0;
}

static int open_bpf(struct neighbor_sensor *sensor)
{
	int r;

	bpf_quiet_libbpf();
	sensor->bpf = neighbor_bpf_object__open_and_load();
	if (!sensor->bpf)
		return -errno;
	r = neighbor_bpf_object__attach(sensor->bpf);
	if (r < 0)
		return r;
	sensor->ring =
		ring_buffer__new(bpf_map__fd(sensor->bpf->maps.wakeups), ignore_record, NULL, NULL);
	if (!sensor->ring)
		return -errno;
	sensor->users = neighbor_users_open(sensor->bpf, sensor->host);
	return sensor->users ? 0 : -ENOMEM;
}

static void close_bpf(struct neighbor_sensor *sensor)
{
	if (sensor->users)
		neighbor_users_close(sensor->users);
	ring_buffer__free(sensor->ring);
	neighbor_bpf_object__destroy(sensor->bpf);
	sensor->users = NULL;
	sensor->ring = NULL;
	sensor->bpf = NULL;
}

int neighbor_sensor_open(struct neighbor_sensor *sensor, const struct host *host, bool watch,
	char why[static TUNER_WHY_MAX])
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	int r;

	sensor->host = host;
	sensor->once = !watch;
	sensor->memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	sensor->scratch_size = STAT_LINE * (size_t)(MAX(cpus, 1) + 1);
	sensor->scratch = malloc(sensor->scratch_size);
	if (!sensor->scratch)
		return -ENOMEM;
	for (int family = 0; family < NEIGHBOR_FAMILIES; family++) {
		int af = neighbor_address_family((enum neighbor_family)family);

		for (int i = 0; i < NEIGHBOR_LEVELS; i++) {
			struct kept_file *file = &sensor->thresholds[family][i];
			char name[SETTING_NAME_MAX];

			neightbl_threshold_name(af, i + 1, name);
			sysctl_path(name, file->path);
			file->fd = -1;
		}
		sensor->stats[family].fd = -1;
		copy_text(sensor->stats[family].path, SETTING_PATH_MAX, neightbl_stat_path(af));
	}
	r = watch ? open_bpf(sensor) : 0;
	if (r < 0) {
		bpf_explain_failure(r, why, TUNER_WHY_MAX);
		close_bpf(sensor);
	}
	return 0;
}

void neighbor_sensor_close(struct neighbor_sensor *sensor)
{
	for (int family = 0; family < NEIGHBOR_FAMILIES; family++) {
		for (int i = 0; i < NEIGHBOR_LEVELS; i++)
			kept_close(&sensor->thresholds[family][i]);
		kept_close(&sensor->stats[family]);
	}
	close_bpf(sensor);
	free(sensor->scratch);
}

/* What BPF knows better: collectable entries, and who uses them. */
static void sense_bpf(struct neighbor_sensor *sensor, struct neighbor_seen *seen, uint64_t now)
{
	LIBBPF_OPTS(bpf_test_run_opts, options);
	const struct neighbor_record *records = sensor->bpf->bss->records;
	/* Refreshes the collectable counts; without it the records still count events. */
	bool sampled =
		bpf_prog_test_run_opts(bpf_program__fd(sensor->bpf->progs.sample), &options) == 0;

	/* After a wake-up the users can wait; room for more entries cannot. */
	if (!sensor->woken)
		neighbor_users_update(sensor->users, now);
	sensor->woken = false;
	for (int family = 0; family < NEIGHBOR_FAMILIES; family++) {
		const struct neighbor_record *record = &records[family];
		struct neighbor_table_seen *table = &seen->tables[family];

		table->exact = sampled && record->sampled;
		if (table->exact)
			table->collectable = record->collectable;
		table->created = record->created;
		table->refused = record->refused;
		table->last = record->last;
		table->last_owner =
			neighbor_users_refused(sensor->users, (enum neighbor_family)family, now);
		table->n_top =
			neighbor_users_top(sensor->users, (enum neighbor_family)family, table->top);
	}
}

void neighbor_sense(struct neighbor_sensor *sensor, struct neighbor_seen *seen, uint64_t now)
{
	*seen = (struct neighbor_seen){.memory_bytes = sensor->memory_bytes, .once = sensor->once};
	for (int family = 0; family < NEIGHBOR_FAMILIES; family++) {
		struct neighbor_table_seen *table = &seen->tables[family];

		for (int i = 0; i < NEIGHBOR_LEVELS; i++)
			table->threshold_error[i] = kept_read_value(
				sensor->host, &sensor->thresholds[family][i], table->threshold[i]);
		table->stats_error = neightbl_read_stats(sensor->host, &sensor->stats[family],
			sensor->scratch, sensor->scratch_size, &table->stats);
		table->collectable = table->stats.entries;
		table->created = table->stats.allocs;
		table->refused = table->stats.table_fulls;
	}
	if (sensor->bpf)
		sense_bpf(sensor, seen, now);
}

void neighbor_sensor_arm(struct neighbor_sensor *sensor, const struct neighbor_memory *memory)
{
	struct neighbor_record *records = sensor->bpf ? sensor->bpf->bss->records : NULL;

	for (int family = 0; records && family < NEIGHBOR_FAMILIES; family++) {
		records[family].wake_at = memory->families[family].wake_at;
		/* While entries are being refused the tick polls: a wake-up for each would be too
		 * many. */
		records[family].wake_refused = !memory->families[family].refusing;
	}
}
