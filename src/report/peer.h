/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The unit of fairness between clients: an IPv4 address, or the first 64 bits of an IPv6 address.
 */

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

struct peer {
	uint8_t bytes[sizeof(struct in6_addr)];
};

static inline struct peer peer_of(const struct sockaddr_storage *address)
{
	const struct sockaddr_in *four = (const struct sockaddr_in *)address;
	const struct in6_addr *six = &((const struct sockaddr_in6 *)address)->sin6_addr;
	struct peer peer = {0};

	if (address->ss_family == AF_INET)
		memcpy(peer.bytes + 12, &four->sin_addr, sizeof(four->sin_addr));
	else if (address->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(six))
		memcpy(peer.bytes + 12, six->s6_addr + 12, sizeof(four->sin_addr));
	else if (address->ss_family == AF_INET6)
		memcpy(peer.bytes, six, 8);
	return peer;
}

static inline bool peer_is(const struct peer *a, const struct peer *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}
