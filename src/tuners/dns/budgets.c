/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/dns.h"

/* The source of each row is in tables.c, in the row budget/NAME. */
const struct dns_budget_row dns_budget_rows[] = {
	{"aws", {"169.254.169.253"}, 32, true, false, {{0, 1024, 0}, .link_local = true}},
	{"aws", {"fd00:ec2::253"}, 128, true, false, {{0, 1024, 0}, .link_local = true}},
	/* The VPC's base plus two: 16 addresses are the smallest VPC, so its last four bits are 2.
	 */
	{"aws", {"10.0.0.0"}, 8, false, true, {{0, 1024, 0}, .link_local = true}},
	{"aws", {"172.16.0.0"}, 12, false, true, {{0, 1024, 0}, .link_local = true}},
	{"aws", {"192.168.0.0"}, 16, false, true, {{0, 1024, 0}, .link_local = true}},
	{"aws", {"100.64.0.0"}, 10, false, true, {{0, 1024, 0}, .link_local = true}},
	{"azure", {"168.63.129.16"}, 32, true, false, {.max = {1000, 0, 200}}},
	{"alibaba", {"100.100.2.136", "100.100.2.138"}, 32, false, false, {.max = {5000}}},
	/* Every region has its own, all in this network. */
	{"huawei", {"100.125.0.0"}, 16, false, false, {.max = {2000}}},
	{"rackspace",
		{"69.20.0.164", "69.20.0.196", "72.3.128.240", "72.3.128.241", "83.138.151.80",
			"83.138.151.81", "119.9.60.62", "119.9.60.63", "120.136.32.62",
			"120.136.32.63", "173.203.4.8", "173.203.4.9"},
		32, true, false, {{10}, .sustained = true}},
	{0},
};

const struct dns_number_row dns_numbers[DNS_NUMBERS] = {
	{"qps", "queries/s", "queries/s"},
	{"pps", "packets/s", "packets/s"},
	{"pending", "queries", "pending"},
};

struct dns_budget dns_budget_builtin(const char *cloud, const struct dns_key *server, bool listed)
{
	struct dns_budget budget;

	for (const struct dns_budget_row *row = dns_budget_rows; row->cloud; row++) {
		bool within = false;

		if ((!streq(row->cloud, cloud) && !(row->anywhere && cloud[0] == '\0')) ||
			(row->listed && (!listed || (server->address[3] & 0xf) != 2)))
			continue;
		for (size_t i = 0; i < DNS_BUDGET_NETWORKS && row->networks[i]; i++)
			within |= dns_address_within(server, row->networks[i], row->bits);
		if (!within)
			continue;
		budget = row->value;
		copy_text(budget.source, sizeof(budget.source), row->cloud);
		return budget;
	}
	return (struct dns_budget){0};
}

bool dns_budget_is_set(const struct dns_budget *budget)
{
	return budget->max[DNS_QUERIES] || budget->max[DNS_PACKETS] || budget->max[DNS_PENDING];
}
