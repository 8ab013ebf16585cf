/* SPDX-License-Identifier: Apache-2.0 */
#ifndef APPLY_UNIT_H
#define APPLY_UNIT_H

/*
 * Restarts the unit of a program through systemd, by D-Bus, and waits until it answers again; or
 * makes a program read its configuration again. Containers survive only where systemd kills the
 * daemon alone: so KillMode must be `process`, and no active unit may depend on this one. Units of
 * k3s, RKE2 and their like, which run the kubelet and the runtime in one, are never restarted.
 *
 * All calls block. A wait bounds and cancels them; why describes any result but 0.
 */

#include "apply/editor.h"
#include "base/wait.h"
#include "kernel/host.h"
#include "runtime/cri_client.h"

#include <headroom/file.h>

/*
 * Whether it may be restarted. 0; -EPERM when it must not be; -ENOTCONN without systemd; any other
 * -errno when that could not be found out.
 */
int unit_may_restart(const struct host *host, const struct service *service,
	const struct wait *wait, char why[static EDIT_WHY_MAX]);

/* How much of the program answers on its socket now. */
enum cri_answers unit_probe(
	const struct host *host, const struct service *service, const struct wait *wait);

/*
 * Asks systemd for a restart. force: also of a unit that failed; else one that was stopped
 * meanwhile is not started. 0 also without a reply in time: it may have begun.
 */
int unit_restart(const struct host *host, const struct service *service, bool force,
	const struct wait *wait, char why[static EDIT_WHY_MAX]);

/*
 * Waits until as much of it answers as did before, for 30 s. 0; -ETIMEDOUT when it does not; -EPERM
 * when someone else stopped it; -ECANCELED; any other -errno when systemd did not report its state.
 * A job of systemd's that is under way does not count.
 */
int unit_await(const struct host *host, const struct service *service, unsigned answered,
	bool force, const struct wait *wait, char why[static EDIT_WHY_MAX]);

/*
 * SIGHUP. 0; -ESRCH when the process that the service names is not there, or is another program;
 * -errno.
 */
int service_reload(const struct host *host, const struct service *service);

#endif
