/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_CONTAINERD_GENERATION_H
#define RUNTIME_CONTAINERD_GENERATION_H

/* What differs from one containerd to the next, as data. */

#include "runtime/containerd_config.h"

#include <limits.h>

/* What a file that this program makes begins with. */
#define CONTAINERD_OURS "# Added by headroom; \"headroom restore\" takes it away.\n"

#define CRI_TABLE_1    "plugins.cri"
#define CRI_TABLE_2    "plugins.\"io.containerd.grpc.v1.cri\""
#define IMAGES_TABLE   "plugins.\"io.containerd.cri.v1.images\""
#define TRANSFER_TABLE "plugins.\"io.containerd.transfer.v1.local\""

/* How the version of a configuration is found, and so the names of its tables. */
enum containerd_versions {
	CONTAINERD_VERSION_LAST,   /* 1.x: that of the last file that has one, else 1 */
	CONTAINERD_VERSION_SPREAD, /* 2.0 to 2.2: a file without one has that of those before it */
	CONTAINERD_VERSION_EACH,   /* each file has its own */
};

struct containerd_generation {
	unsigned major, minor; /* the first of it */
	enum containerd_versions versions;
	long long newest; /* version of a file that it reads */
	bool merges;      /* imports merge key by key */
	bool progress;    /* knows image_pull_progress_timeout */
	bool transfer;    /* pulls by the transfer service, unless something asks for the old way */
	const char *registry_default; /* what an empty registry.config_path means */
	const char *begin;            /* of a main file that is to be made */
	const char *source;           /* where these facts are from */
};

/* NULL for what is too old, or no version. A newer one than is known counts as the last row. */
const struct containerd_generation *containerd_generation_of(const char *version);

/* The path or pattern that an import of a file means. -ENAMETOOLONG. */
int containerd_import_path(const char *parent, const char *import, char path[static PATH_MAX]);

#endif
