/* SPDX-License-Identifier: Apache-2.0 */
#ifndef APPLY_ANSWER_H
#define APPLY_ANSWER_H

#include <systemd/sd-event.h>

#include "kernel/host.h"

/* How much of a runtime answers on its socket. */
enum answer_level {
	ANSWER_NONE,    /* nobody listens */
	ANSWER_CONNECT, /* somebody does, and speaks no gRPC in time */
	ANSWER_GRPC,    /* it answers, and has no CRI: switched off, or it did not load */
	ANSWER_CRI,     /* it tells the CRI's version: the kubelet can work with it */
};

struct answer;

typedef void (*answer_done)(enum answer_level level, void *userdata);

/*
 * Who listens and says nothing is left after timeout_us. done is called once, from the loop, never
 * from here; answer is released by then. 0 or -errno.
 */
int answer_ask(sd_event *event, const struct host *host, const char *socket, uint64_t timeout_us,
	answer_done done, void *userdata, struct answer **ret);

/* Forgets it without calling done. NULL is allowed. */
void answer_abandon(struct answer *answer);

#endif
