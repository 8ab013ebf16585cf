/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/counts.h"

#include <string.h>
#include <sys/socket.h>

uint64_t dns_server_packets(const struct dns_server *counts)
{
	return counts->queries[DNS_UDP] + counts->other_packets;
}

uint64_t dns_server_answered(const struct dns_server *counts)
{
	uint64_t answered = 0;

	for (size_t i = 0; i < DNS_LATENCY_BUCKETS; i++)
		answered += counts->latency[i];
	return answered;
}

void dns_server_bins(const struct dns_server *counts, struct dns_bins *bins)
{
	for (size_t i = 0; i < DNS_BINS; i++) {
		bins->queries[i] = (uint32_t)counts->bins[i];
		bins->packets[i] = (uint32_t)(counts->bins[i] / DNS_BIN_PACKET);
	}
}

struct dns_key dns_pending_server(const struct dns_pending *query)
{
	struct dns_key key = {.family = query->family == 4 ? AF_INET : AF_INET6};

	memcpy(key.address, query->server, sizeof(key.address));
	return key;
}
