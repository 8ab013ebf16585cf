/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/storage/storage.h"

/* Rows that were idle for this time are not shown. */
#define SHOWN_US (300 * USEC_PER_SEC)

struct workload storage_workload(const struct cgroups *groups, uint64_t cgroup)
{
	if (cgroup > CGROUP_ROOT_INODE)
		return cgroups_find(groups, cgroup);
	return (struct workload){.kind = WORKLOAD_HOST, .name = "host"};
}

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

void storage_users_learn(struct storage *storage, uint64_t now)
{
	struct largest_rows largest = find_largest(storage);
	uint64_t ios[STORAGE_USERS], both[2 * STORAGE_USERS];
	size_t n = 0, n_ios = 0;

	for (size_t i = 0; i < largest.n_ios; i++)
		if (largest.ios[i]->key.cgroup > CGROUP_ROOT_INODE)
			ios[n_ios++] = largest.ios[i]->key.cgroup;
	for (size_t i = 0; i < largest.n_syncs; i++)
		if (largest.syncs[i]->key.cgroup > CGROUP_ROOT_INODE)
			both[n++] = largest.syncs[i]->key.cgroup;
	if (storage->io_groups != storage->sync_groups) {
		cgroups_learn(storage->io_groups, ios, n_ios, now);
	} else {
		memcpy(both + n, ios, n_ios * sizeof(*ios));
		n += n_ios;
	}
	cgroups_learn(storage->sync_groups, both, n, now);
}

static struct storage_user *user_of(
	struct storage_user *users, unsigned *n, unsigned label, const struct workload *workload)
{
	unsigned i = 0;

	while (i < *n && (users[i].label != label || !workload_equal(&users[i].workload, workload)))
		i++;
	if (i == STORAGE_USERS)
		return NULL;
	if (i == *n)
		users[(*n)++] = (struct storage_user){.workload = *workload, .label = label};
	return &users[i];
}

static unsigned label_of(const struct storage *storage, uint32_t number)
{
	const struct storage_device *device = storage_device_find(storage, number);

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
		struct workload workload = storage_workload(storage->sync_groups, row->key.cgroup);
		struct storage_user *user =
			user_of(users, n, label_of(storage, row->key.device), &workload);

		if (user)
			add_sync(user, row, storage->read_us);
	}
	for (size_t i = 0; i < largest.n_ios; i++) {
		const struct storage_io_row *row = largest.ios[i];
		struct workload workload = storage_workload(storage->io_groups, row->key.cgroup);
		struct storage_user *user =
			user_of(users, n, label_of(storage, row->key.disk), &workload);

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
