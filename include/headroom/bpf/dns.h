/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once

/*
 * The maps that bpf/dns.bpf.c shares with user space. Counters never fall. Times are
 * CLOCK_MONOTONIC in nanoseconds, addresses are in network order.
 */

#include <linux/types.h>

#define DNS_SERVERS_MAX 1024  /* with the zero key, which counts servers without a slot */
#define DNS_ROWS_MAX    16384 /* pairs of a client and a kind of question */
#define DNS_SOURCES_MAX 256   /* with the zero key, which counts sources without a slot */

#define DNS_CAST 0x63617374 /* operand of the instruction that dns_bpf_load() can replace */

/* A query is unanswered after 5 s, the timeout of glibc and musl: resolv.conf(5). */
#define DNS_TIMEOUT_NS UINT64_C(5000000000)
/* An answer that comes this long after its query is still recognised, as late. */
#define DNS_KEPT_NS UINT64_C(35000000000)

/* A bin is 1/16 second: bin number (time / DNS_BIN_NS) % DNS_BINS. */
#define DNS_BINS            64
#define DNS_BINS_PER_SECOND 16
#define DNS_BIN_NS          UINT64_C(62500000)

/* Bucket i counts the latencies up to bound i, the last one all others. A power of two. */
#define DNS_LATENCY_BUCKETS 16

static const __u64 dns_latency_bounds[DNS_LATENCY_BUCKETS - 1] = {100000, 250000, 500000, 1000000,
	2500000, 5000000, 10000000, 25000000, 50000000, 100000000, 250000000, 500000000, 1000000000,
	2500000000, DNS_TIMEOUT_NS};

/* Binary search: the number of bounds that the latency exceeds. */
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

enum dns_type_class {
	DNS_TYPE_OTHER,
	DNS_TYPE_A,
	DNS_TYPE_AAAA,
	DNS_TYPE_PTR,
	DNS_TYPE_SRV,
	DNS_TYPES,
};

/* The class of a name's suffix in struct dns_suffixes. */
enum dns_suffix_class {
	DNS_SUFFIX_NONE,
	DNS_SUFFIX_CLUSTER, /* a cluster domain */
	DNS_SUFFIX_SEARCH,  /* any other search domain */
	DNS_SUFFIXES,
};

/* Key of the maps servers and sources. The zero key counts without a slot; its index is 0. */
struct dns_key {
	__u32 family;     /* AF_INET, AF_INET6 */
	__u8 address[16]; /* IPv4 in the first four bytes, the rest zero */
};

/* Increments of a bin: the lower half counts queries, the upper half packets to port 53. */
#define DNS_BIN_QUERY  UINT64_C(1)
#define DNS_BIN_PACKET (UINT64_C(1) << 32)

/*
 * The counters of a server. A query changes one cache line and a bin; an answer changes another
 * cache line and a bucket of the latencies.
 */
struct dns_totals {
	/* Messages to port 53. */
	__u64 queries[DNS_TRANSPORTS]; /* with retransmissions */
	__u64 retransmissions;         /* same id and question before the answer came */
	__u64 edns;                    /* queries with an OPT record */
	__u64 other_packets;           /* packets to port 53 except queries over UDP */
	__u64 dot_packets;             /* to TCP port 853 */
	__u64 malformed;               /* messages of either direction with a parse error */
	__u64 displaced;               /* pending queries that lost their slot to newer ones */
	/* Answers from port 53. */
	__u64 responses[DNS_RCODES];        /* with late ones */
	__u64 latency_ns;                   /* sum, without late answers */
	__u64 latency[DNS_LATENCY_BUCKETS]; /* without late answers */
	__u64 late;                         /* after DNS_TIMEOUT_NS, or a second answer */
	__u64 truncated;                    /* answers with the TC bit */
	__u64 cluster_answers;              /* NOERROR to a name with DNS_SUFFIX_CLUSTER */
	__u64 expired;                      /* as displaced, but after DNS_TIMEOUT_NS */
	/* Only user space counts these. */
	__u64 answered, packets; /* sums */
	__u64 unanswered;        /* timed out */
	__u64 unknown;           /* neither an answer nor its absence was seen */
};

/* Element of the mapped array server_counts; the map servers has the index of each key. */
struct dns_server {
	struct dns_totals totals;
	__u64 bins[DNS_BINS];
};

_Static_assert(sizeof(struct dns_key) == 20, "a key without padding");

/* Key of the map rows: client, server and kind of question. No padding. */
struct dns_row_key {
	struct dns_key server; /* zero for servers without a slot */
	__u8 source_family;    /* of source; 0 unless the cgroup is the root */
	__u8 type;             /* enum dns_type_class */
	__u8 suffix;           /* enum dns_suffix_class */
	__u8 reserved;
	__u8 source[16]; /* the client's address */
	__u64 cgroup;    /* inode of its directory */
};

/* Element of the mapped array row_counts; the map rows has the index of each key. */
struct dns_row {
	__u64 queries;  /* with retransmissions */
	__u64 nxdomain; /* answers to these queries */
	__u64 retransmissions;
	__u64 failures; /* answers FORMERR, SERVFAIL, NOTIMP and REFUSED to these queries */
};

_Static_assert(sizeof(struct dns_row_key) == 48, "a key without padding");

#define DNS_CACHE_ENTRIES 1024 /* a power of two */

/* Element of the array cache: the slots of a recent client. */
struct dns_cache_entry {
	struct dns_row_key client;
	__u64 slots; /* upper half: index in row_counts; lower half: in server_counts */
	__u64 tag;   /* hash of client, slots and dns_control.generation */
};

_Static_assert(sizeof(struct dns_cache_entry) == 64, "a cache line");

/*
 * A query, until a newer one needs its way. The lowest bits of sent_ns are an enum dns_fate; 0 is a
 * free way.
 */
struct dns_pending {
	__u64 sent_ns;     /* of the first transmission */
	__u64 cookie;      /* of the socket */
	__u32 question;    /* hash of lower-cased name and type */
	__u32 answerer;    /* hash of the address that the answer comes from: see DNS_CERTAIN */
	__u16 id;          /* of the message */
	__u16 port;        /* of the socket; 0 for TCP */
	__u16 row;         /* index in row_counts, or DNS_NO_ROW */
	__u16 server : 14; /* index in server_counts */
	__u16 suffix : 2;  /* enum dns_suffix_class */
};

enum dns_fate {
	DNS_FATE_OPEN,
	DNS_FATE_ANSWERED,
	DNS_FATE_LATE,
	DNS_FATE_MASK,
};

#define DNS_NO_ROW 0xffff
#define DNS_CERTAIN                                                                  \
	1 /* in answerer: the address is not translated, or the translation is known \
	   */

/*
 * A query has two ways in the primary buckets, one cache line. If both are in use, the query has
 * the ways of an overflow bucket: 16,384 queries wait for their answers in all.
 */
#define DNS_WAYS     8
#define DNS_PRIMARY  128  /* buckets; a power of two */
#define DNS_OVERFLOW 2048 /* buckets behind the primary ones; a power of two */

/* Element of the mapped array pending. */
struct dns_bucket {
	struct dns_pending ways[DNS_WAYS];
};

_Static_assert(sizeof(struct dns_pending) == 32, "half a cache line");

/* Value of the map sources: packets from one address to the watched addresses. */
struct dns_source {
	__u64 packets;
	__u64 last_ns; /* time of the last packet */
	__u32 bins[DNS_BINS];
};

/* Record of the ring buffer samples. */
#define DNS_SAMPLE_NAME 128

struct dns_sample {
	struct dns_key server;
	__u32 length;               /* of name */
	__u8 name[DNS_SAMPLE_NAME]; /* the question's first bytes in wire format */
};

/* Suffixes by their number of labels, at most DNS_SUFFIX_LABELS. Hash 0 is a free slot. */
#define DNS_SUFFIX_LABELS 6
#define DNS_SUFFIX_SLOTS  4

struct dns_suffix {
	__u64 hash;  /* of dns_suffix_hash() */
	__u64 class; /* enum dns_suffix_class */
};

struct dns_suffixes {
	__u64 used; /* bit n: slots[n] has suffixes of n + 1 labels */
	struct dns_suffix slots[DNS_SUFFIX_LABELS][DNS_SUFFIX_SLOTS];
};

/* Addresses that share a budget of packets of any protocol. */
#define DNS_WATCH_IPV4 6
#define DNS_WATCH_IPV6 4

struct dns_watch {
	__u32 ipv4[DNS_WATCH_IPV4];    /* 0 is a free slot */
	__u64 ipv6[DNS_WATCH_IPV6][2]; /* 0 is a free slot */
};

/*
 * Connections with lost messages, by the low bits of the hash of their cookie: whether queries sent
 * before that time were answered is unknown.
 */
#define DNS_LOSSY 256 /* a power of two */

#define DNS_LOSSY_INDEX(cookie) ((__u32)((cookie) * DNS_HASH_FACTOR >> 40) & (DNS_LOSSY - 1))

/* A removed cgroup. */
struct dns_ended {
	__u64 cgroup;
	char path[248];
};

#define DNS_ENDED 256 /* a power of two */

/* Mapped pages that user space reads and writes. */
struct dns_control {
	/* Every query needs these fields, which are in one cache line. */
	__u64 sample_share; /* sampled names, in 2^-32 of the queries; 0: none */
	__u64 samples_most; /* sampling stops at this total; user space raises it every second */
	__u64 root_cgroup;  /* inode of the root cgroup, which identifies no workload */
	__u64 watching;     /* number of addresses in watch */
	__u64 bin;          /* the last used bin; the programs write it */
	__u64 generation;   /* rises when a key loses its index; never 0 */
	__u64 overflow_ns;  /* time of the last query in an overflow bucket, to a millisecond */
	struct dns_suffixes suffixes;
	struct dns_watch watch;
	/* The programs write the rest. */
	__u64 lost_servers; /* events of servers without a slot */
	__u64 lost_rows;    /* queries of rows without a slot */
	__u64 lost_sources; /* watched packets of sources without a slot */
	__u64 made;         /* keys added to servers and rows */
	__u64 samples;      /* sampled names */
	__u64 fragments;    /* packets without ports: later fragments of a datagram */
	__u64 resyncs;      /* TCP: times that the start of a message was unknown */
	__u64 uninspected;  /* packets with messages or headers that were not inspected */
	__u64 unmatched;    /* answers that belong to no query of this node */
	/* The time of the last resync, by connection: see DNS_LOSSY. */
	__u64 lossy_ns[DNS_LOSSY];
	__u8 overflow_used[DNS_OVERFLOW]; /* 0: no query in this bucket waits for its answer */
	__u64 n_ended;
	struct dns_ended ended[DNS_ENDED];
};
