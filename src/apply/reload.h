/* SPDX-License-Identifier: Apache-2.0 */
#ifndef APPLY_RELOAD_H
#define APPLY_RELOAD_H

#include "kernel/host.h"

#include <headroom/file.h>

/*
 * SIGHUP to dockerd, which then reads its daemon.json. 0; -ESRCH when the process that the service
 * names is not there, or is another program; -errno. What it made of the file, its reload event
 * tells.
 */
int reload_docker(const struct host *host, const struct service *service);

#endif
