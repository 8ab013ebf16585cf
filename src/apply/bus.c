/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/bus.h"

#include "apply/file.h"

#include <stdio.h>
#include <stdlib.h>

#define BUS_SOCKET "/run/dbus/system_bus_socket"

static int open_at(const char *path, sd_bus **ret)
{
	char address[PATH_MAX + 16];
	sd_bus *bus;
	int r = sd_bus_new(&bus);

	if (r < 0)
		return r;
	snprintf(address, sizeof(address), "unix:path=%s", path);
	r = sd_bus_set_address(bus, address);
	if (r >= 0)
		r = sd_bus_set_bus_client(bus, true);
	if (r >= 0)
		r = sd_bus_start(bus);
	if (r < 0) {
		sd_bus_unref(bus);
		return r;
	}
	*ret = bus;
	return 0;
}

int bus_open(const struct host *host, sd_bus **bus)
{
	struct file_at at;
	int r;

	*bus = NULL;
	if (!host->root[0] || getenv("DBUS_SYSTEM_BUS_ADDRESS")) {
		r = sd_bus_open_system(bus);
		return r < 0 ? r : 0;
	}
	r = file_locate(host, BUS_SOCKET, &at);
	return r < 0 ? r : open_at(at.full, bus);
}
