/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TUNERS_DNS_BPF_H
#define TUNERS_DNS_BPF_H

/*
 * The kernel's side of the DNS counters: loading, attaching, reading its maps. What the records
 * mean is said in headroom/bpf/dns.h.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/host.h"

#include <headroom/bpf/dns.h>
#include <headroom/tuner.h>

struct dns_bpf;

/*
 * Attaches to the host's root of cgroup2, wherever it is mounted. NULL, with the reason and its
 * cure in why, when that cannot be had. The programs go when this process does.
 */
struct dns_bpf *dns_bpf_open(const struct host *host, char why[static TUNER_WHY_MAX]);
void dns_bpf_close(struct dns_bpf *bpf); /* NULL is fine */

/* The same without attaching: nothing is counted but what the programs are run on by hand. */
struct dns_bpf *dns_bpf_load(char why[static TUNER_WHY_MAX]);
int dns_bpf_program(const struct dns_bpf *bpf, bool ingress); /* its descriptor */

/*
 * The totals and losses, read live. What the programs write may change at any time; what user space
 * sets is set by the functions below.
 */
const struct dns_control *dns_bpf_control(const struct dns_bpf *bpf);

/* key and counts live until it returns; counts may change at any time. */
typedef void dns_take(void *userdata, const void *key, const void *counts);

enum dns_map {
	DNS_MAP_SERVERS, /* dns_key, dns_server */
	DNS_MAP_ROWS,    /* dns_row_key, dns_row */
	DNS_MAP_SOURCES, /* dns_key, dns_source */
};

/*
 * Calls take for every element there is, in no order. An element that comes or goes meanwhile may
 * be left out. 0, or -errno when the map cannot be read; what was taken until then was right.
 */
int dns_bpf_each(struct dns_bpf *bpf, enum dns_map map, dns_take *take, void *userdata);

/* Reserves its slot, if there is one, before the first query to it. */
void dns_bpf_expect_server(struct dns_bpf *bpf, const struct dns_key *server);

/*
 * Removes a server or a row that is idle, for room. The counts go with it: they begin at 0 should
 * it come again. The zero key stays. Not from within take. False when it could not be removed. The
 * room is there from the first dns_bpf_reuse() some seconds later: no program counts there any
 * more.
 */
bool dns_bpf_forget(struct dns_bpf *bpf, enum dns_map map, const void *key, uint64_t now_us);
void dns_bpf_reuse(struct dns_bpf *bpf, uint64_t now_us);

/* Removes a watched packet's source: whether there was one, and what had been counted of it. */
bool dns_bpf_forget_source(
	struct dns_bpf *bpf, const struct dns_key *source, struct dns_source *counts);

/*
 * Calls take for every query without an answer, and removes those that are older than
 * DNS_TIMEOUT_NS: for them unanswered is true, once. now_ns is CLOCK_MONOTONIC. Not needed while
 * everything is answered and nothing new was sent.
 */
typedef void dns_take_pending(void *userdata, const struct dns_pending *query, bool unanswered);
void dns_bpf_sweep(struct dns_bpf *bpf, uint64_t now_ns, dns_take_pending *take, void *userdata);

/* Samples the name of one in that many queries (0: none), at_most of them until the next call. */
void dns_bpf_sample(struct dns_bpf *bpf, uint64_t one_in, uint64_t at_most);

/* Calls take for every name sampled since the last time. */
typedef void dns_take_sample(void *userdata, const struct dns_sample *sample);
void dns_bpf_drain_samples(struct dns_bpf *bpf, dns_take_sample *take, void *userdata);

/*
 * The name as text, lower case, without the last dot, unprintable bytes as \DDD (RFC 4343 2.1).
 * True when all of it was there and fits.
 */
bool dns_sample_name(const struct dns_sample *sample, char *text, size_t size);

/* A domain that names may end in. */
struct dns_suffix_name {
	const char *name; /* "cluster.local" */
	enum dns_suffix_class class;
};

/*
 * Replaces the table of suffixes, and returns how many were taken; the one with the most labels
 * decides, of the same name the first. Left out are those of more
 * than DNS_SUFFIX_LABELS labels, more than DNS_SUFFIX_SLOTS with as many labels as each other, and
 * what is no domain: empty, or with an empty or overlong label.
 */
size_t dns_bpf_set_suffixes(struct dns_bpf *bpf, const struct dns_suffix_name *suffixes, size_t n);

/*
 * Replaces the addresses whose packets are counted by source, at most DNS_WATCH_IPV4 and
 * DNS_WATCH_IPV6, and returns how many were taken; none: the watch is off.
 */
size_t dns_bpf_watch(struct dns_bpf *bpf, const struct dns_key *addresses, size_t n);

#endif
