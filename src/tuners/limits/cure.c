/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the cures of full limits, from the instance and the values in force. A command never sets a
 * value at or below the one in force.
 */
#include "tuners/limits/limits.h"

#include "base/text.h"
#include "tuners/raise.h"
#include "tuners/table.h"

uint64_t limits_raised(const struct limit_row *row, uint64_t value)
{
	const struct limit_reader *reader = row->reader;
	uint64_t raised = MAX(2 * value, reader->at_least);

	if (reader->at_most > 0)
		raised = MIN(raised, reader->at_most);
	return raised > value ? raised : 0;
}

void limits_cure_sysctl(struct finding *finding, const struct limit_row *row,
	const struct limit_instance *instance, const struct decide_input *input,
	const struct limits *)
{
	const char *sysctl = instance->sysctl ? instance->sysctl : row->reader->sysctl;
	uint64_t value = instance->sysctl_value ? instance->sysctl_value : instance->max;
	uint64_t raised = limits_raised(row, value);

	if (raised > 0)
		CURE_WITH_SYSCTLS(finding, input, row->reader->choice, {sysctl, raised});
	else
		finding_hint(finding, "%s has its largest value", sysctl);
}

/* ---- connections ---- */

#define CONNECTION_BYTES UINT64_C(320)
#define MEMORY_SHARE     20 /* a table takes at most 1/N of the memory */

void limits_cure_conntrack(struct finding *finding, const struct limit_row *row,
	const struct limit_instance *instance, const struct decide_input *input,
	const struct limits *limits)
{
	uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t raised = limits_raised(row, instance->max), bytes = raised * CONNECTION_BYTES;
	char cost[AMOUNT_MAX];

	amount_text((double)bytes, "memory", cost);
	if (bytes > memory / MEMORY_SHARE) {
		finding_hint(finding,
			"twice as many connections would take %s of memory: find out why they stay",
			cost);
		return;
	}
	CURE_WITH_SYSCTLS(finding, input, row->reader->choice,
		{"net.netfilter.nf_conntrack_max", raised},
		{"net.netfilter.nf_conntrack_buckets", MAX(limits->conntrack_buckets, raised / 4)});
	finding_hint(finding, "the table takes %s when it is full", cost);
}

/* ---- threads ---- */

/* The kernel's largest values: PID_MAX_LIMIT, FUTEX_TID_MASK. */
#define PID_MAX_MOST     UINT64_C(4194304)
#define THREADS_MAX_MOST UINT64_C(1073741823)

/*
 * Returns whether the node's systemd manages the cgroup, as that of a unit. Below another service
 * or scope it is of a user's systemd, or of a container's, and the node may have a unit of that
 * name.
 */
static bool is_unit(const struct instance *instance, char unit[static SHELL_WORD_MAX])
{
	static const char *const types[] = {".service", ".scope", ".slice"};
	const char *name = strrchr(instance->name, '/');

	if (!name || instance->owner.kind != WORKLOAD_UNIT || strstr(instance->name, ".service/") ||
		strstr(instance->name, ".scope/"))
		return false;
	shell_word(unit, name + 1);
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (strstr(name, types[i]))
			return true;
	return false;
}

#define CGROUPS "/sys/fs/cgroup"
#define PIDS_V1 CGROUPS "/pids"

void limits_cure_cgroup(struct finding *finding, const struct limit_row *row,
	const struct limit_instance *instance, const struct decide_input *, const struct limits *)
{
	char word[SHELL_WORD_MAX], unit[SHELL_WORD_MAX];
	uint64_t raised = limits_raised(row, instance->max);

	if (raised == 0)
		return;
	/* The path is cut: a cgroup in a cluster in a container. */
	if (strlen(instance->instance.name) == SETTING_PATH_MAX - 1) {
		finding_now(finding,
			"echo %" PRIu64 " > \"$(find %s -xdev -type d -inum %" PRIu64
			")/pids.max\"",
			raised,
			starts_with(instance->instance.name, PIDS_V1 "/") ? PIDS_V1 : CGROUPS,
			instance->instance.id);
		return;
	}
	if (is_unit(&instance->instance, unit)) {
		finding_now(finding, "systemctl set-property --runtime %s TasksMax=%" PRIu64, unit,
			raised);
		finding_hint(finding, "systemctl set-property %s TasksMax=%" PRIu64 " keeps it",
			unit, raised);
		return;
	}
	finding_now(finding, "echo %" PRIu64 " > %s/pids.max", raised,
		shell_word(word, instance->instance.name));
	if (instance->instance.owner.kind == WORKLOAD_POD)
		finding_hint(finding, "podPidsLimit of the kubelet keeps it, for new pods");
}

void limits_cure_pids(struct finding *finding, const struct limit_row *row,
	const struct limit_instance *instance, const struct decide_input *input,
	const struct limits *limits)
{
	static const char pid_max[] = "kernel.pid_max", threads_max[] = "kernel.threads-max";
	bool by_pid = instance->sysctl && streq(instance->sysctl, pid_max);
	uint64_t raised = MIN(2 * instance->max, by_pid ? PID_MAX_MOST : THREADS_MAX_MOST);
	struct sysctl_value values[3] = {{instance->sysctl, raised}};

	if (instance->instance.kind == INSTANCE_CGROUP) {
		limits_cure_cgroup(finding, row, instance, input, limits);
		finding_hint(finding, "the kubelet computes it from kernel.pid_max and its "
				      "reserved pids, when it starts");
		return;
	}
	if (raised <= instance->max) {
		finding_hint(finding, "%s has its largest value", instance->sysctl);
		return;
	}
	/* The other one would be full then. */
	if (instance->beside > 0 && instance->beside < raised)
		values[1] = (struct sysctl_value){by_pid ? threads_max : pid_max,
			by_pid ? raised : MIN(raised, PID_MAX_MOST)};
	cure_with_sysctls(finding, input, "pids", values);
}

/* ---- open files ---- */

/* Returns whether it is a service that may be restarted: not a session, nor all of a user's. */
static bool is_service(const struct workload *owner)
{
	const char *type = strrchr(owner->name, '.');

	return owner->kind == WORKLOAD_UNIT && type && streq(type, ".service") &&
	       !starts_with(owner->name, "user@");
}

/* The hard limit stays if it is enough: a container's root may not raise it. */
void limits_cure_files(struct finding *finding, const struct limit_row *row,
	const struct limit_instance *instance, const struct decide_input *,
	const struct limits *limits)
{
	const struct workload *owner = &instance->instance.owner;
	uint64_t raised = limits_raised(row, instance->max), hard = instance->beside;
	char pids[LIMIT_OTHERS_MAX * 9 + 1] = "";

	if (hard >= 2 * instance->max)
		raised = MIN(raised, hard);
	/* The kernel refuses both above it, also a hard limit from before it was lowered. */
	if (limits->nr_open > 0) {
		raised = MIN(raised, limits->nr_open);
		hard = MIN(hard, limits->nr_open);
	}
	if (raised <= instance->max) {
		finding_hint(finding, "it has the most that fs.nr_open allows: find out why its "
				      "files stay open");
		return;
	}
	for (unsigned i = 0; i < instance->n_others; i++)
		text_append(pids, sizeof(pids), " %d", instance->others[i]);
	if (instance->n_others > 0)
		finding_now(finding,
			"for pid in %d%s; do prlimit --pid $pid --nofile=%" PRIu64 ":%" PRIu64
			"; done",
			instance->pid, pids, raised, MAX(raised, hard));
	else
		finding_now(finding, "prlimit --pid %d --nofile=%" PRIu64 ":%" PRIu64,
			instance->pid, raised, MAX(raised, hard));
	if (is_service(owner))
		finding_hint(
			finding, "LimitNOFILE=%" PRIu64 " in %s keeps it", raised, owner->name);
	else if (owner->kind == WORKLOAD_UNIT || owner->kind == WORKLOAD_HOST)
		finding_hint(finding, "nofile in /etc/security/limits.conf keeps it, for new "
				      "sessions");
	else
		finding_hint(finding, "LimitNOFILE of the runtime's unit keeps it, for new "
				      "containers");
}

void limits_cure_watches(struct finding *finding, const struct limit_row *row,
	const struct limit_instance *instance, const struct decide_input *input,
	const struct limits *limits)
{
	limits_cure_sysctl(finding, row, instance, input, limits);
	if (finding->now)
		finding_hint(finding, "each watch takes about 1 KiB when it is used");
}

/* ---- sockets ---- */

/* A restart of dockerd ends containers, and docker-proxy listens for them in its unit. */
static bool is_of_runtimes(const struct workload *owner)
{
	const char *const *unit = node_units;

	while (*unit && !streq(*unit, owner->name))
		unit++;
	return *unit != NULL;
}

/* A process has its backlog from the start on: it must listen again. */
void limits_cure_listener(struct finding *finding, const struct limit_row *row,
	const struct limit_instance *instance, const struct decide_input *input,
	const struct limits *limits)
{
	const struct workload *owner = &instance->instance.owner;
	uint64_t raised = limits_raised(row, instance->max);
	char unit[SHELL_WORD_MAX], inside[32] = "";

	if (!instance->sysctl) {
		finding_hint(finding,
			"its backlog is %" PRIu64
			": raise it in the program, or restart the program if net.core.somaxconn "
			"was raised since; or find out why it does not accept",
			instance->max);
		return;
	}
	if (instance->of_agent)
		limits_cure_sysctl(finding, row, instance, input, limits);
	else
		snprintf(inside, sizeof(inside), "nsenter -t %d -n ", instance->pid);
	if (is_service(owner) && !is_of_runtimes(owner)) {
		shell_word(unit, owner->name);
		finding_now(finding,
			"%ssysctl -w net.core.somaxconn=%" PRIu64 " && systemctl restart %s",
			inside, raised, unit);
	} else if (instance->of_agent) {
		if (!instance->is_raised)
			finding_hint(finding, "restart the program after it: it must listen again");
	} else {
		finding_now(finding, "%ssysctl -w net.core.somaxconn=%" PRIu64, inside, raised);
		finding_hint(finding,
			"%snet.core.somaxconn in the pod's securityContext.sysctls keeps it",
			instance->is_raised
				? ""
				: "restart the container after it: it must listen again; ");
	}
}

#define PORTS_MOST UINT64_C(64512) /* 1024 to 65535 */

/* On the node, more ports would collide with NodePorts. */
void limits_cure_ports(struct finding *finding, const struct limit_row *,
	const struct limit_instance *instance, const struct decide_input *, const struct limits *)
{
	bool helps = instance->used * 10 < PORTS_MOST * 7;

	if (instance->of_agent || !helps) {
		finding_hint(finding, "reuse connections (keep-alive), or use more addresses%s",
			instance->of_agent ? "; a wider net.ipv4.ip_local_port_range must leave "
					     "out NodePorts"
					   : "");
		return;
	}
	finding_now(finding,
		"nsenter -t %d -n sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\"",
		instance->pid);
	finding_hint(finding, "net.ipv4.ip_local_port_range in the pod's securityContext.sysctls "
			      "keeps it");
}

/* ---- BPF maps ---- */

/* The options for maps whose names begin so: the kernel keeps 15 characters of a name. */
static const struct {
	const char *name, *option, *program;
	bool by_ratio; /* Cilium's bpf-map-dynamic-size-ratio sets it too */
} map_options[] = {
	{"cilium_ct_any", "bpf-ct-global-any-max", "Cilium", true},
	{"cilium_ct", "bpf-ct-global-tcp-max", "Cilium", true},
	{"cilium_snat", "bpf-nat-global-max", "Cilium", true},
	{"cilium_policy", "bpf-policy-map-max", "Cilium", false},
	{"cilium_lb4", "bpf-lb-map-max", "Cilium", false},
	{"cilium_lb6", "bpf-lb-map-max", "Cilium", false},
	{"cali_v4_ct", "bpfMapSizeConntrack", "Felix", false},
	{"cali_v6_ct", "bpfMapSizeConntrack", "Felix", false},
};

void limits_cure_map(struct finding *finding, const struct limit_row *row,
	const struct limit_instance *instance, const struct decide_input *, const struct limits *)
{
	bool is_lru = row->reader->count_bpf == COUNT_BPF_LRU_MAPS;
	const char *when = is_lru ? "if it loses elements in use: " : "";

	for (size_t i = 0; i < ARRAY_SIZE(map_options); i++)
		if (starts_with(instance->instance.name, map_options[i].name)) {
			finding_hint(finding,
				"%sno command can resize a map: raise %s%s in the configuration of "
				"%s, and restart it",
				when, map_options[i].option,
				map_options[i].by_ratio ? " or bpf-map-dynamic-size-ratio" : "",
				map_options[i].program);
			return;
		}
	finding_hint(finding,
		"%sno command can resize a map: raise its maximum in the options of the program "
		"that made it, and restart that program",
		when);
}

/* ---- the rest ---- */

/* The sockets may take a quarter of the memory. */
#define SOCKETS_MEMORY 4

void limits_cure_socket_memory(struct finding *finding, const struct limit_row *row,
	const struct limit_instance *instance, const struct decide_input *input,
	const struct limits *)
{
	const char *sysctl = row->reader->sysctl;
	uint64_t most = (uint64_t)sysconf(_SC_PHYS_PAGES) / SOCKETS_MEMORY, pages[3];
	char value[SETTING_VALUE_MAX];

	if (!instance->cure || sscanf(instance->cure, "%" SCNu64 " %" SCNu64 " %" SCNu64, &pages[0],
				       &pages[1], &pages[2]) != 3)
		return;
	if (pages[2] >= most) {
		limits_cure_hint(finding, row, instance, input, NULL);
		return;
	}
	for (int i = 0; i < 3; i++)
		pages[i] = MIN(2 * pages[i], most);
	snprintf(value, sizeof(value), "%" PRIu64 " %" PRIu64 " %" PRIu64, pages[0], pages[1],
		pages[2]);
	finding_now(finding, "sysctl -w %s='%s'", sysctl, value);
	finding_keep(finding, input, "sysctl", "sysctl: {%s: \"%s\"}", sysctl, value);
}

void limits_cure_filesystem(struct finding *finding, const struct limit_row *row,
	const struct limit_instance *instance, const struct decide_input *, const struct limits *)
{
	char word[SHELL_WORD_MAX];

	if (instance->cure)
		finding_now(finding, "%s", instance->cure);
	if (instance->cure && !strstr(instance->cure, "docker"))
		finding_hint(finding, "this also deletes preloaded images that are not pinned");
	if (!instance->cure)
		finding_hint(finding,
			row->reader->inodes
				? "du -x --inodes --max-depth=2 %s | sort -n | tail "
				  "shows where the files are"
				: "du -xh --max-depth=2 %s | sort -h | tail shows where "
				  "the bytes are",
			shell_word(word, instance->instance.name));
}

void limits_cure_hint(struct finding *finding, const struct limit_row *row,
	const struct limit_instance *, const struct decide_input *, const struct limits *)
{
	finding_hint(finding, "%s", row->cure_help);
}
