/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/neighbor/neighbor.h"
#include "tuners/table.h"

#include "base/exposition.h"
#include "kernel/bpf.h"

#include <linux/capability.h>
static const char *const keep_choices[] = {"keep", NULL};
static const char *const ceiling_choices[] = {"auto", NULL};

const char *const neighbor_stale_choices[] = {
	[STALE_OFF] = "off", [STALE_OBSERVE] = "observe", [STALE_REFRESH] = "refresh", NULL};

#define THRESHOLD(family, level, preset, help)                                               \
	{"neighbor." family ".gc_thresh" level, OPTION_COUNT, 0, INT32_MAX, NULL, "entries", \
		preset, help, NULL, NULL}
#define FAMILY(family)                                                                           \
	{"neighbor." family, OPTION_CHOICE, 0, 0, keep_choices, NULL, NULL,                      \
		"keep, instead of the three thresholds, leaves the node's values alone.", NULL,  \
		NULL},                                                                           \
		THRESHOLD(family, "1", "80000",                                                  \
			"Below this number of entries the kernel does not collect garbage. "     \
			"Without this option, a value below the kernel's 128 stays."),           \
		THRESHOLD(family, "2", "90000",                                                  \
			"Above this number of entries a new entry forces a garbage collection, " \
			"at most every five seconds."),                                          \
		THRESHOLD(family, "3", "100000",                                                 \
			"At this number of collectable entries the kernel refuses new entries.")

const struct config_option neighbor_options[] = {
	MODE_OPTION("neighbor"),
	FAMILY("ipv4"),
	FAMILY("ipv6"),
	{"neighbor.lower", OPTION_BOOL, .def = "false",
		.help = "Also set thresholds that are lower than the administrator's."},
	{"neighbor.grow", OPTION_BOOL, .def = "true",
		.help = "Raise gc_thresh2 and gc_thresh3 as a table fills, before it is full."},
	{"neighbor.ceiling", OPTION_COUNT, 1, INT32_MAX, ceiling_choices, "entries", "auto",
		.help = "The largest gc_thresh3 that growth may set. auto: 1 % of memory at 512 "
			"bytes per entry, at most 1048576."},
	{"neighbor.stale", OPTION_CHOICE, .choices = neighbor_stale_choices, .def = "observe",
		.help = "An entry is stale if another pod or machine has the address now, with "
			"another link address. observe: count updates that the "
			"kernel did not take, by device, with both link addresses. refresh: also "
			"probe such entries of the host's network namespace, and entries that only "
			"traffic has confirmed for five minutes, at most 10 a second, and remove an "
			"entry that does not answer within 1.05 s, so that the kernel resolves it anew. "
			"Entries that are permanent or managed by a program, and devices with "
			"app_solicit or without ucast_solicit, are never touched. off: neither."},
	{0},
};

#define LIMIT(family, table)                                                                     \
	{                                                                                        \
		"neighbor/" family,                                                              \
		"Collectable entries of the " table " table, which all network "                 \
		"namespaces share. When it is full, packets to new addresses are "               \
		"dropped.",                                                                      \
		.unit = "entries",                                                               \
		.def = "gc_thresh3 is 1024",                                                     \
		.option = "neighbor." family,                                                    \
		.source = "net/core/neighbour.c, neigh_alloc(): gc_entries against "             \
			  "gc_thresh3",                                                          \
		.severity = SEVERITY_CRITICAL,                                                   \
		.breaks = "connections to new addresses fail: \"neighbour: "                     \
			  "arp_cache: neighbor table overflow!\" in the kernel log",             \
		.cure_help = "headroom top neighbor, then raise neighbor." family ".gc_thresh3", \
	}

static const struct limit_row limits[] = {
	LIMIT("ipv4", "IPv4 neighbour (ARP)"),
	LIMIT("ipv6", "IPv6 neighbour (NDISC)"),
	{0},
};

static const struct help_entry entries[] = {
	{"net.ipv[46].neigh.default.gc_thresh1", ENTRY_SETTING,
		"Below this number of entries the kernel does not collect garbage. A high value keeps "
		"stale entries: packets to an address that another pod has taken over go to the old "
		"one's link address until the kernel has probed the entry, for 8.6 s and 17 datagrams "
		"in a test with 0 and 80000. With 0 every table is collected: twice a minute the "
		"kernel looks at all entries and removes those unused for a minute, which need a new "
		"request when they are used again. A value below the kernel's (Amazon Linux, kops and "
		"Gardener set 0) stays unless a configuration file has the option.",
		.unit = "entries", .def = NEIGHBOR_KERNEL_THRESH1,
		.option = "neighbor.ipv4.gc_thresh1, neighbor.ipv6.gc_thresh1",
		.source = "Documentation/networking/ip-sysctl.rst"},
	{"net.ipv[46].neigh.default.gc_thresh2", ENTRY_SETTING,
		"Above this number of collectable entries a new entry forces a garbage collection, "
		"at most every five seconds.",
		.unit = "entries", .def = "512",
		.option = "neighbor.ipv4.gc_thresh2, neighbor.ipv6.gc_thresh2",
		.source = "net/core/neighbour.c, neigh_alloc()"},
	{"net.ipv[46].neigh.default.gc_thresh3", ENTRY_SETTING,
		"At this number of collectable entries a new entry is refused, unless others can be "
		"collected. "
		"It keeps its old value in mode observe, after headroom restore until headroom apply "
		"(released), with keep, if the administrator had more, and if it cannot be written: "
		"the state and the reason of the setting say which.",
		.unit = "entries", .def = "1024",
		.option = "neighbor.ipv4.gc_thresh3, neighbor.ipv6.gc_thresh3",
		.source = "net/core/neighbour.c, neigh_alloc()"},
	WORD("also seen", ENTRY_COLUMN,
		"Another link address that answered for the address of the entry."),
	WORD("noarp", ENTRY_COLUMN,
		"An entry of a device that resolves no addresses, such as a tunnel."),
	{0},
};

const struct condition_type neighbor_conditions[] = {
	[NEIGHBOR_TABLE_PRESSURE] = {"NeighborTablePressure", SEVERITY_WARNING,
		"A neighbour table is more than 80 % full. The condition clears below 70 %. Raise "
		"gc_thresh3 of neighbor.ipv4 or neighbor.ipv6, or find the largest user.",
		REASON_LIST(REASON_WITHIN_LIMIT, REASON_NEAR_FULL, REASON_AT_CEILING,
			REASON_COUNTERS_UNAVAILABLE)},
	[NEIGHBOR_TABLE_OVERFLOW] = {"NeighborTableOverflow", SEVERITY_CRITICAL,
		"The kernel refused neighbour entries within the last five minutes, so packets to "
		"new addresses were dropped in all network namespaces. Raise gc_thresh3.",
		REASON_LIST(
			REASON_WITHIN_LIMIT, REASON_ENTRIES_REFUSED, REASON_COUNTERS_UNAVAILABLE)},
	[NEIGHBOR_STALE] = {"NeighborStale", SEVERITY_WARNING,
		"Within the last five minutes a neighbour entry had a link address that did not "
		"answer, and another one answered for the address. The agent has replaced the entry. "
		"Only neighbor.stale: refresh finds such entries.",
		REASON_LIST(REASON_NO_STALE_NEIGHBOR, REASON_STALE_NEIGHBOR, REASON_NOT_REFRESHED)},
	{0},
};

static const struct metric_row metric_rows[] = {
	{"headroom_neighbor_entries", METRIC_GAUGE, "entries",
		"Entries in the kernel's neighbour table, in all network namespaces.", {"family"}},
	{"headroom_neighbor_collectable_entries", METRIC_GAUGE, "entries",
		"Entries that count for gc_thresh3; without BPF all entries, an upper bound.",
		{"family"}},
	{"headroom_neighbor_gc_threshold", METRIC_GAUGE, "entries",
		"The table's gc_thresh1, gc_thresh2 and gc_thresh3.", {"family", "level"}},
	{"headroom_neighbor_created_total", METRIC_COUNTER, "entries",
		"Entries created in all network namespaces since boot.", {"family"}},
	{"headroom_neighbor_refused_total", METRIC_COUNTER, "entries",
		"Entries refused since boot because the table was full.", {"family"}},
	{"headroom_neighbor_forced_gc_total", METRIC_COUNTER, NULL,
		"Garbage collections that new entries forced above gc_thresh2.", {"family"}},
	{"headroom_neighbor_conflicts_total", METRIC_COUNTER, NULL,
		"Updates with another link address that the kernel did not take, by device and the "
		"owner of its network namespace. refused: the entry stays as it is. weak: it becomes "
		"stale. Two devices of one host in one network and proxy ARP cause them too. Device "
		"other is the sum of all but 16.",
		{"device", "kind", "namespace", "name", "result"}},
	{"headroom_neighbor_refreshes_total", METRIC_COUNTER, "entries",
		"Entries that neighbor.stale: refresh has probed. answered: the link address answered. "
		"The others were removed: same: the same one answered again; stale: another one; "
		"silent: none, and the entry is back. changed: it changed before it was judged.",
		{"result"}},
	{0},
};

static const struct capability_row capabilities[] = {
	{CAPABILITY(CAP_BPF), CAPABILITY_TO_RUN, NULL,
		"loads the programs that count the entries of each workload and reads the counters"},
	{CAPABILITY(CAP_PERFMON), CAPABILITY_TO_OPEN, NULL,
		"attaches these programs to the kernel"},
	{CAPABILITY(CAP_NET_ADMIN), CAPABILITY_TO_RUN, NULL,
		"sets the thresholds over netlink, and with neighbor.stale: refresh probes and "
		"removes entries"},
	{CAPABILITY(CAP_SYS_NICE), CAPABILITY_TO_RUN, NULL,
		"runs growth with a real-time priority, so that a busy node does not delay it"},
	{0},
};

static struct neighbor_config read_config(const struct config *config)
{
	struct neighbor_config read = {
		.lower = config_bool(config, "neighbor.lower"),
		.grow = config_bool(config, "neighbor.grow"),
		.ceiling = config_count(config, "neighbor.ceiling", 0),
		.stale = (enum neighbor_stale)config_choice(config, "neighbor.stale"),
	};

	for (int family = 0; family < NEIGHBOR_FAMILIES; family++) {
		const char *version = neighbor_families[family].name;
		char name[64];

		snprintf(name, sizeof(name), "neighbor.%s", version);
		read.families[family].keep = config_choice(config, name) >= 0;
		for (int i = 0; i < NEIGHBOR_LEVELS; i++) {
			snprintf(name, sizeof(name), "neighbor.%s.gc_thresh%d", version, i + 1);
			read.families[family].threshold[i] = config_count(config, name, 0);
			read.families[family].requested[i] = config_is_given(config, name);
			read.families[family].chosen[i] = config_is_chosen(config, name);
			read.families[family].reason[i] = config_reason(config, name);
		}
	}
	return read;
}

/* Reports at most one fault per family. */
static void neighbor_validate(const struct config *config, struct config_fault_list *faults)
{
	struct neighbor_config read = read_config(config);

	for (int family = 0; family < NEIGHBOR_FAMILIES; family++) {
		const char *version = neighbor_families[family].name;
		const uint64_t *threshold = read.families[family].threshold;
		int i = 0;
		char low[64], high[64];
		struct config_position position;

		if (read.families[family].keep)
			continue;
		while (i < NEIGHBOR_LEVELS - 1 && threshold[i] <= threshold[i + 1])
			i++;
		snprintf(low, sizeof(low), "neighbor.%s.gc_thresh%d", version, i + 1);
		snprintf(high, sizeof(high), "neighbor.%s.gc_thresh%d", version, i + 2);
		position = config_where(config, low);
		if (i < NEIGHBOR_LEVELS - 1) {
			/* Report the position of a threshold that a file sets. */
			position = position.line > 0 ? position : config_where(config, high);
			config_fault_add(faults, &position,
				"%s: %" PRIu64 " is above gc_thresh%d (%" PRIu64
				"): each threshold must be at least the one before",
				low, threshold[i], i + 2, threshold[i + 1]);
		} else if (read.grow && read.ceiling > 0 && read.ceiling < threshold[i]) {
			position = config_where(config, "neighbor.ceiling");
			config_fault_add(faults, &position,
				"neighbor.ceiling: %" PRIu64 " is below %s (%" PRIu64
				"): raise it, or write grow: false",
				read.ceiling, low, threshold[i]);
		}
	}
}

static void neighbor_configure(void *self, const struct config *config)
{
	struct neighbor *neighbor = self;

	neighbor->config = read_config(config);
	conflicts_watch(neighbor);
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
		{"headroom_neighbor_created_total", OF_TABLE(stats.allocs)},
		{"headroom_neighbor_refused_total", OF_TABLE(stats.table_fulls)},
		{"headroom_neighbor_forced_gc_total", OF_TABLE(stats.forced_gc)},
	};
	static const char *const levels[NEIGHBOR_LEVELS] = {"1", "2", "3"};
	const struct neighbor *neighbor = self;

	for (size_t i = 0; i < ARRAY_SIZE(metrics); i++) {
		metric_family(sink, metrics[i].name);
		for (int family = 0; family < NEIGHBOR_FAMILIES; family++) {
			const void *table = &neighbor->tables[family];
			const uint64_t *value = table + metrics[i].offset;

			if (neighbor->tables[family].stats_error == 0)
				metric_sample(
					sink, (double)*value, neighbor_families[family].name, NULL);
		}
	}
	metric_family(sink, "headroom_neighbor_gc_threshold");
	for (int family = 0; family < NEIGHBOR_FAMILIES; family++) {
		const struct neighbor_table_seen *table = &neighbor->tables[family];

		for (int i = 0; i < NEIGHBOR_LEVELS; i++)
			if (table->threshold_error[i] == 0)
				metric_sample(sink, strtod(table->threshold[i], NULL),
					neighbor_families[family].name, levels[i], NULL);
	}
	conflicts_metrics(neighbor, memory, sink);
}

const struct tuner_tables neighbor_tables = {
	.summary =
		"Sets the thresholds of the IPv4 and IPv6 neighbour tables and watches their use.",
	.limits = limits,
	.entries = entries,
	.conditions = neighbor_conditions,
	.metric_rows = metric_rows,
	.capabilities = capabilities,
	.view = &neighbor_view,
};

const struct tuner_ops neighbor_tuner = {
	.name = "neighbor",
	.tables = &neighbor_tables,
	.validate = neighbor_validate,
	.open = neighbor_open,
	.configure = neighbor_configure,
	.sense = neighbor_sense,
	.bpf = &neighbor_bpf,
	.tasks[TASK_SAMPLE] = {refresh_request, refresh_run, refresh_adopt, NULL},
	.memory_size = sizeof(struct neighbor_memory),
	.decide = neighbor_decide,
	.arm = neighbor_arm,
	.document = neighbor_document,
	.metrics = neighbor_metrics,
	.count_when_asked = neighbor_count_states,
	.close = neighbor_close,
};
