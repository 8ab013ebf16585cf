/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/dns.h"

#define PER_SECOND                                                                             \
	"used is the last full second, peak the busiest second there was, wherever it began, " \
	"and hits are seconds over the budget."

#define SEARCH                                                                                    \
	"A pod's resolv.conf has a search list and ndots:5: a name with fewer than five dots is " \
	"asked for with every domain of the list first, for A and for AAAA. With four domains "   \
	"that makes ten queries of one, and eight of them fail. "

const struct explanation dns_explanations[] = {
	{"dns/*/pending", "limit",
		"Queries to this upstream that have no answer yet. What is above the limit, the "
		"upstream drops without a word.",
		"queries", NULL, "dns.budgets", "headroom explain budget/azure"},
	{"dns/*/packets", "limit",
		"Packets that this machine sends to this upstream in a second, for an upstream that "
		"has a budget of queries too. " PER_SECOND,
		"packets/s", NULL, "dns.budgets", "headroom explain budget/aws"},
	{"dns/*", "limit",
		"What this machine asks of this upstream DNS server in a second, in queries or, "
		"where the cloud counts those, in packets. What is above the limit, the upstream "
		"drops without a word. " PER_SECOND
		" Not seen: guests of virtual machines, Kata and gVisor, XDP and AF_PACKET senders, "
		"DNS over HTTPS, and other ports than 53.",
		"queries/s or packets/s",
		"by cloud: headroom explain budget/aws, budget/azure, ...", "dns.budgets",
		"bpf/dns.bpf.c, cgroup_skb at the root of cgroup2"},
	{"budget/aws", "budget",
		"1024 packets a second to the resolver, for each network interface: 169.254.169.253, "
		"fd00:ec2::253 and the VPC's base address plus two. The instance metadata service "
		"(169.254.169.254) and the time service (169.254.169.123) share it, so all packets "
		"to these are counted, by source address; TCP handshakes count. Where the machine "
		"has several interfaces, used is that of all together, an upper bound, and hits and "
		"DNSBudgetExceeded tell what one source address overran alone.",
		"packets/s", "1024 an interface", "dns.budgets",
		"https://docs.aws.amazon.com/vpc/latest/userguide/AmazonDNS-concepts.html, DNS quotas"},
	{"budget/azure", "budget",
		"1000 queries a second and 200 pending ones, for each virtual machine, to "
		"168.63.129.16. It was 500 a second in 2020.",
		"queries/s", "1000, and 200 pending", "dns.budgets",
		"https://learn.microsoft.com/azure/azure-resource-manager/management/"
		"azure-subscription-service-limits, Azure-provided DNS resolver VM limits"},
	{"budget/alibaba", "budget",
		"5000 queries a second from one address to 100.100.2.136 and 100.100.2.138; of those "
		"that the resolver must ask others for, 600, which cannot be told apart here.",
		"queries/s", "5000", "dns.budgets",
		"https://www.alibabacloud.com/help/en/dns/notification-message-subscription-new, "
		"Throttling alerts"},
	{"budget/huawei", "budget",
		"2000 queries a second from one address to the region's private DNS servers, "
		"100.125.0.0/16; of those that the resolver must ask others for, 600, which cannot "
		"be told apart here.",
		"queries/s", "2000", "dns.budgets",
		"https://support.huaweicloud.com/intl/es-us/eu-west-0-usermanual-dns/dns_faq_033.html"},
	{"budget/rackspace", "budget",
		"10 queries a second for each address to Rackspace's caching servers, sustained: "
		"short bursts are let through, so the mean of a minute is held against it.",
		"queries/s", "10, over a minute", "dns.budgets",
		"https://docs.rackspace.com/docs/limits-on-dns-lookups"},
	{"budget/gcp", "budget",
		"Google publishes no number for 169.254.169.254: there is no built-in budget. Give "
		"one in dns.budgets to be warned.",
		NULL, "none", "dns.budgets", "https://cloud.google.com/dns/quotas"},
	{"budget/digitalocean", "budget",
		"DigitalOcean publishes no number for 67.207.67.2 and 67.207.67.3: there is no "
		"built-in budget. Give one in dns.budgets to be warned.",
		NULL, "none", "dns.budgets",
		"https://docs.digitalocean.com/products/networking/dns/details/limits"},
	{"budget/config", "budget", "The configuration gives this upstream its budget.", NULL,
		"none", "dns.budgets", "headroom.yaml(5)"},
	{"dns-search-local", "advice",
		SEARCH "These were asked of a server on this node, and cost it and its cache. "
		       "dnsConfig with ndots 1 or 2 in the pods, or names with a final dot, save "
		       "what failed_per_second says.",
		"queries/s", "ndots:5 in pods", NULL,
		"resolv.conf(5); Kubernetes, DNS for Services and Pods"},
	{"dns-search-cluster", "advice",
		SEARCH
		"These were asked of the cluster's DNS. ndots 1 or 2 in the pods' dnsConfig, "
		"names with a final dot, or CoreDNS's autopath, which answers the first of "
		"them with the last's answer, save what failed_per_second says.",
		"queries/s", "ndots:5 in pods", NULL, "resolv.conf(5); CoreDNS, plugin autopath"},
	{"dns-search-upstream", "advice",
		SEARCH
		"These went on to an upstream and used its budget: a search domain of the "
		"node, which pods inherit, is no domain of the cluster, so that the cluster's "
		"DNS forwards what it makes: (the node's domains + 1) x 2 queries for a name. "
		"Fewer search domains in the node's resolv.conf, or ndots 1 in the pods, "
		"save what failed_per_second says.",
		"queries/s", "the node's search list", NULL,
		"resolv.conf(5); Kubernetes, kubelet --resolv-conf"},
	{"coredns-sizing", "advice",
		"How much CoreDNS a cluster needs, from its totals. Queries: Q = "
		"max_over_time(sum(rate(headroom_dns_queries_total{role=\"cluster\"}[1m]))[7d:1m]). "
		"Replicas: Q / (33667 x vCPUs / 2), rounded up, plus one for the node that is down: "
		"an instance on two vCPUs answers 33,667 queries a second. Q has every query that "
		"search lists make, so an outside name that costs five of them is in it five "
		"times already. Memory of a replica in MB: (pods + services) / 1000 + 54; with autopath "
		"(pods + services) / 250 + 56. At most one replica a node: together they share the "
		"node's budget upstream.",
		"replicas, MB", "2 replicas with 170 MiB", NULL,
		"https://github.com/coredns/deployment/blob/master/kubernetes/Scaling_CoreDNS.md"},
	{0},
};
