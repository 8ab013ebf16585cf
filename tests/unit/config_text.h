/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Loads a configuration from a text, through a file in memory. */

#include "config/config.h"

#include <sys/mman.h>

struct loaded {
	struct config *config; /* NULL after a fault */
	int result;
	struct config_fault_list faults;
};

static inline void loaded_clear(struct loaded *loaded)
{
	if (loaded->config)
		config_free(loaded->config);
	config_faults_clear(&loaded->faults);
}

#define _cleanup_loaded_ __attribute__((cleanup(loaded_clear)))

static inline struct loaded load_source(
	const struct config_option *const *tables, const struct config_source *source)
{
	struct loaded loaded = {0};

	loaded.result = config_load(source, tables, &loaded.config, &loaded.faults);
	return loaded;
}

static inline struct loaded load_bytes(
	const struct config_option *const *tables, const void *text, size_t len)
{
	_cleanup_close_ int fd = memfd_create("config", MFD_CLOEXEC);
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (fd < 0 || write(fd, text, len) != (ssize_t)len)
		abort();
	return load_source(tables, &(struct config_source){.file = path, .draft = true});
}
