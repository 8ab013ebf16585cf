/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TUNERS_DNS_WHO_H
#define TUNERS_DNS_WHO_H

/*
 * Who asks: the workload of a cgroup, by the path of its directory; where the cgroup is the root,
 * as everybody's is on a host with cgroup v1, the workload that has the source address.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "kernel/host.h"
#include "tuners/dns/roles.h"

#include <headroom/workload.h>

struct dns_who;

/* root: the directory of the host's cgroup2 root; NULL: it is looked for. NULL without memory. */
struct dns_who *dns_who_open(const struct host *host, const char *root);
void dns_who_close(struct dns_who *who);
DEFINE_CLEANUP(struct dns_who, dns_who_close)

/*
 * Looks for all of these cgroups (inodes) that are not known yet, when it is time to: that takes a
 * walk through all directories, which is done less often the longer it takes. Forgets those that
 * were not asked for in a long while, when there are many.
 */
void dns_who_learn(struct dns_who *who, const uint64_t *cgroups, size_t n, uint64_t now_us);

/*
 * The workload. root_cgroup: the inode of the cgroup that tells nothing; source: the address that
 * asks, or none. For a cgroup that nobody knows: kind unit, named by its inode.
 */
struct workload dns_who_find(const struct dns_who *who, uint64_t cgroup, uint64_t root_cgroup,
	const struct dns_key *source, const struct dns_roles *roles);

/*
 * True when a process of that cgroup is a DNS server: by its name, or, in a container, by a UDP
 * socket bound to port 53. It is looked up again once a minute.
 */
bool dns_who_serves(struct dns_who *who, uint64_t cgroup, uint64_t now_us);

/* By the path below the root: what workload/cgroup.h tells, else the directory itself. */
struct workload dns_who_of_path(const char *path);

/* True when name or id say that this is a DNS server that forwards: CoreDNS, dnsmasq, ... */
bool dns_who_is_forwarder(const struct workload *workload);

/* True for a cache that is meant to be on every node. */
bool dns_who_is_node_cache(const struct workload *workload);

bool dns_who_same(const struct workload *a, const struct workload *b);

#endif
