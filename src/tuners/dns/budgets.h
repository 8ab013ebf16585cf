/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TUNERS_DNS_BUDGETS_H
#define TUNERS_DNS_BUDGETS_H

/* What a cloud allows one machine to send to its resolver, as it publishes it. */

#include <stdbool.h>
#include <stdint.h>

#include "kernel/host.h"
#include "tuners/dns/address.h"

#define DNS_CLOUD_MAX 16

struct dns_budget {
	uint64_t qps;               /* queries in any second; 0: none of this kind */
	uint64_t pps;               /* packets in any second */
	uint64_t pending;           /* queries without an answer yet */
	bool sustained;             /* qps is meant over a minute: bursts are let through */
	bool link_local;            /* pps is shared with the cloud's other link-local services */
	char source[DNS_CLOUD_MAX]; /* "azure", as `explain` knows it below budget/; "config";
				       empty: none */
};

/* One published budget. */
struct dns_budget_row {
	const char *cloud;       /* what `explain` knows below budget/ */
	const char *network;     /* the resolver's address, or the network it is in */
	unsigned bits;           /* of the network */
	bool anywhere;           /* the address tells the cloud: DMI need not */
	bool listed;             /* only for a server that the node's resolv.conf names */
	struct dns_budget value; /* but for its source */
};

extern const struct dns_budget_row dns_budget_rows[]; /* ended by a row without a cloud */

/* "aws", by what the firmware says in /sys/class/dmi/id; "" for none that is known. */
const char *dns_cloud_detect(const struct host *host);

/*
 * The published budget for this server. listed: the node's own resolv.conf names it. False, and
 * nothing written, when there is none.
 */
bool dns_budget_builtin(
	const char *cloud, const struct dns_key *server, bool listed, struct dns_budget *budget);

bool dns_budget_is_set(const struct dns_budget *budget);

#endif
