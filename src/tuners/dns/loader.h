/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TUNERS_DNS_LOADER_H
#define TUNERS_DNS_LOADER_H

/*
 * Loading the programs takes the kernel's verifier a tenth of a second or more. A thread waits for
 * it, so that nothing else of the agent does: neither its start nor a table that fills meanwhile.
 */

#include <systemd/sd-event.h>

#include "tuners/dns/bpf.h"

struct dns_loader;

/*
 * Called once, from the loop: bpf is the receiver's, NULL when it cannot be had, and why says why;
 * else why is empty. The loader may be closed then.
 */
typedef void dns_loaded_fn(struct dns_bpf *bpf, const char *why, void *userdata);

/*
 * The thread keeps the privileges of the moment, whatever the caller gives up later. host must
 * outlive it. 0 or -errno, and then done is not called.
 */
int dns_loader_start(sd_event *event, const struct host *host, dns_loaded_fn *done, void *userdata,
	struct dns_loader **ret);

/* Waits for the thread; what it loaded and nobody took is closed. */
void dns_loader_close(struct dns_loader *loader);

#endif
