/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/storage/storage.h"

#include "base/exposition.h"

/*
 * The listed processes: their latency over five minutes, who holds the queue of their disk, and
 * what other tuners need: their file systems and databases.
 */

void storage_summarize(
	const struct storage_window *window, uint64_t now, struct storage_summary *summary)
{
	uint64_t slice = now / STORAGE_SLICE_US, second = now / USEC_PER_SEC;

	/* Adds to the counts that summary has. */
	for (uint64_t s = slice - MIN(slice, STORAGE_SLICES - 1); s <= window->slice; s++) {
		for (int i = 0; i < STORAGE_BUCKETS; i++) {
			summary->counts[i] += window->slices[s % STORAGE_SLICES][i];
			summary->syncs += window->slices[s % STORAGE_SLICES][i];
		}
		summary->took_us += window->took_us[s % STORAGE_SLICES];
	}
	for (size_t i = 0; i < ARRAY_SIZE(window->seconds); i++) {
		const struct storage_second *of = &window->seconds[i];

		if (of->number == 0 || second - of->number >= ARRAY_SIZE(window->seconds))
			continue;
		summary->worst_us = MAX(summary->worst_us, (uint64_t)of->worst_us);
		summary->busiest = MAX(summary->busiest, (uint64_t)of->syncs);
	}
	summary->p50 =
		histogram_quantile(storage_bounds, summary->counts, STORAGE_BUCKETS - 1, 0.50);
	summary->p99 =
		histogram_quantile(storage_bounds, summary->counts, STORAGE_BUCKETS - 1, 0.99);
}

static bool is_below(const struct storage_disk *disk, uint32_t number)
{
	for (unsigned i = 0; i < disk->n_below; i++)
		if (disk->below[i] == number)
			return true;
	return false;
}

/* Finds the workload that waits most for the disks of the process. */
static void find_holder(const struct storage *storage, struct storage_process *process)
{
	struct holder {
		struct workload workload;
		double queue, rate;
	} *holders = must(calloc(STORAGE_USERS, sizeof(*holders))), *top = NULL;
	size_t n = 0, at;
	double sum = 0;

	for (size_t i = 0; i < storage->n_ios; i++) {
		const struct storage_io_row *row = &storage->ios[i];
		struct workload workload;

		if (!is_below(&process->disk, row->key.disk) || row->queue_rate <= 0)
			continue;
		sum += row->queue_rate;
		workload = storage_workload(storage->io_groups, row->key.cgroup);
		for (at = 0; at < n && !workload_equal(&holders[at].workload, &workload); at++)
			;
		if (at == n && n == STORAGE_USERS)
			continue;
		n = MAX(n, at + 1);
		holders[at].workload = workload;
		holders[at].queue += row->queue_rate;
		holders[at].rate += row->rate[STORAGE_WRITE];
	}
	for (at = 0; at < n; at++)
		if (!top || holders[at].queue > top->queue)
			top = &holders[at];
	process->holder_share = top ? top->queue / sum : 0;
	if (top) {
		process->holder = top->workload;
		process->holder_rate = top->rate;
	}
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

void storage_processes_list(struct storage *storage, uint64_t now)
{
	storage->n_seen = 0;
	storage->facts->disks.n_synced = storage->facts->disks.n_databases = 0;
	for (size_t i = 0; i < storage->n_syncs && storage->n_seen < STORAGE_PROCESSES_SHOWN; i++) {
		const struct storage_sync_row *row = &storage->syncs[i];
		struct storage_process *process = &storage->seen[storage->n_seen];
		struct storage_device *device;

		if (!row->key.process[0] || !row->window)
			continue;
		*process = (struct storage_process){0};
		storage_summarize(row->window, now, &process->summary);
		device = storage_device_find(storage, row->key.device);
		if (process->summary.syncs == 0 || !device)
			continue;
		set_text(process->name, row->key.process);
		process->workload = storage_workload(storage->sync_groups, row->key.cgroup);
		process->disk = device->disk;
		if (storage->attributed &&
			process->summary.p99 * 1e6 > (double)storage->sync_p99_us)
			find_holder(storage, process);
		pass_filesystem(storage, device);
		pass_database(&storage->facts->disks, row, &process->workload);
		storage->n_seen++;
	}
}
