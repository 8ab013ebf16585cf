/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_DOCKER_KEYS_H
#define RUNTIME_DOCKER_KEYS_H

/* Which keys of daemon.json which dockerd takes. Pure. */

#include <stdbool.h>

/*
 * Whether dockerd of this version ("20.10.24+dfsg1") takes the key: the names of its options and
 * those under which lists go in the file (cmd/dockerd of the versions 20.10.27, 23.0.15, 24.0.9,
 * 25.0.6, 26.1.5, 27.5.1 and 28.5.2). What other versions take is not known here: everything counts
 * as taken.
 */
bool docker_config_knows(const char *version, const char *key);

/* Whether the key's value may be an object of its own (flatOptions in daemon/config/config.go). */
bool docker_config_is_flat(const char *key);

#endif
