/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Runs the DNS programs on packets from standard input without attaching them, and prints the
 * counts. Each command is a byte followed by its arguments, little-endian:
 *
 *   p  direction (1: ingress), gso_size and gso_segs (32 bits each), length (32 bits), packet
 *   t  repeat (32 bits), then as p: prints the nanoseconds of a run with warm caches, and of a run
 *      of an empty program
 *   s  class (32 bits), length (32 bits), name: adds a suffix
 *   d  prints all counts, and removes servers and rows
 */

#include <arpa/inet.h>

#include <bpf/bpf.h>
#include <linux/bpf.h>

#include "dns_program.h"
#include "tuners/dns/dns.h"

#define PACKET_MAX 65536
#define ETHERNET   14 /* bytes of a header that bpf(2) needs before the packet */

struct tool {
	struct dns_bpf *bpf;
	int empty;
	unsigned char packet[ETHERNET + PACKET_MAX];
	struct dns_key *servers;
	size_t n_servers, servers_allocated;
	struct dns_row_key *rows;
	size_t n_rows, rows_allocated;
};

struct packet {
	uint32_t gso_size, gso_segs, size;
	int repeat;
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
static uint32_t run(const struct tool *tool, const struct packet *packet, int program)
{
	struct __sk_buff context = {.gso_size = packet->gso_size, .gso_segs = packet->gso_segs};
	LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = tool->packet,
		.data_size_in = ETHERNET + packet->size, .repeat = packet->repeat,
		.ctx_in = &context, .ctx_size_in = sizeof(context));

	if (bpf_prog_test_run_opts(program, &options) < 0)
		fail("BPF_PROG_TEST_RUN");
	if (options.retval != 1)
		fail("the program dropped a packet");
	return options.duration;
}

static void run_packet(struct tool *tool, bool measured)
{
	struct packet packet = {.repeat = measured ? (int)read_number() : 1};
	unsigned char direction;
	bool four;
	int program;

	read_input(&direction, 1);
	packet.gso_size = read_number();
	packet.gso_segs = read_number();
	packet.size = read_number();
	if (packet.size == 0 || packet.size > PACKET_MAX)
		fail("a packet's length");
	read_input(tool->packet + ETHERNET, packet.size);
	four = tool->packet[ETHERNET] >> 4 == 4;
	tool->packet[12] = four ? 0x08 : 0x86;
	tool->packet[13] = four ? 0x00 : 0xdd;
	program = dns_program(direction ? "dns_ingress" : "dns_egress");
	if (measured)
		printf("ns %u %u\n", run(tool, &packet, program), run(tool, &packet, tool->empty));
	else
		run(tool, &packet, program);
}

static void print_address(const char *what, uint32_t family, const uint8_t *address)
{
	char text[INET6_ADDRSTRLEN] = "none";

	if (family)
		inet_ntop((int)family, address, text, sizeof(text));
	printf(" %s=%s", what, text);
}

static void print_bins(const char *what, const uint32_t *bins)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < DNS_BINS; i++)
		sum += bins[i];
	printf(" %s=%" PRIu64, what, sum);
}

static void print_server(void *userdata, const void *key, const void *live)
{
	const struct dns_key *server = key;
	struct dns_server_table table = {0};
	struct dns_server_state state = {0};
	const struct dns_totals *totals = &state.totals;
	struct tool *tool = userdata;

	dns_server_update(&table, &state, live, 0);
	printf("server");
	print_address("address", server->family, server->address);
	printf(" udp=%llu tcp=%llu retransmissions=%llu edns=%llu malformed=%llu packets=%llu",
		totals->queries[DNS_UDP], totals->queries[DNS_TCP], totals->retransmissions,
		totals->edns, totals->malformed, totals->packets);
	print_bins("query_bins", state.query_bins);
	print_bins("packet_bins", state.packet_bins);
	for (size_t i = 0; i < DNS_RCODES; i++)
		printf(" rcode%zu=%llu", i, totals->responses[i]);
	printf(" answered=%llu late=%llu truncated=%llu cluster_answers=%llu dot=%llu unknown=%llu\n",
		totals->answered, totals->late, totals->truncated, totals->cluster_answers,
		totals->dot_packets, totals->unknown);
	*add_element(&tool->servers, &tool->n_servers, &tool->servers_allocated) = *server;
}

static void print_row(void *userdata, const void *row, const void *live)
{
	const struct dns_row_key *key = row;
	const struct dns_row *counts = live;
	struct tool *tool = userdata;

	printf("row");
	print_address("server", key->server.family, key->server.address);
	print_address("source", key->source_family, key->source);
	printf(" cgroup=%llu type=%u suffix=%u queries=%llu nxdomain=%llu failures=%llu retransmissions=%llu\n",
		key->cgroup, key->type, key->suffix, counts->queries, counts->nxdomain,
		counts->failures, counts->retransmissions);
	*add_element(&tool->rows, &tool->n_rows, &tool->rows_allocated) = *key;
}

static void print_pending(
	void *, const struct dns_key *server, const struct dns_pending *query, enum dns_end end)
{
	static const struct dns_key none;

	printf("pending");
	print_address(
		"server", server ? server->family : 0, server ? server->address : none.address);
	printf(" id=%u question=%u unanswered=%d\n", query->id, query->question,
		end == DNS_END_UNANSWERED);
}

static void ignore(void *, const void *, const void *)
{
}

static void dump(struct tool *tool)
{
	const struct dns_control *control = dns_bpf_control(tool->bpf);

	tool->n_servers = tool->n_rows = 0;
	if (dns_bpf_each(tool->bpf, DNS_MAP_SERVERS, print_server, tool) < 0 ||
		dns_bpf_each(tool->bpf, DNS_MAP_ROWS, print_row, tool) < 0)
		fail("reading the maps");
	/* A sweep far in the future removes all pending queries as unanswered. */
	dns_bpf_sweep(tool->bpf, now_us() * 1000 + 2 * DNS_TIMEOUT_NS, print_pending, tool);
	printf("control lost_servers=%llu lost_rows=%llu fragments=%llu resyncs=%llu uninspected=%llu "
	       "unmatched=%llu\nend\n",
		control->lost_servers, control->lost_rows, control->fragments, control->resyncs,
		control->uninspected, control->unmatched);
	for (size_t i = 0; i < tool->n_servers; i++)
		(void)dns_bpf_forget(tool->bpf, DNS_MAP_SERVERS, &tool->servers[i], 0, NULL);
	for (size_t i = 0; i < tool->n_rows; i++)
		(void)dns_bpf_forget(tool->bpf, DNS_MAP_ROWS, &tool->rows[i], 0, NULL);
	dns_bpf_reuse(tool->bpf, UINT64_MAX, ignore, NULL);
}

static void obey(struct tool *tool, int command)
{
	struct dns_control *control = dns_bpf_control(tool->bpf);
	char name[256] = "";
	uint32_t number, size;

	switch (command) {
	case 'p':
	case 't':
		run_packet(tool, command == 't');
		break;
	case 's':
		number = read_number();
		size = read_number();
		if (size >= sizeof(name))
			fail("a suffix");
		read_input(name, size);
		if (!dns_suffix_add(&control->suffixes, name, (enum dns_suffix_class)number))
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
	struct tool tool = {0};
	char why[TUNER_WHY_MAX];
	int command;

	tool.bpf = dns_bpf_load(why);
	if (!tool.bpf) {
		fprintf(stderr, "dns_packets: %s\n", why);
		return 1;
	}
	tool.empty = make_empty();
	if (tool.empty < 0)
		fail("the empty program");
	while ((command = getchar()) != EOF)
		obey(&tool, command);
	dns_bpf_close(tool.bpf);
	free(tool.servers);
	free(tool.rows);
	return 0;
}
