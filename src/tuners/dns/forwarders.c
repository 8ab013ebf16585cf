/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/sense.h"

#include "workload/process.h"

#include <sys/stat.h>

/* A line of /proc/PID/net/udp: "  12: 00000000:0035 00000000:0000 07 ...". */
static bool binds_dns(const struct host *host, pid_t pid, const char *name)
{
	_cleanup_free_ char *text = NULL;
	char *state = NULL;
	unsigned port;

	if (process_read(host->root, pid, name, &text, NULL) < 0)
		return false;
	for (char *line = strtok_r(text, "\n", &state); line; line = strtok_r(NULL, "\n", &state))
		if (sscanf(line, " %*u: %*[0-9A-F]:%x", &port) == 1 && port == 53)
			return true;
	return false;
}

/*
 * Whether the process is in this agent's network namespace, the node's. The kernel numbers these
 * files anew for each namespace (proc_alloc_inum() of fs/proc/generic.c), visible to everyone.
 */
static bool shares_network(const struct host *host, pid_t pid)
{
	char path[64], full[PATH_MAX];
	struct stat its, ours;

	snprintf(path, sizeof(path), "/proc/%d/net/udp", (int)pid);
	return stat(host_path(host, path, full), &its) == 0 &&
	       stat("/proc/self/net/udp", &ours) == 0 && its.st_ino == ours.st_ino;
}

bool dns_process_serves(const struct host *host, pid_t pid, bool in_container)
{
	static const char *const servers[] = {"coredns", "kube-dns", "node-cache", "dnsmasq",
		"unbound", "named", "pdns_recursor", "kresd"};

	for (size_t i = 0; i < ARRAY_SIZE(servers); i++)
		if (process_is_named(host->root, pid, servers[i]))
			return true;
	/* Sockets are those of the whole network namespace; the node's has stubs of its own. */
	return in_container && !shares_network(host, pid) &&
	       (binds_dns(host, pid, "net/udp") || binds_dns(host, pid, "net/udp6"));
}

bool dns_workload_same(const struct workload *a, const struct workload *b)
{
	return a->kind == b->kind && streq(a->namespace, b->namespace) && streq(a->name, b->name) &&
	       streq(a->id, b->id);
}

static bool is_node_cache(const struct workload *workload)
{
	return strstr(workload->name, "node-local-dns") || strstr(workload->name, "nodelocaldns");
}

static bool is_named_forwarder(const struct workload *workload)
{
	static const char *const parts[] = {"coredns", "kube-dns", "kubedns", "dnsmasq", "unbound",
		"pdns-recursor", "powerdns", "bind9", "named.service", "knot-resolver", "kresd"};

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (strstr(workload->name, parts[i]))
			return true;
	return is_node_cache(workload);
}

static void add_forwarder(struct dns_seen *seen, const struct dns_user *user)
{
	unsigned i = 0;

	while (i < seen->n_forwarders &&
		!dns_workload_same(&seen->forwarders[i].workload, &user->workload))
		i++;
	if (i == DNS_FORWARDERS)
		return;
	if (i == seen->n_forwarders)
		seen->forwarders[seen->n_forwarders++] = (struct dns_forwarder){
			.workload = user->workload, .expected = is_node_cache(&user->workload)};
	seen->forwarders[i].per_second += user->smooth;
}

static int by_rate(const void *a, const void *b)
{
	const struct dns_forwarder *x = a, *y = b;

	return (x->per_second < y->per_second) - (x->per_second > y->per_second);
}

void dns_forwarders_list(struct dns_seen *seen)
{
	seen->n_forwarders = 0;
	for (size_t s = 0; s < seen->table.n; s++) {
		const struct dns_server_state *server = seen->table.servers[s];
		const struct dns_label *label = server->label;

		if (!label || server->role != DNS_UPSTREAM)
			continue;
		for (unsigned i = 0; i < label->n_users; i++)
			if (label->users[i].serves || is_named_forwarder(&label->users[i].workload))
				add_forwarder(seen, &label->users[i]);
	}
	qsort(seen->forwarders, seen->n_forwarders, sizeof(seen->forwarders[0]), by_rate);
}
