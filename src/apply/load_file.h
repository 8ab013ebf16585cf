/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kernel/host.h"

/*
 * Writes a file of ours for the time of a load, path below the host's root, or with text NULL
 * removes it. It stays if others have changed it, and a file that they made is not replaced:
 * -EEXIST. Loads run beside file jobs, so its record is in a journal of its own, in load/ of the
 * state directory. 0 or -errno.
 */
int load_file_put(const struct host *host, const char *path, const char *text);
