/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once

/*
 * The maps that dns.bpf.c shares with user space. Counters only grow, except in pending and
 * quarters. Times are CLOCK_MONOTONIC in nanoseconds. An address is IPv6; an IPv4 address is mapped
 * (::ffff:192.0.2.1). Sixteen zeros stand for any address.
 *
 *   server    the address that a query is sent to, as the network sees it
 *   client    the cgroup of the socket that sends, and the packet's source address
 *   pair      a client and a server: everything is counted for a pair
 *   pending   a query without an answer that is not older than DNS_TIMEOUT_NS
 *   bin       1/16 second
 *   flow      one direction of a TCP connection
 */

#include <linux/types.h>

#define DNS_PAIRS_MAX 8192
#define DNS_BUCKETS   256 /* each has room for 16 pending queries; a power of two */

#define DNS_TIMEOUT_NS 5000000000ULL /* of glibc and musl: resolv.conf(5) */

/* Bin number (time / DNS_BIN_NS) % DNS_BINS; a poll every four seconds sees every bin. */
#define DNS_BINS            64
#define DNS_BINS_PER_SECOND 16
#define DNS_BIN_NS          62500000ULL
#define DNS_BIN_QUERY       1ULL /* increments of a bin */
#define DNS_BIN_PACKET      (1ULL << 32)

/* Quarter number (time / DNS_QUARTER_NS) % DNS_QUARTERS. */
#define DNS_QUARTERS   32
#define DNS_QUARTER_NS (4 * DNS_BIN_NS)

#define DNS_LATENCY_BUCKETS 16 /* bucket i: up to bound i; the last one: no bound */

static const __u64 dns_latency_bounds[DNS_LATENCY_BUCKETS - 1] = {100000, 250000, 500000, 1000000,
	2500000, 5000000, 10000000, 25000000, 50000000, 100000000, 250000000, 500000000, 1000000000,
	2500000000, DNS_TIMEOUT_NS};

enum dns_transport { DNS_UDP, DNS_TCP, DNS_TRANSPORTS };

/* RFC 1035 4.1.1: the first six have the value of the code. */
enum dns_rcode_class {
	DNS_NOERROR,
	DNS_FORMERR,
	DNS_SERVFAIL,
	DNS_NXDOMAIN,
	DNS_NOTIMP,
	DNS_REFUSED,
	DNS_RCODE_OTHER,
	DNS_RCODES,
};

/* The class of a name by the suffixes of struct dns_control. */
enum dns_suffix_class { DNS_SUFFIX_NONE, DNS_SUFFIX_CLUSTER, DNS_SUFFIX_SEARCH };

struct dns_address {
	__u8 bytes[16];
};

/*
 * Key of the map pairs. When the map is full, a new pair counts without its client, if user space
 * has added that pair, and else as the pair of zeros: "other".
 */
struct dns_pair {
	struct dns_address server;
	struct dns_address source; /* zero: any client */
	__u64 cgroup;              /* inode of its directory; 0: any client */
};

struct dns_counters {
	__u64 queries[DNS_TRANSPORTS]; /* with repetitions */
	__u64 repeated;                /* same id and question before the answer came */
	__u64 edns;                    /* queries with an OPT record */
	__u64 malformed;               /* queries with an unreadable question, or too short */
	__u64 expanded;                /* queries for a name with a suffix of dns_control */
	__u64 other_packets; /* to port 53 or a watched address, except queries over UDP */
	__u64 dot_packets;   /* to TCP port 853 */
	__u64 not_followed;  /* pending queries whose answers are not recognised any more */
	/* Answers. */
	__u64 responses[DNS_RCODES];        /* with late ones */
	__u64 latency_ns;                   /* sum, without late ones */
	__u64 latency[DNS_LATENCY_BUCKETS]; /* without late ones */
	__u64 late;                         /* after DNS_TIMEOUT_NS */
	__u64 truncated;                    /* with the TC bit */
	__u64 expanded_nxdomain;            /* NXDOMAIN to expanded queries */
	__u64 cluster_answers;              /* NOERROR to a name with DNS_SUFFIX_CLUSTER */
};

/*
 * Pending queries by the quarter second in which they were sent. An answer in time takes its query
 * out. Superseded: another server has answered the same question of the same socket.
 */
struct dns_quarter {
	__u32 waiting, superseded;
};

/* Value of the map pairs. */
struct dns_counts {
	struct dns_counters counters;
	__u64 bins[DNS_BINS];    /* the lower half counts queries, the upper half packets */
	__u32 pending[DNS_BINS]; /* the change of the number of waiting queries in each bin */
	struct dns_quarter quarters[DNS_QUARTERS];
};

/* The end of a name in wire format and lower case, with the last zero. */
#define DNS_SUFFIXES     24
#define DNS_SUFFIX_WORDS 8

struct dns_suffix {
	__u32 size; /* bytes; 0 ends the table */
	__u32 class;
	struct {
		__u64 bytes, mask; /* the mask's bits are set for bytes of the suffix */
	} words[DNS_SUFFIX_WORDS];
};

/* Record of the ring buffer samples, which holds as many as user space wants in a second. */
#define DNS_SAMPLE_NAME 128

struct dns_sample {
	struct dns_address server;
	__u8 name[DNS_SAMPLE_NAME]; /* the question's first bytes in wire format, then zeros */
};

#define DNS_WATCHED 10

/* The mapped global variable "control". */
struct dns_control {
	/* User space writes these. */
	__u64 seed;         /* random: nobody can choose which queries share a bucket */
	__u32 sample_share; /* of 2^32 */
	__u32 n_watched;    /* addresses whose packets of any protocol count */
	struct dns_address watched[DNS_WATCHED];
	struct dns_suffix suffixes[DNS_SUFFIXES]; /* the longest first */
	/* The programs count their losses here. */
	__u64 lost_pairs;  /* messages and packets of pairs without room */
	__u64 unmatched;   /* answers to no query that is known */
	__u64 fragments;   /* packets without ports: later fragments of a datagram */
	__u64 resyncs;     /* TCP: flows whose next message is unknown, for a time */
	__u64 uninspected; /* segments not read for that reason; packets with too many headers */
};
