/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/dns.h"
#include "tuners/dns/sense.h"
#include "tuners/table.h"

#include "base/util.h"
#include "base/worker.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

#define SAMPLE_EVERY_US (60 * USEC_PER_SEC)

struct dns {
	struct dns_sensor sensor;
	struct dns_seen seen;
	bool watch, load; /* the programs are wanted; they are still to be loaded */
	uint64_t next_sample_us;
	struct worker *loader; /* NULL when nothing is being loaded */
	char why[TUNER_WHY_MAX];
};

/* What may block: loading, which takes the verifier a tenth of a second or more, and the kubelet.
 */
struct request {
	struct host host;
	bool load, kubelet;
	struct dns_bpf *bpf;
	char why[TUNER_WHY_MAX];
	struct kubelet_seen seen;
};

static int dns_open(const struct host *host, bool watch, void **self)
{
	struct dns *dns = calloc(1, sizeof(*dns));
	int r;

	if (!dns)
		return -ENOMEM;
	dns->watch = dns->load = watch;
	r = dns_sensor_open(&dns->sensor, host);
	if (r < 0) {
		free(dns);
		return r;
	}
	dns->seen.table = &dns->sensor.table;
	*self = dns;
	return 0;
}

static void *dns_sample_request(void *self, bool now)
{
	struct dns *dns = self;
	struct request *request;

	if (!dns->watch || (!now && now_us() < dns->next_sample_us))
		return NULL;
	request = calloc(1, sizeof(*request));
	if (!request)
		return NULL;
	request->host = *dns->sensor.host;
	request->load = dns->load;
	request->kubelet = dns->sensor.config.cluster_auto;
	dns->load = false;
	dns->next_sample_us = now_us() + SAMPLE_EVERY_US;
	return request;
}

static void dns_sample(void *data, const struct wait *wait)
{
	struct request *request = data;

	(void)wait; /* nothing waits for another program */
	if (request->load)
		request->bpf = dns_bpf_open(&request->host, request->why);
	/* What was tried before it worked is no reason. */
	if (request->bpf)
		request->why[0] = '\0';
	if (request->kubelet)
		kubelet_read(&request->host, &request->seen);
}

static void dns_sample_take(void *self, void *data)
{
	struct request *request = data;
	struct dns *dns = self;

	if (dns && request->load) {
		copy_text(dns->why, sizeof(dns->why), request->why);
		dns->sensor.bpf = steal(request->bpf);
	}
	if (dns) {
		dns_host_env_take_kubelet(&dns->sensor.env, &request->seen.values);
		/* The next poll passes domains and addresses to the kernel. */
		dns->sensor.refreshed_at_us = 0;
	}
	dns_bpf_close(request->bpf);
	/* Loading took megabytes for a moment. */
	if (request->load)
		malloc_trim(0);
	free(request);
}

static void on_loaded(void *request, void *self)
{
	dns_sample_take(self, request);
}

/* The first sample has a thread of its own, with the privileges that the agent then gives up. */
static int dns_attach(void *self, struct sd_event *event)
{
	struct dns *dns = self;
	void *request = dns_sample_request(dns, true);
	int r;

	if (!request)
		return 0;
	r = worker_new(event, &dns->loader);
	if (r == 0)
		r = worker_submit(dns->loader, dns_sample, on_loaded, request, dns);
	if (r < 0)
		dns_sample_take(NULL, request);
	return r;
}

static int dns_configure(void *self, const struct config *config)
{
	struct dns *dns = self;

	dns_config_read(&dns->sensor.config, config);
	dns->sensor.refreshed_at_us = 0;
	dns->next_sample_us = 0;
	return 0;
}

static void dns_sense_op(void *self)
{
	struct dns *dns = self;

	if (dns->sensor.bpf || dns->why[0])
		worker_free(steal(dns->loader));
	dns_sense(&dns->sensor, &dns->seen, now_us());
}

static int dns_decide_op(
	const void *self, const struct decide_input *input, void *memory, struct proposal *proposal)
{
	const struct dns *dns = self;

	return dns_decide(&dns->seen, memory, input, proposal);
}

static enum tuner_state dns_state(const void *self, char why[static TUNER_WHY_MAX])
{
	const struct dns *dns = self;

	copy_text(why, TUNER_WHY_MAX, dns->why);
	return why[0] ? TUNER_DEGRADED : TUNER_ACTIVE;
}

static struct dns_report report_of(const struct dns *dns, const void *memory)
{
	static const struct dns_control none;
	const struct dns_server_table *table = &dns->sensor.table;
	const struct dns_control *control =
		dns->seen.watched ? dns_bpf_control(dns->sensor.bpf) : &none;

	return (struct dns_report){
		.seen = &dns->seen,
		.memory = memory,
		.losses =
			{
				/* Messages of servers, and queries of clients, without a slot. */
				{"servers", control->lost_servers},
				{"rows", control->lost_rows},
				/* Queries whose slot another took before an answer came. */
				{"pending", table->evicted},
				/* Polls that were too late to tell seconds apart. */
				{"looks", dns->sensor.coarse},
				/* TCP: where a message begins was not known. */
				{"streams", control->resyncs + control->cut},
				{"fragments", control->fragments},
				{"malformed", table->malformed},
				/* Link-local packets whose source found no slot. */
				{"sources", control->lost_sources},
			},
		.cloud = dns->sensor.env.cloud,
		.names = dns->sensor.config.names,
	};
}

static void dns_metrics(const void *self, const void *memory, struct metric_sink *sink)
{
	const struct dns *dns = self;
	struct dns_report report = report_of(dns, memory);

	if (dns->seen.watched)
		dns_put_metrics(sink, &report);
}

static struct cJSON *dns_document(const void *self, const void *memory, bool trusted)
{
	struct dns_report report = report_of(self, memory);

	report.trusted = trusted;
	return dns_make_document(&report);
}

static void dns_close(void *self)
{
	struct dns *dns = self;

	worker_free(dns->loader);
	dns_sensor_close(&dns->sensor);
	free(dns);
}

const struct tuner_ops dns_tuner = {
	.name = "dns",
	.summary = "Counts the DNS queries that leave this node, by upstream, second and workload, "
		   "and holds them against what the cloud allows one machine.",
	.options = dns_options,
	.limits = dns_limits,
	.explanations = dns_explanations,
	.conditions = dns_conditions,
	.metric_rows = dns_metric_rows,
	.capabilities = dns_capabilities,
	.validate = dns_config_validate,
	.open = dns_open,
	.attach = dns_attach,
	.configure = dns_configure,
	.sense = dns_sense_op,
	.sample_request = dns_sample_request,
	.sample = dns_sample,
	.sample_take = dns_sample_take,
	.memory_size = sizeof(struct dns_memory),
	.memory_clear = dns_memory_clear,
	.decide = dns_decide_op,
	.state = dns_state,
	.document_name = "dns",
	.document = dns_document,
	.view = &dns_view,
	.metrics = dns_metrics,
	.close = dns_close,
};
