/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/lock.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>

static void read_holder(int fd, char *holder, size_t size)
{
	ssize_t n = pread(fd, holder, size - 1, 0);

	holder[MAX(n, 0)] = '\0';
	holder[strcspn(holder, "\n")] = '\0';
	if (holder[0] == '\0')
		copy_text(holder, size, "another headroom");
}

int lock_take(int dir, const char *who, char *holder, size_t size)
{
	_cleanup_close_ int fd =
		openat(dir, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
	char text[64];
	int n;

	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK)
			return -errno;
		read_holder(fd, holder, size);
		return -EBUSY;
	}
	/* The name is a courtesy to whoever comes second: on a full disk the lock does without. */
	n = snprintf(text, sizeof(text), "%s, pid %d\n", who, (int)getpid());
	if (ftruncate(fd, 0) == 0)
		(void)write_all(fd, text, (size_t)n);
	return steal_fd(&fd);
}
