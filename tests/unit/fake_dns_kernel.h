/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_FAKE_DNS_KERNEL_H
#define TESTS_UNIT_FAKE_DNS_KERNEL_H

/* A kernel that counts what the test says, in place of src/tuners/dns/bpf.c. */

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "tuners/dns/sense.h"

#include "base/util.h"

#define FAKE_SERVERS 1100
#define FAKE_PENDING 64
#define FAKE_SOURCES 200
#define FAKE_REST    19 /* the source of those without room */

struct dns_bpf {
	struct dns_control control;
	struct dns_key server_keys[FAKE_SERVERS];
	struct dns_server servers[FAKE_SERVERS];
	size_t n_servers;
	struct dns_source sources[FAKE_SOURCES];
	size_t n_sources;
	struct {
		struct dns_pending query;
		uint64_t sent_ns;
	} pending[FAKE_PENDING];
	size_t n_pending;
	size_t n_watched, n_suffixes, forgotten, sweeps;
	uint64_t one_in;
	int error; /* of every reading */
};

struct dns_bpf *dns_bpf_open(const struct host *host, char why[static TUNER_WHY_MAX])
{
	struct dns_bpf *bpf = calloc(1, sizeof(*bpf));

	(void)host;
	assert_non_null(bpf);
	strcpy(why, "whatever was tried before it worked");
	bpf->control.root_cgroup = 1;
	bpf->n_servers = 1; /* the zero key */
	return bpf;
}

void dns_bpf_close(struct dns_bpf *bpf)
{
	free(bpf);
}

const struct dns_control *dns_bpf_control(const struct dns_bpf *bpf)
{
	return &bpf->control;
}

int dns_bpf_each(struct dns_bpf *bpf, enum dns_map map, dns_take *take, void *userdata)
{
	size_t n_servers = map == DNS_MAP_SERVERS ? bpf->n_servers : 0;
	size_t n_sources = map == DNS_MAP_SOURCES ? bpf->n_sources : 0;

	for (size_t i = 0; i < n_servers && bpf->error == 0; i++)
		take(userdata, &bpf->server_keys[i], &bpf->servers[i]);
	for (size_t i = 0; i < n_sources && bpf->error == 0; i++) {
		struct dns_key source = {AF_INET, {10, 0, 0, (uint8_t)i}};

		if (i == FAKE_REST)
			source = (struct dns_key){0};
		if (bpf->sources[i].packets > 0)
			take(userdata, &source, &bpf->sources[i]);
	}
	return bpf->error;
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

bool dns_bpf_forget(struct dns_bpf *bpf, enum dns_map map, const void *key, uint64_t now)
{
	(void)now;
	for (size_t i = 0; map == DNS_MAP_SERVERS && i < bpf->n_servers; i++) {
		if (!dns_address_equal(&bpf->server_keys[i], key))
			continue;
		bpf->n_servers--;
		bpf->server_keys[i] = bpf->server_keys[bpf->n_servers];
		bpf->servers[i] = bpf->servers[bpf->n_servers];
		bpf->servers[bpf->n_servers] = (struct dns_server){0};
		bpf->forgotten++;
		break;
	}
	return true;
}

bool dns_bpf_forget_source(
	struct dns_bpf *bpf, const struct dns_key *source, struct dns_source *counts)
{
	*counts = bpf->sources[source->address[3]];
	bpf->sources[source->address[3]] = (struct dns_source){0};
	return true;
}

void dns_bpf_reuse(struct dns_bpf *bpf, uint64_t now)
{
	(void)bpf;
	(void)now;
}

void dns_bpf_sweep(struct dns_bpf *bpf, uint64_t now_ns, dns_take_pending *take, void *userdata)
{
	size_t kept = 0;

	bpf->sweeps++;
	for (size_t i = 0; i < bpf->n_pending; i++) {
		bool over = now_ns - bpf->pending[i].sent_ns > DNS_TIMEOUT_NS;

		take(userdata, &bpf->pending[i].query, over);
		if (!over)
			bpf->pending[kept++] = bpf->pending[i];
	}
	bpf->n_pending = kept;
}

void dns_bpf_sample(struct dns_bpf *bpf, uint64_t one_in, uint64_t at_most)
{
	assert_int_equal(at_most > 0, one_in > 0);
	bpf->one_in = one_in;
}

void dns_bpf_drain_samples(struct dns_bpf *bpf, dns_take_sample *take, void *userdata)
{
	struct dns_sample sample = {.type = 1};

	/* Nothing of the zero key has a name to report. */
	sample.server = bpf->server_keys[bpf->n_servers - 1];
	if (bpf->one_in > 0 && bpf->n_servers > 1)
		take(userdata, &sample);
}

bool dns_sample_name(const struct dns_sample *sample, char *text, size_t size)
{
	(void)sample;
	return copy_text(text, size, "a.example");
}

size_t dns_bpf_set_suffixes(struct dns_bpf *bpf, const struct dns_suffix_name *suffixes, size_t n)
{
	(void)suffixes;
	return bpf->n_suffixes = n;
}

size_t dns_bpf_watch(struct dns_bpf *bpf, const struct dns_key *addresses, size_t n)
{
	(void)addresses;
	return bpf->n_watched = n;
}

#endif
