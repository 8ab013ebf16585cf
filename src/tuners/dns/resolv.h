/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TUNERS_DNS_RESOLV_H
#define TUNERS_DNS_RESOLV_H

/* The node's own resolv.conf(5): its servers and its search list. */

#include <stdbool.h>
#include <stddef.h>

#include "kernel/host.h"
#include "tuners/dns/address.h"

#define DNS_RESOLV_SERVERS 8
#define DNS_RESOLV_SEARCH  8
#define DNS_DOMAIN_MAX     256

struct dns_resolv {
	struct dns_key servers[DNS_RESOLV_SERVERS];
	size_t n_servers;
	char search[DNS_RESOLV_SEARCH][DNS_DOMAIN_MAX];
	size_t n_search;
};

/* Takes a file's lines, in place of what was there. text is cut up. */
void dns_resolv_parse(struct dns_resolv *resolv, char *text);

/*
 * Reads what names the real upstreams: systemd-resolved's own list where it runs, as /etc has its
 * stub then. Nothing is known when there is neither.
 */
void dns_resolv_read(struct dns_resolv *resolv, const struct host *host);

bool dns_resolv_names(const struct dns_resolv *resolv, const struct dns_key *server);

#endif
