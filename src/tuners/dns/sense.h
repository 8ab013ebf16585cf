/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What sensing needs: the kernel's counters, and what tells servers apart. */

#include "config/config.h"
#include "runtime/kubelet.h"
#include "tuners/dns/dns.h"
#include "workload/cgroup.h"

struct cJSON;
struct metric_sink;
struct worker;

#define DNS_DOMAINS_MAX         16
#define DNS_DOMAIN_MAX          256
#define DNS_RESOLV_SERVERS      8
#define DNS_RESOLV_SEARCH       8
#define DNS_CLUSTER_SERVERS_MAX 16
#define DNS_NODE_ADDRESSES_MAX  1024

/* config.c: what the configuration says of DNS servers. */
struct dns_config {
	char domains[DNS_DOMAINS_MAX][DNS_DOMAIN_MAX];
	size_t n_domains;
	bool cluster_auto;
	struct dns_key cluster[DNS_CLUSTER_SERVERS_MAX];
	size_t n_cluster;
	bool names;
	bool budget_auto;
	struct dns_budget own; /* numbers beside server: auto, in place of the cloud's */
	struct {
		struct dns_key server;
		struct dns_budget budget;
		bool reported; /* that it has no effect */
	} budgets[DNS_PINNED_MAX];
	size_t n_budgets;
};

/* host_env.c: what the node's files and devices say of them. */
struct dns_host_env {
	char cloud[DNS_CLOUD_MAX]; /* empty: none known */
	unsigned uplinks; /* network devices of the machine, each with a link-local budget */
	struct dns_key servers[DNS_RESOLV_SERVERS]; /* of the node's own resolv.conf(5) */
	size_t n_servers;
	char search[DNS_RESOLV_SEARCH][DNS_DOMAIN_MAX];
	size_t n_search;
	struct dns_key node[DNS_NODE_ADDRESSES_MAX]; /* the node's addresses */
	size_t n_node;
	struct dns_key kubelet[KUBELET_SERVERS_MAX]; /* its clusterDNS */
	size_t n_kubelet;
};

void dns_config_validate(const struct config *config, struct config_fault_list *faults);
void dns_config_read(
	struct dns_config *into, const struct config *config, struct config_fault_list *faults);
/* The budget of a server, from the configuration or by the cloud; none for none. */
struct dns_budget dns_config_budget(const struct dns_config *config, const struct dns_host_env *env,
	const struct dns_key *server);

/* Reads all but the kubelet anew. Of what cannot be read, nothing is known. */
void dns_host_env_read(struct dns_host_env *env, const struct host *host);
/*
 * Sets the role and the budget of one server; only an upstream has one. A server that answers names
 * of the cluster is the cluster's, unless a budget names it.
 */
void dns_set_role(const struct dns_config *config, const struct dns_host_env *env,
	struct dns_server_state *server);

/*
 * clients.c: who queries which server, and how often: the kernel's rows of server, cgroup, type and
 * suffix, added up by server and cgroup (or source address), with rates from one reading to the
 * next.
 */
struct dns_client_counts {
	uint64_t queries;
	uint64_t expanded, failed; /* of those: with a suffix of a search list; no such name */
};

struct dns_client {
	/* What tells it apart: see by_identity(). */
	struct dns_key server;
	struct dns_key source; /* none unless the cgroup is the root */
	uint64_t cgroup;
	struct dns_client_counts counts, now; /* of the last reading, and of the one under way */
	uint64_t changed_at_us;               /* 0: it is new */
	double per_second, smooth;
	/* An address goes from pod to pod: whose it is, and the queries that are not its own. */
	uint64_t owner;                     /* hash of the workload; 0: not known yet */
	uint64_t before_owner, until_owner; /* queries before it had it, and when it last had it */
	bool serves;                        /* as it was at serves_at_us */
	uint64_t serves_at_us;
};

struct dns_clients {
	struct dns_client *clients; /* by identity, as far as sorted */
	size_t n, allocated, sorted;
	size_t rows;         /* of the kernel, at the last reading */
	uint64_t read_at_us; /* 0: never */
	bool prune;          /* rows of servers that are gone are left in the kernel */
};

/* sense.c */
struct dns_sensor {
	const struct host *host;
	bool watch, load; /* the programs are wanted; they are still to be loaded */
	char why[TUNER_WHY_MAX];
	struct worker *loader; /* NULL when nothing is being loaded */
	uint64_t next_sample_us;
	struct dns_config config;
	struct dns_bpf *bpf, *unattached; /* NULL without */
	struct cgroups *cgroups;
	struct dns_seen seen;
	struct dns_clients clients;
	struct dns_host_env env;
	uint32_t forgotten[DNS_BINS]; /* link-local packets of addresses that were removed */
	uint64_t refreshed_at_us;     /* env; 0: to be read */
	uint64_t pruned_at_us, sampled_at_us;
	uint64_t lost_servers; /* messages without room for their server, so far */
	uint64_t now_us;       /* of the current poll */
	uint64_t sent;         /* queries since the poll before */
	uint64_t pending;      /* queries without an answer at the last sweep */
	uint64_t coarse;       /* polls that were too late to tell some server's seconds apart */
	bool unclassified;     /* new servers whose role rests on old addresses */
};

void dns_sense(struct dns_sensor *sensor, uint64_t now_us);
/* clients.c. Reads the rows when that is due and updates the users of the labels. */
void dns_clients_read(struct dns_sensor *sensor);

/* report.c. Members of struct tuner_ops; self is a struct dns_sensor. */
void dns_put_metrics(const void *self, const void *memory, struct metric_sink *sink);
struct cJSON *dns_make_document(const void *self, const void *memory, bool trusted);
