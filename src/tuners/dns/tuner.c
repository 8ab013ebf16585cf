/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/sense.h"

#define SAMPLE_EVERY_US (60 * USEC_PER_SEC)
#define ATTACH_EVERY_US (5 * USEC_PER_SEC)

/* The counters continue when the tuner is switched on again. */
static void dns_pause(void *self)
{
	struct dns_sensor *sensor = self;

	sensor->paused = true;
	if (!sensor->bpf)
		return;
	dns_bpf_detach(sensor->bpf);
	sensor->unattached = steal(sensor->bpf);
	sensor->seen.watched = false;
	sensor->next_load_us = 0;
}

static void *dns_open(const struct host *host, struct facts *facts, struct tuner_loop *loop)
{
	struct dns_sensor *sensor = must(calloc(1, sizeof(*sensor)));
	char why[TUNER_WHY_MAX];

	sensor->host = host;
	sensor->names = &facts->names;
	sensor->cgroups =
		cgroups_open(host, sensor->names, cgroup_root_open(host, NULL, why, sizeof(why)));
	sensor->watch = loop;
	if (loop)
		loop->pause = dns_pause;
	return sensor;
}

/* ---- the job that loads the BPF programs ---- */

struct load {
	struct host host;
	struct dns_bpf *bpf;
	bool attached;
	char why[TUNER_WHY_MAX];
};

static void *load_request(void *self, const void *, bool)
{
	struct dns_sensor *sensor = self;
	struct load *load;

	if (now_us() < sensor->next_load_us)
		return NULL;
	sensor->next_load_us = UINT64_MAX;
	load = must(calloc(1, sizeof(*load)));
	load->host = *sensor->host;
	load->bpf = steal(sensor->unattached);
	strcpy(load->why, "no thread to load BPF programs");
	return load;
}

static void load_run(void *request, const struct wait *)
{
	struct load *load = request;
	int r = 0;

	load->why[0] = '\0';
	if (!load->bpf)
		load->bpf = dns_bpf_load(load->why);
	if (load->bpf)
		r = dns_bpf_attach(load->bpf, &load->host, load->why);
	load->attached = load->bpf && r == 0;
	if (r < 0 && r != -EPERM)
		dns_bpf_close(steal(load->bpf));
}

static void load_adopt(void *self, void *request)
{
	struct dns_sensor *sensor = self;
	struct load *load = request;

	if (sensor)
		set_text(sensor->why, load->why);
	if (sensor && load->attached) {
		sensor->bpf = steal(load->bpf);
		sensor->since_us = realtime_us();
		if (sensor->paused)
			dns_pause(sensor);
	} else if (sensor && load->bpf) {
		sensor->unattached = steal(load->bpf);
		sensor->next_load_us = now_us() + ATTACH_EVERY_US;
	}
	dns_bpf_close(load->bpf);
	free(load);
}

/* ---- samples: the kubelet ---- */

struct request {
	struct host host;
	struct kubelet_seen seen;
};

static void *dns_sample_request(void *self, const void *, bool now)
{
	struct dns_sensor *sensor = self;
	struct request *request;

	if (!sensor->watch || !sensor->config.cluster_auto ||
		(!now && now_us() < sensor->next_sample_us))
		return NULL;
	sensor->next_sample_us = next_turn_us(now_us(), SAMPLE_EVERY_US);
	request = must(calloc(1, sizeof(*request)));
	request->host = *sensor->host;
	return request;
}

static void dns_sample(void *data, const struct wait *)
{
	struct request *request = data;

	kubelet_read(&request->host, &request->seen);
}

static void dns_sample_adopt(void *self, void *data)
{
	struct request *request = data;
	struct dns_sensor *sensor = self;
	const struct kubelet_values *values = &request->seen.values;

	if (sensor) {
		struct dns_host_env *env = &sensor->env;

		env->n_kubelet = 0;
		for (size_t i = 0; i < values->n_cluster_dns; i++)
			env->n_kubelet += dns_address_parse(
				values->cluster_dns[i], &env->kubelet[env->n_kubelet]);
		/* The next poll passes domains and addresses to the kernel. */
		sensor->refreshed_at_us = 0;
	}
	free(request);
}

static void dns_configure(void *self, const struct config *config)
{
	struct config_fault_list none = {0}; /* it was validated */
	struct dns_sensor *sensor = self;

	dns_config_read(&sensor->config, config, &none);
	sensor->refreshed_at_us = sensor->next_sample_us = 0;
	sensor->paused = false;
}

static void dns_close(void *self, void *memory)
{
	struct dns_sensor *sensor = self;

	dns_memory_clear(memory);
	dns_bpf_close(sensor->unattached);
	dns_bpf_close(sensor->bpf);
	free(sensor->clients.clients);
	dns_server_table_clear(&sensor->seen.table);
	cgroups_close(sensor->cgroups);
	free(sensor);
}

const struct tuner_tables dns_tables = {
	.summary = "Counts the DNS queries of this node by server and workload, and compares them "
		   "with the limits of cloud resolvers for one machine.",
	.explanations = dns_explanations,
	.conditions = dns_conditions,
	.metric_rows = dns_metric_rows,
	.capabilities = dns_capabilities,
	.view = &dns_view,
};

const struct tuner_ops dns_tuner = {
	.name = "dns",
	.tables = &dns_tables,
	.validate = dns_config_validate,
	.open = dns_open,
	.configure = dns_configure,
	.sense = dns_sense,
	.jobs = {[JOB_LOAD] = {load_request, load_run, load_adopt, NULL},
		[JOB_SAMPLE] = {dns_sample_request, dns_sample, dns_sample_adopt, NULL}},
	.memory_size = sizeof(struct dns_memory),
	.decide = dns_decide,
	.document = dns_make_document,
	.metrics = dns_put_metrics,
	.close = dns_close,
};
