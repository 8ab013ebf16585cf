/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TUNERS_DNS_REPORT_H
#define TUNERS_DNS_REPORT_H

/* What this tuner reports: metrics, and the member dns of /v1/status. */

#include "tuners/dns/dns.h"

/* What could not be counted in full, since the start. */
enum dns_loss {
	DNS_LOST_SERVERS,   /* messages of servers that found no room: counted under other */
	DNS_LOST_ROWS,      /* queries whose workload found no room */
	DNS_LOST_PENDING,   /* queries whose slot another took before an answer came */
	DNS_LOST_POLLS,     /* polls that came too late to tell seconds apart */
	DNS_LOST_STREAMS,   /* TCP: where a message begins was not known */
	DNS_LOST_FRAGMENTS, /* packets without ports */
	DNS_LOST_MALFORMED, /* messages that could not be read in full */
	DNS_LOST_SOURCES,   /* link-local packets whose source found no room */
	DNS_LOSSES,
};

struct dns_report {
	const struct dns_seen *seen;
	const struct dns_memory *memory;
	uint64_t losses[DNS_LOSSES];
	const char *cloud; /* "aws"; empty: none known */
	bool names;        /* they are sampled */
	bool trusted;      /* the reader may see them */
};

const char *dns_loss_name(enum dns_loss loss);         /* "servers" */
const char *dns_rcode_name(enum dns_rcode_class code); /* "NXDOMAIN" */

/* The totals of all servers without a label. */
struct dns_totals dns_sum_others(const struct dns_server_table *table);

void dns_put_metrics(struct metric_sink *sink, const struct dns_report *report);

/* The caller's: null when nothing is counted; NULL without memory. */
struct cJSON *dns_make_document(const struct dns_report *report);

#endif
