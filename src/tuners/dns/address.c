/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/dns.h"

#include <arpa/inet.h>

#include <headroom/bpf/dns_hash.h>

bool dns_address_parse(const char *text, struct dns_key *address)
{
	struct dns_key parsed = {0};
	char plain[DNS_ADDRESS_TEXT];
	size_t len = strcspn(text, "%");

	if (len >= sizeof(plain))
		return false;
	copy_text(plain, len + 1, text);
	parsed.family = strchr(plain, ':') ? AF_INET6 : AF_INET;
	if (inet_pton((int)parsed.family, plain, parsed.address) != 1)
		return false;
	*address = parsed;
	return true;
}

void dns_address_text(const struct dns_key *address, char text[static DNS_ADDRESS_TEXT])
{
	if (address->family == 0 ||
		!inet_ntop((int)address->family, address->address, text, DNS_ADDRESS_TEXT))
		copy_text(text, DNS_ADDRESS_TEXT, "other");
}

bool dns_address_equal(const struct dns_key *a, const struct dns_key *b)
{
	return a->family == b->family && memcmp(a->address, b->address, sizeof(a->address)) == 0;
}

bool dns_address_in(const struct dns_key *list, size_t n, const struct dns_key *address)
{
	for (size_t i = 0; i < n; i++)
		if (dns_address_equal(&list[i], address))
			return true;
	return false;
}

bool dns_address_within(const struct dns_key *address, const char *network, unsigned bits)
{
	struct dns_key other;
	uint8_t mask = (uint8_t)(0xff00u >> (bits % 8));

	if (!dns_address_parse(network, &other) || other.family != address->family ||
		memcmp(address->address, other.address, bits / 8) != 0)
		return false;
	return bits % 8 == 0 ||
	       ((address->address[bits / 8] ^ other.address[bits / 8]) & mask) == 0;
}

bool dns_address_is_loopback(const struct dns_key *address)
{
	return dns_address_within(address, "127.0.0.0", 8) ||
	       dns_address_within(address, "::1", 128) ||
	       dns_address_within(address, "::ffff:127.0.0.0", 104);
}

bool dns_suffix_add(struct dns_suffixes *table, const char *domain, enum dns_suffix_class class)
{
	uint32_t labels = 0;
	uint64_t hash = dns_suffix_hash(domain, &labels);

	for (int i = 0; hash && i < DNS_SUFFIX_SLOTS; i++) {
		struct dns_suffix *slot = &table->slots[labels - 1][i];

		if (slot->hash && slot->hash != hash)
			continue;
		if (!slot->hash)
			*slot = (struct dns_suffix){hash, class};
		table->used |= 1ULL << (labels - 1);
		return true;
	}
	return false;
}

void dns_watch_add(struct dns_control *control, const struct dns_key *address)
{
	static const uint8_t free_slot[16];
	bool four = address->family == AF_INET;
	size_t size = four ? 4 : 16, n = four ? DNS_WATCH_IPV4 : DNS_WATCH_IPV6;
	uint8_t *slot = four ? (uint8_t *)control->watch.ipv4 : (uint8_t *)control->watch.ipv6;

	for (; n > 0 && memcmp(slot, address->address, size) != 0; n--, slot += size)
		if (memcmp(slot, free_slot, size) == 0) {
			memcpy(slot, address->address, size);
			control->watching++;
			return;
		}
}
