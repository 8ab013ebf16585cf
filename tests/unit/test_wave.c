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

TEST(one_node_or_as_many_as_there_are_seeds_begin_at_once)
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

/* On average of 20 images. A growth of 0 ends all the same. */
TEST(each_round_has_begun_so_many_times_as_many)
{
	static const unsigned growths[] = {3, 10, 0};

	for (size_t g = 0; g < ARRAY_SIZE(growths); g++) {
		struct wave of = wave;
		double sum[16] = {0}, expected = 16, begun = 0;

		of.growth = growths[g];
		for (unsigned i = 0; i < 20 * 10000; i++) {
			char image[32];
			unsigned round;

			snprintf(image, sizeof(image), "app:%u", i % 20);
			round = round_of(&of, name_of(i / 20), image);
			assert_true(round < ARRAY_SIZE(sum));
			sum[round] += 1 / 20.0;
		}
		for (size_t k = 0; k < ARRAY_SIZE(sum); k++) {
			begun += sum[k];
			assert_true(begun > 0.8 * MIN(expected, 10000) && begun < 1.2 * expected);
			expected *= MAX(growths[g], 2U);
		}
	}
}

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

/* Where nodes differ in any one character, also the first or the last, they are spread. */
TEST(names_that_differ_little_are_spread)
{
	unsigned first = 0;

	for (unsigned i = 0; i < 52 * 52; i++) {
		char name[] = "x-node-y";

		name[0] = (char)(i % 52 < 26 ? 'a' + i % 52 : 'A' + i % 52 - 26);
		name[7] = (char)(i / 52 < 26 ? 'a' + i / 52 : 'A' + i / 52 - 26);
		first += round_of(&(struct wave){.nodes = 4, .seeds = 1}, name, IMAGE) == 0;
	}
	assert_true(first > 52 * 52 / 4 - 120 && first < 52 * 52 / 4 + 120);
}

/* A restart, another version or another machine must not move a node. */
TEST(a_round_is_always_the_same)
{
	static const struct {
		const char *node;
		unsigned round;
	} known[] = {
		{"node-56", 0}, {"node-204", 1}, {"node-197", 2}, {"node-1", 5}, {"node-2", 6}};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		assert_int_equal(round_of(&wave, known[i].node, IMAGE), known[i].round);
}

/* Configured too low, all begin sooner; too high, later: nobody is left out. */
TEST(a_wrong_number_of_nodes_only_moves_the_rounds_and_no_seeds_are_one)
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

TEST(each_failure_costs_one_round)
{
	for (unsigned i = 0; i < 100; i++) {
		const char *name = name_of(i);
		uint64_t due = wave_due_us(&wave, name, IMAGE, 0);

		assert_int_equal(due, 1000 + round_of(&wave, name, IMAGE) * (10 * USEC_PER_SEC));
		for (unsigned n = 1; n < 5; n++)
			assert_int_equal(
				wave_due_us(&wave, name, IMAGE, n), due + n * (10 * USEC_PER_SEC));
	}
}
