/* SPDX-License-Identifier: Apache-2.0 */
/*
 * neighbor.stale: observe. Updates of entries that the kernel did not take, because the entry has
 * another link address: two machines answer for one address, or the entry is stale. BPF counts
 * them, in all network namespaces. The parts, in order: reading the counts; the document and its
 * view; metrics. Nothing here is a problem by itself: a host with two devices in one network and
 * proxy ARP do the same.
 */
#include "tuners/neighbor/neighbor.h"

#include "base/exposition.h"
#include "base/json.h"
#include "base/text.h"
#include "kernel/bpf.h"

#include <arpa/inet.h>

#include <bpf/bpf.h>

#include "neighbor.skel.h"

/* A pair of link addresses is shown for so long. */
#define SHOWN_US  (3600 * USEC_PER_SEC)
#define SHOWN_MAX 64

/* With more rows than this the map loses the older ones first. */
#define CROWDED (NEIGHBOR_CONFLICTS_MAX / 2)

static const char *const verdict_names[NEIGHBOR_VERDICTS] = {
	[NEIGHBOR_REFUSED] = "refused", [NEIGHBOR_WEAK] = "weak"};

void conflicts_watch(struct neighbor *neighbor)
{
	struct neighbor_conflicts *conflicts = &neighbor->conflicts;
	bool wanted = neighbor->bpf && neighbor->config.stale != STALE_OFF;

	if (wanted && !conflicts->link) {
		conflicts->link = bpf_program__attach(neighbor->bpf->progs.neigh_update);
	} else if (!wanted && conflicts->link) {
		bpf_link__destroy(conflicts->link);
		conflicts->link = NULL;
	}
}

void conflicts_clear(struct neighbor *neighbor)
{
	bpf_link__destroy(neighbor->conflicts.link);
	free(neighbor->conflicts.rows);
}

/* ---- reading the counts ---- */

static struct neighbor_conflict_device *find_device(
	const struct neighbor_conflicts *conflicts, const struct neighbor_conflict_row *row)
{
	for (unsigned i = 0; i < conflicts->n_devices; i++) {
		const struct neighbor_conflict_device *device = &conflicts->devices[i];

		if (device->netns == row->key.netns && device->ifindex == row->key.ifindex)
			return (struct neighbor_conflict_device *)device;
	}
	return NULL;
}

/* Returns NULL if all slots have devices with recent conflicts. */
static struct neighbor_conflict_device *add_device(
	struct neighbor_conflicts *conflicts, const struct neighbor_conflict_row *row, uint64_t now)
{
	struct neighbor_conflict_device *device = &conflicts->devices[0];

	if (conflicts->n_devices < CONFLICT_DEVICES) {
		device = &conflicts->devices[conflicts->n_devices++];
	} else {
		for (unsigned i = 1; i < CONFLICT_DEVICES; i++)
			if (conflicts->devices[i].event.at_us < device->event.at_us)
				device = &conflicts->devices[i];
		if (now - device->event.at_us < SHOWN_US)
			return NULL;
		for (int i = 0; i < NEIGHBOR_VERDICTS; i++)
			conflicts->others[i] += device->counts[i];
	}
	*device = (struct neighbor_conflict_device){
		.netns = row->key.netns, .ifindex = row->key.ifindex};
	memcpy(device->name, row->last.device, sizeof(device->name));
	device->name[sizeof(device->name) - 1] = '\0';
	return device;
}

/* Adds the new conflicts of an address to its device. before: at the last read. */
static void count_row(struct neighbor_conflicts *conflicts, const struct neighbor_conflict_row *row,
	const struct neighbor_conflict *before, uint64_t now)
{
	struct neighbor_conflict_device *device = find_device(conflicts, row);
	uint64_t *counts;

	if (!device)
		device = add_device(conflicts, row, now);
	counts = device ? device->counts : conflicts->others;
	for (int i = 0; i < NEIGHBOR_VERDICTS; i++) {
		uint64_t fresh = row->last.counts[i] - (before ? before->counts[i] : 0);

		counts[i] += fresh;
		conflicts->counts[i] += fresh;
	}
}

static void add_row(void *userdata, const void *key, const void *value)
{
	struct neighbor_conflicts *read = userdata;
	struct neighbor_conflict_row *row = add_element(&read->rows, &read->n, &read->allocated);

	memcpy(&row->key, key, sizeof(row->key));
	memcpy(&row->last, value, sizeof(row->last));
}

static int newest_first(const void *a, const void *b)
{
	const struct neighbor_conflict_row *x = a, *y = b;

	return (x->last.at_ns < y->last.at_ns) - (x->last.at_ns > y->last.at_ns);
}

/* Makes room in the map. A conflict that comes right now can be lost. */
static void drop_old(struct neighbor_conflicts *conflicts, int map, uint64_t now)
{
	while (conflicts->n > 0) {
		const struct neighbor_conflict_row *row = &conflicts->rows[conflicts->n - 1];
		uint64_t age_us = now - MIN(row->last.at_ns / 1000, now);

		if (age_us < (conflicts->n > CROWDED ? CONFLICT_RECENT_US : SHOWN_US))
			return;
		bpf_map_delete_elem(map, &row->key);
		conflicts->n--;
	}
}

static void read_rows(struct neighbor *neighbor, const uint64_t *totals, uint64_t now)
{
	struct neighbor_conflicts *conflicts = &neighbor->conflicts;
	struct neighbor_conflicts read = {0};
	int map = bpf_map__fd(neighbor->bpf->maps.headroom_conflicts);

	(void)bpf_each(map, sizeof(struct neighbor_address), sizeof(struct neighbor_conflict),
		add_row, &read);
	for (size_t i = 0; i < read.n; i++) {
		const struct neighbor_conflict *before = NULL;

		for (size_t j = 0; j < conflicts->n && !before; j++)
			if (memcmp(&conflicts->rows[j].key, &read.rows[i].key,
				    sizeof(read.rows[i].key)) == 0)
				before = &conflicts->rows[j].last;
		count_row(conflicts, &read.rows[i], before, now);
	}
	/* The map had no room for the rest. */
	for (int i = 0; i < NEIGHBOR_VERDICTS; i++) {
		uint64_t rest =
			totals[i] > conflicts->counts[i] ? totals[i] - conflicts->counts[i] : 0;

		conflicts->others[i] += rest;
		conflicts->counts[i] += rest;
	}
	free(conflicts->rows);
	conflicts->rows = read.rows;
	conflicts->n = read.n;
	conflicts->allocated = read.allocated;
	if (conflicts->n > 1)
		qsort(conflicts->rows, conflicts->n, sizeof(*conflicts->rows), newest_first);
	drop_old(conflicts, map, now);
}

void conflicts_sense(struct neighbor *neighbor, uint64_t now)
{
	struct neighbor_conflicts *conflicts = &neighbor->conflicts;
	uint64_t totals[NEIGHBOR_VERDICTS];

	if (!conflicts->link)
		return;
	for (int i = 0; i < NEIGHBOR_VERDICTS; i++)
		totals[i] = neighbor->bpf->bss->conflict_counts[i];
	if (memcmp(totals, conflicts->read, sizeof(totals)) != 0) {
		memcpy(conflicts->read, totals, sizeof(totals));
		conflicts->fresh_us = now;
		read_rows(neighbor, totals, now);
	}
	for (unsigned i = 0; i < conflicts->n_devices; i++) {
		struct neighbor_conflict_device *device = &conflicts->devices[i];

		netns_event_update(&device->event, neighbor->users.owners, device->netns,
			device->counts[NEIGHBOR_REFUSED] + device->counts[NEIGHBOR_WEAK], now);
	}
}

size_t conflicts_netns(const struct neighbor_conflicts *conflicts, uint32_t *netns, uint64_t now)
{
	size_t n = 0;

	for (unsigned i = 0; i < conflicts->n_devices; i++)
		if (now - conflicts->devices[i].event.at_us < CONFLICT_RECENT_US)
			netns[n++] = conflicts->devices[i].netns;
	return n;
}

/* ---- the document and its view ---- */

static void add_pair(
	cJSON *array, const struct neighbor *neighbor, const struct neighbor_conflict_row *row)
{
	const struct neighbor_conflict_device *device = find_device(&neighbor->conflicts, row);
	struct workload owner = device ? device->event.owner
				       : netns_owners_find(neighbor->users.owners, row->key.netns);
	const struct neighbor_family_row *family = &neighbor_families[row->key.family & 1];
	char address[INET6_ADDRSTRLEN] = "?", known[MAC_TEXT], other[MAC_TEXT], name[16];
	uint64_t age_us = now_us() - MIN(row->last.at_ns / 1000, now_us());
	cJSON *object = json_append(array);

	inet_ntop(family->af, row->key.address, address, sizeof(address));
	copy_text(name, sizeof(name), row->last.device);
	neighbor_mac_text(row->last.known, known);
	neighbor_mac_text(row->last.other, other);
	json_text(object, "address", address);
	json_text(object, "device", name);
	workload_json(object, &owner);
	json_text(object, "entry", known);
	json_text(object, "other", other);
	JSON_NUMBERS(object, {"refused", (double)row->last.counts[NEIGHBOR_REFUSED]},
		{"weak", (double)row->last.counts[NEIGHBOR_WEAK]});
	json_time(object, "last", realtime_us() - age_us);
}

struct cJSON *neighbor_document(const void *self, const void *data, bool)
{
	const struct neighbor_memory *memory = data;
	const struct neighbor *neighbor = self;
	const struct neighbor_conflicts *conflicts = &neighbor->conflicts;
	cJSON *root = cJSON_CreateObject(), *array, *object;

	json_text(root, "stale", neighbor_stale_choices[neighbor->config.stale]);
	json_bool(root, "counted", conflicts->link);
	array = json_array(root, "conflicts");
	for (size_t i = 0; i < MIN(conflicts->n, (size_t)SHOWN_MAX); i++)
		add_pair(array, neighbor, &conflicts->rows[i]);
	array = json_array(root, "devices");
	for (unsigned i = 0; i < conflicts->n_devices; i++) {
		const struct neighbor_conflict_device *device = &conflicts->devices[i];

		object = json_append(array);
		json_text(object, "device", device->name);
		workload_json(object, &device->event.owner);
		for (int verdict = 0; verdict < NEIGHBOR_VERDICTS; verdict++)
			json_number(
				object, verdict_names[verdict], (double)device->counts[verdict]);
	}
	if (neighbor->config.stale != STALE_REFRESH)
		return root;
	object = json_object(root, "refreshed");
	for (int i = 0; i < REFRESH_COUNTED; i++)
		json_number(object, refresh_result_names[i], (double)memory->refresh.counts[i]);
	return root;
}

static const struct column columns[] = {
	{.title = "Address", .heading = "address", .key = "address", .width = -24},
	{.title = "Device", .heading = "device", .key = "device", .width = -15},
	{.title = "Namespace of",
		.heading = "namespace of",
		.key = "workload/text",
		.width = -24,
		.rank = 2},
	{"Entry has", "entry has", "entry", .format = COLUMN_CODE, .width = -18},
	{"Also seen", "also seen", "other", .format = COLUMN_CODE, .width = -18},
	{"Refused", "refused", "refused", COLUMN_NUMBER, 8},
	{"Weak", "weak", "weak", COLUMN_NUMBER, 6},
	{.title = "Last", .key = "last", .format = COLUMN_TIME},
	{0},
};

static void write_notes(const cJSON *document, char *text, size_t size)
{
	const cJSON *refreshed = json_at(document, "refreshed");

	if (streq(json_text_at(document, "stale"), neighbor_stale_choices[STALE_OFF]))
		text_append(text, size, "  not counted: neighbor.stale is off\n");
	else if (cJSON_IsFalse(json_at(document, "counted")))
		text_append(text, size, "  not counted: BPF does not run\n");
	if (!refreshed)
		return;
	text_append(text, size, "  refreshed:");
	for (int i = 0; i < REFRESH_COUNTED; i++)
		text_append(text, size, "%s %.0f %s", i > 0 ? "," : "",
			json_number_at(refreshed, refresh_result_names[i]),
			refresh_result_names[i]);
	text_append(text, size, "\n");
}

const struct table_view neighbor_view = {.title = "Two link addresses for one address",
	.rows = "conflicts",
	.columns = columns,
	.is_optional = true,
	.empty = "none in the last hour",
	.write_notes = write_notes};

/* ---- metrics ---- */

void conflicts_metrics(const struct neighbor *neighbor, const void *data, struct metric_sink *sink)
{
	const struct neighbor_conflicts *conflicts = &neighbor->conflicts;
	const struct neighbor_memory *memory = data;

	if (conflicts->link)
		metric_family(sink, "headroom_neighbor_conflicts_total");
	for (int verdict = 0; conflicts->link && verdict < NEIGHBOR_VERDICTS; verdict++) {
		for (unsigned i = 0; i < conflicts->n_devices; i++) {
			const struct neighbor_conflict_device *device = &conflicts->devices[i];
			const struct workload *owner = &device->event.owner;

			metric_sample(sink, (double)device->counts[verdict], device->name,
				workload_kind_names[owner->kind], owner->namespace,
				workload_name(owner), verdict_names[verdict], NULL);
		}
		metric_sample(sink, (double)conflicts->others[verdict], "other", "", "", "",
			verdict_names[verdict], NULL);
	}
	if (neighbor->config.stale != STALE_REFRESH)
		return;
	metric_family(sink, "headroom_neighbor_refreshes_total");
	for (int i = 0; i < REFRESH_COUNTED; i++)
		metric_sample(
			sink, (double)memory->refresh.counts[i], refresh_result_names[i], NULL);
}
