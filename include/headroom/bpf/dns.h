/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once

/*
 * What bpf/dns.bpf.c shares with user space. Counters only rise, from when the programs were
 * attached or their key came; times are CLOCK_MONOTONIC in nanoseconds; addresses are in network
 * order.
 */

#include <linux/types.h>

#define DNS_SERVERS_MAX \
	1024 /* servers told apart, and the zero key, under which the rest is counted */
#define DNS_ROWS_MAX    16384 /* of clients and questions; the rest is counted in lost_rows */
#define DNS_SOURCES_MAX 256   /* source addresses told apart by the watch; the rest as above */
#define DNS_STREAMS     4096  /* TCP connections whose messages are told apart; a power of two */

/* A query without an answer for so long is unanswered: as glibc and musl wait, resolv.conf(5). */
#define DNS_TIMEOUT_NS UINT64_C(5000000000)

/* Sixteenths of a second: bin number (time / DNS_BIN_NS) % DNS_BINS. */
#define DNS_BINS            64
#define DNS_BINS_PER_SECOND 16
#define DNS_BIN_NS          UINT64_C(62500000)

/*
 * Bucket i has the answers that took at most as many nanoseconds as bound i, and more than the one
 * before; the last has the rest. A power of two.
 */
#define DNS_LATENCY_BUCKETS 16

static const __u64 dns_latency_bounds[DNS_LATENCY_BUCKETS - 1] = {100000, 250000, 500000, 1000000,
	2500000, 5000000, 10000000, 25000000, 50000000, 100000000, 250000000, 500000000, 1000000000,
	2500000000, DNS_TIMEOUT_NS};

/* How many bounds it exceeds: half of those that are left are decided at a time. */
static inline __attribute__((always_inline)) __u32 dns_latency_bucket(__u64 ns)
{
	__u32 bucket = 0;

	for (__u32 step = DNS_LATENCY_BUCKETS / 2; step; step /= 2)
		if (ns > dns_latency_bounds[bucket + step - 1])
			bucket += step;
	return bucket;
}

enum dns_transport {
	DNS_UDP,
	DNS_TCP,
	DNS_TRANSPORTS,
};

/* RFC 1035 4.1.1 and RFC 2136 2.2; the first six are the code's own value. */
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

enum dns_type_class {
	DNS_TYPE_OTHER,
	DNS_TYPE_A,
	DNS_TYPE_AAAA,
	DNS_TYPE_PTR,
	DNS_TYPE_SRV,
	DNS_TYPES,
};

/* What a name ends in, by the table of suffixes. */
enum dns_suffix_class {
	DNS_SUFFIX_NONE,
	DNS_SUFFIX_CLUSTER, /* a cluster domain */
	DNS_SUFFIX_SEARCH,  /* another domain of the search list */
	DNS_SUFFIXES,
};

/* Key of the maps servers and sources. All zero: what found no room; in servers its index is 0. */
struct dns_key {
	__u32 family;     /* AF_INET, AF_INET6 */
	__u8 address[16]; /* IPv4 in the first four, the rest zero */
};

/* What is added to a bin: queries are in its lower half, packets to port 53 in its upper. */
#define DNS_BIN_QUERY  UINT64_C(1)
#define DNS_BIN_PACKET (UINT64_C(1) << 32)

/*
 * All that is counted of a server. What every query adds to is in one cache line, and a bin; what
 * every answer adds to in another, and a bucket of the latencies.
 */
struct dns_totals {
	/* By what leaves: messages to port 53 that are queries. */
	__u64 queries[DNS_TRANSPORTS]; /* with repeats */
	__u64 retransmissions; /* of those: the same id and question again, not answered yet */
	__u64 edns;            /* of those: with an OPT record */
	__u64 other_packets;   /* to its port 53, but for the queries over UDP */
	__u64 dot_packets;     /* to its TCP port 853 */
	__u64 malformed;       /* messages of either direction that could not be read in full */
	__u64 evicted;         /* queries whose slot another took before an answer came */
	/* By what comes: answers from port 53. */
	__u64 responses[DNS_RCODES];        /* with those that are late */
	__u64 latency_ns;                   /* sum over those that are not */
	__u64 latency[DNS_LATENCY_BUCKETS]; /* of the same */
	__u64 late;                         /* belonged to no pending query */
	__u64 truncated;                    /* with the TC bit: to be repeated over TCP */
	__u64 cluster_answers;              /* NOERROR to a name with DNS_SUFFIX_CLUSTER */
	/* By user space; 0 in the kernel. */
	__u64 answered, packets; /* sums of the above */
	__u64 unanswered;        /* by the sweep, or evicted */
	__u64 reserved[2];
};

/* Element of the array server_counts, which user space maps; servers has each key's index. */
struct dns_server {
	struct dns_totals totals;
	__u64 bins[DNS_BINS];
};

_Static_assert(sizeof(struct dns_key) == 20, "a key without padding");

/* Key of the map rows: client, server and kind of question. No padding. */
struct dns_row_key {
	struct dns_key server; /* all zero for those that found no room in servers */
	__u8 source_family;    /* of source: 0 unless the cgroup is the root and tells nothing */
	__u8 type;             /* enum dns_type_class */
	__u8 suffix;           /* enum dns_suffix_class */
	__u8 reserved;
	__u8 source[16]; /* the client's address */
	__u64 cgroup;    /* inode of its directory */
};

/* Element of the array row_counts, of which the map rows has the index of each key. */
struct dns_row {
	__u64 queries;  /* with repeats; they add up to those of the server less what was lost */
	__u64 nxdomain; /* answers that belonged to them */
	__u64 retransmissions;
	__u64 reserved;
};

_Static_assert(sizeof(struct dns_row_key) == 48, "a key without padding");

#define DNS_CACHE_ENTRIES 1024 /* a power of two */

/* Element of the array cache: the slots of a recent client. */
struct dns_cache_entry {
	struct dns_row_key client;
	__u64 slots; /* index of row_counts in the upper half, of server_counts in the lower */
	__u64 tag;   /* over all of it, and dns_control.generation */
};

_Static_assert(sizeof(struct dns_cache_entry) == 64, "a cache line");

/* A query that waits for its answer. Free when sent_ns is 0. */
struct dns_pending {
	__u64 sent_ns;  /* the first time */
	__u64 endpoint; /* the port of UDP, the cookie of a TCP socket */
	__u64 slots;    /* where it is counted, as in dns_cache_entry */
	__u32 question; /* hash of lower-cased name and type */
	__u16 id;
	__u8 family; /* 4 or 6: of server */
	__u8 suffix; /* enum dns_suffix_class */
	__u8 server[16];
	__u64 reserved[2];
};

/*
 * How many queries may wait at once: 1,600 a second without any answer. Each has one way in the
 * primary buckets, normally the only cache line that it touches; when that is taken, those of an
 * overflow bucket.
 */
#define DNS_WAYS     4
#define DNS_PRIMARY  256  /* the first buckets; a power of two, as the next */
#define DNS_OVERFLOW 2048 /* those behind them */

/* Element of the array pending, which user space maps. */
struct dns_bucket {
	struct dns_pending ways[DNS_WAYS];
};

_Static_assert(sizeof(struct dns_pending) == 64, "a cache line");

/* Value of the map sources: packets to the watched addresses, by the address they came from. */
struct dns_source {
	__u64 packets;
	__u64 last_ns; /* when the last of them was sent */
	__u32 bins[DNS_BINS];
};

/* Record of the ring buffer samples. */
#define DNS_SAMPLE_NAME 128

struct dns_sample {
	struct dns_key server;
	__u16 type;   /* as in the message */
	__u16 length; /* of name; the first DNS_SAMPLE_NAME bytes of a longer one */
	__u64 cgroup;
	__u8 name[DNS_SAMPLE_NAME]; /* as in the message: length, label, ... */
};

/* Suffixes by how many labels they have, at most DNS_SUFFIX_LABELS; hash 0 is a free slot. */
#define DNS_SUFFIX_LABELS 6
#define DNS_SUFFIX_SLOTS  4

struct dns_suffix {
	__u64 hash;  /* dns_suffix_hash() of headroom/bpf/dns_hash.h */
	__u64 class; /* enum dns_suffix_class */
};

struct dns_suffixes {
	__u64 used; /* bit n: there is one of n + 1 labels */
	struct dns_suffix slots[DNS_SUFFIX_LABELS][DNS_SUFFIX_SLOTS];
};

/* Addresses whose packets, of any protocol, share a budget. */
#define DNS_WATCH_IPV4 6
#define DNS_WATCH_IPV6 4

struct dns_watch {
	__u32 ipv4[DNS_WATCH_IPV4];    /* 0 is a free slot */
	__u64 ipv6[DNS_WATCH_IPV6][2]; /* as it lies in the packet */
};

/* In a page that user space reads and writes without a system call. */
struct dns_control {
	/* All that every query needs, in one cache line. */
	__u32 sample_share; /* names sampled, in 2^32ths of the queries; 0: none */
	__u32 reserved;
	__u64 samples_most; /* at most this many in total: each second adds its share */
	__u64 root_cgroup;  /* inode of the cgroup that tells nothing: 1, the root of all */
	__u64 watching;     /* whether there is anything in watch */
	__u64 bin;          /* by the programs: the last that was counted into */
	__u64 generation;   /* rises when an index was taken away from its key; never 0 */
	__u64 overflow;     /* by both: queries in overflow buckets; at 0 none is searched there */
	struct dns_suffixes suffixes;
	struct dns_watch watch;
	/* Written by the programs. */
	__u64 lost_servers; /* events counted under the zero key for want of room */
	__u64 lost_rows;    /* queries that found no room in rows */
	__u64 lost_sources; /* watched packets counted under the zero key for want of room */
	__u64 made;         /* keys added to servers and rows */
	__u64 samples;      /* names sampled */
	__u64 lost_samples; /* names that found no room in the ring buffer */
	__u64 fragments;    /* packets without ports: not the first fragment of a datagram */
	__u64 resyncs;      /* TCP: where a message begins was not known, and guessed */
	__u64 cut;          /* TCP: segments with more messages than one pass takes */
};
