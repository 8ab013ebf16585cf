/* SPDX-License-Identifier: Apache-2.0 */
#ifndef APPLY_WRITER_H
#define APPLY_WRITER_H

#include "kernel/host.h"

#include <headroom/value.h>

/*
 * Writes one value to the node: nothing else changes it, but for configuration files
 * (src/apply/file.h). A threshold goes by RTM_SETNEIGHTBL with an acknowledgement, and by its file
 * in /proc/sys where that is refused; urgent the other way round, for rtnetlink may have to wait
 * for a lock that others hold. 0 or -errno; what the kernel made of it must be read back.
 */
int writer_set(
	const struct host *host, const struct value_target *target, const char *value, bool urgent);

#endif
