/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/neighbor/neighbor.h"

#include "base/util.h"
#include "kernel/bpf.h"
#include "tuners/neighbor/users.h"

#include <errno.h>
#include <stdlib.h>

#include <bpf/bpf.h>

#include "neighbor.skel.h"

struct neighbor_bpf {
	struct neighbor_bpf_object *object;
	struct ring_buffer *ring;
	struct neighbor_users *users;
	bool woken; /* drained since the last look: who it was can wait, room for more cannot */
};

static int ignore_record(void *userdata, void *data, size_t size)
{
	(void)userdata;
	(void)data;
	(void)size;
	return 0;
}

static int open_parts(struct neighbor_bpf *bpf, const struct host *host)
{
	int r;

	bpf->object = neighbor_bpf_object__open_and_load();
	if (!bpf->object)
		return -errno;
	r = neighbor_bpf_object__attach(bpf->object);
	if (r < 0)
		return r;
	bpf->ring =
		ring_buffer__new(bpf_map__fd(bpf->object->maps.wakeups), ignore_record, NULL, NULL);
	if (!bpf->ring)
		return -errno;
	bpf->users = neighbor_users_open(bpf->object, host);
	return bpf->users ? 0 : -ENOMEM;
}

struct neighbor_bpf *neighbor_bpf_open(const struct host *host, char why[static TUNER_WHY_MAX])
{
	struct neighbor_bpf *bpf = calloc(1, sizeof(*bpf));
	int r = bpf ? 0 : -ENOMEM;

	bpf_quiet_libbpf();
	if (r == 0)
		r = open_parts(bpf, host);
	if (r == 0)
		return bpf;
	bpf_explain_failure(r, why, TUNER_WHY_MAX);
	neighbor_bpf_close(bpf);
	return NULL;
}

void neighbor_bpf_close(struct neighbor_bpf *bpf)
{
	if (!bpf)
		return;
	if (bpf->users)
		neighbor_users_close(bpf->users);
	ring_buffer__free(bpf->ring);
	neighbor_bpf_object__destroy(bpf->object);
	free(bpf);
}

/* Has the kernel refresh the collectable counts. Without them the records still count events. */
static bool sample(struct neighbor_bpf *bpf)
{
	LIBBPF_OPTS(bpf_test_run_opts, options);

	return bpf_prog_test_run_opts(bpf_program__fd(bpf->object->progs.sample), &options) == 0;
}

void neighbor_bpf_sense(struct neighbor_bpf *bpf, struct neighbor_seen *seen, uint64_t now)
{
	const struct neighbor_record *records = bpf->object->bss->records;
	bool sampled = sample(bpf);

	if (!bpf->woken)
		neighbor_users_update(bpf->users, now);
	bpf->woken = false;
	seen->watched = true;
	for (int family = 0; family < NEIGHBOR_FAMILIES; family++) {
		struct neighbor_table_seen *table = &seen->tables[family];

		table->exact = sampled && records[family].sampled;
		if (table->exact)
			table->collectable = records[family].collectable;
		table->created = records[family].created;
		table->refused = records[family].refused;
		table->last = records[family].last;
		table->last_owner =
			neighbor_users_refused(bpf->users, (enum neighbor_family)family, now);
		table->n_top =
			neighbor_users_top(bpf->users, (enum neighbor_family)family, table->top);
	}
}

int neighbor_bpf_event_fd(const struct neighbor_bpf *bpf)
{
	return ring_buffer__epoll_fd(bpf->ring);
}

void neighbor_bpf_drain(struct neighbor_bpf *bpf)
{
	/* What is in it does not matter: that it came does. */
	ring_buffer__consume(bpf->ring);
	bpf->woken = true;
}

uint64_t neighbor_bpf_next_poll_us(const struct neighbor_bpf *bpf)
{
	return neighbor_users_next_poll_us(bpf->users);
}

void neighbor_bpf_arm(struct neighbor_bpf *bpf, const struct neighbor_memory *memory)
{
	struct neighbor_record *records = bpf->object->bss->records;

	for (int family = 0; family < NEIGHBOR_FAMILIES; family++) {
		records[family].wake_at = memory->families[family].wake_at;
		/* While entries are being refused the tick looks; waking for each would be a storm.
		 */
		records[family].wake_refused = !memory->families[family].refusing;
	}
}
