/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Loads a configuration from a text, by way of a file in memory. */

#include "config/config.h"

#include <sys/mman.h>

static inline int config_load_text(const char *text, size_t len,
	const struct config_option *const *tables, struct config **ret,
	struct config_fault_list *faults, struct config_fault_list *notices)
{
	_cleanup_close_ int fd = memfd_create("config", MFD_CLOEXEC);
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (fd < 0 || write(fd, text, len) != (ssize_t)len)
		abort();
	return config_load(&(struct config_source){.file = path}, tables, ret, faults, notices);
}
