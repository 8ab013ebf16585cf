/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TUNERS_DNS_ASKERS_H
#define TUNERS_DNS_ASKERS_H

/*
 * Who asks whom, and how often: the kernel's rows of server, cgroup, type and suffix, added up by
 * server and cgroup (or source address), with rates from one reading to the next.
 */

#include "tuners/dns/bpf.h"
#include "tuners/dns/dns.h"
#include "tuners/dns/who.h"

struct dns_asker {
	struct dns_key server;
	struct dns_key source; /* none unless the cgroup is the root */
	uint64_t cgroup;
	uint64_t queries;
	uint64_t expanded, failed; /* of those: with a suffix of a search list; no such name */
	uint64_t changed_at_us;
	double per_second, smooth;
};

struct dns_askers {
	struct dns_asker *askers; /* by server, cgroup and source */
	size_t n, allocated;
	size_t rows;           /* of the kernel, at the last reading */
	struct dns_asker *old; /* of the reading before */
	size_t n_old, old_allocated;
	uint64_t read_at_us; /* 0: never */
	bool prune;          /* rows of servers that are gone are left in the kernel */
};

/* Makes the sums of rows[0..n) that have the same server, cgroup and source; how many are left. */
size_t dns_askers_merge(struct dns_asker *rows, size_t n);

/* Takes n new sums, which rate and smooth are told of; sums come from merge. */
void dns_askers_rate(struct dns_askers *askers, uint64_t now_us);

/* Reads the rows anew when that is due; says then who asks in the book's labels and in seen. */
void dns_askers_read(struct dns_askers *askers, struct dns_bpf *bpf, struct dns_who *who,
	const struct dns_roles *roles, struct dns_seen *seen, uint64_t now_us);

/*
 * Puts the busiest of a label's askers into it, by workload. users are those of one server, sorted
 * here; at most DNS_TOP are kept.
 */
void dns_askers_tell(struct dns_label *label, struct dns_user *users, size_t n);

/* Who forwards: asks upstreams, and is told by name or by what it serves. Busiest first. */
void dns_askers_forwarders(struct dns_seen *seen);

void dns_askers_clear(struct dns_askers *askers);

#endif
