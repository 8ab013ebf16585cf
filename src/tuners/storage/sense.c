/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/storage/storage.h"

#include "kernel/bpf.h"

#include <fcntl.h>
#include <sys/sysmacros.h>

#include <bpf/bpf.h>

/* A row costs up to 1 us: many rows are read every other second. */
#define MANY_ROWS 1024

/* Half-life of smoothed rates in seconds. */
#define HALF_LIFE 20.0

/* The interval at which the facts about disks and cgroups are read. */
#define FACTS_US (60 * USEC_PER_SEC)

/* Rows idle for this time are removed when a kernel's map is half full, or the disk is gone. */
#define IDLE_US (60 * USEC_PER_SEC)

/* A label that was idle for this time, or whose disk is gone, is given away. */
#define LABEL_IDLE_US (600 * USEC_PER_SEC)

#define DEVICES_MAX 256
#define WINDOWS_MAX 32

/* ---- devices and labels ---- */

struct storage_device *storage_device_find(const struct storage *storage, uint32_t number)
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

static unsigned label_of(struct storage *storage, const struct storage_disk *disk, uint64_t now)
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

/* The device with this number, which is added. NULL when there are too many. */
static struct storage_device *device_of(
	struct storage *storage, uint32_t number, const char *name, uint64_t now)
{
	struct storage_device *device = storage_device_find(storage, number);

	if (!device && storage->n_devices < DEVICES_MAX) {
		device = add_element(
			&storage->devices, &storage->n_devices, &storage->devices_allocated);
		device->number = number;
		storage_disk_read(storage->host, number, name, &device->disk);
		device->label = label_of(storage, &device->disk, now);
		device->read_us = now;
	}
	if (device) {
		device->used_us = storage->labels[device->label].used_us = now;
		/* It lost its label to another. */
		if (device->label == STORAGE_LABELS)
			device->label = label_of(storage, &device->disk, now);
	}
	return device;
}

/* ---- requests ---- */

struct counter_reading {
	struct storage *storage;
	uint64_t now;
	struct smoothing smoothing;
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

static void fill_window(struct storage_window *window, const struct storage_sync *last,
	const struct storage_sync *sync, uint32_t syncs, uint64_t now)
{
	uint64_t slice = now / STORAGE_SLICE_US, worst = 0;
	uint32_t *counts = window->slices[slice % STORAGE_SLICES];

	for (uint64_t i = MAX(window->slice + 1, slice - MIN(slice, STORAGE_SLICES - 1));
		i <= slice; i++) {
		memset(window->slices[i % STORAGE_SLICES], 0, sizeof(window->slices[0]));
		window->took_us[i % STORAGE_SLICES] = 0;
	}
	window->slice = slice;
	for (int i = 0; i < STORAGE_BUCKETS; i++)
		counts[i] += sync->counts[i] - last->counts[i];
	window->took_us[slice % STORAGE_SLICES] += (sync->ns - last->ns) / 1000;
	/* The poll is late rather than early: the syncs belong to the second before. */
	second_of(window, now / USEC_PER_SEC)->syncs += syncs;
	for (int i = 0; i < STORAGE_SECONDS; i++) {
		uint64_t longest_us = ((sync->worst[i] & UINT32_MAX) << 10) / 1000;
		struct storage_second *second;

		if (sync->worst[i] == last->worst[i])
			continue;
		second = second_of(window, sync->worst[i] >> 32);
		second->worst_us = MAX(second->worst_us, (uint32_t)MIN(longest_us, UINT32_MAX));
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

static void read_syncs(struct counter_reading *reading)
{
	struct storage *storage = reading->storage;
	size_t kept = 0;
	int r;

	for (size_t i = 0; i < storage->n_syncs; i++)
		storage->syncs[i].seen = false;
	r = bpf_each(storage->bpf->syncs, sizeof(struct storage_sync_key),
		sizeof(struct storage_sync), read_sync, reading);
	for (size_t i = 0; i < storage->n_syncs; i++) {
		struct storage_sync_row *row = &storage->syncs[i];

		if (row->seen || r < 0) {
			storage->syncs[kept++] = *row;
			continue;
		}
		storage->n_windows -= row->window != NULL;
		free(row->window);
	}
	if (kept < storage->n_syncs)
		index_reset(&storage->syncs_index);
	storage->n_syncs = kept;
}

/* Removes rows of the kernel's maps; the next reading forgets them. */
static void prune(struct storage *storage, uint64_t now)
{
	bool many_ios = storage->n_ios > STORAGE_ROWS_MAX / 2;
	bool many_syncs = storage->n_syncs > STORAGE_ROWS_MAX / 2;

	for (size_t i = 0; i < storage->n_ios; i++) {
		const struct storage_io_row *row = &storage->ios[i];
		uint64_t idle = now - row->changed_us;

		if (idle > IDLE_US && (many_ios || !storage_device_find(storage, row->key.disk)))
			(void)bpf_map_delete_elem(storage->bpf->ios, &row->key);
	}
	for (size_t i = 0; i < storage->n_syncs; i++) {
		const struct storage_sync_row *row = &storage->syncs[i];
		uint64_t idle = now - row->changed_us;

		if (idle > IDLE_US &&
			(many_syncs || !storage_device_find(storage, row->key.device)))
			(void)bpf_map_delete_elem(storage->bpf->syncs, &row->key);
	}
}

/* ---- facts ---- */

/* Whether the io controller of cgroup2 tells the cgroups below the root apart. */
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

static void refresh_facts(struct storage *storage, uint64_t now)
{
	size_t kept = 0;

	storage->attributed =
		storage->io_groups != storage->sync_groups || controls_io(storage->io_root);
	if (storage->bpf->calls_error < 0)
		storage_mount_types(storage->host, storage->unseen, sizeof(storage->unseen));
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
			device->label = label_of(storage, &device->disk, now);
		/* A file system that only a container has is not looked for again and again. */
		if (device->disk.exists || now - device->used_us < (disk ? IDLE_US : LABEL_IDLE_US))
			storage->devices[kept++] = *device;
	}
	storage->n_devices = kept;
	for (unsigned i = 0; i < STORAGE_LABELS; i++)
		if (!storage->labels[i].disk.exists && now - storage->labels[i].used_us > IDLE_US)
			clear_label(storage, i);
	prune(storage, now);
}

/* Where the runtimes' images are. */
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
}

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
	storage->read_us = now;
	read_ios(&reading);
	read_syncs(&reading);
	storage_users_learn(storage, now);
	storage_processes_list(storage, now);
}
