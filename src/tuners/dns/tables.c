/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/dns.h"

#include <linux/capability.h>

#define PER_SECOND                                                                                 \
	"used is the last full second, peak the busiest second so far, and hits are seconds over " \
	"the budget. A second may begin at any 1/16 second: two bursts that are up to 1/16 more "  \
	"than a second apart can count as one."

#define SEARCH                                                                                   \
	"A pod's resolv.conf has a search list and ndots:5, so the resolver first tries a name " \
	"with fewer than five dots in every domain of the list, for A and AAAA. With four "      \
	"domains one lookup becomes ten queries, and eight of them fail. "

#define DROPPED                                                                               \
	.severity = SEVERITY_CRITICAL,                                                        \
	.breaks = "lookups fail after a time-out: \"Temporary failure in name resolution\", " \
		  "\"EAI_AGAIN\"",                                                            \
	.cure_help =                                                                          \
		"headroom top dns, then give the busiest client a cache or fewer search domains"

const struct limit_row dns_limits[] = {
	{"dns/*/pending",
		"Queries to this upstream that wait for an answer. The upstream silently drops the "
		"excess.",
		.unit = "queries", .option = "dns.budgets",
		.source = "headroom explain budget/azure", DROPPED},
	{"dns/*/packets",
		"Packets that this machine sends to this upstream in a second, for an upstream that "
		"has a budget of queries too. " PER_SECOND,
		.unit = "packets/s", .option = "dns.budgets",
		.source = "headroom explain budget/aws", DROPPED},
	{"dns/*",
		"Queries that this machine sends to this upstream DNS server in a second, or packets "
		"where the cloud counts packets. The upstream silently drops the excess. " PER_SECOND
		" Not counted: virtual machines, Kata and gVisor, XDP and AF_PACKET senders, DNS over "
		"HTTPS, and ports other than 53.",
		.unit = "queries/s or packets/s",
		.def = "by cloud: headroom explain budget/aws, budget/azure, ...",
		.option = "dns.budgets",
		.source = "bpf/dns.bpf.c, cgroup_skb at the root of cgroup2", DROPPED},
	{0},
};

#define RCODE(code, meaning) {(code), ENTRY_RCODE, (meaning), .source = "RFC 1035"}

const struct help_entry dns_entries[] = {
	{"budget/aws", ENTRY_BUDGET,
		"1024 packets a second to the resolver, for each network interface: 169.254.169.253, "
		"fd00:ec2::253 and the VPC's base address plus two. The instance metadata service "
		"(169.254.169.254) and the time service (169.254.169.123) share the budget, so their "
		"packets count too, as do TCP handshakes. With several interfaces, used is their sum, "
		"an upper bound; hits and DNSBudgetExceeded count only the seconds in which a single "
		"source address exceeded the budget. A resolver that the node no longer names keeps its "
		"budget until the agent restarts.",
		.unit = "packets/s", .def = "1024 an interface", .option = "dns.budgets",
		.source =
			"https://docs.aws.amazon.com/vpc/latest/userguide/AmazonDNS-concepts.html, DNS quotas"},
	{"budget/azure", ENTRY_BUDGET,
		"1000 queries a second and 200 pending queries to 168.63.129.16 for each virtual "
		"machine. In 2020 it was 500 a second.",
		.unit = "queries/s", .def = "1000, and 200 pending", .option = "dns.budgets",
		.source =
			"https://learn.microsoft.com/azure/azure-resource-manager/management/"
			"azure-subscription-service-limits, Azure-provided DNS resolver VM limits"},
	{"budget/alibaba", ENTRY_BUDGET,
		"5000 queries a second from one address to 100.100.2.136 and 100.100.2.138. The limit "
		"of 600 for queries that the resolver must forward cannot be checked here.",
		.unit = "queries/s", .def = "5000", .option = "dns.budgets",
		.source =
			"https://www.alibabacloud.com/help/en/dns/notification-message-subscription-new, "
			"Throttling alerts"},
	{"budget/huawei", ENTRY_BUDGET,
		"2000 queries a second from one address to the region's private DNS servers, "
		"100.125.0.0/16. The limit of 600 for queries that the resolver must forward cannot be "
		"checked here.",
		.unit = "queries/s", .def = "2000", .option = "dns.budgets",
		.source =
			"https://support.huaweicloud.com/intl/es-us/eu-west-0-usermanual-dns/dns_faq_033.html"},
	{"budget/rackspace", ENTRY_BUDGET,
		"10 queries a second for each address to Rackspace's caching servers. Short bursts "
		"pass, so the mean of a minute counts.",
		.unit = "queries/s", .def = "10, over a minute", .option = "dns.budgets",
		.source = "https://docs.rackspace.com/docs/limits-on-dns-lookups"},
	{"budget/gcp", ENTRY_BUDGET,
		"Google publishes no limit for 169.254.169.254. Set one in dns.budgets to get "
		"warnings.",
		.def = "none", .option = "dns.budgets",
		.source = "https://cloud.google.com/dns/quotas"},
	{"budget/digitalocean", ENTRY_BUDGET,
		"DigitalOcean publishes no limit for 67.207.67.2 and 67.207.67.3. Set one in "
		"dns.budgets to get warnings.",
		.def = "none", .option = "dns.budgets",
		.source = "https://docs.digitalocean.com/products/networking/dns/details/limits"},
	{"budget/config", ENTRY_BUDGET, "The configuration sets the budget of this upstream.",
		.def = "none", .option = "dns.budgets", .source = "headroom.yaml(5)"},
	{"dns-search-local", ENTRY_ADVICE,
		SEARCH "These queries went to a server on this node. ndots 1 or 2 in the pods' "
		       "dnsConfig, or names with a final dot, save failed_per_second queries.",
		.unit = "queries/s", .def = "ndots:5 in pods",
		.source = "resolv.conf(5); Kubernetes, DNS for Services and Pods"},
	{"dns-search-cluster", ENTRY_ADVICE,
		SEARCH
		"These queries went to the cluster's DNS. ndots 1 or 2 in the pods' dnsConfig, "
		"names with a final dot, or CoreDNS's autopath, which answers the first "
		"query with the answer of the last, save failed_per_second queries.",
		.unit = "queries/s", .def = "ndots:5 in pods",
		.source = "resolv.conf(5); CoreDNS, plugin autopath"},
	{"dns-search-upstream", ENTRY_ADVICE,
		SEARCH
		"These queries went to an upstream and used its budget: pods inherit the node's "
		"search domains, and the cluster's DNS forwards names in them, (the node's "
		"domains + 1) x 2 queries for a name. Fewer search domains in the node's "
		"resolv.conf, or ndots 1 in the pods, save failed_per_second queries.",
		.unit = "queries/s", .def = "the node's search list",
		.source = "resolv.conf(5); Kubernetes, kubelet --resolv-conf"},
	{"coredns-sizing", ENTRY_ADVICE,
		"The CoreDNS replicas that a cluster needs. Queries: Q = "
		"max_over_time(sum(rate(headroom_dns_queries_total{role=\"cluster\"}[1m]))[7d:1m]), "
		"with all queries that search lists cause. Replicas: Q / (33667 x vCPUs / 2), rounded "
		"up, plus one for a failed node: an instance on two vCPUs answers 33,667 queries a "
		"second. Memory of a replica in MB: (pods + services) / 1000 + 54; with autopath "
		"(pods + services) / 250 + 56. Run at most one replica per node: replicas on one node "
		"share its upstream budget.",
		.unit = "replicas, MB", .def = "2 replicas with 170 MiB",
		.source =
			"https://github.com/coredns/deployment/blob/master/kubernetes/Scaling_CoreDNS.md"},
	WORD("budget", ENTRY_COLUMN,
		"Queries or packets a second that the resolver answers for this node."),
	WORD("server", ENTRY_COLUMN, "The address of a resolver."),
	WORD("pending", ENTRY_COLUMN, "Queries that wait for an answer."),
	WORD("unanswered", ENTRY_COLUMN,
		"Queries of the last minute without an answer after five seconds."),
	WORD("q/s", ENTRY_COLUMN, "Queries to the resolver in the last second."),
	WORD("peak/s", ENTRY_COLUMN, "Queries of the busiest second within the last minute."),
	WORD("s over", ENTRY_COLUMN, "Seconds over the budget since the start of the agent."),
	WORD("failed", ENTRY_COLUMN, "Answers of the last minute with an error: see DNSFailing."),
	WORD("p50", ENTRY_COLUMN,
		"Half of the answers since the agent's start, or of a disk's syncs in the last "
		"five minutes, took this long or less."),
	WORD("p99", ENTRY_COLUMN,
		"99 of 100 answers since the agent's start, or of a disk's syncs in the last five "
		"minutes, took this long or less."),
	WORD("packets/s", ENTRY_COLUMN, "Packets to the service in the last second."),
	WORD("counting since", ENTRY_COLUMN, "The time from which on queries in all are counted."),
	WORD("pairs", ENTRY_COLUMN,
		"DNS messages of clients without room: 8,191 pairs of client and server are "
		"counted."),
	WORD("polls", ENTRY_COLUMN, "How often the agent read the seconds of DNS too late."),
	WORD("uninspected", ENTRY_COLUMN,
		"Packets in which DNS was not looked for: over TCP, more than two messages of the "
		"server for a query; or more than 16 IPv6 extension headers."),
	WORD("fragments", ENTRY_COLUMN,
		"Later fragments of packets. They have no ports, so they count as packets to a "
		"server that the client has queried."),
	WORD("upstream", ENTRY_COLUMN, "A resolver outside of the cluster, such as the cloud's."),
	WORD("cluster", ENTRY_COLUMN, "A resolver of the cluster: CoreDNS or kube-dns."),
	WORD("local", ENTRY_COLUMN, "A resolver on this node, such as NodeLocal DNSCache."),
	WORD("role", ENTRY_COLUMN, "What a resolver is for this node: upstream, cluster or local."),
	WORD("over-budget", ENTRY_COLUMN, "The resolver's verdict: see DNSBudgetExceeded."),
	WORD("near-budget", ENTRY_COLUMN, "The resolver's verdict: see DNSBudgetPressure."),
	WORD("failing", ENTRY_COLUMN, "The resolver's verdict: see DNSFailing."),
	WORD("unknown", ENTRY_COLUMN,
		"Nobody knows: of a resolver, it has answered none of a few queries; of a disk, its "
		"driver does not say what kind it is."),
	WORD("encrypted", ENTRY_COLUMN,
		"Packets to the resolver over TLS, whose queries cannot be counted."),
	WORD("verdict", ENTRY_COLUMN,
		"The worst condition that is True for the resolver, in one word."),
	RCODE("NOERROR", "The name exists."),
	RCODE("NXDOMAIN",
		"The name does not exist. Search lists cause many such answers, and DNSFailing does not count them."),
	RCODE("SERVFAIL", "The resolver could not find out: see DNSFailing."),
	RCODE("REFUSED", "The resolver does not serve this client: see DNSFailing."),
	RCODE("FORMERR", "The resolver did not understand the query: see DNSFailing."),
	RCODE("NOTIMP", "The resolver does not know this kind of query: see DNSFailing."),
	MEMBER("budget_bound",
		"With upper, the use is at most budget_used, which adds up several network devices."),
	MEMBER("budget_used",
		"The largest used share of the resolver's budget within the last minute."),
	MEMBER("dot_packets", "Packets over TLS, whose queries cannot be counted."),
	MEMBER("expected", "Whether the forwarder is NodeLocal DNSCache, which should forward."),
	MEMBER("in_second", "Queries of a client in the resolver's worst recent second."),
	MEMBER("link_local",
		"Packets a second to all link-local addresses of the cloud, which share one limit."),
	MEMBER("malformed", "DNS queries that are too short, or whose question is not readable."),
	MEMBER("minute_failed", "Answers of the last minute with an error."),
	MEMBER("minute_queries", "Queries of the last minute."),
	MEMBER("minute_responses", "Answers of the last minute."),
	MEMBER("minute_unanswered", "Queries of the last minute without an answer."),
	MEMBER("minute_unknown", "Queries of the last minute that were not followed."),
	MEMBER("other_nxdomain_per_second",
		"Answers NXDOMAIN in a second for names outside of the known search domains."),
	MEMBER("over_lately_seconds", "Seconds over the budget; 0 once five minutes had none."),
	MEMBER("packets_per_second", "Packets in the last second."),
	MEMBER("peak_packets", "Packets of the busiest second within the last minute."),
	MEMBER("truncated", "Answers with the flag TC: the client asks again over TCP."),
	MEMBER("uplinks", "Network devices of the node. Each has a link-local limit of its own."),
	{0},
};

/* The row budget/CLOUD above has the source. */
const struct dns_budget_row dns_budget_rows[] = {
	{"aws", {"169.254.169.253"}, 32, true, false, {{0, 1024, 0}, .link_local = true}},
	{"aws", {"fd00:ec2::253"}, 128, true, false, {{0, 1024, 0}, .link_local = true}},
	/* The VPC's base plus two. The smallest VPC has 16 addresses: the last four bits are 2. */
	{"aws", {"10.0.0.0"}, 8, false, true, {{0, 1024, 0}, .link_local = true}},
	{"aws", {"172.16.0.0"}, 12, false, true, {{0, 1024, 0}, .link_local = true}},
	{"aws", {"192.168.0.0"}, 16, false, true, {{0, 1024, 0}, .link_local = true}},
	{"aws", {"100.64.0.0"}, 10, false, true, {{0, 1024, 0}, .link_local = true}},
	{"azure", {"168.63.129.16"}, 32, true, false, {.max = {1000, 0, 200}}},
	{"alibaba", {"100.100.2.136", "100.100.2.138"}, 32, false, false, {.max = {5000}}},
	/* Every region has its own servers in this network. */
	{"huawei", {"100.125.0.0"}, 16, false, false, {.max = {2000}}},
	{"rackspace",
		{"69.20.0.164", "69.20.0.196", "72.3.128.240", "72.3.128.241", "83.138.151.80",
			"83.138.151.81", "119.9.60.62", "119.9.60.63", "120.136.32.62",
			"120.136.32.63", "173.203.4.8", "173.203.4.9"},
		32, true, false, {{10}, .sustained = true}},
	{0},
};

const struct dns_number_row dns_numbers[DNS_NUMBERS] = {
	[DNS_QUERIES] = {"qps", "queries/s", "queries/s", "queries"},
	[DNS_PACKETS] = {"pps", "packets/s", "packets/s", "packets"},
	[DNS_PENDING] = {"pending", "queries", "pending", "pending"},
};

static const enum reason budget_reasons[] = {REASON_WITHIN_BUDGET, REASON_NO_BUDGET,
	REASON_NEAR_BUDGET, REASON_OVER_BUDGET, REASON_NOT_WATCHED, 0};

static const enum reason answer_reasons[] = {
	REASON_ALL_ANSWERED, REASON_UNANSWERED, REASON_NOT_WATCHED, 0};

static const enum reason failing_reasons[] = {
	REASON_FEW_FAILURES, REASON_FAILING, REASON_NOT_WATCHED, 0};

static const enum reason forwarder_reasons[] = {
	REASON_FEW_FORWARDERS, REASON_SEVERAL_FORWARDERS, REASON_NOT_WATCHED, 0};

const struct condition_type dns_conditions[] = {
	[DNS_BUDGET_EXCEEDED] = {"DNSBudgetExceeded", SEVERITY_CRITICAL,
		"This machine exceeded a resolver's budget within one second. The resolver silently "
		"drops the excess. Spread the forwarders over more nodes, or use a cache.",
		budget_reasons},
	[DNS_FAILING] = {"DNSFailing", SEVERITY_WARNING,
		"A resolver answers queries with an error: SERVFAIL, REFUSED, FORMERR or NOTIMP. It "
		"cannot reach its own upstreams, does not serve this client, or is broken. Query it "
		"from the node (dig @SERVER NAME) and read its log. If only one pod sees the errors, "
		"look at the names that it queries.",
		failing_reasons},
	[DNS_UNANSWERED] = {"DNSUnanswered", SEVERITY_WARNING,
		"Some queries to a resolver got no answer in time. The resolver is down, unreachable, "
		"or drops queries over its budget.",
		answer_reasons},
	[DNS_BUDGET_PRESSURE] = {"DNSBudgetPressure", SEVERITY_WARNING,
		"The busiest second of the last minute used more than 80 % of a resolver's budget for "
		"this machine. headroom top dns names the clients. A node-local cache, fewer search "
		"domains (ndots) or fewer forwarders on this node reduce the queries.",
		budget_reasons},
	[DNS_FORWARDER_CROWDING] = {"DNSForwarderCrowding", SEVERITY_WARNING,
		"Several DNS servers on this node forward queries and share the upstream's budget for "
		"one machine. Spread them with a topology spread constraint or anti-affinity.",
		forwarder_reasons},
	{0},
};

const struct metric_row dns_metric_rows[] = {
	{"headroom_dns_queries_total", METRIC_COUNTER, "queries",
		"Queries that sockets of this node sent, with retransmissions. Server other is the sum "
		"of all but the busiest servers, of any role.",
		{"server", "role", "transport"}},
	{"headroom_dns_workload_queries_per_second", METRIC_GAUGE, "queries/s",
		"Queries of the five busiest workloads in the second that matters: the worst second "
		"over the budget of the last five minutes, else the busiest second of the last "
		"minute. kind other is the sum of the rest. Packets or pending queries, if this number "
		"is the nearest to its budget.",
		{"server", "kind", "namespace", "name"}},
	{"headroom_dns_retransmissions_total", METRIC_COUNTER, "queries",
		"Queries sent again before their answer came; they count as queries too.",
		{"server"}},
	{"headroom_dns_responses_total", METRIC_COUNTER, "answers",
		"Answers to sockets of this node, by response code.", {"server", "rcode"}},
	{"headroom_dns_unanswered_total", METRIC_COUNTER, "queries",
		"Queries without an answer after five seconds.", {"server"}},
	{"headroom_dns_unknown_total", METRIC_COUNTER, "queries",
		"Queries that the agent could not follow: they may have been answered.",
		{"server"}},
	{"headroom_dns_superseded_total", METRIC_COUNTER, "queries",
		"Queries of a client that asked several servers at once and took the answer of another "
		"one first. Whether this server answered is unknown.",
		{"server"}},
	{"headroom_dns_pending", METRIC_GAUGE, "queries", "Queries that wait for an answer.",
		{"server"}},
	{"headroom_dns_latency_seconds", METRIC_HISTOGRAM, "seconds",
		"Time from a query to its answer at the socket.", {"server"}},
	{"headroom_dns_peak_queries_per_second", METRIC_GAUGE, "queries/s",
		"Queries in the busiest second of the last minute.", {"server"}},
	{"headroom_dns_second_queries", METRIC_HISTOGRAM, "queries",
		"One observation per second: queries in the busiest second that ended in it.",
		{"server"}},
	{"headroom_dns_budget_queries_per_second", METRIC_GAUGE, "queries/s",
		"The upstream's budget for this machine, in queries or, where the cloud counts "
		"packets, in packets.",
		{"server"}},
	{"headroom_dns_over_budget_seconds_total", METRIC_COUNTER, "seconds",
		"Seconds in which this machine exceeded the upstream's budget.", {"server"}},
	{"headroom_dns_encrypted_packets_total", METRIC_COUNTER, "packets",
		"Packets to TCP port 853 of the server. Queries in DNS over TLS cannot be counted.",
		{"server"}},
	{"headroom_dns_search_expansions_total", METRIC_COUNTER, "queries",
		"Queries for a name with an added search domain that does not exist.", {"role"}},
	{"headroom_dns_service_packets_total", METRIC_COUNTER, "packets",
		"Packets to AWS's link-local services for metadata (169.254.169.254, fd00:ec2::254) and "
		"time (169.254.169.123, fd00:ec2::123), which share the limit of packets with DNS.",
		{"service"}},
	{"headroom_dns_lost_total", METRIC_COUNTER, NULL,
		"Incomplete counts: a table was full, the agent read too late, or a message had an "
		"error. Nearly all are 0 on a healthy node: unmatched answers belong to no query. "
		"With what=streams, one can be many messages over TCP: headroom-limits(7).",
		{"what"}},
	{0},
};

const struct capability_row dns_capabilities[] = {
	{CAPABILITY(CAP_BPF), CAPABILITY_TO_RUN, NULL,
		"loads the programs that count DNS queries, and reads their counters"},
	{CAPABILITY(CAP_PERFMON), CAPABILITY_TO_OPEN, NULL,
		"attaches these programs to the kernel"},
	{CAPABILITY(CAP_NET_ADMIN), CAPABILITY_TO_RUN, NULL,
		"attaches these programs to the cgroup"},
	{0},
};
