/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A read-only registry on 127.0.0.1 that serves one archive (OCI distribution specification: the
 * pull part): GET and HEAD of /v2/, /v2/NAME/manifests/DIGEST and /v2/NAME/blobs/DIGEST. It lives
 * as long as the transfer that needs it, in a thread of its own.
 */

#include <stdatomic.h>

#include "runtime/archive.h"

struct image_server;

/* name: the repository, the only one there is. sent counts bytes of blobs. 0 with the port, or
 * -errno. */
int image_server_open(const struct archive *archive, const char *name, _Atomic uint64_t *sent,
	struct image_server **ret, uint16_t *port);
void image_server_close(struct image_server *server);
DEFINE_CLEANUP(struct image_server, image_server_close)
