/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TUNERS_DNS_ROLES_H
#define TUNERS_DNS_ROLES_H

/* What a DNS server is to this node. Only an upstream has a budget. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/host.h"
#include "tuners/dns/address.h"

#define DNS_CLUSTER_SERVERS_MAX 16
#define DNS_NODE_ADDRESSES_MAX  4096

enum dns_role {
	DNS_LOCAL,   /* on this node: a stub, a node's cache. A first hop, no upstream */
	DNS_CLUSTER, /* the cluster's own DNS, wherever it runs */
	DNS_UPSTREAM,
	DNS_ROLES,
};

struct dns_roles {
	struct dns_key *node; /* sorted */
	size_t n_node, allocated;
	struct dns_key cluster[DNS_CLUSTER_SERVERS_MAX];
	size_t n_cluster;
};

const char *dns_role_name(enum dns_role role); /* "upstream" */

/*
 * The role of a server. answers: how many cluster names it answered with NOERROR; budgeted: a
 * budget names it, which makes it an upstream wherever its answers come from.
 */
enum dns_role dns_role_of(const struct dns_roles *roles, const struct dns_key *server,
	uint64_t answers, bool budgeted);

/* Reads the addresses of this node anew. Those of before stay when that fails. */
void dns_roles_read_node(struct dns_roles *roles);

bool dns_roles_is_node(const struct dns_roles *roles, const struct dns_key *address);

/* The kubelet's clusterDNS, from the first of its usual configuration files that has one. */
void dns_roles_read_kubelet(struct dns_roles *roles, const struct host *host);

/* Takes the addresses of a KubeletConfiguration's clusterDNS, JSON or YAML. How many were new. */
size_t dns_roles_take_kubelet(struct dns_roles *roles, const char *text, size_t len);

void dns_roles_add_cluster(struct dns_roles *roles, const struct dns_key *address);
void dns_roles_clear(struct dns_roles *roles);

#endif
