/* SPDX-License-Identifier: Apache-2.0 */

/* Addresses and domains in the format of the programs, and facts from the node's files. */

#include "tuners/dns/dns.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <glob.h>
#include <ifaddrs.h>
#include <netinet/in.h>

static const struct dns_address mapped = {{[10] = 0xff, [11] = 0xff}}; /* ::ffff:0.0.0.0 */

bool dns_address_parse(const char *text, struct dns_address *address)
{
	struct dns_address parsed = mapped;
	char plain[DNS_ADDRESS_TEXT];
	size_t len = strcspn(text, "%");
	int r;

	if (len >= sizeof(plain))
		return false;
	copy_text(plain, len + 1, text);
	r = strchr(plain, ':') ? inet_pton(AF_INET6, plain, parsed.bytes)
			       : inet_pton(AF_INET, plain, parsed.bytes + 12);
	if (r == 1)
		*address = parsed;
	return r == 1;
}

bool dns_address_is_ipv4(const struct dns_address *address)
{
	return memcmp(address, &mapped, 12) == 0;
}

bool dns_address_is_set(const struct dns_address *address)
{
	static const struct dns_address none;

	return !dns_address_equal(address, &none);
}

void dns_address_text(const struct dns_address *address, char text[static DNS_ADDRESS_TEXT])
{
	bool four = dns_address_is_ipv4(address);

	if (!dns_address_is_set(address) ||
		!inet_ntop(four ? AF_INET : AF_INET6, address->bytes + (four ? 12 : 0), text,
			DNS_ADDRESS_TEXT))
		copy_text(text, DNS_ADDRESS_TEXT, "other");
}

bool dns_address_equal(const struct dns_address *a, const struct dns_address *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

bool dns_address_in(const struct dns_address *list, size_t n, const struct dns_address *address)
{
	for (size_t i = 0; i < n; i++)
		if (dns_address_equal(&list[i], address))
			return true;
	return false;
}

bool dns_address_within(const struct dns_address *address, const char *network, unsigned bits)
{
	struct dns_address other;

	if (!dns_address_parse(network, &other))
		return false;
	bits += strchr(network, ':') ? 0 : 96;
	return memcmp(address, &other, bits / 8) == 0 &&
	       (bits % 8 == 0 || ((address->bytes[bits / 8] ^ other.bytes[bits / 8]) &
					 (uint8_t)(0xff00u >> bits % 8)) == 0);
}

bool dns_address_is_loopback(const struct dns_address *address)
{
	return dns_address_within(address, "127.0.0.0", 8) ||
	       dns_address_within(address, "::1", 128);
}

/* Converts a domain to wire format. False for a faulty or too long domain. */
static bool make_suffix(const char *domain, struct dns_suffix *suffix)
{
	uint8_t wire[8 * DNS_SUFFIX_WORDS] = {0};
	size_t label = 0, len = strlen(domain);

	*suffix = (struct dns_suffix){0};
	len -= len > 1 && domain[len - 1] == '.';
	if (len == 0 || len + 2 > sizeof(wire))
		return false;
	for (size_t i = 0; i <= len; i++) {
		if (i < len && domain[i] != '.') {
			wire[i + 1] = (uint8_t)tolower((unsigned char)domain[i]);
			continue;
		}
		if (i == label || i - label > 63)
			return false;
		wire[label] = (uint8_t)(i - label);
		label = i + 1;
	}
	suffix->size = (uint32_t)len + 2;
	for (uint32_t i = 0; i < suffix->size; i++) {
		((uint8_t *)&suffix->words[i / 8].bytes)[i % 8] = wire[i];
		((uint8_t *)&suffix->words[i / 8].mask)[i % 8] = 0xff;
	}
	return true;
}

bool dns_suffix_add(struct dns_suffix table[static DNS_SUFFIXES], const char *domain,
	enum dns_suffix_class class)
{
	struct dns_suffix suffix;
	size_t at = 0;

	if (!make_suffix(domain, &suffix))
		return false;
	while (at < DNS_SUFFIXES && table[at].size >= suffix.size) {
		if (memcmp(table[at].words, suffix.words, sizeof(suffix.words)) == 0)
			return true;
		at++;
	}
	if (table[DNS_SUFFIXES - 1].size > 0)
		return false;
	suffix.class = class;
	memmove(&table[at + 1], &table[at], (DNS_SUFFIXES - 1 - at) * sizeof(suffix));
	table[at] = suffix;
	return true;
}

bool dns_is_watched(const struct dns_control *control, const struct dns_address *address)
{
	return dns_address_in(control->watched, control->n_watched, address);
}

void dns_watch_add(struct dns_control *control, const struct dns_address *address)
{
	if (control->n_watched < DNS_WATCHED && !dns_is_watched(control, address)) {
		control->watched[control->n_watched] = *address;
		__atomic_store_n(&control->n_watched, control->n_watched + 1, __ATOMIC_RELEASE);
	}
}

#define BLANKS          " \t\r"
#define RESOLV_CONF_MAX 65536

/* kube-proxy in IPVS mode gives the addresses of services to this device. */
#define IPVS_DEVICE "kube-ipvs0"

#define DMI "/sys/class/dmi/id/"

/* From cloud-init's tools/ds-identify and the clouds' documentation. */
static const struct {
	const char *cloud, *path;
	const char *begins; /* the first characters of the file */
} dmi_marks[] = {
	{"aws", DMI "sys_vendor", "Amazon EC2"},
	{"aws", DMI "bios_vendor", "Amazon EC2"},   /* bare metal */
	{"aws", DMI "bios_version", "4.11.amazon"}, /* Xen */
	{"aws", DMI "bios_version", "4.2.amazon"},
	/* The vendor is Microsoft on every Hyper-V; this tag identifies Azure. */
	{"azure", DMI "chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77"},
	{"alibaba", DMI "sys_vendor", "Alibaba Cloud"},
	{"huawei", DMI "chassis_asset_tag", "HUAWEICLOUD"},
	{"huawei", DMI "sys_vendor", "Huawei Cloud"},
	{"gcp", DMI "product_name", "Google Compute Engine"},
	{"digitalocean", DMI "sys_vendor", "DigitalOcean"},
};

/* Replaces the servers and the search list; text is modified. */
static void parse_resolv_conf(struct dns_facts *facts, char *text)
{
	char *state = NULL;

	facts->n_servers = facts->n_search = 0;
	for (char *line = strtok_r(text, "\n", &state); line; line = strtok_r(NULL, "\n", &state)) {
		char *rest = line + strcspn(line, BLANKS), *inner = NULL, *word;
		bool search;

		if (*rest)
			*rest++ = '\0';
		search = streq(line, "search") || streq(line, "domain");
		/* The last such line counts: resolv.conf(5). */
		if (search)
			facts->n_search = 0;
		word = strtok_r(rest, BLANKS, &inner);
		if (streq(line, "nameserver") && word && facts->n_servers < DNS_RESOLV_SERVERS)
			facts->n_servers +=
				dns_address_parse(word, &facts->servers[facts->n_servers]);
		for (; search && word && facts->n_search < DNS_RESOLV_SEARCH;
			word = strtok_r(NULL, BLANKS, &inner)) {
			size_t len = strlen(word);

			if (word[len - 1] == '.')
				word[len - 1] = '\0';
			facts->n_search += word[0] && copy_text(facts->search[facts->n_search],
							      DNS_DOMAIN_MAX, word);
		}
	}
}

void dns_facts_read(struct dns_facts *facts, const struct host *host)
{
	/* Where systemd-resolved runs, /etc/resolv.conf names its stub only. */
	static const char *const paths[] = {"/run/systemd/resolve/resolv.conf", "/etc/resolv.conf"};
	char full[PATH_MAX], path[SETTING_PATH_MAX], value[SETTING_VALUE_MAX];
	struct ifaddrs *all = NULL;
	glob_t devices = {0};

	facts->cloud[0] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(dmi_marks) && !facts->cloud[0]; i++)
		if (host_read_value(host, dmi_marks[i].path, value) == 0 &&
			starts_with(value, dmi_marks[i].begins))
			set_text(facts->cloud, dmi_marks[i].cloud);
	facts->n_servers = facts->n_search = 0;
	for (size_t i = 0; i < ARRAY_SIZE(paths) && facts->n_servers == 0; i++) {
		_cleanup_free_ char *text = NULL;

		if (host_read_file(host, paths[i], RESOLV_CONF_MAX, &text) == 0)
			parse_resolv_conf(facts, text);
	}
	/* On failure the old addresses stay. */
	if (getifaddrs(&all) == 0)
		facts->n_node = 0;
	for (struct ifaddrs *entry = all; entry && facts->n_node < DNS_NODE_ADDRESSES_MAX;
		entry = entry->ifa_next) {
		const struct sockaddr_in *ipv4 = (const void *)entry->ifa_addr;
		const struct sockaddr_in6 *ipv6 = (const void *)entry->ifa_addr;
		struct dns_address address = mapped;

		if (!ipv4 || streq(entry->ifa_name, IPVS_DEVICE))
			continue;
		if (ipv4->sin_family == AF_INET)
			memcpy(address.bytes + 12, &ipv4->sin_addr, 4);
		else if (ipv4->sin_family == AF_INET6)
			memcpy(address.bytes, &ipv6->sin6_addr, 16);
		else
			continue;
		facts->node[facts->n_node++] = address;
	}
	freeifaddrs(all);
	/* Uplinks are hardware devices that are not down. */
	facts->uplinks = 0;
	glob(host_path(host, "/sys/class/net/*/device", full), 0, NULL, &devices);
	for (size_t i = 0; i < devices.gl_pathc; i++) {
		const char *device = devices.gl_pathv[i] + strlen(host->root);

		snprintf(path, sizeof(path), "%.*s/operstate", (int)(strrchr(device, '/') - device),
			device);
		facts->uplinks += host_read_value(host, path, value) < 0 || !streq(value, "down");
	}
	globfree(&devices);
}
