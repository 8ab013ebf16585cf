/* SPDX-License-Identifier: Apache-2.0 */
/*
 * neighbor.stale: refresh. An entry may have the link address of a machine that is gone: TCP keeps
 * it alive as long as the network delivers a connection, and other packets are lost without end.
 * The parts, in order: which entries may be asked; the job, on a thread, which asks the link
 * address and removes an entry that does not answer; what decide() does with the results. Only
 * entries of the agent's own network namespace are asked.
 */
#include "tuners/neighbor/neighbor.h"

#include "base/file.h"
#include "base/text.h"
#include "base/wait.h"

#include <arpa/inet.h>
#include <linux/neighbour.h>
#include <net/if.h>
#include <netlink/socket.h>

DEFINE_CLEANUP(struct nl_sock, nl_socket_free)

/* Only traffic confirms an entry that is older, and a younger confirmation is recent: the kernel
 * takes 15 to 45 s for one. */
#define OLD_US       (300 * USEC_PER_SEC)
#define CONFIRMED_US (45 * USEC_PER_SEC)

/* The kernel asks again after 1 s: the second answer comes within 50 ms. */
#define ANSWER_US (1050 * USEC_PER_MSEC)

/* The kernel resolves for 3 s. */
#define RESOLVED_US (3 * USEC_PER_SEC)

#define SCAN_US     (60 * USEC_PER_SEC)
#define AGAIN_US    (300 * USEC_PER_SEC)
#define HEALTHY_US  (3600 * USEC_PER_SEC)
#define NEVER_US    UINT64_MAX
#define FINDING_US  (300 * USEC_PER_SEC)
#define WAKE_AT_US  USEC_PER_SEC
#define SOLICIT_MAX 16

#define RESULT_NAME(name, text) text,
const char *const refresh_result_names[REFRESH_COUNTED] = {REFRESH_RESULTS(RESULT_NAME)};

/* ---- which entries may be asked ---- */

static bool same_mac(const uint8_t *a, const uint8_t *b)
{
	return memcmp(a, b, NEIGHBOR_MAC) == 0;
}

/* Permanent entries, entries without ARP and entries that a program manages have an owner. */
static bool may_be_asked(const struct neighbor_entry *entry, bool by_age)
{
	if (!entry->has_mac || entry->is_managed)
		return false;
	if (by_age)
		return entry->state == NUD_REACHABLE && entry->updated_us > OLD_US &&
		       entry->confirmed_us < CONFIRMED_US;
	return entry->state & (NUD_REACHABLE | NUD_STALE | NUD_DELAY);
}

/* Returns a number of the kernel's for a device, or -1. */
static int64_t solicit_of(int family, const char *device, const char *kind)
{
	char path[PATH_MAX];
	_cleanup_free_ char *text = NULL;
	uint64_t number;

	snprintf(path, sizeof(path), "/proc/sys/net/%s/neigh/%s/%s_solicit",
		family == AF_INET ? "ipv4" : "ipv6", device, kind);
	if (read_file(path, SOLICIT_MAX, &text, NULL) < 0)
		return -1;
	text[strcspn(text, "\n")] = '\0';
	return parse_count(text, &number) < 0 || number > INT32_MAX ? -1 : (int64_t)number;
}

/* The kernel alone must resolve the device's entries: no program, by one unicast request first. */
static bool device_may_be_asked(int family, const char *device)
{
	return solicit_of(family, device, "app") == 0 && solicit_of(family, device, "ucast") > 0 &&
	       solicit_of(family, device, "mcast") > 0;
}

/* ---- the job ---- */

/* Looks how an entry that was removed has resolved. If nobody has answered, it is put back. */
static void look_again(struct nl_sock *socket, struct refresh_item *item)
{
	struct neighbor_entry entry;
	int r = neighbors_get(socket, &item->entry.id, &entry);
	bool is_resolved =
		r == 0 && entry.has_mac && !(entry.state & (NUD_INCOMPLETE | NUD_FAILED));

	if (!if_indextoname(item->entry.id.ifindex, item->device))
		r = -ENODEV;
	if (is_resolved && same_mac(entry.mac, item->entry.mac)) {
		item->result = REFRESH_SAME;
	} else if (is_resolved) {
		item->result = REFRESH_STALE;
		memcpy(item->other, entry.mac, NEIGHBOR_MAC);
	} else if (r == 0 || r == -ENOENT) {
		entry = (struct neighbor_entry){
			.id = item->entry.id, .is_router = item->entry.is_router, .has_mac = true};
		memcpy(entry.mac, item->entry.mac, NEIGHBOR_MAC);
		r = neighbors_put_stale(socket, &entry);
		item->result = r < 0 ? REFRESH_CHANGED : REFRESH_SILENT;
	} else {
		item->result = REFRESH_CHANGED;
	}
}

/* Returns 0, or -errno if the kernel refuses. */
static int ask_entry(struct nl_sock *socket, struct refresh_item *item)
{
	struct neighbor_entry entry;
	int r = 0;

	/* The entry can have changed since it was found. */
	item->result = REFRESH_SKIPPED;
	if (!if_indextoname(item->entry.id.ifindex, item->device) ||
		!device_may_be_asked((int)item->entry.id.family, item->device) ||
		neighbors_get(socket, &item->entry.id, &entry) < 0 ||
		!may_be_asked(&entry, item->entry.by_age) || !same_mac(entry.mac, item->entry.mac))
		return 0;
	item->entry.is_router = entry.is_router;
	r = neighbors_probe(socket, &entry);
	if (r == 0)
		item->result = REFRESH_ASKED;
	return r == -ENOENT ? 0 : r;
}

static void judge_entry(struct nl_sock *socket, struct refresh_item *item)
{
	struct neighbor_entry entry;

	item->result = REFRESH_CHANGED;
	if (neighbors_get(socket, &item->entry.id, &entry) < 0 || !entry.has_mac ||
		!same_mac(entry.mac, item->entry.mac) || entry.is_managed)
		return;
	if (entry.state == NUD_REACHABLE)
		item->result = REFRESH_ANSWERED;
	else if (entry.state == NUD_PROBE && neighbors_delete(socket, &entry) == 0)
		item->result = REFRESH_REMOVED;
}

static void find_entry(void *userdata, const struct neighbor_entry *entry)
{
	struct refresh_job *job = userdata;
	struct refresh_entry *found;

	if (job->n_found == REFRESH_FOUND || !may_be_asked(entry, true))
		return;
	found = add_element(&job->found, &job->n_found, &job->found_allocated);
	found->id = entry->id;
	found->by_age = true;
	memcpy(found->mac, entry->mac, NEIGHBOR_MAC);
}

void refresh_run(void *data, const struct wait *wait)
{
	struct refresh_job *job = data;
	_cleanup_(cleanup_nl_socket_free) struct nl_sock *socket = neighbors_open(&job->error);
	struct wait answers;
	bool any = false;

	for (unsigned i = 0; socket && i < job->n; i++)
		if (job->items[i].is_look)
			look_again(socket, &job->items[i]);
	for (int family = 0; socket && job->scan && family < NEIGHBOR_FAMILIES; family++) {
		int r = neighbors_each(socket, neighbor_families[family].af, find_entry, job);

		job->error = r < 0 ? r : job->error;
	}
	answers = wait_at_most(wait, ANSWER_US);
	for (unsigned i = 0; socket && i < job->n; i++) {
		struct refresh_item *item = &job->items[i];
		int r = item->is_look ? 0 : ask_entry(socket, item);

		any |= item->result == REFRESH_ASKED;
		job->error = r < 0 ? r : job->error;
	}
	if (any && wait_for(&answers, -1, 0) == -ETIMEDOUT)
		for (unsigned i = 0; i < job->n; i++)
			if (job->items[i].result == REFRESH_ASKED)
				judge_entry(socket, &job->items[i]);
}

static void free_job(struct refresh_job *job)
{
	if (job)
		free(job->found);
	free(job);
}

void *refresh_request(void *self, const void *data, bool)
{
	const struct neighbor_memory *memory = data;
	struct neighbor *neighbor = self;
	struct refresh_job *job;

	if (memory->refresh.next.n == 0 && !memory->refresh.next.scan)
		return NULL;
	if (neighbor->refresh.under_way || neighbor->refresh.arrived)
		return NULL;
	job = must(malloc(sizeof(*job)));
	*job = memory->refresh.next;
	neighbor->refresh.under_way = true;
	return job;
}

void refresh_adopt(void *self, void *data)
{
	struct neighbor *neighbor = self;
	struct refresh_job *job = data;

	if (!neighbor) {
		free_job(job);
		return;
	}
	neighbor->refresh.under_way = false;
	free_job(neighbor->refresh.arrived);
	neighbor->refresh.arrived = job;
}

void refresh_sense(struct neighbor *neighbor)
{
	struct neighbor_refresh *refresh = &neighbor->refresh;

	free_job(refresh->seen);
	refresh->seen = steal(refresh->arrived);
	if (!refresh->seen || !refresh->seen->scan)
		return;
	free(refresh->found);
	refresh->found = steal(refresh->seen->found);
	refresh->n_found = refresh->seen->n_found;
	refresh->scans++;
}

void refresh_clear(struct neighbor *neighbor)
{
	free_job(neighbor->refresh.arrived);
	free_job(neighbor->refresh.seen);
	free(neighbor->refresh.found);
}

/* ---- decide() ---- */

static struct refresh_row *find_row(
	struct refresh_memory *memory, const struct neighbor_id *id, const uint8_t *mac)
{
	for (unsigned i = 0; i < memory->n_rows; i++) {
		struct refresh_entry *entry = &memory->rows[i].entry;

		if (memcmp(&entry->id, id, sizeof(*id)) == 0 && same_mac(entry->mac, mac))
			return &memory->rows[i];
	}
	return NULL;
}

static void rest(struct refresh_memory *memory, const struct refresh_entry *entry,
	uint64_t until_us, bool is_removed)
{
	struct refresh_row *row = find_row(memory, &entry->id, entry->mac);

	/* There is room for all entries of a job: see add_probe(). */
	if (!row && memory->n_rows < REFRESH_ROWS)
		row = &memory->rows[memory->n_rows++];
	if (row)
		*row = (struct refresh_row){*entry, until_us, is_removed};
}

static void keep_stale(struct refresh_memory *memory, const struct refresh_item *item, uint64_t now)
{
	memory->n_stale = MIN(memory->n_stale + 1, (unsigned)REFRESH_STALE_MAX);
	memmove(&memory->stale[1], &memory->stale[0],
		(memory->n_stale - 1) * sizeof(memory->stale[0]));
	memory->stale[0] = (struct refresh_stale){*item, now};
}

static void take_result(
	struct refresh_memory *memory, const struct refresh_item *item, uint64_t now)
{
	uint64_t until_us = now + AGAIN_US;

	if (item->result < REFRESH_COUNTED)
		memory->counts[item->result]++;
	if (item->result == REFRESH_ANSWERED || item->result == REFRESH_SAME)
		until_us = now + HEALTHY_US;
	else if (item->result == REFRESH_SILENT)
		until_us = NEVER_US;
	else if (item->result == REFRESH_REMOVED)
		until_us = now + RESOLVED_US;
	else if (item->result == REFRESH_STALE)
		keep_stale(memory, item, now);
	rest(memory, &item->entry, until_us, item->result == REFRESH_REMOVED);
}

/* Forgets rows that are over, except removed entries, which must be looked at. */
static void forget_rows(struct refresh_memory *memory, uint64_t now)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < memory->n_rows; i++)
		if (memory->rows[i].is_removed || memory->rows[i].until_us > now)
			memory->rows[kept++] = memory->rows[i];
	memory->n_rows = kept;
}

static void add_looks(struct refresh_memory *memory, uint64_t now)
{
	struct refresh_job *next = &memory->next;

	for (unsigned i = 0; i < memory->n_rows && next->n < REFRESH_LOOKS; i++)
		if (memory->rows[i].is_removed && memory->rows[i].until_us <= now)
			next->items[next->n++] = (struct refresh_item){
				.entry = memory->rows[i].entry, .is_look = true};
}

static bool has_item(const struct refresh_job *job, const struct neighbor_id *id)
{
	for (unsigned i = 0; i < job->n; i++)
		if (memcmp(&job->items[i].entry.id, id, sizeof(*id)) == 0)
			return true;
	return false;
}

/* Returns false if no more entries fit. */
static bool add_probe(struct refresh_memory *memory, unsigned *n, const struct refresh_entry *entry)
{
	struct refresh_job *next = &memory->next;

	if (*n == REFRESH_AT_ONCE || memory->n_rows + *n >= REFRESH_ROWS)
		return false;
	if (find_row(memory, &entry->id, entry->mac) || has_item(next, &entry->id))
		return true;
	next->items[next->n++] = (struct refresh_item){.entry = *entry};
	++*n;
	return true;
}

/* Adds entries with a refused update, then the entries that a scan has found. */
static void add_probes(const struct neighbor *neighbor, struct refresh_memory *memory, uint64_t now)
{
	const struct neighbor_conflicts *conflicts = &neighbor->conflicts;
	const struct neighbor_refresh *refresh = &neighbor->refresh;
	unsigned n = 0;
	bool room = true;

	for (size_t i = 0; i < conflicts->n && room; i++) {
		const struct neighbor_conflict_row *row = &conflicts->rows[i];
		struct refresh_entry entry = {
			.id = {.family = (uint32_t)neighbor_families[row->key.family & 1].af,
				.ifindex = row->key.ifindex}};

		if (row->key.netns != neighbor->own_netns ||
			row->last.at_ns / 1000 + CONFLICT_RECENT_US < now)
			continue;
		memcpy(entry.id.address, row->key.address, sizeof(entry.id.address));
		memcpy(entry.mac, row->last.known, NEIGHBOR_MAC);
		room = add_probe(memory, &n, &entry);
	}
	if (memory->scans != refresh->scans) {
		memory->scans = refresh->scans;
		memory->asked = 0;
	}
	/* It takes several jobs. Those before have rows for their entries. */
	while (memory->asked < refresh->n_found &&
		find_row(memory, &refresh->found[memory->asked].id,
			refresh->found[memory->asked].mac))
		memory->asked++;
	for (size_t i = memory->asked; i < refresh->n_found && room; i++)
		room = add_probe(memory, &n, &refresh->found[i]);
}

void neighbor_mac_text(const uint8_t *mac, char text[static MAC_TEXT])
{
	snprintf(text, MAC_TEXT, "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3],
		mac[4], mac[5]);
}

static void find_stale(const struct neighbor *neighbor, const struct refresh_stale *stale,
	const struct decide_input *input, struct proposal *proposal)
{
	const struct refresh_item *item = &stale->item;
	struct instance instance = {.kind = INSTANCE_ADDRESS};
	char address[INET6_ADDRSTRLEN] = "?", before[MAC_TEXT], after[MAC_TEXT];
	struct finding *finding;

	inet_ntop((int)item->entry.id.family, item->entry.id.address, address, sizeof(address));
	snprintf(instance.name, sizeof(instance.name), "%s on %s", address, item->device);
	/* The pod of this node that has the address now, as soon as the runtime names it. */
	(void)names_at_address(neighbor->names, address, &instance.owner);
	finding = proposal_finding(proposal, input, &neighbor_conditions[NEIGHBOR_STALE],
		REASON_STALE_NEIGHBOR, NULL, &instance,
		stale->at_us == input->now_us ? FINDING_HAPPENS : FINDING_OVER);
	if (!finding)
		return;
	neighbor_mac_text(item->entry.mac, before);
	neighbor_mac_text(item->other, after);
	finding->hold_us = FINDING_US;
	finding->breaks = "datagrams and new connections to the address are lost while a TCP "
			  "connection keeps the entry alive";
	finding_message(finding,
		"the entry had %s, which did not answer; %s answers, and the entry has it now",
		before, after);
	finding_hint(finding,
		"the agent has replaced the entry; the address was given to another pod or machine "
		"too early: let the CNI plugin reuse addresses later, such as IP_COOLDOWN_PERIOD "
		"of amazon-vpc-cni-k8s");
}

void refresh_decide(const struct neighbor *neighbor, const struct decide_input *input,
	struct refresh_memory *memory, struct proposal *proposal)
{
	const struct refresh_job *seen = neighbor->refresh.seen;
	uint64_t now = input->now_us;
	bool refreshes = neighbor->config.stale == STALE_REFRESH && input->mode == MODE_ENFORCE &&
			 !neighbor->once;
	char why[TUNER_WHY_MAX];

	(void)proposal_condition(proposal, &neighbor_conditions[NEIGHBOR_STALE],
		refreshes ? REASON_NO_STALE_NEIGHBOR : REASON_NOT_REFRESHED);

	memory->next.n = 0;
	memory->next.scan = false;
	for (unsigned i = 0; seen && i < seen->n; i++)
		take_result(memory, &seen->items[i], now);
	if (seen)
		memory->error = seen->error;
	if (seen && seen->scan)
		memory->scanned_us = now;
	forget_rows(memory, now);
	/* Entries that were removed are looked at, whatever the configuration is now. */
	if (!neighbor->refresh.under_way) {
		add_looks(memory, now);
		if (refreshes)
			add_probes(neighbor, memory, now);
		memory->next.scan = refreshes && (memory->scanned_us == 0 ||
							 now - memory->scanned_us >= SCAN_US);
	}
	memory->wakes = refreshes && !neighbor->refresh.under_way && memory->next.n == 0 &&
			now - neighbor->conflicts.fresh_us >= WAKE_AT_US;
	for (unsigned i = 0; i < memory->n_stale; i++)
		find_stale(neighbor, &memory->stale[i], input, proposal);
	if (refreshes && memory->error < 0) {
		snprintf(why, sizeof(why), "neighbor.stale: rtnetlink: %s%s",
			strerror(-memory->error),
			memory->error == -EPERM ? ": give CAP_NET_ADMIN" : "");
		proposal_lack(proposal, LACK_OTHER, why);
	}
}
