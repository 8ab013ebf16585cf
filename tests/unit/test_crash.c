/* SPDX-License-Identifier: Apache-2.0 */
#include "kill.h"
#include "made_up_node.h"

/*
 * A process that applies one configuration after the other is killed, again and again, on its way
 * into or out of a system call. Whatever it was doing: restore restores every original.
 */

#define ROUNDS 150

static bool apply(const struct made_up_node *node)
{
	struct plan done = {0};
	struct core core;
	bool good = made_up_node_open(node, &core);

	if (good) {
		core_reset(&core, NULL);
		good = core_poll(&core) == 0;
		made_up_node_apply(&core, FILE_APPLY, &done);
		good = good && plan_failures(&done) == 0;
	}
	plan_clear(&done);
	core_close(&core);
	return good;
}

struct life {
	struct made_up_node *node;
	bool b_first;
};

static bool run_life(void *userdata)
{
	const struct life *life = userdata;
	struct made_up_node *node = life->node;

	directory_path(&node->directory, life->b_first ? "/b.yaml" : "/a.yaml", node->config);
	if (!apply(node))
		return false;
	directory_path(&node->directory, life->b_first ? "/a.yaml" : "/b.yaml", node->config);
	return apply(node);
}

/* From the records alone, with the defaults for a configuration. */
static void restore_all(struct made_up_node *node, int round)
{
	struct plan done = {0};
	struct core core;

	directory_path(&node->directory, "/empty.yaml", node->config);
	assert_true(made_up_node_open(node, &core));
	if (core.journal_note[0])
		fail_msg("round %d: %s", round, core.journal_note);
	made_up_node_apply(&core, FILE_RESTORE, &done);
	assert_int_equal(plan_failures(&done), 0);
	plan_clear(&done);
	core_close(&core);
	for (size_t i = 0; i < ARRAY_SIZE(made_up_files); i++)
		if (!made_up_file_is_original(node, i))
			fail_msg("round %d: %s differs", round, made_up_files[i].path);
}

static uint64_t live(
	struct made_up_node *node, bool b_first, bool traced, uint64_t until, bool *ended)
{
	struct life life = {.node = node, .b_first = b_first};

	return live_until(run_life, &life, traced, until, ended);
}

NODE_TEST(restore_after_any_death)
{
	bool traced = can_trace(), ended;
	uint64_t seed = 20240501, whole_life;
	int ends = 0;

	directory_put(&node->directory, "/a.yaml", made_up_a);
	directory_put(&node->directory, "/b.yaml", made_up_b);
	directory_put(&node->directory, "/empty.yaml", "");
	whole_life = live(node, false, traced, traced ? UINT64_MAX : 20000, &ended);
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t until = next_random(&seed) % (whole_life + 1);

		live(node, round % 2, traced, until, &ended);
		ends += ended;
		/* Sometimes another life is cut short before anybody restores. */
		if (next_random(&seed) % 3)
			restore_all(node, round);
	}
	restore_all(node, ROUNDS);
	print_message("%d of %d lives came to their end, of %d %s\n", ends, ROUNDS, (int)whole_life,
		traced ? "stops" : "microseconds");
	assert_true(ends < ROUNDS / 2);
}
