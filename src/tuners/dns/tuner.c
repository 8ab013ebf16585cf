/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/sense.h"
#include "tuners/table.h"

#include "base/worker.h"

#include <malloc.h>

#define SAMPLE_EVERY_US (60 * USEC_PER_SEC)
#define ATTACH_EVERY_US (5 * USEC_PER_SEC)

/* What may block: loading, which takes the verifier 0.1 s or more, and the kubelet. */
struct request {
	struct host host;
	bool load, attached, kubelet;
	struct dns_bpf *bpf;
	char why[TUNER_WHY_MAX];
	struct kubelet_seen seen;
};

static void *dns_open(const struct host *host, bool watch)
{
	struct dns_sensor *sensor = must(calloc(1, sizeof(*sensor)));
	char why[TUNER_WHY_MAX];

	sensor->host = host;
	sensor->cgroups = cgroups_open(host, cgroup_root_open(host, why, sizeof(why)));
	sensor->watch = sensor->load = watch;
	return sensor;
}

static void *dns_sample_request(void *self, bool now)
{
	struct dns_sensor *sensor = self;
	struct request *request;

	if (!sensor->watch || (!now && now_us() < sensor->next_sample_us))
		return NULL;
	request = must(calloc(1, sizeof(*request)));
	request->host = *sensor->host;
	request->load = sensor->load;
	request->bpf = steal(sensor->unattached);
	request->kubelet = sensor->config.cluster_auto && !request->bpf;
	sensor->load = false;
	sensor->next_sample_us = next_turn_us(now_us(), SAMPLE_EVERY_US);
	return request;
}

static void dns_sample(void *data, const struct wait *wait)
{
	struct request *request = data;
	int r = 0;

	(void)wait; /* nothing waits for another program */
	if (request->load)
		request->bpf = dns_bpf_load(request->why);
	if (request->bpf)
		r = dns_bpf_attach(request->bpf, &request->host, request->why);
	request->attached = request->bpf && r == 0;
	if (r < 0 && r != -EPERM)
		dns_bpf_close(steal(request->bpf));
	if (request->kubelet)
		kubelet_read(&request->host, &request->seen);
}

static void dns_sample_take(void *self, void *data)
{
	struct request *request = data;
	struct dns_sensor *sensor = self;

	if (sensor && (request->load || request->bpf))
		copy_text(sensor->why, sizeof(sensor->why), request->why);
	if (sensor && request->attached) {
		sensor->bpf = steal(request->bpf);
	} else if (sensor && request->bpf) {
		sensor->unattached = steal(request->bpf);
		sensor->next_sample_us = now_us() + ATTACH_EVERY_US;
	}
	if (sensor && request->kubelet) {
		const struct kubelet_values *values = &request->seen.values;
		struct dns_host_env *env = &sensor->env;

		env->n_kubelet = 0;
		for (size_t i = 0; i < values->n_cluster_dns; i++)
			env->n_kubelet += dns_address_parse(
				values->cluster_dns[i], &env->kubelet[env->n_kubelet]);
		/* The next poll passes domains and addresses to the kernel. */
		sensor->refreshed_at_us = 0;
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
static void dns_attach(void *self, struct sd_event *event)
{
	struct dns_sensor *sensor = self;
	void *request = dns_sample_request(sensor, true);
	int r;

	if (!request)
		return;
	r = worker_new(event, &sensor->loader);
	if (r == 0)
		r = worker_submit(sensor->loader, dns_sample, on_loaded, request, sensor);
	if (r >= 0)
		return;
	dns_sample_take(NULL, request);
	snprintf(sensor->why, sizeof(sensor->why), "no thread to load BPF programs: %s",
		strerror(-r));
}

static void dns_configure(void *self, const struct config *config)
{
	struct config_fault_list none = {0}; /* it was validated */
	struct dns_sensor *sensor = self;

	dns_config_read(&sensor->config, config, &none);
	sensor->refreshed_at_us = sensor->next_sample_us = 0;
}

static void dns_sense_op(void *self)
{
	struct dns_sensor *sensor = self;

	if (sensor->bpf || sensor->why[0])
		worker_free(steal(sensor->loader));
	dns_sense(sensor, now_us());
}

static void dns_explain(const void *self, char why[static TUNER_WHY_MAX])
{
	const struct dns_sensor *sensor = self;

	copy_text(why, TUNER_WHY_MAX, sensor->why);
}

static void dns_close(void *self)
{
	struct dns_sensor *sensor = self;

	worker_free(sensor->loader);
	dns_bpf_close(sensor->unattached);
	dns_bpf_close(sensor->bpf);
	free(sensor->clients.clients);
	dns_server_table_clear(&sensor->seen.table);
	cgroups_close(sensor->cgroups);
	free(sensor);
}

const struct tuner_ops dns_tuner = {
	.name = "dns",
	.summary = "Counts the DNS queries that leave this node, by upstream, second and workload, "
		   "and holds them against what the cloud allows one machine.",
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
	.decide = dns_decide,
	.explain = dns_explain,
	.document_name = "dns",
	.document = dns_make_document,
	.view = &dns_view,
	.metrics = dns_put_metrics,
	.close = dns_close,
};
