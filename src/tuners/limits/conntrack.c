/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/limits/census.h"

#include "workload/process.h"

#include <arpa/inet.h>
#include <netlink/msg.h>
#include <sys/socket.h>

#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>

#define DUMP_SIZE 32768

int limits_sample_namespaces(const struct host *host, struct tally *namespaces,
	struct limit_reading *reading, struct limit_reading *users)
{
	static const struct explanation row = {
		.max = {"/proc/sys/net/netfilter/nf_conntrack_max", 1}};
	struct tally fullest = {0};
	uint64_t max;
	int r = limits_read_max(host, &row, &max);

	for (size_t i = 0; r == 0 && i < namespaces->allocated; i++) {
		struct limit_use *use = &namespaces->slots[i];
		_cleanup_free_ char *text = NULL;
		const char *line;

		if (use->pid == 0 || process_read(host->root, (pid_t)use->pid,
					     "net/stat/nf_conntrack", &text, NULL) < 0)
			continue;
		/* Each line of a CPU begins with the count of the namespace. */
		line = strchr(text, '\n');
		use->used = line ? strtoull(line + 1, NULL, 16) : 0;
		use->last_pid = use->pid;
		tally_add(&fullest, use);
	}
	tally_finish(&fullest, host, max, TALLY_CANDIDATES, users);
	reading->used = users->used;
	reading->max = max;
	return r;
}

/* ---- who: a sample of the table ---- */

/* The kernel dumps in the order of a hash, so the beginning is a random sample. */
#define SAMPLE_MAX 2048

/* Finds an attribute among others. */
static const struct nlattr *find(const struct nlattr *in, int type)
{
	return in ? nla_find(nla_data(in), nla_len(in), type) : NULL;
}

/* Counts the source address of an entry. */
static unsigned add_source(struct tally *sources, struct nlmsghdr *message)
{
	const struct nfgenmsg *header = nlmsg_data(message);
	const struct nlattr *tuple = nlmsg_find_attr(message, sizeof(*header), CTA_TUPLE_ORIG);
	bool is_v4 = header->nfgen_family == AF_INET;
	const struct nlattr *source =
		find(find(tuple, CTA_TUPLE_IP), is_v4 ? CTA_IP_V4_SRC : CTA_IP_V6_SRC);
	uint8_t address[16] = {0};
	uint64_t high, low;
	struct limit_use *use;

	if (!source || nla_len(source) != (is_v4 ? 4 : 16))
		return 0;
	memcpy(address, nla_data(source), (size_t)nla_len(source));
	memcpy(&high, address, sizeof(high));
	memcpy(&low, address + sizeof(high), sizeof(low));
	use = tally_at(sources, high, low + is_v4);
	use->family = header->nfgen_family;
	memcpy(use->address, address, sizeof(address));
	use->used++;
	return 1;
}

static unsigned read_sources(struct tally *sources)
{
	struct {
		struct nlmsghdr header;
		struct nfgenmsg family;
	} request = {
		{sizeof(request), NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_GET,
			NLM_F_REQUEST | NLM_F_DUMP, 0, 0},
		{AF_UNSPEC, NFNETLINK_V0, 0},
	};
	_cleanup_close_ int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
	_cleanup_free_ char *buffer = must(malloc(DUMP_SIZE));
	unsigned entries = 0;
	bool ended = fd < 0 || send(fd, &request, sizeof(request), 0) < 0;

	while (!ended && entries < SAMPLE_MAX) {
		ssize_t n = recv(fd, buffer, DUMP_SIZE, 0);
		struct nlmsghdr *message = (void *)buffer;
		int left = (int)n;

		ended = n <= 0;
		for (; !ended && nlmsg_ok(message, left); message = nlmsg_next(message, &left)) {
			ended = message->nlmsg_type == NLMSG_DONE ||
				message->nlmsg_type == NLMSG_ERROR;
			if (!ended)
				entries += add_source(sources, message);
		}
	}
	return entries;
}

/* An address of this node can be bound. */
static bool is_local(const struct limit_use *use)
{
	_cleanup_close_ int fd = socket(use->family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in v4 = {.sin_family = AF_INET};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};

	memcpy(&v4.sin_addr, use->address, sizeof(v4.sin_addr));
	memcpy(&v6.sin6_addr, use->address, sizeof(v6.sin6_addr));
	return use->family == AF_INET ? bind(fd, (struct sockaddr *)&v4, sizeof(v4)) == 0
				      : bind(fd, (struct sockaddr *)&v6, sizeof(v6)) == 0;
}

static int by_used(const void *a, const void *b)
{
	const struct limit_use *x = a, *y = b;

	return (x->used < y->used) - (x->used > y->used);
}

/* The loop replaces an address by the workload that has it: the worker does not know the names. */
int limits_conntrack_users(
	const struct host *host, const struct limit_reader *reader, struct limit_reading *reading)
{
	struct tally sources = {0};
	struct limit_reading now = {0};
	unsigned entries = 0;

	/* The request would load the kernel's module into a node that does not track connections.
	 */
	if (limits_read_conntrack(host, reader, &now) == 0 && now.used > 0)
		entries = read_sources(&sources);
	if (entries > 0)
		qsort(sources.slots, sources.allocated, sizeof(*sources.slots), by_used);
	for (size_t i = 0; i < MIN(sources.n, (size_t)LIMIT_TOP_MAX); i++) {
		const struct limit_use *use = &sources.slots[i];
		struct limit_user *user = limit_add_user(reading);
		char address[INET6_ADDRSTRLEN];

		inet_ntop(use->family, use->address, address, sizeof(address));
		user->used = use->used * now.used / entries;
		user->workload.kind = is_local(use) ? WORKLOAD_HOST : WORKLOAD_NETNS;
		copy_text(user->workload.name, sizeof(user->workload.name),
			user->workload.kind == WORKLOAD_HOST ? "host" : address);
		snprintf(user->detail, sizeof(user->detail), "from %s", address);
	}
	free(sources.slots);
	return 0;
}
