/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The TLS of the TCP endpoint, on a thread at idle priority: it accepts clients, makes handshakes
 * and passes bytes between each client and a socket of the loop, which sees plain HTTP. So no
 * client costs the loop a handshake. The thread exists while there are connections.
 */

#include "base/task.h"
#include "config/web.h"

/* A client as the HTTP server gets it. */
struct tls_arrival {
	int fd;                /* plain text */
	bool certificate_fits; /* as the configuration asks */
	struct sockaddr_storage peer, local;
};

/* Owns arrival->fd. */
typedef void tls_arrival_fn(void *userdata, const struct tls_arrival *arrival);

struct tls;

/* listener must be non-blocking. Keeps a copy of it, and a reference to web. Returns 0 or -errno.
 */
int tls_open(sd_event *event, struct web_config *web, int listener, tls_arrival_fn *arrived,
	void *userdata, struct tls **ret);

/*
 * Closes the listener, and all connections. It does not wait for the thread, which may get no CPU
 * for a long time: false, and the loop frees its memory when it has ended.
 */
bool tls_close(struct tls *tls);
DEFINE_CLEANUP(struct tls, tls_close)
