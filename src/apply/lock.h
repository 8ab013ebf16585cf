/* SPDX-License-Identifier: Apache-2.0 */
#ifndef APPLY_LOCK_H
#define APPLY_LOCK_H

#include <stddef.h>

/*
 * One writer at a time: an exclusive flock(2) on the file "lock" of the state directory, which the
 * kernel gives up for us however we end. who ("agent", "apply") and our pid are written into it.
 * Returns the descriptor to keep open; -EBUSY with the holder ("agent, pid 1234") in holder;
 * -errno.
 */
int lock_take(int dir, const char *who, char *holder, size_t size);

#endif
