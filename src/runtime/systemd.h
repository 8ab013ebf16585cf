/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Properties of services, which systemd reports over D-Bus. A call takes a second at most. Without
 * systemd, or where it does not answer, nothing is known.
 */

#include <systemd/sd-bus.h>

#include "kernel/host.h"

#define SYSTEMD "org.freedesktop.systemd1"
#define MANAGER "/org/freedesktop/systemd1"

/*
 * Opens DBUS_SYSTEM_BUS_ADDRESS, or else the usual socket below the host's root. The caller closes
 * the bus with sd_bus_close_unref(). Returns 0 or -errno.
 */
int systemd_open(const struct host *host, sd_bus **ret);

/* The main process of the service, 0 if it is not known or does not run. */
pid_t systemd_main_pid(const struct host *host, const char *unit);

struct systemd_state {
	char load[32], active[32], sub[32], file[32], result[32]; /* "loaded", "active", ... */
	unsigned restarts; /* since it was started by hand, or the boot */
};

/* Returns false if systemd cannot be asked. */
bool systemd_state(const struct host *host, const char *unit, struct systemd_state *state);

/*
 * Whether a command of the service's next start has this option in a word. The rest of the last
 * such word is copied to value.
 */
bool systemd_starts_with(
	const struct host *host, const char *unit, const char *option, char *value, size_t size);

/*
 * The directories in which the service of a process searches programs, separated by colons:
 * ExecSearchPath=, else PATH of Environment=. Returns false if the service sets neither.
 */
bool systemd_search_path(const struct host *host, pid_t pid, char path[static PATH_MAX]);
