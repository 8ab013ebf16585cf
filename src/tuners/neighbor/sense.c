/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/neighbor/neighbor.h"

#include "kernel/bpf.h"
#include "kernel/host.h"

#include <sys/socket.h>

#include <bpf/bpf.h>

#include "neighbor.skel.h"

/* A line of /proc/net/stat/arp_cache: 13 columns of at most 17 characters. One is the header. */
#define STAT_LINE 256

const struct neighbor_family_row neighbor_families[NEIGHBOR_FAMILIES] = {
	[NEIGHBOR_IPV4] = {AF_INET, "ipv4"},
	[NEIGHBOR_IPV6] = {AF_INET6, "ipv6"},
};

static int ignore_record(void *userdata, void *data, size_t size)
{
	(void)userdata, (void)data, (void)size;
	return 0;
}

static int open_bpf(struct neighbor *neighbor)
{
	int r;

	bpf_quiet_libbpf();
	neighbor->bpf = neighbor_bpf_object__open_and_load();
	if (!neighbor->bpf)
		return -errno;
	r = neighbor_bpf_object__attach(neighbor->bpf);
	if (r < 0)
		return r;
	neighbor->ring = ring_buffer__new(
		bpf_map__fd(neighbor->bpf->maps.wakeups), ignore_record, NULL, NULL);
	if (!neighbor->ring)
		return -errno;
	neighbor->users.object = neighbor->bpf;
	neighbor->users.owners =
		netns_owners_open(neighbor->host, bpf_link__fd(neighbor->bpf->links.list_owners));
	return neighbor->users.owners ? 0 : -ENOMEM;
}

static void close_bpf(struct neighbor *neighbor)
{
	if (neighbor->users.owners)
		netns_owners_close(steal(neighbor->users.owners));
	free(steal(neighbor->users.rows));
	ring_buffer__free(steal(neighbor->ring));
	neighbor_bpf_object__destroy(steal(neighbor->bpf));
}

/* Netlink needs CAP_NET_ADMIN, the file a writable mount: either will do. */
static void probe_writing(struct neighbor *neighbor)
{
	const char *path = neighbor->thresholds[NEIGHBOR_IPV4][0].path;
	char value[SETTING_VALUE_MAX];
	int r = host_read_value(neighbor->host, path, value);

	if (r < 0) {
		snprintf(neighbor->write_why, TUNER_WHY_MAX,
			"%s: %s: run in the host's network namespace (hostNetwork: true)", path,
			strerror(-r));
		return;
	}
	r = host_may_write(neighbor->host, path);
	if (r < 0 && !capability_have(CAP_NET_ADMIN))
		snprintf(neighbor->write_why, TUNER_WHY_MAX,
			"RTM_SETNEIGHTBL: %s, %s: %s: give CAP_NET_ADMIN or a writable /proc/sys",
			strerror(EPERM), path, strerror(-r));
}

void *neighbor_open(const struct host *host, bool watch)
{
	size_t scratch_size = STAT_LINE * (size_t)(MAX(sysconf(_SC_NPROCESSORS_CONF), 1) + 1);
	struct neighbor *neighbor = must(calloc(1, sizeof(*neighbor) + scratch_size));
	int r;

	neighbor->host = host;
	neighbor->once = !watch;
	neighbor->memory_bytes =
		(uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	neighbor->scratch_size = scratch_size;
	for (int family = 0; family < NEIGHBOR_FAMILIES; family++) {
		int af = neighbor_families[family].af;

		for (int i = 0; i < NEIGHBOR_LEVELS; i++) {
			struct kept_file *file = &neighbor->thresholds[family][i];
			char name[SETTING_NAME_MAX];

			neightbl_threshold_name(af, i + 1, name);
			sysctl_path(name, file->path);
			file->fd = -1;
		}
		neighbor->stats[family].fd = -1;
		copy_text(neighbor->stats[family].path, SETTING_PATH_MAX, neightbl_stat_path(af));
	}
	probe_writing(neighbor);
	r = watch ? open_bpf(neighbor) : 0;
	if (r < 0) {
		bpf_explain_failure(r, neighbor->bpf_why, TUNER_WHY_MAX);
		close_bpf(neighbor);
	}
	return neighbor;
}

void neighbor_close(void *self)
{
	struct neighbor *neighbor = self;

	for (int family = 0; family < NEIGHBOR_FAMILIES; family++) {
		for (int i = 0; i < NEIGHBOR_LEVELS; i++)
			kept_close(&neighbor->thresholds[family][i]);
		kept_close(&neighbor->stats[family]);
	}
	close_bpf(neighbor);
	free(neighbor);
}

/* What BPF knows better: collectable entries, and who uses them. */
static void sense_bpf(struct neighbor *neighbor, uint64_t now)
{
	/* After a wake-up the users can wait; room for more entries cannot. */
	bool sampled = neighbor_users_sample(neighbor->bpf);

	if (!neighbor->woken)
		neighbor_users_update(&neighbor->users, now);
	neighbor->woken = false;
	for (int family = 0; family < NEIGHBOR_FAMILIES; family++) {
		const struct neighbor_record *record = &neighbor->bpf->bss->records[family];
		struct neighbor_table_seen *table = &neighbor->tables[family];

		table->exact = sampled && record->sampled;
		if (table->exact)
			table->collectable = record->collectable;
		table->created = record->created;
		table->refused = record->refused;
		table->last = record->last;
		table->last_owner =
			neighbor_users_refused(&neighbor->users, (enum neighbor_family)family, now);
		table->n_top = neighbor_users_top(
			&neighbor->users, (enum neighbor_family)family, table->top);
	}
}

void neighbor_sense(void *self)
{
	struct neighbor *neighbor = self;

	for (int family = 0; family < NEIGHBOR_FAMILIES; family++) {
		struct neighbor_table_seen *table = &neighbor->tables[family];

		*table = (struct neighbor_table_seen){0};
		for (int i = 0; i < NEIGHBOR_LEVELS; i++)
			table->threshold_error[i] = kept_read_value(neighbor->host,
				&neighbor->thresholds[family][i], table->threshold[i]);
		table->stats_error = neightbl_read_stats(neighbor->host, &neighbor->stats[family],
			neighbor->scratch, neighbor->scratch_size, &table->stats);
		table->collectable = table->stats.entries;
		table->created = table->stats.allocs;
		table->refused = table->stats.table_fulls;
	}
	if (neighbor->bpf)
		sense_bpf(neighbor, now_us());
}

void neighbor_arm(void *self, const void *data)
{
	const struct neighbor_memory *memory = data;
	struct neighbor *neighbor = self;

	for (int family = 0; neighbor->bpf && family < NEIGHBOR_FAMILIES; family++) {
		struct neighbor_record *record = &neighbor->bpf->bss->records[family];

		record->wake_at = memory->families[family].wake_at;
		/* While entries are being refused the tick polls: a wake-up for each would be too
		 * many. */
		record->wake_refused = !memory->families[family].refusing;
	}
}

int neighbor_event_fd(const void *self)
{
	const struct neighbor *neighbor = self;

	return neighbor->ring ? ring_buffer__epoll_fd(neighbor->ring) : -1;
}

void neighbor_drain(void *self)
{
	struct neighbor *neighbor = self;

	/* That there is a record matters, not what is in it. */
	ring_buffer__consume(neighbor->ring);
	neighbor->woken = true;
}

/* Without BPF nothing wakes the agent: the fuller a table, the sooner the next poll. */
uint64_t neighbor_next_poll_us(const void *self, const void *memory)
{
	const struct neighbor *neighbor = self;
	uint64_t delay = 0;

	(void)memory;
	if (neighbor->bpf)
		return neighbor->users.counted_at_us == 0 ? NEIGHBOR_START_US : 0;
	for (int family = 0; neighbor->config.grow && family < NEIGHBOR_FAMILIES; family++) {
		uint64_t used = neighbor->tables[family].collectable;
		uint64_t max = neighbor_table_max(&neighbor->tables[family]);

		if (max > 0 && used * 4 >= max)
			return 20 * USEC_PER_MSEC;
		if (max > 0 && used * 10 >= max)
			delay = 100 * USEC_PER_MSEC;
	}
	return delay;
}
