/* SPDX-License-Identifier: Apache-2.0 */
#include "made_up_node.h"

#include "apply/apply.h"
#include "base/log.h"

#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

/*
 * A process that applies one configuration after the other is killed, again and again, on its way
 * into or out of a system call. Whatever it was doing: restore puts every original back.
 */

#define ROUNDS 300

/* xorshift64: the same sequence on every machine. */
static uint64_t next_random(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

static bool apply(const struct made_up_node *node)
{
	struct core core;
	bool good = made_up_node_open(node, &core);

	if (good) {
		core_reset(&core, NULL);
		good = core_look(&core) == 0 && core_apply(&core) == 0 &&
		       plan_failures(&core.plan) == 0;
	}
	core_close(&core);
	return good;
}

/* Where there is no ptrace(2), SIGKILL comes from a timer. */
static void run_child(struct made_up_node *node, bool b_first, bool traced)
{
	char other[PATH_MAX];
	bool good;

	if (traced && ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
		_exit(2);
	raise(SIGSTOP);
	folder_path(&node->folder, b_first ? "/b.yaml" : "/a.yaml", node->config);
	folder_path(&node->folder, b_first ? "/a.yaml" : "/b.yaml", other);
	good = apply(node);
	memcpy(node->config, other, sizeof(other));
	_exit(good && apply(node) ? 0 : 1);
}

/* Lets the child come to its nth system call boundary and kills it there. How far it came. */
static uint64_t kill_at(pid_t child, uint64_t nth, bool *ended)
{
	uint64_t stops = 0;
	int status;

	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSTOPPED(status));
	for (; stops < nth; stops++) {
		assert_int_equal(ptrace(PTRACE_SYSCALL, child, NULL, NULL), 0);
		assert_int_equal(waitpid(child, &status, 0), child);
		*ended = WIFEXITED(status);
		if (*ended) {
			assert_int_equal(WEXITSTATUS(status), 0);
			return stops;
		}
		assert_true(WIFSTOPPED(status));
	}
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status));
	return stops;
}

static void kill_after(pid_t child, uint64_t microseconds, bool *ended)
{
	int status;

	assert_int_equal(waitpid(child, &status, WUNTRACED), child);
	kill(child, SIGCONT);
	usleep((useconds_t)microseconds);
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, &status, 0), child);
	*ended = WIFEXITED(status);
}

static bool can_trace(void)
{
	pid_t child = fork();
	int status;

	if (child == 0)
		_exit(ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0);
	waitpid(child, &status, 0);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* From the journal alone, with the defaults for a configuration. */
static void restore_all(struct made_up_node *node, int round)
{
	struct core core;

	folder_path(&node->folder, "/empty.yaml", node->config);
	assert_true(made_up_node_open(node, &core));
	if (core.journal->note[0])
		fail_msg("round %d: %s", round, core.journal->note);
	assert_int_equal(core_restore(&core, NULL), 0);
	assert_int_equal(plan_failures(&core.plan), 0);
	assert_int_equal(journal_store(core.journal), 0);
	core_close(&core);
	for (size_t i = 0; i < ARRAY_SIZE(made_up_files); i++)
		if (!made_up_file_is_original(node, i))
			fail_msg("round %d: %s differs", round, made_up_files[i].path);
}

/* One life, up to the given moment: system call boundaries, or without ptrace(2) microseconds. */
static uint64_t live(
	struct made_up_node *node, bool b_first, bool traced, uint64_t until, bool *ended)
{
	pid_t child = fork();

	if (child == 0)
		run_child(node, b_first, traced);
	assert_true(child > 0);
	*ended = false;
	if (traced)
		return kill_at(child, until, ended);
	kill_after(child, until, ended);
	return until;
}

static void restore_after_any_death(void **state)
{
	_cleanup_made_up_node_ struct made_up_node node;
	bool traced = can_trace(), ended;
	uint64_t seed = 20240501, whole_life;
	int ends = 0;

	(void)state;
	made_up_node_make(&node);
	folder_put(&node.folder, "/a.yaml", made_up_a);
	folder_put(&node.folder, "/b.yaml", made_up_b);
	folder_put(&node.folder, "/empty.yaml", "");
	whole_life = live(&node, false, traced, traced ? UINT64_MAX : 20000, &ended);
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t until = next_random(&seed) % (whole_life + 1);

		live(&node, round % 2, traced, until, &ended);
		ends += ended;
		/* Sometimes another life is cut short before anybody restores. */
		if (next_random(&seed) % 3)
			restore_all(&node, round);
	}
	restore_all(&node, ROUNDS);
	print_message("%d of %d lives came to their end, of %d %s\n", ends, ROUNDS, (int)whole_life,
		traced ? "stops" : "microseconds");
	assert_true(ends < ROUNDS / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(restore_after_any_death)};

	log_init(LOG_LEVEL_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
