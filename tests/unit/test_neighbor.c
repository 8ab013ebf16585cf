/* SPDX-License-Identifier: Apache-2.0 */
#include "config_fixture.h"

#include "tuners/neighbor/neighbor.h"

#define HEADER                                                                                   \
	"entries  allocs   destroys hash_grows lookups  hits     res_failed "                    \
	"rcv_probes_mcast rcv_probes_ucast periodic_gc_runs forced_gc_runs unresolved_discards " \
	"table_fulls\n"

static const struct {
	const char *text;
	int result;
	struct neighbor_stats stats;
} statistics[] = {
	/* Two CPUs: numbers are hexadecimal; each line has the entries of the whole table. */
	{HEADER "0000000a  0000000f 1 2 3 4 5 6 7 8 00000002 9 00000003\n"
		"0000000a  00000001 1 2 3 4 5 6 7 8 00000001 9 00000010\n",
		0, {10, 16, 3, 19}},
	/* An older kernel lacks table_fulls. */
	{"entries allocs forced_gc_runs\nff 1 2\n", 0, {255, 1, 2, 0}},
	/* A newer kernel has unknown columns, and another order. */
	{"entries new table_fulls allocs newer\n1 99 2 3 99\n1 99 2 3 99 99 99\n", 0, {1, 6, 0, 4}},
	{"entries allocs table_fulls\n7 8\n", 0, {7, 8, 0, 0}}, /* a short line */
	{"", -EBADMSG, {0}},
	{"\n\n", -EBADMSG, {0}},
	{"entries allocs\n", -EBADMSG, {0}},
	{"allocs entries\n1 2\n", -EBADMSG, {0}},
	{"Tcp: 1 2 3\n4 5 6\n", -EBADMSG, {0}},
	{"\x7f"
	 "ELF\x02\x01\n\x01\x02\n",
		-EBADMSG, {0}},
};

DIRECTORY_TEST(statistics_are_summed)
{
	struct neighbor *neighbor = neighbor_tuner.open(&directory->host, &directory->facts, NULL);
	const struct neighbor_table_seen *table = &neighbor->tables[NEIGHBOR_IPV4];

	for (size_t i = 0; i < ARRAY_SIZE(statistics); i++) {
		directory_put(
			directory, neighbor_families[NEIGHBOR_IPV4].statistics, statistics[i].text);
		neighbor_tuner.sense(neighbor, now_us());
		assert_int_equal(table->stats_error, statistics[i].result);
		assert_memory_equal(&table->stats, &statistics[i].stats, sizeof(table->stats));
	}
	neighbor_tuner.close(neighbor, NULL);
}

#define GIB        (UINT64_C(1) << 30)
#define NO_CEILING UINT64_C(1048576)

struct node {
	struct neighbor neighbor;
	struct neighbor_memory memory;
	struct proposal proposal;
};

static void begin(struct node *node)
{
	node->neighbor.config.grow = true;
	node->neighbor.config.families[NEIGHBOR_IPV4].keep = true;
	node->neighbor.tables[NEIGHBOR_IPV6].stats_error = -ENOENT;
}

static void end(struct node *node)
{
	proposal_clear(&node->proposal);
}

#define NODE_TEST(name) TEST_OF(node, node, begin, end, name)

/* Polls a table and returns the gc_thresh3 to set. */
static uint64_t grow(
	struct node *node, uint64_t from, uint64_t ceiling, uint64_t used, uint64_t now_us)
{
	struct neighbor_table_seen *table = &node->neighbor.tables[NEIGHBOR_IPV4];
	struct decide_input input = {.now_us = now_us};
	uint64_t wanted;

	node->neighbor.config.ceiling = ceiling;
	table->collectable = used;
	snprintf(table->threshold[2], SETTING_VALUE_MAX, "%llu", (unsigned long long)from);
	proposal_clear(&node->proposal);
	neighbor_tuner.decide(&node->neighbor, &input, &node->memory, &node->proposal);
	wanted = strtoull(node->proposal.wants[2].wanted, NULL, 10);
	return wanted ? wanted : from;
}

NODE_TEST(automatic_ceiling_is_one_percent_of_memory_up_to_a_million)
{
	static const struct {
		uint64_t memory, ceiling, grown;
	} table[] = {
		{GIB, 0, 20971},
		{16 * GIB, 0, 335544},
		{1024 * GIB, 0, 1048576},
		{0, 0, 1024},
		{GIB, 2000000, 2000000},
		{GIB, 1, 1024},
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		node->neighbor.memory_bytes = table[i].memory;
		assert_int_equal(
			grow(node, 1024, table[i].ceiling, 3000000, USEC_PER_SEC), table[i].grown);
	}
}

TEST(relations_of_thresholds_and_ceiling_are_checked)
{
	static const struct {
		const char *text, *fault; /* NULL: no fault */
		unsigned column;
	} cases[] = {
		{"neighbor: {ipv4: {gc_thresh1: 90001}}\n", "each threshold must be", 31},
		{"neighbor: {ipv6: {gc_thresh3: 89999}}\n", "each threshold must be", 31},
		{"neighbor: {ceiling: 99999}\n", "is below neighbor.ipv", 21},
		{"neighbor: {ceiling: 99999, grow: false}\n", NULL, 0},
		{"neighbor: {ceiling: 5, ipv4: keep, ipv6: keep}\n", NULL, 0},
		{"neighbor: {ceiling: 100000}\n", NULL, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_loaded_ struct loaded loaded = load_options(cases[i].text);
		const struct config_fault *fault;

		assert_loaded(&loaded);
		neighbor_tuner.validate(loaded.config, &loaded.faults);
		fault = loaded.faults.faults;
		assert_true((loaded.faults.n > 0) == (cases[i].fault != NULL));
		if (fault) {
			assert_non_null(strstr(fault->message, cases[i].fault));
			assert_int_equal(fault->column, cases[i].column);
		}
	}
}

/* One poll of a table that had `before` entries some seconds earlier; 0 seconds: the first poll. */
struct poll {
	uint64_t from, ceiling;
	uint64_t before, used;
	double seconds;
	uint64_t grown, wake_at;
	bool at_ceiling;
};

static const struct poll polls[] = {
	/* A small table grows when it is a quarter full, at any rate. */
	{1024, 500000, 0, 255, 1, 1024, 256, false},
	{1024, 500000, 255, 256, 3600, 8192, 2048, false},
	{8192, 500000, 2000, 2048, 1, 65536, 16384, false},
	/* It skips steps until twice the entries and the growth of one second fit. */
	{1024, 500000, 0, 1000, 0.01, 65536, 16384, false}, /* a rate needs 100 ms */
	{1024, 500000, 0, 900, 0.1, 65536, 16384, false},
	{65536, 500000, 0, 40000, 0.1, 500000, 125000, false},
	/* A large table measures the rate: when it is a quarter full and slow, it does not grow. */
	{100000, 500000, 24000, 25000, 1, 100000, 50000, false},
	{100000, 500000, 24000, 25000, 0.01, 200000, 50000, false},
	{100000, 500000, 0, 25000, 10, 100000, 50000, false},
	{100000, 500000, 0, 25000, 3, 200000, 50000, false},
	{100000, 500000, 49999, 50000, 3600, 200000, 50000, false},
	{100000, 500000, 60000, 50000, 1, 200000, 50000, false}, /* shrinking */
	{100000, 500000, 0, 24999, 0.1, 100000, 25000, false},
	/* At the ceiling it is reported once it is half full, and needs no wake-up. */
	{500000, 500000, 0, 130000, 0.1, 500000, 250000, false},
	{500000, 500000, 0, 250000, 0.1, 500000, 0, true},
	{900000, 500000, 0, 900000, 1, 900000, 0, true},     /* the administrator had more */
	{100000, 500000, 0, 40000, 0, 100000, 50000, false}, /* no rate yet */
	/* Growth ends exactly at the ceiling. */
	{65536, 65537, 0, 40000, 1, 65537, 16384, false},
	{65535, 1048576, 0, 30000, 1, 524280, 131070, false},
	/* A table that is too full already when the agent starts. */
	{1024, 500000, 0, 300000, 1, 500000, 125000, false},
	{1, 500000, 0, 1, 1, 8, 2, false},
};

NODE_TEST(growth_begins_at_the_marks_and_leaves_room)
{
	struct neighbor_family_memory *memory = &node->memory.families[NEIGHBOR_IPV4];

	for (size_t i = 0; i < ARRAY_SIZE(polls); i++) {
		const struct poll *poll = &polls[i];
		uint64_t before = 10 * USEC_PER_SEC, grown;

		memory->used = poll->before;
		memory->used_at_us = poll->seconds > 0 ? before : 0;
		grown = grow(node, poll->from, poll->ceiling, poll->used,
			before + (uint64_t)(poll->seconds * 1e6));
		if (grown != poll->grown || memory->wake_at != poll->wake_at ||
			memory->at_ceiling != poll->at_ceiling)
			fail_msg("poll %zu: %llu, wake at %llu, %d", i, (unsigned long long)grown,
				(unsigned long long)memory->wake_at, memory->at_ceiling);
	}
}

/* Simulated time: entries arrive at a rate; the agent polls each second and when woken. */
struct storm {
	uint64_t base, ceiling;
	double delay;  /* seconds from a mark to the new threshold */
	double change; /* seconds after which the rate changes from the first to the second */
	double rates[2];
	double end;     /* 0: at the ceiling */
	uint64_t begin; /* entries before */
};

static double used_at(const struct storm *storm, double time)
{
	return (double)storm->begin + MIN(time, storm->change) * storm->rates[0] +
	       MAX(time - storm->change, 0) * storm->rates[1];
}

/* The time at which the table has this number of entries. */
static double time_of(const struct storm *storm, double used)
{
	double at_change = used_at(storm, storm->change);

	return used <= at_change ? (used - (double)storm->begin) / storm->rates[0]
				 : storm->change + (used - at_change) / storm->rates[1];
}

/* Until the ceiling is reached or the end. */
static void simulate(struct node *node, const struct storm *storm)
{
	const struct neighbor_family_memory *memory = &node->memory.families[NEIGHBOR_IPV4];
	uint64_t max = storm->base, grown;
	double now = 0, tick = 1, woken;

	node->memory = (struct neighbor_memory){0};
	for (;;) {
		double used = used_at(storm, now);

		if (used >= (double)max)
			fail_msg("full at %llu of %llu: from %llu after %.6f s at %.0f then %.0f/s "
				 "from %.3f s, %.4f s late",
				(unsigned long long)max, (unsigned long long)storm->ceiling,
				(unsigned long long)storm->base, now, storm->rates[0],
				storm->rates[1], storm->change, storm->delay);
		grown = grow(node, max, storm->ceiling, (uint64_t)used,
			USEC_PER_SEC + (uint64_t)(now * 1e6));
		if (grown < max || grown > MAX(storm->ceiling, storm->base))
			fail_msg("grown to %llu", (unsigned long long)grown);
		max = grown;
		if (max >= storm->ceiling || (storm->end > 0 && now >= storm->end))
			return;
		woken = memory->wake_at
				? MAX(time_of(storm, (double)memory->wake_at), now) + storm->delay
				: tick;
		now = MIN(woken, tick);
		tick += now >= tick;
	}
}

static const uint64_t bases[] = {
	512, 1024, 2048, 8192, 20000, 65535, 65536, 100000, 131072, 262144};

/*
 * The threshold is raised at most 5 ms after a mark. No agent survives a rate that fills three
 * quarters of the first table within this delay: 1,024 entries allow 150,000 a second.
 */
static double fastest(uint64_t base, double delay)
{
	return MIN(1e6, 0.74 * (double)base / delay);
}

NODE_TEST(no_steady_storm_fills_a_table)
{
	static const double delays[] = {0.0002, 0.001, 0.005};

	for (size_t b = 0; b < ARRAY_SIZE(bases); b++) {
		for (size_t d = 0; d < ARRAY_SIZE(delays); d++) {
			double top = fastest(bases[b], delays[d]);

			for (double rate = 100; rate <= top; rate *= rate < 1e3 ? 3 : 1.3) {
				struct storm storm = {.base = bases[b],
					.ceiling = NO_CEILING,
					.delay = delays[d],
					.rates = {rate, rate}};

				simulate(node, &storm);
			}
		}
	}
}

static uint64_t draw(uint64_t *seed, uint64_t below)
{
	*seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407U;
	return (*seed >> 33) % below;
}

/* The worst storm begins just after a poll that measured a low rate. */
NODE_TEST(no_change_of_rate_fills_a_table)
{
	uint64_t seed = 4;

	for (unsigned i = 0; i < 20000; i++) {
		uint64_t base = bases[draw(&seed, ARRAY_SIZE(bases))];
		double top = fastest(base, 0.005);
		struct storm storm = {.base = base,
			.ceiling = NO_CEILING,
			.delay = (double)(20 + draw(&seed, 4980)) / 1e6,
			.rates = {50 + (double)draw(&seed, 50000),
				50 + (double)draw(&seed, (uint64_t)top)},
			.change = (double)draw(&seed, 4000) / 1e3,
			.begin = draw(&seed, base / 4)};

		storm.rates[0] = MIN(storm.rates[0], top);
		storm.end = storm.change + 8;
		simulate(node, &storm);
	}
}
