/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TUNERS_DNS_SENSE_H
#define TUNERS_DNS_SENSE_H

/* What sensing needs: the kernel's counters, and what tells servers apart. */

#include "config/config.h"
#include "runtime/kubelet.h"
#include "tuners/dns/bpf.h"
#include "tuners/dns/dns.h"
#include "workload/cgroups.h"

struct dns_sensor;

/*
 * What the configuration, and the node's files and devices, say of DNS servers: budgets,
 * resolv.conf, addresses, the kubelet.
 */

#define DNS_RESOLV_SERVERS      8
#define DNS_RESOLV_SEARCH       8
#define DNS_DOMAIN_MAX          256
#define DNS_CLUSTER_SERVERS_MAX 16
#define DNS_NODE_ADDRESSES_MAX  4096

#define DNS_BUDGETS_MAX DNS_PINNED_MAX

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
	} budgets[DNS_BUDGETS_MAX];
	size_t n_budgets;
};

struct dns_host_env {
	char cloud[DNS_CLOUD_MAX];                  /* empty: none known */
	unsigned uplinks;                           /* network devices of the machine */
	struct dns_key servers[DNS_RESOLV_SERVERS]; /* of the node's own resolv.conf(5) */
	size_t n_servers;
	char search[DNS_RESOLV_SEARCH][DNS_DOMAIN_MAX];
	size_t n_search;
	struct dns_key *node; /* the node's addresses, sorted */
	size_t n_node, node_allocated;
	struct dns_key kubelet[KUBELET_SERVERS_MAX]; /* its clusterDNS */
	size_t n_kubelet;
};

/* Reads all but the cloud and the kubelet anew. Of what cannot be read, nothing is known. */
void dns_host_env_read(struct dns_host_env *env, const struct host *host);
void dns_host_env_clear(struct dns_host_env *env);

/* Takes the lines of a resolv.conf, in place of what was there. text is cut up. */
void dns_resolv_parse(struct dns_host_env *env, char *text);

bool dns_host_env_is_node(const struct dns_host_env *env, const struct dns_key *address);

/* Takes the kubelet's clusterDNS. */
void dns_host_env_take_kubelet(struct dns_host_env *env, const struct kubelet_values *values);

/*
 * The role of a server. answers: how many cluster names it answered with NOERROR; budgeted: a
 * budget names it, which makes it an upstream wherever its answers come from.
 */
enum dns_role dns_role_of(const struct dns_config *config, const struct dns_host_env *env,
	const struct dns_key *server, uint64_t answers, bool budgeted);

/* config.c */
extern const struct config_option dns_options[];

/* Checks what the option table cannot. */
void dns_config_validate(const struct config *config, struct config_fault_list *faults);

void dns_config_read(struct dns_config *into, const struct config *config);

/* The budget of a server, from the configuration or by the cloud; none for none. */
struct dns_budget dns_config_budget(const struct dns_config *config, const struct dns_host_env *env,
	const struct dns_key *server);

/* clients.c */

/*
 * Who queries which server, and how often: the kernel's rows of server, cgroup, type and suffix,
 * added up by server and cgroup (or source address), with rates from one reading to the next.
 */

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

struct dns_reading {
	struct dns_client *clients; /* by server, cgroup and source */
	size_t n, allocated;
};

struct dns_clients {
	struct dns_reading now, old; /* this reading, and the one before */
	size_t rows;                 /* of the kernel, at the last reading */
	uint64_t read_at_us;         /* 0: never */
	bool prune;                  /* rows of servers that are gone are left in the kernel */
};

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

struct dns_sensor {
	const struct host *host;
	struct dns_config config;
	struct dns_bpf *bpf; /* NULL without */
	struct cgroups *cgroups;
	struct dns_server_table table;
	struct dns_clients clients;
	struct dns_host_env env;
	struct dns_seconds link_local;
	uint32_t forgotten[DNS_BINS]; /* of it: packets of addresses that were removed */
	bool sources_forgotten;
	struct dns_key watched[DNS_WATCH_IPV4 + DNS_WATCH_IPV6];
	size_t n_watched;
	uint64_t refreshed_at_us; /* env; 0: to be read */
	uint64_t labelled_at_us, pruned_at_us, sampled_at_us;
	uint64_t now_us;   /* of the current poll */
	uint64_t sent;     /* queries since the poll before */
	uint64_t one_in;   /* queries of which one name is sampled; 0: none */
	uint64_t pending;  /* queries without an answer at the last sweep */
	uint64_t coarse;   /* polls that were too late to tell some server's seconds apart */
	bool late;         /* this one is */
	bool unclassified; /* new servers whose role rests on old addresses */
};

/*
 * Without the programs: the caller loads them and sets bpf, which is closed with the rest. 0 or
 * -ENOMEM.
 */
int dns_sensor_open(struct dns_sensor *sensor, const struct host *host);
void dns_sensor_close(struct dns_sensor *sensor);

void dns_sense(struct dns_sensor *sensor, struct dns_seen *seen, uint64_t now_us);

/* classify.c. Reads the node's files and devices, and tells the kernel what follows from them. */
void dns_refresh(struct dns_sensor *sensor, struct dns_seen *seen);
/* Sets the role and the budget of one server; only an upstream has one. */
void dns_set_role(const struct dns_config *config, const struct dns_host_env *env,
	struct dns_server_state *server);
/* The same, and watches the packets that share its budget. */
void dns_classify(struct dns_sensor *sensor, struct dns_server_state *server);

/* link_local.c. The packets that share the budget of a cloud's link-local services. */
void dns_link_local_read(struct dns_sensor *sensor, struct dns_seen *seen);

#endif
