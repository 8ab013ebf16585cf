/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TUNERS_DNS_SENSE_H
#define TUNERS_DNS_SENSE_H

/* What sensing needs: the kernel's counters, and what tells servers apart. */

#include "tuners/dns/clients.h"
#include "tuners/dns/host_env.h"
#include "workload/cgroups.h"

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
/* Sets the role and the budget of one server. */
void dns_classify(struct dns_sensor *sensor, struct dns_server_state *server);

/* link_local.c. The packets that share the budget of a cloud's link-local services. */
void dns_link_local_read(struct dns_sensor *sensor, struct dns_seen *seen);

#endif
