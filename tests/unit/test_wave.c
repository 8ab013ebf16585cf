/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "tuners/images/images.h"

#define IMAGE "registry.example/team/app:1.0"

static const struct wave wave = {
	.nodes = 10000, .seeds = 16, .growth = 3, .round_us = 10 * USEC_PER_SEC, .start_us = 1000};

static const char *name_of(unsigned i)
{
	static char name[32];

	snprintf(name, sizeof(name), "node-%u.example", i);
	return name;
}

static unsigned round_of(const struct wave *of, const char *node, const char *image)
{
	struct wave rounds = *of;

	rounds.start_us = 0;
	rounds.round_us = 1;
	return (unsigned)wave_due_us(&rounds, node, image, 0);
}

TEST(no_more_nodes_than_seeds_begin_at_once)
{
	static const struct wave cases[] = {
		{.nodes = 0, .seeds = 2, .growth = 3, .start_us = 5},
		{.nodes = 1, .seeds = 2, .growth = 3, .start_us = 5},
		{.nodes = 1, .start_us = 5},
		{.nodes = 3, .seeds = 3, .start_us = 5},
	};

	for (unsigned i = 0; i < 100 * ARRAY_SIZE(cases); i++)
		assert_int_equal(wave_due_us(&cases[i % ARRAY_SIZE(cases)],
					 name_of(i / ARRAY_SIZE(cases)), IMAGE, 0),
			5);
}

/* check.waves simulates fleets with the rounds of these nodes. */
TEST(another_image_begins_at_other_nodes)
{
	unsigned both = 0, first = 0;

	for (unsigned i = 0; i < 10000; i++) {
		const char *name = name_of(i);

		if (round_of(&wave, name, IMAGE) > 2)
			continue;
		first++;
		both += round_of(&wave, name, "registry.example/team/app:1.1") <= 2;
	}
	assert_true(first > 90 && first < 200);
	assert_true(both < first / 5);
}

/* A restart, another version or another machine must not move a node. */
TEST(the_round_of_a_node_never_changes)
{
	static const struct {
		const char *node;
		unsigned round;
	} known[] = {
		{"node-56", 0}, {"node-204", 1}, {"node-197", 2}, {"node-1", 5}, {"node-2", 6}};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		assert_int_equal(round_of(&wave, known[i].node, IMAGE), known[i].round);
}

/* With too small a number all nodes begin sooner, with too large a one later. */
TEST(a_wrong_number_of_nodes_moves_each_node_by_one_round)
{
	struct wave half = wave, twice = wave, none = {.nodes = 10000},
		    one = {.nodes = 10000, .seeds = 1};

	half.nodes /= 2;
	twice.nodes *= 2;
	for (unsigned i = 0; i < 10000; i++) {
		const char *name = name_of(i);
		unsigned round = round_of(&wave, name, IMAGE);

		assert_in_range(round_of(&half, name, IMAGE), round ? round - 1 : 0, round);
		assert_in_range(round_of(&twice, name, IMAGE), round, round + 1);
		assert_int_equal(round_of(&none, name, IMAGE), round_of(&one, name, IMAGE));
	}
}
