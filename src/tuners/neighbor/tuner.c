/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/neighbor/neighbor.h"
#include "tuners/table.h"

#include "base/exposition.h"
#include "base/util.h"
#include "config/config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const keep_words[] = {"keep", NULL};
static const char *const ceiling_words[] = {"auto", NULL};

#define THRESHOLD(family, level, preset, help)                                           \
	{                                                                                \
		"neighbor." family ".gc_thresh" level, OPTION_COUNT, 0, INT32_MAX, NULL, \
			"entries", preset, help, NULL                                    \
	}
#define FAMILY(family)                                                                       \
	{"neighbor." family, OPTION_CHOICE, 0, 0, keep_words, NULL, NULL,                    \
		"keep, in place of the three thresholds: leave what the node has.", NULL},   \
		THRESHOLD(family, "1", "80000",                                              \
			"Below this many entries the kernel collects nothing."),             \
		THRESHOLD(family, "2", "90000",                                              \
			"Above this many entries a new one forces a collection, every five " \
			"seconds."),                                                         \
		THRESHOLD(family, "3", "100000",                                             \
			"With this many collectable entries the kernel refuses any new one.")

const struct config_option neighbor_options[] = {
	{"neighbor.mode", OPTION_CHOICE, 0, 0, tuner_mode_words, NULL, NULL,
		"This tuner's own mode; empty: the agent's.", NULL},
	FAMILY("ipv4"),
	FAMILY("ipv6"),
	{"neighbor.lower", OPTION_BOOL, 0, 0, NULL, NULL, "false",
		"Also set thresholds that are below what the administrator had.", NULL},
	{"neighbor.grow", OPTION_BOOL, 0, 0, NULL, NULL, "true",
		"Raise gc_thresh2 and gc_thresh3 while a table fills, before it is full.", NULL},
	{"neighbor.ceiling", OPTION_COUNT, 1, INT32_MAX, ceiling_words, "entries", "auto",
		"Growth never raises gc_thresh3 above this; auto: 1 % of memory at 512 bytes an "
		"entry, at most 1048576.",
		NULL},
	{0},
};

static const char *const neighbor_owned[] = {
	"net.ipv4.neigh.default.gc_thresh*",
	"net.ipv6.neigh.default.gc_thresh*",
	NULL,
};

static struct neighbor_config read_config(const struct config *config)
{
	struct neighbor_config read = {
		.lower = config_bool(config, "neighbor.lower"),
		.grow = config_bool(config, "neighbor.grow"),
		.ceiling = config_count(config, "neighbor.ceiling", 0),
	};

	for (int family = 0; family < NEIGHBOR_FAMILIES; family++) {
		const char *version = neighbor_family_name((enum neighbor_family)family);
		char name[64];

		snprintf(name, sizeof(name), "neighbor.%s", version);
		read.families[family].keep = config_choice(config, name) >= 0;
		for (int i = 0; i < NEIGHBOR_LEVELS; i++) {
			snprintf(name, sizeof(name), "neighbor.%s.gc_thresh%d", version, i + 1);
			read.families[family].threshold[i] = config_count(config, name, 0);
		}
	}
	return read;
}

/* At the one of two options that a file gives. */
static struct config_place place_of(const struct config *config, const char *a, const char *b)
{
	struct config_place place = config_where(config, a);

	return place.line > 0 ? place : config_where(config, b);
}

/* At most one fault a family. */
static void neighbor_validate(const struct config *config, struct config_fault_list *faults)
{
	struct neighbor_config read = read_config(config);

	for (int family = 0; family < NEIGHBOR_FAMILIES; family++) {
		const char *version = neighbor_family_name((enum neighbor_family)family);
		const uint64_t *threshold = read.families[family].threshold;
		int i = 0;
		char low[64], high[64];
		struct config_place place;

		if (read.families[family].keep)
			continue;
		while (i < NEIGHBOR_LEVELS - 1 && threshold[i] <= threshold[i + 1])
			i++;
		snprintf(low, sizeof(low), "neighbor.%s.gc_thresh%d", version, i + 1);
		snprintf(high, sizeof(high), "neighbor.%s.gc_thresh%d", version, i + 2);
		if (i < NEIGHBOR_LEVELS - 1) {
			place = place_of(config, low, high);
			config_fault_add(faults, &place,
				"%s: %" PRIu64 " is above gc_thresh%d (%" PRIu64
				"): thresholds must not fall from level to level",
				low, threshold[i], i + 2, threshold[i + 1]);
		} else if (read.grow && read.ceiling > 0 && read.ceiling < threshold[i]) {
			place = place_of(config, "neighbor.ceiling", low);
			config_fault_add(faults, &place,
				"neighbor.ceiling: %" PRIu64 " is below %s (%" PRIu64
				"): raise it, or write grow: false",
				read.ceiling, low, threshold[i]);
		}
	}
}

static int neighbor_configure(void *self, const struct config *config)
{
	struct neighbor *neighbor = self;

	neighbor->config = read_config(config);
	return 0;
}

static enum tuner_state neighbor_state(const void *self, char why[static TUNER_WHY_MAX])
{
	const struct neighbor *neighbor = self;

	snprintf(why, TUNER_WHY_MAX, "%s%s%s", neighbor->write_why,
		neighbor->write_why[0] && neighbor->bpf_why[0] ? "; " : "", neighbor->bpf_why);
	return why[0] ? TUNER_DEGRADED : TUNER_ACTIVE;
}

static void neighbor_metrics(const void *self, const void *memory, struct metric_sink *sink)
{
#define OF_TABLE(field) offsetof(struct neighbor_table_seen, field)
	static const struct {
		const char *name;
		size_t offset;
	} metrics[] = {
		{"headroom_neighbor_entries", OF_TABLE(stats.entries)},
		{"headroom_neighbor_collectable_entries", OF_TABLE(collectable)},
		{"headroom_neighbor_created_total", OF_TABLE(created)},
		{"headroom_neighbor_refused_total", OF_TABLE(refused)},
		{"headroom_neighbor_forced_gc_total", OF_TABLE(stats.forced_gc)},
	};
	static const char *const levels[NEIGHBOR_LEVELS] = {"1", "2", "3"};
	const struct neighbor *neighbor = self;

	(void)memory;
	for (size_t i = 0; i < ARRAY_SIZE(metrics); i++) {
		metric_family(sink, metrics[i].name);
		for (int family = 0; family < NEIGHBOR_FAMILIES; family++) {
			const struct neighbor_table_seen *table = &neighbor->tables[family];
			const char *value = (const char *)table + metrics[i].offset;

			if (table->stats_error == 0)
				metric_sample(sink, (double)*(const uint64_t *)(const void *)value,
					neighbor_family_name((enum neighbor_family)family), NULL);
		}
	}
	metric_family(sink, "headroom_neighbor_gc_threshold");
	for (int family = 0; family < NEIGHBOR_FAMILIES; family++) {
		const struct neighbor_table_seen *table = &neighbor->tables[family];

		for (int i = 0; i < NEIGHBOR_LEVELS; i++)
			if (table->threshold_error[i] == 0)
				metric_sample(sink, strtod(table->threshold[i], NULL),
					neighbor_family_name((enum neighbor_family)family),
					levels[i], NULL);
	}
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
	.sense = neighbor_sense,
	.memory_size = sizeof(struct neighbor_memory),
	.decide = neighbor_decide,
	.arm = neighbor_arm,
	.event_fd = neighbor_event_fd,
	.drain = neighbor_drain,
	.next_poll_us = neighbor_next_poll_us,
	.state = neighbor_state,
	.metrics = neighbor_metrics,
	.close = neighbor_close,
};
