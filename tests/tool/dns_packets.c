/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Runs the DNS programs on packets from standard input without attaching them, and prints the
 * counts. Each command is a byte followed by its arguments, little-endian:
 *
 *   p  direction (1: ingress), gso_size and gso_segs (32 bits each), length (32 bits), packet
 *   t  repeat (32 bits), then as p: prints the nanoseconds of a run with warm caches, and of a run
 *      of an empty program
 *   a  repeat (32 bits), then two packets as p, the second without a letter: runs them and an empty
 *      program in turn, each alone, so that each answer meets its query. Prints the least
 *      nanoseconds, the tenth part and the median of the three
 *   s  class (32 bits), length (32 bits), name: adds a suffix
 *   d  prints all counts, and removes all pairs
 */

#include <arpa/inet.h>

#include <bpf/bpf.h>
#include <linux/bpf.h>

#include "dns_program.h"
#include "tuners/dns/dns.h"

#define PACKET_MAX 65536
#define ETHERNET   14 /* bytes of a header that bpf(2) needs before the packet */

#define TURNS_MAX 20000

struct tool {
	struct dns_kernel *kernel;
	int empty;
	unsigned char packets[2][ETHERNET + PACKET_MAX];
	struct dns_pair *pairs;
	size_t n_pairs, pairs_allocated;
	/* While a dump sums the pairs. */
	struct server {
		struct dns_address address;
		struct dns_totals totals;
		uint64_t query_bins, packet_bins, waiting, pending, superseded;
	} *servers;
	size_t n_servers, servers_allocated;
	struct element_index index;
};

struct packet {
	const unsigned char *data;
	uint32_t gso_size, gso_segs, size;
	int program, repeat;
};

static void fail(const char *what)
{
	fprintf(stderr, "dns_packets: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void read_input(void *data, size_t size)
{
	if (fread(data, 1, size, stdin) != size)
		fail("the input ends within a command");
}

static uint32_t read_number(void)
{
	uint32_t number;

	read_input(&number, sizeof(number));
	return number;
}

static int make_empty(void)
{
	const struct bpf_insn body[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 1},
		{.code = BPF_JMP | BPF_EXIT},
	};
	LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = BPF_CGROUP_INET_INGRESS);

	return bpf_prog_load(
		BPF_PROG_TYPE_CGROUP_SKB, "empty", "GPL", body, ARRAY_SIZE(body), &options);
}

/* Runs a program on the packet. Returns the nanoseconds of a run. */
static uint32_t run(const struct packet *packet, int program)
{
	struct __sk_buff context = {.gso_size = packet->gso_size, .gso_segs = packet->gso_segs};
	LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = packet->data,
		.data_size_in = ETHERNET + packet->size, .repeat = packet->repeat,
		.ctx_in = &context, .ctx_size_in = sizeof(context));

	if (bpf_prog_test_run_opts(program, &options) < 0)
		fail("BPF_PROG_TEST_RUN");
	if (options.retval != 1)
		fail("the program dropped a packet");
	return options.duration;
}

static struct packet read_packet(struct tool *tool, int repeat, int slot)
{
	unsigned char *data = tool->packets[slot], direction;
	struct packet packet = {.data = data, .repeat = repeat};

	read_input(&direction, 1);
	packet.gso_size = read_number();
	packet.gso_segs = read_number();
	packet.size = read_number();
	if (packet.size == 0 || packet.size > PACKET_MAX)
		fail("a packet's length");
	read_input(data + ETHERNET, packet.size);
	data[12] = data[ETHERNET] >> 4 == 4 ? 0x08 : 0x86;
	data[13] = data[ETHERNET] >> 4 == 4 ? 0x00 : 0xdd;
	packet.program = dns_program(direction ? "dns_ingress" : "dns_egress");
	return packet;
}

static int by_number(const void *a, const void *b)
{
	return (int)*(const uint32_t *)a - (int)*(const uint32_t *)b;
}

static void take_turns(struct tool *tool)
{
	static uint32_t spent[3][TURNS_MAX];
	uint32_t n = read_number();
	struct packet packets[2];

	n = MIN(n, TURNS_MAX);
	for (int i = 0; i < 2; i++)
		packets[i] = read_packet(tool, 1, i);
	for (uint32_t turn = 0; turn < n; turn++) {
		for (int i = 0; i < 2; i++)
			spent[i][turn] = run(&packets[i], packets[i].program);
		spent[2][turn] = run(&packets[1], tool->empty);
	}
	printf("ns");
	for (int i = 0; i < 3; i++) {
		qsort(spent[i], n, sizeof(spent[i][0]), by_number);
		printf(" %u %u %u", spent[i][0], spent[i][n / 10], spent[i][n / 2]);
	}
	printf("\n");
}

static void print_address(const char *what, const struct dns_address *address)
{
	char text[DNS_ADDRESS_TEXT] = "none";

	if (dns_address_is_set(address))
		dns_address_text(address, text);
	printf(" %s=%s", what, text);
}

/* Adds the counts of a pair to its server, and prints the pair. */
static void print_pair(void *userdata, const void *key, const void *value)
{
	const struct dns_pair *pair = key;
	const struct dns_counts *counts = value;
	const struct dns_counters *counters = &counts->counters;
	const __u64 *from = (const __u64 *)counters;
	struct tool *tool = userdata;
	struct server *server =
		find_keyed(&tool->index, tool->servers, tool->n_servers, &pair->server);
	__u64 *to;

	if (!server) {
		server = add_element(&tool->servers, &tool->n_servers, &tool->servers_allocated);
		server->address = pair->server;
	}
	to = (__u64 *)&server->totals.counters;
	for (size_t i = 0; i < sizeof(*counters) / sizeof(*to); i++)
		to[i] += from[i];
	for (size_t i = 0; i < DNS_BINS; i++) {
		server->query_bins += (uint32_t)counts->bins[i];
		server->packet_bins += counts->bins[i] / DNS_BIN_PACKET;
		server->pending += (uint64_t)(int32_t)counts->pending[i];
	}
	for (size_t i = 0; i < DNS_QUARTERS; i++) {
		server->waiting += counts->quarters[i].waiting;
		server->superseded += counts->quarters[i].superseded;
	}
	printf("pair");
	print_address("server", &pair->server);
	print_address("source", &pair->source);
	printf(" cgroup=%llu queries=%" PRIu64
	       " expanded=%llu nxdomain=%llu retransmissions=%llu\n",
		pair->cgroup, dns_queries(counters), counters->expanded,
		counters->expanded_nxdomain, counters->repeated);
	*add_element(&tool->pairs, &tool->n_pairs, &tool->pairs_allocated) = *pair;
}

static void print_server(const struct server *server)
{
	const struct dns_counters *counters = &server->totals.counters;
	uint64_t answered = 0;

	for (size_t i = 0; i < DNS_LATENCY_BUCKETS; i++)
		answered += counters->latency[i];
	printf("server");
	print_address("address", &server->address);
	printf(" udp=%llu tcp=%llu retransmissions=%llu edns=%llu malformed=%llu packets=%llu",
		counters->queries[DNS_UDP], counters->queries[DNS_TCP], counters->repeated,
		counters->edns, counters->malformed,
		counters->queries[DNS_UDP] + counters->other_packets);
	printf(" query_bins=%" PRIu64 " packet_bins=%" PRIu64, server->query_bins,
		server->packet_bins);
	for (size_t i = 0; i < DNS_RCODES; i++)
		printf(" rcode%zu=%llu", i, counters->responses[i]);
	printf(" answered=%" PRIu64
	       " late=%llu truncated=%llu cluster_answers=%llu dot=%llu not_followed=%llu",
		answered, counters->late, counters->truncated, counters->cluster_answers,
		counters->dot_packets, counters->not_followed);
	printf(" waiting=%" PRIu64 " pending_bins=%" PRIu64 " superseded=%" PRIu64 "\n",
		server->waiting, server->pending, server->superseded);
}

static void dump(struct tool *tool)
{
	static const struct dns_address none;
	const struct dns_control *control = dns_kernel_control(tool->kernel);

	tool->n_pairs = tool->n_servers = 0;
	index_reset(&tool->index);
	if (dns_kernel_each_pair(tool->kernel, print_pair, tool) < 0)
		fail("reading the pairs");
	for (size_t i = 0; i < tool->n_servers; i++)
		print_server(&tool->servers[i]);
	printf("control lost_pairs=%llu fragments=%llu resyncs=%llu uninspected=%llu "
	       "unmatched=%llu\nend\n",
		control->lost_pairs, control->fragments, control->resyncs, control->uninspected,
		control->unmatched);
	for (size_t i = 0; i < tool->n_pairs; i++)
		(void)dns_kernel_remove_pair(tool->kernel, &tool->pairs[i]);
	dns_kernel_add_server(tool->kernel, &none);
	dns_kernel_detach(tool->kernel); /* forgets the pending queries */
}

static void obey(struct tool *tool, int command)
{
	struct packet packet;
	char name[256] = "";
	uint32_t number, size;

	switch (command) {
	case 'p':
		packet = read_packet(tool, 1, 0);
		run(&packet, packet.program);
		break;
	case 't':
		number = read_number();
		packet = read_packet(tool, (int)number, 0);
		printf("ns %u %u\n", run(&packet, packet.program), run(&packet, tool->empty));
		break;
	case 'a':
		take_turns(tool);
		break;
	case 's':
		number = read_number();
		size = read_number();
		if (size >= sizeof(name))
			fail("a suffix");
		read_input(name, size);
		if (!dns_suffix_add(dns_kernel_control(tool->kernel)->suffixes, name,
			    (enum dns_suffix_class)number))
			fail(name);
		break;
	case 'd':
		dump(tool);
		break;
	default:
		errno = EINVAL;
		fail("a command");
	}
	fflush(stdout);
}

int main(void)
{
	static struct tool tool;
	char why[TUNER_WHY_MAX];
	int command;

	tool.kernel = dns_kernel_load(why);
	if (!tool.kernel) {
		fprintf(stderr, "dns_packets: %s\n", why);
		return 1;
	}
	tool.empty = make_empty();
	if (tool.empty < 0)
		fail("the empty program");
	while ((command = getchar()) != EOF)
		obey(&tool, command);
	dns_kernel_close(tool.kernel);
	free(tool.pairs);
	free(tool.servers);
	free(tool.index.positions);
	return 0;
}
