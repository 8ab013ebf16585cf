/* SPDX-License-Identifier: Apache-2.0 */
#ifndef APPLY_RESTART_H
#define APPLY_RESTART_H

/*
 * Restarts the unit of a runtime through systemd, by D-Bus, and waits until it answers again.
 * Containers live on only where systemd kills the daemon alone: so KillMode must be `process`, and
 * no active unit may be bound to this one. Units of k3s, RKE2 and their like, which run the kubelet
 * and the runtime in one, are never restarted.
 */

#include <systemd/sd-event.h>

#include "apply/edit_text.h"
#include "kernel/host.h"

struct restart;

struct restart_options {
	const struct host *host; /* only its root is used */
	const struct service *service;
	bool forced;          /* it was restarted already: without asking whether it may be */
	uint64_t deadline_us; /* how long it may take to answer again; 0: 30 s */
};

/*
 * result: 0: it was restarted and answers. -EPERM: it must not be, and was not. -ETIMEDOUT: it was,
 * and does not answer. Any other -errno: systemd could not be asked, nothing was done. why is said
 * in words for all but 0.
 */
typedef void (*restart_done)(int result, const char *why, void *userdata);

/* done is called once, from the loop, never from here; restart is released by then. 0 or -errno. */
int restart_start(sd_event *event, const struct restart_options *options, restart_done done,
	void *userdata, struct restart **ret);

/* Forgets it without calling done; what systemd was asked for goes on. NULL is allowed. */
void restart_abandon(struct restart *restart);

#endif
