/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "directory.h"

#include "tuners/dns/sense.h"
#include "tuners/table.h"

/* Replaces src/tuners/dns/bpf.c: the test sets the counters of the kernel. */
#define FAKE_SERVERS 1100
#define FAKE_SOURCES 200
#define FAKE_ROWS    8
#define FAKE_REST    19 /* the sum of sources without room */

struct dns_bpf {
	struct dns_control control;
	struct dns_key server_keys[FAKE_SERVERS];
	struct dns_server servers[FAKE_SERVERS];
	size_t n_servers;
	struct dns_source sources[FAKE_SOURCES];
	size_t n_sources;
	struct dns_row_key row_keys[FAKE_ROWS];
	struct dns_row rows[FAKE_ROWS];
	size_t n_rows;
	size_t forgotten;
	int error; /* the result of every reading */
};

struct dns_bpf *dns_bpf_load(char[static TUNER_WHY_MAX])
{
	struct dns_bpf *bpf = must(calloc(1, sizeof(*bpf)));

	bpf->control.root_cgroup = 1;
	bpf->n_servers = 1; /* the zero key */
	return bpf;
}

int dns_bpf_attach(struct dns_bpf *, const struct host *, char[static TUNER_WHY_MAX])
{
	return 0;
}

void dns_bpf_detach(struct dns_bpf *)
{
}

void dns_bpf_close(struct dns_bpf *bpf)
{
	free(bpf);
}

struct dns_control *dns_bpf_control(struct dns_bpf *bpf)
{
	return &bpf->control;
}

int dns_bpf_each(struct dns_bpf *bpf, enum dns_map map, dns_visit *visit, void *userdata)
{
	if (bpf->error)
		return bpf->error;
	for (size_t i = 0; map == DNS_MAP_SERVERS && i < bpf->n_servers; i++)
		visit(userdata, &bpf->server_keys[i], &bpf->servers[i]);
	for (size_t i = 0; map == DNS_MAP_ROWS && i < bpf->n_rows; i++)
		visit(userdata, &bpf->row_keys[i], &bpf->rows[i]);
	for (size_t i = 0; map == DNS_MAP_SOURCES && i < bpf->n_sources; i++) {
		struct dns_key source = {AF_INET, {10, 0, 0, (uint8_t)i}};

		if (i == FAKE_REST)
			source = (struct dns_key){0};
		if (bpf->sources[i].packets > 0)
			visit(userdata, &source, &bpf->sources[i]);
	}
	return 0;
}

static size_t slot_of(struct dns_bpf *bpf, const struct dns_key *server)
{
	size_t i = 0;

	while (i < bpf->n_servers && !dns_address_equal(&bpf->server_keys[i], server))
		i++;
	assert_true(i < FAKE_SERVERS);
	bpf->server_keys[i] = *server;
	bpf->n_servers = MAX(bpf->n_servers, i + 1);
	return i;
}

void dns_bpf_expect_server(struct dns_bpf *bpf, const struct dns_key *server)
{
	(void)slot_of(bpf, server);
}

bool dns_bpf_forget(struct dns_bpf *bpf, enum dns_map map, const void *key, uint64_t, void *last)
{
	const struct dns_key *source = key;

	bpf->forgotten++;
	if (map == DNS_MAP_SOURCES)
		bpf->sources[source->address[3]] = (struct dns_source){0};
	for (size_t i = 0; map == DNS_MAP_SERVERS && i < bpf->n_servers; i++) {
		if (!dns_address_equal(&bpf->server_keys[i], key))
			continue;
		memcpy(last, &bpf->servers[i], sizeof(bpf->servers[i]));
		bpf->n_servers--;
		bpf->server_keys[i] = bpf->server_keys[bpf->n_servers];
		bpf->servers[i] = bpf->servers[bpf->n_servers];
		bpf->servers[bpf->n_servers] = (struct dns_server){0};
		break;
	}
	return true;
}

void dns_bpf_reuse(struct dns_bpf *, uint64_t, dns_visit *, void *)
{
}

void dns_bpf_sweep(struct dns_bpf *, uint64_t, dns_visit_pending *, void *)
{
}

void dns_bpf_drain_samples(struct dns_bpf *, dns_visit_sample *, void *)
{
}

/* A fake node that the sensor polls. */
struct fixture {
	struct directory directory;
	struct dns_sensor *sensor;
	struct dns_bpf *kernel;
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
	node->kernel = node->sensor->bpf = dns_bpf_load(why);
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

static inline struct dns_key key_of(const char *address)
{
	struct dns_key key;

	assert_true(dns_address_parse(address, &key));
	return key;
}
