/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the counters of the BPF programs, and sums them up. The parts, in order: devices and their
 * labels in metrics; requests; syncs; the facts about disks, which are read seldom; the listed
 * processes, with their latency over five minutes, the workload that holds the queue of their disk,
 * and their file systems and databases for other tuners; the users of disks; the poll. It judges
 * nothing: decide.c does.
 */
#include "tuners/storage/storage.h"

#include "workload/process.h"

#include "base/exposition.h"
#include "kernel/bpf.h"
#include "kernel/pressure.h"

#include <fcntl.h>
#include <sys/sysmacros.h>

#include <bpf/bpf.h>

/* A row costs up to 1 us: many rows are read every other second. */
#define MANY_ROWS 1024

/* Half-life of smoothed rates in seconds. */
#define HALF_LIFE 20.0

/* The mean age of what counts is that of the last ten seconds. */
#define LAST_HALF_LIFE 3.5

/* The interval at which the facts about disks and cgroups are read. */
#define FACTS_US (60 * USEC_PER_SEC)

/* Rows idle for this time are removed when a kernel's map is half full, or the disk is gone. */
#define IDLE_US (60 * USEC_PER_SEC)

/* A label that was idle for this time, or whose disk is gone, is given away. */
#define LABEL_IDLE_US (600 * USEC_PER_SEC)

#define DEVICES_MAX 256
#define WINDOWS_MAX 32

/* ---- devices and labels ---- */

static struct storage_device *find_device(const struct storage *storage, uint32_t number)
{
	for (size_t i = 0; i < storage->n_devices; i++)
		if (storage->devices[i].number == number)
			return &storage->devices[i];
	return NULL;
}

static void clear_label(struct storage *storage, unsigned label)
{
	for (size_t i = 0; i < storage->n_devices; i++)
		if (storage->devices[i].label == label)
			storage->devices[i].label = STORAGE_LABELS;
	for (size_t i = 0; i < STORAGE_PAIRS; i++)
		if (storage->pairs[i].label == label)
			storage->pairs[i] = (struct storage_pair){0};
	storage->labels[label] = (struct storage_label){0};
}

static unsigned claim_label(struct storage *storage, const struct storage_disk *disk, uint64_t now)
{
	unsigned free_label = STORAGE_LABELS;

	if (!disk->name[0] || disk->memory)
		return STORAGE_LABELS;
	for (unsigned i = 0; i < STORAGE_LABELS; i++) {
		struct storage_label *label = &storage->labels[i];

		if (streq(label->disk.name, disk->name)) {
			label->disk = *disk;
			return i;
		}
		if (!label->disk.name[0] ||
			(free_label == STORAGE_LABELS &&
				(!label->disk.exists || now - label->used_us > LABEL_IDLE_US)))
			free_label = i;
	}
	if (free_label == STORAGE_LABELS)
		return STORAGE_LABELS;
	clear_label(storage, free_label);
	storage->labels[free_label] = (struct storage_label){.disk = *disk, .used_us = now};
	return free_label;
}

/* Returns the device with this number, which it may add. NULL when there are too many. */
static struct storage_device *device_of(
	struct storage *storage, uint32_t number, const char *name, uint64_t now)
{
	struct storage_device *device = find_device(storage, number);

	if (!device && storage->n_devices < DEVICES_MAX) {
		device = add_element(
			&storage->devices, &storage->n_devices, &storage->devices_allocated);
		device->number = number;
		storage_disk_read(storage->host, number, name, &device->disk);
		device->label = claim_label(storage, &device->disk, now);
		device->read_us = now;
	}
	if (device) {
		device->used_us = storage->labels[device->label].used_us = now;
		/* It lost its label to another. */
		if (device->label == STORAGE_LABELS)
			device->label = claim_label(storage, &device->disk, now);
	}
	return device;
}

/* ---- requests ---- */

struct counter_reading {
	struct storage *storage;
	uint64_t now;
	struct smoothing smoothing, last;
};

static void read_io(void *userdata, const void *key, const void *value)
{
	const struct counter_reading *reading = userdata;
	struct storage *storage = reading->storage;
	const struct storage_io *io = value;
	struct storage_io_row *row = find_keyed(&storage->ios_index, storage->ios, storage->n_ios,
		(const struct storage_io_key *)key);
	struct storage_device *device;
	struct storage_label *label;
	uint64_t queue_ns;

	if (!row) {
		row = add_element(&storage->ios, &storage->n_ios, &storage->ios_allocated);
		memcpy(&row->key, key, sizeof(row->key));
	}
	row->seen = true;
	queue_ns = io->queue_ns - row->last.queue_ns;
	row->queue_rate = smooth(&reading->smoothing, row->queue_rate, (double)queue_ns / 1e9);
	for (int i = 0; i < STORAGE_DIRECTIONS; i++)
		row->rate[i] = smooth(&reading->smoothing, row->rate[i],
			(double)(io->bytes[i] - row->last.bytes[i]));
	row->last_rate = smooth(&reading->last, row->last_rate,
		(double)(io->bytes[STORAGE_WRITE] - row->last.bytes[STORAGE_WRITE]));
	if (memcmp(io, &row->last, sizeof(*io)) == 0)
		return;
	row->changed_us = reading->now;
	device = device_of(storage, row->key.disk, io->name, reading->now);
	label = &storage->labels[device ? device->label : STORAGE_LABELS];
	label->used_us = reading->now;
	label->queue_ns += queue_ns;
	for (int i = 0; i < STORAGE_DIRECTIONS; i++)
		label->bytes[i] += io->bytes[i] - row->last.bytes[i];
	row->last = *io;
}

static void read_ios(struct counter_reading *reading)
{
	struct storage *storage = reading->storage;
	uint64_t before[STORAGE_LABELS + 1];
	size_t kept = 0;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(before); i++)
		before[i] = storage->labels[i].queue_ns;
	for (size_t i = 0; i < storage->n_ios; i++)
		storage->ios[i].seen = false;
	r = bpf_each(storage->bpf->ios, sizeof(struct storage_io_key), sizeof(struct storage_io),
		read_io, reading);
	for (size_t i = 0; i < storage->n_ios; i++)
		if (storage->ios[i].seen || r < 0)
			storage->ios[kept++] = storage->ios[i];
	if (kept < storage->n_ios)
		index_reset(&storage->ios_index);
	storage->n_ios = kept;
	/* A label that was given away meanwhile begins at 0. */
	for (size_t i = 0; i < ARRAY_SIZE(before); i++) {
		struct storage_label *label = &storage->labels[i];

		label->queue_rate = smooth(&reading->smoothing, label->queue_rate,
			(double)(label->queue_ns - MIN(before[i], label->queue_ns)) / 1e9);
	}
}

/* ---- syncs ---- */

static struct storage_pair *pair_of(struct storage *storage, unsigned label, const char *process)
{
	struct storage_pair *others = &storage->pairs[STORAGE_PAIRS], *room = NULL;

	if (label == STORAGE_LABELS)
		return others;
	for (struct storage_pair *pair = storage->pairs; pair < others; pair++) {
		if (pair->used_us > 0 && pair->label == label && streq(pair->process, process))
			return pair;
		if (!room && pair->used_us == 0)
			room = pair;
	}
	/* A listed process takes the series of an unlisted one. */
	for (struct storage_pair *pair = storage->pairs; !room && process[0] && pair < others;
		pair++)
		if (!pair->process[0])
			room = pair;
	if (!room)
		return others;
	for (int i = 0; i < STORAGE_BUCKETS; i++)
		others->counts[i] += room->counts[i];
	others->ns += room->ns;
	*room = (struct storage_pair){.label = label};
	set_text(room->process, process);
	return room;
}

/* A listed process takes the window of an unlisted row. */
static void give_window(struct storage *storage, struct storage_sync_row *row)
{
	struct storage_sync_row *from = NULL;

	for (size_t i = 0; storage->n_windows >= WINDOWS_MAX && i < storage->n_syncs; i++)
		if (storage->syncs[i].window && row->key.process[0] &&
			!storage->syncs[i].key.process[0] &&
			(!from || storage->syncs[i].changed_us < from->changed_us))
			from = &storage->syncs[i];
	if (from) {
		row->window = steal(from->window);
		*row->window = (struct storage_window){0};
	} else if (storage->n_windows < WINDOWS_MAX) {
		row->window = must(calloc(1, sizeof(*row->window)));
		storage->n_windows++;
	}
}

static struct storage_second *second_of(struct storage_window *window, uint64_t number)
{
	struct storage_second *second = &window->seconds[number % ARRAY_SIZE(window->seconds)];

	if (second->number != number)
		*second = (struct storage_second){.number = number};
	return second;
}

static void fill_fine(struct storage_window *window, const struct storage_sync *last,
	const struct storage_sync *sync, uint64_t now)
{
	uint64_t number = now / STORAGE_FINE_US;
	struct storage_fine *fine = &window->fines[number % STORAGE_FINES];

	if (fine->number != number)
		*fine = (struct storage_fine){.number = number};
	fine->took_us += (sync->ns - last->ns) / 1000;
	for (int i = 0; i < STORAGE_BUCKETS; i++)
		fine->counts[i] += sync->counts[i] - last->counts[i];
}

static void fill_window(struct storage_window *window, const struct storage_sync *last,
	const struct storage_sync *sync, uint32_t syncs, uint64_t now)
{
	uint64_t slice = now / STORAGE_SLICE_US, worst = 0;
	uint32_t *counts = window->slices[slice % STORAGE_SLICES];

	for (uint64_t i = MAX(window->slice + 1, slice - MIN(slice, STORAGE_SLICES - 1));
		i <= slice; i++) {
		memset(window->slices[i % STORAGE_SLICES], 0, sizeof(window->slices[0]));
		window->took_us[i % STORAGE_SLICES] = window->worst_us[i % STORAGE_SLICES] = 0;
	}
	window->slice = slice;
	for (int i = 0; i < STORAGE_BUCKETS; i++)
		counts[i] += sync->counts[i] - last->counts[i];
	window->took_us[slice % STORAGE_SLICES] += (sync->ns - last->ns) / 1000;
	fill_fine(window, last, sync, now);
	/* The poll is late rather than early: the syncs belong to the second before. */
	second_of(window, now / USEC_PER_SEC)->syncs += syncs;
	for (int i = 0; i < STORAGE_SECONDS; i++) {
		uint64_t longest_us = ((sync->worst[i] & UINT32_MAX) << 10) / 1000;
		struct storage_second *second;

		if (sync->worst[i] == last->worst[i])
			continue;
		second = second_of(window, sync->worst[i] >> 32);
		second->worst_us = MAX(second->worst_us, (uint32_t)MIN(longest_us, UINT32_MAX));
		window->worst_us[slice % STORAGE_SLICES] =
			MAX(window->worst_us[slice % STORAGE_SLICES], second->worst_us);
		worst = MAX(worst, longest_us);
	}
	history_observe(&window->history, now, worst);
}

static void read_sync(void *userdata, const void *key, const void *value)
{
	const struct counter_reading *reading = userdata;
	struct storage *storage = reading->storage;
	const struct storage_sync *sync = value;
	struct storage_sync_row *row = find_keyed(&storage->syncs_index, storage->syncs,
		storage->n_syncs, (const struct storage_sync_key *)key);
	struct storage_device *device;
	struct storage_pair *pair;
	uint32_t syncs = 0;

	if (!row) {
		row = add_element(&storage->syncs, &storage->n_syncs, &storage->syncs_allocated);
		memcpy(&row->key, key, sizeof(row->key));
	}
	row->seen = true;
	for (int i = 0; i < STORAGE_BUCKETS; i++)
		syncs += sync->counts[i] - row->last.counts[i];
	row->rate = smooth(&reading->smoothing, row->rate, syncs);
	if (syncs == 0)
		return;
	device = device_of(storage, row->key.device, "", reading->now);
	if (device && device->disk.memory) {
		row->last = *sync;
		return;
	}
	row->changed_us = reading->now;
	row->syncs += syncs;
	pair = pair_of(storage, device ? device->label : STORAGE_LABELS, row->key.process);
	pair->used_us = reading->now;
	pair->ns += sync->ns - row->last.ns;
	for (int i = 0; i < STORAGE_BUCKETS; i++)
		pair->counts[i] += (uint32_t)(sync->counts[i] - row->last.counts[i]);
	if (!row->window)
		give_window(storage, row);
	if (row->window)
		fill_window(row->window, &row->last, sync, syncs, reading->now);
	row->last = *sync;
}

/* The kernel may miss the end of a sync. Then its start stays until the thread syncs again. */
static bool is_waiting(const struct storage *storage, uint64_t thread)
{
	_cleanup_free_ char *text = NULL;
	char name[48];
	const char *state;

	snprintf(name, sizeof(name), "task/%u/stat", (uint32_t)thread);
	if (process_read(storage->host->root, (pid_t)(thread >> 32), name, &text, NULL) < 0)
		return false;
	state = strrchr(text, ')');
	return state && (starts_with(state, ") D") || starts_with(state, ") R"));
}

/* A sync of a listed process that has not ended. */
static void read_thread(void *userdata, const void *key, const void *value)
{
	const struct counter_reading *reading = userdata;
	struct storage *storage = reading->storage;
	const struct storage_start *start = value;
	uint64_t thread, began_us = start->ns / 1000, took_us = reading->now - began_us;
	struct storage_sync_key id = {.cgroup = start->cgroup, .device = start->device};
	struct storage_sync_row *row;
	const struct storage_device *device;
	struct storage_open *open;

	memcpy(&thread, key, sizeof(thread));
	if (start->listed == 0 || start->listed > STORAGE_PROCESSES_MAX ||
		reading->now < began_us || took_us <= storage->sync_p99_us ||
		!is_waiting(storage, thread))
		return;
	set_text(id.process, storage->processes[start->listed - 1]);
	row = find_keyed(&storage->syncs_index, storage->syncs, storage->n_syncs, &id);
	if (!row) {
		row = add_element(&storage->syncs, &storage->n_syncs, &storage->syncs_allocated);
		row->key = id;
	}
	row->seen = true;
	device = device_of(storage, id.device, "", reading->now);
	if (device && device->disk.memory)
		return;
	row->changed_us = reading->now;
	if (!row->window)
		give_window(storage, row);
	if (!row->window)
		return;
	open = &row->window->open;
	open->counts[storage_bucket(took_us * 1000)]++;
	open->took_us += took_us;
	open->took_now_us += MIN(took_us, STORAGE_NOW_US);
	open->worst_us = MAX(open->worst_us, took_us);
}

static void read_syncs(struct counter_reading *reading)
{
	struct storage *storage = reading->storage;
	size_t kept = 0;
	int r;

	for (size_t i = 0; i < storage->n_syncs; i++) {
		storage->syncs[i].seen = false;
		if (storage->syncs[i].window)
			storage->syncs[i].window->open = (struct storage_open){0};
	}
	r = bpf_each(storage->bpf->syncs, sizeof(struct storage_sync_key),
		sizeof(struct storage_sync), read_sync, reading);
	(void)bpf_each(storage->bpf->threads, sizeof(uint64_t), sizeof(struct storage_start),
		read_thread, reading);
	for (size_t i = 0; i < storage->n_syncs; i++) {
		struct storage_sync_row *row = &storage->syncs[i];

		if (row->seen || r < 0) {
			storage->syncs[kept++] = *row;
			continue;
		}
		storage->n_windows -= row->window != NULL;
		free(row->window);
		storage_writers_forget(storage, row);
	}
	if (kept < storage->n_syncs)
		index_reset(&storage->syncs_index);
	storage->n_syncs = kept;
}

/* Removes rows of the kernel's maps; the next reading forgets them. */
static void prune_rows(struct storage *storage, uint64_t now)
{
	bool many_ios = storage->n_ios > STORAGE_ROWS_MAX / 2;
	bool many_syncs = storage->n_syncs > STORAGE_ROWS_MAX / 2;

	for (size_t i = 0; i < storage->n_ios; i++) {
		const struct storage_io_row *row = &storage->ios[i];
		uint64_t idle = now - row->changed_us;

		if (idle > IDLE_US && (many_ios || !find_device(storage, row->key.disk)))
			(void)bpf_map_delete_elem(storage->bpf->ios, &row->key);
	}
	for (size_t i = 0; i < storage->n_syncs; i++) {
		const struct storage_sync_row *row = &storage->syncs[i];
		uint64_t idle = now - row->changed_us;

		if (idle > IDLE_US && (many_syncs || !find_device(storage, row->key.device)))
			(void)bpf_map_delete_elem(storage->bpf->syncs, &row->key);
	}
}

/* ---- facts ---- */

/* Returns whether the io controller of cgroup2 tells the cgroups below the root apart. */
static bool controls_io(int root)
{
	_cleanup_close_ int fd =
		root < 0 ? -1 : openat(root, "cgroup.subtree_control", O_RDONLY | O_CLOEXEC);
	char text[256] = " ";
	ssize_t n = fd < 0 ? -1 : read(fd, text + 1, sizeof(text) - 3);

	if (n <= 0)
		return false;
	text[n] = ' '; /* instead of the newline */
	text[n + 1] = '\0';
	return strstr(text, " io ") != NULL;
}

static bool is_listed(const char *root, pid_t pid, void *userdata)
{
	const struct storage *storage = userdata;

	for (size_t i = 0; i < STORAGE_PROCESSES_MAX && storage->processes[i][0]; i++)
		if (process_is_named(root, pid, storage->processes[i]))
			return true;
	return false;
}

/* Finds a listed process where its syncs may not be counted. */
static void find_uncounted(struct storage *storage)
{
	pid_t pid = storage->unseen[0] && storage->n_seen == 0
			    ? process_find(storage->host->root, is_listed, storage)
			    : 0;

	storage->uncounted[0] = '\0';
	for (size_t i = 0; pid > 0 && i < STORAGE_PROCESSES_MAX && storage->processes[i][0]; i++)
		if (process_is_named(storage->host->root, pid, storage->processes[i]))
			set_text(storage->uncounted, storage->processes[i]);
}

static void refresh_facts(struct storage *storage, uint64_t now)
{
	int root = cgroups_root(storage->facts->cgroups, CGROUP_UNIFIED);
	size_t kept = 0;

	storage->is_v1 = cgroups_root(storage->facts->cgroups, CGROUP_BLKIO) >= 0;
	storage->attributed = storage->is_v1 || controls_io(root);
	storage->has_iocost = root >= 0 && faccessat(root, "io.cost.qos", F_OK, 0) == 0;
	if (storage->bpf->calls_error < 0)
		storage_mount_types(storage->host, storage->unseen, sizeof(storage->unseen));
	find_uncounted(storage);
	for (size_t i = 0; i < storage->n_devices; i++) {
		struct storage_device *device = &storage->devices[i];
		char name[STORAGE_DISK_NAME_MAX];
		bool disk = device->number >> 20 > 0;

		/* The mounts are long, and a number without a device is not used again soon. */
		if (disk || now - device->used_us > LABEL_IDLE_US) {
			set_text(name, device->disk.name);
			storage_disk_read(storage->host, device->number, "", &device->disk);
			if (!device->disk.exists)
				storage_disk_read(
					storage->host, device->number, name, &device->disk);
		}
		device->point[0] = '\0';
		if (device->label < STORAGE_LABELS &&
			streq(storage->labels[device->label].disk.name, device->disk.name))
			storage->labels[device->label].disk = device->disk;
		else
			device->label = claim_label(storage, &device->disk, now);
		/* A file system that only a container has is not looked for again and again. */
		if (device->disk.exists || now - device->used_us < (disk ? IDLE_US : LABEL_IDLE_US))
			storage->devices[kept++] = *device;
	}
	storage->n_devices = kept;
	for (unsigned i = 0; i < STORAGE_LABELS; i++)
		if (!storage->labels[i].disk.exists && now - storage->labels[i].used_us > IDLE_US)
			clear_label(storage, i);
	prune_rows(storage, now);
}

/* Reads the disks of the runtimes' images. */
static void find_images(struct storage *storage, bool again)
{
	const struct node_disks *disks = &storage->facts->disks;
	unsigned n = MIN(disks->n_images, (unsigned)STORAGE_IMAGES);

	for (unsigned i = 0; i < n; i++) {
		const struct node_images *found = &disks->images[i];
		struct storage_images *images = &storage->images[i];

		if (again || i >= storage->n_images || images->device != found->device)
			storage_disk_read(
				storage->host, STORAGE_NUMBER(found->device), "", &images->disk);
		images->device = found->device;
		set_text(images->path, found->path);
	}
	storage->n_images = n;
	if (disks->store != 0 && (again || storage->store.device != disks->store))
		storage_disk_read(
			storage->host, STORAGE_NUMBER(disks->store), "", &storage->store.disk);
	storage->store.device = disks->store;
}

/* ---- the listed processes ---- */

/* The kernel's own requests have inode 0, and are the host's. */
static struct workload workload_of(
	const struct storage *storage, enum cgroup_hierarchy hierarchy, uint64_t inode)
{
	return cgroups_find(storage->facts->cgroups, cgroup_key(hierarchy, inode));
}

/* Who holds the queue is of this time, so the longest sync is of the same. */
#define RECENT_S   10
#define LAST_FINES 3

/* StorageSlow needs this many syncs, or syncs that took this share of the five minutes. */
#define SYNCS_MIN  100
#define TOOK_SHARE 10

/* A p99 needs this many syncs. */
#define LAST_SYNCS_MIN 10

void storage_summarize(
	const struct storage_window *window, uint64_t now, struct storage_summary *summary)
{
	uint64_t slice = now / STORAGE_SLICE_US, second = now / USEC_PER_SEC;

	const struct storage_open *open = &window->open;
	struct storage_summary last = {.worst_us = open->worst_us};

	/* Adds to the counts that summary has. */
	for (uint64_t s = slice - MIN(slice, STORAGE_SLICES - 1); s <= window->slice; s++) {
		for (int i = 0; i < STORAGE_BUCKETS; i++) {
			summary->counts[i] += window->slices[s % STORAGE_SLICES][i];
			summary->syncs += window->slices[s % STORAGE_SLICES][i];
		}
		summary->took_us += window->took_us[s % STORAGE_SLICES];
		summary->worst_us =
			MAX(summary->worst_us, (uint64_t)window->worst_us[s % STORAGE_SLICES]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(window->seconds); i++) {
		const struct storage_second *past = &window->seconds[i];

		if (past->number == 0 || second - past->number >= ARRAY_SIZE(window->seconds))
			continue;
		if (second - past->number < RECENT_S)
			summary->recent_us = MAX(summary->recent_us, (uint64_t)past->worst_us);
		if (second - past->number < LAST_FINES * STORAGE_FINE_US / USEC_PER_SEC)
			last.worst_us = MAX(last.worst_us, (uint64_t)past->worst_us);
		summary->busiest = MAX(summary->busiest, (uint64_t)past->syncs);
	}
	for (size_t i = 0; i < STORAGE_FINES; i++) {
		const struct storage_fine *fine = &window->fines[i];
		uint64_t age = now / STORAGE_FINE_US - fine->number;

		if (fine->number == 0 || age >= STORAGE_FINES)
			continue;
		summary->now_took_us += fine->took_us;
		for (int k = 0; k < STORAGE_BUCKETS; k++) {
			summary->now_syncs += fine->counts[k];
			last.counts[k] += age < LAST_FINES ? fine->counts[k] : 0;
		}
	}
	for (int i = 0; i < STORAGE_BUCKETS; i++) {
		summary->counts[i] += open->counts[i];
		summary->syncs += open->counts[i];
		summary->now_syncs += open->counts[i];
		last.counts[i] += open->counts[i];
		summary->last_syncs += last.counts[i];
	}
	summary->took_us += open->took_us;
	summary->now_took_us += open->took_now_us;
	summary->worst_us = MAX(summary->worst_us, open->worst_us);
	summary->recent_us = MAX(summary->recent_us, open->worst_us);
	summary->last_p99 =
		MIN(histogram_quantile(storage_bounds, last.counts, STORAGE_BUCKETS - 1, 0.99),
			(double)last.worst_us / 1e6);
	summary->p50 =
		histogram_quantile(storage_bounds, summary->counts, STORAGE_BUCKETS - 1, 0.50);
	summary->p99 =
		histogram_quantile(storage_bounds, summary->counts, STORAGE_BUCKETS - 1, 0.99);
	/* A quantile lies within its bucket, whose longest sync may be shorter. */
	if (summary->worst_us > 0) {
		summary->p50 = MIN(summary->p50, (double)summary->worst_us / 1e6);
		summary->p99 = MIN(summary->p99, (double)summary->worst_us / 1e6);
	}
}

/* Half of the time, in syncs that take long: many fast ones may fill it, too. */
bool storage_is_starved(const struct storage_summary *summary, uint64_t sync_p99_us)
{
	return summary->now_syncs > 0 && summary->now_took_us >= STORAGE_NOW_US / 2 &&
	       summary->now_took_us / summary->now_syncs > sync_p99_us;
}

bool storage_is_over(const struct storage_summary *summary, uint64_t sync_p99_us)
{
	return storage_is_starved(summary, sync_p99_us) ||
	       (summary->last_syncs >= LAST_SYNCS_MIN &&
		       summary->last_p99 * 1e6 > (double)sync_p99_us);
}

uint64_t storage_slower_than(const struct storage_summary *summary, uint64_t ns)
{
	uint64_t syncs = 0;

	for (int i = 0; i < STORAGE_BUCKETS; i++)
		if (i > 0 && storage_bounds[i - 1] >= ns)
			syncs += summary->counts[i];
	return syncs;
}

/*
 * A share of long syncs, of a process that syncs often or that does little else. A process that
 * starves syncs seldom: its many fast syncs of the minutes before would hide it.
 */
bool storage_is_slow(const struct storage_summary *summary, uint64_t sync_p99_us)
{
	bool enough = summary->syncs >= SYNCS_MIN ||
		      summary->took_us >= STORAGE_SLICES * STORAGE_SLICE_US / TOOK_SHARE;

	return storage_is_starved(summary, sync_p99_us) ||
	       (enough && (storage_slower_than(summary, STORAGE_ELECTION_NS) > 0 ||
				  summary->p99 * 1e6 > (double)sync_p99_us));
}

static bool is_below(const struct storage_disk *disk, uint32_t number)
{
	for (unsigned i = 0; i < disk->n_below; i++)
		if (disk->below[i] == number)
			return true;
	return false;
}

static int by_holding(const void *a, const void *b)
{
	const struct storage_holder *x = a, *y = b;

	return (x->share < y->share) - (x->share > y->share);
}

/* Finds the workloads that wait most for the disks of the process. */
static void find_holders(const struct storage *storage, struct storage_process *process)
{
	struct storage_holder *holders = must(calloc(STORAGE_USERS, sizeof(*holders)));
	size_t n = 0, at, kept = 0;
	double sum = 0;

	for (size_t i = 0; i < storage->n_ios; i++) {
		const struct storage_io_row *row = &storage->ios[i];
		struct workload workload;

		if (!is_below(&process->disk, row->key.disk) || row->queue_rate <= 0)
			continue;
		sum += row->queue_rate;
		workload = workload_of(storage, CGROUP_BLKIO, row->key.cgroup);
		for (at = 0; at < n && !workload_equal(&holders[at].workload, &workload); at++)
			;
		if (at == n && n == STORAGE_USERS)
			continue;
		n = MAX(n, at + 1);
		holders[at].workload = workload;
		holders[at].cgroup = cgroup_key(CGROUP_BLKIO, row->key.cgroup);
		holders[at].share += row->queue_rate;
		holders[at].rate += row->rate[STORAGE_WRITE];
	}
	for (at = 0; at < n; at++) {
		holders[at].share /= sum;
		keep_first(process->holders, &kept, STORAGE_HOLDERS, sizeof(*holders), &holders[at],
			by_holding);
	}
	process->n_holders = (unsigned)kept;
	free(holders);
}

/* Several processes may share a file system. */
static void pass_filesystem(const struct storage *storage, struct storage_device *device)
{
	struct node_disks *disks = &storage->facts->disks;
	struct node_synced *synced = &disks->synced[disks->n_synced];
	struct mount *mount;

	for (unsigned i = 0; i < disks->n_synced; i++)
		if (disks->synced[i].device == device->number)
			return;
	if (!device->point[0]) {
		mount = must(calloc(1, sizeof(*mount)));
		if (!storage_mount_find(storage->host, device->number, mount) ||
			!set_text(device->point, mount->point))
			strcpy(device->point, "?"); /* no path: it is not looked for again */
		device->has_journal = device->point[0] == '?' || starts_with(mount->type, "ext");
		free(mount);
	}
	if (device->point[0] != '/' || disks->n_synced == NODE_SYNCED_MAX)
		return;
	set_text(synced->path, device->point);
	synced->device = device->number;
	disks->n_synced++;
}

static void pass_database(struct node_disks *disks, const struct storage_sync_row *row,
	const struct workload *workload)
{
	struct node_database *database = &disks->databases[disks->n_databases];

	if (row->last.database == 0 || disks->n_databases == NODE_SYNCED_MAX)
		return;
	*database = (struct node_database){
		.pid = (pid_t)row->last.pid, .bytes = row->last.database, .workload = *workload};
	set_text(database->process, row->key.process);
	disks->n_databases++;
}

/* Loads of images yield to the slowest of the listed processes on the same disk. */
static void pass_slow(
	struct storage *storage, const struct storage_process *process, uint32_t device)
{
	const struct storage_summary *summary = &process->summary;
	struct node_slow *slow = &storage->facts->disks.slow;
	double p99 = MAX(summary->last_p99,
		(double)summary->now_took_us / 1e6 / (double)MAX(summary->now_syncs, UINT64_C(1)));
	/* A file system without a known disk is shared, too: btrfs, NFS. */
	bool shared = device == STORAGE_NUMBER(storage->store.device);

	for (unsigned i = 0; storage->store.device != 0 && i < process->disk.n_below; i++)
		shared |= is_below(&storage->store.disk, process->disk.below[i]);
	if (!shared || !storage_is_over(summary, storage->sync_p99_us) || p99 <= slow->p99)
		return;
	set_text(slow->process, process->name);
	slow->p99 = p99;
}

static void read_pressure(const struct storage *storage, const struct storage_sync_row *row,
	struct storage_process *process)
{
	struct cgroups *cgroups = storage->facts->cgroups;
	const char *path = cgroups_path(cgroups, cgroup_key(CGROUP_UNIFIED, row->key.cgroup));

	pressure_read(storage->host, &process->node_pressure);
	if (path)
		pressure_read_cgroup(
			cgroups_root(cgroups, CGROUP_UNIFIED), path, &process->pressure);
}

void storage_processes_list(struct storage *storage, uint64_t now)
{
	storage->n_seen = 0;
	storage->facts->disks.n_synced = storage->facts->disks.n_databases = 0;
	storage->facts->disks.slow = (struct node_slow){0};
	for (size_t i = 0; i < storage->n_syncs && storage->n_seen < STORAGE_PROCESSES_SHOWN; i++) {
		const struct storage_sync_row *row = &storage->syncs[i];
		struct storage_process *process = &storage->seen[storage->n_seen];
		struct storage_device *device;

		if (!row->key.process[0] || !row->window)
			continue;
		*process = (struct storage_process){0};
		storage_summarize(row->window, now, &process->summary);
		device = find_device(storage, row->key.device);
		if (process->summary.syncs == 0 || !device) {
			storage_writers_forget(storage, &storage->syncs[i]);
			continue;
		}
		set_text(process->name, row->key.process);
		process->workload = workload_of(storage, CGROUP_UNIFIED, row->key.cgroup);
		process->disk = device->disk;
		if (storage->attributed && storage_is_slow(&process->summary, storage->sync_p99_us))
			find_holders(storage, process);
		if (storage_is_slow(&process->summary, storage->sync_p99_us))
			read_pressure(storage, row, process);
		pass_slow(storage, process, row->key.device);
		pass_filesystem(storage, device);
		process->shares_journal = device->has_journal;
		storage_writers_read(storage, &storage->syncs[i], process, now);
		process->writers = row->writers;
		pass_database(&storage->facts->disks, row, &process->workload);
		storage->n_seen++;
	}
}

/* ---- the users of disks ---- */

/* Rows that were idle for this time are not shown. */
#define SHOWN_US (300 * USEC_PER_SEC)

static int by_queue(const void *a, const void *b)
{
	const struct storage_io_row *x = *(struct storage_io_row *const *)a;
	const struct storage_io_row *y = *(struct storage_io_row *const *)b;

	if (x->queue_rate != y->queue_rate)
		return x->queue_rate < y->queue_rate ? 1 : -1;
	return (x->last.queue_ns < y->last.queue_ns) - (x->last.queue_ns > y->last.queue_ns);
}

static int by_rate(const void *a, const void *b)
{
	const struct storage_sync_row *x = *(struct storage_sync_row *const *)a;
	const struct storage_sync_row *y = *(struct storage_sync_row *const *)b;

	/* Listed processes first. */
	if (!x->key.process[0] != !y->key.process[0])
		return x->key.process[0] ? -1 : 1;
	return (x->rate < y->rate) - (x->rate > y->rate);
}

/* The largest rows of both kinds. */
struct largest_rows {
	const struct storage_io_row *ios[STORAGE_USERS];
	const struct storage_sync_row *syncs[STORAGE_USERS];
	size_t n_ios, n_syncs;
};

static struct largest_rows find_largest(const struct storage *storage)
{
	struct largest_rows largest = {0};

	for (size_t i = 0; i < storage->n_ios; i++) {
		const struct storage_io_row *row = &storage->ios[i];

		if (storage->read_us - row->changed_us < SHOWN_US)
			keep_first(largest.ios, &largest.n_ios, STORAGE_USERS, sizeof(row), &row,
				by_queue);
	}
	for (size_t i = 0; i < storage->n_syncs; i++) {
		const struct storage_sync_row *row = &storage->syncs[i];

		if (row->changed_us > 0 && storage->read_us - row->changed_us < SHOWN_US)
			keep_first(largest.syncs, &largest.n_syncs, STORAGE_USERS, sizeof(row),
				&row, by_rate);
	}
	return largest;
}

/* Looks up the names of the largest users' cgroups. */
static void learn_users(struct storage *storage, uint64_t now)
{
	struct largest_rows largest = find_largest(storage);
	struct cgroups *cgroups = storage->facts->cgroups;
	uint64_t wanted[2 * STORAGE_USERS];
	size_t n = 0;

	for (size_t i = 0; i < largest.n_ios; i++)
		wanted[n++] = cgroup_key(CGROUP_BLKIO, largest.ios[i]->key.cgroup);
	for (size_t i = 0; i < largest.n_syncs; i++)
		wanted[n++] = cgroup_key(CGROUP_UNIFIED, largest.syncs[i]->key.cgroup);
	cgroups_learn(cgroups, wanted, n, now);
}

static struct storage_user *user_of(struct storage_user *users, unsigned *n, unsigned label,
	const struct workload *workload, const char *process)
{
	unsigned i = 0;

	/* Any other workload says enough about its process. */
	if (workload->kind != WORKLOAD_HOST)
		process = "";
	while (i < *n && (users[i].label != label || !streq(users[i].process, process) ||
				 !workload_equal(&users[i].workload, workload)))
		i++;
	if (i == STORAGE_USERS)
		return NULL;
	if (i == *n) {
		users[(*n)++] = (struct storage_user){.workload = *workload, .label = label};
		set_text(users[i].process, process);
	}
	return &users[i];
}

static unsigned label_of(const struct storage *storage, uint32_t number)
{
	const struct storage_device *device = find_device(storage, number);

	return device ? device->label : STORAGE_LABELS;
}

static void add_io(struct storage_user *user, const struct storage_io_row *row)
{
	user->queue_rate += row->queue_rate;
	user->queue_ns += row->last.queue_ns;
	for (int i = 0; i < STORAGE_DIRECTIONS; i++) {
		user->rate[i] += row->rate[i];
		user->bytes[i] += row->last.bytes[i];
		user->requests[i] += row->last.requests[i];
	}
}

static void add_sync(struct storage_user *user, const struct storage_sync_row *row, uint64_t now)
{
	user->sync_rate += row->rate;
	user->syncs += row->syncs;
	if (!row->window)
		return;
	storage_summarize(row->window, now, &user->summary);
	history_merge(&user->history, &row->window->history);
}

static int by_share(const void *a, const void *b)
{
	const struct storage_user *x = a, *y = b;

	if (x->share != y->share)
		return x->share < y->share ? 1 : -1;
	return (x->sync_rate < y->sync_rate) - (x->sync_rate > y->sync_rate);
}

struct storage_user *storage_users(const struct storage *storage, unsigned *n)
{
	struct storage_user *users = must(calloc(STORAGE_USERS, sizeof(*users)));
	struct largest_rows largest = find_largest(storage);

	*n = 0;
	/* Syncs of listed processes come first: they stay when there are too many users. */
	for (size_t i = 0; i < largest.n_syncs; i++) {
		const struct storage_sync_row *row = largest.syncs[i];
		struct workload workload = workload_of(storage, CGROUP_UNIFIED, row->key.cgroup);
		struct storage_user *user = user_of(
			users, n, label_of(storage, row->key.device), &workload, row->key.process);

		if (user)
			add_sync(user, row, storage->read_us);
	}
	for (size_t i = 0; i < largest.n_ios; i++) {
		const struct storage_io_row *row = largest.ios[i];
		struct workload workload = workload_of(storage, CGROUP_BLKIO, row->key.cgroup);
		struct storage_user *user =
			user_of(users, n, label_of(storage, row->key.disk), &workload, "");

		if (user)
			add_io(user, row);
	}
	for (unsigned i = 0; i < *n; i++) {
		double all = storage->labels[users[i].label].queue_rate;

		users[i].share = all > 0 ? users[i].queue_rate / all : 0;
	}
	qsort(users, *n, sizeof(*users), by_share);
	return users;
}

/* ---- the poll ---- */

void storage_sense(void *self, uint64_t now)
{
	struct storage *storage = self;
	struct counter_reading reading = {.storage = storage, .now = now};
	bool due = now - storage->facts_us >= FACTS_US;

	find_images(storage, due);
	storage->facts_us = due ? now : storage->facts_us;
	if (!storage->bpf || (storage->n_ios + storage->n_syncs > MANY_ROWS &&
				     now - storage->read_us < 3 * USEC_PER_SEC / 2))
		return;
	if (due || storage->read_us == 0)
		refresh_facts(storage, now);
	reading.smoothing = smoothing_since(storage->read_us, now, HALF_LIFE);
	reading.last = smoothing_since(storage->read_us, now, LAST_HALF_LIFE);
	storage->read_us = now;
	read_ios(&reading);
	read_syncs(&reading);
	learn_users(storage, now);
	storage_processes_list(storage, now);
}
