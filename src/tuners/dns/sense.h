/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TUNERS_DNS_SENSE_H
#define TUNERS_DNS_SENSE_H

/* What looking at the node needs: the kernel's counters, and what tells servers apart. */

#include "tuners/dns/askers.h"
#include "tuners/dns/resolv.h"

#define DNS_BUDGETS_MAX DNS_PINNED_MAX

struct config;

struct dns_config {
	char domains[DNS_DOMAINS_MAX][DNS_DOMAIN_MAX];
	size_t n_domains;
	bool cluster_auto;
	struct dns_key cluster[DNS_CLUSTER_SERVERS_MAX];
	size_t n_cluster;
	bool names;
	bool budget_auto;
	struct dns_budget
		own; /* what stands beside server: auto, in place of the cloud's numbers */
	struct {
		struct dns_key server;
		struct dns_budget budget;
	} budgets[DNS_BUDGETS_MAX];
	size_t n_budgets;
};

struct dns_sensor {
	const struct host *host;
	struct dns_config config;
	struct dns_bpf *bpf; /* NULL without */
	struct dns_who *who;
	struct dns_book book;
	struct dns_askers askers;
	struct dns_roles roles;
	struct dns_resolv resolv;
	enum dns_cloud cloud;
	struct dns_seconds link_local;
	uint32_t gone[DNS_BINS]; /* of it: what was counted of addresses that are forgotten */
	bool sources_gone;       /* some are */
	struct dns_key watched[DNS_WATCH_IPV4 + DNS_WATCH_IPV6];
	size_t n_watched;
	uint64_t refreshed_at_us; /* files and addresses of the node; 0: to be done */
	uint64_t labelled_at_us, pruned_at_us, sampled_at_us;
	uint64_t now_us;  /* of the look under way */
	uint64_t asked;   /* queries that it found */
	uint64_t one_in;  /* queries of which one name is sampled; 0: none */
	uint64_t pending; /* queries without an answer at the last sweep */
	uint64_t coarse;  /* looks that were late for some server */
	bool late;        /* this one is */
	bool strangers;   /* servers came whose role rests on old addresses */
};

/* Without the programs: whoever has loaded them sets bpf, which is closed with the rest. 0 or
 * -ENOMEM. */
int dns_sensor_open(struct dns_sensor *sensor, const struct host *host);
void dns_sensor_close(struct dns_sensor *sensor);

/* Takes the configuration. config.c */
void dns_config_read(struct dns_config *into, const struct config *config);
/* The budget of a server, from the configuration or by the cloud; none for none. */
struct dns_budget dns_config_budget(const struct dns_config *config, enum dns_cloud cloud,
	const struct dns_resolv *resolv, const struct dns_key *server);

/* Reads what the node's files and devices tell, and has the kernel know it. surroundings.c */
void dns_surroundings_read(struct dns_sensor *sensor, struct dns_seen *seen);
/* The role and the budget of one server. */
void dns_surroundings_place(struct dns_sensor *sensor, struct dns_server_state *server);

/* What shares the budget of a cloud's link-local services. link_local.c */
void dns_link_local_look(struct dns_sensor *sensor, struct dns_seen *seen);

void dns_sense(struct dns_sensor *sensor, struct dns_seen *seen, uint64_t now_us);

#endif
