/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TUNERS_DNS_CLIENTS_H
#define TUNERS_DNS_CLIENTS_H

/*
 * Who queries which server, and how often: the kernel's rows of server, cgroup, type and suffix,
 * added up by server and cgroup (or source address), with rates from one reading to the next.
 */

#include "kernel/host.h"
#include "tuners/dns/bpf.h"
#include "tuners/dns/dns.h"

struct dns_client {
	struct dns_key server;
	struct dns_key source; /* none unless the cgroup is the root */
	uint64_t cgroup;
	uint64_t queries;
	uint64_t expanded, failed; /* of those: with a suffix of a search list; no such name */
	uint64_t changed_at_us;
	double per_second, smooth;
	/* An address goes from pod to pod: whose it is, and the queries that are not its own. */
	uint64_t owner;                     /* hash of the workload; 0: not known yet */
	uint64_t before_owner, until_owner; /* queries before it had it, and when it last had it */
	bool serves;                        /* as it was at serves_at_us */
	uint64_t serves_at_us;
};

struct dns_clients {
	struct dns_client *clients; /* by server, cgroup and source */
	size_t n, allocated;
	struct dns_client *old; /* of the reading before */
	size_t n_old, old_allocated;
	size_t rows;         /* of the kernel, at the last reading */
	uint64_t read_at_us; /* 0: never */
	bool prune;          /* rows of servers that are gone are left in the kernel */
};

struct dns_sensor;

/* Adds up rows[0..n) of the same server, cgroup and source; how many are left. */
size_t dns_clients_merge(struct dns_client *rows, size_t n);

/*
 * Gives merged clients their rates, and what is carried over from the reading before. Queries with
 * a suffix of a search list are added to seen, by the role of the server in its table.
 */
void dns_clients_rate(struct dns_clients *clients, struct dns_seen *seen, uint64_t now_us);

/*
 * The queries of the workload that has the client's source address now: those of the workloads that
 * had it before are not counted.
 */
uint64_t dns_client_queries(struct dns_client *client, const struct workload *workload);

/* Reads the rows anew when that is due; updates the labels' users and seen's forwarders. */
void dns_clients_read(struct dns_sensor *sensor, struct dns_seen *seen);

/* Puts the busiest of n users of one server into its label, one for each workload. */
void dns_label_take_users(struct dns_label *label, struct dns_user *users, size_t n);

void dns_clients_clear(struct dns_clients *clients);

/* forwarders.c */

/* Lists the forwarders that query upstreams, by name or by what they serve. Busiest first. */
void dns_forwarders_list(struct dns_seen *seen);

/*
 * True when the process is a DNS server: by its name, or, in a container, by a UDP socket bound to
 * port 53.
 */
bool dns_process_serves(const struct host *host, pid_t pid, bool in_container);

bool dns_workload_same(const struct workload *a, const struct workload *b);

#endif
