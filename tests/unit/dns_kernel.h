/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "directory.h"

#include "tuners/dns/dns.h"
#include "tuners/table.h"

/* Replaces src/tuners/dns/kernel.c: the test sets the counts of the pairs. */
#define FAKE_PAIRS 5000

struct dns_kernel {
	struct dns_control control;
	struct dns_pair pairs[FAKE_PAIRS];
	struct dns_counts counts[FAKE_PAIRS];
	size_t n, removed;
	int error; /* the result of every reading */
};

struct dns_kernel *dns_kernel_load(char[static TUNER_WHY_MAX])
{
	struct dns_kernel *kernel = must(calloc(1, sizeof(*kernel)));

	kernel->n = 1; /* the zero pair */
	return kernel;
}

int dns_kernel_attach(struct dns_kernel *, const struct host *, char[static TUNER_WHY_MAX])
{
	return 0;
}

void dns_kernel_detach(struct dns_kernel *)
{
}

void dns_kernel_close(struct dns_kernel *kernel)
{
	free(kernel);
}

struct dns_control *dns_kernel_control(struct dns_kernel *kernel)
{
	return &kernel->control;
}

int dns_kernel_each_pair(struct dns_kernel *kernel, dns_visit_pair *visit, void *userdata)
{
	if (kernel->error)
		return kernel->error;
	for (size_t i = 0; i < kernel->n; i++)
		visit(userdata, &kernel->pairs[i], &kernel->counts[i]);
	return 0;
}

static struct dns_counts *counts_of(struct dns_kernel *kernel, const struct dns_pair *pair)
{
	size_t i = 0;

	while (i < kernel->n && memcmp(&kernel->pairs[i], pair, sizeof(*pair)) != 0)
		i++;
	assert_true(i < FAKE_PAIRS);
	kernel->pairs[i] = *pair;
	kernel->n = MAX(kernel->n, i + 1);
	return &kernel->counts[i];
}

void dns_kernel_add_server(struct dns_kernel *kernel, const struct dns_address *server)
{
	(void)counts_of(kernel, &(struct dns_pair){.server = *server});
}

bool dns_kernel_remove_pair(struct dns_kernel *kernel, const struct dns_pair *pair)
{
	struct dns_counts *counts = counts_of(kernel, pair);
	size_t i = (size_t)(counts - kernel->counts);

	kernel->removed++;
	kernel->n--;
	kernel->pairs[i] = kernel->pairs[kernel->n];
	*counts = kernel->counts[kernel->n];
	kernel->counts[kernel->n] = (struct dns_counts){0};
	return true;
}

void dns_kernel_each_sample(struct dns_kernel *, dns_visit_sample *, void *)
{
}

/* A fake node that the sensor polls. */
struct fixture {
	struct directory directory;
	struct dns_sensor *sensor;
	struct dns_kernel *kernel;
	uint64_t now_us;
};

static void poll_after(struct fixture *node, uint64_t later_us)
{
	node->now_us += later_us;
	dns_sense(node->sensor, node->now_us);
}

static void begin(struct fixture *node)
{
	char why[TUNER_WHY_MAX] = "";

	directory_make(&node->directory);
	directory_put(&node->directory, "/etc/resolv.conf",
		"nameserver 168.63.129.16\nsearch cluster.LOCAL ec2.internal\n");
	node->sensor = dns_tuner.open(&node->directory.host, &node->directory.facts, NULL);
	node->kernel = node->sensor->kernel = dns_kernel_load(why);
	node->sensor->config.budget_auto = true;
	copy_text(node->sensor->config.domains[0], DNS_DOMAIN_MAX, "cluster.local");
	node->sensor->config.n_domains = 1;
	poll_after(node, 1000 * USEC_PER_SEC);
}

static void end(struct fixture *node)
{
	struct dns_memory memory = {0};

	dns_tuner.close(node->sensor, &memory);
	directory_remove(&node->directory);
}

#define STATE_TEST(name) TEST_OF(fixture, node, begin, end, name)

static inline struct dns_address address_of(const char *text)
{
	struct dns_address address;

	assert_true(dns_address_parse(text, &address));
	return address;
}

/* The counts of a client of the server. */
static inline struct dns_counts *pair_of(
	struct fixture *node, const char *server, uint64_t cgroup, const char *source)
{
	return counts_of(node->kernel, &(struct dns_pair){.server = address_of(server),
					       .source = address_of(source),
					       .cgroup = cgroup});
}

/* The client sends n queries now; answered or not. */
static inline void send_now(
	const struct fixture *node, struct dns_counts *counts, uint32_t n, bool answered)
{
	uint64_t now_ns = node->now_us * 1000;

	counts->counters.queries[DNS_UDP] += n;
	counts->bins[now_ns / DNS_BIN_NS % DNS_BINS] += n * (DNS_BIN_QUERY + DNS_BIN_PACKET);
	if (answered) {
		counts->counters.responses[DNS_NOERROR] += n;
		counts->counters.latency[0] += n;
	} else {
		counts->quarters[now_ns / DNS_QUARTER_NS % DNS_QUARTERS].waiting += n;
		counts->pending[now_ns / DNS_BIN_NS % DNS_BINS] += n;
	}
}

static inline const struct dns_server_state *server_at(
	const struct fixture *node, const char *server)
{
	struct dns_address address = address_of(server);

	return dns_server_find(&node->sensor->seen.table, &address);
}
