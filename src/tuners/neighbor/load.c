/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/neighbor/neighbor.h"

#include "kernel/bpf.h"

#include <systemd/sd-event.h>

#include "neighbor.skel.h"

/* The job that loads the BPF programs, and the source of their wake-ups. */

static int ignore_record(void *, void *, size_t)
{
	return 0;
}

struct load {
	struct neighbor_bpf_object *bpf;
	struct ring_buffer *ring;
	char why[TUNER_WHY_MAX];
};

static void load_clear(struct load *load)
{
	ring_buffer__free(steal(load->ring));
	neighbor_bpf_object__destroy(steal(load->bpf));
}

void *neighbor_load_request(void *self, const void *, bool)
{
	struct neighbor *neighbor = self;
	struct load *load;

	if (neighbor->bpf || neighbor->bpf_why[0])
		return NULL;
	load = must(calloc(1, sizeof(*load)));
	strcpy(load->why, "no thread to load BPF programs");
	return load;
}

static int open_bpf(struct load *load)
{
	int r;

	load->bpf = neighbor_bpf_object__open_and_load();
	if (!load->bpf)
		return -errno;
	r = neighbor_bpf_object__attach(load->bpf);
	if (r < 0)
		return r;
	load->ring =
		ring_buffer__new(bpf_map__fd(load->bpf->maps.wakeups), ignore_record, NULL, NULL);
	return load->ring ? 0 : -errno;
}

void neighbor_load(void *request, const struct wait *)
{
	struct load *load = request;
	int r;

	bpf_quiet_libbpf();
	load->why[0] = '\0';
	r = open_bpf(load);
	if (r == 0)
		return;
	bpf_explain_failure(r, load->why, TUNER_WHY_MAX);
	load_clear(load);
}

static int on_wakeup(sd_event_source *, int, uint32_t, void *userdata)
{
	struct neighbor *neighbor = userdata;

	/* The records are empty: each one only requests a poll. */
	ring_buffer__consume(neighbor->ring);
	neighbor->woken = true;
	neighbor->loop->poll(neighbor->loop);
	return 0;
}

static void arm(void *self, const void *data)
{
	const struct neighbor_memory *memory = data;
	struct neighbor *neighbor = self;

	for (int family = 0; family < NEIGHBOR_FAMILIES; family++) {
		struct neighbor_record *record = &neighbor->bpf->bss->records[family];

		record->wake_at = memory->families[family].wake_at;
		/* One wake-up per refused entry would be too many. While the kernel refuses
		 * entries, the tick is enough. */
		record->wake_refused = !memory->families[family].refusing;
	}
}

void neighbor_load_adopt(void *self, void *request)
{
	struct neighbor *neighbor = self;
	struct load *load = request;
	struct tuner_loop *loop = neighbor ? neighbor->loop : NULL;

	if (!neighbor) {
		load_clear(load);
	} else {
		neighbor->bpf = neighbor->users.object = load->bpf;
		neighbor->ring = load->ring;
		if (load->bpf)
			neighbor->users.owners = netns_owners_open(
				neighbor->host, bpf_link__fd(load->bpf->links.list_owners));
		copy_text(neighbor->bpf_why, TUNER_WHY_MAX, load->why);
	}
	if (loop && load->bpf)
		loop->arm = arm;
	if (loop && neighbor->ring &&
		sd_event_add_io(loop->event, &loop->urgent, ring_buffer__epoll_fd(neighbor->ring),
			EPOLLIN, on_wakeup, neighbor) >= 0)
		/* Before a scrape that came at the same moment. */
		(void)sd_event_source_set_priority(loop->urgent, SD_EVENT_PRIORITY_IMPORTANT);
	free(load);
}
