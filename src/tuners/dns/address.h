/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TUNERS_DNS_ADDRESS_H
#define TUNERS_DNS_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

#include <headroom/bpf/dns.h>

/* Addresses as the maps of BPF have them: struct dns_key, all zero for none. */

#define DNS_ADDRESS_TEXT 46 /* INET6_ADDRSTRLEN */

/* False, and nothing written, for a text that is no address. A zone ("%eth0") is left off. */
bool dns_address_parse(const char *text, struct dns_key *address);

/* As inet_ntop(3) prints it; "other" for none. */
void dns_address_text(const struct dns_key *address, char text[static DNS_ADDRESS_TEXT]);

bool dns_address_equal(const struct dns_key *a, const struct dns_key *b);

/* True when the first bits of both agree. */
bool dns_address_within(const struct dns_key *address, const char *network, unsigned bits);

bool dns_address_is_loopback(const struct dns_key *address);

#endif
