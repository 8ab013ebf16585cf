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

static void *dns_open(const struct host *host, struct facts *facts, struct sd_event *event)
{
	struct dns_sensor *sensor = must(calloc(1, sizeof(*sensor)));
	char why[TUNER_WHY_MAX];

	sensor->host = host;
	sensor->names = &facts->names;
	sensor->cgroups =
		cgroups_open(host, sensor->names, cgroup_root_open(host, NULL, why, sizeof(why)));
	sensor->watch = event;
	return sensor;
}

/* ---- the BPF programs ---- */

static bool programs_due(void *self, void **programs)
{
	struct dns_sensor *sensor = self;

	if (now_us() < sensor->next_load_us)
		return false;
	sensor->next_load_us = UINT64_MAX;
	*programs = steal(sensor->unattached);
	return true;
}

static int load_programs(const struct host *host, void **programs, char why[static TUNER_WHY_MAX])
{
	struct dns_bpf *bpf = *programs ? *programs : dns_bpf_load(why);
	int r = bpf ? dns_bpf_attach(bpf, host, why) : -ENOTSUP;

	if (r < 0 && r != -EPERM)
		dns_bpf_close(steal(bpf));
	*programs = bpf;
	return r;
}

static void adopt_programs(void *self, void *programs, const char *why)
{
	struct dns_sensor *sensor = self;

	set_text(sensor->why, why);
	if (programs && why[0]) {
		sensor->unattached = programs;
		sensor->next_load_us = now_us() + ATTACH_EVERY_US;
	} else if (programs) {
		sensor->bpf = programs;
		sensor->since_us = realtime_us();
		if (sensor->paused)
			dns_pause(sensor);
	}
}

static void unload_programs(void *programs)
{
	dns_bpf_close(programs);
}

static const struct bpf_ops dns_programs = {
	programs_due, load_programs, adopt_programs, unload_programs, NULL};

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
	.limits = dns_limits,
	.entries = dns_entries,
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
	.bpf = &dns_programs,
	.tasks[TASK_SAMPLE] = {dns_sample_request, dns_sample, dns_sample_adopt, NULL},
	.memory_size = sizeof(struct dns_memory),
	.decide = dns_decide,
	.document = dns_make_document,
	.metrics = dns_put_metrics,
	.pause = dns_pause,
	.close = dns_close,
};
