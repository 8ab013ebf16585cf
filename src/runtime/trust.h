/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_TRUST_H
#define RUNTIME_TRUST_H

/*
 * The certificate authorities that the node trusts, in parts. Reading all 140 of them takes a TLS
 * library 7 to 30 ms for every connection, more than the loop may stand; a part takes under 1 ms.
 * Whoever checks a server again and again finds its part once.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

#define TRUST_PATH_MAX 64

struct trust;

/*
 * The bundle of the node below host_root, at the places where distributions keep it. 0, -ENOENT
 * when there is none, -EINVAL when it holds no certificate, or -errno.
 */
int trust_open(const char *host_root, struct trust **trust);

size_t trust_parts(const struct trust *trust);

/* A file of this process that holds one part, for a library that wants a file's name. */
void trust_path(const struct trust *trust, size_t part, char path[static TRUST_PATH_MAX]);

void trust_close(struct trust *trust); /* NULL is fine */

DEFINE_CLEANUP(struct trust, trust_close)

#endif
