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

#include "apply/answer.h"
#include "apply/edit_text.h"
#include "kernel/host.h"

struct restart;

enum restart_way {
	RESTART_ASK,   /* where it may be */
	RESTART_AGAIN, /* it was restarted already: without asking whether it may be */
	RESTART_AWAIT, /* it was asked for earlier, by another process maybe: only waits */
};

/*
 * Called from the loop when it may be restarted, and systemd was not asked for it yet: answered is
 * how much of it answers. Now or later restart_go() has it done, or restart_abandon() ends it.
 */
typedef void (*restart_ready)(enum answer_level answered, void *userdata);

struct restart_options {
	const struct host *host; /* only its root is used */
	const struct service *service;
	enum restart_way way;
	restart_ready ready;        /* RESTART_ASK; NULL: it goes on by itself */
	enum answer_level answered; /* RESTART_AWAIT: as much as this has to answer again */
	uint64_t deadline_us;       /* how long it may take to answer again; 0: 30 s */
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

/* After ready: 0, or -errno with nothing done, and the caller abandons it. */
int restart_go(struct restart *restart);

/* Forgets it without calling done; what systemd was asked for goes on. NULL is allowed. */
void restart_abandon(struct restart *restart);

#endif
