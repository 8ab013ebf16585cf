/* SPDX-License-Identifier: Apache-2.0 */
#ifndef APPLY_BUS_H
#define APPLY_BUS_H

#include <systemd/sd-bus.h>

#include "kernel/host.h"

/*
 * The host's system bus: where DBUS_SYSTEM_BUS_ADDRESS says, else the usual place below the host's
 * root. The caller closes and unrefs it. 0 or -errno, with *bus NULL.
 */
int bus_open(const struct host *host, sd_bus **bus);

#endif
