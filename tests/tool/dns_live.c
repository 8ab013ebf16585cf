/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Attaches the DNS programs, runs clients and servers on the loopback device of a new network
 * namespace and in a new cgroup, and compares the counts with the messages sent.
 *
 *   dns_live [QUERIES [THREADS]]   defaults: 400, 1
 *
 * Prints a line for each check: ok or wrong, subject, expected least-most, count. Exit status 1 if
 * a check is wrong.
 */

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>

#include <bpf/bpf.h>

#include "dns_program.h"
#include "tuners/dns/dns.h"
#include "workload/cgroup.h"

#define PORT    53
#define HEADER  12
#define IN_VAIN 200 /* number of the server that leaves queries unanswered */
#define IN_HAND 32  /* queries in flight: each socket buffer holds more */

static const uint8_t question[] = "\7example\7cluster\5local\0\0\1\0\1";

static void fail(const char *what)
{
	fprintf(stderr, "dns_live: %s: %s\n", what, strerror(errno));
	exit(2);
}

static size_t make_query(uint8_t *message, uint16_t id)
{
	memset(message, 0, HEADER);
	message[0] = (uint8_t)(id >> 8);
	message[1] = (uint8_t)id;
	message[5] = 1;
	memcpy(message + HEADER, question, sizeof(question) - 1);
	return HEADER + sizeof(question) - 1;
}

/* Answers to odd ids are NXDOMAIN. */
static void make_answer(uint8_t *message)
{
	message[2] |= 0x80;
	message[3] = message[1] & 1 ? 3 : 0;
}

static struct sockaddr_storage server_address(bool six, unsigned number)
{
	struct sockaddr_storage storage = {0};
	struct sockaddr_in6 *in6 = (void *)&storage;
	struct sockaddr_in *in = (void *)&storage;

	if (six) {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(PORT);
		in6->sin6_addr = in6addr_loopback;
	} else {
		in->sin_family = AF_INET;
		in->sin_port = htons(PORT);
		in->sin_addr.s_addr = htonl(0x7f350000 + number);
	}
	return storage;
}

static int open_socket(const struct sockaddr_storage *address, int type, bool server)
{
	int fd = socket(address->ss_family, type | SOCK_CLOEXEC, 0), one = 1;

	if (fd < 0)
		fail("socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (server ? bind(fd, (const void *)address, sizeof(*address))
		   : connect(fd, (const void *)address, sizeof(*address)))
		fail(server ? "bind" : "connect");
	return fd;
}

/*
 * A thread that moves to another CPU can overtake its own packets on the loopback device. The
 * programs then lose the message boundaries of a stream.
 */
static void stay_on_processor(unsigned number)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(number % (unsigned)sysconf(_SC_NPROCESSORS_ONLN), &set);
	if (sched_setaffinity(0, sizeof(set), &set) < 0)
		fail("sched_setaffinity");
}

struct node {
	int root; /* of cgroup2 */
	char cgroup[64];
	uint64_t inode; /* its directory's */
};

struct load {
	pthread_t thread;
	unsigned number; /* names the server: 127.53.0.NUMBER */
	uint64_t queries;
};

static bool wrong;

static void compare_range(const char *what, uint64_t least, uint64_t most, uint64_t got)
{
	bool good = least <= got && got <= most;

	wrong = wrong || !good;
	printf("%s %s %" PRIu64 "-%" PRIu64 " %" PRIu64 "\n", good ? "ok" : "wrong", what, least,
		most, got);
}

static void compare(const char *what, uint64_t wanted, uint64_t got)
{
	compare_range(what, wanted, wanted, got);
}

/* The server receives n queries and answers all but the last `unanswered` ones. */
static void answer_all(int server, int client, unsigned n, unsigned unanswered)
{
	struct sockaddr_storage from;
	uint8_t message[512];

	for (unsigned i = 0; i < n; i++) {
		socklen_t size = sizeof(from);
		ssize_t length =
			recvfrom(server, message, sizeof(message), 0, (void *)&from, &size);

		if (length < 0)
			fail("the server gets nothing");
		if (i + unanswered >= n)
			continue;
		make_answer(message);
		if (sendto(server, message, (size_t)length, 0, (void *)&from, size) != length ||
			recv(client, message, sizeof(message), 0) != length)
			fail("the client gets nothing");
	}
}

static void send_query(int client, uint16_t id)
{
	uint8_t message[128];
	size_t size = make_query(message, id);

	if (send(client, message, size, 0) != (ssize_t)size)
		fail("send");
}

static void *ask_datagrams(void *data)
{
	const struct load *load = data;
	struct sockaddr_storage address = server_address(load->number == 0, load->number);
	int server = open_socket(&address, SOCK_DGRAM, true);
	int client = open_socket(&address, SOCK_DGRAM, false);

	stay_on_processor(load->number);
	for (uint64_t sent = 0; sent < load->queries; sent += IN_HAND) {
		unsigned n = (unsigned)MIN(load->queries - sent, IN_HAND);

		for (unsigned i = 0; i < n; i++)
			send_query(client, (uint16_t)(sent + i));
		answer_all(server, client, n, 0);
	}
	return NULL;
}

/* Sends ten queries and repeats three of them. Two stay unanswered. */
static void ask_in_vain(void)
{
	struct sockaddr_storage address = server_address(false, IN_VAIN);
	int server = open_socket(&address, SOCK_DGRAM, true);
	int client = open_socket(&address, SOCK_DGRAM, false);

	for (uint16_t id = 0; id < 13; id++)
		send_query(client, id % 10);
	/* The first ten that come are all different. */
	answer_all(server, client, 10, 2);
}

/* piece as in ask_stream(). */
static void write_pieces(int fd, const uint8_t *data, size_t size, size_t piece)
{
	for (size_t at = 0, n; at < size; at += n) {
		n = piece ? 1 + (size_t)rand() % piece : size;
		n = MIN(n, size - at);
		if (write(fd, data + at, n) != (ssize_t)n)
			fail("write");
	}
}

/* piece: the most bytes of a write, each with a random length and in its own packet; 0: one write.
 */
static void ask_stream(bool six, unsigned number, unsigned queries, size_t piece, int segment)
{
	struct sockaddr_storage address = server_address(six, number);
	int listener = open_socket(&address, SOCK_STREAM, true), one = 1, client, server;
	size_t frame = 2 + HEADER + sizeof(question) - 1, size = queries * frame;
	uint8_t *data = must(malloc(size));

	setsockopt(listener, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof(segment));
	if (listen(listener, 1) < 0)
		fail("listen");
	client = open_socket(&address, SOCK_STREAM, false);
	server = accept(listener, NULL, NULL);
	setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	for (unsigned i = 0; i < queries; i++) {
		uint8_t *at = data + i * frame;

		at[0] = 0;
		at[1] = (uint8_t)(frame - 2);
		make_query(at + 2, (uint16_t)i);
	}
	write_pieces(client, data, size, piece);
	if (recv(server, data, size, MSG_WAITALL) != (ssize_t)size)
		fail("the server reads");
	for (unsigned i = 0; i < queries; i++)
		make_answer(data + i * frame + 2);
	write_pieces(server, data, size, piece);
	if (recv(client, data, size, MSG_WAITALL) != (ssize_t)size)
		fail("the client reads");
	close(client);
	close(server);
	close(listener);
	free(data);
}

static void move_to(const struct node *node, const char *cgroup)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup);
	fd = openat(node->root, path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, "0", 1) != 1)
		fail(path);
	close(fd);
}

static void enter_cgroup(struct node *node, const struct host *host)
{
	char why[TUNER_WHY_MAX];
	struct stat st;

	node->root = cgroup_root_open(host, NULL, why, sizeof(why));
	snprintf(node->cgroup, sizeof(node->cgroup), "headroom-dns-live-%d", getpid());
	if (mkdirat(node->root, node->cgroup, 0755) < 0 ||
		fstatat(node->root, node->cgroup, &st, 0) < 0)
		fail(node->cgroup);
	node->inode = st.st_ino;
	move_to(node, node->cgroup);
}

/* The number of hooks (ingress, egress) of the cgroup2 root to which a program is attached. */
static unsigned count_attached(const struct node *node, uint32_t program)
{
	unsigned n = 0;

	for (int type = BPF_CGROUP_INET_INGRESS; type <= BPF_CGROUP_INET_EGRESS; type++) {
		uint32_t ids[64], count = ARRAY_SIZE(ids);

		if (bpf_prog_query(node->root, (enum bpf_attach_type)type, 0, NULL, ids, &count) <
			0)
			fail("BPF_PROG_QUERY");
		for (uint32_t i = 0; i < count; i++)
			n += ids[i] == program;
	}
	return n;
}

static struct bpf_prog_info program_info(int fd)
{
	struct bpf_prog_info info = {0};
	uint32_t size = sizeof(info);

	if (bpf_obj_get_info_by_fd(fd, &info, &size) < 0)
		fail("BPF_OBJ_GET_INFO_BY_FD");
	return info;
}

/* Nanoseconds of a program beyond an empty program, for each of n messages, measured by the kernel.
 */
static uint64_t cost(int fd, int other, uint64_t n)
{
	struct bpf_prog_info info = program_info(fd), least = program_info(other);
	uint64_t idle = least.run_cnt ? least.run_time_ns / least.run_cnt * info.run_cnt : 0;

	return info.run_time_ns > idle && n ? (info.run_time_ns - idle) / n : 0;
}

/* Attaches a program of another owner to the same hook, by a link. */
static int attach_other(const struct node *node, enum bpf_attach_type type)
{
	const struct bpf_insn body[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 1},
		{.code = BPF_JMP | BPF_EXIT},
	};
	LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = type);
	int program = bpf_prog_load(
		BPF_PROG_TYPE_CGROUP_SKB, "other", "GPL", body, ARRAY_SIZE(body), &options);

	if (program < 0 || bpf_link_create(program, node->root, type, NULL) < 0)
		fail("another program");
	return program;
}

struct sums {
	const struct node *node;
	struct dns_counters servers,
		in_vain; /* in_vain: the server that leaves queries unanswered */
	uint64_t answered, answered_in_vain, waiting, waiting_in_vain;
	uint64_t by_client, by_client_repeated, by_client_expanded;
};

static uint64_t answered(const struct dns_counters *counters)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < DNS_LATENCY_BUCKETS; i++)
		sum += counters->latency[i];
	return sum;
}

static void sum_pair(void *userdata, const void *key, const void *value)
{
	const struct dns_pair *pair = key;
	const struct dns_counts *counts = value;
	const uint8_t *server = pair->server.bytes;
	struct sums *sums = userdata;
	bool four = dns_address_is_ipv4(&pair->server), in_vain = four && server[15] == IN_VAIN;
	struct dns_counters *into = in_vain ? &sums->in_vain : &sums->servers;
	uint64_t waiting = 0;

	if (four ? server[12] != 127 || server[13] != 53 : server[15] != 1 || server[0] != 0)
		return;
	for (size_t i = 0; i < sizeof(*into) / sizeof(__u64); i++)
		((__u64 *)into)[i] += ((const __u64 *)&counts->counters)[i];
	for (size_t i = 0; i < DNS_QUARTERS; i++)
		waiting += counts->quarters[i].waiting;
	*(in_vain ? &sums->waiting_in_vain : &sums->waiting) += waiting;
	if (pair->cgroup != sums->node->inode)
		return;
	sums->by_client += dns_queries(&counts->counters);
	sums->by_client_repeated += counts->counters.repeated;
	sums->by_client_expanded += counts->counters.expanded;
}

static void check_counts(struct dns_kernel *kernel, const struct node *node, uint64_t udp,
	uint64_t tcp, uint64_t slack)
{
	struct sums sums = {.node = node};
	const struct dns_counters *servers = &sums.servers;
	const struct dns_control *control = dns_kernel_control(kernel);
	uint64_t all = udp + tcp;

	if (dns_kernel_each_pair(kernel, sum_pair, &sums) < 0)
		fail("reading the pairs");
	compare("datagrams", udp, servers->queries[DNS_UDP]);
	compare("messages of streams", tcp, servers->queries[DNS_TCP]);
	compare_range("answered", all - slack, all, answered(servers));
	compare("answered or unmatched", all, answered(servers) + control->unmatched);
	compare("late", 0, servers->late);
	/* An answer whose query lost its room belongs to no server. */
	compare_range("NXDOMAIN", all / 2 - slack, all / 2, servers->responses[DNS_NXDOMAIN]);
	/* A segment that ends within a message hides its name. */
	compare_range("of cluster names", udp / 2 - slack, all / 2, servers->cluster_answers);
	/* The next query with the id of such a query looks like its repeat. */
	compare_range("repeats of those answered", 0, slack, servers->repeated);
	compare("malformed", 0, servers->malformed);
	compare_range("not followed", 0, slack, servers->not_followed);
	compare_range("waiting", 0, slack, sums.waiting);
	compare("by client", all + 13, sums.by_client);
	compare_range("by client, repeats", 3, 3 + slack, sums.by_client_repeated);
	compare_range("by client, of cluster names", udp + 13, all + 13, sums.by_client_expanded);
	compare("resynchronised", 0, control->resyncs);
	compare("uninspected", 0, control->uninspected);
	compare("with repeats", 13, sums.in_vain.queries[DNS_UDP]);
	compare("repeats", 3, sums.in_vain.repeated);
	compare("answered of those", 8, answered(&sums.in_vain));
	compare("waiting of those", 2, sums.waiting_in_vain);
}

static uint64_t ask_all(uint64_t queries, unsigned threads, uint64_t *tcp)
{
	struct load loads[16] = {0};

	threads = MIN(threads, (unsigned)ARRAY_SIZE(loads) - 1);
	/* The first thread uses IPv6. */
	for (unsigned i = 0; i <= threads; i++) {
		loads[i] = (struct load){.number = i, .queries = queries};
		if (pthread_create(&loads[i].thread, NULL, ask_datagrams, &loads[i]) != 0)
			fail("a thread");
		if (i == 0)
			pthread_join(loads[i].thread, NULL);
	}
	for (unsigned i = 1; i <= threads; i++)
		pthread_join(loads[i].thread, NULL);
	stay_on_processor(0);
	/* One write in packets of 64 KiB; small segments; tiny writes that split the headers. */
	ask_stream(false, 100, 2000, 0, 65495);
	ask_stream(false, 101, 1000, 0, 536);
	ask_stream(true, 0, 1000, 700, 1220);
	ask_stream(false, 102, 400, 9, 536);
	ask_stream(false, 103, 100, 1, 536);
	*tcp = 2000 + 1000 + 1000 + 400 + 100;
	ask_in_vain();
	return (threads + 1) * queries;
}

static void test(const struct node *node, struct dns_kernel *kernel, const struct load *wanted)
{
	int other = attach_other(node, BPF_CGROUP_INET_EGRESS);
	int other_in = attach_other(node, BPF_CGROUP_INET_INGRESS);
	uint32_t others = program_info(other).id;
	int egress = dns_program("dns_egress"), ingress = dns_program("dns_ingress");
	uint32_t out = program_info(egress).id, in = program_info(ingress).id;
	uint64_t udp, tcp = 0;

	(void)bpf_enable_stats(BPF_STATS_RUN_TIME); /* until the process ends */
	compare("attached", 2, count_attached(node, out) + count_attached(node, in));
	(void)dns_suffix_add(
		dns_kernel_control(kernel)->suffixes, "cluster.local", DNS_SUFFIX_CLUSTER);
	if (unshare(CLONE_NEWNET) < 0 ||
		system("PATH=$PATH:/sbin:/usr/sbin ip link set lo up") != 0)
		fail("a network namespace");
	udp = ask_all(wanted->queries, wanted->number, &tcp);
	/* The server's packets also pass the programs, and cost almost nothing. */
	fprintf(stderr,
		"dns_live: above a program that does nothing %" PRIu64 " ns a query, %" PRIu64
		" ns an answer\n",
		cost(egress, other, udp + tcp), cost(ingress, other_in, udp + tcp));
	check_counts(kernel, node, udp, tcp, wanted->number > 1 ? udp / 10000 : 0);
	dns_kernel_close(kernel);
	/* A link ends with its last descriptor, and detaches its program. */
	compare("detached", 0, count_attached(node, out) + count_attached(node, in));
	compare("another's program stays", 1, count_attached(node, others));
}

int main(int argc, char **argv)
{
	struct load wanted = {
		.queries = argc > 1 ? strtoull(argv[1], NULL, 10) : 400,
		.number = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 1, /* of threads */
	};
	char why[TUNER_WHY_MAX];
	struct host host = {0};
	struct node node = {0};
	struct dns_kernel *kernel;

	enter_cgroup(&node, &host);
	kernel = dns_kernel_load(why);
	if (kernel && dns_kernel_attach(kernel, &host, why) == 0)
		test(&node, kernel, &wanted);
	else
		wrong = printf("wrong %s\n", why) > 0;
	move_to(&node, ".");
	unlinkat(node.root, node.cgroup, AT_REMOVEDIR);
	return wrong;
}
