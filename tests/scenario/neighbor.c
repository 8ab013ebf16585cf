/* SPDX-License-Identifier: Apache-2.0 */
#include "scenario.h"

#include "tuners/neighbor/neighbor.h"

#include "base/text.h"

static bool parse_thresholds(struct scenario *scenario, void *base)
{
	struct neighbor_table_seen *table = base;

	for (int i = 0; i < NEIGHBOR_LEVELS; i++) {
		if (!scenario_value(scenario, table->threshold[i], SETTING_VALUE_MAX))
			return false;
		table->threshold_error[i] = 0;
	}
	return true;
}

static bool parse_counters(struct scenario *scenario, void *base)
{
	struct neighbor_table_seen *table = base;

	table->stats_error = scenario_is(scenario, "missing")  ? -ENOENT
			     : scenario_is(scenario, "denied") ? -EACCES
							       : 0;
	if (table->stats_error == 0)
		return scenario_is(scenario, "ok");
	table->stats = (struct neighbor_stats){0};
	table->collectable = 0;
	return true;
}

static bool parse_absent(struct scenario *, void *base)
{
	struct neighbor_table_seen *table = base;

	*table = (struct neighbor_table_seen){
		.stats_error = -ENOENT, .threshold_error = {-ENOENT, -ENOENT, -ENOENT}};
	return true;
}

static const struct scenario_word table_words[] = {
	WORD_CALL("thresholds", parse_thresholds),
	WORD_NUMBER("entries", struct neighbor_table_seen, collectable),
	WORD_NUMBER("all", struct neighbor_table_seen, stats.entries),
	WORD_NUMBER("refused", struct neighbor_table_seen, stats.table_fulls),
	WORD_CONST("largest", struct neighbor_table_seen, n_top, 1),
	WORD_NUMBER("with", struct neighbor_table_seen, top[0].used),
	WORD_CONST("netns", struct neighbor_table_seen, top[0].workload.kind, WORKLOAD_NETNS),
	WORD_CONST("pod", struct neighbor_table_seen, top[0].workload.kind, WORKLOAD_POD),
	WORD_TEXT("name", struct neighbor_table_seen, top[0].workload.name),
	WORD_CALL("counters", parse_counters),
	WORD_CALL("absent", parse_absent),
	WORD_CONST("exact", struct neighbor_table_seen, exact, true),
	WORD_CONST("upper-bound", struct neighbor_table_seen, exact, false),
	{0},
};

/* Returns -1 for another word. */
static int parse_family(struct scenario *scenario)
{
	return scenario_is(scenario, "ipv4")   ? NEIGHBOR_IPV4
	       : scenario_is(scenario, "ipv6") ? NEIGHBOR_IPV6
					       : -1;
}

static bool parse_table(struct scenario *scenario, void *base)
{
	struct neighbor *neighbor = base;
	int family = parse_family(scenario);

	return family >= 0 && scenario_parse(scenario, table_words, &neighbor->tables[family]);
}

/* Parses the last bytes of an address and of a link address. */
static bool parse_entry(struct scenario *scenario, struct refresh_entry *entry)
{
	uint64_t host, mac;

	if (!scenario_number(scenario, &host) || !scenario_number(scenario, &mac))
		return false;
	*entry = (struct refresh_entry){.id = {.family = AF_INET, .ifindex = 3}};
	memcpy(entry->id.address, (uint8_t[]){10, 0, 0, (uint8_t)host}, 4);
	memcpy(entry->mac, (uint8_t[]){2, 0, 0, 0, 0, (uint8_t)mac}, NEIGHBOR_MAC);
	return true;
}

/* The kernel refuses another link address now, in the agent's namespace or in another one. */
static bool add_conflict(struct scenario *scenario, struct neighbor *neighbor, uint32_t netns)
{
	struct neighbor_conflicts *conflicts = &neighbor->conflicts;
	struct neighbor_conflict_row *row;
	struct refresh_entry entry;

	if (!parse_entry(scenario, &entry))
		return false;
	row = add_element(&conflicts->rows, &conflicts->n, &conflicts->allocated);
	row->key = (struct neighbor_address){.netns = netns, .ifindex = 3};
	memcpy(row->key.address, entry.id.address, sizeof(row->key.address));
	memcpy(row->last.known, entry.mac, NEIGHBOR_MAC);
	row->last.at_ns = scenario->now_us * 1000;
	conflicts->fresh_us = scenario->now_us;
	return true;
}

static bool parse_refused(struct scenario *scenario, void *base)
{
	return add_conflict(scenario, base, 1);
}

static bool parse_refused_elsewhere(struct scenario *scenario, void *base)
{
	return add_conflict(scenario, base, 2);
}

/* A scan finds an entry that only traffic confirms. */
static bool parse_found(struct scenario *scenario, void *base)
{
	struct neighbor *neighbor = base;
	struct neighbor_refresh *refresh = &neighbor->refresh;
	size_t allocated = refresh->n_found;

	refresh->found = must(realloc(refresh->found, (allocated + 1) * sizeof(*refresh->found)));
	refresh->scans++;
	return parse_entry(scenario, &refresh->found[refresh->n_found++]);
}

/* The job has ended, each item with this result. */
static bool parse_ends(struct scenario *scenario, void *base)
{
	static struct refresh_job job;
	const struct neighbor_memory *memory = scenario->memory;
	struct neighbor *neighbor = base;
	unsigned result = 0;

	while (result < REFRESH_COUNTED && !scenario_is(scenario, refresh_result_names[result]))
		result++;
	if (result == REFRESH_COUNTED && !scenario_is(scenario, "removed"))
		return false;
	job = memory->refresh.next;
	for (unsigned i = 0; i < job.n; i++) {
		job.items[i].result = (enum refresh_result)result;
		set_text(job.items[i].device, "eth0");
		memcpy(job.items[i].other, (uint8_t[]){2, 0, 0, 0, 0, 0xee}, NEIGHBOR_MAC);
	}
	neighbor->refresh.seen = &job;
	return true;
}

static struct names names;

/* The runtime names the pod that has this address. */
static bool parse_pod_at(struct scenario *scenario, void *base)
{
	struct name_entry *entry = must(calloc(1, sizeof(*entry)));
	struct neighbor *neighbor = base;
	uint64_t host;

	entry->workload = (struct workload){.kind = WORKLOAD_POD, .namespace = "shop", .id = "uid"};
	if (!scenario_number(scenario, &host) ||
		!scenario_value(scenario, entry->workload.name, sizeof(entry->workload.name))) {
		free(entry);
		return false;
	}
	snprintf(entry->address, sizeof(entry->address), "10.0.0.%u", (unsigned)host);
	names_replace(&names, "runtime", entry, 1);
	neighbor->names = &names;
	return true;
}

/* `asks HOST...` and `looks HOST...`: the next job has exactly these entries; - for none. */
static bool expect_items(struct scenario *scenario, void *base, bool is_look)
{
	const struct neighbor_memory *memory = scenario->memory;
	const struct refresh_job *next = &memory->refresh.next;
	struct neighbor *neighbor = base;
	unsigned n = 0, expected = 0;
	uint64_t host;

	neighbor->refresh.seen = NULL;
	for (unsigned i = 0; i < next->n; i++)
		n += next->items[i].is_look == is_look;
	if (scenario_is(scenario, "-"))
		return n == 0;
	while (scenario->next < scenario->n_words) {
		bool any = false;

		if (!scenario_number(scenario, &host))
			return false;
		for (unsigned i = 0; i < next->n; i++)
			any |= next->items[i].is_look == is_look &&
			       next->items[i].entry.id.address[3] == host;
		if (!any)
			return false;
		expected++;
	}
	return n == expected;
}

static bool expect_asks(struct scenario *scenario, void *base)
{
	return expect_items(scenario, base, false);
}

static bool expect_looks(struct scenario *scenario, void *base)
{
	return expect_items(scenario, base, true);
}

static bool expect_asks_many(struct scenario *scenario, void *base)
{
	const struct neighbor_memory *memory = scenario->memory;
	struct neighbor *neighbor = base;
	uint64_t n;

	neighbor->refresh.seen = NULL;
	return scenario_number(scenario, &n) && memory->refresh.next.n == n;
}

static const struct scenario_word expected[] = {
	WORD_CALL("asks", expect_asks),
	WORD_CALL("asks-so-many", expect_asks_many),
	WORD_CALL("looks", expect_looks),
	{0},
};

static const struct scenario_word at[] = {
	WORD_CALL("mode", scenario_mode),
	WORD_CALL("refused-update", parse_refused),
	WORD_CALL("refused-elsewhere", parse_refused_elsewhere),
	WORD_CALL("found", parse_found),
	WORD_CALL("ends", parse_ends),
	WORD_CALL("pod-at", parse_pod_at),
	WORD_CALL(NULL, parse_table),
};

static bool parse_family_config(struct scenario *scenario, void *base)
{
	struct neighbor *neighbor = base;
	int family = parse_family(scenario);
	uint64_t *threshold = neighbor->config.families[MAX(family, 0)].threshold;

	if (family < 0)
		return false;
	if (scenario_is(scenario, "keep"))
		return neighbor->config.families[family].keep = true;
	for (int i = 0; i < NEIGHBOR_LEVELS; i++) {
		neighbor->config.families[family].requested[i] = true;
		neighbor->config.families[family].chosen[i] = true;
		neighbor->config.families[family].reason[i] = REASON_CONFIGURED;
	}
	return scenario_number(scenario, &threshold[0]) &&
	       scenario_number(scenario, &threshold[1]) && scenario_number(scenario, &threshold[2]);
}

static const struct scenario_word config[] = {
	WORD_CONST("lower", struct neighbor, config.lower, true),
	WORD_CONST("grow", struct neighbor, config.grow, true),
	WORD_CONST("refresh", struct neighbor, config.stale, STALE_REFRESH),
	WORD_NUMBER("ceiling", struct neighbor, config.ceiling),
	WORD_CALL(NULL, parse_family_config),
};

/* A fresh node of 16 GiB. */
static void begin(void *self)
{
	struct neighbor *neighbor = self;

	neighbor->memory_bytes = UINT64_C(16) << 30;
	neighbor->own_netns = 1;
	neighbor->config.stale = STALE_OBSERVE;
	for (int family = 0; family < NEIGHBOR_FAMILIES; family++) {
		neighbor->tables[family] = (struct neighbor_table_seen){
			.threshold = {"128", "512", "1024"}, .exact = true};
		memcpy(neighbor->config.families[family].threshold,
			(uint64_t[]){80000, 90000, 100000}, 3 * sizeof(uint64_t));
		for (int i = 0; i < NEIGHBOR_LEVELS; i++)
			neighbor->config.families[family].reason[i] = REASON_DEFAULT;
	}
}

static void end(void *self, void *)
{
	struct neighbor *neighbor = self;

	free(neighbor->conflicts.rows);
	free(neighbor->refresh.found);
	free(names.entries);
	names = (struct names){0};
}

const struct scenario_tuner neighbor_scenario = {
	.ops = &neighbor_tuner,
	.size = sizeof(struct neighbor),
	.at = at,
	.config = config,
	.expect = expected,
	.open = begin,
	.close = end,
};
