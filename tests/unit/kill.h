/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Lives that are cut short: a child process is killed on its way into or out of a system call, or,
 * where there is no ptrace(2), after so many microseconds.
 */

#include "test.h"

#include <sys/ptrace.h>

/* xorshift64: the same sequence on every machine. */
static inline uint64_t next_random(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

static inline bool can_trace(void)
{
	pid_t child = fork();
	int status;

	if (child == 0)
		_exit(ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0);
	waitpid(child, &status, 0);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Lets the child come to its nth system call boundary and kills it there. How far it came. */
static inline uint64_t kill_at(pid_t child, uint64_t nth, bool *ended)
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

static inline void kill_after(pid_t child, uint64_t microseconds, bool *ended)
{
	int status;

	assert_int_equal(waitpid(child, &status, WUNTRACED), child);
	kill(child, SIGCONT);
	usleep((useconds_t)microseconds);
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, &status, 0), child);
	*ended = WIFEXITED(status);
}

/*
 * One life of run(userdata), which is to return true, up to the given moment: system call
 * boundaries, or without ptrace(2) microseconds. How far it came; ended: of itself, and well.
 */
static inline uint64_t live_until(
	bool (*run)(void *userdata), void *userdata, bool traced, uint64_t until, bool *ended)
{
	pid_t child = fork();

	if (child == 0) {
		if (traced && ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
			_exit(2);
		raise(SIGSTOP);
		_exit(run(userdata) ? 0 : 1);
	}
	assert_true(child > 0);
	*ended = false;
	if (traced)
		return kill_at(child, until, ended);
	kill_after(child, until, ended);
	return until;
}
