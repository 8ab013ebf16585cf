/* SPDX-License-Identifier: Apache-2.0 */

/* sync_once FILE N: N processes, one after the other, sync the file once each. */

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int fd = argc == 3 ? open(argv[1], O_WRONLY | O_CREAT | O_CLOEXEC, 0644) : -1;

	for (long i = 0; fd >= 0 && i < atol(argv[2]); i++) {
		/* The memory of the parent is shared: 1,000,000 take less than a minute. */
		pid_t pid = vfork();

		if (pid == 0)
			_exit(fsync(fd) < 0);
		if (pid < 0 || waitpid(pid, NULL, 0) < 0)
			return 1;
	}
	return fd < 0;
}
