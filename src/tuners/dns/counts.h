/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TUNERS_DNS_COUNTS_H
#define TUNERS_DNS_COUNTS_H

/* What the records of headroom/bpf/dns.h tell that stands in no one place of them. */

#include <stddef.h>
#include <stdint.h>

#include <headroom/bpf/dns.h>

/* Packets to its port 53, handshakes and acknowledgements among them. */
uint64_t dns_server_packets(const struct dns_server *counts);

/* Answers that belonged to a pending query; with those that were late, all responses. */
uint64_t dns_server_answered(const struct dns_server *counts);

struct dns_bins {
	uint32_t queries[DNS_BINS], packets[DNS_BINS];
};

/* A bin's 2^32th query, after a month of 100,000 a second, counts as a packet more. */
void dns_server_bins(const struct dns_server *counts, struct dns_bins *bins);

/* The server of a pending query as it stands in the other maps. */
struct dns_key dns_pending_server(const struct dns_pending *query);

#endif
