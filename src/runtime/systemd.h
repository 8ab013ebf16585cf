/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Properties of services, which systemd reports over D-Bus. A call takes a second at most. Without
 * systemd, or where it does not answer, nothing is known.
 */

#include <systemd/sd-bus.h>

#include "base/wait.h"
#include "kernel/host.h"

#include <headroom/daemon.h>

#define SYSTEMD "org.freedesktop.systemd1"
#define MANAGER "/org/freedesktop/systemd1"

/*
 * Opens DBUS_SYSTEM_BUS_ADDRESS, or else the usual socket below the host's root. The caller closes
 * the bus with sd_bus_close_unref(). Returns 0 or -errno.
 */
int systemd_open(const struct host *host, sd_bus **ret);

/* Returns the main process of the service, 0 if it is not known or does not run. */
pid_t systemd_main_pid(const struct host *host, const char *unit);

struct systemd_state {
	char load[32], active[32], sub[32], file[32], result[32]; /* "loaded", "active", ... */
	unsigned restarts;  /* since it was started by hand, or the boot */
	uint64_t active_us; /* CLOCK_REALTIME of its last start; 0: not known */
	uint64_t change_us; /* CLOCK_REALTIME of the last change of `sub`; 0: not known */
};

/* Returns false if systemd cannot be asked. */
bool systemd_state(const struct host *host, const char *unit, struct systemd_state *state);

/*
 * Reads the words of the commands of the service's next start, each terminated, without the
 * programs. $NAME and ${NAME} have the values of Environment= and EnvironmentFile=. The caller
 * frees them; NULL: not known.
 */
char *systemd_words(const struct host *host, const char *unit, size_t *len);

/*
 * Returns whether a command of the service's next start has this option in a word. The rest of the
 * last such word is copied to value.
 */
bool systemd_starts_with(
	const struct host *host, const char *unit, const char *option, char *value, size_t size);

/*
 * Gets the directories in which the service of a process searches programs, separated by colons:
 * ExecSearchPath=, else PATH of Environment=. Returns false if the service sets neither.
 */
bool systemd_search_path(const struct host *host, pid_t pid, char path[static PATH_MAX]);

/* ---- restarts ---- */

#define SYSTEMD_WHY_MAX 320

/*
 * Units are restarted through systemd, over D-Bus. Containers survive only if systemd kills the
 * daemon alone, so KillMode must be `process`, and no active unit may depend on this one. Units of
 * k3s, RKE2 and others that run the kubelet together with the runtime are never restarted. The
 * wait bounds and cancels all calls. why describes any result but 0.
 */

/*
 * Returns 0 if the unit may be restarted; -EPERM if not; -ENOTCONN without systemd; or another
 * -errno.
 */
int systemd_may_restart(const struct host *host, const struct daemon *daemon,
	const struct wait *wait, char why[static SYSTEMD_WHY_MAX]);

/* Asks the program's socket: enum cri_answers. */
unsigned systemd_probe(
	const struct host *host, const struct daemon *daemon, const struct wait *wait);

/*
 * Requests a restart. force: also start the unit if it failed or was stopped. 0 also without a
 * reply in time, because the restart may have begun.
 */
int systemd_restart(const struct host *host, const struct daemon *daemon, bool force,
	const struct wait *wait, char why[static SYSTEMD_WHY_MAX]);

/*
 * Waits until the program answers as it did before, 30 s after systemd's job at most. 0;
 * -ETIMEDOUT; -EPERM when someone else stopped the unit; -ECANCELED; or another -errno when systemd
 * did not report the unit's state.
 */
int systemd_await(const struct host *host, const struct daemon *daemon, unsigned answered,
	bool force, const struct wait *wait, char why[static SYSTEMD_WHY_MAX]);
