/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/limits/census.h"

#include "workload/process.h"

#include <arpa/inet.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
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

	for (size_t i = 0; r == 0 && i < namespaces->n; i++) {
		struct limit_use *use = &namespaces->uses[i];
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

struct sampled {
	struct tally sources;
	unsigned entries;
};

/* Counts the source address of an entry. */
static int add_source(struct nl_msg *found, void *userdata)
{
	struct nlmsghdr *message = nlmsg_hdr(found);
	const struct nfgenmsg *header = nlmsg_data(message);
	const struct nlattr *tuple = nlmsg_find_attr(message, sizeof(*header), CTA_TUPLE_ORIG);
	bool is_v4 = header->nfgen_family == AF_INET;
	const struct nlattr *source =
		find(find(tuple, CTA_TUPLE_IP), is_v4 ? CTA_IP_V4_SRC : CTA_IP_V6_SRC);
	struct sampled *sampled = userdata;
	uint8_t address[16] = {0};
	uint64_t halves[2];
	struct limit_use *use;

	if (!source || nla_len(source) != (is_v4 ? 4 : 16))
		return NL_OK;
	memcpy(address, nla_data(source), (size_t)nla_len(source));
	memcpy(halves, address, sizeof(halves));
	use = tally_at(&sampled->sources, halves[0], halves[1] + is_v4);
	use->family = header->nfgen_family;
	memcpy(use->address, address, sizeof(address));
	use->used++;
	return ++sampled->entries < SAMPLE_MAX ? NL_OK : NL_STOP;
}

static void read_sources(struct sampled *sampled)
{
	struct nfgenmsg family = {AF_UNSPEC, NFNETLINK_V0, 0};
	struct nl_sock *socket = must(nl_socket_alloc());

	nl_socket_set_msg_buf_size(socket, DUMP_SIZE);
	nl_socket_modify_cb(socket, NL_CB_VALID, NL_CB_CUSTOM, add_source, sampled);
	if (nl_connect(socket, NETLINK_NETFILTER) == 0 &&
		nl_send_simple(socket, NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_GET, NLM_F_DUMP,
			&family, sizeof(family)) >= 0)
		(void)nl_recvmsgs_default(socket);
	nl_socket_free(socket);
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
int limits_conntrack_users(const struct limit_source *source, struct limit_reading *reading)
{
	struct sampled sampled = {0};
	struct tally *sources = &sampled.sources;
	struct limit_reading now = {0};

	/* The request would load the kernel's module into a node that tracks no connections. */
	if (limits_read_conntrack(source, &now) == 0 && now.used > 0)
		read_sources(&sampled);
	if (sampled.entries > 0)
		qsort(sources->uses, sources->n, sizeof(*sources->uses), by_used);
	for (size_t i = 0; i < MIN(sources->n, (size_t)LIMIT_TOP_MAX); i++) {
		const struct limit_use *use = &sources->uses[i];
		struct limit_user *user = limit_add_user(reading);
		char address[INET6_ADDRSTRLEN];

		inet_ntop(use->family, use->address, address, sizeof(address));
		user->used = use->used * now.used / sampled.entries;
		user->workload.kind = is_local(use) ? WORKLOAD_HOST : WORKLOAD_NETNS;
		set_text(user->workload.name,
			user->workload.kind == WORKLOAD_HOST ? "host" : address);
		snprintf(user->detail, sizeof(user->detail), "from %s", address);
	}
	tally_free(sources);
	return 0;
}
