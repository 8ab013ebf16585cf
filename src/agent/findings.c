/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file collects the findings of each poll. Its parts, in this order: the findings of tuners;
 * the agent's own, about settings, records and configuration; the conditions, which follow from
 * both.
 */
#include "agent/core.h"

#include "base/log.h"
#include "kernel/pressure.h"
#include "tuners/table.h"
#include "workload/process.h"

#include <fnmatch.h>
#include <sys/prctl.h>

#define OWN "agent" /* the tuner's name of what the agent itself finds */

#define DEFAULT_CONFIG_D "/etc/headroom/conf.d"

void core_place_cures(struct core *core)
{
	const char *owner = core_owner();

	if (core->source.directory)
		snprintf(core->config_place, PATH_MAX, "%s/50-doctor.yaml", core->source.directory);
	else
		set_text(core->config_place, core->source.file);
	if (streq(owner, "daemonset"))
		set_text(core->config_place, "the ConfigMap of the DaemonSet");
	core->config_file = starts_with(owner, "helm-release/") ? NULL : core->config_place;
}

static bool is_ignored(const struct config *config, const struct finding *finding)
{
	char id[FINDING_ID_MAX];

	finding_id(finding, id);
	for (size_t i = 0; i < config_list(config, "doctor.ignore"); i++) {
		const char *pattern = config_item(config, "doctor.ignore", i, "");
		const char *const names[] = {
			finding->slug, finding->condition->name, finding_reason(finding), id};

		for (size_t k = 0; k < ARRAY_SIZE(names); k++)
			if (fnmatch(pattern, names[k], 0) == 0)
				return true;
	}
	return false;
}

static void log_news(void *userdata, const struct finding *finding, enum finding_news news)
{
	static const int levels[] = {[SEVERITY_ADVICE] = LOG_NOTICE,
		[SEVERITY_WARNING] = LOG_WARNING,
		[SEVERITY_CRITICAL] = LOG_CRIT};
	static const enum log_kind kinds[] = {[FINDING_BEGAN] = LOG_FINDING_BEGAN,
		[FINDING_ROSE] = LOG_FINDING_ROSE,
		[FINDING_NAMED] = LOG_FINDING_NAMED,
		[FINDING_ENDED] = LOG_FINDING_ENDED};
	const struct core *core = userdata;
	char text[FINDING_TEXT_MAX], workload[WORKLOAD_TEXT_MAX] = "";
	const bool is_limit = limit_row_find(finding->slug);

	/* A command prints findings itself. */
	if (!core->event || is_ignored(core->config, finding))
		return;
	finding_text(finding, text, sizeof(text));
	if (finding->n_who > 0)
		workload_describe(&finding->who[0].workload, workload, sizeof(workload));
	log_fields(&(struct log_fields){kinds[news], finding->condition->name,
			   finding_reason(finding), is_limit ? finding->slug : NULL, workload},
		news == FINDING_ENDED ? LOG_NOTICE : levels[finding->severity],
		finding->condition->name, "%s%s%s%s", news == FINDING_ROSE ? "now " : "",
		news == FINDING_ROSE ? severity_names[finding->severity] : "",
		news == FINDING_ENDED   ? "over: "
		: news == FINDING_NAMED ? "by name: "
		: news == FINDING_ROSE  ? ": "
					: "",
		text);
}

static void observe(struct core *core, const char *tuner, struct proposal *proposal, uint64_t now)
{
	const char *hold = getenv("HEADROOM_TEST_HOLD"); /* seconds; for tests */
	const struct finding_clock clock = {now, realtime_us(), !core->event,
		hold ? strtoull(hold, NULL, 10) * USEC_PER_SEC : 0};

	findings_observe(&core->node.findings, tuner, proposal, &clock, log_news, core);
	for (size_t i = 0; i < core->node.findings.n; i++) {
		struct finding *finding = &core->node.findings.findings[i];

		if (streq(finding->tuner, tuner))
			finding->ignored = is_ignored(core->config, finding);
	}
}

void core_take_findings(
	struct core *core, struct tuner_status *tuner, const struct decide_input *input)
{
	struct finding_list *list = &core->node.findings;

	/* Without a new sample nothing has ended. */
	if (tuner->mode != MODE_OFF && !tuner->ops->sense &&
		core_lacks_sample(tuner, input->now_us))
		return;
	for (size_t i = 0; tuner->mode == MODE_OFF && i < list->n; i++)
		if (streq(list->findings[i].tuner, tuner->ops->name))
			list->findings[i].hold_us = 0;
	observe(core, tuner->ops->name, &tuner->proposal, input->now_us);
}

/* ---- of the agent ---- */

static struct finding *find(struct proposal *proposal, const struct decide_input *input,
	unsigned condition, enum reason reason, const char *slug, const struct instance *instance)
{
	return proposal_finding(proposal, input, &core_tables.conditions[condition], reason, slug,
		instance, FINDING_HAPPENS);
}

/*
 * A proposal has room for a few findings of settings with one kind of fault. All further ones are
 * one finding.
 */
struct rest {
	const char *slug;
	unsigned condition;
	enum reason reason; /* the first one's */
	enum severity severity;
	size_t n, n_named;
	char names[FINDING_TEXT_MAX / 2];
};

enum { REST_FAILED, REST_CHANGED, REST_REMOVED, RESTS };

/* The agent's own findings while find_own() collects them. */
struct own {
	struct core *core;
	struct proposal *proposal;
	const struct decide_input *input;
	struct rest rests[RESTS];
};

static void add_rest(
	struct rest *rest, enum reason reason, const char *name, enum severity severity)
{
	if (rest->n++ == 0)
		rest->reason = reason;
	rest->severity = MAX(rest->severity, severity);
	if (rest->n_named + 1 < rest->n ||
		strlen(rest->names) + strlen(name) + 3 > sizeof(rest->names))
		return;
	rest->n_named++;
	text_append(rest->names, sizeof(rest->names), "%s%s", rest->names[0] ? ", " : "", name);
}

/* A finding about a setting has its name as slug and instance. NULL: the rest counts it. */
static struct finding *find_setting(struct own *own, struct rest *rest, enum reason reason,
	const char *name, enum severity severity)
{
	struct instance instance = {.kind = INSTANCE_SETTING};
	struct finding *finding;

	if (own->proposal->n_findings >= FINDINGS_A_TUNER - RESTS) {
		add_rest(rest, reason, name, severity);
		return NULL;
	}
	set_text(instance.name, name);
	finding = find(own->proposal, own->input, rest->condition, reason, name, &instance);
	finding->severity = severity;
	finding->breaks = reason_rows[reason].help;
	return finding;
}

static void find_rests(struct own *own)
{
	for (size_t i = 0; i < RESTS; i++) {
		const struct rest *rest = &own->rests[i];
		size_t others = rest->n - rest->n_named;
		struct finding *finding;

		if (rest->n == 0)
			continue;
		finding = find(
			own->proposal, own->input, rest->condition, rest->reason, rest->slug, NULL);
		if (!finding)
			return;
		finding->severity = rest->severity;
		finding->is_recorded &= rest->severity > SEVERITY_ADVICE;
		finding_message(finding, "%zu more: %s", rest->n, rest->names);
		if (others > 0)
			finding_message(finding, "%zu more: %s, and %zu others", rest->n,
				rest->names, others);
		finding_hint(finding, "headroom status --json lists all settings");
	}
}

static void find_changed(const struct setting *setting, struct own *own)
{
	struct finding *finding;

	if (setting->state != SETTING_YIELDED && setting->state != SETTING_DRIFTED)
		return;
	finding = find_setting(
		own, &own->rests[REST_CHANGED], setting->reason, setting->name, SEVERITY_WARNING);
	if (!finding)
		return;
	finding_message(finding, "is %s, wanted %s: changed %llu times, the last time by %s",
		setting->actual, setting->wanted, (unsigned long long)setting->drift.total,
		setting->drift.at_start ? "its program when it started" : "another writer");
	/* Against a writer that goes on, nothing that is typed here helps. */
	if (setting->reason != REASON_LEFT_BY_ON_DRIFT) {
		finding_hint(finding,
			"find the other writer, then type: headroom apply --only %s; a restart of "
			"the agent does not set it again",
			setting->tuner);
		return;
	}
	finding_now(finding, "headroom apply --only %s", setting->tuner);
	finding_keep(finding, own->input, setting->tuner, "on_drift: enforce");
}

/* Errors that say that the node does not take this value, whoever asks for it. */
static bool is_impossible(const struct setting *setting)
{
	static const int errors[] = {
		EACCES, EINVAL, ENODEV, ENOENT, ENOSYS, EOPNOTSUPP, EPERM, ERANGE, EROFS};

	if (setting->reason != REASON_WRITE_REFUSED && setting->reason != REASON_NOT_TAKEN &&
		setting->reason != REASON_UNREADABLE)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
		if (setting->error == -errors[i])
			return true;
	return false;
}

/* The module of a sysctl that appears with it; NULL: none is known. */
static const char *module_of(const char *name)
{
	static const struct {
		const char *prefix, *module;
	} rows[] = {
		{"net.netfilter.nf_conntrack_", "nf_conntrack"},
		{"net.bridge.", "br_netfilter"},
		{"net.ipv4.vs.", "ip_vs"},
		{"sunrpc.", "sunrpc"},
		{"fs.nfs.", "lockd"},
		{"net.mpls.", "mpls_router"},
		{"net.sctp.", "sctp"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (starts_with(name, rows[i].prefix))
			return rows[i].module;
	return NULL;
}

/* A setting that a configuration file asks for and this node does not have. */
static void cure_absent(
	struct finding *finding, const struct setting *setting, const struct config *config)
{
	const char *module = module_of(setting->name);
	size_t n = 0;
	const struct config_sysctl *sysctls = config_sysctls(config, &n);
	const struct config_sysctl *own = n > 0 ? find_named(sysctls, n, setting->name) : NULL;

	if (module)
		finding_now(finding, "modprobe %s", module);
	if (module)
		finding_hint(finding, "echo %s > /etc/modules-load.d/%s.conf loads it at boot",
			module, module);
	else if (own && own->position.line > 0)
		finding_edit(finding, own->position.file, own->position.line,
			"remove %s, or correct its name", setting->name);
	else
		finding_hint(finding, "remove it from the configuration");
}

/* The cgroup of the agent. In a cgroup namespace of its own, its path is not that of the host. */
static void read_own_pressure(const struct core *core, struct finding *finding)
{
	_cleanup_free_ char *text = NULL;
	int root = cgroups_root(core->facts.cgroups, CGROUP_UNIFIED);
	const char *path;

	pressure_read(core->host, &finding->node_pressure);
	if (root < 0 || process_read("", getpid(), "cgroup", &text, NULL) < 0)
		return;
	path = cgroup_of_text(text, "");
	if (path && path[0] == '/' && path[1] && path[1] != '.')
		pressure_read_cgroup(root, path, &finding->own_pressure);
}

static void find_failed(const struct setting *setting, struct own *own)
{
	bool is_absent = setting->state == SETTING_UNSUPPORTED && setting->error < 0 &&
			 setting->mode == MODE_ENFORCE;
	/* Nobody has asked for a default. */
	bool is_advice = !is_absent && !setting->requested && is_impossible(setting);
	struct finding *finding;

	if (setting->state != SETTING_FAILED && !is_absent)
		return;
	finding = find_setting(own, &own->rests[REST_FAILED], setting->reason, setting->name,
		is_advice ? SEVERITY_ADVICE : SEVERITY_WARNING);
	if (!finding)
		return;
	finding_message(finding, "%s (%s)",
		setting->why[0] ? setting->why
		: is_absent     ? "the configuration asks for it, and this node does not have it"
				: strerror(-setting->error),
		reason_rows[setting->reason].slug);
	finding_hint(
		finding, "remove the cause, then type: headroom apply --only %s", setting->tuner);
	if (is_absent)
		cure_absent(finding, setting, own->core->config);
	if (setting->reason == REASON_FILE_SLOW)
		read_own_pressure(own->core, finding);
}

/* Writes the command that sets a value. */
static void cure_value(struct finding *finding, const struct value_target *target, const char *name,
	const char *value)
{
	char setting[SETTING_NAME_MAX + SETTING_VALUE_MAX], word[SHELL_WORD_MAX];

	if (starts_with(target->path, "/proc/sys/")) {
		snprintf(setting, sizeof(setting), "%s=%s", name, value);
		finding_now(finding, "sysctl -w %s", shell_word(word, setting));
	} else {
		finding_now(finding, "echo %s > %s", shell_word(word, value), target->path);
	}
}

static void cure_key(
	struct finding *finding, const struct setting *setting, const struct key_record *key)
{
	bool is_absent = !key->on_disk_originally[0] || streq(key->on_disk_originally, "none");

	if (setting->mode == MODE_OFF)
		finding_now(finding, "headroom restore --only %s", setting->tuner);
	else if (!key->key[0])
		finding_edit(finding, key->path, 0, "remove the file");
	else if (is_absent)
		finding_edit(finding, key->path, 0, "remove %s", key->key);
	else
		finding_edit(
			finding, key->path, 0, "write %s = %s", key->key, key->on_disk_originally);
	finding_hint(finding, "then restart its program, or configure it again");
}

static void find_removed(const struct setting *setting, struct own *own)
{
	const struct core *core = own->core;
	const struct value_record *value =
		core->values ? find_named(core->values->records, core->values->n, setting->name)
			     : NULL;
	const struct key_record *key = find_named(core->keys, core->n_keys, setting->name);
	char why[SETTING_WHY_MAX];
	struct finding *finding;

	if (setting->reason != REASON_NO_LONGER_CONFIGURED || setting->state != SETTING_OBSERVED)
		return;
	finding = find_setting(
		own, &own->rests[REST_REMOVED], setting->reason, setting->name, SEVERITY_ADVICE);
	if (!finding)
		return;
	finding->is_recorded = false;
	finding_message(finding, "%s is recorded, and no longer configured; the original is %s",
		setting->actual[0] ? setting->actual : "a value",
		setting->original[0] ? setting->original : "\"\"");
	/* The command that is advised must leave what is in use, too. */
	if (value && !core_leaves_room(core, value, setting->actual, why)) {
		finding_hint(finding, "%s", why);
	} else if (value) {
		cure_value(finding, &value->target, setting->name, value->original);
		(void)core_may_restore(core, value, setting->actual, why);
		if (why[0])
			finding_hint(finding, "%s", why);
	} else if (key) {
		cure_key(finding, setting, key);
	}
}

/* Values of released tuners that are no longer configured and could not be restored. */
static void find_not_restored(struct own *own)
{
	const struct core *core = own->core;
	char actual[SETTING_VALUE_MAX];

	for (size_t i = 0; core->values && i < core->values->n; i++) {
		const struct value_record *record = &core->values->records[i];
		struct finding *finding;

		if (!record->name[0] ||
			!find_named(core->released.tuners, core->released.n, record->tuner) ||
			node_setting(&core->node, record->name) ||
			host_read_value(core->host, record->target.path, actual) == -ENOENT)
			continue;
		finding = find_setting(own, &own->rests[REST_FAILED], REASON_NOT_RESTORED,
			record->name, SEVERITY_WARNING);
		if (!finding)
			continue;
		finding_message(finding, "the original could not be restored (not-restored)");
		finding_now(finding, "headroom restore --only %s", record->tuner);
	}
}

/* Adds the capabilities that the tuner needs, and that this unit or container cannot have. */
static void add_missing(const struct tuner_ops *ops, const char *prefix, const char *separator,
	char *text, size_t size)
{
	const struct capability_row *row = ops->tables->capabilities;

	for (; row && row->name; row++) {
		const char *name = row->name + strlen("CAP_");

		if ((row->use == CAPABILITY_TO_OPEN || row->use == CAPABILITY_TO_RUN) &&
			prctl(PR_CAPBSET_READ, row->capability, 0, 0, 0) == 0 &&
			!strstr(text, name))
			text_append(text, size, "%s%s%s", text[0] ? separator : "", prefix, name);
	}
}

/* A line of the unit, for which the cure is a command; or of the values of the chart. */
static void cure_installation(struct finding *finding, const struct core *core,
	const char *unit_line, const char *chart_line, const char *daemonset_hint)
{
	static const char dropins[] = "/etc/systemd/system/headroom.service.d";

	if (!core->config_file) {
		free(steal(finding->keep));
		free(steal(finding->keep_in));
		finding->keep = must(strdup(chart_line));
		finding->keep_in = must(strdup("the values of the chart"));
	} else if (streq(core_owner(), "unit")) {
		finding_now(finding,
			"mkdir -p %s && printf '[Service]\\n%%s\\n' '%s' >> %s/50-doctor.conf && "
			"systemctl daemon-reload && systemctl restart headroom",
			dropins, unit_line, dropins);
	} else {
		finding_hint(finding, "%s", daemonset_hint);
	}
}

/* capabilities of the chart's values, which a check compares with this. */
#define CHART_CAPABILITIES "NET_ADMIN, BPF, PERFMON, SYS_NICE, SYS_CHROOT"

static void cure_lack(struct finding *finding, const struct core *core, const struct tuner_ops *ops,
	enum lack_kind kind)
{
	static const char hint[] = "its securityContext and its mounts in the DaemonSet";
	char unit[256] = "", chart[256] = CHART_CAPABILITIES;
	char line[300], value[300];

	add_missing(ops, "CAP_", " ", unit, sizeof(unit));
	if (kind == LACK_BPF && unit[0]) {
		add_missing(ops, "", ", ", chart, sizeof(chart));
		snprintf(line, sizeof(line), "CapabilityBoundingSet=%s", unit);
		snprintf(value, sizeof(value), "capabilities: [%s]", chart);
		cure_installation(finding, core, line, value, hint);
	} else if (kind == LACK_BPF && access("/sys/kernel/btf/vmlinux", F_OK) < 0) {
		kind = LACK_KERNEL;
	} else if (kind == LACK_WRITE && geteuid() != 0) {
		finding_hint(finding, "it runs as user %u: run it as root", geteuid());
	} else if (kind == LACK_WRITE) {
		cure_installation(finding, core, "ProtectKernelTunables=no",
			"securityContext: {privileged: true, allowPrivilegeEscalation: true}",
			hint);
	} else if (kind == LACK_OTHER) {
		finding_hint(finding, "headroom version lists what each tuner lacks");
	}
	if (kind != LACK_KERNEL)
		return;
	finding->severity = SEVERITY_ADVICE;
	finding_hint(finding, "this kernel does not have it: a newer one, or another build, does");
}

static struct finding *find_lack(const struct core *core, const struct tuner_status *tuner,
	const struct lack *lack, size_t number, struct proposal *proposal,
	const struct decide_input *input)
{
	static const char *const kinds[LACK_KINDS] = {
		[LACK_BPF] = "/bpf", [LACK_WRITE] = "/write", [LACK_KERNEL] = "/kernel"};
	struct instance instance = {.kind = INSTANCE_TUNER};
	struct finding *finding;

	snprintf(instance.name, sizeof(instance.name), "%s%s", tuner->ops->name,
		kinds[lack->kind] ? kinds[lack->kind] : "");
	/* Two of a kind are two findings. */
	if (number > 0)
		text_append(instance.name, sizeof(instance.name), "/%zu", number + 1);
	finding =
		find(proposal, input, CORE_AGENT_DEGRADED, REASON_TUNER_DEGRADED, NULL, &instance);
	if (!finding)
		return NULL;
	finding_message(finding, "%s", lack->why);
	cure_lack(finding, core, tuner->ops, lack->kind);
	return finding;
}

/* Returns whether a command reads the node once without root: its lacks are not the agent's. */
static bool is_user(const struct core *core)
{
	return !core->event && geteuid() != 0;
}

static void find_lacks(
	const struct core *core, struct proposal *proposal, const struct decide_input *input)
{
	for (size_t i = 0; i < core->node.n_tuners; i++) {
		const struct tuner_status *tuner = &core->node.tuners[i];
		const struct proposal *decided = &tuner->proposal;
		size_t numbers[LACK_KINDS] = {0};
		struct lack whole = {.kind = LACK_OTHER};
		struct finding *finding;
		bool waits;

		if (tuner->state != TUNER_DEGRADED)
			continue;
		for (size_t k = 0; k < decided->n_lacks; k++)
			(void)find_lack(core, tuner, &decided->lacks[k],
				numbers[decided->lacks[k].kind]++, proposal, input);
		waits = core_task_hangs(tuner, TASK_LOAD, input->now_us) ||
			core_lacks_sample(tuner, input->now_us);
		if (decided->n_lacks > 0 && !waits)
			continue;
		set_text(whole.why, tuner->why);
		finding = find_lack(core, tuner, &whole, numbers[LACK_OTHER], proposal, input);
		/* Perhaps the agent has no share of the CPU or of the disk. */
		if (finding && waits)
			read_own_pressure(core, finding);
	}
}

static void find_records(
	const struct core *core, struct proposal *proposal, const struct decide_input *input)
{
	struct instance values = {.kind = INSTANCE_FILE, .name = "/run/headroom"};
	struct instance journal = {.kind = INSTANCE_FILE};
	int error = core->values_error;
	struct finding *finding;

	set_text(journal.name, core_state_name());
	if (error < 0) {
		finding = find(proposal, input, CORE_AGENT_DEGRADED, REASON_VALUES_UNRECORDED, NULL,
			&values);
		if (finding) {
			if (error == -EPROTO)
				finding_message(finding, "%s", core->node.newer);
			else
				finding_message(finding,
					"%s: originals of values cannot be recorded, so values are only "
					"observed: %s",
					core_describe_values_error(core), core_values_cure(core));
			finding_hint(finding, "values are set as soon as they can be recorded");
		}
	}
	if (core->journal_error < 0) {
		finding = find(proposal, input, CORE_AGENT_DEGRADED, REASON_JOURNAL_UNUSABLE, NULL,
			&journal);
		if (finding) {
			finding_message(finding, "%s", core_describe_journal_error(core));
			finding_hint(finding, "headroom(8), FILES, says what they hold");
		}
	}
}

/*
 * A start takes this for a moment, rounded up from 36 MiB: the largest BPF program and the kernel's
 * types. Loads begin after the first poll has logged this, so it is the last word of an agent that
 * is killed: Kubernetes shows the end of its log.
 */
#define START_MEMORY (UINT64_C(40) << 20)

static void find_low_memory(
	const struct core *core, struct proposal *proposal, const struct decide_input *input)
{
	struct instance instance = {.kind = INSTANCE_TUNER, .name = OWN "/memory"};
	char limit[AMOUNT_MAX], needed[AMOUNT_MAX];
	struct finding *finding;

	if (core->memory_limit == 0 || core->memory_limit >= START_MEMORY)
		return;
	finding = find(
		proposal, input, CORE_AGENT_DEGRADED, REASON_MEMORY_LIMIT_LOW, NULL, &instance);
	if (!finding)
		return;
	finding_message(finding,
		"the agent's memory limit is %s, and its start takes up to %s: the kernel may kill it",
		amount_text((double)core->memory_limit, "memory", limit),
		amount_text((double)START_MEMORY, "memory", needed));
	cure_installation(finding, core, "MemoryMax=128M", "resources: {limits: {memory: 128Mi}}",
		"raise resources.limits.memory in the DaemonSet");
}

/* The message has the fault and its cure. */
static void find_config_fault(const struct config_fault *fault, struct proposal *proposal,
	const struct decide_input *input)
{
	struct instance instance = {.kind = INSTANCE_FILE};
	struct finding *finding;

	if (!fault->message[0])
		return;
	set_text(instance.name, fault->file);
	finding = find(proposal, input, CORE_CONFIG_INVALID, REASON_CONFIG_FAULT, NULL, &instance);
	if (!finding)
		return;
	finding->breaks = reason_rows[REASON_CONFIG_FAULT].help;
	finding_message(
		finding, "line %u, column %u: %s", fault->line, fault->column, fault->message);
	finding_hint(finding, "correct it; headroom check-config lists all faults");
}

static void find_own(struct core *core, struct proposal *proposal, const struct decide_input *input)
{
	struct instance instance = {.kind = INSTANCE_TUNER, .name = OWN};
	struct own own = {core, proposal, input,
		{[REST_FAILED] = {.slug = "settings-failed", .condition = CORE_SETTING_FAILED},
			[REST_CHANGED] = {.slug = "settings-changed",
				.condition = CORE_SETTING_DRIFTED},
			[REST_REMOVED] = {
				.slug = "settings-removed", .condition = CORE_SETTING_DRIFTED}}};
	struct finding *finding;

	/* Settings are many: their findings come last. */
	find_config_fault(&core->config_fault, proposal, input);
	if (core_wants_to_write(core))
		find_records(core, proposal, input);
	if (core->agent_error[0]) {
		finding = find(proposal, input, CORE_AGENT_DEGRADED, REASON_TUNER_DEGRADED, NULL,
			&instance);
		if (finding)
			finding_message(finding, "%s", core->agent_error);
	}
	if (!is_user(core))
		find_lacks(core, proposal, input);
	find_low_memory(core, proposal, input);
	find_not_restored(&own);
	for (size_t i = 0; i < core->node.n_settings; i++)
		find_failed(&core->node.settings[i], &own);
	for (size_t i = 0; i < core->node.n_settings; i++)
		find_changed(&core->node.settings[i], &own);
	for (size_t i = 0; i < core->node.n_settings; i++)
		find_removed(&core->node.settings[i], &own);
	find_rests(&own);
}

/* A pod can get its name after the event, when the runtime answers. */
static bool name_user(void *userdata, uint64_t cgroup, struct workload *workload)
{
	const struct core *core = userdata;

	return names_of_cgroup(core->facts.cgroups, cgroup, now_us(), workload);
}

#define NAMES_WANTED_US (10 * USEC_PER_SEC) /* from the worst moment of a finding */

/* Returns whether runtimes are to be asked at once: usually they are asked every 15 seconds. */
static bool wants_names(const struct finding_list *list, uint64_t now)
{
	for (size_t i = 0; i < list->n; i++) {
		const struct finding *finding = &list->findings[i];
		bool lacks = workload_lacks_name(&finding->instance.owner);

		for (unsigned k = 0; k < finding->n_who; k++)
			lacks |= workload_lacks_name(&finding->who[k].workload);
		if (lacks && now - finding->worst.at_us < NAMES_WANTED_US)
			return true;
	}
	return false;
}

/* ---- conditions ---- */

static void judge_condition(struct core *core, const struct condition_reading *judged)
{
	struct condition *condition = core->node.conditions;
	bool is_changed, is_known;

	while (condition->type != judged->type)
		condition++;
	is_changed = findings_judge(&core->node.findings, judged, condition);
	is_known = condition->since_us > 0;
	if (!is_changed && is_known)
		return;
	condition->since_us = realtime_us();
	/* The log has each finding. At the start, an unknown condition is not worth a line. */
	if (is_known && condition->status == CONDITION_UNKNOWN)
		log_notice(condition->type->name, "Unknown: %s",
			condition->message[0] ? condition->message : condition->slug);
}

/* Each type of a tuner has one reading; without one, the tuner is off. */
static void judge_tuner(struct core *core, const struct tuner_status *tuner)
{
	const struct proposal *proposal = &tuner->proposal;
	const struct condition_type *type = tuner->ops->tables->conditions;

	for (; type && type->name; type++) {
		struct condition_reading none = {
			.type = type, .status = CONDITION_UNKNOWN, .reason = REASON_TUNER_OFF};
		const struct condition_reading *judged = &none;

		for (size_t c = 0; c < proposal->n_conditions; c++)
			if (proposal->conditions[c].type == type)
				judged = &proposal->conditions[c];
		judge_condition(core, judged);
	}
}

/* Several tuners may have files that nothing verifies. */
static void take_unverified(const struct proposal *proposal, struct condition_reading *fine)
{
	for (size_t i = 0; i < proposal->n_conditions; i++) {
		const struct condition_reading *reading = &proposal->conditions[i];

		if (reading->type != &core_tables.conditions[CORE_WOULD_NOT_START])
			continue;
		condition_unknown(fine, reading->reason);
		condition_append(fine, "%s", reading->message);
	}
}

void core_judge(struct core *core)
{
	struct condition_reading fine[] = {
		[CORE_SETTING_DRIFTED] = {.reason = REASON_ALL_IN_SYNC},
		[CORE_SETTING_FAILED] = {.reason = REASON_NONE_FAILED},
		[CORE_AGENT_DEGRADED] = {.reason = REASON_ALL_ACTIVE},
		[CORE_CONFIG_INVALID] = {.reason = REASON_CONFIG_VALID},
		[CORE_WOULD_NOT_START] = {.reason = REASON_FILES_LOAD},
	};
	struct decide_input input = {.findings = core->node.findings.findings,
		.n_findings = core->node.findings.n,
		.config = core->config,
		.config_file = core->config_file,
		.tuners = core->node.tuners,
		.n_tuners = core->node.n_tuners,
		.now_us = now_us(),
		.realtime_us = realtime_us()};
	struct proposal proposal = {0};

	if (is_user(core)) {
		fine[CORE_AGENT_DEGRADED].status = CONDITION_UNKNOWN;
		fine[CORE_AGENT_DEGRADED].reason = REASON_TUNER_DEGRADED;
		set_text(fine[CORE_AGENT_DEGRADED].message,
			"run the command as root: its own lacks are not those of an agent");
	}
	find_own(core, &proposal, &input);
	observe(core, OWN, &proposal, input.now_us);
	proposal_clear(&proposal);
	findings_name(&core->node.findings, name_user, log_news, core);
	core->facts.names_wanted = wants_names(&core->node.findings, input.now_us);
	findings_sort(&core->node.findings);
	for (size_t i = 0; i < core->node.n_tuners; i++)
		judge_tuner(core, &core->node.tuners[i]);
	for (size_t i = 0; i < core->node.n_tuners; i++)
		take_unverified(&core->node.tuners[i].proposal, &fine[CORE_WOULD_NOT_START]);
	for (size_t i = 0; i < ARRAY_SIZE(fine); i++) {
		fine[i].type = &core_tables.conditions[i];
		judge_condition(core, &fine[i]);
	}
}
