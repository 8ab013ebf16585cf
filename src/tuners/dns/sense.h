/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The sensor: the kernel's counters, and the facts that give servers their roles and budgets. */

#include "config/config.h"
#include "runtime/kubelet.h"
#include "tuners/dns/dns.h"
#include "workload/facts.h"

struct cJSON;
struct metric_sink;

#define DNS_DOMAINS_MAX         16
#define DNS_DOMAIN_MAX          256
#define DNS_RESOLV_SERVERS      8
#define DNS_RESOLV_SEARCH       8
#define DNS_CLUSTER_SERVERS_MAX 16
#define DNS_NODE_ADDRESSES_MAX  1024

/* config.c */
struct dns_config {
	char domains[DNS_DOMAINS_MAX][DNS_DOMAIN_MAX];
	size_t n_domains;
	bool cluster_auto;
	struct dns_key cluster[DNS_CLUSTER_SERVERS_MAX];
	size_t n_cluster;
	bool names;
	bool budget_auto;
	struct dns_budget own; /* the numbers of "server: auto" replace the cloud's */
	struct {
		struct dns_key server;
		struct dns_budget budget;
		bool reported; /* the log has a warning that it has no effect */
	} budgets[DNS_PINNED_MAX];
	size_t n_budgets;
};

/* host_env.c: facts from the node's files and devices. */
struct dns_host_env {
	char cloud[DNS_CLOUD_MAX]; /* empty: unknown */
	unsigned uplinks;          /* network devices, each with a link-local budget */
	struct dns_key servers[DNS_RESOLV_SERVERS]; /* of the node's resolv.conf(5) */
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
/*
 * The budget of a server, from the configuration or the cloud; zero without one. listed: the node's
 * resolv.conf names the server, or named it.
 */
struct dns_budget dns_config_budget(const struct dns_config *config, const struct dns_host_env *env,
	const struct dns_key *server, bool listed);

/* Reads everything except the kubelet's servers. Facts that cannot be read are empty. */
void dns_host_env_read(struct dns_host_env *env, const struct host *host);
/*
 * Sets the role and the budget of a server; only an upstream has a budget. A server that answers
 * names in a cluster domain is the cluster's DNS, unless a budget names it.
 */
void dns_set_role(const struct dns_config *config, const struct dns_host_env *env,
	struct dns_server_state *server);

/*
 * clients.c: the clients of each server. The kernel's rows are per server, cgroup, type and suffix;
 * a client is the sum of the rows with the same server and cgroup (or source address).
 */
struct dns_client_counts {
	uint64_t queries;
	uint64_t expanded; /* names that end in a search domain */
	uint64_t failed;   /* expanded, and the answer was NXDOMAIN */
	uint64_t failures; /* answers SERVFAIL and the like */
};

struct dns_client {
	/* The identity: see by_identity(). */
	struct dns_key server;
	struct dns_key source; /* zero unless the cgroup is the root */
	uint64_t cgroup;
	struct dns_client_counts counts, now; /* of the last and the current reading */
	uint64_t changed_at_us;               /* 0: it is new */
	double per_second, smooth, failures;  /* as in struct dns_user */
	uint32_t sent[DNS_READINGS];          /* queries in each of the last readings */
	double in_second;                     /* the queries in the second that is being named */
	/* Pods reuse addresses: the owner of the address, and the queries of earlier owners. */
	uint64_t owner;                     /* hash of the workload; 0: unknown */
	uint64_t before_owner, until_owner; /* queries at its first and at its last reading */
	uint64_t before_label;              /* queries before the server got its label */
	bool serves;                        /* at serves_at_us */
	uint64_t serves_at_us;
};

struct dns_clients {
	struct dns_client *clients; /* the first "sorted" ones are sorted by identity */
	size_t n, allocated, sorted;
	size_t rows;                               /* of the kernel, at the last reading */
	uint64_t read_at_us;                       /* 0: never */
	struct dns_reading readings[DNS_READINGS]; /* a ring */
	unsigned reading;                          /* number of the last one */
	bool prune;                                /* the kernel has rows of removed servers */
};

/* sense.c */
struct dns_sensor {
	const struct host *host;
	const struct names *names;
	bool watch; /* the agent, not a command */
	char why[TUNER_WHY_MAX];
	uint64_t next_load_us, next_sample_us;
	bool paused; /* switched off after it was open */
	struct dns_config config;
	struct dns_bpf *bpf, *unattached; /* at most one is not NULL */
	struct cgroups *cgroups;
	struct dns_seen seen;
	struct dns_clients clients;
	struct dns_host_env env;
	uint32_t forgotten[DNS_BINS]; /* link-local packets of removed addresses */
	uint64_t since_us;            /* when counting began, CLOCK_REALTIME */
	uint64_t refreshed_at_us;     /* when env was read; 0: read it at the next poll */
	uint64_t pruned_at_us, sampled_at_us;
	uint64_t lost_servers; /* messages of servers without a slot, at the last poll */
	uint64_t now_us;       /* of the current poll */
	uint64_t sent;         /* queries since the previous poll */
	uint64_t pending;      /* queries without an answer at the last sweep */
	uint64_t coarse;       /* polls that were too late for the bins of a server */
	bool unclassified;     /* a server appeared after env was read */
};

void dns_sense(void *self, uint64_t now_us); /* a struct dns_sensor */
/* clients.c. Reads the rows when that is due and updates the users of the labels. */
void dns_clients_read(struct dns_sensor *sensor);
/* users.c. Finds the workloads of the busiest clients, and those of new busy seconds. */
void dns_name_users(struct dns_sensor *sensor);

/* report.c. Members of struct tuner_ops; self is a struct dns_sensor. */
void dns_put_metrics(const void *self, const void *memory, struct metric_sink *sink);
/* verdict.c. Adds the server's verdict, the second that matters and its users. */
void dns_add_verdict(struct cJSON *object, const struct dns_server_state *server,
	const struct dns_server_memory *memory, uint64_t now_us);
struct cJSON *dns_make_document(const void *self, const void *memory, bool trusted);
