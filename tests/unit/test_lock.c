/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "apply/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

static int open_directory(const struct directory *directory)
{
	int dir = open(directory->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_true(dir >= 0);
	return dir;
}

TEST(the_second_is_told_of_the_first)
{
	_cleanup_directory_ struct directory directory;
	_cleanup_close_ int dir = -1;
	char holder[64] = "", expected[64];
	int first, second;

	directory_make(&directory);
	dir = open_directory(&directory);
	first = lock_take(dir, "agent", holder, sizeof(holder));
	assert_true(first >= 0);
	assert_string_equal(holder, "");
	assert_int_equal(lock_take(dir, "apply", holder, sizeof(holder)), -EBUSY);
	snprintf(expected, sizeof(expected), "agent, pid %d", (int)getpid());
	assert_string_equal(holder, expected);
	close(first);
	second = lock_take(dir, "x", holder, sizeof(holder));
	assert_true(second >= 0);
	/* A shorter name leaves nothing of the longer one. */
	assert_int_equal(lock_take(dir, "apply", holder, sizeof(holder)), -EBUSY);
	snprintf(expected, sizeof(expected), "x, pid %d", (int)getpid());
	assert_string_equal(holder, expected);
	close(second);
}

TEST(a_holder_without_a_name)
{
	_cleanup_directory_ struct directory directory;
	_cleanup_close_ int dir = -1, held = -1;
	char holder[64], path[PATH_MAX];

	directory_make(&directory);
	dir = open_directory(&directory);
	held = lock_take(dir, "agent", holder, sizeof(holder));
	directory_path(&directory, "/lock", path);
	assert_int_equal(truncate(path, 0), 0);
	assert_int_equal(lock_take(dir, "apply", holder, sizeof(holder)), -EBUSY);
	assert_string_equal(holder, "another headroom");
}

TEST(a_killed_holder_holds_nothing)
{
	_cleanup_directory_ struct directory directory;
	_cleanup_close_ int dir = -1, held = -1;
	char holder[64], byte;
	int ready[2];
	pid_t child;

	directory_make(&directory);
	dir = open_directory(&directory);
	assert_int_equal(pipe(ready), 0);
	child = fork();
	if (child == 0) {
		if (lock_take(dir, "agent", holder, sizeof(holder)) >= 0)
			(void)!write(ready[1], "x", 1);
		pause();
		_exit(1);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(lock_take(dir, "apply", holder, sizeof(holder)), -EBUSY);
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	held = lock_take(dir, "apply", holder, sizeof(holder));
	assert_true(held >= 0);
	close(ready[0]);
	close(ready[1]);
}

TEST(a_directory_that_is_none)
{
	char holder[64];

	assert_int_equal(lock_take(-1, "agent", holder, sizeof(holder)), -EBADF);
}
