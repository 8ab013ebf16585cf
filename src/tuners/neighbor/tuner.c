/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/neighbor/neighbor.h"
#include "tuners/table.h"

#include "base/cleanup.h"
#include "base/exposition.h"
#include "base/util.h"
#include "config/config.h"
#include "kernel/capability.h"
#include "tuners/neighbor/users.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <bpf/libbpf.h>

struct neighbor {
	struct neighbor_sensor sensor;
	struct neighbor_seen seen;
	struct neighbor_config config;
	char bpf_why[TUNER_WHY_MAX];   /* empty when BPF runs or was not asked for */
	char write_why[TUNER_WHY_MAX]; /* empty when thresholds can be written */
};

#define THRESHOLD_ROW(family, level, value, meaning)                                    \
	{                                                                               \
		.name = "neighbor." family ".gc_thresh" #level, .type = OPTION_COUNT,   \
		.max = INT32_MAX, .unit = "entries", .def = value, .sentence = meaning, \
	}

#define BELOW_IS_KEPT "Below this many entries the kernel collects nothing."
#define FORCED_ABOVE  "Above this many entries a new one forces a collection, every five seconds."
#define REFUSED_ABOVE "With this many collectable entries the kernel refuses any new one."
#define KEEP_SENTENCE "keep, in place of the three thresholds: leave what the node has."

static const char *const keep_words[] = {"keep", NULL};
static const char *const ceiling_words[] = {"auto", NULL};
static const char *const mode_words[] = {"enforce", "observe", "off", NULL};

const struct config_option neighbor_options[] = {
	{
		.name = "neighbor.mode",
		.type = OPTION_CHOICE,
		.words = mode_words,
		.sentence = "This tuner's own mode; empty: the agent's.",
	},
	{
		.name = "neighbor.ipv4",
		.type = OPTION_CHOICE,
		.words = keep_words,
		.sentence = KEEP_SENTENCE,
	},
	THRESHOLD_ROW("ipv4", 1, "80000", BELOW_IS_KEPT),
	THRESHOLD_ROW("ipv4", 2, "90000", FORCED_ABOVE),
	THRESHOLD_ROW("ipv4", 3, "100000", REFUSED_ABOVE),
	{
		.name = "neighbor.ipv6",
		.type = OPTION_CHOICE,
		.words = keep_words,
		.sentence = KEEP_SENTENCE,
	},
	THRESHOLD_ROW("ipv6", 1, "80000", BELOW_IS_KEPT),
	THRESHOLD_ROW("ipv6", 2, "90000", FORCED_ABOVE),
	THRESHOLD_ROW("ipv6", 3, "100000", REFUSED_ABOVE),
	{
		.name = "neighbor.lower",
		.type = OPTION_BOOL,
		.def = "false",
		.sentence = "Also set thresholds that are below what the administrator had.",
	},
	{
		.name = "neighbor.grow",
		.type = OPTION_BOOL,
		.def = "true",
		.sentence =
			"Raise gc_thresh2 and gc_thresh3 while a table fills, before it is full.",
	},
	{
		.name = "neighbor.ceiling",
		.type = OPTION_COUNT,
		.min = 1,
		.max = INT32_MAX,
		.words = ceiling_words,
		.unit = "entries",
		.def = "auto",
		.sentence =
			"Growth never raises gc_thresh3 above this; auto: 1 % of memory at 512 bytes an "
			"entry, at most 1048576.",
	},
	{0},
};

static const char *const neighbor_owned[] = {
	"net.ipv4.neigh.default.gc_thresh*",
	"net.ipv6.neigh.default.gc_thresh*",
	NULL,
};

static void option_name(char name[static 64], int family, int level)
{
	snprintf(name, 64, "neighbor.%s.gc_thresh%d",
		neighbor_family_name((enum neighbor_family)family), level);
}

static bool family_kept(const struct config *config, int family)
{
	return config_choice(config, family == NEIGHBOR_IPV4 ? "neighbor.ipv4" : "neighbor.ipv6") >=
	       0;
}

/* At most one fault a family: the first pair that is out of order, where a file gives one of it. */
static void validate_family(
	const struct config *config, int family, struct config_fault_list *faults)
{
	for (int level = 1; level < NEIGHBOR_LEVELS; level++) {
		char low[64], high[64];
		struct config_place place;

		option_name(low, family, level);
		option_name(high, family, level + 1);
		if (config_count(config, low, 0) <= config_count(config, high, 0))
			continue;
		place = config_where(config, low);
		if (place.line == 0)
			place = config_where(config, high);
		config_fault_add(faults, &place,
			"%s: %" PRIu64 " is above gc_thresh%d (%" PRIu64
			"): thresholds must not fall from level to level",
			low, config_count(config, low, 0), level + 1,
			config_count(config, high, 0));
		return;
	}
}

static void neighbor_validate(const struct config *config, struct config_fault_list *faults)
{
	for (int family = 0; family < NEIGHBOR_FAMILIES; family++)
		if (!family_kept(config, family))
			validate_family(config, family, faults);
}

/* Netlink needs CAP_NET_ADMIN, the file a writable mount: either will do. */
static void probe_writing(const struct neighbor_sensor *sensor, char why[static TUNER_WHY_MAX])
{
	const char *path = sensor->thresholds[NEIGHBOR_IPV4][0].path;
	char value[SETTING_VALUE_MAX];
	int r = host_read_value(sensor->host, path, value);

	if (r < 0) {
		snprintf(why, TUNER_WHY_MAX,
			"%s: %s: run in the host's network namespace (hostNetwork: true)", path,
			strerror(-r));
		return;
	}
	r = host_may_write(sensor->host, path);
	if (r < 0 && !capability_have(CAP_NET_ADMIN))
		snprintf(why, TUNER_WHY_MAX,
			"RTM_SETNEIGHTBL: %s, %s: %s: give CAP_NET_ADMIN or a writable /proc/sys",
			strerror(EPERM), path, strerror(-r));
}

static int neighbor_open(const struct host *host, bool watch, void **self)
{
	struct neighbor *neighbor = calloc(1, sizeof(*neighbor));
	int r;

	if (!neighbor)
		return -ENOMEM;
	r = neighbor_sensor_open(&neighbor->sensor, host, watch, neighbor->bpf_why);
	if (r < 0) {
		free(neighbor);
		return r;
	}
	probe_writing(&neighbor->sensor, neighbor->write_why);
	*self = neighbor;
	return 0;
}

static int neighbor_configure(void *self, const struct config *config)
{
	struct neighbor *neighbor = self;

	for (int family = 0; family < NEIGHBOR_FAMILIES; family++) {
		neighbor->config.families[family].keep = family_kept(config, family);
		for (int i = 0; i < NEIGHBOR_LEVELS; i++) {
			char name[64];

			option_name(name, family, i + 1);
			neighbor->config.families[family].threshold[i] =
				config_count(config, name, 0);
		}
	}
	neighbor->config.lower = config_bool(config, "neighbor.lower");
	neighbor->config.grow = config_bool(config, "neighbor.grow");
	neighbor->config.ceiling = config_count(config, "neighbor.ceiling", 0);
	return 0;
}

static void neighbor_sense_op(void *self)
{
	struct neighbor *neighbor = self;

	neighbor_sense(&neighbor->sensor, &neighbor->seen, now_us());
}

static int neighbor_decide_op(
	const void *self, const struct decide_input *input, void *memory, struct proposal *proposal)
{
	const struct neighbor *neighbor = self;

	return neighbor_decide(&neighbor->seen, &neighbor->config, input, memory, proposal);
}

static void neighbor_arm(void *self, const void *memory)
{
	struct neighbor *neighbor = self;

	neighbor_sensor_arm(&neighbor->sensor, memory);
}

static int neighbor_event_fd(const void *self)
{
	const struct neighbor *neighbor = self;

	return neighbor->sensor.ring ? ring_buffer__epoll_fd(neighbor->sensor.ring) : -1;
}

static void neighbor_drain(void *self)
{
	struct neighbor *neighbor = self;

	/* That there is a record matters, not what is in it. */
	ring_buffer__consume(neighbor->sensor.ring);
	neighbor->sensor.woken = true;
}

/* Without BPF nothing wakes the agent: the fuller a table, the sooner the next poll. */
static uint64_t neighbor_next_poll_us(const void *self, const void *memory)
{
	const struct neighbor *neighbor = self;
	uint64_t delay = 0;

	(void)memory;
	if (neighbor->sensor.users)
		return neighbor_users_next_poll_us(neighbor->sensor.users);
	for (int family = 0; neighbor->config.grow && family < NEIGHBOR_FAMILIES; family++) {
		uint64_t used = neighbor->seen.tables[family].collectable;
		uint64_t max = neighbor_table_max(&neighbor->seen.tables[family]);

		if (max > 0 && used * 4 >= max)
			return 20 * USEC_PER_MSEC;
		if (max > 0 && used * 10 >= max)
			delay = 100 * USEC_PER_MSEC;
	}
	return delay;
}

static enum tuner_state neighbor_state(const void *self, char why[static TUNER_WHY_MAX])
{
	const struct neighbor *neighbor = self;
	bool both = neighbor->write_why[0] && neighbor->bpf_why[0];

	why[0] = '\0';
	snprintf(why, TUNER_WHY_MAX, "%s%s%s", neighbor->write_why, both ? "; " : "",
		neighbor->bpf_why);
	return why[0] ? TUNER_DEGRADED : TUNER_ACTIVE;
}

static void sample_families(struct metric_sink *sink, const struct neighbor *neighbor,
	uint64_t (*value)(const struct neighbor_table_seen *table))
{
	for (int family = 0; family < NEIGHBOR_FAMILIES; family++)
		if (neighbor->seen.tables[family].stats_error == 0)
			metric_sample(sink, (double)value(&neighbor->seen.tables[family]),
				neighbor_family_name((enum neighbor_family)family), NULL);
}

static uint64_t entries(const struct neighbor_table_seen *table)
{
	return table->stats.entries;
}

static uint64_t collectable(const struct neighbor_table_seen *table)
{
	return table->collectable;
}

static uint64_t created(const struct neighbor_table_seen *table)
{
	return table->created;
}

static uint64_t refused(const struct neighbor_table_seen *table)
{
	return table->refused;
}

static uint64_t forced_gc(const struct neighbor_table_seen *table)
{
	return table->stats.forced_gc;
}

static void sample_thresholds(struct metric_sink *sink, const struct neighbor *neighbor)
{
	static const char *const levels[NEIGHBOR_LEVELS] = {"1", "2", "3"};

	for (int family = 0; family < NEIGHBOR_FAMILIES; family++)
		for (int i = 0; i < NEIGHBOR_LEVELS; i++)
			if (neighbor->seen.tables[family].threshold_error[i] == 0)
				metric_sample(sink,
					strtod(neighbor->seen.tables[family].threshold[i], NULL),
					neighbor_family_name((enum neighbor_family)family),
					levels[i], NULL);
}

static void neighbor_metrics(const void *self, const void *memory, struct metric_sink *sink)
{
	const struct neighbor *neighbor = self;

	(void)memory;
	metric_family(sink, "headroom_neighbor_entries");
	sample_families(sink, neighbor, entries);
	metric_family(sink, "headroom_neighbor_collectable_entries");
	sample_families(sink, neighbor, collectable);
	metric_family(sink, "headroom_neighbor_gc_threshold");
	sample_thresholds(sink, neighbor);
	metric_family(sink, "headroom_neighbor_created_total");
	sample_families(sink, neighbor, created);
	metric_family(sink, "headroom_neighbor_refused_total");
	sample_families(sink, neighbor, refused);
	metric_family(sink, "headroom_neighbor_forced_gc_total");
	sample_families(sink, neighbor, forced_gc);
}

static void neighbor_close(void *self)
{
	struct neighbor *neighbor = self;

	neighbor_sensor_close(&neighbor->sensor);
	free(neighbor);
}

const struct tuner_ops neighbor_tuner = {
	.name = "neighbor",
	.summary =
		"Sets the thresholds of the IPv4 and IPv6 neighbour tables and watches how full they are.",
	.options = neighbor_options,
	.limits = neighbor_limits,
	.explanations = neighbor_explanations,
	.conditions = neighbor_conditions,
	.reasons = neighbor_reasons,
	.metric_rows = neighbor_metric_rows,
	.capabilities = neighbor_capabilities,
	.owned_sysctls = neighbor_owned,
	.validate = neighbor_validate,
	.open = neighbor_open,
	.configure = neighbor_configure,
	.sense = neighbor_sense_op,
	.memory_size = sizeof(struct neighbor_memory),
	.decide = neighbor_decide_op,
	.arm = neighbor_arm,
	.event_fd = neighbor_event_fd,
	.drain = neighbor_drain,
	.next_poll_us = neighbor_next_poll_us,
	.state = neighbor_state,
	.metrics = neighbor_metrics,
	.close = neighbor_close,
};
